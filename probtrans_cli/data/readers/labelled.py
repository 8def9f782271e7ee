"""What the readers of labelled sentences share: the words of a text, and the sentence that has its label."""

from __future__ import annotations

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError

LABEL = "label"
"""The column of the label."""


def words_of(text: str) -> list[str]:
    """The words of a text, which single spaces or several separate; other white space is part of a word."""
    return [word for word in text.split(" ") if word]  # corpora use no-break spaces inside of words


def labelled(words: list[str], label: str, where: str) -> Sentence:
    """A sentence with its label, without white space around it.

    Raises:
        DataError: there is no word, or no label.
    """
    if not words:
        raise DataError(f"{where}: a label without a sentence", hint="remove the line")
    if not label.strip():
        raise DataError(f"{where}: a sentence without a label", hint="remove the line, or say in data where labels are")
    return Sentence(words=words, labels={LABEL: label.strip()}, where=where)
