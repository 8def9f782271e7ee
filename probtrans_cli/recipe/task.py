"""The ``task`` section of a recipe: what is learned, and what every kind of task says of itself. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from probtrans_cli.recipe.base import (
    Inconsistency,
    Kinds,
    KindSection,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Section,
    Share,
)
from probtrans_cli.recipe.data import FORMATS, Data
from probtrans_cli.recipe.model.base import ModelSection


class Surroundings(Protocol):
    """What of a recipe a task's section is checked against."""

    @property
    def data(self) -> Data: ...

    @property
    def model(self) -> ModelSection: ...


class TaskSection(KindSection):
    """The options of a task. A kind has a field ``kind`` with one value; all else in the package asks what stands here,
    and never which kind a section is."""

    needs: ClassVar[str]
    """What a data format must have for it, see :class:`probtrans_cli.recipe.data.Format`."""
    metric: ClassVar[str]
    """The dev score that selects the best checkpoint."""
    larger_is_better: ClassVar[bool]
    """The direction of that score."""
    needs_every_token: ClassVar[bool] = True
    """Whether it has something to say of every token, so that no vocabulary may leave some unread."""
    may_be_cut: ClassVar[bool] = True
    """Whether a sentence may be shortened (`data.too_long: cut`)."""
    may_be_divided: ClassVar[bool] = True
    """Whether a sentence may be read in portions (`data.too_long: window`)."""
    several_answers: ClassVar[bool] = False
    """Whether it has several answers of every word, side by side."""

    @property
    def learned(self) -> tuple[str, ...]:
        """The columns of labels that it learns from those of the training file."""
        return ()

    @property
    def chosen_column(self) -> str | None:
        """The column that a recipe chose for it among those of the data; None where there is no choice."""
        return None

    @property
    def not_linear(self) -> Inconsistency | None:
        """The key within the section that makes its output layer more than a linear one, with what to do, if one does:
        a probe is linear."""
        return None

    @property
    def tied(self) -> bool:
        """Whether words are scored by the unary scores themselves."""
        return False

    @property
    def without_moments(self) -> str | None:
        """The option, as a recipe has it, that makes an output layer whose moments have no rule, if there is one."""
        return None

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        """Check this section against the rest of the recipe: each wrong key's path from the top, with the reason."""
        del recipe
        return []


TASKS: Kinds[TaskSection] = Kinds("task")
"""The kinds of `task`."""


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


class WordPrediction(TaskSection):
    """What the tasks that predict hidden words share: `mlm`, the masks, and an output layer over the vocabulary."""

    if TYPE_CHECKING:  # fields of each kind

        @property
        def mlm(self) -> Masking:
            """What is hidden."""

        @property
        def output(self) -> Literal["linear", "tied", "bert"]:
            """How states become words."""

        @property
        def tie_decoder(self) -> bool:
            """Whether BERT's output reads the word vectors themselves."""

        @property
        def start_at_frequencies(self) -> bool | None:
            """Whether scores of words begin at their frequencies; None: those of latent variables do."""

        @property
        def eval_masks(self) -> int:
            """Mask draws of a final score."""

    @property
    def tied(self) -> bool:
        return self.output == "tied" or (self.output == "bert" and self.tie_decoder)

    @property
    def not_linear(self) -> Inconsistency | None:
        reasons = {
            "tied": "tied scores are the words' own, which a probe leaves as they are: choose linear",
            "bert": "a probe is linear, and BERT's output has a layer before the words: choose linear",
        }
        return (("output",), reasons[self.output]) if self.output in reasons else None

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        faults: list[Inconsistency] = []
        if self.output == "bert" and not recipe.model.facts.has_bert_output:
            reason = f"`bert` is for a transformer, and model.kind is {recipe.model.kind}: choose linear or tied"
            faults.append((("task", "output"), reason))
        if self.output == "tied" and recipe.model.facts.encoders:
            reason = "words have vectors of the lower encoder's, and states are the upper one's: choose linear"
            faults.append((("task", "output"), reason))
        if not self.tie_decoder and self.output != "bert":
            faults.append((("task", "tie_decoder"), "for `task.output: bert` only: leave it out"))
        total = self.mlm.mask + self.mlm.random + self.mlm.keep
        if abs(total - 1.0) > 1e-6:
            faults.append((("task", "mlm", "keep"), f"mask, random and keep are {total:g} together, not 1"))
        return faults


