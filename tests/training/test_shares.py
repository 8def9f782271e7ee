"""The parts of training in several processes, each in one process: who computes what, with which random numbers, and
what a launcher says in the environment."""

from __future__ import annotations

import socket
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from several_processes import port
from support import COMMAND, Invoke, environment, refused, workplace
from torch import Tensor
from torch.distributed import TCPStore

from probtrans_cli.commands.train import TrainRequest, arguments_of
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.errors import UsageError
from probtrans_cli.tasks.base import Counts
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.training import group
from probtrans_cli.training.plan import in_turn
from probtrans_cli.training.update import Draws, dealt
from probtrans_cli.training.watch import Launched, Place, Watch, launched


class OneOf(Ranks):
    """A process among several that are all in this one: what they say is kept in a list."""

    def __init__(self, rank: int, said: list[bytes]) -> None:
        self.rank, self.world, self.said = rank, len(said), said

    def exchanged(self, content: bytes, what: str) -> list[bytes]:
        self.said[self.rank] = content
        return self.said

    def of_first(self, content: bytes, what: str) -> bytes:
        return self.exchanged(content, what)[0]


def all_of(world: int) -> list[OneOf]:
    said = [b"[]"] * world
    return [OneOf(rank, said) for rank in range(world)]


def test_counts_of_all_processes_add_up() -> None:
    parts: list[Counts] = [
        Counts({"words": 3, ("found", 7, 0, ("a", "b", ""), (1, 2)): 0.5, (None, "x"): 1}),
        Counts({"words": np.int64(4), (None, "x"): 2.0, ("loss", 0): 0.1}),
        Counts(),
    ]
    ranks = all_of(3)
    for rank, part in zip(ranks, parts, strict=True):
        rank.summed(part, "the first time")
    expected = Counts()
    for part in parts:
        expected.add(part)
    found = [rank.summed(part, "once all have spoken") for rank, part in zip(ranks, parts, strict=True)]
    assert all(dict(one) == dict(expected) for one in found)
    assert ALONE.summed(parts[0], "alone") is parts[0]


def test_shares_come_back_in_order() -> None:
    items = [(np.full((2, k + 1), k, dtype=np.float32), np.arange(k)) for k in range(5)]
    ranks = all_of(3)
    assert sorted(index for rank in ranks for index in rank.share(range(5))) == [0, 1, 2, 3, 4]
    ranks[0].said[:] = [save({})] * 3
    for rank in ranks:
        rank.dealt_back(rank.share(items), "the first time")
    found = [rank.dealt_back(rank.share(items), "once all have spoken") for rank in ranks]
    for of_rank in found:
        assert len(of_rank) == 5
        for mine, given in zip(of_rank, items, strict=True):
            assert all(np.array_equal(one, other) for one, other in zip(mine, given, strict=True))


def test_every_batch_is_dealt_once_and_all_run_the_network_equally_often() -> None:
    for batches, world in [(1, 1), (3, 1), (4, 2), (5, 2), (3, 4), (1, 3)]:
        group = [np.array([k]) for k in range(batches)]
        hands = []
        for rank in all_of(world):
            draws = Draws(3, 7, torch.device("cpu"))
            hands.append(dealt(group, rank, draws, lambda indices: (int(indices[0]), torch.rand(2))))
            assert [int(batch[0]) for batch in in_turn(group, 0, batches, rank)] == [one.k for one in hands[-1]]
        assert len({len(hand) for hand in hands}) == 1
        microbatches = [microbatch for hand in hands for microbatch in hand]
        assert sorted(microbatch.k for microbatch in microbatches if microbatch.counted) == list(range(batches))
        for microbatch in microbatches:
            number, drawn = microbatch.batch
            assert number == microbatch.k
            torch.manual_seed(mixed_seed(3, 7, *([microbatch.k] if microbatch.k else [])))
            assert torch.equal(drawn, torch.rand(2)), "its random numbers are its own, whoever draws them"


def test_the_weights_of_an_update_are_drawn_alike_in_all_processes() -> None:
    """From the stream of the first batch, behind its masks; and its dropout comes behind them."""
    found: list[tuple[Tensor, Tensor | None]] = []
    for rank in all_of(2):
        draws = Draws(3, 7, torch.device("cpu"))
        with draws.stream(rank.rank):
            torch.rand(5)  # masks
        with draws.of_weights(rank):
            weights = torch.randn(4)
        with draws.stream(rank.rank):
            found.append((weights, torch.rand(3) if rank.first else None))
    torch.manual_seed(mixed_seed(3, 7))
    torch.rand(5)
    assert torch.equal(found[0][0], expected := torch.randn(4))
    assert torch.equal(found[1][0], expected)
    assert torch.equal(found[0][1], torch.rand(3))


