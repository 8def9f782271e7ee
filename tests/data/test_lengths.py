"""Sentences that are too long for a model or for `data.longest`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import Invoke, workplace

from probtrans_cli.data.corpus.filters import Shortened
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.pieces import Characters
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data

SHORT = Sentence(["the", "fox"], {"upos": ["A", "B"]}, heads=[2, 0], where="a.txt:1")
LONG = Sentence(
    ["the", "un", "unable", "fox", "ran"],
    {"upos": list("ABCDE")},
    heads=[2, 0, 2, 3, 3],
    relations=list("abcde"),
    form="A\nB\nC\nD\nE",
    begins=True,
    where="a.txt:2",
)
WORDS = Words(["the", "fox"], [2, 1], lowercase=True, digits=False)


def pieces() -> WordPieces:
    pytest.importorskip("tokenizers")
    return WordPieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##able", "fox", "ran"])


def shortened(vocabulary: Any, **options: Any) -> Shortened:
    return Shortened([SHORT, LONG], vocabulary, Data(train="a.txt", **options))


def words(sentences: Shortened) -> list[str]:
    return [" ".join(one.words) for one in sentences]


def test_without_a_limit_nothing_changes() -> None:
    sentences = shortened(WORDS)
    assert list(sentences) == [SHORT, LONG]
    assert sentences.report("a") is None


def test_one_that_is_too_long_is_refused_by_its_line() -> None:
    sentences = iter(shortened(WORDS, longest=4))
    assert next(sentences) is SHORT
    with pytest.raises(DataError, match=r"a\.txt:2: a sentence of 5 tokens, more than 4"):
        next(sentences)
    assert list(shortened(WORDS, longest=5)) == [SHORT, LONG]


def test_cut_and_counted() -> None:
    sentences = shortened(WORDS, longest=3, too_long="cut")
    _, one = sentences
    assert one == Sentence(["the", "un", "unable"], {"upos": list("ABC")}, form="A\nB\nC", begins=True, where="a.txt:2")
    assert sentences.report("dev") == "dev: 1 sentences of more than 3 tokens were cut, without 2 words"


def test_left_out_and_counted() -> None:
    sentences = shortened(WORDS, longest=3, too_long="skip")
    assert list(sentences) == [SHORT]
    assert sentences.report("dev") == "dev: 1 sentences of more than 3 tokens were left out"
    with pytest.raises(DataError, match="every sentence has more than 4 tokens"):
        list(Shortened([LONG], WORDS, Data(train="a.txt", longest=4, too_long="skip")))
    assert shortened(WORDS, longest=5, too_long="skip").report("dev") is None


def test_extra_words_count_as_tokens() -> None:
    vocabulary = Words(["the", "fox", "[unused1]"], [2, 1, 1], lowercase=True, digits=False, extra=1)
    given = Sentence(["the", "fox", "ran", "[unused1]"], grid=[[1, 1, 2, 0]], extra=1)
    assert list(Shortened([given], vocabulary, Data(train="a.txt", longest=4))) == [given]
    with pytest.raises(DataError, match="a sentence of 4 tokens, more than 3"):
        list(Shortened([given], vocabulary, Data(train="a.txt", longest=3)))


def test_tuples_are_split_behind_punctuation() -> None:
    extra = ["[unused1]"]
    vocabulary = Words([*"abcdef,", *extra], [1] * 8, lowercase=False, digits=False, extra=1)
    rows = [[1, 2, 0, 3, 0, 0, 0, 1], [0, 0, 0, 0, 1, 2, 3, 0], [1, 0, 0, 0, 2, 0, 0, 0]]
    sentence = Sentence([*"ab,cdef", *extra], grid=rows, extra=1, form="[]", where="a.tsv:1")

    def split(longest: int) -> tuple[list[tuple[str, list[list[int]] | None]], str | None]:
        data = Data(train="a.tsv", format="extractions", longest=longest, too_long="split")
        parts = Shortened([sentence], vocabulary, data)
        return [("".join(one.words), one.grid) for one in parts], parts.report("train")

    # Five words and the extra one: behind the comma, and then all that is left.
    said = "train: 1 sentences of more than {} tokens were split; {} rows of labels reach over several parts"
    found, report = split(6)
    assert found == [("cdef[unused1]", [[0, 1, 2, 3, 0]])]
    assert report == f"{said.format(6, 2)} and were left out"
    found, _ = split(8)
    assert found == [("ab,cdef[unused1]", rows)]
    sentence.words[2], sentence.words[3] = "c", ","
    found, report = split(5)
    assert found == [("abc,[unused1]", [[1, 2, 0, 3, 1]]), ("def[unused1]", [[1, 2, 3, 0]])]
    assert report == f"{said.format(5, 1)} and were left out"


def test_windows_are_all_of_it() -> None:
    sentences = shortened(WORDS, longest=3, too_long="window")
    _, one, other = sentences
    assert (one.words + other.words, one.tags["upos"] + other.tags["upos"]) == (LONG.words, LONG.tags["upos"])
    assert (other.form, other.heads, one.begins, other.begins) == ("D\nE", None, True, False)
    assert sentences.report("dev") == "dev: 1 sentences of more than 3 tokens were read in portions"


def test_words_are_not_divided() -> None:
    """`unable` is two pieces; `[CLS]` and `[SEP]` are around every portion."""
    assert words(shortened(pieces(), longest=5, too_long="window")) == ["the fox", "the un", "unable fox", "ran"]
    assert words(shortened(pieces(), longest=6, too_long="window")) == ["the fox", "the un unable", "fox ran"]
    assert words(shortened(pieces(), longest=8)) == ["the fox", "the un unable fox ran"]
    with pytest.raises(DataError, match=r"a\.txt:2: word 3 alone has 2 tokens, more than 1"):
        list(shortened(pieces(), longest=3, too_long="window"))
    assert words(shortened(pieces(), longest=3, too_long="cut"))[-1] == "the"


@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_entities_are_not_divided_unless_one_is_too_long(scheme: str) -> None:
    """Of six words the entities are 2-3 and 4-6."""
    tags = {"iob2": "O B-a I-a B-b I-b I-b", "bioes": "O B-a E-a B-b I-b E-b"}[scheme].split()
    sentence = Sentence(list("uvwxyz"), {"tag": tags}, form="\n".join(tags), where="a.txt:1")

    def portions(longest: int, too_long: str) -> list[str]:
        data = Data(train="a.txt", longest=longest, too_long=too_long)  # type: ignore[arg-type]
        return ["".join(one.words) for one in Shortened([sentence], WORDS, data)]

    assert [portions(longest, "window") for longest in (5, 4, 3)] == [["uvw", "xyz"], ["uvw", "xyz"], ["uvw", "xyz"]]
    assert [portions(longest, "cut") for longest in (5, 4, 3)] == [["uvw"], ["uvw"], ["uvw"]]
    tags[1:] = ["B-a", *["I-a"] * 4] if scheme == "iob2" else ["B-a", *["I-a"] * 3, "E-a"]
    sentence.form = "\n".join(tags)
    assert portions(3, "window") == ["u", "vwx", "yz"]


def test_characters_are_tokens() -> None:
    vocabulary = Characters("abfhlnortux", {}, lowercase=False)
    assert words(shortened(vocabulary, longest=9, too_long="window")) == ["the fox", "the un", "unable fox", "ran"]
    with pytest.raises(DataError, match=r"a\.txt:2: word 3 alone has 6 tokens, more than 5"):
        list(shortened(vocabulary, longest=5, too_long="window"))


def test_punctuation_that_is_not_read() -> None:
    vocabulary = Words(["the", "fox"], [2, 1], lowercase=True, digits=False, omitted={",": 1})
    text = Sentence([",", "the", ",", ",", "fox", "ran", "on", "."], where="a.txt:1")
    sentences = Shortened([text], vocabulary, Data(train="a.txt", longest=3, too_long="window"))
    assert sorted(word for one in sentences for word in one.words) == sorted(text.words)
    assert all(len(vocabulary.encode_words(one.words).ids) <= 3 for one in sentences)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.too_long=cut"], "data.too_long: too long for what?"),
        (["data.longest=9", "data.too_long=window", "task={kind: cogs}", "data.format=cogs"], "by whole sentences"),
        (
            ["data.longest=9", "data.too_long=window", "task={kind: classification}", "data.format=table"],
            "a label is one of a whole text",
        ),
        (["data.longest=9", "task={kind: pretrain}", "data.format=documents"], "data.documents.max_length"),
        (["data.too_long=skip"], "data.too_long: too long for what?"),
        (
            ["data.longest=9", "data.too_long=cut", "data.format=extractions"],
            "are not cut: choose error",
        ),
        (["data.longest=9", "data.too_long=split"], "only `format: extractions` is split"),
        (["data.longest=9", "data.too_long=window", "data.format=coordinations"], "are not divided: choose error"),
    ],
)
def test_what_does_not_go_together(
    overrides: list[str], message: str, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    ran = invoke("train", "tiny.yaml", *overrides, "--print")
    assert ran.code == 2
    assert message in " ".join(ran.err.split()), ran.err


def test_training_scoring_and_parsing(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has positions for four words and the corpus longer sentences."""
    monkeypatch.chdir(workplace(tmp_path))
    model = "model={kind: transformer, width: 8, heads: 2, layers: 1, inner: 8, positions: {kind: absolute, rows: 4}}"
    train = ("train", "tiny.yaml", model, "--run", "runs/short", "--overwrite")
    ran = invoke(*train)
    assert ran.code == 3
    assert "or data.longest=4 data.too_long=cut" in " ".join(ran.err.split())
    for _ in ("prepared", "up to date"):
        ran = invoke(*train, "data.longest=4", "data.too_long=cut")
        assert ran.code == 0, ran.err
        assert "data.train: " in ran.err
        assert "sentences of more than 4 tokens were cut, without " in ran.err
    ran = invoke("eval", "runs/short", "test.conllu")
    assert ran.code == 0, ran.err
    assert "test.conllu: " in ran.err
    assert "were cut" in ran.err
    Path("in.txt").write_text("the fox sleeps\na b c d e\nthe fox\n", encoding="utf-8")
    ran = invoke("parse", "runs/short", "in.txt", "-f", "jsonl")
    assert ran.code == 3
    assert [line.count('"the"') for line in ran.out.splitlines()] == [1]
    assert "in.txt:2: a sentence of 5 tokens, and the model has 4 positions for them" in " ".join(ran.err.split())
