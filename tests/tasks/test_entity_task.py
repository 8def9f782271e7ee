"""Named entities as a task: scores against sets of spans, and end to end from column files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from small_tasks import batch_of, encode, evaluation, linear, loss_of
from support import Invoke
from torch import Tensor
from torch.nn import functional

from probtrans_cli import models
from probtrans_cli.data.codecs.entities import problems, read_spans, spans
from probtrans_cli.data.codecs.entity_scores import entity_scores
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.columns import read_tagged
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import PAD
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.data import Columns, SubwordVocabulary, WordVocabulary
from probtrans_cli.recipe.task import EntityRecognition
from probtrans_cli.reports.scores import flattened
from probtrans_cli.tasks.entities import NamedEntities
from probtrans_cli.trained.evaluation import evaluate

Scheme = Literal["iob2", "bioes"]
TRAIN = """\
Wim B-PER
Vos I-PER
sails O
to O
Elst B-LOC
. O

Elst B-LOC
sank O

rain O

Anna B-PER
van I-PER
Elst I-PER
met O
Wim B-PER
and O
the B-SHIP
Otter I-SHIP
"""
DEV = """\
Anna B-PER
sank O

Elst B-LOC

the B-PRIZE
golden I-PRIZE
Otter I-PRIZE
met O
Wim B-PRIZE
Anna B-PER
Vos I-PER
de I-PER
Wit I-PER
. O

