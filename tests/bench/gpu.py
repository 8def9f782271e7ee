"""The first hour on a GPU: ``python -m tests.bench.gpu``, in 20 minutes, with a page of tables on stdout.

It runs the tests that need a GPU; a training step of both encoders in every form, at the paper's sizes for the Penn
Treebank, eager and compiled, in bfloat16 and float32; and two epochs of masked language modelling on WikiText-2 at the
same sizes (`text/wikitext-2` below $PROBTRANS_DATA, `probtrans fetch wikitext2`).

    python -m tests.bench.gpu
    python -m tests.bench.gpu --only steps --json figures.json
    python -m tests.bench.gpu --device cpu --toy              everything at toy sizes, as a test of itself
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from . import ROOT, environment, parser_of, say
from .gpu_table import Page, page
from .settings import sentence_lengths, settings

PARTS = ("tests", "steps", "training")
RECIPES = ("mlm-ptb-probabilistic", "mlm-ptb-transformer")
FOR_TRAINING = 0.3
"""Share of the time that is kept for the trainings."""
TOY_COMPILED = ("uv, banded", "transformer")
"""What is compiled at toy sizes: a graph takes long on a CPU, however small the encoder."""
TOY_TESTS = "tests/models/test_gpu_values.py::test_a_training_has_the_losses_of_the_cpu[tagging]"
"""The test that toy sizes run: the others take a minute on a CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit status: 1 where a test, a cell or a training failed."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # read by torch's profiler: two lines on stderr for each use
    options = _parser().parse_args(arguments)
    began = time.monotonic()
    until = began + 60 * options.minutes
    given = Page(_machine(options))
    parts = [part for part in PARTS if part in options.only.split(",")] if options.only else list(PARTS)
    failed = False
    if "tests" in parts:
        given.tests, fine = _tests(options, until)
        failed |= not fine
    if "steps" in parts:
        _steps(given, options, until - 60 * options.minutes * FOR_TRAINING * ("training" in parts))
        failed |= any(cell.failed not in (None, "did not fit", "no time left") for cell in given.cells)
    if "training" in parts:
        given.trainings = [
            (name, _training(name, compiled, options, until))
            for compiled in ((False,) if options.toy else (False, True))
            for name in RECIPES
        ]
        failed |= any(isinstance(found, str) for _, found in given.trainings)
    given.machine["minutes"] = f"{(time.monotonic() - began) / 60:.1f}"
    print(page(given))
    if options.json:
        options.json.write_text(json.dumps(asdict(given), indent=1) + "\n", "utf-8")
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("gpu", __doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--toy", action="store_true", help="toy sizes: to see that everything runs")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which nothing more is begun (default 20)")
    parser.add_argument("--rounds", type=int, default=7, help="steps that are timed, at most (default 7)")
    parser.add_argument("--backend", default=None, help="of torch.compile (default inductor; eager at toy sizes)")
    parser.add_argument("--only", default="", help=f"some of {', '.join(PARTS)}; separated by commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file, too")
    return parser


def _machine(options: argparse.Namespace) -> dict[str, str]:
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        _parser().error("there is no usable GPU; --device cpu --toy tries the benchmark itself")
    name = torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
    sizes = "toy, the figures mean nothing" if options.toy else "the paper's for the Penn Treebank"
    return {"device": f"{options.device} ({name})", "torch": torch.__version__, "sizes": sizes}


def _tests(options: argparse.Namespace, until: float) -> tuple[str, bool]:
    """What the tests that need a GPU say last, and whether they pass."""
    what = [TOY_TESTS] if options.toy else []
    command = [sys.executable, "-m", "pytest", "-m", "gpu", *what]
    say("tests   " + " ".join(command[1:]))
    try:
        variables = environment(NO_COLOR="1", PROBTRANS_TEST_DEVICE=options.device)
        child = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=max(until - time.monotonic(), 1.0)
        )
    except subprocess.TimeoutExpired:
        return "no time left", False
    lines = child.stdout.strip().splitlines() or [child.stderr.strip()[-200:]]
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            say(line)
    return lines[-1], child.returncode == 0


def _steps(given: Page, options: argparse.Namespace, until: float) -> None:
    """Fill in the rates of large products and all cells."""
    import torch

    from .gpu_steps import WAYS, contenders, gpu_batches, measured, product_rate

    device, setting = torch.device(options.device), settings(options.toy)[0]
    size = 64 if options.toy else 8192
    given.rates = {
        "bf16": product_rate(device, torch.bfloat16, size),
        "fp32": product_rate(device, torch.float32, size),
    }
    batches = gpu_batches(sentence_lengths()[0], options.toy)
    backend = options.backend or ("eager" if options.toy else "inductor")
    for contender in contenders(setting, max(map(max, batches.values()))):
        say(f"steps   {contender.name}")
        # At toy sizes little is compiled, which takes long.
        ways = [
            way for way in WAYS if not options.toy or contender.name in TOY_COMPILED or not way.endswith("compiled")
        ]
        found = measured(contender, batches, ways, setting, device, backend=backend, rounds=options.rounds, until=until)
        given.cells.extend(found)


def _training(name: str, compiled: bool, options: argparse.Namespace, until: float) -> dict[str, float] | str:
    """Two epochs of a recipe's sizes; the figures, or why there are none."""
    say(f"train   {name}{', compiled' if compiled else ''}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = [sys.executable, "-m", "probtrans_cli", "-q", "train", name, *_overrides(name, options, folder)]
        command += [f"runtime.compile={str(compiled).lower()}", "--run", "run", "--json"]
        try:
            child = subprocess.run(
                command, cwd=folder, env=environment(NO_COLOR="1"), capture_output=True, text=True,
                timeout=max(until - time.monotonic(), 1.0),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "no time left"
        if child.returncode:
            return (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[0][:160]
        result = json.loads(child.stdout)
        log = map(json.loads, (folder / "run" / "metrics.jsonl").read_text("utf-8").splitlines())
        speeds = [line["words_per_second"] for line in log if line["split"] == "train"]
    return {"seconds": result["seconds"], "speed": median(speeds), "perplexity": result["dev"]["perplexity"]}


def _overrides(name: str, options: argparse.Namespace, folder: Path) -> list[str]:
    """What is changed of a recipe: its corpus, its length, and at toy sizes its sizes."""
    kept = ["train.epochs=2", f"runtime.device={options.device}", "data.longest=256", "data.too_long=cut"]
    if not options.toy:
        corpus = {"train": "train", "dev": "valid"}
        return [
            *kept,
            *(f"data.{split}=text/wikitext-2/{part}.txt" for split, part in corpus.items()),
            "data.test=null",
        ]
    words = [f"w{(7 * number) % 23}" for number in range(600)]
    text = "\n".join(" ".join(words[start : start + 9]) for start in range(0, len(words), 9)) + "\n"
    (folder / "toy.txt").write_text(text, "utf-8")
    small = {"mlm-ptb-probabilistic": "labels=8 channels=2 iterations=2 decomposition.rank=2",
             "mlm-ptb-transformer": "width=8 inner=16 heads=2 layers=1 head_size=4"}[name]  # fmt: skip
    kept += ["data.train=toy.txt", "data.dev=toy.txt", "data.test=null", "runtime.threads=1", "log.every_steps=1"]
    return [*kept, *(f"model.{one}" for one in small.split())]


if __name__ == "__main__":
    sys.exit(main())
