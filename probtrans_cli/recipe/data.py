"""The ``data`` section of a recipe: corpora, what stands where in their files, and the vocabulary. Imports no torch.

Two tables can grow: :data:`VOCABULARIES`, of the sections that `data.vocabulary` may hold, and :data:`FORMATS`, of the
names that `data.format` may have. How a vocabulary is built and a format is read says :mod:`probtrans_cli.data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from probtrans_cli.recipe.base import (
    File,
    Files,
    FormatOptions,
    Fraction,
    Kinds,
    KindSection,
    Names,
    NonNegativeInt,
    PositiveInt,
    Section,
)


class Table(FormatOptions):
    """A file of one sentence a line, already split into words at white space. The labels are the column `label`."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({"columns": None, "quoting": None})

    text: NonNegativeInt = 0
    """Column of the sentence, from 0."""
    label: NonNegativeInt = 1
    """Column of the label, from 0."""
    columns: PositiveInt | None = None
    """How many columns there are; null = up to the last one of the two. A line that has more is an error, unless these
    are empty."""
    separator: Annotated[str, Field(min_length=1)] = "\t"
    """What separates columns. If it is a space, a sentence in the last column goes to the end of the line."""
    quoting: bool | None = None
    """Whether a column may stand in double quotes, as in CSV: it may then hold the separator and line ends, and of a
    double quote in it there are two. null = where the separator is a comma."""
    header: bool = False
    """Leave out the first line that is not blank."""

    @property
    def quoted(self) -> bool:
        """Whether a column may stand in double quotes."""
        return self.separator == "," if self.quoting is None else self.quoting

    @property
    def width(self) -> int:
        """How many columns a line has at most."""
        return self.columns or max(self.text, self.label) + 1

    def inconsistencies(self) -> Iterator[tuple[str, str]]:
        """Values that do not go together, each as its key and the reason."""
        if self.width <= (last := max(self.text, self.label)):
            yield "columns", f"found {self.columns}, but there is a column {last}, counted from 0"
        if self.quoted and (len(self.separator) > 1 or self.separator in '"\r\n'):
            reason = f"for columns that one character other than a quote separates: found {self.separator!r}"
            yield "quoting", reason


# --- vocabularies -----------------------------------------------------------------------------------------------------


class VocabularySection(KindSection):
    """What the model reads. Every kind of vocabulary has a section of its own, a row of :data:`VOCABULARIES`."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Keys that are younger than the format of prepared folders, with their defaults. A folder's description leaves
    them out where they have these values, so that an older folder stays up to date."""

    @property
    def counts_words(self) -> bool:
        """Whether every entry is a whole word with its training count, as `model.head_bias` wants."""
        return False

    @property
    def omits_words(self) -> bool:
        """Whether some words have no entry, so that nothing can be predicted of them."""
        return False

    @property
    def has_features(self) -> bool:
        """Whether words have features of their spelling: a kind that can have them has a field ``features``."""
        return getattr(self, "features", None) is not None

    @property
    def has_extra_words(self) -> bool:
        """Whether it can have an entry for each extra word of open information extraction."""
        return False

    @property
    def read_from(self) -> str | None:
        """The folder that it is read from; None = it is made of the training file alone."""
        return None

    def inconsistencies(self) -> list[tuple[tuple[str, ...], str]]:
        """Values that do not go together, each as the path of its key below this section and the reason."""
        return []


VOCABULARIES: Kinds[VocabularySection] = Kinds("vocabulary")
"""The kinds of vocabularies by name."""


class WordFeatures(Section):
    """Features of a word's spelling, added to its unary scores: `S[w] = row of w + sum of the rows of its features`."""

    prefixes: Annotated[int, Field(ge=0, le=16)] = 4
    """Prefixes of 1 up to so many characters, lower-cased; 0 = none."""
    suffixes: Annotated[int, Field(ge=0, le=16)] = 4
    """Suffixes of 1 up to so many characters, lower-cased; 0 = none."""
    ngrams: Annotated[int, Field(ge=0, le=16)] = 0
    """All strings of so many characters within the lower-cased word, its ends marked; 0 = none."""
    shape: bool = True
    """The pattern of capitals, digits and punctuation: Ms -> Xx, U.S. -> X.X., mid-1990s -> x-dx."""
    rows: PositiveInt = 32768
    """Rows of the table into which features are hashed."""


