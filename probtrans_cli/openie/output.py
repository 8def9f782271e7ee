"""Iterative grid labelling (Kolluru et al. 2020, OpenIE6, arXiv 2010.03147): a grid of labels, filled row after row.

Every row labels all words of the sentence. The encoder reads the sentence once for each row, going on from the row
before (:meth:`Encoder.again`), and hears of the labels of that row:

    X_m   = again(X_{m-1}, b_m)                         states of the words' tokens; X_0 is what begins the reading
    a_m-1 = argmax_k L_{m-1}(k)                         the labels of the row before, greedy, without a gradient
    G_m   = X_m + E[a_m-1]                              `scores`: added before the row is scored; m > 1
    b_m   = E[a_m-1] at words with a label, else 0      `hidden`: to the reading, that is to all words; m > 1
    L_m   = W_l (W_m G_m)                               scores of the labels, each layer with its bias

symbol   code      shape       meaning
X        states    [b, w, d]   states of words: of the first token, or the mean of all of a word
E        table     [C, d]      vectors of labels; 0 is no label
W_m      merge     [m, d]      no activation stands between the two layers
W_l      label     [C, m]
L        scores    [b, r, w, C]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.base import Inputs
from probtrans_cli.models.outputs import OutputLayer, View

Feedback = Literal["scores", "hidden", "both", "none"]
WordStates = Literal["first", "mean"]
NONE = 0  # the label of a word without one
ENDS_WITHOUT = (1, 2)  # the labels that a row must have, or the sentence ends before it
CERTAIN = -1e4  # the score of every label but NONE in a row that comes after the end


class GridOutput(OutputLayer, nn.Module):
    """Scores of the labels of a grid, row after row; they are called ``rows``, ``[b, r, w, C]``.

    ``none_bias``: added to the score of no label outside of training; it is chosen on dev. ``facts``: what
    ``config.json`` tells of the grid beside it.
    """

    none_bias: Tensor

    def __init__(
        self,
        width: int,
        labels: int,
        *,
        rows: int,
        steps: int,
        merge: int,
        feedback: Feedback = "scores",
        words: WordStates = "first",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self.rows, self.steps, self.feedback, self.of_words = rows, steps, feedback, words
        self.merge = nn.Linear(width, merge)
        self.label = nn.Linear(merge, labels)
        self.table = nn.Embedding(labels, width) if feedback != "none" else None
        if self.table is not None:
            nn.init.normal_(self.table.weight, std=width**-0.5)  # a vector of length 1
        self.register_buffer("none_bias", torch.zeros(()))
        self.facts = dict(facts or {})

    def decide(self, choice: float) -> None:
        self.none_bias.fill_(choice)

    def described(self) -> dict[str, Any]:
        return {"grid": {**self.facts, "none_bias": round(float(self.none_bias), 6)}}

    def read(self, view: View) -> Mapping[str, Tensor]:
        assert view.again is not None, "the network begins a reading for it"
        assert view.words is not None, "the task wants scores of words"
        return {"rows": torch.stack(list(self._rows(view, view.again, view.words)), dim=1)}

    def _rows(
        self, view: View, again: Callable[[Tensor | None], Tensor], words: Bool[Tensor, "b w"]
    ) -> Iterator[Float[Tensor, "b w C"]]:
        labels: Tensor | None = None
        open_ = words.any(1)
        for row in range(self.rows):
            states = self._words(again(self._bias(view.inputs, labels)), view.inputs, words)
            if labels is not None and self.table is not None and self.feedback in ("scores", "both"):
                states = states + self.table(labels)
            scores = self.label(self.merge(states))
            if not self.training:
                scores = scores + functional.pad(self.none_bias[None], (NONE, scores.shape[-1] - NONE - 1))
            yield scores
            labels = predicted = scores.detach().argmax(-1)
            if view.fed_back is not None:
                labels = torch.where(view.fed_back[:, row] < 0, predicted, view.fed_back[:, row])
            if view.ends and row + 1 < self.rows:
                for label in ENDS_WITHOUT:
                    open_ = open_ & ((predicted == label) & words).any(1)
                if not bool(open_.any()):
                    nothing = torch.full_like(scores, CERTAIN)
                    nothing[..., NONE] = 0.0
                    yield from [nothing] * (self.rows - row - 1)
                    return

    def _words(self, states: Tensor, inputs: Inputs, words: Bool[Tensor, "b w"]) -> Float[Tensor, "b w d"]:
        if inputs.first is None:
            return states
        first = inputs.first.clamp(max=states.shape[1] - 1)
        if self.of_words == "first":
            return states.gather(1, first[:, :, None].expand(-1, -1, states.shape[-1]))
        word, inside = _word_of_token(inputs, words)
        sums = states.new_zeros(*words.shape, states.shape[-1])
        where = word[:, :, None].expand_as(states)
        sums = sums.scatter_add(1, where, states * inside[:, :, None])
        counts = states.new_zeros(words.shape).scatter_add(1, word, inside.to(states.dtype))
        return sums / counts.clamp(min=1)[:, :, None]

    def _bias(self, inputs: Inputs, labels: Tensor | None) -> Float[Tensor, "b n d"] | None:
        """Return what the labels of the row before add to the input, at the first token of each word."""
        if labels is None or self.table is None or self.feedback not in ("hidden", "both"):
            return None
        added: Tensor = self.table(labels) * (labels != NONE)[:, :, None]
        if inputs.first is None:
            return added
        bias = added.new_zeros(*inputs.ids.shape, added.shape[-1])
        behind = inputs.first >= inputs.ids.shape[1]  # padding, which says nothing
        where = inputs.first.clamp(max=inputs.ids.shape[1] - 1)[:, :, None].expand_as(added)
        return bias.scatter_add(1, where, added.masked_fill(behind[:, :, None], 0.0))


def _word_of_token(inputs: Inputs, words: Bool[Tensor, "b w"]) -> tuple[Int[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """Return the word of every token, and which tokens are of a word: not what stands in front of the first or behind
    the last one, nor padding."""
    assert inputs.first is not None, "words have tokens"
    b, n = inputs.ids.shape
    place = torch.arange(n, device=inputs.ids.device).expand(b, n)
    first = inputs.first.clamp(max=n)
    begin = first.new_zeros(b, n + 1).scatter_add(1, first, torch.ones_like(first))  # words, at every token
    word = begin[:, :n].cumsum(1) - 1
    # Where a special stands in front of a sentence, one stands behind it as well.
    end = inputs.mask.sum(1, keepdim=True) - (inputs.first[:, :1] > 0).long() if inputs.first.shape[1] else 0
    inside = (word >= 0) & (place < end)
    return word.clamp(min=0, max=max(words.shape[1] - 1, 0)), inside
