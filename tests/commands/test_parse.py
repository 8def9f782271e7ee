"""`parse`: what goes in comes out, in order, with the model's trees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support import Invoke, Stdin, assert_near, assert_near_text, sentences

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.trained.arcs import read_arcs
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Analysis, Parser

HOSTILE = ["<script>alert(1)</script>", "&amp;", '"', "'", "\\", "]]>", "{}", "\x1b[31m", "🦊", "اب", "%s", "<!--"]
HOSTILE.append("\u202e")


@dataclass
class Parse:
    """`parse` of a text with the tiny model, in the current folder."""

    run: str
    invoke: Invoke
    stdin: Stdin
    stderr: str = ""  # of the last call

    def __call__(
        self, text: str | bytes, *options: str, name: str = "input.txt", code: int = 0, says: str = "",
        piped: bool = False,
    ) -> str:  # fmt: skip
        """Parse a text, from a file or stdin; returns stdout. ``says``: what stands on stderr."""
        raw = text.encode() if isinstance(text, str) else text
        Path(name).write_bytes(raw)
        if piped:
            self.stdin(raw)
        ran = self.invoke("parse", self.run, *([] if piped else [name]), *options)
        assert ran.code == code, ran.err
        assert says in ran.err
        self.stderr = ran.err
        return ran.out

    def records(self, text: str | bytes, *options: str, name: str = "input.txt") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(text, "-f", "jsonl", *options, name=name).splitlines()]


@pytest.fixture
def parse(trained: Path, empty: Path, invoke: Invoke, stdin: Stdin) -> Parse:
    return Parse(str(trained / "runs/tiny"), invoke, stdin)


def heads_of(analysis: Analysis) -> list[int]:
    assert analysis.heads is not None
    return list(analysis.heads.tolist())


def column(number: int, conllu: str) -> list[list[str]]:
    """A column of CoNLL-U, by sentence, without multiword tokens and empty nodes."""
    blocks = [block for block in conllu.split("\n\n") if block.strip()]
    rows = [[line.split("\t") for line in block.splitlines() if line[0] != "#"] for block in blocks]
    return [[cells[number] for cells in of_block if cells[0].isdigit()] for of_block in rows]


def words_of(conllu: str) -> list[list[str]]:
    return column(1, conllu)


def assert_only_trees_changed(before: str, after: str) -> None:
    """Every line is there, in order, with the same columns but for HEAD, DEPREL and MISC of words."""
    old, new = before.splitlines(), after.splitlines()
    assert len(old) == len(new)
    for was, now in zip(old, new, strict=True):
        if was == now:
            continue
        a, b = was.split("\t"), now.split("\t")
        assert a[0].isdigit()
        assert a[:6] == b[:6]
        assert a[8] == b[8] or b[8] == "_"  # enhanced dependencies of the source's tree


def assert_trees(conllu: str) -> None:
    """One root, heads in range, no loop."""
    for of_sentence in column(6, conllu):
        heads = list(map(int, of_sentence))
        assert heads.count(0) == 1
        for start in range(1, len(heads) + 1):
            word, steps = start, 0
            while word:
                word, steps = heads[word - 1], steps + 1
                assert steps <= len(heads)


def numbers(block: str) -> list[str]:
    return [line.split("\t")[0] for line in block.splitlines() if line and line[0] != "#"]


def test_conllu_comes_out_as_it_went_in(parse: Parse, trained: Path) -> None:
    text = (trained / "test.conllu").read_text("utf-8")
    out = parse(text, name="toy.conllu")
    assert_only_trees_changed(text, out)
    assert_trees(out)
    assert parse(text, piped=True) == out  # CoNLL-U is recognised by its look, too


def test_a_treebank_with_multiword_tokens_and_empty_nodes(parse: Parse, corpora: Path) -> None:
    with (corpora / "ud/en_ewt/test.conllu").open(encoding="utf-8") as file:
        blocks = "".join(islice(file, 60_000)).split("\n\n")
    with_sign = {
        sign: [block for block in blocks[:-1] if any(sign in number for number in numbers(block))] for sign in "-."
    }
    assert all(with_sign.values()), "there are multiword tokens and empty nodes"
    text = "\n\n".join([*blocks[:150], *with_sign["-"][:20], *with_sign["."][:20]]) + "\n\n"
    out = parse(text, name="ewt.conllu")
    assert_only_trees_changed(text, out)
    assert_trees(out)


def test_gold_columns_change_nothing(parse: Parse, trained: Path) -> None:
    text = (trained / "test.conllu").read_text("utf-8")
    blank = "\n".join(
        "\t".join([*line.split("\t")[:2], *["_"] * 8]) if "\t" in line else line for line in text.split("\n")
    )
    for options in (["-f", "jsonl"], ["-f", "tree", "--prob"]):
        assert parse(text, *options, name="a.conllu") == parse(blank, *options, name="a.conllu")
    trees = [
        [line.split("\t")[6:8] for line in parse(one, name="a.conllu").splitlines() if "\t" in line]
        for one in (text, blank)
    ]
    assert trees[0] == trees[1]


def test_order_and_empty_lines(parse: Parse) -> None:
    lines = [" ".join(["goat"] * (number * 7 % 13)) for number in range(60)]
    out = parse.records("\n".join([*lines, ""]))
    assert [len(tree["words"]) for tree in out] == [number * 7 % 13 for number in range(60)]
    assert parse("\n\n\n", "-f", "jsonl").count("\n") == 3
    assert parse("", "-f", "jsonl") == ""
    assert parse("the goat\n\nthe fox\n", "-f", "tree").count("goat") == 1


def test_batch_mates_do_not_change_a_tree(parse: Parse) -> None:
    lines = ["the old farmers feed three goats", "goats sleep", "the fox sees the goat near the river"]
    together = parse("\n".join([*lines, ""]), "-f", "jsonl")
    assert_near_text(together, "".join(parse(line + "\n", "-f", "jsonl") for line in lines))


@pytest.mark.parametrize(("channel", "decoder"), [("0", "argmax"), ("mean", "mst"), ("0", "eisner")])
def test_portions_do_not_change_a_tree(trained: Path, channel: str, decoder: str) -> None:
    """Unknown words are all alike, but for the last digits of their marginals, which depend on the batch."""
    random = np.random.default_rng(0)
    words = ["goats", "sleep", *(f"unknown{number}" for number in range(20))]
    sentences = [Sentence(random.choice(words, random.integers(2, 15)).tolist()) for _ in range(60)]
    model = Model.load(str(trained / "runs/tiny"))
    readings = [model.read(channel, -1, decoder)]  # type: ignore[arg-type]
    together = [heads_of(one) for one in Parser(model, readings=readings).analyses(sentences)]
    for size in (1, 7):
        parts = [sentences[start : start + size] for start in range(0, len(sentences), size)]
        assert [heads_of(one) for part in parts for one in Parser(model, readings=readings).analyses(part)] == together


def test_a_line_has_the_probability_of_its_arcs(parse: Parse) -> None:
    (tree,) = parse.records("the old farmers feed the goats\n")
    assert tree["words"] == ["the", "old", "farmers", "feed", "the", "goats"]
    assert len(tree["heads"]) == 6
    text = parse("the old farmers feed the goats\n", "--prob")
    found = [line.split("\t")[9] for line in text.splitlines() if "\t" in line]
    assert sum(one.startswith("Prob=0.") or one == "Prob=1.0000" for one in found) == 5
    assert found[tree["heads"].index(0)] == "_"


def test_every_channel(parse: Parse) -> None:
    text = "the old farmers feed the goats\ngoats sleep\n"
    out = parse.records(text, "--channel", "all")
    assert [tree["channel"] for tree in out] == [0, 1, 0, 1]
    for channel in (0, 1):
        assert_near(parse.records(text, "--channel", str(channel)), out[channel::2], abs=2e-6)
    assert "channel 1" in parse(text, "-f", "tree", "--channel", "all")


def test_hostile_words(parse: Parse) -> None:
    text = " ".join(HOSTILE) + "\n"
    (block,) = words_of(parse(text, "--input", "tokens"))
    assert block == HOSTILE
    assert [record["words"] for record in parse.records(text, "--input", "tokens")] == [HOSTILE]
    picture = parse(text, "--input", "tokens", "-f", "svg")
    assert "<script" not in picture
    ElementTree.fromstring(picture.replace("\x1b", ""))
    assert "\x1b" not in parse(text, "--input", "tokens", "-f", "tree")
    ElementTree.fromstring(parse("a \x1b[31m \x07 b\n", "--input", "tokens", "-f", "svg"))


def test_output_to_files(parse: Parse, tmp_path: Path) -> None:
    text = "the old farmers feed the goats\ngoats sleep\n"
    assert parse(text, "-o", "out.conllu") == ""
    assert (tmp_path / "out.conllu").read_text("utf-8") == parse(text)
    assert parse(text, "-f", "svg", "-o", "pictures") == ""
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == 2
    assert parse("goats sleep\n", "-f", "svg", "-o", "one.svg") == ""
    assert (tmp_path / "one.svg").read_text("utf-8") == parse("goats sleep\n", "-f", "svg")
    assert parse(text, "-f", "svg", "-o", "input.txt/x", code=2) == ""


def test_an_output_is_a_file_of_its_own(parse: Parse, tmp_path: Path) -> None:
    for name, says in (("-", "standard output"), ("x.conllu.GZ", "not compressed")):
        assert parse("goats sleep\n", "-o", name, code=2, says=says) == ""
        assert not (tmp_path / name).exists()


def test_pictures_of_several_sentences_are_files(parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The goats sleep. The farmers feed them.\n\nOne more\n"
    assert parse(text, "-f", "svg", "--output-dir", "pictures.d") == ""
    names = sorted(path.name.partition("-")[0] for path in (tmp_path / "pictures.d").glob("*.svg"))
    assert names == ["0001", "0002", "0003", "0004"]  # an empty line is a sentence, as in every format
    assert parse("\ngoats sleep\n\n", "-f", "svg") == parse("goats sleep\n", "-f", "svg")
    parse(text, "-f", "svg", "--output-dir", "x", "-o", "y", code=2)
    parse(text, "-f", "svg", "--output-dir", "x", "--merge", code=2)

    def load(*_: object, **__: object) -> None:
        raise AssertionError("the model is loaded")

    monkeypatch.setattr(Model, "load", load)
    for wrong, options, says in (
        (text, (), "the input has several"),
        ("The goats sleep. They do.\n", (), "the input has several"),
        ("goats sleep\n", ("--channel", "all"), "several channels are asked for"),
        ("\n", (), "the input has none"),
    ):
        assert parse(wrong, "-f", "svg", *options, code=2, says=says) == ""
    assert parse(text, "-f", "svg", name="a", code=2) == parse(text, "-f", "svg", piped=True, code=2) == ""


def test_sentences_of_running_text(parse: Parse, trained: Path) -> None:
    text = 'The goats sleep. "Do they?" asked Dr. Smith.\n\n  the farmers feed the goats . \nGo! Stop.\n'
    lines = text.splitlines()
    records = parse.records(text)
    assert [" ".join(record["words"]) for record in records] == [
        "The goats sleep .", '" Do they ? " asked Dr. Smith .', "", "the farmers feed the goats .", "Go !", "Stop .",
    ]  # fmt: skip
    places = [(record.get("line"), record.get("start")) for record in records]
    assert places == [(1, 0), (1, 17), (None, None), (None, None), (4, 0), (4, 4)]
    for record in records:
        if "line" in record:
            assert lines[record["line"] - 1][record["start"] :].startswith(record["words"][0])
    texts = [line for line in parse(text).splitlines() if line.startswith("# text = ")]
    assert texts[:2] == ["# text = The goats sleep.", '# text = "Do they?" asked Dr. Smith.']
    for whole in (("--no-split",), ("--input", "tokens")):
        assert len(parse.records(text, *whole)) == len(lines)
    parse("The goats sleep. They do. Now.\n", "--longest", "4")
    parse("The goats sleep. They do. Now.\n", "--longest", "4", "--no-split", code=3)


def test_pictures_for_other_programs(parse: Parse) -> None:
    text = "the old farmers feed the goats\ngoats sleep\n"
    document = parse(text, "-f", "latex", "--prob")
    assert document.startswith("%")
    assert document.rstrip().endswith("\\end{document}")
    assert document.count("\\begin{dependency}") == 2
    lines = [json.loads(line) for line in parse(text, "-f", "displacy").splitlines()]
    assert [[word["text"] for word in line["words"]] for line in lines] == [line.split() for line in text.splitlines()]
    page = parse(text, "-f", "html")
    assert page == parse(text, "-f", "html", "--channel", "all")
    records = [json.loads(part.split("</script>")[0]) for part in page.split('class="sentence">')[1:]]
    assert [record["words"] for record in records] == [line.split() for line in text.splitlines()]
    tree, seen = parse.records(text)[0], records[0]
    assert seen["heads"][seen["iteration"]][seen["channel"]] == tree["heads"]
    parse(text, "-f", "html", "--labels", code=2)
    parse(text, "-f", "html", "--gold", code=3, says="input.txt:1: has no gold tree")
    parse(text, "-o", "no/such/file", code=2, says="error: no/such/file: cannot be written")


def test_gold_trees_beside_the_models(parse: Parse, trained: Path) -> None:
    treebank = (trained / "test.conllu").read_text("utf-8")
    trees = parse.records(treebank, "--gold", name="gold.conllu")
    alone = parse.records(treebank, name="gold.conllu")
    gold = [list(map(int, heads)) for heads in column(6, treebank)]
    assert [tree.pop("gold") for tree in trees] == gold
    assert trees == alone
    first = treebank.split("\n\n")[0] + "\n\n"
    assert ">gold<" in parse(first, "-f", "svg", "--gold", name="gold.conllu")
    assert ">gold<" not in parse(first, "-f", "svg", name="gold.conllu")
    parse(treebank, "--gold", name="gold.conllu", code=2)
    parse("goats sleep\n", "-f", "tree", "--gold", code=3, says="input.txt:1: has no gold tree")


def test_files_are_looked_for_as_corpora_are(parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the current folder first, then in $PROBTRANS_DATA; in bulk, too."""
    folder = tmp_path / "corpora" / "texts"
    folder.mkdir(parents=True)
    (folder / "more.txt").write_text("farmers fold\n", "utf-8")
    (folder / "input.txt").write_text("farmers fold\n", "utf-8")
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "corpora"))
    expected = ["goats sleep", "farmers fold"]
    for options in ([], ["--output-dir", "out"], ["--output-dir", "out", "--merge"]):
        out = parse("goats sleep\n", "texts/more.txt", "-f", "jsonl", *options)
        if "--output-dir" not in options or "--merge" in options:
            assert [" ".join(json.loads(line)["words"]) for line in out.splitlines()] == expected
    parse("goats sleep\n", "texts/none.txt", code=3, says=f"tried texts/none.txt, {folder}/none.txt")


