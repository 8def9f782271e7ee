"""Files and folders that are replaced as a whole: written aside, synced, renamed. All of probtrans writes through this.

A reader finds the old content or the new, never half of one, whenever the writer is killed. What a kill leaves has a
name that nothing else has: ``.NAME.partial`` or ``.NAME-12345678.partial`` is half written, ``.NAME.replaced`` is a
folder that was about to be replaced.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from probtrans_cli.errors import FULL, UsageError, unwritten
from probtrans_cli.folders import regular

PARTIAL, REPLACED = ".partial", ".replaced"
ABANDONED = 6 * 3600  # seconds after which the half-written folder of another process counts as left by a kill
NAMELESS = {*FULL, errno.EIO}  # errors of writing that name no file
# The random part of the name, and the endings that older versions of `prepare` used.
_LEFTOVER = r"-[a-z0-9_]{8}\.(partial|part|old)"


def _partial(path: Path) -> Path:
    # A name of this process's own for what is half written; `left_of` finds those of others.
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}{PARTIAL}")


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until a folder is on the disk with all that is in it."""
    for path in (*folder.rglob("*"), folder):
        if path == folder or regular.is_file(path) or regular.is_folder(path):
            sync(path)


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def replacing(path: Path, *, synced: bool = True, shared: bool = False, direct: bool = False) -> Iterator[TextIO]:
    """Within: a text file that takes the place of ``path`` once it is complete; a failure leaves the old one.

    Without ``synced`` the disk is not waited for: for many small files that can be made again. ``shared``: other
    processes may write the same file at the same time, and the last one's stays; what a kill leaves is found by
    :func:`left_of`. ``direct``: the user has named the file, so a device or a named pipe is written as it is, and a
    link replaced; anywhere else they are not ours.

    Raises:
        OSError: the file cannot be written; the error names ``path``.
        IrregularFileError: a link, a device or a named pipe is there, and is not to be written directly.
    """
    if direct and (device := _opened_as_it_is(path)) is not None:
        with device:
            yield device
        return
    if not direct:
        regular.refuse_others(path)
    partial = _partial(path) if shared else path.with_name(f".{path.name}{PARTIAL}")
    try:
        with regular.create(partial) as file:
            yield file
        if synced:
            sync(partial)
        partial.replace(path)
    except OSError as error:
        if error.filename == str(partial) or (error.filename is None and error.errno in NAMELESS):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):  # it was renamed, or never made
            partial.unlink()


def _opened_as_it_is(path: Path) -> TextIO | None:
    """Open a device, a pipe or what is open already to write; stdout and stderr go on where they are. None: it is none
    of these."""
    # Names such as `/dev/stdout`: a file that is open already, and that other programs write, too.
    is_open = (path.is_symlink() and path.absolute().is_relative_to("/dev")) or path.absolute().is_relative_to("/proc")
    if not path.exists() or (path.is_file() and not is_open):
        return None
    for number in (1, 2) if is_open else ():
        with suppress(OSError):  # it is closed
            if os.path.samestat(path.stat(), os.fstat(number)):
                return open(number, "w", encoding="utf-8", closefd=False)
    return path.open("a", encoding="utf-8")


@contextmanager
def faults_of(output: Path, option: str, *, kept: str = "") -> Iterator[None]:
    """Name the file in an error where it cannot be written (no such folder, a full disk).

    ``kept``: what lies in the folder ``output`` already, which no hint may give up.
    """
    try:
        yield
    except OSError as error:
        again = f"and give the same command again{f'; {kept}' if kept else ''}"
        hint = f"allow writing there, {again}" if kept else f"choose another {option}"
        name = str(error.filename or output)
        raise unwritten(name, error, UsageError, hint=hint, full=f"make room, {again}") from None


@contextmanager
def output_of(path: Path | None, option: str) -> Iterator[TextIO]:
    """Within: the file that the user has named with an ``option`` for an output, or stdout where there is none."""
    if path is None:
        yield sys.stdout
        return
    with faults_of(path, option), replacing(path, direct=True) as file:
        yield file


def replace_text(path: Path, text: str, *, synced: bool = True) -> None:
    with replacing(path, synced=synced) as file:
        file.write(text)


