"""Named entities as one tag a word: what each scheme means, and how tags become spans and spans tags.

Every scheme writes ``O`` for a word outside and ``LETTER-TYPE`` for a word of an entity of that type:

======  ==================================================================================================
iob2    (BIO) ``B`` begins every entity, ``I`` goes on with it
bioes   (IOBES) ``B`` begins, ``I`` is inside, ``E`` ends; ``S`` is an entity of one word
bilou   bioes with ``L`` (last) for ``E`` and ``U`` (unit) for ``S``
iob1    ``I`` for every word; ``B`` only where an entity begins directly after another one of the same type
bmes    bioes with ``M`` (middle) for ``I``
bmewo   bmes with ``W`` (whole) for ``S``
======  ==================================================================================================

A scheme writes every set of spans in exactly one way, and tags that it would not write are invalid. So conversion of
valid tags loses nothing, and tags that are valid in two schemes (``B-X E-X`` in bioes and bmes) are the same spans in
both. Files may write these tags in another notation (``PER-B``, ``B_PER``, ``B``), see :func:`plain_tags`.

Where an entity begins and ends is clear for invalid tags, too, by the rules of the public scorer conlleval
(:func:`read_spans`), which are the same for all schemes and give the same spans for valid tags.

Precision, recall and F1 count an entity as right where both its ends and its type are. Invalid tags are read as
conlleval does, which gives the field's F1, or strictly (:func:`strict_spans`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

Scheme = Literal["iob2", "bioes", "bilou", "iob1", "bmes", "bmewo"]
TAG_END = "\n"  # what separates the tags of a sentence that are written as one text


class Span(NamedTuple):
    """An entity of the words ``start`` to ``end - 1``."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Fault:
    """The tag at ``index``, from 0, breaks the rules of a scheme. ``known``: it is at least one of the scheme's tags,
    so that its meaning is clear."""

    index: int
    reason: str
    known: bool


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
    bound: str  # letters that come only after the first or an inside letter of the same type
    closed: bool  # whether the inside or the last letter must follow the first and the inside letter


# In the order in which `detect` prefers them.
_RULES: dict[Scheme, _Rules] = {
    "iob2": _Rules("B", "I", "I", "B", letters="BI", bound="I", closed=False),
    "bioes": _Rules("B", "I", "E", "S", letters="BIES", bound="IE", closed=True),
    "bilou": _Rules("B", "I", "L", "U", letters="BILU", bound="IL", closed=True),
    "iob1": _Rules("I", "I", "I", "I", letters="BI", bound="B", closed=False),
    "bmes": _Rules("B", "M", "E", "S", letters="BMES", bound="ME", closed=True),
    "bmewo": _Rules("B", "M", "E", "W", letters="BMEW", bound="ME", closed=True),
}
_OPEN = ("B", "I", "M")  # the letters behind which an entity may go on


# --- reading ----------------------------------------------------------------------------------------------------------


def read_spans(tags: Sequence[str]) -> list[Span]:
    """Return the entities of a sentence from left to right as conlleval reads them, whether the tags are valid or not.

    An entity begins at ``B`` and ``S``, behind ``O``, ``E`` and ``S``, and where the type changes; other tags go on
    with the one before. ``L`` is read as ``E``, ``U`` and ``W`` as ``S``, ``M`` as ``I``.
    """
    spans: list[Span] = []
    before = "O"
    for index, tag in enumerate(tags):
        if tag != "O":
            if tag[0] in "BSUW" or before[0] in "OESLUW" or before[2:] != tag[2:]:
                spans.append(Span(index, index + 1, tag[2:]))
            else:
                spans[-1] = spans[-1]._replace(end=index + 1)
        before = tag
    return spans


