"""What several test files share: a tiny corpus and recipe, the command in a subprocess, and a server that forks it."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pytest
import yaml

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.folders import find_folder
from probtrans_cli.recipe.data import Data

ROOT = Path(__file__).resolve().parent.parent
TOY = ROOT / "probtrans_cli" / "embedded" / "toy"

RECIPE = """\
version: 1
name: tiny
seed: 3
data: {train: train.conllu, dev: dev.conllu, test: test.conllu}
task: {kind: mlm, eval_masks: 3}
model: {labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}, dropout: 0.1}
optim: {lr: 0.01}
train: {epochs: 2, batch_words: 100}
log: {every_steps: 1}
runtime: {device: cpu, threads: 1}
"""


def sentences(split: str, count: int) -> str:
    """The first sentences of a split of the embedded treebank, as CoNLL-U."""
    path = TOY / f"{split}.conllu"
    raw = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    text = raw.decode("utf-8")
    return "\n\n".join(text.split("\n\n")[:count]) + "\n\n"


def workplace(folder: Path, recipe: str = RECIPE) -> Path:
    """A folder with ``train.conllu dev.conllu test.conllu`` (40, 12, 12 sentences) and ``tiny.yaml``."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 40), ("dev", 12), ("test", 12)):
        (folder / f"{split}.conllu").write_text(sentences(split, count), encoding="utf-8")
    (folder / "tiny.yaml").write_text(recipe, encoding="utf-8")
    return folder


COGS = (
    ("Ann sang .", "sing . agent ( x _ 1 , Ann )", "in_distribution"),
    (
        "A hen saw Ann .",
        "hen ( x _ 1 ) AND see . agent ( x _ 2 , x _ 1 ) AND see . theme ( x _ 2 , Ann )",
        "in_distribution",
    ),
    ("goat", "LAMBDA a . goat ( a )", "primitive"),
)


def stand_in(folder: Path, split: str, data: Data) -> str:
    """Write a file in the format of a recipe's corpus, of a few toy sentences; returns its name."""
    rows = sentences("test" if split == "extra" else split, 6)
    words = [
        [line.split("\t")[1] for line in block.splitlines() if line[:1].isdigit()]
        for block in rows.split("\n\n")
        if block
    ]
    if data.format == "columns":
        tags = ("B-place", "I-place", "O", "B-person", "O")
        text = "\n\n".join("\n".join(f"{word} X X {tags[i % 5]}" for i, word in enumerate(one)) for one in words)
    elif data.format == "table":
        first = data.table.label < data.table.text
        separator = data.table.separator
        lines = [(str(i % 2), " ".join(one)) if first else (" ".join(one), str(i % 2)) for i, one in enumerate(words)]
        text = "\n".join(separator.join(line) for line in lines)
    elif data.format == "jsonl":  # none of the shipped recipes has labels there
        text = "\n".join(json.dumps({data.jsonl.text: " ".join(sentence)}) for sentence in words)
    elif data.format == "documents":
        text = "\n".join(" ".join(one) + "\n" * (i % 3 == 2) for i, one in enumerate(words))
    elif data.format == "extractions":
        tuples = [(one, {"arg1": one[0], "rel": one[1], "arg2": " ".join(one[2:-1])}) for one in words]
        text = "\n".join(json.dumps({"words": one, "tuples": [{**found, "confidence": 1}]}) for one, found in tuples)
    elif data.format == "cogs":
        text = "\n".join("\t".join(row) for row in COGS)
    else:
        if data.format == "treebank":  # with features, which the toy treebank has not
            rows = re.sub(r"(\tNOUN\t[^\t]*)\t_", r"\1\tNumber=Sing", rows)
        (folder / f"{split}.conllu").write_text(rows, encoding="utf-8")
        return f"{split}.conllu"
    (folder / f"{split}.txt").write_text(text + "\n", encoding="utf-8")
    return f"{split}.txt"


