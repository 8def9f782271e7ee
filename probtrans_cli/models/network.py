"""From words to scores: unary scores in front of an encoder, an output layer behind it.

    S_i(a)  = S[w_i, a] + Σ_{f ∈ f(w_i)} R[f, a]               log-linear unary scores; features are not in the paper

symbol   code        shape    meaning
S        unary       [v, d]   scores of a word with its label (Eq. 1)
R        features    [g, d]   scores of a feature of the word's spelling with its label
f(w)     Features             rows of R: affixes, shape (``data.features``)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.models.arithmetic import PLAIN
from probtrans_cli.models.base import CUES, Encoded, Encoder, Features, Inputs, Outputs, Wants, first_tokens
from probtrans_cli.models.bayesian.moments import State, mean_over_words
from probtrans_cli.models.bayesian.propagation import MOMENTS, Kind, refusal, start
from probtrans_cli.models.bayesian.weights import posterior_of, uncertain
from probtrans_cli.models.outputs import OutputLayer, TiedOutput, View
from probtrans_cli.models.shapes import may_depend_on

PADDING, HIDDEN = 0, 2  # ids of `<pad>` and `<mask>` where a vocabulary does not say otherwise
Sentence = Literal["root", "cls", "mean"]


class FeatureScores(nn.Module):
    """``R [g, d]``: scores of hashed features with labels. Zero at first, so a feature never seen says nothing."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))

    def forward(self, features: Features | Int[Tensor, "b n k"]) -> Float[Tensor, "*p d"]:
        """``Σ_f R[f, a]`` for every position; zero for one without features."""
        if isinstance(features, Tensor):
            scores = functional.embedding(features.clamp(min=0), self.weight)
            return (scores * (features >= 0)[..., None]).sum(2)
        return functional.embedding_bag(features.rows, self.weight, features.offsets, mode="sum")


