"""Gains of potentials: a learned factor of every label, in the scores and in the tied output."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from small_models import DECOMPOSITIONS, GLOBALS, encoder, name, sentences
from torch import nn

from probtrans_cli.models import build
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import WORD_OUTPUTS, TiedMean, TiedOutput
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.recipe.training import Optim
from probtrans_cli.training.optim import Optimizers

ROOTS: list[dict[str, Any]] = [{"labels": 3, "decomposition": {"kind": "none"}}]
ROOTS += [{"labels": 3, "decomposition": {"kind": kind, "rank": 2}} for kind in ("uv", "uvw")]
TERNARY = [{"decomposition": one} for one in DECOMPOSITIONS]
TERNARY += [{"decomposition": one, "symmetric": True} for one in DECOMPOSITIONS if one["kind"] != "rotary"]


def without_gains(model: ProbabilisticEncoder, **options: Any) -> ProbabilisticEncoder:
    """A model without gains that has all other parameters of this one."""
    plain = encoder(**options)
    plain.load_state_dict({key: value for key, value in model.state_dict().items() if not key.endswith("gains")})
    return plain


# --- the scores -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("options", TERNARY, ids=name)
def test_ternary_scores_are_scaled_at_the_word_and_at_its_head(options: dict[str, Any]) -> None:
    model = encoder(**options, gains=True)
    plain, gains = without_gains(model, **options), model.ternary.gains
    for distances in (None, [-3, -1, 2]):
        T, bare = model.ternary_scores(distances), plain.ternary_scores(distances)
        for k, c, a, b in itertools.product(*map(range, T.shape)):
            assert abs(float(T[k, c, a, b]) - float(gains[a] * gains[b] * bare[k, c, a, b])) < 1e-12


@torch.no_grad()
@pytest.mark.parametrize("features", GLOBALS, ids=name)
@pytest.mark.parametrize("root", ROOTS, ids=name)
def test_root_and_global_scores_are_scaled_at_the_word(root: dict[str, Any], features: dict[str, Any]) -> None:
    options = {"root": root, "globals": features, "labels": 4}
    model = encoder(**options, gains=True)
    plain = without_gains(model, **options)
    of_root = model.root.gains[:, None] * plain.root_scores()
    torch.testing.assert_close(model.root_scores(), of_root, rtol=0, atol=1e-12)
    of_features = model.globals.gains * plain.global_scores()
    torch.testing.assert_close(model.global_scores(), of_features, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS[:4], ids=name)
def test_the_penalty_is_that_of_the_scaled_scores(decomposition: dict[str, Any]) -> None:
    model = encoder(decomposition=decomposition, gains=True)
    torch.testing.assert_close(model.penalty() ** 2, model.ternary_scores().square().sum())


@torch.no_grad()
def test_the_penalty_of_a_rotation_is_that_of_scaled_factors() -> None:
    options = {"decomposition": {"kind": "rotary", "rank": 4}}
    model = encoder(**options, gains=True)
    plain = without_gains(model, **options)
    plain.ternary.U *= model.ternary.gains
    plain.ternary.V *= model.ternary.gains
    torch.testing.assert_close(model.penalty() ** 2, plain.penalty() ** 2)


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
    plain, model = (one(unary, mask) for one in made)
    torch.testing.assert_close(plain.states, model.states)
    torch.testing.assert_close(plain.sentence, model.sentence)
    more = sum(one.numel() for one in made[1].parameters()) - sum(one.numel() for one in made[0].parameters())
    assert more == 2 * 3 * 6  # two iterations, of three sets of scores each


# --- the output -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("output", ["scores", "probabilities"])
def test_the_tied_output_of_labels_scales_the_scores_of_words(output: str) -> None:
    made = network(latent="categorical", output=output)
    assert isinstance(made.words, TiedOutput)
    gains, table = made.words.gains, made.unary.weight
    messages = torch.randn(5, 6, dtype=torch.float64)
    states = messages.softmax(-1) if output == "probabilities" else messages
    for row, message in zip(made.words(states, table).softmax(-1), messages, strict=True):
        weights = [sum(math.exp(gains[a] * table[w, a] + message[a]) for a in range(6)) for w in range(9)]
        expected = torch.tensor([0.0 if w in (0, 2) else weights[w] for w in range(9)], dtype=torch.float64)
        torch.testing.assert_close(row, expected / expected.sum(), rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_the_tied_output_of_points_scales_the_scores_of_words() -> None:
    made = network(latent="spherical")
    assert isinstance(made.words, TiedMean)
    states = torch.randn(5, 6, dtype=torch.float64)
    scaled = made.words.mean(states) @ (made.unary.weight * made.words.gains).T
    torch.testing.assert_close(made.words(states, made.unary.weight), scaled + made.words.bias + made.words.impossible)


def network(**options: Any) -> Network:
    """A network of nine words with a tied output, in float64; gains of the output are N(0, 1)."""
    torch.manual_seed(0)
    section = {"kind": "probabilistic", "labels": 6, "channels": 2, "dropout": 0.0, "gains": True, **options}
    made = Network(9, build(section), lambda of: WORD_OUTPUTS["tied"](of, 9, (0, 2), tied=True)).double().eval()
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
