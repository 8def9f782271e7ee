"""The figures of a training: `metrics.jsonl`, and with `log.tensorboard` the same for TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probtrans_cli import atomic
from probtrans_cli.errors import UsageError, unwritten
from probtrans_cli.folders import regular
from probtrans_cli.text import from_json

TENSORBOARD = "tensorboard"
"""The folder of a run, and the extra that is needed to write it."""


class Metrics:
    """`metrics.jsonl`, one JSON object a line, and with ``tensorboard`` its numbers in the folder of that name.

    A resumed run repeats the updates after ``step`` and the evaluations after ``evaluated``, so their lines are dropped
    when the file is opened. Without a folder nothing is written: of several processes one writes.

    Raises:
        UsageError: the package for TensorBoard is not installed.
    """

    def __init__(self, run: Path | None, step: int, evaluated: int, *, tensorboard: bool = False) -> None:
        self.path = None if run is None else run / "metrics.jsonl"
        self.board: Any = None
        if run is None or self.path is None:
            return
        lines = []
        if os.path.lexists(self.path):
            for line in regular.read_text(self.path, "replace").splitlines():
                try:
                    values = from_json(line)
                    if values["step"] <= (step if values["split"] == "train" else evaluated):
                        lines.append(line)
                except (ValueError, KeyError, TypeError):  # half a line, of the moment of a kill, or none of ours
                    continue
        if tensorboard:
            self.board = _writer(run / TENSORBOARD, step + 1 if step else None)
        atomic.replace_text(self.path, "".join(line + "\n" for line in lines))

    def write(self, values: dict[str, Any]) -> None:
        """Append one line.

        Raises:
            DataError: the disk is full, for example.
        """
        if self.path is None:
            return
        try:
            with regular.append(self.path) as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise unwritten(str(self.path), error) from None
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float) and name != "step"}
        self._show(values["split"], numbers, values["step"])

    def final(self, scores: Mapping[str, Mapping[str, float]], step: int) -> None:
        """Show the final scores by split, of the best ``step``, in TensorBoard as `final`."""
        for split, numbers in scores.items():
            self._show(f"final/{split}", numbers, step)
        if self.board is not None:
            self.board.flush()

    def _show(self, group: str, numbers: Mapping[str, float], step: int) -> None:
        if self.board is not None:
            for name, value in numbers.items():
                self.board.add_scalar(f"{group}/{name}", value, step)


def _writer(folder: Path, purge: int | None) -> Any:
    try:
        # Imported here: few need it, and it takes a second.
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'probtrans[tensorboard]', or log.tensorboard=false"
        raise UsageError("log.tensorboard needs the package tensorboard, which is not installed", hint=hint) from None
    regular.refuse_folder_of_others(folder)  # its file is opened by that package
    return SummaryWriter(str(folder), purge_step=purge)
