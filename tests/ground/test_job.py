"""The folder of a job: several processes with one block, and what is left of the dead."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from probtrans_cli import atomic, console
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.folders.job import Job

IDENTITY = {"format": 1, "options": {"a": 1}, "inputs": [{"name": "x", "bytes": 3}], "named": {"here": 1}}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job.begin(tmp_path / "out", "txt", IDENTITY)


def test_two_processes_with_one_block_do_no_harm(job: Job) -> None:
    """The second one is done first, and tidies up after the first, which is still writing."""
    with job.writing(1, {}) as first:
        first.write("the same")
        with job.writing(1, {"sentences": 1}) as second:
            second.write("the same")
        assert job.is_done(1)
        assert len(list(job.result(1).parent.iterdir())) == 2
    assert b"".join(job.content(1)) == b"the same"
    assert job.done() == {1}
    assert len(list(job.result(1).parent.iterdir())) == 2


def test_a_block_that_fails_leaves_nothing_but_a_note(job: Job) -> None:
    with pytest.raises(ZeroDivisionError), job.writing(2, {}) as file:
        file.write(f"half of it{1 / 0}")
    assert not list(job.result(2).parent.iterdir())
    job.fail(2, "no such luck\nmore of it")
    assert job.why(2) == "no such luck"
    with job.writing(2, {}) as file:
        file.write("whole")
    assert job.why(2) is None
    with pytest.raises(FileNotFoundError), job.writing(3, {}):
        raise FileNotFoundError("of the input, not of the result")


def test_a_block_whose_result_is_gone_is_not_done(job: Job) -> None:
    for _ in range(2):
        with job.writing(1, {}) as file:
            file.write("all of it")
        assert job.done() == {1}
        job.result(1).unlink()
        assert not job.done()
        assert not job.is_done(1)


def test_what_the_dead_have_left_goes_with_the_block(job: Job) -> None:
    left = job.result(4).with_name(".000004.txt-0123abcd.partial")
    other = job.result(4).with_name(".000005.txt-0123abcd.partial")
    for path in (left, other):
        path.write_text("half")
    with job.writing(4, {}):
        pass
    assert not left.exists()
    assert other.exists()
    assert json.loads(job.marker(4).read_text())["bytes"] == 0


def test_of_two_that_begin_at_once_one_job_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has written its name just after the first one looked."""
    create = atomic.create_text

    def too_late(path: Path, text: str) -> bool:
        create(path, json.dumps({**IDENTITY, "options": {"a": 2}}))
        return create(path, text)

    monkeypatch.setattr(atomic, "create_text", too_late)
    with pytest.raises(UsageError, match="a is 2 there and 1 here"):
        Job.begin(tmp_path / "out", "txt", IDENTITY)
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_file()] == ["job.json"]


def test_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", none)
    assert atomic.create_text(tmp_path / "a", "first")
    assert not atomic.create_text(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text() == "first"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"options": {"a": 1, "b": None}, "new": 2}, "new is null there and 2 here"),
        ({"inputs": []}, 'number 1 of inputs is {"name": "x", "bytes": 3} there and none here'),
        ({"options": 7}, 'options is {"a": 1} there and 7 here'),
    ],
)
def test_what_is_different_is_said(job: Job, change: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        Job.of(job.folder, "txt", {**IDENTITY, **change})
    Job.of(job.folder, "txt", {**IDENTITY, "named": {"elsewhere": 2}})


def test_a_damaged_job_is_refused(job: Job) -> None:
    for text, said in (("{", "cannot be read"), ("[]", "damaged")):
        (job.folder / "job.json").write_text(text)
        with pytest.raises(UsageError, match=said):
            Job.of(job.folder, "txt", IDENTITY)
    with job.writing(1, {}) as file:
        file.write("x")
    job.marker(1).write_text("{}")
    with pytest.raises(DataError, match=r"000001\.txt: cannot be read"):
        list(job.content(1))


def test_a_long_work_says_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 100.0, 100.5, 130.0])
    monkeypatch.setattr("probtrans_cli.console.time.monotonic", lambda: next(clock))
    work = console.Work(1000, "counting")
    for size in (200, 50, 400):
        work.advance(size)
    work.end()
    assert capsys.readouterr().err.splitlines() == [
        "counting: 20%, about 6:40 left",
        "counting: 65%, about 1:10 left",
    ]
