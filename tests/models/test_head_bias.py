"""Scores of heads by distance, direction and frequency: against loops, in every form, and through a model's words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exact import gap, pair_scores
from small_models import root_scores
from support import Invoke
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.models.base import CUES, Inputs, Wants, Words
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import SentenceOutput
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.head_bias import commonness
from probtrans_cli.models.probabilistic.matrix_tree import tree_marginals
from probtrans_cli.recipe.model.probabilistic import HeadBias
from probtrans_cli.statistics.word_order import standing_alone, word_order
from probtrans_cli.trained.model import Model

BIAS = {"distance": 0.7, "right": 1.3, "frequency": 0.04, "root": 0.2, "rarer": 0.9, "leaning": 0.8, "reducible": 0.5}
BIAS |= {"leaning_head": 0.3, "branching": 0.06, "reducible_far": 0.15, "reducible_side": 0.25, "punctuation": 0.45}
BIAS |= {"frequency_pair": 0.001, "phrase_end": 0.02, "phrase_end_side": 0.03, "phrase_end_next": 0.05, "alone": 0.7}


def encoder_of(**options: Any) -> ProbabilisticEncoder:
    section = {"kind": "probabilistic", "labels": 3, "channels": 2, "iterations": 2, "dropout": 0.0, "distance": 1}
    section |= {"decomposition": {"kind": "none"}, "message_weight": {"heads": 0.6}, "head_bias": BIAS, **options}
    encoder = models.build(section).double()
    assert isinstance(encoder, ProbabilisticEncoder)
    return encoder


def sentence(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    unary = torch.randn(1, n, 3, generator=generator, dtype=torch.float64)
    common = 50 * torch.rand(1, n, 1, generator=generator, dtype=torch.float64)
    order = torch.randn(1, n, 3, generator=generator, dtype=torch.float64)
    mark = (torch.rand(1, n, 1, generator=generator, dtype=torch.float64) < 0.5).double()
    right = torch.full((1, n, 1), 0.3, dtype=torch.float64)
    edge = common + 30 * torch.rand(1, n, 1, generator=generator, dtype=torch.float64)
    alone = torch.full((1, n, 1), -0.8, dtype=torch.float64)
    rare = (torch.rand(1, n, 1, generator=generator, dtype=torch.float64) < 0.7).double()
    cues = torch.cat([common, order[..., :2], right, 20 * order[..., 2:], edge, mark, alone, rare], dim=-1)
    return unary, torch.ones(1, n, dtype=torch.bool), cues


def test_commonness_of_a_vocabulary() -> None:
    table = commonness([9, 2, 1], unread=3)
    nine, two = math.log(9) ** 2, math.log(2) ** 2
    torch.testing.assert_close(table, torch.tensor([0.0, 0.0, (9 * nine + 2 * two) / 12, nine, two, 0.0]))


@pytest.mark.parametrize("heads", ["independent", "tree"])
@pytest.mark.parametrize("root", [None, {"labels": 2}])
@pytest.mark.parametrize("own", [{}, {"right": [1.3, -0.6], "rarer": [0.9, 0.0]}, {"root": [0.2, 0.5]}])
def test_first_heads_are_those_of_the_equation(heads: str, root: dict[str, int] | None, own: dict[str, Any]) -> None:
    """F of the first iteration by loops over words, with the bias inside the division by λ_H; numbers of all channels
    and of each."""
    n, bias = 5, {**BIAS, **own} if root else {**BIAS, **own, "root": 0.0}
    names = ("right", "rarer", "root")
    right, rarer, to_root = (bias[name] if isinstance(bias[name], list) else [bias[name]] * 2 for name in names)
    encoder = encoder_of(heads=heads, root=root, head_bias=bias)
    unary, mask, cues = sentence(n)
    common, leaning, reducible, language, drawn, edge, mark, alone, rare = cues.unbind(-1)
    behind = [*edge[0, 1:], edge.max()]
    q = unary[0].softmax(-1)
    plain = encoder_of(heads=heads, root=root, head_bias=None)
    plain.load_state_dict(encoder.state_dict())
    ternary, at_root = pair_scores(plain, n), root_scores(plain)
    expected = torch.full((2, n, n + 1), -math.inf, dtype=torch.float64)
    for c in range(2):
        for i in range(n):
            for j in range(n):
                if i != j:
                    of_words = right[c] * (j > i) - 0.7 * math.log(abs(i - j)) - 0.04 * common[0, j]
                    of_words += rarer[c] * (common[0, j] < common[0, i])
                    of_words += 0.8 * leaning[0, i] * (j > i) + 0.02 * behind[j]
                    of_words += (0.06 * drawn[0, i] - 0.3 * leaning[0, j] - 0.03 * behind[i]) * (j > i)
                    of_words -= 0.05 * behind[i] * (abs(i - j) == 1) - 0.001 * common[0, i] * common[0, j]
                    of_words -= 0.45 * min(2, sum(mark[0, min(i, j) + 1 : max(i, j)]))
                    if abs(i - j) == 1 and rare[0, i] and rare[0, j]:
                        of_words += 0.7 * alone[0, 0] * (1 if j > i else -1)
                    of_words -= (0.5 + 0.25 * language[0, j] - 0.15 * math.log(abs(i - j))) * reducible[0, j]
                    expected[c, i, j] = (q[i] @ ternary[i, j, c] @ q[j] + of_words) / 0.6
            if at_root is not None:
                of_word = to_root[c] * common[0, i] + 0.5 * reducible[0, i]
                expected[c, i, n] = ((q[i] @ at_root[c]).mean() - of_word) / 0.6
    if heads == "tree":
        scores = expected if root else torch.cat([expected[..., :n], torch.zeros(2, n, 1)], -1)
        found = tree_marginals(scores, mask.expand(2, n))
        found = found if root else found[..., :n]
    else:
        found = expected.softmax(-1) if root else expected[..., :n].softmax(-1)
    torch.testing.assert_close(encoder.arcs_alone(Words(unary, mask, cues=cues), [1])[0, 0], found)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"root": {"labels": 2}},
        {"heads": "tree", "root": {"labels": 2}},
        {"root": {"labels": 2}, "head_bias": {"distance": [0.7, 0.1], "right": [2.0, -2.0], "root": 0.3}},
    ],
)
def test_forms_and_batches_agree(options: dict[str, Any]) -> None:
    """Plain and fast, alone and padded, with and without arcs; what stands at padding has no say."""
    options = options if "root" in options else {**options, "head_bias": BIAS | {"root": 0.0}}
    encoder = encoder_of(distance=2, **options)
    long, short = sentence(7), sentence(4, seed=1)
    unary = torch.cat([long[0], torch.nn.functional.pad(short[0], (0, 0, 0, 3), value=torch.nan)])
    cues = torch.cat([long[2], torch.nn.functional.pad(short[2], (0, 0, 0, 3), value=1e6)])
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    together = encoder(Words(unary, mask, cues=cues), arcs=True)
    assert together.arcs is not None
    for row, (one, its_mask, its_cues) in enumerate([long, short]):
        alone = encoder(Words(one, its_mask, cues=its_cues))
        n = one.shape[1]
        torch.testing.assert_close(together.states[row, :n], alone.states[0])
    encoder.messages = "plain"
    plain = encoder(Words(unary, mask, cues=cues), arcs=True)
    torch.testing.assert_close(plain.states, together.states)
    torch.testing.assert_close(plain.arcs, together.arcs)
    at = torch.zeros_like(mask)
    at[0, 3] = True
    torch.testing.assert_close(encoder(Words(unary, mask, cues=cues), at=at).states[at], plain.states[at])


@pytest.mark.parametrize(("n", "own"), [(4, {}), (3, {"right": [1.3, -0.6]})])
def test_energy_and_log_partition_have_it(n: int, own: dict[str, Any]) -> None:
    """Mean field is exact where labels and heads have nothing to do with each other, otherwise a lower bound."""
    section = HeadBias.model_validate({**BIAS, "root": 0.0, **own})
    channels = 2 if own else 1
    encoder = encoder_of(channels=channels, iterations=20, message_weight={"heads": 1.0}, head_bias=section)
    unary = sentence(n)[0][0]
    assert gap(encoder, unary).log_partition > 0.0
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    found = gap(encoder, unary)
    assert found.log_partition == pytest.approx(0.0, abs=1e-12)
    assert found.heads == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("overrides", "key", "message"),
    [
        (
            ["model.head_bias={distance: .inf}"],
            "model.head_bias.distance",
            "Input should be a valid number or a valid list, found `.inf`",
        ),
        (["model.head_bias={root: 0.1}"], "model.head_bias.root", "the model has no root node"),
        (["model.head_bias={root: [0, 0, 0, 0, 0, 0.1]}"], "model.head_bias.root", "the model has no root node"),
        (
            ["model.head_bias={right: [1, 2]}"],
            "model.head_bias.right",
            "2 numbers for 6 channels: give one for each, or one for all",
        ),
        (
            ["model.head_bias={}", "data.vocabulary={kind: sentencepiece, size: 50}"],
            "model.head_bias",
            "it counts words: data.vocabulary.kind is sentencepiece",
        ),
        (
            ["model.head_bias={}", "data.vocabulary={kind: char}"],
            "model.head_bias",
            "it counts words: data.vocabulary.kind is char",
        ),
    ],
)
def test_what_does_not_go_together_is_named(
    overrides: list[str], key: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = invoke("train", "quickstart", *overrides, "--print")
    assert ran.code == 2
    assert f"{key}: {message}" in ran.err.replace("\n", " "), ran.err


def test_a_model_keeps_what_its_text_says_of_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """How common words are, how they and their language lean, what is punctuation, who stands alone: read off the
    training file and stored in the checkpoint. A model that starts from another reads its own file."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "first": "the dog saw the old cat .\nthe cat , a dog\n" * 4 + "a bird\n",
        "second": "the cat the cat , the\n" * 4,
    }
    small = ["model.labels=4", "model.channels=1", "model.root={labels: 2}", "model.heads=tree", "train.epochs=1"]
    small += ["data.format=text", "data.vocabulary.min_count=2", "runtime.threads=1", "model.iterations=1"]
    bias = "leaning: 1, reducible: [0.5], leaning_head: 0.1, branching: 0.5, phrase_end: 0.2, punctuation: [0.4]"
    bias = f"model.head_bias={{{bias}, alone: [1.5], distance: 1, frequency: 9, root: 99}}"
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
        start = ["--init-from", "first"] if name == "second" else []
        data = [f"data.train={name}.txt", f"data.dev={name}.txt"]
        ran = invoke("train", "quickstart", "--run", name, *data, *small, bias, *start)
        assert ran.code == 0, ran.err
        assert "left there" not in ran.err
        model = Model.load(name)
        vocabulary, order, common = model.vocabulary, model.network.order, model.network.common
        assert order is not None
        assert common is not None
        assert order.shape[1] == CUES - 1
        lines = [vocabulary.encode_words(line.split()).ids for line in text.splitlines()]
        ids = np.concatenate(lines)
        mark = np.array([vocabulary.decode(id) in (",", ".") for id in range(vocabulary.size)])
        expected = word_order(ids, np.array([*map(len, lines)]), mark, vocabulary.UNKNOWN)
        assert np.abs(expected).max() > 0.5
        torch.testing.assert_close(order[:, :2].double(), torch.from_numpy(expected), atol=1e-5, rtol=1e-5)
        rare, alone = standing_alone(ids, np.array([*map(len, lines)]), mark, vocabulary.UNKNOWN)
        assert order[:, 7].tolist() == rare.tolist()
        assert order[:, 6].tolist() == pytest.approx([alone] * len(order))
        words = [id for id in ids.tolist() if not mark[id]]
        right, mean = order[words, 0].mean().clamp(0, 1).item(), common[words].mean().item()
        assert (right > 0) == (name == "first")
        for id in set(words):
            drawn = right * (common[id].item() - mean)
            assert order[id, 2:6].tolist() == pytest.approx([right, drawn, common[id].item(), 0.0], rel=1e-5)
        comma, the = (vocabulary.encode_words([word]).ids[0] for word in (",", "the"))
        assert order[comma, :6].tolist() == pytest.approx([0.0, 0.0, right, 0.0, common[the].item(), 1.0], rel=1e-5)
    model = Model.load("first")
    counts = {"the": 12, "dog": 8, "cat": 8, "saw": 4, "old": 4, "a": 5, ".": 4, ",": 4}
    for word, count in counts.items():
        (id,) = model.vocabulary.encode_words([word]).ids
        assert model.network.common[id].item() == pytest.approx(math.log(count) ** 2)
    squares = sum(count * math.log(count) ** 2 for count in counts.values())
    assert model.network.common[model.vocabulary.MASK].item() == pytest.approx(squares / 49)
    ran = invoke("parse", "first", "first.txt", "-f", "conllu", "--decode", "mst")
    heads = [line.split("\t")[6] for line in ran.out.split("\n\n")[1].splitlines() if not line.startswith("#")]
    assert heads[2] == "0"  # the comma, the rarest word, by weights this large
    ran = invoke("export", "first", "hf", "--format", "hf")
    assert ran.code == 2
    assert "not expressible in transformers: model.head_bias" in ran.err
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("heads", ["independent", "tree"])
def test_root_node_and_cls_are_one_root(heads: str) -> None:
    """What goes to either is an arc to the root: a word's probabilities sum to 1."""
    encoder = encoder_of(heads=heads, root={"labels": 2}).float()
    network = Network(9, encoder, lambda one: SentenceOutput(one.facts.width, 2), common=torch.arange(9.0)).eval()
    ids, mask = torch.tensor([[3, 4, 5]]), torch.ones(1, 3, dtype=torch.bool)
    arcs = network(Inputs(ids=ids, mask=mask), Wants(arcs=[2])).arcs
    assert arcs.shape[-1] == 4
    torch.testing.assert_close(arcs.sum(-1), torch.ones(1, 1, 2, 3))
    assert (arcs.diagonal(dim1=-2, dim2=-1) == 0).all()
