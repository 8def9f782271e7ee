"""COGS (Kim and Linzen 2020): its own files of sentences and logical forms, or JSON lines of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from probtrans_cli.data.logical_forms import (
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
from probtrans_cli.data.readers.lines import json_object
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import are_words, words_of
from probtrans_cli.errors import DataError
from probtrans_cli.text import counted

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
    distribution: str  # the kind of example, such as `in_distribution`, `primitive`, `cp_recursion`
    where: str  # `file:line`, for messages


def read_semantic(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Yield the sentences of COGS with five labels a word, from a file of its own or from JSON lines of labels."""
    lines = iter(lines)
    first = list(islice(lines, 1))
    read = read_seqtag if first and first[0].lstrip().startswith("{") else read_cogs
    for example in read(chain(first, lines), name):
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
        yield Sentence(
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
        where, columns = f"{name}:{number}", raw.removesuffix("\n").removesuffix("\r").split("\t")
        if len(columns) != 3:
            hint = "a line of COGS is sentence, logical form and distribution, separated by single tabs"
            raise DataError(f"{where}: {counted(len(columns), 'column')} instead of 3", hint=hint)
        words = words_of(columns[0])
        if not words or " ".join(words) != columns[0]:  # its form counts the words
            hint = "words are separated by single spaces"
            raise DataError(f"{where}: a sentence with an empty word", hint=hint)
        try:
            analysis = analyse(words, columns[1])
        except ValueError as error:
            hint = "the second column is a COGS form of this sentence, such as * otter ( x _ 1 ) ; "
            hint += "yawn . agent ( x _ 2 , x _ 1 ) for The otter yawned ."
            raise DataError(f"{where}: {error}", hint=hint) from None
        yield Example(words, analysis, columns[1], columns[2], where)


class _Record(BaseModel):
    """A line of labels, with a value for each word in every list."""

    model_config = ConfigDict(strict=True, extra="forbid")

    tokens: list[str]
    parent: list[int]
    role: list[str]
    category: list[str]
    noun_type: list[str]
    verb_name: list[str]
    distribution: str

    @model_validator(mode="after")
    def _is_of_a_sentence(self) -> _Record:
        n = len(self.tokens)
        if not n:
            raise ValueError("a sentence without words")
        if not are_words(self.tokens):
            raise ValueError("tokens is no list of words without white space")
        for key in ("parent", "role", "category", "noun_type", "verb_name"):
            if len(values := getattr(self, key)) != n:
                raise ValueError(f"{key} has {len(values)} values for {n} tokens")
        for key, known in (("role", ROLES), ("category", CATEGORIES), ("noun_type", NOUN_TYPES)):
            if unknown := [value for value in getattr(self, key) if value not in known]:
                raise ValueError(f"unknown {key} {unknown[0]!r}: it is one of {', '.join(map(repr, known))}")
        for i, parent in enumerate(self.parent):
            if not -1 <= parent < n or parent == i:
                words = f"the sentence has {n} words, counted from 0; -1 is no parent"
                raise ValueError(f"parent {parent} of word {i} is not another word of the sentence: {words}")
        return self


def read_seqtag(lines: Iterable[str], name: str) -> Iterator[Example]:
    r"""Yield the examples of a file of labels, one JSON object a line; they have no form.

    The labels need not describe a form. ``lines`` may end in ``\n`` or ``\r\n``.

    Raises:
        DataError: a line is malformed; the message starts with ``name:line:``.
    """
    keys = ", ".join(_Record.model_fields)
    for number, line in enumerate(lines, start=1):
        where = f"{name}:{number}"
        values = json_object(line, where, f"with the keys {keys}; COGS with forms is a .tsv file")
        try:
            record = _Record.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            message = ": ".join((".".join(map(str, first["loc"])), first["msg"])) if first["loc"] else first["msg"]
            hint = f"an object has the keys {keys}; all but the last hold one value a word"
            raise DataError(f"{where}: {message.removeprefix('Value error, ')}", hint=hint) from None
        labels = GraphLabels(record.parent, record.role, record.category, record.noun_type, record.verb_name)
        yield Example(record.tokens, labels, None, record.distribution, where)
