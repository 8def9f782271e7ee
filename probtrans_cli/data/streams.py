"""Files and pipes as sentences, and sentences as portions that are read ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread

from probtrans_cli import console
from probtrans_cli.data.files import find, open_lines
from probtrans_cli.data.readers import format_by_name
from probtrans_cli.data.readers.appearance import Appearance, appearance_of, look_ahead, misread, watched
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.readers.lines import read_text
from probtrans_cli.data.sentence import Sentence, divided
from probtrans_cli.data.tokens import split_sentences
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.folders import holds

# Sentences read before a batch is parsed: few at first, so that an answer comes soon, then more, for speed.
FIRST_CHUNK, LARGEST_CHUNK = 8, 2048
PATIENCE = 0.1  # seconds without input from a pipe or a keyboard, after which what has come is parsed
_REMEDIES: dict[Appearance, str] = {
    "conllu": "if that is not meant, say --input conllu",
    "columns": "give plain text or CoNLL-U",
    "jsonl": "give plain text or CoNLL-U",
    "markup": "give the text alone",
    "bytes": "convert it to UTF-8 with iconv",
    "returns": "write line ends as \\n",
}


def located(files: Iterable[str]) -> list[str]:
    """Return the paths of files: as named, or else where :func:`probtrans_cli.data.files.find` looks for corpora."""
    return [name if name == "-" or holds(Path.exists, Path(name)) else str(find(name, once=True)) for name in files]


def form_of(path: str, input_form: str) -> tuple[str, Iterator[str]]:
    """Return the form of a file, `conllu`, `text` or `tokens`, and its lines; `auto` is decided by name or beginning.

    Lines that are read as text and look like something else give a warning.
    """
    lines = open_lines(path)
    form = input_form
    if form == "auto":
        is_conllu, lines = (True, lines) if format_by_name(path) == "conllu" else look_ahead(lines)
        form = "conllu" if is_conllu else "text"
    if form == "conllu":
        return form, lines
    return form, watched(lines, lambda kind: console.log(misread(path, kind, _REMEDIES[kind])))


def appearances(paths: Iterable[str], input_form: str) -> Iterator[str]:
    for path in paths:
        if input_form == "conllu" or (input_form == "auto" and format_by_name(path) == "conllu"):
            continue
        kind = appearance_of(path)
        if kind != "text" and (kind, input_form) != ("conllu", "auto"):
            yield misread(path, kind, _REMEDIES[kind])


def sentences_of(
    lines: Iterable[str], name: str, form: str, longest: int | None = None, *, split: bool = False
) -> Iterator[Sentence]:
    """Yield the sentences of the lines of a file called ``name``; an empty line of text is an empty sentence.

    ``split``: a line of text may have several sentences.

    Raises:
        DataError: a sentence of text has more words than ``longest``; see also the readers.
    """
    if form == "conllu":
        yield from read_conllu(lines, name)
    elif form == "tokens":
        yield from read_text(lines, name, keep_empty=True)
    else:
        for number, raw in enumerate(lines, start=1):
            where, line = f"{name}:{number}", raw.removesuffix("\r")
            spans = list(split_sentences(line)) if split else []
            several = len(spans) > 1
            for begin, end in spans if several else [(0, len(line))]:
                text = line[begin:end]
                # A word is a token or more of them: what is certainly too long is refused before it is divided.
                if longest is not None and len(text) > longest and (least := len(text.split())) > longest:
                    raise too_long(where, least, "words", longest, at_least=True)
                yield replace(divided(text, where), place=(number, begin) if several else None)


def excess(sentence: Sentence, longest: int, vocabulary: Vocabulary) -> tuple[int, str] | None:
    """Return how many words or tokens of ``vocabulary`` a sentence has, and which of the two, if more than ``longest``;
    else None."""
    number, unit = len(sentence.words), "words"
    # No more tokens than characters, and two around them: hardly a sentence is divided here already.
    if number <= longest < sum(map(len, sentence.words)) + 2 and vocabulary.divides:
        number, unit = len(vocabulary.encode_words(sentence.words, sentence.extra).ids), "tokens"
    return (number, unit) if number > longest else None


def too_long(where: str, number: int, unit: str, longest: int, *, at_least: bool = False) -> DataError:
    """Return the error of a sentence of ``number`` words or tokens, or of ``at_least`` so many."""
    hint = f"split it, allow it with --longest {'N' if at_least else number}, or leave its analysis empty with "
    hint += "--too-long skip; memory grows with the square, and time, with --decode eisner, with the cube of its length"
    size = f"{'at least ' * at_least}{number:,} {unit}"
    return DataError(f"{where}: a sentence of {size}, more than {longest:,}", hint=hint)


def chunks(sentences: Iterable[Sentence], patience: float | None = None) -> Iterator[list[Sentence]]:
    """Yield portions of growing size, read ahead in a thread while the portion before is in use.

    ``patience``: a portion also ends where no sentence comes for this number of seconds; None waits. An error of the
    reader is raised behind the sentences before it.
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
