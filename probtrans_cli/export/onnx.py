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
from probtrans_cli.export.graph import Graph, example_of
from probtrans_cli.export.measure import Run
from probtrans_cli.trained.model import Model


def write(model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the folder; ``largest_difference`` is that of all outputs for random sentences, by onnxruntime."""
    try:
        import onnx  # noqa: F401, PLC0415  (an extra)
        import onnxruntime  # noqa: F401, PLC0415
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as error:
        hint = "pip install 'probtrans[onnx]', or choose --format pt2"
        raise UsageError(f"--format onnx needs the package {error.name}", hint=hint) from None
    form = GraphFormat("onnx", "model.onnx", "onnxruntime", save, opened, quantise)
    return write_graph(model, out, options, form)


def save(graph: Graph, program: ExportedProgram, path: Path) -> None:
    """Write a traced graph as an ONNX file."""
    inputs = example_of(graph)
    with torch.no_grad(), _quietly():
        names = list(graph(**inputs))
        # Not rewritten by the exporter, which takes as long again: runtimes rewrite a graph when they open it.
        options: dict[str, Any] = {"dynamo": True, "verbose": False, "optimize": False}
        exported = torch.onnx.export(program, kwargs=inputs, output_names=names, **options)
        assert exported is not None, "the exporter of programs returns one"
        exported.save(path)


def quantise(path: Path) -> None:
    """Let the products with constant matrices of a graph be those of 8-bit integers: a matrix is scaled by column, what
    it is multiplied with by a scale of each call."""
    import onnx  # noqa: PLC0415  (an extra)
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    model = onnx.load(path)
    with _quietly():
        graph = model.graph
        # Only a stored matrix is quantised, so what follows from weights alone is computed here, and stored.
        constants = {it.name for it in graph.initializer} | {""}  # an input that is left out has an empty name
        fixed: list[Any] = []
        variable: list[Any] = []
        for node in graph.node:
            constant = constants.issuperset(node.input)
            (fixed if constant else variable).append(node)
            constants |= set(node.output) if constant else set()
        used = {name for node in variable for name in node.input} | {it.name for it in graph.output}
        wanted = sorted({name for node in fixed for name in node.output} & used)
        alone = onnx.helper.make_graph(
            fixed, "weights", [], [onnx.ValueInfoProto(name=name) for name in wanted], graph.initializer
        )
        alone = onnx.helper.make_model(alone, opset_imports=model.opset_import, ir_version=model.ir_version)
        values = zip(wanted, _session(alone.SerializeToString()).run(wanted, {}) if wanted else [], strict=True)
        initializers = [it for it in graph.initializer if it.name in used]
        initializers += [onnx.numpy_helper.from_array(value, name) for name, value in values]
        for field, content in ((graph.node, variable), (graph.initializer, initializers)):
            del field[:]
            field.extend(content)
        quantize_dynamic(model, path, weight_type=QuantType.QInt8, per_channel=True)


def opened(path: Path) -> Run:
    """Return what runs a written graph."""
    session = _session(str(path))
    names = [it.name for it in session.get_outputs()]

    def run(inputs: Any) -> Any:
        outputs = session.run(names, {name: value.numpy() for name, value in inputs.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, outputs, strict=True)}

    return run


def _session(graph: str | bytes) -> Any:
    import onnxruntime  # noqa: PLC0415  (an extra)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


@contextmanager
def _quietly() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
