"""What is special about each kind of vocabulary: words, characters, sentencepiece, unread punctuation, extra words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Invoke, workplace

from probtrans_cli.commands.train import TrainRequest, train
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.corpus.tally import Tally, shortened
from probtrans_cli.data.sentence import Sentence, character_spans, extra_words
from probtrans_cli.data.tokens import tokenize
from probtrans_cli.data.vocabularies import build_vocabulary, load_vocabulary
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN, Vocabulary, enclosing, normalise
from probtrans_cli.data.vocabularies.spelling import looked_up
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.recipe.data import CharacterVocabulary, Data, SubwordVocabulary, WordPieceVocabulary, WordVocabulary
from probtrans_cli.trained.arcs import trees_of
from probtrans_cli.trained.model import Model

STEMS = [
    a + b + c for a in ("", "sla", "bro", "ti") for b in ("cat", "dog", "lar", "mon") for c in ("", "s", "ing", "ed")
]
LARGER = [["the", first, "saw", "a", second, "near"] for first in STEMS for second in STEMS]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


# --- words ------------------------------------------------------------------------------------------------------------


def test_words_are_ordered_by_count_then_alphabet() -> None:
    lines = ["the cat saw the dog", "the Dog saw 3 cats in 1,234.5 days", "a cat <unk> <mask> <pad>"]
    corpus = [line.split() for line in lines]
    words = build_vocabulary(WordVocabulary(), corpus)
    assert [words.decode(id) for id in range(7)] == ["<pad>", "<unk>", "<mask>", "the", "cat", "saw", "1,234.5"]
    assert words.size == 3 + 11
    assert words.encode_words(["the", "zebra", "cat"])[:2] == ([3, UNKNOWN, 4], [0, 1, 2])
    assert words.encode_words([]) == ([], [], 0, None)
    assert [words.frequency(word) for word in ("the", "saw", "dog", "zebra", "")] == [3, 2, 1, 0, 0]
    assert (words.PAD, words.UNKNOWN, words.MASK) == (PAD, UNKNOWN, MASK) == (0, 1, 2)
    words = build_vocabulary(WordVocabulary(lowercase=True, digits=True, min_count=2), corpus)
    assert [words.decode(id) for id in range(3, words.size)] == ["the", "N", "cat", "dog", "saw"]
    assert words.encode_words(["THE", "77", "in"]).ids == [3, 4, UNKNOWN]
    assert [words.frequency(word) for word in ("DOG", "1.5", "in")] == [2, 2, 0]
    assert build_vocabulary(WordVocabulary(max_size=2), corpus).size == 5


def test_digits() -> None:
    numbers = {"1,234.5": "N", "3rd": "Nrd", "a1b22": "aNbN", "-7": "-N", "10/12": "N/N", "5.": "N.", "٣": "N"}
    for word, expected in (numbers | {"x": "x"}).items():
        assert normalise(word, digits=True) == expected
        assert normalise(word) == word


# --- characters -------------------------------------------------------------------------------------------------------

CHARACTERS = "data.vocabulary={kind: char, lowercase: true}"
TRANSFORMER = "model={kind: transformer, width: 8, heads: 2, layers: 1, inner: 8}"


def test_characters() -> None:
    vocabulary = build_vocabulary(CharacterVocabulary(kind="char"), [["ab", "ba", "b", "<mask>"], ["ab", "c"]])
    entries = ["<pad>", "<unk>", "<mask>", "▁b", "▁a", "▁c", "b", "a", "c"]
    assert [vocabulary.decode(id) for id in range(vocabulary.size)] == entries
    encoded = vocabulary.encode_words(["cab", "b", "x", "axb", "", "<mask>", "<Mask>"])
    pieces = "▁c a b / ▁b / <unk> / ▁a <unk> b / <unk> / <unk> / <unk> <unk> a <unk> <unk> <unk>".replace("/ ", "")
    assert [vocabulary.decode(id) for id in encoded.ids] == pieces.split()
    assert encoded.word_start == [0, 3, 4, 5, 8, 9, 10]
    assert [vocabulary.frequency(word) for word in ("ab", "b", "cab", "AB", "<mask>")] == [2, 1, 0, 0, 0]
    assert vocabulary.encode_words(["ab", "c"]).ids != vocabulary.encode_words(["abc"]).ids
    section = CharacterVocabulary(kind="char", lowercase=True, min_count=3)
    vocabulary = build_vocabulary(section, [["Aab", "bA", "c", "▁"], ["<PAD>"]])
    assert [vocabulary.decode(id) for id in range(3, vocabulary.size)] == ["▁a", "a"]
    assert vocabulary.encode_words(["AA", "b"]).ids == [3, 4, vocabulary.UNKNOWN]
    assert vocabulary.frequency("AAB") == 1
    for min_count, sentences in ((9, [["Aab", "bA"]]), (1, [["<unk>"], ["<unk>", "<mask>"]])):
        with pytest.raises(DataError, match="no training character is frequent enough"):
            build_vocabulary(CharacterVocabulary(kind="char", min_count=min_count), sentences)


@pytest.mark.parametrize(
    "overrides",
    [
        ["task={kind: tagging, column: xpos, word_dropout: 1.0}", "data.longest=20", "data.too_long=window"],
        ["task.output=tied", TRANSFORMER, "data.longest=20", "data.too_long=cut"],
    ],
    ids=["tagging", "transformer"],
)
def test_train_eval_parse_and_export_with_characters(overrides: list[str], here: Path, invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", CHARACTERS, *overrides, "--run", "run", "--json")
    assert ran.code == 0, ran.err
    again = invoke("eval", "run", "--json", "--baselines")
    assert again.code == 0, again.err
    assert again.json["scores"]["test"] == ran.json["test"]
    text = "the fox don't sleep , İzmir ▁ <mask> ."
    (here / "text.txt").write_text(f"{text}\n\nx\n", "utf-8")
    lines = invoke("parse", "run", "text.txt", "-f", "jsonl").out.splitlines()
    trees = [json.loads(line) for line in lines]
    assert [tree["words"] for tree in trees] == [tokenize(text), [], ["x"]]
    for tree in trees:
        assert len(tree["heads"]) == len(tree["words"])
        assert sorted(tree["heads"])[-1:] <= [len(tree["words"])]
    assert invoke("parse", "run", "text.txt", "-f", "conllu", "--prob").code == 0
    if TRANSFORMER not in overrides:
        assert invoke("parse", "run", "text.txt", "-f", "tree", "--labels").code == 0
    assert invoke("export", "run", "out").code == 0
    assert invoke("parse", "out", "text.txt", "-f", "jsonl").out.splitlines() == lines


def test_characters_are_learned(here: Path, invoke: Invoke) -> None:
    """Every word is one of two, so its other characters tell a hidden one."""
    (here / "two.txt").write_text("abc xyz abc\nxyz abc\nabc abc xyz xyz\n" * 8, "utf-8")
    data = "data={train: two.txt, dev: two.txt, test: two.txt, vocabulary: {kind: char}}"
    ran = invoke("train", "tiny.yaml", data, "train.epochs=12", "optim.lr=0.1", "eval.every_steps=100", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["test"]["perplexity"] < 4.0  # of six entries, all of them as frequent


# --- sentencepiece ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_subwords(algorithm: Any, capfd: pytest.CaptureFixture[str]) -> None:
    section = SubwordVocabulary(kind="sentencepiece", size=32, algorithm=algorithm, lowercase=True)
    subwords, again = (build_vocabulary(section, iter(LARGER)) for _ in range(2))
    assert again.model == subwords.model
    assert subwords.size == 32
    assert [subwords.decode(id) for id in range(3)] == ["<pad>", "<unk>", "<mask>"]
    sentence = ["The", "catdog", "▁", "", "\u00a0", "🙂", "saw"]
    ids, first, *_ = subwords.encode_words(sentence)
    assert subwords.decode(ids[0]).startswith("▁t")
    assert "".join(subwords.decode(id) for id in ids[first[1] : first[2]]) == "▁catdog"
    assert (subwords.frequency("NEAR"), subwords.frequency("catdog")) == (len(LARGER), 0)
    assert len(subwords.encode_words(["x" * 1000]).ids) > 1
    the = subwords.encode_words(["the"]).ids
    assert subwords.encode_words(["the", "x" * 1_000_000])[:2] == ([*the, subwords.UNKNOWN], [0, len(the)])
    assert subwords.encode_text(f"the {'x' * 2000}").offsets[-1] == (4, 2004)
    assert capfd.readouterr() == ("", "")
    for size, message in ((8000, r"data.vocabulary.size: 8000 pieces are too many"), (16, "fewer than the characters")):
        section = SubwordVocabulary(kind="sentencepiece", size=size, algorithm=algorithm)
        with pytest.raises(RecipeError, match=message) as caught:
            build_vocabulary(section, LARGER)
        possible = int((caught.value.hint or "").split("=")[1].split()[0])
        assert build_vocabulary(section.model_copy(update={"size": possible}), LARGER).size == possible


@pytest.mark.parametrize("error", [DataError("train.conllu:7: no head"), KeyboardInterrupt()], ids=repr)
def test_an_error_of_the_corpus_is_not_one_of_sentencepiece(error: BaseException) -> None:
    def sentences() -> Iterator[list[str]]:
        yield from LARGER
        raise error

    with pytest.raises(type(error)) as caught:
        build_vocabulary(SubwordVocabulary(kind="sentencepiece", size=40), sentences())
    assert caught.value is error


# --- punctuation that is not read: the model never sees it, and every token is in the tree all the same ---------------

NO_PUNCTUATION = "data.vocabulary={kind: words, punctuation: false}"
TREEBANK = """1\t"\t_\tPUNCT\t_\t_\t3\t_\t_\t_
2\tgoats\t_\tNOUN\t_\t_\t3\t_\t_\t_
3\tsleep\t_\tVERB\t_\t_\t0\t_\t_\t_
4\t!\t_\tPUNCT\t_\t_\t3\t_\t_\t_
5\t)\t_\tPUNCT\t_\t_\t4\t_\t_\t_

