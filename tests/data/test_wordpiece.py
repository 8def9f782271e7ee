"""WordPiece vocabularies: what BERT's tokenizer gives, its files with all their faults, and training."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from support import environment

from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.wordpiece import (
    Options,
    WordPieces,
    read_pieces,
    read_wordpieces,
    train_wordpieces,
)
from probtrans_cli.data.vocabularies.wordpiece_files import AddedToken
from probtrans_cli.errors import DataError, RecipeError, UsageError
from probtrans_cli.recipe.data import WordFeatures, WordPieceVocabulary

pytest.importorskip("tokenizers")

SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK] [unused1] [unused2] [unused3]"
PLAIN = "the un ##aff ##able run ##ning , . he ' s cafe Cafe Café 中 国 h ##e ##l ##o $ 5 is born"
TOY = f"{SPECIAL} {PLAIN}".split()
LETTERS = "abcdefghijklmnopqrstuvwxyzé"
LARGER = list(dict.fromkeys([*TOY, *LETTERS, *(f"##{letter}" for letter in LETTERS)]))
SENTENCES = [line.split() for line in ("the bakers sell many pies", "a baker bakes the pie", "pies are baked daily .")]


# --- text to ids ------------------------------------------------------------------------------------------------------


def test_text_in_lower_case() -> None:
    vocabulary = WordPieces(TOY)
    for text, ids in [
        ("The unaffable Café, running.", [2, 8, 9, 10, 11, 19, 14, 12, 13, 15, 3]),
        ("中国 hello", [2, 22, 23, 16, 26, 26, 27, 3]),
        ("he's born", [2, 16, 17, 18, 31, 3]),
        ("run\0ning\ufffd", [2, 12, 13, 3]),
        ("run\ud800ning\udfff", [2, 12, 13, 3]),
        ("$5", [2, 28, 29, 3]),
        ("x" * 101, [2, 1, 3]),
        ("the " + "x" * 200_000, [2, 8, 1, 3]),
        ("", [2, 3]),
        (" \t\r\n\u3000", [2, 3]),
        ("[unused1]", [2, 1, 1, 1, 3]),
        ("[MASK] the [SEP]", [2, 4, 8, 3, 3]),
        ("[mask]", [2, 1, 1, 1, 3]),
    ]:
        assert vocabulary.encode_text(text).ids == ids, text[:50]


def test_cased_text_and_a_pair() -> None:
    cased = WordPieces(TOY, Options(lowercase=False))
    text = "The unaffable Café, running."
    encoding = cased.encode_text(text)
    assert encoding.ids == [2, 1, 9, 10, 11, 21, 14, 12, 13, 15, 3]
    assert [text[begin:end] for begin, end in encoding.offsets[1:4]] == ["The", "un", "aff"]
    pair = WordPieces(TOY).encode_text("the", "run")
    assert (pair.ids, pair.segments) == ([2, 8, 3, 12, 3], [0, 0, 0, 1, 1])


def test_words() -> None:
    words = WordPieces(TOY)
    assert words.encode_part(["The", "", "unaffable", "he's", "\0", "x" * 101])[:2] == (
        [8, 1, 9, 10, 11, 16, 17, 18, 1, 1],
        [0, 1, 2, 5, 8, 9],
    )
    assert words.encode_words(["the", "running"])[:2] == ([2, 8, 12, 13, 3], [1, 2])
    assert words.encode_words([])[:2] == ([2, 3], [])
    assert (words.PAD, words.UNKNOWN, words.FIRST, words.LAST, words.MASK, words.size) == (0, 1, 2, 3, 4, 32)
    assert words.decode(21) == "Café"
    for special in words.options.specials:  # of a corpus, these are words like others
        assert not {0, 2, 3, 4} & set(words.encode_part([special, f"x{special}y", f" {special} "]).ids)


def test_special_pieces_are_found_by_their_names() -> None:
    options = Options(pad="<p>", unknown="<u>", first="<s>", last="</s>", mask="<m>", added=(AddedToken("<x>"),))
    words = WordPieces(["the", "</s>", "<m>", "run", "<s>", "<p>", "<u>", "<x>"], options)
    assert (words.PAD, words.UNKNOWN, words.FIRST, words.LAST, words.MASK) == (5, 6, 4, 1, 2)
    assert words.encode_text("the <m> zebra run<x>").ids == [4, 0, 2, 6, 3, 7, 1]
    assert words.encode_words(["the", "zebra"])[:2] == ([4, 0, 6, 1], [1, 2])


def test_long_words_of_any_kind() -> None:
    """So long that quadratic time would not end."""
    words, n = WordPieces(TOY), 100_000
    for character, pieces in (("x", 1), (".", n), ("中", n), ("\u0301", 0)):
        assert len(words.encode_text(character * n).ids) == 2 + pieces
        assert len(words.encode_part([character * n]).ids) == max(pieces, 1)


ALPHABET = "aehlnorstuxyzCAFÉé,.'$[]-#<>|~ "
ALPHABET += "\t\n\r\u00a0\u2028\u200d\u0301\0\ufffd\u4e2d\u56fd\uf900ßİ\U00020000\U0001f600"
PARTS = [*ALPHABET, *TOY, "[MASK]", "running", "unaffable", "e\u0301", "##", "[mask]"]
TEXTS = some.lists(some.sampled_from(PARTS) | some.text(max_size=3), max_size=12).map("".join)


@cache
def oracles(lowercase: bool, strip: bool | None, chinese: bool) -> tuple[WordPieces, Any]:
    """Our vocabulary and `transformers`' with the same options."""
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertTokenizer(
        vocab={piece: id for id, piece in enumerate(LARGER)},
        do_lower_case=lowercase,
        strip_accents=strip,
        tokenize_chinese_chars=chinese,
    )
    return WordPieces(LARGER, Options(lowercase=lowercase, strip_accents=strip, split_chinese=chinese)), theirs


