"""Width transfer: what start, learning rate and scores of a model are multiplied by, if it is wider than its base.

The maximal update parametrisation (Yang et al. 2022), for the field as Kuang, Wu & Tu (2026) have it: numbers that a
model computes keep their size as it grows, at the start and by every update of Adam, so that settings of a narrow model
serve a wide one. With n times the width and, where channels have the same rank, n times the channels:

group                               start            rate         scores
words, biases, norms, gains         1                1            –
U V of spherical latents            1/√n             1/n          λ_H · r
U V of categorical ones             1                1/√n         λ_H · r/n
B, chosen by a softmax              f                f/n          λ · f, of categorical latents λ · f/n
B, rectified                        1, or √n         1/n, or 1/√n    –
matrices of a transformer's layers  1/√n             1/n          attention / √r
matrices of an output layer         1/√n             1/n          –
words as an output layer            1                1            1/n; of a label that is summed out 1

``r``: times the rank (head size), 1 where channels grow; ``f``: times the features that one variable chooses among, r
where each channel has its own, else n. Start is relative to what is drawn without a base: a constant deviation, but
1/√d for ``B`` and output layers, and 1/√rank for ``U`` and ``V`` if the recipe has no ``ternary_std``, which then
start √r times as large. ``docs/scaling.md`` derives these.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from probtrans_cli.recipe.model import ProbabilisticTransformer, Transformer


class Scale(NamedTuple):
    """Factors of a group of parameters: of their values at the start, and of their learning rate."""

    start: float = 1.0
    rate: float = 1.0


class Scales(NamedTuple):
    """The factors of a model.

    ``hidden``: of ``U`` and ``V``, or the matrices of layers; ``features``: of ``B``; ``output``: of the matrices of an
    output layer. ``heads``, ``feature_weight``: of what divides the scores of heads and of features; ``logits``: of
    scores that the vectors of words themselves give.
    """

    hidden: Scale
    output: Scale
    features: Scale = Scale()
    heads: float = 1.0
    feature_weight: float = 1.0
    logits: float = 1.0


def scales_of_field(section: ProbabilisticTransformer) -> Scales | None:
    """Return the factors of a probabilistic transformer; None without a base."""
    growth, features = section.facts.growth, section.globals
    if growth is None:
        return None
    n, r = growth
    f = r if features is None or features.by_channel else n
    rectified = features is not None and features.kind == "rectified"
    of_factors = 1.0 if section.ternary_std is not None else sqrt(r)
    # The mean of a categorical label has coordinates of 1/d, that of a spherical one of 1.
    per_label = n if section.latent == "categorical" else 1.0
    return Scales(
        hidden=Scale(of_factors * sqrt(per_label / n), sqrt(per_label) / n),
        output=Scale(1.0 / sqrt(n), 1.0 / n),
        features=Scale(sqrt(per_label), sqrt(per_label) / n) if rectified else Scale(f, f / n),
        heads=r / per_label,
        feature_weight=f / per_label,
        logits=1.0 / n,
    )


def scales_of_transformer(section: Transformer) -> Scales | None:
    """Return the factors of a transformer; None without a base."""
    if section.facts.growth is None:
        return None
    n, r = section.facts.growth
    matrices = Scale(1.0 / sqrt(n), 1.0 / n)
    return Scales(hidden=matrices, output=matrices, heads=sqrt(r), logits=1.0 / n)
