"""Predictions with uncertain weights: draws against a loop of draws, and `eval --weights`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from run_of_every_task import rows
from support import Invoke, refused, train_each, workplace
from torch.nn import functional

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.readout import predictive
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.evaluation import answered
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import Draws, OnePass, PredictOptions, by_name, ensemble_of, predictor_of

TAGGER = ("task={kind: tagging}", "train.epochs=8")
SMALL = "kind: transformer, width: 8, heads: 2, inner: 8, layers: 1, initialization: xavier"
SAMPLES = 5
RUNS = {
    "bayes": (f"model={{{SMALL}, bayes: {{start: 1.0, predict: {{kind: samples, samples: {SAMPLES}}}}}}}",),
    "ivon": ("optim.kind=ivon", f"optim.ivon.predict={{kind: samples, samples: {SAMPLES}}}"),
    "plain": (f"model={{{SMALL}}}",),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run of each kind."""
    runs = {name: [*TAGGER, *overrides] for name, overrides in RUNS.items()}
    return train_each(workplace(tmp_path_factory.mktemp("weights")), runs)


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


@pytest.fixture(params=["bayes", "ivon"])
def model(request: pytest.FixtureRequest, there: Path) -> Model:
    return Model.load(f"runs/{request.param}")


def batches(model: Model) -> Iterator[Batch]:
    split = prepare(model.recipe).splits["dev"]
    for indices in model.evaluation().batches(split):
        yield model.task.evaluation(model.collate(split, indices), 0)


@torch.no_grad()
def test_draws_are_the_mean_over_networks_with_these_weights(model: Model) -> None:
    """A loop that puts each draw in the place of the means, in a network without distributions."""
    asked = predictor_of(model, PredictOptions(uncertainty=True))
    assert isinstance(asked, Draws)
    batch = next(batches(model))
    wants = model.task.wants(batch)
    found = asked.ready()(batch, wants)
    chances = []
    for number in range(SAMPLES):
        torch.manual_seed(mixed_seed(0, number))
        kept = {}
        for tensor in weights.uncertain(model.network):
            kept[tensor.name] = tensor.mean.clone()
            noise = torch.randn_like(tensor.mean)
            tensor.mean.add_(tensor.posterior.log_sd.exp() * noise)
        chances.append(model.network(batch, wants).scores["words"].softmax(-1))
        for tensor in weights.uncertain(model.network):
            tensor.mean.copy_(kept[tensor.name])
    wanted = torch.stack(chances).mean(0)
    torch.testing.assert_close(found.scores["words"].exp(), wanted, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.doubt["words"].probabilities, wanted, rtol=1e-4, atol=1e-6)
    assert float(found.doubt["words"].mutual_information.mean()) > 1e-4


@torch.no_grad()
def test_what_else_is_in_a_batch_changes_no_draw(model: Model) -> None:
    asked = predictor_of(model)
    split = prepare(model.recipe).splits["dev"]
    together = model.collate(split, np.arange(4))
    found = asked.ready()(together, model.task.wants(together)).scores["words"]
    start = 0
    for index in range(4):
        alone = model.collate(split, np.array([index]))
        own = asked(alone, model.task.wants(alone)).scores["words"]
        torch.testing.assert_close(own, found[start : start + len(own)], rtol=1e-4, atol=1e-5)
        start += len(own)


def test_the_temperature_is_that_of_the_way_it_predicts(model: Model) -> None:
    """Of all temperatures near it, the stored one has the least loss on dev, for the mean over the draws."""
    asked = predictor_of(model, at_temperature=False)
    split = prepare(model.recipe).splits["dev"]
    parts = [
        (outputs.scores["words"].double(), batch.gold["upos"][batch.words])
        for outputs, batch in answered(model.task, asked, split, model.evaluation())
    ]
    assert model.temperature is not None

    def loss(temperature: float) -> float:
        parts_of = [functional.cross_entropy(scores / temperature, gold, reduction="sum") for scores, gold in parts]
        return float(sum(parts_of))

    best = loss(model.temperature)
    assert best <= min(loss(model.temperature * 1.05), loss(model.temperature / 1.05)) + 1e-9


