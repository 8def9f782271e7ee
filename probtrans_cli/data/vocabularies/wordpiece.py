"""WordPiece, BERT's vocabulary (Devlin et al. 2019), through the package `tokenizers` (extra `hf`).

Text is cleaned: blanks are put around Chinese characters, capitals and accents are removed if the options say so, and
punctuation is separated. Then a word is divided from the left into the longest pieces that the vocabulary has; every
piece but the first begins with `##`. A word that cannot be divided so, or has more than 100 characters, is unknown as a
whole. A sentence is `[CLS]`, its pieces, `[SEP]`.

    vocab.txt                one piece a line, the id is the number of the line from 0
    tokenizer_config.json    options and the names of the special pieces
    tokenizer.json           pieces and options as `tokenizers` writes them; it is enough by itself

Text is searched for tokens that were added to a tokenizer (:mod:`wordpiece_files`) before, in the words of a sentence
as in running text. The names of the five special pieces are found in running text alone: a word `[MASK]` of a corpus is
no instruction.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probtrans_cli import console
from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.tokens import valid
from probtrans_cli.data.vocabularies.base import (
    EnclosingVocabulary,
    EncodedText,
    EncodedWords,
    Saved,
    SavedOptions,
    Sentences,
    count_words,
    joined,
    no_extra_word,
    ordered,
    write_saved,
)
from probtrans_cli.data.vocabularies.spelling import CACHE_SIZE, HashedFeatures
from probtrans_cli.data.vocabularies.wordpiece_files import (
    FLAGS,
    KEYS,
    LONGEST_WORD,
    OLD_SPECIALS_FILE,
    OPTIONS_FILE,
    PIECES_FILE,
    READ_FILES,
    TOKENIZER_FILE,
    AddedToken,
    Options,
    declared_tokens,
    division,
    of_tokenizer,
    overlaid,
    placed,
    read_bytes,
    read_json,
    read_pieces,
)
from probtrans_cli.errors import CheckpointError, DataError, RecipeError
from probtrans_cli.folders import find_folder
from probtrans_cli.recipe.base import PositiveInt
from probtrans_cli.recipe.data import WordFeatures, WordPieceVocabulary
from probtrans_cli.text import first_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MODEL_FILE = "config.json"
_LINE_WORDS = 10_000  # of one line of what is trained on


class WordPieces(EnclosingVocabulary):
    """A WordPiece vocabulary. Ids are those of its file; the special pieces are found by their names."""

    def __init__(
        self,
        pieces: Sequence[str],
        options: Options | None = None,
        *,
        rows: int | None = None,
        counts: Mapping[str, int] | None = None,
        features: WordFeatures | None = None,
    ) -> None:
        """
        Args:
            pieces: the vocabulary, by id; an empty piece has an id, but no text has it.
            options: how text is divided; None = BERT's, in lower case.
            rows: number of ids of a model whose table is longer than the vocabulary; None = as many as pieces.
            counts: of the training file's words.
            features: of the spelling of words.

        Raises:
            DataError: a piece stands there twice, a special piece is missing, or `transformers` would give an added
                token another id.
            UsageError: the package `tokenizers` is not installed.
        """
        self.pieces = list(pieces)
        self.options = options or Options()
        self.lowercase = self.options.lowercase
        self.counts = dict(counts or {})
        self.features = None if features is None else HashedFeatures(features)
        self.size = max(rows or 0, len(self.pieces))
        self._ids = {piece: id for id, piece in enumerate(self.pieces) if piece}
        if len(self._ids) + self.pieces.count("") < len(self.pieces):
            piece, _ = Counter(filter(None, self.pieces)).most_common(1)[0]
            raise DataError(f"the piece {piece!r} has two ids", hint="every piece of a vocabulary stands there once")
        for name in (*self.options.specials, *(token.content for token in self.options.added)):
            if name not in self._ids:
                hint = f"name the special pieces in {OPTIONS_FILE}, or add a line to {PIECES_FILE}"
                raise DataError(f"the special piece {name} is not in the vocabulary", hint=hint)
        self.PAD, self.UNKNOWN, self.FIRST, self.LAST, self.MASK = (self._ids[name] for name in self.options.specials)
        self.specials: tuple[int, ...] = (self.PAD, self.UNKNOWN, self.FIRST, self.LAST, self.MASK)
        tokens = {name: AddedToken(name) for name in self.options.specials}
        tokens |= {token.content: token for token in self.options.added}
        self._text = _tokenizer(self._ids, self.options, tokens.values())
        self._words = _tokenizer(self._ids, self.options, self.options.further)  # a corpus's `[MASK]` is three pieces
        self._segment = lru_cache(CACHE_SIZE)(self._ids_of)

    def encode_text(self, text: str, second: str | None = None) -> EncodedText:
        """Return the ids of `[CLS]` text `[SEP]`, or of `[CLS]` text `[SEP]` second `[SEP]`.

        The name of a special piece or of an added token within a text is that piece or token.
        """
        encoded = self._text.encode(valid(text), None if second is None else valid(second))
        return EncodedText(encoded.ids, encoded.offsets, encoded.type_ids)

    def encode_part(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of words within a longer text, without `[CLS]` and `[SEP]`; every word has at least one."""
        of_words = [self._segment(word) for word in words[: len(words) - extra]]
        for name in words[len(words) - extra :]:
            if name not in self._ids:
                raise no_extra_word(name)
            of_words.append([self._ids[name]])
        return joined(of_words)

    def decode(self, id: int) -> str:
        """Return the piece of an id (0 <= id < size); empty where the model's table is longer than the vocabulary."""
        return self.pieces[id] if id < len(self.pieces) else ""

    def files(self, longest: int | None = None) -> dict[str, str]:
        """Return the content of ``vocab.txt``, ``tokenizer_config.json`` and ``tokenizer.json``."""
        content: dict[str, Any] = {"tokenizer_class": "BertTokenizer"}
        content |= {key: getattr(self.options, name) for key, name in KEYS.items()}
        if self.options.added:
            tokens = self._text.get_added_tokens_decoder()
            names = ("content", *FLAGS)
            content["added_tokens_decoder"] = {
                id: {name: getattr(it, name) for name in names} for id, it in tokens.items()
            }
            content["additional_special_tokens"] = [token.content for token in self.options.further if token.special]
        unlisted = {token.content for token in self.options.added if not token.listed}
        if longest is not None:
            content["model_max_length"] = longest
        return {
            PIECES_FILE: "".join(f"{piece}\n" for piece in self.pieces if piece not in unlisted),
            OPTIONS_FILE: json.dumps(content, ensure_ascii=False, indent=2) + "\n",
            TOKENIZER_FILE: self._text.to_str(pretty=True) + "\n",
        }

    def save(self, folder: Path) -> None:
        for name, text in self.files().items():
            (folder / name).write_bytes(text.encode())
        features = None if self.features is None else self.features.section.model_dump(mode="json")
        options = {"rows": self.size, "features": features}
        write_saved(folder, Saved("wordpiece", options, [*self.counts], [*self.counts.values()]))

    def _ids_of(self, word: str) -> list[int]:
        return self._words.encode(valid(word), add_special_tokens=False).ids or [self.UNKNOWN]