def test_a_fault_names_its_line_behind_what_is_before_it(parse: Parse) -> None:
    parse("1\tgoat\t_\n", name="bad.conllu", code=3, says="bad.conllu:1")
    out = parse(b"the goat sleeps\ngoats sleep\nthe \xff goat\n", "-f", "jsonl", code=3)
    assert "input.txt:3" in parse.stderr
    assert [json.loads(line)["words"] for line in out.splitlines()] == [["the", "goat", "sleeps"], ["goats", "sleep"]]


def test_long_sentences(parse: Parse) -> None:
    text = "goats sleep\n" + "goats " * 300 + "\n"
    assert_trees(parse(text))
    assert len(words_of(parse(text, "--longest", "299", code=3))) == 1
    assert "input.txt:2: a sentence of at least 300 words" in parse.stderr
    assert "--longest N" in parse.stderr


def test_long_words(parse: Parse) -> None:
    """A word is one word, however long it is, and whatever is in it."""
    out = parse("goats " + "x" * 1_000_000 + " sleep\n\0\ngo\0ats sleep\0\n")
    assert [len(sentence) for sentence in words_of(out)] == [3, 1, 2]


def test_the_root_of_a_model_with_one(here: Path, tmp_path: Path, invoke: Invoke) -> None:
    """Its arcs have a column for the root, from which the probability of the root's arc comes."""
    run = tmp_path / "rooted"
    assert invoke("train", "tiny.yaml", "model.root={}", "train.epochs=2", "--run", str(run)).ok
    (tmp_path / "words.txt").write_text("the old farmers feed the goats\n", encoding="utf-8")
    ran = invoke("parse", str(run), str(tmp_path / "words.txt"), "-f", "jsonl", "--iteration", "-1", "--channel", "1")
    tree = ran.json
    model = Model.load(str(run))
    assert model.network.has_root_column
    corpus = Split.encode([Sentence(tree["words"])], model.vocabulary, model.labels)
    ((batch, _),) = read_arcs(model, corpus, [model.read("1", -1, None)])
    assert batch.arcs.shape == (1, 1, 2, 6, 7)
    np.testing.assert_allclose(batch.arcs.sum(-1), 1.0, atol=1e-6)
    columns = [head - 1 if head else 6 for head in tree["heads"]]
    assert model.arc_temperature is not None
    powers = np.asarray(batch.arcs[0, 0, 1]) ** (1.0 / model.arc_temperature)
    probabilities = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(tree["probabilities"], probabilities[np.arange(6), columns], atol=1e-6)
    options = ["-f", "jsonl", "--iteration", "-1", "--channel", "mean", "--marginals"]
    of_mean = invoke("parse", str(run), str(tmp_path / "words.txt"), *options).json["marginals"]
    products = np.asarray(batch.arcs[0, 0]).prod(0) ** (1.0 / batch.arcs.shape[2])
    products[np.arange(6), np.arange(6)] = 0.0
    expected = np.roll(products / products.sum(-1, keepdims=True), 1, axis=1)
    np.testing.assert_allclose(of_mean, expected, atol=1e-6)


