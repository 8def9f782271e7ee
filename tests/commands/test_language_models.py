"""Causal language models through the commands and from Python: surprisal, next words, texts that go on."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from run_of_every_task import SHORT, rows
from support import TOY, Invoke, Stdin, refused, train_each, workplace

import probtrans_cli
from probtrans_cli.errors import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with the runs `lm`, a causal field, and `gpt`, a causal transformer."""
    field = ["model.causal=true", "model.chain=true", "model.readout_potentials=1"]
    layers = "model={kind: transformer, causal: true, norm: pre, width: 8, inner: 8, heads: 2, layers: 1}"
    runs = {
        "lm": ["task={kind: lm, sampled: 5}", *field, *SHORT],
        "gpt": ["task={kind: lm}", layers, "optim.lr=0.01"],
    }
    return train_each(workplace(tmp_path_factory.mktemp("lm")), runs)


@pytest.fixture
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(params=["lm", "gpt"])
def run(request: pytest.FixtureRequest, there: Path) -> str:
    return f"runs/{request.param}"


def sentences(file: str) -> list[list[str]]:
    parts = Path(file).read_text("utf-8").strip().split("\n\n")
    return [[line.split("\t")[1] for line in part.splitlines() if line[0].isdigit()] for part in parts]


def test_surprisals_add_up_to_the_perplexity(run: str, invoke: Invoke) -> None:
    scores = invoke("eval", run, "--split", "test", "--json").json["scores"]["test"]
    model = probtrans_cli.load(run)
    bits = [value for text in model.surprisal(sentences("test.conllu")) for _, value in text]
    assert len(bits) == sum(map(len, sentences("test.conllu")))
    assert 2 ** (sum(bits) / len(bits)) == pytest.approx(scores["perplexity"], rel=1e-6)
    of_texts = [[value * math.log(2) for _, value in text] for text in model.surprisal(sentences("test.conllu"))]
    deviations = sum((sum(text) - scores["loss"] * len(text)) ** 2 for text in of_texts)
    error = scores["perplexity"] * math.sqrt(deviations) / len(bits)
    assert scores["perplexity_se"] == pytest.approx(error, rel=1e-4)


def test_a_table_of_surprisals_adds_up_to_the_perplexity(run: str, invoke: Invoke) -> None:
    arguments = ("eval", run, "test.conllu", "--json", "--surprisal")
    scores = invoke(*arguments, "words.tsv").json["scores"]["test.conllu"]
    rows = [line.split("\t") for line in Path("words.tsv").read_text("utf-8").splitlines()]
    assert rows[0] == ["sentence", "word", "begin", "end", "form", "surprisal", "entropy", "rank"]
    words = sentences("test.conllu")
    assert [row[4] for row in rows[1:]] == [word for sentence in words for word in sentence]
    bits = [float(row[5]) for row in rows[1:]]
    assert 2 ** (sum(bits) / len(bits)) == pytest.approx(scores["perplexity"], rel=1e-6)
    characters = sum(len(" ".join(sentence)) + 1 for sentence in words)
    assert scores["bits_per_character"] == pytest.approx(sum(bits) / characters, rel=1e-6)
    assert invoke(*arguments, "words.jsonl").code == 0
    records = [json.loads(line) for line in Path("words.jsonl").read_text("utf-8").splitlines()]
    assert [value for record in records for value in record["surprisal"]] == bits
    for row in rows[1:]:
        record, number = records[int(row[0]) - 1], int(row[1]) - 1
        begin, end = record["characters"][number]
        assert record["text"][begin:end] == record["words"][number] == row[4]
        assert [str(begin), str(end), str(record["rank"][number])] == [row[2], row[3], row[7]]
    refused(invoke(*arguments, "words.tsv", "--uncertainty"), 2, "--surprisal: not with --uncertainty")