Elst B-LOC
and I-LOC
Otter B-SHIP
"""


class Corpus:
    """Dev has entities of a type that train lacks, and (in bioes) tags of known types that train lacks."""

    def __init__(self, scheme: Scheme, *, subwords: bool = False, **options: Any) -> None:
        read = [list(read_tagged(text.splitlines(), "x", Columns(entities=scheme))) for text in (TRAIN, DEV)]
        self.gold = [one.tags["tag"] for one in read[1]]
        words = SubwordVocabulary(kind="sentencepiece", size=40, algorithm="bpe") if subwords else WordVocabulary()
        self.vocabulary = build_vocabulary(words, (one.words for one in read[0]))
        self.names = sorted({tag for one in read[0] for tag in one.tags["tag"]})
        labels = {"tag": self.names}
        self.train, self.dev = (Split.encode(one, self.vocabulary, labels) for one in read)
        self.task = NamedEntities(EntityRecognition(kind="ner", **options), self.vocabulary, labels)
        torch.manual_seed(1)
        section = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0}
        self.network = Network(self.vocabulary.size, models.build(section), linear(len(self.names))).double().eval()
        with torch.no_grad():
            for parameter in self.network.parameters():
                torch.nn.init.normal_(parameter, std=0.8)

    @torch.no_grad()
    def log_probabilities(self, split: Split, index: int) -> Tensor:
        """Of every word, at its first piece."""
        ids = torch.from_numpy(split.row("ids", index).astype(np.int64))[None]
        first = split.row("first", index).astype(np.int64) if split.has("first") else np.arange(ids.shape[1])
        return functional.log_softmax(
            self.network.output(encode(self.network, ids, ids != PAD).states[0, first]).float(), -1
        )


class Told(torch.nn.Module):
    """In place of a network: gives the tags that it was told, by the words' ids."""

    def __init__(self, ids: list[list[int]], tags: list[list[int]], outputs: int) -> None:
        super().__init__()
        self.tags = {tuple(one): wanted for one, wanted in zip(ids, tags, strict=True)}
        self.outputs = outputs

    def forward(self, inputs: Inputs, wants: Wants) -> Outputs:
        assert wants.words is not None
        assert torch.equal(wants.words, inputs.mask)
        wanted = [self.tags[tuple(row[real].tolist())] for row, real in zip(inputs.ids, inputs.mask, strict=True)]
        tags = torch.tensor([tag for tags in wanted for tag in tags])
        return Outputs(scores={"words": functional.one_hot(tags, self.outputs).float()})


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_scores_are_those_of_a_plain_loop(scheme: Scheme, subwords: bool) -> None:
    corpus = Corpus(scheme, subwords=subwords, valid=False)
    right, losses, words = 0, [], 0
    for index, tags in enumerate(corpus.gold):
        found, ids = corpus.log_probabilities(corpus.dev, index), corpus.dev.row("tag", index)
        for i in range(len(tags)):
            words += 1
            right += int(corpus.names[int(found[i].argmax())] == tags[i])
            losses += [-float(found[i, int(ids[i])])] if ids[i] >= 0 else []
    assert len(losses) < words
    for size in (10, 500):
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(size), final=True)
        assert scores["accuracy"] == pytest.approx(right / words)
        assert scores["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def told(corpus: Corpus, tags: list[list[str]]) -> dict[str, Any]:
    ids = [[corpus.names.index(tag) for tag in one] for one in tags]
    rows = [corpus.dev.row("ids", index).tolist() for index in range(len(corpus.dev))]
    network: Any = Told(rows, ids, len(corpus.names))
    return evaluate(corpus.task, network, corpus.dev, evaluation(12), final=True)


@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_entities_of_unseen_types_are_missed(scheme: Scheme) -> None:
    """All known tags are right, and O stands for the others: each entity of the unseen type counts once."""
    corpus = Corpus(scheme)
    given = [[tag if tag in corpus.names else "O" for tag in tags] for tags in corpus.gold]
    every = [(i, *span) for i, tags in enumerate(corpus.gold) for span in spans(tags, scheme)]
    assert sum("PRIZE" in span for span in every) == 2
    assert len(every) == 7
    lost = {span for span in every if any(given[span[0]][i] == "O" for i in range(span[1], span[2]))}
    assert len(lost) == {"iob2": 3, "bioes": 4}[scheme]  # train has no place of two words, and no ship of one
    found = told(corpus, given)
    hit = len(every) - len(lost)
    spurious = int(scheme == "iob2")  # the first word of the place of two
    assert found["precision"] == pytest.approx(hit / (hit + spurious))
    assert found["recall"] == pytest.approx(hit / len(every))
    assert found["f1_PRIZE"] == 0.0
    assert found["f1_PER"] == 1.0


@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_nothing_found(scheme: Scheme) -> None:
    corpus = Corpus(scheme)
    found = told(corpus, [["O"] * len(tags) for tags in corpus.gold])
    assert (found["f1"], found["precision"], found["recall"]) == (0.0, 0.0, 0.0)
    assert found["accuracy"] == pytest.approx(3 / 16)


@pytest.mark.parametrize("kind", ["words", "sentences"])
def test_the_loss_is_that_of_a_plain_loop(kind: str) -> None:
    corpus = Corpus("bioes", loss=kind)
    losses = []
    for index in range(len(corpus.dev)):
        found, gold = corpus.log_probabilities(corpus.dev, index), corpus.dev.row("tag", index)
        losses.append([-float(found[i, gold[i]]) for i in range(len(gold)) if gold[i] >= 0])
    words = [one for sentence in losses for one in sentence]
    wanted = np.mean(words) if kind == "words" else np.mean([np.mean(one) for one in losses if one])
    total, number = loss_of(corpus.task, corpus.network, corpus.dev, np.arange(len(corpus.dev)))
    assert float((total / number).detach()) == pytest.approx(float(wanted), rel=1e-5)


def test_scores_by_type_are_of_the_final_evaluation() -> None:
    corpus = Corpus("iob2")
    quick, final = (
        evaluate(corpus.task, corpus.network, corpus.dev, evaluation(), final=final) for final in (False, True)
    )
    assert quick.keys() == {"f1", "f1_strict", "precision", "recall", "accuracy", "loss"}
    assert quick.items() <= final.items()
    assert {name for name in final if name.startswith("f1_")} >= {"f1_PER", "f1_LOC", "f1_SHIP", "f1_PRIZE"}


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_predicted_tags_are_valid_and_scored(scheme: Scheme, subwords: bool) -> None:
    """What `predict` says is what is scored; without `valid` it is each word's best tag, which is often not valid."""
    for valid in (True, False):
        corpus = Corpus(scheme, subwords=subwords, valid=valid)
        batch = batch_of(corpus.task, corpus.dev, range(len(corpus.dev)))
        with torch.no_grad():
            found = corpus.task.predict(corpus.network(batch, corpus.task.wants(batch)), batch)
        tags = [list(one["tags"]) for one in found]
        assert all(problems(one, scheme) is None for one in tags) == valid
        for index, one in enumerate(found):
            chances = corpus.log_probabilities(corpus.dev, index).exp()
            ids = torch.tensor([corpus.names.index(tag) for tag in one["tags"]])
            assert one["tag_probability"] == pytest.approx(chances[torch.arange(len(ids)), ids].tolist(), rel=1e-5)
            assert torch.equal(ids, chances.argmax(-1)) or valid
            spans_found = [(entity["words"][0], entity["words"][1], entity["type"]) for entity in one["entities"]]
            assert spans_found == read_spans(one["tags"])
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(12), final=True)
        expected = entity_scores(corpus.gold, tags)
        assert {name: scores[name] for name in expected} == pytest.approx(expected)
        assert scores["f1_strict"] == pytest.approx(entity_scores(corpus.gold, tags, scheme)["f1"])
        assert {type_: row["f1"] for type_, row in scores["types"].items()} == {
            name.removeprefix("f1_"): value for name, value in expected.items() if name.startswith("f1_")
        }
        low, high = scores["f1_interval"]
        assert low <= scores["f1"] <= high
        right = [a == b for one, gold in zip(tags, corpus.gold, strict=True) for a, b in zip(one, gold, strict=True)]
        assert scores["accuracy"] == pytest.approx(np.mean(right))
        assert scores["f1_strict"] == scores["f1"] or not valid


