"""Corpora of coordinations: sentences with a row of labels for each level of nested coordinations.

What a file begins with tells its form: rows of labels, JSON lines (both as in
:mod:`probtrans_cli.openie.coordination_rows`), or CoNLL-U, whose trees say what is coordinated (see
:mod:`probtrans_cli.openie.coordination_trees`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from probtrans_cli.data.readers.appearance import begins_as_conllu
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.openie.coordination_rows import Coordinated, read_coordinations
from probtrans_cli.openie.coordination_trees import coordinations_of_tree
from probtrans_cli.openie.coordinations import Coordination, coordinations_to_rows, found_to_text
from probtrans_cli.recipe.data import Data


def read_coordinated(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    """Yield the sentences of a file with their rows, at most ``data.rows``; ``counts`` says how many coordinations are
    kept, and why others were dropped. ``form`` has all that are found, those without a row among them: they are scored.

    Raises:
        DataError: a line cannot be read, or a sentence of CoNLL-U has no tree; the message begins with ``name:line:``.
    """
    is_trees, everything = begins_as_conllu(lines)
    if is_trees:
        yield from (_of_tree(sentence, data.rows) for sentence in read_conllu(everything, name))
    else:
        found = read_coordinations(everything, name, fix=data.grid.fix_lengths)
        yield from (_of_rows(one, data.rows) if one.rows else _of_coordinations(one, data.rows) for one in found)


def _of_tree(sentence: Sentence, rows: int) -> Sentence:
    if sentence.heads is None or sentence.relations is None:
        hint = "coordinations are read from trees: every word needs a HEAD"
        raise DataError(f"{sentence.where}: a sentence without a tree", hint=hint)
    found, left_out = coordinations_of_tree(sentence.heads, sentence.relations, sentence.tags.get("upos"))
    grid, counts = coordinations_to_rows(found, len(sentence.words), rows=rows)
    left_out.pop("found", None)
    form = found_to_text(found)
    return Sentence(words=sentence.words, grid=grid, form=form, where=sentence.where, counts=left_out + counts)


def _of_coordinations(one: Coordinated, rows: int) -> Sentence:
    there = _there(one)
    grid, counts = coordinations_to_rows(there, len(one.words), rows=rows)
    return Sentence(words=one.words, grid=grid, form=found_to_text(there), where=one.where, counts=counts)


def _of_rows(one: Coordinated, rows: int) -> Sentence:
    """The labels as they stand, which may say more than the coordinations that are found in them."""
    counts, there = Counter(one.counts), _there(one)
    for coordination in there:
        counts["kept" if coordination.level < rows else "too deep"] += 1
    grid = [list(row) for row in one.rows[:rows]]
    return Sentence(words=one.words, grid=grid, form=found_to_text(there), where=one.where, counts=counts)


def _there(one: Coordinated) -> list[Coordination]:
    return [coordination for coordination in one.found.values() if coordination is not None]
