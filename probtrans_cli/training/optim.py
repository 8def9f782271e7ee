"""Optimizer, learning rate and weight average, as a recipe's ``optim`` section describes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from probtrans_cli.recipe.training import Optim


def optimizer(section: Optim, parameters: list[nn.Parameter]) -> torch.optim.Adam:
    """Adam with decay in the gradient, or AdamW; one fused kernel for all parameters."""
    kind = torch.optim.AdamW if section.kind == "adamw" else torch.optim.Adam
    groups: list[dict[str, Any]] = [{"params": parameters, "weight_decay": section.weight_decay}]
    if section.decayed == "matrices":
        groups[0]["params"] = [parameter for parameter in parameters if parameter.ndim > 1]
        groups.append({"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0})
    return kind(groups, lr=section.lr, betas=section.betas, eps=section.eps, fused=True)


def learning_rate(section: Optim, progress: float, drops: int) -> float:
    """Rate after a share ``progress`` of all steps and ``drops`` plateaus: a pure function, so resuming is exact."""
    return section.schedule.rate(section.lr, progress, drops)


def average(section: Optim, network: nn.Module) -> AveragedModel | None:
    """Exponential moving average of the weights, or None."""
    if section.ema is None:
        return None
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(section.ema))  # type: ignore[no-untyped-call]
