"""`model.kind: stacked` in recipes: what it says of itself, `model.lower.from`, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_recipes import SMALL, read, refused
from support import ROOT

from probtrans_cli.recipe.model import ProbabilisticTransformer, Stacked, Transformer
from probtrans_cli.recipe.reference import every_key
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe

LOWER = "{kind: transformer, width: 24, heads: 3}"
UPPER = "{kind: probabilistic, labels: 6, channels: 4, iterations: 3, root: {labels: 2}}"
STACK = f"model={{kind: stacked, lower: {LOWER}, upper: {UPPER}}}"
FROM = f"model={{kind: stacked, lower: {{kind: transformer, from: models/small}}, upper: {UPPER}}}"


def stacked(recipe: Recipe) -> Stacked:
    assert isinstance(recipe.model, Stacked)
    return recipe.model


def test_arcs_are_the_upper_encoders_and_tokens_the_lower_ones() -> None:
    model = stacked(read(SMALL, STACK))
    facts = model.facts
    assert (model.channels, model.iterations, facts.has_root, facts.has_latent_labels) == (4, 3, True, True)
    assert (facts.separate_layers, facts.position_rows, facts.segment_types) == (5, 512, 0)
    assert facts.has_arcs
    assert facts.has_ternary_scores
    upside_down = f"model={{kind: stacked, lower: {UPPER}, upper: {LOWER}}}"
    model = stacked(read(SMALL, upside_down))
    facts = model.facts
    assert (model.channels, model.iterations, facts.has_root, facts.has_latent_labels) == (3, 5, False, False)
    assert (facts.separate_layers, facts.position_rows, facts.segment_types) == (1, 512, None)


def test_automatic_values_are_filled_in_both() -> None:
    model = stacked(read(SMALL, STACK).resolved())
    assert isinstance(model.lower, Transformer)
    assert isinstance(model.upper, ProbabilisticTransformer)
    assert model.lower.head_size == 8
    assert model.upper.message_weight.heads == pytest.approx(1 / 6)


def test_a_folder_gives_the_lower_encoder_its_sizes_and_the_model_its_start(config: Path) -> None:
    recipe = read(SMALL, FROM)
    model = stacked(recipe)
    assert isinstance(model.lower, Transformer)
    assert (model.lower.preset, model.lower.width, model.lower.layers) == ("bert", 24, 2)
    assert (model.lower.pooler, model.lower.init_from, model.init_from) == (False, None, "models/small")
    assert recipe.data.vocabulary.model_dump()["folder"] == "models/small"
    text = dump_recipe(recipe.resolved())
    config.unlink()
    assert read(text) == recipe.resolved()


@pytest.mark.usefixtures("config")
def test_another_start_goes_before_the_folder_of_the_sizes() -> None:
    model = stacked(read(SMALL, FROM, "model.init_from=runs/other"))
    assert model.init_from == "runs/other"
    assert isinstance(model.lower, Transformer)
    assert model.lower.width == 24


@pytest.mark.usefixtures("config")
def test_what_contradicts_the_folder_is_named_with_its_path() -> None:
    (line,) = refused(SMALL, FROM, "model.lower.heads=4")
    assert "model.lower.heads: found 4, but config.json of `model.lower.from: models/small` says 3" in line
    (line,) = refused(SMALL, FROM, "model.lower.from=models/other")
    assert "model.lower.from: there is no folder 'models/other'" in line


def test_what_has_no_meaning_is_refused_by_name() -> None:
    table = [
        ("model.lower.init_from=runs/x", "model.lower.init_from: the weights of both start with model.init_from"),
        ("model.upper.init_from=runs/x", "model.upper.init_from: the weights of both start with model.init_from"),
        ("model.lower.bayes={}", "model.lower.bayes: the weights of a stacked model have no rule for this"),
        ("model.upper={kind: transformer, bayes: {}}", "model.upper.bayes: the weights of a stacked model have no"),
        ("model.lower.pooler=true", "model.lower.pooler: nothing would read it: set this to false"),
        ("model.upper={kind: transformer, from: x}", "model.upper.from: the upper encoder has no vectors of words"),
        ("model.upper.word_std=1.0", "model.upper.word_std: the upper encoder has no vectors of words"),
        ("model.upper={kind: transformer, segments: 2}", "model.upper.segments: the lower encoder reads segments"),
        ("model.upper.heads=trees", "model.upper.heads: Input should be 'independent' or 'tree', found `trees`"),
        ("model.lower.heads=5", "model.lower.heads: 5 heads do not divide a width of 24"),
        (
            "model.upper={kind: stacked, lower: {kind: transformer}}",
            "model.upper.kind: there is no such kind, found `stac",
        ),
        ("model.bayes={}", "model.bayes: unknown key"),
        ("model={kind: stacked}", "model.lower: this key is missing; its kinds are probabilistic"),
        ("task.output=tied", "task.output: words have vectors of the lower encoder's"),
        ("task.output=bert", "task.output: `bert` is for a transformer, and model.kind is stacked"),
        ("eval.channel=4", "eval.channel: found 4, but the model has channels 0 to 3"),
        ("eval.iteration=4", "eval.iteration: found 4, wanted -1 or an iteration of the model, 1 to 3"),
        ("train.freeze=2", "train.freeze: what is frozen must be trained"),
        ("model.init_from=x|train.freeze=6", "train.freeze: found 6, but the model has 5 layers"),
        ("optim={kind: ivon, ivon: {predict: {kind: moments}}}", "no rule for the moments of `model.kind: stacked`"),
        ("data.vocabulary={kind: char}|model.upper.head_bias={}", "model.upper.head_bias: it counts words"),
    ]
    for change, message in table:
        (line,) = refused(SMALL, STACK, *change.split("|"))
        assert message in line


def test_all_layers_of_the_lower_encoder_may_be_frozen() -> None:
    assert read(SMALL, STACK, "model.init_from=x", "train.freeze=5").train.freeze == 5


def test_a_matrix_that_would_exhaust_the_machine_is_refused() -> None:
    """Each encoder alone would fit."""
    lower = "{kind: transformer, width: 90000, heads: 1, head_size: 1, inner: 1, layers: 1, positions: {kind: none}}"
    upper = "{kind: probabilistic, labels: 90000, channels: 1, decomposition: {kind: uv, rank: 1}, distance: null}"
    for alone in (lower, upper):
        read(SMALL, f"model={alone}")
    (line,) = refused(SMALL, f"model={{kind: stacked, lower: {lower}, upper: {upper}}}")
    assert "model.upper: this would be 8,100,000,000 numbers" in line


def test_two_texts_and_positions_are_matters_of_the_lower_encoder() -> None:
    pairs = SMALL.replace("kind: mlm", "kind: pretrain").replace("a.conllu", "a.txt").replace("  dev: b.conllu\n", "")
    few = ["model.lower.segments=1", "model.lower.positions={kind: absolute, rows: 5}"]
    lines = refused(pairs, "data.format=documents", STACK, *few)
    assert any("model.lower.segments: two texts have two segments" in line for line in lines)
    assert any("model.lower.positions.rows: found 5, less than" in line for line in lines)
    above = "model.upper={kind: transformer, positions: {kind: absolute, rows: 7}}"
    lines = refused(pairs, "data.format=documents", STACK, above)
    assert any("model.upper.positions.rows: found 7, less than" in line for line in lines)


def test_the_reference_tells_of_an_encoders_keys_once() -> None:
    paths = {path for path, _ in every_key()}
    assert {("model", "lower"), ("model", "upper"), ("model", "labels")} <= paths
    assert not {path for path in paths if path[:2] == ("model", "lower") and len(path) > 2}
    assert "#### `model`, `kind: stacked`" in (ROOT / "docs" / "recipe-reference.md").read_text("utf-8")
