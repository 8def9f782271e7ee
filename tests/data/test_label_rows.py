"""Files of rows of labels, as OpenIE6 has them: corpora of extractions and of coordinations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from probtrans_cli.data.corpus.prepared import Prepared, prepare
from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.folders.places import find_folder
from probtrans_cli.recipe.data import Data
from probtrans_cli.recipe.schema import Recipe

MARKS = "[unused1] [unused2] [unused3]"
BEE = f"""The bee that sat on Ann stung her {MARKS}
ARG1 ARG1 NONE NONE NONE NONE REL ARG2 NONE NONE NONE
NONE ARG1 NONE REL TIME ARG2 NONE NONE TYPE NONE NONE
NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE
NONE ARGS NONE ARG1 NONE NONE LOC LOC REL NONE REL
"""


def read(text: str, format: str = "extractions", **grid: Any) -> list[Sentence]:
    data = Data.model_validate({"train": "x.txt", "format": format, "grid": grid})
    return list(read_corpus("x.txt", format, data=data, lines=text.split("\n")))


# --- extractions ------------------------------------------------------------------------------------------------------


def test_rows_of_extractions() -> None:
    (one,) = read(BEE)
    assert one.words == ["The", "bee", "that", "sat", "on", "Ann", "stung", "her", *MARKS.split()]
    assert one.extra == 3
    assert one.grid == [
        [1, 1, 0, 0, 0, 0, 2, 3, 0, 0, 0],
        [0, 1, 0, 2, 4, 3, 0, 0, 0, 0, 0],
        [0, 3, 0, 1, 0, 0, 4, 4, 0, 0, 2],  # of two extra words, the last one counts
    ]
    assert json.loads(one.form or "") == [
        ["stung", "The bee", "her"],
        ["sat", "bee", "Ann on"],
        ["is from", "sat", "bee stung her"],
    ]
    assert one.counts == {"kept": 3}
    assert one.where == "x.txt:1"


def test_a_sentence_begins_where_its_last_words_are_the_extra_ones() -> None:
    first, second = read(f"\n\nSay [unused1] now {MARKS}\n\nARG1 REL ARG2 NONE NONE NONE\nNo [unused2] {MARKS}\n\n")
    assert (first.words[:3], first.grid) == (["Say", "[unused1]", "now"], [[1, 2, 3, 0, 0, 0]])
    assert (second.words[:2], second.grid, second.form) == (["No", "[unused2]"], [], "[]")
    assert (first.where, second.where) == ("x.txt:3", "x.txt:6")


def test_rows_that_are_dropped_are_counted() -> None:
    rows = ["ARG1 NONE NONE", "NONE REL NONE", "ARG1 REL NONE", "ARG1 REL NONE", "ARG1 REL ARG2", "REL ARG1 ARG2"]
    (one,) = read("\n".join([f"a b c {MARKS}", *(f"{row} NONE NONE NONE" for row in rows)]), rows=2)
    assert one.grid == [[1, 2, 0, 0, 0, 0], [1, 2, 3, 0, 0, 0]]
    assert one.counts == {"kept": 2, "incomplete": 2, "repeated": 1, "too many": 1}
    assert json.loads(one.form or "") == [["b", "a"], ["b", "a"], ["b", "a", "c"], ["a", "b", "c"]]


@pytest.mark.parametrize(
    ("extra_words", "grid", "form", "counts"),
    [
        (["is", "of", "from"], [[1, 0, 3, 2, 0, 0]], [["is", "a", "c"]], {"kept": 1}),
        (["est", "de"], [[1, 0, 3, 2, 0]], [["est", "a", "c"]], {"kept": 1}),
        (["is", "of", "from", "by"], [[1, 0, 3, 2, 0, 0, 0]], [["is", "a", "c"]], {"kept": 1}),
        ([], [], [], {"extra word": 1}),
    ],
)
def test_a_file_may_have_other_extra_words_than_the_recipe(
    extra_words: list[str], grid: list[list[int]], form: list[list[str]], counts: dict[str, int]
) -> None:
    (one,) = read(f"a b c {MARKS}\nARG1 NONE ARG2 REL NONE NONE\n", extra_words=extra_words)
    assert (one.grid, json.loads(one.form or ""), one.counts) == (grid, form, counts)
    assert one.words == ["a", "b", "c", *(f"[unused{i + 1}]" for i in range(len(extra_words)))]


def test_sentences_may_have_no_extra_words() -> None:
    first, second = read("a b\nARG1 REL\n\nc d\nARG1 REL\nREL ARG1\n")
    assert (first.grid, second.grid) == ([[1, 2, 0, 0, 0]], [[1, 2, 0, 0, 0], [2, 1, 0, 0, 0]])
    assert second.where == "x.txt:4"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (f"a b {MARKS}\nARG1 REL NONE NONE", "x.txt:2: 4 tags of the 5 words", "data.grid.fix_lengths=true"),
        (f"a b {MARKS}\nARG1 REL NONE NONE NONE NONE", "x.txt:2: 6 tags of the 5 words", "data.grid.fix_lengths=true"),
        (f"a b {MARKS}\nARG1 VERB NONE NONE NONE", "x.txt:2: unknown tag 'VERB'", "NONE, ARG1, REL, ARG2, ARGS, LOC"),
        (f"a b {MARKS}\nc d\n", "x.txt:2: unknown tag 'c'", f"a sentence ends in {MARKS}"),
        (f"\nARG1 REL\na b {MARKS}\n", "x.txt:2: tags before any sentence", "above their tags"),
        (f"a b {MARKS}\nCC NONE NONE NONE NONE", "x.txt:2: unknown tag 'CC'", "NONE, ARG1"),
    ],
)
def test_what_cannot_be_read(text: str, message: str, hint: str) -> None:
    with pytest.raises(DataError) as raised:
        read(text)
    assert raised.value.message.startswith(message)
    assert hint in (raised.value.hint or "")


def test_lines_of_another_length_may_be_cut_or_padded() -> None:
    (one,) = read(f"a b {MARKS}\nARG1 REL\nREL ARG1 NONE NONE NONE REL\n", fix_lengths=True)
    assert one.grid == [[1, 2, 0, 0, 0], [2, 1, 0, 0, 0]]
    assert one.counts == {"kept": 2, "cut": 1, "padded": 1}


# --- coordinations ----------------------------------------------------------------------------------------------------

CCTAGS = """A , B and C sing
CP_START SEP CP CC CP NONE
NONE NONE NONE NONE NONE NONE

