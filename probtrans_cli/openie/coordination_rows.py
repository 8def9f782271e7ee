"""Files of coordinations: rows of labels, or JSON lines. The first line tells which.

Rows of labels are the files that OpenIE6 is trained on: a line with the words of a sentence, below it the rows, a tag
for every word, an empty line behind them. JSON lines have an object a sentence, with positions from 0 and ends that are
not part of a conjunct: ``{"words": [...], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}``. Beside these,
``"separators": [3]`` may say which words separate the conjuncts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from probtrans_cli.data.files import begin
from probtrans_cli.data.readers.appearance import begins_as_conllu
from probtrans_cli.data.tokens import are_words
from probtrans_cli.errors import DataError
from probtrans_cli.openie.coordinations import TAGS, Coordination, Found, rows_to_coordinations
from probtrans_cli.openie.label_rows import read_blocks
from probtrans_cli.text import from_json, printable


class Coordinated(NamedTuple):
    """A sentence and its coordinations, by the position of the coordinator."""

    words: list[str]
    found: Found
    where: str
    rows: Sequence[Sequence[int]] = ()
    """The labels of its words, where the file has them."""
    counts: Mapping[str, int] = {}
    """How many lines of tags were ``cut`` or ``padded``."""


def read_coordinations(lines: Iterable[str], name: str, *, fix: bool | None = None) -> Iterator[Coordinated]:
    """Yield the sentences of a file.

    ``fix``: lines of more or fewer tags than their sentence has words are cut, or continued with NONE; None: they are
    not, and there is no recipe that could say it.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    is_trees, given = begins_as_conllu(lines)
    if is_trees:
        hint = "give rows of labels (`parse -f labels`) or JSON lines; `train` and `eval` read coordinations of trees"
        raise DataError(f"{name}: this is CoNLL-U", hint=hint)
    first, given = begin(given)
    if first.startswith("{"):
        yield from (_from_json(line, f"{name}:{i}") for i, line in enumerate(given, start=1) if line.strip())
        return
    for block in read_blocks(given, name, TAGS, fix=fix):
        rows = [row[: len(block.words)] for row in block.rows]
        yield Coordinated(block.words, rows_to_coordinations(rows), block.where, rows, block.counts)


def _from_json(line: str, where: str) -> Coordinated:
    try:
        record = from_json(line)
        words = record["words"]
        if not are_words(words):
            raise TypeError("words is no list of words without white space")
        " ".join(words).encode()  # an escape may be half a character
        found: Found = {}
        for one in record["coordinations"]:
            coordination = _coordination(one, len(words))
            if coordination.cc in found:
                raise ValueError(f"two coordinations with the coordinator {coordination.cc}")
            found[coordination.cc] = coordination
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        hint = 'a line is {"words": [...], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}'
        message = printable(f"{type(error).__name__}: {error}")
        raise DataError(f"{where}: not a sentence with coordinations ({message})", hint=hint) from None
    return Coordinated(words, found, where)


def _coordination(one: Mapping[str, Any], length: int) -> Coordination:
    cc, conjuncts = one["cc"], tuple((start, end) for start, end in one["conjuncts"])
    separators = tuple(one.get("separators", ()))
    ends = [end for conjunct in conjuncts for end in conjunct]
    if not all(type(number) is int for number in [cc, *ends, *separators]):
        raise TypeError("positions are whole numbers")
    ordered = all(start < end for start, end in conjuncts) and ends == sorted(ends)
    inside = len(conjuncts) >= 2 and ends[0] >= 0 and ends[-1] <= length and conjuncts[0][1] <= cc < conjuncts[-1][0]
    if not (ordered and inside):
        raise ValueError("two conjuncts at least from left to right, and the coordinator between first and last")
    if not all(ends[0] <= separator < ends[-1] for separator in separators):
        raise ValueError("separators stand between the first and the last conjunct")
    return Coordination(cc, conjuncts, separators)
