"""The benchmark runs, its baseline has the published sizes, and its FLOP formulas give the published figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import ROOT, environment, sentences

from bench import baseline, corpus, encoder, head_bias, linear_chain, mutations, parse, udpipe
from bench.measure import Batch, steps
from bench.report import GOALS, Cell, Report, markdown
from bench.settings import batches, flops, iteration_flops, sentence_lengths, settings
from probtrans_cli.models import build
from probtrans_cli.trees import forest
from probtrans_cli.trees.decode import decode
from probtrans_cli.trees.score import floors

SETTINGS = {setting.name: setting for setting in settings()}
TINY = {setting.name: setting for setting in settings(tiny=True)}


def test_the_transformer_has_the_published_number_of_parameters() -> None:
    """The paper counts layers and positions, without word embeddings and output layer."""
    for name, published in (("mlm-ptb", 23_809_408), ("pos-ud", 3_155_456), ("cogs", 100_000)):
        with torch.device("meta"):
            made = build(SETTINGS[name].transformer.section())
        assert sum(parameter.numel() for parameter in made.parameters()) == published


def test_the_formulas_give_the_published_flops() -> None:
    ptb = SETTINGS["mlm-ptb"]
    assert iteration_flops(ptb.model) == pytest.approx(25e6, rel=0.02)
    assert 3 * flops(ptb.model) == pytest.approx(380e6, rel=0.02)
    assert 3 * ptb.transformer.flops() == pytest.approx(140e6, rel=0.02)
    assert flops(ptb.model) / ptb.transformer.flops() == pytest.approx(2.65, rel=0.02)
    for variant in ptb.variants:
        assert flops(ptb.section(variant)) == flops(ptb.model) / 8
    cogs = SETTINGS["cogs"]
    assert flops(cogs.model) / cogs.transformer.flops() == pytest.approx(6, rel=0.02)


def test_the_reference_computes_the_same() -> None:
    (theirs,) = steps(TINY["mlm-ptb"], "reference", [[9, 4, 1]], torch.device("cpu"))
    (ours,) = steps(TINY["mlm-ptb"], "plain", [[9, 4, 1]], torch.device("cpu"))
    ours.encoder.load_state_dict(theirs.encoder.state_dict())
    for step in (theirs, ours):
        step.encoder.eval()
        step.unary = theirs.unary.detach().clone().requires_grad_()
        step.projection = theirs.projection
        step()
    for one, other in zip(theirs.encoder.parameters(), ours.encoder.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(theirs.unary.grad, ours.unary.grad, rtol=1e-4, atol=1e-5)


def test_the_baseline_is_the_same_model_twice() -> None:
    """The same number of parameters (a test of the encoder holds the layers equal), a gradient for all of them."""
    made = baseline.competitors([[5, 3]], torch.device("cpu"))
    (ours,), (theirs,) = made["ours"], made["theirs"]
    sizes = [sum(parameter.numel() for parameter in step.encoder.parameters()) for step in (ours, theirs)]
    assert sizes[0] == sizes[1]
    for step in (ours, theirs):
        step()
        assert step.unary.grad is not None
        assert all(parameter.grad is not None for parameter in step.encoder.parameters())


def test_the_rival_reads_words_alone() -> None:
    lines = ["# text = x", "1-2\tab" + "\t_" * 8, "1\ta\tA\tX\tY\tZ=z\t2\tdep\t2:dep\tM=m", ""]
    stripped = udpipe.without_annotation("\n".join(lines) + "\n").split("\n")
    assert stripped == [*lines[:2], "1\ta\t_\t_\t_\t_\t_\t_\t2:dep\tM=m", "", ""]


def test_the_rival_is_trained_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ufal.udpipe")
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.conllu").write_text(sentences("train", 20), encoding="utf-8")
    udpipe.main([str(tmp_path), "--tagger-iterations", "1", "--parser-iterations", "1"])
    assert ": uas " in capsys.readouterr().out


@pytest.mark.slow
def test_both_language_models_are_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for name, value in {"WIDTH": 8, "INNER": 12, "HEADS": 2, "LAYERS": 2, "PIECES": 40}.items():
        monkeypatch.setattr(baseline, name, value)
    made = baseline.language_models([[5, 3]], torch.device("cpu"))
    (ours,), (theirs,) = made["ours"], made["theirs"]
    counts = [sum(one.numel() for one in step.model.parameters()) for step in (ours, theirs)]
    assert counts[0] == counts[1]
    for step in (ours, theirs):
        step()
        assert all(one.grad is not None and one.grad.isfinite().all() for one in step.model.parameters())
        step.forget()


@pytest.mark.slow
def test_the_stored_histogram_is_that_of_the_corpus(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(corpora))
    read, source = sentence_lengths()
    assert source == "read from the corpus"
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    assert sentence_lengths() == (read, "from the stored histogram")


def test_batches_are_what_they_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    made = batches(sentence_lengths()[0], 4)
    assert [len(one) for one in made["ragged"]] == [16] * 4
    assert sum(len(one) * max(one) for one in made["bucketed"]) < 1.1 * sum(map(sum, made["bucketed"]))
    assert all(1_000 < sum(one) <= 2_048 for one in made["bucketed"])
    assert made["1x512"] == [[512]]
    assert made["1x2048"] == [[2048]]


def test_a_batch_reads_the_wanted_words_and_no_padding() -> None:
    lengths = [3, 1, 40]
    generator = torch.Generator().manual_seed(0)
    masked = Batch(lengths, 0.3, generator, torch.device("cpu"))
    assert masked.wanted is not None
    assert bool((masked.mask | ~masked.wanted).all())
    assert masked.rows.tolist() == masked.wanted.flatten().nonzero()[:, 0].tolist()
    every = Batch(lengths, 1.0, generator, torch.device("cpu"))
    assert every.wanted is None
    assert len(every.rows) == every.words == 44


def test_a_step_gives_a_gradient_to_all_parameters_and_to_the_words() -> None:
    for name in encoder.COMPETITORS:
        (step,) = steps(TINY["mlm-ptb"], name, [[9, 4]], torch.device("cpu"))
        step()
        for parameter in [step.unary, *step.encoder.parameters()]:
            assert parameter.grad is not None, name
            assert bool(parameter.grad.isfinite().all()), name
            assert bool(parameter.grad.any()), name


def test_goals_are_taken_round_by_round() -> None:
    cells = {
        name: Cell("mlm-ptb", "ragged", name, 1, 100, 200, 1e6, 1e5, seconds=seconds, product_rates=[3e8, 3e8, 1e8])
        for name, seconds in {"plain": [4.0, 9.0, 10.0], "banded": [1.0, 2.0, 5.0]}.items()
    }
    report = Report({"device": "cpu"}, list(cells.values()), product_rates=[3e8, 1e8])
    assert report.reached(GOALS[0]) == [4.0, 4.5, 2.0]
    assert report.reached(GOALS[4]) == [1.0, 0.5, 0.6]
    text = markdown(report)
    assert "| a | mlm-ptb, ragged: time of plain / banded | 4 (2 - 4.5) | at least 4 | met |" in text
    assert "| c | mlm-ptb, ragged: share of banded / product rate | 0.6 (0.5 - 1) | at least 0.6 | met |" in text


@pytest.mark.slow
def test_the_module_prints_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "0")
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    threads = torch.get_num_threads()
    options = ["--tiny", "--no-memory", "--rounds", "1", "--batches", "1", "--threads", "1"]
    kinds = ["ragged", "1x512"]
    options += ["--only", ",".join(kinds)]
    try:
        assert encoder.main([*options, "--json", str(tmp_path / "figures.json")]) == 0
    finally:
        torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    found: dict[str, Any] = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert {(cell["setting"], cell["kind"]) for cell in found["cells"]} == {
        (name, kind) for name in SETTINGS for kind in kinds
    }
    for cell in found["cells"]:
        assert cell["failed"] is None
        assert len(cell["seconds"]) == 1
        assert f"## {cell['setting']}, {cell['kind']} (" in printed
    assert {cell["competitor"] for cell in found["cells"]} == set(encoder.COMPETITORS)
    assert printed.count("| a | ") == printed.count("| d | ") == 1


@pytest.mark.exhaustive
def test_memory_is_measured_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "tests.bench.encoder", "--tiny", "--threads", "1", "--one", "mlm-ptb/banded"]
    child = subprocess.run(command, cwd=ROOT, env=environment(), input="[24, 9]", capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert 0 < json.loads(child.stdout)["peak_bytes"] < 2**28


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        encoder.main(["--only", "mlm-ptb,raged"])
    assert refused.value.code == 2
    assert "there is no raged" in capsys.readouterr().err


def test_the_decoder_of_one_sentence_finds_trees_as_good() -> None:
    random = np.random.default_rng(1)
    for n in (1, 2, 5, 12):
        scores = random.normal(size=(n, n))
        ours = decode(scores[None], np.ones((1, n), dtype=bool), "eisner")[0]
        of_trees = [
            sum(scores[i, head - 1] for i, head in enumerate(heads) if head) for heads in (ours, parse.eisner(scores))
        ]
        assert of_trees[0] == pytest.approx(of_trees[1])


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        pytest.param("--sentences 20 --alone 2 --rounds 1", "times as fast", marks=pytest.mark.slow),
        pytest.param("--stream 30", "30 sentences parsed", marks=pytest.mark.exhaustive),
    ],
)
def test_parsing_is_measured(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    options: str, printed: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(parse, "MATRICES", 64)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))  # lengths from the stored histogram
    assert parse.main([str(trained / "runs/tiny"), *options.split(), "--threads", "1"]) == 0
    assert printed in capfd.readouterr().out


@pytest.mark.slow
def test_bulk_parsing_is_measured(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    commands: list[list[str]] = []
    monkeypatch.setattr(parse.subprocess, "run", lambda command, **_: commands.append(command))
    assert parse.main([str(trained / "runs/tiny"), "--bulk", "20", "--rounds", "2", "--threads", "1"]) == 0
    assert "two workers are" in capsys.readouterr().out
    assert [command[command.index("--workers") + 1] for command in commands] == ["1", "2"] * 4


def test_large_corpora_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    monkeypatch.setattr(corpus, "WORDS", 300)
    lines = list(corpus.sentences(70))
    assert lines == list(corpus.sentences(70))
    assert len(lines) == 70
    monkeypatch.setattr(corpus, "COMMAND", (sys.executable, "-c", "pass"))
    assert corpus.main(["30", "--folder", str(tmp_path)]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == ["step", "written", "prepare", "train", "stored"]
    assert not any(tmp_path.iterdir())


def test_trees_by_a_bias_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the numbers of the fifth floor it scores as that does where there is no punctuation, in every treebank."""
    blocks = [block.splitlines() for block in sentences("train", 60).split("\n\n") if block.strip()]
    kept = [block for block in blocks if not any(line.split("\t")[3:4] == ["PUNCT"] for line in block)]
    kept = kept or [[line for line in block if line.split("\t")[3:4] != ["PUNCT"]] for block in blocks]
    for name, some in (("one", kept[:30]), ("two", kept[10:])):
        (tmp_path / "ud" / name).mkdir(parents=True)
        for split in ("train", "dev"):
            (tmp_path / "ud" / name / f"{split}.conllu").write_text("\n\n".join(map("\n".join, some)) + "\n\n", "utf-8")
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path))
    of_floor = (forest.DISTANCE, forest.RIGHT, forest.FREQUENCY, forest.ROOT)
    bias = "{{distance: {}, right: {}, frequency: {}, root: {}}}".format(*of_floor)
    assert head_bias.main(["--bias", bias]) == 0
    names, figures = (line.split("  ") for line in capsys.readouterr().out.splitlines())
    assert [name for name in map(str.strip, names) if name] == ["one", "two", "mean"]
    shown = [float(figure) for pair in figures if pair.strip() for figure in pair.split("/")]
    of_floors = []
    for name in ("one", "two"):
        found = head_bias.sentences_of(tmp_path / "ud" / name, "dev")
        counts = Counter(word.lower() for one in found for word in one.words)
        frequency = [np.array([counts[word.lower()] for word in one.words]) for one in found]
        gold = [np.array(one.heads) for one in found]
        floor = floors(gold, None, frequency)["untrained_bias"]["with_punct"]["all"]
        of_floors.append([100 * floor[name] for name in ("uas", "uuas")])
    expected = [*of_floors, np.mean(of_floors, axis=0)]
    assert shown == pytest.approx([figure for pair in expected for figure in pair], abs=0.06)


def test_a_linear_chain_learns_the_tags_of_a_recipe(tmp_path: Path) -> None:
    assert linear_chain.shape("McX-90s") == "XxX-dx"
    assert {"word=goats", "suffix=oats", "-1:shape=X", "1:lower=<none>"} <= set(
        linear_chain.features(["A", "goats"])[1]
    )
    pytest.importorskip("pycrfsuite")
    file = tmp_path / "all.conll"
    file.write_text("in O\nRome B-loc\n\nat O\nhome O\n\n" * 5, "utf-8")
    overrides = [f"data.{split}={file}" for split in ("train", "dev", "test")]
    score, value, _ = linear_chain.chain_of("wnut17-probabilistic", overrides)
    assert (score, value) == ("F1", 100.0)


def test_mutations_change_places_that_there_are() -> None:
    """A mutation whose place was rewritten breaks nothing, so that nobody would see whether tests notice it."""
    for mutation in mutations.MUTATIONS:
        module = (ROOT / "probtrans_cli" / mutation.module).read_text("utf-8")
        assert module.count(mutation.before) == 1, f"{mutation.module}: {mutation.before}"
        assert all((ROOT / path).is_file() for path in mutation.tests.split())
