"""The lock of a folder: one process at a time, named to the others, and over with its process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import environment

from probtrans_cli.errors import UsageError
from probtrans_cli.folders import lock

ME = f"process {os.getpid()} on {socket.gethostname()}"


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    file = lock.inside(tmp_path)
    with lock.locked(file, "runs/x"):
        with (
            pytest.raises(UsageError, match=f"^runs/x is in use by {ME}$") as caught,
            lock.locked(file, "runs/x", hint="wait"),
        ):
            pytest.fail("two at once")
        assert caught.value.hint == "wait"
        assert file.exists()
    assert list(tmp_path.iterdir()) == []
    with lock.locked(file, "runs/x"):
        pass


def test_a_failure_gives_it_back(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock.locked(lock.inside(tmp_path), "x"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_missing_folders_are_made_and_removed_where_they_stay_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with lock.locked(lock.beside(folder), "x"):
        assert folder.parent.is_dir()
    assert not (tmp_path / "a").exists()
    with lock.locked(lock.beside(folder), "x"):
        folder.mkdir()
    assert [path.name for path in folder.parent.iterdir()] == ["b"]


HOLDING = """
import sys
from pathlib import Path
from probtrans_cli.folders import lock
with lock.locked(lock.inside(Path(sys.argv[1])), "x"):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_kill_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(UsageError, match=f"process {process.pid} on "), lock.locked(lock.inside(tmp_path), "x"):
            pytest.fail("two at once")
        process.send_signal(signal.SIGKILL)
    assert lock.inside(tmp_path).exists()
    with lock.locked(lock.inside(tmp_path), "x"):
        pass
    assert list(tmp_path.iterdir()) == []


COUNTING = """
import sys
from pathlib import Path
from probtrans_cli.folders import lock
folder = Path(sys.argv[1])
for _ in range(100):
    with lock.locked(lock.beside(folder / "counted"), "x", wait=True):
        number = int((folder / "number").read_text() or 0)
        (folder / "number").write_text(str(number + 1))
"""


def test_many_wait_for_each_other(tmp_path: Path) -> None:
    """The file of the lock is removed and made again all the time; nobody gets in beside another one."""
    (tmp_path / "number").touch()
    command = [sys.executable, "-c", COUNTING, str(tmp_path)]
    running = [subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert (tmp_path / "number").read_text() == "400"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]
    assert any(f"x is in use by process {one.pid} on" in "".join(said) for one in running)


@pytest.mark.parametrize("what", ["windows", "no locks", "read only"])
def test_where_there_are_no_locks_it_goes_on_with_a_warning(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    folder, reason = tmp_path, "this system has none"
    if what == "windows":
        monkeypatch.setattr(lock, "fcntl", None)
    elif what == "no locks":
        monkeypatch.setattr("fcntl.flock", refuses)
        reason = "No locks available"
    else:
        (tmp_path / "file").touch()
        folder, reason = tmp_path / "file", "Not a directory"
        monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    with lock.locked(lock.inside(folder), "runs/x"), lock.held_for_a_moment(folder):
        assert f"warning: runs/x cannot be locked ({reason})" in capsys.readouterr().err
    assert not lock.inside(folder).exists()
