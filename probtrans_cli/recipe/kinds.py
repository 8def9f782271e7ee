"""Tables of kinds: what a key with ``kind:`` may hold. A table can grow, so that a kind may come from another package.

An installed package adds its kinds by an entry point of the group `probtrans.kinds`, which names the module to import
(:func:`load_outside`); a program may as well import that module itself.

A table stands in the annotation of a field, ``model: Annotated[ModelSection, MODELS]``; pydantic then takes whatever
sections the table has. :meth:`Kinds.add` is one row; the schemas that were built with the table are built again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Generic, TypeVar, Union, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.base import KindSection

S = TypeVar("S", bound=KindSection)
R = TypeVar("R")
GROUP = "probtrans.kinds"
"""The entry points of packages that add kinds."""


class Table(Mapping[str, R], Generic[R]):
    """Rows by name, in the order in which they were added."""

    def __init__(self, what: str) -> None:
        """``what``: what the rows are, for messages."""
        self.what = what
        self._rows: dict[str, R] = {}

    def __getitem__(self, name: str) -> R:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def enter(self, name: str, row: R) -> None:
        """Add a row.

        Raises:
            ValueError: another row has this name.
        """
        if self._rows.get(name, row) is not row:
            raise ValueError(f"there is a {self.what} {name!r} already")
        self._rows[name] = row


class _InSchemas(Table[R]):
    """A table that schemas are built from."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._built: list[type[BaseModel]] = []

    def used_in(self, *sections: type[BaseModel]) -> None:
        """Name the sections whose schemas hold the table, the innermost first: they are built again when it grows."""
        self._built += sections

    def enter(self, name: str, row: R) -> None:
        super().enter(name, row)
        for section in self._built:
            section.model_rebuild(force=True)
        for listener in CHANGED:
            listener()


CHANGED: list[Any] = []
"""Functions that are called when a table has grown: what they remember of the schema is out of date."""


class Kinds(_InSchemas[type[S]]):
    """The sections among which ``kind:`` chooses."""

    def add(self, section: type[S]) -> type[S]:
        """Add a section under the only value that its field ``kind`` takes; serves as a decorator, too."""
        (name,) = get_args(section.model_fields["kind"].annotation)
        self.enter(name, section)
        return section

    def name_of(self, section: type[S]) -> str:
        """The name of a section, which is added where it is not there yet."""
        if section not in self.values():
            self.add(section)
        return next(name for name, one in self.items() if one is section)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        members: Any = Union[tuple(self.values())]  # noqa: UP007 - known at run time only
        return handler.generate_schema(Annotated[members, Field(discriminator="kind")])


class AllBut(Generic[S]):
    """The sections of a table but for one, for a field of that one itself. Where the table grows, so does this; the
    sections with such a field are to be named to the table (``used_in``), too."""

    def __init__(self, table: Kinds[S], name: str) -> None:
        self.table, self.name = table, name

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        others = tuple(section for name, section in self.table.items() if name != self.name)
        members: Any = Union[others]  # noqa: UP007 - known at run time only
        return handler.generate_schema(Annotated[members, Field(discriminator="kind")])


class Names(_InSchemas[R]):
    """Rows of which a field names one."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema(list(self))


@cache
def load_outside() -> None:
    """Import the modules of installed packages that add kinds, once a process."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            message = f"the kinds of the package {package} cannot be loaded: {error!r}"
            raise UsageError(message, hint="mend or uninstall it") from error
