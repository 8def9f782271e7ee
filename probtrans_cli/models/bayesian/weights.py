"""Weights as independent Gaussians: their draws, the divergence of their distribution from the prior, and its gradient.

    q(ω) = Π N(μ, σ²)       a draw: W = μ + σ ∘ ε, ε ~ N(0, 1)        L = E_q log p(y | x, ω) - KL(q ‖ p)           (5)

Equation numbers are those of the derivation "Bayesian Transformers". A weight has a mean and the logarithm of its
standard deviation; of a matrix ``[R, C]`` the deviations are one a row, ``[R, 1]``, or one a weight, ``[R, C]``.

Modules stay what they are: :func:`make_uncertain` parametrizes tensors of theirs (``torch.nn.utils.parametrize``), so
that ``module.weight`` is the mean, but within :func:`drawn` a draw, one for everything that is computed there. In files
the means have the names of plain weights, and ``log σ`` that name behind ``posterior.``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

Number = float | Tensor
LEAST, MOST = -12.0, 2.0  # the bounds of log σ; beyond them it counts as the bound
POSTERIOR, PRIOR = "posterior.", "prior."
"""What stands in files before a weight's name, for its log σ and for the mean of its prior."""


def kl(
    mean: Float[Tensor, "*w"], log_sd: Float[Tensor, "*s"], prior_mean: Number, prior_variance: Number
) -> Float[Tensor, ""]:
    """Return KL(q ‖ p), summed over all weights: (12) for any Gaussian prior, in nats.

    (12) is that of the prior N(0, 1) and one variance a row: ``log_sd`` is broadcast over the row.
    """
    variance = (2 * log_sd).exp() / prior_variance
    return (variance + (mean - prior_mean) ** 2 / prior_variance - 1 - variance.log()).expand_as(mean).sum() / 2


def kl_gradient(
    mean: Float[Tensor, "*w"], log_sd: Float[Tensor, "*s"], prior_mean: Number, prior_variance: Number
) -> tuple[Float[Tensor, "*w"], Float[Tensor, "*s"]]:
    """Return the derivatives of :func:`kl` by ``mean`` and by ``log_sd``, in closed form."""
    of_sd = ((2 * log_sd).exp() / prior_variance - 1).expand_as(mean)
    return (mean - prior_mean) / prior_variance, of_sd.sum_to_size(log_sd.shape)


class Prior(NamedTuple):
    """The prior of a weight tensor: N(mean, variance); ``at_start``: around the values that training starts with."""

    mean: float
    variance: float
    at_start: bool = False


class GaussianWeight(nn.Module):
    """The distribution of a tensor's weights around their means, which the parametrized module holds itself."""

    prior_mean: Tensor | None

    def __init__(self, mean: Tensor, prior: Prior, *, deviation: float, family: Literal["row", "full"]) -> None:
        """``deviation``: σ of every weight at the start. A vector (a norm's gains or shifts) is one row."""
        super().__init__()
        rows = (*mean.shape[:1], *[1] * (mean.ndim - 1)) if mean.ndim > 1 else (1,)
        shape = mean.shape if family == "full" else rows
        self.log_sd = nn.Parameter(mean.new_full(shape, deviation).log())
        self.prior = prior
        self.register_buffer("prior_mean", mean.detach().clone() if prior.at_start else None)
        self.drawing = False

    def forward(self, mean: Tensor) -> Tensor:
        """Return the means, or a draw."""
        if not self.drawing:
            return mean
        return torch.addcmul(mean, self.deviation(), torch.randn_like(mean))

    def deviation(self) -> Tensor:
        """Return ``σ``, ``[R, 1]`` or ``[R, C]``; ``[1]`` or ``[C]`` of a vector."""
        return self.log_sd.clamp(LEAST, MOST).exp()

    def of_kl(self, mean: Tensor) -> tuple[Tensor, Tensor, Number, Number]:
        centre = self.prior.mean if self.prior_mean is None else self.prior_mean
        return mean, self.log_sd.clamp(LEAST, MOST), centre, self.prior.variance