def create_text(path: Path, text: str) -> bool:
    """Write a text file whole where there is none; False: there is one, by whichever process was the first."""
    new = _partial(path)
    try:
        with regular.create(new) as file:
            file.write(text)
        sync(new)
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links: two processes at the same moment both believe to be first
            if path.exists():
                return False
            new.rename(path)
        return True
    finally:
        with suppress(OSError):  # it was renamed, or never made
            new.unlink()


def left_of(path: Path) -> list[Path]:
    """Return the partial files of processes that write ``path`` at the same time, or were killed while they did."""
    name = re.compile(re.escape(f".{path.name}") + rf"-[0-9a-f]{{8}}{re.escape(PARTIAL)}")
    return [partial for partial in path.parent.glob(f".{path.name}-*{PARTIAL}") if name.fullmatch(partial.name)]


def link(folder: Path, name: str) -> None:
    """Point the link ``name`` beside ``folder`` at it, in one step."""
    temporary = folder.with_name(f".{name}{PARTIAL}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.name, target_is_directory=True)
    temporary.replace(folder.with_name(name))
    sync(folder.parent)


# --- folders ----------------------------------------------------------------------------------------------------------


@contextmanager
def folder_beside(folder: Path) -> Iterator[Path]:
    """Within: a new, empty folder beside ``folder``, to be filled and given to :func:`replace_folder`.

    It is removed at the end unless it was renamed. Several processes may write the same folder: each gets its own.
    """
    # What killed processes have left there: half-written folders.
    with suppress(OSError):  # no such folder yet, or one that cannot be listed
        for path in list(folder.parent.iterdir()):
            if re.fullmatch(re.escape(f".{folder.name}") + _LEFTOVER, path.name):
                with suppress(FileNotFoundError):  # its owner, another process, has just finished with it
                    if time.time() - path.stat().st_mtime > ABANDONED:
                        shutil.rmtree(path, ignore_errors=True)
    new = _partial(folder)
    new.mkdir(parents=True)
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Put a complete new folder in the place of ``folder``, where there may be an old one: sync, then rename.

    A full folder cannot be renamed over, so the old one steps aside for a moment; :func:`recover` brings it back after
    a kill just then. Where several processes replace a folder, the caller lets one do so at a time, and may call
    :func:`sync_folder` before, as that takes the time.

    Raises:
        IrregularFileError: a link or a file has the name of the folder.
    """
    regular.refuse_others(folder, folder=True)
    sync_folder(new)
    aside = folder.with_name(f".{folder.name}{REPLACED}")
    if folder.exists():
        if os.path.lexists(aside):  # a kill left it, after the folder was replaced
            regular.remove(aside)
        folder.rename(aside)
    try:
        new.rename(folder)
    except BaseException:  # Ctrl-C between the two renames included
        if aside.exists() and not folder.exists():
            aside.rename(folder)
        raise
    sync(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def writing_folder(folder: Path, *, replace: bool = True) -> Iterator[Path]:
    """Within: a new folder that gets the name ``folder`` at the end. It takes the place of an old one, which a failure
    leaves there; or, without ``replace``, that of an empty folder at most.

    Raises:
        FileExistsError: another process has put something there in the meantime; it stays as it is.
    """
    if replace:
        regular.refuse_others(folder, folder=True)
    with folder_beside(folder) as new:
        yield new
        if replace:
            replace_folder(new, folder)
            return
        sync_folder(new)
        with suppress(OSError):
            folder.rmdir()  # POSIX would rename over an empty one, Windows would not
        try:
            new.rename(folder)
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder)) from None
            raise
        sync(folder.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that a kill on the way leaves nothing under its name."""
    regular.refuse_others(folder, folder=True)
    half = folder.with_name(f".{folder.name}{PARTIAL}")
    folder.rename(half)
    shutil.rmtree(half)


def recover(parent: Path, names: re.Pattern[str] | None = None) -> None:
    """Tidy up in a folder after a kill: bring back what was about to be replaced, remove what is half written.

    Nobody else may write there at the same time. ``names``: those of the leftovers, where others may be alike.
    """
    if not parent.is_dir():
        return
    leftovers = [path for path in parent.iterdir() if names is None or names.fullmatch(path.name)]
    for path in (path for path in leftovers if path.match(f".*{REPLACED}")):
        original = path.with_name(path.name[1 : -len(REPLACED)])
        if os.path.lexists(original) or not regular.is_folder(path):
            regular.remove(path)
        else:
            path.rename(original)
    for path in (path for path in leftovers if path.match(f".*{PARTIAL}")):
        regular.remove(path)
