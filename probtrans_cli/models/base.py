"""What every encoder takes and returns, whatever happens inside."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of an encoder for a batch of padded sentences.

    ``states [b, n, d]``: one vector a word, zero on padding. ``sentence [b, s]``: one vector a sentence, or None.
    ``arcs [b, t, c, i, j]``: probability, after iteration ``t`` and in channel ``c``, that the head of word ``i`` is
    column ``j`` (the ``n`` words first, then root and global features where the model has them); None unless asked for.
    ``variance [b, n, d]``: of the states, for encoders that propagate one.
    """

    states: Float[Tensor, "b n d"]
    sentence: Float[Tensor, "b s"] | None = None
    arcs: Float[Tensor, "b t c n m"] | None = None
    variance: Float[Tensor, "b n d"] | None = None
