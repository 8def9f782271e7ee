"""One encoder upon another: the representations of the lower one are the unary scores of the upper one.

    x    = lower(W_1, ..., W_n)                 one vector a token
    S_k  = W drop(x_{f_k})                      of word k, which begins at token f_k
    y    = upper(S_1, ..., S_w)                 one vector a word, with the words' arcs

So a probabilistic transformer upon a pretrained transformer is a conditional random field of trees and latent labels,
whose unary scores see the whole sentence. What the upper encoder says stands where the tokens are: all tokens of a word
have its representation, those before the first word none (zero), and arcs are those of the words' first tokens.

symbol   code         shape        meaning
W_i      unary        [b, n, d]    vectors of tokens
x        states       [b, n, d]    representations of the lower encoder
f        first        [b, w]       position of every word's first token; None = a token is a word
W        projection   [a, d]       from a representation to scores of labels
S        scores       [b, w, a]    unary scores of words
y        found        [b, w, a]    representations of the upper encoder
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from probtrans_cli.models.base import Encoded, Encoder, Iterations, Reading, first_tokens
from probtrans_cli.recipe.model import Stacked
from probtrans_cli.recipe.training import Optim


class StackedEncoder(Encoder):
    """Two encoders and the matrix between them; ``section`` holds its options. Arcs, latent labels, root and pooler
    are those of the upper one."""

    def __init__(self, section: Stacked, lower: Encoder, upper: Encoder) -> None:
        super().__init__()
        self.section = section
        self.lower = lower
        self.dropout = nn.Dropout(section.dropout)
        self.projection = nn.Linear(lower.width, upper.in_width, bias=False)
        nn.init.xavier_uniform_(self.projection.weight)
        self.upper = upper
        self.has_latent_labels = upper.has_latent_labels
        self.latent_mean = upper.latent_mean
        self.has_gains = upper.has_gains

    @property
    def width(self) -> int:
        return self.upper.width

    @property
    def in_width(self) -> int:
        return self.lower.in_width

    @property
    def top(self) -> Encoder:
        return self.upper.top

    @property
    def sentence_width(self) -> int:
        return self.upper.sentence_width

    @property
    def longest(self) -> int | None:
        """The least of both: a sentence may have as many words as tokens."""
        limits = [limit for limit in (self.lower.longest, self.upper.longest) if limit is not None]
        return min(limits, default=None)

    @property
    def has_root(self) -> bool:
        return self.upper.has_root

    @property
    def has_pooler(self) -> bool:
        return self.upper.has_pooler

    @property
    def reads_segments(self) -> bool:
        return self.lower.reads_segments

    @property
    def reads_cues(self) -> bool:
        return self.lower.reads_cues or self.upper.reads_cues

    @property
    def reads_first(self) -> bool:
        return True

    @property
    def untraceable(self) -> tuple[str, str] | None:
        for name, part in (("lower", self.lower), ("upper", self.upper)):
            if found := part.untraceable:
                option, instead = found
                return f"{name}.{option}", f"{name}.{instead}"
        return None

    def check_forms(self) -> str | None:
        return self.lower.check_forms() or self.upper.check_forms()

    def regularizer(self, section: Optim) -> Mapping[str, Tensor]:
        parts = {"lower": self.lower, "upper": self.upper}
        return {
            f"{name}.{key}": value for name, part in parts.items() for key, value in part.regularizer(section).items()
        }

    def latent_labels(self, states: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        return self.upper.latent_labels(states)

    def stages(self) -> Sequence[Sequence[nn.Parameter]]:
        """Those of the lower encoder, the last of which has all of it that is in none; a lower encoder without layers
        of its own is one. The matrix and the upper encoder are above them."""
        below, *layers = self.lower.stages() or ((), ())
        known = {id(one) for stage in (below, *layers) for one in stage}
        rest = [one for one in self.lower.parameters() if id(one) not in known]
        return (below, *layers[:-1], [*layers[-1], *rest])

    def start_words(self, table: Float[Tensor, "v d"]) -> None:
        self.lower.start_words(table)

    def forward(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        arcs: Iterations = False,
        at: Bool[Tensor, "b n"] | None = None,
        segments: Int[Tensor, "b n"] | None = None,
        cues: Float[Tensor, "b n 9"] | None = None,
        first: Int[Tensor, "b w"] | None = None,
    ) -> Encoded:
        """See :meth:`Encoder.forward`; ``segments`` and ``cues`` of every token, as the two encoders read them.

        ``first``: where words begin, see :class:`~probtrans_cli.models.base.Inputs`; None = every token is a word.
        """
        words = None if first is None else _Words.of(first, mask)
        scores, more = self._scores(unary, mask, words, segments, cues)
        found: Encoded
        if words is None:
            found = self.upper(scores, mask, arcs=arcs, at=at, **more)
            return found
        needed = None if at is None else words.with_any(at)
        found = self.upper(scores, words.mask, arcs=arcs, at=needed, **more)
        placed = None if found.arcs is None else words.arcs_of_tokens(found.arcs)
        return replace(found, states=words.states_of_tokens(found.states), arcs=placed)

    def arcs_alone(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        iterations: Collection[int],
        segments: Int[Tensor, "b n"] | None = None,
        cues: Float[Tensor, "b n 9"] | None = None,
        first: Int[Tensor, "b w"] | None = None,
    ) -> Float[Tensor, "b t c n m"]:
        """See :meth:`Encoder.arcs_alone`, and for the rest :meth:`forward`."""
        words = None if first is None else _Words.of(first, mask)
        scores, more = self._scores(unary, mask, words, segments, cues)
        if words is None:
            return self.upper.arcs_alone(scores, mask, iterations, **more)
        return words.arcs_of_tokens(self.upper.arcs_alone(scores, words.mask, iterations, **more))

    def begin(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        steps: int,
        arcs: Iterations = False,
        segments: Int[Tensor, "b n"] | None = None,
        cues: Float[Tensor, "b n 9"] | None = None,
        first: Int[Tensor, "b w"] | None = None,
    ) -> Reading:
        """See :meth:`Encoder.begin`, and for the rest :meth:`forward`: the upper encoder reads again."""
        words = None if first is None else _Words.of(first, mask)
        scores, more = self._scores(unary, mask, words, segments, cues)
        begun = self.upper.begin(scores, mask if words is None else words.mask, steps, arcs=arcs, **more)
        return Reading(mask, steps, (words, begun))

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        """See :meth:`Encoder.again`; of each word, the ``bias`` of its first token counts."""
        words, before = reading.carried
        of_words = bias if bias is None or words is None else words.taken(bias)
        read = self.upper.again(before, of_words)
        assert read.states is not None, "it has been read"
        if words is None:
            return Reading(reading.mask, reading.steps, (words, read), read.states, read.arcs)
        arcs = reading.arcs or tuple(words.arcs_of_tokens(one[:, None])[:, 0] for one in read.arcs)
        return Reading(reading.mask, reading.steps, (words, read), words.states_of_tokens(read.states), arcs)

    def _scores(
        self, unary: Tensor, mask: Tensor, words: _Words | None, segments: Tensor | None, cues: Tensor | None
    ) -> tuple[Float[Tensor, "b w a"], dict[str, Any]]:
        """``S``, and what else the upper encoder reads of the words."""
        given: dict[str, Tensor] = {}
        if segments is not None and self.lower.reads_segments:
            given["segments"] = segments
        if cues is not None and self.lower.reads_cues:
            given["cues"] = cues
        at = None if words is None else words.starts
        states: Tensor = self.lower(unary, mask, at=at, **given).states
        states = states if words is None else words.taken(states)
        scores = self.projection(self.dropout(states)).to(unary.dtype)  # in an autocast, too, as scores of a table are
        if cues is None or not self.upper.reads_cues:
            return scores, {}
        return scores, {"cues": cues if words is None else words.taken(cues)}


class _Words(NamedTuple):
    """The words of a batch of tokens. All shapes follow from those of the input, as compiled code wants them."""

    mask: Bool[Tensor, "b w"]
    """True where there is a word."""
    token: Int[Tensor, "b w"]
    """Its first token."""
    starts: Bool[Tensor, "b n"]
    """The first tokens."""
    word: Int[Tensor, "b n"]
    """The word of every token; -1 before the first word, and on padding."""

    @classmethod
    def of(cls, first: Int[Tensor, "b w"], mask: Bool[Tensor, "b n"]) -> _Words:
        """Words that begin where another does have no token of their own, and are not there."""
        b, n = mask.shape
        starts = first_tokens(first, n) & mask
        number = starts.cumsum(1) - 1
        words = max(first.shape[1], 1)
        token = first.new_zeros(b, words + 1)
        place = torch.arange(n, device=mask.device).expand(b, n)
        token = token.scatter(1, number.masked_fill(~starts, words), place)[:, :words]
        there = torch.arange(words, device=mask.device) < starts.sum(1, keepdim=True)
        return cls(there, token, starts, number.masked_fill(~mask, -1))

    def taken(self, values: Float[Tensor, "b n d"]) -> Float[Tensor, "b w d"]:
        """The values of the words' first tokens."""
        return values.gather(1, self.token[:, :, None].expand(-1, -1, values.shape[-1]))

    def with_any(self, tokens: Bool[Tensor, "b n"]) -> Bool[Tensor, "b w"]:
        """The words that have some of these tokens."""
        b, w = self.mask.shape
        word = self.word.masked_fill(~tokens | (self.word < 0), w)
        return self.mask.new_zeros(b, w + 1).scatter(1, word, True)[:, :w]

    def states_of_tokens(self, states: Float[Tensor, "b w d"]) -> Float[Tensor, "b n d"]:
        """To every token the values of its word."""
        word = self.word.clamp(min=0)[:, :, None].expand(-1, -1, states.shape[-1])
        return states.gather(1, word).masked_fill((self.word < 0)[:, :, None], 0.0)

    def arcs_of_tokens(self, arcs: Float[Tensor, "b t c w m"]) -> Float[Tensor, "b t c n k"]:
        """The arcs as those of first tokens; columns behind the words' stay behind the tokens'."""
        w, n = self.mask.shape[1], self.word.shape[1]
        word = self.word.clamp(min=0)
        rows = arcs.gather(-2, word[:, None, None, :, None].expand(*arcs.shape[:3], n, arcs.shape[-1]))
        columns = rows[..., :w].gather(-1, word[:, None, None, None, :].expand(*arcs.shape[:3], n, n))
        columns = columns * self.starts[:, None, None, None, :]
        return torch.cat([columns, rows[..., w:]], dim=-1) * self.starts[:, None, None, :, None]
