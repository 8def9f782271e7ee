"""Files of corpora: public ones with known checksums, and those converted from a user's own copy.

A file takes its place when it is whole and right, or not at all; a different file that is already there is left alone
unless the user asks to replace it. Nothing else in probtrans uses the network.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import os
import secrets
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from probtrans_cli import console
from probtrans_cli.atomic import left_of
from probtrans_cli.corpora import KnownFile, Options, Placed
from probtrans_cli.errors import FULL, DataError, reason, unwritten
from probtrans_cli.folders import regular

ADDRESS = "https://raw.githubusercontent.com"
BLOCK = 1 << 16
SECONDS = 60
IN_THE_WAY = "move it away, or replace it with --force"
NO_NETWORK = "without a network take a local copy: --from DIR"

Opener = Callable[[], BinaryIO]


def opened(file: KnownFile, source: Path | None) -> BinaryIO:
    """Open the official file over https, or its copy in the folder ``source``."""
    if source is None:
        address = f"{ADDRESS}/{file.repository}/{file.upstream}"
        try:
            return cast(BinaryIO, urllib.request.urlopen(address, timeout=SECONDS))  # noqa: S310  (an address of ours)
        except (OSError, http.client.HTTPException) as error:
            raise DataError(f"{address}: {error or type(error).__name__}", hint=NO_NETWORK) from error
    # Under its official path or name or the one it gets here, gzipped or not.
    stems = dict.fromkeys((file.upstream, file.upstream.rpartition("/")[2], file.path))
    names = [stem + end for stem in stems for end in ("", ".gz")]
    for name in names:
        path = source / name
        if path.is_file():
            return cast(BinaryIO, gzip.open(path)) if name.endswith(".gz") else path.open("rb")
    hint = "give --from the folder that holds them"
    raise DataError(f"{source}: none of {', '.join(names)} is there", hint=hint)


# --- putting files in place -------------------------------------------------------------------------------------------


def place(file: KnownFile, options: Options, opener: Opener | None = None) -> Placed:
    """Put a file of known checksum in place; ``opener``: where it comes from, by default as :func:`opened`."""
    target = options.folder / file.path
    if os.path.lexists(target):
        content = "no file"
        if target.is_file():
            with target.open("rb") as existing:
                content = hashlib.file_digest(existing, "sha256").hexdigest()
        if content == file.sha256:
            return Placed(target, "already in place")
        if not options.force:
            message = f"{target}: a different file is in the way (sha256 {content}, not {file.sha256})"
            raise DataError(message, hint=IN_THE_WAY)
    try:
        with (opener or partial(opened, file, options.source))() as source:
            _write(target, _checked(source, file), force=options.force)
    except (EOFError, zlib.error, zipfile.BadZipFile, http.client.HTTPException) as error:
        # a broken archive, a lost connection
        raise DataError(f"{target}: {error or type(error).__name__}", hint=NO_NETWORK) from error
    return Placed(target, "written, checksum right")


def place_texts(texts: Mapping[str, Sequence[str]], options: Options) -> Iterator[Placed]:
    """Put the files of a converted corpus, with these lines, in place, or none of them where another is in the way."""
    contents = {options.folder / name: lines_of(lines).read() for name, lines in texts.items()}
    same = {target for target, content in contents.items() if target.is_file() and target.read_bytes() == content}
    for target in contents.keys() - same:
        if os.path.lexists(target) and not options.force:
            raise DataError(f"{target}: a different file is in the way", hint=IN_THE_WAY)
    for target, content in contents.items():
        if target not in same:
            _write(target, [content], force=options.force)
        yield Placed(target, "already in place" if target in same else "written")


def _checked(source: BinaryIO, file: KnownFile) -> Iterator[bytes]:
    digest, size = hashlib.sha256(), 0
    work = console.Work(file.size, file.path)
    try:
        while (block := source.read(BLOCK)) and size <= file.size:  # one that is longer is wrong: not all is read
            yield block
            digest.update(block)
            size += len(block)
            work.advance(len(block))
    finally:
        work.end()
    if digest.hexdigest() != file.sha256:
        read = " of the part that was read; the file is too long" if size > file.size else ""
        message = f"{file.path}: wrong checksum, nothing written: sha256 {digest.hexdigest()}{read}, not {file.sha256}"
        raise DataError(message, hint="fetch it again, or give --from another copy")


def _write(target: Path, blocks: Iterable[bytes], *, force: bool) -> None:
    """Write a file under a name of its own, then rename it: nothing half written stays, and without ``force`` nothing
    is replaced that somebody has put there in the meantime."""
    partial_file = target.with_name(f".{target.name}-{secrets.token_hex(4)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in left_of(target):  # a kill left them
            left.unlink(missing_ok=True)
        with regular.create(partial_file) as file:
            for block in blocks:
                file.buffer.write(block)
        if force:
            partial_file.replace(target)
            return
        try:
            target.hardlink_to(partial_file)
        except OSError:  # a file is there, or the file system has no hard links
            if os.path.lexists(target):
                message = f"{target}: somebody has put a file there in the meantime"
                raise DataError(message, hint=IN_THE_WAY) from None
            partial_file.rename(target)
    except OSError as error:
        if error.errno in FULL:
            raise unwritten(str(target), error) from None
        raise DataError(f"{target}: {reason(error)}", hint="check the path, or fetch again") from error
    finally:
        with suppress(OSError):  # it was renamed, or never made
            partial_file.unlink()


# --- reading, counting ------------------------------------------------------------------------------------------------


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a text, without ``\n`` or ``\r\n``."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {reason(error)}", hint="give --from the folder that holds it") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        message = f"{path}:{number}: not UTF-8 (byte 0x{content[error.start]:02x})"
        raise DataError(message, hint="convert it with iconv") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def lines_of(lines: Iterable[str]) -> BinaryIO:
    return io.BytesIO("".join(f"{line}\n" for line in lines).encode())


def expect(what: str, count: int, published: int) -> None:
    """Warn of a count that is not the published one."""
    if count != published:
        console.log(f"warning: {what}: {count:,}, published {published:,}; is this the original corpus?")
