"""COGS as five labels a word (Ontañón et al. 2022; Wu & Tu 2023, D.4), scored by whole sentences.

    role, category, noun type, verb    a linear layer each on the word's representation x_i
    category, verb by the word alone   the same layer on its unary scores S_w, which no neighbour changes
    parent, relative or absolute       one more: the distance to the parent, or its position; `none` is a label as well
    parent by category                 one more: `+1 VERB` is the first verb to the right (Strzyz et al. 2019)
    parent by attention                P_i(j) ∝ exp( (A x_i) · (B x_j) / √d ),  j ≠ i, or none: with k_0 for B x_j

Labels are those that are best of every word in every column, or of a sentence as a whole (`tasks/whole_sentences.py`).
The loss is the sum of the five cross entropies, its mean over words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.data.logical_forms import NONE, GraphLabels, graph_labels, graph_record, logical_form
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.arithmetic import Linear, Values
from probtrans_cli.models.base import Encoder, Outputs
from probtrans_cli.models.bayesian.propagation import apply
from probtrans_cli.models.outputs import OutputLayer, View
from probtrans_cli.recipe.task import SemanticParsing
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.tasks.base import OUTPUT, Answers, Counts, OutputRows, Places, Prediction, Task, Term
from probtrans_cli.tasks.batch import PADDING, UNLEARNED, Batch
from probtrans_cli.tasks.whole_sentences import COLUMNS, WholeSentences

_PREPOSITION = "PREP"
_CASE = "case"


class SemanticOutput(OutputLayer, nn.Module):
    """Scores of all labels of the words, and of their parents by attention."""

    def __init__(self, width: int, labels: Sequence[int], *, attention: bool, alone: Sequence[bool] = ()) -> None:
        """``labels``: the number of each column's; ``alone``: of every label, whether it is read from the word's own
        unary scores, not from its state."""
        super().__init__()
        self.sizes = {"words": labels}
        self.labels = Linear(width, sum(labels))
        self.of_words: Tensor | None
        self.register_buffer("of_words", torch.tensor(alone) if any(alone) else None, persistent=False)
        self.child = Linear(width, width, bias=False) if attention else None
        self.parent = Linear(width, width, bias=False) if attention else None
        self.none = nn.Parameter(torch.zeros(width)) if attention else None
        # Not by attention, where a parent's score is a product of two uncertain vectors, nor of words alone.
        self.has_moments = not attention and self.of_words is None

    def read(self, view: View) -> Mapping[str, Values]:
        """Return ``words [m, o]``, and by attention ``parents [m, 1 + w]``: none, or which word."""
        states, words = view.states, view.wants.words
        labels = apply(self.labels, states)
        if self.of_words is not None:
            labels = torch.where(self.of_words, self.labels(view.alone), labels)
        scores: dict[str, Values] = {"words": labels}
        if self.child is not None:
            assert words is not None, "the task asks for words"
            scores["parents"] = view.in_rows(self.parents(view.in_sentences(states), words))
        return scores

    def parents(self, states: Tensor, mask: Tensor) -> Tensor:
        """Score the parents ``[b, n, 1 + n]``: none, or which word; padding and the word itself can be none."""
        assert self.child is not None and self.parent is not None and self.none is not None  # noqa: PT018
        child, parent = self.child(states) * states.shape[-1] ** -0.5, self.parent(states)
        itself = torch.eye(states.shape[1], dtype=torch.bool, device=states.device)
        scores = (child @ parent.mT).masked_fill(itself | ~mask[:, None, :], -torch.inf)
        return torch.cat([(child @ self.none)[..., None], scores], dim=-1)


class SemanticLabels(Task):
    """Loss: sum of five cross entropies. Score: share of sentences of which everything is right."""

    answers = Answers(kind="graphs", alternatives=False)
    section: SemanticParsing

    def __init__(self, section: SemanticParsing, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.attention = section.parent == "attention"
        self.names = {name: ["" if label == NONE else label for label in labels[name]] for name in section.learned}
        self.cases = list(labels[_CASE])
        self.outputs = sum(map(len, self.names.values()))
        self.columns = {**dict.fromkeys(self.names, PADDING), "parents": PADDING, _CASE: UNLEARNED}
        of_sentences = section.decode == "sentence"
        self.frames = ["" if label == NONE else label for label in labels["frame"]] if of_sentences else None
        self.decoder = None if self.frames is None else WholeSentences(self.frames, self.names)
        # An export reads these: the labels of each column, how parents are learned, and labels of whole sentences.
        rules = {"columns": self.names, "parent": section.parent, "frames": self.frames}
        self.answers = replace(self.answers, rules=rules)
        rows = tuple(f"{column} {name or 'none'}" for column, names in self.names.items() for name in names)
        kinds = " and ".join({"kind": "kinds", "verb_name": "verbs"}[name] for name in section.alone)
        alone = f", {kinds} by the words alone" if kinds else ""
        self.output_rows = {OUTPUT: OutputRows(f"labels of COGS{alone}", rows)}

    def output(self, encoder: Encoder) -> SemanticOutput:
        """Make one product of all labels; those that the word alone tells are read from its unary scores."""
        alone = [name in self.section.alone for name, labels in self.names.items() for _ in labels]
        sizes = [len(names) for names in self.names.values()]
        return SemanticOutput(encoder.facts.width, sizes, attention=self.attention, alone=alone)

    def _scores(self, outputs: Outputs) -> dict[str, Tensor]:
        together = torch.split(outputs.scores["words"].float(), [*map(len, self.names.values())], dim=-1)
        scores = dict(zip(self.names, together, strict=True))
        return scores | ({"parents": outputs.scores["parents"].float()} if self.attention else {})

    def _gold(self, batch: Batch) -> dict[str, Tensor]:
        gold = {name: batch.picked(batch.gold[name]) for name in self.names}
        return gold | ({"parents": batch.picked(batch.gold["parents"]) + 1} if self.attention else {})

    def _best(self, scores: Mapping[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        """Return label ids ``[m]`` of every column: the best of every word, where what is known to be a preposition,
        and nothing else, has its role; or the best of whole sentences, but for one that has none, or is one word."""
        best = {name: of_words.argmax(-1) for name, of_words in scores.items()}
        if "kind" in best and _PREPOSITION in self.names["kind"]:
            kind, role = (self.names[name].index(_PREPOSITION) for name in ("kind", "role"))
            others = scores["role"].index_fill(-1, torch.tensor(role, device=best["role"].device), -torch.inf)
            best["role"] = torch.where(best["kind"] == kind, role, others.argmax(-1))
        if self.decoder is None:
            return best
        # The labels of a whole sentence replace the best ones of its words, where some keep the rules.
        logs = {name: scores[name].log_softmax(-1).cpu().numpy() for name in COLUMNS}
        kinds = [self.names["kind"][id] for id in best["kind"].tolist()]
        labels_of_words = {name: best[name].tolist() for name in COLUMNS}
        ends = np.cumsum(batch.words.sum(1).cpu().numpy()).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            if end - start > 1:
                of_sentence = {name: of_words[start:end] for name, of_words in logs.items()}
                labels = self.decoder.find(kinds[start:end], of_sentence) or {}
                for name, ids in labels.items():
                    labels_of_words[name][start:end] = ids
        for name, ids in labels_of_words.items():
            best[name] = torch.tensor(ids, device=best[name].device)
        return best

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        return super().counts(batch) if self.section.loss == "words" else {"loss": batch.sentences}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the cross entropies, summed over columns, and over words or over sentences of means over words."""
        gold, scores = self._gold(batch), self._scores(outputs)
        losses = [functional.cross_entropy(scores[name], gold[name], reduction="none") for name in gold]
        of_words = torch.stack(losses).sum(0)
        if self.section.loss == "sentences":
            of_words = of_words / batch.picked(batch.words.sum(1, keepdim=True).expand_as(batch.words))
        return {"loss": Term(of_words.sum(), self.counts(batch)["loss"])}

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Count words and sentences, and those that are right, as a whole and column by column."""
        gold, scores, counts = self._gold(batch), self._scores(outputs), Counts()
        for name, wanted in gold.items():
            loss = functional.cross_entropy(scores[name], wanted, reduction="sum", ignore_index=UNLEARNED)
            counts["loss", name], counts["labelled", name] = float(loss), int((wanted >= 0).sum())
        predicted = self._best(scores, batch)
        best = torch.stack([predicted[name] for name in gold])
        right = (best == torch.stack(list(gold.values()))).cpu().numpy()
        right = np.vstack([right.all(0), right])
        lengths = batch.words.sum(1).cpu().numpy()
        ends = np.cumsum(lengths)
        of_sentences = np.logical_and.reduceat(right, ends - lengths, axis=1)
        counts |= {"words": right.shape[1], "right": int(right[0].sum()), "sentences": len(batch)}
        counts.add(moments("exact", of_sentences[0], np.ones(len(batch))))
        for name, values in zip(["exact", *gold], of_sentences, strict=True):
            counts["exact", name] = int(values.sum())
        cases = batch.gold[_CASE][:, 0].tolist() if _CASE in batch.gold else [-1] * len(batch)
        for case, value in zip(cases, of_sentences[0].tolist(), strict=True):
            name = self.cases[case] if case >= 0 else "other"
            counts.add({("case", name): 1, ("right case", name): value})
        for index, ids in zip(batch.indices.tolist(), np.split(best.cpu().numpy(), ends[:-1], axis=1), strict=True):
            if batch.split.has("form") and (form := batch.split.text("form", index)):
                words = batch.split.text("spelling", index).split(" ")
                rebuilt = logical_form(words, self._analysis(dict(zip(gold, ids, strict=True))))
                counts.add({"forms": 1, "right forms": rebuilt == form})
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``exact``: all labels of the sentence are right; ``labels``: share of words; ``loss``;
        ``exact_COLUMN``.

        Finally, where the corpus has logical forms: ``form``, the share of sentences whose form, rebuilt from the
        labels, is the gold one; ``exact_interval``; and ``cases``, ``exact`` for every kind of example.
        """
        columns = [*self.names, *(["parents"] if self.attention else [])]
        sentences = counts["sentences"]
        result: dict[str, Any] = {"exact": counts["exact", "exact"] / sentences}
        result |= {"form": counts["right forms"] / counts["forms"]} if final and counts["forms"] else {}
        result |= {f"exact_{name}": counts["exact", name] / sentences for name in columns}
        losses = [counts.mean(("loss", name), ("labelled", name)) for name in columns]
        finite = [loss for loss in losses if loss is not None]
        loss = sum(finite) if len(finite) == len(losses) else None
        result |= {"labels": counts["right"] / counts["words"], "loss": loss}
        cases = sorted(key[1] for key in counts if isinstance(key, tuple) and key[0] == "case")
        shares = {name: counts["right case", name] / counts["case", name] for name in cases}
        return result | ({"exact_interval": interval("exact", counts), "cases": shares} if final else {})

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return the ``labels`` of the words, column by column, and the ``logical_form`` that is rebuilt from them."""
        del top
        best = {name: ids.cpu().numpy() for name, ids in self._best(self._scores(outputs), batch).items()}
        ends = np.cumsum(batch.words.sum(1).cpu().numpy())[:-1]
        of_sentences = [np.split(ids, ends) for ids in best.values()]
        predictions: list[Prediction] = []
        for index, ids in zip(batch.indices.tolist(), zip(*of_sentences, strict=True), strict=True):
            words = batch.split.text("spelling", index).split(" ") if batch.split.has("spelling") else None
            predictions.append(dict(graph_record(self._analysis(dict(zip(best, ids, strict=True))), words)))
        return predictions

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return a comment of the sentence."""
        del probability
        form = prediction["logical_form"]
        return Places() if form is None else Places(comments={"logical_form": form})

    def _analysis(self, ids: dict[str, np.ndarray]) -> GraphLabels:
        texts = {name: [names[id] for id in ids[name]] for name, names in self.names.items()}
        by_attention = [int(id) - 1 for id in ids["parents"]] if self.attention else None
        return graph_labels(texts, self.section.parent, by_attention)
