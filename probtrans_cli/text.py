"""Text from anywhere: made safe to show (on a terminal line, in a picture, in a table), and read and
written as JSON.

Controls, bidirectional and invisible characters are shown as escapes, so that no word can hide, reorder or colour what
stands around it; long text is cut off.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

LONGEST_WORD = 40  # columns
JOINERS = "\u200c\u200d"  # spell Persian and Indic words and join emoji


def visible(text: str, *, longest: int = LONGEST_WORD, ascii_only: bool = False) -> str:
    """Return text that is safe to show anywhere: hidden characters as escapes, at most ``longest`` columns.

    A mark without a letter gets a dotted circle, an empty text is shown as ∅. With ``ascii_only`` every character is
    ASCII.
    """
    result, used = "", 0
    ellipsis = "..." if ascii_only else "…"
    for number, character in enumerate(text):
        hidden = _hidden(character) or (ascii_only and not character.isascii())
        shown = escaped(character) if hidden else character
        if number == 0 and unicodedata.combining(character) and not ascii_only:
            shown = "\u25cc" + shown
        width = columns(shown)
        # The ellipsis must fit, unless this is the end; marks without width must not make the word endless.
        room = longest - (len(ellipsis) if number + 1 < len(text) else 0)
        if used + width > room or number >= 3 * longest:
            return result + ellipsis
        result += shown
        used += width
    return result or ("(empty)" if ascii_only else "∅")


def printable(text: str, longest: int = 80) -> str:
    """Return text as part of a message: what Python calls unprintable as escapes, at most ``longest`` characters."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(character if character.isprintable() else escaped(character) for character in cut)


def printable_json(value: Any, longest: int = 200) -> str:
    """Return a value as JSON that is part of a message."""
    return printable(json.dumps(value, ensure_ascii=False), longest)


def harmless(text: str, *, keep: str = "\n", escape: Callable[[str], str] | None = None) -> str:
    """Return text of any length that is safe for a terminal: hidden characters as escapes, but for those of ``keep``.

    All text for people goes through here (:mod:`probtrans_cli.console`), so that no name and no word can move the
    cursor, set a title or turn a line around.
    """
    if text.isprintable():
        return text
    write = escape or escaped
    return "".join(
        write(character) if character not in keep and _hidden(character) else character for character in text
    )


def first_of(names: Sequence[str]) -> str:
    """List the first five of some names, as part of a message, and how many more there are."""
    more = f", and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(printable(name) for name in names[:5]) + more


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 sentence`, `2,077 sentences`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def escaped(character: str) -> str:
    r"""Write a character as ``\x1b``, ``\u200e`` or ``\U0001f600``."""
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """Return the width on a terminal: two columns for wide characters, none for marks and what a joiner attaches."""
    width, previous = 0, ""
    for character in text:
        code = ord(character)
        attached = unicodedata.category(character) in ("Mn", "Me", "Cf") or previous == "\u200d"
        # Jamo inside a syllable, and skin tones.
        attached |= 0x1160 <= code <= 0x11FF or (0x1F3FB <= code <= 0x1F3FF and bool(previous))
        if not attached:
            width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        previous = character
    return width


def from_json(text: str | bytes, *, unique: bool = False) -> Any:
    """Return the value of a text of JSON.

    Raises:
        ValueError: it is no JSON, no UTF-8, or nested so deeply that Python's reader gives up; or, if keys must be
            ``unique``, an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique if unique else None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(key for key in values if sum(name == key for name, _ in pairs) > 1)
        raise ValueError(f"the key {printable(twice)!r} twice in an object")
    return values


def _hidden(character: str) -> bool:
    code = ord(character)
    nonsense = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return nonsense or (unicodedata.category(character) in ("Cc", "Cs", "Cf", "Zl", "Zp") and character not in JOINERS)


# Legal inside a JSON string, but they split lines for some readers, hide text on a terminal, or cannot be encoded.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def json_line(record: Mapping[str, object]) -> str:
    """Return a record as one line of JSON without the newline; reading it back gives its texts to the character."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", line)


def rounded(value: Any) -> Any:
    """Round all fractions of a value for JSON to 6 decimals; None stands for a number that is not finite."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Real) and not isinstance(value, Integral):  # numpy's numbers among them
        return round(float(value), 6) + 0.0 if math.isfinite(value) else None  # -0.0 becomes 0.0
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value
