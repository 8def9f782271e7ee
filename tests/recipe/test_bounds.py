"""Sizes of models are bounded, and malformed recipes are refused with positions, and never end in another error."""

from __future__ import annotations

import math
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipes import FULL, SMALL, message_of, read, refused

from probtrans_cli.errors import RecipeError
from probtrans_cli.models.bayesian.weights import LEAST, MOST
from probtrans_cli.recipe import reference as recipe_reference
from probtrans_cli.recipe.base import MOST_NUMBERS
from probtrans_cli.recipe.model.base import LEAST_START, MOST_DEVIATION
from probtrans_cli.recipe.source import shipped_recipes

TRANSFORMER = "model={kind: transformer}"
IVON = ("lr", "hessian_start", "kl_weight", "clip")


def test_sizes_have_bounds() -> None:
    overrides = [
        "model.distance=1000000", "model.distance=20000", "model.iterations=100000", "model.labels=2147483647",
        "model.channels=1001", "model.decomposition={kind: uv, rank: 1000000}", "model.root={labels: 1000000}",
        "model.decomposition={kind: rotary, rank: 1000000}", "model.globals={kind: all-dep, features: 1000000}",
        "runtime.threads=100000",
    ]  # fmt: skip
    keys = ["width", "inner", "heads", "head_size", "layers", "segments"]
    for changes in [*([override] for override in overrides), *([TRANSFORMER, f"model.{key}=1000000"] for key in keys)]:
        fault, *_ = refused(SMALL, *changes)
        assert ": Input should be less than or equal to 1" in fault, "the bound is named"


def test_distributions_of_weights_have_bounds() -> None:
    """Deviations lie where they are kept; a recipe beyond them would compute something else than it says."""
    bayes = "model={kind: transformer, bayes: {}}"
    for key in ("model.bayes.start", "model.bayes.prior.std", "optim.ivon.prior.std"):
        least = f"greater than or equal to {'0.002' if key.endswith('start') else '0.001'}"
        for value, bound in (("1.0e+300", "less than or equal to 7"), ("1.0e-300", least), ("8", "less than or equal")):
            (fault,) = refused(SMALL, bayes, f"{key}={value}")
            assert f": {key}: Input should be {bound}" in fault
            assert fault.endswith(f", found `{value}`")
    large = ("model.bayes.sigma_lr", "model.bayes.kl_weight", *(f"optim.ivon.{key}" for key in IVON))
    for key, value in [
        *((key, "1.0e+300") for key in large),
        *((f"optim.ivon.{key}", "1.0e-300") for key in IVON[1:3]),
    ]:
        (fault,) = refused(SMALL, bayes, f"{key}={value}")
        bound = "less than or equal to 1" if value == "1.0e+300" else "greater than"
        assert f": {key}: Input should be {bound}" in fault


def test_the_bounds_of_the_start_are_within_those_of_the_deviations() -> None:
    """For a matrix of one input, and of as many as a recipe may have."""
    assert math.log(MOST_DEVIATION) <= MOST
    assert math.log(LEAST_START * 100_000**-0.5) >= LEAST


def test_products_of_sizes_have_a_bound() -> None:
    table: list[tuple[list[str], str]] = [
        (["model.distance=1000", "model.labels=10000", "model.channels=100"], "model.decomposition"),
        (["model.decomposition={kind: none}", "model.labels=30000"], "model.decomposition"),
        (["model.decomposition={kind: uvw, rank: 100000}", "model.labels=100000"], "model.decomposition"),
        (["model.decomposition={kind: shared, rank: 100000}", "model.channels=1000"], "model.decomposition"),
        (["model.decomposition={kind: rotary, rank: 100000}", "model.channels=1000"], "model.decomposition"),
        (["model.root={labels: 100000}", "model.labels=20000"], "model.root"),
        (["model.globals={kind: dep-split, features: 100000}", "model.labels=20000"], "model.globals"),
        ([TRANSFORMER, "model.width=100000", "model.inner=100000"], "model.width"),
        ([TRANSFORMER, "model.positions={kind: absolute, rows: 100000}", "model.width=80000"], "model.width"),
    ]
    for overrides, key in table:
        start = f": {key}: this would be "
        faults = refused(SMALL, *overrides)
        assert any(start in fault and f"more than {MOST_NUMBERS:,}" in fault for fault in faults), key


