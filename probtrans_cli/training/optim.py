"""Optimizer, learning rate and weight average, as a recipe's ``optim`` section describes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from inspect import unwrap
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from probtrans_cli import checkpoint
from probtrans_cli.models.bayesian.weights import Uncertain, uncertain
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.model.base import Bayes
from probtrans_cli.recipe.training import Optim, Train

Stages = Sequence[Sequence[nn.Parameter]]
Kind = TypeVar("Kind", bound=Optimizer)
TIMES = "times"  # the key of a group of parameters whose rate is a multiple of `optim.lr`
ADAM_FILE, IVON_FILE = "training/optimizer.safetensors", "training/ivon.safetensors"


class Optimizers:
    """Moves the parameters of a network: Adam, and with `kind: ivon` beside it IVON, which moves the means of the
    uncertain weights and finds their deviations."""

    def __init__(
        self, section: Optim, network: nn.Module, bayes: Bayes | None = None, *, units: int = 1, stages: Stages = ()
    ) -> None:
        """``bayes``: the section of weights whose deviations are learned; ``units``: N of IVON; ``stages``: of the
        network, for `layer_decay`."""
        scaled = network.scaled() if isinstance(network, Network) else ()
        widths = {id(parameter): scale.rate for parameter, scale in scaled if scale.rate != 1.0}
        factors = rate_factors(section, network, stages, widths)
        self.section = section
        self.parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.posteriors: list[Uncertain] = list(uncertain(network))
        rate = "optim.lr" if section.encoder_rate <= 1.0 else "optim.lr or optim.encoder_rate"
        self.advice = f"lower {rate}, or set optim.clip"  # for a training that is not finite
        self.ivon: IVON | None = None
        if (options := section.posterior) is not None:
            self.advice = "lower optim.ivon.lr, or set optim.ivon.clip; for what Adam moves, lower optim.lr"
            size = units / options.kl_weight
            groups = [
                {"params": [weight.mean], "prior_precision": 1 / (weight.posterior.prior.variance * size)}
                for weight in self.posteriors
            ]
            self.ivon = uncompiled(IVON)(
                groups,
                lr=options.lr,
                effective_size=size,
                hessian_start=options.hessian_start,
                betas=options.betas,
                clip=math.inf if options.clip is None else options.clip,
            )
            for group in self.ivon.param_groups:
                group[TIMES] = options.lr / section.lr * factors.get(id(group["params"][0]), 1.0)
        means = {id(weight.mean) for weight in self.posteriors} if self.ivon else set()
        deviations = [weight.posterior.log_sd for weight in self.posteriors] if bayes else []
        self.moved_by_adam = [parameter for parameter in self.parameters if id(parameter) not in means]
        sigma_lr = bayes.sigma_lr if bayes else 1.0
        self.adam = _adam(section, self.moved_by_adam, deviations, sigma_lr, factors, widths)
        self._copy_deviations()

    @contextmanager
    def draw(self, stream: AbstractContextManager[None]) -> Iterator[None]:
        """Within, with IVON: the weights are a draw, made within ``stream``. Goes around forward and backward."""
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
        """Clip the gradients and return the norm they had. IVON's are not clipped: it would bend the curvature."""
        norm: Tensor = nn.utils.clip_grad_norm_(self.moved_by_adam, self.section.clip or math.inf)
        if self.ivon is None:
            return norm
        gradients = [weight.mean.grad for weight in self.posteriors if weight.mean.grad is not None]
        total: Tensor = torch.linalg.vector_norm(torch.stack([norm, *map(torch.linalg.vector_norm, gradients)]))
        return total

    def step(self, rate: float) -> None:
        """Move the parameters at this learning rate, or a group's multiple of it."""
        for options in [*self.adam.param_groups, *(self.ivon.param_groups if self.ivon else ())]:
            options["lr"] = rate * options.get(TIMES, 1.0)
        self.adam.step()
        if self.ivon is not None:
            self.ivon.step()
            self._copy_deviations()

    @torch.no_grad()
    def _copy_deviations(self) -> None:
        if self.ivon is not None:
            for weight in self.posteriors:
                weight.posterior.log_sd.copy_(self.ivon.deviation(weight.mean).log())

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the state as files of a checkpoint."""
        files = {ADAM_FILE: checkpoint.optimizer_tensors(self.adam)}
        if self.ivon is not None:
            files[IVON_FILE] = checkpoint.optimizer_tensors(self.ivon)
        return files

    def restore(self, verified: checkpoint.Verified) -> None:
        """Take the state of a checkpoint."""
        checkpoint.restore_optimizer(self.adam, verified, ADAM_FILE, ("step", "exp_avg", "exp_avg_sq"))
        if self.ivon is not None:
            checkpoint.restore_optimizer(self.ivon, verified, IVON_FILE, ("step", "momentum", "hessian"))
            self._copy_deviations()


def rate_factors(section: Optim, network: nn.Module, stages: Stages, widths: dict[int, float]) -> dict[int, float]:
    """Return, by the ids of parameters, the multiple of the rate at which they move; all others move at the rate.

    `layer_decay` (Howard & Ruder 2018): of the L layers, layer l of ``decay ** (L - l)``, and what is below layer 1 as
    if it were layer 0; `encoder_rate`: all parameters of the encoder, times this; ``widths``: times these, by id.
    """
    factors: dict[int, float] = {}
    if section.layer_decay != 1.0:
        top = len(stages) - 1
        for layer, stage in enumerate(stages):
            factors |= {id(parameter): section.layer_decay ** (top - layer) for parameter in stage}
    if section.encoder_rate != 1.0:
        for parameter in network.get_submodule("encoder").parameters():
            factors[id(parameter)] = section.encoder_rate * factors.get(id(parameter), 1.0)
    for identity, factor in widths.items():
        factors[identity] = factor * factors.get(identity, 1.0)
    return factors


def freeze(section: Train, network: Network) -> None:
    """Switch off the gradients of what the recipe freezes, or does not learn as a probe: no optimizer moves it."""
    if section.probe:
        learned = [parameter for parameter in network.output.parameters() if parameter.requires_grad]
        network.requires_grad_(False)
        for parameter in learned:
            parameter.requires_grad_(True)
    if section.freeze is not None:
        layers = 0 if section.freeze == "embeddings" else section.freeze
        for stage in network.stages()[: 1 + layers]:  # the first one is the embeddings
            for parameter in stage:
                parameter.requires_grad_(False)


def uncompiled(kind: type[Kind]) -> type[Kind]:
    """Return an optimizer that does not load torch's compiler, without gradients in ``step``.

    torch wraps the methods of its optimizers so that a compiler passes over them. The wrappers load the compiler, which
    takes two seconds of every training, and here no optimizer is ever compiled.
    """
    unwrapped: dict[str, Any] = {
        name: unwrap(getattr(kind, name)) for name in ("add_param_group", "state_dict", "load_state_dict")
    }
    unwrapped["step"] = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (kind,), unwrapped)


def _adam(
    section: Optim,
    parameters: list[nn.Parameter],
    deviations: Sequence[nn.Parameter],
    sigma_lr: float,
    factors: dict[int, float],
    widths: dict[int, float],
) -> torch.optim.Adam:
    """Return Adam with decay in the gradient, or AdamW; one fused kernel for all parameters.

    ``deviations``: those of the parameters that are logarithms of standard deviations; ``sigma_lr``: their rate, as a
    multiple of `lr`; ``factors``: see :func:`rate_factors`; ``widths``: those of them that are for the width, by which
    AdamW's decay, the product of rate and coefficient, is not to change.
    """
    apart = {id(parameter) for parameter in deviations}
    plain = [parameter for parameter in parameters if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [{"params": plain, "weight_decay": section.weight_decay}]
    if section.decayed == "matrices":
        groups[0]["params"] = [parameter for parameter in plain if parameter.ndim > 1]
        groups.append({"params": [parameter for parameter in plain if parameter.ndim <= 1], "weight_decay": 0.0})
    if deviations:
        learned = [parameter for parameter in parameters if id(parameter) in apart]
        groups.append({"params": learned, "weight_decay": 0.0, TIMES: sigma_lr})
    if factors:  # a group for each rate
        split: list[dict[str, Any]] = []
        for group in groups:
            by_factor: dict[tuple[float, float], list[nn.Parameter]] = {}
            for parameter in group["params"]:
                of_rate, of_width = (factors_of.get(id(parameter), 1.0) for factors_of in (factors, widths))
                by_factor.setdefault((of_rate, of_width), []).append(parameter)
            for (factor, of_width), members in by_factor.items():
                decay = group["weight_decay"] / of_width if section.kind != "adam" else group["weight_decay"]
                times = group.get(TIMES, 1.0) * factor
                split.append({**group, "params": members, TIMES: times, "weight_decay": decay})
        groups = split
    kind = uncompiled(torch.optim.Adam if section.kind == "adam" else torch.optim.AdamW)
    return kind(groups, lr=section.lr, betas=section.betas, eps=section.eps, fused=True)


class Average(AveragedModel):
    """Exponential moving average of the weights. Torch's own copies its count to the device in every update, which
    waits for a GPU."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take the weights of an update; those of the first one as they are."""
        means: list[Tensor] = [*self.module.parameters()]
        values: list[Tensor] = [*model.parameters()]
        if int(self.n_averaged):
            torch._foreach_lerp_(means, values, 1 - self.decay)
        else:
            for mean, value in zip(means, values, strict=True):
                mean.copy_(value)
        for mean, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
            mean.copy_(buffer)
        self.n_averaged += 1


