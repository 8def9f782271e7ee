"""What a trained model answers to sentences: by whole runs, against the scores of the same run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import batch_of, word_scores

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.tasks.base import Prediction
from probtrans_cli.trained.evaluation import task_scores
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import predictions


@pytest.fixture(scope="module")
def tagger(trained: Path) -> Model:
    return Model.load(str(trained / "runs/tagger"), threads=1)


@pytest.fixture(scope="module")
def sentences(trained: Path) -> list[Sentence]:
    """Those of dev, the longest first, so that batches take them in another order."""
    with (trained / "dev.conllu").open(encoding="utf-8") as lines:
        found = list(read_conllu(lines, "dev"))
    return sorted(found, key=lambda sentence: -len(sentence.words))


def test_tags_are_the_best_of_each_word(tagger: Model, sentences: list[Sentence]) -> None:
    """One sentence at a time, from the scores."""
    found = list(predictions(tagger, sentences))
    assert len(found) == len(sentences)
    for sentence, prediction in zip(sentences, found, strict=True):
        ids = torch.tensor([tagger.vocabulary.encode_words(sentence.words).ids])
        every = torch.ones_like(ids, dtype=torch.bool)
        with torch.no_grad():
            chances = word_scores(tagger.network, ids, every, every).softmax(-1)
        best, tags = chances.max(-1)
        assert prediction["tags"] == [tagger.labels["xpos"][id] for id in tags.tolist()]
        assert prediction["tag_probability"] == pytest.approx(best.tolist(), rel=1e-4)


def test_tags_are_those_that_the_accuracy_is_computed_from(tagger: Model, sentences: list[Sentence]) -> None:
    split = Split.encode(sentences, tagger.vocabulary, tagger.labels)
    accuracy = task_scores(tagger, split, final=True)["accuracy"]
    right = [
        guess == gold
        for sentence, prediction in zip(sentences, predictions(tagger, sentences), strict=True)
        for guess, gold in zip(prediction["tags"], sentence.tags["xpos"], strict=True)
    ]
    assert 0.0 < accuracy < 1.0
    assert np.mean(right) == pytest.approx(accuracy, abs=1e-12)


def test_order_is_kept_and_an_empty_sentence_has_no_answer(tagger: Model, sentences: list[Sentence]) -> None:
    empty = Sentence([])
    alone = [next(predictions(tagger, [sentence])) for sentence in sentences]
    mixed = [empty, *sentences[:3], empty, *sentences[3:], empty]
    answers = list(predictions(tagger, mixed))
    assert [index for index, answer in enumerate(answers) if answer is None] == [0, 4, len(mixed) - 1]
    tags = [answer["tags"] for answer in answers if answer is not None]
    assert tags == [answer["tags"] for answer in alone]
    assert list(map(len, tags)) == [len(sentence.words) for sentence in sentences]
    assert list(predictions(tagger, [])) == []
    assert list(predictions(tagger, [empty, empty])) == [None, None]


def test_gold_labels_are_never_read(tagger: Model, sentences: list[Sentence]) -> None:
    bare = [Sentence(sentence.words) for sentence in sentences]
    wrong = [replace(sentence, tags={"xpos": ["no tag of train"] * len(sentence.words)}) for sentence in sentences]
    expected = list(predictions(tagger, sentences))
    assert list(predictions(tagger, bare)) == expected
    assert list(predictions(tagger, wrong)) == expected


def test_a_network_in_training_predicts_without_dropout(tagger: Model, sentences: list[Sentence]) -> None:
    expected = list(predictions(tagger, sentences[:4]))
    tagger.network.train()
    assert list(predictions(tagger, sentences[:4])) == expected


def with_its_second_word_hidden(model: Model, sentence: Sentence) -> Prediction:
    """What the task says of a sentence whose second word the network reads as the mask."""
    batch = batch_of(model.task, Split.encode([sentence], model.vocabulary, {}), [0])
    ids = batch.ids.clone()
    ids[0, 1] = model.vocabulary.MASK
    batch = replace(batch, ids=ids)
    with torch.no_grad():
        (found,) = model.task.predict(model.network(batch, model.task.wants(batch)), batch)
    return found


def test_nothing_is_hidden_for_a_language_model(trained: Path, sentences: list[Sentence]) -> None:
    """It fills what is written as a mask, and nothing else."""
    model = Model.load(str(trained / "runs/tiny"), threads=1)
    assert list(predictions(model, sentences)) == [{"masks": []}] * len(sentences)
    (mask,) = with_its_second_word_hidden(model, sentences[0])["masks"]
    assert mask["word"] == 1
    assert len(mask["words"]) == len(mask["probabilities"]) == 5
    assert mask["probabilities"] == sorted(mask["probabilities"], reverse=True)


def test_words_written_as_a_mask_are_filled(trained: Path, sentences: list[Sentence]) -> None:
    """What stood in the mask's place says nothing; the words around it do."""
    model = Model.load(str(trained / "runs/tiny"), threads=1)
    words = list(sentences[0].words)
    hidden = Sentence([*words[:1], "[MASK]", *words[2:]])
    own = Sentence([*words[:1], model.vocabulary.decode(model.vocabulary.MASK), *words[2:]])
    found, same, nothing = predictions(model, [hidden, own, sentences[0]])
    assert found == same
    assert nothing == {"masks": []}
    expected = with_its_second_word_hidden(model, sentences[0])
    assert [mask["words"] for mask in found["masks"]] == [mask["words"] for mask in expected["masks"]]
    assert found["masks"][0]["probabilities"] == pytest.approx(expected["masks"][0]["probabilities"], rel=1e-5)


def test_a_sentence_that_is_too_long_is_named(
    tagger: Model, sentences: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger.network, "longest", 3)
    where = replace(sentences[0], where="some.txt:7")
    with pytest.raises(DataError, match=r"some\.txt:7: a sentence of \d+ tokens, and the model has 3 positions"):
        list(predictions(tagger, [Sentence(["a", "b"]), where]))
