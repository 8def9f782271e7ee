"""Parsing from a treebank to CoNLL-U: scores, columns and what is refused; runs of a few updates."""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import Invoke, quick_trainings, real_data, workplace
from udtools.state import State
from udtools.udeval import evaluate, load_conllu
from udtools.validator import Validator

import probtrans_cli
from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.data.corpus.prepared import prepare
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.export.bundle import write_beside
from probtrans_cli.models.base import Encoded, Inputs, Wants
from probtrans_cli.models.outputs import FeatureOutput, View
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.tasks.parsing import crosses
from probtrans_cli.trained.model import Model
from probtrans_cli.training.loop import Trainer

NAMES = {"uas": "UAS", "las": "LAS", "clas": "CLAS", "mlas": "MLAS", "upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats"}
SHORT = ["data.format=treebank", "train={steps: 40, batch_words: 60}", "optim.lr=0.02", "model.dropout=0"]
HEADS = ["task={kind: parsing, output: heads, relations: full, tags: [upos, xpos, feats], feats: features}",
         "model.head_labels=true", "model.root={labels: 4, own_label: true}", "model.channels=18"]  # fmt: skip
BIAFFINE = ["task={kind: parsing, tags: [upos], heads: tree, decode: mst}"]


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workplace with two runs, `heads` and `biaffine`."""
    folder = workplace(tmp_path_factory.mktemp("parsing"))
    for path in folder.glob("*.conllu"):  # with features, some of which are no universal ones
        text = path.read_text("utf-8")
        path.write_text(re.sub(r"(s(\t[^\t\n]*){3})\t_", r"\1\tNumber=Plur|Typo=Yes", text), "utf-8")
    with chdir(folder), quick_trainings(pages=True):
        for name, options in (("heads", HEADS), ("biaffine", BIAFFINE)):
            train(TrainRequest("tiny.yaml", [f"name={name}", *options, *SHORT]))
    return folder


@pytest.fixture(autouse=True)
def _there(parsers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(parsers)


def udeval(gold: str, predicted: str) -> dict[str, Any]:
    return evaluate(*(load_conllu(io.StringIO(text, newline=""), "", {}) for text in (gold, predicted)))


@pytest.mark.parametrize("name", ["heads", "biaffine"])
def test_scores_are_those_of_udeval_for_what_parse_writes(invoke: Invoke, name: str) -> None:
    gold = Path("test.conllu").read_text("utf-8")
    output = invoke("parse", f"runs/{name}", "test.conllu").out
    scores = invoke("eval", f"runs/{name}", "--json").json["scores"]["test"]
    theirs = udeval(gold, output)
    learned = [score for score in NAMES if name == "heads" or score in ("uas", "las", "clas", "upos")]
    assert {score: scores[score] for score in learned} == {score: theirs[NAMES[score]].f1 for score in learned}
    assert "mlas" in scores or name == "biaffine"
    for score in learned:
        assert scores[f"{score}_interval"][0] <= scores[score] <= scores[f"{score}_interval"][1]
    Path("written.conllu").write_text(output, encoding="utf-8")
    ours = invoke("score", "trees", "written.conllu", "--gold", "test.conllu", "--json").json["scores"]
    alike = [*learned, *(f"{score}_interval" for score in learned), "groups"]
    assert {key: ours[key] for key in alike} == {key: scores[key] for key in alike}
    page = Path(f"runs/{name}/report.html").read_text("utf-8")
    assert "Confusions on dev" in page
    assert all(f"By {kind}</h3>" in page for kind in ("relation", "length", "distance"))


@pytest.mark.parametrize("options", [[], ["--prob", "--top", "2", "--uncertainty"]])
def test_raw_text_becomes_a_valid_treebank(invoke: Invoke, options: list[str]) -> None:
    """As the validator of Universal Dependencies says; of level 2, sentences lack names alone."""
    text = "Those short foxes rip this scarf. Don't, said \u201cMr.\u201d A.|B=C!\n\n \nWhy?  # \u00e9\u00a0x\n"
    Path("raw.txt").write_text(text, encoding="utf-8")
    output = invoke("parse", "runs/heads", "raw.txt", "-f", "conllu", *options).out
    assert output.count("# text = ") == 4
    for level, names in ((1, set()), (2, {"missing-sent-id"})):
        state = State()
        Validator(lang="ud", level=level, output=None).validate_file_handle(io.StringIO(output), state)
        assert {fault.testid for fault in state.error_tracker} == names


EXTRAS = ["# sent_id = 1", "# text = the dogs rip it", "1-2\tthe dogs" + "\t_" * 7 + "\tSpaceAfter=No"]


@pytest.mark.parametrize("name", ["heads", "biaffine"])
@pytest.mark.parametrize(("beginning", "end"), [("", "\n"), ("", "\r\n"), ("\ufeff", "\n")])
def test_only_the_predicted_columns_change(invoke: Invoke, name: str, beginning: str, end: str) -> None:
    filled = {3, 4, 5, 6, 7} if name == "heads" else {3, 6, 7}
    rows = [
        "1\tthe\tthe\tX\tY\tA=b\t_\t_\t2:det\tM=1",
        "2\tdogs\t_\t_\t_\t_\t1\tdep\t_\t_",
        "2.1\tempty" + "\t_" * 8,
        "3\trip\trip\t_\t_\t_\t0\troot\t_\tG=h|I=j",
    ]
    lines = [*EXTRAS, *rows, "", ""]
    Path("given.conllu").write_bytes((beginning + end.join(lines)).encode())
    invoke("parse", f"runs/{name}", "given.conllu", "-o", "out.conllu")
    before = Path("given.conllu").read_bytes().decode().removeprefix(beginning).split(end)
    after = Path("out.conllu").read_bytes().decode().removeprefix(beginning).split(end)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old[:1].isdigit() and "-" not in old.split("\t")[0] and "." not in old.split("\t")[0]:
            pairs = list(zip(old.split("\t"), new.split("\t"), strict=True))
            assert [pair for i, pair in enumerate(pairs) if i not in filled and pair[0] != pair[1]] == []
            assert new.split("\t")[6].isdigit()
        else:
            assert old == new


@pytest.mark.parametrize("name", ["heads", "biaffine"])
def test_blocks_and_an_exported_folder_answer_as_the_run(invoke: Invoke, name: str) -> None:
    expected = invoke("parse", f"runs/{name}", "test.conllu").out
    assert invoke("export", f"runs/{name}", f"of-{name}", "--format", "wheel").code == 0
    assert invoke("parse", f"of-{name}", "test.conllu").out == expected
    options = ["--output-dir", f"bulk-{name}", "--block-size", "1000"]
    assert invoke("parse", f"runs/{name}", "test.conllu", *options).code == 0
    assert len(list(Path(f"bulk-{name}", "blocks").glob("*.done"))) > 1
    assert invoke("parse", f"runs/{name}", "test.conllu", *options, "--merge").out == expected


def test_an_exported_folder_names_what_is_scored(tmp_path: Path) -> None:
    model = Model.load("runs/heads")
    write_beside(model, "pt2", tmp_path)
    names = json.loads((tmp_path / "labels.json").read_text("utf-8"))
    assert names["feats"] == ["_", "Number=Plur|Typo=Yes"]
    assert names["feats"] == model.labels["feats"]


TREEBANKS = ("wo_wtb", "en_ewt", "ug_udt", "af_afribooms", "fr_sequoia", "el_gdt", "hu_szeged", "mt_mudt", "tr_imst")


@pytest.mark.parametrize(
    ("treebank", "sentences"),
    [("en_ewt", 20), *(pytest.param(name, None, marks=pytest.mark.slow) for name in TREEBANKS)],
)
def test_whole_files_keep_the_bytes_of_all_other_columns(invoke: Invoke, treebank: str, sentences: int | None) -> None:
    """With both kinds of line ends; the byte-order mark alone is dropped. Scores are those of `udeval`."""
    original = real_data(f"ud/{treebank}/test.conllu").read_bytes()
    blocks = original.decode().split("\n\n")[:sentences]
    text = "\n\n".join(blocks) + ("" if sentences is None else "\n\n")
    filled = {3, 4, 5, 6, 7}
    for beginning, end in (("", "\n"), ("\ufeff", "\r\n")):
        Path("whole.conllu").write_bytes((beginning + text.replace("\n", end)).encode())
        invoke("parse", "runs/heads", "whole.conllu", "-o", "out.conllu")
        before, after = (Path(name).read_bytes().decode().split("\n") for name in ("whole.conllu", "out.conllu"))
        ours = invoke("score", "trees", "out.conllu", "--gold", "whole.conllu", "--json").json["scores"]
        theirs = udeval(*(Path(name).read_text("utf-8-sig") for name in ("whole.conllu", "out.conllu")))
        assert {name: ours[name] for name in NAMES if name in ours} == {
            name: theirs[title].f1 for name, title in NAMES.items() if name in ours
        }
        before[0] = before[0].removeprefix("\ufeff")
        rows = [(old.split("\t"), new.split("\t")) for old, new in zip(before, after, strict=True)]
        for old, new in rows:
            kept = [column for column in range(len(old)) if not (old[0].isdigit() and column in filled)]
            assert len(old) == len(new)
            assert [old[column] for column in kept] == [new[column] for column in kept]


def test_a_tree_has_one_root_whose_relation_is_root() -> None:
    texts = ["those foxes rip this scarf", "foxes", "a b c d e f g", "farmers fold shirts in a harbor"]
    for name in ("heads", "biaffine"):
        model = probtrans_cli.load(f"runs/{name}")
        for analysis in model.analyze(texts, trees=True):
            record = analysis.record()
            assert [r == "root" for r in record["relations"]] == [h == 0 for h in record["heads"]]
            assert record["heads"].count(0) == 1
            assert record["heads"] == analysis.heads.tolist()
            assert all(0 <= p <= 1 for key in record if key.endswith("_probability") for p in record[key])
            assert len(record["upos"]) == len(record["words"])


@pytest.mark.parametrize("name", ["heads", "biaffine"])
def test_likely_heads_and_how_uncertain_they_are(invoke: Invoke, name: str) -> None:
    """All n possible heads of a word have the probability 1 together, and the entropy is theirs."""
    Path("few.txt").write_text("foxes\nthose foxes rip this scarf\nfoxes rip scarfs\n", encoding="utf-8")
    records = invoke("parse", f"runs/{name}", "few.txt", "-f", "jsonl", "--top", "99", "--uncertainty").out
    plain = invoke("parse", f"runs/{name}", "few.txt", "-f", "jsonl").out
    for line, without in zip(records.splitlines(), plain.splitlines(), strict=True):
        record = json.loads(line)
        assert record.items() >= json.loads(without).items()
        words = range(1, len(record["words"]) + 1)
        for word in words:
            options = record["head_alternatives"][word - 1]
            chances = [option["probability"] for option in options]
            assert sorted(option["head"] for option in options) == [0, *(head for head in words if head != word)]
            assert [option["relation"] == "root" for option in options] == [option["head"] == 0 for option in options]
            assert chances == sorted(chances, reverse=True)
            assert sum(chances) == pytest.approx(1.0, abs=1e-4)
            (chosen,) = (option for option in options if option["head"] == record["heads"][word - 1])
            assert chosen["probability"] == record["head_probability"][word - 1]
            assert chosen["relation"] == record["relations"][word - 1]
            entropy = -sum(p * math.log(p) for p in chances if p)
            assert record["head_entropy"][word - 1] == pytest.approx(entropy, abs=1e-3)
            assert record["upos_alternatives"][word - 1][0]["tag"] == record["upos"][word - 1]
    conllu = invoke("parse", f"runs/{name}", "few.txt", "--top", "2", "--uncertainty").out
    misc = [dict(entry.split("=") for entry in row[9].split("|")) for row in map(str.split, conllu.splitlines()) if
            row and row[0].isdigit()]  # fmt: skip
    assert misc[0]["Heads"] == "0:1.0000"
    assert [len(of_word["Heads"].split(",")) for of_word in misc[1:]] == [2] * 8
    assert misc[0]["HeadEntropy"] == "0.0000"


@pytest.mark.parametrize("form", ["tree", "svg", "latex", "displacy"])
def test_pictures_have_relations(invoke: Invoke, form: str) -> None:
    Path("one.txt").write_text("foxes rip scarfs\n", encoding="utf-8")
    relations = invoke("parse", "runs/heads", "one.txt", "-f", "jsonl").json["relations"]
    assert "root" in relations
    picture = invoke("parse", "runs/heads", "one.txt", "-f", form, "--prob").out
    assert all(relation in picture for relation in relations)


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("parse", ["--decode", "mst", "-f", "jsonl"], "the heads of a parser are its answers"),
        ("parse", ["--iteration", "1"], "the heads of a parser are its answers"),
        ("eval", ["--channel", "0"], "the heads of a parser are its answers"),
        ("eval", ["--choose"], "there is nothing to choose"),
        ("eval", ["--relations"], "under `groups`"),
        ("eval", ["--predictions", "p"], "written by parse -f conllu"),
        ("eval", ["--ood", "test.conllu"], "--ood: a parser has no one answer"),
        ("parse", ["--top", "2", "-f", "tree"], "use -f jsonl or conllu"),
        ("parse", ["--abstain", "0.5"], "a task of kind parsing leaves no answers out"),
        ("parse", ["--gold", "-f", "tree"], "some.conllu:3: a word without HEAD"),
        ("score", ["--gold", "test.conllu"], "some.conllu:3: a word without HEAD"),
        ("eval", ["--require", "heads_ece<9"], "add --uncertainty"),
    ],
)
def test_what_is_of_other_trees_is_refused(invoke: Invoke, command: str, options: list[str], message: str) -> None:
    some = Path("test.conllu").read_text("utf-8")
    Path("some.conllu").write_text(re.sub(r"(?m)^(1(\t[^\t]*){5})(\t[^\t]*){2}", r"\1\t_\t_", some, count=1), "utf-8")
    ran = invoke(command, "trees" if command == "score" else "runs/biaffine", "some.conllu", *options)
    assert ran.code in (2, 3)
    assert message in ran.err


def test_python_and_pages_tell_the_answers_of_words(invoke: Invoke) -> None:
    """The page draws the arcs of the encoder, and has the parser's answers below the words."""
    (analysis,) = probtrans_cli.load("runs/heads").analyze(["the farmers"])
    record = analysis.record()
    assert analysis.words == record["words"] == ["the", "farmers"]
    for word, head, relation, tag in zip(
        analysis.words, record["heads"], record["relations"], record["upos"], strict=True
    ):
        assert (word.head, word.relation, word.upos) == (head, relation, tag)
        assert 0.0 <= word.head_probability <= 1.0
        assert 0.0 <= word.upos_probability <= 1.0
    assert pickle.loads(pickle.dumps(analysis.words))[0].head == record["heads"][0]
    text = Path("two.txt")
    text.write_text("the farmers\n", "utf-8")
    page = invoke("parse", "runs/heads", "two.txt", "-f", "html").out
    for word in analysis.words:
        other = f" of {analysis.words[word.head - 1]} " if word.head else " "
        assert f'"{word.relation}{other}' in page


