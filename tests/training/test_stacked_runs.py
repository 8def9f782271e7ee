"""Trainings of a field upon a BERT: what starts, what stays, what is resumed, and what a trained one says of words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_starts import FOLDER, MLM, SIZES, SMALL, TAGGING, Says, loaded, train
from small_trainings import metrics
from support import interrupted
from torch import Tensor

from probtrans_cli.__main__ import run
from probtrans_cli.models.base import Words

UPPER = "{kind: probabilistic, labels: 8, channels: 3, iterations: 2, decomposition: {kind: uv, rank: 2}}"
STACK = f"model={{kind: stacked, lower: {{kind: transformer, from: bert}}, upper: {UPPER}}}"
STEP = 1e-3
LONG = ("train.steps=6", "save.every_steps=2", "save.keep=99", "optim.lr=0.01")


def weights(name: str = "run") -> dict[str, Tensor]:
    state: dict[str, Tensor] = loaded(name).network.state_dict()
    return state


def is_lower(key: str) -> bool:
    return key.startswith(("unary.", "encoder.lower."))


# --- starting and freezing --------------------------------------------------------------------------------------------


def test_a_bert_becomes_the_lower_encoder(bert: Any, says: Says) -> None:
    """The same states as a transformer that starts from the folder, of every token."""
    message = says(0, STACK, TAGGING)
    assert "started from bert: " in message
    assert "not there, drawn at random: encoder.projection.weight, encoder.upper.ternary." in message
    assert "encoder.lower.pooler.weight" in message[message.index("left there: ") :]
    assert train("model={kind: transformer, from: bert}", TAGGING, name="alone") == 0
    stack, alone = loaded().network, loaded("alone").network
    ids = torch.randint(6, 20, (2, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 7, dtype=torch.bool)
    found = stack.encoder.lower(Words(stack.unary(ids), mask)).states
    torch.testing.assert_close(found, alone.encoder(Words(alone.unary(ids), mask)).states, rtol=0, atol=1e-6)


def test_all_layers_of_the_lower_encoder_frozen_are_all_of_it(bert: Any) -> None:
    assert train(STACK, TAGGING, "optim.lr=1e-30", name="start") == 0
    moving = ["optim.lr=0.01", "optim.kind=adamw", "optim.weight_decay=0.1"]
    for freeze, below in (("2", True), ("1", False)):
        assert train(STACK, TAGGING, *moving, f"train.freeze={freeze}", "--overwrite") == 0
        before, after = weights("start"), weights()
        stays = {key: torch.equal(value, before[key]) for key, value in after.items()}
        assert stays["unary.weight"]
        assert all(stay == below for key, stay in stays.items() if key.startswith("encoder.lower.layers.1."))
        assert not any(stay for key, stay in stays.items() if not is_lower(key))
        if below:
            assert all(stay for key, stay in stays.items() if is_lower(key))


def test_a_lower_encoder_without_layers_is_one(bert: Any) -> None:
    assert train(SMALL, name="field") == 0
    lower = SMALL.replace("model={", "{kind: probabilistic, ")
    stack = f"model={{kind: stacked, lower: {lower}, upper: {UPPER}}}"
    frozen = ["--init-from", "runs/field", "train.freeze=1", "optim.lr=0.1"]
    assert train(stack, TAGGING, *frozen) == 0
    before, after = weights("field"), weights()
    assert torch.equal(after["unary.weight"], before["unary.weight"])
    lower = {key: value for key, value in after.items() if key.startswith("encoder.lower.")}
    assert lower
    assert all(torch.equal(value, before[key.replace(".lower.", ".")]) for key, value in lower.items())


def test_a_layer_of_the_lower_encoder_moves_at_its_rate_and_what_is_above_at_the_whole(bert: Any) -> None:
    """The first update of Adam moves whatever has a gradient by the rate, to the sign."""
    still = ["model.dropout=0.0", "model.lower.dropout=0.0", "model.upper.dropout=0.0"]
    one = [*still, "train.steps=1", "optim.eps=1e-30", "optim.schedule={kind: constant}", "optim.layer_decay=0.5"]
    assert train(STACK, TAGGING, *one, "optim.lr=1e-30", name="start") == 0
    assert train(STACK, TAGGING, *one, f"optim.lr={STEP}") == 0
    before = weights("start")
    layer = {"encoder.lower.layers.0.": 0.5, "encoder.lower.layers.1.": 1.0}
    for key, value in weights().items():
        below = 0.25 if is_lower(key) else 1.0
        factor = next((of_layer for prefix, of_layer in layer.items() if key.startswith(prefix)), below)
        assert float((value - before[key]).abs().max()) == pytest.approx(STEP * factor, rel=1e-2), key


def test_a_stack_starts_from_another_and_takes_its_output(bert: Any, says: Says) -> None:
    assert train(STACK, TAGGING, "optim.lr=0.01", name="first") == 0
    assert "left there" not in says(0, STACK, TAGGING, "--init-from", "runs/first").rpartition("from runs/first")[2]
    first = weights("first")
    for key, value in weights().items():
        torch.testing.assert_close(value, first[key], rtol=0, atol=1e-6)


def test_an_output_layer_of_the_lower_encoder_is_not_taken(bert: Any, says: Says) -> None:
    """Both are of width 8, and for the same tags; but they read other states."""
    assert train("model={kind: transformer, from: bert}", TAGGING, "optim.lr=0.01", name="below") == 0
    message = says(0, STACK, TAGGING, "--init-from", "runs/below").rpartition("started from runs/below")[2]
    assert "output.weight" in message[: message.index("left there: ")]
    assert "output.weight" in message[message.index("left there: ") :]


def test_another_lower_encoder_is_refused_by_its_keys(bert: Any, says: Says) -> None:
    stack = f"model={{kind: stacked, lower: {SIZES.removeprefix('model=')}, upper: {UPPER}}}"
    other = [stack, FOLDER, TAGGING, "model.lower.pooler=false", "model.lower.layers=1", "--init-from", "bert"]
    message = says(4, *other)
    assert "bert: another encoder:" in message
    assert "model.lower.layers: 1, there 2" in message
    assert "set model.lower.layers=2" in message
    assert train(STACK, TAGGING, name="first") == 0
    assert "model.upper.channels: 2, there 3" in says(
        4, STACK, TAGGING, "model.upper.channels=2", "--init-from", "runs/first"
    )


# --- learning, resuming and reading -----------------------------------------------------------------------------------


def test_a_training_is_resumed_to_the_bit(bert: Any) -> None:
    for name in ("whole", "broken"):
        assert train(STACK, TAGGING, *LONG, "train.freeze=2", "optim.ema=0.9", name=name) == 0
    interrupted(Path("runs/broken"))
    assert run(["train", "runs/broken", "--resume"]) == 0
    files = sorted(path.relative_to("runs/whole") for path in Path("runs/whole").rglob("last/**/*.safetensors"))
    assert len(files) == 4
    for file in files:
        assert Path("runs/whole", file).read_bytes() == Path("runs/broken", file).read_bytes(), file


def test_trees_tags_and_labels_are_those_of_words(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Words are cut into pieces here, and the sentence has specials around it; arcs and labels are the words' own."""
    rooted = f"model.upper={UPPER[:-1]}, root: {{labels: 3}}, heads: tree}}"
    assert train(STACK, rooted, TAGGING, "optim.lr=0.05", "eval.trees=true") == 0
    assert "trees" in json.loads(Path("runs/run/checkpoints/best/eval.json").read_text("utf-8"))["test"]
    sentence = "two cheap farmers folded a dark shirt"
    (found,) = loaded().analyze([sentence], latent_labels=2, channel=1, iteration=2)
    assert sum(found.heads == 0) == 1
    assert all(0.0 <= one <= 1.0 for one in found.probabilities)
    assert found.latent_labels[0].shape == (7, 2)
    # The same by hand, of the words alone.
    model = loaded()
    encoded = model.vocabulary.encode_words(sentence.split())
    assert len(encoded.ids) > 9
    network: Any = model.network
    states = network.encoder.lower(
        Words(network.unary(torch.tensor([encoded.ids])), torch.ones(1, len(encoded.ids)).bool())
    )
    scores = network.encoder.projection(states.states[:, encoded.word_start])
    words = network.encoder.upper(Words(scores, torch.ones(1, 7, dtype=torch.bool)), arcs=[2])
    chances = words.arcs[0, 0, 1].gather(-1, torch.tensor((found.heads - 1) % 8)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(found.probabilities, dtype=torch.float32), chances, rtol=1e-4, atol=1e-6)
    labels = words.states[0].softmax(-1).topk(2)
    assert labels.indices.tolist() == found.latent_labels[0].tolist()
    capfd.readouterr()
    Path("one.txt").write_text(sentence + "\n", "utf-8")
    for form in ("tree", "conllu", "jsonl"):
        assert run(["parse", "runs/run", "-f", form, "--prob", "--labels", "one.txt"]) == 0
    assert "shirt" in capfd.readouterr().out
    assert run(["eval", "runs/run", "--split", "test", "--labels", "--json"]) == 0
    described = json.loads(capfd.readouterr().out)
    assert len(described["labels"]) + len(described["unused_labels"]) == 8
    assert {one["channel"] for one in described["pairs"]} == {0, 1, 2}
    assert run(["eval", "runs/run", "--split", "test", "--uncertainty", "--json"]) == 0


