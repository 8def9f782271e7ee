"""What every kind of encoder keeps to, alone and in a network: a row of ``models.ENCODERS`` is a row of these tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from small_tasks import encode, linear, random_inputs, randomized
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.errors import UsageError
from probtrans_cli.models.base import CUES, Encoder, Inputs, Wants, Words
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.model import ProbabilisticTransformer

VOCABULARY, OUTPUTS = 17, 3
LENGTHS = (6, 1, 4)
SMALL: dict[str, dict[str, Any]] = {
    "probabilistic": {"labels": 6, "channels": 2, "iterations": 3, "dropout": 0.0},
    "transformer": {"width": 8, "inner": 12, "heads": 2, "layers": 3, "dropout": 0.0, "embedding_dropout": 0.0},
}
FIELD, LAYERS = ({"kind": kind, **sizes} for kind, sizes in SMALL.items())
SMALL["stacked"] = {"lower": LAYERS, "upper": FIELD, "dropout": 0.0}
"""Sizes of every kind; a new kind needs a line here."""
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "probabilistic": {
        "plain": {},
        "root": {"root": {"labels": 4}},
        "globals": {"globals": {"kind": "all-dep", "features": 3}},
        "split": {"globals": {"kind": "dep-split", "features": 3}, "root": {"labels": 4}},
        "own potentials": {"share_potentials": False, "root": {"labels": 4}, "damping": {"heads": 0.3}},
        "tree": {"heads": "tree"},
        "rooted tree": {"heads": "tree", "root": {"labels": 4}},
        "rotary": {"decomposition": {"kind": "rotary", "rank": 4}},
        "shared": {"decomposition": {"kind": "shared", "rank": 3}, "distance": 1},
        "probabilities": {"output": "probabilities", "step_size": {"labels": 0.5}, "damping": {"heads": 0.3}},
        "synchronous": {"schedule": "synchronous", "root": {"labels": 4}},
        "head bias": {"head_bias": {"distance": 0.7, "right": 0.4, "frequency": 0.1, "rarer": 0.5}},
        "phrases": {"head_bias": {"leaning_head": 0.3, "phrase_end": 0.2, "punctuation": 0.4, "alone": 0.5}},
        "spherical": {"latent": "spherical", "root": {"labels": 4}, "message_weight": {"labels": 0.5}},
        "full": {"decomposition": {"kind": "none"}, "distance": 0, "globals": {"kind": "single-split", "features": 3}},
        "uvw": {
            "decomposition": {"kind": "uvw", "rank": 4},
            "gains": True,
            "globals": {"kind": "rectified", "features": 3},
        },
        "symmetric": {"decomposition": {"kind": "shared", "rank": 3}, "symmetric": True, "distance": None},
    },
    "transformer": {
        "plain": {},
        "relative": {"positions": {"kind": "relative", "clip": 2, "terms": "qkv"}},
        "none": {"positions": {"kind": "none"}},
        "sinusoidal": {"positions": {"kind": "sinusoidal"}, "norm": "pre"},
        "pooler": {"pooler": True, "bias": "all", "activation": "gelu"},
        "segments": {"segments": 2, "embedding_norm": True},
        "shared": {"share_layers": True, "tie_kv": True, "tie_qo": True},
        "learned": {"positions": {"kind": "learned_sinusoidal", "rows": 9}, "head_size": 3, "activation": "gelu_tanh"},
        "tied": {"positions": {"kind": "relative", "clip": 1, "terms": "qk"}, "tie_kv": True, "bias": "none"},
    },
    "stacked": {
        "plain": {},
        "root": {"upper": {**FIELD, "root": {"labels": 4}}},
        "globals": {"upper": {**FIELD, "globals": {"kind": "all-dep", "features": 3}}},
        "rooted tree": {"upper": {**FIELD, "heads": "tree", "root": {"labels": 4}}},
        "head bias": {"upper": {**FIELD, "head_bias": {"frequency": 0.1, "rarer": 0.5}}},
        "head bias below": {"lower": {**FIELD, "head_bias": {"frequency": 0.1}}, "upper": LAYERS},
        "probabilities": {"upper": {**FIELD, "output": "probabilities"}},
        "segments": {"lower": {**LAYERS, "segments": 2, "norm": "pre"}, "upper": {**LAYERS, "pooler": True}},
        "fields": {"lower": {**FIELD, "labels": 8, "root": {"labels": 4}}, "upper": FIELD},
        "spherical": {"upper": {**FIELD, "latent": "spherical"}},
    },
}
CASES = [(kind, name) for kind in models.ENCODERS for name in OPTIONS.get(kind, {"plain": {}})]
EXHAUSTIVE = {  # what they have, other rows have, too
    "probabilistic": {"globals", "phrases", "symmetric", "tree"},
    "transformer": {"none"},
    "stacked": {"globals", "rooted tree", "probabilities", "spherical", "head bias below"},
}
ROWS = pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=pytest.mark.exhaustive if name in EXHAUSTIVE.get(kind, ()) else ())
        for kind, name in CASES
    ],
    ids=lambda value: value.replace(" ", "-"),
)
NEAR: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}


def in_turn(kind: str, name: str) -> str:
    """Return what a row scores sentences by: one vector or the mean of the words, in turn."""
    return ("vector", "mean")[[*OPTIONS[kind]].index(name) % 2]


def network(kind: str, name: str, *, sentence: str | None = None) -> Network:
    """It scores words, or sentences by the root or a `<cls>` (``vector``), or by the ``mean`` of their words."""
    torch.manual_seed(0)
    encoder = models.build({"kind": kind, **SMALL[kind], **OPTIONS.get(kind, {"plain": {}})[name]})
    facts = encoder.facts
    by: Any = ("root" if facts.has_root else "cls") if sentence == "vector" else sentence
    common = torch.arange(VOCABULARY, dtype=torch.float64) if facts.counts_words else None
    begins = bool(facts.segment_types)  # such a model reads a `<cls>` of the vocabulary's
    return randomized(Network(VOCABULARY, encoder, linear(OUTPUTS, by), begins=begins, common=common))


def part(batch: Inputs, rows: Any, columns: Any = slice(None)) -> Inputs:
    segments = None if batch.segments is None else batch.segments[rows, columns]
    return Inputs(ids=batch.ids[rows, columns], mask=batch.mask[rows, columns], segments=segments)


def everything(made: Network, batch: Inputs) -> dict[str, Tensor]:
    outputs = encode(made, batch.ids, batch.mask, arcs=True, segments=batch.segments)
    parts = {"states": outputs.states, "arcs": outputs.arcs, "sentence": outputs.sentence}
    return {key: value for key, value in parts.items() if value is not None}


def further_columns(made: Network) -> int:
    section: Any = made.encoder.top.section
    of_features = getattr(section, "globals", None)
    return made.has_root_column + (of_features.features if of_features and of_features.kind == "all-dep" else 0)


def test_every_kind_has_a_row() -> None:
    assert models.ENCODERS.keys() == SMALL.keys() == OPTIONS.keys()


@ROWS
def test_shapes_and_latent_labels(kind: str, name: str) -> None:
    made = network(kind, name)
    encoder, batch = made.encoder, random_inputs(made, LENGTHS)
    section: Any = encoder.section
    facts = encoder.facts
    outputs = everything(made, batch)
    b, n, d = len(LENGTHS), max(LENGTHS), facts.width
    assert outputs["states"].shape == (b, n, d)
    assert outputs["arcs"].shape == (b, section.iterations, section.channels, n, n + further_columns(made))
    assert ("sentence" in outputs) == (facts.has_root or facts.has_pooler)
    assert "sentence" not in outputs or outputs["sentence"].shape == (b, facts.root_width or facts.width)
    assert made.unary.weight.shape == (VOCABULARY, facts.unary_width)
    assert facts == section.facts
    if not facts.has_latent_labels:
        with pytest.raises(TypeError, match="has no latent labels"):
            encoder.top.latent_labels(torch.zeros(1, 1, d))
        return
    labels = encoder.top.latent_labels(outputs["states"])[batch.mask]
    assert bool((labels >= 0).all())
    torch.testing.assert_close(labels.sum(-1), torch.ones_like(labels[:, 0]), **NEAR)


@ROWS
def test_padding_and_batch_mates_change_no_word(kind: str, name: str) -> None:
    """A sentence alone, of one word too, in another place, beside other padding or an empty row, is the same."""
    made = network(kind, name, sentence=in_turn(kind, name))
    batch, n = random_inputs(made, LENGTHS), max(LENGTHS)
    together = everything(made, batch)
    assert not together["states"][~batch.mask].any()
    for b, length in enumerate(LENGTHS):
        alone = everything(made, part(batch, slice(b, b + 1), slice(length)))
        assert alone.keys() == together.keys()
        torch.testing.assert_close(together["states"][b, :length], alone["states"][0], **NEAR)
        rows = together["arcs"][b, :, :, :length]
        torch.testing.assert_close(rows[..., :length], alone["arcs"][0, ..., :length], **NEAR)
        torch.testing.assert_close(rows[..., n:], alone["arcs"][0, ..., length:], **NEAR)
        assert not rows[..., length:n].any()
        if "sentence" in alone:
            torch.testing.assert_close(together["sentence"][b], alone["sentence"][0], **NEAR)
    order = [1, 2, 0]
    for key, values in everything(made, part(batch, order)).items():
        torch.testing.assert_close(values, together[key][order], **NEAR)
    ids = torch.where(batch.mask, batch.ids, batch.ids.roll(1, 0))
    for key, values in everything(made, replace(batch, ids=ids)).items():
        torch.testing.assert_close(values, together[key], rtol=0, atol=0)
    more = part(batch, [0, 1, 2, 0])
    more.mask[3] = False
    for key, values in everything(made, more).items():
        assert bool(values.isfinite().all())
        torch.testing.assert_close(values[:3], together[key], **NEAR)


@ROWS
@pytest.mark.parametrize("sentence", [None, "vector"])
def test_rows_of_arcs_are_distributions_over_candidates(kind: str, name: str, sentence: str | None) -> None:
    """Without a root a tree has one word that hangs at none, and a word by itself has no candidate but itself."""
    made = network(kind, name, sentence=sentence)
    section: Any = made.encoder.top.section
    batch = random_inputs(made, LENGTHS)
    arcs = everything(made, batch)["arcs"].detach()
    assert bool((arcs >= 0).all())
    itself = arcs[..., : batch.mask.shape[1]].diagonal(dim1=-2, dim2=-1)
    assert not (section.facts.has_ternary_scores and itself.any()), "no word is its own head"
    sums = arcs.sum(-1)
    for b, length in enumerate(LENGTHS):
        of_words = sums[b, :, :, :length]
        if getattr(section, "heads", None) == "tree" and not made.encoder.facts.has_root:
            if made.start is None:
                torch.testing.assert_close(of_words.sum(-1), torch.full_like(of_words[..., 0], length - 1), **NEAR)
            assert bool((of_words <= 1 + 1e-9).all())
        elif section.facts.has_ternary_scores and length == 1 and not further_columns(made):
            assert not of_words.any()
        else:
            torch.testing.assert_close(of_words, torch.ones_like(of_words), **NEAR)


@ROWS
def test_half_precision_is_finite(kind: str, name: str) -> None:
    made = network(kind, name).float()
    batch = random_inputs(made, LENGTHS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = everything(made, batch)
        arcs = [made(batch, Wants(arcs=iterations)).arcs for iterations in ([1], [2, 3])]
    assert all(bool(value.isfinite().all()) for value in (*outputs.values(), *arcs))


@ROWS
def test_every_parameter_has_a_gradient(kind: str, name: str) -> None:
    """Finite, with a sentence of one word in the batch; and something depends on each, the start included."""
    sentence = in_turn(kind, name)
    made = network(kind, name, sentence=sentence)
    batch = random_inputs(made, LENGTHS)
    outputs = everything(made, batch)
    outputs["scores"] = made(batch, Wants(sentence=True)).scores["sentence"]
    generator = torch.Generator().manual_seed(2)
    weighted = [value * torch.randn(value.shape, generator=generator).double() for value in outputs.values()]
    torch.stack([value.sum() for value in weighted]).sum().backward()
    for key, parameter in made.named_parameters():
        if sentence != "mean" or "pooler" not in key:
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all(), key
            assert parameter.grad.any(), key


@ROWS
def test_saved_and_loaded_it_is_the_same(kind: str, name: str) -> None:
    made = network(kind, name).float()
    again = network(kind, name).float()
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    again.load_state_dict(load(save({key: value.contiguous() for key, value in made.state_dict().items()})))
    batch = random_inputs(made, LENGTHS)
    before, after = everything(made, batch), everything(again, batch)
    assert all(torch.equal(values, after[key]) for key, values in before.items())


# --- the one entrance -------------------------------------------------------------------------------------------------


@ROWS
def test_only_what_is_wanted_is_there(kind: str, name: str) -> None:
    """Arcs of some iterations are those of all, alone and beside states."""
    made = network(kind, name)
    batch = random_inputs(made, LENGTHS)
    nothing = made(batch, Wants())
    assert (dict(nothing.scores), nothing.states, nothing.arcs) == ({}, None, None)
    words = made(batch, Wants(words=batch.mask))
    assert (list(words.scores), words.states, words.arcs) == (["words"], None, None)
    states = made(batch, Wants(states=True))
    assert (dict(states.scores), states.arcs) == ({}, None)
    assert states.states is not None
    arcs = everything(made, batch)["arcs"]
    for numbers in ([1], [3], [1, 3], [1, 2, 3]):
        wanted = arcs[:, [number - 1 for number in numbers]]
        alone = made(batch, Wants(arcs=numbers))
        assert (dict(alone.scores), alone.states, alone.sentence) == ({}, None, None)
        torch.testing.assert_close(alone.arcs, wanted, **NEAR)
        torch.testing.assert_close(made(batch, Wants(arcs=numbers, states=True)).arcs, wanted, **NEAR)


@ROWS
def test_scores_of_some_words_are_those_of_all_states(kind: str, name: str) -> None:
    """Words of several tokens are read at the first."""
    made = network(kind, name)
    batch = random_inputs(made, LENGTHS)
    tokens = torch.zeros_like(batch.mask)
    tokens[0, [0, 3, 5]] = tokens[2, 1] = True
    expected = made.output(everything(made, batch)["states"][tokens])
    for wants in (Wants(words=tokens), Wants(tokens=tokens), Wants(tokens=tokens, states=True, arcs=[1])):
        torch.testing.assert_close(made(batch, wants).scores["words"], expected, **NEAR)
    none = made(batch, Wants(tokens=torch.zeros_like(tokens))).scores["words"]
    assert none.shape == (0, OUTPUTS)
    n = batch.mask.shape[1]
    pieces = replace(batch, first=torch.tensor([[1, 2, 5], [0, n, n], [0, 3, n]]))
    words = torch.tensor([[True, False, True], [True, False, False], [False, True, False]])
    scores = made(pieces, Wants(words=words)).scores["words"]
    states = made(pieces if made.encoder.facts.reads_first else batch, Wants(states=True)).states
    at = torch.stack([states[0, 1], states[0, 5], states[1, 0], states[2, 3]])
    torch.testing.assert_close(scores, made.output(at), **NEAR)


@ROWS
def test_scores_of_sentences_are_those_of_all_states(kind: str, name: str) -> None:
    made = network(kind, name, sentence=in_turn(kind, name))
    batch = random_inputs(made, LENGTHS)
    expected = made.output(everything(made, batch)["sentence"])
    for wants in (Wants(sentence=True), Wants(sentence=True, states=True, arcs=[1])):
        outputs = made(batch, wants)
        assert list(outputs.scores) == ["sentence"]
        torch.testing.assert_close(outputs.scores["sentence"], expected, **NEAR)


# --- reading again ----------------------------------------------------------------------------------------------------


def words_of(encoder: Any, lengths: tuple[int, ...] = LENGTHS) -> Words:
    """Random unary scores, their mask, and what else the encoder reads of the words."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    unary = torch.randn(*mask.shape, encoder.facts.unary_width, dtype=torch.float64, generator=generator)
    cues = torch.rand(*mask.shape, CUES, dtype=torch.float64, generator=generator)
    segments = torch.randint(0, 2, mask.shape, generator=generator)
    facts = encoder.facts
    return Words(unary, mask, segments if facts.segment_types else None, cues if facts.counts_words else None)


