"""Starting with an output layer: its rows are found by name; and probes, which learn nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_starts import FOLDER, MLM, SIZES, SMALL, TAGGING, Says, loaded, saved_as, train
from support import COGS

from probtrans_cli.__main__ import run
from probtrans_cli.hf import read_bert
from probtrans_cli.training.start_from import of_bert

transformers = pytest.importorskip("transformers")


TAGS = ["NOUN", "DET", "ADJ", "ADP", "VERB", "PRON", "ADV", "AUX", "NUM"]  # of the workplace, by falling count
MEAN = "task={kind: classification, representation: mean}"


def assert_rows(output: Any, expected: dict[str, tuple[Any, int]], names: list[str]) -> None:
    """The rows of a layer are those of others where these are told, by the labels' names."""
    for name, (layer, row) in expected.items():
        id = names.index(name)
        torch.testing.assert_close(output.weight[id], layer.weight[row], rtol=0, atol=1e-5)
        torch.testing.assert_close(output.bias[id], layer.bias[row], rtol=0, atol=1e-5)


def labelled(name: str, labels: list[str]) -> None:
    lines = [f"two cheap farmers fold the shirt {i % 3}\t{label}" for i, label in enumerate(labels)]
    Path(name).write_text("\n".join(lines) + "\n", "utf-8")


def table(name: str) -> str:
    return f"data={{train: {name}, dev: {name}, format: table, vocabulary: {{kind: wordpiece, folder: bert}}}}"


def test_a_classifier_of_theirs_is_loaded_by_the_names_of_its_labels(bert: Any, says: Says) -> None:
    names = ["X", *reversed(TAGS[1:])]
    model = saved_as("BertForTokenClassification", bert, names)
    message = says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert")
    assert "1 of 9 labels are not there, drawn at random: NOUN" in message
    assert "1 of its 9 labels are left there: X" in message
    assert "not there, drawn at random: encoder.pooler.weight, encoder.pooler.bias\n" in message
    output = loaded().network.output
    assert_rows(output, {name: (model.classifier, names.index(name)) for name in TAGS[1:]}, TAGS)
    assert not torch.allclose(output.weight[0], model.classifier.weight[0], atol=1e-3)


DAMAGED: list[tuple[Any, str]] = [  # what stands for the names of two labels
    ({"0": "one"}, "1 of 2 labels"),
    ({"0": "one", "1": "one"}, "one twice"),
    (["one", "two"], "0 of 2 labels"),
    ({"0": "one", "1": 2}, "1 of 2 labels"),
    ({"a": "", "b": ""}, "0 of 2 labels"),
    ({"0": "one", "1": "two", "2": "three"}, "3 labels, but there are 2"),
]


def test_labels_without_names_are_taken_by_their_number(bert: Any, says: Says) -> None:
    model = saved_as("BertForTokenClassification", bert, num_labels=9)
    message = says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert")
    assert "warning: bert: its labels have no names, and are taken by their number: LABEL_0 = NOUN, LABEL_1" in message
    assert_rows(loaded().network.output, {name: (model.classifier, id) for id, name in enumerate(TAGS)}, TAGS)
    saved_as("BertForTokenClassification", bert)
    message = says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert", name="other")
    assert "its 2 labels have no names, and here are 9: left there" in message
    assert "not there, drawn at random: encoder.pooler.weight, encoder.pooler.bias, output.weight" in message
    saved_as("BertForTokenClassification", bert, ["one", "two"])
    assert "9 of 9 labels are not there" in says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert", name="none")
    config = json.loads(Path("bert/config.json").read_text("utf-8"))
    for number, (damaged, fault) in enumerate(DAMAGED):
        Path("bert/config.json").write_text(json.dumps(config | {"id2label": damaged}), "utf-8")
        layer = of_bert(read_bert(Path("bert")))["output"]
        assert (layer.fault, layer.names) == (f"its id2label names {fault}", None)
        if number < 2:
            message = says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert", name=f"damaged{number}")
            assert f"\nwarning: bert: its id2label names {fault}: its output layer is left there\n" in message
            assert "drawn at random: encoder.pooler.weight, encoder.pooler.bias, output.weight" in message


