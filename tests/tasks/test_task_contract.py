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
from probtrans_cli.tasks.base import Counts, Task, by_sentence
from probtrans_cli.trained.evaluation import evaluate

CHARACTERS = {"tagging", "ner", "mlm", "cogs", "classification", "coordination"}


def test_every_kind_has_a_row() -> None:
    assert tasks.TASKS.keys() == CASES_OF.keys()


def test_a_task_has_few_members() -> None:
    """What a single task needs is its own, and what is data stands in its `Answers`."""
    members = {name for name in (*vars(Task), *Task.__annotations__) if not name.startswith("_")} | {"__init__"}
    assert len(members) <= 20


@EVERY
def test_terms_are_additive(kind: str, number: int) -> None:
    """Sums and counts of the parts add up to those of the whole, and weights are the same."""
    case = made(kind, number)
    cut = parts_of(case.split)
    whole, *parts = (case.task.training(case.batch(indices)) for indices in (np.concatenate(cut), *cut))
    of_whole, *of_parts = (case.task.terms(case.asked(batch), batch) for batch in (whole, *parts))
    assert of_whole
    for name, term in of_whole.items():
        sums, counts = ([float(getattr(terms[name], field)) for terms in of_parts] for field in ("sum", "count"))
        assert float(term.sum) == pytest.approx(sum(sums), rel=1e-5)
        assert float(term.count) == sum(counts) > 0
        assert {terms[name].weight for terms in of_parts} == {term.weight}
        assert np.isfinite(float(term.sum))
    assert all(terms.keys() == of_whole.keys() for terms in of_parts)


@EVERY
def test_counts_are_those_of_the_terms(kind: str, number: int) -> None:
    """In the same order, and known without the network."""
    case = made(kind, number)
    for indices in parts_of(case.split):
        batch = case.task.training(case.batch(indices))
        counts, terms = case.task.counts(batch), case.task.terms(case.asked(batch), batch)
        assert list(counts) == list(terms)
        assert {name: int(value) for name, value in counts.items()} == {
            name: int(term.count) for name, term in terms.items()
        }


@EVERY
def test_terms_have_gradients(kind: str, number: int) -> None:
    case = Made(kind, number)
    batch = case.task.training(case.batch(np.arange(len(case.split))))
    terms = case.task.terms(case.network(batch, case.task.wants(batch)), batch)
    for term in terms.values():
        assert not term.count.requires_grad
        gradients = torch.autograd.grad(
            term.sum, list(case.network.parameters()), retain_graph=True, materialize_grads=True
        )
        assert all(bool(gradient.isfinite().all()) for gradient in gradients)
        assert any(bool(gradient.any()) for gradient in gradients)


@EVERY
@pytest.mark.parametrize("final", [False, True])
def test_measured_counts_are_additive(kind: str, number: int, final: bool) -> None:
    case = made(kind, number)
    task, cut = case.task, parts_of(case.split)
    whole, added = Counts(), Counts()
    for draw in range((task.answers.draws or 1) if final else 1):
        for counts, batches in ((whole, [np.concatenate(cut)]), (added, cut)):
            for indices in batches:
                batch = task.evaluation(case.batch(indices), draw)
                counts.add(task.measure(case.asked(batch), batch))
    assert whole.keys() == added.keys()
    assert near({key: float(value) for key, value in added.items()}, {key: float(whole[key]) for key in whole})
    scores = task.scores(whole, final=final)
    assert near(task.scores(added, final=final), scores)
    assert {task.section.metric, "loss"} <= scores.keys()
    assert np.isfinite(scores["loss"])


@EVERY
def test_scores_do_not_depend_on_the_batches(kind: str, number: int) -> None:
    case = made(kind, number)
    sizes = {"three": 3, "all": len(case.split)}
    scores = {}
    for name, size in sizes.items():
        starts = range(0, len(case.split), size)
        how = evaluation()._replace(
            batches=lambda split, starts=starts, size=size: [np.arange(i, min(i + size, len(split))) for i in starts]
        )
        scores[name] = evaluate(case.task, case.network, case.split, how, final=True)
    assert near(scores["three"], scores["all"])


