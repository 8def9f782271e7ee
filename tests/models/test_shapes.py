"""The shapes in annotations hold: tests of contracts run once more with every annotation checked."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import ROOT, environment

CONTRACTS = (
    "tests/models/test_encoder_contract.py::test_shapes_and_latent_labels",
    "tests/models/test_encoder_contract.py::test_rows_of_arcs_are_distributions_over_candidates",
    "tests/models/test_encoder_contract.py::test_every_parameter_has_a_gradient",
    "tests/models/test_encoder_contract.py::test_only_what_is_wanted_is_there",
    "tests/models/test_matrix_tree.py",
    "tests/models/test_transformer.py",
    "tests/trees/test_decode.py",
)


@pytest.mark.slow
def test_annotations_hold_in_the_tests_of_contracts() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *CONTRACTS]
    checked = environment() | {"PROBTRANS_SHAPES": "1"}
    done = subprocess.run(command, cwd=ROOT, env=checked, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
def test_a_wrong_shape_is_found() -> None:
    script = """
import conftest, torch
from probtrans_cli.models.probabilistic.inference import labels_allowed
labels_allowed(torch.ones(2, 3, 4, dtype=torch.bool), 0, 2)
"""
    path = {"PROBTRANS_SHAPES": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=environment() | path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "labels_allowed" in done.stderr
    assert "TypeCheckError" in done.stderr
