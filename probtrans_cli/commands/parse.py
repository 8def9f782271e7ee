"""The verb `parse`: sentences in, what a model says of them out, in input order, as they are done."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TextIO

from probtrans_cli import atomic, console
from probtrans_cli.commands.checks import faults_of, splitter_of
from probtrans_cli.commands.input_stream import PATIENCE, chunks, found, read
from probtrans_cli.commands.unread import Unread, told
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.weights import way_of
from probtrans_cli.tasks import TASKS
from probtrans_cli.tasks.base import Splitter
from probtrans_cli.text import harmless
from probtrans_cli.trained.abstention import Abstention
from probtrans_cli.trained.arcs import Reading
from probtrans_cli.trained.formats import FORMATS, Content, DisplayOptions, Format, FormatName
from probtrans_cli.trained.latent_labels import require_labels
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Asked, analyses, every_tree
from probtrans_cli.trained.predictions import require_alternatives
from probtrans_cli.trained.predictor import Predictor
from probtrans_cli.trained.ways import predictor_of
from probtrans_cli.trees import decode

_COLOUR = re.compile("(\x1b\\[[0-9]+m)")
LATENT_LABELS_SHOWN = 3  # of every word, unless another number is asked for


@dataclass(frozen=True)
class ParseRequest:
    """What `parse` is asked for."""

    checkpoint: str
    """A CKPT argument: a run folder, ``RUN@last``, ..."""
    files: Sequence[str] = ()
    """``-`` is stdin, and so is no file at all."""
    format: FormatName = "conllu"
    """A row of :data:`probtrans_cli.trained.formats.FORMATS`."""
    input_form: str = "auto"
    """``auto``, ``text``, ``tokens`` or ``conllu``."""
    channel: str | None = None
    """A number, ``mean``, ``best`` or ``all``; None: the checkpoint's choice. So for the next two."""
    iteration: int | None = None
    decoder: decode.Method | None = None
    trees: bool = True
    """Show the trees; else only what the task says, and nothing is computed for trees."""
    probability: bool = False
    """Show the probability of every arc, tag and entity."""
    gold: bool = False
    """Show also the trees that the input has."""
    latent_labels: bool = False
    """Show also every word's most probable latent labels."""
    top: int | None = None
    """So many latent labels (None: 3), and so many alternatives of what the task says where there are several."""
    uncertainty: bool = False
    """Show how uncertain every tag, label or hidden word is."""
    abstain: float | None = None
    """Leave out tags and labels that are less probable."""
    dropout_samples: int | None = None
    """Predict by so many passes with dropout; None: by one without."""
    weights: str | None = None
    """How uncertain weights are used, see :func:`probtrans_cli.recipe.weights.way_of`; None: as the recipe says."""
    coordination: str | None = None
    """A CKPT of coordinations, at which sentences are split before tuples are found in them."""
    rescore: bool = False
    """Tuples of split sentences get the confidence that they have in the whole one."""
    longest: int = LONGEST
    """Words that a sentence may have, and tokens where words are divided into such."""
    too_long: Literal["error", "skip"] | None = None
    """What becomes of sentences that are longer, or than the model has positions: ``error``, or ``skip``, an empty
    analysis; None: this of models that answer every line, such as those of tuples, and an error of others."""
    output: Path | None = None
    """The file or folder to write; None: stdout."""
    threads: int | None = None