def test_raw_text_is_tokenised_and_tokens_are_not(parse: Parse) -> None:
    assert words_of(parse("The goats don't sleep.\n")) == [["The", "goats", "do", "n't", "sleep", "."]]
    assert words_of(parse("The goats don't sleep.\n", "--input", "tokens")) == [["The", "goats", "don't", "sleep."]]


def test_gold_in_a_terminal_is_a_picture_of_its_own(parse: Parse) -> None:
    """Also where the tree is too wide to be drawn with arcs; the probabilities stay."""
    for copies in (1, 40):
        rows = [f"{i}\tgoats\t_\t_\t_\t_\t{i - 1}\t_\t_\t_\n" for i in range(1, 3 * copies + 1)]
        text = parse("".join(rows) + "\n", "-f", "tree", "--gold", "--prob", "--channel", "1", name="gold.conllu")
        ours, gold = text.split("gold\n")
        plain = parse("".join(rows) + "\n", "-f", "tree", "--prob", "--channel", "1", name="gold.conllu")
        assert ours == "channel 1\n" + plain.rstrip("\n") + "\n"
        assert gold.count("goats") == 3 * copies
        assert gold.endswith("\n\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#goats sleep\ngoats eat\n", ["#goats", "sleep"]),
        ("# Goats\n\ngoats eat\n", ["#", "Goats"]),
        ("# made by hand\n1\tgoats" + "\t_" * 8 + "\n\n", ["goats"]),
        ("\n\n1\tgoats" + "\t_" * 8 + "\n\n", ["goats"]),
        ("# text =\n\n", []),
        ("#goats\n" * 300, ["#goats"]),
    ],
)
def test_text_may_begin_with_a_hash_and_conllu_with_anything(parse: Parse, text: str, words: list[str]) -> None:
    first = parse.records(text, name="unnamed")[0]
    assert "".join(first["words"]) == "".join(words)