@VOCABULARIES.add
class WordVocabulary(VocabularySection):
    """Every word of the training file that is frequent enough; all others are `<unk>`."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({"features": None, "punctuation": True})

    kind: Literal["words"] = "words"
    min_count: PositiveInt = 1
    """Words rarer than this in the training file are unknown."""
    max_size: PositiveInt | None = None
    """Keep at most this many words, the most frequent ones; null = all."""
    lowercase: bool = False
    """Lower-case words before look-up."""
    digits: bool = False
    """Replace every number by `N` before look-up (1,234.5 -> N; 3rd -> Nrd)."""
    punctuation: bool = True
    """false (`kind: mlm` only): tokens without a letter or digit are not read. In trees they hang at the word before
    them, or, at the beginning, at the first word that is read."""
    features: WordFeatures | None = None
    """Features of the word as it is written (before `lowercase` and `digits`), so that unknown words are not all alike;
    a word hidden by `task.kind: mlm` has none; null = no features."""

    @property
    def counts_words(self) -> bool:
        """Whether every entry is a whole word with its training count."""
        return True

    @property
    def omits_words(self) -> bool:
        """Whether some words have no entry: punctuation."""
        return not self.punctuation

    @property
    def has_extra_words(self) -> bool:
        """Whether it can have an entry for each extra word."""
        return True


@VOCABULARIES.add
class SubwordVocabulary(VocabularySection):
    """Sentencepiece units, trained on the training file by `prepare`; the first piece represents the word."""

    kind: Literal["sentencepiece"]
    size: Annotated[int, Field(ge=16, lt=2**31)] = 8000
    """Number of pieces."""
    algorithm: Literal["unigram", "bpe"] = "unigram"
    """Segmentation algorithm of sentencepiece."""
    lowercase: bool = False
    """Lower-case words before segmentation."""


@VOCABULARIES.add
class WordPieceVocabulary(VocabularySection):
    """WordPiece units as BERT's, of a folder, or trained on the training file by `prepare`. `[CLS]` and `[SEP]` stand
    around every sentence, and a word's first piece represents it. Needs the package `tokenizers` (extra `hf`)."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({"features": None})

    kind: Literal["wordpiece"]
    folder: File | None = None
    """Folder of a BERT model's vocabulary (`vocab.txt`, or `tokenizer.json`, with their options), in the current folder
    or in $PROBTRANS_DATA; null = trained."""
    size: Annotated[int, Field(ge=16, lt=2**31)] = 8000
    """Largest number of pieces, of a trained one."""
    lowercase: bool = False
    """Lower-case words and strip their accents, in a trained one."""
    features: WordFeatures | None = None
    """Features of the word as it is written, added to the scores of each of its pieces: a vocabulary in lower case does
    not tell capitals, its shape does; null = no features."""

    @property
    def has_extra_words(self) -> bool:
        """Whether it can have an entry for each extra word: in a folder, `[unused1]`, `[unused2]`, ..."""
        return True

    @property
    def read_from(self) -> str | None:
        """The folder that it is read from; None = it is trained."""
        return self.folder

    def inconsistencies(self) -> list[tuple[tuple[str, ...], str]]:
        """Options of training beside a folder, which is not trained."""
        options = ("size", "lowercase") if self.folder is not None else ()
        changed = [name for name in options if getattr(self, name) != type(self).model_fields[name].default]
        return [((name,), "for a trained vocabulary only: leave it out") for name in changed]


@VOCABULARIES.add
class CharacterVocabulary(VocabularySection):
    """Every character of the training file that is frequent enough; all others are `<unk>`. The first represents the
    word: a character at the beginning of a word is another entry than the same one within."""

    kind: Literal["char"]
    min_count: PositiveInt = 1
    """Characters rarer than this in the training file are unknown."""
    lowercase: bool = False
    """Lower-case words before they are divided."""


