"""The random numbers of an update: every microbatch has its own, whichever process computes it.

They depend on (seed, step, k), where k is the number of the microbatch in the update, and never on the process. Each
stream is read in this order: the masks of the batch, of the first one then the weights that are drawn for the whole
update, and dropout. The streams are those of torch's default generators, which are put where they were left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from probtrans_cli.data.ranks import Ranks
from probtrans_cli.trained.machine import mixed_seed


class Draws:
    """The streams of one update."""

    def __init__(self, seed: int, step: int, device: torch.device) -> None:
        self.seed, self.step = seed, step
        self.cuda = device if device.type == "cuda" else None
        self._left: dict[int, tuple[Tensor, Tensor | None]] = {}

    def begin(self, k: int) -> None:
        """Draw from the stream of a microbatch, from its beginning."""
        torch.manual_seed(mixed_seed(self.seed, self.step, *([k] if k else [])))

    def leave(self, k: int) -> None:
        """Note where the stream is left."""
        self._left[k] = torch.get_rng_state(), None if self.cuda is None else torch.cuda.get_rng_state(self.cuda)

    def go_on(self, k: int) -> None:
        """Draw on where it was left."""
        host, device = self._left[k]
        torch.set_rng_state(host)
        if device is not None and self.cuda is not None:
            torch.cuda.set_rng_state(device, self.cuda)

    @contextmanager
    def of_weights(self, ranks: Ranks) -> Iterator[None]:
        """Within: draws are those of the stream of the first microbatch behind its masks, in every process."""
        if 0 not in self._left:
            self.begin(0)
            self.leave(0)
        if ranks.world > 1:
            host, device = self._left[0]
            given = ranks.of_first(host.numpy().tobytes(), f"the random numbers of update {self.step + 1}")
            self._left[0] = torch.frombuffer(bytearray(given), dtype=torch.uint8), device
        self.go_on(0)
        yield
        self.leave(0)