1\t...\t_\tPUNCT\t_\t_\t0\t_\t_\t_
2\t!\t_\tPUNCT\t_\t_\t1\t_\t_\t_

"""


@given(st.lists(st.sampled_from(["a", "b1", "?", "...", "«", "c-d", "$"]), max_size=12))
def test_words_and_the_positions_that_stand_for_them(words: list[str]) -> None:
    vocabulary = build_vocabulary(WordVocabulary(punctuation=False), [["a", "b1", "c-d", "?", "?"]])
    ids, first, *_ = vocabulary.encode_words(words)
    assert [vocabulary.decode(id) for id in ids] == [word for word in words if word not in ("?", "...", "«", "$")]
    assert len(first) == len(words)
    for number, word in enumerate(words):
        before = [read for read in words[: number + 1] if read in ("a", "b1", "c-d")]
        assert first[number] == max(len(before) - 1, 0)
        if word in ("a", "b1", "c-d"):
            assert vocabulary.decode(ids[first[number]]) == word


def test_unread_punctuation_is_kept(tmp_path: Path) -> None:
    made = build_vocabulary(WordVocabulary(punctuation=False), [["a", "?", "?", "b"]])
    assert made.frequency("?") == 2  # as in the training file, for the floors
    assert made.size == 5
    made.save(tmp_path)
    again = load_vocabulary(tmp_path)
    assert (again.omitted, again.omits) == ({"?": 2}, True)
    assert again.encode_words(["?", "a"]) == made.encode_words(["?", "a"])
    assert not Words(["a"], [1], lowercase=False, digits=False).omits


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of a model that reads no punctuation."""
    folder = workplace(tmp_path_factory.mktemp("blind"))
    with chdir(folder):
        train(TrainRequest("tiny.yaml", [NO_PUNCTUATION, "train.epochs=2"]))
    return folder


