"""The verb `export`: a model as a folder of its own, without what only training needs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probtrans_cli import console
from probtrans_cli.commands.eval import EvalRequest, corpus_of
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.export import EXPORTS, ExportName, ExportOptions
from probtrans_cli.export.measure import prune, representations
from probtrans_cli.trained.model import Model


@dataclass(frozen=True)
class ExportRequest(ExportOptions):
    """The arguments of `export`."""

    checkpoint: str
    out: Path
    format: ExportName = "safetensors"
    prune: float | None = None


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the model to the folder; returns the report, which is also its EXPORT.json.

    The report's ``largest_difference`` is that of outputs for random sentences between the model that was read and what
    was written; None where it could not be measured.

    Raises:
        UsageError: ``out`` exists and is not an empty folder, the model has no form in the format, or is to be pruned
            and has no uncertain weights.
        CheckpointError: as its reader does.
    """
    form, out = EXPORTS[request.format], request.out
    options = {
        "--expand-shared": (request.expand_shared, "expands_shared"),
        "--arcs": (request.arcs, "has_arcs"),
        "--name": (request.name is not None, "is_package"),
        "--package-version": (request.package_version is not None, "is_package"),
        "--licence": (request.licence is not None, "is_package"),
        "--dtype int8": (request.dtype == "int8", "has_int8"),
    }
    for option, (used, ability) in options.items():
        if used and not getattr(form, ability):
            names = " or ".join(name for name, row in EXPORTS.items() if getattr(row, ability))
            raise UsageError(f"{option} is for --format {names}", hint="leave it out, or choose that format")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already", hint="choose another folder, or remove it")
    model = Model.load(request.checkpoint)
    about: dict[str, Any] = {}
    if request.prune is not None:
        before = representations(model)
        about = {"weights": "posterior means", "pruned": prune(model, request.prune)}
        about["largest_difference"] = float((representations(model) - before).abs().max())
    dev: Split | None = None
    if request.dtype != "float32":
        try:
            dev = corpus_of(model, EvalRequest(request.checkpoint, split="dev"))[1]
        except (UsageError, DataError) as error:
            console.log(f"the score on dev was not measured: {error.message}")
    return form.write(model, out, replace(request, dev=dev, about=about))


def exported(request: ExportRequest, report: dict[str, Any]) -> str:
    largest = report["largest_difference"]
    measured = "" if largest is None else f"an output differs from {request.checkpoint}'s by {largest:.2g} at most"
    if relative := report.get("largest_relative_difference"):
        measured += f", or {relative:.2g} of its value"
    score = report.get("score")
    changed = (
        "" if score is None else f"; {score['metric']} on dev {score['dev']:.4g}, written {score['dev_exported']:.4g}"
    )
    pruned = f"; {report['pruned']:,} weights are zero, and all are certain" if "pruned" in report else ""
    text = console.wrapped(f"{request.out}: {report['bytes']:,} bytes; {measured or request.format}{changed}{pruned}")
    return text.rstrip("\n") + (f"\npip install {shlex.quote(report['wheel'])}" if "wheel" in report else "")
