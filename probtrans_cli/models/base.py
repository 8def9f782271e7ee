"""What every encoder and the network around it take and return, whatever happens inside.

A network has one entrance, ``network(inputs, wants) -> Outputs``: :class:`Inputs` are a batch of sentences,
:class:`Wants` says what is to be computed of them, and nothing else is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from probtrans_cli.errors import UsageError
from probtrans_cli.models.bayesian.readout import Predictive
from probtrans_cli.models.bayesian.together import Together
from probtrans_cli.recipe.training import Optim

Iterations = bool | Collection[int]
"""Whose arcs are wanted: of all iterations, of none, or of those with these numbers, counted from 1."""


def chosen_iterations(arcs: Iterations, iterations: int) -> Collection[int]:
    """The numbers of the iterations whose arcs are wanted, of so many."""
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
    ``segments [b, n]``: of each token, for an encoder that reads such.
    """

    ids: Int[Tensor, "b n"]
    mask: Bool[Tensor, "b n"]
    first: Int[Tensor, "b w"] | None = None
    features: Features | Int[Tensor, "b n k"] | None = None
    segments: Int[Tensor, "b n"] | None = None

    def tokens_of(self, words: Bool[Tensor, "b w"]) -> Bool[Tensor, "b n"]:
        """The first tokens of some words."""
        if self.first is None:
            return words
        n = self.ids.shape[1]
        return first_tokens(self.first.masked_fill(~words, n), n)


def first_tokens(first: Int[Tensor, "b w"], n: int) -> Bool[Tensor, "b n"]:
    """Where words begin among n tokens; ``first``: see :class:`Inputs`."""
    found = torch.zeros(first.shape[0], n + 1, dtype=torch.bool, device=first.device)
    return found.scatter(1, first.clamp(max=n), True)[:, :n]


CUES = 9
"""What is told of a word beside its unary scores: g, z, R, Λ, D and e of
:mod:`probtrans_cli.models.probabilistic.head_bias`, 1 for punctuation, N, and 1 for a rare word."""