def test_a_tree_is_that_of_the_words_with_the_rest_hung_in(blind: Path) -> None:
    model = Model.load(str(blind / "runs/tiny"))
    sentences = ["» the old , old farmers feed ... the goats . !", "goats sleep", "the fox .", "! ?"]
    read = [" ".join(word for word in text.split() if word[0].isalnum()) for text in sentences]
    readings = [
        model.read(channel, -1, decoder) for channel in ("0", "mean") for decoder in ("argmax", "mst", "eisner")
    ]

    def trees(texts: Sequence[str]) -> list[list[np.ndarray]]:
        corpus = Split.encode([Sentence(text.split()) for text in texts], model.vocabulary, model.labels)
        return trees_of(model, corpus, readings)

    for reading, of_sentences, of_words_alone in zip(readings, trees(sentences), trees(read), strict=True):
        if reading.decoder == "argmax" and not model.network.has_root_column:
            assert all(0 not in heads for heads in of_sentences[:2]), "there is no root to choose"
        for text, heads, of_words in zip(sentences, of_sentences, of_words_alone, strict=True):
            words = text.split()
            kept = [number for number, word in enumerate(words, start=1) if word[0].isalnum()]
            places = [head if head == 0 else kept.index(head) + 1 for head in (heads[n - 1] for n in kept)]
            assert places == list(of_words)
            for number, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
                if not word[0].isalnum() and kept:
                    assert head == max([n for n in kept if n < number], default=kept[0])
        assert of_sentences[-1].tolist() == [0, 1]


