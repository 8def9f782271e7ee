"""The training loop: what an update is, when the rate changes, when it ends, corpora, temperatures, and execution."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from small_trainings import metrics, train, trainer
from support import Invoke
from torch import Tensor, nn

import probtrans_cli
from probtrans_cli import checkpoint, console
from probtrans_cli.commands import train as runs
from probtrans_cli.commands.eval import EvalRequest, evaluate
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.training import optim
from probtrans_cli.training.loop import Trainer
from probtrans_cli.training.update import shapes_reported

pytestmark = pytest.mark.usefixtures("place")
TAGGING = "task={kind: tagging}"
STILL = ("model.dropout=0.0", TAGGING, "optim.schedule={kind: constant}")


def test_clipping_bounds_the_step() -> None:
    free, clipped = trainer(*STILL, "optim.clip=null"), trainer(*STILL, "optim.clip=0.001")
    for one in (free, clipped):
        one._update(one.plan.batches(0))

    def norm(one: Trainer) -> float:
        return math.sqrt(sum(float((p.grad**2).sum()) for p in one.optimizer.parameters if p.grad is not None))

    assert norm(free) > 0.001
    assert norm(clipped) == pytest.approx(0.001, rel=1e-3)


def test_the_weight_average_is_that_of_a_plain_loop() -> None:
    one = trainer(*STILL, "optim.ema=0.8")
    batches = one.plan.batches(0)
    plain: list[torch.Tensor] = []
    for _ in range(5):
        one._update(batches)
        now = [p.detach().clone() for p in one.optimizer.parameters]
        plain = [0.8 * old + 0.2 * new for old, new in zip(plain, now, strict=True)] if plain else now
    for found, wanted in zip(one.average.module.parameters(), plain, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)
    own = [p.detach().clone() for p in one.optimizer.parameters]
    with optim.averaged(one.network, one.average):
        torch.testing.assert_close(one.optimizer.parameters[0].detach(), plain[0], rtol=1e-5, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(own, one.optimizer.parameters, strict=True))


def let_dev_have(scores: Iterable[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """The perplexities and losses of dev, evaluation by evaluation."""
    on_dev = iter(scores)

    def task_scores(*_: Any, final: bool) -> dict[str, float]:
        return {"perplexity": 3.0, "loss": 1.0} if final else dict.fromkeys(("perplexity", "loss"), next(on_dev))

    monkeypatch.setattr("probtrans_cli.training.loop.task_scores", task_scores)


def test_a_plateau_halves_the_rate_and_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    let_dev_have([5.0, 4.0, 4.5, 4.5, 3.0, *[3.5] * 100], monkeypatch)
    schedule = "optim.schedule={kind: plateau, patience: 2, min_lr: 0.002}"
    train(schedule, "train.epochs=100", "optim.lr=0.008")
    rates = [line["lr"] for line in metrics(split="train")]
    evaluations = metrics(split="dev")
    steps = len(rates) // len(evaluations)
    # after evaluations 4, 7, 9: 0.004, 0.002, then below min_lr
    assert [rates[steps * number] for number in range(9)] == [0.008] * 4 + [0.004] * 3 + [0.002] * 2
    assert len(evaluations) == 9
    assert checkpoint.locate("runs/one@best").name == f"step-{5 * steps:06d}"


def test_early_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    let_dev_have([5.0, 4.0, 4.5, 4.6, 4.7, 1.0, 1.0, 1.0], monkeypatch)
    train("train.patience=3", "train.epochs=8")
    assert len(metrics(split="dev")) == 5


# --- whole trainings --------------------------------------------------------------------------------------------------


def test_the_loss_goes_down() -> None:
    train("train.epochs=4", "optim.lr=0.1", TAGGING)
    losses = [line["loss"] for line in metrics(split="dev")]
    assert losses[-1] < 0.7 * losses[0]


def test_equal_seeds_give_equal_models_and_other_seeds_do_not() -> None:
    for run, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(f"seed={seed}", "train.epochs=1", run=f"runs/{run}")
    a, b, c = (Path(f"runs/{run}/checkpoints/last/model.safetensors").read_bytes() for run in "abc")
    assert a == b
    assert a != c
    assert len({mixed_seed(seed, step) for seed in range(30) for step in range(30)}) == 900


@pytest.mark.parametrize(
    "task", ["{kind: mlm}", pytest.param("{kind: tagging, word_dropout: 1.0}", marks=pytest.mark.slow)]
)
def test_subwords(task: str) -> None:
    result = train(
        "data.vocabulary={kind: sentencepiece, size: 60}", f"task={task}", "train.epochs=1", "eval.trees=true"
    )
    assert math.isfinite(result["test"]["loss"])
    assert 0.0 <= result["test"]["trees"]["with_punct"]["all"]["uuas"] <= 1.0
    again, _ = evaluate(EvalRequest("runs/one", ["test.conllu"], baselines=True, threads=1))
    assert again["scores"]["test.conllu"] == result["test"]


def test_plain_text() -> None:
    Path("train.txt").write_text("the goat sleeps\nthe farmer feeds the goat\n" * 10, encoding="utf-8")
    result = train("data={train: train.txt, dev: train.txt}")
    assert result["dev"]["perplexity"] > 1
    assert "trees" not in result["dev"]
    assert "test" not in result


def test_one_epoch_without_dev() -> None:
    result = train("data={train: train.conllu}", "train.epochs=1")
    assert {"dev", "test"}.isdisjoint(result)
    assert checkpoint.locate("runs/one") == checkpoint.locate("runs/one@last")
    result = train("data={train: train.conllu, test: test.conllu}", "train.epochs=1", run="runs/two")
    assert "trees" in result["test"]


def test_evaluation_and_saving_by_steps() -> None:
    result = train("eval.every_steps=2", "save.every_steps=3", "save.keep=100", "train.steps=7", "train.epochs=50")
    assert result["step"] == 7
    assert [line["step"] for line in metrics(split="train")] == list(range(1, 8))
    assert [line["step"] for line in metrics(split="dev")] == [2, 4, 6, 7]
    assert [step for step, _ in checkpoint.steps(Path("runs/one/checkpoints"))] == [2, 3, 4, 6, 7]


def test_every_evaluation_tells_how_loud_messages_are() -> None:
    """Of a probabilistic transformer, alone or upon another encoder; of others there is nothing to tell."""
    layers = "{kind: transformer, width: 8, inner: 12, heads: 2, layers: 1}"
    for number, model in enumerate((None, f"{{kind: stacked, lower: {layers}, upper: {{labels: 6}}}}", layers)):
        train("train.steps=4", "eval.every_steps=2", *([f"model={model}"] if model else []), run=f"runs/{number}")
        norms = [line.get("message_norm") for line in metrics(f"runs/{number}", "dev")]
        assert len(norms) == 2
        assert norms == [None, None] if model == layers else all(norm > 0.0 for norm in norms)


# --- the temperature that every training with labels finds on dev ---------------------------------------------------


def stored(run: str, name: str) -> Any:
    return json.loads((checkpoint.locate(run) / name).read_text("utf-8"))


def test_a_temperature_is_found_on_dev_stored_and_used_where_the_recipe_says_so() -> None:
    """The same training, and other probabilities: dev's loss is what was found with it, and the tags are the same."""
    options = ("task={kind: tagging, column: xpos}", "optim.lr=0.1", "train.epochs=3")
    plain, tempered = train(*options), train(*options, "predict.temperature=true", run="runs/two")
    found = plain["temperature"]
    assert 0.25 < found["value"] < 8.0
    assert found["nll"] == pytest.approx(plain["dev"]["loss"], rel=1e-5)
    assert found["nll_tempered"] < found["nll"]
    assert stored("runs/one", "config.json")["temperature"] == found["value"]
    assert stored("runs/one", "eval.json")["temperature"] == found
    assert f"temperature {found['value']:.4g}: dev nll" in Path("runs/one/log.txt").read_text("utf-8")
    assert "temperature" in runs.training_report(plain)
    assert tempered["temperature"] == found
    assert tempered["dev"]["loss"] == pytest.approx(found["nll_tempered"], rel=1e-4)
    for split in ("dev", "test"):
        assert tempered[split]["accuracy"] == plain[split]["accuracy"]
    again, _ = evaluate(EvalRequest("runs/two", threads=1))
    assert again["scores"]["test"]["loss"] == pytest.approx(tempered["test"]["loss"], rel=1e-6)
    assert plain["test"]["loss"] != pytest.approx(tempered["test"]["loss"], rel=1e-6)
    models = [probtrans_cli.load(name) for name in ("runs/one", "runs/two")]
    assert models[0].temperature == found["value"]
    first, second = (next(iter(model.analyze(["the farmers fold a shirt"]))).prediction for model in models)
    assert first["tags"] == second["tags"]
    assert first["tag_probability"] != second["tag_probability"]


