"""Six kinds from outside the package, each one row in a file of at most 60 lines, installed as a package would be.

Each trains, is saved, resumed, evaluated and parsed with by the command line; and is refused by name where it lacks
something.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, environment, interrupted, workplace

HERE = Path(__file__).parent
Commands = Callable[..., list[tuple[int, str, str]]]
KINDS = ("grandparents", "window", "rarity", "two_tags", "slashed", "diagonal")

# Runs commands in one process, which has the kinds by its entry points: a line of JSON in, one line a command out.
SCRIPT = """
import contextlib, io, json, os, sys
os.fsync = lambda handle: None  # guards against a loss of power, and costs most of the time
from probtrans_cli.__main__ import run
from probtrans_cli.commands import train
from probtrans_cli.training import loop
loop.write_gallery = train.write_report = lambda *_: None  # a third of such a training
for line in sys.stdin:
    folder, commands = json.loads(line)
    os.chdir(folder)
    for arguments in commands:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
        print(json.dumps([code, out.getvalue(), err.getvalue()]), file=sys.__stdout__, flush=True)
"""


def install(site: Path, name: str, points: str) -> None:
    """Let a package be installed in a folder, with these entry points."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[probtrans.kinds]\n{points}")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process with an installed package whose entry points name the modules."""
    site = tmp_path_factory.mktemp("site")
    (site / "outside").symlink_to(HERE)
    install(site, "outside", "".join(f"{kind} = outside.{kind}\n" for kind in (*KINDS, "alone")))
    return environment() | {"PYTHONPATH": f"{ROOT}:{site}"}


@pytest.fixture(scope="module")
def server(installed: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, env=installed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def commands(server: subprocess.Popen[str], tmp_path: Path) -> Commands:
    """Run commands in a folder with a tiny corpus and recipe; returns the exit code, stdout and stderr of each."""
    folder = workplace(tmp_path)

    def run(*lines: str) -> list[tuple[int, str, str]]:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps([str(folder), [line.split("|") for line in lines]]) + "\n")
        server.stdin.flush()
        return [tuple(json.loads(server.stdout.readline())) for _ in lines]

    return run


def whole_way(commands: Commands, folder: Path, name: str, overrides: str, *, metric: str) -> dict[str, Any]:
    """Train; go back to an early checkpoint and resume; evaluate and parse. Returns the scores."""
    (trained,) = commands(
        f"train|tiny.yaml|name={name}|{overrides}|train.steps=6|save={{every_steps: 2, keep: 99}}|--json"
    )
    assert trained[0] == 0, trained[2]
    checkpoints = folder / "runs" / name / "checkpoints"
    weights = (checkpoints / "best" / "model.safetensors").read_bytes()
    interrupted(folder / "runs" / name)
    found = commands(
        f"train|runs/{name}|--resume|--json",
        f"eval|runs/{name}|--split|test|--json",
        f"parse|runs/{name}|-f|jsonl|test.conllu",
    )
    assert [code for code, _, _ in found] == [0] * len(found), found
    assert "resuming runs/" in found[0][2]
    assert (checkpoints / "best" / "model.safetensors").read_bytes() == weights
    scores, again, evaluated = json.loads(trained[1])["test"], json.loads(found[0][1]), json.loads(found[1][1])
    assert again["test"] == scores
    assert evaluated["scores"]["test"][metric] == scores[metric]
    lines = [json.loads(line) for line in found[2][1].splitlines()]
    assert len(lines) == 12
    assert all(len(line["heads"]) == len(line["words"]) for line in lines)
    return scores


def assert_refused(commands: Commands, messages: dict[str, str]) -> None:
    """Each command is a usage error with its message."""
    for message, (code, _, err) in zip(messages.values(), commands(*messages), strict=True):
        assert code == 2
        assert message in err


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_one_row_and_at_most_60_lines(name: str) -> None:
    text = (HERE / f"{name}.py").read_text("utf-8")
    assert text.count("\n") <= 60
    assert text.count("register(") == 1
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    assert text in page, "docs/extending.md shows the file as it is"


def test_an_encoder_without_arcs(commands: Commands) -> None:
    """It is trained and scored; trees are refused, and no pictures of them are drawn."""
    trained, evaluated, parsed, schema = commands(
        "train|tiny.yaml|name=alone|model={kind: alone}|train.steps=4|--json",
        "eval|runs/alone|--split|dev|--json",
        "parse|runs/alone|test.conllu",
        "--schema",
    )
    assert trained[0] == 0, trained[2]
    assert "Traceback" not in trained[2]
    assert "trees" not in json.loads(trained[1])["test"]
    assert json.loads(evaluated[1])["scores"]["dev"]["perplexity"] > 1
    assert parsed[0] == 2
    assert "a model of kind alone tells no heads of words" in parsed[2]
    assert schema[0] == 0
    assert "Alone" in json.loads(schema[1])["$defs"]


def test_an_encoder(commands: Commands, tmp_path: Path) -> None:
    model = "model={kind: window, width: 8, reach: 2}"
    scores = whole_way(commands, tmp_path, "window", model, metric="perplexity")
    assert scores["trees"]["no_punct"]["all"]["uuas"] > 0
    exported = commands("export|runs/window|out", "parse|out|test.conllu", "parse|runs/window|test.conllu")
    assert [code for code, _, _ in exported] == [0] * 3
    assert exported[1][1] == exported[2][1]
    assert_refused(commands, {
        f"train|tiny.yaml|{model}|task={{kind: mlm, output: bert}}":
            "`bert` is for a transformer, and model.kind is window",
        f"train|tiny.yaml|{model}|optim.ternary_penalty.weight=0.1": "a model of kind `window` has no ternary scores",
        "train|tiny.yaml|model={kind: window, reach: 0}": "model.reach: Input should be greater than or equal to 1",
        "train|tiny.yaml|model={kind: windows}": "did you mean `window`?",
        "eval|runs/window|--labels": "the words of this model of kind window have no latent labels",
        "parse|runs/window|--channel|3|test.conllu": "the model has channels 0 to 0",
        "export|runs/window|there|--format|hf": "not expressible in transformers: model.kind: window",
    })  # fmt: skip


def test_an_encoder_is_one_of_two(commands: Commands) -> None:
    """Below and above another one; what the one above does not have, the two do not have."""
    field = "{kind: probabilistic, labels: 6, channels: 2, decomposition: {kind: uv, rank: 2}}"
    below, above, parsed = commands(
        f"train|tiny.yaml|name=below|model={{kind: stacked, lower: {{kind: window, width: 8}}, upper: {field}}}|--json",
        f"train|tiny.yaml|name=above|model={{kind: stacked, lower: {field}, upper: {{kind: alone}}}}|train.steps=4",
        "parse|runs/below|-f|conllu|--labels|test.conllu",
    )
    assert [code for code, _, _ in (below, above, parsed)] == [0, 0, 0], (below[2], above[2])
    assert json.loads(below[1])["test"]["trees"]["no_punct"]["all"]["uuas"] > 0
    assert_refused(commands, {
        "parse|runs/above|test.conllu": "a model of kind stacked tells no heads of words",
        "train|tiny.yaml|model={kind: stacked, lower: {kind: window, reach: 0}}":
            "model.lower.reach: Input should be greater than or equal to 1, found `0`",
    })  # fmt: skip


def test_a_task(commands: Commands, tmp_path: Path) -> None:
    rarity = "task={kind: rarity, most: 2}|optim.lr=0.1"
    scores = whole_way(commands, tmp_path, "rarity", rarity, metric="accuracy")
    assert scores["accuracy"] > 0.5
    assert_refused(commands, {
        "train|tiny.yaml|task={kind: rarity}|data.format=documents":
            "`kind: rarity` reads auto, conllu, treebank, text, columns, table, jsonl, cogs",
        "train|tiny.yaml|task={kind: rarity}|data.vocabulary.punctuation=false": "`kind: rarity` labels every token",
        "eval|runs/rarity|--masks|3": "--masks is for masked language models",
        "eval|runs/rarity|--require|perplexity<=10": "there is no score 'perplexity'",
    })  # fmt: skip


def test_a_task_with_parts(commands: Commands, tmp_path: Path) -> None:
    scores = whole_way(commands, tmp_path, "two_tags", "task={kind: two_tags}|optim.lr=0.1", metric="xpos")
    assert scores["upos"] > 0.3
    ((code, out, _),) = commands("parse|runs/two_tags|-f|jsonl|test.conllu")
    assert code == 0
    assert {"upos", "upos_probability", "xpos", "xpos_probability"} <= set(json.loads(out.splitlines()[0]))
    assert_refused(commands, {"train|tiny.yaml|task={kind: two_tags}|data.format=text": "`kind: two_tags` reads"})


@pytest.mark.slow
def test_predictions_of_a_task(installed: dict[str, str], tmp_path: Path) -> None:
    script = """
