"""Moments through whole networks: beside draws of the weights, and through every wiring that a recipe can ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from bench.ways import most_memory
from random_transformers import agreement, by_draws, one_pass, random_encoder, random_sentences
from small_models import name, sentences
from small_tasks import random_inputs
from torch import Tensor, nn
from uncertain_networks import CLASSES, OUTPUTS, VOCABULARY, network

from probtrans_cli.errors import UsageError
from probtrans_cli.models import build
from probtrans_cli.models.base import Inputs, Outputs, Wants, Words
from probtrans_cli.models.bayesian import attention, propagation
from probtrans_cli.models.bayesian.propagation import Kind
from probtrans_cli.models.bayesian.readout import predictive
from probtrans_cli.models.bayesian.weights import Prior, drawn, make_uncertain, posterior_of, uncertain
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import (
    BertWordOutput,
    LinearOutput,
    OutputLayer,
    SentenceOutput,
    SeveralOutputs,
)
from probtrans_cli.tasks.semantic import SemanticOutput

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

BESIDE: list[dict[str, Any]] = [
    {"norm": "pre"},
    {"activation": "gelu"},
    {"activation": "gelu_tanh"},
    {"positions": {"kind": "relative", "clip": 4, "terms": "qkv"}},
]


@pytest.mark.parametrize(
    "options", [{}, *(pytest.param(options, marks=pytest.mark.slow) for options in BESIDE)], ids=name
)
def test_little_is_lost(options: dict[str, Any]) -> None:
    encoder, words = random_encoder(2 if options else 1, 0.2, **options), random_sentences(6)
    truth = by_draws(encoder, words, 300)
    found = agreement(encoder, words, truth, "kronecker")
    assert found.mean <= 0.05
    assert 0.85 <= found.summed <= 1.1
    assert 0.8 <= found.pooled <= 1.25
    assert options or agreement(encoder, words, truth, "diagonal").pooled < 0.5


MORE = ((1, 0.1), (4, 0.1), (4, 0.3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "noise"), [(2, 0.3), *(pytest.param(*one, marks=pytest.mark.exhaustive) for one in MORE)]
)
@pytest.mark.parametrize("positions", [{"kind": "none"}, {"kind": "relative", "clip": 4, "terms": "qkv"}], ids=name)
def test_random_networks_beside_draws(layers: int, noise: float, positions: dict[str, Any]) -> None:
    """The average of some networks: the pooled variance of a single one, 32 numbers a sentence, goes up and down."""
    rows = []
    for seed in range(4):
        encoder = random_encoder(layers, noise, seed=seed, positions=positions)
        words = random_sentences(8, seed=seed)
        truth = by_draws(encoder, words, 2000)  # so many that the error of their own mean is small
        rows.append([agreement(encoder, words, truth, kind) for kind in ("kronecker", "diagonal")])
    (mean, summed, pooled), diagonal = torch.tensor(rows).mean(0).tolist()
    assert mean <= 0.05
    assert 0.85 <= summed <= 1.05
    assert 0.85 <= pooled <= 1.1
    assert diagonal[2] < 0.5


def scorer(sentence: Any, classes: int, **options: Any) -> tuple[Network, Inputs, Wants, str]:
    read = LinearOutput if sentence is None else SentenceOutput
    sizes = {"noise": 0.15, "width": 16, "inner": 32}
    made = network(lambda encoder: read(encoder.facts.width, classes), sentence=sentence, **sizes, **options)
    batch = random_inputs(made, (6, 3, 5, 4))
    wants = Wants(words=batch.mask) if sentence is None else Wants(sentence=True)
    return made, batch, wants, "words" if sentence is None else "sentence"


@torch.no_grad()
def drawn_scores(made: Network, batch: Inputs, wants: Wants, key: str, draws: int) -> Tensor:
    torch.manual_seed(0)
    scores = []
    for _ in range(draws):
        with drawn(made):
            scores.append(made(batch, wants).scores[key])
    return torch.stack(scores)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sentence", "uncertain_too"), [(None, "nothing"), (None, "words"), ("cls", "norms"), ("mean", "nothing")]
)
@torch.no_grad()
def test_scores_beside_draws(sentence: Any, uncertain_too: str) -> None:
    """Of words, of `<cls>` and of means over words, of so many classes that their weights do not matter."""
    made, batch, wants, key = scorer(sentence, 40)
    if uncertain_too == "words":
        make_uncertain(made.unary, "weight", Prior(0.0, 1.0), deviation=0.3)
    for module in made.modules() if uncertain_too == "norms" else ():
        if isinstance(module, nn.LayerNorm):
            make_uncertain(module, "weight", Prior(1.0, 0.01), deviation=0.2)
            make_uncertain(module, "bias", Prior(0.0, 0.01), deviation=0.2, family="full")
    scores = drawn_scores(made, batch, wants, key, 300)
    found: Outputs = made(batch, replace(wants, moments="kronecker"))
    error = (found.scores[key] - scores.mean(0)).square().mean().sqrt() / scores.var(0).mean().sqrt()
    assert float(error) < 0.3  # of a standard deviation of the scores
    assert 0.8 < float(found.variances[key].sum() / scores.var(0).sum()) < 1.15


@pytest.mark.parametrize(
    ("sentence", "options"), [(None, {"norm": "pre", "activation": "gelu"}), ("cls", {}), ("mean", {})]
)
@torch.no_grad()
def test_what_is_read_where_it_was_written_has_its_variance(sentence: Any, options: dict[str, Any]) -> None:
    """A trained output layer reads the directions in which the feed-forward layer writes, here exactly these: with
    features that do not vary together, the scores would have half of their variance."""
    made, batch, wants, key = scorer(sentence, 12, **options)
    layer: Any = made.encoder.layers[1]
    posterior = posterior_of(made.output)
    posterior.log_sd.fill_(-12.0)
    written = layer.narrow.weight[:, :12]
    made.output.parametrizations.weight.original.copy_((written - written.mean(0)).T)
    truth = drawn_scores(made, batch, wants, key, 300).var(0)
    found = made(batch, replace(wants, moments="kronecker")).variances[key]
    assert 0.85 < float(found.sum() / truth.sum()) < 1.25
    assert float((found / truth).log().std()) < 0.35


# --- every wiring -----------------------------------------------------------------------------------------------------


@KINDS
@OPTIONS
@torch.no_grad()
def test_next_to_no_noise_is_the_plain_network(options: dict[str, Any], kind: Kind) -> None:
    """Without noise, and with so little that every rule is at work; attention is a distribution over real words."""
    for noise in (0.0, 1e-5):
        made = network(noise=noise, **options)
        batch = random_inputs(made)
        wants = Wants(words=batch.mask, states=True, arcs=[1])
        plain, found = made(batch, wants), made(batch, replace(wants, moments=kind))
        near(found.states, plain.states, 1e-6)
        near(found.scores["words"], plain.scores["words"], 1e-6)
        near(found.arcs, plain.arcs, 1e-6)
        assert plain.sentence is None or bool(found.sentence.isclose(plain.sentence, rtol=0, atol=1e-6).all())
        assert bool(found.variance.any()) == bool(noise)
        assert float(found.variances["words"].max()) < 1e-6
        assert float(found.variances["words"].min()) > 0 or not noise
    made = network(**options)
    arcs = [1] if options.get("layers") == 1 else [1, 2]
    beside, alone = (made(batch, Wants(words=words, arcs=arcs, moments=kind)).arcs for words in (batch.mask, None))
    near(beside.sum(-1), batch.mask[:, None, None].expand(beside.shape[:-1]).double(), 1e-9)
    near(alone, beside, 1e-9)
    assert float((alone - made(batch, Wants(arcs=arcs)).arcs).abs().max()) > 1e-4


@KINDS
@OPTIONS
@torch.no_grad()
def test_some_words_and_some_sentences_are_those_of_all(
    options: dict[str, Any], kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = network(**options)
    batch = random_inputs(made)
    all_words = made(batch, Wants(words=batch.mask, states=True, moments=kind))
    some = batch.mask & (torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(0)) < 0.5)
    found = made(batch, Wants(words=some, moments=kind))
    at = some[batch.mask]
    near(found.scores["words"], all_words.scores["words"][at], 1e-9)
    near(found.variances["words"], all_words.variances["words"][at], 1e-9)
    unary, mask = sentences([6, 1, 4], labels=8)
    together = one_pass(made.encoder, unary, mask, kind, arcs=True)
    for at_once in (1, 2 * 6 * 6 * 2):  # one sentence, two
        monkeypatch.setattr(attention, "_ATTENTION_AT_ONCE", at_once)
        encoded = one_pass(made.encoder, unary, mask, kind, arcs=True)
        near(encoded.arcs, together.arcs, 1e-12)
        for part in ("mean", "variance", "shared"):
            near(getattr(encoded.states, part), getattr(together.states, part), 1e-12)


@KINDS
@OPTIONS
@torch.no_grad()
def test_padding_and_other_sentences_change_nothing(options: dict[str, Any], kind: Kind) -> None:
    made = network(**options)
    unary, mask = sentences([6, 1, 4], labels=8)
    together = one_pass(made.encoder, unary, mask, kind)
    states, sentence = together.states, together.sentence
    assert not states.variance[~mask].any()
    for index, n in enumerate((6, 1, 4)):
        alone = one_pass(made.encoder, unary[index : index + 1, :n], mask[index : index + 1, :n], kind)
        near(states.mean[index, :n], alone.states.mean[0], 1e-9)
        near(states.variance[index, :n], alone.states.variance[0], 1e-9)
        if kind == "kronecker":
            near(states.shared[index, :n, :n], alone.states.shared[0], 1e-9)
            assert not states.shared[index, n:].any()
        if sentence is not None:
            near(sentence.variance[index], alone.sentence.variance[0], 1e-9)


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
@torch.no_grad()
def test_a_deviation_of_every_weight(kind: Kind) -> None:
    """The same as one of every row, where they are the same."""
    by_rows, by_weights = network(noise=0.2), network(noise=0.0)
    for path, module in by_weights.named_modules():
        if isinstance(module, nn.Linear):
            other: Any = by_rows.get_submodule(path)
            posterior = posterior_of(other)
            module.weight.copy_(other.weight)
            make_uncertain(module, "weight", Prior(0.0, 1.0), deviation=1.0, family="full")
            own = posterior_of(module)
            own.log_sd.copy_(posterior.log_sd.expand(own.log_sd.shape))
    inputs = random_inputs(by_rows)
    wants = Wants(words=inputs.mask, moments=kind)
    wanted, found = by_rows(inputs, wants), by_weights(inputs, wants)
    near(found.scores["words"], wanted.scores["words"], 1e-9)
    near(found.variances["words"], wanted.variances["words"], 1e-9)


@KINDS
@pytest.mark.parametrize("output", OUTPUTS)
@torch.no_grad()
def test_output_layers_of_words(output: str, kind: Kind) -> None:
    make, key = OUTPUTS[output]
    for noise in (0.0, 0.1):
        made = network(make, noise=noise)
        batch = random_inputs(made)
        wants = Wants(words=batch.mask)
        plain, found = made(batch, wants).scores[key], made(batch, replace(wants, moments=kind))
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
        lambda encoder: SeveralOutputs(
            {"words": BertWordOutput(VOCABULARY, encoder.facts.width), "pair": SentenceOutput(encoder.facts.width, 2)},
            {"words": "words", "pair": "sentence"},
            answering=("words", "pair"),
        ),
        sentence="cls", segments=2, embedding_norm=True, pooler=True, activation="gelu", bias="all",
    )  # fmt: skip
    batch = random_inputs(made)
    found = made(batch, Wants(words=batch.mask, sentence=True, moments="kronecker"))
    assert found.variances.keys() == found.scores.keys() == {"words", "pair"}
    assert bool((found.variances["pair"] > 0).all())


class Wide(nn.Linear):
    def forward(self, values: Tensor) -> Tensor:
        return super().forward(values) * 2


def test_a_module_may_bring_its_own_rule() -> None:
    class Doubled(Wide):
        def moments(self, state: propagation.State) -> propagation.State:
            return propagation.moments.linear(state, self.weight * 2, None, self.bias * 2)

    made = network(noise=0.0)
    layer: Any = made.encoder.layers[1]
    layer.widen = Doubled(8, 12).double()
    batch = random_inputs(made)
    wants = Wants(words=batch.mask)
    near(made(batch, replace(wants, moments="kronecker")).scores["words"], made(batch, wants).scores["words"], 1e-9)


@KINDS
def test_gradients_reach_all_weights_and_deviations(kind: Kind) -> None:
    """And an autocast changes nothing."""
    made = network().float().train()
    batch = random_inputs(made)
    wants = Wants(words=batch.mask, moments=kind)
    found = made(batch, wants)
    (found.scores["words"].sum() + found.variances["words"].sum()).backward()
    for tensor in uncertain(made):
        for parameter in (tensor.mean, tensor.posterior.log_sd):
            assert bool(parameter.grad.isfinite().all())
            assert bool(parameter.grad.any())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = made(batch, wants)
    assert torch.equal(found.scores["words"], again.scores["words"])
    assert torch.equal(found.variances["words"], again.variances["words"])


# --- what has no rule -------------------------------------------------------------------------------------------------


def refused(made: Network, name: str, wants: Wants | None = None) -> None:
    inputs = random_inputs(made)
    with pytest.raises(UsageError, match=name) as raised:
        made(inputs, replace(wants or Wants(words=inputs.mask), moments="kronecker"))
    assert "model.bayes.predict.kind=samples" in str(raised.value.hint)


class Unruled(OutputLayer, nn.Linear):
    def read(self, view: Any) -> dict[str, Tensor]:
        return {"words": self(view.states)}


def semantic(**options: Any) -> Callable[[Any], SemanticOutput]:
    return lambda encoder: SemanticOutput(encoder.facts.width, [CLASSES], **options)


def field() -> Network:
    encoder = build({"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": 2})
    return Network(VOCABULARY, encoder, lambda encoder: LinearOutput(encoder.facts.width, CLASSES)).eval()


def with_uncertain_words(output: str) -> Network:
    made = network(OUTPUTS[output][0])
    make_uncertain(made.unary, "weight", Prior(0.0, 1.0), deviation=0.1)
    return made


def with_uncertain_biases() -> Network:
    made = network(noise=0.0, bias="all")
    make_uncertain(made.encoder.layers[0].widen, "bias", Prior(0.0, 1.0), deviation=0.1)
    return made


NETWORKS: list[tuple[str, Callable[[], Network]]] = [
    *((key, lambda key=key: network(**{key: True})) for key in ("share_layers", "tie_kv", "tie_qo")),
    ("Unruled", lambda: network(lambda encoder: Unruled(encoder.facts.width, CLASSES), noise=0.0)),
    ("SemanticOutput", lambda: network(semantic(attention=True))),
    ("SemanticOutput", lambda: network(semantic(attention=False, alone=[True] * (CLASSES - 1) + [False]))),
    ("model.kind", field),
    ("reads uncertain vectors", lambda: with_uncertain_words("tied")),
    ("reads uncertain vectors", lambda: with_uncertain_words("bert")),
    ("uncertain biases", with_uncertain_biases),
]


@pytest.mark.parametrize(("key", "make"), NETWORKS)
def test_networks_without_a_rule_are_refused(key: str, make: Callable[[], Network]) -> None:
    refused(make(), key)


@pytest.mark.parametrize(
    ("part", "module"), [("widen", Wide(8, 12)), ("activation", nn.SiLU()), ("norm", nn.RMSNorm(8))]
)
def test_modules_from_outside_are_refused(part: str, module: nn.Module) -> None:
    made = network(noise=0.0, bias="all")
    layer: Any = made.encoder.layers[1]
    setattr(layer, part, module.double())
    refused(made, type(module).__name__)


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "embedding_dropout"])
def test_dropout_has_no_rule_in_training(option: str) -> None:
    made = network(**{option: 0.5})
    inputs = random_inputs(made)
    made(inputs, Wants(words=inputs.mask, moments="diagonal"))
    refused(made.train(), "dropout of 0.5")
