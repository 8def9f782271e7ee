"""CoNLL-U: https://universaldependencies.org/format.html, read strictly and written back without loss.

The ten columns are ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC. They are split here rather than by the package
``conllu``, which checks neither the number of columns nor the range of heads and reports no line numbers; the tests
compare the two. Cycles, several roots (induced "trees" may have both) and unknown tags or relations are no errors.

A file of CoNLL-U Plus, https://universaldependencies.org/ext-format.html, names its columns in a comment:

    # global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE

All columns of CoNLL-U must be there, in any order. Values of additional columns are kept in MISC, as
`PARSEME:MWE=1:LVC.full`.

Gold trees of CoNLL-U as a parser learns them: each sentence a tree with one root, or a part of one.

A word without a HEAD (`_`) is not annotated: nothing is learned of its arc. What is known of a sentence must be a part
of a tree, whose only word with HEAD 0 has the relation `root`.

of a sentence     what it holds
parents           HEAD less 1, so that -1 is the root; -2 of a word that is not annotated
tags              `upos`, `xpos`, `feats`; `deprel`, DEPREL; `udeprel`, the same without subtype (`nsubj:pass`: `nsubj`)
form              the gold annotation for scoring, a line a word: HEAD, DEPREL, UPOS, XPOS and FEATS with tabs between
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import NoReturn

from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import ABSENT
from probtrans_cli.text import counted

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
MOST_LINES = 100_000  # of a sentence, comments included: a file without blank lines is not held in memory
ESCAPED_BAR = r"\p"  # a `|` within an entry of MISC, as UDPipe writes it
STANDARD = f"# global.columns = {' '.join(COLUMNS)}"
_FORM, _UPOS, _XPOS, _FEATS, _HEAD, _DEPREL, _MISC = 1, 3, 4, 5, 6, 7, 9
# What MISC and the comments say of heads; it is gone where new ones are written.
_OF_HEADS = frozenset({"Prob", "ProbSD", "RelProb", "Heads", "HeadEntropy"}), frozenset({"tree", "log_prob"})
_OF_TAGS = frozenset({"TagProb", "TagEntropy", "TagMI"})
_SPACES_ALLOWED = (1, 2, 9)  # FORM, LEMMA and MISC
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
_EMPTY_TEXT = re.compile(r"#\s*text\s*=\s*")
_COLUMN_NAMES = re.compile(r"#\s*global\.columns\s*=(.*)", re.DOTALL)
_UNKNOWN_COLUMNS = ["_"] * 8
_LINE_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


# --- reading ----------------------------------------------------------------------------------------------------------


def read_conllu(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    r"""Yield the sentences of a CoNLL-U file, each as soon as its blank line is read.

    ``lines`` may end in ``\n`` or ``\r\n``; both are stripped, and the sentence notes which its first line has. Several
    blank lines in a row, and none at the end of the file, are fine. A block of comments alone is an error, unless its
    text is empty (``# text =``): so an empty sentence is written by :func:`annotated`.

    Raises:
        DataError: a line is malformed; the message starts with ``name:line:``.
    """
    block: list[str] = []
    first, windows = 1, False
    layout: Layout | None = None
    for number, raw in enumerate(chain(lines, [""]), start=1):
        line = raw.removesuffix("\n").removesuffix("\r")
        if line:
            if not block:
                first, windows = number, raw.endswith(("\r", "\r\n"))
            # Checked here, before the block is complete, so that a file of another kind fails at its first line
            # instead of being read to its end in search of a blank one.
            if line[0] == "#":
                if (columns := column_names(line)) is not None:
                    layout = Layout.of(columns, f"{name}:{number}")
                    line = line if layout is None else STANDARD
            elif layout is not None:
                line = layout.row(line, f"{name}:{number}")
            elif line.count("\t") != 9:
                _refuse_columns(line, f"{name}:{number}")
            if len(block) == MOST_LINES:
                message = f"a sentence of more than {MOST_LINES:,} lines, which begins in line {first}"
                raise DataError(f"{name}:{number}: {message}", hint="sentences are separated by blank lines")
            block.append(line)
        elif block:
            # The names of columns alone, at the beginning of a file, are no sentence.
            if len(block) > 1 or block[0][0] != "#" or column_names(block[0]) is None:
                yield _Block(name, first, windows).parse(block)
            block = []


def column_names(comment: str) -> list[str] | None:
    """Return the columns that a comment names; None: it is another comment."""
    match = _COLUMN_NAMES.match(comment) if "global.columns" in comment else None
    return None if match is None else match[1].split()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the columns of CoNLL-U stand in a file of CoNLL-U Plus, and its additional columns by name."""

    count: int
    places: tuple[int, ...]
    additional: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, names: list[str], where: str) -> Layout | None:
        """Return the layout of these columns; None: they are those of CoNLL-U, in order."""
        if tuple(names) == COLUMNS:
            return None
        hint = f"the columns of CoNLL-U must be there, each once, in any order: {' '.join(COLUMNS)}"
        if missing := [name for name in COLUMNS if name not in names]:
            raise DataError(f"{where}: # global.columns lacks {', '.join(missing)}", hint=hint)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"{where}: # global.columns has {twice} twice", hint=hint)
        additional = tuple((i, name.replace("|", ESCAPED_BAR)) for i, name in enumerate(names) if name not in COLUMNS)
        return cls(len(names), tuple(map(names.index, COLUMNS)), additional)

    def row(self, line: str, where: str) -> str:
        """Return a line with these columns as a line of CoNLL-U; raise a DataError if it has more or fewer."""
        values = line.split("\t")
        if len(values) != self.count:
            hint = "columns are separated by single tabs; an empty column is written `_`"
            number = counted(len(values), "column")
            raise DataError(f"{where}: {number} instead of the {self.count} of # global.columns", hint=hint)
        *row, misc = (values[place] for place in self.places)
        entries = [] if misc == "_" else [misc]
        additional = ((name, values[place]) for place, name in self.additional)
        entries += [f"{name}={value.replace('|', ESCAPED_BAR)}" for name, value in additional if value not in ("_", "")]
        return "\t".join([*row, "|".join(entries) or "_"])


