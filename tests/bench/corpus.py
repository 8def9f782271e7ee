"""Large corpora: time and peak memory of preparing and training, over corpora of several sizes.

    python -m tests.bench.corpus 1000000 3000000 10000000 --jobs 1 --folder FOLDER

For every size, sentences are drawn, written into a text file bit by bit, prepared, trained on for some updates, and the
batches of an epoch are put together once, as training reads them; all of it lies in a new folder below FOLDER and is
removed at the end. A sentence has a length of the English Web Treebank, and its words are Zipfian: the word of rank r
has a share of 1 / (r + 2.7) among a million. Memory is that of the largest process: its peak as the kernel counts it,
which includes what is mapped of files, and its own part (anonymous pages).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from . import COMMAND, environment, memory_of, parser_of
from .settings import sentence_lengths

WORDS, PORTION = 1_000_000, 50_000
READ = (sys.executable, "-m", "tests.bench.corpus", "--read")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("corpus", __doc__)
    parser.add_argument("sizes", metavar="N", type=int, nargs="*", help="sentences")
    parser.add_argument("--read", metavar="FOLDER", help="only: the batches of an epoch over a prepared folder")
    parser.add_argument("--jobs", type=int, default=1, help="processes of prepare (default 1)")
    parser.add_argument("--steps", type=int, default=200, help="updates of the training (default 200)")
    parser.add_argument("--folder", help="where the corpora are for as long as they are wanted")
    options = parser.parse_args(arguments)
    if options.read:
        read(Path(options.read))
        return 0
    print("sentences | step | seconds | peak of a process, MB | of it not of files, MB | all processes, MB")
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name)
            began = time.perf_counter()
            with (folder / "text.txt").open("w", encoding="utf-8") as file:
                file.writelines(sentences(size))
            told = f"{(folder / 'text.txt').stat().st_size / 1e6:,.0f} MB of text"
            print(f"{size:,} | written | {time.perf_counter() - began:.0f} | {told}", flush=True)
            (folder / "recipe.yaml").write_text(json.dumps(recipe(options.steps)), encoding="utf-8")
            for verb in (["prepare", "recipe.yaml", "--jobs", str(options.jobs)], ["train", "recipe.yaml"]):
                show(size, verb[0], *measured([*COMMAND, *verb], folder))
            for made in (folder / "prepared").glob("large-*"):
                show(size, "read", *measured([*READ, str(made)], folder))
            stored = sum(path.stat().st_size for path in (folder / "prepared").rglob("*.arrow"))
            print(f"{size:,} | stored | | {stored / 1e6:,.0f} MB in shards", flush=True)
    return 0


def recipe(steps: int) -> dict[str, object]:
    """A small model: what is measured is not its memory."""
    return {
        "version": 1,
        "name": "large",
        "data": {"train": "text.txt", "vocabulary": {"kind": "words", "max_size": 20000}},
        "task": {"kind": "mlm"},
        "model": {"labels": 32, "channels": 2, "iterations": 2, "decomposition": {"kind": "uv", "rank": 8}},
        "optim": {"lr": 0.001},
        "train": {"epochs": 1, "steps": steps, "batch_words": 4096},
        "runtime": {"device": "cpu", "threads": 1},
    }


def sentences(count: int) -> Iterator[str]:
    """Lines of words, always the same ones."""
    random = np.random.default_rng(22)
    lengths = np.array(sentence_lengths()[0])
    shares = np.cumsum(1 / (np.arange(WORDS) + 2.7))
    names = np.array([f"w{number:x}" for number in range(WORDS)], dtype=object)
    for begin in range(0, count, PORTION):
        drawn = random.choice(lengths, min(PORTION, count - begin))
        ends = np.cumsum(drawn)
        words = names[np.searchsorted(shares, random.random(ends[-1]) * shares[-1])].tolist()
        yield from (" ".join(words[end - n : end]) + "\n" for n, end in zip(drawn, ends, strict=True))


def read(folder: Path) -> None:
    import torch

    from probtrans_cli.data.corpus.batches import plan
    from probtrans_cli.data.corpus.prepared import open_prepared
    from probtrans_cli.tasks.batch import collate

    split = open_prepared(folder).splits["train"]
    count = 0
    for indices in plan(split.lengths, 4096, 0, 0, bounds=split.bounds):
        count += len(collate(split, indices, padding=0, device=torch.device("cpu")))
    assert count == len(split)


def measured(command: Sequence[str], folder: Path) -> tuple[float, int, int, int]:
    """Seconds of a command; the largest peak of one of its processes, and of that without files, and of all at once, in
    bytes."""
    began = time.perf_counter()
    peak = own = together = 0
    variables = environment(OMP_NUM_THREADS="1")
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            memories = [memory_of(each) for each in (process.pid, *children(process.pid))]
            of_no_file = [memory.get("RssAnon", 0) for memory in memories]
            peak = max(peak, *(memory.get("VmHWM", 0) for memory in memories))
            own, together = max(own, *of_no_file), max(together, sum(of_no_file))
            time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.perf_counter() - began, peak, own, together


def children(process: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def show(size: int, what: str, seconds: float, peak: int, own: int, together: int) -> None:
    print(
        f"{size:,} | {what} | {seconds:.0f} | {peak / 1e6:,.0f} | {own / 1e6:,.0f} | {together / 1e6:,.0f}", flush=True
    )


if __name__ == "__main__":
    sys.exit(main())
