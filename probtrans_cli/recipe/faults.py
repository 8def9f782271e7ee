"""What is wrong with a recipe, in words: pydantic's complaints with their places, and one error of all faults."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence

from pydantic import ValidationError

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.overrides import below, kind_of
from probtrans_cli.recipe.reference import Schema, choices, every_key, has_kinds, kinds, root, takes
from probtrans_cli.recipe.yaml import Fault, Items, Mapping, Node, Place, Scalar, shown
from probtrans_cli.text import printable

HINT = "`probtrans --schema` prints every key with its meaning; nothing was run or written"
MOST_FAULTS = 50
"""Faults told of in one message."""
MOST_WORDED = 1000
"""Faults put into words."""


def error_of(faults: Sequence[Fault]) -> RecipeError:
    """One error of all faults: those of the file in its order, then those of the overrides in theirs."""
    ordered = sorted(dict.fromkeys(faults), key=lambda fault: fault.place)
    lines = [str(fault) for fault in ordered[:MOST_FAULTS]]
    if len(ordered) > MOST_FAULTS:
        # Where there are very many, not all were put into words.
        least = "at least " if len(ordered) >= MOST_WORDED - MOST_FAULTS else ""
        lines.append(f"… and {least}{len(ordered) - MOST_FAULTS:,} more")
    return RecipeError("\n".join(lines), hint=HINT)


def in_words(tree: Mapping, error: ValidationError) -> list[Fault]:
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
        if len(faults) > MOST_WORDED:  # wording unknown keys takes time
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
            return [_missing(node, path, key, below(schema, key, node))]
        schema_below = below(schema, key, node)
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
    return Fault(section.place, (*path, key), f"this key is missing; it takes {takes(schema)}")


def _wrong(node: Node, schema: Schema) -> str:
    """What was found and what is wanted, and how to write it where that is known."""
    value = node.value if isinstance(node, Scalar) else None
    huge = isinstance(value, int | float) and abs(value) >= 2**31
    return f"found {shown(node)}, wanted {takes(schema, every_bound=huge)}{_meant(node, schema)}"


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
    if "\0" in node.value:
        return "; no name of a file has a zero byte"
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
        return f"unknown key with `kind: {printable(kind_of(section), 40)}`; it belongs to {kinds_with_it}"
    known = list(members.get(kind_of(section) if has_kinds(schema) else "", {}).get("properties", ()))
    elsewhere = {
        other[:-1]: None for other, _ in every_key() if other[-1] == key and other[:-1] != path and key != "kind"
    }
    hints = []
    if close := difflib.get_close_matches(key[:80], known, n=1):
        hints.append(f"did you mean `{close[0]}`?")
    if elsewhere:
        places = " and ".join(f"`{'.'.join(other)}`" if other else "the top level" for other in sorted(elsewhere))
        hints.append(f"`{key}` belongs to {places}")
    if not hints:
        farther = {other[-1]: other for other, _ in every_key()}
        if close := difflib.get_close_matches(key[:80], farther, n=1, cutoff=0.8):
            hints.append(f"did you mean `{'.'.join(farther[close[0]])}`?")
    here = f"`{'.'.join(path)}` has" if path else "the top level has"
    return f"unknown key; {'; '.join(hints)}" if hints else f"unknown key; {here} {', '.join(known)}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
