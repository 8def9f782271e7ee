"""The verb `parse` in bulk: a job of blocks in a folder, done by processes that know nothing of each other.

There is one loop: do the blocks of a share that have no marker. A process of a job array does it, a rerun does it, and
so does each of `--workers N`, to whom the blocks of the share are handed out one at a time. Which blocks there are
follows from the sizes of the inputs; see :mod:`probtrans_cli.data.blocks` and :mod:`probtrans_cli.folders.job`.
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.commands.parse import COUNTS, ParseRequest, Parsing, safe, unread_in_words
from probtrans_cli.data.blocks import Block, Ends, Version, checksum, cut, in_file, lines_of, require_unchanged
from probtrans_cli.data.files import display_name, require_output
from probtrans_cli.data.processes import FEWER, Pool
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.streams import LARGEST_CHUNK, appearances, form_of, located, sentences_of
from probtrans_cli.errors import CheckpointError, DataError, ProbtransError, UsageError, reason
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import SUMS, json_object, locate
from probtrans_cli.folders.job import FAILED, JOB, Job
from probtrans_cli.text import counted, first_of, printable
from probtrans_cli.trained.formats import FORMATS
from probtrans_cli.version import __version__

FORMAT = 4  # of a job's folder
_ABOUT_THE_MODEL = ("training/", "eval.json", "README.md")  # what a checkpoint has beside the model
WARNING = "warning"
"""The key of a block's marker with the warning of the first sentence that was too long."""
BLOCKS, SMALLEST, LARGEST = 64, 64 << 10, 4 << 20
"""A job is cut into this many blocks, so that several workers have something to do, of bytes within these limits: half
a second to half a minute of work or so, which is what a kill costs."""


@dataclass(frozen=True)
class BulkRequest:
    """The arguments of `parse --output-dir`."""

    parse: ParseRequest
    folder: Path
    workers: int = 1
    shard: str | None = None
    merge: bool = False
    block_bytes: int | None = None


