"""The ``task`` section of kind `parsing`. Imports no torch."""

from __future__ import annotations

from typing import Literal

from probtrans_cli.recipe.base import Fraction, Inconsistency, NonNegativeFloat, Section, Size
from probtrans_cli.recipe.task import TASKS, Surroundings, TaskSection


class Weights(Section):
    """Weights of the losses."""

    arcs: NonNegativeFloat = 1.0
    """Of heads with their relations."""
    tags: NonNegativeFloat = 1.0
    """Of each column of tags."""


@TASKS.add
class Parsing(TaskSection):
    """The head of each word with its relation, and tags, from `data.format: treebank`."""

    needs = "parses"
    metric = "las"
    larger_is_better = True
    several_answers = True
    may_be_cut = False
    may_be_divided = False
    shown_by = "-f tree"

    kind: Literal["parsing"]
    output: Literal["heads", "biaffine"] = "biaffine"
    """Where arcs come from. heads: the labelled head variables of a probabilistic model with `head_labels` and a root,
    whose channels are the relations; biaffine: a bilinear form of the representations of two words (Dozat and Manning
    2017)."""
    heads: Literal["independent", "tree"] = "independent"
    """With `output: biaffine`, what the arcs of a sentence are in the loss. independent: each word chooses its head;
    tree: they form a tree, by the Matrix-Tree theorem. (With `output: heads`, `model.heads` says it.)"""
    relations: Literal["full", "universal"] = "universal"
    """full: relations as they are; universal: without subtypes (`nsubj:pass` is `nsubj`)."""
    tags: list[Literal["upos", "xpos", "feats"]] = []  # noqa: RUF012 - pydantic copies it
    """Columns that are predicted, too, each by a linear layer; all features of a word are one label."""
    every_iteration: bool = False
    """With `output: heads`: true: the loss is the mean over the heads of all iterations; false: over those of the
    last one."""
    decode: Literal["auto", "mst", "eisner"] = "auto"
    """The tree of a sentence: mst: the best one; eisner: the best one without crossing arcs; auto: what is better on
    dev, and before, or without dev, eisner where no arcs of the training trees cross, else mst. All have one root."""
    weights: Weights = Weights()
    """Weights of the losses."""
    arc_size: Size = 256
    """With `output: biaffine`, the size of a word's two vectors for arcs."""
    relation_size: Size = 64
    """With `output: biaffine`, the size of a word's two vectors for relations."""
    dropout: Fraction = 0.2
    """With `output: biaffine`, dropout on these vectors."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""

    @property
    def relation_column(self) -> str:
        """The column of relations."""
        return "deprel" if self.relations == "full" else "udeprel"

    @property
    def learned(self) -> tuple[str, ...]:
        return (self.relation_column, *self.tags)

    @property
    def not_linear(self) -> Inconsistency:
        return ("output",), "a probe is linear, and arcs are not: choose kind: tagging"

    @property
    def without_moments(self) -> str:
        return f"output: {self.output}"

    @property
    def untraceable(self) -> tuple[str, str] | None:
        is_tree = self.output == "biaffine" and self.heads == "tree"
        return ("heads: tree", "heads=independent") if is_tree else None

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        faults: list[Inconsistency] = []
        facts, path = recipe.model.facts, ("task", "output")
        if self.output == "heads" and not (facts.has_head_labels and facts.has_root):
            reason = "heads are those of a probabilistic model: set model.head_labels=true and model.root='{}'"
            faults.append((path, f"{reason}, or choose biaffine"))
        if self.output == "heads" and recipe.data.vocabulary.kind != "words" and not facts.encoders:
            faults.append((path, "heads are of words: choose a vocabulary of words, model.kind: stacked, or biaffine"))
        if self.every_iteration and self.output != "heads":
            faults.append((("task", "every_iteration"), "for `task.output: heads` only: leave it out"))
        if len(set(self.tags)) < len(self.tags):
            faults.append((("task", "tags"), "a column stands there twice"))
        return faults
