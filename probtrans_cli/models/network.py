"""From words to scores: unary scores in front of an encoder, an output layer behind it.

    S_i(a)  = S[w_i, a] + Σ_{f ∈ f(w_i)} R[f, a]               log-linear unary scores; features are not in the paper
    P_i(w)  ∝ Σ_a exp(β_w + S_w(a) + M_i(a))                   tied output: the hidden word as a latent variable
    P_i(w)  ∝ exp(β_w + S_w · M_i)                             that of a transformer, whose S are plain vectors
    P_i(w)  ∝ exp(β_w + D_w · LN(act(W M_i + b)))              BERT's, with D = S where it is tied
    P(c)    ∝ exp(w_c · s + b_c)                               of a pair of texts; s: the sentence's vector

symbol   code        shape    meaning
S        unary       [v, d]   scores of a word with its label (Eq. 1)
R        features    [g, d]   scores of a feature of the word's spelling with its label
f(w)     Features             rows of R: affixes, shape (``data.features``)
M_i      states      [m, d]   all that the sentence says about the label of word i
β        bias        [v]      score of a word by itself
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.base import Encoded, Encoder, Iterations
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.transformer import ACTIVATIONS, TransformerEncoder

PADDING, HIDDEN = 0, 2  # ids of `<pad>` and `<mask>` where a vocabulary does not say otherwise
_LEAST = 1e-30  # of a word's share in the tied output, relative to the best one's


class Features(NamedTuple):
    """Features of the positions of a batch: all ``rows [f]``, row-major, and where those of each begin ``[b * n]``."""

    rows: Int[Tensor, " f"]
    offsets: Int[Tensor, " p"]


class FeatureScores(nn.Module):
    """``R [g, d]``: scores of hashed features with labels. Zero at first, so a feature never seen says nothing."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))

    def forward(self, features: Features) -> Float[Tensor, "p d"]:
        """``Σ_f R[f, a]`` for every position; zero for one without features."""
        return functional.embedding_bag(features.rows, self.weight, features.offsets, mode="sum")


def _impossible(words: int, never: Sequence[int]) -> Float[Tensor, " v"]:
    """What is added to the scores of words: -inf to those of the ids ``never``, 0 to others."""
    added = torch.zeros(words)
    added[list(never)] = -torch.inf
    return added


class WordOutput(nn.Linear):
    """Word scores by a linear layer; the ids ``never`` have no probability."""

    impossible: Tensor

    def __init__(self, width: int, words: int, *, never: Sequence[int] = ()) -> None:
        super().__init__(width, words)
        self.register_buffer("impossible", _impossible(words, never), persistent=False)

    def forward(self, states: Float[Tensor, "m d"]) -> Float[Tensor, "m v"]:
        """Scores of all words."""
        return functional.linear(states, self.weight, self.bias + self.impossible)


