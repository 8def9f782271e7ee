"""The transformer encoder: the paper's baseline (Wu & Tu 2023, appendices C to E), and BERT (Devlin et al. 2019).

Into the first layer go the words' vectors ``W``, those of positions ``P`` and of segments ``E``:

    x_i  = drop(W_i) + drop(P_i) + E_{t_i}          or, with embedding_norm,   x_i = drop(LN(W_i + P_i + E_{t_i}))
    x_i += W_C drop(W_{i-1})                        with `chain`

A layer, head by head (the sums over heads are one product with all W_O side by side), ``x = clip(i - j)``:

    q_i = W_Q x_i     k_j = W_K x_j     v_j = W_V x_j
    s_ij = (q_i + a^Q_x) · (k_j + a^K_x) / √d_qkv, without a^Q · a^K       (Shaw et al. 2018; a = 0 unless asked for)
    p_i  = softmax_j(s_ij)                          c_i = Σ_j drop(p_ij) (v_j + a^V_x)

    post-norm:   y_i = LN(x_i + drop(W_O c_i))           z_i = LN(y_i + drop(W_2 act(W_1 y_i)))
    pre-norm:    y_i = x_i + drop(W_O c_i(LN x))         z_i = y_i + drop(W_2 act(W_1 LN(y_i))), LN after the last layer

symbol    variable            shape
x y z     states              [b, n, d]
q k v     query key value     [b, c, n, r]    c: head, r: d_qkv
a         table               [2 clip + 1, r] or [c, 2 clip + 1, r]
s p       scores, attention   [b, c, i, j]
t         segments            [b, n]

Of sentences of one length, and of causal ones with their padding behind them, no pair of words is to be left out, or
only later ones: kernels without a mask serve. On a GPU, whose values nobody waits for, the lengths tell (``Words``).
:class:`Rows` does without a mask for all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.errors import DataError
from probtrans_cli.models.arithmetic import Linear, Values, linear, may_depend_on, sent
from probtrans_cli.models.base import Encoded, Encoder, Iterations, Memory, Reading, Readout, Words, chosen_iterations
from probtrans_cli.models.bayesian import propagation
from probtrans_cli.models.bayesian.propagation import apply, masked, put, selected
from probtrans_cli.models.bayesian.state import State
from probtrans_cli.models.width import Scale, scales_of_transformer
from probtrans_cli.recipe.model import Transformer as Section
from probtrans_cli.recipe.model.transformer import LearnedSinusoidalPositions, RelativePositions, SinusoidalPositions
from probtrans_cli.recipe.training import Forms

ACTIVATIONS = {"relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh")}
_TANH = nn.Tanh()
_TERMS = {"query": "q", "key": "k", "value": "v"}
FEW = 16  # different lengths of a batch, above which calls for each cost more than a mask


class TransformerEncoder(Encoder):
    """A transformer encoder; ``section`` holds its options. Its channels are the heads, its iterations the layers.

    ``messages``: with `fused`, padding is left out on a GPU, too, see :class:`Rows`.
    """

    def __init__(self, section: Section, messages: Forms = "fast") -> None:
        super().__init__(section := section.resolved())
        self.messages = messages
        positions, width = section.positions, section.width
        self.scales = scales_of_transformer(section)
        self.sinusoidal = isinstance(positions, SinusoidalPositions)
        self.positions: nn.Parameter | None = None
        if positions.table_rows is not None:
            self.positions = nn.Parameter(torch.randn(positions.table_rows, width))
        self.segments = nn.Embedding(section.segments, width) if section.segments else None
        self.chain = Linear(width, width, bias=False) if section.chain else None
        self.embedding_norm = nn.LayerNorm(width, section.norm_eps) if section.embedding_norm else None
        self.embedding_dropout = nn.Dropout(section.embedding_dropout)
        self.layers = nn.ModuleList([Layer(section) for _ in range(1 if section.share_layers else section.layers)])
        self.final_norm = nn.LayerNorm(width, section.norm_eps) if section.norm == "pre" else None
        self.first = nn.Parameter(torch.zeros(width)) if section.causal else None  # what represents a first word
        self.pooler = Linear(width, width, bias=section.bias != "none") if section.pooler else None
        self.word_std = section.word_std or (section.std if section.initialization == "normal" else None)
        if section.initialization == "normal":
            self.apply(self._start_normal)
        if isinstance(positions, LearnedSinusoidalPositions):
            assert self.positions is not None, "it is a table"
            with torch.no_grad():
                self.positions.copy_(sinusoids(positions.rows, width, self.positions.device))

    def parts(self) -> Mapping[str, Sequence[nn.Module]]:
        layers = [layer for layer in self.layers if isinstance(layer, Layer)]
        return {
            "attention": [module for layer in layers for module in (layer.projections, layer.output) if module],
            "feed_forward": [module for layer in layers for module in (layer.widen, layer.narrow)],
        }

    def stages(self) -> Sequence[Sequence[nn.Parameter]]:
        if self.section.share_layers:
            return ()
        above = [module for module in (self.layers, self.final_norm, self.pooler) if module is not None]
        not_below = {id(parameter) for module in above for parameter in module.parameters()}
        below = [parameter for parameter in self.parameters() if id(parameter) not in not_below]
        return (below, *(list(layer.parameters()) for layer in self.layers))

    def scaled(self) -> Iterator[tuple[nn.Parameter, Scale]]:
        assert self.scales is not None, "it has a base"
        for module in [*(module for modules in self.parts().values() for module in modules), self.chain, self.pooler]:
            if isinstance(module, nn.Linear):
                matrix: Any = module.weight
                yield matrix, self.scales.hidden

    def activations(self, words: Words) -> Mapping[str, Tensor]:
        """See :meth:`Encoder.activations`: of each layer q, k and v, what its parts add, its states, and scores of
        attention, less their mean."""
        kept: dict[str, Tensor] = {}

        def keep(name: str, values: Tensor | tuple[Tensor, ...]) -> None:
            kept[name] = (values[0] if isinstance(values, tuple) else values)[words.mask]

        names = {"projections": "q k v", "output": "attention", "widen": "W_1 y", "narrow": "feed-forward"}
        with ExitStack() as hooks:
            for number, layer in enumerate(self.layers, start=1):
                for part, name in ({"": "states"} | names).items():
                    hook = partial(lambda name, *call: keep(name, call[-1]), f"{name} {number}")
                    hooks.callback(layer.get_submodule(part).register_forward_hook(hook).remove)
            arcs = self(words, arcs=True).arcs
        pairs = (words.mask[:, None, :, None] & words.mask[:, None, None, :]).expand(arcs[:, 0].shape)
        pairs = pairs.tril() if self.section.causal else pairs
        for number, attention in enumerate(arcs.unbind(1), start=1):
            scores = attention.clamp_min(torch.finfo(attention.dtype).tiny).log() * pairs
            scores = scores - scores.sum(-1, keepdim=True) / pairs.sum(-1, keepdim=True).clamp(min=1)
            kept[f"scores {number}"] = scores[pairs]
        return kept

    def _start_normal(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(parameter)
            elif not isinstance(module, nn.LayerNorm):
                nn.init.normal_(parameter, std=self.section.std)

    def forward(self, words: Words, arcs: Iterations = False, at: Bool[Tensor, "b n"] | None = None) -> Encoded:
        """See :meth:`Encoder.forward`."""
        mask, number = words.mask, self.section.layers
        if at is not None and (not may_depend_on(mask) or self.pooler is not None or words.readout is not None):
            at = None  # a pooler always needs the state of the first word, a word to come that of the word before
        wanted = chosen_iterations(arcs, number)
        lengths = words.lengths_of_host
        states, attentions = self._through(range(number), self._embedded(words), mask, wanted, at, lengths)
        if self.final_norm is not None:
            states = apply(self.final_norm, states)
        sentence = None if self.pooler is None else apply(_TANH, apply(self.pooler, propagation.first(states)))
        if words.readout is not None:
            assert self.first is not None, "the model is causal"
            states = torch.cat([self.first.expand(len(states), 1, -1), states[:, :-1]], dim=1)
        return Encoded(masked(states, mask), sentence, torch.stack(attentions, dim=1) if attentions else None)

    def read_on(self, unary: Float[Tensor, "b 1 d"], memory: Memory = ()) -> Memory:
        """See :meth:`Encoder.read_on`; it keeps keys and values of every layer, the unary scores of the last word, and
        its state."""
        h = self.section.heads
        empty = unary.new_zeros(len(unary), h, 0, self.section.head_size)
        *pairs, previous = memory[:-1] or [*[empty] * (2 * self.section.layers), torch.zeros_like(unary)]
        mask = torch.ones_like(unary[..., 0], dtype=torch.bool)
        states = self._embedded(Words(unary, mask), before=pairs[0].shape[2], previous=previous)
        kept: list[Tensor] = []
        for index in range(self.section.layers):
            past = pairs[2 * index : 2 * index + 2]
            states, _ = self.layers[0 if self.section.share_layers else index](states, None, None, False, past=past)
            kept += past
        return [*kept, unary, states if self.final_norm is None else self.final_norm(states)]

    def foretell(self, texts: int, memory: Memory, readout: Readout) -> Float[Tensor, "b 1 d"]:
        del readout
        assert self.first is not None, "the model is causal"
        return memory[-1] if memory else self.first.expand(texts, 1, -1)

    def begin(self, words: Words, steps: int, arcs: Iterations = False) -> Reading:
        wanted, below = chosen_iterations(arcs, self.section.layers), range(self.section.layers - steps)
        states, attentions = self._through(below, self._embedded(words), words.mask, wanted)
        return Reading(words.mask, steps, states, None, tuple(attentions), wanted)

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        states = reading.carried if bias is None else reading.carried + bias
        mask, layers = reading.mask, self.section.layers
        states, attentions = self._through(range(layers - reading.steps, layers), states, mask, reading.wanted)
        normed = states if self.final_norm is None else self.final_norm(states)
        return Reading(mask, reading.steps, states, normed * mask[:, :, None], (*reading.arcs, *attentions))

    def _through(
        self,
        layers: range,
        states: Values,
        mask: Bool[Tensor, "b n"],
        wanted: Collection[int],
        at: Bool[Tensor, "b n"] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[Values, list[Float[Tensor, "b c n m"]]]:
        """Apply some layers; also return the attention of the layers ``wanted``, by their numbers from 1.

        ``at``: the only positions whose states are wanted behind the last layer of all. ``lengths``: of the sentences,
        where the mask must not be looked at.
        """
        rows: Rows | None = None
        allowed: Tensor | None = None  # where all words may be attended to, which lets faster kernels serve
        # Attention that is returned, or has scores of distances, needs a mask whatever the lengths are.
        bare = None if wanted or isinstance(self.section.positions, RelativePositions) else lengths
        if bare is not None and self.messages == "fused" and isinstance(states, Tensor) and not self.section.causal:
            rows = Rows.of(bare, mask, self._serves_varlen(states))
        if rows is not None:
            states = states.flatten(0, 1).index_select(0, rows.index)[None]
        elif bare is None or not self.section.causal:  # else no word attends to the padding behind it
            allowed = self._allowed(mask, lengths)
        attentions: list[Tensor] = []
        for index in layers:
            layer = self.layers[0 if self.section.share_layers else index]
            last = mask & at if at is not None and index == self.section.layers - 1 else None
            states, attention = layer(states, rows or allowed, last, index + 1 in wanted)
            if attention is not None:
                attentions.append(attention * mask[:, None, :, None])
        if rows is not None:  # back to the padded batch, zero at padding
            empty = states.new_zeros(mask.numel(), states.shape[-1])
            states = empty.index_copy(0, rows.index, states[0]).view(*mask.shape, -1)
        return states, attentions

    def _allowed(self, mask: Bool[Tensor, "b n"], lengths: Sequence[int] | None) -> Tensor | None:
        """Return which words each may attend to; None where it is all of them."""
        full = may_depend_on(mask) and bool(mask.all())
        if lengths is not None:
            full = min(lengths, default=0) == mask.shape[1]
        allowed: Tensor | None = None
        if not full:
            # A sentence of no words attends to its padding: finite numbers that nobody reads, instead of 0 / 0.
            allowed = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        if self.section.causal:
            n = mask.shape[1]
            earlier = torch.ones(n, n, dtype=torch.bool, device=mask.device).tril()
            allowed = earlier if allowed is None else allowed & earlier
        return allowed

    def _serves_varlen(self, states: Float[Tensor, "b n d"]) -> bool:
        """Return whether torch's attention of many lengths serves: it has neither dropout nor a scale of our own."""
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else states.dtype
        plain = self.scales is None and not (self.training and self.section.attention_dropout)
        fits = kind.itemsize == 2 and self.section.head_size % 8 == 0 and self.section.head_size <= 256
        return states.is_cuda and plain and fits and torch.cuda.get_device_capability(states.device) >= (8, 0)

    def _embedded(self, words: Words, before: int = 0, previous: Float[Tensor, "b 1 d"] | None = None) -> Values:
        """Return ``x``, what goes into the first layer; there are so many words ``before`` these, the last one of them
        with the unary scores ``previous``."""
        mask = words.mask
        if isinstance(words.unary, Tensor):
            mean = states = words.unary.masked_fill(~mask[:, :, None], 0.0)
        else:
            states = masked(words.unary, mask)
            mean = states.mean
        n = before + mean.shape[1]
        if self.positions is not None and n > self.positions.shape[0]:
            raise DataError(
                f"a sentence of {n} words is longer than the model's {self.positions.shape[0]} positions",
                hint=f"train with model.positions.rows={n}, or with positions of another kind",
            )
        drop = self.embedding_dropout if self.embedding_norm is None else nn.Identity()
        states = apply(drop, states)
        if self.chain is not None:
            assert isinstance(states, Tensor), "a causal model has no moments"
            first = torch.zeros_like(states[:, :1]) if previous is None else previous
            states = states + self.chain(torch.cat([first, states[:, :-1]], dim=1))
        if self.positions is not None:
            states = states + drop(self.positions[before:n])
        elif self.sinusoidal:
            states = states + drop(sinusoids(n, mean.shape[2], mean.device)[before:].to(mean.dtype))
        if self.segments is not None:
            segments = words.segments
            if segments is None:
                segments = torch.zeros_like(mean[:, :, 0], dtype=torch.int64)
            elif may_depend_on(segments) and segments.numel():  # on a GPU the look-up itself refuses them
                for kind in (int(segments.min()), int(segments.max())):
                    if not 0 <= kind < self.section.segments:
                        raise ValueError(f"segment type {kind}, but the model has {self.section.segments}, from 0")
            states = states + self.segments(segments)
        if self.embedding_norm is None:
            return states
        return apply(self.embedding_dropout, apply(self.embedding_norm, states))


