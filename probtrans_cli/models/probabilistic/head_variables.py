"""The head variables of all words through the iterations: from messages to distributions to messages.

    M_H^(t) = (1 - β_H) F^(t) / λ_H + β_H M_H^(t-1)          damped messages                    (B.2; 12)
    Q_H^(t) = α_H softmax(M_H^(t)) + (1 - α_H) Q_H^(t-1)     over the candidates                (B.1; 6)

Stored: the matrices of all pairs are kept. Recomputed: only the labels are; the rows of a block of words are computed
when they are needed, forward and backward, with all their iterations (``F`` depends on labels alone), so that memory
grows with the length of a sentence and not with its square.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from probtrans_cli.models.probabilistic.banded import BandedMessages, Far
from probtrans_cli.models.probabilistic.matrix_tree import tree_marginals
from probtrans_cli.models.probabilistic.messages import Messages

BLOCK = 2**22  # numbers in a block of rows of head scores


@dataclass(frozen=True)
class Update:
    """How messages become distributions: ``weight`` λ, ``step`` α, ``damping`` β."""

    weight: float
    step: float = 1.0
    damping: float = 0.0

    @property
    def forgets(self) -> bool:
        """Whether an iteration depends on the one before through its distributions only."""
        return self.step == 1.0 and self.damping == 0.0

    def message(self, new: Tensor, old: Tensor | None) -> Tensor:
        """The damped, scaled message ``M``; ``old`` None stands for 0."""
        new = new / self.weight
        if self.damping == 0.0:
            return new
        new = (1.0 - self.damping) * new
        return new if old is None else new + self.damping * old

    def distribution(self, new: Tensor, old: Tensor) -> Tensor:
        """The distribution ``Q`` after a step."""
        return new if self.step == 1.0 else self.step * new + (1.0 - self.step) * old


def over(scores: Float[Tensor, "*b m"], allowed: Bool[Tensor, "*a m"]) -> Float[Tensor, "*b m"]:
    """Softmax over the allowed entries of each row; a row with none is all zero, never NaN."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~allowed, lowest).softmax(-1) * allowed


class HeadVariables(ABC):
    """The head variables of a batch; ``allowed [b, 1, n, m]``: the candidates, words then extra ones."""

    def __init__(
        self,
        messages: Messages,
        extra: Bool[Tensor, "b 1 n e"],
        update: Update,
        dropout: Callable[[Tensor], Tensor],
        *,
        asynchronous: bool,
        channels: int,
        dtype: torch.dtype,
    ) -> None:
        self.messages, self.how, self.dropout, self.asynchronous = messages, update, dropout, asynchronous
        self.channels, self.dtype = channels, dtype
        self.columns = messages.candidates.shape[-1]
        self.allowed = torch.cat([messages.candidates, extra], dim=-1) if extra.shape[-1] else messages.candidates

    @abstractmethod
    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "b c n e"], wanted: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "b c n e"]]:
        """One iteration: from label distributions and the scores of the extra candidates to the messages to the labels
        (of the rows ``wanted``), and the distributions of the extra candidates that they were computed with."""


