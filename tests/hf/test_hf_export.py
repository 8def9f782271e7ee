"""`export --format hf` through the command, and what `transformers` makes of the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from small_berts import configured
from small_tasks import encode
from support import Invoke, refused

from probtrans_cli import hf
from probtrans_cli.data.vocabularies.wordpiece import WordPieces, read_wordpieces
from probtrans_cli.trained.model import Model

transformers = pytest.importorskip("transformers")

BERT = "model={kind: transformer, preset: bert, width: 8, heads: 2, inner: 12, layers: 2}"
PIECES = "data.vocabulary={kind: wordpiece, size: 120, lowercase: true}"
TABLE = ["data.format=table", "data.train=train.tsv", "data.dev=null", "data.test=null"]


@pytest.fixture
def place(fresh: Path) -> Path:
    """A workplace, which is the current folder, with labelled sentences in ``train.tsv``."""
    lines = [
        f"{'good' if n % 2 else 'bad'} bread {'of' * (n % 3)} day {n}\t{'+' if n % 2 else '-'}\n" for n in range(20)
    ]
    Path("train.tsv").write_text("".join(lines), "utf-8")
    return fresh


def exported(invoke: Invoke, *overrides: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train for a few updates, export to `out`; the report."""
    train = ["train", "tiny.yaml", "runtime={device: cpu, threads: 1}", "train.steps=6", "optim.lr=0.05", *overrides]
    assert invoke(*train, "--run", "run", "--overwrite").ok
    report: dict[str, Any] = invoke("export", "run", "out", "--format", "hf", "--json", *options).ok.json
    assert json.loads(Path("out/EXPORT.json").read_text("utf-8")) == report
    return report


@pytest.mark.parametrize(
    ("task", "architecture", "more"),
    [
        ("task={kind: mlm, output: bert}", "BertForMaskedLM", []),
        ("task={kind: mlm, output: bert, tie_decoder: false}", "BertForMaskedLM", []),
        ("task={kind: mlm, output: tied}", "BertModel", []),
        ("task={kind: tagging, column: upos}", "BertForTokenClassification", []),
        ("task={kind: classification}", "BertForSequenceClassification", TABLE),
        ("task={kind: classification, representation: mean}", "BertModel", TABLE),
        ("task={kind: mlm, output: bert}", "BertForMaskedLM", ["model.bias=none", "model.activation=relu"]),
    ],
)
def test_a_transformer_opens_in_transformers(
    place: Path, invoke: Invoke, task: str, architecture: str, more: list[str]
) -> None:
    report = exported(invoke, BERT, PIECES, task, *more)
    assert report["architecture"] == architecture
    assert 0.0 <= report["largest_difference"] < 1e-5
    assert ("left out" in " ".join(report["notes"])) == (architecture == "BertModel")
    auto = {
        "BertForMaskedLM": transformers.AutoModelForMaskedLM,
        "BertForTokenClassification": transformers.AutoModelForTokenClassification,
        "BertForSequenceClassification": transformers.AutoModelForSequenceClassification,
        "BertModel": transformers.AutoModel,
    }[architecture]
    theirs, loading = auto.from_pretrained("out", output_loading_info=True)
    assert not any(loading.values())
    assert type(theirs).__name__ == architecture
    ours = Model.load("run")
    tokenizer = transformers.AutoTokenizer.from_pretrained("out")
    assert isinstance(ours.vocabulary, WordPieces)
    sentence = "Two cheap farmers fold every shirt"
    given = tokenizer(sentence, return_tensors="pt")
    ids = ours.vocabulary.encode_text(sentence).ids
    assert given["input_ids"][0].tolist() == ids == ours.vocabulary.encode_words(sentence.split()).ids
    assert tokenizer.model_max_length == 512
    base = getattr(theirs.eval(), "bert", theirs)
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    with torch.no_grad():
        expected = encode(ours.network, torch.tensor([ids]), mask).states
        torch.testing.assert_close(base(**given).last_hidden_state, expected, rtol=0, atol=1e-5)
    if "Classification" in architecture:
        names = json.loads(Path("run/checkpoints/best/labels.json").read_text("utf-8"))
        column = "upos" if "tagging" in task else "label"
        assert theirs.config.id2label == dict(enumerate(names[column]))
        assert theirs.config.num_labels == len(names[column])


