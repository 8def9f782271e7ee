"""The files of a WordPiece vocabulary: the pieces, how text is divided, and tokens that were added.

Text is searched for added tokens before it is divided into pieces. They stand in one of these files of a folder, and
`transformers` reads them in this order:

    tokenizer_config.json     `added_tokens_decoder`, by id: without it, those of the next two files count
    tokenizer.json            `added_tokens`, with their ids
    added_tokens.json         {token: id}, in older folders; a special token is found as it is spelled, others
                              are cleaned as text is, so in any case under a model in lower case
    special_tokens_map.json, tokenizer_config.json    names of special tokens; without an id, the next one is theirs

A token that `vocab.txt` has, too, has the id of its line. The others' ids go on where the lines end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.folders import regular
from probtrans_cli.text import from_json

PIECES_FILE, OPTIONS_FILE, TOKENIZER_FILE = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
WORDPIECE_FILES = (PIECES_FILE, OPTIONS_FILE, TOKENIZER_FILE)
OLD_SPECIALS_FILE, OLD_ADDED_FILE = "special_tokens_map.json", "added_tokens.json"
READ_FILES = (*WORDPIECE_FILES, OLD_SPECIALS_FILE, OLD_ADDED_FILE)  # all files from which a vocabulary is read
LONGEST_WORD = 100  # characters; a longer word is unknown
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
_SPECIAL_KEYS = [key for key in KEYS if key.endswith("_token")]
_NAMED = ("bos_token", "eos_token")  # special tokens that BERT's form has no use for
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_AGAIN = "copy the folder again"
_ONLY = "only the WordPiece tokenizers of BERT models can be read"
_WRONG_FILE = "remove the file that is not the model's"
_OTHER_DIVISIONS = ("BertJapaneseTokenizer", "RoFormerTokenizer", "RoFormerTokenizerFast")  # they cut words before
_VALUES = {str: "text", bool: "true or false"}
_BERT_TOKENIZER = ("WordPiece", "BertNormalizer", "BertPreTokenizer", "##", LONGEST_WORD, True)


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token, and how text is searched for it; the flags are those of the package `tokenizers`."""

    content: str
    special: bool = True
    normalized: bool = False  # whether it is searched for in cleaned text, and itself cleaned before
    single_word: bool = False  # whether it is found only where no letter or digit stands beside it
    lstrip: bool = False  # whether it takes the blanks in front of it
    rstrip: bool = False  # whether it takes the blanks behind it
    listed: bool = field(default=True, kw_only=True)
    """Whether `vocab.txt` has it: then it may also be a piece of a word."""

    @property
    def flags(self) -> dict[str, bool]:
        return {name: getattr(self, name) for name in FLAGS}


@dataclass(frozen=True, slots=True)
class Options:
    """How text becomes pieces, and what the special pieces are called."""

    lowercase: bool = True
    strip_accents: bool | None = None  # None: as ``lowercase``
    split_chinese: bool = True
    pad: str = "[PAD]"
    unknown: str = "[UNK]"
    first: str = "[CLS]"
    last: str = "[SEP]"
    mask: str = "[MASK]"
    added: tuple[AddedToken, ...] = ()
    """Tokens that text is searched for before it is divided; special pieces only where they are searched for in another
    way than as they are spelled."""

    @property
    def specials(self) -> tuple[str, ...]:
        return (self.pad, self.unknown, self.first, self.last, self.mask)

    @property
    def further(self) -> tuple[AddedToken, ...]:
        return tuple(token for token in self.added if token.content not in self.specials)


def division(options: Options) -> tuple[Any, Any]:
    """Return what cleans text, and what cuts it before pieces are looked for."""
    try:
        from tokenizers import normalizers, pre_tokenizers  # noqa: PLC0415  (an extra)
    except ImportError:
        hint = "pip install 'probtrans[hf]'"
        raise UsageError("a vocabulary of kind wordpiece needs the package tokenizers", hint=hint) from None
    cleaned = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.split_chinese,
        strip_accents=options.strip_accents,
        lowercase=options.lowercase,
    )
    return cleaned, pre_tokenizers.BertPreTokenizer()