@ROWS
@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_the_first_reading_is_forward(kind: str, name: str, steps: int) -> None:
    encoder = network(kind, name).encoder
    iterations = encoder.section.iterations
    words, steps = words_of(encoder), min(steps, iterations)
    reading = encoder.again(encoder.begin(words, steps))
    torch.testing.assert_close(reading.states, encoder(words).states, **NEAR)
    assert not reading.arcs
    wanted = sorted({1, iterations})
    reading, expected = encoder.again(encoder.begin(words, steps, arcs=wanted)), encoder(words, arcs=wanted)
    torch.testing.assert_close(reading.states, expected.states, **NEAR)
    torch.testing.assert_close(torch.stack(reading.arcs, dim=1), expected.arcs, **NEAR)


@ROWS
def test_padding_changes_no_reading(kind: str, name: str) -> None:
    encoder = network(kind, name).encoder
    words = words_of(encoder)
    size = (*words.mask.shape, encoder.facts.width)
    bias = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * words.mask[:, :, None]
    together = encoder.again(encoder.again(encoder.begin(words, 2)), bias).states
    for row, length in enumerate(LENGTHS):
        parts = (words.unary, words.mask, words.segments, words.cues)
        alone = [None if value is None else value[row : row + 1, :length] for value in parts]
        reading = encoder.begin(Words(*alone), 2)
        states = encoder.again(encoder.again(reading), bias[row : row + 1, :length]).states
        torch.testing.assert_close(together[row, :length], states[0], **NEAR)
        assert not together[row, length:].any()


