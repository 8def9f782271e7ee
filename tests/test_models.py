"""The encoder against plain loops written from the equations, gradients, and the contract that every encoder keeps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probtrans_cli.models import build
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.messages import Buckets, TernaryMessages, bucket_count

DECOMPOSITIONS: list[dict[str, Any]] = [{"kind": "none"}, {"kind": "uv", "rank": 3}, {"kind": "uvw", "rank": 4}]
DISTANCES = [None, 0, 1, 3]
SCHEDULES = ["asynchronous", "synchronous"]


def encoder(**options: Any) -> ProbabilisticEncoder:
    section = {"labels": 5, "channels": 2, "iterations": 3, "dropout": 0.0, **options}
    return build(section).double().eval()


def sentences(lengths: list[int], labels: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    n = max(lengths)
    unary = 2.0 * torch.randn(len(lengths), n, labels, dtype=torch.float64, generator=generator)
    return unary, torch.arange(n) < torch.tensor(lengths)[:, None]


# --- the oracle: loops over words, channels and labels --------------------------------------------------------------


def bucket(x: int, gamma: int | None) -> int:
    """f of Eq. 10."""
    if gamma is None:
        return 0
    if x < -gamma:
        return 0
    if x < 0:
        return x + gamma + 1
    if x <= gamma:
        return x + gamma
    return 2 * gamma + 1


def message_to_head(T: Any, q: Any, i: int, j: int, c: int, gamma: int | None) -> float:
    d = range(len(q[i]))
    return sum(q[i][a] * q[j][b] * T[bucket(i - j, gamma), c, a, b] for a in d for b in d)


def message_to_label(T: Any, q: Any, heads: Any, i: int, a: int, gamma: int | None) -> float:
    total = 0.0
    for c in range(T.shape[1]):
        for j in range(len(q)):
            if j == i:
                continue
            for b in range(len(q[i])):
                total += heads[c][i][j] * q[j][b] * T[bucket(i - j, gamma), c, a, b]
                total += heads[c][j][i] * q[j][b] * T[bucket(j - i, gamma), c, b, a]
    return total


def softmax(scores: list[float]) -> list[float]:
    return torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()


def loops(model: ProbabilisticEncoder, unary: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Label scores [n, d] and heads [T, h, n, n] of one sentence without padding, by loops."""
    section = model.section
    T = model.ternary_scores().detach().numpy()
    S = unary.tolist()
    n, d, gamma = len(S), section.labels, section.distance
    weight_heads = section.message_weight.heads or 1.0 / d
    q = [softmax(row) for row in S]
    uniform = [[0.0 if i == j else 1.0 / (n - 1) for j in range(n)] for i in range(n)] if n > 1 else [[0.0]]
    heads = [uniform for _ in range(section.channels)]
    history, scores = [], S
    for _ in range(section.iterations):
        new = []
        for c in range(section.channels):
            rows = []
            for i in range(n):
                others = [j for j in range(n) if j != i]
                row = [0.0] * n
                if others:
                    f = [message_to_head(T, q, i, j, c, gamma) / weight_heads for j in others]
                    for j, p in zip(others, softmax(f), strict=True):
                        row[j] = p
                rows.append(row)
            new.append(rows)
        used = new if section.schedule == "asynchronous" else heads
        scores = [
            [(S[i][a] + message_to_label(T, q, used, i, a, gamma)) / section.message_weight.labels for a in range(d)]
            for i in range(n)
        ]
        q, heads = [softmax(row) for row in scores], new
        history.append(new)
    return torch.tensor(scores, dtype=torch.float64), torch.tensor(history, dtype=torch.float64)


@pytest.mark.parametrize(
    ("decomposition", "distance", "schedule"), list(itertools.product(DECOMPOSITIONS, DISTANCES, SCHEDULES))
)
@pytest.mark.parametrize("weights", [{}, {"labels": 1.3, "heads": 0.4}])
def test_encoder_equals_loops_padding_included(decomposition, distance, schedule, weights):
    model = encoder(decomposition=decomposition, distance=distance, schedule=schedule, message_weight=weights)
    lengths = [6, 1, 4]
    unary, mask = sentences(lengths)
    encoded = model(unary, mask, arcs=True)
    for b, n in enumerate(lengths):
        states, heads = loops(model, unary[b, :n])
        torch.testing.assert_close(encoded.states[b, :n], states, rtol=0, atol=1e-9)
        torch.testing.assert_close(encoded.arcs[b, :, :, :n, :n], heads, rtol=0, atol=1e-9)
        assert not encoded.states[b, n:].any()
        assert not encoded.arcs[b, :, :, n:].any()
        assert not encoded.arcs[b, ..., n:].any()


