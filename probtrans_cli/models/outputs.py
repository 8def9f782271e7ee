"""Output layers: from the representations of words and sentences to scores.

    P_i(w)  ∝ Σ_a exp(β_w + g_a S_w(a) + M_i(a))               tied output: the hidden word as a latent variable
    P_i(w)  ∝ exp(β_w + Σ_a g_a S_w(a) E[Z_i]_a / λ_W)         the same of a spherical Z, by mean field
    P_i(w)  ∝ exp(β_w + S_w · M_i / λ_W)                       that of a transformer, whose S are plain vectors
    P_i(w)  ∝ exp(β_w + D_w · LN(act(W M_i + b)))              BERT's, with D = S where it is tied
    P_i(t)  ∝ exp(Σ_{v ∈ t} (w_v · M_i + b_v))                 of a bundle t of morphological features v
    P(c)    ∝ exp(w_c · s + b_c)                               of a sentence, or a pair of texts; s: its vector

symbol   code        shape    meaning
S        table       [v, d]   unary scores of every entry of the vocabulary, its features included
M_i      states      [m, d]   all that the sentence says about the label of word i
β        bias        [v]      score of a word by itself
g        gains       [d]      gains, see `potentials.py`; 1 in a model without
λ_W      1 / scale   –        weight of the word's entropy, `task.word_weight`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models import arithmetic
from probtrans_cli.models.arithmetic import Linear, Values
from probtrans_cli.models.base import Encoded, Encoder, Inputs, Wants
from probtrans_cli.models.bayesian.moments import State, linear
from probtrans_cli.models.bayesian.propagation import apply, by_table, selected, variance_of
from probtrans_cli.models.transformer import ACTIVATIONS

Sentence = Literal["root", "cls", "mean"]
"""What represents a sentence: the encoder's root, a word `<cls>` in front, or the mean of the words."""
_LEAST = 1e-30  # of a word's share in the tied output, relative to the best one's


@dataclass(frozen=True)
class View:
    """What an output layer may read of a batch.

    Args:
        inputs: the batch.
        wants: what is wanted of it. With ``places``, representations are not rows ``[m, d]`` but ``[b, k, d]``.
        table: returns ``S_w(a)`` of every entry of the vocabulary.
        encoded: by the encoder; None for layers with ``steps``. Where moments are wanted, representations are each a
            :class:`State`.
        tokens: ``[b, n]``, where scores are wanted: of words, their first tokens.
        again: reads the sentences once more, with this bias of each token, for layers with ``steps``.
        unary: the unary scores of the tokens; None for layers with ``steps``.
    """

    inputs: Inputs
    wants: Wants
    table: Callable[[], Float[Tensor, "v d"]]
    encoded: Encoded | None = None
    tokens: Bool[Tensor, "b n"] | None = None
    again: Callable[[Tensor | None], Float[Tensor, "b n d"]] | None = None
    unary: Float[Tensor, "b n d"] | None = None

    @property
    def alone(self) -> Float[Tensor, "*m d"]:
        """The unary scores where scores are wanted, as :attr:`states`: each word by itself."""
        assert self.unary is not None, "the layer does not have sentences read again"
        return self._where_wanted(self.unary)  # type: ignore[no-any-return]

    @property
    def states(self) -> Values:
        """The representations ``[m, d]`` where scores are wanted, in row-major order."""
        assert self.encoded is not None, "the layer does not have sentences read again"
        return self._where_wanted(self.encoded.states)

    def _where_wanted(self, values: Values) -> Values:
        places, positions, first = self.wants.places, self.wants.positions, self.inputs.first
        if places is not None:
            assert isinstance(values, Tensor), "moments have no graph"
            if isinstance(places, str):
                return values
            b, n, d = values.shape
            row = (torch.arange(b, device=values.device) * n)[:, None] + places  # one look-up of rows
            return values.flatten(0, 1).index_select(0, row.flatten()).view(*row.shape, d)
        assert self.tokens is not None, "the task wants scores of words"
        if positions is None:
            return selected(values, self.tokens)
        if self.wants.words is not None and first is not None:  # from positions of words to those of their first tokens
            in_batch = positions // first.shape[1] * self.inputs.ids.shape[1]
            positions = in_batch + first.flatten().index_select(0, positions)
        return selected(values, positions)

    @property
    def _word_positions(self) -> Int[Tensor, " m"]:
        """The positions of the wanted words, counted through the padded batch."""
        words, positions = self.wants.words, self.wants.positions
        assert words is not None, "the task asks for words"
        return words.flatten().nonzero()[:, 0] if positions is None else positions

    @property
    def sentence(self) -> Values:
        """The representations ``[b, s]`` of the sentences."""
        assert self.encoded is not None, "the layer does not have sentences read again"
        assert self.encoded.sentence is not None, "the task says what represents a sentence"
        return self.encoded.sentence

    def in_sentences(self, rows: Float[Tensor, "*m d"]) -> Float[Tensor, "b w d"]:
        """Return rows of wanted words sentence by sentence, zero where there is no word."""
        words = self.wants.words
        if self.wants.places is not None:
            return rows
        assert words is not None, "the task asks for words"
        empty = rows.new_zeros(words.numel(), rows.shape[-1])
        return empty.index_copy(0, self._word_positions, rows).view(*words.shape, -1)

    def in_rows(self, values: Float[Tensor, "b w d"]) -> Float[Tensor, "*m d"]:
        if self.wants.places is not None:
            return values
        return values.flatten(0, 1).index_select(0, self._word_positions)


