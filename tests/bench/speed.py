"""What a user waits for, in one table: the first answer, sentences per second, an update, two workers of a job.

    python -m tests.bench.speed RUN...                  five rounds in turns; the text is test of English (UD EWT)
    python -m tests.bench.speed RUN... --graph FOLDER   beside a graph that `export --format onnx` wrote
    python -m tests.bench.speed RUN... --udpipe MODEL   beside UDPipe 1 with a model (`tests.bench.udpipe` makes one)
    python -m tests.bench.speed RUN... --spacy MODEL    beside spaCy, as with `en_core_web_sm`

Figures are processor time of one thread, which other work on the machine lengthens less than time by the clock: median
and, in brackets, the smallest and largest of the rounds. The first answer is of a whole process, `parse RUN -f tree`
of one sentence; with a server (`probtrans serve`) it is the client's time by the clock, as another process computes.
Sentences per second are of `parse -f conllu` without its start, reading and writing included. An update is one of
the quick start's. Two workers are compared by the clock, each with its start.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from probtrans_cli.commands.parse import ParseRequest, parse
from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.data.files import find, open_lines
from probtrans_cli.training.loop import Trainer

from . import COMMAND, parser_of, seconds_of

UPDATES = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("speed", __doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders or checkpoints")
    parser.add_argument("--text", default="ud/en_ewt/test.conllu", help="a CoNLL-U file, whose words are parsed")
    parser.add_argument("--sentences", type=int, default=2000, help="of it, at most (default 2000)")
    parser.add_argument("--rounds", type=int, default=5, help="(default 5)")
    parser.add_argument("--bulk", type=int, default=20_000, help="sentences of the job of two workers (default 20000)")
    parser.add_argument("--graph", type=Path, nargs="*", default=(), metavar="FOLDER", help="graphs for onnxruntime")
    parser.add_argument("--udpipe", type=Path, metavar="MODEL", help="a model of UDPipe 1")
    parser.add_argument("--spacy", metavar="MODEL", help="a package or a folder of spaCy")
    options = parser.parse_args(arguments)
    runs = [str(Path(run).absolute()) for run in options.runs]
    lines = list(words_of(options.text))[: options.sentences]
    pipeline = None
    if options.spacy is not None:
        from spacy import load

        pipeline = load(options.spacy)
    words = sum(len(line.split()) for line in lines)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}")
    print(f"{len(lines):,} sentences, {words:,} words")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text("".join(lines), encoding="utf-8")
        (folder / "first.txt").write_text(lines[0], encoding="utf-8")
        rows: dict[str, Callable[[], float]] = {}
        with served(folder / "socket", runs[:1]) as server:
            rows["first answer, s"] = lambda: first_answer(runs[0], folder / "first.txt", {})
            rows["first answer with a server, s"] = lambda: first_answer(runs[0], folder / "first.txt", server)
            for run in runs:
                rows[f"sentences/s, {Path(run).name}"] = partial(rate, run, folder, len(lines))
            for graph in options.graph:
                rows[f"first answer, graph {graph.name}, s"] = partial(answer_of_graph, graph, folder / "first.txt")
                rows[f"sentences/s, graph {graph.name}"] = partial(graph_rate, graph, folder, len(lines))
            if options.udpipe is not None:
                rows["sentences/s, UDPipe 1"] = lambda: len(lines) / udpipe(options.udpipe, lines)
            if pipeline is not None:
                rows["sentences/s, spaCy"] = lambda: len(lines) / spacy(pipeline, lines)
            figures: dict[str, list[float]] = {row: [] for row in rows}
            for _ in range(options.rounds):
                for row, measure in rows.items():
                    figures[row].append(measure())
        figures["an update of the quick start, ms"] = list(updates(folder / "run", options.rounds))
        figures["two workers for one, times as fast"] = [
            bulk(runs[0], lines, options.bulk, folder / f"job{number}") for number in range(2)
        ]
    for row, values in figures.items():
        print(f"{row:40} {median(values):10,.3g} ({min(values):,.3g} to {max(values):,.3g})")
    return 0


def words_of(name: str) -> Iterator[str]:
    """Yield the words of each sentence of a CoNLL-U file, with a space between two."""
    words: list[str] = []
    for line in open_lines(find(name)):
        cells = line.split("\t")
        if cells[0].isdigit():
            words.append(cells[1].replace(" ", ""))
        elif not line and words:
            yield " ".join(words) + "\n"
            words = []


@contextmanager
def served(socket: Path, runs: Sequence[str]) -> Iterator[dict[str, str]]:
    """Within: a server keeps the models. Yields the environment of its clients."""
    with subprocess.Popen([*COMMAND, "serve", str(socket), *runs], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        try:
            yield {"PROBTRANS_SERVER": str(socket)}
        finally:
            process.terminate()


def first_answer(run: str, path: Path, server: dict[str, str]) -> float:
    """Return the seconds of `parse`: of the processor, or, with a server, by the clock."""
    began = time.perf_counter()
    taken = processor_time([*COMMAND, "parse", run, str(path), "-f", "tree"], server)
    return time.perf_counter() - began if server else taken


def processor_time(command: Sequence[str], variables: dict[str, str]) -> float:
    """Return the seconds of the processor that a command takes, in an environment with these variables."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rate(run: str, folder: Path, count: int) -> float:
    """Return the sentences per second of the whole text, without the time for its first, which loads the model."""

    def seconds(name: str) -> float:
        request = ParseRequest(run, [str(folder / name)], input_form="tokens", output=folder / "out", threads=1)
        return seconds_of(lambda: parse(request), time.process_time)

    return count / (seconds("text.txt") - seconds("first.txt"))


