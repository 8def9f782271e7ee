"""The verb `convert`: files of tuples or of coordinations, in the form that another program reads."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from probtrans_cli import atomic, console
from probtrans_cli.commands.streams import faults_of
from probtrans_cli.data.codecs.grids import MOST_ROWS
from probtrans_cli.data.corpus.filters import OfFile
from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.openie.coordinated import read_coordinated
from probtrans_cli.openie.corpora import places_of, read_given
from probtrans_cli.openie.extractions import Extraction
from probtrans_cli.openie.grid_format import GridFormat, grid_format
from probtrans_cli.openie.tuple_groups import GivenSentence
from probtrans_cli.openie.written_forms import (
    WRITTEN,
    SentenceWithTuples,
    WrittenForm,
    WrittenName,
    WrittenTuple,
    levels_of,
    without_what_is_refused,
)
from probtrans_cli.recipe.data import Data, Grid
from probtrans_cli.text import harmless

UNITS: dict[GridFormat, str] = {"extractions": "tuples", "coordinations": "coordinations"}
"""What files of each format have, in messages."""


@dataclass(frozen=True)
class ConvertRequest:
    """What `convert` is asked for."""

    form: WrittenName
    """A row of :data:`probtrans_cli.openie.written_forms.WRITTEN`."""
    files: Sequence[str] = ()
    """``-`` is stdin, and so is no file at all."""
    format: GridFormat | None = None
    """What the files have; None: their first lines tell it."""
    rows: int | None = None
    """The most tuples of a sentence, or levels of nested coordinations; None: all (of levels the first 20)."""
    fix_lengths: bool = False
    """Lines of tags of another length than their sentence are cut, or continued with NONE."""
    output: Path | None = None
    """The file to write; None: stdout."""


@dataclass(frozen=True)
class _Input:
    name: str
    format: GridFormat
    lines: Iterator[str]


def convert(request: ConvertRequest) -> None:
    """Write the sentences of files in another form, and say on stderr what was kept of each file, and why not all.

    Raises:
        UsageError: the form has no place for what the files have, or the output cannot be written.
        DataError: a file cannot be read, or has no sentence.
    """
    if not request.files and sys.stdin.isatty():
        console.log("reading a file of tuples or coordinations from the keyboard; end with Ctrl-D")
    form, inputs = WRITTEN[request.form], [_opened(name, request.format) for name in request.files or ["-"]]
    _require_one_content(inputs)
    for one in inputs:
        _require_a_place(one, form)
    told = []
    with (
        faults_of(request.output, "-o"),
        nullcontext(sys.stdout) if request.output is None else atomic.replacing(request.output, direct=True) as file,
    ):
        shown = request.output is None and file.isatty()  # in a file or a pipe, words keep their bytes
        for one in inputs:
            counts = OfFile()
            grid = Grid(rows=request.rows or MOST_ROWS, fix_lengths=request.fix_lengths)
            data = Data(train=one.name, format=one.format, grid=grid)
            lines = (_tuples if one.format == "extractions" else _coordinations)(one, data, request, counts)
            file.writelines(harmless(line, keep="\t") + "\n" if shown else line + "\n" for line in lines)
            if not counts.sentences:
                raise DataError(f"{one.name}: there is no sentence in it", hint="check the file")
            left_out = "" if form.every_sentence else " are left out"
            told.append(counts.told(one.name, UNITS[one.format], grid.rows, left_out))
    for line in told:
        console.log(line)


# --- the files --------------------------------------------------------------------------------------------------------


def _opened(name: str, format: GridFormat | None) -> _Input:
    """A file and what it has.

    Raises:
        DataError: it cannot be read, or has nothing.
    """
    found, lines = grid_format(open_lines(find(name, once=True)))
    if found is None:
        raise DataError(f"{display_name(name)}: there is no sentence in it", hint="check the file")
    return _Input(display_name(name), format or found, lines)


def _require_a_place(one: _Input, form: WrittenForm) -> None:
    there = {"extractions": form.tuples, "coordinations": form.coordinations}
    if there[one.format] is None:
        field = "tuples" if one.format == "extractions" else "coordinations"
        possible = [f"--to {row.name}" for row in WRITTEN.values() if getattr(row, field) is not None]
        other = next(of for of in UNITS if of != one.format)
        hint = f"{', '.join(possible)} are possible; if the file has {UNITS[other]}, say --from {other}"
        raise UsageError(f"{one.name}: has {UNITS[one.format]}, which --to {form.name} has no place for", hint=hint)


def _require_one_content(inputs: Sequence[_Input]) -> None:
    first = inputs[0]
    for other in inputs:
        if other.format != first.format:
            message = f"{first.name} has {UNITS[first.format]}, {other.name} has {UNITS[other.format]}"
            raise UsageError(message, hint="convert them one by one; --from says what a file has")


# --- what is written --------------------------------------------------------------------------------------------------


def _tuples(one: _Input, data: Data, request: ConvertRequest, counts: OfFile) -> Iterator[str]:
    form = WRITTEN[request.form]
    assert form.tuples is not None, "others are refused"
    for given in read_given(one.lines, one.name, data):
        sentence = _with_tuples(given, form, data.extra_words, request.rows)
        counts.add(given.counts, has_rows=bool(sentence.tuples))
        if sentence.tuples or form.every_sentence:
            yield from form.tuples(sentence)


def _with_tuples(given: GivenSentence, form: WrittenForm, names: Sequence[str], rows: int | None) -> SentenceWithTuples:
    """The tuples of a sentence that are written; what was kept and why not all is added to ``given.counts``."""
    upos = given.tags.get("upos")
    if form.by_words:
        places = places_of(given, names, rows)
        found = [
            WrittenTuple(one.texts, place, one.confidence) for one, place in zip(given.tuples, places, strict=True)
        ]
        return without_what_is_refused(SentenceWithTuples(given.words, found, names, upos), form, given.counts)
    found = []
    for tuple_ in given.tuples:
        reason = "kept" if all(tuple_.texts[:2]) and len(tuple_.texts) > 1 else "incomplete"
        reason = "too many" if reason == "kept" and len(found) == rows else reason
        given.counts[reason] += 1
        if reason == "kept":
            stated = tuple_.found if isinstance(tuple_.found, Extraction) else None
            found.append(WrittenTuple(tuple_.texts, stated, tuple_.confidence))
    return SentenceWithTuples(given.words, found, names, upos)


def _coordinations(one: _Input, data: Data, request: ConvertRequest, counts: OfFile) -> Iterator[str]:
    form = WRITTEN[request.form]
    assert form.coordinations is not None, "others are refused"
    for sentence in read_coordinated(one.lines, one.name, data):
        rows = sentence.grid or []
        lines = form.coordinations(sentence.words, rows if request.rows is not None else levels_of(rows))
        there = Counter(sentence.counts)
        if not lines and "kept" in there:
            there["in a sentence whose words are tags"] = there.pop("kept")
        counts.add(there, has_rows=any(map(any, rows)))
        yield from lines
