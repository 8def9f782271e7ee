"""Coordinations ("A , B and C") of a sentence, a level of nesting in each row of its grid (OpenIE6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from probtrans_cli.data.codecs.grids import MOST_ROWS, unpack_rows
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.models.base import Outputs
from probtrans_cli.openie import coordinations
from probtrans_cli.openie.coordination_scores import CRITERIA, counts_of, scores_of
from probtrans_cli.openie.coordinations import (
    Coordination,
    coordination_records,
    located_coordinations,
    rows_to_coordinations,
    text_to_found,
)
from probtrans_cli.openie.grid_tasks import GridLabelling, Rows
from probtrans_cli.openie.splits import Splitter
from probtrans_cli.openie.tuple_writing import coordination_lines
from probtrans_cli.recipe.grids import Coordinations
from probtrans_cli.tasks.answers import with_probability
from probtrans_cli.tasks.base import Counts, Places, Prediction
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.model import Model
from probtrans_cli.trees.drawing.drawing import Span


class FoundCoordinations(GridLabelling):
    """Loss: cross entropy of the labels of all rows. Score: F1 of coordinations all of whose conjuncts are right."""

    answers = "coordinations"
    scored_apart = "parse RUN FILE --input tokens -f labels > OUT, then score coordination OUT --gold GOLD"
    section: Coordinations
    names = coordinations.LABELS
    gives = ("coordinations", "rows")

    @property
    def nothing(self) -> Prediction:
        return {**super().nothing, "splits": [], "sentences": []}

    def splitter(self, model: Model, extractor: Model, *, rescore: bool) -> Splitter:
        return Splitter(model, extractor, rescore)

    def compared(self, batch: Batch, row: int, index: int, rows: Rows) -> Mapping[Any, float]:
        """Coordinations that are gold, found, and right. Gold are all of the corpus, however few rows there are."""
        del row
        counts = counts_of(_gold(batch.split, index), rows_to_coordinations(rows.labels))
        return {name: float(value) for name, value in counts.items()}

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """F1 of coordinations by ``exact``, ``inner``, ``outer`` and ``whole``, ``loss``; finally also precision and
        recall of each."""
        of = scores_of({name: int(value) for name, value in counts.items() if isinstance(name, str)})
        scores: dict[str, Any] = {name: of[name]["f1"] for name in reversed(CRITERIA)}
        scores["loss"] = counts.mean("loss", "words")
        if final:
            scores |= {f"{part}_{name}": of[name][part] for name in CRITERIA for part in ("precision", "recall")}
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """``coordinations``: the number of the coordinating word, ``cc``, the ``conjuncts``, each its words from, to,
        the ``level`` of nesting, and ``confidence``, the geometric mean of the probabilities of its labels. ``rows``:
        the labels of all words in every row."""
        del top
        predictions: list[Prediction] = []
        numbers = batch.words.sum(1).tolist()
        for rows, number in zip(self.read(outputs, batch), numbers, strict=True):
            found = coordination_records(rows.labels, rows.log_probability)
            others = [[coordinations.NONE] * number for _ in range(self.section.rows - len(rows.labels))]
            predictions.append({"coordinations": found, "rows": [*rows.labels, *others]})
        return predictions

    def row_lines(self, prediction: Prediction, words: Sequence[str]) -> list[str]:
        return coordination_lines(words, prediction["rows"])

    def located(self, prediction: Prediction, text: str, characters: Sequence[tuple[int, int]]) -> Prediction:
        """With ``chars``: the characters of each conjunct; and its text. ``sentences``: the simple sentences that the
        sentence can be split into, none where it stays whole; ``splits``: the numbers of their words."""
        found = prediction["coordinations"]
        return {**prediction, **located_coordinations(found, text, characters, self.section.splitting)}

    @property
    def rules(self) -> Mapping[str, Any]:
        """``splitting``: where sentences are split."""
        splitting = self.section.splitting
        return {"splitting": {**splitting, "unbreakable": sorted(splitting["unbreakable"])}}

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """A line of bars below the words for each level; comments of CoNLL-U; the simple sentences as lines."""
        spans: list[Span] = []
        comments: list[str] = []
        for one in prediction["coordinations"]:
            parts = " | ".join(f"{start + 1}-{end}" for start, end in one["conjuncts"])
            comments.append(f"{one['cc'] + 1}: {parts}")
            level, chance = one["level"], one["confidence"] if probability else None
            spans += [Span(start + 1, end, "conj", line=level, kind="conj") for start, end in one["conjuncts"]]
            spans.append(Span(one["cc"] + 1, one["cc"] + 1, with_probability("cc", chance), line=level, kind="cc"))
        return Places(comments={"coordination": comments}, spans=spans, lines=prediction.get("sentences", ()))


def _gold(split: Split, index: int) -> Mapping[int, Coordination | None]:
    """The coordinations of a sentence of the corpus: all of its form, or, where it has none, of all its rows."""
    form = split.text("form", index) if split.has("form") else ""
    if form:
        return text_to_found(form)
    return rows_to_coordinations(unpack_rows(split.row("grid", index), MOST_ROWS).tolist())
