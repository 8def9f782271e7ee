"""Device, precision and threads of a process, from a recipe's ``runtime`` section."""

from __future__ import annotations

import ctypes

import numpy as np
import torch

from probtrans_cli import console
from probtrans_cli.errors import UsageError
from probtrans_cli.models.arithmetic import bfloat16_is_faster
from probtrans_cli.recipe.training import Runtime

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h


class Machine:
    """Where the arithmetic is done: ``device``, and ``autocast()`` for the precision."""

    def __init__(self, section: Runtime, local: int | None = None) -> None:
        """``local``: of several processes on this machine the number of this one, which is that of its GPU.

        Raises:
            UsageError: there is no such GPU.
        """
        require_device(section)
        cuda = section.device == "cuda" or (section.device == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda" if cuda else "cpu")
        if cuda and local is not None:
            if local >= (number := torch.cuda.device_count()):
                message = f"process {local + 1} of this machine has no GPU of its own: there are {number}"
                raise UsageError(message, hint=f"start {number} processes a machine, or use runtime.device=cpu")
            torch.cuda.set_device(local)
            self.device = torch.device("cuda", local)
        if section.threads is not None:
            torch.set_num_threads(section.threads)
        wanted = section.precision == "bfloat16" or (section.precision == "auto" and cuda)
        # A processor that only imitates bfloat16 takes up to fifty times as long, without a word.
        self.bfloat16 = wanted and bool(
            torch.cuda.is_bf16_supported(including_emulation=False) if cuda else bfloat16_is_faster()
        )
        if wanted and not self.bfloat16:
            console.log(f"warning: this {'GPU' if cuda else 'processor'} is slow in bfloat16: float32 is used instead")
        if section.allocator == "keep" and not keep_memory():
            console.log("warning: runtime.allocator: keep needs the GNU C library, which this system does not have")
        # Peaked head distributions are full of denormal numbers, on which a CPU's products run several times slower.
        torch.set_flush_denormal(True)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bfloat16)

    def describe(self) -> str:
        threads = torch.get_num_threads()
        cpu = f"cpu, {threads} thread{'s' if threads > 1 else ''}"
        name = torch.cuda.get_device_name() if self.device.type == "cuda" else cpu
        return f"{name}, {'bfloat16' if self.bfloat16 else 'float32'}, torch {torch.__version__}"


def require_device(section: Runtime) -> None:
    """Refuse a GPU that is not there."""
    if section.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("runtime.device is cuda, but there is no usable GPU", hint="use runtime.device=cpu")


def keep_memory() -> bool:
    """Let this process keep freed memory for itself; return whether its C library can.

    The kernel fills each new page with zeros at its first use, a tenth of a step where tensors have tens of megabytes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    no_maps = set_option(M_MMAP_MAX, 0)  # large pieces are of the heap, too,
    return bool(no_maps and set_option(M_TRIM_THRESHOLD, 2**31 - 1))  # whose end is not cut off below 2 GB


def mixed_seed(seed: int, *numbers: int) -> int:
    """Return the seed of an update or of a part of it, unlike those of neighbouring seeds and numbers."""
    return int(np.random.SeedSequence([seed, *numbers]).generate_state(1, np.uint64)[0] >> np.uint64(1))
