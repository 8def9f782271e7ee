"""Tasks that label a sentence several times, row after row of a grid: `openie` and `coordination`. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from probtrans_cli.recipe.base import (
    File,
    Inconsistency,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Section,
)
from probtrans_cli.recipe.data import NO_BLANK
from probtrans_cli.recipe.task import TASKS, Surroundings, TaskSection

Rows = Annotated[int, Field(ge=1, le=20)]


class Constraints(Section):
    """Weights of the penalties of OpenIE6 (Kolluru et al. 2020, section 3.2), which are added to the loss; 0 = none.
    Content words are nouns, names, verbs, adjectives and adverbs; head verbs are verbs but light ones such as "has"."""

    posc: NonNegativeFloat = 0.0
    """Every content word is in some row."""
    hvc: NonNegativeFloat = 0.0
    """Every head verb is in exactly one relation."""
    hve: NonNegativeFloat = 0.0
    """A relation has at most one head verb."""
    ec: NonNegativeFloat = 0.0
    """There are at least as many relations with a head verb as head verbs."""

    @property
    def used(self) -> dict[str, float]:
        """The penalties that are used, with their weights."""
        return {name: value for name, value in self if value > 0.0}


class GridSection(TaskSection):
    """What the tasks over grids share."""

    larger_is_better = True
    several_answers = True
    may_be_cut = False
    may_be_divided = False

    iterative_steps: PositiveInt = 2
    """The encoder is read once for each row: its last layers (of a probabilistic transformer, its last iterations), so
    many of them, go on from what they gave for the row before."""
    label_feedback: Literal["scores", "hidden", "both", "none"] = "scores"
    """What a row hears of the labels of the row before: scores: their vectors are added to the words' states where
    they are scored; hidden: to what the encoder reads on with, at words with a label (of a probabilistic transformer,
    one more unary factor); both; none."""
    label_source: Literal["predicted", "gold", "scheduled"] = "predicted"
    """Which labels these are in training: those that are predicted; gold: the right ones; scheduled: for each row the
    right ones with a probability that falls from 1 to 0 over the training."""
    merge_dim: PositiveInt | None = None
    """Width of the linear layer in front of the labels' scores; null = 300, or the encoder's width if that is less."""
    word_repr: Literal["first", "mean"] = "first"
    """What stands for a word of several pieces: its first, or their mean."""
    early_exit: bool = True
    """In `parse`, rows are no longer computed once every sentence of a batch has ended."""
    none_weight: Annotated[float, Field(gt=0.0)] = 1.0
    """Weight of words without a label in the loss; below 1, more words get one."""
    decision_bias: float | Literal["dev"] = "dev"
    """Added to the score of no label when labels are chosen; dev: the one of some that scores best on dev after the
    training, stored with the weights; until then -1."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""

    if TYPE_CHECKING:  # fields of each kind

        @property
        def rows(self) -> int:
            """The number of rows."""

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        steps, most = self.iterative_steps, recipe.model.iterations
        faults: list[Inconsistency] = []
        if steps > most:
            faults.append((("task", "iterative_steps"), f"found {steps}, but the model has {most} to repeat"))
        if 0 < recipe.data.rows < self.rows:
            reason = f"found {self.rows}, but data.grid.rows keeps {recipe.data.rows} of a sentence: set that, too"
            faults.append((("task", "rows"), reason))
        return faults


@TASKS.add
class OpenExtraction(GridSection):
    """Open information extraction: tuples (arg1; relation; arg2) of a sentence, one a row (OpenIE6)."""

    needs = "extractions"
    metric = "f1"

    kind: Literal["openie"]
    rows: Rows = 5
    """The most tuples of a sentence."""
    constraints: Constraints = Constraints()
    """Penalties of what a good set of tuples does not do."""
    constraint_start_epoch: NonNegativeInt = 0
    """The first epoch, from 0, in which these penalties count."""
    constraint_only: bool = False
    """Leave the cross entropy out once they count, as the code of OpenIE6 does."""
    tagger: File | None = None
    """A trained tagger of `upos` (a run folder, in the current folder or in $PROBTRANS_DATA) that says which words are
    content words and head verbs; null = the `upos` of JSON lines."""
    confidence: Literal["mean", "min", "product"] = "mean"
    """Of a tuple: the geometric mean of the probabilities of its words' labels, the smallest, or their product."""
    location_time: bool = True
    """Words that are labelled as a place or a time stand behind the others of the second argument; false = they are
    left out."""

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        faults = super().inconsistencies_with(recipe)
        if self.constraint_only and not self.constraints.used:
            faults.append((("task", "constraint_only"), "there are no `task.constraints`: leave it out"))
        return faults


@TASKS.add
class Coordinations(GridSection):
    """Coordinations such as "A, B and C": their conjuncts, one level of nesting a row (OpenIE6)."""

    needs = "coordinations"
    metric = "exact"

    kind: Literal["coordination"]
    rows: Rows = 3
    """The deepest level of nesting."""
    unbreakable: list[Annotated[str, Field(min_length=1, pattern=NO_BLANK)]] = Field(
        default=["addition", "aggregate", "amount", "among", "average", "between", "center", "equidistant", "gross",
                 "mean", "median", "middle", "sum", "total", "value"]
    )  # fmt: skip
    """Words before a coordination that need all of its conjuncts ("between A and B"), so that a sentence is not split
    there; small and capital letters are the same."""
    unbreakable_window: NonNegativeInt | None = None
    """So many words before a coordination are looked at for these; null = all behind the coordination before it, or
    behind the start of the sentence."""

    @property
    def splitting(self) -> dict[str, Any]:
        """The options of :func:`probtrans_cli.openie.coordinations.splitting`."""
        words = frozenset(word.lower() for word in self.unbreakable)
        return {"unbreakable": words, "unbreakable_window": self.unbreakable_window}
