"""The tokeniser of raw text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.tokens import are_words, listed, token_spans, tokenize, words_of

TEXTS = [
    ("Hello, world!", "Hello , world !"),
    ('He said: "No."', 'He said : " No . "'),
    ("It's the dogs' bone; they'll see.", "It 's the dogs ' bone ; they 'll see ."),
    ("can't won't I'm you’re", "ca n't wo n't I 'm you ’re"),
    ("Mr. Smith of the U.S. paid $5.50 (or 3,000 yen).", "Mr. Smith of the U.S. paid $ 5.50 ( or 3,000 yen ) ."),
    ("Wait... what?!", "Wait ... what ? !"),
    ("", ""),
    ("  \t ", ""),
]


def test_tokenize() -> None:
    for text, tokens in TEXTS:
        assert tokenize(text) == tokens.split()


def test_tokenised_text_stays() -> None:
    for text in ["the goats do n't sleep .", "<unk> and <mask> ...", "He 's here , is n't he ?", ":-) !!!"]:
        assert tokenize(text) == text.split()


@given(st.text())
def test_tokenising_loses_nothing_and_ends(text: str) -> None:
    tokens = tokenize(text)
    assert "".join(tokens) == "".join(text.split())
    assert all(tokens)
    assert [text[start:end] for start, end in token_spans(text)] == tokens


# --- against the plain algorithm --------------------------------------------------------------------------------------

WHOLE = re.compile(r"<\w+>|\w+://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+|[^\w\s]+|n't|'\w{1,2}", re.IGNORECASE)
OPENING = re.compile(r"""["'`(\[{<«“‘¿¡$£€#]""")
CLOSING = re.compile(r"""["'`)\]}>»”’.,;:!?%]""")
CONTRACTION = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|re|ve|ll|d|m))$")
ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]?\.?|(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|Inc|Co|Corp|Ltd)\.")


def plain_split(chunk: str) -> list[str]:
    """The rules one at a time, each on a copy of what is left: time grows with the square of the length or worse."""
    before: list[str] = []
    after: list[str] = []
    while chunk and not WHOLE.fullmatch(chunk):
        if OPENING.match(chunk):
            before.append(chunk[0])
            chunk = chunk[1:]
        elif not ABBREVIATION.fullmatch(chunk) and (found := plain_closing(chunk)):
            after.insert(0, found)
            chunk = chunk[: -len(found)]
        elif contraction := CONTRACTION.search(chunk):
            after.insert(0, contraction.group())
            chunk = chunk[: contraction.start()]
        else:
            break
    return [*before, *([chunk] if chunk else []), *after]


def plain_closing(chunk: str) -> str:
    for ending in ("...", "…", "--"):
        if chunk.endswith(ending):
            return ending
    return chunk[-1] if CLOSING.search(chunk[-1]) else ""


PIECES = [
    *"abIsStT7_'`\"([{<«“‘¿¡$£€#)]}>»”’.,;:!?%…-@&+/\\~é東ſ\u0301", "n't", "N'T", "n’t", "'s", "’ll", "'ve", "'d", "'ſ",
    "...", "--", "://", "http://", "www.", "WWW.", "<unk>", "<a", "@b.", "a@b.c", "a-b@c-d.e", "U.S.", "Mr.",
    "etc.", "Prof.", "I.",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_pieces_of_the_rules_are_divided_as_the_plain_algorithm_does(chunk: str) -> None:
    assert tokenize(chunk) == plain_split(chunk)


@given(st.text())
def test_random_text_is_divided_as_the_plain_algorithm_does(text: str) -> None:
    assert tokenize(text) == [token for chunk in text.split() for token in plain_split(chunk)]


def test_the_embedded_treebank_is_divided_as_the_plain_algorithm_does() -> None:
    from support import sentences

    for line in sentences("test", 150).splitlines():
        assert tokenize(line) == [token for chunk in line.split() for token in plain_split(chunk)]


LONG = [
    ("n't", ""),
    ("(", "a"),
    ("a", ")"),
    ("<", "unk>"),
    ("a.", ""),
    ("a.", "b,"),
    (".", "a"),
    ("a-", ""),
    ("a@", ""),
    ("a@b.", ","),
    ("'", "ll"),
    ("a", "..."),
    ("a'", "s"),
    ("a--", ""),
    ("http://a.", "!"),
    ("www.", ")"),
    ("a's", "."),
    ("…", "a…"),
    ("&", "a&,"),
]


def test_what_repeats_is_divided_as_the_plain_algorithm_does() -> None:
    for part, end in LONG:
        for count in (1, 2, 3, 50):
            for chunk in (part * count + end, end + part * count, "(" + part * count + end + ")."):
                assert tokenize(chunk) == plain_split(chunk)


MANY = 100_000


def test_long_text_is_divided_at_once() -> None:
    for text, tokens in [
        ("n't" * MANY, ["n't"] * MANY),
        ("(" * MANY + "a", ["("] * MANY + ["a"]),
        ("a" + ")" * MANY, ["a"] + [")"] * MANY),
        ("a" + "'s" * MANY, ["a"] + ["'s"] * MANY),
        ("'" * MANY + "ll", ["'"] * (MANY - 1) + ["'ll"]),
        ("<" * MANY + "a", ["<"] * MANY + ["a"]),
        ("a@b" + "," * MANY, ["a@b"] + [","] * MANY),
        ("(" * MANY, ["(" * MANY]),
        ("a." * MANY, ["a." * MANY]),
    ]:
        assert tokenize(text) == tokens  # the plain algorithm takes hours for most of them


@given(st.text(st.sampled_from("ab \t\n\x1f\x85\u00a0\u2007\u202f\u2028\u3000é")))
def test_words_have_no_white_space_but_no_break_spaces(text: str) -> None:
    words = words_of(text)
    assert are_words(words)
    assert listed(words) == words
    assert listed([text]) == [" ".join(words)]
    if text.isprintable():
        assert words == [word for word in text.split(" ") if word]


def test_what_is_no_list_of_words() -> None:
    for values in [None, "a", ["a", 1], ["a b"], ["a\n"], [""], ["\u2028"]]:
        assert not are_words(values)
