"""A hash of what every recipe computes in its first updates, to compare two states of the code to the bit.

    python -m tests.frozen > before; ...; python -m tests.frozen | diff before -

Each recipe trains for 50 updates on one thread, on its own training corpus where that is there (else on a few toy
sentences in its format); dev and test are the first 100 sentences. The hash is of every loss, gradient norm and score,
and of the final weights; a second hash is of the weights alone, as reports may change without them. ``--steps 0`` runs
a recipe as it is, to its end. Hashes differ between machines.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).parent))
SENTENCES = 100


def find(name: str | list[str]) -> Path | None:
    """Return a corpus below $PROBTRANS_DATA, the first of several; None where one is not there."""
    if isinstance(name, list):
        paths = [find(part) for part in name]
        return paths[0] if all(paths) else None
    folder = Path(os.environ.get("PROBTRANS_DATA", "data")).resolve()
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def beginning(source: Path, target: Path, blocks: bool) -> None:
    """Copy the first sentences: blocks between blank lines, or lines."""
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    end = "\n\n" if blocks else "\n"
    target.write_text(end.join(raw.decode("utf-8").split(end)[:SENTENCES]) + end, encoding="utf-8")


def overrides(name: str, folder: Path, steps: int) -> list[str]:
    """What is changed of a recipe: its corpora, and how long it trains."""
    import yaml
    from support import stand_in

    from probtrans_cli.recipe.source import load_recipe

    text = (ROOT / "recipes" / f"{name}.yaml").read_text("utf-8")
    data = yaml.safe_load(text)["data"]
    form = data.get("format", "auto")
    changes = ["runtime={device: cpu, threads: 1}", "log.every_steps=1"]
    if steps:
        changes += [f"train.steps={steps}", f"eval.every_steps={steps}"]
    for split in ("train", "dev", "test", "extra"):
        given = data.get(split)
        if given is None or str(given).startswith("embedded:") or (not steps and find(given)):
            continue
        source = find(given)
        if source is None or find(data["train"]) is None:
            changes.append(f"data.{split}={stand_in(folder, split, load_recipe(name).data)}")
        elif split != "train":
            ending = ".conllu" if ".conllu" in given else Path(given).suffix
            beginning(source, folder / f"{split}{ending}", form in ("columns",) or ".conllu" in given)
            changes.append(f"data.{split}={split}{ending}")
    return changes


def frozen(name: str, steps: int) -> str:
    """The hash of one recipe, that of its weights alone, and its last loss."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = [sys.executable, "-m", "probtrans_cli", "-q", "train", name, *overrides(name, folder, steps)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*command, "--run", "run", "--json"], cwd=folder, env=environment, capture_output=True)
        if done.returncode:
            return f"failed: {done.stderr.decode()[-400:]}"
        digest = hashlib.sha256()
        loss = None
        for line in (folder / "run" / "metrics.jsonl").read_text("utf-8").splitlines():
            values = json.loads(line)
            values.pop("words_per_second", None)
            loss = values.get("loss") if values["split"] == "train" else loss
            digest.update(json.dumps(values, sort_keys=True).encode())
        result = json.loads(done.stdout)
        for key in ("seconds", "run"):
            result.pop(key, None)
        digest.update(json.dumps(result, sort_keys=True).encode())
        weights = (folder / "run" / "checkpoints" / "best" / "model.safetensors").read_bytes()
        digest.update(weights)
        return f"{digest.hexdigest()[:16]} {hashlib.sha256(weights).hexdigest()[:16]} {loss}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    every = sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))
    for name in given.recipes or every:
        print(name, frozen(name, given.steps), flush=True)


if __name__ == "__main__":
    main()
