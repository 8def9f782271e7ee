"""Starting from other weights: BERT folders and checkpoints, through the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_tasks import encode, word_scores
from support import COGS, workplace

from probtrans_cli.__main__ import run
from probtrans_cli.data.vocabularies.wordpiece import Options, WordPieces
from probtrans_cli.hf import read_bert
from probtrans_cli.trained.model import Model
from probtrans_cli.training.output_rows import of_bert

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("quick")

SPECIAL = "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK]"
PLAIN = "the this two every cheap farmers fold ##es ##ed ##ing dog cat"
PIECES = f"{SPECIAL} {PLAIN}".split()
LETTERS = [prefix + letter for prefix in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
ROWS = "positions: {kind: absolute, rows: 64}"
SIZES = f"model={{kind: transformer, preset: bert, width: 8, heads: 2, inner: 12, layers: 2, {ROWS}}}"
OFTEN = ["runtime={device: cpu, threads: 1}", "train.epochs=1", "optim.lr=1.0e-9", "--json"]


@pytest.fixture
def bert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A random BERT of theirs, saved with its vocabulary as the folder `bert` in a workplace, which becomes current."""
    monkeypatch.chdir(workplace(tmp_path))
    monkeypatch.setattr("probtrans_cli.atomic.sync", lambda path: None)
    torch.manual_seed(0)
    words = WordPieces([*PIECES, *LETTERS], Options())
    config = transformers.BertConfig(
        vocab_size=words.size + 3, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=64, pad_token_id=0, initializer_range=0.5,
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained("bert")
    for name, text in words.files().items():
        Path("bert", name).write_text(text, encoding="utf-8")
    return model


FOLDER = "data.vocabulary={kind: wordpiece, folder: bert}"
MLM = "task={kind: mlm, output: bert, eval_masks: 1}"


def train(*arguments: str, name: str = "run") -> int:
    return run(["train", "tiny.yaml", f"name={name}", *OFTEN, *arguments])


def loaded(name: str = "run") -> Model:
    return Model.load(f"runs/{name}")


def test_a_bert_is_continued(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(SIZES, FOLDER, MLM, "--init-from", "bert") == 0
    message = capfd.readouterr().err
    assert "warning: bert: 70 pieces, but the model's vocab_size is 73" in message
    assert "started from bert: 36 tensors loaded" in message
    assert "left there: pair.weight, pair.bias" in message
    assert "not there" not in message
    model = loaded()
    ids = torch.tensor([[3, 6, 9, 5, 4], [3, 7, 4, 0, 0]])
    mask = ids != 0
    with torch.no_grad():
        encoded = encode(model.network, ids, mask)
        scores = word_scores(model.network, ids, mask, mask)
        expected = bert(ids, attention_mask=mask)
        theirs = bert.bert(ids, attention_mask=mask)
    torch.testing.assert_close(encoded.states[mask], theirs.last_hidden_state[mask], rtol=0, atol=1e-4)
    torch.testing.assert_close(encoded.sentence, theirs.pooler_output, rtol=0, atol=1e-4)
    torch.testing.assert_close(scores, expected.prediction_logits[mask], rtol=0, atol=1e-3)
    assert json.loads(Path("runs/run/checkpoints/best/config.json").read_text("utf-8"))["origin"]["hidden_size"] == 8
    assert "init_from: bert" in Path("runs/run/recipe.yaml").read_text("utf-8")


def test_nothing_is_loaded_again_when_a_run_is_resumed(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    whole = [SIZES, FOLDER, MLM, "model.init_from=bert", "train.epochs=2", "optim.lr=0.01"]
    assert train(*whole) == 0
    scores = json.loads(capfd.readouterr().out)["test"]
    assert train(*whole, "--resume") == 0
    out = capfd.readouterr()
    assert "started from" not in out.err
    assert json.loads(out.out)["test"] == scores
    assert Model.load("runs/run").origin is not None


def test_words_are_found_by_their_spelling(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Another vocabulary and another task: only the encoder, and the vectors of words that both have."""
    assert train(SIZES, "task={kind: tagging, column: upos}", "--init-from", "bert") == 0
    message = capfd.readouterr().err
    assert "not there, drawn at random: output.weight, output.bias" in message
    assert "left there: words.bias" in message
    assert "entries of the vocabulary are new: " in message
    assert "warning: bert: 70 pieces, but the model's vocab_size is 73: the ids above belong to no piece" in message
    model, table = loaded(), bert.bert.embeddings.word_embeddings.weight.detach()
    vocabulary = model.vocabulary
    (farmers,) = vocabulary.encode_words(["farmers"]).ids
    rows = model.network.unary.weight.detach()
    for id, theirs in ((farmers, PIECES.index("farmers")), (vocabulary.UNKNOWN, 2), (vocabulary.MASK, 5)):
        torch.testing.assert_close(rows[id], table[theirs], rtol=0, atol=1e-5)


def test_a_checkpoint_of_ours_is_continued(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    small = "model={labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}}"
    features = "data.vocabulary={kind: words, features: {rows: 64}}"
    assert train(small, features, "task.output=tied", "optim.lr=0.05", name="first") == 0
    tagging = "task={kind: tagging, column: upos}"
    assert train(small, features, tagging, "--init-from", "runs/first@last", name="second") == 0
    message = capfd.readouterr().err
    assert "not there, drawn at random: output.weight" in message
    assert "left there: output.bias" in message
    first, second = loaded("first").network.state_dict(), loaded("second").network.state_dict()
    for key, value in second.items():
        if not key.startswith("output."):
            torch.testing.assert_close(value, first[key], rtol=0, atol=1e-5)
    other = "data.vocabulary={kind: words, features: {rows: 32}}"
    assert train(small, other, tagging, "--init-from", "runs/first", name="third") == 0
    assert "drawn at random: features.weight" in capfd.readouterr().err


def test_a_probe_learns_the_output_layer_alone(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    small = "model={labels: 8, channels: 2, iterations: 2, dropout: 0.3, decomposition: {kind: uv, rank: 2}}"
    assert train(small, "optim.lr=0.05", name="first") == 0
    probe = [small, "task={kind: tagging, column: upos}", "--init-from", "runs/first", "train.probe=true"]
    assert train(*probe, "train.steps=3", name="begun") == 0
    assert train(*probe, "train.epochs=3", name="probe") == 0
    first, begun, probed = (loaded(name).network.state_dict() for name in ("first", "begun", "probe"))
    for key, value in probed.items():
        assert torch.equal(value, begun[key]) != key.startswith("output."), key
        if not key.startswith("output."):
            assert torch.equal(value, first[key]), key
    assert train(small, "train.probe=true", name="no") == 2
    assert "train.probe: a probe reads a trained encoder" in capfd.readouterr().err
    assert train(*probe[:1], "task.output=tied", *probe[2:], name="no") == 2
    assert "task.output: tied scores are the words' own" in capfd.readouterr().err
    assert train(*probe, "optim.ternary_penalty.weight=1e-4", name="no") == 2
    assert "a probe leaves the ternary scores as they are" in capfd.readouterr().err


def test_a_decoder_of_its_own_is_loaded_where_it_is_asked_for(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    bert.config.tie_word_embeddings = False
    untied = transformers.BertForMaskedLM(bert.config)
    untied.save_pretrained("bert")
    assert train(SIZES, FOLDER, MLM, "--init-from", "bert", name="tied") == 0
    message = capfd.readouterr().err
    assert "task.tie_decoder=false loads it" in message
    assert "not there, drawn at random: encoder.pooler.weight, encoder.pooler.bias" in message
    assert train(SIZES, FOLDER, MLM, "task.tie_decoder=false", "--init-from", "bert", name="untied") == 0
    assert "left there" not in capfd.readouterr().err
    output: Any = loaded("untied").network.output
    torch.testing.assert_close(
        output.decoder.detach(), untied.cls.predictions.decoder.weight.detach(), rtol=0, atol=1e-5
    )


def test_another_encoder_is_refused_with_what_to_set(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    larger = "model={kind: transformer, preset: bert, width: 16, heads: 4, inner: 12, layers: 2}"
    assert train(larger, FOLDER, MLM, "--init-from", "bert") == 4
    message = capfd.readouterr().err
    assert "model.width: 16, there 8" in message
    wanted = [part for part in message.split("set ", 1)[1].split("\n")[0].split(" model.") if part]
    assert "model.width=8" in message
    assert len(wanted) == 3
    overrides = ["model.width=8", "model.heads=2", "model.positions={kind: absolute, rows: 64}"]
    assert train(larger, *overrides, FOLDER, MLM, "--init-from", "bert", "--overwrite") == 0
    capfd.readouterr()
    assert train(FOLDER, "--init-from", "bert", name="other") == 4
    assert "model.kind: probabilistic, there transformer" in capfd.readouterr().err


def test_folders_that_are_none(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(SIZES, FOLDER, MLM, "--init-from", "nowhere") == 4
    assert "model.init_from: there is no nowhere" in capfd.readouterr().err
    assert run(["parse", "bert"]) == 4
    assert "--init-from bert" in capfd.readouterr().err
    for name in ("vocab.txt", "tokenizer.json"):
        Path("bert", name).rename(name)
    assert train(SIZES, MLM, "--init-from", "bert", "--overwrite") == 4
    assert "there is no vocabulary, and its 73 entries are not the" in capfd.readouterr().err
    Path("pieces").mkdir()
    for name in ("vocab.txt", "tokenizer.json"):
        Path(name).rename(Path("pieces", name))
    Path("pieces/config.json").write_text('{"vocab_size": 73}', "utf-8")
    here = "data.vocabulary={kind: wordpiece, folder: pieces}"
    assert train(SIZES, here, MLM, "--init-from", "bert", "--overwrite") == 0
    assert "taken to be this model's" in capfd.readouterr().err
    Path("pieces/config.json").write_text("{", "utf-8")
    for more in ([], ["--init-from", "pieces"]):  # whoever reads it first
        assert train(SIZES, here, MLM, *more, "--overwrite") == 4
        assert "pieces/config.json: not JSON" in capfd.readouterr().err
    assert train(SIZES, MLM, "--init-from", "pieces", "--overwrite") == 4


def test_a_vocabulary_of_another_content_is_prepared_again(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    def prepared() -> Any:
        assert run(["prepare", "tiny.yaml", FOLDER, "--json"]) == 0
        return json.loads(capfd.readouterr().out)

    first = prepared()
    assert (first["state"], prepared()["state"]) == ("prepared", "up to date")
    assert first["vocabulary"] == {"kind": "wordpiece", "size": 73, "special": 5}
    path = Path("bert/vocab.txt")
    Path("bert/tokenizer.json").unlink()
    path.write_text(path.read_text("utf-8").replace("unused0", "unused9"), "utf-8")
    second = prepared()
    assert second["state"] == "prepared"
    assert second["fingerprint"] != first["fingerprint"]
    assert run(["prepare", "tiny.yaml", FOLDER, "data.vocabulary.size=99"]) == 2
    assert "for a trained vocabulary only" in capfd.readouterr().err
    assert run(["prepare", "tiny.yaml", "data.vocabulary={kind: wordpiece, folder: nowhere}"]) == 3
    assert "neither vocab.txt nor tokenizer.json" in capfd.readouterr().err


def test_values_that_do_not_go_together(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for overrides, message in (
        ([MLM], "task.output: `bert` is for a transformer, and model.kind is probabilistic"),
        ([SIZES, "task.tie_decoder=false"], "task.tie_decoder: for `task.output: bert` only"),
        ([SIZES, FOLDER, "data.vocabulary.lowercase=true"], "data.vocabulary.lowercase: for a trained vocabulary only"),
    ):
        assert train(*overrides) == 2
        assert message in capfd.readouterr().err


# --- output layers ----------------------------------------------------------------------------------------------------

TAGGING = "task={kind: tagging, column: upos}"
TAGS = ["NOUN", "DET", "ADJ", "ADP", "VERB", "PRON", "ADV", "AUX", "NUM"]  # of the workplace, by falling count
SMALL = "model={labels: 8, channels: 2, iterations: 2, decomposition: {kind: uv, rank: 2}}"
MEAN = "task={kind: classification, representation: mean}"


def saved_as(kind: str, base: Any, names: list[str] | None = None, **options: Any) -> Any:
    """A random model of theirs with another head in place of the folder's; its labels are called so."""
    config = transformers.BertConfig(**{**base.config.to_dict(), **options})
    if names is not None:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: id for id, name in enumerate(names)}
    torch.manual_seed(2)
    model = getattr(transformers, kind)(config)
    model.save_pretrained("bert")
    return model


def assert_rows(output: Any, expected: dict[str, tuple[Any, int]], names: list[str]) -> None:
    """The rows of a layer are those of others where these are told, by the labels' names."""
    for name, (layer, row) in expected.items():
        id = names.index(name)
        torch.testing.assert_close(output.weight[id], layer.weight[row], rtol=0, atol=1e-5)
        torch.testing.assert_close(output.bias[id], layer.bias[row], rtol=0, atol=1e-5)


def labelled(name: str, labels: list[str]) -> None:
    """A table of texts with labels, as often as they stand there."""
    lines = [f"two cheap farmers fold the shirt {i % 3}\t{label}" for i, label in enumerate(labels)]
    Path(name).write_text("\n".join(lines) + "\n", "utf-8")


def table(name: str) -> str:
    return f"data={{train: {name}, dev: {name}, format: table, vocabulary: {{kind: wordpiece, folder: bert}}}}"


def test_a_classifier_of_theirs_is_loaded_by_the_names_of_its_labels(
    bert: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ["X", *reversed(TAGS[1:])]
    model = saved_as("BertForTokenClassification", bert, names)
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert") == 0
    message = capfd.readouterr().err
    assert "1 of 9 labels are not there, drawn at random: NOUN" in message
    assert "1 of its 9 labels are left there: X" in message
    assert "not there, drawn at random: encoder.pooler.weight, encoder.pooler.bias\n" in message
    output = loaded().network.output
    assert_rows(output, {name: (model.classifier, names.index(name)) for name in TAGS[1:]}, TAGS)
    assert not torch.allclose(output.weight[0], model.classifier.weight[0], atol=1e-3)  # type: ignore[operator,index]


DAMAGED: list[tuple[Any, str]] = [  # what stands for the names of two labels
    ({"0": "one"}, "1 of 2 labels"),
    ({"0": "one", "1": "one"}, "one twice"),
    (["one", "two"], "0 of 2 labels"),
    ({"0": "one", "1": 2}, "1 of 2 labels"),
    ({"a": "", "b": ""}, "0 of 2 labels"),
    ({"0": "one", "1": "two", "2": "three"}, "3 labels, but there are 2"),
]


def test_labels_without_names_are_taken_by_their_number(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model = saved_as("BertForTokenClassification", bert, num_labels=9)
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert") == 0
    message = capfd.readouterr().err
    assert "warning: bert: its labels have no names, and are taken by their number: LABEL_0 = NOUN, LABEL_1" in message
    assert_rows(loaded().network.output, {name: (model.classifier, id) for id, name in enumerate(TAGS)}, TAGS)
    saved_as("BertForTokenClassification", bert)
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert", name="other") == 0
    message = capfd.readouterr().err
    assert "its 2 labels have no names, and here are 9: left there" in message
    assert "not there, drawn at random: encoder.pooler.weight, encoder.pooler.bias, output.weight" in message
    saved_as("BertForTokenClassification", bert, ["one", "two"])
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert", name="none") == 0
    assert "9 of 9 labels are not there" in capfd.readouterr().err
    config = json.loads(Path("bert/config.json").read_text("utf-8"))
    for number, (damaged, fault) in enumerate(DAMAGED):
        Path("bert/config.json").write_text(json.dumps(config | {"id2label": damaged}), "utf-8")
        layer = of_bert(read_bert(Path("bert")))["output"]
        assert (layer.fault, layer.names) == (f"its id2label names {fault}", None)
        if number < 2:
            assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert", name=f"damaged{number}") == 0
            message = capfd.readouterr().err
            assert f"\nwarning: bert: its id2label names {fault}: its output layer is left there\n" in message
            assert "drawn at random: encoder.pooler.weight, encoder.pooler.bias, output.weight" in message


def test_labels_of_texts_are_read_where_they_were(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    labelled("texts.tsv", ["1", "1", "0"])
    model = saved_as("BertForSequenceClassification", bert)
    texts = [SIZES, table("texts.tsv"), "--init-from", "bert"]
    assert train(*texts, "task={kind: classification}") == 0
    message = capfd.readouterr().err
    assert "taken by their number: LABEL_0 = 0, LABEL_1 = 1" in message
    assert "not there" not in message
    assert "left there" not in message
    assert_rows(loaded().network.output, {"0": (model.classifier, 0), "1": (model.classifier, 1)}, ["1", "0"])
    assert train(*texts, MEAN, name="mean") == 0
    reason = "its output layer is for labels of texts by the pooled first word, not for labels of texts by the mean of"
    assert reason in capfd.readouterr().err
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert", name="tags") == 0
    assert "by the pooled first word, not for tags of words: left there" in capfd.readouterr().err
    config = json.loads(Path("bert/config.json").read_text("utf-8"))
    Path("bert/config.json").write_text(json.dumps(config | {"architectures": None}), "utf-8")
    assert train(*texts, "task={kind: classification}", name="nameless") == 0
    assert "LABEL_0 = 0" in capfd.readouterr().err
    saved_as("BertForMultipleChoice", bert)
    assert train(*texts, "task={kind: classification}", name="choice") == 0
    assert "its output layer is for what a BertForMultipleChoice is for, not for labels" in capfd.readouterr().err


def test_what_we_export_is_continued_with_its_output_layer(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(SIZES, FOLDER, TAGGING, "optim.lr=0.01", name="first") == 0
    assert run(["export", "runs/first", "exported", "--format", "hf"]) == 0
    capfd.readouterr()
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "exported", name="second") == 0
    message = capfd.readouterr().err
    assert "not there, drawn at random: encoder.pooler" in message
    assert "output" not in message.partition("not there")[2].partition("\n")[0]
    first, second = loaded("first").network.output, loaded("second").network.output
    torch.testing.assert_close(second.weight, first.weight, rtol=0, atol=1e-5)


def test_an_output_layer_of_ours_is_continued(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Where the labels are others, by their names; where the words are others, by their spelling."""
    rename = Path("train.conllu").read_text("utf-8").replace("\tNUM\t", "\tPROPN\t").replace("\tNOUN\t", "\tPRON\t")
    Path("other.conllu").write_text(rename, "utf-8")
    assert train(SMALL, TAGGING, "optim.lr=0.05", name="first") == 0
    capfd.readouterr()
    assert train(SMALL, TAGGING, "--init-from", "runs/first", name="same") == 0
    message = capfd.readouterr().err
    assert "not there" not in message
    assert "left there" not in message
    assert train(SMALL, TAGGING, "data.train=other.conllu", "--init-from", "runs/first", name="second") == 0
    message = capfd.readouterr().err
    assert "1 of 8 labels are not there, drawn at random: PROPN" in message
    assert "2 of its 9 labels are left there: NOUN, NUM" in message
    first, second = loaded("first"), loaded("second")
    assert second.labels["upos"][0] == "PRON"
    common = [name for name in TAGS if name in second.labels["upos"]]
    expected = {name: (first.network.output, first.labels["upos"].index(name)) for name in common}
    assert_rows(second.network.output, expected, second.labels["upos"])
    assert train(SMALL, "data.train=dev.conllu", "optim.lr=0.05", name="words") == 0
    assert train(SMALL, "--init-from", "runs/words", name="more") == 0
    message = capfd.readouterr().err
    assert "entries of the vocabulary are new" in message
    assert "not there" not in message
    words, more = loaded("words"), loaded("more")
    ids = {word: (words.network.output, words.vocabulary.encode_words([word]).ids[0]) for word in ("our", "the")}
    assert all(id != words.vocabulary.UNKNOWN for _, id in ids.values())
    every = [more.vocabulary.decode(id) for id in range(more.vocabulary.size)]
    assert_rows(more.network.output, ids, every)
    assert train(SMALL, TAGGING, "--init-from", "runs/words", name="tags") == 0
    assert "its output layer is for words by a linear layer, not for tags of words" in capfd.readouterr().err


def test_labels_of_cogs_are_continued(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    Path("cogs.tsv").write_text("\n".join("\t".join(row) for row in COGS) + "\n", "utf-8")
    Path("less.tsv").write_text("\t".join(COGS[0]) + "\n", "utf-8")
    files = "data={{train: {0}, dev: {0}, format: cogs}}"
    attention = "task={kind: cogs, parent: attention}"
    assert train(SMALL, files.format("cogs.tsv"), attention, name="first") == 0
    capfd.readouterr()
    assert train(SMALL, files.format("less.tsv"), attention, "--init-from", "runs/first", name="second") == 0
    message = capfd.readouterr().err
    assert "not there" not in message
    assert "4 of its 12 labels are left there: " in message
    first, second = (loaded(name) for name in ("first", "second"))
    for name in ("child", "parent"):
        one, other = (getattr(model.network.output, name).weight for model in (first, second))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert train(SMALL, files.format("cogs.tsv"), "task={kind: cogs}", "--init-from", "runs/first", name="third") == 0
    message = capfd.readouterr().err
    assert "labels are not there, drawn at random: offset" in message
    assert "left there: output.none, output.child.weight, output.parent.weight" in message


def test_pairs_of_another_kind_are_learned_afresh(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(f"the dog {i}\ntwo farmers fold\nevery cat {i}\n" for i in range(12))
    Path("documents.txt").write_text(text, "utf-8")
    pretrain = [
        "data={train: documents.txt, format: documents, documents: {max_length: 24}}", FOLDER,
        "task={kind: pretrain, output: bert, eval_masks: 1}", "--init-from", "bert",
    ]  # fmt: skip
    assert train(SIZES, *pretrain, name="nsp") == 0
    message = capfd.readouterr().err
    assert "not there" not in message
    assert "left there" not in message
    assert train(SIZES, *pretrain, "data.documents.pairs=sop", name="sop") == 0
    message = capfd.readouterr().err
    assert "2 of 2 labels are not there, drawn at random: ordered, swapped" in message
    assert "not there, drawn at random: pair.weight, pair.bias" in message
    assert train(SIZES, "model.pooler=false", *pretrain, name="unpooled") == 0
    reason = "its output layer is for pairs of texts by the pooled first word, not for pairs of texts by the first word"
    assert reason in capfd.readouterr().err


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


@pytest.mark.parametrize("task", ["ner", "cogs", "classification"])
@pytest.mark.parametrize("model", [SMALL, SIZES], ids=["probabilistic", "transformer"])
def test_a_probe_of_every_task_learns_one_linear_layer(
    bert: Any, model: str, task: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(model, "optim.lr=0.05", name="first") == 0
    probe = [model, *files_of(task), "--init-from", "runs/first", "train.probe=true", "optim.lr=0.05"]
    assert train(*probe, "train.steps=1", name="begun") == 0
    assert train(*probe, "train.epochs=6", name="probe") == 0
    assert "a probe leaves" not in capfd.readouterr().err
    begun, probed = (loaded(name).network for name in ("begun", "probe"))
    learned = {key for key, value in probed.state_dict().items() if not torch.equal(value, begun.state_dict()[key])}
    linear = "output.labels." if task == "cogs" else "output."
    assert learned == {f"{linear}weight", f"{linear}bias"}
    trained = loaded("first").network.encoder.state_dict()
    assert all(torch.equal(value, trained[key]) for key, value in probed.encoder.state_dict().items())


def test_a_probe_is_linear(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    probe = ["--init-from", "bert", "train.probe=true"]
    assert train(SIZES, FOLDER, MLM, *probe) == 2
    message = "task.output: a probe is linear, and BERT's output has a layer before the words: choose linear"
    assert message in capfd.readouterr().err
    data, _ = files_of("cogs")
    assert train(SIZES, data, "task={kind: cogs, parent: attention}", *probe) == 2
    message = "task.parent: a probe is linear, and attention is not: choose relative or absolute"
    assert message in capfd.readouterr().err


def test_a_probe_that_reads_what_was_drawn_says_so(bert: Any, capfd: pytest.CaptureFixture[str]) -> None:
    saved_as("BertForMaskedLM", bert)
    labelled("texts.tsv", ["1", "1", "0"])
    probe = ["--init-from", "bert", "train.probe=true"]
    assert train(SIZES, table("texts.tsv"), "task={kind: classification}", *probe) == 0
    message = "warning: bert: a probe leaves these as they were drawn, and reads them: encoder.pooler.weight, encoder"
    assert message in capfd.readouterr().err
    for name, task in (("mean", MEAN), ("tags", TAGGING)):
        data = table("texts.tsv") if task == MEAN else FOLDER
        assert train(SIZES, data, task, *probe, name=name) == 0
        assert "as they were drawn" not in capfd.readouterr().err


# --- tensors that nobody knows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForTokenClassification",
        "BertForSequenceClassification", "BertForQuestionAnswering", "BertForNextSentencePrediction",
        "BertForMultipleChoice",
    ],
)  # fmt: skip
def test_every_folder_of_theirs_is_started_from(bert: Any, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = saved_as(kind, bert)
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert") == 0
    message = capfd.readouterr().err
    assert ("left there: qa_outputs.bias, qa_outputs.weight" in message) == (kind == "BertForQuestionAnswering")
    base = model if kind == "BertModel" else model.bert
    torch.testing.assert_close(
        loaded().network.encoder.positions, base.embeddings.position_embeddings.weight, rtol=0, atol=1e-5
    )


def test_tensors_that_nobody_knows_are_refused_unless_told_otherwise(
    bert: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path("bert/model.safetensors")
    tensors = load_file(path)
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(tensors, path)
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert", name="stray") == 0
    save_file({**tensors, "crf.transitions": torch.zeros(3, 3), "bert.encoder.layer.7.x": torch.zeros(1)}, path)
    capfd.readouterr()
    unknown = [SIZES, FOLDER, TAGGING, "--init-from", "bert"]
    assert train(*unknown) == 4
    message = capfd.readouterr().err
    for words in ("crf.transitions: not known\n", "encoder.layer.7.x: not known\n", "model.init_strict=false leaves"):
        assert words in message
    assert train(*unknown, "model.init_strict=false", "--overwrite") == 0
    assert "left there: crf.transitions, encoder.layer.7.x, " in capfd.readouterr().err


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_and_an_epsilon_of_0_are_warned_of(
    bert: Any, kind: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path("bert/model.safetensors")
    save_file({name: value.to(kind) for name, value in load_file(path).items()}, path)
    config = json.loads(Path("bert/config.json").read_text("utf-8"))
    Path("bert/config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.0}), "utf-8")
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert") == 0
    lines = capfd.readouterr().err.splitlines()
    assert f"warning: bert: {str(kind).removeprefix('torch.')} weights, read as float32" in lines
    assert "warning: bert: layer_norm_eps is 0, read as 1e-12" in lines


def test_learned_positions_may_start_as_sines_here_and_not_there(bert: Any) -> None:
    sines = "model.positions={kind: learned_sinusoidal, rows: 64}"
    assert train(SIZES, sines, FOLDER, TAGGING, "--init-from", "bert") == 0
    theirs = bert.bert.embeddings.position_embeddings.weight
    torch.testing.assert_close(loaded().network.encoder.positions, theirs, rtol=0, atol=1e-5)
