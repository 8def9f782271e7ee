"""The best valid tags against all sequences of tags, one by one."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from tags import problems
from torch import Tensor

from probtrans_cli.data.entities import Scheme
from probtrans_cli.tasks.tagging import allowed_by, best_valid

NAMES: dict[Scheme, list[str]] = {
    "iob2": ["I-X", "O", "B-X", "B-Y", "I-Y"],
    "bioes": ["E-X", "O", "B-X", "S-Y", "I-X"],
    "bilou": ["O", "U-X", "L-X", "B-X", "I-X"],
    "iob1": ["O", "I-X", "B-X", "I-Y"],
}


def by_enumeration(scores: Tensor, names: list[str], scheme: Scheme) -> list[int] | None:
    """Of all sequences for a sentence ``[w a]`` the valid one with the largest sum of scores; None: none is valid."""
    every = product(range(len(names)), repeat=len(scores))
    valid = [ids for ids in every if problems([names[id] for id in ids], scheme) is None]
    if not valid:
        return None
    return list(max(valid, key=lambda ids: sum(float(scores[i, id]) for i, id in enumerate(ids))))


def batch(lengths: list[int], tags: int, seed: int) -> tuple[Tensor, Tensor]:
    """Log probabilities of all words in row-major order, and where there is a word."""
    torch.manual_seed(seed)
    words = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return (3.0 * torch.randn(sum(lengths), tags)).log_softmax(-1), words


@pytest.mark.parametrize("scheme", NAMES)
def test_the_best_valid_tags_are_those_of_enumeration(scheme: Scheme) -> None:
    names, changed = NAMES[scheme], 0
    may = allowed_by(names, scheme)
    for seed in range(20):
        lengths = [4, 1, 5, 2, 3]
        scores, words = batch(lengths, len(names), seed)
        found = best_valid(scores, words, may).split(lengths)
        for ids, of_words in zip(found, scores.split(lengths), strict=True):
            assert ids.tolist() == by_enumeration(of_words, names, scheme)
            changed += ids.tolist() != of_words.argmax(-1).tolist()
    assert changed > 20, "each word's best tag is often not valid"


def test_scores_need_no_norm() -> None:
    """A constant of the word changes nothing, however large it is."""
    scores, words = batch([5, 3], 5, 0)
    may = allowed_by(NAMES["bioes"], "bioes")
    expected = best_valid(scores, words, may)
    assert torch.equal(best_valid(scores + 1000.0 * torch.randn(8, 1), words, may), expected)


def test_valid_tags_stay_as_they_are_in_long_sentences() -> None:
    """Where the difference to the next tag is smaller than a sum of many words can hold."""
    names = NAMES["iob2"]
    ids = torch.tensor([1, 2, 0, 3, 1] * 4000)
    scores = torch.full((len(ids), len(names)), -30.0)
    scores[torch.arange(len(ids)), ids] = 0.0
    scores[-1, 0], scores[-1, 2] = -40.0, -1e-7
    found = best_valid(scores, torch.ones(1, len(ids), dtype=torch.bool), allowed_by(names, "iob2"))
    assert torch.equal(found, ids)


def test_batch_mates_change_nothing() -> None:
    lengths = [2, 6, 1, 4]
    scores, words = batch(lengths, 5, 7)
    may = allowed_by(NAMES["bioes"], "bioes")
    together = best_valid(scores, words, may).split(lengths)
    for ids, of_words in zip(together, scores.split(lengths), strict=True):
        assert torch.equal(best_valid(of_words, torch.ones(1, len(of_words), dtype=torch.bool), may), ids)


def test_where_nothing_is_valid_each_word_has_its_best_tag() -> None:
    """One word has no tag of its own here, two have."""
    names = ["E-X", "B-X"]
    scores, words = batch([1, 2], 2, 3)
    found = best_valid(scores, words, allowed_by(names, "bioes"))
    assert by_enumeration(scores[:1], names, "bioes") is None
    assert found[0] == scores[0].argmax()
    assert found[1:].tolist() == [1, 0]