class TiedOutput(nn.Module):
    """Word scores by the unary scores themselves: the hidden word ``W_i`` is one more latent variable.

    Its potential with the label is that of a word that is seen, ``exp S_w(a)``; the label summed out exactly,

        score_i(w) = β_w + log Σ_a exp(S_w(a) + M_i(a)),

    whose softmax over ``w`` is the posterior of ``W_i``. ``β``, the only parameters, is in theory a constant of the
    row ``S_w``. But such constants are as large as the logarithms of frequencies, and dropout of label scores, which
    sets some of them to 0, would make them decide a word's label.
    """

    impossible: Tensor

    def __init__(self, words: int, probabilities: bool, *, never: Sequence[int] = ()) -> None:
        """``probabilities``: states are distributions of the label, whose logarithm is ``M_i`` up to a constant.
        ``never``: ids without a probability."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(words))
        self.register_buffer("impossible", _impossible(words, never), persistent=False)
        self.probabilities = probabilities

    def forward(self, states: Float[Tensor, "m d"], table: Float[Tensor, "v d"]) -> Float[Tensor, "m v"]:
        """Scores of all words; one product of exponentials, in float32 or better whatever the autocast says."""
        states = states.double() if table.dtype == torch.float64 else states.float()
        if self.probabilities:
            states = states.clamp_min(torch.finfo(states.dtype).tiny).log()
        with torch.autocast(states.device.type, enabled=False):
            # Subtracting the largest S of each label, then the largest sum of each position, leaves the best word's
            # term at exactly 1: only words e^69 times worse than it are rounded, to that bound.
            highest = table.detach().amax(0)
            reached = states + highest
            best = reached.detach().amax(1, keepdim=True)
            shares = (reached - best).exp() @ (table - highest).exp().T
            return (shares + _LEAST).log() + best + (self.bias + self.impossible)


class TiedLinear(nn.Module):
    """Word scores by the word vectors themselves, ``β_w + S_w · M_i``; ``β`` is the only parameter. The ids ``never``
    have no probability."""

    impossible: Tensor

    def __init__(self, words: int, *, never: Sequence[int] = ()) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(words))
        self.register_buffer("impossible", _impossible(words, never), persistent=False)

    def forward(self, states: Float[Tensor, "m d"], table: Float[Tensor, "v d"]) -> Float[Tensor, "m v"]:
        """Scores of all words."""
        return functional.linear(states, table, self.bias + self.impossible)


class BertWordOutput(nn.Module):
    """Word scores of BERT (Devlin et al. 2019): one more layer with its norm, then the word vectors, or others.

    ``decoder [v, d]``: the others, ``D``; None where the output is tied. ``norm_eps``, ``activation``, ``std``: those
    of the encoder.
    """

    def __init__(
        self, words: int, width: int, *, tied: bool = True, activation: str = "gelu", norm_eps: float = 1e-12,
        std: float = 0.02,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(width, norm_eps)
        self.decoder = None if tied else nn.Parameter(torch.randn(words, width) * std)
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.normal_(self.dense.weight, std=std)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Float[Tensor, "m d"], table: Float[Tensor, "v d"]) -> Float[Tensor, "m v"]:
        """Scores of all words."""
        inner = self.norm(self.activation(self.dense(states)))
        return functional.linear(inner, table if self.decoder is None else self.decoder, self.bias)


class PairOutput(nn.Linear):
    """Scores of what a pair of texts is, from its sentence vector; of BERT: 0 = the second follows the first, 1 = it
    is a random one."""

    def __init__(self, width: int, classes: int = 2, *, std: float = 0.02) -> None:
        super().__init__(width, classes)
        nn.init.normal_(self.weight, std=std)
        nn.init.zeros_(self.bias)


class PretrainingOutput(nn.Module):
    """The outputs of pretraining: scores of words by ``words``, of pairs of texts by ``pair``; None = no pairs."""

    def __init__(self, words: nn.Module, pair: PairOutput | None) -> None:
        super().__init__()
        self.words = words
        self.pair = pair


Output = Callable[[Encoder], nn.Module]
Sentence = Literal["root", "cls", "mean"]


def linear(outputs: int) -> Output:
    """Scores of words by one linear layer."""
    return lambda encoder: nn.Linear(encoder.width, outputs)


def tied(words: int, never: Sequence[int] = ()) -> Output:
    """Scores of words by the unary scores: :class:`TiedOutput`, or :class:`TiedLinear` of a transformer."""

    def output(encoder: Encoder) -> nn.Module:
        if isinstance(encoder, ProbabilisticEncoder):
            return TiedOutput(words, probabilities=encoder.section.output == "probabilities", never=never)
        return TiedLinear(words, never=never)

    return output


def bert_words(words: int, encoder: TransformerEncoder, *, tied: bool) -> BertWordOutput:
    """BERT's scores of words, with the options of an encoder."""
    options = encoder.section
    return BertWordOutput(
        words,
        encoder.width,
        tied=tied,
        activation=options.activation,
        norm_eps=options.norm_eps,
        std=options.std,
    )


