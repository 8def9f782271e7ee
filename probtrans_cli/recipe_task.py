"""The ``task`` section of a recipe: what is learned. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probtrans_cli.recipe_base import NonNegativeFloat, PositiveInt, Section, Share


class MaskedLanguageModel(Section):
    """Predict words hidden behind `<mask>`; unknown words, `[CLS]` and `[SEP]` are never hidden."""

    kind: Literal["mlm"]
    mask_rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.3
    """Probability that a word is hidden; fresh masks every epoch."""
    output: Literal["linear", "tied", "bert"] = "linear"
    """How states become words: a linear layer of its own; or the unary scores once more, the hidden word being one
    more latent variable (of a transformer: the word vectors once more), with a bias for every word; or, of a
    transformer, BERT's: one more layer, its norm, then the word vectors once more, with a bias for every word."""
    tie_decoder: bool = True
    """With `output: bert`: the word vectors themselves; false = a table of its own."""
    eval_masks: PositiveInt = 10
    """Number of fixed mask draws over which the test perplexity is averaged (its standard error is printed)."""
    dev_masks: PositiveInt = 1
    """Number of fixed mask draws for the dev perplexity during training."""


class Tagging(Section):
    """One tag per word."""

    kind: Literal["tagging"]
    column: Annotated[str, Field(min_length=1)] = "upos"
    """Which column is predicted: `upos` or `xpos` of a CoNLL-U file, `tag` of `format: columns`."""
    loss: Literal["words", "sentences"] = "words"
    """Mean over words, or (as the paper's code) per-sentence means averaged over sentences."""
    word_dropout: NonNegativeFloat = 0.0
    """alpha: in training a word of corpus frequency f is replaced by `<unk>` with probability alpha / (alpha + f), so
    that the row of the unknown word is learned; 0 = never (as the paper's code)."""


class EntityRecognition(Section):
    """Named entities by one tag per word, from `data.format: columns`, in the scheme of `data.columns.entities`."""

    kind: Literal["ner"]
    loss: Literal["words", "sentences"] = "words"
    """Mean over words, or (as the paper's code) per-sentence means averaged over sentences."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""


class Classification(Section):
    """One label per sentence, from `data.format: table` or `jsonl`."""

    kind: Literal["classification"]
    representation: Literal["auto", "root", "cls", "mean"] = "auto"
    """What stands for the sentence: root: the root node's label scores; cls: the state of a word `<cls>` in front (of a
    transformer with a pooler, what that makes of it); mean: the mean of the words' states. auto: the root where
    `model.root` is set, else cls."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""


class SemanticParsing(Section):
    """COGS as five labels a word (Ontañón et al. 2022): role, category, noun type, verb, parent."""

    kind: Literal["cogs"]
    parent: Literal["relative", "absolute", "attention"] = "relative"
    """How a word's parent is said: its distance, its position, or by attention over the words."""
    loss: Literal["words", "sentences"] = "words"
    """Mean over words, or (as the paper's code) per-sentence means averaged over sentences."""


class Masking(Section):
    """Which tokens are hidden, and what is shown in their place; the shares `mask`, `random` and `keep` are 1 together.
    `[CLS]` and `[SEP]` are never hidden."""

    rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15
    """Share of an instance's tokens."""
    count: Literal["exact", "bernoulli"] = "exact"
    """exact: as many as `rate` says, but at least one; bernoulli: each with probability `rate` (Wu & Tu 2023)."""
    max_per_seq: PositiveInt | None = 20
    """Of an exact count, the most in an instance; null = any number."""
    whole_word: bool = False
    """All pieces of a word together; of an exact count, words that no longer fit into it are left."""
    unknown: bool = False
    """Unknown words are hidden, too."""
    mask: Share = 0.8
    """Share of the hidden tokens that are shown as `<mask>`."""
    random: Share = 0.1
    """Share of those that are shown as any other entry of the vocabulary."""
    keep: Share = 0.1
    """Share of those that are shown as they are."""


class Pretraining(Section):
    """Predict hidden words, and what the second of two texts is to the first, from `data.format: documents` (BERT).
    The loss is the mean over hidden words plus the mean over pairs. A probabilistic transformer, and a transformer with
    `segments: 0`, tells the two by what stands between them alone. Fresh masks every epoch."""

    kind: Literal["pretrain"]
    pair_weight: NonNegativeFloat = 1.0
    """Weight of the pairs' loss; what they are is `data.documents.pairs`."""
    mlm: Masking = Masking()
    """What is hidden."""
    output: Literal["linear", "tied", "bert"] = "linear"
    """How states become words, as of `kind: mlm`. Pairs: a linear layer on what represents the sentence, which is the
    root of a probabilistic transformer that has one, what the pooler of a transformer makes of it, else the state of
    `[CLS]`."""
    tie_decoder: bool = True
    """As of `kind: mlm`."""
    eval_masks: PositiveInt = 10
    """As of `kind: mlm`."""
    dev_masks: PositiveInt = 1
    """As of `kind: mlm`."""


Task = Annotated[
    MaskedLanguageModel | Tagging | EntityRecognition | Classification | SemanticParsing | Pretraining,
    Field(discriminator="kind"),
]

# Which formats have what a task learns from.
FORMATS: dict[str, tuple[str, ...]] = {
    "mlm": ("auto", "conllu", "text", "columns", "table", "jsonl", "cogs"),
    "tagging": ("auto", "conllu", "columns"),
    "ner": ("columns",),
    "classification": ("table", "jsonl"),
    "cogs": ("cogs",),
    "pretrain": ("documents",),
}
