"""`parse` as its input comes: answers before its end, portions, and sentences that are too long."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event

import pytest
from support import Forks

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.streams import chunks, excess
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError


def test_sentences_of_many_tokens() -> None:
    """What a vocabulary divides costs what its parts cost."""
    pytest.importorskip("tokenizers")
    pieces = WordPieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!"])
    words = Words(["goats"], [1], lowercase=False, digits=False)
    for text, tokens in (("!" * 99, 101), ("! " * 98, 100), ("x" * 1_000_000, 3), ("!" * 50_000, 50_002)):
        given = Sentence(text.split(), where="input.txt:1")
        assert excess(given, 100, words) is None
        assert excess(given, 100, pieces) == (None if tokens <= 100 else (tokens, "tokens"))


def test_an_answer_comes_before_the_end_of_the_input(copied: Path, forks: Forks) -> None:
    """The answer to each line comes before the next line is written; a reader that goes away ends it quietly."""
    for name in ("in", "out"):
        os.mkfifo(copied / name)
    forks.start(["parse", "runs/tiny", "-f", "jsonl"], copied, streams={"stdin": "in", "stdout": "out"})
    with (copied / "in").open("w") as stdin:
        with (copied / "out").open() as stdout:
            for words in (["goats", "sleep"], ["the", "old", "farmers"]):
                print(*words, file=stdin, flush=True)
                assert json.loads(stdout.readline())["words"] == words
        print("goats sleep", file=stdin, flush=True)  # and stays open
        ended = forks.wait(copied)
    assert (ended.code, ended.stderr) == (141, "")


def test_portions() -> None:
    """Sizes grow; a reader's error comes behind what it has read; a reader that is slow ends a portion early."""
    sentences = [Sentence(["a"], where=str(number)) for number in range(30)]
    found = list(chunks(iter(sentences)))
    assert [len(portion) for portion in found] == [8, 16, 6]
    assert [sentence for portion in found for sentence in portion] == sentences
    assert list(chunks(iter([]))) == []

    def faulty() -> Iterator[Sentence]:
        yield from sentences[:10]
        raise DataError("no more")

    portions = chunks(faulty())
    assert [len(next(portions)), len(next(portions))] == [8, 2]
    with pytest.raises(DataError, match="no more"):
        next(portions)

    goes_on = Event()

    def slow() -> Iterator[Sentence]:
        yield from sentences[:3]
        assert goes_on.wait(60)
        yield sentences[3]

    portions = chunks(slow(), patience=0.01)
    assert [sentence for portion in islice(portions, 1) for sentence in portion] == sentences[:3]
    goes_on.set()
    assert list(portions) == [[sentences[3]]]
