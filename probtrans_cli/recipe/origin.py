"""``model.from``: what a BERT folder says of a model is written into the recipe while it is read. Imports no torch.

The same of ``model.lower.from``, the lower encoder of a stack. Afterwards nothing needs the folder's config.json: the
recipe has the sizes, `model.init_from` and `data.vocabulary`, and `from` is null. So a run's own copy of its recipe
stands for itself.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders.places import find_folder, places
from probtrans_cli.recipe.bert import CONFIG, read_config, read_shape
from probtrans_cli.recipe.model import ModelSection, Transformer
from probtrans_cli.recipe.overrides import kind_of
from probtrans_cli.recipe.yaml import Entry, Fault, Items, Mapping, Node, Place, Scalar, plain

KEY = "from"
# What may differ: it changes neither the tensors nor what they compute.
FREE = {
    "from_",
    "init_from",
    "init_strict",
    "preset",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "initialization",
    "std",
    "word_std",
    "ternary_std",
    "pooler",
    "bayes",
}
_TOLD = (  # by a config.json, as fields of a section
    "width",
    "inner",
    "heads",
    "layers",
    "positions",
    "norm_eps",
    "activation",
    "segments",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "std",
)


def computed(section: ModelSection) -> dict[str, Any]:
    """The options by which an encoder is that one, and no other."""
    options = section.resolved().model_dump(mode="json", exclude=FREE)
    positions = options.get("positions", {})
    if positions.get("kind") == "learned_sinusoidal":  # only its start is another
        positions["kind"] = "absolute"
    for name, part in section.encoders.items():
        del options[name]
        options |= {f"{name}.{key}": value for key, value in computed(part).items()}
    return options


def written(value: Any) -> str:
    """A value of :func:`computed` as it is written in a recipe."""
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False).strip('"')


def expand(tree: Mapping) -> list[Fault]:
    """Replace `model.from`, or that of the lower encoder of a stack, in the tree of a recipe by what it stands for; the
    faults: a folder that is none, and keys beside it that say something else."""
    model = _section(tree, "model")
    if model is None:
        return []
    lower = _section(model, "lower") if kind_of(model) == "stacked" else None
    path, encoder = (("model",), model) if lower is None else (("model", "lower"), lower)
    entry = encoder.entries.get(KEY)
    if entry is None or kind_of(encoder) != "transformer" or not isinstance(entry.node, Scalar):
        return []
    name, place = entry.node.value, entry.node.place
    if not isinstance(name, str) or not name or "\0" in name:
        return []  # null, or what no path is: the schema tells
    del encoder.entries[KEY]
    _set(encoder, "preset", "bert", place)
    if lower is not None and "pooler" not in lower.entries:
        _set(lower, "pooler", False, place)  # what stands above reads words
    if "init_from" not in model.entries:
        _set(model, "init_from", name, place)
    data = _section(tree, "data")
    if data is not None and "vocabulary" not in data.entries:
        _set(data, "vocabulary", {"kind": "wordpiece", "folder": name}, place)
    try:
        theirs = _read(name)
    except CheckpointError as error:
        return [Fault(place, (*path, KEY), "; ".join(error.message.split("\n")))]
    for key, value in theirs.model_dump(mode="json", include=set(_TOLD)).items():
        if key not in encoder.entries:
            _set(encoder, key, value, place)
    try:
        ours = Transformer.model_validate(plain(encoder))
    except ValidationError:
        return []  # the schema tells
    return _contradictions(name, path, encoder, computed(ours), computed(theirs))


def _read(name: str) -> Transformer:
    """The section of a folder's encoder.

    Raises:
        CheckpointError: it is not there, or not that of a BERT of ours.
    """
    folder = find_folder(name)
    if not folder.is_dir():
        tried = ", ".join(map(str, places(name)))
        raise CheckpointError(f"there is no folder {name!r} (tried {tried}){_where_to_get(name)}")
    config = read_shape(read_config(folder), folder / CONFIG)
    try:
        return config.section(pooler=True)
    except ValidationError as error:
        keys = ", ".join(str(detail["loc"][0]) for detail in error.errors())
        raise CheckpointError(f"{folder / CONFIG}: larger than any model may be: {keys}") from None


def _where_to_get(name: str) -> str:
    return ": run `python data_scripts/minilm.py`" if name.rstrip("/").endswith("models/minilm") else ""


def _contradictions(
    name: str, path: tuple[str, ...], encoder: Mapping, ours: dict[str, Any], theirs: dict[str, Any]
) -> list[Fault]:
    return [
        Fault(
            encoder.entries[key].node.place,
            (*path, key),
            f"found {written(value)}, but {CONFIG} of `{'.'.join(path)}.from: {name}` says {written(theirs[key])}: "
            "leave one of them out",
        )
        for key, value in ours.items()
        if key in encoder.entries and value != theirs[key]
    ]


def _section(tree: Mapping, key: str) -> Mapping | None:
    entry = tree.entries.get(key)
    return entry.node if entry is not None and isinstance(entry.node, Mapping) else None


def _set(section: Mapping, key: str, value: Any, place: Place) -> None:
    section.entries[key] = Entry(place, _node(value, place))


def _node(value: Any, place: Place) -> Node:
    """A value as part of a tree."""
    if isinstance(value, dict):
        return Mapping(place, {key: Entry(place, _node(inner, place)) for key, inner in value.items()})
    if isinstance(value, list):
        return Items(place, [_node(inner, place) for inner in value])
    return Scalar(place, value, written(value))
