"""A file cut into blocks has the same sentences as the whole file, wherever it is cut."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.blocks import Block, Ends, cut, in_file, lines_of
from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.errors import DataError

LINES = st.lists(st.sampled_from(["", "a b", "ä", "c\r", "\r", "\ufeffx", "d" * 20]), max_size=12)


@given(lines=LINES, most=st.integers(1, 40), last=st.booleans())
def test_blocks_of_lines_are_the_file(
    lines: list[str], most: int, last: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("\n".join(lines).encode() + b"\n" * last)
    blocks = cut(str(path), path.stat().st_size, most)
    assert sum(block.size for block in blocks) == path.stat().st_size
    assert [line for block in blocks for line in lines_of(block, "line")] == list(open_lines(path))


SENTENCES = st.lists(
    st.sampled_from(["1\ta" + "\t_" * 8, "# text = b\n1\tb" + "\t_" * 8, "1\tc" + "\t_" * 8 + "\r"]), max_size=8
)


@given(sentences=SENTENCES, most=st.integers(1, 90), between=st.sampled_from(["\n\n", "\n\r\n", "\n\n\n"]))
def test_blocks_of_conllu_have_whole_sentences(
    sentences: list[str], most: int, between: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("conllu") / "a.conllu"
    path.write_bytes("".join(sentence + between for sentence in sentences).encode())
    blocks = cut(str(path), path.stat().st_size, most)
    found = [one.lines for block in blocks for one in read_conllu(lines_of(block, "empty line"), "a")]
    assert found == [one.lines for one in read_conllu(open_lines(path), "a")]


def test_a_compressed_file_is_one_block(tmp_path: Path) -> None:
    for ending in (".gz", ".xz", ".zst"):
        assert cut(f"a{ending}", 1000, 10) == [Block(f"a{ending}", 1000)]
    assert len(cut("a.txt", 1000, 10)) == 100
    assert cut("a.txt", 0, 10) == [Block("a.txt", 0)]


def test_a_file_that_names_its_columns_is_one_block(tmp_path: Path) -> None:
    """They stand in its first line alone."""
    path = tmp_path / "a.cupt"
    for begin, expected in (("\ufeff# global.columns = ID", 1), ("# sent_id = 1", 50)):
        path.write_text(begin.ljust(500, "x"), "utf-8")
        assert len(cut(str(path), 500, 10)) == expected


@pytest.mark.parametrize("ends", ["line", "empty line"])
def test_a_fault_is_named_by_its_line_in_the_file(tmp_path: Path, ends: Ends) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\n" * 50 + b"f\xfcr\n\n" + b"two\n\n" * 50)
    told = []
    for block in cut(str(path), path.stat().st_size, 60):
        try:
            assert set(lines_of(block, ends)) <= {"one", "two", ""}
        except DataError as error:
            told.append(in_file(block, ends, error.message))
    assert told == [f"{path}:101: not UTF-8 (byte 0xfc at 2)"]


@pytest.mark.parametrize("ending", ["gz", "xz", "zst"])
def test_an_archive_of_no_bytes_was_cut_off(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"")
    with pytest.raises(DataError, match=rf"a.{ending}: an archive of no bytes"):
        list(open_lines(path))


def zstd(path: Path, *options: str) -> Path:
    """Pack a file by the command of Zstandard; the archive."""
    try:
        subprocess.run(["zstd", "-q", *options, str(path)], check=True)
    except FileNotFoundError:
        pytest.skip("there is no command zstd")
    return path.with_name(f"{path.name}.zst")


def test_what_the_command_zstd_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("two farmers\n" * 999, "utf-8")
    assert list(open_lines(zstd(path))) == ["two farmers"] * 999


def test_a_window_that_is_too_large_is_named(tmp_path: Path) -> None:
    """A window is as large as the content at most: 135 MB of nothing, which the disk does not hold."""
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(2**27 + 2**20)
    with pytest.raises(DataError, match=r"a.txt.zst:1: cannot be unpacked") as caught:
        list(open_lines(zstd(path, "-1", "--long=31")))
    assert "--long=27 at most" in (caught.value.hint or "")
