"""The scores of `score trees` against the official scorer of Universal Dependencies (`udtools`), on whole treebanks."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from support import real_data

from probtrans_cli.data.files import open_lines
from probtrans_cli.reports.scorers.annotations import score_trees as score

TREEBANKS = (
    "wo_wtb", "en_ewt", "ug_udt", "af_afribooms", "fr_sequoia", "el_gdt", "hu_szeged", "mt_mudt", "tr_imst",
)  # fmt: skip
NAMES = {"uas": "UAS", "las": "LAS", "clas": "CLAS", "mlas": "MLAS", "upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats"}
UPOS, XPOS, FEATS, HEAD, DEPREL = 3, 4, 5, 6, 7


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


def with_errors(lines: list[str], random: np.random.Generator) -> list[str]:
    """The same file with other heads, and with some tags, features and relations of other words."""
    rows = [line.split("\t") for line in lines]
    words = [row for row in rows if row[0].isdigit()]
    of_others = {column: [row[column] for row in words] for column in (UPOS, XPOS, FEATS, DEPREL)}
    sentence: list[list[str]] = []
    for row in [*rows, [""]]:
        if row[0].isdigit():
            sentence.append(row)
        elif not row[0] and sentence:
            heads = perturbed([int(word[HEAD]) for word in sentence], random)
            for word, head in zip(sentence, heads, strict=True):
                for column, values in of_others.items():
                    other = values[random.integers(len(values))]
                    if random.random() < 0.1 and (column != DEPREL or (head and other != "root")):
                        word[column] = other
                word[HEAD] = str(head)
            sentence = []
    return ["\t".join(row) for row in rows]


@pytest.mark.parametrize(
    ("treebank", "sentences"),
    [("wo_wtb", 100), *(pytest.param(name, None, marks=pytest.mark.slow) for name in TREEBANKS)],
)
def test_scores_are_those_of_the_official_scorer(treebank: str, sentences: int | None, tmp_path: Path) -> None:
    """Digit by digit, and sums over groups are those over all words."""
    udeval = pytest.importorskip("udtools.udeval")
    lines = list(open_lines(real_data(f"ud/{treebank}/test.conllu")))
    ends = [number for number, line in enumerate(lines, start=1) if not line]
    lines = lines[: ends[-1 if sentences is None else sentences - 1]]
    path, other = tmp_path / "gold.conllu", tmp_path / "other.conllu"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    other.write_text("\n".join(with_errors(lines, np.random.default_rng(1))) + "\n", encoding="utf-8")
    texts = (path.read_text("utf-8"), other.read_text("utf-8"))
    official = udeval.evaluate(*(udeval.load_conllu(io.StringIO(text), treebank, {}) for text in texts))
    ours = score(str(other), str(path))
    assert {name: ours[name] for name in NAMES if name in ours} == {
        name: official[title].f1 for name, title in NAMES.items() if name in ours
    }
    assert set(NAMES) - set(ours) <= {"xpos"}, "a treebank without XPOS"
    assert 0.6 < ours["uas"] < 0.9
    assert ours["uas"] == ours["trees"]["with_punct"]["all"]["uas"]
    for groups in ours["groups"].values():
        assert sum(group["words"] for group in groups.values()) == official["UAS"].gold_total
        assert sum(group["predicted"] for group in groups.values()) == official["UAS"].gold_total
        for name in ("uas", "las"):
            right = sum(group["words"] * group[name] for group in groups.values() if group["words"])
            assert right == pytest.approx(ours[name] * official["UAS"].gold_total)