@torch.no_grad()
@pytest.mark.parametrize("state", ["kronecker", "diagonal"])
def test_one_pass_is_the_readout_of_the_network_s_moments(there: Path, state: Any) -> None:
    """Near the mean over many draws; states and arcs are those of the mean weights."""
    model = Model.load("runs/bayes")
    asked = predictor_of(model, PredictOptions(weights=state, uncertainty=True))
    assert isinstance(asked, OnePass)
    batch = next(batches(model))
    wants = replace(model.task.wants(batch), states=True, arcs=(1,))
    found = asked.ready()(batch, wants)
    plain = model.network(batch, wants)
    assert found.states is not None
    assert found.arcs is not None
    torch.testing.assert_close(found.states, plain.states)
    torch.testing.assert_close(found.arcs, plain.arcs)
    inside = model.network(batch, replace(model.task.wants(batch), moments=state))
    wanted = predictive(inside.scores["words"], inside.variances["words"])
    torch.testing.assert_close(found.scores["words"].exp(), wanted.probabilities)
    torch.testing.assert_close(found.doubt["words"].mutual_information, wanted.mutual_information)
    drawn = Draws(model.network, 200, doubt=True)(batch, model.task.wants(batch))
    apart = (drawn.scores["words"].exp() - found.scores["words"].exp()).abs().sum(-1).mean() / 2
    of_means = (drawn.scores["words"].exp() - plain.scores["words"].softmax(-1)).abs().sum(-1).mean() / 2
    assert float(apart) < 0.5 * float(of_means)


def test_distributions_side_by_side_are_averaged_apart() -> None:
    """As of COGS, whose columns stand in one score: each sums to 1, and is the mean over the members of its own."""
    generator = torch.Generator().manual_seed(0)
    members = [{"words": torch.randn(4, 5, generator=generator)} for _ in range(3)]
    apart = by_name({("words", 0): one["words"][:, :2], ("words", 1): one["words"][:, 2:]} for one in members)
    network = _Fixed(members)
    drawn = Draws(network, 3)(_INPUTS, Wants(sentence=True)).scores["words"].exp()  # type: ignore[arg-type]
    torch.testing.assert_close(drawn[:, :2].sum(-1), torch.ones(4))
    torch.testing.assert_close(drawn[:, 2:].sum(-1), torch.ones(4))
    torch.testing.assert_close(drawn[:, :2], apart["words", 0].probabilities)
    torch.testing.assert_close(drawn[:, 2:], torch.stack([one["words"][:, 2:].softmax(-1) for one in members]).mean(0))


class _Fixed(torch.nn.Module):
    """A network that gives some scores, one after the other."""

    def __init__(self, members: list[dict[str, torch.Tensor]]) -> None:
        super().__init__()
        self.left = iter(members)
        self.output = SimpleNamespace(sizes={"words": [2, 3]})

    def forward(self, inputs: Any, wants: Wants) -> Outputs:
        del inputs, wants
        return Outputs(scores=next(self.left))


_INPUTS = Inputs(ids=torch.zeros(1, 1, dtype=torch.int64), mask=torch.ones(1, 1, dtype=torch.bool))


def test_ways_to_use_the_weights(there: Path, invoke: Invoke) -> None:
    """`mean` is what the plain pass gives; draws have mutual information; each says its name."""
    found: dict[str, Any] = {}
    for way in ("mean", "3", "moments", "diagonal", None):
        ran = invoke("eval", "runs/bayes", "--uncertainty", "--json", *(() if way is None else ("--weights", way))).ok
        found[str(way)] = ran.json
    assert found["mean"]["way"] == "mean weights"
    assert found["3"]["way"] == "3 draws of the weights"
    assert "way" not in found["None"]
    assert "error_auroc_mi" not in found["mean"]["scores"]["test"]["uncertainty"]
    assert found["3"]["scores"]["test"]["uncertainty"]["mutual_information"] > 0
    losses = {way: one["scores"]["test"]["loss"] for way, one in found.items()}
    assert len(set(losses.values())) == len(losses)
    assert found["diagonal"]["way"] == "moments, diagonal"
    stored = json.loads(Path("runs/bayes/checkpoints/best/eval.json").read_text("utf-8"))
    assert stored["test"]["loss"] == pytest.approx(losses["None"], rel=1e-5), "training scores as its recipe says"


REFUSED = [
    (("runs/plain", "--weights", "mean"), "the weights of"),
    (("runs/bayes", "--weights", "0"), "--weights 0: not a way to use uncertain weights"),
    (("runs/bayes", "--weights", "sharp"), "give moments, diagonal, mean, or a number of draws"),
    (("runs/bayes", "--weights", "3", "--dropout-samples", "3"), "two ways to predict"),
    (("runs/bayes", "runs/bayes", "--weights", "3"), "--weights: not of several runs together"),
    (("runs/ivon", "--weights", "moments"), "give a number of draws, --weights 16"),
    (("runs/bayes", "nothing", "--split", "dev"), "nothing: there is no such run or file"),
    (("runs/bayes", "--require", "ece<=0.5"), "add --uncertainty, which has it"),
]


