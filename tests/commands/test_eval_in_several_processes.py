"""`eval` in several processes: the scores of one, told and stored once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from several_processes import ranks
from support import COMMAND, environment, workplace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = workplace(tmp_path_factory.mktemp("eval"))
    for name, more in (("trees", ()), ("tags", ("task={kind: tagging, column: xpos}",))):
        command = [*COMMAND, "-q", "train", "tiny.yaml", f"name={name}", *more]
        subprocess.run(command, cwd=found, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return found


def evaluated(folder: Path, where: Sequence[Mapping[str, str]], *arguments: str) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of every process."""
    command = [*COMMAND, "eval", *arguments]
    started = [
        subprocess.Popen(command, cwd=folder, env=one, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for one in where
    ]
    said = [one.communicate(timeout=120) for one in started]
    return [(one.returncode, *told) for one, told in zip(started, said, strict=True)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs/tags", "--json", "--uncertainty"),
        pytest.param(("runs/trees", "--json", "--baselines"), marks=pytest.mark.exhaustive),
    ],
    ids=["uncertainty", "trees"],
)
def test_the_scores_are_those_of_one(folder: Path, arguments: tuple[str, ...]) -> None:
    ((code, alone, _),) = evaluated(folder, [environment()], *arguments)
    assert code == 0
    stored = folder / arguments[0] / "checkpoints/eval-test.json"
    kept = json.loads(stored.read_text("utf-8"))["scores"]
    stored.unlink()
    (first, told, errors), (second, silent, _) = evaluated(folder, ranks(2), *arguments)
    assert (first, second, silent) == (0, 0, ""), errors
    of_one, of_two = (numbers(json.loads(text)["scores"]) for text in (alone, told))
    assert of_two == pytest.approx(of_one, rel=1e-6)
    assert numbers(json.loads(stored.read_text("utf-8"))["scores"]) == pytest.approx(numbers(kept), rel=1e-6)


def test_a_choice_is_stored_once(folder: Path) -> None:
    (first, _, errors), (second, _, _) = evaluated(folder, ranks(2), "runs/trees", "--split", "dev", "--choose")
    assert (first, second) == (0, 0), errors


def test_what_goes_wrong_is_told_once(folder: Path) -> None:
    (first, _, told), (second, _, silent) = evaluated(folder, ranks(2), "runs/nowhere")
    assert first != 0
    assert second != 0
    assert "error: " in told
    assert "error: " not in silent
    (first, _, told), (second, _, silent) = evaluated(folder, ranks(2), "runs/tags", "--require", "accuracy>=1.01")
    assert (first, second) == (7, 0)
    assert "required accuracy>=1.01" in told
    assert not silent


def numbers(value: Any, path: str = "") -> dict[str, float]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {key: number for name, part in parts for key, number in numbers(part, f"{path}.{name}").items()}
    return found | ({path: value} if isinstance(value, int | float) else {})