@TASKS.add
class MaskedLanguageModel(WordPrediction):
    """Predict hidden words. A linear or tied output has no probability for `<pad>` and `<mask>`, which no word is."""

    needs = "words"
    metric = "perplexity"
    larger_is_better = False
    needs_every_token = False

    kind: Literal["mlm"]
    mlm: PlainMasking = PlainMasking()
    """What is hidden."""
    output: Literal["linear", "tied", "bert"] = "linear"
    """How states become words: a linear layer of its own; or the unary scores once more, the hidden word being one
    more latent variable (of a transformer: the word vectors once more), with a bias for every word; or, of a
    transformer, BERT's: one more layer, its norm, then the word vectors once more, with a bias for every word."""
    tie_decoder: bool = True
    """With `output: bert`: the word vectors themselves; false = a table of its own."""
    start_at_frequencies: bool | None = None
    """Every word's bias starts with the logarithm of its frequency in train, which an optimizer takes thousands of
    steps to find; false = they start alike; null = true of the tied output of a probabilistic transformer, else false
    (as the paper's code and BERT's)."""
    eval_masks: PositiveInt = 10
    """Number of fixed mask draws of the test perplexity: the exponential of the mean loss at the hidden words of all of
    them (with the standard error over the draws)."""

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        faults = super().inconsistencies_with(recipe)
        vocabulary = recipe.data.vocabulary
        if vocabulary.has_features and not vocabulary.counts_words:
            reason = "a hidden piece would be told by the features of its word's other pieces: leave it out"
            faults.append((("data", "vocabulary", "features"), reason))
        elif vocabulary.has_features and self.mlm.random > 0.0:
            reason = "a word in another's place would have its features: set this to 0, and mask or keep to more"
            faults.append((("task", "mlm", "random"), reason))
        return faults


