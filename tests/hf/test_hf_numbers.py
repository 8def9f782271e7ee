"""The same numbers as `transformers`, from the same random weights; sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_berts import Ours, assert_equal, batch, by_transformers, theirs
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.hf import read_bert
from probtrans_cli.models import build
from probtrans_cli.models.outputs import BertWordOutput, SentenceOutput


@pytest.mark.parametrize(
    ("activation", "attention", "kind", "tolerance"),
    [
        ("gelu", "sdpa", torch.float32, 1e-5),
        ("gelu", "eager", torch.float64, 1e-10),
        ("gelu_new", "sdpa", torch.float64, 1e-10),
        ("relu", "eager", torch.float32, 1e-5),
    ],
)
def test_everything_is_as_in_transformers(
    tmp_path: Path, activation: str, attention: str, kind: torch.dtype, tolerance: float
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
        output, pair = BertWordOutput(vocabulary, 768), SentenceOutput(768, 2)
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
    output, pair = BertWordOutput(500, 64, tied=False), SentenceOutput(64, 2, std=0.5)
    assert output.decoder is not None
    for matrix, std in ((output.dense.weight, 0.02), (output.decoder, 0.02), (pair.weight, 0.5)):
        assert float(matrix.detach().std()) == pytest.approx(std, rel=0.2)
    assert not output.dense.bias.any()
    assert not output.bias.any()
    assert not pair.bias.any()