It rains
NONE NONE
"""


def test_rows_of_coordinations() -> None:
    first, second = read(CCTAGS, "coordinations")
    assert (first.words, first.grid) == (["A", ",", "B", "and", "C", "sing"], [[2, 4, 1, 3, 1, 0], [0] * 6])
    assert (second.words, second.grid, second.form, second.extra) == (["It", "rains"], [[0, 0]], "[]", 0)
    assert (first.counts, second.counts) == ({"kept": 1}, {})
    assert (first.where, second.where) == ("x.txt:1", "x.txt:5")


def test_rows_beyond_are_counted() -> None:
    row, none = "CP_START CC CP", "NONE NONE NONE"
    (one,) = read(f"a or b\n{none}\n{none}\n{none}\n{row}\n", "coordinations")
    assert (one.grid, one.counts) == ([[0, 0, 0]] * 3, {"too deep": 1})
    (one,) = read(f"a or b\n{none}\n{none}\n{none}\n{row}\n", "coordinations", rows=4)
    assert ((one.grid or [])[3], one.counts) == ([2, 3, 1], {"kept": 1})


def test_json_lines_of_coordinations_become_rows() -> None:
    record = {"words": ["a", "or", "b"], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}
    (one,) = read(json.dumps(record), "coordinations")
    assert (one.words, one.grid, one.counts) == (["a", "or", "b"], [[2, 3, 1], [0] * 3, [0] * 3], {"kept": 1})


TREE = """# text = cats and dogs sleep
1\tcats\t_\tNOUN\t_\t_\t4\tnsubj\t_\t_
2\tand\t_\tCCONJ\t_\t_\t3\tcc\t_\t_
3\tdogs\t_\tNOUN\t_\t_\t1\tconj\t_\t_
4\tsleep\t_\tVERB\t_\t_\t0\troot\t_\t_

