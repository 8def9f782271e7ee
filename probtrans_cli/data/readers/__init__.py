"""From files to sentences: the readers of all formats, and the table of them, :data:`READERS`.

A format is one row: :func:`register` takes the reader of a format that another package defines, and from then on
`data.format` may name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name

from probtrans_cli.data.blocks import Ends
from probtrans_cli.data.files import display_name, ending_of, open_lines
from probtrans_cli.data.readers.appearance import appearance, appearance_of
from probtrans_cli.data.readers.cogs import read_semantic
from probtrans_cli.data.readers.columns import read_tagged
from probtrans_cli.data.readers.conllu import read_conllu, read_treebank
from probtrans_cli.data.readers.lines import read_documents, read_jsonl, read_table, read_text
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.data import FORMATS, Data, Format

Read = Callable[[Iterable[str], str, Data], Iterator[Sentence]]


@dataclass(frozen=True, slots=True)
class Reader:
    """How the files of a format are read."""

    format: Format  # name of the format and what its files have
    read: Read
    """Yields the sentences of ``(lines, name, data)``: the lines of a file without their ends, the file's name in
    messages, and the section with the format's options. Its DataErrors begin with ``name:line:``."""
    ends: Ends | None = None
    """What ends a sentence, so that a file can be cut there and its parts read alone; None = it cannot be cut."""


READERS: Table[Reader] = Table("reader")
"""The reader of every format by the format's name, without `auto`, which stands for one of the others."""


def register(reader: Reader) -> Reader:
    """Add a format, to what `data.format` may name and to the readers."""
    if FORMATS.get(reader.format.name) is not reader.format:
        FORMATS.enter(reader.format.name, reader.format)
    READERS.enter(reader.format.name, reader)
    return reader


def _elsewhere(place: str, lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    return resolve_name(place)(lines, name, data)  # type: ignore[no-any-return]


register(Reader(FORMATS["conllu"], lambda lines, name, _: read_conllu(lines, name), "empty line"))
register(Reader(FORMATS["treebank"], lambda lines, name, _: read_treebank(lines, name)))
register(Reader(FORMATS["text"], lambda lines, name, _: read_text(lines, name), "line"))
register(Reader(FORMATS["columns"], lambda lines, name, data: read_tagged(lines, name, data.columns)))
register(Reader(FORMATS["table"], lambda lines, name, data: read_table(lines, name, data.table)))
register(Reader(FORMATS["jsonl"], lambda lines, name, data: read_jsonl(lines, name, data.jsonl)))
register(Reader(FORMATS["cogs"], lambda lines, name, _: read_semantic(lines, name)))
register(Reader(FORMATS["extractions"], partial(_elsewhere, "probtrans_cli.openie.corpora:read_extractions")))
register(
    Reader(FORMATS["coordinations"], partial(_elsewhere, "probtrans_cli.openie.coordination_files:read_coordinated"))
)
register(Reader(FORMATS["documents"], lambda lines, name, data: read_documents(lines, name, data.documents)))


def format_by_name(path: str | Path) -> str | None:
    """Return the format that claims the name of a file, or None."""
    name = str(path).lower()
    name = name.removesuffix(ending_of(name))
    formats = (format.name for format in FORMATS.values() if format.endings and name.endswith(format.endings))
    return next(formats, None)


def format_of(path: str | Path, format: str = "auto", lines: Sequence[str] | None = None) -> str:
    """Resolve `auto`: by the name of a file where a format claims it, else CoNLL-U where the file, or ``lines``, its
    content, looks so, else text. Standard input is text, unless ``lines`` has its content."""
    if format != "auto":
        return format
    if (by_name := format_by_name(path)) is not None:
        return by_name
    kind = appearance_of(path) if lines is None else appearance(lines)
    return "conllu" if kind == "conllu" else "text"


def read_corpus(
    path: str | Path, format: str = "auto", *, data: Data | None = None, lines: Iterable[str] | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a file (`-` is standard input) in its format; ``lines`` replaces its content.

    ``data`` has the options of the format; None = their defaults.
    """
    reader = READERS[format_of(path, format)]
    return reader.read(open_lines(path) if lines is None else lines, display_name(path), data or Data(train=str(path)))
