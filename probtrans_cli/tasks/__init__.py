"""Tasks by name. ``build`` makes one from the ``task`` section of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.recipe import grids as grid_sections
from probtrans_cli.recipe import task as sections
from probtrans_cli.recipe.base import Table
from probtrans_cli.recipe.task import Parsing as ParsingSection
from probtrans_cli.recipe.task import SemanticParsing, TaskSection
from probtrans_cli.tasks.base import Splitter, Task
from probtrans_cli.tasks.classification import SentenceClassification
from probtrans_cli.tasks.lm import CausalLanguageModelling
from probtrans_cli.tasks.mlm import MaskedLanguageModelling, Pretraining
from probtrans_cli.tasks.parsing import Parsing
from probtrans_cli.tasks.semantic import SemanticLabels
from probtrans_cli.tasks.tagging import NamedEntities, WordTagging

__all__ = ["TASKS", "Task", "TaskKind", "build", "register"]


class TaskKind(NamedTuple):
    """A row of the tasks: its section of the recipe, which says what it needs, the task, and what few tasks have.

    Each may also be the place of an object, ``module:name``, to be imported when it is needed.
    """

    section: type[TaskSection]
    task: type[Task] | str
    """A class, made with the section, the vocabulary and the labels of the training file."""
    complete: Callable[..., dict[str, Split]] | str = lambda _, splits, **_required: splits
    """Adds columns that another model predicts: ``complete(model, splits, required=...) -> splits``. ``required``: for
    a training, where what is missing is an error; else it is told on stderr."""
    splitter: Callable[..., Splitter] | str | None = None
    """What splits sentences in front of another model: ``splitter(model, extractor, rescore=...)``."""
    baselines: Callable[..., dict[str, Any]] | str = lambda _task, _split: {}
    """Scores of rivals without learning, by names that begin with ``floor_``: ``baselines(task, split)``."""

    def load(self, name: str = "task") -> Any:
        value = getattr(self, name)
        return resolve_name(value) if isinstance(value, str) else value


TASKS: Table[TaskKind] = Table("task")  # the kinds of tasks, by the kind of `task`


def register(row: TaskKind) -> TaskKind:
    """Add a kind of task, to what `task` may hold and to the table."""
    TASKS.enter(sections.TASKS.name_of(row.section), row)
    return row


register(TaskKind(sections.MaskedLanguageModel, MaskedLanguageModelling))
register(TaskKind(sections.LanguageModel, CausalLanguageModelling))
register(TaskKind(sections.Tagging, WordTagging))
register(TaskKind(sections.EntityRecognition, NamedEntities))
register(TaskKind(sections.Classification, SentenceClassification))
register(TaskKind(SemanticParsing, SemanticLabels))
register(TaskKind(sections.Pretraining, Pretraining))
register(TaskKind(ParsingSection, Parsing))
register(
    TaskKind(
        grid_sections.OpenExtraction,
        "probtrans_cli.openie.tasks:TupleTask",
        complete="probtrans_cli.openie.output:with_content_words",
        baselines="probtrans_cli.openie.tasks:baselines",
    )
)
register(
    TaskKind(
        grid_sections.Coordinations,
        "probtrans_cli.openie.tasks:CoordinationTask",
        splitter="probtrans_cli.openie.splits:Splitter",
    )
)


def build(section: TaskSection, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> Task:
    """Make the task that a recipe's ``task`` section describes."""
    task: Task = TASKS[section.kind].load()(section, vocabulary, labels)
    return task
