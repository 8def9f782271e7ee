"""Which weights of a network are uncertain, and what is believed of them: ``model.bayes`` of a recipe, applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.weights import Prior
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.model.base import Bayes, WeightPrior

NORM_DEVIATION = 0.1  # the standard deviation of the gains and shifts of a norm under their prior


def spread(network: Network, section: Bayes, *, probe: bool = False) -> None:
    """Give the weights that ``section`` names a Gaussian around their present values; ``probe``: the output's alone.

    Biases, positions and segments stay certain, and words unless `words` is set.
    """
    by_part: Mapping[str, Sequence[nn.Module]] = {} if probe else network.encoder.parts()
    layers = [part for part in ("attention", "feed_forward") if part in section.layers]
    matrices = [(module, "weight") for part in layers for module in by_part.get(part, ())]
    if "output" in section.layers:
        matrices += _matrices_of(network.output)
    if section.words and not probe:
        matrices.append((network.unary, "weight"))
    for module, name in matrices:
        mean: Tensor = getattr(module, name)
        prior = _prior(section.prior, mean.shape[-1])
        deviation = section.start * mean.shape[-1] ** -0.5
        weights.make_uncertain(module, name, prior, deviation=deviation, family=section.family)
    if section.norms and not probe:
        for module in [module for module in network.modules() if isinstance(module, nn.LayerNorm)]:
            for name, centre in (("weight", 1.0), ("bias", 0.0)):
                prior = Prior(centre, NORM_DEVIATION**2)
                deviation = section.start * NORM_DEVIATION
                weights.make_uncertain(module, name, prior, deviation=deviation, family=section.family)
    weights.use_file_names(network)


def spread_all(network: Network, prior: WeightPrior, *, probe: bool = False) -> None:
    """Give every matrix of encoder and output a Gaussian, a deviation for each weight, which an optimizer finds."""
    parts = [network.output] if probe else [network.encoder, network.output]
    for module, name in [named for part in parts for named in _matrices_of(part)]:
        inputs = getattr(module, name).shape[-1]
        weights.make_uncertain(module, name, _prior(prior, inputs), deviation=inputs**-0.5, family="full")
    for tensor in weights.uncertain(network):
        tensor.posterior.requires_grad_(False)
    weights.use_file_names(network)


def _matrices_of(part: nn.Module) -> list[tuple[nn.Module, str]]:
    modules = list(part.modules())
    return [(module, name) for module in modules for name, p in module.named_parameters(recurse=False) if p.ndim > 1]


def _prior(section: WeightPrior, inputs: int) -> Prior:
    variance = section.std**2 if section.kind == "normal" else section.std**2 / inputs
    return Prior(0.0, variance, at_start=section.kind == "start")
