"""What the model reads: whole words, or sentencepiece units; both give ids from 0 with the same three specials first.
A third kind, BERT's, is in :mod:`probtrans_cli.data.wordpiece`.

The specials never come out of a corpus by accident: a word spelled `<unk>` is unknown (WikiText marks rare words so),
and one spelled `<mask>` or `<pad>` is unknown too, because their ids are instructions to the model.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, Protocol

from probtrans_cli.data.features import HashedFeatures
from probtrans_cli.data.tokens import one_after_the_other
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.recipe_data import SubwordVocabulary, WordFeatures, WordPieceVocabulary, WordVocabulary

PAD, UNKNOWN, MASK = 0, 1, 2
SPECIALS = ("<pad>", "<unk>", "<mask>")
WORDS_FILE, SUBWORDS_FILE = "vocabulary.json", "spm.model"
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_CACHE_SIZE = 200_000  # words whose segmentation is remembered
_LINE_WORDS = 500  # sentencepiece skips lines longer than max_sentence_length bytes; ours are cut before
_LINE_BYTES = 1_000_000
_AGAIN = "run `probtrans prepare --force`"
_TOO_LARGE = re.compile(r"value <= (\d+)")
_TOO_SMALL = re.compile(r"required_chars\. \d+ vs (\d+)")


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

    def encode(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the ids of a sentence, and for each word the position of its first id."""

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

    def encode(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return one id for each word that is read, and for each word the position of its own, or of what it hangs at:
        the word before it that is read, or else the first one."""
        look_up = self._ids.get
        read = [self.reads(word) for word in words] if self.omits else [True] * len(words)
        ids = [look_up(self.normalise(word), UNKNOWN) for word in compress(words, read)]
        return ids, [max(position - 1, 0) for position in accumulate(read)]

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


class Subwords:
    """Sentencepiece units; every word is segmented by itself and its first piece represents it."""

    PAD: int = PAD
    UNKNOWN: int = UNKNOWN
    MASK: int = MASK
    specials: tuple[int, ...] = (PAD, UNKNOWN, MASK)
    divides: bool = True
    begins: bool = False
    omits: bool = False
    features: None = None

    def __init__(self, model: bytes, counts: dict[str, int], *, lowercase: bool) -> None:
        """``model`` is a serialised sentencepiece model with the specials as ids 0, 1, 2; ``counts`` of whole words."""
        import sentencepiece  # noqa: PLC0415  (a word vocabulary does without)

        self.model = model
        self.counts = counts
        self.lowercase = lowercase
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._pieces: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """Number of ids, specials included."""
        return int(self._processor.get_piece_size())

    def encode(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the ids of all pieces, and for each word the position of its first piece."""
        return one_after_the_other(map(self._segment, words))

    def decode(self, id: int) -> str:
        """Return the piece of an id (0 <= id < size); `▁` marks the beginning of a word."""
        return str(self._processor.id_to_piece(id))

    def normalise(self, word: str) -> str:
        """Return the word with the options applied."""
        return normalise(word, lowercase=self.lowercase)

    def frequency(self, word: str) -> int:
        """Return the training count of the whole word after normalisation; 0 if it was not seen."""
        return self.counts.get(self.normalise(word), 0)

    def save(self, folder: Path) -> None:
        """Write ``spm.model`` and ``vocabulary.json`` (the counts of whole words)."""
        (folder / SUBWORDS_FILE).write_bytes(self.model)
        options = {"lowercase": self.lowercase}
        words, counts = list(self.counts), list(self.counts.values())
        write_counts(folder, {"kind": "sentencepiece", "options": options, "words": words, "counts": counts})

    def _segment(self, word: str) -> list[int]:
        pieces = self._pieces.get(word)
        if pieces is None:
            normal = self.normalise(word)
            # Some words have no piece at all (a lone `▁`), and every word needs a first one.
            pieces = [UNKNOWN] if normal in SPECIALS else self._processor.encode(normal) or [UNKNOWN]
            if len(self._pieces) >= _CACHE_SIZE:
                self._pieces.clear()
            self._pieces[word] = pieces
        return pieces


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit, so that it is more than punctuation."""
    return any(character.isalnum() for character in token)


@lru_cache(maxsize=1 << 14)
def normalise(word: str, *, lowercase: bool = False, digits: bool = False) -> str:
    """Apply the options of a vocabulary to a word: lower case, and every number to `N` (1,234.5 -> N; 3rd -> Nrd)."""
    if lowercase:
        word = word.lower()
    return _DIGITS.sub("N", word) if digits else word


def build_vocabulary(
    section: WordVocabulary | SubwordVocabulary | WordPieceVocabulary, sentences: Iterable[Sequence[str]]
) -> Vocabulary:
    """Build the vocabulary of the training sentences (read once); the same sentences give the same vocabulary.

    Raises:
        DataError: there is no word to learn from, or the folder of a vocabulary is not one.
        RecipeError: there cannot be as many, or as few, pieces as ``section.size`` of this corpus.
        UsageError: a package for this kind of vocabulary is not installed.
    """
    if isinstance(section, WordVocabulary):
        return _build_words(section, sentences)
    if isinstance(section, WordPieceVocabulary):
        from probtrans_cli.data.wordpiece_building import build_wordpieces  # noqa: PLC0415  (which imports this module)

        return build_wordpieces(section, sentences)
    return _build_subwords(section, sentences)


def _build_words(section: WordVocabulary, sentences: Iterable[Sequence[str]]) -> Words:
    raw: Counter[str] = Counter()
    for words in sentences:
        raw.update(words)
    counts: Counter[str] = Counter()
    for word, count in raw.items():
        counts[normalise(word, lowercase=section.lowercase, digits=section.digits)] += count
    omitted: dict[str, int] | None = None
    if not section.punctuation:
        omitted = {word: count for word, count in _ordered(counts) if not is_word(word)}
        counts -= Counter(omitted)
    kept = [(word, count) for word, count in _ordered(counts) if count >= section.min_count][: section.max_size]
    if not kept:
        hint = f"lower data.vocabulary.min_count (it is {section.min_count}) or give a larger training file"
        raise DataError("the vocabulary is empty: no training word is frequent enough", hint=hint)
    words, kept_counts = zip(*kept, strict=True)
    options = {"lowercase": section.lowercase, "digits": section.digits}
    return Words(words, kept_counts, **options, features=section.features, omitted=omitted)


def _build_subwords(section: SubwordVocabulary, sentences: Iterable[Sequence[str]]) -> Subwords:
    import sentencepiece  # noqa: PLC0415  (a word vocabulary does without)

    counts: Counter[str] = Counter()

    def lines() -> Iterator[str]:
        for sentence in sentences:
            words = [normalise(word, lowercase=section.lowercase) for word in sentence]
            words = [word for word in words if word not in SPECIALS]
            counts.update(words)
            for start in range(0, len(words), _LINE_WORDS):
                yield " ".join(words[start : start + _LINE_WORDS])

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines(),
            model_writer=model,
            vocab_size=section.size,
            model_type=section.algorithm,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=-1,
            eos_id=-1,
            pad_piece=SPECIALS[PAD],
            unk_piece=SPECIALS[UNKNOWN],
            control_symbols=[SPECIALS[MASK]],  # gets the next free id, 2, and is never found in text
            max_sentence_length=_LINE_BYTES,
            shuffle_input_sentence=False,
            num_threads=1,  # the sums of several threads differ in the last bits, and with them the pieces
            minloglevel=2,
        )
    except RuntimeError as error:
        if not counts:
            raise DataError("no word to train sentencepiece on", hint="give a larger training file") from None
        raise _size_error(section, str(error)) from None
    return Subwords(model.getvalue(), dict(_ordered(counts)), lowercase=section.lowercase)


def _size_error(section: SubwordVocabulary, message: str) -> RecipeError:
    if largest := _TOO_LARGE.search(message):
        hint = f"set data.vocabulary.size={largest[1]} or less, or use kind: words"
        return RecipeError(f"data.vocabulary.size: {section.size} pieces are too many for this corpus", hint=hint)
    if smallest := _TOO_SMALL.search(message):
        hint = f"set data.vocabulary.size={smallest[1]} or more"
        return RecipeError(f"data.vocabulary.size: {section.size} pieces are fewer than the characters", hint=hint)
    return RecipeError(f"sentencepiece cannot be trained: {message}", hint="try another data.vocabulary.size")


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
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
            from probtrans_cli.data.wordpiece import read_wordpieces  # noqa: PLC0415  (which imports this module)

            found = read_wordpieces(folder, counts=dict(zip(words, counts, strict=True)), **options)
        else:
            path = folder / SUBWORDS_FILE
            found = Subwords(path.read_bytes(), dict(zip(words, counts, strict=True)), **options)
        if content.get("enclosed", False):
            from probtrans_cli.data.enclosed import Enclosed  # noqa: PLC0415  (which imports this module)

            return Enclosed(found)
        return found
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}", hint=_AGAIN) from None
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path}: damaged vocabulary ({error})", hint=_AGAIN) from None