@dataclass(frozen=True)
class Parsing:
    """A request with all that is loaded for it, which can be asked again and again."""

    request: ParseRequest
    form: Format
    model: Model
    asked: Asked
    options: DisplayOptions

    @classmethod
    def of(cls, request: ParseRequest, *, coloured: bool = False) -> Parsing:
        """Load the model, and find out whether it can answer.

        ``coloured``: it is for a terminal that shows colours.

        Raises:
            UsageError: options that do not go together, or not with the model.
            CheckpointError: as its reader.
        """
        form = FORMATS[request.format]
        _refuse_what_it_cannot_show(form, request)
        model = Model.load(request.checkpoint, threads=request.threads)
        if request.top is not None and not request.latent_labels:
            require_alternatives(model)
        if form.shows:
            _require_what_it_shows(form, model)
            request = replace(request, trees=False)
        if request.trees and not model.recipe.model.facts.has_arcs:
            kind = model.recipe.model.kind
            raise UsageError(f"a model of kind {kind} tells no heads of words: it has no trees", hint="add --trees no")
        latent_labels = (request.top or LATENT_LABELS_SHOWN) if request.latent_labels else None
        if latent_labels is not None:
            require_labels(model)
        several = request.channel == "all" and not form.every_channel
        readings = _readings(model, request, several=several) if request.trees else []
        predictor, abstention = _who_is_asked(model, request)
        splitter = _splitter_of(model, form, request)
        asked = Asked(
            readings, latent_labels, top=request.top, predictor=predictor, abstention=abstention, splitter=splitter
        )
        options = DisplayOptions(
            probability=request.probability, gold=request.gold, several=several, coloured=coloured and form.colours
        )
        return cls(request, form, model, asked, options)

    @property
    def skips(self) -> bool:
        """Whether sentences that are too long get an empty analysis."""
        if self.request.too_long is None:
            return self.model.task.nothing is not None
        return self.request.too_long == "skip"

    @property
    def refused(self) -> int | None:
        """Lines of more words are refused before they are divided; None: none is."""
        return None if self.skips else self.request.longest

    def unread(self, tell: Callable[[str], None] = console.log) -> Unread:
        """What is not read of an input; ``tell`` is told of the first sentence that is too long."""
        splitter = self.asked.splitter
        models = [self.model] if splitter is None else [self.model, splitter.model]
        lost = self.form.loses_empty and not self.model.task.extra
        return Unread(models, self.request.longest, self.skips, tell, lost)

    def content(self, portions: Iterable[Sequence[Sentence]]) -> Content:
        """What the model says of sentences, computed while it is read."""
        model, asked, gold = self.model, self.asked, self.request.gold
        every = (
            every_tree(model, portion, asked.readings[0], gold=gold, strict=True, asked=asked) for portion in portions
        )
        return Content(
            analyses=(analysis for portion in portions for analysis in analyses(model, portion, asked)),
            every=chain.from_iterable(every),
            title=f"Trees of {model.recipe.name}",
        )

    def written(self, portions: Iterable[Sequence[Sentence]]) -> Iterator[str]:
        """What the model says of sentences, in the format, in pieces."""
        return self.form.writer().write(self.content(portions), self.options)


def parse(request: ParseRequest) -> None:
    """Write what the model says of the files' sentences in a format to stdout or to ``output``.

    Raises:
        UsageError: options that do not go together.
        DataError, CheckpointError: as their readers do.
    """
    files, output = request.files or ["-"], request.output
    if not request.files and sys.stdin.isatty():
        console.log("reading sentences from the keyboard, one a line; end with Ctrl-D")
    parsing = Parsing.of(request, coloured=output is None and sys.stdout.isatty() and console.shows_colours())
    files = found(files)
    given = (sentence for file in files for sentence in read(file, request.input_form, parsing.refused))
    patience = PATIENCE if "-" in files and not sys.stdin.seekable() else None
    unread = parsing.unread()
    portions: Iterator[Sequence[Sentence]] = chunks(unread.passing(given), patience)
    form, options = parsing.form, parsing.options
    with faults_of(output, "-o"):
        if form.folder and output is not None and (output.is_dir() or output.suffix == ""):
            form.writer().write_folder(parsing.content(portions), output, options)
        else:
            with nullcontext(sys.stdout) if output is None else atomic.replacing(output, direct=True) as file:
                pieces = parsing.written(_flushing(portions, file))
                if output is None and file.isatty():  # in a file or a pipe, words keep their bytes
                    pieces = (safe(piece, coloured=options.coloured) for piece in pieces)
                file.writelines(pieces)
    for line in told(unread.counts):
        console.log(line)
    if parsing.asked.abstention is not None:
        console.log(parsing.asked.abstention.told())


