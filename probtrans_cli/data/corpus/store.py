"""Encoded sentences as Arrow IPC files, memory-mapped: one file a split or several (shards), a list column a quantity.

column     one value per  type   content
ids        token          int32  vocabulary ids
first      word           int32  position of the word's first token (subwords, and words of which some are not read;
                                 otherwise it is 0..n-1)
read       word           bool   it has a token of its own (vocabularies that leave out punctuation only)
frequency  word           int32  count of the word in the training file
heads      word           int16  0 = root, 1..n; -1 = the sentence has no tree
segments   token          int8   0 = the first of two texts, 1 = the second (instances of documents only)
parents    word           int16  position of the word's parent, from 0; -1 = none, -2 = the sentence has no graph
grid       word           int64  the labels of the word in all rows: the sum over rows r of label * 8 ** r
punct      word           bool   UPOS is PUNCT or SYM
widths     token          int16  number of the features of the token's word (vocabularies with features only)
features   feature        int32  feature rows of all tokens, one token after the other (vocabularies with features only)
spelling   byte           uint8  the words as they are written, joined by spaces (where there is a form)
form       byte           uint8  the sentence's logical form, or the tags of its entities, one a line, its tuples or
                                 its coordinations
any other  word, or one   int16  label ids of a column of tags (`upos`, `tag`, ...), or of a label of the sentence;
           a sentence            -1 = no label, or one that the training file does not have

A column that the source does not have is not there. Files are mapped into memory, and stay so whatever becomes of their
names; a split is never put together. Of all of it, only the lengths of the sentences are held; of the files, what was
read of the latest ones. A shard that lacks a column which another shard of its split has gets a stand-in for it, so it
makes no difference how a corpus is cut into shards.
"""

from __future__ import annotations

import mmap
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probtrans_cli.data.sentence import Sentence, pack_rows
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular

Labels = Mapping[str, Sequence[str]]
Row = Mapping[str, Sequence[int] | None]
Arrays = tuple[NDArray[np.integer], NDArray[Any]]  # offsets of the values of every sentence, and the values

_TYPES: dict[str, tuple[str, Any]] = {
    "ids": ("i", pa.int32()),
    "first": ("i", pa.int32()),
    "read": ("b", pa.bool_()),
    "segments": ("b", pa.int8()),
    "frequency": ("i", pa.int32()),
    "heads": ("h", pa.int16()),
    "parents": ("h", pa.int16()),
    "grid": ("q", pa.int64()),
    "punct": ("b", pa.bool_()),
    "widths": ("h", pa.int16()),
    "features": ("i", pa.int32()),
    "spelling": ("B", pa.uint8()),
    "form": ("B", pa.uint8()),
}
_OF_LABELS = ("h", pa.int16())
BYTES = ("spelling", "form")  # columns of bytes; a sentence without them has none
MISSING = {"punct": 0, "parents": -2, "grid": 0}
"""What a word has in a column that its sentence does not have; -1 in all other columns."""
KEPT = 5 << 18  # sentences of shards that stay in memory: those of a window of the plan of batches, and some more
PUNCTUATION = ("PUNCT", "SYM")
"""The tags (UPOS) of words that do not count where trees are scored without punctuation."""
_LARGE = 2**31 - 1  # values that 32-bit offsets can address


# --- from sentences to tables -----------------------------------------------------------------------------------------


