"""WordPiece, BERT's vocabulary (Devlin et al. 2019), through the package `tokenizers` (extra `hf`).

Text is cleaned: blanks are put around Chinese characters, capitals and accents are removed if the options say so, and
punctuation is separated. Then a word is divided from the left into the longest pieces that the vocabulary has; every
piece but the first begins with `##`. A word that cannot be divided so, or has more than 100 characters, is unknown as a
whole. A sentence is `[CLS]`, its pieces, `[SEP]`.

    vocab.txt                one piece a line, the id is the number of the line from 0
    tokenizer_config.json    options and the names of the special pieces
    tokenizer.json           pieces and options as `tokenizers` writes them; it is enough by itself
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probtrans_cli.data.tokens import valid
from probtrans_cli.data.vocabularies.base import (
    EnclosingVocabulary,
    EncodedText,
    EncodedWords,
    Saved,
    SavedOptions,
    no_extra_word,
    one_after_the_other,
    read_bytes,
    write_saved,
)
from probtrans_cli.data.vocabularies.features import HashedFeatures
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.base import PositiveInt
from probtrans_cli.recipe.data import WordFeatures
from probtrans_cli.text import from_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECES_FILE, OPTIONS_FILE, TOKENIZER_FILE = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
WORDPIECE_FILES = (PIECES_FILE, OPTIONS_FILE, TOKENIZER_FILE)
OLD_SPECIALS_FILE = "special_tokens_map.json"
LONGEST_WORD = 100
"""Characters; a longer word is unknown."""
_CACHE_SIZE = 200_000  # words whose pieces are remembered


@dataclass(frozen=True, slots=True)
class Options:
    """How text becomes pieces, and what the special pieces are called."""

    lowercase: bool = True
    strip_accents: bool | None = None
    """None: as ``lowercase``."""
    split_chinese: bool = True
    pad: str = "[PAD]"
    unknown: str = "[UNK]"
    first: str = "[CLS]"
    last: str = "[SEP]"
    mask: str = "[MASK]"
    added: tuple[str, ...] = ()
    """Further pieces that running text is searched for as they stand."""

    @property
    def specials(self) -> tuple[str, ...]:
        """The special pieces' names."""
        return (self.pad, self.unknown, self.first, self.last, self.mask)


_KEYS = {  # of tokenizer_config.json -> of Options
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_chinese",
    "pad_token": "pad",
    "unk_token": "unknown",
    "cls_token": "first",
    "sep_token": "last",
    "mask_token": "mask",
}


