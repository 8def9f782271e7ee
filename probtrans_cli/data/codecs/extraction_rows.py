"""Where the parts of a tuple stand in its sentence: tuples of text as rows of labels, for training.

The heuristic by which OpenIE6 and IMoJIE (Kolluru et al. 2020, arXiv 2010.03147 and 2005.08178) label the tuples of
other systems, but words are compared, not letters, so that "art" is not found in "part". What it does:

- A part that the sentence has exactly once, as neighbouring words, is labelled there. A part that it has nowhere so
  is labelled at the shortest stretch that has all of its words in order.
- If arg1 is there several times, the place nearest to the first word of the relation is taken; a relation, the place
  nearest to both arguments; arg2, the place nearest to the last word of the relation. A tuple with two such parts is
  ambiguous and is dropped.
- A relation that begins with "[is]", and may end with "[of]" or "[from]", has extra words; so has one that is found
  only without an "is" at its start and an "of" or "from" at its end.
- Of the second argument, arg2 with all further arguments, location and time is tried first, then shorter combinations.
- A tuple two parts of which need the same word is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from probtrans_cli.data.codecs.extractions import EXTRA_WORDS, Extraction, tuple_to_row

Place = tuple[int, ...]
"""Positions of the words of a part, ascending."""


class TupleWords(NamedTuple):
    """A tuple as words. A relation's extra words may stand in brackets, as in ``[is] president [of]``."""

    arg1: Sequence[str]
    relation: Sequence[str]
    arg2: Sequence[str] = ()
    further: Sequence[str] = ()
    """Of all further arguments that are neither a place nor a time."""
    location: Sequence[str] = ()
    time: Sequence[str] = ()
    confidence: float = 1.0


@dataclass(frozen=True)
class Labelled:
    """Rows of labels of a sentence."""

    rows: list[list[int]]
    extractions: list[Extraction]
    """The tuple of every row; its text may be shorter than that of the tuple that was given."""
    kept: list[int]
    """Of every row, the number of its tuple in what was given."""
    counts: Counter[str]
    """How many tuples were ``kept``, and how many of them ``in pieces`` (a part is not of neighbouring words), at ``one
    of several places`` or ``shortened``; and why others were dropped: ``incomplete``, ``arg1 not found``, ``relation
    not found``, ``arg2 not found``, ``ambiguous``, ``overlapping``, ``repeated``, ``too many``."""


class _DroppedError(Exception):
    """A tuple cannot be labelled; the argument says why."""


class _Found(NamedTuple):
    """Where a part may be: places of neighbouring words, or the only one in pieces."""

    places: list[Place]
    in_pieces: bool = False


def tuples_to_rows(
    words: Sequence[str],
    tuples: Sequence[TupleWords],
    *,
    rows: int | None = None,
    extra_words: Sequence[str] = EXTRA_WORDS,
) -> Labelled:
    """The rows of labels of a sentence's tuples, in their order.

    Args:
        words: of the sentence, without the extra words.
        tuples: what is to be labelled.
        rows: the most rows that there may be; tuples beyond are dropped as ``too many``.
        extra_words: see :data:`probtrans_cli.data.codecs.extractions.EXTRA_WORDS`.
    """
    counts: Counter[str] = Counter()
    labelled: list[list[int]] = []
    extractions: list[Extraction] = []
    kept: list[int] = []
    keys: set[str] = set()
    sentence = _Sentence(words)
    for number, one in enumerate(tuples):
        notes: Counter[str] = Counter()
        try:
            found = _extraction(sentence, one, extra_words, notes)
            key = found.texts(words).key
            if key in keys:
                raise _DroppedError("repeated")
            if rows is not None and len(labelled) == rows:
                raise _DroppedError("too many")
        except _DroppedError as error:
            counts[str(error)] += 1
            continue
        keys.add(key)
        labelled.append(tuple_to_row(found, len(words), extra_words))
        extractions.append(replace(found, row=len(kept), confidence=one.confidence))
        kept.append(number)
        counts["kept"] += 1
        counts.update(notes.keys())
    return Labelled(labelled, extractions, kept, counts)