def test_latent_labels_and_other_outputs_have_no_weight_of_words() -> None:
    for overrides in (["task.output=tied"], ["model.latent=spherical"], [TRANSFORMER]):
        assert any(": task.word_weight: " in fault for fault in refused(SMALL, "task.word_weight=0.5", *overrides))
    for overrides in (["model.latent=spherical"], [TRANSFORMER]):
        assert read(SMALL, "task.output=tied", "task.word_weight=0.5", *overrides).task.word_weight == 0.5  # type: ignore[attr-defined]


def test_the_bounds_are_far_from_all_shipped_recipes() -> None:
    for path in shipped_recipes().values():
        if "minilm" in path.stem or path.stem == "pos-ewt-stacked":
            continue  # read a folder that need not be there
        section = read(path.read_text("utf-8")).model
        if section.kind == "probabilistic":
            larger = {"labels": 2 * section.labels, "channels": 2 * section.channels}  # type: ignore[attr-defined]
            faults = section.model_copy(update=larger).inconsistencies()
            assert not [reason for _, reason in faults if "this would be" in reason], path.stem


JUNK = ["\t", *"{}[]:'\"|>%@`#", ": ", "- ", "? ", "&a ", "*a", "!x ", "---\n"]
WRONG = [
    "fast", "[1]", "{a: 1}", "-1", "1e999", ".nan", "99999999999999999999", "yes", "010", "''", "3.7", "*x", "!!int 3",
]  # fmt: skip


def changed(change: str, chance: random.Random, lines: list[str]) -> list[str]:
    """The lines of a recipe with one fault more."""
    with_value = [number for number, line in enumerate(lines) if re.search(r": \S", line) and line[0] != "#"]
    number = chance.choice(with_value)
    line = lines[number]
    column = chance.randrange(len(line) + 1)
    lines = list(lines)
    lines[number] = {
        "wrong value": re.sub(r": .*", lambda _: ": " + chance.choice(WRONG), line),
        "unknown key": re.sub(r"(\w+):", lambda key: f"{key[1]}{chance.choice('xé_')}:", line, count=1),
        "twice": f"{line}\n{line}",
        "indentation": " " * chance.randrange(1, 5) + line,
        "tab": "\t" + line,
        "junk": line[:column] + chance.choice(JUNK) + line[column:],
        "characters": line + "".join(chr(chance.randrange(0xD000)) for _ in range(4)),
        "lost line": "",
        "nothing but depth": line + " " + chance.choice("[{") * 10_000,
    }[change]
    return "\n".join(lines).split("\n")


def test_malformed_recipes_give_positions_and_never_another_error() -> None:
    faults = "wrong value|unknown key|twice|indentation|tab|junk|characters|lost line|nothing but depth"
    for change in faults.split("|"):
        chance, wrong = random.Random(change), 0
        for _ in range(40):
            lines = FULL.splitlines()
            for _ in range(chance.choice([1, 1, 2])):
                lines = changed(change, chance, lines)
            message = message_of("\n".join(lines))
            wrong += bool(message)
            for line in message.split("\n") if message else ():
                assert re.match(r"r\.yaml:[1-9]\d*:[1-9]\d*: ", line), line
                assert line.isprintable(), line
        assert wrong >= (8 if change == "lost line" else 15), f"{change}: only {wrong} of 40 were malformed"


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text().map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+:\d+: "):
        read(content)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(FULL)), st.integers(0, 12), st.text("abc:{}[]-?&*!|>'\"%@`#, \n\t01.\\~<=", max_size=6))
def test_edited_recipes_are_read_or_refused(start: int, length: int, text: str) -> None:
    message = message_of(FULL[:start] + text + FULL[start + length :])
    assert re.match(r"r\.yaml:\d+:\d+: |$", message)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([".".join(path) for path, _ in recipe_reference.every_key()]), st.text())
def test_any_override_is_applied_or_refused(key: str, text: str) -> None:
    message = message_of(FULL, f"{key}={text}")
    assert re.match(r"override '|r\.yaml:\d+:\d+: |$", message)
