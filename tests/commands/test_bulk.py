"""Parsing in bulk: blocks, shares, reruns and merges, and that no kill changes a byte of the result."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support import Forks, Invoke, Ran, assert_near_text, content, refused, sentences

from probtrans_cli.commands import bulk

PLAIN = "two cheap farmers fold\n\nthe bakers sell pies\nfarmers fold a dark shirt\n"
OPTIONS = ["--output-dir", "out", "--block-size", "300"]


@dataclass(frozen=True)
class Job:
    """`parse` of some files, in bulk into the folder `out`."""

    invoke: Invoke
    command: list[str]  # with the run and the files, and without options

    def __call__(self, *options: str) -> Ran:
        return self.invoke(*self.command, *OPTIONS, *options)

    def at_once(self, *options: str) -> Ran:
        """The same files in one process, to stdout."""
        return self.invoke(*self.command, *options, "--threads", "1")


@pytest.fixture
def job(trained: Path, empty: Path, invoke: Invoke) -> Job:
    """Five inputs of several kinds in a new folder."""
    Path("a.txt").write_text(PLAIN * 20, "utf-8")
    Path("b.conllu").write_text(sentences("dev", 8), "utf-8")
    Path("c").write_text(sentences("test", 3), "utf-8")  # CoNLL-U by what is in it, in its first block alone
    Path("d.txt.gz").write_bytes(gzip.compress(PLAIN.encode()))
    Path("e.txt").write_text("", "utf-8")
    return Job(invoke, ["parse", str(trained / "runs/tiny"), "a.txt", "b.conllu", "c", "d.txt.gz", "e.txt"])


def blocks(folder: str = "out") -> dict[str, tuple[int, int, bytes]]:
    """The files of blocks that have their marker: when each was made, as which file, and its content."""
    found = sorted(Path(folder, "blocks").glob("*.done"))
    files = [file for marker in found for file in (marker, *marker.parent.glob(f"{marker.stem}.[!d]*"))]
    return {file.name: (file.stat().st_mtime_ns, file.stat().st_ino, file.read_bytes()) for file in files}


@pytest.mark.parametrize("form", ["conllu", "tree"])
def test_the_whole_is_what_one_process_writes(form: str, job: Job) -> None:
    """In shares of any number, done in any order, some of them twice."""
    options = ("-f", form, "--prob")
    whole = job.at_once(*options).ok
    for share in ("3/3", "1/3", "3/3", "1/2"):
        assert job(*options, "--shard", share).code == 0
    before = blocks()
    assert job(*options).code == 0
    after = blocks()
    assert before.items() < after.items()  # nothing was done again
    assert len(after) > 20
    merged = job(*options, "--merge").ok
    assert_near_text(merged.out, whole.out, abs=0.011 if form == "tree" else 1.1e-4)
    assert job(*options, "--merge", "-o", "all").code == 0
    assert Path("all").read_text("utf-8") == merged.out
    assert blocks() == after


@pytest.mark.slow
def test_two_workers_write_the_same(job: Job) -> None:
    whole = job.at_once()
    raw = Path("a.txt").read_bytes()
    Path("a.txt").write_bytes(raw[:-3] + b"\xff\xff\n")  # of the same size
    ran = job("--workers", "2")
    refused(ran, 3, "1 of ", "blocks failed", "a.txt:80: not UTF-8")
    Path("a.txt").write_bytes(raw)
    before = blocks()
    assert len(before) > 20
    assert job().code == 0
    assert before.items() < blocks().items()
    assert job("--merge").out == whole.out


def test_a_block_that_fails_is_named_and_the_others_go_on(job: Job) -> None:
    raw = Path("a.txt").read_bytes()
    Path("a.txt").write_bytes(raw[:700] + b"\xff" + raw[701:])
    number = raw[:700].count(b"\n") + 1
    ran = job()
    refused(ran, 3, "1 of ", " blocks failed: 3", f"a.txt:{number}: not UTF-8")
    (note,) = Path("out/failed").iterdir()
    assert note.name == "000003.txt"
    assert note.read_text("utf-8").startswith(f"a.txt:{number}: not UTF-8 (byte 0xff")
    assert "iconv" in note.read_text("utf-8")
    done = blocks()
    merge = job("--merge")
    refused(merge, 3, "1 of ", f"blocks is missing: 3 (a.txt:{number}: not UTF-8", "without --merge")
    Path("a.txt").write_bytes(raw)
    assert job().code == 0
    assert not list(Path("out/failed").iterdir())
    assert done.items() < blocks().items()
    assert job("--merge").out == job.at_once().out


def test_a_block_that_fails_is_named_once(job: Job) -> None:
    Path("bad.zst").write_bytes(b"no archive")
    ran = replace(job, command=[*job.command[:2], "bad.zst", "./bad.zst"])()
    refused(ran, 3, "out: 2 blocks to do, 0 of this share are done", "2 of 2 blocks failed: 1")
    assert f"named more than once, so parsed as often: {Path('bad.zst').absolute()}" in ran.err
    assert ran.err.count("block 1 failed: bad.zst:1: cannot be unpacked") == 1


def test_a_fault_of_the_program_is_one_of_its_block(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.commands.bulk.form_of", lambda *given: 1 / 0)
    assert job().code == 3
    notes = sorted(Path("out/failed").iterdir())
    assert len(notes) > 20
    assert "ZeroDivisionError" in notes[0].read_text("utf-8")


def test_another_job_is_refused_in_the_folder(job: Job, trained: Path) -> None:
    assert job().code == 0
    before = blocks()
    other = str(trained / "runs/tagger")
    for command, options, said in (
        (job.command, [*OPTIONS, "--prob"], "probability is false there and true here"),
        (job.command, [*OPTIONS, "--longest", "7"], "longest is 2000 there and 7 here"),
        (job.command, [*OPTIONS, "-f", "jsonl"], 'format is "conllu" there'),
        (job.command, ["--output-dir", "out"], "block_bytes is 300 there and 65536 here"),
        (job.command[:-1], OPTIONS, "number 5 of inputs is"),
        ([*job.command, "a.txt"], OPTIONS, "number 6 of inputs is none there"),
        (["parse", other, *job.command[2:]], OPTIONS, "checkpoint is"),
    ):
        for merge in ([], ["--merge"]):
            ran = job.invoke(*command, *options, *merge)
            refused(ran, 2, "holds another job", said, "another folder")
    Path("a.txt").write_text(PLAIN, "utf-8")
    refused(job(), 2, "number 1 of inputs is")
    assert blocks() == before


def test_what_cannot_be_done_in_bulk(job: Job) -> None:
    for form, what in (("svg", "one picture"), ("html", "one page"), ("latex", "one document")):
        refused(job("-f", form), 2, f"-f {form}, which is {what}", "conllu, jsonl")
    refused(job.invoke(*job.command[:2], *OPTIONS), 2, "needs files")
    refused(job.invoke(*job.command[:2], "-", *OPTIONS), 2, "needs files")
    refused(job("--threads", "2"), 2, "--threads", "--workers")
    refused(job("--merge", "--workers", "2"), 2, "--merge does not go with")
    refused(job("-o", "x"), 2, "-o does not go with", "--merge")
    refused(job("--merge"), 2, "no job in this folder")
    for share in ("0/2", "3/2", "1", "a/b", "1/0", "-1/2"):
        refused(job(f"--shard={share}"), 2, "not a share", "3/64")
    for option in (["--merge"], ["--workers", "2"], ["--shard", "1/1"], ["--block-size", "9"]):
        refused(job.invoke(*job.command, *option), 2, option[0], "--output-dir")
    refused(job("none.txt"), 3, "there is no file 'none.txt'")
    refused(job("."), 3, ".: is a folder")
    refused(job("--channel", "99"), 2, "channel '99'")
    refused(job("-f", "text"), 2, "-f text")
    refused(job.invoke("parse", "nowhere", "a.txt", *OPTIONS), 4, "nowhere")
    assert not Path("out").exists()


def test_nothing_of_others_is_touched(job: Job) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine", "utf-8")
    refused(job(), 2, "holds mine.txt, and no job", "new folder")
    Path("file").write_text("mine", "utf-8")
    refused(job.invoke(*job.command, "--output-dir", "file"), 2, "file")
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]
    Path("out/mine.txt").rename("out.txt")
    assert job().code == 0
    for name in ("mine.txt", "blocks/mine.txt", "blocks/.000001.conllu-mine.partial", "failed/mine.txt"):
        Path("out", name).write_text("mine", "utf-8")
    for marker in Path("out/blocks").glob("*.done"):
        marker.unlink()
    assert job().code == 0
    assert job("--merge").code == 0
    for name in ("mine.txt", "blocks/mine.txt", "blocks/.000001.conllu-mine.partial", "failed/mine.txt"):
        assert Path("out", name).read_text("utf-8") == "mine"


def test_a_result_that_was_altered_is_not_merged(job: Job) -> None:
    assert job().code == 0
    path = Path("out/blocks/000002.conllu")
    path.write_text(path.read_text("utf-8").replace("farmers", "Farmers"), "utf-8")
    ran = job("--merge", "-o", "all")
    refused(ran, 3, "000002.conllu: damaged", "remove out/blocks/000002.done")
    assert not Path("all").exists()
    Path("out/blocks/000002.done").unlink()
    assert job().code == 0
    assert job("--merge").out == job.at_once().out


def test_three_kills_change_nothing(job: Job, forks: Forks, tmp_path: Path) -> None:
    """Before the job has a name, before a result has its own, and before a marker has: all that can be half done."""
    whole = job.at_once().out
    options = ["--output-dir", "runs-out", "--block-size", "600"]
    seen: dict[str, tuple[int, int, bytes]] = {}
    ended = forks.run([*job.command, *options], tmp_path, die_at=9)  # among the first operations on files
    assert ended.code == -signal.SIGKILL
    for die_at in (1, 4):  # the first is of a result, the fourth of a marker
        ended = forks.run([*job.command, *options], tmp_path, die_at=die_at, die_on=".partial")
        assert ended.code == -signal.SIGKILL
        refused(job.invoke(*job.command, *options, "--merge"), 3, "blocks are missing")
        assert seen.items() <= blocks("runs-out").items()
        seen = blocks("runs-out")
    assert len(seen) == 2  # one block
    assert list(Path("runs-out/blocks").glob(".*.partial"))
    ended = forks.run([*job.command, *options], tmp_path)
    assert ended.code == 0, ended.stderr
    assert seen.items() <= blocks("runs-out").items()
    assert job.invoke(*job.command, *options, "--merge").out == whole
    assert not list(Path("runs-out/blocks").glob(".*.partial"))


# --- what others have left in the folder ------------------------------------------------------------------------------


def test_blocks_without_a_job_are_not_overwritten(job: Job) -> None:
    for name in ("blocks/000001.conllu", "failed/000002.txt", "blocks/thesis.tex"):
        Path("out", name).parent.mkdir(parents=True, exist_ok=True)
        Path("out", name).write_text("a thesis")
        before = content(Path("out"))
        refused(job(), 2, f"out: holds {name}, and no job.json", "put job.json back")
        assert content(Path("out")) == before
        Path("out", name).unlink()


def test_empty_folders_of_a_begin_that_was_killed_are_taken(job: Job) -> None:
    Path("out/blocks").mkdir(parents=True)
    Path("out/failed").mkdir()
    Path("out/.job.json-01ab23cd.partial").write_text("{")
    assert job().code == 0


def test_blocks_of_another_job_are_not_put_together(job: Job) -> None:
    """A job.json was removed, or another one copied over it: the blocks say themselves of which job they are."""
    change = ("--channel", "1")
    assert job().code == 0
    assert job("--output-dir", "other", *change).code == 0
    Path("out/job.json").unlink()
    before = content(Path("out"))
    refused(job(*change), 2, "out: holds blocks/", "and no job.json")
    refused(job(*change, "--merge"), 2, "there is no job")
    assert content(Path("out")) == before
    Path("out/job.json").write_bytes(Path("other/job.json").read_bytes())
    before = content(Path("out"))
    for more in (("--merge",), ("--merge", "-o", "merged"), (), ("--workers", "2"), ("--shard", "1/3")):
        ran = job(*change, *more)
        refused(ran, 3, "block 1: out/blocks/000001.conllu: of another job than that of out/job.json", "another folder")
        assert ran.out == ""
    assert not Path("merged").exists()
    assert content(Path("out")) == before


def test_a_block_in_the_place_of_another(job: Job) -> None:
    assert job().code == 0
    for ending in ("conllu", "done"):
        Path(f"out/blocks/000003.{ending}").write_bytes(Path(f"out/blocks/000002.{ending}").read_bytes())
    before = content(Path("out"))
    for more in (("--merge",), ()):
        ran = job(*more)
        refused(
            ran, 3, "block 3: out/blocks/000003.done: begin is 300 there and 600 here", "move out/blocks/000003.done"
        )
        assert content(Path("out")) == before
    Path("out/blocks/000003.done").unlink()  # what the message says
    assert job().code == 0
    assert job("--merge").out == job.at_once().out


# --- inputs that somebody writes in between ---------------------------------------------------------------------------


@pytest.fixture
def two(trained: Path, empty: Path, invoke: Invoke) -> Job:
    """Two inputs of 5 blocks each in a new folder."""
    for name in ("a.txt", "b.txt"):
        Path(name).write_text(PLAIN * 20, "utf-8")
    return Job(invoke, ["parse", str(trained / "runs/tiny"), "a.txt", "b.txt"])


def after_block(number: int, change: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody change an input just after a block was done."""
    attempt = bulk.attempt

    def attempted(parsing: Any, job: Any, at: int, block: Any) -> None:
        attempt(parsing, job, at, block)
        if at == number:
            change()

    monkeypatch.setattr(bulk, "attempt", attempted)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("short\n", "b.txt: changed since the command began: its size was 1,420, and is 6 now"),
        (
            PLAIN.replace("cheap", "young") * 20,
            "b.txt: changed since the command began: it has been written or replaced",
        ),
    ],
)
def test_an_input_that_is_written_in_between(text: str, why: str, two: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(text) in (6, 1420)
    with monkeypatch.context() as patch:
        after_block(7, lambda: Path("b.txt").write_text(text, "utf-8"), patch)
        refused(two(), 3, "3 of 10 blocks failed: 8, 9, 10", why)
    Path("b.txt").write_text(PLAIN * 20, "utf-8")
    assert two().code == 0
    assert two("--merge").out == two.at_once().out


@pytest.mark.parametrize("name", ["b.txt", "c.txt"])
def test_an_input_that_is_written_while_a_block_is_read(name: str, two: Job, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ran = two("c.txt")
    refused(ran, 3, f"{name}: changed since the command began: its size was")
    assert not list(Path("out/blocks").glob("000011.*" if name == "c.txt" else "000006.*"))


def test_an_input_that_has_other_bytes_now_is_done_again(two: Job) -> None:
    """Of the same size, so that it is the same job; `--merge` says so before."""
    assert two().code == 0
    before = blocks()
    text = Path("b.txt").read_text("utf-8")
    Path("b.txt").write_text(text.replace("cheap", "young", 1), "utf-8")
    refused(two("--merge"), 3, "inputs have changed", "6 (b.txt, bytes 0 to 300)")
    ran = two()
    assert ran.code == 0
    assert "block 6 is done again: b.txt, bytes 0 to 300 has changed since" in ran.err
    assert dict(blocks().items() - before.items()).keys() == {"000006.conllu", "000006.done"}
    assert two("--merge").out == two.at_once().out


def test_a_copy_of_an_input_is_the_same_input(two: Job) -> None:
    """With another time, as on another file system: its bytes are compared."""
    assert two().code == 0
    expected = two("--merge").out
    shutil.copyfile("b.txt", "copy")
    Path("copy").replace("b.txt")
    os.utime("a.txt", ns=(1, 1))
    ran = two()
    assert "to do" not in ran.err
    assert two("--merge").out == expected == two.at_once().out
    marker = json.loads(Path("out/blocks/000006.done").read_text("utf-8"))
    assert marker["input_bytes"] == 1420
    assert len(marker["content"]) == 64


def test_an_input_that_is_gone_fails_and_no_more(two: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    after_block(2, Path("a.txt").unlink, monkeypatch)
    refused(two(), 3, "3 of 10 blocks failed: 3, 4, 5", "a.txt: cannot be read")
