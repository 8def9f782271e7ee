"""Whole words as the vocabulary."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, compress
from pathlib import Path

from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.tokens import token_spans
from probtrans_cli.data.vocabularies.base import (
    SPECIALS,
    UNKNOWN,
    WORDS_FILE,
    EncodedText,
    EncodedWords,
    Saved,
    SavedOptions,
    Sentences,
    Vocabulary,
    count_words,
    no_extra_word,
    ordered,
    read_saved,
    reading,
    write_saved,
)
from probtrans_cli.data.vocabularies.spelling import HashedFeatures
from probtrans_cli.errors import DataError
from probtrans_cli.folders import find_folder, holds, regular
from probtrans_cli.folders.checkpoints import locate
from probtrans_cli.recipe.base import NonNegativeInt
from probtrans_cli.recipe.data import WordFeatures, WordVocabulary


class Words(Vocabulary):
    """Whole words. Ids are the specials, then the words by falling training count, equal counts alphabetically."""

    units = "words"

    def __init__(
        self,
        words: Sequence[str],
        counts: Sequence[int],
        *,
        lowercase: bool,
        digits: bool,
        features: WordFeatures | None = None,
        omitted: Mapping[str, int] | None = None,
        extra: int = 0,
    ) -> None:
        """
        Args:
            words: by id, normalised, without the specials.
            counts: of the training sentences.
            omitted: punctuation is not read, and these are its training counts.
            extra: the number of extra words at the end of ``words``."""
        self.words = list(words)
        self.size = len(SPECIALS) + len(words)
        self.entry_counts: list[int] = list(counts)
        self.lowercase = lowercase
        self.digits = digits
        self._changes = lowercase or digits
        self.features = None if features is None else HashedFeatures(features)
        self.omitted = None if omitted is None else dict(omitted)
        self.divides = self.omits = omitted is not None
        self._ids = {word: id for id, word in enumerate(self.words, start=len(SPECIALS))}
        self._extra = {word: self._ids.pop(word) for word in self.words[len(words) - extra :]}
        self.counts = dict(zip(self._ids, self.entry_counts, strict=False)) | dict(omitted or {})

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return one id for each word that is read. A word that is not read has the position of the word before it that
        is read, or else of the first word."""
        own = words[: len(words) - extra] if extra else words
        look_up = self._ids.get
        ids = [look_up(word, UNKNOWN) for word in (map(self.normalise, own) if self._changes else own)]
        for name in words[len(words) - extra :]:
            if name not in self._extra:
                raise no_extra_word(name)
            ids.append(self._extra[name])
        if not self.omits:
            return EncodedWords(ids, list(range(len(ids))), len(ids))
        read = [is_word(word) for word in words]
        ids = list(compress(ids, read))
        start = [max(position - 1, 0) for position in accumulate(read)]
        return EncodedWords(ids, start, len(ids), list(compress(range(len(words)), read)))

    def encode_text(self, text: str) -> EncodedText:
        spans = list(token_spans(text))
        encoded = self.encode_words([text[start:end] for start, end in spans])
        return EncodedText(encoded.ids, [spans[word] for word in encoded.word_of_piece], [0] * len(encoded.ids))

    def decode(self, id: int) -> str:
        return SPECIALS[id] if id < len(SPECIALS) else self.words[id - len(SPECIALS)]

    def frequency(self, word: str) -> int:
        count = self.counts.get(self.normalise(word))
        if count is None and word in self._extra:
            return self.entry_counts[self._extra[word] - len(SPECIALS)]
        return count or 0

    def frequencies(self, words: Sequence[str]) -> list[int]:
        if self._extra or self._changes:
            return super().frequencies(words)
        look_up = self.counts.get
        return [look_up(word, 0) for word in words]

    def save(self, folder: Path) -> None:
        options = {
            "lowercase": self.lowercase,
            "digits": self.digits,
            "features": None if self.features is None else self.features.section.model_dump(mode="json"),
            "omitted": self.omitted,
            "extra": len(self._extra) or None,
        }
        write_saved(folder, Saved("words", options, self.words, self.entry_counts))


