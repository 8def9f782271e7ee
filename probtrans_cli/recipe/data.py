"""The ``data`` section of a recipe: corpora, what stands where in their files, and the vocabulary. Imports no torch.

Two tables can grow: :data:`VOCABULARIES`, of the sections that `data.vocabulary` may hold, and :data:`FORMATS`, of the
names that `data.format` may have. How a vocabulary is built and a format is read says :mod:`probtrans_cli.data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from probtrans_cli.recipe.base import (
    File,
    Files,
    Fraction,
    Inconsistency,
    Kinds,
    KindSection,
    Names,
    NonNegativeInt,
    PositiveInt,
    Section,
    Size,
)


class Table(Section):
    """A file with one sentence on each line, already split into words at white space. The labels are the column
    `label`."""

    added_later = MappingProxyType({"columns": None, "quoting": None})

    text: NonNegativeInt = 0
    """Column of the sentence, from 0."""
    label: NonNegativeInt = 1
    """Column of the label, from 0."""
    columns: PositiveInt | None = None
    """Number of columns; null = up to the last of the two. More columns are an error unless they are empty."""
    separator: Annotated[str, Field(min_length=1)] = "\t"
    """Separator of columns. If it is a space, a sentence in the last column goes to the end of the line."""
    quoting: bool | None = None
    """Columns may stand in double quotes, as in CSV, and then hold the separator and line ends; a quote inside is
    written twice. null = only if the separator is a comma."""
    header: bool = False
    """Skip the first line that is not blank."""

    @property
    def quoted(self) -> bool:
        return self.separator == "," if self.quoting is None else self.quoting

    @property
    def width(self) -> int:
        return self.columns or max(self.text, self.label) + 1

    def inconsistencies(self) -> Iterator[Inconsistency]:
        """Check the section by itself: each wrong key with the reason."""
        if self.width <= (last := max(self.text, self.label)):
            yield ("columns",), f"found {self.columns}, but there is a column {last}, counted from 0"
        if self.quoted and (len(self.separator) > 1 or self.separator in '"\r\n'):
            reason = f"for columns that one character other than a quote separates: found {self.separator!r}"
            yield ("quoting",), reason


# --- vocabularies -----------------------------------------------------------------------------------------------------


class VocabularySection(KindSection):
    """What the model reads. Each kind of vocabulary is a row of :data:`VOCABULARIES`."""

    counts_words: ClassVar[bool] = False
    """Whether every entry is a whole word with its training count, as `model.head_bias` needs."""
    has_extra_words: ClassVar[bool] = False
    """Whether it can have an entry for each extra word of open information extraction."""
    beside_folder: ClassVar[tuple[tuple[str, ...], str]] = (), ""
    """Keys that say how it is made of the training file, and why they do not go together with its `folder`."""

    @property
    def omits_words(self) -> bool:
        """Whether some words have no entry, so that nothing can be predicted for them."""
        return not getattr(self, "punctuation", True)

    @property
    def has_features(self) -> bool:
        """Whether words have features of their spelling."""
        return getattr(self, "features", None) is not None

    @property
    def read_from(self) -> str | None:
        """The folder that it is read from; None = it is made from the training file alone."""
        return getattr(self, "folder", None)

    def inconsistencies(self) -> Iterable[Inconsistency]:
        names, reason = self.beside_folder
        for name in names if self.read_from is not None else ():
            if getattr(self, name) != type(self).model_fields[name].default:
                yield (name,), reason


VOCABULARIES: Kinds[VocabularySection] = Kinds("vocabulary")
"""The kinds of vocabularies by name."""


class WordFeatures(Section):
    """Features of a word's spelling, added to its unary scores: `S[w] = row of w + sum of the rows of its features`."""

    added_later = MappingProxyType({"window": 0, "rank": None})

    prefixes: Annotated[int, Field(ge=0, le=16)] = 4
    """Use prefixes of 1 up to this many characters, lower-cased; 0 = none."""
    suffixes: Annotated[int, Field(ge=0, le=16)] = 4
    """Use suffixes of 1 up to this many characters, lower-cased; 0 = none."""
    ngrams: Annotated[int, Field(ge=0, le=16)] = 0
    """Use all strings of this many characters in the lower-cased word, with its ends marked; 0 = none."""
    shape: bool = True
    """Use the pattern of capitals, digits and punctuation: Ms -> Xx, U.S. -> X.X., mid-1990s -> x-dx."""
    rows: PositiveInt = 32768
    """Rows of the hash table of features."""
    window: Annotated[int, Field(ge=0, le=16)] = 0
    """Neighbours up to this many words away have a say in a word's unary scores, too, by features of their spelling
    with scores of their own for each distance; 0 = none. Not with `task.kind: lm`."""
    rank: Size | None = None
    """The scores of a feature, for each label and distance, are products of this many numbers with a matrix of all
    features, which takes less time and forgets what is rare; null = each is a parameter."""