def test_classes_have_a_temperature_and_words_behind_masks_or_without_dev_have_none() -> None:
    rows = [f"{word} goat runs\t{label}" for word, label in (("big", "x"), ("small", "y"), ("old", "x")) for _ in "ab"]
    Path("rows.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    data = "data={train: rows.tsv, dev: rows.tsv, format: table}"
    classes = train(data, "task={kind: classification}", "model={root: {labels: 4}}", run="runs/classes")
    assert math.isfinite(classes["temperature"]["value"])
    assert "temperature" not in train("train.epochs=1", run="runs/words")
    assert "temperature" not in stored("runs/words", "config.json")
    without = train("data={train: train.conllu, test: test.conllu}", TAGGING, "predict.temperature=true")
    assert "temperature" not in without
    assert probtrans_cli.load("runs/one").temperature is None


TRANSFORMER = "model={kind: transformer, width: 8, inner: 12, heads: 2, layers: 2}"
COMPILED = "runtime.compile=true"


@pytest.mark.parametrize("model", [(), (TRANSFORMER,)])
def test_a_compiled_training_learns_the_same(
    model: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """The compiler is left out: what it would be given is computed as it is. It is never asked for arcs, which trees
    are scored by: with whole numbers as symbols, torch's says of a transformer that there are none."""
    asked: list[dict[str, Any]] = []

    def compile(forward: Any, **how: Any) -> Any:
        asked.append(how)

        def graph(words: Any, at: Any = None) -> Any:
            return forward(words, at=at)

        return graph

    monkeypatch.setattr(torch, "compile", compile)
    still = ("model.dropout=0", *(("model.embedding_dropout=0", "model.attention_dropout=0") if model else ()))
    losses, trees = [], []
    for name, more in (("plain", ()), ("compiled", (COMPILED,))):
        ran = invoke("-q", "train", "tiny.yaml", *model, *still, *more, "--run", name, "--json")
        assert ran.code == 0, ran.err
        trees.append(ran.json["test"]["trees"]["no_punct"]["all"]["uas"])
        losses.append([line["loss"] for line in metrics(name)])
    assert asked == [{"dynamic": True}]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert trees[1] == pytest.approx(trees[0], abs=0.02)


def test_plain_messages_are_not_compiled(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    monkeypatch.setattr(torch, "compile", lambda *_, **__: pytest.fail("compiled"))
    ran = invoke("train", "tiny.yaml", COMPILED, "runtime.messages=plain", "train.steps=2", "--run", "run", "--json")
    assert ran.code == 0, ran.err
    assert "warning: runtime.compile is ignored" in ran.err


class Answer(NamedTuple):
    scores: Tensor
    nothing: None = None


class Small(nn.Module):
    """Two layers, one of which is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.unused = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(7, 7)

    def forward(self, words: Tensor, *, mask: Tensor) -> Answer:
        return Answer(self.again(self.again(self.first(words))) * mask)


def run(network: nn.Module) -> None:
    network(torch.zeros(2, 4, 3), mask=torch.ones(2, 4, 1))


def test_every_module_that_is_called_tells_its_shapes_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.STATE, "level", console.VERBOSE)
    network = Small()
    with shapes_reported(network):
        run(network)
        run(network)
    assert capsys.readouterr().err.splitlines() == [
        "first (Linear): [2, 4, 3] -> [2, 4, 5]",
        "again (Linear): [2, 4, 5] -> [2, 4, 5]",
        "network (Small): [2, 4, 3] [2, 4, 1] -> [2, 4, 5]",
    ]
    run(network)
    assert capsys.readouterr().err == ""


def test_without_details_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    network = Small()
    with shapes_reported(network):
        run(network)
        assert not network.first._forward_hooks
    assert capsys.readouterr().err == ""
