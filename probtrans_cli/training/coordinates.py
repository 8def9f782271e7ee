"""The coordinate check (Yang et al. 2022): how the numbers that a model computes grow with its width.

Of every activation x, in the first updates: its mean absolute coordinate |x|, the same of its change since the start,
|x - x_0|, and as exponent the slope of the logarithm of either over that of the width. Settings of a narrow model serve
a wide one if changes, and states, have the exponent 0. Scores are exempt at the start: a sum of as many terms as there
are ranks, whose signs are random then, becomes the smaller the more terms its mean is of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.models.base import Inputs, Wants
from probtrans_cli.models.network import Network

Sizes = dict[str, dict[str, float]]
"""By the name of an activation: ``size``, and ``change`` since the start."""


def coordinates(network: Network, inputs: Inputs, wants: Wants, updates: Iterable[object]) -> Sizes:
    """Return the mean absolute coordinate of each activation of a batch after the ``updates``, and that of its
    change."""
    start = _activations(network, inputs, wants)
    for _ in updates:
        pass
    end = _activations(network, inputs, wants)
    return {
        name: {"size": float(end[name].abs().mean()), "change": float((end[name] - start[name]).abs().mean())}
        for name in end
    }


@torch.inference_mode()
def _activations(network: Network, inputs: Inputs, wants: Wants) -> Mapping[str, Tensor]:
    training = network.training
    network.eval()
    activations = network.activations(inputs, wants)
    network.train(training)
    return {name: values.float() for name, values in activations.items()}


def exponent(widths: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of ``log values`` over ``log widths``."""
    if min(values) <= 0.0:
        return math.nan
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def exponents(widths: Sequence[int], sizes: Sequence[Sizes]) -> dict[str, dict[str, Any]]:
    """Return, by the name of an activation, ``size`` and ``change`` at every width, and the ``exponents`` of both; None
    where there is none, as of a change of 0."""
    table: dict[str, dict[str, Any]] = {}
    for name in sizes[0]:
        of = {key: [each[name][key] for each in sizes] for key in ("change", "size")}
        slopes = {key: exponent(widths, values) for key, values in of.items()}
        table[name] = {
            **of,
            "exponents": {key: slope if math.isfinite(slope) else None for key, slope in slopes.items()},
        }
    return table
