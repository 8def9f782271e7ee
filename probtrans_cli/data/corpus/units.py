"""The parts into which a corpus is divided for work: each can be counted and encoded alone, by any process.

What the parts are depends on the files and on the recipe, and on nothing else: not on the number of processes. Formats
whose sentences stand alone are divided at about so many bytes; a small corpus is one part, whatever its format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from probtrans_cli.data.archives import is_compressed
from probtrans_cli.data.blocks import Block, cut, in_file, lines_of, total
from probtrans_cli.data.corpus.sources import SPLITS, Source
from probtrans_cli.data.files import display_name
from probtrans_cli.data.readers import READERS, format_of
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data

BYTES = 32 << 20
"""Of a part; of a compressed file, four bytes count for each."""
_PACKED = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a split, in order: blocks of files; or all sources of a split that must be read as a whole."""

    split: str
    number: int
    """In its split, from 0."""
    size: int
    blocks: tuple[Block, ...] = ()
    sources: tuple[Source, ...] = ()


def units_of(data: Data, sources: Sequence[Source], alone: bool) -> list[Unit]:
    """The parts of a corpus, split by split; ``alone``: whether a sentence of this format is encoded by itself."""
    units: list[Unit] = []
    for split in SPLITS:
        given = [source for source in sources if source.split == split]
        if not given:
            continue
        drawn = split == "train" and data.select.sentences is not None
        if alone and not drawn and all(source.lines is None for source in given):
            units += _divided(split, given)
        else:
            units.append(Unit(split, 0, sum(map(_weight, given)), sources=tuple(given)))
    return units


def _weight(source: Source) -> int:
    return source.size * (_PACKED if is_compressed(source.path) else 1)


def _divided(split: str, sources: Sequence[Source]) -> Iterator[Unit]:
    """Blocks one after the other, as many together as a part may have."""
    together: list[Block] = []
    room = BYTES
    number = 0
    for source in sources:
        whole = READERS[source.format].ends is None
        found = [Block(str(source.path), source.size)] if whole else cut(str(source.path), source.size, BYTES)
        for block in found:
            weight = block.size * (_PACKED if is_compressed(block.path) else 1)
            if together and weight > room:
                yield Unit(split, number, total(together), tuple(together))
                together, room, number = [], BYTES, number + 1
            together.append(block)
            room -= weight
    yield Unit(split, number, total(together), tuple(together))


@dataclass
class SentencesOf:
    """The sentences of blocks that have a word; ``found``: how many, by file."""

    blocks: Sequence[Block]
    data: Data
    found: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[Sentence]:
        """
        Raises:
            DataError: a file is malformed.
        """
        self.found.clear()
        for block in self.blocks:
            name = display_name(block.path)
            self.found[name] += 0
            reader = READERS[format_of(block.path, self.data.format)]
            ends = reader.ends or "line"  # of a whole file, it says nothing
            try:
                for sentence in reader.read(lines_of(block, ends), name, self.data):
                    if sentence.words:
                        self.found[name] += 1
                        yield sentence
            except DataError as error:
                raise DataError(in_file(block, ends, error.message), hint=error.hint) from None