def encode_table(sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels) -> pa.Table:
    """Encode sentences; ``labels`` gives the labels of every column, whose index is the label id.

    Raises:
        DataError: a sentence is too long for its tree to be stored.
    """
    ids = {column: {label: id for id, label in enumerate(names)} for column, names in labels.items()}
    where = ""

    def rows() -> Iterator[Row]:
        nonlocal where
        for sentence in sentences:
            where = sentence.where
            words = sentence.words if sentence.looked_up is None else sentence.looked_up
            encoded = vocabulary.encode_words(words, sentence.extra)
            row: dict[str, Sequence[int] | None] = {
                "ids": encoded.ids,
                "frequency": vocabulary.frequencies(words),
                "heads": sentence.heads,
            }
            if vocabulary.divides:
                row["first"] = encoded.word_start
            if vocabulary.omits:
                with_id = set(range(len(words)) if encoded.read is None else encoded.read)
                row["read"] = [word in with_id for word in range(len(words))]
            if vocabulary.features is not None:
                of_words = [*map(vocabulary.features.rows, words), ()]  # -1, the last: no word
                of_tokens = [of_words[word] for word in encoded.word_of_piece]
                row["widths"] = [len(features) for features in of_tokens]
                row["features"] = list(chain.from_iterable(of_tokens))
            for column, id_of in ids.items():
                if column in sentence.labels:
                    row[column] = [id_of.get(sentence.labels[column], -1)]
                else:
                    tags = sentence.tags.get(column)
                    row[column] = None if tags is None else [id_of.get(tag, -1) for tag in tags]
            upos = sentence.tags.get("upos")
            row["punct"] = None if upos is None else [tag in PUNCTUATION for tag in upos]
            row["parents"] = sentence.parents
            row["grid"] = None if sentence.grid is None else pack_rows(sentence.grid, len(sentence.words))
            row["spelling"] = row["form"] = None
            if sentence.form is not None:  # Python's texts may have halves of a character
                row["spelling"] = " ".join(sentence.words).encode("utf-8", "surrogatepass")
                row["form"] = sentence.form.encode("utf-8", "surrogatepass")
            yield row

    try:
        return table_of_rows(rows())
    except OverflowError:
        hint = "a sentence with a tree may have 32767 words, and a column as many labels"
        raise DataError(f"{where}: too large to be stored", hint=hint) from None


def table_of_rows(rows: Iterable[Row]) -> pa.Table:
    """Build the table of a split from a mapping ``column -> values`` for each sentence.

    A value of None means that the sentence does not have the column; a column that no sentence has is left out.
    """
    columns: dict[str, array[int]] = {}
    lengths: dict[str, array[int]] = {}
    present: set[str] = set()
    for row in rows:
        words = len(row["frequency"] or ())
        for name, values in row.items():
            if name not in columns:
                columns[name] = array(_TYPES.get(name, _OF_LABELS)[0])
                lengths[name] = array("q")
            if values is None:  # another sentence has the column, so the words of this one need values, too
                values = [] if name in BYTES else [MISSING.get(name, -1)] * words  # noqa: PLW2901
            else:
                present.add(name)
            columns[name].extend(values)
            lengths[name].append(len(values))
    table = {}
    for name in sorted(present, key=[*_TYPES, *columns].index):
        kind, value_type = _TYPES.get(name, _OF_LABELS)
        flat = np.frombuffer(columns[name], dtype=kind) if len(columns[name]) else np.zeros(0, dtype=kind)
        if value_type == pa.bool_():
            flat = flat.astype(bool)
        offsets = np.concatenate([[0], np.cumsum(np.frombuffer(lengths[name], dtype=np.int64))])
        large = offsets[-1] > _LARGE
        lists, offset_type = (pa.LargeListArray, pa.int64()) if large else (pa.ListArray, pa.int32())
        table[name] = lists.from_arrays(pa.array(offsets, offset_type), pa.array(flat, value_type))
    return pa.table(table)


def write_split(path: Path, table: pa.Table) -> None:
    """Write the table of :func:`encode_table` or :func:`table_of_rows` as an Arrow IPC file."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        # A single record batch: then a reader's column is a contiguous piece of the mapped file.
        writer.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))


# --- from files to arrays ---------------------------------------------------------------------------------------------


class Shard:
    """One table of encoded sentences."""

    def __init__(self, table: pa.Table, file: mmap.mmap | None = None) -> None:
        """``table`` has at least the columns ``ids`` and ``frequency``, without nulls; ``file``: where it is."""
        self.table, self.file = table, file
        self.lacks: dict[str, Any] = {}  # columns that only other shards of its split have, with the type of a value
        self.columns: dict[str, Arrays] = {}  # those that are in memory
        for name in ("ids", "frequency"):
            self[name]

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Map a file into memory; raise a DataError if it is missing or damaged."""
        try:
            with regular.open_file(path) as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()
            if any(column.null_count for column in table.columns):
                raise ValueError("a list column with nulls")
            return cls(table, mapped)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            hint = "run `probtrans prepare --force`"
            raise DataError(f"{path}: not a readable Arrow file ({error})", hint=hint) from None

    def __getitem__(self, name: str) -> Arrays:
        """Return offsets and values of a column, as views of the mapped file (booleans are copied), or
        stand-ins for a column that the shard lacks."""
        if name in self.columns:
            return self.columns[name]
        offsets: NDArray[np.integer]
        values: NDArray[Any]
        if name not in self.lacks:
            column = self.table[name]
            chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            offsets, values = (array.to_numpy(zero_copy_only=False) for array in (chunk.offsets, chunk.values))
        elif name in BYTES:
            offsets = np.broadcast_to(np.int32(0), self.table.num_rows + 1)
            values = np.zeros(0, dtype=self.lacks[name])
        else:
            offsets = self["frequency"][0] - self["frequency"][0][0]
            values = np.broadcast_to(self.lacks[name](MISSING.get(name, -1)), int(offsets[-1]))
        self.columns[name] = offsets, values
        return offsets, values


