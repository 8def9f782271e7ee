"""What the model reads, behind one interface: :class:`Vocabulary`. Whole words are here; words are divided into
sentencepiece's units by :mod:`~probtrans_cli.data.vocabularies.sentencepiece`, into characters by :mod:`~probtrans_cli.data.vocabularies.characters`,
and as BERT does by :mod:`~probtrans_cli.data.vocabularies.wordpiece`. The first three have the same three specials, ids 0 to 2.

The specials never come out of a corpus by accident: a word spelled `<unk>` is unknown (WikiText marks rare words so),
and one spelled `<mask>` or `<pad>` is unknown too, because their ids are instructions to the model.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, Protocol

from probtrans_cli.data.tokens import token_spans
from probtrans_cli.data.vocabularies.encoded import EncodedText, EncodedWords
from probtrans_cli.data.vocabularies.features import HashedFeatures
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import (
    CharacterVocabulary,
    VocabularySection,
    WordFeatures,
    WordPieceVocabulary,
    WordVocabulary,
)

PAD, UNKNOWN, MASK = 0, 1, 2
SPECIALS = ("<pad>", "<unk>", "<mask>")
WORDS_FILE, SUBWORDS_FILE = "vocabulary.json", "spm.model"
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_AGAIN = "run `probtrans prepare --force`"


class Vocabulary(Protocol):
    """What every vocabulary can do. ``PAD``, ``UNKNOWN`` and ``MASK`` are ids."""

    PAD: int
    UNKNOWN: int
    MASK: int
    specials: tuple[int, ...]
    """Ids that are no words: they are never hidden."""
    divides: bool
    """Whether a word may have several ids, of which the first represents it."""
    begins: bool
    """Whether every sentence begins with a special, whose state represents it."""
    omits: bool
    """Whether some words have no id; another word's then stands for them, which knows nothing of them."""

    @property
    def features(self) -> HashedFeatures | None:
        """Features of the spelling of words; None without."""

    @property
    def size(self) -> int:
        """Number of ids, specials included."""

    def encode_words(self, words: Sequence[str]) -> EncodedWords:
        """Return the ids of a sentence, and for each word the position of its first id; every word that is read has at
        least one, if need be ``UNKNOWN``, and none of them is another special."""

    def encode_text(self, text: str) -> EncodedText:
        """Return the ids of running text, which the vocabulary divides into words, and each one's characters in it."""

    def decode(self, id: int) -> str:
        """Return the word or piece of an id (0 <= id < size)."""

    def normalise(self, word: str) -> str:
        """Return the word as it is looked up and counted."""

    def frequency(self, word: str) -> int:
        """Return how often the word, after normalisation, occurs in the training file; 0 if it is not known."""

    def save(self, folder: Path) -> None:
        """Write the vocabulary's files into an existing folder."""


