"""Products of large matrices by oneDNN: the values and gradients of torch's own, and taken only where they may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_models import assert_near, encoder, loss, sentences
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from probtrans_cli.models import arithmetic
from probtrans_cli.models.arithmetic import Linear, linear
from probtrans_cli.models.base import Words


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Let every product in float32 be one of oneDNN's; the shapes of their weights."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch was built without oneDNN")
    shapes: list[tuple[int, ...]] = []
    by_onednn = arithmetic._by_onednn

    def noted(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        shapes.append(tuple(weight.shape))
        return by_onednn(values, weight, bias)

    monkeypatch.setattr(arithmetic, "LARGE", 1)
    monkeypatch.setattr(arithmetic, "onednn_is_wider", lambda: True)
    monkeypatch.setattr(arithmetic, "_by_onednn", noted)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield shapes
    torch.set_default_dtype(default)


SHAPES = {"rows": (7, 5), "sentences": (3, 4, 5), "one": (1, 5), "vector": (5,), "none": (0, 5)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "in order"])
def test_values_and_gradients_are_those_of_torch(
    calls: list[Any], shape: tuple[int, ...], biased: bool, transposed: bool
) -> None:
    """With and without a bias, of rows and of padded sentences, and of a weight that is a transposed view."""
    values, weight = torch.randn(shape).requires_grad_(), torch.randn(6, 5).requires_grad_()
    bias = torch.randn(6).requires_grad_() if biased else None
    read = weight.T.contiguous().T if transposed else weight
    leaves = [values, weight, *([] if bias is None else [bias])]
    direction = torch.randn(*shape[:-1], 6)

    def gradients(product: Any) -> tuple[Tensor, ...]:
        return torch.autograd.grad((product * direction).square().sum(), leaves)

    ours, theirs = linear(values, read, bias), functional.linear(values, read, bias)
    assert bool(calls) == bool(values.numel())
    assert_near([ours], [theirs], 1e-5)
    assert_near(gradients(ours), gradients(theirs), 1e-5)


def test_gradients_of_gradients_are_those_of_torch(calls: list[Any]) -> None:
    """A penalty on gradients, as of a factor whose messages are derivatives."""
    values, weight = torch.randn(4, 5).requires_grad_(), torch.randn(3, 5).requires_grad_()

    def second(product: Any) -> tuple[Tensor, ...]:
        (gradient,) = torch.autograd.grad(product(values, weight).tanh().sum(), values, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), [values, weight])

    assert_near(second(linear), second(functional.linear), 1e-5)
    assert len(calls) >= 3


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's own, of forward derivatives
def test_transforms_of_torch_func_are_those_of_torch(calls: list[Any]) -> None:
    """As in the equations that run as they stand, whose messages are `torch.func.grad` of an expected score."""
    values, weight = torch.randn(4, 5), torch.randn(3, 5).requires_grad_()

    def second(product: Any) -> tuple[Tensor, ...]:
        gradient = torch.func.grad(lambda rows: product(rows, weight).tanh().sum())(values)
        return torch.autograd.grad(gradient.square().sum(), weight)

    def forwards(product: Any) -> tuple[Tensor, ...]:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(product(forward_ad.make_dual(values, values), weight))

    def each(product: Any) -> Tensor:
        return torch.func.vmap(lambda rows: product(rows, weight))(values[None])

    for function in (second, forwards, each):
        assert all(map(torch.equal, function(linear), function(functional.linear)))
    assert not calls


@pytest.mark.parametrize("messages", ["plain", "fast"])
@pytest.mark.parametrize("kind", ["uv", "shared", "rotary"])
def test_a_field_has_the_values_and_gradients_that_it_has_without(
    calls: list[Any], kind: str, messages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"distance": None if kind == "rotary" else 1, "globals": {"kind": "single-split", "features": 3}}
    model = encoder(decomposition={"kind": kind, "rank": 2}, messages=messages, **options).float()
    unary, mask = sentences([9, 4])
    unary = unary.float()

    def results() -> list[Tensor]:
        value = loss(model(Words(unary, mask)), 1)
        return [value, *torch.autograd.grad(value, list(model.parameters()))]

    with_onednn, number = results(), len(calls)
    monkeypatch.setattr(arithmetic, "onednn_is_wider", lambda: False)
    assert_near(with_onednn, results(), 1e-4)
    assert number == len(calls)
    assert calls or messages == "plain"


@pytest.mark.parametrize("reason", ["float64", "bfloat16", "autocast", "small", "as wide", "compiled", "strided bias"])
def test_torch_computes_what_is_not_for_onednn(calls: list[Any], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other precisions, small products, a processor on which MKL is as fast, and traced graphs."""
    dtype = {"float64": torch.float64, "bfloat16": torch.bfloat16}.get(reason, torch.float32)
    layer, values = Linear(5, 6).to(dtype), torch.randn(4, 5, dtype=dtype)
    if reason == "small":
        monkeypatch.setattr(arithmetic, "LARGE", 4 * 5 * 6 / torch.get_num_threads() + 1)
    if reason == "as wide":
        monkeypatch.setattr(arithmetic, "onednn_is_wider", lambda: False)
    if reason == "compiled":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    if reason == "strided bias":
        layer.bias = torch.nn.Parameter(torch.randn(12)[::2])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=reason == "autocast"):
        assert torch.equal(layer(values), functional.linear(values, layer.weight, layer.bias))
    assert not calls


def test_an_exported_graph_has_products_of_torch(calls: list[Any]) -> None:
    graph = torch.export.export(Linear(5, 6), (torch.randn(4, 5),))
    assert not calls
    assert not any("mkldnn" in str(node.target) for node in graph.graph.nodes)


@pytest.mark.parametrize(
    ("vendor", "capability", "wider"),
    [("AuthenticAMD", "AVX512", True), ("AuthenticAMD", "AVX2", False), ("GenuineIntel", "AVX512", False)],
)
def test_the_processor_decides(vendor: str, capability: str, wider: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock does not: its noise would change the bits of a training that goes on."""
    monkeypatch.setattr(arithmetic, "_processor", lambda: f"vendor_id\t: {vendor}\n")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert arithmetic.onednn_is_wider.__wrapped__() == wider


def test_mismatched_sizes_are_an_error_of_torch(calls: list[Any]) -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        linear(torch.randn(4, 5), torch.randn(3, 6))
    assert not calls
