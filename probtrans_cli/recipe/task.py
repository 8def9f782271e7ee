"""The ``task`` section of a recipe: what is learned, and what every kind of task says of itself. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from probtrans_cli.recipe.base import (
    Fraction,
    Inconsistency,
    Kinds,
    KindSection,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
    Share,
    Size,
)
from probtrans_cli.recipe.data import Data
from probtrans_cli.recipe.model.base import ModelSection


class Surroundings(Protocol):
    """The parts of a recipe that a task section is checked against."""

    @property
    def data(self) -> Data: ...

    @property
    def model(self) -> ModelSection: ...


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """What only some tasks have, made from the keys of a section; by default a task has none of it."""

    relation_column: str | None = None
    """The column of relations, which are scored without their subtypes; words without one are not scored."""
    chosen_column: str | None = None
    """The column of the data that the recipe chose; None if there is no choice."""
    not_linear: Inconsistency | None = None
    """The key that makes its output layer more than linear, with what to write instead: a probe is linear."""
    tied: bool = False
    """Whether words are scored by the unary scores themselves."""
    without_moments: str | None = None
    """The option, as in a recipe, with which moments cannot go through the output layer; None if there is none."""
    untraceable: tuple[str, str] | None = None
    """The option that no exported graph can compute, and what to write instead; None if there is none."""


class TaskSection(KindSection):
    """The options of a task. A kind has a field ``kind`` with one value. The rest of the package reads what is declared
    here, and never asks which kind a section is."""

    needs: ClassVar[str]
    """What it needs from a data format, see :class:`probtrans_cli.recipe.data.Format`."""
    metric: ClassVar[str]
    """The dev score that selects the best checkpoint."""
    larger_is_better: ClassVar[bool] = True
    """The direction of that score."""
    needs_every_token: ClassVar[bool] = True
    """Whether it labels every token, so that the vocabulary must have them all."""
    may_be_cut: ClassVar[bool] = True
    """Whether a sentence may be cut (`data.too_long: cut`)."""
    may_be_divided: ClassVar[bool] = True
    """Whether a sentence may be read in portions (`data.too_long: window`)."""
    is_causal: ClassVar[bool] = False
    """Whether it learns from words one by one: its model is causal, and models of other tasks are not."""
    several_answers: ClassVar[bool] = False
    """Whether it has several answers for every word, side by side."""
    answers_lines: ClassVar[bool] = False
    """Whether an answer is one of a whole line of text, which `parse` then does not split into sentences."""
    has_trees: ClassVar[bool] = False
    """Whether trees are what its models are read for: a training scores and draws them unless `eval.trees` is false."""
    shown_by: ClassVar[str] = "-f tree --trees no"
    """The options of `parse` that show its answers best on a terminal."""

    @property
    def learned(self) -> tuple[str, ...]:
        """The columns of labels that it learns."""
        return ()

    @property
    def facts(self) -> TaskFacts:
        """What this task has of that which only some tasks have."""
        return TaskFacts()

    def inconsistencies_with(self, recipe: Surroundings) -> Iterable[Inconsistency]:
        """Check this section against the rest of the recipe: each wrong key's path from the top, with the reason."""
        del recipe
        return ()


TASKS: Kinds[TaskSection] = Kinds("task")
"""The kinds of `task`."""


class Masking(Section):
    """Which tokens are hidden, and what is shown in their place. The shares `mask`, `random` and `keep` add up to 1.
    `[CLS]` and `[SEP]` are never hidden."""

    rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15
    """Share of tokens that are hidden."""
    count: Literal["exact", "bernoulli"] = "exact"
    """exact: hide exactly this share, at least one token; bernoulli: hide each token with probability `rate`."""
    max_per_seq: PositiveInt | None = 20
    """With `count: exact`, the most hidden tokens; null = any number."""
    whole_word: bool = False
    """Hide all pieces of a word together; with `count: exact`, words that no longer fit stay visible."""
    never: list[Annotated[str, Field(min_length=1)]] = Field(default=["<unk>"])
    """Entries of the vocabulary that are never hidden; `<unk>` = unknown words in any vocabulary."""
    mask: Share = 0.8
    """Share of the hidden tokens that are shown as `<mask>`."""
    random: Share = 0.1
    """Share of the hidden tokens that are shown as a random entry of the vocabulary."""
    keep: Share = 0.1
    """Share of the hidden tokens that are shown unchanged."""
    dynamic: bool = True
    """true: new masks in every epoch; false: each sentence keeps its masks."""
    loss_positions: Literal["masked", "all"] = "masked"
    """masked: loss of the hidden tokens; all: loss of every token. Scores are always of hidden tokens."""
    eval_seed: NonNegativeInt | None = None
    """Mask draw k of an evaluation uses Python's `random.Random(eval_seed + k)`, a number for each token in the order
    of the corpus (313: the paper's code); null = other fixed draws."""


