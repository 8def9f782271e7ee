"""The plan of a training, and its batches made ahead: the same ones in the same order, and nothing that runs on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import train, trainer

from probtrans_cli.data.processes import Ranks
from probtrans_cli.errors import OutOfMemoryError, StoppedError
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.training import plan
from probtrans_cli.training.loop import Trainer
from probtrans_cli.training.plan import AHEAD, Ahead, Plan, State, in_alternation, in_turn


def test_updates_and_passes_of_ten_batches() -> None:
    cases: list[tuple[tuple[str, ...], int, float]] = [
        ((), 40, 4.0),
        (("train.steps=15",), 15, 1.5),
        (("train.steps=500",), 40, 4.0),
        (("train.accumulate=4",), 12, 4.0),  # three updates a pass: of 4, 4 and 2 batches
        (("train.accumulate=4", "train.steps=2"), 2, 2 / 3),
    ]
    for overrides, updates, passes in cases:
        plan = Plan(load_recipe("quickstart", ["train.epochs=4", *overrides]), np.full(10, 5))
        assert plan.updates(10) == updates
        assert plan.passes(10) == pytest.approx(passes)


def test_corpora_in_alternation() -> None:
    """The shorter one begins again in another order; every batch of the longer one occurs once."""

    def batches_of(size: int, first: int) -> Callable[[int], list[np.ndarray]]:
        return lambda number: [
            np.array([first + place]) for place in np.random.default_rng(number).permutation(size).tolist()
        ]

    for sizes in ((3, 10), (10, 3), (4, 4), (1, 5)):
        plans = [batches_of(size, 100 * place) for place, size in enumerate(sizes)]
        for epoch in range(3):
            numbers = [int(batch[0]) for batch in in_alternation(plans, epoch)]
            for place, size in enumerate(sizes):
                own = [number - 100 * place for number in numbers[place::2]]
                assert len(own) == max(sizes)
                for start in range(0, max(sizes) - size + 1, size):
                    assert sorted(own[start : start + size]) == list(range(size))
        assert in_alternation(plans, 0) != in_alternation(plans, 1)


def test_the_share_done_lies_behind_the_middle_of_the_update() -> None:
    """So the first of ten updates has a rate, and the last one is not yet at the end of the schedule."""
    steps = Plan(load_recipe("quickstart", ["train.epochs=100", "train.steps=10"]), np.full(10, 5))
    assert [steps.share_done(State(step=step), 10) for step in (0, 9)] == pytest.approx([0.05, 0.95])
    epochs = Plan(load_recipe("quickstart", ["train.epochs=2"]), np.full(10, 5))
    assert epochs.share_done(State(epoch=1, batch=5), 10) == pytest.approx((1 + 0.55) / 2)


def batches(number: int) -> list[np.ndarray]:
    return [np.array([k]) for k in range(number)]


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("batches")]


def test_what_is_expected_is_made_in_a_thread_in_order_and_not_too_early() -> None:
    made: list[tuple[int, str]] = []

    def make(indices: np.ndarray) -> int:
        made.append((int(indices[0]), threading.current_thread().name))
        return int(indices[0])

    given = batches(7)
    with Ahead(make).running() as found:
        found.expect(given)
        for number, one in enumerate(given):
            assert found(one) == number
            assert len(made) <= number + 1 + AHEAD
    assert [number for number, _ in made] == list(range(7))
    assert all(name.startswith("batches") for _, name in made)
    assert threads() == []


def test_another_batch_is_made_at_once_and_the_expected_ones_stay() -> None:
    given, other = batches(3), np.array([9])
    with Ahead(lambda indices: int(indices[0])).running() as found:
        found.expect(given)
        assert [found(one) for one in (given[0], other, given[1], given[2], given[0])] == [0, 9, 1, 2, 0]


def test_without_a_thread_everything_is_made_at_once() -> None:
    found = Ahead(lambda indices: (int(indices[0]), threading.current_thread() is threading.main_thread()))
    given = batches(2)
    found.expect(given)
    assert [found(one) for one in given] == [(0, True), (1, True)]


def test_an_error_is_raised_where_its_batch_is_asked_for() -> None:
    def make(indices: np.ndarray) -> int:
        if indices[0] == 1:
            raise MemoryError("no room")
        return int(indices[0])

    given = batches(3)
    with Ahead(make).running() as found:
        found.expect(given)
        assert found(given[0]) == 0
        with pytest.raises(MemoryError, match="no room"):
            found(given[1])
        assert found(given[2]) == 2


def test_nothing_runs_on_after_an_error() -> None:
    begun = []

    def make(indices: np.ndarray) -> int:
        begun.append(int(indices[0]))
        time.sleep(0.01)
        return 0

    def interrupted() -> None:
        with Ahead(make).running() as found:
            found.expect(batches(50))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    number = len(begun)
    assert threads() == []
    time.sleep(0.05)
    assert len(begun) == number <= AHEAD


def test_a_process_asks_for_its_share_in_turn() -> None:
    ranks = Ranks()
    ranks.rank, ranks.world = 1, 2
    # Of 3 4 5 | 6: where too few are left, the first one of the group again.
    assert [int(batch[0]) for batch in in_turn(batches(7), 3, 3, ranks)] == [4, 3, 6]


# --- in a training ----------------------------------------------------------------------------------------------------


def test_a_training_is_the_same_with_and_without(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, over several epochs and batches an update; and the batches do come from the thread."""
    asked: list[bool] = []
    call = Ahead.__call__

    def counted(self: Any, indices: np.ndarray) -> Any:
        asked.append(bool(self._waiting) and self._waiting[0][0] is indices)
        return call(self, indices)

    monkeypatch.setattr(Ahead, "__call__", counted)
    options = ("train.accumulate=2", "train.epochs=2")
    train(*options, run="one")
    assert asked
    assert all(asked)
    monkeypatch.setattr(plan, "AHEAD", 0)
    asked.clear()
    train(*options, run="two")
    assert len({Path(name, "checkpoints/last/model.safetensors").read_bytes() for name in ("one", "two")}) == 1
    assert not any(asked)


def test_a_batch_that_does_not_fit_is_named(place: Path) -> None:
    training = trainer()
    third = training.plan.batches(0)[2]

    def make(indices: np.ndarray) -> Any:
        if indices.tolist() == third.tolist():
            raise torch.OutOfMemoryError("out of memory")
        return training.model.collate(training.train_split, indices)

    training.ahead = Ahead(make)
    longest = int(training.train_split.lengths[third].max())
    with pytest.raises(OutOfMemoryError, match=rf"{len(third)} sentences, the longest of {longest} words"):
        training.train()
    assert training.state.step == 2
    assert threads() == []


def test_a_training_that_is_stopped_leaves_no_thread(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = Trainer._update

    def stopped(self: Trainer, given: list[np.ndarray]) -> None:
        update(self, given)
        if self.state.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "_update", stopped)
    with pytest.raises(StoppedError):
        trainer().train()
    assert threads() == []
