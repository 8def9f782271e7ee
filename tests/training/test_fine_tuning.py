"""What a fine-tuning moves, and how fast: `optim.layer_decay` and `train.freeze`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_starts import FOLDER, MLM, SIZES, SMALL, TAGGING, Says, loaded, train
from torch import Tensor, nn

import probtrans_cli
from probtrans_cli.models.bayesian.weights import file_name
from probtrans_cli.recipe.schema import Optim
from probtrans_cli.training import optim

START = [SIZES, FOLDER, TAGGING, "--init-from", "bert"]
OF_EMBEDDINGS = ("unary.", "encoder.positions", "encoder.segments.", "encoder.embedding_norm.")
STEP = 1e-3


def stage_of(name: str) -> int:
    """0: embeddings, 1 and 2: layers, 3: what stands above them, and features, which have the same rate."""
    name = file_name(name).removeprefix("posterior.")
    if name.startswith(OF_EMBEDDINGS):
        return 0
    return 1 + int(name.split(".")[2]) if name.startswith("encoder.layers.") else 3


def moves(name: str, start: str) -> Iterator[tuple[str, Tensor]]:
    before = loaded(start).network.state_dict()
    for key, value in loaded(name).network.state_dict().items():
        yield key, value - before[key]


# --- layer-wise rates -------------------------------------------------------------------------------------------------


def test_a_layer_moves_at_the_rate_times_the_decay_for_each_layer_above_it(bert: Any) -> None:
    """The first update of Adam moves whatever has a gradient by the rate, to the sign."""
    one = ["train.steps=1", "optim.eps=1e-30", "optim.schedule={kind: constant}", "model.dropout=0.0"]
    one.append("data.vocabulary.features={rows: 64}")
    assert train(*START, *one, "optim.lr=1e-30", name="start") == 0
    for decay, name in ((0.5, "slow"), (1.0, "alike")):
        assert train(*START, *one, f"optim.lr={STEP}", f"optim.layer_decay={decay}", name=name) == 0
        sizes = {key: float(value.abs().max()) for key, value in moves(name, "start")}
        for key, size in sizes.items():
            if key.startswith("encoder.pooler."):  # which nobody reads
                assert size == 0.0, key
            else:
                assert size == pytest.approx(STEP * decay ** max(2 - stage_of(key), 0), rel=1e-2), key
        assert {stage_of(key) for key in sizes} == {0, 1, 2, 3}


def test_stages_are_all_that_is_below_the_output_layer(bert: Any) -> None:
    assert train(*START) == 0
    network = loaded().network
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    found = {names[id(one)]: number for number, stage in enumerate(network.stages()) for one in stage}
    assert found == {name: stage_of(name) for name in names.values() if stage_of(name) < 3}
    assert {name.split(".")[0] for name in names.values() if name not in found} == {"output", "encoder"}


def test_rates_multiply_and_groups_stay_as_they_are_without_a_decay() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    stages = [list(network[0].parameters()), list(network[1].parameters())]
    settings = {"kind": "adamw", "lr": 0.1, "weight_decay": 0.5, "decayed": "matrices"}
    plain = optim.Optimizers(Optim.model_validate(settings), network, stages=stages)
    assert [len(group["params"]) for group in plain.adam.param_groups] == [3, 3]
    assert not any(optim.TIMES in group for group in plain.adam.param_groups)
    decayed = optim.Optimizers(Optim.model_validate({**settings, "layer_decay": 0.25}), network, stages=stages)
    decayed.step(0.2)
    found = [
        (len(group["params"]), group["weight_decay"], round(group["lr"], 9)) for group in decayed.adam.param_groups
    ]
    assert found == [(1, 0.5, 0.05), (2, 0.5, 0.2), (1, 0.0, 0.05), (2, 0.0, 0.2)]


@pytest.mark.parametrize(
    "of_bayes", ["optim.kind=ivon", "model.bayes={layers: [attention, feed_forward, output], sigma_lr: 3.0}"]
)
def test_uncertain_weights_have_the_rate_of_their_layer(bert: Any, of_bayes: str) -> None:
    factors: dict[str, float] = {}
    made = optim.Optimizers.__init__

    def noting(self: optim.Optimizers, section: Optim, network: nn.Module, *rest: Any, **more: Any) -> None:
        made(self, section, network, *rest, **more)
        names = {id(parameter): name for name, parameter in network.named_parameters()}
        for group in [*self.adam.param_groups, *(self.ivon.param_groups if self.ivon else ())]:
            factors.update({names[id(parameter)]: group.get(optim.TIMES, 1.0) for parameter in group["params"]})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optim.Optimizers, "__init__", noting)
        assert train(*START, of_bayes, "optim.layer_decay=0.5", "optim.lr=0.1", "optim.ivon.lr=0.3") == 0
    for name, factor in factors.items():
        if "log_sd" in name and "ivon" in of_bayes:
            continue  # IVON finds them itself
        uncertain = "log_sd" in name or ("parametrizations" in name and "ivon" in of_bayes)
        times = 3.0 if uncertain else 1.0  # sigma_lr, or IVON's rate to Adam's
        assert factor == pytest.approx(times * 0.5 ** max(2 - stage_of(name), 0)), name
    assert {round(factor, 6) for factor in factors.values()} >= {0.25, 1.0, 1.5, 3.0}


def test_models_without_layers_have_no_layer_decay(bert: Any, says: Says) -> None:
    for model in (SMALL, f"{SIZES[:-1]}, share_layers: true}}"):
        message = says(2, model, "optim.layer_decay=0.9")
        assert "optim.layer_decay: this model of kind `" in message
        assert "has no layers with weights of their own: set this to 1" in message
        assert "train.freeze: this model of kind `" in says(2, model, "--init-from", "bert", "train.freeze=1")


def test_iterations_with_potentials_of_their_own_are_layers(bert: Any, says: Says) -> None:
    own = f"{SMALL[:-1]}, share_potentials: false, globals: {{kind: dep-split, features: 2}}}}"
    assert train(own, name="first") == 0
    network = loaded("first").network
    below, *iterations = network.encoder.stages()
    assert not below
    assert [len(one) for one in iterations] == [3, 3]
    assert {id(one) for stage in iterations for one in stage} == {id(one) for one in network.encoder.parameters()}
    frozen = ["--init-from", "runs/first", "train.freeze=1", "optim.layer_decay=0.5", "optim.lr=0.01"]
    assert train(own, *frozen, name="second") == 0
    for key, value in moves("second", "first"):
        still = key.startswith(("unary.", "encoder.")) and not key.startswith("encoder.later.")
        assert still != bool(value.any()), key
    assert "found 3, but the model has 2 layers" in says(
        2, own, "--init-from", "runs/first", "train.freeze=3", name="no"
    )


# --- frozen parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("freeze", "stages"), [("embeddings", 1), ("1", 2), ("2", 3)])
def test_what_is_frozen_stays_and_has_no_state(bert: Any, freeze: str, stages: int) -> None:
    """No gradient, no decay, no moments; all else moves."""
    moving = ["optim.lr=0.01", "optim.kind=adamw", "optim.weight_decay=0.1", "optim.ema=0.5"]
    assert train(*START, "optim.lr=1e-30", name="start") == 0
    assert train(*START, *moving, f"train.freeze={freeze}") == 0
    learned = []
    for key, move in moves("run", "start"):
        stays = stage_of(key) < stages or key.startswith("encoder.pooler.")  # the pooler is not read
        assert torch.equal(move, torch.zeros_like(move)) == stays, key
        learned += [] if stays else [key]
    state = load_file("runs/run/checkpoints/last/training/optimizer.safetensors")
    moved = {name.partition(".")[0] for name in state}
    assert len(moved) == len(learned)
    average = load_file("runs/run/checkpoints/last/training/average.safetensors")
    weights = load_file("runs/run/checkpoints/last/training/weights.safetensors")
    for key, value in weights.items():
        if stage_of(key) < stages:
            assert torch.equal(value, average[f"module.{key}"]), key


def test_embeddings_of_a_probabilistic_model_are_frozen(bert: Any) -> None:
    features = "data.vocabulary={kind: words, features: {rows: 64}}"
    assert train(SMALL, features, "optim.lr=0.05", name="first") == 0
    assert train(SMALL, features, TAGGING, "--init-from", "runs/first", "train.freeze=embeddings", "optim.lr=0.05") == 0
    first = loaded("first").network.state_dict()
    for key, value in loaded().network.state_dict().items():
        if not key.startswith("output."):
            assert torch.equal(value, first[key]) == key.startswith(("unary.", "features.")), key


def test_what_cannot_be_frozen_is_refused(bert: Any, says: Says) -> None:
    for more, message in (
        ([SIZES, FOLDER, "train.freeze=embeddings"], "what is frozen must be trained: name it with model.init_from"),
        ([*START, "train.freeze=3"], "train.freeze: found 3, but the model has 2 layers"),
        ([*START, "train.freeze=layers"], "train.freeze: Input should be 'embeddings' or a valid integer"),
        ([*START, "train.freeze=0"], "train.freeze: Input should be 'embeddings' or greater than or equal to 1"),
        ([*START, "train.freeze=1", "train.probe=true"], "a probe leaves all but the output layer as it is"),
        ([*START, "train.freeze=1", "optim.kind=ivon"], "layers with `optim.kind: ivon` have a distribution to find"),
        ([*START, "train.freeze=1", "model.bayes={}"], "layers with `model.bayes` have a distribution to find"),
        ([*START, "train.freeze=embeddings", "model.bayes={words: true}"], "`model.bayes.words` have a distribution"),
    ):
        assert message in says(2, *more)
    for more in (["optim.kind=ivon"], ["model.bayes={}"]):  # words are certain there
        assert train(*START, *more, "train.freeze=embeddings", "optim.lr=0.01", "--overwrite") == 0


def test_frozen_parts_that_nothing_was_loaded_for_are_told_of(bert: Any, says: Says) -> None:
    message = says(0, SIZES, TAGGING, "--init-from", "bert", "train.freeze=embeddings")
    assert "entries of the vocabulary are new, and stay as they were drawn: " in message
    assert train(SMALL, name="plain") == 0
    features = "data.vocabulary={kind: words, features: {rows: 64}}"
    message = says(0, SMALL, features, TAGGING, "--init-from", "runs/plain", "train.freeze=embeddings", name="more")
    assert "warning: runs/plain: train.freeze leaves these as they were drawn, and reads them: features.weig" in message


# --- decay ------------------------------------------------------------------------------------------------------------


def test_an_l2_penalty_on_pretrained_weights_is_warned_of(bert: Any, says: Says) -> None:
    warned = "warning: bert: with `optim.kind: adam` the decay is an L2 penalty"
    for options, told in (
        (["optim.weight_decay=0.01"], True),
        (["optim.weight_decay=0.0"], False),
        (["optim.weight_decay=0.01", "optim.kind=adamw"], False),
        (["optim.weight_decay=0.01", "train.probe=true"], False),
    ):
        assert (warned in says(0, *START, *options, "--overwrite")) == told, options


# --- features of the spelling -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_vocabulary_in_lower_case_learns_capitals_from_their_shape(bert: Any) -> None:
    """The word `dog` is in the folder's vocabulary, and what tells `Dog` from it is its shape alone."""
    words = ["dog\tsmall", "Dog\tlarge"]
    Path("case.tsv").write_text("".join(f"{word}\n\n" for word in words * 20))
    data = (
        "{train: case.tsv, dev: case.tsv, test: null, format: columns, vocabulary: {kind: wordpiece, folder: bert%s}}"
    )
    found = {}
    for name, features in (("without", ""), ("with", ", features: {prefixes: 0, suffixes: 0, rows: 64}")):
        options = ["task={kind: tagging, column: tag}", "train.epochs=40", "optim.lr=0.02", "model.dropout=0.0"]
        assert train(SIZES, f"data={data % features}", *options, "--init-from", "bert", name=name) == 0
        found[name] = [one.prediction["tags"] for one in probtrans_cli.load(f"runs/{name}").analyze(["dog", "Dog"])]
    assert found["with"] == [["small"], ["large"]]
    assert found["without"][0] == found["without"][1]


def test_features_start_at_zero_so_that_nothing_changes_before_they_are_learned(bert: Any) -> None:
    still = ["optim.lr=1e-30", "train.steps=1", "model.dropout=0.0"]
    assert train(*START, *still, name="plain") == 0
    assert train(*START, *still, "data.vocabulary.features={}", name="features") == 0
    plain, features = (torch.stack(ends(name)) for name in ("plain", "features"))
    torch.testing.assert_close(plain, features, rtol=1e-5, atol=1e-6)


def ends(name: str) -> list[Tensor]:
    found = probtrans_cli.load(f"runs/{name}").analyze(["two Dog"])
    return [torch.tensor(one.prediction["tag_probability"]) for one in found]


def test_hidden_pieces_have_no_features(bert: Any, says: Says) -> None:
    assert "data.vocabulary.features: the features of its other pieces would give a hidden word away" in says(
        2, SIZES, FOLDER, MLM, "--init-from", "bert", "data.vocabulary.features={}"
    )
