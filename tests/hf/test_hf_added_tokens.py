"""A BERT with added tokens through the commands: started from, trained and exported with their ids and rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import Invoke, refused

from probtrans_cli.trained.model import Model

transformers = pytest.importorskip("transformers")

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "foo", "two", "farmers", *"abcdefghijklmnopqrstuvwxyz<>"]
ADDED = {
    "<Ent>": {"normalized": True},
    "NaCl": {"normalized": False},
    "[E1]": {"special": True},
    "co": {"single_word": True},
    "two": {"single_word": True},
    "far mers": {},
}
WORDS = ["foo<ent>foo", "<ENT>", "NaCl", "nacl", "[E1]", "foo[E1]", "co", "covid", "two", "Two", "farmers", "far mers"]
SIZES = "model={kind: transformer, preset: bert, width: 8, heads: 2, inner: 12, layers: 1, positions: {kind: absolute, rows: 99}}"  # noqa: E501
PLACE = ["data.vocabulary={kind: wordpiece, folder: theirs}", "runtime={device: cpu, threads: 1}", "optim.lr=1.0e-9"]


@pytest.fixture
def theirs(fresh: Path) -> Any:
    """A BERT of theirs with rows for its added tokens, in the folder `theirs` of a workplace; its tokenizer."""
    pieces = [*PIECES, *(f"##{letter}" for letter in PIECES[8:])]
    tokenizer = transformers.BertTokenizerFast(vocab={piece: id for id, piece in enumerate(pieces)})
    tokenizer.add_tokens([transformers.AddedToken(name, **flags) for name, flags in ADDED.items()])
    tokenizer.save_pretrained("theirs")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=99,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained("theirs")
    return tokenizer


def older(tokenizer: Any) -> None:
    """Write the tokenizer as older versions did, in several files."""
    vocabulary = sorted(tokenizer._tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
    Path("theirs/vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in vocabulary), "utf-8")
    Path("theirs/tokenizer.json").unlink()
    names = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    decoder = {id: {name: getattr(it, name) for name in names} for id, it in tokenizer.added_tokens_decoder.items()}
    content = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "added_tokens_decoder": decoder}
    Path("theirs/tokenizer_config.json").write_text(json.dumps(content), "utf-8")
    beyond = {name: id for name, id in tokenizer.get_added_vocab().items() if id >= len(vocabulary)}
    Path("theirs/added_tokens.json").write_text(json.dumps(beyond), "utf-8")
    Path("theirs/special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": ["[E1]"]}), "utf-8")


@pytest.mark.parametrize("files", ["tokenizer.json", "vocab.txt"])
def test_added_tokens_are_kept_from_start_to_export(theirs: Any, files: str, invoke: Invoke) -> None:
    if files == "vocab.txt":
        older(theirs)
    path = Path("theirs/model.safetensors")
    table = load_file(path)["bert.embeddings.word_embeddings.weight"]
    save_file({f"module.{name}": value for name, value in load_file(path).items()}, path)
    mlm = [SIZES, *PLACE, "task={kind: mlm, output: bert, eval_masks: 1}", "train.steps=1"]
    message = invoke("train", "tiny.yaml", *mlm, "--init-from", "theirs", "--run", "run").ok.err
    assert "the names there begin with 'module.bert.': left out" in message
    assert "added tokens with a blank in them are found within one word alone: far mers" in message
    assert "entries of the vocabulary are new" not in message
    ours = Model.load("run")
    torch.testing.assert_close(ours.network.unary.weight.detach(), table, rtol=0, atol=1e-5)
    assert invoke("export", "run", "out", "--format", "hf", "--json").ok.json["largest_difference"] < 1e-5
    before, after = (transformers.AutoTokenizer.from_pretrained(name) for name in ("theirs", "out"))
    expected = before(WORDS, is_split_into_words=True)
    found = ours.vocabulary.encode_words(WORDS)
    words = [-1 if word is None else word for word in expected.word_ids()]
    assert (found.ids, found.word_of_piece) == (expected["input_ids"], words)
    again = after(WORDS, is_split_into_words=True)
    assert (again["input_ids"], again.word_ids()) == (expected["input_ids"], expected.word_ids())
    for text in (" ".join(WORDS), "<l>[MASK] NaCl"):
        assert after(text)["input_ids"] == before(text)["input_ids"] == ours.vocabulary.encode_text(text).ids
    assert after.added_tokens_decoder == before.added_tokens_decoder
    model = transformers.AutoModelForMaskedLM.from_pretrained("out")
    assert model.config.vocab_size == len(after) == len(before)


def test_the_oldest_folder_and_another_kind_of_model(theirs: Any, invoke: Invoke) -> None:
    path = Path("theirs/config.json")
    config = json.loads(path.read_text("utf-8"))
    tagging = [SIZES, *PLACE, "task={kind: tagging, column: upos}", "train.steps=1", "--init-from", "theirs"]
    path.write_text(json.dumps({key: config[key] for key in config if key not in ("model_type", "architectures")}))
    assert "started from theirs" in invoke("train", "tiny.yaml", *tagging, "--run", "run").ok.err
    path.write_text(json.dumps(config | {"model_type": "deberta", "type_vocab_size": 0}))
    fault = "model_type: 'deberta' is unsupported; only 'bert' and 'gpt2' are read"
    refused(invoke("train", "tiny.yaml", *tagging, "--run", "other"), 4, fault)
    refused(invoke("train", "tiny.yaml", "model={kind: transformer, from: theirs}", "--run", "other"), 2, fault)