class Network(nn.Module):
    """Unary scores (``S``; its padding row zero), encoder, output layer.

    ``output`` makes the output layer for the encoder. ``feature_rows``: rows of ``R``, 0 = words have no features;
    ``entries`` has the features of the vocabulary's own entries, which a tied output reads. ``S`` is standard normal
    where :class:`TiedOutput` reads it, otherwise as the encoder has it. ``sentence``: what represents a sentence: the
    encoder's root, a word `<cls>` in front of every sentence, which nobody else sees, or the mean of the words.
    ``begins``: the ids of a sentence begin with such a word. ``common``: how common every entry of the vocabulary is,
    for an encoder with a `head_bias`; ``order_cues``: the columns of ``order``, what the order of words tells of every
    entry; 0 = nothing.
    ``padding``, ``hidden``: ids of the vocabulary.
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
        entries: Features | None = None,
        sentence: Sentence | None = None,
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
        self.unary = nn.Embedding(vocabulary, encoder.in_width, padding_idx=padding)
        self.features = FeatureScores(feature_rows, encoder.in_width) if feature_rows else None
        self.encoder = encoder
        encoder.start_words(self.unary.weight)
        self.output: Any = output(encoder)
        assert isinstance(self.output, OutputLayer), "an output layer says what it reads"
        if isinstance(self.words, TiedOutput):
            # Latent labels that are nearly alike tell nothing of a word, and training would take long to part them.
            nn.init.normal_(self.unary.weight)
        with torch.no_grad():
            self.unary.weight[padding].zero_()
        self.sentence = sentence
        self.start = nn.Parameter(torch.empty(1, encoder.in_width)) if sentence == "cls" and not begins else None
        if self.start is not None:
            encoder.start_words(self.start)
        for name, values in zip(Features._fields, entries or (None, None), strict=True):
            self.register_buffer(f"entry_{name}", values, persistent=False)  # follow from the vocabulary

    def potentials(
        self, ids: Int[Tensor, "b n"], features: Features | Int[Tensor, "b n k"] | None
    ) -> Float[Tensor, "b n d"]:
        """Unary scores of words. A hidden word shows no features, whatever is given.

        Raises:
            ValueError: an id is not in the vocabulary (checked on the CPU alone, where a check costs nothing).
        """
        rows = self.unary.num_embeddings
        if may_depend_on(ids) and ids.numel():
            least, most = (int(one) for one in ids.aminmax())
            if not 0 <= least <= most < rows:
                raise ValueError(f"the id {most if most >= rows else least} is not in the vocabulary of {rows} entries")
        scores: Tensor = self.unary(ids)
        if self.features is None or features is None:
            return scores
        of_features: Tensor = self.features(features)
        return scores + of_features.view_as(scores).masked_fill((ids == self.hidden)[:, :, None], 0.0)

    def forward(self, inputs: Inputs, wants: Wants) -> Outputs:
        """What is wanted of a batch, and nothing else: the only entrance.

        Raises:
            UsageError: moments are wanted, and the encoder, the output layer or an option has no rule for them.
        """
        if wants.arcs and not (wants.scores or wants.states or wants.moments):
            return Outputs(arcs=self._arcs_alone(inputs, wants))
        if wants.moments is not None:
            self._check_moments(wants.scores)
        if wants.scores and self.output.steps is not None:
            return self._read_again(inputs, wants)
        with _exactly(wants.moments, inputs.ids.device):
            tokens = wants.tokens
            if wants.words is not None and wants.places is None:
                tokens = inputs.tokens_of(wants.words)
            unary = self.potentials(inputs.ids, inputs.features)
            encoded = self._encode(inputs, unary, wants, self._needed(inputs, wants, tokens))
            by = PLAIN if wants.moments is None else MOMENTS
            view = View(
                encoded,
                tokens,
                wants.words,
                self._table,
                inputs,
                by,
                positions=wants.positions,
                places=wants.places,
                unary=unary,
            )
            scores = self.output.read(view) if wants.scores else {}
        variances = {}
        if wants.moments is not None:
            variances = {name: one.variance for name, one in scores.items()}
            scores = {name: one.mean for name, one in scores.items()}
        return Outputs(
            scores=scores,
            states=encoded.states if wants.states else None,
            sentence=encoded.sentence if wants.states or wants.sentence else None,
            arcs=encoded.arcs,
            variance=encoded.variance,
            variances=variances,
        )

    def _read_again(self, inputs: Inputs, wants: Wants) -> Outputs:
        """The same where the output layer has the sentences read several times; states and arcs are those of the first
        reading, which is the encoder's ``forward``."""
        assert self.start is None, "no such task asks for what represents a sentence"
        unary, of_words = self.potentials(inputs.ids, inputs.features), self._of_words(inputs)
        reading = self.encoder.begin(unary, inputs.mask, self.output.steps, arcs=wants.arcs or False, **of_words)
        states = arcs = None

        def again(bias: Tensor | None) -> Tensor:
            nonlocal reading, states, arcs
            reading = self.encoder.again(reading, bias)
            assert reading.states is not None, "it has been read"
            if states is None:
                states, arcs = reading.states, reading.arcs
            return reading.states

        view = View(None, None, wants.words, self._table, inputs, again=again, fed_back=wants.fed_back, ends=wants.ends)
        scores = self.output.read(view)
        return Outputs(
            scores=scores,
            states=states if wants.states else None,
            arcs=torch.stack(arcs, dim=1) if arcs else None,
        )

    def _check_moments(self, scores: bool) -> None:
        """Refuse what has no rule; an option of the encoder's is refused by the encoder."""
        if not self.encoder.has_moments:
            raise refusal(type(self.encoder).__name__)
        if scores and not self.output.has_moments:
            raise refusal(type(self.output).__name__)
        if scores and getattr(self.words, "reads_table", False) and posterior_of(self.unary) is not None:
            raise refusal(f"{type(self.words).__name__} that reads uncertain vectors of words")

    def _needed(self, inputs: Inputs, wants: Wants, tokens: Tensor | None) -> Bool[Tensor, "b n"] | None:
        """The only tokens whose states are needed; None = all."""
        if wants.states or wants.places is not None or (wants.sentence and self.sentence == "mean"):
            return None
        needed = torch.zeros_like(inputs.mask) if tokens is None else tokens
        if self.sentence == "cls" and self.start is None:
            needed = torch.cat([torch.ones_like(needed[:, :1]), needed[:, 1:]], dim=1)
        return needed

    def _encode(
        self, inputs: Inputs, unary: Float[Tensor, "b n d"], wants: Wants, needed: Bool[Tensor, "b n"] | None
    ) -> Encoded:
        """Representations of the words, and of the sentences."""
        mask, arcs = inputs.mask, wants.arcs or False
        if self.start is not None:
            return self._behind_start(inputs, unary, wants, needed)
        given = self._given(unary, inputs, wants.moments)
        encoded: Encoded = self.encoder(given, mask, arcs=arcs, at=needed, **self._of_words(inputs))
        if self.sentence == "cls":
            return self._with_first(encoded)
        return self._with_mean(encoded, inputs, wants) if self.sentence == "mean" and needed is None else encoded

    def _with_mean(self, encoded: Encoded, inputs: Inputs, wants: Wants) -> Encoded:
        """With the mean of the words; where the encoder asks for words, one counts once however many tokens it has."""
        words, states = inputs.mask, encoded.states
        if (first := self._first(inputs)) is not None:
            words = first_tokens(first, words.shape[1])
            states = states * words[:, :, None]
        number = words.sum(1, keepdim=True).clamp(min=1)
        if encoded.variance is not None and wants.moments is not None:
            of_words = State(states, encoded.variance, encoded.shared, encoded.together)
            pooled = mean_over_words(of_words, words / number.to(states.dtype))
            return replace(
                encoded,
                sentence=pooled.mean,
                sentence_variance=pooled.variance,
                sentence_together=pooled.together,
            )
        return replace(encoded, sentence=states.sum(1) / number.to(states.dtype))

    def _arcs_alone(self, inputs: Inputs, wants: Wants) -> Float[Tensor, "b t c n m"]:
        """The arcs, and nothing that they do not need."""
        unary, of_words = self.potentials(inputs.ids, inputs.features), self._of_words(inputs)
        if self.start is None:
            return self.encoder.arcs_alone(unary, inputs.mask, wants.arcs, **of_words)
        return self._from_words(self.encoder.arcs_alone(*self._with_start(unary, inputs.mask), wants.arcs, **of_words))

    def _of_words(self, inputs: Inputs) -> dict[str, Tensor]:
        """What an encoder reads of the words beside their unary scores; a `<cls>` of our own has none of it."""
        found: dict[str, Tensor] = {}
        if self.common is not None:
            common = self.common[inputs.ids][..., None]
            told = common if self.order is None else torch.cat([common, self.order[inputs.ids]], dim=-1)
            cues = nn.functional.pad(told, (0, CUES - told.shape[2]))
            found["cues"] = cues if self.start is None else nn.functional.pad(cues, (0, 0, 1, 0))
        if inputs.segments is not None and self.encoder.reads_segments:
            assert self.start is None, "texts with segments begin with a `<cls>` of their own"
            found["segments"] = inputs.segments
        if (first := self._first(inputs)) is not None:
            found["first"] = first
        return found

    def _first(self, inputs: Inputs) -> Int[Tensor, "b w"] | None:
        """Where words begin, for an encoder that asks; the token that represents the sentence is one of them."""
        first = inputs.first if self.encoder.reads_first else None
        if first is None or self.sentence != "cls":
            return first
        return nn.functional.pad(first if self.start is None else first + 1, (1, 0))

    def _behind_start(self, inputs: Inputs, unary: Tensor, wants: Wants, needed: Tensor | None) -> Encoded:
        """The same behind `<cls>`."""
        at = None if needed is None else torch.cat([torch.ones_like(needed[:, :1]), needed], dim=1)
        inside, mask = self._with_start(unary, inputs.mask)
        given = self._given(inside, inputs, wants.moments)
        found: Encoded = self.encoder(given, mask, arcs=wants.arcs or False, at=at, **self._of_words(inputs))
        with_first = self._with_first(found)
        return replace(
            with_first,
            states=found.states[:, 1:],
            arcs=None if found.arcs is None else self._from_words(found.arcs),
            variance=None if found.variance is None else found.variance[:, 1:],
            shared=None if found.shared is None else found.shared[:, 1:, 1:],
            together=None if found.together is None else found.together.each(lambda one: one[:, 1:]),
        )

    def _given(self, unary: Tensor, inputs: Inputs, kind: Kind | None) -> Tensor | State:
        """What goes into the encoder: vectors, or their moments."""
        return unary if kind is None else start(unary, kind, self.unary, inputs.ids)

    def _with_start(self, unary: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Unary scores and mask with `<cls>` in front."""
        assert self.start is not None, "asked where there is one"
        first = self.start.expand(mask.shape[0], 1, -1).to(unary.dtype)
        return torch.cat([first, unary], dim=1), torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)

    def _from_words(self, arcs: Tensor) -> Tensor:
        """Arcs of the words alone; attention to `<cls>` is an arc to the root, beside those to a root node."""
        n = arcs.shape[-2]
        words, root, others = arcs[..., 1:, 1:n], arcs[..., 1:, :1], arcs[..., 1:, n:]
        if self.encoder.has_root:
            root, others = root + others[..., :1], others[..., 1:]
        return torch.cat([words, root, others], dim=-1)

    def _with_first(self, found: Encoded) -> Encoded:
        """With what represents a sentence by its first word."""
        if self.encoder.has_pooler:
            assert found.sentence is not None, "the pooler made it"
            return found
        return replace(
            found,
            sentence=found.states[:, 0],
            sentence_variance=None if found.variance is None else found.variance[:, 0],
            sentence_together=None if found.together is None else found.together.each(lambda one: one[:, 0]),
        )

    @property
    def longest(self) -> int | None:
        """The number of words of the longest sentence that it can read; None = any."""
        limit = self.encoder.longest
        return limit if limit is None or self.start is None else limit - 1

    @property
    def words(self) -> nn.Module:
        """The output layer of words."""
        words = getattr(self.output, "words", self.output)
        assert isinstance(words, nn.Module), "a part of the output layer"
        return words

    @property
    def tied(self) -> bool:
        """Whether words are scored by the unary scores themselves."""
        return bool(getattr(self.words, "reads_table", False))

    @property
    def has_root_column(self) -> bool:
        """Whether arcs have a column for the root: a root node, or a `<cls>` in front of the words."""
        return self.encoder.has_root or self.start is not None

    def _table(self) -> Float[Tensor, "v d"]:
        """``S_w(a)`` of every entry of the vocabulary."""
        if self.features is None or self.entry_rows is None or self.entry_offsets is None:
            return self.unary.weight
        of_features: Tensor = self.features(Features(self.entry_rows, self.entry_offsets))
        return self.unary.weight + of_features

    def stages(self, *, features: bool = True) -> list[list[nn.Parameter]]:
        """Its parameters from below: of the embeddings (words, features, `<cls>`, positions, segments, norm of their
        sum), then of each layer of the encoder, where it has such. Those above the last layer are in none, and with
        ``features=False`` those of features neither."""
        below, *layers = self.encoder.stages() or ((),)
        modules = (self.unary, self.features if features else None)
        words = [parameter for module in modules if module is not None for parameter in module.parameters()]
        return [[*words, *([] if self.start is None else [self.start]), *below], *map(list, layers)]

    def parameter_counts(self) -> dict[str, int]:
        """Number of parameters of the parts; ``deviations``: of all standard deviations, where weights are uncertain.
        These are not counted with the parts, whose numbers are those of the same network with certain weights."""
        deviations = {id(one.posterior.log_sd): one.posterior.log_sd.numel() for one in uncertain(self)}
        counts = {
            name: sum(p.numel() for p in part.parameters() if id(p) not in deviations)
            for name, part in self.named_children()
        }
        counts |= {"deviations": sum(deviations.values())} if deviations else {}
        return counts if self.start is None else counts | {"start": self.start.numel()}


def _exactly(kind: Kind | None, device: torch.device) -> AbstractContextManager[None]:
    """Moments are computed in float32 at least: differences of squares are many of them."""
    return nullcontext() if kind is None else torch.autocast(device.type, enabled=False)
