"""The sentences of two files side by side, as all scorers compare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

from probtrans_cli.errors import DataError


class OfFile(Protocol):
    """A sentence of a file."""

    @property
    def words(self) -> Sequence[str]:
        """Its words."""

    @property
    def where(self) -> str:
        """Where it stands, as messages begin."""


Ours = TypeVar("Ours", bound=OfFile)
Theirs = TypeVar("Theirs", bound=OfFile)


def same_words(one: OfFile, other: OfFile, *, cut_alike: bool = True) -> None:
    """Refuse another sentence.

    Args:
        one: a sentence of the predictions.
        other: the gold sentence in its place.
        cut_alike: whether the text must also be cut into the same words.

    Raises:
        DataError: they are not the same.
    """
    alike = list(one.words) == list(other.words) if cut_alike else _characters(one) == _characters(other)
    if not alike:
        raise DataError(f"{one.where}: other words than {other.where}", hint="score the same sentences")


def _characters(one: OfFile) -> str:
    """Its text without white space, no-break spaces among it, at which some texts are cut and others are not."""
    return "".join("".join(one.words).split())


def side_by_side(
    ours: Iterable[Ours],
    theirs: Iterable[Theirs],
    predictions: str,
    gold: str,
    *,
    require_same: Callable[[Ours, Theirs], None] = same_words,
) -> Iterator[tuple[Ours, Theirs]]:
    """Yield every sentence of the predictions with the gold sentence in its place.

    Args:
        ours: the predicted sentences.
        theirs: the gold sentences.
        predictions: the file of ``ours``.
        gold: the file of ``theirs``.
        require_same: raises a DataError where two sentences cannot be compared.

    Raises:
        DataError: the files have no sentence, or one has fewer than the other, or two are not the same.
    """
    found = False
    for one, other in zip_longest(ours, theirs):
        if one is None or other is None:
            name, longer = (predictions, gold) if one is None else (gold, predictions)
            hint = "score the same sentences, in the same order"
            raise DataError(f"{name}: fewer sentences than {longer}", hint=hint)
        require_same(one, other)
        found = True
        yield one, other
    if not found:
        raise DataError(f"{predictions}: there is no sentence in it", hint="check the file")