@VOCABULARIES.add
class WordVocabulary(VocabularySection):
    """Every word of the training file that is frequent enough. All other words are `<unk>`."""

    added_later = MappingProxyType({"features": None, "punctuation": True, "folder": None})
    counts_words = has_extra_words = True
    beside_folder = (
        ("min_count", "max_size", "lowercase", "digits", "punctuation"),
        "for words of the training file; those of data.vocabulary.folder have their own: leave it out",
    )

    kind: Literal["words"] = "words"
    folder: File | None = None
    """Folder of a model whose words are taken, with their counts, `lowercase`, `digits` and `punctuation`: few
    sentences with labels can begin with a model of many without (`model.init_from`), and know all of its words. null =
    the words of the training file."""
    min_count: PositiveInt = 1
    """Words rarer than this in the training file are unknown."""
    max_size: PositiveInt | None = None
    """Keep at most this many words, the most frequent ones; null = all."""
    lowercase: bool = False
    """Lower-case words before look-up."""
    digits: bool = False
    """Replace every number by `N` before look-up (1,234.5 -> N; 3rd -> Nrd)."""
    punctuation: bool = True
    """false (`kind: mlm` only): skip tokens without a letter or digit. Their head in trees is the word before them, or
    the first word that is read."""
    features: WordFeatures | None = None
    """Features of the spelling (before `lowercase` and `digits`), so that unknown words differ; null = none. A hidden
    word of `task.kind: mlm` has none."""


@VOCABULARIES.add
class SubwordVocabulary(VocabularySection):
    """Sentencepiece units, trained on the training file by `prepare`. The first piece of a word represents it."""

    kind: Literal["sentencepiece"]
    size: Annotated[int, Field(ge=16, lt=2**31)] = 8000
    """Number of pieces."""
    algorithm: Literal["unigram", "bpe"] = "unigram"
    """Segmentation algorithm of sentencepiece."""
    lowercase: bool = False
    """Lower-case words before segmentation."""


@VOCABULARIES.add
class WordPieceVocabulary(VocabularySection):
    """WordPiece units as in BERT, from a folder, or trained on the training file by `prepare`. `[CLS]` and `[SEP]`
    stand around every sentence. The first piece of a word represents it. Needs the package `tokenizers` (extra
    `hf`)."""

    added_later = MappingProxyType({"features": None})
    has_extra_words = True
    beside_folder = ("size", "lowercase"), "for a trained vocabulary only: leave it out"

    kind: Literal["wordpiece"]
    folder: File | None = None
    """Folder of a BERT vocabulary (`vocab.txt` or `tokenizer.json`, with their options), in the current folder or in
    $PROBTRANS_DATA; null = train one."""
    size: Annotated[int, Field(ge=16, lt=2**31)] = 8000
    """Largest number of pieces of a trained vocabulary."""
    lowercase: bool = False
    """Lower-case words and strip accents, in a trained vocabulary."""
    features: WordFeatures | None = None
    """Features of the spelling, added to the scores of each piece; null = none. A lower-case vocabulary has no capitals
    for `shape`."""


@VOCABULARIES.add
class CharacterVocabulary(VocabularySection):
    """Every character of the training file that is frequent enough. All others are `<unk>`. A character at the
    beginning of a word has another entry than inside a word, and represents the word."""

    kind: Literal["char"]
    min_count: PositiveInt = 1
    """Characters rarer than this in the training file are unknown."""
    lowercase: bool = False
    """Lower-case words before they are split."""


# --- formats ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """A data format. Its reader is a row of :data:`probtrans_cli.data.readers.READERS`."""

    name: str
    gives: frozenset[str]
    """What a task can find in its files: `words`, `tags`, `trees`, `entities`, `class`, `graphs`, `documents`,
    `extractions`, `coordinations`, `parses`."""
    columns: tuple[str, ...] = ()
    """Columns of labels that its sentences may have."""
    options: str | None = None
    """The section of `data` with the layout of its files; None = there is none."""
    stored_later: tuple[str, ...] = ()
    """Other columns of the store that prepared folders of earlier versions lack: such folders are made again."""
    endings: tuple[str, ...] = ()
    """Endings of file names, in lower case and without that of a compressed file, by which `auto` recognises it."""


_TAGS = ("upos", "xpos", "feats")
_TREEBANK = frozenset({"words", "tags", "trees"})

