"""Shared by all tests: shapes in annotations are checked while tests run; where the real data is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

with install_import_hook(["probtrans_cli.models", "probtrans_cli.trees"], "beartype.beartype"):
    import probtrans_cli.models
    import probtrans_cli.trees.decode  # noqa: F401


@pytest.fixture
def corpora() -> Path:
    """The folder of real corpora; the test is skipped where it is not there."""
    folder = Path(os.environ.get("PROBTRANS_DATA", "data"))
    if not (folder / "ud" / "en_ewt").is_dir():
        pytest.skip(f"no English Web Treebank in {folder}: run data_scripts/ud_english_ewt.py or set PROBTRANS_DATA")
    return folder.resolve()
