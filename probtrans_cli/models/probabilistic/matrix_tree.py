"""Marginals of tree-shaped heads by the Matrix-Tree theorem, in a form that loses no tree to rounding.

Sources: Koo et al. (2007), section 3.2, for the sum over trees with exactly one word under the root; Grassmann, Taksar
& Heyman (1985) for the elimination. Over all such trees, ``p(H) = exp(sum_i M[i, H_i]) / Z``.

    symbol     variable    shape         meaning
    M          scores      [..., n, n+1] score of head j for word i; column n is the root
    w_ij       weights     [B, n, n]     exp(M[i, j] - u_i), u_i the best word's score; 0 on the diagonal and padding
    log r_i    root        [B, n]        M[i, root] - u_i
    Z          -           [B]           sum over trees

Koo et al.'s determinant is eliminated from the last word to the first. Word k leaves the sentence; whoever had it as
head inherits its heads instead:

    s_k = sum_{j<k} w_kj,   p_kj = w_kj / s_k,   w_ij += w_ik p_kj (i != j),   r_i += w_ik r_k / s_k,
    Z = r_0 s_1 ... s_{n-1} exp(sum_i u_i)

The determinant's diagonal is never formed: every number is a sum, product or quotient of positive ones, so ``log Z`` is
right to rounding at any scale. A linear solver is not: two words that strongly choose each other leave `(1 + e) - 1`;
with two such pairs, four digits of the marginals are left at scores of 30 and none at 40. The marginals are
`d log Z / d M`, by the adjoint of the elimination, whose terms are at most n: their *absolute* error is about
`n^2 1e-16`; the relative error of tiny ones may be anything.

Limits. A word score more than ``RANGE`` = 600 below the best word of its row counts as 600 below (its weight would
leave float64) and receives no gradient; root scores have no such limit. So -inf on a word is "600 below", not
forbidden; on the root it is. NaN and +inf give NaN. Time O(n^3), memory O(n^2), n steps one after the other.

Both results come from one opaque operator, so ``torch.compile`` and ``torch.export`` keep batch and length dynamic. The
derivative of the marginals is their complex step derivative `Im f(M + i e V) / e`, which takes no difference and so is
as right as they are; it is also the backward pass, as the Hessian of log Z is symmetric. It has no derivative itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional

RANGE = 600.0
"""Largest difference of word scores in a row that is told apart; e^-600 squared with slack is still a float64."""
FORBIDDEN = -1e100
"""What -inf in the root's column counts as: no tree at all, as long as there is another."""
COMPLEX_STEP = 1e-20


def tree_marginals(scores: Float[Tensor, "*b n m"], mask: Bool[Tensor, "*b n"]) -> Float[Tensor, "*b n m"]:
    """Return the probability of every head of every word, ``[..., i, j]``, over all trees with one word under the root.

    ``scores [..., n, n+1]``: of head ``j`` for word ``i``, column ``n`` the root, the diagonal is ignored. Words
    outside ``mask`` (anywhere) are no heads and have none: zeros. Rows of words sum to 1, the root's column sums to 1.
    Computed in float64, returned in the type of ``scores``; differentiable once. Raises ValueError where there are not
    n + 1 columns. Source: Koo et al. (2007), section 3.2.
    """
    return _tree(scores, mask)[1].to(scores.dtype).view(scores.shape)


def head_marginals(
    scores: Float[Tensor, "b c n m"], mask: Bool[Tensor, "b n"], *, labelled: bool
) -> Float[Tensor, "b c n m"]:
    """Return the probability of every head in every channel, over the trees of that channel.

    ``labelled``: of every head with every label, over all trees whose arcs have a label each. A tree weighs
    ``exp(sum_i scores[label of i, i, head of i])``, so an arc ``sum_c exp(scores[c, i, j])``. Other arguments as of
    :func:`tree_marginals`; but without a column of the root, its scores are 0, and the result has none.
    """
    if scores.shape[-1] == scores.shape[-2]:
        return head_marginals(functional.pad(scores, (0, 1)), mask, labelled=labelled)[..., :-1]
    if not labelled:
        return tree_marginals(scores, mask[:, None].expand(scores.shape[:3]))
    return tree_marginals(scores.logsumexp(1), mask)[:, None] * scores.softmax(1)


def log_partition(scores: Float[Tensor, "*b n m"], mask: Bool[Tensor, "*b n"]) -> Float[Tensor, "*b"]:
    """Return the log of the sum of ``exp(sum_i scores[i, head of i])`` over all trees with one word under the root.

    Arguments as in :func:`tree_marginals`, which is its gradient. 0 for a sentence without words.
    """
    return _tree(scores, mask)[0].to(scores.dtype).view(scores.shape[:-2])


