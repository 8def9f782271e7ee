"""The folder of a graph: the graph, vocabulary and labels, an example that runs it, and what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from probtrans_cli import atomic, console
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import UsageError, unwritten
from probtrans_cli.export import ExportOptions
from probtrans_cli.export.answers import Answers
from probtrans_cli.export.compared import compared
from probtrans_cli.export.difference import (
    DRAWS,
    MOST,
    SENTENCES,
    WORDS,
    Run,
    largest_difference,
    largest_rounded,
    largest_rounding,
    rounded,
    words_per_second,
)
from probtrans_cli.export.example import EXAMPLE, described, example_files, one_token_a_word
from probtrans_cli.export.graph import MAIN, SHAPES, Asked, Graph, Plan, axes_of, traced
from probtrans_cli.export.measure import change_of_score, source_of
from probtrans_cli.tasks.batch import collate
from probtrans_cli.trained.card import as_json
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictions import Reader
from probtrans_cli.trained.predictor import temperature_of

PAIR = "pair"
INT8 = "int8"


@dataclass(frozen=True)
class GraphFormat:
    """A format of graphs: its ``name`` and ``file``; ``save`` writes a traced graph, ``opened`` gives what runs it;
    ``runner``: what that is called; ``quantise`` makes the products of a written file those of 8-bit integers."""

    name: str
    file: str
    runner: str
    save: Callable[[Graph, ExportedProgram, Path], None]
    opened: Callable[[Path], Run]
    quantise: Callable[[Path], None] | None = None


def write_graph(model: Model, out: Path, options: ExportOptions, form: GraphFormat) -> dict[str, Any]:
    """Write the folder of a graph, and return the report.

    Raises:
        UsageError: the model has no graph, has no arcs, or the folder cannot be written.
    """
    # Graphs are traced and measured on a CPU, in float32.
    network = model.network.cpu()
    model.machine.device, model.machine.bfloat16 = torch.device("cpu"), False
    graph = Graph(network, plan_of(model, arcs=options.arcs))
    if options.dtype not in ("float32", INT8):
        graph.weights_as(getattr(torch, options.dtype))
    program = traced(graph, form.name)
    try:
        with atomic.adding_folder(out.absolute()) as folder:
            form.save(graph, program, folder / form.file)
            if options.dtype == INT8:
                assert form.quantise is not None, "the table of formats says which have it"
                form.quantise(folder / form.file)
            run = form.opened(folder / form.file)
            largest = largest_difference(network, graph.plan, run)
            rounding = None
            if options.dtype == "float32" and largest.relative > MOST:
                rounding = largest_rounding(network, graph.plan).relative
                _tell_of(largest.relative, rounding)
            report = _described(model, graph, options, form) | {
                "largest_difference": largest.absolute,
                "largest_relative_difference": largest.relative,
                **({} if rounding is None else {"largest_relative_rounding": rounding}),
                "measured_over": f"random sentences of 1 to {min(WORDS, network.longest or WORDS)} tokens, "
                f"in batches of 1 to {SENTENCES}: the 4 corners and {DRAWS} more batches",
                "words_per_second": words_per_second(network, graph.plan, {form.runner: run}),
                "threads": torch.get_num_threads(),
            }
            report |= change_of_score(model, Asked(graph.plan, run), options)
            of_pruning = options.about.get("largest_difference", 0.0)
            report |= {**options.about, "largest_difference": max(of_pruning, report["largest_difference"])}
            report["bytes"] = sum(path.stat().st_size for path in folder.iterdir())
            write_beside(model, form.name, folder)
            report |= _compared(model, folder, run, report, exact=options.dtype == "float32")
            (folder / "EXPORT.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritten(str(out), error, UsageError, hint="choose another OUT folder") from None
    return report


def write_beside(model: Model, form: str, folder: Path) -> None:
    """Write the files beside a graph: vocabulary, labels, the example and what it imports; not `EXPORT.json`."""
    files = {**model.vocabulary_files, **example_files(model, form), "labels.json": _labels(model)}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _compared(model: Model, folder: Path, run: Run, report: dict[str, Any], *, exact: bool) -> dict[str, Any]:
    """``compared``: of how many texts the example says what the model says; nothing where there is no example."""
    if not (folder / EXAMPLE).exists():
        return {}

    def of_arrays(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = run({name: torch.from_numpy(values) for name, values in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    number, same = compared(model, Answers(folder, of_arrays, report))
    if exact and same < number:
        console.log(f"warning: the example says of {number - same} of {number} texts something else than the model")
    return {"compared": {"texts": number, "same": same}}


def _tell_of(difference: float, rounding: float) -> None:
    """Tell of a large relative difference; of one that the model's own rounding explains, that it does."""
    what = f"an output of the graph differs from the model's by {difference:.2g} of its value"
    if rounded(difference, rounding):
        console.log(f"{what}; the model itself in float32 differs from itself in float64 by {rounding:.2g}")
    else:
        console.log(f"warning: {what}, more than the rounding of float32 ({largest_rounded(rounding):.1g})")


def plan_of(model: Model, *, arcs: bool) -> Plan:
    """What the graph of a model takes and gives.

    Raises:
        UsageError: arcs are asked for, and the model has none.
    """
    if arcs and not model.recipe.model.facts.has_arcs:
        raise UsageError(f"--arcs: a model of kind {model.recipe.model.kind} has no arcs", hint="leave it out")
    last, read = model.recipe.model.iterations, model.reading.iteration
    iteration = (last if read == -1 else read) if arcs else None
    split = Reader.of(model, [Sentence(["a"])]).split
    batch = collate(split, np.zeros(1, np.int64), padding=model.vocabulary.PAD, device=model.machine.device)
    return Plan.of(model.network, model.task.wants(batch), divides=model.vocabulary.divides, iteration=iteration)


def _described(model: Model, graph: Graph, options: ExportOptions, form: GraphFormat) -> dict[str, Any]:
    """What is known of a graph before it is measured."""
    plan = graph.plan
    about: dict[str, Any] = source_of(model, form.name, options.dtype) | {
        "task": model.recipe.task.kind,
        "inputs": {name: list(SHAPES[name]) for name in plan.inputs},
        "outputs": axes_of(graph),
        "longest": model.network.longest,
    }
    if sizes := model.task.sizes.get(plan.main):
        about["sizes"] = {MAIN: list(sizes)}
    if plan.iteration is not None:
        about["arcs"] = {
            "iteration": plan.iteration,
            "channel": model.reading.channel,
            "root": model.has_root_column,
            "by_word": one_token_a_word(model),
        }
    if model.recipe.uncertain_weights is not None:
        about["weights"] = "posterior means"
    if (temperature := temperature_of(model)) != 1.0:
        about["temperature"] = temperature
    return about | described(model)


def _labels(model: Model) -> str:
    """The names of what the scores are of, by the name of the output."""
    found: dict[str, list[str]] = {}
    for part, rows in model.task.output_rows(model.network).items():
        if rows.names is not None:
            found[PAIR if part.endswith(PAIR) else MAIN] = list(rows.names)
    if MAIN not in found and model.task.answers == "words":
        found[MAIN] = [model.vocabulary.decode(id) for id in range(model.vocabulary.size)]
    return as_json(found)
