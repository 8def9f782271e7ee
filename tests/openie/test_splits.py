"""Split, extract, merge: coordinations in front of tuples."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_extractors import SENTENCES, extags
from support import Invoke, Stdin, assert_near, refused

import probtrans_cli
from probtrans_cli import tasks
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.models.base import Inputs, Wants
from probtrans_cli.openie.extractions import ARG2, LOC_TIME, Extraction, tuple_to_row
from probtrans_cli.openie.splits import Splitter
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import predictions

APPLE = "I ate an apple and an orange ."
HALVES = [[0, 1, 2, 3, 7], [0, 1, 5, 6, 7]]


@pytest.fixture(scope="module")
def extractor(extractors: Path) -> Model:
    return Model.load(str(extractors / "runs/half"), threads=1)


@pytest.fixture(scope="module")
def splitter(extractors: Path, extractor: Model) -> Splitter:
    return Splitter(Model.load(str(extractors / "runs/coordinated"), threads=1), extractor)


def sentences_to_split() -> list[Sentence]:
    """A sentence that is split, twice; others that are not, one of them without a word."""
    return [Sentence(text.split()) for text in (APPLE, "Rain fell .", "", APPLE, SENTENCES[3][0])]


def test_sentences_are_split_at_their_coordinations(splitter: Splitter) -> None:
    split = splitter.predictions(sentences_to_split()[:4])
    assert [prediction["splits"] for prediction in split] == [HALVES, [], [], HALVES]


def test_the_recipe_of_the_coordinations_says_what_is_not_split(splitter: Splitter) -> None:
    model = splitter.model
    section = model.recipe.task.model_copy(update={"unbreakable": ["ate"]})
    for window, expected in ((None, []), (0, HALVES)):
        options = section.model_copy(update={"unbreakable_window": window})
        changed = replace(model, task=tasks.build(options, model.vocabulary, model.labels))
        (prediction,) = Splitter(changed, splitter.extractor).predictions(sentences_to_split()[:1])
        assert prediction["splits"] == expected


def test_tuples_are_those_of_the_simple_sentences_by_the_words_of_the_whole(
    extractor: Model, splitter: Splitter
) -> None:
    sentences = sentences_to_split()
    split = splitter.predictions(sentences)
    assert split[2] == {"splits": [], "tuples": []}
    assert_near(split[0], split[3])
    assert split[0]["splits"] == HALVES
    whole = next(predictions(extractor, [sentences[4]]))
    assert [record["words"] for record in split[4]["tuples"]] == [record["words"] for record in whole["tuples"]]
    simple = [Sentence([sentences[0].words[place] for place in places]) for places in HALVES]
    expected, seen = [], set()
    for number, (places, prediction) in enumerate(zip(HALVES, predictions(extractor, simple), strict=True)):
        for each in prediction["tuples"]:
            key = (each["arg1"], each["rel"], each["arg2"])
            if key not in seen:
                seen.add(key)
                words = {name: [places[place] for place in of] for name, of in each["words"].items()}
                expected.append((number, key, words, each["confidence"]))
    assert expected, "the model finds something"
    assert [
        (record["split"], (record["arg1"], record["rel"], record["arg2"]), record["words"], record["confidence"])
        for record in split[0]["tuples"]
    ] == expected
    for record in split[0]["tuples"]:
        for name in ("arg1", "rel", "arg2"):
            text = " ".join(APPLE[start:end] for start, end in record["chars"][name])
            assert text.split() == [APPLE.split()[place] for place in record["words"][name]]


def test_a_sentence_that_stays_whole_keeps_its_confidences(extractors: Path) -> None:
    """Also a tuple with words of a place or time, which have a label of their own."""
    model = Model.load(str(extractors / "runs/tuples"), threads=1)
    splitter = Splitter(Model.load(str(extractors / "runs/coordinated"), threads=1), model, rescore=True)
    sentences = [Sentence(text.split()) for text in ("Goats eat grass in May .", "Rain fell .")]
    split = splitter.predictions(sentences)
    (record,) = split[0]["tuples"]
    assert (record["words"]["arg2"], record["location_time"]) == ([2, 3, 4], [3, 4])
    for again, plain in zip(split, predictions(model, sentences), strict=True):
        assert plain is not None
        for key in ("words", "location_time", "confidence"):
            assert [each[key] for each in again["tuples"]] == [
                pytest.approx(each[key], rel=1e-5) if key == "confidence" else each[key] for each in plain["tuples"]
            ]


def test_new_confidences_do_not_ask_whether_words_are_of_a_place(extractors: Path) -> None:
    """The same model with the labels of places and of arg2 in each other's place says the same of its labels."""
    sentences = [Sentence(SENTENCES[number][0].split()) for number in (0, 3, 4)]
    ours, other = (Model.load(str(extractors / "runs/tuples"), threads=1) for _ in range(2))
    with torch.no_grad():
        output = other.network.output
        for rows in (output.label.weight, output.label.bias, output.table.weight):
            rows[[ARG2, LOC_TIME]] = rows[[LOC_TIME, ARG2]].clone()
    coordinated = Model.load(str(extractors / "runs/coordinated"), threads=1)
    plain, swapped = (
        [
            each
            for split in Splitter(coordinated, model, rescore=True).predictions(sentences)
            for each in split["tuples"]
        ]
        for model in (ours, other)
    )
    assert len(plain) == len(swapped) > 3
    assert sum(bool(each["location_time"]) for each in plain) == 1
    for each, again in zip(plain, swapped, strict=True):
        assert again["confidence"] == pytest.approx(each["confidence"], rel=1e-4)
        assert sorted(each["words"]["arg2"]) == sorted(again["words"]["arg2"])
        assert set(each["location_time"]) == {*each["words"]["arg2"]} - {*again["location_time"]}


