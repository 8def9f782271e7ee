"""Trainings with `optim.kind: ivon`: what is in the checkpoints, for every form of every encoder."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from small_trainings import metrics, train, trainer

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.errors import RecipeError
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.weights import POSTERIOR
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.trained.model import Model

pytestmark = pytest.mark.usefixtures("place")
IVON = ("optim.kind=ivon", "task={kind: tagging}", "train.epochs=3")
SMALL = "labels: 6, channels: 2, iterations: 2, dropout: 0.1"
MODELS = {
    "transformer": "{kind: transformer, width: 8, heads: 2, inner: 8, layers: 1, positions: {kind: relative}}",
    "tied projections": "{kind: transformer, width: 8, heads: 2, inner: 8, layers: 1, tie_kv: true, tie_qo: true}",
    "none": f"{{{SMALL}, decomposition: {{kind: none}}, root: {{labels: 3}}}}",
    "uv": f"{{{SMALL}, decomposition: {{kind: uv, rank: 2}}, globals: {{kind: all-dep, features: 2}}}}",
    "uvw": f"{{{SMALL}, decomposition: {{kind: uvw, rank: 2}}}}",
    "shared": f"{{{SMALL}, decomposition: {{kind: shared, rank: 2}}}}",
    "rotary": f"{{{SMALL}, decomposition: {{kind: rotary, rank: 2}}}}",
}


@pytest.mark.parametrize(
    "model",
    [name if name in ("transformer", "rotary") else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_every_encoder_has_a_posterior(model: str) -> None:
    """The loss falls; files have plain names and log σ; the loaded model computes what the trained one did."""
    option = f"model={MODELS[model]}"
    train(*IVON, option)
    losses = [line["loss"] for line in metrics(split="train")]
    assert losses[-1] < losses[0]
    tensors = load_file("runs/one/checkpoints/best/model.safetensors")
    posteriors = {name.removeprefix(POSTERIOR) for name in tensors if name.startswith(POSTERIOR)}
    plain = load_recipe("tiny.yaml", ["task={kind: tagging}", option]).resolved()
    prepared = prepare(plain)
    ours = Model.load("runs/one")
    copied = Model.new(plain, ours.vocabulary, ours.labels, ours.machine)
    matrices = {name for name, one in copied.network.named_parameters() if one.ndim > 1}
    assert posteriors == {name for name in matrices if name.startswith(("encoder.", "output."))}
    copied.network.load_state_dict({name: value for name, value in tensors.items() if not name.startswith(POSTERIOR)})
    copied.network.eval()
    batch = ours.collate(prepared.splits["dev"], ours.evaluation().batches(prepared.splits["dev"])[0])
    wants = ours.task.wants(batch)
    with torch.inference_mode():
        scores = ours.network(batch, wants).scores["words"]
        torch.testing.assert_close(scores, copied.network(batch, wants).scores["words"], rtol=0, atol=1e-6)
        torch.manual_seed(0)
        with weights.drawn(ours.network):
            drawn = ours.network(batch, wants).scores["words"]
    assert torch.isfinite(drawn).all()
    assert not torch.equal(drawn, scores)


def test_the_deviations_of_the_network_are_those_of_the_optimizer() -> None:
    run = trainer(*IVON, "model={kind: transformer, width: 8, heads: 2, inner: 8, layers: 1}")
    moved = {id(parameter) for parameter in run.optimizer.moved_by_adam}
    names = {name for name, parameter in run.network.named_parameters() if id(parameter) in moved}
    assert {"unary.weight", "output.bias"} <= names  # words and biases stay with Adam
    assert not any("parametrizations" in name for name in names)
    for _ in range(3):
        run.state.batch = 0
        run._update(run.plan.batches(0))
    ivon = run.optimizer.ivon
    for tensor in run.optimizer.posteriors:
        torch.testing.assert_close(tensor.posterior.deviation(), ivon.deviation(tensor.mean))
        assert not tensor.posterior.log_sd.requires_grad
    size = run.divergence.units / 0.1
    for group in ivon.param_groups:
        inputs = group["params"][0].shape[-1]
        assert group["effective_size"] == pytest.approx(size)
        assert group["prior_precision"] == pytest.approx(inputs / size)
    assert ivon.param_groups[0]["lr"] == pytest.approx(30 * run.optimizer.adam.param_groups[0]["lr"])  # 0.3 and 0.01


def test_faults_name_their_key() -> None:
    for override, message in {
        "model={kind: transformer, bayes: {}}": "model.bayes: is not for `optim.kind: ivon`",
        "optim.ivon.prior.kind=start": "optim.ivon.prior.kind",
        "optim.ivon.kl_weight=0": "optim.ivon.kl_weight",
        "optim.ema=0.9": "optim.ema",
        "runtime.compile=true": "optim.kind: ivon is not for `runtime.compile`",
        "optim.ivon.predict.kind=moments": "there is no rule for the moments of `model.kind: probabilistic`",
    }.items():
        with pytest.raises(RecipeError) as caught:
            load_recipe("tiny.yaml", [*IVON, override])
        assert message in str(caught.value)