class OutputLayer(ABC):
    """A module that reads representations."""

    sentence: Sentence | None = None  # what represents a sentence; None = it reads words alone
    reads_table: ClassVar[bool] = False
    """True: its scores of words are tied to the unary scores of the vocabulary, which it reads."""
    steps: int | None = None
    """The number of the encoder's last layers or iterations that it repeats, see :meth:`Encoder.again`; None: it reads
    states once."""
    has_moments: bool = False
    """True: it computes by the steps of ``propagation.py``, so that moments have a way through it."""
    sizes: Mapping[str, Sequence[int]] = {}
    """The numbers of classes of distributions that stand side by side in one score, by its name."""
    decisions: Sequence[float] = ()
    """Values among which dev chooses after the training, for how answers are decided; see :meth:`decide`."""
    decision: str = "bias"  # what these values are
    decided: str = ""  # the buffer that holds the value of them that was chosen, and is kept with the weights

    @abstractmethod
    def read(self, view: View) -> Mapping[str, Values]:
        """Return scores by name, ``words [m, o]`` for the wanted words."""

    def decide(self, choice: float) -> None:
        """Decide answers by one of :attr:`decisions`, which is kept with the weights."""
        assert isinstance(self, nn.Module), "a layer is a module"
        self.get_buffer(self.decided).fill_(choice)

    def described(self) -> dict[str, Any]:
        """Return what ``config.json`` of a checkpoint says of it, for those who use the weights elsewhere."""
        return {}


class LinearOutput(OutputLayer, Linear):
    """Scores of words by one linear layer."""

    has_moments = True

    def read(self, view: View) -> Mapping[str, Values]:
        return {"words": apply(self, view.states)}


class FeatureOutput(LinearOutput):
    """Scores of bundles of morphological features, as ``Case=Nom|Number=Sing``: sums of the scores of their values.

    A feature that a bundle lacks has a value there, too. ``values``: all values, as ``Case=Nom`` or ``Case=``.
    """

    has_moments = False

    within: Tensor  # [bundles, values]: 1 where a bundle has a value

    def __init__(self, width: int, bundles: Sequence[str]) -> None:
        parts = [dict(part.partition("=")[::2] for part in bundle.split("|") if "=" in part) for bundle in bundles]
        features = sorted({feature for bundle in parts for feature in bundle})
        rows = [[f"{feature}={bundle.get(feature, '')}" for feature in features] for bundle in parts]
        self.values = sorted({value for row in rows for value in row})
        super().__init__(width, len(self.values))
        within = torch.tensor([[value in row for value in self.values] for row in map(set, rows)], dtype=torch.float32)
        self.register_buffer("within", within.view(len(bundles), len(self.values)), persistent=False)

    def read(self, view: View) -> Mapping[str, Values]:
        return {"words": functional.linear(super().read(view)["words"], self.within)}


