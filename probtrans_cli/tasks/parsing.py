"""Dependency parsing: the head of each word with its relation, and tags, in one pass.

A task with parts, ``arcs`` and each column of tags. The loss of arcs is minus the log-probability of the gold ones
(``models/arcs.py``), its mean over the words that are annotated. Scores are those of the CoNLL 2018 shared task
(``statistics/parse_scores.py``), over the sentences that are annotated as a whole. A sentence gets the best tree with
one root, and each arc its best relation.

With `task.mlm`, hidden words of the sentences of `data.raw` are learned beside them. Their batches have no labels, and
those of trees no hidden words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import DataError, NothingToScoreError, UsageError
from probtrans_cli.models.arcs import (
    ArcOutput,
    BiaffineOutput,
    HeadOutput,
    allowed_arcs,
    arc_loss,
    head_probabilities,
)
from probtrans_cli.models.base import Encoder, Outputs, Wants
from probtrans_cli.models.bayesian.readout import entropy
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import FeatureOutput, OutputLayer
from probtrans_cli.recipe.task import MaskedLanguageModel, Tagging
from probtrans_cli.recipe.task import Parsing as Section
from probtrans_cli.statistics.parse_scores import NEEDED, Row, parse_counts, parse_details, parse_scores
from probtrans_cli.tasks.base import (
    DOUBT,
    OUTPUT,
    Answers,
    Choices,
    Counts,
    OutputRows,
    Places,
    Prediction,
    Task,
    Term,
    confusion_table,
    records_by_sentence,
)
from probtrans_cli.tasks.batch import PADDING, UNLEARNED, Batch
from probtrans_cli.tasks.masking import nothing_hidden
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.tasks.parts import Part, Parts
from probtrans_cli.tasks.tagging import WordTagging
from probtrans_cli.trees.best import Trees
from probtrans_cli.trees.decode import Method, decode, levelled
from probtrans_cli.trees.drawing import Arc

_ROOT, _MISSING, _PARENTS = "root", "_", "parents"


class Arcs(Task):
    """The head of each word with its relation."""

    answers = Answers(kind="parses", scores="arcs", alternatives_in=("conllu",))
    section: Section

    def __init__(self, section: Section, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        super().__init__(section, vocabulary, labels)
        names = list(labels[section.relation_column])
        roots = [name for name in names if name.partition(":")[0] == _ROOT]
        if len(roots) > 1:
            message = f"the root has {len(roots)} relations: {', '.join(roots)}"
            raise DataError(message, hint="set task.relations=universal")
        self.relations = [*roots, *(name for name in names if name not in roots)]
        self._relation_of_label = torch.tensor([self.relations.index(name) for name in names] or [0])
        self.tree = section.heads == "tree"
        self.layer: ArcOutput | None = None
        self.outputs, self.word_dropout = len(self.relations), section.word_dropout
        self.columns = dict.fromkeys((_PARENTS, section.relation_column), PADDING)

    def output(self, encoder: Encoder) -> ArcOutput:
        section, number = self.section, self.outputs
        if section.output == "biaffine":
            sizes = {"arc_size": section.arc_size, "relation_size": section.relation_size}
            self.layer = BiaffineOutput(encoder.facts.width, number, dropout=section.dropout, **sizes)
        elif number > encoder.top.section.channels:
            message = f"train has {number} relations, and the model {encoder.top.section.channels} channels for them"
            raise UsageError(message, hint=f"set model.channels={number}, or task.relations=universal")
        else:
            self.tree = encoder.top.section.heads == "tree"
            self.layer = HeadOutput(encoder, every_iteration=section.every_iteration)
        self.layer.decisions = (1.0, 0.0) if section.decode == "auto" else ()
        return self.layer

    def start(self, network: Network, split: Split) -> None:
        """See whether arcs of the training trees cross; dev may decide otherwise."""
        del network
        if split.has(_PARENTS):
            crossing = any(crosses(split.row(_PARENTS, index)) for index in range(len(split)))
            assert self.layer is not None, "the network has been made"
            self.layer.projective.fill_(not crossing)

    @property
    def decoder(self) -> Method:
        """The method by which trees are found."""
        if self.section.decode != "auto":
            return self.section.decode
        return "auto" if self.layer is not None and bool(self.layer.projective) else "mst"

    def _gold(self, batch: Batch) -> tuple[Tensor, Tensor]:
        parents, labels = batch.gold[_PARENTS], batch.gold[self.section.relation_column]
        known = (parents > PADDING) & (labels >= 0)
        heads = torch.where(parents < 0, batch.words.shape[1], parents)
        relations = self._relation_of_label.to(labels.device)[labels.clamp(min=0)]
        return torch.where(known, heads, -1), relations

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        return {"loss": (self._gold(batch)[0] >= 0).sum()}

    def terms(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the mean over iterations, where earlier ones have scores, too."""
        heads, relations = self._gold(batch)
        losses = [
            arc_loss(self._scores(values, batch), batch.words, heads, relations, tree=self.tree)
            for values in outputs.scores.values()
        ]
        return {"loss": Term(torch.stack(losses).mean(), self.counts(batch)["loss"])}

    def _scores(self, values: Tensor, batch: Batch) -> Tensor:
        b, w = batch.words.shape
        exact = torch.promote_types(values.dtype, torch.float32)
        return values.to(exact).view(b, w, -1, w + 1)

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Sum the loss, and count the words that have one."""
        if _PARENTS not in batch.gold:
            return Counts()
        (term,) = self.terms(outputs, batch).values()
        return Counts(loss=float(term.sum), labelled=int(term.count))

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        del final
        return {"loss": counts.mean("loss", "labelled")}

    def choices(self, outputs: Outputs, batch: Batch) -> dict[str, Choices]:
        """Return the ``heads`` of the words that are annotated, and the ``relations`` to the gold heads that are words:
        the root's own relation is no choice."""
        if _PARENTS not in batch.gold:
            return {}
        scores, logs, column = self._heads(outputs, batch)
        parents, labels = batch.gold[_PARENTS], batch.gold[self.section.relation_column]
        annotated, of_words = batch.words & (parents > PADDING), batch.words & (parents >= 0)
        allowed = allowed_arcs(batch.words, scores.shape[2])
        at_gold = parents.clamp(min=0)[:, :, None, None].expand(-1, -1, scores.shape[2], 1)
        relations = scores.masked_fill(~allowed, -torch.inf).gather(3, at_gold)[..., 0][of_words]
        gold_heads = torch.where(parents < 0, parents.shape[1], parents)[annotated]
        gold_relations = self._relation_of_label.to(labels.device)[labels.clamp(min=0)]
        gold_relations = torch.where(labels >= 0, gold_relations, UNLEARNED)[of_words]
        return {
            "heads": Choices(logs[annotated], gold_heads, column[annotated], annotated.nonzero()[:, 0]),
            "relations": Choices(relations, gold_relations, relations.argmax(-1), of_words.nonzero()[:, 0]),
        }

    def predict(self, outputs: Outputs, batch: Batch, top: int | None = None) -> list[Prediction]:
        """Return ``heads`` (0 = the root) and ``relations`` of the words, each with its probability, that of a relation
        given its head; with ``top`` also ``head_alternatives`` of each word, each with its most probable relation;
        where the doubt is wanted, ``head_entropy``, in nats."""
        scores, logs, column = self._heads(outputs, batch)
        chances, heads = _tempered(logs, batch), torch.where(column < column.shape[1], column + 1, 0)
        of_heads = scores.gather(3, column[:, :, None, None].expand(-1, -1, scores.shape[2], 1))[..., 0].softmax(-1)
        chance, relation = of_heads.max(-1)
        columns: dict[str, list[Any]] = {
            "heads": heads[batch.words].tolist(),
            "relations": [self.relations[id] for id in relation[batch.words].tolist()],
            "head_probability": chances.gather(2, column[..., None])[..., 0][batch.words].tolist(),
            "relation_probability": chance[batch.words].tolist(),
        }
        if "arcs" in outputs.doubt:
            columns["head_entropy"] = entropy(chances)[batch.words].tolist()
        if top is not None:
            # A word of a sentence of n words has n possible heads, the root among them.
            lengths, root = batch.words.sum(1)[:, None].expand_as(batch.words)[batch.words], batch.words.shape[1]
            possible = allowed_arcs(batch.words, len(self.relations)).any(2)
            best, places = chances.masked_fill(~possible, -1.0)[batch.words].topk(min(top, root), dim=-1)
            relations = scores[batch.words].argmax(1).gather(1, places)
            columns["head_alternatives"] = []
            of_words = zip(places.tolist(), relations.tolist(), best.tolist(), strict=True)
            for of_word, number in zip(of_words, lengths.tolist(), strict=True):
                options = [
                    {"head": 0 if place == root else place + 1, "relation": self.relations[id], "probability": p}
                    for place, id, p in zip(*of_word, strict=True)
                ]
                columns["head_alternatives"].append(options[:number])
        return records_by_sentence(columns, batch)

    def _heads(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of every relation and head; the log-probability of every head, -inf where there is none;
        and the column of the head in the best tree."""
        scores, logs, of_tree = self._of_heads(outputs, batch)
        best = decode(levelled(of_tree.double().cpu().numpy()), batch.words.cpu().numpy(), self.decoder)
        heads = torch.from_numpy(best).to(scores.device)
        return scores, logs, torch.where(heads > 0, heads - 1, heads.shape[1])

    def _of_heads(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of every relation and head; the log-probability of every head; scores of trees' arcs."""
        scores = self._scores(outputs.scores["arcs"], batch)[:, :, : len(self.relations)]
        chances = head_probabilities(scores, batch.words, tree=self.tree)
        logs = chances.clamp_min(torch.finfo(chances.dtype).tiny).log()
        impossible = ~allowed_arcs(batch.words, scores.shape[2]).any(2)
        return scores, logs.masked_fill(impossible, -torch.inf), scores.logsumexp(2) if self.tree else logs

    def trees(self, outputs: Outputs, batch: Batch) -> Trees:
        """Return the distributions over trees of the sentences."""
        scores, logs, of_tree = self._of_heads(outputs, batch)
        relations = scores.double().log_softmax(2).cpu().numpy()
        of_trees, of_words = (values.double().cpu().numpy() for values in (of_tree, _tempered(logs, batch)))
        return Trees(of_trees, of_words, self.decoder, relations, self.relations)

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return HEAD and DEPREL; `RelProb`, and as `Heads` the alternatives, in MISC; the arcs of a picture."""
        chances = prediction["head_probability"] if probability else [None] * len(prediction["heads"])
        words = zip(prediction["heads"], prediction["relations"], chances, strict=True)
        shown = {"RelProb": [f"{chance:.4f}" for chance in prediction["relation_probability"]]} if probability else {}
        if "head_alternatives" in prediction:
            shown["Heads"] = [
                ",".join(f"{option['head']}:{option['probability']:.4f}" for option in options)
                for options in prediction["head_alternatives"]
            ]
        return Places(
            columns={"head": list(map(str, prediction["heads"])), "deprel": prediction["relations"]},
            misc=shown,
            arcs=[Arc(i, head, chance, relation=name) for i, (head, name, chance) in enumerate(words, start=1)],
        )


def _tempered(logs: Tensor, batch: Batch) -> Tensor:
    """Return the probabilities of heads at the temperature of arcs; zero on padding."""
    temperature = batch.arc_temperature
    return logs.exp() if temperature == 1.0 else (logs / temperature).softmax(-1).nan_to_num()


class Tags(WordTagging):
    """A column of tags beside arcs: scores are wanted of all words, also of those without a tag."""

    by_features = False  # whether a tag is scored by its features

    def training(self, batch: Batch) -> Batch:
        return batch  # the arcs, the first part, drop its words

    def output(self, encoder: Encoder) -> OutputLayer:
        if not self.by_features:
            return super().output(encoder)
        layer = FeatureOutput(encoder.facts.width, self.names)
        rows = OutputRows("features of words", tuple(layer.values), labels=tuple(self.names))
        self.output_rows = {OUTPUT: rows}
        return layer

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        return super().measure(outputs, batch) if self.column in batch.gold else Counts()

    def places(self, prediction: Prediction, *, probability: bool) -> Places:
        """Return the column, and its probabilities in MISC by its own name."""
        places = super().places(prediction, probability=probability)
        misc = {f"{self.column.upper()}{name.removeprefix('Tag')}": values for name, values in places.misc.items()}
        notes = [[line for line in lines if line.partition(" ")[0] != _MISSING] for lines in places.notes]
        return Places(columns=places.columns, misc=misc, notes=notes)


class WordsBeside(MaskedLanguageModelling):
    """Hidden words of sentences without labels; no word of the others is hidden, and none in an evaluation."""

    answers = replace(MaskedLanguageModelling.answers, draws=None)
    evaluation = Task.evaluation

    def start(self, network: Network, split: Split) -> None:
        """Raise a NothingToScoreError if no word can be hidden."""
        super().start(network, split)
        sentences = (split.row("ids", index) for index in range(len(split)) if not _has_labels(split, index))
        if all(np.isin(ids, self.masks.never.numpy()).all() for ids in sentences):
            error = nothing_hidden()
            raise NothingToScoreError(f"data.raw: {error.message}", hint=error.hint)

    def training(self, batch: Batch) -> Batch:
        return batch if _has_labels(batch.split, int(batch.indices[0])) else super().training(batch)

    def wants(self, batch: Batch) -> Wants:
        return Wants() if batch.scored is None else super().wants(batch)

    def counts(self, batch: Batch) -> Mapping[str, Tensor]:
        hidden = torch.zeros_like(batch.ids) if batch.scored is None else batch.scored
        return {"loss": hidden.sum()}


def _has_labels(split: Split, index: int) -> bool:
    return split.has("form") and len(split.row("form", index)) > 0


class Parsing(Parts):
    """Loss: arcs and tags. Score: LAS."""

    section: Section

    def __init__(self, section: Section, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]]) -> None:
        arcs = Arcs(section, vocabulary, labels)
        parts = {"arcs": Part(arcs, section.weights.arcs)}
        for column in section.tags:
            tags = Tags(Tagging(kind="tagging", column=column), vocabulary, labels)
            tags.by_features = column == "feats" and section.feats == "features"
            names = {f"tag_{name}": f"{column}_{name}" for name in ("probability", "alternatives", *DOUBT)}
            parts[column] = Part(tags, section.weights.tags, scores={}, answers={"tags": column, **names})
        beside = {}
        if section.mlm > 0.0:
            words = WordsBeside(MaskedLanguageModel(kind="mlm", output="tied"), vocabulary, {})
            beside["words"] = Part(words, section.mlm)
        super().__init__(section, vocabulary, labels, parts, beside)
        self.arcs = arcs

    @property
    def answers(self) -> Answers:  # type: ignore[override]
        """What is predicted, by rules that are known behind the training: it decides how trees are found."""
        rules = {"relations": self.arcs.relations, "decode": self.arcs.decoder}
        return replace(self.arcs.answers, trees=self.arcs.trees, choices=self.choices, rules=rules)

    def wants(self, batch: Batch) -> Wants:
        """Ask for the scores of hidden words alone, where the batch has any."""
        if batch.scored is None:
            return super().wants(batch)
        return replace(self.tasks["words"].wants(batch), parts=frozenset({"words"}))

    def choices(self, outputs: Outputs, batch: Batch) -> dict[str, Choices]:
        """Return those of arcs, and the tags of the words that have one, by their columns."""
        choices = self.arcs.choices(outputs, batch)
        for column in self.section.tags:
            if (gold := batch.gold.get(column)) is not None:
                scores = outputs.scores[column].float().log_softmax(-1)
                has_tag = gold[batch.words] > PADDING
                rows = batch.words.nonzero()[:, 0][has_tag]
                scores, of_words = scores[has_tag], gold[batch.words][has_tag]
                choices[column] = Choices(scores, of_words, scores.argmax(-1), rows)
        return choices

    def measure(self, outputs: Outputs, batch: Batch) -> Counts:
        """Count what the parts count; and words that are right, of the sentences whose gold is whole."""
        counts = super().measure(outputs, batch)
        pairs = []
        for index, prediction in zip(batch.indices.tolist(), self.predict(outputs, batch), strict=True):
            form = batch.split.text("form", index) if batch.split.has("form") else ""
            lines = form.split("\n")
            if not form or any(line.startswith(_MISSING) for line in lines):
                continue
            gold = [Row(int(head), *rest) for head, *rest in (line.split("\t") for line in lines)]
            columns = [prediction.get(name, [_MISSING] * len(gold)) for name in ("upos", "xpos", "feats")]
            rows = zip(prediction["heads"], prediction["relations"], *columns, strict=True)
            pairs.append((gold, [Row(*row) for row in rows]))
        counts.add(parse_counts(pairs))
        return counts

    def scores(self, counts: Counts, *, final: bool) -> dict[str, Any]:
        """Return ``las``, ``uas``, ``clas``; of the tags that are learned ``upos``, ``xpos``, ``ufeats``, and with upos
        and feats ``mlas``; ``loss``; finally also their intervals, ``groups`` and ``confusions`` of relations."""
        learned = {"relation", *self.section.tags}
        names = [name for name, columns in NEEDED.items() if columns <= learned]
        scores: dict[str, Any] = parse_scores(counts, names)
        scores["loss"] = super().scores(counts, final=final)["loss"]
        return scores | (parse_details(counts, names) | {"confusions": confusion_table(counts)} if final else {})


def crosses(parents: np.ndarray) -> bool:
    """Return whether two arcs of a sentence cross, or one passes over the root's word.

    ``parents``: of every word from 0; -1 = the root; less = not known.
    """
    words = np.flatnonzero(parents >= 0)
    left, right = np.minimum(words, parents[words]), np.maximum(words, parents[words])
    tops = np.flatnonzero(parents == -1)
    over_root = (left[:, None] < tops) & (tops < right[:, None])
    begins_inside = (left[:, None] < left) & (left < right[:, None]) & (right > right[:, None])
    return bool(over_root.any() or begins_inside.any())