def test_python_shows_the_answers_of_a_parser_as_its_trees() -> None:
    """And no channel or iteration, which none of them is read from."""
    model = probtrans_cli.load("runs/heads")
    (analysis,) = model.analyze(["goats sleep"])
    assert repr(analysis).startswith("Analysis('goats sleep', 2 words, a tree, ")
    assert "<th>task</th><td>parsing" in model._repr_html_()
    assert "<th>trees" not in model._repr_html_()


def test_what_is_not_scored_is_counted(invoke: Invoke) -> None:
    """Relations count without subtypes, and sentences with a word without HEAD not at all."""
    text = Path("test.conllu").read_text("utf-8").replace("\tdet\t", "\tdet:poss\t")
    Path("poss.conllu").write_text(text, "utf-8")
    before, after = (invoke("eval", "runs/heads", name, "--json") for name in ("test.conllu", "poss.conllu"))
    assert after.json["scores"]["poss.conllu"]["las"] == before.json["scores"]["test.conllu"]["las"]
    number = text.count("det:poss")
    assert f"scored without subtypes: det:poss ({number}); first in poss.conllu:1" in after.err
    first, rest = text.split("\n\n", 1)
    first = re.sub(r"(?m)^(\d+(\t[^\t]*){5})(\t[^\t]*){2}", r"\1\t_\t_", first, count=1)
    Path("one.conllu").write_text(f"{first}\n\n{rest}", "utf-8")
    Path("rest.conllu").write_text(rest, "utf-8")
    some, whole = (invoke("eval", "runs/biaffine", name, "--json") for name in ("one.conllu", "rest.conllu"))
    assert some.json["scores"]["one.conllu"]["las"] == whole.json["scores"]["rest.conllu"]["las"]
    number = len(text.strip().split("\n\n"))
    assert f"words have no HEAD: 1 of {number} sentences is not scored" in some.err
    ran = invoke("score", "trees", "poss.conllu", "--gold", "one.conllu", "--json")
    assert (ran.json["scores"]["las"], ran.json["scores"]["not_scored"]) == (1.0, 1)
    assert "1 sentence is not scored, as a word has no gold HEAD: one.conllu:3" in ran.err


