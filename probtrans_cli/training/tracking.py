"""What a training writes down about itself: `metrics.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from probtrans_cli import atomic
from probtrans_cli.errors import unwritten


class Metrics:
    """`metrics.jsonl`: one JSON object a line.

    A run that is resumed repeats the updates after ``step`` and the evaluations after ``evaluated``, so their lines are
    dropped when the file is opened.
    """

    def __init__(self, path: Path, step: int, evaluated: int) -> None:
        kept = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    values = json.loads(line)
                    if values["step"] <= (step if values["split"] == "train" else evaluated):
                        kept.append(line)
                except (ValueError, KeyError):  # the line that was being written when the process was killed
                    continue
        atomic.replace_text(path, "".join(line + "\n" for line in kept))
        self.path = path

    def write(self, values: dict[str, Any]) -> None:
        """Append one line.

        Raises:
            DataError: the disk is full, for example.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise unwritten(str(self.path), error) from None
