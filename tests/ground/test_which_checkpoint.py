"""Which checkpoint a name means: with the links of a run, without them, and where they point nowhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, refused

from probtrans_cli import checkpoint
from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import checkpoints

RUN = Path("runs/tiny")
FOLDER = RUN / "checkpoints"


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tiny run, whose best checkpoint is made to be an earlier one than the last."""
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    numbers = [step for step, _ in checkpoint.steps(FOLDER)]
    assert len(numbers) >= 2
    for _, path in checkpoint.steps(FOLDER):
        best = path.name == checkpoints.name_of(numbers[0])
        rewrite(path, "eval.json", {"dev": {"loss": 1.0}} if best else {})
        rewrite(path, "training/state.json", read(path / "training/state.json") | {"best_step": numbers[0]})
    checkpoint.link(FOLDER / checkpoints.name_of(numbers[0]), "best")
    return RUN


def read(path: Path) -> dict[str, object]:
    value: dict[str, object] = json.loads(path.read_text("utf-8"))
    return value


def rewrite(folder: Path, name: str, value: object) -> None:
    files = checkpoint.verify(folder, training=True).files
    checkpoint.write(folder, files | {name: json.dumps(value)}, {})


def named(name: str) -> int:
    return int(checkpoint.locate(name).name.removeprefix("step-"))


def test_the_links_are_not_needed(run: Path, invoke: Invoke, capsys: pytest.CaptureFixture[str]) -> None:
    before = [named(f"{run}{which}") for which in ("", "@best", "@last")]
    assert before[0] == before[1] < before[2]
    with_links = invoke("parse", str(run), "dev.conllu")
    assert "taking" not in with_links.err
    for link in checkpoints.LINKS:
        (FOLDER / link).unlink()
    assert [named(f"{run}{which}") for which in ("", "@best", "@last")] == before
    told = capsys.readouterr().err.splitlines()
    best, last = (checkpoints.name_of(step) for step in before[1:])
    assert told[0] == f"{FOLDER}/best: no such link; taking {best}, the best by what is stored with the checkpoints"
    assert told[2] == f"{FOLDER}/last: no such link; taking {last}, the newest complete checkpoint"
    without = invoke("parse", str(run), "dev.conllu")
    assert without.out == with_links.out
    assert f"taking {best}" in without.err
    assert invoke("eval", f"{run}@last", "--json").json["step"] == before[2]
    (FOLDER / "last").write_text(last)  # as some archives keep links
    assert named(f"{run}@last") == before[2]


def test_a_table_needs_no_links(run: Path, invoke: Invoke) -> None:
    expected = invoke("table", "runs/tagger")
    assert expected.code == 0, expected.err
    for link in checkpoints.LINKS:
        Path("runs/tagger/checkpoints", link).unlink()
    for path in ("runs/tagger", str(checkpoint.locate("runs/tagger"))):
        assert invoke("table", path).out == expected.out


def test_the_best_is_the_one_with_scores_where_there_is_no_state(run: Path, invoke: Invoke) -> None:
    best = named(str(run))
    for link in checkpoints.LINKS:
        (FOLDER / link).unlink()
    for _, path in checkpoint.steps(FOLDER):
        shutil.rmtree(path / "training")
    assert named(str(run)) == best
    for _, path in checkpoint.steps(FOLDER):
        (path / "eval.json").write_text("{}")
    ran = invoke("eval", str(run), "--json")
    assert "the newest complete checkpoint, as nothing says which is the best" in ran.err
    assert ran.json["step"] == checkpoint.steps(FOLDER)[-1][0]


@pytest.mark.parametrize("link_is_there", [True, False])
def test_a_best_checkpoint_that_is_gone_is_not_the_last_one(link_is_there: bool, run: Path, invoke: Invoke) -> None:
    best, last = checkpoint.locate(str(run)), named(f"{run}@last")
    shutil.rmtree(best)
    if not link_is_there:
        (FOLDER / "best").unlink()
    rest = ", ".join(str(step) for step, _ in checkpoint.steps(FOLDER))
    for arguments in (["parse", str(run), "dev.conllu"], ["eval", f"{run}@best"], ["export", str(run), "out"]):
        ran = invoke(*arguments)
        refused(ran, 4, f"{run}: its best checkpoint, {best.name}, is gone", f"there are: last, {rest}\n")
    assert invoke("eval", f"{run}@last", "--json").json["step"] == last


