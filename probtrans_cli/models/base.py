"""What every encoder takes and returns, whatever happens inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

Iterations = bool | Collection[int]
"""Whose arcs are wanted: of all iterations, of none, or of those with these numbers, counted from 1."""


def wanted(arcs: Iterations, iterations: int) -> Collection[int]:
    """The numbers of the iterations whose arcs are wanted, of so many."""
    return arcs if not isinstance(arcs, bool) else range(1, iterations + 1) if arcs else ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of an encoder for a batch of padded sentences.

    ``states [b, n, d]``: one vector a word, zero on padding. ``sentence [b, s]``: one vector a sentence, or None where
    the encoder has none of its own (root, pooler).
    ``arcs [b, t, c, i, j]``: probability, after the ``t``-th of the wanted iterations and in channel ``c``, that the
    head of word ``i`` is column ``j`` (the ``n`` words first, then root and global features where the model has them);
    None unless asked for.
    Of a transformer: attention of word ``i`` to word ``j`` in layer ``t`` and head ``c``, to itself included.
    ``variance [b, n, d]``: of the states, for encoders that propagate one.
    """

    states: Float[Tensor, "b n d"]
    sentence: Float[Tensor, "b s"] | None = None
    arcs: Float[Tensor, "b t c n m"] | None = None
    variance: Float[Tensor, "b n d"] | None = None


class Encoder(nn.Module, ABC):
    """From one vector a word to one vector a word in its sentence."""

    @property
    @abstractmethod
    def width(self) -> int:
        """d: the size of what goes in for a word, and of its representation."""

    @property
    def sentence_width(self) -> int:
        """s: the size of a sentence's representation."""
        return self.width

    @property
    def longest(self) -> int | None:
        """The number of words of the longest sentence that it can read; None = any."""
        return None

    def start_words(self, table: Float[Tensor, "v d"]) -> None:
        """Draw the first values of a table of word vectors: Xavier-uniform unless an encoder has its own way."""
        nn.init.xavier_uniform_(table)

    @abstractmethod
    def forward(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        arcs: Iterations = False,
        at: Bool[Tensor, "b n"] | None = None,
    ) -> Encoded:
        """Representations of padded sentences; ``mask`` is True at real words. ``arcs``: also where each word looks,
        after every iteration or after those named.

        ``at``: the only positions whose states are wanted; the others may then be zero.
        """

    def look(
        self, unary: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"], iterations: Collection[int]
    ) -> Float[Tensor, "b t c n m"]:
        """Only where each word looks, after some iterations (at least one), counted from 1: ``arcs`` of forward."""
        found: Encoded = self(unary, mask, arcs=iterations)
        assert found.arcs is not None, "asked for"
        return found.arcs
