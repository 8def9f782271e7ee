"""Altered runs, prepared corpora, checkpoints, folders of Hugging Face's; links, pipes and devices in all of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sys
from pathlib import Path

from support import interrupted

from probtrans_cli import load
from probtrans_cli.errors import ProbtransError

from .inputs import ONE_UPDATE
from .material import CORPORA, RUNS, SHORT, TRANSFORMER, WORKPLACE
from .mutations import hostile, mutated, of_kind
from .place import Group, Place

OF_A_RUN = (
    "metrics.jsonl", "exit.json", "recipe.yaml", "log.txt", "checkpoints/eval-test.json",
    "checkpoints/best/eval.json", "checkpoints/best/config.json",
)  # fmt: skip


def alter(place: Place, name: str) -> None:
    path = place.folder / name
    path.write_bytes(of_kind(place.chance, name, path.read_bytes()))


def _away(path: Path) -> None:
    """Let there be nothing of a name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def disturb(place: Place, folder: str) -> None:
    """Remove a file or folder, put another kind of thing in its place, exchange two, or add one."""
    chance = place.chance
    every = sorted(path for path in (place.folder / folder).rglob("*"))
    target, other = chance.choice(every), chance.choice(every)
    do = chance.randrange(6)
    if do == 4:
        name = chance.choice((".hidden", "notes.txt", "é", "checkpoints.txt", "step-000001", "x y"))
        place.write(f"{folder}/{name}", hostile(chance))
        return
    if do == 5 and target.is_file() and other.is_file():
        content = target.read_bytes()
        target.write_bytes(other.read_bytes())
        other.write_bytes(content)
        return
    _away(target)
    if do == 1:
        target.mkdir()
    elif do == 2:
        target.write_bytes(hostile(chance))
    elif do == 3:
        target.symlink_to(chance.choice((".", "nowhere", target.name, "/dev/null", "..")))


def tabled(place: Place) -> None:
    """Run folders as `table` reads them."""
    chance = place.chance
    run = chance.choice(list(RUNS))
    place.copy(f"runs/{run}", "runs/tiny" if run != "tiny" else "runs/tagger")
    if chance.random() < 0.15:
        disturb(place, f"runs/{run}")
    for _ in range(chance.choice((1, 1, 2))):
        name = f"runs/{run}/{chance.choice(OF_A_RUN)}"
        if (place.folder / name).is_file():
            alter(place, name)
    place.guard()
    runs = chance.choice(((f"runs/{run}",), ("runs/tiny", f"runs/{run}")))
    place.run("table", *runs, *chance.choice(((), ("--json",), ("-f", "html"))))


def continued(place: Place) -> None:
    """Run folders as `train` continues and replaces them, and `eval` and `export` read them."""
    chance = place.chance
    run = chance.choice(("tiny", "tagger"))
    where = f"runs/{run}"
    place.copy(where, *WORKPLACE)
    added = []
    if chance.random() < 0.4:
        added = [
            place.write(f"{where}/{name}", "what a user has written\n")
            for name in ("notes.txt", "trees/mine.svg", "checkpoints/best/x")
        ]
    if chance.random() < 0.4:
        disturb(place, where)
    else:
        name = f"{where}/{chance.choice(OF_A_RUN)}"
        if (place.folder / name).is_file():
            alter(place, name)
    place.guard(where)
    for name in added:
        if (place.folder / name).is_file() and not (place.folder / name).is_symlink():
            place.guard_one(name)
    verbs = (
        ("train", where, "--resume"), ("train", where, "--resume"), ("train", where, *ONE_UPDATE, "--overwrite"),
        ("train", "tiny.yaml", *ONE_UPDATE, "--run", where, "--overwrite"),
        ("train", "tiny.yaml", *ONE_UPDATE, "--run", where), ("eval", where),
        ("eval", where, "--split", "dev", "--choose"), ("eval", f"{where}@last", "dev.conllu", "--json"),
        ("export", where, "out"), ("prepare", where), ("parse", f"{where}@last", "dev.conllu"),
    )  # fmt: skip
    place.run(*chance.choice(verbs))


