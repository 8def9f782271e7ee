"""The verb `parse`: sentences in, the trees that a model sees in them out, in input order, as they are done."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import TextIO

from probtrans_cli.data.files import display_name, open_lines
from probtrans_cli.data.readers import format_of
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.readers.text import read_text
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import tokenize
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.trained.formats import Form, Look, only_svg, pieces, svg_files
from probtrans_cli.trained.latent_labels import require_labels
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Tree, analysed, parsed
from probtrans_cli.trees import decode
from probtrans_cli.trees.drawing.html import page

# Sentences read before a batch is parsed: few at first, so that an answer comes soon, then more, for speed.
FIRST_CHUNK, LARGEST_CHUNK = 8, 512
LOOKED_AT = 100  # lines, to tell CoNLL-U from text
COLUMN_TABS = 9  # between the columns of CoNLL-U
_COMMENT = re.compile(r"#\s*(sent_id\s*=|text\s*=|newdoc\b|newpar\b|global\.columns\s*=)")
PARTIAL = ".partial"  # end of the name of a file that is being written
PATIENCE = 0.1  # seconds without input from a pipe or a keyboard, after which what has come is parsed


def parse(
    name: str,
    files: Sequence[str],
    *,
    form: Form,
    input_form: str,
    channel: str | None,
    iteration: int | None,
    decoder: decode.Method | None,
    probability: bool,
    gold: bool,
    labels: int | None,
    longest: int,
    output: Path | None,
    threads: int | None,
) -> None:
    """Parse files (`-` is stdin) and write the trees in a format to stdout or to ``output``.

    ``gold``: also the trees that the input has. ``labels``: also this many of every word's most probable latent labels.
    ``longest``: words a sentence may have, and tokens where words are divided into such.

    Raises:
        UsageError: options that do not go together.
        DataError, CheckpointError: as their readers do.
    """
    if form == "conllu" and (channel == "all" or gold):
        hint = "give --channel K, or use -f jsonl or -f tree" if channel == "all" else "use another format"
        raise UsageError("CoNLL-U holds one tree a sentence", hint=hint)
    if form == "html" and labels is not None:
        raise UsageError("--labels: the page has no room for them", hint="use another format")
    model = Model.load(name, threads=threads)
    if labels is not None:
        require_labels(model)
    every = channel == "all" and form != "html"  # the page has all channels anyway
    if every:
        readings = [model.read(str(one), iteration, decoder) for one in range(model.recipe.model.channels)]
    else:
        readings = [model.read(None if channel == "all" else channel, iteration, decoder)]
    last = model.recipe.model.iterations
    readings = [replace(one, iteration=last) if one.iteration == -1 else one for one in readings]
    look = Look(probability=probability, gold=gold, several=every)
    given = (sentence for file in files for sentence in read(file, input_form))
    sentences = not_too_long(given, longest, model.vocabulary)
    patience = PATIENCE if "-" in files and not sys.stdin.seekable() else None
    portions = chunks(sentences, patience)

    def trees(portions: Iterable[Sequence[Sentence]]) -> Iterator[Tree]:
        return (tree for portion in portions for tree in parsed(model, portion, readings, labels))

    with writing(output):
        if form == "svg" and output is not None and (output.is_dir() or output.suffix == ""):
            svg_files(trees(portions), output, look)
            return
        with nullcontext(sys.stdout) if output is None else replacing(output) as file:
            portions = flushing(portions, file)
            if form == "svg":
                file.write(only_svg(trees(portions), look))
            elif form == "html":
                seen = (analysed(model, portion, readings[0], gold=gold, strict=True) for portion in portions)
                file.writelines(page(chain.from_iterable(seen), title=f"Trees of {model.recipe.name}"))
            else:
                file.writelines(pieces(form, trees(portions), look))


@contextmanager
def writing(output: Path | None) -> Iterator[None]:
    """Within: a file that cannot be written (no such folder, a full disk) is the user's matter, with its name."""
    try:
        yield
    except OSError as error:
        if output is None:
            raise
        name = output if str(error.filename or "").endswith(PARTIAL) else error.filename or output
        raise UsageError(f"{name}: cannot be written: {error.strerror}", hint="choose another -o") from None


