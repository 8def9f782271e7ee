"""Features of the spelling of words, and the output layer tied to the unary scores, against plain loops."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import CPU, linear, loss_of, word_scores
from support import RECIPE, assert_near, workplace

from probtrans_cli import models
from probtrans_cli.commands.eval import EvalRequest, evaluate
from probtrans_cli.commands.export import ExportRequest, export
from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.data.corpus.store import Split, encode_table, write_split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN, Vocabulary
from probtrans_cli.data.vocabularies.pieces import Subwords
from probtrans_cli.data.vocabularies.spelling import HashedFeatures, shape
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.errors import DataError
from probtrans_cli.models.base import Encoder, Features
from probtrans_cli.models.network import HIDDEN, PADDING, Network
from probtrans_cli.models.outputs import TiedOutput, word_output
from probtrans_cli.recipe.data import WordFeatures, WordVocabulary
from probtrans_cli.recipe.task import LanguageModel, MaskedLanguageModel
from probtrans_cli.tasks.base import entry_features
from probtrans_cli.tasks.batch import collate
from probtrans_cli.tasks.lm import CausalLanguageModelling
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Parser

SENTENCES = [["The", "dogs", "barked"], ["I"], ["A", "very-large", "U.S.", "dog", "sang", "in", "1999"]]
SECTION = {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0, "decomposition": {"kind": "none"}}


def vocabulary(**options: Any) -> Vocabulary:
    return build_vocabulary(WordVocabulary(lowercase=True, features=WordFeatures(**{"rows": 50, **options})), SENTENCES)


def encoded(words: Vocabulary, sentences: list[list[str]] = SENTENCES) -> Split:
    return Split.encode([Sentence(sentence) for sentence in sentences], words, {})


def tied_to(words: int) -> Callable[[Encoder], Any]:
    return lambda encoder: word_output("tied", encoder, words, (), tied=True)


def features_of(split: Split, indices: np.ndarray) -> Features | None:
    return collate(split, indices, padding=PAD, device=CPU).features


def network(words: Vocabulary, *, tied: bool = False, **section: Any) -> Network:
    """A network in float64 whose unary and feature scores are all far from zero."""
    torch.manual_seed(3)
    entries = entry_features(words) if tied else None
    encoder = models.build({**SECTION, **section})
    output = tied_to(words.size) if tied else linear(words.size)
    options = words.features.section
    sizes = {"feature_rows": options.rows, "feature_window": options.window, "feature_rank": options.rank or 0}
    model = Network(words.size, encoder, output, **sizes, entries=entries).double().eval()
    with torch.no_grad():
        model.unary.weight.normal_()
        model.features.weight.normal_()
    return model


# --- the features of a word -------------------------------------------------------------------------------------------


def test_the_names_of_features() -> None:
    features = HashedFeatures(WordFeatures(prefixes=2, suffixes=3, ngrams=3))
    assert list(features.names("Sing")) == [
        *("prefix:s", "prefix:si", "suffix:g", "suffix:ng", "suffix:ing"),
        *("ngram:^si", "ngram:ing", "ngram:ng$", "ngram:sin"),
        "shape:Xx",
    ]
    assert list(HashedFeatures(WordFeatures()).names("I")) == ["prefix:i", "suffix:i", "shape:X"]
    nothing = HashedFeatures(WordFeatures(prefixes=0, suffixes=0, shape=False))
    assert nothing.rows("word") == ()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("dog", "x"), ("Dog", "Xx"), ("USA", "XX"), ("I", "X"), ("McDonald", "XxXx"), ("U.S.", "X.X."),
        ("mid-1990s", "x-dx"), ("1,234", "d,d"), ("--", "-"), ("", ""), ("http://a.b.c/d.html", "x:/x.x.x"),
    ],
)  # fmt: skip
def test_shapes(word: str, expected: str) -> None:
    assert shape(word) == expected


def test_the_hash_is_the_same_on_every_machine() -> None:
    assert HashedFeatures(WordFeatures(prefixes=0, suffixes=1)).rows("Running") == (29663, 16013)


@given(st.text(max_size=30), st.integers(1, 1000), st.integers(0, 5))
def test_any_text_has_rows_of_the_table(word: str, size: int, ngrams: int) -> None:
    features = HashedFeatures(WordFeatures(rows=size, ngrams=ngrams))
    rows = features.rows(word)
    assert all(0 <= row < size for row in rows)
    assert features.rows(word) == HashedFeatures(features.section).rows(word)


def test_every_piece_of_a_word_has_the_features_of_the_word() -> None:
    pytest.importorskip("tokenizers")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "the"]
    words = WordPieces(pieces, features=WordFeatures(prefixes=1, suffixes=0, rows=50))
    split = encoded(words, [["The", "Unaffable"], ["unaffable"]])
    the, capital, small = ([*words.features.rows(word)] for word in ("The", "Unaffable", "unaffable"))
    assert capital != small
    rows, widths = split.features(np.array([1, 0]))
    assert rows.tolist() == [*small * 3, *the, *capital * 3]
    assert widths.tolist() == [[0, 2, 2, 2, 0, 0], [0, 2, 2, 2, 2, 0]]  # none of [CLS], [SEP] and padding


# --- in the store -----------------------------------------------------------------------------------------------------


def test_features_of_a_batch_are_those_of_its_words(tmp_path: Path) -> None:
    words = vocabulary()
    split = encoded(words)
    write_split(tmp_path / "x.arrow", encode_table([Sentence(sentence) for sentence in SENTENCES], words, {}))
    of_words = [words.features.rows(word) for index in (2, 0) for word in SENTENCES[index]]
    sizes = [len(of_word) for of_word in of_words]
    for stored in (split, Split(tmp_path / "x.arrow")):
        rows, widths = stored.features(np.array([2, 0]))
        assert rows.tolist() == [row for of_word in of_words for row in of_word]
        assert widths.tolist() == [sizes[:7], sizes[7:] + [0] * 4]
    assert not encoded(build_vocabulary(WordVocabulary(), SENTENCES)).has("features")


def test_a_vocabulary_keeps_its_features(tmp_path: Path) -> None:
    words = vocabulary(suffixes=2)
    words.save(tmp_path)
    loaded = load_vocabulary(tmp_path)
    assert loaded.features.section == WordFeatures(rows=50, suffixes=2)
    content = json.loads((tmp_path / "vocabulary.json").read_text("utf-8"))
    content["options"]["features"]["rows"] = "many"
    (tmp_path / "vocabulary.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="damaged vocabulary"):
        load_vocabulary(tmp_path)
    assert Subwords.features is None


def test_a_vocabulary_without_features_is_saved_as_before_there_were_any(tmp_path: Path) -> None:
    build_vocabulary(WordVocabulary(), SENTENCES).save(tmp_path)
    assert json.loads((tmp_path / "vocabulary.json").read_text("utf-8"))["options"].keys() == {"lowercase", "digits"}


# --- in the network ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "rank", "ngrams"), [(0, None, 2), (1, None, 0), (2, 3, 0)])
def test_unary_scores_are_row_plus_features_of_the_window(window: int, rank: int | None, ngrams: int) -> None:
    """By loops: each feature has scores for every distance; hidden words have none, and padding gets none."""
    words = vocabulary(window=window, rank=rank, ngrams=ngrams)
    model, split = network(words), encoded(words)
    indices = np.array([0, 1, 2])
    ids = torch.from_numpy(split.padded("ids", indices, PAD))
    ids[2, 3] = MASK
    scores = model.potentials(ids, features_of(split, indices))
    d, R = scores.shape[-1], model.features.weight
    R = R if model.features.factor is None else R @ model.features.factor.T
    for index, sentence in enumerate(SENTENCES):
        assert window == 0 or not scores[index, len(sentence) :].any()
        for position in range(len(sentence)):
            expected = model.unary.weight[ids[index, position]].clone()
            for x in range(-window, window + 1):
                j = position + x
                if 0 <= j < len(sentence) and ids[index, j] != MASK:
                    for row in words.features.rows(sentence[j]):
                        expected += R[row, (x + window) * d : (x + window + 1) * d]
            torch.testing.assert_close(scores[index, position], expected)


def test_unknown_words_are_not_all_alike_and_case_is_information() -> None:
    words = vocabulary()
    model, split = network(words), encoded(words, [["zebras", "Zebras", "singing", "DOG", "dog"]])
    ids = torch.from_numpy(split.padded("ids", np.array([0]), PAD))
    assert ids[0, :3].tolist() == [UNKNOWN] * 3
    assert ids[0, 3] == ids[0, 4]
    rows = model.potentials(ids, features_of(split, np.array([0])))[0]
    assert len({tuple(row.tolist()) for row in rows}) == 5


def test_a_hidden_word_shows_nothing_of_its_spelling() -> None:
    """Loss and gradient at hidden words are the same whatever their features are."""
    words = vocabulary()
    model, split = network(words), encoded(words)
    indices = np.arange(3)
    ids = torch.from_numpy(split.padded("ids", indices, PAD))
    torch.manual_seed(0)
    hidden = (torch.rand(ids.shape) < 0.5) & (ids != PAD)
    assert hidden.any()
    given_ids = ids.masked_fill(hidden, MASK)
    of_words = features_of(split, indices)
    widths = torch.from_numpy(split.padded("widths", indices, 0)).flatten()
    of_hidden = hidden.flatten().repeat_interleave(widths)
    changed = Features(torch.where(of_hidden, (of_words.rows + 7) % 50, of_words.rows), of_words.offsets)
    assert not torch.equal(changed.rows, of_words.rows)
    scores = [word_scores(model, given_ids, ids != PAD, hidden, features) for features in (of_words, changed)]
    assert torch.equal(*scores)
    assert HIDDEN == MASK
    assert PADDING == PAD


def test_padding_and_batch_mates_change_nothing() -> None:
    words = vocabulary()
    model, split = network(words), encoded(words)
    at = torch.ones(1, 3, dtype=torch.bool)
    alone_ids = torch.from_numpy(split.padded("ids", np.array([0]), PAD))
    alone = word_scores(model, alone_ids, alone_ids != PAD, at, features_of(split, np.array([0])))
    ids = torch.from_numpy(split.padded("ids", np.array([2, 0, 1]), PAD))
    here = torch.zeros(ids.shape, dtype=torch.bool)
    here[1, :3] = True
    among = word_scores(model, ids, ids != PAD, here, features_of(split, np.array([2, 0, 1])))
    torch.testing.assert_close(alone, among)


# --- the tied output --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probabilities", [False, True])
def test_tied_scores_are_those_of_the_formula(probabilities: bool) -> None:
    torch.manual_seed(1)
    table, messages, bias = (torch.randn(size, dtype=torch.float64) for size in ((7, 5), (4, 5), 7))
    states = messages.softmax(-1) if probabilities else messages
    output = TiedOutput(7, probabilities).double()
    output.bias.data = bias
    scores = output(states, table).log_softmax(-1).detach()
    for i in range(4):
        joint = [sum(math.exp(bias[w] + table[w, a] + messages[i, a]) for a in range(5)) for w in range(7)]
        for w in range(7):
            assert float(scores[i, w]) == pytest.approx(math.log(joint[w] / sum(joint)), abs=1e-12)


def test_tied_gradients() -> None:
    torch.manual_seed(1)
    table, states = (torch.randn(size, 4, dtype=torch.float64, requires_grad=True) for size in (6, 3))
    assert torch.autograd.gradcheck(TiedOutput(6, False).double(), (states, table))


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
def test_tied_scores_stay_finite_and_the_best_are_exact(size: float) -> None:
    torch.manual_seed(2)
    table, states = torch.randn(50, 8) * size, (torch.randn(20, 8) * size).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = TiedOutput(50, False)(states, table)
    assert scores.dtype == torch.float32
    assert torch.isfinite(scores).all()
    scores.log_softmax(-1).sum().backward()
    assert torch.isfinite(states.grad).all()
    exact = (table.double() + states.double()[:, None]).logsumexp(-1)
    probabilities = [of_words.double().softmax(-1) for of_words in (scores, exact)]
    torch.testing.assert_close(*probabilities, rtol=1e-3, atol=1e-4 * size)


def test_the_tied_output_has_a_bias_only_and_scores_the_features_of_entries() -> None:
    words = vocabulary()
    model = network(words, tied=True)
    assert model.parameter_counts()["output"] == words.size
    assert not any(name.startswith("entry") for name in model.state_dict())
    table = model._table()
    for id in range(words.size):
        expected = model.unary.weight[id].clone()
        for row in words.features.rows(words.decode(id)) if id > MASK else ():
            expected += model.features.weight[row]
        torch.testing.assert_close(table[id], expected)
    plain = Network(9, models.build(SECTION), tied_to(9))
    assert plain._table() is plain.unary.weight


LAYERS = {"kind": "transformer", "width": 8, "inner": 12, "heads": 2, "layers": 1}
STARTS: dict[str, tuple[Any, str, bool | None, bool]] = {
    "latent variables": (SECTION, "tied", None, True),
    "latent variables alike": (SECTION, "tied", False, False),
    "a layer of its own": (SECTION, "linear", None, False),
    "a layer, wanted": (SECTION, "linear", True, True),
    "word vectors": (LAYERS, "tied", None, False),
    "word vectors, wanted": (LAYERS, "tied", True, True),
    "BERT's": ({**LAYERS, "preset": "bert"}, "bert", True, True),
    "uncertain weights": ({**LAYERS, "bayes": {"objective": "samples"}}, "linear", True, True),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_language_model_starts_at_the_frequencies_of_its_words_where_that_is_wanted(name: str) -> None:
    section, output, start, expected = STARTS[name]
    words = build_vocabulary(WordVocabulary(min_count=2), [["a", "a", "a", "b", "b", "c"]])
    options = {"output": output, "start_at_frequencies": start}
    task = MaskedLanguageModelling(MaskedLanguageModel.model_validate({"kind": "mlm", **options}), words, {})
    model = Network(words.size, models.build(section), task.output)
    before = model.words.bias.detach().clone()
    task.start(model, encoded(words, [["a", "b", "a"], ["a", "b", "c"]]))
    frequencies = torch.tensor([1, 1, 1, 4, 3]) / 10.0  # specials, though one of them occurs, then a and b
    torch.testing.assert_close(model.words.bias.detach(), frequencies.log() if expected else before)


@pytest.mark.parametrize(
    ("section", "output"),
    [({**SECTION, "causal": True}, "tied"), ({**LAYERS, "causal": True, "norm": "pre"}, "linear")],
)
def test_fixed_frequencies_stay_while_all_else_is_learned(section: Any, output: str) -> None:
    words = build_vocabulary(WordVocabulary(), SENTENCES)
    options = LanguageModel(kind="lm", output=output, start_at_frequencies="fixed")
    task = CausalLanguageModelling(options, words, {})
    model, split = Network(words.size, models.build(section), task.output), encoded(words)
    task.start(model, split)
    started = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05, weight_decay=0.1)
    loss = loss_of(task, model, split, np.arange(3))
    loss.total.backward()
    optimizer.step()
    same = [name for name, tensor in model.named_parameters() if torch.equal(tensor, started[name])]
    assert [name for name in same if started[name].numel()] == ["output.bias"]


@pytest.mark.slow
def test_a_tied_language_model_learns() -> None:
    words = build_vocabulary(WordVocabulary(), SENTENCES)
    task = MaskedLanguageModelling(MaskedLanguageModel(kind="mlm", output="tied"), words, {})
    assert task.section.facts.tied
    torch.manual_seed(0)
    model = Network(words.size, models.build({**SECTION, "output": "probabilities"}), task.output)
    optimizer, split = torch.optim.Adam(model.parameters(), lr=0.05), encoded(words)
    losses = []
    for _ in range(150):
        loss = loss_of(task, model, split, np.arange(3))
        if int(loss.number):
            optimizer.zero_grad()
            (loss.total / loss.number).backward()
            optimizer.step()
            losses.append(float((loss.total / loss.number).detach()))
    assert np.mean(losses[-30:]) < 0.6 * np.mean(losses[:10])


# --- end to end -------------------------------------------------------------------------------------------------------

FEATURES = "data.vocabulary={kind: words, lowercase: true, features: {rows: 300, ngrams: 3}}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished runs `tags` (features) and `words` (features and tied output)."""
    folder = workplace(tmp_path_factory.mktemp("features"), RECIPE)
    with chdir(folder):
        tags = ["name=tags", "task={kind: tagging, word_dropout: 0.5}"]
        for more in (tags, ["name=words", "task.output=tied"]):
            train(TrainRequest("tiny.yaml", [FEATURES, *more]))
    return folder


