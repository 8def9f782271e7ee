"""The probabilistic transformer: mean-field inference in a conditional random field (Wu & Tu 2023), as it is written.

A sentence of n words has these variables: a latent label ``Z_i`` of every word; in every channel c a head ``H_ic`` of
every word, which is another word, the root or a global feature; a label ``Z_root`` of the root; and, for some kinds of
global features, second heads ``G_i``. The factors give every assignment a score. Inference only needs the *expected
score* of a factor under independent distributions Q, which is linear in the distribution of each variable. For the
paper's factors (abstract classes here; ``potentials.py`` has their T, T' and B), with the distance bucket ``f(i-j)``:

    E(Q) = Σ_i Σ_a Q_i(a) S[w_i,a]                                                          unary      (1)
         + Σ_c Σ_i Σ_j≠i Q_ic(j) F_ic(j)     F_ic(j) = Σ_ab Q_i(a) Q_j(b) T[f(i-j),c,a,b]   ternary    (2, 3, 9)
         + Σ_c Σ_i Q_ic(root) Σ_ab Q_i(a) Q_root(b) T'[c,a,b]                               root       (2.3.5)
         + Σ_c Σ_i Σ_k Q_ic(n+k) Σ_a Q_i(a) B[c,k,a]                                        globals    (34, 40)

The message to a variable is the derivative of E by its distribution: F to a head, S + G to a label (Eq. 3, 4; G: the
derivative of all terms but the unary one). It becomes scores M, then a distribution (weight λ, step α, damping β):

    M_H = (1 - β_H) ∂E/∂Q_H / λ_H + β_H M_H      Q_H = α_H softmax(M_H) + (1 - α_H) Q_H         (3, 6, 12, B.1, B.2)
    M_Z = (1 - β_Z) ∂E/∂Q_Z / λ_Z + β_Z M_Z      Q_Z = α_Z softmax(M_Z) + (1 - α_Z) Q_Z         (4, 5, 11)

At the start ``Q_Z ∝ exp(S)`` and everything else is uniform (7, 8, 45). Asynchronous (2.3.2): heads first, then labels
from the *new* heads. Synchronous: both from the old distributions. The root's label is updated with the labels, second
heads with the heads. The representation of a word is ``M_Z`` after the last iteration, that of the sentence ``M_root``.
Dropout falls on the head distributions (the same ones in every message) and on ``S + G``, as in the paper's code.
Spherical labels and rectified features have other means than the softmax (``inference.py``); trees other marginals.
Where heads have labels (not in the paper), a word has one head variable ``H_i`` with the values (j, c): its ``softmax``
is over candidates *and* channels, and ``Q_ic(j)`` the joint ``Q_i(j,c)``. Of trees, an arc weighs ``Σ_c exp M_ic(j)``.

To change an equation, edit a ``score`` below and train with ``runtime.messages: plain``; to add a factor, write a class
like :class:`Ternary` and register it (docs/extending.md). ``fast/`` computes the same without work on padding.

symbol   variable      shape          meaning
S        unary         [b, n, d]      unary scores of the words' labels
Q_Z      Q.labels      [b, n, d]      label distributions (or means), zero on padding
Q_H      Q.heads       [b, c, n, m]   head distributions: n words, the root, m - n - 1 global features
Q_root   Q.root        [b, e]         the root's label
Q_G      Q.features    [b, n, g, k]   second heads, or degrees of rectified features; g = c or 1
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.probabilistic.inference import Inference, Sentences, State, derivatives, latent_of, masked


class Factor(nn.Module, ABC):
    """A kind of factor: its parameters, and its expected score, from which messages and energy follow."""

    candidates: int = 0  # how many candidates it adds to those of the heads, behind words and root
    has_root: ClassVar[bool] = False  # whether it adds the root to the candidates of the heads, before those of others
    root_labels: int = 0  # how many labels the root has; 0 = the factor has no root, or a root without labels
    second_heads: tuple[int, int] | None = None  # the numbers (g, k) of second heads of a word and of their candidates

    @abstractmethod
    def score(self, Q: State, sentences: Sentences) -> Float[Tensor, " b"]:
        """Return the expected score of every sentence, linear in the distribution of each variable.

        Distributions are zero at padding and where a word would be its own head.
        """


class Ternary(Factor):
    """``T[f(i-j),c,a,b]`` between a word's label, its head and the head's label (Eq. 2)."""

    distance: int | None
    causal: bool = False  # whether heads are earlier words: there is no bucket for later ones

    @abstractmethod
    def sides(self, labels: Float[Tensor, "b n d"]) -> tuple[Float[Tensor, "b n k c r"], Float[Tensor, "b n k c r"]]:
        """Return ``u, v`` with ``u_i[k,c] · v_j[k,c] = Σ_ab Q_i(a) Q_j(b) T[k,c,a,b]``."""

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        u, v = self.sides(Q.labels)
        if Q.prefix is not None:
            v = self.sides(Q.prefix)[1]
        word, k = torch.arange(u.shape[1], device=u.device), torch.arange(u.shape[2], device=u.device)
        bucket = bucket_of(word[:, None] - word, self.distance, causal=self.causal)
        F = torch.einsum("bikcr,bjkcr->bckij", u, v).mul(bucket == k[:, None, None]).sum(2)
        return (Q.word_heads * F).sum((1, 2, 3))


class Root(Factor):
    """``T'[c,a,b]`` between a word's label and the root's, where the word's head is the root (2.3.5)."""

    has_root = True

    @abstractmethod
    def dense(self) -> Float[Tensor, "c a e"]:
        """Return ``T'``."""

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        assert Q.root is not None, "there is a root"
        toward_root = torch.einsum("be,cae->bca", Q.root, self.dense())
        return torch.einsum("bci,bia,bca->b", Q.root_heads, Q.labels, toward_root)


