"""COGS as a task: losses and exact scores against loops, parents by attention, forms from labels, and end to end."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from small_tasks import encode, evaluation, loss_of
from support import Invoke
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.data.codecs.logical_forms import NONE, GraphLabels, logical_form
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.cogs import CASES, Example, read_cogs, read_semantic
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import PAD
from probtrans_cli.models.base import Encoded, Inputs, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import View
from probtrans_cli.recipe.data import SubwordVocabulary, WordVocabulary
from probtrans_cli.recipe.task import LABELS_OF_COGS, SemanticParsing
from probtrans_cli.tasks.batch import UNLEARNED
from probtrans_cli.tasks.semantic import SemanticLabels, SemanticOutput
from probtrans_cli.trained.evaluation import evaluate

Parent = Literal["relative", "absolute", "attention"]
PARENTS: tuple[Parent, ...] = ("relative", "absolute", "attention")
ROWS = [
    ("An otter juggled the pebble .", "* pebble ( x _ 4 ) ; otter ( x _ 1 ) AND juggle . agent ( x _ 2 , x _ 1 )"
     " AND juggle . theme ( x _ 2 , x _ 4 )", "in_distribution"),
    ("Wim doubted that a kite sank .", "doubt . agent ( x _ 1 , Wim ) AND doubt . ccomp ( x _ 1 , x _ 5 ) AND"
     " kite ( x _ 4 ) AND sink . theme ( x _ 5 , x _ 4 )", "in_distribution"),
    ("otter", "LAMBDA a . otter ( a )", "primitive"),
    ("Wim", "Wim", "primitive"),
    ("The otter hesitated to yodel .", "* otter ( x _ 1 ) ; hesitate . agent ( x _ 2 , x _ 1 ) AND"
     " hesitate . xcomp ( x _ 2 , x _ 4 ) AND yodel . agent ( x _ 4 , x _ 1 )", "cp_recursion"),
    ("A kite on the shelf sank .", "* shelf ( x _ 4 ) ; kite ( x _ 1 ) AND kite . nmod . on ( x _ 1 , x _ 4 ) AND"
     " sink . theme ( x _ 5 , x _ 1 )", "obj_pp_to_subj_pp"),
    ("Wim sank .", "sink . theme ( x _ 1 , Wim )", "brand_new"),
]  # fmt: skip
LINES = ["\t".join(row) for row in ROWS]
NEW = "A walrus sank .\twalrus ( x _ 1 ) AND sink . theme ( x _ 2 , x _ 1 )\tx"
BEYOND = "Wim yawned .\tyawn . agent ( x _ 1 , Wim )\tprimitive"  # its verb is not in train


class Corpus:
    """The rows as train and, with a verb that train lacks, as dev."""

    def __init__(self, parent: Parent, *, subwords: bool = False, model: dict[str, Any] | None = None) -> None:
        train = list(read_semantic(LINES, "train"))
        self.examples: list[Example] = list(read_cogs([*LINES, BEYOND], "dev"))
        words = SubwordVocabulary(kind="sentencepiece", size=40, algorithm="bpe") if subwords else WordVocabulary()
        self.vocabulary = build_vocabulary(words, (one.words for one in train))
        self.labels = {name: sorted({tag for one in train for tag in one.tags[name]}) for name in train[0].tags}
        self.labels["case"] = list(CASES)
        self.train = self.encoded(train)
        self.dev = self.encoded(list(read_semantic([*LINES, BEYOND], "dev")))
        self.task = SemanticLabels(SemanticParsing(kind="cogs", parent=parent), self.vocabulary, self.labels)
        torch.manual_seed(3)
        section = model or {"labels": 8, "channels": 2, "iterations": 2, "dropout": 0.0}
        self.network = Network(self.vocabulary.size, models.build(section), self.task.output).double().eval()
        with torch.no_grad():
            for parameter in self.network.parameters():
                torch.nn.init.normal_(parameter, std=0.7)

    def encoded(self, given: list[Sentence]) -> Split:
        return Split.encode(given, self.vocabulary, self.labels)


def soft(scores: list[Tensor], chosen: int) -> float:
    """Minus the logarithm of the softmax."""
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
    found = []
    for i in range(n):
        of_word, start = {}, 0
        for column, names in task.names.items():
            rows = range(start, start + len(names))
            scores = [output.labels.weight[row] @ states[i] + output.labels.bias[row] for row in rows]
            of_word[column] = (scores, int(split.row(column, index)[i]))
            start += len(names)
        if task.attention:
            child = output.child.weight @ states[i] / np.sqrt(len(states[i]))
            scores = [child @ output.none]
            others = [j for j in range(n) if j != i]
            scores += [child @ (output.parent.weight @ states[j]) for j in others]
            parent = int(split.row("parents", index)[i])
            of_word["parents"] = (scores, 0 if parent < 0 else 1 + others.index(parent))
        found.append(of_word)
    return found


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("parent", PARENTS)
def test_the_loss_is_that_of_a_plain_loop(parent: Parent, subwords: bool) -> None:
    corpus = Corpus(parent, subwords=subwords)
    for indices in ([0, 3, 5], [2], range(len(ROWS))):
        words = [word for index in indices for word in by_loops(corpus, corpus.train, index)]
        wanted = sum(soft(*choice) for word in words for choice in word.values())
        total, number = loss_of(corpus.task, corpus.network, corpus.train, np.array(indices))
        assert float(total.detach()) == pytest.approx(wanted, rel=1e-5)
        assert int(number) == len(words)
        assert all(len(word) == 5 for word in words)


@pytest.mark.parametrize("model", [None, {"kind": "transformer", "width": 8, "inner": 8, "heads": 2, "layers": 1}])
@pytest.mark.parametrize("parent", PARENTS)
def test_scores_are_those_of_a_plain_loop(parent: Parent, model: dict[str, Any] | None) -> None:
    corpus = Corpus(parent, model=model)
    columns: dict[str, list[bool]] = defaultdict(list)
    cases: dict[str, list[bool]] = defaultdict(list)
    words: list[bool] = []
    losses: dict[str, list[float]] = defaultdict(list)
    for index, example in enumerate(corpus.examples):
        right = defaultdict(list)
        for word in by_loops(corpus, corpus.dev, index):
            hits = {name: int(torch.stack(scores).argmax()) == gold for name, (scores, gold) in word.items()}
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
        found = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(size), final=True)
        for name, values in columns.items():
            assert found[name] == pytest.approx(sum(values) / len(values)), name
        assert found["labels"] == pytest.approx(sum(words) / len(words))
        assert found["loss"] == pytest.approx(sum(map(np.mean, losses.values())), rel=1e-5)
        assert found["cases"] == {name: sum(cases[name]) / len(cases[name]) for name in sorted(cases)}
        assert list(found["cases"]) == sorted(found["cases"])
    quick = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(), final=False)
    more = {"form", "cases", "exact_interval"}
    assert quick == pytest.approx({name: value for name, value in found.items() if name not in more})


# --- a network that knows ---------------------------------------------------------------------------------------------


class Knowing(torch.nn.Module):
    """In place of a network: its states are numbers of words, and its output layer looks up what it was told.

    ``told[sentence][column]``: label ids of the words, or of ``parents`` the position (-1: none).
    """

    class Output(SemanticOutput):
        """Reads label ids off the states."""

        sizes: tuple[int, ...] = ()
        attention = False

        def read(self, view: View) -> dict[str, Tensor]:
            assert view.words is not None
            parents = {"parents": self.parents(view.encoded.states, view.words)[view.words]} if self.attention else {}
            return {"words": self(view.states), **parents}

        def forward(self, states: Tensor) -> Tensor:
            ids = states[:, : len(self.sizes)].long()
            hot = [torch.nn.functional.one_hot(ids[:, k], size) for k, size in enumerate(self.sizes)]
            return torch.cat(hot, dim=-1).float()

        def parents(self, states: Tensor, mask: Tensor) -> Tensor:
            return torch.nn.functional.one_hot((states[..., -1].long() + 1) * mask, states.shape[1] + 1).float()

    def __init__(self, split: Split, task: SemanticLabels, told: list[dict[str, list[int]]]) -> None:
        super().__init__()
        self.output = self.Output(1, 1, attention=False)
        self.output.attention = task.attention
        self.output.sizes = tuple(len(names) for names in task.names.values())
        self.states = {}
        for index, labels in enumerate(told):
            rows = [labels[column] for column in task.names] + [labels.get("parents", labels["role"])]
            self.states[tuple(split.row("ids", index).tolist())] = torch.tensor(rows, dtype=torch.float32).T

    def forward(self, inputs: Inputs, wants: Wants) -> Outputs:
        rows = [self.states[tuple(row[real].tolist())] for row, real in zip(inputs.ids, inputs.mask, strict=True)]
        encoded = Encoded(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
        return Outputs(
            scores=self.output.read(View(encoded, wants.words, wants.words, lambda: torch.zeros(0, 0), inputs))
        )


def gold_labels(corpus: Corpus, split: Split) -> list[dict[str, list[int]]]:
    names = [*corpus.task.names, "parents"]
    return [{name: split.row(name, index).tolist() for name in names} for index in range(len(split))]


@pytest.mark.parametrize("parent", PARENTS)
def test_gold_labels_rebuild_every_form(parent: Parent) -> None:
    corpus = Corpus(parent)
    network: Any = Knowing(corpus.train, corpus.task, gold_labels(corpus, corpus.train))
    found = evaluate(corpus.task, network, corpus.train, evaluation(13), final=True)
    assert found["exact"] == found["form"] == found["labels"] == 1.0
    assert found["cases"] == dict.fromkeys(sorted([*{row[2] for row in ROWS} - {"brand_new"}, "other"]), 1.0)


@pytest.mark.parametrize("parent", PARENTS)
def test_one_wrong_label_costs_its_sentence(parent: Parent) -> None:
    """And its form, which is that of the predicted labels."""
    corpus = Corpus(parent)
    for column in ("role", "category", "noun_type", "verb_name", "parents" if corpus.task.attention else ""):
        name = column or corpus.task.section.learned[-1]
        told = gold_labels(corpus, corpus.train)
        size = len(corpus.task.names.get(name, [])) or 6
        told[0][name][1] = (told[0][name][1] + 1) % size
        network: Any = Knowing(corpus.train, corpus.task, told)
        found = evaluate(corpus.task, network, corpus.train, evaluation(), final=True)
        assert found["exact"] == found["form"] == found[f"exact_{name}"] == pytest.approx(6 / 7)
        assert found["labels"] == pytest.approx(30 / 31)
        assert found["cases"]["in_distribution"] == 0.5
        told_rightly = {f"exact_{one}" for one in gold_labels(corpus, corpus.train)[0]} - {f"exact_{name}"}
        others = [value for key, value in found.items() if key in told_rightly]
        assert others == [1.0] * 4


@pytest.mark.parametrize("parent", PARENTS)
def test_an_analysis_is_read_back_from_its_labels(parent: Parent) -> None:
    corpus = Corpus(parent)
    for labels, example in zip(gold_labels(corpus, corpus.train), corpus.examples, strict=False):
        ids = {name: np.array(labels[name]) for name in corpus.task.names}
        if corpus.task.attention:
            ids["parents"] = np.array(labels["parents"]) + 1
        analysis = corpus.task._analysis(ids)
        assert analysis == example.analysis
        assert logical_form(example.words, analysis) == example.form


@pytest.mark.parametrize(("parent", "label"), [("relative", "+4"), ("absolute", "5"), ("relative", "-1")])
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
    told = gold_labels(corpus, split)
    told[0]["role"][0] = corpus.labels["role"].index("agent")
    network: Any = Knowing(split, corpus.task, told)
    found = evaluate(corpus.task, network, split, evaluation(), final=True)
    assert found["form"] == pytest.approx(6 / 7)
    assert found["exact"] == pytest.approx(7 / 8)
    alone: Any = Knowing(corpus.encoded(labelled), corpus.task, gold_labels(corpus, corpus.encoded(labelled)))
    found = evaluate(corpus.task, alone, corpus.encoded(labelled), evaluation(), final=True)
    assert "form" not in found
    assert (found["exact"], found["cases"]) == (1.0, {"primitive": 1.0})


# --- parents by attention ---------------------------------------------------------------------------------------------


def test_parents_by_attention() -> None:
    torch.manual_seed(0)
    output, d = SemanticOutput(6, 4, attention=True).double(), 6
    assert output.child is not None
    assert output.parent is not None
    assert output.none is not None
    torch.nn.init.normal_(output.none)
    lengths = [4, 1, 3]
    states = torch.randn(3, 4, d, dtype=torch.float64)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    found = output.parents(states, mask)
    assert found.shape == (3, 4, 5)
    for b, n in enumerate(lengths):
        for i in range(n):
            child = output.child.weight @ states[b, i]
            torch.testing.assert_close(found[b, i, 0], child @ output.none / d**0.5)
            for j in range(4):
                if j == i or j >= n:
                    assert found[b, i, 1 + j] == -torch.inf
                else:
                    wanted = child @ (output.parent.weight @ states[b, j]) / d**0.5
                    torch.testing.assert_close(found[b, i, 1 + j], wanted)
    found[mask].softmax(-1).square().sum().backward()  # type: ignore[no-untyped-call]
    assert all(bool(one.grad.isfinite().all()) for one in (output.child.weight, output.parent.weight, output.none))  # type: ignore[union-attr]


@pytest.mark.parametrize("parent", PARENTS)
def test_what_is_learned_is_what_is_asked_for(parent: Parent) -> None:
    corpus = Corpus(parent)
    total, _ = loss_of(corpus.task, corpus.network, corpus.train, np.arange(7))
    total.backward()  # type: ignore[no-untyped-call]
    gradients = {name: value.grad for name, value in corpus.network.output.named_parameters()}
    assert gradients.keys() == {"labels.weight", "labels.bias"} | (
        {"child.weight", "parent.weight", "none"} if parent == "attention" else set()
    )
    assert all(bool(one.isfinite().all()) and bool(one.any()) for one in gradients.values() if one is not None)
    assert corpus.task.outputs == sum(len(corpus.labels[column]) for column in corpus.task.section.learned)
    assert UNLEARNED in corpus.dev.column("verb_name")


# --- end to end -------------------------------------------------------------------------------------------------------

RECIPE = """\
name: forms
data: {train: train.tsv, dev: dev.tsv, test: gen.tsv, format: cogs}
task: {kind: cogs}
model: {labels: 6, channels: 2, iterations: 2}
optim: {lr: 0.05}
train: {steps: 2}
runtime: {device: cpu, threads: 1}
"""


def as_labels(lines: list[str]) -> str:
    """The same as JSON lines of labels."""
    text = ""
    for one in read_cogs(lines, "x"):
        labels = one.analysis
        record = {
            "tokens": one.words, "parent": labels.parents, "role": labels.role, "category": labels.category,
            "noun_type": labels.noun_type, "verb_name": labels.verb_name, "distribution": one.distribution,
        }  # fmt: skip
        text += json.dumps(record) + "\n"
    return text


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "r.yaml").write_text(RECIPE)
    for name, lines in (("train", LINES), ("dev", LINES[::2]), ("gen", [*LINES, BEYOND, NEW])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.jsonl").write_text(as_labels(lines))
    return tmp_path


COLUMN = {"relative": "offset", "absolute": "position", "attention": "parents"}


@pytest.mark.parametrize(
    ("parent", "overrides"),
    [
        ("relative", []),
        ("absolute", ["data.vocabulary={kind: sentencepiece, size: 40, algorithm: bpe}"]),
        ("attention", ["model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1}"]),
        ("relative", ["data={train: train.jsonl, dev: dev.jsonl, test: gen.jsonl, format: cogs}"]),
    ],
)
def test_train_and_eval(parent: Parent, overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", f"task.parent={parent}", *overrides, "--json")
    assert ran.code == 0, ran.err
    test = ran.json["test"]
    columns = [f"exact_{name}" for name in (*LABELS_OF_COGS, COLUMN[parent])]
    forms = [] if "jsonl" in str(overrides) else ["form"]
    assert test.keys() == {*forms, "exact", *columns, "labels", "loss", "exact_interval", "cases"}
    again = invoke("eval", "runs/forms", "--json", "--require", "exact_role>=0", "--require", "labels>=0")
    assert again.code == 0, again.err
    found = again.json["scores"]["test"]
    low, high = found.pop("exact_interval")
    assert [low, high] == pytest.approx(test.pop("exact_interval"))
    assert low <= test["exact"] <= high
    cases, stored = found.pop("cases"), test.pop("cases")
    assert cases == stored
    assert list(cases) == ["cp_recursion", "in_distribution", "obj_pp_to_subj_pp", "other", "primitive"]
    other = invoke("eval", "runs/forms", "dev.jsonl" if overrides and not forms else "dev.tsv")
    assert other.code == 0, other.err
    lines = other.out.splitlines()
    assert lines[1].count(" %") == lines[1].count(", ") + 1  # all but the loss, and once for the interval
    rows = [line.split() for line in lines if line.split() and line.split()[0] in (*CASES, "other")]
    assert [row[0] for row in rows] == ["cp_recursion", "in_distribution", "other", "primitive"]
    assert all(row[2] == "%" for row in rows)
    assert invoke("eval", "runs/forms", "--require", "exact>=1.5").code == 7


def test_corrected_and_original_rows_are_told_side_by_side(here: Path, invoke: Invoke) -> None:
    """`data.extra`: the same sentences, of one of which a role was another."""
    lines = as_labels(LINES).splitlines()
    record = json.loads(lines[0])
    record["role"] = ["theme" if role == "agent" else role for role in record["role"]]
    assert json.dumps(record) != lines[0]
    learn = ["train.steps=150", "data.extra=original.jsonl", "data.test=train.tsv"]
    learn += ["model={labels: 32, channels: 2, iterations: 2, dropout: 0.0, word_std: 1.0}", "optim.lr=0.02"]
    Path("original.jsonl").write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")
    ran = invoke("train", "r.yaml", *learn, "--seeds", "0,1", "--json")
    assert ran.code == 0, ran.err
    for one in ran.json["runs"]:
        assert one["test"]["exact"] - one["extra"]["exact"] == pytest.approx(1 / len(LINES))
    assert ran.json["extra"]["mean"]["exact"] < ran.json["mean"]["exact"]
    assert "form" not in ran.json["extra"]["mean"]
    shown = invoke("eval", "runs/forms-seed0", "--split", "extra", "--json")
    assert shown.json["scores"]["extra"] == ran.json["runs"][0]["extra"]
    table = invoke("table", "runs/forms-seed0", "runs/forms-seed1")
    assert "extra" in table.out.splitlines()[0]
    chosen = invoke("eval", "runs/forms-seed0", "--split", "extra", "--choose")
    assert "the test set chooses nothing" in chosen.err
    without = invoke("eval", "runs/forms-seed0", "--split", "dev")
    assert without.code == 0


def test_a_split_that_the_recipe_does_not_name(here: Path, invoke: Invoke) -> None:
    assert invoke("train", "r.yaml").code == 0
    ran = invoke("eval", "runs/forms", "--split", "extra")
    assert ran.code != 0
    assert "names no extra file" in ran.err


def test_labels_alone_train_what_forms_do(here: Path, invoke: Invoke) -> None:
    for ending in ("tsv", "jsonl"):
        files = f"data={{train: train.{ending}, dev: dev.{ending}, format: cogs, prepared: {ending}}}"
        assert invoke("prepare", "r.yaml", files).code == 0
    assert Path("tsv/labels.json").read_text() == Path("jsonl/labels.json").read_text()
    first, second = (Split.open(Path(ending) / "train.arrow") for ending in ("tsv", "jsonl"))
    for name in ("ids", "role", "category", "noun_type", "verb_name", "offset", "position", "parents", "case"):
        assert np.array_equal(first.column(name), second.column(name))
    assert [first.text("form", index) for index in range(7)] == [row[1] for row in ROWS]
    assert [first.text("spelling", index) for index in range(7)] == [row[0] for row in ROWS]
    assert not second.has("form")


@pytest.mark.parametrize(
    ("ending", "line", "message"),
    [
        ("tsv", "Wim sank .", "train.tsv:8: 1 column instead of 3"),
        ("tsv", "Wim sank .\tsink . theme ( x _ 7 , Wim )\tx", "train.tsv:8: "),
        ("tsv", "", "train.tsv:8: 1 column instead of 3"),
        ("jsonl", '{"tokens": []}', "train.jsonl:8: no key 'parent'"),
        ("jsonl", LINES[0], "train.jsonl:8: not JSON"),
    ],
)
def test_a_bad_line_is_named(ending: str, line: str, message: str, here: Path, invoke: Invoke) -> None:
    with (here / f"train.{ending}").open("a") as file:
        file.write(line + "\n")
    ran = invoke("prepare", "r.yaml", f"data.train=train.{ending}", "--check")
    assert ran.code == 3
    assert message in ran.err


def test_prepare_shows_what_there_is(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "--check")
    assert ran.code == 0, ran.err
    assert "case  4 labels: in_distribution 2, primitive 2, cp_recursion 1, obj_pp_to_subj_pp 1\n" in ran.out
    assert "verb_name  6 labels: none 24, sink 3, " in ran.out


def test_an_empty_file_holds_no_sentence(here: Path, invoke: Invoke) -> None:
    (here / "train.tsv").write_text("")
    ran = invoke("train", "r.yaml")
    assert ran.code == 3
    assert "train.tsv: no sentence in it" in ran.err
