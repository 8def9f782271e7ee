"""What a launcher says of a process in its environment, and processes that wait for each other."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest
from support import COMMAND, Invoke, environment, refused, workplace

from probtrans_cli.errors import UsageError
from probtrans_cli.training import group
from probtrans_cli.training.watch import Launched, attempts, launched

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
GOOD = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
BAD = [
    ({"WORLD_SIZE": "abc"}, "WORLD_SIZE is 'abc'"),
    ({"WORLD_SIZE": "-2"}, "WORLD_SIZE is '-2'"),
    ({"WORLD_SIZE": "0"}, "WORLD_SIZE is '0'"),
    ({"WORLD_SIZE": "2.0"}, "WORLD_SIZE is '2.0'"),
    ({"WORLD_SIZE": "9" * 5000}, "WORLD_SIZE is '999"),
    ({"WORLD_SIZE": "٢"}, "WORLD_SIZE is "),
    ({"RANK": "one"}, "RANK is 'one'"),
    ({"RANK": "-1"}, "RANK is '-1'"),
    ({"RANK": "2"}, "RANK is 2, but WORLD_SIZE is 2"),
    ({"RANK": "1", "WORLD_SIZE": "1"}, "RANK is 1, but WORLD_SIZE is 1"),
    ({"LOCAL_RANK": "x"}, "LOCAL_RANK is 'x'"),
    ({"LOCAL_RANK": "-1"}, "LOCAL_RANK is '-1'"),
    ({"MASTER_PORT": "http"}, "MASTER_PORT is 'http'"),
    ({"MASTER_PORT": "0"}, "MASTER_PORT is '0'"),
    ({"MASTER_PORT": "65536"}, "MASTER_PORT is '65536'"),
    ({"MASTER_PORT": "-1"}, "MASTER_PORT is '-1'"),
    ({"MASTER_ADDR": ""}, "no MASTER_ADDR"),
    ({"MASTER_PORT": ""}, "no MASTER_PORT"),
    ({"RANK": ""}, "WORLD_SIZE is 2, but there is no RANK"),
    ({"WORLD_SIZE": ""}, "RANK is 1, but there is no WORLD_SIZE"),
    ({"TORCHELASTIC_RESTART_COUNT": "often"}, "TORCHELASTIC_RESTART_COUNT is 'often'"),
]


def put(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_what_launchers_say(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, **GOOD)
    assert launched() == Launched(1, 2, 1, "127.0.0.1", 29500, 0)
    put(monkeypatch, **(GOOD | {"LOCAL_RANK": "", "TORCHELASTIC_RESTART_COUNT": "3"}))
    assert launched() == Launched(1, 2, 0, "127.0.0.1", 29500, 3)
    alone: tuple[dict[str, str], ...] = ({}, {"WORLD_SIZE": "1"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": ""})
    for variables in alone:
        put(monkeypatch, **variables)
        assert launched() is None
        assert attempts() == 0


@pytest.mark.parametrize(("variables", "told"), BAD, ids=[told for _, told in BAD])
def test_what_is_wrong_is_named(variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, **(GOOD | variables))
    with pytest.raises(UsageError) as caught:
        launched()
    assert told in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("verb", [("train", "tiny.yaml"), ("train", "tiny.yaml", "--nproc", "2"), ("eval", "runs/x")])
def test_it_is_an_error_of_the_command_line(
    verb: tuple[str, ...], tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    for variables, told in ({"WORLD_SIZE": "abc"}, "WORLD_SIZE"), ({"RANK": "0"}, "MASTER_ADDR"):
        put(monkeypatch, **variables)
        refused(invoke(*verb), 2, told)
    assert not Path("runs").exists()


def test_a_process_that_waits_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And ends where nobody comes."""
    del tmp_path
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    put(monkeypatch, **(GOOD | {"RANK": "0", "MASTER_PORT": str(port)}))
    monkeypatch.setattr(group, "LONG", 0.2)
    monkeypatch.setattr(group, "MEETING", group.timedelta(seconds=1))
    place = launched()
    assert place is not None
    with pytest.raises(group.LostError, match=r"rank 0 of 2: the processes do not meet at 127\.0\.0\.1"):
        group.Group(place)
    assert (
        f"rank 0 of 2: waiting for the others at 127.0.0.1:{port} (MASTER_ADDR, MASTER_PORT)" in capsys.readouterr().err
    )


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as one:
        one.bind(("", 0))
        one.listen()
        put(monkeypatch, **(GOOD | {"RANK": "0", "MASTER_PORT": str(one.getsockname()[1])}))
        place = launched()
        assert place is not None
        with pytest.raises(UsageError, match="MASTER_PORT"):
            group.Group(place)


@pytest.mark.slow
def test_the_command_says_that_it_waits(tmp_path: Path) -> None:
    """After ten seconds, on stderr; before that nothing."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    given = environment(**(GOOD | {"MASTER_PORT": str(port)}))
    command = [*COMMAND, "train", "tiny.yaml", "train.accumulate=2"]
    process = subprocess.Popen(command, cwd=workplace(tmp_path), env=given, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    began = time.monotonic()
    line = process.stderr.readline()
    waited = time.monotonic() - began
    process.kill()
    process.communicate()
    assert line.startswith("rank 1 of 2: waiting for the others at 127.0.0.1:")
    assert waited > group.LONG
