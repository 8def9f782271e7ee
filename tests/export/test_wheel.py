"""A model as a package: the wheel is valid, holds no code, and once installed answers as the run does."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from support import NO_ROOM, Invoke, raising, refused

import probtrans_cli
from probtrans_cli.folders.checkpoints import installed

TEXT = "Two farmers fold a dark shirt .\nThe unknownish goat sings\n"


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported folder with its wheel."""
    from probtrans_cli.commands.export import ExportRequest, export

    out = tmp_path_factory.mktemp("wheel") / "out"
    options = {"name": "My_Tagger.x", "licence": "cc-by-sa-4.0", "package_version": "1.2.0"}
    report = export(ExportRequest(str(trained / "runs/tagger"), out, "wheel", **options))
    assert report["package"] == "my-tagger-x 1.2.0"
    assert report["largest_difference"] == 0
    return out


@pytest.fixture(scope="module")
def target(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed the wheel."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(target), *map(str, folder.glob("*.whl"))], check=True)
    return target


@pytest.fixture
def site(target: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, where Python finds packages; the current folder is empty."""
    monkeypatch.syspath_prepend(str(target))
    return target


def test_the_wheel_holds_the_folder_and_no_code(folder: Path) -> None:
    (path,) = folder.glob("*.whl")
    assert path.name == "my_tagger_x-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    about, place = "my_tagger_x-1.2.0.dist-info/", "probtrans_models/my_tagger_x/"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file != path}
    assert {name: content for name, content in contents.items() if not name.startswith(about)} == {
        f"{place}{name}": content for name, content in files.items()
    }
    assert not any(name.endswith((".py", ".pyc", ".pth", ".so")) for name in contents)
    record = list(csv.reader(io.StringIO(contents[f"{about}RECORD"].decode())))
    assert [row[0] for row in record] == list(contents)
    for name, digest, size in record[:-1]:
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).decode().rstrip("=")
        assert (digest, size) == (f"sha256={sha256}", str(len(contents[name])))
    headers = contents[f"{about}METADATA"].decode()
    assert "\nName: my-tagger-x\nVersion: 1.2.0\n" in headers
    assert f"\nRequires-Dist: probtrans >={probtrans_cli.__version__}\n" in headers
    assert headers.endswith((folder / "README.md").read_text("utf-8"))


def test_the_same_model_gives_the_same_wheel(folder: Path, trained: Path, tmp_path: Path, invoke: Invoke) -> None:
    options = ["--name", "my-tagger-x", "--licence", "cc-by-sa-4.0", "--package-version", "1.2.0"]
    ran = invoke("export", str(trained / "runs/tagger"), str(tmp_path / "again"), "--format", "wheel", *options).ok
    (first,), (second,) = folder.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert ran.out.splitlines()[-1] == f"pip install {second}"
    assert first.read_bytes() == second.read_bytes()


def test_the_card_has_what_a_hub_reads(folder: Path) -> None:
    page = (folder / "README.md").read_text("utf-8")
    _, top, body = page.split("---\n", 2)
    about = yaml.safe_load(top)
    assert about["library_name"] == "probtrans"
    assert about["pipeline_tag"] == "token-classification"
    assert about["license"] == "cc-by-sa-4.0"
    scores = json.loads((folder / "eval.json").read_text("utf-8"))
    results = {row["dataset"]["split"]: row for row in about["model-index"][0]["results"]}
    assert set(results) == {"dev", "test"}
    for split, row in results.items():
        assert row["dataset"]["name"] == f"{split}.conllu"
        values = {metric["type"]: metric["value"] for metric in row["metrics"]}
        assert values["accuracy"] == pytest.approx(scores[split]["accuracy"], abs=1e-6)
    for heading in ("Use", "Scores", "Data and licence", "Intended use"):
        assert f"## {heading}\n" in body
    assert "- train: `train.conllu`: licence not known." in body


def test_an_installed_model_answers_as_the_run(site: Path, trained: Path, invoke: Invoke, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    Path("text").write_text(TEXT)
    run = str(trained / "runs/tagger")
    for options in (["-f", "conllu", "--prob"], ["-f", "jsonl", "--top", "2"]):
        expected = invoke("parse", run, "text", *options)
        assert expected.code == 0
        for name in ("my-tagger-x", "My.Tagger_X"):
            assert invoke("parse", name, "text", *options) == expected
    corpus = str(trained / "test.conllu")
    scores = [invoke("eval", name, corpus, "--json").json["scores"] for name in ("my-tagger-x", run)]
    assert scores[0] == scores[1]
    words = ["we", "sing"]
    answers = [next(iter(probtrans_cli.load(name).analyze([words]))).record() for name in ("my-tagger-x", run)]
    assert answers[0] == answers[1]
    assert invoke("export", "my-tagger-x", "copy").code == 0
    assert invoke("parse", "copy", "text") == invoke("parse", run, "text")
    refused(invoke("eval", "my-tagger-x", corpus, "--choose"), 2, "probtrans export my-tagger-x OUT")
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before  # pip's, not ours


def test_a_training_starts_from_an_installed_model(
    site: Path, trained: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBTRANS_DATA", str(trained))
    recipe = site / "probtrans_models/my_tagger_x/recipe.yaml"
    assert invoke("train", str(recipe), "--init-from", "my-tagger-x", "--dry-run").ok


def test_a_folder_goes_before_a_package(site: Path, invoke: Invoke) -> None:
    Path("my-tagger-x").mkdir()
    refused(invoke("parse", "my-tagger-x"), 4, "there is no checkpoint in this folder")
    refused(invoke("parse", "my-tager"), 4, "installed are: my-tagger-x")


def test_nothing_of_a_package_is_run(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that would run code, and entry points that lead elsewhere."""
    other = tmp_path / "site"
    inside = other / "probtrans_models" / "evil"
    inside.mkdir(parents=True)
    for place in (inside, inside.parent):
        (place / "__init__.py").write_text("raise SystemExit('run')")
    info = other / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    rows = ["evil = probtrans_models.evil", "a = os:system", "b = probtrans_models/../../home", "c = evil"]
    (info / "entry_points.txt").write_text("\n".join(["[probtrans.models]", *rows]))
    monkeypatch.syspath_prepend(str(other))
    assert installed("evil") == inside
    assert [installed(name) for name in ("a", "b", "c", "..", "", "x/y")] == [None] * 6
    assert "probtrans_models" not in sys.modules


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "-x"], "--name: '-x' cannot be that of a package"),
        (["--name", "a/b"], "--name: 'a/b' cannot be"),
        (["--name", "a\nb"], "cannot be that of a package"),
        (["--name", "NumPy"], "there is a package numpy already"),
        (["--package-version", "one"], "--package-version: 'one' cannot be"),
        (["--licence", "MIT\nX: y"], "--licence: "),
    ],
)
def test_names_are_those_of_packages(
    trained: Path, invoke: Invoke, tmp_path: Path, options: list[str], words: str
) -> None:
    command = ("export", str(trained / "runs/tagger"), str(tmp_path / "out"))
    refused(invoke(*command, "--format", "wheel", *options), 2, words)
    refused(invoke(*command, "--licence", "mit"), 2, "--licence is for --format wheel")
    assert not (tmp_path / "out").exists()


def test_a_wheel_that_cannot_be_written_is_an_error(
    trained: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "writestr", raising(NO_ROOM))
    ran = invoke("export", str(trained / "runs/tagger"), str(tmp_path / "out"), "--format", "wheel")
    refused(ran, 3, "No space left")
    assert list(tmp_path.iterdir()) == [], "half a folder is there"


def test_spacy_s_component_takes_the_name(site: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("probtrans", config={"checkpoint": "my-tagger-x"})
    assert all(token.tag_ for token in nlp("two farmers fold a shirt"))


def test_the_metadata_is_python_s(site: Path) -> None:
    about = metadata.metadata("my-tagger-x")
    assert about["Requires-Python"] == ">=3.11"
    assert "\n" not in about["Summary"]
