"""Tasks by name. ``build`` makes one from the ``task`` section of a recipe."""

from __future__ import annotations

from typing import Any

from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.recipe.task import Task as TaskSection
from probtrans_cli.tasks.base import Task
from probtrans_cli.tasks.classification import SentenceClassification
from probtrans_cli.tasks.entities import NamedEntities
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.tasks.pretraining import Pretraining
from probtrans_cli.tasks.semantic import SemanticLabels
from probtrans_cli.tasks.tagging import WordTagging

__all__ = ["TASKS", "Task", "build"]

TASKS: dict[str, Any] = {
    "mlm": MaskedLanguageModelling,
    "tagging": WordTagging,
    "ner": NamedEntities,
    "classification": SentenceClassification,
    "cogs": SemanticLabels,
    "pretrain": Pretraining,
}


def build(section: TaskSection, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> Task:
    """The task that a recipe's ``task`` section describes."""
    task: Task = TASKS[section.kind](section, vocabulary, labels)
    return task
