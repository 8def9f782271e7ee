"""The verb `parse`: reads sentences and writes what a model says of them, in input order, as they are done."""

from __future__ import annotations

import locale
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal, TextIO

from probtrans_cli import atomic, console
from probtrans_cli.data.files import display_name, require_output
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.streams import PATIENCE, chunks, excess, form_of, located, sentences_of, too_long
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.errors import ProbtransError, UsageError
from probtrans_cli.folders.checkpoints import locate
from probtrans_cli.recipe.source import IN_FOLDER as RECIPE
from probtrans_cli.recipe.source import load_stored
from probtrans_cli.recipe.training import Precision
from probtrans_cli.tasks import TASKS
from probtrans_cli.tasks.base import Answers
from probtrans_cli.text import counted, harmless
from probtrans_cli.trained.formats import FORMATS, DisplayOptions, FormatName
from probtrans_cli.trained.machine import keep_memory
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Analysis, ParseOptions, Parser, splitter_of
from probtrans_cli.trained.reader import no_room
from probtrans_cli.trees.drawing import EveryTree

_COLOUR = re.compile("(\x1b\\[[0-9]+m)")


@dataclass(frozen=True)
class ParseRequest(ParseOptions):
    """The arguments of `parse`."""

    checkpoint: str
    files: Sequence[str] = ()
    format: FormatName = "conllu"
    input_form: str = "auto"
    split: bool | None = None
    probability: bool = False
    gold: bool = False
    coordination: str | None = None
    longest: int = LONGEST
    too_long: Literal["error", "skip"] | None = None
    output: Path | None = None
    folder: Path | None = None
    threads: int | None = None
    precision: Precision | None = None


COUNTS = ("long", "empty", "lost")
"""What is counted of sentences that are not read: those that are too long; of models that answer every line, those
without a word, and those of them for which the output has no place."""


