"""Checkpoints: written whole or not at all, verified before use, nothing ever unpickled.

    checkpoints/step-000200/    config.json model.safetensors vocabulary.json|spm.model labels.json recipe.yaml
                                eval.json README.md SHA256SUMS
                training/       only for resuming: optimizer.safetensors, weights.safetensors (with EMA), state.json
    checkpoints/best, last      relative links

A folder is written as a whole or not at all (:mod:`probtrans_cli.atomic`). ``SHA256SUMS`` has the format of
``sha256sum``.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from probtrans_cli import atomic, console
from probtrans_cli.errors import CheckpointError, unwritten, without_room
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import LINKS, SUMS, link, listed, locate, name_of, stands_for, steps, strangers

__all__ = [
    "FORMAT", "SUMS", "Verified", "appoint", "link", "locate", "name_of", "optimizer_tensors", "prune",
    "refuse_link", "restore_optimizer", "steps", "store", "verify", "write",
]  # fmt: skip

T = TypeVar("T")
FORMAT = 1
_REMEDIES = ("allow writing there", "make room")
_USE_ANOTHER = "use another checkpoint, e.g. RUN@last"
NEEDED = {"config.json", "labels.json", "model.safetensors", "recipe.yaml", "vocabulary.json"}


@dataclass(frozen=True)
class Verified:
    """A checkpoint folder whose every file has the recorded content; ``files`` holds those contents."""

    folder: Path
    files: dict[str, bytes]

    def json(self, name: str, schema: type[T]) -> T:
        """Return the content of a JSON file of the checkpoint, of this form."""
        content = self.content(name)
        try:
            return TypeAdapter(schema).validate_json(content, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            message = f"{self.folder / name}: {key + ': ' if key else ''}{first['msg']}"
            raise CheckpointError(message, hint="it is not as probtrans wrote it: use another checkpoint") from None

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a safetensors file of the checkpoint."""
        try:
            tensors = load(self.content(name))
        except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
            raise CheckpointError(f"{self.folder / name}: not a safetensors file ({error})") from None
        for key, value in tensors.items():
            if value.is_complex() or (value.is_floating_point() and value.itemsize == 1):
                kind = str(value.dtype).removeprefix("torch.")
                raise CheckpointError(f"{self.folder / name}: {key} has numbers of kind {kind}", hint=_USE_ANOTHER)
        return tensors

    def load_into(self, module: nn.Module, name: str) -> None:
        """Give a module the tensors of a file.

        Raises:
            CheckpointError: the file cannot be read, has values that are not finite, or does not fit the module.
        """
        tensors = self.tensors(name)
        for key, value in tensors.items():
            if not (value.sum().isfinite() or value.isfinite().all()):  # a sum is quick, and may be too large
                raise CheckpointError(f"{self.folder / name}: {key} has values that are not finite", hint=_USE_ANOTHER)
        try:
            module.load_state_dict(tensors)
        except RuntimeError as error:
            message = f"{self.folder / name}: the weights do not fit the recipe: {error}"
            raise CheckpointError(message, hint=_USE_ANOTHER) from None

    def content(self, name: str) -> bytes:
        """Return the bytes of a file."""
        if name not in self.files:
            raise CheckpointError(f"{self.folder}: {name} is missing", hint=_USE_ANOTHER)
        return self.files[name]


