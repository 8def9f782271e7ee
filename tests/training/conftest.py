"""A place for trainings, a BERT folder to start from, and trainings that say something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_starts import LETTERS, PIECES, Says, train
from support import workplace

from probtrans_cli.data.vocabularies.wordpiece import Options, WordPieces


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workplace, which becomes the current folder."""
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


@pytest.fixture
def bert(place: Path) -> Any:
    """A random BERT of theirs, saved with its vocabulary as the folder `bert` in the current one."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    words = WordPieces([*PIECES, *LETTERS], Options())
    config = transformers.BertConfig(
        vocab_size=words.size + 3, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=64, pad_token_id=0, initializer_range=0.5,
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained("bert")
    for name, text in words.files().items():
        Path("bert", name).write_text(text, encoding="utf-8")
    return model


@pytest.fixture
def says(capfd: pytest.CaptureFixture[str]) -> Says:
    """Train, check the exit code, and return what stderr says."""

    def run(code: int, *arguments: str, name: str = "run") -> str:
        capfd.readouterr()
        assert train(*arguments, name=name) == code
        return capfd.readouterr().err

    return run