def test_new_confidences_are_those_of_the_labels_in_the_whole_sentence(extractor: Model, splitter: Splitter) -> None:
    """Beside the network itself, told one tuple after the other; more tuples than rows are read again."""
    sentence = Sentence(APPLE.split())
    (plain,) = splitter.predictions([sentence])
    (split,) = Splitter(splitter.model, extractor, rescore=True).predictions([sentence])
    assert [record["words"] for record in split["tuples"]] == [record["words"] for record in plain["tuples"]]
    words = [*sentence.words, *extra_words(3)]
    ids = torch.tensor([extractor.vocabulary.encode_words(words, 3).ids])
    rows = [tuple_to_row(Extraction.of_record(record), len(sentence.words)) for record in plain["tuples"]]
    most = extractor.network.output.rows
    for first in range(0, len(rows), most):
        few = rows[first : first + most]
        grid = torch.zeros(1, most, len(words), dtype=torch.int64)
        grid[0, : len(few)] = torch.tensor(few)
        with torch.no_grad():
            wants = Wants(words=torch.ones_like(ids, dtype=torch.bool), fed_back=grid)
            scores = extractor.network(Inputs(ids=ids, mask=ids >= 0), wants).scores["rows"][0]
        for m, row in enumerate(few):
            chances = [float(scores[m, n].log_softmax(-1)[label]) for n, label in enumerate(row) if label]
            expected = math.exp(sum(chances) / len(chances))
            assert split["tuples"][first + m]["confidence"] == pytest.approx(expected, rel=1e-4)


