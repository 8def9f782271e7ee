"""BERT as Hugging Face's `transformers` stores it, and as a :class:`TransformerEncoder` with its outputs.

ours                     BERT's (i: the layer)
unary                    bert.embeddings.word_embeddings
encoder.positions        bert.embeddings.position_embeddings
encoder.segments         bert.embeddings.token_type_embeddings
encoder.embedding_norm   bert.embeddings.LayerNorm
encoder.layers.i
  projections            bert.encoder.layer.i.attention.self.query, key, value, stacked in this order
  output                 bert.encoder.layer.i.attention.output.dense
  attention_norm         bert.encoder.layer.i.attention.output.LayerNorm
  widen, narrow          bert.encoder.layer.i.intermediate.dense, bert.encoder.layer.i.output.dense
  norm                   bert.encoder.layer.i.output.LayerNorm
encoder.pooler           bert.pooler.dense
words.dense, norm        cls.predictions.transform.dense, LayerNorm          BertWordOutput
words.bias, decoder      cls.predictions.bias, decoder.weight
pair                     cls.seq_relationship                                PairOutput
classifier               classifier                                          of tokens, or of the sentence

A folder has `config.json`, and weights in one safetensors file, in several, or in an older `.bin`. Nothing is unpickled
but tensors, and no file outside the folder is read.

Programs put prefixes in front of the names. A BERT within another model has that attribute's name in front, but an
output layer beside it has not: `model.bert.` and `model.classifier.`, or `encoder.` and `classifier.`. What torch wraps
around modules may stand anywhere in a name.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file
from torch import Tensor

from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.bert import (
    AGAIN,
    CONFIG,
    SMALLEST_EPS,
    Config,
    read_config,
    read_json,
    read_shape,
    unread_keys,
)
from probtrans_cli.recipe.model import Transformer
from probtrans_cli.text import first_of

Shapes = dict[str, tuple[int, ...]]
PREFIX = "bert."
WEIGHTS = "model.safetensors"
_INDEX = ".index.json"
_WEIGHTS = (WEIGHTS, WEIGHTS + _INDEX, "pytorch_model.bin", "pytorch_model.bin" + _INDEX)
_UNREAD = (".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".safetensors")
_STRAY = {"embeddings.position_ids", "embeddings.token_type_ids"}  # 0, 1, 2, …: no weights
_OTHER_HEADS = {"qa_outputs.weight", "qa_outputs.bias"}  # BertForQuestionAnswering; no task of ours has it
_QUERY_KEY_VALUE = ("query", "key", "value")
_IN_LAYER = {
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "norm": "output.LayerNorm",
}
_MODULES = {
    "encoder.embedding_norm": "embeddings.LayerNorm",
    "encoder.pooler": "pooler.dense",
    "words.dense": "cls.predictions.transform.dense",
    "words.norm": "cls.predictions.transform.LayerNorm",
    "pair": "cls.seq_relationship",
    "classifier": "classifier",
}


@dataclass
class Bert:
    """A BERT: ``tensors`` by our names, see above; only whole parts. ``config`` is all that config.json says."""

    config: dict[str, Any]
    section: Transformer
    tensors: dict[str, Tensor]
    unexpected: list[str] = field(default_factory=list)
    """Names of tensors that are no part of a BERT of ours: a head for another task, or unknown names."""
    notes: list[str] = field(default_factory=list)
    """For people: what was read otherwise than it stands there."""

    def part(self, name: Literal["encoder", "words", "pair", "classifier"]) -> dict[str, Tensor]:
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    @property
    def tied(self) -> bool:
        """Whether the word output reads the table of word vectors."""
        return "words.decoder" not in self.tensors

    def missing(self) -> list[str]:
        there = {name.partition(".")[0] for name in self.tensors} | {"pooler" if self.section.pooler else ""}
        return [name for name in ("pooler", "words", "pair") if name not in there]


def read_bert(folder: Path, *, strict: bool = True) -> Bert:
    """Read a folder as `transformers` writes it, or wrote it long ago; the tensors become float32.

    Args:
        folder: with config.json and weights. It may be without pooler and heads.
        strict: refuse tensors of unknown names; False = they are ``unexpected``, like a head for another task.

    Raises:
        CheckpointError: a file is missing or damaged; the model is no BERT; tensors of the encoder are missing, some
            have other shapes than config.json says, are not finite, or not known: one message with all of them.
    """
    content = read_config(folder)
    config = read_shape(content, folder / CONFIG)
    required, parts = _shapes_of(config)
    tensors, names, notes = _by_plain_names(read_tensors(folder), folder, required, strict=strict)
    if config.layer_norm_eps == 0.0:
        notes.append(f"warning: layer_norm_eps is 0, read as {SMALLEST_EPS}")
    if unread := unread_keys(content):
        notes.append(f"keys of {CONFIG} that are none of BERT's, and not read: {first_of(unread)}")
    classifier = tensors.get("classifier.weight")
    classes = len(classifier) if classifier is not None and classifier.ndim else 1
    parts["classifier"] = _module("classifier", classes, config.hidden_size)
    there = {name: part for name, part in parts.items() if part.keys() & tensors.keys()}
    untied = _untie(tensors, config, notes)
    shapes = required | {key: shape for part in there.values() for key, shape in part.items()}
    if untied and "words" in there:
        shapes["cls.predictions.decoder.weight"] = (config.vocab_size, config.hidden_size)
    faults = []
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None:
            faults.append(f"{name}: missing")
        elif tuple(tensor.shape) != shape:
            faults.append(f"{name}: has shape {list(tensor.shape)}, wanted {list(shape)}")
        elif not tensor.is_floating_point():
            faults.append(f"{name}: holds {_short(tensor.dtype)}, wanted numbers with a fraction")
        elif not bool(tensor.isfinite().all()):
            faults.append(f"{name}: holds numbers that are not finite")
    unknown = sorted(tensors.keys() - shapes - _OTHER_HEADS)
    if faults or (unknown and strict):
        there_is = {f"{name}: missing": f" (there is {place})" for name, place in names.elsewhere.items()}
        lines = "\n".join([*(f + there_is.get(f, "") for f in faults), *(f"{name}: not known" for name in unknown)])
        hint = "copy it again" if faults else "model.init_strict=false leaves them there"
        unusual = f" ({names.unusual})" if names.unusual else ""
        raise CheckpointError(f"{folder}: the weights are not those of its {CONFIG}{unusual}:\n{lines}", hint=hint)
    read = {name: tensors.pop(name) for name in shapes}
    section = config.section(pooler="pooler" in there)
    ours = {name: read[theirs] for name, theirs in _pairs(section.layers) if theirs in read}
    ours |= {name: torch.cat([read[it] for it in theirs]) for name, theirs in _stacked(section.layers)}
    return Bert(content, section, ours, sorted(tensors), notes)


def _shapes_of(config: Config) -> tuple[Shapes, dict[str, Shapes]]:
    """Return BERT's names, without prefix, and shapes: of the encoder, and of each part that may be missing."""
    d, width, v = config.hidden_size, config.intermediate_size, config.vocab_size
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (v, d),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, d),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, d),
        **_module("embeddings.LayerNorm", d),
    }
    for index in range(config.num_hidden_layers):
        layer = f"encoder.layer.{index}."
        for name in _QUERY_KEY_VALUE:
            shapes |= _module(f"{layer}attention.self.{name}", d, d)
        shapes |= _module(f"{layer}attention.output.dense", d, d) | _module(f"{layer}attention.output.LayerNorm", d)
        shapes |= _module(f"{layer}intermediate.dense", width, d) | _module(f"{layer}output.dense", d, width)
        shapes |= _module(f"{layer}output.LayerNorm", d)
    transform = "cls.predictions.transform"
    words = _module(f"{transform}.dense", d, d) | _module(f"{transform}.LayerNorm", d) | {"cls.predictions.bias": (v,)}
    return shapes, {
        "pooler": _module("pooler.dense", d, d),
        "words": words,
        "pair": _module("cls.seq_relationship", 2, d),
    }


