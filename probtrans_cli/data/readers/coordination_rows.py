"""Files of coordinations: rows of labels, or JSON lines. The first line tells which.

Rows of labels are the files that OpenIE6 is trained on: a line with the words of a sentence, below it the rows, a tag
for every word, an empty line behind them. JSON lines have an object a sentence, with positions from 0 and ends that are
not part of a conjunct: ``{"words": [...], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from probtrans_cli.data.codecs.coordinations import TAGS, Coordination, Found, rows_to_coordinations
from probtrans_cli.errors import DataError
from probtrans_cli.text import from_json, printable


class Coordinated(NamedTuple):
    """A sentence and its coordinations, by the position of the coordinator."""

    words: list[str]
    found: Found
    where: str


def read_coordinations(lines: Iterable[str], name: str) -> Iterator[Coordinated]:
    """Yield the sentences of a file.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    block: list[tuple[list[str], str]] = []
    is_json: bool | None = None
    for number, line in enumerate(lines, start=1):
        where = f"{name}:{number}"
        if line.strip():
            is_json = line.lstrip().startswith("{") if is_json is None else is_json
            if is_json:
                yield _from_json(line, where)
            else:
                block.append((line.split(), where))
        elif block:
            yield _from_block(block)
            block = []
    if block:
        yield _from_block(block)


def _from_block(block: list[tuple[list[str], str]]) -> Coordinated:
    (words, where), *tagged = block
    if all(word in TAGS for word in words):
        raise DataError(f"{where}: tags before any sentence", hint="the words stand above their tags")
    rows = []
    for tags, here in tagged:
        unknown = next((tag for tag in tags if tag not in TAGS), None)
        if unknown is not None:
            hint = f"tags are {', '.join(TAGS)}; an empty line stands between two sentences"
            raise DataError(f"{here}: unknown tag {printable(unknown)!r}", hint=hint)
        if len(tags) != len(words):
            hint = "every word has one tag in every row"
            raise DataError(f"{here}: {len(tags)} tags of the {len(words)} words of {where}", hint=hint)
        rows.append([TAGS[tag] for tag in tags])
    return Coordinated(words, rows_to_coordinations(rows), where)


def _from_json(line: str, where: str) -> Coordinated:
    try:
        record = from_json(line)
        words = record["words"]
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise TypeError("words is no list of texts")
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
    ends = [end for conjunct in conjuncts for end in conjunct]
    if not all(type(number) is int for number in [cc, *ends]):
        raise TypeError("positions are whole numbers")
    ordered = all(start < end for start, end in conjuncts) and ends == sorted(ends)
    inside = len(conjuncts) >= 2 and ends[0] >= 0 and ends[-1] <= length and conjuncts[0][1] <= cc < conjuncts[-1][0]
    if not (ordered and inside):
        raise ValueError("two conjuncts at least from left to right, and the coordinator between first and last")
    return Coordination(cc, conjuncts)
