"""Sentence classification against plain loops, and end to end from tables and JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import evaluation, loss_of, random_network, sentence_scores
from support import Invoke, refused
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import PAD, UNKNOWN
from probtrans_cli.recipe.data import SubwordVocabulary, WordVocabulary
from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer
from probtrans_cli.recipe.task import Classification
from probtrans_cli.reports.scores import flattened
from probtrans_cli.tasks.base import UNSEEN
from probtrans_cli.tasks.classification import SentenceClassification
from probtrans_cli.trained.evaluation import evaluate

TEXTS = [
    ("a fine old boat", "good"), ("dull", "bad"), ("the boat sank and nobody minded", "bad"), ("it is", "so so"),
    ("fine", "good"), ("a dull boat is a dull boat", "bad"), ("old and fine and old", "good"), ("nobody sank", "so so"),
]  # fmt: skip
SECTIONS: dict[str, Any] = {
    "root": ProbabilisticTransformer(labels=6, channels=2, iterations=2, dropout=0.0, root={"labels": 3}),
    "cls": ProbabilisticTransformer(labels=6, channels=2, iterations=2, dropout=0.0),
    "mean": Transformer(kind="transformer", width=8, inner=12, heads=2, layers=2, dropout=0.0),
    "pooler": Transformer(kind="transformer", width=8, inner=12, heads=2, layers=2, dropout=0.0, pooler=True),
}


class Corpus:
    """A vocabulary, the task, its network and a dev set; one of its labels is not in train."""

    def __init__(self, name: str, *, subwords: bool = False, **options: Any) -> None:
        train = [Sentence(text.split(), labels={"label": label}) for text, label in TEXTS]
        dev = [Sentence(["unheard-of", *sentence.words[::-1]], labels=sentence.labels) for sentence in train[:5]]
        dev += [Sentence(["boat"], labels={"label": "unseen"}), Sentence(["fine"], labels={"label": "good"})]
        words = SubwordVocabulary(kind="sentencepiece", size=40, algorithm="bpe") if subwords else WordVocabulary()
        self.vocabulary = build_vocabulary(words, (sentence.words for sentence in train))
        labels = {"label": ["bad", "good", "so so"]}
        self.train, self.dev = (Split.encode(split, self.vocabulary, labels) for split in (train, dev))
        options = options if name != "mean" else options | {"representation": "mean"}
        section = Classification(kind="classification", **options)
        self.task = SentenceClassification(section, self.vocabulary, labels)
        self.network = random_network(2, self.vocabulary.size, SECTIONS[name], self.task.output, 0.6)

    @torch.no_grad()
    def log_probabilities(self, split: Split, index: int) -> torch.Tensor:
        ids = torch.from_numpy(split.row("ids", index).astype(np.int64))[None]
        return functional.log_softmax(sentence_scores(self.network, ids, ids != PAD)[0].float(), -1)


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("name", SECTIONS)
def test_scores_are_those_of_a_plain_loop(name: str, subwords: bool) -> None:
    corpus = Corpus(name, subwords=subwords)
    right, losses, confused = [], [], Counter[tuple[str, str]]()
    for index in range(len(corpus.dev)):
        log_p, gold = corpus.log_probabilities(corpus.dev, index), int(corpus.dev.row("label", index)[0])
        right.append(int(log_p.argmax()) == gold)  # -1, a label that train does not have, is never guessed
        names = [*corpus.task.names, UNSEEN]
        confused[names[gold], names[int(log_p.argmax())]] += 1
        losses += [-float(log_p[gold])] if gold >= 0 else []
    assert [int(corpus.dev.row("label", index)[0]) for index in range(7)].count(-1) == 1
    for words in (6, 500):
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(words), final=True)
        low, high = scores.pop("accuracy_interval")
        assert 0 <= low < sum(right) / 7 < high <= 1
        counted = {(gold, best): n for gold, row in scores.pop("confusions").items() for best, n in row.items()}
        assert counted == confused
        assert scores == {"accuracy": sum(right) / 7, "loss": pytest.approx(np.mean(losses), rel=1e-5)}
    unseen = corpus.dev.select(np.array([5]))
    scores = evaluate(corpus.task, corpus.network, unseen, evaluation(), final=True)
    assert (scores["accuracy"], scores["loss"], scores["accuracy_interval"]) == (0.0, None, None)
    assert list(scores["confusions"]) == [UNSEEN]
    assert evaluate(corpus.task, corpus.network, unseen, evaluation(), final=False) == {"accuracy": 0.0, "loss": None}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_loss_is_that_of_a_plain_loop(name: str) -> None:
    corpus = Corpus(name)
    indices = np.array([3, 0, 4])
    wanted = sum(
        -float(corpus.log_probabilities(corpus.train, i)[int(corpus.train.row("label", i)[0])]) for i in indices
    )
    total, number = loss_of(corpus.task, corpus.network, corpus.train, indices)
    assert float(total.detach()) == pytest.approx(wanted, rel=1e-5)
    assert int(number) == 3


def test_word_dropout_reads_the_unknown_word() -> None:
    corpus = Corpus("cls", word_dropout=1e9)
    total, _ = loss_of(corpus.task, corpus.network, corpus.train, [2])
    unknown = torch.full((1, 6), UNKNOWN)
    scores = sentence_scores(corpus.network, unknown, unknown != PAD).float()
    assert float(total.detach()) == pytest.approx(float(functional.cross_entropy(scores, torch.tensor([0])).detach()))


@pytest.mark.parametrize(
    ("name", "options", "sentence", "width"),
    [
        ("root", {}, "root", 3),
        ("root", {"representation": "cls"}, "cls", 6),  # the state of the start, although there is a root
        ("cls", {}, "cls", 6),
        ("pooler", {}, "cls", 8),
    ],
)
def test_what_stands_for_a_sentence(name: str, options: dict[str, str], sentence: str, width: int) -> None:
    corpus = Corpus(name, **options)
    assert corpus.network.sentence == sentence
    assert corpus.network.output.in_features == width
    assert len(corpus.log_probabilities(corpus.train, 0)) == 3


# --- end to end -------------------------------------------------------------------------------------------------------

RECIPE = """\
name: sorted
data: {train: train.tsv, dev: dev.tsv, test: test.tsv, format: table}
task: {kind: classification}
model: {labels: 6, channels: 2, iterations: 2, root: {}}
optim: {lr: 0.05}
train: {steps: 2}
runtime: {device: cpu, threads: 1}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "r.yaml").write_text(RECIPE)
    for split in ("train", "dev", "test"):
        blank = "\n" * (split != "train")  # a copy of train's file is told
        (tmp_path / f"{split}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in TEXTS) + blank)
        lines = [json.dumps({"words": text.split(), "class": label}) for text, label in TEXTS]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "other.tsv").write_text("the new boat\tgood\nodd\tnever seen\n\n")
    return tmp_path


