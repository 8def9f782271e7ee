"""Tokens that were added to a BERT's tokenizer: text is searched for them before it is divided into pieces.

They stand in one of these files of a folder, and `transformers` reads them in this order:

    tokenizer_config.json     `added_tokens_decoder`, by id: without it, those of the next two files count
    tokenizer.json            `added_tokens`, with their ids
    added_tokens.json         {token: id}, in older folders; a special one is found as it is spelled, another one
                              is cleaned as text is, so in any case under a model in lower case
    special_tokens_map.json, tokenizer_config.json    names of special tokens; without an id, the next one is theirs

A token that `vocab.txt` has, too, has the id of its line. The others' ids go on where the lines end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from probtrans_cli.errors import DataError

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_NAMED = ("bos_token", "eos_token")  # special tokens that BERT's form has no use for
_AGAIN = "copy the folder again"


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token, and how text is searched for it; the flags are those of the package `tokenizers`."""

    content: str
    special: bool = True
    normalized: bool = False
    """Whether it is searched for in cleaned text, and itself cleaned before."""
    single_word: bool = False
    """Whether it is found only where no letter or digit stands beside it."""
    lstrip: bool = False
    """Whether it takes the blanks in front of it."""
    rstrip: bool = False
    """Whether it takes the blanks behind it."""
    listed: bool = field(default=True, kw_only=True)
    """Whether `vocab.txt` has it: then it may also be a piece of a word."""

    @property
    def flags(self) -> dict[str, bool]:
        """The flags by their names."""
        return {name: getattr(self, name) for name in FLAGS}


@dataclass(frozen=True, slots=True)
class Declared:
    """A token as a file declares it."""

    token: AddedToken
    id: int | None
    path: Path
    optional: bool = False
    """Whether a model may have no row for it."""


def declared_tokens(
    contents: Mapping[str, Any], folder: Path, specials: Sequence[str], special_keys: Sequence[str]
) -> list[Declared]:
    """The tokens that the files of a folder declare, in the order in which they are searched for.

    Args:
        contents: of the JSON files that are there, by name.
        folder: of the files.
        specials: the names of BERT's special pieces.
        special_keys: the keys of the options under which these stand.

    Raises:
        DataError: a file has another form, or two files contradict each other.
    """
    config, old = (contents.get(f"{name}.json", {}) for name in ("tokenizer_config", "special_tokens_map"))
    whole, plain = (contents.get(f"{name}.json", {}) for name in ("tokenizer", "added_tokens"))
    path = folder / "tokenizer_config.json"
    serialized = list(_serialized(whole.get("added_tokens") or (), folder / "tokenizer.json"))
    decoder = config.get("added_tokens_decoder")
    extra_key = "extra_special_tokens" if config.get("extra_special_tokens") else "additional_special_tokens"
    named, extra = list(_named(config, special_keys, path)), list(_listed(config, extra_key, path))
    if decoder is not None:
        by_id = list(_of_decoder(decoder, path))
        known = {declared.token.content for declared in by_id} | set(specials)
        if lacking := [it.token.content for it in serialized if it.token.content not in known]:
            hint = "remove added_tokens_decoder, or the file that is not the model's"
            raise DataError(f"{path}: added_tokens_decoder has no {lacking[0]!r}, but tokenizer.json has", hint=hint)
    else:
        other = folder / "special_tokens_map.json"
        named += _named(old, special_keys, other)
        names = {it.token.content for it in (*named, *extra, *_listed(old, "extra_special_tokens", other))}
        by_id = [*_of_ids(plain, {*names, *specials}, folder / "added_tokens.json"), *serialized]
        extra += _listed(old, "extra_special_tokens", other)
        extra = extra or list(_listed(old, "additional_special_tokens", other))
    return [*sorted(by_id, key=lambda declared: declared.id or 0), *named, *extra]


