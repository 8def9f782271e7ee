"""A task with parts is the sum of its parts, by their names: `docs/extending.md` shows such a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from made_tasks import Made, near
from small_tasks import CPU

from probtrans_cli import models
from probtrans_cli.models.base import Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.task import Tagging
from probtrans_cli.tasks.base import Answers, Term, abstained
from probtrans_cli.tasks.batch import Batch, collate
from probtrans_cli.tasks.parts import Part, Parts
from probtrans_cli.tasks.tagging import WordTagging

COLUMNS = ("upos", "xpos")
WEIGHTS = {"upos": 1.0, "xpos": 0.25}


class TwoTags(Parts):
    answers = Answers(kind="two_tags", abstains={column: f"{column}_probability" for column in COLUMNS})

    def __init__(self, section: Any, vocabulary: Any, labels: Mapping[str, list[str]]) -> None:
        parts = {
            column: Part(
                WordTagging(Tagging(kind="tagging", column=column), vocabulary, labels),
                WEIGHTS[column],
                scores={"accuracy": column},
                answers={"tags": column, "tag_probability": f"{column}_probability"},
            )
            for column in COLUMNS
        }
        super().__init__(section, vocabulary, labels, parts)


class Corpus:
    """Two columns of tags, some of which train lacks, and the output layer of both."""

    def __init__(self) -> None:
        made = Made("tagging", 0)
        self.split = made.split
        self.task = TwoTags(made.task.section, made.vocabulary, made.labels)
        torch.manual_seed(0)
        encoder = models.build({"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0})
        self.network = Network(made.vocabulary.size, encoder, self.task.output).eval()

    def batch(self, indices: Any) -> Batch:
        batch = collate(self.split, np.asarray(indices), self.task.columns, padding=0, device=CPU)
        batch.gold["xpos"][0, 0] = -1  # a tag that train does not have
        return batch

    @torch.no_grad()
    def outputs(self, batch: Batch) -> Outputs:
        outputs: Outputs = self.network(batch, self.task.wants(batch))
        return outputs


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus()


def test_terms_are_those_of_each_part_alone(corpus: Corpus) -> None:
    """By loops over words, from the part's own linear layer."""
    batch = corpus.task.training(corpus.batch([0, 2, 3]))
    outputs = corpus.outputs(batch)
    terms: Mapping[str, Term] = corpus.task.terms(outputs, batch)
    assert list(terms) == list(corpus.task.counts(batch)) == list(COLUMNS)
    states = corpus.network(batch, Wants(states=True)).states
    assert states is not None
    for column, term in terms.items():
        layer = getattr(corpus.network.output, column)
        losses = [
            -layer(states[b, i]).log_softmax(-1)[batch.gold[column][b, i]]
            for b, i in batch.words.nonzero().tolist()
            if batch.gold[column][b, i] >= 0
        ]
        assert float(term.sum.detach()) == pytest.approx(float(torch.stack(losses).sum().detach()), rel=1e-5)
        assert (int(term.count), term.weight) == (len(losses), WEIGHTS[column])
    assert {name.split(".")[1] for name, _ in corpus.network.output.named_parameters(prefix="output")} == {*COLUMNS}


def test_scores_and_predictions_have_the_names_of_the_parts(corpus: Corpus) -> None:
    batch = corpus.task.evaluation(corpus.batch([0, 2, 3]), 0)
    outputs = corpus.outputs(batch)
    scores = corpus.task.scores(corpus.task.measure(outputs, batch), final=True)
    assert scores.keys() == {"loss", *COLUMNS}
    loss = 0.0
    for name, part in corpus.task.parts.items():
        own = corpus.task.outputs_of(name, outputs)
        of_part = part.task.scores(part.task.measure(own, batch), final=False)
        assert scores[name] == of_part["accuracy"]
        loss += part.weight * of_part["loss"]
        predictions = part.task.predict(own, batch)
        for of_task, prediction in zip(corpus.task.predict(outputs, batch), predictions, strict=True):
            assert near(of_task[name], prediction["tags"])
            assert near(of_task[f"{name}_probability"], prediction["tag_probability"])
    assert scores["loss"] == pytest.approx(loss)


def test_a_prediction_stands_where_its_parts_do(corpus: Corpus) -> None:
    prediction = {
        "upos": ["A", "B"],
        "upos_probability": [0.9, 0.2],
        "xpos": ["x", "y"],
        "xpos_probability": [0.3, 1.0],
    }
    places = corpus.task.places(prediction, probability=False)
    assert places.columns == {"upos": ["A", "B"], "xpos": ["x", "y"]}
    assert places.notes == [["A", "x"], ["B", "y"]]
    rest, left_out = abstained(prediction, corpus.task.answers.abstains, 0.5)
    assert (rest["upos"], rest["xpos"], left_out) == (["A", "_"], ["_", "y"], [False, True, True, False])


def test_a_part_has_its_own_scores_where_the_name_of_another_ends_in_its_name(corpus: Corpus) -> None:
    corpus.task.tasks["pos"] = corpus.task.tasks["upos"]
    try:
        outputs = Outputs(scores={name: torch.zeros(1) for name in ("pos", "pos.other", "upos", "upos.more")})
        assert corpus.task.outputs_of("pos", outputs).scores.keys() == {"words", "other"}
    finally:
        del corpus.task.tasks["pos"]


def test_a_part_that_wants_nothing_of_a_batch_is_left_out(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its term is there, with a count of 0, as an update has the same terms in all its batches."""
    batch = corpus.batch([0, 2])
    batch.gold["xpos"].clamp_(max=-1)
    monkeypatch.setattr(corpus.task.tasks["xpos"], "wants", lambda _: Wants())
    wants = corpus.task.wants(batch)
    assert wants.parts == {"upos"}
    outputs = corpus.outputs(batch)
    assert outputs.scores.keys() == {"upos"}
    terms = corpus.task.terms(outputs, batch)
    assert (float(terms["xpos"].sum), int(terms["xpos"].count)) == (0.0, 0)
    assert corpus.task.scores(corpus.task.measure(outputs, batch), final=False)["upos"] >= 0.0
