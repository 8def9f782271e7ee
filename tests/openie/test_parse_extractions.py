"""`parse` by models of open information extraction and coordinations: JSON, text, tuples, rows, and what scorers and
readers make of these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_extractors import COORDINATED, SENTENCES, extags, gold
from support import Invoke, Stdin, assert_near, refused

import probtrans_cli
from probtrans_cli.data.tokens import tokenize
from probtrans_cli.errors import UsageError
from probtrans_cli.openie.coordination_files import read_coordinations
from probtrans_cli.openie.corpora import read_extractions
from probtrans_cli.recipe.data import Data
from probtrans_cli.trained.formats import FORMATS

TEXTS = [text for text, _ in SENTENCES]
COORDINATED_TEXTS = [block.split("\n")[0] for block in COORDINATED.split("\n\n") if block]


@pytest.fixture
def place(extractors: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(extractors)
    return extractors


@pytest.fixture
def say(place: Path, invoke: Invoke, stdin: Stdin) -> Any:
    """What `parse` of a run writes of some lines."""
    del place

    def parsed(run: str, lines: list[str], *options: str) -> str:
        stdin("".join(line + "\n" for line in lines).encode())
        ran = invoke("parse", f"runs/{run}", *options)
        assert ran.code == 0, ran.err
        return ran.out

    return parsed


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_line_gives_one_object(say: Any) -> None:
    lines = [TEXTS[2], "", "Rain", "   ", TEXTS[0], TEXTS[0]]
    answers = records(say("tuples", lines, "-f", "jsonl", "--trees", "no"))
    assert [record["text"] for record in answers] == lines
    assert [record["words"] for record in answers] == [line.split() for line in lines]
    assert answers[1] == {"text": "", "words": [], "tuples": []}
    assert answers[3]["tuples"] == []
    first, second = answers[0]["tuples"]
    assert {key: first[key] for key in ("arg1", "rel", "arg2", "row", "words", "added")} == {
        "arg1": "Louis", "rel": "is president of", "arg2": "French", "row": 0,
        "words": {"arg1": [2], "rel": [1], "arg2": [0]}, "added": ["is", "of"],
    }  # fmt: skip
    assert 0.5 < first["confidence"] <= 1.0
    assert (second["arg1"], second["rel"], second["arg2"], second["added"]) == ("Louis", "slept", "", [])
    assert second["chars"] == {"arg1": [[17, 22]], "rel": [[23, 28]], "arg2": []}
    assert answers[4]["tuples"] == answers[5]["tuples"]


@pytest.mark.parametrize("run", ["tuples", "half"])
def test_characters_are_those_of_the_words_that_are_reported(say: Any, run: str) -> None:
    lines = [
        "  French   president\tLouis   slept.",
        "Bob  bought a\u00a0 boat   and (sold) a car .  ",
        "Rome is   the capital of Italy\u2003and is  known for its history.",
        "Ann,my aunt,sings.Rain  fell",
    ]
    reported = 0
    for line, record in zip(lines, records(say(run, lines, "-f", "jsonl")), strict=True):
        assert record["text"] == line
        for extraction in record["tuples"]:
            for name, places in extraction["words"].items():
                words = [record["words"][i] for i in places]
                parts = [line[start:end] for start, end in extraction["chars"][name]]
                assert [word for part in parts for word in tokenize(part)] == words
                added = extraction["added"] if name == "rel" else []
                assert extraction[name] == " ".join([*added[:1], *words, *added[1:]])
                reported += len(words)
    assert reported > 10


def test_words_with_spaces_inside_are_reported_as_they_are(say: Any) -> None:
    """CoNLL-U may have them."""
    words = ["Bob", "bought", "10 000", "boat", "and", "sold", "a", "car", "."]
    block = ["# sent_id = x-1", *(f"{i}\t{word}" + "\t_" * 8 for i, word in enumerate(words, start=1)), ""]
    (record,) = records(say("tuples", block, "-f", "jsonl", "--input", "conllu"))
    assert (record["id"], record["text"], record["words"]) == ("x-1", " ".join(words), words)
    assert record["tuples"]
    for extraction in record["tuples"]:
        for name, places in extraction["words"].items():
            text = " ".join(words[i] for i in places)
            assert (f"is {text}" if extraction["added"] and name == "rel" else text) == extraction[name]


def test_the_spelling_of_an_extra_word_is_a_word_in_a_text(say: Any) -> None:
    lines = ["[unused1] is the capital of [unused3]", "[unused1] [unused2] [unused3]", "[unused1]"]
    for record, line in zip(records(say("tuples", lines, "-f", "jsonl", "--input", "tokens")), lines, strict=True):
        assert record["words"] == line.split()
        assert len(record["heads"]) == len(record["words"])
        for extraction in record["tuples"]:
            assert all(0 <= i < len(record["words"]) for places in extraction["words"].values() for i in places)
    (raw,) = records(say("tuples", ["the [unused1] boat"], "-f", "jsonl"))
    assert raw["words"] == ["the", "[", "unused1", "]", "boat"]


def test_a_long_sentence(say: Any) -> None:
    line = " ".join((TEXTS * 60)[:400])[:20000].split(" ")[:2000]
    text = " ".join(line)
    assert len(line) == 2000
    (record,) = records(say("tuples", [text], "-f", "jsonl", "--trees", "no"))
    assert len(record["words"]) == 2000
    assert "extra" not in record


def test_python_says_the_same(say: Any, place: Path) -> None:
    lines = [*TEXTS, "", "  Ann,  my aunt,  sings."]
    for run, texts in (("tuples", lines), ("coordinated", [*COORDINATED_TEXTS, ""])):
        written = records(say(run, texts, "-f", "jsonl"))
        model = probtrans_cli.load(str(place / "runs" / run))
        assert_near([json.loads(json.dumps(analysis.record())) for analysis in model.analyze(texts)], written, abs=2e-6)


def test_coordinations_with_the_sentences_that_they_split_into(say: Any) -> None:
    first, second, third, empty = records(say("coordinated", [*COORDINATED_TEXTS, ""], "-f", "jsonl", "--trees", "no"))
    (coordination,) = first["coordinations"]
    assert {key: coordination[key] for key in ("cc", "conjuncts", "level", "chars", "texts")} == {
        "cc": 4, "conjuncts": [[2, 4], [5, 7]], "level": 0, "chars": [[6, 14], [19, 28]],
        "texts": ["an apple", "an orange"],
    }  # fmt: skip
    assert first["sentences"] == ["I ate an apple .", "I ate an orange ."]
    assert second["sentences"] == [f"{who} {what} ." for who in ("Ann", "Bob", "Carl") for what in ("sing", "dance")]
    assert first["splits"] == [[0, 1, 2, 3, 7], [0, 1, 5, 6, 7]]
    assert (third["coordinations"], third["splits"]) == ([], [])
    assert empty == {"text": "", "words": [], "coordinations": [], "splits": [], "sentences": []}


# --- other formats ----------------------------------------------------------------------------------------------------


def test_text(say: Any) -> None:
    out = say("tuples", [TEXTS[3], "", "Rain  fell."], "-f", "text")
    blocks = out.split("\n")
    assert blocks[0] == TEXTS[3]
    assert blocks[1].endswith(": (Goats; eat; grass in May)")
    assert 0.5 < float(blocks[1].split(":")[0]) <= 1.0
    assert blocks[2:5] == ["", "", ""]
    assert blocks[5] == "Rain  fell."
    assert blocks[6].endswith(": (Rain; fell; )")
    assert blocks[7:] == ["", ""]
    assert say("coordinated", [COORDINATED_TEXTS[0], "Rain fell ."], "-f", "text") == (
        "I ate an apple and an orange .\nI ate an apple .\nI ate an orange .\n\nRain fell .\n\n"
    )


def test_lines_of_carb(say: Any) -> None:
    lines = [line.split("\t") for line in say("tuples", TEXTS[2:4], "-f", "carb").splitlines()]
    assert [[fields[0], *fields[2:]] for fields in lines] == [
        [TEXTS[2], "is president of", "Louis", "French"],
        [TEXTS[2], "slept", "Louis"],
        [TEXTS[3], "eat", "Goats", "grass in May"],
    ]
    assert all(0.5 < float(fields[1]) <= 1.0 for fields in lines)


@pytest.mark.parametrize("run", ["tuples", "half"])
@pytest.mark.parametrize("form", ["tuples", "jsonl"])
def test_what_is_written_has_the_scores_of_eval(
    run: str, form: str, place: Path, say: Any, invoke: Invoke, tmp_path: Path
) -> None:
    expected = invoke("eval", f"runs/{run}", str(place / f"{run}.txt"), "--json").json["scores"]
    (scores,) = expected.values()
    written = tmp_path / "written"
    written.write_text(say(run, TEXTS, "-f", form), encoding="utf-8")
    command = ("score", "carb", str(written), "--gold", str(gold(tmp_path)), "--json")
    ours = invoke(*command).json["scores"]
    for name in ("f1", "precision", "recall", "auc", "last_f1"):
        assert ours[name] == pytest.approx(scores[name], abs=5.1e-5), name
    single = invoke(*command, "--single-match").json["scores"]
    assert single["f1"] == pytest.approx(scores["f1_single"], abs=5.1e-5)
    assert ours["tuples"] == scores["tuples"] > 0
    assert (scores["f1"] == 1.0) == (run == "tuples")


def test_a_word_like_a_tag_is_no_tag(say: Any, invoke: Invoke, tmp_path: Path) -> None:
    words = ["Bob", "bought", "a", "</arg2>", "and", "sold", "a", "<rel>", "."]
    out = say("tuples", [" ".join(words)], "-f", "tuples", "--input", "tokens")
    assert out
    for line in out.splitlines():
        for name in ("arg1", "rel", "arg2"):
            assert line.split("\t")[1].count(f"<{name}>") == line.split("\t")[1].count(f"</{name}>") == 1


def test_rows_of_labels_are_read_again(say: Any) -> None:
    assert say("tuples", TEXTS, "-f", "labels") == extags()
    assert say("coordinated", COORDINATED_TEXTS, "-f", "labels") == COORDINATED
    rows = say("coordinated", COORDINATED_TEXTS, "-f", "labels").splitlines()
    read = [sentence.coordinations for sentence in read_coordinations(rows, "x")]
    assert [len(coordinations) for coordinations in read] == [1, 2, 0]
    assert say("tuples", ["", "Rain"], "-f", "labels").splitlines()[0] == "[unused1] [unused2] [unused3]"


def test_json_lines_are_read_again_with_the_labels_of_their_words(say: Any) -> None:
    """Also those of places and times."""
    data = Data.model_validate({"train": "x", "format": "extractions"})
    written = say("tuples", TEXTS, "-f", "jsonl").splitlines()
    again, expected = (list(read_extractions(lines, "x", data)) for lines in (written, extags().splitlines()))
    assert [sentence.grid for sentence in again] == [sentence.grid for sentence in expected]
    assert [sentence.form for sentence in again[3:4]] == ['[["eat", "Goats", "grass in May"]]']
    assert [record["location_time"] for record in records(written[3])[0]["tuples"]] == [[3, 4]]


def test_plain_text_is_for_people_and_the_others_keep_what_they_are_given(say: Any) -> None:
    """What a terminal would obey is shown in plain text alone; the files of others are read again by their words."""
    words = ["Goats\x1b[31m", "eat\x07", "grass\0", "in", "May\u202e", "."]
    line = " ".join(words)
    text = say("tuples", [line], "-f", "text", "--input", "tokens")
    assert text.split("\n")[0] == "Goats\\x1b[31m eat\\x07 grass\\x00 in May\\u202e ."
    assert text.replace("\n", "").isprintable()
    (record,) = records(say("tuples", [line], "-f", "jsonl", "--input", "tokens"))
    assert (record["text"], record["words"]) == (line, words)
    rows = say("tuples", [line], "-f", "labels", "--input", "tokens").splitlines()
    assert rows[0].split(" ")[: len(words)] == words
    for form in ("tuples", "carb"):
        lines = say("tuples", [line], "-f", form, "--input", "tokens").split("\n")[:-1]
        assert {text.split("\t")[0] for text in lines} <= {line}


def test_line_ends_of_windows_are_no_part_of_a_text(say: Any) -> None:
    first, second = records(say("tuples", [TEXTS[3] + "\r", "\r"], "-f", "jsonl"))
    assert (first["text"], second["text"]) == (TEXTS[3], "")
    assert first["tuples"] == records(say("tuples", [TEXTS[3]], "-f", "jsonl"))[0]["tuples"]


def test_a_text_in_place_of_several_is_refused(place: Path) -> None:
    model = probtrans_cli.load(str(place / "runs/tuples"))
    for text in (TEXTS[0], TEXTS[0].encode()):
        with pytest.raises(UsageError, match="analyze takes several texts"):
            model.analyze(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("run", ["tuples", "coordinated"])
def test_eval_says_how_predictions_are_written(run: str, place: Path, invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("eval", f"runs/{run}", str(place / f"{run}.txt"), "--predictions", str(tmp_path / "out"))
    form, scorer = {"tuples": ("carb", "carb"), "coordinated": ("labels", "coordination")}[run]
    refused(ran, 2, "has no place for predictions beside its gold", f"-f {form}", f"score {scorer}")


def test_comments_of_conllu_replace_those_that_were_there(say: Any) -> None:
    first = say("tuples", [TEXTS[2]], "-f", "conllu")
    tuples = [line for line in first.splitlines() if line.startswith("# tuple = ")]
    assert len(tuples) == 2
    assert tuples[0].endswith(": (Louis; is president of; French)")
    more = first.replace(tuples[0], f"{tuples[0]}\n# tuple = 1.0000: (of; an; other)\n# note = stays")
    again = say("tuples", more.splitlines(), "-f", "conllu", "--input", "conllu")
    assert [line for line in again.splitlines() if line.startswith("# tuple = ")] == tuples
    assert "# note = stays\n" in again


@pytest.mark.parametrize("form", [form for form in FORMATS.values() if form.shows], ids=lambda form: form.name)
def test_a_model_that_does_not_give_what_a_format_shows_is_refused(form: Any, trained: Path, invoke: Invoke) -> None:
    ran = invoke("parse", str(trained / "runs/tagger"), str(trained / "dev.conllu"), "-f", form.name)
    refused(ran, 2, f"-f {form.name}: a task of kind tagging gives no {' or '.join(form.shows)}", "openie")


@pytest.mark.usefixtures("place")
def test_other_refusals(invoke: Invoke) -> None:
    refused(invoke("parse", "runs/coordinated", "-f", "carb"), 2, "kind coordination gives no tuples", "kind openie")
    refused(invoke("parse", "runs/tuples", "-f", "carb", "--channel", "1"), 2, "about trees", "leave them out")
    refused(invoke("parse", "runs/tuples", "-f", "text", "--gold"), 2, "--gold: this format has no trees")
    for form in ("text", "tuples", "carb", "labels"):
        refused(invoke("parse", "runs/tuples", "-f", form, "--prob"), 2, "--prob: this format has none but confidences")
    for run in ("tuples", "coordinated"):
        refused(invoke("parse", f"runs/{run}", "-f", "jsonl", "--top", "2"), 2, "--top: a task of kind", "leave it out")
