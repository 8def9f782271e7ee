"""Trainings of every task in several processes: the corpora, the recipes, and a program that one process of several
runs. Starting torch takes seconds, so that one set of processes does all of the trainings, one after the other."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support import COGS, environment, interrupted, sentences, workplace

RECIPE = """\
version: 1
name: shared
seed: 3
data: {train: train.conllu, dev: dev.conllu}
task: {kind: mlm}
model: {labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}, dropout: 0.2}
optim: {lr: 0.003, schedule: {kind: constant}}
train: {epochs: 200, batch_words: 50, accumulate: 4}
eval: {every_epochs: 3}
log: {every_steps: 1}
runtime: {device: cpu, threads: 1}
"""
TRANSFORMER = "model={kind: transformer, width: 8, heads: 2, inner: 12, layers: 2, dropout: 0.2}"
BERT = (
    "model={kind: transformer, preset: bert, width: 16, heads: 2, inner: 24, layers: 2, std: 0.2, dropout: 0.1, "
    "embedding_dropout: 0.1}"
)
TASKS: dict[str, tuple[str, ...]] = {
    "mlm": (),
    "tagging": ("task={kind: tagging, word_dropout: 1.0}", "optim.clip=0.5"),
    "ner": ("task={kind: ner, loss: sentences}", "data={train: tags.txt, dev: tags.txt, format: columns, "
            "columns: {entities: iob2}}"),
    "classification": ("task={kind: classification}", "data={train: table.tsv, dev: table.tsv, format: table}"),
    "cogs": ("task={kind: cogs}", "data={train: cogs.tsv, dev: cogs.tsv, format: cogs}", "train.batch_words=16"),
    "pretrain": ("task={kind: pretrain}", "data={train: documents.txt, dev: documents.txt, format: documents, "
                 "documents: {max_length: 32}}"),
    "openie": ("task={kind: openie, rows: 2, iterative_steps: 1, label_source: scheduled, word_dropout: 0.5}",
               "data={train: tuples.jsonl, dev: tuples.jsonl, format: extractions}"),
    "coordination": ("task={kind: coordination, rows: 1, iterative_steps: 1}",
                     "data={train: cc.txt, dev: cc.txt, format: coordinations}", "train.batch_words=16"),
}  # fmt: skip
EVERY: dict[str, tuple[str, ...]] = {
    **{f"{task}-probabilistic": changes for task, changes in TASKS.items()},
    **{f"{task}-transformer": (*changes, TRANSFORMER) for task, changes in TASKS.items()},
    "pretrain-transformer": (*TASKS["pretrain"], BERT),
}
"""Every task with both encoders."""
WEIGHTS: dict[str, tuple[str, ...]] = {
    "tied": ("task.output=tied", "optim.ternary_penalty={weight: 0.02}", "optim.ema=0.9", "optim.clip=0.3"),
    "bayes": (*TASKS["tagging"], "model={kind: transformer, width: 8, heads: 2, inner: 8, layers: 1, dropout: 0.1, "
              "bayes: {objective: samples, norms: true, kl_warmup: 0.5}}"),
    "ivon": (*TASKS["tagging"], "optim.kind=ivon"),
    "features": ("data.vocabulary={kind: words, features: {rows: 100}}", *TASKS["tagging"]),
    "plateau": ("optim.schedule={kind: plateau, patience: 1}", "train.patience=2", "optim.lr=0.1"),
}  # fmt: skip
"""What else the parameters can be, and what decides on dev."""


def place(folder: Path) -> Path:
    """A folder with the recipe and a small corpus of every kind."""
    workplace(folder, RECIPE)
    blocks = [block for block in sentences("train", 20).split("\n\n") if block.strip()]
    words = [[line.split("\t")[1] for line in block.splitlines() if line[:1].isdigit()] for block in blocks]
    tags = ("B-x", "I-x", "O", "B-y", "O")
    rows = ["\n".join(f"{word} {tags[i % 5]}" for i, word in enumerate(one)) for one in words]
    tuples = [(one, {"arg1": one[0], "rel": one[1], "arg2": " ".join(one[2:-1])}) for one in words if len(one) > 3]
    generator = random.Random(0)
    texts = [
        "\n".join(
            " ".join(f"{subject}{generator.randrange(10)}" for _ in range(generator.randint(2, 9)))
            for _ in range(generator.randint(2, 6))
        )
        for subject in generator.choices("abcd", k=15)
    ]
    files = {
        "tags.txt": "\n\n".join(rows),
        "table.tsv": "\n".join(f"{' '.join(one)}\t{'xyz'[i % 3]}" for i, one in enumerate(words)),
        "cogs.tsv": "\n".join("\t".join(row) for row in COGS * 8),
        "documents.txt": "\n\n".join(texts),
        "tuples.jsonl": "\n".join(json.dumps({"words": one, "tuples": [found]}) for one, found in tuples),
        "cc.txt": "two farmers and goats fold\nCP_START CP CC CP NONE\n\nfarmers fold\nNONE NONE\n\n" * 12,
    }
    for name, text in files.items():
        (folder / name).write_text(text + "\n", "utf-8")
    return folder


HELD = """
import os, signal, time
from pathlib import Path
if "RANK" in os.environ:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as the command does before it imports torch
    from probtrans_cli.training.loop import Trainer
    update = Trainer._update
    def held(self, batches):
        update(self, batches)
        if self.state.step == {step}:
            (Path(__file__).parent / ("rank " + os.environ["RANK"])).touch()
            while not signal.getsignal(signal.SIGTERM).__self__.signal:
                time.sleep(0.02)
    Trainer._update = held
