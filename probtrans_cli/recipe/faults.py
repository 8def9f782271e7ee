"""The tree of a recipe beside its schema: ``KEY=VALUE`` overrides, kinds that are left out, and faults in words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pydantic import ValidationError

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.reference import Schema, choices, every_key, has_kinds, kinds, root, takes
from probtrans_cli.recipe.yaml import DEEPEST, Fault, Node, Place, node_of, read_tree
from probtrans_cli.text import printable

HINT = "`probtrans --schema` prints every key with its meaning; nothing was run or written"
MOST_FAULTS = 50
"""Faults told of in one message."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


REMOVED: dict[str, tuple[object, str]] = {
    "optim.ivon.predict.temperature": (False, "write predict.temperature"),
    "optim.ternary_penalty.squared": (False, "the norm is never squared"),
    "model.bayes.predict.temperature": (False, "write predict.temperature"),
    "model.positions.per_head": (False, "all heads of a layer share the vectors of distances"),
    "runtime.graphs": (False, "there are no CUDA graphs any more: leave it out"),
    "runtime.parallel": ("ddp", "each process has the whole model: leave it out"),
    "task.dev_masks": (1, "a score during training is that of one draw of masks"),
}
"""Keys of earlier versions: the value that says what is done now, which is still read, and what to do about others."""


# --- overrides and kinds ----------------------------------------------------------------------------------------------


def apply_override(tree: Node, override: str, number: int) -> list[Fault]:
    """Set one ``KEY=VALUE`` in the tree, creating sections on the way; return the faults of the override by itself."""
    key, _, text = override.partition("=")
    key = key.strip()
    place = Place(number, 0, 0, printable(override, 200))
    if key.count(".") >= DEEPEST:
        return [Fault(place, (), f"more than {DEEPEST} levels deep; no recipe is")]
    if not _KEY.fullmatch(key):
        return [Fault(place, (), "left of `=` stands a key such as optim.lr; a list is set as a whole: KEY='[…, …]'")]
    text = '"-"' if text.strip() == "-" else text  # standard input, not a YAML list of nothing
    value, faults = read_tree(text, override, number)
    path = tuple(key.split("."))
    if value is None:
        return [Fault(fault.place, path, f"the value is not YAML: {fault.text}") for fault in faults]
    value.key_place = place
    node, schema = tree, root()
    for depth, part in enumerate(path):
        if not isinstance(node.value, dict):
            words = f"holds {node.shown()}, not a section; a list is set as a whole"
            return [*faults, Fault(place, path[:depth], words)]
        schema = schema_below(schema, part, node)
        if depth == len(path) - 1:
            node.value[part] = value
        elif part not in node.value or node.value[part].value is None:
            node.value[part] = node_of({}, place)
            if path[depth + 1] != "kind":
                _name_kind(node.value[part], schema)
        node = node.value[part]
    return [Fault(fault.place, path + fault.path, fault.text) for fault in faults]


def _name_kind(section: Node, schema: Schema) -> None:
    """Where a section does not name its kind, but leaving it out would have meant one, that one is meant."""
    default = schema.get("default")
    if isinstance(section.value, dict) and has_kinds(schema) and isinstance(default, dict):
        section.value.setdefault("kind", node_of(default["kind"], section.place))


def name_kinds(section: Node, schema: Schema) -> None:
    """Apply :func:`_name_kind` to all sections below this one."""
    for key, node in section.value.items() if isinstance(section.value, dict) else ():
        below = schema_below(schema, key, section)
        _name_kind(node, below)
        name_kinds(node, below)


def schema_below(schema: Schema, key: str, section: Node) -> Schema:
    """The schema of a key within a section; empty where there is no such key."""
    members = kinds(schema).get(kind_of(section) if has_kinds(schema) else "", {})
    below: Schema = members.get("properties", {}).get(key, {})
    return below


def kind_of(section: Node) -> str:
    """The kind that a section names; empty where it names none."""
    kind = section.value.get("kind") if isinstance(section.value, dict) else None
    return str(kind.value) if kind is not None and not isinstance(kind.value, dict | list) else ""


def drop_other_kinds(section: Node, schema: Schema) -> None:
    """Where an override chose another kind, drop the file's keys that only other kinds have; that is what is meant."""
    if not isinstance(section.value, dict):
        return
    members, kind = kinds(schema), section.value.get("kind")
    if has_kinds(schema) and kind is not None and _overridden(kind) and kind_of(section) in members:
        elsewhere = {key for member in members.values() for key in member["properties"]}
        elsewhere -= {*members[kind_of(section)]["properties"]}
        for key in [key for key, node in section.value.items() if key in elsewhere and not _overridden(node)]:
            del section.value[key]
    for key, node in section.value.items():
        drop_other_kinds(node, schema_below(schema, key, section))


def _overridden(node: Node) -> bool:
    """Whether an override set this key or one below it."""
    below = node.value.values() if isinstance(node.value, dict) else ()
    return (node.key_place or node.place).override > 0 or any(map(_overridden, below))


def drop_removed(tree: Node) -> list[Fault]:
    """Remove the keys of :data:`REMOVED` from the tree; the faults are those that asked for something."""
    faults = []
    removed_paths = {tuple(key.split(".")): row for key, row in REMOVED.items()}
    for (first, *below), row in list(removed_paths.items()):
        if first == "model":  # the two encoders of a stack have the keys of `model`
            removed_paths |= {(first, side, *below): row for side in ("lower", "upper")}
    for path, (neutral, advice) in removed_paths.items():
        *sections, last = path
        node: Node | None = tree
        for part in sections:
            node = node.value.get(part) if node is not None and isinstance(node.value, dict) else None
        if node is not None and isinstance(node.value, dict) and last in node.value:
            removed = node.value.pop(last)
            if removed.value != neutral:
                faults.append(Fault(removed.key_place or removed.place, path, f"this key was removed; {advice}"))
    return faults