def test_pieces_are_predicted_from_the_states_of_their_words(bert: Any) -> None:
    assert train(STACK, MLM.replace("output: bert, ", ""), "optim.lr=0.05", "train.epochs=2") == 0
    perplexities = [line["perplexity"] for line in metrics("runs/run", "dev") if "perplexity" in line]
    assert perplexities[-1] < perplexities[0]


def test_what_has_no_form_in_transformers_is_refused(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(STACK, TAGGING) == 0
    assert run(["export", "runs/run", "out", "--format", "hf"]) == 2
    assert "not expressible in transformers: model.kind: stacked" in capfd.readouterr().err
    assert run(["export", "runs/run", "plain"]) == 0
    assert json.loads(Path("plain/EXPORT.json").read_text("utf-8"))["largest_difference"] == 0.0
    assert run(["eval", "plain", "--split", "test", "--json"]) == 0


def test_weights_found_as_a_distribution_are_drawn(bert: Any) -> None:
    few = ["optim.ivon.predict.samples=2", "train.steps=2"]
    assert train(STACK, TAGGING, "optim={kind: ivon, lr: 0.01}", *few) == 0
    assert run(["eval", "runs/run", "--split", "test", "--uncertainty", "--json"]) == 0


def test_a_sentence_that_is_too_long_for_one_of_them_is_told_of(bert: Any, says: Says) -> None:
    short = "{kind: transformer, width: 8, heads: 2, inner: 12, layers: 1, positions: {kind: absolute, rows: 5}}"
    for name, parts in (("lower", (short, UPPER)), ("upper", (UPPER, short))):
        assert f"train with model.{name}.positions.rows=" in says(
            3, f"model={{kind: stacked, lower: {parts[0]}, upper: {parts[1]}}}", "data.test=null"
        )
