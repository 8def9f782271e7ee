"""The transformer that the probabilistic one is measured against: the encoder of the paper's baseline (its Table 3).

Post-norm, heads of a size of their own, no biases in the attention, ReLU feed-forward with biases (Wu & Tu 2023,
appendix C and E, and their code). Learned absolute positions, or relative ones (Shaw et al. 2018, the key term alone):

    s_ij = q_i · (k_j + R[clip(i-j)]) / √d_qkv       P_i = softmax(s_i)       a_i = LN(x_i + Σ_j P_ij v_j W_o)
    y_i  = LN(a_i + W_2 relu(W_1 a_i))

symbol   variable        shape
x y      states          [b, n, d]
q k v    –               [b, h, n, d_qkv]
R        distances       [2·clip + 1, d_qkv], shared by the heads of a layer
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .settings import TransformerSizes

ROWS = 512  # of the position table
INPUT_DROPOUT = 0.1  # on the embeddings and on the positions, whatever the table's dropout


class Layer(nn.Module):
    """One post-norm layer; ``attention_dropout`` is the dropout of the attention probabilities."""

    def __init__(self, sizes: TransformerSizes, attention_dropout: float) -> None:
        super().__init__()
        self.sizes, self.attention_dropout = sizes, attention_dropout
        width = sizes.heads * sizes.head_size
        self.projections = nn.Linear(sizes.width, 3 * width, bias=False)
        self.output = nn.Linear(width, sizes.width, bias=False)
        self.widen = nn.Linear(sizes.width, sizes.inner)
        self.narrow = nn.Linear(sizes.inner, sizes.width)
        self.norms = nn.ModuleList([nn.LayerNorm(sizes.width) for _ in range(2)])
        self.dropout = nn.Dropout(sizes.dropout)
        self.distances: nn.Parameter | None = None
        if sizes.clip is not None:
            self.distances = nn.Parameter(torch.randn(2 * sizes.clip + 1, sizes.head_size) * sizes.head_size**-0.5)

    def forward(self, states: Tensor, allowed: Tensor | None) -> Tensor:
        """``states [b, n, d]`` -> ``[b, n, d]``; ``allowed [b, 1, 1, n]`` is True at real words, None = everywhere."""
        b, n, _ = states.shape
        split = self.projections(states).view(b, n, 3, self.sizes.heads, self.sizes.head_size)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mask = allowed if self.distances is None else self._relative(query, allowed)
        dropped = self.attention_dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropped)
        states = self.norms[0](states + self.dropout(self.output(mixed.transpose(1, 2).flatten(2))))
        inner = self.narrow(functional.relu(self.widen(states)))
        result: Tensor = self.norms[1](states + self.dropout(inner))
        return result

    def _relative(self, query: Tensor, allowed: Tensor | None) -> Tensor:
        """What the distances add to the scaled scores, ``[b, h, n, n]``, very low where there is no word."""
        assert self.distances is not None
        assert self.sizes.clip is not None
        clip, n = self.sizes.clip, query.shape[2]
        word = torch.arange(n, device=query.device)
        bucket = (word[:, None] - word[None, :]).clamp(-clip, clip) + clip
        by_bucket = query @ self.distances.mT * self.sizes.head_size**-0.5
        added = by_bucket.gather(-1, bucket.expand(*query.shape[:2], n, n))
        scores: Tensor = added if allowed is None else added.masked_fill(~allowed, torch.finfo(added.dtype).min)
        return scores


class Transformer(nn.Module):
    """The whole encoder: positions and layers, without word embeddings and output layer.

    ``attention_dropout`` False leaves the attention probabilities as they are, so that a fused kernel serves on the CPU
    too (with dropout, PyTorch has none there). ``rows``: longest sentence of absolute positions.
    """

    def __init__(self, sizes: TransformerSizes, *, attention_dropout: bool = True, rows: int = ROWS) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(rows, sizes.width)) if sizes.clip is None else None
        dropout = sizes.dropout if attention_dropout else 0.0
        self.layers = nn.ModuleList([Layer(sizes, dropout) for _ in range(sizes.layers)])
        self.dropout = nn.Dropout(INPUT_DROPOUT)

    def forward(self, embedded: Tensor, mask: Tensor | None) -> Tensor:
        """Word embeddings ``[b, n, d]`` -> states ``[b, n, d]``; ``mask [b, n]`` is True at real words, None = all."""
        states: Tensor = self.dropout(embedded)
        if self.positions is not None:
            states = states + self.dropout(self.positions[: embedded.shape[1]])
        allowed = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            states = layer(states, allowed)
        return states
