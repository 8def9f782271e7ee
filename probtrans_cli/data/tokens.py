"""From running text to sentences and words, for `parse` on your own texts.

Words are divided as in the Penn and English Web treebanks. Text that is tokenised already, without no-break spaces,
stays as it is.

Sentences end by rules for stops, abbreviations, initials, numbers, quotes and brackets. A stop ends a sentence if white
space follows (in scripts without spaces, anything), and then something that can begin a sentence: a capital, a digit, a
quote, a bracket, or a letter of a script that has no capitals. A full stop is doubted behind abbreviations, initials
and numbers. The rules are made for English, and know abbreviations of German and of some Romance languages;
`tests/data/test_tokens.py` has a table of cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
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
        # Ranges in which the word may end: once it does, nothing more is taken off its end.
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
            if chunk.endswith(_SEVERAL, begin, end):
                size = next(len(mark) for mark in _SEVERAL if chunk.endswith(mark, begin, end))
            elif chunk[end - 1] in _CLOSING:
                size = 1
            elif contraction := _CONTRACTION.search(chunk, max(begin, end - _LONGEST_CONTRACTION), end):
                size = len(contraction.group())
            else:
                break
            after.append((end - size, end))
            end -= size
    return [*((place, place + 1) for place in range(begin)), (begin, end), *after[::-1]]


def valid(text: str) -> str:
    """Return the text with U+FFFD for each half of a character, which tokenizer packages refuse; as long as before."""
    return _SURROGATES.sub("\ufffd", text)


# --- where a sentence ends --------------------------------------------------------------------------------------------

_STOPS = ".!?…‼⁇⁈⁉؟۔।॥։።፧፨។៕᠃᠉܀܁܂෴꘎꛳꫰꯫။"
_FULL_WIDTH = "。！？｡．"  # of scripts without spaces
_OPENERS, _CLOSERS = "([{\"'“‘„‚«‹»›「『（【《〈¿¡", ")]}\"'”’“‘»›«‹」』）】》〉"
_BRACKETS = {"(": ")", "[": "]", "{": "}", "（": "）", "【": "】", "「": "」", "『": "』"}

_END = re.compile(
    rf"([{re.escape(_STOPS)}]+)(?:[{re.escape(_CLOSERS)}]|[ \u00a0\u202f][»›](?=\s))*(?=\s)"
    rf"|([{_FULL_WIDTH}]+)[{re.escape(_CLOSERS)}]*"
)
_BRACKET = re.compile("[" + re.escape("".join([*_BRACKETS, *_BRACKETS.values()])) + "]")
_WORD_BEFORE = re.compile(r"[^\s(\[{\"“‘„«‹—–/]*$")
_IN_FRONT = re.compile(rf"[\s{re.escape(_OPENERS)}*•·–—-]*")  # of the first word of a sentence
_NUMBER, _ROMAN = re.compile(r"\d+(?:[.,]\d+)*"), re.compile("[IVXLC]+")
_LETTERS = re.compile(r"(?:[^\W\d_]{1,2}\.-?)*[^\W\d_]{1,2}")  # with stops between: U.S, J.R.R, a.m
_LETTER_AND_STOP = re.compile(r"[^\W\d_]\.")
_WORD = re.compile(r"[^\W\d_]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A name follows these, where they are capitalised.
_TITLES = _words(
    "mr mrs ms mx dr prof rev hon gov gen sen rep lt col capt cmdr sgt cpl maj adm pres supt messrs st mt ft hr fr frl "
    "dipl ing m mm mme mmes mlle dott sig sra srta dra ud uds"
)
# Something always follows these.
_NEVER = _words("vs viz e.g i.e eg ie cf ca approx resp incl esp bzw ggf evtl bspw z.b d.h u.a s.o s.u p.ej")
# A number follows these, or they end a sentence as other words do.
_BEFORE_NUMBERS = _words("no nos nr núm num fig figs eq eqs sec ch chap art vol vols pp par abs tab")
# These may end a sentence: they do if the next word is one that begins sentences.
_DOUBTED = _words("inc ltd co corp cos bros etc usw jr sr esq ave blvd rd dept univ assn ed eds al ph.d")
_DATES = _words("jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun")
_MONTHS = _words(
    "january february march april may june july august september october november december januar februar märz mai "
    "juni juli oktober dezember"
)
# Words that begin sentences, and are seldom names.
_STARTERS = _words(
    "the a an this that these those there here it he she we they you i his her its our their my your in on at by for "
    "from with as if when while after before since because although but and or so however then thus yet no not what "
    "who why how where which is are was were do does did has have can will would another many some most such each "
    "every both several few also even only just still today yesterday next first finally all more "
    "der die das ein eine er sie es wir ich dann "
    "le la les un une il elle ils elles nous ce cette el los las una"
)


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of running text begin and end, ``[begin, end)``, without white space around them."""
    begin, protected = 0, None
    for match in chain(_END.finditer(text), [None]):  # None: the text's end
        stop = len(text)
        if match is not None:
            if not _ends(text, begin, match):
                continue
            protected = _bracketed(text) if protected is None else protected
            stop = match.end()
            if any(start < match.start() and stop <= end and text[begin:start].strip() for start, end in protected):
                continue
        if part := text[begin:stop].strip():
            start = text.index(part, begin)
            yield start, start + len(part)
        begin = stop


def _bracketed(text: str) -> list[tuple[int, int]]:
    # From each opening bracket to its closing one.
    stretches, waiting = [], []
    for match in _BRACKET.finditer(text):
        if match.group() in _BRACKETS:
            waiting.append(match)
        elif any(_BRACKETS[opening.group()] == match.group() for opening in waiting):
            while _BRACKETS[(opening := waiting.pop()).group()] != match.group():
                pass
            stretches.append((opening.start(), match.start()))
    return stretches


def _ends(text: str, begin: int, match: re.Match[str]) -> bool:
    # Whether a sentence ends at this stop, brackets aside.
    behind = match.end() + len(_IN_FRONT.match(text[match.end() : match.end() + 80]).group())  # type: ignore[union-attr]
    if behind >= len(text):
        return False
    first, stops = text[behind], match.group(1)
    if stops is None:  # of a script without spaces; in Japanese, what is quoted goes on with a particle
        return not (match.group()[-1] in "」』" and text[match.end()] in "とっ")
    if (first.islower() and first.title() != first) or first in ",;:%)]}&/|=<>":
        return False
    next_word = _WORD.match(text, behind)
    if stops != ".":
        return not (stops[-1] in ".…" and next_word is not None and next_word.group() == "I")
    before = text[begin : match.start()].rstrip()
    word = _WORD_BEFORE.search(before[-80:]).group()  # type: ignore[union-attr]
    name = word.lower()
    starts = next_word is not None and next_word.group().lower() in _STARTERS
    starts = starts and not _LETTER_AND_STOP.match(text, behind)  # but for an initial
    if not word or (before.strip() == word and (_NUMBER.fullmatch(word) or _ROMAN.fullmatch(word) or len(word) == 1)):
        return False  # the number of an item
    if _NUMBER.fullmatch(word):
        return not (len(word) <= 2 and next_word is not None and next_word.group().lower() in _MONTHS)
    if name in _NEVER or (name in _TITLES and word[0].isupper()):
        return False
    if name in _BEFORE_NUMBERS:
        return not first.isdigit()
    if name in _DOUBTED or (name in _DATES and word[0].isupper()):
        return starts
    if _LETTERS.fullmatch(word) and ("." in word or len(word) == 1):
        return starts
    return True
