"""Exact marginals and log-partition of the whole random field of a tiny sentence, and mean field beside them.

Source: Wu & Tu (2023), Eq. 1-2, 2.3.5, B.3 for the potentials. The true posterior: all message weights are 1. Given the
labels of all words and of the root, no factor joins two head variables, so only labels are enumerated:

    p(z, z_root) ∝ exp( sum_i S[i, z_i] + sum_ic log sum_j exp M_ic(j) + sum_ic log sum_k exp B[c, k, z_i] )
    M_ic(j) = T[i, j, c, z_i, z_j]      M_ic(root) = T'[c, z_i, z_root]      M_ic(n+k) = B[c, k, z_i] (all-dep)

where the last sum of the first line is that of a second head variable (dep-split; single-split has one without c).

    symbol   variable   shape            meaning
    S        unary      [n, d]           unary scores of the words (Eq. 1)
    T        pairs      [n, n, h, d, d]  ternary scores [i, j, c, a, b] of child i and head j (Eq. 2, 9)
    T'       root       [h, d, d_root]   scores of the root as head (2.3.5)
    B        features   [h, m, d]        scores of global features (B.3); [m, d] for single-split
    z        labels     [assignments, n (+1)]   an assignment; its last column is the root's label

How far mean field is from exact (``python tests/exact.py``, :func:`table`): 5 words, 4
labels, 2 channels, γ = 1, all weights 1, 20 asynchronous iterations, 20 draws of normal scores with this deviation.
Mean total variation distance of label and head marginals, and `log Z` minus the mean-field bound in nats:

             plain                    with a root              with all-dep globals
    scale    labels  heads   log Z    labels  heads   log Z    labels  heads   log Z
    0.1      0.0012  0.0005  0.0409   0.0011  0.0005  0.0406   0.0011  0.0007  0.0390
    0.5      0.0395  0.0150  0.9182   0.0350  0.0154  1.0009   0.0353  0.0221  0.9004
    1.0      0.3072  0.1581  1.9731   0.3129  0.1694  2.3351   0.2425  0.1403  2.3774
    2.0      0.3976  0.3503  3.3178   0.2875  0.2718  2.5702   0.3614  0.3072  2.8357

Weak scores are inferred well. Strong ones give the field several modes, and mean field settles in one of them: it does
converge (of 40 models at scale 1, five still moved after 20 iterations and none after 60), but not to the marginals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int64
from small_models import global_scores, infer, root_scores
from torch import Tensor

from probtrans_cli.models import build
from probtrans_cli.models.base import CUES
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.head_bias import head_bias

LARGEST = 2_000_000
"""Label assignments of a sentence that are enumerated at most."""
ROWS = 1 << 14
"""Assignments at a time: their head scores are held together."""

GlobalKind = Literal["all-dep", "dep-split", "single-split"]


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact results for one sentence; ``heads`` has columns for the words, the root, the all-dep global features.

    ``features`` are the marginals of the second head variables, ``g = h`` for dep-split and 1 for single-split.
    """

    log_partition: Float[Tensor, ""]
    labels: Float[Tensor, "n d"]
    heads: Float[Tensor, "h n m"]
    root: Float[Tensor, " s"] | None = None
    features: Float[Tensor, "n g k"] | None = None


