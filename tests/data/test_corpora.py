"""The scripts that put corpora in place: downloads, conversions of licensed copies, and trees in brackets."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import re
import urllib.error
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import FOLDER, load
from support import real_data

from probtrans_cli.data.readers import read_corpus

shared = load("corpus_files")

PUBLIC = {
    "ud_english_ewt": "ud/en_ewt",
    "ud_treebanks": "ud",
    "cogs": "cogs",
    "sst2": "sst/sst2",
    "sst5": "sst/sst5",
    "wnut17": "ner/wnut17",
    "wikigold": "ner/wikigold",
    "wikitext2": "text/wikitext-2",
}
LICENSED = ("ptb_mlm", "ptb_pos", "bllip", "conll03")
Captured = pytest.CaptureFixture[str]


def written(folder: Path) -> dict[str, str]:
    """The files below a folder and their texts."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- public files -----------------------------------------------------------------------------------------------------


def serve(files: dict[str, bytes]) -> Callable[..., BinaryIO]:
    """A stand-in for ``urlopen`` that knows these addresses."""

    def urlopen(address: str, timeout: float) -> BinaryIO:
        if address not in files:
            raise urllib.error.HTTPError(address, 404, "Not Found", http.client.HTTPMessage(), None)
        return io.BytesIO(files[address])

    return urlopen


def address(file: shared.PublicFile) -> str:
    return f"https://raw.githubusercontent.com/{file.repository}/{file.upstream}"


@pytest.mark.parametrize("name", PUBLIC)
def test_public_files_are_pinned(name: str) -> None:
    files = load(name).FILES
    assert len({file.path for file in files}) == len({file.sha256 for file in files}) == len(files)
    for file in files:
        assert re.fullmatch(r"[\w-]+/[\w-]+/[0-9a-f]{40}", file.repository)
        assert re.fullmatch(r"[\w./-]+", file.upstream)
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)


