"""Shared by tests of Hugging Face's folders: small random models of `transformers`, and ours of the same weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.errors import CheckpointError
from probtrans_cli.hf import Bert, read_bert
from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.models.outputs import BertWordOutput, SentenceOutput
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.model import Transformer

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "vocab_size": 200,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "initializer_range": 0.05,
}
TINY: dict[str, Any] = {**SMALL, "vocab_size": 30, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}


def theirs(kind: str = "BertForPreTraining", seed: int = 0, **options: Any) -> Any:
    """A random model of `transformers`; biases and norms are random too, which their start would hide."""
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(transformers.BertConfig(**{**SMALL, **options})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def saved(folder: Path, kind: str = "BertForPreTraining", **options: Any) -> Path:
    theirs(kind, **{**TINY, **options}).save_pretrained(folder)
    return folder


@dataclass
class Ours:
    """A BERT with modules for its parts."""

    bert: Bert
    words: Tensor
    encoder: TransformerEncoder
    output: BertWordOutput | None
    pair: SentenceOutput | None

    @classmethod
    def of(cls, bert: Bert, kind: torch.dtype = torch.float32) -> Ours:
        section, table = bert.section, bert.tensors["unary.weight"].to(kind).clone().requires_grad_()
        encoder = build(section).to(kind).eval()
        encoder.load_state_dict(bert.part("encoder"))
        output = pair = None
        if bert.part("words"):
            tied = "words.decoder" not in bert.tensors  # it reads the table of word vectors
            options = {"activation": section.activation, "norm_eps": section.norm_eps, "tied": tied}
            output = BertWordOutput(len(table), section.width, **options).to(kind)
            output.load_state_dict(bert.part("words"))
        if bert.part("pair"):
            pair = SentenceOutput(section.width, 2).to(kind)
            pair.load_state_dict(bert.part("pair"))
        return cls(bert, table, encoder, output, pair)

    def __call__(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> dict[str, Tensor]:
        """Hidden states of all layers, pooled vector, scores of words and of pairs."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        hidden: list[Tensor] = []
        hooks = [self.encoder.layers[0].register_forward_pre_hook(lambda _, given: hidden.append(given[0]))]
        hooks += [
            layer.register_forward_hook(lambda _, __, got: hidden.append(got[0])) for layer in self.encoder.layers
        ]
        encoded = self.encoder(Words(functional.embedding(ids, self.words), mask, segments=segments))
        for hook in hooks:
            hook.remove()
        found = {f"hidden {number}": states for number, states in enumerate(hidden)}
        found["states"] = encoded.states
        if encoded.sentence is not None:
            found["pooled"] = encoded.sentence
        if self.output is not None:
            found["words"] = self.output(encoded.states.flatten(0, 1), self.words).unflatten(0, ids.shape)
        if self.pair is not None:
            assert encoded.sentence is not None
            found["pair"] = self.pair(encoded.sentence)
        return found


def by_transformers(model: Any, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Any:
    """The same of theirs; states of padding are no concern."""
    keep = torch.ones_like(ids) if mask is None else mask
    out = model(input_ids=ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True)
    base = model.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    found = {f"hidden {number}": states for number, states in enumerate(out.hidden_states)}
    found["states"] = base.last_hidden_state * keep[:, :, None]
    if base.pooler_output is not None:
        found["pooled"] = base.pooler_output
    if hasattr(out, "prediction_logits"):
        found |= {"words": out.prediction_logits, "pair": out.seq_relationship_logits}
    elif hasattr(out, "logits"):
        found["words"] = out.logits
    return found


def assert_equal(ours: dict[str, Tensor], expected: dict[str, Tensor], mask: Tensor | None, tolerance: float) -> None:
    """Everything at real words."""
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        real = slice(None) if mask is None or name in ("pooled", "pair", "states") else mask.bool()
        torch.testing.assert_close(
            ours[name][real], value[real], rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n} {m}"
        )


def batch(lengths: list[int], vocabulary: int = 200) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and segments of random sentences."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(vocabulary, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return ids * mask, mask, torch.randint(2, ids.shape, generator=generator)


def configured(folder: Path, changes: Mapping[str, Any]) -> Path:
    """Change keys of the config.json in a folder; returns its path."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **changes}), "utf-8")
    return path


def fault_of(folder: Path) -> CheckpointError:
    """The error with which a folder is refused."""
    with pytest.raises(CheckpointError) as caught:
        read_bert(folder)
    return caught.value


def rewritten(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor] | None]) -> Path:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file(change(tensors) or tensors, path, metadata={"format": "pt"})
    return folder


def random_bert(**options: Any) -> tuple[Transformer, dict[str, Tensor]]:
    """A section and random tensors of every part, in our own forms."""
    torch.manual_seed(3)
    small = {"width": 8, "heads": 2, "inner": 12, "layers": 3, "positions": {"kind": "absolute", "rows": 16}}
    section = Transformer.model_validate({"kind": "transformer", "preset": "bert", **small, **options})
    activation = section.activation
    parts: dict[str, nn.Module] = {
        "encoder": build(section), "words": BertWordOutput(30, 8, activation=activation, norm_eps=section.norm_eps),
        "pair": SentenceOutput(8, 2, std=0.02), "classifier": nn.Linear(8, 3),
    }  # fmt: skip
    tensors = {
        f"{part}.{name}": value.detach()
        for part, module in parts.items()
        for name, value in module.state_dict().items()
    }
    tensors["unary.weight"] = torch.zeros(30, 8)
    return section, {name: value + 0.3 * torch.randn(value.shape) for name, value in tensors.items()}


def states_of(section: Transformer, tensors: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Any:
    """What our own encoder makes of a batch."""
    encoder = build(section).eval()
    encoder.load_state_dict(
        {key.removeprefix("encoder."): it for key, it in tensors.items() if key.startswith("encoder.")}
    )
    return encoder(Words(functional.embedding(ids, tensors["unary.weight"]), mask.bool()))


def assert_same(one: Bert, other: Bert) -> None:
    assert one.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(value, other.tensors[name]) for name, value in one.tensors.items())
