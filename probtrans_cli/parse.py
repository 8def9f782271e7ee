"""The verb `parse`: sentences in, the trees that a model sees in them out, in input order, as they are done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import TextIO

import numpy as np

from probtrans_cli.data.conllu import read_conllu, with_heads
from probtrans_cli.data.readers import display_name, format_of, open_lines, read_text
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.store import Split
from probtrans_cli.data.tokens import tokenize
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.labels import as_misc, as_notes, as_records, most_probable, require_labels
from probtrans_cli.model import Model, Reading
from probtrans_cli.trees import decode
from probtrans_cli.trees.draw import Arc, Drawing, json_line, svg, terminal

# Sentences read before a batch is parsed: few at first, so that an answer comes soon, then more, for speed.
FIRST_CHUNK, LARGEST_CHUNK = 8, 512
PATIENCE = 0.1  # seconds without input from a pipe or a keyboard, after which what has come is parsed


@dataclass(frozen=True)
class Tree:
    """A parsed sentence: ``heads`` [n] (0 = root, 1..n) and ``probabilities`` [n] of these arcs, NaN where not known.

    ``labels``: numbers [n, k] and probabilities [n, k] of each word's most probable latent labels, where asked for.
    """

    sentence: Sentence
    heads: np.ndarray
    probabilities: np.ndarray
    reading: Reading
    labels: tuple[np.ndarray, np.ndarray] | None = None


def parse(
    name: str,
    files: Sequence[str],
    *,
    form: str,
    input_form: str,
    channel: str | None,
    iteration: int | None,
    decoder: decode.Method | None,
    probability: bool,
    labels: int | None,
    longest: int,
    output: Path | None,
    threads: int | None,
) -> None:
    """Parse files (`-` is stdin) and write the trees in a format to stdout or to ``output``.

    ``labels``: also this many of every word's most probable latent labels. ``longest``: words a sentence may have.

    Raises:
        UsageError: options that do not go together.
        DataError, CheckpointError: as their readers do.
    """
    if channel == "all" and form == "conllu":
        raise UsageError("CoNLL-U holds one tree a sentence", hint="give --channel K, or use -f jsonl or -f tree")
    model = Model.load(name, threads=threads)
    if labels is not None:
        require_labels(model)
    if channel == "all":
        readings = [model.read(str(one), iteration, decoder) for one in range(model.recipe.model.channels)]
    else:
        readings = [model.read(channel, iteration, decoder)]
    last = model.recipe.model.iterations
    readings = [replace(one, iteration=last) if one.iteration == -1 else one for one in readings]
    sentences = (sentence for file in files for sentence in read(file, input_form))
    patience = PATIENCE if "-" in files and not sys.stdin.seekable() else None
    portions = (parsed(model, chunk, readings, labels) for chunk in chunks(not_too_long(sentences, longest), patience))
    if form == "svg":
        with writing(output):
            write_svg((tree for portion in portions for tree in portion), output, probability=probability)
        return
    write: Callable[[Tree], str] = {
        "conllu": lambda tree: as_conllu(tree, probability=probability),
        "jsonl": as_json,
        "tree": lambda tree: as_picture(tree, probability=probability, several=len(readings) > 1),
    }[form]
    if output is None:
        write_all(portions, write, sys.stdout)
    else:
        with writing(output), replacing(output) as file:
            write_all(portions, write, file)


@contextmanager
def writing(output: Path | None) -> Iterator[None]:
    """Within: a file that cannot be written (no such folder, a full disk) is the user's matter, with its name."""
    try:
        yield
    except OSError as error:
        if output is None:
            raise
        name = error.filename or output
        raise UsageError(f"{name}: cannot be written: {error.strerror}", hint="choose another -o") from None


