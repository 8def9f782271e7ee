"""The contract that every encoder keeps, its scores, and its penalty."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import DECOMPOSITIONS, GLOBALS, encoder, name, sentences, with_distances

from probtrans_cli.models import build
from probtrans_cli.models.probabilistic.crf import bucket_of
from probtrans_cli.models.probabilistic.fast.layout import offsets
from probtrans_cli.models.probabilistic.potentials import bucket_count

ROOTS: list[dict[str, Any]] = [
    {"labels": 3, "decomposition": {"kind": "none"}},
    {"labels": 3, "decomposition": {"kind": "uv", "rank": 2}},
    {"labels": 3, "decomposition": {"kind": "uvw", "rank": 2}},
]


def bucket(x: int, gamma: int | None) -> int:
    """f of Eq. 10."""
    if gamma is None or x < -gamma:
        return 0
    if x < 0:
        return x + gamma + 1
    return min(x + gamma, 2 * gamma + 1)


# --- the contract of every encoder ------------------------------------------------------------------------------------

COMMON: dict[str, Any] = {"labels": 8, "channels": 2, "iterations": 2, "dropout": 0.0}
CONTRACT: list[dict[str, Any]] = [
    *with_distances(DECOMPOSITIONS, [None, 0, 3]),
    {"root": ROOTS[0]},
    *({"globals": one} for one in GLOBALS),
    {"root": ROOTS[1], "globals": GLOBALS[0], "schedule": "synchronous", "damping": {"heads": 0.3}},
    {"symmetric": True, "decomposition": {"kind": "shared", "rank": 3}},
    {"share_potentials": False, "root": ROOTS[0], "globals": GLOBALS[0]},
    {"gains": True, "root": ROOTS[0], "globals": GLOBALS[2]},
    {"heads": "tree"},
    {"heads": "tree", "root": ROOTS[0], "globals": GLOBALS[3]},
    {"output": "probabilities", "root": ROOTS[0]},
]


@pytest.fixture(params=CONTRACT, ids=name)
def any_encoder(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    return build({**COMMON, **request.param}).eval()


def extra_columns(model: Any) -> int:
    """Candidates that are no words: root and all-dep global features."""
    features = model.section.globals
    all_dep = features is not None and features.kind == "all-dep"
    return (model.section.root is not None) + (features.features if all_dep else 0)


def test_shapes(any_encoder: Any) -> None:
    unary, mask = sentences([5, 2], labels=8)
    encoded = any_encoder(unary.float(), mask)
    assert encoded.states.shape == (2, 5, 8)
    assert encoded.states.dtype == torch.float32
    assert encoded.arcs is None
    root = any_encoder.section.root
    assert encoded.sentence is None if root is None else encoded.sentence.shape == (2, root.labels)
    arcs = any_encoder(unary.float(), mask, arcs=True).arcs.detach()
    assert arcs.shape == (2, 2, 2, 5, 5 + extra_columns(any_encoder))
    assert not arcs.diagonal(dim1=-2, dim2=-1).any()
    real = mask[:, None, None].expand(2, 2, 2, 5)
    total = arcs.sum(-1)[real]
    if any_encoder.section.heads == "tree" and any_encoder.section.root is None:
        assert float(total.max()) <= 1.0 + 1e-5  # the rest is under a root that is no column
        torch.testing.assert_close(arcs.sum((-2, -1)), (mask.sum(1) - 1.0)[:, None, None].expand(2, 2, 2))
    else:
        torch.testing.assert_close(total, torch.ones(int(real.sum())))


def test_padding_and_batch_mates_change_nothing(any_encoder: Any) -> None:
    model, lengths = any_encoder.double(), [6, 3, 1]
    unary, mask = sentences(lengths, labels=8)
    together = model(unary, mask, arcs=True)
    garbage = torch.where(mask[:, :, None], unary, 1e6)
    for messages in ("fast", "plain"):  # rows of real words only, and of all positions
        model.messages = messages
        torch.testing.assert_close(model(garbage, mask).states, together.states, rtol=0, atol=1e-12)
    for b, n in enumerate(lengths):
        alone = model(unary[b : b + 1, :n], mask[b : b + 1, :n], arcs=True)
        columns = [*range(n), *range(6, together.arcs.shape[-1])]
        torch.testing.assert_close(together.states[b : b + 1, :n], alone.states, rtol=0, atol=1e-12)
        torch.testing.assert_close(together.arcs[b : b + 1, :, :, :n, columns], alone.arcs, rtol=0, atol=1e-12)
        if alone.sentence is not None:
            torch.testing.assert_close(together.sentence[b : b + 1], alone.sentence, rtol=0, atol=1e-12)


def test_order_of_the_batch_does_not_matter(any_encoder: Any) -> None:
    unary, mask = sentences([4, 6, 2], labels=8)
    order = torch.tensor([2, 0, 1])
    model = any_encoder.double()
    moved, here = model(unary[order], mask[order]), model(unary, mask)
    torch.testing.assert_close(moved.states, here.states[order], rtol=0, atol=1e-12)
    if here.sentence is not None:
        torch.testing.assert_close(moved.sentence, here.sentence[order], rtol=0, atol=1e-12)


def test_a_one_word_sentence_has_no_word_as_head_and_no_nan(any_encoder: Any) -> None:
    unary, mask = sentences([1], labels=8)
    encoded = any_encoder(unary.float(), mask, arcs=True)
    assert not encoded.arcs[..., :1].any()
    assert encoded.states.isfinite().all()
    section = any_encoder.section
    if section.root is None and section.globals is None:
        torch.testing.assert_close(encoded.states, unary.float())


def test_a_fully_padded_sentence_is_all_zero(any_encoder: Any) -> None:
    unary, mask = sentences([3, 3], labels=8)
    mask[1] = False
    encoded = any_encoder(unary.float(), mask, arcs=True)
    assert not encoded.states[1].any()
    assert not encoded.arcs[1].any()
    assert encoded.sentence is None or encoded.sentence.isfinite().all()


def test_bfloat16_is_finite_and_close(any_encoder: Any) -> None:
    unary, mask = sentences([6, 3], labels=8)
    exact = any_encoder(unary.float(), mask).states
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = any_encoder(unary.float(), mask).states.float()
    assert rough.isfinite().all()
    assert (rough - exact).norm() / exact.norm() < 0.1


def test_saved_and_loaded_weights_give_the_same_bits(any_encoder: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_file(any_encoder.state_dict(), tmp_path / "weights.safetensors")
    again = build(any_encoder.section).eval()
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    unary, mask = sentences([6, 3], labels=8)
    assert torch.equal(any_encoder(unary.float(), mask).states, again(unary.float(), mask).states)


def test_every_parameter_matters(any_encoder: Any) -> None:
    unary, mask = sentences([6, 3], labels=8)
    encoded = any_encoder(unary.float(), mask)
    total = (encoded.states * torch.randn_like(encoded.states)).sum()
    if encoded.sentence is not None:
        total = total + (encoded.sentence * torch.randn_like(encoded.sentence)).sum()
    for gradient in torch.autograd.grad(total, list(any_encoder.parameters())):
        assert gradient.isfinite().all()
        assert gradient.any()


# --- what comes out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", ["independent", "tree"])
def test_probabilities_are_the_softmax_of_the_scores(heads: str) -> None:
    options: dict[str, Any] = {"heads": heads, "root": ROOTS[0]}
    scores, probabilities = encoder(**options), encoder(**options, output="probabilities")
    unary, mask = sentences([5, 2])
    given, found = scores(unary, mask), probabilities(unary, mask)
    torch.testing.assert_close(found.states[mask], given.states[mask].softmax(-1))
    torch.testing.assert_close(found.sentence, given.sentence.softmax(-1))
    torch.testing.assert_close(found.states.sum(-1), mask.double())
    torch.testing.assert_close(found.sentence.sum(-1), torch.ones(2, dtype=torch.float64))
    at = torch.zeros_like(mask)
    at[0, 1] = True
    torch.testing.assert_close(probabilities(unary, mask, at=at).states[0, 1], found.states[0, 1])


def test_arcs_are_the_heads_of_every_iteration() -> None:
    model = encoder(root=ROOTS[0], globals=GLOBALS[0], iterations=3)
    unary, mask = sentences([4, 2])
    arcs, states = model(unary, mask, arcs=True).arcs, model.infer(unary, mask)
    assert len(states) == 4
    torch.testing.assert_close(arcs, torch.stack([state.heads for state in states[1:]], 1))


# --- the scores -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("distance", [None, 0, 2])
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS[:4], ids=name)
def test_ternary_scores_are_those_of_their_factors(
    decomposition: dict[str, Any], distance: int | None, symmetric: bool
) -> None:
    """Eq. 13 and 14 and those of our own, term by term; and the bucket of every distance (Eq. 10)."""
    model = encoder(decomposition=decomposition, distance=distance, symmetric=symmetric, labels=3)
    T, parameters = model.ternary_scores(), dict(model.ternary.named_parameters())
    assert T.shape == (bucket_count(distance), 2, 3, 3)
    kind, ranks = decomposition["kind"], range(decomposition.get("rank", 0))
    U = parameters.get("U")
    V = parameters.get("V", U)
    for k, c, a, b in itertools.product(*map(range, T.shape)):
        if kind == "none":
            full = parameters["T"][k, c]
            expected = (full[a, b] + full[b, a]) / 2 if symmetric else full[a, b]
        elif kind == "uv":
            weight = parameters["D"][k, c] if symmetric else torch.ones(len(ranks))
            expected = sum(U[k, c, r, a] * weight[r] * V[k, c, r, b] for r in ranks)
        elif kind == "uvw":
            expected = sum(U[k, r, a] * V[k, r, b] * parameters["W"][k, c, r] for r in ranks)
        else:
            expected = sum(U[c, r, a] * parameters["D"][k, c, r] * V[c, r, b] for r in ranks)
        assert abs(float(T[k, c, a, b]) - float(expected)) < 1e-12
    distances = [-4, -3, -2, -1, 1, 2, 3, 4]
    by_distance = model.ternary_scores(distances)
    for found, x in zip(by_distance, distances, strict=True):
        torch.testing.assert_close(found, T[bucket(x, distance)])


@torch.no_grad()
def test_rotary_scores_are_a_rotation_between_the_factors() -> None:
    model = encoder(decomposition={"kind": "rotary", "rank": 4, "base": 100.0}, labels=3)
    U, V = model.ternary.U, model.ternary.V  # [h, r, d]
    distances = [-7, -1, 0, 1, 5]
    for found, x in zip(model.ternary_scores(distances), distances, strict=True):
        R = torch.zeros(4, 4, dtype=torch.float64)
        for plane in range(2):
            angle = x * 100.0 ** (-2 * plane / 4)
            for row, column, value in (
                (plane, plane, math.cos(angle)),
                (plane, plane + 2, -math.sin(angle)),
                (plane + 2, plane, math.sin(angle)),
                (plane + 2, plane + 2, math.cos(angle)),
            ):
                R[row, column] = value
        torch.testing.assert_close(found, torch.einsum("cra,rs,cse->cae", U, R, V), rtol=0, atol=1e-12)
    torch.testing.assert_close(model.ternary_scores(), model.ternary_scores([-1, 1]))


@torch.no_grad()
@pytest.mark.parametrize("root", ROOTS, ids=name)
def test_root_scores(root: dict[str, Any]) -> None:
    model = encoder(root=root, labels=4)
    T = model.root_scores()
    assert T.shape == (2, 4, 3)
    part = model.root
    for c, a, b in itertools.product(*map(range, T.shape)):
        kind = root["decomposition"]["kind"]
        if kind == "none":
            expected = part.T[c, a, b]
        elif kind == "uv":
            expected = sum(part.U[c, r, a] * part.V[c, r, b] for r in range(2))
        else:
            expected = sum(part.U[r, a] * part.V[r, b] * part.W[c, r] for r in range(2))
        assert abs(float(T[c, a, b]) - float(expected)) < 1e-12
    assert encoder().root_scores() is None


@torch.no_grad()
@pytest.mark.parametrize("given", GLOBALS, ids=name)
def test_global_scores(given: dict[str, Any]) -> None:
    model = encoder(globals=given, labels=4)
    B, part = model.global_scores(), model.globals
    alone = given["kind"] in ("single-split", "rectified")
    assert B.shape == ((3, 4) if alone else (2, 3, 4))
    if given.get("parameterization") == "neural":
        labels = part.features.softmax(-1)
        for c, k, a in itertools.product(*map(range, B.shape)):
            expected = sum(labels[k, g] * part.T[c, a, g] for g in range(4))
            assert abs(float(B[c, k, a]) - float(expected)) < 1e-12
    else:
        assert torch.equal(B, part.B.squeeze(0) if alone else part.B)
    assert encoder().global_scores() is None


def test_buckets_are_those_of_equation_10() -> None:
    for gamma in (None, 0, 1, 3):
        planes = bucket_of(9, gamma, torch.device("cpu"))
        assert len(planes) == bucket_count(gamma) == (1 if gamma is None else 2 * gamma + 2)
        for i, j in itertools.permutations(range(9), 2):
            assert planes[:, i, j].nonzero().tolist() == [[bucket(i - j, gamma)]]
    assert [bucket(x, 3) for x in offsets(3)] == [*range(1, 7)]


# --- the penalty ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("distance", [None, 3])
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS[:4], ids=name)
def test_penalty_is_the_norm_of_the_whole_of_t(
    decomposition: dict[str, Any], distance: int | None, symmetric: bool
) -> None:
    model = encoder(decomposition=decomposition, distance=distance, symmetric=symmetric)
    parameters = list(model.parameters())
    norm = model.ternary_scores().norm()
    torch.testing.assert_close(model.penalty(), norm)
    pairs = (torch.autograd.grad(value, parameters, retain_graph=True) for value in (model.penalty(), norm))
    for left, right in zip(*pairs, strict=True):
        torch.testing.assert_close(left, right)


@torch.no_grad()
def test_penalty_of_a_rotation_is_the_mean_over_its_angles() -> None:
    """A square norm is a trigonometric polynomial of degree 2 of every angle: the mean of four angles is exact."""
    model = encoder(decomposition={"kind": "rotary", "rank": 4})
    U, V = (factor.unflatten(1, (2, 2)) for factor in (model.ternary.U, model.ternary.V))  # [h, half, plane, d]
    norms = []
    for angles in itertools.product([0.3 + quarter * math.pi / 2 for quarter in range(4)], repeat=2):
        total = torch.zeros(())
        for plane, angle in enumerate(angles):
            turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            R = torch.tensor(turn, dtype=torch.float64)
            total = total + torch.einsum("cpa,pq,cqe->cae", U[:, :, plane], R, V[:, :, plane])
        norms.append(float(total.square().sum()))
    assert float(model.penalty() ** 2) == pytest.approx(sum(norms) / len(norms), rel=1e-12)
    assert float(model.penalty()) ** 2 == pytest.approx(sum(norms) / len(norms), rel=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize("messages", ["plain", "banded", "linear"])
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_gpu_gives_the_same_values(decomposition: dict[str, Any], messages: str) -> None:
    options: dict[str, Any] = {"root": ROOTS[0], "globals": GLOBALS[0], "labels": 16, "gains": True}
    model = encoder(decomposition=decomposition, **options, messages=messages)
    unary, mask = sentences([20, 7, 1], labels=16)
    here = model(unary, mask), model(unary, mask, arcs=True)
    model.cuda()
    there = model(unary.cuda(), mask.cuda()), model(unary.cuda(), mask.cuda(), arcs=True)
    for left, right in zip(there, here, strict=True):
        torch.testing.assert_close(left.states.cpu(), right.states, rtol=0, atol=1e-9)
        torch.testing.assert_close(left.sentence.cpu(), right.sentence, rtol=0, atol=1e-9)
    torch.testing.assert_close(there[1].arcs.cpu(), here[1].arcs, rtol=0, atol=1e-9)


# --- potentials of every iteration ------------------------------------------------------------------------------------


def test_each_iteration_may_have_potentials_of_its_own() -> None:
    """The first ones are called as those of a model that shares them; the penalty is that of all together."""
    parts = {"root": ROOTS[0], "globals": GLOBALS[2], "iterations": 3}
    shared, own = encoder(**parts), encoder(**parts, share_potentials=False)
    names, more = ({name for name, _ in model.named_parameters()} for model in (shared, own))
    assert more == names | {f"later.{number}.{name}" for number in (0, 1) for name in names}
    scores = [own.ternary_scores(iteration=number) for number in (1, 2, 3)]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(scores, 2))
    torch.testing.assert_close(own.penalty() ** 2, sum(one.square().sum() for one in scores))
    assert torch.equal(shared.ternary_scores(iteration=3), shared.ternary_scores())
    for model, wrong in itertools.product((shared, own), (0, 4)):
        with pytest.raises(ValueError, match="iterations 1 to 3"):
            model.ternary_scores(iteration=wrong)
    assert "each with potentials of its own" in own.section.describe()
    assert "of its own" not in shared.section.describe()
    for one, other in ((own.root_scores(2), own.later[0].root), (own.global_scores(3), own.later[1].globals)):
        assert one is not None
        torch.testing.assert_close(one, other.dense())


@torch.no_grad()
def test_the_same_potentials_in_every_iteration_are_shared_ones() -> None:
    parts = {"root": ROOTS[0], "globals": GLOBALS[0], "iterations": 3, "step_size": {"heads": 0.6}}
    shared, own = encoder(**parts), encoder(**parts, share_potentials=False)
    own.load_state_dict({key: shared.state_dict()[key.split(".", 2)[-1] if "later" in key else key]
                         for key in own.state_dict()})  # fmt: skip
    unary, mask = sentences([5, 3])
    torch.testing.assert_close(own(unary, mask).states, shared(unary, mask).states, rtol=0, atol=0)
