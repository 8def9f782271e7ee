"""The tokeniser of raw text; and its sentences: a table of cases, a sentence for each part between bars."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.tokens import are_words, listed, split_sentences, token_spans, tokenize, words_of

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
        elif not ABBREVIATION.fullmatch(chunk) and (mark := plain_closing(chunk)):
            after.insert(0, mark)
            chunk = chunk[: -len(mark)]
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
def test_random_text_is_divided_as_the_plain_algorithm_does_and_nothing_is_lost(text: str) -> None:
    tokens = tokenize(text)
    assert tokens == [token for chunk in text.split() for token in plain_split(chunk)]
    assert "".join(tokens) == "".join(text.split())
    assert all(tokens)
    assert [text[start:end] for start, end in token_spans(text)] == tokens


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


CASES = """
The dog barks.| The cat sleeps.
Is it true?| Yes!| It is.
One sentence without a stop
Dr. Smith met Mrs. Jones at St. Mary's.| They talked.
He lives in the U.S. and likes it.| She lives in the U.K.| They met.
J. R. R. Tolkien wrote it.| C. S. Lewis read it.
J.R.R. Tolkien wrote it.
He arrived at 5 p.m. on Monday.| He left at 6 a.m.| The next day was calm.
We saw cats, dogs, etc.| The birds were gone.
See Fig. 3 and No. 5 on p. 12.| Is that clear?| No.| It is not.
The price is 3.50 dollars.| In 1999 it was 2.| We paid.
It happened in 1990.| Nobody saw it.
1. First item.| It is short.
Apple Inc. said so.| Apple Inc.| The end.
"Stop!" he said.| "I will not," she said.
"Stop!"| He stood still.
He said "stop."| Then he left.
She asked, "Why?" and left.
He left.| "Where to?" she asked.
(This is one.| This is two.)| This is three.
He left (see Sec. 2. It is short) and came back.| Good.
He left (he was tired.)| She stayed.
Visit www.example.com or write to a.b@example.com.| Thanks.
Version 2.0.1 is out.| Try it!
Well... I think so.| Hm ... maybe.
What?!| No way.
The dog barks .| The cat sleeps .
Mr . Smith barks .| Then he sleeps .
the dog barks. the cat sleeps.
He is 25.| She is 24.
On Jan. 5 we met.| The cat sat.| Then it slept.
I know vs. I guess, i.e. The Beatles.
Plan B.| The rest is history.
Am 3. Oktober war es so weit.| Dr. Müller kam z. B. nicht.| Prof. Meier auch.
Das kostet 5 Euro, d.h. Hunde zahlen mehr.| Gut.
« Viens ! » dit-il.| Elle vient.
Il a dit : « Viens. »| Elle est venue.
„Komm!“, sagte er.| Sie kam.
M. Dupont est là.| Mme Durand aussi.
¿Quién es?| ¡Es él!| Vale.
El Sr. García vino.| La Sra. López no.
Она пришла.| Он ушёл.
Ήρθε.| Έφυγε.
今天天气很好。|我们去公园吧！|好吗？
“你好。”|他说。
「行く。」と言った。|彼は来た。
هل جاء؟| نعم جاء.| ثم ذهب.
वह आया।| वह गया।
הוא בא.| היא הלכה.
그는 왔다.| 그녀는 갔다.
Նա եկավ։| Նա գնաց։
მოვიდა.| წავიდა.
[MASK] is here .| The [MASK] sleeps .
"""


def test_sentences_end_where_they_should() -> None:
    for case in CASES.strip().split("\n"):
        text = case.replace("|", "")
        assert [text[begin:end] for begin, end in split_sentences(text)] == [part.strip() for part in case.split("|")]


@given(st.text(alphabet="aA1 .!?。」「()\"'…\u00a0»«\tIé"))
def test_nothing_is_lost(text: str) -> None:
    spans = list(split_sentences(text))
    assert all(begin < end and text[begin:end] == text[begin:end].strip() for begin, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join("".join(text[begin:end].split()) for begin, end in spans) == "".join(text.split())
