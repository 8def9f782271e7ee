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

A column that the source does not have is not there. A split is never put together in memory: what is held of all of it
is the lengths of its sentences, and of the files what was read of the latest ones.
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

from probtrans_cli.data.codecs.grids import pack_rows
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError
from probtrans_cli.folders import regular

Labels = Mapping[str, Sequence[str]]
Row = Mapping[str, Sequence[int] | None]

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
_PUNCTUATION = ("PUNCT", "SYM")
_LARGE = 2**31 - 1  # values that 32-bit offsets can address


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
            yield _row(sentence, vocabulary, ids)

    try:
        return table_of_rows(rows())
    except OverflowError:
        hint = "a sentence with a tree may have 32767 words, and a column as many labels"
        raise DataError(f"{where}: too large to be stored", hint=hint) from None


def _row(sentence: Sentence, vocabulary: Vocabulary, ids: Mapping[str, Mapping[str, int]]) -> Row:
    words = sentence.words if sentence.looked_up is None else sentence.looked_up
    encoded = vocabulary.encode_words(words, sentence.extra)
    row: dict[str, Sequence[int] | None] = {
        "ids": encoded.ids,
        "frequency": [vocabulary.frequency(word) for word in words],
        "heads": sentence.heads,
    }
    if vocabulary.divides:
        row["first"] = encoded.word_start
    if vocabulary.omits:
        row["read"] = [vocabulary.reads(word) for word in words]
    if vocabulary.features is not None:
        of_words = [*map(vocabulary.features.rows, words), ()]  # -1, the last: no word
        of_tokens = [of_words[word] for word in encoded.word_of_piece]
        row["widths"] = [len(rows) for rows in of_tokens]
        row["features"] = list(chain.from_iterable(of_tokens))
    for column, known in ids.items():
        if column in sentence.labels:
            row[column] = [known.get(sentence.labels[column], -1)]
        else:
            tags = sentence.tags.get(column)
            row[column] = None if tags is None else [known.get(tag, -1) for tag in tags]
    upos = sentence.tags.get("upos")
    row["punct"] = None if upos is None else [is_punctuation(tag) for tag in upos]
    row["parents"] = sentence.parents
    row["grid"] = None if sentence.grid is None else pack_rows(sentence.grid, len(sentence.words))
    row["spelling"] = None if sentence.form is None else " ".join(sentence.words).encode()
    row["form"] = None if sentence.form is None else sentence.form.encode()
    return row


def table_of_rows(rows: Iterable[Row]) -> pa.Table:
    """Build the table of a split from one mapping ``column -> values`` per sentence.

    A value of None means that the sentence does not have the column; a column that no sentence has is left out.

    Raises:
        OverflowError: a value does not fit its column.
    """
    values: dict[str, array[int]] = {}
    lengths: dict[str, array[int]] = {}
    present: set[str] = set()
    for row in rows:
        words = len(row["frequency"] or ())
        for name, given in row.items():
            if name not in values:
                values[name] = array(_TYPES.get(name, _OF_LABELS)[0])
                lengths[name] = array("q")
            if given is None:
                given = [] if name in BYTES else [MISSING.get(name, -1)] * words  # noqa: PLW2901
            else:
                present.add(name)
            values[name].extend(given)
            lengths[name].append(len(given))
    names = sorted(present, key=[*_TYPES, *values].index)
    return pa.table({name: _list_column(name, values[name], lengths[name]) for name in names})


def _list_column(name: str, values: array[int], lengths: array[int]) -> Any:
    flat = np.frombuffer(values, dtype=values.typecode) if len(values) else np.zeros(0, dtype=values.typecode)
    offsets = np.concatenate([[0], np.cumsum(np.frombuffer(lengths, dtype=np.int64))])
    if _TYPES.get(name, _OF_LABELS)[1] == pa.bool_():
        flat = flat.astype(bool)
    large = offsets[-1] > _LARGE
    kind = pa.LargeListArray if large else pa.ListArray
    offset_type = pa.int64() if large else pa.int32()
    return kind.from_arrays(pa.array(offsets, offset_type), pa.array(flat, _TYPES.get(name, _OF_LABELS)[1]))


