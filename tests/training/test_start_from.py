"""Starting from other weights: BERT folders and checkpoints, through the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_starts import FOLDER, MLM, PIECES, SIZES, SMALL, TAGGING, Says, loaded, saved_as, train
from small_tasks import encode, word_scores

from probtrans_cli.__main__ import run
from probtrans_cli.trained.model import Model

transformers = pytest.importorskip("transformers")


def test_a_bert_is_continued(bert: Any, says: Says) -> None:
    message = says(0, SIZES, FOLDER, MLM, "--init-from", "bert")
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


def test_words_are_found_by_their_spelling(bert: Any, says: Says) -> None:
    """Another vocabulary and another task: only the encoder, and the vectors of words that both have."""
    message = says(0, SIZES, TAGGING, "--init-from", "bert")
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


def test_a_checkpoint_of_ours_is_continued(bert: Any, says: Says) -> None:
    features = "data.vocabulary={kind: words, features: {rows: 64}}"
    assert train(SMALL, features, "task.output=tied", "optim.lr=0.05", name="first") == 0
    message = says(0, SMALL, features, TAGGING, "--init-from", "runs/first@last", name="second")
    assert "not there, drawn at random: output.weight" in message
    assert "left there: output.bias" in message
    first, second = loaded("first").network.state_dict(), loaded("second").network.state_dict()
    for key, value in second.items():
        if not key.startswith("output."):
            torch.testing.assert_close(value, first[key], rtol=0, atol=1e-5)
    other = "data.vocabulary={kind: words, features: {rows: 32}}"
    assert "drawn at random: features.weight" in says(
        0, SMALL, other, TAGGING, "--init-from", "runs/first", name="third"
    )
    few = ("data.select.sentences=2", TAGGING, "--init-from", "runs/first")
    message = says(0, SMALL, features, *few, "data.vocabulary.folder=runs/first", name="few")
    assert "entries of the vocabulary are new" not in message
    assert loaded("few").vocabulary.counts == loaded("first").vocabulary.counts
    assert loaded("few").vocabulary.features is not None
    assert loaded("few").network.unary.weight.shape == first["unary.weight"].shape


def test_words_of_another_model_are_words(bert: Any, says: Says) -> None:
    """A folder without a model, or of a model that reads other units, is refused by name."""
    folder = "data.vocabulary={kind: words, folder: bert}"
    assert "bert" in says(4, TAGGING, folder)
    assert "min_count: for words of the training file" in says(
        2, TAGGING, "data.vocabulary={kind: words, folder: runs/first, min_count: 2}"
    )
    for name, kind, reason in (
        ("letters", "kind: char", "of the kind char"),
        ("bare", "punctuation: false", "without"),
    ):
        task = "task={kind: mlm, eval_masks: 1}"
        assert train(SMALL, f"data.vocabulary={{{kind}}}", task, name=name) == 0
        assert reason in says(3, SMALL, TAGGING, f"data.vocabulary={{kind: words, folder: runs/{name}}}")


def test_a_probe_learns_the_output_layer_alone(bert: Any) -> None:
    dropped = [SMALL, "model.dropout=0.3"]
    assert train(*dropped, "optim.lr=0.05", name="first") == 0
    probe = [*dropped, TAGGING, "--init-from", "runs/first", "train.probe=true"]
    assert train(*probe, "train.steps=3", name="begun") == 0
    assert train(*probe, "train.epochs=3", name="probe") == 0
    first, begun, probed = (loaded(name).network.state_dict() for name in ("first", "begun", "probe"))
    for key, value in probed.items():
        assert torch.equal(value, begun[key]) != key.startswith("output."), key
        if not key.startswith("output."):
            assert torch.equal(value, first[key]), key


def test_a_decoder_of_its_own_is_loaded_where_it_is_asked_for(bert: Any, says: Says) -> None:
    bert.config.tie_word_embeddings = False
    untied = transformers.BertForMaskedLM(bert.config)
    untied.save_pretrained("bert")
    message = says(0, SIZES, FOLDER, MLM, "--init-from", "bert", name="tied")
    assert "task.tie_decoder=false loads it" in message
    assert "not there, drawn at random: encoder.pooler.weight, encoder.pooler.bias" in message
    assert "left there" not in says(
        0, SIZES, FOLDER, MLM, "task.tie_decoder=false", "--init-from", "bert", name="untied"
    )
    output: Any = loaded("untied").network.output
    torch.testing.assert_close(
        output.decoder.detach(), untied.cls.predictions.decoder.weight.detach(), rtol=0, atol=1e-5
    )


def test_another_encoder_is_refused_with_what_to_set(bert: Any, says: Says) -> None:
    larger = "model={kind: transformer, preset: bert, width: 16, heads: 4, inner: 12, layers: 2}"
    message = says(4, larger, FOLDER, MLM, "--init-from", "bert")
    assert "model.width: 16, there 8" in message
    wanted = [part for part in message.split("set ", 1)[1].split("\n")[0].split(" model.") if part]
    assert "model.width=8" in message
    assert len(wanted) == 3
    overrides = ["model.width=8", "model.heads=2", "model.positions={kind: absolute, rows: 64}"]
    assert train(larger, *overrides, FOLDER, MLM, "--init-from", "bert", "--overwrite") == 0
    assert "model.kind: probabilistic, there transformer" in says(4, FOLDER, "--init-from", "bert", name="other")


def test_folders_that_are_none(bert: Any, capfd: pytest.CaptureFixture[str], says: Says) -> None:
    assert "model.init_from: there is no nowhere" in says(4, SIZES, FOLDER, MLM, "--init-from", "nowhere")
    assert run(["parse", "bert"]) == 4
    assert "--init-from bert" in capfd.readouterr().err
    for name in ("vocab.txt", "tokenizer.json"):
        Path("bert", name).rename(name)
    reason = "there is no vocabulary, and its 73 entries are not the"
    assert reason in says(4, SIZES, MLM, "--init-from", "bert", "--overwrite")
    Path("pieces").mkdir()
    for name in ("vocab.txt", "tokenizer.json"):
        Path(name).rename(Path("pieces", name))
    Path("pieces/config.json").write_text('{"vocab_size": 73}', "utf-8")
    here = "data.vocabulary={kind: wordpiece, folder: pieces}"
    assert "taken to be this model's" in says(0, SIZES, here, MLM, "--init-from", "bert", "--overwrite")
    Path("pieces/config.json").write_text("{", "utf-8")
    for more in ([], ["--init-from", "pieces"]):  # whoever reads it first
        assert "pieces/config.json: not JSON" in says(4, SIZES, here, MLM, *more, "--overwrite")
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


def test_values_that_do_not_go_together(bert: Any, says: Says) -> None:
    for overrides, message in (
        ([MLM], "task.output: `bert` is for a transformer, and model.kind is probabilistic"),
        ([SIZES, "task.tie_decoder=false"], "task.tie_decoder: for `task.output: bert` only"),
        ([SIZES, FOLDER, "data.vocabulary.lowercase=true"], "data.vocabulary.lowercase: for a trained vocabulary only"),
    ):
        assert message in says(2, *overrides)


# --- tensors that nobody knows ----------------------------------------------------------------------------------------


OTHERS = (
    "BertForPreTraining", "BertForMaskedLM", "BertForTokenClassification", "BertForSequenceClassification",
    "BertForNextSentencePrediction", "BertForMultipleChoice",
)  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["BertModel", "BertForQuestionAnswering", *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS)]
)
def test_every_folder_of_theirs_is_started_from(bert: Any, kind: str, says: Says) -> None:
    model = saved_as(kind, bert)
    message = says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert")
    assert ("left there: qa_outputs.bias, qa_outputs.weight" in message) == (kind == "BertForQuestionAnswering")
    base = model if kind == "BertModel" else model.bert
    torch.testing.assert_close(
        loaded().network.encoder.positions, base.embeddings.position_embeddings.weight, rtol=0, atol=1e-5
    )


def test_tensors_that_nobody_knows_are_refused_unless_told_otherwise(bert: Any, says: Says) -> None:
    path = Path("bert/model.safetensors")
    tensors = load_file(path)
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(tensors, path)
    assert train(SIZES, FOLDER, TAGGING, "--init-from", "bert", name="stray") == 0
    save_file({**tensors, "crf.transitions": torch.zeros(3, 3), "bert.encoder.layer.7.x": torch.zeros(1)}, path)
    unknown = [SIZES, FOLDER, TAGGING, "--init-from", "bert"]
    message = says(4, *unknown)
    for words in ("crf.transitions: not known\n", "encoder.layer.7.x: not known\n", "model.init_strict=false leaves"):
        assert words in message
    assert "left there: crf.transitions, encoder.layer.7.x, " in says(
        0, *unknown, "model.init_strict=false", "--overwrite"
    )


@pytest.mark.parametrize("kind", [torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
def test_half_precision_and_an_epsilon_of_0_are_warned_of(bert: Any, kind: torch.dtype, says: Says) -> None:
    path = Path("bert/model.safetensors")
    save_file({name: value.to(kind) for name, value in load_file(path).items()}, path)
    config = json.loads(Path("bert/config.json").read_text("utf-8"))
    Path("bert/config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.0}), "utf-8")
    lines = says(0, SIZES, FOLDER, TAGGING, "--init-from", "bert").splitlines()
    assert f"warning: bert: {str(kind).removeprefix('torch.')} weights, read as float32" in lines
    assert "warning: bert: layer_norm_eps is 0, read as 1e-12" in lines


def test_learned_positions_may_start_as_sines_here_and_not_there(bert: Any) -> None:
    sines = "model.positions={kind: learned_sinusoidal, rows: 64}"
    assert train(SIZES, sines, FOLDER, TAGGING, "--init-from", "bert") == 0
    theirs = bert.bert.embeddings.position_embeddings.weight
    torch.testing.assert_close(loaded().network.encoder.positions, theirs, rtol=0, atol=1e-5)
