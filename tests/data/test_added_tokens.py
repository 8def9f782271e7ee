"""Tokens added to a BERT's tokenizer: found in words as `transformers` finds them, in folders of every form."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.wordpiece import WordPieces, identity_of, read_wordpieces
from probtrans_cli.data.vocabularies.wordpiece_files import AddedToken, Options, division
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import WordPieceVocabulary

transformers = pytest.importorskip("transformers")

LETTERS = "abcdefghijklmnopqrstuvwxyz<>/[]é"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "[unused1]", "foo", "bar", "##bar", "new", "york", "covid", *LETTERS]
VOCABULARY += [f"##{letter}" for letter in LETTERS]
NEXT = len(VOCABULARY)

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
TOKENS: dict[str, list[dict[str, Any]]] = {
    "plain": [{"content": "<ent>", "normalized": True}, {"content": "covfefe", "normalized": True}],
    "special": [{"content": "[E1]", "special": True}, {"content": "[E2]", "special": True}],
    "upper case, cleaned": [{"content": "<ENT>", "normalized": True}, {"content": "NaCl", "normalized": True}],
    "upper case, as it stands": [{"content": "<ENT>"}, {"content": "NaCl"}],
    "accents": [{"content": "Éa", "normalized": True}, {"content": "Éb"}],
    "single words": [{"content": "co", "single_word": True}, {"content": "<x>", "single_word": True}],
    "blanks": [{"content": "<l>", "lstrip": True}, {"content": "<r>", "rstrip": True, "normalized": True}],
    "several words": [{"content": "New York", "normalized": True}, {"content": "foo bar foo"}],
    "pieces of the vocabulary": [{"content": "[unused1]", "special": True}, {"content": "bar", "single_word": True}],
    "one in another": [{"content": "<e"}, {"content": "<ent>", "normalized": True}, {"content": "nt", "special": True}],
    "specials of another form": [
        {"content": "[MASK]", "special": True, "lstrip": True, "id": 4},
        {"content": "<ent>", "special": True},
    ],
}
SPACED = """
    foo<ent>bar <ent> <ENT> <Ent> covfefe Covfefe xcovfefes [E1] [e1] a[E2]b NaCl nacl NACL Éa éa ea eb Éb ÉB co
    covid co-co <x> a<x>b <l> a<l>b <r> newyork [unused1] [UNUSED1] bar foobar <e nt want ent zebra 中ent国 ent, ,ent
    \u0301ent e\u0301a enT
"""
WORDS = SPACED.split()
WORDS += [" <l> x", "x  <r>  x", "New York", "new  york", "in new york.", "foo bar foo", "a<l> <r>b", "\0<ent>\0"]


def write(path: Path, content: Any) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def write_pieces(folder: Path, pieces: list[str] = VOCABULARY) -> None:
    write(folder / "vocab.txt", "".join(f"{piece}\n" for piece in pieces))


def folder_of(folder: Path, form: str, tokens: list[dict[str, Any]], lowercase: bool) -> Path:
    """A folder with added tokens, in one of the forms in which these are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"}
    ids = numbered(tokens)
    if form == "saved by transformers":
        theirs = transformers.BertTokenizerFast(
            vocab={piece: id for id, piece in enumerate(VOCABULARY)}, do_lower_case=lowercase
        )
        theirs.add_tokens([transformers.AddedToken(**whole(token)) for token in tokens])
        theirs.save_pretrained(folder)
        return folder
    write_pieces(folder)
    if form == "added_tokens_decoder":
        config["added_tokens_decoder"] = {
            str(id): {"content": name, **flags(special=True)} for id, name in enumerate(SPECIAL)
        }
        config["added_tokens_decoder"] |= {str(ids[token["content"]]): whole(token) for token in tokens}
    else:
        beyond = {name: id for name, id in ids.items() if name not in VOCABULARY}
        write(folder / "added_tokens.json", beyond)
        special = [token["content"] for token in tokens if token.get("special") and token["content"] not in SPECIAL]
        if form == "special_tokens_map.json":
            content = {"mask_token": "[MASK]", "additional_special_tokens": special}
            write(folder / "special_tokens_map.json", content)
        else:
            config["additional_special_tokens"] = special
    write(folder / "tokenizer_config.json", config)
    return folder


