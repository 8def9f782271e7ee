"""What is said of a sentence as one line of JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Legal inside a JSON string, but they split lines for some readers, hide text on a terminal, or cannot be encoded.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def tree_record(
    words: Sequence[str],
    heads: Sequence[int] | np.ndarray,
    probabilities: Sequence[float | None] | np.ndarray | None,
    *,
    channel: int | str,
    iteration: int,
    decode: str,
    deviations: Sequence[float | None] | np.ndarray | None = None,
) -> dict[str, Any]:
    """A tree for JSON: words, heads, probabilities, channel, iteration, decode; and the standard deviations of the
    probabilities over draws of the weights, where there are some.

    Probabilities have 6 decimals, None where not known. Raises ValueError for lists of different lengths.
    """
    if len(words) != len(heads) or (probabilities is not None and len(probabilities) != len(heads)):
        raise ValueError("words, heads and probabilities differ in length")
    return {
        "words": [str(word) for word in words],
        "heads": [int(head) for head in heads],
        "probabilities": None if probabilities is None else [rounded(value) for value in probabilities],
        **({} if deviations is None else {"probability_deviations": [rounded(value) for value in deviations]}),
        "channel": channel,
        "iteration": iteration,
        "decode": decode,
    }


def rounded(value: Any) -> Any:
    """A value for JSON: every number that is no whole one with 6 decimals, None where it is not finite."""
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


def json_line(record: Mapping[str, object]) -> str:
    """A record as one line of JSON without the newline; reading it back gives its texts to the character."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", line)
