"""Masks against a plain loop over sentences, and how often what is hidden."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.recipe.data import WordVocabulary
from probtrans_cli.recipe.task import Masking
from probtrans_cli.tasks.masking import Masks, chosen


@st.composite
def batches(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(candidates, lengths, uniform draws, first positions) of some sentences of words of some pieces."""
    sentences = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=8), min_size=1, max_size=4))
    # One special in front, one behind.
    lengths = torch.tensor([sum(words) + 2 for words in sentences])
    n, w = int(lengths.max()), max(map(len, sentences))
    first = torch.full((len(sentences), w), n)
    candidates = torch.zeros(len(sentences), n, dtype=torch.bool)
    for row, words in enumerate(sentences):
        for index in range(len(words)):
            first[row, index] = 1 + sum(words[:index])
        for position in range(1, sum(words) + 1):
            candidates[row, position] = draw(st.integers(0, 4)) > 0
    torch.manual_seed(draw(st.integers(0, 999)))
    return candidates, lengths, torch.rand(len(sentences), n), first


RATES = st.sampled_from([0.01, 0.15, 0.3, 0.5, 0.9])


@settings(deadline=None)
@given(batches(), RATES, st.one_of(st.none(), st.integers(1, 6)))
def test_an_exact_count_takes_the_smallest_draws(batch, rate: float, largest: int | None) -> None:
    candidates, lengths, draw, _ = batch
    hidden = chosen(candidates, lengths, draw, rate=rate, count="exact", largest=largest)
    for row, length in enumerate(lengths.tolist()):
        wanted = min(max(round(rate * length), 1), largest or length)
        order = sorted(
            torch.nonzero(candidates[row]).flatten().tolist(), key=lambda position: float(draw[row, position])
        )
        assert torch.nonzero(hidden[row]).flatten().tolist() == sorted(order[:wanted])


@settings(deadline=None)
@given(batches(), RATES, st.one_of(st.none(), st.integers(1, 6)), st.sampled_from(["exact", "bernoulli"]))
def test_whole_words(batch, rate: float, largest: int | None, count) -> None:
    candidates, lengths, draw, first = batch
    hidden = chosen(candidates, lengths, draw, rate=rate, count=count, largest=largest, first=first)
    for row, length in enumerate(lengths.tolist()):
        starts = [start for start in first[row].tolist() if start < draw.shape[1]]
        ends = [*starts[1:], draw.shape[1]]
        words = [
            (float(draw[row, start]), [at for at in range(start, end) if candidates[row, at]])
            for start, end in zip(starts, ends, strict=True)
        ]
        wanted = min(max(round(rate * length), 1), largest or length)
        expected: list[int] = []
        for value, pieces in sorted(words):
            if (value < rate) if count == "bernoulli" else (len(expected) + len(pieces) <= wanted):
                expected += pieces
        assert torch.nonzero(hidden[row]).flatten().tolist() == sorted(expected)


def test_every_candidate_is_hidden_equally_often() -> None:
    torch.manual_seed(0)
    candidates = torch.ones(4000, 30, dtype=torch.bool)
    candidates[:, [0, 29]] = False
    lengths = torch.full((4000,), 30)
    for count, expected in (("exact", 4 / 28), ("bernoulli", 0.15)):
        hidden = chosen(candidates, lengths, torch.rand(4000, 30), rate=0.15, count=count)  # type: ignore[arg-type]
        assert not hidden[:, [0, 29]].any()
        deviation = math.sqrt(expected * (1 - expected) / 4000)
        shares = hidden[:, 1:29].double().mean(0)
        assert float((shares - expected).abs().max()) < 4.5 * deviation


@pytest.mark.parametrize(("mask", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 1.0), (0.3, 0.5), (0.0, 0.0)])
def test_shares_of_what_is_shown(mask: float, random: float) -> None:
    vocabulary = build_vocabulary(WordVocabulary(min_count=1), [list("abcd")])
    masks = Masks(Masking(mask=mask, random=random, keep=1 - mask - random), vocabulary)
    ordinary = masks.ordinary.tolist()
    assert sorted(map(vocabulary.decode, ordinary)) == list("abcd")
    torch.manual_seed(1)
    ids = torch.full((400, 100), vocabulary.UNKNOWN)
    hidden = torch.rand(400, 100) < 0.5
    shown = masks.shown(ids, hidden, torch.rand(1, 400, 100))
    assert torch.equal(shown[~hidden], ids[~hidden])
    number = int(hidden.sum())
    shares = {vocabulary.MASK: mask, vocabulary.UNKNOWN: 1 - mask - random} | dict.fromkeys(ordinary, random / 4)
    for id, share in shares.items():
        frequency = int((shown[hidden] == id).sum()) / number
        assert frequency == pytest.approx(share, abs=4.5 * math.sqrt(share * (1 - share) / number) + 1e-12)
    assert set(shown[hidden].tolist()) <= set(shares)


def test_sentences_without_candidates_hide_nothing() -> None:
    none = torch.zeros(2, 5, dtype=torch.bool)
    first = torch.tensor([[1, 3], [1, 5]])
    for given_first in (None, first):
        hidden = chosen(none, torch.tensor([5, 3]), torch.rand(2, 5), rate=0.5, count="exact", first=given_first)
        assert not hidden.any()
    empty = torch.zeros(0, 0)
    assert chosen(empty.bool(), torch.zeros(0).long(), empty, rate=0.5, count="exact").shape == (0, 0)


def test_rounding_is_to_the_even_number() -> None:
    """As Python's and google-research/bert's own: of 10 tokens at 0.15 two, of 30 four (not 4.5 = five)."""
    every = torch.ones(2, 30, dtype=torch.bool)
    every[0, 10:] = False
    hidden = chosen(every, torch.tensor([10, 30]), torch.rand(2, 30), rate=0.15, count="exact")
    assert hidden.sum(1).tolist() == [round(10 * 0.15), round(30 * 0.15)] == [2, 4]
