"""One block of a job of `parse`: what is asked for, and how a block is done."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from probtrans_cli.commands.input_stream import LARGEST_CHUNK, form_of, sentences_of
from probtrans_cli.commands.parse import ParseRequest, Parsing
from probtrans_cli.data.blocks import Block, Ends, checksum, in_file, lines_of, require_unchanged
from probtrans_cli.data.files import display_name
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, ProbtransError
from probtrans_cli.folders.job import Job

WARNING = "warning"
"""What the marker of a block says of the first sentence that was too long."""
BLOCK_BYTES = 4 << 20
"""Bytes of a block of a plain file: half a minute's work or so, and what a kill costs."""


@dataclass(frozen=True)
class BulkRequest:
    """What `parse --output-dir` is asked for."""

    parse: ParseRequest
    """The model, the inputs, and what is written of each sentence; with ``merge`` also where to."""
    folder: Path
    workers: int = 1
    """So many processes do the share."""
    shard: str | None = None
    """``I/N``: which share of the job, I from 1 to N; None: all of it."""
    merge: bool = False
    """Do nothing but put the results together."""
    block_bytes: int = BLOCK_BYTES


def attempt(parsing: Parsing, job: Job, number: int, block: Block) -> None:
    """Do a block unless it is done; where it fails, say so in the folder.

    Raises:
        OSError: the folder cannot be written.
        DataError: it is done, and of another job.
    """
    if job.is_done(number):
        job.require_own(number, part_of(block))
        return
    try:
        _parse(parsing, job, number, block)
    except OSError:
        raise
    except Exception as error:  # whatever is wrong with one block is no reason not to do the others
        ours = isinstance(error, ProbtransError)
        why = [str(error) or type(error).__name__, f"block {number}: {block}"]
        if isinstance(error, ProbtransError) and error.hint:
            why.append(f"-> {error.hint}")
        job.fail(number, "\n".join(why if ours else [*why, traceback.format_exc()]))


def part_of(block: Block) -> dict[str, Any]:
    """What the marker of a block says of the part of an input that it is."""
    return {"input": block.path, "begin": block.begin, "end": block.end}


def is_current(job: Job, number: int, block: Block) -> bool:
    """Whether a block that is done was made of what its input holds now.

    The time of the input is believed. Where it is another one, as of a copy, the bytes are compared.

    Raises:
        DataError: the input cannot be read, or the block is of another job.
    """
    job.require_own(number, part_of(block))
    about = job.about(number)
    now = block.file
    if not about or now is None:
        return False
    if (about.get("input_bytes"), about.get("modified")) == (now.size, now.modified):
        return True
    return bool(about.get("content") == checksum(block, _ends(about.get("form"))))


def _ends(form: Any) -> Ends:
    """What ends a sentence in a form."""
    return "empty line" if form == "conllu" else "line"


def _parse(parsing: Parsing, job: Job, number: int, block: Block) -> None:
    require_unchanged(block)
    request = parsing.request
    form, _ = form_of(block.path, request.input_form)
    ends = _ends(form)
    name = display_name(block.path)
    about: dict[str, Any] = {**part_of(block), "form": form, "sentences": 0}
    if block.file is not None:
        about |= {"input_bytes": block.file.size, "modified": block.file.modified, "content": checksum(block, ends)}

    def portions() -> Iterator[Sequence[Sentence]]:
        unread = parsing.unread(lambda message: about.update({WARNING: in_file(block, ends, message)}))
        given = unread.passing(sentences_of(lines_of(block, ends), name, form, parsing.refused))
        while portion := list(islice(given, LARGEST_CHUNK)):
            about["sentences"] += len(portion)
            yield portion
        about.update(unread.counts)

    try:
        with job.writing(number, about) as file:
            file.writelines(parsing.written(portions()))
            require_unchanged(block)  # what was read is what was planned for
    except DataError as error:
        require_unchanged(block)  # else a fault of half a file is told
        raise DataError(in_file(block, ends, error.message), hint=error.hint) from None
