"""From documents to instances of pretraining: a stretch of text, or two and how the second follows the first.

They are made as by BERT's own script (Devlin et al. 2019, google-research/bert, create_pretraining_data.py). A document
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
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from probtrans_cli.data.corpus.store import Row, table_of_rows
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import EnclosingVocabulary, Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data, Documents

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


# --- instances --------------------------------------------------------------------------------------------------------


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

    Args:
        corpus: the documents.
        generator: where all choices come from.
        kind: what the second stretch may be.
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
    make = {"nsp": _next_or_random, "sop": _ordered_or_swapped, "none": _pieces}[kind]
    for _ in range(copies):
        for document in range(documents):
            target = int(generator.integers(2, usable + 1)) if generator.random() < short else usable
            for instance in make(corpus, document, target, generator):
                yield _truncated(instance, usable, generator)


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


def _pieces(corpus: Corpus, document: int, target: int, _: np.random.Generator) -> Iterator[Instance]:
    begin, end = corpus.stretch(*corpus.sentences[document : document + 2])
    for start in range(begin, end, target):
        yield Instance((start, min(start + target, end)))


def _truncated(instance: Instance, usable: int, generator: np.random.Generator) -> Instance:
    """Return the instance with at most ``usable`` tokens."""
    if instance.second is None:
        return instance
    first, second = (stretch[1] - stretch[0] for stretch in instance[:2] if stretch is not None)
    if first + second <= usable:
        return instance

    def shortened(stretch: Stretch, keep: int) -> Stretch:
        begin, end = stretch
        surplus = end - begin - keep
        if surplus <= 0:
            return stretch
        front = int(generator.binomial(surplus, 0.5))
        return begin + front, begin + front + keep

    # The longer stretch, or the second of equal ones, loses a token until both fit.
    keep = max(usable - second, (usable + 1) // 2), max(usable - first, usable // 2)
    return Instance(shortened(instance.first, keep[0]), shortened(instance.second, keep[1]), instance.label)


def enclosed(instance: Instance, ids: Sequence[int], first: int, last: int) -> tuple[list[int], list[int]]:
    """Return the ids of an instance and their segments: `first A last` in segment 0, `B last` in segment 1."""
    of_first = [first, *ids[slice(*instance.first)], last]
    of_second = [] if instance.second is None else [*ids[slice(*instance.second)], last]
    return of_first + of_second, [0] * len(of_first) + [1] * len(of_second)


def require_both(labels: Sequence[int], kind: Kind) -> None:
    """Raise a DataError if there is no instance, or all have the same label: nothing can be learned from them."""
    if not labels:
        hint = "documents of a single sentence have no order: set data.documents.pairs=nsp or none"
        raise DataError("there is no document with two sentences", hint=hint)
    if missing := [name for label, name in enumerate(NAMES[kind]) if label not in set(labels)]:
        hint = "documents of several sentences make both kinds of pairs: separate them by blank lines, or set "
        hint += "data.documents.pairs=none"
        raise DataError(f"of {len(labels)} pairs none is {missing[0]}: there is nothing to tell apart", hint=hint)


# --- rows -------------------------------------------------------------------------------------------------------------


def labels_of(options: Documents) -> dict[str, list[str]]:
    """Return the labels of the column ``pair``; none where there are no pairs."""
    return {PAIR: list(NAMES[options.pairs])}


def encode_instances(data: Data, sentences: Iterable[Sentence], vocabulary: Vocabulary, *, training: bool) -> pa.Table:
    """Make instances of the documents of a split and encode them, a row each.

    ``training``: there are as many instances as a training takes, and they must have both kinds of pairs.

    Raises:
        DataError: the documents do not give the pairs that the recipe names.
    """
    text, options = _Text(enclosing(vocabulary), sentences), data.documents
    try:
        drawn = list(
            instances(
                text.corpus,
                np.random.default_rng(options.seed),
                kind=options.pairs,
                max_length=options.max_length,
                short=options.short,
                copies=options.copies if training else 1,
            )
        )
        if training and options.pairs != "none":
            require_both([instance.label for instance in drawn if instance.label is not None], options.pairs)
    except DataError as error:
        raise DataError(f"{text.where}: {error.message}", hint=error.hint) from None
    return table_of_rows(map(text.row, drawn))


class _Text:
    """All tokens of a split in order, and which words, sentences and documents they belong to."""

    def __init__(self, vocabulary: EnclosingVocabulary, sentences: Iterable[Sentence]) -> None:
        self.vocabulary = vocabulary
        self.ids, self.words, self.frequency = array("i"), array("q"), array("i")
        self.where = ""
        tokens, documents = array("q", [0]), array("q")  # where sentences and documents begin
        for sentence in sentences:
            if sentence.begins:
                documents.append(len(tokens) - 1)
            self.where = self.where or sentence.where.rpartition(":")[0]
            encoded = vocabulary.encode_part(sentence.words)
            self.words.extend(len(self.frequency) + word for word in encoded.word_of_piece)
            self.frequency.extend(vocabulary.frequency(word) for word in sentence.words)
            self.ids.extend(encoded.ids)
            tokens.append(len(self.ids))
        documents.append(len(tokens) - 1)
        self.corpus = Corpus(tokens, documents)

    def row(self, instance: Instance) -> Row:
        ids, segments = enclosed(instance, self.ids, self.vocabulary.FIRST, self.vocabulary.LAST)
        stretches = [(1, instance.first)]
        if instance.second is not None:
            stretches.append((segments.index(1), instance.second))
        first: list[int] = []
        frequency: list[int] = []
        for start, stretch in stretches:
            words: Sequence[int] = self.words[slice(*stretch)]
            for offset, word in enumerate(words):
                if offset == 0 or word != words[offset - 1]:
                    first.append(start + offset)
                    frequency.append(self.frequency[word])
        label = [] if instance.label is None else [instance.label]
        return {"ids": ids, "frequency": frequency, "first": first, "segments": segments, PAIR: label or None}
