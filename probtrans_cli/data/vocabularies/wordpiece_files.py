"""The files of a WordPiece vocabulary: the pieces, and the options of the division of text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probtrans_cli.data.vocabularies.added_tokens import AddedToken
from probtrans_cli.data.vocabularies.base import read_bytes
from probtrans_cli.errors import DataError
from probtrans_cli.text import from_json

PIECES_FILE, OPTIONS_FILE, TOKENIZER_FILE = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
WORDPIECE_FILES = (PIECES_FILE, OPTIONS_FILE, TOKENIZER_FILE)
OLD_SPECIALS_FILE, OLD_ADDED_FILE = "special_tokens_map.json", "added_tokens.json"
READ_FILES = (*WORDPIECE_FILES, OLD_SPECIALS_FILE, OLD_ADDED_FILE)
"""All files from which a vocabulary is read."""
LONGEST_WORD = 100
"""Characters; a longer word is unknown."""


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
    added: tuple[AddedToken, ...] = ()
    """Tokens that text is searched for before it is divided; special pieces that are searched for in another way than
    as they are spelled."""

    @property
    def specials(self) -> tuple[str, ...]:
        """The special pieces' names."""
        return (self.pad, self.unknown, self.first, self.last, self.mask)

    @property
    def further(self) -> tuple[AddedToken, ...]:
        """The tokens that were added beside the special pieces."""
        return tuple(token for token in self.added if token.content not in self.specials)


KEYS = {  # of tokenizer_config.json -> of Options
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_chinese",
    "pad_token": "pad",
    "unk_token": "unknown",
    "cls_token": "first",
    "sep_token": "last",
    "mask_token": "mask",
}


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


def of_tokenizer(content: Any, path: Path) -> tuple[list[str], Options]:
    """Pieces and options of a `tokenizer.json`, without the tokens that were added to it."""
    try:
        model, normalizer = content["model"], content["normalizer"]
        ids = {str(piece): int(id) for piece, id in model["vocab"].items()}
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
    size = max(ids.values(), default=-1) + 1
    # Blank lines of a vocab.txt leave gaps, but not many.
    if len(set(ids.values())) < len(ids) or min(ids.values(), default=0) < 0 or size > 2 * len(ids) + 1000:
        raise DataError(f"{path}: the ids of its pieces are not 0, 1, 2, …", hint="the file is damaged")
    pieces = [""] * size
    for piece, id in ids.items():
        pieces[id] = piece
    return pieces, options


def _of_type(wanted: Any, value: Any) -> Any:
    if not isinstance(value, wanted):
        raise TypeError(f"{value!r} in place of a value of {getattr(wanted, '__name__', wanted)}")
    return value


_OTHER_DIVISIONS = ("BertJapaneseTokenizer", "RoFormerTokenizer", "RoFormerTokenizerFast")  # they cut words before
_TAKEN = {str: "text", bool: "true or false"}
_BERT_TOKENIZER = ("WordPiece", "BertNormalizer", "BertPreTokenizer", "##", LONGEST_WORD, True)


def overlaid(options: Options, given: Any, path: Path) -> Options:
    """Options with what a file says of them."""
    if not isinstance(given, dict) or given.get("do_basic_tokenize", True) is not True:
        raise DataError(f"{path}: not the options of a BERT tokenizer", hint="do_basic_tokenize must be true")
    if given.get("tokenizer_class") in _OTHER_DIVISIONS:
        hint = "only the WordPiece tokenizers of BERT models can be read"
        raise DataError(f"{path}: tokenizer_class: {given['tokenizer_class']!r} is unsupported", hint=hint)
    changes: dict[str, Any] = {}
    for key, name in KEYS.items():
        value = given[key].get("content") if isinstance(given.get(key), dict) else given.get(key)
        wanted = str if key.endswith("_token") else bool
        if value is not None and not isinstance(value, wanted):
            raise DataError(f"{path}: {key} is {value!r}", hint=f"it takes {_TAKEN[wanted]}")
        if value is not None or (key == "strip_accents" and key in given):
            changes[name] = value
    return replace(options, **changes)


def read_json(path: Path) -> Any:
    """The content of a JSON file; DataError where it is none."""
    try:
        return from_json(read_bytes(path).decode("utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})", hint="copy the folder again") from None