class PlainMasking(Masking):
    """Masking as in Wu & Tu (2023): each known word with the same probability, always shown as `<mask>`."""

    rate: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.3
    count: Literal["exact", "bernoulli"] = "bernoulli"
    max_per_seq: PositiveInt | None = None
    mask: Share = 1.0
    random: Share = 0.0
    keep: Share = 0.0


class WordPrediction(TaskSection):
    """What the tasks that predict hidden words share: masks and an output layer over the vocabulary."""

    has_trees = True
    shown_by = "-f tree"

    mlm: Masking = Masking()
    """What is hidden."""
    output: Literal["linear", "tied", "bert"] = "linear"
    """How states become words: linear: a linear layer; tied: the unary scores (of a transformer, the word vectors) once
    more, with a bias for every word; bert (transformers only): one more layer and its norm, then the word vectors once
    more, with a bias for every word."""
    word_weight: PositiveFloat = 1.0
    """What the scores of words of `output: tied` are divided by: lambda_W, the weight of a hidden word's entropy
    (`latent: spherical`), or a temperature (transformers). Latent labels are summed out, and have no such weight."""
    tie_decoder: bool = True
    """With `output: bert`: true: use the word vectors themselves; false: use another table."""
    start_at_frequencies: bool | None = None
    """true: the bias of every word starts at the logarithm of its frequency in train, which takes thousands of steps to
    learn; false: all start alike (the paper's code, BERT); null = true for the tied output of a probabilistic
    transformer, else false."""
    sampled: PositiveInt | None = None
    """How many words a hidden word is compared with in training, on average, beside the hidden words of the batch:
    frequent ones always, others drawn by their frequency (not in the paper); null = the whole vocabulary, as in all
    scores of dev and test."""
    eval_masks: PositiveInt = 10
    """Number of fixed mask draws of the test perplexity: the exponential of the mean loss at all hidden words (with the
    standard error over the draws)."""

    @property
    def facts(self) -> TaskFacts:
        reasons = {
            "tied": "tied scores are the words' own, which a probe leaves as they are: choose linear",
            "bert": "a probe is linear, and BERT's output has a layer before the words: choose linear",
        }
        return TaskFacts(
            tied=self.output == "tied" or (self.output == "bert" and self.tie_decoder),
            not_linear=(("output",), reasons[self.output]) if self.output in reasons else None,
        )

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        if self.output == "bert" and not recipe.model.facts.has_bert_output:
            reason = f"`bert` is for a transformer, and model.kind is {recipe.model.kind}: choose linear or tied"
            yield ("task", "output"), reason
        if self.output == "tied" and recipe.model.facts.encoders:
            reason = "words have vectors of the lower encoder's, and states are the upper one's: choose linear"
            yield ("task", "output"), reason
        if self.word_weight != 1.0 and (self.output != "tied" or recipe.model.facts.has_latent_labels):
            reason = "it is for `output: tied` with spherical latents or a transformer: leave it out"
            yield ("task", "word_weight"), reason
        if not self.tie_decoder and self.output != "bert":
            yield ("task", "tie_decoder"), "for `task.output: bert` only: leave it out"
        total = self.mlm.mask + self.mlm.random + self.mlm.keep
        if abs(total - 1.0) > 1e-6:
            yield ("task", "mlm", "keep"), f"mask, random and keep are {total:g} together, not 1"


@TASKS.add
class MaskedLanguageModel(WordPrediction):
    """Predict hidden words. A linear or tied output gives no probability to `<pad>` and `<mask>`."""

    needs = "words"
    metric = "perplexity"
    larger_is_better = False
    needs_every_token = False

    kind: Literal["mlm"]
    mlm: PlainMasking = PlainMasking()

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        yield from super().inconsistencies_with(recipe)
        vocabulary = recipe.data.vocabulary
        if vocabulary.has_features and not vocabulary.counts_words:
            reason = "the features of its other pieces would give a hidden word away: leave it out"
            yield ("data", "vocabulary", "features"), reason
        elif vocabulary.has_features and self.mlm.random > 0.0:
            reason = "a word in another's place would have its features: set this to 0, and mask or keep to more"
            yield ("task", "mlm", "random"), reason


