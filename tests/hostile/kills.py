"""Signals at any moment of a command, and what comes after: the same bits, no file lost, nothing half written.

A moment is a number of calls of Python functions, or of operations on files, so it is the same on every machine.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

from .material import BULK, COUNTED, PREPARE, WHOLE, WORKPLACE
from .place import STOPPED, Group, Place, killed_by
from .process import Ended, Signal

SIGNALS = (signal.SIGKILL,) * 5 + (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
CORPORA = (*WORKPLACE, "notes.txt")


def _moment(place: Place, command: str) -> Signal:
    chance = place.chance
    kind = chance.choice(("calls", "files"))
    count = json.loads((place.material / "counted.json").read_text("utf-8"))[command][kind]
    return Signal(chance.choice(SIGNALS), chance.randint(1, count), kind)


def _killed(place: Place, command: str, *arguments: str) -> Ended:
    """Run a command that gets a signal at any moment."""
    moment = _moment(place, command)
    ended = place.run(*arguments, kill=moment, allowed=killed_by(moment.number))
    if ended.code in STOPPED:
        right = 130 if moment.number == signal.SIGINT else 75
        place.require(ended.code == right, f"exit code {ended.code} after {moment.number.name}", ended)
    return ended


# --- trainings --------------------------------------------------------------------------------------------------------


def training(place: Place) -> None:
    """A training that is killed and resumed, again and again, has the weights of the unbroken one."""
    variant = place.chance.choice(list(WHOLE))
    place.copy(*CORPORA)
    place.guard()
    arguments = ("train", "tiny.yaml", *WHOLE[variant], "--run", "runs/killed")
    run = place.folder / "runs/killed"
    for _ in range(place.chance.choice((1, 2, 2, 3))):
        again = ("--resume",) if run.exists() else ()
        _killed(place, variant, *arguments, *again)
        if (run / "recipe.yaml").exists() and place.chance.random() < 0.7:
            _leave_files(place, run)
    ended = place.run(*arguments, *(("--resume",) if run.exists() else ()))
    if place.require(ended.code == 0, f"exit code {ended.code} of what was to go on", ended):
        _same(place, run, place.material / f"runs/whole-{variant}", ended)


def _leave_files(place: Place, run: Path) -> None:
    inside = ["", "checkpoints/", "trees/", *(f"checkpoints/{path.name}/" for path in run.glob("checkpoints/step-*"))]
    for number, name in enumerate(place.chance.sample(inside, 2)):
        if name and not (run / name).is_dir():
            continue
        path = place.write(f"runs/killed/{name}mine-{len(place.ended)}-{number}.txt", "what a user has written\n")
        place.guard_one(path)


def replaced(place: Place) -> None:
    """A run that is overwritten by trainings that are killed: the old run or a new one stays, and the end is right."""
    place.copy(*CORPORA)
    place.guard()
    shutil.copytree(place.material / "runs/tiny", place.folder / "runs/killed", symlinks=True)
    arguments = ("train", "tiny.yaml", *WHOLE["plain"], "--run", "runs/killed")
    run = place.folder / "runs/killed"
    for _ in range(place.chance.choice((1, 2))):
        _killed(place, "plain", *arguments, "--overwrite")
    read = place.run("eval", "runs/killed", "dev.conllu", "--masks", "1")
    there = (run / "recipe.yaml").exists() or (run / ".replaced/recipe.yaml").exists()
    place.require(there, "neither the old run nor the new one is there")
    place.require(read.code in (0, 4), f"exit code {read.code} of what is there", read)
    ended = place.run(*arguments, "--overwrite")
    if place.require(ended.code == 0, f"exit code {ended.code} of what was to go on", ended):
        _same(place, run, place.material / "runs/whole-plain", ended)


def _same(place: Place, run: Path, whole: Path, ended: Ended) -> None:
    place.require(_weights(run) == _weights(whole), "other weights than those of the unbroken run", ended)
    place.require(_metrics(run) == _metrics(whole), "other metrics than those of the unbroken run", ended)
    names = [[(one / "checkpoints" / link).readlink() for link in ("best", "last")] for one in (run, whole)]
    place.require(names[0] == names[1], f"other links: {names}", ended)
    left = [path.name for path in (*run.glob(".*"), *(run / "checkpoints").glob(".*"))]
    place.require(not left, f"something half written is left: {left}", ended)
    place.require(json.loads((run / "exit.json").read_text("utf-8"))["exit"] == 0, "exit.json is of another end", ended)


def _weights(run: Path) -> dict[str, bytes]:
    """Every tensor file of best and last."""
    return {
        f"{link}/{path.relative_to(run / 'checkpoints' / link)}": path.read_bytes()
        for link in ("best", "last")
        for path in sorted((run / "checkpoints" / link).rglob("*.safetensors"))
    }


def _metrics(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key != "words_per_second"} for line in lines]


# --- others -----------------------------------------------------------------------------------------------------------


def preparing(place: Place) -> None:
    """A corpus that is prepared, by one process or two: a kill leaves the old folder, the new one or none, and the next
    one is right."""
    place.copy(*CORPORA)
    place.write("here/notes.txt", "what a user has written\n")
    place.write("here/.prepared-mine.partial", "what a user has written\n")
    force = place.chance.random() < 0.5
    if force:
        shutil.copytree(place.material / "here/prepared", place.folder / "here/prepared")
    place.guard("here/prepared/")
    right = _contents(place.material / "here/prepared")
    for _ in range(place.chance.choice((1, 2, 3))):
        command = place.chance.choice(("prepare", "jobs"))
        ended = _killed(place, command, *COUNTED[command], *(("--force",) if force else ()))
        found = _contents(place.folder / "here/prepared")
        moved = place.folder / "here/.prepared.replaced"  # between two renames
        place.require(found in ({}, right) and (found or moved.exists() or not force), "half a folder is there", ended)
    ended = place.run(*PREPARE)
    place.require(ended.code == 0, f"exit code {ended.code} of what was to go on", ended)
    place.require(_contents(place.folder / "here/prepared") == right, "another folder than the unbroken one", ended)


def _contents(folder: Path) -> dict[str, bytes]:
    """The files of a prepared folder; times and paths of sources differ."""
    return {path.name: path.read_bytes() for path in folder.glob("*") if path.name != "manifest.json"}


def in_bulk(place: Place) -> None:
    """A job of blocks, by one process or two workers: blocks that are done stay, and the whole is the unbroken one."""
    place.copy(*CORPORA, "runs/tiny")
    place.guard("done/")
    for _ in range(place.chance.choice((1, 2, 3))):
        command = place.chance.choice(("bulk", "workers"))
        ended = _killed(place, command, *COUNTED[command])
        done = place.folder / "done/blocks"
        for path in done.glob("*.conllu") if done.exists() else ():
            same = path.read_bytes() == (place.material / "done/blocks" / path.name).read_bytes()
            place.require(same or not path.with_suffix(".done").exists(), f"another block: {path.name}", ended)
        if (place.folder / "done/job.json").exists() and place.chance.random() < 0.5:
            place.guard_one(place.write("done/mine.txt", "what a user has written\n"))
    ended = place.run(*BULK)
    place.require(ended.code == 0, f"exit code {ended.code} of what was to go on", ended)
    merged = place.run(*BULK, "--merge")
    right = (place.material / "merged.conllu").read_text("utf-8")
    place.require(merged.out == right, "another result than the unbroken one", merged)


def evaluating(place: Place) -> None:
    """An evaluation: its file beside the checkpoint is the old one or the new one, and the checkpoint is whole."""
    place.copy(*CORPORA, "runs/tiny")
    side = place.folder / "runs/tiny/checkpoints/eval-dev.json"
    side.write_text('{"old": 1}\n', encoding="utf-8")
    place.write("runs/tiny/notes.txt", "what a user has written\n")
    place.write("runs/tiny/checkpoints/best/notes.txt", "what a user has written\n")
    command = place.chance.choice(("eval", "choose"))
    place.guard("runs/tiny/checkpoints")
    place.guard_one("runs/tiny/checkpoints/best/notes.txt")
    for _ in range(2):
        ended = _killed(place, command, *COUNTED[command])
        said = json.loads(side.read_text("utf-8"))
        place.require(said == {"old": 1} or said["scores"]["dev"]["perplexity"] > 1, "half an eval-dev.json", ended)
        read = place.run("eval", "runs/tiny", "dev.conllu", "--masks", "1")
        place.require(
            read.code == 0 or (command == "choose" and read.code == 4), f"exit code {read.code} of the next", read
        )
    ended = place.run(*COUNTED[command])
    place.require(ended.code == 0, f"exit code {ended.code} of what was to go on", ended)


def writing(place: Place) -> None:
    """Files and folders that commands write: the old one or the new one."""
    outputs = {
        "predictions": "pairs.txt", "parse": "parsed.conllu", "export": "killed-export", "wheel": "killed-wheel",
    }  # fmt: skip
    command = place.chance.choice(list(outputs))
    out = place.folder / outputs[command]
    place.copy(*CORPORA, "runs/tiny", "runs/tagger")
    place.guard("runs/tagger/checkpoints/eval-dev.json")
    old = "what was there before\n"
    folder = command in ("export", "wheel")
    if not folder:
        out.write_text(old, encoding="utf-8")
    ended = _killed(place, command, *COUNTED[command])
    if folder:
        found = {path.name for path in out.iterdir()} if out.exists() else set()
        whole = {path.name for path in (place.material / out.name).iterdir()}
        place.require(not found or found == whole, f"half a folder is there: {sorted(found)}", ended)
        shutil.rmtree(out, ignore_errors=True)
    else:
        whole_file = (place.material / out.name).read_text("utf-8")
        place.require(out.read_text("utf-8") in (old, whole_file), "half a file is there", ended)
    ended = place.run(*COUNTED[command])
    place.require(ended.code == 0, f"exit code {ended.code} of what was to go on", ended)


def kill(place: Place) -> None:
    kinds = (training, training, training, replaced, preparing, preparing, in_bulk, in_bulk, evaluating, writing)
    kinds[place.index % len(kinds)](place)


GROUPS = (Group("kill", 320, kill),)
