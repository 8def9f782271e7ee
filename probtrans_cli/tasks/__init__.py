"""Tasks by name. ``build`` makes one from the ``task`` section of a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple

from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.recipe import grids as grid_sections
from probtrans_cli.recipe import task as sections
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.task import SemanticParsing, TaskSection
from probtrans_cli.tasks.base import Task
from probtrans_cli.tasks.classification import SentenceClassification
from probtrans_cli.tasks.entities import NamedEntities
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.tasks.pretraining import Pretraining
from probtrans_cli.tasks.semantic import SemanticLabels
from probtrans_cli.tasks.tagging import WordTagging

__all__ = ["TASKS", "Task", "TaskKind", "build", "register"]


class TaskKind(NamedTuple):
    """A row of the tasks: its section of the recipe, which says what it needs, and the task."""

    section: type[TaskSection]
    task: Any
    """A class, made with the section, the vocabulary and the labels of the training file; or where it is,
    ``module:class``, to be imported when it is needed."""

    def load(self) -> type[Task]:
        """Return the class."""
        return resolve_name(self.task) if isinstance(self.task, str) else self.task  # type: ignore[no-any-return]


TASKS: Table[TaskKind] = Table("task")
"""The kinds of tasks, by the kind of `task`."""


def register(row: TaskKind) -> TaskKind:
    """Add a kind of task, to what `task` may hold and to the table.

    Raises:
        ValueError: there is another kind of this name.
    """
    TASKS.enter(sections.TASKS.name_of(row.section), row)
    return row


register(TaskKind(sections.MaskedLanguageModel, MaskedLanguageModelling))
register(TaskKind(sections.Tagging, WordTagging))
register(TaskKind(sections.EntityRecognition, NamedEntities))
register(TaskKind(sections.Classification, SentenceClassification))
register(TaskKind(SemanticParsing, SemanticLabels))
register(TaskKind(sections.Pretraining, Pretraining))
register(TaskKind(grid_sections.OpenExtraction, "probtrans_cli.openie.tasks:TupleTask"))
register(TaskKind(grid_sections.Coordinations, "probtrans_cli.openie.tasks:CoordinationTask"))


def build(section: TaskSection, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> Task:
    """The task that a recipe's ``task`` section describes."""
    return TASKS[section.kind].load()(section, vocabulary, labels)
