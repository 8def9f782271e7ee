"""The files of supervised-oie (Stanovsky et al. 2018): a block for each tuple, with a line for each word.

Columns are separated by tabs: the word's number, the word, the predicate, its words' numbers, the number of its head,
the sentence, the run, and the label: ``P-B`` and ``P-I`` of the predicate, ``A0-B`` to ``A5-I`` of arguments, ``O``.
Blank lines stand between blocks; the first line may name the columns. Blocks of the same words, one after the other,
are one sentence, and of several blocks of a predicate (several answers to a question) the first one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from probtrans_cli.data.tokens import are_words
from probtrans_cli.errors import DataError
from probtrans_cli.openie.tuple_groups import GivenSentence, GivenTuple, extraction_of
from probtrans_cli.text import printable

FIRST_COLUMN = "word_id"
_COLUMNS = 8
_WORD, _HEAD, _LABEL = 1, 4, 7
_LABELS = ("O", *(f"{part}-{side}" for part in ("P", *(f"A{i}" for i in range(6))) for side in "BI"))


class _Block(NamedTuple):
    words: tuple[str, ...]
    head: str
    labels: tuple[str, ...]
    where: str


def is_row(fields: Sequence[str]) -> bool:
    """Whether columns are those of such a file."""
    return fields[0] == FIRST_COLUMN or (len(fields) == _COLUMNS and fields[0].isdecimal() and fields[-1] in _LABELS)


def read_oie_conll(lines: Iterable[str], name: str) -> Iterator[GivenSentence]:
    """Yield the sentences of a file.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    for words, blocks in groupby(_blocks(lines, name), key=lambda block: block.words):
        sentence: GivenSentence | None = None
        heads: set[str] = set()
        for block in blocks:
            sentence = sentence or GivenSentence(list(words), block.where)
            if block.head in heads:
                sentence.counts["of a predicate that has one"] += 1
            else:
                heads.add(block.head)
                sentence.tuples.append(_tuple(block))
        if sentence is not None:
            yield sentence


def _blocks(lines: Iterable[str], name: str) -> Iterator[_Block]:
    rows: list[tuple[list[str], str]] = []
    for number, line in enumerate(chain(lines, [""]), start=1):
        fields, where = line.strip().split("\t"), f"{name}:{number}"
        if fields == [""]:
            if rows:
                columns = list(zip(*(row for row, _ in rows), strict=True))
                yield _Block(columns[_WORD], columns[_HEAD][0], columns[_LABEL], rows[0][1])
            rows = []
        elif fields[0] != FIRST_COLUMN:
            if len(fields) != _COLUMNS:
                hint = "word_id, word, pred, pred_id, head_pred_id, sent_id, run_id, label, separated by tabs"
                raise DataError(f"{where}: {len(fields)} of {_COLUMNS} columns", hint=hint)
            if fields[_LABEL] not in _LABELS:
                message = f"{where}: unknown label {printable(fields[_LABEL])!r}"
                raise DataError(message, hint=f"labels are {', '.join(_LABELS)}")
            if not are_words([fields[_WORD]]):
                message = f"white space in the word {fields[_WORD]!r}" if fields[_WORD].strip() else "an empty word"
                raise DataError(f"{where}: {message}", hint="the second column is the word")
            rows.append((fields, where))


def _tuple(block: _Block) -> GivenTuple:
    parts = [
        [i for i, label in enumerate(block.labels) if label.partition("-")[0] == part]
        for part in ("P", *(f"A{i}" for i in range(6)))
    ]
    texts = [" ".join(block.words[i] for i in part) for part in parts]
    return GivenTuple([*texts[:2], *filter(None, texts[2:])], extraction_of(parts))
