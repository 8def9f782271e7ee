"""From a file, standard input, a run folder or a name to a :class:`~probtrans_cli.recipe.schema.Recipe`, and back.

All faults of a recipe and its overrides are reported at once, each with ``file:line:column`` or the override, in words.
What counts as YAML is told in :mod:`probtrans_cli.recipe.yaml`. Imports no torch.
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from probtrans_cli.errors import RecipeError, UsageError
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.reference import Schema, choices, every_key, has_kinds, json_schema, kinds, root, wanted
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.yaml import (
    DEEPEST,
    LARGEST,
    Entry,
    Fault,
    Items,
    Mapping,
    Node,
    Place,
    Scalar,
    plain,
    printable,
    read_tree,
    shown,
    write_tree,
)

__all__ = ["describe", "dump_recipe", "json_schema", "load_recipe", "read_recipe", "shipped_recipes"]

HINT = "`probtrans --schema` prints every key with its meaning; nothing was run or written"
MOST_FAULTS = 50
"""Faults told of in one message."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")
_INDEXED = re.compile(r"(?P<key>[A-Za-z0-9_.-]+?)(\.[0-9]+|\[.*\])(\..*)?")


# --- finding ----------------------------------------------------------------------------------------------------------


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe that ``source`` names, with ``KEY=VALUE`` overrides applied in order.

    ``source`` is a YAML file, ``-`` for standard input, a run folder (its ``recipe.yaml``) or the name of a shipped
    recipe, with or without ``.yaml``. What exists in the file system goes before a shipped name. Automatic values are
    left as ``null``: see :meth:`Recipe.resolved`. Raises UsageError (no such recipe, an override without ``=``) and
    RecipeError (all faults, one a line).
    """
    if source == "-":
        return read_recipe(sys.stdin.buffer.read(LARGEST + 1), "<stdin>", overrides)
    path = _find(source)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read the recipe {printable(str(path), 200)}: {error.strerror}") from error
    return read_recipe(content, str(path), overrides)


def _find(source: str) -> Path:
    shipped = shipped_recipes()
    by_name = shipped.get(source.removesuffix(".yaml"))
    path = Path(source)
    try:
        if source and path.is_dir() and ((path / "recipe.yaml").is_file() or by_name is None):
            if (path / "recipe.yaml").is_file():
                return path / "recipe.yaml"
            hint = "give a recipe file, or a run folder (one that `probtrans train` wrote)"
            raise UsageError(f"the folder {printable(source, 200)} has no recipe.yaml", hint=hint)
        if source and path.exists() and not path.is_dir():
            return path
    except (OSError, ValueError):  # a name too long for the file system, or with a zero byte
        pass
    if by_name is not None:
        return by_name
    close = difflib.get_close_matches(Path(source.replace("\0", "")).name.removesuffix(".yaml"), shipped, n=3)
    meant = f"; did you mean {' or '.join(f'`{name}`' for name in close)}?" if close else ""
    raise UsageError(
        f"'{printable(source, 200)}' is neither a file, nor a run folder, nor the name of a shipped recipe{meant}",
        hint="`probtrans --list` shows the shipped recipes",
    )


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with probtrans, by name; in a source checkout those of its ``recipes/`` folder."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "recipes", package.parent / "recipes"):
        found = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        if found:
            return found
    return {}


def describe(path: Path | str) -> str:
    """What a recipe is for: the first line of its header comment, "" where there is none."""
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            comment = line.strip()
            if comment and not comment.startswith("#"):
                return ""
            text = comment.lstrip("# ")
            if text and not text.startswith("yaml-language-server:"):
                return printable(text, 200)
    return ""


# --- reading ----------------------------------------------------------------------------------------------------------


def read_recipe(content: bytes, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML text, which messages call ``name``, with overrides. Raises as :func:`load_recipe` does."""
    for override in overrides:
        if "=" not in override:
            hint = "write KEY=VALUE, for example optim.lr=3e-4"
            raise UsageError(f"'{printable(override, 200)}' is not an override", hint=hint)
    tree, faults = read_tree(_decoded(content, name), name)
    if tree is None:
        raise _error(faults)
    if not isinstance(tree, Mapping) or not tree.entries:
        if not faults:
            empty = (isinstance(tree, Scalar) and tree.value is None) or isinstance(tree, Mapping)
            words = "the recipe is empty" if empty else f"a recipe consists of `key: value` lines, found {shown(tree)}"
            faults = [Fault(tree.place, (), words)]
        raise _error(faults)
    _name_kinds(tree, root())
    for number, override in enumerate(overrides, start=1):
        faults += _apply(tree, override, number)
        _name_kinds(tree, root())
    _drop_other_kinds(tree, root())
    try:
        recipe = Recipe.model_validate(plain(tree))
    except ValidationError as error:
        raise _error(faults + _in_words(tree, error)) from error
    if faults:
        raise _error(faults)
    return recipe


