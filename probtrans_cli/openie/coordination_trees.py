"""Coordinations of dependency trees, as Universal Dependencies annotates them.

The first conjunct is the head of all others (relation ``conj``), and a coordinator (``cc``) depends on the conjunct
behind it; see the guidelines, https://universaldependencies.org/u/dep/conj.html. A conjunct is the words of a subtree,
without coordinators and punctuation at its ends. Of the first one, whose subtree also has what all conjuncts share:

- the other conjuncts are no part of it, nor is anything behind the last one (an object of all verbs);
- it begins behind a subject, an auxiliary or copula, a subordinator or a case marker on its left if no other conjunct
  has one of its own: in "Bell makes and distributes products", the conjuncts are "makes" and "distributes". A conjunct
  with a subject of its own shares no auxiliary.

Determiners and modifiers are taken for part of the first conjunct alone, which the tree does not say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conllu.models import Token, TokenTree

from probtrans_cli.openie.coordinations import Coordination, Span

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

    Raises:
        ValueError: the heads have a cycle.
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
    """Return whether the word at a position, from 0, is punctuation, a coordinator or part of one, below ``inside``."""
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