class Split:
    """The encoded sentences of a split; ``len()`` is their number."""

    def __init__(self, *shards: pa.Table | Path | Shard) -> None:
        """``shards``: tables in order, each with at least the columns ``ids`` and ``frequency``; or files of them, or
        shards of other splits.

        Raises:
            DataError: a file is missing or damaged.
        """
        self.shards: list[Shard] = []
        self._used: OrderedDict[int, None] = OrderedDict()  # shards in memory, the latest one last
        self._kept = 0  # their sentences
        lengths, counts = [], [0]
        for number, shard in enumerate(shards):
            table = Shard.open(shard) if isinstance(shard, Path) else shard
            self.shards.append(table if isinstance(table, Shard) else Shard(table))
            opened = self._shard(number)
            lengths.append(np.diff(opened["ids"][0]).astype(np.int32))
            counts.append(opened.table.num_rows)
        fields: dict[str, pa.Field] = {}
        for field in chain.from_iterable(shard.table.schema for shard in self.shards):
            if field.name not in fields or pa.types.is_large_list(field.type):
                fields[field.name] = field
        self._schema: pa.Schema = pa.schema(list(fields.values()))
        """The columns that any shard has; of two list types the one with large offsets."""
        for shard in self.shards:
            for field in self._schema:
                if field.name not in shard.table.column_names:
                    shard.lacks[field.name] = field.type.value_type.to_pandas_dtype()
        self.lengths: NDArray[np.int32] = lengths[0] if len(lengths) == 1 else np.concatenate(lengths)
        """Number of ids of every sentence."""
        self.bounds: NDArray[np.int64] = np.cumsum(counts)
        """The numbers of the first sentences of all shards, and behind them the number of sentences."""

    @classmethod
    def encode(cls, sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels) -> Split:
        """Encode sentences in memory, exactly as `prepare` does; see :func:`encode_table`."""
        return cls(encode_table(sentences, vocabulary, labels))

    def __len__(self) -> int:
        return len(self.lengths)

    def _shard(self, number: int) -> Shard:
        """Return a shard, and let the system have the memory of those that were not used for long."""
        if number not in self._used:
            self._kept += self.shards[number].table.num_rows
        self._used[number] = None
        self._used.move_to_end(number)
        while self._kept > KEPT and len(self._used) > 1:
            oldest = self.shards[self._used.popitem(last=False)[0]]
            oldest.columns.clear()  # they are read from the file again when they are needed
            if oldest.file is not None and hasattr(mmap, "MADV_DONTNEED"):
                oldest.file.madvise(mmap.MADV_DONTNEED)
            self._kept -= oldest.table.num_rows
        return self.shards[number]

    def _places(self, indices: NDArray[np.integer]) -> Iterator[tuple[int, Any, NDArray[np.integer]]]:
        """Yield each shard that has some of the sentences: its number, which of ``indices`` it has, and where."""
        if len(self.shards) == 1:
            yield 0, slice(None), indices
            return
        owners = np.searchsorted(self.bounds, indices, side="right") - 1
        for number in np.unique(owners).tolist():
            yield number, owners == number, indices[owners == number] - self.bounds[number]

    @cached_property
    def words(self) -> NDArray[np.int32]:
        """Number of words of every sentence."""
        counts = [np.diff(self._shard(number)["frequency"][0]).astype(np.int32) for number in range(len(self.shards))]
        return np.concatenate([np.zeros(0, dtype=np.int32), *counts])

    def select(self, indices: NDArray[np.integer]) -> Split:
        """Return some of the sentences, in the order of ``indices``, as a split in memory."""
        parts: list[pa.Table] = []
        order = np.zeros(len(indices), dtype=np.int64)
        for number, chosen, places in self._places(indices):
            order[chosen] = np.arange(len(places)) + sum(part.num_rows for part in parts)
            shard, columns = self._shard(number), {}
            for field in self._schema:
                if field.name in shard.table.column_names:
                    columns[field.name] = shard.table[field.name].cast(field.type)
                else:
                    offsets, values = shard[field.name]
                    flat = pa.array(np.ascontiguousarray(values), field.type.value_type)
                    stand_in = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
                    columns[field.name] = stand_in.cast(field.type)
            parts.append(pa.table(columns).take(places))
        return Split(parts[0] if len(parts) == 1 else pa.concat_tables(parts).take(order))

    def with_column(self, name: str, values: Sequence[Sequence[int]]) -> Split:
        """Return the same sentences with a further column of small numbers, those of each word."""
        shards = []
        for number, (begin, end) in enumerate(pairwise(self.bounds)):
            offsets = pa.array(np.cumsum([0, *map(len, values[begin:end])]), pa.int32())
            flat = pa.array(list(chain.from_iterable(values[begin:end])), pa.int8())
            shards.append(self._shard(number).table.append_column(name, pa.ListArray.from_arrays(offsets, flat)))
        return Split(*shards)

    def has(self, name: str) -> bool:
        return name in self._schema.names

    def columns(self, name: str) -> Iterator[NDArray[Any]]:
        """Return the values of all sentences in order, those of each shard in an array."""
        if not self.has(name):
            raise KeyError(name)
        arrays = (self._shard(number)[name] for number in range(len(self.shards)))
        return (values[offsets[0] : offsets[-1]] for offsets, values in arrays)

    def row(self, name: str, index: int) -> NDArray[Any]:
        """Return the values of a sentence, in the column's own type."""
        number = int(np.searchsorted(self.bounds, index, side="right")) - 1 if len(self.shards) > 1 else 0
        offsets, values = self._shard(number)[name]
        place = int(index - self.bounds[number])
        row: NDArray[Any] = values[offsets[place] : offsets[place + 1]]
        return row

    def text(self, name: str, index: int) -> str:
        """Return a sentence's ``spelling`` or ``form``."""
        return self.row(name, index).tobytes().decode("utf-8", "surrogatepass")

    def padded(self, name: str, indices: NDArray[np.integer], fill: int | bool) -> NDArray[Any]:
        """Gather sentences into one array.

        Returns:
            [b, n] with n the longest of these sentences; int64, or bool for ``punct``.
        """
        if not self.has(name):
            raise KeyError(name)
        parts = []
        for number, chosen, places in self._places(indices):
            parts.append((chosen, _padded(*self._shard(number)[name], places, fill)))
        if len(parts) == 1:
            return parts[0][1]
        dtype = parts[0][1].dtype if parts else np.dtype(np.int64)
        width = max((part.shape[1] for _, part in parts), default=0)
        result = np.full((len(indices), width), fill, dtype=dtype)
        for chosen, part in parts:
            result[chosen, : part.shape[1]] = part
        return result

    def features(self, indices: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Gather the features of sentences.

        Returns:
            The feature rows of all tokens of these sentences [m], in order, and for every position how many of them
            are its own [b, n]; zero behind a sentence's end.
        """
        rows = [self.row("features", int(index)) for index in indices]
        return np.concatenate(rows).astype(np.int64), self.padded("widths", indices, 0)

    def padded_values(self, values: NDArray[Any], indices: NDArray[np.integer], fill: float) -> NDArray[Any]:
        """Gather ``values``, one for each id of the split, like :meth:`padded`; the result has their type."""
        return _padded(self._starts, values, indices, fill, values.dtype)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])


def _padded(
    offsets: NDArray[np.integer], values: NDArray[Any], indices: NDArray[np.integer], fill: float, dtype: Any = None
) -> NDArray[Any]:
    starts = offsets[indices].astype(np.int64)
    lengths = offsets[np.asarray(indices) + 1] - starts
    positions = np.arange(int(lengths.max(initial=0)))
    inside = positions < lengths[:, None]
    result = np.full(inside.shape, fill, dtype=dtype or (np.bool_ if values.dtype == np.bool_ else np.int64))
    result[inside] = values[(starts[:, None] + positions)[inside]]
    return result
