"""From a text to the numbers that an exported graph takes, without this package.

This file is written beside a graph as it stands, with the modules that it imports from this package: those by which
`parse` divides a text and looks up its words. What differs between models is data: `vocabulary.json`, and the section
`reading` of `EXPORT.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from probtrans_cli.data.tokens import token_spans, valid
from probtrans_cli.data.vocabularies.features import HashedFeatures
from probtrans_cli.data.vocabularies.typography import looked_up

Ids = Callable[[str], list[int]]


class Text(NamedTuple):
    """A text, divided and looked up.

    ``spans``: the characters ``[begin, end)`` of its words; ``words``: with these, the extra words not among them.
    ``ids``: of its tokens. ``first``: the position of each word's first token, those of the extra words last.
    ``features``: the rows of each token's word.
    """

    text: str
    spans: list[tuple[int, int]]
    words: list[str]
    ids: list[int]
    first: list[int]
    features: list[tuple[int, ...]]


class Lookup:
    """What a vocabulary knows of words."""

    def __init__(self, folder: Path, reading: Mapping[str, Any]) -> None:
        """``folder``: that of the vocabulary's files. ``reading``: the section of `EXPORT.json`."""
        self.reading = reading
        self.UNKNOWN: int = reading["unknown"]
        saved = json.loads((folder / "vocabulary.json").read_text("utf-8"))
        self._counts: dict[str, int] = dict(zip(saved["words"], saved["counts"], strict=True))
        self._counts = {**(saved["options"].get("omitted") or {}), **self._counts}
        self._numbers = None if reading["numbers"] is None else re.compile(reading["numbers"])
        self._ids: Ids = KINDS[reading["kind"]](folder, saved, reading)
        features = reading["features"]
        self.features = None if features is None else HashedFeatures(SimpleNamespace(**features))  # type: ignore[arg-type]

    def normalise(self, word: str) -> str:
        """The word as it is looked up and counted."""
        word = word.lower() if self.reading["lowercase"] else word
        return word if self._numbers is None else self._numbers.sub("N", word)

    def frequency(self, word: str) -> int:
        """How often the word occurs in the training file; 0 if it is not known."""
        return self._counts.get(self.normalise(word), 0)

    def encode_words(self, words: Sequence[str]) -> SimpleNamespace:
        """The ``ids`` of words, each by itself."""
        return SimpleNamespace(ids=[id for word in words for id in self.ids(word)])

    def ids(self, word: str) -> list[int]:
        """The ids of a word; none of one that is not read."""
        if self.reading["omits"] and not any(map(str.isalnum, word)):
            return []
        normal = word if self.reading["by_itself"] else self.normalise(word)
        longest = self.reading["longest_word"]
        if normal in self.reading["names"] or (longest is not None and len(normal) > longest):
            return [self.UNKNOWN]
        return self._ids(normal) or [self.UNKNOWN]

    def read(self, text: str) -> Text:
        """Divide a text and look up its words."""
        reading, spans = self.reading, list(token_spans(text))
        words, masks, extra = [text[start:end] for start, end in spans], reading["masks"], reading["extra_words"]
        spelled = looked_up([word for word in words if word not in masks], self)  # type: ignore[arg-type]
        if spelled is not None:
            known = iter(spelled)
            spelled = [word if word in masks else next(known) for word in words]
        shown = [*(spelled or words), *extra]
        ids = [[reading["mask"]] if word in masks else self.ids(word) for word in shown[: len(words)]]
        ids += [[id] for id in extra.values()]
        begin = [] if reading["first"] is None else [reading["first"]]
        end = [] if reading["last"] is None else [reading["last"]]
        rows = [() if self.features is None else self.features.rows(word) for word in shown]
        of_tokens = [of_word for of_word, pieces in zip(rows, ids, strict=True) for _ in pieces]
        return Text(
            text, spans, words,
            [*begin, *(id for pieces in ids for id in pieces), *end],
            self._starts(ids, len(begin)),
            [*[()] * len(begin), *of_tokens, *[()] * len(end)],
        )  # fmt: skip

    def _starts(self, ids: Sequence[Sequence[int]], begin: int) -> list[int]:
        """The position of each word's first token; of a word that is not read, of the token before it, or the first."""
        ends = list(accumulate(map(len, ids), initial=begin))
        return [start if pieces else max(start - 1, begin) for start, pieces in zip(ends, ids, strict=False)]


