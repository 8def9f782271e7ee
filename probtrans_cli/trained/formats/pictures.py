"""Pictures of trees: formats of `parse`, and the gallery that `train` leaves in `trees/` of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.tally import Tally, shortened
from probtrans_cli.data.files import find_all
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import CheckpointError, DataError, UsageError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import Data
from probtrans_cli.trained.base import ModelBase
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis, Parser, gold_heads
from probtrans_cli.trees.drawing import Arc, Drawing, EveryTree, displacy_line, reads_right_to_left
from probtrans_cli.trees.drawing import latex as latex_pictures
from probtrans_cli.trees.drawing.html import page
from probtrans_cli.trees.drawing.svg import svg as as_svg
from probtrans_cli.trees.drawing.terminal import terminal

GOLD = "gold"  # the channel of a treebank's own arcs

SENTENCES = 5
SHORTEST, LONGEST = 5, 15  # words of a sentence in the gallery
SEARCHED = 1000  # sentences at the beginning of the corpus


# --- formats of parse -------------------------------------------------------------------------------------------------


def tree(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Yield a picture of characters for each tree; the gold tree is a picture of its own below it, as arcs have no
    colours there."""
    for analysis in analyses:
        ours = drawing(analysis, replace(options, gold=False))
        pictures = [ours]
        if options.gold:
            title = ours.title or ("" if analysis.reading is None else f"channel {analysis.reading.channel}")
            gold = tuple(_gold_arcs(analysis))
            pictures = [replace(ours, title=title), replace(ours, title=GOLD, arcs=gold, notes=(), spans=())]
        style = {"coloured": options.coloured, "ascii_only": options.ascii_only}
        texts = [(terminal(picture, **style) if analysis.words else picture.title).rstrip("\n") for picture in pictures]
        yield "\n".join(texts) + "\n\n"


def displacy(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    for analysis in analyses:
        yield displacy_line(drawing(analysis, options), show_probability=options.probability) + "\n"


def latex(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    pictures = (drawing(analysis, options) for analysis in analyses)
    return latex_pictures.latex(pictures, show_probability=options.probability)


def html(trees: Iterator[EveryTree], options: DisplayOptions) -> Iterator[str]:
    return page(trees, title=options.title)


def svg(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Yield the picture of the only tree; that there is one was seen before."""
    for analysis in analyses:
        yield as_svg(drawing(analysis, options), show_probability=options.probability)


def svg_files(analyses: Iterable[Analysis], folder: Path, options: DisplayOptions) -> None:
    """Write a picture for each tree, named after the numbers of the sentence, the channel and, of several, the tree."""
    number, previous = 0, None
    with atomic.faults_of(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for analysis in analyses:
            number += analysis.sentence is not previous
            previous = analysis.sentence
            name = f"-channel-{analysis.reading.channel}" if analysis.reading is not None else ""
            name += f"-tree-{analysis.number[0]}" if analysis.number is not None else ""
            picture = as_svg(drawing(analysis, options), show_probability=options.probability)
            atomic.replace_text(folder / f"{number:04d}{name}.svg", picture, synced=False)


# --- what is drawn ----------------------------------------------------------------------------------------------------


def drawing(analysis: Analysis, options: DisplayOptions) -> Drawing:
    """Return the sentence with its tree, and the task's predictions: below the words, and above the sentence."""
    words = tuple(analysis.words)
    places = analysis.places(probability=options.probability)
    arcs = list(places.arcs)
    heads, chances, reading = analysis.heads, analysis.probabilities, analysis.reading
    if not arcs and heads is not None and chances is not None and reading is not None:
        unknown = np.full(len(heads), np.nan)
        chances = chances if options.probability else unknown
        spread = unknown if analysis.deviations is None else analysis.deviations
        for number, (head, *values) in enumerate(zip(heads, chances, spread, strict=True), start=1):
            chance, deviation = (None if np.isnan(value) else float(value) for value in values)
            arcs.append(Arc(number, int(head), chance, reading.channel, deviation))
    arcs += _gold_arcs(analysis) if options.gold else ()
    channel = f"channel {analysis.reading.channel}" if options.several and analysis.reading is not None else ""
    latent = [  # a line for each label of a word, `17:.93`
        tuple(f"{label}:{p:.2f}".replace(":0.", ":.") for label, p in zip(*of_word, strict=True))
        for of_word in zip(*(analysis.latent_labels or ((), ())), strict=True)
    ]
    notes = [(*of_task, *labels) for of_task, labels in zip_longest(places.notes_of(len(words)), latent, fillvalue=())]
    return Drawing(
        words,
        tuple(arcs),
        title=": ".join(part for part in (channel, places.title) if part),
        notes=tuple(notes),
        spans=tuple(places.spans),
        right_to_left=reads_right_to_left(words),
    )


def _gold_arcs(analysis: Analysis) -> Iterator[Arc]:
    heads = gold_heads(analysis.sentence)
    relations = None
    if analysis.task is not None and analysis.task.answers.trees:
        relations = analysis.sentence.relations
    for number, (head, relation) in enumerate(zip(heads, relations or [""] * len(heads), strict=True), start=1):
        yield Arc(number, head, None, GOLD, relation=relation.strip("_"))


# --- the gallery ------------------------------------------------------------------------------------------------------


def write_gallery(model: ModelBase, folder: Path) -> None:
    """Draw the trees of some sentences of dev, or of train without one, into a folder; nothing of what cannot be read
    again.

    For every sentence an SVG for each channel, as in Fig. 10 of the paper, and ``index.html``, a page of all of them
    with every iteration, the channels' mean and, where dev has trees, the gold ones. The training is over and saved:
    an error here is logged and no more.
    """
    section = model.recipe.model
    try:
        if section.facts.has_arcs and (chosen := examples(model.recipe.data, model.vocabulary)):
            regular.refuse_others(folder, folder=True)
            folder.mkdir(exist_ok=True)
            readings = [replace(model.reading, channel=number, chosen_on=None) for number in range(section.trees)]
            analyses = Parser(model, readings=readings).analyses(chosen)
            svg_files(analyses, folder, DisplayOptions(probability=True, several=True))
            trees = Parser(model, readings=[model.reading]).every_tree(chosen, gold=True)
            with atomic.replacing(folder / "index.html", synced=False) as file:
                file.writelines(page(trees, title=f"Trees of {model.recipe.name}, step {model.step}"))
    except (OSError, DataError, CheckpointError, UsageError) as error:
        console.log(f"no pictures in {folder}: {error}")


def examples(data: Data, vocabulary: Vocabulary) -> Sequence[Sentence]:
    """Return some sentences of dev, or else of train, of a length that can be drawn, evenly spread over the beginning;
    always the same."""
    corpus = data.dev or data.train
    names = [corpus] if isinstance(corpus, str) else corpus
    paths = (path for name in names if name != "-" for path in find_all(name))
    sentences = (sentence for path in paths for sentence in read_corpus(path, data.format, data=data))
    fitting = []
    for sentence in islice(shortened(sentences, vocabulary, data, Tally("dev")), SEARCHED):
        words = sentence.words[: len(sentence.words) - sentence.extra]
        if SHORTEST <= len(words) <= LONGEST:
            of_text = Sentence(words, text=sentence.text, where=sentence.where)
            fitting.append(of_text if sentence.extra else sentence)
    step = max(1, len(fitting) // SENTENCES)
    return fitting[::step][:SENTENCES]
