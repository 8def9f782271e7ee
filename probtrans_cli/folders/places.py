"""Where files and folders that a recipe names lie: as named, or under $PROBTRANS_DATA (default `data/`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def expand_home(path: str) -> Path:
    """Return the path with a leading `~/` replaced by the home folder, which no shell does after `data.train=`."""
    return Path.home() / path[2:] if path.startswith("~/") else Path(path)


def places(path: str) -> list[Path]:
    """Where something of this name may lie, the first place first: the current folder, then $PROBTRANS_DATA."""
    given = expand_home(path)
    if given.is_absolute():
        return [given]
    return [given, Path(os.environ.get("PROBTRANS_DATA") or "data") / given]


def find_folder(path: str) -> Path:
    """The first of :func:`places` that is a folder; the path as given where none is."""
    return next((place for place in places(path) if holds(Path.is_dir, place)), expand_home(path))


def holds(kind: Callable[[Path], bool], path: Path) -> bool:
    """Whether a path is of a kind; what may not be looked at is of none."""
    try:
        return kind(path)
    except (OSError, ValueError):  # a folder that may not be entered, a name that is too long or has a zero byte
        return False