def test_eval(extractors: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(extractors / "runs")
    (tmp_path / "tuples.txt").write_text(extags(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    alone = invoke("eval", "runs/tuples", "tuples.txt", "--json")
    split = invoke("eval", "runs/tuples", "tuples.txt", "--coordination", "runs/coordinated", "--json")
    assert split.code == 0, split.err
    for ran in (alone, split):
        assert re.search(r"^tuples.txt: 6 sentences in [\d.]+ s, [\d.,]+ sentences/s$", ran.err, re.MULTILINE), ran.err
    assert split.json["way"] == "split by runs/coordinated"
    scores = split.json["scores"]["tuples.txt"]
    assert scores.keys() == alone.json["scores"]["tuples.txt"].keys() - {"loss"}
    assert 0.0 < scores["f1"] <= 1.0
    again = invoke("eval", "runs/tuples", "tuples.txt", "--coordination", "runs/coordinated", "--rescore", "--json")
    assert again.code == 0, again.err
    for arguments, said in (
        (("--rescore",), "add --coordination CKPT"),
        (("--coordination", "runs/half"), "a model of kind openie finds no coordinations"),
        (("--coordination", "runs/coordinated", "--predictions", "x"), "--coordination does not go with --predictions"),
    ):
        refused(invoke("eval", "runs/tuples", "tuples.txt", *arguments), 2, said)
    refused(invoke("eval", "runs/coordinated", "--coordination", "runs/coordinated"), 2, "finds no tuples to merge")


# --- parse ------------------------------------------------------------------------------------------------------------

ODD = "I ate  an apple and an orange."
LINES = [ODD, "", "Rain fell ."]
SPLIT = ("--coordination", "runs/coordinated")


@pytest.fixture
def say(extractors: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, stdin: Stdin) -> Any:
    """What `parse` of the run `half` writes of the lines."""
    monkeypatch.chdir(extractors)

    def parsed(*options: str) -> str:
        stdin("".join(line + "\n" for line in LINES).encode())
        ran = invoke("parse", "runs/half", *SPLIT, *options)
        assert ran.code == 0, ran.err
        return ran.out

    return parsed


def test_json_is_about_the_sentence_as_it_was(say: Any, extractors: Path) -> None:
    written = [json.loads(line) for line in say("-f", "jsonl").splitlines()]
    split, empty, whole = written
    assert [record["text"] for record in written] == LINES
    assert split["splits"] == HALVES
    assert len(split["heads"]) == len(split["words"]) == 8
    assert {record["split"] for record in split["tuples"]} <= {0, 1}
    assert split["tuples"]
    for record in split["tuples"]:
        for name, places in record["words"].items():
            assert set(places) <= set(split["splits"][record["split"]])
            parts = " ".join(ODD[start:end] for start, end in record["chars"][name])
            assert parts.replace(".", " .").split() == [split["words"][i] for i in places]
    assert (empty["splits"], empty["tuples"]) == ([], [])
    assert whole["splits"] == []
    model, other = (probtrans_cli.load(str(extractors / f"runs/{name}")) for name in ("half", "coordinated"))
    said = [json.loads(json.dumps(analysis.record())) for analysis in model.analyze(LINES, coordination=other)]
    assert_near(said, written, abs=2e-6)


def test_new_confidences_change_nothing_else(say: Any, extractors: Path) -> None:
    plain = [json.loads(line) for line in say("-f", "jsonl", "--trees", "no").splitlines()]
    rescored = [json.loads(line) for line in say("-f", "jsonl", "--trees", "no", "--rescore").splitlines()]
    assert plain != rescored
    for line, again in zip(plain, rescored, strict=True):
        assert [{**record, "confidence": 0} for record in line["tuples"]] == [
            {**record, "confidence": 0} for record in again["tuples"]
        ]
    model, other = (probtrans_cli.load(str(extractors / f"runs/{name}")) for name in ("half", "coordinated"))
    analyses = model.analyze(LINES, trees=False, coordination=other, rescore=True)
    assert_near([json.loads(json.dumps(analysis.record())) for analysis in analyses], rescored, abs=2e-6)


def test_other_formats(say: Any, invoke: Invoke) -> None:
    refused(invoke("parse", "runs/half", *SPLIT, "-f", "labels"), 2, "-f labels")
    assert invoke("parse", "runs/half", "--rescore").code == 2
    tuples = json.loads(say("-f", "jsonl", "--trees", "no").splitlines()[0])["tuples"]
    assert say("-f", "text").split("\n\n")[0].count("\n") == len(tuples)
    assert say("-f", "carb").count("I ate an apple and an orange .\t") == len(tuples)
    for form in ("conllu", "tree", "html", "latex", "displacy"):
        assert say("-f", form)
    assert say("-f", "conllu").count("# tuple = ") >= len(tuples)
    assert 'class="sentence"' in say("-f", "html")