def test_heads_that_are_no_tree_are_refused(invoke: Invoke) -> None:
    text = Path("dev.conllu").read_text("utf-8")
    Path("odd.conllu").write_text(text.replace("\t0\troot", "\t1\tdep", 1), encoding="utf-8")
    assert "odd.conllu:" in invoke("eval", "runs/heads", "odd.conllu").err


def test_sentences_without_some_heads_are_learned_from(invoke: Invoke) -> None:
    """Also beside another treebank; of a file in which most words have no head, nothing is scored."""
    lines = Path("train.conllu").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows):
        if len(row) == 10 and number % 5:
            row[6] = row[7] = "_"
    Path("part.conllu").write_text("\n".join("\t".join(row) for row in rows) + "\n", encoding="utf-8")
    for options, files, number in ((HEADS, "part.conllu", 40), (BIAFFINE, "[part.conllu, train.conllu]", 80)):
        names = [f"name=part{len(options)}", f"data.train={files}"]
        trained = invoke("train", "tiny.yaml", *names, *options, *SHORT, "train.steps=5")
        assert f"{number} sentences" in trained.err
    scores = json.loads(invoke("eval", "runs/heads", "part.conllu", "--json").out)["scores"]["part.conllu"]
    assert scores["las"] is None
    assert scores["loss"] > 0


