"""What every vocabulary is: ids, with the words of a sentence or the characters of a text that they belong to.

The specials never come out of a corpus by accident: a word spelled `<unk>` is unknown (WikiText marks rare words so),
and a word spelled `<mask>` or `<pad>` is unknown, too, because their ids are instructions to the model.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from probtrans_cli.data.vocabularies.spelling import HashedFeatures
from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.base import NonNegativeInt
from probtrans_cli.text import from_json

PAD, UNKNOWN, MASK = 0, 1, 2
SPECIALS = ("<pad>", "<unk>", "<mask>")  # the specials of all vocabularies but WordPiece, by id
ENDS = ("<cls>", "<sep>")
WORDS_FILE = "vocabulary.json"
DIGITS = re.compile(r"\d+(?:[.,]\d+)*")  # a number, which the option `digits` writes as `N`
_AGAIN = "run `probtrans prepare --force`"
Sentences = Iterable[Sequence[str]] | Counter[str]
"""The words of the training sentences; or, where these have been counted already, how often each of them occurs."""
T = TypeVar("T")


class EncodedWords(NamedTuple):
    """The ids of a sentence of words."""

    ids: list[int]
    word_start: list[int]
    """The position of each word's first id; of a word that is not read, of the id that stands for it."""
    end: int  # the position behind the last word's last id: of `[SEP]` where there is one, else the number of ids
    read: Sequence[int] | None = None
    """The indices of the words that have an id, where not all have; each of them has one id. None = all words."""

    @property
    def word_of_piece(self) -> list[int]:
        """The index of each id's word; -1 for `[CLS]` and `[SEP]`."""
        if self.read is not None:
            return list(self.read)
        words = [-1] * len(self.ids)
        for word, (start, end) in enumerate(pairwise([*self.word_start, self.end])):
            words[start:end] = [word] * (end - start)
        return words

    @property
    def sizes(self) -> list[int]:
        """The number of ids of each word; 0 for a word that is not read."""
        counts = Counter(self.word_of_piece)
        return [counts[word] for word in range(len(self.word_start))]


class EncodedText(NamedTuple):
    """The ids of running text."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    """The characters ``[begin, end)`` of each id in the text: ``(0, 0)`` for `[CLS]` and `[SEP]`, an empty stretch for
    a mark that has no character, and the same stretch for all ids that one character became."""
    segments: list[int]  # for each id 0, or 1 in the second of two texts


def joined(pieces: Iterable[list[int]]) -> EncodedWords:
    """Return the ids of a sentence from those of each of its words."""
    ids: list[int] = []
    first: list[int] = []
    for of_word in pieces:
        first.append(len(ids))
        ids += of_word
    return EncodedWords(ids, first, len(ids))


class Vocabulary(ABC):
    """What every vocabulary has and does. ``PAD``, ``UNKNOWN`` and ``MASK`` are ids."""

    size: int  # the number of ids, specials included
    counts: Mapping[str, int]  # how often each word, normalised, occurs in the training file
    lowercase: bool = False  # whether words are looked up and counted in lower case
    digits: bool = False  # whether every number is looked up and counted as `N`
    PAD: int = PAD
    UNKNOWN: int = UNKNOWN
    MASK: int = MASK
    specials: tuple[int, ...] = (PAD, UNKNOWN, MASK)  # ids that are no words: they are never hidden
    units: str = "pieces"  # what messages call the entries: `words` or `pieces`
    divides: bool = True
    """Whether a word may have several ids, of which the first represents it, or none."""
    begins: bool = False
    """Whether every sentence begins with a special, whose state represents it (:class:`EnclosingVocabulary`)."""
    omits: bool = False
    """Whether some words have no id; the id of a word beside them then stands for them."""
    features: HashedFeatures | None = None  # features of the spelling of words; None without
    entry_counts: Sequence[int] | None = None
    """Training counts of the entries behind the specials, by id, where each entry is a whole word; None elsewhere."""

    @abstractmethod
    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of a sentence, and the position of each word's first id. Every word that is read has at least
        one id, if need be ``UNKNOWN``, and none of them is another special.

        Args:
            extra: the number of extra words at its end. Each has an entry of its own that no other word has, whatever
                its spelling; see :attr:`probtrans_cli.data.sentence.Sentence.extra`.
        """

    @abstractmethod
    def encode_text(self, text: str) -> EncodedText:
        """Divide running text into words; return the ids, and the characters of each id."""

    @abstractmethod
    def decode(self, id: int) -> str:
        """Return the word or piece of an id (0 <= id < size)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the vocabulary's files into an existing folder."""

    def normalise(self, word: str) -> str:
        """Return the word as it is looked up and counted."""
        return normalise(word, lowercase=self.lowercase, digits=self.digits)

    def frequency(self, word: str) -> int:
        """Return how often the word, after normalisation, occurs in the training file; 0 for an unknown word."""
        return self.counts.get(self.normalise(word), 0)

    def frequencies(self, words: Sequence[str]) -> list[int]:
        return list(map(self.frequency, words))

    def knows(self, word: str) -> bool:
        """Return whether a word has ids of its own."""
        return self.UNKNOWN not in self.encode_words([word]).ids