def real_data(name: str) -> Path:
    """A file, packed or not, or a folder of $PROBTRANS_DATA (default `data/`); the test is skipped where there is
    none."""
    data = os.environ.get("PROBTRANS_DATA")
    path = Path(data or "data", name).resolve()
    for found in (path, Path(f"{path}.gz")):
        if found.exists():
            return found
    pytest.skip(f"there is no {path} (PROBTRANS_DATA is {data or 'not set'}); `probtrans fetch` lists how to get it")


def require_origin(path: Path) -> None:
    """Skip a test of a recipe that starts from a folder which is not there (`model.from`), or has its vocabulary."""
    recipe = yaml.safe_load(path.read_text("utf-8"))
    section = recipe.get("model", {})
    name = section.get("lower", section).get("from") or recipe["data"].get("vocabulary", {}).get("folder")
    if name is not None and not find_folder(name).is_dir():
        data = os.environ.get("PROBTRANS_DATA")
        pytest.skip(f"{path.stem} starts from {name}, which is not there (PROBTRANS_DATA is {data or 'not set'})")


def content(folder: Path) -> dict[str, bytes | str | None]:
    """All below a folder: the bytes of files, the names to which links lead, and folders."""
    return {
        str(path.relative_to(folder)): path.readlink().name if path.is_symlink()
        else path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip


def interrupted(run: Path, kept: int = 1) -> Path:
    """Make a run that was trained to its end as a kill leaves one: with only its first checkpoints; returns the last
    of them."""
    checkpoints = run / "checkpoints"
    steps = sorted(checkpoints.glob("step-*"))
    assert len(steps) > kept, "nothing is left to train"
    for step in steps[kept:]:
        shutil.rmtree(step)
    last = steps[kept - 1]
    for link in ("best", "last"):
        (checkpoints / link).unlink()
        (checkpoints / link).symlink_to(last.name)
    return last


def environment(**more: str) -> dict[str, str]:
    """The environment of a subprocess: this checkout's package, one thread, no colour."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **more}


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let a process make the options of the command line, and the nodes of a YAML text, once: commands as small as
    those of tests spend two thirds of their time with these."""
    import typer

    from probtrans_cli.recipe import yaml as reader

    known: dict[str, tuple[Any, Any]] = {}

    class Composer(reader._Composer):
        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__(text)

        def get_single_node(self) -> Any:
            if self.text not in known:
                if len(known) > 100:
                    known.clear()
                known[self.text] = super().get_single_node(), self.get_mark()
            return known[self.text][0]

        def get_mark(self) -> Any:
            return known[self.text][1] if self.text in known else super().get_mark()

    patch.setattr(reader, "_Composer", Composer)
    patch.setattr(typer.main, "get_command", cache(typer.main.get_command))


@contextmanager
def quick_trainings(*, pages: bool = False) -> Iterator[None]:
    """Within: nothing waits for a disk; without ``pages``, trainings draw no trees and write no report, which is a
    third of the smallest ones."""
    from probtrans_cli.reports.pages import write_report
    from probtrans_cli.trained.formats.pictures import write_gallery

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probtrans_cli.atomic.sync", lambda path: None)  # guards against a loss of power
        patch.setattr("probtrans_cli.training.loop.write_gallery", write_gallery if pages else lambda *_: None)
        patch.setattr("probtrans_cli.commands.train.write_report", write_report if pages else lambda *_: None)
        yield


def train_each(folder: Path, runs: Mapping[str, Sequence[str]]) -> Path:
    """Train runs of these names and overrides in a workplace; returns its folder."""
    from probtrans_cli.commands.train import TrainRequest, train

    with chdir(folder):
        for name, overrides in runs.items():
            train(TrainRequest("tiny.yaml", [f"name={name}", *overrides]))
    return folder


COMMAND = (sys.executable, "-m", "probtrans_cli")


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a pipeline in bash, with `probtrans` as a function."""
    head = f'set -o pipefail\nprobtrans() {{ "{sys.executable}" -m probtrans_cli "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", head + script], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )


class Ran(NamedTuple):
    """How a command ended in this process."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> Ran:
        """The same, of a command that has ended well."""
        assert self.code == 0, self.err
        return self

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def scores(self) -> dict[str, Any]:
        """What `eval --json` says of the only file or split."""
        (scores,) = self.ok.json["scores"].values()
        return dict(scores)

    @property
    def records(self) -> list[Any]:
        """Lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Invoke = Callable[..., Ran]
Stdin = Callable[[bytes], None]


@dataclass(frozen=True)
class Ended:
    """How a forked command ended: exit status (negative: killed by that signal), both streams, counted operations."""

    code: int
    stderr: str
    stdout: str
    operations: int


class Forks:
    """A process that has imported everything and forks a child for every command, so that a start costs nothing."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "serve"],
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        die_at: int | None = None,
        die_on: str = "",
        counted: Literal["files", "calls"] = "files",
        streams: Mapping[str, str | None] | None = None,
        file_bytes: int | None = None,
    ) -> int:
        """Start a command; returns its process id.

        ``die_at``: it kills itself by SIGKILL before that operation on its files; with ``die_on``, only renames of
        files that are called so are counted. ``counted="calls"`` counts the calls of Python functions instead: a moment
        anywhere in the program that does not depend on how fast the machine is.

        ``streams``: as the process itself has them, files in the place of ``stdin``, ``stdout`` and ``stderr``; None: a
        closed one. ``file_bytes``: the most that a file may have.
        """
        message = {"arguments": list(arguments), "folder": str(folder), "streams": streams, "file_bytes": file_bytes}
        self._send({**message, "die_at": die_at, "die_on": die_on, "counted": counted})
        return int(self._receive()["pid"])

    def wait(self, folder: Path) -> Ended:
        """Wait for the command that was started last."""
        self._send({"wait": True})
        code = os.waitstatus_to_exitcode(int(self._receive()["status"]))
        counted = folder / "operations"
        streams = [(folder / name).read_text("utf-8") for name in ("stderr", "stdout")]
        return Ended(code, *streams, int(counted.read_text()) if counted.exists() else 0)

    def run(self, arguments: Sequence[str], folder: Path, **how: Any) -> Ended:
        """Start a command, as :meth:`start` does, and wait for it."""
        self.start(arguments, folder, **how)
        return self.wait(folder)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