@dataclass(frozen=True)
class Rows:
    """The words of a batch one behind another, the sentences by their lengths; each attends to those of its own.

    There is no work on padding, and no mask. ``index [w]``: where each word stands in the padded batch. ``runs``: a
    length, and how many sentences have it. ``ends [b + 1]``: where sentences begin, and the last one ends, if one
    kernel serves all lengths; None: a call for each.
    """

    index: Int[Tensor, " w"]
    runs: Sequence[tuple[int, int]]
    ends: Int[Tensor, " e"] | None

    @classmethod
    def of(cls, lengths: Sequence[int], mask: Bool[Tensor, "b n"], varlen: bool) -> Rows | None:
        """Return those of a batch; None where no sentence has padding, or a mask costs less."""
        n, words = mask.shape[1], torch.arange(mask.shape[1])
        order = sorted((number for number, length in enumerate(lengths) if length), key=lengths.__getitem__)
        size = torch.tensor([lengths[number] for number in order], dtype=torch.int64)
        runs = [(length, len(list(group))) for length, group in groupby(size.tolist())]
        if runs in ([], [(n, len(lengths))]) or (len(runs) > FEW and not varlen):
            return None
        index = (torch.tensor(order)[:, None] * n + words)[words < size[:, None]]
        ends = functional.pad(size.cumsum(0), (1, 0)).to(torch.int32)
        return cls(sent(index, mask.device), runs, sent(ends, mask.device) if varlen else None)

    def attend(self, split: Float[Tensor, "w k c r"], p: float, scale: float | None) -> Float[Tensor, "w o"]:
        """Return what every word takes, all heads side by side; ``split``: q, k and v, or q and k where v is k."""
        if self.ends is not None:
            from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415  # its import takes time

            longest, (query, key, value) = self.runs[-1][0], (split[:, 0], split[:, 1], split[:, -1])
            return varlen_attn(query, key, value, self.ends, self.ends, longest, longest).flatten(1)  # type: ignore[union-attr]
        mixed = []
        sizes = [length * number for length, number in self.runs]
        for run, (length, number) in zip(torch.split(split, sizes), self.runs, strict=True):
            query, key, *rest = run.view(number, length, *run.shape[1:]).permute(2, 0, 3, 1, 4)
            value = rest[0] if rest else key
            mixed.append(functional.scaled_dot_product_attention(query, key, value, dropout_p=p, scale=scale))
        return torch.cat([part.transpose(1, 2).flatten(0, 1) for part in mixed]).flatten(1)


