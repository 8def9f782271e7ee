"""What BERT cannot express, and folders that are refused with what is wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_berts import TINY, configured, fault_of, random_bert, rewritten, saved, theirs, transformers
from torch import Tensor

from probtrans_cli.errors import CheckpointError, UsageError
from probtrans_cli.hf import bert_of, read_bert, write_bert
from probtrans_cli.hf.write import obstacles
from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer


def test_what_bert_cannot_express_is_named() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"positions": {"kind": "relative"}}, "model.positions: relative"),
        ({"positions": {"kind": "sinusoidal"}}, "model.positions: sinusoidal"),
        ({"positions": {"kind": "none"}}, "model.positions: none"),
        ({"norm": "pre"}, "model.norm: pre"),
        ({"embedding_norm": False}, "model.embedding_norm: false"),
        ({"head_size": 6}, "model.head_size: 6"),
        ({"share_layers": True}, "model.share_layers: true (--expand-shared"),
        ({"tie_kv": True}, "model.tie_kv: true"),
        ({"tie_qo": True}, "model.tie_qo: true"),
    ]
    for options, named in cases:
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
        ({"hidden_size": "8"}, ['hidden_size: Input should be a valid integer, found "8"']),
        ({"vocab_size": 2**31}, ["vocab_size: Input should be less than 2147483648, found 2147483648"]),
        ({"hidden_act": ["x" * 99]}, [f'hidden_act: Input should be a valid string, found ["{"x" * 57}…']),
        ({"tie_word_embeddings": None}, ["tie_word_embeddings: Input should be a valid boolean, found null"]),
        (
            {"num_hidden_layers": 2**31 - 1},
            ["num_hidden_layers: Input should be less than or equal to 1000, found 2147483647"],
        ),
        (
            {"hidden_size": 0, "num_hidden_layers": None},
            [
                "hidden_size: Input should be greater than or equal to 1, found 0",
                "num_hidden_layers: Input should be a valid integer, found null",
            ],
        ),
        ({"layer_norm_eps": math.nan}, ["layer_norm_eps: Input should be a finite number, found NaN"]),
        ({"is_decoder": True, "model_type": "gpt2"}, ["model_type: 'gpt2'", "is_decoder: true"]),
    ],
)
def test_configs_that_are_refused(tmp_path: Path, change: dict[str, Any], messages: list[str]) -> None:
    path = configured(saved(tmp_path), change)
    fault = fault_of(tmp_path).message
    assert len(fault.split("\n")) == len(messages)
    for message in messages:
        assert f"{path}: {message}" in fault


def test_every_other_kind_of_model_is_refused_by_its_name(tmp_path: Path) -> None:
    """Not by one of its keys, which in it have another meaning, as `type_vocab_size: 0` in DeBERTa."""
    names = (
        "Roberta XLMRoberta Camembert Electra Deberta DebertaV2 DistilBert Albert MPNet NomicBert ModernBert "
        "MegatronBert MobileBert RoFormer ConvBert BertGeneration Nystromformer T5"
    )
    saved(tmp_path)
    for name in names.split():
        config = getattr(transformers, f"{name}Config")()
        config.save_pretrained(tmp_path)
        message = f"model_type: {config.model_type!r} is unsupported; only 'bert' and 'gpt2' are read"
        assert message in fault_of(tmp_path).message.split("\n")[0]


def test_a_kind_of_model_that_only_its_class_tells(tmp_path: Path) -> None:
    path = saved(tmp_path) / "config.json"
    config = json.loads(path.read_text("utf-8"))
    del config["model_type"]
    path.write_text(json.dumps(config), "utf-8")
    assert read_bert(tmp_path).notes == []
    configured(tmp_path, {"architectures": ["RobertaForMaskedLM"], "type_vocab_size": 0})
    with pytest.raises(CheckpointError, match="architectures: 'RobertaForMaskedLM' is unsupported; only BERT is read"):
        read_bert(tmp_path)


NEUTRAL = {
    "auto_map": {},
    "position_biased_input": True,
    "pruned_heads": {},
    "relative_attention": False,
    "quantization_config": None,
    "embedding_size": 8,
    "attention_head_size": 2,
    "num_hidden_groups": 2,
    "position_embedding_type": None,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position_embedding_type": "relative_key_query"}, "position_embedding_type: 'relative_key_query'"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type: 'alibi' is unsupported"),
        ({"embedding_size": 4}, "embedding_size: 4 is unsupported; BERT's is 8"),
        ({"attention_head_size": 8}, "attention_head_size: 8 is unsupported; BERT's is 2"),
        ({"num_key_value_heads": 1}, "num_key_value_heads: 1 is unsupported; BERT's is 4"),
        ({"num_hidden_groups": 1}, "num_hidden_groups: 1 is unsupported; BERT's is 2"),
        ({"inner_group_num": 2}, "inner_group_num: 2 is unsupported"),
        ({"relative_attention": True}, "relative_attention: true is unsupported: BERT has no such option"),
        ({"pos_att_type": "c2p|p2c"}, 'pos_att_type: "c2p|p2c" is unsupported'),
        ({"position_biased_input": False}, "position_biased_input: false is unsupported"),
        ({"pruned_heads": {"1": [0]}}, 'pruned_heads: {"1": [0]} is unsupported'),
        ({"prenorm": True}, "prenorm: true is unsupported"),
        ({"rotary_emb_fraction": 1.0}, "rotary_emb_fraction: 1.0 is unsupported"),
        ({"rope_theta": 1000.0}, "rope_theta: 1000.0 is unsupported"),
        ({"alibi_starting_size": 512}, "alibi_starting_size: 512 is unsupported"),
        ({"auto_map": {"AutoModel": "their.Model"}}, "code of its own, which is not run"),
        ({"quantization_config": {"bits": 8}}, "before it was quantized"),
        ({"hidden_act": "gelu_fast"}, "hidden_act: 'gelu_fast' is unsupported"),
        ({"model_type": 3}, "model_type: 3 is unsupported"),
    ],
)
def test_options_that_make_another_model_of_it(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    configured(saved(tmp_path), NEUTRAL)
    assert read_bert(tmp_path).notes == []
    configured(tmp_path, change)
    fault = fault_of(tmp_path).message
    assert message in fault
    assert len(fault.split("\n")) == 1


def test_keys_that_nobody_knows_are_told_of(tmp_path: Path) -> None:
    usual = {"directionality": "bidi", "pooler_type": "first_token", "use_cache": True, "classifier_dropout": 0.1}
    configured(saved(tmp_path), {**usual, "sliding": 3, "nothing": None})
    assert read_bert(tmp_path).notes == ["keys of config.json that are none of BERT's, and not read: sliding"]


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

    assert fault_of(rewritten(tmp_path, change)).message.split("\n")[1:] == [
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
    fault = fault_of(rewritten(tmp_path, lambda tensors: {**tensors, **more}))
    assert fault.message.split("\n")[1:] == ["crf.start: not known", "pooler.dense.x: not known"]
    assert fault.hint == "model.init_strict=false leaves them there"
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


def test_damaged_files_are_named(empty: Path) -> None:
    folder = saved(empty / "bert")
    weights, config = folder / "model.safetensors", folder / "config.json"
    content = weights.read_bytes()
    for damaged in (content[: len(content) // 2], content[:5], b"", b"no weights at all"):
        weights.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged"):
            read_bert(folder)
    weights.unlink()
    with pytest.raises(CheckpointError, match="there are no weights"):
        read_bert(folder)
    (folder / "tf_model.h5").touch()
    with pytest.raises(CheckpointError, match=r"there are no weights in a form that is read, but tf_model\.h5"):
        read_bert(folder)
    older = folder / "pytorch_model.bin"
    torch.save({"bert.embeddings.LayerNorm.bias": Code()}, older)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: holds something else than tensors"):
        read_bert(folder)
    assert not (empty / "opened").exists()
    for damaged in (content[:100], b"", older.read_bytes()[:90], b"\x80\x02u."):
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
        read_bert(empty)


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