class _Options(SavedOptions):
    lowercase: bool
    digits: bool
    features: WordFeatures | None = None
    omitted: dict[str, NonNegativeInt] | None = None
    extra: NonNegativeInt = 0


def is_word(token: str) -> bool:
    """Return whether a token has a letter or a digit, so that it is more than punctuation."""
    return any(character.isalnum() for character in token)


def build_words(section: WordVocabulary, sentences: Sentences, extra: int = 0) -> Words:
    """Make a vocabulary of the words of the training sentences (read once) that are frequent enough, or take those of
    the model in the section's folder.

    Raises:
        DataError: no word is frequent enough, or the folder's model has no vocabulary of words.
        CheckpointError: the folder has no model.
    """
    if section.folder is not None:
        path = _file_of(section)
        with reading(path):
            saved = read_saved(path.parent)
            if saved.kind != "words":
                hint = "data.vocabulary.folder is that of a model with data.vocabulary.kind=words"
                raise DataError(f"{path}: its entries are no words, but of the kind {saved.kind}", hint=hint)
            options = saved.options_of(_Options)
        if saved.enclosed or options["omitted"] is not None:
            hint = "name a model that was trained on sentences, with punctuation"
            raise DataError(f"{path}: a vocabulary of document pairs, or without punctuation", hint=hint)
        if options["extra"] != extra:
            hint = "leave data.vocabulary.folder out, or set data.grid.extra_words as they are there"
            raise DataError(f"{path}: it has {options['extra']} extra words, and the recipe {extra}", hint=hint)
        return Words(saved.words, saved.counts, **options | {"features": section.features})
    assert not (extra and isinstance(sentences, Counter)), "counts do not tell which words are the extra ones"
    number = 0

    def texts() -> Iterator[Sequence[str]]:
        nonlocal number
        for words in sentences:
            number += 1
            yield words[: len(words) - extra]

    raw = sentences if isinstance(sentences, Counter) else texts()
    counts = count_words(raw, lowercase=section.lowercase, digits=section.digits)
    names = extra_words(extra)
    for name in names:  # a word of a text that is spelled so is unknown
        counts.pop(name, None)
    omitted: dict[str, int] | None = None
    if not section.punctuation:
        omitted = {word: count for word, count in ordered(counts).items() if not is_word(word)}
        counts -= Counter(omitted)
    frequent = [item for item in ordered(counts).items() if item[1] >= section.min_count][: section.max_size]
    if not frequent:
        hint = f"lower data.vocabulary.min_count (it is {section.min_count}) or give a larger training file"
        raise DataError("the vocabulary is empty: no training word is frequent enough", hint=hint)
    return Words(
        [*(word for word, _ in frequent), *names],
        [*(count for _, count in frequent), *[number] * extra],
        lowercase=section.lowercase,
        digits=section.digits,
        features=section.features,
        omitted=omitted,
        extra=extra,
    )


def _file_of(section: WordVocabulary) -> Path:
    assert section.folder is not None, "the words are another model's"
    folder = find_folder(section.folder)
    beside = folder / WORDS_FILE  # of an exported folder, which is no checkpoint
    return beside if holds(Path.is_file, beside) else locate(str(folder)) / WORDS_FILE


def identity_of_words(section: WordVocabulary) -> dict[str, str]:
    """Return what stands for the name of the section's folder, the checksum of its vocabulary."""
    if section.folder is None:
        return {}
    path = _file_of(section)
    with reading(path):
        return {"folder": hashlib.sha256(regular.read_text(path).encode()).hexdigest()}


def load_words(folder: Path, saved: Saved) -> Words:  # noqa: ARG001
    return Words(saved.words, saved.counts, **saved.options_of(_Options))
