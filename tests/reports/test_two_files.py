"""The sentences of two files side by side, and what is said where they are not the same."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest

from probtrans_cli.errors import DataError
from probtrans_cli.reports.scorers import same_words, side_by_side


class Line(NamedTuple):
    words: list[str]
    where: str


def of(name: str, *lines: str) -> list[Line]:
    return [Line(line.split(), f"{name}:{number}") for number, line in enumerate(lines, start=1)]


def test_every_sentence_has_the_gold_one_in_its_place() -> None:
    ours, theirs = of("ours", "a b", "c"), of("gold", "a b", "c")
    assert list(side_by_side(iter(ours), iter(theirs), "ours", "gold")) == list(zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (("a",), ("a", "b"), "ours: fewer sentences than gold"),
        (("a", "b"), ("a",), "gold: fewer sentences than ours"),
        ((), ("a",), "ours: fewer sentences than gold"),
        (("a", "b c"), ("a", "bc"), "ours:2: other words than gold:2"),
        ((), (), "ours: there is no sentence in it"),
    ],
)
def test_what_is_not_the_same_is_refused(ours: tuple[str, ...], theirs: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(side_by_side(of("ours", *ours), of("gold", *theirs), "ours", "gold"))
    assert caught.value.message == message


def test_a_text_may_be_cut_into_other_words_where_it_is_said_so() -> None:
    alike = partial(same_words, same_tokens=False)
    (pair,) = side_by_side(of("ours", "b c"), of("gold", "bc"), "ours", "gold", require_same=alike)
    assert [one.words for one in pair] == [["b", "c"], ["bc"]]
    alike(Line(["4", "c"], "ours:1"), Line(["4\u00a0c"], "gold:1"))
    with pytest.raises(DataError, match="ours:1: other words than gold:1"):
        list(side_by_side(of("ours", "b c"), of("gold", "bd"), "ours", "gold", require_same=alike))
