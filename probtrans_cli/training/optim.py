"""Optimizer, learning rate and weight average, as a recipe's ``optim`` section describes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from probtrans_cli.recipe.training import Optim

TIMES = "times"
"""The key of a group of parameters whose rate is a multiple of that of the others."""


class Deviations(NamedTuple):
    """Logarithms of standard deviations, with their learning rate as a multiple of that of the weights."""

    parameters: list[nn.Parameter]
    rate: float


def optimizer(section: Optim, parameters: list[nn.Parameter], deviations: Deviations | None = None) -> torch.optim.Adam:
    """Adam with decay in the gradient, or AdamW; one fused kernel for all parameters.

    ``deviations``: those of ``parameters`` that are logarithms of standard deviations of weights.
    """
    kind = torch.optim.AdamW if section.kind == "adamw" else torch.optim.Adam
    apart = {id(parameter) for parameter in deviations.parameters} if deviations else set()
    plain = [parameter for parameter in parameters if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [{"params": plain, "weight_decay": section.weight_decay}]
    if section.decayed == "matrices":
        groups[0]["params"] = [parameter for parameter in plain if parameter.ndim > 1]
        groups.append({"params": [parameter for parameter in plain if parameter.ndim <= 1], "weight_decay": 0.0})
    if deviations:
        own = [parameter for parameter in parameters if id(parameter) in apart]
        groups.append({"params": own, "weight_decay": 0.0, TIMES: deviations.rate})
    return kind(groups, lr=section.lr, betas=section.betas, eps=section.eps, fused=True)


def set_rate(optimizer: torch.optim.Adam, rate: float) -> None:
    """Let the coming update have a learning rate; a group may have a multiple of it."""
    for options in optimizer.param_groups:
        options["lr"] = rate * options.get(TIMES, 1.0)


def learning_rate(section: Optim, progress: float, drops: int) -> float:
    """Rate after a share ``progress`` of all steps and ``drops`` plateaus: a pure function, so resuming is exact."""
    return section.schedule.rate(section.lr, progress, drops)


def average(section: Optim, network: nn.Module) -> AveragedModel | None:
    """Exponential moving average of the weights, or None."""
    if section.ema is None:
        return None
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(section.ema))  # type: ignore[no-untyped-call]
