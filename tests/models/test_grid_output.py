"""Iterative grid labelling: the output layer, beside its equations word by word."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from small_tasks import randomized
from test_encoder_contract import NEAR, SMALL, VOCABULARY

from probtrans_cli import models
from probtrans_cli.models.base import Inputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.openie.output import GridOutput

LABELS, ROWS_OF_GRID, STEPS = 4, 3, 2
FEEDBACKS = ("scores", "hidden", "both", "none")


def network(kind: str = "transformer", **options: Any) -> Network:
    torch.manual_seed(0)
    made = models.build({"kind": kind, **SMALL[kind]})
    options = {"rows": ROWS_OF_GRID, "steps": STEPS, "merge": 5, **options}
    built = Network(VOCABULARY, made, lambda encoder: GridOutput(encoder.facts.width, LABELS, **options))
    torch.manual_seed(1)
    return randomized(built)


def batch(pieces: bool = False) -> tuple[Inputs, torch.Tensor]:
    """Two sentences of 5 and 3 words; as pieces, `[CLS]` in front and `[SEP]` behind, and some words of two pieces."""
    generator = torch.Generator().manual_seed(3)
    if not pieces:
        ids = torch.randint(3, VOCABULARY, (2, 5), generator=generator)
        words = torch.arange(5) < torch.tensor([[5], [3]])
        return Inputs(ids=ids, mask=words), words
    sizes = [[1, 2, 1, 3, 1], [2, 1, 1]]
    longest = max(sum(one) for one in sizes) + 2
    ids = torch.randint(3, VOCABULARY, (2, longest), generator=generator)
    first, mask = torch.full((2, 5), longest), torch.zeros(2, longest, dtype=torch.bool)
    for row, of in enumerate(sizes):
        first[row, : len(of)] = torch.tensor([1 + sum(of[:k]) for k in range(len(of))])
        mask[row, : sum(of) + 2] = True
    return Inputs(ids=ids, mask=mask, first=first), first < longest


def by_hand(made: Network, given: Inputs, words: torch.Tensor, told: torch.Tensor | None = None) -> torch.Tensor:
    """The equations of ``openie/output.py``, a sentence and a word at a time."""
    output, encoder = made.output, made.encoder
    table = None if output.table is None else output.table.weight
    scores = torch.zeros(*words.shape[:1], ROWS_OF_GRID, words.shape[1], LABELS, dtype=torch.float64)
    for b in range(len(words)):
        n, w = int(given.mask[b].sum()), int(words[b].sum())
        first = list(range(w)) if given.first is None else given.first[b, :w].tolist()
        ends = [*first[1:], n - (given.first is not None)]
        starts = None if given.first is None else given.first[b : b + 1, :w]
        alone = Inputs(ids=given.ids[b : b + 1, :n], mask=given.mask[b : b + 1, :n], first=starts)
        reading = encoder.begin(made._words(alone, made.unary(alone.ids), None), STEPS)
        labels: list[int] = []
        for m in range(ROWS_OF_GRID):
            bias = torch.zeros(1, n, encoder.facts.width, dtype=torch.float64)
            if labels and output.feedback in ("hidden", "both"):
                for i, label in zip(first, labels, strict=True):
                    bias[0, i] += table[label] if label else 0.0
            reading = encoder.again(reading, bias)
            row = []
            for i in range(w):
                pieces = range(first[i], ends[i]) if output.of_words == "mean" else [first[i]]
                state = sum(reading.states[0, p] for p in pieces) / len(pieces)
                if labels and output.feedback in ("scores", "both"):
                    state = state + table[labels[i]]
                scores[b, m, i] = output.label(output.merge(state))
                row.append(int(scores[b, m, i].argmax()))
            labels = row if told is None else told[b, m, :w].tolist()
    return scores


def rows_of(made: Network, given: Inputs, words: torch.Tensor, **more: Any) -> torch.Tensor:
    return made(given, Wants(words=words, **more)).scores["rows"]


@pytest.mark.parametrize("kind", models.ENCODERS)
@torch.no_grad()
def test_scores_are_those_of_the_equations(kind: str) -> None:
    """Of words, and of pieces in either way; each with every feedback."""
    for feedback, (of_words, pieces) in product(FEEDBACKS, (("first", False), ("first", True), ("mean", True))):
        made = network(kind, feedback=feedback, words=of_words)
        given, words = batch(pieces)
        scores = rows_of(made, given, words) * words[:, None, :, None]
        torch.testing.assert_close(scores, by_hand(made, given, words), **NEAR)


@pytest.mark.parametrize("kind", models.ENCODERS)
def test_padding_changes_no_score(kind: str) -> None:
    made = network(kind, feedback="both")
    given, words = batch()
    together = rows_of(made, given, words)
    alone = rows_of(made, Inputs(ids=given.ids[1:, :3], mask=given.mask[1:, :3]), words[1:, :3])
    torch.testing.assert_close(together[1:, :, :3], alone, **NEAR)


def test_the_first_row_hears_of_no_label() -> None:
    given, words = batch()
    first = {feedback: rows_of(network(feedback=feedback), given, words) for feedback in FEEDBACKS}
    # The same weights but for the table, which is drawn last and absent with `none`.
    for feedback in FEEDBACKS:
        torch.testing.assert_close(first[feedback][:, 0], first["none"][:, 0], **NEAR)
    for feedback in ("scores", "hidden", "both"):
        assert (first[feedback][:, 1] - first["none"][:, 1]).abs().max() > 1e-3


def test_a_single_row_leaves_the_table_alone() -> None:
    made = network(rows=1)
    given, words = batch()
    rows_of(made, given, words).sum().backward()
    assert made.output.table.weight.grad is None
    assert made.output.merge.weight.grad is not None


def test_labels_can_be_told() -> None:
    made = network(feedback="both")
    given, words = batch(pieces=True)
    told = torch.randint(0, LABELS, (2, ROWS_OF_GRID, 5), generator=torch.Generator().manual_seed(5))
    expected = by_hand(made, given, words, told)
    found = rows_of(made, given, words, fed_back=told)
    torch.testing.assert_close(found * words[:, None, :, None], expected, **NEAR)
    unsaid = torch.full_like(told, -1)
    torch.testing.assert_close(rows_of(made, given, words, fed_back=unsaid), rows_of(made, given, words), **NEAR)


def test_rows_behind_the_end_are_left_out_and_have_no_label() -> None:
    made = network(rows=3)
    given, words = batch()
    with torch.no_grad():  # label 0 wherever it can be
        made.output.label.bias.copy_(torch.tensor([50.0, 0.0, 0.0, 0.0]))
    whole, ended = rows_of(made, given, words), rows_of(made, given, words, ends=True)
    torch.testing.assert_close(ended[:, 0], whole[:, 0], **NEAR)
    assert (ended[:, 1:].argmax(-1) == 0).all()
    assert torch.isfinite(ended).all()
    with torch.no_grad():  # half of the first sentence's words have label 1, the others label 2, so it does not end
        made.output.label.bias.copy_(torch.tensor([-50.0, 0.0, 0.0, -50.0]))
        first = rows_of(made, given, words)[0, 0]
        made.output.label.bias[2] += (first[:, 1] - first[:, 2]).median() + 1e-6
    whole, ended = rows_of(made, given, words), rows_of(made, given, words, ends=True)
    both = [{1, 2} <= set(row[real].tolist()) for row, real in zip(whole[:, 0].argmax(-1), words, strict=True)]
    assert any(both)
    torch.testing.assert_close(ended[:, 1], whole[:, 1], **NEAR)


def test_the_bias_of_no_label_is_added_outside_of_training() -> None:
    made = network(rows=1)
    given, words = batch()
    before = rows_of(made, given, words)
    made.output.none_bias.fill_(-2.0)
    after = rows_of(made, given, words)
    torch.testing.assert_close(after[..., 0], before[..., 0] - 2.0, **NEAR)
    torch.testing.assert_close(after[..., 1:], before[..., 1:], **NEAR)
    torch.testing.assert_close(rows_of(made.train(), given, words), before, **NEAR)


def test_states_and_arcs_are_those_of_the_first_reading() -> None:
    made = network("probabilistic")
    given, words = batch()
    found = made(given, Wants(words=words, states=True, arcs=(1, 3)))
    alone = made(given, Wants(states=True, arcs=(1, 3)))
    torch.testing.assert_close(found.states, alone.states, **NEAR)
    torch.testing.assert_close(found.arcs, alone.arcs, **NEAR)
    torch.testing.assert_close(found.scores["rows"], rows_of(made, given, words), **NEAR)
