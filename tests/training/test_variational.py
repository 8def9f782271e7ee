"""Training with uncertain weights: the gradient of an update, what is in the files, and where weights come from."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import small_trainings
import torch
from safetensors.torch import load_file
from small_trainings import metrics
from support import values_of

from probtrans_cli import checkpoint
from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.errors import RecipeError
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.weights import POSTERIOR, PRIOR
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.trained.model import Model
from probtrans_cli.training.loop import Trainer
from probtrans_cli.training.start_from import start_from
from probtrans_cli.training.update import counts_of, loss_of

PLAIN = "model={kind: transformer, width: 8, heads: 2, inner: 12, layers: 2, dropout: 0.0, embedding_dropout: 0.0}"
OPTIONS = ("task={kind: tagging}", "optim.clip=null", PLAIN)
MATRICES = 2 * 4 + 1  # of two layers and the output


pytestmark = pytest.mark.usefixtures("place")


def trainer(*overrides: str, bayes: str = "{}", name: str = "run") -> Trainer:
    return small_trainings.trainer(*OPTIONS, f"model.bayes={bayes}", *overrides, name=name)


def train(*overrides: str, bayes: str | None = "{}", run: str = "runs/one") -> dict[str, Any]:
    given = () if bayes is None else (f"model.bayes={bayes}",)
    return small_trainings.train(*OPTIONS, *given, *overrides, run=run)


FULL = "{family: full, norms: true, words: true, kl_weight: 0.7, predict: {kind: samples}}"


@pytest.mark.parametrize(("bayes", "accumulate"), [("{}", 1), (FULL, 2)])
def test_the_gradient_of_an_update_is_that_of_likelihood_and_divergence(bayes: str, accumulate: int) -> None:
    """Autograd through the same draws, and through KL / N with N counted by hand."""
    one = trainer(f"train.accumulate={accumulate}", bayes=bayes)
    model, network = one.model, one.network
    batches = one.plan.batches(0)
    section = model.recipe.model.facts.variational
    words = int((values_of(one.train_split, "upos") >= 0).sum())
    network.train()
    given, left = [], []
    for k, indices in enumerate(batches[:accumulate]):  # each with random numbers of its own
        torch.manual_seed(mixed_seed(model.recipe.seed, 0, *([k] if k else [])))
        given.append(model.task.training(model.collate(one.train_split, indices)))
        left.append(torch.get_rng_state())
    counts = counts_of(model.task, given)
    total = torch.zeros(())
    for batch, state in zip(given, left, strict=True):
        torch.set_rng_state(state)
        with weights.drawn(network):
            total = total + loss_of(model.task, network, batch, counts)
    total = total / counts["loss"]
    for tensor in weights.uncertain(network):
        total = total + section.kl_weight / words * weights.kl(*tensor.posterior.of_kl(tensor.mean))
    parameters = dict(network.named_parameters())
    wanted = dict(zip(parameters, torch.autograd.grad(total, list(parameters.values())), strict=True))
    one._update(batches)
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-4, atol=1e-6, msg=name)


def test_which_weights_are_uncertain() -> None:
    def names(bayes: str, *more: str) -> list[str]:
        return [tensor.name for tensor in weights.uncertain(trainer(*more, bayes=bayes).network)]

    assert len(names("{}")) == MATRICES
    assert names("{layers: [output]}") == ["output.weight"]
    assert all("widen" in name or "narrow" in name for name in names("{layers: [feed_forward]}"))
    assert len(names("{norms: true}")) == MATRICES + 2 * 2 * 2
    assert "unary.weight" in names("{layers: [], words: true}")
    assert not any("bias" in name or "positions" in name for name in names("{}"))


@pytest.mark.parametrize(
    "overrides", [("{}",), ("{family: full, words: true, norms: true}",), ("null", "optim.kind=ivon")]
)
def test_deviations_are_no_parameters_of_the_parts(
    overrides: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parts are as large as those of a plain network; the number of deviations is told beside them."""
    bayes, *more = overrides
    one = trainer(*more, bayes=bayes)
    counts = one.network.parameter_counts()
    tensors = list(weights.uncertain(one.network))
    assert counts.pop("deviations") == sum(tensor.posterior.log_sd.numel() for tensor in tensors) > 0
    plain = trainer(bayes="null").network.parameter_counts()
    assert counts == plain
    numbers = f"{plain['encoder']:,} encoder parameters (+ {plain['unary']:,} word scores, {plain['output']:,} output, "
    for step in ("_train", "_finish"):  # a training says first what it trains
        monkeypatch.setattr(Trainer, step, lambda *_: {})
    capsys.readouterr()
    one.train()
    shown = capsys.readouterr().err
    assert numbers in shown
    assert " deviations), " in shown
    trainer(bayes="null").train()
    assert "deviations" not in capsys.readouterr().err