class EnclosingVocabulary(Vocabulary):
    """A vocabulary whose sentences have a special entry in front, ``FIRST``, and one behind, ``LAST``."""

    FIRST: int
    LAST: int
    begins: bool = True

    @abstractmethod
    def encode_part(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of words within a longer text, without ``FIRST`` and ``LAST``; ``extra``: as in
        :meth:`encode_words`."""

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        part = self.encode_part(words, extra)
        assert part.read is None, "a recipe that leaves words out has nothing around its sentences"
        start = [position + 1 for position in part.word_start]
        return EncodedWords([self.FIRST, *part.ids, self.LAST], start, part.end + 1)


class Enclosed(EnclosingVocabulary):
    """A plain vocabulary with the entries `<cls>` and `<sep>` added; the other ids stay as they are."""

    def __init__(self, plain: Vocabulary) -> None:
        self.plain = plain
        self.units = plain.units
        self.PAD, self.UNKNOWN, self.MASK = plain.PAD, plain.UNKNOWN, plain.MASK
        self.FIRST, self.LAST = plain.size, plain.size + 1
        self.size = plain.size + len(ENDS)
        self.specials: tuple[int, ...] = (*plain.specials, self.FIRST, self.LAST)

    def encode_part(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        return self.plain.encode_words(words, extra)

    def encode_text(self, text: str) -> EncodedText:
        ids, offsets, segments = self.plain.encode_text(text)
        return EncodedText([self.FIRST, *ids, self.LAST], [(0, 0), *offsets, (0, 0)], [0, *segments, 0])

    def decode(self, id: int) -> str:
        return self.plain.decode(id) if id < self.FIRST else ENDS[id - self.FIRST]

    def normalise(self, word: str) -> str:
        return self.plain.normalise(word)

    def frequency(self, word: str) -> int:
        return self.plain.frequency(word)

    def save(self, folder: Path) -> None:
        self.plain.save(folder)
        write_saved(folder, read_saved(folder)._replace(enclosed=True))


def enclosing(vocabulary: Vocabulary) -> EnclosingVocabulary:
    """Return the vocabulary itself if its sentences have such entries around them, else with the entries added."""
    return cast(EnclosingVocabulary, vocabulary) if vocabulary.begins else Enclosed(vocabulary)


def no_extra_word(name: str) -> DataError:
    """Return the error that the vocabulary has no entry for an extra word."""
    hint = "data.grid.extra_words=[] does without extra words"
    return DataError(f"the vocabulary has no entry {name} for an extra word", hint=hint)


@lru_cache(maxsize=1 << 14)
def normalise(word: str, *, lowercase: bool = False, digits: bool = False) -> str:
    """Apply the options of a vocabulary to a word: lower case, and every number to `N` (1,234.5 -> N; 3rd -> Nrd)."""
    if lowercase:
        word = word.lower()
    return DIGITS.sub("N", word) if digits else word


def count_words(sentences: Sentences, *, lowercase: bool = False, digits: bool = False) -> Counter[str]:
    """Count the words after the options of a vocabulary; the sentences are read once."""
    raw = sentences if isinstance(sentences, Counter) else Counter(chain.from_iterable(sentences))
    counts: Counter[str] = Counter()
    for word, count in raw.items():
        counts[normalise(word, lowercase=lowercase, digits=digits)] += count
    return counts


def ordered(counts: Counter[str], without: Collection[str] = SPECIALS) -> dict[str, int]:
    """Return words with their counts by falling count, equal counts alphabetically, without the specials' names."""
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: count for word, count in items if word not in without}


# --- vocabulary.json --------------------------------------------------------------------------------------------------


class SavedOptions(BaseModel):
    """What a kind keeps beside the words: a class of its own for each kind, with one field a key."""

    model_config = ConfigDict(extra="forbid", strict=True)


Form = TypeVar("Form", bound=SavedOptions)


class Saved(NamedTuple):
    """The content of ``vocabulary.json``."""

    kind: str
    options: dict[str, Any]  # what the kind keeps beside the words
    words: list[str]  # the words of the training file, normalised
    counts: list[NonNegativeInt]  # how often each of them occurs there
    enclosed: bool = False  # whether `<cls>` and `<sep>` stand around every sentence

    def options_of(self, kind: type[Form]) -> dict[str, Any]:
        """Return the options by name, in the form of their kind; run it within :func:`reading`."""
        return dict(_conforming(kind, self.options, "options."))

    @property
    def count_of(self) -> dict[str, int]:
        return dict(zip(self.words, self.counts, strict=True))


def write_saved(folder: Path, saved: Saved) -> None:
    """Write ``vocabulary.json``, without options that are None."""
    content: dict[str, Any] = {"format": 1, **saved._asdict()}
    content["options"] = {name: value for name, value in saved.options.items() if value is not None}
    if not saved.enclosed:
        del content["enclosed"]
    text = json.dumps(content, ensure_ascii=False, indent=0)
    (folder / WORDS_FILE).write_text(text + "\n", encoding="utf-8")


def read_saved(folder: Path) -> Saved:
    """Read ``vocabulary.json``; run it within :func:`reading`."""
    content = from_json(regular.read_text(folder / WORDS_FILE))
    if not isinstance(content, dict) or content.pop("format", None) != 1:
        raise ValueError("wrong format")
    saved = _conforming(Saved, content)
    if len(saved.words) != len(saved.counts):
        raise ValueError("wrong length")
    return saved


def _conforming(form: type[T], value: Any, begins: str = "") -> T:
    try:
        return TypeAdapter(form).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{begins}{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a vocabulary's file is read into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}", hint=_AGAIN) from None
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path}: damaged vocabulary ({error})", hint=_AGAIN) from None
