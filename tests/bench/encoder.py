"""Time and memory of the encoders at the paper's sizes: ``python -m tests.bench.encoder``, a report on stdout.

Competitors: the probabilistic transformer with ``plain``, ``banded`` and (long inputs) ``linear`` messages, its
variants ``shared`` and ``rotary`` (banded), the same model in the way of the paper's code (``reference``), the
``transformer`` of the paper's Table 3, and ``fused``, the same without dropout of its attention probabilities, where
that lets it use a fused kernel. All have the same batches. Times: rounds
in which each competitor has its turn, medians, ratios round by round. Memory: each competitor in a process of its own.

    python -m tests.bench.encoder                             everything: about an hour on two cores
    python -m tests.bench.encoder --only mlm-ptb,ragged       one setting and kind of batches
    python -m tests.bench.encoder --only 1x512,plain,banded --no-memory --rounds 3
    python -m tests.bench.encoder --device cuda --json figures.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import environment, parser_of, say
from .report import Cell, Report, markdown
from .settings import Setting, batches, flops, pair_flops, sentence_lengths, settings

if TYPE_CHECKING:
    from .measure import ProductRate

KINDS = ("ragged", "bucketed", "1x512", "1x2048")
LONG = ("1x512", "1x2048")
COMPETITORS = ("reference", "plain", "banded", "linear", "shared", "rotary", "transformer", "fused")


@dataclass(frozen=True)
class Plan:
    """What is to be measured: settings, kinds of batches and competitors by name, and the sentence lengths."""

    settings: list[Setting]
    kinds: list[str]
    competitors: list[str]
    lengths: dict[str, list[list[int]]]


def _takes_part(name: str, setting: Setting, kind: str) -> bool:
    if name == "plain":
        return kind != "1x2048"  # its n x n x K tensors need tens of gigabytes
    if name == "reference":
        return kind != "1x2048" and setting.model["decomposition"]["kind"] == "uv"
    if name == "linear":
        return kind in LONG
    if name == "fused":
        # Without dropout it is the transformer itself, and learned relative positions fit no fused kernel.
        return setting.transformer.dropout > 0 and setting.transformer.clip is None
    return name in {"banded", "transformer"} or name in setting.variants


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # as the command: read by torch when it is imported
    if options.one:
        return _one(options)
    plan, source = _plan(options)
    report = Report(_machine(options, source))
    report.cells = [
        _cell(setting, kind, name, plan.lengths[kind])
        for setting in plan.settings
        for kind in plan.kinds
        for name in plan.competitors
        if _takes_part(name, setting, kind)
    ]
    if options.memory:
        for cell in report.cells:
            _memory(cell, max(plan.lengths[cell.kind], key=lambda one: len(one) * max(one)), options)
    _times(plan, report, options)
    print(markdown(report))
    if options.json:
        options.json.write_text(json.dumps(report.data(), indent=1) + "\n", "utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("encoder", __doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up (default 7)")
    parser.add_argument("--batches", type=int, default=4, help="ragged and bucketed batches (default 4)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: bfloat16 autocast")
    parser.add_argument("--only", default="", help="settings, kinds of batches, competitors; separated by commas")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="measure times alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file, too")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to see that everything runs")
    parser.add_argument("--one", metavar="SETTING/COMPETITOR", help=argparse.SUPPRESS)
    return parser


def _plan(options: argparse.Namespace) -> tuple[Plan, str]:
    every = settings(options.tiny)
    asked = {name for name in options.only.split(",") if name}
    if unknown := sorted(asked - {setting.name for setting in every} - {*KINDS, *COMPETITORS}):
        known = ", ".join([*(setting.name for setting in every), *KINDS, *COMPETITORS])
        _parser().error(f"--only: there is no {', '.join(unknown)}; there are {known}")

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if name in asked] or list(names)

    names = chosen([setting.name for setting in every])
    lengths, source = sentence_lengths()
    plan = Plan(
        [setting for setting in every if setting.name in names],
        chosen(KINDS),
        chosen(COMPETITORS),
        batches(lengths, options.batches, tiny=options.tiny),
    )
    return plan, f"lengths of EWT's training sentences, {source}"


def _cell(setting: Setting, kind: str, name: str, lengths: list[list[int]]) -> Cell:
    words = sum(map(sum, lengths))
    pairs = sum(length * length for one in lengths for length in one)
    if name in {"transformer", "fused"}:
        of_word, of_pair = setting.transformer.flops(), setting.transformer.pair_flops()
    else:
        section = setting.section(name if name in setting.variants else None)
        of_word, of_pair = flops(section), pair_flops(section)
    padded = sum(len(one) * max(one) for one in lengths)
    return Cell(setting.name, kind, name, len(lengths), words, padded, of_word, of_pair * pairs / words)


def _machine(options: argparse.Namespace, source: str) -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "device": options.device,
        "threads": str(options.threads),
        "sizes": "tiny, the figures mean nothing" if options.tiny else "the paper's",
        "precision": "bfloat16 autocast" if options.device == "cuda" else "float32",
        "rounds": str(options.rounds),
        "batches": source,
    }


def _times(plan: Plan, report: Report, options: argparse.Namespace) -> None:
    """Fill in the seconds of every round, and the machine's product rate."""
    import torch

    from .measure import ProductRate, prepare_machine

    device = prepare_machine(options.device, options.threads)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    report.machine |= {"torch": torch.__version__, "device": f"{device.type} ({name})"}
    rate = ProductRate(device, 64 if options.tiny else None)
    for setting in plan.settings:
        for kind in plan.kinds:
            cells = [cell for cell in report.cells if (cell.setting, cell.kind) == (setting.name, kind)]
            _time(setting, plan.lengths[kind], [cell for cell in cells if not cell.failed], rate, options.rounds)
    report.product_rates = rate.seen


