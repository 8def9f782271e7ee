"""The benchmark of a GPU runs at toy sizes on a CPU, all of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from support import ROOT, environment

from bench import gpu
from bench.gpu_steps import WAYS, Measured, contenders, gpu_batches, launches, measured
from bench.gpu_table import Page, page, peak_of
from bench.settings import sentence_lengths, settings

CPU = torch.device("cpu")


@pytest.mark.exhaustive
def test_it_runs_at_toy_sizes(tmp_path: Path) -> None:
    """In a process of its own: the checks of shapes that this one makes cannot be compiled."""
    command = [sys.executable, "-m", "tests.bench.gpu", "--device", "cpu", "--toy", "--rounds", "1"]
    where = environment(PROBTRANS_DATA=str(tmp_path))
    child = subprocess.run(
        [*command, "--json", str(tmp_path / "figures.json")], cwd=ROOT, env=where, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stdout + child.stderr
    found = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert "1 passed" in found["tests"]
    names = [one.name for one in contenders(settings(tiny=True)[0], 48)]
    assert {cell["contender"] for cell in found["cells"]} == set(names)
    assert {cell["way"] for cell in found["cells"] if cell["contender"] in gpu.TOY_COMPILED} == set(WAYS)
    assert all(cell["seconds"] and cell["launches"] for cell in found["cells"])
    assert [name for name, _ in found["trainings"]] == list(gpu.RECIPES)
    assert all(figures["perplexity"] > 1 for _, figures in found["trainings"])
    for name in (*names, *gpu.RECIPES):
        assert f"| {name} |" in child.stdout


def test_batches_have_the_words_that_they_are_called_after() -> None:
    made = gpu_batches(sentence_lengths()[0], toy=False)
    assert [*made] == ["4k", "16k", "64k", "1x512", "1x2048"]
    for name, words in (("4k", 4096), ("16k", 16384), ("64k", 65536)):
        assert 0.75 * words < sum(made[name]) <= len(made[name]) * max(made[name]) <= words


def test_what_one_cannot_do_costs_no_other_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(cell: Measured, *given: object) -> None:
        if cell.batch == "large":
            raise torch.OutOfMemoryError("CUDA out of memory")
        cell.seconds, cell.launches, cell.peak_bytes = [0.5], 7, 2**20

    monkeypatch.setattr("bench.gpu_steps._measure", measure)
    setting = settings(tiny=True)[0]
    one = contenders(setting, 48)[0]
    batches = {"small": [3, 2], "large": [4], "again": [2]}
    given = {"backend": "eager", "rounds": 1}
    cells = [*measured(one, batches, ["bf16"], setting, CPU, until=time.monotonic() + 60, **given)]
    assert [cell.failed for cell in cells] == [None, "did not fit", None]
    late = [*measured(one, batches, ["bf16"], setting, CPU, until=time.monotonic() - 1, **given)]
    assert {cell.failed for cell in late} == {"no time left"}
    text = page(Page({"device": "cuda (NVIDIA H100 80GB HBM3)"}, rates={"bf16": 5e14}, cells=[*cells, *late]))
    work = 3 * (one.flops * 5 + one.pair_flops * 13)
    assert (
        f"| {one.name} | small | bf16 | 500 | 10 | {work / 0.5 / 989e12:.1%} | {work / 0.5 / 5e14:.1%} | 1 | 7 | - |"
        in text
    )
    assert f"| {one.name} | large | bf16 | did not fit | - |" in text


def test_the_peak_is_that_of_the_chip() -> None:
    assert peak_of("cuda (NVIDIA H100 80GB HBM3)", "bf16") == 989e12
    assert peak_of("cuda (NVIDIA H100 PCIe)", "fp32") == 51e12
    assert peak_of("cuda (NVIDIA A100-SXM4-40GB)", "fp32") == 19.5e12
    assert peak_of("cuda (Some GPU)", "bf16") is None


def test_launches_are_counted() -> None:
    x = torch.ones(3)
    assert launches(lambda: x.exp().sin(), CPU) == 2


def test_a_gpu_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as refused:
        gpu.main([])
    assert refused.value.code == 2
    assert "no usable GPU" in capsys.readouterr().err