def test_valid_tags_change_no_loss() -> None:
    losses = []
    for valid in (True, False):
        corpus = Corpus("bioes", valid=valid)
        of_batch = loss_of(corpus.task, corpus.network, corpus.train, np.arange(len(corpus.train)))
        scores = evaluate(corpus.task, corpus.network, corpus.dev, evaluation(), final=False)
        losses.append((of_batch.total.item(), scores["loss"]))
    assert losses[0] == losses[1]


# --- end to end -------------------------------------------------------------------------------------------------------

RECIPE = """\
name: names
data: {train: train.txt, dev: dev.txt, test: dev.txt, format: columns, columns: {entities: bioes}}
task: {kind: ner}
model: {labels: 6, channels: 2, iterations: 2}
optim: {lr: 0.05}
train: {steps: 2}
runtime: {device: cpu, threads: 1}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "dev.txt").write_text(f"-DOCSTART- O\n\n{DEV}")
    (tmp_path / "other.txt").write_text("Wim B-PER\nVos I-PER\n")
    return tmp_path


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["data.columns.entities=iob2", "task.loss=sentences", "task.word_dropout=0.5"],
        ["data.vocabulary={kind: sentencepiece, size: 40, algorithm: bpe}"],
        ["model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1}"],
    ],
    ids=["bioes", "iob2", "pieces", "transformer"],
)
def test_train_and_eval(overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", *overrides, "--json")
    assert ran.code == 0, ran.err
    test = ran.json["test"]
    assert test.keys() >= {"f1", "f1_strict", "precision", "recall", "accuracy", "loss", "f1_PER", "f1_PRIZE"}
    again = invoke("eval", "runs/names", "--json", "--require", "f1>=0", "--require", "f1_PRIZE == 0")
    assert again.code == 0, again.err
    assert flattened(again.json["scores"]["test"]) == pytest.approx(flattened(test))
    assert invoke("eval", "runs/names", "--require", "f1>=1.5").code == 7
    other = invoke("eval", "runs/names", "other.txt")
    assert other.code == 0, other.err
    for name in ("f1", "f1_strict", "precision", "recall", "f1_PER"):
        assert f" {name} " in other.out
    assert other.out.count(" %") == len(other.out.split(", ")) - 1  # all but the loss


def test_the_tags_of_columns_without_entities(here: Path, invoke: Invoke) -> None:
    tagging = ["task={kind: tagging, column: tag}", "data.columns={word: 0, tag: 1}"]
    ran = invoke("train", "r.yaml", *tagging, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(Path("runs/names/checkpoints/best/labels.json").read_text())["tag"][0] == "O"
    ran = invoke("train", "r.yaml", *tagging, "task.column=pos", "--overwrite")
    assert ran.code == 3
    assert "task.column: the data has no column 'pos'" in ran.err
    assert "set task.column=tag" in ran.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("alone", "train.txt:21: 1 column, so that the word (column 0) and the tag (column -1) are the same"),
        ("x\t", "train.txt:21: the tag (column -1 of 2) is empty"),
        ("x I-PER", "train.txt:21: I-PER after I-SHIP; in iob2 I-PER comes only after B-PER or I-PER"),
        ("x PER", "train.txt:21: 'PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, here: Path, invoke: Invoke) -> None:
    with (here / "train.txt").open("a") as file:
        file.write(f"{line}\n\ny I-LOC\nz B-LOC\n")
    ran = invoke("prepare", "r.yaml", "--check", "data.columns.strict=true")
    assert ran.code == 3
    assert message in ran.err
    assert "data.columns.scheme" in ran.err or "columns count from 0" in ran.err
    assert "bioes" not in ran.err, "of the scheme that fits longest alone"


def test_tags_of_another_scheme_than_the_recipe_says(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "data.columns.scheme=bioes", "data.columns.strict=true")
    assert ran.code == 3
    assert "train.txt:3: O after I-PER; in bioes only I-PER or E-PER follows it" in ran.err
    assert "the tags are read as bioes" in ran.err
    (here / "train.txt").write_text("Wim U-PER\n")
    ran = invoke("prepare", "r.yaml", "data.columns.scheme=bioes")
    assert ran.code == 3
    assert "train.txt:1: 'U-PER' is no tag of bioes" in ran.err


CONLL = """\
-DOCSTART- -X- -X- O

