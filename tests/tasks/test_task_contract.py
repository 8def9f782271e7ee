"""What every kind of task keeps to: a row of ``tasks.TASKS`` is a row of these tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from made_tasks import CASES_OF, EVERY, Made, made, near, parts_of
from small_tasks import evaluation

from probtrans_cli import tasks
from probtrans_cli.tasks.base import Counts, by_sentence
from probtrans_cli.trained.evaluation import evaluate

CHARACTERS = {"tagging", "ner", "mlm", "cogs", "classification", "coordination"}


def test_every_kind_has_a_row() -> None:
    assert tasks.TASKS.keys() == CASES_OF.keys()


@EVERY
def test_terms_are_additive(kind: str, number: int) -> None:
    """Sums and counts of the parts add up to those of the whole, and weights are the same."""
    given = made(kind, number)
    cut = parts_of(given.split)
    whole, *parts = (given.task.training(given.batch(indices)) for indices in (np.concatenate(cut), *cut))
    of_whole, *of_parts = (given.task.terms(given.asked(batch), batch) for batch in (whole, *parts))
    assert of_whole
    for name, term in of_whole.items():
        sums, counts = ([float(getattr(one[name], field)) for one in of_parts] for field in ("sum", "count"))
        assert float(term.sum) == pytest.approx(sum(sums), rel=1e-5)
        assert float(term.count) == sum(counts) > 0
        assert {one[name].weight for one in of_parts} == {term.weight}
        assert np.isfinite(float(term.sum))
    assert all(one.keys() == of_whole.keys() for one in of_parts)


@EVERY
def test_counts_are_those_of_the_terms(kind: str, number: int) -> None:
    """In the same order, and known without the network."""
    given = made(kind, number)
    for indices in parts_of(given.split):
        batch = given.task.training(given.batch(indices))
        counts, terms = given.task.counts(batch), given.task.terms(given.asked(batch), batch)
        assert list(counts) == list(terms)
        assert {name: int(value) for name, value in counts.items()} == {
            name: int(term.count) for name, term in terms.items()
        }


@EVERY
def test_terms_have_gradients(kind: str, number: int) -> None:
    given = Made(kind, number)
    batch = given.task.training(given.batch(np.arange(len(given.split))))
    terms = given.task.terms(given.network(batch, given.task.wants(batch)), batch)
    for term in terms.values():
        assert not term.count.requires_grad
        gradients = torch.autograd.grad(
            term.sum, list(given.network.parameters()), retain_graph=True, materialize_grads=True
        )
        assert all(bool(one.isfinite().all()) for one in gradients)
        assert any(bool(one.any()) for one in gradients)


@EVERY
@pytest.mark.parametrize("final", [False, True])
def test_measured_counts_are_additive(kind: str, number: int, final: bool) -> None:
    given = made(kind, number)
    task, cut = given.task, parts_of(given.split)
    whole, added = Counts(), Counts()
    for draw in range((task.draws or 1) if final else 1):
        for counts, batches in ((whole, [np.concatenate(cut)]), (added, cut)):
            for indices in batches:
                batch = task.evaluation(given.batch(indices), draw)
                counts.add(task.measure(given.asked(batch), batch))
    assert whole.keys() == added.keys()
    assert near({key: float(value) for key, value in added.items()}, {key: float(whole[key]) for key in whole})
    scores = task.scores(whole, final=final)
    assert near(task.scores(added, final=final), scores)
    assert {task.section.metric, "loss"} <= scores.keys()
    assert np.isfinite(scores["loss"])


@EVERY
def test_scores_do_not_depend_on_the_batches(kind: str, number: int) -> None:
    given = made(kind, number)
    sizes = {"three": 3, "all": len(given.split)}
    found = {}
    for name, size in sizes.items():
        starts = range(0, len(given.split), size)
        how = evaluation()._replace(
            batches=lambda split, starts=starts, size=size: [np.arange(i, min(i + size, len(split))) for i in starts]
        )
        found[name] = evaluate(given.task, given.network, given.split, how, final=True)
    assert near(found["three"], found["all"])


@EVERY
def test_a_prediction_is_of_its_sentence_alone(kind: str, number: int) -> None:
    """One a sentence, in the order of the batch, whatever stands beside it."""
    given = made(kind, number)
    indices = np.arange(len(given.split))
    together = given.predictions(indices)
    assert len(together) == len(indices)
    alone = [given.predictions([index])[0] for index in indices]
    assert near(alone, together)
    order = np.random.default_rng(1).permutation(indices)
    assert near(given.predictions(order), [together[index] for index in order])


@EVERY
def test_predictions_do_not_read_gold_columns(kind: str, number: int) -> None:
    given = made(kind, number)
    indices = np.arange(len(given.split))
    assert given.predictions(indices, {}) == given.predictions(indices)


def probabilities_in(value: Any, name: str = "") -> list[float]:
    """All numbers below a key that speaks of probability."""
    if isinstance(value, Mapping):
        return [number for key, one in value.items() for number in probabilities_in(one, key)]
    if isinstance(value, list | tuple):
        return [number for one in value for number in probabilities_in(one, name)]
    return [value] if "probabilit" in name or name == "confidence" else []


@EVERY
def test_probabilities_are_such(kind: str, number: int) -> None:
    given = made(kind, number)
    batch = given.task.evaluation(given.batch(np.arange(len(given.split))), 0)
    found = probabilities_in(given.task.predict(given.asked(batch), batch))
    if kind not in ("openie", "coordination"):  # whose networks of no meaning may find nothing, see test_grid_tasks.py
        assert bool(found) == (kind not in ("cogs", "lm"))  # whose answers are forms, and surprisals
    assert all(0.0 <= one <= 1.0 for one in found)


@EVERY
def test_an_evaluation_s_batch_is_a_function_of_corpus_and_pass(kind: str, number: int) -> None:
    """Not of the generator, of batch mates, or of what was evaluated before."""
    given = made(kind, number)
    few = np.array([3, 1, 5])
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        seen.append(given.task.evaluation(given.batch(few), 0))
        given.task.evaluation(given.batch(few[:1]), 1)
    assert torch.equal(seen[0].ids, seen[1].ids)
    alone = given.task.evaluation(given.batch(few[1:2]), 0)
    n = alone.ids.shape[1]
    assert torch.equal(seen[0].ids[1, :n], alone.ids[0])


@pytest.mark.parametrize("kind", sorted(CHARACTERS))
def test_words_of_several_tokens(kind: str) -> None:
    """Terms, scores and predictions add up where words are characters, too."""
    given = Made(kind, 0, characters=True)
    assert given.split.has("first")
    cut = parts_of(given.split)
    whole, *parts = (given.task.training(given.batch(indices)) for indices in (np.concatenate(cut), *cut))
    of_whole, *of_parts = (given.task.terms(given.asked(batch), batch)["loss"] for batch in (whole, *parts))
    assert float(of_whole.sum) == pytest.approx(sum(float(one.sum) for one in of_parts), rel=1e-5)
    assert int(of_whole.count) == sum(int(one.count) for one in of_parts)
    indices = np.arange(len(given.split))
    together = given.predictions(indices)
    assert near([given.predictions([index])[0] for index in indices], together)
    if "tags" in together[0]:
        assert [len(one["tags"]) for one in together] == given.split.words.tolist()


def test_a_value_of_each_word_goes_to_its_sentence() -> None:
    given = made("tagging", 0)
    batch = given.batch([2, 0, 4])
    words = batch.split.words[batch.indices].tolist()
    values = [(b, i) for b, number in enumerate(words) for i in range(number)]
    found = [list(one) for one in by_sentence(values, batch)]
    assert found == [[(b, i) for i in range(number)] for b, number in enumerate(words)]
