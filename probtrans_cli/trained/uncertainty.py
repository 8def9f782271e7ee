"""How far a model's probabilities can be relied on, on a split: what `eval --uncertainty` adds to the scores.

A question has one right answer: the tag of a word, the label of a sentence, a hidden word. The answer is the most
probable class, its confidence the probability of it. Labels that train lacks: every answer is wrong, and there is no
loss. The scores themselves are in ``statistics/uncertainty.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.bayesian.readout import entropy
from probtrans_cli.statistics import uncertainty
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.arcs import Reading, divided, read_arcs
from probtrans_cli.trained.evaluation import answered, columns, evaluate
from probtrans_cli.trained.inner import INNER, inner_doubt, with_inner_wants
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import Predictor
from probtrans_cli.trained.ways import predictor_of, temperature_of

PARTS = ("entropy", "expected_entropy", "mutual_information")
"""Of the doubt; the last two only where there are members."""


class Notes:
    """What is noted of every question of a split, as the watch of an evaluation; a row a question.

    ``sentence``; ``known``, whether the right answer is among the classes; ``right``; ``confidence``; ``nll`` and
    ``brier`` of it; the parts of the doubt; and the entropies inside the network, where there are some. ``other``: the
    scores are multiplied by it once more, for ``other_confidence`` and ``other_nll``; None: they are not.
    """

    def __init__(self, model: Model, predictor: Predictor, other: float | None = None) -> None:
        self.model, self.predictor, self.other = model, predictor, other
        self.names = (*PARTS, *INNER) if predictor.several else (PARTS[0], *INNER)
        self.rows: dict[str, list[np.ndarray]] = {}

    def __call__(self, outputs: Outputs, batch: Batch) -> None:
        """Note a batch."""
        questions = self.model.task.questions(batch)
        assert questions is not None, "a task without questions is refused"
        scores, doubt, gold = outputs.scores[questions.scores], outputs.doubt[questions.scores], questions.gold
        chances, known = doubt.probabilities, gold >= 0
        confidence, best = chances.max(-1)
        of_gold = _at(chances, gold)
        found = {
            "sentence": torch.from_numpy(batch.indices).to(questions.rows.device)[questions.rows],
            "known": known,
            "right": best == gold,
            "confidence": confidence,
            "nll": -_at(scores.float().log_softmax(-1), gold),
            "brier": chances.square().sum(-1) + known * (1.0 - 2.0 * of_gold),
            **{name: getattr(doubt, name) for name in self.names if name in PARTS},
        }
        if self.other is not None:
            others = (scores.float() * self.other).log_softmax(-1)
            found |= {"other_confidence": others.max(-1).values.exp(), "other_nll": -_at(others, gold)}
        inner = inner_doubt(self.model, self.predictor, outputs)
        found |= {name: _of_questions(values, batch, self.model) for name, values in inner.items()}
        for name, values in found.items():
            self.rows.setdefault(name, []).append(values.cpu().numpy())

    def __getitem__(self, name: str) -> np.ndarray:
        return np.concatenate(self.rows[name])

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def __len__(self) -> int:
        return sum(map(len, self.rows.get("right", ())))

    def of_sentences(self, name: str) -> np.ndarray:
        """The mean of every sentence with a question."""
        sentence, values = self["sentence"], self[name]
        numbers = np.bincount(sentence)
        return np.asarray(np.bincount(sentence, weights=values)[numbers > 0] / numbers[numbers > 0])


def _at(values: Tensor, gold: Tensor) -> Tensor:
    """The values of the right answers; of the first class where that is not known."""
    return values.gather(-1, gold.clamp(min=0)[:, None])[:, 0]


def _of_questions(values: Tensor, batch: Batch, model: Model) -> Tensor:
    """Values of tokens ``[b, n]`` for every question: that of its word, or the mean over the words of its sentence."""
    wants = model.task.wants(batch)
    tokens = wants.tokens if wants.words is None else batch.tokens_of(wants.words)
    if tokens is not None:
        return values[tokens]
    words = batch.tokens_of(batch.words)
    return (values * words).sum(1) / words.sum(1).clamp(min=1)


class _AskedMore(Predictor):
    """A predictor that is asked for what the doubt inside the network is of, too."""

    def __init__(self, model: Model, predictor: Predictor) -> None:
        self.model, self.predictor = model, predictor

    def ready(self) -> Self:
        self.predictor.ready()
        return self

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        return self.predictor(inputs, with_inner_wants(self.model, self.predictor, wants))


def uncertainty_scores(
    model: Model, predictor: Predictor, split: Split, *, reading: Reading | None = None, ood: Split | None = None
) -> dict[str, Any]:
    """The task's scores on a split; beside them ``uncertainty``, and with another text ``ood`` how well the doubt tells
    the two apart.

    Args:
        model: whose task is scored.
        predictor: who is asked; with its doubt.
        split: where.
        reading: which arcs are also scored, whether their wrong heads are the doubtful ones, where the arcs belong to
            the predictor's answers; None: none.
        ood: a text that may be unlike the training's.

    Raises:
        NothingToScoreError: the split has nothing that the task is scored by.
    """
    assert predictor.doubt, "a predictor without doubt is asked for it"
    other = other_scale(model, predictor)
    notes = Notes(model, predictor, other)
    how, asked = model.evaluation(), predictor
    if model.recipe.model.facts.has_head_variables:
        asked, channels = _AskedMore(model, predictor), model.recipe.model.channels
        batches = how.batches
        how = how._replace(
            batches=lambda split: [part for whole in batches(split) for part in divided(split, whole, channels)]
        )
    scores = evaluate(model.task, asked, split, how, final=True, watch=notes)
    found = of_notes(notes)
    if other is not None:
        name = "with_temperature" if temperature_of(model) == 1.0 else "without_temperature"
        found |= {"temperature": model.temperature, name: _of_other(notes)}
    if reading is not None and predictor.own_arcs:
        found["arc_error_auroc"] = arc_error_auroc(model, split, reading, predictor)
    scores["uncertainty"] = found
    if ood is not None:
        others = Notes(model, predictor)
        for outputs, batch in answered(model.task, asked, ood, how, passes=model.task.passes(final=True)):
            others(outputs, batch)
        scores["ood"] = _told_apart(notes, others, len(ood))
    return scores


def other_scale(model: Model, predictor: Predictor) -> float | None:
    """By what a model's scores are multiplied to have the temperature that dev chose, or to have none where they have
    it already; None where there is none, or where the model is asked in another way than dev was."""
    if model.temperature is None or predictor != predictor_of(model, doubt=predictor.doubt):
        return None
    used = temperature_of(model)
    return 1.0 / model.temperature if used == 1.0 else used


def of_notes(notes: Notes) -> dict[str, Any]:
    """The scores of all questions."""
    confidence, right, known = notes["confidence"], notes["right"], notes["known"]
    found: dict[str, Any] = {"number": len(notes), "nll": _mean_of(notes["nll"], known)}
    found["brier"] = float(notes["brier"].mean(dtype=np.float64))
    found["ece"] = uncertainty.calibration_error(confidence, right)
    found["ece_floor"] = uncertainty.ece_floor(confidence)
    found["ece_width"] = uncertainty.calibration_error(confidence, right, by="width")
    found["aurc"] = uncertainty.risk_coverage_area(confidence, right)
    found["error_auroc"] = uncertainty.auroc(1.0 - confidence[right], 1.0 - confidence[~right])
    for name in ("mutual_information", *INNER):
        if name in notes:
            found[f"error_auroc_{SHORT[name]}"] = uncertainty.auroc(notes[name][right], notes[name][~right])
    found |= {name: float(notes[name].mean(dtype=np.float64)) for name in (*PARTS, *INNER) if name in notes}
    ways: tuple[uncertainty.By, ...] = ("mass", "width")
    bins = {by: uncertainty.reliability(confidence, right, by=by) for by in ways}
    found["reliability"] = {by: [one._asdict() | {"error": one.error} for one in of_way] for by, of_way in bins.items()}
    return found


SHORT: Mapping[str, str] = {
    "mutual_information": "mi",
    "latent_label_entropy": "latent_labels",
    "head_entropy": "heads",
}
"""How a doubt is called in the name of a score."""


def _of_other(notes: Notes) -> dict[str, Any]:
    nll = _mean_of(notes["other_nll"], notes["known"])
    return {"nll": nll, "ece": uncertainty.calibration_error(notes["other_confidence"], notes["right"])}


def _mean_of(values: np.ndarray, known: np.ndarray) -> float | None:
    return float(values[known].mean(dtype=np.float64)) if known.any() else None


def _told_apart(notes: Notes, others: Notes, sentences: int) -> dict[str, Any]:
    """How well the doubt about sentences, the mean over their questions, tells another text from this one."""
    found: dict[str, Any] = {"sentences": sentences}
    for name in ("entropy", "mutual_information"):
        if name in notes and len(others):
            score = "ood_auroc" if name == "entropy" else "ood_auroc_mi"
            found[score] = uncertainty.auroc(notes.of_sentences(name), others.of_sentences(name))
            found[name] = float(others[name].mean(dtype=np.float64))
    return found


def arc_error_auroc(model: Model, split: Split, reading: Reading, predictor: Predictor) -> float | None:
    """The AUROC of wrong arcs above right ones by the entropy of the word's head variable, in the channel that is read,
    or its mean over channels. Punctuation, and words that are not read, are left out."""
    gold, punct = columns(split, "heads"), columns(split, "punct") if split.has("punct") else None
    values: list[np.ndarray] = []
    wrong: list[np.ndarray] = []
    for batch, trees in read_arcs(model, split, [reading], predictor=predictor):
        ((heads, *_),) = list(trees)
        of_channels = _entropies(batch.arcs[:, 0])
        doubt = of_channels.mean(1) if reading.channel == "mean" else of_channels[:, reading.channel]
        for row, index in enumerate(batch.indices):
            real = batch.mask[row]
            kept = np.ones(int(real.sum()), dtype=bool) if punct is None else ~punct[index].astype(bool)
            if batch.host is not None:
                kept &= batch.host[row][real] < 0
            values.append(doubt[row][real][kept])
            wrong.append((heads[row][real] != gold[index])[kept])
    doubts, faults = _joined(values), _joined(wrong).astype(bool)
    return uncertainty.auroc(doubts[~faults], doubts[faults])


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *parts])


def _entropies(probabilities: np.ndarray) -> np.ndarray:
    return entropy(torch.from_numpy(probabilities)).numpy()