"""


class Held:
    """Processes of a training that wait after an update until each of them has a SIGTERM: on a busy machine, a training
    of a second is over before the test, or a launcher, has sent it.

    ``environment``: of the training.
    """

    def __init__(self, folder: Path, step: int = 5) -> None:
        self.place = folder / "held"
        self.place.mkdir()
        (self.place / "sitecustomize.py").write_text(HELD.format(step=step), "utf-8")
        self.environment = {"PYTHONPATH": os.pathsep.join([str(self.place), environment()["PYTHONPATH"]])}

    def wait(self, world: int, training: subprocess.Popen[Any], log: Path) -> None:
        """Until so many processes wait."""
        deadline = time.monotonic() + 120
        while len(list(self.place.glob("rank *"))) < world:
            assert time.monotonic() < deadline, log.read_text("utf-8")
            assert training.poll() is None, log.read_text("utf-8")
            time.sleep(0.02)


def port() -> int:
    """A port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number: int = one.getsockname()[1]
        return number


def ranks(world: int, **more: str) -> list[dict[str, str]]:
    common = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port()), **more}
    return [environment(RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank in range(world)]


def start(folder: Path, world: int, jobs: Sequence[Mapping[str, Any]]) -> list[subprocess.Popen[str]]:
    """Start processes that do some trainings, see :func:`train_all`."""
    command = [sys.executable, str(Path(__file__).resolve()), json.dumps(jobs)]
    environments = ranks(world) if world > 1 else [environment()]
    return [
        subprocess.Popen(command, cwd=folder, env=one, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for one in environments
    ]


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[list[dict[str, Any]]]:
    """Wait for them; what each of them returns for every training."""
    ended = [one.communicate(timeout=600) for one in processes]
    for one, (_, told) in zip(processes, ended, strict=True):
        assert one.returncode == 0, told
    return [json.loads(out) for out, _ in ended]


def train_all(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What one process does: train; what comes of each training.

    A job with ``copy_of`` copies a run first, and if ``kept`` is given so that only its first checkpoints are left.
    """
    from probtrans_cli import console
    from probtrans_cli.commands import train as verb
    from probtrans_cli.commands.launch import processes

    found: list[dict[str, Any]] = []
    with processes() as ranks:
        console.STATE.level = console.QUIET if ranks.first else console.SILENT
        for job in jobs:
            run = Path("runs", job["run"])
            if "copy_of" in job and ranks.first:
                shutil.copytree(Path("runs", job["copy_of"]), run, symlinks=True)
                if "kept" in job:
                    interrupted(run, job["kept"])
                ranks.done(f"the copy {run}")
            elif "copy_of" in job:
                ranks.wait_for_first(f"the copy {run}")
            request = verb.TrainRequest("tiny.yaml", job["changes"], run=run, resume="copy_of" in job)
            found.append(verb._train(request, ranks))
    return found


if __name__ == "__main__":
    from probtrans_cli import atomic
    from probtrans_cli.__main__ import leave
    from probtrans_cli.commands import train as verb
    from probtrans_cli.training import loop

    atomic.sync = lambda path: None  # guards against a loss of power; slow
    loop.write_gallery = lambda *_: None
    verb.write_report = lambda *_: None
    print(json.dumps(train_all(json.loads(sys.argv[1]))), flush=True)
    leave(0)
