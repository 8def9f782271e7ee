"""BERT folders of Hugging Face's, both ways, against `transformers` itself; no weights but random ones."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import DECOMPOSITIONS, GLOBALS
from small_models import name as shown
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli import hf
from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.hf import Bert, bert_of, read_bert, write_bert
from probtrans_cli.hf.write import PARTS, Architecture, obstacles
from probtrans_cli.models import build
from probtrans_cli.models.outputs import BertWordOutput, PairOutput
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("quick")

SMALL: dict[str, Any] = {
    "vocab_size": 200,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "initializer_range": 0.05,
}
TINY: dict[str, Any] = {**SMALL, "vocab_size": 30, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}


def theirs(kind: str = "BertForPreTraining", seed: int = 0, **options: Any) -> Any:
    """A random model of `transformers`; biases and norms are random too, which their start would hide."""
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(transformers.BertConfig(**{**SMALL, **options})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def saved(folder: Path, kind: str = "BertForPreTraining", **options: Any) -> Path:
    """A folder of a random small model."""
    theirs(kind, **{**TINY, **options}).save_pretrained(folder)
    return folder


@dataclass
class Ours:
    """A BERT with modules for its parts."""

    bert: Bert
    words: Tensor
    encoder: TransformerEncoder
    output: BertWordOutput | None
    pair: PairOutput | None

    @classmethod
    def of(cls, bert: Bert, kind: torch.dtype = torch.float32) -> Ours:
        section, table = bert.section, bert.tensors["unary.weight"].to(kind).clone().requires_grad_()
        encoder = build(section).to(kind).eval()
        encoder.load_state_dict(bert.part("encoder"))
        output = pair = None
        if bert.part("words"):
            how = {"activation": section.activation, "norm_eps": section.norm_eps, "tied": bert.tied}
            output = BertWordOutput(len(table), section.width, **how).to(kind)
            output.load_state_dict(bert.part("words"))
        if bert.part("pair"):
            pair = PairOutput(section.width).to(kind)
            pair.load_state_dict(bert.part("pair"))
        return cls(bert, table, encoder, output, pair)

    def __call__(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> dict[str, Tensor]:
        """Hidden states of all layers, pooled vector, scores of words and of pairs."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        hidden: list[Tensor] = []
        hooks = [self.encoder.layers[0].register_forward_pre_hook(lambda _, given: hidden.append(given[0]))]
        hooks += [
            layer.register_forward_hook(lambda _, __, got: hidden.append(got[0])) for layer in self.encoder.layers
        ]
        encoded = self.encoder(functional.embedding(ids, self.words), mask, segments=segments)
        for hook in hooks:
            hook.remove()
        found = {f"hidden {number}": states for number, states in enumerate(hidden)}
        found["states"] = encoded.states
        if encoded.sentence is not None:
            found["pooled"] = encoded.sentence
        if self.output is not None:
            found["words"] = self.output(encoded.states.flatten(0, 1), self.words).unflatten(0, ids.shape)
        if self.pair is not None:
            assert encoded.sentence is not None
            found["pair"] = self.pair(encoded.sentence)
        return found


def by_transformers(model: Any, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Any:
    """The same of theirs; states of padding are no concern."""
    keep = torch.ones_like(ids) if mask is None else mask
    out = model(input_ids=ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True)
    base = model.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    found = {f"hidden {number}": states for number, states in enumerate(out.hidden_states)}
    found["states"] = base.last_hidden_state * keep[:, :, None]
    if base.pooler_output is not None:
        found["pooled"] = base.pooler_output
    if hasattr(out, "prediction_logits"):
        found |= {"words": out.prediction_logits, "pair": out.seq_relationship_logits}
    elif hasattr(out, "logits"):
        found["words"] = out.logits
    return found


def assert_equal(ours: dict[str, Tensor], expected: dict[str, Tensor], mask: Tensor | None, tolerance: float) -> None:
    """Everything at real words."""
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        real = slice(None) if mask is None or name in ("pooled", "pair", "states") else mask.bool()
        torch.testing.assert_close(
            ours[name][real], value[real], rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n} {m}"
        )