def _module(name: str, *shape: int) -> Shapes:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _by_plain_names(
    tensors: Mapping[str, Tensor], folder: Path, required: Shapes, *, strict: bool
) -> tuple[dict[str, Tensor], Names, list[str]]:
    """Return tensors in float32 by their names today, without prefix; these names; notes."""
    names = without_prefix(tensors, required)
    if names.further and (strict or names.prefix not in _USUAL):
        prefixes = " and ".join(repr(prefix) for prefix in (names.prefix, *names.further))
        hint = "write the one that is meant to a folder of its own"
        raise CheckpointError(f"{folder}: has more than one encoder, under {prefixes}", hint=hint)
    if required.keys().isdisjoint(names.plain.values()):
        starts = Counter(f"{name.partition('.')[0]}." if "." in name else name for name in tensors)
        common = ", ".join(f"{start!r} ({count})" for start, count in starts.most_common(5))
        begins = f"the names there begin with {common}" if tensors else "there are none"
        words = f"{folder}: no tensor has a name of BERT's: {begins}; missing: {first_of(list(required))}"
        raise CheckpointError(words, hint=f"only BERT's names, as in {PREFIX}{next(iter(required))}, are known")
    notes = [f"{names.unusual}: left out"] if names.unusual else []
    by_name: dict[str, Tensor] = {}
    dtypes: set[torch.dtype] = set()
    for name, tensor in tensors.items():
        plain = names.plain[name]
        if plain in _STRAY:
            continue
        if plain in by_name:
            raise CheckpointError(f"{folder}: has {plain} twice, once as {name}", hint="it mixes two models")
        dtypes.add(tensor.dtype)
        by_name[plain] = tensor.float() if tensor.is_floating_point() else tensor
    if changed := sorted(_short(kind) for kind in dtypes - {torch.float32} if kind.is_floating_point):
        notes.append(f"warning: {', '.join(changed)} weights, read as float32")
    return by_name, names, notes


