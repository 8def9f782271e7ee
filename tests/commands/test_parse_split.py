"""`parse --coordination`: tuples of sentences that are split before, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, Stdin, assert_near

import probtrans_cli

APPLE = "I ate  an apple and an orange."
LINES = [APPLE, "", "Rain fell ."]
SPLIT = ("--coordination", "runs/coordinated")


@pytest.fixture
def say(extractors: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, stdin: Stdin) -> Any:
    """What `parse` of the run `half` writes of the lines."""
    monkeypatch.chdir(extractors)

    def parsed(*options: str) -> str:
        stdin("".join(line + "\n" for line in LINES).encode())
        ran = invoke("parse", "runs/half", *SPLIT, *options)
        assert ran.code == 0, ran.err
        return ran.out

    return parsed


def test_json_is_about_the_sentence_as_it_was(say: Any, extractors: Path) -> None:
    written = [json.loads(line) for line in say("-f", "jsonl").splitlines()]
    split, empty, whole = written
    assert [one["text"] for one in written] == LINES
    assert split["splits"] == [[0, 1, 2, 3, 7], [0, 1, 5, 6, 7]]
    assert len(split["heads"]) == len(split["words"]) == 8
    assert {one["split"] for one in split["tuples"]} <= {0, 1}
    assert split["tuples"]
    for one in split["tuples"]:
        for name, places in one["words"].items():
            assert set(places) <= set(split["splits"][one["split"]])
            parts = " ".join(APPLE[start:end] for start, end in one["chars"][name])
            assert parts.replace(".", " .").split() == [split["words"][i] for i in places]
    assert (empty["splits"], empty["tuples"]) == ([], [])
    assert whole["splits"] == []
    model, other = (probtrans_cli.load(str(extractors / f"runs/{name}")) for name in ("half", "coordinated"))
    said = [json.loads(json.dumps(one.record())) for one in model.analyze(LINES, coordination=other)]
    assert_near(said, written, abs=2e-6)


def test_new_confidences_change_nothing_else(say: Any, extractors: Path) -> None:
    plain = [json.loads(line) for line in say("-f", "jsonl", "--trees", "no").splitlines()]
    found = [json.loads(line) for line in say("-f", "jsonl", "--trees", "no", "--rescore").splitlines()]
    without = [
        [[{**one, "confidence": 0} for one in line["tuples"]] for line in lines] for lines in (plain, found)
    ]  # fmt: skip
    assert without[0] == without[1]
    assert plain != found
    model, other = (probtrans_cli.load(str(extractors / f"runs/{name}")) for name in ("half", "coordinated"))
    analyses = model.analyze(LINES, trees=False, coordination=other, rescore=True)
    assert_near([json.loads(json.dumps(one.record())) for one in analyses], found, abs=2e-6)


def test_other_formats(say: Any) -> None:
    tuples = json.loads(say("-f", "jsonl", "--trees", "no").splitlines()[0])["tuples"]
    assert say("-f", "text").split("\n\n")[0].count("\n") == len(tuples)
    assert say("-f", "carb").count("I ate an apple and an orange .\t") == len(tuples)
    for form in ("conllu", "tree", "html", "latex", "displacy"):
        assert say("-f", form)
    assert say("-f", "conllu").count("# tuple = ") >= len(tuples)
    assert 'class="sentence"' in say("-f", "html")