def test_where_training_starts_and_what_is_believed() -> None:
    one = trainer(bayes="{start: 0.2, prior: {kind: fan_in, std: 2.0}, norms: true}")
    for tensor in weights.uncertain(one.network):
        norm = "norm" in tensor.name
        inputs = tensor.mean.shape[-1]
        deviation = 0.2 * (0.1 if norm else inputs**-0.5)
        torch.testing.assert_close(tensor.posterior.deviation(), torch.full_like(tensor.posterior.log_sd, deviation))
        centre, variance, _ = tensor.posterior.prior
        assert variance == pytest.approx(0.01 if norm else 4 / inputs)
        assert centre == (1.0 if norm and tensor.name.endswith("weight") else 0.0)


def test_rates_of_the_deviations_and_no_decay() -> None:
    one = trainer("optim.weight_decay=0.1", "optim.decayed=matrices", bayes="{sigma_lr: 7.0}")
    one._update(one.plan.batches(0))
    groups = one.optimizer.adam.param_groups
    deviations = {id(tensor.posterior.log_sd) for tensor in weights.uncertain(one.network)}
    assert {id(parameter) for parameter in groups[-1]["params"]} == deviations
    assert groups[-1]["lr"] == pytest.approx(7.0 * groups[0]["lr"])
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0, 0.0]


def test_warm_up_of_the_divergence() -> None:
    one = trainer(bayes="{kl_weight: 0.4, kl_warmup: 0.5}").divergence
    assert [one.weight(done) for done in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.0, 0.2, 0.4, 0.4])
    assert trainer(bayes="{kl_weight: 0.4}").divergence.weight(0.0) == 0.4


def test_a_run_leaves_plain_names_and_posteriors() -> None:
    """`eval` of the means is that of a plain model with these weights, to the bit; the loss falls."""
    train("train.epochs=6")
    lines = metrics(split="train")
    losses = [line["loss"] for line in lines]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert all(line["kl"] > 0 and line["kl_weight"] == 0.1 for line in lines)
    tensors = load_file("runs/one/checkpoints/best/model.safetensors")
    posterior = {name.removeprefix(POSTERIOR) for name in tensors if name.startswith(POSTERIOR)}
    assert len(posterior) == MATRICES
    assert posterior <= tensors.keys()
    bayesian = Model.load("runs/one")
    plain = load_recipe("tiny.yaml", [*OPTIONS]).resolved()
    copied = Model.new(plain, bayesian.vocabulary, bayesian.labels, bayesian.machine)
    copied.network.load_state_dict({name: value for name, value in tensors.items() if not name.startswith(POSTERIOR)})
    for one in (bayesian, copied):
        one.network.eval()
    split = prepare(plain).splits["dev"]
    batch = bayesian.collate(split, bayesian.evaluation().batches(split)[0])
    wants = bayesian.task.wants(batch)
    with torch.inference_mode():
        found, wanted = (one.network(batch, wants).scores["words"] for one in (bayesian, copied))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_weights_from_a_plain_run_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    train("train.epochs=1", bayes=None, run="runs/plain")
    capsys.readouterr()
    start_from(trainer(bayes="{predict: {kind: mean}}").model, "runs/plain")
    number = len(load_file("runs/plain/checkpoints/best/model.safetensors"))
    message = capsys.readouterr().err
    assert f"started from runs/plain: {number} tensors loaded" in message
    assert "not there" not in message
    prior = "{prior: {kind: start, std: 0.5}, predict: {kind: mean}}"
    train("train.epochs=1", "model.init_from=runs/plain", bayes=prior, run="runs/bayes")
    assert "standard deviations that start afresh: encoder.layers.0" in capsys.readouterr().err
    tensors, plain = (load_file(f"runs/{one}/checkpoints/best/model.safetensors") for one in ("bayes", "plain"))
    centres = {name.removeprefix(PRIOR): value for name, value in tensors.items() if name.startswith(PRIOR)}
    assert len(centres) == MATRICES
    for name, value in centres.items():
        torch.testing.assert_close(value, plain[name], rtol=0, atol=0)
        assert not torch.equal(tensors[name], value), "training moves the means, not the prior"
    train("train.epochs=1", "model.init_from=runs/bayes", bayes=None, run="runs/back")
    shown = capsys.readouterr().err
    assert "left there: posterior.encoder.layers.0" in shown
    again = trainer("model.init_from=runs/bayes", bayes="{predict: {kind: mean}}")
    for tensor in weights.uncertain(again.network):
        torch.testing.assert_close(tensor.mean.detach(), tensors[tensor.name])
        torch.testing.assert_close(tensor.posterior.log_sd.detach(), tensors[POSTERIOR + tensor.name])


