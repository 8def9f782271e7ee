"""Large corpora: parts, shards and processes change nothing; a kill costs a part; globs and folders name files."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_treebank import names, recipe
from support import environment, sentences

from probtrans_cli.data.corpus import parts
from probtrans_cli.data.corpus import prepared as module
from probtrans_cli.data.corpus.prepared import Prepared, open_prepared, prepare
from probtrans_cli.data.files import find_all
from probtrans_cli.errors import DataError, UsageError

VOCABULARIES: list[dict[str, Any]] = [
    {"kind": "words", "lowercase": True, "features": {"rows": 64}},
    {"kind": "words", "min_count": 2, "punctuation": False},
    {"kind": "char"},
    {"kind": "wordpiece", "size": 120},
    {"kind": "sentencepiece", "size": 60},
]


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with training files of three kinds, and parts of a few sentences."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    Path("a.conllu").write_text(sentences("train", 60), "utf-8")
    Path("b.txt").write_text("two cheap farmers fold\n\nthe Bakers sell a pie .\n" * 40, "utf-8")
    Path("c.txt.gz").write_bytes(gzip.compress(b"farmers fold a dark shirt .\n" * 9))
    Path("dev.conllu").write_text(sentences("dev", 9), "utf-8")
    monkeypatch.setattr(parts, "BYTES", 4000)
    return tmp_path


def large_recipe(**data: Any) -> Any:
    return recipe(**{"train": ["a.conllu", "b.txt", "c.txt.gz"], "dev": "dev.conllu", "shard_sentences": 9, **data})


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a prepared folder, the times of the sources left out."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    manifest = json.loads(files["manifest.json"])
    assert manifest["sha256"].keys() == manifest["files"].keys() == files.keys() - {"manifest.json"}
    assert sorted(name for shards in manifest["shards"].values() for name in shards) == sorted(
        name for name in files if name.endswith(".arrow")
    )
    return files


def rows(prepared: Prepared, split: str = "train") -> list[list[int]]:
    stored = prepared.splits[split]
    columns = [name for name in ("ids", "frequency", "first", "read", "heads", "upos", "features") if stored.has(name)]
    return [[*stored.row(name, i).tolist(), -9] for i in range(len(stored)) for name in columns]


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda section: "-".join(map(str, section.values())))
def test_a_corpus_in_shards_is_the_corpus(
    vocabulary: dict[str, Any], large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = prepare(large_recipe(vocabulary=vocabulary, prepared="many"))
    assert len(many.manifest["shards"]["train"]) > 8
    assert many.manifest["shards"]["dev"] == ["dev.arrow"]
    assert int(np.diff(many.splits["train"].bounds).max()) == 9
    with monkeypatch.context() as patch:
        patch.setattr(parts, "BYTES", 1 << 30)
        whole = prepare(large_recipe(vocabulary=vocabulary, prepared="one", shard_sentences=1000))
    assert names(large / "one")[:2] == ["dev.arrow", "labels.json"]
    assert whole.manifest["shards"]["train"] == ["train.arrow"]
    for split in ("train", "dev"):
        assert rows(many, split) == rows(whole, split)
    for key in ("labels", "splits", "new_labels", "notes", "vocabulary"):
        assert many.manifest[key] == whole.manifest[key], key
    files = {name for name in names(large / "one") if not name.endswith(".arrow")} - {"manifest.json"}
    for name in files:
        assert (large / "one" / name).read_bytes() == (large / "many" / name).read_bytes()
    assert not prepare(large_recipe(vocabulary=vocabulary, prepared="many")).fresh
    checked = prepare(large_recipe(vocabulary=vocabulary, prepared="checked"), check=True)
    assert rows(checked) == rows(many)
    assert not (large / "checked").exists()


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(large: Path) -> None:
    files = []
    for jobs in (1, 2):
        made = prepare(large_recipe(prepared="here"), jobs=jobs)
        files.append(contents(made.folder))
        made.folder.rename(f"jobs-{jobs}")
    assert len(files[0]) > 10
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": "blank.txt"}, "^blank.txt: no sentence in it"),
        ({"dev": ["blank.txt", "empty.txt"]}, "^blank.txt, empty.txt: no sentence in them"),
        ({"train": ["a.conllu", "bad.txt"]}, "^bad.txt:901: not UTF-8"),
        ({"train": ["a.conllu", "bad.conllu"]}, r"^bad.conllu:\d\d\d: 2 columns"),
        ({"select": {"words": 1}}, "every sentence of data.train has more than 1 words"),
        ({"longest": 3, "too_long": "error"}, r"^a.conllu:1: a sentence of \d+ tokens"),
    ],
)
def test_faults_are_those_of_the_whole(change: dict[str, Any], message: str, large: Path) -> None:
    Path("blank.txt").write_text("\n \n" * 4000, "utf-8")
    Path("empty.txt").write_text("", "utf-8")
    Path("bad.txt").write_bytes(b"fine words\n" * 900 + b"f\xfcr\n" + b"fine words\n" * 900)
    Path("bad.conllu").write_text(sentences("train", 20) + "a\tb\n", "utf-8")
    with pytest.raises(DataError, match=message):
        prepare(large_recipe(**change, prepared="below/here"))
    assert not list(large.glob("below/here"))


def test_an_empty_file_among_others_is_told(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one cell of a large corpus may be; in one part, in many, and where a corpus is read as a whole."""
    Path("blank.txt").write_text("\n \n" * 4000, "utf-8")
    Path("empty.txt").write_text("", "utf-8")
    expected = rows(prepare(large_recipe(prepared="without", train=["a.conllu"], dev="dev.conllu")))
    files: dict[str, Any] = {"train": ["empty.txt", "a.conllu", "blank.txt"], "dev": ["dev.conllu", "empty.txt"]}
    warnings = [
        "data.train: 2 of 3 files have no sentence: empty.txt, blank.txt",
        "data.dev: 1 of 2 files have no sentence: empty.txt",
    ]
    for number in range(2):
        made = prepare(large_recipe(**files, prepared=f"with-{number}"))
        assert made.manifest["warnings"] == warnings
        assert rows(made) == expected
        monkeypatch.setattr(parts, "BYTES", 1 << 30)
    Path("one.txt").write_text("two farmers fold\nfarmers fold\n\nfold two\ntwo fold\n\n" * 3, "utf-8")
    documents: dict[str, Any] = {"format": "documents", "train": ["one.txt", "empty.txt"], "dev": "one.txt"}
    made = prepare(recipe({"kind": "pretrain"}, **documents, prepared="documents"))
    assert made.manifest["warnings"] == ["data.train: 1 of 2 files have no sentence: empty.txt"]


