"""The COGS codec and its readers: forms written by hand, labels of every kind of nonsense, and the corpus itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import real_data, seeded

from probtrans_cli.data.files import open_lines
from probtrans_cli.data.logical_forms import (
    CATEGORIES,
    NOUN_TYPES,
    ROLES,
    GraphLabels,
    analyse,
    categories,
    kinds_of_words,
    logical_form,
    parent_by_category,
    parents_by_category,
    places_of_kinds,
)
from probtrans_cli.data.readers.cogs import Example, read_cogs, read_seqtag
from probtrans_cli.errors import DataError

# Sentence, form, and of every word that has labels: parent, role, category, noun type, verb name.
Labels = dict[int, tuple[int, str, str, str, str]]


def labels_of(rows: str) -> Labels:
    """Of words by their number: parent, role, category, noun type, verb name; `-` is none."""
    split = (row.split() for row in rows.split(" / "))
    none = {"-": ""}
    return {int(i): (int(parent), *(none.get(it, it) for it in rest)) for i, parent, *rest in split}


HAND_MADE: dict[str, tuple[str, str, Labels]] = {
    name: (sentence, form, labels_of(rows))
    for name, sentence, form, rows in [
        ("definite and indefinite", "An otter juggles the pebble .",
         "* pebble ( x _ 4 ) ; otter ( x _ 1 ) AND juggle . agent ( x _ 2 , x _ 1 )"
         " AND juggle . theme ( x _ 2 , x _ 4 )",
         "1 2 agent CNOUN INDEF - / 2 -1 - VERB - juggle / 4 2 theme CNOUN DEF -"),
        ("proper noun", "Ingeborg yodelled .",
         "yodel . agent ( x _ 1 , Ingeborg )",
         "0 1 agent PNOUN - - / 1 -1 - VERB - yodel"),
        ("passive", "The kite was mended by Wim .",
         "* kite ( x _ 1 ) ; mend . theme ( x _ 3 , x _ 1 ) AND mend . agent ( x _ 3 , Wim )",
         "1 3 theme CNOUN DEF - / 3 -1 - VERB - mend / 5 3 agent PNOUN - -"),
        ("two objects", "Wim knitted Ingeborg a hat .",
         "knit . agent ( x _ 1 , Wim ) AND knit . recipient ( x _ 1 , Ingeborg )"
         " AND knit . theme ( x _ 1 , x _ 4 ) AND hat ( x _ 4 )",
         "0 1 agent PNOUN - - / 1 -1 - VERB - knit / 2 1 recipient PNOUN - - / 4 1 theme CNOUN INDEF -"),
        ("to, and capitals", "A robot was faxed to the NGO .",
         "* ngo ( x _ 6 ) ; robot ( x _ 1 ) AND fax . theme ( x _ 3 , x _ 1 )"
         " AND fax . recipient ( x _ 3 , x _ 6 )",
         "1 3 theme CNOUN INDEF - / 3 -1 - VERB - fax / 6 3 recipient CNOUN DEF -"),
        ("prepositions", "The hat on a shelf on the boat sank .",
         "* hat ( x _ 1 ) ; * boat ( x _ 7 ) ; hat . nmod . on ( x _ 1 , x _ 4 ) AND shelf ( x _ 4 )"
         " AND shelf . nmod . on ( x _ 4 , x _ 7 ) AND sink . theme ( x _ 8 , x _ 1 )",
         "1 8 theme CNOUN DEF - / 2 1 PREP - - - / 4 2 PP_NOUN CNOUN INDEF - / 5 4 PREP - - - / "
         "7 5 PP_NOUN CNOUN DEF - / 8 -1 - VERB - sink"),
        ("that", "Wim doubted that a kite sank .",
         "doubt . agent ( x _ 1 , Wim ) AND doubt . ccomp ( x _ 1 , x _ 5 ) AND kite ( x _ 4 )"
         " AND sink . theme ( x _ 5 , x _ 4 )",
         "0 1 agent PNOUN - - / 1 -1 - VERB - doubt / 4 5 theme CNOUN INDEF - / 5 1 ccomp VERB - sink"),
        ("the same name twice", "Wim doubted that Wim sank .",
         "doubt . agent ( x _ 1 , Wim ) AND doubt . ccomp ( x _ 1 , x _ 4 ) AND sink . theme ( x _ 4 , Wim )",
         "0 1 agent PNOUN - - / 1 -1 - VERB - doubt / 3 4 theme PNOUN - - / 4 1 ccomp VERB - sink"),
        ("to with a common noun", "The otter hesitated to yodel .",
         "* otter ( x _ 1 ) ; hesitate . agent ( x _ 2 , x _ 1 ) AND hesitate . xcomp ( x _ 2 , x _ 4 )"
         " AND yodel . agent ( x _ 4 , x _ 1 )",
         "1 2 agent CNOUN DEF - / 2 -1 - VERB - hesitate / 4 2 xcomp - - yodel"),
        ("to after to, with a name", "Wim hesitated to promise to juggle the hat .",
         "* hat ( x _ 7 ) ; hesitate . agent ( x _ 1 , Wim ) AND hesitate . xcomp ( x _ 1 , x _ 3 )"
         " AND promise . agent ( x _ 3 , Wim ) AND promise . xcomp ( x _ 3 , x _ 5 )"
         " AND juggle . agent ( x _ 5 , Wim ) AND juggle . theme ( x _ 5 , x _ 7 )",
         "0 1 agent PNOUN - - / 1 -1 - VERB - hesitate / 3 1 xcomp - - promise / 5 3 xcomp - - juggle / "
         "7 5 theme CNOUN DEF -"),
        ("name alone", "Ingeborg",
         "Ingeborg",
         "0 -1 - PNOUN - -"),
        ("noun alone", "otter",
         "LAMBDA a . otter ( a )",
         "0 -1 - CNOUN - -"),
        ("verb alone", "knit",
         "LAMBDA a . LAMBDA b . LAMBDA e . knit . agent ( e , b ) AND knit . theme ( e , a )",
         "0 -1 - VERB - knit"),
        ("verb alone, agent", "jog",
         "LAMBDA a . LAMBDA e . jog . agent ( e , a )",
         "0 -1 - VERB - jog"),
        ("verb alone, theme", "roll",
         "LAMBDA a . LAMBDA e . roll . theme ( e , a )",
         "0 -1 - VERB - roll"),
    ]
}  # fmt: skip
CASES = pytest.mark.parametrize(("sentence", "form", "labels"), HAND_MADE.values(), ids=HAND_MADE)
LEMMAS = ["", *sorted({label[4] for _, _, labels in HAND_MADE.values() for label in labels.values()} - {""})]


def analysis_of(words: Sequence[str], labels: Labels) -> GraphLabels:
    rows = [labels.get(i, (-1, "", "", "", "")) for i in range(len(words))]
    return GraphLabels(*(list(column) for column in zip(*rows, strict=True)))


def values_of(column: str, n: int, lemmas: Sequence[str] = LEMMAS) -> Sequence[Any]:
    values = {"parents": range(-1, n), "role": ROLES, "category": CATEGORIES, "noun_type": NOUN_TYPES}
    return values.get(column, lemmas)


def changed(analysis: GraphLabels, column: str, i: int, value: Any) -> GraphLabels:
    labels = list(getattr(analysis, column))
    labels[i] = value
    return replace(analysis, **{column: labels})


def changes(analysis: GraphLabels) -> Iterator[GraphLabels]:
    """Every analysis that differs from this one in one label."""
    n = len(analysis.parents)
    for column in GraphLabels.__dataclass_fields__:
        for i, old in enumerate(getattr(analysis, column)):
            yield from (changed(analysis, column, i, value) for value in values_of(column, n) if value != old)


# --- labels and forms -------------------------------------------------------------------------------------------------


@CASES
def test_labels_of_a_form_and_back(sentence: str, form: str, labels: Labels) -> None:
    words = sentence.split(" ")
    analysis = analysis_of(words, labels)
    assert analyse(words, form) == analysis
    assert logical_form(words, analysis) == form


@CASES
def test_kinds_and_roles_say_what_categories_say(sentence: str, form: str, labels: Labels) -> None:
    del labels
    analysis = analyse(sentence.split(" "), form)
    kinds = kinds_of_words(analysis.role, analysis.category, analysis.verb_name)
    assert categories(analysis.role, kinds) == analysis.category
    for kind, verb, role in zip(kinds, analysis.verb_name, analysis.role, strict=True):
        assert (kind == "VERB", kind == "PREP") == (bool(verb), role == "PREP")


@CASES
def test_no_change_of_a_label_gives_the_same_form(sentence: str, form: str, labels: Labels) -> None:
    words = sentence.split(" ")
    forms = [logical_form(words, labels_of_words) for labels_of_words in changes(analysis_of(words, labels))]
    forms = [of_changed for of_changed in forms if of_changed is not None]
    assert len({form, *forms}) == len(forms) + 1


def test_wrong_labels_that_make_sense_have_a_form() -> None:
    words = ["An", "otter", "juggles", "the", "pebble", "."]
    right = analyse(words, HAND_MADE["definite and indefinite"][1])
    wrong = changed(right, "role", 4, "recipient")
    assert logical_form(words, wrong) == (
        "* pebble ( x _ 4 ) ; otter ( x _ 1 ) AND juggle . agent ( x _ 2 , x _ 1 ) "
        "AND juggle . recipient ( x _ 2 , x _ 4 )"
    )
    for column, i, value in [("parents", 0, 2), ("role", 5, "PREP"), ("noun_type", 2, "DEF"), ("role", 1, "")]:
        assert logical_form(words, changed(right, column, i, value)) is None


def test_every_frame_of_a_verb_alone_is_read() -> None:
    for arguments in ("LAMBDA e . blink . agent ( e , a )", "LAMBDA e . blink . theme ( e , a )"):
        assert analyse(["blink"], f"LAMBDA a . {arguments}") == GraphLabels([-1], [""], ["VERB"], [""], ["blink"])


KNOWN_WORDS = sorted({word for sentence, _, _ in HAND_MADE.values() for word in sentence.split(" ")})
ANY_WORD = st.tuples(
    st.sampled_from(KNOWN_WORDS) | st.text(max_size=4),
    st.integers(-2, 7) | st.integers(),
    *(st.sampled_from([*values, "x", " AND "]) for values in (ROLES, CATEGORIES, NOUN_TYPES, LEMMAS)),
)


@given(st.lists(ANY_WORD, max_size=6))
def test_no_labels_make_it_raise_and_a_form_gives_its_labels_back(rows: list[tuple[Any, ...]]) -> None:
    words, *labels = (list(column) for column in zip(*rows, strict=True)) if rows else ([] for _ in range(6))
    analysis = GraphLabels(*labels)
    form = logical_form(words, analysis)
    assert form is None or analyse(words, form) == analysis


@given(st.data())
def test_a_few_wrong_labels_never_give_the_form(data: st.DataObject) -> None:
    sentence, form, labels = data.draw(st.sampled_from(list(HAND_MADE.values())))
    words = sentence.split(" ")
    analysis = right = analysis_of(words, labels)
    for _ in range(data.draw(st.integers(1, 4))):
        column = data.draw(st.sampled_from(list(GraphLabels.__dataclass_fields__)))
        i = data.draw(st.integers(0, len(words) - 1))
        analysis = changed(analysis, column, i, data.draw(st.sampled_from(values_of(column, len(words)))))
    assert (logical_form(words, analysis) == form) == (analysis == right)


def test_cycles_and_other_sentences_have_no_form() -> None:
    verbs = GraphLabels([1, 0], ["xcomp", "xcomp"], ["", ""], ["", ""], ["hesitate", "yodel"])
    assert logical_form(["to", "to"], verbs) is None
    assert logical_form(["to"], verbs) is None
    assert logical_form([], GraphLabels([], [], [], [], [])) is None
    with pytest.raises(ValueError, match="lists of labels of 1, 1, 1, 1, 0 words"):
        GraphLabels([-1], [""], [""], [""], [])


# --- malformed forms --------------------------------------------------------------------------------------------------

WORDS = ["The", "hat", "on", "a", "shelf", "sank", "."]
FORM = "* hat ( x _ 1 ) ; hat . nmod . on ( x _ 1 , x _ 4 ) AND shelf ( x _ 4 ) AND sink . theme ( x _ 5 , x _ 1 )"


def test_malformed_forms() -> None:
    for old, new, message in [
        (FORM, "", "'' is not a term"),
        (FORM, "LAMBDA a . hat ( a )", "is not a term"),
        ("sink . theme", "sink . patient", "'sink . patient .*' is not a term"),
        ("x _ 1 )", "x_1 )", "is not a term"),
        (" AND shelf", " and shelf", "is not a term"),
        ("shelf ( x _ 4 )", "shelf ( x _ 9 )", "x _ 9 in .*: the sentence has 7 words"),
        ("x _ 5 , x _ 1", "x _ 5 , x _ 7", "x _ 7 in .*: the sentence has 7 words"),
        ("shelf ( x _ 4 )", "shelf ( x _ 2 )", "word 2 of the sentence is 'on'"),
        ("hat . nmod", "shelf . nmod", "word 1 of the sentence is 'hat'"),
        ("nmod . on", "nmod . in", "no 'in' between the words 1 and 4"),
        ("x _ 1 , x _ 4", "x _ 1 , x _ 1", "no 'on' between the words 1 and 1"),
        ("x _ 5 , x _ 1", "x _ 5 , Wim", "no 'Wim' in the sentence"),
        ("x _ 5 , x _ 1", "x _ 5 , x _ 4", "word 4 has a role already, PP_NOUN"),
        (FORM, f"{FORM} AND drown . theme ( x _ 5 , x _ 4 )", "the verb of word 5 was 'sink' before"),
        (FORM, "sink . theme ( x _ 5 , hat ) AND sink . agent ( x _ 5 , hat )", "no other 'hat'"),
        ("hat ( x _ 1 ) ;", "hat ( x _ 1 ) AND", "not in order"),
        ("* hat ( x _ 1 ) ; hat", "hat . nmod . on ( x _ 1 , x _ 4 ) AND * hat ( x _ 1 ) ; hat", "has a role already"),
        ("x _ 5 , x _ 1", "x _ 05 , x _ 1", "not in order"),
        ("shelf ( x _ 4 )", "shelf ( x _ 4 ) AND shelf ( x _ 4 )", "not in order"),
        ("sink . theme ( x _ 5", "float . theme ( x _ 2", "has a role already|not in order"),
    ]:
        assert old in FORM
        with pytest.raises(ValueError, match=message):
            analyse(WORDS, FORM.replace(old, new, 1))


def test_forms_without_words() -> None:
    with pytest.raises(ValueError, match="a sentence without words"):
        analyse([], "otter")


@given(st.data())
def test_damaged_forms_are_refused_or_read(data: st.DataObject) -> None:
    """Nothing but a ValueError, and what is read is read without loss."""
    sentence, form, _ = data.draw(st.sampled_from(list(HAND_MADE.values())[:10]))
    words, tokens = sentence.split(" "), form.split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(tokens)))
        j = data.draw(st.integers(i, min(i + 3, len(tokens))))
        tokens[i:j] = data.draw(st.lists(st.sampled_from([*tokens, *words, "x _ 99999999999", "²"]), max_size=2))
    damaged = " ".join(tokens)
    try:
        analysis = analyse(words, damaged)
    except ValueError:
        return
    assert logical_form(words, analysis) == damaged


# --- the corpus -------------------------------------------------------------------------------------------------------

SPLITS = {"train": 24_155, "dev": 3_000, "test": 3_000, "gen": 21_000}


@pytest.fixture
def corpus() -> Path:
    return real_data("cogs")


def compare(corpus: Path, split: str, step: int) -> int:
    """Compare every so many rows with the published labels and with their own forms; returns how many."""
    forms, labels = corpus / f"{split}.tsv", corpus / "seqtag" / f"{split}_seqtag.jsonl.gz"
    forms = forms if forms.exists() else Path(f"{forms}.gz")
    corrected = set()
    if split == "gen":  # labels are of the forms before their correction
        corrected = {int(number) - 1 for number in (corpus / "gen_corrected_rows.txt").read_text().split()}
    left = read_cogs(islice(open_lines(forms), 0, None, step), split)
    right = read_seqtag(islice(open_lines(labels), 0, None, step), split)
    rows = 0
    kinds: dict[str, str] = {}
    for rows, (ours, published) in enumerate(zip(left, right, strict=True), start=1):
        assert logical_form(ours.words, ours.analysis) == ours.form
        assert (ours.words, ours.distribution) == (published.words, published.distribution)
        expected = published.analysis
        if (rows - 1) * step in corrected:
            (i,) = [i for i, role in enumerate(ours.analysis.role) if role != expected.role[i]]
            assert (expected.role[i], ours.analysis.role[i]) == ("agent", "theme")
            expected = changed(expected, "role", i, "theme")
        assert ours.analysis == expected
        of_words = kinds_of_words(expected.role, expected.category, expected.verb_name)
        assert categories(expected.role, of_words) == expected.category
        assert all(kinds.setdefault(word, kind) == kind for word, kind in zip(ours.words, of_words, strict=True))
    return rows


@pytest.mark.parametrize(("split", "step"), [("train", 59), ("dev", 1), ("test", 7), ("gen", 37)])
def test_corpus(corpus: Path, split: str, step: int) -> None:
    assert compare(corpus, split, step) == -(-SPLITS[split] // step)


@pytest.mark.exhaustive
@pytest.mark.parametrize("split", SPLITS)
def test_whole_corpus(corpus: Path, split: str) -> None:
    assert compare(corpus, split, 1) == SPLITS[split]


def test_a_changed_label_never_gives_the_gold_form(corpus: Path) -> None:
    """One random change a sentence of the development set: 0 gold forms (about 9 % another form, 91 % None)."""
    random = seeded("changes of labels")
    examples = list(read_cogs(open_lines(corpus / "dev.tsv"), "dev.tsv"))
    lemmas = sorted({lemma for example in examples for lemma in example.analysis.verb_name})
    others = 0
    for example in examples:
        column = random.choice(list(GraphLabels.__dataclass_fields__))
        i = random.randrange(len(example.words))
        old = getattr(example.analysis, column)[i]
        values = [value for value in values_of(column, len(example.words), lemmas) if value != old]
        form = logical_form(example.words, changed(example.analysis, column, i, random.choice(values)))
        assert form != example.form
        others += form is not None
    assert 0.05 < others / len(examples) < 0.15


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
    assert {i: kind for kind, of_kind in places.items() for i in of_kind} == dict(enumerate(kinds))
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
    expected = ["", "+1 VERB", "-1 NOUN", "", "-1 PREP", "-1 NOUN", "", "-1 PREP", "", ""]
    assert parents_by_category(analyse(words, form)) == expected


def record(**changed_keys: Any) -> str:
    keys = {"tokens": ["Wim", "sank"], "parent": [1, -1], "role": ["theme", ""], "category": ["PNOUN", "VERB"]}
    keys |= {"noun_type": ["", ""], "verb_name": ["", "sink"], "distribution": "in_distribution"}
    return json.dumps({key: value for key, value in {**keys, **changed_keys}.items() if value is not None})


def test_readers() -> None:
    for end in ["", "\n", "\r\n", "\r"]:
        analysis = GraphLabels([1, -1], ["theme", ""], ["PNOUN", "VERB"], ["", ""], ["", "sink"])
        form = "sink . theme ( x _ 1 , Wim )"
        expected = Example(["Wim", "sank"], analysis, form, "in_distribution", "c:2")
        first, second = read_cogs(
            [f"otter\tLAMBDA a . otter ( a )\tprimitive{end}", f"Wim sank\t{form}\tin_distribution{end}"], "c"
        )
        assert (first.where, first.distribution, first.words) == ("c:1", "primitive", ["otter"])
        assert second == expected
        assert list(read_seqtag([record() + end, record() + end], "c"))[1] == replace(expected, form=None)


def test_sentences_are_yielded_at_once() -> None:
    assert next(read_cogs(iter(["Wim\tWim\tprimitive", "broken"]), "c")).words == ["Wim"]
    assert next(read_seqtag(iter([record(), "broken"]), "c")).words == ["Wim", "sank"]


def test_malformed_lines_of_forms() -> None:
    for line, message, hint in [
        ("", "1 column instead of 3", "separated by single tabs"),
        ("a\tb\tc\td", "4 columns instead of 3", "separated by single tabs"),
        ("Wim  sank\tx\ty", "a sentence with an empty word", "single spaces"),
        ("Wim\u3000sank\tx\ty", "a sentence with an empty word", "single spaces"),
        ("\tx\ty", "a sentence with an empty word", "single spaces"),
        ("Wim sank\tsink . theme ( x _ 1 , Ann )\ty", "no 'Ann' in the sentence", "the second column is a COGS form"),
    ]:
        with pytest.raises(DataError, match=rf"^c.tsv:2: .*{message}") as error:
            list(read_cogs(["Wim\tWim\tprimitive", line], "c.tsv"))
        assert hint in (error.value.hint or "")


def test_malformed_lines_of_labels() -> None:
    for line, message in [
        ("", "not JSON"),
        ("Wim\tWim\tprimitive", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("9" * 5000, "not JSON"),
        ("[]", "not a JSON object"),
        (record(head=[1, 2]), "head: Extra inputs are not permitted"),
        (record(role=None), "role: Field required"),
        (record(distribution=3), "distribution: Input should be a valid string"),
        (record(tokens="Wim sank"), "tokens: Input should be a valid list"),
        (record(tokens=["Wim\n", "sank"]), "tokens is no list of words without white space"),
        (record(role=["theme", 1]), "role.1: Input should be a valid string"),
        (record(parent=[True, -1]), "parent.0: Input should be a valid integer"),
        (record(parent=[1.0, -1]), "parent.0: Input should be a valid integer"),
        (record(noun_type=[""]), "noun_type has 1 values for 2 tokens"),
        (record(role=["subject", ""]), "unknown role 'subject': it is one of '', 'agent'"),
        (record(category=["NOUN", ""]), "unknown category 'NOUN': it is one of '', 'CNOUN'"),
        (record(noun_type=["def", ""]), "unknown noun_type 'def': it is one of '', 'DEF'"),
        (record(parent=[2, -1]), "parent 2 of word 0 is not another word of the sentence: the sentence has 2 words"),
        (record(parent=[1, -2]), "parent -2 of word 1 is not another word"),
        (record(parent=[0, -1]), "parent 0 of word 0 is not another word"),
        (json.dumps({key: [] for key in json.loads(record())} | {"distribution": ""}), "a sentence without words"),
    ]:
        with pytest.raises(DataError) as error:
            list(read_seqtag([record(), line], "c.jsonl"))
        assert error.value.message.startswith(f"c.jsonl:2: {message}")
        assert "the keys tokens, parent" in (error.value.hint or "")
