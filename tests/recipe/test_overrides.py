"""Changes from the command line."""

from __future__ import annotations

import pytest
from small_recipes import FULL, SMALL, read, refused

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.data import Table
from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer


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
        "r.yaml:7:3: task.kind: this key is missing; its kinds are mlm, lm, tagging, ner, classification, pretrain, "
        "cogs, parsing, openie, coordination"
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


def test_null_takes_a_section_away() -> None:
    table = SMALL.replace("  train: ", "  format: table\n  table: {text: 1, label: 0}\n  train: ").replace(
        "mlm", "classification"
    )
    assert read(table).data.table.text == 1
    recipe = read(table, "data.table=null", "data.format=jsonl")
    assert (recipe.data.format, recipe.data.table) == ("jsonl", Table())
    assert read(table, "data.table=null", "data.table.text=2", "data.table.label=0").data.table.text == 2
    assert read(SMALL + "optim: {lr: 1}\n", "optim=", "eval=").optim.lr == 1e-3
    section = "Input should be a section of `key: value` lines, found"
    assert f"task: {section} `null`" in refused(SMALL, "task=null")[0]  # it has no default
    assert read(SMALL + "model: {root: {}}\n", "model.root=null").model.facts.has_root is False  # null is a value
    assert f"optim: {section} `null`" in refused(SMALL + "optim: null\n")[0]  # in a file, leave the line out


def test_faulty_overrides() -> None:
    table = {
        "optim.betas.0=.9": "optim.betas: Input should be a valid list, found a section",
        "optim.betas[0]=.9": "optim.betas[0]: unknown key; did you mean `betas`?",
        "=1": "unknown key",
        ".a=1": "unknown key",
        "a..b=1": "a: unknown key",
        "a b=1": "a b: unknown key",
        "data.train.x=.9": "data.train: Input should be a valid string or a valid list, found a section",
        "name.x=1": "name: Input should be a valid string, found a section",
        "optim.lr=[1": "optim.lr: while parsing a flow sequence of line 1",
        "optim.lr=\x00": "the character \\x00 may not stand in a recipe",
        "optim={lr: 1, lr: 2}": "optim.lr: the key is given twice, first in this override",
        "optim=!x {}": "optim: anchors, aliases and tags",
        "seed=*a": "seed: anchors, aliases and tags",
        "seed=" + "[" * 5000: "nested more than",
        "a" * 5000 + "=1": "unknown key",
        ".".join("a" * 500) + "=1": ": a: unknown key",
        'data.train="a\\0b"': r"""data.train: String should match pattern '^[^\x00]+$' or a valid list"""
        r""", found `"a\x00b"`""",
        "sed=1": "sed: unknown key; did you mean `seed`?",
    }
    for override, message in table.items():
        (line,) = refused(FULL, override)
        assert line.startswith("override '")
        assert message in line


def test_an_override_without_equals_sign() -> None:
    with pytest.raises(UsageError, match="'--fast' is not an override") as caught:
        read(SMALL, "--fast")
    assert "optim.lr=3e-4" in str(caught.value.hint)
