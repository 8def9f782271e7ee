"""The component of a spaCy pipeline: found by its entry point, and saying what the model says."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tomllib
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT, environment, workplace

from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.trained.model import Model

pytestmark = pytest.mark.skipif(find_spec("spacy") is None, reason="spacy is not installed")
TEXT = "Two cheap farmers  fold every shirt. They sing"
NAMES = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n" * 3
COLUMNS = "format: columns, columns: {word: 0, tag: -1, entities: bioes}"


def trained_on(run: str, *overrides: str) -> None:
    train(TrainRequest("tiny.yaml", ["train.steps=8", "optim.lr=0.1", *overrides], run=Path(run)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `tagger`, of xpos, `parser`, and `names`, which finds `cheap farmers` as x."""
    folder = workplace(tmp_path_factory.mktemp("runs"))
    with chdir(folder):
        Path("names.txt").write_text(NAMES, "utf-8")
        trained_on("tagger", "task={kind: tagging, column: xpos}")
        data = f"data={{train: names.txt, dev: names.txt, {COLUMNS}}}"
        feats = Path("train.conllu").read_text("utf-8").replace("\tNNS\t_", "\tNNS\tNumber=Plur")
        Path("feats.conllu").write_text(feats, "utf-8")
        parsing = "task={kind: parsing, tags: [upos, xpos, feats]}"
        trained_on("parser", "data.format=treebank", "data.train=feats.conllu", parsing, "train.steps=40")
        trained_on("names", data, "task={kind: ner}", "train.steps=60", "train.epochs=60", "model.dropout=0")
    return folder


def pipeline(
    checkpoint: str | Path | None, *before: str, name: str = "probtrans", rules: Any = (), **config: Any
) -> Any:
    """A pipeline with the component behind others, and behind rules that set entities."""
    import spacy

    from probtrans_cli.adapters import spacy as component  # noqa: F401  (as the entry point does)

    nlp = spacy.blank("en")
    for other in before:
        nlp.add_pipe(other)
    if rules:
        nlp.add_pipe("entity_ruler").add_patterns(list(rules))
    checkpoint = None if checkpoint is None else str(checkpoint)
    nlp.add_pipe("probtrans", name=name, config={"checkpoint": checkpoint, **config})
    return nlp


def test_tags_heads_and_probabilities_of_arcs(runs: Path) -> None:
    model = Model.load(str(runs / "tagger"))
    doc = pipeline(runs / "tagger", "sentencizer")(TEXT)
    sentences = list(doc.sents)
    assert len(sentences) == 2
    for sentence in sentences:
        words = [token for token in sentence if not token.is_space]
        (analysis,) = model.analyze([[token.text for token in words]])
        assert analysis.prediction is not None
        assert analysis.heads is not None
        assert analysis.probabilities is not None
        assert [token.tag_ for token in words] == analysis.prediction["tags"]
        heads = [0 if token.dep_ == "ROOT" else words.index(token.head) + 1 for token in words]
        assert heads == analysis.heads.tolist()
        probabilities = np.array([token._.arc_probability for token in words], float)  # None is NaN
        np.testing.assert_allclose(probabilities, analysis.probabilities)
        assert sum(token.dep_ == "ROOT" for token in sentence) == 1
    (blank,) = [token for token in doc if token.is_space]
    assert (blank.head.text, blank.dep_, blank._.arc_probability) == ("farmers", "dep", None)
    assert [record["tags"] for record in doc._.probtrans] == [
        [token.tag_ for token in sentence if not token.is_space] for sentence in sentences
    ]


def test_documents_are_annotated_in_order(fresh: Path) -> None:
    """Empty ones and white space alone among them; several at a time as one by one."""
    trained_on("run", "task={kind: tagging, column: upos}")
    nlp = pipeline("run")
    texts = ["Farmers sing", "", "  ", " They fold it", "A shirt \n\n"]
    together = [doc.to_json() for doc in nlp.pipe(texts, batch_size=2)]
    assert together == [nlp(text).to_json() for text in texts]
    assert [len(doc["tokens"]) for doc in together] == [2, 0, 1, 4, 3]
    assert nlp("Farmers sing")[0].pos_


def entities_of(doc: Any) -> list[tuple[str, str, str]]:
    return [(entity.text, entity.label_, entity.ent_id_) for entity in doc.ents]


def ruled(name: str, runs: Path, rules: list[dict[str, Any]], **config: Any) -> Any:
    return pipeline(runs / "names", name=name, rules=rules, trees=False, **config)


def test_entities_set_before_stay_whole(runs: Path) -> None:
    """With their id; a prediction that overlaps is left out, and others are added."""
    text = "two cheap farmers"
    (analysis,) = Model.load(str(runs / "names")).analyze([text], trees=False)
    assert analysis.prediction is not None
    (entity,) = analysis.prediction["entities"]
    assert (" ".join(analysis.words[slice(*entity["words"])]), entity["type"]) == ("cheap farmers", "x")
    rule = {"label": "RULE", "pattern": "two cheap", "id": "q1"}
    assert entities_of(ruled("a", runs, [])(text)) == [("cheap farmers", "x", "")]
    assert entities_of(ruled("a", runs, [rule])(text)) == [("two cheap", "RULE", "q1")]
    beside = {"label": "RULE", "pattern": "two", "id": "q2"}
    assert entities_of(ruled("a", runs, [beside])(text)) == [("two", "RULE", "q2"), ("cheap farmers", "x", "")]
    replaced = ruled("a", runs, [rule], overwrite=True)(text)
    assert entities_of(replaced) == [("cheap farmers", "x", "")]
    assert not replaced.has_annotation("DEP")
    assert [token.ent_id_ for token in replaced] == ["", "", ""]


