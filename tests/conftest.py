"""Shared by all tests: where the real data is, how commands run, what is trained once."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read once, by the import of torch: workers share the cores
    os.environ.pop("COLUMNS", None)  # set for each worker; messages are wrapped where it is

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook
from ready import ready
from support import Forks, Invoke, Ran, Stdin, quick_trainings, real_data, remember, train_each, workplace

if "PROBTRANS_SHAPES" in os.environ:  # set by tests/models/test_shapes.py: checks make small steps three times slower
    with install_import_hook(["probtrans_cli.models", "probtrans_cli.trees"], "beartype.beartype"):
        import probtrans_cli.models
        import probtrans_cli.trees.decode  # noqa: F401

# A busy or slow machine is no fault: by itself hypothesis fails a case of more than 200 ms.
settings.register_profile("patient", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


SHARED = {"trained", "runs", "extractors", "forks"}
"""Fixtures of a session that several files use."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that share trained runs first: of two workers, one has them all, and makes each fixture once."""
    sharing = {item.path for item in items if SHARED.intersection(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: item.path not in sharing)


@pytest.fixture(scope="session", autouse=True)
def _quick_commands() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, quick_trainings():
        remember(patch)
        yield


@pytest.fixture
def pages() -> Iterator[None]:
    with quick_trainings(pages=True):
        yield


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is new and empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fresh(empty: Path) -> Path:
    """The current folder, a new :func:`support.workplace`."""
    return workplace(empty)


@pytest.fixture
def corpora() -> Path:
    """The folder of real corpora; the test is skipped where it is not there."""
    real_data("ud/en_ewt")
    return real_data("")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny corpus, its recipe, and the finished runs runs/tiny and runs/tagger; do not change it."""
    tagging = ["task={kind: tagging, column: xpos}", "train.epochs=3", "optim.lr=0.1"]
    with quick_trainings(pages=True):
        runs = {"tiny": ["save.every_steps=4"], "tagger": tagging}
        return train_each(workplace(tmp_path_factory.mktemp("trained")), runs)


@pytest.fixture(scope="session")
def extractors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished runs of ``small_extractors.py``; do not change it."""
    from small_extractors import train_extractors

    folder = tmp_path_factory.mktemp("extractors")
    with chdir(folder), quick_trainings(pages=True):
        train_extractors(folder)
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of every kind of task, called after it; do not change it."""
    from run_of_every_task import OVERRIDES, corpora_of_every_task

    return train_each(corpora_of_every_task(tmp_path_factory.mktemp("answers")), OVERRIDES)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    server = Forks()
    yield server
    server.close()


@pytest.fixture(scope="session")
def probtrans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bash function `probtrans`, whose commands start at once: what a script of a page begins with."""
    with ready(tmp_path_factory.mktemp("ready")) as function:
        yield function


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stdin]:
    """Give the program something on standard input, which is a file, as `<` makes it."""
    with ExitStack() as files:

        def give(content: bytes) -> None:
            file = files.enter_context(TextIOWrapper(files.enter_context(TemporaryFile())))
            file.buffer.write(content)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", file)

        yield give


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run the command in this process; the switches that it sets are put back."""
    from probtrans_cli import __main__, console

    monkeypatch.setattr(console.STATE, "level", console.NORMAL)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = __main__.run(list(arguments))
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def _denormal_numbers() -> Iterator[None]:
    """A training flushes denormal numbers to zero for its whole process; other tests are to find them as they are."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 words, and chunks of shared bands of a few: smaller than the sentences."""
    monkeypatch.setattr("probtrans_cli.models.probabilistic.fast.heads.BLOCK", 1)
    monkeypatch.setattr("probtrans_cli.models.probabilistic.fast.bands.CHUNK", 60)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window; skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    driver = shutil.which("chromedriver")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if driver is None or chromium is None:
        pytest.skip("no Chromium with its chromedriver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for switch in (
        "headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking",
        "disable-component-update", "disable-sync", "window-size=1300,1000", f"user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()
