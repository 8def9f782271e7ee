"""The tensors of a folder of Hugging Face's: files, names without prefixes, and whether config.json has their shapes.

Weights are in one safetensors file, in several, or in an older `.bin`. Nothing is unpickled but tensors, and no file
outside the folder is read.

Programs put prefixes in front of the names. A model within another one has that attribute's name in front, but an
output layer beside it has not: `model.bert.` and `model.classifier.`, or `encoder.` and `classifier.`. What torch wraps
around modules may stand anywhere in a name.
"""

from __future__ import annotations

import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.hf import AGAIN, CONFIG, read_json
from probtrans_cli.recipe.model import Transformer
from probtrans_cli.text import first_of

Shapes = dict[str, tuple[int, ...]]
WEIGHTS = "model.safetensors"
_INDEX = ".index.json"
_WEIGHTS = (WEIGHTS, WEIGHTS + _INDEX, "pytorch_model.bin", "pytorch_model.bin" + _INDEX)
_UNREAD = (".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".safetensors")
_STRAY = re.compile(  # masks and numbers 0, 1, 2, …: no weights
    r"embeddings\.(position_ids|token_type_ids)|h\.\d+\.attn\.(bias|masked_bias)"
)


@dataclass
class Foreign:
    """A model of Hugging Face's: ``tensors`` by our names, only whole parts; ``config``: all that config.json says."""

    config: dict[str, Any]
    section: Transformer
    tensors: dict[str, Tensor]
    unexpected: list[str] = field(default_factory=list)
    """Names of tensors that are no part of a model of ours: a head for another task, or unknown names."""
    notes: list[str] = field(default_factory=list)
    """For people: what was read otherwise than it stands there."""


def module(name: str, *shape: int) -> Shapes:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def pairs_of_modules(
    modules: Mapping[str, str], in_layer: Mapping[str, str], layers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield our name and theirs of every weight and bias.

    Args:
        modules: their names of modules by ours.
        in_layer: the same of those in each layer.
        layers: their names of the layers.
    """
    of_layers = {
        f"encoder.layers.{index}.{ours}": f"{layer}.{theirs}"
        for index, layer in enumerate(layers)
        for ours, theirs in in_layer.items()
    }
    for ours, theirs in {**modules, **of_layers}.items():
        for end in ("weight", "bias"):
            yield f"{ours}.{end}", f"{theirs}.{end}"


def by_plain_names(
    tensors: Mapping[str, Tensor], folder: Path, required: Shapes, *, strict: bool, model: str, prefix: str
) -> tuple[dict[str, Tensor], Names, list[str]]:
    """Return tensors in float32 by their names today, without prefix; these names; notes.

    Args:
        required: the tensors of the encoder.
        model: what it is called, for people.
        prefix: what usually stands in front of the names.
    """
    names = without_prefix(tensors, required)
    if names.further and (strict or names.prefix not in _USUAL):
        prefixes = " and ".join(repr(prefix) for prefix in (names.prefix, *names.further))
        hint = "write the one that is meant to a folder of its own"
        raise CheckpointError(f"{folder}: has more than one encoder, under {prefixes}", hint=hint)
    if required.keys().isdisjoint(names.plain.values()):
        starts = Counter(f"{name.partition('.')[0]}." if "." in name else name for name in tensors)
        common = ", ".join(f"{start!r} ({count})" for start, count in starts.most_common(5))
        begins = f"the names there begin with {common}" if tensors else "there are none"
        words = f"{folder}: no tensor has a name of {model}'s: {begins}; missing: {first_of(list(required))}"
        raise CheckpointError(words, hint=f"only {model}'s names, as in {prefix}{next(iter(required))}, are known")
    notes = [f"{names.unusual}: left out"] if names.unusual else []
    by_name: dict[str, Tensor] = {}
    dtypes: set[torch.dtype] = set()
    for name, tensor in tensors.items():
        plain = names.plain[name]
        if _STRAY.fullmatch(plain):
            continue
        if plain in by_name:
            raise CheckpointError(f"{folder}: has {plain} twice, once as {name}", hint="it mixes two models")
        dtypes |= {tensor.dtype} - {torch.float32}
        by_name[plain] = tensor.float() if tensor.is_floating_point() else tensor
    if changed := sorted(str(kind).removeprefix("torch.") for kind in dtypes if kind.is_floating_point):
        notes.append(f"warning: {', '.join(changed)} weights, read as float32")
    return by_name, names, notes


def check(tensors: Mapping[str, Tensor], shapes: Shapes, names: Names, unknown: Collection[str], folder: Path) -> None:
    """Refuse weights of other names and shapes, or that are no numbers: one report with all of them.

    Args:
        tensors, names: see :func:`by_plain_names`.
        unknown: names of tensors that are refused.
    """
    faults = []
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None:
            faults.append(f"{name}: missing")
        elif tuple(tensor.shape) != shape:
            faults.append(f"{name}: has shape {list(tensor.shape)}, wanted {list(shape)}")
        elif not tensor.is_floating_point():
            faults.append(f"{name}: holds {str(tensor.dtype).removeprefix('torch.')}, wanted numbers with a fraction")
        elif not bool(tensor.isfinite().all()):
            faults.append(f"{name}: holds numbers that are not finite")
    if faults or unknown:
        there_is = {f"{name}: missing": f" (there is {place})" for name, place in names.elsewhere.items()}
        lines = "\n".join([*(f + there_is.get(f, "") for f in faults), *(f"{name}: not known" for name in unknown)])
        hint = "copy it again" if faults else "model.init_strict=false leaves them there"
        unusual = f" ({names.unusual})" if names.unusual else ""
        raise CheckpointError(f"{folder}: the weights are not those of its {CONFIG}{unusual}:\n{lines}", hint=hint)


# --- prefixes ---------------------------------------------------------------------------------------------------------

_USUAL = ("", "bert.", "transformer.")
_WRAPPERS = {
    "module",  # DataParallel, DistributedDataParallel
    "_orig_mod",  # torch.compile
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
    "_forward_module",
}
_LAYER_NORM = {"gamma": "weight", "beta": "bias"}  # as files converted long ago have it


@dataclass
class Names:
    """Plain names of tensors, without prefix, by the names in the file."""

    plain: dict[str, str]
    prefix: str  # what stands in front of the encoder's names, without what torch wraps around modules
    further: list[str]  # further prefixes under which a whole encoder stands
    elsewhere: dict[str, str]
    """For tensors of an encoder that stand under another prefix their names in the file."""
    unusual: str  # for people: what stands in names and is none of the model's; empty where nothing does


def without_prefix(names: Iterable[str], encoder: Collection[str]) -> Names:
    """Find the plain names of tensors."""
    bare = {}  # without wrappers, and with the names that the parts of a norm have today
    for name in names:
        words = [part for part in name.split(".") if part not in _WRAPPERS]
        if len(words) > 1 and words[-2] == "LayerNorm":
            words[-1] = _LAYER_NORM.get(words[-1], words[-1])
        bare[name] = ".".join(words)
    # The longest ending that is a name of the encoder's; what stands in front of it is a prefix.
    by_prefix: defaultdict[str, dict[str, str]] = defaultdict(dict)  # plain name -> name in the file
    for name, without in bare.items():
        words = without.split(".")
        for index in range(len(words)):
            if (plain := ".".join(words[index:])) in encoder:
                by_prefix[without.removesuffix(plain)][plain] = name
                break
    prefix = max(by_prefix, key=lambda it: (len(by_prefix[it]), it in _USUAL, -len(it)), default="")
    above = [prefix]  # what stands beside the encoder may have each beginning of its prefix
    while above[-1]:
        above.append(above[-1].rstrip(".").rpartition(".")[0])
        above[-1] += "." if above[-1] else ""
    plain_names = {
        name: next(without.removeprefix(it) for it in above if without.startswith(it)) for name, without in bare.items()
    }
    complete = [it for it, there in by_prefix.items() if it != prefix and len(there) == len(encoder)]
    elsewhere = {plain: name for it, there in by_prefix.items() if it != prefix for plain, name in there.items()}
    first = (name.removesuffix(plain) for plain, name in by_prefix[prefix].items() if name.endswith(plain))
    start = next(first, prefix)
    wrappers = sorted(_WRAPPERS & {part for name in bare for part in name.split(".")} - set(start.split(".")))
    unusual = [] if start in _USUAL else [f"the names there begin with {start!r}"]
    unusual += [f"{', '.join(map(repr, wrappers))} stands within names"] if wrappers else []
    return Names(plain_names, prefix, complete, elsewhere, ", and ".join(unusual))


# --- files ------------------------------------------------------------------------------------------------------------


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a folder, by their names there."""
    name = next((name for name in _WEIGHTS if (folder / name).exists()), None)
    if name is None:
        hint = f"give a folder with one of {', '.join(_WEIGHTS)}"
        unread = sorted(path.name for path in folder.iterdir() if path.suffix in _UNREAD)
        there = f" in a form that is read, but {first_of(unread)}" if unread else ""
        raise CheckpointError(f"{folder}: there are no weights{there}", hint=hint)
    path = folder / name
    if not name.endswith(_INDEX):
        return _tensors_of(path)
    content = read_json(path)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{path}: has no weight_map", hint=AGAIN)
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name:
            raise CheckpointError(f"{path}: names a file outside the folder: {name}", hint=AGAIN)
        there_are = _tensors_of(folder / name)
        wanted = {tensor for tensor, place in places.items() if place == name}
        if lacking := sorted(wanted - there_are.keys()):
            raise CheckpointError(f"{folder / name}: has no {', '.join(lacking)}", hint=AGAIN)
        tensors |= {tensor: there_are[tensor] for tensor in wanted}
    return tensors


def _tensors_of(path: Path) -> dict[str, Tensor]:
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
