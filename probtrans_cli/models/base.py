"""What every encoder and the network around it take and return, whatever happens inside.

A network has one entrance, ``network(inputs, wants) -> Outputs``: :class:`Inputs` are a batch of sentences,
:class:`Wants` says what is to be computed of them, and nothing else is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from probtrans_cli.errors import UsageError
from probtrans_cli.models.arithmetic import Values, may_depend_on
from probtrans_cli.models.bayesian.readout import Predictive
from probtrans_cli.models.bayesian.state import State
from probtrans_cli.models.width import Scale, Scales
from probtrans_cli.recipe.model import ModelSection
from probtrans_cli.recipe.training import Optim

Iterations = bool | Collection[int]
"""Whose arcs are wanted: of all iterations, of none, or of those with these numbers, counted from 1."""


Memory = Sequence[Tensor]
"""What a causal encoder keeps of the words that it has read, ``[b, ...]`` each; see :meth:`Encoder.read_on`."""


def chosen_iterations(arcs: Iterations, iterations: int) -> Collection[int]:
    """Return the numbers of the iterations whose arcs are wanted, out of ``iterations``."""
    return arcs if not isinstance(arcs, bool) else range(1, iterations + 1) if arcs else ()


class Features(NamedTuple):
    """Features of the positions of a batch: all ``rows [f]``, row-major, and where those of each begin ``[b * n]``."""

    rows: Int[Tensor, " f"]
    offsets: Int[Tensor, " p"]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a network reads: the tokens ``ids [b, n]`` of padded sentences, ``mask`` True where there is one.

    ``first [b, w]``: the position of each word's first token, n or more behind the last word; None = a token is a word.
    ``features``: of the words' spelling; or, for graphs, those of each token ``[b, n, k]``, -1 where it has fewer.
    ``segments [b, n]``: of each token, for an encoder that reads such. ``lengths``: of the sentences, where the host
    knows them: to count them, it would wait for its GPU.
    """

    ids: Int[Tensor, "b n"]
    mask: Bool[Tensor, "b n"]
    first: Int[Tensor, "b w"] | None = None
    features: Features | Int[Tensor, "b n k"] | None = None
    segments: Int[Tensor, "b n"] | None = None
    lengths: tuple[int, ...] | None = None

    def tokens_of(self, words: Bool[Tensor, "b w"]) -> Bool[Tensor, "b n"]:
        """Return the first tokens of some words."""
        if self.first is None:
            return words
        n = self.ids.shape[1]
        return first_tokens(self.first.masked_fill(~words, n), n)


def first_tokens(first: Int[Tensor, "b w"], n: int) -> Bool[Tensor, "b n"]:
    """Return True where words begin among n tokens; ``first``: see :class:`Inputs`."""
    starts = torch.zeros(first.shape[0], n + 1, dtype=torch.bool, device=first.device)
    return starts.scatter(1, first.clamp(max=n), True)[:, :n]


@dataclass(frozen=True, slots=True)
class Readout:
    """How a causal encoder represents a word that has not been read yet.

    ``rounds``: of mean field, for a causal field; None = exactly. ``prior [d]``: the message of a hidden word to its
    label, for the same.
    """

    rounds: int | None = 2
    prior: Float[Tensor, " d"] | None = None


CUES = 9
"""The number of cues of a word, beside its unary scores: g, z, R, Λ, D and e of
:mod:`probtrans_cli.models.probabilistic.head_bias`, 1 for punctuation, N, and 1 for a rare word."""


