"""CoNLL-U: https://universaldependencies.org/format.html, read strictly and written back without loss.

The ten columns are ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC. They are split here rather than by the package
``conllu``, which checks neither the number of columns nor the range of heads and reports no line numbers; the tests
compare the two. Cycles, several roots (induced "trees" may have both) and unknown tags or relations are no errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import ABSENT

MOST_LINES = 100_000
"""Of a sentence, comments included: a file without blank lines is not held in memory."""
_FORM, _UPOS, _XPOS, _FEATS, _HEAD, _DEPREL, _MISC = 1, 3, 4, 5, 6, 7, 9
_SPACES_ALLOWED = (1, 2, 9)  # FORM, LEMMA and MISC
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
_EMPTY_TEXT = re.compile(r"#\s*text\s*=\s*")
_LINE_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def read_conllu(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    r"""Yield the sentences of a CoNLL-U file, each as soon as its blank line is read.

    ``lines`` may end in ``\n`` or ``\r\n``; both are stripped, and the sentence notes which its first line has. Several
    blank lines in a row, and none at the end of the file, are fine. A block of comments alone is an error, unless its
    text is empty (``# text =``): so an empty sentence is written by :func:`annotated`.

    The lines of CoNLL-U Plus are turned into those of CoNLL-U, see :mod:`probtrans_cli.data.readers.conllu`.

    Raises:
        DataError: a line is malformed; the message starts with ``name:line:``.
    """
    block: list[str] = []
    first, windows = 1, False
    layout: Layout | None = None
    for number, raw in enumerate(lines, start=1):
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
                _wrong_columns(line, name, number)
            if len(block) == MOST_LINES:
                hint = "sentences are separated by blank lines"
                _fail(name, number, f"a sentence of more than {MOST_LINES:,} lines, which begins in line {first}", hint)
            block.append(line)
        elif block:
            if not _names_columns(block):
                yield _Block(name, first, windows).parse(block)
            block = []
    if block and not _names_columns(block):
        yield _Block(name, first, windows).parse(block)


def _names_columns(block: Sequence[str]) -> bool:
    """Whether it is only the comment that names the columns, with a blank line below it."""
    return len(block) == 1 and block[0][0] == "#" and column_names(block[0]) is not None


def annotated(
    sentence: Sentence,
    heads: Sequence[int] | None = None,
    deprels: Sequence[str] | None = None,
    *,
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    misc: Mapping[str, Sequence[str]] = MappingProxyType({}),
    comments: Mapping[str, str | Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """Return the CoNLL-U lines of a sentence with other annotations, without the blank line that ends it.

    Every column, comment, multiword token and empty node that is not named stays as it was read. A sentence of plain
    text gets ``# text`` and ten columns, with ``SpaceAfter=No`` between words that its text does not separate.

    Args:
        sentence: the sentence.
        heads: a head for every word, 0 = root.
        deprels: a relation for every word; by default ``root`` for head 0 and ``dep`` otherwise.
        columns: other columns by name in lower case (``upos``, ``xpos``, ``feats``), a value a word.
        misc: entries of MISC by name, a value a word, "" for none; what the sentence had under this name is gone.
        comments: by name, one or a list of them; those of the same name are replaced, others follow behind those that
            there are.

    Raises:
        ValueError: something has another length than the sentence.
    """
    count = len(sentence.words)
    for values in (heads, deprels, *columns.values(), *misc.values()):
        if values is not None and len(values) != count:
            raise ValueError(f"{sentence.where}: {len(values)} values for {count} words")
    given = {COLUMNS.index(name.upper()): [_word(value) for value in values] for name, values in columns.items()}
    if heads is not None:
        given[_HEAD] = [str(int(head)) for head in heads]
        default = ["root" if head == 0 else "dep" for head in heads]
        given[_DEPREL] = default if deprels is None else [_word(one) for one in deprels]
    if sentence.lines is None or sentence.rows is None:
        forms = [_one_line(word) for word in sentence.words]
        text = " ".join(forms) if sentence.text is None or not forms else _one_line(sentence.text)
        lines = [f"# text = {text}".rstrip()]
        lines += [
            f"{i}\t{form}" + "\t_" * 7 + ("\tSpaceAfter=No" if joined else "\t_")
            for i, (form, joined) in enumerate(zip(forms, _joined(sentence), strict=True), start=1)
        ]
        rows: Sequence[int] = range(1, count + 1)
    else:
        lines, rows = list(sentence.lines), sentence.rows
    for i, row in enumerate(rows):
        fields = lines[row].split("\t")
        for column, texts in given.items():
            fields[column] = texts[i]
        if misc:
            fields[_MISC] = _merged_misc(fields[_MISC], {name: entries[i] for name, entries in misc.items()})
        lines[row] = "\t".join(fields)
    return _commented(lines, comments) if comments else lines


def _commented(lines: list[str], comments: Mapping[str, str | Sequence[str]]) -> list[str]:
    """The lines with other comments."""
    there = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    kept = [line for line in lines[:there] if line[1:].partition("=")[0].strip() not in comments]
    added = [
        f"# {name} = {_one_line(text)}"
        for name, given in comments.items()
        for text in ([given] if isinstance(given, str) else given)
    ]
    return [*kept, *added, *lines[there:]]


def _is_tag(text: str) -> bool:
    return text != "_"


def _word(text: str) -> str:
    """The text as the value of a column."""
    return _one_line(text).replace(" ", "_")


def _joined(sentence: Sentence) -> list[bool]:
    """Of every word whether the next one follows without a space."""
    if sentence.text is None:
        return [False] * len(sentence.words)
    joined, end = [], 0
    for word in sentence.words:
        start = sentence.text.index(word, end)
        joined.append(start == end)
        end = start + len(word)
    return [*joined[1:], False][: len(joined)]


def _merged_misc(old: str, new: Mapping[str, str]) -> str:
    """The entries of ``old`` but those that ``new`` names, then those of ``new``."""
    kept = [] if old == "_" else [entry for entry in old.split("|") if entry.partition("=")[0] not in new]
    added = [f"{name}={_one_line(text).replace('|', ESCAPED_BAR)}" for name, text in new.items() if text]
    return "|".join(kept + added) or "_"


def _one_line(text: str) -> str:
    """The text with anything that would end a column or a line turned into a space; never empty."""
    return _LINE_BREAKS.sub(" ", text).strip(" ") or "_"


def _wrong_columns(line: str, name: str, number: int) -> NoReturn:
    if not line.strip():
        _fail(name, number, "a line of white space only", "sentences are separated by a line that is quite empty")
    found = line.count("\t") + 1
    hint = "CoNLL-U columns are separated by single tabs; an empty column is written `_`"
    if found == 1 and len(line.split()) >= len(COLUMNS):
        hint = "here spaces seem to separate columns: turn them into single tabs"
    elif found > len(COLUMNS):
        hint += "; a file with more columns names them all in its first line, # global.columns = ID FORM ..."
    hint += "; if this is plain text, a sentence a line, say data.format=text (parse: --input text)"
    _fail(name, number, f"{found} column{'s' if found > 1 else ''} instead of 10", hint)


def _fail(name: str, number: int, message: str, hint: str) -> NoReturn:
    raise DataError(f"{name}:{number}: {message}", hint=hint)


class _Block:
    """The state of reading one block, line by line; ``parse`` returns its sentence."""

    def __init__(self, name: str, first: int, windows: bool) -> None:
        self.name = name
        self.first = first  # line number of the block's first line
        self.windows = windows
        self.words: list[str] = []
        self.tags: dict[str, list[str]] = {"upos": [], "xpos": [], "feats": []}
        self.heads: list[int | None] = []
        self.relations: list[str] = []
        self.rows: list[int] = []
        self.range_row = 0  # line and last word of the latest multiword token
        self.range_end = 0
        self.range_is_open = False  # the line before was a multiword token: its first word must follow
        self.empty_nodes = 0  # empty nodes since the last word

    def fail(self, row: int, message: str, hint: str) -> NoReturn:
        _fail(self.name, self.first + row, message, hint)

    def parse(self, block: list[str]) -> Sentence:
        content = 0
        while content < len(block) and block[content][0] == "#":
            content += 1
        self.check_comments(block[:content], whole=content == len(block))
        for row in range(content, len(block)):
            self.add_line(row, block[row])
        self.check_end(len(block) - 1, empty=content == len(block))
        heads = [head for head in self.heads if head is not None]
        return Sentence(
            words=self.words,
            tags={
                column: tags for column, tags in self.tags.items() if column not in ABSENT or any(map(_is_tag, tags))
            },
            heads=heads if len(heads) == len(self.words) else None,
            relations=self.relations,
            lines=block,
            rows=self.rows,
            windows=self.windows,
            where=f"{self.name}:{self.first}",
        )

    def check_comments(self, comments: list[str], *, whole: bool) -> None:
        if whole and not any(_EMPTY_TEXT.fullmatch(line) for line in comments):
            hint = "is the file cut off? comments stand directly above the lines of their sentence"
            self.fail(len(comments) - 1, "comments without a sentence", hint)

    def add_line(self, row: int, line: str) -> None:
        if line[0] == "#":
            self.fail(row, "a comment inside a sentence", "comments stand above the first word of their sentence")
        columns = line.split("\t")
        if "" in columns:
            column = COLUMNS[columns.index("")]
            self.fail(row, f"the column {column} is empty", "write `_` for a value that is not there")
        if " " in line:
            self.check_spaces(row, columns)
        if columns[0] == str(len(self.words) + 1):
            self.add_word(row, columns)
        elif self.range_is_open:
            hint = f"word {len(self.words) + 1} must follow the line of its multiword token"
            self.fail(row, f"ID {columns[0]!r} after a multiword token", hint)
        elif found := _RANGE.fullmatch(columns[0]):
            self.add_range(row, columns, int(found[1]), int(found[2]))
        elif found := _EMPTY_NODE.fullmatch(columns[0]):
            self.add_empty_node(row, columns, int(found[1]), int(found[2]))
        elif _NUMBER.fullmatch(columns[0]):
            hint = "words are numbered 1, 2, 3, ... in order; is a blank line missing between two sentences?"
            self.fail(row, f"ID {columns[0]} where {len(self.words) + 1} was expected", hint)
        else:
            hint = "an ID is a number (3), a range for a multiword token (3-4) or an empty node (3.1)"
            self.fail(row, f"{columns[0]!r} is not an ID", hint)

    def check_spaces(self, row: int, columns: list[str]) -> None:
        for index, value in enumerate(columns):
            if " " in value and index not in _SPACES_ALLOWED:
                hint = "only FORM, LEMMA and MISC may contain spaces; columns are separated by tabs"
                self.fail(row, f"a space in the column {COLUMNS[index]}: {value!r}", hint)
        if columns[_FORM] != columns[_FORM].strip(" "):
            self.fail(row, f"a space at the edge of FORM: {columns[_FORM]!r}", "remove it")

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
            self.fail(row, f"HEAD {head!r} is not a number", hint)
        elif head == columns[0]:
            self.fail(row, f"word {head} is its own head", "HEAD is 0 for the root")
        else:
            self.heads.append(int(head))

    def add_range(self, row: int, columns: list[str], start: int, end: int) -> None:
        if start != len(self.words) + 1:
            hint = f"it stands directly before its first word, so here it would begin with {len(self.words) + 1}"
            self.fail(row, f"multiword token {columns[0]} in the wrong place", hint)
        if end < start:  # one of a single word (1-1) is valid
            self.fail(row, f"multiword token {columns[0]} ends before it begins", "its range is FIRST-LAST")
        if start <= self.range_end:
            hint = "a word belongs to one multiword token at most"
            self.fail(row, f"multiword token {columns[0]} overlaps the one before", hint)
        self.check_no_tree(row, columns, "a multiword token")
        self.range_row, self.range_end, self.range_is_open = row, end, True

    def add_empty_node(self, row: int, columns: list[str], word: int, minor: int) -> None:
        if word != len(self.words) or minor != self.empty_nodes + 1:
            hint = f"here the next empty node would be {len(self.words)}.{self.empty_nodes + 1}"
            self.fail(row, f"empty node {columns[0]} in the wrong place", hint)
        self.check_no_tree(row, columns, "an empty node")
        self.empty_nodes = minor

    def check_no_tree(self, row: int, columns: list[str], what: str) -> None:
        for index in (_HEAD, _DEPREL):
            if columns[index] != "_":
                hint = "only words are part of the tree; write `_`"
                self.fail(row, f"{what} with {COLUMNS[index]} {columns[index]!r}", hint)

    def check_end(self, last: int, *, empty: bool) -> None:
        count = len(self.words)
        if not count and not empty:
            self.fail(last, "a sentence without words", "a sentence needs a line with the ID 1")
        if self.range_end > count:
            hint = f"the sentence has {count} word{'s' if count != 1 else ''}"
            self.fail(self.range_row, f"a multiword token up to word {self.range_end}", hint)
        for row, head in zip(self.rows, self.heads, strict=True):
            if head is not None and head > count:
                hint = f"the sentence has {count} word{'s' if count != 1 else ''}; HEAD is 0 to {count}"
                self.fail(row, f"HEAD {head} is not a word of the sentence", hint)


COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ESCAPED_BAR = r"\p"
"""A `|` within an entry of MISC, as UDPipe writes it."""
STANDARD = f"# global.columns = {' '.join(COLUMNS)}"
_NAMES = re.compile(r"#\s*global\.columns\s*=(.*)", re.DOTALL)


def column_names(comment: str) -> list[str] | None:
    """The columns that a comment names; None: it is another comment."""
    found = _NAMES.match(comment) if "global.columns" in comment else None
    return None if found is None else found[1].split()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the columns of CoNLL-U stand in a file, and the others by name."""

    count: int
    places: tuple[int, ...]
    others: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, names: list[str], where: str) -> Layout | None:
        """What the columns of these names are; None: those of CoNLL-U, as they are.

        Raises:
            DataError: one is missing or stands there twice.
        """
        if tuple(names) == COLUMNS:
            return None
        hint = f"the columns of CoNLL-U must be there, each once, in any order: {' '.join(COLUMNS)}"
        if missing := [name for name in COLUMNS if name not in names]:
            raise DataError(f"{where}: # global.columns lacks {', '.join(missing)}", hint=hint)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"{where}: # global.columns has {twice} twice", hint=hint)
        others = tuple((i, name.replace("|", ESCAPED_BAR)) for i, name in enumerate(names) if name not in COLUMNS)
        return cls(len(names), tuple(map(names.index, COLUMNS)), others)

    def row(self, line: str, where: str) -> str:
        """A line with these columns as one of CoNLL-U.

        Raises:
            DataError: it has more or fewer.
        """
        values = line.split("\t")
        if len(values) != self.count:
            hint = "columns are separated by single tabs; an empty column is written `_`"
            number = f"{len(values)} column{'s' * (len(values) != 1)}"
            raise DataError(f"{where}: {number} instead of the {self.count} of # global.columns", hint=hint)
        *row, misc = (values[place] for place in self.places)
        kept = [] if misc == "_" else [misc]
        others = ((name, values[place]) for place, name in self.others)
        kept += [f"{name}={value.replace('|', ESCAPED_BAR)}" for name, value in others if value not in ("_", "")]
        return "\t".join([*row, "|".join(kept) or "_"])