class SentenceOutput(OutputLayer, Linear):
    """Scores of sentences, or of pairs of texts, by one linear layer on what represents a sentence.

    ``std``: of the weights at the start, with biases of 0, as BERT has it; None = as torch starts a linear layer. Of
    BERT's pairs of texts, class 0 says that the second follows the first, 1 that it is a random one.
    """

    has_moments = True

    def __init__(self, width: int, classes: int, sentence: Sentence = "cls", *, std: float | None = None) -> None:
        super().__init__(width, classes)
        self.sentence = sentence
        if std is not None:
            nn.init.normal_(self.weight, std=std)
            nn.init.zeros_(self.bias)

    def read(self, view: View) -> Mapping[str, Values]:
        return {"sentence": apply(self, view.sentence)}


def _impossible(words: int, never: Sequence[int]) -> Float[Tensor, " v"]:
    added = torch.zeros(words)
    added[list(never)] = -torch.inf
    return added


def _rows(values: Float[Tensor, "v ..."], candidates: Int[Tensor, " k"] | None) -> Float[Tensor, "k ..."]:
    return values if candidates is None else values.index_select(0, candidates)


class WordOutput(LinearOutput):
    """Word scores by a linear layer; the ids ``never`` have no probability."""

    impossible: Tensor

    def __init__(self, width: int, words: int, *, never: Sequence[int] = ()) -> None:
        super().__init__(width, words)
        self.register_buffer("impossible", _impossible(words, never), persistent=False)

    def read(self, view: View) -> Mapping[str, Values]:
        candidates = view.wants.candidates
        return super().read(view) if candidates is None else {"words": self(view.states, candidates)}

    def forward(self, states: Float[Tensor, "*m d"], candidates: Int[Tensor, " k"] | None = None) -> Tensor:
        bias = _rows(self.bias + self.impossible, candidates)
        return arithmetic.linear(states, _rows(self.weight, candidates), bias)

    def moments(self, state: State) -> State:
        return linear(state, self.weight, variance_of(self), self.bias + self.impossible)


class TableOutput(OutputLayer, nn.Module):
    """Word scores from the table of unary scores: ``forward(states, table, candidates)``."""

    reads_table = True

    def read(self, view: View) -> Mapping[str, Values]:
        return {"words": self(view.states, view.table(), view.wants.candidates)}


class TiedOutput(TableOutput):
    """Word scores by the unary scores themselves: the hidden word ``W_i`` is one more latent variable.

    Its potential with the label is that of a word that is seen, ``exp S_w(a)``, with gains ``exp g_a S_w(a)``; the
    label summed out exactly,

        score_i(w) = β_w + log Σ_a exp(g_a S_w(a) + M_i(a)),

    whose softmax over ``w`` is the posterior of ``W_i``. ``β``, besides gains ``g`` the only parameters, is in theory a
    constant of the row ``S_w``. But such constants are as large as the logarithms of frequencies, and dropout of label
    scores, which sets some of them to 0, would make them decide a word's label.
    """

    impossible: Tensor

    def __init__(
        self, words: int, probabilities: bool, *, variables: int = 1, gains: int = 0, never: Sequence[int] = ()
    ) -> None:
        """``probabilities``: states are distributions of the label, whose logarithm is ``M_i`` up to a constant.
        ``variables``: of how many labels, each summed out. ``gains``: of how many values; 0 = there are none.
        ``never``: ids without a probability."""
        super().__init__()
        self.gains = nn.Parameter(torch.ones(gains)) if gains else None
        self.bias = nn.Parameter(torch.zeros(words))
        self.register_buffer("impossible", _impossible(words, never), persistent=False)
        self.probabilities, self.variables = probabilities, variables

    def forward(
        self, states: Float[Tensor, "*m d"], table: Float[Tensor, "v d"],
        candidates: Int[Tensor, " k"] | None = None,
    ) -> Float[Tensor, "*m v"]:  # fmt: skip
        """Return the scores of all words, or of the candidates: one product of exponentials, in float32 or better."""
        states = states.double() if table.dtype == torch.float64 else states.float()
        if self.probabilities:
            states = states.clamp_min(torch.finfo(states.dtype).tiny).log()
        table = _rows(table if self.gains is None else table * self.gains, candidates)
        with torch.autocast(states.device.type, enabled=False):
            blocks = [part.chunk(self.variables, -1) for part in (states, table)]
            first, *rest = (_labels_summed_out(*block) for block in zip(*blocks, strict=True))
            return sum(rest, first) + _rows(self.bias + self.impossible, candidates)


