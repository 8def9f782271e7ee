"""The CoNLL-U codec: what it reads, what it refuses and where, that writing loses nothing, and gold trees."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain

import conllu
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import real_data

from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.readers.conllu import COLUMNS, UNKNOWN, annotated, fault_of, read_conllu, read_treebank
from probtrans_cli.data.readers.lines import read_text
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import tokenize
from probtrans_cli.errors import DataError

BLOCK = """\
# sent_id = 1
# text = It's a dog.
0.1\tso\tso\tADV\tRB\t_\t_\t_\t0:dep\t_
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\tCase=Nom|Number=Sing\t4\tnsubj\t4:nsubj\t_
2\t's\tbe\tAUX\tVBZ\t_\t4\tcop\t4:cop\tGloss=is
3\ta\ta\tDET\tDT\t_\t4\tdet\t4:det\t_
4\tdog\tdog\tNOUN\tNN\t_\t0\troot\t0:root\tSpaceAfter=No|Head=9
4.1\tand\tand\tCCONJ\tCC\t_\t_\t_\t4:cc\t_
4.2\tso\tso\tADV\tRB\t_\t_\t_\t4:conj\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t4:punct\t_
"""


def read(text: str, name: str = "x.conllu") -> list[Sentence]:
    return list(read_conllu(text.splitlines(keepends=True), name))


def word(id: str | int, form: str = "a", head: str | int = "_", misc: str = "_") -> str:
    return f"{id}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t{misc}"


def with_tree(sentence: Sentence, heads: list[int], relations: list[str]) -> list[str]:
    return annotated(sentence, columns={"head": list(map(str, heads)), "deprel": relations})


def test_reads_words_without_multiword_tokens_and_empty_nodes() -> None:
    (sentence,) = read("\n\n" + BLOCK)
    assert sentence.words == ["It", "'s", "a", "dog", "."]
    assert sentence.tags["upos"] == ["PRON", "AUX", "DET", "NOUN", "PUNCT"]
    assert sentence.tags["xpos"] == ["PRP", "VBZ", "DT", "NN", "."]
    assert sentence.heads == [4, 4, 4, 0, 4]
    assert sentence.relations == ["nsubj", "cop", "det", "root", "punct"]
    assert sentence.rows == [4, 5, 6, 7, 10]
    assert sentence.lines == BLOCK.splitlines()
    assert sentence.where == "x.conllu:3"


def test_how_a_block_calls_a_sentence() -> None:
    for comments, expected in [
        (["# sent_id = a=b "], "a=b"),
        (["#sent_id=1", "# sent_id = 2"], "1"),
        (["# text = sent_id = 1", "#", "# newpar", "# sent_id", "# sent_id ="], None),
        ([], None),
    ]:
        (sentence,) = read("\n".join([*comments, word(1)]) + "\n")
        assert sentence.id == expected


def test_columns_that_are_not_there_are_none() -> None:
    (sentence,) = read(word(1) + "\n" + word(2, head=1) + "\n")
    assert (sentence.tags, sentence.heads) == ({"feats": ["_", "_"]}, None)  # a word may have no features


def test_windows_line_ends_and_many_blank_lines() -> None:
    text = f"{word(1)}\r\n\r\n\r\n\r\n{word(1, 'b')}\r\n"
    assert [sentence.words for sentence in read_conllu(text.split("\n"), "x")] == [["a"], ["b"]]


def test_forms_with_spaces_and_odd_characters() -> None:
    forms = ["2 1/2", "_", "#", "\u2028x", "a\u00a0b", "1-2", "\x85"]
    lines = [word(i, form) for i, form in enumerate(forms, start=1)]
    (sentence,) = read_conllu(lines, "x")
    assert sentence.words == forms


def test_cycles_and_several_roots_are_read() -> None:
    cyclic = "\n".join([word(1, head=2), word(2, head=1), word(3, head=0), word(4, head=0)])
    assert read(cyclic)[0].heads == [2, 1, 0, 0]


def test_sentences_are_yielded_as_soon_as_they_end() -> None:
    def lines() -> Iterator[str]:
        yield word(1)
        yield ""
        raise AssertionError("read on")

    assert next(read_conllu(lines(), "x")).words == ["a"]


def test_global_columns() -> None:
    standard = "# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC\n"
    assert read(standard + BLOCK)[0].words[0] == "It"
    assert read(standard + BLOCK)[0].lines == (standard + BLOCK).splitlines()
    assert [sentence.words for sentence in read(standard + "\n" + BLOCK)] == [["It", "'s", "a", "dog", "."]]


def test_columns_in_another_order_and_more_of_them() -> None:
    """What other columns say is kept in MISC."""
    order = ["PARSEME:MWE", "HEAD", "FORM", "ID", "MISC", "LEMMA", "UPOS", "XPOS", "FEATS", "DEPREL", "DEPS", "X:Y"]
    lines = ["# global.columns = " + " ".join(order)]
    plain = read(BLOCK)[0].lines or []
    for number, line in enumerate(plain):
        if line.startswith("#"):
            lines.append(line)
            continue
        values = dict(zip(COLUMNS, line.split("\t"), strict=True), **{"PARSEME:MWE": "1:LVC|2", "X:Y": "_"})
        if number == 4:
            values["PARSEME:MWE"] = "_"
        lines.append("\t".join(values[name] for name in order))
    first, second = read("\n".join([*lines, "", *lines[1:], ""]))
    expected = read(BLOCK)[0]
    assert (first.words, first.heads, first.tags) == (expected.words, expected.heads, expected.tags)
    assert (second.words, second.heads, second.tags) == (expected.words, expected.heads, expected.tags)
    written = with_tree(first, first.heads, first.relations)
    assert written[0] == "# global.columns = " + " ".join(COLUMNS)
    for old, new in zip(plain, written[1:], strict=True):
        if old.startswith("#"):
            assert new == old
            continue
        *kept, misc = old.split("\t")
        assert new.split("\t")[:9] == kept
        entries = [misc] * (misc != "_") + ["PARSEME:MWE=1:LVC\\p2"] * (not old.startswith("1\t"))
        assert new.split("\t")[9] == ("|".join(entries) or "_")
    assert read("\n".join(written))[0].words == first.words


def test_columns_that_cannot_be_read() -> None:
    for columns, line, fault in [
        ("ID FORM UPOS HEAD DEPREL MISC LEMMA XPOS X:Y", 3, "# global.columns lacks FEATS, DEPS"),
        ("", 3, "# global.columns lacks ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC"),
        ("ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC ID", 3, "# global.columns has ID twice"),
        ("ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC X:Y", 4, "10 columns instead of the 11 of # global.col"),
    ]:
        with pytest.raises(DataError, match=f"^x.conllu:{line}: {fault}") as caught:
            read(f"{word(1)}\n\n#global.columns = {columns}\n{word(1)}\n")
        assert caught.value.hint


def test_a_range_of_a_single_word() -> None:
    """It is valid: the word may have a form of its own."""
    lines = ["1-1\tdu\t_\t_\t_\tTypo=Yes\t_\t_\t_\tSpaceAfter=No", word(1, "de")]
    lines += ["2-2\tle\t_\t_\t_\t_\t_\t_\t_\t_", word(2, "le"), "3-4\tx\t_\t_\t_\t_\t_\t_\t_\t_", word(3), word(4)]
    (sentence,) = read_conllu(lines, "x")
    assert sentence.words == ["de", "le", "a", "a"]
    written = annotated(sentence, [0, 1, 1, 1])
    assert [written[i] for i in (0, 2, 4)] == [lines[i] for i in (0, 2, 4)]
    (again,) = read_conllu(written, "x")
    assert again.heads == [0, 1, 1, 1]


def test_lines_of_other_formats() -> None:
    for line, fault, hint in [
        ("1 a a X _ _ 0 root _ _", "1 column instead of 10", "spaces seem to separate columns"),
        ("one two", "1 column instead of 10", "--input text"),
        ("\t".join(["1", "a", *"_" * 12]), "14 columns instead of 10", "global.columns"),
        ("\t".join(["_", "a", *"_" * 8]), "'_' is not an ID", "a number"),
    ]:
        with pytest.raises(DataError, match=f"^x.conllu:1: {fault}") as caught:
            read(line + "\n")
        assert hint in (caught.value.hint or "")


def test_columns_of_conll_x_are_read_as_they_stand() -> None:
    """ID FORM LEMMA CPOSTAG POSTAG FEATS HEAD DEPREL PHEAD PDEPREL"""
    (sentence,) = read("1\tDe\tde\tArt\tArt\tbep|zijd\t2\tdet\t_\t_\n2\tman\tman\tN\tN\tsoort\t0\tROOT\t_\t_\n")
    assert (sentence.words, sentence.heads, sentence.tags["upos"]) == (["De", "man"], [2, 0], ["Art", "N"])


def test_a_file_without_blank_lines_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.data.readers.conllu.MOST_LINES", 5)
    assert len(read("# a\n" + "\n".join(word(i) for i in range(1, 5)))[0].words) == 4
    endless = (word(i) for i in range(1, 10**9))
    with pytest.raises(DataError, match=r"^x:8: a sentence of more than 5 lines, which begins in line 3") as caught:
        list(read_conllu(chain([word(1), ""], endless), "x"))
    assert "blank lines" in (caught.value.hint or "")


def test_annotated_replaces_the_tree_only() -> None:
    (sentence,) = read(BLOCK)
    lines = annotated(
        sentence, [2, 0, 4, 2, 2], misc={"Head": ["1", "", "", "0", ""], "Gloss": ["", "was", "", "", ""]}
    )
    for row, (old, new) in enumerate(zip(BLOCK.splitlines(), lines, strict=True)):
        if row in (4, 5, 6, 7, 10):
            a, b = old.split("\t"), new.split("\t")
            assert a[:6] == b[:6]
            assert a[8] == b[8]
        else:
            assert old == new
    columns = [lines[row].split("\t") for row in (4, 5, 6, 7, 10)]
    assert [c[6] for c in columns] == ["2", "0", "4", "2", "2"]
    assert [c[7] for c in columns] == ["dep", "root", "dep", "dep", "dep"]
    assert [c[9] for c in columns] == ["Head=1", "Gloss=was", "_", "SpaceAfter=No|Head=0", "_"]
    assert with_tree(sentence, [0] * 5, ["a", "b", "c", "d", "e"])[-1].split("\t")[6:8] == ["0", "e"]
    assert sentence.lines == BLOCK.splitlines(), "the sentence itself does not change"


def test_new_heads_take_away_what_was_written_of_the_old_ones() -> None:
    misc = "Gloss=b|Prob=0.5000|ProbSD=0.1000|RelProb=1.0000|Heads=2:0.5|HeadEntropy=0.1000"
    lines = ["# tree = 1", "# log_prob = -0.5", "# text = b", f"1\tb\t_\t_\t_\t_\t0\troot\t_\t{misc}"]
    (sentence,) = read_conllu([*lines, ""], "x")
    assert annotated(sentence, [0]) == ["# text = b", "1\tb\t_\t_\t_\t_\t0\troot\t_\tGloss=b"]
    of_column = annotated(sentence, columns={"head": ["0"]}, misc={"Prob": ["0.7"]}, comments={"tree": "2"})
    assert of_column == ["# text = b", "# tree = 2", "1\tb\t_\t_\t_\t_\t0\troot\t_\tGloss=b|Prob=0.7"]
    assert annotated(sentence, columns={"upos": ["X"]})[:3] == lines[:3], (
        "the heads stay, and so does what is about them"
    )


def test_a_new_tag_takes_away_the_probability_of_the_old_one() -> None:
    lines = ["1\tb\t_\tX\t_\t_\t0\troot\t_\tGloss=b|UPOSProb=0.5|XPOSProb=0.6|TagProb=0.7|TagMI=0.1"]
    (sentence,) = read_conllu([*lines, ""], "x")
    (row,) = annotated(sentence, columns={"upos": ["Y"]})
    assert row.split("\t")[9] == "Gloss=b|XPOSProb=0.6"


def test_annotated_makes_conllu_of_plain_text() -> None:
    (sentence,) = read_text(["the dog"], "x.txt")
    assert annotated(sentence, [2, 0]) == [
        "# text = the dog",
        "1\tthe\t_\t_\t_\t_\t2\tdep\t_\t_",
        "2\tdog\t_\t_\t_\t_\t0\troot\t_\t_",
    ]
    hostile = Sentence(words=["a\n1\tb", "\t", "\u2028"])
    relations = {"head": ["0", "1", "1"], "deprel": ["x\ny", "", "z z"]}
    (again,) = read_conllu(annotated(hostile, columns=relations, misc={"A": ["\n1", "", "a|b"]}), "x")
    assert (again.words, again.relations) == (["a 1 b", "_", "_"], ["x_y", "_", "z_z"])


def test_an_empty_sentence_comes_back() -> None:
    (empty,) = read_text([""], "x.txt", keep_empty=True)
    lines = annotated(empty, [])
    assert lines == ["# text ="]
    assert [s.words for s in read_conllu([*lines, "", word(1), ""], "x")] == [[], ["a"]]


def test_annotated_wants_one_value_a_word() -> None:
    sentence = Sentence(words=["a", "b"])
    for relations in (["root"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="2 words"):
            with_tree(sentence, [0, 1], relations)
    with pytest.raises(ValueError, match="1 values for 2 words"):
        annotated(sentence, [0])


# --- malformed files --------------------------------------------------------------------------------------------------


def malformed() -> list[tuple[str, int, str]]:
    """(fault, its line, content): every way we know of breaking a line, at every line where it breaks something."""
    good = BLOCK.splitlines()
    words, ranges, empty = (4, 5, 6, 7, 10), (3,), (2, 8, 9)
    cases: list[tuple[str, int, str]] = []

    def add(fault: str, row: int, lines: list[str], shift: int = 0) -> None:
        text = "\n".join([*good, "", *lines, "", *good, ""])
        cases.append((f"{fault} in line {row + 1}", len(good) + 2 + row + shift, text))

    def change(row: int, column: int, value: str) -> list[str]:
        columns = good[row].split("\t")
        columns[column] = value
        return [*good[:row], "\t".join(columns), *good[row + 1 :]]

    for row in (*words, *ranges, *empty):
        add("nine columns", row, [*good[:row], good[row].rsplit("\t", 1)[0], *good[row + 1 :]])
        add("eleven columns", row, [*good[:row], good[row] + "\t_", *good[row + 1 :]])
        add("spaces for tabs", row, [*good[:row], good[row].replace("\t", " "), *good[row + 1 :]])
        add("only white space", row, [*good[:row], " \t ", *good[row:]])
        add("a late comment", row, [*good[: row + 1], "# late", *good[row + 1 :]], shift=1)
        for column in range(10):
            add(f"empty column {column}", row, change(row, column, ""))
        for column in (0, 3, 4, 5, 6, 7, 8):
            add(f"space in column {column}", row, change(row, column, "a b"))
        for id in ("x", "-1", "01", "1.", "1-", ".1", "1.0", "٣", "9" * 5000, "+1", "1,2", "1-2-3", "7", "2-1", "1e0"):
            add(f"ID {id[:9]}", row, change(row, 0, id))
    for row in words:
        for head in ("x", "-1", "1.5", "01", "6", "99", "9" * 5000, "٣", "0x1", "1e0", "+1", "--"):
            add(f"HEAD {head[:9]}", row, change(row, 6, head))
        add("own head", row, change(row, 6, good[row].split("\t")[0]))
    for row in (*ranges, *empty):
        add("a node with a head", row, change(row, 6, "0"))
        add("a node with a relation", row, change(row, 7, "dep"))
    for span in ("1-9", "2-3", "0-2", "1-0"):
        add(f"range {span}", 3, change(3, 0, span))
    add("overlapping ranges", 5, [*good[:5], good[3].replace("1-2", "2-3"), *good[5:]])
    add("a range twice", 4, [*good[:4], good[3], *good[4:]])
    add("an empty node after a range", 4, [*good[:4], good[2].replace("0.1", "0.2"), *good[4:]])
    add("a word twice", 5, [*good[:5], good[4], *good[5:]])
    add("a word left out", 6, [*good[:6], *good[7:]])
    add("comments only", 1, good[:2])
    add("no words", 2, good[:3])
    add("form with an edge of space", 4, change(4, 1, " It"))
    return cases


def test_text_is_kept_as_it_was() -> None:
    """Words that were not apart say so, whatever else MISC has; white space is a space; words alone are joined."""
    text = "Well, \t(it's  here)..."
    sentence = Sentence(tokenize(text), text=text)
    assert sentence.words == ["Well", ",", "(", "it", "'s", "here", ")", "..."]
    lines = annotated(sentence, [0] + [1] * 7, misc={"P": ["1"] + [""] * 7})
    assert lines[0] == "# text = Well,  (it's  here)..."
    misc = [line.split("\t")[9] for line in lines[1:]]
    assert misc == ["SpaceAfter=No|P=1", "_", *["SpaceAfter=No"] * 2, "_", *["SpaceAfter=No"] * 2, "_"]
    assert annotated(Sentence([], text=" \n"), []) == ["# text ="]
    assert annotated(Sentence(["a", ","]), [0, 1])[0] == "# text = a ,"


def test_a_malformed_line_is_an_error_with_its_position() -> None:
    cases = malformed()
    assert len({text for _, _, text in cases}) >= 250
    for fault, line, text in cases:
        sentences = read_conllu(text.splitlines(), "bad.conllu")
        assert next(sentences).words[0] == "It"
        with pytest.raises(DataError) as caught:
            list(sentences)
        assert caught.value.message.startswith(f"bad.conllu:{line}: "), fault
        assert caught.value.hint


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_damage_is_read_or_refused_with_a_position(data: st.DataObject) -> None:
    text = BLOCK + "\n" + BLOCK
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        inserted = data.draw(st.text(st.sampled_from("\t\n\r #_-.0123456789aé\u2028|="), max_size=6))
        text = text[:start] + inserted + text[start + length :]
    lines = text.split("\n")
    try:
        for sentence in read_conllu(lines, "bad.conllu"):
            assert len(annotated(sentence, [0] * len(sentence.words))) == len(sentence.lines or ())
    except DataError as error:
        name, line, _ = error.message.split(":", 2)
        assert name == "bad.conllu"
        assert 1 <= int(line) <= len(lines)


# --- round trip -------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\t\n\r"), min_size=1, max_size=6)
FORM = TEXT.map(lambda text: text.strip(" ") or "x")
NO_SPACE = TEXT.map(lambda text: text.replace(" ", "-"))


@st.composite
def blocks(draw: st.DrawFn) -> list[str]:
    """A valid block: comments, words with any columns, multiword tokens and empty nodes in legal places."""
    count = draw(st.integers(1, 8))
    lines = [f"# {draw(TEXT)}" for _ in range(draw(st.integers(0, 2)))]
    covered = 0
    for i in range(count + 1):
        if i:
            if i > covered and i < count and draw(st.booleans()):
                covered = draw(st.integers(i + 1, count))
                lines.append(f"{i}-{covered}\t{draw(FORM)}\t_\t_\t_\t_\t_\t_\t_\t{draw(FORM)}")
            head = draw(st.integers(0, count).filter(lambda head, i=i: head != i).map(str) | st.just("_"))
            columns = [str(i), draw(FORM), draw(FORM), draw(NO_SPACE), draw(NO_SPACE), draw(NO_SPACE)]
            lines.append("\t".join([*columns, head, draw(NO_SPACE), draw(NO_SPACE), draw(FORM)]))
        for minor in range(1, draw(st.integers(0, 2)) + 1):
            lines.append(f"{i}.{minor}\t{draw(FORM)}\t_\t_\t_\t_\t_\t_\t{draw(NO_SPACE)}\t_")
    return lines


@settings(max_examples=50, deadline=None)
@given(blocks(), st.data())
def test_round_trip(lines: list[str], data: st.DataObject) -> None:
    (sentence,) = read_conllu(lines, "x")
    count = len(sentence.words)
    heads = [data.draw(st.integers(0, count).filter(lambda head, i=i: head != i)) for i in range(1, count + 1)]
    written = annotated(sentence, heads, misc={"Channel": ["3"] * count})
    (again,) = read_conllu(written, "x")
    assert (again.words, again.tags) == (sentence.words, sentence.tags)
    assert again.heads == heads
    for row, (old, new) in enumerate(zip(lines, written, strict=True)):
        if row in sentence.rows:
            a, b = old.split("\t"), new.split("\t")
            assert (a[:6], a[8]) == (b[:6], b[8])
            assert b[9].endswith("Channel=3")
        else:
            assert old == new


# --- gold trees -------------------------------------------------------------------------------------------------------


def lines_of_tree(*rows: str) -> list[str]:
    words = (f"{number}\tw\t_\tX\t_\t_\t{row.replace(' ', chr(9))}\t_\t_" for number, row in enumerate(rows, start=1))
    return ["# a comment", *words, ""]


def test_sentences_have_their_trees() -> None:
    lines = [*lines_of_tree("2 nsubj:pass", "0 root", "2 obj"), *lines_of_tree("_ _", "1 obj")]
    sentence, part = read_treebank(lines, "here")
    assert sentence.parents == [1, -1, 1]
    assert sentence.tags["deprel"] == ["nsubj:pass", "root", "obj"]
    assert sentence.tags["udeprel"] == ["nsubj", "root", "obj"]
    assert sentence.form is not None
    assert sentence.form.split("\n")[0] == "2\tnsubj:pass\tX\t_\t_"
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
        list(read_treebank(lines_of_tree(*rows), "here"))
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


# --- real treebanks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ud/en_ewt/dev.conllu", (2001, 25147, 359, 4)),
        ("ud/en_ewt/test.conllu", (2077, 25094, 354, 2)),
        ("ud/ug_udt/dev.conllu", (900, 10644, 0, 0)),
        ("ud/af_afribooms/dev.conllu", (194, 5317, 0, 0)),
    ],
)
def test_counts_of_real_treebanks(name: str, counts: tuple[int, int, int, int]) -> None:
    sentences = words = ranges = empty = 0
    for sentence in read_corpus(real_data(name)):
        assert sentence.heads.count(0) == 1
        sentences += 1
        words += len(sentence.words)
        ids = [line.partition("\t")[0] for line in sentence.lines or () if line[0] != "#"]
        ranges += sum("-" in id for id in ids)
        empty += sum("." in id for id in ids)
    assert (sentences, words, ranges, empty) == counts


def test_agrees_with_the_conllu_package_and_writes_back_the_same_bytes() -> None:
    path = real_data("ud/en_ewt/test.conllu")
    lines = list(open_lines(path))
    ours = list(read_conllu(lines, "x"))
    theirs = conllu.parse("\n".join(lines[:8000]) + "\n")
    for sentence, parsed in zip(ours, theirs[:-1], strict=False):
        real = [token for token in parsed if isinstance(token["id"], int)]
        assert sentence.words == [token["form"] for token in real]
        assert sentence.tags["xpos"] == [token["xpos"] for token in real]
        assert sentence.heads == [token["head"] for token in real]
    written = []
    for sentence in ours:
        relations = [sentence.lines[row].split("\t")[7] for row in sentence.rows]
        written += [*with_tree(sentence, sentence.heads, relations), ""]
    assert written == lines
