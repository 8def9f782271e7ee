"""How far propagated moments are from Monte Carlo, and what they cost.

    python -m tests.bench.moments [--draws 100000]              the reference's three sets of rules
    python -m tests.bench.moments --scalable [--draws 2000]     mean, variance and T of whole encoders
    python -m tests.bench.moments --cost                        their CPU time against the plain encoder's

Of the reference: errors of mean / covariance of the output of one to four blocks, relative, in the Frobenius norm.
Weights have noise of ``sig`` over the root of their fan-in, the input one of ``X sd``. The floor is how far one half of
the draws is from all of them.

Of encoders, averaged over four networks and eight sentences each: relative error of the mean (with that of the draws'
own mean in it), summed variance and variance of means over words as ratios to those of the draws.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from random_transformers import agreement, by_draws, one_pass, random_encoder, random_sentences
from reference_block import propagated, reference_block, reference_input, sampled

from probtrans_cli.models.bayesian.propagation import Kind

KINDS: tuple[Kind, ...] = ("diagonal", "kronecker")
RELATIVE = {"positions": {"kind": "relative", "clip": 4, "terms": "qkv"}}
ENCODERS: tuple[tuple[int, float, dict[str, Any]], ...] = (
    (1, 0.1, {}), (2, 0.3, {}), (4, 0.1, {}), (4, 0.3, {}), (2, 0.3, {"norm": "pre"}),
    (2, 0.3, {"activation": "gelu"}), (2, 0.3, {"activation": "gelu_tanh"}),
    (2, 0.3, RELATIVE), (4, 0.1, RELATIVE), (4, 0.3, RELATIVE),
)  # fmt: skip
SIZES = ((16, 64), (32, 64), (16, 128), (32, 128), (64, 128), (16, 256), (40, 256), (128, 256))
RULES = ("seed", "seed_deviation", "corrected")
CASES = (
    (1, 0.03, 0.0), (1, 0.1, 0.0), (1, 0.3, 0.0), (1, 0.6, 0.0), (2, 0.1, 0.0), (2, 0.3, 0.0), (4, 0.1, 0.0),
    (4, 0.3, 0.0), (1, 0.1, 0.1), (2, 0.1, 0.1), (1, 0.1, 0.3),
)  # fmt: skip


def scalable(draws: int) -> None:
    """Print the table of whole encoders."""
    print("| layers | sig | options | " + " | ".join(f"{kind}: mean, summed, pooled" for kind in KINDS) + " |")
    print("|---" * (3 + len(KINDS)) + "|")
    for layers, noise, options in ENCODERS:
        found = []
        for seed in range(4):
            encoder, words = random_encoder(layers, noise, seed=seed, **options), random_sentences(8, seed=seed)
            truth = by_draws(encoder, words, draws)
            found.append([agreement(encoder, words, truth, kind) for kind in KINDS])
        means = torch.tensor(found).mean(0).tolist()
        cells = " | ".join("{:.3f}, {:.2f}, {:.2f}".format(*one) for one in means)
        print(f"| {layers} | {noise} | {options or ''} | {cells} |", flush=True)


@torch.no_grad()
def cost() -> None:
    """Print CPU time of inference over that of the plain encoder: interleaved, the least of seven.

    Two layers, the inner size four times the width, 32 sentences a batch.
    """
    print("| words | width | plain, ms | " + " | ".join(KINDS) + " | " + " | ".join(f"{k}, some words" for k in KINDS))
    print("|---" * (3 + 2 * len(KINDS)) + "|")
    for n, width in SIZES:
        encoder = random_encoder(2, 0.3, width=width, inner=4 * width)
        words, mask = torch.randn(32, n, width), torch.ones(32, n, dtype=torch.bool)
        runs = [lambda e=encoder, w=words, m=mask: e(w, m)]
        runs += [lambda k=kind, e=encoder, w=words, m=mask: one_pass(e, w, m, k) for kind in KINDS]
        runs += [lambda k=kind, e=encoder, w=words, m=mask: one_pass(e, w, m, k, at=m) for kind in KINDS]
        least = [float("inf")] * len(runs)
        for _ in range(8):  # the first is for warming up, and counts where it is the least
            for index, run in enumerate(runs):
                begin = time.process_time()
                run()
                least[index] = min(least[index], time.process_time() - begin)
        plain, *others = least
        print(
            f"| {n} | {width} | {1e3 * plain:.1f} | " + " | ".join(f"{one / plain:.1f}" for one in others) + " |",
            flush=True,
        )


def reference(draws: int) -> None:
    """Print the table of the reference."""
    print("| blocks | sig | X sd | output sd | " + " | ".join(RULES) + " | floor |")
    print("|---" * (5 + len(RULES)) + "|")
    x = reference_input()
    for count, noise, spread in CASES:
        blocks = [reference_block(number, noise) for number in range(count)]
        found = sampled(blocks, x, spread, draws)
        cov = (spread**2 * torch.eye(x.numel(), dtype=x.dtype)).reshape(*x.shape, *x.shape)
        errors = [found.errors(*propagated(blocks, x, cov, rules)) for rules in RULES]
        cells = [f"{mean:.4f} / {of_cov:.3f}" for mean, of_cov in [*errors, (found.mean_floor, found.cov_floor)]]
        print(
            f"| {count} | {noise} | {spread} | {found.cov.diag().mean().sqrt():.3f} | {' | '.join(cells)} |", flush=True
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, help="Monte Carlo draws")
    parser.add_argument("--scalable", action="store_true", help="of whole encoders")
    parser.add_argument("--cost", action="store_true", help="CPU time")
    given = parser.parse_args()
    if given.cost:
        cost()
    elif given.scalable:
        scalable(given.draws or 2000)
    else:
        reference(given.draws or 100_000)


if __name__ == "__main__":
    main()
