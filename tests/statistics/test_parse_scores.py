"""Scores of parses and of `score trees` against the script of the shared task (`udtools`), and their groups."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import real_data
from udtools.udeval import evaluate, load_conllu

from probtrans_cli.data.files import open_lines
from probtrans_cli.reports.scorers.annotations import score_trees
from probtrans_cli.statistics.parse_scores import Row, parse_counts, parse_details, parse_scores

NAMES = {"uas": "UAS", "las": "LAS", "clas": "CLAS", "mlas": "MLAS", "upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats"}
RELATIONS = ["nsubj", "obj", "nmod:poss", "nmod", "det", "case", "aux:pass", "cc", "punct", "conj", "mark", "odd"]
FEATURES = ["_", "Number=Sing", "Number=Plur|Typo=Yes", "Number=Plur", "Case=Nom|Number=Sing", "Typo=Yes"]


def random_tree(words: int, draw: random.Random) -> list[Row]:
    order = draw.sample(range(1, words + 1), words)
    heads = {word: draw.choice(order[:place]) if place else 0 for place, word in enumerate(order)}
    return [
        Row(
            heads[word],
            draw.choice(RELATIONS) if heads[word] else "root",
            draw.choice(["NOUN", "VERB"]),
            draw.choice(["A", "B", "_"]),
            draw.choice(FEATURES),
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


# --- the files of `score trees` ---------------------------------------------------------------------------------------

TREEBANKS = (
    "wo_wtb", "en_ewt", "ug_udt", "af_afribooms", "fr_sequoia", "el_gdt", "hu_szeged", "mt_mudt", "tr_imst",
)  # fmt: skip
UPOS, XPOS, FEATS, HEAD, DEPREL = 3, 4, 5, 6, 7


def perturbed(heads: list[int], random: np.random.Generator) -> list[int]:
    """Another tree with one root: about a third of the words hang elsewhere, none below itself."""
    result = list(heads)
    for word in random.permutation(len(heads)) + 1:
        if result[word - 1] == 0 or random.random() > 1 / 3:
            continue
        head = int(random.integers(1, len(heads) + 1))
        above = head
        while above not in (0, word):
            above = result[above - 1]
        if above == 0:
            result[word - 1] = head
    return result


def with_errors(lines: list[str], random: np.random.Generator) -> list[str]:
    """The same file with other heads, and with some tags, features and relations of other words."""
    rows = [line.split("\t") for line in lines]
    words = [row for row in rows if row[0].isdigit()]
    of_others = {column: [row[column] for row in words] for column in (UPOS, XPOS, FEATS, DEPREL)}
    sentence: list[list[str]] = []
    for row in [*rows, [""]]:
        if row[0].isdigit():
            sentence.append(row)
        elif not row[0] and sentence:
            heads = perturbed([int(word[HEAD]) for word in sentence], random)
            for word, head in zip(sentence, heads, strict=True):
                for column, values in of_others.items():
                    other = values[random.integers(len(values))]
                    if random.random() < 0.1 and (column != DEPREL or (head and other != "root")):
                        word[column] = other
                word[HEAD] = str(head)
            sentence = []
    return ["\t".join(row) for row in rows]


@pytest.mark.parametrize(
    ("treebank", "sentences"),
    [("wo_wtb", 100), *(pytest.param(name, None, marks=pytest.mark.slow) for name in TREEBANKS)],
)
def test_scores_are_those_of_the_official_scorer(treebank: str, sentences: int | None, tmp_path: Path) -> None:
    """Digit by digit, and sums over groups are those over all words."""
    lines = list(open_lines(real_data(f"ud/{treebank}/test.conllu")))
    ends = [number for number, line in enumerate(lines, start=1) if not line]
    lines = lines[: ends[-1 if sentences is None else sentences - 1]]
    path, other = tmp_path / "gold.conllu", tmp_path / "other.conllu"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    other.write_text("\n".join(with_errors(lines, np.random.default_rng(1))) + "\n", encoding="utf-8")
    texts = (path.read_text("utf-8"), other.read_text("utf-8"))
    official = evaluate(*(load_conllu(io.StringIO(text), treebank, {}) for text in texts))
    ours = score_trees(str(other), str(path))
    assert {name: ours[name] for name in NAMES if name in ours} == {
        name: official[title].f1 for name, title in NAMES.items() if name in ours
    }
    assert set(NAMES) - set(ours) <= {"xpos"}, "a treebank without XPOS"
    assert 0.6 < ours["uas"] < 0.9
    assert ours["uas"] == ours["trees"]["with_punct"]["all"]["uas"]
    for groups in ours["groups"].values():
        assert sum(group["words"] for group in groups.values()) == official["UAS"].gold_total
        assert sum(group["predicted"] for group in groups.values()) == official["UAS"].gold_total
        for name in ("uas", "las"):
            right = sum(group["words"] * group[name] for group in groups.values() if group["words"])
            assert right == pytest.approx(ours[name] * official["UAS"].gold_total)
