"""The transformer against those of torch and of Hugging Face, of the same size: ``python -m tests.bench.baseline``.

First the encoder against ``torch.nn.TransformerEncoder``: same layers (post-norm, GELU, biases everywhere, dropout
0.1), same batches, every state read. A step is that of ``measure.py``; rounds interleaved, medians, the ratio round by
round.

Then BERT's masked language model against ``BertForMaskedLM`` of transformers: 30,522 pieces, 15 % of the words hidden.
A step is forward and backward of the loss as each computes it: theirs scores all words, ours the hidden ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any

from . import parser_of
from .settings import batches, sentence_lengths

if TYPE_CHECKING:
    from .measure import Step

WIDTH, INNER, HEADS, LAYERS = 256, 1024, 4, 4
PIECES, HIDDEN = 30_522, 0.15


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("baseline", __doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up (default 7)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: bfloat16 autocast")
    parser.add_argument("--only", choices=("torch", "transformers"), help="one of the two comparisons")
    options = parser.parse_args(arguments)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # as the command: read by torch when it is imported
    from .measure import ProductRate, prepare_machine, rounds_of

    device = prepare_machine(options.device, options.threads)
    rate = ProductRate(device)
    lengths, source = sentence_lengths()
    print(f"{LAYERS} layers of width {WIDTH}, {device.type}, lengths of EWT's training sentences, {source}")
    every = batches(lengths, 4)
    comparisons = {"torch": ("encoder", competitors), "transformers": ("masked language model", language_models)}
    for other, (what, steps) in comparisons.items():
        if options.only not in (None, other):
            continue
        if find_spec(other) is None:
            print(f"{what}: {other} is not installed")
            continue
        print(f"{what}, a training step:")
        for kind in ("ragged", "bucketed", "1x512"):
            taken = rounds_of(steps(every[kind], device), options.rounds, device, rate)
            ours, theirs = ([seconds for seconds, _ in taken[name]] for name in ("ours", "theirs"))
            ratios = [one / another for one, another in zip(ours, theirs, strict=True)]
            words = sum(map(sum, every[kind]))
            print(
                f"{kind:9} ours {words / median(ours):8,.0f} words/s, {other} {words / median(theirs):8,.0f}; "
                f"time ours / theirs {median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
            )
    return 0


def competitors(lengths: Sequence[Sequence[int]], device: object) -> dict[str, list[Step]]:
    import torch
    from torch import Tensor, nn

    from probtrans_cli.models import Encoded, build
    from probtrans_cli.models.base import Words

    from .measure import Batch, Step

    class Torch(nn.Module):
        """``torch.nn.TransformerEncoder`` with the interface of an encoder."""

        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.1, "gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

        def forward(self, words: Words, at: Tensor | None = None) -> Encoded:
            del at
            padding = None if bool(words.mask.all()) else ~words.mask
            return Encoded(self.layers(words.vectors, src_key_padding_mask=padding))

    assert isinstance(device, torch.device)
    section = {"kind": "transformer", "width": WIDTH, "inner": INNER, "heads": HEADS, "layers": LAYERS}
    ours = build({**section, "positions": {"kind": "none"}, "bias": "all", "activation": "gelu"})
    made: dict[str, list[Step]] = {}
    for name, encoder in {"ours": ours, "theirs": Torch()}.items():
        encoder.to(device).train()
        generator = torch.Generator().manual_seed(0)
        made[name] = [Step(encoder, Batch(one, 1.0, generator, device), WIDTH) for one in lengths]
    return made


def language_models(lengths: Sequence[Sequence[int]], device: object) -> dict[str, list[Any]]:
    """The steps of both masked language models on the same batches and hidden words."""
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
    from transformers import BertConfig, BertForMaskedLM

    from probtrans_cli.models import build
    from probtrans_cli.models.network import Network
    from probtrans_cli.models.outputs import word_output
    from tests.small_tasks import word_scores

    assert isinstance(device, torch.device)
    sizes = {"width": WIDTH, "inner": INNER, "heads": HEADS, "layers": LAYERS}
    section = {"kind": "transformer", "preset": "bert", "pooler": False, **sizes}
    ours = Network(PIECES, build(section), lambda encoder: word_output("bert", encoder, PIECES, (), tied=True))
    config = BertConfig(
        vocab_size=PIECES, hidden_size=WIDTH, intermediate_size=INNER, num_attention_heads=HEADS,
        num_hidden_layers=LAYERS,
    )  # fmt: skip
    theirs = BertForMaskedLM(config)

    def our_loss(ids: Tensor, mask: Tensor, hidden: Tensor) -> Tensor:
        return functional.cross_entropy(
            word_scores(ours, ids.masked_fill(hidden, 4), mask, hidden).float(), ids[hidden]
        )

    def their_loss(ids: Tensor, mask: Tensor, hidden: Tensor) -> Tensor:
        labels, given = ids.masked_fill(~hidden, -100), ids.masked_fill(hidden, 4)
        loss: Tensor = theirs(input_ids=given, attention_mask=mask.long(), labels=labels).loss
        return loss

    class LanguageModelStep:
        def __init__(self, model: nn.Module, loss: Callable[..., Tensor], batch: tuple[Tensor, ...]) -> None:
            self.model, self.loss, self.batch = model, loss, batch

        def __call__(self) -> None:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
                loss = self.loss(*self.batch)
            loss.backward()

        def forget(self) -> None:
            self.model.zero_grad(set_to_none=True)

    generator = torch.Generator().manual_seed(0)
    batches_of_ids = []
    for one in lengths:
        size = torch.tensor(one)
        mask = torch.arange(int(size.max())) < size[:, None]
        hidden = mask & (torch.rand(mask.shape, generator=generator) < HIDDEN)
        hidden[0, 0] = True  # never none
        ids = torch.randint(5, PIECES, mask.shape, generator=generator) * mask
        batches_of_ids.append(tuple(tensor.to(device) for tensor in (ids, mask, hidden)))
    found = {}
    for name, model, loss in (("ours", ours, our_loss), ("theirs", theirs, their_loss)):
        model.to(device).train()
        found[name] = [LanguageModelStep(model, loss, batch) for batch in batches_of_ids]
    return found


if __name__ == "__main__":
    sys.exit(main())
