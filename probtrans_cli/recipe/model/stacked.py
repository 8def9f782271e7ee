"""The ``model`` section of kind `stacked`: one encoder upon another. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from probtrans_cli.recipe.base import MOST_NUMBERS, TOO_LARGE, AllBut, File, Fraction, Inconsistency
from probtrans_cli.recipe.data import VocabularySection
from probtrans_cli.recipe.model.base import MODELS, ModelSection
from probtrans_cli.recipe.model.probabilistic import DECOMPOSITIONS, ProbabilisticTransformer
from probtrans_cli.recipe.model.transformer import POSITIONS

PARTS = AllBut(MODELS, "stacked")
"""The kinds of encoders that a stack is made of."""
_AS_MODEL: dict[str, JsonValue] = {"x-as": "model"}  # the reference does not list their keys once more


@MODELS.add
class Stacked(ModelSection):
    """One encoder upon another: a matrix makes unary scores for the upper one of the lower one's representations of
    words, each at its first token. So a probabilistic transformer reads trees and latent labels from a pretrained one.
    Channels, iterations, root and latent labels are the upper one's."""

    kind: Literal["stacked"]
    lower: Annotated[ModelSection, PARTS] = Field(json_schema_extra=_AS_MODEL)
    """The encoder that reads the tokens, with keys as of `model`; of a transformer also `from`."""
    upper: Annotated[ModelSection, PARTS] = Field(default=ProbabilisticTransformer(), json_schema_extra=_AS_MODEL)
    """The encoder that reads the words, with keys as of `model`."""
    dropout: Fraction = 0.1
    """On the lower one's representations of words."""
    init_from: File | None = None
    """What the weights start with: a run folder or a checkpoint of the same two encoders, or of one that is the lower
    one, or for that a BERT folder of Hugging Face's; words are found by their spelling, and labels by their names where
    the output layer there is for the same. null = drawn at random."""

    @property
    def encoders(self) -> Mapping[str, ModelSection]:
        return {"lower": self.lower, "upper": self.upper}

    @property
    def segmented(self) -> tuple[str, ...]:
        return ("lower",)

    @property
    def shortest(self) -> tuple[str, ...]:
        return ("lower",) if self.lower.position_rows == self.position_rows else ("upper",)

    @property
    def channels(self) -> int:
        """The number of channels of the upper encoder."""
        return self.upper.channels

    @property
    def iterations(self) -> int:
        """The number of iterations of the upper encoder."""
        return self.upper.iterations

    @property
    def has_arcs(self) -> bool:  # type: ignore[override]
        """Whether the upper encoder tells the probability of every head."""
        return self.upper.has_arcs

    @property
    def has_latent_labels(self) -> bool:  # type: ignore[override]
        """Whether the upper encoder's representations are distributions over latent labels."""
        return self.upper.has_latent_labels

    @property
    def has_head_variables(self) -> bool:  # type: ignore[override]
        """Whether the arcs of the upper encoder are of head variables."""
        return self.upper.has_head_variables

    @property
    def has_ternary_scores(self) -> bool:  # type: ignore[override]
        """Whether one of the two has something that `optim.ternary_penalty` penalises."""
        return self.lower.has_ternary_scores or self.upper.has_ternary_scores

    @property
    def has_root(self) -> bool:
        return self.upper.has_root

    @property
    def has_pooler(self) -> bool:
        return self.upper.has_pooler

    @property
    def counts_words(self) -> bool:
        return self.lower.counts_words or self.upper.counts_words

    @property
    def order_cues(self) -> int:
        return max(self.lower.order_cues, self.upper.order_cues)

    @property
    def drops(self) -> bool:
        return self.dropout > 0.0 or self.lower.drops or self.upper.drops

    @property
    def separate_layers(self) -> int:
        """Those of the lower encoder; without layers of its own it is one."""
        return self.lower.separate_layers or 1

    @property
    def segment_types(self) -> int | None:
        return self.lower.segment_types

    @property
    def position_rows(self) -> int | None:
        """The least of both: a sentence may have as many words as tokens."""
        rows = [part.position_rows for part in self.encoders.values() if part.position_rows is not None]
        return min(rows, default=None)

    @property
    def state_width(self) -> int | None:
        return self.upper.state_width

    @property
    def unary_width(self) -> int | None:
        return self.lower.unary_width

    @property
    def refuses_unknown_tensors(self) -> bool:
        return self.lower.refuses_unknown_tensors

    def part_for(self, other: ModelSection) -> str | None:
        """The lower encoder, where the other is no stack."""
        return None if other.kind == self.kind else "lower"

    def describe(self) -> str:
        """For people, a sentence."""
        return f"One encoder upon another. Below: {self.lower.describe()} Above: {self.upper.describe()}"

    def resolved(self) -> Stacked:
        """The same section with every automatic value (``null``) of both encoders filled in."""
        return self.model_copy(update={name: part.resolved() for name, part in self.encoders.items()})

    def inconsistencies(self) -> list[Inconsistency]:
        """Values of the section that do not go together: each key's path with the reason."""
        faults = [
            ((name, *path), reason) for name, part in self.encoders.items() for path, reason in part.inconsistencies()
        ]
        faults += [
            ((name, key.rstrip("_")), reason)
            for (name, key), reason in self._without_meaning().items()
            if getattr(self.encoders[name], key, None)
        ]
        numbers = (self.lower.state_width or 0) * (self.upper.state_width or 0)
        if numbers > MOST_NUMBERS:
            faults.append((("upper",), TOO_LARGE.format(numbers)))
        return faults

    @staticmethod
    def _without_meaning() -> dict[tuple[str, str], str]:
        """Keys of the two encoders that have no meaning here, with what to do."""
        elsewhere = "the weights of both start with model.init_from: leave this out"
        certain = "the weights of a stacked model have no rule for this: leave it out, or set optim.kind=ivon"
        no_words = "the upper encoder has no vectors of words: leave this out"
        return {
            ("lower", "init_from"): elsewhere,
            ("upper", "init_from"): elsewhere,
            ("lower", "bayes"): certain,
            ("upper", "bayes"): certain,
            ("lower", "pooler"): "nothing would read it: set this to false",
            ("upper", "from_"): no_words,
            ("upper", "word_std"): no_words,
            ("upper", "segments"): "the lower encoder reads segments: set this to 0",
        }

    def inconsistencies_with(self, vocabulary: VocabularySection) -> list[Inconsistency]:
        parts = self.encoders.items()
        return [((name, *path), why) for name, part in parts for path, why in part.inconsistencies_with(vocabulary)]


MODELS.used_in(Stacked)
DECOMPOSITIONS.used_in(Stacked)
POSITIONS.used_in(Stacked)
