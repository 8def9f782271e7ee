"""Shared by the tests of models: arithmetic in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from probtrans_cli.models.probabilistic.fast import layout


@pytest.fixture
def double() -> Iterator[None]:
    """New tensors are float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=["packed", "padded"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Rows of real words only, or of all positions."""
    monkeypatch.setattr(layout, "WORTH_PACKING", -1.0 if request.param == "packed" else 2.0)
    return request.param
