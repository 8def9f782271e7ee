"""How the sentences of a format become rows of the store: a row of :data:`ENCODINGS` a format.

Documents become instances of pretraining: a stretch of text, or two and how the second follows the first. They are made
as by BERT's own script (Devlin et al. 2019, google-research/bert, create_pretraining_data.py). A document
is cut into chunks from its beginning on: sentences, until there are as many tokens as an instance takes. That is the
largest number allowed or, for some documents, a random smaller number, at least 2. Of a chunk of ``c`` sentences,

    A       the first 1 to c - 1 of them (of a single sentence: itself)
    nsp     B is the rest; or, half of the time and always where there is no rest, the sentences from a random one on of
            another document, as many tokens as the chunk would have had, and the rest begins the next chunk
    sop     B is the rest; half of the time the two are swapped (Lan et al. 2020). A chunk has two sentences at least,
            and a sentence that is left alone at the end of its document is left out

    none    no chunks: the document is cut every so many tokens, and nothing of it is lost

Where both are too long, the longer one loses tokens until they fit, each from its front or its back with equal chance.
Instances are positions in the corpus, so that no token is copied before its place is known. In the store, an instance
is a row:

column     one value per  content
ids        token          `<cls>` A `<sep>`, or `<cls>` A `<sep>` B `<sep>`
first      word           position of its first token; of a word that was cut, the beginning of its text
segments   token          0 up to the first `<sep>`, 1 behind it
pair       instance       how B follows A (:data:`NAMES`)
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from probtrans_cli.data.corpus.store import Labels, Row, encode_table, table_of_rows
from probtrans_cli.data.readers.cogs import CASES
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data

if TYPE_CHECKING:
    import pyarrow as pa


PAIR = "pair"  # the column
Kind = Literal["nsp", "sop", "none"]
Stretch = tuple[int, int]  # tokens [begin, end) of the corpus
NAMES: dict[Kind, tuple[str, ...]] = {"nsp": ("next", "random"), "sop": ("ordered", "swapped"), "none": ()}
"""How the second stretch follows the first; the index is the label."""
_TRIES = 10  # to draw a document other than the present one


class Corpus(NamedTuple):
    """Documents by offsets: sentence ``s`` is tokens ``[tokens[s], tokens[s + 1])``, document ``d`` is sentences
    ``[sentences[d], sentences[d + 1])``. No sentence and no document is empty."""

    tokens: Sequence[int]
    sentences: Sequence[int]

    def stretch(self, start: int, stop: int) -> Stretch:
        """Return the tokens of the sentences from ``start`` to ``stop - 1``."""
        return self.tokens[start], self.tokens[stop]

    def chunk(self, start: int, end: int, target: int) -> int:
        """Return where the sentences from ``start`` on have ``target`` tokens, at most ``end``."""
        return bisect_left(self.tokens, self.tokens[start] + target, start + 1, end)


class Instance(NamedTuple):
    """A stretch of tokens, or two with their label."""

    first: Stretch
    second: Stretch | None = None
    label: int | None = None


def instances(
    corpus: Corpus,
    generator: np.random.Generator,
    *,
    kind: Kind,
    max_length: int,
    short: float = 0.1,
    copies: int = 1,
) -> Iterator[Instance]:
    """Yield the instances of a corpus, document after document; the same generator gives the same ones.

        max_length: tokens of the longest instance, the special ones (one in front, one behind every stretch) included.
        short: probability that a document is cut into shorter instances.
        copies: how often every document is walked, each time with other choices.

    Raises:
        DataError: nsp with a single document, which has no random second stretch.
    """
    documents = len(corpus.sentences) - 1
    if kind == "nsp" and documents < 2:
        hint = "separate documents by blank lines, or set data.documents.pairs=sop or none"
        raise DataError(f"{documents} document where two are needed for random pairs", hint=hint)
    usable = max_length - (2 if kind == "none" else 3)
    for _ in range(copies):
        for document in range(documents):
            target = int(generator.integers(2, usable + 1)) if generator.random() < short else usable
            if kind == "none":
                begin, end = corpus.stretch(*corpus.sentences[document : document + 2])
                yield from (Instance((start, min(start + target, end))) for start in range(begin, end, target))
                continue
            pairs = _next_or_random if kind == "nsp" else _ordered_or_swapped
            for pair in pairs(corpus, document, target, generator):
                yield _truncated(pair, usable, generator)


def _next_or_random(corpus: Corpus, document: int, target: int, generator: np.random.Generator) -> Iterator[Instance]:
    start, end = corpus.sentences[document : document + 2]
    while start < end:
        stop = corpus.chunk(start, end, target)
        middle = start + 1 if stop - start == 1 else start + int(generator.integers(1, stop - start))
        first = corpus.stretch(start, middle)
        if middle < stop and generator.random() >= 0.5:
            yield Instance(first, corpus.stretch(middle, stop), 0)
            start = stop
            continue
        elsewhere = document
        for _ in range(_TRIES):
            elsewhere = int(generator.integers(len(corpus.sentences) - 1))
            if elsewhere != document:
                break
        from_, to = corpus.sentences[elsewhere : elsewhere + 2]
        begin = int(generator.integers(from_, to))
        missing = target - (first[1] - first[0])
        yield Instance(first, corpus.stretch(begin, corpus.chunk(begin, to, missing)), 1)
        start = middle


def _ordered_or_swapped(
    corpus: Corpus, document: int, target: int, generator: np.random.Generator
) -> Iterator[Instance]:
    start, end = corpus.sentences[document : document + 2]
    while end - start >= 2:
        stop = max(corpus.chunk(start, end, target), start + 2)
        middle = start + int(generator.integers(1, stop - start))
        both = corpus.stretch(start, middle), corpus.stretch(middle, stop)
        yield Instance(both[1], both[0], 1) if generator.random() < 0.5 else Instance(both[0], both[1], 0)
        start = stop


def _truncated(pair: Instance, usable: int, generator: np.random.Generator) -> Instance:
    assert pair.second is not None, "of two stretches"
    first, second = (end - begin for begin, end in (pair.first, pair.second))
    if first + second <= usable:
        return pair
    # The longer stretch, or the second of equal ones, loses a token until both fit.
    keep = max(usable - second, (usable + 1) // 2), max(usable - first, usable // 2)
    stretches: list[Stretch] = []
    for (begin, end), length in zip((pair.first, pair.second), keep, strict=True):
        surplus = max(end - begin - length, 0)
        front = int(generator.binomial(surplus, 0.5)) if surplus else 0
        stretches.append((begin + front, end - surplus + front))
    return Instance(stretches[0], stretches[1], pair.label)


# --- rows -------------------------------------------------------------------------------------------------------------


def encode_instances(data: Data, sentences: Iterable[Sentence], vocabulary: Vocabulary, *, training: bool) -> pa.Table:
    """Make instances of the documents of a split and encode them, a row each.

    ``training``: there are as many instances as a training takes, and they must have both kinds of pairs.
    """
    options, where, special = data.documents, "", enclosing(vocabulary)
    ids, words, frequency = array("i"), array("q"), array("i")  # of all tokens, and of all words
    tokens, documents = array("q", [0]), array("q")  # where sentences and documents begin
    for sentence in sentences:
        if sentence.begins:
            documents.append(len(tokens) - 1)
        where = where or sentence.where.rpartition(":")[0]
        encoded = special.encode_part(sentence.words)
        words.extend(len(frequency) + word for word in encoded.word_of_piece)
        frequency.extend(vocabulary.frequencies(sentence.words))
        ids.extend(encoded.ids)
        tokens.append(len(ids))
    documents.append(len(tokens) - 1)
    try:
        drawn = list(
            instances(
                Corpus(tokens, documents),
                np.random.default_rng(options.seed),
                kind=options.pairs,
                max_length=options.max_length,
                short=options.short,
                copies=options.copies if training else 1,
            )
        )
        if training and options.pairs != "none":
            labels = [instance.label for instance in drawn]
            # Where all pairs have the same label, nothing can be learned from them.
            if not labels:
                hint = "documents of a single sentence have no order: set data.documents.pairs=nsp or none"
                raise DataError("there is no document with two sentences", hint=hint)
            if missing := [name for label, name in enumerate(NAMES[options.pairs]) if label not in set(labels)]:
                hint = "documents of several sentences make both kinds of pairs: separate them by blank lines, or set "
                hint += "data.documents.pairs=none"
                message = f"of {len(labels)} pairs none is {missing[0]}: there is nothing to tell apart"
                raise DataError(message, hint=hint)
    except DataError as error:
        raise DataError(f"{where}: {error.message}", hint=error.hint) from None

    def row(instance: Instance) -> Row:
        of_row, segments = [special.FIRST], [0]
        first: list[int] = []
        of_words: list[int] = []
        for segment, stretch in enumerate(instance[:2]):
            if stretch is not None:
                numbers = words[slice(*stretch)]
                for place, word in enumerate(numbers):
                    if place == 0 or word != numbers[place - 1]:
                        first.append(len(of_row) + place)
                        of_words.append(frequency[word])
                of_row += [*ids[slice(*stretch)], special.LAST]
                segments += [segment] * (len(of_row) - len(segments))
        pair = None if instance.label is None else [instance.label]
        return {"ids": of_row, "frequency": of_words, "first": first, "segments": segments, PAIR: pair}

    return table_of_rows(map(row, drawn))


# --- formats ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the sentences of a format become rows of the store."""

    encode: Callable[..., pa.Table] | None = None
    """Makes the table of a split, like :func:`encode_corpus`; None: each sentence is a row."""
    labels: Callable[[Data], Mapping[str, Sequence[str]]] = lambda _: {}
    """Columns whose labels are the same for every corpus, instead of being those of the training file."""
    makes: tuple[str, ...] = ()
    """Columns that sentences do not have and rows do; their labels are counted in the table."""
    enclosed: bool = False
    """Whether specials stand around every row, those of the vocabulary or `<cls>` and `<sep>`."""
    units: str | None = None
    """What a row of a sentence's grid is, in messages; None = sentences have none."""
    learns_from_rows: bool = False  # whether training sentences whose grid has no row are left out

    @property
    def alone(self) -> bool:
        """Whether every sentence becomes a row by itself, whatever the others are, and none is left out."""
        return self.encode is None and not self.enclosed and self.units is None


ENCODINGS: dict[str, Encoding] = {
    "cogs": Encoding(labels=lambda _: {"case": CASES}),  # reported and not learned; the training file has a few of them
    "documents": Encoding(encode_instances, lambda data: {PAIR: NAMES[data.documents.pairs]}, (PAIR,), enclosed=True),
    "extractions": Encoding(
        labels=lambda data: {"extra_words": data.extra_words}, units="tuples", learns_from_rows=True
    ),
    "coordinations": Encoding(units="coordinations"),  # a sentence without any is an example, too
}
"""The encodings of formats by name; of any other format, a sentence is a row."""


def encoding_of(data: Data) -> Encoding:
    return ENCODINGS.get(data.format, Encoding())


def encode_corpus(
    data: Data, sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels, *, training: bool = False
) -> pa.Table:
    """Encode the sentences of a split, a row each; of documents, a row for each instance.

    ``training``: documents give as many instances as a training takes, and must give both kinds of pairs.
    """
    encode = encoding_of(data).encode
    if encode is None:
        return encode_table(sentences, vocabulary, labels)
    return encode(data, sentences, vocabulary, training=training)
