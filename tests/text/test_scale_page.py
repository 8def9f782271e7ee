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


def blocks(language: str, word: str = "") -> list[str]:
    """The blocks of the page in this language that have this word in them."""
    return [code for written_in, code in BLOCKS if written_in == language and word in code]


def output(script: str, place: Path) -> str:
    """What a bash script, which must succeed, writes on stdout."""
    ran = shell(script, place)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def python(word: str, place: Path, **more: str) -> None:
    """Run the program of the page that has this word in it."""
    (code,) = blocks("python", word)
    path = place / "program.py"
    path.write_text(code, "utf-8")
    ran = subprocess.run(
        [sys.executable, str(path)], cwd=place, env=environment(**more), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def expected(probtrans: str, place: Path) -> list[dict[str, object]]:
    lines = output(probtrans + "probtrans parse runs/mine big.txt -f jsonl --threads 1", place)
    return [json.loads(line) for line in lines.splitlines()]


def test_every_block_is_run_here() -> None:
    """A block that is added needs a test."""
    assert all("--output-dir" in code or "--jobs" in code for code in blocks("bash"))
    words = ("big.arrow", "LocalPipelineExecutor", "SlurmPipelineExecutor", "import ray", "pyspark")
    assert sorted(blocks("python")) == sorted(code for word in words for code in blocks("python", word))


@pytest.mark.slow
def test_parsing_in_bulk(probtrans: str, place: Path) -> None:
    scripts = blocks("bash", "--output-dir")
    assert len(scripts) == 2
    (place / "corpus").mkdir()
    for number in (1, 2):
        raw = pa.compress(TEXT.encode(), "zstd", asbytes=True)
        (place / f"corpus/{number}.txt.zst").write_bytes(raw)
    for script in scripts:
        output(probtrans + script, place)
    whole = output(f"{probtrans}probtrans parse runs/mine big.txt --threads 1", place)
    assert output("zcat big.conllu.gz", place) == whole
    assert (place / "sharded.conllu").read_text("utf-8") == whole
    several = "probtrans parse runs/mine corpus/*.txt.zst --output-dir array"
    assert output(f"{probtrans}{several} --shard 1/2\n{several} --shard 2/2\n{several} --merge", place) == whole * 2
    for name in ("job.json", "blocks/000001.conllu", "blocks/000001.done"):
        assert (place / "parsed" / name).is_file()


@pytest.mark.slow
def test_preparing_in_processes(probtrans: str, trained: Path, place: Path) -> None:
    (script,) = blocks("bash", "--jobs")
    (place / "mine.yaml").write_bytes((trained / "tiny.yaml").read_bytes())
    (place / "wiki/AA").mkdir(parents=True)
    (place / "news").mkdir()
    (place / "wiki/AA/1").write_text(TEXT, "utf-8")
    (place / "news/1.txt.zst").write_bytes(pa.compress(TEXT.encode(), "zstd", asbytes=True))
    report = json.loads(output(probtrans + script.replace("--jobs 2", "--jobs 2 --json"), place))
    assert report["splits"]["train"]["sentences"] == 18


@pytest.mark.slow
def test_arrow(probtrans: str, place: Path) -> None:
    python("big.arrow", place)
    with pa.memory_map(str(place / "big.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table["heads"].to_pylist() == [parse["heads"] for parse in expected(probtrans, place)]


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
    python(f"{executor}PipelineExecutor", place, PATH=path, HOME=str(place))
    folder = place / ("analysed" if executor == "Local" else "analysed-slurm")
    analyses = {}
    for file in folder.glob("*.jsonl.gz"):
        for line in output(f"zcat {file}", place).splitlines():
            document = json.loads(line)
            analyses[document["id"]] = document["metadata"]["analyses"]
    assert analyses["0"] == expected(probtrans, place)
    assert len(analyses["1"]) == 1
    assert analyses.get("2", []) == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="the package ray is not installed")
def test_ray(probtrans: str, place: Path) -> None:
    python("import ray", place)
    same_rows(probtrans, place, "analysed-ray")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyspark") is None or which("java") is None, reason="pyspark or Java is not installed")
def test_spark(probtrans: str, place: Path) -> None:
    python("pyspark", place, PYSPARK_PYTHON=sys.executable)
    same_rows(probtrans, place, "analysed-spark")


def same_rows(probtrans: str, place: Path, folder: str) -> None:
    table = pa.concat_tables([pq.read_table(path) for path in sorted((place / folder).glob("*.parquet"))])
    rows = table.select(["words", "heads"]).to_pylist()
    analyses = [(row["words"], row["heads"]) for row in rows if row["words"]]
    wanted = [(parse["words"], parse["heads"]) for parse in expected(probtrans, place) if parse["words"]]
    assert sorted(analyses) == sorted(wanted)
