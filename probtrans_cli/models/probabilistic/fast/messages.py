"""Messages between head and label variables (Wu & Tu 2023, Eq. 3, 4, 9, 10), in terms of the sides.

With the sides ``u_i[k,c]`` and ``v_j[k,c]`` of the ternary scores (``potentials.py``) and the bucket ``k = f(i-j)``:

    F_ic(j)    = u_i[k,c] · v_j[k,c]                       score of head j for word i              (3)
    ū_i[k,c]   = Σ_{j: f(i-j)=k} Q_ic(j) v_j[k,c]          from the words that may be i's head     (4, first term)
    v̄_j[k,c]   = Σ_{i: f(i-j)=k} Q_ic(j) u_i[k,c]          from the words whose head j may be      (4, second term)

``ū`` and ``v̄`` are the derivatives of ``Σ Q_ic(j) F_ic(j)``; the bucket of the second is the child's, as it must be.

Of a *near* bucket (|i-j| ≤ γ) only one diagonal of the n × n matrix is ever used: it is scored by a shift of the rows
and an elementwise product, O(n), instead of a product O(n²) (``bands.py``). The one or two *far* buckets are
attention-sized products (``heads.py``). The scores of near buckets and of the candidates that are no words are the
*short* columns of a word. No n × n × K tensor arises, and with rows of real words (``layout.py``) no work on padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.bands import Band, ByHandBand, band
from probtrans_cli.models.probabilistic.fast.layout import Layout
from probtrans_cli.models.probabilistic.potentials import Ternary
from probtrans_cli.models.probabilistic.projections import Sides


class Far(NamedTuple):
    """The sides of a far bucket on the lines."""

    child: Float[Tensor, "l c n r"]
    head: Float[Tensor, "l c2 n r"]


class TernarySides(NamedTuple):
    """Sides of the one or two far buckets, on rows and on lines, and the band of the near ones (None without any)."""

    rows: list[Sides]
    far: list[Far]
    near: Band | None


class Entries(NamedTuple):
    """The distinct entries of the vocabulary in a batch: a row where each stands, and the entry of every row."""

    row: Int[Tensor, " e"]
    of_row: Int[Tensor, " w"]


class TernaryMessages:
    """The messages of the ternary factors of one batch.

    Labels that are the object ``start`` are the same for all words of an entry in ``entries``.
    """

    start: Tensor | None = None
    entries: Entries | None = None

    def __init__(self, ternary: Ternary, layout: Layout, distance: int | None, *, fused: bool = False) -> None:
        """``fused``: near buckets by the kernels of a GPU."""
        self.layout, self.distance, self.fused = layout, distance, fused
        self.projection = ternary.projection([1] if distance is None else [1, 2 * distance, 1] if distance else [1, 1])
        b, n = layout.mask.shape
        self.position = layout.rows(torch.arange(n, device=layout.mask.device).expand(b, n))
        gamma = distance or 0
        self.offsets = [x for x in range(-gamma, gamma + 1) if x != 0]  # i - j of the near buckets, as in Eq. 10

    def sides(self, labels: Float[Tensor, "w d"]) -> TernarySides:
        """Return the sides of the ternary scores for label distributions."""
        if self.entries is None or labels is not self.start or self.projection.turns:
            groups = self.projection.sides(labels, self.position)
        else:
            of_entries = self.projection.sides(labels.index_select(0, self.entries.row), self.position)
            of_row = self.entries.of_row
            groups = [
                Sides(child.index_select(0, of_row), head.index_select(0, of_row), weight)
                for child, head, weight in of_entries
            ]
        rows = [groups[0], groups[-1]] if self.distance is not None else [groups[0]]
        on_lines: dict[int, Tensor] = {}
        for side in [*(group.child for group in rows), *(group.head for group in rows)]:
            if id(side) not in on_lines:  # both far buckets may share a side
                on_lines[id(side)] = self.layout.to_channels(side[:, 0])
        far = []
        for child, head, weight in rows:
            u = on_lines[id(child)]
            far.append(Far(u if weight is None else u * weight[0, :, None], on_lines[id(head)]))
        if not self.offsets:
            return TernarySides(rows, far, None)
        if not self.fused:
            return TernarySides(rows, far, band(groups[1], self.offsets))
        from probtrans_cli.models.probabilistic.fast.triton_bands import PRODUCTS  # noqa: PLC0415  # with triton

        return TernarySides(rows, far, ByHandBand(groups[1], self.offsets, PRODUCTS))

    def short(self, sides: TernarySides, extra: Float[Tensor, "w c e"]) -> Float[Tensor, "l c n s"]:
        """Return the scores of the near buckets and, after them, of the ``extra`` candidates."""
        if sides.near is not None:
            extra = torch.cat([sides.near.scores().transpose(1, 2), extra], dim=-1)
        return self.layout.to_channels(extra)

    def to_labels(
        self,
        sides: TernarySides,
        to_child: Sequence[Float[Tensor, "l c n r"]],
        to_head: Sequence[Float[Tensor, "l c2 n r"]],
        short: Float[Tensor, "l c n s"],
        rows: Int[Tensor, " w2"] | None,
    ) -> tuple[Float[Tensor, "w2 d"], Float[Tensor, "w c e"]]:
        """Return the message to the labels (of some ``rows`` only), and the distributions of the extra candidates.

        ``to_child``, ``to_head``: ``ū`` and ``v̄`` of every far bucket; ``short``: distributions over short columns.
        """
        near, extra = self.layout.from_channels(short).tensor_split([len(self.offsets)], dim=-1)
        to_child = list(to_child)
        for k, (child, _, weight) in enumerate(sides.rows):  # as in `Sides.back`, on the lines
            if weight is not None:
                to_child[k] = to_child[k] * weight[0, :, None]
                if child.shape[2] == 1:
                    to_child[k] = to_child[k].sum(1, keepdim=True)
        first, last = sides.rows[0], sides.rows[-1]
        if first.child is last.child and first.head is last.head:
            to_child, to_head = [sum(to_child[1:], to_child[0])], [sum(to_head[1:], to_head[0])]
        messages = [
            Sides(*(self.layout.from_channels(part)[:, None] for part in pair))
            for pair in zip(to_child, to_head, strict=True)
        ]
        if sides.near is not None:
            messages.insert(1, sides.near.messages(near.transpose(1, 2)))
        position = self.position
        if rows is not None:
            messages = [Sides(*(part.index_select(0, rows) for part in message[:2])) for message in messages]
            position = position.index_select(0, rows)
        return self.projection.collect(messages, position), extra
