"""Named entities from column files, end to end: trained, evaluated, and what is said of their tags."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from small_entities import DEV, TRAIN
from support import Invoke, refused

from probtrans_cli.reports.scores import flattened

RECIPE = """\
name: names
data: {train: train.txt, dev: dev.txt, test: dev.txt, format: columns, columns: {entities: bioes}}
task: {kind: ner}
model: {labels: 6, channels: 2, iterations: 2}
optim: {lr: 0.05}
train: {steps: 2}
runtime: {device: cpu, threads: 1}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "none"))
    (tmp_path / "r.yaml").write_text(RECIPE)
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "dev.txt").write_text(f"-DOCSTART- O\n\n{DEV}")
    (tmp_path / "other.txt").write_text("Wim B-PER\nVos I-PER\n")
    return tmp_path


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["data.columns.entities=iob2", "task.loss=sentences", "task.word_dropout=0.5"],
        ["data.vocabulary={kind: sentencepiece, size: 40, algorithm: bpe}"],
        ["model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1}"],
    ],
    ids=["bioes", "iob2", "pieces", "transformer"],
)
def test_train_and_eval(overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "r.yaml", *overrides, "--json")
    assert ran.code == 0, ran.err
    test = ran.json["test"]
    assert test.keys() >= {"f1", "f1_strict", "precision", "recall", "accuracy", "loss", "f1_PER", "f1_PRIZE"}
    again = invoke("eval", "runs/names", "--json", "--require", "f1>=0", "--require", "f1_PRIZE == 0")
    assert again.code == 0, again.err
    assert flattened(again.json["scores"]["test"]) == pytest.approx(flattened(test))
    assert invoke("eval", "runs/names", "--require", "f1>=1.5").code == 7
    other = invoke("eval", "runs/names", "other.txt")
    assert other.code == 0, other.err
    for name in ("f1", "f1_strict", "precision", "recall", "f1_PER"):
        assert f" {name} " in other.out
    assert other.out.count(" %") == len(re.split(r",\s+", other.out)) - 1  # all but the loss