def numbered(tokens: list[dict[str, Any]]) -> dict[str, int]:
    """The id of every token: of its line, or the next one behind the lines."""
    names = [token["content"] for token in tokens]
    beyond = [name for name in names if name not in VOCABULARY]
    return {name: VOCABULARY.index(name) if name in VOCABULARY else NEXT + beyond.index(name) for name in names}


def flags(**values: bool) -> dict[str, bool]:
    return {name: values.get(name, False) for name in FLAGS}


def whole(token: dict[str, Any]) -> dict[str, Any]:
    return {"content": token["content"], **flags(**{name: token[name] for name in FLAGS if name in token})}


def assert_as_theirs(ours: WordPieces, theirs: Any, words: list[str]) -> None:
    """Ids and words of a sentence, and of running text."""
    encoded, expected = ours.encode_words(words), theirs(words, is_split_into_words=True)
    assert encoded.ids == expected["input_ids"]
    assert encoded.word_of_piece == [-1 if word is None else word for word in expected.word_ids()]
    text = " ".join(words)
    assert ours.encode_text(text).ids == theirs(text)["input_ids"]


FORMS = ["saved by transformers", "added_tokens_decoder", "special_tokens_map.json", "additional_special_tokens"]


PRODUCT = [(name, form, lowercase) for name in TOKENS for form in FORMS for lowercase in (True, False)]


