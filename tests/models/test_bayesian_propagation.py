"""Moments through whole networks: beside draws of the weights, and through every wiring that a recipe can ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from bench.ways import most_memory
from random_transformers import agreement, by_draws, one_pass, random_encoder, random_sentences
from small_models import name, sentences
from torch import Tensor, nn
from uncertain_networks import OUTPUTS, VOCABULARY, inputs, network

from probtrans_cli.models.base import Inputs, Outputs, Wants, Words
from probtrans_cli.models.bayesian import attention, propagation
from probtrans_cli.models.bayesian.propagation import Kind
from probtrans_cli.models.bayesian.readout import predictive
from probtrans_cli.models.bayesian.weights import Prior, drawn, make_uncertain, posterior_of, uncertain
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import BertWordOutput, LinearOutput, PairOutput, SentenceOutput, SeveralOutputs

KINDS = pytest.mark.parametrize("kind", ["kronecker", "diagonal"])
WIRINGS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "head_size": 3},
    {"activation": "gelu", "positions": {"kind": "sinusoidal"}, "bias": "all"},
    {"activation": "gelu_tanh", "positions": {"kind": "learned_sinusoidal", "rows": 9}, "bias": "none"},
    {"positions": {"kind": "none"}, "norm": "pre", "activation": "gelu"},
    {"segments": 2, "embedding_norm": True, "pooler": True},
    {"layers": 1, "pooler": True, "bias": "none"},
    {"positions": {"kind": "relative", "clip": 2, "terms": "qkv"}},
    {"positions": {"kind": "relative", "clip": 1, "terms": "k"}, "norm": "pre"},
]
OPTIONS = pytest.mark.parametrize("options", WIRINGS, ids=name)


def near(found: Any, wanted: Any, within: float) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=within)


# --- beside draws -----------------------------------------------------------------------------------------------------


def test_little_is_lost_in_a_layer() -> None:
    encoder, words = random_encoder(1, 0.3), random_sentences(6)
    truth = by_draws(encoder, words, 400)
    found = agreement(encoder, words, truth, "kronecker")
    assert found.mean <= 0.05
    assert 0.85 <= found.summed <= 1.05
    assert 0.85 <= found.pooled <= 1.1
    assert agreement(encoder, words, truth, "diagonal").pooled < 0.5


MORE = ((1, 0.1), (4, 0.1), (4, 0.3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "noise"), [(2, 0.3), *(pytest.param(*one, marks=pytest.mark.exhaustive) for one in MORE)]
)
@pytest.mark.parametrize("positions", [{"kind": "none"}, {"kind": "relative", "clip": 4, "terms": "qkv"}], ids=name)
def test_random_networks_beside_draws(layers: int, noise: float, positions: dict[str, Any]) -> None:
    """The average of some networks: the pooled variance of a single one, 32 numbers a sentence, goes up and down."""
    found = []
    for seed in range(4):
        encoder = random_encoder(layers, noise, seed=seed, positions=positions)
        words = random_sentences(8, seed=seed)
        truth = by_draws(encoder, words, 2000)  # so many that the error of their own mean is small
        found.append([agreement(encoder, words, truth, kind) for kind in ("kronecker", "diagonal")])
    kronecker, diagonal = torch.tensor(found).mean(0)
    mean, summed, pooled = kronecker.tolist()
    assert mean <= 0.05
    assert 0.85 <= summed <= 1.05
    assert 0.85 <= pooled <= 1.1
    assert float(diagonal[2]) < 0.5


OTHER: list[dict[str, Any]] = [
    {"norm": "pre"},
    {"activation": "gelu"},
    {"activation": "gelu_tanh"},
    {"positions": {"kind": "relative", "clip": 4, "terms": "qkv"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OTHER, ids=name)
def test_other_wirings_beside_draws(options: dict[str, Any]) -> None:
    encoder, words = random_encoder(2, 0.2, **options), random_sentences(6)
    found = agreement(encoder, words, by_draws(encoder, words, 300), "kronecker")
    assert found.mean <= 0.05
    assert 0.85 <= found.summed <= 1.1
    assert 0.8 <= found.pooled <= 1.25


@torch.no_grad()
def drawn_scores(made: Network, given: Inputs, wants: Wants, name: str, draws: int) -> Tensor:
    torch.manual_seed(0)
    found = []
    for _ in range(draws):
        with drawn(made):
            found.append(made(given, wants).scores[name])
    return torch.stack(found)


def uncertain_norms(made: Network) -> None:
    for module in made.modules():
        if isinstance(module, nn.LayerNorm):
            make_uncertain(module, "weight", Prior(1.0, 0.01), deviation=0.2)
            make_uncertain(module, "bias", Prior(0.0, 0.01), deviation=0.2, family="full")


@pytest.mark.slow
@pytest.mark.parametrize("uncertain_too", ["nothing", "norms", "words"])
@pytest.mark.parametrize("sentence", [None, "cls", "mean"])
@torch.no_grad()
def test_scores_beside_draws(sentence: Any, uncertain_too: str) -> None:
    """Of words, of `<cls>` and of means over words, of so many classes that their weights do not matter."""
    read = LinearOutput if sentence is None else SentenceOutput
    made = network(lambda one: read(one.facts.width, 40), sentence=sentence, noise=0.15, width=16, inner=32)
    if uncertain_too == "norms":
        uncertain_norms(made)
    elif uncertain_too == "words":
        make_uncertain(made.unary, "weight", Prior(0.0, 1.0), deviation=0.3)
    given = inputs(made, (6, 3, 5, 4))
    wants = Wants(words=given.mask) if sentence is None else Wants(sentence=True)
    key = "words" if sentence is None else "sentence"
    scores = drawn_scores(made, given, wants, key, 300)
    found: Outputs = made(given, replace(wants, moments="kronecker"))
    error = (found.scores[key] - scores.mean(0)).square().mean().sqrt() / scores.var(0).mean().sqrt()
    assert float(error) < 0.3  # of a standard deviation of the scores
    assert 0.8 < float(found.variances[key].sum() / scores.var(0).sum()) < 1.15


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"norm": "pre", "activation": "gelu"}, marks=pytest.mark.slow)], ids=name
)
@pytest.mark.parametrize("sentence", [None, "cls", "mean"])
@torch.no_grad()
def test_what_is_read_where_it_was_written_has_its_variance(sentence: Any, options: dict[str, Any]) -> None:
    """A trained output layer reads the directions in which the feed-forward layer writes, here exactly these: with
    features that do not vary together, the scores would have half of their variance."""
    read = LinearOutput if sentence is None else SentenceOutput
    made = network(lambda one: read(one.facts.width, 12), sentence=sentence, noise=0.15, width=16, inner=32, **options)
    layer: Any = made.encoder.layers[1]  # type: ignore[index]
    posterior = posterior_of(made.output)
    assert posterior is not None
    posterior.log_sd.fill_(-12.0)
    written = layer.narrow.weight[:, :12]
    made.output.parametrizations.weight.original.copy_((written - written.mean(0)).T)
    given = inputs(made, (6, 3, 5, 4))
    wants = Wants(words=given.mask) if sentence is None else Wants(sentence=True)
    key = "words" if sentence is None else "sentence"
    truth = drawn_scores(made, given, wants, key, 400).var(0)
    found = made(given, replace(wants, moments="kronecker")).variances[key]
    assert 0.85 < float(found.sum() / truth.sum()) < 1.25
    assert float((found / truth).log().std()) < 0.35


# --- every wiring -----------------------------------------------------------------------------------------------------


@KINDS
@OPTIONS
@torch.no_grad()
def test_certain_weights_give_the_plain_network(options: dict[str, Any], kind: Kind) -> None:
    made = network(noise=0.0, **options)
    given = inputs(made)
    wants = Wants(words=given.mask, states=True)
    plain, found = made(given, wants), made(given, replace(wants, moments=kind))
    near(found.states, plain.states, 1e-6)
    near(found.scores["words"], plain.scores["words"], 1e-6)
    assert plain.sentence is None or bool(found.sentence.isclose(plain.sentence, rtol=0, atol=1e-6).all())
    assert not found.variance.any()
    assert not found.variances["words"].any()


@KINDS
@OPTIONS
@torch.no_grad()
def test_little_noise_is_the_plain_network(options: dict[str, Any], kind: Kind) -> None:
    """With uncertain weights, so that every rule is at work."""
    made = network(noise=1e-5, **options)
    given = inputs(made)
    wants = Wants(words=given.mask)
    found = made(given, replace(wants, moments=kind))
    near(found.scores["words"], made(given, wants).scores["words"], 1e-6)
    assert float(found.variances["words"].min()) > 0
    assert float(found.variances["words"].max()) < 1e-6


@KINDS
@OPTIONS
@torch.no_grad()
def test_padding_and_other_sentences_change_nothing(options: dict[str, Any], kind: Kind) -> None:
    made = network(**options)
    unary, mask = sentences([6, 1, 4], labels=8)
    together = one_pass(made.encoder, unary, mask, kind)  # type: ignore[arg-type]
    states, sentence = together.states, together.sentence
    assert not states.variance[~mask].any()
    for index, n in enumerate((6, 1, 4)):
        alone = one_pass(made.encoder, unary[index : index + 1, :n], mask[index : index + 1, :n], kind)  # type: ignore[arg-type]
        near(states.mean[index, :n], alone.states.mean[0], 1e-9)
        near(states.variance[index, :n], alone.states.variance[0], 1e-9)
        if kind == "kronecker":
            near(states.shared[index, :n, :n], alone.states.shared[0], 1e-9)
            assert not states.shared[index, n:].any()
        if sentence is not None:
            near(sentence.variance[index], alone.sentence.variance[0], 1e-9)


@KINDS
@OPTIONS
@torch.no_grad()
def test_sentences_are_attended_a_few_at_a_time(options: dict[str, Any], kind: Kind, monkeypatch: Any) -> None:
    made = network(**options)
    unary, mask = sentences([6, 1, 4], labels=8)
    found = []
    for at_once in (1, 2 * 6 * 6 * 2, 10**6):  # one sentence, two, all
        monkeypatch.setattr(attention, "_ATTENTION_AT_ONCE", at_once)
        found.append(one_pass(made.encoder, unary, mask, kind, arcs=True))  # type: ignore[arg-type]
    for encoded in found[:2]:
        near(encoded.arcs, found[2].arcs, 1e-12)
        for part in ("mean", "variance", "shared"):
            near(getattr(encoded.states, part), getattr(found[2].states, part), 1e-12)


@KINDS
@torch.inference_mode()
def test_memory_is_at_most_four_times_the_plain_pass_s(kind: Kind) -> None:
    """32 sentences of 40 words, in single precision, the sizes of the recipe `uncertainty-ewt-bayes`."""
    encoder = random_encoder(2, 0.3, width=64, inner=128)
    words, mask = torch.randn(32, 40, 64), torch.ones(32, 40, dtype=torch.bool)
    plain = most_memory(lambda: encoder(Words(words, mask)))
    assert plain > 32 * 40 * 64 * 4
    assert most_memory(lambda: one_pass(encoder, words, mask, kind, at=mask)) <= 4 * plain


@KINDS
@OPTIONS
@torch.no_grad()
def test_only_some_words_are_those_of_all(options: dict[str, Any], kind: Kind) -> None:
    made = network(**options)
    given = inputs(made)
    all_words = made(given, Wants(words=given.mask, states=True, moments=kind))
    some = given.mask & (torch.rand(given.mask.shape, generator=torch.Generator().manual_seed(0)) < 0.5)
    found = made(given, Wants(words=some, moments=kind))
    at = some[given.mask]
    near(found.scores["words"], all_words.scores["words"][at], 1e-9)
    near(found.variances["words"], all_words.variances["words"][at], 1e-9)


@KINDS
@pytest.mark.parametrize("options", WIRINGS[:3], ids=name)
@torch.no_grad()
def test_attention_is_the_expected_one(options: dict[str, Any], kind: Kind) -> None:
    """A distribution over the real words alone."""
    made = network(**options)
    given = inputs(made)
    found = made(given, Wants(words=given.mask, arcs=[1, 2], moments=kind))
    assert found.arcs is not None
    assert tuple(found.arcs.shape) == (3, 2, 2, 6, 6)
    near(found.arcs.sum(-1), given.mask[:, None, None].expand(3, 2, 2, 6).double(), 1e-9)


@torch.no_grad()
def test_attention_alone_is_the_expected_one_too() -> None:
    made = network()
    given = inputs(made)
    alone = made(given, Wants(arcs=[1, 2], moments="kronecker")).arcs
    near(alone, made(given, Wants(words=given.mask, arcs=[1, 2], moments="kronecker")).arcs, 1e-9)
    assert float((alone - made(given, Wants(arcs=[1, 2])).arcs).abs().max()) > 1e-4


@KINDS
@torch.no_grad()
def test_a_deviation_of_every_weight(kind: Kind) -> None:
    """The same as one of every row, where they are the same."""
    by_rows, by_weights = network(noise=0.2), network(noise=0.0)
    for path, module in by_weights.named_modules():
        if isinstance(module, nn.Linear):
            other: Any = by_rows.get_submodule(path)
            posterior = posterior_of(other)
            assert posterior is not None
            module.weight.copy_(other.weight)
            make_uncertain(module, "weight", Prior(0.0, 1.0), deviation=1.0, family="full")
            own = posterior_of(module)
            assert own is not None
            own.log_sd.copy_(posterior.log_sd.expand(own.log_sd.shape))
    given = inputs(by_rows)
    wants = Wants(words=given.mask, moments=kind)
    wanted, found = by_rows(given, wants), by_weights(given, wants)
    near(found.scores["words"], wanted.scores["words"], 1e-9)
    near(found.variances["words"], wanted.variances["words"], 1e-9)


# --- output layers ----------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("output", OUTPUTS)
@torch.no_grad()
def test_output_layers_of_words(output: str, kind: Kind) -> None:
    make, key = OUTPUTS[output]
    for noise in (0.0, 0.1):
        made = network(make, noise=noise)
        given = inputs(made)
        wants = Wants(words=given.mask)
        plain, found = made(given, wants).scores[key], made(given, replace(wants, moments=kind))
        if not noise:
            near(found.scores[key], plain, 1e-6)
            assert not found.variances[key].any()
            continue
        assert found.variances[key].shape == plain.shape
        assert bool((found.variances[key] > 0).all())
        assert bool(predictive(found.scores[key], found.variances[key]).probabilities.isfinite().all())


@torch.no_grad()
def test_bert_s_pretraining_has_moments_of_both() -> None:
    made = network(
        lambda one: SeveralOutputs(
            {"words": BertWordOutput(VOCABULARY, one.facts.width), "pair": PairOutput(one.facts.width)},
            {"words": "words", "pair": "sentence"},
        ),
        sentence="cls", segments=2, embedding_norm=True, pooler=True, activation="gelu", bias="all",
    )  # fmt: skip
    given = inputs(made)
    found = made(given, Wants(words=given.mask, sentence=True, moments="kronecker"))
    assert found.variances.keys() == found.scores.keys() == {"words", "pair"}
    assert bool((found.variances["pair"] > 0).all())


def test_a_module_may_bring_its_own_rule() -> None:
    class Doubled(nn.Linear):
        def forward(self, given: Tensor) -> Tensor:
            return super().forward(given) * 2

        def moments(self, state: propagation.State) -> propagation.State:
            return propagation.moments.linear(state, self.weight * 2, None, self.bias * 2)

    made = network(noise=0.0)
    layer: Any = made.encoder.layers[1]  # type: ignore[index]
    layer.widen = Doubled(8, 12).double()
    given = inputs(made)
    wants = Wants(words=given.mask)
    near(made(given, replace(wants, moments="kronecker")).scores["words"], made(given, wants).scores["words"], 1e-9)


# --- precision --------------------------------------------------------------------------------------------------------


def test_autocast_changes_nothing() -> None:
    made = network().float()
    given = inputs(made)
    wants = Wants(words=given.mask, moments="kronecker")
    alone = made(given, wants)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = made(given, wants)
    assert torch.equal(found.scores["words"], alone.scores["words"])
    assert torch.equal(found.variances["words"], alone.variances["words"])


@KINDS
def test_gradients_reach_all_weights_and_deviations(kind: Kind) -> None:
    made = network().train()
    given = inputs(made)
    found = made(given, Wants(words=given.mask, moments=kind))
    (found.scores["words"].sum() + found.variances["words"].sum()).backward()
    for one in uncertain(made):
        posterior = posterior_of(made.get_submodule(one.name.rpartition(".")[0]))
        assert posterior is not None
        for parameter in (one.mean, posterior.log_sd):
            assert parameter.grad is not None
            assert bool(parameter.grad.isfinite().all())
            assert bool(parameter.grad.any())
