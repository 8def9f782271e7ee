"""What `parse` says of sentences for every kind of task and in every format: the table of docs/predictions.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from run_of_every_task import OVERRIDES, SENTENCE, SHORT, Say, rows
from support import Invoke, assert_near, assert_near_text, refused

import probtrans_cli
from probtrans_cli import load
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.errors import UsageError
from probtrans_cli.tasks import TASKS
from probtrans_cli.text import json_line
from probtrans_cli.trained.formats import FORMATS
from probtrans_cli.trained.model import SCHEMA, record_batch, records


def test_every_task_is_here() -> None:
    assert OVERRIDES.keys() == TASKS.keys()


# --- CoNLL-U ----------------------------------------------------------------------------------------------------------


def test_tags_stand_in_their_column(say: Say) -> None:
    record = say.record("tagging")
    assert [row[4] for row in rows(say("tagging"))] == record["tags"]
    assert {row[3] for row in rows(say("tagging"))} == {"_"}
    sure = [row[9].split("|") for row in rows(say("tagging", "--prob"))]
    assert [entry[-1] for entry in sure] == [f"TagProb={p:.4f}" for p in record["tag_probability"]]
    assert not any("TagProb" in row[9] for row in rows(say("tagging")))


def test_morphological_features_are_learned_and_written(fresh: Path, invoke: Invoke) -> None:
    """One label a word, all features together; `_` is a label, too."""
    features = {"NOUN": "Case=Nom|Number=Sing", "VERB": "Mood=Ind"}
    for name in ("train", "dev", "test"):
        lines = [line.split("\t") for line in Path(f"{name}.conllu").read_text("utf-8").split("\n")]
        for cells in lines:
            if len(cells) == 10:
                cells[5] = features.get(cells[3], "_")
        Path(f"{name}.conllu").write_text("\n".join(map("\t".join, lines)), "utf-8")
    learned = ("task={kind: tagging, column: feats}", *SHORT, "train.steps=60")
    ran = invoke("train", "tiny.yaml", "name=feats", *learned, "--json").ok
    assert ran.json["dev"]["accuracy"] > 0.9
    Path("in.txt").write_text("two cheap farmers fold\n", "utf-8")
    record = invoke("parse", "runs/feats", "in.txt", "-f", "jsonl").json
    assert record["tags"] == ["_", "_", features["NOUN"], features["VERB"]]
    assert [row[5] for row in rows(invoke("parse", "runs/feats", "in.txt").out)] == record["tags"]
    picture = invoke("parse", "runs/feats", "in.txt", "-f", "tree", "--trees", "no").out
    lines = [line.split() for line in picture.splitlines()]
    assert ["Case=Nom", "Mood=Ind"] in [[cell for cell in line if "=" in cell] for line in lines]
    assert ["Number=Sing"] in lines
    assert invoke("eval", "runs/feats", "dev.conllu", "--predictions", "out.conllu").code == 0
    out = rows(Path("out.conllu").read_text("utf-8"))
    gold = [row[5] for row in rows(Path("dev.conllu").read_text("utf-8"))]
    said = [re.sub(r".*GoldFEATS=([^|]*).*|.*", r"\1", row[9]) for row in out]
    assert [text.replace("\\p", "|") for text in said] == gold


def test_entities_stand_in_misc(say: Say) -> None:
    record = say.record("ner")
    assert record["tags"] == ["O", "B-x", "E-x", "O"], "it has learned four sentences by heart"
    assert [row[9] for row in rows(say("ner"))] == ["_", "NE=B-x", "NE=I-x", "_"]
    (entity,) = record["entities"]
    chance = record["tag_probability"][1] * record["tag_probability"][2]
    assert entity.pop("probability") == pytest.approx(chance, abs=1e-5)
    assert entity == {"type": "x", "words": [1, 3], "characters": [4, 17], "text": "cheap farmers"}


def test_characters_are_those_of_the_text_as_it_was_given(say: Say) -> None:
    record = say.record("ner", text="two   cheap \tfarmers fold\n")
    assert record["entities"][0]["characters"] == [6, 20]
    assert record["entities"][0]["text"] == "cheap \tfarmers"


def test_labels_and_logical_forms_are_comments(say: Say) -> None:
    record = say.record("classification")
    comments = [line for line in say("classification").splitlines() if line.startswith("#")]
    label, chance = record["label"], record["label_probability"]
    assert comments == [
        "# text = two cheap farmers fold", f"# label = {label}", f"# label_probability = {chance:.4f}",
    ]  # fmt: skip
    form = say.record("cogs")["logical_form"]
    assert f"# logical_form = {form}\n" in say("cogs")
    assert form == "sing . agent ( x _ 1 , Ann )"


@pytest.mark.parametrize("task", OVERRIDES)
def test_gold_is_never_read(task: str, say: Say) -> None:
    """With and without the column, entry or comment that the task has learned, the output is the same to the byte."""
    options = (["--prob"], ["--trees", "no"])[list(OVERRIDES).index(task) % 2]
    words = SENTENCE.get(task, "two cheap farmers fold").split()

    def conllu(tag: str, entity: str, comments: str) -> str:
        lines = [f"{i}\t{word}\t_\tX\t{tag}\t_\t{i - 1}\tdep\t_\t{entity}" for i, word in enumerate(words, start=1)]
        return "\n".join([comments + lines[0], *lines[1:], "", ""])

    named = ("NN", "NE=B-y|TagProb=1.0", "# label = worst\n# label_probability = 7\n# logical_form = none\n")
    gold = say(task, *options, text=conllu(*named), name="a.conllu")
    blank = say(task, *options, text=conllu("_", "_", ""), name="a.conllu")
    if task == "parsing":
        found = [[(row[3], row[6], row[7]) for row in rows(out)] for out in (gold, blank)]
        assert found[0] == found[1]
        return
    if task == "tagging":
        assert [row[4] for row in rows(gold)] == [row[4] for row in rows(blank)]
    elif task == "ner":
        entries = [
            [[entry for entry in row[9].split("|") if entry.startswith("NE")] for row in rows(out)]
            for out in (gold, blank)
        ]
        assert entries[0] == entries[1]
    elif task in ("classification", "cogs"):
        name = "label" if task == "classification" else "logical_form"
        found = [re.findall(rf"^# {name} = .*$", out, re.MULTILINE) for out in (gold, blank)]
        assert found[0] == found[1]
        assert len(found[0]) == 1
    heads = [str(i) for i in range(len(words))]
    assert ([row[6] for row in rows(gold)] == heads) == ("no" in options), "without trees the input's own are kept"
    assert [row[3] for row in rows(gold)] == ["X"] * len(words)


def test_conllu_can_be_read_again(say: Say) -> None:
    for task in OVERRIDES:
        (sentence,) = read_conllu(say(task, "--prob").splitlines(), "x")
        assert " ".join(sentence.words) == SENTENCE.get(task, "two cheap farmers fold")


# --- JSON lines, and Python -------------------------------------------------------------------------------------------


ANALYSED: list[dict[str, Any]] = [{"top": 2}, {"trees": False}, {"channel": "mean", "latent_labels": 2}]


@pytest.mark.parametrize(
    ("task", "options"),
    [(task, options) for number, task in enumerate(OVERRIDES) for options in ({}, ANALYSED[number % 3])],
)
def test_analyze_is_what_jsonl_says(task: str, options: dict[str, Any], runs: Path, say: Say) -> None:
    texts = [SENTENCE.get(task, "two cheap farmers fold"), "", "farmers fold!"]
    flags = []
    for name, value in options.items():
        flag = {"trees": ["--trees", "no"], "latent_labels": ["--labels", "--top", str(value)]}
        flags += flag.get(name, [f"--{name}", str(value)])
    if "latent_labels" in options:
        options = {**options, "top": 2}
    model = load(str(runs / "runs" / task), threads=1)
    if "channel" in options and model.task.answers.trees:
        with pytest.raises(UsageError, match="the heads of a parser are its answers"):
            model.analyze(texts, **options)
        return
    if options == {"top": 2} and not model.task.answers.alternatives:
        with pytest.raises(UsageError, match="gives no alternatives"):
            model.analyze(texts, **options)
        return
    found = list(model.analyze(texts, **options))
    said = say(task, "-f", "jsonl", *flags, text="\n".join(texts) + "\n")
    assert_near_text("".join(json_line(one.record()) + "\n" for one in found), said)
    assert [one.heads is None for one in found] == [not options.get("trees", True)] * 3
    assert found[1].prediction == model.task.answers.nothing  # None of most tasks
    again = list(model.analyze([one.words for one in found], **options))
    assert [one.prediction and one.prediction.keys() for one in again] == [
        one.prediction and one.prediction.keys() for one in found
    ]


def test_alternatives(say: Say) -> None:
    """As many as are asked for, or as there are; the first is the answer."""
    record = say.record("tagging", "--top", "3")
    assert [len(one) for one in record["tag_alternatives"]] == [3] * 4
    assert [one[0]["tag"] for one in record["tag_alternatives"]] == record["tags"]
    assert [one[0]["probability"] for one in record["tag_alternatives"]] == record["tag_probability"]
    with pytest.raises(AssertionError, match="-f tree shows no alternatives of a task of kind tagging"):
        say("tagging", "-f", "tree", "--top", "3")
    record = say.record("classification", "--top", "9")
    assert record["label_alternatives"][0] == {"label": record["label"], "probability": record["label_probability"]}
    assert sorted(one["label"] for one in record["label_alternatives"]) == ["bad", "good"]
    assert sum(one["probability"] for one in record["label_alternatives"]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("task", ["mlm", "pretrain"])
def test_hidden_words_are_filled(task: str, say: Say) -> None:
    record = say.record(task, "--top", "4")
    (mask,) = record["masks"]
    assert mask["word"] == record["words"].index("[MASK]")
    assert len(mask["words"]) == len(mask["probabilities"]) == 4
    assert ("pair" in record) == (task == "pretrain")
    assert say.record(task, text="two farmers\n")["masks"] == []
    picture = say(task, "-f", "tree", "--top", "2", "--prob")
    assert all(word in picture for word in mask["words"][:2])
    assert mask["words"][2] not in picture.replace("[MASK]", "").split()[-20:] or mask["words"][2] in SENTENCE[task]


# --- pictures ---------------------------------------------------------------------------------------------------------


SHOWN = {"tagging": "tags", "ner": "entities", "classification": "label"}


@pytest.mark.parametrize("task", SHOWN)
def test_pictures_show_it(task: str, say: Say) -> None:
    record = say.record(task)
    wanted = {
        "tags": record.get("tags"), "entities": [one["type"] for one in record.get("entities", ())],
        "label": [record.get("label")],
    }[SHOWN[task]]  # fmt: skip
    for form in (name for name in sorted(FORMATS.keys() - {"conllu", "jsonl"}) if not FORMATS[name].shows):
        picture = say(task, "-f", form, "--prob")
        assert all(name in picture for name in wanted or ())
        if form == "svg":
            texts = [part.text for part in ElementTree.fromstring(picture).iter() if part.tag.endswith("}text")]
            assert any(text.startswith(f"{(wanted or [''])[0]} ") for text in texts if text)
        if form == "displacy" and task == "ner":
            line = json.loads(picture)
            assert [line["text"][one["start"] : one["end"]] for one in line["ents"]] == ["cheap farmers"]


def test_a_bar_stands_below_its_words(say: Say) -> None:
    picture = say("ner", "-f", "tree", "--trees", "no")
    assert picture == "two  cheap  farmers  fold\n     └─────x──────┘\n\n"


def test_without_trees_there_is_no_page_of_trees(runs: Path, invoke: Invoke) -> None:
    command = ("parse", str(runs / "runs/ner"), str(runs / "ner.txt"), "--trees", "no")
    refused(invoke(*command, "-f", "html"), 2, "the page is about trees")
    refused(invoke(*command, "--channel", "1"), 2, "are about trees")


def test_nothing_of_pairs_is_computed_without_trees(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(str(runs / "runs/tagging"), threads=1)
    asked: list[Any] = []
    forward = model.network.forward
    monkeypatch.setattr(
        model.network, "forward", lambda inputs, wants: (asked.append(wants), forward(inputs, wants))[1]
    )
    list(model.analyze(["two farmers fold"], trees=False))
    list(model.analyze(["two farmers fold"]))
    assert [wants.arcs for wants in asked] == [[], [2]]


# --- gold and predictions side by side --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["tagging", "ner", "classification", "cogs"])
def test_gold_and_predictions_side_by_side(
    task: str, runs: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scored again from the file alone, they give the scores of `eval`."""
    monkeypatch.chdir(runs)
    out = tmp_path / "out"
    ran = invoke("eval", f"runs/{task}", "--split", "dev", "--json", "--predictions", str(out)).ok
    scores, text = ran.json["scores"]["dev"], out.read_text("utf-8")
    if task == "ner":
        again = invoke("score", "entities", str(out), "--json")
        assert again.json["scores"] == {name: scores[name] for name in again.json["scores"]}
        return
    if task == "tagging":
        found = rows(text)
        pairs = [(row[4], dict(entry.split("=", 1) for entry in row[9].split("|"))["GoldXPOS"]) for row in found]
    else:
        pairs = [(row[2], row[1]) if task == "classification" else (row[3], row[1]) for row in (
            line.split("\t") for line in text.splitlines())]  # fmt: skip
    share = sum(one == other for one, other in pairs) / len(pairs)
    assert share == pytest.approx(scores["form" if task == "cogs" else "accuracy"])