class WordPieces(EnclosingVocabulary):
    """A WordPiece vocabulary. Ids are those of its file; the special ones are found by their names."""

    def __init__(
        self,
        pieces: Sequence[str],
        options: Options | None = None,
        *,
        rows: int | None = None,
        counts: Mapping[str, int] | None = None,
        features: WordFeatures | None = None,
    ) -> None:
        """``pieces[id]``; an empty piece has an id, but no text has it.

        Args:
            pieces: the vocabulary.
            options: how text is divided; None = BERT's, in lower case.
            rows: number of ids of a model whose table is longer than the vocabulary; None = as many as pieces.
            counts: of the training file's words.
            features: of the spelling of words.

        Raises:
            DataError: a piece stands there twice, or a special one is missing.
            UsageError: the package `tokenizers` is not installed.
        """
        self.pieces = list(pieces)
        self.options = options or Options()
        self.counts = dict(counts or {})
        self.features = None if features is None else HashedFeatures(features)
        self._size = max(rows or 0, len(self.pieces))
        self._ids = {piece: id for id, piece in enumerate(self.pieces) if piece}
        if len(self._ids) + self.pieces.count("") < len(self.pieces):
            piece, _ = Counter(filter(None, self.pieces)).most_common(1)[0]
            raise DataError(f"the piece {piece!r} has two ids", hint="every piece of a vocabulary stands there once")
        for name in (*self.options.specials, *self.options.added):
            if name not in self._ids:
                hint = f"name the special pieces in {OPTIONS_FILE}, or add a line to {PIECES_FILE}"
                raise DataError(f"the special piece {name} is not in the vocabulary", hint=hint)
        self.PAD, self.UNKNOWN, self.FIRST, self.LAST, self.MASK = (self._ids[name] for name in self.options.specials)
        self.specials: tuple[int, ...] = (self.PAD, self.UNKNOWN, self.FIRST, self.LAST, self.MASK)
        self._text = _tokenizer(self._ids, self.options)
        self._words = _tokenizer(self._ids, self.options)
        self._words.encode_special_tokens = True  # a corpus's `[MASK]` is three pieces, not an instruction
        self._cache: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """Number of ids."""
        return self._size

    def encode_text(self, text: str, second: str | None = None) -> EncodedText:
        """Return the ids of `[CLS]` text `[SEP]`, or of `[CLS]` text `[SEP]` second `[SEP]`.

        Where a text has the name of a special piece, it is that piece.
        """
        found = self._text.encode(valid(text), None if second is None else valid(second))
        return EncodedText(found.ids, found.offsets, found.type_ids)

    def encode_part(self, words: Sequence[str]) -> EncodedWords:
        """Return the ids of words within a longer text, without `[CLS]` and `[SEP]`; every word has at least one."""
        return one_after_the_other(map(self._segment, words))

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of a sentence, `[CLS]` and `[SEP]` around it, and the position of each word's first piece."""
        of_words = [self._segment(word) for word in words[: len(words) - extra]]
        of_words += [[id] for id in self._extra(words[len(words) - extra :])]
        return one_after_the_other(of_words).between(self.FIRST, self.LAST)

    def decode(self, id: int) -> str:
        """Return the piece of an id (0 <= id < size); empty where the model's table is longer than the vocabulary."""
        return self.pieces[id] if id < len(self.pieces) else ""

    def frequency(self, word: str) -> int:
        """Return how often the whole word occurs in the training file; 0 if it was not seen."""
        return self.counts.get(self.normalise(word), 0)

    def normalise(self, word: str) -> str:
        """The word as it is counted: in lower case where the vocabulary knows no other."""
        return word.lower() if self.options.lowercase else word

    def files(self, longest: int | None = None) -> dict[str, str]:
        """The content of ``vocab.txt``, ``tokenizer_config.json`` and ``tokenizer.json``.

        ``longest``: the number of ids of the longest sentence that the model reads.
        """
        known = asdict(self.options)
        content = {"tokenizer_class": "BertTokenizer", **{key: known[name] for key, name in _KEYS.items()}}
        if self.options.added:
            content["additional_special_tokens"] = list(self.options.added)
        if longest is not None:
            content["model_max_length"] = longest
        return {
            PIECES_FILE: "".join(f"{piece}\n" for piece in self.pieces),
            OPTIONS_FILE: json.dumps(content, ensure_ascii=False, indent=2) + "\n",
            TOKENIZER_FILE: self._text.to_str(pretty=True) + "\n",
        }

    def save(self, folder: Path) -> None:
        """Write those files and ``vocabulary.json`` (the counts of whole words)."""
        for name, text in self.files().items():
            (folder / name).write_bytes(text.encode())
        options: dict[str, Any] = {"rows": self.size}
        if self.features is not None:
            options["features"] = self.features.section.model_dump(mode="json")
        write_saved(folder, Saved("wordpiece", options, list(self.counts), list(self.counts.values())))

    def _extra(self, names: Sequence[str]) -> Iterator[int]:
        """The ids of extra words, each the only piece of its word."""
        for name in names:
            if name not in self._ids:
                raise no_extra_word(name)
            yield self._ids[name]

    def _segment(self, word: str) -> list[int]:
        pieces = self._cache.get(word)
        if pieces is None:
            pieces = self._words.encode(valid(word), add_special_tokens=False).ids or [self.UNKNOWN]
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[word] = pieces
        return pieces


