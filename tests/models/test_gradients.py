"""Gradients of every form of the messages: several backward passes, frozen weights, gradcheck, dropout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import DECOMPOSITIONS, FAST, assert_near, encoder, gradients, loss, name, sentences, values

from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.fast import heads
from probtrans_cli.models.probabilistic.fast.bands import TraceableBand, band
from probtrans_cli.models.probabilistic.fast.heads import drop
from probtrans_cli.models.probabilistic.projections import Sides

# --- several backward passes ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("messages", FAST)
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_backward_passes_through_one_graph_do_not_mix(decomposition: dict[str, Any], messages: str) -> None:
    """Each pass gets its own gradients, whatever was asked for before."""
    options = {"decomposition": decomposition, "distance": None if decomposition["kind"] == "rotary" else 1}
    model = encoder(**options, messages=messages)
    unary, mask = sentences([18, 3])
    unary.requires_grad_()
    weights = list(model.parameters())

    def fresh(seed: int) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(loss(model(Words(unary, mask)), seed), [unary, *weights])

    first, second = fresh(1), fresh(2)
    encoded = model(Words(unary, mask))
    loss_1, loss_2 = loss(encoded, 1), loss(encoded, 2)
    keep: dict[str, Any] = {"retain_graph": True}
    assert_near(torch.autograd.grad(loss_1, unary, **keep), first[:1], 1e-12)  # leaves the weights' sums behind
    assert_near(torch.autograd.grad(loss_2, weights, **keep), second[1:], 1e-12)
    assert_near(torch.autograd.grad(loss_1, weights, **keep), first[1:], 1e-12)
    assert_near(torch.autograd.grad(loss_1, weights[:1], **keep), first[1:2], 1e-12)
    assert_near(torch.autograd.grad(loss_2, weights[-1:], **keep), second[-1:], 1e-12)
    for _ in range(2):
        assert_near(torch.autograd.grad(loss_2, [unary, *weights], **keep), second, 1e-12)
    sums = [left + right for left, right in zip(first, second, strict=True)]
    assert_near(torch.autograd.grad(loss_1 + loss_2, [unary, *weights], **keep), sums, 1e-12)
    for weight in weights:
        weight.grad = None
    loss_1.backward(retain_graph=True)
    loss_2.backward()
    assert_near([weight.grad for weight in weights], sums[1:], 1e-12)


class Abandoned(Exception):
    """What ends a backward pass half-way."""


@pytest.mark.parametrize("messages", ["plain", *FAST])
@pytest.mark.parametrize("decomposition", [DECOMPOSITIONS[1], DECOMPOSITIONS[3]], ids=name)
def test_a_backward_pass_that_was_abandoned_leaves_nothing_behind(
    decomposition: dict[str, Any], messages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass ends with an exception, after some products have added to the gradients; so does a pass that asks
    for an inner part of the graph alone. The next one through the same graph gives what it would have given."""
    options = {"decomposition": decomposition, "distance": None if decomposition["kind"] == "rotary" else 1}
    model = encoder(**options, messages=messages, iterations=3)
    unary, mask = sentences([18, 3])
    unary.requires_grad_()
    weights = list(model.parameters())
    expected = torch.autograd.grad(loss(model(Words(unary, mask))), [unary, *weights])
    softmax, between = torch.Tensor.softmax, []

    def watched(tensor: torch.Tensor, *how: Any) -> torch.Tensor:
        between.append(softmax(tensor, *how))
        return between[-1]

    monkeypatch.setattr(torch.Tensor, "softmax", watched)
    value = loss(model(Words(unary, mask)))
    monkeypatch.undo()
    labels = [tensor for tensor in between if tensor.shape[-1] == model.facts.width and tensor.grad_fn is not None]

    def abandon(_: torch.Tensor) -> None:
        raise Abandoned

    handle = labels[1].register_hook(abandon)  # after the third iteration's products, before the first one's
    with pytest.raises(Abandoned):
        torch.autograd.grad(value, [unary, *weights], retain_graph=True)
    handle.remove()
    torch.autograd.grad(value, labels[1], retain_graph=True)
    assert_near(torch.autograd.grad(value, [unary, *weights], retain_graph=True), expected, 1e-12)
    assert_near(torch.autograd.grad(value, weights[-1:]), expected[-1:], 1e-12)