def test_refusals(there: Path, invoke: Invoke) -> None:
    for arguments, words in REFUSED:
        refused(invoke("eval", *arguments), 2, words)


def test_pruned_weights_are_those_of_least_signal(there: Path, invoke: Invoke) -> None:
    """The exported folder is a plain model, without the given share of weights; with a share of 0 it is the means."""
    run = "bayes"
    model = Model.load(f"runs/{run}")
    ratios = torch.cat(
        [(one.mean.abs() / one.posterior.deviation()).flatten() for one in weights.uncertain(model.network)]
    ).detach()
    for share in (0.0, 0.4):
        out = f"{run}-{share}"
        ran = invoke("export", f"runs/{run}", out, "--prune", str(share), "--json").ok
        number = round(share * len(ratios))
        assert ran.json["pruned"] == number
        assert (ran.json["largest_difference"] > 1e-4) == (number > 0)
        assert json.loads(Path(out, "eval.json").read_text("utf-8")) == {}
        assert ran.json["weights"] == "posterior means"
        pruned = Model.load(out)
        assert pruned.recipe.uncertain_weights is None
        left = dict(pruned.network.named_parameters())
        means = {one.name: one.mean.detach() for one in weights.uncertain(model.network)}
        gone = torch.cat([(left[name] == 0).flatten() for name in means])
        assert int(gone.sum()) == number
        assert number == 0 or float(ratios[gone].max()) <= float(ratios[~gone].min())
        for name, mean in means.items():
            kept = left[name] != 0
            assert torch.equal(left[name][kept], mean[kept])
        assert invoke("eval", out).code == 0
    refused(invoke("export", "runs/plain", "no", "--prune", "0.5"), 2, "the weights of", "are certain")


def arcs_of_draws(model: Model, words: list[str], samples: int) -> torch.Tensor:
    """The arcs of a sentence after the last iteration, with each draw of the weights in turn."""
    ids = model.vocabulary.encode_words(words).ids
    inputs = Inputs(ids=torch.tensor([ids]), mask=torch.ones(1, len(ids), dtype=torch.bool))
    draws = []
    for number in range(samples):
        torch.manual_seed(mixed_seed(0, number))
        with weights.drawn(model.network):
            draws.append(model.network.eval()(inputs, Wants(arcs=(model.recipe.model.iterations,))).arcs[0, 0])
    return torch.stack(draws)


@torch.no_grad()
def test_arcs_have_the_mean_and_the_spread_over_draws(there: Path, invoke: Invoke) -> None:
    """In every form of output, beside a loop over the draws."""
    Path("text.txt").write_text("The cat sat on the mat .\n", encoding="utf-8")
    arguments = ("parse", "runs/ivon", "text.txt", "--channel", "mean", "--iteration", "-1", "--decode", "mst")
    line = invoke(*arguments, "-f", "jsonl").ok.json
    draws = arcs_of_draws(Model.load("runs/ivon"), line["words"], SAMPLES).double()

    def read(arcs: torch.Tensor) -> torch.Tensor:  # the geometric mean over channels
        return arcs.clamp_min(1e-30).log().mean(0).softmax(-1)

    heads = torch.tensor(line["heads"])
    known = heads > 0
    chosen = torch.stack([read(one)[torch.arange(len(heads)), (heads - 1).clamp_min(0)] for one in draws])
    mean = read(draws.mean(0))[torch.arange(len(heads)), (heads - 1).clamp_min(0)]
    found, spread = (
        torch.tensor([math.nan if one is None else one for one in line[name]], dtype=torch.float64)
        for name in ("probabilities", "probability_deviations")
    )
    torch.testing.assert_close(found[known], mean[known], rtol=0, atol=2e-5)
    torch.testing.assert_close(spread[known], chosen.std(0, correction=0)[known], rtol=0, atol=2e-5)
    assert float(spread[known].max()) > 0.001
    assert "ProbSD=" in invoke(*arguments, "--prob").out
    assert "±" in invoke(*arguments, "--prob", "-f", "tree").out
    assert "±" in invoke(*arguments, "--prob", "-f", "svg").out
    page = invoke(*arguments[:3], "-f", "html").out
    assert '"spread": [[[' in page or '"spread":[[[' in page
    assert "probability_deviations" not in invoke(*arguments, "-f", "jsonl", "--weights", "mean").json


