"""Break 35 places of the package, one after the other; the default tests must notice each of them.

    python -m tests.bench.mutations               all: about ten minutes on two cores
    python -m tests.bench.mutations --only 3 17   some, by number

Each mutation replaces a text that occurs once in a module (a sign, an index, a mask, a bucket, a file that is not
closed) in a copy of the checkout, and runs those test files of the default set that should notice. The table names the
first test that failed. Exits 1 if a mutation passes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from . import ROOT


class Mutation(NamedTuple):
    """A fault: ``before`` becomes ``after`` in a module of the package; ``tests`` are those that should notice."""

    module: str
    before: str
    after: str
    tests: str


CRF, INFERENCE = "models/probabilistic/crf.py", "models/probabilistic/inference.py"
EQ = "tests/models/test_equations.py tests/models/test_energy.py tests/models/test_exact.py"
MUTATIONS = (
    # the field, as its equations stand
    Mutation(
        CRF, "torch.where(x < 0, x + distance + 1, x + distance)", "torch.where(x < 0, x + distance, x + distance)", EQ
    ),
    Mutation(CRF, "return (Q.word_heads * F).sum((1, 2, 3))", "return -(Q.word_heads * F).sum((1, 2, 3))", EQ),
    Mutation(CRF, 'torch.einsum("bikcr,bjkcr->bckij", u, v)', 'torch.einsum("bikcr,bjkcr->bckji", u, v)', EQ),
    Mutation(CRF, "dropped = now if self.inference.asynchronous else before", "dropped = before", EQ),
    Mutation(CRF, "torch.sub(-self.expected_score(Q), entropy)", "torch.add(-self.expected_score(Q), entropy)", EQ),
    Mutation(INFERENCE, "value=True) & mask[:, None, :, None]", "value=True)", EQ),
    Mutation(INFERENCE, "new = (1.0 - self.damping) * new", "new = self.damping * new", EQ),
    Mutation(
        "models/probabilistic/matrix_tree.py",
        "(root[:, :k] - sum_of_both).exp()",
        "(sum_of_both - root[:, :k]).exp()",
        "tests/models/test_matrix_tree.py",
    ),
    # fast forms
    Mutation(
        "models/probabilistic/fast/layout.py",
        "head = word[:, None] - offset_tensor",
        "head = word[:, None] + offset_tensor",
        "tests/models/test_forms.py",
    ),
    Mutation(
        "models/probabilistic/fast/layout.py",
        "return same & inside & (self.sentence >= 0)[:, :, None]",
        "return inside & (self.sentence >= 0)[:, :, None]",
        "tests/models/test_forms.py",
    ),
    Mutation(
        "models/probabilistic/fast/bands.py",
        "torch.stack([_shifted(weight * child, -x)",
        "torch.stack([_shifted(weight * child, x)",
        "tests/models/test_forms.py",
    ),
    # the transformer and its uncertain weights
    Mutation(
        "models/transformer.py",
        "return (word[:, None] - word).clamp(-self.clip, self.clip) + self.clip",
        "return (word - word[:, None]).clamp(-self.clip, self.clip) + self.clip",
        "tests/models/test_transformer.py tests/models/test_attention.py",
    ),
    Mutation(
        "models/transformer.py",
        "query @ key.mT * (self.scale or self.size**-0.5)",
        "query @ key.mT",
        "tests/models/test_transformer.py",
    ),
    Mutation("models/bayesian/moments.py", "(1 - 1 / d) * mean_v", "mean_v", "tests/models/test_bayesian_moments.py"),
    Mutation(
        "training/optim.py",
        "0.5 * (1 - beta2) ** 2",
        "0.5 * (1 - beta2)",
        "tests/training/test_ivon_runs.py tests/training/test_optim.py",
    ),
    # training
    Mutation(
        "training/plan.py",
        "if number < size else (0, False)",
        "if number < size else (0, True)",
        "tests/training/test_shares.py",
    ),
    Mutation("training/loop.py", "state.batch += len(group)", "state.batch += 1", "tests/training/test_accumulate.py"),
    Mutation(
        "training/plan.py",
        "(state.step + 0.5) / section.steps",
        "(state.step + 1.5) / section.steps",
        "tests/training/test_plan.py",
    ),
    # data
    Mutation("data/readers/conllu.py", "elif head == columns[0]:", "elif not head:", "tests/data/test_conllu.py"),
    Mutation(
        "data/corpus/store.py",
        'PUNCTUATION = ("PUNCT", "SYM")',
        'PUNCTUATION = ("PUNCT",)',
        "tests/data/test_store.py tests/trees/test_score.py",
    ),
    Mutation(
        "data/entities.py",
        "[rules.inside] * (end - start - 2)",
        "[rules.inside] * (end - start - 1)",
        "tests/data/test_entities.py",
    ),
    Mutation(
        "data/vocabularies/words.py",
        "item[1] >= section.min_count",
        "item[1] > section.min_count",
        "tests/data/test_vocabulary_kinds.py",
    ),
    Mutation(
        "data/files.py",
        "self.rest, self.stream = self.stream.unused_data, None",
        "self.rest, self.stream = b'', None",
        "tests/data/test_files.py",
    ),
    Mutation(
        "folders/regular.py",
        '("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")',
        '("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")',
        "tests/ground/test_regular.py tests/commands/test_planted_links.py",
    ),
    # trees
    Mutation(
        "trees/decode.py",
        "total[words > end] = self.never",
        "total[words >= end] = self.never",
        "tests/trees/test_decode.py",
    ),
    Mutation(
        "trees/forest.py",
        "climb = np.where(stays[climb], climb, 0)",
        "climb = np.where(stays[climb], climb, climb)",
        "tests/trees/test_score.py",
    ),
    Mutation("trees/forest.py", "reverse & ~right", "reverse", "tests/trees/test_score.py"),
    # statistics and scores
    Mutation(
        "statistics/uncertainty.py",
        "return float((below + upto).sum() / (2 *",
        "return float((below + below).sum() / (2 *",
        "tests/statistics/test_uncertainty.py",
    ),
    Mutation("statistics/uncertainty.py", "sentences / (sentences - 1)", "1.0", "tests/statistics/test_uncertainty.py"),
    Mutation(
        "openie/scores.py",
        "if not right or len(predicted.arguments) < len(gold.arguments):",
        "if not right:",
        "tests/openie/test_tuple_scores.py",
    ),
    # arcs of a parser, the causal field, widths
    Mutation(
        "models/probabilistic/factors.py",
        "from_left = (to - rate)[..., None]",
        "from_left = to[..., None]",
        "tests/models/test_factors.py tests/models/test_forms.py",
    ),
    Mutation(
        "models/probabilistic/factors.py",
        "left, right = arcs * pairs.left, arcs * ~pairs.left",
        "right, left = arcs * pairs.left, arcs * ~pairs.left",
        "tests/models/test_factors.py tests/models/test_forms.py",
    ),
    Mutation(
        "models/probabilistic/causal.py",
        "shifted(scores[:, :, k], k + 1, -torch.inf)",
        "shifted(scores[:, :, k], k, -torch.inf)",
        "tests/models/test_causal.py",
    ),
    Mutation(
        "models/probabilistic/causal.py",
        "return functional.linear(functional.pad(prefix, (0, 0, 1, 0))[:, -1:], self.C)",
        "return functional.linear(functional.pad(prefix, (0, 0, 1, 0))[:, -1:], self.C.T)",
        "tests/models/test_causal.py",
    ),
    Mutation("models/width.py", "heads=r / per_label", "heads=r", "tests/training/test_width.py"),
)


def broken(mutation: Mutation, checkout: Path) -> str:
    """Run the tests on a checkout with the mutation; return the first test that fails, or an empty string."""
    path = checkout / "probtrans_cli" / mutation.module
    text = path.read_text("utf-8")
    assert text.count(mutation.before) == 1, f"{mutation.module} has changed: {mutation.before}"
    path.write_text(text.replace(mutation.before, mutation.after), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutation.tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=900)
    finally:
        path.write_text(text, "utf-8")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
    if ended.returncode == 0:
        return ""
    return failed[1] if failed else f"exit {ended.returncode}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="mutations, counted from 1")
    numbers = parser.parse_args(arguments).only or range(1, len(MUTATIONS) + 1)
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in files.stdout.splitlines():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
        for number in numbers:
            mutation = MUTATIONS[number - 1]
            test = broken(mutation, checkout)
            passed += not test
            change = f"{mutation.before.strip()} -> {mutation.after.strip() or 'nothing'}"
            print(f"{number:2}  {mutation.module}: {change}\n      {test or 'NOT NOTICED'}", flush=True)
    print(f"{len(numbers) - passed} of {len(numbers)} are noticed")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