@contextmanager
def replacing(output: Path) -> Iterator[TextIO]:
    """A file that takes the place of ``output`` once it is complete: a failure leaves the old one, so may the input."""
    if output.exists() and not output.is_file():  # a device or a named pipe
        with output.open("w", encoding="utf-8") as file:
            yield file
        return
    partial = output.with_name(f".{output.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def write_all(portions: Iterable[Iterable[Tree]], write: Callable[[Tree], str], file: TextIO) -> None:
    """Write every portion of trees as soon as it is there."""
    for portion in portions:
        file.write("".join(write(tree) for tree in portion))
        file.flush()


def read(path: str, input_form: str) -> Iterator[Sentence]:
    """The sentences of a file; an empty line of text is an empty sentence."""
    lines = open_lines(path)
    if input_form == "auto":
        first = next(lines, None)
        if first is None:
            return
        lines = _again(first, lines)
        looks = first.startswith("#") or first.count("\t") == 9
        input_form = "conllu" if format_of(path) == "conllu" or looks else "text"
    name = display_name(path)
    if input_form == "conllu":
        yield from read_conllu(lines, name)
    elif input_form == "tokens":
        yield from read_text(lines, name, keep_empty=True)
    else:
        for number, line in enumerate(lines, start=1):
            yield Sentence(tokenize(line), where=f"{name}:{number}")


def not_too_long(sentences: Iterable[Sentence], longest: int) -> Iterator[Sentence]:
    """The same sentences.

    Raises:
        DataError: one is so long that it would exhaust memory or patience.
    """
    for sentence in sentences:
        if len(sentence.words) > longest:
            raise DataError(
                f"{sentence.where}: a sentence of {len(sentence.words):,} words, more than {longest:,}",
                hint=f"split it, or allow it with --longest {len(sentence.words)}; memory grows with the square, and "
                "time, with --decode eisner, with the cube of its length",
            )
        yield sentence


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


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


def parsed(
    model: Model, sentences: Sequence[Sentence], readings: Sequence[Reading], labels: int | None = None
) -> Iterator[Tree]:
    """The trees of some sentences, in order; for each sentence one tree per reading, with as many labels a word."""
    corpus = Split.encode(sentences, model.vocabulary, model.labels)
    empty = np.zeros(0, dtype=np.int64)
    no_labels = None if labels is None else (empty[:, None], empty[:, None].astype(float))
    trees = [
        [Tree(sentence, empty, empty.astype(float), reading, no_labels) for reading in readings]
        for sentence in sentences
    ]
    for batch, of_arcs in model.read_arcs(corpus, readings, labels=labels is not None):
        indices, mask = batch.indices, batch.mask
        best = None if labels is None else most_probable(batch.labels, labels)
        for number, (reading, scores) in enumerate(zip(readings, of_arcs, strict=True)):
            decoded = decode.decode(scores, mask, reading.decoder)
            # Column -1 is the root's, of whose arcs a model without a root knows nothing.
            chosen = np.pad(np.exp(scores), ((0, 0), (0, 0), (0, 0 if model.rooted else 1)), constant_values=np.nan)
            for row, index in enumerate(indices):
                heads = decoded[row][mask[row]]
                probabilities = chosen[row, np.arange(len(heads)), heads - 1]
                of_words = None if best is None else (best[0][row][mask[row]], best[1][row][mask[row]])
                trees[index][number] = Tree(sentences[index], heads, probabilities, reading, of_words)
    for sentence_trees in trees:
        yield from sentence_trees


def as_conllu(tree: Tree, *, probability: bool) -> str:
    """The sentence's CoNLL-U with our HEAD and DEPREL; ``probability`` adds `Prob=` to MISC.

    Labels, where the tree has them, stand in MISC as `Labels=`.
    """
    misc: list[list[str]] = [[] for _ in tree.heads]
    if probability:
        for entries, p in zip(misc, tree.probabilities, strict=True):
            entries.extend([] if np.isnan(p) else [f"Prob={p:.4f}"])
    if tree.labels is not None:
        for entries, *best in zip(misc, *tree.labels, strict=True):
            entries.append(as_misc(*best))
    lines = with_heads(tree.sentence, tree.heads.tolist(), None, ["|".join(entries) for entries in misc])
    return "\n".join([*lines, "", ""])


def as_json(tree: Tree) -> str:
    """One line of JSON."""
    reading = tree.reading
    line = json_line(
        tree.sentence.words, tree.heads.tolist(), tree.probabilities,
        channel=reading.channel, iteration=reading.iteration, decode=reading.decoder,
        extra=None if tree.labels is None else {"labels": as_records(*tree.labels)},
    )  # fmt: skip
    return line if line.endswith("\n") else line + "\n"


def drawing(tree: Tree, *, probability: bool, title: str = "") -> Drawing:
    """The tree as something to draw."""
    arcs = tuple(
        Arc(number, int(head), float(p) if probability and not np.isnan(p) else None, tree.reading.channel)
        for number, (head, p) in enumerate(zip(tree.heads, tree.probabilities, strict=True), start=1)
    )
    notes = () if tree.labels is None else as_notes(*tree.labels)
    return Drawing(tuple(tree.sentence.words), arcs, title, notes)


def as_picture(tree: Tree, *, probability: bool, several: bool) -> str:
    """The tree for a terminal."""
    title = f"channel {tree.reading.channel}\n" if several else ""
    picture = terminal(drawing(tree, probability=probability)) if tree.sentence.words else ""
    return title + picture.rstrip("\n") + "\n\n"


def write_svg(trees: Iterator[Tree], output: Path | None, *, probability: bool) -> None:
    """One SVG to stdout or a file, or one a tree into a folder."""
    if output is not None and (output.is_dir() or output.suffix == ""):
        output.mkdir(parents=True, exist_ok=True)
        number, previous = 0, None
        for tree in trees:
            number += tree.sentence is not previous
            previous = tree.sentence
            path = output / f"{number:04d}-channel-{tree.reading.channel}.svg"
            path.write_text(svg(drawing(tree, probability=probability), show_probability=probability), encoding="utf-8")
        return
    two = list(islice(trees, 2))
    if len(two) != 1:
        raise UsageError(
            "an SVG file holds one tree; the input has " + ("none" if not two else "several"),
            hint="write them into a folder: -o FOLDER" if two else "give a sentence",
        )
    text = svg(drawing(two[0], probability=probability), show_probability=probability)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