def test_a_resumed_run_does_not_forget_that_its_best_checkpoint_is_gone(run: Path, invoke: Invoke) -> None:
    best = checkpoint.locate(str(run))
    shutil.rmtree(best)
    ran = invoke("train", str(run), "--resume")
    refused(ran, 4, f"the best checkpoint so far, of step {int(best.name[5:])}, is gone", "its best checkpoint")


@pytest.mark.parametrize("missing", ["model.safetensors", checkpoint.SUMS])
def test_what_is_not_complete_is_not_taken(missing: str, run: Path, invoke: Invoke) -> None:
    (FOLDER / "last").unlink()
    *_, (before, _), (newest, path) = checkpoint.steps(FOLDER)
    (path / missing).unlink()
    assert newest != before == named(f"{run}@last")
    for _, path in checkpoint.steps(FOLDER):
        (path / missing).unlink(missing_ok=True)
    refused(invoke("eval", f"{run}@last"), 4, f"no complete checkpoint: {checkpoints.name_of(newest)} lacks ")


def test_what_there_is_holds_nothing_else(run: Path, invoke: Invoke) -> None:
    numbers = ", ".join(str(step) for step, _ in checkpoint.steps(FOLDER))
    refused(invoke("eval", f"{run}@7777"), 4, f"there are: best, last, {numbers}\n")
    (FOLDER / "best").unlink()
    (FOLDER / "last").unlink()
    (FOLDER / "last").symlink_to("step-7777777")
    refused(invoke("eval", f"{run}@7777"), 4, f"there are: {numbers}\n")


@pytest.mark.parametrize("which", ["١", "²", "+1", "1_0", " 1", "9" * 5000, "../checkpoints/last", "nonsense", ""])
def test_a_number_is_written_in_ascii_digits(which: str, run: Path, invoke: Invoke) -> None:
    step = named(f"{run}@last")
    assert named(f"{run}@{step}") == named(f"{run}@{step:09d}") == step
    arabic = "".join(chr(ord("٠") + int(digit)) for digit in str(step))
    for name in (which, arabic):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            checkpoint.locate(f"{run}@{name}")


def test_steps_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    for name in ("step-1000000", "step-999999", "step-000010", "step-²", "step-", "step-1a", "other"):
        (tmp_path / name).mkdir()
    assert [step for step, _ in checkpoint.steps(tmp_path)] == [10, 999_999, 1_000_000]


# --- what others have put into a checkpoint's folder ------------------------------------------------------------------


def test_what_somebody_put_into_a_checkpoint_stays(run: Path, invoke: Invoke) -> None:
    best = checkpoint.locate(str(run))
    (best / "notes").mkdir()
    (best / "notes/thesis.tex").write_text("chapter 1")
    (best / "training/mine.txt").write_text("mine")
    assert invoke("eval", str(run), "--split", "dev", "--choose").code == 0
    assert (best / "notes/thesis.tex").read_text() == "chapter 1"
    assert (best / "training/mine.txt").read_text() == "mine"
    assert checkpoint.verify(best, training=True).json("config.json", dict[str, Any])["trees"]["chosen_on"] == "dev"
    assert [path.name for path in checkpoints.strangers(best)] == ["notes", "thesis.tex", "mine.txt"]


def test_pruning_removes_nothing_but_whole_checkpoints(run: Path) -> None:
    (_, oldest), *_, (_, newest) = checkpoint.steps(FOLDER)
    with_a_file, whole, without_a_list = (FOLDER / checkpoints.name_of(number) for number in (1, 2, 3))
    for copy in (with_a_file, whole, without_a_list):
        shutil.copytree(newest, copy)
    (with_a_file / "thesis.tex").touch()
    (without_a_list / checkpoint.SUMS).unlink()
    (FOLDER / "best").unlink()
    checkpoint.prune(FOLDER, 0, needed=[oldest])
    assert {path for _, path in checkpoint.steps(FOLDER)} == {oldest, newest, with_a_file, without_a_list}


def test_a_file_system_without_links_has_checkpoints_all_the_same(
    run: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    expected = invoke("train", "tiny.yaml", "--run", "runs/linked", "--json").json
    monkeypatch.setattr(Path, "symlink_to", refuses)
    ran = invoke("train", "tiny.yaml", "--run", "runs/unlinked", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["test"] == expected["test"]
    assert not any((Path("runs/unlinked/checkpoints") / link).exists() for link in checkpoints.LINKS)
    assert named("runs/unlinked") == named("runs/linked")
    assert named("runs/unlinked@last") == named("runs/linked@last")
    assert invoke("train", "runs/unlinked", "--resume").code == 0
