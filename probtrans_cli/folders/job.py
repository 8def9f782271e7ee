"""The folder of a job that is done in blocks, by any number of processes, at any time, in any order.

Parsing in bulk and encoding a corpus are such jobs.

    OUT/job.json               what the job is; another one is refused in this folder
    OUT/blocks/000001.conllu   the result of a block ...
    OUT/blocks/000001.done     ... and its marker, which is written after it and says of which job and of which part of
                               which input it is, and what the result must be
    OUT/failed/000007.txt      why a block could not be done; gone once it is

Every file appears whole, by a rename. So two processes that do the same block do each other no harm: they write the
same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from probtrans_cli import atomic
from probtrans_cli.errors import DataError, UsageError, reason
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import json_object
from probtrans_cli.text import from_json, printable, printable_json

JOB, BLOCKS, FAILED = "job.json", "blocks", "failed"
_MARKER = re.compile(r"([0-9]{6,})\.done")
_AGAIN = "repeat the job as it is, or choose another folder"


@dataclass(frozen=True)
class Job:
    """A job in its folder; blocks have the numbers 1, 2, ..."""

    folder: Path
    ending: str  # of the names of results, such as `conllu`
    sum: str  # a checksum of its identity, which every marker has

    @classmethod
    def begin(cls, folder: Path, ending: str, identity: Mapping[str, Any]) -> Job:
        """Make the folder of a job, or go on with the same job there.

        ``identity``: JSON values that say all that its results depend on; of what is below `named`, nothing is
        compared.
        """
        try:
            there = {path.name for path in folder.iterdir()} if folder.exists() else set()
            strangers = sorted(there - {JOB, BLOCKS, FAILED} - {path.name for path in atomic.left_of(folder / JOB)})
            if strangers and JOB not in there:
                message = f"{folder}: holds {printable(strangers[0], 200)}, and no job"
                raise UsageError(message, hint="give --output-dir a new folder, or an empty one")
            # Blocks without a `job.json` would be overwritten, or taken for those of another job.
            for name in (BLOCKS, FAILED):
                regular.refuse_others(folder / name, folder=True)
                blocks = sorted(path.name for path in (folder / name).iterdir()) if (folder / name).exists() else []
                # In this order: a process that begins the same job now writes its name before any block.
                if blocks and not os.path.lexists(folder / JOB):
                    block = printable(blocks[0], 200)
                    message = f"{folder}: holds {name}/{block}, and no {JOB} that says of which job it is"
                    hint = f"give --output-dir another folder; or put {JOB} back; or remove {name}/ if nobody needs it"
                    raise UsageError(message, hint=hint)
            for name in (BLOCKS, FAILED):
                (folder / name).mkdir(parents=True, exist_ok=True)
            if not (folder / JOB).exists():
                atomic.create_text(folder / JOB, json.dumps(identity, ensure_ascii=False, indent=1) + "\n")
        except FileExistsError as error:
            raise UsageError(f"{error.filename}: there is a file of this name", hint="choose another folder") from None
        return cls.of(folder, ending, identity)

    @classmethod
    def of(cls, folder: Path, ending: str, identity: Mapping[str, Any]) -> Job:
        """Return the job that a folder holds; raise a UsageError if there is none, or another one."""
        for name in (BLOCKS, FAILED):
            regular.refuse_folder_of_others(folder / name)
        try:
            there = from_json(regular.read_text(folder / JOB))
        except FileNotFoundError:
            raise UsageError(f"{folder}: there is no job in this folder", hint="run it without --merge first") from None
        except (OSError, ValueError) as error:
            hint = "put it back as it was, or allow reading it: blocks that are done stay"
            raise UsageError(f"{folder / JOB}: cannot be read: {error}", hint=hint) from None
        if different := _difference(there, identity):
            raise UsageError(f"{folder}: holds another job: {different}", hint=_AGAIN)
        # An option that is not used counts as one that is not there, as in the comparison.
        compared = {key: value for key, value in identity.items() if key != "named"}
        for key, value in compared.items():
            if isinstance(value, dict):
                compared[key] = {key: of_name for key, of_name in value.items() if of_name is not None}
        return cls(folder, ending, hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest())

    def result(self, number: int) -> Path:
        return self.folder / BLOCKS / f"{number:06d}.{self.ending}"

    def marker(self, number: int) -> Path:
        return self.folder / BLOCKS / f"{number:06d}.done"

    def note(self, number: int) -> Path:
        return self.folder / FAILED / f"{number:06d}.txt"

    def is_done(self, number: int) -> bool:
        return os.path.lexists(self.marker(number)) and os.path.lexists(self.result(number))

    def done(self) -> set[int]:
        """Return the blocks that have their marker, and beside it their result."""
        names = {path.name for path in (self.folder / BLOCKS).iterdir()}
        numbers = (int(marker[1]) for marker in map(_MARKER.fullmatch, names) if marker)
        return {number for number in numbers if self.result(number).name in names}

    def require_own(self, number: int, part: Mapping[str, Any]) -> None:
        """Refuse a block that is done, but of another job, or of another ``part`` of the inputs than its marker says.

        A block whose marker is damaged is to be done again.

        Raises:
            DataError: it is such a block; nothing is removed.
        """
        about = json_object(self.marker(number))
        expected = {"job": self.sum, **part}
        if key := next((key for key in expected if about and about.get(key) != expected[key]), None):
            problem = f"{self.result(number)}: of another job than that of {self.folder / JOB}"
            if key != "job":
                values = f"{printable_json(about.get(key))} there and {printable_json(expected[key])} here"
                problem = f"{self.marker(number)}: {key} is {values}"
            hint = f"give the job another folder; or move {self.marker(number)} away, and run it without --merge: "
            raise DataError(f"block {number}: {problem}", hint=f"{hint}it does this block again")

    @contextmanager
    def writing(self, number: int, about: Mapping[str, Any]) -> Iterator[TextIO]:
        """Enter to write the result of a block, which gets its name and then its marker at the end; a failure leaves
        neither.

        ``about``: the marker's content besides size and checksum; it may be filled while the result is written.
        """
        result, marker = self.result(number), self.marker(number)
        try:
            with atomic.replacing(result, shared=True) as file:
                yield file
            with result.open("rb") as content:
                checksum = hashlib.file_digest(content, "sha256").hexdigest()
            content_of_marker = {"job": self.sum, **about, "bytes": result.stat().st_size, "sha256": checksum}
            with atomic.replacing(marker, shared=True) as file:
                file.write(json.dumps(content_of_marker, ensure_ascii=False) + "\n")
        except FileNotFoundError:
            if not self.is_done(number):
                raise
        # On the FileNotFoundError, another process that did the same block was faster, and has tidied up.
        for path in (self.note(number), *atomic.left_of(result), *atomic.left_of(marker)):
            with suppress(FileNotFoundError):
                path.unlink()

    def fail(self, number: int, why: str) -> None:
        with atomic.replacing(self.note(number), shared=True) as file:
            file.write(why if why.endswith("\n") else f"{why}\n")

    def why(self, number: int) -> str | None:
        """Return why a block could not be done, in a line; None if that is not noted."""
        try:
            return printable(regular.read_text(self.note(number)).partition("\n")[0], 400)
        except (OSError, ValueError):
            return None

    def content(self, number: int) -> Iterator[bytes]:
        """Yield the result of a block that is done, in pieces; raise a DataError if it is damaged, at its end."""
        digest = hashlib.sha256()
        path, marker = self.result(number), self.marker(number)
        again = f"remove {marker}, and run the job again without --merge"
        try:
            expected = from_json(regular.read_text(marker))["sha256"]
            with regular.open_file(path) as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
                    yield piece
        except OSError as error:
            hint = again if isinstance(error, FileNotFoundError) else "allow reading it"
            raise DataError(f"{path}: cannot be read: {reason(error)}", hint=hint) from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: cannot be read: {error}", hint=again) from None
        if digest.hexdigest() != expected:
            raise DataError(f"{path}: damaged: it is not what was written", hint=again)


def _difference(there: Any, here: Mapping[str, Any]) -> str:
    """Return what is different in two jobs, in words; an empty text where they are the same."""
    if not isinstance(there, dict):
        return "its job.json is damaged"
    for key in here:
        old, new = there.get(key), here[key]
        if key == "named" or old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            name = next((name for name in {**old, **new} if old.get(name) != new.get(name)), None)
            if name is None:  # what is not there is null
                continue
            return f"{name} is {printable_json(old.get(name))} there and {printable_json(new.get(name))} here"
        if isinstance(old, list) and isinstance(new, list):
            both = zip(old, new, strict=False)
            number = next((i for i, pair in enumerate(both) if pair[0] != pair[1]), min(len(old), len(new)))
            shown = [printable_json(values[number]) if number < len(values) else "none" for values in (old, new)]
            return f"number {number + 1} of {key} is {shown[0]} there and {shown[1]} here"
        return f"{key} is {printable_json(old)} there and {printable_json(new)} here"
    return ""
