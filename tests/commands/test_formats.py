"""What holds of every output format of `parse` and of every form of `export`: a row each, and what the row says."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import get_args

import pytest
from support import Invoke, Ran

from probtrans_cli import export
from probtrans_cli.commands.parse import ParseRequest, parse
from probtrans_cli.export import EXPORTS
from probtrans_cli.trained import formats
from probtrans_cli.trained.formats import FORMATS, DisplayOptions, Format
from probtrans_cli.trained.parses import Analysis

ROWS = pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
OPTIONS = {
    "all channels": ("--channel", "all"),
    "gold": ("--gold",),
    "latent labels": ("--labels",),
    "no trees": ("--trees", "no"),
    "probabilities": ("--prob",),
    "several trees": ("--best", "2", "--decode", "mst"),
    "marginals": ("--marginals",),
}


def test_the_command_line_takes_the_rows() -> None:
    assert get_args(formats.FormatName) == tuple(FORMATS)
    assert get_args(export.ExportName) == tuple(EXPORTS)


def test_the_tables_are_read_without_torch_and_numpy() -> None:
    code = (
        "import sys, probtrans_cli.export, probtrans_cli.trained.formats; "
        "print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@ROWS
def test_a_row_has_a_writer(form: Format) -> None:
    assert callable(resolve_name(form.write))
    assert set(form.refuses) <= set(OPTIONS)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_has_a_writer(name: str) -> None:
    assert callable(importlib.import_module(f"probtrans_cli.export.{name}").write)


@pytest.mark.slow
@ROWS
def test_a_format_shows_an_option_or_says_that_it_cannot(
    form: Format, here: Path, extractors: Path, invoke: Invoke, tmp_path: Path
) -> None:
    one = tmp_path / "one.conllu"
    one.write_text(Path("dev.conllu").read_text("utf-8").split("\n\n")[0] + "\n\n", encoding="utf-8")
    run = str(extractors / "runs/tuples") if form.shows else "runs/tiny"

    def parsed(*options: str) -> tuple[Ran, dict[str, str]]:
        output = tmp_path / "out" if form.write_folder else tmp_path / "out.txt"
        if output.is_dir():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)
        ran = invoke("parse", run, str(one), "-f", form.name, "-o", str(output), *options)
        return ran, contents(output) if output.exists() else {}

    ran, plain = parsed()
    assert ran.code == 0, ran.err
    for option, flags in OPTIONS.items():
        ran, written = parsed(*flags)
        if option in form.refuses:
            assert (ran.code, written) == (2, {})
            assert ran.err.startswith(f"error: {form.refuses[option].message}\n")  # type: ignore[index]
            continue
        assert ran.code == 0
        if option != "probabilities":  # some formats always have them
            same = (option == "all channels" and form.every_channel) or bool(form.shows)
            assert (written == plain) == same, option


def contents(output: Path) -> dict[str, str]:
    files = [output] if output.is_file() else sorted(output.iterdir())
    return {path.name: path.read_text("utf-8") for path in files}


def test_a_format_is_a_row_and_a_function(here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As another package may add one."""

    def write(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
        return (json.dumps([len(analysis.words), options.probability]) + "\n" for analysis in analyses)

    module = ModuleType("lengths")
    module.write = write  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lengths", module)
    row = Format("lengths", "how long the sentences are", write="lengths:write")
    monkeypatch.setitem(FORMATS, "lengths", row)  # type: ignore[arg-type]
    (tmp_path / "text").write_text("the goat\ngoats\n")
    out = tmp_path / "out"
    parse(ParseRequest("runs/tiny", [str(tmp_path / "text")], format="lengths", probability=True, output=out))
    assert out.read_text() == "[2, true]\n[1, true]\n"