def test_labels_of_texts_are_read_where_they_were(bert: Any, says: Says) -> None:
    labelled("texts.tsv", ["1", "1", "0"])
    model = saved_as("BertForSequenceClassification", bert)
    texts = [SIZES, table("texts.tsv"), "--init-from", "bert"]
    message = says(0, *texts, "task={kind: classification}")
    assert "taken by their number: LABEL_0 = 0, LABEL_1 = 1" in message
    assert "not there" not in message
    assert "left there" not in message
    assert_rows(loaded().network.output, {"0": (model.classifier, 0), "1": (model.classifier, 1)}, ["1", "0"])
    reason = "its output layer is for labels of texts by the pooled first word, not for labels of texts by the mean of"
    assert reason in says(0, *texts, MEAN, name="mean")
    assert "by the pooled first word, not for tags of words: left there" in says(
        0, SIZES, FOLDER, TAGGING, "--init-from", "bert", name="tags"
    )
    config = json.loads(Path("bert/config.json").read_text("utf-8"))
    Path("bert/config.json").write_text(json.dumps(config | {"architectures": None}), "utf-8")
    assert "LABEL_0 = 0" in says(0, *texts, "task={kind: classification}", name="nameless")
    saved_as("BertForMultipleChoice", bert)
    assert "its output layer is for what a BertForMultipleChoice is for, not for labels" in says(
        0, *texts, "task={kind: classification}", name="choice"
    )


def test_what_we_export_is_continued_with_its_output_layer(bert: Any, says: Says) -> None:
    assert train(SIZES, FOLDER, TAGGING, "optim.lr=0.01", name="first") == 0
    assert run(["export", "runs/first", "exported", "--format", "hf"]) == 0
    message = says(0, SIZES, FOLDER, TAGGING, "--init-from", "exported", name="second")
    assert "not there, drawn at random: encoder.pooler" in message
    assert "output" not in message.partition("not there")[2].partition("\n")[0]
    first, second = loaded("first").network.output, loaded("second").network.output
    torch.testing.assert_close(second.weight, first.weight, rtol=0, atol=1e-5)


def test_an_output_layer_of_ours_is_continued(bert: Any, says: Says) -> None:
    """Where the labels are others, by their names; where the words are others, by their spelling."""
    rename = Path("train.conllu").read_text("utf-8").replace("\tNUM\t", "\tPROPN\t").replace("\tNOUN\t", "\tPRON\t")
    Path("other.conllu").write_text(rename, "utf-8")
    assert train(SMALL, TAGGING, "optim.lr=0.05", name="first") == 0
    message = says(0, SMALL, TAGGING, "--init-from", "runs/first", name="same")
    assert "not there" not in message
    assert "left there" not in message
    message = says(0, SMALL, TAGGING, "data.train=other.conllu", "--init-from", "runs/first", name="second")
    assert "1 of 8 labels are not there, drawn at random: PROPN" in message
    assert "2 of its 9 labels are left there: NOUN, NUM" in message
    first, second = loaded("first"), loaded("second")
    assert second.labels["upos"][0] == "PRON"
    common = [name for name in TAGS if name in second.labels["upos"]]
    expected = {name: (first.network.output, first.labels["upos"].index(name)) for name in common}
    assert_rows(second.network.output, expected, second.labels["upos"])
    assert train(SMALL, "data.train=dev.conllu", "optim.lr=0.05", name="words") == 0
    message = says(0, SMALL, "--init-from", "runs/words", name="more")
    assert "entries of the vocabulary are new" in message
    assert "not there" not in message
    words, more = loaded("words"), loaded("more")
    ids = {word: (words.network.output, words.vocabulary.encode_words([word]).ids[0]) for word in ("our", "the")}
    assert all(id != words.vocabulary.UNKNOWN for _, id in ids.values())
    every = [more.vocabulary.decode(id) for id in range(more.vocabulary.size)]
    assert_rows(more.network.output, ids, every)
    assert "its output layer is for words by a linear layer, not for tags of words" in says(
        0, SMALL, TAGGING, "--init-from", "runs/words", name="tags"
    )


def test_labels_of_cogs_are_continued(bert: Any, says: Says) -> None:
    Path("cogs.tsv").write_text("\n".join("\t".join(row) for row in COGS) + "\n", "utf-8")
    Path("less.tsv").write_text("\t".join(COGS[0]) + "\n", "utf-8")
    files = "data={{train: {0}, dev: {0}, format: cogs}}"
    attention = "task={kind: cogs, parent: attention}"
    assert train(SMALL, files.format("cogs.tsv"), attention, name="first") == 0
    message = says(0, SMALL, files.format("less.tsv"), attention, "--init-from", "runs/first", name="second")
    assert "not there" not in message
    assert "4 of its 12 labels are left there: " in message
    first, second = (loaded(name) for name in ("first", "second"))
    for name in ("child", "parent"):
        one, other = (getattr(model.network.output, name).weight for model in (first, second))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    message = says(0, SMALL, files.format("cogs.tsv"), "task={kind: cogs}", "--init-from", "runs/first", name="third")
    assert "labels are not there, drawn at random: offset" in message
    assert "left there: output.none, output.child.weight, output.parent.weight" in message


