"""Trees: how fast they are decoded and how fast the command parses, beside one sentence at a time.

    python -m tests.bench.parse RUN                    decoders alone; the command on 4,000 sentences; loading
    python -m tests.bench.parse RUN --stream 1000000   so many sentences through a pipe, and the memory of the command
    python -m tests.bench.parse RUN --bulk 40000       so many sentences in bulk, by one worker and by two, in turns

The text: words of the checkpoint's vocabulary in sentences of the lengths of the English Web Treebank. *One at a time*
is the way of the paper's code: every sentence goes through the encoder alone, and an Eisner decoder that loops over
spans in Python reads its heads; it is given its model for nothing, while the command's time includes its start.
Decoders are timed on matrices of 25 words, some flat, some peaked, levelled as the command levels them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from . import COMMAND, memory_of, parser_of, seconds_of
from .settings import sentence_lengths

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model

WORDS, MATRICES = 25, 4096
PARSE = (*COMMAND, "parse")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("parse", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run folder or checkpoint")
    parser.add_argument("--sentences", type=int, default=4000, help="for the command (default 4000)")
    parser.add_argument("--alone", type=int, default=200, help="for one at a time (default 200)")
    parser.add_argument("--rounds", type=int, default=5, help="of the decoders (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--stream", type=int, metavar="N", help="only: N sentences through a pipe")
    parser.add_argument("--bulk", type=int, metavar="N", help="only: N sentences in bulk")
    options = parser.parse_args(arguments)
    from probtrans_cli.trained.model import Model

    model = Model.load(options.run, threads=options.threads)
    if options.stream:
        stream(options.run, text(model, options.stream), options.threads)
        return 0
    if options.bulk:
        bulk(options.run, list(text(model, options.bulk)), options.rounds)
        return 0
    for name, rate in decoders(options.rounds).items():
        print(f"{name:7} {rate:9,.0f} sentences/s of {WORDS} words, decoding alone")
    with tempfile.TemporaryDirectory() as folder:
        path, nothing = Path(folder, "text.txt"), Path(folder, "empty.txt")
        path.write_text("".join(text(model, options.sentences)), encoding="utf-8")
        nothing.write_text("", encoding="utf-8")
        start = command(options.run, nothing, options.threads)
        whole = command(options.run, path, options.threads)
    loading = seconds_of(lambda: Model.load(options.run, threads=options.threads))
    alone = one_at_a_time(model, list(text(model, options.alone)))
    count, work = options.sentences, whole - start
    alone_for_all = alone * count / options.alone
    print(f"start   {start:9.2f} s, of which {loading:.2f} s to load the model, the rest to import torch")
    print(f"command {count / work:9,.0f} sentences/s after it, {count / whole:,.0f} with it")
    print(
        f"alone   {options.alone / alone:9,.0f} sentences/s, one at a time: the command is {alone_for_all / work:.1f} "
        f"times as fast, {(start + alone_for_all) / whole:.1f} times if each has to start for {count:,} sentences"
    )
    return 0


def text(model: Model, count: int) -> Iterator[str]:
    """Lines of words from the vocabulary, half of all known ids, always the same ones."""
    random = np.random.default_rng(0)
    vocabulary = model.vocabulary
    first = max(vocabulary.specials) + 1
    words = np.array([vocabulary.decode(int(one)) for one in range(first, vocabulary.size)])
    lengths = np.array(sentence_lengths()[0])
    for _ in range(count):
        yield " ".join(random.choice(words, random.choice(lengths))) + "\n"


def decoders(rounds: int) -> dict[str, float]:
    """Sentences/s of every decoder: medians of rounds in turns."""
    from probtrans_cli.trees.decode import Method, decode, levelled

    random = np.random.default_rng(0)
    scores = random.normal(size=(MATRICES, WORDS, WORDS)) * random.choice([1.0, 4.0], size=(MATRICES, 1, 1))
    scores = levelled(scores - np.log(np.exp(scores).sum(-1, keepdims=True)))
    mask = np.ones((MATRICES, WORDS), dtype=bool)
    methods: tuple[Method, ...] = ("argmax", "mst", "eisner")
    taken: dict[Method, list[float]] = {method: [] for method in methods}
    for _ in range(rounds + 1):
        for method in methods:
            taken[method].append(seconds_of(lambda method=method: decode(scores, mask, method)))
    return {method: MATRICES / median(taken[method][1:]) for method in methods}


def command(run: str, path: Path, threads: int) -> float:
    """Seconds of `probtrans parse RUN PATH -f conllu --decode eisner`."""
    arguments = [*PARSE, run, str(path), "--input", "tokens", "--decode", "eisner", "--threads", str(threads)]
    return seconds_of(lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL))


def bulk(run: str, lines: Sequence[str], rounds: int) -> None:
    """Parse lines in bulk, by one worker and by two, in turns, and print how many times as fast two are: with the start
    of the command, and without the time that it needs for a single sentence."""
    ratios: dict[str, list[float]] = {"with the start": [], "without it": []}
    with tempfile.TemporaryDirectory() as folder:
        whole, first = Path(folder, "whole.txt"), Path(folder, "first.txt")
        whole.write_text("".join(lines), encoding="utf-8")
        first.write_text(lines[0], encoding="utf-8")
        size = max(1, whole.stat().st_size // 40)

        def seconds(path: Path, workers: int) -> float:
            with tempfile.TemporaryDirectory(dir=folder) as out:
                arguments = [run, str(path), "--input", "tokens", "--output-dir", out, "--workers", str(workers)]
                command = [*PARSE, *arguments, "--block-size", str(size)]
                return seconds_of(lambda: subprocess.run(command, check=True, stderr=subprocess.DEVNULL))

        for number in range(1, rounds + 1):
            taken = {workers: seconds(whole, workers) for workers in (1, 2)}
            start = {workers: seconds(first, workers) for workers in (1, 2)}
            work = {workers: taken[workers] - start[workers] for workers in (1, 2)}
            ratios["with the start"].append(taken[1] / taken[2])
            ratios["without it"].append(work[1] / work[2])
            rates = ", ".join(f"{workers}: {len(lines) / work[workers]:,.0f}" for workers in (1, 2))
            print(f"round {number}: sentences/s by workers {rates}; load {os.getloadavg()[0]:.1f}", flush=True)
    for name, found in ratios.items():
        print(
            f"two workers are {median(found):.2f} times as fast as one, {name} ({min(found):.2f} to {max(found):.2f})"
        )


def one_at_a_time(model: Model, lines: Sequence[str]) -> float:
    """Seconds for the heads of every sentence, the encoder's last iteration, mean of the channels."""
    import torch

    from tests.small_tasks import encode

    def parse() -> None:
        with torch.no_grad():
            for line in lines:
                ids = torch.tensor([model.vocabulary.encode_words(line.split()).ids])
                arcs = encode(model.network, ids, ids != model.vocabulary.PAD, arcs=True).arcs
                assert arcs is not None
                n = ids.shape[1]
                eisner(arcs[0, -1, :, :, :n].clamp(min=1e-38).log().mean(0).double().numpy())

    model.network.eval()
    parse()  # the first pass warms up
    return seconds_of(parse)