def graph_rate(graph: Path, folder: Path, count: int) -> float:
    """Return the sentences per second of a graph's `example.py`, without the time for the first one."""
    first, whole = (answer_of_graph(graph, folder / name) for name in ("first.txt", "text.txt"))
    return count / (whole - first)


def answer_of_graph(graph: Path, path: Path) -> float:
    """Return the seconds of the processor of a graph's `example.py`, start included.

    Threads of onnxruntime are as many as the process may use, so it gets one core.
    """
    core = str(min(os.sched_getaffinity(0)))
    return processor_time(["taskset", "-c", core, sys.executable, str(graph / "example.py"), "--file", str(path)], {})


def udpipe(path: Path, lines: Sequence[str]) -> float:
    """Return the seconds in which UDPipe tags and parses the same words, reading and writing included."""
    from ufal.udpipe import Model, Pipeline, ProcessingError

    model = Model.load(str(path))
    began = time.process_time()
    pipeline = Pipeline(model, "horizontal", Pipeline.DEFAULT, Pipeline.DEFAULT, "conllu")
    pipeline.process("".join(lines), ProcessingError())
    return time.process_time() - began


def spacy(pipeline: Any, lines: Sequence[str]) -> float:
    """Return the seconds in which all that a model of spaCy has reads the same words."""
    from spacy.tokens import Doc

    began = time.process_time()
    for _ in pipeline.pipe(Doc(pipeline.vocab, words=line.split()) for line in lines):
        pass
    return time.process_time() - began


def updates(run: Path, rounds: int) -> Iterator[float]:
    """Yield the mean milliseconds of 200 updates of the quick start, time after time."""
    times: list[float] = []
    update = Trainer._update

    def timed(trainer: Trainer, batches: Sequence[np.ndarray]) -> None:
        began = time.process_time()
        update(trainer, batches)
        times.append(1000 * (time.process_time() - began))

    Trainer._update = timed  # type: ignore[method-assign, assignment]
    try:
        steps = UPDATES * rounds
        with chdir(run.parent):
            train(TrainRequest("quickstart", [f"train.steps={steps}", "runtime.threads=1", "data.test=null"], run=run))
    finally:
        Trainer._update = update  # type: ignore[method-assign, assignment]
    yield from (sum(times[i : i + UPDATES]) / UPDATES for i in range(0, len(times), UPDATES))


def bulk(run: str, lines: Sequence[str], count: int, folder: Path) -> float:
    """Return how many times as fast as one worker two are, by the clock, with their starts."""
    text = folder.with_suffix(".txt")
    text.write_text("".join(lines[i % len(lines)] for i in range(count)), encoding="utf-8")

    def seconds(workers: int) -> float:
        job = ["--output-dir", f"{folder}-{workers}", "--workers", str(workers), "-f", "conllu"]
        command = [*COMMAND, "parse", run, str(text), "--input", "tokens", *job]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return seconds_of(lambda: subprocess.run(command, check=True, **quiet))

    return seconds(1) / seconds(2)


if __name__ == "__main__":
    raise SystemExit(main())