class Layer(nn.Module):
    """Attention and feed-forward layer."""

    def __init__(self, section: Section) -> None:
        super().__init__()
        d, h, positions = section.width, section.heads, section.positions
        self.heads, self.size = h, section.head_size or d // h
        scales = scales_of_transformer(section)
        self.scale = None if scales is None else self.size**-0.5 / scales.heads  # of scores; None: 1 / √d_qkv
        self.pre = section.norm == "pre"
        self.causal = section.causal
        self.clip = positions.clip if isinstance(positions, RelativePositions) else 0
        self.attention_dropout = section.attention_dropout or 0.0
        self.projections = Linear(d, (3 - section.tie_kv) * h * self.size, bias=section.bias == "all")
        self.output = None if section.tie_qo else Linear(h * self.size, d, bias=section.bias == "all")
        self.attention_norm = nn.LayerNorm(d, section.norm_eps)
        self.widen = Linear(d, section.inner, bias=section.bias != "none")
        self.narrow = Linear(section.inner, d, bias=section.bias != "none")
        self.norm = nn.LayerNorm(d, section.norm_eps)
        self.activation = ACTIVATIONS[section.activation]
        self.dropout = nn.Dropout(section.dropout)
        self.tables = nn.ParameterDict()
        if isinstance(positions, RelativePositions):
            shape = (2 * positions.clip + 1, self.size)
            for name, letter in _TERMS.items():
                if letter in positions.terms:
                    self.tables[name] = nn.Parameter(torch.randn(shape) * self.size**-0.5)
        for matrix in (self.projections.weight, *([] if self.output is None else [self.output.weight.T])):
            for head in torch.split(matrix.detach(), self.size):  # a head at a time: its matrix is d x d_qkv
                nn.init.xavier_normal_(head)

    def forward(
        self,
        states: Values,
        allowed: Tensor | Rows | None,
        at: Bool[Tensor, "b n"] | None,
        arcs: bool,
        past: list[Tensor] | None = None,
    ) -> tuple[Values, Float[Tensor, "b c n n"] | None]:
        """Return the next states ``[b, n, d]``, zero but for positions ``at`` if it is there; attention if ``arcs``.

        ``allowed``: which words each may attend to; None: all, or all earlier ones where the model is causal.
        ``past``: keys and values of earlier words, to which those of these words are added.
        """
        inputs = apply(self.attention_norm, states) if self.pre else states
        mixed: Values
        if isinstance(inputs, State):
            assert not isinstance(allowed, Rows), "rows are for tensors"
            mixed, attention = propagation.attend(self, inputs, allowed, arcs, alone=at is not None)
        else:
            mixed, attention = self.attend(inputs, allowed, arcs, past)
        if at is not None:
            mixed, states = selected(mixed, at), selected(states, at)
        # Without a projection of its own, the output is tied to that of the queries.
        of_queries = self.projections.weight
        mixed = linear(mixed, of_queries[: mixed.shape[-1]].T) if self.output is None else apply(self.output, mixed)
        states = states + apply(self.dropout, mixed)
        states = states if self.pre else apply(self.attention_norm, states)
        inputs = apply(self.norm, states) if self.pre else states
        active = apply(self.activation, apply(self.widen, inputs))
        added = apply(self.dropout, apply(self.narrow, active))
        states = propagation.after_feed_forward(self, (states, inputs, active, added), states + added)
        states = states if self.pre else apply(self.norm, states)
        return states if at is None else put(states, at), attention

    def attend(
        self,
        states: Float[Tensor, "b n d"],
        allowed: Tensor | Rows | None,
        arcs: bool,
        past: list[Tensor] | None = None,
    ) -> tuple[Float[Tensor, "b n o"], Float[Tensor, "b c n n"] | None]:
        """Return what every word takes, all heads side by side; attention before dropout if ``arcs``."""
        b, n, _ = states.shape
        split = self.projections(states).view(b, n, -1, self.heads, self.size)
        p = self.attention_dropout if self.training else 0.0
        if isinstance(allowed, Rows):
            return allowed.attend(split[0], p, self.scale)[None], None
        query, key, *rest = split.permute(2, 0, 3, 1, 4).unbind(0)
        value = rest[0] if rest else key
        if past is not None:
            key, value = past[:] = [
                torch.cat([old.to(new.dtype), new], dim=2) for old, new in zip(past, (key, value), strict=True)
            ]
        bias = self._relative(query, key, allowed)
        attention: Tensor | None = None
        if arcs or "value" in self.tables:
            scores = query @ key.mT * (self.scale or self.size**-0.5)
            if bias is not None:
                very_low = torch.finfo(scores.dtype).min
                scores = scores.masked_fill(~bias, very_low) if bias.dtype == torch.bool else scores + bias
            attention = scores.softmax(-1)
            used = functional.dropout(attention, p)
            mixed = used @ value
            if "value" in self.tables:
                # Σ_j p_ij a^V_x: attention is summed by distance first.
                distance = self._distance(key.shape[2], used.device)[-n:].expand(used.shape)
                table = self.tables["value"]
                sums = used.new_zeros(*used.shape[:3], table.shape[-2]).scatter_add(-1, distance, used)
                mixed = mixed + sums @ table.to(sums.dtype)
        else:
            earlier = self.causal and allowed is None and past is None
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=bias, dropout_p=p, is_causal=earlier, scale=self.scale
            )
        return mixed.transpose(1, 2).flatten(2), attention if arcs else None

    def vectors(self, n: int) -> dict[str, Tensor]:
        """Return those of ``a^Q, a^K, a^V`` that there are, of pairs of n words: ``[n, n, r]`` or ``[c, n, n, r]``."""
        return {name: table[..., self._distance(n, table.device), :] for name, table in self.tables.items()}

    def _distance(self, n: int, device: torch.device) -> Int[Tensor, "n n"]:
        """Return ``x = clip(i - j)``, counted from 0."""
        word = torch.arange(n, device=device)
        return (word[:, None] - word).clamp(-self.clip, self.clip) + self.clip

    def _relative(self, query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor | None:
        if "key" not in self.tables:
            return allowed
        distance = self._distance(key.shape[2], query.device)[-query.shape[2] :]
        where = distance.expand(*query.shape[:2], *distance.shape)
        # [b, c, i, x] for every distance at once, of which every pair of words takes its own: no n x n x r tensor.
        added: Tensor = (query @ self.tables["key"].mT).gather(-1, where)
        if "query" in self.tables:
            added = added + (key @ self.tables["query"].mT).gather(-1, where.mT).mT
        added = added * (self.scale or self.size**-0.5)
        return added if allowed is None else added.masked_fill(~allowed, torch.finfo(added.dtype).min)


def sinusoids(n: int, width: int, device: torch.device) -> Float[Tensor, "n d"]:
    """Return ``P_i = [sin(i ω_0), cos(i ω_0), sin(i ω_1), ...]``, ``ω_l = 10000^(-2l/d)`` (Vaswani et al. 2017)."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)
    angle = torch.arange(n, device=device)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]