def sample_trees(
    scores: Float[Tensor, "n m"], count: int, random: np.random.Generator
) -> Int64[np.ndarray, "{count} n"]:
    """Draw trees with exactly one word under the root, each with the probability ``p(H)``; heads: 0 = root, j + 1.

    Words come back in the order in which :func:`tree_marginals` eliminates them, backwards. The tree of the words that
    are there, 0..k-1, is one of the weights without the others, so it begins as the only tree of word 0. Word k comes
    back in two steps:

    - An arc i -> j has the weight ``w_ij + w_ik p_kj``. In proportion to these two it stays, or was inherited from k:
      then k is the head of i.
    - Without dependents, k draws its head from ``p_k``. With some, its head is that of one of the arcs that they had:
      the last one that was inherited on the way from the first of them to the root. (A walk from there comes through k
      with each of these arcs; without its circles it leaves k by the last one.)

    Such a tree has the probability ``p`` among the trees of 0..k: in groups of the dependents' subtrees, the sum over
    the heads that they may have inherited is the weighted Cayley formula, which is 1 for every head of k. No step
    depends on how long a walk takes, as Wilson's algorithm does (1996), for ever where two words choose each other.
    Time O(n^3), and O(n^2) for each tree.

    Args:
        scores: of head ``j`` for word ``i``, column ``n`` the root, as of :func:`tree_marginals`.
        count: the number of trees.
        random: where random numbers come from, a function of the number of words and ``count`` alone.
    """
    n = len(scores)
    mask = torch.ones(1, n, dtype=torch.bool, device=scores.device)
    left = _leave(*_weights(scores.to(torch.float64)[None], mask), mask)
    weights, rows = left.weights[0].cpu().numpy(), np.arange(count)
    head = np.full((count, n), -1)  # -1: the root
    weight = np.zeros((count, n))  # of the arcs to these heads, among the words that are there
    for k in range(1, n):
        total, share_of_root = float(left.sums[n - 1 - k]), left.passed[n - 1 - k][0].cpu().numpy()
        column, row = weights[:k, k], weights[k, :k]
        before = head[:, :k]
        inherited = column * np.append(row / total, 0.0)[before]
        chance, chosen = random.random((count, k)), random.random(count)
        through = np.where(before < 0, chance < share_of_root, chance * weight[:, :k] < inherited)
        weight[:, :k] = np.where(through, column, np.maximum(weight[:, :k] - inherited, 0.0))
        sums = row.cumsum()
        of_k = np.minimum(np.searchsorted(sums, chosen * sums[-1], side="right"), k - 1)
        word = through.argmax(1)
        number = through.sum(1)
        of_k = np.where(number > 0, before[rows, word], of_k)
        several = np.flatnonzero(number > 1)
        word = word[several]
        while several.size:
            of_k[several] = np.where(through[several, word], before[several, word], of_k[several])
            word = before[several, word]
            several, word = several[word >= 0], word[word >= 0]
        before[through] = k
        head[:, k], weight[:, k] = of_k, np.append(row, 0.0)[of_k]
    return head + 1


