"""The mean-field energy (appendix A.4): against loops, against the exact log partition, and that updates descend it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from exact import exact, pair_scores
from oracle import Sentence
from small_models import (
    DECOMPOSITIONS,
    GLOBALS,
    encoder,
    global_scores,
    infer,
    name,
    root_scores,
    sentences,
    with_distances,
)

from probtrans_cli.models.probabilistic.inference import RECTIFIED, State

ROOT = {"labels": 3}
MODELS: list[dict[str, Any]] = [
    {},
    {"root": ROOT},
    {"root": {"labels": 2, "decomposition": {"kind": "uv", "rank": 2}}, "globals": GLOBALS[0]},
    *({"globals": one} for one in GLOBALS),
    {"root": ROOT, "globals": GLOBALS[2], "message_weight": {"labels": 0.7, "heads": 1.5}},
    {"root": ROOT, "globals": GLOBALS[3], "message_weight": {"labels": 2.0, "heads": 0.3, "features": 0.8}},
    {"head_labels": True, "root": {**ROOT, "own_label": True}},
    {"head_labels": True, "channels": 3, "globals": GLOBALS[0]},
]
SCORES = with_distances(DECOMPOSITIONS, [None, 1])
DESCENDING = [*MODELS, {"head_labels": True, "root": {**ROOT, "own_label": True}, "factors": [{"kind": "relations"}]}]
PAIRS = [(SCORES[(2 * k + number) % len(SCORES)], options) for k, options in enumerate(MODELS) for number in range(2)]
"""Every model with two kinds of scores, which take turns."""


def random_state(like: State, seed: int) -> State:
    """Random distributions over the same candidates."""
    generator = torch.Generator().manual_seed(seed)

    def draw(distribution: torch.Tensor | None) -> torch.Tensor | None:
        if distribution is None:
            return None
        drawn = 2.0 * torch.randn(distribution.shape, generator=generator, dtype=distribution.dtype)
        return allowed_softmax(drawn, distribution > 0)

    state = State(*map(draw, like))  # type: ignore[arg-type]
    if like.heads.sum((1, 3)).max() > 1.5:
        return state
    return state._replace(heads=state.heads / state.heads.sum((1, 3), keepdim=True).clamp(min=1.0))  # joint with labels


def allowed_softmax(scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Softmax over the allowed entries; a row without any is zero."""
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num(0.0)


def states(model: Any, unary: torch.Tensor, mask: torch.Tensor) -> list[State]:
    start, *_, end = infer(model, unary, mask)
    return [start, end, random_state(start, 1), random_state(start, 2)]


def variables(state: State, *, labelled: bool) -> list[tuple[int, tuple[Any, ...]]]:
    """Every variable of a state with an own distribution: its field and the index of its row."""
    found: list[tuple[int, tuple[Any, ...]]] = []
    for number, distribution in enumerate(state):
        if distribution is None:
            continue
        sizes = [*distribution.shape[:-1]]
        if labelled and number == 1:  # a head with its label: rows of all channels
            pairs = itertools.product(range(sizes[0]), range(sizes[2]))
            rows: Any = [(b, slice(None), i) for b, i in pairs]
        else:
            rows = itertools.product(*map(range, sizes))
        found += [(number, index) for index in rows if bool(distribution[index].any())]
    return found


def updated(model: Any, unary: torch.Tensor, mask: torch.Tensor, state: State, variable: Any) -> State:
    """The state after one variable's update to ``softmax(-∂E/λ)``: the gradient by its distribution; the degrees of a
    word's rectified features to ``max(0, -∂E)``."""
    number, index = variable
    inputs = [None if part is None else part.detach().clone() for part in state]
    inputs[number].requires_grad_()  # type: ignore[union-attr]
    score = model.field(unary, mask).expected_score(State(*inputs)).sum()  # type: ignore[arg-type]
    (gradient,) = torch.autograd.grad(score, inputs[number])
    inference = model.inference
    how = (inference.labels, inference.heads, inference.labels, inference.features)[number]
    new = state[number].clone()  # type: ignore[union-attr]
    if number == 3 and inference.of_features is RECTIFIED:
        new[index] = gradient[index].clamp_min(0.0)
    else:
        scores, allowed = gradient[index] / how.weight, state[number][index] > 0  # type: ignore[index]
        new[index] = allowed_softmax(scores.flatten(), allowed.flatten()).view(scores.shape)
    return state._replace(**{State._fields[number]: new})


@pytest.mark.parametrize("options", DESCENDING, ids=name)
def test_sequential_updates_never_raise_the_energy(options: dict[str, Any]) -> None:
    """One variable at a time, in a random order, from the start and from a random state; and they do lower it."""
    seed = DESCENDING.index(options)
    scores = SCORES[(3 * seed) % len(SCORES)]
    model = encoder(**scores, **options, labels=3, seed=seed).requires_grad_(False)
    unary, mask = sentences([3, 1], labels=3, seed=seed)
    start = infer(model, unary, mask)[0]
    generator = torch.Generator().manual_seed(seed)
    for state in (start, random_state(start, seed)):
        now, before = state, model.energy(unary, mask, state)
        first, everything = before, variables(state, labelled=model.section.head_labels)
        for number in torch.randperm(len(everything), generator=generator).tolist():
            now = updated(model, unary, mask, now, everything[number])
            after = model.energy(unary, mask, now)
            assert bool((after <= before + 1e-9).all()), everything[number]
            before = after
        assert bool((before[0] < first[0] - 1e-3).all())