def test_text_in_blocks(there: Path, invoke: Invoke) -> None:
    """All words behind each other with `</s>` at line ends, cut every seven words; the first of each is not scored."""
    task = ["task={kind: lm, score_first: false}", "model.causal=true", *SHORT, "data.blocks=7"]
    assert invoke("-q", "train", "tiny.yaml", "name=blocks", *task).code == 0
    stream = [word for sentence in sentences("test.conllu") for word in [*sentence, "</s>"]]
    blocks = [stream[begin : begin + 7] for begin in range(0, len(stream), 7)]
    bits = [value for text in probtrans_cli.load("runs/blocks").surprisal(blocks) for _, value in text]
    assert len(bits) == len(stream) - len(blocks)
    scores = invoke("eval", "runs/blocks", "--split", "test", "--json").json["scores"]["test"]
    assert scores["perplexity"] == pytest.approx(2 ** (sum(bits) / len(bits)), rel=1e-6)
    assert "bits_per_character" not in scores  # as some words are not scored
    every = ["task.score_first=true", "name=all", "train.steps=2"]
    assert invoke("-q", "train", "tiny.yaml", *task, *every).code == 0
    scores = invoke("eval", "runs/all", "test.conllu", "--json", "--surprisal", "blocks.jsonl").json["scores"]
    records = [json.loads(line) for line in Path("blocks.jsonl").read_text("utf-8").splitlines()]
    assert [record["words"] for record in records] == blocks
    characters = sum(len(" ".join(sentence)) + 1 for sentence in sentences("test.conllu"))
    of_file = sum(value for record in records for value in record["surprisal"]) / characters
    assert scores["test.conllu"]["bits_per_character"] == pytest.approx(of_file, rel=1e-6)
    ran = invoke("train", "tiny.yaml", *task, "data.longest=9", "data.vocabulary.kind=char")
    refused(ran, 2, "data.blocks: blocks are for `kind: lm` and `mlm`, and a vocabulary of words")


def test_minimal_pairs_are_scored_by_the_bits_of_both(run: str, invoke: Invoke) -> None:
    file = "embedded:toy/pairs.jsonl"
    scores = invoke("score", "pairs", file, "--model", run, "--json").json["scores"]
    pairs = [json.loads(line) for line in gzip.decompress((TOY / "pairs.jsonl.gz").read_bytes()).splitlines()]
    model = probtrans_cli.load(run)
    right: dict[str, list[bool]] = {}
    for pair in pairs:
        keys = ("good", "bad")
        sums = (sum(bits for _, bits in next(model.surprisal([pair[f"sentence_{key}"]]))) for key in keys)
        pair |= dict(zip([f"surprisal_{key}" for key in keys], sums, strict=True))
        is_right = pair["surprisal_good"] < pair["surprisal_bad"] - 1e-4
        right.setdefault(pair["linguistics_term"], []).append(is_right)
    assert scores["accuracy"] == sum(map(sum, right.values())) / scores["pairs"]
    assert {name: row["accuracy"] for name, row in scores["phenomena"].items()} == {
        name: sum(values) / len(values) for name, values in right.items()
    }
    Path("pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
    assert invoke("score", "pairs", "pairs.jsonl", "--json").json["scores"] == scores
    low, high = scores["accuracy_interval"]
    assert 0 <= low < scores["accuracy"] < high <= 1
    assert "determiner and noun" in invoke("score", "pairs", "pairs.jsonl").out


MODEL = ("--model", "runs/lm")


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ('{"sentence_good": "a", "sentence_bad": ""}', MODEL, "pairs.jsonl:1: sentence_bad is no text"),
        ('{"surprisal_good": 1, "surprisal_bad": 2}', MODEL, "pairs.jsonl:1: sentence_good is not there"),
        ('{"sentence_good": "a", "sentence_bad": "b"}', (), "pairs.jsonl:1: has no surprisal_good"),
        ('{"surprisal_good": 1, "surprisal_bad": 1' + "0" * 400 + "}", (), "pairs.jsonl:1: has no surprisal_good"),
        ('{"surprisal_good": -1.5, "surprisal_bad": -2}', (), "pairs.jsonl:1: a surprisal of -2.0, which is negative"),
        ('{"sentence_good": "a"', (), "pairs.jsonl:1"),
        ("", (), "there is no pair"),
        ("{}", ("--gold", "pairs.jsonl"), "--gold"),
    ],
)
def test_what_is_no_minimal_pair(
    line: str, options: tuple[str, ...], message: str, there: Path, invoke: Invoke
) -> None:
    Path("pairs.jsonl").write_text(line + "\n", "utf-8")
    ran = invoke("score", "pairs", "pairs.jsonl", *options)
    assert ran.code in (2, 3)
    assert message in ran.err


def test_next_words_are_a_distribution_and_give_the_surprisals(run: str) -> None:
    model, words = probtrans_cli.load(run), ["two", "cheap", "farmers"]
    ((first, second, third),) = model.surprisal([words])
    for number, (word, bits) in enumerate((first, second, third)):
        after = model.next_words(words[:number])
        assert sum(after.values()) == pytest.approx(1.0, abs=1e-9)
        assert -math.log2(after.get(word, after["<unk>"])) == pytest.approx(bits, rel=1e-5)
    assert list(model.next_words("two cheap", top=2).items()) == list(model.next_words(words[:2]).items())[:2]