def write(
    folder: Path, texts: dict[str, str | bytes], tensors: dict[str, dict[str, Tensor]], *, replace: bool = True,
    finish: Callable[[Path], object] | None = None,
) -> None:  # fmt: skip
    """Write a checkpoint folder in one step, with checksums. Replaces a folder of that name, and keeps what else lies
    in it; or refuses to ``replace`` anything but an empty folder. ``finish`` adds to the new folder, without checksums,
    before it gets its name.

    Raises:
        DataError: the disk is full.
        CheckpointError: the folder may not be written. What was there before is still there.
    """
    if replace:
        refuse_link(folder)
    try:
        with atomic.writing_folder(folder, replace=replace) as new:
            for name, text in texts.items():
                (new / name).parent.mkdir(exist_ok=True)
                (new / name).write_bytes(text.encode() if isinstance(text, str) else text)
            for name, values in tensors.items():
                (new / name).parent.mkdir(exist_ok=True)
                contiguous = {key: value.detach().contiguous() for key, value in values.items()}
                save_file(contiguous, new / name, metadata={"format": "pt"})  # without which some readers refuse it
                (new / name).chmod((new / next(iter(texts))).stat().st_mode)  # not the private 0600 of its writer
            names = sorted([*texts, *tensors])
            sums = "".join(f"{hashlib.sha256((new / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
            (new / SUMS).write_text(sums)
            if finish is not None:
                finish(new)
            if replace:
                for path in strangers(folder):
                    copy = new / path.relative_to(folder)
                    if not path.is_symlink():
                        regular.refuse_others(path)
                    if path.is_dir() and not path.is_symlink():
                        copy.mkdir(parents=True, exist_ok=True)
                    elif not copy.exists():
                        copy.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(path, copy, follow_symlinks=False)
    except (OSError, SafetensorError) as error:
        fault = without_room(error) or (error if isinstance(error, OSError) else OSError(errno.EIO, str(error)))
        again = "and give the same command again, a training with --resume"
        hint, full = (f"nothing saved before is lost: {first}, {again}" for first in _REMEDIES)
        raise unwritten(str(folder), fault, CheckpointError, hint=hint, full=full) from None


def store(folder: Path, texts: dict[str, str | bytes], tensors: dict[str, dict[str, Tensor]]) -> None:
    """Write a checkpoint of a training, unless somebody has moved the one of that name and left a link."""
    if not _is_elsewhere(folder):
        write(folder, texts, tensors)


def refuse_link(folder: Path) -> None:
    """Refuse to write a checkpoint that is a link, or lies behind one in its run."""
    if folder.parent.name == "checkpoints":
        regular.refuse_others(folder.parent, folder=True)
    if folder.is_symlink():
        message = f"{folder}: a link to {folder.readlink()}: nothing is written through it"
        raise CheckpointError(message, hint="name the folder that it points at, or move that back")


def appoint(last: Path, best_step: int, keep: int) -> None:
    """Let `last` point at a checkpoint and `best` at that of ``best_step``, and prune the others.

    Until there is a best one (``best_step`` 0), `best` stays what it is: the first checkpoint.
    """
    link_to_best = last.parent / "best"
    if last.name not in LINKS:  # it is one that the user has let point out of the run
        link(last, "last")
    best = last.parent / name_of(best_step)
    if best_step == 0:
        best = stands_for(link_to_best) if link_to_best.is_dir() else last
    if best.is_dir() and best.resolve() != link_to_best.resolve():
        link(best, "best")
    prune(last.parent, keep, needed=(last, best))


def prune(checkpoints: Path, keep: int, needed: Sequence[Path] = ()) -> None:
    """Remove all but the ``keep`` newest checkpoints, those that `best` and `last` point at, and those ``needed``.

    What is not whole, or holds a file that is not part of the checkpoint, is left alone, and so is a link to where
    somebody has moved a checkpoint.
    """
    staying = {path.resolve() for path in (*(checkpoints / name for name in LINKS), *needed)}
    removable = [path for _, path in steps(checkpoints) if path.resolve() not in staying]
    removable = [path for path in removable if not _is_elsewhere(path) and listed(path)]
    for path in removable[: max(len(removable) - keep, 0)]:
        if not strangers(path):
            atomic.remove_folder(path)


def _is_elsewhere(folder: Path) -> bool:
    """Return True if somebody has moved a checkpoint and left a link, and say so once."""
    if not (folder.is_symlink() and folder.is_dir()):
        return False
    console.once(f"{folder}: a link to {folder.readlink()}: it is left alone, and nothing is written or removed there")
    return True


def verify(folder: Path, *, training: bool = False) -> Verified:
    """Read a checkpoint and compare every file with its recorded checksum.

    Raises:
        CheckpointError: a file is missing, truncated or altered; the message names it.
    """
    try:
        lines = regular.read_text(folder / SUMS).splitlines()
    except (OSError, UnicodeDecodeError):
        raise CheckpointError(f"{folder / SUMS}: missing or unreadable: not a checkpoint, or a damaged one") from None
    files = {}
    for line in lines:
        checksum, _, name = line.partition("  ")
        if not name:
            raise CheckpointError(f"{folder / SUMS}: damaged: a line without a file", hint="use another checkpoint")
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise CheckpointError(f"{folder / SUMS}: names a file outside the checkpoint: {name}")
        if name.startswith("training/") and not training:
            continue
        try:
            content = regular.read_bytes(folder / name, below=folder)
        except (OSError, ValueError):  # ValueError: a damaged list may hold a name that no file can have
            message = f"{folder / name}: missing from the checkpoint"
            raise CheckpointError(message, hint="use another checkpoint") from None
        if hashlib.sha256(content).hexdigest() != checksum:
            message = f"{folder / name}: damaged: its content is not what was saved (sha256 differs)"
            raise CheckpointError(message, hint="use another checkpoint of the run, or copy it again")
        files[name] = content
    for name in sorted(NEEDED - files.keys()):
        raise CheckpointError(f"{folder / SUMS}: damaged: it does not list {name}", hint="use another checkpoint")
    return Verified(folder, files)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as named tensors: ``<parameter number>.<quantity>``."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{name}": value.clone() for number, values in state.items() for name, value in values.items()}


def restore_optimizer(
    optimizer: torch.optim.Optimizer, verified: Verified, name: str, quantities: Sequence[str]
) -> None:
    """Give an optimizer the state that :func:`optimizer_tensors` stored in a file.

    ``quantities`` of each parameter: `step`, and tensors of the parameter's shape.

    Raises:
        CheckpointError: the file cannot be read, or is not of this optimizer.
    """
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    tensors = verified.tensors(name)
    for key, value in tensors.items():
        match = re.fullmatch(r"([0-9]{1,9})\.(\w+)", key)
        number, quantity = (int(match[1]), match[2]) if match else (len(parameters), "")
        fits = number < len(parameters) and quantity in quantities
        fits = fits and all(f"{number}.{needed}" in tensors for needed in quantities)
        shape = parameters[number].shape if fits and quantity != "step" else torch.Size()
        if not (fits and value.shape == shape and value.is_floating_point()):
            message = f"{verified.folder / name}: {key!r} is not of this model's optimizer"
            raise CheckpointError(message, hint=_USE_ANOTHER)
        state.setdefault(number, {})[quantity] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
