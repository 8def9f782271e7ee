"""Where a recipe is found; and `model.from`: what a BERT folder says of a model is written into the recipe."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from small_recipes import FULL, SMALL, read, refused

from probtrans_cli.errors import RecipeError, UsageError
from probtrans_cli.recipe import source as recipe_source
from probtrans_cli.recipe.model import Transformer
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import describe, dump_recipe, load_recipe, shipped_recipes

FROM = "model={kind: transformer, from: models/small}"


def transformer(recipe: Recipe) -> Transformer:
    assert isinstance(recipe.model, Transformer)
    return recipe.model


@pytest.mark.usefixtures("config")
def test_sizes_weights_and_vocabulary_are_those_of_the_folder() -> None:
    recipe = read(SMALL, FROM)
    assert transformer(recipe) == Transformer.model_validate(
        {
            "kind": "transformer", "preset": "bert", "width": 24, "heads": 3, "layers": 2, "inner": 40,
            "activation": "gelu_tanh", "dropout": 0.2, "attention_dropout": 0.3, "embedding_dropout": 0.2,
            "positions": {"kind": "absolute", "rows": 64}, "segments": 1, "norm_eps": 1e-7, "std": 0.03,
            "init_from": "models/small",
        }
    )  # fmt: skip
    assert recipe.data.vocabulary.model_dump()["folder"] == "models/small"
    assert recipe.data.vocabulary.kind == "wordpiece"


def test_what_is_written_out_does_not_need_the_folder(config: Path) -> None:
    recipe = read(SMALL, FROM).resolved()
    written = dump_recipe(recipe)
    config.unlink()
    assert read(written) == recipe
    assert "\n  from: null\n" in written


@pytest.mark.usefixtures("config")
def test_what_changes_no_tensor_may_be_said_beside_it() -> None:
    beside = "model={kind: transformer, from: models/small, dropout: 0.0, pooler: false, head_size: 8, layers: 2}"
    model = transformer(read(SMALL, beside))
    assert (model.dropout, model.attention_dropout, model.pooler, model.head_size) == (0.0, 0.3, False, 8)
    for start in ("null", "runs/other"):
        model = transformer(read(SMALL, FROM, f"model.init_from={start}"))
        assert (model.init_from or "null", model.width) == (start, 24)
    words = read(SMALL, FROM, "data.vocabulary={kind: words}")
    assert words.data.vocabulary.kind == "words"


@pytest.mark.usefixtures("config")
def test_another_kind_of_model_forgets_it() -> None:
    recipe = read(SMALL + "model: {kind: transformer, from: models/small}\n", "model.kind=probabilistic")
    assert recipe.model.kind == "probabilistic"
    assert recipe.model.init_from is None
    assert recipe.data.vocabulary.kind == "words"
    plain = transformer(read(SMALL + "model: {kind: transformer, from: models/small}\n", "model.from=null"))
    assert plain == Transformer(kind="transformer")


@pytest.mark.usefixtures("config")
def test_what_contradicts_the_folder_is_refused_and_both_are_named() -> None:
    for key, value, there in (
        ("heads", "12", "3"),
        ("width", "48", "24"),
        ("norm", "pre", "post"),
        ("share_layers", "true", "false"),
        ("head_size", "16", "8"),
        ("activation", "gelu", "gelu_tanh"),
        ("positions", "{kind: absolute, rows: 65}", '{"kind": "absolute", "rows": 64}'),
    ):
        (message,) = refused(SMALL + f"model:\n  kind: transformer\n  from: models/small\n  {key}: {value}\n")
        assert message.startswith(f"r.yaml:11:{len(key) + 5}: model.{key}: found ")
        assert message.endswith(f"but config.json of `model.from: models/small` says {there}: leave one of them out")


def test_folders_that_are_none_are_refused_in_one_line(config: Path) -> None:
    (message,) = refused(SMALL, "model={kind: transformer, from: models/minilm}")
    assert "model.from: there is no folder 'models/minilm' (tried models/minilm, " in message
    assert message.endswith("run `probtrans fetch minilm`")
    causal = "model={kind: transformer, causal: true, from: models/gone}"
    (message,) = refused(SMALL, "task={kind: lm}", causal)
    assert "model.from: there is no folder 'models/gone'" in message
    small = json.loads(config.read_text("utf-8"))
    for content, words in (
        ({**small, "hidden_size": 0}, "config.json: hidden_size: Input should be greater than or equal to 1, found 0"),
        ({**small, "model_type": "roberta"}, "config.json: model_type: 'roberta' is unsupported"),
        ({**small, "hidden_size": 300_000}, "config.json: larger than any model may be: width"),
        ([], "config.json: not a JSON object"),
    ):
        config.write_text(json.dumps(content), encoding="utf-8")
        (message,) = refused(SMALL, FROM)
        assert words in message
    config.unlink()
    (message,) = refused(SMALL, FROM)
    assert message.endswith("config.json: there is no such file")


@pytest.mark.usefixtures("config")
def test_other_faults_are_told_of_at_the_same_time() -> None:
    lines = refused(SMALL, "model={kind: transformer, from: models/small, heads: 4}", "optim.lr=-1", "train.epoch=3")
    for words in (
        "model.heads: found 4, but",
        "optim.lr: Input should be greater than 0, found `-1`",
        "train.epoch: unknown key",
    ):
        assert any(words in line for line in lines)
    assert len(lines) == 3


def test_what_is_no_path_is_refused_by_the_schema() -> None:
    for value in ("3", "[a]", "{a: b}", '""'):
        (line,) = refused(SMALL, f"model={{kind: transformer, from: {value}}}")
        assert re.search(r": model\.from: (Input|String) should .*, found ", line)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder with two shipped recipes beside it, and an empty current folder."""
    package, here = tmp_path / "checkout" / "probtrans_cli", tmp_path / "here"
    (package.parent / "recipes").mkdir(parents=True)
    (package / "recipe").mkdir(parents=True)
    here.mkdir()
    (package.parent / "recipes" / "quickstart.yaml").write_text(SMALL)
    (package.parent / "recipes" / "other.yaml").write_text(FULL)
    monkeypatch.setattr(recipe_source, "__file__", str(package / "recipe" / "source.py"))
    monkeypatch.chdir(here)
    return here


