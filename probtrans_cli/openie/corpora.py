"""Corpora of open information extraction: sentences with their tuples as rows of labels.

Files have different forms, and the first line that is not blank tells which a file has:

- rows of labels, whose sentences end in ``[unused1] [unused2] [unused3]``
  (:mod:`probtrans_cli.openie.label_rows`);
- CaRB's gold lines, which LSOIE's science part has as well, tuple lines of AllenNLP, and JSON lines
  (:mod:`probtrans_cli.openie.tuple_files`);
- output of OpenIE-4, and LSOIE with positions (:mod:`probtrans_cli.openie.tuple_lines`);
- the columns of supervised-oie (:mod:`probtrans_cli.openie.oie_conll`).

Where a file does not say which words a tuple has, they are looked for
(:mod:`probtrans_cli.openie.extraction_rows`). Arguments stay in the order of the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from probtrans_cli.data.files import begin
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.openie.extraction_rows import CORPUS_SHARE, TupleWords, tuples_to_rows
from probtrans_cli.openie.extractions import TAGS, Extraction, rows_to_tuples, tuple_to_row
from probtrans_cli.openie.label_rows import Block, read_blocks
from probtrans_cli.openie.oie_conll import is_row, read_oie_conll
from probtrans_cli.openie.tuple_corpora import read_texts
from probtrans_cli.openie.tuple_groups import GivenSentence, GivenTuple
from probtrans_cli.openie.tuple_lines import RELATION, read_openie4, read_positions
from probtrans_cli.recipe.data import Data


def read_extractions(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    """Yield the sentences of a file, each with its extra words behind it.

    ``form`` has all tuples of a sentence as texts, ``grid`` the rows of those that are kept, at most ``data.rows`` of
    them, and ``counts`` how many these are, and why others were dropped.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    for sentence in read_given(lines, name, data):
        yield _with_rows(sentence, data)


def read_given(lines: Iterable[str], name: str, data: Data) -> Iterator[GivenSentence]:
    """Yield the sentences of a file with all tuples that it has; :func:`places_of` tells which of them are rows.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    first, every = begin(lines)
    fields = first.split("\t")
    if first.startswith("{") and len(fields) == 1:
        return read_texts(every, name)
    if len(fields) == 1:
        return (_of_block(block, data) for block in read_blocks(every, name, TAGS, fix=data.grid.fix_lengths))
    if is_row(fields):
        return read_oie_conll(every, name)
    if any(field.startswith(RELATION) for field in fields):
        return read_openie4(every, name)
    if fields[1].startswith(("('", '("')):
        return read_positions(every, name)
    return read_texts(every, name)


def _of_block(block: Block, data: Data) -> GivenSentence:
    """The tuples of rows of labels; a row without a label is none."""
    words, names = block.words, data.extra_words
    sentence = GivenSentence(words, block.where, counts=block.counts)
    for row in block.rows:
        behind = row[len(words) :]
        if any(behind[len(names) :]):
            sentence.counts["extra word"] += 1
            continue
        behind = [*behind[: len(names)], *[0] * (len(names) - len(behind))]
        whole = [*row[: len(words)], *behind]
        for one in rows_to_tuples(words, [whole], extra_words=names, dropped=sentence.counts):  # one, or none
            arg1, relation, arg2 = one.texts(words)
            sentence.tuples.append(GivenTuple([relation, arg1, *([arg2] if arg2 else [])], one))
    return sentence


def places_of(given: GivenSentence, names: Sequence[str], rows: int | None) -> list[Extraction | None]:
    """Of every tuple of a sentence its words; None: it is no row of labels.

    How many are ``kept``, and why others are not, is added to ``given.counts``.

    Args:
        given: the sentence.
        names: what its extra words stand for.
        rows: the most rows that there may be; None: any number.
    """
    words, counts = given.words, given.counts
    places: list[Extraction | None] = []
    seen: set[str] = set()
    for one in given.tuples:
        places.append(None)
        found, said = one.found, Counter({"kept": 1})
        if isinstance(found, TupleWords):
            labelled = tuples_to_rows(words, [found], extra_words=names, share=CORPUS_SHARE)
            found, said = next(iter(labelled.extractions), ""), labelled.counts
        if isinstance(found, str):
            counts.update({found: 1} if found else said)
        elif reason := _refused(found, words, names, seen) or ("too many" if counts["kept"] == rows else None):
            counts[reason] += 1
        else:
            places[-1] = found
            counts.update(said)
    return places


def _with_rows(given: GivenSentence, data: Data) -> Sentence:
    words, names = given.words, data.extra_words
    places = places_of(given, names, data.rows)
    tags = {column: [*tags, *["_"] * len(names)] for column, tags in given.tags.items()}
    return Sentence(
        words=[*words, *extra_words(len(names))],
        tags=tags,
        grid=[tuple_to_row(one, len(words), names) for one in places if one is not None],
        extra=len(names),
        form=json.dumps([one.texts for one in given.tuples], ensure_ascii=False),
        where=given.where,
        counts=given.counts,
    )


def _refused(one: Extraction, words: Sequence[str], names: Sequence[str], seen: set[str]) -> str | None:
    """Why a tuple is no row: that of :func:`rows_to_tuples`, or that there is no such extra word."""
    if one.added and (one.added[0] not in names[:1] or any(word not in names[1:] for word in one.added[1:])):
        return "extra word"
    texts = one.texts(words)
    if not (texts.arg1 and texts.relation):
        return "incomplete"
    if texts.key in seen:
        return "repeated"
    seen.add(texts.key)
    return None
