"""The command line from outside: exit codes, what is on which stream, and the pipelines that must work."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from support import COMMAND, ROOT, Invoke, Ran, Stdin, environment, sentences, shell, workplace

from probtrans_cli import __version__, checkpoint
from probtrans_cli.commands.train import TrainRequest, train

pytestmark = pytest.mark.usefixtures("quick")
SENTENCE = "the old farmers near the river feed three hungry goats ."


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the trained runs, to read only, as the current folder."""
    monkeypatch.chdir(trained)
    return trained


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new workplace as the current folder."""
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


@pytest.fixture
def copied(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the trained runs as the current folder."""
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def refused(ran: Ran, code: int, *words: str) -> None:
    """An error for people: the code, nothing on stdout, no traceback, the words in the message."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err, ran.err


# --- without torch ----------------------------------------------------------------------------------------------------


def test_help_version_list_and_schema_do_not_import_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom probtrans_cli.__main__ import run\n"
        "asks = [['--help'], ['-h'], ['--version'], ['--list'], ['--schema']]\n"
        "asks += [[verb, '--help'] for verb in ('prepare', 'train', 'eval', 'parse', 'export', 'table')]\n"
        "codes = [run(ask) for ask in asks]\n"
        "assert codes == [0] * len(asks), codes\n"
        "heavy = {'torch', 'pyarrow', 'sentencepiece'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "probtrans train quickstart" in " ".join(done.stdout.split())
    for verb in ("prepare", "train", "eval", "parse", "export", "table"):
        assert f"Usage: probtrans {verb}" in done.stdout


def test_train_print_does_not_import_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom probtrans_cli.__main__ import run\n"
        "assert run(['train', 'quickstart', '--print', 'optim.lr=3e-4']) == 0\nassert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True)
    assert done.returncode == 0, done.stderr


def test_version(invoke: Invoke) -> None:
    assert invoke("--version") == Ran(0, f"probtrans {__version__}\n", "")
    assert invoke("--json", "--version").json == {"version": __version__}


def test_list_names_the_shipped_recipes(invoke: Invoke) -> None:
    ran = invoke("--list")
    assert ran.code == 0
    assert ran.out.startswith("pos-ewt") or "quickstart" in ran.out
    assert invoke("--list", "--json").json.keys() == {line.split()[0] for line in ran.out.splitlines()}


def test_schema_is_the_shipped_one(invoke: Invoke) -> None:
    shipped = ROOT / "recipes" / "schema.json"
    assert json.loads(invoke("--schema").out) == json.loads(shipped.read_text("utf-8"))


# --- usage: exit code 2 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"], ["train"], ["train", "tiny.yaml", "--nonsense"], ["parse", "runs/tiny", "-f", "nonsense"],
        ["-q", "-v", "train", "tiny.yaml"], ["train", "tiny.yaml", "--resume", "--overwrite"],
        ["train", "tiny.yaml", "--seeds", "a"], ["train", "tiny.yaml", "--seeds", "1,1"],
        ["train", "tiny.yaml", "--seeds", "-1"], ["train", "tiny.yaml", "nokey"],
        ["train", "tiny.yaml", "--seeds", "0,2147483648"],
        ["eval", "runs/tiny", "--require", "perplexity"], ["eval", "runs/tiny", "--require", "perplexity>=e"],
        ["eval", "runs/tiny", "--require", "nonsense>=1"], ["eval", "runs/tiny", "--channel", "2"],
        ["eval", "runs/tiny", "--iteration", "3"], ["eval", "runs/tiny", "--iteration", "0"],
        ["eval", "runs/tiny", "dev.conllu", "--split", "dev"], ["eval", "runs/tagger", "--masks", "2"],
        ["parse", "runs/tiny", "--channel", "all", "dev.conllu"], ["export", "runs/tiny", "runs"],
        ["parse", "runs/tiny", "dev.conllu", "-o", "nowhere/out.conllu"],
        ["train", "tiny.yaml", "--run", "tiny.yaml"], ["table"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_exits_2(arguments: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke(*arguments)
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert ran.err.strip()


def test_a_recipe_at_fault_exits_2_and_names_every_key(here: Path, invoke: Invoke) -> None:
    refused(invoke("train", "tiny.yaml", "optim.lrr=1", "train.epochs=0"), 2, "optim.lrr", "lr", "train.epochs")


# --- the other codes --------------------------------------------------------------------------------------------------


def test_data_exits_3(fresh: Path, invoke: Invoke) -> None:
    refused(invoke("train", "tiny.yaml", "data.train=nowhere.conllu"), 3, "nowhere.conllu")
    text = (fresh / "train.conllu").read_text("utf-8").replace("\t3\tdet", "\t300\tdet", 1)
    (fresh / "train.conllu").write_text(text, encoding="utf-8")
    refused(invoke("train", "tiny.yaml", "--overwrite"), 3, "train.conllu:")


def test_checkpoint_exits_4_and_lists_what_there_is(here: Path, invoke: Invoke) -> None:
    refused(invoke("parse", "runs/nowhere", "dev.conllu"), 4, "runs/nowhere")
    refused(invoke("parse", "runs/tiny@999", "dev.conllu"), 4, "999", "best, last", *_steps(here))
    refused(invoke("eval", "runs/tiny@²"), 4, "best, last")
    (here / "empty").mkdir(exist_ok=True)
    refused(invoke("eval", "empty"), 4, "no checkpoint")


def _steps(folder: Path) -> list[str]:
    return [str(number) for number, _ in checkpoint.steps(folder / "runs/tiny/checkpoints")]


@pytest.mark.parametrize("more", [[], ["train.steps=1"], ["optim.ema=0.5"]], ids=str)
def test_not_finite_exits_5(more: list[str], fresh: Path, invoke: Invoke) -> None:
    exploding = ["optim.lr=1e30", "optim.clip=null", "optim.schedule={kind: constant}", "save.every_steps=1"]
    ran = invoke("train", "tiny.yaml", *exploding, *more, "--json")
    refused(ran, 5, "not finite", "last good checkpoint: ", "optim.lr")
    assert json.loads((fresh / "runs/tiny/exit.json").read_text())["exit"] == 5


def test_out_of_memory_exits_6(fresh: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate more than there is")

    monkeypatch.setattr("probtrans_cli.tasks.mlm.MaskedLanguageModelling.terms", fail)
    refused(invoke("train", "tiny.yaml"), 6, "out of memory", "sentences", "train.batch_words")


def test_out_of_memory_in_evaluation_exits_6(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate more than there is")

    monkeypatch.setattr("probtrans_cli.models.network.Network.potentials", fail)
    refused(invoke("parse", "runs/tiny", "dev.conllu"), 6, "out of memory", "eval.batch_words")
    refused(invoke("eval", "runs/tiny"), 6, "out of memory", "eval.batch_words")


def test_requirement_not_met_exits_7_after_the_result(here: Path, invoke: Invoke) -> None:
    ran = invoke("eval", "runs/tiny", "--require", "perplexity<=1.5", "--json")
    assert ran.code == 7
    assert ran.json["scores"]["test"]["perplexity"] > 1.5
    assert "perplexity<=1.5" in ran.err
    assert invoke("eval", "runs/tiny", "--require", "perplexity>=1", "--require", "uuas>=0").code == 0


def test_a_bug_exits_1_and_asks_for_a_report(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.trained.model.Model.load", lambda *_, **__: 1 / 0)
    ran = invoke("eval", "runs/tiny")
    assert ran.code == 1
    assert ran.out == ""
    assert "Traceback" in ran.err
    assert "Please report" in ran.err


def test_ctrl_c_outside_training_exits_130(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("probtrans_cli.trained.model.Model.load", interrupt)
    refused(invoke("parse", "runs/tiny", "dev.conllu"), 130)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_stopping_the_command_itself(number: int, code: int, fresh: Path) -> None:
    arguments = [*COMMAND, "train", "tiny.yaml", "train.epochs=10000", "--json"]
    with subprocess.Popen(
        arguments, cwd=fresh, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 300
        while not (fresh / "runs/tiny/checkpoints/last").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    assert "probtrans train runs/tiny --resume" in err


def test_no_reader_exits_141_without_a_word(here: Path) -> None:
    (here / "long.conllu").write_text(sentences("train", 400), encoding="utf-8")
    done = shell("probtrans parse runs/tiny long.conllu | head -n 20 > first.txt; echo ${PIPESTATUS[@]}", here)
    assert done.stdout.split() == ["141", "0"]
    assert (here / "first.txt").read_text("utf-8").count("\n") == 20
    assert done.stderr == ""


# --- the run folder ---------------------------------------------------------------------------------------------------


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


# --- eval and export --------------------------------------------------------------------------------------------------


def scores(ran: Ran) -> dict[str, Any]:
    """The only scores of an evaluation."""
    (value,) = ran.json["scores"].values()
    return dict(value)


def test_eval_gives_the_scores_of_training_again(here: Path, invoke: Invoke) -> None:
    stored = json.loads((here / "runs/tiny/checkpoints/best/eval.json").read_text("utf-8"))
    for split in ("dev", "test"):
        found = scores(invoke("eval", "runs/tiny", "--split", split, "--baselines", "--json"))
        assert found == stored[split]
        assert (here / f"runs/tiny/checkpoints/eval-{split}.json").exists()
    assert scores(invoke("eval", "runs/tiny", "test.conllu", "--baselines", "--json")) == stored["test"]


def test_eval_of_every_name_of_a_checkpoint(here: Path, invoke: Invoke) -> None:
    last = (here / "runs/tiny/checkpoints/last").resolve()
    step = int(last.name.removeprefix("step-"))
    for name in ("runs/tiny@last", f"runs/tiny@{step}", "runs/tiny/checkpoints/last", str(last)):
        assert invoke("eval", name, "--masks", "1", "--json").json["step"] == step


def test_eval_options(here: Path, invoke: Invoke) -> None:
    base = ["eval", "runs/tiny", "--json"]
    every = scores(invoke(*base, "--channel", "all"))
    assert every["channels"].keys() == {"0", "1", "mean"}
    for channel in ("0", "1", "mean"):
        trees = scores(invoke(*base, "--channel", channel))["trees"]
        assert str(trees["reading"]["channel"]) == channel
        assert trees["no_punct"] == every["channels"][channel]["no_punct"]
    assert scores(invoke(*base, "--iteration", "1"))["trees"]["reading"]["iteration"] == 1
    found = {one: scores(invoke(*base, "--decode", one))["trees"] for one in ("argmax", "mst", "eisner")}
    assert {one: trees["reading"]["decoder"] for one, trees in found.items()} == {one: one for one in found}
    assert scores(invoke(*base, "--masks", "7"))["masks"] == 7
    assert "floors" not in scores(invoke(*base))["trees"]


def test_eval_of_a_tagger(here: Path, invoke: Invoke) -> None:
    found = scores(invoke("eval", "runs/tagger", "--json"))
    assert 0.05 < found["accuracy"] <= 1
    text = invoke("eval", "runs/tagger").out
    assert f"{100 * found['accuracy']:.2f} %" in text


def test_eval_of_plain_text(here: Path, invoke: Invoke) -> None:
    (here / "plain.txt").write_text("the farmer feeds the goat\nthe goat sees the farmer\n", encoding="utf-8")
    assert scores(invoke("eval", "runs/tiny", "plain.txt", "--json"))["perplexity"] > 1
    refused(invoke("eval", "runs/tagger", "plain.txt"), 3, "plain.txt")


def test_an_export_parses_and_scores_like_the_run(copied: Path, invoke: Invoke) -> None:
    report = invoke("export", "runs/tiny", "out", "--json").json
    assert report["largest_difference"] == 0.0
    assert json.loads((copied / "out/EXPORT.json").read_text())["largest_difference"] == 0.0
    assert not (copied / "out/training").exists()
    for arguments in (["-f", "conllu"], ["-f", "jsonl", "--channel", "all"], ["-f", "tree", "--prob"]):
        assert invoke("parse", "out", "test.conllu", *arguments) == invoke(
            "parse", "runs/tiny", "test.conllu", *arguments
        )
    of_run, of_export = (scores(invoke("eval", name, "--json")) for name in ("runs/tiny", "out"))
    assert of_run == of_export
    refused(invoke("export", "runs/tiny", "out"), 2, "out")
    half = invoke("export", "out", "half", "--dtype", "bfloat16", "--json").json
    assert half["bytes"] == report["bytes"] / 2
    assert 0.0 < half["largest_difference"] < 1.0
    assert invoke("eval", "half", "--json").code == 0


# --- pipelines --------------------------------------------------------------------------------------------------------


def test_pipeline_of_compressed_text(here: Path) -> None:
    lines = ["the old farmers feed the goats", "", "goats sleep"]
    (here / "wiki.txt.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    done = shell("zcat wiki.txt.gz | probtrans parse runs/tiny -f conllu | gzip > wiki.conllu.gz", here)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    blocks = gzip.decompress((here / "wiki.conllu.gz").read_bytes()).decode().split("\n\n")
    words = [line.split("\t")[1] for block in blocks for line in block.splitlines() if line and line[0] != "#"]
    assert words == " ".join(lines).split()


def test_a_sentence_from_stdin(here: Path, invoke: Invoke, stdin: Stdin) -> None:
    stdin(f"{SENTENCE}\n".encode())
    ran = invoke("parse", "runs/tiny", "-f", "tree")
    assert ran.code == 0, ran.err
    assert all(word in ran.out for word in SENTENCE.split())


@pytest.mark.slow
def test_pipeline_of_seeds(fresh: Path) -> None:
    take = f"'{sys.executable}' -c 'import json, sys; print(json.load(sys.stdin)[\"mean\"][\"perplexity\"])'"
    done = shell(f"probtrans train tiny.yaml train.epochs=1 --seeds 0,1 --json | {take}", fresh)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 1


def test_pipeline_of_a_requirement(here: Path) -> None:
    done = shell("probtrans eval runs/tiny --require 'perplexity<=1.01' > /dev/null || exit 9", here)
    assert done.returncode == 9


def test_a_printed_recipe_is_a_recipe(fresh: Path, invoke: Invoke) -> None:
    printed = invoke("train", "tiny.yaml", "--print", "optim.lr=3e-4")
    assert printed.code == 0, printed.err
    assert "lr: 0.0003" in printed.out
    (fresh / "mine.yaml").write_text(printed.out, encoding="utf-8")
    ran = invoke("train", "mine.yaml", "--dry-run")
    assert ran.code == 0, ran.err
    assert "works" in ran.out


def test_output_file_may_be_the_input(copied: Path, invoke: Invoke) -> None:
    """`parse x -o x` must not empty x before it is read."""
    text = copied / "same.txt"
    text.write_text("the farmers fold a shirt\n", encoding="utf-8")
    ran = invoke("parse", "runs/tiny", str(text), "-o", str(text))
    assert ran.code == 0
    assert "farmers" in text.read_text(encoding="utf-8")
    ran = invoke("parse", "runs/tiny", "no-such-file.txt", "-o", str(text))
    assert ran.code == 3
    assert "farmers" in text.read_text(encoding="utf-8")


def test_trees_are_scored_where_nothing_can_be_hidden(copied: Path, invoke: Invoke) -> None:
    rows = "1\tqwx\t_\tX\t_\t_\t2\t_\t_\t_\n2\tzzx\t_\tX\t_\t_\t0\t_\t_\t_\n\n"
    (copied / "strange.conllu").write_text(rows, encoding="utf-8")
    ran = invoke("eval", "runs/tiny", "strange.conllu", "--json")
    assert ran.json["scores"]["strange.conllu"].keys() == {"trees"}
    assert "strange.conllu: no perplexity: there is no word to hide" in ran.err
    (copied / "strange.txt").write_text("qwx zzx\n", encoding="utf-8")
    refused(invoke("eval", "runs/tiny", "strange.txt"), 3, "strange.txt: there is no word to hide")
    for split in ("dev", "test", "extra"):
        ran = invoke("train", "tiny.yaml", "--run", "runs/new", f"data.{split}=strange.conllu")
        refused(ran, 3, f"data.{split}: there is no word to hide")
        assert "epoch" not in ran.err


def test_choosing_how_trees_are_read(copied: Path, invoke: Invoke) -> None:
    """The choice is the best of all; it is stored, and what is given is kept. The test set chooses nothing."""
    refused(invoke("eval", "runs/tiny", "--choose"), 2, "--split dev --choose")
    refused(invoke("eval", "runs/tiny", "--split", "dev", "--choose", "--channel", "all"), 2, "--channel all")
    (copied / "words.txt").write_text("goats sleep\n", encoding="utf-8")
    refused(invoke("eval", "runs/tiny", "words.txt", "--choose"), 3, "no gold trees")

    refused(invoke("eval", "runs/tiny", "./test.conllu", "--choose"), 2, "test set")
    all_named = ["--channel", "0", "--iteration", "1", "--decode", "mst"]
    refused(invoke("eval", "runs/tiny", "--split", "dev", "--choose", *all_named), 2, "nothing to choose")

    def uuas(*options: str) -> float:
        found = invoke("eval", "runs/tiny", "--split", "dev", "--json", *options).json["scores"]["dev"]["trees"]
        return float(found["no_punct"]["all"]["uuas"])

    best = max(
        uuas("--channel", channel, "--iteration", iteration, "--decode", decoder)
        for channel in ("0", "1", "mean")
        for iteration in ("1", "2")
        for decoder in ("mst", "eisner")
    )
    assert uuas("--choose") == uuas() == best
    given = invoke("eval", "runs/tiny", "--split", "dev", "--choose", "--channel", "1", "--decode", "mst", "--json")
    stored = json.loads((copied / "runs/tiny/checkpoints/best/config.json").read_text("utf-8"))["trees"]
    assert stored == given.json["scores"]["dev"]["trees"]["reading"]
    assert (stored["channel"], stored["decoder"], stored["chosen_on"]) == (1, "mst", "dev")
    assert invoke("parse", "runs/tiny", "words.txt").code == 0  # the checksums are right


def test_scoring_an_empty_file_is_a_data_error(copied: Path, invoke: Invoke) -> None:
    (copied / "empty.conllu").write_text("", encoding="utf-8")
    refused(invoke("eval", "runs/tiny", "empty.conllu"), 3, "no sentence")


def test_resuming_on_other_data_is_refused(copied: Path, invoke: Invoke) -> None:
    source = copied / "grow.conllu"
    source.write_text((copied / "train.conllu").read_text(encoding="utf-8"), encoding="utf-8")
    command = ["train", "tiny.yaml", "name=grow", "data.train=grow.conllu"]
    assert invoke(*command).code == 0
    source.write_text((copied / "dev.conllu").read_text(encoding="utf-8"), encoding="utf-8")
    refused(invoke("train", "runs/grow", "--resume"), 3, "corpora are not those")
