"""A vocabulary that leaves out punctuation: the model never sees it, and every token is in the tree all the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Invoke, workplace

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.recipe.data import WordVocabulary
from probtrans_cli.trained.arcs import trees_of
from probtrans_cli.trained.model import Model

NO_PUNCTUATION = "data.vocabulary={kind: words, punctuation: false}"
TREEBANK = """1\t"\t_\tPUNCT\t_\t_\t3\t_\t_\t_
2\tgoats\t_\tNOUN\t_\t_\t3\t_\t_\t_
3\tsleep\t_\tVERB\t_\t_\t0\t_\t_\t_
4\t!\t_\tPUNCT\t_\t_\t3\t_\t_\t_
5\t)\t_\tPUNCT\t_\t_\t4\t_\t_\t_

1\t...\t_\tPUNCT\t_\t_\t0\t_\t_\t_
2\t!\t_\tPUNCT\t_\t_\t1\t_\t_\t_

"""


@given(st.lists(st.sampled_from(["a", "b1", "?", "...", "«", "c-d", "$"]), max_size=12))
def test_words_and_the_positions_that_stand_for_them(words: list[str]) -> None:
    vocabulary = build_vocabulary(WordVocabulary(punctuation=False), [["a", "b1", "c-d", "?", "?"]])
    ids, first, *_ = vocabulary.encode_words(words)
    assert [vocabulary.decode(id) for id in ids] == [word for word in words if word not in ("?", "...", "«", "$")]
    assert len(first) == len(words)
    for number, word in enumerate(words):
        before = [other for other in words[: number + 1] if other in ("a", "b1", "c-d")]
        assert first[number] == max(len(before) - 1, 0)
        if word in ("a", "b1", "c-d"):
            assert vocabulary.decode(ids[first[number]]) == word


def test_it_is_kept(tmp_path: Path) -> None:
    made = build_vocabulary(WordVocabulary(punctuation=False), [["a", "?", "?", "b"]])
    assert isinstance(made, Words)
    assert made.frequency("?") == 2  # as in the training file, for the floors
    assert made.size == 5
    made.save(tmp_path)
    found = load_vocabulary(tmp_path)
    assert isinstance(found, Words)
    assert (found.omitted, found.omits) == ({"?": 2}, True)
    assert found.encode_words(["?", "a"]) == made.encode_words(["?", "a"])
    assert not Words(["a"], [1], lowercase=False, digits=False).omits


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of a model that reads no punctuation."""
    from probtrans_cli.commands.train import TrainRequest, train

    folder = workplace(tmp_path_factory.mktemp("blind"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        overrides = [NO_PUNCTUATION, "train.epochs=2"]
        train(TrainRequest("tiny.yaml", overrides))
    return folder


@pytest.mark.parametrize("decoder", ["argmax", "mst", "eisner"])
@pytest.mark.parametrize("channel", ["0", "mean"])
def test_a_tree_is_that_of_the_words_with_the_rest_hung_in(blind: Path, decoder: str, channel: str) -> None:
    model = Model.load(str(blind / "runs/tiny"))
    reading = model.read(channel, -1, decoder)  # type: ignore[arg-type]
    sentences = ["» the old , old farmers feed ... the goats . !", "goats sleep", "the fox .", "! ?"]

    def trees(texts: Sequence[str]) -> list[np.ndarray]:
        corpus = Split.encode([Sentence(text.split()) for text in texts], model.vocabulary, model.labels)
        return trees_of(model, corpus, [reading])[0]

    read = [" ".join(word for word in text.split() if word[0].isalnum()) for text in sentences]
    for text, heads, of_words in zip(sentences, trees(sentences), trees(read), strict=True):
        words = text.split()
        kept = [number for number, word in enumerate(words, start=1) if word[0].isalnum()]
        assert [head if head == 0 else kept.index(head) + 1 for head in (heads[n - 1] for n in kept)] == list(of_words)
        for number, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
            if not word[0].isalnum() and kept:
                assert head == max([n for n in kept if n < number], default=kept[0])
    assert trees(["! ?"])[0].tolist() == [0, 1]


def test_the_command(blind: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(blind)
    (blind / "some.conllu").write_text((blind / "dev.conllu").read_text("utf-8") + TREEBANK, encoding="utf-8")
    found = invoke("eval", "runs/tiny", "some.conllu", "--json", "--baselines").json["scores"]["some.conllu"]["trees"]
    assert found["with_punct"]["all"]["words"] - found["no_punct"]["all"]["words"] == 5
    lines = [json.loads(line) for line in invoke("parse", "runs/tiny", "some.conllu", "-f", "jsonl").out.splitlines()][
        -2:
    ]
    assert [line["probabilities"][0] for line in lines] == [None, None]
    assert lines[0]["heads"][0] == 2
    assert lines[0]["heads"][3:] == [3, 3]
    for form in ("conllu", "tree", "html", "latex", "displacy"):
        assert invoke("parse", "runs/tiny", "some.conllu", "-f", form, "--prob").code == 0
    assert invoke("parse", "runs/tiny", "some.conllu", "-f", "jsonl", "--labels").code == 0
    refused = invoke("train", "tiny.yaml", "task={kind: tagging, column: xpos}", NO_PUNCTUATION, "--run", "runs/other")
    assert refused.code == 2
    assert "data.vocabulary.punctuation" in refused.err
