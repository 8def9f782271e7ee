"""Mean-field inference on packed words: the iteration of ``crf.py``, whose equations and symbols these are.

Labels are ``[w, d]``, one row a word (``layout.py``); second heads ``[w, c|1, k]``; the root's label ``[b, e]``.
Scores of heads are ``[l, c, n, m]`` on lines (``heads.py``). :meth:`MeanField._iterate` adds up the message to a word's
label. Which form the head variables have changes no value but rounding, see :func:`form_of`:

form       head variables                                  lines                       serves
pairs      stored                                          one a sentence              who wants all pairs, or trees
labelled   stored, by hand                                 one a sentence              the usual case of labelled heads
blocked    in blocks, by hand, kept                        shared by short sentences   the usual case on a CPU
again      in blocks, by hand, computed twice              shared                      long sentences
read       in blocks, without gradients                    one a sentence              who reads trees in the usual case
fused      in no memory: ``triton_heads.py``               shared                      `fused`: the usual case on a GPU
stored     stored                                          shared                      graphs, GPUs, damping, steps

Lines are padded where the real words are not worth picking out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.models.arithmetic import linear, may_depend_on
from probtrans_cli.models.probabilistic.factors import ArcsFactor, RelationsFactor
from probtrans_cli.models.probabilistic.fast.heads import BlockedHeads, HeadVariables, LabelledHeads, StoredHeads, drop
from probtrans_cli.models.probabilistic.fast.layout import layout_of, packed, shared_lines
from probtrans_cli.models.probabilistic.fast.messages import Entries, TernaryMessages
from probtrans_cli.models.probabilistic.inference import LATENT, Inference, State, Update
from probtrans_cli.models.probabilistic.potentials import Potentials
from probtrans_cli.recipe.training import Forms

LONG = 2**25  # head scores of an iteration above which they are not kept
WIDE = 256  # bytes of a word's side above which a tile of sides is too large for a program of a GPU


def form_of(
    option: Forms,
    mask: Bool[Tensor, "b n"],
    inference: Inference,
    *,
    all_pairs: bool = False,
    arcs: bool = False,
    dtype: torch.dtype = torch.float32,
    rank: int = 1,
) -> str:
    """Choose the form of a batch's head variables.

    Args:
        all_pairs: scores of all pairs are needed, a bias, or what further factors say.
        arcs: distributions over all pairs are needed after some iterations.
        dtype: of the unary scores.
        rank: the number of components of a side.
    """
    # Whether an iteration depends on the ones before through the labels alone.
    forgets = inference.heads.step == 1.0 and inference.heads.damping == 0.0
    usual = inference.asynchronous and forgets and not (inference.labelled or inference.root_label)
    arcs_alone = arcs and not (all_pairs or inference.tree)
    if arcs_alone and usual and not torch.is_grad_enabled() and may_depend_on(mask) and mask.numel():
        return "read"
    if all_pairs or arcs or inference.tree:
        labelled = inference.labelled and inference.distance is None and inference.asynchronous and not inference.tree
        eager = may_depend_on(mask) and mask.numel() and not torch.is_autocast_enabled("cpu")
        return "labelled" if labelled and forgets and eager else "pairs"
    if torch.compiler.is_compiling() or not forgets:
        return "stored"  # the graph of blocks does not serve every length
    if usual and fuses(option, mask, dtype, rank):
        return "fused"
    long = option == "linear"
    if option in ("fast", "fused"):
        long = mask.numel() * mask.shape[1] * inference.channels > LONG
    return "again" if long else "blocked" if may_depend_on(mask) else "stored"


def fuses(option: Forms, mask: Bool[Tensor, "b n"], dtype: torch.dtype, rank: int) -> bool:
    """Return whether the kernels of a GPU serve a batch: it is on one of NVIDIA's, triton is installed, tiles fit."""
    if option != "fused" or torch.compiler.is_compiling():
        return False
    if not mask.is_cuda or not mask.numel() or isinstance(mask, torch._subclasses.FakeTensor) or torch.version.hip:
        return False
    size = 2 if torch.is_autocast_enabled("cuda") else dtype.itemsize
    return dtype != torch.float64 and rank * size <= WIDE and find_spec("triton") is not None


def fused(*arguments: Any) -> HeadVariables:
    """Return the heads of a GPU. Triton is imported here, where it is needed."""
    from probtrans_cli.models.probabilistic.fast.triton_heads import FusedHeads  # noqa: PLC0415

    return FusedHeads(*arguments)


HEADS: dict[str, Callable[..., HeadVariables]] = {
    "pairs": StoredHeads,
    "labelled": LabelledHeads,
    "blocked": partial(BlockedHeads, keep=True),
    "again": partial(BlockedHeads, keep=False),
    "read": partial(BlockedHeads, keep=False, reads=True),
    "fused": fused,
    "stored": StoredHeads,
}


