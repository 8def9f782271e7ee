"""What all sections of a recipe are made of: bounded numbers, names, the base class, and tables of kinds.

A key with ``kind:`` may hold any section of a table. A table can grow: an installed package adds its kinds by an entry
point of the group `probtrans.kinds`, which names the module to import (:func:`load_outside`); a program may as well
import that module itself.

A table stands in the annotation of a field, ``model: Annotated[ModelSection, MODELS]``; pydantic then takes whatever
sections the table has. :meth:`Kinds.add` is one row; the schemas that were built with the table are built again.
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from probtrans_cli.errors import UsageError

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
# The upper bound keeps counts within what tensors can be indexed with.
PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
NonNegativeInt = Annotated[int, Field(ge=0, lt=2**31)]
# What a model is made of. Nobody needs as much; far above it a recipe, which may be a stranger's, would exhaust the
# machine before the first sentence.
Size = Annotated[int, Field(ge=1, le=100_000)]  # labels, ranks, widths
Count = Annotated[int, Field(ge=1, le=1_000)]  # channels, iterations, layers
PositiveFloat = Annotated[float, Field(gt=0.0)]
NonNegativeFloat = Annotated[float, Field(ge=0.0)]
MOST_THREADS = 1024  # more than machines have; far more cannot be started
MOST_NUMBERS = 2**30  # in one part of a model: 4 GB, four times as much in training
PATH = r"^[^\x00]+$"  # no name of a file has a zero byte
File = Annotated[str, Field(min_length=1, pattern=PATH)]
Files = File | Annotated[list[File], Field(min_length=1)]


Inconsistency = tuple[tuple[str, ...], str]
"""A key's path, and why its value does not go together with others."""


def below(path: tuple[str, ...], faults: Iterable[Inconsistency]) -> Iterator[Inconsistency]:
    """Yield the faults of a section with the section's own path in front of theirs."""
    for key, reason in faults:
        yield (*path, *key), reason


def too_large(path: tuple[str, ...], numbers: int) -> Iterator[Inconsistency]:
    """Refuse a part of a model that would have more than :data:`MOST_NUMBERS` parameters."""
    if numbers > MOST_NUMBERS:
        yield path, f"this would be {numbers:,} numbers, more than {MOST_NUMBERS:,}: make the model smaller"


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, text is never taken for a number, nothing changes afterwards."""

    # The docstrings of keys are read by the reference alone: pydantic would read them all at each start, for 0.1 s.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    added_later: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Of what a prepared folder is made from: keys that are younger than the format of such folders, with their
    defaults. A folder's description leaves out these values, so that older folders stay up to date."""


class KindSection(Section):
    """Base of the sections among which ``kind:`` chooses."""

    kind: str  # the name of the kind; each kind has a literal of one value

    def inconsistencies(self) -> Iterable[Inconsistency]:
        """Check a model, a task, a factor or a vocabulary by itself: each wrong key's path below the section, with
        the reason."""
        return ()


class InconsistentError(ValueError):
    """Values that are right by themselves but do not go together; ``faults`` pairs each key's path with the reason."""

    def __init__(self, faults: list[Inconsistency]) -> None:
        super().__init__("; ".join(f"{'.'.join(path)}: {reason}" for path, reason in faults))
        self.faults = faults


S = TypeVar("S", bound=KindSection)
R = TypeVar("R")
GROUP = "probtrans.kinds"
"""The entry points of packages that add kinds."""


class Table(dict[str, R]):
    """Rows by name, in the order in which :meth:`enter` added them, the only way to add one; ``noun``: of messages."""

    def __init__(self, noun: str) -> None:
        super().__init__()
        self.noun = noun
        self.built: list[type[BaseModel]] = []

    def used_in(self, *sections: type[BaseModel]) -> None:
        """Name the sections whose schemas hold the table, the innermost first: they are built again when it grows."""
        self.built += sections

    def enter(self, name: str, row: R) -> None:
        """Add a row, and build the schemas that hold the table again."""
        if self.get(name, row) is not row:
            raise ValueError(f"there is a {self.noun} {name!r} already")
        self[name] = row
        for section in self.built:
            section.model_rebuild(force=True)
        for listener in CHANGED if self.built else ():
            listener()


CHANGED: list[Any] = []
"""Functions that are called when a table of a schema has grown: what they remember of the schema is out of date."""


class Kinds(Table[type[S]]):
    """The sections among which ``kind:`` chooses."""

    def add(self, section: type[S]) -> type[S]:
        """Add a section under the only value that its field ``kind`` takes; serves as a decorator, too."""
        (name,) = get_args(section.model_fields["kind"].annotation)
        self.enter(name, section)
        return section

    def name_of(self, section: type[S]) -> str:
        """Return the name of a section; add it first if the table lacks it."""
        if section not in self.values():
            self.add(section)
        return next(name for name, row in self.items() if row is section)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return AllBut(self, "").__get_pydantic_core_schema__(source, handler)


@dataclass(eq=False)
class AllBut(Generic[S]):
    """All sections of a table but one: what a field of that section itself may hold."""

    table: Kinds[S]
    name: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        sections = tuple(section for name, section in self.table.items() if name != self.name)
        members: Any = Union[sections]  # noqa: UP007 - known at run time only
        return handler.generate_schema(Annotated[members, Field(discriminator="kind")])


class Names(Table[R]):
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
