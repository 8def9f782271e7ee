"""How the WordPiece vocabulary of a recipe is made: read from a folder, or trained on the training file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from probtrans_cli import console
from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.tokens import valid
from probtrans_cli.data.vocabularies.base import Sentences, count_words, read_bytes
from probtrans_cli.data.vocabularies.wordpiece import WordPieces, read_wordpieces
from probtrans_cli.data.vocabularies.wordpiece_files import (
    LONGEST_WORD,
    READ_FILES,
    Options,
    division,
    read_json,
)
from probtrans_cli.errors import CheckpointError, DataError, RecipeError
from probtrans_cli.folders.places import find_folder
from probtrans_cli.recipe.data import WordFeatures, WordPieceVocabulary
from probtrans_cli.text import first_of

_MODEL_FILE = "config.json"
_LINE_WORDS = 10_000  # of one line of what is trained on


def build_wordpieces(section: WordPieceVocabulary, sentences: Sentences, extra: int = 0) -> WordPieces:
    """The vocabulary of a recipe's section: of its folder, with the counts of these sentences, or trained on them.

    ``extra``: so many of the last words of every sentence are the extra words, see :class:`Vocabulary`.

    Raises:
        CheckpointError: the folder's config.json cannot be read.
        DataError: the folder's vocabulary has no piece for an extra word.
        DataError, RecipeError, UsageError: as :func:`read_wordpieces` and :func:`train_wordpieces`.
    """
    if section.folder is None:
        options = Options(lowercase=section.lowercase)
        return train_wordpieces(sentences, section.size, options, section.features, extra=extra)
    folder = folder_of(section)
    try:
        made = read_wordpieces(folder, rows=_rows_of(folder), features=section.features)
    except DataError as error:
        kind = _model_of(folder).get("model_type")
        if kind in (None, "bert"):
            raise
        message = f"{error.message}; {folder / _MODEL_FILE} is that of a model of type {kind!r}"
        raise DataError(message, hint="only 'bert' is read") from None
    if len(made.pieces) < made.size:
        words = f"{len(made.pieces):,} pieces, but the model's vocab_size is {made.size:,}"
        console.log(f"warning: {folder}: {words}: the ids above belong to no piece")
    if blank := [token.content for token in made.options.further if len(token.content.split()) > 1]:
        words = f"added tokens with a blank in them are found within one word alone: {first_of(blank)}"
        console.log(f"warning: {folder}: {words}")
    names = extra_words(extra)
    if not {token.content for token in made.options.further}.isdisjoint(
        names
    ):  # no word of a corpus may be one of them
        added = tuple(token for token in made.options.added if token.content not in names)
        made = WordPieces(made.pieces, replace(made.options, added=added), rows=made.size, features=section.features)
    if missing := [name for name in names if name not in made.pieces]:
        hint = f"data.grid.extra_words=[] does without extra words; or add {missing[0]} to the vocabulary"
        raise DataError(f"{folder}: the vocabulary has no piece {missing[0]} for an extra word", hint=hint)
    made.counts = _whole_words(count_words(sentences), made)
    return made


def folder_of(section: WordPieceVocabulary) -> Path:
    """The folder of a section that names one."""
    return find_folder(section.folder or ".")


def fingerprint_of(section: WordPieceVocabulary) -> str:
    """One sha256 of the files of a section's folder from which its vocabulary follows.

    Raises:
        DataError, CheckpointError: one cannot be read.
    """
    folder, digest = folder_of(section), hashlib.sha256()
    for name in READ_FILES:
        content = read_bytes(folder / name) if (folder / name).exists() else b""
        digest.update(f"{name} {len(content)} ".encode() + content)
    digest.update(str(_rows_of(folder)).encode())
    return digest.hexdigest()


def identity_of(section: WordPieceVocabulary) -> dict[str, str]:
    """What identifies a vocabulary in place of values of its section: the content of a folder, not its name."""
    return {} if section.folder is None else {"folder": fingerprint_of(section)}


def _rows_of(folder: Path) -> int | None:
    """The `vocab_size` of the model in the same folder; None where there is none."""
    rows = _model_of(folder).get("vocab_size")
    return rows if isinstance(rows, int) else None


def _model_of(folder: Path) -> dict[str, Any]:
    """The configuration of the model in the same folder; empty where there is none."""
    try:
        content = read_json(folder / _MODEL_FILE) if (folder / _MODEL_FILE).exists() else {}
    except DataError as error:  # the file is the model's, not the vocabulary's
        raise CheckpointError(error.message, hint=error.hint) from None
    return content if isinstance(content, dict) else {}


def _whole_words(raw: Mapping[str, int], vocabulary: WordPieces) -> dict[str, int]:
    """Counts of words as the vocabulary counts them, the most frequent first."""
    counts: Counter[str] = Counter()
    for word, count in raw.items():
        counts[vocabulary.normalise(word)] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


# --- training ---------------------------------------------------------------------------------------------------------


def train_wordpieces(
    sentences: Sentences,
    size: int,
    options: Options | None = None,
    features: WordFeatures | None = None,
    *,
    extra: int = 0,
) -> WordPieces:
    """Make a vocabulary of at most ``size`` pieces from sentences (read once): the specials, one for each of the
    ``extra`` last words of every sentence, all characters, then what merging the most frequent pair of pieces gives,
    again and again. The same sentences give the same vocabulary.

    Raises:
        DataError: there is no word.
        RecipeError: there are more characters than pieces.
        UsageError: the package `tokenizers` is not installed.
    """
    options = options or Options()
    bare = WordPieces(options.specials, options)
    counts = count_words(sentences)
    names = extra_words(extra)
    parts = _parts({word: count for word, count in counts.items() if word not in names}, options)
    if not parts:
        raise DataError("no word to learn pieces from", hint="give a larger training file")
    characters = sorted({character for part in parts for character in part})
    # All characters are given at the start, in order: left to itself, the package numbers them by chance, and equal
    # counts are then merged in an order of chance.
    start = [*options.specials, *names, *characters, *(f"##{character}" for character in characters)]
    if len(start) > size:
        hint = f"set data.vocabulary.size={len(start)} or more"
        raise RecipeError(f"data.vocabulary.size: {size} pieces are fewer than the characters", hint=hint)
    pieces = _merged(parts, size, start)
    return WordPieces(pieces, options, counts=_whole_words(counts, bare), features=features)


def _parts(counts: Mapping[str, int], options: Options) -> Counter[str]:
    """How often every string occurs of which pieces are made: words are cleaned, and cut at punctuation."""
    normalizer, cutter = division(options)
    parts: Counter[str] = Counter()
    for word, count in counts.items():
        for part, _ in cutter.pre_tokenize_str(normalizer.normalize_str(valid(word))):
            if len(part) <= LONGEST_WORD:
                parts[part] += count
    return parts


def _merged(parts: Mapping[str, int], size: int, start: Sequence[str]) -> list[str]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: PLC0415  (an extra)

    def lines() -> Iterator[str]:
        for part in sorted(parts):
            for begin in range(0, parts[part], _LINE_WORDS):
                yield " ".join([part] * min(_LINE_WORDS, parts[part] - begin))

    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(start), limit_alphabet=len(start), show_progress=False
    )
    learner = Tokenizer(models.WordPiece(unk_token=start[1]))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(lines(), trainer)
    ids = learner.get_vocab()
    return sorted(ids, key=ids.__getitem__)
