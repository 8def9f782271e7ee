"""The recipe: everything that determines a run, as one validated tree of values. Imports no torch.

``Recipe`` is the schema; :mod:`probtrans_cli.recipe.source` reads YAML (with positions), applies ``KEY=VALUE``
overrides and turns every fault into one message. Derived values (``null`` = automatic) are filled in by
:meth:`Recipe.resolved`, after the overrides.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from probtrans_cli.recipe import grids as _grids  # noqa: F401 - it adds kinds of tasks
from probtrans_cli.recipe import semantic as _semantic  # noqa: F401 - and this one COGS
from probtrans_cli.recipe.base import NAME, InconsistentError, Section
from probtrans_cli.recipe.checks import inconsistencies
from probtrans_cli.recipe.data import FORMATS, VOCABULARIES, Data
from probtrans_cli.recipe.model import MODELS, ModelSection, ProbabilisticTransformer
from probtrans_cli.recipe.model.probabilistic import DECOMPOSITIONS
from probtrans_cli.recipe.model.transformer import POSITIONS
from probtrans_cli.recipe.task import TASKS, TaskSection
from probtrans_cli.recipe.training import SCHEDULES, Eval, Log, Optim, Predict, Runtime, Save, Train
from probtrans_cli.recipe.weights import WeightPredict


class Recipe(Section):
    """A complete run of probtrans."""

    version: Literal[1] = 1
    """Version of the recipe format."""
    name: Annotated[str, Field(pattern=NAME)]
    """Name of the run; its folder is `runs/NAME`."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Seed of initialisation, batches, masks and dropout."""
    data: Data
    """Corpora and vocabulary."""
    task: Annotated[TaskSection, TASKS]
    """What is learned: mlm | tagging | ner | classification | cogs | pretrain | openie | coordination."""
    model: Annotated[ModelSection, MODELS] = ProbabilisticTransformer()
    """The encoder: probabilistic | transformer | stacked."""
    optim: Optim = Optim()
    """Optimizer, schedule, regularisation."""
    train: Train = Train()
    """Length and batches of training."""
    eval: Eval = Eval()
    """Evaluation."""
    predict: Predict = Predict()
    """Probabilities of a trained model."""
    save: Save = Save()
    """Checkpoints."""
    log: Log = Log()
    """Reporting."""
    runtime: Runtime = Runtime()
    """Device, precision, threads."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if faults := inconsistencies(self):
            raise InconsistentError(faults)
        return self

    @property
    def uncertain_weights(self) -> WeightPredict | None:
        """How the uncertainty of the weights enters predictions; None = they are certain."""
        section = self.model.variational or self.optim.posterior
        return None if section is None else section.predict

    @property
    def uses_temperature(self) -> bool:
        """Whether scores are divided by the temperature that dev chose."""
        weights = self.uncertain_weights
        return self.predict.temperature or (weights is not None and weights.temperature)

    def certain(self) -> Recipe:
        """The same recipe with weights that are certain."""
        optim = self.optim.model_copy(update={"kind": "adamw"} if self.optim.posterior else {})
        return self.model_copy(update={"model": self.model.certain(), "optim": optim})

    def resolved(self) -> Recipe:
        """The same recipe with every automatic value (``null``) of the model filled in."""
        return self.model_copy(update={"model": self.model.resolved()})


for table in (VOCABULARIES, FORMATS, MODELS, DECOMPOSITIONS, POSITIONS, TASKS, SCHEDULES):
    table.used_in(Recipe)
