"""A model with uncertain weights without those that are noise: the means nearest to zero, in standard deviations."""

from __future__ import annotations

import torch
from torch.nn.utils import parametrize

from probtrans_cli.errors import UsageError
from probtrans_cli.models.bayesian import weights
from probtrans_cli.trained.model import Model


@torch.no_grad()
def prune(model: Model, share: float) -> int:
    """Set the means with the smallest ``|μ| / σ`` to zero, and let all weights be certain, in place.

    Args:
        model: the model.
        share: of its uncertain weights that are set to zero, of all tensors together; of equal ones the first.

    Returns:
        How many weights were set to zero.

    Raises:
        UsageError: the weights of the model are certain.
    """
    found = list(weights.uncertain(model.network))
    if not found:
        raise UsageError(
            f"--prune: the weights of {model.folder} are certain: there is no noise to compare them with",
            hint="leave it out, or train with model.bayes or optim.kind=ivon",
        )
    signal = torch.cat([(one.mean.abs() / one.posterior.deviation()).flatten() for one in found])
    number = round(share * len(signal))
    noise = torch.zeros(len(signal), dtype=torch.bool, device=signal.device)
    noise[signal.argsort(stable=True)[:number]] = True
    start = 0
    for one in found:
        end = start + one.mean.numel()
        one.mean[noise[start:end].view_as(one.mean)] = 0.0
        start = end
    for module, name in weights.parametrized(model.network):
        parametrize.remove_parametrizations(module, name, leave_parametrized=False)
    model.recipe = model.recipe.certain()
    model.temperature = None  # it was that of another distribution
    return number