import probtrans_cli
from probtrans_cli.__main__ import run
assert run(["-q", "train", "tiny.yaml", "task={kind: rarity}", "name=rarity", "--json"]) == 0
model = probtrans_cli.load("runs/rarity")
(analysis,) = model.analyze(["the farmers fold a shirt"], trees=False)
said = analysis.prediction
assert len(said["rare"]) == 5 and all(0 <= p <= 1 for p in said["rare"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=workplace(tmp_path), capture_output=True, text=True, timeout=120,
        env=installed,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def slashed(source: Path, target: Path) -> None:
    """A CoNLL-U file in the outside format."""
    blocks = source.read_text("utf-8").strip().split("\n\n")
    rows = [[line.split("\t") for line in block.splitlines() if line[:1].isdigit()] for block in blocks]
    target.write_text("".join(" ".join(f"{row[1]}/{row[3]}" for row in one) + "\n" for one in rows), encoding="utf-8")


def test_a_format(commands: Commands, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        slashed(tmp_path / f"{split}.conllu", tmp_path / f"{split}.slashed")
    data = "data={format: slashed, train: train.slashed, dev: dev.slashed, test: test.slashed}"
    tagging = "task={kind: tagging, column: tag}|optim.lr=0.1"
    scores = whole_way(commands, tmp_path, "slashed", f"{data}|{tagging}", metric="accuracy")
    assert scores["accuracy"] > 0.3
    (tmp_path / "bad.slashed").write_text("the/DET farmers/NOUN\nfold shirts/NOUN\n", encoding="utf-8")
    refused = commands(
        f"train|tiny.yaml|{data}|task={{kind: ner}}",
        f"train|tiny.yaml|{data}|data.train=bad.slashed|task={{kind: tagging, column: tag}}",
        "train|tiny.yaml|data.train=train.slashed|data.dev=dev.slashed|data.test=test.slashed|name=auto|"
        "task={kind: tagging, column: tag}|data.format=slashed",
        "train|tiny.yaml|data.format=slash",
    )
    assert [code for code, _, _ in refused] == [2, 3, 0, 2]
    assert "found slashed: `kind: ner` reads columns" in refused[0][2]
    assert "bad.slashed:2: a word without a tag" in refused[1][2]
    assert "did you mean `slashed`?" in refused[3][2]


def test_a_factor(commands: Commands, tmp_path: Path) -> None:
    factors = "model.factors=[{kind: grandparents, rank: 2}, {kind: neighbours}]"
    whole_way(commands, tmp_path, "grandparents", factors, metric="perplexity")
    (trained,) = commands(f"train|tiny.yaml|name=told|{factors}|train.steps=1")
    assert "messages: plain, as the equations stand in" in trained[2]
    assert_refused(commands, {"train|tiny.yaml|model.factors=[{kind: sibling}]": "model.factors"})


def test_ternary_scores(commands: Commands, tmp_path: Path) -> None:
    diagonal = "model.decomposition={kind: diagonal}"
    whole_way(commands, tmp_path, "diagonal", f"{diagonal}|model.distance=1", metric="perplexity")
    plain, fast, labelled = commands(
        f"train|tiny.yaml|{diagonal}|model.dropout=0|name=plain|runtime.messages=plain|--json",
        f"train|tiny.yaml|{diagonal}|model.dropout=0|name=fast|runtime.messages=fast|--json",
        "eval|runs/plain|--labels|--json",
    )
    values = [json.loads(one[1])["test"]["perplexity"] for one in (plain, fast)]
    assert values[0] == pytest.approx(values[1], rel=1e-3)
    pairs = [pair for group in json.loads(labelled[1])["pairs"] for pair in group["pairs"]]
    assert pairs
    assert all((pair["child"] == pair["head"]) == (pair["score"] != 0.0) for pair in pairs)
    assert_refused(commands, {
        "train|tiny.yaml|model.root={decomposition: {kind: diagonal}}":
            "model.root.decomposition.kind: there is no such kind, found `diagonal`",
        f"train|tiny.yaml|{diagonal}|model.gains=true":
            "model.gains: `decomposition.kind: diagonal` has none: set this to false",
    })  # fmt: skip


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    install(tmp_path, "broken", "x = no_such_module\n")
    done = subprocess.run(
        [sys.executable, "-m", "probtrans_cli", "train", "quickstart", "--print"], capture_output=True, text=True,
        env=environment() | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the kinds of the package broken cannot be loaded" in done.stderr


ALONE = """
import importlib, os, sys
import torch
from probtrans_cli.recipe.schema import Recipe
for kind in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        importlib.import_module(f"outside.{kind}")
        Recipe.model_json_schema()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, kind
"""


@pytest.mark.slow
def test_a_kind_needs_no_other(tmp_path: Path) -> None:
    """Each is known to recipes when it is the only one that is installed."""
    (tmp_path / "outside").symlink_to(HERE)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *KINDS], env=environment() | {"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
