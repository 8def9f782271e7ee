"""What a person sees: logs on stderr, results on stdout. A bar only where stderr is a terminal; colours only where
`parse` draws on one.

All of it is made safe here (:func:`probtrans_cli.text.harmless`), so that no caller can forget.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, TextIO

from tqdm import tqdm

from probtrans_cli.errors import unwritten
from probtrans_cli.folders import regular
from probtrans_cli.text import harmless

SILENT, QUIET, NORMAL, VERBOSE = -1, 0, 1, 2
EVERY = 15.0  # seconds between the lines of a long work


class Console:
    """State of the process's output: how much is said, and which log file repeats it."""

    def __init__(self) -> None:
        self.level = NORMAL
        self.file: TextIO | None = None
        self.said: set[str] = set()

    def open_log(self, path: Path) -> None:
        """Repeat every further log line, with the time of day, in the file ``path``.

        Raises:
            IrregularFileError: it is a link, for example.
        """
        self.close_log()
        self.file = regular.append(path)

    def repeat(self, line: str) -> None:
        """Write a line into the log file.

        Raises:
            DataError: the disk is full, for example; nothing more is written there.
        """
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
        """Stop repeating log lines."""
        file, self.file = self.file, None
        if file is not None:
            with suppress(OSError):  # the rest of a line that was complained of
                file.close()


STATE = Console()


def log(message: str, *, level: int = NORMAL) -> None:
    """One line on stderr (above a progress bar, if one is running) and in the run's log file."""
    line = harmless(message)
    if STATE.level >= level and sys.stderr is not None:  # without one, tqdm would write to stdout
        tqdm.write(line, file=sys.stderr)
    STATE.repeat(line)


def once(message: str) -> None:
    """A line that is said once, however often it is true."""
    if message not in STATE.said:
        STATE.said.add(message)
        log(message)


def detail(message: str) -> None:
    """A line that is shown with ``--verbose`` only."""
    log(message, level=VERBOSE)


def result(text: str) -> None:
    """The result of a command: text for people on stdout; of several processes that have it, one is not silent."""
    if STATE.level == SILENT:
        return
    text = harmless(text)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def result_json(value: Any) -> None:
    """The result of a command as one line of JSON on stdout."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    result(harmless(text, escape=lambda one: json.dumps(one)[1:-1]))


def render(columns: Iterable[str], rows: Iterable[Iterable[object]], *, title: str | None = None) -> str:
    """A table as plain text: first column to the left, all others to the right. For stdout, so without colour."""
    from io import StringIO  # noqa: PLC0415

    from rich import box  # noqa: PLC0415
    from rich.console import Console as RichConsole  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    buffer = StringIO()
    RichConsole(file=buffer, width=200, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines() if line.strip()) + "\n"


def shows_colours() -> bool:
    """Whether a terminal may be sent colours: not where `NO_COLOR` is set, nor to one that has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


class Progress:
    """Progress of a training: a bar with words/s and time left on a terminal, plain lines otherwise."""

    def __init__(self, *, every: int) -> None:
        self.every = every
        self.bar: tqdm[Any] | None = None

    def begin(self, total: int, done: int, title: str) -> None:
        """A new epoch of a training of about ``total`` updates, ``done`` of which are behind us."""
        if self.bar is not None:
            self.bar.set_description(title)
            return
        hidden = True if STATE.level < NORMAL else None
        self.bar = tqdm(
            total=total, initial=done, desc=title, unit="step", file=sys.stderr, disable=hidden, leave=False,
            dynamic_ncols=True,
        )  # fmt: skip

    def advance(self, text: str) -> None:
        """One update further; ``text`` stands behind the bar."""
        if self.bar is not None:
            self.bar.update(1)
            self.bar.set_postfix_str(text, refresh=False)

    def line(self, text: str) -> None:
        """A line per logging interval where there is no bar."""
        if self.bar is None or self.bar.disable:
            log(text)

    def end(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class Work:
    """How much of a long work is done, and the time that is left: a bar on a terminal, else a line now and then."""

    def __init__(self, size: int, title: str) -> None:
        """``size``: bytes to be worked through; ``title``: what is done with them."""
        self.size, self.title, self.done = size, title, 0
        self.began = self.told = time.monotonic()
        hidden = True if STATE.level < NORMAL else None
        self.bar = tqdm(
            total=size, desc=title, unit="B", unit_scale=True, file=sys.stderr, disable=hidden, leave=False,
            dynamic_ncols=True,
        )  # fmt: skip

    def advance(self, size: int) -> None:
        """So many bytes more are done."""
        self.done += size
        self.bar.update(size)
        now = time.monotonic()
        if self.bar.disable and now - self.told >= EVERY and self.done:
            self.told = now
            left = (now - self.began) * (self.size - self.done) / self.done
            log(f"{self.title}: {self.done / max(self.size, 1):.0%}, about {duration(left)} left")

    def end(self) -> None:
        """Remove the bar."""
        self.bar.close()


def duration(seconds: float) -> str:
    """A time as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def result_renderable(value: Any) -> None:
    """The result of a command as a rich renderable on stdout, as wide as the terminal and without colour."""
    from io import StringIO  # noqa: PLC0415

    from rich.console import Console as RichConsole  # noqa: PLC0415

    buffer = StringIO()
    width = get_terminal_size().columns if sys.stdout.isatty() else 120
    RichConsole(file=buffer, width=width, color_system=None, highlight=False).print(value)
    result(buffer.getvalue())
