"""Parsing in bulk while somebody writes the inputs: nothing is lost, and nothing of two states is put together."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, refused

from probtrans_cli.commands import bulk

pytestmark = pytest.mark.usefixtures("quick")

PLAIN = "two cheap farmers fold\n\nthe bakers sell pies\nfarmers fold a dark shirt\n"
OTHER = PLAIN.replace("cheap", "young")
OPTIONS = ["--output-dir", "out", "--block-size", "300"]


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two inputs of 5 blocks each in a new folder; returns how the command begins."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        Path(name).write_text(PLAIN * 20, "utf-8")
    return ["parse", str(trained / "runs/tiny"), "a.txt", "b.txt"]


def after_block(number: int, change: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody change an input just after a block was done."""
    attempt = bulk.attempt

    def attempted(parsing: Any, job: Any, at: int, block: Any) -> None:
        attempt(parsing, job, at, block)
        if at == number:
            change()

    monkeypatch.setattr(bulk, "attempt", attempted)


def parsed(place: list[str], invoke: Invoke) -> str:
    """What one process writes of the inputs as they are."""
    return invoke(*place, "--threads", "1").out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("short\n", "b.txt: changed since the command began: its size was 1,420, and is 6 now"),
        (OTHER * 20, "b.txt: changed since the command began: it has been written or replaced"),
    ],
)
def test_an_input_that_is_written_in_between(
    text: str, why: str, place: list[str], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(text) in (6, 1420)
    with monkeypatch.context() as patch:
        after_block(7, lambda: Path("b.txt").write_text(text, "utf-8"), patch)
        refused(invoke(*place, *OPTIONS), 3, "3 of 10 blocks failed: 8, 9, 10", why)
    Path("b.txt").write_text(PLAIN * 20, "utf-8")
    assert invoke(*place, *OPTIONS).code == 0
    assert invoke(*place, *OPTIONS, "--merge").out == parsed(place, invoke)


@pytest.mark.parametrize("name", ["b.txt", "c.txt"])
def test_an_input_that_is_written_while_a_block_is_read(
    name: str, place: list[str], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a range of bytes, and as a whole."""
    Path("c.txt").write_text(PLAIN, "utf-8")
    lines_of = bulk.lines_of

    def changed(block: Any, ends: Any) -> Any:
        if block.path == name:
            with Path(name).open("a") as file:
                file.write("one more\n")
        yield from lines_of(block, ends)

    with monkeypatch.context() as patch:
        patch.setattr(bulk, "lines_of", changed)
        ran = invoke(*place, "c.txt", *OPTIONS)
    refused(ran, 3, f"{name}: changed since the command began: its size was")
    assert not list(Path("out/blocks").glob("000011.*" if name == "c.txt" else "000006.*"))


def test_an_input_that_has_other_bytes_now_is_done_again(place: list[str], invoke: Invoke) -> None:
    """Of the same size, so that it is the same job; `--merge` says so before."""
    assert invoke(*place, *OPTIONS).code == 0
    before = {path.name: path.stat().st_mtime_ns for path in Path("out/blocks").glob("*.done")}
    text = Path("b.txt").read_text("utf-8")
    Path("b.txt").write_text(text.replace("cheap", "young", 1), "utf-8")
    refused(invoke(*place, *OPTIONS, "--merge"), 3, "inputs have changed", "6 (b.txt, bytes 0 to 300)")
    ran = invoke(*place, *OPTIONS)
    assert ran.code == 0
    assert "block 6 is done again: b.txt, bytes 0 to 300 has changed since" in ran.err
    after = {path.name: path.stat().st_mtime_ns for path in Path("out/blocks").glob("*.done")}
    assert [name for name in after if after[name] != before[name]] == ["000006.done"]
    assert invoke(*place, *OPTIONS, "--merge").out == parsed(place, invoke)


def test_a_copy_of_an_input_is_the_same_input(place: list[str], invoke: Invoke) -> None:
    """With another time, as on another file system: its bytes are compared."""
    assert invoke(*place, *OPTIONS).code == 0
    expected = invoke(*place, *OPTIONS, "--merge").out
    shutil.copyfile("b.txt", "copy")
    Path("copy").replace("b.txt")
    os.utime("a.txt", ns=(1, 1))
    ran = invoke(*place, *OPTIONS)
    assert "to do" not in ran.err
    assert invoke(*place, *OPTIONS, "--merge").out == expected == parsed(place, invoke)
    marker = json.loads(Path("out/blocks/000006.done").read_text("utf-8"))
    assert marker["input_bytes"] == 1420
    assert len(marker["content"]) == 64


def test_an_input_that_is_gone_fails_and_no_more(
    place: list[str], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_block(2, Path("a.txt").unlink, monkeypatch)
    refused(invoke(*place, *OPTIONS), 3, "3 of 10 blocks failed: 3, 4, 5", "a.txt: cannot be read")
