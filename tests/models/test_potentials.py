"""The potentials of the field: sizes, options that are refused, scores, gains, the penalty; and what comes out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from oracle import on_the_sphere
from pydantic import ValidationError
from small_models import DECOMPOSITIONS, GLOBALS, encoder, global_scores, infer, name, root_scores, sentences
from torch import nn

from probtrans_cli.models import build
from probtrans_cli.models.base import Encoded, Words
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import TiedMean, TiedOutput, word_output
from probtrans_cli.models.probabilistic.crf import bucket_of
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.fast.layout import offset_tensor
from probtrans_cli.models.probabilistic.potentials import bucket_count
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.model import ProbabilisticTransformer
from probtrans_cli.recipe.training import Optim
from probtrans_cli.training.optim import Optimizers

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


# --- building ---------------------------------------------------------------------------------------------------------

UV = {"kind": "uv", "rank": 64}
SIZES: list[tuple[str, dict[str, Any], int]] = [
    # 2 factors x 8 buckets x 16 channels x 64 x 384
    ("PTB, masked words", {"labels": 384, "channels": 16, "decomposition": UV, "distance": 3}, 6_291_456),
    # 8 buckets x 18 channels x 128 x 128
    ("UD, tagging", {"labels": 128, "channels": 18, "decomposition": {"kind": "none"}, "distance": 3}, 2_359_296),
    # 2 factors x 18 buckets x 4 channels x 16 x 64
    ("COGS", {"labels": 64, "channels": 4, "decomposition": {**UV, "rank": 16}, "distance": 8}, 147_456),
    # 2 factors x 8 buckets x 10 channels x 64 x 512, and as much again for the root: 10 channels x 512 x 1024
    (
        "SST-2",
        {"labels": 512, "channels": 10, "decomposition": UV, "distance": 3, "root": {"labels": 1024}},
        10_485_760,
    ),
]


@pytest.mark.parametrize(("section", "count"), [size[1:] for size in SIZES], ids=[size[0] for size in SIZES])
def test_parameter_counts_are_the_published_ones(section: dict[str, Any], count: int) -> None:
    """Encoder sizes that the reference reports, without the unary scores."""
    with torch.device("meta"):
        model = build(section)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"decomposition": {"kind": "rotary", "rank": 2}, "distance": 3}, "distance"),
    ({"decomposition": {"kind": "rotary", "rank": 2}, "symmetric": True}, "symmetric"),
    ({"globals": {"kind": "dep-split", "parameterization": "neural"}}, "globals.parameterization"),
    ({"globals": {"kind": "single-split", "parameterization": "neural"}}, "globals.parameterization"),
    ({"globals": {"kind": "rectified", "parameterization": "neural"}}, "globals.parameterization"),
    ({"globals": {"kind": "all-dep"}, "heads": "tree"}, "globals.kind"),
    *(
        ({"globals": kind and {"kind": kind}, "message_weight": {"features": 2.0}}, "message_weight.features")
        for kind in (None, "all-dep", "rectified")
    ),
]


@pytest.mark.parametrize(("section", "key"), WRONG, ids=[f"{name(one)}" for one, _ in WRONG])
def test_options_that_do_not_go_together_are_refused(section: dict[str, Any], key: str) -> None:
    with pytest.raises(InconsistentError) as raised:
        build(section)
    assert [".".join(path) for path, _ in raised.value.faults] == [key]


@pytest.mark.parametrize(
    ("section", "error", "key"),
    [
        ({"labels": 0}, ValidationError, "labels"),
        ({"chanels": 3}, ValidationError, "chanels"),
        ({"kind": "lstm"}, KeyError, "lstm"),
    ],
)
def test_wrong_values_and_kinds_are_refused(section: dict[str, Any], error: type[Exception], key: str) -> None:
    with pytest.raises(error, match=key):
        build(section)


def test_a_dict_and_its_section_build_the_same() -> None:
    def weights(section: Any) -> Iterator[torch.Tensor]:
        torch.manual_seed(0)
        return build(section).parameters()

    section = {"labels": 8, "channels": 2, "root": {"labels": 4}, "globals": GLOBALS[1]}
    again = build(section).section
    assert all(torch.equal(*pair) for pair in zip(weights(section), weights(again), strict=True))
    for kind in ("dep-split", "single-split"):  # features apart from heads may have a weight of their own
        assert build({"globals": {"kind": kind}, "message_weight": {"features": 2.0}}).facts.has_arcs


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_a_word_by_itself_and_a_sentence_of_padding() -> None:
    """The word has no word as head, and its states are its unary scores; what is padding is zero."""
    for options in ({}, {"root": ROOTS[0]}, *({"globals": features} for features in GLOBALS), {"heads": "tree"}):
        model = encoder(**options)
        unary, mask = sentences([1, 1])
        mask[1] = False
        encoded = model(Words(unary, mask), arcs=True)
        assert not encoded.arcs[..., :1].any()
        assert not encoded.arcs[1].any()
        assert not encoded.states[1].any()
        assert encoded.states.isfinite().all()
        assert encoded.sentence is None or encoded.sentence.isfinite().all()
        if options in ({}, {"heads": "tree"}):
            torch.testing.assert_close(encoded.states[0], unary[0])


@pytest.mark.parametrize("heads", ["independent", "tree"])
def test_probabilities_are_the_softmax_of_the_scores(heads: str) -> None:
    options: dict[str, Any] = {"heads": heads, "root": ROOTS[0]}
    scores, probabilities = encoder(**options), encoder(**options, output="probabilities")
    unary, mask = sentences([5, 2])
    given, found = scores(Words(unary, mask)), probabilities(Words(unary, mask))
    torch.testing.assert_close(found.states[mask], given.states[mask].softmax(-1))
    torch.testing.assert_close(found.sentence, given.sentence.softmax(-1))
    torch.testing.assert_close(found.states.sum(-1), mask.double())
    torch.testing.assert_close(found.sentence.sum(-1), torch.ones(2, dtype=torch.float64))
    at = torch.zeros_like(mask)
    at[0, 1] = True
    torch.testing.assert_close(probabilities(Words(unary, mask), at=at).states[0, 1], found.states[0, 1])


# --- the scores -------------------------------------------------------------------------------------------------------


SHAPES = [
    (decomposition, distance, symmetric)
    for k, decomposition in enumerate(DECOMPOSITIONS[:4])
    for symmetric in (False, True)
    for distance in [(None, 0), (0, 2), (None, 2)][(k + symmetric) % 3]
]


@torch.no_grad()
@pytest.mark.parametrize(("decomposition", "distance", "symmetric"), SHAPES, ids=name)
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
            R[plane, plane] = R[plane + 2, plane + 2] = math.cos(angle)
            R[plane, plane + 2], R[plane + 2, plane] = -math.sin(angle), math.sin(angle)
        torch.testing.assert_close(found, torch.einsum("cra,rs,cse->cae", U, R, V), rtol=0, atol=1e-12)
    torch.testing.assert_close(model.ternary_scores(), model.ternary_scores([-1, 1]))


@torch.no_grad()
def test_root_and_global_scores_are_those_of_their_factors() -> None:
    equations = {"T": "cab->cab", "U V": "cra,crb->cab", "U V W": "ra,rb,cr->cab"}
    for root, (factors, equation) in zip(ROOTS, equations.items(), strict=True):
        model = encoder(root=root, labels=4)
        expected = torch.einsum(equation, *(getattr(model.root, factor) for factor in factors.split()))
        assert expected.shape == (2, 4, 3)
        torch.testing.assert_close(root_scores(model), expected, rtol=0, atol=1e-12)
    for features in GLOBALS:
        model = encoder(globals=features, labels=4)
        B, part = global_scores(model), model.globals
        alone = features["kind"] in ("single-split", "rectified")
        assert B.shape == ((3, 4) if alone else (2, 3, 4))
        if features.get("parameterization") == "neural":
            expected = torch.einsum("kg,cag->cka", part.features.softmax(-1), part.T)
            torch.testing.assert_close(B, expected, rtol=0, atol=1e-12)
        else:
            assert torch.equal(B, part.B.squeeze(0) if alone else part.B)
    assert root_scores(encoder()) is None
    assert global_scores(encoder()) is None


def test_buckets_are_those_of_equation_10() -> None:
    for gamma in (None, 0, 1, 3):
        assert bucket_count(gamma) == (1 if gamma is None else 2 * gamma + 2)
        distances = [x for x in range(-8, 9) if x != 0]
        assert bucket_of(torch.tensor(distances), gamma).tolist() == [bucket(x, gamma) for x in distances]
    assert [bucket(x, 3) for x in offset_tensor(3, torch.device("cpu")).tolist()] == [*range(1, 7)]


# --- the penalty ------------------------------------------------------------------------------------------------------


def penalty(model: ProbabilisticEncoder) -> torch.Tensor:
    """The penalty of a weight of 1."""
    return model.regularizer(Optim.model_validate({"ternary_penalty": {"weight": 1.0}}))["ternary_penalty"]


@pytest.mark.parametrize(("decomposition", "distance", "symmetric"), SHAPES, ids=name)
def test_penalty_is_the_norm_of_the_whole_of_t(
    decomposition: dict[str, Any], distance: int | None, symmetric: bool
) -> None:
    model = encoder(decomposition=decomposition, distance=distance, symmetric=symmetric)
    parameters = list(model.parameters())
    norm = model.ternary_scores().norm()
    torch.testing.assert_close(penalty(model), norm)
    pairs = (torch.autograd.grad(value, parameters, retain_graph=True) for value in (penalty(model), norm))
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
    assert float(penalty(model)) ** 2 == pytest.approx(sum(norms) / len(norms), rel=1e-12)


# --- potentials of every iteration ------------------------------------------------------------------------------------


def test_each_iteration_may_have_potentials_of_its_own() -> None:
    """The first ones are called as those of a model that shares them; the penalty is that of all together."""
    parts = {"root": ROOTS[0], "globals": GLOBALS[2], "iterations": 3}
    shared, own = encoder(**parts), encoder(**parts, share_potentials=False)
    names, more = ({name for name, _ in model.named_parameters()} for model in (shared, own))
    assert more == names | {f"later.{number}.{name}" for number in (0, 1) for name in names}
    scores = [own.ternary_scores(iteration=number) for number in (1, 2, 3)]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(scores, 2))
    torch.testing.assert_close(penalty(own) ** 2, sum(score.square().sum() for score in scores))
    assert torch.equal(shared.ternary_scores(iteration=3), shared.ternary_scores())
    for model, wrong in itertools.product((shared, own), (0, 4)):
        with pytest.raises(ValueError, match="iterations 1 to 3"):
            model.ternary_scores(iteration=wrong)
    assert "each with potentials of its own" in own.section.describe()
    assert "of its own" not in shared.section.describe()
    for one, other in ((root_scores(own, 2), own.later[0].root), (global_scores(own, 3), own.later[1].globals)):
        assert one is not None
        torch.testing.assert_close(one, other.dense())


# --- gains ------------------------------------------------------------------------------------------------------------

SYMMETRIC = [{"decomposition": kind, "symmetric": True} for kind in DECOMPOSITIONS if kind["kind"] != "rotary"]


@torch.no_grad()
@pytest.mark.parametrize("options", [{"decomposition": kind} for kind in DECOMPOSITIONS] + SYMMETRIC, ids=name)
def test_gains_scale_scores_at_the_word_and_at_its_head(options: dict[str, Any]) -> None:
    """Of ternary scores; of root and global ones at the word alone; the penalty is that of the scaled scores."""
    for root, features in itertools.zip_longest(ROOTS, GLOBALS, fillvalue=None):
        parts = {**options, "root": root, "globals": features}
        model, plain = encoder(**parts, gains=True), encoder(**parts)
        plain.load_state_dict({key: value for key, value in model.state_dict().items() if not key.endswith("gains")})
        gains = model.ternary.gains
        for distances in (None, [-3, -1, 2]):
            scaled = gains[:, None] * gains * plain.ternary_scores(distances)
            torch.testing.assert_close(model.ternary_scores(distances), scaled, rtol=0, atol=1e-12)
        if root is not None:
            of_root = model.root.gains[:, None] * root_scores(plain)
            torch.testing.assert_close(root_scores(model), of_root, rtol=0, atol=1e-12)
        if features is not None:
            of_features = model.globals.gains * global_scores(plain)
            torch.testing.assert_close(global_scores(model), of_features, rtol=0, atol=1e-12)
    if options["decomposition"]["kind"] == "rotary":
        plain.ternary.U *= gains
        plain.ternary.V *= gains
        torch.testing.assert_close(penalty(model), penalty(plain))
    else:
        torch.testing.assert_close(penalty(model), model.ternary_scores().norm())


@torch.no_grad()
@pytest.mark.parametrize("latent", ["categorical", "spherical"])
def test_a_model_starts_as_one_without(latent: str) -> None:
    """Gains of 1 change nothing, and nothing else is drawn otherwise."""
    options: dict[str, Any] = {"labels": 6, "channels": 2, "latent": latent, "dropout": 0.0, "root": ROOTS[1]}
    options |= {"globals": GLOBALS[2], "share_potentials": False, "iterations": 2}
    made = []
    for gains in (False, True):
        torch.manual_seed(0)
        made.append(build({**options, "gains": gains}).double().eval())
    unary, mask = sentences([5, 2], labels=6)
    plain, model = (one(Words(unary, mask)) for one in made)
    torch.testing.assert_close(plain.states, model.states)
    torch.testing.assert_close(plain.sentence, model.sentence)
    more = sum(one.numel() for one in made[1].parameters()) - sum(one.numel() for one in made[0].parameters())
    assert more == 2 * 3 * 6  # two iterations, of three sets of scores each


# --- the output -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("output", ["scores", "probabilities", "of a sphere"])
def test_the_tied_output_is_the_mean_field_of_the_hidden_word(output: str) -> None:
    """``W_i`` as one more variable, with ``g S_w``; what is no word has no probability.

    ``Q(w) ∝ exp(E[g S_w · z_i])`` of a sphere; of labels ``Σ_a exp(g_a S_w,a + M_a)``.
    """
    spherical = output == "of a sphere"
    made = network(latent="spherical") if spherical else network(latent="categorical", output=output)
    assert isinstance(made.words, TiedMean if spherical else TiedOutput)
    table = made.words.gains * made.unary.weight
    messages = torch.randn(5, 6, dtype=torch.float64)
    states = messages.softmax(-1) if output == "probabilities" else messages
    rtol, atol = (1e-4, 1e-6) if spherical else (1e-9, 1e-12)
    for row, message in zip(made.words(states, made.unary.weight).softmax(-1), messages, strict=True):
        if spherical:
            mean = on_the_sphere(message.tolist())
            weights = [math.exp(sum(mean[a] * table[w, a] for a in range(6))) for w in range(9)]
        else:
            weights = [sum(math.exp(table[w, a] + message[a]) for a in range(6)) for w in range(9)]
        expected = torch.tensor([0.0 if w in (0, 2) else weights[w] for w in range(9)], dtype=torch.float64)
        torch.testing.assert_close(row, expected / expected.sum(), rtol=rtol, atol=atol)


def network(**options: Any) -> Network:
    """A network of nine words with a tied output, in float64; gains of the output are N(0, 1)."""
    torch.manual_seed(0)
    section = {"kind": "probabilistic", "labels": 6, "channels": 2, "dropout": 0.0, "gains": True, **options}
    made = Network(9, build(section), lambda of: word_output("tied", of, 9, (0, 2), tied=True)).double().eval()
    nn.init.normal_(made.words.gains)
    return made


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_decay_of_matrices_leaves_gains_alone() -> None:
    made = network(latent="spherical", globals=GLOBALS[4], root=ROOTS[0])
    options = {"kind": "adamw", "weight_decay": 0.2, "decayed": "matrices"}
    groups = Optimizers(Optim.model_validate(options), made).adam.param_groups
    decays = {id(one): group["weight_decay"] for group in groups for one in group["params"]}
    found = {key: decays[id(one)] for key, one in made.named_parameters() if key.endswith("gains")}
    names = ("encoder.ternary", "encoder.root", "encoder.globals", "output")
    assert found == {f"{name}.gains": 0.0 for name in names}
    assert decays[id(made.encoder.ternary.U)] == 0.2


# --- how loud messages are --------------------------------------------------------------------------------------------


def test_how_loud_messages_are() -> None:
    """`message_norm`, by loops; it does not hear of padding, nor of what all labels of a word share."""
    torch.manual_seed(0)
    unary, messages, mask = torch.randn(2, 4, 5), torch.randn(2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    mask[1, 2:] = False
    own = heard = 0.0
    for b, i in mask.nonzero().tolist():
        for a in range(5):
            own += float(unary[b, i, a] - unary[b, i].mean()) ** 2
            heard += float(messages[b, i, a] - messages[b, i].mean()) ** 2
    scores = torch.where(mask[:, :, None], unary + messages + torch.randn(2, 4, 1), 1e9)
    norm = encoder().float().figures(Words(unary, mask), Encoded(scores))["message_norm"]
    assert float(norm) == pytest.approx((heard / own) ** 0.5, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    "options", [{}, {"output": "probabilities"}, {"latent": "spherical", "message_weight": {"labels": 0.5}}], ids=name
)
def test_an_encoder_tells_how_loud_its_messages_are(options: dict[str, Any]) -> None:
    """Before they are divided by λ_Z, whatever the states are; without ternary scores it is 0. What all labels of a
    word share is left out; vectors on a sphere have it."""
    torch.manual_seed(0)
    section = {"labels": 6, "channels": 2, "iterations": 1 if "latent" in options else 2, "dropout": 0.0, **options}
    model = ProbabilisticEncoder(ProbabilisticTransformer.model_validate(section))
    words = Words(torch.randn(1, 4, 6), torch.ones(1, 4, dtype=torch.bool))
    unary, states = words.vectors, model(words)
    if "latent" in options:
        messages = 0.5 * states.states - unary
    else:
        messages = infer(model, unary, words.mask)[-1].labels.log() - unary
        messages, unary = (values - values.mean(-1, keepdim=True) for values in (messages, unary))
    found = model.figures(words, states)
    assert float(found["message_norm"]) == pytest.approx(float(messages.norm() / unary.norm()), rel=1e-4)
    torch.nn.init.zeros_(model.ternary.U)
    assert float(model.figures(words, model(words))["message_norm"]) == pytest.approx(0.0, abs=1e-5)
