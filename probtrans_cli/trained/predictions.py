"""What a trained model answers to sentences: the predictions of its task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.tasks.base import Prediction
from probtrans_cli.tasks.batch import Batch

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model


@torch.inference_mode()
def predictions(model: Model, sentences: Sequence[Sentence]) -> Iterator[Prediction | None]:
    """The predictions of some sentences, in order; None for one without a word. Their gold labels are never read.

    A word written as `[MASK]`, or as the vocabulary writes its mask, is hidden from a model of words behind masks.

    Raises:
        DataError: a sentence has more tokens than the encoder has positions.
    """
    if not sentences:
        return
    masks = _masks(model)
    filler = _filler(model) if any(masks & set(one.words) for one in sentences) else ""
    # With an empty form, so that the words' spelling is kept: tasks that write a form need it.
    plain = [Sentence(words=[filler if word in masks else word for word in one.words], form="") for one in sentences]
    split = Split.encode(plain, model.vocabulary, {})
    if fault := model.too_long(sentences, split):
        raise fault[1]
    found: list[Prediction | None] = [None] * len(sentences)
    model.network.eval()
    for indices in model.evaluation().batches(split):
        batch = _hidden(model, masks, sentences, model.collate(split, indices))
        with model.machine.autocast():
            outputs = model.network(batch, model.task.wants(batch))
        for index, prediction in zip(indices.tolist(), model.task.predict(outputs, batch), strict=True):
            found[index] = prediction
    yield from found


def _masks(model: Model) -> set[str]:
    """The words that are written as a mask; none where a task predicts something else."""
    vocabulary = model.vocabulary
    return {"[MASK]", vocabulary.decode(vocabulary.MASK)} if model.task.answers == "words" else set()


def _filler(model: Model) -> str:
    """A word of one token, which holds the place of a mask."""
    vocabulary = model.vocabulary
    entries = (vocabulary.decode(id) for id in range(vocabulary.size) if id not in vocabulary.specials)
    return next((word for word in entries if vocabulary.encode_words([word]).sizes == [1]), "[MASK]")


def _hidden(model: Model, masks: set[str], sentences: Sequence[Sentence], batch: Batch) -> Batch:
    """The batch with the mask's id where a word is written as a mask."""
    if not masks:
        return batch
    hidden = torch.zeros_like(batch.words)
    for row, index in enumerate(batch.indices.tolist()):
        for place, word in enumerate(sentences[index].words):
            hidden[row, place] = word in masks
    return replace(batch, ids=batch.ids.masked_fill(batch.tokens_of(hidden), model.vocabulary.MASK))
