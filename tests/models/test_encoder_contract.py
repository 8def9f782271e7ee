"""What every kind of encoder keeps to, alone and in a network: a row of ``models.ENCODERS`` is a row of these tests."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from small_tasks import encode
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.models.base import Inputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput, SentenceOutput

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
SLOW = {  # what they have, other rows have, too
    "probabilistic": {"globals", "phrases", "symmetric", "tree"},
    "transformer": {"none"},
    "stacked": {"globals", "rooted tree", "probabilities", "spherical", "head bias below"},
}
ROWS = pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param(kind, name, marks=pytest.mark.slow if name in SLOW.get(kind, ()) else ()) for kind, name in CASES],
    ids=lambda value: value.replace(" ", "-"),
)
NEAR: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}


def network(kind: str, name: str, *, of_sentences: bool = False) -> Network:
    """In float64 and eval mode; every parameter is N(0, 1/4)."""
    torch.manual_seed(0)
    encoder = models.build({"kind": kind, **SMALL[kind], **OPTIONS.get(kind, {"plain": {}})[name]})
    section = encoder.section

    def output(encoder: Any) -> Any:
        facts = encoder.facts
        if not of_sentences:
            return LinearOutput(facts.width, OUTPUTS)
        if facts.has_root:
            return SentenceOutput(facts.sentence_width, OUTPUTS, "root")
        return SentenceOutput(facts.width, OUTPUTS)

    common = torch.arange(VOCABULARY, dtype=torch.float64) if section.facts.counts_words else None
    begins = bool(encoder.facts.segment_types)  # such a model reads a `<cls>` of the vocabulary's
    made = Network(VOCABULARY, encoder, output, begins=begins, common=common).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return made


def inputs(made: Network, lengths: tuple[int, ...] = LENGTHS, seed: int = 1) -> Inputs:
    """Random words; ids on padding are those of words, too."""
    generator = torch.Generator().manual_seed(seed)
    size = (len(lengths), max(lengths))
    ids = torch.randint(3, VOCABULARY, size, generator=generator)
    segments = torch.randint(0, 2, size, generator=generator) if made.encoder.facts.segment_types else None
    return Inputs(ids=ids, mask=torch.arange(size[1]) < torch.tensor(lengths)[:, None], segments=segments)


def part(given: Inputs, rows: Any, columns: Any = slice(None)) -> Inputs:
    """Some sentences of a batch."""
    segments = None if given.segments is None else given.segments[rows, columns]
    return Inputs(ids=given.ids[rows, columns], mask=given.mask[rows, columns], segments=segments)


def everything(made: Network, given: Inputs) -> dict[str, Tensor]:
    """States, arcs, and what stands for the sentence, if anything does."""
    found = encode(made, given.ids, given.mask, arcs=True, segments=given.segments)
    parts = {"states": found.states, "arcs": found.arcs, "sentence": found.sentence}
    return {key: value for key, value in parts.items() if value is not None}


def others(made: Network) -> int:
    """The number of columns of arcs behind those of the words."""
    section: Any = made.encoder.top.section
    of_features = getattr(section, "globals", None)
    return made.has_root_column + (of_features.features if of_features and of_features.kind == "all-dep" else 0)


def test_every_kind_has_a_row() -> None:
    assert models.ENCODERS.keys() == SMALL.keys() == OPTIONS.keys()


@ROWS
def test_shapes(kind: str, name: str) -> None:
    made = network(kind, name)
    section: Any = made.encoder.section
    found = everything(made, inputs(made))
    b, n, d = len(LENGTHS), max(LENGTHS), made.encoder.facts.width
    assert found["states"].shape == (b, n, d)
    assert found["arcs"].shape == (b, section.iterations, section.channels, n, n + others(made))
    assert ("sentence" in found) == (section.facts.has_root or section.facts.has_pooler)
    if "sentence" in found:
        assert found["sentence"].shape == (b, made.encoder.facts.sentence_width)
    assert made.unary.weight.shape == (VOCABULARY, made.encoder.facts.unary_width)


@ROWS
def test_latent_labels_are_distributions(kind: str, name: str) -> None:
    made = network(kind, name)
    encoder, given = made.encoder, inputs(made)
    assert encoder.facts == encoder.section.facts
    if not encoder.facts.has_latent_labels:
        with pytest.raises(TypeError, match="has no latent labels"):
            encoder.latent_labels(torch.zeros(1, 1, encoder.facts.width))
        return
    found = encoder.latent_labels(everything(made, given)["states"])[given.mask]
    assert bool((found >= 0).all())
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[:, 0]), **NEAR)


@ROWS
@pytest.mark.parametrize("of_sentences", [False, True], ids=["words", "sentences"])
def test_padding_and_batch_mates_change_no_word(kind: str, name: str, of_sentences: bool) -> None:
    """A sentence alone, of one word too, in another place, and beside other padding, is the same."""
    made = network(kind, name, of_sentences=of_sentences)
    given, n = inputs(made), max(LENGTHS)
    together = everything(made, given)
    assert not together["states"][~given.mask].any()
    for b, length in enumerate(LENGTHS):
        alone = everything(made, part(given, slice(b, b + 1), slice(length)))
        assert alone.keys() == together.keys()
        torch.testing.assert_close(together["states"][b, :length], alone["states"][0], **NEAR)
        rows = together["arcs"][b, :, :, :length]
        torch.testing.assert_close(rows[..., :length], alone["arcs"][0, ..., :length], **NEAR)
        torch.testing.assert_close(rows[..., n:], alone["arcs"][0, ..., length:], **NEAR)
        assert not rows[..., length:n].any()
        if "sentence" in alone:
            torch.testing.assert_close(together["sentence"][b], alone["sentence"][0], **NEAR)
    for order in itertools.permutations(range(len(LENGTHS))):
        moved = everything(made, part(given, list(order)))
        for key, values in moved.items():
            torch.testing.assert_close(values, together[key][list(order)], **NEAR)
    ids = torch.where(given.mask, given.ids, given.ids.roll(1, 0))
    noise = Inputs(ids=ids, mask=given.mask, segments=given.segments)
    for key, values in everything(made, noise).items():
        torch.testing.assert_close(values, together[key], rtol=0, atol=0)


@ROWS
@pytest.mark.parametrize("of_sentences", [False, True], ids=["words", "sentences"])
def test_rows_of_arcs_are_distributions_over_candidates(kind: str, name: str, of_sentences: bool) -> None:
    """Without a root a tree has one word that hangs at none, and a word by itself has no candidate but itself."""
    made = network(kind, name, of_sentences=of_sentences)
    section: Any = made.encoder.top.section
    given = inputs(made)
    arcs = everything(made, given)["arcs"].detach()
    assert bool((arcs >= 0).all())
    itself = arcs[..., : given.mask.shape[1]].diagonal(dim1=-2, dim2=-1)
    if section.facts.has_ternary_scores:
        assert not itself.any(), "no word is its own head"
    sums = arcs.sum(-1)
    for b, length in enumerate(LENGTHS):
        of_words = sums[b, :, :, :length]
        if getattr(section, "heads", None) == "tree" and not made.encoder.facts.has_root:
            total = length if made.start is not None else length - 1
            if made.start is None:
                torch.testing.assert_close(of_words.sum(-1), torch.full_like(of_words[..., 0], total), **NEAR)
            assert bool((of_words <= 1 + 1e-9).all())
        elif section.facts.has_ternary_scores and length == 1 and not others(made):
            assert not of_words.any()
        else:
            torch.testing.assert_close(of_words, torch.ones_like(of_words), **NEAR)


@ROWS
def test_half_precision_is_finite(kind: str, name: str) -> None:
    made = network(kind, name).float()
    given = inputs(made)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = everything(made, given)
    assert all(bool(value.isfinite().all()) for value in found.values())
    for iterations in ([1], [2, 3]):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            arcs = made(given, Wants(arcs=iterations)).arcs
        assert bool(arcs.isfinite().all())


@ROWS
def test_every_parameter_has_a_finite_gradient(kind: str, name: str) -> None:
    """With a sentence of one word in the batch."""
    made = network(kind, name)
    found = everything(made, inputs(made))
    sum(value.square().sum() for value in found.values()).backward()  # type: ignore[union-attr]
    for key, parameter in made.encoder.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


@ROWS
def test_saved_and_loaded_it_is_the_same(kind: str, name: str) -> None:
    made = network(kind, name).float()
    again = network(kind, name).float()
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    again.load_state_dict(load(save({key: value.contiguous() for key, value in made.state_dict().items()})))
    given = inputs(made)
    before, after = everything(made, given), everything(again, given)
    assert all(torch.equal(values, after[key]) for key, values in before.items())


# --- the one entrance -------------------------------------------------------------------------------------------------


def tokens_of(given: Inputs) -> Tensor:
    """Some words of each sentence, of one none."""
    tokens = torch.zeros_like(given.mask)
    tokens[0, [0, 3, 5]] = tokens[2, 1] = True
    return tokens


@ROWS
def test_only_what_is_wanted_is_there(kind: str, name: str) -> None:
    made = network(kind, name)
    given = inputs(made)
    nothing = made(given, Wants())
    assert (dict(nothing.scores), nothing.states, nothing.arcs) == ({}, None, None)
    words = made(given, Wants(words=given.mask))
    assert (list(words.scores), words.states, words.arcs) == (["words"], None, None)
    states = made(given, Wants(states=True))
    assert (dict(states.scores), states.arcs) == ({}, None)
    assert states.states is not None
    arcs = made(given, Wants(arcs=[2]))
    assert (dict(arcs.scores), arcs.states, arcs.sentence) == ({}, None, None)
    assert arcs.arcs.shape[1] == 1


@ROWS
def test_arcs_of_some_iterations_are_those_of_all(kind: str, name: str) -> None:
    """Alone, and beside states."""
    made = network(kind, name)
    given = inputs(made)
    every = everything(made, given)["arcs"]
    for numbers in ([1], [3], [1, 3], [1, 2, 3]):
        wanted = every[:, [number - 1 for number in numbers]]
        torch.testing.assert_close(made(given, Wants(arcs=numbers)).arcs, wanted, **NEAR)
        torch.testing.assert_close(made(given, Wants(arcs=numbers, states=True)).arcs, wanted, **NEAR)


@ROWS
def test_scores_of_some_words_are_those_of_all_states(kind: str, name: str) -> None:
    made = network(kind, name)
    given = inputs(made)
    tokens = tokens_of(given)
    states = everything(made, given)["states"]
    expected = made.output(states[tokens])
    for wants in (Wants(words=tokens), Wants(tokens=tokens), Wants(tokens=tokens, states=True, arcs=[1])):
        torch.testing.assert_close(made(given, wants).scores["words"], expected, **NEAR)
    none = made(given, Wants(tokens=torch.zeros_like(tokens))).scores["words"]
    assert none.shape == (0, OUTPUTS)


@ROWS
def test_words_of_several_tokens_are_read_at_the_first(kind: str, name: str) -> None:
    made = network(kind, name)
    given = inputs(made)
    n = given.mask.shape[1]
    first = torch.tensor([[1, 2, 5], [0, n, n], [0, 3, n]])
    words = torch.tensor([[True, False, True], [True, False, False], [False, True, False]])
    pieces = Inputs(ids=given.ids, mask=given.mask, first=first, segments=given.segments)
    found = made(pieces, Wants(words=words)).scores["words"]
    states = made(pieces if made.encoder.facts.reads_first else given, Wants(states=True)).states
    at = torch.stack([states[0, 1], states[0, 5], states[1, 0], states[2, 3]])
    torch.testing.assert_close(found, made.output(at), **NEAR)


@ROWS
def test_scores_of_sentences_are_those_of_all_states(kind: str, name: str) -> None:
    made = network(kind, name, of_sentences=True)
    given = inputs(made)
    full = everything(made, given)["sentence"]
    for wants in (Wants(sentence=True), Wants(sentence=True, states=True, arcs=[1])):
        found = made(given, wants)
        assert list(found.scores) == ["sentence"]
        torch.testing.assert_close(found.scores["sentence"], made.output(full), **NEAR)
