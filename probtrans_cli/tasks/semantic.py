"""COGS as five labels a word (Ontañón et al. 2022; Wu & Tu 2023, D.4), scored by whole sentences.

    role, category, noun type, verb    a linear layer each on the word's representation x_i
    parent, relative or absolute       one more: the distance to the parent, or its position; `none` is a label as well
    parent by attention                P_i(j) ∝ exp( (A x_i) · (B x_j) / √d ),  j ≠ i, or none: with k_0 for B x_j

The loss is the sum of the five cross entropies, its mean over words.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.data.codecs.logical_forms import NONE, Analysis, logical_form
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.task import LABELS_OF_COGS, SemanticParsing, learned
from probtrans_cli.tasks.base import PADDING, UNSEEN, Evaluation, Loss, Task, at_pieces, features, mean, tensor

OUTSIDE = -3  # a parent that is no word of the sentence
_CASE = "case"


class SemanticOutput(nn.Module):
    """Scores of all labels of the words, and of their parents by attention."""

    def __init__(self, width: int, labels: int, *, attention: bool) -> None:
        super().__init__()
        self.labels = nn.Linear(width, labels)
        self.child = nn.Linear(width, width, bias=False) if attention else None
        self.parent = nn.Linear(width, width, bias=False) if attention else None
        self.none = nn.Parameter(torch.zeros(width)) if attention else None

    def forward(self, states: Tensor) -> Tensor:
        """``[m, o]`` from ``states [m, d]``."""
        scores: Tensor = self.labels(states)
        return scores

    def parents(self, states: Tensor, mask: Tensor) -> Tensor:
        """``[b, n, 1 + n]``: no parent, or which; padding and the word itself are none."""
        assert self.child is not None and self.parent is not None and self.none is not None  # noqa: PT018
        child, parent = self.child(states) * states.shape[-1] ** -0.5, self.parent(states)
        itself = torch.eye(states.shape[1], dtype=torch.bool, device=states.device)
        scores = (child @ parent.mT).masked_fill(itself | ~mask[:, None, :], -torch.inf)
        return torch.cat([(child @ self.none)[..., None], scores], dim=-1)


class SemanticLabels(Task):
    """Loss: sum of five cross entropies. Score: share of sentences of which everything is right."""

    metric = "exact"
    larger_is_better = True

    def __init__(self, section: SemanticParsing, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> None:
        self.attention, self.loss_over = section.parent == "attention", section.loss
        self.columns = learned(section)
        self.names = {column: ["" if name == NONE else name for name in labels[column]] for column in self.columns}
        self.cases = labels[_CASE]
        self.pad = vocabulary.PAD

    @property
    def outputs(self) -> int:
        """One score per label of each column."""
        return sum(map(len, self.names.values()))

    def output(self, encoder: Encoder) -> nn.Module:
        """All labels by one product."""
        return SemanticOutput(encoder.width, self.outputs, attention=self.attention)

    def _scores(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> dict[str, Tensor]:
        """Scores ``[words, labels]`` of every column, and with attention ``parents [words, 1 + w]``."""
        ids = tensor(split.padded("ids", indices, self.pad), device)
        words = tensor(split.padded("parents", indices, PADDING), device) != PADDING
        where = at_pieces(split, indices, ids, words)
        states = network.encode(ids, ids != self.pad, features(split, indices, device), at=where).states[where]
        assert isinstance(network.output, SemanticOutput), "made by this task"
        together = network.output(states).float().split([len(names) for names in self.names.values()], dim=-1)
        scores = dict(zip(self.names, together, strict=True))
        if self.attention:
            padded = states.new_zeros(*words.shape, states.shape[-1]).masked_scatter(words[..., None], states)
            scores["parents"] = network.output.parents(padded, words)[words].float()
        return scores

    def _gold(self, split: Split, indices: np.ndarray, device: torch.device) -> dict[str, Tensor]:
        """Label ids ``[words]`` of every column; of ``parents`` 0 = none, 1 + the position."""
        words = split.padded("parents", indices, PADDING)
        real = words != PADDING
        gold = {name: tensor(split.padded(name, indices, PADDING)[real], device) for name in self.columns}
        return gold | ({"parents": tensor(words[real] + 1, device)} if self.attention else {})

    def loss(self, network: Network, split: Split, indices: np.ndarray, device: torch.device) -> Loss:
        """Training loss, summed over columns, and over words or over sentences of means over words."""
        gold = self._gold(split, indices, device)
        scores = self._scores(network, split, indices, device)
        losses = [functional.cross_entropy(scores[name], gold[name], reduction="none") for name in gold]
        of_words = torch.stack(losses).sum(0)
        if self.loss_over == "words":
            return Loss(of_words.sum(), torch.tensor(len(of_words), device=device))
        lengths = tensor(np.repeat(split.words[indices], split.words[indices]), device)
        return Loss((of_words / lengths).sum(), torch.tensor(len(indices), device=device))

    @torch.inference_mode()
    def evaluate(self, network: Network, split: Split, how: Evaluation, *, final: bool) -> dict[str, Any]:
        """``exact``: all labels of the sentence are right; ``labels``: share of words; ``loss``; ``exact_COLUMN``.

        Finally, where the corpus has logical forms: ``form``, the share of sentences whose form, rebuilt from the
        labels, is the gold one; and ``cases``, ``exact`` for every kind of example.
        """
        words, words_right = 0, 0
        totals: dict[str, float] = defaultdict(float)
        labelled: dict[str, int] = defaultdict(int)
        exact: dict[str, list[bool]] = defaultdict(list)
        forms: list[bool] = []
        of_case: dict[str, list[bool]] = defaultdict(list)
        for indices in how.over(split):
            gold = self._gold(split, indices, how.device)
            with how.autocast():
                scores = self._scores(network, split, indices, how.device)
            for name, wanted in gold.items():
                loss = functional.cross_entropy(scores[name], wanted, reduction="sum", ignore_index=UNSEEN)
                totals[name] += float(loss)
                labelled[name] += int((wanted >= 0).sum())
            best = torch.stack([scores[name].argmax(-1) for name in gold])
            right = (best == torch.stack(list(gold.values()))).cpu().numpy()
            right = np.vstack([right.all(0), right])
            words, words_right = words + right.shape[1], words_right + int(right[0].sum())
            ends = np.cumsum(split.words[indices])
            of_sentences = np.logical_and.reduceat(right, ends - split.words[indices], axis=1).tolist()
            for name, values in zip(["exact", *(f"exact_{name}" for name in gold)], of_sentences, strict=True):
                exact[name] += values
            if final:
                for case, value in zip(split.padded(_CASE, indices, UNSEEN)[:, 0], of_sentences[0], strict=True):
                    of_case[self.cases[case] if case >= 0 else "other"].append(value)
                ids = np.split(best.cpu().numpy(), ends[:-1], axis=1)
                forms += self._forms(split, indices, [dict(zip(gold, one, strict=True)) for one in ids])
        result: dict[str, Any] = {"exact": float(np.mean(exact.pop("exact")))}
        result |= {"form": float(np.mean(forms))} if forms else {}
        result |= {name: float(np.mean(values)) for name, values in exact.items()}
        losses = [mean(total, labelled[name]) for name, total in totals.items()]
        known = [one for one in losses if one is not None]
        result |= {"labels": words_right / words, "loss": sum(known) if len(known) == len(losses) else None}
        return result | ({"cases": {name: float(np.mean(of_case[name])) for name in sorted(of_case)}} if final else {})

    def _forms(self, split: Split, indices: np.ndarray, labels: list[dict[str, np.ndarray]]) -> list[bool]:
        """Whether the logical form of the predicted labels is the gold one, for every sentence that has one."""
        if not split.has("form"):
            return []
        result = []
        for index, ids in zip(indices.tolist(), labels, strict=True):
            if form := split.text("form", index):
                words = split.text("spelling", index).split(" ")
                result.append(logical_form(words, self._analysis(ids)) == form)
        return result

    def _analysis(self, ids: dict[str, np.ndarray]) -> Analysis:
        """The labels of a sentence by name."""
        texts = {name: [names[id] for id in ids[name]] for name, names in self.names.items()}
        if self.attention:
            parents = [int(id) - 1 for id in ids["parents"]]
        else:
            where = texts[self.columns[-1]]
            relative = "offset" in texts
            parents = [_parent(text, i if relative else 0, len(where)) for i, text in enumerate(where)]
        return Analysis(parents, *(texts[name] for name in LABELS_OF_COGS))


def _parent(text: str, start: int, words: int) -> int:
    """The position that a label says, counted from ``start``. One before the first word is not the same as none."""
    if not text:
        return -1
    parent = start + int(text)
    return parent if 0 <= parent < words else OUTSIDE