def test_a_text_goes_on_word_by_word_whatever_else_is_asked(run: str) -> None:
    model = probtrans_cli.load(run)
    text = ["two"]
    for word in model.generate("two", words=6, temperature=0.0):
        assert word == next(iter(model.next_words(text, top=1)))
        text.append(word)
    assert len(text) == 7
    drawn: Any = {"words": 5, "temperature": 1.5, "seed": 3}
    assert list(model.generate("two", **drawn)) == list(model.generate("two", **drawn))
    assert list(model.generate("two", **drawn, top_k=1)) == text[1:6]
    assert list(model.generate("two", **drawn, top_p=1e-9)) == text[1:6]
    assert list(model.generate("two", words=6, temperature=0.0, stop=text[1])) == text[1:2]


def test_spellings_count_when_a_text_goes_on(there: Path, invoke: Invoke) -> None:
    """Those of an unknown word, too, which is none of the vocabulary's."""
    features = "data.vocabulary={kind: words, features: {}}"
    task = ["task={kind: lm}", "model.causal=true", *SHORT, features]
    assert invoke("-q", "train", "tiny.yaml", "name=spelled", *task).code == 0
    model = probtrans_cli.load("runs/spelled")
    torch.nn.init.normal_(model.network.features.weight, std=2.0)
    before = list(model.next_words(["two", "aardvarks"]).values())
    assert before != list(model.next_words(["two", "zyzzyva"]).values()), "they are spelled otherwise"
    text = ["two", "aardvarks"]
    for word in model.generate(text[:], words=4, temperature=0.0):
        assert word == next(iter(model.next_words(text, top=1)))
        text.append(word)
    ran = invoke("export", "runs/spelled", "out", "--format", "pt2")
    refused(ran, 2, "data.vocabulary.features have no form")


def test_frequencies_of_drawn_words_are_their_probabilities() -> None:
    import numpy as np

    from probtrans_cli.statistics.sampling import Sampling

    p, random = np.array([0.5, 0.3, 0.15, 0.05]), np.random.default_rng(0)
    for options, expected in (
        ({}, p),
        ({"temperature": 0.5}, p**2 / (p**2).sum()),
        ({"top_k": 2}, np.array([5 / 8, 3 / 8, 0, 0])),
        ({"top_p": 0.6}, np.array([5 / 8, 3 / 8, 0, 0])),
    ):
        draws = [Sampling(**options).choose(np.log(p), random) for _ in range(4000)]  # type: ignore[arg-type]
        assert np.abs(np.bincount(draws, minlength=4) / 4000 - expected).max() < 0.03