@settings(deadline=None, max_examples=100)
@given(TEXTS, TEXTS, some.booleans(), some.sampled_from([None, False, True]), some.booleans())
def test_random_text_as_in_transformers(
    text: str, second: str, lowercase: bool, strip: bool | None, chinese: bool
) -> None:
    ours, theirs = oracles(lowercase, strip, chinese)
    inputs = [[text], [text, second]] if second else [[text]]  # to them, an empty second text makes no pair
    for texts in inputs:
        expected = theirs(*texts, return_offsets_mapping=True)
        columns = expected["input_ids"], expected["offset_mapping"], expected["token_type_ids"]
        assert ours.encode_text(*texts) == columns


@settings(deadline=None, max_examples=100)
@given(some.lists(TEXTS, max_size=5), some.booleans())
def test_random_words_as_in_transformers(words: list[str], lowercase: bool) -> None:
    ours, theirs = oracles(lowercase, None, True)
    ids, first, *_ = ours.encode_part(words)
    expected: list[int] = []
    for word, position in zip(words, first, strict=True):
        assert position == len(expected)
        expected += theirs(word, add_special_tokens=False, split_special_tokens=True)["input_ids"] or [1]
    assert ids == expected


@settings(deadline=None, max_examples=100)
@given(some.text(some.characters(codec=None), max_size=20))
def test_any_text_has_ids(text: str) -> None:
    ours, _ = oracles(True, None, True)
    assert ours.encode_text(text).ids[0] == ours.FIRST
    assert ours.encode_part([text]).word_start == [0]


# --- files ------------------------------------------------------------------------------------------------------------


def folder_of(folder: Path, pieces: str | bytes | None = None, **files: Any) -> Path:
    """A folder with a vocab.txt and JSON files; ``tokenizer_config={...}``."""
    if pieces is not None:
        (folder / "vocab.txt").write_bytes(pieces if isinstance(pieces, bytes) else pieces.encode())
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


LINES = "".join(f"{piece}\n" for piece in TOY)


def test_features_of_spelling_are_kept(tmp_path: Path) -> None:
    options = WordFeatures(prefixes=0, suffixes=2, rows=64)
    (tmp_path / "theirs").mkdir()
    folder_of(tmp_path / "theirs", "\n".join(TOY))
    for section in (
        WordPieceVocabulary(kind="wordpiece", size=60, features=options),
        WordPieceVocabulary(kind="wordpiece", folder=str(tmp_path / "theirs"), features=options),
    ):
        folder = tmp_path / "saved"
        folder.mkdir(exist_ok=True)
        build_vocabulary(section, SENTENCES).save(folder)
        features = load_vocabulary(folder).features
        assert features.section == options


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    options = Options(
        lowercase=False, strip_accents=True, split_chinese=False, mask="[unused1]", added=(AddedToken("[unused2]"),)
    )
    WordPieces(TOY, options).save(tmp_path)
    names = ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocabulary.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for missing in (None, "tokenizer.json", "vocab.txt"):
        if missing is not None:
            (tmp_path / missing).rename(tmp_path / "aside")
        again = read_wordpieces(tmp_path)
        assert (again.pieces, again.options) == (TOY, options), missing
        if missing is not None:
            (tmp_path / "aside").rename(tmp_path / missing)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("left", [["vocab.txt", "tokenizer_config.json"], ["tokenizer.json", "tokenizer_config.json"]])
