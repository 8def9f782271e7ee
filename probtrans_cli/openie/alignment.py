"""Where the parts of a tuple stand in its sentence: tuples of text as rows of labels, for training.

The heuristic by which OpenIE6 and IMoJIE (Kolluru et al. 2020, arXiv 2010.03147 and 2005.08178) label the tuples of
other systems, but words are compared, not letters, so that "art" is not found in "part":

- A part that the sentence has exactly once, as neighbouring words, is labelled there. A part that it has nowhere so
  is labelled at the shortest stretch that has all of its words in order.
- If arg1 is there several times, the place nearest to the first word of the relation is taken; a relation, the place
  nearest to both arguments; arg2, the place nearest to the last word of the relation. A tuple with two such parts is
  ambiguous and is dropped.
- A relation that begins with "[is]", and may end with "[of]" or "[from]", has extra words; so has a relation that is
  found only without an "is" at its start and an "of" or "from" at its end.
- Of the second argument, arg2 with all further arguments, location and time is tried first, then shorter combinations.
- A tuple two parts of which need the same word is dropped.

People who write tuples use words that their sentence lacks, and put words into another order. With ``share`` below 1,
such tuples are kept as far as possible:

- A part of which the sentence has at least that share of the words is labelled at the shortest stretch that has these,
  in any order.
- Of two or three parts that are there several times, each takes the place nearest to those before it.
- A word that two parts need goes to the first of them; the second is looked for once more among the remaining words.

Corpora are read with a share of :data:`CORPUS_SHARE`, whatever their form, so that people's tuples are learned from,
too. The best that 5 rows can say of CaRB's test set has then a recall of .792 and an F1 of .884; with all words wanted
.631 and .774, with any one word enough .794 and .885. These are bounds for every system with as many rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from probtrans_cli.openie.extractions import EXTRA_WORDS, Extraction

CORPUS_SHARE = 0.5
"""Of the words of a part, at least so many must be in the sentence for a tuple of a corpus to be kept."""
MOST_COMPARED = 1_000_000
"""Words of a part times words of the sentence, beyond which the part is not looked for in order: the time grows with
this product, and no sentence is near it."""
Place = tuple[int, ...]  # positions of the words of a part, ascending


class TupleWords(NamedTuple):
    """A tuple as words. A relation's extra words may stand in brackets, as in ``[is] president [of]``."""

    arg1: Sequence[str]
    relation: Sequence[str]
    arg2: Sequence[str] = ()
    further: Sequence[str] = ()  # of all further arguments that are neither a place nor a time
    location: Sequence[str] = ()
    time: Sequence[str] = ()


class _DroppedError(Exception):
    """A tuple cannot be labelled; the argument says why."""


class _Match(NamedTuple):
    """Where a part may be: places of neighbouring words, or the only place in pieces."""

    places: list[Place]
    in_pieces: bool = False
    numbers: tuple[int, ...] | None = None
    """Which word of the part is at each position of the only place; None = the first, the second, ..."""
    is_partial: bool = False  # whether words of the part are left out


def align(
    words: Sequence[str], tuple_words: TupleWords, *, extra_words: Sequence[str] = EXTRA_WORDS, share: float = 1.0
) -> tuple[Extraction | None, Counter[str]]:
    """Find the words of a tuple in its sentence.

    Args:
        extra_words: see :data:`probtrans_cli.openie.extractions.EXTRA_WORDS`.
        share: of the words of a part, at least so many must be in the sentence; below 1, see above.

    Returns:
        The words, which may be fewer than those of the tuple, and what is counted: ``kept``, and where it is so ``in
        pieces`` (a part is not of neighbouring words), ``one of several places``, ``shortened`` (arguments are left
        out), ``without some words`` (of a part). Or None and the reason: ``incomplete``, ``arg1 not found``,
        ``relation not found``, ``arg2 not found``, ``ambiguous``, ``overlapping``.
    """
    notes: Counter[str] = Counter({"kept": 1})
    try:
        return _aligned(_Sentence(words), tuple_words, extra_words, share, notes), notes
    except _DroppedError as error:
        return None, Counter({str(error): 1})