@dataclass(frozen=True, kw_only=True)
class Wants:
    """What a network computes; nothing else is computed.

    Args:
        words: ``[b, w]``, output scores of these words, in row-major order; a word is read at its first token.
        tokens: ``[b, n]``, output scores of these tokens instead.
        positions: ``[m]``, of these words or tokens, counted through the padded batch, where they are known: to find
            them, a computer waits for its GPU.
        places: ``[b, k]``, for graphs, whose shapes must not depend on values, instead of words and tokens: output
            scores of these positions of each sentence, or of `all`, as they stand: ``[b, k, o]``.
        sentence: output scores of every sentence.
        states: the representations of all tokens, and of the sentence where there is one.
        arcs: head marginals after these iterations, counted from 1, ascending.
        tree_scores: after these iterations, the scores of trees whose marginals ``arcs`` are.
        fed_back: ``[b, r, w]``, for an output layer that fills row after row: labels that are told to the next row
            instead of those that it predicts; -1 = predicted ones.
        ends: such a layer may leave out rows once all sentences ended.
        parts: the parts of an output layer that are read; None = all that give answers.
        moments: mean and variance of everything, where weights are uncertain (``models/bayesian/moments.py``);
            `kronecker`: with the covariances of words, which the variance of a mean over words needs; `diagonal`:
            without.
        readout: representations of every word by the earlier ones alone, for a causal encoder.
        candidates: ``[k]``, ascending ids, for an output layer over the vocabulary: scores of these entries alone.
    """

    words: Bool[Tensor, "b w"] | None = None
    tokens: Bool[Tensor, "b n"] | None = None
    positions: Int[Tensor, " m"] | None = None
    places: Int[Tensor, "b k"] | Literal["all"] | None = None
    sentence: bool = False
    states: bool = False
    arcs: Collection[int] = ()
    tree_scores: Collection[int] = ()
    fed_back: Int[Tensor, "b r w"] | None = None
    ends: bool = False
    parts: Collection[str] | None = None
    moments: Literal["kronecker", "diagonal"] | None = None
    readout: Readout | None = None
    candidates: Int[Tensor, " k"] | None = None

    @property
    def scores(self) -> bool:
        return self.words is not None or self.tokens is not None or self.places is not None or self.sentence


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a network returns; what is not wanted is None, or not there.

    ``scores``: by name, as the output layer gives them: ``words [m, o]``, ``sentence [b, o]``, and others.
    ``states``, ``sentence``, ``arcs``: see :class:`Encoded`.
    ``variance``: of the states, and ``variances``: of ``scores``, by the same names, if moments were wanted.
    ``doubt``: of a predictor that was asked for it, by the names of the scores; a network leaves it empty.
    ``member_arcs``: of a predictor that was asked for them, ``arcs`` of each member.
    ``tree_scores``: of heads that form a tree, in the form of ``arcs``; None where they do not.
    """

    scores: Mapping[str, Tensor] = field(default_factory=dict)
    states: Float[Tensor, "b n d"] | None = None
    sentence: Float[Tensor, "b s"] | None = None
    arcs: Float[Tensor, "b t c n m"] | None = None
    variance: Float[Tensor, "b n d"] | None = None
    variances: Mapping[str, Tensor] = field(default_factory=dict)
    doubt: Mapping[str, Predictive] = field(default_factory=dict)
    member_arcs: Float[Tensor, "s b t c n m"] | None = None
    tree_scores: Float[Tensor, "b t c n m"] | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of an encoder for a batch of padded sentences.

    ``states [b, n, d]``: one vector a word, zero on padding. ``sentence [b, s]``: one vector a sentence, or None where
    the encoder has none of its own (root, pooler). Both are moments where the unary scores were.
    ``arcs [b, t, c, i, j]``: probability, after the ``t``-th of the wanted iterations and in channel ``c``, that the
    head of word ``i`` is column ``j`` (the ``n`` words first, then root and global features where the model has them);
    None unless wanted.
    Of a transformer: attention of word ``i`` to word ``j`` in layer ``t`` and head ``c``, to itself included.
    ``arc_scores``: of the iterations of :meth:`ProbabilisticEncoder.score_heads`, what the heads are the softmax of.
    """

    states: Values
    sentence: Values | None = None
    arcs: Float[Tensor, "b t c n m"] | None = None
    arc_scores: Sequence[Float[Tensor, "b c n m"]] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """What an encoder reads of a batch of padded sentences.

    Args:
        unary: one vector a word, or its moments where weights are uncertain. Values on padding do not matter.
        mask: True at real words.
        segments: the segment type of every word, for an encoder with ``facts.segment_types``; None = all 0.
        cues: how common each word is, and how it stands in the training file, for an encoder with
            ``facts.counts_words``; None = all 0.
        first: where words begin among tokens, see :class:`Inputs`, for an encoder with ``facts.reads_first``.
        readout: states are wanted of words that are not read yet, for an encoder with ``facts.is_causal``.
        lengths: of the sentences, see :class:`Inputs`.
        entries: of the vocabulary, where each has the same ``unary`` wherever it stands.
    """

    unary: Float[Tensor, "b n d"] | State
    mask: Bool[Tensor, "b n"]
    segments: Int[Tensor, "b n"] | None = None
    cues: Float[Tensor, "b n 9"] | None = None
    first: Int[Tensor, "b w"] | None = None
    readout: Readout | None = None
    lengths: tuple[int, ...] | None = None
    entries: Int[Tensor, "b n"] | None = None

    @property
    def lengths_of_host(self) -> tuple[int, ...] | None:
        """``lengths``, where the mask must not be looked at; None in a graph, which is to serve all lengths."""
        return None if torch.compiler.is_compiling() or may_depend_on(self.mask) else self.lengths

    @property
    def vectors(self) -> Float[Tensor, "b n d"]:
        """``unary``, for an encoder without moments."""
        assert isinstance(self.unary, Tensor), "moments are refused before"
        return self.unary


@dataclass(frozen=True, slots=True)
class Reading:
    """What an encoder has read of a batch, to be read on by :meth:`Encoder.again`.

    Args:
        mask: True at real words.
        steps: how many layers or iterations a reading has.
        carried: what the encoder needs for its next reading.
        states: one vector a word, zero on padding; None before the first reading.
        arcs: the head probabilities ``[b, c, n, m]`` of the iterations that :meth:`Encoder.begin` was asked for, as far
            as they have been read. A second reading has none.
        wanted: the iterations of the next reading whose arcs are kept.
    """

    mask: Bool[Tensor, "b n"]
    steps: int
    carried: Any
    states: Float[Tensor, "b n d"] | None = None
    arcs: tuple[Float[Tensor, "b c n m"], ...] = ()
    wanted: Collection[int] = ()