def test_layers_that_share_are_written_several_times(place: Path, invoke: Invoke) -> None:
    shared = (BERT, PIECES, "task={kind: mlm, output: bert}", "model.share_layers=true", "model.layers=3")
    report = exported(invoke, *shared, options=("--expand-shared",))
    assert report["largest_difference"] < 1e-5
    assert transformers.AutoModel.from_pretrained("out").config.num_hidden_layers == 3
    refused(invoke("export", "run", "again", "--format", "hf"), 2, "model.share_layers: true (--expand-shared")
    assert not Path("again").exists()
    refused(invoke("export", "run", "again", "--expand-shared"), 2, "for --format hf")
    refused(invoke("export", "run", "out", "--format", "hf", "--expand-shared"), 2, "exists already")


def test_what_is_imported_is_exported_with_its_other_keys(place: Path, invoke: Invoke) -> None:
    exported(invoke, BERT, PIECES, "task={kind: mlm, output: bert}")
    Path("out").rename("bert")
    path = configured(Path("bert"), {"a key of others": [1]})
    vocabulary = "data.vocabulary={kind: wordpiece, folder: bert}"
    exported(invoke, BERT, vocabulary, "task={kind: mlm, output: bert}", "model.init_from=bert", "optim.lr=1.0e-12")
    assert json.loads(Path("out/config.json").read_text("utf-8")) == json.loads(path.read_text("utf-8"))
    first, second = hf.read_bert(Path("bert")), hf.read_bert(Path("out"))
    assert first.section == second.section
    for name, value in first.tensors.items():
        torch.testing.assert_close(second.tensors[name], value, rtol=0, atol=1e-6)
    assert read_wordpieces(Path("bert")).pieces == read_wordpieces(Path("out")).pieces


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(place: Path, invoke: Invoke, dtype: str) -> None:
    report = exported(invoke, BERT, PIECES, "task={kind: mlm, output: bert}", options=("--dtype", dtype))
    assert 1e-6 < report["largest_difference"] < 0.2
    assert transformers.AutoModel.from_pretrained("out").dtype == getattr(torch, dtype)


def test_a_probabilistic_transformer(place: Path, invoke: Invoke) -> None:
    report = exported(invoke)
    assert report["architecture"] == "ProbabilisticModel"
    assert report["largest_difference"] < 1e-5
    hf.register()
    theirs = transformers.AutoModel.from_pretrained("out")
    tokenizer = transformers.AutoTokenizer.from_pretrained("out")
    ours = Model.load("run")
    sentence = "two cheap <mask> fold every xyzzy"
    given = tokenizer(sentence, return_tensors="pt")
    words = ours.vocabulary.encode_words(sentence.split()).ids
    words[2] = ours.vocabulary.MASK
    assert given["input_ids"][0].tolist() == words
    assert words[-1] == tokenizer.unk_token_id == ours.vocabulary.UNKNOWN
    with torch.no_grad():
        found = theirs(**given, output_attentions=True)
        ids = torch.tensor([words])
        expected = encode(ours.network, ids, ids != 0, arcs=True)
    torch.testing.assert_close(found.last_hidden_state, expected.states, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.stack(found.attentions, 1), expected.arcs, rtol=0, atol=1e-5)