def strict_spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Return the entities of a sentence that are written as the scheme writes them, from left to right."""
    spans = read_spans(tags)
    written = tags_of(spans, len(tags), scheme)
    return [span for span in spans if written[span.start : span.end] == [*tags[span.start : span.end]]]


# --- rules ------------------------------------------------------------------------------------------------------------


def faults(tags: Sequence[str], scheme: Scheme) -> Iterator[Fault]:
    """Yield every tag that breaks the rules of the scheme, given the tag before it; none if the tags are valid."""
    before, letters = "", _RULES[scheme].letters
    for index, tag in enumerate(tags):
        if tag != "O" and not (tag[:1] in letters and tag[1:2] == "-" and tag[2:]):
            valid = "".join(f", {letter}-TYPE" for letter in letters)
            yield Fault(index, f"{tag!r} is no tag of {scheme} (O{valid})", known=False)
        elif reason := misplaced(before, tag, scheme):
            yield Fault(index, reason, known=True)
        before = tag
    if reason := misplaced(before, "", scheme):
        yield Fault(len(tags) - 1, reason, known=True)


def misplaced(before: str, tag: str, scheme: Scheme) -> str | None:
    """Return why a tag of the scheme may not come directly after ``before``; None: it may. The empty text is the
    sentence's start or end."""
    rules = _RULES[scheme]
    place = f"{tag} after {before}" if before else f"{tag} at the start"
    if not tag:
        place = f"{before} at the end"
    elif tag[0] in rules.bound:
        letter, kind = tag[0], tag[2:]
        if before.startswith(_OPEN) and before[2:] == kind:
            return None
        return f"{place}; in {scheme} {letter}-{kind} comes only after B-{kind} or {rules.inside}-{kind}"
    if rules.closed and before.startswith(_OPEN):
        kind = before[2:]
        return f"{place}; in {scheme} only {rules.inside}-{kind} or {rules.last}-{kind} follows it"
    return None


# --- writing ----------------------------------------------------------------------------------------------------------


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


# --- detection --------------------------------------------------------------------------------------------------------


def detect(sequences: Iterable[Sequence[str]], *, strict: bool = False, prefer: Scheme = "iob2") -> Scheme:
    """Return the scheme whose rules the fewest tags break, in one pass that keeps no sequence.

    Only a scheme that has all of the tags is meant.
    """
    broken: dict[Scheme, int] = dict.fromkeys(_RULES, 0)
    misfits: dict[Scheme, MisfitError] = {}
    for number, tags in enumerate(sequences):
        for scheme in [scheme for scheme in _RULES if scheme not in misfits]:
            for fault in faults(tags, scheme):
                if strict or not fault.known:
                    misfits[scheme] = MisfitError(scheme, number, fault.index, fault.reason)
                    break
                broken[scheme] += 1
        if len(misfits) == len(_RULES):
            ordered = [misfits[scheme] for scheme in _RULES]
            raise max(ordered, key=lambda misfit: (misfit.sequence, misfit.index, -broken[misfit.scheme]))
    fitting = [scheme for scheme in _RULES if scheme not in misfits]
    return min(fitting, key=lambda scheme: (broken[scheme], scheme != prefer))


# --- notation ---------------------------------------------------------------------------------------------------------

NO_TYPE = "ENTITY"  # the type of entities of files whose tags name none
_LETTER = "[BIESLUMWbieslumw]"
_NOTATIONS = {
    "a letter in front of the type": re.compile(rf"(?P<letter>{_LETTER})(?P<between>[-_])(?P<type>.+)", re.DOTALL),
    "a letter behind the type": re.compile(rf"(?P<type>.+)(?P<between>[-_])(?P<letter>{_LETTER})", re.DOTALL),
    "a letter alone": re.compile(f"(?P<letter>{_LETTER})"),
}
_OUTSIDE = ("O", "o", "0")
_TYPE_ALONE = re.compile(r"[^-\W]{2,}")  # letters, digits and underscores; a lone letter, O among them, is no type


class Plain(NamedTuple):
    """A tag of a file in plain spelling."""

    tag: str
    repair: str | None = None  # how it is read, where the spelling is not that of the file's usual tags
    misfit: str | None = None
    """Why it is no tag of the file, where that is clear whatever the scheme; ``tag`` is as it stands then."""


def plain_tags(counts: Mapping[str, int], *, types_alone: bool = False) -> dict[str, Plain]:
    """Return the plain spelling, ``LETTER-TYPE`` or ``O``, of every tag of a file.

    ===========================  ==================================================
    ``B-PER``, ``B_PER``         the letter in front of the type
    ``PER-B``, ``PER_B``         the letter behind the type
    ``B``                        letters alone: all entities are of one type, :data:`NO_TYPE`
    ===========================  ==================================================

    A file has one of these notations, that of most of its tags; a tag in another notation is no tag of the file. A tag
    of the notation in a variant spelling with a clear meaning is repaired: ``0`` for ``O``, small letters, ``B_PER``
    beside ``B-LOC``.

    Args:
        counts: how often the file has each of its tags.
        types_alone: read a type without a letter, ``PERSON``, as ``I-PERSON``.
    """
    outside = {tag: Plain("O", None if tag == "O" else "as 'O'") for tag in counts if tag in _OUTSIDE}
    inside = {tag: count for tag, count in counts.items() if tag not in outside}
    shares = {
        name: sum(count for tag, count in inside.items() if form.fullmatch(tag)) for name, form in _NOTATIONS.items()
    }
    notation = max(shares, key=shares.__getitem__)
    matches = {tag: _NOTATIONS[notation].fullmatch(tag) for tag in inside}
    mixed = len({match.groupdict().get("between") for match in matches.values() if match}) > 1
    plain = dict(outside)
    for tag, match in matches.items():
        if match:
            parts = match.groupdict()
            letter, repair = parts["letter"].upper(), None
            if letter != parts["letter"]:
                repair = "with a capital letter"
            elif mixed and parts["between"] == "_":
                repair = "with '-' for '_'"
            plain[tag] = Plain(f"{letter}-{parts.get('type', NO_TYPE)}", repair)
        elif types_alone and _TYPE_ALONE.fullmatch(tag):
            plain[tag] = Plain(f"I-{tag}", "as the type of an entity")
        elif notation == next(iter(_NOTATIONS)):  # the letter in front: the scheme says in its own words what is wrong
            plain[tag] = Plain(tag)
        else:
            plain[tag] = Plain(tag, misfit=f"{tag!r} is no tag like others of the file: O, or {notation}")
    return plain


