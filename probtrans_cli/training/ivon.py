"""IVON, the improved variational online Newton method (Shen et al., "Variational Learning is Effective for Large Deep
Networks", ICML 2024, Algorithm 1): an optimizer whose curvature is the precision of a Gaussian over the weights.

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
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class IVON(Optimizer):
    """One update is ``sample()``, forward and backward at the draw, any number of times, ``restore()``, ``step()``.

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
