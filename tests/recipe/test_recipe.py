"""Recipes: what is read, what is refused and how, overrides, and writing them back."""

from __future__ import annotations

import io
import math
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from probtrans_cli.errors import RecipeError, UsageError
from probtrans_cli.recipe import faults, kinds
from probtrans_cli.recipe import reference as recipe_reference
from probtrans_cli.recipe import source as recipe_source
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.data import FORMATS
from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import describe, dump_recipe, load_recipe, read_recipe, shipped_recipes
from probtrans_cli.recipe.task import TASKS
from probtrans_cli.recipe.yaml import LARGEST, read_tree, scalar_value, write_scalar

ROOT = Path(__file__).resolve().parents[2]

SMALL = """\
# Smallest recipe
name: small
data:
  train: a.conllu
  dev: b.conllu
task:
  kind: mlm
"""

FULL = """\
# yaml-language-server: $schema=./schema.json
# A recipe with most keys
version: 1
name: full
seed: 7
data:
  train: [a.conllu, b.conllu]
  dev: dev.conllu
  vocabulary:
    kind: words
    min_count: 2
    lowercase: true
task:
  kind: tagging
  column: xpos
model:
  kind: probabilistic
  labels: 64
  channels: 4
  decomposition:
    kind: uv
    rank: 16
  distance: 3
optim:
  kind: adam
  lr: 1e-3
  betas: [0.9, 0.98]
  schedule:
    kind: plateau
    factor: .5
    patience: 3
train:
  epochs: 1e2
  batch_words: 1024
eval:
  channel: 2
"""


def read(text: str | bytes, *overrides: str) -> Recipe:
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return read_recipe(content, "r.yaml", overrides)


def refused(text: str | bytes, *overrides: str) -> list[str]:
    """The lines of the error that a recipe gives."""
    with pytest.raises(RecipeError) as caught:
        read(text, *overrides)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    return caught.value.message.split("\n")


def message_of(text: str, *overrides: str) -> str:
    """What a recipe is refused with, "" where it is read. Any other exception fails the test."""
    try:
        assert isinstance(read(text, *overrides), Recipe)
    except RecipeError as error:
        return error.message
    return ""


# --- scalars ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1e5", 100_000),
        (".5", 0.5),
        ("5.", 5),
        ("+3", 3),
        ("-4", -4),
        ("0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e2", 100),
        ("2.50", 2.5),
        ("1_000", "1_000"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1e400", math.inf),
        ("e5", "e5"),
        (".", "."),
        ("1e", "1e"),
        ("0b1", "0b1"),
        ("=", "="),
    ],
)
def test_scalars_mean_what_people_mean(text: str, value: object) -> None:
    assert scalar_value(text) == value
    assert type(scalar_value(text)) is type(value)


def test_not_a_number_and_minus_zero() -> None:
    nan = scalar_value(".nan")
    assert isinstance(nan, float)
    assert math.isnan(nan)
    zero = scalar_value("-0.0")
    assert isinstance(zero, float)
    assert math.copysign(1, zero) == -1


def test_integers_and_floats_stand_in_for_each_other() -> None:
    recipe = read(SMALL, "train.epochs=1e2", "optim.clip=5", "optim.lr=1", "seed=3.0", "eval.channel=2.0")
    assert recipe.train.epochs == 100
    assert (recipe.optim.clip, recipe.optim.lr, recipe.seed, recipe.eval.channel) == (5.0, 1.0, 3, 2)
    assert isinstance(recipe.train.epochs, int)
    assert isinstance(recipe.optim.clip, float)
    assert "found 2.5, wanted a whole number ≥ 1" in refused(SMALL, "train.epochs=2.5")[0]


def test_octal_like_numbers_are_refused_once() -> None:
    assert refused(FULL.replace("seed: 7", "seed: 010")) == [
        "r.yaml:5:7: seed: `010` is octal to some readers of YAML and decimal to others; "
        "write 10, or quote it if it is text"
    ]


# --- faults -----------------------------------------------------------------------------------------------------------

