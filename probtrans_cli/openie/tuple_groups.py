"""What the readers of files of tuples have in common: a sentence with its tuples, as its file gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from probtrans_cli.openie.extraction_rows import TupleWords
from probtrans_cli.openie.extractions import Extraction


@dataclass
class GivenTuple:
    """A tuple of a file."""

    texts: list[str]
    """The relation and its arguments, by which it is scored."""
    found: Extraction | TupleWords | str
    """Which words of the sentence it has, or, where the file does not say it, what is to be looked for; or why it is no
    row of labels."""
    confidence: float = 1.0
    """1 where the file has none."""


@dataclass
class GivenSentence:
    """A sentence of a file with its tuples."""

    words: list[str]
    where: str
    tuples: list[GivenTuple] = field(default_factory=list)
    tags: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """What was dropped already, by reason."""


def group(found: Iterable[tuple[Sequence[str], str, GivenTuple]]) -> Iterator[GivenSentence]:
    """The sentences of a file that has a line for each tuple, in the order of their first lines; sentences with the
    same words are one.

    ``found``: of every line the words of its sentence, where it stands, and its tuple.
    """
    sentences: dict[tuple[str, ...], GivenSentence] = {}
    for words, where, one in found:
        sentence = sentences.setdefault(tuple(words), GivenSentence(list(words), where))
        sentence.tuples.append(one)
    yield from sentences.values()


def extraction_of(
    parts: Sequence[Sequence[int]], location_time: Collection[int] = (), added: tuple[str, ...] = ()
) -> Extraction | str:
    """The extraction of the words of the relation, of arg1 and of each further argument; ``overlapping`` if a word is
    in two of them."""
    relation, arg1, *others = (sorted(set(part)) for part in (*parts, []))
    arg2 = sorted({i for part in others for i in part})
    every = [*relation, *arg1, *arg2, *location_time]
    if len(every) != len(set(every)):
        return "overlapping"
    return Extraction(tuple(arg1), tuple(relation), tuple(arg2), tuple(sorted(location_time)), added)
