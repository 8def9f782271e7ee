"""Vocabularies that divide every word by itself: characters, and sentencepiece's units (Kudo and Richardson 2018).

Every word is one piece or more, and its first piece represents it. A word that is spelled as a special, is too long, or
has no piece at all is one unknown piece.

A character has two entries: one at the beginning of a word, written with sentencepiece's `▁` in front, and one within a
word. So `no one` and `noone` differ, though no piece stands between words. A separate mark in front of every word would
do the same, but it would say nothing about the word that it represents, and it would make sentences longer. A character
is a code point as the corpus has it: `é` may be one code point or, decomposed, two.

Sentencepiece trains a unigram model of pieces, or byte-pair merges, within the words of the training file. Its own
normalisation is off: only the options of the recipe change a word.
"""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from pathlib import Path

from probtrans_cli.data.tokens import token_spans, valid
from probtrans_cli.data.vocabularies.base import (
    MASK,
    PAD,
    SPECIALS,
    UNKNOWN,
    EncodedText,
    EncodedWords,
    Saved,
    SavedOptions,
    Sentences,
    Vocabulary,
    count_words,
    joined,
    no_extra_word,
    normalise,
    ordered,
    reading,
    write_saved,
)
from probtrans_cli.data.vocabularies.spelling import CACHE_SIZE
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import CharacterVocabulary, SubwordVocabulary

LONGEST_WORD = 1000  # characters; a longer word is not divided, but unknown. Whole sentences without spaces fit.
BEGINNING = "▁"
SUBWORDS_FILE = "spm.model"
_LINE_WORDS = 500  # sentencepiece skips lines longer than max_sentence_length bytes; ours are cut before
_LINE_BYTES = 1_000_000
_TOO_LARGE = re.compile(r"value <= (\d+)")
_TOO_SMALL = re.compile(r"required_chars\. \d+ vs (\d+)")


class Pieces(Vocabulary):
    """A vocabulary that divides every word by itself."""

    def __init__(self, counts: Mapping[str, int], *, lowercase: bool) -> None:
        self.counts, self.lowercase = dict(counts), lowercase
        self._segment = lru_cache(CACHE_SIZE)(self._ids_of)

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of all pieces, and the position of each word's first piece; there are no extra words."""
        if extra:
            raise no_extra_word(words[-extra])
        return joined(map(self._segment, words))

    def encode_text(self, text: str) -> EncodedText:
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for start, end in token_spans(text):
            ids += self._segment(text[start:end])
            offsets += [(start + begin, start + stop) for begin, stop in self._spans(text[start:end])]
        return EncodedText(ids, offsets, [0] * len(ids))

    @abstractmethod
    def _divide(self, word: str) -> list[int]:
        """Return the ids of a normalised word."""

    def _lengths(self, word: str) -> Iterable[int]:
        """Return the number of characters of each piece of a normalised word, without a blank; here 1 for each."""
        return repeat(1, len(word))

    def _ids_of(self, word: str) -> list[int]:
        normal = self.normalise(word)
        return (self._divide(normal) if _divisible(normal) else []) or [UNKNOWN]

    def _spans(self, word: str) -> list[tuple[int, int]]:
        """Return the characters ``[begin, end)`` of each piece in the word as it is written."""
        normal = self.normalise(word)
        lengths = list(self._lengths(normal)) if _divisible(normal) else []
        if not lengths:
            return [(0, len(word))]
        # Some characters become two in lower case (`İ`). For each character in lower case: its place in the word.
        places = enumerate(word)
        written = [place for place, letter in places for _ in (letter.lower() if self.lowercase else letter)]
        written.append(len(word))
        return [
            (written[start], written[end - 1] + 1 if end > start else written[start])
            for start, end in pairwise(accumulate(lengths, initial=0))
        ]


def _divisible(word: str) -> bool:
    return word not in SPECIALS and len(word) <= LONGEST_WORD


# --- characters -------------------------------------------------------------------------------------------------------


class Characters(Pieces):
    """Characters. Ids are the specials, then all characters at the beginning of a word, then all within a word, each by
    falling training count, equal counts by code point."""

    def __init__(self, characters: str, counts: Mapping[str, int], *, lowercase: bool) -> None:
        """``characters``, each once, in the order of their ids; ``counts`` of whole words."""
        super().__init__(counts, lowercase=lowercase)
        self.characters = characters
        self.size = len(SPECIALS) + 2 * len(characters)
        self._first = {character: id for id, character in enumerate(characters, start=len(SPECIALS))}
        behind = len(SPECIALS) + len(characters)
        self._within = {character: id for id, character in enumerate(characters, start=behind)}

    def decode(self, id: int) -> str:
        if id < len(SPECIALS):
            return SPECIALS[id]
        within, number = divmod(id - len(SPECIALS), len(self.characters))
        return self.characters[number] if within else BEGINNING + self.characters[number]

    def save(self, folder: Path) -> None:
        options = {"lowercase": self.lowercase, "characters": self.characters}
        write_saved(folder, Saved("char", options, [*self.counts], [*self.counts.values()]))

    def _divide(self, word: str) -> list[int]:
        ids = [self._within.get(character, UNKNOWN) for character in word]
        ids[:1] = [self._first.get(character, UNKNOWN) for character in word[:1]]
        return ids


