"""Tables: one sentence a line, its words separated by spaces, and its label in another column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from probtrans_cli.data.readers.labelled import labelled, words_of
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Table


def read_table(lines: Iterable[str], name: str, table: Table) -> Iterator[Sentence]:
    """Yield a sentence for every line that is not blank: its text, split at spaces, and its label.

    Raises:
        DataError: a line has too few columns, or no label; the message names it.
    """
    last = max(table.text, table.label)
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\r")
        if not line.strip() or (table.header and number == 1):
            continue
        columns = line.split(table.separator, last)
        if len(columns) <= last:
            hint = "see data.table: which column is text, which label, and what separates them"
            raise DataError(f"{name}:{number}: {len(columns)} of {last + 1} columns", hint=hint)
        yield labelled(words_of(columns[table.text]), columns[table.label], f"{name}:{number}")
