"""From words to scores: unary scores in front of an encoder, an output layer behind it.

    S_i(a)  = S[w_i, a] + Σ_x Σ_{f ∈ f(w_{i+x})} R[x, f, a]    log-linear unary scores; features are not in the paper

symbol   code        shape    meaning
S        unary       [v, d]   scores of a word with its label (Eq. 1)
R        features    [g, d]   scores of a feature of a spelling with a label; with a window [g, (2x + 1) d], for each
                              distance x from the words on the left to those on the right
f(w)     Features             rows of R: affixes, shape (``data.vocabulary.features``)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.arithmetic import linear, may_depend_on
from probtrans_cli.models.base import (
    CUES,
    Encoded,
    Encoder,
    Features,
    Inputs,
    Memory,
    Outputs,
    Readout,
    Wants,
    Words,
    first_tokens,
)
from probtrans_cli.models.bayesian import propagation, weights
from probtrans_cli.models.bayesian.propagation import Kind, moments_of_words, refusal
from probtrans_cli.models.bayesian.weights import Prior, posterior_of, uncertain
from probtrans_cli.models.outputs import OutputLayer, TiedOutput, View
from probtrans_cli.models.width import Scale
from probtrans_cli.recipe.model.base import Bayes, WeightPrior

NORM_DEVIATION = 0.1  # the standard deviation of the gains and shifts of a norm under their prior
PADDING, HIDDEN = 0, 2  # ids of `<pad>` and `<mask>` where a vocabulary does not say otherwise


class FeatureScores(nn.Module):
    """``R``: scores of hashed features with labels. Zero at first, so a feature never seen says nothing.

    ``window``: up to how many words away neighbours count; a feature has ``d`` scores for each distance. ``rank``: all
    of these are products of that many numbers of the feature with a matrix ``factor``; 0 = each is a parameter.
    """

    def __init__(self, rows: int, width: int, window: int = 0, rank: int = 0) -> None:
        super().__init__()
        self.window, size = window, (2 * window + 1) * width
        self.weight = nn.Parameter(torch.zeros(rows, rank or size))
        self.factor = nn.Parameter(torch.randn(size, rank) * rank**-0.5) if rank else None

    def forward(self, features: Features | Int[Tensor, "b n k"], hidden: Bool[Tensor, "b n"]) -> Float[Tensor, "b n d"]:
        """Return the sum over the features of a word and of its neighbours; ``hidden``: words without features."""
        if isinstance(features, Tensor):
            scores = functional.embedding(features.clamp(min=0), self.weight)
            scores = (scores * (features >= 0)[..., None]).sum(2)
        else:
            scores = functional.embedding_bag(features.rows, self.weight, features.offsets, mode="sum")
        scores = scores.view(*hidden.shape, -1).masked_fill(hidden[..., None], 0.0)
        if self.factor is not None:
            scores = linear(scores, self.factor)
        if not self.window:
            return scores
        n, x = hidden.shape[1], 2 * self.window
        padded = functional.pad(scores, (0, 0, self.window, self.window)).chunk(x + 1, dim=-1)
        return torch.stack([part[:, start : start + n] for start, part in enumerate(padded)]).sum(0)

    def of_entries(self, features: Features) -> Float[Tensor, "v d"]:
        """Return the sum over the features of each entry of the vocabulary by itself."""
        weight = self.weight if self.factor is None else self.weight @ self.factor.T
        own = weight.chunk(2 * self.window + 1, dim=1)[self.window]
        return functional.embedding_bag(features.rows, own, features.offsets, mode="sum")


class Network(nn.Module):
    """Unary scores (``S``; its padding row zero), encoder, output layer.

    ``S`` starts standard normal where :class:`TiedOutput` reads it, otherwise as the encoder has it.

    Args:
        vocabulary: the number of its entries.
        encoder: computes representations of words from their unary scores.
        output: makes the output layer for the encoder.
        feature_rows: rows of ``R``; 0 = words have no features.
        feature_window, feature_rank: see :class:`FeatureScores`.
        entries: the features of the vocabulary's own entries, which a tied output reads.
        begins: the ids of a sentence begin with the word `<cls>`; else, where it represents the sentence, it is added
            in front, and nobody else sees it.
        common: how common every entry of the vocabulary is, for an encoder with a `head_bias`.
        order_cues: the columns of ``order``, what the order of words tells of every entry; 0 = nothing.
        padding, hidden: ids of the vocabulary.
    """

    entry_rows: Tensor | None
    entry_offsets: Tensor | None
    common: Tensor | None
    order: Tensor | None

    def __init__(
        self,
        vocabulary: int,
        encoder: Encoder,
        output: Callable[[Encoder], Any],
        *,
        feature_rows: int = 0,
        feature_window: int = 0,
        feature_rank: int = 0,
        entries: Features | None = None,
        begins: bool = False,
        common: Float[Tensor, " v"] | None = None,
        order_cues: int = 0,
        padding: int = PADDING,
        hidden: int = HIDDEN,
    ) -> None:
        super().__init__()
        self.padding, self.hidden = padding, hidden
        self.register_buffer("common", common, persistent=False)  # follows from the vocabulary
        self.register_buffer("order", torch.zeros(vocabulary, order_cues) if order_cues else None)
        self.unary = nn.Embedding(vocabulary, encoder.facts.unary_width, padding_idx=padding)
        width = encoder.facts.unary_width
        self.features = FeatureScores(feature_rows, width, feature_window, feature_rank) if feature_rows else None
        self.encoder = encoder
        encoder.start_words(self.unary.weight)
        self.output: Any = output(encoder)
        assert isinstance(self.output, OutputLayer), "an output layer says what it reads"
        if isinstance(self.words, TiedOutput):
            # Latent labels that are nearly alike tell nothing of a word, and training would take long to part them.
            nn.init.normal_(self.unary.weight)
        with torch.no_grad():
            self.unary.weight[padding].zero_()
            for parameter, scale in self.scaled():
                parameter.mul_(scale.start)
        self.sentence = self.output.sentence
        added = self.sentence == "cls" and not begins
        self.start = nn.Parameter(torch.empty(1, encoder.facts.unary_width)) if added else None
        if self.start is not None:
            encoder.start_words(self.start)
        # Arcs have a column for the root: that of a root node, or of a `<cls>` in front of the words.
        self.has_root_column = encoder.facts.has_root or added
        # The length of the longest sentence that it can read; None = any.
        rows = encoder.facts.position_rows
        self.longest = None if rows is None else rows - int(added)
        # Whether the output layer scores words by the unary scores.
        self.tied = bool(getattr(self.words, "reads_table", False))
        for name, values in zip(Features._fields, entries or (None, None), strict=True):
            self.register_buffer(f"entry_{name}", values, persistent=False)  # follow from the vocabulary

    def potentials(
        self, ids: Int[Tensor, "b n"], features: Features | Int[Tensor, "b n k"] | None
    ) -> Float[Tensor, "b n d"]:
        """Return the unary scores of words; hidden words have no features.

        Raises:
            ValueError: an id is not in the vocabulary (checked on the CPU alone, where a check costs nothing).
        """
        rows = self.unary.num_embeddings
        if may_depend_on(ids) and ids.numel():
            least, most = map(int, ids.aminmax())
            if not 0 <= least <= most < rows:
                raise ValueError(f"the id {most if most >= rows else least} is not in the vocabulary of {rows} entries")
        scores: Tensor = self.unary(ids)
        if self.features is None or features is None:
            return scores
        scores = scores + self.features(features, ids == self.hidden)
        return scores.masked_fill((ids == self.padding)[..., None], 0.0) if self.features.window else scores

    def forward(self, inputs: Inputs, wants: Wants) -> Outputs:
        """Compute what is wanted of a batch, and nothing else: the only entrance."""
        if wants.moments is not None:
            for option in self.encoder.facts.without_moments:
                raise refusal(option)
            if wants.scores and not self.output.has_moments:
                raise refusal(type(self.output).__name__)
            if wants.scores and self.tied and posterior_of(self.unary) is not None:
                raise refusal(f"{type(self.words).__name__} that reads uncertain vectors of words")
        # Moments are computed in float32 at least: differences of squares are many of them.
        exactly = None if wants.moments is None else torch.autocast(inputs.ids.device.type, enabled=False)
        with exactly or nullcontext():
            unary = self.potentials(inputs.ids, inputs.features)
            words = self._words(inputs, unary, wants.moments, wants.readout)
            if wants.tree_scores:
                trees = None if self.start is not None else self.encoder.tree_scores(words, wants.tree_scores)
                return Outputs(tree_scores=trees)
            if wants.arcs and not (wants.scores or wants.states or wants.moments):
                return Outputs(arcs=self._arcs_of_words(self.encoder.arcs_alone(words, wants.arcs)))
            if wants.scores and self.output.steps is not None:
                return self._read_again(words, inputs, wants)
            tokens = wants.tokens
            if wants.words is not None and wants.places is None:
                tokens = inputs.tokens_of(wants.words)
            encoded = self._encode(words, inputs, wants, tokens)
            view = View(inputs, wants, self._table, encoded, tokens, unary=unary)
            scores = self.output.read(view) if wants.scores else {}
        states = encoded.states if wants.states else None
        sentence = encoded.sentence if wants.states or wants.sentence else None
        if wants.moments is None:
            return Outputs(scores=scores, states=states, sentence=sentence, arcs=encoded.arcs)
        return Outputs(
            scores={name: state.mean for name, state in scores.items()},
            states=None if states is None else states.mean,
            sentence=None if sentence is None else sentence.mean,
            arcs=encoded.arcs,
            variance=encoded.states.variance,
            variances={name: state.variance for name, state in scores.items()},
        )

    def _read_again(self, words: Words, inputs: Inputs, wants: Wants) -> Outputs:
        """Let the output layer have the sentences read several times. States and arcs are those of the first reading,
        which equals the encoder's ``forward``."""
        assert self.start is None, "no such task needs a representation of the sentence"
        reading = self.encoder.begin(words, self.output.steps, wants.arcs or False)
        states = arcs = None

        def again(bias: Tensor | None) -> Tensor:
            nonlocal reading, states, arcs
            reading = self.encoder.again(reading, bias)
            assert reading.states is not None, "it has been read"
            if states is None:
                states, arcs = reading.states, reading.arcs
            return reading.states

        scores = self.output.read(View(inputs, wants, self._table, again=again))
        return Outputs(
            scores=scores,
            states=states if wants.states else None,
            arcs=torch.stack(arcs, dim=1) if arcs else None,
        )

    def read_on(self, ids: Int[Tensor, "b 1"], memory: Memory = (), features: Features | None = None) -> Memory:
        return self.encoder.read_on(self.potentials(ids, features), memory)

    def next_scores(self, texts: int, memory: Memory, readout: Readout | None) -> Float[Tensor, "b v"]:
        """Return the scores of the word behind those of :meth:`read_on`, of so many texts; ``readout``: see
        :class:`Wants`."""
        assert readout is not None, "the task says how"
        states = self.encoder.foretell(texts, memory, self._with_prior(readout))
        every = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        view = View(Inputs(ids=every.long(), mask=every), Wants(tokens=every), self._table, Encoded(states), every)
        scores: Tensor = self.output.read(view)["words"]
        return scores

    def _with_prior(self, readout: Readout) -> Readout:
        if not self.encoder.facts.has_head_variables:
            return readout
        words: Any = self.words
        frequencies = (words.bias + words.impossible).softmax(0)  # of words by themselves
        # In its own precision: in bfloat16 the whole table, and its gradient, would be converted for one product.
        kind = frequencies.device.type
        casts = torch.is_autocast_enabled(kind)
        with torch.autocast(kind, enabled=False) if casts else nullcontext():
            return replace(readout, prior=frequencies @ self._table())

    def _words(
        self, inputs: Inputs, unary: Float[Tensor, "b n d"], moments: Kind | None, readout: Readout | None = None
    ) -> Words:
        """Return what the encoder reads. A `<cls>` that is added in front has neither cues nor a segment."""
        mask, facts = inputs.mask, self.encoder.facts
        cues = segments = first = None
        if self.common is not None:
            columns = self.common[inputs.ids][..., None]
            columns = columns if self.order is None else torch.cat([columns, self.order[inputs.ids]], dim=-1)
            cues = functional.pad(columns, (0, CUES - columns.shape[2]))
            cues = cues if self.start is None else functional.pad(cues, (0, 0, 1, 0))
        if facts.segment_types and inputs.segments is not None:
            assert self.start is None, "texts with segments begin with a `<cls>` of their own"
            segments = inputs.segments
        if facts.reads_first and inputs.first is not None:
            first = inputs.first
            if self.sentence == "cls":  # the token that represents the sentence is a word, too
                first = functional.pad(first if self.start is None else first + 1, (1, 0))
        if self.start is not None:
            start = self.start.expand(mask.shape[0], 1, -1).to(unary.dtype)
            unary = torch.cat([start, unary], dim=1)
            mask = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)
        lengths = inputs.lengths
        if lengths is not None and self.start is not None:
            lengths = tuple(length + 1 for length in lengths)
        values = unary if moments is None else moments_of_words(unary, moments, self.unary, inputs.ids)
        readout = None if readout is None else self._with_prior(readout)
        alike = moments is None and self.start is None and (self.features is None or inputs.features is None)
        entries = inputs.ids if alike else None
        return Words(values, mask, segments, cues, first, readout, lengths, entries)

    def _encode(self, words: Words, inputs: Inputs, wants: Wants, tokens: Tensor | None) -> Encoded:
        """Encode the tokens, and the sentences where they have a representation.

        States are computed for those tokens alone that scores need, unless states are wanted themselves.
        """
        at: Tensor | None = None
        if not (wants.states or wants.places is not None or (wants.sentence and self.sentence == "mean")):
            at = torch.zeros_like(inputs.mask) if tokens is None else tokens
            if self.sentence == "cls":
                behind = at[:, 1:] if self.start is None else at
                at = torch.cat([torch.ones_like(at[:, :1]), behind], dim=1)
        encoded: Encoded = self.encoder(words, arcs=wants.arcs or False, at=at)
        if self.sentence == "mean":
            if at is not None:
                return encoded
            # Where the encoder reads words, each counts once, however many tokens it has.
            mask = words.mask if words.first is None else first_tokens(words.first, words.mask.shape[1])
            return replace(encoded, sentence=propagation.mean(encoded.states, mask))
        if self.sentence == "cls" and not self.encoder.facts.has_pooler:
            encoded = replace(encoded, sentence=propagation.first(encoded.states))
        if self.start is None:
            return encoded
        arcs = None if encoded.arcs is None else self._arcs_of_words(encoded.arcs)
        return replace(encoded, states=propagation.each(encoded.states, lambda part: part[:, 1:]), arcs=arcs)

    def _arcs_of_words(self, arcs: Tensor) -> Tensor:
        if self.start is None:
            return arcs
        n = arcs.shape[-2]
        words, root, features = arcs[..., 1:, 1:n], arcs[..., 1:, :1], arcs[..., 1:, n:]
        if self.encoder.facts.has_root:
            root, features = root + features[..., :1], features[..., 1:]
        return torch.cat([words, root, features], dim=-1)

    @property
    def words(self) -> nn.Module:
        """The output layer of words."""
        words = getattr(self.output, "words", self.output)
        assert isinstance(words, nn.Module), "a part of the output layer"
        return words

    def _table(self) -> Float[Tensor, "v d"]:
        """Return ``S_w(a)`` of every entry of the vocabulary."""
        if self.features is None or self.entry_rows is None or self.entry_offsets is None:
            return self.unary.weight
        return self.unary.weight + self.features.of_entries(Features(self.entry_rows, self.entry_offsets))

    def stages(self, *, features: bool = True) -> list[list[nn.Parameter]]:
        """Return its parameters from below: embeddings (words, features, `<cls>`, positions, segments, the norm of
        their sum), then each layer of the encoder, if it has such.

        Parameters above the last layer are left out, and with ``features=False`` those of features too.
        """
        below, *layers = self.encoder.stages() or ((),)
        modules = (self.unary, self.features if features else None)
        words = [parameter for module in modules if module is not None for parameter in module.parameters()]
        return [[*words, *([] if self.start is None else [self.start]), *below], *map(list, layers)]

    @torch.inference_mode()
    def activations(self, inputs: Inputs, wants: Wants) -> dict[str, Tensor]:
        """Return what the encoder computes of a batch, see :meth:`Encoder.activations`, and the wanted scores; without
        dropout, in float32."""
        training = self.training
        self.eval()
        words = self._words(inputs, self.potentials(inputs.ids, inputs.features), None, wants.readout)
        scores = {}
        for name, values in self(inputs, wants).scores.items():  # but for what all of a row share
            possible = values.isfinite()
            mean = values.masked_fill(~possible, 0.0).sum(-1, keepdim=True) / possible.sum(-1, keepdim=True)
            scores[f"scores of {name}"] = (values - mean)[possible]
        activations = {**self.encoder.activations(words), **scores}
        self.train(training)
        return {name: values.float() for name, values in activations.items()}

    def scaled(self) -> Iterator[tuple[nn.Parameter, Scale]]:
        """Yield the parameters whose start and rate have a factor, with a `base_width`: those of the encoder, and
        matrices of the output layer that read states."""
        scales, width = self.encoder.scales, self.encoder.facts.width
        if scales is None:
            return
        yield from self.encoder.scaled()
        for parameter in self.output.parameters():
            if parameter.ndim == 2 and parameter.shape[1] == width:
                yield parameter, scales.output

    def parameter_counts(self) -> dict[str, int]:
        """Return the number of parameters of each part.

        Standard deviations of uncertain weights are counted apart, as ``deviations``.
        """
        deviations = {id(tensor.posterior.log_sd): tensor.posterior.log_sd.numel() for tensor in uncertain(self)}
        counts = {
            name: sum(p.numel() for p in part.parameters() if id(p) not in deviations)
            for name, part in self.named_children()
        }
        counts |= {"deviations": sum(deviations.values())} if deviations else {}
        return counts if self.start is None else counts | {"start": self.start.numel()}


