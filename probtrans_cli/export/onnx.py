"""A model as an ONNX graph, for onnxruntime and others, through torch's exporter of traced programs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from probtrans_cli.errors import UsageError
from probtrans_cli.export import ExportOptions
from probtrans_cli.export.bundle import GraphFormat, write_graph
from probtrans_cli.export.difference import Run
from probtrans_cli.export.graph import Graph, example_of
from probtrans_cli.trained.model import Model


def write(model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the folder; ``largest_difference`` is that of all outputs for random sentences, by onnxruntime.

    Raises:
        UsageError: the model has no graph, the packages are not installed, or the folder cannot be written.
    """
    _require()
    form = GraphFormat("onnx", "model.onnx", "onnxruntime", save, opened, quantise)
    return write_graph(model, out, options, form)


def _require() -> None:
    try:
        import onnx  # noqa: F401, PLC0415  (an extra)
        import onnxruntime  # noqa: F401, PLC0415
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as error:
        hint = "pip install 'probtrans[onnx]', or choose --format pt2"
        raise UsageError(f"--format onnx needs the package {error.name}", hint=hint) from None


def save(graph: Graph, program: ExportedProgram, path: Path) -> None:
    """Write a traced graph as an ONNX file."""
    given = example_of(graph)
    with torch.no_grad(), _quietly():
        names = list(graph(**given))
        # Not rewritten by the exporter, which takes as long again: runtimes rewrite a graph when they open it.
        how: dict[str, Any] = {"dynamo": True, "verbose": False, "optimize": False}
        made = torch.onnx.export(program, kwargs=given, output_names=names, **how)
        assert made is not None, "so the exporter of programs"
        made.save(path)


def quantise(path: Path) -> None:
    """Replace a graph by one whose products with constant matrices are of 8-bit integers: those of a matrix scaled by
    column, those of what it is multiplied with by a scale of each call."""
    from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic  # noqa: PLC0415  (an extra)

    with _quietly():
        quant_pre_process(path, path, skip_symbolic_shape=True)  # constants become what a product sees as such
        quantize_dynamic(path, path, weight_type=QuantType.QInt8, per_channel=True)


def opened(path: Path) -> Run:
    """What runs a written graph, with as many threads as torch has here."""
    import onnxruntime  # noqa: PLC0415  (an extra)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]

    def run(given: Any) -> Any:
        found = session.run(names, {name: value.numpy() for name, value in given.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, found, strict=True)}

    return run


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says of packages that it does not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
