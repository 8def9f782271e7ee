"""Causal language models through the commands and from Python: surprisal, next words, texts that go on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_of_every_task import SHORT
from support import Invoke, Stdin, workplace

import probtrans_cli
from probtrans_cli.errors import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place with the runs `lm`, a causal field, and `gpt`, a causal transformer."""
    from probtrans_cli import __main__, console

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console.STATE, "level", console.QUIET)  # and as it was at the end
        place = workplace(tmp_path_factory.mktemp("lm"))
        patch.chdir(place)
        task = ["task={kind: lm}", "model.causal=true", *SHORT]
        assert __main__.run(["-q", "train", "tiny.yaml", "name=lm", *task, "model.chain=true"]) == 0
        sizes = ["model.width=8", "model.inner=8", "model.heads=2", "model.layers=1"]
        model = ["model={kind: transformer, causal: true, norm: pre}", *sizes]
        assert __main__.run(["-q", "train", "tiny.yaml", "name=gpt", "task={kind: lm}", *model, "optim.lr=0.01"]) == 0
        yield place


@pytest.fixture(params=["lm", "gpt"])
def run(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    return f"runs/{request.param}"


def sentences(file: str) -> list[list[str]]:
    parts = Path(file).read_text("utf-8").strip().split("\n\n")
    return [[line.split("\t")[1] for line in part.splitlines() if line[0].isdigit()] for part in parts]


def test_surprisals_add_up_to_the_perplexity(run: str, invoke: Invoke) -> None:
    scores = invoke("eval", run, "--split", "test", "--json").json["scores"]["test"]
    model = probtrans_cli.load(run)
    bits = [value for text in model.surprisal(sentences("test.conllu")) for _, value in text]
    assert len(bits) == sum(map(len, sentences("test.conllu")))
    assert 2 ** (sum(bits) / len(bits)) == pytest.approx(scores["perplexity"], rel=1e-6)
    of_texts = [[value * math.log(2) for _, value in text] for text in model.surprisal(sentences("test.conllu"))]
    deviations = sum((sum(text) - scores["loss"] * len(text)) ** 2 for text in of_texts)
    error = scores["perplexity"] * math.sqrt(deviations) / len(bits)
    assert scores["perplexity_se"] == pytest.approx(error, rel=1e-4)


def test_next_words_are_a_distribution_and_give_the_surprisals(run: str) -> None:
    model, words = probtrans_cli.load(run), ["two", "cheap", "farmers"]
    ((first, second, third),) = model.surprisal([words])
    for number, (word, bits) in enumerate((first, second, third)):
        after = model.next_words(words[:number])
        assert sum(after.values()) == pytest.approx(1.0, abs=1e-9)
        assert -math.log2(after.get(word, after["<unk>"])) == pytest.approx(bits, rel=1e-5)
    assert list(model.next_words("two cheap", top=2).items()) == list(model.next_words(words[:2]).items())[:2]


def test_a_text_goes_on_word_by_word_whatever_else_is_asked(run: str) -> None:
    model = probtrans_cli.load(run)
    text = ["two"]
    for word in model.generate("two", words=6, temperature=0.0):
        assert word == next(iter(model.next_words(text, top=1)))
        text.append(word)
    assert len(text) == 7
    drawn: Any = {"words": 5, "temperature": 1.5, "seed": 3}
    assert list(model.generate("two", **drawn)) == list(model.generate("two", **drawn))
    assert list(model.generate("two", **drawn, top_k=1)) == text[1:6]
    assert list(model.generate("two", **drawn, top_p=1e-9)) == text[1:6]
    assert list(model.generate("two", words=6, temperature=0.0, stop=text[1])) == text[1:2]


def test_frequencies_of_drawn_words_are_their_probabilities() -> None:
    import numpy as np

    from probtrans_cli.trained.generation import Sampling

    p, random = np.array([0.5, 0.3, 0.15, 0.05]), np.random.default_rng(0)
    for options, expected in (
        ({}, p),
        ({"temperature": 0.5}, p**2 / (p**2).sum()),
        ({"top_k": 2}, np.array([5 / 8, 3 / 8, 0, 0])),
        ({"top_p": 0.6}, np.array([5 / 8, 3 / 8, 0, 0])),
    ):
        draws = [Sampling(**options).choose(np.log(p), random) for _ in range(4000)]  # type: ignore[arg-type]
        assert np.abs(np.bincount(draws, minlength=4) / 4000 - expected).max() < 0.03


def test_generate_writes_a_line_for_each_prompt(run: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = invoke("generate", run, "two cheap", "--words", "4", "--seed", "1")
    assert alone.code == 0, alone.err
    assert alone.out.startswith("two cheap ")
    assert len(alone.out.split()) == 6
    two = invoke("generate", run, "two cheap", "--words", "4", "--seed", "1", "--n", "2", "--json").out
    records = [json.loads(line) for line in two.splitlines()]
    assert " ".join(records[0]["prompt"] + records[0]["words"]) == alone.out.strip()
    assert len(records) == 2
    refused = invoke("generate", run, "--top-p", "2")
    assert refused.code == 2
    assert "top_p 2.0" in refused.err


def test_prompts_are_text_or_refused(run: str, invoke: Invoke, stdin: Stdin) -> None:
    stdin(b"two\nche\xffap\n")
    refused = invoke("generate", run, "--json")
    assert refused.code == 3
    assert "UTF-8" in refused.err


def test_surprisals_of_pieces_add_up_to_the_perplexity(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    pieces = ["task={kind: lm}", "model.causal=true", "train={steps: 3}", "data.vocabulary={kind: char}"]
    assert invoke("train", "tiny.yaml", "name=chars", *pieces, "--json").code == 0
    scores = invoke("eval", "runs/chars", "--split", "test", "--json").json["scores"]["test"]
    texts = sentences("test.conllu")
    bits = [value for text in probtrans_cli.load("runs/chars").surprisal(texts) for _, value in text]
    assert len(bits) == sum(map(len, texts))
    characters = sum(len(word) for text in texts for word in text)
    assert math.log(2) * sum(bits) == pytest.approx(scores["loss"] * characters, rel=1e-6)


def test_parse_tells_surprisal_entropy_and_rank(run: str, invoke: Invoke) -> None:
    Path("in.txt").write_text("two cheap farmers\n\n", "utf-8")
    record = json.loads(invoke("parse", run, "in.txt", "-f", "jsonl").out.splitlines()[0])
    assert {len(record[name]) for name in ("surprisal", "entropy", "rank")} == {3}
    assert all(head <= number for number, head in enumerate(record["heads"]) if run == "runs/lm")
    misc = [
        line.split("\t")[9]
        for line in invoke("parse", run, "in.txt", "-f", "conllu").out.splitlines()
        if line[:1].isdigit()
    ]
    assert misc == [f"Surprisal={value:.4f}" for value in record["surprisal"]] or all(
        "Surprisal=" in cell for cell in misc
    )


def test_a_first_word_may_be_left_out(folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    task = "task={kind: lm, score_first: false}"
    assert invoke("train", "tiny.yaml", "name=rest", task, "model.causal=true", "train={steps: 3}", "--json").code == 0
    ((first, second),) = probtrans_cli.load("runs/rest").surprisal(["two cheap farmers"])
    assert (first[0], second[0]) == ("cheap", "farmers")


def test_what_does_not_go_together_is_refused_by_name(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for options, key in (
        (["task={kind: lm}"], "model.causal"),
        (["model.causal=true"], "model.causal"),
        (
            ["task={kind: lm, readout: exact}", "model.causal=true", "model.decomposition={kind: rotary, rank: 2}"],
            "rotary",
        ),
        (["task={kind: lm, output: linear}", "model.causal=true"], "task.output"),
        (["task={kind: lm}", "model.causal=true", "data.vocabulary.punctuation=false"], "punctuation"),
    ):
        refused = invoke("train", "tiny.yaml", *options, "--dry-run")
        assert refused.code == 2
        assert key in refused.err
    for form in ("hf", "pt2"):
        refused = invoke("export", "runs/lm", f"out-{form}", "--format", form)
        assert refused.code == 2
        assert "causal" in refused.err
    assert invoke("train", "tiny.yaml", "name=masks", "train={steps: 1}", "--json").code == 0
    with pytest.raises(UsageError, match="next words"):
        probtrans_cli.load("runs/masks").next_words("two")