def placed(
    pieces: Sequence[str], declared: Sequence[Declared], specials: Sequence[str], rows: int | None
) -> tuple[list[str], tuple[AddedToken, ...]]:
    """The pieces with the tokens that were added to them, and those tokens.

    Args:
        pieces: the vocabulary without them.
        declared: the tokens, in order.
        specials: BERT's special pieces, which stand among the tokens only if they are searched for in another way.
        rows: number of ids of the model, where it is known.

    Raises:
        DataError: an id is that of another piece, or no row of the model has it.
    """
    ids = {piece: id for id, piece in enumerate(pieces) if piece}
    added: dict[str, AddedToken] = {}
    all_pieces = list(pieces)
    for it in declared:
        token, id, path, content = it.token, it.id, it.path, it.token.content
        if content not in ids:
            place = len(all_pieces) if id is None else id
            lacking = rows is not None and place >= rows
            if lacking and it.optional:
                continue
            _require_free(content, place, all_pieces, path)
            if lacking:
                words = (
                    f"{path}: the added token {content!r} has the id {place:,}, but the model's vocab_size is {rows:,}"
                )
                raise DataError(words, hint="resize_token_embeddings in transformers gives a model rows for new tokens")
            all_pieces += [""] * (place + 1 - len(all_pieces))
            all_pieces[place], ids[content] = content, place
            token = replace(token, listed=content in specials)
        elif id not in (None, ids[content]):
            words = f"{path}: the added token {content!r} has the id {id:,}, but {ids[content]:,} in another file"
            raise DataError(words, hint="remove the file that is not the model's")
        if content in specials:
            token = replace(token, special=True)
        added.setdefault(content, token)
    return all_pieces, tuple(it for it in added.values() if it.content not in specials or it != AddedToken(it.content))


def _require_free(content: str, id: int, pieces: Sequence[str], path: Path) -> None:
    if not 0 <= id <= 2 * len(pieces) + 1000:
        raise DataError(f"{path}: the added token {content!r} has the id {id:,}", hint=_AGAIN)
    if id < len(pieces) and pieces[id]:
        words = f"{path}: the added token {content!r} has the id {id:,}, which is that of {pieces[id]!r}"
        raise DataError(words, hint="remove the file that is not the model's")


# --- the forms of the files -------------------------------------------------------------------------------------------


def _token(value: Any, path: Path, *, special: bool = True) -> AddedToken:
    """A token as it stands in a file: its content alone, or with its flags."""
    if isinstance(value, str):
        value = {"content": value, "special": special}
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, str) or not content:
        raise DataError(f"{path}: an added token is {value!r}", hint="it takes text, or an object with its content")
    flags = {name: value.get(name, False) for name in FLAGS if name != "normalized"}
    flags["special"] = value.get("special", special)
    flags["normalized"] = value.get("normalized", not flags["special"])
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise DataError(f"{path}: {name} of {content!r} is {flag!r}", hint="it takes true or false")
    return AddedToken(content, **flags)


def _id(value: Any, path: Path, content: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:  # a key of JSON is text
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"{path}: the added token {content!r} has the id {value!r}", hint=_AGAIN)
    return value


def _serialized(tokens: Any, path: Path) -> Iterator[Declared]:
    for value in _all(tokens, path, "added_tokens"):
        token = _token(value, path, special=False)
        yield Declared(token, _id(value.get("id") if isinstance(value, dict) else None, path, token.content), path)


def _of_decoder(decoder: Any, path: Path) -> Iterator[Declared]:
    if not isinstance(decoder, dict):
        raise DataError(f"{path}: added_tokens_decoder is {decoder!r}", hint="it takes an object of tokens by id")
    for id, value in decoder.items():
        token = _token(value, path, special=False)
        yield Declared(token, _id(id, path, token.content), path)


def _of_ids(plain: Any, specials: set[str], path: Path) -> Iterator[Declared]:
    if not isinstance(plain, dict):
        raise DataError(f"{path}: not an object of ids by token", hint=_AGAIN)
    for content, id in plain.items():
        yield Declared(_token(content, path, special=content in specials), _id(id, path, content), path)


def _named(options: Mapping[str, Any], special_keys: Sequence[str], path: Path) -> Iterator[Declared]:
    """Special tokens with a key of their own, without those of BERT."""
    by_key = {key: options.get(key) for key in _NAMED}
    by_key |= {key: value for key, value in options.items() if key.endswith("_token") and isinstance(value, str)}
    more = options.get("extra_special_tokens")
    by_key |= more if isinstance(more, dict) else {}
    for key, value in by_key.items():
        if value is not None and key not in special_keys:
            yield Declared(_token(value, path), None, path, optional=True)
    for key in special_keys:  # only how they are searched for is of interest
        if isinstance(options.get(key), dict):
            yield Declared(_token({**options[key], "special": True}, path), None, path)


def _listed(options: Mapping[str, Any], key: str, path: Path) -> Iterator[Declared]:
    value = options.get(key) or ()
    for token in () if isinstance(value, dict) else _all(value, path, key):
        yield Declared(_token(token, path), None, path)


def _all(value: Any, path: Path, key: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise DataError(f"{path}: {key} is {value!r}", hint="it takes a list of tokens")
    return value
