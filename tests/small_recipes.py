"""Shared by tests of recipes: a small and a full one, and what reading a text gives."""

from __future__ import annotations

import pytest

from probtrans_cli.errors import RecipeError
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import read_recipe

SMALL = """\
# Smallest recipe
name: small
data:
  train: a.conllu
  dev: b.conllu
task:
  kind: mlm
"""

FULL = """\
# yaml-language-server: $schema=./schema.json
# A recipe with most keys
version: 1
name: full
seed: 7
data:
  train: [a.conllu, b.conllu]
  dev: dev.conllu
  vocabulary:
    kind: words
    min_count: 2
    lowercase: true
task:
  kind: tagging
  column: xpos
model:
  kind: probabilistic
  labels: 64
  channels: 4
  decomposition:
    kind: uv
    rank: 16
  distance: 3
optim:
  kind: adam
  lr: 1e-3
  betas: [0.9, 0.98]
  schedule:
    kind: plateau
    factor: .5
    patience: 3
train:
  epochs: 1e2
  batch_words: 1024
eval:
  channel: 2
"""


def read(text: str | bytes, *overrides: str) -> Recipe:
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return read_recipe(content, "r.yaml", overrides)


def refused(text: str | bytes, *overrides: str) -> list[str]:
    """The lines of the error that a recipe gives."""
    with pytest.raises(RecipeError) as caught:
        read(text, *overrides)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    return caught.value.message.split("\n")


def message_of(text: str, *overrides: str) -> str:
    """What a recipe is refused with, "" where it is read. Any other exception fails the test."""
    try:
        assert isinstance(read(text, *overrides), Recipe)
    except RecipeError as error:
        return error.message
    return ""
