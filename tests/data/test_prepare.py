"""`prepare`: what it makes, when it is up to date, what it refuses, and the names of its folders."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from small_treebank import TRAIN, names, recipe, treebank
from support import Stdin, values_of

from probtrans_cli.commands.prepare import report
from probtrans_cli.data.corpus.manifest import canonical, find_sources, fingerprint, folder_of
from probtrans_cli.data.corpus.prepared import Prepared, open_prepared, prepare
from probtrans_cli.errors import DataError


def shown(prepared: Prepared) -> str:
    return report("prepared" if prepared.fresh else "up to date", prepared)


def test_what_it_makes(corpus: Path) -> None:
    made = prepare(recipe())
    assert made.fresh
    assert names(made.folder) == ["dev.arrow", "labels.json", "manifest.json", "train.arrow", "vocabulary.json"]
    assert names(corpus / "prepared") == [made.folder.name]
    assert made.folder.name.startswith("x-")
    assert made.labels == {"upos": ["DET", "NOUN", "PUNCT", "SYM", "VERB", "X"], "xpos": [], "feats": []}
    train, dev = made.splits["train"], made.splits["dev"]
    assert [made.vocabulary.decode(id) for id in train.row("ids", 0)] == ["the", "dog", "barks", "."]
    assert train.row("heads", 0).tolist() == [2, 3, 0, 3]
    assert values_of(train, "punct").tolist() == [False, False, False, True, False, True, False, False]
    assert [made.vocabulary.decode(id) for id in dev.row("ids", 0)] == ["the", "<unk>", "<unk>"]
    assert dev.padded("upos", np.array([0, 1]), -1).tolist() == [[0, 1, 2], [-1, -1, -1]]
    assert dev.row("frequency", 0).tolist() == [2, 0, 0]
    manifest = json.loads((made.folder / "manifest.json").read_text())
    assert manifest == made.manifest
    assert manifest["splits"]["train"] == {
        "sentences": 3,
        "words": 8,
        "tokens": 8,
        "unknown": 0.0,
        "unseen": 0.0,
        "length": {"min": 1, "25%": 1, "50%": 3, "75%": 4, "95%": 4, "99%": 4, "max": 4},
        "columns": ["upos", "heads"],
    }
    assert manifest["splits"]["dev"]["unknown"] == 0.75
    assert manifest["labels"]["upos"]["DET"] == 2
    assert len(manifest["sources"]["dev"][0]["sha256"]) == 64
    text = shown(made)
    assert "upos: 6 labels: DET 2, NOUN 2" in text
    assert "75.00%" in text
    assert "prepared: prepared" in text


def test_twice_is_up_to_date(corpus: Path) -> None:
    first = prepare(recipe())
    times = {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    second = prepare(recipe(task={"kind": "tagging"}))
    assert not second.fresh
    assert second.manifest == first.manifest
    assert times == {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    assert "up to date" in shown(second)
    opened = open_prepared(first.folder)
    assert (opened.labels, opened.manifest) == (first.labels, first.manifest)
    os.utime(corpus / "train.conllu")
    assert not prepare(recipe()).fresh, "a new time with the same bytes changes nothing"
    assert prepare(recipe(), force=True).fresh


def test_a_change_makes_it_again(corpus: Path) -> None:
    first = prepare(recipe(prepared="here"))
    assert first.folder == Path("here")
    (corpus / "train.conllu").write_text(TRAIN + treebank("cat/NOUN/0"))
    second = prepare(recipe(prepared="here"))
    assert second.fresh
    assert second.manifest["splits"]["train"]["sentences"] == 4
    assert second.manifest["fingerprint"] != first.manifest["fingerprint"]
    assert prepare(recipe(prepared="here", vocabulary={"kind": "words", "lowercase": True})).fresh
    assert prepare(recipe(prepared="here", dev=None)).fresh
    assert "dev.arrow" not in names(corpus / "here")
    (corpus / "here" / "train.arrow").write_bytes(b"")
    assert prepare(recipe(prepared="here", dev=None)).fresh
    (corpus / "here" / "manifest.json").write_text("{}")
    assert prepare(recipe(prepared="here", dev=None)).fresh
    assert names(corpus) == ["dev.conllu.gz", "here", "train.conllu"]
    assert prepare(recipe()).folder != prepare(recipe(vocabulary={"kind": "words", "min_count": 2})).folder


def test_size_and_time_are_not_believed(corpus: Path) -> None:
    """Another content of the same size and time is another corpus."""
    prepare(recipe())
    path = corpus / "train.conllu"
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace("DET", "ADV"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    second = prepare(recipe())
    assert second.fresh
    assert "ADV" in second.labels["upos"]


def test_a_damaged_file_is_made_again(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every byte of every file counts, wherever it is."""
    made = prepare(recipe())
    contents = {path.name: path.read_bytes() for path in made.folder.iterdir()}
    for name in sorted(contents.keys() - {"manifest.json"}):
        for place in np.linspace(0, len(contents[name]) - 1, 3).astype(int):
            flipped = bytearray(contents[name])
            flipped[place] ^= 4
            (made.folder / name).write_bytes(bytes(flipped))
            capsys.readouterr()
            again = prepare(recipe())
            assert again.fresh, (name, place)
            assert f"{name}: damaged" in capsys.readouterr().err
            assert (made.folder / name).read_bytes() == contents[name]
    assert not prepare(recipe()).fresh