# --- the server's side ------------------------------------------------------------------------------------------------

FILE_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "shutil.rmtree"}


def counting(
    kind: Literal["files", "calls"],
    die_at: int | None,
    by: signal.Signals,
    counts: Callable[[str, str], bool] = lambda event, path: True,
) -> Callable[[], int]:
    """Count from now on the calls of Python functions, or the operations on files, in this process.

    Before the operation of the number ``die_at`` the process sends itself the signal ``by``. ``counts`` says of an
    operation on a file, by its audit event and its path, whether it counts. Returns a function that tells the number.
    """
    number = 0

    def one_more() -> None:
        nonlocal number
        number += 1
        if number == die_at:
            os.kill(os.getpid(), by)

    def audit(event: str, values: tuple[Any, ...]) -> None:
        is_of_path = event in FILE_EVENTS and isinstance(values[0], str | os.PathLike)
        if is_of_path and counts(event, os.fspath(values[0])):
            one_more()

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        one_more()  # a call: answering None, it is not asked about the lines of the function

    if kind == "calls":
        sys.settrace(trace)
    else:
        sys.addaudithook(audit)
    return lambda: number


def serve() -> None:
    """Read commands, fork, answer. The parent runs no arithmetic, so a child finds no thread pool half forked."""

    # Optimizers import dynamo when they are made: half of the time of a training as short as these.
    import torch._dynamo  # noqa: F401

    import probtrans_cli.__main__
    import probtrans_cli.cli
    import probtrans_cli.commands.train
    import probtrans_cli.training.loop  # noqa: F401
    from probtrans_cli.__main__ import run

    remember(pytest.MonkeyPatch())
    with redirect_stdout(StringIO()):
        run(["train", "quickstart", "--print"])
    child = 0
    for line in sys.stdin:
        message = json.loads(line)
        if "wait" in message:
            answer = {"status": os.waitpid(child, 0)[1]}
        else:
            child = os.fork()
            if child == 0:
                _child(message)
            answer = {"pid": child}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _child(message: dict[str, Any]) -> None:
    from probtrans_cli.__main__ import main, run

    os.chdir(message["folder"])
    streams = {"stdin": os.devnull, "stdout": "stdout", "stderr": "stderr"} | (message["streams"] or {})
    for name in ("stdout", "stderr"):
        Path(name).write_text("")
    for number, name in enumerate(streams.values()):
        os.dup2(os.open(name or os.devnull, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY), number)
    for number, name in enumerate(streams.values()):
        if name is None:
            os.close(number)
    if message["file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (message["file_bytes"], message["file_bytes"]))
    sys.argv = ["probtrans", *message["arguments"]]
    os.fsync = lambda handle: None  # guards against a loss of power, not against a kill, and costs most of the time

    def counts(event: str, path: str) -> bool:
        is_kind = event == "os.rename" or not message["die_on"]
        return is_kind and "runs" in path and path.endswith(message["die_on"])

    count = counting(message["counted"], message["die_at"], signal.SIGKILL, counts)
    if message["streams"] is not None:  # the whole program, to its end
        try:
            main(message["arguments"])
        except SystemExit as error:
            with suppress(Exception):
                sys.stderr.flush()
            os._exit(int(error.code or 0))
    code = run(message["arguments"])
    sys.settrace(None)
    sys.stdout.flush()
    sys.stderr.flush()
    Path("operations").write_text(str(count()))
    os._exit(code)


def skip_if_ignored(number: int) -> None:
    """Skip the test where a signal is ignored from the start, as nohup wants it: so it is by the commands, too."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("what started the tests ignores this signal, and so do the commands")


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """A function that raises an error, whatever it is called with."""

    def fails(*_: object, **__: object) -> NoReturn:
        raise error

    return fails


NO_ROOM = OSError(errno.ENOSPC, "No space left on device")


def refused(ran: Ran, code: int, *words: str) -> None:
    """An error for people: the code, nothing on stdout, no traceback, the words in the message."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err, ran.err


def assert_near(found: Any, wanted: Any, *, rel: float = 1e-6, abs: float | None = None, where: str = "") -> None:
    """Assert that two values of JSON are the same, their fractions but for rounding: where they come from two
    computations, processors differ in the last bits.

    ``abs``: of fractions that are written with few digits, a little more than one step of the last one.
    """
    assert type(found) is type(wanted), where
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for name, value in wanted.items():
            assert_near(found[name], value, rel=rel, abs=abs, where=f"{where}.{name}")
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), where
        for number, (one, value) in enumerate(zip(found, wanted, strict=True)):
            assert_near(one, value, rel=rel, abs=abs, where=f"{where}[{number}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=rel, abs=abs, nan_ok=True), where
    else:
        assert found == wanted, where


def assert_near_text(found: str, wanted: str, *, abs: float = 2e-6) -> None:
    """Assert that two texts are the same, their fractions but for rounding, see :func:`assert_near`."""
    one, other = (re.split(r"(?<![\w.])(\d*\.\d+)", text) for text in (found, wanted))
    assert one[::2] == other[::2]
    assert_near([float(part) for part in one[1::2]], [float(part) for part in other[1::2]], abs=abs)


def values_of(split: Split, column: str) -> np.ndarray:
    """The values of a column of all sentences, in order."""
    return np.concatenate([*split.columns(column)])


def seeded(name: str) -> random.Random:
    return random.Random(name)


if __name__ == "__main__":
    serve()
