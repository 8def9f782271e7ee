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
y        encoded      [b, w, a]    representations of the upper encoder
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from probtrans_cli.models.arithmetic import Linear
from probtrans_cli.models.base import Encoded, Encoder, Iterations, Reading, Words, first_tokens
from probtrans_cli.recipe.model import Stacked
from probtrans_cli.recipe.training import Optim


class StackedEncoder(Encoder):
    """Two encoders and the matrix between them. Arcs, latent labels, root and pooler are those of the upper one."""

    def __init__(self, section: Stacked, lower: Encoder, upper: Encoder) -> None:
        super().__init__(section)
        self.lower = lower
        self.dropout = nn.Dropout(section.dropout)
        self.projection = Linear(lower.facts.width, upper.facts.unary_width, bias=False)
        nn.init.xavier_uniform_(self.projection.weight)
        self.upper = upper
        self.latent_mean = upper.latent_mean

    @property
    def top(self) -> Encoder:
        return self.upper.top

    def check_forms(self) -> str | None:
        return self.lower.check_forms() or self.upper.check_forms()

    def regularizer(self, section: Optim) -> Mapping[str, Tensor]:
        parts = {"lower": self.lower, "upper": self.upper}
        return {
            f"{name}.{key}": value for name, part in parts.items() for key, value in part.regularizer(section).items()
        }

    def stages(self) -> Sequence[Sequence[nn.Parameter]]:
        """Return the stages of the lower encoder; the last one also has what is above its layers. A lower encoder
        without layers of its own is one stage. The matrix and the upper encoder are above them."""
        below, *layers = self.lower.stages() or ((), ())
        in_stages = {id(parameter) for stage in (below, *layers) for parameter in stage}
        above = [parameter for parameter in self.lower.parameters() if id(parameter) not in in_stages]
        return (below, *layers[:-1], [*layers[-1], *above])

    def start_words(self, table: Float[Tensor, "v d"]) -> None:
        self.lower.start_words(table)

    def forward(self, words: Words, arcs: Iterations = False, at: Bool[Tensor, "b n"] | None = None) -> Encoded:
        tokens, scores = self._scores(words)
        if tokens is None:
            encoded: Encoded = self.upper(scores, arcs, at)
            return encoded
        encoded = self.upper(scores, arcs, None if at is None else tokens.words_with(at))
        placed = None if encoded.arcs is None else tokens.arcs_of_tokens(encoded.arcs)
        return replace(encoded, states=tokens.states_of_tokens(encoded.states), arcs=placed)

    def arcs_alone(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"]:
        tokens, scores = self._scores(words)
        arcs = self.upper.arcs_alone(scores, iterations)
        return arcs if tokens is None else tokens.arcs_of_tokens(arcs)

    def tree_scores(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"] | None:
        tokens, scores = self._scores(words)
        of_words = self.upper.tree_scores(scores, iterations)
        return of_words if tokens is None or of_words is None else tokens.arcs_of_tokens(of_words)

    def begin(self, words: Words, steps: int, arcs: Iterations = False) -> Reading:
        tokens, scores = self._scores(words)
        return Reading(words.mask, steps, (tokens, self.upper.begin(scores, steps, arcs)))

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        """See :meth:`Encoder.again`; of each word, the ``bias`` of its first token counts."""
        tokens, before = reading.carried
        after = self.upper.again(before, bias if bias is None or tokens is None else tokens.at_words(bias))
        assert after.states is not None, "it has been read"
        if tokens is None:
            return Reading(reading.mask, reading.steps, (tokens, after), after.states, after.arcs)
        arcs = reading.arcs or tuple(tokens.arcs_of_tokens(heads[:, None])[:, 0] for heads in after.arcs)
        return Reading(reading.mask, reading.steps, (tokens, after), tokens.states_of_tokens(after.states), arcs)

    def _scores(self, words: Words) -> tuple[_Tokens | None, Words]:
        tokens = None if words.first is None else _Tokens.of(words.first, words.mask)
        lower: Encoded = self.lower(
            Words(words.unary, words.mask, words.segments, words.cues, lengths=words.lengths),
            at=None if tokens is None else tokens.starts,
        )
        states = lower.states if tokens is None else tokens.at_words(lower.states)
        scores = self.projection(self.dropout(states)).to(words.vectors.dtype)  # not the autocast's, as of a table
        cues = words.cues if tokens is None or words.cues is None else tokens.at_words(words.cues)
        if tokens is not None:
            return tokens, Words(scores, tokens.mask, cues=cues)
        return None, Words(scores, words.mask, cues=cues, lengths=words.lengths)


class _Tokens(NamedTuple):
    """Which tokens the words of a batch have. Shapes depend on those of the input alone, for compiled code."""

    mask: Bool[Tensor, "b w"]  # true where there is a word
    token: Int[Tensor, "b w"]  # its first token
    starts: Bool[Tensor, "b n"]  # the first tokens
    word: Int[Tensor, "b n"]  # the word of every token; -1 before the first word, and on padding

    @classmethod
    def of(cls, first: Int[Tensor, "b w"], mask: Bool[Tensor, "b n"]) -> _Tokens:
        """Words that begin where another does have no token of their own, and are not there."""
        b, n = mask.shape
        starts = first_tokens(first, n) & mask
        number = starts.cumsum(1) - 1
        words = max(first.shape[1], 1)
        token = first.new_zeros(b, words + 1)
        place = torch.arange(n, device=mask.device).expand(b, n)
        token = token.scatter(1, number.masked_fill(~starts, words), place)[:, :words]
        real = torch.arange(words, device=mask.device) < starts.sum(1, keepdim=True)
        return cls(real, token, starts, number.masked_fill(~mask, -1))

    def at_words(self, values: Float[Tensor, "b n d"]) -> Float[Tensor, "b w d"]:
        return values.gather(1, self.token[:, :, None].expand(-1, -1, values.shape[-1]))

    def words_with(self, tokens: Bool[Tensor, "b n"]) -> Bool[Tensor, "b w"]:
        """Return the words that have some of these tokens."""
        b, w = self.mask.shape
        word = self.word.masked_fill(~tokens | (self.word < 0), w)
        return self.mask.new_zeros(b, w + 1).scatter(1, word, True)[:, :w]

    def states_of_tokens(self, states: Float[Tensor, "b w d"]) -> Float[Tensor, "b n d"]:
        word = self.word.clamp(min=0)[:, :, None].expand(-1, -1, states.shape[-1])
        return states.gather(1, word).masked_fill((self.word < 0)[:, :, None], 0.0)

    def arcs_of_tokens(self, arcs: Float[Tensor, "b t c w m"]) -> Float[Tensor, "b t c n k"]:
        """Give the arcs of words to their first tokens; columns behind the words stay behind the tokens."""
        w, n = self.mask.shape[1], self.word.shape[1]
        word = self.word.clamp(min=0)
        rows = arcs.gather(-2, word[:, None, None, :, None].expand(*arcs.shape[:3], n, arcs.shape[-1]))
        columns = rows[..., :w].gather(-1, word[:, None, None, None, :].expand(*arcs.shape[:3], n, n))
        columns = columns * self.starts[:, None, None, None, :]
        return torch.cat([columns, rows[..., w:]], dim=-1) * self.starts[:, None, None, :, None]