# --- faults -----------------------------------------------------------------------------------------------------------


def error_of(faults: Sequence[Fault]) -> RecipeError:
    """One error of all faults: those of the file in its order, then those of the overrides in theirs."""
    ordered = sorted(dict.fromkeys(faults), key=lambda fault: fault.place)
    lines = [str(fault) for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        lines.append(f"… and {len(ordered) - MOST_FAULTS:,} more")
    return RecipeError("\n".join(lines), hint=HINT)


def faults_of(tree: Node, error: ValidationError) -> list[Fault]:
    """Pydantic's complaints in words and with their places, at most one for each key."""
    faults: dict[tuple[str, ...], Fault] = {}
    for detail in error.errors(include_url=False, include_input=False):
        reason = detail.get("ctx", {}).get("error")
        if isinstance(reason, InconsistentError):
            several = [Fault(_nearest(tree, path), path, words) for path, words in reason.faults]
        else:
            several = [_fault(tree, detail["loc"])]
        for fault in several:
            faults.setdefault(fault.path, fault)
        if len(faults) > 20 * MOST_FAULTS:  # wording unknown keys takes time
            break
    parents = {path[:-1] for path in faults}
    return [fault for path, fault in faults.items() if path not in parents or path == ()]


def _nearest(tree: Node, path: tuple[str, ...]) -> Place:
    """The place of a key's value, or of the innermost section around it that is written out."""
    for part in path:
        if not (isinstance(tree.value, dict) and part in tree.value):
            break
        tree = tree.value[part]
    return tree.place


def _fault(tree: Node, location: tuple[int | str, ...]) -> Fault:
    """The fault at one of pydantic's locations, which name the user's keys and, in between, kinds and unions."""
    node, schema, parts = tree, root(), list(location)
    path: tuple[str, ...] = ()
    while parts:
        part = parts.pop(0)
        if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
            node, path = node.value[part], (*path, str(part))
            lists = [branch for branch in [schema, *schema.get("anyOf", ())] if branch.get("type") == "array"]
            items = lists[0].get("prefixItems", []) if lists else []
            schema = items[part] if part < len(items) else lists[0].get("items", {}) if lists else {}
        elif isinstance(node.value, dict) and kinds(schema):
            if has_kinds(schema):  # this part is the kind
                if not parts:
                    break
                part = parts.pop(0)
            section, above, path = node, schema, (*path, str(part))
            schema = schema_below(above, str(part), section)
            if part not in node.value:
                return Fault(section.place, path, f"this key is missing; it takes {takes(schema)}")
            node = node.value[str(part)]
            if not schema:
                return Fault(node.key_place or node.place, path, _unknown(section, above, path))
    if isinstance(node.value, dict) and has_kinds(schema):
        schema = {"enum": choices(schema)}
        if "kind" not in node.value:
            return Fault(node.place, path, f"`kind` is missing; it is {takes(schema)}")
        node, path = node.value["kind"], (*path, "kind")
    huge = isinstance(node.value, int | float) and abs(node.value) >= 2**31
    words = f"found {node.shown()}, wanted {takes(schema, every_bound=huge)}{_suggestion(node, schema)}"
    return Fault(node.place, path, words)


def _suggestion(node: Node, schema: Schema) -> str:
    """What to write instead of a wrong value, where that can be guessed."""
    types = {branch.get("type") for branch in [schema, *schema.get("anyOf", ())]}
    if node.value is None and kinds(schema):
        return "; give it keys, or delete the line for the default"
    if isinstance(node.value, int | float) and "string" in types and not choices(schema):
        return "; put it in quotes"
    if not isinstance(node.value, str):
        return ""
    text = node.value.strip()[:80]
    if "boolean" in types and text.lower() in ("yes", "on", "no", "off"):
        return f"; write {'true' if text.lower() in ('yes', 'on') else 'false'}"
    of_section = [kind for member in kinds(schema).values() for kind in choices(member["properties"].get("kind", {}))]
    if close := difflib.get_close_matches(text, of_section, n=1):
        return f"; write `{{kind: {close[0]}}}`"
    close = difflib.get_close_matches(text, choices(schema), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _unknown(section: Node, schema: Schema, path: tuple[str, ...]) -> str:
    """What an unknown key may have been meant to be: a similar one here, or the same one elsewhere."""
    key, members, kind = path[-1], kinds(schema), kind_of(section) if has_kinds(schema) else ""
    if with_it := [f"`kind: {name}`" for name, member in members.items() if key in member["properties"]]:
        return f"unknown key with `kind: {printable(kind, 40)}`; it belongs to {' and '.join(with_it)}"
    names = list(members.get(kind, {}).get("properties", ()))
    keys = [key_path for key_path, _ in every_key()]
    hints = [f"did you mean `{close}`?" for close in difflib.get_close_matches(key[:80], names, n=1)]
    if places := sorted({key_path[:-1] for key_path in keys if key_path[-1] == key and key != "kind"}):
        sections = (f"`{'.'.join(place)}`" if place else "the top level" for place in places)
        hints.append(f"`{key}` belongs to {' and '.join(sections)}")
    if not hints:
        farther = {key_path[-1]: ".".join(key_path) for key_path in keys}
        close = difflib.get_close_matches(key[:80], farther, n=1, cutoff=0.8)
        hints = [f"did you mean `{farther[name]}`?" for name in close]
    where = f"`{'.'.join(path[:-1])}`" if path[:-1] else "the top level"
    return "unknown key; " + ("; ".join(hints) or f"{where} has {', '.join(names)}")
