"""What words, labels and names do to a terminal: nothing. They reach it, and log files, as escapes."""

from __future__ import annotations

import io
import json
import locale
import os
import pty
import re
import shutil
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Invoke, raising, train_each

from probtrans_cli import console
from probtrans_cli.commands.parse import ParseRequest, parse
from probtrans_cli.text import harmless

EVIL = "\x1b]0;pwn\x07\u202e\x9b"
SAFE = "\\x1b]0;pwn\\x07\\u202e\\x9b"
RAW = [*"\x1b\x07\u202e\x9b"]
TRAIN = f"data.train={json.dumps(f'train{EVIL}.conllu')}"


def clean(*texts: str) -> None:
    for text in texts:
        for character in RAW:
            assert character not in text, ascii(text)


@pytest.fixture(scope="module")
def evil(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained runs with evil words and tags in the files, evil file names, run names, and a tagger of such tags."""
    folder = tmp_path_factory.mktemp("evil") / "place"
    shutil.copytree(trained, folder, symlinks=True)
    for split in ("train", "dev", "test"):
        text = (folder / f"{split}.conllu").read_text("utf-8")
        text = (
            text.replace("\tDT\t", f"\tD{EVIL}\t")
            .replace("\tdet\t", f"\td{EVIL}\t")
            .replace("\tevery\t", f"\t{EVIL}y\t")
        )
        (folder / f"{split}.conllu").write_text(text, encoding="utf-8")
        (folder / f"{split}{EVIL}.conllu").write_text(text, encoding="utf-8")
    (folder / f"tiny{EVIL}.yaml").write_text((folder / "tiny.yaml").read_text("utf-8"), encoding="utf-8")
    (folder / f"broken{EVIL}.conllu").write_text("1\tx\n\n", encoding="utf-8")
    (folder / f"text{EVIL}.txt").write_text(f"two {EVIL} farmers fold\n", encoding="utf-8")
    shutil.copytree(folder / "runs/tiny", folder / f"runs/tiny{EVIL}", symlinks=True)
    damaged = folder / "runs/tiny/checkpoints/step-000004"
    damaged = damaged if damaged.is_dir() else (folder / "runs/tiny/checkpoints/last").resolve()
    shutil.copytree(damaged, folder / "sums")
    with (folder / "sums/SHA256SUMS").open("a", encoding="utf-8") as sums:
        sums.write(f"{'0' * 64}  evil{EVIL}\n")
    return train_each(folder, {"evil": ["task={kind: tagging, column: xpos}", TRAIN]})


COMMANDS = [
    (["prepare", "tiny.yaml", TRAIN, "data.prepared=again"], 0),
    (["prepare", f"tiny{EVIL}.yaml", "--check"], 0),
    (["prepare", "tiny.yaml", f"data.prepared={json.dumps(f'again{EVIL}')}"], 0),
    (["prepare", "tiny.yaml", f"data.train={json.dumps(f'broken{EVIL}.conllu')}"], 3),
    (["prepare", "tiny.yaml", f"data.train={json.dumps(f'nowhere{EVIL}')}"], 3),
    (["prepare", f"nowhere{EVIL}"], 2),
    (["train", "tiny.yaml", f"name={EVIL}"], 2),
    (["train", "tiny.yaml", f"{EVIL}=1"], 2),
    (["train", "tiny.yaml", f"optim.lr={EVIL}"], 2),
    (["train", "tiny.yaml", EVIL], 2),
    (["train", "tiny.yaml", "--seeds", EVIL], 2),
    (["train", "tiny.yaml", f"--{EVIL}"], 2),
    (["train", "tiny.yaml", "--run", f"runs/tiny{EVIL}"], 2),
    (["train", "tiny.yaml", "--init-from", f"nowhere{EVIL}", "--run", "other"], 4),
    (["train", "tiny.yaml", "--run", f"runs/new{EVIL}", "train.steps=1", TRAIN], 0),
    (["eval", "runs/evil"], 0),
    (["eval", "runs/evil", f"dev{EVIL}.conllu", "--json"], 0),
    (["eval", "runs/evil", f"dev{EVIL}.conllu", "--labels", "--relations", "--baselines"], 0),
    (["eval", "runs/evil", f"nowhere{EVIL}.conllu"], 3),
    (["eval", "runs/evil", f"broken{EVIL}.conllu"], 3),
    (["eval", "runs/evil", "--require", EVIL], 2),
    (["eval", "runs/evil", "--require", f"{EVIL}>=1"], 2),
    (["eval", "runs/evil", "--channel", EVIL], 2),
    (["eval", f"runs/tiny{EVIL}"], 0),
    (["eval", f"runs/nowhere{EVIL}"], 4),
    (["eval", f"runs/tiny@{EVIL}"], 4),
    (["eval", "sums"], 4),
    (["parse", "runs/evil", f"broken{EVIL}.conllu"], 3),
    (["parse", "runs/evil", f"text{EVIL}.txt", "--longest", "2"], 3),
    (["parse", "runs/evil", f"nowhere{EVIL}.txt"], 3),
    (["parse", "runs/evil", "dev.conllu", "-o", f"nowhere{EVIL}/x"], 2),
    (["parse", "runs/evil", "dev.conllu", "-f", EVIL], 2),
    (["export", f"runs/tiny{EVIL}", f"out{EVIL}"], 0),
    (["export", "runs/tiny", f"runs/tiny{EVIL}"], 2),
    (["score", "trees", f"dev{EVIL}.conllu", "--gold", f"test{EVIL}.conllu"], 3),
    (["score", "trees", f"dev{EVIL}.conllu", "--gold", f"dev{EVIL}.conllu"], 0),
    (["score", EVIL, "dev.conllu"], 2),
    (["table", f"runs/tiny{EVIL}"], 0),
    (["table", f"nowhere{EVIL}"], 4),
    ([EVIL], 2),
    ([f"-{EVIL}"], 2),
]  # fmt: skip


def test_no_name_and_no_word_reaches_the_terminal_raw(
    evil: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(evil)
    for arguments, code in COMMANDS:
        ran = invoke(*arguments)
        assert ran.code == code, (arguments, ran.err)
        clean(ran.out, ran.err)
    for log in Path().rglob("log.txt"):
        clean(log.read_text("utf-8"))
    assert list(invoke("eval", "runs/evil", f"dev{EVIL}.conllu", "--json").json["scores"]) == [f"dev{EVIL}.conllu"]


@pytest.mark.parametrize("form", ["conllu", "jsonl", "tree", "svg", "html"])
def test_a_terminal_gets_escapes_and_a_pipe_gets_the_words(
    form: str, evil: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(evil)
    file = f"text{EVIL}.txt" if form == "svg" else "dev.conllu"  # a sentence
    piped = invoke("parse", "runs/evil", file, "-f", form)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = invoke("parse", "runs/evil", file, "-f", form)
    assert (piped.code, shown.code) == (0, 0), shown.err
    clean(shown.out)
    assert shown.out.count("\n") == piped.out.count("\n")
    if form == "conllu":
        assert EVIL in piped.out
        assert shown.out == harmless(piped.out, keep="\n\t")
        assert "\t" in shown.out


def test_a_bug_in_a_message_is_harmless(here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = raising(ValueError(f"no {EVIL}\nsecond line"))
    monkeypatch.setattr("probtrans_cli.trained.model.Model.load", fails)
    ran = invoke("eval", "runs/tiny")
    assert ran.code == 1
    clean(ran.err)
    assert f"ValueError: no {SAFE}\nsecond line\n" in ran.err


def test_log_lines_and_the_log_file_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console.STATE.open_log(tmp_path / "log.txt")
    console.log(f"a{EVIL}\ud800\nb")
    console.STATE.close_log()
    assert capsys.readouterr().err == f"a{SAFE}\\ud800\nb\n"
    assert (tmp_path / "log.txt").read_text("utf-8").endswith(f" a{SAFE}\\ud800\nb\n")


def test_the_report_of_prepare_has_no_escape(fresh: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    ran = invoke("prepare", "tiny.yaml").ok
    clean(ran.out)
    assert "sentences" in ran.out


# --- colours ----------------------------------------------------------------------------------------------------------

COLOUR = re.compile("\x1b\\[[0-9]+m")


class Screen(io.StringIO):
    """A standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(extractors: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """What `parse -f tree --trees no` sends to a screen of a kind, for a text."""

    def parsed(text: str, screen: io.StringIO, form: str = "tree", **environment: str) -> str:
        file = tmp_path / "text"
        file.write_text(text + "\n", encoding="utf-8")
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdout", screen)
        parse(ParseRequest(str(extractors / "runs/tuples"), [str(file)], format=form, trees=False))
        return screen.getvalue()

    return parsed


TEXT = "Goats eat grass in May ."


def test_bars_have_colours_on_a_terminal(shown: Callable[..., str]) -> None:
    plain = shown(TEXT, io.StringIO(), TERM="xterm")
    coloured = shown(TEXT, Screen(), TERM="xterm")
    assert not COLOUR.search(plain)
    assert len(set(COLOUR.findall(coloured))) == 4
    assert COLOUR.sub("", coloured) == plain
    assert "arg1" in plain
    assert "rel" in plain


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}, {}], ids=str)
def test_bars_have_none_where_they_are_not_wanted(shown: Callable[..., str], environment: dict[str, str]) -> None:
    plain = shown(TEXT, io.StringIO(), TERM="xterm")
    assert shown(TEXT, Screen(), **environment) == plain


