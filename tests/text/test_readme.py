"""The README is true: its tour runs line by line, its quick start learns structure, its reference is fresh."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A bash script in which `probtrans` is this checkout's."""
    head = (
        f'set -euo pipefail\npython() {{ "{sys.executable}" "$@"; }}\nprobtrans() {{ python -m probtrans_cli "$@"; }}\n'
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", head + script], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


def block(name: str) -> str:
    """The code between two markers of the README."""
    found = re.search(rf"<!-- {name}: begin -->\n```bash\n(.*?)```\n<!-- {name}: end -->", README, re.DOTALL)
    assert found, f"the README has no block {name!r}"
    return found[1]


@pytest.mark.slow
def test_tour_runs(tmp_path):
    done = run(block("tour"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith(("<?xml", "<svg"))
    assert (tmp_path / "trees.conllu").read_text(encoding="utf-8").count("\troot\t") == 1


@pytest.mark.slow
def test_hugging_face_runs(tmp_path):
    """Both blocks, the second on the model of the first one's place: a probabilistic one."""
    pytest.importorskip("transformers")
    done = run(block("hugging face"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'token_str':" in done.stdout
    assert "started from little-bert" in done.stderr
    found = re.search(r"```bash\n([^`]*)```[^`]*```python\n(from probtrans_cli import hf\n.*?)```", README, re.DOTALL)
    assert found
    (tmp_path / "script.py").write_text(found[2] + "print(len(arcs), arcs[0].shape)\n", encoding="utf-8")
    done = run(f"probtrans train quickstart train.steps=2\n{found[1]}python script.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d torch.Size\(\[1, \d+, 7, 7\]\)", done.stdout), done.stdout


@pytest.mark.slow
def test_quick_start_finds_structure(tmp_path):
    """The README's main job without its installation: trees well above both floors, and a tree on stdout."""
    command = block("main job").replace(".venv/bin/probtrans", "probtrans")
    command = command[command.index("probtrans train") :].replace("--overwrite", "--overwrite --json")
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    first, _, picture = done.stdout.partition("\n")
    trees = json.loads(first)["test"]["trees"]
    floors = [trees["floors"][name]["no_punct"]["all"]["uuas"] for name in ("next_word", "nearest_rarer")]
    assert trees["no_punct"]["all"]["uuas"] > max(floors) + 0.08
    assert "farmers" in picture


def test_ci_runs_the_commands_of_the_readme():
    assert "<!-- tests: begin -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pytest" in block("tests")


def test_every_recipe_is_in_the_table():
    for path in (ROOT / "recipes").glob("*.yaml"):
        assert f"`{path.stem}`" in README, f"{path.stem} is missing from the README's table of recipes"


def test_links_and_pictures_are_there():
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
