"""Tasks by name. ``build`` makes one from the ``task`` section of a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from probtrans_cli.data.vocabularies.words import Vocabulary
from probtrans_cli.recipe import task as sections
from probtrans_cli.recipe.task import TaskSection
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
    """A class, made with the section, the vocabulary and the labels of the training file."""


TASKS: dict[str, TaskKind] = {
    "mlm": TaskKind(sections.MaskedLanguageModel, MaskedLanguageModelling),
    "tagging": TaskKind(sections.Tagging, WordTagging),
    "ner": TaskKind(sections.EntityRecognition, NamedEntities),
    "classification": TaskKind(sections.Classification, SentenceClassification),
    "cogs": TaskKind(sections.SemanticParsing, SemanticLabels),
    "pretrain": TaskKind(sections.Pretraining, Pretraining),
}
"""The kinds of tasks, by the kind of `task`."""


def register(row: TaskKind) -> None:
    """Add a kind of task: one row."""
    sections.TASKS.add(row.section)
    (name,) = get_args(row.section.model_fields["kind"].annotation)
    TASKS[name] = row


def build(section: TaskSection, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> Task:
    """The task that a recipe's ``task`` section describes."""
    task: Task = TASKS[section.kind].task(section, vocabulary, labels)
    return task
