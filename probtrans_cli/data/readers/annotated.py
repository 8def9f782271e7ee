"""Sentences of corpora that are annotated in their own ways: column files with tags or entities, and COGS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from probtrans_cli.data.codecs.entities import MisfitError, Scheme, convert, detect, problems
from probtrans_cli.data.codecs.logical_forms import Example, read_cogs, read_seqtag
from probtrans_cli.data.readers.columns import read_columns
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Columns

TAG_END = "\n"  # between the tags of a sentence as one text
NONE = "none"  # how the labels of COGS call the absence of one
CASES = (
    "in_distribution", "primitive", "active_to_passive", "cp_recursion",
    "do_dative_to_pp_dative", "obj_omitted_transitive_to_transitive", "obj_pp_to_subj_pp", "obj_to_subj_common",
    "obj_to_subj_proper", "only_seen_as_transitive_subj_as_unacc_subj",
    "only_seen_as_unacc_subj_as_obj_omitted_transitive_subj", "only_seen_as_unacc_subj_as_unerg_subj",
    "passive_to_active", "pp_dative_to_do_dative", "pp_recursion", "prim_to_inf_arg", "prim_to_obj_common",
    "prim_to_obj_proper", "prim_to_subj_common", "prim_to_subj_proper", "subj_to_obj_common", "subj_to_obj_proper",
    "unacc_to_transitive",
)  # fmt: skip
"""Kinds of examples of COGS that are reported, the 21 of generalisation among them."""


def read_tagged(lines: Iterable[str], name: str, columns: Columns) -> Iterator[Sentence]:
    """Yield the sentences of a column file with their tags, which mark entities if the section says so.

    Raises:
        DataError: a line is malformed, or the tags do not fit their scheme; the message names the line.
    """
    found = read_columns(lines, name, word=columns.word, tag=columns.tag, separator=columns.separator)
    if columns.entities is None:
        for words, tags, where in found:
            yield Sentence(words=words, tags={"tag": tags}, where=where)
        return
    every = list(found)  # the scheme shows in the whole corpus alone
    scheme: Scheme = _detected(every) if columns.scheme == "auto" else columns.scheme
    for words, tags, where in every:
        if problem := problems(tags, scheme):
            hint = f"the tags are read as {scheme}: mend this one, or set data.columns.scheme"
            raise DataError(f"{_line(where, problem[0])}: {problem[1]}", hint=hint)
        converted = convert(tags, scheme, columns.entities)
        yield Sentence(words=words, tags={"tag": converted}, form=TAG_END.join(converted), where=where)


def _detected(found: Sequence[tuple[list[str], list[str], str]]) -> Scheme:
    try:
        return detect(tags for _, tags, _ in found)
    except MisfitError as error:
        where = _line(found[error.sequence][2], error.index)
        hint = (
            "mend the tag, or say with data.columns.tag which column has the tags, or with data.columns.scheme how "
            "they mark entities"
        )
        message = f"{where}: {error.reason} (no scheme fits all tags of the file; {error.scheme} fits them up to here)"
        raise DataError(message, hint=hint) from None


def _line(where: str, index: int) -> str:
    """The line of a word in a file of one a line, from that of its sentence, ``file:line``."""
    name, _, first = where.rpartition(":")
    return f"{name}:{int(first) + index}"


def read_semantic(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """The sentences of COGS with five labels a word: from its own files, or from JSON lines of labels.

    Raises:
        DataError: a line is malformed; the message names it.
    """
    given = iter(lines)
    first = list(islice(given, 1))
    read = read_seqtag if first and first[0].lstrip().startswith("{") else read_cogs
    return map(_labelled, read(chain(first, given), name))


def _labelled(example: Example) -> Sentence:
    labels = example.analysis
    columns = {
        "role": labels.role,
        "category": labels.category,
        "noun_type": labels.noun_type,
        "verb_name": labels.verb_name,
        "offset": [f"{parent - i:+d}" if parent >= 0 else "" for i, parent in enumerate(labels.parents)],
        "position": [str(parent) if parent >= 0 else "" for parent in labels.parents],
    }
    return Sentence(
        words=list(example.words),
        tags={name: [value or NONE for value in values] for name, values in columns.items()},
        labels={"case": example.distribution},
        parents=list(labels.parents),
        form=example.form,
        where=example.where,
    )
