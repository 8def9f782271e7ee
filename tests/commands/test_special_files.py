"""Named pipes, devices, sockets and links in the place of what a folder holds: refused at once, with exit code 4."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from pathlib import Path
from types import FrameType

import pytest
from support import Invoke, refused

RUN = "runs/tiny"
BEST = f"{RUN}/checkpoints/best"
OF_A_CHECKPOINT = (
    "SHA256SUMS", "config.json", "model.safetensors", "vocabulary.json", "labels.json", "recipe.yaml", "eval.json",
    "README.md",
)  # fmt: skip
READ: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "eval": (("eval", RUN), tuple(f"{BEST}/{name}" for name in OF_A_CHECKPOINT)),
    "parse": (("parse", f"{RUN}@last", "dev.conllu"), (f"{RUN}/checkpoints/last/model.safetensors",)),
    "export": (("export", RUN, "out"), (f"{BEST}/SHA256SUMS", f"{BEST}/labels.json")),
    "table": (
        ("table", RUN),
        (
            f"{RUN}/exit.json", f"{RUN}/metrics.jsonl", f"{RUN}/recipe.yaml", f"{BEST}/eval.json",
            f"{BEST}/config.json", f"{BEST}/recipe.yaml", f"{RUN}/checkpoints/last/training/state.json",
        ),
    ),
    "page": (("table", RUN, "-f", "html"), (f"{RUN}/metrics.jsonl",)),
    "resume": (
        ("train", RUN, "--resume"),
        tuple(
            f"{RUN}/checkpoints/last/{name}"
            for name in ("SHA256SUMS", "training/state.json", "training/optimizer.safetensors", "model.safetensors")
        ),
    ),
    "rerun": (("train", RUN, "--run", "runs/new"), (f"{RUN}/recipe.yaml",)),
    "recipe": (("train", RUN, "--print"), (f"{RUN}/recipe.yaml",)),
    "init": (("train", "tiny.yaml", "--run", "runs/new", "--init-from", RUN), (f"{BEST}/model.safetensors",)),
}  # fmt: skip
"""By verb: the command, and what it reads of a run."""
PREPARED = ("manifest.json", "labels.json", "vocabulary.json", "train.arrow")


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """Whoever waits for a pipe waits forever."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def named_pipe(path: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as server:  # its name may have 107 bytes
        server.bind(path.name)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:  # only root makes devices
        named_pipe(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_file(path: Path) -> None:
    path.symlink_to(path.with_name(f"{path.name}.original"))


KINDS = (named_pipe, listening_socket, device, link_to_zeros, link_to_a_file)


def replace(path: Path, kind: Callable[[Path], None]) -> None:
    path = path.parent.resolve() / path.name
    path.rename(path.with_name(f"{path.name}.original"))
    kind(path)


@pytest.mark.parametrize("verb", READ)
def test_what_a_verb_reads_of_a_run(verb: str, copied: Path, invoke: Invoke) -> None:
    command, names = READ[verb]
    shutil.copytree(RUN, copied.parent / "kept", symlinks=True)
    for number, name in enumerate(names, start=list(READ).index(verb)):
        replace(Path(name), KINDS[number % len(KINDS)])
        ran = invoke(*command)
        refused(ran, 4, Path(name).name, "in the place of a file")
        shutil.rmtree(RUN)
        shutil.rmtree("runs/new", ignore_errors=True)
        shutil.copytree(copied.parent / "kept", RUN, symlinks=True)


@pytest.mark.parametrize("kind", [named_pipe, link_to_a_file])
def test_an_encoded_corpus(kind: Callable[[Path], None], copied: Path, invoke: Invoke) -> None:
    assert invoke("prepare", "tiny.yaml", "data.prepared=corpus").code == 0
    shutil.copytree("corpus", copied.parent / "corpus")
    for name in PREPARED:
        replace(Path("corpus", name), kind)
        Path("corpus", f"{name}.original").rename(copied.parent / "original")
        for verb in (("prepare", "tiny.yaml"), ("train", "tiny.yaml", "--run", "runs/new")):
            refused(invoke(*verb, "data.prepared=corpus"), 4, f"corpus/{name}: a ")
        shutil.rmtree("corpus")
        shutil.copytree(copied.parent / "corpus", "corpus")


@pytest.mark.parametrize("kind", [listening_socket, link_to_a_file])
def test_a_job_in_blocks(kind: Callable[[Path], None], copied: Path, invoke: Invoke) -> None:
    command = ("parse", RUN, "dev.conllu", "--output-dir", "out")
    for name in ("job.json", "blocks/000001.conllu", "blocks/000001.done"):
        assert invoke(*command).code == 0
        replace(Path("out", name), kind)
        original = Path("out", f"{name}.original")
        if kind is not link_to_a_file:
            original.unlink()
        for more in ((), ("--merge",)):
            refused(invoke(*command, *more), 4, f"out/{name}: a ")
        shutil.rmtree("out")


def test_a_folder_of_a_checkpoint_that_is_a_link(copied: Path, tmp_path: Path, invoke: Invoke) -> None:
    last = Path(RUN, "checkpoints/last").resolve()
    (last / "training").rename(tmp_path / "training")
    (last / "training").symlink_to(tmp_path / "training")
    refused(invoke("train", RUN, "--resume"), 4, "training: a link in the place of a folder")


def test_what_a_user_names_may_be_a_pipe(copied: Path, invoke: Invoke) -> None:
    """As `<(...)` of a shell is."""
    files = {
        "recipe": Path("tiny.yaml").read_bytes(),
        "text": b"two farmers\n",
        "gold": Path("dev.conllu").read_bytes(),
    }

    def write(name: str) -> None:
        with suppress(BrokenPipeError):
            Path(name).write_bytes(files[name.removesuffix(".pipe")])

    commands: dict[str, tuple[str, ...]] = {
        "recipe": ("train", "recipe.pipe", "--print"), "text": ("parse", RUN, "text.pipe", "-f", "jsonl"),
        "gold": ("eval", RUN, "gold.pipe"),
    }  # fmt: skip
    for name, command in commands.items():
        os.mkfifo(f"{name}.pipe")
        writer = threading.Thread(target=write, args=(f"{name}.pipe",), daemon=True)
        writer.start()
        assert invoke(*command).ok
        writer.join()


def test_a_result_may_be_written_into_a_pipe_or_a_device(copied: Path, invoke: Invoke) -> None:
    os.mkfifo("answers")
    answers: list[bytes] = []
    reader = threading.Thread(target=lambda: answers.append(Path("answers").read_bytes()), daemon=True)
    reader.start()
    assert invoke("parse", RUN, "dev.conllu", "-o", "answers").code == 0
    reader.join()
    assert answers[0].count(b"\n\n") == 12
    assert invoke("parse", RUN, "dev.conllu", "-o", os.devnull).code == 0
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
