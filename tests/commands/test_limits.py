"""Arguments that no machine can do: threads, names of files, sizes, and corpora that are no files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from support import Invoke, refused

from probtrans_cli.data.sentence import Sentence, divided

LONG = "a" * 300


def test_threads_have_a_bound(here: Path, invoke: Invoke) -> None:
    for verb, threads in (("eval", "0"), ("parse", "100000"), ("eval", "99999999999"), ("parse", "9" * 30)):
        ran = invoke(verb, "runs/tiny", "dev.conllu", "--threads", threads)
        refused(ran, 2, "--threads", "1024" if len(threads) > 1 else "1")
    refused(invoke("train", "tiny.yaml", "runtime.threads=1025", "--dry-run"), 2, "runtime.threads", "equal to 1024")


COMMANDS = {
    "train {}": 2,
    "train tiny.yaml --run {}": 2,
    "train tiny.yaml data.train={} --run new": 3,
    "train tiny.yaml --init-from {} --run new": 4,
    "prepare {}": 2,
    "prepare tiny.yaml data.prepared={}": 2,
    "eval {}": 4,
    "eval runs/tiny {}": 3,
    "eval runs/tiny@{}": 4,
    "parse {} dev.conllu": 4,
    "parse runs/tiny {}": 3,
    "parse runs/tiny dev.conllu -o {}": 2,
    "export {} out": 4,
    "export runs/tiny {}": 2,
    "table {}": 4,
}


def test_a_name_that_is_too_long_or_not_utf_8_is_refused(copied: Path, invoke: Invoke) -> None:
    for command, code in COMMANDS.items():
        ran = invoke(*command.format(LONG).split())
        assert ran.code in (2, code), ran.err
        assert "Traceback" not in ran.err
        assert ran.err.startswith("error: ")
        assert LONG[:100] in ran.err
        ran = invoke(*command.format(os.fsdecode(b"caf\xe9")).split())
        refused(ran, 2, "caf\\udce9", "is not UTF-8")


def test_a_name_with_a_zero_byte_is_refused(here: Path, invoke: Invoke) -> None:
    for key in ("data.train", "data.prepared", "model.init_from"):
        refused(invoke("train", "tiny.yaml", f'{key}="a\\0b"', "--dry-run"), 2, key)


@pytest.mark.parametrize("name", ["/dev/null", "pipe"])
def test_a_corpus_that_is_no_file_is_called_so(name: str, fresh: Path, invoke: Invoke) -> None:
    os.mkfifo("pipe")
    refused(invoke("prepare", "tiny.yaml", f"data.train={name}"), 3, "data.train", name, "a device or a pipe", "-")


def test_a_checkpoint_with_an_immense_recipe_is_refused(copied: Path, invoke: Invoke) -> None:
    recipe = copied / "runs/tiny/checkpoints/best/recipe.yaml"
    text = recipe.read_text("utf-8")
    immense = text.replace("  distance: 3\n", "  distance: 1000000\n")
    assert immense != text
    recipe.write_text(immense, encoding="utf-8")
    sums = recipe.with_name("SHA256SUMS")
    before, after = (hashlib.sha256(one.encode()).hexdigest() for one in (text, immense))
    sums.write_text(sums.read_text("utf-8").replace(before, after), encoding="utf-8")
    refused(invoke("parse", "runs/tiny", "dev.conllu"), 4, "model.distance", "1000000", "less than or equal to 1000")


def test_what_is_certainly_too_long_is_refused_before_it_is_divided(
    here: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def noting(text: str, where: str) -> Sentence:
        seen.append(text)
        return divided(text, where)

    monkeypatch.setattr("probtrans_cli.data.streams.divided", noting)
    (tmp_path / "long.txt").write_text("a b\n" + "a " * 6 + "\n", encoding="utf-8")
    ran = invoke("parse", "runs/tiny", str(tmp_path / "long.txt"), "--longest", "5")
    assert ran.code == 3
    assert "long.txt:2: a sentence of at least 6 words, more than 5" in ran.err
    assert seen == ["a b"]


def test_faults_beyond_counting_are_not_counted(fresh: Path, invoke: Invoke) -> None:
    text = Path("tiny.yaml").read_text("utf-8")
    for count, told in ((60, "… and 10 more"), (1100, "… and 950 more")):
        Path("faulty.yaml").write_text(text + "".join(f"key{i}: 1\n" for i in range(count)), encoding="utf-8")
        refused(invoke("prepare", "faulty.yaml"), 2, told)


def test_a_gpu_that_is_not_there_is_missed_before_any_work(
    fresh: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    before = sorted(fresh.iterdir())
    for options in ([], ["--dry-run"], ["--seeds", "0,1"]):
        refused(invoke("train", "tiny.yaml", "runtime.device=cuda", *options), 2, "no usable GPU", "runtime.device=cpu")
        assert sorted(fresh.iterdir()) == before
