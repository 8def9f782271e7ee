"""Named entities as one tag a word: what each scheme means, and how tags become spans and spans tags.

Every scheme writes ``O`` for a word outside and ``LETTER-TYPE`` for a word of an entity of that type:

======  ==================================================================================================
iob2    (BIO) ``B`` begins every entity, ``I`` goes on with it
bioes   (IOBES) ``B`` begins, ``I`` is inside, ``E`` ends; ``S`` is an entity of one word
bilou   bioes with ``L`` (last) for ``E`` and ``U`` (unit) for ``S``
iob1    ``I`` for every word; ``B`` only where an entity begins directly after another one of the same type
======  ==================================================================================================

A scheme writes every set of spans in exactly one way, and tags that it would not write are invalid: nothing is
guessed and nothing repaired. So conversion loses nothing, and whatever has an entity is valid in one scheme at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Scheme = Literal["iob2", "bioes", "bilou", "iob1"]
TAG_END = "\n"
"""What separates the tags of a sentence that are written as one text."""


class Span(NamedTuple):
    """An entity of the words ``start`` to ``end - 1``."""

    start: int
    end: int
    type: str


class MisfitError(ValueError):
    """The tag at ``index`` in the ``sequence`` of that number, both from 0, breaks the rules of ``scheme``."""

    def __init__(self, scheme: Scheme, sequence: int, index: int, reason: str) -> None:
        super().__init__(f"sequence {sequence}, tag at index {index}: {reason}")
        self.scheme, self.sequence, self.index, self.reason = scheme, sequence, index, reason


class _Rules(NamedTuple):
    first: str
    inside: str
    last: str
    only: str  # of an entity of one word
    letters: str
    bound: str  # letters that come only after B or I of the same type
    closed: bool  # whether I or the last letter must follow B and I


# In the order in which `detect` prefers them.
_RULES: dict[Scheme, _Rules] = {
    "iob2": _Rules("B", "I", "I", "B", letters="BI", bound="I", closed=False),
    "bioes": _Rules("B", "I", "E", "S", letters="BIES", bound="IE", closed=True),
    "bilou": _Rules("B", "I", "L", "U", letters="BILU", bound="IL", closed=True),
    "iob1": _Rules("I", "I", "I", "I", letters="BI", bound="B", closed=False),
}


def spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Return the entities of a sentence from left to right.

    Raises:
        ValueError: the tags are invalid; the message gives the index of the tag and the reason.
    """
    if problem := problems(tags, scheme):
        raise ValueError(f"tag at index {problem[0]}: {problem[1]}")
    rules = _RULES[scheme]
    found: list[Span] = []
    before = "O"
    for index, tag in enumerate(tags):
        if tag[0] in (rules.inside, rules.last) and _may_go_on(before, tag):
            found[-1] = found[-1]._replace(end=index + 1)
        elif tag != "O":
            found.append(Span(index, index + 1, tag[2:]))
        before = tag
    return found


def problems(tags: Sequence[str], scheme: Scheme) -> tuple[int, str] | None:
    """Return where and why the tags first break the rules of the scheme, as (index, reason); None if they are valid."""
    rules = _RULES[scheme]
    before = ""
    for index, tag in enumerate(tags):
        if reason := _reason(before, tag, scheme):
            return index, reason
        before = tag
    if rules.closed and before.startswith(("B", "I")):
        return len(tags) - 1, f"{before} at the end; {_followers(before, scheme)}"
    return None


def _reason(before: str, tag: str, scheme: Scheme) -> str | None:
    """Why ``tag`` cannot come directly after ``before`` (empty at the start); None if it can."""
    rules = _RULES[scheme]
    letter, kind = tag[:1], tag[2:]
    if tag != "O" and (letter not in rules.letters or tag[1:2] != "-" or not kind):
        known = "".join(f", {name}-TYPE" for name in rules.letters)
        return f"{tag!r} is no tag of {scheme} (O{known})"
    place = f"{tag} after {before}" if before else f"{tag} at the start"
    if letter in rules.bound:
        needs = f"in {scheme} {letter}-{kind} comes only after B-{kind} or I-{kind}"
        return None if _may_go_on(before, tag) else f"{place}; {needs}"
    if rules.closed and before.startswith(("B", "I")):
        return f"{place}; {_followers(before, scheme)}"
    return None


def _may_go_on(before: str, tag: str) -> bool:
    """Whether ``before`` belongs to an entity of the type of ``tag`` that may go on."""
    return before.startswith(("B", "I")) and before[2:] == tag[2:]


def _followers(before: str, scheme: Scheme) -> str:
    kind, rules = before[2:], _RULES[scheme]
    return f"in {scheme} only {rules.inside}-{kind} or {rules.last}-{kind} follows it"


def tags_of(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Return the tags of a sentence of ``length`` words with these entities, given in any order.

    Raises:
        ValueError: an entity has no word or no type, reaches beyond the sentence, or overlaps another one.
    """
    rules = _RULES[scheme]
    tags = ["O"] * length
    before = Span(0, 0, "")
    for span in sorted(spans):
        start, end, kind = span
        if not (before.end <= start < end <= length and kind):
            raise ValueError(f"{span} is no entity of a sentence of {length} words, or overlaps {before}")
        letters = [rules.first, *[rules.inside] * (end - start - 2), rules.last] if end - start > 1 else [rules.only]
        if scheme == "iob1" and (before.end, before.type) == (start, kind):
            letters[0] = "B"
        tags[start:end] = [f"{letter}-{kind}" for letter in letters]
        before = span
    return tags


def convert(tags: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    """Return the tags of the same entities in another scheme; converting them back gives ``tags``.

    Raises:
        ValueError: the tags are invalid in ``source``; the message gives the index of the tag and the reason.
    """
    return tags_of(spans(tags, source), len(tags), target)


def detect(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Return the scheme in which all sequences are valid, in one pass that keeps none of them.

    Where there is an entity, there is one such scheme at most; where every tag is ``O``, it is iob2.

    Raises:
        MisfitError: no scheme fits; the error is that of the scheme that held out longest.
    """
    failures: dict[Scheme, MisfitError] = {}
    for number, tags in enumerate(sequences):
        for scheme in [scheme for scheme in _RULES if scheme not in failures]:
            if problem := problems(tags, scheme):
                failures[scheme] = MisfitError(scheme, number, *problem)
        if len(failures) == len(_RULES):
            ordered = [failures[scheme] for scheme in _RULES]
            raise max(ordered, key=lambda failure: (failure.sequence, failure.index))
    return next(scheme for scheme in _RULES if scheme not in failures)
