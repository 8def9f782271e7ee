"""COGS (Kim and Linzen 2020): its own files of sentences and logical forms, or JSON lines of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn

from probtrans_cli.data.codecs.logical_forms import (
    CATEGORIES,
    NONE,
    NOUN_TYPES,
    ROLES,
    GraphLabels,
    analyse,
    frames_of_words,
    kinds_of_words,
    parents_by_category,
)
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import are_words, words_of
from probtrans_cli.errors import DataError
from probtrans_cli.text import from_json

CASES = (
    "in_distribution", "primitive", "active_to_passive", "cp_recursion",
    "do_dative_to_pp_dative", "obj_omitted_transitive_to_transitive", "obj_pp_to_subj_pp", "obj_to_subj_common",
    "obj_to_subj_proper", "only_seen_as_transitive_subj_as_unacc_subj",
    "only_seen_as_unacc_subj_as_obj_omitted_transitive_subj", "only_seen_as_unacc_subj_as_unerg_subj",
    "passive_to_active", "pp_dative_to_do_dative", "pp_recursion", "prim_to_inf_arg", "prim_to_obj_common",
    "prim_to_obj_proper", "prim_to_subj_common", "prim_to_subj_proper", "subj_to_obj_common", "subj_to_obj_proper",
    "unacc_to_transitive",
)  # fmt: skip
"""The kinds of examples that are reported: the two of training and the 21 of generalisation."""


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence of COGS with its labels; ``form`` is None where the source has labels alone."""

    words: list[str]
    analysis: GraphLabels
    form: str | None
    distribution: str
    """The kind of example, such as `in_distribution`, `primitive`, `cp_recursion`."""
    where: str
    """`file:line`, for messages."""


def read_semantic(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Yield the sentences of COGS with five labels a word, from a file of its own or from JSON lines of labels.

    Raises:
        DataError: a line is malformed; the message names it.
    """
    lines = iter(lines)
    first = list(islice(lines, 1))
    read = read_seqtag if first and first[0].lstrip().startswith("{") else read_cogs
    return map(_labelled, read(chain(first, lines), name))


def _labelled(example: Example) -> Sentence:
    labels = example.analysis
    columns = {
        "role": labels.role,
        "category": labels.category,
        "noun_type": labels.noun_type,
        "verb_name": labels.verb_name,
        "offset": [f"{parent - i:+d}" if parent >= 0 else "" for i, parent in enumerate(labels.parents)],
        "position": [str(parent) if parent >= 0 else "" for parent in labels.parents],
        "by_category": parents_by_category(labels),
        "kind": kinds_of_words(labels.role, labels.category, labels.verb_name),
        "frame": frames_of_words(labels),
    }
    return Sentence(
        words=list(example.words),
        tags={name: [value or NONE for value in values] for name, values in columns.items()},
        labels={"case": example.distribution},
        parents=list(labels.parents),
        form=example.form,
        where=example.where,
    )


def read_cogs(lines: Iterable[str], name: str) -> Iterator[Example]:
    r"""Yield the examples of a TSV file of COGS: sentence, logical form and distribution, separated by tabs.

    ``lines`` may end in ``\n`` or ``\r\n``.

    Raises:
        DataError: a line is malformed; the message starts with ``name:line:``.
    """
    for number, raw in enumerate(lines, start=1):
        columns = raw.removesuffix("\n").removesuffix("\r").split("\t")
        if len(columns) != 3:
            count = f"{len(columns)} column{'s' if len(columns) > 1 else ''}"
            hint = "a line of COGS is sentence, logical form and distribution, separated by single tabs"
            _fail(name, number, f"{count} instead of 3", hint)
        words = words_of(columns[0])
        if not words or " ".join(words) != columns[0]:  # its form counts the words
            _fail(name, number, "a sentence with an empty word", "words are separated by single spaces")
        try:
            analysis = analyse(words, columns[1])
        except ValueError as error:
            hint = "the second column is a COGS form of this sentence, such as * otter ( x _ 1 ) ; "
            hint += "yawn . agent ( x _ 2 , x _ 1 ) for The otter yawned ."
            _fail(name, number, str(error), hint)
        yield Example(words, analysis, columns[1], columns[2], f"{name}:{number}")


_KEYS = ("tokens", "parent", "role", "category", "noun_type", "verb_name", "distribution")
_VALUES = {"role": ROLES, "category": CATEGORIES, "noun_type": NOUN_TYPES}


def read_seqtag(lines: Iterable[str], name: str) -> Iterator[Example]:
    r"""Yield the examples of a file of labels, one JSON object a line; they have no form.

    The labels need not describe a form. ``lines`` may end in ``\n`` or ``\r\n``.

    Raises:
        DataError: a line is malformed; the message starts with ``name:line:``.
    """
    for number, line in enumerate(lines, start=1):
        try:
            record = from_json(line)
        except ValueError as error:
            _fail(name, number, f"not JSON: {error}", "a line is one JSON object; COGS with forms is a .tsv file")
        _check_record(record, name, number)
        values = [record[key] for key in _KEYS]
        yield Example(values[0], GraphLabels(*values[1:6]), None, values[6], f"{name}:{number}")


def _check_record(record: Any, name: str, number: int) -> None:
    hint = f"an object has the keys {', '.join(_KEYS)}"
    if not isinstance(record, dict):
        _fail(name, number, "not a JSON object", hint)
    if unknown := [key for key in record if key not in _KEYS]:
        _fail(name, number, f"unknown key {unknown[0]!r}", hint)
    if missing := [key for key in _KEYS if key not in record]:
        _fail(name, number, f"no key {missing[0]!r}", hint)
    if not isinstance(record["distribution"], str):
        _fail(name, number, "distribution is not a string", 'for example "in_distribution"')
    n = len(record["tokens"]) if isinstance(record["tokens"], list) else 0
    for key in _KEYS[:-1]:
        kind, kinds = (int, "whole numbers") if key == "parent" else (str, "strings")
        if not isinstance(record[key], list) or any(type(value) is not kind for value in record[key]):
            _fail(name, number, f"{key} is not a list of {kinds}", "one value a word")
        if len(record[key]) != n:
            _fail(name, number, f"{key} has {len(record[key])} values for {n} tokens", "one value a word")
    if not n:
        _fail(name, number, "a sentence without words", "remove the line")
    if not are_words(record["tokens"]):
        _fail(name, number, "tokens is no list of words without white space", "one word a token")
    _check_values(record, name, number)


def _check_values(record: dict[str, list[Any]], name: str, number: int) -> None:
    n = len(record["tokens"])
    for key, values in _VALUES.items():
        if unknown := [value for value in record[key] if value not in values]:
            _fail(name, number, f"unknown {key} {unknown[0]!r}", f"it is one of {', '.join(map(repr, values))}")
    for i, parent in enumerate(record["parent"]):
        if not -1 <= parent < n or parent == i:
            hint = f"the sentence has {n} words, counted from 0; -1 is no parent"
            _fail(name, number, f"parent {parent} of word {i} is not another word of the sentence", hint)


def _fail(name: str, number: int, message: str, hint: str) -> NoReturn:
    raise DataError(f"{name}:{number}: {message}", hint=hint) from None
