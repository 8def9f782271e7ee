"""The parts of training in several processes, each in one process: who computes what, and with which random numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from support import Invoke, refused, workplace
from torch import Tensor

from probtrans_cli.commands.launch import arguments_of
from probtrans_cli.commands.train import TrainRequest
from probtrans_cli.data.ranks import ALONE, Ranks
from probtrans_cli.tasks.base import Counts
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.training.update import Draws, dealt
from probtrans_cli.training.watch import Place, Watch


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


@pytest.mark.parametrize(("batches", "world"), [(1, 1), (3, 1), (4, 2), (5, 2), (3, 4), (1, 3)])
def test_every_batch_is_dealt_once_and_all_go_equally_often(batches: int, world: int) -> None:
    group = [np.array([k]) for k in range(batches)]
    hands = []
    for rank in all_of(world):
        cpu = torch.device("cpu")
        hands.append(dealt(group, rank, Draws(3, 7, cpu), lambda indices: (int(indices[0]), torch.rand(2))))  # type: ignore[arg-type,return-value]
    assert len({len(hand) for hand in hands}) == 1
    counted = [one for hand in hands for one in hand if one.counted]
    assert sorted(one.k for one in counted) == list(range(batches))
    for one in [one for hand in hands for one in hand]:
        number, drawn = one.batch  # type: ignore[misc]
        assert number == one.k
        torch.manual_seed(mixed_seed(3, 7, *([one.k] if one.k else [])))
        assert torch.equal(drawn, torch.rand(2)), "its random numbers are its own, whoever draws them"


def test_the_weights_of_an_update_are_drawn_alike_in_all_processes() -> None:
    """From the stream of the first batch, behind its masks; and its dropout comes behind them."""
    found: list[tuple[Tensor, Tensor | None]] = []
    for rank in all_of(2):
        draws = Draws(3, 7, torch.device("cpu"))
        draws.begin(rank.rank)
        torch.rand(5)  # masks
        draws.leave(rank.rank)
        with draws.of_weights(rank):
            weights = torch.randn(4)
        draws.go_on(rank.rank)
        found.append((weights, torch.rand(3) if rank.first else None))
    torch.manual_seed(mixed_seed(3, 7))
    torch.rand(5)
    assert torch.equal(found[0][0], expected := torch.randn(4))
    assert torch.equal(found[1][0], expected)
    assert found[0][1] is not None
    assert torch.equal(found[0][1], torch.rand(3))


# --- who is missing ---------------------------------------------------------------------------------------------------


@pytest.fixture
def watch() -> Watch:
    """A watch without its thread."""
    found = Watch.__new__(Watch)
    found.rank, found.world, found.timeout = 0, 3, 5.0
    found._place = Place("the counts of update 4", waits=True, since=0.0)
    found.store = type("Store", (), {"check": lambda self, keys: False})()
    return found


ANSWERS: list[tuple[dict[int, Place], str | None, str]] = [
    ({0: Place("a", True, 0), 2: Place("a", True, 0)}, None, "rank 1 of 3 (never seen) does not answer"),
    ({0: Place("a", True, 0)}, "Connection closed", "rank 1 of 3 (never seen), rank 2 of 3 (never seen) do not"),
    ({0: Place("a", True, 0), 1: Place("its batch", False, 0), 2: Place("a", True, 0)}, None, "at: its batch"),
    (dict.fromkeys(range(3), Place("a", True, 0)), "broken", "the processes have lost each other: broken"),
]


@pytest.mark.parametrize(("answers", "why", "words"), ANSWERS)
def test_who_is_missing_is_named(watch: Watch, answers: dict[int, Place], why: str | None, words: str) -> None:
    assert words in watch._verdict(answers, why)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_line_of_a_process() -> None:
    request = TrainRequest("x.yaml", ["a=1"], init_from="b", run=Path("r"), resume=True, seeds=[1, 2], nproc=2)
    expected = ["train", "x.yaml", "a=1", "--json", "--run", "r", "--init-from", "b", "--seeds", "1,2", "--resume"]
    assert arguments_of(request) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tiny.yaml", "--nproc", "2"], ("train.accumulate is 1", "train.accumulate=2 train.batch_words=30")),
        (["-", "--nproc", "2"], ("stdin",)),
    ],
)
def test_what_cannot_be_shared_is_refused_at_once(
    arguments: list[str], words: tuple[str, ...], invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    refused(invoke("train", *arguments), 2, *words)
    assert not Path("runs").exists()