def test_a_transformer_goes_on_with_its_last_layers() -> None:
    encoder = network("transformer", "sinusoidal").encoder  # pre-norm: what is read is not what is carried on
    words = words_of(encoder)
    unary, mask = words.unary, words.mask
    bias = torch.ones_like(unary) * mask[:, :, None]
    found = encoder.again(encoder.again(encoder.begin(words, 2)), bias).states
    allowed = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
    states = encoder._embedded(words)
    for number in (0, 1, 2):
        states, _ = encoder.layers[number](states, allowed, None, False)
    states = states + bias
    for number in (1, 2):
        states, _ = encoder.layers[number](states, allowed, None, False)
    torch.testing.assert_close(found, encoder.final_norm(states) * mask[:, :, None], **NEAR)


@pytest.mark.parametrize("options", [{}, {"root": {"labels": 4}}, {"heads": "tree"}, {"damping": {"labels": 0.3}}])
@pytest.mark.parametrize("messages", ["fast", "plain"])
def test_a_probabilistic_transformer_iterates_on(options: dict[str, Any], messages: Any) -> None:
    made = []
    for iterations in (3, 7):
        torch.manual_seed(0)
        section = {"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": iterations, "dropout": 0.0}
        made.append(models.build({**section, **options}, messages).double().eval())
    short, long = made
    for mine, other in zip(short.parameters(), long.parameters(), strict=True):
        torch.nn.init.normal_(mine, std=0.5)
        other.data.copy_(mine.data)
    words = words_of(short)
    reading = short.begin(words, 2)
    for _ in range(3):  # 1 + 3 x 2 iterations
        reading = short.again(reading)
    torch.testing.assert_close(reading.states, long(words).states, **NEAR)


