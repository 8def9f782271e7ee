"""Folders of strangers: links out of them, and pipes, sockets and devices in the place of files."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from .inputs import ONE_UPDATE
from .place import Group, Place

RUN = "runs/tiny"
ADDED = (".probtrans.lock", "tensorboard", ".replaced", "checkpoints/eval-dev.json", "checkpoints/reliability.svg")
"""What a run may hold that has none of it."""
VERBS = (
    ("train", RUN, "--resume"), ("train", RUN, "--resume", "log.tensorboard=true"),
    ("train", RUN, *ONE_UPDATE, "--overwrite"), ("eval", RUN, "--split", "dev"),
    ("eval", RUN, "--split", "dev", "--choose"), ("eval", f"{RUN}@last", "dev.conllu"), ("table", RUN),
    ("table", RUN, "-f", "html"), ("export", RUN, "out"), ("parse", RUN, "dev.conllu"),
    ("train", "tiny.yaml", *ONE_UPDATE, "--init-from", RUN, "--run", "runs/new"),
)  # fmt: skip
JOB = ("parse", RUN, "dev.conllu", "--output-dir", "done", "--block-size", "2000")
PREPARE = ("prepare", "tiny.yaml", "data.prepared=here/prepared")


def _prepared(place: Place) -> tuple[str, tuple[str, ...]]:
    """A folder of one kind, as a stranger may have left it: its name, and a command that reads or writes there."""
    chance = place.chance
    place.copy(RUN, "tiny.yaml", "train.conllu", "dev.conllu", "test.conllu")
    kind = chance.random()
    if kind < 0.7:
        return RUN, chance.choice(VERBS)
    first, verb = chance.choice(((JOB, JOB), (JOB, (*JOB, "--merge")), (PREPARE, PREPARE), (PREPARE, PREPARE)))
    place.run(*first)
    return ("done" if first is JOB else "here/prepared"), verb


def _chosen(place: Place, folder: str) -> Path:
    """A name in a folder: of something that is there, of what a kill leaves of it, or that a verb may write."""
    chance = place.chance
    root = place.folder / folder
    path = chance.choice(sorted(root.rglob("*")))
    if folder == RUN and chance.random() < 0.2:
        path = root / chance.choice(ADDED)
    if chance.random() < 0.4:
        path = path.with_name(f".{path.name}.{chance.choice(('partial', 'partial', 'replaced'))}")
    return path


def _away(path: Path) -> None:
    """Let there be nothing of a name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def linked(place: Place) -> None:
    """A link out of a folder: to a file or a folder of the user's, or to what is not there."""
    folder, verb = _prepared(place)
    path = _chosen(place, folder)
    outside = place.folder / "outside"
    place.write("outside/thesis.tex", "what a user has written\n")
    content = outside / "content"
    if path.is_dir() and not path.is_symlink() and place.chance.random() < 0.5:
        path.rename(content)
    elif path.is_file() and place.chance.random() < 0.5:
        shutil.copyfile(path, content)
    _away(path)
    target = place.chance.choice(("thesis.tex", "content", "nowhere", "."))
    if target == "thesis.tex" and place.chance.random() < 0.3:
        path.hardlink_to(outside / target)
    else:
        path.symlink_to(outside / target)
    before = sorted(outside.rglob("*"))
    place.guard(folder, "runs/")
    place.run(*verb)
    place.require(sorted(outside.rglob("*")) == before, f"changed folder: outside, by {path}, a link to {target}")


def special(place: Place) -> None:
    """A pipe, a socket or a device in the place of a file."""
    folder, verb = _prepared(place)
    path = _chosen(place, folder)
    _away(path)
    kind = place.chance.randrange(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to(place.chance.choice(("/dev/zero", "/dev/stdin", "/dev/full", "/dev/tty")))
    elif kind == 2:
        with socket.socket(socket.AF_UNIX) as server:
            made = place.folder / "s"
            server.bind(os.path.relpath(made))
            made.rename(path)
    else:
        place.write("pipes/.keep", "")
        os.mkfifo(place.folder / "pipes/pipe")
        path.symlink_to(place.folder / "pipes/pipe")
    place.guard(folder, "runs/")
    place.run(*verb)


GROUPS = (Group("linked", 300, linked), Group("special", 300, special))