def _refuse_columns(line: str, where: str) -> NoReturn:
    if not line.strip():
        hint = "sentences are separated by a line that is quite empty"
        raise DataError(f"{where}: a line of white space only", hint=hint)
    count = line.count("\t") + 1
    hint = "CoNLL-U columns are separated by single tabs; an empty column is written `_`"
    if count == 1 and len(line.split()) >= len(COLUMNS) and _NUMBER.match(line):
        hint = "here spaces seem to separate columns: turn them into single tabs"
    elif count > len(COLUMNS):
        hint += "; a file with more columns names them all in its first line, # global.columns = ID FORM ..."
    if line.startswith("{"):
        hint = "this looks like JSON lines: give CoNLL-U, as parse -f conllu writes it"
    hint += "; plain text, a sentence a line, is data.format=text in a recipe, and parse --input text"
    raise DataError(f"{where}: {counted(count, 'column')} instead of 10", hint=hint)


@dataclass(slots=True)
class _Block:
    """The state of reading the lines of a sentence; ``parse`` returns it."""

    name: str
    first: int  # the number of its first line
    windows: bool
    words: list[str] = field(default_factory=list)
    tags: dict[str, list[str]] = field(default_factory=lambda: {"upos": [], "xpos": [], "feats": []})
    heads: list[int | None] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    range_row: int = 0  # line and last word of the latest multiword token
    range_end: int = 0
    range_is_open: bool = False  # the line before was a multiword token: its first word must follow
    empty_nodes: int = 0  # empty nodes since the last word

    def fail(self, row: int, message: str, hint: str) -> NoReturn:
        raise DataError(f"{self.name}:{self.first + row}: {message}", hint=hint)

    def parse(self, block: list[str]) -> Sentence:
        content = 0
        while content < len(block) and block[content][0] == "#":
            content += 1
        if content == len(block) and not any(map(_EMPTY_TEXT.fullmatch, block)):
            hint = "is the file cut off? comments stand directly above the lines of their sentence"
            self.fail(content - 1, "comments without a sentence", hint)
        for row in range(content, len(block)):
            self.add_line(row, block[row])
        count = len(self.words)
        if not count and content < len(block):
            self.fail(len(block) - 1, "a sentence without words", "a sentence needs a line with the ID 1")
        length = f"the sentence has {counted(count, 'word')}"
        if self.range_end > count:
            self.fail(self.range_row, f"a multiword token up to word {self.range_end}", length)
        for row, head in zip(self.rows, self.heads, strict=True):
            if head is not None and head > count:
                self.fail(row, f"HEAD {head} is not a word of the sentence", f"{length}; HEAD is 0 to {count}")
        heads = [head for head in self.heads if head is not None]
        return Sentence(
            words=self.words,
            tags={
                column: tags
                for column, tags in self.tags.items()
                if column not in ABSENT or any(tag != "_" for tag in tags)
            },
            heads=heads if len(heads) == count else None,
            relations=self.relations,
            lines=block,
            rows=self.rows,
            windows=self.windows,
            where=f"{self.name}:{self.first}",
        )

    def add_line(self, row: int, line: str) -> None:
        if line[0] == "#":
            self.fail(row, "a comment inside a sentence", "comments stand above the first word of their sentence")
        columns = line.split("\t")
        if "" in columns or " " in line:
            if "" in columns:
                column = COLUMNS[columns.index("")]
                self.fail(row, f"the column {column} is empty", "write `_` for a value that is not there")
            for index, value in enumerate(columns):
                if " " in value and index not in _SPACES_ALLOWED:
                    hint = "only FORM, LEMMA and MISC may contain spaces; columns are separated by tabs"
                    self.fail(row, f"a space in the column {COLUMNS[index]}: {value!r}", hint)
            if columns[_FORM] != columns[_FORM].strip(" "):
                self.fail(row, f"a space at the edge of FORM: {columns[_FORM]!r}", "remove it")
        id, count = columns[0], len(self.words)
        if id == str(count + 1):
            self.add_word(row, columns)
        elif self.range_is_open:
            hint = f"word {count + 1} must follow the line of its multiword token"
            self.fail(row, f"ID {id!r} after a multiword token", hint)
        elif match := _RANGE.fullmatch(id):
            start, end = int(match[1]), int(match[2])
            if start != count + 1:
                hint = f"it stands directly before its first word, so here it would begin with {count + 1}"
                self.fail(row, f"multiword token {id} in the wrong place", hint)
            if end < start:  # a range of a single word (1-1) is valid
                self.fail(row, f"multiword token {id} ends before it begins", "its range is FIRST-LAST")
            if start <= self.range_end:
                hint = "a word belongs to one multiword token at most"
                self.fail(row, f"multiword token {id} overlaps the one before", hint)
            self.check_no_tree(row, columns, "a multiword token")
            self.range_row, self.range_end, self.range_is_open = row, end, True
        elif match := _EMPTY_NODE.fullmatch(id):
            if (int(match[1]), int(match[2])) != (count, self.empty_nodes + 1):
                hint = f"here the next empty node would be {count}.{self.empty_nodes + 1}"
                self.fail(row, f"empty node {id} in the wrong place", hint)
            self.check_no_tree(row, columns, "an empty node")
            self.empty_nodes += 1
        elif _NUMBER.fullmatch(id):
            hint = "words are numbered 1, 2, 3, ... in order; is a blank line missing between two sentences?"
            self.fail(row, f"ID {id} where {count + 1} was expected", hint)
        else:
            hint = "an ID is a number (3), a range for a multiword token (3-4) or an empty node (3.1)"
            self.fail(row, f"{id!r} is not an ID", hint)

    def add_word(self, row: int, columns: list[str]) -> None:
        self.words.append(columns[_FORM])
        self.tags["upos"].append(columns[_UPOS])
        self.tags["xpos"].append(columns[_XPOS])
        self.tags["feats"].append(columns[_FEATS])
        self.relations.append(columns[_DEPREL])
        self.rows.append(row)
        self.range_is_open = False
        self.empty_nodes = 0
        head = columns[_HEAD]
        if head == "_":
            self.heads.append(None)
        elif not _NUMBER.fullmatch(head):
            hint = "HEAD is 0 for the root, the number of a word otherwise, or `_` where there is no tree"
            self.fail(row, f"HEAD {head!r} is not the number of a word", hint)
        elif head == columns[0]:
            self.fail(row, f"word {head} is its own head", "HEAD is 0 for the root")
        else:
            self.heads.append(int(head))

    def check_no_tree(self, row: int, columns: list[str], kind: str) -> None:
        for index in (_HEAD, _DEPREL):
            if columns[index] != "_":
                hint = "only words are part of the tree; write `_`"
                self.fail(row, f"{kind} with {COLUMNS[index]} {columns[index]!r}", hint)