HIDDEN = ["data.raw=raw.txt", "task.mlm=0.5"]


@pytest.fixture
def raw() -> Path:
    """Sentences without labels, and the model of a training that has them."""
    lines = Path("dev.conllu").read_text("utf-8").splitlines(keepends=True)
    words = [sentence.words for sentence in read_conllu(lines, "dev.conllu")]
    Path("raw.txt").write_text("".join(f"{' '.join(of_sentence)} unheard\n" for of_sentence in words), "utf-8")
    return Path("raw.txt")


def trainer_of(folder: Path, *options: str) -> Trainer:
    recipe = load_recipe("tiny.yaml", [*options, *SHORT])
    return Trainer(recipe, prepare(recipe), folder, resume=False)


@pytest.mark.parametrize("options", [HEADS, BIAFFINE])
def test_batches_of_trees_and_of_hidden_words_alternate(raw: Path, tmp_path: Path, options: list[str]) -> None:
    """Of the one all words are read and no word is predicted; of the other the words that are hidden, and nothing else.
    The loss of each is its own."""
    trainer = trainer_of(tmp_path, *options, *HIDDEN)
    task, network = trainer.model.task, trainer.network.train()
    first = trainer.plan.raw
    assert first is not None
    assert len(trainer.train_split) - first == len(raw.read_text("utf-8").splitlines())
    (unheard,) = trainer.model.vocabulary.encode_words(["unheard"]).ids
    assert unheard != trainer.model.vocabulary.UNKNOWN
    batches = trainer.plan.batches(0)
    assert all(
        (batch < first).all() if number % 2 == 0 else (batch >= first).all() for number, batch in enumerate(batches)
    )
    for number, indices in enumerate(batches[:2]):
        batch = task.training(trainer.model.collate(trainer.train_split, indices))
        outputs = network(batch, task.wants(batch))
        terms = task.terms(outputs, batch)
        counts = {name: int(term.count) for name, term in terms.items()}
        if number == 0:
            assert outputs.scores.keys() >= {"arcs", "upos"}
            assert "words" not in outputs.scores
            assert counts.pop("words") == 0
            assert all(counts.values())
            continue
        assert outputs.scores.keys() == {"words"}
        hidden = batch.ids == trainer.model.vocabulary.MASK
        assert counts == dict.fromkeys(counts, 0) | {"words": int(hidden.sum())}
        gold = batch.gold["ids"][hidden]
        by_hand = -outputs.scores["words"].float().log_softmax(-1).gather(1, gold[:, None]).sum()
        assert terms["words"].sum.item() == pytest.approx(by_hand.item(), rel=1e-5)
        assert terms["words"].weight == 0.5
        terms["words"].sum.backward()
        assert float(network.unary.weight.grad.norm()) > 0


