"""A tree as one line of JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

# Legal inside a JSON string, but they split lines for some readers, hide text on a terminal, or cannot be encoded.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def json_line(
    sentence_words: Sequence[str],
    heads: Sequence[int] | np.ndarray,
    probabilities: Sequence[float | None] | np.ndarray | None,
    *,
    channel: int | str,
    iteration: int,
    decode: str,
    extra: Mapping[str, object] | None = None,
) -> str:
    """One sentence as one line of JSON without the newline: words, heads, probabilities, channel, iteration, decode.

    Reading it back gives the words to the character. Probabilities have 6 decimals, null where not known; ``extra`` is
    appended. Raises ValueError for lists of different lengths and for a key of ``extra`` that is taken.
    """
    if len(sentence_words) != len(heads) or (probabilities is not None and len(probabilities) != len(heads)):
        raise ValueError("words, heads and probabilities differ in length")
    record: dict[str, object] = {
        "words": [str(word) for word in sentence_words],
        "heads": [int(head) for head in heads],
        "probabilities": None if probabilities is None else [_rounded(value) for value in probabilities],
        "channel": channel,
        "iteration": iteration,
        "decode": decode,
    }
    for key, value in (extra or {}).items():
        if key in record:
            raise ValueError(f"the key {key!r} is taken")
        record[key] = value
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", line)


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 6)