def test_trees_are_ascii_on_a_terminal_of_another_encoding(
    shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not shown(TEXT, Screen()).isascii()
    monkeypatch.setattr(locale, "getencoding", lambda: "ISO-8859-1")
    assert shown(TEXT, Screen()).isascii()
    assert not shown(TEXT, io.StringIO()).isascii()


@pytest.mark.parametrize("form", ["tree", "text", "tuples", "jsonl", "conllu"])
def test_no_word_can_colour_anything(shown: Callable[..., str], form: str) -> None:
    evil = "Goats\x1b[31m eat \x1b[31mgrass \x1b]0;x\x07 in May ."
    found = shown(evil, Screen(), form, TERM="xterm")
    assert "\x07" not in found
    assert not re.search("\x1b(?!\\[[0-9]+m)", found)
    ours = re.sub("\x1b\\[3[0-9]m[└][^\x1b]*┘\x1b\\[0m", "", found) if form == "tree" else found
    assert "\x1b" not in ours
    assert "\\x1b" in found or "\\u001b" in found


@pytest.mark.parametrize("width", [0, 60])
def test_a_bar_is_there_on_a_terminal_that_tells_no_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    outer, inner = pty.openpty()
    os.set_blocking(outer, False)  # nothing to read is a fault
    termios.tcsetwinsize(inner, (24 * (width > 0), width))
    with os.fdopen(inner, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(console, "STDERR", stream.fileno())
        progress = console.Progress()
        progress.begin(2, 0, "epoch 1/1")
        progress.end()
        shown = os.read(outer, 4096).decode()
    os.close(outer)
    assert "epoch 1/1:   0 %" in shown
    assert max(map(len, shown.splitlines())) <= (width or console.WIDTH)