def test_the_command(blind: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(blind)
    (blind / "some.conllu").write_text((blind / "dev.conllu").read_text("utf-8") + TREEBANK, encoding="utf-8")
    scores = invoke("eval", "runs/tiny", "some.conllu", "--json", "--baselines").json["scores"]["some.conllu"]["trees"]
    assert scores["with_punct"]["all"]["words"] - scores["no_punct"]["all"]["words"] == 5
    parsed = invoke("parse", "runs/tiny", "some.conllu", "-f", "jsonl").out.splitlines()
    lines = [json.loads(line) for line in parsed[-2:]]
    assert [line["probabilities"][0] for line in lines] == [None, None]
    assert lines[0]["heads"][0] == 2
    assert lines[0]["heads"][3:] == [3, 3]
    for form in ("conllu", "tree", "html", "latex", "displacy"):
        assert invoke("parse", "runs/tiny", "some.conllu", "-f", form, "--prob").code == 0
    assert invoke("parse", "runs/tiny", "some.conllu", "-f", "jsonl", "--labels").code == 0
    refused = invoke("train", "tiny.yaml", "task={kind: tagging, column: xpos}", NO_PUNCTUATION, "--run", "runs/other")
    assert refused.code == 2
    assert "data.vocabulary.punctuation" in refused.err


# --- typographic marks of raw text, looked up in their plain spelling -------------------------------------------------

TEXT = ["“", "It", "’s", "don’t", "n’t", "…", "–", "—", "‘", "”", "well‑known", "«"]
PENN = ["``", "It", "'s", "don’t", "n't", "...", "--", "--", "`", "''", "well-known", "``"]
STRAIGHT = ['"', "It", "'s", "don’t", "n’t", "…", "-", "-", "'", '"', "well‑known", '"']


def test_unknown_words_are_looked_up_in_a_known_plain_spelling() -> None:
    for training, words, expected in [
        ("`` It 's n't ... -- ` '' well-known", TEXT, PENN),
        ("\" It 's - ' '", TEXT, STRAIGHT),
        ('`` `` "', ["“"], ["``"]),  # the most frequent one of several
        ('`` " "', ["“"], ['"']),
        ('`` "', ["“"], ['"']),
        ('“ It "', ["“", "It"], None),  # known words stay as they are
        ("It ``", ["It", '"', "unknown"], None),
        ("It", ["“"], None),
        ("It", [], None),
    ]:
        vocabulary = build_vocabulary(WordVocabulary(), [training.split()])
        assert looked_up(words, vocabulary.knows, vocabulary.frequency) == expected
    characters = build_vocabulary(CharacterVocabulary(kind="char"), [["don't", '"']])
    assert looked_up(["don’t", "“", "…"], characters.knows, characters.frequency) == ["don't", '"', "…"]
    pytest.importorskip("tokenizers")
    pieces = WordPieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "“", ".", "'"])
    assert looked_up(["“", "…", "’"], pieces.knows, pieces.frequency) == ["“", "...", "'"]


# --- extra words of open information extraction: an entry of its own for each, which no text can have -----------------

EXTRA = extra_words(3)
SENTENCES = [[*line.split(), *EXTRA] for line in ("a hen sat", "a hen ran off", "a [unused1] x")]
SECTIONS = [
    WordVocabulary(),
    WordVocabulary(min_count=3, max_size=1, lowercase=True, digits=True),
    WordVocabulary(punctuation=False),
    WordPieceVocabulary(kind="wordpiece", size=60),
]


def with_extra(section: Any) -> Vocabulary:
    if section.kind == "wordpiece":
        pytest.importorskip("tokenizers")
    return build_vocabulary(section, iter(SENTENCES), 3)


