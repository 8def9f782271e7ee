"""The ``data.table`` section of a recipe. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field

from probtrans_cli.recipe.base import FormatOptions, NonNegativeInt, PositiveInt


class Table(FormatOptions):
    """A file of one sentence a line, already split into words at white space. The labels are the column `label`."""

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({"columns": None, "quoting": None})

    text: NonNegativeInt = 0
    """Column of the sentence, from 0."""
    label: NonNegativeInt = 1
    """Column of the label, from 0."""
    columns: PositiveInt | None = None
    """How many columns there are; null = up to the last one of the two. A line that has more is an error, unless these
    are empty."""
    separator: Annotated[str, Field(min_length=1)] = "\t"
    """What separates columns. If it is a space, a sentence in the last column goes to the end of the line."""
    quoting: bool | None = None
    """Whether a column may stand in double quotes, as in CSV: it may then hold the separator and line ends, and of a
    double quote in it there are two. null = where the separator is a comma."""
    header: bool = False
    """Leave out the first line that is not blank."""

    @property
    def quoted(self) -> bool:
        """Whether a column may stand in double quotes."""
        return self.separator == "," if self.quoting is None else self.quoting

    @property
    def width(self) -> int:
        """How many columns a line has at most."""
        return self.columns or max(self.text, self.label) + 1

    def inconsistencies(self) -> Iterator[tuple[str, str]]:
        """Values that do not go together, each as its key and the reason."""
        if self.width <= (last := max(self.text, self.label)):
            yield "columns", f"found {self.columns}, but there is a column {last}, counted from 0"
        if self.quoted and (len(self.separator) > 1 or self.separator in '"\r\n'):
            reason = f"for columns that one character other than a quote separates: found {self.separator!r}"
            yield "quoting", reason