def test_the_loss_that_is_told_has_both_parts(raw: Path, tmp_path: Path) -> None:
    """So has a rehearsal both kinds of batches."""
    del raw
    trainer = trainer_of(tmp_path, *BIAFFINE, *HIDDEN)
    with trainer.ahead.running():
        trainer.rehearse()
    assert trainer.losses.keys() == {False, True}
    assert trainer.loss == pytest.approx(sum(loss.item() for loss in trainer.losses.values()))


@pytest.mark.parametrize("options", [HEADS, BIAFFINE])
def test_hidden_words_leave_no_trace_in_answers(invoke: Invoke, raw: Path, options: list[str]) -> None:
    """Scores, predictions and exports are those of a parser; a training that stops goes on as it would have."""
    del raw
    name = f"hidden{len(options)}"
    new = ["train", "tiny.yaml", *options, *HIDDEN, *SHORT, "train.steps=8"]
    trained = invoke(*new, f"name={name}")
    assert trained.code == 0, trained.err
    split = json.loads(invoke("eval", f"runs/{name}", "--split", "dev", "--json").out)["scores"]["dev"]
    assert {"las", "uas", "upos", "loss"} <= split.keys()
    assert "perplexity" not in split
    parsed = invoke("parse", f"runs/{name}", "dev.conllu", "-f", "jsonl").out
    answers = [json.loads(line) for line in parsed.splitlines()]
    assert answers
    assert all("masks" not in answer and len(answer["heads"]) == len(answer["words"]) for answer in answers)
    model = Model.load(f"runs/{name}")
    assert "output.words.bias" in dict(model.network.named_parameters())
    ids = torch.tensor([[3, 4, model.vocabulary.MASK]])
    every = torch.ones_like(ids, dtype=torch.bool)
    outputs = model.network.eval()(Inputs(ids=ids, mask=every), Wants(words=every, places="all"))  # as a graph asks
    assert outputs.scores.keys() >= {"arcs", "upos"}
    assert "words" not in outputs.scores
    again = invoke(*new, f"name={name}again", "--init-from", f"runs/{name}")
    assert again.code == 0, again.err
    assert not re.search(r"drawn at random: .*arcs.projective", again.err)


