"""`parse` of a tagger with `--uncertainty`, `--abstain`, `--dropout-samples`; of others: test_answer_uncertainty.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from run_of_every_task import rows
from support import Invoke, assert_near_text, refused

from probtrans_cli import load
from probtrans_cli.text import json_line

TEXT = "the old farmers near the river feed three hungry goats .\n\ngoats sleep\n"


@pytest.fixture
def text(here: Path, tmp_path: Path) -> str:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def records(invoke: Invoke, *arguments: str) -> list[dict[str, Any]]:
    return invoke("parse", "runs/tagger", *arguments, "-f", "jsonl").ok.records


def misc(invoke: Invoke, *arguments: str) -> tuple[list[dict[str, str]], list[str], list[str]]:
    """Entries of MISC and tags of all words, and the comments on the uncertainty."""
    ran = invoke("parse", "runs/tagger", *arguments).ok
    words = rows(ran.out)
    comments = [line for line in ran.out.splitlines() if line.startswith("# uncertainty")]
    return [dict(entry.split("=") for entry in row[9].split("|")) for row in words], [row[4] for row in words], comments


def test_entropies_are_those_of_all_tags(text: str, invoke: Invoke) -> None:
    first, _, last = records(invoke, text, "--uncertainty", "--top", "99")
    for record in (first, last):
        for entropy, several in zip(record["tag_entropy"], record["tag_alternatives"], strict=True):
            chances = [one["probability"] for one in several]
            assert entropy == pytest.approx(-sum(p * math.log(p) for p in chances if p), abs=1e-4)
    plain = records(invoke, text)
    assert [one.get("tags") for one in plain] == [one.get("tags") for one in records(invoke, text, "--uncertainty")]
    assert "tag_entropy" not in plain[0]


def test_one_pass_has_no_mutual_information_and_several_have(text: str, invoke: Invoke) -> None:
    plain, dropped = (records(invoke, text, "--uncertainty", *more)[0] for more in ([], ["--dropout-samples", "8"]))
    assert {"tag_mutual_information", "tag_expected_entropy"}.isdisjoint(plain)
    parts = zip(dropped["tag_entropy"], dropped["tag_expected_entropy"], dropped["tag_mutual_information"], strict=True)
    for whole, expected, information in parts:
        assert whole == pytest.approx(expected + information, abs=1e-5)
        assert information >= 0
    assert max(dropped["tag_mutual_information"]) > 1e-4
    assert dropped == records(invoke, text, "--uncertainty", "--dropout-samples", "8")[0]


def test_where_it_stands_in_conllu(text: str, invoke: Invoke) -> None:
    (first, _, last), number = records(invoke, text, "--uncertainty", "--dropout-samples", "3"), 0
    entries, tags, comments = misc(invoke, text, "--uncertainty", "--dropout-samples", "3")
    for record in (first, last):
        for place, tag in enumerate(record["tags"]):
            assert tags[number] == tag
            for name, key in (
                ("TagProb", "tag_probability"),
                ("TagEntropy", "tag_entropy"),
                ("TagMI", "tag_mutual_information"),
            ):
                assert float(entries[number][name]) == pytest.approx(record[key][place], abs=6e-5)
            number += 1
    for comment, record in zip(comments, (first, last), strict=True):
        means = [sum(record[key]) / len(record[key]) for key in ("tag_entropy", "tag_mutual_information")]
        assert [float(value) for value in comment.split("=")[1].split()] == pytest.approx(means, abs=6e-5)
    assert not {"LatentLabelEntropy", "HeadEntropy"} & entries[0].keys()  # not those of passes with dropout
    plain, _, comments = misc(invoke, text, "--uncertainty")
    assert "TagMI" not in plain[0]
    assert len(comments[0].split("=")[1].split()) == 1
    record = records(invoke, text, "--uncertainty")[0]
    for name, key in (("LatentLabelEntropy", "latent_label_entropy"), ("HeadEntropy", "head_entropy")):
        assert float(plain[0][name]) == pytest.approx(record[key][0], abs=6e-5)


def test_pictures_show_the_entropy(text: str, invoke: Invoke) -> None:
    record = records(invoke, text, "--uncertainty")[0]
    for form in ("tree", "html"):
        shown = invoke("parse", "runs/tagger", text, "-f", form, "--uncertainty").ok
        assert f"H {record['tag_entropy'][0]:.2f}" in shown.out
        assert f"H {record['tag_entropy'][0]:.2f}" not in invoke("parse", "runs/tagger", text, "-f", form).out


def test_inner_entropies_are_those_of_the_distributions(text: str, invoke: Invoke) -> None:
    """Of the latent labels, and of the heads in every channel after the last iteration."""
    record = records(invoke, text, "--uncertainty")[0]
    model = load("runs/tagger")
    section = model.recipe.model
    (found,) = model.analyze([record["words"]], latent_labels=section.labels)  # type: ignore[attr-defined]
    assert found.latent_labels is not None
    for mine, chances in zip(record["latent_label_entropy"], found.latent_labels[1].tolist(), strict=True):
        assert mine == pytest.approx(-sum(p * math.log(p) for p in chances if p), abs=1e-4)
    from probtrans_cli.data.corpus.store import Split
    from probtrans_cli.data.sentence import Sentence
    from probtrans_cli.trained.arcs import BatchOptions, word_batches

    split = Split.encode([Sentence(words=record["words"])], model.vocabulary, {})
    (batch,) = word_batches(model, split, BatchOptions(arcs=[section.iterations]))
    for word, mine in enumerate(record["head_entropy"]):
        of_channels = [
            -sum(p * math.log(p) for p in batch.arcs[0, 0, channel, word].tolist() if p)
            for channel in range(section.channels)
        ]
        assert mine == pytest.approx(sum(of_channels) / len(of_channels), abs=1e-4)


@pytest.mark.parametrize("more", [["--trees", "no"], ["--channel", "all"], ["--iteration", "1", "--labels"]])
def test_trees_and_labels_are_the_same_with_it(more: list[str], text: str, invoke: Invoke) -> None:
    """Whatever else is asked for, it only adds keys."""
    plain, told = records(invoke, text, *more), records(invoke, text, "--uncertainty", *more)
    for one, other in zip(plain, told, strict=True):
        if one["words"]:
            assert {"tag_entropy", "latent_label_entropy", "head_entropy"} <= other.keys() - one.keys()
        for key, value in one.items():
            if isinstance(value, list) and value and isinstance(value[0], float):
                assert other[key] == pytest.approx(value, abs=1e-5)
            elif key != "latent_labels":
                assert other[key] == value


def test_analyze_says_the_same(text: str, invoke: Invoke) -> None:
    model = load("runs/tagger")
    for options, flags in (({}, []), ({"dropout_samples": 3}, ["--dropout-samples", "3"])):
        ran = invoke("parse", "runs/tagger", text, "-f", "jsonl", "--uncertainty", *flags)
        found = model.analyze(TEXT.splitlines(), uncertainty=True, **options)
        assert_near_text("".join(json_line(one.record()) + "\n" for one in found), ran.out)


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_abstention(least: float, text: str, invoke: Invoke) -> None:
    plain = [one for one in records(invoke, text) if one["words"]]
    chances = [p for one in plain for p in one["tag_probability"]]
    tags = [tag for one in plain for tag in one["tags"]]
    wanted = ["_" if p < least else tag for tag, p in zip(tags, chances, strict=True)]
    ran = invoke("parse", "runs/tagger", text, "--abstain", str(least), "-f", "jsonl")
    found = ran.records
    assert [tag for one in found for tag in one.get("tags", ())] == wanted
    assert f"left out {sum(p < least for p in chances):,} of {len(chances)} answers" in ran.err
    in_columns = invoke("parse", "runs/tagger", text, "--abstain", str(least))
    assert [row[4] for row in rows(in_columns.out)] == wanted


def test_abstention_is_told_of_a_folder_of_pictures(text: str, invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("parse", "runs/tagger", text, "-f", "svg", "-o", str(tmp_path / "pictures"), "--abstain", "0.9").ok
    assert "answers: less probable than 0.9" in ran.err


def test_what_does_not_fit_is_refused(text: str, invoke: Invoke) -> None:
    for value in ("2", "-0.1", "x"):
        refused(invoke("parse", "runs/tagger", text, f"--abstain={value}"), 2, "--abstain")
    refused(invoke("parse", "runs/tiny", text, "--abstain", "0.5"), 2, "--abstain: a task of kind mlm")
    refused(invoke("parse", "runs/tagger", text, "--dropout-samples", "0"), 2, "--dropout-samples")