def batch(lengths: list[int], vocabulary: int = 200) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and segments of random sentences."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(vocabulary, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return ids * mask, mask, torch.randint(2, ids.shape, generator=generator)


# --- the same numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_everything_is_as_in_transformers(
    tmp_path: Path, kind: torch.dtype, tolerance: float, activation: str, attention: str
) -> None:
    model = theirs(hidden_act=activation, attn_implementation=attention)
    model.save_pretrained(tmp_path)
    ours = Ours.of(read_bert(tmp_path), kind)
    model = model.to(kind)
    for lengths in ([9, 4, 1], [1], [7]):
        ids, mask, segments = batch(lengths)
        for given in ((ids,), (ids, mask), (ids, mask, segments), (ids, None, segments)):
            if given[1:2] == (None,) and len(lengths) > 1:
                continue
            keep = given[1] if len(given) > 1 else None
            assert_equal(ours(*given), by_transformers(model, *given), keep, tolerance)


def test_as_many_words_as_there_are_positions(tmp_path: Path) -> None:
    model = theirs()
    model.save_pretrained(tmp_path)
    ids, mask, segments = batch([512, 3])
    assert_equal(
        Ours.of(read_bert(tmp_path))(ids, mask, segments), by_transformers(model, ids, mask, segments), mask, 1e-5
    )


def test_loss_and_gradients(tmp_path: Path) -> None:
    model = theirs().double()
    model.save_pretrained(tmp_path)
    ours = Ours.of(read_bert(tmp_path), torch.float64)
    ids, mask, segments = batch([9, 4, 6])
    labels = ids.masked_fill((torch.rand(ids.shape) < 0.5) | (mask == 0), -100)
    labels[0, 1], classes = ids[0, 1], torch.tensor([0, 1, 1])
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    expected = model(**given, labels=labels, next_sentence_label=classes).loss
    found = ours(ids, mask, segments)
    loss = functional.cross_entropy(found["words"].flatten(0, 1), labels.flatten(), ignore_index=-100)
    loss = loss + functional.cross_entropy(found["pair"], classes)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-10)
    loss.backward()
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in ours.encoder.named_parameters(prefix="encoder")}
    assert ours.output is not None
    assert ours.pair is not None
    gradients |= {name: parameter.grad for name, parameter in ours.output.named_parameters(prefix="words")}
    gradients |= {name: parameter.grad for name, parameter in ours.pair.named_parameters(prefix="pair")}
    gradients["unary.weight"] = ours.words.grad
    theirs_by_ours = read_gradients(model, tmp_path)
    assert gradients.keys() == theirs_by_ours.keys()
    for name, gradient in gradients.items():
        assert gradient is not None, name
        # Their look-ups of the padding word, which no position reads, have no gradient either.
        torch.testing.assert_close(gradient, theirs_by_ours[name].double(), rtol=1e-4, atol=1e-6)


def read_gradients(model: Any, folder: Path) -> dict[str, Tensor]:
    """The gradients of their parameters by our names: read like a folder of weights."""
    gradients = {
        name: parameter.grad.float().contiguous()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not name.startswith("cls.predictions.decoder")
    }
    save_file(gradients, folder / "model.safetensors")
    return read_bert(folder).tensors


