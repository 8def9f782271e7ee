"""A small treebank, a recipe of it, and what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from probtrans_cli.recipe.schema import Recipe


def treebank(*sentences: str) -> str:
    """CoNLL-U of sentences such as `the/DET/2 dog/NOUN/0`; XPOS stays empty."""
    text = ""
    for sentence in sentences:
        for i, word in enumerate(sentence.split(), start=1):
            form, upos, head = word.rsplit("/", 2)
            text += f"{i}\t{form}\t_\t{upos}\t_\t_\t{head}\t_\t_\t_\n"
        text += "\n"
    return text


TRAIN = treebank("the/DET/2 dog/NOUN/3 barks/VERB/0 ./PUNCT/3", "dog/NOUN/0", "$/SYM/2 the/DET/0 [red]/X/1")
DEV = treebank("the/DET/2 cat/NOUN/0 !/PUNCT/2", "meows/INTJ/0")


def recipe(task: dict[str, Any] | None = None, **data: Any) -> Recipe:
    data = {"train": "train.conllu", "dev": "dev.conllu", **data}
    return Recipe.model_validate({"name": "x", "data": data, "task": task or {"kind": "mlm"}})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
