"""What is read, and what is refused and how."""

from __future__ import annotations

import math
import re

import pytest
import yaml
from pydantic import ValidationError
from small_recipes import FULL, SMALL, read, refused

from probtrans_cli.recipe import faults
from probtrans_cli.recipe.base import InconsistentError, KindSection
from probtrans_cli.recipe.data import WordVocabulary
from probtrans_cli.recipe.model import ProbabilisticTransformer
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.task import MaskedLanguageModel
from probtrans_cli.recipe.yaml import LARGEST, scalar_value


def test_scalars_mean_what_people_mean() -> None:
    values = {
        "1e-3": 1e-3, "1e5": 100_000, ".5": 0.5, "5.": 5, "+3": 3, "-4": -4, "0": 0, "-0.0": 0, "1e2": 100,
        "2.50": 2.5, "true": True, "False": False, "null": None, "~": None, "": None, "1e400": math.inf,
    }  # fmt: skip
    for text in (
        "1_000", "yes", "no", "on", "Off", "y", "1:30", "2024-01-01", "e5", ".", "1e", "0b1", "=", "010", "00", "0x1F",
        "0o17", ".inf", ".nan",
    ):  # fmt: skip
        values[text] = text
    for text, value in values.items():
        assert scalar_value(text) == value, text
        assert type(scalar_value(text)) is type(value), text


def test_integers_and_floats_stand_in_for_each_other() -> None:
    recipe = read(SMALL, "train.epochs=1e2", "optim.clip=5", "optim.lr=1", "seed=3.0", "eval.channel=2.0")
    assert recipe.train.epochs == 100
    assert (recipe.optim.clip, recipe.optim.lr, recipe.seed, recipe.eval.channel) == (5.0, 1.0, 3, 2)
    assert isinstance(recipe.train.epochs, int)
    assert isinstance(recipe.optim.clip, float)
    assert "train.epochs: Input should be a valid integer, found `2.5`" in refused(SMALL, "train.epochs=2.5")[0]


def test_numbers_that_readers_of_yaml_read_differently_are_refused_where_a_number_belongs() -> None:
    for text in ("010", "0x1F", "1_000", "1:30"):
        message = f"r.yaml:5:7: seed: Input should be a valid integer, found `{text}`"
        assert refused(FULL.replace("seed: 7", f"seed: {text}")) == [message]
        assert read(SMALL, f"data.test={text}").data.test == text, "a name of a file is the text as it stands"


# --- faults -----------------------------------------------------------------------------------------------------------

NO_ANCHORS = "anchors, aliases and tags (& * !) are not used"
SYNTAX = [
    ("", "1:1: Input should be a section of `key: value` lines, found nothing"),
    ("# only a comment\n", "2:1: Input should be a section of `key: value` lines, found nothing"),
    ("---\n", "2:1: Input should be a section of `key: value` lines, found nothing"),
    ("{}", "1:1: name: this key is missing"),
    ("- a\n- b\n", "1:1: Input should be a section of `key: value` lines, found a list"),
    ("just text", "1:1: Input should be a section of `key: value` lines, found `just text`"),
    (SMALL + "---\nname: two\n", "r.yaml:8:1: expected a single document"),
    (SMALL + "seed:\t1\n\tx: 1\n", "; indent with spaces"),
    (SMALL + "   seed: 1\n", "r.yaml:8:"),
    (SMALL + "seed: a: b\n", "r.yaml:8:8: mapping values are not allowed here; check the indentation, and quote"),
    (SMALL + "seed: [1, 2\n", "while parsing a flow sequence of line 8: expected ',' or ']'"),
    (SMALL + "seed: {a: 2\n", "while parsing a flow mapping of line 8: expected ',' or '}'"),
    (SMALL + "seed: 'x\n", "while scanning a quoted scalar of line 8: found unexpected end"),
    (SMALL + "seed\noptim: {}\n", "r.yaml:9:1: while scanning a simple key of line 8: could not find expected ':'"),
    (SMALL + "seed: @x\n", "r.yaml:8:7: found character '@'"),
    (SMALL + "seed: *.x\n", "r.yaml:8:8: while scanning an alias"),
    (SMALL + "seed: !!python/object/apply:os.system [x]\n", f"r.yaml:8:7: {NO_ANCHORS}"),
    (SMALL + "seed: !x 1\n", NO_ANCHORS),
    (SMALL + "seed: &a 1\n", f"r.yaml:8:7: {NO_ANCHORS}"),
    (SMALL + "seed: *a\n", f"r.yaml:8:7: {NO_ANCHORS}"),
    ("a: &a [x, x]\n" + "b: [*a, *a]\n", f"r.yaml:1:4: {NO_ANCHORS}"),
    (
        SMALL + "optim: {<<: {lr: 1}}\n",
        "8:9: optim.<<: unknown key; the keys here are kind, ivon, lr, layer_decay, encoder_rate, betas, eps,",
    ),
    *((SMALL + f"{key}: x\n", "unknown key; the keys here are ") for key in ("1", "? [a, b]\n", "? {a: 1}\n", "null")),
    (SMALL + 'seed: "\\UFFFFFFFF"\n', "r.yaml:8:"),
    (SMALL + 'seed: "\\q"\n', "escape"),
    (SMALL + "seed: \x07\n", "r.yaml:8:7: the character \\x07 may not stand in a recipe"),
    (SMALL + "%YAML 3.0\n", "r.yaml:8:1"),
    ("%YAML 3.0\n---\nname: x\n", "r.yaml:1:"),
    ("name: x\nname: y\nname: z\n", "r.yaml:2:1: name: the key is given twice, first in line 1; keep one"),
    *((text * 10_000, "nested more than") for text in ("[", "{", "- ", "? ")),
    ("a: " + "[" * 10_000 + "]" * 10_000, "nested more than"),
    ("".join(f"{' ' * depth}a:\n" for depth in range(300)), "nested more than"),
]