@contextmanager
def replacing(output: Path) -> Iterator[TextIO]:
    """A file that takes the place of ``output`` once it is complete: a failure leaves the old one, so may the input."""
    if output.exists() and not output.is_file():  # a device or a named pipe
        with output.open("w", encoding="utf-8") as file:
            yield file
        return
    partial = output.with_name(f".{output.name}{PARTIAL}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def flushing(portions: Iterable[list[Sentence]], file: TextIO) -> Iterator[list[Sentence]]:
    """The same portions; what was written of one is sent off before the next one is waited for."""
    for portion in portions:
        yield portion
        file.flush()


def read(path: str, input_form: str) -> Iterator[Sentence]:
    """The sentences of a file; an empty line of text is an empty sentence."""
    lines = open_lines(path)
    if input_form == "auto":
        looks, lines = (True, lines) if format_of(path) == "conllu" else look_ahead(lines)
        input_form = "conllu" if looks else "text"
    name = display_name(path)
    if input_form == "conllu":
        yield from read_conllu(lines, name)
    elif input_form == "tokens":
        yield from read_text(lines, name, keep_empty=True)
    else:
        for number, line in enumerate(lines, start=1):
            yield Sentence(tokenize(line), text=line, where=f"{name}:{number}")


def not_too_long(sentences: Iterable[Sentence], longest: int, vocabulary: Vocabulary) -> Iterator[Sentence]:
    """The same sentences: none has more words, or more tokens of ``vocabulary``, than ``longest``.

    Raises:
        DataError: one is so long that it would exhaust memory or patience.
    """
    for sentence in sentences:
        number, what = len(sentence.words), "words"
        # No more tokens than characters, and two around them: hardly a sentence is divided here already.
        if number <= longest < sum(map(len, sentence.words)) + 2 and vocabulary.divides:
            number, what = len(vocabulary.encode_words(sentence.words).ids), "tokens"
        if number > longest:
            raise DataError(
                f"{sentence.where}: a sentence of {number:,} {what}, more than {longest:,}",
                hint=f"split it, or allow it with --longest {number}; memory grows with the square, and "
                "time, with --decode eisner, with the cube of its length",
            )
        yield sentence


def look_ahead(lines: Iterator[str]) -> tuple[bool, Iterator[str]]:
    """Whether lines look like CoNLL-U, and all of them.

    A comment that UD knows says so; behind blank lines and any other `#`, which text may begin with, the first line's
    columns do.
    """
    seen: list[str] = []
    for line in islice(lines, LOOKED_AT):
        seen.append(line)
        if _COMMENT.match(line) or (line.strip() and line[0] != "#"):
            break
    looks = bool(seen) and (seen[-1].count("\t") == COLUMN_TABS or _COMMENT.match(seen[-1]) is not None)
    return looks, chain(seen, lines)


def chunks(sentences: Iterable[Sentence], patience: float | None = None) -> Iterator[list[Sentence]]:
    """Portions of growing size, read ahead in a thread while the portion before is in use.

    ``patience``: a portion also ends where no sentence comes for so many seconds; None waits. An error of the reader is
    raised behind the sentences before it.
    """
    ahead: Queue[Sentence | Exception | None] = Queue(LARGEST_CHUNK)
    stopped = Event()

    def read_ahead() -> None:
        try:
            for sentence in sentences:
                ahead.put(sentence)
                if stopped.is_set():
                    return
            ahead.put(None)
        except Exception as error:  # whatever it is, the main thread raises it
            ahead.put(error)

    Thread(target=read_ahead, daemon=True).start()
    size = FIRST_CHUNK
    try:
        while True:
            chunk: list[Sentence] = []
            end: Sentence | Exception | None = None
            while len(chunk) < size:
                try:
                    end = ahead.get(timeout=patience if chunk else None)
                except Empty:
                    break
                if not isinstance(end, Sentence):
                    break
                chunk.append(end)
            if chunk:
                yield chunk
            if isinstance(end, Exception):
                raise end
            if end is None:
                return
            size = min(2 * size, LARGEST_CHUNK)
    finally:
        stopped.set()
        while not ahead.empty():  # the reader may wait for room
            ahead.get()