def exact(
    unary: Float[Tensor, "n d"],
    pairs: Float[Tensor, "n n h d d"],
    root: Float[Tensor, "h d s"] | None = None,
    features: Float[Tensor, "*h k d"] | None = None,
    kind: GlobalKind | None = None,
    *,
    labelled: bool = False,
    own_label: bool = False,
) -> Exact:
    """Log-partition and all marginals by enumeration of the labels; arguments as in the module's legend.

    ``kind`` says what ``features`` are. ``labelled``: a word has one head, with one of the channels as its label;
    ``own_label``: label 0 is that of the root and of nothing else. The diagonal of ``pairs`` is ignored. A word
    without any candidate has no head variable: its row of ``heads`` is zero. Raises ValueError for a sentence with
    more than ``LARGEST`` assignments and for features without their kind.
    """
    if (features is None) != (kind is None):
        raise ValueError("give the scores of global features together with their kind, or neither")
    if kind is not None and kind not in get_args(GlobalKind):
        raise ValueError(
            f"global features of the kind {kind} are not enumerated, but {', '.join(get_args(GlobalKind))}"
        )
    n, d = unary.shape
    root_labels = 1 if root is None else root.shape[-1]
    count = d**n * root_labels
    if count > LARGEST:
        raise ValueError(
            f"{n} words of {d} labels and a root of {root_labels} have {count} assignments; "
            f"at most {LARGEST} are enumerated: take a shorter sentence or fewer labels"
        )
    field = _Field(unary, pairs, root, features, kind, labelled, own_label)
    log_z = torch.logsumexp(torch.cat([field(z).log_weight for z in _assignments(n, d, root_labels)]), 0)
    sizes = field(torch.zeros(1, n + 1, dtype=torch.int64))
    labels, under_root = torch.zeros_like(unary), unary.new_zeros(root_labels)
    heads, second = torch.zeros_like(sizes.heads[0]), torch.zeros_like(sizes.second[0])
    for z in _assignments(n, d, root_labels):
        part = field(z)
        weight = (part.log_weight - log_z).exp()
        for i in range(n):
            labels[i].index_add_(0, z[:, i], weight)
        under_root.index_add_(0, z[:, n], weight)
        heads += torch.einsum("z,zcij->cij", weight, part.heads)
        second += torch.einsum("z,zigk->igk", weight, part.second)
    has_second = features is not None and kind != "all-dep"
    return Exact(log_z, labels, heads, None if root is None else under_root, second if has_second else None)


