"""Files of coordinations: rows of labels, JSON lines, or trees. The first lines tell which.

Rows of labels are the files that OpenIE6 is trained on: a line with the words of a sentence, below it the rows, a tag
for every word, an empty line behind them. JSON lines have an object a sentence, with positions from 0 and ends that are
not part of a conjunct: ``{"words": [...], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}``. Beside these,
``"separators": [3]`` may say which words separate the conjuncts.

In corpora, dependency trees of CoNLL-U say what is coordinated, as Universal Dependencies annotates it. The first
conjunct is the head of all others (relation ``conj``), and a coordinator (``cc``) depends on the conjunct behind it
(see https://universaldependencies.org/u/dep/conj.html). A conjunct is the words of a subtree, without
coordinators and punctuation at its ends. Of the first one, whose subtree also has what all conjuncts share:

- the other conjuncts are no part of it, nor is anything behind the last one (an object of all verbs);
- it begins behind a subject, an auxiliary or copula, a subordinator or a case marker on its left if no other conjunct
  has one of its own: in "Bell makes and distributes products", the conjuncts are "makes" and "distributes". A conjunct
  with a subject of its own shares no auxiliary.

Determiners and modifiers are taken for part of the first conjunct alone, which the tree does not say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from conllu.models import Token, TokenTree

from probtrans_cli.data.files import begin
from probtrans_cli.data.readers.appearance import begins_as_conllu
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import are_words
from probtrans_cli.errors import DataError
from probtrans_cli.openie.coordinations import (
    TAGS,
    ByCoordinator,
    Coordination,
    Span,
    coordinations_to_rows,
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
    rows: Sequence[Sequence[int]] = ()  # the labels of its words, where the file has them
    counts: Mapping[str, int] = {}  # how many lines of tags were ``cut`` or ``padded``


def read_coordinations(lines: Iterable[str], name: str, *, fix: bool | None = None) -> Iterator[CoordinatedSentence]:
    """Yield the sentences of a file of rows of labels or of JSON lines.

    ``fix``: lines of more or fewer tags than their sentence has words are cut, or continued with NONE; None: they are
    not, and there is no recipe that could say it.
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
    without a row among them: they are scored. It is a JSON list of ``[coordinator, [[from, to], ...]]``.

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
            form = json.dumps([[each.cc, each.conjuncts] for each in coordinations])
            yield Sentence(words=tree.words, grid=grid, form=form, where=tree.where, counts=left_out + counts)
        return
    for sentence in read_coordinations(lines, name, fix=data.grid.fix_lengths):
        coordinations = [coordination for coordination in sentence.coordinations.values() if coordination is not None]
        if sentence.rows:  # the labels as they stand, which may say more than the coordinations that are read from them
            grid, counts = [list(row) for row in sentence.rows[: data.rows]], Counter(sentence.counts)
            counts.update("kept" if coordination.level < data.rows else "too deep" for coordination in coordinations)
        else:
            grid, counts = coordinations_to_rows(coordinations, len(sentence.words), rows=data.rows)
        form = json.dumps([[each.cc, each.conjuncts] for each in coordinations])
        yield Sentence(words=sentence.words, grid=grid, form=form, where=sentence.where, counts=counts)


# --- dependency trees -------------------------------------------------------------------------------------------------

SHARED = {
    "nsubj": "subject",
    "csubj": "subject",
    "expl": "subject",
    "aux": "auxiliary",
    "cop": "auxiliary",
    "mark": "mark",
    "case": "case",
}
"""What conjuncts may share on the left of the first one, by relation."""
_PAIRED = "cc:preconj"  # "both" of "both A and B"
_LOOSE = ("cc", _PAIRED, "punct")  # at the ends of a conjunct


class _LeftOutError(Exception):
    """There is no such coordination; the argument says why."""


def coordinations_of_tree(
    heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None = None
) -> tuple[list[Coordination], Counter[str]]:
    """Return the coordinations of a tree from left to right, and how many were ``found`` and left out, by reason.

    Left out are coordinations without a coordinator between the first and the last conjunct (``no coordinator``), and
    those one of whose conjuncts is not of neighbouring words, or that have other words than coordinators and
    punctuation between two conjuncts (``not contiguous``).

    Args:
        heads: of every word, 0 for the root, otherwise from 1.
        relations: of every word to its head (DEPREL), with or without a subtype.
        upos: the universal part of speech of every word, where it is known: PUNCT is punctuation, with any relation.
    """
    trees = _subtrees(heads, relations, upos)
    coordinations, counts = [], Counter[str]()
    for tree in trees[1:]:
        number = tree.token["id"]
        conjuncts = [child for child in tree.children if child.token["deprel"] == "conj" and child.token["id"] > number]
        if conjuncts:
            try:
                coordinations.append(_coordination(trees, tree, conjuncts))
                counts["found"] += 1
            except _LeftOutError as error:
                counts[str(error)] += 1
    coordinations.sort(key=lambda coordination: (coordination.start, -coordination.end))
    return coordinations, counts


