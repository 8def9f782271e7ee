"""Files of folders that a stranger may have made, such as a run that was copied from somewhere: nothing but files.

A link in such a folder leads to where its reader never looked, and a named pipe or a device has no end. So every file
of a run, a checkpoint, a job or an encoded corpus is opened here: no link is followed, nothing is waited for, and
nothing is written into a file that has another name elsewhere.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from probtrans_cli.errors import CheckpointError

_KINDS = {
    stat.S_IFLNK: "a link", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
}  # fmt: skip
_NOT_FOLLOWED, _NOT_AWAITED, _BYTES = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_ATTEMPTS = 100  # to make a file that other processes make at the same time


class IrregularFileError(CheckpointError):
    """Something else lies where a file or folder of ours should be."""


# --- what is there ----------------------------------------------------------------------------------------------------


def is_file(path: Path) -> bool:
    """Return True if there is a file, and no link to one; a name that no file can have names none."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def refuse_others(path: Path, *, folder: bool = False) -> None:
    """Refuse anything but a file, or a ``folder``, of this name; nothing may be there, too.

    Raises:
        IrregularFileError: a link, a named pipe, a device or a socket is there, or a file in the place of a folder.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and not folder):  # a folder in a file's place: whoever opens it tells
        return
    raise _irregular(path, mode, "folder" if folder else "file")


def refuse_folder_of_others(folder: Path) -> None:
    """Refuse a link in the place of a folder, and in it everything but files and folders."""
    refuse_others(folder, folder=True)
    if folder.is_dir():
        with os.scandir(folder) as entries:  # which knows of most file systems without a look at each file
            for entry in entries:
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                    refuse_others(Path(entry.path))


def _irregular(path: Path, mode: int, wanted: str = "file") -> IrregularFileError:
    kind = _KINDS.get(stat.S_IFMT(mode), "something else" if wanted == "file" else "a file")
    if stat.S_ISLNK(mode):
        message = f"{path}: a link in the place of a {wanted}, which is not followed"
        return IrregularFileError(message, hint=f"put the {wanted} itself there, or remove the link")
    message = f"{path}: {kind} in the place of a {wanted}"
    return IrregularFileError(message, hint="move it away, or copy the folder again")


# --- reading ----------------------------------------------------------------------------------------------------------


def open_file(path: Path, *, below: Path | None = None, follow: bool = False) -> BinaryIO:
    """Open a file to read its bytes.

    Args:
        path: its name.
        below: the folder that it belongs to; between the two there may be no link either.
        follow: a link to a file is one: for folders that other programs make of links.

    Raises:
        IrregularFileError: it is no file.
        OSError, ValueError: it cannot be opened.
    """
    if below is not None:
        for parent in path.relative_to(below).parents:
            if parent != Path():
                refuse_others(below / parent, folder=True)
    flags = os.O_RDONLY | _BYTES | _NOT_AWAITED | (0 if follow else _NOT_FOLLOWED)
    # Looked at before as well: a socket cannot be opened, and a device may do something when it is.
    _require_file(path, path.stat(follow_symlinks=follow).st_mode)
    with ExitStack() as stack:
        file = stack.enter_context(open(path, "rb", opener=lambda name, _: os.open(name, flags)))
        _require_file(path, os.fstat(file.fileno()).st_mode)
        stack.pop_all()
    return file


def read_bytes(path: Path, *, below: Path | None = None, follow: bool = False) -> bytes:
    with open_file(path, below=below, follow=follow) as file:
        return file.read()


def read_text(path: Path, errors: str = "strict") -> str:
    return read_bytes(path).decode("utf-8", errors)


def _require_file(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise _irregular(path, mode)


# --- writing ----------------------------------------------------------------------------------------------------------


def create(path: Path) -> TextIO:
    """Create a text file to write; a file or link that has its name is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            path.unlink()
        with suppress(FileExistsError):  # another process has just made one
            return open(path, "w", encoding="utf-8", opener=lambda name, _: os.open(name, flags, 0o666))
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def append(path: Path) -> TextIO:
    """Open a text file to write at its end; it is created where there is none.

    A file with a second name elsewhere, as backups with hard links have it, is first replaced by a copy.
    """
    refuse_others(path)
    if path.exists() and path.stat().st_nlink > 1:
        copy = path.with_name(f".{path.name}.partial")
        with open_file(path) as file, create(copy) as new:
            shutil.copyfileobj(file, new.buffer)
        copy.replace(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NOT_FOLLOWED | _NOT_AWAITED
    return open(path, "a", encoding="utf-8", opener=lambda name, _: os.open(name, flags, 0o666))


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; never what a link points at."""
    shutil.rmtree(path) if is_folder(path) else path.unlink()
