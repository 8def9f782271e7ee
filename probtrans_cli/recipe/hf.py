"""Folders of Hugging Face's, BERT or GPT-2: what their config.json says of an encoder, and `model.from`. No torch.

While a recipe is read, `model.from` (of a stack, `model.lower.from`) is replaced by what the folder says. Afterwards
nothing needs the folder's config.json: the recipe has the sizes, `model.init_from` and `data.vocabulary`, and `from` is
null. So a run's own copy of its recipe stands for itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from probtrans_cli.corpora import command_for
from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import find_folder, places, regular
from probtrans_cli.recipe.base import Fraction, NonNegativeFloat, PositiveInt
from probtrans_cli.recipe.faults import kind_of
from probtrans_cli.recipe.model import ModelSection, Transformer
from probtrans_cli.recipe.model.transformer import AbsolutePositions
from probtrans_cli.recipe.yaml import Document, Fault, Key
from probtrans_cli.text import from_json, printable, printable_json

CONFIG = "config.json"
ACTIVATIONS = {"gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
ACTIVATIONS |= {"relu": "relu"}
MOST_LAYERS = 1000  # more are a damaged file: all their tensors are listed
SMALLEST_EPS = 1e-12  # what an epsilon of 0 is read as: the same, but for vectors that are constant
# Keys of related models (ALBERT, DeBERTa, ...), with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "alibi_starting_size": (), "auto_map": ({},), "inner_group_num": (1,), "pos_att_type": ([], "", "none"),
    "position_biased_input": (True,), "prenorm": (False,), "pruned_heads": ({},), "quantization_config": (),
    "relative_attention": (False,), "rope_theta": (), "rotary_emb_fraction": (0, 0.0),
}  # fmt: skip
_WHY = {
    "auto_map": "the model is computed by code of its own, which is not run",
    "quantization_config": "give the folder of the model before it was quantized",
}
# Keys of a config.json that change nothing that is read here.
_IDLE = re.compile(
    "architectures|attn_implementation|_attn_implementation.*|_name_or_path|name_or_path|_commit_hash|_num_labels"
    "|chunk_size_feed_forward|classifier_dropout|directionality|dtype|torch_dtype|finetuning_task"
    "|gradient_checkpointing|id2label|label2id|language|num_labels|output_.*|pooler_.*|.*_token_id|problem_type"
    "|n_ctx|return_dict|summary_.*|task_specific_params|tie_encoder_decoder|torchscript|transformers_version|use_bfloat16|use_cache"
)
AGAIN = "copy the folder again"
"""What to do about a damaged file."""


class FolderConfig(BaseModel):
    """The keys of a config.json that matter, with the values that they have where they are not written."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    name: ClassVar[str]
    """What the model is called, for people."""
    usual: ClassVar[Mapping[str, Any]]
    """Keys of which one value alone is supported."""
    options: ClassVar[Mapping[str, str]]
    """The key of each option of a `model` section, with `rows` for those of its positions."""
    derived: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of related models, with the attribute that has the value of this model."""
    can_pool: ClassVar[bool] = False
    """Whether there are models of this kind with a pooler."""

    def section(self, *, pooler: bool = False) -> Transformer:
        """The ``model`` section of a recipe with this encoder; ``pooler``: the folder has one."""
        values = {option: getattr(self, key) for option, key in self.options.items()}
        values["positions"] = AbsolutePositions(kind="absolute", rows=values.pop("rows"))
        values["activation"] = ACTIVATIONS[values["activation"]]
        values["inner"] = values["inner"] or 4 * values["width"]
        values["norm_eps"] = values["norm_eps"] or SMALLEST_EPS
        values["std"] = values["std"] or 0.02
        preset = type(self).model_fields["model_type"].default
        return Transformer(kind="transformer", preset=preset, pooler=pooler and self.can_pool, **values)

    def unsupported(self, content: Mapping[str, Any]) -> Iterator[str]:
        """Yield the keys whose values no encoder here supports, with the reason."""
        of_width, of_heads, of_activation = (self.options[option] for option in ("width", "heads", "activation"))
        activation = getattr(self, of_activation)
        if activation not in ACTIVATIONS:
            yield f"{of_activation}: {activation!r} is unsupported; it is one of {', '.join(ACTIVATIONS)}"
        for key, usual in self.usual.items():
            if (value := getattr(self, key)) not in (usual, None):
                only = f"{value!r} is unsupported; only {usual!r} is read"
                yield f"{key}: {only if isinstance(usual, str) else f'{printable_json(value, 60)} is unsupported'}"
        width, heads = getattr(self, of_width), getattr(self, of_heads)
        if width % heads:
            yield f"{of_width}: {width} is not a multiple of {of_heads} {heads}"
        for key, neutral in _NEUTRAL.items():
            value = content.get(key)
            if value is not None and not any(value == it and type(value) is type(it) for it in neutral):
                why = _WHY.get(key, f"{self.name} has no such option")
                yield f"{key}: {printable_json(value, 60)} is unsupported: {why}"
        for key, attribute in self.derived.items():
            value, size = content.get(key), getattr(self, attribute)
            if value is not None and value != size:
                yield f"{key}: {printable(repr(value), 60)} is unsupported; {self.name}'s is {size}"

    def unread(self, content: Mapping[str, Any]) -> list[str]:
        """Return the unknown keys."""
        keys = {*type(self).model_fields, *_NEUTRAL, *self.derived}
        return [
            key for key, value in content.items() if key not in keys and value is not None and not _IDLE.fullmatch(key)
        ]


class BertConfig(FolderConfig):
    """The keys of a BERT's config.json."""

    name = "BERT"
    usual: ClassVar = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    options: ClassVar = {
        "width": "hidden_size", "inner": "intermediate_size", "heads": "num_attention_heads",
        "layers": "num_hidden_layers", "rows": "max_position_embeddings", "norm_eps": "layer_norm_eps",
        "activation": "hidden_act", "segments": "type_vocab_size", "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob", "embedding_dropout": "hidden_dropout_prob",
        "std": "initializer_range",
    }  # fmt: skip
    derived: ClassVar = {
        "embedding_size": "hidden_size", "num_hidden_groups": "num_hidden_layers", "attention_head_size": "head_size",
        "num_key_value_heads": "num_attention_heads",
    }  # fmt: skip
    can_pool = True

    model_type: str | None = "bert"
    vocab_size: PositiveInt = 30522
    hidden_size: PositiveInt = 768
    num_hidden_layers: Annotated[PositiveInt, Field(le=MOST_LAYERS)] = 12
    num_attention_heads: PositiveInt = 12
    intermediate_size: PositiveInt = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: Fraction = 0.1
    attention_probs_dropout_prob: Fraction = 0.1
    max_position_embeddings: PositiveInt = 512
    type_vocab_size: PositiveInt = 2
    initializer_range: NonNegativeFloat = 0.02
    layer_norm_eps: NonNegativeFloat = 1e-12
    tie_word_embeddings: bool = True
    is_decoder: bool = False
    add_cross_attention: bool = False
    position_embedding_type: str | None = "absolute"

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads


