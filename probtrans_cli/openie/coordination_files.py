"""Files of coordinations: rows of labels, JSON lines, or trees. The first lines tell which.

Rows of labels are the files that OpenIE6 is trained on: a line with the words of a sentence, below it the rows, a tag
for every word, an empty line behind them. JSON lines have an object a sentence, with positions from 0 and ends that are
not part of a conjunct: ``{"words": [...], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}``. Beside these,
``"separators": [3]`` may say which words separate the conjuncts. In corpora, the trees of CoNLL-U say what is
coordinated (:mod:`probtrans_cli.openie.coordination_trees`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from probtrans_cli.data.files import begin
from probtrans_cli.data.readers.appearance import begins_as_conllu
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import are_words
from probtrans_cli.errors import DataError
from probtrans_cli.openie.coordination_trees import coordinations_of_tree
from probtrans_cli.openie.coordinations import (
    TAGS,
    ByCoordinator,
    Coordination,
    coordinations_to_rows,
    coordinations_to_text,
    rows_to_coordinations,
)
from probtrans_cli.openie.label_rows import read_blocks
from probtrans_cli.recipe.data import Data
from probtrans_cli.text import from_json, printable


class CoordinatedSentence(NamedTuple):
    """A sentence and its coordinations, by the position of the coordinator."""

    words: list[str]
    coordinations: ByCoordinator
    where: str
    rows: Sequence[Sequence[int]] = ()
    """The labels of its words, where the file has them."""
    counts: Mapping[str, int] = {}
    """How many lines of tags were ``cut`` or ``padded``."""


def read_coordinations(lines: Iterable[str], name: str, *, fix: bool | None = None) -> Iterator[CoordinatedSentence]:
    """Yield the sentences of a file of rows of labels or of JSON lines.

    ``fix``: lines of more or fewer tags than their sentence has words are cut, or continued with NONE; None: they are
    not, and there is no recipe that could say it.

    Raises:
        DataError: a line cannot be read; the message begins with ``name:line:``.
    """
    is_trees, lines = begins_as_conllu(lines)
    if is_trees:
        hint = "give rows of labels (`parse -f labels`) or JSON lines; `train` and `eval` read coordinations of trees"
        raise DataError(f"{name}: this is CoNLL-U", hint=hint)
    first, lines = begin(lines)
    if first.startswith("{"):
        yield from (_from_json(line, f"{name}:{i}") for i, line in enumerate(lines, start=1) if line.strip())
        return
    for block in read_blocks(lines, name, TAGS, fix=fix):
        rows = [row[: len(block.words)] for row in block.rows]
        yield CoordinatedSentence(block.words, rows_to_coordinations(rows), block.where, rows, block.counts)


def _from_json(line: str, where: str) -> CoordinatedSentence:
    try:
        record = from_json(line)
        words = record["words"]
        if not are_words(words):
            raise TypeError("words is no list of words without white space")
        " ".join(words).encode()  # an escape may be half a character
        coordinations: ByCoordinator = {}
        for entry in record["coordinations"]:
            cc, conjuncts = entry["cc"], tuple((start, end) for start, end in entry["conjuncts"])
            separators = tuple(entry.get("separators", ()))
            ends = [end for conjunct in conjuncts for end in conjunct]
            if not all(type(number) is int for number in [cc, *ends, *separators]):
                raise TypeError("positions are whole numbers")
            ordered = all(start < end for start, end in conjuncts) and ends == sorted(ends)
            inside = len(conjuncts) >= 2 and ends[0] >= 0 and ends[-1] <= len(words)
            if not (ordered and inside and conjuncts[0][1] <= cc < conjuncts[-1][0]):
                message = "two conjuncts at least from left to right, and the coordinator between first and last"
                raise ValueError(message)
            if not all(ends[0] <= separator < ends[-1] for separator in separators):
                raise ValueError("separators stand between the first and the last conjunct")
            if cc in coordinations:
                raise ValueError(f"two coordinations with the coordinator {cc}")
            coordinations[cc] = Coordination(cc, conjuncts, separators)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        hint = 'a line is {"words": [...], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}'
        message = printable(f"{type(error).__name__}: {error}")
        raise DataError(f"{where}: not a sentence with coordinations ({message})", hint=hint) from None
    return CoordinatedSentence(words, coordinations, where)


def read_coordinated(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    """Yield the sentences of a corpus with a row of labels for each level of nested coordinations, at most
    ``data.rows``.

    ``counts`` says how many coordinations are kept, and why others were dropped. ``form`` has all of them, those
    without a row among them: they are scored.

    Raises:
        DataError: a line cannot be read, or a sentence of CoNLL-U has no tree; the message begins with ``name:line:``.
    """
    is_trees, lines = begins_as_conllu(lines)
    counts: Counter[str]
    if is_trees:
        for tree in read_conllu(lines, name):
            if tree.heads is None or tree.relations is None:
                hint = "coordinations are read from trees: every word needs a HEAD"
                raise DataError(f"{tree.where}: a sentence without a tree", hint=hint)
            coordinations, left_out = coordinations_of_tree(tree.heads, tree.relations, tree.tags.get("upos"))
            grid, counts = coordinations_to_rows(coordinations, len(tree.words), rows=data.rows)
            del left_out["found"]
            form = coordinations_to_text(coordinations)
            yield Sentence(words=tree.words, grid=grid, form=form, where=tree.where, counts=left_out + counts)
        return
    for sentence in read_coordinations(lines, name, fix=data.grid.fix_lengths):
        coordinations = [coordination for coordination in sentence.coordinations.values() if coordination is not None]
        if sentence.rows:  # the labels as they stand, which may say more than the coordinations that are read from them
            grid, counts = [list(row) for row in sentence.rows[: data.rows]], Counter(sentence.counts)
            counts.update("kept" if coordination.level < data.rows else "too deep" for coordination in coordinations)
        else:
            grid, counts = coordinations_to_rows(coordinations, len(sentence.words), rows=data.rows)
        form = coordinations_to_text(coordinations)
        yield Sentence(words=sentence.words, grid=grid, form=form, where=sentence.where, counts=counts)