def test_files_without_labels_have_none(invoke: Invoke, raw: Path, tmp_path: Path) -> None:
    """Of CoNLL-U as of text, also where its trees are none; it is no copy of train that would have to be told."""
    text = Path("train.conllu").read_text("utf-8")
    Path("untold.conllu").write_text(text.replace("\t0\troot", "\t1\tdep"), "utf-8")
    options = [
        *BIAFFINE,
        "data.raw=[untold.conllu, train.conllu, raw.txt]",
        "task.mlm=0.5",
        "data.select={sentences: 3}",
    ]
    trainer = trainer_of(tmp_path, *options)
    split, first = trainer.train_split, trainer.plan.raw
    assert first == 3
    assert len(split) == 3 + 2 * text.count("\n\n") + len(raw.read_text("utf-8").splitlines())
    assert all((split.row("parents", index) == -2).all() for index in range(first, len(split)))
    assert all((split.row("upos", index) == -1).all() for index in range(first, len(split)))
    shown = invoke("prepare", "tiny.yaml", *options, *SHORT)
    copied = invoke("prepare", "tiny.yaml", *BIAFFINE, "data.raw=dev.conllu", "task.mlm=0.5", *SHORT)
    assert "data.dev names dev.conllu, a file of data.raw" in copied.err
    assert re.search(r"^ raw +\d", shown.out, re.MULTILINE)
    assert "copy" not in shown.err