def test_potentials_of_the_last_iterations_are_used_again() -> None:
    """As layers of a transformer are: after 1, 2, 3 come 2, 3 once more."""
    sizes = {"kind": "probabilistic", "labels": 6, "channels": 2, "dropout": 0.0, "share_potentials": False}
    short, long = (models.build({**sizes, "iterations": number}).double().eval() for number in (3, 5))
    own = short.state_dict()
    parts = {number: {key.split(".", 2)[-1]: own[key] for key in own if key.startswith(f"later.{number}.")}
             for number in (0, 1)}  # fmt: skip
    for number in range(4):
        long.later[number].load_state_dict(parts[number % 2])
    long.ternary.load_state_dict(short.ternary.state_dict())
    words = words_of(short)
    reading = short.begin(words, 2)
    for _ in range(2):
        reading = short.again(reading)
    torch.testing.assert_close(reading.states, long(words).states, **NEAR)


def test_a_bias_is_one_more_unary_factor_of_one_reading() -> None:
    torch.manual_seed(0)
    section = {"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0}
    encoder = models.build(section).double().eval()
    words = words_of(encoder)
    unary, mask = words.unary, words.mask
    bias = torch.randn(unary.shape, dtype=torch.float64) * mask[:, :, None]
    without = encoder.again(encoder.begin(words, 1)).states
    told = encoder.again(encoder.begin(words, 1), bias)
    weight = encoder.inference.labels.weight
    # In a single iteration the messages are those of before, and the factor is only added.
    torch.testing.assert_close(told.states, without + bias / weight, **NEAR)
    after = encoder.again(told).states  # from the distributions that the factor has changed, but without it
    reading = encoder.begin(words, 1)
    encoder.again(reading, bias)
    torch.testing.assert_close(after, encoder.again(reading).states, **NEAR)
    plain = encoder.again(encoder.again(encoder.begin(words, 1))).states
    assert (after - plain).abs().max() > 1e-3


@pytest.mark.parametrize("kind", models.ENCODERS)
def test_gradients_go_through_every_reading(kind: str) -> None:
    encoder = network(kind, "plain").encoder.train()
    words = words_of(encoder)

    def value(unary: torch.Tensor) -> torch.Tensor:
        reading = encoder.begin(Words(unary, words.mask), 2)
        for _ in range(3):
            reading = encoder.again(reading)
        return reading.states

    assert torch.autograd.gradcheck(value, (words.unary.requires_grad_(),), atol=1e-6, fast_mode=True)


def test_an_encoder_without_a_rule_refuses() -> None:
    class Once(Encoder):
        def forward(self, words: Words, arcs: Any = False, at: Any = None) -> Any:
            return words, arcs, at

    with pytest.raises(UsageError, match="a Once cannot read a sentence again"):
        Once(ProbabilisticTransformer()).begin(
            Words(torch.zeros(1, VOCABULARY, 4), torch.ones(1, VOCABULARY, dtype=torch.bool)), 1
        )