SYNTAX = [
    ("", "r.yaml:1:1: the recipe is empty"),
    ("# only a comment\n", "r.yaml:2:1: the recipe is empty"),
    ("---\n", "the recipe is empty"),
    ("{}", "the recipe is empty"),
    ("- a\n- b\n", "r.yaml:1:1: a recipe consists of `key: value` lines, found a list of 2"),
    ("just text", "found the text 'just text'"),
    (SMALL + "---\nname: two\n", "r.yaml:8:1: a second document begins here"),
    (SMALL + "seed:\t1\n\tx: 1\n", "a tab; indent with spaces"),
    (SMALL + "   seed: 1\n", "r.yaml:8:"),
    (SMALL + "seed: a: b\n", "r.yaml:8:8: a `:` where none can stand"),
    (SMALL + "seed: [1, 2\n", "the list `[` of line 8 is not closed"),
    (SMALL + "seed: {a: 2\n", "the section `{` of line 8 is not closed"),
    (SMALL + "seed: 'x\n", "the quotes of line 8 are not closed"),
    (SMALL + "seed\noptim: {}\n", "r.yaml:9:1: the line before this is neither"),
    (SMALL + "seed: @x\n", "must be in quotes"),
    (SMALL + "seed: *.x\n", "text that begins with * or & must be in quotes"),
    (SMALL + "seed: !!python/object/apply:os.system [x]\n", "r.yaml:8:7: seed: tags"),
    (SMALL + "seed: !x 1\n", "tags"),
    (SMALL + "seed: &a 1\n", "r.yaml:8:7: seed: `&a` is an anchor"),
    (SMALL + "seed: *a\n", "r.yaml:8:7: seed: `*a` is an alias"),
    (SMALL + "optim: {<<: {lr: 1}}\n", "r.yaml:8:9: optim: `<<` merges are not used"),
    (SMALL + "1: x\n", "r.yaml:8:1: a key must be text, found 1"),
    (SMALL + "? [a, b]\n: x\n", "a key must be text, found a list of 2"),
    (SMALL + "? {a: 1}\n: x\n", "a key must be text, found a section"),
    (SMALL + "null: x\n", "a key must be text, found nothing (null)"),
    (SMALL + 'seed: "\\UFFFFFFFF"\n', "r.yaml:8:"),
    (SMALL + 'seed: "\\q"\n', "escape"),
    (SMALL + "seed: \x07\n", "r.yaml:8:7: the character \\x07 may not stand in a recipe"),
    (SMALL + "%YAML 3.0\n", "r.yaml:8:1"),
    ("%YAML 3.0\n---\nname: x\n", "r.yaml:1:"),
    ("name: x\nname: y\nname: z\n", "r.yaml:2:1: name: the key is given twice, first in line 1, column 1; keep one"),
    ("[" * 10_000, "nested more than"),
    ("{" * 10_000, "nested more than"),
    ("a: " + "[" * 10_000 + "]" * 10_000, "nested more than"),
    ("".join(f"{' ' * depth}a:\n" for depth in range(300)), "nested more than"),
    ("- " * 10_000, "nested more than"),
    ("? " * 10_000, "nested more than"),
]


@pytest.mark.parametrize(("text", "message"), SYNTAX)
def test_broken_yaml(text: str, message: str) -> None:
    lines = refused(text)
    assert any(message in line for line in lines), lines
    assert all(re.match(r"r\.yaml:\d+:\d+: ", line) for line in lines)


def test_bytes_that_are_no_text() -> None:
    assert refused(SMALL.encode() + b"seed: \xff\n") == [
        "r.yaml:8:7: the byte 0xff is not UTF-8; save the file as UTF-8"
    ]
    assert "larger than 256 KiB" in refused(b"#" * (LARGEST + 1))[0]
    assert read(b"\xef\xbb\xbf" + SMALL.encode()).name == "small"
    assert read(SMALL.replace("\n", "\r\n")).name == "small"


def test_alias_bomb_is_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdef", "bcdefg", strict=True))
    assert sum("anchor" in line for line in refused(bomb)) == 7
    assert any("a[0]: `*a` is an alias" in line for line in refused("a: &a [*a]\n"))