class _Sentence:
    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.positions: dict[str, list[int]] = {}
        for i, word in enumerate(words):
            self.positions.setdefault(word, []).append(i)

    def find(self, part: Sequence[str], share: float = 1.0, used: Collection[int] = ()) -> _Match | None:
        """Return every place where the part stands as neighbouring words, else the shortest where its words come in
        order, else the shortest that has ``share`` of them; None if there is none of these. Positions that are
        ``used`` are of no such place."""
        if not part:
            return None
        if not used and all(word in self.positions for word in part):
            wanted = list(part)
            rarest = min(range(len(wanted)), key=lambda k: len(self.positions[wanted[k]]))
            starts = (position - rarest for position in self.positions[wanted[rarest]])
            if places := [
                tuple(range(start, start + len(wanted)))
                for start in starts
                if start >= 0 and self.words[start : start + len(wanted)] == wanted
            ]:
                return _Match(places)
            compared = len(part) * len(self.words)
            if compared <= MOST_COMPARED and (pieces := self._in_order(list(part))):
                return _Match([pieces], in_pieces=True)
        return self._partly(part, share, used) if share < 1.0 else None

    def _partly(self, part: Sequence[str], share: float, used: Collection[int]) -> _Match | None:
        free = {word: [i for i in self.positions.get(word, ()) if i not in used] for word in dict.fromkeys(part)}
        wanted = Counter({word: min(count, len(free[word])) for word, count in Counter(part).items()})
        if not wanted.total() or wanted.total() < share * len(part):
            return None
        positions = sorted(i for places in free.values() for i in places)
        lacking, missing = Counter(wanted), wanted.total()
        # The shortest window that lacks nothing: its end moves on, and its start follows as long as nothing is missing.
        first, best = 0, (positions[0], positions[-1])
        for end in positions:
            missing -= lacking[self.words[end]] > 0
            lacking[self.words[end]] -= 1
            while not missing:
                start = positions[first]
                best = min(best, (start, end), key=lambda ends: ends[1] - ends[0])
                first += 1
                lacking[self.words[start]] += 1
                missing += lacking[self.words[start]] > 0
        inside = {word: [i for i in free[word] if best[0] <= i <= best[1]] for word in wanted}
        numbers: dict[int, int] = {}
        for k, word in enumerate(part):
            if wanted[word]:
                numbers[inside[word].pop(0)] = k
                wanted[word] -= 1
        place = tuple(sorted(numbers))
        in_pieces = place[-1] - place[0] >= len(place)
        return _Match([place], in_pieces, tuple(numbers[i] for i in place), len(place) < len(part))

    def _in_order(self, wanted: list[str]) -> Place | None:
        """Find the shortest stretch that has the words in order, the first of several; the last place of each."""
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
        # Back from the end of the stretch: the last place of every word.
        place, k = [], len(wanted) - 1
        for i in range(best[1], best[0] - 1, -1):
            if k >= 0 and self.words[i] == wanted[k]:
                place.append(i)
                k -= 1
        return tuple(reversed(place))


