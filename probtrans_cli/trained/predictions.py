"""What a trained model answers to sentences: the predictions of its task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.tasks.base import Prediction

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model


@torch.inference_mode()
def predictions(model: Model, sentences: Sequence[Sentence]) -> Iterator[Prediction | None]:
    """The predictions of some sentences, in order; None for one without a word. Their gold labels are never read.

    Raises:
        DataError: a sentence has more tokens than the encoder has positions.
    """
    if not sentences:
        return
    # With an empty form, so that the words' spelling is kept: tasks that write a form need it.
    split = Split.encode([Sentence(words=one.words, form="") for one in sentences], model.vocabulary, {})
    if fault := model.too_long(sentences, split):
        raise fault[1]
    found: list[Prediction | None] = [None] * len(sentences)
    model.network.eval()
    for indices in model.evaluation().batches(split):
        batch = model.collate(split, indices)
        with model.machine.autocast():
            outputs = model.network(batch, model.task.wants(batch))
        for index, prediction in zip(indices.tolist(), model.task.predict(outputs, batch), strict=True):
            found[index] = prediction
    yield from found
