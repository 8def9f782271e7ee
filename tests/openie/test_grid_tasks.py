"""Open information extraction and coordinations: loss, penalties, and what is made of rows of labels."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from made_tasks import PROBABILISTIC, TRANSFORMER, Made
from small_tasks import CPU, batch_of, evaluation, loss_of
from torch.nn import functional

from probtrans_cli import models, tasks
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.models.base import Outputs
from probtrans_cli.models.network import Network
from probtrans_cli.openie.alignment import TupleWords, align
from probtrans_cli.openie.coordinations import UNBREAKABLE, Coordination, coordinations_to_rows
from probtrans_cli.openie.extractions import tuple_to_row
from probtrans_cli.openie.output import CONTENT, kinds_of, penalties
from probtrans_cli.recipe.data import WordVocabulary
from probtrans_cli.tasks.batch import collate
from probtrans_cli.trained.evaluation import evaluate

EXTRA = ["[unused1]", "[unused2]", "[unused3]"]
TUPLES: dict[str, list[tuple[str, str, str]]] = {
    "Rome is the capital of Italy and is known for its history .": [
        ("Rome", "is the capital of", "Italy"),
        ("Rome", "is known for", "its history"),
    ],
    "Ann , my aunt , sings .": [("Ann", "sings", ""), ("Ann", "[is]", "my aunt")],
    "French president Louis slept .": [("Louis", "[is] president [of]", "French"), ("Louis", "slept", "")],
    "Goats eat grass in May .": [("Goats", "eat", "grass in May")],
    "Nothing here .": [],
    "Bob bought a boat and sold a car .": [("Bob", "bought", "a boat"), ("Bob", "sold", "a car")],
    "She said that he left .": [("She", "said", "that he left"), ("he", "left", "")],
    "Rain fell .": [("Rain", "fell", "")],
}


def corpus() -> list[Sentence]:
    """The sentences above with their rows and extra words."""
    sentences = []
    for text, tuples in TUPLES.items():
        words = text.split()
        extractions = [align(words, TupleWords(*(part.split() for part in parts)))[0] for parts in tuples]
        rows = [tuple_to_row(each, len(words)) for each in extractions if each is not None]
        gold = [[relation.replace("[", "").replace("]", ""), arg1, arg2] for arg1, relation, arg2 in tuples]
        sentences.append(Sentence([*words, *EXTRA], grid=rows, form=json.dumps(gold), extra=3))
    return sentences


def set_up(kind: str, sentences: list[Sentence], model: dict[str, Any], **options: Any) -> tuple[Any, Network, Split]:
    """A task, a network and the encoded sentences."""
    vocabulary = build_vocabulary(WordVocabulary(), [sentence.words for sentence in sentences], sentences[0].extra)
    labels = {"extra_words": ["is", "of", "from"][: sentences[0].extra]}
    task = tasks.build(tasks.TASKS[kind].section.model_validate({"kind": kind, **options}), vocabulary, labels)
    torch.manual_seed(0)
    network = Network(vocabulary.size, models.build(model), task.output)
    return task, network, Split.encode(sentences, vocabulary, labels)


def certain(labels: list[list[list[int]]]) -> Outputs:
    """Scores of a network that is sure of these rows."""
    return Outputs(scores={"rows": 9.0 * functional.one_hot(torch.tensor(labels), 6).float()})


def learn(task: Any, network: Network, split: Split, steps: int, rate: float) -> float:
    """The last loss of a training on all sentences at once."""
    optimizer = torch.optim.Adam(network.train().parameters(), lr=rate)
    mean = math.inf
    for _ in range(steps):
        loss = loss_of(task, network, split, np.arange(len(split)))
        optimizer.zero_grad()
        (loss.total / loss.number).backward()
        optimizer.step()
        mean = float(loss.total.detach() / loss.number)
    network.eval()
    return mean


ENCODERS = [
    {"kind": "probabilistic", "labels": 32, "channels": 4, "iterations": 2, "dropout": 0.0},
    {**TRANSFORMER, "width": 32, "inner": 32, "layers": 3},
    {**TRANSFORMER, "width": 32, "inner": 32, "layers": 3, "share_layers": True},
]


@pytest.mark.parametrize(
    ("model", "source"),
    [
        (ENCODERS[1], "predicted"),
        pytest.param(ENCODERS[1], "scheduled", marks=pytest.mark.slow),
        pytest.param(ENCODERS[2], "gold", marks=pytest.mark.slow),
    ],
    ids=["predicted", "scheduled", "universal-gold"],
)
def test_a_few_sentences_are_learned_by_heart(model: dict[str, Any], source: str) -> None:
    task, network, split = set_up("openie", corpus(), model, rows=3, label_source=source, iterative_steps=1)
    loss = learn(task, network, split, 120, 0.015)
    assert loss < 0.05
    batch = collate(split, np.arange(len(split)), {}, padding=0, device=CPU)
    with torch.no_grad():
        predicted = task.predict(network(batch, task.wants(batch)), batch)
    for prediction, (text, tuples) in zip(predicted, TUPLES.items(), strict=True):
        plain = [(record["arg1"], record["rel"], record["arg2"]) for record in prediction["tuples"]]
        assert plain == [(arg1, rel.replace("[", "").replace("]", ""), arg2) for arg1, rel, arg2 in tuples], text
        assert all(0.5 < record["confidence"] <= 1.0 for record in prediction["tuples"])
    text = "French  president Louis slept."  # odd spacing
    located = task.located(predicted[2], Sentence(["French", "president", "Louis", "slept", "."], text=text))
    first = located["tuples"][0]
    assert (first["words"], first["added"]) == ({"arg1": [2], "rel": [1], "arg2": [0]}, ["is", "of"])
    for name, expected in (("arg1", "Louis"), ("rel", "president"), ("arg2", "French")):
        assert [text[start:end] for start, end in first["chars"][name]] == [expected]
    scores = evaluate(task, network, split, evaluation(), final=True)
    assert scores["f1"] == pytest.approx(1.0)
    assert scores["tuples"] == sum(map(len, TUPLES.values()))


def test_coordinations_are_learned_by_heart() -> None:
    sentences = []
    spans: dict[str, list[Coordination]] = {
        "I ate an apple and an orange .": [Coordination(4, ((2, 4), (5, 7)))],
        "Ann , Bob and Carl sing or dance": [
            Coordination(3, ((0, 1), (2, 3), (4, 5)), (1,)),
            Coordination(6, ((5, 6), (7, 8))),
        ],
        "Rain fell .": [],
    }  # fmt: skip
    for text, coordinations in spans.items():
        rows, _ = coordinations_to_rows(coordinations, len(text.split()))
        sentences.append(Sentence(text.split(), grid=rows))
    task, network, split = set_up("coordination", sentences, ENCODERS[1], rows=2, iterative_steps=1)
    assert learn(task, network, split, 150, 0.01) < 0.05
    batch = collate(split, np.arange(len(split)), {}, padding=0, device=CPU)
    with torch.no_grad():
        predicted = task.predict(network(batch, task.wants(batch)), batch)
    for prediction, of in zip(predicted, spans.values(), strict=True):
        read = {record["cc"]: [tuple(span) for span in record["conjuncts"]] for record in prediction["coordinations"]}
        assert read == {coordination.cc: list(coordination.conjuncts) for coordination in of}
    scores = evaluate(task, network, split, evaluation(), final=True)
    assert scores["exact"] == scores["whole"] == scores["inner"] == scores["outer"] == 1.0


@pytest.mark.parametrize("stored", [1, 2])
@pytest.mark.parametrize("with_form", [True, False])
def test_coordinations_beyond_the_rows_of_the_model_are_missed(stored: int, with_form: bool) -> None:
    """Gold is what the corpus has: a model of one row, and a corpus of one, do not make it less."""
    nested = [Coordination(1, ((0, 1), (2, 5))), Coordination(3, ((2, 3), (4, 5)))]
    grid, _ = coordinations_to_rows(nested, 5, rows=stored)
    form = json.dumps([[coordination.cc, coordination.conjuncts] for coordination in nested]) if with_form else None
    sentence = Sentence(["A", "and", "B", "or", "C"], grid=grid, form=form)
    task, _, split = set_up("coordination", [sentence], PROBABILISTIC, rows=1)
    counts = task.measure(certain([grid[:1]]), batch_of(task, split, [0]))
    scores = task.scores(counts, final=True)
    assert scores["precision_exact"] == 1.0
    assert scores["recall_exact"] == (1.0 if stored == 1 and not with_form else 0.5)


# --- the loss ---------------------------------------------------------------------------------------------------------


def test_the_loss_is_the_sum_of_the_rows_mean_cross_entropies() -> None:
    task, network, split = set_up("openie", corpus(), PROBABILISTIC, rows=3, none_weight=0.25)
    batch = task.training(batch_of(task, split, [0, 2]))
    with torch.no_grad():
        outputs = network.train()(batch, task.wants(batch))
    total = 0.0
    for row, sentence in enumerate((corpus()[0], corpus()[2])):
        chances = outputs.scores["rows"][row].log_softmax(-1)
        for m in range(3):
            for n in range(len(sentence.words)):
                label = sentence.grid[m][n] if sentence.grid is not None and m < len(sentence.grid) else 0
                total -= float(chances[m, n, label]) * (0.25 if label == 0 else 1.0)
    term = task.terms(outputs, batch)["loss"]
    assert float(term.sum) == pytest.approx(total, rel=1e-5)
    assert int(term.count) == len(corpus()[0].words) + len(corpus()[2].words)


def test_penalties_are_added_from_their_first_epoch_on() -> None:
    weights = {"posc": 1.0, "hvc": 2.0, "hve": 0.5, "ec": 3.0}
    task, network, split = set_up(
        "openie", corpus(), PROBABILISTIC, constraints=weights, constraint_start_epoch=2, tagger="x"
    )
    batch = batch_of(task, split, [0, 1])
    kinds = torch.zeros(batch.words.shape, dtype=torch.int64)  # 1: content words, 3: head verbs
    kinds[0, :4], kinds[1, :3] = torch.tensor([1, 3, 0, 1]), torch.tensor([1, 0, 3])
    batch = replace(batch, gold={**batch.gold, CONTENT: kinds})
    outputs = network(batch, task.wants(batch))
    early = replace(batch, epoch=1)
    assert {name: term.weight for name, term in task.terms(outputs, early).items()} == {
        "loss": 1.0,
        **dict.fromkeys(weights, 0.0),
    }
    terms = task.terms(outputs, replace(batch, done=0.5, epoch=2))
    assert {name: term.weight for name, term in terms.items()} == {"loss": 1.0, **weights}
    assert all(int(terms[name].count) == 2 for name in weights)
    expected = penalties(outputs.scores["rows"].softmax(-1), kinds > 0, kinds == 3)
    for name in weights:
        assert float(terms[name].sum.detach()) == pytest.approx(float(expected[name].detach().sum()))
        if float(terms[name].sum.detach()):  # through all rows
            (gradient,) = torch.autograd.grad(terms[name].sum, [network.output.merge.weight], retain_graph=True)
            assert bool(gradient.any())
    only, _, _ = set_up("openie", corpus(), PROBABILISTIC, constraints=weights, constraint_only=True, tagger="x")
    assert only.terms(outputs, batch)["loss"].weight == 0.0


GRID = torch.tensor(
    # Two rows, three words, labels NONE ARG1 REL ARG2 LOC TYPE; every row of numbers sums to 1.
    [[[0.1, 0.7, 0.2, 0.0, 0.0, 0.0], [0.2, 0.0, 0.8, 0.0, 0.0, 0.0], [0.5, 0.1, 0.0, 0.4, 0.0, 0.0]],
     [[0.6, 0.4, 0.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.9, 0.0, 0.0, 0.0], [0.3, 0.0, 0.6, 0.1, 0.0, 0.0]]]
)[None]  # fmt: skip


def test_penalties_by_hand() -> None:
    content = torch.tensor([[True, False, True]])
    verbs = torch.tensor([[False, True, True]])
    values = {name: float(value) for name, value in penalties(GRID, content, verbs).items()}
    assert values["posc"] == pytest.approx((1 - 0.7) + (1 - 0.6))
    assert values["hvc"] == pytest.approx(abs(1 - 1.7) + abs(1 - 0.6))
    assert values["hve"] == pytest.approx(max(0, 0.8 - 1) + max(0, 0.9 + 0.6 - 1))
    assert values["ec"] == pytest.approx(max(0, 2 - (0.8 + 0.9)))


def test_penalties_of_a_perfect_grid_are_zero_and_the_first_word_counts() -> None:
    labels = torch.tensor([[[1, 2, 3], [2, 0, 3]]])
    grid = functional.one_hot(labels, 6).double()
    all_, verbs = torch.ones(1, 3, dtype=torch.bool), torch.tensor([[True, True, False]])
    assert all(float(value) == 0.0 for value in penalties(grid, all_, verbs).values())
    nothing = functional.one_hot(torch.zeros(1, 2, 3, dtype=torch.int64), 6).double()
    first = torch.tensor([[True, False, False]])
    values = {name: float(value) for name, value in penalties(nothing, first, first).items()}
    assert values == {"posc": 1.0, "hvc": 1.0, "hve": 0.0, "ec": 1.0}


def test_light_verbs_are_no_head_verbs() -> None:
    words, upos = ["Ann", "Has", "eaten", "the", "red", "fish"], ["PROPN", "VERB", "VERB", "DET", "ADJ", "NOUN"]
    assert kinds_of(words, upos) == [1, 1, 3, 0, 1, 1]


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "expected"), [("mean", (0.7 * 0.8 * 0.9) ** (1 / 3)), ("min", 0.7), ("product", 0.7 * 0.8 * 0.9)]
)
def test_confidence(how: str, expected: float) -> None:
    task, _, split = set_up("openie", corpus(), PROBABILISTIC, rows=1, confidence=how)
    batch = collate(split, np.array([7]), {}, padding=0, device=CPU)  # Rain fell . and three extra words
    chances = torch.full((1, 1, 6, 6), 1e-9)
    for word, (label, chance) in enumerate([(1, 0.7), (2, 0.8), (3, 0.9), (0, 0.99), (0, 0.99), (0, 0.99)]):
        chances[0, 0, word] = (1 - chance) / 5
        chances[0, 0, word, label] = chance
    (prediction,) = task.predict(Outputs(scores={"rows": chances.log()}), batch)
    assert [record["confidence"] for record in prediction["tuples"]] == [pytest.approx(expected, rel=1e-5)]


@pytest.mark.parametrize(("kept", "second"), [(True, "grass in May"), (False, "grass")])
def test_places_and_times_may_be_left_out(kept: bool, second: str) -> None:
    task, _, split = set_up("openie", corpus(), PROBABILISTIC, rows=1, location_time=kept)
    (prediction,) = task.predict(certain([[[1, 2, 3, 4, 4, 0, 0, 0, 0]]]), batch_of(task, split, [3]))
    assert prediction["tuples"][0]["arg2"] == second


def test_which_words_keep_a_coordination_whole() -> None:
    words = ["Talks", "resumed", "BETWEEN", "France", "and", "China", "."]
    for options, sentences in (
        ({}, 0),
        ({"unbreakable": []}, 2),
        ({"unbreakable": ["Between"]}, 0),
        ({"unbreakable": ["total"]}, 2),
        ({"unbreakable_window": 0}, 2),
        ({"unbreakable_window": 1}, 0),
    ):
        task, _, _ = set_up("coordination", [Sentence(words, grid=[[0] * 7])], PROBABILISTIC, **options)
        prediction = {"coordinations": [{"cc": 4, "conjuncts": [[3, 4], [5, 6]], "level": 0}]}
        assert len(task.located(prediction, Sentence(words))["sentences"]) == sentences, options


def test_the_recipe_names_the_words_that_the_code_has() -> None:
    section = tasks.TASKS["coordination"].section.model_validate({"kind": "coordination"})
    assert section.splitting == {"unbreakable": UNBREAKABLE, "unbreakable_window": None}


def test_rows_end_at_the_first_one_without_argument_or_relation() -> None:
    task, _, split = set_up("openie", corpus(), PROBABILISTIC, rows=3)
    labels = [[1, 2, 0, 0, 0, 0], [1, 3, 0, 0, 0, 0], [1, 2, 3, 0, 0, 0]]
    (prediction,) = task.predict(certain([labels]), batch_of(task, split, [7]))
    assert [(record["arg1"], record["rel"], record["row"]) for record in prediction["tuples"]] == [("Rain", "fell", 0)]


def test_without_gold_the_network_may_stop_where_all_rows_have_ended() -> None:
    """It changes no answer, as no gold column does: see test_task_contract.py."""
    case = Made("openie", 0)
    assert not case.task.wants(case.batch([0, 1])).ends
    assert case.task.wants(case.batch([0, 1], {})).ends


def test_label_sources() -> None:
    for source in ("predicted", "gold", "scheduled"):
        task, _, split = set_up("openie", corpus(), PROBABILISTIC, rows=3, label_source=source)
        fed_back = []
        for done in (0.0, 0.5, 1.0):
            torch.manual_seed(0)
            batch = replace(batch_of(task, split, np.arange(len(split))), done=done)
            fed_back.append(task.wants(task.training(batch)).fed_back)
        gold = task._gold(batch_of(task, split, np.arange(len(split))))
        if source == "predicted":
            assert fed_back == [None] * 3
        elif source == "gold":
            assert all(torch.equal(rows, gold) for rows in fed_back)
        else:
            share = [float((rows >= 0).float().mean()) for rows in fed_back if rows is not None]
            assert share[0] == 1.0
            assert 0.2 < share[1] < 0.8
        assert task.wants(batch_of(task, split, [0])).fed_back is None


def test_a_decision_is_kept_with_the_weights() -> None:
    _, network, _ = set_up("openie", corpus(), PROBABILISTIC)
    assert 0.0 in network.output.decisions
    network.output.decide(-1.5)
    assert float(network.state_dict()["output.none_bias"]) == -1.5
    _, other, _ = set_up("openie", corpus(), PROBABILISTIC, decision_bias=-0.5)
    assert not other.output.decisions
    assert float(other.output.none_bias) == -0.5


def test_a_checkpoint_says_what_its_rows_are() -> None:
    _, network, _ = set_up("openie", corpus(), PROBABILISTIC, rows=3)
    network.output.decide(-0.5)
    grid = network.output.described()["grid"]
    assert grid["labels"] == ["NONE", "ARG1", "REL", "ARG2", "LOC/TIME", "TYPE"]
    assert (grid["rows"], grid["extra_words"], grid["none_bias"]) == (3, ["is", "of", "from"], -0.5)


def test_a_sentence_of_one_word_has_no_tuple() -> None:
    """Although the extra words could be a relation."""
    sentences = [Sentence([*text.split(), *EXTRA], grid=[], form="[]", extra=3) for text in ("Lee", "Lee ran")]
    task, _, split = set_up("openie", sentences, PROBABILISTIC, rows=2)
    batch, outputs = batch_of(task, split, [0, 1]), certain([[[1, 2, 0, 0, 0], [0] * 5]] * 2)
    alone, two = task.predict(outputs, batch)
    assert (alone["tuples"], alone["rows"]) == ([], [[0] * 4])
    assert [(record["arg1"], record["rel"]) for record in two["tuples"]] == [("Lee", "ran")]
    keys = [key for key in task.measure(outputs, batch) if isinstance(key, tuple) and key[0] == "found"]
    assert [key[1] for key in keys] == [1]
