"""From bytes to lines: encodings, compression, where a corpus is looked for, and how it is fingerprinted."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
from pathlib import Path

import pytest
from support import Stdin, real_data

from probtrans_cli.data.corpus.sources import find_sources
from probtrans_cli.data.files import find, open_lines
from probtrans_cli.data.readers import read_corpus
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


def test_bytes_that_are_not_utf8_name_the_line(tmp_path: Path, stdin: Stdin) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"fine\n\nf\xfcr\n")
    with pytest.raises(DataError, match=r"latin1.txt:3: not UTF-8 \(byte 0xfc at 2\)"):
        list(open_lines(path))
    stdin(gzip.compress(b"a"))
    with pytest.raises(DataError, match=r"^<stdin>:1: not UTF-8") as caught:
        list(open_lines("-"))
    assert ".gz" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "content",
    [b"plain text", gzip.compress(os.urandom(9000).hex().encode())[:5000], gzip.compress(b"a")[:-3], b"\x1f\x8b\x08"],
    ids=["no archive", "cut", "no checksum", "a header"],
)
def test_damaged_archives(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.txt.gz:\d+: cannot be unpacked"):
        list(open_lines(path))


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
        ("ud/en_ewt/train.conllu", "data_scripts/ud_english_ewt.py"),
        ("ud/wo_wtb/train.conllu", "data_scripts/ud_treebanks.py"),
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
    monkeypatch.setattr("probtrans_cli.data.corpus.sources.QUICKLY_READ", 3)
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