def parse_in_bulk(request: BulkRequest) -> None:
    """Do a share of a job, as far as it is not done; or put the results of the whole job together.

    Raises:
        UsageError: options that do not go together, or a folder that holds something else.
        DataError: an input is missing; blocks have failed, which are named in the folder; or some are missing where
            they are to be put together.
        CheckpointError: as its reader.
    """
    _refuse(request)
    first, of = share_of(request.shard)
    request = replace(request, parse=replace(request.parse, files=located(request.parse.files)))
    versions = []
    for name in request.parse.files:
        try:
            if not Path(name).is_file():
                kind = "is a folder" if Path(name).is_dir() else "there is no such file"
                hint = "--output-dir reads files; several are named one by one, or by *"
                raise DataError(f"{name}: {kind}", hint=hint)
            versions.append(Version.of(name))
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise DataError(f"{name}: cannot be read: {why}", hint="check the path") from None
    inputs = list(zip(request.parse.files, versions, strict=True))
    size = request.block_bytes or min(max(sum(file.size for file in versions) // BLOCKS, SMALLEST), LARGEST)
    request = replace(request, block_bytes=size)
    blocks = [block for name, file in inputs for block in cut(name, file.size, size, file)]
    # By its own folder: `best` may be another one when a worker starts, or a process of another share.
    pinned = replace(request.parse, checkpoint=str(locate(request.parse.checkpoint)))
    if pinned.coordination is not None:
        pinned = replace(pinned, coordination=str(locate(pinned.coordination)))
    request = replace(request, parse=replace(pinned, threads=1))
    if request.merge:
        _merge(request, Job.of(request.folder, pinned.format, identity(request, versions)), blocks)
        return
    parsing: Parsing | None = None
    if not (request.folder / JOB).exists():
        parsing = Parsing(request.parse)  # what the model refuses is no job
        parsing.tell_of_arcs()
    for warning in appearances(request.parse.files, request.parse.input_form):
        console.log(warning)
    with atomic.faults_of(request.folder, "--output-dir", kept="blocks that are done stay"):
        job = Job.begin(request.folder, pinned.format, identity(request, versions))
        share = range(first, len(blocks) + 1, of)
        _do(request, job, blocks, share, parsing)


def share_of(shard: str | None) -> tuple[int, int]:
    """Return I and N of ``I/N``; 1 and 1 of None."""
    share = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", shard or "1/1")
    if share is None or not 1 <= int(share[1]) <= int(share[2]):
        raise UsageError(f"--shard {shard}: not a share", hint="I/N, where I is 1 to N; for example --shard 3/64")
    return int(share[1]), int(share[2])


def identity(request: BulkRequest, versions: Sequence[Version]) -> dict[str, Any]:
    """Return all that the results of a job depend on, as JSON values; ``versions``: of its inputs.

    Times of inputs are not among it: on another file system a file has another one.
    """
    parse = request.parse
    elsewhere = {"checkpoint", "coordination", "files", "folder", "output", "threads"}
    return {
        "format": FORMAT,
        "version": __version__,
        "checkpoint": model_sum(Path(parse.checkpoint)),
        "coordination": None if parse.coordination is None else model_sum(Path(parse.coordination)),
        "options": {name: value for name, value in asdict(parse).items() if name not in elsewhere},
        "block_bytes": request.block_bytes,
        "inputs": [{"name": name, "bytes": file.size} for name, file in zip(parse.files, versions, strict=True)],
        "named": {"checkpoint": parse.checkpoint, "coordination": parse.coordination},
    }


def model_sum(folder: Path) -> str:
    """Return a sha256 of the checksums of the files that make a checkpoint's model."""
    try:
        lines = regular.read_text(folder / SUMS).splitlines()
    except (OSError, ValueError):
        raise CheckpointError(f"{folder / SUMS}: missing or unreadable: not a checkpoint, or a damaged one") from None
    kept = sorted(line for line in lines if not line.partition("  ")[2].startswith(_ABOUT_THE_MODEL))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def _refuse(request: BulkRequest) -> None:
    parse, form = request.parse, FORMATS[request.parse.format]
    if form.whole is not None:
        formats = ", ".join(name for name, row in FORMATS.items() if row.whole is None)
        message = f"parsing in bulk does not go with -f {form.name}, which is {form.whole}"
        pictures = "--output-dir alone, without the options of bulk" if form.write_folder else "leave out --output-dir"
        raise UsageError(message, hint=f"use one of {formats}, or {pictures}")
    if not parse.files or "-" in parse.files:
        message = "--output-dir needs files: standard input cannot be read again"
        raise UsageError(message, hint="write it into a file first")
    if parse.threads is not None:
        message = "--threads does not go with --output-dir: every worker has one thread"
        raise UsageError(message, hint="give --workers N for N processors")
    if request.merge and (request.workers > 1 or request.shard):
        raise UsageError("--merge does not go with --workers and --shard", hint="it only puts together what is done")
    if parse.output is not None and not request.merge:
        raise UsageError("-o does not go with --output-dir", hint="give it with --merge, once all blocks are done")


# --- the loop ---------------------------------------------------------------------------------------------------------


def _do(request: BulkRequest, job: Job, blocks: Sequence[Block], share: Sequence[int], parsing: Parsing | None) -> None:
    done = job.done()
    of_share = sorted(done.intersection(share))
    for number in [number for number in of_share if not is_current(job, number, blocks[number - 1])]:
        console.log(f"block {number} is done again: {blocks[number - 1]} has changed since")
        job.marker(number).unlink(missing_ok=True)
        done.remove(number)
    missing = [number for number in share if number not in done]
    failed: list[int] = []
    if missing:
        done_before = len(share) - len(missing)
        are = "is" if done_before == 1 else "are"
        console.log(f"{job.folder}: {counted(len(missing), 'block')} to do, {done_before:,} of this share {are} done")
        names = Counter(str(Path(name).resolve()) for name in request.parse.files)
        if repeated := [name for name, times in names.items() if times > 1]:
            console.log(f"named more than once, so parsed as often: {first_of(repeated)}")
        unread: Counter[str] = Counter()
        work = console.Work(sum(blocks[number - 1].size for number in missing), "parsing")
        for number in _attempted(parsing or Parsing(request.parse), request, job, blocks, missing):
            work.advance(blocks[number - 1].size)
            if job.is_done(number):
                about = json_object(job.marker(number))
                if WARNING in about and not unread["long"]:
                    console.log(str(about[WARNING]))
                unread.update({name: about.get(name, 0) for name in COUNTS})
            else:
                failed.append(number)
                console.log(f"block {number} failed: {_block_and_error(job, number, blocks[number - 1])}")
        work.end()
        for line in unread_in_words(unread):
            console.log(line)
    if failed:
        numbers = first_of([str(number) for number in failed])
        message = f"{len(failed):,} of {counted(len(share), 'block')} failed: {numbers}"
        again = "the same command tries them again, and only them, while the files keep their sizes"
        raise DataError(message, hint=f"{job.folder / FAILED} says why; {again}")
    finished = len(job.done() & set(range(1, len(blocks) + 1)))
    rest = "put them together with --merge" if finished == len(blocks) else "the others are of other shares"
    are = "is" if finished == 1 else "are"
    console.log(f"{job.folder}: {finished:,} of {counted(len(blocks), 'block')} {are} done; {rest}")


def _attempted(
    parsing: Parsing, request: BulkRequest, job: Job, blocks: Sequence[Block], missing: Sequence[int]
) -> Iterator[int]:
    # Yields each of the missing blocks once it is done or has failed, or another process has done it in the meantime.
    if request.workers == 1:
        for number in missing:
            attempt(parsing, job, number, blocks[number - 1])
            yield number
        return

    def died(number: int, how: str) -> None:
        if not job.is_done(number):
            job.fail(number, f"the process {how}\nblock {number}: {blocks[number - 1]}\n-> {FEWER}")

    # A process with many threads parses more slowly than many processes with one: sentences are short. They get the
    # number of a block at a time, so that none waits for another at the end; a new one replaces one that dies.
    forked = parsing.model.machine.device.type == "cpu"
    arguments = (parsing if forked else request.parse, job, blocks)
    for number, _ in Pool(request.workers, begin, arguments, died, forked=forked).each(missing):
        yield number


def begin(parsing: Parsing | ParseRequest, job: Job, blocks: Sequence[Block]) -> Callable[[int], None]:
    parsing = Parsing(parsing) if isinstance(parsing, ParseRequest) else parsing
    return lambda number: attempt(parsing, job, number, blocks[number - 1])


# --- a block ----------------------------------------------------------------------------------------------------------


def attempt(parsing: Parsing, job: Job, number: int, block: Block) -> None:
    """Do a block unless it is done; where it fails, note that in the folder."""
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
    return {"input": block.path, "begin": block.begin, "end": block.end}


def is_current(job: Job, number: int, block: Block) -> bool:
    """Return whether a block that is done was made of what its input holds now.

    The time of the input is believed. Where it is another one, as of a copy, the bytes are compared.
    """
    job.require_own(number, part_of(block))
    about = json_object(job.marker(number))
    now = block.file
    if not about or now is None:
        return False
    if (about.get("input_bytes"), about.get("modified")) == (now.size, now.modified):
        return True
    return bool(about.get("content") == checksum(block, _ends(about.get("form"))))


def _ends(form: Any) -> Ends:
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
        unread: Counter[str] = Counter()
        sentences = parsing.marked(
            sentences_of(lines_of(block, ends), name, form, parsing.refused, split=parsing.splits),
            unread,
            lambda message: about.update({WARNING: in_file(block, ends, message)}),
        )
        while portion := list(islice(sentences, LARGEST_CHUNK)):
            about["sentences"] += len(portion)
            yield portion
        about.update(unread)

    try:
        with job.writing(number, about) as file:
            file.writelines(resolve_name(parsing.form.write)(parsing.results(portions()), parsing.display))
            require_unchanged(block)  # what was read is what was planned for
    except DataError as error:
        require_unchanged(block)  # else a fault of half a file is told
        raise DataError(in_file(block, ends, error.message), hint=error.hint) from None


# --- the whole --------------------------------------------------------------------------------------------------------


def _merge(request: BulkRequest, job: Job, blocks: Sequence[Block]) -> None:
    done = job.done()
    missing = [number for number in range(1, len(blocks) + 1) if number not in done]
    if missing:
        faults = "; ".join(f"{number} ({_block_and_error(job, number, blocks[number - 1])})" for number in missing)
        are = "is" if len(missing) == 1 else "are"
        message = f"{job.folder}: {len(missing):,} of {counted(len(blocks), 'block')} {are} missing: {faults}"
        raise DataError(message, hint="run the same command without --merge: it does them, and only them")
    changed = [
        f"{number} ({block})" for number, block in enumerate(blocks, start=1) if not is_current(job, number, block)
    ]
    if changed:
        message = f"{job.folder}: inputs have changed since these blocks were done: {'; '.join(changed)}"
        raise DataError(
            message, hint="put the inputs back, or run the same command without --merge: it does them again"
        )
    pieces = (piece for number in range(1, len(blocks) + 1) for piece in job.content(number))
    output = request.parse.output
    require_output(output, "-o")
    if output is None and sys.stdout.isatty():
        rest = b""
        for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            sys.stdout.writelines(safe(line.decode("utf-8") + "\n", coloured=False) for line in lines)
        sys.stdout.write(safe(rest.decode("utf-8"), coloured=False))
        return
    with atomic.output_of(output, "-o") as file:
        file.flush()
        for piece in pieces:
            file.buffer.write(piece)


def _block_and_error(job: Job, number: int, block: Block) -> str:
    why = job.why(number)
    if why is None:
        return str(block)
    return why if why.startswith(printable(display_name(block.path), 400)) else f"{block}: {why}"