def prepared(place: Place) -> None:
    chance = place.chance
    place.copy(*WORKPLACE, "ner.txt")
    run = chance.choice(("tiny", "tagger", "ner", "char", "pieces"))
    overrides = [*SHORT, *RUNS[run], f"name={run}", "data.prepared=here/prepared"]
    source = next((place.material / "prepared").glob(f"{run}-*"))
    shutil.copytree(source, place.folder / "here/prepared")
    place.write("here/notes.txt", "what a user has written\n")
    place.run("prepare", "tiny.yaml", *overrides)  # from now on it is up to date
    files = sorted(path.name for path in (place.folder / "here/prepared").iterdir())
    if chance.random() < 0.2:
        disturb(place, "here/prepared")
    else:
        alter(place, f"here/prepared/{chance.choice(files)}")
    place.guard("here/prepared")
    verb = chance.choice(
        (("prepare", "tiny.yaml", *overrides), ("train", "tiny.yaml", *overrides, *ONE_UPDATE, "--run", "runs/new"))
    )
    place.run(*verb)


def folder(place: Place) -> None:
    """A BERT of Hugging Face's to start from."""
    chance = place.chance
    place.copy(*WORKPLACE, "folder")
    if chance.random() < 0.15:
        disturb(place, "folder")
    else:
        name = chance.choice(
            ("config.json", "config.json", "model.safetensors", "model.safetensors", "tokenizer.json", "vocab.txt")
        )
        if chance.random() < 0.15:
            weights = (place.folder / "folder/model.safetensors").read_bytes()
            (place.folder / "folder/model.safetensors").unlink()
            name = chance.choice(("pytorch_model.bin", "model.safetensors.index.json"))
            index = b'{"metadata": {}, "weight_map": {"bert.embeddings.word_embeddings.weight": "part.safetensors"}}'
            place.write("folder/part.safetensors", weights)
            place.write(f"folder/{name}", mutated(chance, _pickled() if name.endswith("bin") else index))
        else:
            alter(place, f"folder/{name}")
    place.guard()
    vocabulary = chance.choice(("{kind: wordpiece, folder: folder}", "{kind: words}"))
    task = chance.choice(("{kind: mlm, output: bert, eval_masks: 1}", "{kind: tagging, column: upos}"))
    strict = chance.choice(((), ("model.init_strict=false",)))
    overrides = (TRANSFORMER, f"data.vocabulary={vocabulary}", f"task={task}", *ONE_UPDATE, *strict)
    end = chance.choice((("--dry-run",), ("--run", "runs/new")))
    place.run("train", "tiny.yaml", *overrides, "--init-from", "folder", *end)


def _pickled() -> bytes:
    """What an older file of weights begins with."""
    import io
    import zipfile

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("archive/version", "3\n")
    return content.getvalue()


SUMS = "SHA256SUMS"


def signed(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), "utf-8")


def checkpoint(place: Place) -> None:
    """A run with something wrong in its best and last checkpoint."""
    chance = place.chance
    run = chance.choice(("tiny", "tagger", *RUNS))
    where = f"runs/{run}"
    place.copy(where, *WORKPLACE, *({CORPORA[run]} - {"train.conllu"}))
    verb = chance.choice(("eval", "parse", "parse", "export", "resume", "resume", "start", "load", "choose"))
    several = len(list((place.folder / where / "checkpoints").glob("step-*"))) > 1
    if verb == "resume" and chance.random() < 0.7 and several:
        interrupted(place.folder / where)
    best, last = ((place.folder / where / "checkpoints" / link).resolve() for link in ("best", "last"))
    folder = chance.choice((best, last))
    inside = str(folder.relative_to(place.folder.resolve()))
    for _ in range(chance.choice((1, 1, 2))):
        files = sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != SUMS
        )
        if chance.random() < 0.12 or not files:
            disturb(place, inside)
        elif chance.random() < 0.06 and (folder / SUMS).is_file():
            (folder / SUMS).write_bytes(mutated(chance, (folder / SUMS).read_bytes()))
        else:
            alter(place, f"{inside}/{chance.choice(files)}")
    if chance.random() < 0.75:
        sums = folder / SUMS
        if sums.is_dir() and not sums.is_symlink():
            sums.rmdir()
        if not sums.is_symlink():
            signed(folder)
    place.guard(where)
    name = chance.choice((where, f"{where}@last", inside))
    corpus = CORPORA[run].replace("train.", "dev.")

    def loaded() -> int:
        try:
            list(load(name).analyze(["two cheap farmers", ["fold", ""]], top=2))
        except ProbtransError as error:
            sys.stderr.write(f"error: {error.message!a}\n")
            return error.exit_code
        return 0

    if verb == "load":
        place.run("load", name, function=loaded)
    elif verb == "start":
        place.run("train", where, *ONE_UPDATE, "--init-from", name, "--run", "runs/new")
    else:
        verbs = {
            "eval": ("eval", name, corpus, "--json"),
            "parse": ("parse", name, "dev.conllu", "-f", "jsonl", "--top", "2"),
            "export": ("export", name, "out", "--json"), "resume": ("train", where, "--resume"),
            "choose": ("eval", name, "dev.conllu", "--choose"),
        }  # fmt: skip
        place.run(*verbs[verb])