@torch.no_grad()
def test_the_doubt_about_heads_is_of_their_mean_over_draws(there: Path, invoke: Invoke) -> None:
    """Beside a loop over the draws; that about latent labels would be of the mean weights, and is not told."""
    Path("text.txt").write_text("The cat sat on the mat .\n", encoding="utf-8")
    command = ("parse", "runs/ivon", "text.txt", "-f", "jsonl", "--uncertainty")
    line = invoke(*command, "--weights", "3").json
    assert "latent_label_entropy" not in line
    mean = arcs_of_draws(Model.load("runs/ivon"), line["words"], 3).mean(0)
    wanted = -torch.xlogy(mean, mean).sum(-1).mean(0)
    torch.testing.assert_close(torch.tensor(line["head_entropy"]), wanted, rtol=0, atol=2e-4)
    told = invoke("eval", "runs/ivon", "dev.conllu", "--uncertainty", "--weights", "3", "--json").json
    found = told["scores"]["dev.conllu"]["uncertainty"]
    assert {"head_entropy", "error_auroc_heads", "arc_error_auroc"} <= found.keys()
    assert not {"latent_label_entropy", "error_auroc_latent_labels"} & found.keys()
    assert {"head_entropy", "latent_label_entropy"} <= invoke(*command, "--weights", "mean").json.keys()


def test_analyze_has_the_spread_too(there: Path) -> None:
    (analysis,) = Model.load("runs/ivon").analyze([["The", "cat", "sat"]])
    assert analysis.deviations is not None
    assert analysis.deviations.shape == (3,)
    (certain,) = Model.load("runs/ivon").analyze([["The", "cat", "sat"]], weights="mean", uncertainty=True)
    (drawn,) = Model.load("runs/ivon").analyze([["The", "cat", "sat"]], weights="1", uncertainty=True)
    for single in (certain, drawn):
        assert single.deviations is None
        assert "tag_mutual_information" not in single.record()


@torch.no_grad()
def test_the_doubt_within_members_of_an_ensemble_is_the_model_s(there: Path) -> None:
    """Twice the same model, with uncertain weights, has its mutual information; with certain ones it has none."""
    model = Model.load("runs/bayes")
    batch = next(batches(model))
    wants = model.task.wants(batch)
    alone = predictor_of(model, PredictOptions(uncertainty=True)).ready()(batch, wants).doubt["words"]
    together = ensemble_of([model, model], doubt=True).ready()(batch, wants).doubt["words"]
    torch.testing.assert_close(together.mutual_information, alone.mutual_information, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together.expected_entropy, alone.expected_entropy, rtol=1e-4, atol=1e-5)
    plain = Model.load("runs/plain")
    certain = ensemble_of([plain, plain], doubt=True).ready()(batch, wants).doubt["words"]
    assert float(certain.mutual_information.max()) < 1e-5


def test_trees_of_eval_are_those_of_parse(there: Path, invoke: Invoke) -> None:
    """With the same draws; `score trees` has the figures of `eval`."""
    arguments = ("runs/ivon", "dev.conllu", "--weights", "3")
    scores = invoke("eval", *arguments, "--trees", "yes", "--json").json["scores"]["dev.conllu"]
    Path("parsed.conllu").write_text(invoke("parse", *arguments).out, encoding="utf-8")
    again = invoke("score", "trees", "parsed.conllu", "--gold", "dev.conllu", "--json").json["scores"]
    uas, same = (it["trees"]["with_punct"]["all"]["uas"] for it in (scores, again))
    assert same == pytest.approx(uas)


def test_predictions_are_those_that_are_scored(there: Path, invoke: Invoke) -> None:
    """`--predictions` with draws: the tags of `parse` with the same draws, and as many right ones as `eval` counts."""
    ran = invoke("eval", "runs/bayes", "dev.conllu", "--weights", "1", "--predictions", "out.conllu", "--json").ok
    words = rows(Path("out.conllu").read_text("utf-8"))
    parsed = invoke("parse", "runs/bayes", "dev.conllu", "--weights", "1", "--trees", "no").out
    tags = [row[3] for row in rows(parsed)]
    assert [row[3] for row in words] == tags
    gold = [row[9].partition("GoldUPOS=")[2].partition("|")[0] for row in words]
    right = sum(one == other for one, other in zip(tags, gold, strict=True))
    assert ran.json["scores"]["dev.conllu"]["accuracy"] == pytest.approx(right / len(words))
