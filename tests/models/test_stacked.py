"""One encoder upon another: its equation sentence by sentence, and words of several tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_tasks import linear, randomized
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.models.base import Encoded, Inputs, Outputs, Wants, Words
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import Sentence
from probtrans_cli.recipe.training import Optim

VOCABULARY, OUTPUTS = 20, 3
STILL = {"dropout": 0.0, "embedding_dropout": 0.0}
LOWER: dict[str, Any] = {"kind": "transformer", "width": 8, "inner": 12, "heads": 2, "layers": 2, **STILL}
FIELD: dict[str, Any] = {"kind": "probabilistic", "labels": 6, "channels": 2, "iterations": 3, "dropout": 0.0}
UPPERS: dict[str, dict[str, Any]] = {
    "field": FIELD,
    "rooted tree": {**FIELD, "heads": "tree", "root": {"labels": 4}},
    "all-dep": {**FIELD, "globals": {"kind": "all-dep", "features": 3}},
    "transformer": {**LOWER, "width": 4, "positions": {"kind": "relative"}},
}
BOTH = pytest.mark.parametrize("upper", UPPERS)
NEAR: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}
FIRST = ((1, 2, 5), (1,), (1, 3))
"""Where the words of three sentences begin; before them stands a `[CLS]`, and behind them a `[SEP]`."""
LENGTHS = (7, 3, 6)


def network(upper: str, sentence: Sentence | None = None, *, begins: bool = True) -> Network:
    torch.manual_seed(0)
    encoder = models.build({"kind": "stacked", "lower": LOWER, "upper": UPPERS[upper], "dropout": 0.0})
    return randomized(Network(VOCABULARY, encoder, linear(OUTPUTS, sentence), begins=begins))


def inputs(rows: tuple[int, ...] = (0, 1, 2), *, more: int = 0) -> Inputs:
    """Some of the sentences with random tokens, with up to two tokens of padding more than they need."""
    ids = torch.randint(3, VOCABULARY, (3, max(LENGTHS) + 2), generator=torch.Generator().manual_seed(1))
    n = max(LENGTHS[row] for row in rows) + more
    words = max(len(FIRST[row]) for row in rows)
    first = [[*FIRST[row], *[n] * (words - len(FIRST[row]))] for row in rows]
    mask = torch.arange(n) < torch.tensor([LENGTHS[row] for row in rows])[:, None]
    return Inputs(ids=ids[list(rows), :n], mask=mask, first=torch.tensor(first))


def asked(made: Network, given: Inputs, **wants: Any) -> Outputs:
    found: Outputs = made(given, Wants(**{"states": True, "arcs": (1, 2), **wants}))
    return found


def by_hand(made: Network, given: Inputs, b: int, first: Sequence[int], start: Tensor | None = None) -> Encoded:
    """The words of sentence ``b`` alone, behind a vector ``start``: one encoder, W, the other encoder."""
    stack: Any = made.encoder
    vectors = made.unary.weight[given.ids[b, : LENGTHS[b]]]
    vectors = vectors if start is None else torch.cat([start, vectors])
    below = stack.lower(Words(vectors[None], torch.ones(1, len(vectors), dtype=torch.bool))).states
    scores = below[:, list(first)] @ stack.projection.weight.T
    encoded: Encoded = stack.upper(Words(scores, torch.ones(1, len(first), dtype=torch.bool)), arcs=(1, 2))
    return encoded


@BOTH
def test_states_and_arcs_of_words_are_those_of_one_encoder_after_the_other(upper: str) -> None:
    made, given = network(upper), inputs(more=2)
    found = asked(made, given)
    alone = made(given, Wants(arcs=(1, 2))).arcs
    n = given.mask.shape[1]
    for b, first in enumerate(FIRST):
        encoded = by_hand(made, given, b, first)
        states, arcs = encoded.states[0], encoded.arcs[0]
        for k, position in enumerate(first):
            torch.testing.assert_close(found.states[b, position], states[k], **NEAR)
            for j, other in enumerate(first):
                torch.testing.assert_close(found.arcs[b, :, :, position, other], arcs[:, :, k, j], **NEAR)
            torch.testing.assert_close(found.arcs[b, :, :, position, n:], arcs[:, :, k, len(first) :], **NEAR)
    torch.testing.assert_close(alone, found.arcs, **NEAR)


@BOTH
def test_tokens_have_the_states_of_their_words_and_no_arcs_but_at_the_first(upper: str) -> None:
    """`[CLS]` and padding have none, and nothing hangs at them."""
    made, given = network(upper), inputs()
    found = asked(made, given)
    words = torch.zeros_like(given.mask)
    for b, first in enumerate(FIRST):
        words[b, list(first)] = True
        assert not found.states[b, : first[0]].any()
        for begin, end in zip(first, (*first[1:], LENGTHS[b]), strict=True):
            assert all(torch.equal(found.states[b, i], found.states[b, begin]) for i in range(begin, end))
    assert not found.states[~given.mask].any()
    n = words.shape[1]
    assert not found.arcs.transpose(1, 3)[~words].any()
    assert not found.arcs[..., :n].permute(0, 4, 1, 2, 3)[~words].any()
    sums = found.arcs.sum(-1).permute(0, 3, 1, 2)[words]
    if upper in ("all-dep", "transformer", "rooted tree"):
        torch.testing.assert_close(sums, torch.ones_like(sums), **NEAR)


@BOTH
def test_scores_of_some_tokens_are_those_of_all_states(upper: str) -> None:
    made, given = network(upper), inputs()
    tokens = torch.zeros_like(given.mask)
    tokens[0, [0, 3, 5]] = tokens[2, 4] = True  # a `[CLS]`, and further tokens of words
    expected = made.output(asked(made, given).states[tokens])
    torch.testing.assert_close(made(given, Wants(tokens=tokens)).scores["words"], expected, **NEAR)
    words = torch.tensor([[True, False, True], [False, False, False], [False, True, False]])
    expected = made.output(asked(made, given).states[given.tokens_of(words)])
    torch.testing.assert_close(made(given, Wants(words=words)).scores["words"], expected, **NEAR)


@pytest.mark.parametrize(("upper", "sentence"), [("field", "mean"), ("rooted tree", "root")])
def test_a_sentence_is_that_of_the_upper_encoder(upper: str, sentence: Sentence) -> None:
    """The mean is that of words, not of tokens."""
    made, given = network(upper, sentence), inputs()
    found = made(given, Wants(sentence=True)).scores["sentence"]
    for b, first in enumerate(FIRST):
        encoded = by_hand(made, given, b, first)
        vector = encoded.sentence[0] if sentence == "root" else encoded.states[0].mean(0)
        torch.testing.assert_close(found[b], made.output(vector), **NEAR)


@pytest.mark.parametrize("begins", [True, False], ids=["of the vocabulary", "of its own"])
def test_the_token_that_stands_for_the_sentence_is_a_word_of_the_upper_encoder(begins: bool) -> None:
    made, given = network("field", "cls", begins=begins), inputs()
    found = asked(made, given, sentence=True)
    for b, first in enumerate(FIRST):
        read = [0, *(position + (not begins) for position in first)]
        states = by_hand(made, given, b, read, None if begins else made.start).states[0]
        torch.testing.assert_close(found.scores["sentence"][b], made.output(states[0]), **NEAR)
        torch.testing.assert_close(found.states[b, list(first)], states[1:], **NEAR)


def test_without_the_places_of_words_every_token_is_one() -> None:
    made, given = network("field"), inputs()
    every = torch.arange(given.mask.shape[1]).expand(3, -1).masked_fill(~given.mask, given.mask.shape[1])
    one = asked(made, replace(given, first=None))
    other = asked(made, replace(given, first=every))
    torch.testing.assert_close(one.states, other.states, **NEAR)
    torch.testing.assert_close(one.arcs, other.arcs, **NEAR)


def test_words_that_share_a_token_are_one() -> None:
    """As where a vocabulary leaves words out."""
    made, given = network("field"), inputs((0,))
    several = replace(given, first=torch.tensor([[1, 1, 2, 2, 2, 5, 5, 5, 5, 5]]))
    torch.testing.assert_close(asked(made, several).states, asked(made, given).states, **NEAR)


def test_a_sentence_without_words_is_read() -> None:
    made, given = network("rooted tree", "root"), inputs()
    none = replace(given, first=torch.full((3, 0), 0))
    for one in (none, replace(given, first=torch.full_like(given.first, given.mask.shape[1]))):
        found = asked(made, one, sentence=True)
        assert not found.states.any()
        assert bool(found.arcs.isfinite().all())
        assert bool(found.scores["sentence"].isfinite().all())


def test_scores_of_labels_are_exact_in_an_autocast() -> None:
    made, given = network("field").float(), inputs()
    stack: Any = made.encoder
    vectors: list[Tensor] = []
    stack.upper.register_forward_pre_hook(lambda _, given: vectors.append(given[0].vectors))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = asked(made, given)
    assert bool(found.states.isfinite().all())
    # Sizes of what the upper encoder reads follow from those of the input: a compiled graph has no value in them.
    n = max(LENGTHS)
    for words in (FIRST[0], FIRST[1]):
        asked(made, replace(inputs((0,)), first=torch.tensor([[*words, *[n] * (4 - len(words))]])))
    assert [(part.dtype, part.shape[1]) for part in vectors] == [(torch.float32, 3), *[(torch.float32, 4)] * 2]


# --- parts ------------------------------------------------------------------------------------------------------------


def test_stages_are_the_lower_encoders_and_all_of_it() -> None:
    for lower, number in (
        (LOWER, 3),
        ({**LOWER, "norm": "pre"}, 3),
        ({**LOWER, "share_layers": True}, 2),
        (FIELD, 2),
    ):
        encoder = models.build({"kind": "stacked", "lower": lower, "upper": FIELD})
        stages = encoder.stages()
        assert len(stages) == number == 1 + encoder.section.facts.separate_layers
        found = [id(parameter) for stage in stages for parameter in stage]
        assert sorted(found) == sorted(id(parameter) for parameter in encoder.lower.parameters())


def test_penalties_of_both_encoders_add_up() -> None:
    section = Optim.model_validate({"ternary_penalty": {"weight": 0.5}})
    encoder = models.build({"kind": "stacked", "lower": {**FIELD, "labels": 4}, "upper": FIELD})
    lower: Any = encoder.lower
    upper: Any = encoder.upper
    expected = 0.5 * (lower.ternary_scores().norm() + upper.ternary_scores().norm())
    found = encoder.regularizer(section)
    assert len(found) == 2
    torch.testing.assert_close(sum(found.values()), expected)


def test_dropout_is_on_what_the_upper_encoder_reads() -> None:
    encoder = models.build({"kind": "stacked", "lower": LOWER, "upper": FIELD, "dropout": 0.5}).train()
    seen: list[Tensor] = []
    encoder.projection.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    torch.manual_seed(0)
    encoder(Words(torch.randn(4, 50, 8), torch.ones(4, 50, dtype=torch.bool)))
    assert float((seen[0] == 0.0).float().mean()) == pytest.approx(0.5, abs=0.05)