def test_broken_conllu_is_not_taken_for_text(parse: Parse) -> None:
    parse("# sent_id = 1\n1 goats\n", name="unnamed", code=3, says="unnamed:2: 1 column instead of 10")


def test_line_ends_stay_as_they_are(parse: Parse) -> None:
    text = sentences("dev", 3)
    plain, windows = parse(text, name="x.conllu"), parse(text.replace("\n", "\r\n"), name="x.conllu")
    assert "\r" not in plain
    assert windows == plain.replace("\n", "\r\n")
    parse(text.replace("\n", "\r\n"), "-o", "out.conllu", name="x.conllu")
    assert Path("out.conllu").read_bytes().decode() == windows


# --- what the input is ------------------------------------------------------------------------------------------------

RANGE = "1-1\tdu\t_\t_\t_\tTypo=Yes\t_\t_\t_\tSpaceAfter=No\n"
WORDS = "1\tthe\t_\t_\t_\t_\t0\troot\t_\t_\n2\tgoats\t_\t_\t_\t_\t1\tdep\t_\tA=b\n"


def test_a_range_of_a_single_word_comes_back(parse: Parse) -> None:
    names = ("a.conllu", "a.conll", "a.cupt", "a.txt", "a")
    for name, ends in zip(names, ("\n", "\r\n", "\n", "\r\n", "\n"), strict=True):
        content = f"# sent_id = 1\n{RANGE}{WORDS}\n".replace("\n", ends)
        out = parse(content, name=name)
        assert out.split(ends)[:2] == content.split(ends)[:2]
        assert words_of(out.replace("\r\n", "\n")) == [["the", "goats"]]
        assert parse.stderr == ""