# --- kinds of vocabularies --------------------------------------------------------------------------------------------


def _words(folder: Path, saved: Any, reading: Mapping[str, Any]) -> Ids:
    del folder
    table = {word: id for id, word in enumerate(saved["words"], start=len(reading["names"]))}
    for word in reading["extra_words"]:
        del table[word]
    return lambda word: [table[word]] if word in table else []


def _characters(folder: Path, saved: Any, reading: Mapping[str, Any]) -> Ids:
    del folder
    characters, unknown, begin = saved["options"]["characters"], reading["unknown"], len(reading["names"])
    first = {character: id for id, character in enumerate(characters, start=begin)}
    within = {character: id for id, character in enumerate(characters, start=begin + len(characters))}

    def ids(word: str) -> list[int]:
        return [(within if number else first).get(character, unknown) for number, character in enumerate(word)]

    return ids


def _sentencepiece(folder: Path, saved: Any, reading: Mapping[str, Any]) -> Ids:
    import sentencepiece  # noqa: PLC0415  (only such a vocabulary needs it)

    del saved
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / reading["file"]))
    return lambda word: [int(id) for id in processor.encode(valid(word))]


def _wordpiece(folder: Path, saved: Any, reading: Mapping[str, Any]) -> Ids:
    from tokenizers import Tokenizer  # noqa: PLC0415  (only such a vocabulary needs it)

    del saved
    tokenizer = Tokenizer.from_file(str(folder / reading["file"]))
    tokenizer.encode_special_tokens = True  # the name of a special piece is a word like others
    return lambda word: [int(id) for id in tokenizer.encode(valid(word), add_special_tokens=False).ids]


KINDS: Mapping[str, Callable[[Path, Any, Mapping[str, Any]], Ids]] = {
    "words": _words,
    "char": _characters,
    "sentencepiece": _sentencepiece,
    "wordpiece": _wordpiece,
}


# --- batches ----------------------------------------------------------------------------------------------------------


def batches(texts: Sequence[Text], tokens: int = 4096) -> Iterator[list[Text]]:
    """Consecutive texts, so many that they have about ``tokens`` tokens with their padding."""
    batch: list[Text] = []
    longest = 0
    for text in texts:
        longest = max(longest, len(text.ids))
        if batch and longest * (len(batch) + 1) > tokens:
            yield batch
            batch, longest = [], len(text.ids)
        batch.append(text)
    if batch:
        yield batch


def arrays(texts: Sequence[Text], names: Sequence[str], reading: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inputs of a graph that have these names."""
    ids = padded([text.ids for text in texts], reading["pad"])
    shape = ids.shape
    rows = [row for text in texts for row in [*text.features, *[()] * (shape[1] - len(text.ids))]]
    makers: dict[str, Callable[[], np.ndarray]] = {
        "ids": lambda: ids,
        "mask": lambda: ids != reading["pad"],
        "first": lambda: padded([text.first for text in texts], shape[1]),
        "at": lambda: padded([np.flatnonzero(of_text == reading["mask"]) for of_text in ids], 0),
        "features": lambda: padded(rows, -1).reshape(*shape, -1),
        "segments": lambda: np.zeros_like(ids),
    }
    return {name: makers[name]() for name in names}


def padded(rows: Sequence[Sequence[int] | np.ndarray], fill: int) -> np.ndarray:
    """Rows of any lengths as one array of at least one column."""
    found = np.full((len(rows), max(1, *map(len, rows)) if rows else 1), fill, dtype=np.int64)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return found
