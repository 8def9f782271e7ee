"""The ``model`` section of kind `stacked`: one encoder upon another. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from probtrans_cli.recipe.base import AllBut, File, Fraction, Inconsistency, below, too_large
from probtrans_cli.recipe.data import VocabularySection
from probtrans_cli.recipe.model.base import MODELS, Facts, ModelSection
from probtrans_cli.recipe.model.probabilistic import DECOMPOSITIONS, FACTORS, ProbabilisticTransformer
from probtrans_cli.recipe.model.transformer import POSITIONS

PARTS = AllBut(MODELS, "stacked")
"""The kinds of encoders that a stack is made of."""
_AS_MODEL: dict[str, JsonValue] = {"x-as": "model"}  # the reference does not list their keys once more


@MODELS.add
class Stacked(ModelSection):
    """One encoder upon another. A matrix turns the lower encoder's representation of each word (at its first token)
    into unary scores for the upper one, so that a probabilistic transformer finds trees and latent labels in what a
    pretrained encoder says. Channels, iterations, root and latent labels are the upper encoder's."""

    kind: Literal["stacked"]
    lower: Annotated[ModelSection, PARTS] = Field(json_schema_extra=_AS_MODEL)
    """The encoder that reads the tokens. Its keys are those of `model`; a transformer may have `from`."""
    upper: Annotated[ModelSection, PARTS] = Field(default=ProbabilisticTransformer(), json_schema_extra=_AS_MODEL)
    """The encoder that reads the words. Its keys are those of `model`."""
    dropout: Fraction = 0.1
    """Dropout on the lower encoder's representations of words."""
    init_from: File | None = None
    """Start from these weights: a run folder or checkpoint of the same two encoders or of the lower one alone, or a
    Hugging Face BERT folder for the lower one. Words are matched by their spelling, and labels by their names where the
    output layers are of the same task. null = random weights."""

    @property
    def channels(self) -> int:
        return self.upper.channels

    @property
    def iterations(self) -> int:
        return self.upper.iterations

    @property
    def facts(self) -> Facts:
        """Arcs, root and latent labels are the upper encoder's; tokens, segments and layers the lower one's."""
        lower, upper = self.lower.facts, self.upper.facts
        rows = [part.position_rows for part in (lower, upper) if part.position_rows is not None]
        untraceable = None
        for name, part in (("upper", upper), ("lower", lower)):
            if part.untraceable is not None:
                option, instead = part.untraceable
                untraceable = f"{name}.{option}", f"{name}.{instead}"
        return replace(
            upper,
            has_ternary_scores=lower.has_ternary_scores or upper.has_ternary_scores,
            has_bert_output=False,
            counts_words=lower.counts_words or upper.counts_words,
            order_cues=max(lower.order_cues, upper.order_cues),
            separate_layers=lower.separate_layers or 1,
            segment_types=lower.segment_types,
            position_rows=min(rows, default=None),
            in_width=lower.unary_width,
            reads_first=True,
            untraceable=untraceable,
            growth=None,
            variational=None,
            without_moments=(f"`model.kind: {self.kind}`",),
            refuses_unknown_tensors=lower.refuses_unknown_tensors,
            encoders={"lower": self.lower, "upper": self.upper},
            shortest=("lower",) if lower.position_rows == min(rows, default=None) else ("upper",),
        )

    def describe(self) -> str:
        return f"One encoder upon another. Below: {self.lower.describe()} Above: {self.upper.describe()}"

    def resolved(self) -> Stacked:
        return self.model_copy(update={"lower": self.lower.resolved(), "upper": self.upper.resolved()})

    def inconsistencies(self) -> Iterator[Inconsistency]:
        elsewhere = "the weights of both start with model.init_from: leave this out"
        certain = "the weights of a stacked model have no rule for this: leave it out, or set optim.kind=ivon"
        no_words = "the upper encoder has no vectors of words: leave this out"
        without_meaning = {
            ("lower", "init_from"): elsewhere,
            ("upper", "init_from"): elsewhere,
            ("lower", "bayes"): certain,
            ("upper", "bayes"): certain,
            ("lower", "pooler"): "nothing would read it: set this to false",
            ("upper", "from_"): no_words,
            ("upper", "word_std"): no_words,
            ("lower", "causal"): "a causal model stands alone: leave this out",
            ("upper", "causal"): "a causal model stands alone: leave this out",
            ("lower", "base_width"): "there are no factors for a stack: leave this out",
            ("upper", "base_width"): "there are no factors for a stack: leave this out",
            ("upper", "segments"): "the lower encoder reads segments: set this to 0",
        }
        parts = self.facts.encoders
        for name, part in parts.items():
            yield from below((name,), part.inconsistencies())
        for (name, key), reason in without_meaning.items():
            if getattr(parts[name], key, None):
                yield (name, key.rstrip("_")), reason
        yield from too_large(("upper",), self.lower.facts.width * self.upper.facts.unary_width)

    def inconsistencies_with(self, vocabulary: VocabularySection) -> Iterator[Inconsistency]:
        for name, part in self.facts.encoders.items():
            yield from below((name,), part.inconsistencies_with(vocabulary))


MODELS.used_in(Stacked)
DECOMPOSITIONS.used_in(Stacked)
FACTORS.used_in(Stacked)
POSITIONS.used_in(Stacked)
