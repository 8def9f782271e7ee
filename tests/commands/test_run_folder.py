"""What `train` and `prepare` write, refuse and go on with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Invoke, Stdin, content, refused

from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.export import safetensors
from probtrans_cli.folders import lock

pytestmark = pytest.mark.usefixtures("pages")


def test_a_run_folder_that_is_not_empty_names_both_commands(copied: Path, invoke: Invoke) -> None:
    before = sorted(copied.rglob("*"))
    ran = invoke("train", "tiny.yaml")
    refused(ran, 2, "probtrans train runs/tiny --resume")
    assert "probtrans train tiny.yaml [KEY=VALUE]... --run runs/tiny --overwrite" in ran.err
    assert sorted(copied.rglob("*")) == before


def test_a_run_keeps_a_command_that_a_shell_can_run(
    copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quoted where an override has spaces or braces."""
    words = ["train", "tiny.yaml", "model.damping={labels: 0.5}", "--run", "runs/damped one"]
    monkeypatch.setattr("sys.argv", ["probtrans", *words])
    assert invoke(*words).code == 0
    lines = (copied / "runs/damped one/recipe.yaml").read_text("utf-8").splitlines()
    (command,) = (line.removeprefix("# Command: ") for line in lines if line.startswith("# Command: "))
    assert shlex.split(command) == ["probtrans", *words]


def test_resume_with_another_recipe_is_refused(copied: Path, invoke: Invoke) -> None:
    refused(invoke("train", "tiny.yaml", "--resume", "optim.lr=0.5", "model.labels=4"), 2, "model.labels", "optim.lr")
    assert invoke("train", "tiny.yaml", "--resume", "log.every_steps=5", "save.every_steps=4").code == 0


def test_a_recipe_that_was_changed_in_the_run_is_refused(copied: Path, invoke: Invoke) -> None:
    """Else the updates before and after would be of two recipes."""
    path = copied / "runs/tiny/recipe.yaml"
    text = path.read_text("utf-8")
    path.write_text(text.replace("\nseed: 3\n", "\nseed: 7\n").replace("labels: 8\n", "labels: 4\n"), "utf-8")
    before = sorted(copied.rglob("checkpoints/*"))
    ran = invoke("train", "runs/tiny", "--resume")
    refused(ran, 2, "recipe.yaml: the run was started with another seed, model.labels", "undo what was changed in")
    assert sorted(copied.rglob("checkpoints/*")) == before
    copied.joinpath("train.conllu").rename(copied / "moved.conllu")
    path.write_text(text.replace("train: train.conllu", "train: moved.conllu"), "utf-8")
    assert invoke("train", "runs/tiny", "--resume").code == 0


def test_overwrite_removes_a_run_and_nothing_else(copied: Path, invoke: Invoke) -> None:
    (copied / "runs/other").mkdir()
    (copied / "runs/other/thesis.tex").write_text("")
    refused(invoke("train", "tiny.yaml", "--run", "runs/other", "--overwrite"), 2, "not a run folder")
    assert (copied / "runs/other/thesis.tex").exists()
    (copied / "runs/tiny/checkpoints/step-000999").mkdir()
    assert invoke("train", "tiny.yaml", "--overwrite", "train.steps=1").code == 0
    assert not (copied / "runs/tiny/checkpoints/step-000999").exists()


FOREIGN = {
    "thesis.tex": "thesis.tex",
    "notes/thesis.tex": "notes",
    ".replaced/thesis.tex": ".replaced",
    "checkpoints/.thesis.tex.partial": "checkpoints/.thesis.tex.partial",
    ".hidden": ".hidden",
    "checkpoints/thesis.tex": "checkpoints/thesis.tex",
    "checkpoints/step-1a/model.safetensors": "checkpoints/step-1a",
    "checkpoints/best/thesis.tex": "/thesis.tex",
    "checkpoints/best/training/thesis.tex": "/training/thesis.tex",
    "checkpoints/eval-mine.json": "checkpoints/eval-mine.json",
    "trees/thesis.svg": "trees/thesis.svg",
    "trees/notes/thesis.tex": "trees/notes",
    "recipe.yaml.orig": "recipe.yaml.orig",
    "metrics.jsonl/thesis.tex": "metrics.jsonl",
}


