"""Output for people: logs on stderr, results on stdout. A bar only where stderr is a terminal; colours only where
`parse` draws on one.

All text is made safe here (:func:`probtrans_cli.text.harmless`), so that no caller can forget.
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
SECONDS_BETWEEN_LINES = 15.0  # of a long work


class Console:
    """State of the process's output: how much is printed, and which log file repeats it."""

    def __init__(self) -> None:
        self.level = NORMAL
        self.file: TextIO | None = None
        self.printed: set[str] = set()

    def open_log(self, path: Path) -> None:
        """Repeat all further log lines, with the time of day, in the file ``path``.

        Raises:
            IrregularFileError: it is a link, for example.
        """
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
    if STATE.level >= level and sys.stderr is not None:  # without one, tqdm would write to stdout
        tqdm.write(line, file=sys.stderr)
    STATE.repeat(line)


def once(message: str) -> None:
    """Print a line the first time only."""
    if message not in STATE.printed:
        STATE.printed.add(message)
        log(message)


def detail(message: str) -> None:
    log(message, level=VERBOSE)


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


def render(columns: Iterable[str], rows: Iterable[Iterable[object]], *, title: str | None = None) -> str:
    """Draw a table as plain text, without colour: the first column to the left, the rest to the right."""
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
    """Return True if a terminal may get colours: not where `NO_COLOR` is set, nor where it has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _bar(**options: Any) -> tqdm[Any]:
    hidden = True if STATE.level < NORMAL else None  # None: where stderr is no terminal
    return tqdm(**options, file=sys.stderr, disable=hidden, leave=False, dynamic_ncols=True)


class Progress:
    """Progress of a training: a bar with words/s and time left on a terminal, plain lines otherwise."""

    def __init__(self, *, every: int) -> None:
        self.every = every
        self.bar: tqdm[Any] | None = None

    def begin(self, total: int, done: int, title: str) -> None:
        """Begin an epoch of a training of about ``total`` updates, ``done`` of which have been made."""
        if self.bar is not None:
            self.bar.set_description(title)
            return
        self.bar = _bar(total=total, initial=done, desc=title, unit="step")

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
            minutes, seconds = divmod(round((now - self.began) * (self.size - self.done) / self.done), 60)
            left = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
            log(f"{self.title}: {self.done / max(self.size, 1):.0%}, about {left} left")

    def end(self) -> None:
        """Remove the bar."""
        self.bar.close()


def result_renderable(value: Any) -> None:
    """Print a rich renderable on stdout, as wide as the terminal and without colour."""
    from io import StringIO  # noqa: PLC0415

    from rich.console import Console as RichConsole  # noqa: PLC0415

    buffer = StringIO()
    width = get_terminal_size().columns if sys.stdout.isatty() else 120
    RichConsole(file=buffer, width=width, color_system=None, highlight=False).print(value)
    result(buffer.getvalue())
