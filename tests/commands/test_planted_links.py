"""Runs, corpora and jobs that a stranger has made: whatever a verb writes, a link of that name leads it nowhere.

Which names a verb writes is recorded while it runs, so that no new one can be forgotten.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, content, refused

pytestmark = pytest.mark.usefixtures("pages")

VERBS: dict[str, Sequence[str]] = {
    "resume": ("train", "runs/tiny", "--resume", "log.tensorboard=true"),
    "overwrite": ("train", "tiny.yaml", "--overwrite", "train.epochs=1", "save.every_steps=4"),
    "train": ("train", "tiny.yaml", "--run", "runs/new", "train.steps=1"),
    "eval": ("eval", "runs/tiny", "--split", "dev"),
    "diagram": ("eval", "runs/tagger", "--uncertainty"),
    "choose": ("eval", "runs/tiny", "--split", "dev", "--choose"),
    "predictions": ("eval", "runs/tagger", "--split", "dev", "--predictions", "pairs.txt"),
    "prepare": ("prepare", "tiny.yaml", "--force"),
    "parts": ("prepare", "tiny.yaml", "data.train=[train.conllu, dev.conllu]", "data.prepared=here/parts"),
    "parse": ("parse", "runs/tiny", "dev.conllu", "-o", "parsed.conllu"),
    "pictures": ("parse", "runs/tiny", "dev.conllu", "-f", "svg", "-o", "pictures"),
    "bulk": ("parse", "runs/tiny", "dev.conllu", "--output-dir", "out", "--block-size", "2000"),
    "merge": ("parse", "runs/tiny", "dev.conllu", "--output-dir", "done", "--merge", "-o", "merged.conllu"),
    "failed": ("parse", "runs/tiny", "bad.txt", "--output-dir", "bad"),
    "export": ("export", "runs/tiny", "exported"),
    "convert": ("convert", "--to", "jsonl", "tuples.jsonl", "-o", "tuples.tsv"),
}
"""Commands that write, in a copy of the trained runs."""
LONG = VERBS.keys() - {"eval", "prepare", "parse", "bulk", "export", "convert"}
"""Those that take long with a link at each name in turn."""
RANDOM = re.compile(r"-[0-9a-f]{8}\.partial|events\.out\.tfevents")
"""Names that nobody can know beforehand, or that another package chooses by the time."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_RECORDED: list[str] = []
_RECORDING = [False]


def _audit(event: str, values: tuple[Any, ...]) -> None:
    """Note every name that is opened for writing, made, or renamed to."""
    if not _RECORDING[0]:
        return
    names: list[Any] = []
    if event == "open" and isinstance(values[2], int) and values[2] & _WRITES:
        names = [values[0]]
    elif event in ("os.rename", "os.link", "os.symlink"):
        names = [values[1]]
    elif event == "os.mkdir":
        names = [values[0]]
    _RECORDED.extend(os.fspath(name) for name in names if isinstance(name, str | os.PathLike))


sys.addaudithook(_audit)


@contextmanager
def recording() -> Iterator[set[str]]:
    """Within: what is written is noted; the names, relative to the current folder, are there at the end."""
    names: set[str] = set()
    _RECORDED.clear()
    _RECORDING[0] = True
    try:
        yield names
    finally:
        _RECORDING[0] = False
        here = Path.cwd()
        paths = (Path(os.path.normpath(here / name)) for name in _RECORDED)  # links on the way stay as they are
        inside = [path.relative_to(here) for path in paths if path.is_relative_to(here)]
        # Below a folder of a random name nobody can plant anything.
        names |= {str(path) for path in inside if path != Path() and not RANDOM.search(str(path))}


