"""What is computed once, when all is learned: what dev chooses, and the final scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.trained.evaluation import choose_on_dev, choose_reading, scores_trees, task_scores, tree_scores
from probtrans_cli.trained.model import Model


def final_scores(
    model: Model, dev: Split | None, tests: Mapping[Any, Split], loss: Tensor | None, pause: Callable[[], None]
) -> dict[str, Any]:
    """Choose on dev how trees are read, how answers are decided and a temperature, and score dev and the test sets.

    ``loss``: of the last update, which stands in where there is nothing to score; ``pause`` is called between two
    scores, and may end the training.
    """
    model.ranks.at("the final scores")
    if dev is not None and scores_trees(model, dev):
        model.reading = choose_reading(model, dev, model.recipe.eval)
    scores = choose_on_dev(model, dev)
    if dev is None and not tests and loss is not None:
        scores["train"] = {"loss": float(loss)}
    pause()
    for name, split in (("dev", dev), *tests.items()):
        if split is not None:
            scores[name] = dict(task_scores(model, split, final=True)) | model.task.floors(split)
            if scores_trees(model, split):
                scores[name] |= tree_scores(model, split, name, model.reading, baselines=True)
            pause()
    return scores
