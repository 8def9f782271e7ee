"""Surprisal of words in bits: a table for a corpus, and which sentence of a minimal pair is more probable.

A minimal pair is a grammatical sentence and one that differs from it in little and is not (Warstadt et al. 2020). A
causal language model is right if all bits of the good sentence together are fewer than those of the bad one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

import numpy as np

from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.data.readers.lines import json_object
from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.models.base import Outputs
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import Counts, Prediction, Task
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.text import harmless, json_line, rounded
from probtrans_cli.trained.model import Model

MEASURES = ("surprisal", "entropy", "rank")
PAIR = '{"sentence_good": "...", "sentence_bad": "..."}'
PHENOMENON = ("linguistics_term", "phenomenon", "UID")  # keys that may name it, the first before the others
TIE = 1e-4  # bits that rounding may make of the same words in two sentences
COLUMNS = ("sentence", "word", "begin", "end", "form", *MEASURES)


@dataclass
class Watched:
    """What a causal language model says of every word that an evaluation scores, by sentence."""

    task: Task
    predictions: dict[int, Prediction] = field(default_factory=dict)

    def __call__(self, outputs: Outputs, batch: Batch) -> None:
        of_batch = self.task.predict(outputs, batch)
        self.predictions.update(zip(batch.indices.tolist(), of_batch, strict=True))

    def rows(self, sentences: Sequence[Sentence], *, as_json: bool) -> Iterator[str]:
        """Yield a table: with ``as_json`` an object for each sentence, else a line for each word, with tabs.

        A word that is not scored has no numbers. Places are those of characters in the sentence's text.
        """
        if not as_json:
            yield "\t".join(COLUMNS) + "\n"
        for number, sentence in enumerate(sentences):
            values: Mapping[str, Sequence[Any]] = self.predictions[number]
            text, places = character_spans(sentence)
            if as_json:
                name = {} if sentence.id is None else {"id": sentence.id}
                record = {"sentence": number + 1, **name, "text": text, "words": sentence.words, "characters": places}
                yield json_line(record | {key: rounded(values[key]) for key in MEASURES}) + "\n"
                continue
            for index, (word, place) in enumerate(zip(sentence.words, places, strict=True)):
                measures = ["" if (value := values[key][index]) is None else rounded(value) for key in MEASURES]
                cells = [number + 1, index + 1, *place, harmless(word, keep=""), *measures]
                yield "\t".join(map(str, cells)) + "\n"


def score_pairs(predictions: str, gold: str | None, *, model: str | None = None) -> dict[str, Any]:
    """Return the share of minimal pairs whose good sentence is more probable, of all and by phenomenon.

    Args:
        predictions: JSON lines with the keys of BLiMP: ``sentence_good``, ``sentence_bad``, and for the phenomenon
            ``linguistics_term`` or else ``phenomenon`` or ``UID``. Without a ``model`` also ``surprisal_good`` and
            ``surprisal_bad``, the bits of both as another system has them.
        gold: None; a pair says itself which sentence is the good one.
        model: a CKPT of a causal language model.

    Raises:
        DataError: the file cannot be read, or a line is no pair.
        UsageError: there is a gold file, or the model predicts no next words.
    """
    if gold is not None:
        raise UsageError("--gold: a minimal pair says itself which sentence is good", hint="leave it out")
    name = display_name(predictions)
    lines = ((f"{name}:{number}", line) for number, line in enumerate(open_lines(find(predictions, once=True)), 1))
    pairs = [(where, json_object(line, where, PAIR)) for where, line in lines if line.strip()]
    if not pairs:
        raise DataError(f"{name}: there is no pair in it", hint="check the file")
    if model is None:
        bits = [_bits_of(pair, where) for where, pair in pairs]
    else:
        for (where, pair), key in product(pairs, ("sentence_good", "sentence_bad")):
            if not (isinstance(text := pair.get(key), str) and text.strip()):
                fault = "is no text" if key in pair else "is not there"
                raise DataError(f"{where}: {key} {fault}", hint=f"write {PAIR}")
        texts = list(chain.from_iterable((pair["sentence_good"], pair["sentence_bad"]) for _, pair in pairs))
        sums = [math.fsum(value for _, value in words) for words in Model.load(model).surprisal(texts)]
        bits = list(zip(sums[::2], sums[1::2], strict=True))
    ties = np.array([abs(good - bad) < TIE for good, bad in bits])
    right = np.array([good < bad for good, bad in bits]) & ~ties
    terms = np.array([str(next((pair[key] for key in PHENOMENON if key in pair), "")) for _, pair in pairs])
    by_name = {term: _share(right[terms == term]) for term in sorted({*terms.tolist()} - {""})}
    return {**_share(right), "ties": int(ties.sum()), **({"phenomena": by_name} if by_name else {})}


def _bits_of(pair: Mapping[str, Any], where: str) -> tuple[float, float]:
    bits = [pair.get(f"surprisal_{which}") for which in ("good", "bad")]
    if not all(isinstance(value, int | float) and abs(value) <= sys.float_info.max for value in bits):
        hint = "give a causal language model with --model CKPT, or both as numbers"
        raise DataError(f"{where}: has no surprisal_good and surprisal_bad", hint=hint)
    good, bad = map(float, bits)  # type: ignore[arg-type]  # numbers, see above
    if min(good, bad) < -TIE:
        hint = "a surprisal is -log p: of logarithms of probabilities, turn the signs"
        raise DataError(f"{where}: a surprisal of {min(good, bad)}, which is negative", hint=hint)
    return good, bad


def _share(right: np.ndarray) -> dict[str, Any]:
    counts = Counts(moments("accuracy", right, np.ones_like(right, dtype=float)))
    share: dict[str, Any] = {"accuracy": float(right.mean()), "pairs": len(right)}
    limits = interval("accuracy", counts)
    return share if limits is None else share | {"accuracy_interval": limits}
