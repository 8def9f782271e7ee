"""The ``task`` section of a recipe: what is learned. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probtrans_cli.recipe.base import NonNegativeFloat, NonNegativeInt, PositiveInt, Section, Share


class Masking(Section):
    """Which tokens are hidden, and what is shown in their place; the shares `mask`, `random` and `keep` are 1 together.
    `[CLS]` and `[SEP]` are never hidden."""

    rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15
    """Share of an instance's tokens."""
    count: Literal["exact", "bernoulli"] = "exact"
    """exact: as many as `rate` says, but at least one; bernoulli: each with probability `rate`."""
    max_per_seq: PositiveInt | None = 20
    """Of an exact count, the most in an instance; null = any number."""
    whole_word: bool = False
    """All pieces of a word together; of an exact count, words that no longer fit into it are left."""
    never: list[Annotated[str, Field(min_length=1)]] = Field(default=["<unk>"])
    """Entries of the vocabulary that are never hidden; `<unk>` = unknown words, however the vocabulary calls them."""
    mask: Share = 0.8
    """Share of the hidden tokens that are shown as `<mask>`."""
    random: Share = 0.1
    """Share of those that are shown as any other entry of the vocabulary."""
    keep: Share = 0.1
    """Share of those that are shown as they are."""
    dynamic: bool = True
    """Fresh masks every epoch; false = every instance keeps its masks."""
    loss_positions: Literal["masked", "all"] = "masked"
    """masked: the loss is that of hidden tokens; all: of every token, seen ones too. Scores are of hidden ones only."""
    eval_seed: NonNegativeInt | None = None
    """Draw k of the evaluation's masks takes the numbers of Python's `random.Random(eval_seed + k)`, one a token in the
    order of the corpus (313: the paper's code); null = others, likewise fixed."""


class PlainMasking(Masking):
    """The same with the defaults of Wu & Tu (2023): every known word with a probability, always behind `<mask>`."""

    rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.3
    """Share of a sentence's tokens."""
    count: Literal["exact", "bernoulli"] = "bernoulli"
    """exact: as many as `rate` says, but at least one; bernoulli: each with probability `rate`."""
    max_per_seq: PositiveInt | None = None
    """Of an exact count, the most in a sentence; null = any number."""
    mask: Share = 1.0
    """Share of the hidden tokens that are shown as `<mask>`."""
    random: Share = 0.0
    """Share of those that are shown as any other entry of the vocabulary."""
    keep: Share = 0.0
    """Share of those that are shown as they are."""


class MaskedLanguageModel(Section):
    """Predict hidden words. A linear or tied output has no probability for `<pad>` and `<mask>`, which no word is."""

    kind: Literal["mlm"]
    mlm: PlainMasking = PlainMasking()
    """What is hidden."""
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


class Pretraining(Section):
    """Predict hidden words, and what the second of two texts is to the first, from `data.format: documents` (BERT).
    The loss is the mean over hidden words plus the mean over pairs. A probabilistic transformer, and a transformer with
    `segments: 0`, tells the two by what stands between them alone."""

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

LABELS_OF_COGS = ("role", "category", "noun_type", "verb_name")
_PARENT = {"relative": ("offset",), "absolute": ("position",), "attention": ()}


def learned(task: Task) -> tuple[str, ...]:
    """The columns of labels that a task learns from those of the training file."""
    match task:
        case Tagging():
            return (task.column,)
        case EntityRecognition():
            return ("tag",)
        case Classification():
            return ("label",)
        case SemanticParsing():
            return (*LABELS_OF_COGS, *_PARENT[task.parent])
    return ()


# Which formats have what a task learns from.
FORMATS: dict[str, tuple[str, ...]] = {
    "mlm": ("auto", "conllu", "text", "columns", "table", "jsonl", "cogs"),
    "tagging": ("auto", "conllu", "columns"),
    "ner": ("columns",),
    "classification": ("table", "jsonl"),
    "cogs": ("cogs",),
    "pretrain": ("documents",),
}