@pytest.mark.parametrize("kind", ["own", "shared head sides", "one head side", "shared", "channels"])
def test_bands_by_hand_equal_traceable_ones(kind: str) -> None:
    """Scores and messages, whichever of them a pass goes through; a band gives messages to its own sides."""
    torch.manual_seed(0)
    w, c, r, shifts = 9, 2, 3, [-2, -1, 1, 2]
    buckets, channels = 1 if kind == "shared" else len(shifts), 1 if kind == "channels" else c
    child = torch.randn(w, buckets, channels, r, dtype=torch.float64, requires_grad=True)
    head_shape = {"shared head sides": (1, channels), "one head side": (1, 1)}.get(kind, (buckets, channels))
    head = torch.randn(w, *head_shape, r, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(len(shifts), c, r, dtype=torch.float64, requires_grad=True)
    sides = Sides(child, head, weight if kind in ("shared", "channels") else None)
    p = torch.randn(w, len(shifts), c, dtype=torch.float64, requires_grad=True)
    inputs = [child, head, p, *([] if sides.weight is None else [weight])]

    def run(by_hand: bool, steps: str) -> list[torch.Tensor]:
        near = band(sides, shifts) if by_hand else TraceableBand(sides, shifts)
        assert isinstance(near, TraceableBand) != by_hand
        parts: list[torch.Tensor] = []
        for step in steps:
            parts += [near.scores()] if step == "s" else near.messages(p)[:2]
        if steps.endswith("m"):
            assert [part.shape for part in parts[-2:]] == [child.shape, head.shape]
        values = sum((part.sin() * torch.arange(part.numel()).view(part.shape)).sum() for part in parts)
        return [*parts, *torch.autograd.grad(values, inputs, materialize_grads=True, retain_graph=True)]

    for steps in ("s", "m", "sm", "ms", "smm"):
        assert_near(run(True, steps), run(False, steps), 1e-12)


def test_frozen_weights_and_no_gradients_at_all() -> None:
    model = encoder(decomposition={"kind": "uv", "rank": 3})
    unary, mask = sentences([6, 2])
    unary.requires_grad_()
    expected = gradients(model, unary, model(Words(unary, mask)))
    model.ternary.U.requires_grad_(False)
    only = torch.autograd.grad(loss(model(Words(unary, mask))), [unary, model.ternary.V])
    assert_near(only, [expected[0], expected[2]], 1e-12)
    with torch.inference_mode():
        assert_near([model(Words(unary, mask)).states], [model(Words(unary, mask), arcs=True).states], 1e-12)


GRADCHECK: list[dict[str, Any]] = [
    {"decomposition": {"kind": "none"}, "distance": 1},
    {"decomposition": {"kind": "uv", "rank": 2}, "distance": 1},
    {"decomposition": {"kind": "shared", "rank": 2}, "distance": 1},
    {"decomposition": {"kind": "rotary", "rank": 2}},
    {
        "decomposition": {"kind": "uvw", "rank": 2},
        "distance": 0,
        "root": {"labels": 2},
        "globals": {"kind": "all-dep", "features": 2},
        "damping": {"labels": 0.2, "heads": 0.3},
    },
    {
        "decomposition": {"kind": "uv", "rank": 2},
        "distance": 0,
        "share_potentials": False,
        "root": {"labels": 2},
        "globals": {"kind": "dep-split", "features": 2},
    },
]


@pytest.mark.parametrize("messages", ["plain", *FAST])
@pytest.mark.parametrize("options", GRADCHECK, ids=name)
def test_gradcheck(options: dict[str, Any], messages: str) -> None:
    model = encoder(**options, labels=3, messages=messages, message_weight={"heads": 1.0})
    unary, mask = sentences([4, 1], labels=3)
    check(model, unary, mask)


def check(model: ProbabilisticEncoder, unary: torch.Tensor, mask: torch.Tensor, seed: int | None = None) -> None:
    """``gradcheck`` of states (and sentence) by unary scores and all weights; ``seed``: set before every run."""
    names = [key for key, _ in model.named_parameters()]

    def run(unary: torch.Tensor, *weights: torch.Tensor) -> Any:
        if seed is not None:
            torch.manual_seed(seed)
        encoded = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (Words(unary, mask),))
        return tuple(values(encoded))

    inputs = [unary, *(parameter.detach().clone() for parameter in model.parameters())]
    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in inputs], fast_mode=True)