@pytest.mark.parametrize("run", ["tags", "words"])
def test_a_checkpoint_evaluates_parses_and_exports(
    run: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(place, tmp_path / "copy", symlinks=True))
    config = json.loads(Path(f"runs/{run}/checkpoints/best/config.json").read_text("utf-8"))
    assert config["parameters"]["features"] == 300 * 8
    assert (config["parameters"]["output"] == config["vocabulary_size"]) == (run == "words")
    model = Model.load(f"runs/{run}")
    assert model.network.features.weight.abs().max() > 0
    by_split, by_file = (
        evaluate(request)[0]["scores"].popitem()[1]
        for request in (
            EvalRequest(f"runs/{run}", split="test", threads=1),
            EvalRequest(f"runs/{run}", ["test.conllu"], threads=1),
        )
    )
    assert_near(by_split, by_file)
    report = export(ExportRequest(f"runs/{run}", Path("exported")))
    assert report["largest_difference"] == 0.0
    sentences = [Sentence(["Zebras", "sang", "zebraly"]), Sentence([]), Sentence(["sang"])]
    trees = [
        list(Parser(Model.load(name), readings=[model.reading]).analyses(sentences))
        for name in (f"runs/{run}", "exported")
    ]
    for of_run, of_export in zip(*trees, strict=True):
        assert of_run.heads is not None
        np.testing.assert_array_equal(of_run.heads, of_export.heads)
        np.testing.assert_array_equal(of_run.probabilities, of_export.probabilities)
