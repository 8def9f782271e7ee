"""The quick import of torch: what is left out is there when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT = """
import gc, sys
from probtrans_cli.imports import quickly
with quickly(compiles=False):
    import torch
assert gc.isenabled() and "torch._meta_registrations" not in sys.modules
x = torch.arange(32.0).view(2, 4, 4)
"""
COMPILED = """
def attention(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x).softmax(-1).cumsum(1)
compiled = torch.compile(attention, backend="aot_eager")
assert torch.equal(compiled(x), attention(x)), "the compiler works all the same"
class Network(torch.nn.Module):
    def forward(self, x):
        return attention(x)
assert torch.equal(torch.export.export(Network(), (x,)).module()(x), attention(x))
"""
IMPORTED = """
import torch._meta_registrations
assert torch.linalg.inv(torch.empty(2, 3, 3, device="meta")).shape == (2, 3, 3)
"""
GENERATORS = """
first = torch.rand(3, generator=torch.Generator().manual_seed(1))
points = torch.quasirandom.SobolEngine(2, scramble=True, seed=1).draw(4)
import torch._prims.rng_prims
assert torch.equal(torch.rand(3, generator=torch.Generator().manual_seed(1)), first)
"""


@pytest.mark.parametrize(
    "use",
    [IMPORTED, GENERATORS, pytest.param(COMPILED, marks=pytest.mark.slow)],
    ids=["import", "generators", "compiler"],
)
def test_what_is_left_out_comes_when_it_is_needed(use: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORT + use], check=True)