def _aligned(
    sentence: _Sentence, tuple_words: TupleWords, extra_words: Sequence[str], share: float, notes: Counter[str]
) -> Extraction:
    if not (tuple_words.arg1 and tuple_words.relation):
        raise _DroppedError("incomplete")
    arg1 = sentence.find(tuple_words.arg1, share)
    if arg1 is None:
        raise _DroppedError("arg1 not found")
    relation, relation_words, added = _relation(sentence, tuple_words.relation, extra_words, share)
    second, second_words, marks = _second(sentence, tuple_words, share, notes)
    matches = {
        name: match for name, match in (("arg1", arg1), ("rel", relation), ("arg2", second)) if match is not None
    }
    several = [name for name in ("rel", "arg1", "arg2") if name in matches and len(matches[name].places) > 1]
    if len(several) > 1 and share == 1.0:
        raise _DroppedError("ambiguous")
    places = {name: match.places[0] for name, match in matches.items() if name not in several}
    for name in several:
        places[name] = _nearest(name, matches[name].places, places)
        notes["one of several places"] = 1
    used: set[int] = set()
    if sum(map(len, places.values())) != len({i for place in places.values() for i in place}):
        if share == 1.0:
            raise _DroppedError("overlapping")
        parts = {"arg1": tuple_words.arg1, "rel": relation_words, "arg2": second_words}
        for name in ("arg1", "rel", "arg2"):  # look once more for parts that need words which those before them have
            if not used.isdisjoint(places.get(name, ())):
                again = sentence.find(parts[name], share, used)
                if again is None:
                    raise _DroppedError("overlapping")
                matches[name], places[name] = again, again.places[0]
            used.update(places.get(name, ()))
    if any(match.in_pieces for match in matches.values()):
        notes["in pieces"] = 1
    if any(match.is_partial for match in matches.values()):
        notes["without some words"] = 1
    place, match = places.get("arg2", ()), matches.get("arg2")
    numbers = range(len(place)) if match is None or match.numbers is None else match.numbers
    sides: tuple[list[int], list[int]] = ([], [])
    for i, number in zip(place, numbers, strict=True):
        sides[marks[number]].append(i)
    arg2, location_time = map(tuple, sides)
    return Extraction(places["arg1"], places.get("rel", ()), arg2, location_time, added)


def _relation(
    sentence: _Sentence, relation: Sequence[str], extra_words: Sequence[str], share: float
) -> tuple[_Match | None, Sequence[str], tuple[str, ...]]:
    """Find a relation: where it stands, its words there, and which extra words it has; no place if it has no others.

    Its words are tried as they are before "is" and "of" are taken for extra words; in brackets they are nothing else.
    """
    readings: list[tuple[Sequence[str], tuple[str, ...]]] = []
    for pattern in ("[{}]", "{}"):
        if pattern == "{}":
            readings.append((relation, ()))
        first, *last = [pattern.format(word) for word in extra_words] or [""]
        if first and relation[0] == first:
            if len(relation) > 1 and relation[-1] in last:
                ends = extra_words[0], extra_words[last.index(relation[-1]) + 1]
                readings.append((relation[1:-1], ends))
            readings.append((relation[1:], (extra_words[0],)))
    for least in dict.fromkeys((1.0, share)):
        for words, added in readings:
            if not words:
                return None, words, added
            if match := sentence.find(words, least):
                return match, words, added
    raise _DroppedError("relation not found")


def _second(
    sentence: _Sentence, tuple_words: TupleWords, share: float, notes: Counter[str]
) -> tuple[_Match | None, Sequence[str], list[bool]]:
    """Find the second argument: where it stands, its words, and whether each of these is of a place or time."""
    parts = [(False, tuple_words.arg2), (False, tuple_words.further)]
    parts += [(True, tuple_words.location), (True, tuple_words.time)]
    parts = [(marked, part) for marked, part in parts if part]
    if not parts:
        return None, (), []
    full, *shorter = sorted(product((True, False), repeat=len(parts)), key=sum, reverse=True)
    trials = [(full, 1.0), (full, share), *((choice, 1.0) for choice in shorter[:-1])]  # the last one has no part
    for choice, least in dict.fromkeys(trials):
        chosen = [part for part, is_chosen in zip(parts, choice, strict=True) if is_chosen]
        words = [word for _, part in chosen for word in part]
        if match := sentence.find(words, least):
            if choice != full:
                notes["shortened"] = 1
            return match, words, [marked for marked, part in chosen for _ in part]
    raise _DroppedError("arg2 not found")


def _nearest(name: str, choices: Sequence[Place], places: Mapping[str, Place]) -> Place:
    """Return the place of a part that is nearest to the others, of those that share no word with them if there are
    any."""
    used = {i for place in places.values() for i in place}
    free = [place for place in choices if used.isdisjoint(place)] or choices
    if name != "rel" and "rel" in places:
        anchors = [places["rel"][0 if name == "arg1" else -1]]
    else:
        anchors = [place[0] for place in places.values()]
    return min(free, key=lambda place: sum(abs(place[0] - anchor) for anchor in anchors))
