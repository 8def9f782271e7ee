"""Lines of the files that other systems read: rows of labels, tuples as CaRB, AllenNLP, OpenIE-4, LSOIE and
supervised-oie have them, and our own JSON lines.

What is written here is read again by :mod:`probtrans_cli.data.readers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate

from probtrans_cli.openie import coordinations, extractions
from probtrans_cli.openie.coordinations import Coordination
from probtrans_cli.openie.extractions import Extraction, runs

_LIST = ",List("
_CLOSING = re.compile(r"<(?=/?(?:arg1|rel|arg2)>)")


def extraction_lines(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """A sentence in the manner of OpenIE6's `extags`: its words, and a line of tags for each row.

    Places and times have one label, which is written as LOC; OpenIE6 reads TIME as the same.

    Args:
        words: with the extra words behind them.
        rows: a label for each of them; see :data:`probtrans_cli.openie.extractions.LABELS`.

    Raises:
        ValueError: a row has another length.
    """
    tags = [tag if tag in extractions.TAGS and "/" not in tag else "LOC" for tag in extractions.LABELS]
    return [" ".join(words), *(_tags(row, tags, len(words)) for row in rows)]


def coordination_lines(words: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """A sentence in the manner of OpenIE6's `cctags`: its words, a line of tags for each row, and an empty line.

    Raises:
        ValueError: a row has another length.
    """
    return [" ".join(words), *(_tags(row, coordinations.LABELS, len(words)) for row in rows), ""]


def _tags(row: Sequence[int], tags: Sequence[str], length: int) -> str:
    if len(row) != length:
        raise ValueError(f"a row of {len(row)} labels of {length} words")
    return " ".join(tags[label] for label in row)


def carb_line(sentence: str, tuple_: Sequence[str], confidence: float | None = None) -> str:
    """A line as CaRB reads it: of a prediction, or without a confidence a gold tuple.

    ``tuple_``: the relation, then the arguments.
    """
    between = [] if confidence is None else [repr(confidence)]
    return "\t".join([_plain(sentence), *between, *map(_plain, tuple_)])


def allennlp_line(sentence: str, tuple_: Sequence[str], confidence: float) -> str:
    """A line as AllenNLP writes it; all arguments but the first one are its second argument.

    What looks like a tag in a text gets a blank behind its ``<``, so that the line can be read.
    """
    relation, arg1, *others = (_CLOSING.sub("< ", _plain(text)) for text in tuple_)
    parts = {"arg1": arg1, "rel": relation, "arg2": " ".join(others)}
    tagged = " ".join(f"<{name}> {text} </{name}>" for name, text in parts.items())
    return f"{_plain(sentence)}\t{tagged}\t{confidence!r}"


def _plain(text: str) -> str:
    """A text without tabs and line ends, which would be taken for those of the file."""
    return " ".join(text.split())


def without_blanks(word: str) -> str:
    """A word as a line of words can have it: white space inside of it is ``_``."""
    return "_".join(word.split()) or "_"


# --- tuples with the positions of their words -------------------------------------------------------------------------


def oie_conll_lines(words: Sequence[str], one: Extraction) -> list[str]:
    """The block of a tuple in the columns of supervised-oie, with the empty line behind it.

    The first word of the relation is its head. Location and time are the argument ``A2``. There is no place for words
    that the relation adds.
    """
    parts = {"P": one.relation, "A0": one.arg1, "A1": one.arg2, "A2": one.location_time}
    labels = {i: f"{name}-{'I' if i > part[0] else 'B'}" for name, part in parts.items() for i in part}
    predicate = " ".join(words[i] for i in one.relation)
    columns = [_plain(predicate), str(list(one.relation)), str(one.relation[0]), "0", "0"]
    rows = ([str(i), without_blanks(word), *columns, labels.get(i, "O")] for i, word in enumerate(words))
    return [*("\t".join(row) for row in rows), ""]


def lsoie_line(words: Sequence[str], one: Extraction) -> str:
    """A line of LSOIE with positions: the sentence, and the text and the positions of the relation and each argument.

    There is no place for words that the relation adds.
    """
    parts = (one.relation, one.arg1, one.arg2, one.location_time)
    shown = [f"({' '.join(words[i] for i in part)!r}, {list(part)})" for part in parts if part]
    return "\t".join([" ".join(map(without_blanks, words)), *shown])


def openie4_line(words: Sequence[str], one: Extraction, confidence: float) -> str:
    """A line as OpenIE-4 writes it. Words that the relation adds are in brackets, location and time a place."""
    words = [without_blanks(word) for word in words]
    ends = list(accumulate(len(word) + 1 for word in words))
    added = [f"[{word}]" for word in one.added]

    def part(kind: str, positions: Sequence[int]) -> str:
        shown = [_bracketed(words[i]) for i in positions]
        shown = [*added[:1], *shown, *added[1:]] if kind == "Relation" else shown
        spans = (f"[{ends[first] - 1 - len(words[first])}, {ends[last] - 1})" for first, last in runs(positions))
        return f"{kind}({' '.join(shown).replace(_LIST, ', List(')}{_LIST}{', '.join(spans)}))"

    parts = [part("SimpleArgument", one.arg1), part("Relation", one.relation)]
    parts += [part("SimpleArgument", one.arg2)] if one.arg2 else []
    parts += [part("SpatialArgument", one.location_time)] if one.location_time else []
    return "\t".join([repr(confidence), "", *parts, " ".join(words)])


def _bracketed(word: str) -> str:
    """A word of the sentence that is in brackets gets a blank, for words in brackets are what a relation adds."""
    return f"[ {word[1:]}" if word.startswith("[") and word.endswith("]") else word


# --- JSON lines -------------------------------------------------------------------------------------------------------


def tuples_json(
    words: Sequence[str],
    tuples: Sequence[tuple[Sequence[str], Extraction | None, float]],
    upos: Sequence[str] | None = None,
) -> str:
    """A sentence with its tuples as a line of JSON.

    Args:
        words: of the sentence.
        tuples: of each the relation and its arguments as text, the words of the sentence that it has (None: they are to
            be looked for), and its confidence.
        upos: the universal parts of speech of the words.
    """
    record = {"words": list(words), **({} if upos is None else {"upos": list(upos)})}
    return _line({**record, "tuples": [_tuple_record(*one) for one in tuples]})


def _tuple_record(texts: Sequence[str], place: Extraction | None, confidence: float) -> dict[str, object]:
    relation, arg1, *others = texts
    record: dict[str, object] = {"arg1": arg1, "rel": relation, "arg2": " ".join(others), "confidence": confidence}
    if place is not None:
        record["words"] = {name: list(part) for name, part in place.parts.items()}
        record["added"] = list(place.added)
    return record


def coordinations_json(words: Sequence[str], found: Sequence[Coordination]) -> str:
    """A sentence with its coordinations as a line of JSON."""
    records = [
        {"cc": one.cc, "conjuncts": [list(span) for span in one.conjuncts], "separators": list(one.separators)}
        for one in found
    ]
    return _line({"words": list(words), "coordinations": records})


def _line(record: dict[str, object]) -> str:
    return json.dumps(record, ensure_ascii=False)
