"""Write the page of equations from the docstrings of the code: ``python tests/text/equations.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parent.parent.parent / "docs" / "equations.md"
ROOT = "probtrans_cli."
INTRODUCTION = """# Equations

What is computed, as the docstrings of the code say: `python tests/text/equations.py` writes this page from them, and
a test compares it with them. Up to "One encoder upon another", numbers in brackets are equations and sections of
[Wu & Tu (2023)](https://aclanthology.org/2023.findings-acl.482/). From "Uncertain weights" on, they are equations of
the derivation "Bayesian Transformers". It is not part of this repository; what the code needs of it stands here.
[Uncertainty](uncertainty.md) says what uncertain weights are good for.
"""
SECTIONS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "The probabilistic transformer": [
        ("models.probabilistic.crf", ()),
        ("models.probabilistic.inference", ()),
        ("models.probabilistic.potentials", ()),
        ("models.probabilistic.factors", ("NeighboursFactor", "ArcsFactor", "RelationsFactor")),
        ("models.arcs", ()),
    ],
    "The causal field": [("models.probabilistic.causal", ())],
    "Heads before anything is learned": [("models.probabilistic.head_bias", ()), ("statistics.word_order", ())],
    "The transformer": [("models.transformer", ())],
    "One encoder upon another": [("models.stacked", ())],
    "Uncertain weights": [("models.bayesian.weights", ("kl",)), ("training.optim", ("IVON",))],
    "Moments in one pass": [
        ("models.bayesian.moments", ()),
        ("models.bayesian.state", ("linear",)),
        ("models.bayesian.attention", ("attention", "Distances")),
        ("models.bayesian.moments", ("layer_norm", "relu", "gelu", "by_points", "mean_over_words")),
        ("models.bayesian.state", ("Together",)),
    ],
    "From uncertain scores to probabilities": [
        ("models.bayesian.readout", ("predictive", "mixture", "with_expected_loss")),
    ],
}
"""Of each section the modules, with names in them; a module's own docstring comes before the first of them."""


def written() -> str:
    """The page, from the docstrings as they are."""
    parts, seen = [INTRODUCTION], set[str]()
    for title, modules in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name, members in modules:
            module = import_module(ROOT + name)
            path = module.__name__.replace(".", "/") + ".py"
            if path not in seen:
                parts.append(f"`{path}`: " + "\n\n".join(_paragraphs(module)) + "\n")
            seen.add(path)
            for member in members:
                parts.append(f"### `{name.rsplit('.', 1)[1]}.{member}`\n")
                parts.append("\n\n".join(_paragraphs(getattr(module, member))) + "\n")
    return "\n".join(parts)


def _paragraphs(what: ModuleType | object) -> Iterator[str]:
    """The docstring as Markdown: equations and tables of symbols as they stand, without what is raised."""
    text = inspect.cleandoc(what.__doc__ or "").split("\nRaises:")[0].strip()
    for paragraph in re.split(r"\n\n+", re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text)):
        if re.search(r"\S {3,}\S|^ {4}", paragraph, re.MULTILINE):
            yield "```text\n" + inspect.cleandoc("\n" + paragraph).replace("``", "") + "\n```"
        else:
            yield paragraph.replace("``", "`").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
