"""What people read fits in the terminal: lines are wrapped between words, tables go on below themselves."""

from __future__ import annotations

import shlex

import pytest
import typer

from probtrans_cli import console
from probtrans_cli.cli import app
from probtrans_cli.recipe.task import TASKS
from probtrans_cli.reports.scores import training_report, tree_report
from probtrans_cli.text import columns


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_lines_are_wrapped_between_words_and_parts_stay_whole() -> None:
    assert console.wrapped("short\n  a b") == "short\n  a b"
    long = "a line of words that is longer than forty columns, and a/very/long/path/that/is/not/cut/at/all"
    text = console.wrapped(long)
    assert text.split() == long.split()
    assert [line for line in text.splitlines() if columns(line) > 40] == ["  a/very/long/path/that/is/not/cut/at/all"]
    parts = [f"name{number} 0.{number}" for number in range(9)]
    lines = console.listed(parts, "dev: ").splitlines()
    assert all(part in "".join(lines) for part in parts)
    assert max(map(columns, lines)) <= 40
    assert all(line.startswith("  name") for line in lines[1:])


def test_a_wide_table_goes_on_below_itself() -> None:
    headings = ["", *(f"column {number}" for number in range(6))]
    rows = [[name, *(f"{name}{number}" for number in range(6))] for name in ("row", "列")]
    lines = console.render(headings, rows).splitlines()
    assert max(map(columns, lines)) <= 40
    tables = [lines[start : start + 4] for start in range(0, len(lines), 4)]
    assert [line.split()[0] for table in tables for line in table[2:]] == ["row", "列"] * len(tables)
    shown = [cell for table in tables for line in table[2:] for cell in line.split()[1:]]
    assert sorted(shown) == sorted(cell for row in rows for cell in row[1:])
    assert console.render(["a", "b"], [["x", None]], left=["b"], title="t").splitlines() == [
        "t",
        " a   b",
        " ─────",
        " x",
    ]


@pytest.mark.parametrize("kind", TASKS)
def test_the_next_command_is_of_the_task(kind: str) -> None:
    result = {"name": "mine", "task": kind, "run": "runs/mine", "seed": 0, "step": 7, "seconds": 9.0}
    text = training_report({**result, "dev": {"loss": 1.0, "accuracy": 0.5}})
    command = text.partition("next: ")[2].strip()
    name, verb, *arguments = shlex.split(command)
    assert (name, verb, arguments[0]) == ("probtrans", "parse", "runs/mine")
    group = typer.main.get_command(app)
    options = group.commands[verb].make_context(verb, arguments).params  # type: ignore[attr-defined]
    assert (options["trees"] == "yes") == (kind in ("mlm", "pretrain", "parsing", "openie", "coordination"))


def test_the_next_command_of_the_quick_start_fits() -> None:
    result = {"name": "quickstart", "task": "mlm", "run": "runs/quickstart", "seed": 0, "step": 1640, "seconds": 90.0}
    assert max(map(columns, training_report(result).splitlines())) <= 80


def test_a_report_of_trees_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    scores = {"uas": 1.0, "uuas": 1.0, "swapped": 1.0, "uas_interval": [0.99, 1.0], "uuas_interval": [0.99, 1.0]}
    scores |= {"sentences": 100_000, "words": 1_000_000}
    convention = {"all": scores, "10": scores}
    reading = {"channel": "mean", "iteration": -1, "decoder": "eisner", "chosen_on": "dev"}
    floors = {name: {"no_punct": convention} for name in ("next_word", "nearest_rarer", "untrained_bias")}
    text = tree_report({"no_punct": convention, "with_punct": convention, "reading": reading, "floors": floors})
    assert max(map(columns, text.splitlines())) <= 80