@torch.no_grad()
@pytest.mark.parametrize(("scores", "options"), PAIRS, ids=name)
def test_energy_equals_loops(scores: dict[str, Any], options: dict[str, Any]) -> None:
    """Padding changes nothing."""
    model = encoder(**scores, **options, labels=3)
    lengths = [4, 2, 1]
    unary, mask = sentences(lengths, labels=3)
    for state in states(model, unary, mask):
        found = model.energy(unary, mask, state)
        for b, n in enumerate(lengths):
            assert abs(float(found[b]) - loops(model, unary[b, :n], single(state, b, n, mask.shape[1]))) < 1e-9


def single(state: State, b: int, n: int, width: int) -> State:
    """The state of one sentence without its padding and without the axis of sentences."""
    columns = [*range(n), *range(width, state.heads.shape[-1])]
    root = None if state.root is None else state.root[b]
    features = None if state.features is None else state.features[b, :n]
    return State(state.labels[b, :n], state.heads[b, :, :n, columns], root, features)


def loops(model: Any, unary: torch.Tensor, state: State) -> float:
    """``E - λ_Z H(Z) - λ_H H(H)`` by loops over the variables, with the messages of ``oracle.py``."""
    root, features = root_scores(model), global_scores(model)
    sentence = Sentence(model.section, unary, lambda x: model.ternary_scores([x])[0], root, features)
    labels, heads = state.labels.tolist(), state.heads.tolist()
    at_root = [] if state.root is None else state.root.tolist()
    second = [] if state.features is None else state.features.tolist()
    weights = model.section.resolved().message_weight
    total = -weights.labels * (sum(map(entropy, labels)) + entropy(at_root))
    for i in range(sentence.n):
        total -= sum(labels[i][a] * float(unary[i, a]) for a in range(sentence.d))
        if model.section.head_labels:
            total -= weights.heads * entropy([heads[c][i][j] for c, j in sentence.pairs(i)])
        for c in range(sentence.h):
            row = heads[c][i]
            total -= sum(row[j] * sentence.F(i, c, j, labels, at_root) for j in sentence.candidates(i))
            total -= 0.0 if model.section.head_labels else weights.heads * entropy(row)
        for c in range(sentence.second):
            total -= sum(second[i][c][k] * sentence.H(i, c, k, labels) for k in range(sentence.m))
            if sentence.kind == "rectified":
                total += sum(degree * degree for degree in second[i][c]) / 2.0
            else:
                total -= (weights.features or weights.heads) * entropy(second[i][c])
    return total


def entropy(row: list[float]) -> float:
    return -sum(p * float(torch.tensor(p, dtype=torch.float64).log()) for p in row if p > 0)


@torch.no_grad()
@pytest.mark.parametrize(
    ("scores", "options"), [pair for pair in PAIRS if pair[1] in MODELS[:7] + MODELS[10:]], ids=name
)
def test_the_energy_bounds_the_log_partition(scores: dict[str, Any], options: dict[str, Any]) -> None:
    """With all weights 1, ``-E_λ <= log Z`` for any distributions, and equality where nothing depends on anything."""
    model = encoder(**scores, **options, labels=3, message_weight={"labels": 1.0, "heads": 1.0})
    unary, mask = sentences([3], labels=3)

    def log_partition() -> float:
        kind = None if model.globals is None else model.globals.kind
        pairs = pair_scores(model, 3)
        how = {"labelled": model.section.head_labels, "own_label": model.inference.root_label}
        return float(exact(unary[0], pairs, root_scores(model), global_scores(model), kind, **how).log_partition)

    for state in states(model, unary, mask):
        assert -float(model.energy(unary, mask, state)) <= log_partition() + 1e-9
    for parameter in model.parameters():
        parameter.zero_()
    end = infer(model, unary, mask)[-1]
    assert abs(-float(model.energy(unary, mask, end)) - log_partition()) < 1e-9


def test_energy_has_gradients() -> None:
    """By the parameters: minus the expected sufficient statistics, e.g. minus the label distributions for ``S``."""
    model = encoder(root=ROOT)
    unary, mask = sentences([3, 2])
    unary.requires_grad_()
    with torch.no_grad():
        state = infer(model, unary, mask)[-1]
    (gradient,) = torch.autograd.grad(model.energy(unary, mask, state).sum(), unary)
    torch.testing.assert_close(gradient, -state.labels)


@pytest.mark.parametrize(
    ("options", "message"), [({"heads": "tree"}, "tree"), ({"share_potentials": False}, "potentials of their own")]
)
def test_fields_without_an_energy_are_refused(options: dict[str, Any], message: str) -> None:
    model = encoder(**options)
    unary, mask = sentences([3])
    with pytest.raises(ValueError, match=message):
        model.energy(unary, mask, infer(model, unary, mask)[-1])