def test_what_no_run_writes_is_named_and_nothing_is_removed(copied: Path, invoke: Invoke) -> None:
    run = copied / "runs/tiny"
    metrics = (run / "metrics.jsonl").read_bytes()
    for name, shown in FOREIGN.items():
        path = run / name
        if path.parent.name == "metrics.jsonl":
            path.parent.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("chapter 1")
        before = content(run)
        ran = invoke("train", "tiny.yaml", "--overwrite")
        refused(ran, 2, "runs/tiny holds what no run writes: ", f"{shown}; nothing was removed", "--run DIR")
        assert content(run) == before
        path.unlink()
        for folder in (path.parent, path.parent.parent):
            if folder != run and not any(folder.iterdir()):
                folder.rmdir()
    (run / "metrics.jsonl").write_bytes(metrics)
    assert invoke("train", "tiny.yaml", "--overwrite", "train.steps=1").code == 0


def test_whatever_a_run_and_its_commands_write_may_be_overwritten(copied: Path, invoke: Invoke) -> None:
    run = copied / "runs/tiny"
    for split in ("dev", "test"):
        assert invoke("eval", "runs/tiny", "--split", split).code == 0
    assert invoke("eval", "runs/tiny", "--split", "dev", "--choose").code == 0
    hidden = (".recipe.yaml.partial", ".exit.json.partial", "trees/.index.html.partial", ".probtrans.lock")
    for left in (*hidden, "checkpoints/reliability.svg"):
        (run / left).write_text("")
    for left in (".best.partial", ".step-000004.partial", ".step-000004-01ab34cd.partial", ".step-000099.replaced"):
        (run / "checkpoints" / left).mkdir()
    assert invoke("train", "tiny.yaml", "--overwrite", "train.steps=1").code == 0
    assert not list(run.rglob(".*"))


PROJECTS: dict[str, Callable[[Path], object]] = {
    "a recipe of its own": lambda run: shutil.copy("tiny.yaml", run / "recipe.yaml"),
    "a copied recipe": lambda run: shutil.copy("runs/tiny/recipe.yaml", run / "recipe.yaml"),
    "logs of another tool": lambda run: (run / "metrics.jsonl").write_text('{"accuracy": 1}\n'),
    "an exit of another tool": lambda run: (run / "exit.json").write_text("[]"),
    "a checkpoint": lambda run: shutil.copytree("runs/tiny/checkpoints/last", run, dirs_exist_ok=True),
    "a copy of another tool": lambda run: ((run / ".replaced").mkdir(), (run / ".replaced/thesis.tex").touch()),
}


def test_a_folder_that_is_not_of_a_run_stays_as_it_is(copied: Path, invoke: Invoke) -> None:
    for fill in PROJECTS.values():
        project = copied / "project"
        project.mkdir()
        fill(project)
        before = content(project)
        for option in ([], ["--resume"], ["--overwrite"]):
            ran = invoke("train", "tiny.yaml", "--run", "project", *option)
            refused(ran, 2, "project is not a run folder: it holds ")
            if (project / "recipe.yaml").exists():
                refused(invoke("train", "project", *option), 2, "project is not a run folder")
            assert content(project) == before
        shutil.rmtree(project)


def test_notes_in_a_run_do_not_keep_it_from_being_resumed(copied: Path, invoke: Invoke) -> None:
    names = ("notes.txt", "checkpoints/.thesis.tex.partial", "checkpoints/.notes.replaced", ".replaced/notes.txt")
    for name in names:
        (copied / "runs/tiny" / name).parent.mkdir(exist_ok=True)
        (copied / "runs/tiny" / name).write_text("good")
    assert invoke("train", "runs/tiny", "--resume").code == 0
    for name in names:
        assert (copied / "runs/tiny" / name).read_text() == "good"


def test_a_locked_run_is_left_alone(copied: Path, invoke: Invoke) -> None:
    """By `train` whatever its options, and by what stores a choice in a checkpoint; a run may be read all the time."""
    run = copied / "runs/tiny"
    with lock.locked(lock.inside(run), "x"):
        before = content(run)
        for option in ("--resume", "--overwrite"):
            ran = invoke("train", "tiny.yaml", option)
            refused(ran, 2, f"runs/tiny is in use by process {os.getpid()} on {socket.gethostname()}", "--run DIR")
        ran = invoke("eval", "runs/tiny", "--split", "dev", "--choose")
        refused(ran, 2, f"runs/tiny is in use by process {os.getpid()}")
        assert content(run) == before
        assert invoke("eval", "runs/tiny", "--split", "dev").code == 0
    assert invoke("eval", "runs/tiny", "--split", "dev", "--choose").code == 0


