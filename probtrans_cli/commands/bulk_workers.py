"""Several processes that do the blocks of a job, one thread each; a new one takes the place of one that dies.

A process with many threads parses more slowly than many processes with one: sentences are short. They are told the
number of a block at a time, so that none waits for another at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from probtrans_cli.commands.bulk_blocks import BulkRequest, attempt
from probtrans_cli.commands.parse import Parsing
from probtrans_cli.data.blocks import Block
from probtrans_cli.data.processes import FEWER, Pool
from probtrans_cli.folders.job import Job


def attempted(request: BulkRequest, job: Job, blocks: Sequence[Block], missing: Sequence[int]) -> Iterator[int]:
    """Try the blocks that are missing; yields each of them once it is done or has failed.

    Raises:
        ProbtransError: what every worker says that cannot begin.
        OSError: the folder cannot be written.
    """

    def died(number: int, how: str) -> None:
        if not job.is_done(number):
            job.fail(number, f"the process {how}\nblock {number}: {blocks[number - 1]}\n-> {FEWER}")

    for number, _ in Pool(request.workers, begin, (request, job, blocks), died).each(missing):
        yield number


def begin(request: BulkRequest, job: Job, blocks: Sequence[Block]) -> Callable[[int], None]:
    """In a worker: load the model; returns what does a block."""
    parsing = Parsing.of(request.parse)
    return lambda number: attempt(parsing, job, number, blocks[number - 1])
