"""A trained model as Python users have it: :func:`probtrans_cli.load` returns it, and `analyze` is `parse -f jsonl`.

As Arrow, analyses are rows in columns that are the same for all models. A column has the name and the content that a
line of JSON has, see :meth:`probtrans_cli.trained.parses.Analysis.record`, and is null where a line has no such key or
null. What only few models say, or say in another form each, stands together in ``more``, as JSON. Engines such as Spark
must know the columns beforehand, and rows of several models can stand in one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from probtrans_cli.data.sentence import Sentence, divided
from probtrans_cli.data.streams import excess
from probtrans_cli.data.tokens import LONGEST, listed
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.statistics.sampling import Sampling
from probtrans_cli.text import from_json
from probtrans_cli.trained.base import ModelBase
from probtrans_cli.trained.generation import (
    continuations,
    next_words,
    require_causal,
    require_next_words,
    words_of,
)
from probtrans_cli.trained.parses import Analysis, ParseOptions, Parser, splitter_by

ANALYSED_AT_ONCE = 256  # sentences, by `analyze`


class Model(ModelBase):
    """A task, its network and its vocabulary, which analyses sentences."""

    def analyze(
        self, texts: Iterable[str | Sequence[str]], *, coordination: Model | None = None, longest: int = LONGEST,
        **options: Any,
    ) -> Iterator[Analysis]:  # fmt: skip
        """Yield what the model says of sentences, in order: the same as `parse -f jsonl`.

        Args:
            texts: sentences; a text is divided into words as `parse --input text` does, a list of words stays
                as it is, without white space around them.
            coordination: a model of coordinations, at which sentences are split before tuples are extracted.
            longest: words or tokens that a sentence may have; time grows with the cube of their number.
            options: fields of :class:`probtrans_cli.trained.parses.ParseOptions`, such as ``trees=False`` or ``top=5``.

        Raises:
            UsageError: a single text; alternatives that the task does not give; a channel, iteration, labels, dropout
                or uncertainty that the model does not have; models without coordinations or without tuples.
            DataError: while the analyses are read: a sentence is longer, or has more tokens than the encoder has
                positions.
            TypeError: there is no such option.
        """
        if isinstance(texts, str | bytes):
            raise UsageError("analyze takes several texts, and was given one", hint="write analyze([text])")
        trees = options.pop("trees", True) and (self.recipe.model.facts.has_arcs or self.task.answers.trees is not None)
        request = ParseOptions(trees=trees, **options)
        self.refuse_choice_of_trees(request.channel, request.iteration, request.decoder)
        splitter = None
        if coordination is not None:
            splitter = splitter_by(coordination, self, rescore=request.rescore)
        return self._analysed(texts, Parser(self, request, splitter=splitter), longest)

    def _analysed(self, texts: Iterable[str | Sequence[str]], parser: Parser, longest: int) -> Iterator[Analysis]:
        sentences = (divided(text) if isinstance(text, str) else Sentence(words=listed(text)) for text in texts)
        while portion := list(islice(sentences, ANALYSED_AT_ONCE)):
            for sentence in portion:
                if (over := excess(sentence, longest, self.vocabulary)) is not None:
                    message = f"a sentence of {over[0]:,} {over[1]}, more than {longest:,}"
                    raise DataError(message, hint=f"split it, or allow it with longest={over[0]}")
            yield from parser.analyses(portion)

    def surprisal(self, texts: Iterable[str | Sequence[str]]) -> Iterator[list[tuple[str, float]]]:
        """Yield the words of each text that a causal language model scores, with their surprisal in bits."""
        require_causal(self)
        for analysis in self.analyze(texts, trees=False):
            bits = (analysis.prediction or {}).get("surprisal", [])
            yield [(word, value) for word, value in zip(analysis.words, bits, strict=False) if value is not None]

    def next_words(self, prefix: str | Sequence[str], top: int | None = None) -> dict[str, float]:
        """Return the probability of every word of the vocabulary behind a text, the most probable first.

        Args:
            prefix: the text, or its words.
            top: only this number of words; None = all, which sum to 1.
        """
        log_p = next_words(self, [words_of(prefix)])[0]
        order = np.argsort(-log_p, kind="stable")[:top]
        return {self.vocabulary.decode(int(id)): float(np.exp(log_p[id])) for id in order}

    def generate(self, prompt: str | Sequence[str] = "", **options: Any) -> Iterator[str]:
        """Yield words that go on from a prompt, as they are drawn.

        Args:
            prompt: a text, or its words.
            options: fields of :class:`probtrans_cli.statistics.sampling.Sampling`, such as ``words=20`` or ``top_k=5``.

        Raises:
            UsageError: another kind of model, or an option out of range.
            TypeError: there is no such option.
        """
        sampling = Sampling(**options)
        require_next_words(self, sampling)
        return (str(word) for (word,) in continuations(self, [words_of(prompt)], sampling))

    def analyze_arrow(
        self, texts: Iterable[str | Sequence[str]], *, rows: int = ANALYSED_AT_ONCE, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield what :meth:`analyze` says as Arrow: batches of ``rows`` analyses, in the columns of
        :data:`probtrans_cli.trained.model.SCHEMA`, which are the same for all models. ``options``: those of `analyze`.
        """
        analyses = self.analyze(texts, **options)
        return map(record_batch, iter(lambda: list(islice(analyses, rows)), []))