VALUES = [
    ("seed: fast", "8:7: seed: found the text 'fast', wanted a whole number ≥ 0"),
    ("seed: '3'", "8:7: seed: found the text '3', wanted a whole number ≥ 0; write it without quotes"),
    ("seed: -1", "8:7: seed: found -1, wanted a whole number ≥ 0"),
    ("seed: 99999999999999999999999", "wanted a whole number ≥ 0 and < 2147483648"),
    ("seed:", "8:6: seed: found nothing (null), wanted a whole number ≥ 0"),
    ("seed: true", "found true, wanted a whole number"),
    ("sed: 1", "8:1: sed: unknown key; did you mean `seed`?"),
    ("lr: 1", "8:1: lr: unknown key; `lr` belongs to `optim`"),
    ("xyzzy: 1", "8:1: xyzzy: unknown key; the top level has version, name"),
    (
        "model: {decomposition: uvw}",
        "wanted a section with `kind:` `none`, `uv`, `uvw`, `shared` or `rotary`; write `{kind: uvw}`",
    ),
    (
        "model: {globals: all-dp}",
        "model.globals: found the text 'all-dp', wanted a section or `null`; write `{kind: all-dep}`",
    ),
    ("optim: {schedul: 3}", "8:9: optim.schedul: unknown key; did you mean `schedule`?"),
    ("optim: {patience: 3}", "`patience` belongs to `optim.schedule` and `train`"),
    ("optim:", "8:7: optim: found nothing (null), wanted a section; give it keys, or delete the line for the default"),
    ("optim: 3", "optim: found 3, wanted a section"),
    ("optim: [1]", "optim: found a list of 1, wanted a section"),
    ("optim: {lr: 0}", "8:13: optim.lr: found 0, wanted a number > 0"),
    ("optim: {lr: .nan}", "8:13: optim.lr: found .nan, wanted a number > 0"),
    ("optim: {lr: .inf}", "8:13: optim.lr: found .inf, wanted a number > 0"),
    ("optim: {lr: 1e999}", "8:13: optim.lr: found 1e999, wanted a number > 0"),
    ("optim: {ema: 1}", "optim.ema: found 1, wanted a number > 0 and < 1 or `null`"),
    ("optim: {betas: 0.9}", "optim.betas: found 0.9, wanted a list of 2, each a number ≥ 0 and < 1"),
    ("optim: {betas: [0.9]}", "optim.betas: found a list of 1, wanted a list of 2"),
    ("optim: {betas: [.9, .9, .9]}", "optim.betas: found a list of 3, wanted a list of 2"),
    ("optim: {betas: [.9, fast]}", "8:21: optim.betas[1]: found the text 'fast', wanted a number ≥ 0 and < 1"),
    ("optim: {schedule: {kind: step}}", "8:26: optim.schedule.kind: found the text 'step', wanted `plateau`, `cosine`"),
    ("optim: {schedule: {kind: [a]}}", "8:26: optim.schedule.kind: found a list of 1, wanted `plateau`"),
    ("optim: {schedule: {kind: 3}}", "8:26: optim.schedule.kind: found 3, wanted `plateau`"),
    ("optim: {schedule: {factor: .5}}", "8:20: optim.schedule.factor: unknown key with `kind: cosine`; it belongs to"),
    ("optim: {schedule: cosine}", "8:19: optim.schedule: found the text 'cosine', wanted a section with `kind:`"),
    ("optim: {schedule: {kind: cosine, factor: .5}}", "8:34: optim.schedule.factor: unknown key with `kind: cosine`"),
    (
        "model: {kind: probabilstic}",
        "model.kind: found the text 'probabilstic', wanted `probabilistic` or `transformer`; did you mean",
    ),
    (
        "model: {kind: transformer, labels: 3}",
        "8:28: model.labels: unknown key with `kind: transformer`; it belongs to",
    ),
    ("model: {kind: transformer, heads: 7}", "model.heads: 7 heads do not divide a width of 384"),
    ("model: {decomposition: {kind: uv, rank: 0}}", "8:41: model.decomposition.rank: found 0, wanted a whole number"),
    ("runtime: {compile: yes}", "8:20: runtime.compile: found the text 'yes', wanted `true` or `false`; write true"),
    ("runtime: {threads: 1_000}", "runtime.threads: found the text '1_000', wanted a whole number ≥ 1 or `null`"),
    ("eval: {channel: bst}", "eval.channel: found the text 'bst', wanted `mean` or `best` or a whole number ≥ 0;"),
    ("eval: {channel: 16}", "8:17: eval.channel: found 16, but the model has channels 0 to 15"),
    ("eval: {iteration: 0}", "8:19: eval.iteration: found 0, wanted -1 or an iteration of the model, 1 to 5"),
    ("version: 2", "8:10: version: found 2, wanted `1`"),
]