def _tokenizer(ids: Mapping[str, int], options: Options, added: Collection[AddedToken]) -> Tokenizer:
    """Make the package's tokenizer of a vocabulary, of the same parts as `transformers.BertTokenizer`."""
    normalizer, cutter = division(options)
    from tokenizers import AddedToken as PackageToken  # noqa: PLC0415  (an extra)
    from tokenizers import Tokenizer, decoders, models  # noqa: PLC0415
    from tokenizers.processors import TemplateProcessing  # noqa: PLC0415

    unlisted = {token.content for token in options.added if not token.listed}
    listed = {piece: id for piece, id in ids.items() if piece not in unlisted}
    model = models.WordPiece(listed, unk_token=options.unknown, max_input_chars_per_word=LONGEST_WORD)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, cutter
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    cleaned: dict[str, str] = {}
    for content in (token.content for token in added if token.normalized):
        form = tokenizer.normalizer.normalize_str(content)
        if not form:  # it would be found between any two bytes, and the package crashes there
            raise DataError(f"the added token {content!r} is empty once it is cleaned", hint="remove it")
        if (earlier := cleaned.setdefault(form, content)) != content:
            words = f"the added tokens {earlier!r} and {content!r} are the same once they are cleaned"
            raise DataError(words, hint="remove one: transformers takes one of them by chance")
    tokenizer.add_tokens([PackageToken(token.content, **token.flags) for token in added])
    for content in unlisted:
        if (id := tokenizer.token_to_id(content)) != ids[content]:
            words = (
                f"the added token {content!r} has the id {ids[content]:,}, but the package tokenizers gives it {id:,}"
            )
            hint = f"ids of added tokens go on where {PIECES_FILE} ends: fill its blank lines, or add lines [unused1] …"
            raise DataError(words, hint=hint)
    first, last = options.first, options.last
    tokenizer.post_processor = TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(name, ids[name]) for name in dict.fromkeys((first, last))],
    )
    return tokenizer


