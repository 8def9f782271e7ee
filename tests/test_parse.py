"""`parse`: what goes in comes out, in order, with the model's trees; and the tokeniser in front of it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli import __main__
from probtrans_cli.data.tokens import tokenize

Parse = Callable[..., str]
HOSTILE = [
    "<script>alert(1)</script>",
    "&amp;",
    '"',
    "'",
    "\\",
    "]]>",
    "{}",
    "\x1b[31m",
    "🦊",
    "اب",
    "%s",
    "<!--",
    "\u202e",
]


@pytest.fixture
def parse(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Parse:
    """Parse a text with the tiny model, from a file or stdin; returns stdout."""
    monkeypatch.chdir(tmp_path)

    def run(text: str | bytes, *options: str, name: str = "input.txt", code: int = 0, stdin: bool = False) -> str:
        raw = text.encode() if isinstance(text, str) else text
        (tmp_path / name).write_bytes(raw)
        if stdin:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        capsys.readouterr()
        ended = __main__.run(["parse", str(trained / "runs/tiny"), *([] if stdin else [name]), *options])
        out, err = capsys.readouterr()
        assert ended == code, err
        run.stderr = err  # type: ignore[attr-defined]
        return out

    return run


def words_of(conllu: str) -> list[list[str]]:
    """The words of every sentence of a CoNLL-U text."""
    blocks = [block for block in conllu.split("\n\n") if block.strip()]
    return [
        [line.split("\t")[1] for line in block.splitlines() if line[0] != "#" and line.split("\t")[0].isdigit()]
        for block in blocks
    ]


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
    for block in conllu.strip("\n").split("\n\n"):
        heads = [
            int(line.split("\t")[6]) for line in block.splitlines() if line[0] != "#" and line.split("\t")[0].isdigit()
        ]
        assert heads.count(0) == 1
        for start in range(1, len(heads) + 1):
            word, steps = start, 0
            while word:
                word, steps = heads[word - 1], steps + 1
                assert steps <= len(heads)


def numbers(block: str) -> list[str]:
    """The ID column of a sentence."""
    return [line.split("\t")[0] for line in block.splitlines() if line and line[0] != "#"]


def test_conllu_comes_out_as_it_went_in(parse: Parse, trained: Path) -> None:
    text = (trained / "test.conllu").read_text("utf-8")
    out = parse(text, name="toy.conllu")
    assert_only_trees_changed(text, out)
    assert_trees(out)
    assert parse(text, stdin=True) == out  # CoNLL-U is recognised by its look, too


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
    out = [json.loads(line) for line in parse("\n".join([*lines, ""]), "-f", "jsonl").splitlines()]
    assert [len(tree["words"]) for tree in out] == [number * 7 % 13 for number in range(60)]
    assert parse("\n\n\n", "-f", "jsonl").count("\n") == 3
    assert parse("", "-f", "jsonl") == ""
    assert parse("the goat\n\nthe fox\n", "-f", "tree").count("goat") == 1


def test_batch_mates_do_not_change_a_tree(parse: Parse) -> None:
    lines = ["the old farmers feed three goats", "goats sleep", "the fox sees the goat near the river"]
    together = parse("\n".join([*lines, ""]), "-f", "jsonl")
    assert together == "".join(parse(line + "\n", "-f", "jsonl") for line in lines)


def test_a_line_has_the_probability_of_its_arcs(parse: Parse) -> None:
    (line,) = parse("the old farmers feed the goats\n", "-f", "jsonl").splitlines()
    tree = json.loads(line)
    assert tree["words"] == ["the", "old", "farmers", "feed", "the", "goats"]
    assert len(tree["heads"]) == 6
    text = parse("the old farmers feed the goats\n", "--prob")
    found = [line.split("\t")[9] for line in text.splitlines() if "\t" in line]
    assert sum(one.startswith("Prob=0.") or one == "Prob=1.0000" for one in found) == 5
    assert found[tree["heads"].index(0)] == "_"


def test_every_channel(parse: Parse) -> None:
    text = "the old farmers feed the goats\ngoats sleep\n"
    out = [json.loads(line) for line in parse(text, "-f", "jsonl", "--channel", "all").splitlines()]
    assert [tree["channel"] for tree in out] == [0, 1, 0, 1]
    for channel in (0, 1):
        alone = [json.loads(line) for line in parse(text, "-f", "jsonl", "--channel", str(channel)).splitlines()]
        assert alone == out[channel::2]
    assert "channel 1" in parse(text, "-f", "tree", "--channel", "all")


def test_hostile_words(parse: Parse) -> None:
    text = " ".join(HOSTILE) + "\n"
    (block,) = words_of(parse(text, "--input", "tokens"))
    assert block == HOSTILE
    (line,) = parse(text, "--input", "tokens", "-f", "jsonl").splitlines()
    assert json.loads(line)["words"] == HOSTILE
    picture = parse(text, "--input", "tokens", "-f", "svg")
    assert "<script" not in picture
    ElementTree.fromstring(picture.replace("\x1b", ""))
    assert "\x1b" not in parse(text, "--input", "tokens", "-f", "tree")


def test_no_output_form_carries_control_characters_into_xml(parse: Parse) -> None:
    ElementTree.fromstring(parse("a \x1b[31m \x07 b\n", "--input", "tokens", "-f", "svg"))


def test_output_to_files(parse: Parse, tmp_path: Path) -> None:
    text = "the old farmers feed the goats\ngoats sleep\n"
    assert parse(text, "-o", "out.conllu") == ""
    assert (tmp_path / "out.conllu").read_text("utf-8") == parse(text)
    assert parse(text, "-f", "svg", "-o", "pictures") == ""
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == 2
    assert parse("goats sleep\n", "-f", "svg", "-o", "one.svg") == ""
    assert (tmp_path / "one.svg").read_text("utf-8") == parse("goats sleep\n", "-f", "svg")
    assert parse(text, "-f", "svg", code=2) == ""
    assert parse(text, "-f", "svg", "-o", "input.txt/x", code=2) == ""


def test_faulty_input_names_the_line(parse: Parse) -> None:
    parse(b"the goat\nthe \xff goat\n", code=3)
    assert "input.txt:2" in parse.stderr  # type: ignore[attr-defined]
    parse("1\tgoat\t_\n", name="bad.conllu", code=3)
    assert "bad.conllu:1" in parse.stderr  # type: ignore[attr-defined]


def test_raw_text_is_tokenised_and_tokens_are_not(parse: Parse) -> None:
    assert words_of(parse("The goats don't sleep.\n")) == [["The", "goats", "do", "n't", "sleep", "."]]
    assert words_of(parse("The goats don't sleep.\n", "--input", "tokens")) == [["The", "goats", "don't", "sleep."]]


# --- tokens -----------------------------------------------------------------------------------------------------------

TEXTS = [
    ("Hello, world!", "Hello , world !"),
    ('He said: "No."', 'He said : " No . "'),
    ("It's the dogs' bone; they'll see.", "It 's the dogs ' bone ; they 'll see ."),
    ("can't won't I'm you’re", "ca n't wo n't I 'm you ’re"),
    ("Mr. Smith of the U.S. paid $5.50 (or 3,000 yen).", "Mr. Smith of the U.S. paid $ 5.50 ( or 3,000 yen ) ."),
    ("Wait... what?!", "Wait ... what ? !"),
    ("See http://a.b/c?d=e, or mail x.y@z.org.", None),
    ("", ""),
    ("  \t ", ""),
]


@pytest.mark.parametrize(("text", "tokens"), [pair for pair in TEXTS if pair[1] is not None])
def test_tokenize(text: str, tokens: str) -> None:
    assert tokenize(text) == tokens.split()


@pytest.mark.parametrize(
    "text", ["the goats do n't sleep .", "<unk> and <mask> ...", "He 's here , is n't he ?", ":-) !!!"]
)
def test_tokenised_text_stays(text: str) -> None:
    assert tokenize(text) == text.split()


@given(st.text())
def test_tokenising_loses_nothing_and_ends(text: str) -> None:
    tokens = tokenize(text)
    assert "".join(tokens) == "".join(text.split())
    assert all(tokens)
