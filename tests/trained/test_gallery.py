"""The pictures that a training leaves: which sentences, which files, and that nothing there can end a training."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, workplace

from probtrans_cli.data.readers import read_corpus
from probtrans_cli.trained.formats.pictures import LONGEST, SENTENCES, SHORTEST, examples
from probtrans_cli.trained.model import Model

pytestmark = pytest.mark.usefixtures("pages")


def records_of(run: Path) -> list[dict[str, Any]]:
    """What the page of a run says of each sentence."""
    page = (run / "trees/index.html").read_text(encoding="utf-8")
    return [json.loads(part.split("</script>")[0]) for part in page.split('class="sentence">')[1:]]


def test_a_training_leaves_pictures_of_every_channel(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    run = trained / "runs/tiny"
    model = Model.load(str(run))
    chosen = examples(model.recipe.data, model.vocabulary)
    words, heads = [sentence.words for sentence in chosen], [sentence.heads for sentence in chosen]
    assert words == [sentence.words for sentence in examples(model.recipe.data, model.vocabulary)]
    assert 0 < len(chosen) <= SENTENCES
    assert all(SHORTEST <= len(of_sentence) <= LONGEST for of_sentence in words)
    pictures = sorted((run / "trees").glob("*.svg"))
    assert [path.name for path in pictures] == [
        f"{number:04d}-channel-{channel}.svg" for number in range(1, len(chosen) + 1) for channel in range(2)
    ]
    for path, of_sentence in zip(pictures[::2], words, strict=True):
        assert set(of_sentence) <= {text.text for text in ElementTree.parse(path).iter() if text.tag.endswith("text")}
    records = records_of(run)
    assert [record["words"] for record in records] == words
    assert [record["gold"] for record in records] == heads


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


def test_without_dev_they_are_of_train(fresh: Path, invoke: Invoke) -> None:
    assert invoke("train", "tiny.yaml", "data.dev=null", "data.test=null", "train.epochs=1").code == 0
    records = records_of(fresh / "runs/tiny")
    train = [sentence.words for sentence in read_corpus(fresh / "train.conllu", "auto")]
    assert 0 < len(records) <= SENTENCES
    assert all(record["words"] in train for record in records)


@pytest.mark.usefixtures("fresh")
def test_what_goes_wrong_is_told_and_no_more(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("probtrans_cli.trained.formats.pictures.svg_files", full)
    ran = invoke("train", "tiny.yaml", "train.epochs=1", "--json")
    assert ran.code == 0
    assert "dev" in ran.json
    assert "No space left" in ran.err