@pytest.mark.parametrize(("line", "message"), VALUES)
def test_wrong_values(line: str, message: str) -> None:
    lines = refused(SMALL + line + "\n")
    assert len(lines) == 1
    assert message.replace(" or a whole", ", or a whole").replace(", or", " or") in lines[0].replace(", or", " or")


def test_missing_keys_have_the_position_of_their_section() -> None:
    assert refused("# x\nname: a\ndata:\n  dev: x\n") == [
        "r.yaml:2:1: task: this key is missing; it takes a section with `kind:` `mlm`, `tagging`, "
        "`ner`, `classification`, `cogs` or `pretrain`",
        "r.yaml:4:3: data.train: this key is missing; it takes text or a list of text",
    ]


def test_text_and_lists_of_text() -> None:
    assert "data.train: found an empty text" in refused(SMALL, "data.train=''")[0]
    assert "data.train: found an empty list" in refused(SMALL, "data.train=[]")[0]
    assert "data.train[1]: found 3, wanted text; put it in quotes" in refused(SMALL, "data.train=[a,3]")[0]
    assert read(SMALL, "data.train=[a, b]").data.train == ["a", "b"]
    assert "name: found 2024, wanted text of letters" in refused(SMALL, "name=2024")[0]
    assert "name: found the text '../x'" in refused(SMALL, "name=../x")[0]
    assert "\x1b" not in refused(SMALL, 'name="\\e[31m"')[0]


def test_all_faults_at_once_in_the_order_of_the_file_then_of_the_overrides() -> None:
    text = (
        FULL.replace("labels: 64", "lables: 64").replace("lr: 1e-3", "lr: 1e-3\n  lr: 2").replace("seed: 7", "seed: x")
    )
    lines = refused(text, "train.epochs=0", "eval.chanel=1", "broken=[1", "betas[0]=1", "save.keep=no")
    assert [line.split(": ")[0] for line in lines] == [
        "r.yaml:5:7",
        "r.yaml:18:3",
        "r.yaml:27:3",
        "override 'train.epochs=0'",
        "override 'eval.chanel=1'",
        "override 'broken=[1'",
        "override 'betas[0]=1'",
        "override 'save.keep=no'",
    ]


def test_inconsistent_values_are_all_told() -> None:
    lines = refused(
        SMALL, "data.dev=null", "optim.schedule.kind=plateau", "train.patience=2", "eval.channel=99", "model.channels=3"
    )
    assert len(lines) == 3
    assert "override 'optim.schedule.kind=plateau': optim.schedule.kind: `plateau` needs data.dev" in lines[0]
    assert "0 to 2" in lines[2]
    assert "plain text has no tags" in refused(SMALL, "task.kind=tagging", "data.format=text")[0]
    with pytest.raises(ValidationError, match=r"train\.patience: patience needs data\.dev"):
        Recipe.model_validate({**yaml.safe_load(SMALL), "train": {"patience": 2}, "data": {"train": "x"}})
    assert issubclass(InconsistentError, ValueError)


def test_many_faults_are_cut_short() -> None:
    lines = refused(SMALL + "".join(f"key{number}: 1\n" for number in range(500)))
    assert len(lines) == faults.MOST_FAULTS + 1
    assert lines[-1].startswith("… and ")


# --- overrides --------------------------------------------------------------------------------------------------------


def test_overrides_set_values_in_order() -> None:
    recipe = read(
        SMALL, "optim.lr=1", "optim.lr=3e-4", "data.train='[a,b]'", "data.test=[a.conllu,b.conllu]", "seed= 4"
    )
    assert recipe.optim.lr == 3e-4
    assert recipe.data.train == "[a,b]"
    assert recipe.data.test == ["a.conllu", "b.conllu"]
    assert recipe.seed == 4
    assert read(SMALL, "optim.clip=").optim.clip is None
    assert read(SMALL, "data.dev=a=b").data.dev == "a=b"
    assert read(SMALL, "data={train: x}").data.dev is None


