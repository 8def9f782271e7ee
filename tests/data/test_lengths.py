"""Sentences that are too long for a model or for `data.longest`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, workplace

from probtrans_cli.data.corpus.tally import Tally, shortened
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
CHARACTERS = Characters("abfhlnortux", {}, lowercase=False)


def pieces() -> WordPieces:
    pytest.importorskip("tokenizers")
    return WordPieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##able", "fox", "ran"])


def passed(
    vocabulary: Any = WORDS, sentences: Sequence[Sentence] = (SHORT, LONG), **options: Any
) -> tuple[list[Sentence], str | None]:
    """The sentences that are left, and what is told of the others."""
    data, tally = Data(train="a.txt", **options), Tally("dev")
    left = list(shortened(sentences, vocabulary, data, tally))
    tally.require_some(data)
    return left, next(iter(tally.notes("dev", data)), None)


def words(*arguments: Any, **options: Any) -> list[str]:
    return [" ".join(sentence.words) for sentence in passed(*arguments, **options)[0]]


def test_what_is_left_and_told() -> None:
    assert passed() == ([SHORT, LONG], None)
    assert passed(longest=5) == ([SHORT, LONG], None)
    assert passed(longest=5, too_long="skip") == ([SHORT, LONG], None)
    note = "dev: 1 sentence of more than 3 tokens was"
    cut = Sentence(["the", "un", "unable"], {"upos": list("ABC")}, form="A\nB\nC", begins=True, where="a.txt:2")
    assert passed(longest=3, too_long="cut") == ([SHORT, cut], f"{note} cut, without 2 words")
    assert passed(longest=3, too_long="skip") == ([SHORT], f"{note} left out")
    (_, first, rest), report = passed(longest=3, too_long="window")
    assert (first.words + rest.words, first.tags["upos"] + rest.tags["upos"]) == (LONG.words, LONG.tags["upos"])
    assert (rest.form, rest.heads, first.begins, rest.begins) == ("D\nE", None, True, False)
    assert report == f"{note} read in portions"


def test_extra_words_count_as_tokens() -> None:
    vocabulary = Words(["the", "fox", "[unused1]"], [2, 1, 1], lowercase=True, digits=False, extra=1)
    sentence = Sentence(["the", "fox", "ran", "[unused1]"], grid=[[1, 1, 2, 0]], extra=1)
    assert passed(vocabulary, [sentence], longest=4)[0] == [sentence]
    with pytest.raises(DataError, match="a sentence of 4 tokens, more than 3"):
        passed(vocabulary, [sentence], longest=3)


def test_tuples_are_split_behind_punctuation() -> None:
    extra = ["[unused1]"]
    vocabulary = Words([*"abcdef,", *extra], [1] * 8, lowercase=False, digits=False, extra=1)
    rows = [[1, 2, 0, 3, 0, 0, 0, 1], [0, 0, 0, 0, 1, 2, 3, 0], [1, 0, 0, 0, 2, 0, 0, 0]]
    sentence = Sentence([*"ab,cdef", *extra], grid=rows, extra=1, form="[]", where="a.tsv:1")

    def split(longest: int) -> tuple[list[tuple[str, list[list[int]] | None]], str | None]:
        parts, report = passed(vocabulary, [sentence], format="extractions", longest=longest, too_long="split")
        return [("".join(part.words), part.grid) for part in parts], report

    # Five words and the extra one: behind the comma, and then all that is left.
    note = "dev: 1 sentence of more than {} tokens was split; {} rows of labels reach over several parts and were "
    assert split(6) == ([("cdef[unused1]", [[0, 1, 2, 3, 0]])], f"{note.format(6, 2)}left out")
    assert split(8)[0] == [("ab,cdef[unused1]", rows)]
    sentence.words[2], sentence.words[3] = "c", ","
    both = [("abc,[unused1]", [[1, 2, 0, 3, 1]]), ("def[unused1]", [[1, 2, 3, 0]])]
    assert split(5) == (both, f"{note.format(5, 1)}left out")


def test_words_are_not_divided() -> None:
    """`unable` is two pieces; `[CLS]` and `[SEP]` are around every portion. Of characters, it has six."""
    assert words(pieces(), longest=5, too_long="window") == ["the fox", "the un", "unable fox", "ran"]
    assert words(pieces(), longest=6, too_long="window") == ["the fox", "the un unable", "fox ran"]
    assert words(pieces(), longest=8) == ["the fox", "the un unable fox ran"]
    assert words(pieces(), longest=3, too_long="cut")[-1] == "the"
    assert words(CHARACTERS, longest=9, too_long="window") == ["the fox", "the un", "unable fox", "ran"]


def test_what_is_refused() -> None:
    for vocabulary, options, message in [
        (WORDS, {"longest": 4}, "a.txt:2: a sentence of 5 tokens, more than 4"),
        (pieces(), {"longest": 3, "too_long": "window"}, "a.txt:2: word 3 alone has 2 tokens, more than 1"),
        (CHARACTERS, {"longest": 5, "too_long": "window"}, "a.txt:2: word 3 alone has 6 tokens, more than 5"),
        (CHARACTERS, {"longest": 3, "too_long": "skip"}, "every sentence has more than 3 tokens"),
    ]:
        with pytest.raises(DataError) as error:
            passed(vocabulary, **options)
        assert error.value.message == message


@pytest.mark.parametrize("scheme", ["iob2", "bioes"])
def test_entities_are_not_divided_unless_one_is_too_long(scheme: str) -> None:
    """Of six words the entities are 2-3 and 4-6."""
    tags = {"iob2": "O B-a I-a B-b I-b I-b", "bioes": "O B-a E-a B-b I-b E-b"}[scheme].split()
    sentence = Sentence(list("uvwxyz"), {"tag": tags}, form="\n".join(tags), where="a.txt:1")
    for longest in (5, 4, 3):
        assert words(WORDS, [sentence], longest=longest, too_long="window") == ["u v w", "x y z"]
        assert words(WORDS, [sentence], longest=longest, too_long="cut") == ["u v w"]
    tags[1:] = ["B-a", *["I-a"] * 4] if scheme == "iob2" else ["B-a", *["I-a"] * 3, "E-a"]
    sentence.form = "\n".join(tags)
    assert words(WORDS, [sentence], longest=3, too_long="window") == ["u", "v w x", "y z"]


def test_punctuation_that_is_not_read() -> None:
    vocabulary = Words(["the", "fox"], [2, 1], lowercase=True, digits=False, omitted={",": 1})
    text = Sentence([",", "the", ",", ",", "fox", "ran", "on", "."], where="a.txt:1")
    left, _ = passed(vocabulary, [text], longest=3, too_long="window")
    assert sorted(word for sentence in left for word in sentence.words) == sorted(text.words)
    assert all(len(vocabulary.encode_words(sentence.words).ids) <= 3 for sentence in left)


def test_what_does_not_go_together(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    window = "data.longest=9 data.too_long=window"
    for overrides, message in [
        ("data.too_long=cut", "data.too_long: too long for what?"),
        ("data.too_long=skip", "data.too_long: too long for what?"),
        (f"{window} task.kind=cogs data.format=cogs", "by whole sentences"),
        (f"{window} task.kind=classification data.format=table", "a label is one of a whole text"),
        (f"{window} data.format=coordinations", "are not divided: choose error"),
        ("data.longest=9 task.kind=pretrain data.format=documents", "data.documents.max_length"),
        ("data.longest=9 data.too_long=cut data.format=extractions", "are not cut: choose error"),
        ("data.longest=9 data.too_long=split", "only `format: extractions` is split"),
    ]:
        ran = invoke("train", "tiny.yaml", *overrides.split(), "--print")
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
