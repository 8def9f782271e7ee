"""Where a batch says how long its sentences are, a device need not be asked: no padding is computed with, and no mask.

Values and gradients of what a GPU computes then, on a CPU, beside those of the padded batch. That nothing is asked of a
device: ``tests/training/test_no_waiting.py``.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from made_tasks import EVERY, made
from small_models import DECOMPOSITIONS, FIELDS, assert_near, encoder, name, sentences, values_and_gradients
from torch import Tensor
from torch.nn import functional

from probtrans_cli.models import build, transformer
from probtrans_cli.models.probabilistic.fast.layout import layout_of, packed, shared_lines
from probtrans_cli.tasks.batch import collate
from probtrans_cli.training.update import counts_of, loss_of

LENGTHS = {"all differ": [9, 4, 1, 7], "some alike": [5, 8, 5, 8, 5], "none of one": [6, 0, 3, 6], "alike": [4, 4, 4]}
FLAT: dict[str, Any] = {"kind": "transformer", "width": 16, "inner": 12, "heads": 2, "layers": 2, "dropout": 0.0,
                        "embedding_dropout": 0.0, "attention_dropout": 0.0}  # fmt: skip
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "sinusoidal": {},
    "pre-norm, relative": {"norm": "pre", "positions": {"kind": "relative", "clip": 2, "terms": "qkv"}},
    "bert": {"preset": "bert", "pooler": True},
    "tied": {"tie_kv": True, "tie_qo": True, "positions": {"kind": "none"}, "norm": "pre"},
    "scaled": {"base_width": 8, "initialization": "normal", "std": 0.3},
    "causal": {"causal": True, "norm": "pre"},
}
Patch = pytest.MonkeyPatch


def of_device(patch: Patch, model: Any, lengths: list[int], dtype: torch.dtype) -> list[Tensor]:
    """States, the sentence's, and all gradients; the mask is not looked at, as if a GPU had it."""
    with patch.context() as device:
        as_if_on_device(device)
        return everything(model, lengths, dtype, with_lengths=True)


def as_if_on_device(patch: Patch) -> None:
    for module in ("base", "transformer"):
        patch.setattr(f"probtrans_cli.models.{module}.may_depend_on", lambda _: False)


def everything(model: Any, lengths: list[int], dtype: torch.dtype, *, with_lengths: bool = False) -> list[Tensor]:
    unary, mask = sentences(lengths, model.facts.unary_width)
    of_host = tuple(lengths) if with_lengths else None
    return values_and_gradients(model.to(dtype), unary.to(dtype).requires_grad_(), mask, lengths=of_host)


def masks(patch: Patch) -> list[Any]:
    """Whether each call of attention has a mask, and whether it is causal; filled as they come."""
    calls: list[Any] = []
    attend = functional.scaled_dot_product_attention

    def noted(*tensors: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, **more: Any) -> Tensor:
        calls.append((attn_mask is not None, is_causal))
        return attend(*tensors, attn_mask=attn_mask, is_causal=is_causal, **more)

    patch.setattr(functional, "scaled_dot_product_attention", noted)
    return calls


# --- the transformer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("which", LENGTHS)
@pytest.mark.parametrize("section", TRANSFORMERS)
@pytest.mark.parametrize("messages", ["fast", "fused"])
def test_a_transformer_has_the_values_of_the_masked_one(
    messages: Any, section: str, which: str, dtype: torch.dtype, tolerance: float, monkeypatch: Patch
) -> None:
    torch.manual_seed(0)
    model = build({**FLAT, **TRANSFORMERS[section]}, messages).eval()
    lengths = LENGTHS[which]
    if model.pooler is not None:
        lengths = [max(length, 1) for length in lengths]  # nobody reads the vector of a sentence without words
    assert_near(of_device(monkeypatch, model, lengths, dtype), everything(model, lengths, dtype), tolerance)


CALLS: list[tuple[str, str, Any, list[tuple[bool, bool]]]] = [
    ("fast", "alike", {}, [(False, False)] * 2),
    ("fast", "some alike", {}, [(True, False)] * 2),
    ("fused", "some alike", {}, [(False, False)] * 4),
    ("fused", "alike", {}, [(False, False)] * 2),
    ("fast", "all differ", {"causal": True}, [(False, True)] * 2),
    ("fused", "all differ", {"causal": True}, [(False, True)] * 2),
    ("fused", "some alike", {"positions": {"kind": "relative", "clip": 2, "terms": "k"}}, [(True, False)] * 2),
]


@pytest.mark.parametrize(("messages", "which", "options", "expected"), CALLS)
def test_attention_has_no_mask(
    messages: Any, which: str, options: dict[str, Any], expected: Any, monkeypatch: Patch
) -> None:
    """Of sentences of one length, and of causal ones, always; of others with `fused`, in a call for each length."""
    model = build({**FLAT, **options}, messages).eval()
    calls = masks(monkeypatch)
    of_device(monkeypatch, model, LENGTHS[which], torch.float32)
    assert calls == expected