# --- files of many kinds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parts", "pooler"),
    [
        ("BertModel", ["unary"], True),
        ("BertForMaskedLM", ["unary", "words"], False),
        ("BertForPreTraining", ["unary", "words", "pair"], True),
        ("BertForNextSentencePrediction", ["unary", "pair"], True),
        ("BertForTokenClassification", ["unary", "classifier"], False),
        ("BertForSequenceClassification", ["unary", "classifier"], True),
    ],
)
def test_every_class_is_read(tmp_path: Path, kind: str, parts: list[str], pooler: bool) -> None:
    model = theirs(kind, **TINY)
    model.save_pretrained(tmp_path)
    bert = read_bert(tmp_path)
    assert ({name.partition(".")[0] for name in bert.tensors}, bert.section.pooler) == ({"encoder", *parts}, pooler)
    assert bert.unexpected == bert.notes == []
    wanted = [name for name in ("words", "pair") if name not in parts]
    assert bert.missing() == ([] if pooler else ["pooler"]) + wanted
    ids, mask, segments = batch([5, 3], 30)
    base = model if kind == "BertModel" else model.bert
    expected = base(ids, attention_mask=mask, token_type_ids=segments).last_hidden_state
    found = Ours.of(bert)(ids, mask, segments)["states"]
    torch.testing.assert_close(found, expected * mask[:, :, None], rtol=0, atol=1e-5)


