"""What the readers of labelled sentences share: the words of a text, and the sentence that has its label."""

from __future__ import annotations

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import listed, words_of
from probtrans_cli.errors import DataError

LABEL = "label"
"""The column of the label."""


def labelled(text: str | list[str], label: str, where: str) -> Sentence:
    """The sentence of a text, or of a list of words, with its label, without white space around it.

    Raises:
        DataError: there is no word, or no label.
    """
    words = words_of(text) if isinstance(text, str) else listed(text)
    if not words:
        raise DataError(f"{where}: a label without a sentence", hint="remove the line")
    if not label.strip():
        raise DataError(f"{where}: a sentence without a label", hint="remove the line, or say in data where labels are")
    return Sentence(words=words, labels={LABEL: label.strip()}, where=where)
