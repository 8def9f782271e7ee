"""Pictures of the trees that a model sees in a few sentences of dev: what `train` leaves in `trees/` of a run folder.

For every sentence one SVG a channel, as in Fig. 10 of the paper, and ``index.html``, a page of all of them with every
iteration, the channels' mean and, where dev has trees, the gold ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.filters import Shortened
from probtrans_cli.data.files import find_all
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence, without_extra_words
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import CheckpointError, DataError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import Data
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.formats.svg import svg_files
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Asked, analyses, every_tree
from probtrans_cli.trees.drawing.html import page

SENTENCES = 5
SHORTEST, LONGEST = 5, 15  # words that a picture should have
SEARCHED = 1000  # sentences at the beginning of dev


def write_gallery(model: Model, folder: Path) -> None:
    """Draw the trees of some sentences of dev into a folder; nothing where there is no dev file to read again.

    The training is over and saved: what goes wrong here is told and no more.
    """
    try:
        if model.recipe.model.facts.has_arcs and (chosen := examples(model.recipe.data, model.vocabulary)):
            regular.refuse_others(folder, folder=True)
            folder.mkdir(exist_ok=True)
            _draw(model, chosen, folder)
    except (OSError, DataError, CheckpointError) as error:
        console.log(f"no pictures in {folder}: {error}")


def _draw(model: Model, chosen: Sequence[Sentence], folder: Path) -> None:
    readings = [
        replace(model.reading, channel=channel, chosen_on=None) for channel in range(model.recipe.model.channels)
    ]
    svg_files(analyses(model, chosen, Asked(readings)), folder, DisplayOptions(probability=True, several=True))
    of_words = every_tree(model, chosen, model.reading, gold=True)
    with atomic.replacing(folder / "index.html", synced=False) as file:
        file.writelines(page(of_words, title=f"Trees of {model.recipe.name}, step {model.step}"))


def examples(data: Data, vocabulary: Vocabulary) -> Sequence[Sentence]:
    """Some sentences of dev of a length that can be drawn, evenly spread over its beginning; always the same ones."""
    names = [data.dev] if isinstance(data.dev, str) else data.dev or []
    paths = (path for name in names if name != "-" for path in find_all(name))
    every = (one for path in paths for one in read_corpus(path, data.format, data=data))
    searched = map(without_extra_words, islice(Shortened(every, vocabulary, data), SEARCHED))
    fitting = [one for one in searched if SHORTEST <= len(one.words) <= LONGEST]
    step = max(1, len(fitting) // SENTENCES)
    return fitting[::step][:SENTENCES]