RUN = "runs/tiny"
ADDED = (".probtrans.lock", "tensorboard", ".replaced", "checkpoints/eval-dev.json", "checkpoints/reliability.svg")
"""What a run may hold that has none of it."""
VERBS = (
    ("train", RUN, "--resume"), ("train", RUN, "--resume", "log.tensorboard=true"),
    ("train", RUN, *ONE_UPDATE, "--overwrite"), ("eval", RUN, "--split", "dev"),
    ("eval", RUN, "--split", "dev", "--choose"), ("eval", f"{RUN}@last", "dev.conllu"), ("table", RUN),
    ("table", RUN, "-f", "html"), ("export", RUN, "out"), ("parse", RUN, "dev.conllu"),
    ("train", "tiny.yaml", *ONE_UPDATE, "--init-from", RUN, "--run", "runs/new"),
)  # fmt: skip
JOB = ("parse", RUN, "dev.conllu", "--output-dir", "done", "--block-size", "2000")
PREPARE = ("prepare", "tiny.yaml", "data.prepared=here/prepared")


def _prepared(place: Place) -> tuple[str, tuple[str, ...]]:
    """A folder of one kind, as a stranger may have left it: its name, and a command that reads or writes there."""
    chance = place.chance
    place.copy(RUN, *WORKPLACE)
    kind = chance.random()
    if kind < 0.7:
        return RUN, chance.choice(VERBS)
    first, verb = chance.choice(((JOB, JOB), (JOB, (*JOB, "--merge")), (PREPARE, PREPARE), (PREPARE, PREPARE)))
    place.run(*first)
    return ("done" if first is JOB else "here/prepared"), verb


def _chosen(place: Place, folder: str) -> Path:
    """A name in a folder: of something that is there, of what a kill leaves of it, or that a verb may write."""
    chance = place.chance
    root = place.folder / folder
    path = chance.choice(sorted(root.rglob("*")))
    if folder == RUN and chance.random() < 0.2:
        path = root / chance.choice(ADDED)
    if chance.random() < 0.4:
        path = path.with_name(f".{path.name}.{chance.choice(('partial', 'partial', 'replaced'))}")
    return path


def linked(place: Place) -> None:
    """A link out of a folder: to a file or a folder of the user's, or to what is not there."""
    folder, verb = _prepared(place)
    path = _chosen(place, folder)
    outside = place.folder / "outside"
    place.write("outside/thesis.tex", "what a user has written\n")
    content = outside / "content"
    if path.is_dir() and not path.is_symlink() and place.chance.random() < 0.5:
        path.rename(content)
    elif path.is_file() and place.chance.random() < 0.5:
        shutil.copyfile(path, content)
    _away(path)
    target = place.chance.choice(("thesis.tex", "content", "nowhere", "."))
    if target == "thesis.tex" and place.chance.random() < 0.3:
        path.hardlink_to(outside / target)
    else:
        path.symlink_to(outside / target)
    before = sorted(outside.rglob("*"))
    place.guard(folder, "runs/")
    place.run(*verb)
    place.require(sorted(outside.rglob("*")) == before, f"changed folder: outside, by {path}, a link to {target}")


def special(place: Place) -> None:
    """A pipe, a socket or a device in the place of a file."""
    folder, verb = _prepared(place)
    path = _chosen(place, folder)
    _away(path)
    kind = place.chance.randrange(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to(place.chance.choice(("/dev/zero", "/dev/stdin", "/dev/full", "/dev/tty")))
    elif kind == 2:
        with socket.socket(socket.AF_UNIX) as server:
            made = place.folder / "s"
            server.bind(os.path.relpath(made))
            made.rename(path)
    else:
        place.write("pipes/.keep", "")
        os.mkfifo(place.folder / "pipes/pipe")
        path.symlink_to(place.folder / "pipes/pipe")
    place.guard(folder, "runs/")
    place.run(*verb)


GROUPS = (
    Group("tabled", 450, tabled), Group("continued", 400, continued), Group("prepared", 200, prepared),
    Group("folder", 300, folder), Group("checkpoint", 700, checkpoint), Group("linked", 350, linked),
    Group("special", 350, special),
)  # fmt: skip