class _Sentence:
    """Words and where each of them stands."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.positions: dict[str, list[int]] = {}
        for i, word in enumerate(words):
            self.positions.setdefault(word, []).append(i)

    def find(self, part: Sequence[str]) -> _Found | None:
        """Every place where the part stands as neighbouring words, else the shortest one where its words come in
        order; None if there is neither."""
        if not part or not all(word in self.positions for word in part):
            return None
        wanted = list(part)
        rarest = min(range(len(wanted)), key=lambda k: len(self.positions[wanted[k]]))
        starts = (position - rarest for position in self.positions[wanted[rarest]])
        places = [
            tuple(range(start, start + len(wanted)))
            for start in starts
            if start >= 0 and self.words[start : start + len(wanted)] == wanted
        ]
        if places:
            return _Found(places)
        pieces = self._in_order(wanted)
        return None if pieces is None else _Found([pieces], in_pieces=True)

    def _in_order(self, wanted: list[str]) -> Place | None:
        """The shortest stretch that has the words in order, the first one of several; of it, the last place of each."""
        numbers: dict[str, list[int]] = {}
        for k in reversed(range(len(wanted))):  # the last ones first: a word of the sentence is used once
            numbers.setdefault(wanted[k], []).append(k)
        begins: list[int | None] = [None] * len(wanted)  # where the latest match of the first k + 1 words begins
        best: tuple[int, int] | None = None
        for i, word in enumerate(self.words):
            for k in numbers.get(word, ()):
                begins[k] = i if k == 0 else begins[k - 1]
            begin = begins[-1]
            if begin is not None and wanted[-1] == word and (best is None or i - begin < best[1] - best[0]):
                best = begin, i
        if best is None:
            return None
        place, k = [], len(wanted) - 1
        for i in range(best[1], best[0] - 1, -1):
            if k >= 0 and self.words[i] == wanted[k]:
                place.append(i)
                k -= 1
        return tuple(reversed(place))


def _extraction(sentence: _Sentence, one: TupleWords, extra_words: Sequence[str], notes: Counter[str]) -> Extraction:
    if not (one.arg1 and one.relation):
        raise _DroppedError("incomplete")
    found = {"arg1": sentence.find(one.arg1)}
    if found["arg1"] is None:
        raise _DroppedError("arg1 not found")
    found["rel"], added = _relation(sentence, one.relation, extra_words)
    second, lengths = _second(sentence, one, notes)
    found["arg2"] = second
    there = {name: part for name, part in found.items() if part is not None}
    several = [name for name, part in there.items() if len(part.places) > 1]
    if len(several) > 1:
        raise _DroppedError("ambiguous")
    places = {name: part.places[0] for name, part in there.items() if name not in several}
    for name in several:
        places[name] = _nearest(name, there[name].places, places)
        notes["one of several places"] += 1
    if any(part.in_pieces for part in there.values()):
        notes["in pieces"] += 1
    taken = [i for place in places.values() for i in place]
    if len(taken) != len(set(taken)):
        raise _DroppedError("overlapping")
    arg2, location_time = _labelled(places.get("arg2", ()), lengths)
    return Extraction(places["arg1"], places.get("rel", ()), arg2, location_time, added)


def _relation(
    sentence: _Sentence, relation: Sequence[str], extra_words: Sequence[str]
) -> tuple[_Found | None, tuple[str, ...]]:
    """Where the relation stands, and which extra words it has; None if it has no others.

    Raises:
        _DroppedError: the sentence does not have it.
    """
    added: tuple[str, ...]
    for pattern in ("[{}]", "{}"):
        # As it is before "is" and "of" are taken for extra words; in brackets they are nothing else.
        if pattern == "{}" and (place := sentence.find(relation)):
            return place, ()
        first, *others = [pattern.format(word) for word in extra_words] or [""]
        if not first or relation[0] != first:
            continue
        ending = others.index(relation[-1]) + 1 if len(relation) > 1 and relation[-1] in others else 0
        if ending:
            whole, added = relation[1:-1], (extra_words[0], extra_words[ending])
        else:
            whole, added = relation[1:], (extra_words[0],)
        if not whole:
            return None, added
        if place := sentence.find(whole):
            return place, added
        if ending and (place := sentence.find(relation[1:])):
            return place, added[:1]
    raise _DroppedError("relation not found")


def _second(sentence: _Sentence, one: TupleWords, notes: Counter[str]) -> tuple[_Found | None, list[tuple[bool, int]]]:
    """Where the second argument stands, and whether each of its parts is a place or time, with its number of words.

    Raises:
        _DroppedError: there is one, but the sentence does not have it.
    """
    parts = [(False, one.arg2), (False, one.further), (True, one.location), (True, one.time)]
    parts = [(marked, part) for marked, part in parts if part]
    if not parts:
        return None, []
    choices = sorted(product((True, False), repeat=len(parts)), key=sum, reverse=True)
    for choice in choices[:-1]:  # the last one is none of them
        chosen = [part for part, taken in zip(parts, choice, strict=True) if taken]
        if place := sentence.find([word for _, part in chosen for word in part]):
            if len(chosen) < len(parts):
                notes["shortened"] += 1
            return place, [(marked, len(part)) for marked, part in chosen]
    raise _DroppedError("arg2 not found")


def _labelled(place: Place, lengths: Sequence[tuple[bool, int]]) -> tuple[Place, Place]:
    """The words of arg2, and those of location and time."""
    marks: Iterator[bool] = (marked for marked, length in lengths for _ in range(length))
    sides: tuple[list[int], list[int]] = ([], [])
    for i, marked in zip(place, marks, strict=True):
        sides[marked].append(i)
    return tuple(sides[0]), tuple(sides[1])


def _nearest(name: str, choices: Sequence[Place], places: Mapping[str, Place]) -> Place:
    """Of several places of a part, the one nearest to the others that share no word with it, if there is one."""
    taken = {i for place in places.values() for i in place}
    free = [place for place in choices if taken.isdisjoint(place)] or choices
    if name == "rel":
        anchors = [place[0] for place in places.values()]
    elif "rel" in places:
        anchors = [places["rel"][0 if name == "arg1" else -1]]
    else:
        anchors = [place[0] for place in places.values()]
    return min(free, key=lambda place: sum(abs(place[0] - anchor) for anchor in anchors))