HIDING = [*BIAFFINE, *SHORT, "task.mlm=0.5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*HEADS[:-1], "model.channels=3", *SHORT], "channels for them"),
        (["task={kind: parsing, output: heads}", *SHORT], "set model.head_labels=true"),
        (["task={kind: parsing}"], "data.format"),
        (HIDING, "name their file with data.raw"),
        ([*BIAFFINE, *SHORT, "data.raw=raw.txt"], "set task.mlm=0.03"),
        (["data.raw=raw.txt"], "name the file there"),
        ([*HIDING, "data.raw=rare.txt", "data.vocabulary.min_count=2"], "data.raw: there is no word to"),
        ([*HIDING, "data.raw=absent.txt"], "data.raw: there is no corpus 'absent.txt'"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(invoke: Invoke, raw: Path, options: list[str], message: str) -> None:
    del raw
    Path("rare.txt").write_text("unheard-of words\n", "utf-8")
    assert message in invoke("train", "tiny.yaml", "name=x", *options).err


def test_a_bundle_has_the_sum_of_the_scores_of_its_features() -> None:
    bundles = ["_", "Case=Nom|Number=Sing", "Case=Acc|Number[psor]=Plur,Sing", "Case=Nom"]
    layer, states = FeatureOutput(5, bundles), torch.randn(3, 5)
    every = torch.ones(1, 3, dtype=torch.bool)
    inputs = Inputs(ids=every.long(), mask=every)
    scores = layer.read(View(inputs, Wants(words=every), lambda: states, Encoded(states[None]), every))["words"]
    assert layer.values == ["Case=", "Case=Acc", "Case=Nom", "Number=", "Number=Sing", "Number[psor]=",
                            "Number[psor]=Plur,Sing"]  # fmt: skip
    of_bundles = [(0, 3, 5), (2, 4, 5), (1, 3, 6), (2, 3, 5)]
    for state, of_word in zip(states, scores, strict=True):
        of_values = [(row @ state + bias).item() for row, bias in zip(layer.weight, layer.bias, strict=True)]
        assert of_word.tolist() == pytest.approx([sum(of_values[v] for v in rows) for rows in of_bundles], abs=1e-5)


def test_crossing_arcs() -> None:
    assert not crosses(np.array([1, -1, 1]))
    assert not crosses(np.array([-2, -1, -2]))
    assert crosses(np.array([2, 3, -1, 2]))  # 1 <- 3 and 2 <- 4
    assert crosses(np.array([2, -1, 1]))  # over the root's word


def test_dev_chooses_how_trees_are_found() -> None:
    best = Path("runs/heads/checkpoints/best/eval.json")
    decision = json.loads(best.read_text("utf-8"))["decision"]
    assert set(decision["las"]) == {"1", "0"}
    assert decision["las"][f"{decision['projective']:g}"] == max(decision["las"].values())
    parser = probtrans_cli.load("runs/heads").task.tasks["arcs"]
    assert parser.decoder == ("eisner" if decision["projective"] else "mst")
    assert "decision" not in json.loads(Path(str(best).replace("heads", "biaffine")).read_text("utf-8"))


@pytest.mark.parametrize("name", ["heads", "biaffine"])
def test_calibration_of_a_parser_beside_its_loss_and_its_files(invoke: Invoke, name: str) -> None:
    ran = invoke("eval", f"runs/{name}", "--uncertainty", "--json")
    scores = ran.json["scores"]["test"]
    measured = scores["uncertainty"]
    tags = ["upos", "xpos", "feats"] if name == "heads" else ["upos"]
    assert set(measured) == {"heads", "relations", *tags}
    heads, relations = measured["heads"], measured["relations"]
    model = probtrans_cli.load(f"runs/{name}")
    assert heads["temperature"] == model.arc_temperature
    gold = list(read_conllu(Path("test.conllu").read_text("utf-8").splitlines(), "test.conllu"))
    for scored, temperature in ((heads, model.arc_temperature), (heads["without_temperature"], None)):
        model.arc_temperature = temperature
        analyses = model.analyze([sentence.words for sentence in gold], marginals=True)
        chances = [
            analysis.marginals[i, head]
            for sentence, analysis in zip(gold, analyses, strict=True)
            for i, head in enumerate(sentence.heads or [])
        ]
        assert scored["nll"] == pytest.approx(-np.log(chances).mean(), rel=1e-4)
    if name == "heads":  # the loss of an arc is that of its head and its relation, and of channels without a relation
        losses = [heads["number"] * heads["without_temperature"]["nll"], relations["number"] * relations["nll"]]
        losses += [heads["number"] * measured[column]["nll"] for column in tags]
        assert 0.98 * scores["loss"] < sum(losses) / heads["number"] <= scores["loss"]
    assert all(Path(f"runs/{name}/checkpoints/reliability-{choice}.svg").is_file() for choice in measured)
    for file, options in (("parsed.conllu", ["--prob"]), ("parsed.jsonl", ["-f", "jsonl"])):
        Path(file).write_text(invoke("parse", f"runs/{name}", "test.conllu", *options).out, "utf-8")
        # `_` is no answer there, and is one of features.
        for column, choice in (("head", heads), *((tag, measured[tag]) for tag in tags if tag != "feats")):
            ran = invoke("score", "calibration", file, "--gold", "test.conllu", "--column", column, "--json")
            for score in ("number", "ece", "ece_floor", "aurc"):
                assert ran.json["scores"][score] == pytest.approx(choice[score], abs=2e-3), (column, score)
            if column != "head":
                assert ran.json["scores"]["accuracy"] == pytest.approx(scores[column])
    ran = invoke("score", "calibration", "parsed.jsonl", "--gold", "test.conllu", "--column", "deprel", "--json")
    assert ran.json["scores"]["number"] == round(scores["uas"] * heads["number"])
    assert "heads of words" in invoke("eval", f"runs/{name}", "--uncertainty").out
    if name == "biaffine":
        for file in ("parsed.conllu", "parsed.jsonl"):
            without = invoke("score", "calibration", file, "--gold", "test.conllu", "--column", "xpos")
            assert "there are of head, deprel, upos: write --column head" in without.err


@pytest.mark.parametrize("name", ["heads", "biaffine"])
def test_a_temperature_changes_no_tree(name: str) -> None:
    model = probtrans_cli.load(f"runs/{name}")
    assert model.arc_temperature is not None
    words = ["two", "cheap", "farmers", "fold", "these", "short", "foxes"]
    predictions = []
    for temperature in (model.arc_temperature, 2.0 * model.arc_temperature, None):
        model.arc_temperature = temperature
        predictions.append(next(iter(model.analyze([words]))).prediction)
    warm, warmer, plain = (prediction or {} for prediction in predictions)
    assert warm["heads"] == warmer["heads"] == plain["heads"]
    assert warm["relation_probability"] == plain["relation_probability"]
    assert not np.allclose(warm["head_probability"], warmer["head_probability"])