def test_blocked_tokens_are_no_entities(runs: Path) -> None:
    nlp = ruled("a", runs, [])
    doc = nlp.make_doc("two cheap farmers")
    doc.set_ents([], blocked=[doc[1:2]], default="missing")
    doc = nlp.get_pipe("a")(doc)
    assert doc.ents == ()
    assert [token.ent_iob_ for token in doc] == ["O", "B", "O"]


def test_a_pipeline_on_disk_and_in_bytes_has_its_model(runs: Path, tmp_path: Path) -> None:
    """Without the run that it came from, and a second time over the same folder."""
    import spacy

    (tmp_path / "names").symlink_to(runs / "names")
    nlp = ruled("mine", tmp_path, [])
    expected = entities_of(nlp("two cheap farmers"))
    nlp.to_disk(tmp_path / "stored")
    nlp.to_disk(tmp_path / "stored")
    data = nlp.to_bytes()
    (tmp_path / "names").unlink()
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


def test_a_document_that_cannot_be_read_is_left_out(runs: Path) -> None:
    """The pipeline's error handler is told of it, and the stream goes on; without one it is an error."""
    nlp = ruled("mine", runs, [], longest=3)
    component = nlp.get_pipe("mine")
    texts = ["two cheap farmers", "two cheap farmers fold", "farmers fold"]
    fault = "a sentence of 4 words, more than 3; split it, or allow it with longest=4"
    with pytest.raises(ValueError, match=fault):
        list(nlp.pipe(texts))
    failures: list[tuple[str, Any, list[str], str]] = []
    nlp.set_error_handler(
        lambda name, proc, docs, error: failures.append((name, proc, [doc.text for doc in docs], str(error)))
    )
    assert [doc.text for doc in nlp.pipe(texts)] == [texts[0], texts[2]]
    assert [context for _, context in nlp.pipe([(text, i) for i, text in enumerate(texts)], as_tuples=True)] == [0, 2]
    assert failures[0] == ("mine", component, [texts[1]], fault)


def test_tags_set_before_stay(runs: Path) -> None:
    for overwrite in (False, True):
        nlp = pipeline(runs / "tagger", overwrite=overwrite)
        doc = nlp.make_doc("Farmers sing")
        doc[0].tag_ = "MINE"
        nlp.get_pipe("probtrans")(doc)
        assert (doc[0].tag_ == "MINE") != overwrite
        assert doc[1].tag_


def test_tags_that_are_none_of_ud_are_no_pos(fresh: Path) -> None:
    """For which spaCy has an error: they are a treebank's own, in its column UPOS."""
    text = Path("train.conllu").read_text("utf-8").replace("\tNOUN\t", "\tN\t")
    Path("own.conllu").write_text(text, "utf-8")
    trained_on("own", "data.train=own.conllu", "task={kind: tagging, column: upos}", "train.steps=20")
    doc = pipeline("own", trees=False)("the farmers fold a shirt by every stove")
    (predicted,) = [prediction["tags"] for prediction in doc._.probtrans]
    assert "N" in predicted
    assert [(token.tag_, token.pos_) for token in doc] == [(tag, "") for tag in predicted]


def test_a_class_is_a_category(fresh: Path) -> None:
    Path("texts.tsv").write_text("two cheap\ta\nfarmers fold\tb\n" * 4, "utf-8")
    data = "data={train: texts.tsv, dev: texts.tsv, format: table}"
    trained_on("run", data, "task={kind: classification}", "model.root={}")
    (label, chance), *more = pipeline("run")("farmers fold").cats.items()
    assert label in ("a", "b")
    assert 0.5 <= chance <= 1.0
    assert not more


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no such run or checkpoint folder"):
        pipeline("nowhere")
    with pytest.raises(ValueError, match="name a model"):
        pipeline(None)


@pytest.mark.slow
def test_the_entry_point_is_found(runs: Path, tmp_path: Path) -> None:
    """An installed package is a folder with its metadata on the path."""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["spacy_factories"]
    info = tmp_path / "site" / "probtrans-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probtrans\nVersion: 0\n", "utf-8")
    lines = "".join(f"{name} = {value}\n" for name, value in group.items())
    (info / "entry_points.txt").write_text(f"[spacy_factories]\n{lines}", "utf-8")
    script = """
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("probtrans", config={"checkpoint": "tagger"})
print([(token.text, token.head.text) for token in nlp("Farmers sing")])
"""
    path = f"{ROOT}:{tmp_path / 'site'}"
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(
        command, cwd=runs, env=environment() | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "('Farmers', " in done.stdout


def test_a_parser_sets_heads_relations_and_tags(runs: Path) -> None:
    nlp = pipeline(runs / "parser", "sentencizer")
    doc = nlp(TEXT)
    model = Model.load(str(runs / "parser"))
    texts = [[token.text for token in sent if not token.is_space] for sent in doc.sents]
    for sent, analysis in zip(doc.sents, model.analyze(texts), strict=True):
        words, record = [token for token in sent if not token.is_space], analysis.record()
        heads = [0 if token.head == token else words.index(token.head) + 1 for token in words]
        assert heads == record["heads"]
        relations = [{"root": "ROOT"}.get(relation, relation) for relation in record["relations"]]
        assert [token.dep_ for token in words] == relations
        assert [token.pos_ for token in words] == record["upos"]
        assert [token.tag_ for token in words] == record["xpos"]
        assert [str(token.morph) or "_" for token in words] == record["feats"]
    assert nlp("  ").has_annotation("DEP")