def _decoded(content: bytes, name: str) -> str:
    place = printable(name, 200)
    if len(content) > LARGEST:
        raise RecipeError(f"{place}:1:1: larger than {LARGEST // 1024} KiB; is this a recipe?", hint=HINT)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace").split("\n")
        words = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise RecipeError(f"{place}:{len(before)}:{len(before[-1]) + 1}: {words}", hint=HINT) from error


def _error(faults: Sequence[Fault]) -> RecipeError:
    """One error of all faults: those of the file in its order, then those of the overrides in theirs."""
    ordered = sorted(dict.fromkeys(faults), key=lambda fault: fault.place)
    lines = [str(fault) for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        lines.append(f"… and {len(ordered) - MOST_FAULTS} more")
    return RecipeError("\n".join(lines), hint=HINT)


# --- overrides --------------------------------------------------------------------------------------------------------


def _apply(tree: Mapping, override: str, number: int) -> list[Fault]:
    """Set one ``KEY=VALUE`` in the tree, creating sections on the way; the faults of the override by itself."""
    key, _, text = override.partition("=")
    key = key.strip()
    place = Place(number, 0, 0, printable(override, 200))
    if key.count(".") >= DEEPEST:
        return [Fault(place, (), f"more than {DEEPEST} levels deep; no recipe is")]
    if not _KEY.fullmatch(key):
        if indexed := _INDEXED.fullmatch(key):
            words = f"a list is set as a whole: {indexed['key']}='[…, …]'"
        else:
            words = "left of `=` stands a key such as optim.lr"
        return [Fault(place, (), words)]
    text = '"-"' if text.strip() == "-" else text  # standard input, not a YAML list of nothing
    value, faults = read_tree(text, override, number)
    path = tuple(key.split("."))
    if value is None:
        return [Fault(fault.place, path, f"the value is not YAML: {fault.text}") for fault in faults]
    section, schema = tree, root()
    for depth, part in enumerate(path[:-1]):
        schema = _below(schema, part, section)
        entry = section.entries.get(part)
        if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
            entry = section.entries[part] = Entry(place, _new_section(schema, path[depth + 1], place))
        if not isinstance(entry.node, Mapping):
            words = f"holds {shown(entry.node)}, not a section"
            if isinstance(entry.node, Items):
                words += "; a list is set as a whole"
            return [*faults, Fault(place, path[: depth + 1], words)]
        section = entry.node
    section.entries[path[-1]] = Entry(place, value)
    return [Fault(fault.place, path + fault.path, fault.text) for fault in faults]


def _new_section(schema: Schema, first_key: str, place: Place) -> Mapping:
    """An empty section; where there are several kinds, of the kind that leaving it out would have meant."""
    section = Mapping(place)
    if first_key != "kind":
        _name_kind(section, schema)
    return section


def _name_kind(section: Mapping, schema: Schema) -> None:
    """Where a section does not name its kind, but leaving it out would have meant one, that one is meant."""
    default = schema.get("default")
    if has_kinds(schema) and "kind" not in section.entries and isinstance(default, dict):
        section.entries["kind"] = Entry(section.place, Scalar(section.place, default["kind"], default["kind"]))


def _name_kinds(section: Mapping, schema: Schema) -> None:
    """:func:`_name_kind` in all sections below this one."""
    for key, entry in section.entries.items():
        if isinstance(entry.node, Mapping):
            below = _below(schema, key, section)
            _name_kind(entry.node, below)
            _name_kinds(entry.node, below)


def _below(schema: Schema, key: str, section: Mapping) -> Schema:
    """The schema of a key within a section; empty where there is no such key."""
    chosen = kinds(schema).get(_kind(section) if has_kinds(schema) else "", {})
    below: Schema = chosen.get("properties", {}).get(key, {})
    return below


def _kind(section: Mapping) -> str:
    entry = section.entries.get("kind")
    return str(entry.node.value) if entry and isinstance(entry.node, Scalar) else ""


def _drop_other_kinds(section: Mapping, schema: Schema) -> None:
    """Where an override chose another kind, drop the file's keys that only other kinds have; that is what is meant."""
    members = kinds(schema)
    kind = section.entries.get("kind")
    if has_kinds(schema) and kind is not None and kind.key_place.override and _kind(section) in members:
        known = members[_kind(section)]["properties"]
        elsewhere = {key for member in members.values() for key in member["properties"]}
        for key, entry in list(section.entries.items()):
            if key not in known and key in elsewhere and not _touched(entry):
                del section.entries[key]
    for key, entry in section.entries.items():
        if isinstance(entry.node, Mapping):
            _drop_other_kinds(entry.node, _below(schema, key, section))


def _touched(entry: Entry) -> bool:
    """Whether an override set this key or one below it."""
    below = entry.node.entries.values() if isinstance(entry.node, Mapping) else ()
    return entry.key_place.override > 0 or any(_touched(inner) for inner in below)


# --- faults in words --------------------------------------------------------------------------------------------------


def _in_words(tree: Mapping, error: ValidationError) -> list[Fault]:
    """Pydantic's complaints with places and in words: one for each key."""
    faults: dict[tuple[str, ...], Fault] = {}
    for detail in error.errors(include_url=False, include_input=False):
        reason = detail.get("ctx", {}).get("error")
        if isinstance(reason, InconsistentError):
            found = [Fault(_nearest(tree, path), path, words) for path, words in reason.faults]
        else:
            found = [*_fault(tree, detail["loc"])]
        for fault in found:
            faults.setdefault(fault.path, fault)
        if len(faults) > 20 * MOST_FAULTS:  # wording unknown keys takes time
            break
    parents = {path[:-1] for path in faults}
    return [fault for path, fault in faults.items() if path not in parents or path == ()]


def _fault(tree: Mapping, location: tuple[int | str, ...]) -> Sequence[Fault]:
    """The fault at one of pydantic's locations, which name the user's keys and, in between, the kinds and unions."""
    node: Node = tree
    schema, parts = root(), list(location)
    path: tuple[str, ...] = ()
    while parts and isinstance(node, Mapping) and kinds(schema):
        several = has_kinds(schema)
        if several:
            parts.pop(0)  # the kind
            if not parts:
                break
        key = str(parts.pop(0))
        entry = node.entries.get(key)
        if entry is None:
            return [_missing(node, path, key, _below(schema, key, node))]
        schema_below = _below(schema, key, node)
        if not schema_below:
            return [Fault(entry.key_place, (*path, key), _unknown(node, schema, path, key))]
        node, schema, path = entry.node, schema_below, (*path, key)
    item = parts[-1] if parts else None
    if isinstance(node, Items) and isinstance(item, int) and item < len(node.nodes):
        return _wrong_item(node, schema, path, item)
    if isinstance(node, Mapping) and has_kinds(schema):
        entry = node.entries.get("kind")
        if entry is None:
            words = f"`kind` is missing; it is one of {_listed(choices(schema))}"
            return [Fault(node.place, path, words)]
        node, path = entry.node, (*path, "kind")
        schema = {"enum": choices(schema)}
    return [] if _is_faulty(node) else [Fault(node.place, path, _wrong(node, schema))]


def _wrong_item(node: Items, schema: Schema, path: tuple[str, ...], item: int) -> Sequence[Fault]:
    lists = [branch for branch in [schema, *schema.get("anyOf", ())] if branch.get("type") == "array"]
    inner = node.nodes[item]
    if not lists or _is_faulty(inner):
        return []
    of_item = (
        lists[0]["prefixItems"][item] if item < len(lists[0].get("prefixItems", ())) else lists[0].get("items", {})
    )
    return [Fault(inner.place, (*path, str(item)), _wrong(inner, of_item or schema))]


def _is_faulty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.faulty


def _nearest(tree: Mapping, path: tuple[str, ...]) -> Place:
    """The place of a key's value, or of the innermost section around it that is written out."""
    node: Node = tree
    for part in path:
        if not (isinstance(node, Mapping) and part in node.entries):
            break
        node = node.entries[part].node
    return node.place


def _missing(section: Mapping, path: tuple[str, ...], key: str, schema: Schema) -> Fault:
    return Fault(section.place, (*path, key), f"this key is missing; it takes {wanted(schema)}")


def _wrong(node: Node, schema: Schema) -> str:
    """What was found and what is wanted, and how to write it where that is known."""
    value = node.value if isinstance(node, Scalar) else None
    huge = isinstance(value, int | float) and abs(value) >= 2**31
    return f"found {shown(node)}, wanted {wanted(schema, every_bound=huge)}{_meant(node, schema)}"


def _meant(node: Node, schema: Schema) -> str:
    """What to write instead of a wrong value, where that can be guessed."""
    types = {branch.get("type") for branch in [schema, *schema.get("anyOf", ())]}
    if not isinstance(node, Scalar):
        return ""
    if node.value is None:
        words = "; give it keys, or delete the line for the default" if "default" in schema else "; give it keys"
        return words if kinds(schema) else ""
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return "; it must be finite" if types & {"integer", "number"} else ""
    if not isinstance(node.value, str):
        return "; put it in quotes" if "string" in types and not choices(schema) else ""
    text = node.value.strip()
    of_section = [kind for member in kinds(schema).values() for kind in choices(member["properties"].get("kind", {}))]
    if close := difflib.get_close_matches(text[:80], of_section, n=1):
        return f"; write `{{kind: {close[0]}}}`"
    if close := difflib.get_close_matches(text[:80], choices(schema), n=1):
        return f"; did you mean `{close[0]}`?"
    if "boolean" in types and text.lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"; write {'true' if text.lower() in ('yes', 'on', 'y') else 'false'}"
    if types & {"integer", "number"}:
        if node.quoted and re.fullmatch(r"[-+.0-9eE]+", text):
            return "; write it without quotes"
        if re.fullmatch(r"[0-9]+(_[0-9]+)+", text):
            return f"; write {printable(text.replace('_', ''), 60)}"
    return ""


def _unknown(section: Mapping, schema: Schema, path: tuple[str, ...], key: str) -> str:
    """What an unknown key may have been meant to be: a similar one here, or the same one elsewhere."""
    members = kinds(schema)
    with_it = [kind for kind, member in members.items() if key in member["properties"]]
    if with_it:
        kinds_with_it = " and ".join(f"`kind: {kind}`" for kind in with_it)
        return f"unknown key with `kind: {printable(_kind(section), 40)}`; it belongs to {kinds_with_it}"
    known = list(members.get(_kind(section) if has_kinds(schema) else "", {}).get("properties", ()))
    elsewhere = {
        other[:-1]: None for other, _ in every_key() if other[-1] == key and other[:-1] != path and key != "kind"
    }
    hints = []
    if close := difflib.get_close_matches(key[:80], known, n=1):
        hints.append(f"did you mean `{close[0]}`?")
    if elsewhere:
        places = " and ".join(f"`{'.'.join(other)}`" if other else "the top level" for other in elsewhere)
        hints.append(f"`{key}` belongs to {places}")
    if not hints:
        farther = {other[-1]: other for other, _ in every_key()}
        if close := difflib.get_close_matches(key[:80], farther, n=1, cutoff=0.8):
            hints.append(f"did you mean `{'.'.join(farther[close[0]])}`?")
    here = f"`{'.'.join(path)}` has" if path else "the top level has"
    return f"unknown key; {'; '.join(hints)}" if hints else f"unknown key; {here} {', '.join(known)}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_recipe(recipe: Recipe, header: Sequence[str] = ()) -> str:
    """Complete YAML text of a recipe as it stands, every key written out; ``header`` becomes comment lines on top.

    Reading it again gives an equal recipe. Automatic values stay ``null`` unless the recipe is resolved first.
    """
    comments = [line for text in header for line in (text.splitlines() or [""])]
    written: dict[str, Any] = recipe.model_dump(mode="python")
    return "".join(f"# {printable(line, 10_000)}".rstrip() + "\n" for line in comments) + write_tree(written)
