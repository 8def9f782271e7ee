"""Documents as a split of the store: a row is an instance of pretraining, one text or two with specials around them.

column     one value per  content
ids        token          `<cls>` A `<sep>`, or `<cls>` A `<sep>` B `<sep>`
first      word           position of its first token; of a word that was cut, the beginning of its text
segments   token          0 up to the first `<sep>`, 1 behind it
pair       instance       how B follows A (:data:`probtrans_cli.data.corpus.documents.NAMES`)
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from probtrans_cli.data.corpus.store import Labels, Row, table_of_rows
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import EnclosingVocabulary, Vocabulary, enclosing
from probtrans_cli.errors import DataError
from probtrans_cli.recipe.data import Data, Documents

if TYPE_CHECKING:
    import pyarrow as pa


PAIR = "pair"  # the column


def encode_instances(
    data: Data,
    sentences: Iterable[Sentence],
    vocabulary: Vocabulary,
    labels: Labels,  # noqa: ARG001
    *,
    training: bool,
) -> pa.Table:
    """Make instances of the documents of a split and encode them, one row each.

    ``training``: there are as many instances as a training takes, and they must have both kinds of pairs.

    Raises:
        DataError: the documents do not give the pairs that are asked for.
    """
    text = _Text(enclosing(vocabulary), sentences)
    made = _made(text, data.documents, training)
    return table_of_rows(map(text.row, made))


def _made(text: _Text, options: Documents, training: bool) -> list[Instance]:
    try:
        found = instances(
            text.corpus,
            np.random.default_rng(options.seed),
            kind=options.pairs,
            max_length=options.max_length,
            short=options.short,
            copies=options.copies if training else 1,
        )
        made = list(found)
        if training and options.pairs != "none":
            require_both([instance.label for instance in made if instance.label is not None], options.pairs)
    except DataError as error:
        raise DataError(f"{text.where}: {error.message}", hint=error.hint) from None
    return made


def labels_of(options: Documents) -> dict[str, list[str]]:
    """The labels of the column ``pair``; none where there are no pairs."""
    return {PAIR: list(NAMES[options.pairs])}


class _Text:
    """All tokens of a split, one after the other, and which words, sentences and documents they belong to."""

    def __init__(self, vocabulary: EnclosingVocabulary, sentences: Iterable[Sentence]) -> None:
        self.vocabulary = vocabulary
        self.ids, self.words, self.frequency = array("i"), array("q"), array("i")
        self.tokens, self.documents = array("q", [0]), array("q")  # where sentences and documents begin
        self.where = ""
        for sentence in sentences:
            self._add(sentence)
        self.documents.append(len(self.tokens) - 1)
        self.corpus = Corpus(self.tokens, self.documents)

    def _add(self, sentence: Sentence) -> None:
        if sentence.begins:
            self.documents.append(len(self.tokens) - 1)
        self.where = self.where or sentence.where.rpartition(":")[0]
        encoded = self.vocabulary.encode_part(sentence.words)
        self.words.extend(len(self.frequency) + word for word in encoded.word_of_piece)
        self.frequency.extend(self.vocabulary.frequency(word) for word in sentence.words)
        self.ids.extend(encoded.ids)
        self.tokens.append(len(self.ids))

    def row(self, instance: Instance) -> Row:
        """The row of an instance."""
        ids, segments = enclosed(instance, self.ids, self.vocabulary.FIRST, self.vocabulary.LAST)
        stretches = [(1, instance.first)]
        if instance.second is not None:
            stretches.append((segments.index(1), instance.second))
        first: list[int] = []
        frequency: list[int] = []
        for start, stretch in stretches:
            for offset, word in self._words(stretch):
                first.append(start + offset)
                frequency.append(self.frequency[word])
        label = [] if instance.label is None else [instance.label]
        return {"ids": ids, "frequency": frequency, "first": first, "segments": segments, PAIR: label or None}

    def _words(self, stretch: Stretch) -> Iterator[tuple[int, int]]:
        """Where each word of a stretch begins in it, and its number in the text."""
        words: Sequence[int] = self.words[slice(*stretch)]
        for offset, word in enumerate(words):
            if offset == 0 or word != words[offset - 1]:
                yield offset, word


Kind = Literal["nsp", "sop", "none"]
Stretch = tuple[int, int]  # tokens [begin, end) of the corpus
NAMES: dict[Kind, tuple[str, ...]] = {"nsp": ("next", "random"), "sop": ("ordered", "swapped"), "none": ()}
"""How the second stretch follows the first; the index is the label."""
_TRIES = 10  # to find another document than the one at hand


class Corpus(NamedTuple):
    """Documents by offsets: sentence ``s`` is tokens ``[tokens[s], tokens[s + 1])``, document ``d`` is sentences
    ``[sentences[d], sentences[d + 1])``. No sentence and no document is empty."""

    tokens: Sequence[int]
    sentences: Sequence[int]


class Instance(NamedTuple):
    """One instance: a stretch of tokens, or two with their label."""

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
    for _ in range(copies):
        for document in range(documents):
            target = int(generator.integers(2, usable + 1)) if generator.random() < short else usable
            match kind:
                case "nsp":
                    found = _next_or_random(corpus, document, target, generator)
                case "sop":
                    found = _ordered_or_swapped(corpus, document, target, generator)
                case "none":
                    found = _pieces(corpus, document, target)
            for one in found:
                yield _truncated(one, usable, generator)


def _next_or_random(corpus: Corpus, document: int, target: int, generator: np.random.Generator) -> Iterator[Instance]:
    start, end = corpus.sentences[document : document + 2]
    while start < end:
        stop = _chunk(corpus, start, end, target)
        middle = start + 1 if stop - start == 1 else start + int(generator.integers(1, stop - start))
        first = _stretch(corpus, start, middle)
        if middle == stop or generator.random() < 0.5:
            wanted = target - (first[1] - first[0])
            yield Instance(first, _elsewhere(corpus, document, wanted, generator), 1)
            start = middle
        else:
            yield Instance(first, _stretch(corpus, middle, stop), 0)
            start = stop


def _ordered_or_swapped(
    corpus: Corpus, document: int, target: int, generator: np.random.Generator
) -> Iterator[Instance]:
    start, end = corpus.sentences[document : document + 2]
    while end - start >= 2:
        stop = max(_chunk(corpus, start, end, target), start + 2)
        middle = start + int(generator.integers(1, stop - start))
        both = _stretch(corpus, start, middle), _stretch(corpus, middle, stop)
        yield Instance(both[1], both[0], 1) if generator.random() < 0.5 else Instance(both[0], both[1], 0)
        start = stop


def _pieces(corpus: Corpus, document: int, target: int) -> Iterator[Instance]:
    begin, end = _stretch(corpus, *corpus.sentences[document : document + 2])
    for start in range(begin, end, target):
        yield Instance((start, min(start + target, end)))


def _chunk(corpus: Corpus, start: int, end: int, target: int) -> int:
    """Where sentences from ``start`` on have ``target`` tokens, but not behind ``end``."""
    return bisect_left(corpus.tokens, corpus.tokens[start] + target, start + 1, end)


def _stretch(corpus: Corpus, start: int, stop: int) -> Stretch:
    return corpus.tokens[start], corpus.tokens[stop]


def _elsewhere(corpus: Corpus, document: int, wanted: int, generator: np.random.Generator) -> Stretch:
    """Some ``wanted`` tokens from a random sentence of another document on; at least that sentence."""
    other = document
    for _ in range(_TRIES):
        other = int(generator.integers(len(corpus.sentences) - 1))
        if other != document:
            break
    begin, end = corpus.sentences[other : other + 2]
    start = int(generator.integers(begin, end))
    return _stretch(corpus, start, _chunk(corpus, start, end, wanted))


def _truncated(instance: Instance, usable: int, generator: np.random.Generator) -> Instance:
    """The same with at most ``usable`` tokens."""
    if instance.second is None:
        return instance
    first, second = (stretch[1] - stretch[0] for stretch in instance[:2] if stretch is not None)
    if first + second <= usable:
        return instance
    # What is left when the longer one, of equal ones the second, has lost a token so often as was needed.
    keep = max(usable - second, (usable + 1) // 2), max(usable - first, usable // 2)
    shorter = _shortened(instance.first, keep[0], generator), _shortened(instance.second, keep[1], generator)
    return Instance(*shorter, instance.label)


def _shortened(stretch: Stretch, keep: int, generator: np.random.Generator) -> Stretch:
    begin, end = stretch
    surplus = end - begin - keep
    if surplus <= 0:
        return stretch
    front = int(generator.binomial(surplus, 0.5))
    return begin + front, begin + front + keep


def enclosed(instance: Instance, ids: Sequence[int], first: int, last: int) -> tuple[list[int], list[int]]:
    """The ids of an instance and their segments: `first A last` in segment 0, `B last` in segment 1."""
    of_first = [first, *ids[slice(*instance.first)], last]
    of_second = [] if instance.second is None else [*ids[slice(*instance.second)], last]
    return of_first + of_second, [0] * len(of_first) + [1] * len(of_second)


def require_both(labels: Sequence[int], kind: Kind) -> None:
    """Refuse pairs from which nothing can be learned.

    Raises:
        DataError: there is no instance, or all instances have the same label.
    """
    if not labels:
        hint = "documents of a single sentence have no order: set data.documents.pairs=nsp or none"
        raise DataError("there is no document with two sentences", hint=hint)
    if missing := [name for label, name in enumerate(NAMES[kind]) if label not in set(labels)]:
        hint = "documents of several sentences make both kinds of pairs: separate them by blank lines, or set "
        hint += "data.documents.pairs=none"
        raise DataError(f"of {len(labels)} pairs none is {missing[0]}: there is nothing to tell apart", hint=hint)
