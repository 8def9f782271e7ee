"""What each way to use uncertain weights costs, and what it gives: of a trained tagger, on its test set.

    probtrans train uncertainty-ewt-bayes
    probtrans train uncertainty-ewt-bayes name=plain model.bayes=null
    python -m tests.bench.ways runs/uncertainty-ewt-bayes runs/plain [--batches 2] [--rounds 3]

A row a way. CPU time over that of the plain model, of the encoder alone and of the whole prediction (encoder, output
layer, mean over draws or readout of the moments): all ways in turn, on the same batches, the least of some rounds. The
largest amount of memory that each of the two holds at once for 32 sentences of 40 words, beyond the weights, over that
of the plain model. Loss and calibration error on the whole test set, as `eval --uncertainty` tells them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parent.parent))

from random_transformers import one_pass

from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.models.base import Inputs, Wants, Words
from probtrans_cli.models.bayesian.weights import drawn
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import Plain, PredictOptions, Predictor, predictor_of, way_of
from probtrans_cli.trained.uncertainty import uncertainty_scores

from . import parser_of

WAYS = ("mean", "diagonal", "moments", "4", "16", "64")
SENTENCES, WORDS = 32, 40


class Way(NamedTuple):
    """A way to predict: its name, the model, and who is asked."""

    name: str
    model: Model
    asked: Predictor

    def predicts(self, batch: Batch) -> Callable[[], object]:
        """The whole prediction of a batch."""
        wants = self.model.task.wants(batch)
        return lambda: self.asked(batch, wants)

    def encodes(self, batch: Inputs) -> Callable[[], object]:
        """The encoder alone, from the vectors of words to their representations, as often as the way asks for it."""
        network, way = self.model.network, None if isinstance(self.asked, Plain) else way_of(self.name)
        words, mask = network.potentials(batch.ids, batch.features), batch.mask
        if way is not None and way.kind == "moments":
            return lambda: one_pass(network.encoder, words, mask, way.state, at=mask)

        def run() -> None:
            for _ in range(1 if way is None else way.samples):
                with nullcontext() if way is None else drawn(network):
                    network.encoder(Words(words, mask))

        return run


def least_times(runs: list[list[Callable[[], object]]], rounds: int) -> list[float]:
    """CPU time of each list of runs: all lists in turn, the least of some rounds behind one for warming up."""
    least = [float("inf")] * len(runs)
    for number in range(rounds + 1):
        for index, of_way in enumerate(runs):
            begin = time.process_time()
            for run in of_way:
                run()
            if number:
                least[index] = min(least[index], time.process_time() - begin)
    return least


def most_memory(run: Callable[[], object]) -> int:
    """The largest number of bytes that a run holds at once beyond those that were there before."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]  # type: ignore[union-attr]
    held = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def main() -> None:
    parser = parser_of("ways", __doc__)
    parser.add_argument("run", help="of a tagger with uncertain weights")
    parser.add_argument("plain", help="of the same one with certain weights")
    parser.add_argument("--batches", type=int, help="evenly chosen ones of the test set, for the times; all by default")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    plain, model = Model.load(given.plain), Model.load(given.run)
    ways = [Way("plain", plain, predictor_of(plain))]
    ways += [Way(name, model, predictor_of(model, PredictOptions(weights=name))) for name in WAYS]
    test = prepare(model.recipe).splits["test"]
    plans = model.evaluation().batches(test)
    chosen = plans[:: max(1, len(plans) // (given.batches or len(plans)))][: given.batches]
    batches = [[way.model.collate(test, indices) for indices in chosen] for way in ways]
    with torch.inference_mode():
        for way in ways:
            way.asked.ready()
        pairs = list(zip(ways, batches, strict=True))
        encoding = least_times([[way.encodes(one) for one in of_way] for way, of_way in pairs], given.rounds)
        predicting = least_times([[way.predicts(one) for one in of_way] for way, of_way in pairs], given.rounds)
        ids = torch.randint(len(model.vocabulary.specials), model.vocabulary.size, (SENTENCES, WORDS))
        mask = torch.ones_like(ids, dtype=torch.bool)
        given_words, wants = Inputs(ids=ids, mask=mask), Wants(words=mask)
        inside = [most_memory(way.encodes(given_words)) for way in ways]
        memory = [most_memory(lambda asked=way.asked: asked(given_words, wants)) for way in ways]
    print(
        f"{sum(map(len, chosen))} sentences. Plain: "
        f"encoder {1e3 * encoding[0]:.0f} ms, {inside[0] / 2**20:.1f} MiB; "
        f"whole {1e3 * predicting[0]:.0f} ms, {memory[0] / 2**20:.1f} MiB"
    )
    print("| way | time, encoder | whole | memory, encoder | whole | nll | ece |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for index, way in enumerate(ways):
        doubting = predictor_of(
            way.model, PredictOptions(weights=None if way.model is plain else way.name, uncertainty=True)
        )
        found = uncertainty_scores(way.model, doubting, test)["uncertainty"]
        ratios = [of[index] / of[0] for of in (encoding, predicting, inside, memory)]
        told = " | ".join(f"{ratio:.1f}" for ratio in ratios)
        print(f"| {way.name} | {told} | {found['nll']:.3f} | {found['ece']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
