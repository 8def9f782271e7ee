"""Tasks that label a sentence several times, row after row of a grid: `openie` and `coordination`. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from probtrans_cli.recipe.base import File, Inconsistency, NonNegativeFloat, NonNegativeInt, PositiveInt, Section
from probtrans_cli.recipe.data import NO_BLANK
from probtrans_cli.recipe.task import TASKS, Surroundings, TaskSection

Rows = Annotated[int, Field(ge=1, le=20)]


class Constraints(Section):
    """Weights of OpenIE6's penalties in the loss (Kolluru et al. 2020, section 3.2); 0 = none. Content words are nouns,
    names, verbs, adjectives and adverbs; head verbs are all verbs but light ones such as "has"."""

    posc: NonNegativeFloat = 0.0
    """Penalty if a content word is in no row."""
    hvc: NonNegativeFloat = 0.0
    """Penalty if a head verb is not in exactly one relation."""
    hve: NonNegativeFloat = 0.0
    """Penalty if a relation has several head verbs."""
    ec: NonNegativeFloat = 0.0
    """Penalty if there are fewer relations with a head verb than head verbs."""

    @property
    def used(self) -> dict[str, float]:
        """The weights above 0."""
        return {name: value for name, value in self if value > 0.0}


class GridSection(TaskSection):
    """What the tasks over grids share."""

    shown_by = "-f text"
    answers_lines = True
    several_answers = True
    may_be_cut = False
    may_be_divided = False

    rows: Rows
    """The number of rows."""
    iterative_steps: PositiveInt = 2
    """The encoder runs once for each row: this many of its last layers (iterations) continue from their output for the
    row before."""
    label_feedback: Literal["scores", "hidden", "both", "none"] = "scores"
    """Where the labels of the row before are fed in. scores: their vectors are added to the words' states before
    scoring; hidden: to the input of the next run of the encoder (one more unary factor of a probabilistic transformer);
    both; none."""
    label_source: Literal["predicted", "gold", "scheduled"] = "predicted"
    """Which labels are fed in during training: predicted; gold; or scheduled: gold with a probability that falls from 1
    to 0 over the training, for each row."""
    merge_dim: PositiveInt | None = None
    """Width of the linear layer before the label scores; null = 300, or the encoder's width if smaller."""
    word_repr: Literal["first", "mean"] = "first"
    """The representation of a word of several pieces: its first piece, or their mean."""
    early_exit: bool = True
    """`parse` stops computing rows once every sentence of a batch is complete."""
    none_weight: Annotated[float, Field(gt=0.0)] = 1.0
    """Weight of words without a label in the loss; below 1, more words get a label."""
    decision_bias: float | Literal["dev"] = "dev"
    """Added to the score of "no label" when labels are chosen. dev: the value that scores best on dev after the
    training, stored with the weights; until then -1."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        steps, most = self.iterative_steps, recipe.model.iterations
        if steps > most:
            yield ("task", "iterative_steps"), f"found {steps}, but the model has {most} to repeat"
        if 0 < recipe.data.rows < self.rows:
            reason = f"found {self.rows}, but data.grid.rows keeps {recipe.data.rows} of a sentence: set that, too"
            yield ("task", "rows"), reason


@TASKS.add
class OpenExtraction(GridSection):
    """Open information extraction: tuples (arg1; relation; arg2) of a sentence, one a row (OpenIE6)."""

    needs = "extractions"
    metric = "f1"

    kind: Literal["openie"]
    rows: Rows = 5
    """Most tuples of a sentence."""
    constraints: Constraints = Constraints()
    """Penalties for poor sets of tuples."""
    constraint_start_epoch: NonNegativeInt = 0
    """The first epoch, from 0, in which the penalties count."""
    constraint_only: bool = False
    """Drop the cross entropy once the penalties count, as the code of OpenIE6 does."""
    tagger: File | None = None
    """Run folder of a trained `upos` tagger, in the current folder or in $PROBTRANS_DATA, which finds content words and
    head verbs; null = the `upos` of JSON lines."""
    confidence: Literal["mean", "min", "product"] = "mean"
    """Confidence of a tuple: the geometric mean, the smallest, or the product of the probabilities of its words'
    labels."""
    location_time: bool = True
    """true: words labelled as a place or a time stand at the end of the second argument; false: they are left out."""

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        yield from super().inconsistencies_with(recipe)
        if self.constraint_only and not self.constraints.used:
            yield ("task", "constraint_only"), "there are no `task.constraints`: leave it out"


@TASKS.add
class Coordinations(GridSection):
    """Coordinations such as "A, B and C": their conjuncts, one level of nesting a row (OpenIE6)."""

    needs = "coordinations"
    metric = "exact"

    kind: Literal["coordination"]
    rows: Rows = 3
    """Most levels of nesting."""
    unbreakable: list[Annotated[str, Field(min_length=1, pattern=NO_BLANK)]] = Field(
        default=["addition", "aggregate", "amount", "among", "average", "between", "center", "equidistant", "gross",
                 "mean", "median", "middle", "sum", "total", "value"]
    )  # fmt: skip
    """Words before a coordination that need all of its conjuncts ("between A and B"), so that the sentence is not split
    there; case does not matter."""
    unbreakable_window: NonNegativeInt | None = None
    """How many words before a coordination are searched for these; null = all since the previous coordination."""

    @property
    def splitting(self) -> dict[str, Any]:
        """The options of :func:`probtrans_cli.openie.coordinations.splitting`."""
        words = frozenset(word.lower() for word in self.unbreakable)
        return {"unbreakable": words, "unbreakable_window": self.unbreakable_window}