@pytest.mark.parametrize(("name", "form", "lowercase"), PRODUCT[::3])
def test_ids_and_words_as_in_transformers(tmp_path: Path, name: str, form: str, lowercase: bool) -> None:
    folder = folder_of(tmp_path / "theirs", form, TOKENS[name], lowercase)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = read_wordpieces(folder)
    assert_as_theirs(ours, theirs, WORDS)
    for content, id in theirs.get_added_vocab().items():
        assert (ours.decode(id), ours.pieces.index(content)) == (content, id)
    # What is written of it is the same vocabulary, to us and to them, whole or in older files.
    ours.save(tmp_path)
    for left in ({"vocab.txt", "tokenizer.json"}, {"tokenizer.json"}, {"vocab.txt"}):
        copy = tmp_path / f"with {' '.join(sorted(left))}"
        copy.mkdir()
        for name in (*left, "tokenizer_config.json"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
        again = read_wordpieces(copy)
        assert (again.pieces, again.options) == (ours.pieces, ours.options)
        assert_as_theirs(again, transformers.AutoTokenizer.from_pretrained(copy), WORDS)
    assert_as_theirs(load_vocabulary(tmp_path), theirs, WORDS)


def test_an_added_token_has_its_own_row(tmp_path: Path) -> None:
    """The example by itself: these were `[UNK]` or pieces before."""
    folder = folder_of(tmp_path, "special_tokens_map.json", TOKENS["plain"], lowercase=True)
    words = read_wordpieces(folder, rows=NEXT + 2)
    assert words.encode_part(["foo<ent>bar", "COVFEFE"]).ids == [6, NEXT, 7, NEXT + 1]
    assert words.encode_part(["foo<ent>bar", "COVFEFE"]).word_start == [0, 3]
    assert (words.decode(NEXT), words.size) == ("<ent>", NEXT + 2)


def test_a_corpus_gives_no_instructions(tmp_path: Path) -> None:
    """The five special pieces of BERT are no words, whatever the flags with which they are searched for in text."""
    words = read_wordpieces(folder_of(tmp_path, "added_tokens_decoder", TOKENS["specials of another form"], True))
    for word in SPECIAL:
        assert not {0, 2, 3, 4} & set(words.encode_part([word, f"x{word}y"]).ids)
    assert words.encode_part(["[MASK]<ent>"]).ids[-1] == NEXT


ALPHABET = [*"aeétnE<>[]1/ ,.-'\u0301\u4e2d\u00a0\0", "<ent>", "ent", "Ent", "foo", "bar", "New York", "[MASK]x"]
TEXTS = some.lists(some.sampled_from(ALPHABET), min_size=1, max_size=6).map("".join)
KINDS = some.fixed_dictionaries({name: some.booleans() for name in FLAGS})


@cache
def theirs_of(lowercase: bool, tokens: tuple[AddedToken, ...]) -> Any:
    vocabulary = {piece: id for id, piece in enumerate(VOCABULARY)}
    theirs = transformers.BertTokenizerFast(vocab=vocabulary, do_lower_case=lowercase)
    theirs.add_tokens([transformers.AddedToken(token.content, **token.flags) for token in tokens])
    return theirs


@settings(deadline=None, max_examples=150)
@given(some.dictionaries(TEXTS, KINDS, max_size=4), some.lists(TEXTS, max_size=6), some.booleans())
def test_random_tokens_in_random_words(tokens: dict[str, dict[str, bool]], words: list[str], lowercase: bool) -> None:
    added = tuple(
        AddedToken(name, **kind, listed=name in VOCABULARY) for name, kind in tokens.items() if name not in SPECIAL
    )
    beyond = [token.content for token in added if not token.listed]
    options = Options(lowercase=lowercase, added=added)
    cleaned = [division(options)[0].normalize_str(token.content) for token in added if token.normalized]
    assume(len({*cleaned, ""}) == len(cleaned) + 1)
    theirs = theirs_of(lowercase, added)
    ours = WordPieces([*VOCABULARY, *beyond], options)
    for word in words:
        expected = theirs(word, add_special_tokens=False)["input_ids"]
        if not {0, 2, 3, 4} & set(expected):
            assert ours.encode_part([word]).ids == (expected or [ours.UNKNOWN])
        assert ours.encode_text(word).ids == theirs(word)["input_ids"]


# --- what cannot be read as transformers reads it ---------------------------------------------------------------------

DECODED = {"content": "<ent>", **flags()}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"added_tokens": {"<ent>": NEXT + 5}},
            f"'<ent>' has the id {NEXT + 5}, but the package tokenizers gives it {NEXT}",
        ),
        ({"added_tokens": {"<ent>": 7}}, "'<ent>' has the id 7, which is that of 'bar'"),
        ({"added_tokens": {"foo": 7}}, "'foo' has the id 7, but 6 in another file"),
        ({"added_tokens": {"<ent>": NEXT, "<x>": NEXT}}, f"'<x>' has the id {NEXT}, which is that of '<ent>'"),
        ({"added_tokens": {"<ent>": 10**9}}, "'<ent>' has the id 1,000,000,000"),
        ({"added_tokens": {"<ent>": -1}}, "'<ent>' has the id -1"),
        ({"added_tokens": {"<ent>": "x"}}, "'<ent>' has the id 'x'"),
        ({"added_tokens": {"<ent>": True}}, "'<ent>' has the id True"),
        ({"added_tokens": {"": NEXT}}, "an added token is"),
        ({"added_tokens": ["<ent>"]}, "added_tokens.json: not an object of ids by token"),
        ({"added_tokens": "{"}, "added_tokens.json: not JSON"),
        ({"added_tokens": {"<ent>": NEXT}, "rows": NEXT}, f"'<ent>' has the id {NEXT}, but the model's vocab_size is"),
        ({"added_tokens": {"\0": NEXT}}, r"'\\x00' is empty once it is cleaned"),
        ({"tokenizer_config": {"added_tokens_decoder": []}}, r"added_tokens_decoder is \[\]"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": DECODED}}}, "'<ent>' has the id 'x'"),
        ({"tokenizer_config": {"added_tokens_decoder": {str(NEXT): 3}}}, "an added token is 3"),
        (
            {"tokenizer_config": {"added_tokens_decoder": {str(NEXT): {**DECODED, "lstrip": 1}}}},
            "lstrip of '<ent>' is 1",
        ),
        ({"tokenizer_config": {"additional_special_tokens": "<ent>"}}, "additional_special_tokens is '<ent>'"),
        ({"tokenizer_config": {"additional_special_tokens": [3]}}, "an added token is 3"),
        (
            {"tokenizer_config": {"additional_special_tokens": ["<ent>"]}, "rows": NEXT},
            f"'<ent>' has the id {NEXT}, but the model's vocab_size is",
        ),
    ],
)
def test_faulty_added_tokens_are_named(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    write_pieces(tmp_path)
    for name, content in files.items():
        if name != "rows":
            write(tmp_path / f"{name}.json", content)
    with pytest.raises(DataError, match=message) as caught:
        read_wordpieces(tmp_path, rows=files.get("rows"))
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


def test_two_files_that_contradict_each_other(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "saved by transformers", TOKENS["plain"], lowercase=True)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    write(path, config | {"added_tokens_decoder": {}})
    with pytest.raises(DataError, match=r"added_tokens_decoder has no '<ent>', but tokenizer\.json has"):
        read_wordpieces(folder)


def test_blank_lines_before_added_tokens(tmp_path: Path) -> None:
    """There `transformers` counts the pieces, and gives the token the id of one of them."""
    write_pieces(tmp_path, [*VOCABULARY[:8], "", *VOCABULARY[9:]])
    assert read_wordpieces(tmp_path).size == NEXT
    write(tmp_path / "added_tokens.json", {"<ent>": NEXT})
    with pytest.raises(DataError, match="but the package tokenizers gives it") as caught:
        read_wordpieces(tmp_path)
    assert "fill its blank lines" in str(caught.value.hint)


def test_tokens_of_which_chance_chooses_one(tmp_path: Path) -> None:
    """The package keeps them in a table without order: which of them is found differs from one process to the next."""
    tokens = [{"content": "ent", "normalized": True}, {"content": "ÉNT", "normalized": True}]
    folder = folder_of(tmp_path, "added_tokens_decoder", tokens[:1], lowercase=True)
    assert read_wordpieces(folder).encode_part(["Ént"]).ids == [NEXT]
    with pytest.raises(DataError, match="the added tokens 'ent' and 'ÉNT' are the same once they are cleaned"):
        read_wordpieces(folder_of(tmp_path, "added_tokens_decoder", tokens, lowercase=True))
    folder_of(tmp_path, "added_tokens_decoder", tokens, lowercase=False)
    assert read_wordpieces(tmp_path).encode_part(["ent", "ÉNT"]).ids == [NEXT, NEXT + 1]


def test_names_of_special_tokens_without_an_id(tmp_path: Path) -> None:
    write_pieces(tmp_path)
    config = {"bos_token": "[BOS]", "eos_token": None, "ent_token": "<ent>", "additional_special_tokens": ["<x>"]}
    write(tmp_path / "tokenizer_config.json", config)
    theirs = transformers.BertTokenizerFast.from_pretrained(tmp_path)
    ours = read_wordpieces(tmp_path)
    assert ours.pieces[NEXT:] == ["[BOS]", "<ent>", "<x>"]
    assert_as_theirs(ours, theirs, ["[BOS]", "<ENT>", "a<ent>b", "<x>"])
    del config["additional_special_tokens"]
    write(tmp_path / "tokenizer_config.json", config)
    assert read_wordpieces(tmp_path, rows=NEXT).pieces == VOCABULARY  # names for which the model has no rows


def test_a_blank_within_a_token_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, "added_tokens_decoder", TOKENS["several words"], lowercase=True)
    build_vocabulary(WordPieceVocabulary(kind="wordpiece", folder=str(folder)), [["new", "york"]])
    assert "found within one word alone: New York, foo bar foo" in capsys.readouterr().err