class Network(nn.Module):
    """Unary scores (``S``; its padding row zero), encoder, output layer.

    ``output`` makes the output layer for the encoder. ``feature_rows``: rows of ``R``, 0 = words have no features;
    ``entries`` has the features of the vocabulary's own entries, which a tied output reads. ``S`` is standard normal
    where :class:`TiedOutput` reads it, otherwise as the encoder has it. ``sentence``: what represents a sentence: the
    encoder's root, a word `<cls>` in front of every sentence, which nobody else sees, or the mean of the words.
    ``begins``: the ids of a sentence begin with such a word. ``common``: how common every entry of the vocabulary is,
    for an encoder with a `head_bias`. ``padding``, ``hidden``: ids of the vocabulary.
    """

    entry_rows: Tensor | None
    entry_offsets: Tensor | None
    common: Tensor | None

    def __init__(
        self,
        vocabulary: int,
        encoder: Encoder,
        output: Output,
        *,
        feature_rows: int = 0,
        entries: Features | None = None,
        sentence: Sentence | None = None,
        begins: bool = False,
        common: Float[Tensor, " v"] | None = None,
        padding: int = PADDING,
        hidden: int = HIDDEN,
    ) -> None:
        super().__init__()
        self.padding, self.hidden = padding, hidden
        self.register_buffer("common", common, persistent=False)  # follows from the vocabulary
        self.unary = nn.Embedding(vocabulary, encoder.width, padding_idx=padding)
        self.features = FeatureScores(feature_rows, encoder.width) if feature_rows else None
        self.encoder = encoder
        encoder.start_words(self.unary.weight)
        self.output = output(encoder)
        if isinstance(self.words, TiedOutput):
            # Labels that are nearly alike tell nothing of a word, and training would take long to part them.
            nn.init.normal_(self.unary.weight)
        with torch.no_grad():
            self.unary.weight[padding].zero_()
        self.sentence = sentence
        self.start = nn.Parameter(torch.empty(1, encoder.width)) if sentence == "cls" and not begins else None
        if self.start is not None:
            encoder.start_words(self.start)
        for name, values in zip(Features._fields, entries or (None, None), strict=True):
            self.register_buffer(f"entry_{name}", values, persistent=False)  # follow from the vocabulary

    def potentials(self, ids: Int[Tensor, "b n"], features: Features | None) -> Float[Tensor, "b n d"]:
        """Unary scores of words. A hidden word shows no features, whatever is given.

        Raises:
            ValueError: an id is not in the vocabulary (looked for on the CPU alone, where looking costs nothing).
        """
        rows = self.unary.num_embeddings
        if ids.device.type == "cpu" and ids.numel() and not torch.compiler.is_compiling():
            least, most = (int(one) for one in ids.aminmax())
            if not 0 <= least <= most < rows:
                raise ValueError(f"the id {most if most >= rows else least} is not in the vocabulary of {rows} entries")
        scores: Tensor = self.unary(ids)
        if self.features is None or features is None:
            return scores
        of_features: Tensor = self.features(features)
        return scores + of_features.view_as(scores).masked_fill((ids == self.hidden)[:, :, None], 0.0)

    def encode(
        self,
        ids: Int[Tensor, "b n"],
        mask: Bool[Tensor, "b n"],
        features: Features | None = None,
        *,
        arcs: Iterations = False,
        at: Bool[Tensor, "b n"] | None = None,
        segments: Int[Tensor, "b n"] | None = None,
    ) -> Encoded:
        """Representations of the words ``ids`` with these ``features``; ``mask`` is True at real words.

        ``at``: the only positions whose states are wanted; the others may then be zero. ``segments``: of each word, for
        an encoder that has such.
        """
        unary = self.potentials(ids, features)
        if self.start is not None:
            return self._behind_start(ids, unary, mask, arcs, at)
        if at is not None and self.sentence == "cls":
            at = torch.cat([torch.ones_like(at[:, :1]), at[:, 1:]], dim=1)
        of_words = self._of_words(ids) | ({} if segments is None else {"segments": segments})
        encoded: Encoded = self.encoder(unary, mask, arcs=arcs, at=at, **of_words)
        if self.sentence == "cls":
            return replace(encoded, sentence=self._of_first(encoded))
        if self.sentence == "mean":
            number = mask.sum(1, keepdim=True).clamp(min=1)
            return replace(encoded, sentence=encoded.states.sum(1) / number.to(encoded.states.dtype))
        return encoded

    def look(
        self,
        ids: Int[Tensor, "b n"],
        mask: Bool[Tensor, "b n"],
        features: Features | None,
        iterations: Collection[int],
    ) -> Float[Tensor, "b t c n m"]:
        """Only the arcs of :meth:`encode`, after some iterations, counted from 1."""
        unary = self.potentials(ids, features)
        if self.start is None:
            return self.encoder.look(unary, mask, iterations, **self._of_words(ids))
        words = self._of_words(ids)
        return self._from_words(self.encoder.look(*self._with_start(unary, mask), iterations, **words))

    def _of_words(self, ids: Int[Tensor, "b n"]) -> dict[str, Tensor]:
        """What an encoder with a `head_bias` reads of the words beside their unary scores; `<cls>` is a rare word."""
        if self.common is None:
            return {}
        common = self.common[ids]
        return {"common": common if self.start is None else nn.functional.pad(common, (1, 0))}

    def _behind_start(self, ids: Tensor, unary: Tensor, mask: Tensor, arcs: Iterations, at: Tensor | None) -> Encoded:
        """The same behind `<cls>`."""
        at = None if at is None else torch.cat([torch.ones_like(at[:, :1]), at], dim=1)
        found: Encoded = self.encoder(*self._with_start(unary, mask), arcs=arcs, at=at, **self._of_words(ids))
        marginals = None if found.arcs is None else self._from_words(found.arcs)
        return Encoded(found.states[:, 1:], self._of_first(found), marginals)

    def _with_start(self, unary: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Unary scores and mask with `<cls>` in front."""
        assert self.start is not None, "asked where there is one"
        first = self.start.expand(len(mask), 1, -1).to(unary.dtype)
        return torch.cat([first, unary], dim=1), torch.cat([mask.new_ones(len(mask), 1), mask], dim=1)

    def _from_words(self, arcs: Tensor) -> Tensor:
        """Arcs of the words alone; attention to `<cls>` is an arc to the root, beside those to a root node."""
        n = arcs.shape[-2]
        words, root, others = arcs[..., 1:, 1:n], arcs[..., 1:, :1], arcs[..., 1:, n:]
        if isinstance(self.encoder, ProbabilisticEncoder) and self.encoder.root is not None:
            root, others = root + others[..., :1], others[..., 1:]
        return torch.cat([words, root, others], dim=-1)

    def _of_first(self, found: Encoded) -> Tensor:
        """What represents a sentence by its first word."""
        pooled = None if isinstance(self.encoder, ProbabilisticEncoder) else found.sentence  # else it is the root's
        return found.states[:, 0] if pooled is None else pooled

    def classify(
        self, ids: Int[Tensor, "b n"], mask: Bool[Tensor, "b n"], features: Features | None = None
    ) -> Float[Tensor, "b o"]:
        """Output scores of every sentence."""
        at = None if self.sentence == "mean" else torch.zeros_like(mask)
        scores: Tensor = self.output(self.encode(ids, mask, features, at=at).sentence)
        return scores

    @property
    def longest(self) -> int | None:
        """The number of words of the longest sentence that it can read; None = any."""
        limit = self.encoder.longest
        return limit if limit is None or self.start is None else limit - 1

    def forward(
        self,
        ids: Int[Tensor, "b n"],
        mask: Bool[Tensor, "b n"],
        at: Bool[Tensor, "b n"],
        features: Features | None = None,
    ) -> Float[Tensor, "m o"]:
        """Output scores at the positions ``at`` only, in row-major order: the other rows are never computed."""
        return self._word_scores(self.encode(ids, mask, features, at=at).states[at])

    def pretrain(
        self,
        ids: Int[Tensor, "b n"],
        mask: Bool[Tensor, "b n"],
        at: Bool[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "m o"], Float[Tensor, "b k"] | None]:
        """Scores of the words at the positions ``at``, and of the pairs where the output has such."""
        assert isinstance(self.output, PretrainingOutput), "asked where there is one"
        encoded = self.encode(ids, mask, at=at, segments=segments)
        pair = None if self.output.pair is None else self.output.pair(encoded.sentence)
        return self._word_scores(encoded.states[at]), pair

    def _word_scores(self, states: Float[Tensor, "m d"]) -> Float[Tensor, "m o"]:
        scores: Tensor = self.words(states, self._table()) if self.tied else self.words(states)
        return scores

    @property
    def words(self) -> nn.Module:
        """The output layer of words."""
        return self.output.words if isinstance(self.output, PretrainingOutput) else self.output

    @property
    def tied(self) -> bool:
        """Whether words are scored by the unary scores themselves."""
        return isinstance(self.words, TiedOutput | TiedLinear | BertWordOutput)

    def _table(self) -> Float[Tensor, "v d"]:
        """``S_w(a)`` of every entry of the vocabulary."""
        if self.features is None or self.entry_rows is None or self.entry_offsets is None:
            return self.unary.weight
        of_features: Tensor = self.features(Features(self.entry_rows, self.entry_offsets))
        return self.unary.weight + of_features

    def parameter_counts(self) -> dict[str, int]:
        """Number of parameters of the parts."""
        counts = {name: sum(p.numel() for p in part.parameters()) for name, part in self.named_children()}
        return counts if self.start is None else counts | {"start": self.start.numel()}