class StoredHeads(HeadVariables):
    """Distributions over all pairs are kept: ``probabilities [b, c, n, m]``."""

    def __init__(self, *args: object, tree: Bool[Tensor, "b n"] | None = None, root: bool = False, **options: object):
        """``tree``: the mask of real words where the heads of a sentence form a tree; ``root``: the first extra
        candidate is the root."""
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.tree, self.root = tree, root
        self.message: Tensor | None = None
        self._probabilities: Tensor | None = None

    @property
    def probabilities(self) -> Float[Tensor, "b c n m"]:
        """The distributions; uniform over the candidates (or trees) before the first iteration."""
        if self._probabilities is None:
            batch, _, n, m = self.allowed.shape
            zeros = torch.zeros(batch, self.channels, n, m, device=self.allowed.device, dtype=self.dtype)
            self._probabilities = self._distribution(zeros)
        return self._probabilities

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "b c n e"], wanted: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "b c n e"]]:
        sides = self.messages.sides(labels)
        scores = self.messages.to_heads(sides)
        if extra.shape[-1]:
            scores = torch.cat([scores, extra.to(scores.dtype)], dim=-1)
        self.message = self.how.message(scores, self.message)
        new = self._distribution(self.message)
        if self.asynchronous and self.how.step == 1.0:  # then what was before is never looked at
            used = self._probabilities = new
        else:
            before = self.probabilities
            self._probabilities = self.how.distribution(new, before)
            used = self._probabilities if self.asynchronous else before
        used = self.dropout(used)
        return self.messages.to_labels(sides, used[..., : self.columns], wanted), used[..., self.columns :]

    def _distribution(self, scores: Float[Tensor, "b c n m"]) -> Float[Tensor, "b c n m"]:
        if self.tree is None:
            return over(scores, self.allowed)
        words = self.messages.between_words(scores[..., : self.columns])
        root = scores[..., self.columns :] if self.root else torch.zeros_like(words[..., :1])
        marginals = tree_marginals(torch.cat([words, root], dim=-1), self.tree[:, None].expand(words.shape[:3]))
        words, root = marginals.split([words.shape[-1], 1], dim=-1)
        words = self.messages.columns(words)
        return torch.cat([words, root], dim=-1) if self.root else words

    def arcs(self) -> Float[Tensor, "b c n m"]:
        """The distributions with the words in their order, then the extra candidates."""
        words, extra = self.probabilities.tensor_split([self.columns], dim=-1)
        return torch.cat([self.messages.between_words(words), extra], dim=-1)


class RecomputedHeads(HeadVariables):
    """Nothing of the size of all pairs is kept, and nothing wide but during one iteration."""

    messages: BandedMessages

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.history: list[tuple[Tensor, Tensor]] = []

    def exchange(
        self, labels: Float[Tensor, "w d"], extra: Float[Tensor, "b c n e"], wanted: Tensor | None
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "b c n e"]]:
        self.history.append((labels, extra))
        used = self.history if self.asynchronous else self.history[:-1]
        if self.how.forgets:
            used = used[-1:]
        flat = [tensor for pair in used for tensor in pair]
        result: tuple[Tensor, Tensor] = checkpoint(self._exchange, labels, wanted, *flat, use_reentrant=False)
        return result

    def _exchange(self, labels: Tensor, wanted: Tensor | None, *flat: Tensor) -> tuple[Tensor, Tensor]:
        """An iteration from the labels and extra scores of those before it."""
        messages = self.messages
        sides = messages.sides(labels)
        history: list[tuple[list[Far], Tensor]] = []
        for then, extra in zip(flat[::2], flat[1::2], strict=True):
            theirs = sides if then is labels else messages.sides(then)
            short = extra if theirs.near is None else torch.cat([messages.near_scores(theirs.near), extra], dim=-1)
            history.append((theirs.far, short))

        def block(start: int, stop: int) -> tuple[Tensor, ...]:
            probabilities = self._rows(history, start, stop)
            far = messages.far_messages(sides.far, probabilities[..., : messages.words], start, stop)
            return (probabilities[..., messages.words :], *(part for pair in far for part in pair))

        b, n = messages.layout.mask.shape
        step = max(16, BLOCK // max(1, b * self.channels * n))
        blocks = [checkpoint(block, start, min(start + step, n), use_reentrant=False) for start in range(0, n, step)]
        short_of_blocks, *parts = zip(*blocks, strict=True)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        far = [(torch.cat(to_child, dim=2), sum(to_head[1:], to_head[0])) for to_child, to_head in pairs]
        near, extra = torch.cat(short_of_blocks, dim=2).tensor_split([len(messages.offsets)], dim=-1)
        near_messages = None if sides.near is None else messages.near_messages(sides.near, near)
        return messages.collect(sides.rows, far, near_messages, wanted), extra

    def _rows(self, history: list[tuple[list[Far], Tensor]], start: int, stop: int) -> Tensor:
        """Distributions of the children ``start..stop`` after the iterations in ``history``, with dropout."""
        allowed = self.allowed[:, :, start:stop]
        message: Tensor | None = None
        shape = (allowed.shape[0], self.channels, *allowed.shape[2:])
        probabilities = over(torch.zeros(shape, device=allowed.device, dtype=self.dtype), allowed)
        for far, short in history:
            scores = torch.cat([self.messages.far_scores(far, start, stop), short[:, :, start:stop]], dim=-1)
            message = self.how.message(scores, message)
            probabilities = self.how.distribution(over(message, allowed), probabilities)
        return self.dropout(probabilities)