def write_split(path: Path, table: pa.Table) -> None:
    """Write the table of :func:`encode_table` or :func:`table_of_rows` as an Arrow IPC file."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        # One record batch: then a reader's column is one contiguous piece of the mapped file.
        writer.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))


def is_punctuation(upos: str) -> bool:
    """Whether the words of a tag are no words to those who score trees without punctuation."""
    return upos in _PUNCTUATION


class Split:
    """The encoded sentences of one split; ``len()`` is their number."""

    def __init__(self, *shards: pa.Table) -> None:
        """``shards``: in order; each has at least the columns ``ids`` and ``frequency``."""
        self._set_up(Shards([Shard(table) for table in shards]))

    def _set_up(self, shards: Shards) -> None:
        self._shards = shards
        self.lengths: NDArray[np.int32] = shards.lengths
        """Number of ids of every sentence."""

    @cached_property
    def words(self) -> NDArray[np.int32]:
        """Number of words of every sentence."""
        found = [np.diff(shard.offsets("frequency")).astype(np.int32) for shard in self._shards]
        return np.concatenate([np.zeros(0, dtype=np.int32), *found])

    @classmethod
    def encode(cls, sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels) -> Split:
        """Encode sentences in memory, exactly as `prepare` does; see :func:`encode_table`."""
        return cls(encode_table(sentences, vocabulary, labels))

    @classmethod
    def open(cls, *paths: Path) -> Split:
        """Map files into memory, the shards of the split in order.

        Raises:
            DataError: a file is missing or damaged.
        """
        split = cls.__new__(cls)
        split._set_up(Shards(paths))
        return split

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The numbers of the first sentences of all shards, and behind them the number of sentences."""
        return self._shards.bounds

    def select(self, indices: NDArray[np.integer]) -> Split:
        """Some of the sentences, in the order of ``indices``, as a split of their own in memory."""
        if len(self._shards) == 1:
            return Split(self._shards[0].table.take(indices))
        owners = self._shards.place(indices)
        order = np.argsort(owners, kind="stable")
        parts = [
            self._shards[number].whole(self._shards).take(indices[owners == number] - self.bounds[number])
            for number in np.unique(owners).tolist()
        ]
        return Split(pa.concat_tables(parts).take(np.argsort(order)))

    def with_column(self, name: str, values: Sequence[Sequence[int]]) -> Split:
        """The same sentences with one more column of small numbers, those of each word."""

        def column(some: Sequence[Sequence[int]]) -> Any:
            flat = pa.array(list(chain.from_iterable(some)), pa.int8())
            return pa.ListArray.from_arrays(pa.array(np.cumsum([0, *map(len, some)]), pa.int32()), flat)

        shards = zip(self._shards, pairwise(self.bounds), strict=True)
        return Split(*(shard.table.append_column(name, column(values[begin:end])) for shard, (begin, end) in shards))

    def has(self, name: str) -> bool:
        """Whether the split has this column."""
        return name in self._shards.columns.names

    def columns(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield the values of all sentences, one after the other, a shard at a time."""
        if not self.has(name):
            raise KeyError(name)
        return (shard.values(name) for shard in self._shards)

    def column(self, name: str) -> NDArray[Any]:
        """Return the values of all sentences, one after the other; those of several shards are copied."""
        found = list(self.columns(name))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def row(self, name: str, index: int) -> NDArray[Any]:
        """Return the values of one sentence, in the column's own type."""
        shard, place = self._shards.of(index)
        offsets, values = shard[name]
        return values[offsets[place] : offsets[place + 1]]

    def text(self, name: str, index: int) -> str:
        """Return a sentence's ``spelling`` or ``form``."""
        return self.row(name, index).tobytes().decode()

    def padded(self, name: str, indices: NDArray[np.integer], fill: int | bool) -> NDArray[Any]:
        """Gather sentences into one array.

        Args:
            name: the column.
            indices: which sentences, [b].
            fill: value of the positions behind a sentence's end.

        Returns:
            [b, n] with n the longest of these sentences; int64, or bool for ``punct``.
        """
        if not self.has(name):
            raise KeyError(name)
        if len(self._shards) == 1:
            offsets, values = self._shards[0][name]
            return _padded(offsets, values, indices, fill)
        owners = self._shards.place(indices)
        parts = {}
        for number in np.unique(owners).tolist():
            offsets, values = self._shards[number][name]
            parts[number] = _padded(offsets, values, indices[owners == number] - self.bounds[number], fill)
        result = np.full(
            (len(indices), max((part.shape[1] for part in parts.values()), default=0)), fill,
            dtype=next((part.dtype for part in parts.values()), np.dtype(np.int64)),
        )  # fmt: skip
        for number, part in parts.items():
            result[owners == number, : part.shape[1]] = part
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
        """Gather ``values``, one for each id of the whole split, like :meth:`padded`; the result has their type."""
        return _padded(self._starts, values, indices, fill, values.dtype)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where the ids of every sentence begin among those of all, and where the last ones end."""
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
