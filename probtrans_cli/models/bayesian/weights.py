"""Weights as independent Gaussians: the divergence of their distribution from the prior, and its gradient.

Equation numbers are those of the derivation "Bayesian Transformers". A weight has a mean and the logarithm of its
standard deviation; of a matrix ``[R, C]`` the deviations are one a row, ``[R, 1]``, or one a weight, ``[R, C]``.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

Number = float | Tensor


def kl(
    mean: Float[Tensor, "*w"], log_sd: Float[Tensor, "*s"], prior_mean: Number, prior_variance: Number
) -> Float[Tensor, ""]:
    """KL(q ‖ p), summed over all weights: (12) for any Gaussian prior, in nats.

    (12) is that of the prior N(0, 1) and one variance a row: ``log_sd`` is broadcast over the row.
    """
    variance = (2 * log_sd).exp() / prior_variance
    return (variance + (mean - prior_mean) ** 2 / prior_variance - 1 - variance.log()).expand_as(mean).sum() / 2


def kl_gradient(
    mean: Float[Tensor, "*w"], log_sd: Float[Tensor, "*s"], prior_mean: Number, prior_variance: Number
) -> tuple[Float[Tensor, "*w"], Float[Tensor, "*s"]]:
    """The derivatives of :func:`kl` by ``mean`` and by ``log_sd``, in closed form."""
    of_sd = ((2 * log_sd).exp() / prior_variance - 1).expand_as(mean)
    return (mean - prior_mean) / prior_variance, of_sd.sum_to_size(log_sd.shape)
