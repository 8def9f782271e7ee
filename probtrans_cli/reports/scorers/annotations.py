"""Named entities of any system against gold ones: precision, recall and F1, see ``data/entities.py``.

The same scores as of a model: F1 with its 95 % interval over sentences, and the F1 of entities that are written as
their scheme writes them. Each side is read in its own notation and scheme, see ``data/entities.py``;
where the two sides differ in the scheme, tags are compared as those of iob2, and there is no strict F1, as it is about
one scheme. A type without a letter, ``PERSON``, as some taggers write, is read as ``I-PERSON``.

Trees are scored against gold trees by ``statistics/parse_scores.py`` with intervals, and by UAS and UUAS in the
conventions of ``trees/score.py``. A column that one of the two files does not have is not scored; FEATS may be empty.
Gold sentences with a word without HEAD are not scored, but counted (``not_scored``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from probtrans_cli.console import log
from probtrans_cli.data.corpus.store import PUNCTUATION
from probtrans_cli.data.corpus.tally import Tally
from probtrans_cli.data.entities import (
    NO_TYPE,
    Scheme,
    compare,
    read_spans,
    scores_by_type,
    scores_of,
    tags_of,
)
from probtrans_cli.data.files import display_name, find, open_lines
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.readers.columns import OF_SCORE, Marked, read_entities
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.data import Columns
from probtrans_cli.reports.scorers import side_by_side
from probtrans_cli.statistics.parse_scores import NEEDED, Row, parse_counts, parse_details, parse_scores
from probtrans_cli.statistics.uncertainty import interval, moments
from probtrans_cli.text import first_of, printable
from probtrans_cli.trees import score as scoring


def score_entities(predictions: str, gold: str | None, *, comments: str | None = None) -> dict[str, Any]:
    """Score entities; ``comments``: what comments of the files begin with."""
    lines = list(open_lines(find(predictions)))
    gold_lines, gold_name = (lines, predictions) if gold is None else (open_lines(find(gold)), gold)
    gold_column = Columns(tag=-2 if gold is None else -1, entities="iob2", comments=comments)
    gold_scheme, gold_sentences = _read(gold_lines, gold_name, gold_column, "iob2")
    scheme, sentences = _read(lines, predictions, Columns(entities="iob2", comments=comments), gold_scheme)
    pairs = list(side_by_side(sentences, gold_sentences, *map(display_name, (predictions, gold_name))))
    ours, theirs = ([sentence.tags for sentence in side] for side in zip(*pairs, strict=True))
    our_types, their_types = ({tag[2:] for tags in side for tag in tags if tag != "O"} for side in (ours, theirs))
    is_bare, is_gold_bare = (types == {NO_TYPE} for types in (our_types, their_types))
    if our_types and their_types and is_bare != is_gold_bare and NO_TYPE not in our_types & their_types:
        bare, typed = (predictions, gold_name) if is_bare else (gold_name, predictions)
        types = first_of(sorted((our_types | their_types) - {NO_TYPE}))
        where = "the other column" if bare == typed else printable(typed)
        message = f"{printable(bare)}: tags without a type, such as B, but {where} has types: {types}"
        raise DataError(message, hint="give both sides types, or neither")
    if scheme != gold_scheme:
        ours, theirs = ([tags_of(read_spans(tags), len(tags), "iob2") for tags in side] for side in (ours, theirs))
    compared = compare(theirs, ours)
    counts = compared.counts()
    scores: dict[str, Any] = dict(scores_of(counts))
    if scheme == gold_scheme:
        scores["f1_strict"] = scores_of(compare(theirs, ours, scheme).counts())["f1"]
    else:
        log(f"no f1_strict: {printable(predictions)} marks entities in {scheme}, the gold tags in {gold_scheme}")
    right = [sum(map(str.__eq__, *tags)) for tags in zip(ours, theirs, strict=True)]
    words = [len(tags) for tags in ours]
    of_sentences = {"f1": compared.f1_parts(), "accuracy": (np.array(right), np.array(words))}
    scores["accuracy"] = sum(right) / sum(words)
    scores |= {f"{name}_interval": interval(name, moments(name, *parts)) for name, parts in of_sentences.items()}
    return scores | {"types": scores_by_type(counts)}


def _read(lines: Iterable[str], name: str, columns: Columns, prefer: Scheme) -> tuple[Scheme, list[Marked]]:
    shown = display_name(name)
    scheme, sentences = read_entities(lines, shown, columns, types_alone=True, prefer=prefer, options=OF_SCORE)
    tally = Tally("")
    tally.note_faults(fault for sentence in sentences for fault in sentence.repairs)
    for warning in tally.tag_warnings(refusal=False):
        log(warning)
    return scheme, sentences


def score_trees(predictions: str, gold: str | None) -> dict[str, Any]:
    """Score trees, against a gold file."""
    if gold is None:
        raise UsageError("score trees needs the gold trees", hint="add --gold FILE")
    ours, theirs = (read_corpus(find(name), "conllu") for name in (predictions, gold))
    every = list(side_by_side(ours, theirs, display_name(predictions), display_name(gold)))
    pairs = [(sentence, gold_sentence) for sentence, gold_sentence in every if gold_sentence.heads is not None]
    partly = [str(gold_sentence.missing_head) for _, gold_sentence in every if gold_sentence.heads is None]
    if not pairs:
        raise DataError(f"{partly[0]}: a word without HEAD, and so in every gold sentence", hint="give gold trees")
    if partly:
        which = "1 sentence is" if len(partly) == 1 else f"{len(partly):,} sentences are"
        log(f"{which} not scored, as a word has no gold HEAD: {first_of(partly)}")
    for sentence, _ in pairs:
        if sentence.heads is None:
            raise DataError(f"{sentence.missing_head}: a word without HEAD", hint="every word needs a predicted HEAD")
    heads = [[np.array(sentence.heads, dtype=np.int64) for sentence in side] for side in zip(*pairs, strict=True)]
    if warning := scoring.warning_of_gold(heads[1], lambda index: pairs[index][1].where):
        log(warning)
    tags = [gold_sentence.tags.get("upos") for _, gold_sentence in pairs]
    punct = [np.array([tag in PUNCTUATION for tag in of_words]) for of_words in tags if of_words is not None]
    trees: dict[str, Any] = dict(scoring.attachment(heads[1], heads[0], punct if len(punct) == len(pairs) else None))
    trees["conventions"] = {name: text for name, text in scoring.CONVENTIONS.items() if name in trees}
    rows = [(_rows(gold_sentence), _rows(sentence)) for sentence, gold_sentence in pairs]
    annotated = [
        {name for sentence in side for row in sentence for name, value in row._asdict().items() if value != "_"}
        for side in zip(*rows, strict=True)
    ]
    names = [name for name, columns in NEEDED.items() if columns <= (annotated[0] & annotated[1]) | {"feats"}]
    counts = parse_counts(rows)
    left_out = {"not_scored": len(partly)} if partly else {}
    return {**parse_scores(counts, names), **left_out, **parse_details(counts, names), "trees": trees}


def _rows(sentence: Sentence) -> list[Row]:
    missing = ["_"] * len(sentence.words)
    tags = [sentence.tags.get(name, missing) for name in ("upos", "xpos", "feats")]
    return [Row(*row) for row in zip(sentence.heads or [], sentence.relations or missing, *tags, strict=True)]