# --- which weights are uncertain, and what is believed of them: `model.bayes`, applied --------------------------------


def spread(network: Network, section: Bayes, *, probe: bool = False) -> None:
    """Give the weights that ``section`` names a Gaussian around their present values; ``probe``: the output's alone.

    Biases, positions and segments stay certain, and words unless `words` is set.
    """
    by_part: Mapping[str, Sequence[nn.Module]] = {} if probe else network.encoder.parts()
    layers = [part for part in ("attention", "feed_forward") if part in section.layers]
    matrices = [(module, "weight") for part in layers for module in by_part.get(part, ())]
    if "output" in section.layers:
        matrices += _matrices_of(network.output)
    if section.words and not probe:
        matrices.append((network.unary, "weight"))
    _spread_matrices(matrices, section.prior, section.start, section.family)
    if section.norms and not probe:
        for module in [module for module in network.modules() if isinstance(module, nn.LayerNorm)]:
            for name, centre in (("weight", 1.0), ("bias", 0.0)):
                prior = Prior(centre, NORM_DEVIATION**2)
                deviation = section.start * NORM_DEVIATION
                weights.make_uncertain(module, name, prior, deviation=deviation, family=section.family)
    weights.use_file_names(network)


def spread_all(network: Network, prior: WeightPrior, *, probe: bool = False) -> None:
    """Give every matrix of encoder and output a Gaussian, a deviation for each weight, which an optimizer finds."""
    parts = [network.output] if probe else [network.encoder, network.output]
    _spread_matrices([named for part in parts for named in _matrices_of(part)], prior, 1.0, "full")
    for tensor in uncertain(network):
        tensor.posterior.requires_grad_(False)
    weights.use_file_names(network)


def _matrices_of(part: nn.Module) -> list[tuple[nn.Module, str]]:
    modules = list(part.modules())
    return [(module, name) for module in modules for name, p in module.named_parameters(recurse=False) if p.ndim > 1]


def _spread_matrices(
    matrices: Sequence[tuple[nn.Module, str]], section: WeightPrior, start: float, family: Literal["row", "full"]
) -> None:
    """Give each a Gaussian; ``start``: its deviations, as a multiple of 1 / √inputs."""
    for module, name in matrices:
        inputs = getattr(module, name).shape[-1]
        variance = section.std**2 if section.kind == "normal" else section.std**2 / inputs
        prior = Prior(0.0, variance, at_start=section.kind == "start")
        weights.make_uncertain(module, name, prior, deviation=start * inputs**-0.5, family=family)
