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
from probtrans_cli.data.blocks import Block, Ends, in_file, lines_of
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
    """
    if job.is_done(number):
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


def _parse(parsing: Parsing, job: Job, number: int, block: Block) -> None:
    request = parsing.request
    form, _ = form_of(block.path, request.input_form)
    ends: Ends = "empty line" if form == "conllu" else "line"
    name = display_name(block.path)
    about: dict[str, Any] = {"input": block.path, "begin": block.begin, "end": block.end, "sentences": 0}

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
    except DataError as error:
        raise DataError(in_file(block, ends, error.message), hint=error.hint) from None
