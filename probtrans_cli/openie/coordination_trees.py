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


def coordinations_of_tree(
    heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None = None
) -> tuple[list[Coordination], Counter[str]]:
    """The coordinations of a tree from left to right, and how many were ``found`` and left out, by reason.

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
    found, counts = [], Counter[str]()
    for tree in trees[1:]:
        number = tree.token["id"]
        conjuncts = [one for one in tree.children if one.token["deprel"] == "conj" and one.token["id"] > number]
        if not conjuncts:
            continue
        try:
            found.append(_coordination(trees, tree, conjuncts))
            counts["found"] += 1
        except _LeftOutError as error:
            counts[str(error)] += 1
    return sorted(found, key=lambda one: (one.start, -one.end)), counts


class _LeftOutError(Exception):
    """There is no such coordination; the argument says why."""


def _subtrees(heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None) -> list[TokenTree]:
    """The tree below every word, behind the one of a root with ``id`` 0; children are in the order of words.

    A token has ``id`` and ``head``, from 1, ``deprel``, and of the words of its tree ``start`` and ``end``, the words
    ``[start, end)`` from 0, among which they are, and ``size``, their number. The trees are made here: conllu's own
    ``to_tree`` calls itself for each level, and a chain of a thousand words is too deep for that.

    Raises:
        ValueError: the heads have a cycle.
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


def _span(tree: TokenTree) -> Span:
    """The words of a tree.

    Raises:
        _LeftOutError: they are not neighbours.
    """
    start, end = tree.token["start"], tree.token["end"]
    if end - start != tree.token["size"]:
        raise _LeftOutError("not contiguous")
    return start, end


def _is_loose(trees: Sequence[TokenTree], position: int, inside: TokenTree) -> bool:
    """Whether the word at a position, from 0, is punctuation, a coordinator or part of one, and below ``inside``."""
    token = trees[position + 1].token
    while token is not inside.token:
        if token["deprel"] in _LOOSE:
            return True
        if token["deprel"] not in ("fixed", "flat", "goeswith"):
            return False
        token = trees[token["head"]].token
    return False


def _trimmed(trees: Sequence[TokenTree], span: Span, conjunct: TokenTree) -> Span:
    """The words of a conjunct, without what is loose at its ends."""
    start, end = span
    while start < conjunct.token["id"] - 1 and _is_loose(trees, start, conjunct):
        start += 1
    while end > conjunct.token["id"] and _is_loose(trees, end - 1, conjunct):
        end -= 1
    return start, end


def _coordination(trees: Sequence[TokenTree], head: TokenTree, conjuncts: Sequence[TokenTree]) -> Coordination:
    spans = [_span(one) for one in conjuncts]
    spans = [_trimmed(trees, span, one) for span, one in zip(spans, conjuncts, strict=True)]
    spans.insert(0, _first(trees, head, conjuncts))
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


def _first(trees: Sequence[TokenTree], head: TokenTree, conjuncts: Sequence[TokenTree]) -> Span:
    """The words of the first conjunct.

    Raises:
        _LeftOutError: they are not neighbours.
    """
    others = {SHARED.get(child.token["deprel"]) for one in conjuncts for child in one.children}
    if "subject" in others:
        others.add("auxiliary")
    before, number = conjuncts[0].token["start"], head.token["id"]
    own = [child.token for child in head.children if child.token["end"] <= before]
    begin = 0  # behind what is shared
    for token in own:
        kind = SHARED.get(token["deprel"])
        if token["id"] < number and kind is not None and kind not in others:
            begin = max(begin, token["end"])
    own = [token for token in own if token["start"] >= begin]
    start = min([number - 1, *(token["start"] for token in own)])
    end = max([number, *(token["end"] for token in own)])
    if end - start != 1 + sum(token["size"] for token in own):
        raise _LeftOutError("not contiguous")
    return _trimmed(trees, (start, end), head)
