"""Checkpoints whose checksums are right and whose content is not: each is refused with the file's name."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import Invoke, interrupted, refused, workplace

from probtrans_cli import load
from probtrans_cli.errors import CheckpointError


def without(key: str) -> Callable[[Any], Any]:
    return lambda content: {name: value for name, value in content.items() if name != key}


def with_(**changed: Any) -> Callable[[Any], Any]:
    return lambda content: content | changed


def with_option(**changed: Any) -> Callable[[Any], Any]:
    return lambda content: content | {"options": content["options"] | changed}


def with_first(key: str, value: Any) -> Callable[[Any], Any]:
    return lambda content: content | {key: [value, *content[key][1:]]}


def nested(depth: int) -> Any:
    return lambda _: "[" * depth + "]" * depth


CASES: list[tuple[str, str, Callable[[Any], Any], str]] = [
    ("a list", "config.json", lambda _: [], "config.json"),
    ("a number", "config.json", lambda _: 7, "config.json"),
    ("deep", "config.json", nested(100_000), "config.json"),
    ("no JSON", "config.json", lambda _: "{", "config.json"),
    ("no step", "config.json", without("step"), "config.json: step"),
    ("a step before the first", "config.json", with_(step=-1), "config.json: step"),
    ("a step in words", "config.json", with_(step="ten"), "config.json: step"),
    ("no trees", "config.json", without("trees"), "config.json: trees"),
    ("trees of nothing", "config.json", with_(trees={}), "config.json: trees.channel"),
    ("another channel", "config.json", with_(trees={"channel": 99, "iteration": 1, "decoder": "mst"}), "channel '99'"),
    ("another iteration", "config.json", with_(trees={"channel": 0, "iteration": 0, "decoder": "mst"}), "iteration 0"),
    ("another decoder", "config.json", with_(trees={"channel": 0, "iteration": 1, "decoder": "x"}), "trees.decoder"),
    (
        "one key more", "config.json",
        with_(trees={"channel": 0, "iteration": 1, "decoder": "mst", "more": 1}), "config.json: trees.more",
    ),
    ("a temperature of nothing", "config.json", with_(temperature=0.0), "config.json: temperature"),
    ("a temperature in words", "config.json", with_(temperature="hot"), "config.json: temperature"),
    ("another format", "config.json", with_(format=2), "format 2, this probtrans reads 1"),
    ("a number", "labels.json", lambda _: 3, "labels.json"),
    ("labels that are numbers", "labels.json", lambda _: {"upos": [1], "xpos": [2]}, "labels.json: upos"),
    ("no column", "labels.json", without("xpos"), "labels.json: has no labels of xpos"),
    ("a list", "vocabulary.json", lambda _: [], "vocabulary.json"),
    ("a negative count", "vocabulary.json", with_first("counts", -1), "vocabulary.json: damaged"),
    ("a word that is none", "vocabulary.json", with_first("words", 7), "words.0"),
    ("a case in words", "vocabulary.json", with_option(lowercase=[]), "options.lowercase"),
    ("one option more", "vocabulary.json", with_option(more=1), "options.more"),
    ("enclosed in words", "vocabulary.json", with_(enclosed="x"), "damaged vocabulary (enclosed"),
    ("fewer counts", "vocabulary.json", with_(counts=[1]), "vocabulary.json"),
    ("deep", "vocabulary.json", nested(100_000), "vocabulary.json"),
]  # fmt: skip


def signed(folder: Path) -> None:
    """Write the checksums of a checkpoint again."""
    lines = (folder / "SHA256SUMS").read_text("utf-8").splitlines()
    names = [line.split("  ", 1)[1] for line in lines]
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums), "utf-8")


@pytest.fixture
def best(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return Path(shutil.copytree(trained / "runs/tagger/checkpoints/best", tmp_path / "best"))


def test_content_that_is_not_ours_is_refused(best: Path, invoke: Invoke) -> None:
    for number, (_, name, change, words) in enumerate(CASES):
        before = (best / name).read_text("utf-8")
        content = change(json.loads(before))
        (best / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        signed(best)
        refused(invoke(("parse", "eval")[number % 2], str(best), "dev.conllu"), 4, words)
        (best / name).write_text(before, "utf-8")


@pytest.mark.parametrize(
    ("kind", "name"), [("sentencepiece, size: 120", "spm.model"), ("wordpiece, size: 120", "vocab.txt")]
)
def test_a_damaged_vocabulary_is_refused(
    kind: str, name: str, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    assert invoke("train", "tiny.yaml", f"data.vocabulary={{kind: {kind}}}", "train.epochs=1").code == 0
    best = Path("runs/tiny/checkpoints/best").resolve()
    good = (best / name).read_bytes()
    for bad in (b"", good.replace(b"k", b"\xff"), good.replace(b"e", b"\xc3")):
        (best / name).write_bytes(bad)
        signed(best)
        refused(invoke("parse", "runs/tiny", "dev.conllu"), 4, name)


def test_a_folder_in_the_place_of_a_file_is_refused(best: Path) -> None:
    for name in ("config.json", "recipe.yaml", "vocabulary.json", "model.safetensors", "SHA256SUMS"):
        (best / name).rename(best.parent / name)
        (best / name).mkdir()
        with pytest.raises(CheckpointError, match=name):
            load(str(best))
        (best / name).rmdir()
        (best.parent / name).rename(best / name)


def test_an_export_of_scores_that_are_not_ours_is_refused(best: Path, invoke: Invoke) -> None:
    for text in ("", "[]", "[" * 100_000):
        (best / "eval.json").write_text(text, "utf-8")
        signed(best)
        refused(invoke("export", str(best), str(best.parent / "out")), 4, "eval.json")
        assert not (best.parent / "out").exists()


def test_weights_that_are_not_finite_are_refused(best: Path, invoke: Invoke) -> None:
    weights = load_file(best / "model.safetensors")
    weights["unary.weight"] = torch.full_like(weights["unary.weight"], float("nan"))
    save_file(weights, best / "model.safetensors")
    signed(best)
    refused(
        invoke("parse", str(best), "dev.conllu"), 4, "model.safetensors: unary.weight has values that are not finite"
    )


Tensors = dict[str, torch.Tensor]
ALTERED: dict[str, tuple[str, Callable[[Tensors], Tensors], str]] = {
    "a name": ("training/optimizer", lambda it: it | {"x": it["0.step"]}, "'x' is not of this model's optimizer"),
    "a number": ("training/optimizer", lambda it: it | {"99.step": it["0.step"]}, "'99.step' is not of"),
    "a quantity less": ("training/optimizer", lambda it: {k: v for k, v in it.items() if k != "0.step"}, "'0.exp_avg"),
    "a quantity more": ("training/optimizer", lambda it: it | {"0.more": it["0.step"]}, "'0.more' is not of"),
    "a shape": ("training/optimizer", lambda it: it | {"0.exp_avg": torch.zeros(3)}, "'0.exp_avg' is not of"),
    "whole numbers": ("training/optimizer", lambda it: it | {"0.step": torch.tensor(1)}, "'0.step' is not of"),
    "no tensors": ("model", lambda it: {}, "the weights do not fit the recipe"),
    "not finite": ("model", lambda it: {name: value / 0.0 for name, value in it.items()}, "not finite"),
    "other numbers": ("model", lambda it: {k: v.to(torch.float8_e4m3fn) for k, v in it.items()}, "float8_e4m3fn"),
    "complex numbers": ("model", lambda it: {k: v.to(torch.complex64) for k, v in it.items()}, "complex64"),
}


def test_tensors_and_states_that_are_not_ours_are_not_resumed(
    trained: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    first = interrupted(Path("runs/tiny"))
    for name, change, words in ALTERED.values():
        path = first / f"{name}.safetensors"
        before = path.read_bytes()
        save_file({key: value.clone() for key, value in change(load_file(path)).items()}, path)
        signed(first)
        refused(invoke("train", "runs/tiny", "--resume"), 4, f"{name}.safetensors: ", words)
        path.write_bytes(before)
    last = Path("runs/tagger/checkpoints/last").resolve()
    for text in ('{"step": NaN}', '{"step": "one"}', "[]", '{"seconds": NaN}', '{"best": Infinity}'):
        (last / "training/state.json").write_text(text, "utf-8")
        signed(last)
        refused(invoke("train", "runs/tagger", "--resume"), 4, "state.json")
