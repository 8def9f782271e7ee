"""The causal field: a decoder that is a chain of conditional random fields (not in the paper, which leaves it open).

At slot t the label distributions q of the earlier words are constants, and only the variables of the slot are inferred:
its word W, its label Z, and in every channel a head H among the earlier words and the root. With the distance bucket
f(t-j) of Eq. 10 for earlier words (distances 1 to γ, and beyond), the scores of a slot are

    b[W] + S[W,Z] + Σ_c B[c,H_c,Z] + C[Z] q_{t-1}        B[c,j,a]    = Σ_b q_j(b) T[f(t-j),c,a,b]
    and those of global features (B.3)                   B[c,root,a] = r[c,a]

Gradients go through q. Nothing is sent to earlier words, so a word never changes what was computed before it.

*Content*: the word is known. Mean field as in ``crf.py``, with ``S[w_t]`` as unary scores:

    F_c(j) = Σ_a q_t(a) B[c,j,a]                              Q_c = softmax(F_c / λ_H)
    G(a)   = Σ_c Σ_j Q_c(j) B[c,j,a] + C[a] q_{t-1}           q_t = softmax((S[w_t] + G) / λ_Z)

In parallel, an iteration of all slots reads the q of the iteration before; serially, a slot has all of its iterations
before the next slot begins.

*Readout*: the word is hidden. Its message to the label is at first that of the prior, ``s̄ = Σ_w softmax(b)(w) S[w]``.
The potentials are those of the last iteration, or each round has its own (``model.readout_potentials``).

    mean field   some rounds of the content's update with ``s̄ + C q_{t-1}`` in place of ``S[w_t]``
                 p(w) ∝ exp(b[w] + S[w]·q)
    exact        log μ(a) = Σ_c LSE_j B[c,j,a] + C[a] q_{t-1}, and LSE_k of each second head (all weights λ are 1)
                 p(w) ∝ exp(b[w]) Σ_a exp(S[w,a] + log μ(a))

With `model.label_variables` K, a word has K labels Z^1 .. Z^K in place of one, and each has d/K of the d values and
1/K of the channels; the scores of a slot, and its exact readout, are

    b[W] + Σ_k ( S[W,Z^k] + Σ_{c of k} B[c,H_c,Z^k] + C[Z^k] q_{t-1} )
    p(w) ∝ exp(b[w]) Π_k Σ_{a of k} exp(S[w,a] + log μ(a))

where q has the distributions of all K, one behind the other. So B[c,j,a] is 0 where the label a is not one of the
channel's variable (:func:`spread`), and a label distribution is K of them: all else stands as above. Given the word,
each variable and its heads are a tree of their own, so the exact readout is a product of K mixtures. Rectified and
single-split global features read all K variables: mean field takes them, and the exact readout is refused.

symbol   variable     shape           meaning
q        prefix       [b, n, d]       label distributions (or means) of words as heads
T        ternary      [γ+1, c, d, d]  bucket k is the distance k + 1, the last one all beyond; `rotary` has none
r        RootColumn   [c, d]          scores of the root as a head
C        Chain        [d, d]          scores of a label and that of the word before; with `model.chain`
s̄        prior        [d]             message of a hidden word to its label
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.probabilistic.crf import Factor, Globals, MeanField, Ternary
from probtrans_cli.models.probabilistic.inference import Inference, Sentences, State


class RootColumn(Factor):
    """``r[c,a]``: a word's label, where its head is the root."""

    has_root = True

    def __init__(self, channels: int, labels: int, variables: int) -> None:
        super().__init__()
        self.variables = variables
        self.r = nn.Parameter(torch.randn(channels, labels // variables))

    def dense(self) -> Float[Tensor, "c a"]:
        """Return ``r``."""
        return spread(self.r[:, None], self.variables)[:, 0]

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        return torch.einsum("bci,bia,ca->b", Q.root_heads, Q.labels, self.dense())


class Chain(Factor):
    """``C[a,b]``: a word's label and that of the word before."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.C = nn.Parameter(torch.randn(labels, labels) / labels**0.5)

    def message(self, prefix: Float[Tensor, "b n d"], *, behind: bool = False) -> Float[Tensor, "b n2 d"]:
        """Return ``C q_{t-1}``, zero for the first word; ``behind``: ``C q_n``, to the slot behind the prefix alone."""
        if behind:
            return functional.linear(functional.pad(prefix, (0, 0, 1, 0))[:, -1:], self.C)
        return shifted(functional.linear(prefix, self.C))

    def score(self, Q: State, _: Sentences) -> Float[Tensor, " b"]:
        assert Q.prefix is not None, "it is a factor of a causal field"
        return (Q.labels * self.message(Q.prefix)).sum((1, 2))


class Slots(MeanField):
    """Mean field of all slots at once.

    ``prefixes [b, n, d]``: q of all words, in every iteration, the last one in all further ones; None: that of the
    iteration before.
    """

    def __init__(
        self,
        sentences: Sentences,
        factors: Sequence[Sequence[Factor]],
        inference: Inference,
        dropout: float = 0.0,
        prefixes: Sequence[Float[Tensor, "b n d"]] | None = None,
    ) -> None:
        super().__init__(sentences, factors, inference, dropout)
        self.prefixes = prefixes

    def iterate(self) -> None:
        prefix = self.Q.labels
        if self.prefixes is not None:
            prefix = self.prefixes[min(self.iteration, len(self.prefixes) - 1)]
        self.Q = self.Q._replace(prefix=prefix)
        super().iterate()


def predicted(hidden: Slots, unary: Sequence[Float[Tensor, "*b d"]], rounds: int) -> Float[Tensor, "b n d"]:
    """Return the scores of the labels of hidden words after some rounds; ``unary``: of each, the last for all further
    ones."""
    for number in range(rounds):
        hidden.unary = unary[min(number, len(unary) - 1)]
        hidden.advance(1)
    return hidden.representations()[0]


def log_messages(prefix: Float[Tensor, "b n d"], factors: Sequence[Factor]) -> Float[Tensor, "b n d"]:
    """Return ``log μ_t(a)`` of every slot, all other variables summed out (all weights λ are 1).

    Heads beyond γ are summed for all slots at once, so time and memory grow linearly with the length.
    """
    b, n, _ = prefix.shape
    candidates, messages = [], []
    for factor in factors:
        if isinstance(factor, Ternary):
            dense: Callable[[], Tensor] = factor.dense  # type: ignore[assignment]  # of the parameterisation
            scores = torch.einsum("bje,kcae->bjkca", prefix, dense())
            gamma = scores.shape[2] - 1
            near = [shifted(scores[:, :, k], k + 1, -torch.inf) for k in range(gamma)]
            far = shifted(scores[:, :, gamma].logcumsumexp(1), gamma + 1, -torch.inf)
            candidates += [*near, far]
        elif isinstance(factor, RootColumn):
            candidates.append(factor.dense().expand(b, n, -1, -1))
        elif isinstance(factor, Globals):
            scores = factor.dense().logsumexp(1)
            if factor.second_heads is None:
                candidates.append(scores.expand(b, n, -1, -1))
            else:
                messages.append(scores.sum(0).expand(b, n, -1))
        elif isinstance(factor, Chain):
            messages.append(factor.message(prefix))
    return sum(messages, torch.stack(candidates).logsumexp(0).sum(2))


def spread(scores: Float[Tensor, "*k c r e"], variables: int) -> Float[Tensor, "*k c r d"]:
    """Return scores of the labels of all variables, which are 0 but for those of each channel's; channels are shared
    out in order."""
    if variables == 1:
        return scores
    labels = scores.shape[-1]
    around = [(number * labels, (variables - 1 - number) * labels) for number in range(variables)]
    parts = scores.chunk(variables, -3)
    return torch.cat([functional.pad(part, pads) for part, pads in zip(parts, around, strict=True)], -3)


def shifted(values: Float[Tensor, "b n ..."], by: int = 1, fill: float = 0.0) -> Float[Tensor, "b n ..."]:
    """Return the values of the word that stands ``by`` places before; ``fill`` where there is none."""
    padded = functional.pad(values, (0, 0) * (values.dim() - 2) + (by, 0), value=fill)
    return padded[:, : values.shape[1]]
