"""How far a model's probabilities can be relied on, on a split: what `eval --uncertainty` adds to the scores.

A question has one right answer: the tag of a word, the label of a sentence, a hidden word. The answer is the most
probable class, its confidence the probability of it. Labels that train lacks: every answer is wrong, and there is no
loss. The scores themselves are in ``statistics/uncertainty.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.models.base import Outputs
from probtrans_cli.models.bayesian.readout import entropy
from probtrans_cli.statistics import uncertainty
from probtrans_cli.tasks.base import Choices
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.arcs import divided, head_choices
from probtrans_cli.trained.base import ModelBase, Reading
from probtrans_cli.trained.evaluation import answered, evaluate
from probtrans_cli.trained.predictor import (
    INNER,
    PredictOptions,
    Predictor,
    inner_doubt,
    predictor_of,
    temperature_of,
    with_inner_wants,
)

Columns = Mapping[str, Tensor]
PARTS = ("entropy", "expected_entropy", "mutual_information")
"""Of the doubt; the last two only where there are members."""
HEADS = "heads"  # the choice whose probabilities have the temperature of arcs


@dataclass
class Notes:
    """What is noted of every question of a split, as the watch of an evaluation; a row a question.

    ``sentence``; ``learned``, whether the right answer is among the classes; ``right``; ``confidence``; ``nll`` and
    ``brier`` of it; the parts of the uncertainty; and the entropies inside the network, where there are some.
    ``scale``: the scores are multiplied by it once more, for ``scaled_confidence`` and ``scaled_nll``; None: they are
    not. ``choices``: the same of the task's choices, by their names; the scaled ones of heads are those without the
    temperature.
    """

    model: ModelBase
    predictor: Predictor
    scale: float | None = None
    rows: list[Columns] = field(default_factory=list)
    choices: defaultdict[str, list[Columns]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, outputs: Outputs, batch: Batch) -> None:
        choices_of = self.model.task.answers.choices
        for name, choices in (choices_of(outputs, batch) if choices_of else {}).items():
            temperature = self.model.arc_temperature if name == HEADS else None
            self.choices[name].append(_of_choices(choices, torch.from_numpy(batch.indices), temperature))
        questions = self.model.task.questions(batch)
        if questions is None:
            return
        scores, doubt, gold = outputs.scores[questions.scores], outputs.doubt[questions.scores], questions.gold
        chances, learned = doubt.probabilities, gold >= 0
        confidence, best = chances.max(-1)
        columns_of_batch = {
            "sentence": torch.from_numpy(batch.indices).to(questions.rows.device)[questions.rows],
            "learned": learned,
            "right": best == gold,
            "confidence": confidence,
            "nll": -_at(scores.float().log_softmax(-1), gold),
            "brier": _brier(chances, gold),
            **{name: getattr(doubt, name) for name in (PARTS if self.predictor.several else PARTS[:1])},
        }
        if self.scale is not None:
            scaled = (scores.float() * self.scale).log_softmax(-1)
            columns_of_batch |= {"scaled_confidence": scaled.max(-1).values.exp(), "scaled_nll": -_at(scaled, gold)}
        if entropies := inner_doubt(self.model, self.predictor, outputs):
            wants, words = self.model.task.wants(batch), batch.tokens_of(batch.words)
            tokens = wants.tokens if wants.words is None else batch.tokens_of(wants.words)
            for name, values in entropies.items():  # that of its word, or the mean over the words of its sentence
                means = (values * words).sum(1) / words.sum(1).clamp(min=1)
                columns_of_batch[name] = means if tokens is None else values[tokens]
        self.rows.append(columns_of_batch)


def _concatenated(rows: Sequence[Columns]) -> dict[str, np.ndarray]:
    # The columns of all batches.
    return {name: torch.cat([columns[name] for columns in rows]).cpu().numpy() for name in (rows[0] if rows else ())}


def _of_choices(choices: Choices, sentences: Tensor, temperature: float | None) -> dict[str, Tensor]:
    # The columns of choices, at a temperature, and without it as the scaled ones; None: there is none.
    plain, gold, chosen = choices.scores.double().log_softmax(-1), choices.gold, choices.chosen
    scores = plain if temperature is None else (plain / temperature).log_softmax(-1)
    chances, is_known = scores.exp(), chosen >= 0
    columns = {
        "sentence": sentences.to(choices.rows.device)[choices.rows],
        "learned": gold >= 0,
        "right": (chosen == gold) & is_known,
        "confidence": torch.where(is_known, _at(chances, chosen), torch.nan),
        "nll": -_at(scores, gold),
        "brier": _brier(chances, gold),
        "entropy": entropy(chances),
    }
    if temperature is not None:
        scaled_confidence = torch.where(is_known, _at(plain, chosen).exp(), torch.nan)
        columns |= {"scaled_confidence": scaled_confidence, "scaled_nll": -_at(plain, gold)}
    return columns


def _brier(chances: Tensor, gold: Tensor) -> Tensor:
    return chances.square().sum(-1) + (gold >= 0) * (1.0 - 2.0 * _at(chances, gold))


def _at(values: Tensor, gold: Tensor) -> Tensor:
    # The values of the right answers; of the first class where that is not known.
    return values.gather(-1, gold.clamp(min=0)[:, None])[:, 0]


def uncertainty_scores(
    model: ModelBase, predictor: Predictor, split: Split, *, reading: Reading | None = None, ood: Split | None = None
) -> dict[str, Any]:
    """Return the task's scores on a split; beside them ``uncertainty``, and with another text ``ood``, how well the
    uncertainty tells the two apart.

    Args:
        reading: these arcs are scored, too: whether the wrong heads are the uncertain ones; only where the arcs belong
            to the predictor's answers. None: none.
    """
    assert predictor.doubt, "the predictor reports its uncertainty"
    scale, temperature = None, temperature_of(model)
    # The temperature of dev, or none where the model predicts with it already; not by another method than dev's.
    if model.temperature is not None and predictor == predictor_of(model, PredictOptions(uncertainty=predictor.doubt)):
        scale = 1.0 / model.temperature if temperature == 1.0 else temperature
    watch = Notes(model, predictor, scale)
    evaluation = model.evaluation()
    if model.recipe.model.facts.has_head_variables:
        batches, channels = evaluation.batches, model.recipe.model.channels
        evaluation = evaluation._replace(
            batches=lambda split: [part for batch in batches(split) for part in divided(split, batch, channels)],
            wants=partial(with_inner_wants, model, predictor),
        )
    scores = evaluate(model.task, predictor, split, evaluation, final=True, watch=watch)
    notes = _concatenated(watch.rows)
    measured = of_notes(notes) if notes else {}
    if scale is not None:
        measured |= _beside(notes, model.temperature, "without" if temperature != 1.0 else "with")
    choices = {name: _concatenated(rows) for name, rows in watch.choices.items()}
    if reading is not None and predictor.own_arcs:
        choices[HEADS], measured["arc_error_auroc"] = arc_notes(model, split, reading, predictor)
    for name, columns in choices.items():
        if len(columns["right"]):
            measured[name] = of_notes(columns)
            if "scaled_nll" in columns:
                measured[name] |= _beside(columns, model.arc_temperature, "without")
    scores["uncertainty"] = measured
    if ood is not None:
        ood_watch = Notes(model, predictor)
        for outputs, batch in answered(model.task, predictor, ood, evaluation, passes=model.task.answers.draws or 1):
            ood_watch(outputs, batch)
        ood_notes = _concatenated(ood_watch.rows)
        scores["ood"] = {"sentences": len(ood)}
        for part, name in (("entropy", "ood_auroc"), ("mutual_information", "ood_auroc_mi")):
            if part in notes and part in ood_notes:
                means = []  # of every sentence with a question
                for noted in (notes, ood_notes):
                    numbers, sums = np.bincount(noted["sentence"]), np.bincount(noted["sentence"], weights=noted[part])
                    means.append(sums[numbers > 0] / numbers[numbers > 0])
                scores["ood"][name] = uncertainty.auroc(*means)
                of_ood = ood_notes[part]  # none, if no word of it was asked for
                scores["ood"][part] = float(of_ood.mean(dtype=np.float64)) if len(of_ood) else None
    return scores


def of_notes(notes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the scores of some answers; those with an unknown confidence, NaN, have a loss alone."""
    is_known = ~np.isnan(notes["confidence"])
    confidence, right = notes["confidence"][is_known], notes["right"][is_known]
    scores: dict[str, Any] = {"number": len(right), "nll": _mean_of(notes["nll"], notes["learned"])}
    scores["brier"] = float(notes["brier"].mean(dtype=np.float64))
    if not len(right):
        return scores
    scores |= uncertainty.confidence_scores(confidence, right)
    for name, short in SHORT.items():
        if name in notes:
            doubt = notes[name][is_known]
            scores[f"error_auroc_{short}"] = uncertainty.auroc(doubt[right], doubt[~right])
    scores |= {name: float(notes[name].mean(dtype=np.float64)) for name in (*PARTS, *INNER) if name in notes}
    both: tuple[uncertainty.By, ...] = ("mass", "width")
    bins = {by: uncertainty.reliability(confidence, right, by=by) for by in both}
    scores["reliability"] = {by: [bin._asdict() for bin in bins[by]] for by in both}
    return scores


