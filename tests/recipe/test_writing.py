"""Writing recipes: what is written is read as the same, by every reader."""

from __future__ import annotations

from itertools import chain
from typing import Any

import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from small_recipes import SMALL, read, refused

from probtrans_cli.recipe import reference as recipe_reference
from probtrans_cli.recipe.base import PATH, InconsistentError
from probtrans_cli.recipe.data import FORMATS
from probtrans_cli.recipe.faults import fields_of
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe
from probtrans_cli.recipe.task import TASKS
from probtrans_cli.recipe.yaml import read_tree, write_tree

SCHEMA = recipe_reference.json_schema()


def flow(value: object) -> str:
    """The text of a value on one line."""
    return write_tree([value]).strip()[1:-1]


TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.sampled_from(
        ["no", "1e3", "a: b", "# x", "010", " x ", "\x85", "\u2028", "\ufeff", "~", "'", '"', "\\", "a:", "\x7f"]
    ),
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a schema, sections with some of their keys."""
    if "$ref" in schema:
        return values(SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    for union in ("oneOf", "anyOf"):
        if union in schema:
            return st.one_of([values(branch) for branch in schema[union]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("pattern") == PATH:
        return TEXTS.filter(lambda text: "\0" not in text)
    if "pattern" in schema:
        return st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")
    if schema["type"] == "object":
        required = set(schema.get("required", ()))
        fields = {key: values(field) for key, field in schema["properties"].items()}
        return st.fixed_dictionaries(
            {key: fields[key] for key in sorted(required)},
            optional={key: field for key, field in fields.items() if key not in required},
        )
    if schema["type"] == "array":
        if "prefixItems" in schema:
            return st.tuples(*[values(item) for item in schema["prefixItems"]]).map(list)
        return st.lists(values(schema["items"]), min_size=1, max_size=3)
    low, above = schema.get("minimum", schema.get("exclusiveMinimum")), "exclusiveMinimum" in schema
    high, below = schema.get("maximum", schema.get("exclusiveMaximum")), "exclusiveMaximum" in schema
    if schema["type"] == "integer":
        step = schema.get("multipleOf", 1)
        high = 2**31 - 1 if high is None or below else high
        return st.integers(-1 if low is None else -(-low // step), high // step).map(lambda value: value * step)
    if schema["type"] == "number":
        return st.floats(low, high, exclude_min=above, exclude_max=below, allow_nan=False, allow_infinity=False)
    return {"boolean": st.booleans(), "null": st.none(), "string": TEXTS}[schema["type"]]


RECIPES = values(SCHEMA)
SIZES = {"labels", "channels", "distance", "rank", "features", "width", "inner", "heads", "head_size", "layers", "rows"}


def sections(section: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [sections(part) for part in section.values() if isinstance(part, dict)]
    return [section, *chain.from_iterable(inner)]


def valid(content: Any) -> Recipe:
    """A recipe of this content, with files that its task can learn from."""
    content.get("eval", {}).update(iteration=-1, channel="best")
    for section in sections(content.get("model", {})):  # not all of them large, and without folders that are not there
        section.update({key: 2 + section[key] % 40 // 2 * 2 for key in SIZES if isinstance(section.get(key), int)})
        section.pop("from", None)
    data, kind = content["data"], content["task"]["kind"]
    fitting = [name for name, one in FORMATS.items() if TASKS[kind].needs in one.gives]
    if data.get("format", "auto") not in fitting:
        data["format"] = fitting[0]
    for name in ("columns", "table", "jsonl", "documents", "grid"):
        if name in data and FORMATS[data.get("format", "auto")].options != name:
            del data[name]
    if data.get("format") == "columns" and kind == "ner":
        data.setdefault("columns", {})["entities"] = "bioes"
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        assume(not all(isinstance(one.get("ctx", {}).get("error"), InconsistentError) for one in error.errors()))
        raise


@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(RECIPES, st.lists(TEXTS, max_size=2))
def test_written_and_read_again_a_recipe_is_equal(content: Any, header: list[str]) -> None:
    recipe = valid(content)
    text = dump_recipe(recipe, header)
    assert read(text) == recipe
    assert dump_recipe(read(text)) == dump_recipe(recipe)
    resolved = recipe.resolved()
    assert read(dump_recipe(resolved)) == resolved
    assert read(dump_recipe(resolved, complete=False)) == resolved


@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(RECIPES)
def test_readers_of_yaml_1_1_agree_with_what_is_written(content: Any) -> None:
    recipe = valid(content)
    loaded = yaml.safe_load(dump_recipe(recipe))
    assert loaded == recipe.model_dump(mode="json", by_alias=True)


LEAVES = [(path, schema) for path, schema in recipe_reference.every_key() if not recipe_reference.kinds(schema)]


@st.composite
def changes(draw: st.DrawFn) -> tuple[tuple[str, ...], Any]:
    path, schema = draw(st.sampled_from([leaf for leaf in LEAVES if leaf[0][-1] not in ("kind", "from")]))
    return path, draw(values(dict(schema)))


@settings(max_examples=25, deadline=None)
@given(st.lists(changes(), max_size=4))
@example([(("task", "mlm"), 0.0), (("task", "mlm", "rate"), 0.5)])  # a number in one kind of task, a section in others
def test_overrides_do_what_editing_the_file_does(drawn: list[tuple[tuple[str, ...], Any]]) -> None:
    content = yaml.safe_load(SMALL)
    overrides = [f"{'.'.join(path)}={flow(value)}" for path, value in drawn]
    for path, value in drawn:
        section, schema = content, recipe_reference.root()
        for part in path[:-1]:
            schema = fields_of(schema, section).get(part, {})
            default = schema.get("default") or {}
            has_kind = default and recipe_reference.has_kinds(schema)
            if not isinstance(section.get(part), dict):
                section[part] = {"kind": default["kind"]} if has_kind else {}
            section = section[part]
        section[path[-1]] = value
    try:
        expected = Recipe.model_validate(content)
    except ValidationError:
        refused(SMALL, *overrides)
    else:
        assert read(SMALL, *overrides) == expected
        assert read(dump_recipe(expected)) == expected


@settings(max_examples=80, deadline=None)
@given(TEXTS)
@example("\x00")
def test_texts_survive(text: str) -> None:
    document = read_tree(f"a: {flow(text)}\nb: [{flow(text)}, 1]\n", "x")
    assert not document.faults
    assert document.content == {"a": text, "b": [text, 1]}
    assert yaml.safe_load(f"[{flow(text)}]") == [text]


def test_floats_are_floats_to_every_reader() -> None:
    written = [flow(number) for number in (1e-5, 1e16, 0.1, 3.0, 1.5e-9)]
    assert written == ["1.0e-05", "1.0e+16", "0.1", "3.0", "1.5e-09"]


def test_headers_are_comments() -> None:
    text = dump_recipe(read(SMALL), ["probtrans train x\nname: evil", "a\x1b\u2028name: z", ""])
    assert text.startswith("# probtrans train x\n# name: evil\n# a\\x1b\n# name: z\n#\nversion: 1\n")
    assert read(text) == read(SMALL)