@pytest.mark.parametrize("section", SECTIONS, ids=["words", "few", "unread", "wordpiece"])
def test_each_has_one_entry_that_no_text_has(section: Any, tmp_path: Path) -> None:
    assert EXTRA == ["[unused1]", "[unused2]", "[unused3]"]
    vocabulary = with_extra(section)
    encoded = vocabulary.encode_words(["a", "[unused1]", "[UNUSED1]", "[unused9]", *EXTRA], 3)
    assert encoded.sizes[-3:] == [1, 1, 1]
    ids = [encoded.ids[start] for start in encoded.word_start[-3:]]
    assert [vocabulary.decode(id) for id in ids] == EXTRA
    assert len({*ids, *vocabulary.specials}) == 3 + len(vocabulary.specials)
    others = [encoded.ids[i] for i, word in enumerate(encoded.word_of_piece) if 0 <= word < 4]
    assert not {*ids} & {*others, *vocabulary.encode_text("a [unused1] [unused2] b").ids}
    assert [vocabulary.frequency(name) for name in EXTRA[1:]] == [3, 3]
    vocabulary.save(tmp_path)
    again = load_vocabulary(tmp_path)
    for number in (3, 0):
        assert again.encode_words(["a", *EXTRA], number) == vocabulary.encode_words(["a", *EXTRA], number)
    if not vocabulary.omits:  # a recipe that leaves words out has nothing around its sentences
        whole = enclosing(vocabulary)
        sentence = Sentence(words=["a", "[unused1]", *EXTRA], extra=3)
        row = Split.encode([sentence], whole, {}).row("ids", 0).tolist()
        assert row == whole.encode_words(sentence.words, 3).ids != whole.encode_words(sentence.words).ids
        assert [whole.decode(id) for id in row[-4:-1]] == EXTRA
        assert list(shortened([sentence], whole, Data(train="x", longest=len(row)), Tally("dev"))) == [sentence]


def test_frequency_and_size_of_a_word_vocabulary() -> None:
    vocabulary = with_extra(WordVocabulary(max_size=1))
    assert vocabulary.size == 3 + 1 + 3
    assert vocabulary.encode_words(["a", *EXTRA], 3).ids == [3, 4, 5, 6]
    assert vocabulary.encode_words(EXTRA).ids == [vocabulary.UNKNOWN] * 3
    assert list(vocabulary.entry_counts or ()) == [3, 3, 3, 3]
    sections = [*SECTIONS, CharacterVocabulary(kind="char"), SubwordVocabulary(kind="sentencepiece")]
    assert [section.has_extra_words for section in sections] == [True] * 4 + [False] * 2


def test_what_has_no_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no entry \[unused4\] for an extra word"):
        with_extra(WordVocabulary()).encode_words(["a", *extra_words(4)], 4)
    characters = build_vocabulary(CharacterVocabulary(kind="char"), [["a"]])
    with pytest.raises(DataError, match=r"no entry \[unused1\] for an extra word") as raised:
        characters.encode_words(["a", "[unused1]"], 1)
    assert "data.grid.extra_words=[]" in (raised.value.hint or "")
    pytest.importorskip("tokenizers")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "[unused2]", "a", "hen"]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    section = WordPieceVocabulary(kind="wordpiece", folder=str(tmp_path))
    with pytest.raises(DataError, match=rf"{tmp_path}: the vocabulary has no piece \[unused3\] for an extra word"):
        with_extra(section)
    without = build_vocabulary(section, iter([words[:-1] for words in SENTENCES]), 2)
    assert without.encode_words(["a", "hen", *EXTRA[:2]], 2).ids == [2, 7, 8, 5, 6, 3]
    assert without.encode_words(["[unused1]"]).sizes == [3]
    with pytest.raises(DataError, match=r"no entry \[unused3\]"):
        without.encode_words(EXTRA, 3)


def test_extra_words_have_no_place_in_the_text() -> None:
    for text in (None, "Say  [unused1]!"):
        shown, spans = character_spans(Sentence(words=["Say", "[unused1]", "!", *EXTRA], text=text, extra=3))
        assert shown == (text or "Say [unused1] !")
        assert [shown[begin:end] for begin, end in spans] == ["Say", "[unused1]", "!"]