class Gpt2Config(FolderConfig):
    """The keys of a GPT-2's config.json."""

    name = "GPT-2"
    usual: ClassVar = {
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False,
        "add_cross_attention": False, "tie_word_embeddings": True,
    }  # fmt: skip
    options: ClassVar = {
        "width": "n_embd", "inner": "n_inner", "heads": "n_head", "layers": "n_layer", "rows": "n_positions",
        "norm_eps": "layer_norm_epsilon", "activation": "activation_function", "dropout": "resid_pdrop",
        "attention_dropout": "attn_pdrop", "embedding_dropout": "embd_pdrop", "std": "initializer_range",
    }  # fmt: skip

    model_type: str = "gpt2"
    vocab_size: PositiveInt = 50257
    n_positions: PositiveInt = 1024
    n_embd: PositiveInt = 768
    n_layer: Annotated[PositiveInt, Field(le=MOST_LAYERS)] = 12
    n_head: PositiveInt = 12
    n_inner: PositiveInt | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: Fraction = 0.1
    embd_pdrop: Fraction = 0.1
    attn_pdrop: Fraction = 0.1
    layer_norm_epsilon: NonNegativeFloat = 1e-5
    initializer_range: NonNegativeFloat = 0.02
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    reorder_and_upcast_attn: bool = False
    add_cross_attention: bool = False
    tie_word_embeddings: bool = True


C = TypeVar("C", bound=FolderConfig)


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of `config.json`."""
    path = folder / CONFIG
    if not folder.is_dir() or not path.is_file():
        hint = "give a folder with config.json and model.safetensors, as transformers' save_pretrained writes it"
        raise CheckpointError(f"{path}: there is no such file", hint=hint)
    content = read_json(path)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not a JSON object", hint=AGAIN)
    return content


def read_shape(content: Mapping[str, Any], path: Path, form: type[C]) -> C:
    """Check the content of a config.json, and return the keys that matter.

    Raises:
        CheckpointError: it is that of another kind of model, or some keys have values that no encoder here supports;
            the message names all of them.
    """
    kind, classes = content.get("model_type"), content.get("architectures")
    faults: list[str] = []
    if kind not in (None, form.model_fields["model_type"].default):
        run = "; give the run that it was exported from" if kind == "probtrans" else ""
        faults.append(f"model_type: {kind!r} is unsupported; only 'bert' and 'gpt2' are read{run}")
    names = map(str, classes) if kind is None and isinstance(classes, list) else ()
    foreign = [name for name in names if not name.startswith("Bert") or name.startswith("BertGeneration")]
    faults += [f"architectures: {name!r} is unsupported; only BERT is read" for name in foreign]
    try:
        config = form.model_validate(dict(content))
    except ValidationError as error:
        for detail in () if faults else error.errors():  # in another kind of model, these keys have another meaning
            faults.append(f"{detail['loc'][0]}: {detail['msg']}, found {printable_json(detail['input'], 60)}")
    else:
        faults += config.unsupported(content)
        if not faults:
            return config
    hint = f"only plain {form.name} {'encoders' if form is BertConfig else 'models'} are read"
    raise CheckpointError("\n".join(f"{path}: {fault}" for fault in faults), hint=hint)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file of a Hugging Face folder."""
    try:
        return from_json(regular.read_bytes(path, follow=True))  # their caches are made of links
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not JSON ({error})", hint=AGAIN) from None


