"""Optimizer, learning rate and weight average, as a recipe's ``optim`` section describes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from probtrans_cli import checkpoint
from probtrans_cli.models.bayesian.weights import Uncertain, uncertain
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.training import Ivon, Optim, Train
from probtrans_cli.recipe.weights import Bayes
from probtrans_cli.training.ivon import IVON
from probtrans_cli.training.uncompiled import uncompiled

Stages = Sequence[Sequence[nn.Parameter]]
TIMES = "times"
"""The key of a group of parameters whose rate is a multiple of `optim.lr`."""
ADAM_FILE, IVON_FILE = "training/optimizer.safetensors", "training/ivon.safetensors"


class Optimizers:
    """What moves the parameters of a network: Adam, and with `kind: ivon` beside it IVON, which moves the means of the
    uncertain weights and finds their deviations."""

    def __init__(
        self,
        section: Optim,
        network: nn.Module,
        bayes: Bayes | None = None,
        *,
        units: int = 1,
        stages: Stages = (),
    ) -> None:
        """``bayes``: the section of weights whose deviations are learned; ``units``: N of IVON; ``stages``: of the
        network, for `layer_decay`."""
        factors = rate_factors(section, network, stages)
        self.section, self.parameters = section, [one for one in network.parameters() if one.requires_grad]
        self.posteriors: list[Uncertain] = list(uncertain(network))
        self.ivon: IVON | None = None
        if section.posterior is not None:
            self.ivon = _ivon(section, section.posterior, self.posteriors, units, factors)
        means = {id(one.mean) for one in self.posteriors} if self.ivon else set()
        deviations = [one.posterior.log_sd for one in self.posteriors] if bayes else []
        self.moved_by_adam = [one for one in self.parameters if id(one) not in means]
        self.adam = _adam(section, self.moved_by_adam, deviations, bayes.sigma_lr if bayes else 1.0, factors)
        self._keep_deviations()

    def zero_grad(self) -> None:
        """Forget the gradients of the update before."""
        for parameter in self.parameters:
            parameter.grad = None

    @contextmanager
    def draw(self, stream: AbstractContextManager[None]) -> Iterator[None]:
        """Around forward and backward of an update: with IVON, the weights are a draw, made within ``stream``."""
        if self.ivon is None:
            yield
            return
        with stream:
            self.ivon.sample()
        try:
            yield
        finally:
            self.ivon.restore()

    def clip(self) -> Tensor:
        """Clip the gradients; the norm that they had. What IVON reads is not clipped: it would bend the curvature."""
        limit = self.section.clip or math.inf
        norm: Tensor = nn.utils.clip_grad_norm_(self.moved_by_adam, limit)
        norm = checkpoint.gathered(norm)
        if self.ivon is None:
            return norm
        others = [one.mean.grad for one in self.posteriors if one.mean.grad is not None]
        whole: Tensor = torch.linalg.vector_norm(torch.stack([norm, *map(torch.linalg.vector_norm, others)]))
        return whole

    def set_rate(self, rate: float) -> None:
        """Let the coming update have a learning rate; a group of parameters may have a multiple of it."""
        groups = [*self.adam.param_groups, *(self.ivon.param_groups if self.ivon else ())]
        for options in groups:
            options["lr"] = rate * options.get(TIMES, 1.0)

    def step(self) -> None:
        """Move the parameters."""
        self.adam.step()
        if self.ivon is not None:
            self.ivon.step()
            self._keep_deviations()

    @property
    def steadier(self) -> str:
        """What to do where training is not finite."""
        if self.ivon is None:
            rate = "optim.lr" if self.section.encoder_rate <= 1.0 else "optim.lr or optim.encoder_rate"
            return f"lower {rate}, or set optim.clip"
        return "lower optim.ivon.lr, or set optim.ivon.clip; for what Adam moves, lower optim.lr"

    @torch.no_grad()
    def _keep_deviations(self) -> None:
        """Let the network's log σ be what IVON has found."""
        if self.ivon is not None:
            for one in self.posteriors:
                one.posterior.log_sd.copy_(self.ivon.deviation(one.mean).log())

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """The state as files of a checkpoint."""
        found = {ADAM_FILE: checkpoint.optimizer_tensors(self.adam)}
        if self.ivon is not None:
            found[IVON_FILE] = checkpoint.optimizer_tensors(self.ivon)
        return {
            file: {key: checkpoint.gathered(value) for key, value in tensors.items()} for file, tensors in found.items()
        }

    def restore(self, verified: checkpoint.Verified, placed: checkpoint.Placed = checkpoint.as_it_is) -> None:
        """Take the state of a checkpoint; ``placed``: a whole tensor as this process has its parameter.

        Raises:
            CheckpointError: a file cannot be read, or is not of this optimizer.
        """
        checkpoint.restore_optimizer(self.adam, verified, ADAM_FILE, ("step", "exp_avg", "exp_avg_sq"), placed)
        if self.ivon is not None:
            checkpoint.restore_optimizer(self.ivon, verified, IVON_FILE, ("step", "momentum", "hessian"), placed)
            self._keep_deviations()


