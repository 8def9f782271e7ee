"""Open information extraction: tuples (arg1; relation; arg2) of a sentence, one a row of its grid (OpenIE6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Outputs
from probtrans_cli.openie import extractions
from probtrans_cli.openie.carb import carb_scores
from probtrans_cli.openie.extractions import PARTS, Extraction, located_tuple, runs, tuple_record, tuples_in
from probtrans_cli.openie.grid_tasks import GridLabelling, Rows
from probtrans_cli.openie.parts_of_speech import with_content_words
from probtrans_cli.openie.penalties import CONTENT, penalties
from probtrans_cli.openie.tuple_floor import floor_tuples
from probtrans_cli.openie.tuple_texts import TupleText, counts_of
from probtrans_cli.openie.tuple_writing import extraction_lines
from probtrans_cli.openie.wire57 import wire57_scores
from probtrans_cli.recipe.grids import OpenExtraction
from probtrans_cli.tasks.answers import with_probability
from probtrans_cli.tasks.base import Counts, Places, Prediction, Term
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.text import from_json
from probtrans_cli.trained.model import Model
from probtrans_cli.trees.drawing.drawing import Span


class ExtractedTuples(GridLabelling):
    """Loss: cross entropy of the labels of all rows, and penalties. Score: CaRB's F1 at the best threshold."""

    answers = "tuples"
    scored_apart = "parse RUN FILE --input tokens -f carb > OUT, then score carb OUT --gold GOLD"
    section: OpenExtraction
    names = extractions.LABELS
    gives = ("tuples", "rows")

    def __init__(self, section: OpenExtraction, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.penalised = False

    @property
    def columns(self) -> Mapping[str, int]:
        return {**super().columns, CONTENT: 0}

    def complete(self, model: Model, splits: Mapping[str, Split], *, required: bool) -> dict[str, Split]:
        """Which words are content words and head verbs is added."""
        return with_content_words(model, splits, required=required)

    def advance(self, done: float, epoch: int) -> None:
        super().advance(done, epoch)
        self.penalised = epoch >= self.section.constraint_start_epoch

    # --- loss ---------------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        """Words, extra ones among them; sentences, for each penalty."""
        sentences = batch.words.any(1).sum()
        return {**super().counts(batch), **dict.fromkeys(self.section.constraints.used, sentences)}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """The cross entropy summed over words, and each penalty over sentences; before their first epoch, without a
        weight."""
        terms, used = dict(super().terms(outputs, batch)), self.section.constraints.used
        if not used:
            return terms
        if self.section.constraint_only and self.penalised:
            terms["loss"] = replace(terms["loss"], weight=0.0)
        found = self._penalties(outputs, batch)
        counts = self.counts(batch)
        for name, weight in used.items():
            terms[name] = Term(found[name].sum(), counts[name], weight if self.penalised else 0.0)
        return terms

    def _penalties(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        kinds = batch.gold[CONTENT]
        return penalties(outputs.scores["rows"].float().softmax(-1), kinds > 0, kinds == 3)

    # --- answers ------------------------------------------------------------------------------------------------------

    def found(self, words: Sequence[str], rows: Rows) -> list[Extraction]:
        """The tuples of a sentence of these words, the extra ones not among them."""
        return tuples_in(words, rows.labels, rows.log_probability, **self.rules)

    @property
    def rules(self) -> dict[str, Any]:
        """What :func:`probtrans_cli.data.codecs.records.tuples_in` takes."""
        section = self.section
        return {
            "confidence": section.confidence,
            "extra_words": list(self.extra_words),
            "location_time": section.location_time,
        }

    def compared(self, batch: Batch, row: int, index: int, rows: Rows) -> Mapping[Any, float]:
        """The gold tuples of the sentence, and the confidences of those that are found: only all sentences together
        are scored."""
        del row
        return self.told(batch.split, index, self.found(self.words_of(batch.split, index), rows))

    def told(self, split: Split, index: int, found: Iterable[Extraction]) -> dict[Any, float]:
        """The counts of a sentence: its gold tuples, and those that are found in it, in order."""
        words = self.words_of(split, index)
        counts: dict[Any, float] = {("gold", index, split.text("form", index)): 1.0}
        for number, one in enumerate(found):
            places = tuple(sorted({*one.arg1, *one.relation, *one.second}))
            counts["found", index, number, tuple(one.texts(words)), places] = one.confidence
        return counts

    def words_of(self, split: Split, index: int) -> list[str]:
        """The words of a sentence, without the extra ones; their numbers where they have spaces in them."""
        spelled = split.text("spelling", index).split(" ")
        number = int(split.words[index])
        return (spelled if len(spelled) == number else [str(i) for i in range(number)])[: number - self.extra]

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """As of every grid; also the penalties, where parts of speech are known."""
        counts = super().measure(outputs, batch)
        if CONTENT in batch.gold:
            scores = outputs.scores["rows"]
            certain = scores.new_zeros(scores.shape).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
            kinds = batch.gold[CONTENT]
            for name, value in penalties(certain, kinds > 0, kinds == 3).items():
                counts[f"violations_{name}"] += float(value.sum())
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """``f1``, ``precision``, ``recall`` and ``auc`` of CaRB, ``loss``; finally also ``last_f1``, ``f1_single`` and
        ``auc_single`` (one to one), ``wire57_f1``, how many tuples there are and how alike, and the violations of
        constraints, where parts of speech are known."""
        gold = {str(key[1]): _gold(key[2]) for key in _keys(counts, "gold")}
        predicted: dict[str, list[TupleText]] = {name: [] for name in gold}
        places: dict[str, list[frozenset[int]]] = {name: [] for name in gold}
        for key in sorted(_keys(counts, "found"), key=lambda key: key[1:3]):
            _, index, _, (arg1, relation, arg2), of_words = key
            predicted[str(index)].append(TupleText(relation, (arg1, arg2), counts[key]))
            places[str(index)].append(frozenset(of_words))
        carb = carb_scores(gold, predicted)
        scores: dict[str, Any] = {name: getattr(carb, name) for name in ("f1", "precision", "recall", "auc")}
        scores["loss"] = counts.mean("loss", "words")
        if final:
            single = carb_scores(gold, predicted, single_match=True)
            scores |= {"last_f1": carb.last_f1, "f1_single": single.f1, "auc_single": single.auc}
            scores["wire57_f1"] = wire57_scores(gold, predicted)["f1"]
            scores |= counts_of(places.values())
        return scores | {str(name): value for name, value in counts.items() if str(name).startswith("violations_")}

    def floors(self, split: Split) -> dict[str, Any]:
        """``floor_f1`` and ``floor_auc``: CaRB's, of sentences that are cut at their verbs."""
        counts = Counts()
        for index in range(len(split)):
            counts.add(self.told(split, index, floor_tuples(self.words_of(split, index))))
        found = self.scores(counts, final=False)
        return {f"floor_{name}": found[name] for name in ("f1", "auc")}

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """``tuples``: the texts of ``arg1``, ``rel`` and ``arg2``, ``confidence``, ``row``, ``words``: the numbers of
        the words of each part, ``location_time``: those of arg2 that say where or when, and ``added``: the extra words
        of the relation. ``rows``: the labels of all words in every row, at least in one; those of the extra words come
        last."""
        del top
        predictions: list[Prediction] = []
        for index, rows in zip(batch.indices.tolist(), self.read(outputs, batch), strict=True):
            words = self.words_of(batch.split, index)
            labels = rows.labels or [[extractions.NONE] * (len(words) + self.extra)]
            predictions.append(
                {"tuples": [tuple_record(one, words) for one in self.found(words, rows)], "rows": labels}
            )
        return predictions

    def row_lines(self, prediction: Prediction, words: Sequence[str]) -> list[str]:
        return extraction_lines([*words, *extra_words(self.extra)], prediction["rows"])

    def located(self, prediction: Prediction, text: str, characters: Sequence[tuple[int, int]]) -> Prediction:
        """With ``chars``: the characters of each part; and the words as the text has them."""
        return {**prediction, "tuples": [located_tuple(one, text, characters) for one in prediction["tuples"]]}

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """A line of bars below the words for each tuple; comments of CoNLL-U; a line of text for each."""
        spans: list[Span] = []
        comments: list[str] = []
        lines: list[str] = []
        for line, one in enumerate(prediction["tuples"]):
            texts = "; ".join(one[name] for name in PARTS)
            comments.append(f"{one['confidence']:.4f}: ({texts})")
            lines.append(f"{one['confidence']:.2f}: ({texts})")
            for name in PARTS:
                shown = with_probability(name, one["confidence"] if probability and name == "rel" else None)
                for first, last in runs(sorted(one["words"][name])):
                    spans.append(Span(first + 1, last + 1, shown, line=line, kind=name))
        return Places(comments={"tuple": comments}, spans=spans, lines=lines)


def _keys(counts: Counts, name: str) -> list[Any]:
    """The keys of the counts that begin with a name."""
    return [key for key in counts if isinstance(key, tuple) and key[0] == name]


def _gold(form: str) -> list[TupleText]:
    """The gold tuples of a sentence."""
    return [TupleText(relation, tuple(arguments)) for relation, *arguments in from_json(form or "[]")]