def _tokenizer(ids: Mapping[str, int], options: Options) -> Tokenizer:
    """The package's tokenizer of a vocabulary, of the same parts as `transformers.BertTokenizer`."""
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models  # noqa: PLC0415  (an extra)
        from tokenizers.processors import TemplateProcessing  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'probtrans[hf]'"
        raise UsageError("a vocabulary of kind wordpiece needs the package tokenizers", hint=hint) from None
    model = models.WordPiece(dict(ids), unk_token=options.unknown, max_input_chars_per_word=LONGEST_WORD)
    made = Tokenizer(model)
    made.normalizer, made.pre_tokenizer = division(options)
    made.decoder = decoders.WordPiece(prefix="##")
    specials = dict.fromkeys((*options.specials, *options.added))
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    first, last = options.first, options.last
    made.post_processor = TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(name, ids[name]) for name in dict.fromkeys((first, last))],
    )
    return made


def division(options: Options) -> tuple[Any, Any]:
    """How text is cleaned, and how it is cut before pieces are looked for."""
    from tokenizers import normalizers, pre_tokenizers  # noqa: PLC0415  (an extra)

    cleaned = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.split_chinese,
        strip_accents=options.strip_accents,
        lowercase=options.lowercase,
    )
    return cleaned, pre_tokenizers.BertPreTokenizer()


# --- reading ----------------------------------------------------------------------------------------------------------


def read_wordpieces(
    folder: Path,
    *,
    rows: int | None = None,
    counts: Mapping[str, int] | None = None,
    features: WordFeatures | None = None,
) -> WordPieces:
    """The vocabulary of a folder of Hugging Face's: of `vocab.txt`, or where that is missing of `tokenizer.json`.

    Args:
        folder: where the files are.
        rows: the model's `vocab_size`, where it is known.
        counts: of the training file's words.
        features: of the spelling of words.

    Raises:
        DataError: a file is missing, damaged or of another kind, or the vocabulary has more pieces than the model rows.
    """
    path, other = folder / PIECES_FILE, folder / TOKENIZER_FILE
    options = Options()
    pieces: list[str] | None = None
    if other.exists():
        pieces, options = _read_tokenizer(other)
    if path.exists():
        listed = read_pieces(path)
        if pieces is not None and any(a != b for a, b in zip(listed, pieces, strict=False)):
            id = next(id for id, (a, b) in enumerate(zip(listed, pieces, strict=False)) if a != b)
            where = f"{path}:{id + 1}: {listed[id]!r}, but {TOKENIZER_FILE} has {pieces[id]!r}"
            raise DataError(f"{where} with this id", hint="remove the file that is not the model's")
        pieces = listed if pieces is None or len(listed) > len(pieces) else pieces
    elif pieces is None:
        hint = f"give the folder of a BERT model, with {PIECES_FILE} or {TOKENIZER_FILE}"
        raise DataError(f"{folder}: there is neither {PIECES_FILE} nor {TOKENIZER_FILE}", hint=hint)
    for name in (OLD_SPECIALS_FILE, OPTIONS_FILE):
        if (folder / name).exists():
            options = _overlaid(options, read_json(folder / name), folder / name)
    if rows is not None and len(pieces) > rows:
        words = f"{path if path.exists() else other}: {len(pieces):,} pieces, but the model's vocab_size is {rows:,}"
        raise DataError(words, hint="the vocabulary is that of another model")
    try:
        return WordPieces(pieces, options, rows=rows, counts=counts, features=features)
    except DataError as error:
        raise DataError(f"{folder}: {error.message}", hint=error.hint) from None


class _SavedOptions(SavedOptions):
    """What ``save`` keeps beside the words."""

    rows: PositiveInt
    features: WordFeatures | None = None


def load_wordpieces(folder: Path, saved: Saved) -> WordPieces:
    """The pieces that ``save`` wrote."""
    options = saved.options_of(_SavedOptions)
    return read_wordpieces(folder, counts=saved.count_of, rows=options.rows, features=options.features)


