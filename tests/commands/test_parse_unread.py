"""Sentences that `parse` answers without reading them: too long, or without a word. None is lost, and all are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_extractors import COORDINATED, SENTENCES
from support import Invoke, Stdin

from probtrans_cli.models.network import Network
from probtrans_cli.openie.coordination_files import read_coordinations
from probtrans_cli.trained.formats import FORMATS

TEXTS = [SENTENCES[2][0], "goats " * 30 + ".", "", SENTENCES[5][0], "goats " * 40 + "."]
LIMIT = ("--longest", "20")
WARNING = "warning: <stdin>:2: a sentence of 31 words, more than 20: it is not read, and its analysis is empty\n"
COUNT = "not read, as too long, with an empty analysis: 2 sentences\n"
EMPTY = "without a word, with an empty analysis: 1 sentence\n"
Say = Callable[..., Any]


def limit_positions(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    """Let every network that is made have so many positions."""
    make = Network.__init__

    def limited(self: Network, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self.longest = longest

    monkeypatch.setattr(Network, "__init__", limited)


@pytest.fixture
def say(extractors: Path, invoke: Invoke, stdin: Stdin, monkeypatch: pytest.MonkeyPatch) -> Say:
    """What `parse` of a run does with some lines."""
    monkeypatch.chdir(extractors)

    def parsed(run: str, *options: str, lines: list[str] = TEXTS) -> Any:
        stdin("".join(line + "\n" for line in lines).encode())
        return invoke("parse", f"runs/{run}", *options)

    return parsed


def test_a_model_of_tuples_answers_every_line(say: Say) -> None:
    ran = say("tuples", "-f", "jsonl", *LIMIT)
    assert ran.code == 0
    records = ran.records
    assert [record["text"] for record in records] == TEXTS
    why = "a sentence of 31 words, more than 20"
    assert records[1] == {"text": TEXTS[1], "words": TEXTS[1].split(), "unread": why, "tuples": []}
    assert [len(record["tuples"]) for record in records] == [2, 0, 0, 1, 0]
    assert [len(record.get("heads", ())) for record in records] == [5, 0, 0, 3, 0]
    assert WARNING in ran.err
    assert COUNT in ran.err
    assert EMPTY in ran.err
    assert ran.err.count("warning") == 1
    assert say("tuples", "-f", "jsonl", lines=TEXTS[3:4]).err == ""


def test_an_error_where_that_is_asked_for(say: Say) -> None:
    ran = say("tuples", "-f", "text", *LIMIT, "--too-long", "error")
    assert ran.code == 3
    assert ran.out.startswith(TEXTS[0])
    assert "<stdin>:2: a sentence of at least 31 words, more than 20" in ran.err
    assert "--too-long skip" in ran.err


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_as_many_sentences(form: str, say: Say) -> None:
    """A format of tuples has none of a sentence without any."""
    if form == "svg":  # one picture, or a folder of them
        assert "not read: a sentence of 31 words" in say("tuples", "-f", form, *LIMIT, lines=TEXTS[1:2]).out
        return
    ran = say("tuples", "-f", form, *LIMIT)
    assert ran.code == 0, ran.err
    assert WARNING in ran.err
    if form in ("tuples", "carb"):
        assert {line.split("\t")[0] for line in ran.out.splitlines()} == {TEXTS[0], TEXTS[3]}
    elif form != "html":
        assert ran.out.count("goats") >= 70
    places = [ran.out.find(word) for word in ("Louis", "goats", "Rain")]
    assert form in ("tuples", "carb") or places == sorted(places)
    if form in ("tree", "html"):
        assert "not read: a sentence of 31 words" in ran.out


def test_annotation_of_the_input_does_not_stand_for_an_answer(runs: Path, invoke: Invoke, stdin: Stdin) -> None:
    words = [f"{i}\tgoats\t_\tNOUN\tNNS\t_\t{i - 1}\tdep\t_\t_" for i in range(1, 10)]
    stdin("\n".join(["# sent_id = a", *words[:2], "", "# sent_id = b", *words, "", ""]).encode())
    command = ("parse", str(runs / "runs/tagging"), "--input", "conllu", "--longest", "5")
    error = invoke(*command)
    assert error.code == 3
    assert "a sentence of 9 words" in error.err
    stdin("\n".join(["# sent_id = a", *words[:2], "", "# sent_id = b", *words, "", ""]).encode())
    ran = invoke(*command, "--too-long", "skip")
    assert ran.code == 0
    first, second, _ = ran.out.split("\n\n")
    assert first.startswith("# sent_id = a\n")
    lines = second.split("\n")
    assert lines[0] == "# sent_id = b"
    assert "# unread = a sentence of 9 words, more than 5" in lines
    assert lines[-1] == "9\tgoats" + "\t_" * 8
    assert "NNS" not in second


def test_latent_labels_and_channels(runs: Path, invoke: Invoke, stdin: Stdin) -> None:
    for form, options in {"jsonl": ["--channel", "all"], "tree": ["--channel", "all"], "conllu": []}.items():
        stdin(b"two cheap farmers fold\n" + b"goats " * 9 + b"\n")
        command = ("parse", str(runs / "runs/mlm"), "--labels", "--longest", "5", "--too-long", "skip", "-f", form)
        ran = invoke(*command, *options).ok
        assert ran.out.count("unread" if form != "tree" else "not read") == (1 if form == "conllu" else 2)


def test_a_sentence_that_is_not_read_has_no_matrix_of_heads(runs: Path, invoke: Invoke, stdin: Stdin) -> None:
    """Of n words it would have n (n + 1) numbers, all of them null."""
    stdin(b"goats eat\n" + b"goats " * 9 + b"\n")
    command = ("parse", str(runs / "runs/mlm"), "--longest", "5", "--too-long", "skip", "-f", "jsonl", "--marginals")
    short, long = invoke(*command).ok.records
    assert len(short["marginals"]) == 2
    assert long["unread"]
    assert long["marginals"] == []


@pytest.mark.parametrize("form", ["jsonl", "html"])
def test_positions_that_the_model_lacks(form: str, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extra words take three of them."""
    limit_positions(monkeypatch, 34)
    ran = say("tuples", "-f", form)
    assert ran.code == 0, ran.err
    assert "<stdin>:5: a sentence of 44 tokens, and the model has 34 positions for them: it is not read" in ran.err
    assert "with an empty analysis: 1 sentence\n" in ran.err
    error = say("tuples", "-f", form, "--too-long", "error")
    assert error.code == 3
    assert "<stdin>:5: a sentence of 44 tokens" in error.err
    assert "--too-long skip" in error.err