def _time(
    setting: Setting, lengths: list[list[int]], cells: list[Cell], rate: ProductRate, rounds: int
) -> None:  # one setting and kind of batches
    from .measure import rounds_of, steps

    if not cells:
        return
    say(f"time    {setting.name:8} {cells[0].kind:8} {' '.join(cell.competitor for cell in cells)}")
    competitors = {}
    for cell in cells:
        try:
            made = steps(setting, cell.competitor, lengths, rate.device)
            if cell.peak_mib is None:  # else another process has tried
                made[0]()
        except Exception as error:  # what one competitor cannot do must not cost the others' figures
            cell.failed = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            competitors[cell.competitor] = made
    taken = rounds_of(competitors, rounds, rate.device, rate)
    for cell in cells:
        rounds_taken = taken.get(cell.competitor, [])
        cell.seconds = [seconds for seconds, _ in rounds_taken]
        cell.product_rates = [rate for _, rate in rounds_taken]


# --- memory: a process for each competitor ----------------------------------------------------------------------------


def _memory(cell: Cell, lengths: list[int], options: argparse.Namespace) -> None:
    """Fill in the peak memory of a step on the largest of the batches, or why there was none."""
    say(f"memory  {cell.setting:8} {cell.kind:8} {cell.competitor}")
    command = [sys.executable, "-m", "tests.bench.encoder", "--one", f"{cell.setting}/{cell.competitor}"]
    command += ["--device", options.device, "--threads", str(options.threads), *(["--tiny"] if options.tiny else [])]
    child = subprocess.run(command, env=environment(), input=json.dumps(lengths), capture_output=True, text=True)
    if child.returncode == 0:
        cell.peak_mib = json.loads(child.stdout)["peak_bytes"] / 2**20
    else:
        lines = child.stderr.strip().splitlines() or [f"exit status {child.returncode}"]
        cell.failed = "did not fit" if "memory" in lines[-1] else lines[-1]


def _one(options: argparse.Namespace) -> int:
    from .measure import peak_bytes, prepare_machine, steps

    name, competitor = options.one.split("/")
    setting = next(setting for setting in settings(options.tiny) if setting.name == name)
    lengths = json.load(sys.stdin)
    device = prepare_machine(options.device, options.threads)

    def build_and_step() -> None:
        (step,) = steps(setting, competitor, [lengths], device)
        step()

    print(json.dumps({"peak_bytes": peak_bytes(build_and_step, device)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
