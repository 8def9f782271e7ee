"""Documents: one sentence a line, blank lines between documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import words_of
from probtrans_cli.recipe.data import Documents


def read_documents(lines: Iterable[str], name: str, documents: Documents) -> Iterator[Sentence]:
    """Yield the sentences of documents; the first sentence of each is marked. A blank line or a heading separates two.

    A line is one sentence, or several where ``documents.stops`` names the tokens that end one.
    """
    begins, stops = True, set(documents.stops or ())
    for number, line in enumerate(lines, start=1):
        tokens = words_of(line)
        if not tokens or tokens[0] == documents.heading:
            begins = True
            continue
        ends = [position for position, token in enumerate(tokens[:-1], start=1) if token in stops]
        for start, end in pairwise([0, *ends, len(tokens)]):
            yield Sentence(words=tokens[start:end], begins=begins, where=f"{name}:{number}")
            begins = False
