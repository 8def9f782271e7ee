"""Device, precision and threads of a process, from a recipe's ``runtime`` section."""

from __future__ import annotations

import numpy as np
import torch

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.training import Runtime


class Machine:
    """Where the arithmetic is done: ``device``, and ``autocast()`` for the precision."""

    def __init__(self, section: Runtime) -> None:
        if section.device == "cuda" and not torch.cuda.is_available():
            raise UsageError("runtime.device is cuda, but there is no usable GPU", hint="use runtime.device=cpu")
        cuda = section.device == "cuda" or (section.device == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda" if cuda else "cpu")
        wanted = section.precision
        self.bfloat16 = cuda if wanted == "auto" else wanted == "bfloat16"
        if section.threads is not None:
            torch.set_num_threads(section.threads)
        # Peaked head distributions are full of denormal numbers, on which a CPU's products run several times slower.
        torch.set_flush_denormal(True)

    def autocast(self) -> torch.autocast:
        """Context of the forward pass."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bfloat16)

    def describe(self) -> str:
        """For logs: device, threads, precision."""
        name = torch.cuda.get_device_name() if self.device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
        return f"{name}, {'bfloat16' if self.bfloat16 else 'float32'}, torch {torch.__version__}"


def mixed_seed(seed: int, step: int) -> int:
    """Seed of one update: well apart for neighbouring seeds and steps."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
