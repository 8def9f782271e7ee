"""Products of matrices, and what computations may depend on: values only on a CPU."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional

Values = Any  # representations ``[b, n, d]`` or ``[m, d]``: a tensor, or a State


def may_depend_on(values: Tensor) -> bool:
    """Return True if shapes and checks may depend on the values of a tensor.

    On a CPU they may, and save work: padding is left out, and rows that nobody wants are not computed. In a graph they
    must not, and a GPU would have to be waited for, to learn how much to ask of it next.
    """
    on_cpu = values.device.type == "cpu" and not torch.compiler.is_compiling()
    return on_cpu and not isinstance(values, torch._subclasses.FakeTensor)


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Return values of the host on a device; nobody waits until they are there."""
    values = values.pin_memory() if device.type == "cuda" else values
    return values.to(device, non_blocking=True)


LARGE = 10e6
"""Multiplications for each thread, from which :func:`linear` may take oneDNN: it prepares each shape that is new for
0.3 milliseconds, which pays where shapes come back, or are larger still."""


def linear(
    values: Shaped[Tensor, "*n d"], weight: Shaped[Tensor, "e d"], bias: Shaped[Tensor, " e"] | None = None
) -> Shaped[Tensor, "*n e"]:
    """Return ``values · weightᵀ + bias`` as :func:`torch.nn.functional.linear` does, in half of its time on some CPUs.

    Torch multiplies matrices in float32 by MKL. On a processor of AMD's with AVX-512, MKL computes eight numbers at
    once, where oneDNN, which torch brings as well, computes sixteen.
    """
    is_for_onednn = (
        may_depend_on(values)
        and onednn_is_wider()
        and values.numel() * len(weight) >= LARGE * torch.get_num_threads()
        and values.dtype == weight.dtype == torch.float32
        and weight.shape[1:] == values.shape[-1:]
        and (bias is None or (bias.dtype == torch.float32 and bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and not torch.is_autocast_enabled("cpu")
        # Its derivatives are those below: there are none for transforms of `torch.func`, and none forwards.
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )
    if not is_for_onednn:
        return functional.linear(values, weight, bias)
    if torch.is_grad_enabled():
        product: Tensor = _Product.apply(values, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return _by_onednn(values, weight, bias)


class Linear(nn.Linear):
    """A linear layer that computes by :func:`linear`."""

    def forward(self, values: Shaped[Tensor, "*n d"]) -> Shaped[Tensor, "*n e"]:
        return linear(values, self.weight, self.bias)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(values, weight)
        return _by_onednn(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (values, weight), (gradient,) = ctx.saved_tensors, gradients
        rows, inputs = (each.reshape(-1, each.shape[-1]) for each in (gradient, values))
        of_values, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear(gradient, weight.T) if of_values else None,
            linear(rows.T, inputs.T) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def _by_onednn(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


@cache
def onednn_is_wider() -> bool:
    """Return whether oneDNN computes more numbers at once than MKL: a property of the processor, not a measurement, so
    that a training has the same bits each time."""
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    has_both = has_mkl and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_both and torch.backends.cpu.get_cpu_capability() == "AVX512" and "AuthenticAMD" in _processor()


def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:  # not Linux
        return platform.processor()


@cache
def bfloat16_is_faster() -> bool:
    """Return whether a CPU multiplies faster in bfloat16 than in float32, one thread of it."""
    in_float32, threads = _by_onednn if onednn_is_wider() else functional.linear, torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # several may wait for each other, where the machine has other work
        with torch.no_grad():
            return seconds_of_a_product(functional.linear, torch.bfloat16) < seconds_of_a_product(in_float32)
    finally:
        torch.set_num_threads(threads)


def seconds_of_a_product(product: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float32) -> float:
    """Return the time of a product of two small matrices, the best of ten."""
    matrix, seconds = torch.ones(256, 256, dtype=dtype), []
    for _ in range(10):
        begin = time.perf_counter()
        product(matrix, matrix)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)
