"""Corpora of open information extraction: sentences with their tuples as rows of labels.

Files have different forms, and what a file begins with tells which it has:

- rows of labels, whose sentences end in ``[unused1] [unused2] [unused3]``; see
  :mod:`probtrans_cli.data.readers.label_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from probtrans_cli.data.codecs.extractions import TAGS, Texts, rows_to_tuples, tuple_to_row
from probtrans_cli.data.readers.label_rows import Block, read_blocks
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.recipe.data import Data


def read_extractions(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    """Yield the sentences of a file, each with its extra words behind it.

    ``form`` has all tuples of a sentence as texts, ``grid`` the rows of those that are kept, at most ``data.rows`` of
    them, and ``counts`` how many these are, and why others were dropped.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    for block in read_blocks(lines, name, TAGS, fix=data.grid.fix_lengths):
        yield _from_rows(block, data)


def _from_rows(block: Block, data: Data) -> Sentence:
    words, names, counts = block.words, data.extra_words, block.counts
    rows: list[list[int]] = []
    form: list[list[str]] = []
    seen: set[str] = set()
    for row in block.rows:
        behind = row[len(words) :]
        if any(behind[len(names) :]):
            counts["extra word"] += 1
            continue
        behind = [*behind[: len(names)], *[0] * (len(names) - len(behind))]
        found = rows_to_tuples(words, [[*row[: len(words)], *behind]], extra_words=names, seen=seen, dropped=counts)
        for one in found:  # one, or none
            form.append(_as_gold(one.texts(words)))
            if len(rows) < data.rows:
                rows.append(tuple_to_row(one, len(words), names))
                counts["kept"] += 1
            else:
                counts["too many"] += 1
    return with_rows(words, rows, form, data, block.where, counts)


def _as_gold(texts: Texts) -> list[str]:
    return [texts.relation, texts.arg1, *([texts.arg2] if texts.arg2 else [])]


def with_rows(
    words: Sequence[str],
    rows: list[list[int]],
    form: Sequence[Sequence[str]],
    data: Data,
    where: str,
    counts: dict[str, int],
) -> Sentence:
    """The sentence of these words, with its extra words behind it."""
    extra = len(data.extra_words)
    return Sentence(
        words=[*words, *extra_words(extra)],
        grid=rows,
        extra=extra,
        form=json.dumps(form, ensure_ascii=False),
        where=where,
        counts=counts,
    )
