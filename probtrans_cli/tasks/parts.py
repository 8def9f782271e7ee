"""A task with parts: several tasks that share one encoder, each with an output layer of its own.

    L = Σ_p weight_p L_p                each term of a part is a mean over its own things: words, pairs, arcs, ...

A part is a task as any other: it makes its output layer, terms, counts, scores and predictions, and knows nothing of
the other parts. What leaves or enters a part is renamed here:

                     of the part `upos`         of the task
scores of the layer  words (its main ones)      upos
further scores       other                      upos.other
term                 loss; other                upos; upos.other
count                key                        ("upos", key)
score, prediction    accuracy, tags             as :class:`Part` says
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import SeveralOutputs
from probtrans_cli.recipe.task import TaskSection
from probtrans_cli.tasks.base import OUTPUT, Counts, Places, Prediction, Questions, Task, Term
from probtrans_cli.tasks.batch import Batch


@dataclass(frozen=True)
class Part:
    """A part of a task.

    Args:
        weight: of its loss.
        scores: the scores that are reported, each with its name in the report; None = all, as they are.
        answers: the entries of its predictions, each with its name in those of the task; None = all, as they are.
    """

    task: Task
    weight: float = 1.0
    scores: Mapping[str, str] | None = None
    answers: Mapping[str, str] | None = None


class Parts(Task):
    """A task with parts. The loss is their weighted sum, and the first part is the main one."""

    def __init__(
        self,
        section: TaskSection,
        vocabulary: Vocabulary,
        labels: Mapping[str, Sequence[str]],
        parts: Mapping[str, Part],
        beside: Mapping[str, Part] = MappingProxyType({}),
    ) -> None:
        """``parts``: by name. A part `words` is the one that predicts words of the vocabulary. ``beside``: parts that
        are learned from, and have neither scores nor answers."""
        super().__init__(section, vocabulary, labels)
        self.parts, self.all_parts = dict(parts), {**parts, **beside}
        self.tasks = {name: part.task for name, part in self.all_parts.items()}
        self.outputs = next(iter(self.tasks.values())).outputs
        draws = next((n for part in parts.values() if (n := part.task.answers.draws) is not None), None)
        if draws is not None:  # some part hides words, so an evaluation goes over its masks
            self.answers = replace(self.answers, draws=draws)
        self.columns = {name: fill for task in self.tasks.values() for name, fill in task.columns.items()}

    def output(self, encoder: Encoder) -> SeveralOutputs:
        layers = {name: task.output(encoder) for name, task in self.tasks.items()}
        self.output_rows = {  # by the parts' names; those of words as they have them alone, so that both fit
            name if key == OUTPUT and name != "words" else key: rows
            for name, task in self.tasks.items()
            for key, rows in task.output_rows.items()
        }
        main_scores = {name: task.answers.scores for name, task in self.tasks.items()}
        return SeveralOutputs(layers, main_scores, answering=self.parts.keys())

    def start(self, network: Network, split: Split) -> None:
        for task in self.tasks.values():
            task.start(network, split)

    # --- batches ------------------------------------------------------------------------------------------------------

    def training(self, batch: Batch) -> Batch:
        """Let the parts change the batch in turn. Where several choose the words that are scored, all words are."""
        return self._in_turn(batch, lambda task, changed: task.training(changed))

    def evaluation(self, batch: Batch, number: int) -> Batch:
        return self._in_turn(batch, lambda task, changed: task.evaluation(changed, number))

    def _in_turn(self, batch: Batch, change: Callable[[Task, Batch], Batch]) -> Batch:
        chosen = []
        for task in self.tasks.values():
            batch = change(task, replace(batch, scored=None))
            chosen += [] if batch.scored is None else [batch.scored]
        return replace(batch, scored=chosen[0] if len(chosen) == 1 else None)

    def wants(self, batch: Batch) -> Wants:
        """Return what the parts want. In a batch, all that ask for words, or for tokens, ask for the same ones; a part
        that wants no scores of a batch, as it has no gold for it, is left out."""
        wants = {name: task.wants(batch) for name, task in self.tasks.items()}
        wanting = {name: of_part for name, of_part in wants.items() if of_part.scores}
        words, tokens = (
            {id(mask): mask for of_part in wanting.values() if (mask := getattr(of_part, name)) is not None}
            for name in ("words", "tokens")
        )
        assert len(words) + len(tokens) <= 1, "parts ask for the same words"
        return Wants(
            words=next(iter(words.values()), None),
            tokens=next(iter(tokens.values()), None),
            sentence=any(of_part.sentence for of_part in wanting.values()),
            candidates=batch.candidates,
            parts=None if wanting.keys() == self.parts.keys() else frozenset(wanting),
        )

    def outputs_of(self, name: str, outputs: Outputs) -> Outputs:
        """Return the outputs of a part, by the names that it knows them by."""
        main, beginning = self.tasks[name].answers.scores, f"{name}."
        of_part: dict[str, Any] = {}
        for kind in ("scores", "variances", "doubt"):
            values = getattr(outputs, kind)
            of_part[kind] = {
                key.removeprefix(beginning): value for key, value in values.items() if key.startswith(beginning)
            }
            if name in values:
                of_part[kind][main] = values[name]
        return replace(outputs, **of_part)

    # --- the loss and the scores --------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        return {
            name if term == "loss" else f"{name}.{term}": count
            for name, task in self.tasks.items()
            for term, count in task.counts(batch).items()
        }

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        terms: dict[str, Term] = {}
        for name, part in self.all_parts.items():
            of_part = self.outputs_of(name, outputs)
            if of_part.scores:
                own_terms = part.task.terms(of_part, batch)
            else:  # no scores of it are wanted of this batch, and its counts are 0
                own_terms = {key: Term(torch.zeros_like(n), n) for key, n in part.task.counts(batch).items()}
            for key, term in own_terms.items():
                terms[name if key == "loss" else f"{name}.{key}"] = replace(term, weight=part.weight * term.weight)
        return terms

    def questions(self, batch: Batch) -> Questions | None:
        """Return those of the main part."""
        name, task = next(iter(self.tasks.items()))
        questions = task.questions(batch)
        return None if questions is None else questions._replace(scores=name)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        counts = Counts()
        for name, task in self.tasks.items():
            of_part = self.outputs_of(name, outputs)
            if of_part.scores:
                counts.add({(name, key): value for key, value in task.measure(of_part, batch).items()})
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return the scores of the parts, and the ``loss``: the weighted sum of theirs, of those that have one."""
        scores: dict[str, Any] = {}
        loss = None
        for name, part in self.parts.items():
            of_part = part.task.scores(Counts({key[1]: n for key, n in counts.items() if key[0] == name}), final=final)
            if of_part["loss"] is not None:
                loss = (0.0 if loss is None else loss) + part.weight * of_part["loss"]
            scores |= {"loss": None, **_renamed(of_part, part.scores)}
        return scores | {"loss": loss}

    # --- predictions --------------------------------------------------------------------------------------------------

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        predictions: list[Prediction] = [{} for _ in batch.indices]
        for name, part in self.parts.items():
            of_part = part.task.predict(self.outputs_of(name, outputs), batch, top)
            predictions = [
                {**joined, **_renamed(prediction, part.answers)}
                for joined, prediction in zip(predictions, of_part, strict=True)
            ]
        return predictions

    def located(self, prediction: Prediction, sentence: Sentence) -> Prediction:
        for part in self.parts.values():
            own = part.task.located(_renamed(prediction, part.answers, back=True), sentence)
            prediction = {**prediction, **_renamed(own, part.answers)}
        return prediction

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return the places of all parts; the lines below a word one part after the other."""
        of_parts = [
            part.task.places(_renamed(prediction, part.answers, back=True), probability=probability)
            for part in self.parts.values()
        ]
        words = max(len(places.notes) for places in of_parts)
        notes: list[list[str]] = [[] for _ in range(words)]
        for places in of_parts:
            for word, lines in enumerate(places.notes):
                notes[word] += lines
        return Places(
            columns={name: values for places in of_parts for name, values in places.columns.items()},
            misc={name: values for places in of_parts for name, values in places.misc.items()},
            comments={name: values for places in of_parts for name, values in places.comments.items()},
            notes=notes,
            spans=[span for places in of_parts for span in places.spans],
            title=", ".join(places.title for places in of_parts if places.title),
            lines=[line for places in of_parts for line in places.lines],
            arcs=[arc for places in of_parts for arc in places.arcs],
        )


def _renamed(entries: Mapping[str, Any], names: Mapping[str, str] | None, *, back: bool = False) -> dict[str, Any]:
    """Return entries of a part by their ``names`` in the task, see :class:`Part`; ``back``: the other way round."""
    if names is None:
        return dict(entries)
    pairs = [(new, old) if back else (old, new) for old, new in names.items()]
    return {new: entries[old] for old, new in pairs if old in entries}
