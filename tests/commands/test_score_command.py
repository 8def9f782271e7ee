"""`score`, the scorers for files of any system; and `eval --predictions`, the files that other scorers read."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

import pytest
from support import Invoke, refused, sentences

from probtrans_cli.data.readers.conllu import annotated, read_conllu
from probtrans_cli.reports.scorers import SCORERS

GOLD = "Ann B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n\nIt O\nrained O\n\n"
GUESS = "Ann B-PER\nsaw O\nNew B-LOC\nYork O\n\nIt B-PER\nrained O\n\n"


def test_every_scorer_has_a_module() -> None:
    places = [row.place or f"probtrans_cli.reports.scorers.{row.name}:score" for row in SCORERS.values()]
    assert all(map(callable, map(resolve_name, places)))


@pytest.mark.parametrize("together", [False, True])
def test_entities(together: bool, empty: Path, invoke: Invoke) -> None:
    """One right of two gold and three guessed; five of six tags; in two files, or in two columns of one."""
    Path("gold.txt").write_text(GOLD)
    Path("guess.txt").write_text(GUESS)
    pairs = zip(GOLD.split("\n"), GUESS.split("\n"), strict=True)
    Path("both.txt").write_text("\n".join(f"{one} {other.split()[-1]}" if one else "" for one, other in pairs))
    ran = invoke("score", "entities", *(["both.txt"] if together else ["guess.txt", "--gold", "gold.txt"]), "--json").ok
    scores = ran.json["scores"]
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == pytest.approx(1 / 2)
    assert scores["f1"] == pytest.approx(2 / 5)
    assert scores["accuracy"] == pytest.approx(4 / 6)
    low, high = scores["f1_interval"]
    assert 0.0 <= low < 2 / 5 < high <= 1.0
    assert scores["accuracy_interval"][0] < 4 / 6 < scores["accuracy_interval"][1]
    assert scores["types"]["LOC"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "gold": 1, "predicted": 1, "right": 0}
    ran = invoke("score", "entities", "guess.txt", "--gold", "gold.txt")
    assert "f1 40.00 % (95 % interval" in ran.out


STRICT = [
    ("B-LOC I-LOC B-PER", "I-LOC I-LOC B-PER", 1.0, 2 / 3),  # begins without B: read by conlleval, not strictly
    ("B-LOC I-LOC O", "B-LOC I-LOC O", 1.0, 1.0),
    ("B-LOC E-LOC S-PER", "B-LOC I-LOC S-PER", 1.0, 2 / 3),  # bioes, an entity without its end
    ("I-LOC I-LOC B-LOC", "I-LOC I-LOC B-LOC", 1.0, 1.0),  # iob1
    ("B-LOC L-LOC U-PER", "B-LOC I-LOC U-PER", 1.0, 2 / 3),
    ("LOC-B LOC-E PER-S", "B-LOC I-LOC S-PER", 1.0, 2 / 3),
]


def test_entities_that_are_read_strictly(empty: Path, invoke: Invoke) -> None:
    for gold, guess, f1, strict in STRICT:
        rows = zip("abc", gold.split(), guess.split(), strict=True)
        Path("both.txt").write_text("\n".join(map(" ".join, rows)) + "\n")
        scores = invoke("score", "entities", "both.txt", "--json").json["scores"]
        assert (scores["f1"], scores["f1_strict"]) == pytest.approx((f1, strict)), guess
        assert scores["f1_interval"] is None  # there is but one sentence


def test_types_without_a_letter_are_entities(empty: Path, invoke: Invoke) -> None:
    Path("both.txt").write_text("a B-PERSON PERSON\nb I-PERSON PERSON\nc O O\nd B-LOC PERSON\n")
    found = invoke("score", "entities", "both.txt", "--json")
    scores = found.json["scores"]
    assert scores["f1"] == pytest.approx(0.5)
    assert set(scores["types"]) == {"PERSON", "LOC"}
    warning = "both.txt:1: 'PERSON' for 'I-PERSON'. 3 such tags in this file are read as the type of an entity\n"
    assert f"warning: {warning}" in found.err


SAME = {  # three entities of five words
    "iob2": "B-LOC I-LOC B-LOC O B-PER",
    "iob1": "I-LOC I-LOC B-LOC O I-PER",
    "bioes": "B-LOC E-LOC S-LOC O S-PER",
    "bilou": "B-LOC L-LOC U-LOC O U-PER",
    "bmewo": "B-LOC E-LOC W-LOC O W-PER",
}
SPELLED = {
    "iob2": "LOC-B LOC-I LOC-B O PER-B",
    "bioes": "B_LOC E_LOC S_LOC O S_PER",
    "bilou": "b-LOC l-LOC u-LOC 0 u-PER",
}


def column(tags: str) -> str:
    return "".join(f"{word}\t{tag}\n" for word, tag in zip("abcde", tags.split(), strict=True))


@pytest.mark.parametrize("gold", SAME)
def test_two_schemes_that_agree(gold: str, empty: Path, invoke: Invoke) -> None:
    """All scores are perfect; `f1_strict`, which is about one scheme, is absent between two, and stderr says why."""
    Path("gold.txt").write_text(column(SAME[gold]))
    for guess, tags in (*SAME.items(), *SPELLED.items()):
        Path("guess.txt").write_text(column(tags))
        ran = invoke("score", "entities", "guess.txt", "--gold", "gold.txt", "--json").ok
        scores = ran.json["scores"]
        assert (scores["f1"], scores["accuracy"], scores.get("f1_strict", 1.0)) == (1.0, 1.0, 1.0)
        assert ("f1_strict" in scores) == (gold == guess)
        reason = f"no f1_strict: guess.txt marks entities in {guess}, the gold tags in {gold}\n"
        assert (reason in ran.err) == (gold != guess)
        assert ("'0' for 'O'. This tag is read as 'O'\n" in ran.err) == ("0" in tags)


UNCLEAR = [
    ("a O\nb ?\n", "guess.txt:2: '?' is no tag of iob2"),
    ("a S-LOC\nb U-LOC\n", "guess.txt:2: 'U-LOC' is no tag of bioes"),
    ("a O\nb art-film\n", "guess.txt:2: 'art-film' is no tag of iob2"),
    ("a B-WORK OF ART\nb O\n", "guess.txt:2: 2 columns, but line 1 has 4"),
    ("a B\nb O\n", "guess.txt: tags without a type, such as B, but gold.txt has types: LOC, PER"),
    ("# id 1\na O\nb O\n", "guess.txt:2: 2 columns, but line 1 has 3"),
]


def test_tags_that_are_not_clear_are_refused(empty: Path, invoke: Invoke) -> None:
    Path("gold.txt").write_text("a B-PER\nb B-LOC\n")
    for guess, message in UNCLEAR:
        Path("guess.txt").write_text(guess)
        ran = invoke("score", "entities", "guess.txt", "--gold", "gold.txt")
        refused(ran, 3, message)
        assert "data.columns" not in ran.err, "there is no recipe"
        assert ('--comments "# "' in ran.err) == guess.startswith("#")
    assert invoke("score", "entities", "guess.txt", "--gold", "gold.txt", "--comments", "# ").code == 0


def test_trees(empty: Path, invoke: Invoke) -> None:
    """Every word at the word before it: as the floor of that name."""
    gold = sentences("test", 12)
    chains = [
        "\n".join(annotated(one, list(range(len(one.words))))) for one in read_conllu(gold.splitlines(), "gold.conllu")
    ]
    Path("gold.conllu").write_text(gold, "utf-8")
    Path("guess.conllu").write_text("\n\n".join(chains) + "\n\n", "utf-8")
    ran = invoke("score", "trees", "guess.conllu", "--gold", "gold.conllu", "--json").ok
    arcs, right = 0, 0
    for one in read_conllu(gold.splitlines(), "gold"):
        assert one.heads is not None
        pairs = {frozenset((word, head)) for word, head in enumerate(one.heads, start=1) if head}
        arcs += len(pairs)
        right += sum(frozenset((word, word - 1)) in pairs for word in range(2, len(one.words) + 1))
    assert ran.json["scores"]["trees"]["with_punct"]["all"]["uuas"] == pytest.approx(right / arcs)
    ran = invoke("score", "trees", "guess.conllu", "--gold", "gold.conllu")
    assert "UUAS" in ran.out
    assert "channel" not in ran.out
    assert "warning" not in ran.err
    # Trees that are none are scored, and told of; as a prediction they are nothing special.
    Path("circle.conllu").write_text(gold + "".join(f"{i}\tw\t_\t_\t_\t_\t{3 - i}\t_\t_\t_\n" for i in (1, 2)) + "\n")
    ran = invoke("score", "trees", "circle.conllu", "--gold", "circle.conllu")
    assert ran.code == 0
    assert ran.err.count("not a tree with one root") == 1
    assert f"warning: circle.conllu:{gold.count(chr(10)) + 1}: the gold heads are not a tree" in ran.err


@pytest.mark.parametrize(
    ("kind", "guess", "gold", "words"),
    [
        ("entities", GUESS, GOLD.rpartition("\n\n")[0].rpartition("\n\n")[0] + "\n", "gold.txt: fewer sentences than"),
        ("entities", GUESS, GOLD.replace("York", "Yorck"), "guess.txt:1: other words than gold.txt:1"),
        ("entities", "", GOLD, "fewer sentences than"),
        ("trees", "1\ta" + "\t_" * 8 + "\n\n", "1\ta" + "\t_" * 8 + "\n\n", "gold.txt:1: a word without HEAD"),
        ("trees", '{"words": ["a"]}\n', "1\ta" + "\t_" * 8 + "\n\n", "this looks like JSON lines"),
        ("trees", "1\ta" + "\t_" * 8 + "\n\n", None, "score trees needs the gold trees"),
    ],
)
def test_what_does_not_fit_is_told(
    kind: str, guess: str, gold: str | None, words: str, empty: Path, invoke: Invoke
) -> None:
    Path("guess.txt").write_text(guess)
    Path("gold.txt").write_text(gold or "")
    ran = invoke("score", kind, "guess.txt", *([] if gold is None else ["--gold", "gold.txt"]))
    refused(ran, 2 if gold is None else 3, words)


def test_standard_input_is_one_file(invoke: Invoke) -> None:
    refused(invoke("score", "trees", "-", "--gold", "-"), 2, "both be standard input")