def test_vocabularies_without_an_exact_tokenizer(place: Path, invoke: Invoke) -> None:
    report = exported(invoke, "data.vocabulary={kind: words, lowercase: true}")
    assert "data.vocabulary.lowercase have no exact form" in report["notes"][0]
    assert (Path("out/vocab.txt").exists(), Path("out/tokenizer.json").exists()) == (True, False)
    pieces = Path("out/vocab.txt").read_text("utf-8").split("\n")
    assert pieces[:3] == ["<pad>", "<unk>", "<mask>"]
    Path("out").rename("words")
    for vocabulary in ("{kind: sentencepiece, size: 60}", "{kind: char}"):
        report = exported(invoke, f"data.vocabulary={vocabulary}")
        assert "no tokenizer is written" in report["notes"][0]
        assert not Path("out/vocab.txt").exists()
        Path("out").rename(vocabulary[7:11])


def test_without_transformers(place: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    report = exported(invoke, BERT, PIECES, "task={kind: mlm, output: bert}")
    assert report["largest_difference"] is None
    Path("out").rename("first")
    ran = invoke("export", "run", "out", "--format", "hf").ok
    assert "transformers is not installed" in ran.err
    assert ran.out.startswith("out: ")


GPT = "model={kind: transformer, causal: true, norm: pre, width: 8, heads: 2, inner: 12, layers: 2}"
LM = "task={kind: lm, word_bias: false, start_at_frequencies: false}"


@pytest.mark.parametrize(
    "more",
    [
        ["model.bias=all", "model.activation=gelu_tanh"],
        ["model.bias=none", "model.activation=relu", "model.share_layers=true", "model.tie_kv=true"],
        ["model.bias=all", "model.activation=gelu", "model.tie_qo=true", "model.positions={kind: learned_sinusoidal}"],
    ],
    ids=" ".join,
)
def test_a_causal_transformer_becomes_gpt2(place: Path, invoke: Invoke, more: list[str]) -> None:
    report = exported(invoke, LM, GPT, *more, options=("--expand-shared",))
    assert report["architecture"] == "GPT2LMHeadModel"
    assert report["largest_difference"] < 1e-5
    theirs = transformers.AutoModelForCausalLM.from_pretrained("out")
    assert theirs.lm_head.weight is theirs.transformer.wte.weight
    model = Model.load("run")
    assert theirs.generation_config.suppress_tokens == [model.vocabulary.PAD, model.vocabulary.MASK]
    prompt = ["two", "cheap", "farmers"]
    ids = torch.tensor([model.vocabulary.encode_words(prompt).ids])
    drawn = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False)[0, 3:]
    assert [model.vocabulary.decode(int(id)) for id in drawn] == list(model.generate(prompt, words=5, temperature=0.0))


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (
            ["model={kind: transformer, width: 8, heads: 2, inner: 12, layers: 1, norm: pre}"],
            "model.norm: pre; model.embedding_norm: false",
        ),
        (["data.vocabulary={kind: words, features: {rows: 32}}"], "data.vocabulary.features"),
        (["task={kind: classification}", *TABLE], "task.representation: cls of a word of its own"),
        ([GPT, "task={kind: lm}"], "task.word_bias: true"),
        ([GPT, LM, "model.norm=post"], "model.norm: post"),
        ([GPT, LM, "model.positions={kind: relative}"], "model.positions: relative"),
        ([GPT, LM, "model.embedding_norm=true"], "model.embedding_norm: true"),
        ([GPT, LM, "model.segments=2"], "model.segments: 2"),
        ([GPT, LM, "model.tie_kv=true"], "model.tie_kv: true"),
        ([GPT, LM, "model.head_size=3"], "model.head_size: 3"),
    ],
    ids=str,
)
def test_what_has_no_form_there_is_named(place: Path, invoke: Invoke, overrides: list[str], named: str) -> None:
    assert invoke("train", "tiny.yaml", "train.steps=1", *overrides, "--run", "run").ok
    refused(invoke("export", "run", "out", "--format", "hf"), 2, named)
    assert not Path("out").exists()