def read_pieces(path: Path) -> list[str]:
    """The pieces of a `vocab.txt`, by id. A blank line is a piece that is never found, and keeps the numbering.

    Raises:
        DataError: a piece stands there twice, or the file is no UTF-8 text.
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path}:{line}: not UTF-8", hint="give the vocab.txt of a BERT model") from None
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    seen: dict[str, int] = {}
    for number, piece in enumerate(lines, start=1):
        if piece and seen.setdefault(piece, number) != number:
            hint = "every piece stands in a vocabulary once: the number of its line is its id"
            raise DataError(f"{path}:{number}: the piece {piece!r} stands in line {seen[piece]} already", hint=hint)
    return lines


def _read_tokenizer(path: Path) -> tuple[list[str], Options]:
    """Pieces and options of a `tokenizer.json`."""
    content = read_json(path)
    try:
        model, normalizer = content["model"], content["normalizer"]
        ids = {str(piece): int(id) for piece, id in model["vocab"].items()}
        added = {str(one["content"]): int(one["id"]) for one in content.get("added_tokens") or ()}
        kinds = (model.get("type", "WordPiece"), normalizer["type"], content["pre_tokenizer"]["type"])
        options = Options(
            lowercase=_of_type(bool, normalizer["lowercase"]),
            strip_accents=_of_type(bool | None, normalizer["strip_accents"]),
            split_chinese=_of_type(bool, normalizer["handle_chinese_chars"]),
            unknown=_of_type(str, model["unk_token"]),
        )
        limits = (model["continuing_subword_prefix"], model["max_input_chars_per_word"], normalizer["clean_text"])
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        hint = "only the WordPiece tokenizers of BERT models can be read"
        raise DataError(f"{path}: not the tokenizer of a BERT model ({error!r})", hint=hint) from None
    for found, wanted in zip((*kinds, *limits), _BERT_TOKENIZER, strict=True):
        if found != wanted:
            hint = "only the WordPiece tokenizers of BERT models can be read"
            raise DataError(f"{path}: unsupported: {found!r} instead of BERT's {wanted!r}", hint=hint)
    ids |= added
    size = max(ids.values(), default=-1) + 1
    # Blank lines of a vocab.txt leave gaps, but not many.
    if len(set(ids.values())) < len(ids) or min(ids.values(), default=0) < 0 or size > 2 * len(ids) + 1000:
        raise DataError(f"{path}: the ids of its pieces are not 0, 1, 2, …", hint="the file is damaged")
    pieces = [""] * size
    for piece, id in ids.items():
        pieces[id] = piece
    return pieces, replace(options, added=tuple(name for name in added if name not in options.specials))


def _of_type(wanted: Any, value: Any) -> Any:
    if not isinstance(value, wanted):
        raise TypeError(f"{value!r} in place of a value of {getattr(wanted, '__name__', wanted)}")
    return value


_TAKEN = {str: "text", bool: "true or false"}
_BERT_TOKENIZER = ("WordPiece", "BertNormalizer", "BertPreTokenizer", "##", LONGEST_WORD, True)


def _overlaid(options: Options, given: Any, path: Path) -> Options:
    """Options with what a file says of them."""
    if not isinstance(given, dict) or given.get("do_basic_tokenize", True) is not True:
        raise DataError(f"{path}: not the options of a BERT tokenizer", hint="do_basic_tokenize must be true")
    changes: dict[str, Any] = {}
    for key, name in _KEYS.items():
        value = given[key].get("content") if isinstance(given.get(key), dict) else given.get(key)
        wanted = str if key.endswith("_token") else bool
        if value is not None and not isinstance(value, wanted):
            raise DataError(f"{path}: {key} is {value!r}", hint=f"it takes {_TAKEN[wanted]}")
        if value is not None or (key == "strip_accents" and key in given):
            changes[name] = value
    new = replace(options, **changes)
    listed = given.get("additional_special_tokens") or given.get("extra_special_tokens") or ()
    names = [one.get("content") if isinstance(one, dict) else one for one in listed if isinstance(listed, list)]
    further = [name for name in (*options.added, *names) if isinstance(name, str) and name not in new.specials]
    return replace(new, added=tuple(dict.fromkeys(further)))


def read_json(path: Path) -> Any:
    """The content of a JSON file; DataError where it is none."""
    try:
        return from_json(read_bytes(path).decode("utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})", hint="copy the folder again") from None
