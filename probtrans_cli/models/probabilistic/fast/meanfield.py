"""Mean-field inference in the conditional random field (Wu & Tu 2023, sections 2.2, 2.3, B.1 to B.3).

    F_ic(j)    = Σ_ab Q_i(a) Q_j(b) T[f(i-j),c,a,b]            score of head j                                 (3, 9)
    F_ic(root) = Σ_ab Q_i(a) Q_root(b) T'[c,a,b]               score of the root as head                       (2.3.5)
    F_ic(n+k)  = Σ_a Q_i(a) B[c,k,a]                           score of global feature k, as head or by itself  (34, 40)
    G_i(a)     = Σ_c Σ_j≠i Σ_b (Q_ic(j) Q_j(b) T[f(i-j),c,a,b] + Q_jc(i) Q_j(b) T[f(j-i),c,b,a])                (4)
               + Σ_c Q_ic(root) Σ_b Q_root(b) T'[c,a,b] + Σ_c Σ_k Q_ic(n+k) B[c,k,a]                           (35, 41)
    G_root(b)  = Σ_c Σ_i Q_ic(root) Σ_a Q_i(a) T'[c,a,b]

    Q_i^(0) ∝ exp(S[w_i]), all other distributions uniform at the start                                       (7, 8, 45)
    M_Z^(t) = (1 - β_Z) (S[w_i] + G_i) / λ_Z + β_Z M_Z^(t-1)    damped label scores, M_Z^(0) = S               (11, B.2)
    Q_i^(t) = α_Z softmax(M_Z^(t)) + (1 - α_Z) Q_i^(t-1)         label distributions                            (5, B.1)
    and so for Q_root with S = 0; for Q_ic and the second heads with λ_H, α_H, β_H (``head_variables.py``); the second
    heads may have a λ of their own

The softmax is the mean of a categorical variable, written as vectors; that of a spherical one takes its place, with
M_Z^(0) = S / λ_Z (``latent.py``). Global features that are there to a degree (`rectified`, not in the paper) are no
choice of one: in place of the second heads a word has several at once, and of each the most probable value,

    M_G^(t) = (1 - β_H) F_i(n+k) + β_H M_G^(t-1)               M_G^(0) = 0
    f^(t) = α_H max(0, M_G^(t)) + (1 - α_H) f^(t-1)            f^(0) = 0

Asynchronous (2.3.2): heads from ``Q_Z^(t-1)``, then labels from ``Q_Z^(t-1)`` and the *new* heads. Synchronous: both
from the values at ``t-1``. The word representation is ``M_Z^(T)``, that of the sentence ``M_root^(T)``. Dropout, where
the paper's code has it: on head distributions, second heads and degrees (the same dropped ones in every message) and on
``S + G``, of the words and of the root, in every iteration.

With `model.share_potentials: false`, ``T``, ``T'`` and ``B`` are those of the iteration ``t`` (not in the paper). With
`model.gains`, ``g_a g_b T[k,c,a,b]``, ``g_a T'[c,a,b]`` and ``g_a B[c,k,a]`` stand for the three, each with learned
gains ``g`` of its own (not in the paper).

symbol   variable     shape              meaning
S        unary        [w, d]             unary scores, one row a word (``layout.py``)
F        –            [l, h, n, m]       scores of heads (``head_variables.py``)
G        –            [w, d]             messages to the labels, the sum in ``_iterate``
Q_Z M_Z  labels       [w, d]             label distributions and scores
Q_H      –            [l, h, n, m]       head distributions: the n words, then root and all-dep global features
Q_root   root         [b, d_root]        the root's label
Q_G      features     [w, h|1, m]        second heads of dep-split and single-split; degrees of rectified features
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.forms import Chosen
from probtrans_cli.models.probabilistic.fast.head_variables import StoredHeads
from probtrans_cli.models.probabilistic.fast.messages import Messages
from probtrans_cli.models.probabilistic.inference import Inference, Update
from probtrans_cli.models.probabilistic.latent import LATENT
from probtrans_cli.models.probabilistic.potentials import Potentials
from probtrans_cli.models.probabilistic.state import Result, State
from probtrans_cli.models.shapes import may_depend_on


class Variable(NamedTuple):
    """A variable whose distribution and damped message are kept: labels, root, second heads. ``mean`` makes the
    distribution of the message; of a spherical variable its mean stands for it, of a rectified feature its degree."""

    how: Update
    message: Tensor | None
    probabilities: Tensor
    mean: Callable[[Tensor], Tensor]

    def updated(self, message: Tensor) -> Variable:
        """The variable after a step."""
        message = self.how.message(message, self.message)
        return self._replace(
            message=message, probabilities=self.how.distribution(self.mean(message), self.probabilities)
        )

    def at(self, rows: Tensor) -> Variable:
        """The variables of some rows alone."""
        message = None if self.message is None else self.message.index_select(0, rows)
        return self._replace(message=message, probabilities=self.probabilities.index_select(0, rows))


class Scores(NamedTuple):
    """The potentials of an iteration: the messages of the ternary scores, ``T'`` and ``B``."""

    messages: Messages[Any]
    root: Float[Tensor, "c a e"] | None
    features: Float[Tensor, "c m a"] | None


