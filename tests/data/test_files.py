"""From bytes to lines: encodings, compression, where a corpus is looked for, how it is fingerprinted, and blocks."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Stdin, real_data

from probtrans_cli.data import files
from probtrans_cli.data.blocks import Block, Ends, cut, in_file, lines_of
from probtrans_cli.data.corpus.manifest import find_sources
from probtrans_cli.data.files import COMPRESSED, UNPACKED_RATIO, find, open_lines
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data


def test_plain_compressed_and_standard_input_agree(tmp_path: Path, stdin: Stdin) -> None:
    content = "\ufeffdas Haus\r\n\nzwei\u2028drei\x0cvier".encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    stdin(content)
    expected = ["das Haus\r", "", "zwei\u2028drei\x0cvier"]
    for path in (tmp_path / "a.txt", str(tmp_path / "a.txt.gz"), "-"):
        assert list(open_lines(path)) == expected
    assert not sys.stdin.buffer.closed


def test_joined_files_have_byte_order_marks_within(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(("\ufeff1\ta" + "\t_" * 8 + "\n\n").encode() * 2)
    assert [sentence.words for sentence in read_corpus(path)] == [["a"], ["a"]]


def test_bytes_that_are_not_utf8_name_the_line(tmp_path: Path, stdin: Stdin) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"fine\n\nf\xfcr\n")
    with pytest.raises(DataError, match=r"latin1.txt:3: not UTF-8 \(byte 0xfc at 2\)"):
        list(open_lines(path))
    stdin(gzip.compress(b"a"))
    with pytest.raises(DataError, match=r"^<stdin>:1: not UTF-8") as caught:
        list(open_lines("-"))
    assert ".gz" in (caught.value.hint or "")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.txt"):
        with pytest.raises(DataError, match="cannot be read"):
            list(open_lines(path))


def test_find_looks_here_then_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here / "data", there / "ud"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.delenv("PROBTRANS_DATA", raising=False)
    (here / "data" / "a.txt").touch()
    assert find("a.txt") == Path("data/a.txt")
    (here / "a.txt").touch()
    assert find("a.txt") == Path("a.txt")
    monkeypatch.setenv("PROBTRANS_DATA", str(there))
    (there / "ud" / "b.conllu.gz").touch()
    assert find("ud/b.conllu") == there / "ud" / "b.conllu.gz"
    assert find(str(here / "a.txt")) == here / "a.txt"
    assert find("-") == Path("-")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ud/en_ewt/train.conllu", "probtrans fetch ewt"),
        ("ud/wo_wtb/train.conllu", "probtrans fetch ud-treebanks"),
        ("text/x.txt", "PROBTRANS_DATA"),
        ("embedded:nowhere.conllu", "embedded:toy"),
        ("embedded:../recipe.py", "embedded:toy"),
        ("embedded:", "embedded:toy"),
        ("", "name files"),
        ("folder/", "name files"),
        (".", "name a file in it"),
        ("data", "name a file in it"),
        ("embedded:toy", "name a file in it"),
        ("a\0b", "PROBTRANS_DATA"),
        ("x" * 5000, "PROBTRANS_DATA"),
        ("~nobody/x", "PROBTRANS_DATA"),
    ],
)
def test_what_is_not_there(name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError) as caught:
        find(name)
    assert repr(name) in caught.value.message
    assert hint in (caught.value.hint or "")
    assert (" is a folder (/" in caught.value.message) == (hint == "name a file in it")
    data = Data(train="embedded:toy/train.conllu").model_copy(update={"extra": name or "/"})
    with pytest.raises(DataError) as of_recipe:
        find_sources(data, {})
    assert of_recipe.value.message.startswith("data.extra: ")


def test_sources_are_fingerprinted_once(tmp_path: Path, stdin: Stdin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones; small ones are read again."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a b\n")
    data = Data(train=[str(path), str(path)], dev=str(path))
    first = find_sources(data, {})
    assert [source.split for source in first] == ["train", "train", "dev"]
    assert first[0].sha256 == hashlib.sha256(b"a b\n").hexdigest()
    known = {(str(path), first[0].size, first[0].mtime_ns): "believed"}
    assert {source.sha256 for source in find_sources(data, known)} == {first[0].sha256}
    monkeypatch.setattr("probtrans_cli.data.corpus.manifest.QUICKLY_READ", 3)
    assert {source.sha256 for source in find_sources(data, known)} == {"believed"}
    stdin(b"a b\n")
    (piped,) = find_sources(Data(train="-"), {})
    assert piped.sha256 == first[0].sha256
    stdin(b"a b\n")
    with pytest.raises(DataError, match="twice"):
        find_sources(Data(train="-", dev="-"), {})


def test_counts_of_wikitext() -> None:
    sentences = [sentence.words for sentence in read_corpus(real_data("text/wikitext-2/valid.txt"))]
    assert (len(sentences), sum(map(len, sentences))) == (2461, 213886)
    assert sum(words.count("<unk>") for words in sentences) == 11718


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
    content = b"x\n" + b"a" * 14_000_000
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
        messages, lines = set(), []
        for block in cut(str(path), path.stat().st_size, 60):
            try:
                lines += list(lines_of(block, ends))
            except DataError as error:
                messages.add(in_file(block, ends, error.message))
        assert f"{path}:41: a line of more than 50 bytes" in messages
        assert set(lines) <= {"one", "two", "", "a"} | {"a" * i for i in range(51)}


def test_blank_lines_without_end_are_not_held() -> None:
    """Those in front of the first line with something are all looked at by some readers, but not for ever."""
    lines = ("" for _ in range(10**9))
    first, every = files.begin(lines)
    assert first == ""
    assert next(every) == ""


# --- blocks: a file that is cut into them has the same sentences, wherever it is cut ----------------------------------

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
    of_blocks = [sentence for block in blocks for sentence in read_conllu(lines_of(block, "empty line"), "a")]
    of_file = read_conllu(open_lines(path), "a")
    assert [sentence.lines for sentence in of_blocks] == [sentence.lines for sentence in of_file]


def test_files_of_one_block(tmp_path: Path) -> None:
    """Compressed ones, and those that name their columns, which stand in the first line alone."""
    for ending in COMPRESSED:
        assert cut(f"a{ending}", 1000, 10) == [Block(f"a{ending}", 1000)]
    assert len(cut("a.txt", 1000, 10)) == 100
    assert cut("a.txt", 0, 10) == [Block("a.txt", 0)]
    path = tmp_path / "a.cupt"
    for begin, expected in (("\ufeff# global.columns = ID", 1), ("# sent_id = 1", 50)):
        path.write_text(begin.ljust(500, "x"), "utf-8")
        assert len(cut(str(path), 500, 10)) == expected


def test_a_fault_is_named_by_its_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\n" * 50 + b"f\xfcr\n\n" + b"two\n\n" * 50)
    both: tuple[Ends, ...] = ("line", "empty line")
    for ends in both:
        messages = []
        for block in cut(str(path), path.stat().st_size, 60):
            try:
                assert set(lines_of(block, ends)) <= {"one", "two", ""}
            except DataError as error:
                messages.append(in_file(block, ends, error.message))
        assert messages == [f"{path}:101: not UTF-8 (byte 0xfc at 2)"]


def test_an_archive_of_no_bytes_was_cut_off(tmp_path: Path) -> None:
    for ending in COMPRESSED:
        with pytest.raises(DataError, match=rf"a{ending}: an archive of no bytes"):
            read(tmp_path / f"a{ending}", b"")


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