@dataclass(frozen=True, kw_only=True)
class Wants:
    """What is asked of a network; nothing else is computed.

    ``words [b, w]`` or ``tokens [b, n]``: output scores of these, in row-major order; a word is read at its first
    token. ``positions [m]``: of these words or tokens, counted through the padded batch, where they are known: to find
    them, a computer waits for its GPU. ``places [b, k]``: instead, for graphs, whose shapes must not depend on values:
    output scores of these positions of each sentence, or of `all`, as they stand: ``[b, k, o]``. ``sentence``: output
    scores of every sentence. ``states``: the representations of all tokens, and of the sentence where there is one.
    ``arcs``: head marginals after these iterations, counted from 1, ascending. ``fed_back [b, r, w]``: of an output
    layer that fills row after row: labels that are told to the next row instead of those that it predicts; -1 =
    predicted ones. ``ends``: such a layer may leave out rows once all sentences ended. ``moments``: of everything mean
    and variance, where weights are uncertain (``models/bayesian/moments.py``); `kronecker`: with the covariances of
    words, which the variance of a mean over words needs; `diagonal`: without.
    """

    words: Bool[Tensor, "b w"] | None = None
    tokens: Bool[Tensor, "b n"] | None = None
    positions: Int[Tensor, " m"] | None = None
    places: Int[Tensor, "b k"] | Literal["all"] | None = None
    sentence: bool = False
    states: bool = False
    arcs: Collection[int] = ()
    fed_back: Int[Tensor, "b r w"] | None = None
    ends: bool = False
    moments: Literal["kronecker", "diagonal"] | None = None

    @property
    def scores(self) -> bool:
        """Whether the output layer is asked."""
        return self.words is not None or self.tokens is not None or self.places is not None or self.sentence


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a network answers; what was not wanted is None, or not there.

    ``scores``: by name, as the output layer gives them: ``words [m, o]``, ``sentence [b, o]``, and others.
    ``states``, ``sentence``, ``arcs``, ``variance``: see :class:`Encoded`.
    ``variances``: of ``scores``, by the same names, if moments were wanted.
    ``doubt``: of a predictor that was asked for it, by the names of the scores; a network leaves it empty.
    ``member_arcs``: of a predictor that was asked for them, ``arcs`` of each member.
    """

    scores: Mapping[str, Tensor] = field(default_factory=dict)
    states: Float[Tensor, "b n d"] | None = None
    sentence: Float[Tensor, "b s"] | None = None
    arcs: Float[Tensor, "b t c n m"] | None = None
    variance: Float[Tensor, "b n d"] | None = None
    variances: Mapping[str, Tensor] = field(default_factory=dict)
    doubt: Mapping[str, Predictive] = field(default_factory=dict)
    member_arcs: Float[Tensor, "s b t c n m"] | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of an encoder for a batch of padded sentences.

    ``states [b, n, d]``: one vector a word, zero on padding. ``sentence [b, s]``: one vector a sentence, or None where
    the encoder has none of its own (root, pooler).
    ``arcs [b, t, c, i, j]``: probability, after the ``t``-th of the wanted iterations and in channel ``c``, that the
    head of word ``i`` is column ``j`` (the ``n`` words first, then root and global features where the model has them);
    None unless asked for.
    Of a transformer: attention of word ``i`` to word ``j`` in layer ``t`` and head ``c``, to itself included.
    ``variance [b, n, d]``: of the states, for encoders that propagate one. ``shared [b, n, n]``: the covariances of
    every two words' states, summed over features. ``sentence_variance [b, s]``: of ``sentence``. ``together``,
    ``sentence_together``: how the features of each vary together, as far as that is known.
    """

    states: Float[Tensor, "b n d"]
    sentence: Float[Tensor, "b s"] | None = None
    arcs: Float[Tensor, "b t c n m"] | None = None
    variance: Float[Tensor, "b n d"] | None = None
    shared: Float[Tensor, "b n n"] | None = None
    together: Together | None = None
    sentence_variance: Float[Tensor, "b s"] | None = None
    sentence_together: Together | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an encoder has read of a batch so far, to be read on by :meth:`Encoder.again`.

    ``states [b, n, d]``: one vector a word, zero on padding; None before the first reading. ``carried``: what goes on
    to the next reading, which is the encoder's own business; ``mask [b, n]``: True at real words. ``steps``: how many
    layers or iterations a reading is.
    ``arcs``: the probabilities of heads ``[b, c, n, m]`` after the iterations that :meth:`Encoder.begin` was asked for,
    as far as they have been read; of a second reading there are none. ``wanted``: those that the next one shall keep.
    """

    mask: Bool[Tensor, "b n"]
    steps: int
    carried: Any
    states: Float[Tensor, "b n d"] | None = None
    arcs: tuple[Float[Tensor, "b c n m"], ...] = ()
    wanted: Collection[int] = ()


class Encoder(nn.Module, ABC):
    """From one vector a word to one vector a word in its sentence."""

    has_latent_labels: bool = False
    """Whether a word's representation is a distribution over latent labels, see :meth:`latent_labels`."""
    latent_mean: Callable[[Tensor], Tensor] | None = None
    """The mean of a word's latent vector, from the word's representation; None = it has no such vector."""
    has_gains: bool = False
    """Whether its scores of labels are scaled by learned gains; a tied output then has gains, too."""
    has_moments: bool = False
    """Whether ``forward`` takes the moments of uncertain vectors, too: a ``State`` for ``unary``."""

    @property
    @abstractmethod
    def width(self) -> int:
        """d: the size of a word's representation."""

    @property
    def in_width(self) -> int:
        """The size of what goes in for a word; that of its representation unless an encoder says otherwise."""
        return self.width

    @property
    def top(self) -> Encoder:
        """The encoder whose representations, arcs and latent labels these are; of several, the uppermost."""
        return self

    @property
    def sentence_width(self) -> int:
        """s: the size of a sentence's representation."""
        return self.width

    @property
    def longest(self) -> int | None:
        """The number of words of the longest sentence that it can read; None = any."""
        return None

    @property
    def has_root(self) -> bool:
        """Whether arcs have a column for a root node, behind those of the words, whose representation is that of the
        sentence."""
        return False

    @property
    def has_pooler(self) -> bool:
        """Whether it makes the sentence's representation of the first word's."""
        return False

    @property
    def reads_segments(self) -> bool:
        """Whether ``forward`` and ``arcs_alone`` take ``segments [b, n]``."""
        return False

    @property
    def reads_cues(self) -> bool:
        """Whether ``forward`` and ``arcs_alone`` take ``cues [b, n, CUES]``: how common each word is in the training
        file, and what the order of words tells of it there."""
        return False

    @property
    def reads_first(self) -> bool:
        """Whether ``forward`` and ``arcs_alone`` take ``first [b, w]``, where words begin, see :class:`Inputs`."""
        return False

    @property
    def untraceable(self) -> tuple[str, str] | None:
        """The option, as it is called below `model`, whose computation no graph for others can have, and what to write
        instead; None: there is none."""
        return None

    def check_forms(self) -> str | None:
        """Check that fast forms compute what the plain equations say; return the file of the latter if they run.

        Raises:
            UsageError: the values differ, as somebody has edited the equations.
        """
        return None

    def regularizer(self, section: Optim) -> Mapping[str, Tensor]:
        """What the recipe's ``optim`` section adds to the loss of every update, whatever its batch; by name."""
        del section
        return {}

    @property
    def figures(self) -> Callable[[Tensor, Tensor, Encoded], Mapping[str, Tensor]] | None:
        """What is worth watching while it learns, by name, of a batch's ``unary [b, n, d]``, ``mask [b, n]`` and what
        ``forward`` made of them; None: nothing."""
        return None

    def latent_labels(self, states: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """The distributions over latent labels that representations stand for; asked where there are such."""
        del states
        raise TypeError(f"a {type(self).__name__} has no latent labels")

    def parts(self) -> Mapping[str, Sequence[nn.Module]]:
        """Its modules with a matrix ``weight``, by what they are for: `attention` and `feed_forward`, whose weights
        `model.bayes` can make uncertain."""
        return {}

    def stages(self) -> Sequence[Sequence[nn.Parameter]]:
        """Its parameters from below, where it has layers of their own: of what goes into the first layer beside the
        words, then of each layer. What stands above the last layer is in none; there are none without layers."""
        return ()

    def start_words(self, table: Float[Tensor, "v d"]) -> None:
        """Draw the first values of a table of word vectors: Xavier-uniform unless an encoder has its own way."""
        nn.init.xavier_uniform_(table)

    def begin(
        self, unary: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"], steps: int, arcs: Iterations = False
    ) -> Reading:
        """All that comes before the last ``steps`` layers or iterations, which :meth:`again` repeats. It takes what
        ``forward`` takes of the words and their arcs, and the reading after the first :meth:`again` has the states and
        arcs of ``forward``.

        Raises:
            UsageError: the encoder cannot be read again.
        """
        del unary, mask, steps, arcs
        raise UsageError(f"a {type(self).__name__} cannot read a sentence again", hint="choose another model.kind")

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        """One more reading: the last layers once more on what they gave, or so many more iterations. It uses up the
        reading that it goes on from.

        ``bias``: added to what is known of every word for this reading alone; of a transformer to what goes into the
        layers, of a probabilistic transformer to the unary scores.
        """
        del bias
        raise TypeError(f"a {type(self).__name__} has not begun {reading}")

    @abstractmethod
    def forward(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        arcs: Iterations = False,
        at: Bool[Tensor, "b n"] | None = None,
    ) -> Encoded:
        """Representations of padded sentences; ``mask`` is True at real words.

        ``arcs``: also the probability of every head, after every iteration or after those named.

        ``at``: the only positions whose states are wanted; the others may then be zero.
        """

    def arcs_alone(
        self, unary: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"], iterations: Collection[int]
    ) -> Float[Tensor, "b t c n m"]:
        """Only the probability of every head, after some iterations (at least one), from 1: ``arcs`` of forward."""
        found: Encoded = self(unary, mask, arcs=iterations)
        assert found.arcs is not None, "asked for"
        return found.arcs
