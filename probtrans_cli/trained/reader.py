"""Sentences as a trained model reads them.

A word written as `[MASK]`, or as the vocabulary writes its mask, is hidden from a model of words behind masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.data.tokens import MASK
from probtrans_cli.data.vocabularies.spelling import looked_up
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.base import ModelBase, beyond_positions


@dataclass(frozen=True)
class Reader:
    """Some sentences as a model reads them: their words alone, encoded, and behind these the extra words that the task
    asks for. Their gold labels are never read."""

    model: ModelBase
    sentences: Sequence[Sentence]
    masks: frozenset[str]
    """The words that are written as a mask; none where a task predicts something else."""
    split: Split

    @classmethod
    def of(cls, model: ModelBase, sentences: Sequence[Sentence]) -> Reader:
        """Encode the sentences, with a word of one token in the place of each mask."""
        vocabulary = model.vocabulary
        masks = masks_of(model)
        filler = ""
        if any(not masks.isdisjoint(sentence.words) for sentence in sentences):
            entries = (vocabulary.decode(id) for id in range(vocabulary.size) if id not in vocabulary.specials)
            filler = next((word for word in entries if vocabulary.encode_words([word]).sizes == [1]), "[MASK]")
        # With an empty form, so that the words' spelling is kept: tasks that write a form need it.
        extra = extra_words(model.extra_words)
        read = []
        for sentence in sentences:
            shown = [filler if word in masks else word for word in sentence.words]
            if not shown:
                read.append(Sentence([], form=""))
                continue
            # Who divided a corpus into words has chosen their spelling; only of raw text nobody has.
            plain = None if sentence.text is None else looked_up(shown, vocabulary.knows, vocabulary.frequency)
            plain = None if plain is None else [*plain, *extra]
            read.append(Sentence([*shown, *extra], extra=len(extra), form="", looked_up=plain))
        return cls(model, sentences, masks, Split.encode(read, vocabulary, {}))

    def shown(self, batch: Batch) -> Batch:
        """Return the batch with the mask's id where a word is written as a mask."""
        if not self.masks:
            return batch
        masked = [
            (row, place)
            for row, index in enumerate(batch.indices.tolist())
            if not self.masks.isdisjoint(words := self.sentences[index].words)
            for place, word in enumerate(words)
            if word in self.masks
        ]
        hidden = torch.zeros_like(batch.words)
        if masked:
            rows, places = zip(*masked, strict=True)
            hidden[rows, places] = True
        return replace(batch, ids=batch.ids.masked_fill(batch.tokens_of(hidden), self.model.vocabulary.MASK))


def no_room(model: ModelBase, sentence: Sentence) -> str | None:
    """Return why the encoder cannot read a sentence, that it has too few positions; None: it can."""
    limit = model.network.longest
    # Hardly a character becomes several tokens, and never more than three; few stand around a sentence or behind it.
    if limit is None or 3 * sum(map(len, sentence.words)) + 2 + model.extra_words <= limit:
        return None
    tokens = int(Reader.of(model, [sentence]).split.lengths[0])
    return beyond_positions(tokens, limit) if tokens > limit else None


def masks_of(model: ModelBase) -> frozenset[str]:
    """Return the spellings of a hidden word for a model that predicts words; none for other models."""
    vocabulary = model.vocabulary
    return frozenset({MASK, vocabulary.decode(vocabulary.MASK)} if model.task.answers.kind == "words" else ())