The DT I-NP O
Atlanta NNP I-NP B-MISC
Games NNPS I-NP I-MISC
were VBD I-VP O
in IN I-PP O
Atlanta NNP I-NP I-LOC

Urdu-speaking JJ I-NP B-MISC
people NNS I-NP O
of IN I-PP O
Lahore NNP I-NP I-LOC
Karachi NNP I-NP B-LOC

Baku NNP I-NP I-LOC
"""
"""In iob1 but for `B-MISC` behind `O` and at the start, as in public copies of CoNLL-2003."""
OF_CONLL = ["data.columns={word: 0, tag: 3, entities: bioes}", "data.dev=null", "data.test=null"]


@pytest.mark.parametrize(
    ("scheme", "refused"),
    [("auto", "train.txt:8: I-LOC after O; in iob2 "), ("iob1", "train.txt:4: B-MISC after O; in iob1 ")],
)
def test_a_tag_whose_meaning_is_clear_is_read_and_told_once(
    scheme: str, refused: str, here: Path, invoke: Invoke
) -> None:
    """As if the file were right, and with a warning."""
    (here / "train.txt").write_text(CONLL.replace("B-MISC", "I-MISC"))
    right = invoke("prepare", "r.yaml", *OF_CONLL)
    assert (right.code, right.err) == (0, "")
    (here / "train.txt").write_text(CONLL)
    for state in ("prepared", "up to date"):
        ran = invoke("prepare", "r.yaml", *OF_CONLL, f"data.columns.scheme={scheme}")
        assert ran.code == 0, ran.err
        assert ran.out.splitlines()[-1].startswith(state)
        assert ran.out.splitlines()[:-1] == right.out.splitlines()[:-1]
        assert ran.err == (
            "warning: train.txt:4: B-MISC after O; in iob1 B-MISC comes only after B-MISC or I-MISC. "
            "2 such tags in this file are read as conlleval reads them; data.columns.strict=true refuses them\n"
        )
    ran = invoke("prepare", "r.yaml", *OF_CONLL, f"data.columns.scheme={scheme}", "data.columns.strict=true")
    assert ran.code == 3
    assert refused in ran.err


def test_a_tag_that_no_scheme_can_mean_is_refused(here: Path, invoke: Invoke) -> None:
    (here / "train.txt").write_text(CONLL.replace("Lahore NNP I-NP I-LOC", "Lahore NNP I-NP X-PER"))
    ran = invoke("prepare", "r.yaml", *OF_CONLL)
    assert ran.code == 3
    assert "train.txt:13: 'X-PER' is no tag of iob2 (O, B-TYPE, I-TYPE)" in ran.err
    assert "warning" not in ran.err


def test_eval_tells_of_tags_that_are_read_all_the_same(here: Path, invoke: Invoke) -> None:
    assert invoke("train", "r.yaml").code == 0
    (here / "other.txt").write_text("Wim I-PER\nVos I-PER\nin O\nElst B-LOC\nsank B-LOC\n")
    ran = invoke("eval", "runs/names", "other.txt", "--json")
    assert ran.code == 0, ran.err
    assert ran.err.count("warning: other.txt") == 1
    first = "I-PER at the start; in iob2 I-PER comes only after B-PER or I-PER"
    assert f"warning: other.txt:1: {first}. This tag is read as conlleval reads it" in ran.err


@pytest.mark.parametrize("scheme", ["auto", "bilou"])
def test_every_scheme_that_is_found_can_be_named(scheme: str, here: Path, invoke: Invoke) -> None:
    (here / "train.txt").write_text("Wim B-PER\nVos L-PER\nsails O\n\nElst U-LOC\n")
    ran = invoke("prepare", "r.yaml", "data.dev=null", "data.test=null", f"data.columns.scheme={scheme}")
    assert ran.code == 0, ran.err
    assert "tag  4 labels: B-PER 1, E-PER 1, O 1, S-LOC 1" in ran.out


def test_labels_that_train_lacks_and_a_train_without_entities_are_told_of(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "data.columns.entities=iob2")
    wrong = "counted as wrong, left out of the loss"
    message = f"5 of 16 labels in column tag are not in train: {wrong}: B-PRIZE (2), I-PRIZE (2), I-LOC (1)\n"
    assert ran.err == f"warning: data.dev: {message}warning: data.test: {message}"
    (here / "train.txt").write_text("Wim O\nsails O\n\nrain O\n")
    ran = invoke("prepare", "r.yaml", "data.dev=null", "data.test=null")
    assert (ran.code, ran.err) == (
        0,
        "warning: data.train: all labels are the same (tag O): there is nothing to learn\n",
    )


def test_lines_of_different_columns(here: Path, invoke: Invoke) -> None:
    """Counted from the end, the tag may stand behind any number of others."""
    (here / "train.txt").write_text("Wim NNP x B-PER\nsails VB O\n\nrain\tO\n")
    ran = invoke("prepare", "r.yaml", "--check")
    assert ran.code == 0, ran.err
    assert "tag  2 labels: O 2, S-PER 1" in ran.out
    ran = invoke("prepare", "r.yaml", "data.columns.tag=2")
    assert ran.code == 3
    assert "train.txt:4: 2 columns, but the tag is column 2" in ran.err