# --- who is missing ---------------------------------------------------------------------------------------------------


def test_who_is_missing_is_named() -> None:
    watch = Watch.__new__(Watch)  # without its thread
    watch.rank, watch.world, watch.timeout = 0, 3, 5.0
    watch._place = Place("the counts of update 4", waits=True, since=0.0)
    watch.store = type("Store", (), {"check": lambda self, keys: False})()
    waits = Place("a", True, 0)
    cases: list[tuple[dict[int, Place], str | None, str]] = [
        ({0: waits, 2: waits}, None, "rank 1 of 3 (never seen) does not answer"),
        ({0: waits}, "Connection closed", "rank 1 of 3 (never seen), rank 2 of 3 (never seen) do not"),
        ({0: waits, 1: Place("its batch", False, 0), 2: waits}, None, "at: its batch"),
        (dict.fromkeys(range(3), waits), "broken", "the processes have lost each other: broken"),
    ]
    for answers, why, words in cases:
        assert words in watch._verdict(answers, why)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_line_of_a_process() -> None:
    request = TrainRequest("x.yaml", ["a=1"], init_from="b", run=Path("r"), resume=True, seeds=[1, 2], nproc=2)
    expected = ["train", "x.yaml", "a=1", "--json", "--run", "r", "--init-from", "b", "--seeds", "1,2", "--resume"]
    assert arguments_of(request) == expected


def test_what_cannot_be_shared_is_refused_at_once(invoke: Invoke, place: Path) -> None:
    words = ("train.accumulate is 1", "train.accumulate=2 train.batch_words=50")
    refused(invoke("train", "tiny.yaml", "--nproc", "2"), 2, *words)
    refused(invoke("train", "-", "--nproc", "2"), 2, "stdin")
    assert not Path("runs").exists()


# --- what a launcher says in the environment --------------------------------------------------------------------------

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


def test_what_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variables, message in BAD:
        put(monkeypatch, **(GOOD | variables))
        with pytest.raises(UsageError) as caught:
            launched()
        assert message in caught.value.message
        assert len(caught.value.message) < 300


def test_it_is_an_error_of_the_command_line(place: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in (("train", "tiny.yaml"), ("train", "tiny.yaml", "--nproc", "2"), ("eval", "runs/x")):
        for variables, message in ({"WORLD_SIZE": "abc"}, "WORLD_SIZE"), ({"RANK": "0"}, "MASTER_ADDR"):
            put(monkeypatch, **variables)
            refused(invoke(*verb), 2, message)
    assert not Path("runs").exists()


def first_of_two(number: int) -> Launched:
    return Launched(0, 2, 0, "127.0.0.1", number, 0)


def test_a_process_that_waits_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And ends where nobody comes."""
    free = port()
    put(monkeypatch, **(GOOD | {"RANK": "0", "MASTER_PORT": str(free)}))
    monkeypatch.setattr(group, "LONG", 0.2)
    monkeypatch.setattr(group, "MEETING", group.timedelta(seconds=1))
    with pytest.raises(group.LostError, match=r"rank 0 of 2: the processes do not meet at 127\.0\.0\.1"):
        group.Group(first_of_two(free))
    waiting = f"rank 0 of 2: waiting for the others at 127.0.0.1:{free} (MASTER_ADDR, MASTER_PORT)"
    assert waiting in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as one:
        one.bind(("", 0))
        one.listen()
        taken = one.getsockname()[1]
        put(monkeypatch, **(GOOD | {"RANK": "0", "MASTER_PORT": str(taken)}))
        with pytest.raises(UsageError, match="MASTER_PORT"):
            group.Group(first_of_two(taken))


@pytest.mark.slow
def test_the_command_says_that_it_waits(tmp_path: Path) -> None:
    """After ten seconds, on stderr; before that nothing."""
    variables = environment(**(GOOD | {"MASTER_PORT": str(port())}))
    command = [*COMMAND, "train", "tiny.yaml", "train.accumulate=2"]
    process = subprocess.Popen(command, cwd=workplace(tmp_path), env=variables, stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    line = process.stderr.readline()
    waited = time.monotonic() - began
    process.kill()
    process.communicate()
    assert line.startswith("rank 1 of 2: waiting for the others at 127.0.0.1:")
    assert waited > group.LONG


def test_processes_that_are_started_again_do_not_see_what_others_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `torchrun`, whose store outlives the processes."""
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20))
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    left = []
    for attempt in (0, 1):
        member = group.Group(Launched(0, 1, 0, "127.0.0.1", server.port, attempt))
        left.append(member.store.check(["done/prepared"]))
        member.done("prepared")
        assert member.wait_for_first("prepared") == ""
        member.watch.end()
    assert left == [False, False]
