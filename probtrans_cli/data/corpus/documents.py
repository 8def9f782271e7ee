"""Documents as a split of the store: a row is an instance of pretraining, one text or two with specials around them.

column     one value per  content
ids        token          `<cls>` A `<sep>`, or `<cls>` A `<sep>` B `<sep>`
first      word           position of its first token; of a word that was cut, the beginning of its text
segments   token          0 up to the first `<sep>`, 1 behind it
pair       instance       how B follows A (:data:`probtrans_cli.data.corpus.pairs.NAMES`)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from probtrans_cli.data.corpus.pairs import NAMES, Corpus, Instance, Stretch, enclosed, instances, require_both
from probtrans_cli.data.corpus.store import Labels, Row, table_of_rows
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import EnclosingVocabulary, Vocabulary
from probtrans_cli.data.vocabularies.enclosed import enclosing
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