def test_pairs_of_another_kind_are_learned_afresh(bert: Any, says: Says) -> None:
    text = "\n".join(f"the dog {i}\ntwo farmers fold\nevery cat {i}\n" for i in range(12))
    Path("documents.txt").write_text(text, "utf-8")
    pretrain = [
        "data={train: documents.txt, format: documents, documents: {max_length: 24}}", FOLDER,
        "task={kind: pretrain, output: bert, eval_masks: 1}", "--init-from", "bert",
    ]  # fmt: skip
    message = says(0, SIZES, *pretrain, name="nsp")
    assert "not there" not in message
    assert "left there" not in message
    message = says(0, SIZES, *pretrain, "data.documents.pairs=sop", name="sop")
    assert "2 of 2 labels are not there, drawn at random: ordered, swapped" in message
    assert "not there, drawn at random: pair.weight, pair.bias" in message
    reason = "its output layer is for pairs of texts by the pooled first word, not for pairs of texts by the first word"
    assert reason in says(0, SIZES, "model.pooler=false", *pretrain, name="unpooled")


# --- probes -----------------------------------------------------------------------------------------------------------


def files_of(task: str) -> tuple[str, str]:
    """The overrides of a small corpus for a task."""
    if task == "ner":
        rows = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n"
        Path("ner.txt").write_text(rows * 4, "utf-8")
        columns = "columns: {word: 0, tag: -1, entities: bioes}"
        return f"data={{train: ner.txt, dev: ner.txt, format: columns, {columns}}}", "task={kind: ner}"
    if task == "cogs":
        Path("cogs.tsv").write_text("\n".join("\t".join(row) for row in COGS) + "\n", "utf-8")
        return "data={train: cogs.tsv, dev: cogs.tsv, format: cogs}", "task={kind: cogs}"
    labelled("texts.tsv", ["good", "bad", "good"])
    return "data={train: texts.tsv, dev: texts.tsv, format: table}", MEAN


@pytest.mark.parametrize(("task", "model"), [("ner", SMALL), ("cogs", SIZES), ("classification", SMALL)])
def test_a_probe_of_every_task_learns_one_linear_layer(bert: Any, task: str, model: str, says: Says) -> None:
    assert train(model, "optim.lr=0.05", name="first") == 0
    probe = [model, *files_of(task), "--init-from", "runs/first", "train.probe=true", "optim.lr=0.05"]
    assert train(*probe, "train.steps=1", name="begun") == 0
    assert "a probe leaves" not in says(0, *probe, "train.epochs=6", name="probe")
    begun, probed = (loaded(name).network for name in ("begun", "probe"))
    learned = {key for key, value in probed.state_dict().items() if not torch.equal(value, begun.state_dict()[key])}
    linear = "output.labels." if task == "cogs" else "output."
    assert learned == {f"{linear}weight", f"{linear}bias"}
    trained = loaded("first").network.encoder.state_dict()
    assert all(torch.equal(value, trained[key]) for key, value in probed.encoder.state_dict().items())


def test_what_a_probe_cannot_be_is_refused(bert: Any, says: Says) -> None:
    start, cogs = ("--init-from", "bert"), (files_of("cogs")[0], "task={kind: cogs, parent: attention}")
    tagger = (SMALL, TAGGING, *start)
    for options, message in (
        ([SMALL, TAGGING], "train.probe: a probe reads a trained encoder"),
        (
            [SIZES, FOLDER, MLM, *start],
            "task.output: a probe is linear, and BERT's output has a layer before the words: choose linear",
        ),
        ([SIZES, *cogs, *start], "task.parent: a probe is linear, and attention is not: choose relative or absolute"),
        ([SMALL, "task.output=tied", *start], "task.output: tied scores are the words' own"),
        ([*tagger, "optim.ternary_penalty.weight=1e-4"], "a probe leaves the ternary scores as they are"),
        ([*tagger, "optim.encoder_rate=0.5"], "optim.encoder_rate: a probe leaves the encoder as it is"),
    ):
        assert message in says(2, *options, "train.probe=true")


def test_a_probe_that_reads_what_was_drawn_says_so(bert: Any, says: Says) -> None:
    saved_as("BertForMaskedLM", bert)
    labelled("texts.tsv", ["1", "1", "0"])
    probe = ["--init-from", "bert", "train.probe=true"]
    message = "warning: bert: a probe leaves these as they were drawn, and reads them: encoder.pooler.weight, encoder"
    assert message in says(0, SIZES, table("texts.tsv"), "task={kind: classification}", *probe)
    for name, task in (("mean", MEAN), ("tags", TAGGING)):
        data = table("texts.tsv") if task == MEAN else FOLDER
        assert "as they were drawn" not in says(0, SIZES, data, task, *probe, name=name)
