"""From text to words: at white space where it is tokenised already, else as the Penn and English Web treebanks divide
it, for `parse` on your own sentences.

Tokenised text without no-break spaces comes out of that as it went in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

# White space between words. No-break spaces do not break: corpora use them inside a word ("4 1/2").
_BETWEEN_WORDS = re.compile("[^\\S\u00a0\u2007\u202f]+")
_CHUNK = re.compile(r"\S+")  # of str.split()
LONGEST = 2000  # words or tokens that a sentence may have for `parse`, unless somebody allows more
MASK = "[MASK]"  # how a hidden word is written
_LETTER = re.compile(r"\w")  # a letter, a digit or `_`
_OPENING = """\"'`([{<«“‘¿¡$£€#"""
_CLOSING = frozenset("""\"'`)]}>»”’.,;:!?%…""")
_SEVERAL = ("...", "--")  # closing marks of several characters
_CONTRACTION = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|re|ve|ll|d|m))$")
_LONGEST_CONTRACTION = 3
# What stays whole although it begins with an opening mark: <unk>, 's.
_MARKED = re.compile(r"<\w+>|'\w{1,2}")
# Beginnings of what stays whole. An address goes on with any character.
_ADDRESS = re.compile(r"(?:\w+://|www\.)\S", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.([\w.-]+)")
_NOT = re.compile(r"n't", re.IGNORECASE)
_INITIALS = re.compile(r"[A-Za-z]\.(?:[A-Za-z]\.)*[A-Za-z]?\.?")
_TITLE = re.compile(r"(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|Inc|Co|Corp|Ltd)\.")
_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, no text by themselves


def words_of(text: str) -> list[str]:
    """Return the words of a tokenised text, which white space separates, but not no-break spaces."""
    return text.split() if text.isascii() else [word for word in _BETWEEN_WORDS.split(text) if word]


def listed(words: Iterable[str]) -> list[str]:
    """Return words without white space around them; within a word it becomes single spaces, as in CoNLL-U."""
    words = list(words)
    if _BETWEEN_WORDS.search("".join(words)) is None:
        return words
    return [" ".join(words_of(word)) for word in words]


def are_words(values: object) -> TypeGuard[list[str]]:
    """Return whether a value is a list of words without white space in or around them."""
    return isinstance(values, list) and all(isinstance(word, str) and words_of(word) == [word] for word in values)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a sentence: white space separates, punctuation and contractions are split off."""
    return [text[start:end] for start, end in token_spans(text)]


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the characters ``[begin, end)`` of the same tokens. Time grows with the length of the text."""
    for chunk in _CHUNK.finditer(text):
        offset = chunk.start()
        for start, end in _split(chunk.group()):
            yield offset + start, offset + end


def _split(chunk: str) -> list[tuple[int, int]]:
    """Split a text without white space: marks are taken off its beginning, then off its end."""
    letter = _LETTER.search(chunk)
    if letter is None:  # "...", ":-)"
        return [(0, len(chunk))]
    begin, end = len(chunk) - len(chunk.lstrip(_OPENING)), len(chunk)
    after: list[tuple[int, int]] = []
    if begin and _MARKED.fullmatch(chunk, begin - 1):
        begin -= 1
    else:
        ends = [(begin + 1, letter.start())]  # marks alone
        if match := _ADDRESS.match(chunk, begin):
            ends.append((match.end(), len(chunk)))
        if match := _MAIL.match(chunk, begin):
            ends.append((match.start(1) + 1, match.end()))
        if match := _INITIALS.match(chunk, begin):
            ends.append((begin + 2, match.end()))
        kept = ends + [(match.end(), match.end()) for form in (_TITLE, _NOT) if (match := form.match(chunk, begin))]
        if begin and chunk.startswith(MASK, begin - 1):
            begin -= 1
            kept = [(begin + len(MASK), begin + len(MASK))]
        while not any(low <= end <= high for low, high in kept):
            shorter = end - _length_of_ending(chunk, begin, end)
            if shorter == end:
                break
            after.append((shorter, end))
            end = shorter
    return [*((place, place + 1) for place in range(begin)), (begin, end), *after[::-1]]


def _length_of_ending(chunk: str, begin: int, end: int) -> int:
    for mark in _SEVERAL:
        if chunk.endswith(mark, begin, end):
            return len(mark)
    if chunk[end - 1] in _CLOSING:
        return 1
    contraction = _CONTRACTION.search(chunk, max(begin, end - _LONGEST_CONTRACTION), end)
    return len(contraction.group()) if contraction else 0


def valid(text: str) -> str:
    """Return the text with U+FFFD for each half of a character, which tokenizer packages refuse; as long as before."""
    return _SURROGATES.sub("\ufffd", text)
