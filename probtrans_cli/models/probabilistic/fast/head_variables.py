"""The head variables of all words through the iterations: from messages to distributions to messages.

    M_H^(t) = (1 - β_H) F^(t) / λ_H + β_H M_H^(t-1)          damped messages, M_H^(0) = 0       (12, B.2)
    Q_H^(t) = α_H softmax(M_H^(t)) + (1 - α_H) Q_H^(t-1)     over the candidates                (6, B.1)

Here they are kept for all pairs of words, in plain operations. ``fast/fused.py`` has the usual case by hand, in blocks;
``fast/recomputed.py`` the form for long sentences, which keeps none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.dropout import Dropout
from probtrans_cli.models.probabilistic.fast.messages import Messages
from probtrans_cli.models.probabilistic.inference import Inference
from probtrans_cli.models.probabilistic.matrix_tree import tree_marginals


def over(scores: Float[Tensor, "*b m"], allowed: Bool[Tensor, "*a m"]) -> Float[Tensor, "*b m"]:
    """Softmax over the allowed entries of each row; a row with none is all zero, never NaN."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~allowed, lowest).softmax(-1) * allowed


class HeadVariables(ABC):
    """The head variables of a batch."""

    def __init__(
        self,
        messages: Messages[Any],
        extra: int,
        inference: Inference,
        dropout: Dropout,
        dtype: torch.dtype,
    ) -> None:
        """``extra``: the number of candidates that are no words, the root first; ``dtype`` of the heads. ``messages``
        may be others, of other scores, in a later iteration."""
        self.messages, self.inference, self.dropout, self.dtype = messages, inference, dropout, dtype
        self.layout = messages.layout
        self.extra = extra
        self.how = inference.heads

    @property
    def extra_allowed(self) -> Bool[Tensor, "l 1 n e"]:
        """Where the candidates that are no words may be chosen."""
        real = self.layout.sentence >= 0
        return real[:, None, :, None].expand(*real[:, None].shape, self.extra)

    @abstractmethod
    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], only: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        """One iteration: from label distributions and the scores of the extra candidates to the messages to the labels,
        of the rows ``only`` where given, and the distributions of the extra candidates that made them."""


class StoredHeads(HeadVariables):
    """Distributions over all pairs are kept."""

    bias: Tensor | None = None
    """Scores of the candidates [l, 1, n, m] beside those of the labels, see :meth:`lean`."""
    message: Tensor | None = None
    _probabilities: Tensor | None = None
    _allowed: Tensor | None = None

    @property
    def allowed(self) -> Bool[Tensor, "l 1 n m"]:
        """Which candidates there are: columns of the messages, then the extra ones."""
        if self._allowed is None:
            words = self.messages.candidates
            self._allowed = torch.cat([words, self.extra_allowed], dim=-1) if self.extra else words
        return self._allowed

    @property
    def columns(self) -> int:
        """The number of candidates that are words."""
        return self.allowed.shape[-1] - self.extra

    @property
    def probabilities(self) -> Float[Tensor, "l c n m"]:
        """The distributions; uniform over the candidates (or trees) before the first iteration."""
        if self._probabilities is None:
            batch, _, n, m = self.allowed.shape
            zeros = torch.zeros(batch, self.inference.channels, n, m, device=self.allowed.device, dtype=self.dtype)
            self._probabilities = self._distribution(zeros)
        return self._probabilities

    def lean(self, words: Float[Tensor, "l c n n"], root: Float[Tensor, "l c n"]) -> None:
        """Let channels lean towards some heads: add these scores of pairs of words, and of the root; one channel's are
        those of all."""
        extra = root.new_zeros(*words.shape[:3], self.extra)
        if self.inference.root:
            extra[..., 0] = root
        self.bias = torch.cat([self.messages.columns(words), extra], dim=-1)

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"], only: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        sides, used = self.update(labels, extra)
        used = self.dropout(used)
        at_extra = self.layout.from_channels(used[..., self.columns :]) if self.extra else extra
        return self.messages.to_labels(sides, used[..., : self.columns], only), at_extra

    def update(self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "w c e"]) -> tuple[Any, Tensor]:
        """The first half of an iteration: new distributions; returns the sides of the messages and the distributions
        [l, c, n, m] that messages to the labels are computed with, before dropout."""
        sides = self.messages.sides(labels)
        scores = self.messages.to_heads(sides)
        if extra.shape[-1]:
            scores = torch.cat([scores, self.layout.to_channels(extra).to(scores.dtype)], dim=-1)
        if self.bias is not None:
            scores = scores + self.bias
        self.message = self.how.message(scores, self.message)
        new = self._distribution(self.message)
        asynchronous = self.inference.asynchronous
        if asynchronous and self.how.step == 1.0:  # then what was before is never looked at
            used = self._probabilities = new
        else:
            before = self.probabilities
            self._probabilities = self.how.distribution(new, before)
            used = self._probabilities if asynchronous else before
        return sides, used

    def _distribution(self, scores: Float[Tensor, "l c n m"]) -> Float[Tensor, "l c n m"]:
        if not self.inference.tree:
            return over(scores, self.allowed)
        words = self.messages.between_words(scores[..., : self.columns])
        root = scores[..., self.columns :] if self.inference.root else torch.zeros_like(words[..., :1])
        mask = self.messages.layout.mask[:, None].expand(words.shape[:3])
        marginals = tree_marginals(torch.cat([words, root], dim=-1), mask)
        words = self.messages.columns(marginals[..., :-1])
        return torch.cat([words, marginals[..., -1:]], dim=-1) if self.inference.root else words

    def arcs(self) -> Float[Tensor, "l c n m"]:
        """The distributions with the words in their order, then the extra candidates."""
        words, extra = self.probabilities.tensor_split([self.columns], dim=-1)
        return torch.cat([self.messages.between_words(words), extra], dim=-1)
