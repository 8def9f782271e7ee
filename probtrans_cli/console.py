"""Output for people: logs on stderr, results on stdout. A bar only where stderr is a terminal; colours only where
`parse` draws on one. Results for people fit in the terminal, or in 80 columns where there is none.

All text is made safe here (:func:`probtrans_cli.text.harmless`), so that no caller can forget.

The three standard streams may be closed, full, or without a reader. What cannot be written to standard output is an
error with a message. What cannot be written to standard error is lost: there is nobody to tell, and a training is worth
more than its log lines.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO

from probtrans_cli.errors import FULL, DataError, OutputError, reason, unwritten
from probtrans_cli.folders import regular
from probtrans_cli.text import columns, harmless

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from tqdm import tqdm

SILENT, QUIET, NORMAL, VERBOSE = -1, 0, 1, 2
SECONDS_BETWEEN_LINES = 15.0  # of a long work
WIDTH = 80  # columns of a report where there is no terminal


@dataclass
class Console:
    """State of the process's output: how much is printed, and which log file repeats it."""

    level: int = NORMAL
    file: TextIO | None = None
    write: Callable[..., None] = print  # tqdm's, which writes above the bars, once there has been one
    printed: set[str] = field(default_factory=set)

    def open_log(self, path: Path) -> None:
        """Repeat all further log lines, with the time of day, in the file ``path``."""
        self.close_log()
        self.file = regular.append(path)

    def repeat(self, line: str) -> None:
        if self.file is None:
            return
        try:
            self.file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
            self.file.flush()
        except OSError as error:
            name = self.file.name
            self.close_log()
            raise unwritten(name, error) from None

    def close_log(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            with suppress(OSError):  # the rest of a line for which there was an error already
                file.close()


STATE = Console()


def log(message: str, *, level: int = NORMAL) -> None:
    """Print a line on stderr (above a progress bar, if one is running) and in the run's log file."""
    line = harmless(message)
    if STATE.level >= level and sys.stderr is not None:  # without one, the line would go to stdout
        STATE.write(wrapped(line) if is_narrow(sys.stderr) else line, file=sys.stderr)
    STATE.repeat(line)


def once(message: str) -> None:
    """Print a line the first time only."""
    if message not in STATE.printed:
        STATE.printed.add(message)
        log(message)


def result(text: str) -> None:
    """Print the result of a command on stdout, unless this is a silent one of several processes."""
    if STATE.level == SILENT:
        return
    text = harmless(text)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def result_json(value: Any) -> None:
    """Print the result of a command as one line of JSON on stdout."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    result(harmless(text, escape=lambda character: json.dumps(character)[1:-1]))


def width() -> int:
    return max(get_terminal_size((WIDTH, 24)).columns, 20)


def is_narrow(stream: TextIO) -> bool:
    """Return True where lines are wrapped at :func:`width`; elsewhere, as in a log file, a message is one line."""
    return bool(os.environ.get("COLUMNS")) or stream.isatty()


def wrapped(text: str, indent: str = "  ") -> str:
    """Break the lines of a text between words where they are longer than :func:`width`; words are never cut."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = line[: len(line) - len(line.lstrip(" "))]
        if columns(line) > width():
            lines += textwrap.wrap(
                line, width(), subsequent_indent=before + indent, break_long_words=False, break_on_hyphens=False
            )
        else:
            lines.append(line)
    return "\n".join(lines)


def listed(parts: Iterable[str], before: str = "", *, between: str = ", ", indent: str = "  ") -> str:
    """Write parts one after the other as :func:`wrapped` does, without a break inside of a part."""
    whole = wrapped(before + between.join(part.replace(" ", "\xa0") for part in parts), indent)
    return whole.replace("\xa0", " ")


def render(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, left: Iterable[str] = ()
) -> str:
    """Draw a table as plain text, without colour; one that is too wide goes on below itself."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(headings, *cells, strict=True)]
    to_the_left = {0, *(index for index, heading in enumerate(headings) if heading in left)}
    gap = 3 if 1 + sum(widths) + 3 * (len(widths) - 1) <= width() else 2
    parts, used = [[0]], width()
    for index in range(1, len(widths)):
        used += gap + widths[index]
        if used > width():
            parts.append([0])
            used = 1 + widths[0] + gap + widths[index]
        parts[-1].append(index)
    lines = [] if title is None else wrapped(title).split("\n")
    for part in parts[1:] or parts:
        table = [[line[index] for index in part] for line in (headings, *cells)]
        drawn = []
        for line in table:
            padding = [" " * (widths[index] - columns(cell)) for index, cell in zip(part, line, strict=True)]
            aligned = zip(part, line, padding, strict=True)
            texts = (cell + space if index in to_the_left else space + cell for index, cell, space in aligned)
            drawn.append(" " + (" " * gap).join(texts).rstrip())
        rule = " " + "─" * (sum(widths[index] + gap for index in part) - gap)
        lines += [drawn[0], rule, *drawn[1:]]
    return "\n".join(line.rstrip() for line in lines if line.strip()) + "\n"


def _bar(**options: Any) -> tqdm[Any]:
    from tqdm import tqdm  # noqa: PLC0415  (takes time)

    STATE.write = tqdm.write
    tqdm.monitor_interval = 0  # its thread is of no use here, and starting it swallows what a signal raises
    hidden = True if STATE.level < NORMAL else None  # None: where stderr is no terminal
    size: dict[str, Any] = {"ncols": width(), "nrows": 24}
    with suppress(OSError):  # stderr is no terminal; and some, as in containers, say that they have 0 columns
        if not os.environ.get("COLUMNS") and os.get_terminal_size(STDERR).columns > 0:
            size = {"dynamic_ncols": True}
    return tqdm(**options, **size, file=sys.stderr, disable=hidden, leave=False)


def duration(seconds: float) -> str:
    """Write a time as h:mm:ss, or m:ss below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class Progress:
    """Progress of a whole training: a bar with words/s and the time left on a terminal, plain lines otherwise."""

    bar: tqdm[Any] | None = None

    def begin(self, total: int, done: int, title: str) -> None:
        """Begin an epoch of a training of about ``total`` updates, ``done`` of which have been made."""
        if self.bar is not None:
            self.bar.set_description(title)
            return
        form = "{desc}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt}, {remaining} left{postfix}"
        self.bar = _bar(total=total, initial=done, desc=f"{title}: ", bar_format=form)

    def advance(self, text: str) -> None:
        """Count an update, and show ``text`` behind the bar."""
        if self.bar is not None:
            self.bar.update(1)
            self.bar.set_postfix_str(text, refresh=False)

    def line(self, text: str) -> None:
        """Print a line where there is no bar."""
        if self.bar is None or self.bar.disable:
            log(text)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class Work:
    """Progress of a long work, with the time left: a bar on a terminal, else a line now and then."""

    def __init__(self, size: int, title: str) -> None:
        """``size``: bytes of the work; ``title``: its name."""
        self.size, self.title, self.done = size, title, 0
        self.began = self.reported = time.monotonic()
        self.bar = _bar(total=size, desc=title, unit="B", unit_scale=True)

    def advance(self, size: int) -> None:
        """Count ``size`` bytes more as done."""
        self.done += size
        self.bar.update(size)
        now = time.monotonic()
        if self.bar.disable and now - self.reported >= SECONDS_BETWEEN_LINES and self.done:
            self.reported = now
            left = duration((now - self.began) * (self.size - self.done) / self.done)
            log(f"{self.title}: {self.done / max(self.size, 1):.0%}, about {left} left")

    def end(self) -> None:
        self.bar.close()


# --- the standard streams ---------------------------------------------------------------------------------------------

STDIN, STDOUT, STDERR = 0, 1, 2


def set_up() -> None:
    """Give the process its standard streams: in UTF-8 whatever the locale, and there even where they were closed."""
    for descriptor, mode in ((STDIN, os.O_WRONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, mode)  # the lowest number that is free
            assert nowhere == descriptor, "the streams before it are open"
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(STDIN, closefd=False)))
    results, logs = (io.BufferedWriter(_Stream(descriptor, "w", closefd=False)) for descriptor in (STDOUT, STDERR))
    sys.stdout = io.TextIOWrapper(results, encoding="utf-8", errors="strict", line_buffering=os.isatty(STDOUT))
    sys.stderr = io.TextIOWrapper(logs, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class _Stream(io.FileIO):
    """The end of a stream that writes to a descriptor, stdout or stderr."""

    def write(self, data: ReadableBuffer) -> int:
        descriptor = self.fileno()
        while True:
            try:
                return os.write(descriptor, data)
            except BlockingIOError:  # another process has set the terminal so
                select.select([], [descriptor], [])
            except OSError as error:
                # What is still written goes nowhere: Python writes the rest of it when the process ends.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
                if descriptor == STDERR:
                    return memoryview(data).nbytes
                if isinstance(error, BrokenPipeError):  # the reader has enough
                    raise
                hint = "write to a file on another disk, or into a pipe"
                fault = OutputError(f"standard output cannot be written: {reason(error)}", hint=hint)
                if error.errno in FULL:  # a full disk has one exit code, whatever was to be written there
                    fault.exit_code = DataError.exit_code
                raise fault from None
