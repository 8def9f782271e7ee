"""The tasks over grids of labels (OpenIE6): a row for each tuple, or for each level of nested coordinations.

    L = mean over words of Σ_m w(y_mn) (-log p_mn(y_mn)),        w(no label) = `none_weight`, w = 1 else

Words are those of the sentence and the extra ones behind them. Rows that a sentence does not have are rows without any
label. The labels of a row end where it lacks one of the two that every row has: then there are no more rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import MOST_ROWS, Sentence, character_spans, unpack_rows
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.models.base import Encoder, Outputs, Wants
from probtrans_cli.openie import coordinations, extractions
from probtrans_cli.openie.coordinations import (
    ByCoordinator,
    Coordination,
    coordination_records,
    located_coordinations,
    rows_to_coordinations,
)
from probtrans_cli.openie.extractions import NONE, PARTS, Extraction, located_tuple, runs, tuple_record, tuples_in
from probtrans_cli.openie.output import CONTENT, ENDS_WITHOUT, GridOutput, penalties
from probtrans_cli.openie.scores import (
    CRITERIA,
    TupleText,
    baseline_tuples,
    carb_scores,
    coordination_counts,
    coordination_scores,
    tuple_statistics,
    wire57_scores,
)
from probtrans_cli.recipe.grids import Coordinations, GridSection, OpenExtraction
from probtrans_cli.tasks.base import (
    OUTPUT,
    Answers,
    Counts,
    OutputRows,
    Places,
    Prediction,
    Task,
    Term,
    with_probability,
)
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.text import from_json
from probtrans_cli.trees.drawing import Span

GRID, FED_BACK = "grid", "fed_back"
BIASES = (0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -4.0, 0.5)
"""What is added to the score of no label, tried on dev."""
START_BIAS = -1.0
"""The same during the training, where dev chooses the checkpoint: near what is chosen in the end, for without it the
score goes up and down with how careful the model is."""


ROWS = Answers(kind="rows", scores="rows", not_in_json=("rows",), alternatives=False, with_text=True, tells_speed=True)


class Rows(NamedTuple):
    """The rows of a sentence: a label for each word and extra word, and the log-probability of each."""

    labels: list[list[int]]
    log_probability: list[list[float]]


class GridLabelling(Task):
    """The grid of labels of every sentence, row after row."""

    section: GridSection
    columns: Mapping[str, int] = MappingProxyType({GRID: 0})
    names: ClassVar[Sequence[str]]
    """The labels; the first one is none, and a row without the second or third ends a sentence."""

    def __init__(self, section: GridSection, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        self.extra_words = tuple(labels.get("extra_words", ()))
        self.outputs, self.word_dropout = len(self.names), section.word_dropout
        chosen = () if section.decision_bias == "dev" else ("none_bias",)
        self.output_rows = {OUTPUT: OutputRows("labels of a grid", tuple(self.names), chosen=chosen)}

    def output(self, encoder: Encoder) -> GridOutput:
        section = self.section
        layer = GridOutput(
            encoder.facts.width,
            len(self.names),
            rows=section.rows,
            steps=section.iterative_steps,
            merge=section.merge_dim or min(300, encoder.facts.width),
            feedback=section.label_feedback,
            words=section.word_repr,
            facts={"labels": list(self.names), "rows": section.rows, "extra_words": list(self.extra_words)},
        )
        layer.decide(START_BIAS if section.decision_bias == "dev" else section.decision_bias)
        layer.decisions = BIASES if section.decision_bias == "dev" else ()
        return layer

    # --- batches ------------------------------------------------------------------------------------------------------

    def training(self, batch: Batch) -> Batch:
        """Hide rare words at random; feed the gold labels back where the recipe says so."""
        batch = super().training(batch)
        share = {"predicted": 0.0, "gold": 1.0, "scheduled": 1.0 - batch.done}[self.section.label_source]
        if share == 0.0:
            return batch
        rows = self._gold(batch)
        by_row = torch.rand(rows.shape[:2]).to(rows.device) < share
        return replace(batch, gold={**batch.gold, FED_BACK: rows.where(by_row[:, :, None], -1)})

    def wants(self, batch: Batch) -> Wants:
        ends = self.section.early_exit and GRID not in batch.gold
        return Wants(words=batch.words, fed_back=batch.gold.get(FED_BACK), ends=ends)

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        return {"loss": Term(self._loss(outputs, batch, self.section.none_weight), self.counts(batch)["loss"])}

    def _gold(self, batch: Batch) -> Int[Tensor, "b r w"]:
        """Return the labels of the rows, which are packed as :func:`probtrans_cli.data.sentence.pack_rows` says."""
        shifts = 3 * torch.arange(self.section.rows, device=batch.words.device)
        return (batch.gold[GRID][:, None, :] >> shifts[:, None]) & 7

    def _loss(self, outputs: Outputs, batch: Batch, none_weight: float = 1.0) -> Float[Tensor, ""]:
        scores, gold = outputs.scores["rows"].float(), self._gold(batch)
        weight = torch.ones(len(self.names), device=scores.device)
        weight[NONE] = none_weight
        losses = functional.cross_entropy(scores.flatten(0, 2), gold.flatten(), weight=weight, reduction="none")
        return (losses.view_as(gold) * batch.words[:, None]).sum()

    # --- answers ------------------------------------------------------------------------------------------------------

    def read(self, outputs: Outputs, batch: Batch) -> list[Rows]:
        """Return the rows of every sentence, in order, up to its end; a sentence of one word has none."""
        scores = outputs.scores["rows"].float()
        labels = scores.argmax(-1)
        chance = scores.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
        real = batch.words[:, None]
        is_row = torch.ones(labels.shape[:2], dtype=torch.bool, device=labels.device)
        for label in ENDS_WITHOUT:
            is_row &= ((labels == label) & real).any(-1)
        words = batch.words.sum(1)
        numbers = is_row.long().cumprod(1).sum(1) * (words - len(self.extra_words) > 1)
        sentences = zip(labels.tolist(), chance.tolist(), numbers.tolist(), words.tolist(), strict=True)
        return [
            Rows([row[:n] for row in of_rows[:m]], [row[:n] for row in chances[:m]])
            for of_rows, chances, m, n in sentences
        ]

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        counts = Counts(loss=float(self._loss(outputs, batch)), words=int(batch.words.sum()))
        for index, rows in zip(batch.indices.tolist(), self.read(outputs, batch), strict=True):
            counts.add(self.compared(batch.split, index, rows))
        return counts

    @abstractmethod
    def compared(self, split: Split, index: int, rows: Rows) -> Mapping[Any, float]:
        """Return what sentence ``index`` of a corpus adds to the counts."""


# --- tuples -----------------------------------------------------------------------------------------------------------


class TupleTask(GridLabelling):
    """Loss: cross entropy of the labels of all rows, and penalties. Score: CaRB's F1 at the best threshold."""

    answers = replace(
        ROWS,
        kind="tuples",
        spans={"tuples": located_tuple},
        gives=("tuples", "rows"),
        scored_apart="parse RUN FILE --input tokens -f carb > OUT, then score carb OUT --gold GOLD",
        nothing={"tuples": [], "rows": []},
    )
    section: OpenExtraction
    columns = MappingProxyType({GRID: 0, CONTENT: 0})
    names = extractions.LABELS

    def __init__(self, section: OpenExtraction, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        # What :func:`probtrans_cli.openie.extractions.tuples_in` takes.
        rules = {
            "confidence": section.confidence,
            "extra_words": list(self.extra_words),
            "location_time": section.location_time,
        }
        self.answers = replace(self.answers, rules=rules)

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        sentences = batch.words.any(1).sum()
        return {**super().counts(batch), **dict.fromkeys(self.section.constraints.used, sentences)}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the cross entropy summed over words, and each penalty over sentences; before their first epoch,
        without a weight."""
        terms, used = dict(super().terms(outputs, batch)), self.section.constraints.used
        if not used:
            return terms
        penalised = batch.epoch >= self.section.constraint_start_epoch
        if self.section.constraint_only and penalised:
            terms["loss"] = replace(terms["loss"], weight=0.0)
        kinds = batch.gold[CONTENT]
        of_sentences = penalties(outputs.scores["rows"].float().softmax(-1), kinds > 0, kinds == 3)
        counts = self.counts(batch)
        for name, weight in used.items():
            terms[name] = Term(of_sentences[name].sum(), counts[name], weight if penalised else 0.0)
        return terms

    def compared(self, split: Split, index: int, rows: Rows) -> Mapping[Any, float]:
        words = self.words_of(split, index)
        return self.counts_of(split, index, tuples_in(words, rows.labels, rows.log_probability, **self.answers.rules))

    def counts_of(self, split: Split, index: int, predicted: Iterable[Extraction]) -> dict[Any, float]:
        """Return the counts of a sentence: its gold tuples, and the confidences of those that are predicted, in order;
        only all sentences together are scored."""
        words = self.words_of(split, index)
        counts: dict[Any, float] = {("gold", index, split.text("form", index)): 1.0}
        for number, extraction in enumerate(predicted):
            positions = {i for part in extraction.parts.values() for i in part}
            key = ("found", index, number, tuple(extraction.texts(words)), tuple(sorted(positions)))
            counts[key] = extraction.confidence
        return counts

    def words_of(self, split: Split, index: int) -> list[str]:
        """Return the words of a sentence, without the extra ones; their numbers where they have spaces in them."""
        words, number = split.text("spelling", index).split(" "), int(split.words[index])
        if len(words) != number:
            words = [str(i) for i in range(number)]
        return words[: number - len(self.extra_words)]

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        counts = super().measure(outputs, batch)
        if CONTENT in batch.gold:
            scores = outputs.scores["rows"]
            certain = scores.new_zeros(scores.shape).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
            kinds = batch.gold[CONTENT]
            for name, value in penalties(certain, kinds > 0, kinds == 3).items():
                counts[f"violations_{name}"] += float(value.sum())
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``f1``, ``precision``, ``recall`` and ``auc`` of CaRB, ``loss``; finally also ``last_f1``,
        ``f1_single`` and ``auc_single`` (one to one), ``wire57_f1``, how many tuples there are and how alike, and the
        violations of constraints, where parts of speech are known."""
        gold: dict[str, list[TupleText]] = {}
        predicted: dict[str, list[TupleText]] = {}
        positions: dict[str, list[frozenset[int]]] = {}
        # Counts have an entry for every sentence, and one for every prediction: see `counts_of`.
        keys = [key for key in counts if isinstance(key, tuple)]
        for _, index, form in (key for key in keys if key[0] == "gold"):
            name = str(index)
            tuples = from_json(form or "[]")
            gold[name] = [TupleText(relation, tuple(arguments)) for relation, *arguments in tuples]
            predicted[name], positions[name] = [], []
        for key in sorted((key for key in keys if key[0] == "found"), key=lambda key: key[1:3]):
            _, index, _, (arg1, relation, arg2), of_words = key
            predicted[str(index)].append(TupleText(relation, (arg1, arg2), counts[key]))
            positions[str(index)].append(frozenset(of_words))
        carb = carb_scores(gold, predicted)
        scores: dict[str, Any] = {name: getattr(carb, name) for name in ("f1", "precision", "recall", "auc")}
        scores["loss"] = counts.mean("loss", "words")
        if final:
            single = carb_scores(gold, predicted, single_match=True)
            scores |= {"last_f1": carb.last_f1, "f1_single": single.f1, "auc_single": single.auc}
            scores["wire57_f1"] = wire57_scores(gold, predicted)["f1"]
            scores |= tuple_statistics(positions.values())
        return scores | {str(name): value for name, value in counts.items() if str(name).startswith("violations_")}

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return ``tuples``: the texts of ``arg1``, ``rel`` and ``arg2``, ``confidence``, ``row``, ``words``: the
        numbers of the words of each part, ``location_time``: those of arg2 that say where or when, and ``added``: the
        extra words of the relation. ``rows``: the labels of all words in every row, at least in one; those of the extra
        words come last."""
        del top
        predictions: list[Prediction] = []
        for index, rows in zip(batch.indices.tolist(), self.read(outputs, batch), strict=True):
            words = self.words_of(batch.split, index)
            tuples = tuples_in(words, rows.labels, rows.log_probability, **self.answers.rules)
            labels = rows.labels or [[extractions.NONE] * (len(words) + len(self.extra_words))]
            records = [tuple_record(extraction, words) for extraction in tuples]
            predictions.append({"tuples": records, "rows": labels})
        return predictions

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return a line of bars below the words for each tuple; comments of CoNLL-U; a line of text for each."""
        spans: list[Span] = []
        comments: list[str] = []
        lines: list[str] = []
        for line, record in enumerate(prediction["tuples"]):
            texts, confidence = "; ".join(record[name] for name in PARTS), record["confidence"]
            comments.append(f"{confidence:.4f}: ({texts})")
            lines.append(f"{confidence:.2f}: ({texts})")
            for name in PARTS:
                title = with_probability(name, confidence if probability and name == "rel" else None)
                for first, last in runs(sorted(record["words"][name])):
                    spans.append(Span(first + 1, last + 1, title, line=line, kind=name))
        return Places(comments={"tuple": comments}, spans=spans, lines=lines)


def baselines(task: TupleTask, split: Split) -> dict[str, Any]:
    """Return ``floor_f1`` and ``floor_auc``: CaRB's, of sentences that are cut at their verbs."""
    counts = Counts()
    for index in range(len(split)):
        counts.add(task.counts_of(split, index, baseline_tuples(task.words_of(split, index))))
    scores = task.scores(counts, final=False)
    return {f"floor_{name}": scores[name] for name in ("f1", "auc")}


# --- coordinations ----------------------------------------------------------------------------------------------------


class CoordinationTask(GridLabelling):
    """Loss: cross entropy of the labels of all rows. Score: F1 of coordinations all of whose conjuncts are right."""

    answers = replace(
        ROWS,
        kind="coordinations",
        gives=("coordinations", "rows"),
        scored_apart="parse RUN FILE --input tokens -f labels > OUT, then score coordination OUT --gold GOLD",
        nothing={"coordinations": [], "rows": [], "splits": [], "sentences": []},
    )
    section: Coordinations
    names = coordinations.LABELS

    def __init__(self, section: Coordinations, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        # An export reads where sentences are split.
        splitting = {**section.splitting, "unbreakable": sorted(section.splitting["unbreakable"])}
        self.answers = replace(self.answers, rules={"splitting": splitting})

    def compared(self, split: Split, index: int, rows: Rows) -> Mapping[Any, float]:
        """Count the coordinations that are gold, predicted, and right. Gold are all of the corpus, however few rows
        there are: those of its form, or, where it has none, of all its rows."""
        form = split.text("form", index) if split.has("form") else ""
        gold: ByCoordinator = {}
        if form:
            for cc, conjuncts in from_json(form):  # of several with the same coordinator the first
                gold.setdefault(cc, Coordination(cc, tuple((start, end) for start, end in conjuncts)))
        else:
            gold = rows_to_coordinations(unpack_rows(split.row(GRID, index), MOST_ROWS).tolist())
        counts = coordination_counts(gold, rows_to_coordinations(rows.labels))
        return {name: float(value) for name, value in counts.items()}

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return F1 of coordinations by ``exact``, ``inner``, ``outer`` and ``whole``, ``loss``; finally also precision
        and recall of each."""
        of = coordination_scores({name: int(value) for name, value in counts.items() if isinstance(name, str)})
        scores: dict[str, Any] = {name: of[name]["f1"] for name in reversed(CRITERIA)}
        scores["loss"] = counts.mean("loss", "words")
        if final:
            scores |= {f"{part}_{name}": of[name][part] for name in CRITERIA for part in ("precision", "recall")}
        return scores

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return ``coordinations``: the number of the coordinating word, ``cc``, the ``conjuncts``, each its words
        from, to, the ``level`` of nesting, and ``confidence``, the geometric mean of the probabilities of its labels.
        ``rows``: the labels of all words in every row."""
        del top
        predictions: list[Prediction] = []
        numbers = batch.words.sum(1).tolist()
        for rows, number in zip(self.read(outputs, batch), numbers, strict=True):
            records = coordination_records(rows.labels, rows.log_probability)
            empty = [[coordinations.NONE] * number for _ in range(self.section.rows - len(rows.labels))]
            predictions.append({"coordinations": records, "rows": [*rows.labels, *empty]})
        return predictions

    def located(self, prediction: Prediction, sentence: Sentence) -> Prediction:
        text, characters = character_spans(sentence)
        records = prediction["coordinations"]
        return {**prediction, **located_coordinations(records, text, characters, self.section.splitting)}

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return a line of bars below the words for each level; comments of CoNLL-U; the simple sentences as lines."""
        spans: list[Span] = []
        comments: list[str] = []
        for record in prediction["coordinations"]:
            cc, level, conjuncts = record["cc"] + 1, record["level"], record["conjuncts"]
            comments.append(f"{cc}: {' | '.join(f'{start + 1}-{end}' for start, end in conjuncts)}")
            title = with_probability("cc", record["confidence"] if probability else None)
            spans += [Span(start + 1, end, "conj", line=level, kind="conj") for start, end in conjuncts]
            spans.append(Span(cc, cc, title, line=level, kind="cc"))
        return Places(comments={"coordination": comments}, spans=spans, lines=prediction.get("sentences", ()))
