"""JSON files that are not as they were written, in a run folder and a prepared corpus: refused, or written again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import ROOT, Invoke

from probtrans_cli.text import from_json

DEEP = "[" * 100_000 + "]" * 100_000


def test_json_of_others_has_one_kind_of_error() -> None:
    assert from_json('{"a": 1}') == from_json(b'{"a": 1}') == {"a": 1}
    for text in ("{", "", DEEP, b"\xff", "9" * 5000):
        with pytest.raises(ValueError, match=r"."):
            from_json(text)


def test_json_is_read_in_one_place() -> None:
    reads = re.compile(r"(?m)^ [^'\n]*json\.loads?\(")  # not in a program that is written
    paths = (ROOT / "probtrans_cli").rglob("*.py")
    beside_a_graph = {"answers.py"}  # which runs without the package, on files of its own folder
    assert {path.name for path in paths if reads.search(path.read_text("utf-8"))} == {"text.py", *beside_a_graph}


def untraced(invoke: Invoke, *arguments: str, codes: tuple[int, ...] = (0, 3, 4)) -> str:
    ran = invoke(*arguments)
    assert ran.code in codes, ran.err
    assert "Traceback" not in ran.err
    return ran.err


def test_lines_of_metrics_that_are_not_ours_are_dropped(copied: Path, invoke: Invoke) -> None:
    metrics = copied / "runs/tiny/metrics.jsonl"
    before = metrics.read_bytes()
    lines = (DEEP, "7", "[]", '{"step": "x", "split": "train"}', '{"step": 1}', "\x00", "\udcff")
    metrics.write_bytes("\n".join([*lines, ""]).encode("utf-8", "surrogateescape") + before)
    untraced(invoke, "table", "runs/tiny", codes=(0,))
    untraced(invoke, "train", "runs/tiny", "--resume", codes=(0,))
    assert metrics.read_bytes() == before


@pytest.mark.parametrize("name", ["exit.json", "checkpoints/best/eval.json", ".probtrans.lock"])
def test_a_run_folder_with_deep_json(name: str, copied: Path, invoke: Invoke) -> None:
    (copied / "runs/tiny" / name).write_text(DEEP, "utf-8")
    untraced(invoke, "table", "runs/tiny")
    untraced(invoke, "train", "runs/tiny", "--resume")


FOREIGN = {
    "a list in place of lengths": ("splits", "train", "length", []),
    "a count in words": ("splits", "dev", "words", "many"),
    "a negative size": ("vocabulary", "size", -1),
    "a split that is none": ("splits", "../../other", {}),
    "a split without a file": ("splits", "extra", {}),
    "a file outside": ("files", "../x", 3),
    "a checksum of no file": ("sha256", "x", "y"),
    "a warning that is a number": ("warnings", [7]),
    "labels that are numbers": ("labels", {"upos": 3}),
    "new labels of nothing": ("new_labels", {}),
    "sources of nothing": ("sources", "train", [{}]),
}


def test_a_manifest_that_is_not_ours_is_made_again(copied: Path, invoke: Invoke) -> None:
    invoke("prepare", "tiny.yaml", "data.prepared=here")
    manifest = copied / "here/manifest.json"
    before = manifest.read_text("utf-8")
    for *keys, last, value in FOREIGN.values():
        content = json.loads(before)
        part = content
        for key in keys:
            part = part[key]
        part[last] = value
        manifest.write_text(json.dumps(content), "utf-8")
        untraced(invoke, "prepare", "tiny.yaml", "data.prepared=here", codes=(0,))
        assert manifest.read_text("utf-8") == before


def test_numbers_that_no_float_can_be(copied: Path, invoke: Invoke) -> None:
    metrics = copied / "runs/tiny/metrics.jsonl"
    metrics.write_text('{"words_per_second": ' + "9" * 400 + "}\n", "utf-8")
    untraced(invoke, "table", "runs/tiny", codes=(0,))
    scores = copied / "runs/tiny/checkpoints/best/eval.json"
    scores.write_text('{"dev": {"perplexity": ' + "9" * 400 + '}, "test": {"perplexity": 1}}', "utf-8")
    assert "eval.json" in untraced(invoke, "table", "runs/tiny", codes=(4,))


def test_a_prepared_corpus_with_deep_json_is_made_again(copied: Path, invoke: Invoke) -> None:
    invoke("prepare", "tiny.yaml", "data.prepared=here")
    for name in ("manifest.json", "labels.json", "vocabulary.json"):
        (copied / "here" / name).write_text(DEEP, "utf-8")
        untraced(invoke, "prepare", "tiny.yaml", "data.prepared=here", codes=(0,))
        assert '"state": "up to date"' in invoke("prepare", "tiny.yaml", "data.prepared=here", "--json").out
