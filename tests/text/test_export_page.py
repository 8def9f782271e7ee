"""The blocks of the page on exports run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_readme import block, run

from probtrans_cli.export.measure import MOST


@pytest.mark.slow
def test_a_tagger_is_exported_and_runs_by_itself(probtrans: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    small = "train.steps=20 model.iterations=1 model.channels=2"  # a graph has each iteration apart
    done = run(probtrans + block("exports", "docs/exports.md").replace("train.epochs=2", small), tmp_path)
    said = done.stdout.splitlines()
    assert sum("\t" in line for line in said) == 7 + 9
    assert sum(" <- " in line for line in said) == 7
    report = json.loads((tmp_path / "tagger-torch/EXPORT.json").read_text("utf-8"))
    assert report["largest_relative_difference"] <= MOST
    assert said[-1].startswith("{'metric': 'accuracy', 'dev': ")
    pytest.importorskip("spacy")
    script = block("a graph on a GPU").replace('"cuda"', '"meta"')
    script += "import torch\nids = torch.ones(2, 3, dtype=torch.int64, device='meta')\n"
    script += f"print(network(ids=ids, mask=ids > 0)['scores'].device)\n{block('spacy', 'docs/exports.md')}"
    (tmp_path / "script.py").write_text(script, "utf-8")
    done = run("python script.py", tmp_path)
    first, *tokens = done.stdout.splitlines()
    assert (first, len(tokens)) == ("meta", 7)


@pytest.mark.slow
def test_a_language_model_goes_word_by_word(probtrans: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    commands = block("steps", "docs/exports.md").replace("quickstart-lm\n", "quickstart-lm train.steps=20\n", 1)
    commands += """
echo "two cheap farmers fold a dark shirt" | probtrans parse runs/quickstart-lm -f jsonl --trees no
probtrans generate runs/quickstart-lm --words 8 --seed 1 "two cheap farmers"
"""
    done = run(probtrans + commands, tmp_path)
    *surprisals, continued, parsed, generated = done.stdout.splitlines()[-10:]
    bits = [float(line.split("\t")[1]) for line in surprisals]
    assert bits == pytest.approx(json.loads(parsed)["surprisal"], abs=1e-4)
    assert continued == generated
