"""Tasks by name. ``build`` makes one from the ``task`` section of a recipe."""

from __future__ import annotations

from probtrans_cli.data.vocabulary import Vocabulary
from probtrans_cli.recipe import MaskedLanguageModel, Tagging
from probtrans_cli.tasks.base import Task
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.tasks.tagging import WordTagging

__all__ = ["TASKS", "Task", "build"]

TASKS = {"mlm": MaskedLanguageModelling, "tagging": WordTagging}


def build(section: MaskedLanguageModel | Tagging, vocabulary: Vocabulary, labels: dict[str, list[str]]) -> Task:
    """The task that a recipe's ``task`` section describes."""
    if isinstance(section, MaskedLanguageModel):
        return MaskedLanguageModelling(section, vocabulary, labels)
    return WordTagging(section, vocabulary, labels)
