"""Parts of speech for the constraints of tuples: of the corpus, or of a tagger."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support import Invoke, refused, sentences

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.openie.output import CONTENT, with_content_words
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import predictions

RECIPE = """\
version: 1
name: tuples
data: {train: t.jsonl, dev: t.jsonl, format: extractions}
task: {kind: openie, rows: 2, iterative_steps: 1, constraints: {posc: 1, hvc: 1, hve: 1, ec: 1}}
model: {kind: probabilistic, labels: 8, channels: 2, iterations: 2}
train: {steps: 2}
runtime: {threads: 1}
"""
TAGGER = """\
version: 1
name: tagger
data: {train: t.conllu}
task: {kind: tagging, column: COLUMN}
model: {kind: probabilistic, labels: 8, channels: 2, iterations: 1}
train: {steps: 2}
runtime: {threads: 1}
"""
WORDS, UPOS = ["Ann", "has", "eaten", "fish"], ["PROPN", "VERB", "VERB", "NOUN"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tuples = [{"arg1": "Ann", "rel": "has eaten", "arg2": "fish", "confidence": 1}]
    plain = {"words": WORDS, "tuples": tuples}
    (tmp_path / "t.jsonl").write_text((json.dumps(plain) + "\n") * 2)
    (tmp_path / "u.jsonl").write_text((json.dumps({**plain, "upos": UPOS}) + "\n") * 2)
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "t.conllu").write_text(sentences("train", 6))
    for column in ("upos", "xpos"):
        (tmp_path / f"{column}.yaml").write_text(TAGGER.replace("COLUMN", column).replace("tagger", column))
    return tmp_path


def test_of_the_corpus(here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", "data.train=u.jsonl", "data.dev=u.jsonl", "--json")
    assert ran.code == 0, ran.err
    assert {f"violations_{name}" for name in ("posc", "hvc", "hve", "ec")} <= ran.json["dev"].keys()
    model = Model.load("runs/tuples", threads=1)
    split = Split.encode(_given(here / "u.jsonl", model), model.vocabulary, model.labels)
    completed = with_content_words(model, {"dev": split}, required=True)["dev"]
    assert completed.row(CONTENT, 0).tolist() == [1, 1, 3, 1, 0, 0, 0]  # "has" is a light verb; three extra words
    assert np.array_equal(completed.row("ids", 1), split.row("ids", 1))
    refused(invoke("train", "r.yaml", "--overwrite"), 3, "data.train: has no parts of speech", "task.tagger=RUN")


def _given(path: Path, model: Model) -> list[Sentence]:
    return list(read_corpus(path, "extractions", data=model.recipe.data))


def test_of_a_tagger(here: Path, invoke: Invoke) -> None:
    assert invoke("train", "upos.yaml").code == 0
    ran = invoke("train", "r.yaml", "task.tagger=runs/upos", "--json")
    assert ran.code == 0, ran.err
    model, tagger = Model.load("runs/tuples", threads=1), Model.load("runs/upos", threads=1)
    sentences = _given(here / "t.jsonl", model)
    split = Split.encode(sentences, model.vocabulary, model.labels)
    completed = with_content_words(model, {"dev": split}, required=True)["dev"]
    (tags,) = predictions(tagger, [Sentence(WORDS)])
    verbs = [tag == "VERB" for tag in tags["tags"]]
    expected = [3 if verb and word != "has" else 1 if verb or tag in ("NOUN", "PROPN", "ADJ", "ADV") else 0
                for verb, word, tag in zip(verbs, WORDS, tags["tags"], strict=True)]  # fmt: skip
    assert completed.row(CONTENT, 0).tolist() == [*expected, 0, 0, 0]
    again = invoke("eval", "runs/tuples", "--json")
    assert "violations_posc" in again.json["scores"]["dev"]
    shutil.rmtree(here / "runs/upos")
    gone = invoke("eval", "runs/tuples", "--json")
    assert gone.code == 0, gone.err
    assert "the constraints are not scored" in gone.err
    assert "violations_posc" not in gone.json["scores"]["dev"]
    refused(invoke("train", "r.yaml", "task.tagger=runs/upos", "--overwrite"), 4, "runs/upos")


def test_a_tagger_of_something_else_is_refused(here: Path, invoke: Invoke) -> None:
    del here
    assert invoke("train", "xpos.yaml").code == 0
    refused(invoke("train", "r.yaml", "task.tagger=runs/xpos"), 2, "runs/xpos predicts no upos")
