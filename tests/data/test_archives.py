"""Compressed files: all of their streams or an error, and never much more than there is text in any."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from probtrans_cli.data import files
from probtrans_cli.data.blocks import cut, in_file, lines_of
from probtrans_cli.data.files import COMPRESSED, UNPACKED_RATIO, open_lines
from probtrans_cli.errors import DataError

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: bytes(pa.Codec("zstd").compress(content)),
}
FIRST, SECOND = b"zwei\n" * 40, b"drei\n" * 40
EVERY = pytest.mark.parametrize("ending", COMPRESSED)


def read(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    return list(open_lines(path))


@EVERY
def test_streams_one_behind_the_other(ending: str, tmp_path: Path) -> None:
    pack = PACK[ending]
    streams = [FIRST, b"", SECOND, os.urandom(300_000).hex().encode() + b"\n"]
    lines = b"".join(streams).decode().split("\n")[:-1]
    assert read(tmp_path / f"a{ending}", b"".join(map(pack, streams))) == lines
    assert read(tmp_path / f"A{ending.upper()}", b"".join(map(pack, streams))) == lines
    assert read(tmp_path / ending, pack(b"")) == []


@EVERY
def test_what_is_cut_off_or_damaged_anywhere_is_refused(ending: str, tmp_path: Path) -> None:
    pack, path = PACK[ending], tmp_path / f"a{ending}"
    first, second = pack(FIRST), pack(SECOND)
    for end in range(1, len(first + second)):
        if end == len(first):
            assert len(read(path, first)) == 40  # nobody can know that there was more
            continue
        with pytest.raises(DataError, match=rf"a{ending}:\d+: cannot be unpacked") as caught:
            read(path, (first + second)[:end])
        assert f"must not end in {ending}" in (caught.value.hint or "")
        assert caught.value.exit_code == 3
    for place in range(len(second)):
        damaged = bytearray(second)
        damaged[place] ^= 0xFF
        with suppress(DataError):  # what has no checksum may be read as something else
            assert len(read(path, first + damaged)) == 80


@EVERY
@pytest.mark.parametrize("behind", [b"rubbish", b"x", b"\n", b"\0" * 3 + b"x", FIRST])
def test_what_stands_behind_the_streams_is_refused(ending: str, behind: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be unpacked") as caught:
        read(tmp_path / f"a{ending}", PACK[ending](FIRST) + behind)
    assert "something behind its end" in (caught.value.hint or "")


@pytest.mark.parametrize("zeros", [4, 8, 400_000])
def test_zeros_that_a_format_allows(zeros: int, tmp_path: Path) -> None:
    """Between streams and behind them: .xz in multiples of four, .gz any, as tapes leave them."""
    for ending in (".gz", ".xz"):
        first, second = PACK[ending](FIRST), PACK[ending](SECOND)
        padding = b"\0" * zeros
        assert len(read(tmp_path / f"a{ending}", first + padding + second + padding)) == 80
    with pytest.raises(DataError, match="zeros behind a stream"):
        read(tmp_path / "a.xz", first + padding + b"\0" + second)
    with pytest.raises(DataError, match="cannot be unpacked"):
        read(tmp_path / "a.xz", b"\0" * 4 + first)


# --- bounds -----------------------------------------------------------------------------------------------------------


@EVERY
def test_what_unpacks_to_far_more_than_text_does_is_refused(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = tmp_path / f"a{ending}", b"a\n" * 100_000
    assert len(read(path, PACK[ending](content))) == 100_000, "a small one is read, whatever it has been packed to"
    monkeypatch.setattr(files, "UNPACKED_BYTES", 50_000)
    monkeypatch.setattr(files, "UNPACKED_RATIO", 100)
    with pytest.raises(DataError, match=rf"a{ending}:\d+: cannot be unpacked: it has more than") as caught:
        list(open_lines(path))
    assert "give the unpacked file" in (caught.value.hint or "")
    varied = "".join(f"{i} sheep\n" for i in range(20_000))
    assert len(read(path, PACK[ending](varied.encode()))) == 20_000
    assert UNPACKED_RATIO == 1000


@pytest.mark.parametrize("ending", ["", *COMPRESSED])
def test_a_line_without_end_is_not_held(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    path = tmp_path / f"a{ending}"
    content = b"x\n" + b"a" * 20_000_000
    path.write_bytes(PACK[ending](content) if ending else content)
    del content
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"a{ending}:2: a line of more than 1,000 bytes") as caught:
        list(open_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000  # of which the window of .xz is 8
    assert (caught.value.exit_code, "line break" in (caught.value.hint or "")) == (3, True)


def test_the_longest_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 10)
    assert read(tmp_path / "a", b"123456789\n1234567890") == ["123456789", "1234567890"]
    with pytest.raises(DataError, match="a:2: a line of more"):
        read(tmp_path / "a", b"123456789\n1234567890\n")


def test_a_line_without_end_in_a_file_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 50)
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\n" * 20 + b"a" * 2000 + b"\n\n" + b"two\n\n" * 20)
    for ends in ("line", "empty line"):
        told, found = set(), []
        for block in cut(str(path), path.stat().st_size, 60):
            try:
                found += list(lines_of(block, ends))
            except DataError as error:
                told.add(in_file(block, ends, error.message))
        assert f"{path}:41: a line of more than 50 bytes" in told
        assert set(found) <= {"one", "two", "", "a"} | {"a" * i for i in range(51)}


def test_blank_lines_without_end_are_not_held() -> None:
    """Those in front of the first line with something are all looked at by some readers, but not for ever."""
    lines = ("" for _ in range(10**9))
    first, every = files.begin(lines)
    assert first == ""
    assert next(every) == ""