def test_subwords(corpus: Path) -> None:
    (corpus / "many.txt").write_text("the dog barks\nthe dogs bark at the cats\n" * 30)
    vocabulary = {"kind": "sentencepiece", "size": 20}
    made = prepare(recipe(train="many.txt", dev=None, test="many.txt", vocabulary=vocabulary))
    train = made.splits["train"]
    assert "spm.model" in names(made.folder)
    assert train.words[0] == 3
    assert train.lengths[0] >= train.words[0]
    assert train.row("first", 0).tolist() == made.vocabulary.encode_words(["the", "dog", "barks"]).word_start
    assert not train.has("upos")
    assert "pieces" in shown(made)
    again = prepare(recipe(train="many.txt", dev=None, test="many.txt", vocabulary=vocabulary), force=True)
    assert again.manifest["fingerprint"] == made.manifest["fingerprint"]


def test_check_reads_everything_and_writes_nothing(corpus: Path) -> None:
    made = prepare(recipe(), check=True)
    assert made.manifest["splits"]["dev"]["words"] == 4
    assert made.splits["dev"].row("heads", 0).tolist() == [2, 0, 2]
    assert names(corpus) == ["dev.conllu.gz", "train.conllu"]
    (corpus / "train.conllu").write_text(TRAIN + "nonsense\n")
    with pytest.raises(DataError, match=r"^train.conllu:12: 1 column"):
        prepare(recipe(), check=True)


@pytest.mark.usefixtures("corpus")
def test_standard_input(stdin: Stdin) -> None:
    for fresh in (True, False):
        stdin(b"the dog\n\nbarks\n")
        made = prepare(recipe(train="-", dev=None))
        assert made.fresh is fresh
        assert made.manifest["splits"]["train"]["words"] == 3
    stdin(TRAIN.encode())
    assert prepare(recipe(train="-", dev=None, format="conllu")).labels["upos"][0] == "DET"