def test_transformers_reads_what_was_written(tmp_path: Path, lowercase: bool, left: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    ours = WordPieces(LARGER, Options(lowercase=lowercase))
    ours.save(tmp_path)
    for path in tmp_path.iterdir():
        if path.name not in left:
            path.unlink()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ == "BertTokenizer"
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.mask_token_id) == (0, 1, 2, 4)
    for text in ("The unaffable Café, running.", "[MASK] he's", "中国 hello"):
        assert theirs(text)["input_ids"] == ours.encode_text(text).ids


@pytest.mark.parametrize("lowercase", [True, False])
def test_what_transformers_wrote_is_read(tmp_path: Path, lowercase: bool) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertTokenizer(vocab={piece: id for id, piece in enumerate(LARGER)}, do_lower_case=lowercase)
    theirs.save_pretrained(tmp_path)
    assert not (tmp_path / "vocab.txt").exists()
    ours = read_wordpieces(tmp_path)
    assert (ours.pieces, ours.options) == (LARGER, Options(lowercase=lowercase))
    (tmp_path / "tokenizer_config.json").unlink()
    assert read_wordpieces(tmp_path).options.lowercase == lowercase


def test_older_folders(tmp_path: Path) -> None:
    """Byte order mark, CR LF, no last line end, blank lines; special pieces in a file of their own."""
    pieces = b"\xef\xbb\xbf<p>\r\n[UNK]\r\n\r\n[CLS]\r\n[SEP]\r\n\r\n[MASK]\r\nthe\r\n\xe2\x80\xa8\r\n \r\nun"
    folder = folder_of(
        tmp_path, pieces, special_tokens_map={"pad_token": {"content": "<p>"}}, tokenizer_config={"do_lower_case": True}
    )
    words = read_wordpieces(folder)
    assert words.pieces == ["<p>", "[UNK]", "", "[CLS]", "[SEP]", "", "[MASK]", "the", "\u2028", " ", "un"]
    assert (words.PAD, words.MASK, words.size) == (0, 6, 11)
    assert words.encode_words(["the", "un"])[:2] == ([3, 7, 10, 4], [1, 2])
    words.save(folder)
    assert read_wordpieces(folder).pieces == words.pieces


def test_a_table_longer_than_the_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, LINES, config={"vocab_size": 40})
    words = build_vocabulary(WordPieceVocabulary(kind="wordpiece", folder=str(folder)), [["The", "the", "pie"]])
    assert (words.size, words.decode(39), len(words.pieces)) == (40, "", 32)
    assert [words.frequency(word) for word in ("the", "THE", "pie", "un")] == [2, 2, 1, 0]
    assert "warning" in (message := capsys.readouterr().err)
    assert "32 pieces, but the model's vocab_size is 40" in message
    (tmp_path / "saved").mkdir()
    words.save(tmp_path / "saved")
    again = load_vocabulary(tmp_path / "saved")
    assert (again.size, again.pieces, again.options) == (words.size, words.pieces, words.options)
    assert again.counts == words.counts


TOKENIZER: dict[str, Any] = json.loads(WordPieces(TOY)._text.to_str())


