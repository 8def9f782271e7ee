"""Probabilities of any system against gold labels: whether they can be relied on, see ``statistics/uncertainty.py``.

Predictions are CoNLL-U, with `TagProb` in MISC beside the tag, or with the comments `label` and `label_probability`; or
JSON lines as `parse -f jsonl` writes them, with `tags` and `tag_probability`, or `label` and `label_probability`. The
comment `predicted` of CoNLL-U names the column that `TagProb` belongs to; in files of others, `--column` does. Where
the alternatives hold all of the probability (`--top` of at least as many as there are labels), the Brier score is told.

Arcs are scored with `--column head`, and where nothing else has a probability: HEAD with `Prob` in MISC, or JSON lines
with `heads` and their probabilities. `--column deprel`: `RelProb`, the probability of a relation given its head, of the
words whose head is right. Words without a probability are left out, and so are those whose gold HEAD is `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from probtrans_cli.console import log
from probtrans_cli.data.corpus.tally import Tally
from probtrans_cli.data.files import begin, display_name, find, open_lines
from probtrans_cli.data.readers.appearance import begins_as_conllu, is_object
from probtrans_cli.data.readers.columns import OF_SCORE, read_tagged
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.readers.lines import LABEL, read_jsonl, read_table
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.data import Columns, Keys, Table
from probtrans_cli.reports.scorers import same_words, side_by_side
from probtrans_cli.statistics import uncertainty
from probtrans_cli.text import from_json

COLUMNS = ("upos", "xpos", "feats")
HEAD, RELATION = "head", "deprel"
ARCS = {HEAD: 6, RELATION: 7}  # the places of columns of arcs in CoNLL-U
PROBABILITIES = {HEAD: "Prob", RELATION: "RelProb", "upos": "UPOSProb", "xpos": "XPOSProb", "feats": "FEATSProb"}
"""Entries of MISC, by column, in files of parsers."""
ABSTAINED = "_"
MISC, MISC_TAG, MISC_PROBABILITY, ENTITIES = 9, "Tag", "TagProb", "NE"
_COMMENT = re.compile(r"# *(label|label_probability|predicted) *= *(.*)")
_MISSING = 1e-4  # of the whole probability, that rounding may take

Alternatives = Mapping[str, float]


@dataclass(frozen=True)
class Answers:
    """What a system says of a sentence, or what is right of it, without probabilities.

    ``tags``: its answers by column, as several columns of a file may be the ones that the probabilities are of;
    ``predicted``: the column that they are of, where the file says it; ``label``: of the whole sentence, instead of
    tags; ``mark_entities``: the tags do.
    """

    words: Sequence[str]
    where: str
    tags: Mapping[str, Sequence[str]]
    probabilities: Sequence[float] = ()
    alternatives: Sequence[Alternatives] | None = None
    label: str | None = None
    predicted: str | None = None
    mark_entities: bool = False


Pairs = Sequence[tuple[Answers, Answers]]  # of a sentence, what a system says and what is right


def score(
    predictions: str, gold: str | None, *, column: str | None = None, comments: str | None = None
) -> dict[str, Any]:
    """Score probabilities; ``column``: that of CoNLL-U; ``comments``: what comments of gold columns begin with."""
    if gold is None:
        raise UsageError("score calibration needs the gold labels", hint="add --gold FILE")
    lines, shown = list(open_lines(find(predictions, once=True))), display_name(predictions)
    gold_shown = display_name(gold)
    is_json = next((line for line in lines if line.strip()), "").startswith("{")
    if is_json:
        ours = list(_from_json(lines, shown, column))
    else:
        sentences = list(read_conllu(lines, shown))
        keys = {key for sentence in sentences for entry in _misc(sentence) for key in entry}
        column = HEAD if column is None and PROBABILITIES[HEAD] in keys and MISC_PROBABILITY not in keys else column
        if column in ARCS and PROBABILITIES[column] not in keys:
            raise _without_probabilities(shown, column, [name for name, key in PROBABILITIES.items() if key in keys])
        ours = [_from_conllu(sentence, column) for sentence in sentences]
    if not ours:
        raise DataError(f"{shown}: there is no sentence in it", hint="check the file")
    if column is None and any(HEAD in sentence.tags for sentence in ours):
        column = HEAD
    theirs = list(_gold(gold, ours, comments, column))
    pairs = list(side_by_side(ours, theirs, shown, gold_shown, require_same=_require_same))
    scored, predicted, right, chances, alternatives = _answered(pairs, column, shown, gold_shown)
    both = list(zip(predicted, right, strict=True))
    answered = [answer != ABSTAINED or gold_answer == ABSTAINED for answer, gold_answer in both]
    if column in ARCS:
        answered = [ABSTAINED not in answers for answers in both]
    if column == RELATION:
        heads = [[head for sentence in side for head in sentence.tags[HEAD]] for side in zip(*pairs, strict=True)]
        answered = [right and mine == theirs for right, mine, theirs in zip(answered, *heads, strict=True)]
    confidence = np.array(chances)[answered]
    is_right = np.array([answer == gold_answer for answer, gold_answer in both])[answered]
    if not len(confidence):
        raise DataError(f"{shown}: there is no answer in it", hint="check the file")
    abstained = 0 if column in ARCS else len(answered) - len(confidence)
    scores: dict[str, Any] = {
        "column": scored,
        "number": len(confidence),
        "accuracy": float(is_right.mean()),
        **({"abstained": abstained} if abstained else {}),
        **uncertainty.confidence_scores(confidence, is_right),
    }
    if alternatives is not None and all(abs(sum(options.values()) - 1.0) < _MISSING for options in alternatives):
        squares = [
            sum(p * p for p in options.values()) + (1.0 - 2.0 * options[answer] if answer in options else 0.0)
            for options, answer in zip(alternatives, right, strict=True)
        ]
        scores["brier"] = float(np.mean(squares))
    return scores


# --- the predictions --------------------------------------------------------------------------------------------------


def _from_conllu(sentence: Sentence, column: str | None) -> Answers:
    lines = sentence.lines or []
    comments = {match[1]: match[2] for line in lines if (match := _COMMENT.fullmatch(line))}
    if {"label", "label_probability"} <= comments.keys():
        chance = _number(comments["label_probability"], sentence.where)
        return Answers(sentence.words, sentence.where, {}, [chance], label=comments["label"])
    entries = _misc(sentence)
    if column in ARCS:
        name, tags = PROBABILITIES[column], _arcs(sentence)
        tags[column] = [tag if name in entry else ABSTAINED for tag, entry in zip(tags[column], entries, strict=True)]
        chances = [_number(entry.get(name, "0"), sentence.where) for entry in entries]
        return Answers(sentence.words, sentence.where, tags, chances)
    # A parser has several columns, each with probabilities of its own.
    name = MISC_PROBABILITY if column is None else PROBABILITIES[column]
    name = name if all(name in entry for entry in entries) else MISC_PROBABILITY
    if not all(name in entry for entry in entries):
        present = [name for name, key in PROBABILITIES.items() if all(key in entry for entry in entries)]
        raise _without_probabilities(sentence.where, column, present)
    predicted = comments.get("predicted")
    if predicted == ENTITIES:
        hint = "write them with parse -f jsonl, which has the tags"
        raise DataError(
            f"{sentence.where}: the probabilities are of entities, whose tags are not in the file", hint=hint
        )
    tags = {name: sentence.tags[name] for name in COLUMNS if name in sentence.tags}
    if predicted not in COLUMNS and all(MISC_TAG in entry for entry in entries):
        tags = {"tag": [entry[MISC_TAG] for entry in entries]}
    chances = [_number(entry[name], sentence.where) for entry in entries]
    return Answers(sentence.words, sentence.where, tags, chances, predicted=predicted if predicted in COLUMNS else None)


def _without_probabilities(where: str, column: str | None, present: Sequence[str]) -> DataError:
    hint = f"write it with parse --prob: words need {PROBABILITIES.get(column or '', MISC_PROBABILITY)}= in MISC"
    if present:
        hint = f"the probabilities there are of {', '.join(present)}: write --column {present[0]}"
    return DataError(f"{where}: has no probabilities of {column or 'tags'}", hint=hint)


def _misc(sentence: Sentence) -> list[dict[str, str]]:
    lines, rows = sentence.lines or [], sentence.rows or []
    return [dict(entry.partition("=")[::2] for entry in lines[row].split("\t")[MISC].split("|")) for row in rows]


def _arcs(sentence: Sentence) -> dict[str, list[str]]:
    lines, rows = sentence.lines or [], sentence.rows or []
    return {column: [lines[row].split("\t")[place] for row in rows] for column, place in ARCS.items()}


def _from_json(lines: Sequence[str], name: str, column: str | None) -> Iterator[Answers]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            yield _of_record(from_json(line), where, column)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            hint = "a line is one of parse -f jsonl, with words, tags and tag_probability, or label and its probability"
            raise DataError(f"{where}: not a prediction ({type(error).__name__}: {error})", hint=hint) from None


def _of_record(record: Mapping[str, Any], where: str, column: str | None) -> Answers:
    words = [str(word) for word in record["words"]]
    if column in ARCS or (column is None and "heads" in record and not {"label", "tags"} & record.keys()):
        return _arcs_of_record(record, words, where, column or HEAD)
    if "label" in record:
        several = record.get("label_alternatives")
        alternatives = None if several is None else [_alternatives(several, "label")]
        chance = _number(record["label_probability"], where)
        return Answers(words, where, {}, [chance], alternatives, label=str(record["label"]))
    if not words and "tags" not in record:
        return Answers(words, where, {"tag": []}, [])
    # A parser has a list of each column, with its probabilities.
    names = ("tags", "tag_probability") if column is None or "tags" in record else (column, f"{column}_probability")
    present = [name for name in PROBABILITIES if f"{'relation' if name == RELATION else name}_probability" in record]
    if present and not set(names) <= record.keys():
        raise _without_probabilities(where, column, present)
    tags, chances = [str(tag) for tag in record[names[0]]], [_number(value, where) for value in record[names[1]]]
    if not len(words) == len(tags) == len(chances):
        raise DataError(f"{where}: {len(words)} words, {len(tags)} tags and {len(chances)} probabilities")
    several = record.get("tag_alternatives")
    alternatives = None if several is None else [_alternatives(options, "tag") for options in several]
    return Answers(words, where, {"tag": tags}, chances, alternatives, mark_entities="entities" in record)


def _arcs_of_record(record: Mapping[str, Any], words: list[str], where: str, column: str) -> Answers:
    tags = {HEAD: list(map(str, record["heads"])), RELATION: list(map(str, record.get("relations", ())))}
    of_heads = record.get("head_probability", record.get("probabilities"))
    chances: Sequence[Any] = of_heads if column == HEAD else record["relation_probability"]
    if not len(words) == len(tags[column]) == len(chances):
        message = f"{len(words)} words, {len(tags[column])} of {column} and {len(chances)} probabilities"
        raise DataError(f"{where}: {message}")
    answers = zip(tags[column], chances, strict=True)
    tags[column] = [ABSTAINED if chance is None else tag for tag, chance in answers]
    return Answers(words, where, tags, [_number(0 if chance is None else chance, where) for chance in chances])


def _alternatives(several: Sequence[Mapping[str, Any]], key: str) -> Alternatives:
    return {str(option[key]): float(option["probability"]) for option in several}


def _number(text: Any, where: str) -> float:
    try:
        value = float(text)
    except (OverflowError, TypeError, ValueError):
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise DataError(f"{where}: {text!r} is not a probability", hint="a number from 0 to 1")
    return value


# --- the gold labels --------------------------------------------------------------------------------------------------


def _gold(name: str, ours: Sequence[Answers], comments: str | None, column: str | None) -> Iterator[Answers]:
    lines, shown = open_lines(find(name)), display_name(name)
    if ours[0].label is not None:
        first, lines = begin(lines)
        table = Table(separator=",") if ".csv" in Path(name).suffixes else Table()
        labelled = read_jsonl(lines, shown, Keys()) if is_object(first) else read_table(lines, shown, table)
        return (Answers(sentence.words, sentence.where, {}, label=sentence.labels[LABEL]) for sentence in labelled)
    is_conllu, lines = begins_as_conllu(lines)
    if column in ARCS:
        if not is_conllu:
            raise DataError(f"{name}: has no trees", hint="give CoNLL-U with HEAD")
        return (Answers(sentence.words, sentence.where, _arcs(sentence)) for sentence in read_conllu(lines, shown))
    if is_conllu:
        return (Answers(sentence.words, sentence.where, sentence.tags) for sentence in read_conllu(lines, shown))
    scheme: Literal["iob2", "bioes"] | None = None
    if any(answers.mark_entities for answers in ours):
        several = chain.from_iterable((answers.tags["tag"], *(answers.alternatives or ())) for answers in ours)
        ends = any(tag.startswith(("S-", "E-")) for tags in several for tag in tags)
        scheme = "bioes" if ends else "iob2"
    columns = Columns(entities=scheme, comments=comments)
    sentences, tally = list(read_tagged(lines, shown, columns, options=OF_SCORE)), Tally("")
    tally.note_faults(fault for sentence in sentences for fault in sentence.faults)
    gold = [Answers(sentence.words, sentence.where, sentence.tags) for sentence in sentences]
    for warning in tally.tag_warnings(refusal=False):
        log(warning)
    return iter(gold)


def _require_same(predicted: Answers, gold: Answers) -> None:
    if (predicted.label is None) != (gold.label is None):
        raise DataError(f"{predicted.where}: a label here, tags in gold lines", hint="score predictions of one task")
    same_words(predicted, gold, same_tokens=predicted.label is None)


def _answered(
    pairs: Pairs, column: str | None, predictions: str, gold: str
) -> tuple[str, list[str], list[str], list[float], list[Alternatives] | None]:
    """Return the column, all answers and what is right, their probabilities, and all alternatives where every sentence
    has some."""
    chances = [chance for sentence, _ in pairs for chance in sentence.probabilities]
    of_sentences = [sentence.alternatives for sentence, _ in pairs if sentence.words]
    alternatives = [options for answers in of_sentences for options in answers or ()] if all(of_sentences) else None
    if pairs[0][0].label is not None:
        if column is not None:
            raise UsageError(f"--column {column}: labels of sentences have no column", hint="leave it out")
        answers, labels = ([str(sentence.label) for sentence in side] for side in zip(*pairs, strict=True))
        return LABEL, answers, labels, chances, alternatives
    # The file itself may say which column its probabilities are of.
    of_file = sorted({sentence.predicted or "none" for sentence, _ in pairs if sentence.words})
    if len(of_file) > 1:
        message = f"{predictions}: the comments `# predicted` name different columns: {', '.join(of_file)}"
        raise DataError(message, hint="score the sentences of each tagger in a file of their own")
    if of_file not in ([], ["none"]):
        if column not in (None, of_file[0]):
            message = f"--column {column}: the probabilities of {predictions} are of {of_file[0]}, as its comments say"
            raise UsageError(message, hint=f"write --column {of_file[0]}, or leave it out")
        column = of_file[0]
    names = _columns(pairs, column, predictions, gold)
    predicted, right = (
        [tag for sentence in side for tag in _of(sentence.tags, name, sentence.words)]
        for side, name in zip(zip(*pairs, strict=True), names, strict=True)
    )
    return names[1] if names[0] == "tag" else names[0], predicted, right, chances, alternatives


def _of(tags: Mapping[str, Sequence[str]], column: str, words: Sequence[str]) -> Sequence[str]:
    return tags.get(column, [ABSTAINED] * len(words))


def _columns(pairs: Pairs, column: str | None, predictions: str, gold: str) -> tuple[str, str]:
    """Choose the columns to compare: the only one that both sides have, or the only one in which they differ."""
    mine, theirs = ({name for side in sides for name in side.tags} for sides in zip(*pairs, strict=True))
    nameless = {"tag"}
    compared = theirs if mine == nameless else mine if theirs == nameless else mine & theirs
    if column is not None:
        compared = compared & {column}
    elif len(compared) > 1 and nameless not in (mine, theirs):
        compared = {
            name for name in compared if any(_of(a.tags, name, a.words) != _of(b.tags, name, b.words) for a, b in pairs)
        }
    if len(compared) != 1:
        message = f"which tags of {predictions} the probabilities are of is not clear beside {gold}"
        raise UsageError(message, hint=f"say --column {' or '.join(sorted(theirs) or COLUMNS)}")
    (name,) = compared
    return ("tag" if mine == nameless else name), ("tag" if theirs == nameless else name)
