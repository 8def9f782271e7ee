"""`~` is the home folder wherever a user names a file or a folder; `./~` is a name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
from support import Invoke, refused, workplace

import probtrans_cli
from probtrans_cli.cli import app
from probtrans_cli.data.files import find, find_all
from probtrans_cli.errors import UsageError
from probtrans_cli.folders import expand_home, places, with_home

NO_PATHS = {"overrides", "require", "channel", "weights", "shard", "seeds", "comments"}
NO_PATHS |= {"check_width", "licence", "name", "names", "package_version", "prompt", "stop", "sweep"}
"""Arguments and options whose values are text, but name neither a file nor a folder."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder; the current folder is another one."""
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


PATHS = [
    ("~", "HOME"),
    ("~/", "HOME/"),
    ("~/x", "HOME/x"),
    ("~/runs/x@last", "HOME/runs/x@last"),
    ("~nobody-of-this-name/x", "~nobody-of-this-name/x"),
    ("~backup.txt", "~backup.txt"),
    ("~a\0b", "~a\0b"),
    ("~\ud800", "~\ud800"),
    ("./~", "HERE/~"),
    ("./~/x", "HERE/~/x"),
    (".//~x", "HERE/~x"),
    ("a/~", "a/~"),
    ("x~", "x~"),
    ("-", "-"),
    ("a/", "a/"),
    ("embedded:toy/train.conllu", "embedded:toy/train.conllu"),
]


def test_an_empty_path_is_no_folder(invoke: Invoke) -> None:
    """Of a variable that is not set, as in `--run "$RUN"`; pathlib's would be the current folder."""
    for words in (["eval", ""], ["train", "quickstart", "--run", ""], ["table", ""], ["export", "", "out"]):
        refused(invoke(*words), 2, "a path is empty")


def test_what_stands_for_the_home_folder(home: Path) -> None:
    for path, expected in PATHS:
        expanded = with_home(path)
        assert expanded == expected.replace("HOME", str(home)).replace("HERE", str(Path.cwd()))
        assert with_home(str(Path(expanded))) == str(Path(expanded))  # expanded again it is the same
    pwd = pytest.importorskip("pwd")
    assert with_home("~root/x") == str(Path(pwd.getpwnam("root").pw_dir) / "x")


def test_a_home_folder_that_is_not_known(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for path in ("~", "~/x"):
        with pytest.raises(UsageError, match="the home folder is not known"):
            expand_home(path)
    assert with_home("~backup.txt") == "~backup.txt"


def test_corpora_are_found_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "data").mkdir()
    (home / "data/a.txt").touch()
    assert find("~/data/a.txt") == home / "data/a.txt"
    assert find_all("~/data") == find_all("~/data/*.txt") == [home / "data/a.txt"]
    monkeypatch.setenv("PROBTRANS_DATA", "~/data")
    assert find("a.txt") == home / "data/a.txt"
    Path("~").mkdir()
    Path("~/a.txt").touch()
    assert find("./~/a.txt") == Path.cwd() / "~/a.txt"
    assert places("./~/a.txt") == [Path.cwd() / "~/a.txt"]


def test_every_option_that_names_a_path_knows_it() -> None:
    """One that is added without it makes a folder named `~`."""
    lacking = []
    for command in app.registered_commands:
        assert command.callback is not None
        for name, annotation in get_type_hints(command.callback, include_extras=True).items():
            kind, *about = get_args(annotation) if get_origin(annotation) is Annotated else [annotation]
            text = any(part in (str, Path, list[str]) for part in (kind, *get_args(kind)))
            parsed = any(getattr(each, "parser", None) in (expand_home, with_home) for each in about)
            if text and not parsed and name not in NO_PATHS:
                lacking.append(f"{command.callback.__name__} {name}")
    assert not lacking


def test_a_run_at_home(home: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb, every way to name a path; nothing is made in the current folder."""
    workplace(home / "data")
    data = ("data.train=~/data/train.conllu", "data.dev=[~/data/dev.conllu]", "data.prepared=~/data/prepared")
    quick = ("train.steps=1", "data.test=test.conllu")
    monkeypatch.setenv("PROBTRANS_DATA", "~/data")
    assert invoke("train", "~/data/tiny.yaml", *data, *quick, "--run=~/run").code == 0
    assert invoke("train", "~/data/tiny.yaml", *data, *quick, "--run=~/more", "--init-from=~/run@last").code == 0
    assert invoke("train", "~/run", "--resume").code == 0
    for checkpoint in ("~/run", "~/run@last", "~/run/checkpoints/last"):
        assert invoke("parse", checkpoint, "~/data/test.conllu", "-o", "~/parsed.conllu").code == 0
        assert len(list(probtrans_cli.load(checkpoint).analyze(["two farmers"]))) == 1
    assert invoke("parse", "~/run", "~/data/test.conllu", "--output-dir=~/blocks").code == 0
    assert (
        invoke("parse", "~/run", "~/data/test.conllu", "--output-dir=~/blocks", "--merge", "--output=~/whole").code == 0
    )
    assert invoke("eval", "~/run", "~/more", "~/data/dev.conllu", "--masks", "1").code == 0
    assert invoke("eval", "~/run", "~/data/dev.conllu", "--masks", "1", "--ood=~/data/test.conllu").code == 0
    assert invoke("score", "trees", "~/parsed.conllu", "--gold=~/data/test.conllu").code == 0
    assert invoke("export", "~/run", "~/exported").code == 0
    assert invoke("table", "~/run", "~/more").code == 0
    there = {"data", "run", "more", "parsed.conllu", "blocks", "whole", "exported"}
    assert there == {path.name for path in home.iterdir()}
    assert list(Path.cwd().iterdir()) == []
    assert not [path for path in home.rglob("*") if "~" in path.name]


def test_a_folder_with_this_name(home: Path, invoke: Invoke) -> None:
    """`./~` is one, before and after it is there."""
    workplace(Path("~"))
    refused(invoke("train", "~/tiny.yaml"), 2, f"'{home}/tiny.yaml' is neither")
    names = (f"data.{split}=./~/{split}.conllu" for split in ("train", "dev", "test"))
    assert invoke("train", "./~/tiny.yaml", *names, "train.steps=1", "--run=./~/run").ok
    assert Path("./~", "run/recipe.yaml").is_file()
    assert list(home.iterdir()) == []
    assert re.search(r"home/run: no such run", invoke("parse", "~/run", "-").err)
    assert invoke("parse", "./~/run", "./~/test.conllu").code == 0
