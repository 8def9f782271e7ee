"""How much a training does: updates and passes, by epochs or by steps."""

from __future__ import annotations

import numpy as np
import pytest

from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.training.plan import Plan


@pytest.mark.parametrize(
    ("overrides", "updates", "passes"),
    [
        ((), 40, 4.0),
        (("train.steps=15",), 15, 1.5),
        (("train.steps=500",), 40, 4.0),
        (("train.accumulate=4",), 12, 4.0),  # three updates a pass: of 4, 4 and 2 batches
        (("train.accumulate=4", "train.steps=2"), 2, 2 / 3),
    ],
)
def test_updates_and_passes_of_ten_batches(overrides: tuple[str, ...], updates: int, passes: float) -> None:
    recipe = load_recipe("quickstart", ["train.epochs=4", *overrides])
    plan = Plan(recipe, np.full(10, 5))
    assert plan.updates(10) == updates
    assert plan.passes(10) == pytest.approx(passes)