@contextmanager
def averaged(network: nn.Module, mean: Average | None) -> Iterator[None]:
    """Within: the network has the averaged weights, if there are any."""
    if mean is None or int(mean.n_averaged) == 0:
        yield
        return
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(mean.module.state_dict())
    try:
        yield
    finally:
        network.load_state_dict(weights)


class IVON(Optimizer):
    """The improved variational online Newton method: an optimizer whose curvature is the precision of the weights.

    Shen et al., "Variational Learning is Effective for Large Deep Networks", ICML 2024, Algorithm 1; the weights are a
    Gaussian:

        q = N(m, σ²),   σ² = 1 / (λ (h + δ))            λ = N / κ, δ = 1 / (λ s²): prior N(0, s²)

        θ = m + σ ε                                     ĝ = ∇ mean NLL(θ),   ĥ = ĝ (θ - m) / σ²
        g ← β₁ g + (1 - β₁) ĝ                           h ← β₂ h + (1 - β₂) ĥ + ½ (1 - β₂)² (h - ĥ)² / (h + δ)
        m ← m - lr (h₀ + δ) clip[(g / (1 - β₁ᵗ) + δ m) / (h + δ)]

    symbol   code             meaning
    m        the parameter    mean of the weights
    h        hessian          estimate of the diagonal of the Hessian of the mean NLL; h + δ stays positive
    g        momentum         running mean of the gradient
    λ        effective_size   number of things that the loss is a mean over, divided by the temperature κ
    δ        prior_precision  precision of the prior, divided by λ
    h₀       hessian_start    h at first; the rate is relative to it

    One update is ``sample()``, forward and backward at the draw, any number of times, ``restore()``, ``step()``.

    Several pairs of ``sample`` and ``restore`` before a ``step`` are several draws: the gradients that each has added
    are their own, and the means of ``ĝ`` and ``ĥ`` are taken.
    """

    def __init__(
        self,
        groups: Iterable[Any],
        *,
        lr: float,
        effective_size: float,
        hessian_start: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        prior_precision: float = 1e-4,
        clip: float = math.inf,
    ) -> None:
        """See the module for the names; ``clip``: the largest size of an element of the step, before the rate."""
        least = {"lr": lr, "effective_size": effective_size, "hessian_start": hessian_start, "clip": clip}
        for name, value in least.items():
            if not value > 0:
                raise ValueError(f"{name} = {value}: it must be above 0")
        if not prior_precision >= 0:
            raise ValueError(f"prior_precision = {prior_precision}: it must not be negative")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas = {betas}: each must be in [0, 1)")
        defaults = {
            "lr": lr, "effective_size": effective_size, "hessian_start": hessian_start, "betas": betas,
            "prior_precision": prior_precision, "clip": clip,
        }  # fmt: skip
        super().__init__(groups, defaults)
        self._draws = 0
        for group, parameter in self._all():
            self.state[parameter] = {
                "step": torch.zeros(()),
                "momentum": torch.zeros_like(parameter),
                "hessian": torch.full_like(parameter, group["hessian_start"]),
            }

    def _all(self) -> list[tuple[dict[str, Any], Tensor]]:
        return [(group, parameter) for group in self.param_groups for parameter in group["params"]]

    def deviation(self, parameter: Tensor) -> Tensor:
        """Return ``σ`` of the weights of a parameter."""
        group = next(group for group, member in self._all() if member is parameter)
        precision = group["effective_size"] * (self.state[parameter]["hessian"] + group["prior_precision"])
        return torch.as_tensor(precision).rsqrt()

    @torch.no_grad()
    def sample(self) -> None:
        """Put a draw of the weights, from torch's default generator, in the place of their means."""
        assert not any("mean" in self.state[parameter] for _, parameter in self._all()), "restore() ends a draw"
        for _, parameter in self._all():
            state = self.state[parameter]
            state["mean"] = parameter.clone()
            state["before"] = None if parameter.grad is None else parameter.grad.clone()
            parameter.addcmul_(self.deviation(parameter), torch.randn_like(parameter))

    @torch.no_grad()
    def restore(self) -> None:
        """Put the means back, and add up the curvature that the gradients of this draw show."""
        self._draws += 1
        for _, parameter in self._all():
            state = self.state[parameter]
            mean, before = state.pop("mean"), state.pop("before")
            if parameter.grad is not None:
                gradient = parameter.grad if before is None else parameter.grad - before
                curvature = gradient * (parameter - mean) / self.deviation(parameter).square()
                state["curvature"] = state["curvature"] + curvature if "curvature" in state else curvature
            parameter.copy_(mean)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move means and curvature; parameters without a gradient stay.

        Raises:
            RuntimeError: no draw was made since the step before.
        """
        assert closure is None, "a draw needs its own forward and backward"
        if not self._draws:
            raise RuntimeError("step() without a draw: sample() and restore() come first")
        for group, parameter in self._all():
            state = self.state[parameter]
            curvature = state.pop("curvature", None)
            if parameter.grad is None or curvature is None:
                continue
            (beta1, beta2), delta, hessian = group["betas"], group["prior_precision"], state["hessian"]
            gradient, curvature = parameter.grad / self._draws, curvature / self._draws
            state["step"] += 1
            momentum = state["momentum"].mul_(beta1).add_(gradient, alpha=1 - beta1)
            correction = 0.5 * (1 - beta2) ** 2 * (hessian - curvature).square() / (hessian + delta)
            hessian.mul_(beta2).add_(curvature, alpha=1 - beta2).add_(correction)
            corrected = momentum / (1 - beta1 ** float(state["step"]))
            move = ((corrected + delta * parameter) / (hessian + delta)).clamp(-group["clip"], group["clip"])
            parameter.sub_(group["lr"] * (group["hessian_start"] + delta) * move)
        self._draws = 0
