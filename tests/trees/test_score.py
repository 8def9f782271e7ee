"""Attachment scores on hand-made trees, removal of punctuation, and the floors on a real treebank."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import real_data

from probtrans_cli.data.readers import read_corpus
from probtrans_cli.models.base import CUES
from probtrans_cli.models.probabilistic.head_bias import head_bias
from probtrans_cli.recipe.model.probabilistic import HeadBias
from probtrans_cli.trees.decode import decode
from probtrans_cli.trees.forest import (
    DISTANCE,
    FREQUENCY,
    RIGHT,
    ROOT,
    Forest,
    bias_scores,
    nearest_rarer,
    not_trees,
    random_trees,
    untrained_bias,
)
from probtrans_cli.trees.score import attachment, bootstrap_weights, floors, warning_of_gold

SHARES = ("uas", "uuas", "directed", "swapped")
NOTHING = dict.fromkeys((*SHARES, "uas_interval", "uuas_interval")) | {"sentences": 0, "words": 0, "arcs": 0}


def heads(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def flags(text: str) -> np.ndarray:
    return np.array([letter == "x" for letter in text])


def remove(tree: np.ndarray, punct: np.ndarray) -> np.ndarray:
    return Forest.of([tree]).restricted(~punct).heads


def test_counts() -> None:
    gold, predicted = [heads(2, 0, 2, 3), heads(0)], [heads(2, 0, 4, 1), heads(0)]
    # arcs 1<-2 and the two roots are right; 3-4 is found in the other direction
    expected = {"uas": 3 / 5, "uuas": 2 / 3, "directed": 1 / 3, "swapped": 1 / 3}
    # a draw has both sentences, twice the first, or twice the second; only one of the two has an arc between words
    expected |= {"uas_interval": [2 / 4, 2 / 2], "uuas_interval": None, "sentences": 2, "words": 5, "arcs": 3}
    assert attachment(gold, predicted, None) == {"with_punct": {"all": expected, "10": expected}}


def test_circle_of_two_words_counts_once() -> None:
    scores = attachment([heads(0, 1, 2)], [heads(2, 1, 1)], None)["with_punct"]["all"]
    assert scores["uuas"] == 1 / 2
    assert scores["uas"] == 1 / 3


def test_what_is_no_tree_is_told() -> None:
    """Beside a walk from every word to the root, over all heads of up to four words."""
    every = [heads(*given) for n in range(5) for given in product(range(n + 1), repeat=n)]

    def reaches(tree: np.ndarray, word: int) -> bool:
        for _ in tree:
            word = int(tree[word - 1]) if word else 0
        return word == 0

    expected = [
        bool(len(tree)) and not (sum(tree == 0) == 1 and all(reaches(tree, word + 1) for word in range(len(tree))))
        for tree in every
    ]
    assert not_trees(Forest.of(every)).tolist() == expected
    assert len(every) - sum(expected) == 1 + sum(n ** (n - 1) for n in range(1, 5))
    assert warning_of_gold([heads(0), heads(), heads(2, 0)], str) is None
    assert warning_of_gold([heads(0), heads(2, 1)], lambda index: f"gold:{index}") == (
        "warning: gold:1: the gold heads are not a tree with one root; they are scored all the same"
    )
    assert "9: the gold heads are not a tree with one root, the first of 2 such sentences" in str(
        warning_of_gold([heads(0)] * 9 + [heads(0, 0), heads(2, 3, 2)], str)
    )


def test_lengths_are_counted_after_the_removal() -> None:
    chain = np.arange(12)
    scores = attachment([chain], [chain], [flags("..........xx")])
    short = scores["no_punct"]["10"]
    assert [short[name] for name in ("uas", "uuas", "sentences", "words", "arcs")] == [1.0, 1.0, 1, 10, 9]
    assert scores["with_punct"]["10"] == NOTHING


def test_nothing_to_count_is_none() -> None:
    assert attachment([], [], [])["no_punct"]["all"] == NOTHING
    assert attachment([heads(0)], [heads(0)], [flags("x")])["no_punct"]["all"] == NOTHING
    assert attachment([heads(0)], [heads(0)], None)["with_punct"]["all"]["uuas"] is None
    assert floors([], [], [])["random_tree"]["no_punct"]["all"] == NOTHING


@pytest.mark.parametrize(
    ("tree", "punct", "expected"),
    [
        ((2, 0, 2, 3), "....", (2, 0, 2, 3)),
        ((2, 0, 2, 3), "..x.", (2, 0, 2)),  # to the grandparent
        ((2, 0, 2, 3), ".xx.", (0, 0)),  # nothing kept above
        ((3, 1, 0, 3), "x...", (2, 0, 2)),  # renumbered
        ((2, 3, 2, 3), ".xx.", (0, 0)),  # children of a removed circle
        ((2, 1, 1), "...", (2, 1, 1)),  # kept circle stays a circle
        ((2, 3, 1), "x..", (2, 1)),  # a circle that loses a member
        ((0,), "x", ()),
    ],
)
def test_remove(tree: tuple[int, ...], punct: str, expected: tuple[int, ...]) -> None:
    assert tuple(remove(heads(*tree), flags(punct))) == expected


def test_removal_agrees_with_climbing_word_by_word() -> None:
    random = np.random.default_rng(1)
    for _ in range(300):
        n = int(random.integers(1, 12))
        tree, punct = random_trees(1, n, random)[0], random.random(n) < 0.5
        kept = [i for i in range(n) if not punct[i]]
        expected = []
        for i in kept:
            head = tree[i]
            while head and punct[head - 1]:
                head = tree[head - 1]
            expected.append(kept.index(head - 1) + 1 if head else 0)
        assert remove(tree, punct).tolist() == expected


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Gold trees, predicted heads (circles and all), and which words are punctuation."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = draw(st.lists(st.integers(1, 14), min_size=1, max_size=6))
    gold = [random_trees(1, n, random)[0] for n in lengths]
    predicted = [random.integers(0, n + 1, n) for n in lengths]
    return gold, predicted, [random.random(n) < 0.3 for n in lengths]


@settings(max_examples=50)
@given(forests())
def test_scores_agree_with_counting_arc_by_arc(
    trees: tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]],
) -> None:
    gold, predicted, punct = trees
    for convention, scores in attachment(gold, predicted, punct).items():
        for name, longest in (("all", 99), ("10", 10)):
            words = arcs = right = directed = swapped = sentences = 0
            for one, other, removed in zip(gold, predicted, punct, strict=True):
                dropped = removed if convention == "no_punct" else np.zeros(len(one), dtype=bool)
                tree, found = remove(one, dropped).tolist(), remove(other, dropped).tolist()
                if not 0 < len(tree) <= longest:
                    continue
                sentences += 1
                for i, head in enumerate(tree):
                    words += 1
                    right += found[i] == head
                    arcs += head > 0
                    directed += found[i] == head > 0
                    swapped += head > 0 and found[i] != head and found[head - 1] == i + 1
            expected = {
                "uas": right / words if words else None,
                "uuas": (directed + swapped) / arcs if arcs else None,
                "directed": directed / arcs if arcs else None,
                "swapped": swapped / arcs if arcs else None,
                "sentences": sentences,
                "words": words,
                "arcs": arcs,
            }
            assert {key: value for key, value in scores[name].items() if "interval" not in key} == expected


# --- intervals --------------------------------------------------------------------------------------------------------


def test_intervals_agree_with_drawing_sentences_in_a_loop() -> None:
    """With the same draws, each of which is scored as a file of its own."""
    random = np.random.default_rng(5)
    gold = [random_trees(1, int(n), random)[0] for n in random.integers(1, 16, 25)]
    predicted = [np.where(random.random(len(tree)) < 0.5, tree, random_trees(1, len(tree), random)[0]) for tree in gold]
    punct = [random.random(len(tree)) < 0.2 for tree in gold]
    alone = [attachment([g], [p], [x]) for g, p, x in zip(gold, predicted, punct, strict=True)]
    draws = [np.repeat(np.arange(len(gold)), row).tolist() for row in bootstrap_weights(len(gold))]
    assert {len(draw) for draw in draws} == {len(gold)}
    for convention, whole in attachment(gold, predicted, punct).items():
        for length in ("all", "10"):
            parts = [one[convention][length] for one in alone]
            for score, counted in (("uas", "words"), ("uuas", "arcs")):
                wholes = [int(part[counted]) for part in parts]
                rights = [round((part[score] or 0.0) * part[counted]) for part in parts]
                values = [sum(rights[i] for i in draw) / sum(wholes[i] for i in draw) for draw in draws]
                expected = np.quantile(values, [0.025, 0.975]).tolist()
                assert whole[length][f"{score}_interval"] == pytest.approx(expected, rel=1e-5)


def test_an_interval_is_as_wide_as_the_binomial_says() -> None:
    """Sentences of one arc that is right in 300 of 1,000: 1.96 standard errors of a proportion to either side."""
    gold = [heads(2, 0)] * 1000
    predicted = [heads(2, 0) if index % 10 < 3 else heads(0, 0) for index in range(1000)]
    scores = attachment(gold, predicted, None)["with_punct"]["all"]
    low, high = scores["uuas_interval"]
    deviation = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert scores["uuas"] == 0.3
    assert low == pytest.approx(0.3 - deviation, abs=0.1 * deviation)
    assert high == pytest.approx(0.3 + deviation, abs=0.1 * deviation)


def test_draws_are_the_same_every_time_and_as_expected() -> None:
    first = bootstrap_weights(50).copy()
    bootstrap_weights.cache_clear()
    assert (bootstrap_weights(50) == first).all()
    assert first.mean() == 1.0
    assert first.var() == pytest.approx(1 - 1 / 50, abs=0.02)  # of a multinomial's part


def test_one_sentence_has_no_interval() -> None:
    scores = attachment([heads(2, 0)], [heads(2, 0)], None)["with_punct"]["all"]
    assert (scores["uas"], scores["uas_interval"]) == (1.0, None)


def test_mismatch_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        attachment([heads(0, 1), heads(0)], [heads(0), heads(0, 1)], None)
    with pytest.raises(ValueError, match="not a word of its sentence"):
        attachment([heads(0, 3)], [heads(0, 1)], None)


def test_nearest_rarer() -> None:
    assert nearest_rarer(np.array([100, 3, 50, 7, 90])).tolist() == [2, 0, 4, 2, 4]  # ties in distance to the right
    assert nearest_rarer(np.array([5, 5, 5])).tolist() == [2, 3, 0]  # of equals the later is rarer
    assert nearest_rarer(np.array([1])).tolist() == [0]


def test_the_untrained_bias_is_that_of_a_model() -> None:
    """Its scores are those of `model.head_bias` with the same numbers, its trees the best by them, in any batch."""
    random = np.random.default_rng(0)
    lengths = np.array([5, 0, 1, 9, 5])
    counts = random.integers(0, 500, int(lengths.sum()))
    heads = untrained_bias(counts, lengths)
    section = HeadBias(distance=DISTANCE, right=RIGHT, frequency=FREQUENCY, root=ROOT)
    for start, n in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
        part = counts[start : start + n]
        if n:
            common = torch.from_numpy(np.log(np.maximum(part, 1)) ** 2)[None, :, None]
            cues, mask = torch.nn.functional.pad(common, (0, CUES - 1)), torch.ones(1, n, dtype=torch.bool)
            words, root = head_bias(section, cues, mask)
            expected = torch.cat([words[0, 0], root[0, 0, :, None]], dim=1).numpy()
            np.testing.assert_allclose(bias_scores(part[None])[0], expected, rtol=1e-12)
            assert (
                heads[start : start + n].tolist() == decode(expected[None], np.ones((1, n), bool), "eisner")[0].tolist()
            )


def test_random_trees_are_uniform() -> None:
    """All 9 rooted trees over 3 words, and all 64 over 4, equally often (chi-square far from its tail)."""
    random = np.random.default_rng(0)
    for n in (1, 2, 3, 4):
        drawn = Counter(map(tuple, random_trees(20_000, n, random).tolist()))
        expected = 20_000 / n ** (n - 1)
        assert len(drawn) == n ** (n - 1)
        assert sum((count - expected) ** 2 / expected for count in drawn.values()) < 2 * n ** (n - 1) + 10


def test_floors_are_reproducible() -> None:
    gold = [heads(2, 0, 2), heads(0, 1)]
    arguments = (gold, [flags("..x"), flags("..")], [np.array([9, 1, 5]), np.array([2, 3])])
    result = floors(*arguments)
    assert floors(*arguments) == result
    assert result["next_word"]["with_punct"]["all"]["uas"] == pytest.approx(1 / 5)
    assert result["previous_word"]["with_punct"]["all"]["uas"] == pytest.approx(3 / 5)


def test_floors_of_english_ewt() -> None:
    """Reproduces the published floors: only PUNCT removed, lower-cased counts of the training file."""
    train, test = (list(read_corpus(real_data(f"ud/en_ewt/{split}.conllu"))) for split in ("train", "test"))
    seen = Counter(word.lower() for sentence in train for word in sentence.words)
    assert len(test) == 2077
    result = floors(
        [np.array(sentence.heads) for sentence in test],
        [np.array(sentence.tags["upos"]) == "PUNCT" for sentence in test],
        [np.array([seen[word.lower()] for word in sentence.words]) for sentence in test],
    )
    expected = {
        ("next_word", "all"): (33.53, 43.05),
        ("next_word", "10"): (37.69, 50.62),
        ("previous_word", "all"): (10.26, 43.05),
        ("nearest_rarer", "all"): (35.43, 51.43),
        ("nearest_rarer", "10"): (40.55, 59.55),
        ("untrained_bias", "all"): (41.09, 58.15),
    }
    for (floor, length), (uas, uuas) in expected.items():
        scores = result[floor]["no_punct"][length]
        assert 100 * (scores["uas"] or 0) == pytest.approx(uas, abs=0.01)
        assert 100 * (scores["uuas"] or 0) == pytest.approx(uuas, abs=0.01)
    # A tree that treats all words alike gets one arc in n right: words/sentences is 9.3 % here.
    random = result["random_tree"]["no_punct"]["all"]
    assert 100 * (random["uas"] or 0) == pytest.approx(9.3, abs=0.2)
    assert 100 * (random["uuas"] or 0) == pytest.approx(15.6, abs=0.3)
