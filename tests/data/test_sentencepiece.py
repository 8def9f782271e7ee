"""Sentencepiece: its pieces, and its limits as errors with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.pieces import Subwords
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.recipe.data import SubwordVocabulary

STEMS = [
    a + b + c for a in ("", "sla", "bro", "ti") for b in ("cat", "dog", "lar", "mon") for c in ("", "s", "ing", "ed")
]
LARGER = [["the", first, "saw", "a", second, "near"] for first in STEMS for second in STEMS]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_subwords(algorithm: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    section = SubwordVocabulary(kind="sentencepiece", size=32, algorithm=algorithm, lowercase=True)  # type: ignore[arg-type]
    subwords = build_vocabulary(section, iter(LARGER))
    assert isinstance(subwords, Subwords)
    assert subwords.size == 32
    assert [subwords.decode(id) for id in range(3)] == ["<pad>", "<unk>", "<mask>"]
    sentence = ["The", "catdog", "▁", "", "\u00a0", "🙂", "saw"]
    ids, first, *_ = subwords.encode_words(sentence)
    assert len(first) == len(sentence)
    assert first == sorted(set(first))
    assert first[-1] < len(ids)
    assert subwords.decode(ids[0]).startswith("▁t")
    pieces = "".join(subwords.decode(id) for id in ids[first[1] : first[2]])
    assert pieces == "▁catdog"
    assert subwords.frequency("NEAR") == len(LARGER)
    assert subwords.frequency("catdog") == 0
    assert len(subwords.encode_words(["x" * 1000]).ids) > 1
    the = subwords.encode_words(["the"]).ids
    assert subwords.encode_words(["the", "x" * 1_000_000])[:2] == ([*the, subwords.UNKNOWN], [0, len(the)])
    assert subwords.encode_text(f"the {'x' * 2000}").offsets[-1] == (4, 2004)
    again = build_vocabulary(section, iter(LARGER))
    assert isinstance(again, Subwords)
    assert again.model == subwords.model
    assert capfd.readouterr() == ("", "")
    subwords.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spm.model", "vocabulary.json"]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_sizes_that_cannot_be(algorithm: str) -> None:
    def section(size: int) -> SubwordVocabulary:
        return SubwordVocabulary(kind="sentencepiece", size=size, algorithm=algorithm)  # type: ignore[arg-type]

    with pytest.raises(RecipeError, match=r"data.vocabulary.size: 8000 pieces are too many") as caught:
        build_vocabulary(section(8000), LARGER)
    largest = int((caught.value.hint or "").split("=")[1].split()[0])
    assert build_vocabulary(section(largest), LARGER).size == largest
    with pytest.raises(RecipeError, match="fewer than the characters") as caught:
        build_vocabulary(section(16), LARGER)
    smallest = int((caught.value.hint or "").split("=")[1].split()[0])
    assert build_vocabulary(section(smallest), LARGER).size == smallest


@pytest.mark.parametrize("error", [DataError("train.conllu:7: no head"), KeyboardInterrupt()], ids=repr)
def test_an_error_of_the_corpus_is_not_one_of_sentencepiece(error: BaseException) -> None:
    def sentences() -> Iterator[list[str]]:
        yield from LARGER
        raise error

    with pytest.raises(type(error)) as caught:
        build_vocabulary(SubwordVocabulary(kind="sentencepiece", size=40), sentences())
    assert caught.value is error