@TASKS.add
class LanguageModel(TaskSection):
    """Predict each word from the words before it (causal language modelling), with `model.causal: true`. Padding and
    `<mask>` have no probability; `<unk>` is a word like others; `[CLS]` and `[SEP]` are read, and not predicted."""

    needs = "words"
    metric = "perplexity"
    larger_is_better = False
    is_causal = True
    shown_by = "-f jsonl --trees no"

    kind: Literal["lm"]
    readout: Literal["mean-field", "exact"] = "mean-field"
    """How a probabilistic model predicts a word: mean-field: mean field with the word as one more variable; exact: all
    other variables are summed out (categorical labels and weights of 1; not with `rotary` or rectified features)."""
    rounds: PositiveInt = 2
    """The rounds of `readout: mean-field`."""
    output: Literal["linear", "tied"] = "tied"
    """tied: words are scored by the unary scores (the word vectors of a transformer), with a bias for every word;
    linear: by a linear layer (transformers only)."""
    start_at_frequencies: Literal["fixed"] | bool = True
    """true: the bias of every word starts at the logarithm of its frequency in train; fixed: and stays there; false:
    all start alike."""
    word_bias: bool = True
    """false: words have no score of their own, as in GPT-2 (tied transformers only)."""
    sampled: PositiveInt | None = None
    """How many words a word is compared with in training, on average, beside those of the batch: frequent ones always,
    others drawn by their frequency; null = the whole vocabulary, as in all scores of dev and test."""
    score_first: bool = True
    """true: all words are learned and scored; false: not the first one of each text."""

    @property
    def facts(self) -> TaskFacts:
        if self.output != "tied":
            return TaskFacts()
        return TaskFacts(tied=True, not_linear=(("output",), "a probe is linear, and words are tied: choose linear"))

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        facts = recipe.model.facts
        features = getattr(recipe.data.vocabulary, "features", None)
        if features is not None and features.window:
            reason = "features of later words would give them away: set this to 0"
            yield ("data", "vocabulary", "features", "window"), reason
        if facts.has_head_variables and self.output != "tied":
            yield ("task", "output"), "the word is a variable of a probabilistic model: set this to tied"
        if self.readout == "exact" and not facts.has_head_variables:
            yield ("task", "readout"), "it is for `model.kind: probabilistic`: leave it out"
        elif self.readout == "mean-field" and facts.readout_sets > self.rounds:
            reason = f"fewer than model.readout_potentials: set it to {facts.readout_sets} or more"
            yield ("task", "rounds"), reason
        if not self.word_bias and (facts.has_head_variables or self.output != "tied"):
            yield ("task", "word_bias"), "only a transformer with `task.output: tied` can be without: leave it out"
        elif not self.word_bias and self.start_at_frequencies:
            yield ("task", "start_at_frequencies"), "there is no bias with `task.word_bias: false`: set this to false"
        if self.readout == "exact" and facts.without_exact_readout and facts.has_head_variables:
            yield ("task", "readout"), f"`exact` is not for {facts.without_exact_readout}: choose mean-field"