# --- `model.from` -----------------------------------------------------------------------------------------------------

# Options that may differ: they change neither the tensors nor what these compute.
FREE = {
    "from_", "init_from", "init_strict", "preset", "dropout", "attention_dropout", "embedding_dropout",
    "initialization", "std", "word_std", "ternary_std", "pooler", "bayes",
}  # fmt: skip
_IN_CONFIG = {
    "width", "inner", "heads", "layers", "positions", "norm_eps", "activation", "segments", "dropout",
    "attention_dropout", "embedding_dropout", "std",
}  # fmt: skip
"""What a config.json says, as fields of a section."""


def computed(section: ModelSection) -> dict[str, Any]:
    """Return the options that determine what an encoder computes from its tensors."""
    options = section.resolved().model_dump(mode="json", exclude=FREE)
    positions = options.get("positions", {})
    if positions.get("kind") == "learned_sinusoidal":  # differs from `absolute` at the start only
        positions["kind"] = "absolute"
    for name, part in section.facts.encoders.items():
        del options[name]
        options |= {f"{name}.{key}": value for key, value in computed(part).items()}
    return options


def written(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False).strip('"')


def expand(document: Document) -> list[Fault]:
    """Replace `model.from`, or that of the lower encoder of a stack, by what it stands for.

    Returns:
        The faults: a folder that is not there or of another model, and keys beside `from` that contradict its
        config.json.
    """
    path: Key = ("model",)
    content: Any = document.content if isinstance(document.content, dict) else {}
    model = encoder = content.get("model")
    stacked = isinstance(model, dict) and kind_of(model) == "stacked" and isinstance(model.get("lower"), dict)
    if stacked:
        path, encoder = ("model", "lower"), model["lower"]
    if not isinstance(encoder, dict) or kind_of(encoder) != "transformer":
        return []
    name, place = encoder.get("from"), document.origin((*path, "from")).value
    if not isinstance(name, str) or not name or "\0" in name:
        return []  # null, or not a path: the schema says so
    model.setdefault("init_from", name)
    folder, faults = None, []
    try:
        folder = _section_of(name)
    except CheckpointError as error:
        faults = [Fault(place, (*path, "from"), "; ".join(error.message.split("\n")))]
    encoder |= {"from": None, "preset": "bert" if folder is None else folder.preset}
    if stacked or (folder is None and encoder.get("causal") is True):
        encoder.setdefault("pooler", False)  # the upper encoder reads words, and a causal model has none
    if isinstance(data := content.get("data"), dict):
        kind = "words" if encoder["preset"] == "gpt2" else "wordpiece"
        data.setdefault("vocabulary", {"kind": kind, "folder": name})
    if folder is None:
        return faults
    for key, value in folder.model_dump(mode="json", include=_IN_CONFIG).items():
        encoder.setdefault(key, value)
    try:
        ours = computed(Transformer.model_validate(encoder))
    except ValidationError:
        return []  # the schema says so
    theirs, where = computed(folder), f"{CONFIG} of `{'.'.join(path)}.from: {name}`"
    contradicted = {key: value for key, value in ours.items() if key in encoder and value != theirs[key]}
    return [
        Fault(
            document.origin((*path, key)).value,
            (*path, key),
            f"found {written(value)}, but {where} says {written(theirs[key])}: leave one of them out",
        )
        for key, value in contradicted.items()
    ]


def _section_of(name: str) -> Transformer:
    folder = find_folder(name)
    if not folder.is_dir():
        tried = ", ".join(map(str, places(name)))
        get = f": run `{command}`" if (command := command_for(name)) else ""
        raise CheckpointError(f"there is no folder {name!r} (tried {tried}){get}")
    content = read_config(folder)
    form = Gpt2Config if content.get("model_type") == "gpt2" else BertConfig
    config: FolderConfig = read_shape(content, folder / CONFIG, form)
    try:
        return config.section(pooler=True)
    except ValidationError as error:
        keys = ", ".join(str(detail["loc"][0]) for detail in error.errors())
        raise CheckpointError(f"{folder / CONFIG}: larger than any model may be: {keys}") from None