# --- reading ----------------------------------------------------------------------------------------------------------


def read_wordpieces(
    folder: Path,
    *,
    rows: int | None = None,
    counts: Mapping[str, int] | None = None,
    features: WordFeatures | None = None,
) -> WordPieces:
    """Read a folder of Hugging Face's: `vocab.txt`, or where that is missing `tokenizer.json`.

    Args:
        rows: the model's `vocab_size`; None = unknown.

    Raises:
        DataError: a file is missing, damaged or of another kind, or the vocabulary has more pieces than the model rows.
    """
    path, tokenizer_path = folder / PIECES_FILE, folder / TOKENIZER_FILE
    options = Options()
    pieces: list[str] | None = None
    names = [name for name in READ_FILES if name != PIECES_FILE and (folder / name).exists()]
    contents = {name: read_json(folder / name) for name in names}
    if TOKENIZER_FILE in contents:
        pieces, options = of_tokenizer(contents[TOKENIZER_FILE], tokenizer_path)
    if path.exists():
        listed = read_pieces(path)
        for id, (line, piece) in enumerate(zip(listed, pieces or (), strict=False)):
            if line != piece:
                where = f"{path}:{id + 1}: {line!r}, but {TOKENIZER_FILE} has {piece!r}"
                raise DataError(f"{where} with this id", hint="remove the file that is not the model's")
    elif pieces is None:
        hint = f"give the folder of a BERT model, with {PIECES_FILE} or {TOKENIZER_FILE}"
        raise DataError(f"{folder}: there is neither {PIECES_FILE} nor {TOKENIZER_FILE}", hint=hint)
    for name in (OLD_SPECIALS_FILE, OPTIONS_FILE):
        if name in contents:
            options = overlaid(options, contents[name], folder / name)
    declared = declared_tokens(contents, folder, options.specials)
    if path.exists():
        added = {it.token.content for it in declared}
        if pieces is None or not added.issuperset(listed[len(pieces) :]):  # else they are written behind its lines
            pieces = listed if pieces is None or len(listed) > len(pieces) else pieces
    assert pieces is not None, "one of the files is there"
    if rows is not None and len(pieces) > rows:
        file = path if path.exists() else tokenizer_path
        message = f"{file}: {len(pieces):,} pieces, but the model's vocab_size is {rows:,}"
        raise DataError(message, hint="the vocabulary is that of another model")
    pieces, tokens = placed(pieces, declared, options.specials, rows)
    try:
        return WordPieces(pieces, replace(options, added=tokens), rows=rows, counts=counts, features=features)
    except DataError as error:
        raise DataError(f"{folder}: {error.message}", hint=error.hint) from None


class _SavedOptions(SavedOptions):
    rows: PositiveInt
    features: WordFeatures | None = None


def load_wordpieces(folder: Path, saved: Saved) -> WordPieces:
    return read_wordpieces(folder, counts=saved.count_of, **saved.options_of(_SavedOptions))


# --- the vocabulary of a recipe: read from a folder, or trained -------------------------------------------------------


