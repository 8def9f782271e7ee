"""What every ``model`` section says of itself, whatever its kind. Imports no torch.

Encoders have channels and iterations of arcs, whatever these are called: a transformer's are its attention heads and
layers. All else in the package asks these properties, and never which kind a section is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

from probtrans_cli.recipe.base import Inconsistency, Kinds, KindSection

if TYPE_CHECKING:
    from probtrans_cli.recipe.data import VocabularySection
from probtrans_cli.recipe.weights import Bayes


class ModelSection(KindSection):
    """The options of an encoder. A kind has a field ``kind`` with one value, and fields or properties for the rest."""

    if TYPE_CHECKING:  # fields or properties of each kind; pydantic is not to see them here

        @property
        def init_from(self) -> str | None:
            """What the weights start with."""

        @property
        def channels(self) -> int:
            """The number of channels of arcs."""

        @property
        def iterations(self) -> int:
            """The number of iterations of arcs."""

    has_arcs: ClassVar[bool] = True
    """Whether its encoder tells the probability of every head, so that trees can be read from it."""
    has_latent_labels: ClassVar[bool] = False
    """Whether a word's representation is a distribution over latent labels."""
    has_head_variables: ClassVar[bool] = False
    """Whether arcs are distributions of head variables, each of which stands for something that is not known."""
    has_ternary_scores: ClassVar[bool] = False
    """Whether `optim.ternary_penalty` has something to penalise."""
    has_bert_output: ClassVar[bool] = False
    """Whether `task.output: bert` can stand behind it."""

    @property
    def has_root(self) -> bool:
        """Whether there is a root node, which represents the sentence."""
        return False

    @property
    def has_pooler(self) -> bool:
        """Whether a layer of its own makes the sentence's representation of the first word's."""
        return False

    @property
    def encoders(self) -> Mapping[str, ModelSection]:
        """The sections of the encoders that it is made of, by their keys; empty where it is one itself."""
        return MappingProxyType({})

    @property
    def segmented(self) -> tuple[str, ...]:
        """The path, within the section, of the encoder that reads segments."""
        return ()

    @property
    def shortest(self) -> tuple[str, ...]:
        """The path, within the section, of the encoder that has no more than `position_rows`."""
        return ()

    @property
    def counts_words(self) -> bool:
        """Whether it asks how often words occur in the training file."""
        return False

    @property
    def order_cues(self) -> int:
        """How many columns it asks of what the order of words in the training file tells of each: 0; 2, z and R of
        :mod:`probtrans_cli.statistics.word_order`; 6, these, Λ, D, e and 1 for punctuation, of
        :mod:`probtrans_cli.models.probabilistic.head_bias`; or 8, these, N and 1 for a rare word."""
        return 0

    @property
    def drops(self) -> bool:
        """Whether training drops values: a field of the section whose name ends in `dropout` is more than 0."""
        return any(getattr(self, name) for name in type(self).model_fields if name.endswith("dropout"))

    @property
    def separate_layers(self) -> int:
        """The number of layers with weights of their own, one upon the other; 0 = there are no such."""
        return 0

    @property
    def segment_types(self) -> int | None:
        """The number of segment types that it tells apart, 0 = it could, but does not; None: it reads no segments."""
        return None

    @property
    def position_rows(self) -> int | None:
        """The number of positions that it has vectors for; None = sentences of any length."""
        return None

    @property
    def state_width(self) -> int | None:
        """The size of a word's representation; None = it does not say."""
        return None

    @property
    def unary_width(self) -> int | None:
        """The size of a word's unary scores; None = it does not say."""
        return self.state_width

    @property
    def variational(self) -> Bayes | None:
        """How its weights are distributed; None = they are plain."""
        return None

    def certain(self) -> Self:
        """The same section with weights that are certain."""
        return self

    @property
    def without_moments(self) -> list[str]:
        """The options for which means and variances cannot go through the model, as the recipe has them."""
        return [f"`model.kind: {self.kind}`"]

    @property
    def refuses_unknown_tensors(self) -> bool:
        """Whether a foreign folder of weights with unknown tensors is refused."""
        return False

    def part_for(self, other: ModelSection) -> str | None:
        """The key in `encoders` of the encoder that weights of another section's model are for; None = they are for the
        whole."""
        del other
        return None

    def describe(self) -> str:
        """For people, a sentence."""
        return f"An encoder of kind {self.kind}."

    def resolved(self) -> Self:
        """The same section with every automatic value (``null``) filled in."""
        return self

    def inconsistencies(self) -> list[Inconsistency]:
        """Values of the section that do not go together: each key's path within the section, with the reason."""
        return []

    def inconsistencies_with(self, vocabulary: VocabularySection) -> list[Inconsistency]:
        """Check the section against the vocabulary: each wrong key's path within the section, with the reason."""
        del vocabulary
        return []


MODELS: Kinds[ModelSection] = Kinds("model")
"""The kinds of `model`."""
