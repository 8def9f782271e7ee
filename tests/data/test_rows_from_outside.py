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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from probtrans_cli.data.corpus.prepared import open_prepared, prepare
from probtrans_cli.data.readers import READERS, Reader, format_of, register
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import VOCABULARIES, VocabularyKind
from probtrans_cli.data.vocabularies import register as register_vocabulary
from probtrans_cli.data.vocabularies.base import UNKNOWN, EncodedText, EncodedWords, Saved, Vocabulary, write_saved
from probtrans_cli.recipe.data import Data, Format, VocabularySection
from probtrans_cli.recipe.schema import Recipe


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


def read_slashed(lines: Iterable[str], name: str, data: Data) -> Iterator[Sentence]:
    for number, line in enumerate(lines, start=1):
        pairs = [pair.split("/") for pair in line.split()]
        words, tags = [word for word, _ in pairs], [tag for _, tag in pairs]
        yield Sentence(words=words, tags={"upos": tags}, where=f"{name}:{number}")


def build(section: Letters, sentences: Iterable[Sequence[str]]) -> LetterVocabulary:
    return LetterVocabulary(section.first)  # learns nothing from the sentences; their labels are counted all the same


def load(folder: Path, saved: Saved) -> LetterVocabulary:
    return LetterVocabulary(**saved.options)


register_vocabulary(VocabularyKind(Letters, build, load))
slashed = Format("slashed", frozenset({"words", "tags"}), ("upos",), endings=(".slashed",))
register(Reader(slashed, read_slashed))

Path("a.slashed").write_text("the/DET goat/NOUN\\nbleats/VERB\\n")
assert format_of("a.SLASHED") == "slashed"
vocabulary = {"kind": "letters", "first": "b"}
data = {"train": "a.slashed", "format": "slashed", "vocabulary": vocabulary}
recipe = Recipe.model_validate({"name": "x", "data": {**data, "format": "auto"}, "task": {"kind": "tagging"}})
for fresh in (True, False):
    made = prepare(recipe)
    assert made.fresh is fresh
    assert made.labels == {"upos": ["DET", "NOUN", "VERB"]}
    assert [made.vocabulary.decode(id) for id in made.splits["train"].column("ids")] == ["t", "g", "b"]
assert made.manifest["data"]["vocabulary"] == vocabulary
assert open_prepared(made.folder).vocabulary.first == "b"
made = prepare(Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "tagging"}}))
assert made.labels == {"upos": ["DET", "NOUN", "VERB"]}
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
