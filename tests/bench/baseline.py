"""The transformer encoder against ``torch.nn.TransformerEncoder`` of the same size: ``python -m tests.bench.baseline``.

Same layers (post-norm, GELU, biases everywhere, dropout 0.1), same batches, every state read. A step is that of
``measure.py``; rounds interleaved, medians, the ratio round by round.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from .settings import batches, sentence_lengths

if TYPE_CHECKING:
    from .measure import Step

WIDTH, INNER, HEADS, LAYERS = 256, 1024, 4, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.baseline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up (default 7)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: bfloat16 autocast")
    options = parser.parse_args(arguments)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # as the command: read by torch when it is imported
    from .measure import ProductRate, prepare_machine, rounds_of

    device = prepare_machine(options.device, options.threads)
    rate = ProductRate(device)
    lengths, source = sentence_lengths()
    print(f"{LAYERS} layers of width {WIDTH}, {device.type}, lengths of EWT's training sentences, {source}")
    every = batches(lengths, 4)
    for kind in ("ragged", "bucketed", "1x512"):
        taken = rounds_of(competitors(every[kind], device), options.rounds, device, rate)
        ours, theirs = ([seconds for seconds, _ in taken[name]] for name in ("ours", "torch"))
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        words = sum(map(sum, every[kind]))
        print(
            f"{kind:9} ours {words / median(ours):8,.0f} words/s, torch {words / median(theirs):8,.0f}; "
            f"time ours / torch {median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
        )
    return 0


def competitors(lengths: Sequence[Sequence[int]], device: object) -> dict[str, list[Step]]:
    """The steps of both on the same batches."""
    import torch
    from torch import Tensor, nn

    from probtrans_cli.models import Encoded, build

    from .measure import Batch, Step

    class Torch(nn.Module):
        """``torch.nn.TransformerEncoder`` with the interface of an encoder."""

        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.1, "gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

        def forward(self, unary: Tensor, mask: Tensor, at: Tensor | None = None) -> Encoded:
            del at
            return Encoded(self.layers(unary, src_key_padding_mask=None if bool(mask.all()) else ~mask))

    assert isinstance(device, torch.device)
    section = {"kind": "transformer", "width": WIDTH, "inner": INNER, "heads": HEADS, "layers": LAYERS}
    ours = build({**section, "positions": {"kind": "none"}, "bias": "all", "activation": "gelu"})
    made: dict[str, list[Step]] = {}
    for name, encoder in {"ours": ours, "torch": Torch()}.items():
        encoder.to(device).train()
        generator = torch.Generator().manual_seed(0)
        made[name] = [Step(encoder, Batch(one, 1.0, generator, device), WIDTH) for one in lengths]
    return made


if __name__ == "__main__":
    sys.exit(main())