def test_shipped_recipes_by_name(shelf: Path) -> None:
    assert list(shipped_recipes()) == ["other", "quickstart"]
    assert load_recipe("quickstart").name == load_recipe("quickstart.yaml").name == "small"
    assert describe(shipped_recipes()["quickstart"]) == "Smallest recipe"
    assert describe(shipped_recipes()["other"]) == "A recipe with most keys"
    (shelf / "quickstart").mkdir()
    assert load_recipe("quickstart").name == "small"
    (shelf / "quickstart" / "recipe.yaml").write_text(FULL)
    assert load_recipe("quickstart").name == "full"
    (shelf / "other.yaml").write_text(SMALL)
    assert load_recipe("other.yaml", ["seed=5"]).seed == 5
    assert load_recipe("other.yaml").name == "small"
    installed = Path(recipe_source.__file__).parents[1] / "recipes"
    installed.mkdir()
    (installed / "only.yaml").write_text(SMALL)
    assert list(shipped_recipes()) == ["only"]


def test_names_of_nothing(shelf: Path) -> None:
    with pytest.raises(UsageError, match="did you mean `quickstart`") as caught:
        load_recipe("quikstart")
    assert "--list" in str(caught.value.hint)
    (shelf / "empty").mkdir()
    with pytest.raises(UsageError, match=r"the folder empty has no recipe\.yaml"):
        load_recipe("empty")
    for name in ("", "x\0y", "a" * 5000, "nowhere/x.yaml", "\ud800", "quickstart/x"):
        with pytest.raises(UsageError):
            load_recipe(name)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert load_recipe("-").name == "small"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nme: x")))
    with pytest.raises(RecipeError, match=r"<stdin>:1:1: nme: unknown key; did you mean `name`"):
        load_recipe("-")


def test_describe_without_header(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\n# late\n")
    assert describe(path) == ""
