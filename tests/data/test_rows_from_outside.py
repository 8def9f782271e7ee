"""A vocabulary and a format that are defined outside of the package: one row each, then `prepare` knows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import environment

from probtrans_cli.data.readers import READERS, Reader, register
from probtrans_cli.recipe.data import FORMATS, Format

OUTSIDE = '''
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from probtrans_cli.data.corpus.prepared import open_prepared, prepare
from probtrans_cli.data.readers import format_of
from probtrans_cli.data.vocabularies import VocabularyKind, register
from probtrans_cli.data.vocabularies.base import UNKNOWN, EncodedText, EncodedWords, Saved, Vocabulary, write_saved
from probtrans_cli.recipe.data import VocabularySection
from probtrans_cli.recipe.schema import Recipe
from tests.outside import slashed  # a format


class Letters(VocabularySection):
    """A word is its first letter."""

    kind: Literal["letters"]
    first: str = "a"
    """The letter of the first id."""


class LetterVocabulary(Vocabulary):
    divides = False

    def __init__(self, first: str) -> None:
        self.first = first

    @property
    def size(self) -> int:
        return 3 + 26

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        ids = [3 + (ord(word[0].lower()) - ord(self.first)) % 26 if word[:1].isalpha() else UNKNOWN for word in words]
        return EncodedWords(ids, list(range(len(ids))), len(ids))

    def encode_text(self, text: str) -> EncodedText:
        return EncodedText(self.encode_words(text.split()).ids, [], [])

    def decode(self, id: int) -> str:
        return chr(ord(self.first) + id - 3)

    def normalise(self, word: str) -> str:
        return word[:1].lower()

    def frequency(self, word: str) -> int:
        return 1

    def save(self, folder: Path) -> None:
        write_saved(folder, Saved("letters", {"first": self.first}, [], []))


def build(section: Letters, sentences: Iterable[Sequence[str]]) -> LetterVocabulary:
    return LetterVocabulary(section.first)  # learns nothing from the sentences; their labels are counted all the same


def load(folder: Path, saved: Saved) -> LetterVocabulary:
    return LetterVocabulary(**saved.options)


register(VocabularyKind(Letters, build, load))
Path("a.slashed").write_text("the/DET goat/NOUN\\nbleats/VERB\\n")
assert format_of("a.SLASHED") == "slashed"
vocabulary = {"kind": "letters", "first": "b"}
data, task = {"train": "a.slashed", "vocabulary": vocabulary}, {"kind": "tagging", "column": "tag"}
for format, fresh in (("auto", True), ("auto", False), ("slashed", True)):
    made = prepare(Recipe.model_validate({"name": "x", "data": {**data, "format": format}, "task": task}))
    assert made.fresh is fresh
    assert made.labels == {"tag": ["DET", "NOUN", "VERB"]}
    assert [made.vocabulary.decode(id) for ids in made.splits["train"].columns("ids") for id in ids] == ["t", "g", "b"]
assert made.manifest["data"]["vocabulary"] == vocabulary
assert open_prepared(made.folder).vocabulary.first == "b"
'''


def test_a_vocabulary_and_a_format_of_another_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_is_taken_once() -> None:
    reader = READERS["text"]
    assert register(reader) is reader
    with pytest.raises(ValueError, match="there is a data format 'text' already"):
        register(Reader(Format("text", frozenset()), reader.read))
    assert FORMATS["text"] is reader.format
