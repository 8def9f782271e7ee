"""Sentences that `parse` answers without reading them, as they are too long or have no word; and what is told of them.

A sentence that is too long is an error, or gets an empty analysis: its words, no tree and no prediction. The output
has as many sentences as the input either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from probtrans_cli import console
from probtrans_cli.commands.input_stream import excess, too_long
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictions import no_room

COUNTS = ("long", "empty", "lost")


@dataclass
class Unread:
    """What is and what is not read of a stream of sentences; the counts are right at its end."""

    models: Sequence[Model]
    """All that are to read them."""
    longest: int
    """Words that a sentence may have, and tokens where words are divided into such."""
    skips: bool
    """Whether those that are too long get an empty analysis; else the first one is an error."""
    tell: Callable[[str], None] = console.log
    """Is told of the first one that is too long, at once."""
    loses_empty: bool = False
    """Whether what is written has no place for sentences without a word."""
    counts: Counter[str] = field(default_factory=Counter)
    """Sentences that were too ``long``; of models that answer every line, those without a word (``empty``), and those
    of them that are ``lost``."""

    def passing(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """The same sentences; those that are too long say why they are not read (:attr:`Sentence.unread`).

        Raises:
            DataError: one is too long, where this is an error. What is too long for a model's positions is then an
                error of the model, behind the answers to the sentences before it.
        """
        answers_all = self.models[0].task.nothing is not None
        for sentence in sentences:
            if answers_all and not sentence.words:
                self.counts["empty"] += 1
                self.counts["lost"] += self.loses_empty
            found = excess(sentence, self.longest, self.models[0].vocabulary)
            if found is not None and not self.skips:
                raise too_long(sentence.where, *found, self.longest)
            why = None if found is None else f"a sentence of {found[0]:,} {found[1]}, more than {self.longest:,}"
            if why is None and self.skips:
                why = next(filter(None, (no_room(model, sentence) for model in self.models)), None)
            if why is None:
                yield sentence
                continue
            if not self.counts["long"]:
                self.tell(f"warning: {sentence.where}: {why}: it is not read, and its analysis is empty")
            self.counts["long"] += 1
            yield replace(sentence, unread=why)


def told(counts: Mapping[str, int]) -> Iterator[str]:
    """The counts of :class:`Unread` in words, a line for each that is not 0."""
    if number := counts.get("long"):
        yield f"not read, as too long, with an empty analysis: {_sentences(number)}"
    if number := counts.get("empty"):
        missing = ", for which the format has no place" if counts.get("lost") else ""
        yield f"without a word, with an empty analysis: {_sentences(number)}{missing}"


def _sentences(number: int) -> str:
    return "1 sentence" if number == 1 else f"{number:,} sentences"
