"""`train --sweep`: a run for each point of a grid of settings. `train --check-width`: the coordinate check."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.commands.bulk import share_of
from probtrans_cli.commands.fetch import fetch_missing
from probtrans_cli.commands.train import TrainRequest, folder_of, train
from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.data.files import require_output
from probtrans_cli.data.processes import ALONE
from probtrans_cli.errors import NotFiniteError, UsageError
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import get_ready, load_recipe
from probtrans_cli.recipe.training import ConstantSchedule
from probtrans_cli.recipe.yaml import read_tree
from probtrans_cli.reports.sweeps import coordinate_picture, exponents
from probtrans_cli.text import printable

WIDTH = "width"
"""The axis of a sweep that is no key: the width of the encoder, and all else that grows with it."""
UPDATES = 10  # of the coordinate check
LONGEST = 40  # characters of a value in the name of a folder


@dataclass(frozen=True)
class Grid:
    """The settings of a sweep: by key, the values that it has in turn."""

    axes: dict[str, list[Any]]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Grid:
        """Read ``KEY=[VALUE, ...]``, one text an axis."""
        axes: dict[str, list[Any]] = {}
        for text in texts:
            key, equals, values = text.partition("=")
            content = read_tree(values, text).content
            hint = "write --sweep KEY=[VALUE, VALUE], for example --sweep 'optim.lr=[1e-3, 3e-3]'"
            if not equals or not isinstance(content, list) or not content:
                raise UsageError(f"--sweep {printable(text, 200)!r} is not a key with a list of values", hint=hint)
            if key in axes:
                raise UsageError(
                    f"--sweep names {printable(key, 200)} twice", hint="write all of its values in one list"
                )
            if len({_name(value) for value in content}) < len(content):
                raise UsageError(f"--sweep {printable(text, 200)!r} has a value twice, or values with one name")
            axes[key] = content
        if any(not isinstance(value, int) or isinstance(value, bool) or value < 1 for value in axes.get(WIDTH, [])):
            raise UsageError("--sweep width: widths are whole numbers", hint="write --sweep 'width=[64, 128]'")
        return cls(axes)

    def points(self, number: int | None, seed: int) -> list[dict[str, Any]]:
        """Return the settings of every point, or of a ``number`` of them, drawn by ``seed``, in their order."""
        points = [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]
        if number is None or number >= len(points):
            return points
        drawn = random.Random(seed).sample(range(len(points)), number)  # noqa: S311 - it hides nothing
        return [points[index] for index in sorted(drawn)]


def sweep(request: TrainRequest, axes: Sequence[str], *, shard: str | None, number: int | None) -> dict[str, Any]:
    """Train a run for each point of a grid, one after the other, and return their scores.

    Args:
        request: of each run; ``run`` is what their folders begin with.
        axes: ``KEY=[VALUE, ...]`` each; ``width`` stands for the width and all sizes that grow with it.
        shard: ``I/N``, to train this share of the points only.
        number: of points, drawn at random; None: all of them.
    """
    if "RANK" in os.environ:
        raise UsageError("a sweep is not for the processes of one training", hint="give each process group a --shard")
    grid, (first, of) = Grid.of(axes), share_of(shard)
    recipe = _recipe(request)
    folder = folder_of(request, recipe)
    points = grid.points(number, recipe.seed)
    results: list[dict[str, Any]] = []
    runs = []
    for settings in points:
        name = "-".join([folder.name, *(f"{key.rpartition('.')[2]}={_name(value)}" for key, value in settings.items())])
        overrides = [*request.overrides]
        overrides += [f"{key}={json.dumps(value)}" for key, value in settings.items() if key != WIDTH]
        if WIDTH in settings:
            model = load_recipe(request.recipe, overrides).model
            both = (part.model_dump(mode="json", by_alias=True) for part in (model, model.widened(settings[WIDTH])))
            grown = list(_differences("model", *both))
            for key in (text.partition("=")[0] for text in grown):
                if key in settings:
                    message = f"--sweep names width and {key}, which grows with the width"
                    raise UsageError(message, hint="leave one of them out")
            overrides += grown
        load_recipe(request.recipe, overrides)  # a fault of the last point is told before the first is trained
        runs.append(replace(request, overrides=overrides, run=folder.with_name(name)))
    for place, settings in list(enumerate(points, start=1))[first - 1 :: of]:
        console.log(f"point {place} of {len(points)}: {', '.join(f'{key}={_name(settings[key])}' for key in settings)}")
        try:
            result: dict[str, Any] = train(runs[place - 1])
        except NotFiniteError as error:  # what a rate that is too high comes to is a result, too
            console.log(f"not finite: {error.message}")
            result = {"failed": error.message}
        results.append({"settings": settings, "run": str(runs[place - 1].run), **result})
    return {"name": recipe.name, "metric": recipe.task.metric, "grid": grid.axes, "points": results}


def _differences(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _differences(f"{path}.{key}", before[key], after[key])
    elif before != after:
        yield f"{path}={json.dumps(after)}"


def _name(value: Any) -> str:
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)
    return re.sub(r"[^A-Za-z0-9.+_-]+", "_", text)[:LONGEST]


def _recipe(request: TrainRequest) -> Recipe:
    if request.recipe == "-":
        raise UsageError("a recipe that is read several times cannot come from stdin", hint="give a file")
    return load_recipe(request.recipe, request.overrides)


# --- the coordinate check ---------------------------------------------------------------------------------------------


def check_width(request: TrainRequest, widths: str, picture: Path | None = None) -> dict[str, Any]:
    """Train the first updates at several widths, at the full rate, and return how the model's numbers grow with it.

    Args:
        request: of a dry run, which writes no run.
        widths: such as ``64,128,256``, at least two.
        picture: a file for the same as SVG; None: none.
    """
    parts = [part.strip() for part in widths.split(",")]
    if len(parts) < 2 or len({*parts}) < len(parts) or not all(re.fullmatch("[1-9][0-9]{0,5}", part) for part in parts):
        hint = "write --check-width 64,128,256: two or more"
        raise UsageError(f"--check-width {printable(widths, 200)!r} is not a list of widths", hint=hint)
    require_output(picture, "--picture")
    ascending = sorted(map(int, parts))
    from probtrans_cli.training.loop import Trainer  # noqa: PLC0415

    get_ready()
    fetch_missing(request.recipe, request.overrides, ask=not request.fetch)
    recipe = _recipe(request)
    steady = recipe.optim.model_copy(update={"schedule": ConstantSchedule(kind="constant")})
    recipes = [
        recipe.model_copy(update={"model": recipe.model.widened(width), "optim": steady}).resolved()
        for width in ascending
    ]
    # The file is opened first: whether it can be written is not learned minutes later.
    with nullcontext() if picture is None else atomic.output_of(picture, "--picture") as file:
        prepared, sizes = prepare(recipe), []
        for width, wide in zip(ascending, recipes, strict=True):
            console.log(f"width {width}: {UPDATES} updates")
            with TemporaryDirectory() as folder:
                sizes.append(Trainer(wide, prepared, Path(folder), resume=False, ranks=ALONE).coordinates(UPDATES))
        activations = exponents(ascending, sizes)
        result = {"name": recipe.name, "updates": UPDATES, "widths": ascending, "activations": activations}
        if file is not None:
            file.write(coordinate_picture(result))
    return result
