"""Trees by the scores of `model.head_bias` alone, without any training: the figures of docs/research/trees.md.

    python -m tests.bench.head_bias                                                dev of all of $PROBTRANS_DATA/ud
    python -m tests.bench.head_bias --split test en_ewt fr_sequoia                 some, and their test sets
    python -m tests.bench.head_bias --bias '{right: 1.0, leaning: 0.6, root: 0.16}'
    python -m tests.bench.head_bias --left-out --split test                        numbers chosen without the language

With `--left-out`, numbers of a language are chosen on the dev sets of the other treebanks: from START, one number at
a time, while UUAS and 0.4 of UAS grow. The trees are projective (eisner), the words those of `trees-ud-probabilistic`,
whose bias is the default, and counts and order of words those of the training file. UAS / UUAS, punctuation removed,
all lengths; the last column is the mean.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.models.probabilistic.head_bias import commonness, head_bias
from probtrans_cli.recipe.model.probabilistic import HeadBias
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.trained.base import word_order_of
from probtrans_cli.trees.decode import decode
from probtrans_cli.trees.score import attachment

from . import parser_of

AT_ONCE = 256
RECIPE = "trees-ud-probabilistic"
SENTENCES, LONGEST = 150, 30
"""How many sentences of a dev set numbers are chosen on, and how long they are at most."""
START = {"distance": 1.0, "right": 0.5, "leaning": 0.5, "frequency": 0.04, "reducible": 0.2}
FIRST = {"leaning_head": 0.2, "branching": 0.05, "reducible_far": 0.1, "reducible_side": 0.2, "frequency_pair": 5e-4}
FIRST |= {"phrase_end": 0.01, "phrase_end_side": 0.01, "phrase_end_next": 0.005, "punctuation": 0.5, "alone": 2.0}
"""What is tried first of the numbers that are 0 at the start."""
ROUNDS = ((0.5, 2.0), (0.7, 1.4), (0.85, 1.18))
"""What a number is multiplied by, in each round."""


class Batch(NamedTuple):
    """Sentences of similar lengths."""

    rows: np.ndarray
    """Their numbers in the treebank."""
    mask: np.ndarray
    cues: torch.Tensor


class Treebank:
    """Sentences to score, with what the training file says of their words."""

    def __init__(self, recipe: Recipe, folder: Path, split: str, *, sample: bool = False) -> None:
        train, scored = sentences_of(folder, "train"), sentences_of(folder, split)
        if sample:
            scored = [sentence for sentence in scored if len(sentence.words) <= LONGEST]
            drawn = np.random.default_rng(0).permutation(len(scored))[:SENTENCES]
            scored = [scored[index] for index in sorted(drawn.tolist())]
        vocabulary = build_vocabulary(recipe.data.vocabulary, [sentence.words for sentence in train])
        common = commonness(vocabulary.entry_counts, unread=len(vocabulary.specials))
        cues = torch.cat([common[:, None], word_order_of(vocabulary, Split.encode(train, vocabulary, {}))], 1)
        encoded = Split.encode(scored, vocabulary, {})
        self.gold, self.punct = (
            [encoded.row(name, index) for index in range(len(encoded))] for name in ("heads", "punct")
        )
        self.batches = []
        order = np.argsort(encoded.lengths, kind="stable")
        for rows in np.split(order, range(AT_ONCE, len(order), AT_ONCE)):
            lengths = encoded.lengths[rows]
            mask = np.arange(lengths.max()) < lengths[:, None]
            self.batches.append(Batch(rows, mask, cues[torch.from_numpy(encoded.padded("ids", rows, 0))]))

    def tables(self, bias: HeadBias) -> list[np.ndarray]:
        """The score of every head of every word, the root last, by batch: linear in the numbers of the bias."""
        tables = []
        for rows, mask, cues in self.batches:
            words, root = head_bias(bias, cues, torch.from_numpy(mask))
            words = words.expand(len(rows), -1, -1, -1)[:, 0]
            tables.append(torch.cat([words, root[:, 0, :, None].expand(*mask.shape, 1)], dim=2).numpy())
        return tables

    def attachment(self, tables: Sequence[np.ndarray]) -> tuple[float, float]:
        """UAS and UUAS in percent."""
        heads = [np.zeros(0)] * len(self.gold)
        for batch, table in zip(self.batches, tables, strict=True):
            for index, tree, words in zip(batch.rows, decode(table, batch.mask, "eisner"), batch.mask, strict=True):
                heads[index] = tree[words]
        scores = attachment(self.gold, heads, self.punct)["no_punct"]["all"]
        return tuple(100 * float(scores[name]) for name in ("uas", "uuas"))


def sentences_of(folder: Path, split: str) -> list[Sentence]:
    return list(read_corpus(next(folder.glob(f"{split}.conllu*"))))


def choose(samples: Sequence[tuple[Treebank, dict[str, list[np.ndarray]]]]) -> dict[str, float]:
    """The numbers of a bias that are best for these treebanks, each with its tables by the number that is 1."""

    def value(numbers: dict[str, float]) -> float:
        scores = []
        for treebank, units in samples:
            batches = zip(*(units[name] for name in numbers), strict=True)
            weighted = (map(operator.mul, numbers.values(), tables) for tables in batches)
            scores.append(treebank.attachment([np.asarray(sum(tables), np.float64) for tables in weighted]))
        uas, uuas = np.mean(scores, axis=0)
        return float(uuas + 0.4 * uas)

    numbers = dict(START)
    best = value(numbers)
    for factors in ROUNDS:
        for name in START | FIRST:
            now = numbers.get(name, 0.0)
            for number in [now * factor for factor in factors] if now else [FIRST[name], FIRST[name] / 2]:
                if (changed := value(numbers | {name: number})) > best + 0.01:
                    best, numbers[name] = changed, number
    return numbers


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("head_bias", __doc__)
    parser.add_argument("--bias", help="the section, as in a recipe")
    parser.add_argument("treebanks", nargs="*", help="folders below $PROBTRANS_DATA/ud; default: all")
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--left-out", action="store_true", help="choose the numbers on the dev sets of the others")
    options = parser.parse_args(arguments)
    recipe = load_recipe(RECIPE, [] if options.bias is None else [f"model.head_bias={options.bias}"])
    place = Path(os.environ.get("PROBTRANS_DATA", "data"), "ud")
    names = options.treebanks or sorted(path.name for path in place.iterdir() if path.is_dir())
    of_language = dict.fromkeys(names, recipe.model.head_bias)
    if options.left_out:
        samples = {}
        for name in names:
            sample = Treebank(recipe, place / name, "dev", sample=True)
            zero = HeadBias(distance=0.0)
            units = {key: sample.tables(zero.model_copy(update={key: 1.0})) for key in START | FIRST}
            samples[name] = sample, units
        for name in names:
            numbers = choose([sample for language, sample in samples.items() if language != name])
            print(name, " ".join(f"{key}: {number:.3g}" for key, number in numbers.items()), flush=True)
            of_language[name] = HeadBias(**numbers)
    scores = {}
    for name, bias in of_language.items():
        treebank = Treebank(recipe, place / name, options.split)
        scores[name] = treebank.attachment(treebank.tables(bias))
    scores["mean"] = tuple(np.mean(list(scores.values()), axis=0))
    print("  ".join(f"{name:>13}" for name in scores))
    print("  ".join(f"{f'{uas:.1f} / {uuas:.1f}':>13}" for uas, uuas in scores.values()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