@pytest.fixture(scope="module")
def material(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every command needs; do not change it."""
    folder = tmp_path_factory.mktemp("strangers") / "material"
    shutil.copytree(trained, folder, symlinks=True)
    (folder / "bad.txt").write_bytes(b"two farmers\n\xff\n")
    tuples = '{"words": ["farmers", "fold"], "tuples": [{"arg1": "farmers", "rel": "fold", '
    (folder / "tuples.jsonl").write_text(tuples + '"words": {"arg1": [0], "rel": [1]}}]}\n', "utf-8")
    return folder


@pytest.fixture
def place(material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(material, tmp_path / "place", symlinks=True)
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def anew(place: Path, material: Path, verb: str, invoke: Invoke) -> None:
    """Put the current folder back as it was, ready for the verb."""
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(material, place, symlinks=True, dirs_exist_ok=True)
    if verb == "merge":
        assert invoke(*VERBS["merge"][:-3]).code == 0


def test_a_recorder_that_records(place: Path) -> None:
    with recording() as names:
        Path("a").write_text("")
        os.close(os.open("b", os.O_WRONLY | os.O_CREAT))
        Path("a").rename("c")
        Path("d").mkdir()
        Path("b").read_text()
        Path("e").symlink_to("d")
    assert names == {"a", "b", "c", "d", "e"}


MARKS = {
    **dict.fromkeys(LONG, pytest.mark.slow),
    **dict.fromkeys(("resume", "overwrite", "train"), pytest.mark.exhaustive),
}


@pytest.mark.parametrize("verb", [pytest.param(verb, marks=MARKS.get(verb, ())) for verb in VERBS])
def test_no_link_of_a_name_that_is_written_is_followed(
    verb: str, place: Path, material: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """A link to a file, to a folder and to nowhere, and a second name of a file, at each name, and at each folder on
    the way to it; of names that differ in a number alone, at the first."""
    anew(place, material, verb, invoke)
    with recording() as names:
        ran = invoke(*VERBS[verb])
    assert ran.code == (3 if verb == "failed" else 0), ran.err
    assert names
    outside = tmp_path / "outside"
    every = {*names, *(str(parent) for name in names for parent in Path(name).parents)} - {".", *USERS}
    for name in {re.sub("[0-9]+", "0", name): name for name in sorted(every, reverse=True)}.values():
        targets = ("file", "folder", "nowhere", "second name")
        for target in targets if verb in ("export", "eval") else targets[:2]:
            anew(place, material, verb, invoke)
            shutil.rmtree(outside, ignore_errors=True)
            (outside / "folder").mkdir(parents=True)
            (outside / "file").write_text("a thesis\n")
            plant(place / name, outside / target, outside)
            before = content(outside)
            ran = invoke(*VERBS[verb])
            assert content(outside) == before, f"{name} -> {target}: {ran.err}"
            assert ran.code in (0, 2, 3, 4), f"{name} -> {target}: {ran.err}"


def test_what_a_training_leaves_half_written_leads_nowhere(place: Path, tmp_path: Path, invoke: Invoke) -> None:
    """Links at all these names at once: they are removed, and the training goes on."""
    shutil.copytree(place / "runs", tmp_path / "runs", symlinks=True)
    with recording() as names:
        assert invoke(*VERBS["resume"]).code == 0
    hidden = sorted(name for name in names if Path(name).name.startswith(".") and Path(name).name != ".replaced")
    assert len(hidden) > 8
    shutil.rmtree("runs")
    shutil.copytree(tmp_path / "runs", "runs", symlinks=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("a thesis\n")
    for name in hidden:
        plant(place / name, outside / "file", outside)
    assert invoke(*VERBS["resume"]).ok
    assert content(outside) == {"file": b"a thesis\n"}


OF_A_RUN = ("log.txt", "exit.json", "metrics.jsonl", "report.html", "recipe.yaml", "checkpoints", "trees", ".replaced")


@pytest.mark.parametrize("name", [*OF_A_RUN, "tensorboard"])
def test_what_a_run_writes_is_refused_where_it_is_something_else(
    name: str, place: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """Before anything is written, with or without --overwrite."""
    target = ("there", "nowhere", "a pipe")[OF_A_RUN.index(name) % 3 if name in OF_A_RUN else 0]
    path = place / "runs/tiny" / name
    there = tmp_path / "there"
    if target == "there" and os.path.lexists(path):
        path.rename(there)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if target == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / target)
    before = content(place / "runs"), content(tmp_path)
    for verb in ("resume", "overwrite"):
        refused(invoke(*VERBS[verb]), 4, f"runs/tiny/{name}: a ")
    assert (content(place / "runs"), content(tmp_path)) == before


USERS = {"runs", "runs/tiny", "runs/tagger", "runs/new", "prepared", "here", "pictures", "out", "bad", "done"}
"""Folders that the user names, or that lie on the way to them: where they lead, is the user's matter."""


def plant(path: Path, target: Path, outside: Path) -> None:
    """Put a link in the place of a file or folder, whose content a link to a folder leads to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        if target.name == "folder":
            target.rmdir()
            path.rename(target)
        else:
            shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    if target.name == "second name":
        path.hardlink_to(outside / "file")
    else:
        path.symlink_to(target)
