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
    import onnx  # noqa: PLC0415  (an extra)
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    model = onnx.load(path)
    with _quietly():
        _compute_constants(model)
        quantize_dynamic(model, path, weight_type=QuantType.QInt8, per_channel=True)


def _compute_constants(model: Any) -> None:
    """Compute once what depends on the weights alone: products with the results are products with constants."""
    import onnx  # noqa: PLC0415  (an extra)

    graph = model.graph
    known = {one.name for one in graph.initializer} | {""}
    fixed: list[Any] = []
    others: list[Any] = []
    for node in graph.node:
        constant = known.issuperset(node.input)
        (fixed if constant else others).append(node)
        known |= set(node.output) if constant else set()
    made = {name for node in fixed for name in node.output}
    used = {name for node in others for name in node.input} | {one.name for one in graph.output}
    wanted = sorted(made & used)
    alone = onnx.helper.make_graph(
        fixed, "weights", [], [onnx.ValueInfoProto(name=name) for name in wanted], graph.initializer
    )
    alone = onnx.helper.make_model(alone, opset_imports=model.opset_import, ir_version=model.ir_version)
    values = zip(wanted, _session(alone.SerializeToString()).run(wanted, {}) if wanted else [], strict=True)
    kept = [one for one in graph.initializer if one.name in used]
    kept += [onnx.numpy_helper.from_array(value, name) for name, value in values]
    for field, content in ((graph.node, others), (graph.initializer, kept)):
        del field[:]
        field.extend(content)


def opened(path: Path) -> Run:
    """What runs a written graph."""
    session = _session(str(path))
    names = [one.name for one in session.get_outputs()]

    def run(given: Any) -> Any:
        found = session.run(names, {name: value.numpy() for name, value in given.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, found, strict=True)}

    return run


def _session(graph: str | bytes) -> Any:
    """onnxruntime's, of a file or its content, with as many threads as torch has here."""
    import onnxruntime  # noqa: PLC0415  (an extra)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


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
