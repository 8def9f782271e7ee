"""`score carb`, `score wire57` and `score coordination`: files of any system, their options, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Invoke, refused

from probtrans_cli.reports.scores import shown

GOLD = "I ate an apple and an orange .\tate\tI\tan apple\nI ate an apple and an orange .\tate\tI\tan orange\n"
CARB = "I ate an apple and an orange .\t0.5\tate\tI\tan apple and an orange\nIt rains .\t0.9\trains\tIt\n"
TAGGED = "I ate an apple and an orange.\t<arg1>I</arg1> <rel>ate</rel> <arg2>an apple and an orange</arg2>\t0.5\n"
JSON = json.dumps(
    {
        "words": ["I", "ate", "an", "apple", "and", "an", "orange", "."],
        "tuples": [{"arg1": "I", "rel": "ate", "arg2": "an apple and an orange", "confidence": 0.5}],
    }
)
NOTHING = '{"text": "I ate an apple and an orange .", "tuples": []}\n'
ROWS = "A or B or C\nCP_START CC CP NONE NONE\n\nA or B or C\nNONE NONE CP_START CC CP\n"
GOLD_ROWS = "A or B or C\nCP_START CC CP NONE NONE\n\nA or B or C\nNONE NONE NONE NONE NONE\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("gold.tsv").write_text(GOLD)
    Path("gold.txt").write_text(GOLD_ROWS)
    return tmp_path


@pytest.mark.parametrize("text", [CARB, TAGGED, JSON])
def test_carb_in_every_form(text: str, invoke: Invoke) -> None:
    Path("ours").write_text(text)
    ran = invoke("score", "carb", "ours", "--gold", "gold.tsv", "--json")
    assert ran.code == 0, ran.err
    scores = ran.json["scores"]
    assert (scores["auc"], scores["precision"], scores["recall"], scores["f1"]) == (0.7857, 0.5714, 1.0, 0.7273)
    assert (scores["last_precision"], scores["last_recall"], scores["last_f1"]) == (0.5714, 1.0, 0.7273)
    assert (scores["gold_tuples"], scores["tuples"], scores["not_in_gold"]) == (2, 1, int(text == CARB))
    ran = invoke("score", "carb", "ours", "--gold", "gold.tsv", "--single-match")
    assert "auc 39.29 %, f1 53.33 %, precision 57.14 %, recall 50.00 %" in ran.out


ZERO = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "sentences_without_tuple": 1.0}
ODD = "A b c .\t\tA\tc\nA b c .\tb\tA\tc\tC: here\nD e .\te\tD\n"


@pytest.mark.parametrize(
    ("command", "predictions", "gold", "expected"),
    [
        ("wire57", GOLD, GOLD, {"f1": 1.0, "precision": 1.0, "recall": 1.0}),
        ("carb --default-confidence 0.5", GOLD, GOLD, {"auc": 1.0}),
        ("carb", NOTHING, GOLD, ZERO),
        ("wire57", NOTHING, GOLD, ZERO),
        # A tuple without a relation fits nothing, not even itself: so the published scorer counts it.
        ("carb --default-confidence 1", ODD, ODD, {"precision": 0.6667, "recall": 0.6667, "auc": 0.5556}),
    ],
    ids=["wire57", "default", "carb-of-nothing", "wire57-of-nothing", "no-relation"],
)
def test_predictions_without_confidences_or_without_tuples(
    command: str, predictions: str, gold: str, expected: dict[str, float], invoke: Invoke
) -> None:
    Path("ours").write_text(predictions)
    Path("gold.tsv").write_text(gold)
    scores = invoke("score", *command.split(), "ours", "--gold", "gold.tsv", "--json").json["scores"]
    assert {name: scores[name] for name in expected} == expected


def test_coordinations(invoke: Invoke) -> None:
    Path("ours").write_text(ROWS)
    ran = invoke("score", "coordination", "ours", "--gold", "gold.txt", "--json")
    assert ran.code == 0, ran.err
    scores = ran.json["scores"]
    assert (scores["precision"], scores["recall"]) == (0.5, 1.0)
    assert scores["criteria"]["inner"]["precision"] == 0.5
    assert (scores["sentences"], scores["gold_coordinations"], scores["coordinations"]) == (2, 1, 2)
    scores = invoke("score", "coordination", "ours", "--gold", "gold.txt", "--compat", "o6", "--json").json["scores"]
    assert (scores["precision"], scores["coordinations"]) == (1.0, 1)
    ran = invoke("score", "coordination", "ours", "--gold", "gold.txt")
    assert "f1_whole 66.67 %" in ran.out


def test_coordinations_that_cannot_be_read_get_a_hint_that_fits(invoke: Invoke) -> None:
    """There is no recipe, and other forms are called by their names."""
    Path("short.txt").write_text("A or B or C\nCP_START CC\n")
    ran = invoke("score", "coordination", "short.txt", "--gold", "gold.txt")
    refused(ran, 3, "short.txt:2: 2 tags of the 5 words of short.txt:1", "one for every word: mend the file")
    assert "data.grid" not in ran.err
    rows = "".join(f"{i}\t{word}" + "\t_" * 8 + "\n" for i, word in enumerate(["A", "or", "B", "or", "C"], start=1))
    Path("trees.conllu").write_text(f"# sent_id = 1\n{rows}\n")
    for files in (("trees.conllu", "--gold", "gold.txt"), ("gold.txt", "--gold", "trees.conllu")):
        ran = invoke("score", "coordination", *files)
        refused(ran, 3, "trees.conllu: this is CoNLL-U", "rows of labels (`parse -f labels`) or JSON lines")


def test_all_shares_are_in_percent(invoke: Invoke) -> None:
    Path("ours").write_text(CARB)
    out = invoke("score", "carb", "ours", "--gold", "gold.tsv").out
    assert "last_recall 100.00 %" in out
    for name in ("auc_single", "wire57_f1", "floor_f1", "floor_auc", "inner", "outer", "whole", "precision_exact",
                 "recall_inner", "last_precision", "f1_strict", "accuracy_known"):  # fmt: skip
        assert shown(name, 0.5) == "50.00 %", name
    for name in ("loss", "tuples_per_word", "violations_ec", "perplexity", "sentences"):
        assert shown(name, 0.5) == "0.5", name


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["carb", "gold.tsv"], 2, "score carb needs the gold tuples"),
        (["wire57", "gold.tsv"], 2, "score wire57 needs the gold tuples"),
        (["carb", "gold.tsv", "--gold", "gold.tsv"], 3, "--default-confidence X is taken where there is none"),
        (["carb", "gold.tsv", "--gold", "gold.tsv"], 3, "gold.tsv:1: 'ate' is no confidence"),
        (["coordination", "gold.txt"], 2, "score coordination needs the gold coordinations"),
        (["wire57", "gold.tsv", "--gold", "gold.tsv", "--single-match"], 2, "--single-match: not of wire57"),
        (["wire57", "gold.tsv", "--default-confidence", "1"], 2, "--default-confidence 1.0: not of wire57"),
        (["carb", "gold.tsv", "--gold", "gold.tsv", "--compat", "o6"], 2, "--compat o6: not of carb"),
        (["carb", "gold.tsv", "--gold", "gold.tsv", "--column", "xpos"], 2, "--column xpos: not of carb"),
        (["carb", "empty", "--gold", "empty"], 3, "empty: there is no tuple in it"),
        (["carb", "empty", "--gold", "gold.tsv"], 3, "empty: there is nothing in it to score"),
        (["wire57", "empty", "--gold", "gold.tsv"], 3, "empty: there is nothing in it to score"),
        (["carb", "gold.tsv", "--gold", "one.tsv"], 3, "one.tsv:1: a gold tuple without a relation"),
        (["coordination", "empty", "--gold", "empty"], 3, "empty: there is no sentence in it"),
        (["coordination", "other.txt", "--gold", "gold.txt"], 3, "other.txt:1: other words than gold.txt:1"),
        (["coordination", "empty", "--gold", "gold.txt"], 3, "empty: fewer sentences than gold.txt"),
        (["coordination", "gold.txt", "--gold", "one.tsv"], 3, "gold.txt:1: other words than one.tsv:1"),
    ],
)
def test_what_is_refused(arguments: list[str], code: int, message: str, invoke: Invoke) -> None:
    Path("empty").write_text("")
    Path("one.tsv").write_text("only a sentence\n")
    Path("other.txt").write_text("A and B or C\n\n")
    refused(invoke("score", *arguments), code, message)
