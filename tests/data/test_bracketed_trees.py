"""Trees in brackets, as the scripts for the Penn Treebank and BLLIP read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import load

shared = load("corpus_files")

WORDS = st.text("ab*/-'", min_size=1, max_size=3)
LEAVES = st.tuples(st.sampled_from(["NN", "VB", "-NONE-", "-LRB-"]), WORDS)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["S", "NP", ""]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)
Node = tuple[str, "str | list[Node]"]


def bracketed(node: Node, space: str) -> str:
    label, content = node
    inside = content if isinstance(content, str) else space.join(bracketed(child, space) for child in content)
    return f"({label} {inside})"


def leaves(node: Node) -> list[tuple[str, str]]:
    label, content = node
    if isinstance(content, str):
        return [(content, label)] if label != "-NONE-" else []
    return [leaf for child in content for leaf in leaves(child)]


@settings(max_examples=50)
@given(st.lists(NODES, max_size=3), st.sampled_from(["", " ", "\n  "]))
def test_trees_are_read_as_written(trees: list[Node], space: str) -> None:
    text = space.join(bracketed(tree, space) for tree in trees)
    assert list(shared.tagged_sentences(text.split("\n"), "x")) == [leaves(tree) for tree in trees]


def test_a_very_deep_tree() -> None:
    depth = 200_000
    assert list(shared.tagged_sentences(["(S " * depth, "(UH oh)", ")" * depth], "x")) == [[("oh", "UH")]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("( (S (UH oh))\n\n", "x:3: 1 brackets are not closed; the tree begins in line 1"),
        ("(UH oh)\n(UH ah))", "x:2: a closing bracket too many"),
        (")", "x:1: a closing bracket too many"),
        ("(S\n(UH oh) ah)", "x:2: 'ah' after a closing bracket"),
        ("oh (UH oh)", "x:1: 'oh' outside of all brackets"),
        ("(NP old dog)", "x:1: (NP old dog) instead of (TAG word)"),
        ("(S (NN))", "x:1: (NN) instead of (TAG word)"),
        ("()", "x:1: () instead of (TAG word)"),
        ("(NP dog (S (UH oh)))", "x:1: (NP dog ( holds both a word and brackets"),
    ],
)
def test_brackets_that_do_not_match(text: str, message: str) -> None:
    with pytest.raises(shared.CorpusError, match=re.escape(message)):
        list(shared.tagged_sentences(text.split("\n"), "x"))


def test_a_bracket_without_a_word_can_be_skipped() -> None:
    text = "(S1 (NN ) (UH oh) ())"
    assert list(shared.tagged_sentences([text], "x", skip_wordless=True)) == [[("oh", "UH")]]
