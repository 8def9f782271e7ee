"""A task from outside with two parts: every word has two columns of tags, the universal and the treebank's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from probtrans_cli import tasks
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.recipe.task import Tagging, TaskSection
from probtrans_cli.tasks.base import Answers
from probtrans_cli.tasks.parts import Part, Parts
from probtrans_cli.tasks.tagging import WordTagging

COLUMNS = ("upos", "xpos")


class TwoTags(TaskSection):
    """Two columns of tags for each word."""

    needs, metric = "tags", "upos"

    kind: Literal["two_tags"]

    @property
    def learned(self) -> tuple[str, ...]:
        return COLUMNS


class TwoTagsTask(Parts):
    """Each column is a task `tagging`; half of the loss is each one's."""

    answers = Answers(kind="two_tags")

    def __init__(self, section: TwoTags, vocabulary: Vocabulary, labels: dict[str, Sequence[str]]) -> None:
        parts = {
            column: Part(
                WordTagging(Tagging(kind="tagging", column=column), vocabulary, labels),
                weight=0.5,
                scores={"accuracy": column},
                answers={"tags": column, "tag_probability": f"{column}_probability"},
            )
            for column in COLUMNS
        }
        super().__init__(section, vocabulary, labels, parts)


tasks.register(tasks.TaskKind(TwoTags, TwoTagsTask))