def unread_in_words(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the counts of :data:`COUNTS` in words, a line for each that is not 0."""
    if number := counts.get("long"):
        yield f"not read, as too long, with an empty analysis: {counted(number, 'sentence')}"
    if number := counts.get("empty"):
        missing = ", for which the format has no place" if counts.get("lost") else ""
        yield f"without a word, with an empty analysis: {counted(number, 'sentence')}{missing}"


class Parsing:
    """A request with the model that is loaded for it, for any number of inputs."""

    def __init__(self, request: ParseRequest, *, on_terminal: bool = False) -> None:
        """Load the model, and find out whether it can answer; ``on_terminal``: where the answers are seen."""
        self.request = request
        self.form = form = FORMATS[request.format]
        _refuse_what_it_cannot_show(request)
        keep_memory()
        self.model = model = Model.load(request.checkpoint, threads=request.threads, precision=request.precision)
        options: ParseOptions = request
        if form.shows:
            if not set(form.shows) & set(model.task.answers.gives):
                every = {kind: getattr(row.load(), "answers", None) for kind, row in TASKS.items()}
                kinds = " or ".join(
                    kind
                    for kind, answers in every.items()
                    if isinstance(answers, Answers) and set(form.shows) & set(answers.gives)  # else those of its parts
                )
                message = f"-f {form.name}: a task of kind {model.recipe.task.kind} gives no {' or '.join(form.shows)}"
                raise UsageError(message, hint=f"use -f jsonl, or a model of kind {kinds}")
            options = replace(options, trees=False)
        shown = ("jsonl", *model.task.answers.alternatives_in)
        is_alone = request.top is not None and request.latent_labels is None  # else it counts latent labels
        if is_alone and model.task.answers.alternatives and form.name not in shown:
            message = f"--top: -f {form.name} shows no alternatives of a task of kind {model.recipe.task.kind}"
            raise UsageError(message, hint=f"use -f {' or '.join(shown)}, or leave it out")
        if not form.every_channel:  # which shows the trees of a parser's encoder, too
            model.refuse_choice_of_trees(request.channel, request.iteration, request.decoder)
        if form.every_channel and request.channel in (None, "all"):
            options = replace(options, channel="best")
        splitter = splitter_of(
            model, request.coordination, rescore=request.rescore, threads=request.threads,
            refused={
                "--uncertainty": request.uncertainty, "--dropout-samples": request.dropout_samples,
                "--weights": request.weights,
                f"-f {form.name}, whose rows are of whole sentences": form.name == "labels",
            },
        )  # fmt: skip
        self.parser = Parser(model, options, splitter=splitter)
        # No colours where `NO_COLOR` is set or the terminal has none; ASCII where the locale has no UTF-8.
        has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
        has_unicode = locale.getencoding().replace("-", "").lower() == "utf8"
        self.display = DisplayOptions(
            probability=request.probability, gold=request.gold, several=options.channel == "all" and options.trees,
            coloured=on_terminal and form.colours and has_colours,
            ascii_only=on_terminal and not has_unicode, title=f"Trees of {model.recipe.name}",
        )  # fmt: skip
        self.skips = request.too_long == "skip"
        if request.too_long is None:
            self.skips = model.task.answers.nothing is not None
        self.splits = not model.recipe.task.answers_lines if request.split is None else request.split
        # Sentences of more words are refused before they are divided; None: none is.
        self.refused = None if self.skips else request.longest

    def marked(
        self, sentences: Iterable[Sentence], counts: Counter[str], tell: Callable[[str], None] = console.log
    ) -> Iterator[Sentence]:
        """Yield the same sentences; those that are too long say why they are not read (:attr:`Sentence.unread`).

        A sentence that is too long is an error, or gets an empty analysis: its words, no tree and no prediction. The
        output has as many sentences as the input either way.

        Args:
            sentences: to read.
            counts: gets those that are not read, by :data:`COUNTS`.
            tell: gets a warning of the first that is too long, at once.

        Raises:
            DataError: a sentence is too long, where this is an error. Too many for a model's positions is then an error
                of the model, behind the answers to the sentences before it.
        """
        model, splitter, longest = self.model, self.parser.splitter, self.request.longest
        models = [model] if splitter is None else [model, splitter.model]
        answers_all = model.task.answers.nothing is not None
        loses_empty = self.form.loses_empty and not model.extra_words
        for sentence in sentences:
            if answers_all and not sentence.words:
                counts["empty"] += 1
                counts["lost"] += loses_empty
            over = excess(sentence, longest, model.vocabulary)
            if over is not None and not self.skips:
                raise too_long(sentence.where, *over, longest)
            why = None if over is None else f"a sentence of {over[0]:,} {over[1]}, more than {longest:,}"
            if why is None and self.skips:
                why = next(filter(None, (no_room(reader, sentence) for reader in models)), None)
            if why is None:
                yield sentence
                continue
            if not counts["long"]:
                tell(f"warning: {sentence.where}: {why}: it is not read, and its analysis is empty")
            counts["long"] += 1
            yield replace(sentence, unread=why)

    def tell_of_arcs(self) -> None:
        """Say on stderr where probabilities of arcs are shown that are not calibrated."""
        if self.request.probability and not self.parser.arcs_are_calibrated:
            console.log(
                "--prob: probabilities of arcs are the model's own beliefs, not calibrated: no gold trees of dev have "
                "given a temperature to these heads"
            )

    def results(self, portions: Iterable[Sequence[Sentence]]) -> Iterator[Analysis] | Iterator[EveryTree]:
        """Yield what the format needs of sentences, computed while it is read."""
        if self.form.every_channel:
            gold = self.request.gold
            return chain.from_iterable(self.parser.every_tree(some, gold=gold, strict=True) for some in portions)
        analyses = chain.from_iterable(map(self.parser.analyses, portions))
        return analyses if self.form.lists else chain.from_iterable(each.one_by_one() for each in analyses)


def parse(request: ParseRequest) -> None:
    """Write what the model says of the files' sentences in a format to stdout or to ``output``.

    Raises:
        UsageError: options that do not go together.
        DataError, CheckpointError: as their readers do.
    """
    output = request.output
    if not request.files and sys.stdin.isatty():
        console.log("reading sentences from the keyboard, one a line; end with Ctrl-D")
    files, form = located(request.files or ["-"]), FORMATS[request.format]
    require_output(output, "-o", files)
    folder = request.folder
    if form.write_folder and folder is None and output is not None and (output.is_dir() or output.suffix == ""):
        folder = output

    def sentences_of_files(longest: int | None, *, split: bool) -> Iterator[Sentence]:
        for file in files:
            input_form, lines = form_of(file, request.input_form)
            yield from sentences_of(lines, display_name(file), input_form, longest, split=split)

    only: list[Sentence] | None = None
    if form.write_folder and folder is None:  # more than one is an error, which does not wait for the model
        split = request.split
        if split is None:
            with suppress(ProbtransError):  # of which loading the model will tell
                split = not load_stored(locate(request.checkpoint) / RECIPE).task.answers_lines
        only = list(islice((sentence for sentence in sentences_of_files(None, split=bool(split)) if sentence.words), 2))
        several_trees = max(request.samples or 0, request.best or 0) > 1
        if len(only) != 1 or (request.channel == "all" and request.trees) or several_trees:
            problem, hint = "the input has several", "write a file for each into a folder: --output-dir FOLDER"
            if not only:
                problem, hint = "the input has none", "give a sentence"
            elif len(only) == 1:
                problem = f"several {'trees' if several_trees else 'channels'} are asked for"
            raise UsageError(f"-f {form.name} is a picture of one sentence; {problem}", hint=hint)
    parsing = Parsing(request, on_terminal=output is None and sys.stdout.isatty())
    parsing.tell_of_arcs()
    sentences = sentences_of_files(parsing.refused, split=parsing.splits) if only is None else iter(only)
    unread: Counter[str] = Counter()
    patience = PATIENCE if "-" in files and not sys.stdin.seekable() else None
    portions: Iterator[Sequence[Sentence]] = chunks(parsing.marked(sentences, unread), patience)
    if folder is not None:
        resolve_name(form.write_folder)(parsing.results(portions), folder, parsing.display)
    else:
        with atomic.output_of(output, "-o") as file:
            pieces: Iterator[str] = resolve_name(form.write)(
                parsing.results(_flushing(portions, file)), parsing.display
            )
            if output is None and file.isatty():  # in a file or a pipe, words keep their bytes
                pieces = (safe(piece, coloured=parsing.display.coloured) for piece in pieces)
            file.writelines(pieces)
    for line in unread_in_words(unread):
        console.log(line)
    if request.abstain is not None:
        parser, least = parsing.parser, f"less probable than {request.abstain:g}"
        console.log(f"left out {parser.left_out:,} of {parser.answers:,} answers: {least}")


def _refuse_what_it_cannot_show(request: ParseRequest) -> None:
    form = FORMATS[request.format]
    wanted = {
        "all channels": request.channel == "all",
        "gold": request.gold,
        "latent labels": request.latent_labels is not None,
        "no trees": not request.trees,
        "probabilities": request.probability,
        "several trees": request.samples is not None or request.best is not None,
        "marginals": request.marginals,
    }
    for option, refusal in form.refuses.items():
        if wanted[option]:
            raise UsageError(refusal.message, hint=refusal.hint)
    of_trees = {"--samples": request.samples, "--best": request.best, "--marginals": request.marginals}
    options = [name for name, value in of_trees.items() if value]
    if options and not request.trees:
        raise UsageError(f"{options[0]} is about trees", hint="leave out --trees no")
    if request.samples is not None and request.best is not None and not form.lists:
        message = f"--samples and --best: -f {request.format} writes one tree after the other"
        raise UsageError(message, hint="give one of them, or use -f jsonl")
    if request.best is not None and request.decoder == "argmax":
        raise UsageError(
            "--best does not go with --decode argmax, whose heads are no trees", hint="use mst, eisner or auto"
        )
    if request.split and request.input_form in ("tokens", "conllu"):
        raise UsageError(f"--split is for running text, not for --input {request.input_form}", hint="leave it out")
    if (form.shows or not request.trees) and (request.channel or request.iteration or request.decoder):
        remedy = "leave them out" if form.shows else "leave out --trees no"
        raise UsageError("--channel, --iteration and --decode are about trees", hint=remedy)


def safe(piece: str, *, coloured: bool) -> str:
    """Return a piece of output as a terminal may get it; ``coloured``: colours stay, as the format shows all texts as
    :func:`probtrans_cli.text.visible` has them."""
    piece = piece.replace("\r\n", "\n")
    parts = _COLOUR.split(piece) if coloured else [piece]
    return "".join(part if i % 2 else harmless(part, keep="\n\t") for i, part in enumerate(parts))


def _flushing(portions: Iterable[Sequence[Sentence]], file: TextIO) -> Iterator[Sequence[Sentence]]:
    # The results of a portion are sent off before the next portion is waited for.
    for portion in portions:
        yield portion
        file.flush()
