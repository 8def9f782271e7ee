"""Pretraining on documents: losses and scores against plain loops, and all of it through the command."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import batch_of, encode, evaluation, loss_of
from torch.nn import functional

from probtrans_cli import models
from probtrans_cli.__main__ import run
from probtrans_cli.data.corpus.encode import NAMES, PAIR, encode_corpus
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.lines import read_documents
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.base import EnclosingVocabulary, enclosing
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.data import Data, Documents, WordVocabulary
from probtrans_cli.recipe.task import Pretraining as Section
from probtrans_cli.tasks.masking import EVALUATION_SEED
from probtrans_cli.tasks.mlm import Pretraining
from probtrans_cli.trained.evaluation import evaluate
from probtrans_cli.trained.model import Model

BERT = {
    "kind": "transformer", "preset": "bert", "width": 8, "heads": 2, "inner": 12, "layers": 1, "std": 0.5,
    "embedding_dropout": 0.0,
}  # fmt: skip
PLAIN = {"labels": 6, "channels": 2, "iterations": 2, "decomposition": {"kind": "none"}}
RECIPE = """\
version: 1
name: pairs
data: {train: train.txt, dev: dev.txt, test: test.txt, format: documents, documents: {max_length: 32}}
task: {kind: pretrain, eval_masks: 2}
model: {kind: transformer, preset: bert, width: 16, heads: 2, inner: 24, layers: 2}
optim: {lr: 0.01}
train: {epochs: 1, batch_words: 300}
runtime: {device: cpu, threads: 1}
"""


def documents(count: int, seed: int) -> str:
    """Text of a made-up language: every document has words of its own subject, and goes through them in order."""
    generator = random.Random(seed)
    lines = []
    for _ in range(count):
        subject, start = generator.choice("abcd"), generator.randrange(10)
        for sentence in range(generator.randint(2, 6)):
            words = [f"{subject}{(start + sentence) % 10}" for _ in range(generator.randint(2, 5))]
            lines.append(" ".join([*words, "."]))
        lines.append("")
    return "\n".join(lines) + "\n"


class Corpus:
    """Instances of a few documents; rare words are unknown."""

    def __init__(self, pairs: Any = "nsp") -> None:
        options = Documents(max_length=24, pairs=pairs)
        sentences = list(read_documents(documents(15, 0).splitlines(), "text", options))
        words = build_vocabulary(WordVocabulary(min_count=4), [sentence.words for sentence in sentences])
        self.vocabulary: EnclosingVocabulary = enclosing(words)
        self.labels = {PAIR: NAMES[options.pairs]}
        data = Data(train="x", format="documents", documents=options)
        self.split = Split(encode_corpus(data, sentences, self.vocabulary, self.labels, training=True))

    def task(self, **options: Any) -> Pretraining:
        return Pretraining(Section.model_validate({"kind": "pretrain", **options}), self.vocabulary, self.labels)

    def network(self, task: Pretraining, **options: Any) -> Network:
        torch.manual_seed(3)
        section = {"dropout": 0.0, **(options or BERT)}
        return Network(self.vocabulary.size, models.build(section), task.output, begins=True).eval()


def plainly_scored(corpus: Corpus, network: Network, weight: float) -> dict[str, float]:
    """One instance at a time, one mask draw."""
    split, vocabulary = corpus.split, corpus.vocabulary
    uniform = np.random.default_rng(EVALUATION_SEED).random((2, int(split.lengths.sum())), dtype=np.float32)
    ordinary = [id for id in range(vocabulary.size) if id not in vocabulary.specials]
    losses, hits, of_pairs, right, start = [], [], [], [], 0
    for index in range(len(split)):
        ids = split.row("ids", index).astype(np.int64)
        draws, start = uniform[:, start : start + len(ids)], start + len(ids)
        free = [i for i in range(len(ids)) if ids[i] not in vocabulary.specials]
        number = min(max(round(0.15 * len(ids)), 1), 20)
        hidden = sorted(sorted(free, key=lambda i: draws[0, i])[:number])
        shown = ids.copy()
        for i in hidden:
            if draws[1, i] < 0.8:
                shown[i] = vocabulary.MASK
            elif draws[1, i] < 0.9:
                shown[i] = ordinary[int((draws[1, i] - np.float32(0.8)) / np.float32(0.1) * len(ordinary))]
        batch = torch.from_numpy(shown)[None]
        segments = torch.from_numpy(split.row("segments", index).astype(np.int64))[None]
        segmented = {"segments": segments} if getattr(network.encoder, "segments", None) is not None else {}
        with torch.no_grad():
            encoded = encode(network, batch, torch.ones_like(batch, dtype=torch.bool), **segmented)
            states = encoded.states[0]
            scores = network.words(states, network.unary.weight) if network.tied else network.words(states)
            pair = network.output.pair(encoded.sentence)  # type: ignore[union-attr, operator]
        label = torch.from_numpy(split.row(PAIR, index).astype(np.int64))
        losses += functional.cross_entropy(scores[hidden], torch.from_numpy(ids[hidden]), reduction="none").tolist()
        hits += (scores[hidden].argmax(-1) == torch.from_numpy(ids[hidden])).tolist()
        of_pairs.append(float(functional.cross_entropy(pair, label)))
        right.append(int(pair.argmax()) == int(label))
    loss = float(np.mean(losses))
    return {
        "perplexity": math.exp(loss),
        "accuracy": float(np.mean(hits)),
        "loss": loss + weight * float(np.mean(of_pairs)),
        "pair_accuracy": float(np.mean(right)),
    }


@pytest.mark.parametrize(
    ("model", "output"),
    [({}, "bert"), ({}, "tied"), (PLAIN, "tied"), (PLAIN | {"root": {"labels": 4}}, "linear")],
    ids=["bert", "bert-tied", "probabilistic", "root"],
)
def test_scores_are_those_of_a_plain_loop(model: dict[str, Any], output: str) -> None:
    corpus = Corpus()
    task = corpus.task(output=output, pair_weight=0.5, eval_masks=1)
    network = corpus.network(task, **model)
    scores = evaluate(task, network, corpus.split, evaluation(), final=True)
    assert scores == pytest.approx(plainly_scored(corpus, network, 0.5), rel=1e-4)
    assert evaluate(task, network, corpus.split, evaluation(40), final=True) == pytest.approx(scores, rel=1e-4)


@pytest.mark.parametrize("pairs", ["nsp", "sop", "none"])
def test_the_loss_is_the_sum_of_two_means(pairs: str) -> None:
    """Its mean does not depend on the number of hidden words, whatever that is."""
    corpus = Corpus(pairs)
    indices = np.arange(8)
    means = {}
    for weight in (0.0, 1.0, 3.0):
        task = corpus.task(pair_weight=weight)
        network = corpus.network(task)
        torch.manual_seed(0)
        total, number = loss_of(task, network, corpus.split, indices)
        means[weight] = float((total / number).detach())
        total.backward()  # type: ignore[no-untyped-call]
        gradient = network.output.pair.weight.grad if pairs != "none" else None  # type: ignore[union-attr]
        assert gradient is None or bool(gradient.abs().sum() > 0) == (weight > 0)
    of_pairs = means[1.0] - means[0.0]
    assert (of_pairs > 0.1) == (pairs != "none")
    assert means[3.0] - means[0.0] == pytest.approx(3 * of_pairs, rel=1e-4)


def test_segments_reach_the_transformer() -> None:
    corpus = Corpus()
    task = corpus.task(eval_masks=1)
    network = corpus.network(task)
    before = evaluate(task, network, corpus.split, evaluation(), final=True)
    with torch.no_grad():
        network.encoder.segments.weight[1] += torch.randn(8)  # type: ignore[union-attr, index, operator]
    after = evaluate(task, network, corpus.split, evaluation(), final=True)
    assert after["loss"] != pytest.approx(before["loss"], rel=1e-3)


def test_a_batch_in_which_nothing_is_hidden_has_a_loss() -> None:
    """That of its pairs; of hidden words there is none, and no mean over nothing."""
    corpus = Corpus()
    task = corpus.task(mlm={"count": "bernoulli", "rate": 1e-9})
    network = corpus.network(task)
    total, number = loss_of(task, network, corpus.split, np.arange(4))
    total.backward()  # type: ignore[no-untyped-call]
    assert int(number) == 0
    assert 0.0 < float(total.detach()) < math.inf
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_what_is_never_hidden() -> None:
    corpus = Corpus()
    indices = np.arange(len(corpus.split))
    batch = batch_of(corpus.task(), corpus.split, indices)
    ids = batch.ids
    unknown = ids == corpus.vocabulary.UNKNOWN
    special = torch.isin(ids, torch.tensor(corpus.vocabulary.specials))
    assert unknown.any()
    every = {"rate": 0.99, "max_per_seq": None}
    for options, forbidden in (({}, special), ({"never": []}, special & ~unknown), ({"whole_word": True}, special)):
        masks = corpus.task(mlm={**every, **options}).tasks["words"].masks
        hidden = masks.hidden(batch, masks.uniform(batch))
        assert not (hidden & forbidden).any()
        assert torch.equal(hidden | forbidden, torch.ones_like(hidden))


# --- through the command ----------------------------------------------------------------------------------------------

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command in a folder with documents and ``pairs.yaml``; returns stdout, or stderr where it fails."""
    monkeypatch.chdir(tmp_path)
    for seed, (split, count) in enumerate((("train", 40), ("dev", 10), ("test", 10))):
        Path(f"{split}.txt").write_text(documents(count, seed), "utf-8")
    Path("pairs.yaml").write_text(RECIPE, "utf-8")

    def probtrans(*arguments: str, code: int = 0) -> str:
        capfd.readouterr()
        ended = run(list(arguments))
        out, err = capfd.readouterr()
        assert ended == code, err
        assert "Traceback" not in err
        return err if code else out

    return probtrans