@settings(deadline=None, max_examples=60)
@given(
    d=st.integers(1, 6), h=st.integers(1, 3), t=st.integers(1, 3), rank=st.integers(1, 4), seed=st.integers(0, 99),
    kind=st.sampled_from(["none", "uv", "uvw"]), distance=st.sampled_from([None, 0, 1, 2, 5]),
    schedule=st.sampled_from(SCHEDULES), lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    weight_z=st.floats(0.3, 3.0), weight_h=st.one_of(st.none(), st.floats(0.1, 3.0)),
)  # fmt: skip
def test_encoder_equals_loops_for_random_options(
    d, h, t, rank, seed, kind, distance, schedule, lengths, weight_z, weight_h
):
    torch.manual_seed(seed)
    decomposition = {"kind": kind} if kind == "none" else {"kind": kind, "rank": rank}
    model = encoder(
        labels=d, channels=h, iterations=t, decomposition=decomposition, distance=distance, schedule=schedule,
        message_weight={"labels": weight_z, "heads": weight_h},
    )  # fmt: skip
    unary, mask = sentences(lengths, labels=d, seed=seed)
    encoded = model(unary, mask, arcs=True)
    for b, n in enumerate(lengths):
        states, heads = loops(model, unary[b, :n])
        torch.testing.assert_close(encoded.states[b, :n], states, rtol=0, atol=1e-9)
        torch.testing.assert_close(encoded.arcs[b, :, :, :n, :n], heads, rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
@pytest.mark.parametrize("distance", DISTANCES)
def test_messages_equal_loops(decomposition, distance):
    """F and G by themselves, for arbitrary distributions that do not come from each other."""
    model = encoder(decomposition=decomposition, distance=distance)
    n, d, h = 7, 5, 2
    generator = torch.Generator().manual_seed(1)
    q = torch.rand(1, n, d, generator=generator, dtype=torch.float64)
    heads = torch.rand(1, h, n, n, generator=generator, dtype=torch.float64) * ~torch.eye(n, dtype=torch.bool)
    buckets = Buckets.of(n, distance, torch.device("cpu"))
    messages = TernaryMessages(model.ternary.forms(buckets.sizes), q, buckets)
    T, rows = model.ternary_scores().detach().numpy(), q[0].tolist()
    to_heads, to_labels = messages.to_heads()[0], messages.to_labels(heads)[0]
    for i, j, c in itertools.product(range(n), range(n), range(h)):
        if i != j:
            assert abs(float(to_heads[c, i, j]) - message_to_head(T, rows, i, j, c, distance)) < 1e-9
    for i, a in itertools.product(range(n), range(d)):
        assert abs(float(to_labels[i, a]) - message_to_label(T, rows, heads[0].tolist(), i, a, distance)) < 1e-9


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
@pytest.mark.parametrize("distance", [None, 0, 2])
def test_message_to_labels_is_the_gradient_of_the_expected_score(decomposition, distance):
    """G_i(a) = d/dQ_i(a) of sum Q_ic(j) F_ic(j): an oracle that shares nothing with the loops above."""
    model = encoder(decomposition=decomposition, distance=distance)
    unary, mask = sentences([5, 3])
    q = (unary.softmax(-1) * mask[:, :, None]).requires_grad_()
    allowed = (mask[:, :, None] & mask[:, None, :] & ~torch.eye(5, dtype=torch.bool))[:, None]
    heads = torch.rand(2, 2, 5, 5, dtype=torch.float64) * allowed
    buckets = Buckets.of(5, distance, torch.device("cpu"))
    messages = TernaryMessages(model.ternary.forms(buckets.sizes), q, buckets)
    (gradient,) = torch.autograd.grad((messages.to_heads() * heads).sum(), q)
    torch.testing.assert_close(messages.to_labels(heads), gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradcheck(decomposition, schedule):
    torch.manual_seed(0)
    model = encoder(labels=3, iterations=2, distance=1, decomposition={**decomposition}, schedule=schedule)
    unary, mask = sentences([4, 1, 3], labels=3)
    names = [name for name, _ in model.named_parameters()]

    def run(unary: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        states = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (unary, mask)).states
        return states[mask]

    inputs = [unary, *(p.detach().clone() for p in model.parameters())]
    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in inputs])


# --- the contract of every encoder ----------------------------------------------------------------------------------

CONTRACT = [
    {"labels": 8, "channels": 2, "iterations": 2, "decomposition": d, "distance": g, "dropout": 0.0}
    for d in DECOMPOSITIONS
    for g in (None, 0, 3)
]


@pytest.fixture(params=CONTRACT, ids=lambda section: f"{section['decomposition']['kind']}-{section['distance']}")
def any_encoder(request):
    torch.manual_seed(0)
    return build(request.param).eval()


def test_shapes(any_encoder):
    unary, mask = sentences([5, 2], labels=8)
    encoded = any_encoder(unary.float(), mask)
    assert encoded.states.shape == (2, 5, 8)
    assert encoded.arcs is None
    arcs = any_encoder(unary.float(), mask, arcs=True).arcs
    assert arcs.shape == (2, 2, 2, 5, 5)
    real = mask[:, None, None].expand(2, 2, 2, 5)
    torch.testing.assert_close(arcs.sum(-1)[real], torch.ones(int(real.sum())))


