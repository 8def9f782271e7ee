"""Folders that several processes write, or that were copied: who may write now, and which checkpoint is meant.

Where files and folders that a user names lie: as named, or also, in a recipe, under $PROBTRANS_DATA (`data/`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from probtrans_cli.errors import UsageError


def with_home(path: str) -> str:
    """Return the path with a leading `~` or `~user` replaced by the home folder, as a shell does: none does it after
    `--run=` and `data.train=`, in a recipe, or in Python. `./~` is a file or folder of this name: an absolute path,
    which stays what it is if it is expanded again.

    Raises:
        UsageError: the path is empty, or `~` is no folder, as there is neither $HOME nor a user of this number.
    """
    if not path:  # pathlib's is the current folder
        raise UsageError("a path is empty", hint='write . for this folder; "$RUN" is empty where RUN is not set')
    try:
        expanded = os.path.expanduser(path)  # noqa: PTH111  (pathlib's takes `./~` for `~`, and refuses `~backup`)
    except ValueError:  # what no user's name can have
        return path
    if path.partition("/")[0] == "~" == expanded[:1]:
        raise UsageError(f"{path}: the home folder is not known", hint="set HOME, or write the whole path")
    return str(Path.cwd() / expanded) if path.startswith(".") and str(Path(path)).startswith("~") else expanded


def expand_home(path: str) -> Path:
    """:func:`with_home` as a path."""
    return Path(with_home(path))


def places(path: str) -> list[Path]:
    """Return where a relative path may lie, in order: the current folder, then $PROBTRANS_DATA."""
    expanded = expand_home(path)
    if expanded.is_absolute():
        return [expanded]
    return [expanded, data_folder() / expanded]


def data_folder() -> Path:
    return expand_home(os.environ.get("PROBTRANS_DATA") or "data")


def find_folder(path: str) -> Path:
    """Return the first of :func:`places` that is a folder; the path itself where none is."""
    return next((place for place in places(path) if holds(Path.is_dir, place)), expand_home(path))


def holds(kind: Callable[[Path], bool], path: Path) -> bool:
    """Return True if a path is of a kind; what may not be looked at is of none."""
    try:
        return kind(path)
    except (OSError, ValueError):  # a folder that may not be entered, a name that is too long or has a zero byte
        return False
