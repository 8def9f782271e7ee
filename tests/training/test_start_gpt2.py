"""Starting from a GPT-2 of Hugging Face's: one that `transformers` drew, and one that was exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_starts import Says, loaded, train

from probtrans_cli.__main__ import run
from probtrans_cli.errors import CheckpointError
from probtrans_cli.hf import read_gpt2
from probtrans_cli.models.base import Inputs, Readout, Wants
from probtrans_cli.trained.model import Model

transformers = pytest.importorskip("transformers")

LM = ("task={kind: lm, word_bias: false, start_at_frequencies: false}", "optim.lr=1.0e-12")
GPT2 = "model={kind: transformer, from: gpt2}"
WORDS = "data.vocabulary.kind=words"


def drawn(rows: int, **options: Any) -> Any:
    """A random GPT-2 of theirs in the folder `gpt2`, without a vocabulary."""
    torch.manual_seed(0)
    sizes = {"n_positions": 64, "n_embd": 8, "n_layer": 2, "n_head": 2, "bos_token_id": None, "eos_token_id": None}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=rows, **sizes, **options)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    theirs.save_pretrained("gpt2")
    return theirs


@torch.no_grad()
def logits(model: Model, ids: torch.Tensor) -> torch.Tensor:
    """Scores of the words behind each word."""
    mask = torch.ones_like(ids, dtype=torch.bool)
    scores = model.network(Inputs(ids=ids, mask=mask), Wants(tokens=mask, readout=Readout())).scores["words"]
    return scores.view(*ids.shape, -1)[:, 1:]


def changed(**options: Any) -> Path:
    """The folder with other options in its config.json."""
    path = Path("gpt2/config.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | options), "utf-8")
    return path.parent


@pytest.mark.parametrize("options", [{}, {"n_inner": 12, "activation_function": "relu", "layer_norm_epsilon": 1e-3}])
def test_a_gpt2_of_theirs_is_continued(options: dict[str, Any], place: Path, says: Says) -> None:
    """Of the same number of words, as there is no vocabulary beside it."""
    assert train(*LM, "model={kind: transformer, preset: gpt2, width: 8, heads: 2, layers: 1}", WORDS, name="own") == 0
    theirs = drawn(loaded("own").vocabulary.size, **options)
    message = says(0, *LM, GPT2, WORDS)
    assert "there is no vocabulary beside it: taken to be this model's" in message
    assert "not there, drawn at random: encoder.first\n" in message
    model, ids = loaded(), torch.randint(3, 20, (3, 9))
    expected, scores = theirs(ids).logits[:, :-1], logits(model, ids)
    possible = scores.isfinite()
    assert possible.sum() == scores.numel() - 2 * 3 * 8, "but for padding and <mask>"
    torch.testing.assert_close(scores[possible], expected[possible], rtol=0, atol=1e-5)
    assert run(["export", "runs/run", "back", "--format", "hf"]) == 0
    before, after = load_file("gpt2/model.safetensors"), load_file("back/model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], atol=1e-5) for name in before)


def test_an_export_is_continued_with_its_words(place: Path, says: Says) -> None:
    """As it was, and in another corpus by the words' spelling."""
    sizes = "width: 8, heads: 2, inner: 12, layers: 2, positions: {kind: absolute, rows: 64}"
    first = f"model={{kind: transformer, preset: gpt2, {sizes}}}"
    assert train(LM[0], "optim.lr=0.05", first, "data.vocabulary={kind: words, lowercase: true}", name="first") == 0
    assert run(["export", "runs/first", "gpt2", "--format", "hf"]) == 0
    message = says(0, *LM, GPT2, "data.select.sentences=2")
    assert "entries of the vocabulary are new" not in message
    model, source = loaded(), loaded("first")
    assert model.vocabulary.counts == source.vocabulary.counts
    ids = torch.randint(3, 20, (2, 6))
    torch.testing.assert_close(logits(model, ids), logits(source, ids), rtol=0, atol=1e-5)
    message = says(0, LM[0], GPT2, "data.vocabulary={kind: words, min_count: 2}", "optim.lr=1.0e-12", name="few")
    few = loaded("few")
    assert few.vocabulary.size < source.vocabulary.size
    row, theirs = (list(it.vocabulary.encode_words(["farmers"]).ids) for it in (few, source))
    torch.testing.assert_close(few.network.unary.weight[row], source.network.unary.weight[theirs], rtol=0, atol=1e-5)
    other = "model={kind: transformer, width: 8, heads: 2, inner: 12, layers: 2, causal: true}"
    message = says(4, LM[0], other, "--init-from", "gpt2", name="other")
    assert "model.norm: post, there pre" in message
    assert "model.bias=all" in message
    Path("gpt2/vocabulary.json").unlink()
    assert "put vocabulary.json of the folder that `export --format hf` wrote beside the weights" in says(
        4, *LM, GPT2, WORDS, name="none"
    )
    both = "model={kind: transformer, from: gpt2, norm: post}"
    assert "found post, but config.json of `model.from: gpt2` says pre" in says(2, *LM, both, WORDS, name="none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale_attn_weights": False}, "scale_attn_weights: false is unsupported"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx: true is unsupported"),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn: true is unsupported"),
        ({"add_cross_attention": True}, "add_cross_attention: true is unsupported"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: false is unsupported"),
        ({"activation_function": "silu"}, "activation_function: 'silu' is unsupported; it is one of gelu, "),
        ({"n_head": 3}, "n_embd: 8 is not a multiple of n_head 3"),
        ({"n_embd": "8"}, 'n_embd: Input should be a valid integer, found "8"'),
        ({"n_inner": 12}, "h.0.mlp.c_fc.weight: has shape [8, 32], wanted [8, 12]"),
        ({"auto_map": {"AutoModel": "their.Model"}}, "code of its own, which is not run"),
        ({"model_type": "gptj"}, "model_type: 'gptj' is unsupported; only 'bert' and 'gpt2' are read"),
    ],
)
def test_what_is_no_gpt2_of_ours_is_refused_by_its_name(options: dict[str, Any], message: str, place: Path) -> None:
    drawn(11)
    assert read_gpt2(Path("gpt2")).notes[:-1] == []
    with pytest.raises(CheckpointError) as caught:
        read_gpt2(changed(**options))
    assert message in caught.value.message


def test_tensors_and_words_that_are_not_read(place: Path, says: Says) -> None:
    drawn(11)
    weights = Path("gpt2/model.safetensors")
    tensors = load_file(weights)
    old = {
        "transformer.h.0.attn.bias": torch.ones(1, 1, 4, 4),
        "lm_head.weight": tensors["transformer.wte.weight"].clone(),
    }
    save_file({**tensors, **old}, weights, {"format": "pt"})
    assert read_gpt2(Path("gpt2")).unexpected == []
    save_file({key.removeprefix("transformer."): value for key, value in tensors.items()}, weights)
    assert read_gpt2(Path("gpt2")).unexpected == []
    for name, message in (("lm_head.weight", "is not transformer.wte.weight"), ("score.weight", "not known")):
        save_file({**tensors, name: torch.ones(11, 8)}, weights)
        with pytest.raises(CheckpointError, match=message):
            read_gpt2(Path("gpt2"))
    save_file(tensors, weights)
    Path("gpt2/merges.txt").write_text("#version: 0.2\n", "utf-8")
    message = says(4, *LM, GPT2, WORDS)
    assert "of a GPT-2 merges.txt is not read" in message
    assert "byte-level BPE, are no data.vocabulary.kind" in message