def _tree(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    n = scores.shape[-2]
    if scores.shape[-1] != n + 1:
        raise ValueError(f"scores of {n} words have {n + 1} columns, the last for the root; given {scores.shape[-1]}")
    # Half precision and float32 in float64: the sums over trees span more digits than they have.
    flat = scores.to(torch.float64)[None].flatten(0, -3)
    log_z, marginals = _tree_operator(flat, mask[None].flatten(0, -2))
    return log_z, marginals


# --- the operator: value, shape, gradient ---------------------------------------------------------------------------


@torch.library.custom_op("probtrans::tree", mutates_args=(), schema="(Tensor scores, Tensor mask) -> (Tensor, Tensor)")
def _tree_operator(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    log_z, marginals = _eliminate(*_weights(scores, mask), mask)
    return log_z, marginals.clamp(0.0, 1.0)


@_tree_operator.register_fake
def _(scores: Tensor, _mask: Tensor) -> tuple[Tensor, Tensor]:
    return scores.new_empty(scores.shape[0]), torch.empty_like(scores, memory_format=torch.contiguous_format)


@torch.library.custom_op(
    "probtrans::tree_derivative", mutates_args=(), schema="(Tensor scores, Tensor mask, Tensor direction) -> Tensor"
)
def _derivative_operator(scores: Tensor, mask: Tensor, direction: Tensor) -> Tensor:
    """Derivative of the marginals along ``direction``, both [B, n, n+1]."""
    weights, root, shift = _weights(scores, mask)
    # The step is relative to each sentence's own direction, so that batch mates do not touch each other's rounding.
    size = direction.abs().amax((-2, -1), keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    step = COMPLEX_STEP * direction / size
    scores_told_apart = scores[..., :-1] - shift[..., None] >= -RANGE
    weights = torch.complex(weights, weights * step[..., :-1] * scores_told_apart)
    root = torch.complex(root, step[..., -1] * mask)
    _, marginals = _eliminate(weights, root, shift, mask)
    return marginals.imag * (size / COMPLEX_STEP)


@_derivative_operator.register_fake
def _(scores: Tensor, _mask: Tensor, _direction: Tensor) -> Tensor:
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, d_log_z: Tensor | None, d_marginals: Tensor | None) -> tuple[Tensor | None, None]:
    scores, mask, marginals = ctx.saved_tensors
    gradient = None if d_marginals is None else _derivative_operator(scores, mask, d_marginals)
    if d_log_z is not None:
        through_log_z = d_log_z[:, None, None] * marginals
        gradient = through_log_z if gradient is None else gradient + through_log_z
    return gradient, None


_tree_operator.register_autograd(_backward, setup_context=_save)


# --- the elimination ------------------------------------------------------------------------------------------------


def _weights(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights [B, n, n] of the arcs between words, log weights [B, n] of the root, and the shifts u [B, n]."""
    n = mask.shape[-1]
    arcs = mask[:, :, None] & mask[:, None, :] & ~torch.eye(n, dtype=torch.bool, device=mask.device)
    words = torch.where(arcs, scores[..., :-1], -torch.inf)
    shift = words.amax(-1) if n else words.sum(-1)
    # A word without candidates, or with none but -inf.
    shift = torch.where(shift == -torch.inf, 0.0, shift)
    weights = torch.where(arcs, (words - shift[..., None]).clamp(min=-RANGE).exp(), 0.0)
    return weights, torch.where(mask, scores[..., -1].clamp(min=FORBIDDEN) - shift, 0.0), shift


class _Elimination(NamedTuple):
    """What is left when all words but the first have left, by the word that left, from the last one."""

    log_z: Tensor
    last: Tensor
    """[B, n]: where the first word of a sentence is, which stays to the end: whatever is before it is padding."""
    weights: Tensor
    """[B, n, n]: the row and the column of a word are those with which it left."""
    sums: list[Tensor]
    """s_k, [B]"""
    kept: list[Tensor]
    """[B, k]: the share of each r_i that is its own."""
    passed: list[Tensor]
    """[B, k]: the share that it inherited from the word."""


def _eliminate(factors: Tensor, root: Tensor, shift: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Log Z [B] and marginals [B, n, n+1] from weights (real, or complex for a derivative; 0 for padding)."""
    log_z, last, weights, sums, kept, passed = _leave(factors, root, shift, mask)
    # Now the same way back. `adjoint` is d log Z / d w, `under_root` the share of the trees that go through r_i.
    adjoint = torch.zeros_like(weights)
    under_root = torch.zeros_like(root)
    for k in range(root.shape[-1]):
        total, flow = sums.pop(), under_root[:, :k] * passed.pop()
        under_root[:, :k] *= kept.pop()
        under_root[:, k] = flow.sum(-1) + last[:, k]
        column, row = weights[:, :k, k], weights[:, k, :k] / total[:, None]
        before = adjoint[:, :k, :k]
        d_row = (column[:, None, :] @ before)[:, 0]
        adjoint[:, :k, k] = (before @ row[:, :, None])[..., 0] + flow / torch.where(column == 0, 1.0, column)
        d_total = 1.0 - (d_row * row).sum(-1) - flow.sum(-1)
        adjoint[:, k, :k] = (d_row + d_total[:, None]) / total[:, None]
        adjoint[:, : k + 1, : k + 1].diagonal(dim1=-2, dim2=-1).zero_()
    marginals = torch.cat([factors * adjoint, under_root[..., None]], -1)
    return log_z.real, marginals


def _leave(factors: Tensor, root: Tensor, shift: Tensor, mask: Tensor) -> _Elimination:
    n, last = root.shape[-1], mask & (mask.cumsum(-1) == 1)
    weights, root = factors.clone(), root.clone()
    log_z = shift.sum(-1).to(root.dtype)
    sums: list[Tensor] = []
    kept: list[Tensor] = []
    passed: list[Tensor] = []
    for k in range(n - 1, -1, -1):
        column = weights[:, :k, k].clone()
        total = weights[:, k, :k].sum(-1)
        total = torch.where(last[:, k] | ~mask[:, k], 1.0, total)
        weights[:, :k, :k] += column[:, :, None] * (weights[:, k, None, :k] / total[:, None, None])
        weights[:, :k, :k].diagonal(dim1=-2, dim2=-1).zero_()
        log_z += torch.where(last[:, k], root[:, k], total.log())
        # The root's weights in logarithms: they are small or large without bound.
        through = root[:, k, None] - total.log()[:, None] + torch.where(column == 0, 1.0, column).log()
        top = torch.maximum(root[:, :k].real, through.real)  # the logarithm of a sum, for complex numbers too
        sum_of_both = top + ((root[:, :k] - top).exp() + (through - top).exp()).log()
        sum_of_both = torch.where(column == 0, root[:, :k], sum_of_both)
        kept.append((root[:, :k] - sum_of_both).exp())
        passed.append(torch.where(column == 0, 0.0, (through - sum_of_both).exp()))
        root[:, :k] = sum_of_both
        sums.append(total)
    return _Elimination(log_z, last, weights, sums, kept, passed)