def rewritten(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor] | None]) -> Path:
    """A folder with its tensors changed."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file(change(tensors) or tensors, path, metadata={"format": "pt"})
    return folder


def assert_same(one: Bert, other: Bert) -> None:
    assert one.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(value, other.tensors[name]) for name, value in one.tensors.items())


def old_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    positions = {"bert.embeddings.position_ids": torch.arange(512)[None]}
    return {old(name): value for name, value in tensors.items()} | positions


def test_old_names(tmp_path: Path) -> None:
    now = read_bert(saved(tmp_path))
    before = read_bert(rewritten(tmp_path, old_names))
    assert_same(now, before)
    assert before.unexpected == before.notes == []


def test_copies_of_the_decoder_and_foreign_tensors(tmp_path: Path) -> None:
    now = read_bert(saved(tmp_path))

    def change(tensors: dict[str, Tensor]) -> None:
        words = tensors["bert.embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.weight"] = words.clone()
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        tensors["qa_outputs.weight"] = torch.zeros(2, 8)

    bert = read_bert(rewritten(tmp_path, change))
    assert_same(now, bert)
    assert bert.tied
    assert bert.unexpected == ["qa_outputs.weight"]


@pytest.mark.parametrize("tied_config", [True, False])
def test_a_decoder_of_its_own(tmp_path: Path, tied_config: bool) -> None:
    saved(tmp_path, "BertForMaskedLM", tie_word_embeddings=tied_config)
    generator = torch.Generator().manual_seed(5)

    def change(tensors: dict[str, Tensor]) -> None:
        tensors["cls.predictions.decoder.weight"] = torch.randn(30, 8, generator=generator)
        tensors["cls.predictions.decoder.bias"] = torch.randn(30, generator=generator)

    bert = read_bert(rewritten(tmp_path, change))
    assert not bert.tied
    assert any("the decoder is not tied" in note for note in bert.notes)
    model = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    ids, mask, segments = batch([5, 3], 30)
    expected = model(ids, attention_mask=mask, token_type_ids=segments).logits[mask.bool()]
    torch.testing.assert_close(Ours.of(bert)(ids, mask, segments)["words"][mask.bool()], expected, rtol=0, atol=1e-5)
    write_bert(bert, tmp_path / "again")
    again, report = transformers.BertForMaskedLM.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not any(report.values())
    out = again(ids, attention_mask=mask, token_type_ids=segments).logits[mask.bool()]
    torch.testing.assert_close(out, expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_read_as_float32(tmp_path: Path, kind: torch.dtype) -> None:
    saved(tmp_path)
    rewritten(tmp_path, lambda tensors: {name: value.to(kind) for name, value in tensors.items()})
    bert = read_bert(tmp_path)
    assert {value.dtype for value in bert.tensors.values()} == {torch.float32}
    assert bert.notes == [f"warning: {str(kind).removeprefix('torch.')} weights, read as float32"]
    first = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(bert.tensors["unary.weight"], load_file(tmp_path / "model.safetensors")[first].float())


def test_several_files_and_older_ones(tmp_path: Path) -> None:
    whole = read_bert(saved(tmp_path / "whole"))
    theirs(**TINY).save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    assert_same(whole, read_bert(tmp_path / "shards"))
    saved(tmp_path / "old")
    tensors = load_file(tmp_path / "old" / "model.safetensors")
    (tmp_path / "old" / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "old" / "pytorch_model.bin")
    assert_same(whole, read_bert(tmp_path / "old"))


@pytest.mark.parametrize(
    ("activation", "ours"),
    [("gelu_pytorch_tanh", "gelu_tanh"), ("gelu_python", "gelu"), ("gelu_new", "gelu_tanh"), ("relu", "relu")],
)
def test_options_become_those_of_a_recipe(tmp_path: Path, activation: str, ours: str) -> None:
    options = {"hidden_act": activation, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0.25}
    sizes = {"max_position_embeddings": 40, "type_vocab_size": 3, "layer_norm_eps": 1e-7}
    section = read_bert(saved(tmp_path, **options, **sizes)).section
    assert (section.activation, section.dropout, section.embedding_dropout) == (ours, 0.0, 0.0)
    assert (section.attention_dropout, section.positions.rows, section.segments) == (0.25, 40, 3)  # type: ignore[union-attr]
    assert (section.norm_eps, section.std, section.layers, section.heads) == (1e-7, 0.05, 2, 4)
    assert section.inconsistencies() == []


def test_what_is_not_written_in_a_config_is_that_of_bert_base(tmp_path: Path) -> None:
    from probtrans_cli.hf.bert import read_shape

    config = read_shape({}, tmp_path)
    preset = Transformer.model_validate({"kind": "transformer", "preset": "bert", "dropout": 0.1})
    assert config.section(pooler=True).resolved() == preset.resolved()
    assert config.vocab_size == 30522


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocabulary", "embeddings", "encoder", "words", "whole", "untied"),
    [
        (119_547, 92_208_384, 177_853_440, 711_675, 178_566_653, 91_812_096),
        (28_996, 22_665_216, 108_310_272, 621_124, 108_932_934, 22_268_928),
        (30_522, 23_837_184, 109_482_240, 622_650, 110_106_428, 23_440_896),
    ],
)
def test_parameter_counts(vocabulary: int, embeddings: int, encoder: int, words: int, whole: int, untied: int) -> None:
    def count(module: nn.Module, prefix: str = "") -> int:
        return sum(one.numel() for name, one in module.named_parameters() if name.startswith(prefix))

    with torch.device("meta"):
        model = build({"kind": "transformer", "preset": "bert"})
        table = vocabulary * 768
        output, pair = BertWordOutput(vocabulary, 768), PairOutput(768)
        assert table + sum(count(model, part) for part in ("positions", "segments", "embedding_norm")) == embeddings
        assert count(model, "layers") == 85_054_464
        assert count(model, "layers.3.") == 7_087_872
        assert count(model, "pooler") == 590_592
        assert table + count(model) == encoder
        assert (count(output), count(pair)) == (words, 1_538)
        assert table + count(model) + count(output) + count(pair) == whole
        assert count(BertWordOutput(vocabulary, 768, tied=False)) - count(output) == untied


def test_the_start_of_the_outputs() -> None:
    torch.manual_seed(0)
    output, pair = BertWordOutput(500, 64, tied=False), PairOutput(64, std=0.5)
    assert output.decoder is not None
    for matrix, std in ((output.dense.weight, 0.02), (output.decoder, 0.02), (pair.weight, 0.5)):
        assert float(matrix.detach().std()) == pytest.approx(std, rel=0.2)
    assert not output.dense.bias.any()
    assert not output.bias.any()
    assert not pair.bias.any()


# --- writing ----------------------------------------------------------------------------------------------------------


def random_bert(**options: Any) -> tuple[Transformer, dict[str, Tensor]]:
    """A section and random tensors of every part, in our own forms."""
    torch.manual_seed(3)
    small = {"width": 8, "heads": 2, "inner": 12, "layers": 3, "positions": {"kind": "absolute", "rows": 16}}
    section = Transformer.model_validate({"kind": "transformer", "preset": "bert", **small, **options})
    activation = section.activation
    parts: dict[str, nn.Module] = {
        "encoder": build(section), "words": BertWordOutput(30, 8, activation=activation, norm_eps=section.norm_eps),
        "pair": PairOutput(8), "classifier": nn.Linear(8, 3),
    }  # fmt: skip
    tensors = {
        f"{part}.{name}": value.detach()
        for part, module in parts.items()
        for name, value in module.state_dict().items()
    }
    tensors["unary.weight"] = torch.zeros(30, 8)
    return section, {name: value + 0.3 * torch.randn(value.shape) for name, value in tensors.items()}


def states_of(section: Transformer, tensors: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Any:
    """What our own encoder makes of a batch."""
    encoder = build(section).eval()
    encoder.load_state_dict(
        {key.removeprefix("encoder."): it for key, it in tensors.items() if key.startswith("encoder.")}
    )
    return encoder(functional.embedding(ids, tensors["unary.weight"]), mask.bool())


EXPRESSIBLE: list[dict[str, Any]] = [
    {},
    {"activation": "relu", "norm_eps": 1e-5},
    {"activation": "gelu_tanh", "segments": 3, "positions": {"kind": "learned_sinusoidal", "rows": 16}},
    {"segments": 0},
    {"bias": "feed_forward"},
    {"bias": "none", "pooler": False},
    {"share_layers": True},
    {"tie_kv": True},
    {"tie_qo": True, "share_layers": True, "bias": "none"},
    {"tie_kv": True, "tie_qo": True},
]


@pytest.mark.parametrize("options", EXPRESSIBLE, ids=str)
@pytest.mark.parametrize("architecture", PARTS)
def test_transformers_opens_what_is_written(
    tmp_path: Path, architecture: Architecture, options: dict[str, Any]
) -> None:
    section, tensors = random_bert(**options)
    labels = {"id2label": {"0": "a", "1": "b", "2": "c"}} if "classifier" in PARTS[architecture] else {}
    bert = bert_of(section, tensors, labels, expand_shared=True)
    write_bert(bert, tmp_path / "out", architecture)
    kind = getattr(transformers, architecture)
    model, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values()), report
    model.eval()
    ids, mask, _ = batch([6, 3], 30)
    expected = states_of(section, tensors, ids, mask)
    with torch.no_grad():
        base = (model if architecture == "BertModel" else model.bert)(ids, attention_mask=mask)
        torch.testing.assert_close(base.last_hidden_state[mask.bool()], expected.states[mask.bool()], rtol=0, atol=1e-5)
        if section.pooler and "pooler" in PARTS[architecture]:
            torch.testing.assert_close(base.pooler_output, expected.sentence, rtol=0, atol=1e-5)
        if "words" in PARTS[architecture]:
            ours = Ours.of(read_bert(tmp_path / "out"))(ids, mask)
            out = model(ids, attention_mask=mask)
            logits = out.logits if architecture == "BertForMaskedLM" else out.prediction_logits
            torch.testing.assert_close(ours["words"][mask.bool()], logits[mask.bool()], rtol=0, atol=1e-5)
    auto = transformers.AutoModel.from_pretrained(tmp_path / "out")
    assert type(auto).__name__ == "BertModel"


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertForMaskedLM", "BertModel", "BertForTokenClassification"])
def test_reading_writing_reading_changes_nothing(tmp_path: Path, kind: str) -> None:
    saved(tmp_path / "first", kind, id2label={0: "x", 1: "y", 2: "z"}, layer_norm_eps=1e-7)
    path = tmp_path / "first" / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"a key of others": {"deep": [1, None]}, "torch_dtype": "float32"}
    path.write_text(json.dumps(config), "utf-8")
    first = read_bert(tmp_path / "first")
    write_bert(first, tmp_path / "second")
    second = read_bert(tmp_path / "second")
    assert_same(first, second)
    assert (second.section, second.config) == (first.section, first.config)
    assert second.config == config
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    content = (tmp_path / "second" / "model.safetensors").read_bytes()
    assert b'"__metadata__":{"format":"pt"}' in content[:200]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_written(tmp_path: Path, kind: torch.dtype) -> None:
    notes = write_bert(bert_of(*random_bert()), tmp_path / "out", "BertModel", dtype=kind)
    assert transformers.AutoModel.from_pretrained(tmp_path / "out").dtype == kind
    assert any("0 in float16" in note for note in notes) == (kind == torch.float16)


# --- probabilistic transformers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [*({"decomposition": one} for one in DECOMPOSITIONS), {"root": {"labels": 4}}], ids=shown
)
def test_a_probabilistic_transformer_opens_in_transformers(tmp_path: Path, options: dict[str, Any]) -> None:
    hf.register()
    hf.register()
    small = {"labels": 6, "channels": 2, "iterations": 3, "globals": GLOBALS[0]}
    section = ProbabilisticTransformer.model_validate({**small, **options})
    encoder, table = build(section).eval(), torch.randn(10, 6)
    tensors = {"unary.weight": table, "output.weight": torch.zeros(1)}
    tensors |= {f"encoder.{key}": value for key, value in encoder.state_dict().items()}
    hf.write_probabilistic(section, tensors, tmp_path / "out", pad=0)
    model, report = transformers.AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
    expected = encoder(table[ids], ids != 0, arcs=True)
    found = model(ids, output_attentions=True)
    torch.testing.assert_close(found.last_hidden_state, expected.states, rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.stack(found.attentions, 1), expected.arcs, rtol=0, atol=1e-6)
    if "root" in options:
        torch.testing.assert_close(found.pooler_output, expected.sentence, rtol=0, atol=1e-6)
    assert model(ids).attentions is None
    assert torch.equal(model(ids, attention_mask=ids > 4, return_dict=False)[0][1, 2:], torch.zeros(2, 6))
    model.save_pretrained(tmp_path / "again")
    again = transformers.AutoModel.from_pretrained(tmp_path / "again")
    torch.testing.assert_close(again(ids).last_hidden_state, expected.states, rtol=0, atol=1e-5)


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("probtrans_cli.hf.auto", raising=False)
    monkeypatch.delitem(sys.modules, "probtrans_cli.hf.auto", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="transformers cannot be imported"):
        hf.register()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"positions": {"kind": "relative"}}, "model.positions: relative"),
        ({"positions": {"kind": "sinusoidal"}}, "model.positions: sinusoidal"),
        ({"positions": {"kind": "none"}}, "model.positions: none"),
        ({"norm": "pre"}, "model.norm: pre"),
        ({"embedding_norm": False}, "model.embedding_norm: false"),
        ({"head_size": 6}, "model.head_size: 6"),
        ({"share_layers": True}, "model.share_layers: true (--expand-shared"),
        ({"tie_kv": True}, "model.tie_kv: true"),
        ({"tie_qo": True}, "model.tie_qo: true"),
    ],
)
def test_what_bert_cannot_express_is_named(options: dict[str, Any], named: str) -> None:
    section, tensors = random_bert(**options)
    with pytest.raises(UsageError, match="not expressible as BERT") as caught:
        bert_of(section, tensors)
    assert named in caught.value.message
    assert obstacles(section) == obstacles(section.resolved())


def test_all_options_in_the_way_are_named() -> None:
    assert obstacles(ProbabilisticTransformer()) == ["model.kind: probabilistic"]
    section = Transformer(kind="transformer", norm="pre", tie_kv=True)
    assert len(obstacles(section)) == 3
    assert obstacles(section, expand_shared=True) == ["model.norm: pre", "model.embedding_norm: false"]


def test_parts_that_are_not_there_and_folders_in_the_way(tmp_path: Path) -> None:
    bert = read_bert(saved(tmp_path / "in", "BertForMaskedLM"))
    with pytest.raises(UsageError, match="a BertForPreTraining has what this model has not: pooler, pair"):
        write_bert(bert, tmp_path / "out", "BertForPreTraining")
    with pytest.raises(UsageError, match="exists already"):
        write_bert(bert, tmp_path / "in")


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"model_type": "roberta"}, ["model_type: 'roberta' is unsupported"]),
        ({"is_decoder": True}, ["is_decoder: true is unsupported"]),
        ({"add_cross_attention": True}, ["add_cross_attention: true is unsupported"]),
        ({"position_embedding_type": "relative_key"}, ["position_embedding_type: 'relative_key' is unsupported"]),
        ({"hidden_act": "silu"}, ["hidden_act: 'silu' is unsupported"]),
        ({"num_attention_heads": 5}, ["hidden_size: 8 is not a multiple of num_attention_heads 5"]),
        ({"hidden_size": "8"}, ['hidden_size: found "8", wanted a whole number ≥ 1']),
        ({"vocab_size": 2**31}, ["vocab_size: found 2147483648, wanted a whole number ≥ 1 and < 2147483648"]),
        ({"hidden_act": ["x" * 99]}, [f'hidden_act: found ["{"x" * 57}…, wanted text']),
        ({"tie_word_embeddings": None}, ["tie_word_embeddings: found null, wanted `true` or `false`"]),
        (
            {"num_hidden_layers": 2**31 - 1},
            ["num_hidden_layers: found 2147483647, wanted a whole number ≥ 1 and ≤ 1000"],
        ),
        (
            {"hidden_size": 0, "num_hidden_layers": None},
            [
                "hidden_size: found 0, wanted a whole number ≥ 1",
                "num_hidden_layers: found null, wanted a whole number ≥ 1 and ≤ 1000",
            ],
        ),
        ({"layer_norm_eps": math.nan}, ["layer_norm_eps: found NaN, wanted a number ≥ 0; it must be finite"]),
        ({"is_decoder": True, "model_type": "gpt2"}, ["model_type: 'gpt2'", "is_decoder: true"]),
    ],
)
def test_configs_that_are_refused(tmp_path: Path, change: dict[str, Any], messages: list[str]) -> None:
    path = saved(tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(CheckpointError) as caught:
        read_bert(tmp_path)
    assert len(caught.value.message.split("\n")) == len(messages)
    for message in messages:
        assert f"{path}: {message}" in caught.value.message


def test_an_epsilon_of_0(tmp_path: Path) -> None:
    bert = read_bert(saved(tmp_path, layer_norm_eps=0.0))
    assert bert.section.norm_eps == 1e-12
    assert bert.notes == ["warning: layer_norm_eps is 0, read as 1e-12"]


def test_one_report_has_all_missing_and_misshapen_tensors(tmp_path: Path) -> None:
    saved(tmp_path)

    def change(tensors: dict[str, Tensor]) -> None:
        del tensors["bert.encoder.layer.1.intermediate.dense.bias"]
        del tensors["cls.predictions.transform.dense.weight"]
        tensors["bert.pooler.dense.bias"] = torch.zeros(9)
        tensors["bert.embeddings.word_embeddings.weight"] = torch.zeros(31, 8)
        tensors["bert.encoder.layer.0.output.dense.bias"] = torch.zeros(8, dtype=torch.int64)
        tensors["bert.encoder.layer.1.output.dense.bias"] = torch.full((8,), torch.inf)
        tensors["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(8)
        tensors["classifier.weight"] = torch.tensor(1.0)

    with pytest.raises(CheckpointError) as caught:
        read_bert(rewritten(tmp_path, change))
    assert caught.value.message.split("\n")[1:] == [
        "embeddings.word_embeddings.weight: has shape [31, 8], wanted [30, 8]",
        "encoder.layer.0.output.dense.bias: holds int64, wanted numbers with a fraction",
        "encoder.layer.1.intermediate.dense.bias: missing",
        "encoder.layer.1.output.dense.bias: holds numbers that are not finite",
        "pooler.dense.bias: has shape [9], wanted [8]",
        "cls.predictions.transform.dense.weight: missing",
        "classifier.weight: has shape [], wanted [1, 8]",
        "classifier.bias: missing",
        "encoder.layer.2.output.dense.bias: not known",
    ]


def test_tensors_that_nobody_knows(tmp_path: Path) -> None:
    saved(tmp_path)
    more = {"qa_outputs.weight": torch.zeros(2, 8), "crf.start": torch.zeros(3), "bert.pooler.dense.x": torch.zeros(1)}
    rewritten(tmp_path, lambda tensors: {**tensors, **more})
    with pytest.raises(CheckpointError) as caught:
        read_bert(tmp_path)
    assert caught.value.message.split("\n")[1:] == ["crf.start: not known", "pooler.dense.x: not known"]
    assert caught.value.hint == "model.init_strict=false leaves them there"
    assert read_bert(tmp_path, strict=False).unexpected == ["crf.start", "pooler.dense.x", "qa_outputs.weight"]


def test_two_models_in_one_file(tmp_path: Path) -> None:
    saved(tmp_path)
    rewritten(tmp_path, lambda tensors: {**tensors, "pooler.dense.bias": torch.zeros(8)})
    with pytest.raises(CheckpointError, match=r"has pooler\.dense\.bias twice"):
        read_bert(tmp_path)


class Code:
    """What a pickle may do when it is opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("opened"),))


