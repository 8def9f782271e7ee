"""The commands of the pages on several processes and on clusters run, on this machine and for a moment."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import stand_ins
import yaml
from several_processes import Held, place
from support import environment
from test_readme import block

pytestmark = pytest.mark.slow
QUICK = "train.steps=3"


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a bash script, which must succeed, with the stand-ins of a cluster's commands."""
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\n{script}"], cwd=folder,
        env=environment(PATH=stand_ins.install(folder / "bin")), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def shortened(name: str) -> str:
    return block(name, "docs/processes.md").replace("train quickstart", f"train quickstart {QUICK}")


def exit_of(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "exit.json").read_text("utf-8"))
    return found


def test_the_commands_of_the_page_on_processes(tmp_path: Path) -> None:
    """Each block trains, and they come to the same losses."""
    losses = []
    for name in ("several processes", "torchrun", "restarts"):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        shell(f"{shortened(name).strip()} log.every_steps=1\n", folder)
        lines = (folder / "runs/quickstart/metrics.jsonl").read_text("utf-8").splitlines()
        found = [json.loads(line)["loss"] for line in lines if '"train"' in line]
        assert len(found) == 3
        losses.append(found)
    assert losses[1] == losses[0]
    done = shell(block("scores of several", "docs/processes.md"), tmp_path / "torchrun")
    assert done.stdout.count("perplexity") == 1
    again = block("resumed elsewhere", "docs/processes.md")
    done = shell(again, tmp_path / "several-processes")
    assert "resuming runs/quickstart after step 3" in done.stderr


def test_a_slurm_job_is_preempted_requeued_and_finished(tmp_path: Path) -> None:
    """The same bits as one that was left alone; the second time it is another number of nodes."""
    for name in ("alone", "taken"):
        folder = place(tmp_path / name)
        recipe = (folder / "tiny.yaml").read_text("utf-8").replace("epochs: 200", "epochs: 30")
        (folder / "mine.yaml").write_text(recipe.replace("every_epochs: 3", "every_epochs: 10"), "utf-8")
        script = block("slurm train", "docs/clusters.md").replace("train.accumulate=8", "train.accumulate=4")
        (folder / "job.sh").write_text(script, "utf-8")
    submit = block("slurm submit", "docs/clusters.md").replace("sbatch", "sbatch --ntasks-per-node=1")
    shell(submit, tmp_path / "alone")
    folder = tmp_path / "taken"
    path, held = stand_ins.install(folder / "bin"), Held(folder)
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(
            ["bash", "-c", submit], cwd=folder, env=environment(PATH=path, **held.environment), stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    held.wait(2, job, folder / "log")
    for task in (folder / "tasks").read_text("utf-8").split():
        os.kill(int(task), signal.SIGTERM)
    assert job.wait(timeout=300) == 0, (folder / "log").read_text("utf-8")
    assert (folder / "requeues").read_text("utf-8") == "4711\n"
    told = [line for line in (folder / "log").read_text("utf-8").splitlines() if line.startswith("error")]
    assert len(told) == 1
    assert re.fullmatch(r"error: stopped by SIGTERM; saved step \d+ of runs/mine", told[0])
    weights = [
        (tmp_path / name / "runs/mine/checkpoints/last/model.safetensors").read_bytes() for name in ("alone", "taken")
    ]
    assert weights[0] == weights[1]
    assert exit_of(folder / "runs/mine") == {"exit": 0, "reason": "done"}


@pytest.mark.exhaustive
def test_an_array_job_parses_what_one_process_does(tmp_path: Path) -> None:
    folder = place(tmp_path / "work")
    (folder / "parse.sh").write_text(block("slurm parse", "docs/clusters.md").replace("--workers 4", "--workers 1"))
    (folder / "corpus").mkdir()
    for name in "abcd":
        text = f"two {name} farmers fold\ncheap goats fold\n" * 3
        (folder / "corpus" / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode()))
    train = f"probtrans -q train tiny.yaml {QUICK} --run runs/mine\n"
    shell(f"{train}probtrans -q parse runs/mine corpus/*.txt.gz > one.conllu", folder)
    submit = block("slurm parse submit", "docs/clusters.md").replace("--wait", "--wait --array=1-3")
    shell(submit, folder)
    whole = gzip.decompress((folder / "corpus.conllu.gz").read_bytes())
    assert whole == (folder / "one.conllu").read_bytes()
    assert whole.count(b"# text = ") == 24
    assert len(list((folder / "parsed/blocks").glob("*.done"))) == 4


@pytest.mark.exhaustive
def test_a_skypilot_task_trains_on_two_machines(tmp_path: Path) -> None:
    folder = place(tmp_path / "work")
    (folder / "mine.yaml").write_text((folder / "tiny.yaml").read_text("utf-8"), "utf-8")
    task = yaml.safe_load(block("skypilot", "docs/clusters.md"))
    assert task["num_nodes"] == 2
    port = str(29000 + os.getpid() % 900)
    script = task["run"].replace("train.accumulate=16", f"train.accumulate=4 {QUICK}").replace("29500", port)
    path = stand_ins.install(folder / "bin")
    given = {
        "PATH": path, "RUNS": str(folder / "runs"), "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NUM_GPUS_PER_NODE": "1",
        "SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.1",
    }  # fmt: skip
    machines = [
        subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=environment(**given, SKYPILOT_NODE_RANK=str(node)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for node in range(2)
    ]  # fmt: skip
    ended = [one.communicate(timeout=300) for one in machines]
    assert [one.returncode for one in machines] == [0, 0], ended
    assert exit_of(folder / "runs/mine") == {"exit": 0, "reason": "done"}