SUBWORDS = "data.vocabulary={kind: sentencepiece, size: 24}"
CHARACTERS = "data.vocabulary={kind: char}"
PIECES = "data.vocabulary={kind: wordpiece, size: 80}"
ROOTED = "model={labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}, root: {labels: 4}}"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        [SUBWORDS, "data.documents.pairs=sop", "task.output=bert", "task.mlm.whole_word=true"],
        [PIECES, "task.output=tied", "data.documents.copies=2"],
        [CHARACTERS, "data.documents.max_length=24", "task.mlm.whole_word=true"],
        [ROOTED, "task.output=tied"],
        [ROOTED, "model.root=null", "task.mlm.count=bernoulli", "data.documents.pairs=none"],
        ["model.segments=0", "model.pooler=false", "data.documents.pairs=sop"],
    ],
    ids=["words", "sentencepiece", "wordpiece", "char", "root", "none", "no-segments"],
)
def test_train_eval_and_parse(command: Command, overrides: list[str]) -> None:
    if PIECES in overrides:
        pytest.importorskip("tokenizers")
    trained = json.loads(command("train", "pairs.yaml", "--json", *overrides))
    again = json.loads(command("eval", "runs/pairs", "--json"))["scores"]["test"]
    assert again == pytest.approx(trained["test"])
    paired = not any("pairs=none" in override for override in overrides)
    assert again.keys() == {"perplexity", "perplexity_se", "masks", "accuracy", "loss"} | (
        {"pair_accuracy"} if paired else set()
    )
    own = json.loads(command("eval", "runs/pairs", "dev.txt", "--masks", "1", "--json"))["scores"]["dev.txt"]
    assert own["perplexity"] > 1.0
    Path("own.txt").write_text("a1 b2 .\n", "utf-8")
    assert command("parse", "runs/pairs", "own.txt", "-f", "conllu").count("\n") == 5
    assert "--labels" in command("eval", "runs/pairs", "--labels", code=2)


