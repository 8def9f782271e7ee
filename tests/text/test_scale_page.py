"""Every command and every program of docs/scale.md does what the page says; each where its packages are installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import ROOT, environment, shell

PAGE = (ROOT / "docs/scale.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TEXT = "two cheap farmers fold\nthe bakers sell many pies\n\nAnn saw Oslo .\n" * 3


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """A folder with what the page takes for granted: a run, texts, documents."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/mine").symlink_to(trained / "runs/tiny")
    (tmp_path / "big.txt").write_text(TEXT, "utf-8")
    (tmp_path / "documents").mkdir()
    for number, text in enumerate((TEXT, "two farmers", "")):
        line = json.dumps({"text": text, "id": str(number)})
        (tmp_path / f"documents/{number}.jsonl").write_text(line + "\n", "utf-8")
    return tmp_path


def program(word: str) -> str:
    (found,) = [code for language, code in BLOCKS if language == "python" and word in code]
    return found


def python(code: str, place: Path, **more: str) -> None:
    path = place / "program.py"
    path.write_text(code, "utf-8")
    ran = subprocess.run(
        [sys.executable, str(path)], cwd=place, env=environment(**more), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def expected(probtrans: str, place: Path) -> list[dict[str, object]]:
    ran = shell(probtrans + "probtrans parse runs/mine big.txt -f jsonl --threads 1", place)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_block_is_run_here() -> None:
    """A block that is added needs a test."""
    of_python = [code for language, code in BLOCKS if language == "python"]
    of_bash = [code for language, code in BLOCKS if language == "bash"]
    assert all("--output-dir" in code or "--jobs" in code for code in of_bash)
    words = ("big.arrow", "LocalPipelineExecutor", "SlurmPipelineExecutor", "import ray", "pyspark")
    assert sorted(of_python) == sorted(map(program, words))


@pytest.mark.slow
def test_parsing_in_bulk(probtrans: str, place: Path) -> None:
    scripts = [code for language, code in BLOCKS if language == "bash" and "--output-dir" in code]
    assert len(scripts) == 3
    (place / "corpus").mkdir()
    for number in (1, 2):
        raw = pa.compress(TEXT.encode(), "zstd", asbytes=True)
        (place / f"corpus/{number}.txt.zst").write_bytes(raw)
    for script in scripts:
        if "SLURM" in script:  # the whole array, of two tasks instead of 64
            small = script.replace("/64", "/2").replace("--workers 8", "").replace("parsed", "array")
            script = "".join(f"export SLURM_ARRAY_TASK_ID={task}\n{small}" for task in (1, 2))  # noqa: PLW2901
        ran = shell(probtrans + script, place)
        assert ran.returncode == 0, ran.stderr
    whole = shell(f"{probtrans}probtrans parse runs/mine big.txt --threads 1", place).stdout
    assert shell("zcat big.conllu.gz", place).stdout == whole
    assert (place / "sharded.conllu").read_text("utf-8") == whole
    merged = shell(f"{probtrans}probtrans parse runs/mine corpus/*.txt.zst --output-dir array --merge", place)
    assert merged.stdout == whole * 2
    for name in ("job.json", "blocks/000001.conllu", "blocks/000001.done"):
        assert (place / "parsed" / name).is_file()


@pytest.mark.slow
def test_preparing_in_processes(probtrans: str, trained: Path, place: Path) -> None:
    (script,) = [code for language, code in BLOCKS if language == "bash" and "--jobs" in code]
    (place / "mine.yaml").write_bytes((trained / "tiny.yaml").read_bytes())
    (place / "wiki/AA").mkdir(parents=True)
    (place / "news").mkdir()
    (place / "wiki/AA/1").write_text(TEXT, "utf-8")
    (place / "news/1.txt.zst").write_bytes(pa.compress(TEXT.encode(), "zstd", asbytes=True))
    ran = shell(probtrans + script.replace("--jobs 2", "--jobs 2 --json"), place)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["splits"]["train"]["sentences"] == 18


@pytest.mark.slow
def test_arrow(probtrans: str, place: Path) -> None:
    python(program("big.arrow"), place)
    with pa.memory_map(str(place / "big.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table["heads"].to_pylist() == [one["heads"] for one in expected(probtrans, place)]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("datatrove") is None, reason="the extra datatrove is not installed")
@pytest.mark.parametrize("executor", ["Local", "Slurm"])
def test_datatrove(executor: str, probtrans: str, place: Path) -> None:
    tools = place / "tools"
    tools.mkdir()
    # Slurm's commands, as far as they are needed: an array's tasks are done here, one after the other.
    task = 'SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=2 SLURM_NODELIST=here bash "$last" >&2 || exit 1'
    array = f"for last; do :; done\nfor task in 0 1; do {task}; done\necho Submitted batch job 1\n"
    (tools / "sbatch").write_text(f"#!/bin/bash\n{array}")
    (tools / "scontrol").write_text("#!/bin/bash\necho here\n")
    (tools / "srun").write_text('#!/bin/bash\nwhile [[ $1 != launch_* ]]; do shift; done\nexec "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    path = f"{tools}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    python(program(f"{executor}PipelineExecutor"), place, PATH=path, HOME=str(place))
    folder = place / ("analysed" if executor == "Local" else "analysed-slurm")
    found = {}
    for file in folder.glob("*.jsonl.gz"):
        for line in shell(f"zcat {file}", place).stdout.splitlines():
            document = json.loads(line)
            found[document["id"]] = document["metadata"]["analyses"]
    assert found["0"] == expected(probtrans, place)
    assert len(found["1"]) == 1
    assert found.get("2", []) == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="the package ray is not installed")
def test_ray(probtrans: str, place: Path) -> None:
    python(program("import ray"), place)
    same_rows(probtrans, place, "analysed-ray")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyspark") is None or which("java") is None, reason="pyspark or Java is not installed")
def test_spark(probtrans: str, place: Path) -> None:
    python(program("pyspark"), place, PYSPARK_PYTHON=sys.executable)
    same_rows(probtrans, place, "analysed-spark")


def same_rows(probtrans: str, place: Path, folder: str) -> None:
    table = pa.concat_tables([pq.read_table(path) for path in sorted((place / folder).glob("*.parquet"))])
    found = sorted((row["words"], row["heads"]) for row in table.select(["words", "heads"]).to_pylist() if row["words"])
    assert found == sorted((one["words"], one["heads"]) for one in expected(probtrans, place) if one["words"])
