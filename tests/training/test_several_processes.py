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
from several_processes import EVERY, WEIGHTS, finish, place, start, train_all
from support import environment
from test_resume import assert_same, metrics

from probtrans_cli import console

VARIANTS = {**EVERY, **WEIGHTS}
STEPS = 9
EXACT = ("mlm-probabilistic", "tagging-transformer", "bayes", "ivon", "tied")
"""Variants that are stopped and resumed."""
SCORED = ("tagging-probabilistic", "classification-transformer", "mlm-transformer", "openie-probabilistic")
Finals = dict[str, dict[str, Any]]


def job(world: int | str, name: str, steps: int = STEPS, **more: Any) -> dict[str, Any]:
    """The training of a variant, in a run that begins with the number of processes."""
    saves = ["save.every_steps=2", "save.keep=9"] if name in EXACT else []
    changes = [*VARIANTS[name], *saves, f"train.steps={steps}", f"name={name}"]
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


def weights(run: Path) -> dict[str, np.ndarray]:
    return dict(load_file(run / "checkpoints/last/model.safetensors"))


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
        patch.setattr("probtrans_cli.atomic.sync", lambda path: None)
        patch.setattr("jaxtyping.config.jaxtyping_disable", True)
        patch.setattr("probtrans_cli.console.STATE.level", console.QUIET)
        yield


@pytest.fixture(scope="module")
def trained(folder: Path) -> list[Finals]:
    """Every variant, trained in this process and in two others, and what is done with the runs then; what each of these
    three processes returned, by run."""
    alone = [job(1, name) for name in VARIANTS]
    shared = [job(2, name) for name in VARIANTS]
    shared += [job("2-2", name, copy_of=f"2-{name}", kept=2) for name in EXACT]
    shared += [job("1-2", name, copy_of=f"1-{name}", kept=2) for name in EXACT]
    shared += [job("scored", name, copy_of=f"1-{name}") for name in SCORED]
    last = [job("2-1", name, copy_of=f"2-{name}", kept=2) for name in EXACT]
    with quietly_in(folder):
        of_one = train_all(alone)
        of_two = finish(start(folder, 2, shared))
        train_all(last)
    runs = [[one["run"] for one in done] for done in (alone, shared, shared)]
    return [dict(zip(names, found, strict=True)) for names, found in zip(runs, (of_one, *of_two), strict=True)]


@pytest.mark.parametrize("name", VARIANTS)
def test_two_processes_compute_what_one_does(name: str, folder: Path, trained: list[Finals]) -> None:
    compare(folder, name, (1, 2))
    one = dict(numbers(trained[0][f"1-{name}"]))
    first, second = (dict(numbers(of_process[f"2-{name}"])) for of_process in trained[1:])
    assert second == {key: first[key] for key in second}, "all processes know the same scores"
    assert first == pytest.approx(one, rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_resumed_on_as_many_it_is_the_same_to_the_bit(name: str, folder: Path, trained: list[Finals]) -> None:
    assert_same(folder / f"runs/2-2-{name}", folder / f"runs/2-{name}")


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("worlds", ["1-2", "2-1"])
def test_resumed_on_another_number_it_is_the_same_but_for_rounding(
    worlds: str, name: str, folder: Path, trained: list[Finals]
) -> None:
    whole = weights(folder / f"runs/1-{name}")
    for key, value in weights(folder / f"runs/{worlds}-{name}").items():
        np.testing.assert_allclose(value, whole[key], rtol=0, atol=1e-5)
    compare(folder, name, (1, worlds))


@pytest.mark.parametrize("name", SCORED)
def test_scores_are_those_of_one_process(name: str, folder: Path, trained: list[Finals]) -> None:
    """The same weights: counts and their ratios to the last digit, losses to 1e-9."""
    one, two = (dict(numbers(of[run])) for of, run in zip(trained, (f"1-{name}", f"scored-{name}"), strict=False))
    assert two.keys() == one.keys()
    inexact = {key for key in one if one[key] != two[key]}
    assert all("loss" in key or "nll" in key or "perplexity" in key or key.endswith("auc") for key in inexact), inexact
    assert two == pytest.approx(one, rel=1e-9, abs=1e-9)


@pytest.fixture(scope="module")
def long(folder: Path) -> Path:
    """Every task and both encoders, trained over a hundred updates in this process."""
    runs = place(folder / "long")
    with quietly_in(runs):
        train_all([job(1, name, 100) for name in EVERY])
    return runs


@pytest.mark.slow
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
@pytest.mark.parametrize("number", [2, 4])
def test_several_processes_over_a_hundred_updates(number: int, long: Path) -> None:
    with quietly_in(long):
        finish(start(long, number, [job(number, name, 100) for name in EVERY]))
    for name in EVERY:
        compare_losses(long / f"runs/1-{name}", long / f"runs/{number}-{name}", 100)


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
        whole = weights(runs / f"runs/1-{name}")
        for key, value in weights(runs / f"runs/4-1-{name}").items():
            np.testing.assert_allclose(value, whole[key], rtol=0, atol=1e-5)
        compare(runs, name, (1, "4-1"))
