"""Factors are known by their expected score alone: inference, energy and training follow from it."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import encoder, root_scores, sentences
from torch import Tensor

from probtrans_cli.errors import UsageError
from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic.crf import MeanField, Ternary
from probtrans_cli.models.probabilistic.factors import FACTOR_KINDS
from probtrans_cli.models.probabilistic.inference import Sentences, State
from probtrans_cli.recipe import base
from probtrans_cli.recipe.model.probabilistic import FACTORS as SECTIONS

FACTORS = [{"kind": "neighbours"}, {"kind": "grandparents", "rank": 2}]
ARCS = {"kind": "arcs", "distances": [1], "between": 2}
FIELD: dict[str, Any] = {"labels": 2, "channels": 1, "distance": 1, "root": {"labels": 2}}


@pytest.fixture(scope="module", autouse=True)
def _grandparents() -> Iterator[None]:
    """Add the kind from outside for this file alone: other tests look at the schema of recipes."""
    import_module("outside.grandparents")
    yield
    del sys.modules["outside.grandparents"], SECTIONS["grandparents"], FACTOR_KINDS["grandparents"]
    for section in SECTIONS.built:
        section.model_rebuild(force=True)
    for listener in base.CHANGED:
        listener()


def field(n: int, **options: Any) -> tuple[Any, MeanField, Tensor]:
    model = encoder(**FIELD | options)
    unary, mask = sentences([n], labels=2)
    return model, model.field(unary, mask), unary


def one_hot(index: int, size: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(index), size).double()


def assignment(labels: tuple[int, ...], heads: tuple[int, ...], root: int) -> State:
    """The state in which every variable is certain; the head n is the root."""
    n = len(labels)
    return State(
        torch.stack([one_hot(label, 2) for label in labels])[None],
        torch.stack([one_hot(head, n + 1) for head in heads])[None, None],
        one_hot(root, 2)[None],
        None,
    )


def loop_score(model: Any, unary: Tensor, labels: tuple[int, ...], heads: tuple[int, ...], root: int) -> float:
    """The score of one assignment by loops over words, written from the definitions of the factors."""
    n = len(labels)
    T, at_root = model.ternary_scores(range(1 - n, n)), root_scores(model)
    total = sum(float(unary[0, i, a]) for i, a in enumerate(labels))
    for i, j in enumerate(heads):
        score = at_root[0, labels[i], root] if j == n else T[i - j + n - 1, 0, labels[i], labels[j]]
        total += float(score)
    for factor in model.further:
        if type(factor).__name__ == "GrandparentsFactor":
            P = factor.U[0].T @ factor.V[0]
            for i, j in enumerate(heads):
                if j != n and heads[j] not in (i, n):
                    total += float(P[labels[i], labels[heads[j]]])
        elif type(factor).__name__ == "ArcsFactor":
            for i, j in enumerate(heads):
                if j == n:  # what stands before the word and behind it
                    for m, (side, words) in itertools.product(range(2), enumerate((range(i), range(i + 1, n)))):
                        rates = (float(factor.R(unary[0, w])[m].exp().log1p()) for w in words)
                        total += (1.0 - math.exp(-sum(rates))) * float(factor.Y[side, m, labels[i]])
                else:
                    k = next(k for k, most in enumerate([*factor.distances, n]) if abs(i - j) <= most)
                    k += (i < j) * (len(factor.distances) + 1)
                    a, b = labels[i], labels[j]
                    total += float(factor.S[a, b] + factor.q[k, a] + factor.r[k, b] + factor.p[k, 0])
                    for m in range(2):  # the probability that a word between the two is of class m
                        rates = (float(factor.R(unary[0, w])[m].exp().log1p()) for w in range(min(i, j) + 1, max(i, j)))
                        s = int(i < j)
                        total += (1.0 - math.exp(-sum(rates))) * float(factor.X[s, m, a] + factor.X[2 + s, m, b])
        else:
            total += sum(float(factor.N[a, b]) for a, b in itertools.pairwise(labels))
    return total


@torch.no_grad()
@pytest.mark.parametrize("factors", [[], FACTORS[:1], FACTORS[1:], [*FACTORS, ARCS]])
def test_the_expected_score_of_every_assignment_is_its_score(factors: list[dict[str, Any]]) -> None:
    n = 3
    model, inference, unary = field(n, factors=factors)
    for labels in itertools.product(range(2), repeat=n):
        for heads in itertools.product(range(n + 1), repeat=n):
            if any(i == j for i, j in enumerate(heads)):
                continue
            score = inference.expected_score(assignment(labels, heads, 1)).item()
            assert score == pytest.approx(loop_score(model, unary, labels, heads, 1), abs=1e-9)


@torch.no_grad()
def test_messages_are_differences_of_the_expected_score() -> None:
    """It is linear in each variable, so a message to a variable is the score with the variable certain, less a rest."""
    _, inference, _ = field(4, factors=[*FACTORS, ARCS, {"kind": "relations"}], head_labels=True, channels=2)
    Q = inference.Q
    messages = inference.messages(Q, "labels", "heads", "root")
    for i, (a, b) in itertools.product(range(4), [(0, 1)]):
        scores = []
        for label in (a, b):
            labels = Q.labels.clone()
            labels[0, i] = one_hot(label, 2)
            scores.append(inference.expected_score(Q._replace(labels=labels)).item())
        message = messages["labels"][0, i]
        assert scores[1] - scores[0] == pytest.approx((message[b] - message[a]).item(), abs=1e-9)
    for i, c, j in itertools.product(range(4), range(2), range(5)):
        if i != j:
            heads = Q.heads.clone()
            heads[0, :, i] = 0.0
            without = inference.expected_score(Q._replace(heads=heads)).item()
            heads[0, c, i, j] = 1.0
            score = inference.expected_score(Q._replace(heads=heads)).item()
            assert score - without == pytest.approx(messages["heads"][0, c, i, j].item(), abs=1e-9)


@torch.no_grad()
def test_the_free_energy_bounds_the_log_partition() -> None:
    """With all weights 1, over the sum of all assignments, with factors that join heads."""
    n, weights = 3, {"labels": 1.0, "heads": 1.0}
    model, inference, unary = field(n, factors=FACTORS, message_weight=weights, iterations=6)
    scores = [
        loop_score(model, unary, labels, heads, root)
        for labels in itertools.product(range(2), repeat=n)
        for heads in itertools.product(range(n + 1), repeat=n)
        if all(i != j for i, j in enumerate(heads))
        for root in range(2)
    ]
    log_partition = torch.logsumexp(torch.tensor(scores), 0).item()
    bound = -inference.energy(inference.advance(6, history=[6])[-1]).item()
    assert log_partition - 3.0 < bound <= log_partition


@torch.no_grad()
@pytest.mark.parametrize("labelled", [True, False])
def test_the_score_of_relations_is_that_of_loops_over_pairs_of_arcs(labelled: bool) -> None:
    """Of every assignment of heads with labels; and where each channel has heads of its own, of random ones."""
    n, h = 3, 2
    model, inference, _ = field(n, channels=h, head_labels=labelled, factors=[{"kind": "relations"}])
    (factor,) = model.further
    pairs = [[(c, j) for c in range(h) for j in range(n + 1) if j != i] for i in range(n)]
    if labelled:
        assignments = [[[pair] for pair in chosen] for chosen in itertools.product(*pairs)]
    else:
        draw = random.Random(1)
        assignments = [
            [[(c, draw.choice([j for j in range(n + 1) if j != i])) for c in range(h)] for i in range(n)]
            for _ in range(200)
        ]
    for arcs_of in assignments:
        heads = torch.zeros(1, h, n, n + 1, dtype=torch.float64)
        for i, arcs in enumerate(arcs_of):
            for c, j in arcs:
                heads[0, c, i, j] = 1.0
        labels, expected = inference.Q.labels[0], 0.0
        for i, arcs in enumerate(arcs_of):
            for c, j in arcs:
                expected += float(factor.x[c] @ labels[i]) + (float(factor.y[c] @ labels[j]) if j != n else 0.0)
        for i, k in itertools.permutations(range(n), 2):
            for (c, j), (e, m) in itertools.product(arcs_of[i], arcs_of[k]):
                if j == k:
                    expected += float(factor.W[c, e])
                if j == m != n:
                    expected += float(factor.V[c, e])
        score = factor.score(inference.Q._replace(heads=heads), inference.sentences)
        assert score.item() == pytest.approx(expected, abs=1e-12)


def test_training_reads_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who edits nothing but a factor's score sees another loss and other gradients; so with ``messages: plain``."""
    model = encoder(messages="plain")
    unary, mask = sentences([5, 3])
    before = model(Words(unary, mask)).states
    score = Ternary.score
    monkeypatch.setattr(Ternary, "score", lambda self, Q, batch: 2.0 * score(self, Q, batch))
    after = model(Words(unary, mask)).states
    assert not torch.allclose(before, after)
    doubled = encoder(messages="fast")
    with torch.no_grad():
        doubled.ternary.U.mul_(2.0)
    torch.testing.assert_close(after, doubled(Words(unary, mask)).states)