# --- analyses as Arrow ------------------------------------------------------------------------------------------------

_NUMBERS = pa.list_(pa.int32())
_PAIRS = pa.list_(_NUMBERS)
_TEXTS = pa.list_(pa.string())
_PARTS = ("arg1", "rel", "arg2")

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "text": pa.string(),
        "words": _TEXTS,
        "heads": _NUMBERS,
        "probabilities": pa.list_(pa.float64()),
        "channel": pa.string(),
        "iteration": pa.int32(),
        "decode": pa.string(),
        "tags": _TEXTS,
        "tag_probability": pa.list_(pa.float64()),
        "entities": pa.list_(
            pa.struct(
                {
                    "type": pa.string(),
                    "words": _NUMBERS,
                    "probability": pa.float64(),
                    "characters": _NUMBERS,
                    "text": pa.string(),
                }
            )
        ),
        "label": pa.string(),
        "label_probability": pa.float64(),
        "logical_form": pa.string(),
        "masks": pa.list_(pa.struct({"word": pa.int32(), "words": _TEXTS, "probabilities": pa.list_(pa.float64())})),
        "pair": pa.string(),
        "pair_probability": pa.float64(),
        "tuples": pa.list_(
            pa.struct(
                {
                    **dict.fromkeys(_PARTS, pa.string()),
                    "confidence": pa.float64(),
                    "row": pa.int32(),
                    "words": pa.struct(dict.fromkeys(_PARTS, _NUMBERS)),
                    "location_time": _NUMBERS,
                    "added": _TEXTS,
                    "chars": pa.struct(dict.fromkeys(_PARTS, _PAIRS)),
                    "split": pa.int32(),
                }
            )
        ),
        "coordinations": pa.list_(
            pa.struct(
                {
                    "cc": pa.int32(),
                    "conjuncts": _PAIRS,
                    "level": pa.int32(),
                    "confidence": pa.float64(),
                    "chars": _PAIRS,
                    "texts": _TEXTS,
                }
            )
        ),
        "splits": _PAIRS,
        "sentences": _TEXTS,
        "more": pa.string(),
    }
)
"""The columns."""
_SPAN_KEYS = {
    column.name: {field.name for field in column.type.value_type}
    for column in SCHEMA
    if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)
}
"""The keys of spans that a column has a place for; members of the uncertainty and alternatives are others."""
MORE = "more"


def record_batch(analyses: Iterable[Analysis]) -> pa.RecordBatch:
    rows = []
    for record in (analysis.record() for analysis in analyses):
        row = dict(record)
        for name, value in record.items():
            known = _SPAN_KEYS.get(name)
            if name not in SCHEMA.names or (known and any(not known >= span.keys() for span in value or ())):
                del row[name]
        rest = {name: value for name, value in record.items() if name not in row}
        if "channel" in row:
            row["channel"] = str(row["channel"])
        rows.append({**row, MORE: json.dumps(rest, ensure_ascii=False)} if rest else row)
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def records(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the records of lines of JSON from rows of :func:`record_batch`; unknown probabilities stay None."""
    for row in batch.to_pylist():
        more = from_json(row.pop(MORE) or "{}")
        record = {name: _without_nulls(value) for name, value in row.items() if value is not None}
        if (record.get("channel") or "").isdigit():
            record["channel"] = int(record["channel"])
        yield record | more


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