def test_a_section_without_a_kind_is_of_the_kind_that_leaving_it_out_means() -> None:
    assert read(SMALL + "optim: {schedule: {warmup: .2}}\n").optim.schedule.kind == "cosine"
    assert read(SMALL + "model: {labels: 8}\n").model == ProbabilisticTransformer(labels=8)
    assert read(SMALL + "model: {labels: 8}\n", "model.kind=transformer").model == Transformer(kind="transformer")
    assert read(SMALL, "model={labels: 8}", "model.channels=2").model == ProbabilisticTransformer(labels=8, channels=2)
    no_default = SMALL.replace("kind: mlm", "eval_masks: 2")
    assert refused(no_default) == [
        "r.yaml:7:3: task: `kind` is missing; it is one of `mlm`, `tagging`, `ner`, `classification`, `cogs`, "
        "`pretrain`"
    ]


def test_overrides_make_missing_sections_of_the_default_kind() -> None:
    assert read(SMALL, "model.decomposition.rank=3").model.decomposition.model_dump() == {"kind": "uv", "rank": 3}
    schedule = read(SMALL, "optim.schedule.warmup=.2").optim.schedule
    assert (schedule.kind, read(SMALL + "optim:\n", "optim.lr=2").optim.lr) == ("cosine", 2.0)
    assert "unknown key with `kind: cosine`" in refused(SMALL, "optim.schedule.factor=.2")[0]


def test_another_kind_drops_the_keys_that_only_the_old_one_has() -> None:
    assert read(FULL, "model.decomposition.kind=none").model.decomposition.kind == "none"
    assert read(FULL, "model.decomposition={kind: none}").model.decomposition.kind == "none"
    assert read(FULL, "model.decomposition.kind=uvw").model.decomposition.model_dump() == {"kind": "uvw", "rank": 16}
    assert read(FULL, "optim.schedule.kind=cosine", "optim.schedule.final=.1").optim.schedule.kind == "cosine"
    for order in (1, -1):
        overrides = ("model.decomposition.kind=none", "model.decomposition.rank=3")[::order]
        lines = refused(FULL, *overrides)
        assert len(lines) == 1
        assert lines[0].startswith("override 'model.decomposition.rank=3': model.decomposition.rank: unknown key")
    typo = FULL.replace("    rank: 16", "    rnak: 16")
    assert "unknown key" in refused(typo, "model.decomposition.kind=none")[0]
    assert "unknown key" in refused(FULL.replace("kind: uv", "kind: none"))[0]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.betas.0=.9", "a list is set as a whole: optim.betas='[…, …]'"),
        ("optim.betas[0]=.9", "a list is set as a whole: optim.betas='[…, …]'"),
        ("data.train.x=.9", "data.train: holds a list of 2, not a section"),
        ("name.x=1", "name: holds the text 'full', not a section"),
        ("=1", "left of `=` stands a key such as optim.lr"),
        (".a=1", "left of `=` stands a key such as optim.lr"),
        ("a..b=1", "left of `=` stands a key such as optim.lr"),
        ("a b=1", "left of `=` stands a key such as optim.lr"),
        ("optim.lr=[1", "optim.lr: the value is not YAML: the list `[` of line 1 is not closed"),
        ("optim.lr=\x00", "the character \\x00 may not stand in a recipe"),
        ("optim={lr: 1, lr: 2}", "optim.lr: the key is given twice, first in the same override"),
        ("optim=!x {}", "optim: tags"),
        ("seed=*a", "seed: `*a` is an alias"),
        ("seed=" + "[" * 5000, "nested more than"),
        ("a" * 5000 + "=1", "unknown key"),
        (".".join("a" * 500) + "=1", "more than 16 levels deep"),
        ("sed=1", "sed: unknown key; did you mean `seed`?"),
    ],
)
def test_faulty_overrides(override: str, message: str) -> None:
    lines = refused(FULL, override)
    assert lines[0].startswith("override '")
    assert message in lines[0]
    assert len(lines) == 1


def test_an_override_without_equals_sign() -> None:
    with pytest.raises(UsageError, match="'--fast' is not an override") as caught:
        read(SMALL, "--fast")
    assert "optim.lr=3e-4" in str(caught.value.hint)


