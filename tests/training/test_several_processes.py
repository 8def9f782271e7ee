"""Training in several processes: their number changes nothing but rounding, for every task and both encoders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from several_processes import EVERY, TASKS, WEIGHTS, finish, place, start, train_all
from support import environment
from test_resume import assert_same, metrics

from probtrans_cli import console

VARIANTS = {**EVERY, **WEIGHTS}
SHORT = [f"{task}-{('probabilistic', 'transformer')[number % 2]}" for number, task in enumerate(TASKS)] + [*WEIGHTS]
"""Every task with one encoder, and every kind of parameters. All pairs come in the exhaustive tests."""
STEPS = 6
EXACT = ("mlm-probabilistic", "bayes", "ivon", "tied")
"""Variants that are stopped and resumed."""
SCORED = ("tagging-transformer", "openie-probabilistic")


def job(world: int | str, name: str, steps: int = STEPS, **more: Any) -> dict[str, Any]:
    saves = ["save.every_steps=2", "save.keep=9"] if name in EXACT else []
    changes = [*VARIANTS[name], *saves, "eval.every_epochs=2", f"train.steps={steps}", f"name={name}"]
    return {"run": f"{world}-{name}", "changes": changes, **more}


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a report but for the time it took, by where it stands."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from numbers(part, f"{path}.{key}")
    if isinstance(value, int | float) and path != ".seconds":
        yield path, value


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in metrics(run) if line["split"] == "train"]


def assert_close(run: Path, whole: Path) -> None:
    found, expected = (load_file(one / "checkpoints/last/model.safetensors") for one in (run, whole))
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[key], rtol=0, atol=1e-5)


def compare_losses(one: Path, several: Path, steps: int) -> None:
    """Within 1e-6, of the loss where that is above 1: around 6, numbers in float32 are 4.8e-7 apart."""
    assert len(losses(one)) == steps
    assert losses(one)[0] != losses(one)[-1]
    found, expected = np.array(losses(several)), np.array(losses(one))
    np.testing.assert_array_less(np.abs(found - expected), 1e-6 * np.maximum(expected, 1.0))


def compare(folder: Path, name: str, worlds: Sequence[int | str]) -> None:
    """Runs of different numbers of processes: the same losses and scores, and the same files."""
    one, several = (folder / "runs" / f"{world}-{name}" for world in worlds)
    compare_losses(one, several, STEPS)
    for mine, theirs in zip(metrics(several), metrics(one), strict=True):
        assert dict(numbers(mine)) == pytest.approx(dict(numbers(theirs)), rel=1e-3)
    files = [sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()) for run in (one, several)]
    assert files[0] == files[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return place(tmp_path_factory.mktemp("several"))


@contextmanager
def quietly_in(folder: Path) -> Iterator[None]:
    """Within: trainings of this process run in a folder, say nothing, and wait for no disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("probtrans_cli.console.STATE.level", console.QUIET)
        yield


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing_but_rounding(folder: Path) -> None:
    """One set of two processes does all trainings: starting torch takes seconds."""
    alone = [job(1, name) for name in SHORT]
    shared = [job(2, name) for name in SHORT]
    shared += [job("2-2", name, copy_of=f"2-{name}", kept=2) for name in EXACT]
    shared += [job("1-2", name, copy_of=f"1-{name}", kept=2) for name in EXACT]
    shared += [job("scored", name, copy_of=f"1-{name}") for name in SCORED]
    long = [*VARIANTS["mlm-probabilistic"], "train.steps=40", "eval.every_epochs=200", "name=long"]
    alone.append({"run": "1-long", "changes": long})
    shared.append({"run": "2-long", "changes": long})
    with quietly_in(folder):
        of_one = train_all(alone)
        of_two = finish(start(folder, 2, shared))
        train_all([job("2-1", name, copy_of=f"2-{name}", kept=2) for name in EXACT])
    ones = {done["run"]: dict(numbers(final)) for done, final in zip(alone, of_one, strict=True)}
    twos, seconds = (
        {done["run"]: dict(numbers(final)) for done, final in zip(shared, finals, strict=True)} for finals in of_two
    )
    compare_losses(folder / "runs/1-long", folder / "runs/2-long", 40)
    for name in SHORT:
        compare(folder, name, (1, 2))
        first, second = twos[f"2-{name}"], seconds[f"2-{name}"]
        assert second == {key: first[key] for key in second}, f"{name}: all processes know the same scores"
        assert first == pytest.approx(ones[f"1-{name}"], rel=1e-2, abs=1e-6), name
    for name in EXACT:
        assert_same(folder / f"runs/2-2-{name}", folder / f"runs/2-{name}")
        for worlds in ("1-2", "2-1"):
            assert_close(folder / f"runs/{worlds}-{name}", folder / f"runs/1-{name}")
            compare(folder, name, (1, worlds))
    for name in SCORED:  # the same weights: counts and their ratios to the last digit, losses to 1e-9
        expected, found = ones[f"1-{name}"], twos[f"scored-{name}"]
        assert found.keys() == expected.keys()
        for key in found:
            if found[key] != expected[key]:
                assert any(part in key for part in ("loss", "nll", "perplexity", "auc")), (name, key)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), name


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "name"), [(2, "mlm-probabilistic"), (4, "tagging-transformer")])
def test_torchrun_over_a_hundred_updates(number: int, name: str, folder: Path) -> None:
    """As a user starts it, masks and dropout on."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(number), "-m", "--"]
    train = ["probtrans_cli", "-q", "train", "tiny.yaml", *VARIANTS[name], "train.steps=100"]
    command = [sys.executable, *torchrun, *train, "--run", "runs/torchrun-" + name]
    subprocess.run(command, cwd=folder, env=environment(), check=True)
    with quietly_in(folder):
        train_all([job("alone", name, 100)])
    compare_losses(folder / f"runs/alone-{name}", folder / f"runs/torchrun-{name}", 100)


@pytest.mark.exhaustive
def test_what_four_processes_have_begun_goes_on_in_four_or_in_one(folder: Path) -> None:
    """To the bit in four; but for rounding in one."""
    runs = place(folder / "four")
    with quietly_in(runs):
        train_all([job(1, name) for name in EXACT])
        again = [job("4-4", name, copy_of=f"4-{name}", kept=2) for name in EXACT]
        finish(start(runs, 4, [*(job(4, name) for name in EXACT), *again]))
        train_all([job("4-1", name, copy_of=f"4-{name}", kept=2) for name in EXACT])
    for name in EXACT:
        assert_same(runs / f"runs/4-4-{name}", runs / f"runs/4-{name}")
        assert_close(runs / f"runs/4-1-{name}", runs / f"runs/1-{name}")
        compare(runs, name, (1, "4-1"))
