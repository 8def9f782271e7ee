"""Sentences with tuples or coordinations as lines of files: the forms of `convert`, and three formats of `parse`.

:data:`WRITTEN` is the table of the forms; what is written is read again by :mod:`probtrans_cli.openie.corpora` and
:mod:`probtrans_cli.openie.coordination_files`. The table is read for `--help`, so it imports neither torch nor numpy.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from probtrans_cli.data.sentence import extra_words
from probtrans_cli.openie import coordinations
from probtrans_cli.openie.alignment import TupleWords
from probtrans_cli.openie.coordinations import rows_to_coordinations
from probtrans_cli.openie.extractions import LABELS, TAGS, Extraction, runs, tuple_to_row

if TYPE_CHECKING:
    from probtrans_cli.trained.formats import DisplayOptions
    from probtrans_cli.trained.parses import Analysis

LEAST_LEVELS = 3  # so many rows of tags has a sentence with coordinations at least: OpenIE6 reads three
_TAGS = [tag if tag in TAGS and "/" not in tag else "LOC" for tag in LABELS]
"""Places and times have one label, which is written as LOC; OpenIE6 reads TIME as the same."""


@dataclass
class FileTuple:
    """A tuple of a file."""

    texts: Sequence[str]  # the relation and its arguments, by which it is scored
    place: Extraction | TupleWords | str
    """Which words of the sentence it has, or, where the file does not say it, what is to be looked for; or why it is no
    row of labels."""
    confidence: float = 1.0  # 1 where the file has none


@dataclass
class FileSentence:
    """A sentence of a file, without extra words, and its tuples."""

    words: list[str]
    where: str
    tuples: list[FileTuple] = field(default_factory=list)
    tags: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # what was dropped already, by reason

    def placed(self) -> Iterator[tuple[Extraction, float]]:
        yield from ((each.place, each.confidence) for each in self.tuples if isinstance(each.place, Extraction))


# --- lines ------------------------------------------------------------------------------------------------------------


def label_lines(words: Sequence[str], rows: Sequence[Sequence[int]], tags: Sequence[str] = _TAGS) -> list[str]:
    """Return the words of a sentence as a line, and below it a line of tags for each row."""
    for row in rows:
        if len(row) != len(words):
            raise ValueError(f"a row of {len(row)} labels of {len(words)} words")
    return [_joined(words), *(" ".join(tags[label] for label in row) for row in rows)]


def coordination_lines(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """Return a sentence in the manner of OpenIE6's `cctags`: words, a line of tags for each row, and an empty line."""
    return [*label_lines(words, rows, coordinations.LABELS), ""]


def carb_line(sentence: str, texts: Sequence[str], confidence: float | None = None) -> str:
    """Return a line as CaRB reads it: of a prediction, or without a confidence a gold tuple.

    ``texts``: the relation, then the arguments.
    """
    between = [] if confidence is None else [repr(confidence)]
    return "\t".join([_plain(sentence), *between, *map(_plain, texts)])


def allennlp_line(sentence: str, texts: Sequence[str], confidence: float) -> str:
    """Return a line as AllenNLP writes it; all arguments but the first one are its second argument.

    What looks like a tag in a text gets a blank behind its ``<``, so that the line can be read.
    """
    relation, arg1, *further = (re.sub(r"<(?=/?(?:arg1|rel|arg2)>)", "< ", _plain(text)) for text in texts)
    parts = {"arg1": arg1, "rel": relation, "arg2": " ".join(further)}
    tagged = " ".join(f"<{name}> {text} </{name}>" for name, text in parts.items())
    return f"{_plain(sentence)}\t{tagged}\t{confidence!r}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _joined(words: Sequence[str]) -> str:
    """Return a line of words; white space inside of a word is ``_``."""
    return " ".join("_".join(word.split()) or "_" for word in words)


