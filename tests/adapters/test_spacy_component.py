"""The component of a spaCy pipeline: found by its entry point, and saying what the model says."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT, environment, workplace

from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.errors import DataError
from probtrans_cli.trained.model import Model

spacy = pytest.importorskip("spacy")
TEXT = "Two cheap farmers  fold every shirt. They sing"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


def trained_on(*overrides: str) -> Model:
    """A model that was trained for a moment, in `run`."""
    train(TrainRequest("tiny.yaml", ["train.steps=8", "optim.lr=0.1", *overrides], run=Path("run")))
    return Model.load("run")


def pipeline(*before: str, **config: Any) -> Any:
    from probtrans_cli.adapters import spacy as component  # noqa: F401  (as the entry point does)

    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("probtrans", config={"checkpoint": "run", **config})
    return nlp


def test_tags_heads_and_probabilities_of_arcs(place: Path) -> None:
    model = trained_on("task={kind: tagging, column: xpos}")
    doc = pipeline("sentencizer")(TEXT)
    sentences = list(doc.sents)
    assert len(sentences) == 2
    for sentence in sentences:
        words = [token for token in sentence if not token.is_space]
        (said,) = model.analyze([[token.text for token in words]])
        assert said.prediction is not None and said.heads is not None and said.probabilities is not None  # noqa: PT018
        assert [token.tag_ for token in words] == said.prediction["tags"]
        heads = [0 if token.dep_ == "ROOT" else words.index(token.head) + 1 for token in words]
        assert heads == said.heads.tolist()
        probabilities = np.array([token._.arc_probability for token in words], float)  # None is NaN
        np.testing.assert_allclose(probabilities, said.probabilities)
        assert sum(token.dep_ == "ROOT" for token in sentence) == 1
    (blank,) = [token for token in doc if token.is_space]
    assert (blank.head.text, blank.dep_, blank._.arc_probability) == ("farmers", "dep", None)
    assert [one["tags"] for one in doc._.probtrans] == [
        [token.tag_ for token in sentence if not token.is_space] for sentence in sentences
    ]


def test_documents_are_annotated_in_order(place: Path) -> None:
    """Empty ones and white space alone among them; several at a time as one by one."""
    trained_on("task={kind: tagging, column: upos}")
    nlp = pipeline()
    texts = ["Farmers sing", "", "  ", " They fold it", "A shirt \n\n"]
    together = [doc.to_json() for doc in nlp.pipe(texts, batch_size=2)]
    assert together == [nlp(text).to_json() for text in texts]
    assert [len(one["tokens"]) for one in together] == [2, 0, 1, 4, 3]
    assert nlp("Farmers sing")[0].pos_


def test_entities(place: Path) -> None:
    rows = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n" * 3
    Path("names.txt").write_text(rows, "utf-8")
    data = "data={train: names.txt, dev: names.txt, format: columns, columns: {word: 0, tag: -1, entities: bioes}}"
    model = trained_on(data, "task={kind: ner}", "train.steps=60", "model.dropout=0")
    doc = pipeline(trees=False)("two cheap farmers")
    (said,) = model.analyze(["two cheap farmers"], trees=False)
    assert said.prediction is not None
    expected = [(" ".join(said.words[slice(*one["words"])]), one["type"]) for one in said.prediction["entities"]]
    assert [(entity.text, entity.label_) for entity in doc.ents] == expected != []
    assert not doc.has_annotation("DEP")


NAMES = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n" * 3


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `run`, which finds `cheap farmers` as x; do not change it."""
    folder = workplace(tmp_path_factory.mktemp("named"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("names.txt").write_text(NAMES, "utf-8")
        data = "data={train: names.txt, dev: names.txt, format: columns, columns: {word: 0, tag: -1, entities: bioes}}"
        trained_on(data, "task={kind: ner}", "train.steps=60", "train.epochs=60", "model.dropout=0")
    return folder


def ruled(name: str, folder: Path, patterns: list[dict[str, Any]], **config: Any) -> Any:
    """A pipeline whose entities are set by rules before."""
    from probtrans_cli.adapters import spacy as component  # noqa: F401

    nlp = spacy.blank("en")
    if patterns:
        nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.add_pipe("probtrans", name=name, config={"checkpoint": str(folder / "run"), "trees": False, **config})
    return nlp


def entities_of(doc: Any) -> list[tuple[str, str, str]]:
    return [(entity.text, entity.label_, entity.ent_id_) for entity in doc.ents]


def test_entities_set_before_stay_whole(named: Path) -> None:
    """With their id; a prediction that overlaps is left out, and others are added."""
    text = "two cheap farmers"
    rule = {"label": "RULE", "pattern": "two cheap", "id": "q1"}
    assert entities_of(ruled("a", named, [])(text)) == [("cheap farmers", "x", "")]
    assert entities_of(ruled("a", named, [rule])(text)) == [("two cheap", "RULE", "q1")]
    beside = {"label": "RULE", "pattern": "two", "id": "q2"}
    assert entities_of(ruled("a", named, [beside])(text)) == [("two", "RULE", "q2"), ("cheap farmers", "x", "")]
    replaced = ruled("a", named, [rule], overwrite=True)(text)
    assert entities_of(replaced) == [("cheap farmers", "x", "")]
    assert [token.ent_id_ for token in replaced] == ["", "", ""]


def test_blocked_tokens_are_no_entities(named: Path) -> None:
    nlp = ruled("a", named, [])
    doc = nlp.make_doc("two cheap farmers")
    doc.set_ents([], blocked=[doc[1:2]], default="missing")
    doc = nlp.get_pipe("a")(doc)
    assert doc.ents == ()
    assert [token.ent_iob_ for token in doc] == ["O", "B", "O"]


def test_a_pipeline_on_disk_and_in_bytes_has_its_model(named: Path, tmp_path: Path) -> None:
    """Without the run that it came from, and a second time over the same folder."""
    (tmp_path / "run").symlink_to(named / "run")
    nlp = ruled("mine", tmp_path, [])
    expected = entities_of(nlp("two cheap farmers"))
    nlp.to_disk(tmp_path / "stored")
    nlp.to_disk(tmp_path / "stored")
    data = nlp.to_bytes()
    (tmp_path / "run").unlink()
    again = spacy.load(tmp_path / "stored")
    assert entities_of(again("two cheap farmers")) == expected != []
    assert entities_of(again.from_bytes(data)("two cheap farmers")) == expected
    assert [entities_of(doc) for doc in again.pipe(["two cheap farmers"] * 3, n_process=2)] == [expected] * 3
    assert (
        entities_of(pickle.loads(pickle.dumps(again.get_pipe("mine")))(again.make_doc("two cheap farmers"))) == expected
    )
    assert len(Model.load(str(tmp_path / "stored" / "mine")).analyze(["two cheap farmers"]).__next__().words) == 3
    (tmp_path / "stored" / "mine" / "labels.json").write_text("{}")
    with pytest.raises(ValueError, match=r"labels\.json"):
        spacy.load(tmp_path / "stored")


def test_a_document_that_cannot_be_read_is_left_out(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline's error handler is told of it, and the stream goes on; without one it is an error."""
    nlp = ruled("mine", named, [])
    component = nlp.get_pipe("mine")
    analyze = Model.analyze

    def limited(self: Model, texts: Any, **options: Any) -> Any:
        if any(len(words) > 3 for words in texts):
            raise DataError("a sentence of 4 words: at most 3 can be read", hint="split it")
        return analyze(self, texts, **options)

    monkeypatch.setattr(Model, "analyze", limited)
    texts = ["two cheap farmers", "two cheap farmers fold", "farmers fold"]
    with pytest.raises(ValueError, match="at most 3 can be read; split it"):
        list(nlp.pipe(texts))
    failures: list[tuple[str, Any, list[str], str]] = []
    nlp.set_error_handler(
        lambda name, proc, docs, error: failures.append((name, proc, [doc.text for doc in docs], str(error)))
    )
    assert [doc.text for doc in nlp.pipe(texts)] == [texts[0], texts[2]]
    assert [context for _, context in nlp.pipe([(text, i) for i, text in enumerate(texts)], as_tuples=True)] == [0, 2]
    assert failures[0] == ("mine", component, [texts[1]], "a sentence of 4 words: at most 3 can be read; split it")


def test_tags_set_before_stay(place: Path) -> None:
    trained_on("task={kind: tagging, column: xpos}")
    for overwrite in (False, True):
        nlp = pipeline(overwrite=overwrite)
        doc = nlp.make_doc("Farmers sing")
        doc[0].tag_ = "MINE"
        nlp.get_pipe("probtrans")(doc)
        assert (doc[0].tag_ == "MINE") != overwrite
        assert doc[1].tag_


def test_a_class_is_a_category(place: Path) -> None:
    Path("texts.tsv").write_text("two cheap\ta\nfarmers fold\tb\n" * 4, "utf-8")
    trained_on("data={train: texts.tsv, dev: texts.tsv, format: table}", "task={kind: classification}", "model.root={}")
    (label, chance), *more = pipeline()("farmers fold").cats.items()
    assert label in ("a", "b")
    assert 0.5 <= chance <= 1.0
    assert not more


def test_a_model_that_is_not_there_is_named(place: Path) -> None:
    with pytest.raises(ValueError, match="no such run or checkpoint folder"):
        pipeline(checkpoint="nowhere")
    with pytest.raises(ValueError, match="name a model"):
        pipeline(checkpoint=None)


def test_the_entry_point_is_found(place: Path) -> None:
    """An installed package is a folder with its metadata on the path."""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["spacy_factories"]
    trained_on()
    info = place / "site" / "probtrans-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probtrans\nVersion: 0\n", "utf-8")
    lines = "".join(f"{name} = {value}\n" for name, value in group.items())
    (info / "entry_points.txt").write_text(f"[spacy_factories]\n{lines}", "utf-8")
    script = """
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("probtrans", config={"checkpoint": "run"})
print([(token.text, token.head.text) for token in nlp("Farmers sing")])
"""
    path = f"{ROOT}:{place / 'site'}"
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(
        command, cwd=place, env=environment() | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "('Farmers', " in done.stdout