# --- formats ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """What the files of a format have. How they are read is a row of :data:`probtrans_cli.data.readers.READERS`."""

    name: str
    """What `data.format` calls it."""
    gives: frozenset[str]
    """What a task may find in its files: `words`, `tags`, `trees`, `entities`, `class`, `graphs`, `documents`,
    `extractions`, `coordinations`."""
    columns: tuple[str, ...] = ()
    """Columns of labels that its sentences may have."""
    options: str | None = None
    """The section of `data` that says what stands where in its files; None = there is nothing to say."""
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

ABSENT = {"upos": "_", "xpos": "_", "tag": "_"}
"""How a column says that a word has no label, by column; other columns always have one: a word without features has
`_` in the column `feats`, and that is what is to be learned."""


class Columns(FormatOptions):
    """A file of one word a line; columns count from 0, or from the end below 0. The tags are the column `tag`."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({"comments": None, "strict": False})

    word: int = 0
    """Column of the word."""
    tag: int = -1
    """Column of the tag."""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """What separates columns; null = tabs where there are any, else spaces."""
    comments: Annotated[str, Field(min_length=1, pattern=r"\S")] | None = None
    """Lines that begin with this are comments, such as `"# "` (a space stands for a tab, too); null = there are none,
    and `#` is a word."""
    entities: Literal["iob2", "bioes"] | None = None
    """The tags mark entities and are learned in this scheme, whichever the file uses; null = tags as they stand."""
    scheme: Literal["auto", "iob1", "iob2", "bioes", "bilou", "bmes", "bmewo"] = "auto"
    """How the file marks entities; auto: in the way whose rules the fewest of its tags break. In any of them, tags may
    also be spelled `PER-B`, `B_PER` or, without a type, `B`; an entity without a type is an `ENTITY`."""
    strict: bool = False
    """Whether a tag of an entity that breaks the rules of `scheme`, such as `I-PER` after `O` in iob2, is an error;
    else it is read as the public scorer conlleval reads it (an entity begins there), and a warning tells of it. The
    same holds for odd spellings whose meaning is clear: `0` for `O`, `b-PER`, `B_PER` among `B-PER`."""


class Keys(FormatOptions):
    """A file of one JSON object a line. The labels are the column `label`."""

    text: str = "text"
    """Key of the sentence: its words separated by white space, or a list of words."""
    label: str = "label"
    """Key of the label: text, a whole number or a truth value."""


class Documents(FormatOptions):
    """A file of documents for `task.kind: pretrain`: one sentence a line, its tokens separated by white space, blank
    lines between documents. What the model reads are instances made of them once, when the corpus is prepared."""

    pairs: Literal["nsp", "sop", "none"] = "nsp"
    """An instance is two stretches of text: nsp: the second follows the first, or is a random one of another document
    (BERT); sop: the second follows the first, or the two are swapped; none: an instance is one stretch."""
    max_length: Annotated[int, Field(ge=8, lt=2**31)] = 128
    """Tokens of the longest instance, those in front of and behind its stretches included."""
    short: Fraction = 0.1
    """Probability that a document is cut into shorter instances, of any length."""
    copies: PositiveInt = 1
    """How often the training documents are made into instances, each time others."""
    seed: NonNegativeInt = 0
    """Seed of the instances; that of training is another."""
    stops: list[Annotated[str, Field(min_length=1)]] | None = None
    """Tokens that end a sentence within a line; null = a line is a sentence."""
    heading: Annotated[str, Field(min_length=1)] | None = None
    """A line that begins with this token separates documents, as a blank one does, and is not read; null = no such."""


ROWS = {"extractions": 5, "coordinations": 3}
"""The rows of a grid where the recipe does not say, by format."""
NO_BLANK = r"^\S+$"


class Grid(FormatOptions):
    """Rows of labels, of `format: extractions` and `format: coordinations`: a label for every word, in a row for each
    tuple (arg1; relation; arg2), or for each level of nested coordinations."""

    rows: Annotated[int, Field(ge=1, le=20)] | None = None
    """The most rows of a sentence; what is beyond is left out and counted. null = 5 of extractions, 3 of
    coordinations."""
    extra_words: Annotated[list[Annotated[str, Field(min_length=1, pattern=NO_BLANK)]], Field(max_length=99)] = Field(
        default=["is", "of", "from"]
    )
    """What a relation may have that the sentence lacks, of extractions: the first of these words begins a relation,
    each other one ends one that the first begins ("is president of"). Each is a word behind every sentence."""
    fix_lengths: bool = False
    """A line of tags that is longer or shorter than its sentence is cut, or continued with NONE, which is counted;
    false = it is an error."""


class Select(Section):
    """Which sentences of the files are read at all, for learning curves and studies."""

    words: PositiveInt | None = None
    """Largest number of words of a sentence, in every split; null = any."""
    sentences: PositiveInt | None = None
    """Train on so many sentences only, drawn at random; null = all."""
    seed: NonNegativeInt = 0
    """Seed of that draw; that of training is another."""


# --- the section ------------------------------------------------------------------------------------------------------


class Data(Section):
    """Where the sentences come from and what counts as a word."""

    train: Files
    """Training file or files; a folder stands for all files below it, and a name with `*`, `?` or `[` for all files
    that it fits, in alphabetical order. A relative path is looked up in the current folder, then in $PROBTRANS_DATA
    (default `data/`); `embedded:toy/train.conllu` names a corpus inside the package. Names that end in `.gz`, `.xz`,
    `.bz2` or `.zst` are compressed files."""
    dev: Files | None = None
    """Development file or files: model selection and early stopping."""
    test: Files | None = None
    """Test file or files: read by `eval --split test` and at the end of `train` only."""
    extra: Files | None = None
    """One more test set, of which scores are told beside those of `test`, in the same way: another domain, say, or the
    same sentences with other labels."""
    format: Annotated[str, FORMATS] = "auto"
    """conllu; text: one sentence a line; columns: one word a line with its tag, blank lines between sentences; table:
    one sentence a line with its label; jsonl: one JSON object a line; cogs: COGS's own .tsv, or .jsonl of labels;
    documents: one sentence a line, blank lines between documents; extractions: tuples of open information extraction,
    in any of several forms; coordinations: rows of tags, JSON lines or CoNLL-U.
    `auto`: a file whose name ends in `.conllu`, `.conllup` or `.cupt`, also compressed (`.conllu.gz`), or whose first
    lines look so, is CoNLL-U; all else is text, and what looks like another format is told."""
    columns: Columns = Columns()
    """What stands where in a file of `format: columns`."""
    table: Table = Table()
    """What stands where in a file of `format: table`."""
    jsonl: Keys = Keys()
    """What stands where in a file of `format: jsonl`."""
    documents: Documents = Documents()
    """How a file of `format: documents` is read, and the instances that are made of it."""
    grid: Grid = Grid()
    """The rows of labels of a file of `format: extractions` or `format: coordinations`."""
    select: Select = Select()
    """Which sentences of the files are read at all."""
    vocabulary: Annotated[VocabularySection, VOCABULARIES] = WordVocabulary()
    """What the model reads: `kind: words`, `kind: sentencepiece`, `kind: wordpiece` or `kind: char`."""
    longest: Annotated[int, Field(ge=3)] | None = None
    """Largest number of tokens of a sentence, those around it (`[CLS]`, `[SEP]`) included; null = any."""
    too_long: Literal["error", "cut", "window", "skip", "split"] = "error"
    """What is done about a sentence of more: error; cut: its first words stand for it, which is counted; window: it is
    read in portions, each a sentence of its own; skip: it is left out, which is counted. A divided sentence has no gold
    tree. No entity is divided, unless it is longer than that itself. split: of `format: extractions`, in train,
    it is divided behind punctuation, and the tuples that lie in one part are kept; in dev and test it is an error."""
    shard_sentences: PositiveInt = 65536
    """Largest number of sentences in a file (shard) of the encoded corpus: what `prepare` holds in memory."""
    prepared: File | None = None
    """Folder of the encoded corpus; null = `prepared/NAME-<fingerprint of this section>`."""

    @property
    def rows(self) -> int:
        """How many rows the grid of a sentence has; 0 where the format has none."""
        return self.grid.rows or ROWS[self.format] if self.format in ROWS else 0

    @property
    def extra_words(self) -> list[str]:
        """What the extra words behind every sentence stand for; none where the format has none."""
        return list(self.grid.extra_words) if self.format == "extractions" else []


VOCABULARIES.used_in(Data)
FORMATS.used_in(Data)
