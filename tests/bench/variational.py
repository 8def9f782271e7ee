"""What an update with uncertain weights costs, beside one with plain weights.

    python -m tests.bench.variational

CPU time of an update (forward, backward, Adam) of a transformer of 4 layers at several widths and sizes of batches:
each kind in turn, the least of some rounds, as a ratio to the plain one. And what parameters, gradients and Adam's
moments hold beyond the plain ones, in copies of the uncertain matrices; a draw and its noise are two copies more.
"""

from __future__ import annotations

import argparse
import time

import torch

from probtrans_cli.models import build
from probtrans_cli.models.base import Inputs, Wants
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.variational import spread
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput
from probtrans_cli.recipe.training import Optim
from probtrans_cli.recipe.weights import Bayes
from probtrans_cli.training.optim import Optimizers

CLASSES, WORDS, LENGTH = 50, 5000, 24


class Update:
    """An update of a network on random sentences."""

    def __init__(self, width: int, bayes: Bayes | None) -> None:
        torch.manual_seed(0)
        section = {"kind": "transformer", "width": width, "inner": 4 * width, "heads": 8, "layers": 4, "dropout": 0.0}
        self.network = Network(WORDS, build(section), lambda encoder: LinearOutput(encoder.facts.width, CLASSES))
        self.bayes = bayes
        if bayes is not None:
            spread(self.network, bayes)
        self.optimizer = Optimizers(Optim(), self.network, bayes)

    def run(self, sentences: int) -> float:
        """The CPU time of one update, in seconds."""
        ids = torch.randint(3, WORDS, (sentences, LENGTH))
        mask = torch.ones_like(ids, dtype=torch.bool)
        gold = torch.randint(CLASSES, (ids.numel(),))
        began = time.process_time()
        self.optimizer.zero_grad()
        with weights.drawn(self.network):
            scores = self.network(Inputs(ids=ids, mask=mask), Wants(words=mask)).scores["words"]
        torch.nn.functional.cross_entropy(scores, gold).backward()
        if self.bayes is not None:
            weights.add_divergence(self.network, 1e-5)
        self.optimizer.step()
        return time.process_time() - began

    def held(self) -> int:
        """Numbers in parameters, gradients and moments of the optimizer."""
        return 4 * sum(parameter.numel() for parameter in self.optimizer.parameters)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What an update with uncertain weights costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 384])
    parser.add_argument("--words", type=int, nargs="+", default=[400, 1200, 2040])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| width | words | row | full | more memory held, row | full |\n|---|---|---|---|---|---|")
    for width in options.widths:
        kinds = {"plain": None, "row": Bayes(), "full": Bayes(family="full")}
        updates = {name: Update(width, bayes) for name, bayes in kinds.items()}
        matrices = sum(one.mean.numel() for one in weights.uncertain(updates["row"].network))
        more = {name: (one.held() - updates["plain"].held()) / matrices for name, one in updates.items()}
        for words in options.words:
            for one in updates.values():
                one.run(words // LENGTH)
            rounds = [{name: one.run(words // LENGTH) for name, one in updates.items()} for _ in range(options.rounds)]
            least = {name: min(one[name] for one in rounds) for name in updates}
            ratios = " | ".join(f"{least[name] / least['plain']:.2f}" for name in ("row", "full"))
            print(f"| {width} | {words} | {ratios} | {more['row']:.2f} | {more['full']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