def test_sentences_that_are_left_out_are_counted_over_parts(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change: dict[str, Any] = {"longest": 8, "too_long": "window", "select": {"words": 12}}
    many = prepare(large_recipe(**change, prepared="many"))
    monkeypatch.setattr(parts, "BYTES", 1 << 30)
    whole = prepare(large_recipe(**change, prepared="one", shard_sentences=1000))
    assert len(many.manifest["notes"]) >= 2
    assert many.manifest["notes"] == whole.manifest["notes"]
    assert rows(many) == rows(whole)


# --- kills ------------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from probtrans_cli.data.corpus import parts, prepared
from probtrans_cli.recipe.schema import Recipe
import json
parts.BYTES = 4000
left = int(sys.argv[1])
def counted(place, name):
    before = getattr(place, name)
    def after(*arguments, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*arguments, **more)
    setattr(place, name, after)
for place, name in ((parts, "write_split"), (parts.atomic, "replacing"), (prepared, "_fill")):
    counted(place, name)
prepared.prepare(Recipe.model_validate(json.loads(sys.argv[2])))
"""


def test_a_kill_costs_a_part(large: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    expected = contents(prepare(large_recipe(prepared="expected")).folder)
    made = large_recipe(prepared="here")
    known: dict[str, int] = {}
    for left in (1, 7, 22):
        command = [sys.executable, "-c", KILLED, str(left), made.model_dump_json()]
        ran = subprocess.run(command, env=environment(), timeout=60, check=False, capture_output=True)
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        assert not (large / "here").exists()
        done = {path.name: path.stat().st_mtime_ns for path in (large / ".here.unfinished/blocks").glob("*.done")}
        assert known.items() <= done.items()
        known = done
    known.pop("000000.done")  # the counts
    assert len(known) > 3
    (large / ".here.unfinished/blocks/.000002.json.partial").write_text("half")
    shards = {path.name: path.stat().st_ino for path in (large / ".here.unfinished").glob("*.arrow")}
    again = prepare(made)
    assert f"going on with the corpus, {len(known)} of" in capsys.readouterr().err
    now = {path.name: path.stat().st_ino for path in again.folder.iterdir()}
    train = [name for name in shards if name.startswith("train")]
    done = {name for name in train if f"{int(name[6:11]) + 1:06d}.done" in known}
    assert done
    assert {name: now[name] for name in done} == {name: shards[name] for name in done}
    resumed = contents(again.folder)
    manifests = [json.loads(files.pop("manifest.json")) for files in (expected, resumed)]
    assert resumed == expected
    assert {key: manifests[0][key] for key in ("shards", "sha256", "splits", "labels")} == {
        key: manifests[1][key] for key in ("shards", "sha256", "splits", "labels")
    }
    assert not (large / ".here.unfinished").exists()


def test_what_is_left_of_another_corpus_is_not_taken(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "_fill", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare(large_recipe(prepared="here"))
    left = large / ".here.unfinished"
    assert (left / "blocks/000000.json").exists()
    Path("b.txt").write_text("another text\n" * 400, "utf-8")
    another = prepare(large_recipe(prepared="here"))
    assert rows(another) == rows(prepare(large_recipe(prepared="there")))
    assert not left.exists()
    left.mkdir()
    (left / "thesis.tex").touch()
    with pytest.raises(UsageError, match=r"holds thesis\.tex"):
        prepare(large_recipe(prepared="here", select={"words": 30}))
    assert (left / "thesis.tex").exists()


@pytest.mark.usefixtures("large")
def test_folders_of_earlier_versions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a file a split, and their manifests name no shards."""
    monkeypatch.setattr(parts, "BYTES", 1 << 30)
    made = prepare(recipe(train="a.conllu", dev="dev.conllu", prepared="old"))
    path = made.folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    assert manifest.pop("shards") == {"train": ["train.arrow"], "dev": ["dev.arrow"]}
    path.write_text(json.dumps(manifest), "utf-8")
    assert not prepare(recipe(train="a.conllu", dev="dev.conllu", prepared="old")).fresh
    assert len(open_prepared(made.folder).splits["train"]) == 60


# --- names ------------------------------------------------------------------------------------------------------------


def test_globs_and_folders_name_files(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wiki/AB/2.txt", "wiki/AA/1.txt", "wiki/AA/.hidden", "wiki/_SUCCESS", "wiki/a[1].txt", "data/x/3.txt"):
        path = large / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("two farmers\n", "utf-8")
    monkeypatch.setenv("PROBTRANS_DATA", "data")

    def found(name: str) -> list[str]:
        return [str(path) for path in find_all(name, "data.train")]

    assert found("wiki") == found("wiki/") == ["wiki/AA/1.txt", "wiki/AB/2.txt", "wiki/a[1].txt"]
    assert found("wiki/*/*.txt") == found("wiki/A?/[0-9].txt") == ["wiki/AA/1.txt", "wiki/AB/2.txt"]
    assert found("wiki/**/*.txt") == found("wiki")
    assert found("wiki/a[1].txt") == ["wiki/a[1].txt"]  # a name that is there is no pattern
    assert found("x") == found("x/*") == ["data/x/3.txt"]
    assert found(str(large / "wiki" / "AA")) == [str(large / "wiki/AA/1.txt")]
    assert found("c.txt") == ["c.txt.gz"]
    (large / "empty").mkdir()
    for name, fault in (("empty", "a folder without a file"), ("wiki/*.json", "no file fits"), ("nope", "no corpus")):
        with pytest.raises(DataError, match=rf"^data.train: .*{fault}"):
            found(name)
    made = prepare(recipe(train=["wiki", "x/*.txt"], dev=None))
    assert made.manifest["splits"]["train"]["sentences"] == 4
    assert not prepare(recipe(train=["wiki", "x/*.txt"], dev=None)).fresh
    (large / "wiki/AA/4.txt").write_text("one more\n", "utf-8")
    assert prepare(recipe(train=["wiki", "x/*.txt"], dev=None)).fresh
