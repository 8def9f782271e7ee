"""`serve`: with a server, `parse` and `generate` write the same bytes, and end with the same code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import Invoke

from probtrans_cli import server
from probtrans_cli.errors import UsageError

PROBTRANS = [sys.executable, "-m", "probtrans_cli"]


@pytest.fixture(scope="module")
def answering(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    path = tmp_path_factory.mktemp("server") / "socket"
    command = [*PROBTRANS, "serve", str(path), str(trained / "runs/tiny")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"answering at {path}; end with Ctrl-C\n"
        assert process.stderr.readline() == f"elsewhere: export PROBTRANS_SERVER={path}\n"
        yield path, process
        process.terminate()
    assert process.returncode == 0
    assert not path.exists()


@pytest.fixture
def client(answering: tuple[Path, subprocess.Popen[str]], tmp_path: Path) -> Callable[..., Any]:
    def run(
        *arguments: str, variables: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, server.VARIABLE: str(answering[0]), **(variables or {})}
        return subprocess.run(
            [*PROBTRANS, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, **options
        )

    return run


def test_it_answers_as_a_process_of_its_own_would(
    client: Callable[..., Any], trained: Path, empty: Path, invoke: Invoke
) -> None:
    Path("words.txt").write_text("a b c\nb a\n", encoding="utf-8")
    run = str(trained / "runs/tiny")
    cases = (
        ["parse", run, "words.txt", "-f", "jsonl", "--prob"],
        ["-q", "parse", run, "words.txt", "--prob"],
        ["parse", run, "words.txt", "-f", "text", "--threads", "1"],
        ["parse", str(trained / "runs/tagger"), "words.txt", "-f", "conllu"],  # a model that it does not keep
        ["parse", run, "missing.txt"],
        ["parse", run, "words.txt", "--no-such-option"],
        ["parse", "no-such-run"],
        ["generate", run, "a"],  # not causal
    )
    for arguments in cases:
        alone = invoke(*arguments)
        answer = client(*arguments)
        assert (answer.returncode, answer.stdout, answer.stderr) == alone
    assert client("parse", run, "-f", "jsonl", input="a b\n").stdout.startswith('{"words": ["a", "b"]')
    assert client("parse", run, "words.txt", "-o", "out.conllu", umask=0o077).returncode == 0
    assert Path("out.conllu").stat().st_mode & 0o777 == 0o600


def test_the_answer_is_that_of_the_server(client: Callable[..., Any], tmp_path: Path) -> None:
    """What only a process that has loaded the model can do: answer in a folder without torch."""
    (tmp_path / "torch.py").write_text("raise ImportError('the client needs no torch')\n", encoding="utf-8")
    assert client("parse", "--help", variables={"PYTHONPATH": str(tmp_path)}).returncode == 0


@contextmanager
def waiting(socket: Path, trained: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A client that has answered a line, and waits for more."""
    environment = {**os.environ, server.VARIABLE: str(socket)}
    command, pipe = [*PROBTRANS, "parse", str(trained / "runs/tiny"), "-f", "jsonl"], subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as client:  # fmt: skip
        assert client.stdin is not None
        assert client.stdout is not None
        print("a b", file=client.stdin, flush=True)
        assert client.stdout.readline().startswith('{"words": ["a", "b"]')
        yield client


def test_a_client_passes_signals_on(
    answering: tuple[Path, subprocess.Popen[str]], trained: Path, tmp_path: Path
) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)):
        with waiting(answering[0], trained, tmp_path) as process:
            process.send_signal(number)
            assert process.wait(timeout=60) == code


def test_a_child_ends_with_its_client_and_never_stops_the_server(
    answering: tuple[Path, subprocess.Popen[str]], trained: Path, tmp_path: Path
) -> None:
    """A client that is killed cannot pass that on. The child has a session of its own: a terminal stops it alone."""
    path, process = answering
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("the system does not list children")
    with waiting(path, trained, tmp_path) as client:
        (child,) = map(int, children.read_text("ascii").split())
        assert os.getsid(child) == child != os.getsid(process.pid)
        client.kill()
        client.wait()
        deadline = time.monotonic() + 60
        while children.read_text("ascii").split():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_without_an_answer_the_command_runs_here(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parse = ["parse", "run", "words.txt"]
    assert server.answered(parse) is None
    monkeypatch.setenv(server.VARIABLE, str(tmp_path / "none"))
    assert server.answered(["train", "parse"]) is None
    assert capsys.readouterr().err == ""
    assert server.answered(parse) is None
    warning = f"warning: PROBTRANS_SERVER={tmp_path / 'none'}: No such file or directory: the model is loaded here\n"
    assert capsys.readouterr().err == warning
    monkeypatch.setenv(server.VARIABLE, str(path := tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert server.answered(parse) is None
        assert "belongs to another user" in capsys.readouterr().err


def test_a_socket_is_made_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # which would be those of all later tests

    class Ready(Exception):
        pass

    def ready() -> None:
        raise Ready

    taken = tmp_path / "taken"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="no socket can be made: a file, or another"):
        server.serve(taken, len, ready)
    assert taken.read_text("utf-8") == "mine"
    with pytest.raises(UsageError, match="too long"):
        server.serve(tmp_path / ("long" * 40), len, ready)
    with socket.socket(socket.AF_UNIX) as dead:  # of a server that was killed
        dead.bind(str(tmp_path / "dead"))
    with pytest.raises(Ready):
        server.serve(tmp_path / "dead", len, ready)
    assert not (tmp_path / "dead").exists()