def test_generate_writes_a_line_for_each_prompt(run: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = invoke("generate", run, "two cheap", "--words", "4", "--seed", "1").ok
    assert alone.out.startswith("two cheap ")
    assert len(alone.out.split()) == 6
    two = invoke("generate", run, "two cheap", "--words", "4", "--seed", "1", "--n", "2", "--json")
    records = two.records
    assert " ".join(records[0]["prompt"] + records[0]["words"]) == alone.out.strip()
    assert len(records) == 2
    assert invoke("--json", "generate", run, "two cheap", "--words", "4", "--seed", "1", "--n", "2").out == two.out
    refused(invoke("generate", run, "--top-p", "2"), 2, "top_p 2.0")


def test_one_text_has_no_standard_error(run: str, invoke: Invoke) -> None:
    Path("single.txt").write_text("two cheap farmers fold\n", "utf-8")
    scores = invoke("eval", run, "single.txt", "--json").json["scores"]["single.txt"]
    assert scores["perplexity"] > 1
    assert "perplexity_se" not in scores


def test_a_table_of_words_is_no_input(run: str, invoke: Invoke) -> None:
    before = Path("test.conllu").read_bytes()
    refused(invoke("eval", run, "test.conllu", "--surprisal", "test.conllu"), 2, "it is an input")
    assert Path("test.conllu").read_bytes() == before


def test_prompts_are_text_or_refused(run: str, invoke: Invoke, stdin: Stdin) -> None:
    stdin(b"two cheap\n")
    assert invoke("generate", run, "-", "--words", "1").out.startswith("two cheap ")
    refused(invoke("generate", run, "two", "--stop", "xyzzy"), 2, "never predicts it")
    stdin(b"two\nche\xffap\n")
    refused(invoke("generate", run, "--json"), 3, "UTF-8")


def test_surprisals_of_pieces_add_up_to_the_perplexity(there: Path, invoke: Invoke) -> None:
    pieces = ["task={kind: lm}", "model.causal=true", "train={steps: 3}", "data.vocabulary={kind: char}"]
    assert invoke("train", "tiny.yaml", "name=chars", *pieces, "--json").code == 0
    scores = invoke("eval", "runs/chars", "--split", "test", "--json").json["scores"]["test"]
    texts = sentences("test.conllu")
    bits = [value for text in probtrans_cli.load("runs/chars").surprisal(texts) for _, value in text]
    assert len(bits) == sum(map(len, texts))
    characters = sum(len(word) for text in texts for word in text)
    assert math.log(2) * sum(bits) == pytest.approx(scores["loss"] * characters, rel=1e-6)


def test_parse_tells_surprisal_entropy_and_rank(run: str, invoke: Invoke) -> None:
    Path("in.txt").write_text("two cheap farmers\n\n", "utf-8")
    record = invoke("parse", run, "in.txt", "-f", "jsonl").records[0]
    assert {len(record[name]) for name in ("surprisal", "entropy", "rank")} == {3}
    assert all(head <= number for number, head in enumerate(record["heads"]) if run == "runs/lm")
    misc = [row[9] for row in rows(invoke("parse", run, "in.txt").out)]
    assert misc == [f"Surprisal={value:.4f}" for value in record["surprisal"]] or all(
        "Surprisal=" in cell for cell in misc
    )


def test_later_words_are_no_heads(run: str, invoke: Invoke) -> None:
    """Gold heads that no causal model can have give it no temperature, and are in no loss."""
    assert probtrans_cli.load(run).arc_temperature is None
    Path("in.txt").write_text("two farmers fold a shirt\n", "utf-8")
    options = ["--marginals", "--best", "200", "--decode", "mst"]
    for channel in ("0", "mean"):
        record = invoke("parse", run, "in.txt", "-f", "jsonl", *options, "--channel", channel).json
        assert all(not any(row[number + 1 :]) for number, row in enumerate(record["marginals"], start=1))
        assert len(record["best"]) == math.factorial(4), "of n words, (n - 1)!"
        assert sum(math.exp(tree["log_probability"]) for tree in record["best"]) == pytest.approx(1.0, abs=1e-4)
        if run == "runs/lm":
            assert record["marginals"][0][0] == record["probabilities"][0] == 1.0
            assert [sum(row) for row in record["marginals"]] == pytest.approx([1.0] * 5, abs=1e-5)
    record = invoke("parse", run, "in.txt", "-f", "jsonl", "--decode", "argmax").json
    assert all(head < word for word, head in enumerate(record["heads"], start=1))
    scores = invoke("eval", run, "--uncertainty", "--trees", "yes", "--json").json["scores"]["test"]
    heads = scores["uncertainty"]["heads"]
    assert all(0.0 < heads[name] < 10.0 for name in ("nll", "brier", "entropy"))


def test_a_first_word_may_be_left_out(there: Path, invoke: Invoke) -> None:
    task = "task={kind: lm, score_first: false}"
    assert invoke("train", "tiny.yaml", "name=rest", task, "model.causal=true", "train={steps: 3}", "--json").code == 0
    ((first, second),) = probtrans_cli.load("runs/rest").surprisal(["two cheap farmers"])
    assert (first[0], second[0]) == ("cheap", "farmers")


def test_what_does_not_go_together_is_refused_by_name(there: Path, invoke: Invoke) -> None:
    for options, key in (
        (["task={kind: lm}"], "model.causal"),
        (["model.causal=true"], "model.causal"),
        (
            ["task={kind: lm, readout: exact}", "model.causal=true", "model.decomposition={kind: rotary, rank: 2}"],
            "rotary",
        ),
        (["task={kind: lm, output: linear}", "model.causal=true"], "task.output"),
        (["task={kind: lm, rounds: 1}", "model.causal=true", "model.readout_potentials=2"], "task.rounds"),
        (["task={kind: mlm, sampled: 5}", "model={kind: transformer, bayes: {}}"], "task.sampled"),
        (["task={kind: lm}", "model.causal=true", "data.vocabulary.punctuation=false"], "punctuation"),
    ):
        refused(invoke("train", "tiny.yaml", *options, "--dry-run"), 2, key)
    for name, message, options in (
        ("lm", "model.causal of a field", ["--format", "hf"]),
        ("lm", "--arcs: the graph of a language model is a step", ["--format", "pt2", "--arcs"]),
        ("gpt", "model.causal: true of a transformer has no form", ["--format", "pt2"]),
    ):
        refused(invoke("export", f"runs/{name}", "out", *options), 2, message)
    assert invoke("train", "tiny.yaml", "name=masks", "train={steps: 1}", "--json").code == 0
    with pytest.raises(UsageError, match="next words"):
        probtrans_cli.load("runs/masks").next_words("two")
