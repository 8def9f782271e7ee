"""BERT folders of Hugging Face's are read, of every class, name and precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_berts import TINY, Ours, assert_same, batch, rewritten, saved, theirs, transformers
from torch import Tensor

from probtrans_cli.hf import read_bert, write_bert
from probtrans_cli.recipe.model import Transformer


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
    ids, mask, segments = batch([5, 3], 30)
    base = model if kind == "BertModel" else model.bert
    expected = base(ids, attention_mask=mask, token_type_ids=segments).last_hidden_state
    found = Ours.of(bert)(ids, mask, segments)["states"]
    torch.testing.assert_close(found, expected * mask[:, :, None], rtol=0, atol=1e-5)


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
    assert "words.decoder" not in bert.tensors
    assert bert.unexpected == ["qa_outputs.weight"]


@pytest.mark.parametrize("tied_config", [True, False])
def test_a_decoder_of_its_own(tmp_path: Path, tied_config: bool) -> None:
    saved(tmp_path, "BertForMaskedLM", tie_word_embeddings=tied_config)
    generator = torch.Generator().manual_seed(5)

    def change(tensors: dict[str, Tensor]) -> None:
        tensors["cls.predictions.decoder.weight"] = torch.randn(30, 8, generator=generator)
        tensors["cls.predictions.decoder.bias"] = torch.randn(30, generator=generator)

    bert = read_bert(rewritten(tmp_path, change))
    assert "words.decoder" in bert.tensors
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
    assert [*section.inconsistencies()] == []


def test_what_is_not_written_in_a_config_is_that_of_bert_base(tmp_path: Path) -> None:
    from probtrans_cli.recipe.hf import BertConfig, read_shape

    config = read_shape({}, tmp_path, BertConfig)
    preset = Transformer.model_validate({"kind": "transformer", "preset": "bert", "dropout": 0.1})
    assert config.section(pooler=True).resolved() == preset.resolved()
    assert config.vocab_size == 30522
