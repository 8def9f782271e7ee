"""The section `task` of COGS: semantic parsing as labels of words. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from probtrans_cli.recipe.base import Inconsistency
from probtrans_cli.recipe.task import TASKS, TaskSection

if TYPE_CHECKING:
    from probtrans_cli.recipe.schema import Recipe

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

    def inconsistencies_with(self, recipe: Recipe) -> list[Inconsistency]:
        if self.decode == "sentence" and (self.parent, self.category) != ("category", "word"):
            reason = "labels of whole sentences are those of `parent: category` and `category: word`: set them, too"
            return [(("task", "decode"), reason)]
        unary, state = recipe.model.unary_width, recipe.model.state_width
        if unary == state:
            return []
        reason = f"a word's unary scores are {unary} numbers and its representation {state}: choose context"
        return [(("task", key), reason) for key in ("category", "verb") if getattr(self, key) == "word"]
