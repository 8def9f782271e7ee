"""Several processes and one folder: one of them wins, the others say who does, and what is left is whole."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from probtrans_cli import checkpoint
from probtrans_cli.errors import ProbtransError
from probtrans_cli.folders import lock
from probtrans_cli.recipe.source import load_recipe

from . import process
from .kills import CORPORA
from .material import BULK, PREPARE
from .place import CODES, STOPPED, Group, Place
from .process import Ended, Running

ENDLESS = ("train.epochs=1000000", "save.every_steps=1", "task.eval_masks=1")
RUN = "runs/raced"


def _until(done: Callable[[], bool]) -> bool:
    """Wait for something that is on its way; False: it did not come."""
    deadline = time.monotonic() + process.LIMIT / 2
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _delay(place: Place) -> float:
    return place.chance.choice((0.0, 0.0, 0.01, 0.05, 0.2)) * place.chance.random()


def _updates(run: Path) -> list[int]:
    """The updates that metrics.jsonl tells of."""
    path = run / "metrics.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [
        line["step"]
        for line in map(json.loads, (one for one in lines if one.endswith("\n")))
        if line["split"] == "train"
    ]


def _said(running: Running) -> str:
    path = running.streams / "err"
    return path.read_text("utf-8", "backslashreplace") if path.exists() else ""


# --- one run folder ---------------------------------------------------------------------------------------------------


def trainings(place: Place) -> None:
    """Trainings into one folder at once: afresh, continued, or one that is to replace what another one continues."""
    chance = place.chance
    place.copy(*CORPORA)
    options: list[tuple[str, ...]] = [(), (), ()][: chance.choice((2, 2, 3))]
    run = place.folder / RUN
    if chance.random() < 0.6:
        ended = place.run("train", "tiny.yaml", "train.steps=2", "save.every_steps=1", "--run", RUN)
        place.require(ended.code == 0, "the training before", ended)
        place.guard()
        options = chance.choice(
            ([("--overwrite",), ("--overwrite",)], [("--overwrite",), ("--resume",), ("--overwrite",)])
        )
    place.guarded = {name: sum for name, sum in place.guarded.items() if not name.startswith("runs/")}
    started = [
        place.start("train", "tiny.yaml", *ENDLESS, f"seed={5 + i}", "--run", RUN, *option, delay=_delay(place))
        for i, option in enumerate(options)
    ]
    refusals = ("is in use by", "is not empty", "was started with another")
    losers: list[Running] = []

    def decided() -> bool:
        losers[:] = [one for one in started if any(words in _said(one) for words in refusals)]
        return len(losers) == len(started) - 1

    if not place.require(_until(decided), f"{len(losers)} of {len(started)} were refused"):
        for one in started:
            os.kill(one.process, signal.SIGKILL)
            place.wait(one, {*CODES, -signal.SIGKILL})
        return
    (winner,) = [one for one in started if one not in losers]
    for one in losers:
        ended = place.wait(one)
        place.require(ended.code == 2, f"exit code {ended.code} of who is refused", ended)
        if "is in use by" in ended.err:
            # The winner, or another one that had the lock for a moment until it was refused for its recipe.
            named = any(f"process {other.process} on" in ended.err for other in started if other is not one)
            place.require(named, "another process is named", ended)
    _until(lambda: len(_updates(run)) >= 3 or refusals[-1] in _said(winner))
    if refusals[-1] in _said(winner):  # it had the lock while the others were refused, and then could not go on
        place.require(place.wait(winner).code == 2, "exit code of who is refused")
        place.require((run / "checkpoints/step-000002").is_dir(), "the training before is there")
        return
    os.kill(winner.process, signal.SIGTERM)
    ended = place.wait(winner, STOPPED)
    _whole(place, run, started.index(winner) + 5, ended)


def _whole(place: Place, run: Path, seed: int, ended: Ended) -> None:
    """Everything in the folder of a stopped training is of one training."""
    try:
        last = checkpoint.locate(f"{run}@last", training=True)
        state = checkpoint.verify(last, training=True).json("training/state.json", dict[str, Any])
    except ProbtransError as error:
        place.fault(f"no whole checkpoint is left: {error.message}", ended)
        return
    steps = _updates(run)
    place.require(
        {load_recipe(str(one)).seed for one in (run, last / "recipe.yaml")} == {seed}, "recipes of two trainings", ended
    )
    place.require(state["step"] == steps[-1] and steps == list(range(1, len(steps) + 1)), f"updates: {steps}", ended)
    place.require(json.loads((run / "exit.json").read_text("utf-8"))["exit"] == ended.code, "another exit.json", ended)
    place.require(not lock.inside(run).exists() and not (run / ".replaced").exists(), "something is left", ended)


def choices(place: Place) -> None:
    """Several evaluations that store a choice, beside others that read: the checkpoint is whole at every moment."""
    place.copy(*CORPORA, "runs/tiny", "dev.conllu")
    place.write("runs/tiny/notes.txt", "what a user has written\n")
    place.guard("runs/tiny/checkpoints")
    verbs: list[tuple[str, ...]] = [("eval", "runs/tiny", "--split", "dev", "--choose")] * 2
    read = ("eval", "runs/tiny", "--split", "dev"), ("parse", "runs/tiny", "dev.conllu"), ("export", "runs/tiny", "out")
    verbs.append(place.chance.choice(read))
    started = [place.start(*verb, delay=_delay(place)) for verb in verbs]
    ended = [place.wait(choice) for choice in started]
    place.require(any(choice.code == 0 for choice in ended[:2]), "no choice was stored", ended[0])
    for choice in ended[:2]:
        refused = choice.code == 2 and "is in use by" in choice.err
        place.require(choice.code == 0 or refused, f"exit code {choice.code} of a choice", choice)
    place.require(ended[2].code == 0, f"exit code {ended[2].code} of who only reads", ended[2])
    after = place.run("eval", "runs/tiny", "dev.conllu", "--masks", "1")
    place.require(after.code == 0, "the checkpoint is not whole", after)


def stopped_between(place: Place) -> None:
    """A choice while a training goes on: it is refused."""
    place.copy(*CORPORA)
    place.guard()
    running = place.start("train", "tiny.yaml", *ENDLESS, "--run", RUN)
    if place.require(_until(lambda: len(_updates(place.folder / RUN)) >= 2), "the training does not begin"):
        choose = ("eval", RUN, "--split", "dev", "--choose")
        for verb in (choose, ("train", RUN, "--resume"), ("train", RUN, "--overwrite")):
            ended = place.run(*verb)
            refused = ended.code == 2 and f"is in use by process {running.process} on" in ended.err
            place.require(refused, f"exit code {ended.code} beside a training", ended)
        ended = place.run("parse", f"{RUN}@last", "dev.conllu")
        place.require(ended.code in (0, 4), f"exit code {ended.code} of who reads", ended)
    os.kill(running.process, signal.SIGTERM)
    _whole(place, place.folder / RUN, 3, place.wait(running, STOPPED))


# --- one prepared folder, one export ----------------------------------------------------------------------------------


def preparations(place: Place) -> None:
    """Several that prepare one corpus: each takes what one has made."""
    place.copy(*CORPORA)
    place.write("here/notes.txt", "what a user has written\n")
    place.guard()
    verbs: list[tuple[str, ...]] = [
        PREPARE, (*PREPARE, "--force"), (*PREPARE, "--jobs", "2"), (*PREPARE, "--force", "--json"),
        ("train", "tiny.yaml", "data.prepared=here/prepared", "train.steps=1", "--run", RUN),
    ]  # fmt: skip
    started = [
        place.start(*verb, delay=_delay(place)) for verb in place.chance.sample(verbs, place.chance.choice((2, 3, 4)))
    ]
    for one in started:
        ended = place.wait(one)
        place.require(ended.code == 0, f"exit code {ended.code} of one of several", ended)
    after = place.run(*PREPARE, "--json")
    place.require('"state": "up to date"' in after.out, "what is left is not up to date", after)
    left = sorted(path.name for path in (place.folder / "here").iterdir())
    place.require(left == ["notes.txt", "prepared"], f"left there: {left}", after)


def workers(place: Place) -> None:
    """Several processes that do one job of blocks, some with workers: each block is done once or as well, and whole."""
    place.copy(*CORPORA, "runs/tiny")
    place.guard("done/")
    verbs = [BULK, BULK, (*BULK, "--workers", "2"), (*BULK, "--shard", "1/2")]
    started = [place.start(*verb, delay=_delay(place)) for verb in place.chance.sample(verbs, 3)]
    for one in started:
        ended = place.wait(one)
        place.require(ended.code == 0, f"exit code {ended.code} of one of several", ended)
    place.run(*BULK)
    merged = place.run(*BULK, "--merge")
    right = (place.material / "merged.conllu").read_text("utf-8")
    place.require(merged.out == right, "another result than that of one process", merged)


def exports(place: Place) -> None:
    """Several that write one folder: one does, the others are refused."""
    place.copy(*CORPORA, "runs/tiny", "runs/tagger")
    place.guard()
    started = [place.start("export", run, "out", delay=_delay(place)) for run in ("runs/tiny", "runs/tagger")]
    ended = [place.wait(one) for one in started]
    place.require(sorted(one.code for one in ended) == [0, 2], f"exit codes {[one.code for one in ended]}", ended[0])
    after = place.run("eval", "out", "dev.conllu")
    place.require(after.code == 0, "what is left is not whole", after)


KINDS = (trainings, trainings, preparations, choices, stopped_between, exports, workers)


def race(place: Place) -> None:
    KINDS[place.index % len(KINDS)](place)


GROUPS = (Group("race", 56, race),)
