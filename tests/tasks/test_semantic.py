"""COGS as a task: losses and exact scores against loops, parents by attention, and forms from labels."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from small_forms import BEYOND, LINES, PARENTS, ROWS, Parent
from small_tasks import batch_of, encode, evaluation, loss_of, random_network
from support import values_of
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.logical_forms import NONE, GraphLabels, logical_form
from probtrans_cli.data.readers.cogs import CASES, Example, read_cogs, read_semantic
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import PAD
from probtrans_cli.models.base import Outputs
from probtrans_cli.recipe.data import SubwordVocabulary, WordVocabulary
from probtrans_cli.recipe.task import LABELS_OF_COGS, SemanticParsing
from probtrans_cli.tasks.batch import UNLEARNED
from probtrans_cli.tasks.semantic import SemanticLabels, SemanticOutput
from probtrans_cli.trained.evaluation import evaluate

ByWords = tuple[str, ...]
BY_WORDS: list[ByWords] = [(), ("verb",), ("category",), ("category", "verb")]
"""Keys of the task that are `word`: what the word alone tells."""
WAYS = pytest.mark.parametrize(
    ("parent", "by_words"),
    [  # each way to say a parent with half of the groups of labels
        pytest.param(
            parent, by_words, marks=pytest.mark.exhaustive if (i + j) % 2 else (), id="-".join((parent, *by_words))
        )
        for i, parent in enumerate(PARENTS)
        for j, by_words in enumerate(BY_WORDS)
    ],
)


class Corpus:
    """The rows as train and, with a verb that train lacks, as dev."""

    def __init__(
        self,
        parent: Parent,
        *,
        by_words: ByWords = (),
        decode: str = "words",
        subwords: bool = False,
        model: dict[str, Any] | None = None,
    ) -> None:
        train = list(read_semantic(LINES, "train"))
        self.examples: list[Example] = list(read_cogs([*LINES, BEYOND], "dev"))
        words = SubwordVocabulary(kind="sentencepiece", size=40, algorithm="bpe") if subwords else WordVocabulary()
        self.vocabulary = build_vocabulary(words, (sentence.words for sentence in train))
        tags = {name: {tag for sentence in train for tag in sentence.tags[name]} for name in train[0].tags}
        self.labels = {name: sorted(values) for name, values in tags.items()}
        self.labels["case"] = list(CASES)
        self.train = self.encoded(train)
        self.dev = self.encoded(list(read_semantic([*LINES, BEYOND], "dev")))
        keys = {"kind": "cogs", "parent": parent, "decode": decode, **dict.fromkeys(by_words, "word")}
        section = SemanticParsing.model_validate(keys)
        self.task = SemanticLabels(section, self.vocabulary, self.labels)
        model = model or {"labels": 8, "channels": 2, "iterations": 2, "dropout": 0.0}
        self.network = random_network(3, self.vocabulary.size, model, self.task.output, 0.7)

    def encoded(self, sentences: list[Sentence]) -> Split:
        return Split.encode(sentences, self.vocabulary, self.labels)


def soft(scores: list[Tensor], chosen: int) -> float:
    return float(torch.stack(scores).logsumexp(0) - scores[chosen])


@torch.no_grad()
def by_loops(corpus: Corpus, split: Split, index: int) -> list[dict[str, tuple[list[Tensor], int]]]:
    """Of every word and column: the scores of all choices, and the gold one (-1: there is none)."""
    task, network = corpus.task, corpus.network
    output: Any = network.output
    ids = torch.from_numpy(split.row("ids", index).astype(np.int64))[None]
    n = int(split.words[index])
    first = split.row("first", index).tolist() if split.has("first") else range(n)
    states = [encode(network, ids, ids != PAD).states[0, i] for i in first]
    alone = [network.unary.weight[ids[0, i]] for i in first]
    of_words = []
    for i in range(n):
        of_word, start = {}, 0
        for column, names in task.names.items():
            rows = range(start, start + len(names))
            read = alone if column in task.section.alone else states
            scores = [output.labels.weight[row] @ read[i] + output.labels.bias[row] for row in rows]
            of_word[column] = (scores, int(split.row(column, index)[i]))
            start += len(names)
        if task.attention:
            child = output.child.weight @ states[i] / np.sqrt(len(states[i]))
            scores = [child @ output.none]
            others = [j for j in range(n) if j != i]
            scores += [child @ (output.parent.weight @ states[j]) for j in others]
            parent = int(split.row("parents", index)[i])
            of_word["parents"] = (scores, 0 if parent < 0 else 1 + others.index(parent))
        of_words.append(of_word)
    return of_words


@pytest.mark.parametrize("subwords", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["words", "pieces"])
@WAYS
def test_the_loss_is_that_of_a_plain_loop(parent: Parent, by_words: ByWords, subwords: bool) -> None:
    corpus = Corpus(parent, by_words=by_words, subwords=subwords)
    for indices in ([0, 3, 5], [2], range(len(ROWS))):
        words = [word for index in indices for word in by_loops(corpus, corpus.train, index)]
        wanted = sum(soft(*choice) for word in words for choice in word.values())
        total, number = loss_of(corpus.task, corpus.network, corpus.train, np.array(indices))
        assert float(total.detach()) == pytest.approx(wanted, rel=1e-5)
        assert int(number) == len(words)
        assert all(len(word) == 5 for word in words)


def role_beside(kind: int, scores: list[Tensor], corpus: Corpus) -> int:
    """Of a preposition its own role, of all other words the best one of the others."""
    names = corpus.labels["role"]
    if corpus.labels["kind"][kind] == "PREP":
        return names.index("PREP")
    return max((i for i, name in enumerate(names) if name != "PREP"), key=lambda i: float(scores[i]))


SMALL = {"kind": "transformer", "width": 8, "inner": 8, "heads": 2, "layers": 1}


@pytest.mark.parametrize("model", [None, pytest.param(SMALL, marks=pytest.mark.slow)])
@WAYS
def test_scores_are_those_of_a_plain_loop(parent: Parent, by_words: ByWords, model: dict[str, Any] | None) -> None:
    corpus = Corpus(parent, by_words=by_words, model=model)
    columns: dict[str, list[bool]] = defaultdict(list)
    cases: dict[str, list[bool]] = defaultdict(list)
    words: list[bool] = []
    losses: dict[str, list[float]] = defaultdict(list)
    for index, example in enumerate(corpus.examples):
        right = defaultdict(list)
        for word in by_loops(corpus, corpus.dev, index):
            best = {name: int(torch.stack(scores).argmax()) for name, (scores, _) in word.items()}
            if "category" in by_words:
                best["role"] = role_beside(best["kind"], word["role"][0], corpus)
            hits = {name: best[name] == gold for name, (_, gold) in word.items()}
            for name, (scores, gold) in word.items():
                losses[name] += [soft(scores, gold)] if gold >= 0 else []
            words.append(all(hits.values()))
            for name, hit in hits.items():
                right[name].append(hit)
        for name, values in right.items():
            columns[f"exact_{name}"].append(all(values))
        columns["exact"].append(all(all(values) for values in right.values()))
        case = example.distribution if example.distribution in CASES else "other"
        cases[case].append(columns["exact"][-1])
    assert len({len(values) for values in losses.values()}) > 1  # dev has a verb that train lacks
    for size in (7, 500):
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(size), final=True)
        for name, values in columns.items():
            assert scores[name] == pytest.approx(sum(values) / len(values)), name
        assert scores["labels"] == pytest.approx(sum(words) / len(words))
        assert scores["loss"] == pytest.approx(sum(map(np.mean, losses.values())), rel=1e-5)
        assert scores["cases"] == {name: sum(cases[name]) / len(cases[name]) for name in sorted(cases)}
        assert list(scores["cases"]) == sorted(scores["cases"])
    quick = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(), final=False)
    more = {"form", "cases", "exact_interval"}
    assert quick == pytest.approx({name: value for name, value in scores.items() if name not in more})


# --- a network that knows ---------------------------------------------------------------------------------------------

Labels = dict[str, list[int]]
"""Label ids of the words of a sentence by column; of ``parents`` the positions (-1: none)."""


def scores_of(corpus: Corpus, split: Split, labels: list[Labels]) -> dict[str, Any]:
    """The scores of a network that predicts these labels of a split."""
    task, batch = corpus.task, batch_of(corpus.task, split, range(len(split)))
    ids = {name: torch.tensor([id for sentence in labels for id in sentence[name]]) for name in labels[0]}
    hot = [functional.one_hot(ids[name], len(names)) for name, names in task.names.items()]
    scores = {"words": torch.cat(hot, dim=-1).float()}
    if task.attention:
        scores["parents"] = functional.one_hot(ids["parents"] + 1, batch.words.shape[1] + 1).float()
    return task.scores(task.measure(Outputs(scores=scores), batch), final=True)


def gold_labels(corpus: Corpus, split: Split) -> list[Labels]:
    names = [*corpus.task.names, "parents"]
    return [{name: split.row(name, index).tolist() for name in names} for index in range(len(split))]


@WAYS
def test_gold_labels_rebuild_every_form(parent: Parent, by_words: ByWords) -> None:
    corpus = Corpus(parent, by_words=by_words)
    scores = scores_of(corpus, corpus.train, gold_labels(corpus, corpus.train))
    assert scores["exact"] == scores["form"] == scores["labels"] == 1.0
    assert scores["cases"] == dict.fromkeys(sorted([*{row[2] for row in ROWS} - {"brand_new"}, "other"]), 1.0)


@pytest.mark.parametrize("parent", PARENTS)
def test_one_wrong_label_costs_its_sentence(parent: Parent) -> None:
    """And its form, which is that of the predicted labels."""
    corpus = Corpus(parent)
    for column in ("role", "category", "noun_type", "verb_name", "parents" if corpus.task.attention else ""):
        name = column or corpus.task.section.learned[-1]
        labels = gold_labels(corpus, corpus.train)
        size = len(corpus.task.names.get(name, [])) or 6
        labels[0][name][1] = (labels[0][name][1] + 1) % size
        scores = scores_of(corpus, corpus.train, labels)
        assert scores["exact"] == scores["form"] == scores[f"exact_{name}"] == pytest.approx(6 / 7)
        assert scores["labels"] == pytest.approx(30 / 31)
        assert scores["cases"]["in_distribution"] == 0.5
        right_columns = {f"exact_{column}" for column in labels[0]} - {f"exact_{name}"}
        others = [value for key, value in scores.items() if key in right_columns]
        assert others == [1.0] * 4


@pytest.mark.parametrize("decode", ["words", "sentence"])
def test_labels_of_a_sentence_mend_what_no_sentence_has(decode: str) -> None:
    """A noun of no role, and a second main verb; a sentence that other labels do not make better stays as it is."""
    corpus = Corpus("category", by_words=("category",), decode=decode)
    labels = gold_labels(corpus, corpus.train)
    labels[0]["role"][1] = corpus.labels["role"].index(NONE)
    labels[1]["role"][5] = labels[1]["by_category"][5] = corpus.labels["role"].index(NONE)
    assert corpus.labels["role"].index(NONE) == corpus.labels["by_category"].index(NONE)
    labels[4]["noun_type"][1] = corpus.labels["noun_type"].index("INDEF")
    scores = scores_of(corpus, corpus.train, labels)
    wrong = 1 if decode == "sentence" else 3
    assert scores["exact"] == scores["form"] == pytest.approx(1 - wrong / 7)
    assert scores["exact_role"] == pytest.approx(1.0 if decode == "sentence" else 5 / 7)


@WAYS
def test_an_analysis_is_read_back_from_its_labels(parent: Parent, by_words: ByWords) -> None:
    corpus = Corpus(parent, by_words=by_words)
    for labels, example in zip(gold_labels(corpus, corpus.train), corpus.examples, strict=False):
        ids = {name: np.array(labels[name]) for name in corpus.task.names}
        if corpus.task.attention:
            ids["parents"] = np.array(labels["parents"]) + 1
        analysis = corpus.task._analysis(ids)
        assert analysis == example.analysis
        assert logical_form(example.words, analysis) == example.form


@pytest.mark.parametrize(
    ("parent", "label"), [("relative", "+4"), ("absolute", "5"), ("relative", "-1"), ("category", "-1 VERB")]
)
def test_a_parent_outside_of_the_sentence_is_no_parent_at_all(parent: Parent, label: str) -> None:
    """Nor does it count from the other end."""
    corpus = Corpus(parent)
    column = corpus.task.section.learned[-1]
    assert {"+4", "-1"} <= set(corpus.labels["offset"])
    ids = {name: np.array([corpus.labels[name].index(NONE)] * 3) for name in LABELS_OF_COGS}
    ids[column] = np.array([corpus.labels[column].index(label), *[corpus.labels[column].index(NONE)] * 2])
    analysis: GraphLabels = corpus.task._analysis(ids)
    assert analysis.parents[0] not in range(-1, 3)
    assert analysis.parents[1:] == [-1, -1]
    assert logical_form(["Wim", "sank", "."], analysis) is None


def test_sentences_without_a_form_are_not_scored_by_it() -> None:
    corpus = Corpus("relative")
    record = {"tokens": ["a", "shelf", "Wim"], "parent": [-1] * 3, "role": [""] * 3, "category": ["", "", "PNOUN"]}
    record |= {"noun_type": [""] * 3, "verb_name": [""] * 3, "distribution": "primitive"}
    labelled = list(read_semantic([json.dumps(record)], "x.jsonl"))
    split = corpus.encoded([*read_semantic(LINES, "x"), *labelled])
    labels = gold_labels(corpus, split)
    labels[0]["role"][0] = corpus.labels["role"].index("agent")
    scores = scores_of(corpus, split, labels)
    assert scores["form"] == pytest.approx(6 / 7)
    assert scores["exact"] == pytest.approx(7 / 8)
    alone = corpus.encoded(labelled)
    scores = scores_of(corpus, alone, gold_labels(corpus, alone))
    assert "form" not in scores
    assert (scores["exact"], scores["cases"]) == (1.0, {"primitive": 1.0})


# --- parents by attention ---------------------------------------------------------------------------------------------


def test_parents_by_attention() -> None:
    torch.manual_seed(0)
    output, d = SemanticOutput(6, [4], attention=True).double(), 6
    assert output.child is not None
    assert output.parent is not None
    assert output.none is not None
    torch.nn.init.normal_(output.none)
    lengths = [4, 1, 3]
    states = torch.randn(3, 4, d, dtype=torch.float64)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    scores = output.parents(states, mask)
    assert scores.shape == (3, 4, 5)
    for b, n in enumerate(lengths):
        for i in range(n):
            child = output.child.weight @ states[b, i]
            torch.testing.assert_close(scores[b, i, 0], child @ output.none / d**0.5)
            for j in range(4):
                if j == i or j >= n:
                    assert scores[b, i, 1 + j] == -torch.inf
                else:
                    wanted = child @ (output.parent.weight @ states[b, j]) / d**0.5
                    torch.testing.assert_close(scores[b, i, 1 + j], wanted)
    scores[mask].softmax(-1).square().sum().backward()  # type: ignore[no-untyped-call]
    gradients = [weight.grad for weight in (output.child.weight, output.parent.weight, output.none)]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("parent", PARENTS)
def test_what_is_learned_is_what_is_asked_for(parent: Parent) -> None:
    corpus = Corpus(parent)
    total, _ = loss_of(corpus.task, corpus.network, corpus.train, np.arange(7))
    total.backward()  # type: ignore[no-untyped-call]
    gradients = {name: value.grad for name, value in corpus.network.output.named_parameters()}
    assert gradients.keys() == {"labels.weight", "labels.bias"} | (
        {"child.weight", "parent.weight", "none"} if parent == "attention" else set()
    )
    for gradient in gradients.values():
        assert gradient is not None
        assert gradient.isfinite().all()
        assert gradient.any()
    assert corpus.task.outputs == sum(len(corpus.labels[column]) for column in corpus.task.section.learned)
    assert UNLEARNED in values_of(corpus.dev, "verb_name")