def _beside(notes: Mapping[str, np.ndarray], temperature: float | None, name: str) -> dict[str, Any]:
    # Loss and calibration `with` or `without` the temperature, where they are predicted the other way.
    is_known = ~np.isnan(notes["scaled_confidence"])
    ece = None
    if is_known.any():
        ece = uncertainty.calibration_error(notes["scaled_confidence"][is_known], notes["right"][is_known])
    scaled = {"nll": _mean_of(notes["scaled_nll"], notes["learned"]), "ece": ece}
    return {"temperature": temperature, f"{name}_temperature": scaled}


SHORT: Mapping[str, str] = {
    "mutual_information": "mi",
    "latent_label_entropy": "latent_labels",
    "head_entropy": "heads",
}
"""Names of parts of the uncertainty within names of scores."""


def _mean_of(values: np.ndarray, learned: np.ndarray) -> float | None:
    return float(values[learned].mean(dtype=np.float64)) if learned.any() else None


def arc_notes(
    model: ModelBase, split: Split, reading: Reading, predictor: Predictor
) -> tuple[dict[str, np.ndarray], float | None]:
    """Return the columns of :class:`Notes` of the heads that are read, without punctuation; and the AUROC of wrong arcs
    above right ones by the entropy of the word's head variable in the channel that is read, or its mean over channels.
    """
    temperature = model.arc_temperature_of(reading)
    rows: list[Columns] = []
    doubts, faults = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for choices in head_choices(model, split, reading, predictor):
        tensors = Choices(*map(torch.from_numpy, (choices.scores, choices.gold, choices.chosen, choices.sentences)))
        columns = _of_choices(tensors, torch.arange(len(split)), temperature)
        rows.append(columns | {"right": torch.from_numpy(choices.right)})
        doubts.append(choices.doubt)
        faults.append(~choices.right)
    doubt, is_wrong = np.concatenate(doubts), np.concatenate(faults)
    return _concatenated(rows), uncertainty.auroc(doubt[~is_wrong], doubt[is_wrong])