def test_more_lengths_than_are_worth_calls_of_their_own_have_a_mask(monkeypatch: Patch) -> None:
    calls = masks(monkeypatch)
    of_device(monkeypatch, build(FLAT, "fused").eval(), [*range(1, transformer.FEW + 2)], torch.float32)
    assert calls == [(True, False)] * 2


def test_one_kernel_serves_all_lengths(monkeypatch: Patch) -> None:
    """That of torch runs on a GPU alone; in its place a loop over the sentences whose lengths it gets."""

    def by_sentence(q: Tensor, k: Tensor, v: Tensor, ends: Tensor, same: Tensor, longest: int, also: int) -> Tensor:
        assert ends is same
        assert ends.dtype == torch.int32
        bounds = ends.tolist()
        assert max(np.diff(bounds)) == longest == also
        lines = [[part[start:stop].transpose(0, 1) for part in (q, k, v)] for start, stop in pairwise(bounds)]
        return torch.cat([functional.scaled_dot_product_attention(*line).transpose(0, 1) for line in lines])

    lengths, model = LENGTHS["none of one"], build(FLAT, "fused").eval()
    expected = everything(model, lengths, torch.float64)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", by_sentence)
    monkeypatch.setattr(transformer.TransformerEncoder, "_serves_varlen", lambda *_: True)
    assert_near(of_device(monkeypatch, model, lengths, torch.float64), expected, 1e-12)


def test_the_kernel_of_all_lengths_gets_what_it_needs() -> None:
    """On the device without values, in half precision: shapes, and a gradient, without a warning."""
    where: dict[str, Any] = {"device": "meta", "dtype": torch.bfloat16}
    ends = torch.empty(4, dtype=torch.int32, device="meta")
    rows = transformer.Rows(torch.empty(9, dtype=torch.int64, device="meta"), [(1, 1), (4, 2)], ends)
    split = torch.empty(9, 3, 2, 8, **where).requires_grad_()
    mixed = rows.attend(split, 0.0, None)
    mixed.sum().backward()
    assert mixed.shape == (9, 16)
    assert split.grad is not None


# --- the field --------------------------------------------------------------------------------------------------------

OPTIONS = {**FIELDS, "synchronous": {"schedule": "synchronous", "output": "probabilities"}}


@pytest.mark.parametrize("which", ["all differ", "none of one"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_a_field_has_the_values_of_the_padded_one(
    decomposition: dict[str, Any], options: str, which: str, monkeypatch: Patch
) -> None:
    near = {} if decomposition["kind"] == "rotary" else {"distance": 2}
    section = {"decomposition": decomposition, **near, **OPTIONS[options]}
    expected = everything(encoder(messages="plain", **section), LENGTHS[which], torch.float64)
    for module in ("meanfield", "bands", "heads"):  # all of these as on a GPU
        monkeypatch.setattr(f"probtrans_cli.models.probabilistic.fast.{module}.may_depend_on", lambda _: False)
    model = encoder(messages="fused", **section)
    assert_near(of_device(monkeypatch, model, LENGTHS[which], torch.float64), expected, 1e-9)


@pytest.mark.parametrize("lines", [packed, shared_lines])
def test_the_host_packs_as_a_cpu_does(lines: Any) -> None:
    _, mask = sentences([9, 4, 1, 7])
    here, there = layout_of(mask, lines), layout_of(mask.to("meta"), lines, [9, 4, 1, 7])
    for part in ("index", "place", "sentence"):
        assert getattr(there, part).device.type == "meta"
        assert getattr(there, part).shape == getattr(here, part).shape
    full = layout_of(mask[:1].to("meta"), lines, [9])
    assert full.index is None


# --- what carries them ------------------------------------------------------------------------------------------------


def test_a_batch_says_how_long_its_sentences_are() -> None:
    task = made("tagging", 0)
    batch = task.batch(range(len(task.split)))
    assert batch.lengths == tuple(batch.mask.sum(1).tolist())
    assert batch.to(torch.device("meta")).lengths == batch.lengths


def test_padding_within_a_sentence_leaves_lengths_unsaid() -> None:
    task = made("tagging", 0)
    assert task.batch(np.arange(0)).lengths == ()
    word = int(task.split.row("ids", 0)[1])
    within = collate(task.split, np.arange(2), padding=word, device=torch.device("cpu"))
    assert not within.mask[0, 1]
    assert within.mask[0, 2]
    assert within.lengths is None


@EVERY
def test_every_task_has_the_gradients_of_padded_batches(kind: str, number: int, monkeypatch: Patch) -> None:
    """Through the network, which may add a word in front of a sentence, and stacks of encoders."""
    task = made(kind, number)
    network = copy.deepcopy(task.network).double()
    torch.manual_seed(0)
    batch = task.task.training(task.batch(range(len(task.split)))).located()
    results = []
    for lengths in (None, batch.lengths):
        padded = replace(batch, lengths=lengths)
        loss = loss_of(task.task, network, padded, counts_of(task.task, [padded]))
        grads = torch.autograd.grad(loss, [*network.parameters()], materialize_grads=True, allow_unused=True)
        results.append([loss, *grads])
        as_if_on_device(monkeypatch)
        for module in network.modules():
            if hasattr(module, "messages"):
                module.messages = "fused"
    assert_near(results[1], results[0], 1e-6)
