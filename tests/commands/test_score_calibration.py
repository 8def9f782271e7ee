"""`score calibration`: files of parse give the figures of eval, and files of any system those of a loop."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Invoke, refused

from probtrans_cli.statistics import uncertainty

LABELS = [("good film", "pos", 0.9), ("bad film", "neg", 0.8), ("film", "pos", 0.6), ("a bad one", "pos", 0.55)]
GOLD = ["pos", "neg", "neg", "neg"]


def scored(invoke: Invoke, *arguments: str) -> dict[str, Any]:
    ran = invoke("score", "calibration", *arguments, "--json").ok
    return dict(ran.json["scores"])


def parsed(invoke: Invoke, name: str, *options: str) -> str:
    ran = invoke("parse", "runs/tagger", "test.conllu", *options).ok
    Path(name).write_text(ran.out, encoding="utf-8")
    return name


def test_files_of_parse_have_the_figures_of_eval(copied: Path, invoke: Invoke) -> None:
    wanted = invoke("eval", "runs/tagger", "--uncertainty", "--json").json["scores"]["test"]
    told = wanted["uncertainty"]
    conllu = parsed(invoke, "out.conllu", "--prob")
    lines = parsed(invoke, "out.jsonl", "-f", "jsonl", "--top", "99")
    for name, options in ((conllu, []), (lines, ["--column", "xpos"])):
        found = scored(invoke, name, "--gold", "test.conllu", *options)
        assert found["number"] == told["number"]
        assert found["accuracy"] == pytest.approx(wanted["accuracy"])
        for key in ("ece", "ece_floor", "ece_width", "aurc", "error_auroc"):
            assert found[key] == pytest.approx(told[key], abs=2e-3), key
        assert ("brier" in found) == (name == lines)
    assert found["brier"] == pytest.approx(told["brier"], abs=1e-4)
    few = parsed(invoke, "few.jsonl", "-f", "jsonl", "--top", "2")
    assert "brier" not in scored(invoke, few, "--gold", "test.conllu", "--column", "xpos")
    assert "ece 0." in invoke("score", "calibration", "out.conllu", "--gold", "test.conllu").out


def test_the_only_column_that_can_be_meant(copied: Path, invoke: Invoke) -> None:
    """Where the input had gold columns, it is the one that differs; else it is to be said."""
    conllu = parsed(invoke, "out.conllu", "--prob")
    scores = scored(invoke, conllu, "--gold", "test.conllu")
    assert scores == scored(invoke, conllu, "--gold", "test.conllu", "--column", "xpos")
    assert scores["column"] == "xpos"
    assert invoke("score", "calibration", conllu, "--gold", "test.conllu").out.startswith("out.conllu, column xpos:")
    refused(invoke("score", "calibration", "test.conllu", "--gold", "test.conllu"), 3, "has no probabilities of tags")
    same = re.sub(r"\t_\n", "\tTagProb=0.9\n", Path("test.conllu").read_text("utf-8"))
    Path("same.conllu").write_text(same, encoding="utf-8")
    refused(invoke("score", "calibration", "same.conllu", "--gold", "test.conllu"), 2, "--column")
    assert scored(invoke, "same.conllu", "--gold", "test.conllu", "--column", "upos")["accuracy"] == 1.0


def test_the_file_says_which_column_its_probabilities_are_of(copied: Path, invoke: Invoke) -> None:
    """Other columns are those of the input, which `parse` copies: they would all be right."""
    conllu = parsed(invoke, "out.conllu", "--prob")
    text = Path(conllu).read_text("utf-8")
    assert text.count("# predicted = xpos\n") == text.count("\n\n")
    assert "# predicted" not in Path(parsed(invoke, "plain.conllu")).read_text("utf-8")
    refused(
        invoke("score", "calibration", conllu, "--gold", "test.conllu", "--column", "upos"), 2,
        "--column upos: the probabilities of out.conllu are of xpos", "write --column xpos, or leave it out",
    )  # fmt: skip
    Path("two.conllu").write_text(text.replace("predicted = xpos", "predicted = upos", 1), encoding="utf-8")
    refused(
        invoke("score", "calibration", "two.conllu", "--gold", "test.conllu"), 3, "name different columns: upos, xp"
    )
    Path("ne.conllu").write_text(text.replace("predicted = xpos", "predicted = NE"), encoding="utf-8")
    refused(invoke("score", "calibration", "ne.conllu", "--gold", "test.conllu"), 3, "are of entities")
    theirs = re.sub(r"# predicted = xpos\n", "", text)
    Path("theirs.conllu").write_text(theirs, encoding="utf-8")
    assert scored(invoke, "theirs.conllu", "--gold", "test.conllu", "--column", "upos")["accuracy"] == 1.0
    same = re.sub(r"\t_\n", "\tTagProb=0.9\n", Path("test.conllu").read_text("utf-8"))
    same = re.sub(r"(?m)^1\t", "# predicted = xpos\n1\t", same)
    Path("same.conllu").write_text(same, encoding="utf-8")
    assert scored(invoke, "same.conllu", "--gold", "test.conllu")["accuracy"] == 1.0


def test_tags_of_columns_that_have_no_name(empty: Path, invoke: Invoke) -> None:
    record = {"words": ["Ann", "saw", "Oslo"], "tags": ["B-PER", "O", "O"], "tag_probability": [0.9, 0.8, 0.4]}
    Path("out.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    Path("gold.txt").write_text("Ann B-PER\nsaw O\nOslo B-LOC\n", encoding="utf-8")
    found = scored(invoke, "out.jsonl", "--gold", "gold.txt")
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["error_auroc"] == 1.0
    abstained = {**record, "tags": ["B-PER", "O", "_"]}
    Path("out.jsonl").write_text(json.dumps(abstained) + "\n", encoding="utf-8")
    found = scored(invoke, "out.jsonl", "--gold", "gold.txt")
    assert (found["number"], found["abstained"], found["accuracy"]) == (2, 1, 1.0)


def test_entities_beside_gold_tags_of_any_scheme(empty: Path, invoke: Invoke) -> None:
    schemes = ("B-PER I-PER B-PER", "I-PER I-PER B-PER", "B-PER E-PER S-PER", "PER_B PER_L PER_U", "b-PER i-PER b-PER")
    for gold, tags in itertools.product(schemes, ("B-PER I-PER B-PER", "B-PER E-PER S-PER")):
        Path("gold.txt").write_text("".join(f"{word} {tag}\n" for word, tag in zip("abc", gold.split(), strict=True)))
        record = {"words": [*"abc"], "tags": tags.split(), "tag_probability": [0.9, 0.8, 0.4], "entities": []}
        Path("out.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
        assert scored(invoke, "out.jsonl", "--gold", "gold.txt")["accuracy"] == 1.0


@pytest.mark.parametrize("form", ["jsonl", "conllu"])
def test_labels_of_sentences(form: str, empty: Path, invoke: Invoke) -> None:
    rows = [{"words": text.split(), "label": label, "label_probability": p} for text, label, p in LABELS]
    if form == "jsonl":
        several = [[{"label": a, "probability": p}, {"label": b, "probability": 1 - p}] for (a, b), p in (
            (("pos", "neg") if label == "pos" else ("neg", "pos"), p) for _, label, p in LABELS
        )]  # fmt: skip
        lines = [json.dumps(one | {"label_alternatives": two}) for one, two in zip(rows, several, strict=True)]
        Path("out.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        blocks = [
            f"# label = {label}\n# label_probability = {p}\n"
            + "".join(f"{i}\t{word}" + "\t_" * 8 + "\n" for i, word in enumerate(text.split(), start=1))
            for text, label, p in LABELS
        ]
        Path("out.conllu").write_text("\n".join(blocks) + "\n", encoding="utf-8")
    Path("gold.tsv").write_text(
        "".join(f"{text}\t{gold}\n" for (text, _, _), gold in zip(LABELS, GOLD, strict=True)), encoding="utf-8"
    )
    found = scored(invoke, f"out.{form}", "--gold", "gold.tsv")
    rows_of_csv = "".join(f'"{text}",{gold}\n' for (text, _, _), gold in zip(LABELS, GOLD, strict=True))
    Path("gold.csv").write_text(rows_of_csv, encoding="utf-8")
    assert scored(invoke, f"out.{form}", "--gold", "gold.csv") == found
    confidence = np.array([p for _, _, p in LABELS])
    right = np.array([label == gold for (_, label, _), gold in zip(LABELS, GOLD, strict=True)])
    assert found["ece"] == pytest.approx(uncertainty.calibration_error(confidence, right))
    assert found["aurc"] == pytest.approx(uncertainty.risk_coverage_area(confidence, right))
    assert found["accuracy"] == 0.5
    squares = [2 * (1 - p) ** 2 if good else 2 * p**2 for p, good in zip(confidence, right, strict=True)]
    assert found.get("brier") == (pytest.approx(np.mean(squares)) if form == "jsonl" else None)
    refused(invoke("score", "calibration", f"out.{form}", "--gold", "gold.tsv", "--column", "upos"), 2, "no column")


FAULTY = [
    ('{"words": ["a"]}', "out.jsonl:1: not a prediction (KeyError: 'tags')"),
    ('{"words": ["a"], "tags": ["X"], "tag_probability": [1.5]}', "out.jsonl:1: 1.5 is not a probability"),
    ('{"words": ["a"], "tags": ["X"], "tag_probability": [null]}', "None is not a probability"),
    ('{"words": ["a"], "tags": ["X", "Y"], "tag_probability": [0.5, 0.5]}', "1 words, 2 tags"),
    ('{"words": ["b"], "tags": ["X"], "tag_probability": [0.5]}', "out.jsonl:1: other words than gold.txt:1"),
    ('{"words": 3, "tags": ["X"], "tag_probability": [0.5]}', "not a prediction"),
    ("{", "not a prediction"),
    (f'{{"words": ["a"], "tags": ["X"], "tag_probability": [{"9" * 400}]}}', "is not a probability"),
    ("", "out.jsonl: there is no sentence in it"),
]


def test_lines_that_are_no_predictions(empty: Path, invoke: Invoke) -> None:
    Path("gold.txt").write_text("a X\n", encoding="utf-8")
    for line, words in FAULTY:
        Path("out.jsonl").write_text(line, encoding="utf-8")
        refused(invoke("score", "calibration", "out.jsonl", "--gold", "gold.txt"), 3, words)


def test_what_does_not_fit_is_refused(copied: Path, invoke: Invoke) -> None:
    refused(invoke("score", "calibration", "test.conllu"), 2, "score calibration needs the gold labels")
    conllu = parsed(invoke, "out.conllu", "--prob")
    refused(invoke("score", "calibration", conllu, "--gold", "dev.conllu"), 3, "other words than")
    refused(invoke("score", "trees", conllu, "--gold", "test.conllu", "--column", "upos"), 2, "--column upos: not of")


def test_gold_files_of_any_name(copied: Path, invoke: Invoke) -> None:
    conllu = parsed(invoke, "out.conllu", "--prob")
    wanted = scored(invoke, conllu, "--gold", "test.conllu", "--column", "xpos")
    for name in ("gold.conll", "gold.txt"):
        Path(name).write_bytes(Path("test.conllu").read_bytes())
        assert scored(invoke, conllu, "--gold", name, "--column", "xpos") == wanted