FORMATS: Names[Format] = Names("data format")
"""The formats by name. `auto` stands for the one that a file's name or content tells, else for text."""
for _format in (
    Format("auto", _TREEBANK, _TAGS),
    Format("conllu", _TREEBANK, _TAGS, endings=(".conllu", ".conllup", ".cupt")),
    Format("treebank", _TREEBANK | {"parses"}, (*_TAGS, "deprel", "udeprel")),
    Format("text", frozenset({"words"}), _TAGS),  # has none of them; one corpus may be text and CoNLL-U
    Format("columns", frozenset({"words", "tags", "entities"}), ("tag",), options="columns"),
    Format("table", frozenset({"words", "class"}), ("label",), options="table"),
    Format("jsonl", frozenset({"words", "class"}), ("label",), options="jsonl"),
    Format(
        "cogs",
        frozenset({"words", "graphs"}),
        ("role", "category", "noun_type", "verb_name", "offset", "position", "by_category", "kind", "frame", "case"),
        stored_later=("by_category", "kind", "frame"),
    ),
    Format("documents", frozenset({"documents"}), ("pair",), options="documents"),
    Format("extractions", frozenset({"words", "extractions"}), ("upos",), options="grid"),
    Format("coordinations", frozenset({"words", "coordinations"}), options="grid", stored_later=("form",)),
):
    FORMATS.enter(_format.name, _format)

ABSENT = {"upos": "_", "xpos": "_", "tag": "_", "deprel": "_", "udeprel": "_"}
"""How a column says that a word has no label, by column; other columns always have one: a word without features has
`_` in the column `feats`, and that is what is to be learned."""


class Columns(Section):
    """A file with one word on each line. Columns count from 0, or from the end if negative. The tags are the column
    `tag`."""

    added_later = MappingProxyType({"comments": None, "strict": False})

    word: int = 0
    """Column of the word."""
    tag: int = -1
    """Column of the tag."""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """Separator of columns; null = tabs if there are any, else spaces."""
    comments: Annotated[str, Field(min_length=1, pattern=r"\S")] | None = None
    """Lines that begin with this are comments, such as `"# "` (a space also matches a tab); null = none: `#` is a
    word."""
    entities: Literal["iob2", "bioes"] | None = None
    """The tags mark entities, and are converted to this scheme; null = tags as they stand."""
    scheme: Literal["auto", "iob1", "iob2", "bioes", "bilou", "bmes", "bmewo"] = "auto"
    """The scheme of the file; auto: the scheme whose rules the fewest tags break. Tags may also be `PER-B`, `B_PER` or,
    without a type, `B`, an `ENTITY`."""
    strict: bool = False
    """true: a tag that breaks the rules of `scheme`, such as `I-PER` after `O` in iob2, is an error. false: an entity
    begins there, as for the scorer conlleval, with a warning. The same holds for odd spellings: `0` for `O`, `b-PER`,
    `B_PER` among `B-PER`."""


class Keys(Section):
    """A file with one JSON object on each line. The labels are the column `label`."""

    text: str = "text"
    """Key of the sentence: a text with white space between words, or a list of words."""
    label: str | None = "label"
    """Key of the label: a text, a whole number or a truth value; null = the texts have none, as those of `task.kind:
    mlm` and `lm`."""


class Documents(Section):
    """A file of documents for `task.kind: pretrain`: one sentence on each line with white space between tokens, and
    blank lines between documents. `prepare` makes instances of them, which the model reads."""

    pairs: Literal["nsp", "sop", "none"] = "nsp"
    """The two stretches of text in an instance. nsp: the second follows the first, or is from another document (BERT);
    sop: it follows the first, or the two are swapped; none: there is one stretch."""
    max_length: Annotated[int, Field(ge=8, lt=2**31)] = 128
    """Most tokens of an instance, with the special tokens around its stretches."""
    short: Fraction = 0.1
    """Probability that a document is cut into shorter instances of random length."""
    copies: PositiveInt = 1
    """How many different sets of instances are made of the training documents."""
    seed: NonNegativeInt = 0
    """Seed of the instances, independent of the seed of training."""
    stops: list[Annotated[str, Field(min_length=1)]] | None = None
    """Tokens that end a sentence within a line; null = each line is a sentence."""
    heading: Annotated[str, Field(min_length=1)] | None = None
    """A line that begins with this token separates documents as a blank line does, and is skipped; null = no such
    lines."""


ROWS = {"extractions": 5, "coordinations": 3}
"""The rows of a grid where the recipe does not say, by format."""
NO_BLANK = r"^\S+$"


