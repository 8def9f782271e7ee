"""What is measured: the paper's sizes (Tables 2 and 3), the batches, and how many FLOPs a word needs. Imports no torch.

FLOPs of a forward pass, two for a multiplication with its addition, of the products that cannot be avoided:

                        a word and iteration (layer)           and for each word that it looks at
    uv                  4 · 2 d·(K h r)                        3 · 2 h r      (F, and both directions of G)
    shared, rotary      4 · 2 d·(h r)                          3 · 2 h r
    none                2 · 2 d·(K h d)                        3 · 2 h d      (the head side is Q_Z itself)
    transformer         2 (4 d·h·d_qkv + 2 d·d_ff)             2 · 2 h d_qkv

A training step is three forward passes. The first column is the one that rates are given for; only real words count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.files import find
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.schema import Train

STEP = 3  # a training step costs as much as three forward passes
READ_BY_MLM = 0.3  # share of words that are masked, and so read
ROWS = 512  # of a table of absolute positions

# Sentences of 1, 2, 3, ... words in the training part of the English Web Treebank 2.x.
_EWT = """521 625 491 368 419 446 435 430 455 471 488 475 421 438 443 409 379 373 351 356 300 314 313 256 213 216 177
180 181 135 136 111 119 100 78 76 87 71 77 57 54 60 37 34 32 21 22 32 23 23 18 25 11 12 11 7 11 7 8 11 4 10 2 4 5 11 3 8
1 5 4 4 2 4 1 4 2 0 1 1 1 0 1 0 2 0 0 1 2 1 1 0 0 0 2 0 1 0 1 0 0 2 0 1"""
_EWT_LONGEST = (135, 159)


@dataclass(frozen=True)
class TransformerSizes:
    """Table 3. ``clip``: largest distance of relative positions; None = absolute positions."""

    width: int
    inner: int
    heads: int
    layers: int
    head_size: int
    dropout: float
    clip: int | None = None

    def section(self, *, attention_dropout: bool = True, rows: int = ROWS) -> dict[str, Any]:
        """The recipe's model section. Without dropout of attention probabilities a fused kernel serves on the CPU, too
        (with it, PyTorch has none there). ``rows``: the longest sentence of absolute positions."""
        sizes = {"width": self.width, "inner": self.inner, "heads": self.heads, "layers": self.layers}
        absolute, relative = {"kind": "absolute", "rows": rows}, {"kind": "relative", "clip": self.clip}
        dropped = self.dropout if attention_dropout else 0.0
        return {
            "kind": "transformer",
            **sizes,
            "head_size": self.head_size,
            "positions": absolute if self.clip is None else relative,
            "dropout": self.dropout,
            "attention_dropout": dropped,
        }

    def flops(self) -> float:
        """Of a forward pass for one word, without what it does for each other word."""
        per_layer = 4 * self.width * self.heads * self.head_size + 2 * self.width * self.inner
        return 2.0 * self.layers * per_layer

    def pair_flops(self) -> float:
        """Of a forward pass for one pair of words."""
        return 4.0 * self.layers * self.heads * self.head_size


@dataclass(frozen=True)
class Setting:
    """One column of Tables 2 and 3. ``model``: the recipe's section; ``variants``: what they change in it by name.

    ``read``: share of the words whose states the loss reads.
    """

    name: str
    model: dict[str, Any]
    transformer: TransformerSizes
    read: float
    variants: dict[str, dict[str, Any]]

    def section(self, variant: str | None) -> dict[str, Any]:
        """The model section of the setting itself (None) or of a variant."""
        return self.model if variant is None else {**self.model, **self.variants[variant]}


def iteration_flops(section: dict[str, Any]) -> float:
    """FLOPs of one mean-field iteration for one word, without what it does for each other word."""
    d, h, kind = section["labels"], section["channels"], section["decomposition"]["kind"]
    distance = section["distance"]
    buckets = 1 if distance is None or kind == "shared" else 2 * distance + 2
    if kind == "none":
        return float(4 * d * buckets * h * d)
    return float(8 * d * buckets * h * section["decomposition"]["rank"])


def flops(section: dict[str, Any]) -> float:
    """FLOPs of a forward pass of the probabilistic transformer for one word."""
    return float(section["iterations"]) * iteration_flops(section)


def pair_flops(section: dict[str, Any]) -> float:
    """FLOPs of a forward pass for one pair of words."""
    decomposition = section["decomposition"]
    inner = section["labels"] if decomposition["kind"] == "none" else decomposition["rank"]
    return float(6 * section["iterations"] * section["channels"] * inner)


def settings(tiny: bool = False) -> list[Setting]:
    """MLM on PTB, POS tagging on UD, COGS; ``tiny`` ones only show that everything runs."""
    uv, none = {"kind": "uv", "rank": 64}, {"kind": "none"}
    variants: dict[str, dict[str, Any]] = {
        "shared": {"decomposition": {"kind": "shared", "rank": 64}},
        "rotary": {"decomposition": {"kind": "rotary", "rank": 64}, "distance": None},
    }
    found = [
        Setting("mlm-ptb", _model(384, 16, 5, 3, uv, 0.15), TransformerSizes(384, 2048, 8, 5, 256, 0.15), READ_BY_MLM,
                variants),
        Setting("pos-ud", _model(128, 18, 2, 3, none, 0.1), TransformerSizes(384, 512, 14, 4, 16, 0.0), 1.0, {}),
        Setting("cogs", _model(64, 4, 2, 8, {"kind": "uv", "rank": 16}, 0.1),
                TransformerSizes(64, 256, 4, 2, 16, 0.1, clip=8), 1.0, {}),
    ]  # fmt: skip
    return [_tiny(setting) for setting in found] if tiny else found


def _model(
    d: int, h: int, iterations: int, gamma: int, decomposition: dict[str, Any], dropout: float
) -> dict[str, Any]:
    sizes = {"labels": d, "channels": h, "iterations": iterations, "distance": gamma}
    return {**sizes, "decomposition": decomposition, "dropout": dropout}


def _tiny(setting: Setting) -> Setting:
    def smaller(change: dict[str, Any]) -> dict[str, Any]:
        kind = change["decomposition"]["kind"]
        return {**change, "decomposition": {"kind": kind} if kind == "none" else {"kind": kind, "rank": 4}}

    model = {**smaller(setting.model), "labels": 8, "channels": 2, "iterations": 2}
    transformer = replace(setting.transformer, width=8, inner=16, heads=2, layers=1, head_size=4)
    variants = {name: smaller(change) for name, change in setting.variants.items()}
    return replace(setting, model=model, transformer=transformer, variants=variants)


# --- batches ----------------------------------------------------------------------------------------------------------


def sentence_lengths() -> tuple[list[int], str]:
    """Lengths of the EWT's training sentences, and where they come from: the corpus, or a stored histogram of it."""
    try:
        path = find("ud/en_ewt/train.conllu")
        # In order of length, so that the same batches are drawn from the corpus and from its histogram.
        return sorted(len(sentence.words) for sentence in read_corpus(path) if sentence.words), "read from the corpus"
    except DataError:
        counts = [int(count) for count in _EWT.split()]
        lengths = [length for length, count in enumerate(counts, start=1) for _ in range(count)]
        return [*lengths, *_EWT_LONGEST], "from the stored histogram"


def batches(lengths: Sequence[int], count: int, *, tiny: bool = False) -> dict[str, list[list[int]]]:
    """Lengths of the sentences of every batch, by kind of batch.

    ``ragged``: 16 sentences at random; ``bucketed``: sentences of similar length, as many words as training takes
    unless a recipe says otherwise; ``1x512``, ``1x2048``: one long sentence. ``count``: batches of the first two kinds.
    """
    sentences, long = (4, (24, 48)) if tiny else (16, (512, 2048))
    every = np.array(lengths)
    generator = np.random.default_rng(0)
    ragged = [generator.choice(every, sentences, replace=False).tolist() for _ in range(count)]
    words = 40 if tiny else Train().batch_words
    bucketed = plan(every, words, 0, 0)[:count]
    found = {"ragged": ragged, "bucketed": [every[indices].tolist() for indices in bucketed]}
    return found | {name: [[length]] for name, length in zip(("1x512", "1x2048"), long, strict=True)}