# --- finding ----------------------------------------------------------------------------------------------------------


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


def test_recipes_of_this_repository_are_valid() -> None:
    for path in shipped_recipes().values():
        assert load_recipe(str(path)).name
        assert describe(path)


# --- writing ----------------------------------------------------------------------------------------------------------

SCHEMA = recipe_reference.json_schema()
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.sampled_from(
        ["no", "1e3", "a: b", "# x", "010", " x ", "\x85", "\u2028", "\ufeff", "~", "'", '"', "\\", "a:", "\x7f"]
    ),
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a schema, sections with some of their keys."""
    if "$ref" in schema:
        return values(SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    for union in ("oneOf", "anyOf"):
        if union in schema:
            return st.one_of([values(branch) for branch in schema[union]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" in schema:
        return st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")
    if schema["type"] == "object":
        required = set(schema.get("required", ()))
        fields = {key: values(field) for key, field in schema["properties"].items()}
        return st.fixed_dictionaries(
            {key: fields[key] for key in sorted(required)},
            optional={key: field for key, field in fields.items() if key not in required},
        )
    if schema["type"] == "array":
        if "prefixItems" in schema:
            return st.tuples(*[values(item) for item in schema["prefixItems"]]).map(list)
        return st.lists(values(schema["items"]), min_size=1, max_size=3)
    low, above = schema.get("minimum", schema.get("exclusiveMinimum")), "exclusiveMinimum" in schema
    high, below = schema.get("maximum", schema.get("exclusiveMaximum")), "exclusiveMaximum" in schema
    if schema["type"] == "integer":
        step = schema.get("multipleOf", 1)
        high = 2**31 - 1 if high is None or below else high
        return st.integers(-1 if low is None else -(-low // step), high // step).map(lambda value: value * step)
    if schema["type"] == "number":
        return st.floats(low, high, exclude_min=above, exclude_max=below, allow_nan=False, allow_infinity=False)
    return {"boolean": st.booleans(), "null": st.none(), "string": TEXTS}[schema["type"]]


RECIPES = values(SCHEMA)


def valid(content: Any) -> Recipe:
    """A recipe of this content, with files that its task can learn from."""
    content.get("eval", {}).update(iteration=-1, channel="best")
    data, kind = content["data"], content["task"]["kind"]
    fitting = [name for name, one in FORMATS.items() if TASKS[kind].needs in one.gives]
    if data.get("format", "auto") not in fitting:
        data["format"] = fitting[0]
    for name in ("columns", "table", "jsonl", "documents"):
        if name in data and data.get("format") != name:
            del data[name]
    if data.get("format") == "columns" and kind == "ner":
        data.setdefault("columns", {})["entities"] = "bioes"
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        assume(not all(isinstance(one.get("ctx", {}).get("error"), InconsistentError) for one in error.errors()))
        raise


@settings(max_examples=80, deadline=None)
@given(RECIPES, st.lists(TEXTS, max_size=2))
def test_written_and_read_again_a_recipe_is_equal(content: Any, header: list[str]) -> None:
    recipe = valid(content)
    text = dump_recipe(recipe, header)
    assert read(text) == recipe
    assert dump_recipe(read(text)) == dump_recipe(recipe)
    resolved = recipe.resolved()
    assert read(dump_recipe(resolved)) == resolved


@settings(max_examples=80, deadline=None)
@given(RECIPES)
def test_readers_of_yaml_1_1_agree_with_what_is_written(content: Any) -> None:
    recipe = valid(content)
    loaded = yaml.safe_load(dump_recipe(recipe))
    dumped = recipe.model_dump()
    dumped["optim"]["betas"] = list(dumped["optim"]["betas"])
    assert loaded == dumped


LEAVES = [(path, schema) for path, schema in recipe_reference.every_key() if not recipe_reference.kinds(schema)]


@st.composite
def changes(draw: st.DrawFn) -> tuple[tuple[str, ...], Any]:
    path, schema = draw(st.sampled_from([leaf for leaf in LEAVES if leaf[0][-1] != "kind"]))
    return path, draw(values(dict(schema)))


@settings(max_examples=200, deadline=None)
@given(st.lists(changes(), max_size=4))
def test_overrides_do_what_editing_the_file_does(drawn: list[tuple[tuple[str, ...], Any]]) -> None:
    content = yaml.safe_load(SMALL)
    overrides = []
    for path, value in drawn:
        overrides.append(f"{'.'.join(path)}={recipe_reference.write_value(value)}")
        section, schema = content, dict(recipe_reference.root())
        for part in path[:-1]:
            kind = section.get("kind", "") if recipe_reference.has_kinds(schema) else ""
            schema = recipe_reference.kinds(schema).get(kind, {}).get("properties", {}).get(part, {})
            default = schema.get("default") or {}
            section = section.setdefault(
                part, {"kind": default["kind"]} if recipe_reference.has_kinds(schema) and default else {}
            )
        section[path[-1]] = value
    try:
        expected = Recipe.model_validate(content)
    except ValidationError:
        refused(SMALL, *overrides)
    else:
        assert read(SMALL, *overrides) == expected
        assert read(dump_recipe(expected)) == expected


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example("\x00")
def test_texts_survive(text: str) -> None:
    tree, faults = read_tree(f"a: {write_scalar(text)}\nb: [{write_scalar(text)}, 1]\n", "x")
    assert not faults
    assert tree is not None
    assert recipe_source.plain(tree) == {"a": text, "b": [text, 1]}
    assert yaml.safe_load(f"[{write_scalar(text)}]") == [text]


def test_floats_are_floats_to_every_reader() -> None:
    assert [write_scalar(number) for number in (1e-5, 1e16, 0.1, 3.0, 1.5e-9)] == [
        "1.0e-05",
        "1.0e+16",
        "0.1",
        "3.0",
        "1.5e-09",
    ]


def test_headers_are_comments() -> None:
    text = dump_recipe(read(SMALL), ["probtrans train x\nname: evil", "a\x1b\u2028name: z", ""])
    assert text.startswith("# probtrans train x\n# name: evil\n# a\\x1b\n# name: z\n#\nversion: 1\n")
    assert read(text) == read(SMALL)


# --- malformed recipes ------------------------------------------------------------------------------------------------

Change = Callable[[random.Random, list[str]], None]

JUNK = [
    "\t",
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!x ",
    "'",
    '"',
    "|",
    ">",
    "%",
    "@",
    "`",
    "#",
    "---\n",
]
WRONG = [
    "fast",
    "[1]",
    "{a: 1}",
    "-1",
    "1e999",
    ".nan",
    "99999999999999999999",
    "yes",
    "010",
    "''",
    "3.7",
    "*x",
    "!!int 3",
]


def _line_with_value(chance: random.Random, lines: list[str]) -> int:
    return chance.choice([number for number, line in enumerate(lines) if re.search(r": \S", line) and line[0] != "#"])


def _wrong_value(chance: random.Random, lines: list[str]) -> None:
    number = _line_with_value(chance, lines)
    lines[number] = re.sub(r": .*", lambda _: ": " + chance.choice(WRONG), lines[number])


def _unknown_key(chance: random.Random, lines: list[str]) -> None:
    number = _line_with_value(chance, lines)
    lines[number] = re.sub(r"(\w+):", lambda found: f"{found[1]}{chance.choice('xé_')}:", lines[number], count=1)


def _twice(chance: random.Random, lines: list[str]) -> None:
    number = _line_with_value(chance, lines)
    lines.insert(number, lines[number])


def _indentation(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(3, len(lines))
    lines[number] = " " * chance.randrange(1, 5) + lines[number]


def _tab(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(2, len(lines))
    lines[number] = "\t" + lines[number]


def _junk(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(len(lines))
    column = chance.randrange(len(lines[number]) + 1)
    lines[number] = lines[number][:column] + chance.choice(JUNK) + lines[number][column:]


def _characters(chance: random.Random, lines: list[str]) -> None:
    number = chance.randrange(len(lines))
    lines[number] += "".join(chr(chance.randrange(0xD000)) for _ in range(4))


def _lost_line(chance: random.Random, lines: list[str]) -> None:
    del lines[chance.randrange(len(lines))]


def _nothing_but_depth(chance: random.Random, lines: list[str]) -> None:
    lines[_line_with_value(chance, lines)] += " " + chance.choice("[{") * 10_000


CHANGES: list[Change] = [
    _wrong_value,
    _unknown_key,
    _twice,
    _indentation,
    _tab,
    _junk,
    _characters,
    _lost_line,
    _nothing_but_depth,
]


@pytest.mark.parametrize("change", CHANGES)
def test_malformed_recipes_give_positions_and_never_another_error(change: Change) -> None:
    chance = random.Random(change.__name__)
    wrong = 0
    for _ in range(60):
        lines = FULL.splitlines()
        for _ in range(chance.choice([1, 1, 2])):
            change(chance, lines)
        message = message_of("\n".join(lines))
        wrong += bool(message)
        for line in message.split("\n") if message else ():
            assert re.match(r"r\.yaml:[1-9]\d*:[1-9]\d*: ", line), line
            assert line.isprintable(), line
    assert wrong >= 25, f"only {wrong} of 60 were malformed"


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text().map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+:\d+: "):
        read(content)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FULL)), st.integers(0, 12), st.text("abc:{}[]-?&*!|>'\"%@`#, \n\t01.\\~<=", max_size=6))
def test_edited_recipes_are_read_or_refused(start: int, length: int, text: str) -> None:
    message = message_of(FULL[:start] + text + FULL[start + length :])
    assert re.match(r"r\.yaml:\d+:\d+: |$", message)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([".".join(path) for path, _ in recipe_reference.every_key()]), st.text())
def test_any_override_is_applied_or_refused(key: str, text: str) -> None:
    message = message_of(FULL, f"{key}={text}")
    assert re.match(r"override '|r\.yaml:\d+:\d+: |$", message)


# --- schema and reference ---------------------------------------------------------------------------------------------


def test_the_schema_file_is_fresh() -> None:
    path = ROOT / "recipes" / "schema.json"
    assert path.read_text(encoding="utf-8") == recipe_reference.schema_text(), (
        "run `python -m probtrans_cli.recipe.reference`"
    )


def test_the_reference_in_the_docs_is_fresh() -> None:
    path = ROOT / "docs" / "recipe-reference.md"
    text = path.read_text(encoding="utf-8")
    assert recipe_reference.with_reference(text) == text, "run `python -m probtrans_cli.recipe.reference`"


def test_every_key_is_described() -> None:
    for section in [SCHEMA, *SCHEMA["$defs"].values()]:
        assert section["additionalProperties"] is False
        assert section["description"]
        for key, field in section["properties"].items():
            assert field.get("description"), f"{section['title']}.{key}"
            assert "default" in field or key in section["required"]


def test_reference_names_every_key_and_is_rewritten_in_place(tmp_path: Path) -> None:
    reference = recipe_reference.reference_markdown()
    for path, _ in recipe_reference.every_key():
        assert f"| `{path[-1]}` |" in reference
    assert "#### `model.decomposition`, `kind: uvw`" in reference
    for row in (line for line in reference.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, row
    document = tmp_path / "reference.md"
    document.write_text(f"before\n{recipe_reference.BEGIN}\nold\n{recipe_reference.END}\nafter\n")
    schema = tmp_path / "schema.json"
    for _ in range(2):
        recipe_reference.main([str(document), str(schema)])
        expected = f"before\n{recipe_reference.BEGIN}\n{reference}{recipe_reference.END}\nafter\n"
        assert document.read_text(encoding="utf-8") == expected
    assert schema.read_text(encoding="utf-8") == recipe_reference.schema_text()
    with pytest.raises(UsageError, match="no place for the recipe reference"):
        recipe_reference.with_reference("nothing here")


def test_reading_recipes_imports_no_torch() -> None:
    code = "import sys, probtrans_cli.recipe.source, probtrans_cli.recipe.reference; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_the_schema_is_forgotten_when_a_table_of_kinds_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe_reference.json_schema()["title"]
    monkeypatch.setattr(Recipe, "model_json_schema", lambda: {"$defs": {}, "properties": {"new": {}}})
    assert recipe_reference.json_schema()["title"] == before
    try:
        for listener in kinds.CHANGED:
            listener()
        assert "new" in recipe_reference.json_schema()["properties"]
    finally:
        monkeypatch.undo()
        for listener in kinds.CHANGED:
            listener()
