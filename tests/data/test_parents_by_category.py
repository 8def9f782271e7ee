"""Parents of COGS's words, counted among the words of a kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.codecs.logical_forms import (
    CATEGORIES,
    ROLES,
    GraphLabels,
    analyse,
    kinds_of_words,
    parent_by_category,
    parents_by_category,
    places_of_kinds,
)

LINKS = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(-1, n - 1), st.sampled_from(ROLES), st.sampled_from(CATEGORIES)), min_size=n, max_size=n
    )
)


@given(LINKS)
def test_a_parent_is_found_again_by_its_number_among_its_kind(links: list[tuple[int, str, str]]) -> None:
    parents, role, category = (list(column) for column in zip(*links, strict=True))
    parents = [-1 if parent == i else parent for i, parent in enumerate(parents)]
    labels = GraphLabels(parents, role, category, [""] * len(links), [""] * len(links))
    of_words = kinds_of_words(role, category, labels.verb_name)
    places = places_of_kinds(of_words)
    kinds = [
        "PREP" if of_word == "PREP" else kind[1:] if kind.endswith("NOUN") else kind
        for of_word, kind in zip(role, category, strict=True)
    ]
    assert {i: kind for kind, found in places.items() for i in found} == dict(enumerate(kinds))
    for i, (parent, label) in enumerate(zip(parents, parents_by_category(labels), strict=True)):
        assert parent_by_category(label, i, places) == parent
        if parent >= 0:
            step = 1 if parent > i else -1
            number = sum(kinds[j] == kinds[parent] for j in range(i + step, parent + step, step))
            assert label == f"{number * step:+d} {kinds[parent]}".strip()
            assert parent_by_category(f"{100 * step:+d} {kinds[parent]}", i, places) is None


def test_phrases_between_a_noun_and_its_verb_change_no_label() -> None:
    words = ["The", "kite", "on", "a", "shelf", "behind", "the", "shed", "sank", "."]
    form = (
        "* kite ( x _ 1 ) ; * shed ( x _ 7 ) ; kite . nmod . on ( x _ 1 , x _ 4 ) AND shelf ( x _ 4 ) AND"
        " shelf . nmod . behind ( x _ 4 , x _ 7 ) AND sink . theme ( x _ 8 , x _ 1 )"
    )
    wanted = ["", "+1 VERB", "-1 NOUN", "", "-1 PREP", "-1 NOUN", "", "-1 PREP", "", ""]
    assert parents_by_category(analyse(words, form)) == wanted
