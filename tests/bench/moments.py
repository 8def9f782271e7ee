"""How far propagated moments are from Monte Carlo: the table of the reference's three sets of rules.

    python -m tests.bench.moments [--draws 100000]

Errors of mean / covariance of the output of one to four blocks, relative, in the Frobenius norm. Weights have noise
of ``sig`` over the root of their fan-in, the input one of ``X sd``. The floor is how far one half of the draws is from
all of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from reference_block import propagated, reference_block, reference_input, sampled

RULES = ("seed", "seed_deviation", "corrected")
CASES = (
    (1, 0.03, 0.0), (1, 0.1, 0.0), (1, 0.3, 0.0), (1, 0.6, 0.0), (2, 0.1, 0.0), (2, 0.3, 0.0), (4, 0.1, 0.0),
    (4, 0.3, 0.0), (1, 0.1, 0.1), (2, 0.1, 0.1), (1, 0.1, 0.3),
)  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000, help="Monte Carlo draws, default 100000")
    draws = parser.parse_args().draws
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


if __name__ == "__main__":
    main()