def _columns(words: Sequence[str], extraction: Extraction) -> list[str]:
    """Return the block of a tuple in the columns of supervised-oie, with the empty line behind it.

    The first word of the relation is its head. Location and time are the argument ``A2``.
    """
    relation = extraction.relation
    parts = {"P": relation, "A0": extraction.arg1, "A1": extraction.arg2, "A2": extraction.location_time}
    labels = {i: f"{name}-{'I' if i > part[0] else 'B'}" for name, part in parts.items() for i in part}
    columns = [_plain(" ".join(words[i] for i in relation)), str(list(relation)), str(relation[0]), "0", "0"]
    rows = ([str(i), _joined([word]), *columns, labels.get(i, "O")] for i, word in enumerate(words))
    return [*map("\t".join, rows), ""]


def _lsoie_line(words: Sequence[str], extraction: Extraction) -> str:
    parts = (extraction.relation, extraction.arg1, extraction.arg2, extraction.location_time)
    columns = [f"({' '.join(words[i] for i in part)!r}, {list(part)})" for part in parts if part]
    return "\t".join([_joined(words), *columns])


def _openie4_line(words: Sequence[str], extraction: Extraction, confidence: float) -> str:
    """Write words that the relation adds in brackets, and location and time as a place. A word of the sentence that is
    itself in brackets gets a blank."""
    words = _joined(words).split(" ")
    ends = list(accumulate(len(word) + 1 for word in words))
    added = [f"[{word}]" for word in extraction.added]
    kinds = ("SimpleArgument", "Relation", "SimpleArgument", "SpatialArgument")
    parts = (extraction.arg1, extraction.relation, extraction.arg2, extraction.location_time)
    columns = [repr(confidence), ""]
    for number, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        if part or number < 2:
            of_part = [words[i] for i in part]
            of_part = [f"[ {word[1:]}" if word.startswith("[") and word.endswith("]") else word for word in of_part]
            of_part = [*added[:1], *of_part, *added[1:]] if kind == "Relation" else of_part
            spans = (f"[{ends[first] - 1 - len(words[first])}, {ends[last] - 1})" for first, last in runs(part))
            columns.append(f"{kind}({' '.join(of_part).replace(',List(', ', List(')},List({', '.join(spans)}))")
    return "\t".join([*columns, " ".join(words)])


# --- the forms of `convert` -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenForm:
    """A form of files."""

    name: str
    help: str
    tuples: Callable[[FileSentence, Sequence[str]], list[str]] | None = None
    """The lines of a sentence with tuples, and of what its extra words stand for; None: it has no place for them."""
    coordinations: Callable[[Sequence[str], Sequence[Sequence[int]]], list[str]] | None = None
    """The lines of a sentence with coordinations, of its words and rows of labels; None: it has no place for them."""
    by_words: bool = True
    """Of tuples: it says which words of the sentence a tuple has, so others are dropped; else it has their texts."""
    every_sentence: bool = False  # it also has sentences without a tuple or coordination
    no_added: bool = False  # it has no place for words that a relation adds
    same_head: bool = True  # it has a place for several tuples whose relations begin with the same word


def _extags(sentence: FileSentence, names: Sequence[str]) -> list[str]:
    rows = [tuple_to_row(place, len(sentence.words), names) for place, _ in sentence.placed()]
    words = [*sentence.words, *extra_words(len(names))]
    return label_lines(words, rows or [[0] * len(words)])


