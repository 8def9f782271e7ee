"""Probabilities of arcs: `eval --uncertainty`, the temperature of dev and what shows it, beside plain loops."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_of_every_task import Say
from support import Invoke, refused

import probtrans_cli
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.statistics import uncertainty
from probtrans_cli.trained.arcs import tempered
from probtrans_cli.trained.parses import Parser

NOTE = "the model's own beliefs, not calibrated"


def by_loop(run: str, file: str, temperature: float) -> dict[str, np.ndarray]:
    """Loss, Brier score, confidence and rightness of the heads of a file, from all marginals of the page of trees."""
    model = probtrans_cli.load(run)
    model.arc_temperature = None
    has_root, (channel, iteration) = model.network.has_root_column, (model.reading.channel, model.reading.iteration)
    place = (iteration - (iteration > 0), model.recipe.model.trees if channel == "mean" else channel)
    rows: dict[str, list[float]] = {"nll": [], "brier": [], "confidence": [], "right": []}
    sentences = list(read_conllu(Path(file).read_text("utf-8").splitlines(), file))
    for sentence, trees in zip(sentences, Parser(model).every_tree(sentences), strict=True):
        assert trees.marginals is not None
        assert sentence.heads is not None
        marginals, heads = trees.marginals[place], trees.heads[place]
        n = len(sentence.words)
        for i in range(n):
            options = [j for j in range(n + has_root) if j != i]
            if not options or sentence.tags["upos"][i] in ("PUNCT", "SYM"):
                continue
            powers = {j: max(float(marginals[i, j]), 1.2e-38) ** (1 / temperature) for j in options}
            chances = {j: power / sum(powers.values()) for j, power in powers.items()}
            gold, chosen = (head - 1 if head else n for head in (sentence.heads[i], int(heads[i])))
            rows["brier"].append(sum((chance - (j == gold)) ** 2 for j, chance in chances.items()))
            if gold in chances:
                rows["nll"].append(-math.log(chances[gold]))
            if chosen in chances:
                rows["confidence"].append(chances[chosen])
                rows["right"].append(gold == chosen)
    return {name: np.array(values) for name, values in rows.items()}


@pytest.mark.parametrize("run", ["tiny", "tagger"])
def test_heads_beside_a_loop_over_words(copied: Path, invoke: Invoke, run: str) -> None:
    ran = invoke("eval", f"runs/{run}", "--uncertainty", "--json")
    measured = ran.json["scores"]["test"]["uncertainty"]["heads"]
    temperature = json.loads(Path(f"runs/{run}/checkpoints/best/config.json").read_text()).get("arc_temperature")
    assert measured.get("temperature") == temperature
    plain = measured["without_temperature"] if temperature else measured  # the tagger's loss is least at the bound
    assert "reliability-heads.svg" in ran.err
    assert "Reliability on test, heads" in Path(f"runs/{run}/checkpoints/reliability-heads.svg").read_text("utf-8")
    for scores, rows in (
        (measured, by_loop(f"runs/{run}", "test.conllu", temperature or 1.0)),
        (plain, by_loop(f"runs/{run}", "test.conllu", 1.0)),
    ):
        error = uncertainty.calibration_error(rows["confidence"], rows["right"].astype(bool))
        assert scores["nll"] == pytest.approx(rows["nll"].mean(), rel=1e-4)
        assert scores["ece"] == pytest.approx(error, abs=2e-3)
        if "brier" in scores:
            assert scores["brier"] == pytest.approx(rows["brier"].mean(), rel=1e-4)
            assert scores["number"] == len(rows["confidence"])
    met = invoke("eval", f"runs/{run}", "--uncertainty", "--require", f"heads_ece<={measured['ece'] + 1e-6}")
    assert met.code == 0
    assert f"heads of words{'; temperature' if temperature else ''}" in met.out


def test_dev_chooses_the_temperature_with_the_least_loss(here: Path) -> None:
    stored = json.loads(Path("runs/tiny/checkpoints/best/eval.json").read_text("utf-8"))["arc_temperature"]
    losses = {
        scale: by_loop("runs/tiny", "dev.conllu", stored["value"] * scale)["nll"].mean() for scale in (0.97, 1.0, 1.03)
    }
    assert stored["nll_tempered"] == pytest.approx(losses[1.0], rel=1e-4)
    assert stored["nll"] == pytest.approx(by_loop("runs/tiny", "dev.conllu", 1.0)["nll"].mean(), rel=1e-4)
    assert min(losses.values()) == losses[1.0]
    assert "Temperature of arcs of dev" in Path("runs/tiny/report.html").read_text("utf-8")


def test_trees_stay_and_everything_shows_the_same_probability(copied: Path, invoke: Invoke) -> None:
    model = probtrans_cli.load("runs/tiny")
    assert model.arc_temperature is not None
    words = [sentence.words for sentence in read_conllu(Path("test.conllu").read_text("utf-8").splitlines(), "")]
    warm = list(model.analyze(words))
    model.arc_temperature = None
    cold = list(model.analyze(words))
    assert all(np.array_equal(one.heads, other.heads) for one, other in zip(warm, cold, strict=True))
    shown = np.concatenate([analysis.probabilities for analysis in warm])
    assert not np.allclose(shown, np.concatenate([analysis.probabilities for analysis in cold]), equal_nan=True)
    in_misc = re.findall(r"\bProb=([0-9.]+)", invoke("parse", "runs/tiny", "test.conllu", "--prob").out)
    np.testing.assert_allclose(list(map(float, in_misc)), shown[~np.isnan(shown)], atol=6e-5)
    lines = invoke("parse", "runs/tiny", "test.conllu", "-f", "jsonl").out.splitlines()
    in_json = [chance for line in lines for chance in json.loads(line)["probabilities"]]
    np.testing.assert_allclose(np.array(in_json, dtype=float), shown, atol=2e-6)
    assert invoke("export", "runs/tiny", "exported").code == 0
    assert invoke("parse", "exported", "test.conllu", "-f", "jsonl").out.splitlines() == lines


def test_probabilities_without_a_temperature_are_said_to_be_so(copied: Path, invoke: Invoke) -> None:
    assert NOTE not in invoke("parse", "runs/tiny", "test.conllu", "--prob").err
    own = probtrans_cli.load("runs/tiny").reading.channel
    other = next(str(channel) for channel in (0, 1) if channel != own)
    assert NOTE in invoke("parse", "runs/tiny", "test.conllu", "--prob", "--channel", other).err


@pytest.mark.parametrize("task", ["ner", "classification"])
def test_without_gold_trees_there_is_no_temperature(runs: Path, say: Say, invoke: Invoke, task: str) -> None:
    say(task)
    assert NOTE in invoke("parse", str(runs / "runs" / task), "in.txt", "--prob", "-f", "tree").err
    assert probtrans_cli.load(str(runs / "runs" / task)).arc_temperature is None


def test_a_new_choice_has_no_temperature_of_the_old_one(copied: Path, invoke: Invoke) -> None:
    config = Path("runs/tiny/checkpoints/best/config.json")
    own = json.loads(config.read_text("utf-8"))
    other = next(str(channel) for channel in (0, 1) if channel != own["trees"]["channel"])
    ran = invoke("eval", "runs/tiny", "--split", "dev", "--choose", "--channel", other).ok
    chosen = json.loads(config.read_text("utf-8"))
    assert chosen["trees"]["channel"] == int(other)
    assert chosen["arc_temperature"] is None, "the least loss is at the bound"
    assert re.search(r"no temperature of arcs: the loss on dev falls .* (32|0\.25);", ran.err), ran.err
    assert NOTE in invoke("parse", "runs/tiny", "test.conllu", "--prob").err


def test_files_of_parse_have_the_calibration_of_eval(copied: Path, invoke: Invoke) -> None:
    """The toy treebank has no punctuation, so that all words count in both."""
    heads = invoke("eval", "runs/tiny", "--uncertainty", "--json").json["scores"]["test"]["uncertainty"]["heads"]
    for name, options in (("arcs.conllu", ["--prob"]), ("arcs.jsonl", ["-f", "jsonl"])):
        Path(name).write_text(invoke("parse", "runs/tiny", "test.conllu", *options).out, "utf-8")
        for column in ([], ["--column", "head"]):
            ran = invoke("score", "calibration", name, "--gold", "test.conllu", *column, "--json")
            for score in ("number", "ece", "ece_floor", "ece_width", "aurc", "error_auroc"):
                assert ran.json["scores"][score] == pytest.approx(heads[score], abs=2e-3), (name, score)
    refused(
        invoke("score", "calibration", "arcs.conllu", "--gold", "test.conllu", "--column", "deprel"), 3, "--column head"
    )
    refused(invoke("score", "calibration", "arcs.jsonl", "--gold", "tiny.yaml", "--column", "head"), 3, "has no trees")


def test_a_temperature_beside_a_loop_over_heads() -> None:
    """Padding, a word itself and heads that are no heads have no probability; that of the others is a power."""
    generator = np.random.default_rng(0)
    mask = np.arange(4) < np.array([[4], [2], [1]])
    for columns, root in ((4, False), (5, True), (5, False)):
        scores = np.log(generator.dirichlet(np.ones(columns), (3, 4)))
        scores[0, 1, 2] = -np.inf
        chances: Any = np.exp(tempered(scores, mask, 2.5, root=root))
        assert not chances[~mask].any()
        for b, n in enumerate((4, 2, 1)):
            for i in range(n):
                options = [j for j in range(n) if j != i] + [4] * root
                powers = {j: math.exp(scores[b, i, j] / 2.5) for j in options}
                expected = np.zeros(columns)
                for j, power in powers.items():
                    expected[j] = power / sum(powers.values())
                np.testing.assert_allclose(chances[b, i], expected, atol=1e-12)