class Uncertain(NamedTuple):
    """A tensor with uncertain weights: its name in the network, its means, their distribution."""

    name: str
    mean: nn.Parameter
    posterior: GaussianWeight


def make_uncertain(
    module: nn.Module, name: str, prior: Prior, *, deviation: float, family: Literal["row", "full"] = "row"
) -> None:
    """Give the parameter ``name`` of a module a Gaussian around its present values."""
    mean = getattr(module, name)
    posterior = GaussianWeight(mean, prior, deviation=deviation, family=family)
    parametrize.register_parametrization(module, name, posterior)


def uncertain(network: nn.Module) -> Iterator[Uncertain]:
    """Yield all tensors with uncertain weights, in the order of the modules."""
    for path, module in network.named_modules():
        if isinstance(module, parametrize.ParametrizationList) and isinstance(module[0], GaussianWeight):
            mean: Any = module.original
            yield Uncertain(path.replace("parametrizations.", ""), mean, module[0])


def parametrized(network: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return the modules that have uncertain weights, each with the parameter's name."""
    modules: list[Any] = [module for module in network.modules() if parametrize.is_parametrized(module)]
    return [(module, name) for module in modules for name in module.parametrizations]


def posterior_of(module: nn.Module, name: str = "weight") -> GaussianWeight | None:
    """Return the distribution of a module's parameter; None: it is certain."""
    parametrizations: Any = module.parametrizations if parametrize.is_parametrized(module, name) else {name: [None]}
    posterior = parametrizations[name][0]
    return posterior if isinstance(posterior, GaussianWeight) else None


@contextmanager
def drawn(network: nn.Module) -> Iterator[None]:
    """Within: the uncertain weights of a network are one draw, from torch's default generator."""
    posteriors = [tensor.posterior for tensor in uncertain(network)]
    for posterior in posteriors:
        posterior.drawing = True
    try:
        with parametrize.cached():
            for module, name in parametrized(network):  # all at once and in order, whichever are needed first
                getattr(module, name)
            yield
    finally:
        for posterior in posteriors:
            posterior.drawing = False


def outside_bounds(network: nn.Module) -> list[str]:
    """Return the names of tensors with a log σ that counts as its bound."""
    values = {tensor.name: tensor.posterior.log_sd for tensor in uncertain(network)}
    return [name for name, log_sd in values.items() if bool(((log_sd < LEAST) | (log_sd > MOST)).any())]


# --- names in files ---------------------------------------------------------------------------------------------------

_INSIDE = re.compile(r"(?P<before>.*?)parametrizations\.(?P<name>\w+)\.(?P<part>original|0\.log_sd|0\.prior_mean)")
_PREFIXES = {"original": "", "0.log_sd": POSTERIOR, "0.prior_mean": PRIOR}


def file_name(key: str) -> str:
    match = _INSIDE.fullmatch(key)
    return key if match is None else f"{_PREFIXES[match['part']]}{match['before']}{match['name']}"


def use_file_names(network: nn.Module) -> None:
    """Let the state of a network have the names of files, those of a plain network's weights and ``posterior.NAME``.

    ``network.state_dict()`` and ``load_state_dict`` are all that reads or writes weights, so this is the only place
    that knows.
    """

    def named(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        del module
        for key in [key for key in state if key.startswith(prefix)]:
            if (name := file_name(key.removeprefix(prefix))) != key.removeprefix(prefix):
                state[prefix + name] = state.pop(key)

    def renamed(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        for tensor in uncertain(module):
            parts = tensor.name.split(".")
            for part, before in _PREFIXES.items():
                outside = f"{prefix}{before}{tensor.name}"
                if outside in state:
                    inside = ".".join([*parts[:-1], "parametrizations", parts[-1], part])
                    state[prefix + inside] = state.pop(outside)

    network.register_state_dict_post_hook(named)  # type: ignore[no-untyped-call]
    network.register_load_state_dict_pre_hook(renamed)  # type: ignore[no-untyped-call]
