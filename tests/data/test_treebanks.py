"""Gold trees of CoNLL-U as a parser learns them."""

from __future__ import annotations

import random

import pytest

from probtrans_cli.data.readers.conllu import UNKNOWN, fault_of, read_treebank
from probtrans_cli.errors import DataError
from probtrans_cli.statistics.parse_scores import Row, parsed_rows


def conllu(*rows: str) -> list[str]:
    words = (f"{number}\tw\t_\tX\t_\t_\t{row.replace(' ', chr(9))}\t_\t_" for number, row in enumerate(rows, start=1))
    return ["# a comment", *words, ""]


def test_sentences_have_their_trees() -> None:
    sentence, part = read_treebank([*conllu("2 nsubj:pass", "0 root", "2 obj"), *conllu("_ _", "1 obj")], "here")
    assert sentence.parents == [1, -1, 1]
    assert sentence.tags["deprel"] == ["nsubj:pass", "root", "obj"]
    assert sentence.tags["udeprel"] == ["nsubj", "root", "obj"]
    assert parsed_rows(sentence.form or "")[0] == Row(2, "nsubj:pass", "X", "_", "_")
    assert part.parents == [UNKNOWN, 0]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (["2 obj", "1 obj"], "here:2: a sentence without a root"),
        (["0 root", "3 obj", "2 obj"], "here:3: a circle of heads: 2 -> 3 -> 2"),
        (["_ _", "3 obj", "2 obj"], "here:3: a circle of heads: 2 -> 3 -> 2"),
        (["0 root", "0 root"], "here:3: a second root: word 1 has HEAD 0, too"),
        (["0 obj", "1 obj"], "here:2: HEAD 0 with the relation obj"),
        (["0 root", "1 root"], "here:3: HEAD 1 with the relation root"),
        (["0 root", "1 _"], "here:3: HEAD without DEPREL"),
        (["0 root", "_ obj"], "here:3: HEAD without DEPREL, or DEPREL without HEAD"),
        (["0 root", "3 obj"], "here:3: HEAD 3 is not a word of the sentence"),
        (["_ _", "_ _"], "here:1: no word of the file has a HEAD"),
    ],
)
def test_what_is_no_tree_is_refused(rows: list[str], fault: str) -> None:
    with pytest.raises(DataError) as error:
        list(read_treebank(conllu(*rows), "here"))
    assert str(error.value).startswith(fault)
    assert error.value.hint


def test_every_small_assignment_of_heads_is_a_tree_or_has_a_fault() -> None:
    """By following heads from each word."""

    def is_tree(parents: tuple[int, ...]) -> bool:
        def rooted(word: int) -> bool:
            for _ in range(len(parents)):
                if parents[word] == -1:
                    return True
                word = parents[word]
            return False

        return parents.count(-1) == 1 and all(map(rooted, range(len(parents))))

    draw = random.Random(0)
    for _ in range(2000):
        n = draw.randint(1, 6)
        parents = tuple(draw.choice([place for place in range(-1, n) if place != word]) for word in range(n))
        relations = ["root" if parent == -1 else "obj" for parent in parents]
        assert (fault_of(parents, relations) is None) == is_tree(parents)
