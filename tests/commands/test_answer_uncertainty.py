"""How uncertain every answer of `parse` says it is, for every kind of task, and what is left out for it."""

from __future__ import annotations

import math
from contextlib import chdir
from pathlib import Path

import pytest
from run_of_every_task import OVERRIDES, Say, rows
from support import Invoke, refused


@pytest.mark.parametrize("task", sorted(OVERRIDES.keys() - {"cogs", "openie", "coordination"}))
def test_every_answer_says_how_uncertain_it_is(task: str, say: Say) -> None:
    """Beside the same answers; without members there is no mutual information."""
    plain, doubtful = (say.record(task, *flags) for flags in ([], ["--uncertainty"]))
    inside = {"latent_label_entropy", "head_entropy"}
    assert all(len(doubtful[name]) == len(doubtful["words"]) for name in inside)
    if task in ("mlm", "pretrain"):
        (mask,), (same,) = doubtful["masks"], plain["masks"]
        assert mask.keys() - same.keys() == {"entropy"}
        assert mask["words"] == same["words"]
        assert ("pair_entropy" in doubtful) == (task == "pretrain")
    elif task == "classification":
        assert doubtful.keys() - plain.keys() == {"label_entropy", *inside}
        chance = doubtful["label_probability"]  # of two labels
        wanted = -sum(p * math.log(p) for p in (chance, 1 - chance) if p)
        assert doubtful["label_entropy"] == pytest.approx(wanted, abs=1e-4)
        comments = say(task, "--uncertainty").splitlines()
        assert f"# uncertainty = {doubtful['label_entropy']:.4f}" in comments
    elif task == "lm":
        assert doubtful.keys() - plain.keys() == inside
    elif task == "parsing":
        assert doubtful.keys() - plain.keys() == {"upos_entropy", *inside}
        assert doubtful["heads"] == plain["heads"]
        assert all("UPOSEntropy=" in row[9] for row in rows(say(task, "--uncertainty")))
    else:
        assert doubtful.keys() - plain.keys() == {"tag_entropy", *inside}
        assert doubtful["tags"] == plain["tags"]
        entries = [row[9].split("|") for row in rows(say(task, "--uncertainty"))]
        assert all(any(one.startswith("TagEntropy=") for one in of_word) for of_word in entries)


def test_abstention_leaves_out_entities_and_labels(say: Say) -> None:
    record = say.record("ner")
    assert record["entities"]
    least = (min(record["tag_probability"][1:3]) + 1.0) / 2  # more than a tag of the entity has
    left = say.record("ner", "--abstain", str(least))
    assert "_" in left["tags"]
    assert left["entities"] == []
    assert "NE=" not in say("ner", "--abstain", str(least))
    assert say.record("classification", "--abstain", "1")["label"] == "_"
    assert "# label = _\n" in say("classification", "--abstain", "1")


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("cogs", ["--uncertainty"], "--uncertainty: a task of kind cogs"),
        ("cogs", ["--dropout-samples", "3"], "--dropout-samples: a task of kind cogs"),
        ("cogs", ["--abstain", "0.5"], "--abstain: a task of kind cogs"),
        ("tagging", ["--dropout-samples", "3"], "was trained without dropout"),
    ],
)
def test_tasks_without_uncertainty_say_so(
    task: str, options: list[str], words: str, runs: Path, invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("Ann sang .\n", encoding="utf-8")
    run = str(runs / "runs" / task)
    refused(invoke("parse", run, str(tmp_path / "in.txt"), *options), 2, words)
    if task == "cogs" and options[0] != "--abstain":
        refused(invoke("eval", run, "--split", "dev", *options), 2, words)


@pytest.mark.parametrize(("task", "name"), [("ner", "plain.txt"), ("classification", "dev.conllu"), ("ner", "own.txt")])
def test_words_are_enough_for_another_text(task: str, name: str, runs: Path, invoke: Invoke, tmp_path: Path) -> None:
    """CoNLL-U, the format of the data, or sentences that have nothing but words."""
    (tmp_path / "plain.txt").write_text("zzz yyy\nxxx www vvv\n", "utf-8")
    (tmp_path / "dev.conllu").write_text((runs / "dev.conllu").read_text("utf-8"), "utf-8")
    (tmp_path / "own.txt").write_text((runs / {"ner": "ner.txt"}.get(task, "texts.tsv")).read_text("utf-8"), "utf-8")
    with chdir(runs):
        ran = invoke("eval", f"runs/{task}", "--split", "dev", "--ood", str(tmp_path / name), "--json")
    assert ran.code == 0, ran.err
    found = ran.json["scores"]["dev"]["ood"]
    assert found["sentences"] == {"plain.txt": 2, "dev.conllu": 12, "own.txt": 8}[name]
    assert ("read as text, a sentence a line" in ran.err) == (name == "plain.txt")
    if name == "own.txt":
        assert found["ood_auroc"] == pytest.approx(0.5)
