"""A checkpoint that its user has moved to another disk and linked back: read there, and neither written nor removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import Invoke, content, refused

from probtrans_cli import checkpoint

RUN = Path("runs/tiny")
FOLDER = RUN / "checkpoints"
MORE = ("train", "tiny.yaml", "--resume", "save.keep=1")


def moved(name: str, disk: Path) -> Path:
    """Move a checkpoint, by its link or its own name, to another disk; returns where it is."""
    path = FOLDER / name
    path = path.with_name(path.readlink().name) if path.is_symlink() else path
    disk.mkdir(exist_ok=True)
    path.rename(disk / f"moved-{path.name}")
    path.symlink_to(disk / f"moved-{path.name}")
    return disk / f"moved-{path.name}"


@pytest.fixture
def broken_off(copied: Path, invoke: Invoke) -> Path:
    """The run after half of its updates, with several checkpoints; returns the other disk."""
    shutil.rmtree(RUN)
    store = checkpoint.store
    saved = []

    def interrupted(*arguments: object) -> None:
        store(*arguments)  # type: ignore[arg-type]
        saved.append(arguments[0])
        if len(saved) == 4:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "store", interrupted)
        assert invoke("train", "tiny.yaml", "save.every_steps=3", "save.keep=9").code == 130
    assert len(checkpoint.steps(FOLDER)) == 4
    return copied.parent / "disk"


def test_a_training_goes_on_beside_it_and_says_so_once(broken_off: Path, invoke: Invoke) -> None:
    """An old one, which would have been removed; before, rmtree on a link ended the training."""
    (_, oldest), *_ = checkpoint.steps(FOLDER)
    there = moved(oldest.name, broken_off)
    before = content(broken_off)
    ran = invoke(*MORE, "save.every_steps=2").ok
    assert ran.err.count(f"{oldest.name}: a link to {there}: it is left alone") == 1
    assert content(broken_off) == before
    assert oldest.readlink() == there
    assert len(checkpoint.steps(FOLDER)) <= 4  # the linked one, the best, the last, and one that is kept


def test_a_training_goes_on_from_it(broken_off: Path, invoke: Invoke) -> None:
    """Links are made in the run, and not on the other disk, where `last` was written before."""
    moved("last", broken_off)
    before = content(broken_off)
    assert invoke(*MORE, "save.every_steps=3").ok
    assert content(broken_off) == before
    newest = checkpoint.steps(FOLDER)[-1][1]
    assert (FOLDER / "last").readlink().name == newest.name
    assert not newest.is_symlink()


def test_the_best_one_keeps_what_it_has(copied: Path, invoke: Invoke) -> None:
    """The training is over, and scored again: what would be stored with the best one is not."""
    there = moved("best", copied.parent / "disk")
    before = content(there.parent)
    ran = invoke("train", str(RUN), "--resume").ok
    assert "it is left alone, and nothing is written" in ran.err
    assert content(there.parent) == before
    best = FOLDER.resolve() / (FOLDER / "best").readlink().name
    assert checkpoint.locate(str(RUN)) == checkpoint.locate(f"{RUN}/checkpoints/best") == best
    assert invoke("parse", str(RUN), "dev.conllu").code == 0
    assert invoke("eval", str(RUN), "--split", "dev").code == 0
    assert (FOLDER / "eval-dev.json").exists()
    refused(invoke("eval", str(RUN), "--split", "dev", "--choose"), 4, "nothing is written through it", there.name)
    assert content(there.parent) == before
    assert invoke("eval", str(there), "--split", "dev", "--choose").code == 0
    assert invoke("table", str(RUN)).code == 0


def test_links_that_lead_out_of_the_run(copied: Path, invoke: Invoke) -> None:
    """`best` and `last` themselves point at another disk: read, and not written."""
    there = moved("best", copied.parent / "disk")
    for link in ("best", "last"):
        (FOLDER / link).unlink()
        (FOLDER / link).symlink_to(there)
    before = content(there.parent)
    assert checkpoint.locate(f"{RUN}@last") == FOLDER.resolve() / "last"
    assert invoke("eval", str(RUN), "--split", "dev", "--json").json["step"] > 0
    assert invoke("train", str(RUN), "--resume").code == 0
    assert content(there.parent) == before


def test_scores_are_told_where_they_cannot_be_stored(copied: Path, invoke: Invoke) -> None:
    """The folder of all checkpoints is a link: nothing in a run leads out of it but a checkpoint."""
    FOLDER.rename(copied.parent / "elsewhere")
    FOLDER.symlink_to(copied.parent / "elsewhere")
    before = content(copied.parent / "elsewhere")
    ran = invoke("eval", str(RUN), "--split", "dev")
    assert ran.code == 0
    assert "perplexity" in ran.out
    assert f"not stored: {FOLDER.absolute()}: a link in the place of a folder" in ran.err
    refused(invoke("eval", str(RUN), "--split", "dev", "--choose"), 4, "a link in the place of a folder")
    refused(invoke("train", str(RUN), "--resume"), 4, "a link in the place of a folder")
    assert content(copied.parent / "elsewhere") == before


def test_a_run_folder_that_is_a_link_is_the_matter_of_its_user(copied: Path, invoke: Invoke) -> None:
    RUN.rename(copied.parent / "elsewhere")
    RUN.symlink_to(copied.parent / "elsewhere")
    assert invoke("eval", str(RUN), "--split", "dev").code == 0
    assert invoke("train", str(RUN), "--resume").code == 0
    assert invoke("train", "tiny.yaml", "--overwrite", "train.steps=1").code == 0
    assert (copied.parent / "elsewhere/checkpoints/last").is_dir()