def read_bytes(path: Path) -> bytes:
    """Read a file, which may be a link, as in the caches of Hugging Face."""
    try:
        return regular.read_bytes(path, follow=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return from_json(read_bytes(path).decode("utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})", hint=_AGAIN) from None


def read_pieces(path: Path) -> list[str]:
    """Read the pieces of a `vocab.txt`, by id. A blank line is a piece that is never found, and keeps the numbering.

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
    first: dict[str, int] = {}
    for number, piece in enumerate(lines, start=1):
        if piece and first.setdefault(piece, number) != number:
            hint = "every piece stands in a vocabulary once: the number of its line is its id"
            raise DataError(f"{path}:{number}: the piece {piece!r} stands in line {first[piece]} already", hint=hint)
    return lines


def of_tokenizer(content: Any, path: Path) -> tuple[list[str], Options]:
    """Return pieces and options of a `tokenizer.json`, without the tokens that were added to it."""

    def typed(kind: Any, value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} in place of a value of {getattr(kind, '__name__', kind)}")
        return value

    try:
        model, normalizer = content["model"], content["normalizer"]
        ids = {str(piece): int(id) for piece, id in model["vocab"].items()}
        kinds = (model.get("type", "WordPiece"), normalizer["type"], content["pre_tokenizer"]["type"])
        options = Options(
            lowercase=typed(bool, normalizer["lowercase"]),
            strip_accents=typed(bool | None, normalizer["strip_accents"]),
            split_chinese=typed(bool, normalizer["handle_chinese_chars"]),
            unknown=typed(str, model["unk_token"]),
        )
        limits = (model["continuing_subword_prefix"], model["max_input_chars_per_word"], normalizer["clean_text"])
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: not the tokenizer of a BERT model ({error!r})", hint=_ONLY) from None
    for value, expected in zip((*kinds, *limits), _BERT_TOKENIZER, strict=True):
        if value != expected:
            raise DataError(f"{path}: unsupported: {value!r} instead of BERT's {expected!r}", hint=_ONLY)
    size = max(ids.values(), default=-1) + 1
    # Blank lines of a vocab.txt leave gaps, but not many.
    if len(set(ids.values())) < len(ids) or min(ids.values(), default=0) < 0 or size > 2 * len(ids) + 1000:
        raise DataError(f"{path}: the ids of its pieces are not 0, 1, 2, …", hint="the file is damaged")
    pieces = [""] * size
    for piece, id in ids.items():
        pieces[id] = piece
    return pieces, options


def overlaid(options: Options, content: Any, path: Path) -> Options:
    if not isinstance(content, dict) or content.get("do_basic_tokenize", True) is not True:
        raise DataError(f"{path}: not the options of a BERT tokenizer", hint="do_basic_tokenize must be true")
    if content.get("tokenizer_class") in _OTHER_DIVISIONS:
        raise DataError(f"{path}: tokenizer_class: {content['tokenizer_class']!r} is unsupported", hint=_ONLY)
    changes: dict[str, Any] = {}
    for key, name in KEYS.items():
        value = content[key].get("content") if isinstance(content.get(key), dict) else content.get(key)
        kind = str if key in _SPECIAL_KEYS else bool
        if value is not None and not isinstance(value, kind):
            raise DataError(f"{path}: {key} is {value!r}", hint=f"it takes {_VALUES[kind]}")
        if value is not None or (key == "strip_accents" and key in content):
            changes[name] = value
    return replace(options, **changes)


# --- added tokens -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declared:
    """A token as a file declares it."""

    token: AddedToken
    id: int | None
    path: Path
    optional: bool = False  # whether a model may have no row for it


def declared_tokens(contents: Mapping[str, Any], folder: Path, specials: Sequence[str]) -> list[Declared]:
    """Return the tokens that the files of a folder declare, in the order in which text is searched for them."""
    config, old = contents.get(OPTIONS_FILE, {}), contents.get(OLD_SPECIALS_FILE, {})
    path, old_path, tokenizer_path = folder / OPTIONS_FILE, folder / OLD_SPECIALS_FILE, folder / TOKENIZER_FILE
    values = _listed(contents.get(TOKENIZER_FILE, {}).get("added_tokens"), tokenizer_path, "added_tokens")
    ids = (value.get("id") if isinstance(value, dict) else None for value in values)
    serialized = [_with_id(value, id, tokenizer_path) for value, id in zip(values, ids, strict=True)]
    decoder = config.get("added_tokens_decoder")
    extra_key = "extra_special_tokens" if config.get("extra_special_tokens") else "additional_special_tokens"
    named, extra = _named(config, path), _nameless(config, extra_key, path)
    if decoder is not None:
        if not isinstance(decoder, dict):
            raise DataError(f"{path}: added_tokens_decoder is {decoder!r}", hint="it takes an object of tokens by id")
        by_id = [_with_id(value, id, path) for id, value in decoder.items()]
        contained = {declared.token.content for declared in by_id} | set(specials)
        if lacking := [it.token.content for it in serialized if it.token.content not in contained]:
            hint = "remove added_tokens_decoder, or the file that is not the model's"
            raise DataError(f"{path}: added_tokens_decoder has no {lacking[0]!r}, but tokenizer.json has", hint=hint)
    else:
        named += _named(old, old_path)
        old_extra = _nameless(old, "extra_special_tokens", old_path)
        special = {it.token.content for it in (*named, *extra, *old_extra)} | set(specials)
        plain, plain_path = contents.get(OLD_ADDED_FILE, {}), folder / OLD_ADDED_FILE
        if not isinstance(plain, dict):
            raise DataError(f"{plain_path}: not an object of ids by token", hint=_AGAIN)
        by_id = [_with_id(name, id, plain_path, special=name in special) for name, id in plain.items()] + serialized
        extra = [*extra, *old_extra] or _nameless(old, "additional_special_tokens", old_path)
    return [*sorted(by_id, key=lambda declared: declared.id or 0), *named, *extra]


def _token(value: Any, path: Path, *, special: bool = True) -> AddedToken:
    """Read a token as it stands in a file: its content alone, or with its flags."""
    if isinstance(value, str):
        value = {"content": value, "special": special}
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, str) or not content:
        raise DataError(f"{path}: an added token is {value!r}", hint="it takes text, or an object with its content")
    flags = {name: value.get(name, False) for name in FLAGS}
    flags["special"] = value.get("special", special)
    flags["normalized"] = value.get("normalized", not flags["special"])
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise DataError(f"{path}: {name} of {content!r} is {flag!r}", hint="it takes true or false")
    return AddedToken(content, **flags)


def _with_id(value: Any, id: Any, path: Path, *, special: bool = False) -> Declared:
    token = _token(value, path, special=special)
    if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 10:  # a key of JSON is text
        id = int(id)
    if not isinstance(id, int) or isinstance(id, bool):
        raise DataError(f"{path}: the added token {token.content!r} has the id {id!r}", hint=_AGAIN)
    return Declared(token, id, path)


def _named(options: Mapping[str, Any], path: Path) -> list[Declared]:
    """Return the special tokens with a key of their own, and of BERT's those that say how they are searched for."""
    by_key = {key: options.get(key) for key in _NAMED}
    by_key |= {key: value for key, value in options.items() if key.endswith("_token") and isinstance(value, str)}
    more = options.get("extra_special_tokens")
    by_key |= more if isinstance(more, dict) else {}
    values = [value for key, value in by_key.items() if value is not None and key not in _SPECIAL_KEYS]
    searched = [{**options[key], "special": True} for key in _SPECIAL_KEYS if isinstance(options.get(key), dict)]
    return [
        *(Declared(_token(value, path), None, path, optional=True) for value in values),
        *(Declared(_token(value, path), None, path) for value in searched),
    ]


def _nameless(options: Mapping[str, Any], key: str, path: Path) -> list[Declared]:
    values = () if isinstance(options.get(key), dict) else _listed(options.get(key), path, key)
    return [Declared(_token(value, path), None, path) for value in values]


def _listed(value: Any, path: Path, key: str) -> Sequence[Any]:
    if not isinstance(value or (), list | tuple):
        raise DataError(f"{path}: {key} is {value!r}", hint="it takes a list of tokens")
    return value or ()


def placed(
    pieces: Sequence[str], declared: Sequence[Declared], specials: Sequence[str], rows: int | None
) -> tuple[list[str], tuple[AddedToken, ...]]:
    """Return the pieces with the tokens that were added to them, and those tokens.

    Args:
        pieces: the vocabulary without them.
        specials: BERT's special pieces, which stand among the tokens only if they are searched for in another way.
        rows: the model's `vocab_size`; None = unknown.

    Raises:
        DataError: an id is that of another piece, or no row of the model has it.
    """
    ids = {piece: id for id, piece in enumerate(pieces) if piece}
    added: dict[str, AddedToken] = {}
    all_pieces = list(pieces)
    for it in declared:
        token, id, content = it.token, it.id, it.token.content
        if content not in ids:
            place = len(all_pieces) if id is None else id
            lacking = rows is not None and place >= rows
            if lacking and it.optional:
                continue
            fault = f"{it.path}: the added token {content!r} has the id {place:,}"
            if not 0 <= place <= 2 * len(all_pieces) + 1000:
                raise DataError(fault, hint=_AGAIN)
            if place < len(all_pieces) and all_pieces[place]:
                raise DataError(f"{fault}, which is that of {all_pieces[place]!r}", hint=_WRONG_FILE)
            if lacking:
                hint = "resize_token_embeddings in transformers gives a model rows for new tokens"
                raise DataError(f"{fault}, but the model's vocab_size is {rows:,}", hint=hint)
            all_pieces += [""] * (place + 1 - len(all_pieces))
            all_pieces[place], ids[content] = content, place
            token = replace(token, listed=content in specials)
        elif id not in (None, ids[content]):
            fault = f"{it.path}: the added token {content!r} has the id {id:,}, but {ids[content]:,} in another file"
            raise DataError(fault, hint=_WRONG_FILE)
        if content in specials:
            token = replace(token, special=True)
        added.setdefault(content, token)
    return all_pieces, tuple(it for it in added.values() if it.content not in specials or it != AddedToken(it.content))
