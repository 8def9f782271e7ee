"""Recall and precision of gold relations, channel by channel: against loops, by invariants, and from the command."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Invoke

from probtrans_cli.reports.scores import relation_report
from probtrans_cli.trees.forest import Forest, nearest_rarer, untrained_bias
from probtrans_cli.trees.score import bootstrap_weights, relation_scores

RULES = ("next_word", "previous_word", "nearest_rarer", "untrained_bias")
RELATIONS = ("root", "nsubj", "nsubj:pass", "det", "_")


@st.composite
def corpora(draw: st.DrawFn) -> dict[str, Any]:
    """A few sentences with any heads (circles included), relations, punctuation and counts, and two channels."""
    lengths = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))

    def heads() -> list[np.ndarray]:
        return [np.array([draw(st.integers(0, n)) for _ in range(n)], dtype=np.int64) for n in lengths]

    return {
        "gold": heads(),
        "relations": [draw(st.sampled_from(RELATIONS)) for _ in range(sum(lengths))],
        "predicted": {"0": heads(), "1": heads(), "mean": heads()},
        "punct": [np.array([draw(st.booleans()) for _ in range(n)], dtype=bool) for n in lengths],
        "frequency": [np.array([draw(st.integers(0, 3)) for _ in range(n)], dtype=np.int64) for n in lengths],
    }


def without(heads: np.ndarray, punct: np.ndarray) -> list[int]:
    """Heads of the kept words, as the package takes punctuation out; that is tested elsewhere, word by word."""
    return Forest.of([heads]).restricted(~punct).heads.tolist()


def by_rules(counts: Sequence[int]) -> dict[str, list[int]]:
    """Heads of a sentence by each rule; ``counts`` of its words in training."""
    n = len(counts)
    return {
        "next_word": [*range(2, n + 1), 0],
        "previous_word": [*range(n)],
        "nearest_rarer": nearest_rarer(np.array(counts)).tolist(),
        "untrained_bias": untrained_bias(np.array(counts), np.array([n])).tolist(),
    }


def counted(corpus: dict[str, Any], convention: str, *, fold: bool) -> dict[str, Counter[str]]:
    """Words and arcs of every relation, and how many of them each channel and rule has: word by word."""
    result: dict[str, Counter[str]] = {}
    start = 0
    for index, gold in enumerate(corpus["gold"]):
        n = len(gold)
        removed = corpus["punct"][index] if convention == "no_punct" else np.zeros(n, dtype=bool)
        labels = [corpus["relations"][start + i] for i in range(n) if not removed[i]]
        counts = [corpus["frequency"][index][i] for i in range(n) if not removed[i]]
        start += n
        tree = without(gold, removed)
        others = {channel: without(heads[index], removed) for channel, heads in corpus["predicted"].items()}
        rules = by_rules(counts) if tree else {}
        for i, head in enumerate(tree):
            tally = result.setdefault(labels[i].split(":")[0] if fold else labels[i], Counter())
            tally["words"] += 1
            tally["edges"] += head > 0
            for name, other in {**others, **rules}.items():
                tally[f"right {name}"] += other[i] == head
                tally[f"either {name}"] += head > 0 and (other[i] == head or other[head - 1] == i + 1)
    return result


def share(part: int, whole: int) -> Any:
    return pytest.approx(part / whole) if whole else None


@settings(max_examples=40)
@given(corpora())
def test_tables_agree_with_counting_word_by_word(corpus: dict[str, Any]) -> None:
    found = relation_scores(**corpus)
    assert list(found) == ["no_punct", "with_punct"]
    for convention, tables in found.items():
        for name, fold in (("relations", True), ("subtypes", False)):
            expected = counted(corpus, convention, fold=fold)
            total = sum(tally["words"] for tally in expected.values())
            if not fold:
                expected = {label: tally for label, tally in expected.items() if ":" in label}
            order = sorted(expected, key=lambda label: (-expected[label]["words"], label))
            assert list(tables[name]) == order
            for label, row in tables[name].items():
                tally = expected[label]
                assert row["words"] == tally["words"]
                for channel in corpus["predicted"]:
                    right = tally[f"right {channel}"]
                    assert row["recall"][channel] == share(right, tally["words"])
                    assert row["precision"][channel] == share(right, total)
                    assert row["undirected"][channel] == share(tally[f"either {channel}"], tally["edges"])
                assert row["floors"] == {rule: share(tally[f"right {rule}"], tally["words"]) for rule in RULES}
                best, floor = row["best"]["channel"], row["best"]["floor"]
                assert best == max("01", key=lambda channel: tally[f"right {channel}"])  # the first of equals
                assert floor == max(RULES, key=lambda rule: tally[f"right {rule}"])
                difference = tally[f"right {best}"] - tally[f"right {floor}"]
                assert row["best"]["above_floor"] == share(difference, tally["words"])


@settings(max_examples=40)
@given(corpora())
def test_without_punctuation_both_conventions_are_one(corpus: dict[str, Any]) -> None:
    corpus["punct"] = [np.zeros(len(heads), dtype=bool) for heads in corpus["gold"]]
    found = relation_scores(**corpus)
    assert found["no_punct"] == found["with_punct"]
    assert relation_scores(**{**corpus, "punct": None}) == {"with_punct": found["with_punct"]}


def test_the_specialist_above_the_floor() -> None:
    """Of 40 sentences `fast dogs bark`, where channel 1 has all determiners but every fourth, the next word all."""
    gold = [np.array([2, 3, 0])] * 40
    channel = [np.array([3 if index % 4 == 0 else 2, 1, 0]) for index in range(40)]
    predicted = {"0": [np.array([3, 1, 0])] * 40, "1": channel, "mean": gold}
    counts = [np.array([1, 1, 1])] * 40
    row = relation_scores(gold, ["det", "nsubj", "root"] * 40, predicted, None, counts)["with_punct"]["relations"]
    assert row["det"]["recall"] == {"0": 0.0, "1": 0.75, "mean": 1.0}
    assert row["det"]["undirected"] == {"0": 1.0, "1": 1.0, "mean": 1.0}
    assert row["det"]["best"]["channel"] == "1"  # the mean is no channel
    assert row["det"]["best"]["above_floor"] == -0.25
    low, high = row["det"]["best"]["above_floor_interval"]
    # a fourth of 40 independent sentences: 1.96 standard errors are 0.134
    assert low == pytest.approx(-0.25 - 0.134, abs=0.03)
    assert high == pytest.approx(-0.25 + 0.134, abs=0.03)
    assert row["root"]["undirected"] == {"0": None, "1": None, "mean": None}
    assert row["nsubj"]["best"] == {
        "channel": "0",
        "floor": "next_word",
        "above_floor": -1.0,
        "above_floor_interval": [-1.0, -1.0],
    }


def test_intervals_above_the_floor_agree_with_drawing_in_a_loop() -> None:
    random = np.random.default_rng(3)
    lengths = random.integers(1, 7, 30)
    gold, first, second = ([random.integers(0, n + 1, n) for n in lengths] for _ in range(3))
    labels = [str(label) for label in random.choice(["a", "b", "c:d"], lengths.sum())]
    counts = [random.integers(0, 5, n) for n in lengths]
    table = relation_scores(gold, labels, {"0": first, "1": second}, None, counts)["with_punct"]["relations"]
    starts = np.cumsum(lengths) - lengths
    for label, row in table.items():
        heads = {"0": first, "1": second}[row["best"]["channel"]]
        gains, words = [0] * len(gold), [0] * len(gold)
        for index, (n, start) in enumerate(zip(lengths, starts, strict=True)):
            rules = by_rules(counts[index])
            for i in range(n):
                if labels[start + i].split(":")[0] == label:
                    words[index] += 1
                    gains[index] += int(heads[index][i] == gold[index][i])
                    gains[index] -= int(rules[row["best"]["floor"]][i] == gold[index][i])
        values = []
        for draw in bootstrap_weights(len(gold)):
            drawn = np.repeat(np.arange(len(gold)), draw)
            values.append(sum(gains[index] for index in drawn) / sum(words[index] for index in drawn))
        expected = np.quantile(values, [0.025, 0.975])
        assert row["best"]["above_floor_interval"] == pytest.approx(expected.tolist(), rel=1e-5)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def test_eval_relations(here: Path, invoke: Invoke) -> None:
    plain = invoke("eval", "runs/tiny", "--json").json["scores"]["test"]
    found = invoke("eval", "runs/tiny", "--json", "--relations", "--channel", "all").json["scores"]["test"]
    relations = found["trees"].pop("relations")
    channels = found.pop("channels")
    assert found == plain | {"trees": found["trees"]}
    gold = [line.split("\t") for line in (here / "test.conllu").read_text("utf-8").splitlines() if line[:1].isdigit()]
    expected = Counter(columns[7].partition(":")[0] for columns in gold if columns[0].isdigit())
    rows = relations["with_punct"]["relations"]
    assert {name: row["words"] for name, row in rows.items()} == expected
    for channel, trees in channels.items():
        uas = sum(row["precision"][channel] for row in rows.values())
        assert uas == pytest.approx(trees["with_punct"]["all"]["uas"])


def test_eval_relations_is_printed(here: Path, invoke: Invoke) -> None:
    text = invoke("eval", "runs/tiny", "--relations").out
    for part in ("gold relations:", "recall: ", "precision: ", "\n nsubj ", "channel ", "above it"):
        assert part in text
    assert "gold relations:" not in invoke("eval", "runs/tiny").out


def test_relations_need_gold_trees(here: Path, invoke: Invoke) -> None:
    (here / "words.txt").write_text("the farmer feeds the goat\n", encoding="utf-8")
    text = (here / "test.conllu").read_text("utf-8").splitlines()
    blank = ["\t".join([*c[:7], "_", *c[8:]]) if len(c := line.split("\t")) == 10 else line for line in text]
    (here / "blank.conllu").write_text("\n".join(blank) + "\n\n", encoding="utf-8")
    for name in ("words.txt", "blank.conllu"):
        ran = invoke("eval", "runs/tiny", name, "--relations")
        assert ran.code == 3
        assert name in ran.err
        assert "DEPREL" in ran.err


def test_a_relation_is_only_data_in_the_report() -> None:
    gold = [np.array([2, 0])]
    found = relation_scores(gold, ["[red]x\x1b[2J", "root"], {"0": gold, "mean": gold}, None, [np.array([1, 1])])
    text = relation_report({"relations": json.loads(json.dumps(found)), "reading": {"channel": "mean"}})
    assert "[red]x" in text
    assert "\x1b" not in text
    assert " 100*" in text