# --- dropout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eager", [True, False])
def test_dropout_keeps_the_mean(eager: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where four decisions come out of one random number, and elsewhere."""
    monkeypatch.setattr(heads, "may_depend_on", lambda _: eager)
    torch.manual_seed(0)
    count = 200_003
    for p in (0.1, 0.5, 0.9):
        dropped = drop(torch.full((count,), 3.0), p)
        torch.testing.assert_close(dropped.unique(), torch.tensor([0.0, 3.0 / (1.0 - p)]))
        deviation = (p * (1.0 - p) / count) ** 0.5
        assert abs(float((dropped == 0).double().mean()) - p) < 5 * deviation
        assert abs(float(dropped.double().mean()) / 3.0 - 1.0) < 5 * deviation / (1.0 - p)
        zero = (dropped == 0).double()
        for lag in (1, 2, 3, 4):
            together = float((zero[lag:] * zero[:-lag]).mean())
            assert abs(together - p * p) < 6 * deviation
    for p in (0.0, 1e-6, 1.0 - 1e-6):  # next to nothing, or next to everything
        assert abs(float((drop(torch.ones(10_000), p) == 0).double().mean()) - p) < 1e-3


def test_the_generator_decides_what_is_dropped() -> None:
    model = encoder(dropout=0.5, root={"labels": 4})
    unary, mask = sentences([6, 2])
    kept = values(model(Words(unary, mask)))
    model.train()
    torch.manual_seed(0)
    first, second = values(model(Words(unary, mask))), values(model(Words(unary, mask)))
    torch.manual_seed(0)
    again = values(model(Words(unary, mask)))
    model.eval()
    still = values(model(Words(unary, mask)))
    assert len(kept) == 2
    for part in range(2):  # the words' scores, the root's
        assert torch.equal(again[part], first[part])
        assert not torch.equal(first[part], second[part])
        assert torch.equal(still[part], kept[part])


@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_what_a_model_gives_in_training_has_dropped_scores(messages: str) -> None:
    """Of words and root: dropout is on the scores of the last iteration, too."""
    model = encoder(labels=40, root={"labels": 400}, dropout=0.3, messages=messages).train()
    encoded = model(Words(*sentences([20], labels=40)))
    assert encoded.sentence is not None
    for scores in (encoded.states, encoded.sentence):
        share = float((scores == 0).double().mean())
        assert abs(share - 0.3) < 5 * (0.3 * 0.7 / scores.numel()) ** 0.5


def test_the_mean_over_dropout_is_the_value_where_nothing_is_curved() -> None:
    """One synchronous iteration: the message is linear in the (uniform) heads, whose masks are independent of it."""
    options = {"decomposition": {"kind": "uv", "rank": 2}, "distance": 1, "schedule": "synchronous"}
    model = encoder(**options, dropout=0.3, iterations=1)
    unary, mask = sentences([4])
    with torch.no_grad():
        expected = model(Words(unary, mask)).states
        draws = model.train()(Words(unary.expand(5_000, -1, -1), mask.expand(5_000, -1))).states
    error = (draws.mean(0) - expected[0]).abs() / (draws.std(0) / 5_000**0.5)
    assert float(error.max()) < 5.0


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("root", [None, {"labels": 3}], ids=["no root", "root"])
@pytest.mark.parametrize("schedule", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_gradients_are_of_the_same_masks(messages: str, schedule: str, root: dict[str, Any] | None) -> None:
    """Blocks of the linear form are computed again in the backward pass, and must then drop the same."""
    options = {"distance": 1, "decomposition": {"kind": "uv", "rank": 2}, "schedule": schedule, "root": root}
    model = encoder(**options, labels=2, dropout=0.4, messages=messages, message_weight={"heads": 1.0})
    unary, mask = sentences([18, 3], labels=2)
    check(model.train(), unary, mask, seed=3)