def _untie(tensors: dict[str, Tensor], config: Config, notes: list[str]) -> bool:
    """Forget a decoder of the word output that is a copy of the table of word vectors; return whether it stays."""
    bias = tensors.pop("cls.predictions.decoder.bias", None)
    if bias is not None:
        # transformers computes with this bias; where all is tied, both are the same.
        unread = tensors.get("cls.predictions.bias", bias)
        if config.tie_word_embeddings and not torch.equal(unread, bias):
            notes.append("cls.predictions.decoder.bias is read, and not cls.predictions.bias, which differs from it")
        tensors["cls.predictions.bias"] = bias
    decoder, words = tensors.get("cls.predictions.decoder.weight"), tensors.get("embeddings.word_embeddings.weight")
    if decoder is None:
        if not config.tie_word_embeddings and "cls.predictions.bias" in tensors:
            notes.append("tie_word_embeddings is false, but there is no decoder: it is read tied")
        return False
    if config.tie_word_embeddings and words is not None and torch.equal(decoder, words):
        del tensors["cls.predictions.decoder.weight"]
        return False
    notes.append("the decoder is not tied to the word vectors")
    return True


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# --- names ------------------------------------------------------------------------------------------------------------


def _pairs(layers: int) -> Iterator[tuple[str, str]]:
    """Yield our name and BERT's of everything that is the same tensor; a model may lack some of them."""
    yield "unary.weight", "embeddings.word_embeddings.weight"
    yield "encoder.positions", "embeddings.position_embeddings.weight"
    yield "encoder.segments.weight", "embeddings.token_type_embeddings.weight"
    yield "words.bias", "cls.predictions.bias"
    yield "words.decoder", "cls.predictions.decoder.weight"
    modules = dict(_MODULES)
    for index in range(layers):
        modules |= {f"encoder.layers.{index}.{ours}": f"encoder.layer.{index}.{it}" for ours, it in _IN_LAYER.items()}
    for ours, theirs in modules.items():
        for end in ("weight", "bias"):
            yield f"{ours}.{end}", f"{theirs}.{end}"


def _stacked(layers: int) -> Iterator[tuple[str, list[str]]]:
    """Yield our name of the projections, and BERT's three names."""
    for index in range(layers):
        for end in ("weight", "bias"):
            theirs = [f"encoder.layer.{index}.attention.self.{name}.{end}" for name in _QUERY_KEY_VALUE]
            yield f"encoder.layers.{index}.projections.{end}", theirs


def to_theirs(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Return the same tensors by BERT's names, without prefix."""
    theirs = {name: tensors[ours] for ours, name in _pairs(layers) if ours in tensors}
    for ours, names in _stacked(layers):
        theirs |= dict(zip(names, tensors[ours].chunk(3), strict=True))
    return theirs


# --- prefixes ---------------------------------------------------------------------------------------------------------

_USUAL = ("", PREFIX)
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
    unusual: str  # for people: what stands in names and is none of BERT's; empty where nothing does


def without_prefix(names: Iterable[str], encoder: Collection[str]) -> Names:
    """Find the plain names of tensors."""
    bare = {}  # without wrappers, and with the names that the parts of a norm have today
    for name in names:
        words = [part for part in name.split(".") if part not in _WRAPPERS]
        if len(words) > 1 and words[-2] == "LayerNorm":
            words[-1] = _LAYER_NORM.get(words[-1], words[-1])
        bare[name] = ".".join(words)
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