class Encoder(nn.Module, ABC):
    """From one vector a word to one vector a word in its sentence.

    ``section``: its section of the recipe; ``facts``: what the encoder has, according to that section.
    """

    latent_mean: Callable[[Tensor], Tensor] | None = None
    """The mean of a word's latent vector, from the word's representation; None = it has no such vector."""

    word_std: float | None = None
    """The standard deviation of the words' vectors at the start; None = Xavier-uniform."""

    scales: Scales | None = None
    """What start, rates and scores are multiplied by, where the recipe has a `base_width`."""

    figures: Callable[[Words, Encoded], Mapping[str, Tensor]] | None = None
    """Figures to log in training, by name, of a batch and its encoding; None: it has none."""

    def __init__(self, section: ModelSection) -> None:
        super().__init__()
        self.section: Any = section
        self.facts = section.facts

    @property
    def top(self) -> Encoder:
        """The encoder that computes representations, arcs and latent labels: the uppermost of several."""
        return self

    def check_forms(self) -> str | None:
        """Check that fast forms compute what the plain equations say; return the file of the latter if they run.

        Raises:
            UsageError: the values differ, as somebody has edited the equations.
        """
        return None

    def regularizer(self, section: Optim) -> Mapping[str, Tensor]:
        """Return what the recipe's ``optim`` section adds to the loss of every update, by name."""
        del section
        return {}

    def latent_labels(self, states: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Return the distributions over latent labels, for an encoder with ``facts.has_latent_labels``."""
        del states
        raise TypeError(f"a {type(self).__name__} has no latent labels")

    def parts(self) -> Mapping[str, Sequence[nn.Module]]:
        """Return its modules with a matrix ``weight`` that `model.bayes` can make uncertain, as `attention` and
        `feed_forward`."""
        return {}

    def stages(self) -> Sequence[Sequence[nn.Parameter]]:
        """Return its parameters from below, if it has layers of their own: first those below the layers, then those of
        each layer. Parameters above the last layer are left out."""
        return ()

    @property
    def logit_scale(self) -> float:
        """The factor of scores that the vectors of words themselves give."""
        return 1.0 if self.scales is None else self.scales.logits

    def scaled(self) -> Iterator[tuple[nn.Parameter, Scale]]:
        """Yield the parameters whose start and rate have a factor other than 1, with a `base_width`."""
        yield from ()

    def activations(self, words: Words) -> Mapping[str, Tensor]:
        """Return what it computes of a batch by name, real words alone: scores, messages, states."""
        del words
        raise UsageError(f"a {type(self).__name__} does not show what it computes", hint="choose another model")

    def start_words(self, table: Float[Tensor, "v d"]) -> None:
        """Draw the first values of a table of word vectors."""
        if self.word_std is None:
            nn.init.xavier_uniform_(table)
        else:
            nn.init.normal_(table, std=self.word_std)

    def begin(self, words: Words, steps: int, arcs: Iterations = False) -> Reading:
        """Compute all that comes before the last ``steps`` layers or iterations, which :meth:`again` repeats.

        After the first :meth:`again`, states and arcs are those of :meth:`forward`.
        """
        del words, steps, arcs
        raise UsageError(f"a {type(self).__name__} cannot read a sentence again", hint="choose another model.kind")

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        """Apply the last ``reading.steps`` layers or iterations once more. This uses up ``reading``.

        ``bias``: added in this reading alone, by a transformer to what goes into the layers, by a probabilistic
        transformer to the unary scores.
        """
        del bias
        raise TypeError(f"a {type(self).__name__} has not begun {reading}")

    def read_on(self, unary: Float[Tensor, "b 1 d"], memory: Memory = ()) -> Memory:
        """Read one more word of each text; return what is kept of all words, and is empty before the first.

        Raises:
            TypeError: the encoder is not causal.
            DataError: there are no positions for more words.
        """
        del unary, memory
        raise TypeError(f"a {type(self).__name__} does not read from left to right")

    def foretell(self, texts: int, memory: Memory, readout: Readout) -> Float[Tensor, "b 1 d"]:
        """Represent the word behind those of :meth:`read_on`, of so many ``texts``, as :meth:`forward` does there."""
        del texts, memory, readout
        raise TypeError(f"a {type(self).__name__} does not read from left to right")

    @abstractmethod
    def forward(self, words: Words, arcs: Iterations = False, at: Bool[Tensor, "b n"] | None = None) -> Encoded:
        """Encode padded sentences.

        Args:
            words: the batch.
            arcs: the iterations whose head probabilities are wanted, from 1; True = all.
            at: the only positions whose states are wanted; the others may then be zero.
        """

    def arcs_alone(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"]:
        """Return the head probabilities after ``iterations`` (at least one, from 1), and compute nothing else."""
        encoded: Encoded = self(words, arcs=iterations)
        assert encoded.arcs is not None, "asked for"
        return encoded.arcs

    def tree_scores(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"] | None:
        """Return the scores of trees, of whose distributions the arcs after ``iterations`` are the marginals; None
        where they are no such marginals."""
        del words, iterations
        return None
