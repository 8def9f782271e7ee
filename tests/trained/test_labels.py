"""Latent labels: `parse --labels` and `eval --labels` say what the model's distributions say, in every format."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from small_tasks import encode
from support import Invoke, assert_near, assert_near_text, refused

from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.reports.scores import evaluation_report
from probtrans_cli.trained import latent_labels as labels
from probtrans_cli.trained.model import Model
from probtrans_cli.trees.drawing import Arc, Drawing
from probtrans_cli.trees.drawing.svg import svg
from probtrans_cli.trees.drawing.terminal import terminal

Printed = Callable[..., str]
TEXT = "the farmer feeds two goats\n\nfarmers\nan unknown zebra behind the barn\n"
ROTARY = "model={labels: 6, channels: 2, iterations: 2, decomposition: {kind: rotary, rank: 4}, output: probabilities}"


@pytest.fixture
def printed(trained: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> Printed:
    """What a command prints in the folder of the trained models."""
    monkeypatch.chdir(trained)

    def run(*arguments: str) -> str:
        ran = invoke(*arguments)
        assert ran.code == 0, ran.err
        return ran.out

    return run


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def others(trained: Path) -> Iterator[Path]:
    """The same folder with two runs more: `runs/pieces` has subwords, `runs/rotary` rotary scores and probabilities."""
    with chdir(trained):
        pieces = "data.vocabulary={kind: sentencepiece, size: 120, algorithm: bpe}"
        for name, change in (("pieces", pieces), ("rotary", ROTARY)):
            changes = [f"name={name}", change, "train.epochs=1"]
            train(TrainRequest("tiny.yaml", changes, overwrite=True))
        yield trained


def distributions(model: Model, words: list[str]) -> np.ndarray:
    """The label distributions of a sentence by itself, without anything of the code under test."""
    ids, first, *_ = model.vocabulary.encode_words(words)
    batch = torch.tensor([ids])
    with torch.no_grad():
        states = encode(model.network, batch, batch != 0).states[0].double()
    given = model.recipe.model.output == "probabilities"
    return (states if given else states.softmax(-1)).numpy()[first]


def labels_of_misc(conllu: str) -> list[list[tuple[int, float]]]:
    found = []
    for line in conllu.splitlines():
        if line[:1].isdigit():
            entries = dict(entry.partition("=")[::2] for entry in line.split("\t")[9].split("|"))
            pairs = (pair.split(":") for pair in entries["Labels"].split(","))
            found.append([(int(label), float(probability)) for label, probability in pairs])
    return found


# --- parse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiny", "pieces", "rotary"])
def test_parse_shows_the_models_distributions(name: str, others: Path, printed: Printed, text: str) -> None:
    model = Model.load(str(others / "runs" / name))
    lines = printed("parse", f"runs/{name}", text, "--labels", "--top", "4", "-f", "jsonl").splitlines()
    of_words = labels_of_misc(printed("parse", f"runs/{name}", text, "--labels", "--top", "4"))
    assert len(lines) == TEXT.count("\n")
    for record in map(json.loads, lines):
        assert len(record["latent_labels"]) == len(record["words"])
        expected = distributions(model, record["words"]) if record["words"] else []
        for word, shown in zip(expected, record["latent_labels"], strict=True):
            best = sorted(range(len(word)), key=lambda label, word=word: -word[label])[:4]
            assert [label["label"] for label in shown] == best
            assert [label["probability"] for label in shown] == pytest.approx(word[best].tolist(), abs=2e-6)
            in_misc = of_words.pop(0)
            assert [label for label, _ in in_misc] == best
            assert [p for _, p in in_misc] == pytest.approx(word[best].tolist(), abs=6e-5)
    assert not of_words


def test_labels_change_nothing_else(printed: Printed, text: str) -> None:
    for form in ("conllu", "jsonl"):
        plain = printed("parse", "runs/tiny", text, "--prob", "-f", form)
        shown = printed("parse", "runs/tiny", text, "--prob", "--labels", "-f", form)
        if form == "conllu":
            lines = [line.replace("|Labels=", "\tLabels=").split("\t") for line in shown.splitlines()]
            shown = "".join("\t".join("_" if c.startswith("Labels=") else c for c in x[:10]) + "\n" for x in lines)
            assert_near_text(shown, plain, abs=1.1e-4)
        else:
            records = [json.loads(line) for line in shown.splitlines()]
            assert all(len(word) == 3 for record in records for word in record.pop("latent_labels"))
            assert_near(records, [json.loads(line) for line in plain.splitlines()], abs=2e-6)


def test_labels_extend_misc_and_replace_their_own(printed: Printed, tmp_path: Path) -> None:
    rows = ["1\tthe\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|Labels=9:1.0|Gloss=der", "2\tgoat\t_\t_\t_\t_\t_\t_\t_\t_"]
    path = tmp_path / "one.conllu"
    path.write_text("\n".join(rows) + "\n\n", encoding="utf-8")
    misc = [line.split("\t")[9] for line in printed("parse", "runs/tiny", str(path), "--labels").splitlines() if line]
    assert misc[0].startswith("SpaceAfter=No|Gloss=der|Labels=")
    assert misc[1].startswith("Labels=")
    assert all(entries.count("Labels=") == 1 for entries in misc)


def test_labels_in_pictures(printed: Printed, text: str, tmp_path: Path) -> None:
    record = json.loads(printed("parse", "runs/tiny", text, "--labels", "-f", "jsonl").splitlines()[0])
    best = [f"{word[0]['label']}:{word[0]['probability']:.2f}".replace(":0.", ":.") for word in record["latent_labels"]]
    picture = printed("parse", "runs/tiny", text, "--labels", "-f", "tree").splitlines()
    below = next(number for number, line in enumerate(picture) if "farmer" in line) + 1
    assert picture[below].split() == best
    assert all(len(line.split()) == 5 for line in picture[below : below + 3])
    both = printed("parse", "runs/tiny", text, "--labels", "-f", "tree", "--channel", "all")
    assert both.count(best[0]) >= 2
    printed("parse", "runs/tiny", text, "--labels", "-f", "svg", "-o", str(tmp_path / "pictures"))
    file = sorted((tmp_path / "pictures").iterdir())[0]
    assert all(label in file.read_text(encoding="utf-8") for label in best)


def test_more_labels_than_there_are_shows_all(printed: Printed, text: str) -> None:
    of_words = labels_of_misc(printed("parse", "runs/tiny", text, "--labels", "--top", "100"))
    assert all(sorted(label for label, _ in word) == list(range(8)) for word in of_words)
    assert all(sum(p for _, p in word) == pytest.approx(1, abs=1e-3) for word in of_words)


def test_top_without_labels_is_refused(trained: Path, invoke: Invoke, text: str) -> None:
    refused(invoke("eval", str(trained / "runs/tiny"), text, "--top", "2"), 2, "--labels")


def test_notes_of_drawings() -> None:
    arcs = (Arc(1, 2, 0.25), Arc(2, 0, None))
    noted = Drawing(("a", "b"), arcs, notes=(("x", "<i>&"), ("\u202eyy",)))
    lines = terminal(noted, width=80).splitlines()
    assert [line.split() for line in lines[-4:]] == [["a", "b"], [".25"], ["x", "\\u202eyy"], ["<i>&"]]
    narrow = terminal(noted, width=1).splitlines()
    assert [line.split()[-2:] for line in narrow] == [["(root)", "\\u202eyy"], ["x", "<i>&"]]
    assert narrow[0].index("\\u202e") == narrow[1].index("x")
    picture = svg(noted)
    root = ElementTree.fromstring(picture)
    texts = {text.text: float(text.get("y", "nan")) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert texts["a"] < texts["x"] < texts["<i>&"] < float(root.get("height", "nan"))
    assert "\u202e" not in picture
    assert svg(Drawing(("a", "b"), arcs)) == svg(Drawing(("a", "b"), arcs, notes=((), ())))
    with pytest.raises(ValueError, match="notes"):
        Drawing(("a", "b"), arcs, notes=(("x",),))


# --- eval -------------------------------------------------------------------------------------------------------------


def test_counts_and_associations_are_what_plain_loops_give() -> None:
    generator = np.random.default_rng(5)
    lengths = generator.integers(0, 7, 12).tolist()
    sentences = [
        Sentence(
            [f"w{generator.integers(6)}" for _ in range(n)],
            {} if number % 3 == 0 else {"upos": ["_" if generator.random() < 0.2 else "NX"[i % 2] for i in range(n)]},
        )
        for number, n in enumerate(lengths)
    ]
    types = labels.Types(str.upper)
    assert list(types.passing(iter(sentences))) == sentences
    given = [generator.dirichlet(np.ones(4), n) for n in lengths]

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for indices in (np.array([3, 0, 7, 11]), np.array([1, 2, 4, 5, 6]), np.array([10, 9, 8])):
            width = max(lengths[i] for i in indices)
            padded = np.full((len(indices), width, 4), np.nan)
            for row, index in enumerate(indices):
                padded[row, : lengths[index]] = given[index]
            yield indices, padded, np.arange(width) < np.array(lengths)[indices][:, None]

    counts = labels.expected_counts(types, lengths, batches(), 4)
    for column in ("words", "upos", "xpos"):
        pairs = [
            (text, q)
            for sentence, rows in zip(sentences, given, strict=True)
            for text, q in zip({"words": sentence.words, **sentence.tags}.get(column, ()), rows, strict=False)
            if column != "xpos" and text != "_"
        ]
        names = list(types.columns[column].names)
        assert set(names) == {text.upper() for text, _ in pairs}
        for type, name in enumerate(names):
            expected = sum(q for text, q in pairs if text.upper() == name)
            np.testing.assert_allclose(counts[column][type], expected, rtol=1e-12)
    table = counts["words"]
    for label, found in enumerate(labels.associations(table, range(4), 3)):
        share = table[:, label] / table[:, label].sum()
        pmi = np.log2(share / (table.sum(1) / table.sum()))
        order = sorted((w for w in range(len(table)) if pmi[w] > 0), key=lambda w: -share[w] * pmi[w])[:3]
        assert found.types.tolist() == order
        np.testing.assert_allclose(found.share, share[order])
        np.testing.assert_allclose(found.pmi, pmi[order])
    for types in (0, 2):
        associated = labels.associations(np.zeros((types, 4)), range(4), 3)
        assert [len(association.types) for association in associated] == [0] * 4


def test_bucket_names_say_where_the_head_is() -> None:
    for gamma in (0, 1, 3):
        names = labels.bucket_names(gamma)
        assert len(names) == 2 * gamma + 2
        for x in (-9, -gamma - 1, *range(-gamma, 0), *range(1, gamma + 1), gamma + 1, 9):  # Eq. 10
            bucket = 0 if x < -gamma else 2 * gamma + 1 if x > gamma else x + gamma + 1 if x < 0 else x + gamma
            side = "left" if x > 0 else "right"
            how_far = f"{abs(x)} " if abs(x) <= gamma else f"more than {gamma} " if gamma else ""
            assert names[bucket] == f"head {how_far}to the {side}"
            if x > 0:
                assert labels.bucket_names(gamma, causal=True)[min(x - 1, gamma)] == names[bucket]
    assert labels.bucket_names(None) == ["head at any distance"]


def test_strongest_pairs_are_of_used_labels() -> None:
    scores = np.random.default_rng(1).normal(size=(6, 6))
    used = [4, 0, 3]
    expected = sorted(((a, b, scores[a, b]) for a in used for b in used), key=lambda pair: -pair[2])
    assert labels.strongest_pairs(scores, used, 4) == expected[:4]
    assert labels.strongest_pairs(scores, used, 99) == expected
    assert labels.strongest_pairs(scores, [], 3) == []


def planted(model: Model) -> None:
    """Give every known word the label `id mod d`, surely, whatever stands around it."""
    d = model.recipe.model.labels
    with torch.no_grad():
        for parameter in model.network.encoder.parameters():
            parameter.zero_()
        weight = model.network.unary.weight
        weight.copy_(30.0 * torch.nn.functional.one_hot(torch.arange(len(weight)) % d, d))


def test_eval_finds_what_was_planted(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    model = Model.load("runs/tiny")
    planted(model)
    ternary = torch.zeros(8, 2, 8, 8)
    ternary[1, 0, 5, 3] = 0.5  # bucket 1: x = -3, the head 3 to the right
    monkeypatch.setattr(model.network.encoder, "ternary_scores", lambda **_: ternary)
    types = labels.Types(model.vocabulary.normalise)
    corpus = Split.encode(types.passing(read_corpus(Path("test.conllu"), "auto")), model.vocabulary, model.labels)
    found = labels.describe(model, corpus, types, top=50)
    assert [entry["count"] for entry in found["labels"]] == sorted((e["count"] for e in found["labels"]), reverse=True)
    assert sum(entry["count"] for entry in found["labels"]) == pytest.approx(corpus.words.sum(), abs=0.01)
    test = read_corpus(Path("test.conllu"), "auto")
    tokens = [(w, t) for sentence in test for w, t in zip(sentence.words, sentence.tags["upos"], strict=True)]
    label_of = {word: model.vocabulary.encode_words([word]).ids[0] % 8 for word, _ in tokens}
    for entry in found["labels"]:
        mine = [(word, tag) for word, tag in tokens if label_of[word] == entry["label"]]
        assert {word["word"]: round(word["count"]) for word in entry["words"] if word["count"] > 0.5} == {
            word: sum(w == word for w, _ in mine) for word, _ in mine
        }
        sure = math.log2(len(tokens) / len(mine))  # all of the word's tokens have this label
        assert all(word["pmi"] == pytest.approx(sure, abs=0.01) for word in entry["words"] if word["count"] > 0.5)
        for of_tag in entry["upos"]:
            count = sum(tag == of_tag["tag"] for _, tag in mine)
            assert of_tag["share"] == pytest.approx(count / len(mine), abs=1e-3)
    assert sorted([entry["label"] for entry in found["labels"]] + found["unused_labels"]) == list(range(8))
    pairs = next(g for g in found["pairs"] if g["channel"] == 0 and g["bucket"] == "head 3 to the right")["pairs"]
    assert {3, 5} <= {entry["label"] for entry in found["labels"]}
    assert pairs[0] == {"child": 5, "head": 3, "score": 0.5}
    assert len(found["pairs"]) == 2 * 8


def test_pairs_of_a_causal_model_are_with_earlier_heads(printed: Printed) -> None:
    for name, more, names in (
        ("near", "model.distance=2", ["head 1 to the left", "head 2 to the left", "head more than 2 to the left"]),
        ("turned", "model.decomposition={kind: rotary}", [f"head {x} to the left" for x in (1, 2, 3)]),
    ):
        printed("train", "tiny.yaml", f"name={name}", "task={kind: lm}", "model.causal=true", "train.steps=2", more)
        scores = json.loads(printed("eval", f"runs/{name}", "--labels", "--top", "1", "--json"))
        assert [group["bucket"] for group in scores["pairs"]] == names * 2


def test_pairs_are_those_of_the_last_iteration_where_each_has_its_own(printed: Printed) -> None:
    printed("train", "tiny.yaml", "name=own", "train.steps=3", "model.share_potentials=false")
    scores = json.loads(printed("eval", "runs/own", "--masks", "1", "--labels", "--top", "1", "--json"))
    last = Model.load("runs/own").recipe.model.iterations
    assert {group["iteration"] for group in scores["pairs"]} == {last}
    group = scores["pairs"][0]
    pair, encoder = group["pairs"][0], Model.load("runs/own").network.encoder
    score = encoder.ternary_scores(iteration=last)[0, group["channel"], pair["child"], pair["head"]]
    assert pair["score"] == pytest.approx(score.item(), abs=1e-5)
    assert f"ternary scores T of iteration {last}: score," in printed("eval", "runs/own", "--masks", "1", "--labels")


def test_eval_in_json_and_text(printed: Printed, trained: Path) -> None:
    plain = json.loads(printed("eval", "runs/tiny", "--masks", "1", "--json"))
    kept = (trained / "runs/tiny/checkpoints/eval-test.json").read_text(encoding="utf-8")
    result = json.loads(printed("eval", "runs/tiny", "--masks", "1", "--labels", "--top", "2", "--json"))
    assert (trained / "runs/tiny/checkpoints/eval-test.json").read_text(encoding="utf-8") == kept
    found = {key: result.pop(key) for key in ("labels", "unused_labels", "pairs")}
    assert_near(result, plain)
    assert all(len(entry["words"]) <= 2 for entry in found["labels"])
    assert all(1 <= len(entry[column]) <= 3 for entry in found["labels"] for column in ("upos", "xpos"))
    assert [(group["channel"], group["bucket"]) for group in found["pairs"]] == [
        (channel, bucket) for channel in range(2) for bucket in labels.bucket_names(3)
    ]
    assert all(len(group["pairs"]) == 2 for group in found["pairs"])
    text = printed("eval", "runs/tiny", "--masks", "1", "--labels")
    best = found["labels"][0]
    line = next(line for line in text.splitlines() if line.split()[:1] == [str(best["label"])])
    assert best["words"][0]["word"] in line
    assert best["upos"][0]["tag"] in line
    assert "channel 1, head more than 3 to the right" in text


@pytest.mark.parametrize("name", ["pieces", "rotary"])
def test_eval_of_other_models(name: str, others: Path, printed: Printed) -> None:
    scores = json.loads(printed("eval", f"runs/{name}", "--masks", "1", "--labels", "--json"))
    words = [word for sentence in read_corpus(others / "test.conllu", "auto") for word in sentence.words]
    assert sum(entry["count"] for entry in scores["labels"]) <= len(words) + 0.1
    assert {word["word"] for entry in scores["labels"] for word in entry["words"]} <= {*words}
    names = [labels.distance_name(x) for x in (-3, -2, -1, 1, 2, 3)] if name == "rotary" else labels.bucket_names(3)
    assert [group["bucket"] for group in scores["pairs"]] == names * 2


def test_eval_of_text_without_anything_to_score(printed: Printed, invoke: Invoke, text: str) -> None:
    assert invoke("eval", "runs/tagger", text).code == 3
    scores = json.loads(printed("eval", "runs/tagger", text, "--labels", "--json"))
    assert all(entry.keys() == {"label", "count", "share", "words"} for entry in scores["labels"])
    assert "upos" not in printed("eval", "runs/tagger", text, "--labels")


def test_words_of_a_report_are_made_visible() -> None:
    entry: dict[str, Any] = {"label": 3, "count": 2.0, "share": 1.0}
    entry["words"] = [{"word": "a\u202e\x1b[31m", "count": 2.0, "share": 1.0, "pmi": 0.5}]
    pairs = [{"channel": 0, "bucket": "head 1 to the left", "pairs": [{"child": 3, "head": 3, "score": -0.5}]}]
    result = {"checkpoint": "x", "scores": {}, "labels": [entry], "unused_labels": [0, 1, 2], "pairs": pairs}
    text = evaluation_report(result)
    assert "\\u202e" in text
    assert "3 labels: 0 1 2" in text
    assert not {"\u202e", "\x1b"} & set(text)
    nothing = evaluation_report({**result, "labels": [], "pairs": [{**pairs[0], "pairs": []}]})
    assert "channel 0" in nothing
