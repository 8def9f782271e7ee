"""Tuple lines of AllenNLP: ``sentence TAB <arg1> A </arg1> <rel> R </rel> <arg2> B </arg2> TAB confidence``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.formats.carb import CONFIDENCE, tuples_of

_TAG = re.compile("<(?=/?(?:arg1|rel|arg2)>)")


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """The lines of each sentence, as soon as they are there. A word of a text that is spelled like one of the tags gets
    a space behind its first character."""
    del options
    for analysis in content.analyses:
        lines = []
        for sentence, one in tuples_of(analysis):
            parts = " ".join(f"<{name}> {_TAG.sub('< ', one[name])} </{name}>" for name in ("arg1", "rel", "arg2"))
            lines.append(f"{sentence}\t{parts}\t{one['confidence']:{CONFIDENCE}}\n")
        yield "".join(lines)