def rate_factors(section: Optim, network: nn.Module, stages: Stages) -> dict[int, float]:
    """By the ids of parameters, of what multiple of the rate they move; all others move at the rate itself.

    `layer_decay` (Howard & Ruder 2018): of the L layers, layer l of ``decay ** (L - l)``, and what is below layer 1 as
    if it were layer 0; `encoder_rate`: all parameters of the encoder, times this.
    """
    factors: dict[int, float] = {}
    if section.layer_decay != 1.0:
        top = len(stages) - 1
        factors = {id(one): section.layer_decay ** (top - layer) for layer, stage in enumerate(stages) for one in stage}
    if section.encoder_rate != 1.0:
        for one in network.get_submodule("encoder").parameters():
            factors[id(one)] = section.encoder_rate * factors.get(id(one), 1.0)
    return factors


def _by_rate(group: Mapping[str, Any], factors: Mapping[int, float]) -> Iterator[dict[str, Any]]:
    """A group of parameters as one group for each rate."""
    parts: dict[float, list[nn.Parameter]] = {}
    for parameter in group["params"]:
        parts.setdefault(factors.get(id(parameter), 1.0), []).append(parameter)
    for factor, parameters in parts.items():
        yield {**group, "params": parameters, TIMES: group.get(TIMES, 1.0) * factor}


def freeze(section: Train, network: Network) -> None:
    """Let what the recipe freezes, or does not learn as a probe, take no gradient: no optimizer moves it."""
    if section.probe:
        network.requires_grad_(False)
        network.output.requires_grad_(True)
    for stage in network.stages()[: section.frozen_stages]:
        for parameter in stage:
            parameter.requires_grad_(False)


def _adam(
    section: Optim,
    parameters: list[nn.Parameter],
    deviations: Sequence[nn.Parameter],
    times: float,
    factors: Mapping[int, float],
) -> torch.optim.Adam:
    """Adam with decay in the gradient, or AdamW; one fused kernel for all parameters.

    ``deviations``: those of the parameters that are logarithms of standard deviations; ``times``: of `lr`, their rate;
    ``factors``: see :func:`rate_factors`.
    """
    kind = torch.optim.Adam if section.kind == "adam" else torch.optim.AdamW
    apart = {id(parameter) for parameter in deviations}
    plain = [parameter for parameter in parameters if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [{"params": plain, "weight_decay": section.weight_decay}]
    if section.decayed == "matrices":
        groups[0]["params"] = [parameter for parameter in plain if parameter.ndim > 1]
        groups.append({"params": [parameter for parameter in plain if parameter.ndim <= 1], "weight_decay": 0.0})
    if deviations:
        own = [parameter for parameter in parameters if id(parameter) in apart]
        groups.append({"params": own, "weight_decay": 0.0, TIMES: times})
    if factors:
        groups = [part for group in groups for part in _by_rate(group, factors)]
    return uncompiled(kind)(groups, lr=section.lr, betas=section.betas, eps=section.eps, fused=True)


def _ivon(
    section: Optim, options: Ivon, posteriors: Sequence[Uncertain], units: int, factors: Mapping[int, float]
) -> IVON:
    """IVON over the means of uncertain weights, each tensor with the precision of its own prior."""
    size = units / options.kl_weight
    groups = [
        {"params": [one.mean], "prior_precision": 1 / (one.posterior.prior.variance * size)} for one in posteriors
    ]
    made = uncompiled(IVON)(
        groups,
        lr=options.lr,
        effective_size=size,
        hessian_start=options.hessian_start,
        betas=options.betas,
        clip=math.inf if options.clip is None else options.clip,
    )
    for group in made.param_groups:
        group[TIMES] = options.lr / section.lr * factors.get(id(group["params"][0]), 1.0)
    return made


def learning_rate(section: Optim, progress: float, drops: int) -> float:
    """Rate after a share ``progress`` of all steps and ``drops`` plateaus: a pure function, so resuming is exact."""
    return section.schedule.rate(section.lr, progress, drops)


class Average(AveragedModel):
    """Exponential moving average of the weights. Torch's own copies its count to the device in every update, which
    waits for a GPU."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take the weights of an update; those of the first one as they are."""
        own: list[Tensor] = [*self.module.parameters()]
        given: list[Tensor] = [*model.parameters()]
        if int(self.n_averaged):
            torch._foreach_lerp_(own, given, 1 - self.decay)
        else:
            for kept, value in zip(own, given, strict=True):
                kept.copy_(value)
        for kept, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
            kept.copy_(buffer)
        self.n_averaged += 1


def average(section: Optim, network: nn.Module) -> Average | None:
    """Exponential moving average of the weights, or None."""
    return None if section.ema is None else Average(network, section.ema)


@contextmanager
def averaged(network: nn.Module, mean: Average | None) -> Iterator[None]:
    """Within: the network has the averaged weights, if there are any."""
    if mean is None or int(mean.n_averaged) == 0:
        yield
        return
    own = {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(mean.module.state_dict())
    try:
        yield
    finally:
        network.load_state_dict(own)
