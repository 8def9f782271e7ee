"""Names of tensors with something in front: left out where the meaning is clear, else told of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_berts import assert_same, fault_of, rewritten, saved
from torch import Tensor

from probtrans_cli.errors import CheckpointError
from probtrans_cli.hf import read_bert

FIRST = "embeddings.word_embeddings.weight"


def renamed(folder: Path, change: Callable[[str], str]) -> Path:
    return rewritten(folder, lambda tensors: {change(name): value for name, value in tensors.items()})


def swapped(old: str, new: str) -> Callable[[str], str]:
    return lambda name: new + name.removeprefix(old) if name.startswith(old) else name


def added(prefix: str) -> Callable[[str], str]:
    return lambda name: prefix + name


OFTEN = ("module.", "model.")
EVERY = (*OFTEN, "_orig_mod.", "_orig_mod.module.", "module._orig_mod.model.", "model._orig_mod.", "net.")
PREFIXES = [
    *(("BertModel", added(prefix), f"'{prefix}'") for prefix in EVERY),
    *(
        (kind, added(prefix), f"'{prefix}bert.'")
        for kind in ("BertForPreTraining", "BertForTokenClassification")
        for prefix in OFTEN
    ),
    ("BertModel", added("bert.bert."), "'bert.bert.'"),
    ("BertModel", added("encoder."), "'encoder.'"),
    ("BertModel", added("0.auto_model."), "'0.auto_model.'"),
    ("BertForTokenClassification", swapped("bert.", "model."), "'model.'"),  # the output layer beside it
    ("BertForTokenClassification", swapped("bert.", "encoder."), "'encoder.'"),
    ("BertForTokenClassification", swapped("bert.", "model.bert."), "'model.bert.'"),
    ("BertForPreTraining", swapped("bert.", "bert._orig_mod."), "'bert._orig_mod.'"),
    ("BertForMaskedLM", lambda name: f"model.{swapped('bert.', '_orig_mod.bert.')(name)}", "'model._orig_mod.bert.'"),
    ("BertModel", lambda name: f"module.{name.replace('LayerNorm.weight', 'LayerNorm.gamma')}", "'module.'"),
]


@pytest.mark.parametrize(
    ("kind", "change", "note"),
    [
        *((kind, change, f"the names there begin with {prefix}: left out") for kind, change, prefix in PREFIXES),
        ("BertModel", added("bert."), None),
        (
            "BertForMaskedLM",
            lambda name: name.replace("layer.1.", "layer.1._orig_mod."),
            "'_orig_mod' stands within names: left out",
        ),
    ],
)
def test_what_stands_in_front_of_names_is_left_out(
    tmp_path: Path, kind: str, change: Callable[[str], str], note: str | None
) -> None:
    plain = read_bert(saved(tmp_path, kind))
    bert = read_bert(renamed(tmp_path, change))
    assert_same(plain, bert)
    assert bert.notes == ([] if note is None else [note])
    assert bert.unexpected == []


def test_what_stands_beside_is_not_known(tmp_path: Path) -> None:
    saved(tmp_path, "BertModel")

    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        more = {"model.crf.start": torch.zeros(3), "loss.weight": torch.zeros(1)}
        return {f"model.bert.{name}": value for name, value in tensors.items()} | more

    fault = fault_of(rewritten(tmp_path, change))
    assert "(the names there begin with 'model.bert.')" in fault.message
    assert fault.message.split("\n")[1:] == ["crf.start: not known", "loss.weight: not known"]
    assert read_bert(tmp_path, strict=False).unexpected == ["crf.start", "loss.weight"]


def test_missing_tensors_and_the_prefix_are_named(tmp_path: Path) -> None:
    saved(tmp_path, "BertModel")

    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        del tensors["embeddings.LayerNorm.bias"]
        named = {f"module.bert.{name}": value for name, value in tensors.items()}
        named["other.encoder.layer.0.output.dense.bias"] = named.pop("module.bert.encoder.layer.0.output.dense.bias")
        return named

    first, *lines = fault_of(rewritten(tmp_path, change)).message.split("\n")
    assert "the names there begin with 'module.bert.'" in first
    there = "other.encoder.layer.0.output.dense.bias"
    assert lines == [
        "embeddings.LayerNorm.bias: missing",
        f"encoder.layer.0.output.dense.bias: missing (there is {there})",
        f"{there}: not known",
    ]


def test_names_that_are_none_of_berts(tmp_path: Path) -> None:
    fault = fault_of(renamed(saved(tmp_path, "BertModel"), lambda name: f"transformer.{name.replace('.', '_')}"))
    assert "no tensor has a name of BERT's: the names there begin with 'transformer.' (39)" in fault.message
    assert f"missing: {FIRST}, " in fault.message
    assert f"bert.{FIRST}" in str(fault.hint)


def test_two_encoders_are_not_guessed_at(tmp_path: Path) -> None:
    saved(tmp_path, "BertModel")

    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {f"{one}bert.{name}": it.clone() for name, it in tensors.items() for one in ("", "teacher.")}

    with pytest.raises(CheckpointError, match=r"more than one encoder, under 'bert\.' and 'teacher\.bert\.'"):
        read_bert(rewritten(tmp_path, change))
    bert = read_bert(tmp_path, strict=False)
    assert len(bert.unexpected) == 39
    assert bert.unexpected[0].startswith("teacher.bert.")


def test_two_encoders_of_unusual_names(tmp_path: Path) -> None:
    saved(tmp_path, "BertModel")
    rewritten(
        tmp_path,
        lambda tensors: {f"{one}.{name}": it.clone() for name, it in tensors.items() for one in ("question", "text")},
    )
    for strict in (True, False):
        with pytest.raises(CheckpointError, match=r"more than one encoder, under '(text|question)\.'") as caught:
            read_bert(tmp_path, strict=strict)
        assert "a folder of its own" in str(caught.value.hint)
