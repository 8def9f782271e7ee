"""Parts of speech for a task that asks for them: of the corpus or from a trained tagger, as most files of tuples have
none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probtrans_cli import console
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import CheckpointError, DataError, UsageError
from probtrans_cli.folders.places import find_folder
from probtrans_cli.openie.penalties import CONTENT, kinds_of
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictions import predictions

UPOS = "upos"


def with_content_words(model: Model, splits: Mapping[str, Split], *, required: bool) -> dict[str, Split]:
    """The splits, with which words are content words and head verbs, where the task of a model asks for it.

    ``required``: for a training. A tagger that cannot be read is an error then; else that is said on stderr.

    Raises:
        CheckpointError: the tagger cannot be read.
        DataError: constraints are to be learned, and nobody tells parts of speech.
        UsageError: the tagger predicts something else than `upos`.
    """
    task: Any = model.task
    if task.section.tagger is None:
        found = {name: _of_corpus(task, model.labels.get(UPOS, ()), split) for name, split in splits.items()}
        if (
            required
            and task.section.constraints.used
            and (name := next((n for n, s in found.items() if s is None), None))
        ):
            what = f"data.{name}: has no parts of speech, which task.constraints are about"
            raise DataError(what, hint="name a tagger of upos: task.tagger=RUN; or give JSON lines with upos")
        return {name: split if found[name] is None else found[name] for name, split in splits.items()}  # type: ignore[misc]
    try:
        tagger = type(model).load(str(find_folder(task.section.tagger)), threads=model.recipe.runtime.threads)
    except CheckpointError as error:
        if required:
            raise
        console.log(f"warning: task.tagger: {error}: the constraints are not scored")
        return dict(splits)
    if tagger.recipe.task.chosen_column != UPOS:
        what = f"task.tagger: {task.section.tagger} predicts no upos"
        raise UsageError(what, hint="name a run of task.kind=tagging, column=upos")
    return {name: split.with_column(CONTENT, _of_tagger(task, tagger, split)) for name, split in splits.items()}


def _of_corpus(task: Any, names: Any, split: Split) -> Split | None:
    """The split with what its own parts of speech say; None where it has none."""
    if not split.has(UPOS):
        return None
    kinds = []
    for index in range(len(split)):
        words = task.words_of(split, index)
        tags = [names[id] if id >= 0 else "" for id in split.row(UPOS, index).tolist()[: len(words)]]
        kinds.append([*kinds_of(words, tags), *[0] * task.extra])
    return split.with_column(CONTENT, kinds)


def _of_tagger(task: Any, tagger: Model, split: Split) -> list[list[int]]:
    sentences = [Sentence(task.words_of(split, index)) for index in range(len(split))]
    found = predictions(tagger, sentences)
    return [
        [*([] if one is None else kinds_of(sentence.words, one["tags"])), *[0] * task.extra]
        for sentence, one in zip(sentences, found, strict=True)
    ]