def test_files_that_count_twice_are_told_of(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (corpus / "copy.conllu").write_text(TRAIN, "utf-8")
    prepare(recipe(train=["train.conllu", "./train.conllu", "copy.conllu"]))
    assert "data.train names train.conllu, or copies of it, 3 times" in capsys.readouterr().err
    prepare(recipe(train="train.conllu", dev="copy.conllu"))
    assert "data.dev names copy.conllu, a file of data.train or a copy of one" in capsys.readouterr().err


def test_several_files_a_split(corpus: Path) -> None:
    made = prepare(recipe(train=["train.conllu", "dev.conllu"], dev=None))
    assert made.manifest["splits"]["train"]["sentences"] == 5
    assert [entry["path"] for entry in made.manifest["sources"]["train"]] == ["train.conllu", "dev.conllu.gz"]


@pytest.mark.parametrize(
    ("change", "task", "message", "hint"),
    [
        ({"train": "absent.conllu"}, None, "no corpus 'absent.conllu'", "PROBTRANS_DATA"),
        ({"dev": "empty.conllu"}, None, "^empty.conllu: no sentence", "data.dev"),
        ({"dev": "blank.txt"}, None, "^blank.txt: no sentence", "data.dev"),
        ({"train": "bad.conllu"}, None, "^bad.conllu:2: ID 3", "numbered"),
        ({}, {"kind": "tagging", "column": "xpos"}, "^train.conllu: every XPOS is `_`", "task.column=upos"),
        ({"train": "plain.txt", "dev": None}, {"kind": "tagging"}, "^plain.txt: plain text has no UPOS", "CoNLL-U"),
        ({"dev": "plain.txt"}, {"kind": "tagging"}, "^plain.txt: plain text", "CoNLL-U"),
        ({"train": "bare.conllu", "dev": None}, {"kind": "tagging"}, "^bare.conllu: every UPOS", "mlm"),
    ],
)
def test_what_it_refuses(corpus: Path, change: Any, task: Any, message: str, hint: str) -> None:
    (corpus / "empty.conllu").touch()
    (corpus / "blank.txt").write_text(" \n\n")
    (corpus / "plain.txt").write_text("the dog\n")
    (corpus / "bare.conllu").write_text(treebank("a/_/0 b/_/1"))
    (corpus / "bad.conllu").write_text(TRAIN.replace("2\tdog", "3\tdog", 1))
    with pytest.raises(DataError, match=message) as caught:
        prepare(recipe(task, **change))
    assert hint in (caught.value.hint or "")
    assert not (corpus / "prepared").exists()


def test_the_task_is_checked_when_up_to_date_too(corpus: Path) -> None:
    prepare(recipe())
    with pytest.raises(DataError, match="every XPOS"):
        prepare(recipe({"kind": "tagging", "column": "xpos"}))


def test_labels_that_train_lacks_are_told_of_where_the_task_learns_them(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "test.conllu").write_text(treebank("the/DET/2 cat/QQ/0 !/_/2", "meows/_/0"))
    made = prepare(recipe(test="test.conllu"))
    assert capsys.readouterr().err == ""
    assert made.manifest["new_labels"]["dev"] == {"upos": {"INTJ": 1}, "xpos": {}, "feats": {}}
    assert made.manifest["new_labels"]["train"] == {"upos": {}, "xpos": {}, "feats": {}}
    counted = "in column upos {} not in train: counted as wrong, left out of the loss"
    of_one, of_three = (counted.format(verb) for verb in ("is", "are"))
    for _ in range(2):
        prepare(recipe({"kind": "tagging"}, test="test.conllu"))
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == f"warning: data.dev: 1 of 4 labels {of_one}: INTJ (1)"
        assert lines[1:] == [f"warning: data.test: 3 of 4 labels {of_three}: QQ (1), none (2)"]
    path = made.folder / "manifest.json"  # as an earlier version wrote it
    path.write_text(json.dumps({key: value for key, value in made.manifest.items() if key != "new_labels"}))
    assert not prepare(recipe({"kind": "tagging"}, test="test.conllu")).fresh
    assert capsys.readouterr().err == ""


def test_what_cannot_be_opened(corpus: Path) -> None:
    with pytest.raises(DataError, match="no prepared corpus"):
        open_prepared(corpus)
    made = prepare(recipe())
    (made.folder / "labels.json").write_text("[")
    with pytest.raises(DataError, match=r"labels.json"):
        open_prepared(made.folder)


def test_labels_are_never_read_as_markup(corpus: Path) -> None:
    (corpus / "train.conllu").write_text(TRAIN.replace("NOUN", "[bold]N[/bold]"))
    assert "[bold]N[/bold] 2" in shown(prepare(recipe()))


def test_real_treebank(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBTRANS_DATA", str(corpora))
    monkeypatch.chdir(tmp_path)
    data = {"train": "ud/en_ewt/dev.conllu", "dev": "ud/en_ewt/test.conllu"}
    task = {"kind": "tagging", "column": "xpos"}
    made = prepare(recipe(task, **data))
    counts = {name: (split["sentences"], split["words"]) for name, split in made.manifest["splits"].items()}
    assert counts == {"train": (2001, 25147), "dev": (2077, 25094)}
    assert {column: len(labels) for column, labels in made.labels.items()} == {"upos": 17, "xpos": 49, "feats": 151}
    assert made.vocabulary.size == 5494 + 3
    assert not prepare(recipe(task, **data)).fresh


def identity(data: dict[str, Any], task: str) -> tuple[Path, str]:
    made = recipe({"kind": task}, **{"dev": None, **data})
    return folder_of(made), fingerprint(made.data, find_sources(made.data, {}))


def test_names_and_fingerprints_are_those_of_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are those of the code before there were tables of formats and vocabularies (commit 1a04c22)."""
    monkeypatch.chdir(tmp_path)
    Path("train.conllu").write_text(treebank("goat/NOUN/0", "hen/NOUN/0", "fox/NOUN/0"))
    Path("train.txt").write_text("a goat sleeps\n\nthe fox\nthe hen\n")
    Path("train.col").write_text("goat B-X\n\nfox O\n")
    Path("train.tsv").write_text("a goat\t1\nfox\t0\n")
    words = {"kind": "words", "min_count": 2, "features": {"ngrams": 3}, "punctuation": False}
    columns = {"train": "train.col", "format": "columns"}
    pieces = {"vocabulary": {"kind": "sentencepiece", "size": 20}, "longest": 9, "too_long": "cut"}
    documents = {"train": "train.txt", "format": "documents", "documents": {"pairs": "sop", "seed": 3}}
    for task, data, folder, begins in [
        ("mlm", {}, "edc3744a", "f58a8dbcaca7e4e8"),
        ("mlm", {"vocabulary": words}, "57ad4f18", "ac3a505db839fbce"),
        ("mlm", pieces, "a9dbc90d", "12ac8b3b09935ff4"),
        ("mlm", {"vocabulary": {"kind": "char"}, "extra": "train.conllu"}, "f8be0f68", "bd49125a662ec5f7"),
        ("mlm", {"vocabulary": {"kind": "wordpiece", "size": 90}}, "95e0acd9", "89feb1d3840bff7f"),
        ("ner", columns | {"columns": {"entities": "bioes"}}, "684c55e3", "173e87ca06744a42"),
        ("ner", columns | {"columns": {"entities": "bioes", "strict": False}}, "684c55e3", "173e87ca06744a42"),
        ("classification", {"train": "train.tsv", "format": "table"}, "7f0c40c3", "f94a697b83dafc9d"),
        ("pretrain", documents, "08faa839", "511e3c0487cd4419"),
    ]:
        name, fingerprint = identity(data, task)
        assert name == Path("prepared") / f"x-{folder}"
        assert fingerprint.startswith(begins)
    plain, strict = (
        identity(columns | {"columns": {"entities": "bioes", "strict": strict}}, "ner") for strict in (False, True)
    )
    assert plain[0] != strict[0]
    assert plain[1] != strict[1]


def test_a_vocabulary_of_a_folder_is_its_content(tmp_path: Path) -> None:
    data = recipe(vocabulary={"kind": "wordpiece", "folder": str(tmp_path)}).data
    described = {str(tmp_path)}
    for pieces in ("[PAD]\n", "[PAD]\n[UNK]\n"):
        (tmp_path / "vocab.txt").write_text(pieces)
        described.add(canonical(data)["vocabulary"]["folder"])
    assert len(described) == 3


LENGTHS = [3, 12, 5, 9, 1, 7, 30, 4, 6, 2]


@pytest.fixture
def prepared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Prepared]:
    """Select among sentences of known lengths, each of which names itself in its first word."""
    monkeypatch.chdir(tmp_path)
    lines = [" ".join([f"s{number}", *["w"] * (length - 1)]) for number, length in enumerate(LENGTHS)]
    Path("text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lambda **select: prepare(recipe(train="text.txt", dev="text.txt", select=select))


def first_words(prepared: Prepared, split: str) -> list[str]:
    sentences = prepared.splits[split]
    return [prepared.vocabulary.decode(int(sentences.row("ids", index)[0])) for index in range(len(sentences))]


def test_long_sentences_are_left_out_of_every_split_and_counted(prepared_with: Callable[..., Prepared]) -> None:
    prepared = prepared_with(words=9)
    kept = [f"s{number}" for number, length in enumerate(LENGTHS) if length <= 9]
    assert first_words(prepared, "train") == first_words(prepared, "dev") == kept
    assert prepared.manifest["notes"] == [
        "data.train: data.select leaves out 2 sentences of more than 9 words",
        "data.dev: data.select leaves out 2 sentences of more than 9 words",
    ]
    assert "s1" not in [prepared.vocabulary.decode(id) for id in range(prepared.vocabulary.size)]


def test_training_sentences_are_drawn_among_the_short_ones(prepared_with: Callable[..., Prepared]) -> None:
    prepared = prepared_with(words=9, sentences=4, seed=3)
    short = [f"s{number}" for number, length in enumerate(LENGTHS) if length <= 9]
    random.Random(3).shuffle(drawn := list(short))
    assert set(first_words(prepared, "train")) == set(drawn[:4])
    assert first_words(prepared, "dev") == [name if name in drawn[:4] else "<unk>" for name in short]
    assert "2 sentences of more than 9 words, and 4 others, as 4 were drawn" in prepared.manifest["notes"][0]


def test_each_selection_is_another_corpus(prepared_with: Callable[..., Prepared]) -> None:
    selections: list[dict[str, int]] = [{}, {"words": 9}, {"sentences": 4}, {"sentences": 4, "seed": 1}]
    made = [prepared_with(**select) for select in selections]
    assert len({prepared.folder for prepared in made}) == 4
    assert len({prepared.manifest["fingerprint"] for prepared in made}) == 4
    assert not prepared_with(sentences=4).fresh
    prepared = prepared_with(sentences=100)
    assert len(prepared.splits["train"]) == len(LENGTHS)
    assert prepared.manifest["notes"] == ["data.train: data.select.sentences is 100, 90 more than there are"]


def test_selections_that_are_refused(prepared_with: Callable[..., Prepared]) -> None:
    Path("text.txt").write_text("five words in this sentence\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"every sentence of data\.train has more than 2 words"):
        prepared_with(words=2)
    with pytest.raises(ValidationError, match="documents are read as a whole"):
        recipe({"kind": "pretrain"}, format="documents", select={"words": 2})