class Variable(NamedTuple):
    """A variable whose distribution and damped message are kept: labels, root, second heads.

    ``mean`` makes the distribution of the message; of a spherical variable its mean stands for it, of a rectified
    feature its degree.
    """

    update: Update
    message: Tensor | None
    probabilities: Tensor
    mean: Callable[[Tensor], Tensor]

    def updated(self, message: Tensor) -> Variable:
        message = self.update.message(message, self.message)
        return self._replace(
            message=message, probabilities=self.update.distribution(self.mean(message), self.probabilities)
        )


class MeanField:
    """The inference of one batch."""

    def __init__(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        potentials: Sequence[Potentials],
        inference: Inference,
        dropout: float,
        form: str,
        bias: tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]] | None = None,
        further: Sequence[ArcsFactor | RelationsFactor] = (),
        lengths: Sequence[int] | None = None,
        entries: Int[Tensor, "b n"] | None = None,
        *,
        fused: bool = False,
    ) -> None:
        """Begin at the start.

        Args:
            potentials: of every iteration, or one set for all of them.
            dropout: its probability, 0 outside of training.
            form: of the head variables, see :func:`form_of`.
            bias: added to the scores of words and root as heads, where all pairs are kept; one channel or all.
            further: those of further factors that have a fast form, where all pairs are kept.
            lengths: of the sentences, see :func:`layout_of`.
            entries: of the vocabulary. The labels at the start are those of an entry, wherever it stands, so the sides
                of the first iteration are computed once for each.
            fused: near buckets by the kernels of a GPU, whatever the form of the heads.
        """
        self.inference, self.dropout, self.mask = inference, dropout, mask
        lines = packed if form in ("pairs", "labelled", "read") else shared_lines
        self.layout = layout_of(mask, lines, lengths)
        # What stands at padding, NaN included, must not reach any word.
        unary = unary.masked_fill(~mask[:, :, None], 0.0)
        self.unary = self.layout.rows(unary)
        latent = LATENT[inference.latent]
        start = latent.start(self.unary, inference.labels.weight)
        self.labels = Variable(inference.labels, start, latent.mean(start), latent.mean)
        self.potentials = [
            (
                TernaryMessages(factors.ternary, self.layout, inference.distance, fused=fused),
                None if factors.root is None else factors.root.dense(),
                None if factors.features is None else factors.features.dense(),
            )
            for factors in potentials
        ]
        self.iteration = 0
        root, features = potentials[0].root, potentials[0].features
        messages, self.root_scores, self.global_scores = self.potentials[0]
        if entries is not None:
            of_rows = self.layout.rows(entries.masked_fill(~mask, -1))  # padding has none of the vocabulary
            distinct, of_row = torch.unique(of_rows, return_inverse=True)
            row = torch.zeros_like(distinct).index_copy(0, of_row, torch.arange(len(of_rows)))
            messages.start, messages.entries = self.labels.probabilities, Entries(row, of_row)
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
        self.heads = HEADS[form](messages, (root is not None) + all_dep, inference, dropout, self.unary.dtype)
        if bias is None and not further:
            return
        assert isinstance(self.heads, StoredHeads), "heads of all pairs are stored"
        if bias is not None:
            self.heads.lean(*bias)
        arcs = [factor for factor in further if isinstance(factor, ArcsFactor)]
        self.heads.further = [(factor, factor.pairs(unary, mask)) for factor in arcs]
        self.heads.of_relations = [factor for factor in further if isinstance(factor, RelationsFactor)]

    def advance(
        self,
        iterations: int,
        bias: Float[Tensor, "b n d"] | None = None,
        history: Collection[int] = (),
        before: int = 0,
        at: Bool[Tensor, "b n"] | None = None,
    ) -> list[State]:
        """Run some more iterations, with ``bias`` added to the unary scores of these alone.

        ``before``: go on with the potentials after this many iterations; ``at``: the only positions whose states are
        needed: of the last iteration, labels are computed there alone, unless there is a ``history``. Returns the
        states after the iterations of ``history``, 0 = before the first.
        """
        self.iteration, unary, states = before, self.unary, []
        only: Int[Tensor, " w2"] | None = None
        if at is not None and not history and may_depend_on(self.mask):
            only = self.layout.rows(at & self.mask).nonzero()[:, 0]
        if bias is not None:
            self.unary = unary + self.layout.rows(bias)
        for iteration in range(iterations + 1):
            if iteration > 0:
                self._iterate(only if iteration == iterations else None)
            if iteration not in history:
                continue
            real = self.mask[:, :, None]
            labels = self.layout.grid(self.labels.probabilities) * real
            root = None if self.root is None else self.root.probabilities
            features, scores = None, None
            if self.features is not None:
                features = self.layout.grid(self.features.probabilities) * real[..., None]
            assert isinstance(self.heads, StoredHeads | BlockedHeads), "distributions are kept"
            if self.inference.scored:
                assert isinstance(self.heads, StoredHeads), "heads of all pairs are stored"
                scores = self.heads.scores()
            states.append(State(labels, self.heads.arcs(), root, features, scores))
        self.unary = unary
        if only is not None:
            message = self.labels.message
            assert message is not None, "labels have a message from the start"
            message = message.new_zeros(self.unary.shape).index_copy(0, only, message)
            self.labels = self.labels._replace(message=message)
        return states

    def representations(self) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b e"] | None]:
        """Return ``M_Z``, zero on padding, and ``M_root``, None without a root."""
        assert self.labels.message is not None, "labels have a message from the start"
        states = self.layout.grid(self.labels.message) * self.mask[:, :, None]
        return states, None if self.root is None else self.root.message

    def run_heads(self, iterations: Collection[int]) -> list[Float[Tensor, "b c n m"]]:
        """Return the head distributions after some iterations, in order; instead of :meth:`advance`."""
        distributions, last = [], max(iterations)
        assert isinstance(self.heads, StoredHeads | BlockedHeads), "distributions are kept"
        for iteration in range(1, last + 1):
            self._iterate(None, heads_alone=iteration == last)
            if iteration in iterations:
                distributions.append(self.heads.arcs())
        return distributions

    def _iterate(self, only: Int[Tensor, " w2"] | None, *, heads_alone: bool = False) -> None:
        """Update all variables once; of the labels, those of the rows ``only``, where given; or ``heads_alone``."""
        # The potentials of the last iteration serve all further ones.
        potentials = self.potentials[min(self.iteration, len(self.potentials) - 1)]
        self.heads.messages, self.root_scores, self.global_scores = potentials
        self.iteration += 1
        labels = self.labels.probabilities
        # Scores of the candidates that are no words; toward_root is Σ_b Q_root(b) T'[c,a,b].
        of_extra, toward_root = [], None
        if self.root is not None and self.root_scores is not None:
            toward_root = torch.einsum("be,cae->bca", self.root.probabilities, self.root_scores)
            at_words = self.layout.grid(labels) @ toward_root.mT
            of_extra.append(self.layout.rows(at_words)[..., None])
        if self.global_scores is not None and not self.split:
            of_extra.append(self._global_messages(labels))
        nothing = labels.shape[0], self.inference.channels, 0
        extra = torch.cat(of_extra, dim=-1) if of_extra else labels.new_zeros(nothing)
        if heads_alone:
            assert isinstance(self.heads, StoredHeads | BlockedHeads), "distributions are kept"
            self.heads.update(labels, extra)
            return
        message, heads = self.heads.exchange(labels, extra, only)
        messages = []
        # Second heads, or rectified features.
        if self.features is not None and self.global_scores is not None:
            before = self.features.probabilities
            self.features = self.features.updated(self._global_messages(labels))
            second = drop(self.features.probabilities if self.inference.asynchronous else before, self.dropout)
            messages.append(linear(second.flatten(1), self.global_scores.flatten(0, 1).T))
        # The root, whose label is updated with those of the words.
        if toward_root is not None:
            # A copy: a view would put a condition on the length into an exported graph.
            at_root, heads = heads[..., 0].clone(memory_format=torch.contiguous_format), heads[..., 1:]
            at_root = self.layout.grid(at_root)
            messages.append(self.layout.rows(at_root @ toward_root))
            assert self.root is not None, "there is a root"
            to_root = torch.einsum("bca,cae->be", at_root.mT @ self.layout.grid(labels), self.root_scores)
            self.root = self.root.updated(drop(to_root, self.dropout))
        # Global features that are candidates of the heads.
        if self.global_scores is not None and not self.split:
            messages.append(linear(heads.flatten(1), self.global_scores.flatten(0, 1).T))
        unary, variable = self.unary, self.labels
        if only is not None:
            messages = [part.index_select(0, only) for part in messages]
            assert variable.message is not None, "labels have a message from the start"
            parts = (unary, variable.message, variable.probabilities)
            unary, scores, probabilities = (part.index_select(0, only) for part in parts)
            variable = variable._replace(message=scores, probabilities=probabilities)
        self.labels = variable.updated(drop(sum(messages, message) + unary, self.dropout))

    def _global_messages(self, labels: Float[Tensor, "w d"]) -> Float[Tensor, "w c m"]:
        assert self.global_scores is not None, "there are global features"
        return linear(labels, self.global_scores.flatten(0, 1)).reshape(labels.shape[0], *self.global_scores.shape[:2])