def test_the_tags_of_columns_without_entities(here: Path, invoke: Invoke) -> None:
    tagging = ["task={kind: tagging, column: tag}", "data.columns={word: 0, tag: 1}"]
    ran = invoke("train", "r.yaml", *tagging, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(Path("runs/names/checkpoints/best/labels.json").read_text())["tag"][0] == "O"
    ran = invoke("train", "r.yaml", *tagging, "task.column=pos", "--overwrite")
    refused(ran, 3, "task.column: the data has no column 'pos'", "set task.column=tag")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("alone", "train.txt:21: 1 column, so that the word (column 0) and the tag (column -1) are the same"),
        ("x\t", "train.txt:21: the tag (column -1 of 2) is empty"),
        ("x I-PER", "train.txt:21: I-PER after I-SHIP; in iob2 I-PER comes only after B-PER or I-PER"),
        ("x PER", "train.txt:21: 'PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, here: Path, invoke: Invoke) -> None:
    with (here / "train.txt").open("a") as file:
        file.write(f"{line}\n\ny I-LOC\nz B-LOC\n")
    ran = invoke("prepare", "r.yaml", "--check", "data.columns.strict=true")
    assert ran.code == 3
    assert message in ran.err
    assert "data.columns.scheme" in ran.err or "columns count from 0" in ran.err
    assert "bioes" not in ran.err, "of the scheme that fits longest alone"


CONLL = """\
-DOCSTART- -X- -X- O

The DT I-NP O
Atlanta NNP I-NP B-MISC
Games NNPS I-NP I-MISC
were VBD I-VP O
in IN I-PP O
Atlanta NNP I-NP I-LOC

Urdu-speaking JJ I-NP B-MISC
people NNS I-NP O
of IN I-PP O
Lahore NNP I-NP I-LOC
Karachi NNP I-NP B-LOC

Baku NNP I-NP I-LOC
"""
ALONE = ["data.dev=null", "data.test=null"]
STRICT = "data.columns.strict=true"
OF_CONLL = ["data.columns={word: 0, tag: 3, entities: bioes}", *ALONE]


@pytest.mark.parametrize(
    ("scheme", "message"),
    [("auto", "train.txt:8: I-LOC after O; in iob2 "), ("iob1", "train.txt:4: B-MISC after O; in iob1 ")],
)
def test_a_tag_whose_meaning_is_clear_is_read_and_told_once(
    scheme: str, message: str, here: Path, invoke: Invoke
) -> None:
    """As if the file were right, and with a warning."""
    (here / "train.txt").write_text(CONLL.replace("B-MISC", "I-MISC"))
    right = invoke("prepare", "r.yaml", *OF_CONLL)
    assert (right.code, right.err) == (0, "")
    (here / "train.txt").write_text(CONLL)
    for state in ("prepared", "up to date"):
        ran = invoke("prepare", "r.yaml", *OF_CONLL, f"data.columns.scheme={scheme}")
        assert ran.code == 0, ran.err
        assert ran.out.splitlines()[-1].startswith(state)
        assert ran.out.splitlines()[:-1] == right.out.splitlines()[:-1]
        assert ran.err == (
            "warning: train.txt:4: B-MISC after O; in iob1 B-MISC comes only after B-MISC or I-MISC. "
            "2 such tags in this file are read as conlleval reads them; data.columns.strict=true refuses them\n"
        )
    refused(invoke("prepare", "r.yaml", *OF_CONLL, f"data.columns.scheme={scheme}", STRICT), 3, message)


def test_eval_tells_of_tags_that_are_read_all_the_same(here: Path, invoke: Invoke) -> None:
    assert invoke("train", "r.yaml").code == 0
    (here / "other.txt").write_text("Wim I-PER\nVos I-PER\nin O\nElst B-LOC\nsank B-LOC\n")
    ran = invoke("eval", "runs/names", "other.txt", "--json")
    assert ran.code == 0, ran.err
    assert ran.err.count("warning: other.txt") == 1
    first = "I-PER at the start; in iob2 I-PER comes only after B-PER or I-PER"
    assert f"warning: other.txt:1: {first}. This tag is read as conlleval reads it" in ran.err


def test_labels_that_train_lacks_and_a_train_without_entities_are_told_of(here: Path, invoke: Invoke) -> None:
    ran = invoke("prepare", "r.yaml", "data.columns.entities=iob2")
    wrong = "counted as wrong, left out of the loss"
    message = f"5 of 16 labels in column tag are not in train: {wrong}: B-PRIZE (2), I-PRIZE (2), I-LOC (1)\n"
    assert ran.err == f"warning: data.dev: {message}warning: data.test: {message}"
    (here / "train.txt").write_text("Wim O\nsails O\n\nrain O\n")
    ran = invoke("prepare", "r.yaml", *ALONE)
    assert (ran.code, ran.err) == (
        0,
        "warning: data.train: all labels are the same (tag O): there is nothing to learn\n",
    )


# --- how files spell tags ---------------------------------------------------------------------------------------------

PLAIN = "Wim B-PER/Vos I-PER/sails O//Elst B-LOC/Ada B-PER/the I-PER/Great I-PER/"


@pytest.mark.parametrize(
    "tags",
    [
        "B-PER I-PER O B-LOC B-PER I-PER I-PER",
        "I-PER I-PER O I-LOC I-PER I-PER I-PER",
        "B-PER E-PER O S-LOC B-PER I-PER E-PER",
        "B-PER L-PER O U-LOC B-PER I-PER L-PER",
        "B-PER E-PER O S-LOC B-PER M-PER E-PER",
        "B-PER E-PER O W-LOC B-PER M-PER E-PER",
        "PER-B PER-I O LOC-B PER-B PER-I PER-I",
        "PER-B PER-E O LOC-S PER-B PER-I PER-E",
        "B_PER I_PER O B_LOC B_PER I_PER I_PER",
        "PER_B PER_I O LOC_B PER_B PER_I PER_I",
    ],
)
def test_every_notation_is_the_same_corpus(tags: str, here: Path, invoke: Invoke) -> None:
    lines = [line.split() for line in PLAIN.split("/")]
    spelled = iter(tags.split())
    (here / "train.txt").write_text("".join(f"{line[0]}\t{next(spelled)}\n" if line else "\n" for line in lines))
    for strict in ("false", "true"):
        ran = invoke("prepare", "r.yaml", "--check", *ALONE, f"data.columns.strict={strict}")
        assert (ran.code, ran.err) == (0, "")
        assert "tag: 5 labels: B-PER 2, E-PER 2, I-PER 1, O 1, S-LOC 1" in ran.out


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "Wim B-PER\nVos I-PER\nsails 0\n\nx 0\n",
            "train.txt:3: '0' for 'O'. 2 such tags in this file are read as 'O'",
        ),
        ("Wim B-PER\nVos i-PER\nsails O\n\nx O\n", "train.txt:2: 'i-PER' for 'I-PER'. This tag is read with a capital"),
        (
            "Wim B-PER\nVos I_PER\nsails O\n\nx O\n",
            "train.txt:2: 'I_PER' for 'I-PER'. This tag is read with '-' for '_'",
        ),
    ],
)
@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_repairs_are_told_and_counted(
    text: str, warning: str, jobs: tuple[str, ...], here: Path, invoke: Invoke
) -> None:
    (here / "train.txt").write_text(text)
    ran = invoke("prepare", "r.yaml", *ALONE, *jobs)
    assert ran.code == 0, ran.err
    assert ran.err.count("warning: ") == 1
    assert f"warning: {warning}" in ran.err
    assert "data.columns.strict=true refuses" in ran.err
    assert "O 2, B-PER 1, E-PER 1" in ran.out
    refused(invoke("prepare", "r.yaml", *ALONE, "data.columns.strict=true"), 3, warning.partition(". ")[0])


