"""Folders that we write are opened by `transformers`, with the same numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_berts import Ours, assert_same, batch, configured, random_bert, saved, states_of, transformers
from small_models import DECOMPOSITIONS, GLOBALS
from small_models import name as shown

from probtrans_cli import hf
from probtrans_cli.errors import UsageError
from probtrans_cli.hf import bert_of, read_bert, write_bert
from probtrans_cli.hf.write import PARTS, Architecture
from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.recipe.model import ProbabilisticTransformer

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


@pytest.mark.parametrize(("options", "architecture"), list(zip(EXPRESSIBLE, [*PARTS, *PARTS], strict=True)), ids=str)
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


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertForTokenClassification"])
def test_reading_writing_reading_changes_nothing(tmp_path: Path, kind: str) -> None:
    saved(tmp_path / "first", kind, id2label={0: "x", 1: "y", 2: "z"}, layer_norm_eps=1e-7)
    path = configured(tmp_path / "first", {"a key of others": {"deep": [1, None]}, "torch_dtype": "float32"})
    first = read_bert(tmp_path / "first")
    write_bert(first, tmp_path / "second")
    second = read_bert(tmp_path / "second")
    assert_same(first, second)
    assert (second.section, second.config) == (first.section, first.config)
    assert second.config == json.loads(path.read_text("utf-8"))
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
    expected = encoder(Words(table[ids], ids != 0), arcs=True)
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