# --- writing ----------------------------------------------------------------------------------------------------------

REMEMBERED = 4096  # texts of columns, most of which come again and again


def annotated(
    sentence: Sentence,
    heads: Sequence[int] | None = None,
    *,
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    misc: Mapping[str, Sequence[str]] = MappingProxyType({}),
    comments: Mapping[str, str | Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """Return the CoNLL-U lines of a sentence with new annotations, without the blank line that ends it.

    Every column, comment, multiword token and empty node that is not named stays as it was read; but new heads take
    away what an earlier parse has written of the old ones (``Prob=`` and its like in MISC, ``# log_prob``). A sentence
    of plain text gets ``# text`` and ten columns, with ``SpaceAfter=No`` between words that its text does not separate.

    Args:
        heads: a head for every word, 0 = root; their relations are ``root`` for head 0 and ``dep`` otherwise.
        columns: more columns by name in lower case (``upos``, ``head``, ``deprel``, ...), a value a word.
        misc: entries of MISC by name, a value a word, "" for none; what the sentence had under this name is gone.
        comments: by name, one or a list of them; those of the same name are replaced, new names follow behind the
            comments of the sentence.

    Raises:
        ValueError: something has another length than the sentence.
    """
    count = len(sentence.words)
    for values in (heads, *columns.values(), *misc.values()):
        if values is not None and len(values) != count:
            raise ValueError(f"{sentence.where}: {len(values)} values for {count} words")
    new = {
        COLUMNS.index(name.upper()): [_cell(value).replace(" ", "_") for value in values]
        for name, values in columns.items()
    }
    if heads is not None:
        new[_HEAD] = [str(int(head)) for head in heads]
        new[_DEPREL] = ["root" if head == 0 else "dep" for head in heads]
    stale, stale_comments = _OF_HEADS if _HEAD in new else (frozenset(), frozenset())
    if columns:
        stale = stale.union(_OF_TAGS, (f"{name.upper()}Prob" for name in columns))
    stale, stale_comments = stale.union(misc), stale_comments.union(comments)
    if sentence.lines is None or sentence.rows is None:
        text, table = _table_of_text(sentence)
        lines, rows = [text, *[""] * count], list(range(1, count + 1))
    else:
        lines, rows = list(sentence.lines), sentence.rows
        table = [lines[row].split("\t") for row in rows]
    for i, (row, fields) in enumerate(zip(rows, table, strict=True)):
        for column, texts in new.items():
            fields[column] = texts[i]
        if stale and (misc or fields[_MISC] != "_"):
            old = fields[_MISC].split("|") if fields[_MISC] != "_" else []
            entries = [entry for entry in old if entry.partition("=")[0] not in stale]
            entries += [
                f"{name}={_one_line(texts[i]).replace('|', ESCAPED_BAR)}" for name, texts in misc.items() if texts[i]
            ]
            fields[_MISC] = "|".join(entries) or "_"
        lines[row] = "\t".join(fields)
    if not stale_comments:
        return lines
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    kept = [line for line in lines[:end] if line[1:].partition("=")[0].strip() not in stale_comments]
    added = [
        f"# {name} = {_one_line(text)}"
        for name, texts in comments.items()
        for text in ([texts] if isinstance(texts, str) else texts)
    ]
    return [*kept, *added, *lines[end:]]


def _table_of_text(sentence: Sentence) -> tuple[str, list[list[str]]]:
    forms = list(map(_cell, sentence.words))
    text, spans = " ".join(forms), []
    if sentence.text is not None and forms:
        text, spans = _one_line(sentence.text), character_spans(sentence)[1]
    table = [[str(number), form, *_UNKNOWN_COLUMNS] for number, form in enumerate(forms, start=1)]
    for fields, (_, end), (start, _) in zip(table, spans, spans[1:], strict=False):
        if end == start:
            fields[_MISC] = "SpaceAfter=No"
    return f"# text = {text}".rstrip(), table


def _one_line(text: str) -> str:
    return (_LINE_BREAKS.sub(" ", text) if _LINE_BREAKS.search(text) else text).strip(" ") or "_"


_cell = lru_cache(REMEMBERED)(_one_line)  # words and tags come again and again; texts and comments do not


# --- gold trees -------------------------------------------------------------------------------------------------------

ROOT, MISSING = "root", "_"
UNKNOWN = -2  # of a parent


def read_treebank(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file with their trees.

    Raises:
        DataError: a line is malformed, a sentence has a cycle or several roots, a word has one of HEAD and DEPREL
            without the other, or no word of the file has a HEAD; the message starts with ``name:line:``.
    """
    annotated, first = False, None
    for sentence in read_conllu(lines, name):
        assert sentence.lines is not None, "read from lines"
        assert sentence.rows is not None, "read from lines"
        first = first or sentence.where
        rows = [sentence.lines[row].split("\t") for row in sentence.rows]
        parents = [UNKNOWN if row[_HEAD] == MISSING else int(row[_HEAD]) - 1 for row in rows]
        relations = [row[_DEPREL] for row in rows]
        if fault := fault_of(parents, relations):
            word, reason, hint = fault
            beginning = int(sentence.where.rpartition(":")[2])
            raise DataError(f"{name}:{beginning + sentence.rows[word]}: {reason}", hint=hint)
        annotated = annotated or any(parent != UNKNOWN for parent in parents)
        tags = {**sentence.tags, "deprel": relations, "udeprel": [relation.partition(":")[0] for relation in relations]}
        kept = (_HEAD, _DEPREL, _UPOS, _XPOS, _FEATS)
        form = "\n".join("\t".join(row[column] for column in kept) for row in rows)
        yield replace(sentence, tags=tags, parents=parents, form=form)
    if first is not None and not annotated:
        raise DataError(f"{first}: no word of the file has a HEAD", hint="give a treebank with HEAD and DEPREL")


def fault_of(parents: Sequence[int], relations: Sequence[str]) -> tuple[int, str, str] | None:
    """Return a word at which arcs are no part of a tree, the reason and the remedy; None: there is none.

    Args:
        parents: of every word from 0, -1 = the root, :data:`UNKNOWN` = not annotated.
        relations: of every word, `_` = not annotated.
    """
    root = None
    for word, (parent, relation) in enumerate(zip(parents, relations, strict=True)):
        if (parent == UNKNOWN) != (relation == MISSING):
            return word, "HEAD without DEPREL, or DEPREL without HEAD", "give both, or `_` for both"
        if parent != UNKNOWN and (parent < 0) != (relation.partition(":")[0] == ROOT):
            hint = "the word with HEAD 0, and no other one, has the relation root"
            return word, f"HEAD {parent + 1} with the relation {relation}", hint
        if parent == -1 and root is not None:
            return word, f"a second root: word {root + 1} has HEAD 0, too", "a tree has one word with HEAD 0"
        root = word if parent == -1 else root
    if root is None and UNKNOWN not in parents and parents:
        return 0, "a sentence without a root", "one word has HEAD 0"
    done = [parent < 0 for parent in parents]
    for start in range(len(parents)):
        path = []
        word = start
        while not done[word]:
            done[word] = True
            path.append(word)
            word = parents[word]
        if word in path:
            circle = " -> ".join(str(step + 1) for step in [*path[path.index(word) :], word])
            return word, f"a circle of heads: {circle}", "every word leads to the root"
    return None
