"""What `train` and `prepare` write, refuse and go on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Invoke, Stdin, refused

from probtrans_cli.commands.train import TrainRequest, train

pytestmark = pytest.mark.usefixtures("quick")


def test_a_run_folder_that_is_not_empty_names_both_commands(copied: Path, invoke: Invoke) -> None:
    before = sorted(copied.rglob("*"))
    ran = invoke("train", "tiny.yaml")
    refused(ran, 2, "probtrans train runs/tiny --resume")
    assert "probtrans train tiny.yaml [KEY=VALUE]... --run runs/tiny --overwrite" in ran.err
    assert sorted(copied.rglob("*")) == before


def test_resume_with_another_recipe_is_refused(copied: Path, invoke: Invoke) -> None:
    refused(invoke("train", "tiny.yaml", "--resume", "optim.lr=0.5", "model.labels=4"), 2, "optim", "model")
    assert invoke("train", "tiny.yaml", "--resume", "log.every_steps=5", "save.every_steps=4").code == 0


def test_overwrite_removes_a_run_and_nothing_else(copied: Path, invoke: Invoke) -> None:
    (copied / "runs/other").mkdir()
    (copied / "runs/other/thesis.tex").write_text("")
    refused(invoke("train", "tiny.yaml", "--run", "runs/other", "--overwrite"), 2, "not a run folder")
    assert (copied / "runs/other/thesis.tex").exists()
    (copied / "runs/tiny/checkpoints/step-000999").mkdir()
    assert invoke("train", "tiny.yaml", "--overwrite", "train.epochs=1").code == 0
    assert not (copied / "runs/tiny/checkpoints/step-000999").exists()


def test_a_training_that_failed_at_its_data_can_be_overwritten_or_resumed(fresh: Path, invoke: Invoke) -> None:
    assert invoke("train", "tiny.yaml", "data.dev=nowhere").code == 3
    assert invoke("train", "tiny.yaml", "train.epochs=1").code == 0


def test_what_cannot_begin_overwrites_nothing(copied: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither faults of data, vocabulary or weights, nor a kill at any moment before the new run begins."""

    def content() -> dict[str, bytes | None]:
        files = {str(path.relative_to(run)): path for path in run.rglob("*")}
        return {name: path.read_bytes() if path.is_file() else None for name, path in files.items()}

    run = copied / "runs/tiny"
    before = content()
    (copied / "bert").mkdir()
    for code, fault in ((3, ["data.extra=nowhere"]), (4, ["--init-from", "nowhere"]), (4, ["--init-from", "bert"])):
        ran = invoke("train", "tiny.yaml", "--overwrite", *fault)
        refused(ran, code)
        assert ("runs/tiny: what was there is kept" in ran.err) == (fault[-1] != "nowhere" or code == 3)
        assert content() == before
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
        assert content() == before


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
        "recipe.yaml", "metrics.jsonl", "log.txt", "exit.json", "checkpoints", "trees",
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
    result = invoke("train", "tiny.yaml", "--seeds", "0,1", "train.epochs=1", "--json").json
    scores = [run["test"]["perplexity"] for run in result["runs"]]
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    assert scores[0] != scores[1]
    assert result["mean"]["perplexity"] == pytest.approx(sum(scores) / 2)
    assert result["sd"]["perplexity"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    assert {"tiny-seed0", "tiny-seed1"} == {path.name for path in (fresh / "runs").iterdir()}
    refused(invoke("train", "tiny.yaml", "--seeds", "0,1"), 2, "--resume")


def test_train_without_json_ends_with_scores_and_the_next_command(fresh: Path, invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", "train.epochs=1")
    assert ran.code == 0
    assert "perplexity" in ran.out
    assert "UUAS" in ran.out
    assert "probtrans parse runs/tiny" in ran.out
    assert "step 1:" in ran.err
    assert invoke("-q", "train", "tiny.yaml", "train.epochs=1", "--overwrite").err == ""


def test_a_recipe_from_stdin(fresh: Path, invoke: Invoke, stdin: Stdin) -> None:
    stdin((fresh / "tiny.yaml").read_bytes())
    ran = invoke("train", "-", "train.epochs=1", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["name"] == "tiny"


def test_prepare_twice_says_up_to_date(fresh: Path, invoke: Invoke) -> None:
    assert invoke("prepare", "tiny.yaml", "--check", "--json").json["state"] == "checked"
    assert not (fresh / "prepared").exists()
    assert invoke("prepare", "tiny.yaml", "--json").json["state"] == "prepared"
    ran = invoke("prepare", "tiny.yaml")
    assert "up to date" in ran.out
    assert "sentences" in ran.out
    assert invoke("prepare", "tiny.yaml", "--force", "--json").json["state"] == "prepared"
