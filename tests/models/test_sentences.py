"""What stands for a sentence: the root, a word `<cls>` in front, or the mean of the words; and arcs beside `<cls>`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_tasks import encode, linear, randomized, sentence_scores
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.models.base import Inputs, Outputs, Wants, Words
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput, Sentence
from probtrans_cli.trees import decode

VOCABULARY, OUTPUTS = 20, 3
PROBABILISTIC: dict[str, Any] = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0}
ROOTED = PROBABILISTIC | {"root": {"labels": 4}}
TRANSFORMER = {"kind": "transformer", "width": 8, "inner": 12, "heads": 2, "layers": 2, "dropout": 0.0}
MODELS: dict[str, tuple[dict[str, Any], Sentence]] = {
    "root": (ROOTED, "root"),
    "cls": (PROBABILISTIC, "cls"),
    "cls-probabilities": (PROBABILISTIC | {"output": "probabilities"}, "cls"),
    "cls-tree": (PROBABILISTIC | {"heads": "tree"}, "cls"),
    "cls-beside-a-root": (ROOTED, "cls"),
    "cls-globals": (PROBABILISTIC | {"globals": {"kind": "all-dep", "features": 3}}, "cls"),
    "mean": (PROBABILISTIC, "mean"),
    "mean-beside-a-root": (ROOTED, "mean"),
    "transformer-cls": (TRANSFORMER, "cls"),
    "transformer-pooler": (TRANSFORMER | {"pooler": True}, "cls"),
    "transformer-relative": (TRANSFORMER | {"positions": {"kind": "relative", "clip": 2}}, "cls"),
    "transformer-mean": (TRANSFORMER | {"pooler": True}, "mean"),
}
WITH_START = [name for name, (_, sentence) in MODELS.items() if sentence == "cls"]


def network(name: str) -> Network:
    section, sentence = MODELS[name]
    torch.manual_seed(0)
    return randomized(Network(VOCABULARY, models.build(section), linear(OUTPUTS, sentence)))


def batch(*lengths: int) -> tuple[Tensor, Tensor]:
    """Random words and their mask; ids on padding are no zeros."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    return ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("name", MODELS)
def test_a_sentence_is_what_its_definition_says(name: str) -> None:
    """By one sentence at a time, its vectors put together by hand."""
    made, (ids, mask) = network(name), batch(5, 1, 3)
    found = sentence_scores(made, ids, mask)
    for b, n in enumerate(mask.sum(1).tolist()):
        words = made.unary.weight[ids[b, :n]]
        if made.sentence == "cls":
            words = torch.cat([made.start, words])
        encoded = made.encoder(Words(words[None], torch.ones(1, len(words), dtype=torch.bool)))
        vector: Tensor | None = encoded.sentence[0] if made.sentence == "root" else encoded.states[0, 0]
        if made.sentence == "mean":
            vector = torch.stack([encoded.states[0, i] for i in range(n)]).sum(0) / n
        elif name == "transformer-pooler":
            vector = torch.tanh(made.encoder.pooler.weight @ encoded.states[0, 0] + made.encoder.pooler.bias)
        torch.testing.assert_close(found[b], made.output(vector), rtol=1e-9, atol=1e-11)


def test_a_sentence_that_was_not_asked_for_is_not_answered() -> None:
    """Else the mean would be that of the words alone whose states were needed."""
    made, (ids, mask) = network("mean"), batch(6, 2)
    made.output = LinearOutput(made.encoder.facts.width, OUTPUTS).double()
    found: Outputs = made(Inputs(ids=ids, mask=mask), Wants(words=mask & (ids == ids[0, 0])))
    assert found.scores["words"].shape[1] == OUTPUTS
    assert found.sentence is None


@pytest.mark.parametrize("name", WITH_START)
def test_rows_of_arcs_are_words_and_columns_words_then_the_start(name: str) -> None:
    """Against the encoder itself, which has `<cls>` as its first word; a root node beside it is the same root."""
    made, (ids, mask) = network(name), batch(5, 1, 3)
    n = mask.shape[1]
    unary = torch.cat([made.start.expand(3, 1, -1), made.unary(ids)], dim=1)
    beside = made.encoder(Words(unary, torch.cat([torch.ones(3, 1, dtype=torch.bool), mask], dim=1)), arcs=True).arcs
    found = encode(made, ids, mask, arcs=True).arcs
    node = name == "cls-beside-a-root"
    others = beside.shape[-1] - n - 1 - node
    assert found.shape == (3, 2, 2, n, n + 1 + others)
    for b, length in enumerate(mask.sum(1).tolist()):
        for i in range(length):
            row, wanted = found[b, :, :, i], beside[b, :, :, i + 1]
            if name != "cls-tree":  # there one word of the tree, maybe this one, has no head
                torch.testing.assert_close(row.sum(-1), torch.ones(2, 2, dtype=torch.float64))
            for j in range(n):
                torch.testing.assert_close(row[..., j], wanted[..., j + 1])
                assert j < length or not row[..., j].any()
            root = wanted[..., 0] + wanted[..., n + 1] if node else wanted[..., 0]
            torch.testing.assert_close(row[..., n], root)
            assert bool((row[..., n] > 0).all())
            for k in range(others):
                torch.testing.assert_close(row[..., n + 1 + k], wanted[..., n + 1 + node + k])
        assert not found[b, :, :, length:, :n].any()
    heads = decode.decode(decode.arc_scores(found.detach().numpy(), "mean", -1), mask.numpy(), "eisner")
    assert [sorted(row[real].tolist()).count(0) for row, real in zip(heads, mask.numpy(), strict=True)] == [1, 1, 1]


def test_the_start_takes_one_position() -> None:
    encoder = models.build(TRANSFORMER | {"positions": {"kind": "absolute", "rows": 4}})
    sentences: list[Sentence | None] = [None, "mean", "cls"]

    def of(sentence: Sentence | None) -> Network:
        layer = linear(OUTPUTS)(encoder)
        layer.sentence = sentence
        return Network(VOCABULARY, encoder, lambda _: layer)

    made = [of(sentence) for sentence in sentences]
    assert [one.longest for one in made] == [4, 4, 3]
    assert network("cls").longest is None
    assert network("transformer-cls").parameter_counts()["start"] == 8
    assert "start" not in network("transformer-mean").parameter_counts()


def test_a_mean_of_no_words_is_a_number() -> None:
    made, (ids, mask) = network("mean"), batch(3, 2)
    mask[1] = False
    assert bool(sentence_scores(made, ids, mask).isfinite().all())
