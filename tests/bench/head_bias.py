"""Trees by the scores of `model.head_bias` alone, without any training: the figures of docs/research/trees.md.

    python -m tests.bench.head_bias                                                dev of all of $PROBTRANS_DATA/ud
    python -m tests.bench.head_bias --split test en_ewt fr_sequoia                 some, and their test sets
    python -m tests.bench.head_bias --bias '{right: 1.0, leaning: 0.6, root: 0.16}'

The trees are projective (eisner), the words those of `trees-ud-probabilistic`, whose bias is the default, and counts
and order of words those of the training file. UAS / UUAS, punctuation removed, all lengths; the last column is the
mean.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.models.probabilistic.head_bias import commonness, head_bias
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.trained.base import word_order_of
from probtrans_cli.trees.decode import decode
from probtrans_cli.trees.score import attachment

AT_ONCE = 256
RECIPE = "trees-ud-probabilistic"


def sentences_of(folder: Path, split: str) -> list[Sentence]:
    """The sentences of a treebank."""
    return list(read_corpus(next(folder.glob(f"{split}.conllu*"))))


def scores(recipe: Recipe, folder: Path, split: str) -> tuple[float, float]:
    """UAS and UUAS in percent."""
    train, scored = sentences_of(folder, "train"), sentences_of(folder, split)
    vocabulary = build_vocabulary(recipe.data.vocabulary, [one.words for one in train])
    cues = torch.cat(
        [
            commonness(vocabulary.entry_counts, unread=len(vocabulary.specials))[:, None],
            word_order_of(vocabulary, Split.encode(train, vocabulary, {})),
        ],
        1,
    )
    encoded = Split.encode(scored, vocabulary, {})
    heads: list[np.ndarray] = [np.zeros(0)] * len(encoded)
    order = np.argsort(encoded.lengths, kind="stable")
    for some in np.split(order, range(AT_ONCE, len(order), AT_ONCE)):
        lengths = encoded.lengths[some]
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = torch.from_numpy(encoded.padded("ids", some, 0))
        words, root = head_bias(recipe.model.head_bias, cues[ids], torch.from_numpy(mask))
        table = torch.cat([words.expand(len(some), -1, -1, -1)[:, 0], root[:, 0, :, None]], dim=2).numpy()
        trees = decode(table, mask, "eisner")
        for index, tree, n in zip(some, trees, lengths, strict=True):
            heads[index] = tree[:n]
    gold, punct = ([encoded.row(name, index) for index in range(len(encoded))] for name in ("heads", "punct"))
    found = attachment(gold, heads, punct)["no_punct"]["all"]
    return tuple(100 * float(found[name]) for name in ("uas", "uuas"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.head_bias",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bias", help="the section, as in a recipe")
    parser.add_argument("treebanks", nargs="*", help="folders below $PROBTRANS_DATA/ud; default: all")
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    options = parser.parse_args(arguments)
    recipe = load_recipe(RECIPE, [] if options.bias is None else [f"model.head_bias={options.bias}"])
    place = Path(os.environ.get("PROBTRANS_DATA", "data"), "ud")
    names = options.treebanks or sorted(path.name for path in place.iterdir() if path.is_dir())
    found = {name: scores(recipe, place / name, options.split) for name in names}
    found["mean"] = tuple(np.mean(list(found.values()), axis=0))
    print("  ".join(f"{name:>13}" for name in found))
    print("  ".join(f"{f'{uas:.1f} / {uuas:.1f}':>13}" for uas, uuas in found.values()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
