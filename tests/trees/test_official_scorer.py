"""Our attachment scores against the official scorer of Universal Dependencies (`udtools`), on whole treebanks."""

from __future__ import annotations

import io

import numpy as np
import pytest
from support import real_data

from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers.conllu import annotated, read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.trees.score import attachment

TREEBANKS = ("en_ewt", "af_afribooms", "ug_udt")


def perturbed(heads: list[int], random: np.random.Generator) -> list[int]:
    """Another tree with one root: about a third of the words hang elsewhere, none below itself."""
    result = list(heads)
    for word in random.permutation(len(heads)) + 1:
        if result[word - 1] == 0 or random.random() > 1 / 3:
            continue
        head = int(random.integers(1, len(heads) + 1))
        above = head
        while above not in (0, word):
            above = result[above - 1]
        if above == 0:
            result[word - 1] = head
    return result


def as_text(sentences: list[Sentence], trees: list[list[int]]) -> str:
    blocks = zip(sentences, trees, strict=True)
    return "".join("\n".join(annotated(sentence, tree)) + "\n\n" for sentence, tree in blocks)


@pytest.mark.slow
@pytest.mark.parametrize("treebank", TREEBANKS)
def test_uas_is_that_of_the_official_scorer(treebank: str) -> None:
    udeval = pytest.importorskip("udtools.udeval")
    path = real_data(f"ud/{treebank}/test.conllu")
    sentences = list(read_conllu(open_lines(path), str(path)))
    gold = [sentence.heads or [] for sentence in sentences]
    random = np.random.default_rng(1)
    other = [perturbed(heads, random) for heads in gold]
    texts = ("\n".join(open_lines(path)) + "\n", as_text(sentences, other))
    official = udeval.evaluate(*(udeval.load_conllu(io.StringIO(text), treebank, {}) for text in texts))["UAS"]
    ours = attachment([np.array(heads) for heads in gold], [np.array(heads) for heads in other], None)
    counts = ours["with_punct"]["all"]
    assert counts["words"] == official.gold_total
    assert 0.6 < official.f1 < 0.9
    assert counts["uas"] == pytest.approx(official.f1, abs=1e-9)
