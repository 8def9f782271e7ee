"""Scores of parses against the script of the shared task, and their groups against loops."""

from __future__ import annotations

import io
import random
from collections import Counter
from typing import Any

import pytest
from udtools.udeval import evaluate, load_conllu

from probtrans_cli.statistics.parse_scores import Row, parse_counts, parse_details, parse_scores

NAMES = {"uas": "UAS", "las": "LAS", "clas": "CLAS", "mlas": "MLAS", "upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats"}
RELATIONS = ["nsubj", "obj", "nmod:poss", "nmod", "det", "case", "aux:pass", "cc", "punct", "conj", "mark", "odd"]
FEATS = ["_", "Number=Sing", "Number=Plur|Typo=Yes", "Number=Plur", "Case=Nom|Number=Sing", "Typo=Yes"]


def random_tree(words: int, draw: random.Random) -> list[Row]:
    order = draw.sample(range(1, words + 1), words)
    heads = {word: draw.choice(order[:place]) if place else 0 for place, word in enumerate(order)}
    return [
        Row(
            heads[word],
            draw.choice(RELATIONS) if heads[word] else "root",
            draw.choice(["NOUN", "VERB"]),
            draw.choice(["A", "B", "_"]),
            draw.choice(FEATS),
        )
        for word in range(1, words + 1)
    ]


def changed(rows: list[Row], draw: random.Random) -> list[Row]:
    """The same sentence with errors: another tree at times, other annotations at others."""
    other = random_tree(len(rows), draw)
    tree = draw.random() < 0.5
    return [
        (theirs if tree else row)._replace(
            **{name: getattr(theirs, name) for name in ("upos", "xpos", "feats") if draw.random() < 0.3}
        )
        for row, theirs in zip(rows, other, strict=True)
    ]


def written(sentences: list[list[Row]]) -> str:
    lines = []
    for rows in sentences:
        for number, row in enumerate(rows, start=1):
            lines.append(f"{number}\tw\t_\t{row.upos}\t{row.xpos}\t{row.feats}\t{row.head}\t{row.relation}\t_\t_")
        lines.append("")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("seed", range(10))
def test_scores_are_those_of_udeval(seed: int) -> None:
    draw = random.Random(seed)
    gold = [random_tree(draw.randint(1, 9), draw) for _ in range(30)]
    predicted = [changed(rows, draw) for rows in gold]
    counts: Counter[Any] = Counter()
    for pair in zip(gold, predicted, strict=True):
        counts.update(parse_counts([pair]))
    theirs = evaluate(*(load_conllu(io.StringIO(written(each)), "", {}) for each in (gold, predicted)))
    assert parse_scores(counts) == {name: pytest.approx(theirs[title].f1, abs=0) for name, title in NAMES.items()}
    details = parse_details(counts)
    for name, share in parse_scores(counts).items():
        low, high = details[f"{name}_interval"]
        assert 0.0 <= low <= share <= high <= 1.0


def test_groups_are_counted_by_gold_and_by_predicted_arcs() -> None:
    gold = [Row(0, "root", "V", "_", "_"), *(Row(1, "obj", "N", "_", "_") for _ in range(10))]
    predicted = [*gold[:2], Row(2, "obj", "N", "_", "_"), Row(1, "nmod:x", "N", "_", "_"), *gold[4:]]
    groups = parse_details(parse_counts([(gold, predicted)]), [])["groups"]
    assert groups["length"] == {"11-20": {"words": 11, "predicted": 11, "uas": 10 / 11, "las": 9 / 11,
                                          "precision": 9 / 11}}  # fmt: skip
    assert list(groups["relation"]) == ["obj", "root", "nmod"]
    assert groups["relation"]["obj"] == {"words": 10, "predicted": 9, "uas": 0.9, "las": 0.8, "precision": 8 / 9}
    assert groups["relation"]["nmod"] == {"words": 0, "predicted": 1, "uas": None, "las": None, "precision": 0.0}
    words = {name: (group["words"], group["predicted"]) for name, group in groups["distance"].items()}
    assert words == {"root": (1, 1), "1": (1, 2), "2": (1, 0), "3-5": (3, 3), "6-9": (4, 4), "10+": (1, 1)}
    assert groups["distance"]["1"]["precision"] == 0.5


def test_sentences_of_other_lengths_are_refused() -> None:
    row = Row(0, "root", "V", "_", "_")
    with pytest.raises(ValueError, match="2 words for 1"):
        parse_counts([([row], [row, row])])
