"""The Arrow files of a split, mapped into memory for as long as the split is there, whatever becomes of their names.

What is read of a file stays in memory until others are read: only the latest ones are kept. A shard that lacks a column
which another shard of its split has, has it all the same: with what stands for a sentence without it. So it makes no
difference how a corpus is cut into shards.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular

BYTES = ("spelling", "form")
"""Columns of bytes; a sentence without them has none."""
MISSING = {"punct": 0, "parents": -2, "grid": 0}
"""What a word has in a column that its sentence does not have; -1 in all other columns."""
KEPT = 5 << 18
"""Sentences of shards that stay in memory: those of a window of the plan of batches, and some more."""
Arrays = tuple[NDArray[np.integer], NDArray[Any]]
"""Where the values of every sentence begin, and behind them where the last ones end; and all values."""


class Shard:
    """One table of encoded sentences."""

    def __init__(self, table: pa.Table, file: mmap.mmap | None = None) -> None:
        """``table`` has at least the columns ``ids`` and ``frequency``, without nulls; ``file``: where it is."""
        self.table, self.file = table, file
        self.sentences: int = table.num_rows
        self._columns: dict[str, Arrays] = {}
        self._stand_ins: dict[str, Arrays] = {}
        for name in ("ids", "frequency"):
            self[name]

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Map a file into memory.

        Raises:
            DataError: the file is missing or damaged.
        """
        try:
            with regular.open_file(path) as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()
            for column in table.columns:
                if column.null_count:
                    raise ValueError("a list column with nulls")
            return cls(table, mapped)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            hint = "run `probtrans prepare --force`"
            raise DataError(f"{path}: not a readable Arrow file ({error})", hint=hint) from None

    def forget(self) -> None:
        """Let the system have the memory back; what is wanted is read from the file again."""
        self._columns.clear()
        if self.file is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.file.madvise(mmap.MADV_DONTNEED)

    def __getitem__(self, name: str) -> Arrays:
        """Offsets and values of a column."""
        if name in self._stand_ins:
            return self._stand_ins[name]
        if name not in self._columns:
            self._columns[name] = _arrays(self.table[name])
        return self._columns[name]

    def offsets(self, name: str) -> NDArray[np.integer]:
        """Where the values of every sentence begin, and where the last ones end."""
        return self[name][0]

    def values(self, name: str) -> NDArray[Any]:
        """The values of all sentences, one after the other."""
        offsets, values = self[name]
        return values[offsets[0] : offsets[-1]]

    def complete(self, schema: pa.Schema) -> None:
        """Let it have all columns of its split."""
        for name in schema.names:
            if name not in self.table.column_names:
                self._stand_ins[name] = self._stand_in(name, schema)

    def whole(self, shards: Shards) -> pa.Table:
        """The table with all columns of its split, in their order."""
        found = {}
        for name in shards.columns.names:
            kind = shards.columns.field(name).type
            if name in self.table.column_names:
                found[name] = self.table[name].cast(kind)
            else:
                offsets, values = self[name]
                flat = pa.array(np.ascontiguousarray(values), kind.value_type)
                found[name] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat).cast(kind)
        return pa.table(found)

    def _stand_in(self, name: str, schema: pa.Schema) -> Arrays:
        kind = schema.field(name).type.value_type.to_pandas_dtype()
        if name in BYTES:
            return np.broadcast_to(np.int32(0), self.sentences + 1), np.zeros(0, dtype=kind)
        offsets = self.offsets("frequency")
        return offsets - offsets[0], np.broadcast_to(kind(MISSING.get(name, -1)), int(offsets[-1] - offsets[0]))


class Shards(Sequence[Shard]):
    """The shards of a split, in order."""

    def __init__(self, shards: Sequence[Shard | Path]) -> None:
        """
        Raises:
            DataError: a file is missing or damaged.
        """
        self._used: OrderedDict[int, None] = OrderedDict()
        self._kept = 0  # sentences of these
        self._shards: list[Shard] = []
        lengths, counts = [], [0]
        for given in shards:
            shard = Shard.open(given) if isinstance(given, Path) else given
            lengths.append(np.diff(shard.offsets("ids")).astype(np.int32))
            counts.append(shard.sentences)
            self._shards.append(shard)
            self._note(len(self._shards) - 1)
        self.columns: pa.Schema = _together([shard.table.schema for shard in self._shards])
        """The columns that any of them has."""
        for shard in self._shards:
            shard.complete(self.columns)
        self.lengths: NDArray[np.int32] = lengths[0] if len(lengths) == 1 else np.concatenate(lengths)
        """Number of ids of every sentence."""
        self.bounds: NDArray[np.int64] = np.cumsum(counts)
        """The numbers of the first sentences of all shards, and behind them the number of sentences."""

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, number: Any) -> Any:
        """A shard by its number, with all columns."""
        shard = self._shards[number]  # an IndexError ends an iteration
        self._note(int(number))
        return shard

    def _note(self, number: int) -> None:
        """A shard is used; those that were not used for longest are forgotten."""
        if number not in self._used:
            self._kept += self._shards[number].sentences
        self._used[number] = None
        self._used.move_to_end(number)
        while self._kept > KEPT and len(self._used) > 1:
            oldest = self._shards[self._used.popitem(last=False)[0]]
            oldest.forget()
            self._kept -= oldest.sentences

    def place(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """For every sentence the number of its shard."""
        return np.searchsorted(self.bounds, indices, side="right") - 1

    def of(self, index: int) -> tuple[Shard, int]:
        """The shard of a sentence, and the sentence's number in it."""
        if len(self) == 1:
            return self[0], index
        number = int(self.place(np.asarray(index)))
        return self[number], int(index - self.bounds[number])


def _together(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """All columns of some tables; of two list types the one with large offsets."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for field in schema:
            if field.name not in fields or pa.types.is_large_list(field.type):
                fields[field.name] = field
    return pa.schema(list(fields.values()))


def _arrays(column: Any) -> Arrays:
    """Return offsets and values of a list column, as views of the mapped file (booleans are copied)."""
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values = chunk.values.to_numpy(zero_copy_only=False)
    return chunk.offsets.to_numpy(zero_copy_only=False), values
