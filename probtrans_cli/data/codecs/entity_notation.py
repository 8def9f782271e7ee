"""How files spell the tags of entities, and the same tags as ``LETTER-TYPE`` and ``O``.

===========================  ==================================================
``B-PER``, ``B_PER``         the letter in front of the type
``PER-B``, ``PER_B``         the letter behind the type
``B``                        letters alone: all entities are of one type, :data:`NO_TYPE`
===========================  ==================================================

A file has one of these notations, that of most of its tags; a tag in another one is no tag of the file. Within it, what
is spelled otherwise but has a clear meaning is repaired: ``0`` for ``O``, small letters, ``B_PER`` beside ``B-LOC``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

NO_TYPE = "ENTITY"
"""The type of entities of files whose tags name none."""

_LETTER = "[BIESLUMWbieslumw]"
_NOTATIONS = {
    "a letter in front of the type": re.compile(rf"(?P<letter>{_LETTER})(?P<between>[-_])(?P<type>.+)", re.DOTALL),
    "a letter behind the type": re.compile(rf"(?P<type>.+)(?P<between>[-_])(?P<letter>{_LETTER})", re.DOTALL),
    "a letter alone": re.compile(f"(?P<letter>{_LETTER})"),
}
_OUTSIDE = ("O", "o", "0")
_TYPE_ALONE = re.compile(r"[^-\W]{2,}")  # letters, digits and underscores; a lone letter, O among them, is no type


class Plain(NamedTuple):
    """A tag of a file in plain spelling."""

    tag: str
    repair: str | None = None
    """How it is read, where the spelling is not that of the file's other tags."""
    misfit: str | None = None
    """Why it is no tag of the file, where that is clear whatever the scheme; ``tag`` is as it stands then."""


def plain_tags(counts: Mapping[str, int], *, types_alone: bool = False) -> dict[str, Plain]:
    """Return the plain spelling of every tag of a file.

    Args:
        counts: how often the file has each of its tags.
        types_alone: read a type without a letter, ``PERSON``, as ``I-PERSON``.
    """
    outside = {tag: Plain("O", None if tag == "O" else "as 'O'") for tag in counts if tag in _OUTSIDE}
    notation = max(_NOTATIONS, key=lambda name: _share(counts, name, outside))
    matches = {tag: _NOTATIONS[notation].fullmatch(tag) for tag in counts if tag not in outside}
    separators = {match.groupdict().get("between") for match in matches.values() if match}
    return outside | {
        tag: _plain(match, mixed=len(separators) > 1) if match else _unmatched(tag, notation, types_alone)
        for tag, match in matches.items()
    }


def _share(counts: Mapping[str, int], notation: str, outside: Mapping[str, Plain]) -> int:
    """How many tags of a file are of a notation."""
    return sum(count for tag, count in counts.items() if tag not in outside and _NOTATIONS[notation].fullmatch(tag))


def _plain(match: re.Match[str], *, mixed: bool) -> Plain:
    parts = match.groupdict()
    letter, repair = parts["letter"].upper(), None
    if letter != parts["letter"]:
        repair = "with a capital letter"
    elif mixed and parts["between"] == "_":
        repair = "with '-' for '_'"
    return Plain(f"{letter}-{parts.get('type', NO_TYPE)}", repair)


def _unmatched(tag: str, notation: str, types_alone: bool) -> Plain:
    if types_alone and _TYPE_ALONE.fullmatch(tag):
        return Plain(f"I-{tag}", "as the type of an entity")
    # Where the letter stands in front, the scheme says in its own words what is wrong.
    in_front = notation == next(iter(_NOTATIONS))
    return Plain(tag, misfit=None if in_front else f"{tag!r} is no tag like others of the file: O, or {notation}")