def test_pretraining_learns(command: Command) -> None:
    """Sentences are numbered: so the words of each tell the order of two texts, and its other words a hidden one."""
    for split, count in (("train", 60), ("test", 20)):
        texts = ["\n".join(" ".join([f"w{i}"] * (2 + (n + i) % 3)) for i in range(2 + n % 5)) for n in range(count)]
        Path(f"{split}.txt").write_text("\n\n".join(texts), "utf-8")
    options = ["data.dev=null", "data.documents={max_length: 32, pairs: sop, copies: 2}", "task.output=bert"]
    options += ["train.epochs=20", "model.std=0.1", "model.dropout=0.0"]
    scores = json.loads(command("train", "pairs.yaml", "--json", *options))["test"]
    assert scores["perplexity"] < 3.5
    assert scores["accuracy"] > 0.4
    assert scores["pair_accuracy"] > 0.9


def test_training_starts_from_a_pretrained_model(command: Command) -> None:
    command("train", "pairs.yaml", "task.output=bert")
    Path("next.yaml").write_text(RECIPE.replace("name: pairs", "name: next"), "utf-8")
    command("train", "next.yaml", "task.output=bert", "--init-from", "runs/pairs", "train.steps=1", "optim.lr=1e-12")
    first, second = (Model.load(f"runs/{name}").network.state_dict() for name in ("pairs", "next"))
    for name, values in first.items():
        assert torch.allclose(values, second[name], atol=1e-8), name


