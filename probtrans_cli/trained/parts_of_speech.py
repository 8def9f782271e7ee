"""Parts of speech for a task that asks for them: from a trained tagger, as files of tuples have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from probtrans_cli import console
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.folders.places import find_folder
from probtrans_cli.tasks.extraction import CONTENT
from probtrans_cli.tasks.penalties import kinds_of
from probtrans_cli.trained.predictions import predictions

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model


def with_content_words(model: Model, splits: Mapping[str, Split], *, required: bool) -> dict[str, Split]:
    """The splits, with which words are content words and head verbs where the task of a model names a tagger.

    ``required``: a tagger that cannot be read is an error; else that is said on stderr.

    Raises:
        CheckpointError: the tagger cannot be read.
        UsageError: it predicts something else than `upos`.
    """
    name = model.task.tagger
    if name is None:
        return dict(splits)
    try:
        tagger = type(model).load(str(find_folder(name)), threads=model.recipe.runtime.threads)
    except CheckpointError as error:
        if required:
            raise
        console.log(f"warning: task.tagger: {error}: the constraints are not scored")
        return dict(splits)
    if tagger.recipe.task.chosen_column != "upos":
        raise UsageError(f"task.tagger: {name} predicts no upos", hint="name a run of task.kind=tagging, column=upos")
    return {name: split.with_column(CONTENT, _kinds(model.task, tagger, split)) for name, split in splits.items()}


def _kinds(task: Any, tagger: Model, split: Split) -> list[list[int]]:
    sentences = [Sentence(task.words_of(split, index)) for index in range(len(split))]
    found = predictions(tagger, sentences)
    return [
        [*([] if one is None else kinds_of(sentence.words, one["tags"])), *[0] * task.extra]
        for sentence, one in zip(sentences, found, strict=True)
    ]
