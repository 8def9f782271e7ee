"""The choice of a form: how the messages and the head variables of a batch are computed.

This is the only place that chooses, and the only module above ``fast/`` that knows what is in there. A form changes no
value but rounding. ``FORMS`` is the table; the first form that serves a batch computes it.

form         messages   head variables                               lines (``layout.py``)       serves
pairs        banded     all pairs kept                               one a sentence              who wants all pairs
fused        banded     by blocks, by hand, kept                     shared by short sentences   the usual case
fused-again  banded     by blocks, by hand, computed twice           shared                      the same, if long
banded       banded     all pairs kept                               shared                      graphs, GPUs, damping
recomputed   banded     by blocks, by autograd, computed twice       shared                      the same, if long

Lines are padded where the real words are not worth picking out (``fast/lines.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from probtrans_cli.models.probabilistic.fast.banded import BandedMessages
from probtrans_cli.models.probabilistic.fast.drawn_dropout import DrawnDropout
from probtrans_cli.models.probabilistic.fast.dropout import Dropout
from probtrans_cli.models.probabilistic.fast.fused import FusedHeads
from probtrans_cli.models.probabilistic.fast.head_variables import HeadVariables, StoredHeads
from probtrans_cli.models.probabilistic.fast.layout import Layout
from probtrans_cli.models.probabilistic.fast.lines import packed, shared_lines, worth_packing
from probtrans_cli.models.probabilistic.fast.messages import Messages
from probtrans_cli.models.probabilistic.fast.products import MatrixByHand
from probtrans_cli.models.probabilistic.fast.recomputed import RecomputedHeads
from probtrans_cli.models.probabilistic.inference import Inference
from probtrans_cli.models.probabilistic.potentials import Ternary
from probtrans_cli.models.probabilistic.projections import Matrix
from probtrans_cli.recipe.training import Forms

LONG = 2**25  # head scores of an iteration above which they are computed in blocks


@dataclass(frozen=True)
class Case:
    """What the choice depends on. ``all_pairs``: probabilities of all pairs of words are needed, or of trees;
    ``by_hand``, ``mixed``: see :func:`by_hand`, :func:`mixed`."""

    option: Forms
    mask: Bool[Tensor, "b n"]
    inference: Inference
    all_pairs: bool
    by_hand: bool
    mixed: bool

    @property
    def long(self) -> bool:
        """Whether the distributions of an iteration are too many to be kept."""
        if self.option != "fast":
            return self.option == "linear" and not torch.compiler.is_compiling()
        if torch.compiler.is_compiling():
            return False  # the graph of blocks does not serve every length
        return self.mask.numel() * self.mask.shape[1] * self.inference.channels > LONG

    @property
    def usual(self) -> bool:
        """Whether an iteration of the heads forgets the ones before, and gradients may be written by hand."""
        return (self.by_hand or self.mixed) and self.inference.heads.forgets


class Form(NamedTuple):
    """A row of the table; ``fused``: heads are :class:`FusedHeads`, which serve an autocast, too."""

    name: str
    serves: Callable[[Case], bool]
    heads: Callable[..., HeadVariables]
    lines: Callable[[Tensor], Layout]
    fused: bool = False


_again = partial(FusedHeads, keep=False)
FORMS = (
    Form("pairs", lambda case: case.all_pairs, StoredHeads, packed),
    Form("fused", lambda case: case.usual and not case.long, FusedHeads, shared_lines, True),
    Form("fused-again", lambda case: case.usual, _again, shared_lines, True),
    Form("banded", lambda case: not case.long, StoredHeads, shared_lines),
    Form("recomputed", lambda case: case.long, RecomputedHeads, shared_lines),
)


class Chosen(NamedTuple):
    """The form of a batch; ``by_hand``: whether its matrix products and iterations of the heads have gradients by hand,
    and its dropout is drawn as they want it; ``bands_by_hand``: whether the near buckets and the products of
    ``pairs.py`` have them, too, which need all tensors in one precision."""

    form: Form
    by_hand: bool
    bands_by_hand: bool

    def layout(self, mask: Bool[Tensor, "b n"]) -> Layout:
        """Where the words of the batch stand."""
        return self.form.lines(mask) if worth_packing(mask) else Layout.of(mask)

    def dropout(self, p: float) -> Dropout:
        """Dropout with probability ``p``."""
        return DrawnDropout(p) if self.by_hand else Dropout(p)

    def messages(self, ternary: Ternary, layout: Layout, distance: int | None) -> Messages[Any]:
        """The messages of ternary scores with the threshold ``distance``."""
        matrix = MatrixByHand.of if self.by_hand else Matrix
        return BandedMessages(ternary, layout, distance, matrix=matrix, by_hand=self.bands_by_hand)

    def heads(
        self, messages: Messages[Any], extra: int, inference: Inference, dropout: Dropout, dtype: torch.dtype
    ) -> HeadVariables:
        """The head variables, with the messages of their first iteration; see :class:`HeadVariables`."""
        return self.form.heads(messages, extra, inference, dropout, dtype)


def choose(
    option: Forms, unary: Tensor, mask: Bool[Tensor, "b n"], inference: Inference, *, all_pairs: bool = False
) -> Chosen:
    """The form of a batch. ``all_pairs``: the probabilities, or a bias, of all pairs of words are asked for."""
    case = Case(option, mask, inference, all_pairs or inference.tree, by_hand(unary), mixed(unary))
    form = next(form for form in FORMS if form.serves(case))
    return Chosen(form, case.by_hand or (case.mixed and form.fused), case.by_hand)


def by_hand(unary: Tensor) -> bool:
    """Whether all gradients may be written by hand: eagerly, on a CPU, in one precision."""
    return _eager(unary) and not torch.is_autocast_enabled("cpu")


def mixed(unary: Tensor) -> bool:
    """Whether gradients of matrix products and of whole iterations of the heads may be written by hand, though an
    autocast is on: eagerly, on a CPU, of scores in float32."""
    return _eager(unary) and torch.is_autocast_enabled("cpu") and unary.dtype == torch.float32


def _eager(unary: Tensor) -> bool:
    plain = type(unary) in (Tensor, nn.Parameter)
    return unary.device.type == "cpu" and plain and not torch.compiler.is_compiling()