def _assignments(n: int, d: int, root_labels: int) -> Iterator[Int64[Tensor, "z n1"]]:
    """All label assignments, ``ROWS`` at a time: digits of a counter, the last column is the root's label."""
    count = d**n * root_labels
    for start in range(0, count, ROWS):
        number = torch.arange(start, min(start + ROWS, count))
        root = number % root_labels
        words = number // root_labels
        yield torch.stack([*(words // d**i % d for i in range(n)), root], -1)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some assignments: log weight [z], head distributions [z, h, n, m], second head distributions [z, n, g, k]."""

    log_weight: Tensor
    heads: Tensor
    second: Tensor


@dataclass(frozen=True, slots=True)
class _Field:
    unary: Tensor
    pairs: Tensor
    root: Tensor | None
    features: Tensor | None
    kind: GlobalKind | None
    labelled: bool = False
    own_label: bool = False

    def __call__(self, z: Tensor) -> _Part:
        """Weights and head distributions given the labels ``z [z, n+1]``."""
        n = len(self.unary)
        word, words = torch.arange(n), z[:, :n]
        log_weight = self.unary[word, words].sum(-1)
        # [z, i, j, c]: the scores of all pairs under these labels.
        pairs = self.pairs[word[:, None], word, :, words[:, :, None], words[:, None, :]]
        scores = [pairs.masked_fill(torch.eye(n, dtype=torch.bool)[:, :, None], -torch.inf).permute(0, 3, 1, 2)]
        second = self.unary.new_zeros(len(z), n, 0, 0)
        if self.root is not None:
            scores.append(self.root[:, words, z[:, n, None]].permute(1, 0, 2)[..., None])
        if self.features is not None and self.kind == "all-dep":
            scores.append(self.features[:, :, words].permute(2, 0, 3, 1))
        elif self.features is not None:
            with_channels = self.features if self.features.dim() == 3 else self.features[None]
            second = with_channels[:, :, words].permute(2, 3, 0, 1)
            log_weight = log_weight + torch.logsumexp(second, -1).sum((1, 2))
        heads = torch.cat(scores, -1)
        if heads.shape[-1] == 1 and self.root is None:
            # One word without candidates: no head variable.
            return _Part(log_weight, torch.zeros_like(heads), second.softmax(-1))
        if self.labelled:
            if self.own_label:
                of_root = torch.arange(heads.shape[-1]) == n
                first = torch.arange(heads.shape[1]) == 0
                heads = heads.masked_fill(first[:, None, None] != of_root, -torch.inf)
            of_words = torch.logsumexp(heads, (1, 3), keepdim=True)
            return _Part(log_weight + of_words.sum((1, 2, 3)), (heads - of_words).exp(), second.softmax(-1))
        log_weight = log_weight + torch.logsumexp(heads, -1).sum((1, 2))
        return _Part(log_weight, heads.softmax(-1), second.softmax(-1) if second.numel() else second)


# --- how far mean field is from exact -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """Mean field minus exact, for one sentence.

    ``labels`` and ``heads``: total variation distance of the marginals, mean over variables, 0 (alike) to 1;
    ``log_partition``: true value minus the mean-field bound (the energy's negative), in nats, never negative.
    """

    labels: float
    heads: float
    log_partition: float


def pair_scores(encoder: ProbabilisticEncoder, n: int) -> Float[Tensor, "n n h d d"]:
    """The ternary scores of every child ``i`` and head ``j`` of a sentence of ``n`` words."""
    of_distance = encoder.ternary_scores(range(1 - n, n))
    word = torch.arange(n)
    scores = of_distance[word[:, None] - word + n - 1]
    section = encoder.section.head_bias
    if section is None:
        return scores
    bias, _ = head_bias(section, scores.new_zeros(1, n, CUES), torch.ones(1, n, dtype=torch.bool))
    return scores + bias[0].permute(1, 2, 0)[..., None, None]


@torch.no_grad()
def gap(encoder: ProbabilisticEncoder, unary: Float[Tensor, "n d"]) -> Gap:
    """How far the encoder's last iteration is from exact for one sentence; its message weights should be 1."""
    section = encoder.section
    if section.latent != "categorical":
        raise ValueError("labels are enumerated, and spherical latents are not")
    n, mask = len(unary), torch.ones(1, len(unary), dtype=torch.bool)
    pairs = pair_scores(encoder, n)
    kind = section.globals.kind if section.globals is not None else None
    how = {"labelled": section.head_labels, "own_label": section.root is not None and section.root.own_label}
    true = exact(unary, pairs, root_scores(encoder), global_scores(encoder), kind, **how)
    state = infer(encoder, unary[None], mask)[-1]
    return Gap(
        labels=_total_variation(state.labels[0], true.labels),
        heads=_total_variation(state.heads[0], true.heads),
        log_partition=(true.log_partition + encoder.energy(unary[None], mask, state)[0]).item(),
    )


def _total_variation(left: Tensor, right: Tensor) -> float:
    return 0.5 * (left - right).abs().sum(-1).mean().item()


def table(
    scales: Sequence[float] = (0.1, 0.5, 1.0, 2.0), *, words: int = 5, draws: int = 20, **options: Any
) -> list[tuple[float, Gap]]:
    """Mean :class:`Gap` over ``draws`` random models and sentences for every scale, after 20 iterations.

    All scores are normal with the scale as standard deviation; ``options`` are further keys of the ``model`` section.
    """
    section: dict[str, Any] = {"labels": 4, "channels": 2, "iterations": 20, "dropout": 0.0, "distance": 1}
    section |= {"decomposition": {"kind": "none"}, "message_weight": {"labels": 1.0, "heads": 1.0}, **options}
    generator = torch.Generator().manual_seed(0)
    rows = []
    for scale in scales:
        gaps = []
        for _ in range(draws):
            encoder = build(section).double().eval()
            for parameter in encoder.parameters():
                torch.nn.init.normal_(parameter, std=scale, generator=generator)
            unary = scale * torch.randn(words, section["labels"], dtype=torch.float64, generator=generator)
            gaps.append(gap(encoder, unary))
        columns = [[found.labels, found.heads, found.log_partition] for found in gaps]
        rows.append((scale, Gap(*(math.fsum(column) / draws for column in zip(*columns, strict=True)))))
    return rows


def main() -> None:
    """Print the table for a plain model, one with a root, and one with global features."""
    print("scores   scale   labels (TV)   heads (TV)   log Z - bound")
    models: dict[str, dict[str, Any]] = {
        "plain": {},
        "root": {"root": {"labels": 4}},
        "all-dep": {"globals": {"kind": "all-dep", "features": 3}},
    }
    for name, options in models.items():
        for scale, found in table(**options):
            print(f"{name:7s}  {scale:5.1f}   {found.labels:11.4f}   {found.heads:10.4f}   {found.log_partition:13.4f}")


if __name__ == "__main__":
    main()
