"""Coordinations of dependency trees by lists of positions: an older form of the package's own, to compare with.

What is a conjunct is said in :mod:`probtrans_cli.openie.coordination_trees`. Nothing here knows conllu.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from probtrans_cli.openie.coordination_trees import SHARED
from probtrans_cli.openie.coordinations import Coordination, Span

_PAIRED = "cc:preconj"
_LOOSE = ("cc", _PAIRED, "punct")


def coordinations_by_positions(
    heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None = None
) -> tuple[list[Coordination], Counter[str]]:
    """As :func:`probtrans_cli.openie.coordination_trees.coordinations_of_tree`."""
    subtrees = _Subtrees(heads, relations, upos)
    found, counts = [], Counter[str]()
    for head, children in enumerate(subtrees.children):
        conjuncts = [child for child in children if subtrees.relations[child] == "conj" and child > head]
        if not conjuncts:
            continue
        try:
            found.append(_coordination(subtrees, head, conjuncts))
            counts["found"] += 1
        except _LeftOutError as error:
            counts[str(error)] += 1
    return sorted(found, key=lambda one: (one.start, -one.end)), counts


class _LeftOutError(Exception):
    """There is no such coordination; the argument says why."""


class _Subtrees:
    """Every word's children, and first word, last word and number of words of its subtree; positions are from 0."""

    def __init__(self, heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None) -> None:
        self.relations = [one if one == _PAIRED else one.partition(":")[0] for one in relations]
        if upos is not None:
            self.relations = [
                "punct" if tag == "PUNCT" and relation != "conj" else relation
                for tag, relation in zip(upos, self.relations, strict=True)
            ]
        count = len(heads)
        self.heads = [head - 1 for head in heads]
        self.children: list[list[int]] = [[] for _ in heads]
        roots: list[int] = []
        for word, head in enumerate(self.heads):
            (roots if head < 0 else self.children[head]).append(word)
        order = list(roots)
        for word in order:  # which grows
            order += self.children[word]
        if len(order) != count:
            raise ValueError("the heads have a cycle")
        self.first, self.last, self.size = list(range(count)), list(range(count)), [1] * count
        for word in reversed(order):
            head = self.heads[word]
            if head >= 0:
                self.first[head] = min(self.first[head], self.first[word])
                self.last[head] = max(self.last[head], self.last[word])
                self.size[head] += self.size[word]

    def span(self, word: int) -> Span:
        """The words of a subtree.

        Raises:
            _LeftOutError: they are not neighbours.
        """
        start, end = self.first[word], self.last[word] + 1
        if end - start != self.size[word]:
            raise _LeftOutError("not contiguous")
        return start, end

    def loose(self, word: int, inside: int) -> bool:
        """Whether a word is punctuation, a coordinator or part of one, somewhere below the word ``inside``."""
        while word not in (inside, -1):
            if self.relations[word] in _LOOSE:
                return True
            if self.relations[word] not in ("fixed", "flat", "goeswith"):
                return False
            word = self.heads[word]
        return False

    def trimmed(self, span: Span, word: int) -> Span:
        """The words of a conjunct with head ``word``, without what is loose at its ends."""
        start, end = span
        while start < word and self.loose(start, word):
            start += 1
        while end - 1 > word and self.loose(end - 1, word):
            end -= 1
        return start, end


def _coordination(trees: _Subtrees, head: int, conjuncts: Sequence[int]) -> Coordination:
    spans = [trees.span(word) for word in conjuncts]
    spans = [trees.trimmed(span, word) for span, word in zip(spans, conjuncts, strict=True)]
    spans.insert(0, _first(trees, head, conjuncts))
    cc, separators = -1, []
    heads = [head, *conjuncts]
    for (_, start), (end, _), word in zip(spans, spans[1:], heads[1:], strict=False):
        if start > end:
            raise _LeftOutError("not contiguous")
        for i in range(start, end):
            if not (trees.loose(i, head) or trees.loose(i, word)):
                raise _LeftOutError("not contiguous")
            if trees.relations[i] == "cc":
                separators += [cc] if cc >= 0 else []
                cc = i
            elif trees.relations[i] == "punct":
                separators.append(i)
    if cc < 0:
        raise _LeftOutError("no coordinator")
    return Coordination(cc, tuple(spans), tuple(i for i in sorted(separators) if i != cc - 1))


def _first(trees: _Subtrees, head: int, conjuncts: Sequence[int]) -> Span:
    """The words of the first conjunct.

    Raises:
        _LeftOutError: they are not neighbours.
    """
    others = {SHARED.get(trees.relations[child]) for word in conjuncts for child in trees.children[word]}
    if "subject" in others:
        others.add("auxiliary")
    before = trees.first[conjuncts[0]]
    own = [child for child in trees.children[head] if child not in conjuncts and trees.last[child] < before]
    begin = 0  # behind what is shared
    for child in own:
        kind = SHARED.get(trees.relations[child])
        if child < head and kind is not None and kind not in others:
            begin = max(begin, trees.last[child] + 1)
    own = [child for child in own if trees.first[child] >= begin]
    start = min([head, *(trees.first[child] for child in own)])
    end = max([head, *(trees.last[child] for child in own)]) + 1
    if end - start != 1 + sum(trees.size[child] for child in own):
        raise _LeftOutError("not contiguous")
    return trees.trimmed((start, end), head)
