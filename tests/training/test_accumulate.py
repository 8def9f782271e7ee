"""An update of several batches has the gradients of one batch that is their union, for every task."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import torch
from support import COGS, sentences, workplace
from torch import Tensor

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.training.loop import Trainer

RECIPE = """\
version: 1
name: sums
seed: 3
data: {train: train.conllu}
task: {kind: tagging}
model: {labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}, dropout: 0.0}
optim: {lr: 0.01, schedule: {kind: constant}}
train: {epochs: 1, batch_words: 60}
runtime: {device: cpu, threads: 1}
"""
BERT = (
    "model={kind: transformer, preset: bert, width: 16, heads: 2, inner: 24, layers: 2, std: 0.2, dropout: 0.0, "
    "embedding_dropout: 0.0}"
)
DOCUMENTS = ("data={train: documents.txt, format: documents, documents: {max_length: 32}}", BERT)
KEPT = "mlm: {dynamic: false}"  # masks that do not depend on the batch
PRETRAIN = f"task={{kind: pretrain, {KEPT}"
TASKS: dict[str, tuple[str, ...]] = {
    "tagging by words": ("task={kind: tagging, loss: words}", "optim.ternary_penalty={weight: 0.01}"),
    "tagging by sentences": ("task={kind: tagging, loss: sentences}",),
    "mlm": (f"task={{kind: mlm, {KEPT}}}",),
    "mlm everywhere": ("task={kind: mlm, mlm: {dynamic: false, loss_positions: all}}",),
    "ner": ("task={kind: ner}", "data={train: tags.txt, format: columns, columns: {entities: iob2}}"),
    "classification": ("task={kind: classification}", "data={train: table.tsv, format: table}"),
    "cogs": ("task={kind: cogs}", "data={train: cogs.tsv, format: cogs}"),
    "cogs by attention": ("task={kind: cogs, parent: attention}", "data={train: cogs.tsv, format: cogs}"),
    "pretrain": (f"{PRETRAIN}}}", *DOCUMENTS),
    "pretrain with heavy pairs": (f"{PRETRAIN}, pair_weight: 4.0}}", *DOCUMENTS),
    "pretrain without pairs": (f"{PRETRAIN}}}", *DOCUMENTS, "data.documents.pairs=none"),
    # An update in which nothing is hidden learns of its pairs: no term is divided by nothing.
    "pretrain with nothing hidden": (
        "task={kind: pretrain, mlm: {dynamic: false, count: bernoulli, rate: 1.0e-9}}",
        *DOCUMENTS,
    ),
}


def documents(count: int) -> str:
    generator = random.Random(0)
    texts = [
        "\n".join(
            " ".join(f"{subject}{generator.randrange(10)}" for _ in range(generator.randint(2, 9)))
            for _ in range(generator.randint(2, 6))
        )
        for subject in generator.choices("abcd", k=count)
    ]
    return "\n\n".join(texts) + "\n"


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trainer]:
    """Makes a trainer of a task, with some more of the recipe changed."""
    folder = workplace(tmp_path_factory.mktemp("sums"), RECIPE)
    (folder / "documents.txt").write_text(documents(25), "utf-8")
    (folder / "table.tsv").write_text("".join(f"{'a b c d e'[: 1 + 2 * (i % 5)]}\t{'xyz'[i % 3]}\n" for i in range(20)))
    (folder / "cogs.tsv").write_text("".join("\t".join(row) + "\n" for row in COGS * 4))
    blocks = [block for block in sentences("train", 20).split("\n\n") if block.strip()]
    words = [[line.split("\t")[1] for line in block.splitlines() if line[:1].isdigit()] for block in blocks]
    tags = ("B-x", "I-x", "O", "B-y", "O")
    lines = ["\n".join(f"{word} {tags[i % 5]}" for i, word in enumerate(one)) for one in words]
    (folder / "tags.txt").write_text("\n\n".join(lines) + "\n", "utf-8")

    def make(name: str, *more: str) -> Trainer:
        with chdir(folder):
            recipe = load_recipe("tiny.yaml", [*TASKS[name], *more]).resolved()
            run = Path(f"run-{name}".replace(" ", "-"))
            run.mkdir(exist_ok=True)
            return Trainer(recipe, prepare(recipe), folder / run, resume=False)

    return make


def uneven(trainer: Trainer) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-trainer.train_split.lengths, kind="stable")
    return order[:2], order[-7:]


def gradients(trainer: Trainer) -> Tensor:
    return torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten().double() for p in trainer.optimizer.parameters]
    )


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", TASKS, ids=lambda name: name.replace(" ", "-"))
def test_the_gradient_of_two_batches_is_that_of_their_union(name: str, trainers: Callable[..., Trainer]) -> None:
    parts, whole = trainers(name, "train.accumulate=2"), trainers(name)
    first, second = uneven(parts)
    assert len(first) < len(second)
    before = {key: value.clone() for key, value in whole.network.state_dict().items()}
    assert all(torch.equal(value, before[key]) for key, value in parts.network.state_dict().items())
    parts._update([first, second])
    whole._update([np.concatenate([first, second])])
    assert (parts.state.step, parts.state.batch) == (1, 2)  # the next update begins behind both
    expected = gradients(whole)
    assert float(expected.norm()) > 0.01
    assert difference(gradients(parts), expected) < 1e-5
    assert float(parts.loss) == pytest.approx(float(whole.loss), rel=1e-5)
    assert any(not torch.equal(value, before[key]) for key, value in whole.network.state_dict().items())


@pytest.mark.parametrize("name", ["pretrain", "classification", "tagging by words"])
def test_the_order_of_the_batches_does_not_matter(name: str, trainers: Callable[..., Trainer]) -> None:
    one, other = (trainers(name, "train.accumulate=3") for _ in range(2))
    first, second = uneven(one)
    third = np.array([index for index in range(len(one.train_split)) if index not in {*first, *second}][:3])
    one._update([first, second, third])
    other._update([third, first, second])
    assert difference(gradients(other), gradients(one)) < 1e-5
