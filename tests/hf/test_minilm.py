"""The real all-MiniLM-L6-v2, where `probtrans fetch minilm` has put it: read as `transformers` reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import real_data
from torch.nn import functional

from probtrans_cli.data.vocabularies.wordpiece import read_wordpieces
from probtrans_cli.hf import read_bert
from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.recipe.model import Transformer
from probtrans_cli.recipe.source import read_recipe

TEXT = ("Ann", "'s", "unbelievably", "cheap", "café", "re-opened", ",", "did", "n't", "it", "?")


@pytest.fixture
def folder() -> Path:
    return real_data("models/minilm")


def test_a_recipe_needs_to_name_nothing_but_the_folder(folder: Path) -> None:
    text = f"name: x\ndata: {{train: a.txt}}\ntask: {{kind: mlm}}\nmodel: {{kind: transformer, from: {folder}}}\n"
    model = read_recipe(text.encode(), "x.yaml").model
    assert isinstance(model, Transformer)
    assert (model.width, model.heads, model.inner, model.layers) == (384, 12, 1536, 6)
    assert (model.activation, model.norm_eps, model.segments, model.facts.position_rows) == ("gelu", 1e-12, 2, 512)


def test_pieces_and_states_are_those_of_transformers(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    vocabulary = read_wordpieces(folder, rows=30522)
    ids = torch.tensor([vocabulary.encode_words(TEXT).ids])
    assert ids[0].tolist() == tokenizer(list(TEXT), is_split_into_words=True)["input_ids"]
    bert = read_bert(folder)
    assert bert.unexpected == []
    assert bert.notes == []
    encoder = build(bert.section).eval()
    encoder.load_state_dict(bert.part("encoder"))
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    with torch.no_grad():
        ours = encoder(
            Words(functional.embedding(ids, bert.tensors["unary.weight"]), torch.ones_like(ids, dtype=torch.bool))
        )
        expected = theirs(input_ids=ids)
    torch.testing.assert_close(ours.states, expected.last_hidden_state, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.sentence, expected.pooler_output, rtol=0, atol=1e-4)