COMMENTS = "# id 7\tdomain=en\nWim _ _ B-PER\nsails _ _ O\n\n# id 8\tdomain=en\nrain _ _ O\n"
"""As MultiCoNER and Universal NER have them."""
URLS = "#\thttp://x [2009-10-17]\n1\tWim\tB-PER\tO\n2\tsails\tO\tO\n"
"""As GermEval has them."""
OF_URLS = "data.columns={word: 1, tag: 2, entities: bioes"
BILOU = "Wim B-PER\nVos L-PER\nsails O\n\nElst U-LOC\n"


@pytest.mark.parametrize(
    ("text", "options", "labels"),
    [
        ("Wim B\nVos I\nsails O\n\nElst B\n", [], "4 labels: B-ENTITY 1, E-ENTITY 1, O 1, S-ENTITY 1"),
        (BILOU, ["data.columns.scheme=auto"], "4 labels: B-PER 1, E-PER 1, O 1, S-LOC 1"),
        (BILOU, ["data.columns.scheme=bilou"], "4 labels: B-PER 1, E-PER 1, O 1, S-LOC 1"),
        ("Wim NNP B-PER\nsails VB O\n\nrain\tNN\tO\n", [], "2 labels: O 2, S-PER 1"),
        (COMMENTS, ['data.columns.comments="# "'], "2 labels: O 2, S-PER 1"),
        (URLS, [f'{OF_URLS}, comments: "# "}}'], "2 labels: O 1, S-PER 1"),
    ],
)
def test_other_files_that_are_read(text: str, options: list[str], labels: str, here: Path, invoke: Invoke) -> None:
    (here / "train.txt").write_text(text)
    ran = invoke("prepare", "r.yaml", *ALONE, *options)
    assert (ran.code, ran.err) == (0, "")
    assert f"tag: {labels}" in ran.out