def test_conllu_plus_becomes_conllu(parse: Parse) -> None:
    columns = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE"
    rows = [f"{row}\t{mwe}" for row, mwe in zip(WORDS.split("\n"), ("1:VID", "*"), strict=False)]
    out = parse(
        "\n".join([f"# global.columns = {columns}", *rows, "", WORDS.replace("\t_\n", "\t_\t1\n")[:-1] + "\t2\n"])
    )
    assert [line.split("\t")[9] for line in out.split("\n") if line.count("\t") == 9] == [
        "PARSEME:MWE=1:VID",
        "A=b|PARSEME:MWE=*",
        "PARSEME:MWE=1",
        "A=b|PARSEME:MWE=2",
    ]
    parse(
        f"# global.columns = {columns.replace('HEAD ', '')}\n{WORDS}",
        code=3,
        says="input.txt:1: # global.columns lacks HEAD",
    )


@pytest.mark.parametrize("piped", [False, True])
def test_what_is_read_as_text_and_does_not_look_so(parse: Parse, piped: bool) -> None:
    name = "<stdin>" if piped else "input.txt"
    for content, options, kind in (
        (WORDS, ("--input", "text"), "CoNLL-U"),
        (WORDS, ("--input", "tokens"), "CoNLL-U"),
        ("a\tb\nc\td\n", (), "rows of columns"),
        ('{"text": "a"}\n', (), "JSON"),
        ("two goats\n", (), None),
    ):
        parse(content, *options, piped=piped)
        told = "" if kind is None else f"warning: {name}: looks like {kind}, but each line is read as a sentence: "
        assert parse.stderr.startswith(told)
        assert bool(parse.stderr) == bool(told)


def test_rows_of_other_formats_are_no_text(parse: Parse) -> None:
    for content, fault in (
        (WORDS.replace("\t", " "), "1 column instead of 10"),
        (WORDS.replace("\n", "\t_\n"), "11 columns instead of 10"),
    ):
        parse(content, code=3, says=f"input.txt:1: {fault}")
        assert "--input text" in parse.stderr


@pytest.mark.parametrize("piped", [False, True])
def test_a_line_without_end(parse: Parse, piped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probtrans_cli.data.files.LONGEST_LINE", 1000)
    parse(b"goats sleep\n" + b"a" * 3000, piped=piped, code=3)
    name = "<stdin>" if piped else "input.txt"
    assert f"{name}:2: a line of more than 1,000 bytes" in parse.stderr