class _CharacterOptions(SavedOptions):
    lowercase: bool
    characters: str


def build_characters(section: CharacterVocabulary, sentences: Sentences) -> Characters:
    """Make a vocabulary of the characters of the training sentences (read once) that are frequent enough."""
    of_words = ordered(count_words(sentences, lowercase=section.lowercase))
    of_characters: Counter[str] = Counter()
    for word, count in of_words.items():
        for character in word:
            of_characters[character] += count
    frequent = [character for character, count in ordered(of_characters).items() if count >= section.min_count]
    if not frequent:
        hint = f"lower data.vocabulary.min_count (it is {section.min_count}) or give a larger training file"
        raise DataError("the vocabulary is empty: no training character is frequent enough", hint=hint)
    return Characters("".join(frequent), of_words, lowercase=section.lowercase)


def load_characters(folder: Path, saved: Saved) -> Characters:  # noqa: ARG001
    return Characters(counts=saved.count_of, **saved.options_of(_CharacterOptions))


# --- sentencepiece ----------------------------------------------------------------------------------------------------


class Subwords(Pieces):
    """Sentencepiece units."""

    def __init__(self, model: bytes, counts: Mapping[str, int], *, lowercase: bool) -> None:
        import sentencepiece  # noqa: PLC0415  (a word vocabulary does without)

        super().__init__(counts, lowercase=lowercase)
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size = int(self._processor.get_piece_size())

    def decode(self, id: int) -> str:
        """Return the piece of an id (0 <= id < size); `▁` marks the beginning of a word."""
        return str(self._processor.id_to_piece(id))

    def save(self, folder: Path) -> None:
        (folder / SUBWORDS_FILE).write_bytes(self.model)
        options = {"lowercase": self.lowercase}
        write_saved(folder, Saved("sentencepiece", options, [*self.counts], [*self.counts.values()]))

    def _divide(self, word: str) -> list[int]:
        ids: list[int] = self._processor.encode(valid(word))  # a lone `▁` has none
        return ids

    def _lengths(self, word: str) -> Iterator[int]:
        # Versions of the package differ in how they count offsets. But the pieces of a word without a blank spell the
        # word behind one `▁`; only characters at its end that are `▁` themselves are dropped.
        for number, piece in enumerate(self._processor.encode(valid(word), out_type=str)):
            yield len(piece) - (number == 0)


class _SubwordOptions(SavedOptions):
    lowercase: bool


def build_subwords(section: SubwordVocabulary, sentences: Iterable[Sequence[str]]) -> Subwords:
    """Train sentencepiece on the training sentences (read once).

    Raises:
        RecipeError: there cannot be as many, or as few, pieces as ``section.size`` of this corpus.
    """
    import sentencepiece  # noqa: PLC0415  (a word vocabulary does without)

    counts: Counter[str] = Counter()
    faults: list[BaseException] = []  # of the sentences: sentencepiece makes an error of its own of each

    def lines() -> Iterator[str]:
        try:
            for sentence in sentences:
                words = [normalise(word, lowercase=section.lowercase) for word in sentence]
                words = [word for word in words if word not in SPECIALS]
                counts.update(words)
                for start in range(0, len(words), _LINE_WORDS):
                    yield " ".join(words[start : start + _LINE_WORDS])
        except (Exception, KeyboardInterrupt) as error:
            faults.append(error)
            raise

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
    except Exception as error:
        if faults:
            raise faults[0] from None
        if not isinstance(error, RuntimeError):
            raise
        if not counts:
            raise DataError("no word to train sentencepiece on", hint="give a larger training file") from None
        message, hint = f"sentencepiece cannot be trained: {error}", "try another data.vocabulary.size"
        if largest := _TOO_LARGE.search(str(error)):
            message = f"data.vocabulary.size: {section.size} pieces are too many for this corpus"
            hint = f"set data.vocabulary.size={largest[1]} or less, or use kind: words"
        elif smallest := _TOO_SMALL.search(str(error)):
            message = f"data.vocabulary.size: {section.size} pieces are fewer than the characters"
            hint = f"set data.vocabulary.size={smallest[1]} or more"
        raise RecipeError(message, hint=hint) from None
    return Subwords(model.getvalue(), ordered(counts), lowercase=section.lowercase)


def load_subwords(folder: Path, saved: Saved) -> Subwords:
    """Load the pieces that ``save`` wrote."""
    path = folder / SUBWORDS_FILE
    with reading(path):
        content = regular.read_bytes(path)
        if not content:  # for sentencepiece a model that is given later
            raise ValueError("no bytes")
        subwords = Subwords(content, saved.count_of, **saved.options_of(_SubwordOptions))
        if [subwords.decode(id) for id in range(subwords.size)][: len(SPECIALS)] != list(SPECIALS):  # each is UTF-8
            raise ValueError(f"the first pieces are not {', '.join(SPECIALS)}")
        subwords._divide("a")
        return subwords