def test_sentences_that_are_split_before(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_positions(monkeypatch, 34)
    ran = say("tuples", "-f", "jsonl", "--coordination", "runs/coordinated", *LIMIT)
    assert ran.code == 0, ran.err
    records = ran.records
    assert [record["text"] for record in records] == TEXTS
    assert records[1]["splits"] == records[1]["tuples"] == []


def test_in_bulk(extractors: Path, empty: Path, invoke: Invoke) -> None:
    """The line is that of the file, not of the block; of all blocks one warning and one count."""
    Path("in.txt").write_text("".join(line + "\n" for line in TEXTS[2:] * 3), "utf-8")
    command = ["parse", str(extractors / "runs/tuples"), "in.txt", "-f", "jsonl", *LIMIT]
    whole = invoke(*command)
    bulk = [*command, "--output-dir", "out", "--block-size", "150"]
    ran = invoke(*bulk).ok
    assert len(list(Path("out/blocks").glob("*.done"))) > 2
    for told in (whole.err, ran.err):
        assert told.count("warning") == 1
        assert "warning: in.txt:3: a sentence of 41 words" in told
        assert "with an empty analysis: 3 sentences\n" in told.split("without a word")[0]
        assert "without a word, with an empty analysis: 3 sentences\n" in told
    assert invoke(*bulk, "--merge").out == whole.out


def test_rows_of_labels_have_no_place_for_empty_lines_of_coordinations(say: Say) -> None:
    given = [block.split("\n")[0] for block in COORDINATED.split("\n\n") if block]
    ran = say("coordinated", "-f", "labels", lines=[given[0], "", *given[1:]])
    assert len(list(read_coordinations(ran.out.splitlines(), "x"))) == len(given)
    assert "without a word, with an empty analysis: 1 sentence, for which the format has no place\n" in ran.err
    quiet = say("tuples", "-f", "labels")
    assert EMPTY in quiet.err  # its extra words stand there


def test_nothing_is_told_of_empty_lines_to_other_models(trained: Path, invoke: Invoke, stdin: Stdin) -> None:
    stdin(b"goats sleep\n\n")
    assert invoke("parse", str(trained / "runs/tiny")).err == ""
