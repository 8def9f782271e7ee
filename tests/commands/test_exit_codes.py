"""The command line from outside: exit codes, and what is on which stream."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch
import typer
from support import ROOT, Invoke, Ran, environment, raising, refused

from probtrans_cli import __version__, checkpoint
from probtrans_cli.cli import PANELS, app, application
from probtrans_cli.recipe.source import START


def test_what_computes_nothing_does_not_import_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom probtrans_cli.__main__ import run\n"
        "asks = [['--help'], ['-h'], ['--version'], ['--list'], ['--schema']]\n"
        "asks += [[verb, '--help'] for verb in ('prepare', 'train', 'eval', 'parse', 'convert', 'export', 'table')]\n"
        "asks += [['train', 'quickstart', '--print', 'optim.lr=3e-4']]\n"
        "codes = [run(ask) for ask in asks]\n"
        "assert codes == [0] * len(asks), codes\n"
        "heavy = {'torch', 'pyarrow', 'sentencepiece'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "probtrans train quickstart" in " ".join(done.stdout.split())
    for verb in ("prepare", "train", "eval", "parse", "convert", "export", "table"):
        assert f"Usage: probtrans {verb}" in done.stdout


def test_version(invoke: Invoke) -> None:
    assert invoke("--version") == Ran(0, f"probtrans {__version__}\n", "")
    assert invoke("--json", "--version").json == {"version": __version__}


def test_list_names_the_shipped_recipes(invoke: Invoke) -> None:
    ran = invoke("--list")
    assert ran.code == 0
    found = invoke("--list", "--json").json
    assert "quickstart" in found
    assert list(found) == sorted(found)
    assert max(map(len, ran.out.splitlines())) <= 80
    names = [line[2:].split()[0] for line in ran.out.splitlines() if line[:2] in ("* ", "  ") and line[2:3].strip()]
    assert sorted(names[1:]) == list(found)  # behind the line that says what * means
    assert "Others" not in ran.out
    assert ran.out.count("\n* ") == len(START) == 8
    assert set(START) <= set(found)
    shown = " ".join(ran.out.split())
    assert [text for text in found.values() if text not in shown] == []
    assert [name for name, text in found.items() if not text.endswith((".", "?"))] == []


def test_a_shipped_recipe_is_printed_with_its_comments(here: Path, invoke: Invoke) -> None:
    ran = invoke("recipe", "quickstart.yaml")
    first, _, rest = ran.out.partition("\n")
    assert rest == (ROOT / "recipes/quickstart.yaml").read_text("utf-8").partition("\n")[2]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(Path(unquote(urlsplit(schema).path)).read_text("utf-8"))["title"] == "probtrans recipe"
    (here / "mine.yaml").write_text(ran.out, "utf-8")
    assert (
        invoke("train", "mine.yaml", "--print").out.splitlines()[1:]
        == (invoke("train", "quickstart", "--print").out.splitlines()[1:])
    )
    refused(invoke("recipe", "quickstar"), 2, "did you mean `quickstart`")
    refused(invoke("recipe", "mine.yaml"), 2, "'mine.yaml' is not the name of a shipped recipe")


def test_help_is_in_groups_and_completes_names(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = invoke("parse", "--help").out
    groups = ["Arguments:", "Basic:", "Trees:", "Uncertainty:", "Tuples:", "Bulk:"]
    assert [line for line in text.splitlines() if line in groups] == groups
    command = typer.main.get_command(app)
    for verb in command.commands:  # type: ignore[attr-defined]
        lines = invoke(verb, "--help").out.splitlines()
        assert max(map(len, lines)) <= 80, verb
    assert "Trees:" not in invoke("score", "--help").out, "its --gold is no tree"
    assert "--seed" in text.partition("Trees:")[2]
    options = {option for verb in command.commands.values() for each in verb.params for option in each.opts}  # type: ignore[attr-defined]
    assert {option for names in PANELS.values() for option in names.split()} <= options
    assert "--install-completion" in invoke("--help").out
    for name, value in (
        ("_PROBTRANS_COMPLETE", "complete_bash"),
        ("COMP_WORDS", "probtrans train openie-q"),
        ("COMP_CWORD", "2"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        application([], lambda arguments: 0)
    assert capsys.readouterr().out.split() == ["openie-quick"]


def test_schema_is_the_shipped_one(invoke: Invoke) -> None:
    shipped = ROOT / "recipes" / "schema.json"
    assert json.loads(invoke("--schema").out) == json.loads(shipped.read_text("utf-8"))


# --- usage: exit code 2 -----------------------------------------------------------------------------------------------


WRONG = [
        ["nonsense"], ["train"], ["train", "tiny.yaml", "--nonsense"], ["parse", "runs/tiny", "-f", "nonsense"],
        ["-q", "-v", "train", "tiny.yaml"], ["train", "tiny.yaml", "--resume", "--overwrite"],
        ["train", "tiny.yaml", "--seeds", "a"], ["train", "tiny.yaml", "--seeds", "1,1"],
        ["train", "tiny.yaml", "--seeds", "-1"], ["train", "tiny.yaml", "nokey"],
        ["train", "tiny.yaml", "--seeds", "0,2147483648"], ["train", "tiny.yaml", "--seeds", "٣"],
        ["train", "tiny.yaml", "--seeds", "0,1_0"], ["train", "tiny.yaml", "--seeds", "0,,1"],
        ["eval", "runs/tiny", "--channel", "١"], ["parse", "runs/tiny", "--channel", "9" * 5000],
        ["eval", "runs/tiny", "--require", "perplexity"], ["eval", "runs/tiny", "--require", "perplexity>=e"],
        ["eval", "runs/tiny", "--require", "nonsense>=1"], ["eval", "runs/tiny", "--channel", "2"],
        ["eval", "runs/tiny", "--iteration", "3"], ["eval", "runs/tiny", "--iteration", "0"],
        ["eval", "runs/tiny", "dev.conllu", "--split", "dev"], ["eval", "runs/tagger", "--masks", "2"],
        ["eval", "runs/tiny", "--masks", str(2**63)], ["eval", "runs/tiny", "--dropout-samples", str(2**63)],
        ["parse", "runs/tiny", "--samples", str(2**63)], ["parse", "runs/tiny", "--best", str(2**63)],
        ["parse", "runs/tiny", "--channel", "all", "dev.conllu"], ["export", "runs/tiny", "runs"],
        ["parse", "runs/tiny", "dev.conllu", "-o", "nowhere/out.conllu"],
        ["train", "tiny.yaml", "--run", "tiny.yaml"], ["table"],
]  # fmt: skip


def test_wrong_usage_exits_2(here: Path, invoke: Invoke) -> None:
    for arguments in WRONG:
        ran = invoke(*arguments)
        assert ran.code == 2, (arguments, ran.err)
        assert "Traceback" not in ran.err
        assert ran.err.strip()


def test_a_recipe_at_fault_exits_2_and_names_every_key(here: Path, invoke: Invoke) -> None:
    refused(invoke("train", "tiny.yaml", "optim.lrr=1", "train.epochs=0"), 2, "optim.lrr", "lr", "train.epochs")


# --- the other codes --------------------------------------------------------------------------------------------------


def test_data_exits_3(fresh: Path, invoke: Invoke) -> None:
    refused(invoke("train", "tiny.yaml", "data.train=nowhere.conllu"), 3, "nowhere.conllu")
    text = (fresh / "train.conllu").read_text("utf-8").replace("\t3\tdet", "\t300\tdet", 1)
    (fresh / "train.conllu").write_text(text, encoding="utf-8")
    refused(invoke("train", "tiny.yaml", "--overwrite"), 3, "train.conllu:")


def test_checkpoint_exits_4_and_lists_what_there_is(here: Path, invoke: Invoke) -> None:
    refused(invoke("parse", "runs/nowhere", "dev.conllu"), 4, "runs/nowhere")
    steps = (str(number) for number, _ in checkpoint.steps(here / "runs/tiny/checkpoints"))
    refused(invoke("parse", "runs/tiny@999", "dev.conllu"), 4, "999", "best, last", *steps)
    refused(invoke("eval", "runs/tiny@²"), 4, "best, last")
    refused(invoke("eval", "runs/tiny@١٦٤٠"), 4, "no checkpoint")
    (here / "empty").mkdir(exist_ok=True)
    refused(invoke("eval", "empty"), 4, "no checkpoint")


@pytest.mark.parametrize("more", [[], ["train.steps=1", "optim.ema=0.5"]], ids=str)
def test_not_finite_exits_5(more: list[str], fresh: Path, invoke: Invoke) -> None:
    exploding = ["optim.lr=1e30", "optim.clip=null", "optim.schedule={kind: constant}", "save.every_steps=1"]
    ran = invoke("train", "tiny.yaml", *exploding, *more, "--json")
    refused(ran, 5, "not finite", "last good checkpoint: ", "optim.lr")
    assert json.loads((fresh / "runs/tiny/exit.json").read_text())["exit"] == 5


OUT_OF_MEMORY = torch.OutOfMemoryError("tried to allocate more than there is")


def test_out_of_memory_exits_6(fresh: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.tasks.mlm.MaskedLanguageModelling.terms", raising(OUT_OF_MEMORY))
    refused(invoke("train", "tiny.yaml"), 6, "out of memory", "sentences", "train.batch_words")


def test_another_error_about_memory_is_no_lack_of_it(
    fresh: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr("probtrans_cli.tasks.mlm.MaskedLanguageModelling.terms", raising(error))
    ran = invoke("train", "tiny.yaml")
    assert ran.code == 1
    assert "train.batch_words" not in ran.err


def test_out_of_memory_in_evaluation_exits_6(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.models.network.Network.potentials", raising(OUT_OF_MEMORY))
    for ran in (invoke("parse", "runs/tiny", "dev.conllu"), invoke("eval", "runs/tiny")):
        refused(ran, 6, "out of memory", "shorter sentences")
        assert "batch_words" not in ran.err, "neither takes a key"


def test_requirement_not_met_exits_7_after_the_result(here: Path, invoke: Invoke) -> None:
    ran = invoke("eval", "runs/tiny", "--require", "perplexity<=1.5", "--json")
    assert ran.code == 7
    assert ran.json["scores"]["test"]["perplexity"] > 1.5
    assert "perplexity<=1.5" in ran.err
    assert invoke("eval", "runs/tiny", "--require", "perplexity>=1", "--require", "uuas>=0").code == 0


def test_a_package_that_is_missing_is_named(here: Path) -> None:
    """As where the package is run from a checkout that nobody has installed."""
    script = "import sys; sys.modules['typer'] = None; from probtrans_cli.__main__ import main; main(['--help'])"
    result = subprocess.run([sys.executable, "-c", script], env=environment(), cwd=here, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[0] == "error: the package typer is not installed"
    assert "pip install" in result.stderr
    assert "bug" not in result.stderr


def test_a_bug_exits_1_and_asks_for_a_report(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.trained.model.Model.load", lambda *_, **__: 1 / 0)
    ran = invoke("eval", "runs/tiny")
    assert ran.code == 1
    assert ran.out == ""
    assert "Traceback" in ran.err
    assert "Please report" in ran.err


def test_ctrl_c_outside_training_exits_130(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.trained.model.Model.load", raising(KeyboardInterrupt()))
    refused(invoke("parse", "runs/tiny", "dev.conllu"), 130)