class MeanField:
    """The inference of one batch; see the module for its equations."""

    def __init__(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        potentials: Sequence[Potentials],
        inference: Inference,
        dropout: float,
        form: Chosen,
        bias: tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]] | None = None,
    ) -> None:
        """``potentials``: of every iteration, or one for all of them. ``dropout``: its probability, 0 outside of
        training; ``form``: how messages are computed (``forms.py``); ``bias``: added to the scores of words and root as
        heads, where all pairs are kept; one channel or all."""
        self.inference, self.dropout = inference, form.dropout(dropout)
        self.layout = form.layout(mask)
        self.mask = mask
        # What stands at padding, NaN included, must not reach any word.
        self.unary = self.layout.rows(unary.masked_fill(~mask[:, :, None], 0.0))
        latent = LATENT[inference.latent]
        start = latent.start(self.unary, inference.labels.weight)
        self.labels = Variable(inference.labels, start, latent.mean(start), latent.mean)
        self.scores = [
            Scores(
                form.messages(one.ternary, self.layout, inference.distance),
                None if one.root is None else one.root.dense(),
                None if one.features is None else one.features.dense(),
            )
            for one in potentials
        ]
        self.iteration = 0
        _, root, features = potentials[0]
        first, self.root_scores, self.global_scores = self.scores[0]
        self.root: Variable | None = None
        if root is not None:
            start = unary.new_zeros(mask.shape[0], root.root_labels)
            self.root = Variable(inference.labels, None, latent.mean(start), latent.mean)
        self.split = features is not None and features.kind != "all-dep"
        self.features: Variable | None = None
        if self.split and self.global_scores is not None:
            start = self.unary.new_zeros(self.unary.shape[0], *self.global_scores.shape[:2])
            mean = inference.of_features.mean
            self.features = Variable(inference.features, None, mean(start), mean)
        all_dep = 0 if self.split or self.global_scores is None else self.global_scores.shape[1]
        extra = (root is not None) + all_dep
        self.heads = form.heads(first, extra, inference, self.dropout, self.unary.dtype)
        if bias is not None:
            assert isinstance(self.heads, StoredHeads), "a bias is one of all pairs of words"
            self.heads.lean(*bias)

    def run(self, *, at: Bool[Tensor, "b n"] | None = None, history: Collection[int] = ()) -> Result:
        """All iterations. ``at``: the only positions whose states are asked for, for which alone the last
        iteration's labels are computed; ``history``: the iterations whose distributions are kept (by forms that keep
        all pairs), of all positions whatever ``at``; 0 is the start."""
        if history or not may_depend_on(self.mask):
            at = None
        only = None if at is None else self.layout.rows(at & self.mask).nonzero()[:, 0]
        words = self.unary.shape[0]
        kept = [self._state()] if 0 in history else []
        for iteration in range(1, self.inference.iterations + 1):
            self._iterate(only if iteration == self.inference.iterations else None)
            if iteration in history:
                kept.append(self._state())
        scores = self.labels.message
        assert scores is not None, "labels have a message from the start"
        if only is not None:
            scores = scores.new_zeros(words, scores.shape[-1]).index_copy(0, only, scores)
        states = self.layout.grid(scores) * self.mask[:, :, None]
        return Result(states, None if self.root is None else self.root.message, kept)

    def advance(
        self,
        iterations: int,
        bias: Float[Tensor, "b n d"] | None = None,
        history: Collection[int] = (),
        before: int = 0,
    ) -> list[State]:
        """So many iterations more, with ``bias`` added to the unary scores of these alone; what is then known of the
        words is in :meth:`states`. Their potentials are those that follow the first ``before`` iterations. Returns the
        head distributions after those of ``history``, counted from 1."""
        kept = []
        self.iteration = before
        unary = self.unary
        if bias is not None:
            self.unary = unary + self.layout.rows(bias)
        for iteration in range(1, iterations + 1):
            self._iterate(None)
            if iteration in history:
                kept.append(self._state())
        self.unary = unary
        return kept

    def states(self) -> Float[Tensor, "b n d"]:
        """``M_Z`` of this moment, zero on padding."""
        assert self.labels.message is not None, "labels have a message from the start"
        return self.layout.grid(self.labels.message) * self.mask[:, :, None]

    def run_heads(self, iterations: Collection[int]) -> list[Tensor]:
        """Head distributions [b, h, n, m] after some iterations, in order, and nothing else; instead of :meth:`run`."""
        assert isinstance(self.heads, StoredHeads), "heads to return are stored"
        kept = []
        for iteration in range(1, max(iterations) + 1):
            if iteration < max(iterations):
                self._iterate(None)
            else:
                self._next()
                labels = self.labels.probabilities
                self.heads.update(labels, self._extra_scores(labels)[0])
            if iteration in iterations:
                kept.append(self.heads.arcs())
        return kept

    def _iterate(self, only: Tensor | None) -> None:
        """One iteration of all variables; the labels of the rows ``only``, where given."""
        self._next()
        labels = self.labels.probabilities
        extra, toward_root = self._extra_scores(labels)
        to_labels, used = self.heads.exchange(labels, extra, only)
        others = self._second_heads(labels)
        if toward_root is not None:
            # A copy: a view would put a condition on the length into an exported graph.
            at_root, used = used[..., 0].clone(memory_format=torch.contiguous_format), used[..., 1:]
            at_root = self.layout.grid(at_root)
            others.append(self.layout.rows(at_root @ toward_root))
            self._update_root(labels, at_root)
        if self.global_scores is not None and not self.split:
            others.append(used.flatten(1) @ self.global_scores.flatten(0, 1))
        unary, before = self.unary, self.labels
        if only is not None:
            others = [message.index_select(0, only) for message in others]
            unary, before = unary.index_select(0, only), before.at(only)
        self.labels = before.updated(self.dropout(sum(others, to_labels) + unary))

    def _next(self) -> None:
        """Go on to the next iteration and its potentials; those of the last one stay."""
        scores = self.scores[min(self.iteration, len(self.scores) - 1)]
        self.heads.messages, self.root_scores, self.global_scores = scores
        self.iteration += 1

    def _extra_scores(self, labels: Float[Tensor, "w d"]) -> tuple[Tensor, Tensor | None]:
        """Scores of the candidates that are no words [w, c, e], and ``Σ_b Q_root(b) T'[c,a,b]`` [b, c, d]."""
        scores, toward_root = [], None
        if self.root is not None and self.root_scores is not None:
            toward_root = torch.einsum("be,cae->bca", self.root.probabilities, self.root_scores)
            at_words = self.layout.grid(labels) @ toward_root.mT
            scores.append(self.layout.rows(at_words)[..., None])
        if self.global_scores is not None and not self.split:
            scores.append(self._global_messages(labels))
        if not scores:
            return labels.new_zeros(labels.shape[0], self.inference.channels, 0), toward_root
        return torch.cat(scores, dim=-1), toward_root

    def _global_messages(self, labels: Float[Tensor, "w d"]) -> Float[Tensor, "w c m"]:
        assert self.global_scores is not None, "there are global features"
        return (labels @ self.global_scores.flatten(0, 1).T).reshape(labels.shape[0], *self.global_scores.shape[:2])

    def _second_heads(self, labels: Float[Tensor, "w d"]) -> list[Tensor]:
        """Update the second heads; their message to the labels [w, d], if there are any."""
        if self.features is None or self.global_scores is None:
            return []
        before = self.features.probabilities
        self.features = self.features.updated(self._global_messages(labels))
        used = self.dropout(self.features.probabilities if self.inference.asynchronous else before)
        return [used.flatten(1) @ self.global_scores.flatten(0, 1)]

    def _update_root(self, labels: Float[Tensor, "w d"], at_root: Float[Tensor, "b n c"]) -> None:
        assert self.root is not None, "there is a root"
        assert self.root_scores is not None, "it has scores"
        gathered = at_root.mT @ self.layout.grid(labels)
        to_root = torch.einsum("bca,cae->be", gathered, self.root_scores)
        self.root = self.root.updated(self.dropout(to_root))

    def _state(self) -> State:
        """All distributions of this moment."""
        assert isinstance(self.heads, StoredHeads), "the history needs stored heads"
        real = self.mask[:, :, None]
        features = None if self.features is None else self.layout.grid(self.features.probabilities) * real[..., None]
        root = None if self.root is None else self.root.probabilities
        return State(self.layout.grid(self.labels.probabilities) * real, self.heads.arcs(), root, features)