def _subtrees(heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None) -> list[TokenTree]:
    """Return the tree below every word, behind that of a root with ``id`` 0; children are in the order of words.

    A token has ``id`` and ``head``, from 1, ``deprel``, and of the words of its tree ``start`` and ``end``, the words
    ``[start, end)`` from 0, among which they are, and ``size``, their number. The trees are made here: conllu's own
    ``to_tree`` calls itself for each level, and a chain of a thousand words is too deep for that.
    """
    trees = [TokenTree(Token(id=0, deprel="", start=len(heads), end=0, size=0), [])]
    for number, (head, relation) in enumerate(zip(heads, relations, strict=True), start=1):
        deprel = relation if relation == _PAIRED else relation.partition(":")[0]
        if upos is not None and upos[number - 1] == "PUNCT" and deprel != "conj":
            deprel = "punct"
        token = Token(id=number, head=head, deprel=deprel, start=number - 1, end=number, size=1)
        trees.append(TokenTree(token, []))
    for tree in trees[1:]:
        trees[tree.token["head"]].children.append(tree)
    order = trees[:1]
    for tree in order:  # which grows
        order += tree.children
    if len(order) != len(trees):
        raise ValueError("the heads have a cycle")
    for tree in reversed(order[1:]):
        token, above = tree.token, trees[tree.token["head"]].token
        above["start"] = min(above["start"], token["start"])
        above["end"] = max(above["end"], token["end"])
        above["size"] += token["size"]
    return trees


def _is_loose(trees: Sequence[TokenTree], position: int, inside: TokenTree) -> bool:
    token = trees[position + 1].token
    while token is not inside.token:
        if token["deprel"] in _LOOSE:
            return True
        if token["deprel"] not in ("fixed", "flat", "goeswith"):
            return False
        token = trees[token["head"]].token
    return False


def _trimmed(trees: Sequence[TokenTree], span: Span, size: int, conjunct: TokenTree) -> Span:
    """Return the words of a conjunct, without what is loose at its ends; ``size``: how many words it has.

    Raises:
        _LeftOutError: they are not neighbours.
    """
    start, end = span
    if end - start != size:
        raise _LeftOutError("not contiguous")
    while start < conjunct.token["id"] - 1 and _is_loose(trees, start, conjunct):
        start += 1
    while end > conjunct.token["id"] and _is_loose(trees, end - 1, conjunct):
        end -= 1
    return start, end


def _coordination(trees: Sequence[TokenTree], head: TokenTree, conjuncts: Sequence[TokenTree]) -> Coordination:
    spans = [_first_conjunct(trees, head, conjuncts)]
    for tree in conjuncts:
        token = tree.token
        spans.append(_trimmed(trees, (token["start"], token["end"]), token["size"], tree))
    cc, separators = -1, []
    for (_, start), (end, _), behind in zip(spans, spans[1:], conjuncts, strict=False):
        if start > end:
            raise _LeftOutError("not contiguous")
        for i in range(start, end):
            if not (_is_loose(trees, i, head) or _is_loose(trees, i, behind)):
                raise _LeftOutError("not contiguous")
            relation = trees[i + 1].token["deprel"]
            if relation == "cc":
                separators += [cc] if cc >= 0 else []
                cc = i
            elif relation == "punct":
                separators.append(i)
    if cc < 0:
        raise _LeftOutError("no coordinator")
    return Coordination(cc, tuple(spans), tuple(i for i in sorted(separators) if i != cc - 1))


def _first_conjunct(trees: Sequence[TokenTree], head: TokenTree, conjuncts: Sequence[TokenTree]) -> Span:
    of_rest = {SHARED.get(child.token["deprel"]) for tree in conjuncts for child in tree.children}
    if "subject" in of_rest:
        of_rest.add("auxiliary")
    before, number = conjuncts[0].token["start"], head.token["id"]
    children = [child.token for child in head.children if child.token["end"] <= before]
    begin = 0  # behind what is shared
    for token in children:
        kind = SHARED.get(token["deprel"])
        if token["id"] < number and kind is not None and kind not in of_rest:
            begin = max(begin, token["end"])
    children = [token for token in children if token["start"] >= begin]
    start = min([number - 1, *(token["start"] for token in children)])
    end = max([number, *(token["end"] for token in children)])
    return _trimmed(trees, (start, end), 1 + sum(token["size"] for token in children), head)