@pytest.mark.parametrize(("before", "now"), [("row", "full"), ("full", "row")])
def test_deviations_of_another_family_start_afresh(before: str, now: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of vectors, too, of which a row has a single one."""
    train("train.steps=1", bayes=f"{{norms: true, family: {before}}}")
    capsys.readouterr()
    start = trainer(bayes=f"{{norms: true, family: {now}, start: 0.2}}", name="now")
    deviations = {tensor.name: tensor.posterior.log_sd.clone() for tensor in weights.uncertain(start.network)}
    start_from(start.model, "runs/one")
    number = len(load_file("runs/one/checkpoints/best/model.safetensors")) - len(deviations)
    assert f"{number} tensors loaded" in capsys.readouterr().err
    for tensor in weights.uncertain(start.network):
        assert torch.equal(tensor.posterior.log_sd, deviations[tensor.name]), tensor.name


def test_a_probe_has_a_bayesian_output_layer() -> None:
    train("train.epochs=1", bayes=None, run="runs/plain")
    one = trainer("model.init_from=runs/plain", "train.probe=true")
    assert [tensor.name for tensor in weights.uncertain(one.network)] == ["output.weight"]
    before = copy.deepcopy(one.network.state_dict())
    one._update(one.plan.batches(0))
    changed = {name for name, value in one.network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"output.weight", "output.bias", "posterior.output.weight"}


def test_units_are_what_the_loss_is_a_mean_over() -> None:
    """Words with a tag, sentences, words that masks hide (about 30 %), counted over the whole training split."""
    one = trainer()
    assert one.divergence.units == int((values_of(one.train_split, "upos") >= 0).sum())
    assert trainer("task={kind: tagging, loss: sentences}").divergence.units == len(one.train_split)
    hidden = trainer("task={kind: mlm}").divergence.units
    assert hidden / int(one.train_split.lengths.sum()) == pytest.approx(0.3, abs=0.05)


def test_training_through_moments() -> None:
    """No noise: the same update twice; the loss falls, and is that of the moments."""
    one, other = (trainer(bayes="{objective: moments}", name=name) for name in ("a", "b"))
    for each in (one, other):
        each._update(each.plan.batches(0))
    for ours, theirs in zip(one.optimizer.parameters, other.optimizer.parameters, strict=True):
        assert torch.equal(ours.grad, theirs.grad)
    train("train.epochs=6", bayes="{objective: moments, predict: {kind: mean}}", run="runs/moments")
    losses = [line["loss"] for line in metrics("runs/moments", "train")]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_a_deviation_out_of_bounds_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    train("train.epochs=1", bayes="{predict: {kind: mean}}")
    folder = checkpoint.locate("runs/one")
    verified = checkpoint.verify(folder, training=True)
    tensors = verified.tensors("model.safetensors")
    tensors[f"{POSTERIOR}output.weight"].fill_(100.0)
    files = {name: file for name, file in verified.files.items() if name not in ("model.safetensors", checkpoint.SUMS)}
    checkpoint.write(folder, files, {"model.safetensors": tensors})
    model = Model.load("runs/one")
    assert "log σ beyond its bounds counts as the bound: output.weight" in capsys.readouterr().err
    posterior = weights.posterior_of(model.network.output)
    assert float(posterior.deviation().detach().max()) == pytest.approx(torch.tensor(2.0).exp().item())


FAULTS: list[tuple[tuple[str, ...], str]] = [
    (("model.bayes.kl_weight=-1",), "model.bayes.kl_weight"),
    (("model.bayes.start=0",), "model.bayes.start"),
    (("model.bayes.layers=[]",), "model.bayes.layers: no weight is uncertain"),
    (("runtime.compile=true",), "model.bayes: is not for `runtime.compile`"),
    (("model.tie_kv=true",), "model.bayes.predict.kind: there is no rule for the moments of `model.tie_kv`"),
    (("model.tie_qo=true",), "`model.tie_qo`: choose samples"),
    (("model.share_layers=true", "model.bayes.objective=moments"), "model.bayes.objective: there is no rule"),
    (("model.bayes.objective=moments", "model.dropout=0.1"), "moments have no dropout: set model.dropout=0.0"),
    (
        ("model.bayes.words=true", "task={kind: mlm, output: tied}"),
        "uncertain word vectors that are also the output layer",
    ),
    (("model.bayes.prior={kind: start}",), "model.bayes.prior.kind: start is around given weights"),
]


def test_faults_name_their_key() -> None:
    for overrides, message in FAULTS:
        with pytest.raises(RecipeError) as caught:
            load_recipe("tiny.yaml", [*OPTIONS, "model.bayes={}", *overrides])
        assert message in str(caught.value)
        if "no rule" in message or "samples" in message:
            rest = [override for override in overrides if "objective" not in override]
            load_recipe("tiny.yaml", [*OPTIONS, "model.bayes={predict: {kind: samples}}", *rest])
