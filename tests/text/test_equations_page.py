"""The page of equations is what the docstrings say."""

from __future__ import annotations

import equations


def test_the_page_is_what_the_docstrings_say() -> None:
    found = equations.PAGE.read_text("utf-8")
    assert found == equations.written(), "write it again: python tests/text/equations.py"


def test_the_page_has_every_rule() -> None:
    found = equations.PAGE.read_text("utf-8")
    for rule in (
        "T' = resc(T; Σ v (W∘W)ᵀ, Σ v)",
        "χ_a = Σ_cc' Cov(p_ac, p_ac')",
        "m = M Φ + s φ",
        "ĥ = ĝ (θ - m) / σ²",
    ):
        assert rule in found
    assert ":func:" not in found
