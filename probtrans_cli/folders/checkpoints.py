"""The checkpoints of a run, and which of them a name stands for. Imports no torch.

    RUN/checkpoints/step-002000/    a checkpoint
    RUN/checkpoints/best, last      links to two of them

A checkpoint that its user has moved elsewhere may be a link to it: it is read there, and neither written nor removed.

The links `best` and `last` are a convenience. Copies lose them (`rsync --no-links`, object storage) or hold folders in
their place (zip, `cp -L`); what a run's checkpoints say themselves is then enough, and what is taken is said on stderr.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

from probtrans_cli import atomic, console
from probtrans_cli.errors import CheckpointError, reason, unwritten
from probtrans_cli.folders import holds, regular, with_home
from probtrans_cli.text import from_json

SUMS = "SHA256SUMS"
STATE = "training/state.json"
LINKS = ("best", "last")
GROUP, PACKAGES = "probtrans.models", "probtrans_models"
"""The entry points of models that are installed as packages, and the folder that holds their folders."""
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def name_of(step: int) -> str:
    return f"step-{step:06d}"


def steps(checkpoints: Path) -> list[tuple[int, Path]]:
    """Return the checkpoint folders of a run with their numbers of updates, oldest first."""
    named = ((re.fullmatch(r"step-([0-9]+)", path.name), path) for path in checkpoints.glob("step-*"))
    return sorted((int(match[1]), path) for match, path in named if match and path.is_dir())


def any_in(checkpoints: Path) -> bool:
    return bool(steps(checkpoints)) or any((checkpoints / link).is_dir() for link in LINKS)


def listed(folder: Path) -> list[str]:
    """Return the files that a checkpoint consists of; none where that cannot be read."""
    try:
        lines = regular.read_text(folder / SUMS).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [name for _, _, name in (line.partition("  ") for line in lines)]


def lacking(folder: Path, *, training: bool = False) -> str | None:
    """Return a file that a checkpoint lacks, for ``training`` or without; None: it is complete."""
    names = listed(folder)
    if not names:
        return SUMS
    needed = [STATE, *names] if training else [name for name in names if not name.startswith("training/")]
    return next((name for name in needed if not regular.is_file(folder / name)), None)


def newest(checkpoints: Path, *, training: bool = False) -> Path | None:
    complete = (path for _, path in reversed(steps(checkpoints)) if lacking(path, training=training) is None)
    return next(complete, None)


def strangers(folder: Path) -> list[Path]:
    """Return what lies in a checkpoint folder without being part of it: files that no run has written."""
    names = set(listed(folder))
    ours = {folder / SUMS, *(folder / name for name in names), *((folder / name).parent for name in names)}
    return [path for path in sorted(folder.rglob("*")) if path not in ours]


def locate(name: str, *, training: bool = False) -> Path:
    """Return the checkpoint folder that a CKPT argument names: a run (its best), RUN@last, RUN@2000, a folder, or,
    where there is no folder of this name, an installed model.

    Args:
        name: the argument.
        training: where the link `last` is missing, look for a checkpoint that training can go on with.

    Raises:
        CheckpointError: there is none; the message lists what there is.
    """
    name = with_home(name)
    path = Path(name)
    base, _, which = name.rpartition("@")
    if holds(Path.is_dir, path):
        if (path / "config.json").exists():
            _refuse_transformers(path)
            in_run = path.parent.name == "checkpoints" and path.name in LINKS
            return stands_for(path) if in_run else path
        base, which = name, "best"
    if not holds(Path.is_dir, Path(base or name)):
        if (package := installed(name)) is not None:
            return package
        names = ", ".join(sorted(_installed()))
        hint = f"give a run folder such as runs/NAME, or train one first{names and f'; installed are: {names}'}"
        raise CheckpointError(f"{base or name}: no such run or checkpoint folder", hint=hint)
    checkpoints = Path(base) / "checkpoints"
    if not any_in(checkpoints):
        hint = f"train first: probtrans train RECIPE --run {base}"
        raise CheckpointError(f"{base}: there is no checkpoint in this folder", hint=hint)
    if which in LINKS:
        return linked(checkpoints, which, training=training and which == "last")
    there = dict(steps(checkpoints))
    if re.fullmatch(r"[0-9]{1,18}", which) and int(which) in there:
        return _absolute(there[int(which)])
    raise CheckpointError(f"{base}: no checkpoint {which!r}", hint=f"there are: {_names_of(checkpoints)}")


def normalised(name: str) -> str:
    """Return the name of a package as all of its spellings have it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(name: str) -> Path | None:
    """Return the folder of a model that is installed as a package; None: there is none of this name."""
    return _installed().get(normalised(name)) if re.fullmatch(r"[A-Za-z0-9._-]+", name) else None


def is_installed(folder: Path) -> bool:
    """Return True for the folder of an installed model, which belongs to the package manager."""
    return folder.parent.name == PACKAGES


def _installed() -> dict[str, Path]:
    # Nothing of the packages is imported: the entry point only says which folder it is.
    from importlib.metadata import entry_points  # noqa: PLC0415  (takes time, and most names are folders)

    folders: dict[str, Path] = {}
    for entry in entry_points(group=GROUP):
        if entry.dist is not None and re.fullmatch(rf"{PACKAGES}\.[a-z0-9_]+", entry.value):
            folder = Path(str(entry.dist.locate_file(entry.value.replace(".", "/"))))
            if holds(Path.is_dir, folder):
                folders.setdefault(normalised(entry.name), folder)
    return folders