@EVERY
def test_a_prediction_is_of_its_sentence_alone(kind: str, number: int) -> None:
    """One a sentence, in the order of the batch, whatever stands beside it."""
    case = made(kind, number)
    indices = np.arange(len(case.split))
    together = case.predictions(indices)
    assert len(together) == len(indices)
    alone = [case.predictions([index])[0] for index in indices]
    assert near(alone, together)
    order = np.random.default_rng(1).permutation(indices)
    assert near(case.predictions(order), [together[index] for index in order])


@EVERY
def test_predictions_do_not_read_gold_columns(kind: str, number: int) -> None:
    case = made(kind, number)
    indices = np.arange(len(case.split))
    assert case.predictions(indices, {}) == case.predictions(indices)


def probabilities_in(value: Any, name: str = "") -> list[float]:
    """All numbers below a key that speaks of probability."""
    if isinstance(value, Mapping):
        return [number for key, item in value.items() for number in probabilities_in(item, key)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in probabilities_in(item, name)]
    return [value] if "probabilit" in name or name == "confidence" else []


@EVERY
def test_probabilities_are_such(kind: str, number: int) -> None:
    case = made(kind, number)
    batch = case.task.evaluation(case.batch(np.arange(len(case.split))), 0)
    probabilities = probabilities_in(case.task.predict(case.asked(batch), batch))
    if kind not in ("openie", "coordination"):  # whose networks of no meaning may find nothing, see test_grid_tasks.py
        assert bool(probabilities) == (kind not in ("cogs", "lm"))  # whose answers are forms, and surprisals
    assert all(0.0 <= p <= 1.0 for p in probabilities)


@EVERY
def test_an_evaluation_s_batch_is_a_function_of_corpus_and_pass(kind: str, number: int) -> None:
    """Not of the generator, of batch mates, or of what was evaluated before."""
    case = made(kind, number)
    few = np.array([3, 1, 5])
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        seen.append(case.task.evaluation(case.batch(few), 0))
        case.task.evaluation(case.batch(few[:1]), 1)
    assert torch.equal(seen[0].ids, seen[1].ids)
    alone = case.task.evaluation(case.batch(few[1:2]), 0)
    n = alone.ids.shape[1]
    assert torch.equal(seen[0].ids[1, :n], alone.ids[0])


@pytest.mark.parametrize("kind", sorted(CHARACTERS))
def test_words_of_several_tokens(kind: str) -> None:
    """Terms, scores and predictions add up where words are characters, too."""
    case = Made(kind, 0, characters=True)
    assert case.split.has("first")
    cut = parts_of(case.split)
    whole, *parts = (case.task.training(case.batch(indices)) for indices in (np.concatenate(cut), *cut))
    of_whole, *of_parts = (case.task.terms(case.asked(batch), batch)["loss"] for batch in (whole, *parts))
    assert float(of_whole.sum) == pytest.approx(sum(float(term.sum) for term in of_parts), rel=1e-5)
    assert int(of_whole.count) == sum(int(term.count) for term in of_parts)
    indices = np.arange(len(case.split))
    together = case.predictions(indices)
    assert near([case.predictions([index])[0] for index in indices], together)
    if "tags" in together[0]:
        assert [len(prediction["tags"]) for prediction in together] == case.split.words.tolist()


def test_a_value_of_each_word_goes_to_its_sentence() -> None:
    case = made("tagging", 0)
    batch = case.batch([2, 0, 4])
    words = batch.split.words[batch.indices].tolist()
    values = [(b, i) for b, number in enumerate(words) for i in range(number)]
    of_sentences = [list(of_sentence) for of_sentence in by_sentence(values, batch)]
    assert of_sentences == [[(b, i) for i in range(number)] for b, number in enumerate(words)]
