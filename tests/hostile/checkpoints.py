"""Altered checkpoints, as they are and with checksums that are right again, through all that reads one."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from support import interrupted

from probtrans_cli import load
from probtrans_cli.errors import ProbtransError

from .folders import alter, disturb
from .inputs import ONE_UPDATE
from .material import CORPORA, RUNS
from .mutations import mutated
from .place import Group, Place

SUMS = "SHA256SUMS"


def signed(folder: Path) -> None:
    """Write the checksums of a checkpoint again, of all files that are there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), "utf-8")


def checkpoint(place: Place) -> None:
    """A run with something wrong in its best and last checkpoint."""
    chance = place.chance
    run = chance.choice(("tiny", "tagger", *RUNS))
    where = f"runs/{run}"
    place.copy(where, "tiny.yaml", "train.conllu", "dev.conllu", "test.conllu", *({CORPORA[run]} - {"train.conllu"}))
    verb = chance.choice(("eval", "parse", "parse", "export", "resume", "resume", "start", "load", "choose"))
    several = len(list((place.folder / where / "checkpoints").glob("step-*"))) > 1
    if verb == "resume" and chance.random() < 0.7 and several:
        interrupted(place.folder / where)
    best, last = ((place.folder / where / "checkpoints" / link).resolve() for link in ("best", "last"))
    folder = chance.choice((best, last))
    inside = str(folder.relative_to(place.folder.resolve()))
    for _ in range(chance.choice((1, 1, 2))):
        files = sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != SUMS
        )
        if chance.random() < 0.12 or not files:
            disturb(place, inside)
        elif chance.random() < 0.06 and (folder / SUMS).is_file():
            (folder / SUMS).write_bytes(mutated(chance, (folder / SUMS).read_bytes()))
        else:
            alter(place, f"{inside}/{chance.choice(files)}")
    if chance.random() < 0.75:
        sums = folder / SUMS
        if sums.is_dir() and not sums.is_symlink():
            sums.rmdir()
        if not sums.is_symlink():
            signed(folder)
    place.guard(where)
    name = chance.choice((where, f"{where}@last", inside))
    corpus = CORPORA[run].replace("train.", "dev.")

    def loaded() -> int:
        try:
            list(load(name).analyze(["two cheap farmers", ["fold", ""]], top=2))
        except ProbtransError as error:
            sys.stderr.write(f"error: {error.message!a}\n")
            return error.exit_code
        return 0

    if verb == "load":
        place.run("load", name, function=loaded)
    elif verb == "start":
        place.run("train", where, *ONE_UPDATE, "--init-from", name, "--run", "runs/new")
    else:
        verbs = {
            "eval": ("eval", name, corpus, "--json"),
            "parse": ("parse", name, "dev.conllu", "-f", "jsonl", "--top", "2"),
            "export": ("export", name, "out", "--json"), "resume": ("train", where, "--resume"),
            "choose": ("eval", name, "dev.conllu", "--choose"),
        }  # fmt: skip
        place.run(*verbs[verb])


GROUPS = (Group("checkpoint", 560, checkpoint),)