# --- JSON -------------------------------------------------------------------------------------------------------------


def entity_records(tags: Sequence[str], probabilities: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "type": span.type,
            "words": [span.start, span.end],
            "probability": math.prod(probabilities[span.start : span.end]),
        }
        for span in read_spans(tags)
    ]


def located_span(span: Mapping[str, Any], text: str, characters: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Add to a stretch of ``words`` its text and where it stands in the sentence's text."""
    first, last = span["words"][0], span["words"][1] - 1
    start, end = characters[first][0], characters[last][1]
    return {**span, "characters": [start, end], "text": text[start:end]}


Entity = tuple[int, str, int, int]


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class Compared(NamedTuple):
    """The entities of both sides, each with the number of its sentence, its type, its first word, the word behind."""

    gold: set[Entity]
    predicted: set[Entity]
    sentences: int

    def counts(self) -> Counter[Any]:
        """Count entities by type, under ``(type, "gold")``, ``(type, "predicted")`` and ``(type, "right")``; the counts
        of several batches add up."""
        counts: Counter[Any] = Counter()
        sides = {"gold": self.gold, "predicted": self.predicted, "right": self.gold & self.predicted}
        for name, entities in sides.items():
            counts.update((type_, name) for _, type_, _, _ in entities)
        return counts

    def f1_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numerator and denominator of F1 of every sentence, ``[S]``: twice the right entities, and those of
        both sides."""
        gold, predicted, right = (
            np.bincount([number for number, *_ in entities], minlength=self.sentences)
            for entities in (self.gold, self.predicted, self.gold & self.predicted)
        )
        return 2 * right, gold + predicted


def compare(gold: Sequence[list[str]], predicted: Sequence[list[str]], scheme: Scheme | None = None) -> Compared:
    """Read the entities of some sentences on both sides."""
    if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
        raise ValueError("inconsistent: gold and predicted tags are of different sentences")
    sides: list[set[Entity]] = [set(), set()]
    for side, entities in zip((gold, predicted), sides, strict=True):
        for number, tags in enumerate(side):
            spans = read_spans(tags) if scheme is None else strict_spans(tags, scheme)
            entities.update((number, span.type, span.start, span.end) for span in spans)
    return Compared(sides[0], sides[1], len(gold))


def scores_of(counts: Mapping[Any, float]) -> dict[str, float]:
    """Return ``f1``, ``precision`` and ``recall`` over all entities, and ``f1_TYPE`` for every type on either side, as
    shares; 0 where there is nothing to divide by. ``counts``: of :meth:`Compared.counts`."""
    sums: Counter[str] = Counter()
    for (_, name), number in counts.items():
        sums[name] += int(number)
    return _scores(sums) | {f"f1_{type_}": scores["f1"] for type_, scores in scores_by_type(counts).items()}


def scores_by_type(counts: Mapping[Any, float]) -> dict[str, dict[str, float]]:
    """Return ``f1``, ``precision``, ``recall`` of every type on either side, and how many entities of it are ``gold``,
    ``predicted`` and ``right``."""
    of_type: dict[str, Counter[str]] = {}
    for (type_, name), number in counts.items():
        of_type.setdefault(type_, Counter())[name] += int(number)
    sides = ("gold", "predicted", "right")
    return {
        type_: _scores(of_type[type_]) | {side: of_type[type_][side] for side in sides} for type_ in sorted(of_type)
    }


def _scores(counts: Counter[str]) -> dict[str, float]:
    precision = counts["right"] / max(counts["predicted"], 1)
    recall = counts["right"] / max(counts["gold"], 1)
    return {"f1": f1(precision, recall), "precision": precision, "recall": recall}