@pytest.mark.parametrize("before", ["nothing", "an empty folder"])
def test_what_comes_into_the_place_of_an_export_stays(
    before: str, copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two exports into one folder, for example: the first one stays whole, and the second one is refused."""
    texts_of = safetensors.texts_of

    def late(*arguments: Any) -> Any:
        Path("out").mkdir(exist_ok=True)
        Path("out/config.json").write_text("of another export", "utf-8")
        return texts_of(*arguments)

    if before == "an empty folder":
        Path("out").mkdir()
    monkeypatch.setattr(safetensors, "texts_of", late)
    refused(invoke("export", "runs/tiny", "out"), 2, "out", "File exists", "choose another OUT folder")
    assert Path("out/config.json").read_text("utf-8") == "of another export"
    assert [path.name for path in copied.glob("out*")] == ["out"]
    assert not list(copied.glob(".out*"))


def test_a_locked_export_is_left_alone(copied: Path, invoke: Invoke) -> None:
    assert invoke("export", "runs/tiny", "exported").code == 0
    with lock.locked(lock.beside(Path("exported")), "x"):
        before = content(copied / "exported")
        refused(invoke("eval", "exported", "--split", "dev", "--choose"), 2, "exported is in use by process")
        assert content(copied / "exported") == before
    assert invoke("eval", "exported", "--split", "dev", "--choose").code == 0
    assert invoke("parse", "exported", "dev.conllu").code == 0


def test_training_goes_on_where_there_are_no_locks(
    fresh: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    ran = invoke("train", "tiny.yaml", "train.steps=1").ok
    assert "warning: runs/tiny cannot be locked" in ran.err
    assert not lock.inside(fresh / "runs/tiny").exists()


def test_a_training_that_was_killed_before_its_recipe_was_written(fresh: Path, invoke: Invoke) -> None:
    """With a log and a lock only: the folder alone says what to type, and that starts the training."""
    run = fresh / "runs/tiny"
    run.mkdir(parents=True)
    (run / "log.txt").write_text("preparing\n", encoding="utf-8")
    (run / lock.NAME).write_text("", encoding="utf-8")
    refused(
        invoke("train", "runs/tiny", "--resume"), 2, "the training ended before its recipe was written",
        "probtrans train RECIPE [KEY=VALUE]... --run runs/tiny --resume",
    )  # fmt: skip
    ran = invoke("train", "tiny.yaml", "--run", "runs/tiny", "--resume").ok
    assert "nothing to resume in runs/tiny: starting" in ran.err
    assert (run / "log.txt").read_text("utf-8").startswith("preparing\n")
    (fresh / "other").mkdir()
    (fresh / "other/log.txt").write_text("", encoding="utf-8")
    (fresh / "other/thesis.tex").write_text("", encoding="utf-8")
    refused(invoke("train", "other", "--resume"), 2, "the folder other has no recipe.yaml")


def test_a_training_that_failed_at_its_data_can_be_overwritten_or_resumed(fresh: Path, invoke: Invoke) -> None:
    assert invoke("train", "tiny.yaml", "data.dev=nowhere").code == 3
    assert invoke("train", "tiny.yaml", "train.steps=1").code == 0


def test_what_cannot_begin_overwrites_nothing(copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither faults of data, vocabulary or weights, nor a kill at any moment before the new run begins."""
    run = copied / "runs/tiny"
    before = content(run)
    (copied / "bert").mkdir()
    for code, fault in ((3, ["data.extra=nowhere"]), (4, ["--init-from", "nowhere"]), (4, ["--init-from", "bert"])):
        ran = invoke("train", "tiny.yaml", "--overwrite", *fault)
        refused(ran, code)
        assert ("runs/tiny: what was there is kept" in ran.err) == (fault[-1] != "nowhere" or code == 3)
        assert content(run) == before
    rename, names = Path.rename, []

    def killed(path: Path, target: Path) -> Path:
        names.append(path.name)
        if len(names) == stop:
            raise KeyboardInterrupt
        return rename(path, target)

    for stop in range(1, 2 * len(list(run.iterdir())) + 1):
        names.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", killed)
            patch.setattr("probtrans_cli.data.corpus.prepared.prepare", lambda recipe: 1 / 0)
            with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
                train(TrainRequest("tiny.yaml", overwrite=True))
        assert len(names) == stop
        refused(invoke("train", "tiny.yaml"), 2, "is not empty")
        assert content(run) == before


def test_a_run_folder_reruns_its_own_recipe(copied: Path, invoke: Invoke) -> None:
    before = (copied / "runs/tiny/checkpoints/best/model.safetensors").read_bytes()
    refused(invoke("train", "runs/tiny"), 2, "--resume", "--overwrite")
    assert invoke("train", "runs/tiny", "--overwrite", "--json").json["run"] == "runs/tiny"
    assert (copied / "runs/tiny/checkpoints/best/model.safetensors").read_bytes() == before
    assert invoke("train", "runs/tiny", "--run", "runs/again", "--json").json["run"] == "runs/again"
    assert (copied / "runs/again/checkpoints/best/model.safetensors").read_bytes() == before


def test_the_files_of_a_run(here: Path) -> None:
    run = here / "runs/tiny"
    assert {path.name for path in run.iterdir()} == {
        "recipe.yaml", "metrics.jsonl", "log.txt", "exit.json", "checkpoints", "trees", "report.html",
    }  # fmt: skip
    assert json.loads((run / "exit.json").read_text()) == {"exit": 0, "reason": "done"}
    names = {path.name for path in (run / "checkpoints/best").iterdir()}
    assert names == {
        "config.json", "model.safetensors", "vocabulary.json", "labels.json", "recipe.yaml", "eval.json", "README.md",
        "SHA256SUMS", "training",
    }  # fmt: skip
    for link in ("best", "last"):
        assert not (run / "checkpoints" / link).readlink().is_absolute()
    assert "sha256" in (run / "recipe.yaml").read_text("utf-8")


def test_dry_run_writes_no_run(fresh: Path, invoke: Invoke) -> None:
    result = invoke("train", "tiny.yaml", "--dry-run", "--json").json
    assert result["dry_run"] is True
    assert not (fresh / "runs").exists()


def test_seeds_give_mean_and_deviation(fresh: Path, invoke: Invoke) -> None:
    result = invoke("train", "tiny.yaml", "--seeds", "0,1", "train.steps=1", "--json").json
    scores = [run["test"]["perplexity"] for run in result["runs"]]
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    assert scores[0] != scores[1]
    assert result["mean"]["perplexity"] == pytest.approx(sum(scores) / 2)
    assert result["sd"]["perplexity"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    assert {"tiny-seed0", "tiny-seed1"} == {path.name for path in (fresh / "runs").iterdir()}
    refused(invoke("train", "tiny.yaml", "--seeds", "0,1"), 2, "--resume")


def test_train_without_json_ends_with_scores_and_the_next_command(fresh: Path, invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", "train.steps=1")
    assert ran.code == 0
    assert "perplexity" in ran.out
    assert "UUAS" in ran.out
    assert "probtrans parse runs/tiny" in ran.out
    assert "step 1:" in ran.err
    assert invoke("-q", "train", "tiny.yaml", "train.steps=1", "--overwrite").err == ""


def test_a_recipe_from_stdin(fresh: Path, invoke: Invoke, stdin: Stdin) -> None:
    stdin((fresh / "tiny.yaml").read_bytes())
    ran = invoke("train", "-", "train.steps=1", "--json").ok
    assert ran.json["name"] == "tiny"


def test_prepare_twice_says_up_to_date(fresh: Path, invoke: Invoke) -> None:
    assert invoke("prepare", "tiny.yaml", "--check", "--json").json["state"] == "checked"
    assert not (fresh / "prepared").exists()
    assert invoke("prepare", "tiny.yaml", "--json").json["state"] == "prepared"
    ran = invoke("prepare", "tiny.yaml")
    assert "up to date" in ran.out
    assert "sentences" in ran.out
    assert invoke("prepare", "tiny.yaml", "--force", "--json").json["state"] == "prepared"