def test_padding_and_batch_mates_change_nothing(any_encoder):
    model = any_encoder.double()
    unary, mask = sentences([6, 3, 1], labels=8)
    together = model(unary, mask, arcs=True)
    for b, n in enumerate([6, 3, 1]):
        alone = model(unary[b : b + 1, :n], mask[b : b + 1, :n], arcs=True)
        torch.testing.assert_close(together.states[b : b + 1, :n], alone.states, rtol=0, atol=1e-12)
        torch.testing.assert_close(together.arcs[b : b + 1, ..., :n, :n], alone.arcs, rtol=0, atol=1e-12)
    garbage = torch.where(mask[:, :, None], unary, torch.full_like(unary, 1e6))
    assert torch.equal(model(garbage, mask).states, together.states)


def test_order_of_the_batch_does_not_matter(any_encoder):
    unary, mask = sentences([4, 6, 2], labels=8)
    order = torch.tensor([2, 0, 1])
    model = any_encoder.double()
    torch.testing.assert_close(
        model(unary[order], mask[order]).states, model(unary, mask).states[order], rtol=0, atol=1e-12
    )


def test_one_word_sentence_has_no_heads_and_no_nan(any_encoder):
    unary, mask = sentences([1], labels=8)
    encoded = any_encoder(unary.float(), mask, arcs=True)
    assert not encoded.arcs.any()
    torch.testing.assert_close(encoded.states, unary.float())


def test_a_fully_padded_sentence_is_all_zero(any_encoder):
    unary, mask = sentences([3, 3], labels=8)
    mask[1] = False
    encoded = any_encoder(unary.float(), mask, arcs=True)
    assert not encoded.states[1].any()
    assert not encoded.arcs[1].any()


def test_bfloat16_is_finite_and_close(any_encoder):
    unary, mask = sentences([6, 3], labels=8)
    exact = any_encoder(unary.float(), mask).states
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = any_encoder(unary.float(), mask).states.float()
    assert rough.isfinite().all()
    assert (rough - exact).norm() / exact.norm() < 0.1


def test_saved_and_loaded_weights_give_the_same_bits(any_encoder, tmp_path):
    from safetensors.torch import load_file, save_file

    save_file(any_encoder.state_dict(), tmp_path / "weights.safetensors")
    again = build(any_encoder.section).eval()
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    unary, mask = sentences([6, 3], labels=8)
    assert torch.equal(any_encoder(unary.float(), mask).states, again(unary.float(), mask).states)


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
def test_penalty_is_the_norm_of_the_whole_of_t(decomposition):
    model = encoder(decomposition=decomposition)
    norm = model.ternary_scores().norm()
    torch.testing.assert_close(model.penalty(squared=False), norm)
    torch.testing.assert_close(model.penalty(squared=True), norm**2)


def test_dropout_acts_in_training_only():
    model = build({"labels": 8, "channels": 2, "dropout": 0.5})
    unary, mask = sentences([6], labels=8)
    torch.manual_seed(0)
    assert not torch.equal(model(unary.float(), mask).states, model(unary.float(), mask).states)
    model.eval()
    assert torch.equal(model(unary.float(), mask).states, model(unary.float(), mask).states)


def test_parameter_counts_are_the_published_ones():
    """Encoder sizes that the reference reports for PTB MLM and for UD POS."""
    mlm = build({"labels": 384, "channels": 16, "decomposition": {"kind": "uv", "rank": 64}, "distance": 3})
    assert sum(p.numel() for p in mlm.parameters()) == 6_291_456
    pos = build({"labels": 128, "channels": 18, "decomposition": {"kind": "none"}, "distance": 3})
    assert sum(p.numel() for p in pos.parameters()) == 2_359_296


def test_buckets_are_those_of_equation_10():
    for gamma in (0, 1, 3):
        buckets = Buckets.of(9, gamma, torch.device("cpu"))
        assert bucket_count(gamma) == 2 * gamma + 2
        for i, j in itertools.permutations(range(9), 2):
            expected = bucket(i - j, gamma)
            far = [k for k, plane in zip((0, 2 * gamma + 1), buckets.far, strict=True) if plane[i, j]]
            assert (far or [int(buckets.near[i, j]) + 1]) == [expected]


@pytest.mark.gpu
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
def test_gpu_gives_the_same_values(decomposition):
    model = encoder(decomposition=decomposition, labels=16, distance=3)
    unary, mask = sentences([20, 7, 1], labels=16)
    here = model(unary, mask, arcs=True)
    there = model.cuda()(unary.cuda(), mask.cuda(), arcs=True)
    torch.testing.assert_close(there.states.cpu(), here.states, rtol=0, atol=1e-9)
    torch.testing.assert_close(there.arcs.cpu(), here.arcs, rtol=0, atol=1e-9)
