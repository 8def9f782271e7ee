"""Analyses as Arrow: one row each, in columns that are the same for all models.

A column has the name and the content that a line of JSON has, see :meth:`probtrans_cli.trained.parses.Analysis.record`,
and is null where a line has no such key or null. What only few models say, or say in another form each, stands together
in ``more``, as JSON. Engines such as Spark must know the columns beforehand, and rows of several models can stand in
one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from probtrans_cli.text import from_json
from probtrans_cli.trained.parses import Analysis

_NUMBERS = pa.list_(pa.int32())
_PAIRS = pa.list_(_NUMBERS)
_TEXTS = pa.list_(pa.string())
_PARTS = ("arg1", "rel", "arg2")

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "text": pa.string(),
        "words": _TEXTS,
        "heads": _NUMBERS,
        "probabilities": pa.list_(pa.float64()),
        "channel": pa.string(),
        "iteration": pa.int32(),
        "decode": pa.string(),
        "tags": _TEXTS,
        "tag_probability": pa.list_(pa.float64()),
        "entities": pa.list_(
            pa.struct(
                {
                    "type": pa.string(),
                    "words": _NUMBERS,
                    "probability": pa.float64(),
                    "characters": _NUMBERS,
                    "text": pa.string(),
                }
            )
        ),
        "label": pa.string(),
        "label_probability": pa.float64(),
        "logical_form": pa.string(),
        "masks": pa.list_(pa.struct({"word": pa.int32(), "words": _TEXTS, "probabilities": pa.list_(pa.float64())})),
        "pair": pa.string(),
        "pair_probability": pa.float64(),
        "tuples": pa.list_(
            pa.struct(
                {
                    **dict.fromkeys(_PARTS, pa.string()),
                    "confidence": pa.float64(),
                    "row": pa.int32(),
                    "words": pa.struct(dict.fromkeys(_PARTS, _NUMBERS)),
                    "location_time": _NUMBERS,
                    "added": _TEXTS,
                    "chars": pa.struct(dict.fromkeys(_PARTS, _PAIRS)),
                    "split": pa.int32(),
                }
            )
        ),
        "coordinations": pa.list_(
            pa.struct(
                {
                    "cc": pa.int32(),
                    "conjuncts": _PAIRS,
                    "level": pa.int32(),
                    "confidence": pa.float64(),
                    "chars": _PAIRS,
                    "texts": _TEXTS,
                }
            )
        ),
        "splits": _PAIRS,
        "sentences": _TEXTS,
        "more": pa.string(),
    }
)
"""The columns."""
MORE = "more"


def record_batches(analyses: Iterable[Analysis], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the analyses, ``rows`` in a batch."""
    remaining = iter(analyses)
    while portion := list(islice(remaining, rows)):
        yield record_batch(portion)


def record_batch(analyses: Iterable[Analysis]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([_row(analysis.record()) for analysis in analyses], schema=SCHEMA)


def records(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the records of lines of JSON from rows of :func:`record_batch`; unknown probabilities stay None."""
    for row in batch.to_pylist():
        more = from_json(row.pop(MORE) or "{}")
        record = {name: _without_nulls(value) for name, value in row.items() if value is not None}
        if (record.get("channel") or "").isdigit():
            record["channel"] = int(record["channel"])
        yield record | more


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in record.items() if name in SCHEMA.names and not _is_other(name, value)}
    rest = {name: value for name, value in record.items() if name not in row}
    if "channel" in row:
        row["channel"] = str(row["channel"])
    return {**row, MORE: json.dumps(rest, ensure_ascii=False)} if rest else row


def _is_other(name: str, value: Any) -> bool:
    # Spans have keys that the column has no place for: members of the uncertainty, alternatives.
    column = SCHEMA.field(name).type
    if not pa.types.is_list(column) or not pa.types.is_struct(column.value_type) or value is None:
        return False
    names = {field.name for field in column.value_type}
    return any(not names >= span.keys() for span in value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