def test_added_tokens_belong_to_the_identity_of_a_vocabulary(tmp_path: Path) -> None:
    section = WordPieceVocabulary(kind="wordpiece", folder=str(tmp_path))
    prints = set()
    for tokens in ("plain", "single words"):
        folder_of(tmp_path, "special_tokens_map.json", TOKENS[tokens], lowercase=True)
        prints.add(identity_of(section)["folder"])
    assert len(prints) == 2


def test_the_vocabulary_of_another_kind_of_model_is_refused_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "config.json", {"model_type": "deberta-v2", "vocab_size": 9})
    write(tmp_path / "tokenizer.json", {"model": {"type": "Unigram", "vocab": []}})
    with pytest.raises(DataError, match=r"config\.json is that of a model of type 'deberta-v2'"):
        build_vocabulary(WordPieceVocabulary(kind="wordpiece", folder=str(tmp_path)), [["new"]])


def test_an_extra_word_is_no_word_of_a_corpus(tmp_path: Path) -> None:
    tokens = [{"content": "[unused1]", "special": True}, {"content": "[unused2]", "special": True}, {"content": "<x>"}]
    folder = folder_of(tmp_path, "added_tokens_decoder", tokens, lowercase=True)
    section = WordPieceVocabulary(kind="wordpiece", folder=str(folder))
    words = build_vocabulary(section, [["new", "[unused1]", "[unused2]"]], 2)
    (tmp_path / "saved").mkdir()
    words.save(tmp_path / "saved")
    for vocabulary in (words, load_vocabulary(tmp_path / "saved")):
        ids = vocabulary.encode_words(["a[unused1]", "[unused2]", "<x>", "[unused1]", "[unused2]"], extra=2).ids
        assert ids[-4:-1] == [NEXT + 1, VOCABULARY.index("[unused1]"), NEXT]
        assert not {VOCABULARY.index("[unused1]"), NEXT} & set(ids[:-3])
