"""The Arrow form of analyses: every record comes back, of every task; and the columns are always the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from run_of_every_task import OVERRIDES, SENTENCE
from support import assert_near

import probtrans_cli
from probtrans_cli.trained.model import SCHEMA, record_batch, records

TEXTS = ["two cheap farmers and goats fold", "", "Ann flew to Oslo ."]


@pytest.mark.parametrize("task", OVERRIDES)
def test_records_come_back(task: str, runs: Path, tmp_path: Path) -> None:
    model = probtrans_cli.load(str(runs / "runs" / task), threads=1)
    texts = [SENTENCE.get(task, TEXTS[0]), *TEXTS]
    options: list[dict[str, Any]] = [{}, {"trees": False}, {"latent_labels": 2, "top": 2}]
    if task in ("tagging", "ner", "classification", "mlm"):
        options.append({"uncertainty": True})
    for more in options:
        said = [one.record() for one in model.analyze(texts, **more)]
        plain = [{name: value for name, value in one.items() if value is not None} for one in said]
        batches = list(model.analyze_arrow(texts, rows=3, **more))
        assert [batch.num_rows for batch in batches] == [3, 1]
        table = pa.Table.from_batches(batches, SCHEMA)
        with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
            writer.write_table(table)
        with pa.memory_map(str(tmp_path / "a.arrow")) as file:
            (read,) = pa.ipc.open_file(file).read_all().combine_chunks().to_batches()
        assert_near(json.loads(json.dumps(list(records(read)))), json.loads(json.dumps(plain)), abs=2e-6)


def test_no_analysis_has_the_columns_all_the_same() -> None:
    assert record_batch([]).schema == SCHEMA
