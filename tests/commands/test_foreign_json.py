"""JSON files that are not as they were written, in a run folder and a prepared corpus: refused, or written again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ROOT, Invoke

from probtrans_cli.text import from_json

pytestmark = pytest.mark.usefixtures("quick")

DEEP = "[" * 100_000 + "]" * 100_000


def test_json_of_others_has_one_kind_of_error() -> None:
    assert from_json('{"a": 1}') == from_json(b'{"a": 1}') == {"a": 1}
    for text in ("{", "", DEEP, b"\xff", "9" * 5000):
        with pytest.raises(ValueError, match=r"."):
            from_json(text)


def test_json_is_read_in_one_place() -> None:
    reads = re.compile(r"(?m)^ .*json\.loads?\(")
    paths = (ROOT / "probtrans_cli").rglob("*.py")
    assert {path.name for path in paths if reads.search(path.read_text("utf-8"))} == {"text.py"}


def untraced(invoke: Invoke, *arguments: str, codes: tuple[int, ...] = (0, 3, 4)) -> str:
    ran = invoke(*arguments)
    assert ran.code in codes, ran.err
    assert "Traceback" not in ran.err
    return ran.err


@pytest.mark.parametrize("line", [DEEP, "7", "[]", '{"step": "x", "split": "train"}', '{"step": 1}', "\x00", "\udcff"])
def test_lines_of_metrics_that_are_not_ours_are_dropped(line: str, copied: Path, invoke: Invoke) -> None:
    metrics = copied / "runs/tiny/metrics.jsonl"
    before = metrics.read_bytes()
    metrics.write_bytes(line.encode("utf-8", "surrogateescape") + b"\n" + before)
    untraced(invoke, "table", "runs/tiny", codes=(0,))
    untraced(invoke, "train", "runs/tiny", "--resume", codes=(0,))
    assert metrics.read_bytes() == before


@pytest.mark.parametrize("name", ["exit.json", "checkpoints/best/eval.json", ".probtrans.lock"])
def test_a_run_folder_with_deep_json(name: str, copied: Path, invoke: Invoke) -> None:
    (copied / "runs/tiny" / name).write_text(DEEP, "utf-8")
    untraced(invoke, "table", "runs/tiny")
    untraced(invoke, "train", "runs/tiny", "--resume")


@pytest.mark.parametrize("name", ["manifest.json", "labels.json", "vocabulary.json"])
def test_a_prepared_corpus_with_deep_json_is_made_again(name: str, copied: Path, invoke: Invoke) -> None:
    invoke("prepare", "tiny.yaml", "data.prepared=here")
    (copied / "here" / name).write_text(DEEP, "utf-8")
    untraced(invoke, "prepare", "tiny.yaml", "data.prepared=here", codes=(0,))
    assert '"state": "up to date"' in invoke("prepare", "tiny.yaml", "data.prepared=here", "--json").out
