"""The section `model.head_bias` of probabilistic transformers. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from probtrans_cli.recipe.base import NonNegativeFloat, Section

# One number for all channels, or one for each.
Numbers = float | Annotated[list[float], Field(min_length=1)]
NonNegativeNumbers = NonNegativeFloat | Annotated[list[NonNegativeFloat], Field(min_length=1)]
_OF_WORDS = ("leaning", "leaning_head", "reducible", "reducible_far")
"""Scores that ask for the leaning and the reducibility of words."""
_OF_LANGUAGE = ("branching", "reducible_side", "phrase_end", "phrase_end_side", "phrase_end_next", "punctuation")
"""Scores that ask more of the training file than the leaning and the reducibility of words."""


class HeadBias(Section):
    """Scores of heads in which no label has a say (not in the paper): `F[c,i,j] += right [j > i] - distance ln|i - j|
    - frequency (ln n_j)^2 + rarer [n_j < n_i]` and `F[c,i,root] -= root (ln n_i)^2`, with `n_j` the count of word j in
    the training file of this recipe (also with `init_from`), and what the other keys say. Like every score
    of heads it is divided by `message_weight.heads`, which is 1/d unless set: such a bias is d times as strong. Each is
    one number for all channels, or a list of one for each."""

    distance: NonNegativeNumbers = 1.0
    """What a head loses by being far away, times the logarithm of the number of words."""
    right: Numbers = 0.0
    """What a head to the right gains."""
    frequency: NonNegativeNumbers = 0.0
    """What a head loses by being frequent: function words are leaves."""
    root: NonNegativeNumbers = 0.0
    """What a word loses at the root by being frequent."""
    rarer: NonNegativeNumbers = 0.0
    """What a head gains that is rarer than the word: with a large one, heads are rarer words wherever they can be."""
    leaning: Numbers = 0.0
    """What a head to the right gains times the leaning of the word: words that hardly ever stand in front of
    punctuation or the end, as `the`, lean to the right."""
    leaning_head: Numbers = 0.0
    """What a head to the right loses times the leaning of the head itself."""
    branching: Numbers = 0.0
    """What a head to the right gains times how much (ln n_i)^2 of the dependent is above the mean, and times how far
    the language leans to the right, from 0 to 1: where it does, rare words have their heads to the left."""
    reducible: NonNegativeNumbers = 0.0
    """What a head, or a word at the root, loses times its reducibility, in standard deviations: how well the words
    around it go together without it, as around adjectives."""
    reducible_far: Numbers = 0.0
    """How much smaller `reducible` is for a distant head, times the logarithm of the number of words."""
    reducible_side: Numbers = 0.0
    """What is added to `reducible` for heads that are words, times how far the language leans to the right."""
    frequency_pair: Numbers = 0.0
    """What a frequent head gains with a frequent dependent, times (ln n_i)^2 (ln n_j)^2."""
    phrase_end: Numbers = 0.0
    """What a head gains times (ln n)^2 of the word behind it, which begins another phrase where it is common.
    Punctuation counts as the most common word of all, the end of the sentence as the largest value in the sentence."""
    phrase_end_side: Numbers = 0.0
    """What a head to the right loses times that value of the word behind the dependent."""
    phrase_end_next: Numbers = 0.0
    """What a head next to the dependent, on either side, loses times that value of the word behind the dependent."""
    punctuation: Numbers = 0.0
    """What a head loses for every mark of punctuation between it and the dependent, for two at most; without effect
    where the words have none (`data.vocabulary.punctuation: false`)."""
    alone: Numbers = 0.0
    """Of two words in a row that are not among the 200 most frequent ones, what the second one gains as the head of the
    first and loses as its dependent, times a number that is read off the training file: by how many standard deviations
    the second one of such words stands alone more often than the first. That number is positive where modifiers stand
    in front of nouns, and negative where they stand behind them, so one `alone` serves every language."""

    def asks(self, *names: str) -> bool:
        """Whether one of these numbers, or one of a list, is not 0."""
        values = (getattr(self, name) for name in names)
        return any(any(value) if isinstance(value, list) else value != 0 for value in values)

    @property
    def order_cues(self) -> int:
        """See :attr:`ModelSection.order_cues`."""
        if self.asks("alone"):
            return 8
        if self.asks(*_OF_LANGUAGE):
            return 6
        return 2 if self.asks(*_OF_WORDS) else 0
