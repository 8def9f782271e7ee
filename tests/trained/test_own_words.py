"""Extra words, which open information extraction adds behind a sentence: read by the model, and no part of what it says
of words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_extractors import SENTENCES
from support import Invoke

from probtrans_cli.data.sentence import Sentence, divided, extra_words
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.models.base import Inputs, Wants
from probtrans_cli.trained.formats.pictures import examples
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Parser
from probtrans_cli.trained.reader import Reader

TEXTS = [text for text, _ in SENTENCES]


@pytest.fixture(scope="module")
def model(extractors: Path) -> Model:
    return Model.load(str(extractors / "runs/tuples"), threads=1)


def test_the_model_reads_them_behind_every_sentence_with_a_word(model: Model) -> None:
    reader = Reader.of(model, [Sentence(["Rain", "fell", "."]), Sentence([]), Sentence(["Rain", "[unused1]"])])
    ids = [reader.split.row("ids", index).tolist() for index in range(3)]
    behind = model.vocabulary.encode_words(["Rain", *extra_words(3)], 3).ids[1:]
    assert len(set(behind)) == 3
    assert ids[0][3:] == ids[2][2:] == behind
    assert ids[1] == []
    assert ids[2][1] == model.vocabulary.UNKNOWN  # the same spelling in a text is a word as others are


def test_white_space_around_words_is_no_part_of_them(model: Model) -> None:
    (analysis,) = model.analyze([["Rain\n", "\tfell", "4\u00a01/2 "]])
    assert analysis.words == ["Rain", "fell", "4\u00a01/2"]


def test_typographic_marks_of_raw_text_are_read_as_plain_ones(model: Model) -> None:
    """Only of raw text, only of unknown words, and only by the model: all that is said keeps their spelling."""
    vocabulary = model.vocabulary
    assert isinstance(vocabulary, Words)
    plain, typeset = "Rain 's fell .", "Rain ’s fell ."
    id = vocabulary._ids.pop("Goats")
    vocabulary._ids["'s"] = id
    try:
        for text in (plain, typeset):
            assert Reader.of(model, [divided(text)]).split.row("ids", 0)[1] == id
        words = Reader.of(model, [Sentence(typeset.split())]).split
        assert words.row("ids", 0)[1] == vocabulary.UNKNOWN
        reader = Reader.of(model, [divided(typeset)])
        assert reader.split.text("spelling", 0).split(" ")[:4] == typeset.split()
        of_plain, of_typeset = (next(model.analyze([text])) for text in (plain, typeset))
        assert of_typeset.words == typeset.split()
        np.testing.assert_array_equal(of_plain.heads, of_typeset.heads)
        record = of_typeset.record()
        assert record["text"] == typeset
        expected = json.dumps(of_plain.record()).replace("'s", "’s").replace("\\u2019", "’")
        assert json.loads(json.dumps(record)) == json.loads(expected)
    finally:
        del vocabulary._ids["'s"]
        vocabulary._ids["Goats"] = id


def test_heads_are_other_words_of_the_sentence_or_the_root(model: Model) -> None:
    """Beside the network itself: marginals of a sentence alone, on condition that no extra word is the head."""
    sentences = [Sentence(text.split()) for text in TEXTS]
    trees = list(Parser(model, readings=[model.read("1", 2, "mst")]).every_tree(sentences))
    for sentence, tree in zip(sentences, trees, strict=True):
        n = len(sentence.words)
        words = [*sentence.words, *extra_words(3)]
        ids = torch.tensor([model.vocabulary.encode_words(words, 3).ids])
        with torch.no_grad():
            arcs = model.network(Inputs(ids=ids, mask=ids >= 0), Wants(arcs=(1, 2))).arcs[0].double().numpy()
        kept = np.concatenate([arcs[..., :n, :n], arcs[..., :n, n + 3 : n + 4]], axis=-1)
        expected = kept / kept.sum(-1, keepdims=True)
        assert tree.words == tuple(sentence.words)
        assert tree.marginals[:, :2] == pytest.approx(expected, abs=1e-5)
        assert arcs[..., :n, n : n + 3].sum() > 1e-4  # or the test would say nothing
        assert tree.heads.max() <= n


def test_everything_that_is_said_of_words_is_said_of_the_sentence_s_own(model: Model) -> None:
    texts = [*TEXTS, "", "Rain"]
    for analysis in model.analyze(texts, latent_labels=2):
        n = len(analysis.words)
        assert len(analysis.heads) == len(analysis.probabilities) == len(analysis.latent_labels[0]) == n
        assert ((analysis.heads >= 0) & (analysis.heads <= n)).all()


def test_what_is_said_of_a_sentence_does_not_depend_on_those_beside_it(model: Model) -> None:
    alone = [next(model.analyze([text])).record() for text in TEXTS]
    for analysis, expected in zip(model.analyze(TEXTS), alone, strict=True):
        record = analysis.record()
        assert [tuple_["words"] for tuple_ in record["tuples"]] == [tuple_["words"] for tuple_ in expected["tuples"]]
        assert record["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)


def test_the_pictures_of_a_training_are_of_own_words(extractors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(extractors)
    for run in ("tuples", "half"):
        model = Model.load(f"runs/{run}", threads=1)
        chosen = examples(model.recipe.data, model.vocabulary)
        words = [sentence.words for sentence in chosen]
        assert [" ".join(of_sentence) for of_sentence in words] == [t for t in TEXTS if 5 <= len(t.split()) <= 15]
        page = Path(f"runs/{run}/trees/index.html").read_text(encoding="utf-8")
        records = [json.loads(part.split("</script>")[0]) for part in page.split('class="sentence">')[1:]]
        assert [record["words"] for record in records] == words


def test_latent_labels_are_about_own_words(
    extractors: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(extractors)
    file = tmp_path / "some.txt"
    file.write_text(Path("tuples.txt").read_text("utf-8"), encoding="utf-8")
    found = invoke("eval", "runs/tuples", str(file), "--labels", "--top", "50", "--json").json["labels"]
    words = {entry["word"] for label in found for entry in label["words"]}
    assert words
    assert not words & set(extra_words(3))
    assert sum(label["count"] for label in found) <= sum(len(text.split()) for text in TEXTS) + 0.01