def test_prepare_tells_the_balance_of_the_pairs(command: Command) -> None:
    report = command("prepare", "pairs.yaml")
    assert "pair: 2 labels: next " in report
    assert ", random " in report


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["data.format=text"], "`kind: pretrain` reads documents"),
        (["task={kind: mlm}"], "found documents"),
        (["task.mlm.mask=0.5"], "mask, random and keep are 0.7 together, not 1"),
        (["data.documents.pairs=none", "task.pair_weight=2.0"], "leave it out"),
        (["data.vocabulary={kind: words, features: {}}"], "has no features"),
        (["model.segments=1"], "two texts have two segments"),
        (["model.positions={kind: absolute, rows: 16}"], "less than the 32"),
        (["task.output=bert", ROOTED], "`bert` is for a transformer"),
        (["task.tie_decoder=false"], "for `task.output: bert` only"),
        (["data.documents.max_length=4"], "greater than or equal to 8"),
        (["data.documents.pairs=nps"], "nsp"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recipes_that_make_no_sense(command: Command, overrides: list[str], words: str) -> None:
    assert words in command("train", "pairs.yaml", *overrides, code=2)


def test_corpora_that_do_not_do(command: Command) -> None:
    Path("one.txt").write_text(documents(1, 0), "utf-8")
    assert "one.txt: 1 document where two are needed" in command("train", "pairs.yaml", "data.train=one.txt", code=3)
    assert "1 document" in command("train", "pairs.yaml", "data.dev=one.txt", code=3)
    Path("alone.txt").write_text("a1 b1\n\nb2 a1\n\nc3\n", "utf-8")
    assert "alone.txt: of " in command("train", "pairs.yaml", "data.train=alone.txt", code=3)
    assert "two sentences" in command("train", "pairs.yaml", "data.train=alone.txt", "data.documents.pairs=sop", code=3)
    Path("empty.txt").write_text("\n\n", "utf-8")
    assert "no sentence in it" in command("train", "pairs.yaml", "data.train=empty.txt", code=3)
    Path("unknown.txt").write_text("zz yy\nxx\n\nww\nvv uu\n", "utf-8")
    assert "no word to hide" in command("train", "pairs.yaml", "data.dev=unknown.txt", code=3)


@pytest.mark.parametrize(
    ("overrides", "architecture"),
    [
        ([], "BertForPreTraining"),
        pytest.param([PIECES], "BertForPreTraining", marks=pytest.mark.slow),
        (["data.documents.pairs=sop"], "BertForMaskedLM"),
        pytest.param(["model.pooler=false"], "BertForMaskedLM", marks=pytest.mark.slow),
        (["task.output=linear"], "BertModel"),
    ],
)
def test_export_for_transformers(command: Command, overrides: list[str], architecture: str) -> None:
    pytest.importorskip("transformers")
    command("train", "pairs.yaml", "task.output=bert", "train.steps=3", *overrides)
    report = json.loads(command("export", "runs/pairs", "out", "--format", "hf", "--json"))
    assert report["architecture"] == architecture
    assert 0.0 <= report["largest_difference"] < 1e-5
    assert ("left out" in " ".join(report["notes"])) == (architecture != "BertForPreTraining")
    assert Path("out/vocab.txt").exists() == (PIECES in overrides)
