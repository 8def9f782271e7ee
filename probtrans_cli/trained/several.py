"""Several trees of a sentence: draws of its distribution over trees, the most probable ones, and all marginals.

Which distribution that is, over the trees with one root:

heads                                        p(tree) in proportion to
form trees (`model.heads: tree`, a parser's) exp of the sum of the scores: the model's own distribution
are independent                              the product of the probabilities of its arcs
form trees, but no distribution of them has  the same: a mean of channels or of draws of the weights, words of several
the marginals that are read                  tokens, steps of a size below 1
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64

from probtrans_cli.models.probabilistic.matrix_tree import log_partition, sample_trees
from probtrans_cli.text import rounded
from probtrans_cli.trees.best import Trees, best_trees
from probtrans_cli.trees.decode import levelled


@dataclass(frozen=True)
class Tree:
    """A tree among several of a sentence.

    ``heads`` [n]: 0 = root, 1..n. ``probabilities`` [n]: of these arcs, each by itself, NaN where not known.
    ``log_probability``: of the tree among all trees with one root. ``prediction``: what a parser says of it, by the
    names of its predictions.
    """

    heads: Int64[np.ndarray, " n"]
    probabilities: Float[np.ndarray, " n"]
    log_probability: float
    prediction: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        relations = {name: values for name, values in self.prediction.items() if name == "relations"}
        return {"heads": self.heads.tolist(), **relations, "log_probability": rounded(self.log_probability)}


class SentenceTrees:
    """The distribution over the trees of a sentence."""

    def __init__(self, trees: Trees, row: int, n: int) -> None:
        """``row``: of the batch; ``n``: the words of the sentence. ``probabilities [n, n + 1]``: of every head of every
        word, the root last; NaN where not known."""
        columns = [*range(n), -1]
        self.n, self.decoder, self.names = n, trees.decoder, trees.names
        self.scores = trees.scores[row, :n][:, columns]
        self.probabilities = trees.probabilities[row, :n][:, columns]
        self.relations = None if trees.relations is None else trees.relations[row, :n][:, :, columns].swapaxes(0, 1)

    def several(self, count: int, random: np.random.Generator | None = None) -> tuple[Tree, ...]:
        """Return draws by ``random``, relations drawn, too; or else the most probable trees, each arc with its most
        probable relation. These are compared as decoders compare them, see :func:`levelled`."""
        scores = torch.from_numpy(self.scores)
        if random is None:
            heads = best_trees(levelled(self.scores), count, self.decoder)
        else:
            heads = sample_trees(scores, count, random)
        total = float(log_partition(scores, torch.ones(self.n, dtype=torch.bool)))
        words = np.arange(self.n)
        columns = heads - 1  # of the root the last
        log_p = self.scores[words, columns].sum(1) - total
        probabilities = self.probabilities[words, columns]
        predictions: list[dict[str, Any]] = [{} for _ in heads]
        if self.relations is not None:
            of_arcs = self.relations[:, words, columns]  # [c, trees, n]
            number = of_arcs.argmax(0)
            if random is not None:
                sums = np.exp(of_arcs).cumsum(0)
                number = np.asarray((sums <= random.random(sums.shape[1:]) * sums[-1]).sum(0))
            chances = np.exp(np.take_along_axis(of_arcs, number[None], 0)[0])
            for tree, prediction in enumerate(predictions):
                prediction |= {
                    "heads": heads[tree].tolist(),
                    "relations": [self.names[id] for id in number[tree]],
                    "head_probability": probabilities[tree].tolist(),
                    "relation_probability": chances[tree].tolist(),
                }
        trees = tuple(map(Tree, heads, probabilities, log_p.tolist(), predictions))
        if random is not None:
            return trees
        return tuple(sorted(trees, key=lambda tree: -round(tree.log_probability, 6)))


def random_of(seed: int, words: Sequence[str], *reading: object) -> np.random.Generator:
    """Return random numbers that depend on a sentence's words alone, not on its place or on other sentences.

    ``reading``: which of its trees are drawn, such as their channel and iteration.
    """
    text = "\n".join([*map(str, reading), *words])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])