@pytest.mark.parametrize("name", PUBLIC)
def test_download_reproduces_the_real_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    real = real_data(PUBLIC[name])
    script = load(name)

    def content(path: str) -> bytes:
        packed = real / f"{path}.gz"
        return gzip.decompress(packed.read_bytes()) if packed.exists() else (real / path).read_bytes()

    monkeypatch.setattr("urllib.request.urlopen", serve({address(file): content(file.path) for file in script.FILES}))
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    assert script.main([]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("written") == len(printed.out.splitlines())
    assert printed.err == f"{script.LICENCE}\n"
    below = [str(path.relative_to(real)).removesuffix(".gz") for path in real.rglob("*") if path.is_file()]
    fetched, below = (
        [path for path in of if not path.startswith(("split-", "en_ewt/"))]
        for of in (written(tmp_path / PUBLIC[name]), below)
    )
    assert sorted(fetched) == sorted(below)
    assert script.main([]) == 0
    assert capsys.readouterr().out.count("already in place") == len(printed.out.splitlines())


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """SST-5 with three tiny files, served as if they were the real ones."""
    script = load("sst5")
    contents = {file: f"4 a fine {file.path}\n".encode() for file in script.FILES}
    files = [replace(f, sha256=hashlib.sha256(c).hexdigest(), size=len(c)) for f, c in contents.items()]
    monkeypatch.setattr(script, "FILES", files)
    monkeypatch.setattr("urllib.request.urlopen", serve({address(f): c for f, c in contents.items()}))
    return script


def test_a_download_goes_under_the_data_folder(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROBTRANS_DATA", raising=False)
    assert tiny.main([]) == 0
    names = ["data/sst/sst5/dev.txt", "data/sst/sst5/test.txt", "data/sst/sst5/train.txt"]
    assert list(written(tmp_path)) == names
    assert tiny.main(["--to", "elsewhere"]) == 0
    assert (tmp_path / "elsewhere" / "train.txt").read_text() == "4 a fine train.txt\n"


def test_a_missing_file_is_named(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", serve({}))
    assert tiny.main(["--to", str(tmp_path)]) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"error: {address(tiny.FILES[0])}: HTTP Error 404")
    assert not written(tmp_path)


class Broken(io.BytesIO):
    """A connection that ends in the middle of a file."""

    def read(self, size: int | None = -1) -> bytes:
        raise http.client.IncompleteRead(b"4 a", 5)


def test_a_lost_connection_leaves_nothing(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", lambda address, timeout: Broken())
    assert tiny.main(["--to", str(tmp_path)]) == 3
    assert "IncompleteRead" in capsys.readouterr().err.splitlines()[-1]
    assert not written(tmp_path)


def test_a_file_that_is_too_long_is_cut(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", lambda address, timeout: io.BytesIO(bytes(10**6)))
    assert tiny.main(["--to", str(tmp_path)]) == 3
    assert "the file is too long" in capsys.readouterr().err
    assert not written(tmp_path)


def test_a_local_copy_is_found_by_its_official_path(tiny: ModuleType, tmp_path: Path) -> None:
    copy = tmp_path / "sentiment_dataset" / "data"
    copy.mkdir(parents=True)
    for file in tiny.FILES:
        (tmp_path / "sentiment_dataset" / file.upstream).write_text(f"4 a fine {file.path}\n")
    assert tiny.main(["--from", str(copy.parent), "--to", str(tmp_path / "one")]) == 0
    assert tiny.main(["--from", str(copy), "--to", str(tmp_path / "other")]) == 0
    assert written(tmp_path / "one") == written(tmp_path / "other")


def test_corrected_rows_of_cogs(tmp_path: Path) -> None:
    """Rows count where the table has a theme that the labels lack, in the one case that was corrected."""
    theme, agent = "roll . theme ( x _ 5 , x _ 1 )", "roll . agent ( x _ 5 , x _ 1 )"
    rows = [
        (theme, "theme", "obj_pp_to_subj_pp"),
        (theme, "agent", "obj_pp_to_subj_pp"),
        (agent, "agent", "obj_pp_to_subj_pp"),
        (theme, "agent", "cp_recursion"),
        (theme, "agent", "obj_pp_to_subj_pp"),
    ]
    (tmp_path / "seqtag").mkdir()
    (tmp_path / "gen.tsv").write_text("".join(f"A hat in a box rolled .\t{form}\t{kind}\n" for form, _, kind in rows))
    records = "\n".join(json.dumps({"role": ["", role, "", "", "", "", ""]}) for _, role, _ in rows)
    (tmp_path / "seqtag" / "gen_seqtag.jsonl").write_text(records)
    assert load("cogs").corrected_rows(tmp_path) == b"2\n5\n"


# --- a user's own copy ------------------------------------------------------------------------------------------------


def put(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, newline="")
    return folder


MIKOLOV = {
    "ptb.train.txt": " mr. <unk> is N years old \n he has no dog \n",
    "ptb.valid.txt": " a <unk> is no dog \n",
    "ptb.test.txt": " he is old \n",
}


def test_mikolovs_files_lose_the_blanks_at_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    script = load("ptb_mlm")
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "data"))
    source = put(tmp_path / "simple-examples", MIKOLOV)
    assert script.main([str(source)]) == 0
    assert written(tmp_path / "data") == {
        "text/ptb/dev.txt": "a <unk> is no dog\n",
        "text/ptb/test.txt": "he is old\n",
        "text/ptb/train.txt": "mr. <unk> is N years old\nhe has no dog\n",
    }
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 4
    assert warnings[0].startswith("warning: ptb.train.txt: lines: 2, published 42,068")
    assert warnings[1].startswith("warning: ptb.train.txt: different words, <unk> included: 10, published 9,999")
    monkeypatch.setattr(script, "FILES", {"dev": ("ptb.valid.txt", 1)})
    assert script.main([str(source)]) == 0
    assert capsys.readouterr().err == ""


def test_converted_files_are_put_in_place_together(tmp_path: Path, capsys: Captured) -> None:
    script = load("ptb_mlm")
    source, out = put(tmp_path / "in", MIKOLOV), tmp_path / "out"
    assert script.main([str(source), "--to", str(out)]) == 0
    assert script.main([str(source), "--to", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [
        f"{out / name}.txt: already in place" for name in ("train", "dev", "test")
    ]
    put(out, {"test.txt": "mine\n"})
    (out / "train.txt").unlink()
    assert script.main([str(source), "--to", str(out)]) == 3
    assert "--force" in capsys.readouterr().err
    assert written(out) == {"dev.txt": "a <unk> is no dog\n", "test.txt": "mine\n"}
    assert script.main([str(source), "--to", str(out), "--force"]) == 0
    assert written(out)["test.txt"] == "he is old\n"


@pytest.mark.parametrize("name", LICENSED)
def test_a_folder_without_the_corpus(name: str, tmp_path: Path, capsys: Captured) -> None:
    assert load(name).main([str(tmp_path / "nothing"), "--to", str(tmp_path / "out")]) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"error: {tmp_path / 'nothing'}")
    assert not written(tmp_path)


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path, capsys: Captured) -> None:
    source = put(tmp_path / "in", MIKOLOV)
    (source / "ptb.valid.txt").write_bytes(b" a dog \n a caf\xe9 \n")
    assert load("ptb_mlm").main([str(source), "--to", str(tmp_path / "out")]) == 3
    assert f"error: {source / 'ptb.valid.txt'}:2: not UTF-8 (byte 0xe9)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_lines_end_in_either_way(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for content, lines in ((b"", []), (b"a\r\n\r\nb\r\n", ["a", "", "b"]), (b"a\nb", ["a", "b"]), (b"\n", [""])):
        path.write_bytes(content)
        assert shared.read_lines(path) == lines


CONLL = """\
-DOCSTART- -X- O O

Jo NNP I-NP I-PER
sings VBZ I-VP O

-DOCSTART- -X- O O

Yes UH I-INTJ O
""".replace("\n", "\r\n")


def test_conll03_is_written_as_it_is(tmp_path: Path, capsys: Captured) -> None:
    script = load("conll03")
    source = put(tmp_path / "in", {f"eng.{part}": CONLL for part in ("train", "testa", "testb")})
    assert script.main([str(source), "--to", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == {
        f"{split}.conll": CONLL.replace("\r\n", "\n") for split in ("dev", "test", "train")
    }
    warnings = capsys.readouterr().err
    for part, count in (("train", "14,041"), ("testa", "3,250"), ("testb", "3,453")):
        assert f"warning: eng.{part}: sentences: 2, published {count}" in warnings


def test_conll03_names_the_line_of_another_shape(tmp_path: Path, capsys: Captured) -> None:
    source = put(tmp_path, {f"eng.{part}": CONLL for part in ("train", "testa", "testb")})
    put(tmp_path, {"eng.testb": "Jo NNP I-NP I-PER\nsings O\n"})
    assert load("conll03").main([str(source), "--to", str(tmp_path / "out")]) == 3
    assert f"error: {source / 'eng.testb'}:2: 2 columns instead of 4" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


TREES = """
( (S
    (NP-SBJ-1 (DT The) (NN cat) )
    (VP (VBD was)
      (VP (VBN fed)
        (NP (-NONE- *-1) )
        (PRN (-LRB- -LRB-) (RB twice) (-RRB- -RRB-) )))
    (. .) ))
( (NP (-NONE- *)))
( (X (CD 3\\/4) ))
"""


def treebank(folder: Path) -> Path:
    for section in range(25):
        put(folder, {f"{section:02}/wsj_{section:02}02.mrg": "( (INTJ (UH Oh) ))\n", f"{section:02}/README": "("})
    return put(folder, {"19/WSJ_1901.MRG": TREES})


def test_treebank_becomes_conllu(tmp_path: Path, capsys: Captured) -> None:
    source = treebank(tmp_path / "treebank_3" / "parsed" / "mrg" / "wsj")
    script = load("ptb_pos")
    assert script.main([str(tmp_path / "treebank_3"), "--to", str(tmp_path / "one")]) == 0
    assert script.main([str(source), "--to", str(tmp_path / "other")]) == 0
    assert written(tmp_path / "one") == written(tmp_path / "other")
    found = {split: list(read_corpus(tmp_path / "one" / f"{split}.conllu")) for split in ("train", "dev", "test")}
    assert {split: len(sentences) for split, sentences in found.items()} == {"train": 19, "dev": 5, "test": 3}
    first, second, third = found["dev"][:3]
    assert first.words == ["The", "cat", "was", "fed", "-LRB-", "twice", "-RRB-", "."]
    assert first.tags["xpos"] == ["DT", "NN", "VBD", "VBN", "-LRB-", "RB", "-RRB-", "."]
    assert (second.words, second.tags["xpos"]) == (["3\\/4"], ["CD"])
    assert third.words == ["Oh"]
    text = (tmp_path / "one" / "dev.conllu").read_text()
    assert re.findall("# sent_id = (.*)", text)[:3] == ["wsj_1901.1", "wsj_1901.3", "wsj_1902.1"]
    assert "warning: dev: words: 12, published 131,768" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["section", "trees", "bracket"])
def test_treebank_must_be_whole(damage: str, tmp_path: Path, capsys: Captured) -> None:
    source = treebank(tmp_path / "wsj")
    file = source / "23" / "wsj_2302.mrg"
    if damage == "section":
        for path in (source / "23").iterdir():
            path.unlink()
        (source / "23").rmdir()
    elif damage == "trees":
        file.rename(file.with_suffix(".pos"))
    else:
        file.write_text("( (UH Oh)\n (UH well\n")
    assert load("ptb_pos").main([str(tmp_path), "--to", str(tmp_path / "out")]) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"error: {file}:2: 2 brackets" if damage == "bracket" else f"error: {source / '23'}: no")
    assert not (tmp_path / "out").exists()


def test_bllip_keeps_frequent_words(tmp_path: Path, capsys: Captured) -> None:
    script = load("bllip")
    tree = "(S1 (S (`` ``) (NP (DT The) (NN goat)) (VP (AUX is) ({tag} {word})) (. .)))\n"
    punctuation, price = "(S1 (. .))\n", "(S1 (NP ($ $) (CD 3.50) (NNS Cents)) (NN ))\n"
    sections = [section for part in script.SECTIONS.values() for section in part]
    source = put(
        tmp_path / "bliip_87_89_wsj",
        {f"{section}/a.000": tree.format(tag="JJ", word=f"old{i}") + punctuation for i, section in enumerate(sections)},
    )
    put(source, {"1988/w8_003/b.000": price * 27, "1988/w8_003/c.000": tree.format(tag="JJ", word="rare") * 20})
    (source / "1987" / "w7_071").rename(source / "1987" / "W7_071")
    assert script.main([str(tmp_path), "--to", str(tmp_path / "out")]) == 0
    # 12 + 20 times: the goat is oldN; 27 times: N.N cents.
    line = "the goat is <unk>\n"
    assert written(tmp_path / "out") == {"dev.txt": line * 3, "test.txt": line * 3, "train.txt": line * 6}
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "train: 6 sentences, 24 words"
    assert "warning: words with <unk> and <mask>: 5, published 30,231" in printed.err
    put(source, {"1989/w9_028/d.000": price})
    assert script.main([str(source), "--to", str(tmp_path / "out"), "--force"]) == 0
    assert "N.N cents\n" in (tmp_path / "out" / "train.txt").read_text()


def test_bllip_must_be_whole(tmp_path: Path, capsys: Captured) -> None:
    for year in ("1987", "1988", "1989"):
        (tmp_path / year).mkdir()
    assert load("bllip").main([str(tmp_path), "--to", str(tmp_path / "out")]) == 3
    assert "1989/w9_037" in capsys.readouterr().err


# --- all scripts ------------------------------------------------------------------------------------------------------


TOYS = ("make_toy_treebank", "make_toy_tuples")


def test_every_script_is_in_the_table() -> None:
    table = (FOLDER / "README.md").read_text("utf-8")
    scripts = {path.name for path in FOLDER.glob("*.py")} - {"corpus_files.py"}
    assert scripts == {f"{name}.py" for name in (*PUBLIC, *LICENSED, "minilm", "openie", *TOYS)}
    assert all(f"| `{name}`" in table for name in scripts)


shared_trees = load("corpus_files")

WORDS = st.text("ab*/-'", min_size=1, max_size=3)
LEAVES = st.tuples(st.sampled_from(["NN", "VB", "-NONE-", "-LRB-"]), WORDS)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["S", "NP", ""]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)
Node = tuple[str, "str | list[Node]"]


def bracketed(node: Node, space: str) -> str:
    label, content = node
    inside = content if isinstance(content, str) else space.join(bracketed(child, space) for child in content)
    return f"({label} {inside})"


def leaves(node: Node) -> list[tuple[str, str]]:
    label, content = node
    if isinstance(content, str):
        return [(content, label)] if label != "-NONE-" else []
    return [leaf for child in content for leaf in leaves(child)]


@settings(max_examples=50)
@given(st.lists(NODES, max_size=3), st.sampled_from(["", " ", "\n  "]))
def test_trees_are_read_as_written(trees: list[Node], space: str) -> None:
    text = space.join(bracketed(tree, space) for tree in trees)
    assert list(shared_trees.tagged_sentences(text.split("\n"), "x")) == [leaves(tree) for tree in trees]


def test_a_very_deep_tree() -> None:
    depth = 200_000
    assert list(shared_trees.tagged_sentences(["(S " * depth, "(UH oh)", ")" * depth], "x")) == [[("oh", "UH")]]


def test_brackets_that_do_not_match() -> None:
    for text, message in [
        ("( (S (UH oh))\n\n", "x:3: 1 brackets are not closed; the tree begins in line 1"),
        ("(UH oh)\n(UH ah))", "x:2: a closing bracket too many"),
        (")", "x:1: a closing bracket too many"),
        ("(S\n(UH oh) ah)", "x:2: 'ah' after a closing bracket"),
        ("oh (UH oh)", "x:1: 'oh' outside of all brackets"),
        ("(NP old dog)", "x:1: (NP old dog) instead of (TAG word)"),
        ("(S (NN))", "x:1: (NN) instead of (TAG word)"),
        ("()", "x:1: () instead of (TAG word)"),
        ("(NP dog (S (UH oh)))", "x:1: (NP dog ( holds both a word and brackets"),
    ]:
        with pytest.raises(shared_trees.CorpusError, match=re.escape(message)):
            list(shared_trees.tagged_sentences(text.split("\n"), "x"))


def test_a_bracket_without_a_word_can_be_skipped() -> None:
    text = "(S1 (NN ) (UH oh) ())"
    assert list(shared_trees.tagged_sentences([text], "x", skip_wordless=True)) == [[("oh", "UH")]]