def _cctags(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """Return no line where all words are tags, or there is none: such a line is no sentence."""
    return [] if all(word in coordinations.TAGS for word in words) else coordination_lines(words, rows)


def _json_of_tuples(sentence: FileSentence, _: Sequence[str]) -> list[str]:
    entries = []
    for each in sentence.tuples:
        relation, arg1, *further = each.texts
        entry: dict[str, object] = {"arg1": arg1, "rel": relation, "arg2": " ".join(further)}
        entry["confidence"] = each.confidence
        if isinstance(each.place, Extraction):
            entry["words"] = {name: list(part) for name, part in each.place.parts.items()}
            entry["added"] = list(each.place.added)
        entries.append(entry)
    upos = {"upos": sentence.tags["upos"]} if "upos" in sentence.tags else {}
    return [json.dumps({"words": sentence.words, **upos, "tuples": entries}, ensure_ascii=False)]


def _json_of_rows(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    entries = [
        {"cc": each.cc, "conjuncts": [list(span) for span in each.conjuncts], "separators": list(each.separators)}
        for each in rows_to_coordinations(rows).values()
        if each is not None
    ]
    return [json.dumps({"words": list(words), "coordinations": entries}, ensure_ascii=False)]


_ROWS = (
    WrittenForm("extags", "rows of tags of tuples", _extags, every_sentence=True),
    WrittenForm("cctags", "rows of tags of coordinations", coordinations=_cctags, every_sentence=True),
    WrittenForm(
        "tuples",
        "lines of AllenNLP",
        lambda sentence, _: [
            allennlp_line(" ".join(sentence.words), each.texts, each.confidence) for each in sentence.tuples
        ],
        by_words=False,
    ),
    WrittenForm(
        "carb",
        "gold lines of CaRB",
        lambda sentence, _: [carb_line(" ".join(sentence.words), each.texts) for each in sentence.tuples],
        by_words=False,
    ),
    WrittenForm(
        "conll",
        "the columns of supervised-oie",
        lambda sentence, _: [line for place, _ in sentence.placed() for line in _columns(sentence.words, place)],
        no_added=True,
        same_head=False,
    ),
    WrittenForm(
        "lsoie",
        "lines of LSOIE with positions",
        lambda sentence, _: [_lsoie_line(sentence.words, place) for place, _ in sentence.placed()],
        no_added=True,
    ),
    WrittenForm(
        "openie4",
        "lines of OpenIE-4",
        lambda sentence, _: [_openie4_line(sentence.words, *each) for each in sentence.placed()],
    ),
    WrittenForm("jsonl", "JSON lines", _json_of_tuples, _json_of_rows, by_words=False, every_sentence=True),
)
WRITTEN: Mapping[str, WrittenForm] = {row.name: row for row in _ROWS}

if TYPE_CHECKING:
    WrittenName = str
else:
    WrittenName = Literal[tuple(WRITTEN)]
    """The names, as the command line takes them."""


# --- formats of `parse` -----------------------------------------------------------------------------------------------


def _write_tuples(
    line: Callable[[str, Sequence[str], float], str], analyses: Iterator[Analysis], options: DisplayOptions
) -> Iterator[str]:
    del options
    for analysis in analyses:
        assert analysis.prediction is not None, "models without tuples are refused"
        sentence, text = " ".join(analysis.words), ""
        for record in analysis.prediction["tuples"]:
            # There is no arg2 where it is empty, as CaRB's reader drops it there.
            parts = [record["rel"], record["arg1"], *filter(None, [record["arg2"]])]
            text += f"{line(sentence, parts, record['confidence'])}\n"
        yield text


write_carb = partial(_write_tuples, carb_line)
"""Write ``sentence TAB confidence TAB relation TAB arg1 TAB arg2``."""
write_tuples = partial(_write_tuples, allennlp_line)
"""Write ``sentence TAB <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2> TAB confidence``, as AllenNLP does."""


def write_labels(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Write the words of a sentence, with extra words behind those of tuples (`extags`), below them lines with a tag
    for every word; behind a sentence with coordinations an empty line (`cctags`)."""
    del options
    for analysis in analyses:
        task: Any = analysis.task
        assert analysis.prediction is not None, "models without rows are refused"
        words = [*analysis.words, *extra_words(len(task.extra_words))]
        write = coordination_lines if task.answers.kind == "coordinations" else label_lines
        yield "".join(f"{line}\n" for line in write(words, analysis.prediction["rows"]))
