"""Where commands are run: in the folder of the trained runs, in a new one, in a copy; and a run of every task."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_of_every_task import COORDINATED, DOCUMENTS, OVERRIDES, ROWS, SENTENCE, TUPLES
from support import COGS, Forks, Invoke, workplace


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


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """A server that forks a process for each command."""
    server = Forks()
    yield server
    server.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of every kind of task, called after it; do not change it."""
    from probtrans_cli.commands.train import TrainRequest, train

    folder = workplace(tmp_path_factory.mktemp("answers"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("probtrans_cli.atomic.sync", lambda path: None)
        Path("ner.txt").write_text(ROWS * 4, "utf-8")
        Path("cogs.tsv").write_text("\n".join("\t".join(row) for row in COGS) + "\n", "utf-8")
        Path("texts.tsv").write_text("two cheap farmers\tgood\nfarmers fold\tbad\n" * 4, "utf-8")
        Path("doc.txt").write_text(DOCUMENTS * 4, "utf-8")
        Path("tuples.jsonl").write_text(TUPLES * 4, "utf-8")
        Path("cc.txt").write_text(COORDINATED * 4, "utf-8")
        for task, overrides in OVERRIDES.items():
            train(TrainRequest("tiny.yaml", [f"name={task}", *overrides]))
    return folder


@pytest.fixture
def say(runs: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `parse` of a task's run writes about a text."""
    monkeypatch.chdir(tmp_path)

    def run(task: str, *options: str, text: str | None = None, name: str = "in.txt") -> str:
        Path(name).write_text(text or f"{SENTENCE.get(task, 'two cheap farmers fold')}\n", "utf-8")
        ran = invoke("parse", str(runs / "runs" / task), name, *options)
        assert ran.code == 0, ran.err
        return ran.out

    return run
