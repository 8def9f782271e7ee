"""CoNLL-U Plus: https://universaldependencies.org/ext-format.html, whose columns a comment names, as lines of CoNLL-U.

    # global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE

All columns of CoNLL-U must be there, in any order. What others say is kept in MISC, as `PARSEME:MWE=1:LVC.full`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from probtrans_cli.errors import DataError

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ESCAPED_BAR = r"\p"
"""A `|` within an entry of MISC, as UDPipe writes it."""
STANDARD = f"# global.columns = {' '.join(COLUMNS)}"
_NAMES = re.compile(r"#\s*global\.columns\s*=(.*)", re.DOTALL)


def column_names(comment: str) -> list[str] | None:
    """The columns that a comment names; None: it is another comment."""
    found = _NAMES.match(comment) if "global.columns" in comment else None
    return None if found is None else found[1].split()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the columns of CoNLL-U stand in a file, and the others by name."""

    count: int
    places: tuple[int, ...]
    others: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, names: list[str], where: str) -> Layout | None:
        """What the columns of these names are; None: those of CoNLL-U, as they are.

        Raises:
            DataError: one is missing or stands there twice.
        """
        if tuple(names) == COLUMNS:
            return None
        hint = f"the columns of CoNLL-U must be there, each once, in any order: {' '.join(COLUMNS)}"
        if missing := [name for name in COLUMNS if name not in names]:
            raise DataError(f"{where}: # global.columns lacks {', '.join(missing)}", hint=hint)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"{where}: # global.columns has {twice} twice", hint=hint)
        others = tuple((i, name.replace("|", ESCAPED_BAR)) for i, name in enumerate(names) if name not in COLUMNS)
        return cls(len(names), tuple(map(names.index, COLUMNS)), others)

    def row(self, line: str, where: str) -> str:
        """A line with these columns as one of CoNLL-U.

        Raises:
            DataError: it has more or fewer.
        """
        values = line.split("\t")
        if len(values) != self.count:
            hint = "columns are separated by single tabs; an empty column is written `_`"
            number = f"{len(values)} column{'s' * (len(values) != 1)}"
            raise DataError(f"{where}: {number} instead of the {self.count} of # global.columns", hint=hint)
        *row, misc = (values[place] for place in self.places)
        kept = [] if misc == "_" else [misc]
        others = ((name, values[place]) for place, name in self.others)
        kept += [f"{name}={value.replace('|', ESCAPED_BAR)}" for name, value in others if value not in ("_", "")]
        return "\t".join([*row, "|".join(kept) or "_"])