@TASKS.add
class Tagging(TaskSection):
    """One tag for each word."""

    needs = "tags"
    metric = "accuracy"

    kind: Literal["tagging"]
    column: Annotated[str, Field(min_length=1)] = "upos"
    """The column to predict: `upos`, `xpos` or `feats` (all features of a word are one label) of a CoNLL-U file, `tag`
    of `format: columns`."""
    loss: Literal["words", "sentences"] = "words"
    """words: mean over words; sentences: means of the sentences, averaged over sentences (the paper's code)."""
    word_dropout: NonNegativeFloat = 0.0
    """alpha: in training, a word of corpus frequency f is replaced by `<unk>` with probability alpha / (alpha + f); 0 =
    never (the paper's code)."""

    @property
    def learned(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(chosen_column=self.column)


@TASKS.add
class EntityRecognition(TaskSection):
    """Named entities by one tag per word, from `data.format: columns`, in the scheme of `data.columns.entities`."""

    needs = "entities"
    metric = "f1"
    learned: ClassVar = ("tag",)

    kind: Literal["ner"]
    loss: Literal["words", "sentences"] = "words"
    """words: mean over words; sentences: means of the sentences, averaged over sentences (the paper's code)."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""
    valid: bool = True
    """true: predict the most probable sequence of tags that the scheme allows; false: the most probable tag of each
    word."""

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        if recipe.data.columns.entities is None and recipe.data.format == "columns":
            reason = "`kind: ner` learns entities: set this to bioes (the paper's) or iob2"
            yield ("data", "columns", "entities"), reason


@TASKS.add
class Classification(TaskSection):
    """One label for each sentence, from `data.format: table` or `jsonl`."""

    needs = "class"
    metric = "accuracy"
    may_be_divided = False
    answers_lines = True
    learned: ClassVar = ("label",)

    kind: Literal["classification"]
    representation: Literal["auto", "root", "cls", "mean"] = "auto"
    """The representation of the sentence: root: the root node's label scores; cls: the state of a word `<cls>` in front
    (after the pooler of a transformer); mean: the mean of the words' states; auto: root if `model.root` is set, else
    cls."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        if self.representation == "root" and not recipe.model.facts.has_root:
            reason = "the model has no root node: set model.root='{}' (probabilistic), or choose cls or mean"
            yield ("task", "representation"), reason


@TASKS.add
class Pretraining(WordPrediction):
    """Predict hidden words and how the second of two texts relates to the first, from `data.format: documents` (BERT).
    The loss is the mean over hidden words plus the mean over pairs. A linear layer scores pairs from the root of a
    probabilistic transformer, the pooler of a transformer, or else the state of `[CLS]`. Without segments, only the
    separator divides the two texts."""

    needs = "documents"
    metric = "perplexity"
    larger_is_better = False

    kind: Literal["pretrain"]
    pair_weight: NonNegativeFloat = 1.0
    """Weight of the pairs' loss; `data.documents.pairs` says what the pairs are."""

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        yield from super().inconsistencies_with(recipe)
        documents, facts = recipe.data.documents, recipe.model.facts
        if documents.pairs == "none" and self.pair_weight != Pretraining.model_fields["pair_weight"].default:
            yield ("task", "pair_weight"), "`data.documents.pairs` is none: leave it out"
        if recipe.data.vocabulary.has_features:
            yield ("data", "vocabulary", "features"), "`kind: pretrain` has no features: leave it out"
        if documents.pairs != "none" and facts.segment_types == 1:
            reason = "two texts have two segments: set this to 2, or to 0 to have none"
            yield ("model", *[*facts.encoders][:1], "segments"), reason
        if facts.position_rows is not None and facts.position_rows < documents.max_length:
            reason = f"found {facts.position_rows}, less than the {documents.max_length} of data.documents.max_length"
            yield ("model", *facts.shortest, "positions", "rows"), reason


LABELS_OF_COGS = ("role", "category", "noun_type", "verb_name")
_PARENT = {"relative": ("offset",), "absolute": ("position",), "category": ("by_category",), "attention": ()}


@TASKS.add
class SemanticParsing(TaskSection):
    """COGS as five labels for each word (Ontañón et al. 2022): role, category, noun type, verb, parent."""

    needs = "graphs"
    metric = "exact"
    shown_by = "-f jsonl --trees no"
    answers_lines = True
    several_answers = True
    may_be_cut = False
    may_be_divided = False

    kind: Literal["cogs"]
    parent: Literal["relative", "absolute", "category", "attention"] = "relative"
    """How the parent of a word is encoded: relative: its distance; absolute: its position; category: its number among
    the nouns, verbs or prepositions to the left or right; attention: by attention over the words."""
    loss: Literal["words", "sentences"] = "words"
    """words: mean over words; sentences: means of the sentences, averaged over sentences (the paper's code)."""
    category: Literal["context", "word"] = "context"
    """What the category of a word (noun, name, verb, preposition) is predicted from. context: its representation (the
    paper's code); word: its unary scores alone; then only prepositions have the role of a preposition, and the role
    says which verbs are infinitives."""
    verb: Literal["context", "word"] = "context"
    """What the name of a verb is predicted from. context: the word's representation (the paper's code); word: its unary
    scores alone, as a form belongs to the same verb in every sentence."""
    decode: Literal["words", "sentence"] = "words"
    """How labels are chosen. words: the best label of each word in each column (the paper's code); sentence (with
    `parent: category` and `category: word`): the most probable labels of the whole sentence in which the labels of a
    word occur together in train, one verb is the main one, each role is filled once, a preposition has one noun, and no
    arcs cross. Where there are none, or more than 256 words, words is used."""

    @property
    def learned(self) -> tuple[str, ...]:
        columns = ("kind" if self.category == "word" and name == "category" else name for name in LABELS_OF_COGS)
        return (*columns, *_PARENT[self.parent])

    @property
    def alone(self) -> tuple[str, ...]:
        sources = {"kind": self.category, "verb_name": self.verb}
        return tuple(column for column, source in sources.items() if source == "word")

    @property
    def facts(self) -> TaskFacts:
        if self.parent == "attention":
            reason = "a probe is linear, and attention is not: choose relative or absolute"
            return TaskFacts(not_linear=(("parent",), reason), without_moments="parent: attention")
        of_words = [f"{key}: word" for key in ("category", "verb") if getattr(self, key) == "word"]
        return TaskFacts(without_moments=next(iter(of_words), None))

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        if self.decode == "sentence" and (self.parent, self.category) != ("category", "word"):
            reason = "labels of whole sentences are those of `parent: category` and `category: word`: set them, too"
            yield ("task", "decode"), reason
            return
        unary, state = recipe.model.facts.unary_width, recipe.model.facts.width
        reason = f"a word's unary scores are {unary} numbers and its representation {state}: choose context"
        for key in ("category", "verb"):
            if unary != state and getattr(self, key) == "word":
                yield ("task", key), reason


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
    feats: Literal["bundle", "features"] = "bundle"
    """Scores of the labels of FEATS. bundle: each has weights of its own; features: it is the sum of the scores of its
    features, as `Case=Nom`, and of those it has not, as no `Number`."""
    every_iteration: bool = False
    """With `output: heads`: true: the loss is the mean over the heads of all iterations; false: over those of the
    last one."""
    decode: Literal["auto", "mst", "eisner"] = "auto"
    """The tree of a sentence: mst: the best one; eisner: the best one without crossing arcs; auto: what is better on
    dev, and before, or without dev, eisner where no arcs of the training trees cross, else mst; mst for sentences of
    more than 200 words anyhow, as the time of eisner grows with the cube of the length. All have one root."""
    weights: Weights = Weights()
    """Weights of the losses."""
    mlm: NonNegativeFloat = 0.0
    """Weight of the loss of hidden words of `data.raw`, 30 % of them, which the unary scores predict; every second
    batch is then one of such sentences, and the shorter corpus begins again until the longer one ends. 0 = none."""
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
        return "deprel" if self.relations == "full" else "udeprel"

    @property
    def learned(self) -> tuple[str, ...]:
        return (self.relation_column, *self.tags)

    @property
    def facts(self) -> TaskFacts:
        is_tree = self.output == "biaffine" and self.heads == "tree"
        return TaskFacts(
            relation_column=self.relation_column,
            not_linear=(("output",), "a probe is linear, and arcs are not: choose kind: tagging"),
            tied=self.mlm > 0.0,
            without_moments=f"output: {self.output}",
            untraceable=("heads: tree", "heads=independent") if is_tree else None,
        )

    def inconsistencies_with(self, recipe: Surroundings) -> Iterator[Inconsistency]:
        facts, path = recipe.model.facts, ("task", "output")
        if self.output == "heads" and not (facts.has_head_labels and facts.has_root):
            reason = "heads are those of a probabilistic model: set model.head_labels=true and model.root='{}'"
            yield path, f"{reason}, or choose biaffine"
        if self.output == "heads" and recipe.data.vocabulary.kind != "words" and not facts.encoders:
            yield path, "heads are of words: choose a vocabulary of words, model.kind: stacked, or biaffine"
        if self.every_iteration and self.output != "heads":
            yield ("task", "every_iteration"), "for `task.output: heads` only: leave it out"
        if len(set(self.tags)) < len(self.tags):
            yield ("task", "tags"), "a column stands there twice"
        if self.mlm > 0.0 and recipe.data.raw is None:
            yield ("task", "mlm"), "there are no sentences to hide words of: name their file with data.raw"
        elif self.mlm > 0.0 and facts.encoders:
            reason = "words have vectors of the lower encoder's, and states are the upper one's: set this to 0"
            yield ("task", "mlm"), reason