class Grid(Section):
    """Rows of labels for `format: extractions` and `format: coordinations`. Every word has a label in each row. A row
    is a tuple (arg1; relation; arg2), or a level of nested coordinations."""

    rows: Annotated[int, Field(ge=1, le=20)] | None = None
    """Most rows of a sentence; further rows are skipped and counted. null = 5 for extractions, 3 for coordinations."""
    extra_words: Annotated[list[Annotated[str, Field(min_length=1, pattern=NO_BLANK)]], Field(max_length=99)] = Field(
        default=["is", "of", "from"]
    )
    """Words that a relation may have although the sentence lacks them (extractions). The first begins a relation; each
    other word ends a relation that the first begins ("is president of"). They stand behind every sentence."""
    fix_lengths: bool = False
    """Cut a line of tags that is longer than its sentence, fill up a shorter one with NONE, and count both; false = an
    error."""


class Select(Section):
    """Which sentences of the files are used, for learning curves and studies."""

    words: PositiveInt | None = None
    """Most words of a sentence, in every split; null = any."""
    sentences: PositiveInt | None = None
    """Train on this many sentences, drawn at random; null = all."""
    seed: NonNegativeInt = 0
    """Seed of this draw, independent of the seed of training."""


# --- the section ------------------------------------------------------------------------------------------------------


class Data(Section):
    """The corpora and the vocabulary."""

    train: Files
    """Training file or files. A folder means all files below it; a name with `*`, `?` or `[` all files that match, in
    alphabetical order. A relative path is looked up in the current folder, then in $PROBTRANS_DATA (default `data/`).
    `embedded:toy/train.conllu` is a corpus in the package. `.gz`, `.xz`, `.bz2` and `.zst` are compressed files."""
    dev: Files | None = None
    """Development file or files, for model selection and early stopping."""
    test: Files | None = None
    """Test file or files, read only by `eval --split test` and at the end of `train`."""
    extra: Files | None = None
    """A second test set, scored beside `test`: another domain, or the same sentences with other labels."""
    raw: Files | None = None
    """File or files of sentences whose hidden words a parser learns beside (`task.mlm`): text, a sentence on each line,
    or CoNLL-U, whose labels are not used. Their words are in the vocabulary."""
    format: Annotated[str, FORMATS] = "auto"
    """conllu: CoNLL-U; text: one sentence on each line; columns: one word with its tag on each line, blank lines
    between sentences; table: one sentence with its label on each line; jsonl: one JSON object on each line; cogs: .tsv
    of COGS, or .jsonl of labels; documents: one sentence on each line, blank lines between documents; extractions:
    tuples of open information extraction; coordinations: rows of tags, JSON lines or CoNLL-U. auto: CoNLL-U by its
    ending (`.conllu`, `.conllup`, `.cupt`) or first lines; else text, with a warning if it looks like another
    format."""
    columns: Columns = Columns()
    """The layout of a file of `format: columns`."""
    table: Table = Table()
    """The layout of a file of `format: table`."""
    jsonl: Keys = Keys()
    """The layout of a file of `format: jsonl`."""
    documents: Documents = Documents()
    """The layout of a file of `format: documents`, and its instances."""
    grid: Grid = Grid()
    """The rows of labels of a file of `format: extractions` or `format: coordinations`."""
    select: Select = Select()
    """Which sentences of the files are used."""
    vocabulary: Annotated[VocabularySection, VOCABULARIES] = WordVocabulary()
    """The vocabulary: words | sentencepiece | wordpiece | char."""
    blocks: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Language models read the text in blocks of this many words: all sentences one behind the other, with `</s>` at
    the end of each, cut without regard to them. null = each sentence is a text of its own."""
    longest: Annotated[int, Field(ge=3)] | None = None
    """Most tokens of a sentence, with `[CLS]` and `[SEP]`; null = any."""
    too_long: Literal["error", "cut", "window", "skip", "split"] = "error"
    """What to do with a longer sentence. error: stop; cut: use its first words, and count it; window: read it in
    portions, each as a sentence; skip: leave it out, and count it; split (`format: extractions`): in train, split it
    behind punctuation and keep the tuples within one part; in dev and test an error. A sentence in portions has no gold
    tree. Entities are cut only if they are longer than a portion."""
    shard_sentences: PositiveInt = 65536
    """Most sentences in a shard of the encoded corpus. `prepare` holds this many in memory."""
    prepared: File | None = None
    """Folder of the encoded corpus; null = `prepared/NAME-<fingerprint of this section>`."""

    @property
    def rows(self) -> int:
        """The number of rows of labels; 0 for formats without rows."""
        return self.grid.rows or ROWS[self.format] if self.format in ROWS else 0

    @property
    def extra_words(self) -> list[str]:
        """The extra words behind every sentence; empty for formats without them."""
        return list(self.grid.extra_words) if self.format == "extractions" else []


VOCABULARIES.used_in(Data)
FORMATS.used_in(Data)