def eisner(scores: np.ndarray) -> list[int]:
    """Heads, 0 = root, of the best projective tree of one sentence: a chart, filled span by span in Python."""
    n = len(scores)
    arc = np.full((n + 1, n + 1), -np.inf)  # [head, dependent], 0 is the root, whose arcs all score 0
    arc[1:, 1:] = scores.T
    complete, open_ = np.zeros((2, n + 1, n + 1)), np.full((2, n + 1, n + 1), -np.inf)  # 0: head at the right end
    split = np.zeros((4, n + 1, n + 1), dtype=int)
    for span in range(1, n):
        for s in range(1, n + 1 - span):
            t = s + span
            both = complete[1, s, s:t] + complete[0, s + 1 : t + 1, t]
            best = int(both.argmax())
            split[0, s, t] = split[1, s, t] = s + best
            open_[0, s, t], open_[1, s, t] = both[best] + arc[t, s], both[best] + arc[s, t]
            left = complete[0, s, s:t] + open_[0, s:t, t]
            split[2, s, t] = s + int(left.argmax())
            complete[0, s, t] = left.max()
            right = open_[1, s, s + 1 : t + 1] + complete[1, s + 1 : t + 1, t]
            split[3, s, t] = s + 1 + int(right.argmax())
            complete[1, s, t] = right.max()
    top = 1 + int((complete[0, 1, 1:] + complete[1, 1:, n]).argmax())
    heads = [0] * n
    todo = [(2, 1, top), (3, top, n)]
    while todo:
        kind, s, t = todo.pop()
        if s == t:
            continue
        middle = split[kind, s, t]
        if kind < 2:
            heads[(s if kind == 0 else t) - 1] = t if kind == 0 else s
            todo += [(3, s, middle), (2, middle + 1, t)]
        else:
            todo += [(2, s, middle), (0, middle, t)] if kind == 2 else [(1, s, middle), (3, middle, t)]
    return heads


def stream(run: str, lines: Iterator[str], threads: int) -> None:
    """Send lines through the command, without waiting for what comes out, and print its memory on the way."""
    arguments = [*PARSE, run, "-f", "conllu", "--input", "tokens", "--threads", str(threads)]
    began, sent = time.perf_counter(), 0
    with (
        Path(os.devnull).open("wb") as nowhere,
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=nowhere) as process,
    ):
        assert process.stdin is not None
        for sent, line in enumerate(lines, start=1):
            process.stdin.write(line.encode())
            if sent % 20_000 == 0:
                rate = sent / (time.perf_counter() - began)
                memory = memory_of(process.pid)["VmRSS"] / 2**20
                print(f"{sent:10,} sentences sent, {rate:,.0f}/s, memory {memory:,.0f} MB", flush=True)
        process.stdin.close()
        if process.wait():
            raise SystemExit(f"the command ended with {process.returncode}")
    print(f"{sent:10,} sentences parsed, {sent / (time.perf_counter() - began):,.0f}/s")


if __name__ == "__main__":
    raise SystemExit(main())