class Globals(Factor):
    """``B[c,k,a]`` between a word's label and a global feature, a head or a second head of the word (B.3)."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "c k a"]:
        """Return ``B``."""

    def chosen(self, Q: State) -> Float[Tensor, "b n g k"]:
        """Return the probabilities, or the degrees, of global features of every word."""
        return Q.heads[..., -self.candidates :].transpose(1, 2) if Q.features is None else Q.features

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        F = torch.einsum("bia,cka->bick", Q.labels, self.dense())
        return (self.chosen(Q) * F).sum((1, 2, 3))


class MeanField:
    """The inference of one batch."""

    def __init__(
        self, sentences: Sentences, factors: Sequence[Sequence[Factor]], inference: Inference, dropout: float = 0.0
    ) -> None:
        """``factors``: of every iteration, or one set for all; ``dropout``: its probability, 0 outside training."""
        mask, unary = sentences.mask, sentences.unary.masked_fill(~sentences.mask[:, :, None], 0.0)
        self.sentences, self.mask, self.unary = sentences, mask, unary
        self.factors, self.inference, self.dropout = factors, inference, dropout
        self.latent, self.iteration = latent_of(inference.latent, inference.label_variables), 0
        b, n, _ = unary.shape
        root = sum(factor.root_labels for factor in factors[0])
        extra = int(any(factor.has_root for factor in factors[0])) + sum(factor.candidates for factor in factors[0])
        second = next((factor.second_heads for factor in factors[0] if factor.second_heads is not None), None)
        self.allowed = inference.candidates(mask, extra)
        self.M = State(
            labels=self.latent.start(unary, inference.labels.weight),
            heads=unary.new_zeros(b, inference.channels, n, n + extra),
            root=unary.new_zeros(b, root) if root else None,
            features=None if second is None else unary.new_zeros(b, n, *second),
        )
        self.Q = self.M._replace(**{name: self._mean(name, M) for name, M in self.M._asdict().items() if M is not None})

    def expected_score(self, Q: State) -> Float[Tensor, " b"]:
        """Return ``E(Q)`` of every sentence, with the potentials of this iteration."""
        factors = self.factors[min(self.iteration, len(self.factors) - 1)]
        scores = [factor.score(Q, self.sentences) for factor in factors]
        return torch.stack([(Q.labels * self.unary).sum((1, 2)), *scores]).sum(0)

    def messages(self, Q: State, *variables: str) -> dict[str, Tensor]:
        """Return the derivatives ``∂E/∂Q`` by the distributions of some variables."""
        values = {name: values for name, values in Q._asdict().items() if name in variables and values is not None}
        return derivatives(lambda some: self.expected_score(Q._replace(**some)).sum(), values)

    def iterate(self) -> None:
        """Update every variable once."""
        before = self.Q
        messages = self.messages(before, "heads", "features")
        now = before._replace(**{name: self._update(name, message) for name, message in messages.items()})
        # Labels and root hear the new heads or, synchronously, the old ones; the same ones are dropped for both.
        dropped = now if self.inference.asynchronous else before
        if self.inference.labelled and self.dropout > 0.0:  # an arc falls with all of its labels
            dropped = dropped._replace(heads=dropped.heads * self._drop(torch.ones_like(dropped.heads[:, :1])))
        else:
            dropped = dropped._replace(heads=self._drop(dropped.heads))
        if dropped.features is not None:
            dropped = dropped._replace(features=self._drop(dropped.features))
        messages = self.messages(dropped, "labels", "root")
        self.Q = now._replace(**{name: self._update(name, self._drop(values)) for name, values in messages.items()})
        self.iteration += 1

    def _update(self, name: str, message: Tensor) -> Tensor:
        """Return the new distribution of a variable and keep its scores ``M``."""
        update = getattr(self.inference, "labels" if name == "root" else name)
        M = update.message(message, getattr(self.M, name))
        self.M = self.M._replace(**{name: M})
        distribution: Tensor = update.distribution(self._mean(name, M), getattr(self.Q, name))
        return distribution

    def _mean(self, name: str, M: Tensor) -> Tensor:
        """Return what mean field passes on of a variable with the scores M: its distribution, or its mean."""
        if name == "labels":
            return self.latent.mean(M) * self.mask[:, :, None]
        if name == "root":
            return self.latent.mean(M)
        if name == "features":
            return self.inference.of_features.mean(M) * self.mask[:, :, None, None]
        return self.inference.head_distributions(M, self.allowed, self.mask)

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.dropout) if self.dropout > 0.0 else values

    def run_heads(self, iterations: Collection[int]) -> list[Float[Tensor, "b c n m"]]:
        """Return the head distributions after some iterations, in order; instead of :meth:`advance`."""
        return [state.heads for state in self.advance(max(iterations), history=iterations)]

    def advance(
        self,
        iterations: int,
        bias: Tensor | None = None,
        history: Collection[int] = (),
        before: int | None = None,
        at: Tensor | None = None,
    ) -> list[State]:
        """Run some more iterations, with ``bias [b, n, d]`` added to the unary scores of these alone.

        ``before``: go on with the potentials after this many iterations; ``at``: saves work in ``fast/``. Returns the
        states after the iterations of ``history``, 0 = before the first.
        """
        del at
        self.iteration = self.iteration if before is None else before
        unary, kept = self.unary, []
        if bias is not None:
            self.unary = unary + bias * self.mask[:, :, None]
        for iteration in range(iterations + 1):
            if iteration > 0:
                self.iterate()
            if iteration in history:
                scores = masked(self.M.heads, self.allowed) if self.inference.scored else None
                kept.append(self.Q._replace(scores=scores))
        self.unary = unary
        return kept

    def representations(self) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b e"] | None]:
        """Return ``M_Z``, zero on padding, and ``M_root``, None without a root."""
        return self.M.labels * self.mask[:, :, None], self.M.root

    def energy(self, Q: State) -> Float[Tensor, " b"]:
        """Return ``-E(Q) - λ_Z (Σ_i H(Q_i) + H(Q_root)) - λ_H Σ_ic H(Q_ic) - λ_G Σ H(Q_G)`` (A.2, A.4).

        Updating one variable at a time minimises it exactly in that variable; with all weights 1, its negative is a
        lower bound of the log partition function. (A rectified feature has ``-f²/2`` in place of an entropy.)
        """
        inference = self.inference
        entropy = inference.labels.weight * self.latent.entropy(Q.labels).sum(1)
        entropy = entropy + inference.heads.weight * torch.special.entr(Q.heads).sum((1, 2, 3))
        if Q.root is not None:
            entropy = entropy + inference.labels.weight * self.latent.entropy(Q.root)
        if Q.features is not None:
            entropy = entropy + inference.features.weight * inference.of_features.entropy(Q.features).sum((1, 2))
        return torch.sub(-self.expected_score(Q), entropy)


def bucket_of(x: Int[Tensor, "*n"], distance: int | None, *, causal: bool = False) -> Int[Tensor, "*n"]:
    """Return the bucket ``f(x)`` of distances ``x = i - j`` of child and head, for γ (Eq. 10; None: one bucket)."""
    if distance is None:
        return torch.zeros_like(x)
    if causal:
        return (x - 1).clamp(0, distance)
    return torch.where(x < 0, x + distance + 1, x + distance).clamp(0, 2 * distance + 1)
