"""A data format from outside: a sentence a line, every word with its tag behind a slash, ``the/DT farmers/NNS``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from probtrans_cli.data import readers
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data, Format


def read_slashed(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    """Yield the sentences of a file; blank lines are none.

    Raises:
        DataError: a word has no tag, or a tag no word.
    """
    for number, line in enumerate(lines, start=1):
        pairs = [token.rpartition("/") for token in line.split()]
        if not all(word and tag for word, _, tag in pairs):
            raise DataError(f"{name}:{number}: a word without a tag", hint="write every word as WORD/TAG")
        if pairs:
            words, _, tags = zip(*pairs, strict=True)
            yield Sentence(words=list(words), tags={"tag": list(tags)}, where=f"{name}:{number}")


SLASHED = Format("slashed", frozenset({"words", "tags"}), columns=("tag",), endings=(".slashed",))
readers.register(readers.Reader(SLASHED, read_slashed))