def test_damaged_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = saved(tmp_path / "bert")
    weights, config = folder / "model.safetensors", folder / "config.json"
    content = weights.read_bytes()
    for damaged in (content[: len(content) // 2], content[:5], b"", b"no weights at all"):
        weights.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged"):
            read_bert(folder)
    weights.unlink()
    with pytest.raises(CheckpointError, match="there are no weights"):
        read_bert(folder)
    older = folder / "pytorch_model.bin"
    torch.save({"bert.embeddings.LayerNorm.bias": Code()}, older)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: holds something else than tensors"):
        read_bert(folder)
    assert not (tmp_path / "opened").exists()
    for damaged in (content[:100], b"", older.read_bytes()[:90]):
        older.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
            read_bert(folder)
    torch.save([torch.zeros(1)], older)
    with pytest.raises(CheckpointError, match="something else than named tensors"):
        read_bert(folder)
    for damaged in (b"{", b"[]", b"\xff"):
        config.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"config\.json: not"):
            read_bert(folder)
    with pytest.raises(CheckpointError, match=r"config\.json: there is no such file"):
        read_bert(tmp_path)


def test_damaged_indices_are_named(tmp_path: Path) -> None:
    theirs(**TINY).save_pretrained(tmp_path, max_shard_size="8KB")
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text("utf-8"))
    name, place = next(iter(index["weight_map"].items()))
    for change, message in (
        ({"weight_map": 3}, "has no weight_map"),
        ({"weight_map": {name: "../model.safetensors"}}, "outside the folder"),
        ({"weight_map": {"another": place}}, "has no another"),
        ({"weight_map": {name: "lost.safetensors"}}, r"lost\.safetensors"),
    ):
        path.write_text(json.dumps(index | change), "utf-8")
        with pytest.raises(CheckpointError, match=message):
            read_bert(tmp_path)