def test_an_edited_equation_is_not_passed_over_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a training, the fast forms are compared with the equations; plain ones are told of."""
    assert encoder().check_forms() is None
    assert encoder(output="probabilities", globals={"kind": "rectified", "features": 3}).check_forms() is None
    assert Path(encoder(messages="plain").check_forms() or "").name == "crf.py"
    assert encoder(factors=FACTORS[:1]).check_forms() is not None
    score = Ternary.score
    monkeypatch.setattr(Ternary, "score", lambda self, Q, batch: -score(self, Q, batch))
    with pytest.raises(UsageError, match=r"differ from the equations in .*crf.py") as caught:
        encoder().check_forms()
    assert "runtime.messages=plain" in (caught.value.hint or "")


def test_an_edit_that_concerns_far_heads_alone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    score = Ternary.score

    def near(self: Ternary, Q: State, sentences: Any) -> Tensor:
        word = torch.arange(Q.labels.shape[1])
        far = (word[:, None] - word).abs() > 20
        return score(self, Q, sentences) - (Q.word_heads * far).sum((1, 2, 3))

    monkeypatch.setattr(Ternary, "score", near)
    with pytest.raises(UsageError, match="differ from the equations"):
        encoder().check_forms()


def test_the_plain_equations_have_second_derivatives() -> None:
    """They are derivatives of the score by automatic differentiation; fast ones are partly written by hand."""
    model = encoder(messages="plain", labels=2, channels=1, iterations=2)
    unary, mask = sentences([2], labels=2)
    assert torch.autograd.gradgradcheck(lambda scores: model(Words(scores, mask)).states, unary.requires_grad_())


def test_a_further_factor_learns() -> None:
    model = encoder(factors=[*FACTORS, ARCS])
    assert model.plain
    unary, mask = sentences([4, 2])
    model(Words(unary, mask)).states.square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in model.further.parameters())
    padded = torch.nn.functional.pad(mask, (0, 2))
    wider = model(Words(torch.nn.functional.pad(unary, (0, 0, 0, 2), value=7.0), padded)).states
    torch.testing.assert_close(wider[:, :4], model(Words(unary, mask)).states)


def test_sentences_of_one_word_have_no_neighbours() -> None:
    model = encoder(factors=FACTORS)
    unary, mask = sentences([1])
    assert model(Words(unary, mask)).states.isfinite().all()
    assert Sentences(unary, mask).cues is None
