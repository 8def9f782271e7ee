"""A model as a program of `torch.export`, which torch runs without this package, on a CPU or a GPU."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from probtrans_cli.export import ExportOptions
from probtrans_cli.export.bundle import GraphFormat, write_graph
from probtrans_cli.export.graph import Graph
from probtrans_cli.export.measure import Run
from probtrans_cli.trained.model import Model


def write(model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the folder; ``largest_difference`` is that of all outputs for random sentences."""
    return write_graph(model, out, options, GraphFormat("pt2", "model.pt2", "torch.export", save, opened))


def save(graph: Graph, program: ExportedProgram, path: Path) -> None:
    """Write a traced graph."""
    del graph
    content = io.BytesIO()  # torch's own writer of files aborts the process where the disk is full
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())


def opened(path: Path) -> Run:
    module = torch.export.load(path).module()
    return torch.no_grad()(lambda inputs: module(**inputs))