@TASKS.add
class Tagging(TaskSection):
    """One tag per word."""

    needs = "tags"
    metric = "accuracy"
    larger_is_better = True

    kind: Literal["tagging"]
    column: Annotated[str, Field(min_length=1)] = "upos"
    """Which column is predicted: `upos`, `xpos` or `feats` (all features of a word are one label) of a CoNLL-U file,
    `tag` of `format: columns`."""
    loss: Literal["words", "sentences"] = "words"
    """Mean over words, or (as the paper's code) per-sentence means averaged over sentences."""
    word_dropout: NonNegativeFloat = 0.0
    """alpha: in training a word of corpus frequency f is replaced by `<unk>` with probability alpha / (alpha + f), so
    that the row of the unknown word is learned; 0 = never (as the paper's code)."""

    @property
    def learned(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def chosen_column(self) -> str:
        return self.column


@TASKS.add
class EntityRecognition(TaskSection):
    """Named entities by one tag per word, from `data.format: columns`, in the scheme of `data.columns.entities`."""

    needs = "entities"
    metric = "f1"
    larger_is_better = True

    kind: Literal["ner"]
    loss: Literal["words", "sentences"] = "words"
    """Mean over words, or (as the paper's code) per-sentence means averaged over sentences."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""
    valid: bool = True
    """Predict the most probable sequence of tags that the scheme allows; false = the most probable tag of each word.
    The loss is the same."""

    @property
    def learned(self) -> tuple[str, ...]:
        return ("tag",)

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        if recipe.data.columns.entities is not None or recipe.data.format != "columns":
            return []
        reason = "`kind: ner` learns entities: set this to bioes (the paper's) or iob2"
        return [(("data", "columns", "entities"), reason)]


@TASKS.add
class Classification(TaskSection):
    """One label per sentence, from `data.format: table` or `jsonl`."""

    needs = "class"
    metric = "accuracy"
    larger_is_better = True
    may_be_divided = False

    kind: Literal["classification"]
    representation: Literal["auto", "root", "cls", "mean"] = "auto"
    """What stands for the sentence: root: the root node's label scores; cls: the state of a word `<cls>` in front (of a
    transformer with a pooler, what that makes of it); mean: the mean of the words' states. auto: the root where
    `model.root` is set, else cls."""
    word_dropout: NonNegativeFloat = 0.0
    """As of `kind: tagging`."""

    @property
    def learned(self) -> tuple[str, ...]:
        return ("label",)

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        if self.representation != "root" or recipe.model.facts.has_root:
            return []
        reason = "the model has no root node: set model.root='{}' (probabilistic), or choose cls or mean"
        return [(("task", "representation"), reason)]


@TASKS.add
class Pretraining(WordPrediction):
    """Predict hidden words, and what the second of two texts is to the first, from `data.format: documents` (BERT).
    The loss is the mean over hidden words plus the mean over pairs. A probabilistic transformer, and a transformer with
    `segments: 0`, tells the two by what stands between them alone."""

    needs = "documents"
    metric = "perplexity"
    larger_is_better = False

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
    start_at_frequencies: bool | None = None
    """As of `kind: mlm`."""
    eval_masks: PositiveInt = 10
    """As of `kind: mlm`."""

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        faults = super().inconsistencies_with(recipe)
        documents, model = recipe.data.documents, recipe.model
        if documents.pairs == "none" and self.pair_weight != Pretraining.model_fields["pair_weight"].default:
            faults.append((("task", "pair_weight"), "`data.documents.pairs` is none: leave it out"))
        if recipe.data.vocabulary.has_features:
            faults.append((("data", "vocabulary", "features"), "`kind: pretrain` has no features: leave it out"))
        if documents.pairs != "none" and model.facts.segment_types == 1:
            reason = "two texts have two segments: set this to 2, or to 0 to have none"
            faults.append((("model", *[*model.facts.encoders][:1], "segments"), reason))
        if model.facts.position_rows is not None and model.facts.position_rows < documents.max_length:
            reason = (
                f"found {model.facts.position_rows}, less than the {documents.max_length} of data.documents.max_length"
            )
            faults.append((("model", *model.facts.shortest, "positions", "rows"), reason))
        return faults


def formats_for(task: TaskSection) -> list[str]:
    """The data formats that have what a task needs."""
    return [name for name, one in FORMATS.items() if task.needs in one.gives]


LABELS_OF_COGS = ("role", "category", "noun_type", "verb_name")
_PARENT = {"relative": ("offset",), "absolute": ("position",), "category": ("by_category",), "attention": ()}


@TASKS.add
class SemanticParsing(TaskSection):
    """COGS as five labels a word (Ontañón et al. 2022): role, category, noun type, verb, parent."""

    needs = "graphs"
    metric = "exact"
    larger_is_better = True
    several_answers = True
    may_be_cut = False
    may_be_divided = False

    kind: Literal["cogs"]
    parent: Literal["relative", "absolute", "category", "attention"] = "relative"
    """How a word's parent is said: its distance, its position, its number among the nouns, verbs or prepositions to the
    left or right, or by attention over the words."""
    loss: Literal["words", "sentences"] = "words"
    """Mean over words, or (as the paper's code) per-sentence means averaged over sentences."""
    category: Literal["context", "word"] = "context"
    """What tells what a word is (a noun, a name, a verb, a preposition): context: its representation (as the paper's
    code); word: its unary scores alone. Then no word has the role of a preposition but a preposition, and an infinitive
    is told from other verbs by its role."""
    verb: Literal["context", "word"] = "context"
    """What tells a verb's name: context: the word's representation (as the paper's code); word: its unary scores alone,
    as the same form is of the same verb in every sentence."""
    decode: Literal["words", "sentence"] = "words"
    """How labels are chosen: words: of every word, in every column, the best one (as the paper's code); sentence: the
    most probable ones of a whole sentence where every word has labels that go together somewhere in train, one verb is
    the main one, each role is filled once, a preposition has one noun and no arcs cross; where no
    labels are so, or a sentence has more than 256 words, those of its words. It asks for `parent: category` and
    `category: word`."""

    @property
    def learned(self) -> tuple[str, ...]:
        columns = ("kind" if self.category == "word" and name == "category" else name for name in LABELS_OF_COGS)
        return (*columns, *_PARENT[self.parent])

    @property
    def alone(self) -> tuple[str, ...]:
        """The columns of `learned` that a word's unary scores tell."""
        told = {"kind": self.category, "verb_name": self.verb}
        return tuple(name for name, what in told.items() if what == "word")

    @property
    def not_linear(self) -> Inconsistency | None:
        if self.parent != "attention":
            return None
        return ("parent",), "a probe is linear, and attention is not: choose relative or absolute"

    @property
    def without_moments(self) -> str | None:
        if self.parent == "attention":
            return "parent: attention"
        return next((f"{key}: word" for key in ("category", "verb") if getattr(self, key) == "word"), None)

    def inconsistencies_with(self, recipe: Surroundings) -> list[Inconsistency]:
        if self.decode == "sentence" and (self.parent, self.category) != ("category", "word"):
            reason = "labels of whole sentences are those of `parent: category` and `category: word`: set them, too"
            return [(("task", "decode"), reason)]
        unary, state = recipe.model.facts.unary_width, recipe.model.facts.state_width
        if unary == state:
            return []
        reason = f"a word's unary scores are {unary} numbers and its representation {state}: choose context"
        return [(("task", key), reason) for key in ("category", "verb") if getattr(self, key) == "word"]