def build_wordpieces(section: WordPieceVocabulary, sentences: Sentences, extra: int = 0) -> WordPieces:
    """Read the vocabulary of the section's folder, with the counts of these sentences, or train one on them."""
    if section.folder is None:
        options = Options(lowercase=section.lowercase)
        return train_wordpieces(sentences, section.size, options, section.features, extra=extra)
    folder = find_folder(section.folder)
    model, rows = _model_of(folder)
    try:
        vocabulary = read_wordpieces(folder, rows=rows, features=section.features)
    except DataError as error:
        kind = model.get("model_type")
        if kind in (None, "bert"):
            raise
        message = f"{error.message}; {folder / _MODEL_FILE} is that of a model of type {kind!r}"
        raise DataError(message, hint="only 'bert' is read") from None
    pieces, options = vocabulary.pieces, vocabulary.options
    if len(pieces) < vocabulary.size:
        message = f"{len(pieces):,} pieces, but the model's vocab_size is {vocabulary.size:,}"
        console.log(f"warning: {folder}: {message}: the ids above belong to no piece")
    tokens, names = [token.content for token in options.further], extra_words(extra)
    if blank := [content for content in tokens if len(content.split()) > 1]:
        message = f"added tokens with a blank in them are found within one word alone: {first_of(blank)}"
        console.log(f"warning: {folder}: {message}")
    if not set(tokens).isdisjoint(names):  # no word of a corpus may be an extra word
        options = replace(options, added=tuple(token for token in options.added if token.content not in names))
        vocabulary = WordPieces(pieces, options, rows=vocabulary.size, features=section.features)
    if missing := [name for name in names if name not in pieces]:
        hint = f"data.grid.extra_words=[] does without extra words; or add {missing[0]} to the vocabulary"
        raise DataError(f"{folder}: the vocabulary has no piece {missing[0]} for an extra word", hint=hint)
    vocabulary.counts = ordered(count_words(sentences, lowercase=options.lowercase), without=())
    return vocabulary


def identity_of(section: WordPieceVocabulary) -> dict[str, str]:
    """Return what identifies a vocabulary in place of values of its section: for the name of a folder one sha256 of the
    files from which its vocabulary follows."""
    if section.folder is None:
        return {}
    folder, digest = find_folder(section.folder), hashlib.sha256()
    for name in READ_FILES:
        content = read_bytes(folder / name) if (folder / name).exists() else b""
        digest.update(f"{name} {len(content)} ".encode() + content)
    digest.update(str(_model_of(folder)[1]).encode())
    return {"folder": digest.hexdigest()}


def _model_of(folder: Path) -> tuple[dict[str, Any], int | None]:
    """Return the configuration of the model in the same folder, and its `vocab_size`; empty and None without."""
    try:
        content = read_json(folder / _MODEL_FILE) if (folder / _MODEL_FILE).exists() else {}
    except DataError as error:  # the file is the model's, not the vocabulary's
        raise CheckpointError(error.message, hint=error.hint) from None
    content = content if isinstance(content, dict) else {}
    rows = content.get("vocab_size")
    return content, rows if isinstance(rows, int) else None


def train_wordpieces(
    sentences: Sentences,
    size: int,
    options: Options | None = None,
    features: WordFeatures | None = None,
    *,
    extra: int = 0,
) -> WordPieces:
    """Make a vocabulary of at most ``size`` pieces from sentences (read once): the specials, one piece for each of the
    ``extra`` last words of every sentence, all characters, then what merging the most frequent pair of pieces gives,
    again and again. The same sentences give the same vocabulary.

    Raises:
        DataError: there is no word.
        RecipeError: there are more characters than pieces.
        UsageError: the package `tokenizers` is not installed.
    """
    options = options or Options()
    normalizer, cutter = division(options)
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: PLC0415  (an extra)

    counts = count_words(sentences)
    names = extra_words(extra)
    parts: Counter[str] = Counter()  # of words, which are cleaned, and cut at punctuation
    for word, count in counts.items():
        if word not in names:
            for part, _ in cutter.pre_tokenize_str(normalizer.normalize_str(valid(word))):
                if len(part) <= LONGEST_WORD:
                    parts[part] += count
    if not parts:
        raise DataError("no word to learn pieces from", hint="give a larger training file")
    characters = sorted({character for part in parts for character in part})
    # All characters are given at the start, in order: left to itself, the package numbers them by chance, and equal
    # counts are then merged in an order of chance.
    start = [*options.specials, *names, *characters, *(f"##{character}" for character in characters)]
    if len(start) > size:
        hint = f"set data.vocabulary.size={len(start)} or more"
        raise RecipeError(f"data.vocabulary.size: {size} pieces are fewer than the characters", hint=hint)

    lines = (
        " ".join([part] * min(_LINE_WORDS, parts[part] - begin))
        for part in sorted(parts)
        for begin in range(0, parts[part], _LINE_WORDS)
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=start, limit_alphabet=len(start), show_progress=False
    )
    learner = Tokenizer(models.WordPiece(unk_token=options.unknown))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(lines, trainer)
    ids = learner.get_vocab()
    normalised = ordered(count_words(counts, lowercase=options.lowercase), without=())
    return WordPieces(sorted(ids, key=ids.__getitem__), options, counts=normalised, features=features)