def tokenizer_json(*place: str, **changes: Any) -> dict[str, Any]:
    """A tokenizer.json that is good but for some values of the object at a place."""
    content: dict[str, Any] = json.loads(json.dumps(TOKENIZER))
    reduce(dict.__getitem__, place, content).update(changes)
    return {"tokenizer": content}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "neither vocab.txt nor tokenizer.json"),
        ({"pieces": LINES + "the\n"}, r"vocab.txt:33: the piece 'the' stands in line 9 already"),
        ({"pieces": b"[PAD]\n\xff\n"}, "vocab.txt:2: not UTF-8"),
        ({"pieces": LINES.replace("[MASK]", "[unused9]")}, r"special piece \[MASK\] is not in the vocabulary"),
        ({"pieces": LINES, "rows": 31}, r"32 pieces, but the model's vocab_size is 31"),
        ({"pieces": LINES, "tokenizer_config": "{"}, "tokenizer_config.json: not JSON"),
        ({"pieces": LINES, "tokenizer_config": "[" * 100_000}, "tokenizer_config.json: not JSON"),
        ({"pieces": LINES, "tokenizer_config": []}, "not the options of a BERT tokenizer"),
        ({"pieces": LINES, "tokenizer_config": {"do_basic_tokenize": False}}, "not the options of a BERT tokenizer"),
        ({"pieces": LINES, "tokenizer_config": {"do_lower_case": "yes"}}, "do_lower_case is 'yes'"),
        ({"pieces": LINES, "tokenizer_config": {"mask_token": 4}}, "mask_token is 4"),
        (
            {"pieces": LINES, "tokenizer_config": {"tokenizer_class": "BertJapaneseTokenizer"}},
            "tokenizer_class: 'BertJapaneseTokenizer' is unsupported",
        ),
        ({"tokenizer": {"version": "1.0"}}, "not the tokenizer of a BERT model"),
        (tokenizer_json("model", type="BPE"), "'BPE' instead of BERT's 'WordPiece'"),
        (tokenizer_json("normalizer", type="NFC"), "'NFC' instead of BERT's"),
        (tokenizer_json("model", continuing_subword_prefix="@@"), "'@@' instead of"),
        (tokenizer_json("model", "vocab", the=10**9), "ids of its pieces are not 0, 1"),
        (tokenizer_json("model", "vocab", the=float("inf")), "not the tokenizer of a BERT"),
        (tokenizer_json("normalizer", lowercase=[]), "not the tokenizer of a BERT"),
        (tokenizer_json("normalizer", strip_accents="x"), "not the tokenizer of a BERT"),
        (tokenizer_json("normalizer", handle_chinese_chars=7), "not the tokenizer of a BERT"),
        (tokenizer_json("model", unk_token=[]), "not the tokenizer of a BERT"),
        (tokenizer_json("model", "vocab", the=9), "ids of its pieces are not 0, 1"),
        ({"pieces": LINES.replace("the", "thy"), "tokenizer": TOKENIZER}, "vocab.txt:9: 'thy', but tokenizer.json has"),
    ],
)
def test_faulty_folders(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    rows = files.get("rows")
    folder = folder_of(tmp_path, **{name: content for name, content in files.items() if name != "rows"})
    with pytest.raises(DataError, match=message) as caught:
        read_wordpieces(folder, rows=rows)
    assert str(folder) in caught.value.message


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match="needs the package tokenizers") as caught:
        WordPieces(TOY)
    assert caught.value.hint == "pip install 'probtrans[hf]'"


def test_pieces_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_pieces(tmp_path)


# --- training ---------------------------------------------------------------------------------------------------------


def test_training() -> None:
    trained = train_wordpieces(SENTENCES, 60)
    assert trained.pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert {"bak", "##s"} & set(trained.pieces) or "bake" in trained.pieces
    assert trained.size <= 60
    assert trained.frequency("The") == trained.frequency("the") == 2
    assert trained.frequency("zebra") == 0
    ids, first, *_ = trained.encode_part(["bakers", "Pie", "zebra"])
    assert trained.UNKNOWN not in ids[: first[2]]
    assert ids[first[2] :] == [trained.UNKNOWN]
    cased = train_wordpieces([["Ab", "ab", "É"]], 30, Options(lowercase=False))
    assert {"A", "a", "É", "##b"} <= set(cased.pieces)
    assert (cased.frequency("Ab"), cased.frequency("ab")) == (1, 1)


def test_the_same_sentences_give_the_same_vocabulary() -> None:
    """In another process too, with other hashes and in another order of the sentences."""
    chance = random.Random(0)
    words = ["".join(chance.choice("abcdefghij") for _ in range(chance.randint(1, 7))) for _ in range(2000)]
    script = (
        "import json, sys; from probtrans_cli.data.vocabularies.wordpiece import train_wordpieces\n"
        "print(json.dumps(train_wordpieces([json.load(sys.stdin)], 300).pieces))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(words[::-1]), capture_output=True, text=True, env=environment()
    )
    assert json.loads(ran.stdout) == train_wordpieces([words], 300).pieces


def test_training_on_what_gives_no_vocabulary() -> None:
    with pytest.raises(DataError, match="no word"):
        train_wordpieces([["\0"], []], 60)
    with pytest.raises(RecipeError, match="6 pieces are fewer than the characters") as caught:
        train_wordpieces(SENTENCES, 6)
    least = int(str(caught.value.hint).split("size=")[1].split()[0])
    assert train_wordpieces(SENTENCES, least).size == least
