"""How the sentences of a format become rows of the store: a row of :data:`ENCODINGS` a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probtrans_cli.data.corpus.documents import NAMES, PAIR, encode_instances
from probtrans_cli.data.corpus.store import Labels, encode_table
from probtrans_cli.data.readers.cogs import CASES
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.recipe.data import Data

if TYPE_CHECKING:
    import pyarrow as pa


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
    learns_from_rows: bool = False
    """Whether training sentences whose grid has no row are left out."""

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
    """Return how the sentences of a recipe's files become rows."""
    return ENCODINGS.get(data.format, Encoding())


def encode_corpus(
    data: Data, sentences: Iterable[Sentence], vocabulary: Vocabulary, labels: Labels, *, training: bool = False
) -> pa.Table:
    """Encode the sentences of a split, a row each; of documents, a row for each instance.

    ``training``: documents give as many instances as a training takes, and must give both kinds of pairs.

    Raises:
        DataError: a sentence cannot be stored, or the documents do not give the pairs that the recipe names.
    """
    encode = encoding_of(data).encode
    if encode is None:
        return encode_table(sentences, vocabulary, labels)
    return encode(data, sentences, vocabulary, training=training)