def linked(checkpoints: Path, name: str, *, training: bool = False) -> Path:
    """Return what the link `best` or `last` points at; where it is missing, the newest complete checkpoint, or, of
    `best`, the best one by the state of that."""
    link, run = checkpoints / name, checkpoints.parent
    if link.is_dir():
        return stands_for(link)
    checkpoint, why = newest(checkpoints, training=training), "the newest complete checkpoint"
    if checkpoint is None:
        faults = [f"{path.name} lacks {lacking(path, training=training)}" for _, path in reversed(steps(checkpoints))]
        reasons = "; ".join(faults[:3]) or "there is no checkpoint"
        hint = "copy the run again, or start another one"
        raise CheckpointError(f"{run}: no complete checkpoint: {reasons}", hint=hint)
    if name == "best":
        # The number of the best one is part of the state of every later one, and it alone has scores.
        step = json_object(checkpoint / STATE).get("best_step")
        if link.is_symlink():
            best: str | None = link.readlink().name
        elif isinstance(step, int) and step > 0:
            best = name_of(step)
        else:
            complete = [path for _, path in steps(checkpoints) if lacking(path) is None]
            best = next((path.name for path in reversed(complete) if json_object(path / "eval.json")), None)
        if best is None:
            why += ", as nothing says which is the best"
        else:
            checkpoint, why = checkpoints / best, "the best by what is stored with the checkpoints"
        if lacking(checkpoint) is not None:
            number = steps(checkpoints)[-1][0]
            hint = f"copy it again, or take another one, e.g. {run}@{number}; there are: {_names_of(checkpoints)}"
            raise CheckpointError(f"{run}: its best checkpoint, {best}, is gone or not complete", hint=hint)
    fault = f"points at {link.readlink()}, which is gone" if link.is_symlink() else "no such link"
    console.log(f"{link}: {fault}; taking {checkpoint.name}, {why}")
    return _absolute(checkpoint)


def stands_for(link: Path) -> Path:
    """Return the checkpoint that the link `best` or `last` points at, by its name in the run; the link itself, or the
    folder in its place, where that is not one of the run's."""
    checkpoint = link.with_name(link.readlink().name or link.name) if link.is_symlink() else link
    is_of_run = checkpoint.name not in LINKS and checkpoint.is_dir() and checkpoint.samefile(link)
    return _absolute(checkpoint if is_of_run else link)


def _absolute(checkpoint: Path) -> Path:
    # Links of the user up to the run folder are followed, and none below.
    return checkpoint.parent.parent.resolve() / checkpoint.parent.name / checkpoint.name


def link(folder: Path, name: str) -> None:
    """Point the link `best` or `last` beside a checkpoint at it; nothing where the file system has no links."""
    path = folder.with_name(name)
    try:
        atomic.link(folder, name)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            hint = "allow writing there, then continue with --resume"
            full = "nothing saved before is lost: make room, then continue with --resume"
            raise unwritten(str(path), error, CheckpointError, hint=hint, full=full) from None
        console.log(f"{path}: no links here; the checkpoints themselves say which is the best", level=console.VERBOSE)


def settle(checkpoints: Path) -> None:
    """Make links again of the folders `best` and `last` that a copy has put in their place. For who writes there."""
    for name in LINKS:
        copy = checkpoints / name
        if copy.is_symlink() or not copy.is_dir():
            continue
        step = json_object(copy / "config.json").get("step")
        if not isinstance(step, int) or lacking(copy) is not None or strangers(copy):
            raise CheckpointError(f"{copy}: not a link, and not a copy of a checkpoint", hint="move it away")
        original = checkpoints / name_of(step)
        if not original.exists():
            copy.rename(original)
        elif listed(original) and regular.read_bytes(original / SUMS) == regular.read_bytes(copy / SUMS):
            atomic.remove_folder(copy)
        else:
            message = f"{copy}: a folder in the place of a link, and another one than {original}"
            raise CheckpointError(message, hint="move one of them away")
        link(original, name)


def json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty where there is none. Verifying the checkpoint says what is damaged."""
    try:
        value = from_json(regular.read_bytes(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _names_of(checkpoints: Path) -> str:
    links = [link for link in LINKS if (checkpoints / link).is_dir()]
    return ", ".join([*links, *(str(step) for step, _ in steps(checkpoints))])


def _refuse_transformers(path: Path) -> None:
    try:
        config = regular.read_bytes(path / "config.json", follow=True)  # their caches are made of links
    except OSError as error:
        message = f"{path / 'config.json'}: cannot be read: {reason(error)}"
        raise CheckpointError(message, hint="use another checkpoint") from None
    if b'"model_type"' not in config or (path / "recipe.yaml").exists():
        return
    hint = f"start a training with it: probtrans train RECIPE --init-from {path}"
    if b'"model_type": "probtrans"' in config:
        hint = "give the run that it was exported from; it is for AutoModel, after probtrans_cli.hf.register()"
    raise CheckpointError(f"{path}: a model in the form of Hugging Face's transformers", hint=hint)
