"""The verb `convert`: files of tuples or of coordinations, in the form that another program reads."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.tally import RowCounts
from probtrans_cli.data.files import display_name, find, open_lines, require_output
from probtrans_cli.data.sentence import MOST_ROWS
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.openie.coordination_files import read_coordinated
from probtrans_cli.openie.corpora import places_of, read_file
from probtrans_cli.openie.label_rows import GridFormat, grid_format
from probtrans_cli.openie.writing import LEAST_LEVELS, WRITTEN, FileSentence, FileTuple, WrittenForm, WrittenName
from probtrans_cli.recipe.data import Data, Grid
from probtrans_cli.text import harmless

UNITS: dict[GridFormat, str] = {"extractions": "tuples", "coordinations": "coordinations"}
"""What files of each format have, in messages."""


@dataclass(frozen=True)
class ConvertRequest:
    """The arguments of `convert`."""

    form: WrittenName
    files: Sequence[str] = ()
    format: GridFormat | None = None
    rows: int | None = None
    fix_lengths: bool = False
    output: Path | None = None


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
    require_output(request.output, "-o", request.files)
    form, inputs = WRITTEN[request.form], []
    for name in request.files or ["-"]:
        detected, content = grid_format(open_lines(find(name, once=True)))
        if detected is None:
            raise DataError(f"{display_name(name)}: there is no sentence in it", hint="check the file")
        inputs.append(_Input(display_name(name), request.format or detected, content))
    first = inputs[0]
    for source in inputs:
        if source.format != first.format:
            message = f"{first.name} has {UNITS[first.format]}, {source.name} has {UNITS[source.format]}"
            raise UsageError(message, hint="convert them one by one; --from says what a file has")
    writer = "tuples" if first.format == "extractions" else "coordinations"
    if getattr(form, writer) is None:
        possible = [f"--to {row.name}" for row in WRITTEN.values() if getattr(row, writer) is not None]
        second = next(name for name in UNITS if name != first.format)
        hint = f"{', '.join(possible)} are possible; if the file has {UNITS[second]}, say --from {second}"
        raise UsageError(f"{first.name}: has {UNITS[first.format]}, which --to {form.name} has no place for", hint=hint)
    reports = []
    with atomic.output_of(request.output, "-o") as file:
        shown = request.output is None and file.isatty()  # in a file or a pipe, words keep their bytes
        for source in inputs:
            counts = RowCounts()
            grid = Grid(rows=request.rows or MOST_ROWS, fix_lengths=request.fix_lengths)
            data = Data(train=source.name, format=source.format, grid=grid)
            lines = (_tuples if source.format == "extractions" else _coordinations)(source, data, request, counts)
            file.writelines(harmless(line, keep="\t") + "\n" if shown else line + "\n" for line in lines)
            if not counts.sentences:
                raise DataError(f"{source.name}: there is no sentence in it", hint="check the file")
            left_out = "" if form.every_sentence else " are left out"
            reports.append(counts.report(source.name, UNITS[source.format], grid.rows, left_out))
    for line in reports:
        console.log(line)


# --- what is written --------------------------------------------------------------------------------------------------


def _tuples(file: _Input, data: Data, request: ConvertRequest, counts: RowCounts) -> Iterator[str]:
    form = WRITTEN[request.form]
    assert form.tuples is not None, "others are refused"
    for sentence in read_file(file.lines, file.name, data):
        kept: list[FileTuple] = []
        if form.by_words:
            kept = _placed(sentence, form, data.extra_words, request.rows)
        else:
            for each in sentence.tuples:
                reason = "kept" if all(each.texts[:2]) and len(each.texts) > 1 else "incomplete"
                reason = "too many" if reason == "kept" and len(kept) == request.rows else reason
                sentence.counts[reason] += 1
                if reason == "kept":
                    kept.append(each)
        counts.add(sentence.counts, has_rows=bool(kept))
        if kept or form.every_sentence:
            yield from form.tuples(replace(sentence, tuples=kept), data.extra_words)


def _placed(sentence: FileSentence, form: WrittenForm, names: Sequence[str], rows: int | None) -> list[FileTuple]:
    kept: list[FileTuple] = []
    heads: set[int] = set()  # the first words of relations
    for each, place in zip(sentence.tuples, places_of(sentence, names, rows), strict=True):
        if place is None:
            continue
        reason = None  # why the form cannot hold it although its words are known
        if form.no_added and place.added:
            reason = "with a word that the sentence lacks"
        elif not form.same_head and place.relation[0] in heads:
            reason = "of a predicate that has one"
        if reason is not None:
            sentence.counts["kept"] -= 1
            sentence.counts[reason] += 1
            continue
        heads.update(place.relation[:1])
        kept.append(replace(each, place=place))
    return kept


def _coordinations(file: _Input, data: Data, request: ConvertRequest, counts: RowCounts) -> Iterator[str]:
    form = WRITTEN[request.form]
    assert form.coordinations is not None, "others are refused"
    for sentence in read_coordinated(file.lines, file.name, data):
        rows = sentence.grid or []
        if request.rows is None:  # up to the last level with a label
            rows = rows[: max([LEAST_LEVELS, *(i for i, row in enumerate(rows, start=1) if any(row))])]
        lines = form.coordinations(sentence.words, rows)
        there = Counter(sentence.counts)
        if not lines and "kept" in there:
            there["in a sentence whose words are tags"] = there.pop("kept")
        counts.add(there, has_rows=any(map(any, rows)))
        yield from lines
