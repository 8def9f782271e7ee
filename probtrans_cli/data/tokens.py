"""From raw text to tokens, in the manner of the Penn and English Web treebanks, for `parse` on one's own sentences.

Text that is already tokenised comes out as it went in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# A chunk that stays whole: markers such as <unk>, addresses, and anything without a letter or digit ("...", ":-)").
_WHOLE = re.compile(r"<\w+>|\w+://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+|[^\w\s]+|n't|'\w{1,2}", re.IGNORECASE)
_OPENING = re.compile(r"""["'`(\[{<«“‘¿¡$£€#]""")
_CLOSING = re.compile(r"""["'`)\]}>»”’.,;:!?%]""")
_CONTRACTION = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|re|ve|ll|d|m))$")
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]?\.?|(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|Inc|Co|Corp|Ltd)\.")


def tokenize(text: str) -> list[str]:
    """The tokens of one sentence: white space separates, punctuation and contractions are split off."""
    tokens: list[str] = []
    for chunk in text.split():
        tokens += _split(chunk)
    return tokens


def _split(chunk: str) -> list[str]:
    before: list[str] = []
    after: list[str] = []
    while chunk and not _WHOLE.fullmatch(chunk):
        if _OPENING.match(chunk):
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


def one_after_the_other(pieces: Iterable[list[int]]) -> tuple[list[int], list[int]]:
    """The ids of all words' pieces, and for each word the position of its first."""
    ids: list[int] = []
    first: list[int] = []
    for of_word in pieces:
        first.append(len(ids))
        ids += of_word
    return ids, first