class Words:
    """Whole words. Ids are the specials, then the words by falling training count, equal counts alphabetically."""

    PAD: int = PAD
    UNKNOWN: int = UNKNOWN
    MASK: int = MASK
    specials: tuple[int, ...] = (PAD, UNKNOWN, MASK)
    begins: bool = False

    def __init__(
        self,
        words: Sequence[str],
        counts: Sequence[int],
        *,
        lowercase: bool,
        digits: bool,
        features: WordFeatures | None = None,
        omitted: Mapping[str, int] | None = None,
    ) -> None:
        """``words`` are normalised, without the specials; ``counts`` are their training counts.

        ``omitted``: punctuation is not read, and these are its training counts.
        """
        self.words = list(words)
        self.counts = list(counts)
        self.lowercase = lowercase
        self.digits = digits
        self.features = None if features is None else HashedFeatures(features)
        self.omitted = None if omitted is None else dict(omitted)
        self.divides = self.omits = omitted is not None
        self._ids = {word: id for id, word in enumerate(self.words, start=len(SPECIALS))}

    @property
    def size(self) -> int:
        """Number of ids, specials included."""
        return len(SPECIALS) + len(self.words)

    def encode_words(self, words: Sequence[str]) -> EncodedWords:
        """Return one id for each word that is read, and for each word the position of its own, or of what it hangs at:
        the word before it that is read, or else the first one."""
        look_up = self._ids.get
        if not self.omits:
            ids = [look_up(self.normalise(word), UNKNOWN) for word in words]
            return EncodedWords(ids, list(range(len(ids))), len(ids))
        read = [self.reads(word) for word in words]
        ids = [look_up(self.normalise(word), UNKNOWN) for word in compress(words, read)]
        start = [max(position - 1, 0) for position in accumulate(read)]
        return EncodedWords(ids, start, len(ids), list(compress(range(len(words)), read)))

    def encode_text(self, text: str) -> EncodedText:
        """Return one id for each token of a text that is read, and its characters."""
        spans = list(token_spans(text))
        encoded = self.encode_words([text[start:end] for start, end in spans])
        return EncodedText(encoded.ids, [spans[word] for word in encoded.word_of_piece], [0] * len(encoded.ids))

    def reads(self, word: str) -> bool:
        """Whether a word has an id, known or not."""
        return not self.omits or is_word(word)

    def decode(self, id: int) -> str:
        """Return the word of an id (0 <= id < size)."""
        return SPECIALS[id] if id < len(SPECIALS) else self.words[id - len(SPECIALS)]

    def frequency(self, word: str) -> int:
        """Return the training count of the word after normalisation; 0 for a word that is not in the vocabulary."""
        normal = self.normalise(word)
        id = self._ids.get(normal)
        return (self.omitted or {}).get(normal, 0) if id is None else self.counts[id - len(SPECIALS)]

    def save(self, folder: Path) -> None:
        """Write ``vocabulary.json``."""
        options: dict[str, Any] = {"lowercase": self.lowercase, "digits": self.digits}
        if self.features is not None:
            options["features"] = self.features.section.model_dump(mode="json")
        if self.omitted is not None:
            options["omitted"] = self.omitted
        write_counts(folder, {"kind": "words", "options": options, "words": self.words, "counts": self.counts})

    def normalise(self, word: str) -> str:
        """Return the word with the options applied."""
        return normalise(word, lowercase=self.lowercase, digits=self.digits)


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit, so that it is more than punctuation."""
    return any(character.isalnum() for character in token)


@lru_cache(maxsize=1 << 14)
def normalise(word: str, *, lowercase: bool = False, digits: bool = False) -> str:
    """Apply the options of a vocabulary to a word: lower case, and every number to `N` (1,234.5 -> N; 3rd -> Nrd)."""
    if lowercase:
        word = word.lower()
    return _DIGITS.sub("N", word) if digits else word


def build_vocabulary(section: VocabularySection, sentences: Iterable[Sequence[str]]) -> Vocabulary:
    """Build the vocabulary of the training sentences (read once); the same sentences give the same vocabulary.

    Raises:
        DataError: there is no word to learn from, or the folder of a vocabulary is not one.
        RecipeError: there cannot be as many, or as few, pieces as ``section.size`` of this corpus.
        UsageError: a package for this kind of vocabulary is not installed.
    """
    if isinstance(section, WordVocabulary):
        return _build_words(section, sentences)
    if isinstance(section, WordPieceVocabulary):
        from probtrans_cli.data.vocabularies.wordpiece_building import build_wordpieces  # noqa: PLC0415  (which imports this module)

        return build_wordpieces(section, sentences)
    if isinstance(section, CharacterVocabulary):
        from probtrans_cli.data.vocabularies.characters import build_characters  # noqa: PLC0415  (which imports this module)

        return build_characters(section, sentences)
    from probtrans_cli.data.vocabularies.sentencepiece import build_subwords  # noqa: PLC0415  (which imports this module)

    return build_subwords(section, sentences)


def _build_words(section: WordVocabulary, sentences: Iterable[Sequence[str]]) -> Words:
    raw: Counter[str] = Counter()
    for words in sentences:
        raw.update(words)
    counts: Counter[str] = Counter()
    for word, count in raw.items():
        counts[normalise(word, lowercase=section.lowercase, digits=section.digits)] += count
    omitted: dict[str, int] | None = None
    if not section.punctuation:
        omitted = {word: count for word, count in ordered(counts) if not is_word(word)}
        counts -= Counter(omitted)
    kept = [(word, count) for word, count in ordered(counts) if count >= section.min_count][: section.max_size]
    if not kept:
        hint = f"lower data.vocabulary.min_count (it is {section.min_count}) or give a larger training file"
        raise DataError("the vocabulary is empty: no training word is frequent enough", hint=hint)
    words, kept_counts = zip(*kept, strict=True)
    options = {"lowercase": section.lowercase, "digits": section.digits}
    return Words(words, kept_counts, **options, features=section.features, omitted=omitted)


def ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """Words with their counts by falling count, equal counts alphabetically, without the specials' names."""
    return sorted(((w, n) for w, n in counts.items() if w not in SPECIALS), key=lambda item: (-item[1], item[0]))


def write_counts(folder: Path, content: dict[str, Any]) -> None:
    """Write ``vocabulary.json``: words with their training counts, and what else there is to keep."""
    text = json.dumps({"format": 1, **content}, ensure_ascii=False, indent=0)
    (folder / WORDS_FILE).write_text(text + "\n", encoding="utf-8")


def load_vocabulary(folder: Path) -> Vocabulary:
    """Load the vocabulary that ``save`` wrote into a folder.

    Raises:
        DataError: a file is missing or damaged.
    """
    path = folder / WORDS_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        words, counts, options = content["words"], content["counts"], content["options"]
        if content["format"] != 1 or len(words) != len(counts):
            raise ValueError("wrong format or length")
        found: Vocabulary
        if content["kind"] == "words":
            features = options.pop("features", None)
            section = None if features is None else WordFeatures.model_validate(features)
            found = Words(words, counts, **options, features=section)
        elif content["kind"] == "wordpiece":
            from probtrans_cli.data.vocabularies.wordpiece import read_wordpieces  # noqa: PLC0415  (which imports this module)

            found = read_wordpieces(folder, counts=dict(zip(words, counts, strict=True)), **options)
        elif content["kind"] == "char":
            from probtrans_cli.data.vocabularies.characters import Characters  # noqa: PLC0415  (which imports this module)

            found = Characters(counts=dict(zip(words, counts, strict=True)), **options)
        elif content["kind"] == "sentencepiece":
            from probtrans_cli.data.vocabularies.sentencepiece import Subwords  # noqa: PLC0415  (which imports this module)

            path = folder / SUBWORDS_FILE
            found = Subwords(path.read_bytes(), dict(zip(words, counts, strict=True)), **options)
        else:
            raise ValueError(f"unknown kind {content['kind']!r}")
        if content.get("enclosed", False):
            from probtrans_cli.data.vocabularies.enclosed import Enclosed  # noqa: PLC0415  (which imports this module)

            return Enclosed(found)
        return found
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}", hint=_AGAIN) from None
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path}: damaged vocabulary ({error})", hint=_AGAIN) from None