def _who_is_asked(model: Model, request: ParseRequest) -> tuple[Predictor, Abstention | None]:
    """The predictor, and what it leaves out.

    Raises:
        UsageError: the task has no uncertainty or no answer that can be left out, or the model drops nothing.
    """
    if request.abstain is not None and not model.task.abstains:
        kind = model.recipe.task.kind
        raise UsageError(f"--abstain: a task of kind {kind} gives no tags or labels", hint="leave it out")
    samples, weights = request.dropout_samples, None if request.weights is None else way_of(request.weights)
    predictor = predictor_of(model, dropout_samples=samples, weights=weights, doubt=request.uncertainty)
    return predictor, None if request.abstain is None else Abstention(request.abstain)


def _splitter_of(model: Model, form: Format, request: ParseRequest) -> Splitter | None:
    """What splits sentences before.

    Raises:
        UsageError: it is no model of coordinations, or something else is asked that does not go with it.
    """
    others: dict[str, Any] = {"--uncertainty": request.uncertainty, "--dropout-samples": request.dropout_samples}
    others |= {
        "--weights": request.weights,
        f"-f {form.name}, whose rows are of whole sentences": form.name == "labels",
    }
    found = next((name for name, value in others.items() if value), None)
    if request.coordination is not None and found:
        raise UsageError(f"--coordination does not go with {found}", hint="leave one of them out")
    return splitter_of(model, request.coordination, rescore=request.rescore, threads=request.threads)


def _refuse_what_it_cannot_show(form: Format, request: ParseRequest) -> None:
    asked = {
        "all channels": request.channel == "all",
        "gold": request.gold,
        "latent labels": request.latent_labels,
        "no trees": not request.trees,
        "probabilities": request.probability,
    }
    for option, refusal in form.refuses.items():
        if asked[option]:
            raise UsageError(refusal.message, hint=refusal.hint)
    if (form.shows or not request.trees) and (request.channel or request.iteration or request.decoder):
        remedy = "leave them out" if form.shows else "leave out --trees no"
        raise UsageError("--channel, --iteration and --decode are about trees", hint=remedy)


def _require_what_it_shows(form: Format, model: Model) -> None:
    if not set(form.shows) & set(model.task.gives):
        others = " and ".join(kind for kind, row in TASKS.items() if set(form.shows) & set(row.load().gives))
        what = f"-f {form.name}: a task of kind {model.recipe.task.kind} gives no {' or '.join(form.shows)}"
        raise UsageError(what, hint=f"use -f jsonl, or a model of kind {others}")


def _readings(model: Model, request: ParseRequest, *, several: bool) -> list[Reading]:
    """How the model's arcs are read; for every channel where there are several, else once."""
    if several:
        channels: Sequence[str | None] = [str(channel) for channel in range(model.recipe.model.channels)]
    else:
        channels = [None if request.channel == "all" else request.channel]
    return [model.read(channel, request.iteration, request.decoder) for channel in channels]


def safe(piece: str, *, coloured: bool) -> str:
    """A piece of what is written, as a terminal may get it; ``coloured``: colours stay, as the format is one that shows
    all texts as :func:`probtrans_cli.text.visible` has them."""
    parts = _COLOUR.split(piece.replace("\r\n", "\n")) if coloured else [piece.replace("\r\n", "\n")]
    return "".join(part if i % 2 else harmless(part, keep="\n\t") for i, part in enumerate(parts))


def _flushing(portions: Iterable[Sequence[Sentence]], file: TextIO) -> Iterator[Sequence[Sentence]]:
    """The same portions; what was written of one is sent off before the next one is waited for."""
    for portion in portions:
        yield portion
        file.flush()
