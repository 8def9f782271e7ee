"""A folder of Hugging Face's: `config.json`, and weights in one safetensors file, in several, or in an older `.bin`.

Nothing is unpickled but tensors, and no file outside the folder is read. A folder is written whole or not at all.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from probtrans_cli import checkpoint
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.bert import AGAIN, read_json
from probtrans_cli.text import first_of

WEIGHTS = "model.safetensors"
_INDEX = ".index.json"
_WEIGHTS = (WEIGHTS, WEIGHTS + _INDEX, "pytorch_model.bin", "pytorch_model.bin" + _INDEX)
_UNREAD = (".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".safetensors")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, by their names there.

    Raises:
        CheckpointError: a file is missing, damaged, or holds anything but tensors.
    """
    for name in _WEIGHTS:
        if (folder / name).exists():
            return _of_index(folder / name) if name.endswith(_INDEX) else _of_file(folder / name)
    hint = f"give a folder with one of {', '.join(_WEIGHTS)}"
    others = sorted(path.name for path in folder.iterdir() if path.suffix in _UNREAD)
    there = f" in a form that is read, but {first_of(others)}" if others else ""
    raise CheckpointError(f"{folder}: there are no weights{there}", hint=hint)


def _of_index(path: Path) -> dict[str, Tensor]:
    """The tensors that an index tells the files of."""
    content = read_json(path)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{path}: has no weight_map", hint=AGAIN)
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name:
            raise CheckpointError(f"{path}: names a file outside the folder: {name}", hint=AGAIN)
        wanted = {tensor for tensor, place in places.items() if place == name}
        there = _of_file(path.parent / name)
        if lacking := sorted(wanted - there.keys()):
            raise CheckpointError(f"{path.parent / name}: has no {', '.join(lacking)}", hint=AGAIN)
        tensors |= {tensor: there[tensor] for tensor in wanted}
    return tensors


def _of_file(path: Path) -> dict[str, Tensor]:
    try:
        regular.open_file(path, follow=True).close()  # their readers would wait for a pipe
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file", hint=AGAIN) from None
    except regular.IrregularFileError:
        raise
    except pickle.UnpicklingError:
        hint = "files with code in them are not opened; ask for the weights as safetensors"
        raise CheckpointError(f"{path}: holds something else than tensors", hint=hint) from None
    except Exception as error:  # what a damaged file makes torch's reader raise is not documented, and may be anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"{path}: damaged, or not a file of weights ({reason})", hint=AGAIN) from None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise CheckpointError(f"{path}: holds something else than named tensors", hint=AGAIN)
    return content


def write_folder(folder: Path, texts: Mapping[str, str | bytes], tensors: Mapping[str, dict[str, Tensor]]) -> None:
    """Write a folder as a whole or not at all.

    Raises:
        UsageError: it is there and not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already", hint="choose another folder, or remove it")
    try:
        checkpoint.write(folder.absolute(), dict(texts), dict(tensors), replace=False)
    except CheckpointError as error:
        raise UsageError(error.message, hint="choose another folder") from None