def test_what_has_no_gold_has_no_predictions_beside_it(runs: Path, invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("eval", str(runs / "runs/mlm"), str(runs / "dev.conllu"), "--predictions", str(tmp_path / "out"))
    refused(ran, 2, "a task of kind mlm has no gold to put beside predictions")
    assert not (tmp_path / "out").exists()
    ran = invoke("eval", str(runs / "runs/tagging"), str(runs / "dev.conllu"), "--predictions", "/no/such/folder")
    refused(ran, 2, "cannot be written")


TEXTS = ["two cheap farmers and goats fold", "", "Ann flew to Oslo ."]


@pytest.mark.parametrize("task", OVERRIDES)
def test_records_come_back(task: str, runs: Path, tmp_path: Path) -> None:
    model = probtrans_cli.load(str(runs / "runs" / task), threads=1)
    texts = [SENTENCE.get(task, TEXTS[0]), *TEXTS]
    options: list[dict[str, Any]] = [{}, {"trees": False}, {"latent_labels": 2, "top": 2}]
    if task in ("tagging", "ner", "classification", "mlm"):
        options.append({"uncertainty": True})
    for more in options:
        said = [one.record() for one in model.analyze(texts, **more)]
        plain = [{name: value for name, value in one.items() if value is not None} for one in said]
        batches = list(model.analyze_arrow(texts, rows=3, **more))
        assert [batch.num_rows for batch in batches] == [3, 1]
        table = pa.Table.from_batches(batches, SCHEMA)
        with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
            writer.write_table(table)
        with pa.memory_map(str(tmp_path / "a.arrow")) as file:
            (read,) = pa.ipc.open_file(file).read_all().combine_chunks().to_batches()
        assert_near(json.loads(json.dumps(list(records(read)))), json.loads(json.dumps(plain)), abs=2e-6)


def test_no_analysis_has_the_columns_all_the_same() -> None:
    assert record_batch([]).schema == SCHEMA