JSONL = "data={train: train.jsonl, dev: dev.jsonl, test: test.jsonl, format: jsonl, jsonl: {text: words, label: class}}"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        [JSONL],
        ["model.root=null"],
        ["task.representation=mean"],
        ["model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1, pooler: true}"],
        ["data.vocabulary={kind: sentencepiece, size: 40, algorithm: bpe}"],
    ],
    ids=["table", "jsonl", "cls", "mean", "transformer", "pieces"],
)  # fmt: skip
def test_train_eval_and_parse(overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", *overrides, "--json")
    assert ran.code == 0, ran.err
    test = ran.json["test"]
    assert test.keys() == {"accuracy", "loss", "accuracy_interval", "confusions"}
    again = invoke("eval", "runs/sorted", "--json", "--require", "accuracy>=0")
    assert again.code == 0, again.err
    assert flattened(again.json["scores"]["test"]) == pytest.approx(flattened(test))
    if JSONL not in overrides:
        other = invoke("eval", "runs/sorted", "other.tsv")
        assert other.code == 0, other.err
        assert "accuracy" in other.out
        assert " %" in other.out
    (here / "text.txt").write_text("a fine boat sank\nfine\n\n")
    drawn = invoke("parse", "runs/sorted", "text.txt", "-f", "conllu")
    assert drawn.code == 0, drawn.err
    heads = [
        [int(line.split("\t")[6]) for line in block.splitlines() if line[:1].isdigit()]
        for block in drawn.out.split("\n\n")
    ]
    assert [len(of_sentence) for of_sentence in heads if of_sentence] == [4, 1]
    assert all(of_sentence.count(0) == 1 for of_sentence in heads if of_sentence)


def test_prepare_counts_the_labels(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "--check")
    assert ran.code == 0, ran.err
    assert "label: 3 labels: bad 3, good 3, so so 2" in ran.out
    assert not (here / "prepared").exists()


HEADED = "label text\r\n" + "".join(f"{label.split()[0]} {text}\r\n" for text, label in TEXTS)
NUMBERED = "".join(f"{text}\t{label}\t%s{i}\n" for i, (text, label) in enumerate(TEXTS))


@pytest.mark.parametrize(
    ("text", "overrides", "labels"),
    [
        (HEADED, ["data.table={text: 1, label: 0, separator: ' ', header: true}"], "3 labels: bad 3, good 3, so 2"),
        (NUMBERED, ["data.table.columns=3"], "3 labels: bad 3, good 3, so so 2"),
    ],
    ids=["header", "columns"],
)
def test_other_tables_that_are_read(text: str, overrides: list[str], labels: str, here: Path, invoke: Invoke) -> None:
    for split in ("train", "dev", "test"):
        (here / f"{split}.tsv").write_text(text.replace("%s", split))
    ran = invoke("prepare", "r.yaml", *overrides, "--check")
    assert ran.code == 0, ran.err
    assert f"label: {labels}" in ran.out


def test_a_label_may_be_an_underscore(here: Path, invoke: Invoke) -> None:
    """The absence of one in CoNLL-U, where it is a word's."""
    for split in ("train", "dev", "test"):
        (here / f"{split}.tsv").write_text("a boat\t_\nfine\tx\n")
    ran = invoke("train", "r.yaml", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(Path("runs/sorted/checkpoints/best/labels.json").read_text()) == {"label": ["_", "x"]}


@pytest.mark.parametrize(
    ("ending", "line", "message"),
    [
        ("tsv", "no label", "train.tsv:9: 1 of 2 columns"),
        ("tsv", "empty label\t ", "train.tsv:9: a sentence without a label"),
        ("tsv", "\tgood", "train.tsv:9: a label without a sentence"),
        ("jsonl", "{", "train.jsonl:9: not JSON"),
        ("jsonl", "[" * 100_000, "train.jsonl:9: not JSON"),
        ("jsonl", "[1]", "train.jsonl:9: not a JSON object"),
        ("jsonl", '{"words": "a b"}', "train.jsonl:9: no key 'class'"),
        ("jsonl", '{"class": "x"}', "train.jsonl:9: no key 'words'"),
        ("jsonl", '{"words": 3, "class": "x"}', "train.jsonl:9: words is neither text nor a list of words"),
        ("jsonl", '{"words": ["a", " "], "class": "x"}', "train.jsonl:9: words is neither text nor a list of words"),
        ("jsonl", '{"words": [], "class": "x"}', "train.jsonl:9: a label without a sentence"),
        ("jsonl", '{"words": "a", "class": " "}', "train.jsonl:9: a sentence without a label"),
        ("jsonl", '{"words": "a", "class": 0.5}', "train.jsonl:9: class is no label"),
        ("jsonl", '{"words": "a", "class": null}', "train.jsonl:9: class is no label"),
        ("jsonl", '{"words": "\\ud800", "class": "x"}', "train.jsonl:9: an escape of half a character"),
    ],
    ids=range(15),
)
def test_a_bad_line_is_named(ending: str, line: str, message: str, here: Path, invoke: Invoke) -> None:
    with (here / f"train.{ending}").open("a") as file:
        file.write(line + "\n")
    refused(invoke("prepare", "r.yaml", *([JSONL] if ending == "jsonl" else [])), 3, message)


def test_numbers_and_truth_values_are_labels(here: Path, invoke: Invoke) -> None:
    lines = [
        '{"words": "a b", "class": 1}',
        '{"words": "b", "class": true}',
        '{"words": "\\ud83d\\ude00", "class": " y "}',
    ]
    for split in ("train", "dev", "test"):
        (here / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    assert invoke("prepare", "r.yaml", JSONL, "data.prepared=p").code == 0
    assert json.loads(Path("p/labels.json").read_text()) == {"label": ["1", "true", "y"]}


def test_labels_that_train_lacks_are_told_of(here: Path, invoke: Invoke) -> None:
    (here / "new.tsv").write_text(
        "the new boat\tgood\nodd\t7\na boat\t7\n" + "".join(f"x\t{i}\n" for i in range(10, 15))
    )
    counted = "7 of 8 labels in column label are not in train: counted as wrong, left out of the loss"
    warning = f"warning: data.extra: {counted}: 7 (2), 10 (1), 11 (1), 12 (1), 13 (1), and 1 more\n"
    for state in ("prepared", "up to date"):
        ran = invoke("prepare", "r.yaml", "data.extra=new.tsv")
        assert (ran.code, ran.err) == (0, warning)
        assert state in ran.out
    ran = invoke("train", "r.yaml", "data.extra=new.tsv", "data.dev=null")
    assert ran.code == 0, ran.err
    assert ran.err.count(warning) == 2
    assert ran.err.splitlines()[-1] + "\n" == warning, "beside the scores"
    assert "data.test" not in ran.err
    ran = invoke("eval", "runs/sorted", "new.tsv", "--require", "loss>=0")
    assert (ran.code, ran.err) == (
        0,
        warning.replace("data.extra", "new.tsv").replace("1 more", "1 more; first in new.tsv:2"),
    )
    (here / "none.tsv").write_text("a boat\t7\n")
    for bound in ("loss<=0.01", "loss >= 0"):
        ran = invoke("eval", "runs/sorted", "none.tsv", "--require", bound)
        assert ran.code == 7
        assert f"required {bound}, but loss is null" in ran.err
        assert "1 of 1 labels in column label is not in train" in ran.err
        assert ran.out.endswith("none.tsv: accuracy 0.00 %\n")
    assert invoke("eval", "runs/sorted", "none.tsv", "--json").json["scores"]["none.tsv"]["loss"] is None


def test_dev_may_have_none_of_the_labels_of_train(here: Path, invoke: Invoke) -> None:
    (here / "dev.tsv").write_text("a boat\t7\nfine\t7\n")
    ran = invoke("train", "r.yaml", "train={epochs: 3}", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["dev"]["accuracy"], ran.json["dev"]["loss"]) == (0.0, None)
    assert ran.json["test"]["loss"] > 0
    assert ran.err.count("dev accuracy 0") == 3


def test_a_header_that_is_not_declared_is_told_of(here: Path, invoke: Invoke) -> None:
    for split in ("train", "dev"):
        path = here / f"{split}.tsv"
        path.write_text("text\tlabel\n" + path.read_text())
    warning = "warning: train.tsv:1, dev.tsv:1: no other row has the label 'label'"
    warning += ": if it is the name of a column, set data.table.header=true\n"
    for state in ("prepared", "up to date"):
        ran = invoke("prepare", "r.yaml", "data.test=null")
        assert (ran.code, ran.err) == (0, warning)
        assert state in ran.out
    assert invoke("prepare", "r.yaml", "data.test=null", "data.table.header=true").err == ""
    assert invoke("train", "r.yaml", "data={train: test.tsv, dev: null, test: null, format: table}").code == 0
    ran = invoke("eval", "runs/sorted", "dev.tsv")
    assert ran.err.startswith("warning: dev.tsv:1: no other row has the label 'label'")
    (here / "rare.tsv").write_text("a fine boat\tso so\nfine\tgood\n")
    assert invoke("eval", "runs/sorted", "rare.tsv").err == ""


def test_a_table_of_more_columns_must_be_said(here: Path, invoke: Invoke) -> None:
    (here / "train.tsv").write_text(NUMBERED)
    refused(invoke("prepare", "r.yaml"), 3, "train.tsv:1: the label", "data.table.columns=3")


def test_quoted_columns_in_all_verbs(here: Path, invoke: Invoke) -> None:
    for split in ("train", "dev", "test"):
        (here / f"{split}.csv").write_text("".join(f'"{text}, or\nnot",{label}\r\n' for text, label in TEXTS))
    data = "data={train: train.csv, dev: dev.csv, test: test.csv, format: table, table: {separator: ','}}"
    ran = invoke("train", "r.yaml", data, "--json")
    assert (ran.code, ran.json["test"].keys() >= {"accuracy"}) == (0, True), ran.err
    assert invoke("eval", "runs/sorted", "test.csv").code == 0
    assert invoke("eval", "runs/sorted", "--predictions", "out.tsv").code == 0
    assert Path("out.tsv").read_text().split("\t")[0] == f"{TEXTS[0][0]}, or not"
    with (here / "test.csv").open("a") as file:
        file.write('"fine, good\nfine,good\n')
    message = f"test.csv:{2 * len(TEXTS) + 1}: not CSV: a quote that is not closed"
    refused(invoke("eval", "runs/sorted", "test.csv"), 3, message)


def test_labels_that_are_all_the_same_are_told_of(here: Path, invoke: Invoke) -> None:
    (here / "train.tsv").write_text("a boat\tgood\nfine\tgood\n")
    ran = invoke("train", "r.yaml", "data.dev=null", "data.test=null")
    assert ran.code == 0, ran.err
    assert "warning: data.train: all labels are the same (label good): there is nothing to learn\n" in ran.err


TRANSFORMER = "model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1}"


@pytest.mark.parametrize(
    ("overrides", "key", "message"),
    [
        (["data.format=auto"], "data.format", "found auto: `kind: classification` reads table, jsonl"),
        (["data.format=cogs"], "data.format", "found cogs: `kind: classification` reads table, jsonl"),
        (["task={kind: ner}"], "data.format", "found table: `kind: ner` reads columns"),
        (["task={kind: cogs}"], "data.format", "found table: `kind: cogs` reads cogs"),
        (["task={kind: tagging}"], "data.format", "found table: `kind: tagging` reads auto, conllu, treebank, columns"),
        (["task={kind: tagging}", "data.format=text"], "data.format", "plain text has no tags"),
        (["data.jsonl.text=words"], "data.jsonl", "for `data.format: jsonl` only: leave it out"),
        (["data.columns.word=1"], "data.columns", "for `data.format: columns` only: leave it out"),
        (["data.format=jsonl", "data.table.header=true"], "data.table", "for `data.format: table` only: leave it out"),
        (["data.table.label=0"], "data.table.label", "found 0, as for the text"),
        (["data.format=jsonl", "data.jsonl.label=null"], "data.jsonl.label", "found null, but `kind: classification`"),
        (["data.format=jsonl", "data.jsonl.text=label"], "data.jsonl.label", "found label, as for the text"),
        (["task={kind: ner}", "data.format=columns"], "data.columns.entities", "`kind: ner` learns entities"),
        (["task.representation=root", "model.root=null"], "task.representation", "the model has no root node"),
        (["task.representation=root", TRANSFORMER], "task.representation", "the model has no root node"),
    ],
)  # fmt: skip
def test_tasks_and_files_that_do_not_go_together(
    overrides: list[str], key: str, message: str, here: Path, invoke: Invoke
) -> None:
    ran = invoke("train", "r.yaml", *overrides, "--print")
    assert ran.code == 2
    assert f"{key}: {message}" in ran.err.replace("\n", " "), ran.err


def test_a_sentence_longer_than_the_positions(here: Path, invoke: Invoke) -> None:
    """The longest one has 7 words; `<cls>` takes a position."""
    model = TRANSFORMER.replace("layers: 1", "layers: 1, positions: {kind: absolute, rows: %d}")
    for rows, more, code in ((7, [], 3), (8, [], 0), (7, ["task.representation=mean"], 0)):
        ran = invoke("train", "r.yaml", model % rows, *more, "--overwrite", "--json")
        assert ran.code == code, ran.err
        if code:
            assert "the longest sentence has 7 tokens, the model 6 positions" in ran.err
            assert "model.positions.rows=8" in ran.err
    (here / "long.tsv").write_text("boat " * 9 + "\tgood\n")
    ran = invoke("eval", "runs/sorted", "long.tsv")
    assert ran.code == 3
