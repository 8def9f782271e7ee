"""Shared by tests of exported graphs: a workplace with a file of every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_of_every_task import COORDINATED, DOCUMENTS, ROWS, TUPLES
from small_entities import TRAIN
from support import COGS

MARKS = ("do", "n't", "-", "--", "--", "...", '"', "``", "''", "'", "'s", ",", ".", "(", ")", "a-b", "can't", "1,234.5")
"""Plain spellings of typographic marks."""


@pytest.fixture
def place(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; graphs are measured over small batches."""
    monkeypatch.setattr("probtrans_cli.export.measure.SENTENCES", 3)
    monkeypatch.setattr("probtrans_cli.export.measure.SPEED_SECONDS", 0.0)
    texts = {
        "texts.tsv": "x\ttwo farmers fold\ny\tcheap farmers\nz\twe sing .\n" * 3,
        "cogs.tsv": "".join("\t".join(row) + "\n" for row in COGS) * 3,
        "doc.txt": DOCUMENTS, "tuples.jsonl": TUPLES * 4, "cc.txt": COORDINATED * 4, "ner.txt": ROWS * 3,
        "entities.txt": TRAIN,
    }  # fmt: skip
    for name, text in texts.items():
        Path(name).write_text(text, "utf-8")
    with Path("train.conllu").open("a", encoding="utf-8") as file:
        for sentence in (MARKS, MARKS[::-1]):  # the toy treebank has no punctuation
            for number, word in enumerate(sentence, start=1):
                tag = f"T{sum(map(ord, word)) % 3}"
                relation = "root" if number == 1 else "dep"
                file.write(f"{number}\t{word}\t_\tX\t{tag}\t_\t{number - 1}\t{relation}\t_\t_\n")
            file.write("\n")
    return fresh
