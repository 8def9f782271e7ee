"""Several trees of a sentence, and the probabilities of all heads, against all trees there are."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import single_root_trees
from support import RECIPE, Invoke, refused, sentences

from probtrans_cli import checkpoint
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.vocabularies.base import Enclosed
from probtrans_cli.data.vocabularies.words import build_words
from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.source import read_recipe
from probtrans_cli.trained.base import texts_of, weights_of
from probtrans_cli.trained.machine import Machine
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Analysis, ParseOptions
from probtrans_cli.trained.several import random_of

PARSER = "task={kind: parsing, output: heads, relations: full, decode: mst}"
LABELLED = ["model.head_labels=true", "model.root={labels: 4, own_label: true}", "model.channels=18"]
TREE = "model.heads=tree"
RUNS = {
    "free": ["model.root={}"],
    "rootless": ["model.channels=1"],
    "tree": [TREE, "model.root={}", "model.damping={heads: 0.3}"],
    "tree-rootless": [TREE, "data.vocabulary={punctuation: false, min_count: 1}"],
    "tree-labelled": [TREE, "model.root={}", "model.head_labels=true"],
    "parser": [PARSER, *LABELLED, "data.format=treebank"],
    "parser-tree": ["task={kind: parsing, heads: tree, relations: full, decode: eisner}", "data.format=treebank"],
}
"""Models with random weights, each with the overrides of the recipe."""
EXACT = ("tree", "tree-rootless", "tree-labelled", "parser-tree")
TEXTS = ["foxes rip this scarf", "dogs", "the dogs fold shirts", "dogs rip"]
ALL = 10**6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    corpus = list(read_conllu(sentences("train", 40).splitlines(keepends=True), "train.conllu"))
    relations = {"deprel": sorted({relation for sentence in corpus for relation in sentence.relations or ()})}
    for name, overrides in RUNS.items():
        recipe = read_recipe(RECIPE.encode(), "tiny.yaml", [f"name={name}", *overrides]).resolved()
        vocabulary = build_words(recipe.data.vocabulary, [sentence.words for sentence in corpus])
        labels = relations if name.startswith("parser") else {}
        torch.manual_seed(1)
        model = Model.new(recipe, vocabulary, labels, Machine(recipe.runtime))
        for parameter in model.network.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
        checkpoint.write(folder / "runs" / name, texts_of(model, {}), {"model.safetensors": weights_of(model.network)})
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def analysed(name: str, texts: list[str] = TEXTS, **options: object) -> list[Analysis]:
    if not name.startswith("parser"):
        options = {"channel": 0, "decoder": "mst", **options}
    return list(Model.load(f"runs/{name}", threads=1).analyze(texts, **options))


def of_all_trees(marginals: np.ndarray) -> dict[tuple[int, ...], float]:
    """Probabilities in proportion to the product of those of the arcs, the root first; NaN: the root is no choice."""
    n = len(marginals)
    arcs = np.where(np.isnan(marginals), 1.0, marginals)
    trees = [tuple((head + 1) % (n + 1) for head in tree) for tree in single_root_trees(n)]
    products = np.array([arcs[np.arange(n), tree].prod() for tree in trees])
    return dict(zip(trees, products / products.sum(), strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_the_best_trees_are_all_trees_with_their_probabilities(name: str) -> None:
    decoder = {} if name.startswith("parser") else {"decoder": "mst"}
    for analysis in analysed(name, best=ALL, marginals=True, **decoder):
        n = len(analysis.words)
        assert analysis.marginals.shape == (n, n + 1)
        best = {tuple(tree.heads): np.exp(tree.log_probability) for tree in analysis.best}
        chances = list(best.values())
        assert all(left >= right - 1e-6 for left, right in pairwise(chances))
        if name == "parser-tree":  # those without crossing arcs alone
            assert sum(chances) <= 1 + 1e-9
        else:
            assert sum(chances) == pytest.approx(1.0, abs=1e-9)
        if name not in EXACT:
            expected = of_all_trees(analysis.marginals)
            assert best == pytest.approx(expected, abs=1e-5)
            assert tuple(analysis.heads) == tuple(analysis.best[0].heads)
        elif name != "parser-tree":  # the marginals of the trees are those of the network
            heads = np.array(list(best))
            shares = np.stack([(heads == head).T @ np.array(chances) for head in range(n + 1)], axis=1)
            known = ~np.isnan(analysis.marginals)
            np.testing.assert_allclose(shares[known], analysis.marginals[known], atol=2e-6)
        for tree in analysis.best[:5]:
            np.testing.assert_array_equal(tree.probabilities, analysis.marginals[np.arange(n), tree.heads])


@pytest.mark.parametrize("name", RUNS)
def test_draws_have_these_probabilities(name: str) -> None:
    draws = 4000
    (analysis,) = analysed(name, TEXTS[:1], samples=draws, best=ALL)
    counts = Counter(tuple(tree.heads) for tree in analysis.samples)
    for tree in analysis.best:
        p = np.exp(tree.log_probability)
        assert abs(counts[tuple(tree.heads)] - draws * p) <= 4.5 * np.sqrt(draws * p * (1 - p)) + 2
    if name != "parser-tree":
        assert len(counts) <= len(analysis.best)
    every = {tuple(tree.heads): tree.log_probability for tree in (*analysis.best, *analysis.samples)}
    assert sum(np.exp(list(every.values()))) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["parser", "parser-tree"])
def test_relations_are_drawn_or_the_best(name: str) -> None:
    (analysis,) = analysed(name, TEXTS[:1], samples=4000, best=3)
    for tree in analysis.best:
        assert [r == "root" for r in tree.prediction["relations"]] == [head == 0 for head in tree.heads]
    word, head = 0, int(analysis.best[0].heads[0])
    chosen = [tree.prediction for tree in analysis.samples if tree.heads[word] == head]
    relation, chance = (analysis.best[0].prediction[key][word] for key in ("relations", "relation_probability"))
    share = np.mean([prediction["relations"][word] == relation for prediction in chosen])
    assert share == pytest.approx(chance, abs=4.5 * np.sqrt(chance * (1 - chance) / len(chosen)) + 1e-6)


def test_a_sentence_has_its_draws_wherever_it_stands(invoke: Invoke) -> None:
    """Beside others, in another order, in bulk; another seed and another channel have other ones."""
    Path("text.txt").write_text("".join(f"{text}\n" for text in [*TEXTS, "these foxes see a harbor in the fog"] * 2))
    options = ["-f", "jsonl", "--channel", "0", "--samples", "6"]

    def samples(*more: str) -> list[list[list[int]]]:
        lines = invoke("parse", "runs/tree", "text.txt", *options, *more).out.splitlines()
        return [[tree["heads"] for tree in json.loads(line)["samples"]] for line in lines]

    first = samples()
    assert first[:5] == first[5:]
    alone = [
        [tree.heads.tolist() for tree in analysis.samples or ()]
        for text in TEXTS[::-1]
        for analysis in analysed("tree", [text], samples=6)
    ]
    assert alone[::-1] == first[:4]
    assert samples("--seed", "1") != first
    assert samples("--channel", "1") != first
    assert samples("--iteration", "1") != samples("--iteration", "2")
    invoke("parse", "runs/tree", "text.txt", *options, "--output-dir", "out", "--block-size", "40")
    merged = invoke("parse", "runs/tree", "text.txt", *options, "--output-dir", "out", "--block-size", "40", "--merge")
    assert [[tree["heads"] for tree in json.loads(line)["samples"]] for line in merged.out.splitlines()] == first
    assert random_of(0, ["a\ud800"], "mean").random() == random_of(0, ["a\ud800"], "mean").random()


def test_a_mean_of_channels_is_a_product() -> None:
    (analysis,) = analysed("tree", TEXTS[:1], channel="mean", best=ALL, marginals=True)
    best = {tuple(tree.heads): np.exp(tree.log_probability) for tree in analysis.best}
    assert best == pytest.approx(of_all_trees(analysis.marginals), abs=1e-5)


def test_words_that_are_not_read_hang_at_their_hosts() -> None:
    (analysis,) = analysed("tree-rootless", ["dogs , foxes !"], samples=50, best=ALL, marginals=True)
    for tree in (*analysis.best, *analysis.samples):
        assert (tree.heads[1], tree.heads[3]) == (1, 3)
        assert {tree.heads[0], tree.heads[2]} in ({0, 1}, {0, 3})
        assert np.isnan(tree.probabilities[[1, 3]]).all()
    assert len(analysis.best) == 2
    assert np.isnan(analysis.marginals[[1, 3]]).all()


def test_conllu_has_a_block_for_each_tree(invoke: Invoke) -> None:
    Path("text.txt").write_text("foxes rip this scarf\ndogs\n", encoding="utf-8")
    for name, options in (("free", ["--best", "3", "--decode", "mst"]), ("parser", ["--best", "3"])):
        blocks = invoke("parse", f"runs/{name}", "text.txt", *options, "--prob").out.strip().split("\n\n")
        assert len(blocks) == 4  # of the second sentence there is one tree
        lines = invoke("parse", f"runs/{name}", "text.txt", *options, "-f", "jsonl").out.splitlines()
        records = [json.loads(line) for line in lines]
        trees = [tree for record in records for tree in record["best"]]
        for number, (block, tree) in enumerate(zip(blocks, trees, strict=True)):
            lines = block.splitlines()
            assert lines[1:3] == [f"# tree = {number % 3 + 1}", f"# log_prob = {tree['log_probability']:.6f}"]
            rows = [line.split("\t") for line in lines if line[0] != "#"]
            assert [int(row[6]) for row in rows] == tree["heads"]
            assert name == "free" or [row[7] for row in rows] == tree["relations"]
            assert all("Prob=" in row[9] for row in rows)
        assert records[0]["best"][0]["heads"] == records[0]["heads"]


def test_pictures_and_pages(invoke: Invoke, tmp_path: Path) -> None:
    Path("one.txt").write_text("foxes rip this scarf\n", encoding="utf-8")
    command = ["parse", "runs/parser", "one.txt"]
    out = invoke(*command, "-f", "tree", "--samples", "2").out
    assert out.count("tree 1, log_prob -") == out.count("tree 2, log_prob -") == 1
    assert len(invoke(*command, "-f", "displacy", "--best", "2").out.splitlines()) == 2
    invoke(*command, "-f", "svg", "--best", "2", "--output-dir", str(tmp_path / "pictures"))
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["0001-tree-1.svg", "0001-tree-2.svg"]
    assert invoke(*command, "-f", "svg", "--best", "1").out.startswith("<svg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-f html --best 2", "the page shows"),
        ("-f svg --samples 2", "several trees are asked for"),
        ("-f tuples --best 2", "this format has no trees"),
        ("-f conllu --marginals", "--marginals: this format has no room"),
        ("-f tree --marginals", "--marginals: this format has no room"),
        ("-f conllu --samples 2 --best 2", "writes one tree after the other"),
        ("-f jsonl --samples 2 --trees no", "--samples is about trees"),
        ("-f jsonl --marginals --trees no", "--marginals is about trees"),
        ("-f jsonl --best 2 --decode argmax", "--best does not go with --decode argmax"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_the_model_is_loaded(invoke: Invoke, options: str, message: str) -> None:
    Path("one.txt").write_text("foxes rip\n", encoding="utf-8")
    refused(invoke("parse", "runs/nowhere", "one.txt", *options.split()), 2, message)


def test_empty_and_unread_sentences(invoke: Invoke) -> None:
    Path("odd.txt").write_text("\ndogs\nfoxes rip this scarf\n", encoding="utf-8")
    options = ["--input", "tokens", "--longest", "2", "--too-long", "skip", "--decode", "mst", "--samples", "2"]
    result = invoke("parse", "runs/free", "odd.txt", *options, "-f", "jsonl", "--marginals")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [len(record["samples"]) for record in records] == [0, 2, 0][-len(records) :]
    assert records[-1]["marginals"] == []
    assert invoke("parse", "runs/free", "odd.txt", *options).out.count("# tree") == 2


def test_a_sentence_of_special_tokens_alone_has_no_tree() -> None:
    corpus = [sentence.words for sentence in read_conllu(sentences("train", 20).splitlines(keepends=True), "x")]
    options = ["name=enclosed", "model={kind: transformer, width: 8, heads: 2, inner: 8}"]
    recipe = read_recipe(RECIPE.encode(), "tiny.yaml", options).resolved()
    vocabulary = Enclosed(build_words(recipe.data.vocabulary, corpus))
    model = Model.new(recipe, vocabulary, {}, Machine(recipe.runtime))
    wanted = {"best": 2, "samples": 2, "marginals": True, "channel": 0, "decoder": "mst"}
    empty, full = model.analyze([[], ["dogs", "rip"]], **wanted)
    assert (empty.best, empty.samples, empty.marginals is not None and empty.marginals.shape) == ((), (), (0, 1))
    assert len(full.best or ()) == len(full.samples or ()) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("samples", 0), ("best", -1), ("top", -1), ("latent_labels", 0), ("seed", -5)]
)
def test_numbers_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"{name} {value}: is out of range"):
        ParseOptions(**{name: value})
