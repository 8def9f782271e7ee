"""From raw text to tokens, as the Penn and English Web treebanks divide it: for `parse` on your own sentences.

Text that is already tokenised comes out as it went in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probtrans_cli.data.sentence import Sentence

_CHUNK = re.compile(r"\S+")  # of str.split()
# A chunk that stays whole: markers such as <unk>, addresses, and anything without a letter or digit ("...", ":-)").
_WHOLE = re.compile(r"<\w+>|\[MASK\]|\w+://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+|[^\w\s]+|n't|'\w{1,2}", re.IGNORECASE)
MASK = "[MASK]"
"""How a hidden word is written."""
_OPENING = re.compile(r"""["'`(\[{<«“‘¿¡$£€#]""")
_CLOSING = re.compile(r"""["'`)\]}>»”’.,;:!?%]""")
_CONTRACTION = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|re|ve|ll|d|m))$")
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]?\.?|(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|Inc|Co|Corp|Ltd)\.")
_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, no text by themselves


def tokenize(text: str) -> list[str]:
    """The tokens of one sentence: white space separates, punctuation and contractions are split off."""
    tokens: list[str] = []
    for chunk in text.split():
        tokens += _split(chunk)
    return tokens


def divided(text: str, where: str = "") -> Sentence:
    """The sentence of a text, divided into its tokens."""
    return Sentence(tokenize(text), text=text, where=where)


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """The characters ``[begin, end)`` of the same tokens."""
    for chunk in _CHUNK.finditer(text):
        end = chunk.start()
        for token in _split(chunk.group()):  # one behind the other, nothing between them
            start, end = end, end + len(token)
            yield start, end


def _split(chunk: str) -> list[str]:
    before: list[str] = []
    after: list[str] = []
    while chunk and not _WHOLE.fullmatch(chunk):
        if _OPENING.match(chunk) and not chunk.startswith(MASK):
            before.append(chunk[0])
            chunk = chunk[1:]
        elif not _ABBREVIATION.fullmatch(chunk) and (found := _closing(chunk)):
            after.insert(0, found)
            chunk = chunk[: -len(found)]
        elif found_contraction := _CONTRACTION.search(chunk):
            after.insert(0, found_contraction.group())
            chunk = chunk[: found_contraction.start()]
        else:
            break
    return [*before, *([chunk] if chunk else []), *after]


def _closing(chunk: str) -> str:
    for ending in ("...", "…", "--"):
        if chunk.endswith(ending):
            return ending
    return chunk[-1] if _CLOSING.search(chunk[-1]) else ""


def valid(text: str) -> str:
    """The text with U+FFFD for each half of a character, which tokenizer packages refuse; its length stays the same."""
    return _SURROGATES.sub("\ufffd", text)