def test_broken_yaml() -> None:
    for text, message in SYNTAX:
        lines = refused(text)
        assert any(message in line for line in lines), lines
        assert all(re.match(r"r\.yaml:\d+:\d+: ", line) for line in lines)


def test_bytes_that_are_no_text() -> None:
    assert refused(SMALL.encode() + b"seed: \xff\n") == [
        "r.yaml:8:7: the character \\udcff may not stand in a recipe; save the file as UTF-8"
    ]
    assert refused(SMALL.encode("utf-16"))[0].startswith("r.yaml:1:1: the character \\udcff may not stand in a recipe")
    assert "larger than 256 KiB" in refused(b"#" * (LARGEST + 1))[0]
    assert read(b"\xef\xbb\xbf" + SMALL.encode()).name == "small"
    assert read(SMALL.replace("\n", "\r\n")).name == "small"


VALUES = [
    ("seed: fast", "8:7: seed: Input should be a valid integer, found `fast`"),
    ("seed: '3'", "8:7: seed: Input should be a valid integer, found `'3'`"),
    ("seed: -1", "8:7: seed: Input should be greater than or equal to 0, found `-1`"),
    (
        "seed: 99999999999999999999999",
        "8:7: seed: Input should be less than 2147483648, found `99999999999999999999999`",
    ),
    ("seed:", "8:6: seed: Input should be a valid integer, found nothing"),
    ("seed: true", "8:7: seed: Input should be a valid integer, found `true`"),
    ("sed: 1", "8:1: sed: unknown key; did you mean `seed`?"),
    ("lr: 1", "8:1: lr: unknown key; `lr` belongs to `optim`"),
    (
        "xyzzy: 1",
        "8:1: xyzzy: unknown key; the keys here are version, name, seed, data, task, model, optim, train, eval",
    ),
    (
        "model: {decomposition: uvw}",
        "8:24: model.decomposition: Input should be a section of `key: value` lines, found `uvw`; did you mean "
        "`kind: uvw`?",
    ),
    (
        "model: {globals: all-dp}",
        "8:18: model.globals: Input should be a section of `key: value` lines, found `all-dp`; did you mean "
        "`kind: all-dep`?",
    ),
    ("optim: {schedul: 3}", "8:9: optim.schedul: unknown key; did you mean `schedule`?"),
    ("optim: {patience: 3}", "`patience` belongs to `optim.schedule` and `train`"),
    ("optim:", "8:7: optim: Input should be a section of `key: value` lines, found nothing"),
    ("optim: 3", "8:8: optim: Input should be a section of `key: value` lines, found `3`"),
    ("optim: [1]", "8:8: optim: Input should be a section of `key: value` lines, found a list"),
    ("optim: {lr: 0}", "8:13: optim.lr: Input should be greater than 0, found `0`"),
    ("optim: {lr: .nan}", "8:13: optim.lr: Input should be a valid number, found `.nan`"),
    ("optim: {lr: .inf}", "8:13: optim.lr: Input should be a valid number, found `.inf`"),
    ("optim: {lr: 1e999}", "8:13: optim.lr: Input should be a finite number, found `1e999`"),
    ("optim: {ema: 1}", "8:14: optim.ema: Input should be less than 1, found `1`"),
    ("optim: {betas: 0.9}", "8:16: optim.betas: Input should be a valid list, found `0.9`"),
    ("optim: {betas: [0.9]}", "8:16: optim.betas[1]: this key is missing"),
    (
        "optim: {betas: [.9, .9, .9]}",
        "8:16: optim.betas: Tuple should have at most 2 items after validation, not 3, found a list",
    ),
    ("optim: {betas: [.9, fast]}", "8:21: optim.betas[1]: Input should be a valid number, found `fast`"),
    (
        "optim: {schedule: {kind: step}}",
        "8:26: optim.schedule.kind: there is no such kind, found `step`; its kinds are plateau, cosine, linear",
    ),
    (
        "optim: {schedule: {kind: [a]}}",
        "8:26: optim.schedule.kind: there is no such kind, found a list; its kinds are plateau, cosine, linear",
    ),
    ("model: {from: x}", "model.from: unknown key with `kind: probabilistic`; it belongs to `kind: transformer`"),
    (
        "model: {kind: windowed}",
        "8:15: model.kind: there is no such kind, found `windowed`; its kinds are probabilistic, transformer, stacked",
    ),
    (
        "optim: {schedule: {kind: 3}}",
        "8:26: optim.schedule.kind: there is no such kind, found `3`; its kinds are plateau, cosine, linear, constant",
    ),
    ("optim: {schedule: {factor: .5}}", "8:20: optim.schedule.factor: unknown key with `kind: cosine`; it belongs to"),
    (
        "optim: {schedule: cosine}",
        "8:19: optim.schedule: Input should be a section of `key: value` lines, found `cosine`; did you mean "
        "`kind: cosine`?",
    ),
    ("optim: {schedule: {kind: cosine, factor: .5}}", "8:34: optim.schedule.factor: unknown key with `kind: cosine`"),
    (
        "model: {kind: probabilstic}",
        "8:15: model.kind: there is no such kind, found `probabilstic`; did you mean `probabilistic`?",
    ),
    (
        "model: {kind: transformer, labels: 3}",
        "8:28: model.labels: unknown key with `kind: transformer`; it belongs to",
    ),
    ("model: {kind: transformer, heads: 7}", "model.heads: 7 heads do not divide a width of 384"),
    (
        "model: {decomposition: {kind: uv, rank: 0}}",
        "8:41: model.decomposition.rank: Input should be greater than or equal to 1, found `0`",
    ),
    ("runtime: {compile: yes}", "8:20: runtime.compile: Input should be true or false, found `yes`"),
    (
        "runtime: {threads: 1_000}",
        "8:20: runtime.threads: Input should be a valid integer, found `1_000`",
    ),
    (
        "eval: {channel: bst}",
        "8:17: eval.channel: Input should be 'mean' or 'best' or a valid integer, found `bst`; did you mean `best`?",
    ),
    ("eval: {channel: 16}", "8:17: eval.channel: found 16, but the model has channels 0 to 15"),
    ("eval: {iteration: 0}", "8:19: eval.iteration: found 0, wanted -1 or an iteration of the model, 1 to 5"),
    ("version: 2", "8:10: version: Input should be 1, found `2`"),
]