@pytest.mark.parametrize(
    ("text", "options", "messages"),
    [
        ("Wim B-PER\nVos PER-I\nx I-PER\n", [], ["train.txt:2: 'PER-I' is no tag of iob2"]),
        (
            "Wim B\nVos I\nx I-PER\n",
            [],
            ["train.txt:3: 'I-PER' is no tag like others of the file: O, or a letter alone"],
        ),
        ("Wim S-PER\nx O\nVos U-PER\n", [], ["train.txt:3: 'U-PER' is no tag of bioes"]),
        ("# id x\nWim a B-PER\n", [], ["train.txt:1: 'x' is no tag of iob2"]),
        ("Wim\nsails\n", [], ["train.txt:1: 1 column, so that the word"]),
        ("Wim\t\nsails\t\n", [], ["train.txt:1: the tag (column -1 of 2) is empty"]),
        ("Wim _\nsails _\n", [], ["train.txt:1: '_' is no tag of iob2"]),
        # Lines of other columns than the first one, which may be a comment.
        ("Wim NNP B-PER\n\nrain\tO\n", ["data.columns.tag=2"], ["train.txt:3: 2 columns, but the tag is column 2"]),
        ("Wim NNP B-PER\n\nrain\tO\n", [], ["train.txt:3: 2 columns, but line 1 has 3"]),
        (COMMENTS, [], ["train.txt:2: 4 columns, but line 1 has 2"]),
        (URLS, [f"{OF_URLS}}}"], ["train.txt:1: 2 columns, but the tag is column 2"]),
        # Tags of another scheme than the recipe says, or of none.
        (
            TRAIN,
            ["data.columns.scheme=bioes", STRICT],
            ["train.txt:3: O after I-PER; in bioes only I-PER or E-PER follows it", "the tags are read as bioes"],
        ),
        ("Wim U-PER\n", ["data.columns.scheme=bioes"], ["train.txt:1: 'U-PER' is no tag of bioes"]),
        (
            CONLL.replace("Lahore NNP I-NP I-LOC", "Lahore NNP I-NP X-PER"),
            OF_CONLL,
            ["train.txt:13: 'X-PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"],
        ),
    ],
)
def test_what_is_not_clear_is_refused(
    text: str, options: list[str], messages: list[str], here: Path, invoke: Invoke
) -> None:
    (here / "train.txt").write_text(text)
    ran = invoke("prepare", "r.yaml", *ALONE, *options)
    refused(ran, 3, *messages)
    assert "warning" not in ran.err
    assert ('data.columns.comments="# "' in ran.err) == text.startswith("#")


# --- predictions beside gold tags -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("Hamlet\tB-WORK OF ART\nIII\tI-WORK OF ART\nis\tO\nold\tO\n", "{}"),
        ("New York\tB-LOC\n2 1/2\tO\n", "{}"),
        ("Hamlet|B-WORK OF ART\nis|O\n", '{separator: "|"}'),
        ("Wim,B-PER\nis,O\n", '{separator: ","}'),
        ("Wim B\nVos I\nis O\n", "{}"),
        ("Wim\tPER-B\nVos\tPER-I\n#\t0\n", "{}"),
        ("# id\nWim B-PER\n#1 O\n", '{comments: "# "}'),
    ],
)
@pytest.mark.parametrize("entities", ["iob2", "bioes"])
def test_predictions_are_read_back(text: str, columns: str, entities: str, here: Path, invoke: Invoke) -> None:
    """With the scores of `eval`; a type or a word with a space does not move a column."""
    for name in ("train.txt", "dev.txt"):
        (here / name).write_text(text)
    given = [f"data.columns={columns}", f"data.columns.entities={entities}", "train.steps=40"]
    assert invoke("train", "r.yaml", *given, "data.test=null").code == 0
    scores = invoke("eval", "runs/names", "--predictions", "out.txt", "--json").json["scores"]["dev"]
    again = invoke("score", "entities", "out.txt", "--json")
    assert again.code == 0, again.err
    assert again.json["scores"] == {name: scores[name] for name in again.json["scores"]}
    assert scores["f1"] == again.json["scores"]["f1"] == 1.0
    assert ("\t" in Path("out.txt").read_text()) == (" OF " in text or "New " in text)


def test_words_that_no_column_file_can_have_are_refused(here: Path, invoke: Invoke) -> None:
    (here / "train.txt").write_text("Wim|B-PER\na\tb|O\n")
    assert invoke("train", "r.yaml", *ALONE, 'data.columns.separator="|"').code == 0
    ran = invoke("eval", "runs/names", "train.txt", "--predictions", "out.txt")
    refused(ran, 3, r"train.txt:1: a column file cannot have 'a\tb'")
    assert not Path("out.txt").exists()