1\tcats\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
2\tdogs\t_\tNOUN\t_\t_\t1\tconj\t_\t_
3\tsleep\t_\tVERB\t_\t_\t0\troot\t_\t_
"""


def test_trees_become_rows() -> None:
    first, second = read(TREE, "coordinations")
    assert (first.words, first.grid) == (["cats", "and", "dogs", "sleep"], [[2, 3, 1, 0], [0] * 4, [0] * 4])
    assert (first.counts, second.counts) == ({"kept": 1}, {"no coordinator": 1})
    assert (first.heads, first.tags) == (None, {})


def test_sentences_of_conllu_need_trees() -> None:
    with pytest.raises(DataError, match=r"^x.txt:1: a sentence without a tree") as raised:
        read(TREE.replace("\t4\tnsubj", "\t_\tnsubj"), "coordinations")
    assert "HEAD" in (raised.value.hint or "")


# --- the recipe -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        ({"grid": {"rows": 2}}, "grid", "for `data.format: extractions or coordinations` only"),
        ({"format": "extractions", "grid": {"extra_words": ["is", "is"]}}, "grid.extra_words", "is stands there twice"),
        ({"format": "coordinations", "grid": {"extra_words": []}}, "grid.extra_words", "have no extra words"),
        ({"format": "extractions", "vocabulary": {"kind": "char"}}, "grid.extra_words", "kind `char` has no entries"),
        (
            {"format": "extractions", "vocabulary": {"kind": "sentencepiece"}},
            "grid.extra_words",
            "kind `sentencepiece` has no entries for extra words: set this to []",
        ),
    ],
)
def test_what_does_not_go_together(data: dict[str, Any], key: str, words: str) -> None:
    content = {"name": "x", "data": {"train": "x", **data}, "task": {"kind": "mlm"}}
    with pytest.raises(ValidationError) as raised:
        Recipe.model_validate(content)
    assert f"data.{key}: " in str(raised.value)
    assert words in str(raised.value)


def test_what_goes_together() -> None:
    for vocabulary in ("char", "sentencepiece", "words", "wordpiece"):
        grid = {} if vocabulary.startswith("word") else {"extra_words": []}
        data = {"train": "x", "format": "extractions", "grid": grid, "vocabulary": {"kind": vocabulary}}
        assert Data.model_validate(data).rows == 5
        Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}})
    coordinations = Data.model_validate({"train": "x", "format": "coordinations"})
    assert (coordinations.rows, coordinations.extra_words) == (3, [])
    assert Data.model_validate({"train": "x"}).rows == 0


@pytest.mark.parametrize("grid", [{"rows": 0}, {"rows": 21}, {"extra_words": ["two words"]}, {"extra_words": [""]}])
def test_values_that_no_grid_has(grid: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Data.model_validate({"train": "x", "format": "extractions", "grid": grid})


# --- a prepared corpus ------------------------------------------------------------------------------------------------


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], **data: Any) -> Prepared:
    monkeypatch.chdir(folder)
    for name, text in files.items():
        (folder / name).write_text(text)
    splits = {name: f"{name}" for name in files}
    return prepare(Recipe.model_validate({"name": "x", "data": {**splits, **data}, "task": {"kind": "mlm"}}))


def test_what_was_kept_and_dropped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = f"c d {MARKS}\nNONE REL NONE NONE\n"
    files = {"train": BEE + none, "dev": BEE + none}
    made = prepared(tmp_path, monkeypatch, files, format="extractions", grid={"rows": 2, "fix_lengths": True})
    line = "2 sentences, 4 tuples: 2 kept, 2 dropped: {}; 1 lines of tags padded; 1 sentences without tuples{}"
    reasons = "more than 2 in a sentence (1), without arg1 or relation (1)"
    assert made.manifest["notes"] == [
        f"data.train: train: {line.format(reasons, ' are left out of train')}",
        f"data.dev: dev: {line.format(reasons, '')}",
    ]
    assert {name: len(split) for name, split in made.splits.items()} == {"train": 1, "dev": 2}
    assert made.labels == {"upos": [], "extra_words": ["is", "of", "from"]}
    assert json.loads(made.splits["dev"].text("form", 1)) == []
    assert made.splits["train"].text("spelling", 0).split()[-3:] == MARKS.split()
    assert prepare(Recipe.model_validate(_recipe(files, rows=2, fix_lengths=True))).fresh is False
    assert prepare(Recipe.model_validate(_recipe(files, rows=3, fix_lengths=True))).fresh is True


def _recipe(files: dict[str, str], **grid: Any) -> dict[str, Any]:
    data = {**{name: name for name in files}, "format": "extractions", "grid": grid}
    return {"name": "x", "data": data, "task": {"kind": "mlm"}}


def test_sentences_without_coordinations_are_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared(tmp_path, monkeypatch, {"train": CCTAGS}, format="coordinations")
    assert len(made.splits["train"]) == 2
    assert made.manifest["notes"] == [
        "data.train: train: 2 sentences, 1 coordinations: 1 kept; 1 sentences without coordinations"
    ]
    assert json.loads(made.splits["train"].text("form", 1)) == []
    assert made.labels == {}
    manifest = json.loads((made.folder / "manifest.json").read_text("utf-8"))
    manifest["splits"]["train"]["columns"].remove("form")  # as an earlier version wrote it
    (made.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert prepared(tmp_path, monkeypatch, {"train": CCTAGS}, format="coordinations").fresh is True
    assert prepared(tmp_path, monkeypatch, {"train": CCTAGS}, format="coordinations").fresh is False


def test_coordinations_without_a_row_are_still_gold() -> None:
    deep = "A and B or C\nCP_START CC CP NONE NONE\nNONE NONE CP_START CC CP\n"
    objects = [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}, {"cc": 3, "conjuncts": [[2, 3], [4, 5]]}]
    lines = json.dumps({"words": ["A", "and", "B", "or", "C"], "coordinations": objects})
    tree = "A 0 root\nand 3 cc\nB 1 conj\nor 5 cc\nC 3 conj"
    rows = [line.split() for line in tree.split("\n")]
    conllu = "".join(f"{i}\t{w}\t_\t_\t_\t_\t{h}\t{r}\t_\t_\n" for i, (w, h, r) in enumerate(rows, start=1))
    for text in (deep, lines):
        (one,) = read(text, "coordinations", rows=1)
        assert json.loads(one.form or "") == [[1, [[0, 1], [2, 3]]], [3, [[2, 3], [4, 5]]]]
        assert one.grid is not None
        assert len(one.grid) == 1
        assert one.counts == {"kept": 1, "too deep": 1}
    (one,) = read(conllu, "coordinations", rows=1)
    assert json.loads(one.form or "") == [[1, [[0, 1], [2, 5]]], [3, [[2, 3], [4, 5]]]]
    assert one.counts == {"kept": 1, "too deep": 1}


def test_a_training_file_without_tuples_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^train: no sentence has tuples that are kept"):
        prepared(tmp_path, monkeypatch, {"train": f"c d {MARKS}\nNONE REL NONE NONE NONE\n"}, format="extractions")


def test_selected_words_are_those_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"train": f"a b {MARKS}\nARG1 REL NONE NONE NONE\na b c {MARKS}\nARG1 REL NONE NONE NONE NONE\n"}
    made = prepared(tmp_path, monkeypatch, files, format="extractions", select={"words": 2})
    assert made.splits["train"].words.tolist() == [5]


# --- the data sets ----------------------------------------------------------------------------------------------------


def test_the_wikipedia_part_of_oie2016() -> None:
    folder = find_folder("openie")
    if not folder.is_dir():
        pytest.skip("the corpora are not here")
    path = folder / "oie2016_wiki" / "train.extags.txt"
    data = Data.model_validate({"train": str(path), "format": "extractions", "grid": {"rows": 20}})
    found = list(read_corpus(path, "extractions", data=data, lines=open_lines(path)))
    counts = {key: sum(one.counts.get(key, 0) for one in found) for key in ("kept", "repeated", "incomplete")}
    assert (len(found), counts) == (1056, {"kept": 2889, "repeated": 16, "incomplete": 0})
    assert sum(len(one.grid or ()) for one in found) == counts["kept"]