def test_wrong_values() -> None:
    for line, message in VALUES:
        (fault,) = refused(SMALL + line + "\n")
        assert message in fault


def test_missing_keys_have_the_position_of_their_section() -> None:
    assert refused("# x\nname: a\ndata:\n  dev: x\n") == [
        "r.yaml:2:1: task: this key is missing; its kinds are mlm, lm, tagging, ner, classification, pretrain, cogs, "
        "parsing, openie, coordination",
        "r.yaml:4:3: data.train: this key is missing",
    ]


def test_text_and_lists_of_text() -> None:
    assert "data.train: String should have at least 1 character" in refused(SMALL, "data.train=''")[0]
    assert (
        "data.train: Input should be a valid string or List should have at least 1 item"
        in refused(SMALL, "data.train=[]")[0]
    )
    assert "data.train[1]: Input should be a valid string, found `3`" in refused(SMALL, "data.train=[a,3]")[0]
    assert read(SMALL, "data.train=[a, b]").data.train == ["a", "b"]
    assert "name: Input should be a valid string, found `2024`" in refused(SMALL, "name=2024")[0]
    assert "name: String should match pattern '^[A-Za-z0-9]" in refused(SMALL, "name=../x")[0]
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


@pytest.mark.parametrize(
    ("section", "key"),
    [(MaskedLanguageModel, "task"), (ProbabilisticTransformer, "model"), (WordVocabulary, "data.vocabulary")],
)
def test_a_kind_checks_its_own_keys(section: type[KindSection], key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/extending.md says of a task, an encoder and a vocabulary."""
    monkeypatch.setattr(section, "inconsistencies", lambda self: [(("kind",), "not today")])
    (fault,) = refused(SMALL)
    assert fault.endswith(f"{key}.kind: not today")


def test_many_faults_are_cut_short() -> None:
    lines = refused(SMALL + "".join(f"key{number}: 1\n" for number in range(500)))
    assert len(lines) == faults.MOST_FAULTS + 1
    assert lines[-1].startswith("… and ")