def _labels_summed_out(states: Float[Tensor, "*m d"], table: Float[Tensor, "v d"]) -> Float[Tensor, "*m v"]:
    # Subtracting the largest S of each label, then the largest sum of each position, leaves the best word's
    # term at exactly 1: only words e^69 times worse than it are rounded, to that bound.
    highest = table.detach().amax(0)
    reached = states + highest
    best = reached.detach().amax(-1, keepdim=True)
    shares = arithmetic.linear((reached - best).exp(), (table - highest).exp())
    return (shares + _LEAST).log() + best


class TiedLinear(TableOutput):
    """Word scores by the word vectors themselves, ``β_w + S_w · M_i``; ``β`` is the only parameter, where there is a
    ``bias``. The ids ``never`` have no probability. ``scale``: of the product, 1/λ_W, see also ``width.py``."""

    has_moments = True
    impossible: Tensor
    bias: Tensor

    def __init__(self, words: int, *, never: Sequence[int] = (), bias: bool = True, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        if bias:
            self.bias = nn.Parameter(torch.zeros(words))
        else:
            self.register_buffer("bias", torch.zeros(words), persistent=False)
        self.register_buffer("impossible", _impossible(words, never), persistent=False)

    def forward(
        self, states: Values, table: Float[Tensor, "v d"],
        candidates: Int[Tensor, " k"] | None = None,
    ) -> Values:  # fmt: skip
        if self.scale != 1.0 and isinstance(states, Tensor):
            states = states * self.scale
        elif self.scale != 1.0:  # of moments, a linear layer has a rule, and a factor has none
            table = table * self.scale
        return by_table(states, _rows(table, candidates), _rows(self.bias + self.impossible, candidates))


class TiedMean(TiedLinear):
    """Word scores by the unary scores themselves, ``β_w + S_w · E[Z_i]``, with gains ``β_w + Σ_a g_a S_w(a) E[Z_i]_a``.

    The hidden word ``W_i`` is one more variable of the mean field, updated once, after the last iteration; its
    potential with ``Z_i`` is that of a word that is seen, but for the gains. Of a categorical ``Z_i``,
    :class:`TiedOutput` sums the label out exactly.
    """

    has_moments = False

    def __init__(
        self, words: int, mean: Callable[[Tensor], Tensor], *, gains: int = 0, never: Sequence[int] = (),
        scale: float = 1.0,
    ) -> None:  # fmt: skip
        """``mean``: ``E[Z_i]`` of a representation; ``gains``: of how many dimensions, 0 = there are none; ``never``:
        ids without a probability; ``scale``: see :class:`TiedLinear`."""
        super().__init__(words, never=never, scale=scale)
        self.mean = mean
        self.gains = nn.Parameter(torch.ones(gains)) if gains else None

    def forward(
        self, states: Values, table: Float[Tensor, "v d"],
        candidates: Int[Tensor, " k"] | None = None,
    ) -> Values:  # fmt: skip
        assert isinstance(states, Tensor), "it has no moments"
        mean = self.mean(states)
        return super().forward(mean if self.gains is None else mean * self.gains, table, candidates)


class BertWordOutput(TableOutput):
    """Word scores of BERT (Devlin et al. 2019): one more layer with its norm, then the word vectors, or others.

    ``decoder [v, d]``: the others, ``D``; None where the output is tied. ``norm_eps``, ``activation``, ``std``: those
    of the encoder; ``scale``: see :class:`TiedLinear`.
    """

    has_moments = True

    def __init__(
        self, words: int, width: int, *, tied: bool = True, activation: str = "gelu", norm_eps: float = 1e-12,
        std: float = 0.02, scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.scale = scale if tied else 1.0
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(width, norm_eps)
        self.decoder = None if tied else nn.Parameter(torch.randn(words, width) * std)
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.normal_(self.dense.weight, std=std)
        nn.init.zeros_(self.dense.bias)

    def forward(
        self, states: Values, table: Float[Tensor, "v d"],
        candidates: Int[Tensor, " k"] | None = None,
    ) -> Values:  # fmt: skip
        transformed = apply(self.norm, apply(self.activation, apply(self.dense, states)))
        transformed = transformed if self.scale == 1.0 else transformed * self.scale
        table = _rows(table if self.decoder is None else self.decoder, candidates)
        return by_table(transformed, table, _rows(self.bias, candidates))


class SeveralOutputs(OutputLayer, nn.Module):
    """The output layers of a task with parts, each a module by the part's name.

    The main scores of a part have its name, ``upos``; further ones of it are ``arcs.labels``.
    """

    def __init__(self, layers: Mapping[str, OutputLayer], main: Mapping[str, str], answering: Collection[str]) -> None:
        """``main``: the name that each layer gives its main scores; ``answering``: the layers of parts with answers,
        which are read where the network is not told which."""
        super().__init__()
        for name, layer in layers.items():
            assert isinstance(layer, nn.Module) and layer.steps is None, f"{name} reads representations once"  # noqa: PT018
            self.add_module(name, layer)
        self.main, self.answering = dict(main), frozenset(answering)
        represent = {layer.sentence for layer in layers.values()} - {None}
        assert len(represent) <= 1, f"parts agree in what represents a sentence: {represent}"
        self.sentence = next(iter(represent), None)
        self.sizes = {self._named(name, key): of for name, layer in layers.items() for key, of in layer.sizes.items()}
        self.has_moments = all(layer.has_moments for layer in layers.values())
        self.deciding: str | None = None
        for name, layer in layers.items():
            if layer.decisions and self.deciding is None:
                self.decisions, self.decision, self.deciding = layer.decisions, layer.decision, name

    def decide(self, choice: float) -> None:
        layer = self.get_submodule(self.deciding or "")
        assert isinstance(layer, OutputLayer), "a part's"
        layer.decide(choice)

    def read(self, view: View) -> Mapping[str, Values]:
        wanted = self.answering if view.wants.parts is None else view.wants.parts
        layers: dict[str, Any] = {name: layer for name, layer in self.named_children() if name in wanted}
        return {
            self._named(name, key): scores for name, layer in layers.items() for key, scores in layer.read(view).items()
        }

    def _named(self, name: str, key: str) -> str:
        return name if key == self.main[name] else f"{name}.{key}"


WordLayer = WordOutput | TiedOutput | TiedLinear | BertWordOutput  # output layers over the vocabulary


def word_output(kind: str, encoder: Encoder, words: int, never: Sequence[int], *, tied: bool) -> WordLayer:
    """Make an output layer over a vocabulary of ``words`` entries.

    Args:
        kind: the recipe's `task.output`: `linear`, `tied` or `bert`.
        encoder: what the layer reads.
        never: ids that have no probability; BERT's layer gives all of them one, as `transformers` has it.
        tied: whether BERT's layer reads the table of words.
    """
    section: Any = encoder.section
    facts, scale = encoder.facts, encoder.logit_scale
    if kind == "linear":
        return WordOutput(facts.width, words, never=never)
    if kind == "bert":
        options = {"activation": section.activation, "norm_eps": section.norm_eps, "std": section.std}
        return BertWordOutput(words, facts.width, tied=tied, scale=scale, **options)
    assert kind == "tied", f"a kind of word scores: {kind}"
    gains = facts.width if facts.has_gains else 0
    if facts.has_latent_labels:
        probabilities, variables = section.output == "probabilities", facts.label_variables
        return TiedOutput(words, probabilities, variables=variables, gains=gains, never=never)
    if encoder.latent_mean is None:
        return TiedLinear(words, never=never, scale=scale)
    return TiedMean(words, encoder.latent_mean, gains=gains, never=never, scale=scale)
