"""Models as folders for other programs: the formats of `export`, a row each.

A new format is a row of :data:`_ROWS` and a module ``export/NAME.py`` with a function ``write(model, out, options)``,
which returns the report. The table is read for `--help`, so it imports no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from probtrans_cli.data.corpus.store import Split
    from probtrans_cli.trained.model import Model

Dtype = Literal["float32", "bfloat16", "float16", "int8"]


@dataclass(frozen=True)
class ExportFormat:
    """One form in which a model is written."""

    name: str
    help: str  # whom it is for
    expands_shared: bool = False  # it can write tensors that layers share once for each layer
    has_arcs: bool = False  # it can have the probabilities of arcs
    has_int8: bool = False  # its products can be those of 8-bit integers
    is_package: bool = False  # it has a name, a version and a licence

    def write(self, model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
        module = importlib.import_module(f"{__name__}.{self.name}")
        return cast("dict[str, Any]", module.write(model, out, options))


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How a model is written, from the command line to the formats."""

    dtype: Dtype = "float32"
    """Precision of the weights."""
    expand_shared: bool = False
    """Write tensors that layers share once for each layer."""
    arcs: bool = False
    """With the probabilities of arcs, in a format that leaves the choice."""
    name: str | None = None
    """Of the package; None = the recipe's."""
    package_version: str | None = None
    """None = 1.0.0."""
    licence: str | None = None
    """Of the model, as an SPDX identifier; None = it is not stated."""
    dev: Split | None = None
    """Sentences to score before and after a change of precision; None = there are none."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the report."""


_ROWS = (
    ExportFormat("safetensors", "for parse and eval"),
    ExportFormat("wheel", "for pip and model hubs: a package whose name is a CKPT, with a card", is_package=True),
    ExportFormat("hf", "for Hugging Face's transformers", expands_shared=True),
    ExportFormat("pt2", "a graph that torch runs without this package", has_arcs=True),
    ExportFormat("onnx", "a graph for onnxruntime", has_arcs=True, has_int8=True),
)
EXPORTS: Mapping[str, ExportFormat] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    ExportName = str
else:
    ExportName = Literal[tuple(EXPORTS)]
    """The names, as the command line takes them."""
