"""A slot of the causal field by plain loops and by enumeration, from the equations alone: slow, to compare with.

symbol   variable   shape        meaning
s        unary      [d]          message of the word to its label: S[w], or s̄ of a hidden word
q        prefix     [j][d]       label distributions of the earlier words j = 0 .. t-1
T(x)     T(x)       [c][d][d]    ternary scores at the distance x = t - j
r        r          [c][d]       the root's scores
B        B          [g][m][d]    global features of channel g, or of all
C        C          [d][d]       chain, or None
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oracle import on_the_sphere, rectified, softmax

from probtrans_cli.recipe.model import ProbabilisticTransformer

Row = list[float]


@dataclass
class Potentials:
    """Those of one iteration."""

    T: Callable[[int], Any]
    r: Any
    B: Any = None
    C: Any = None


@dataclass
class Slot:
    """Entries for each iteration, the start included."""

    labels: list[Row]
    scores: list[Row]
    heads: list[list[Row]]


def slot(
    section: ProbabilisticTransformer,
    unary: Row,
    prefix: Callable[[int], Sequence[Row]],
    potentials: Sequence[Potentials],
    rounds: int,
    *,
    hidden: bool = False,
) -> Slot:
    """Run mean field in one slot; ``prefix(number)``: q of the earlier words as an iteration reads them, from 1.

    ``hidden``: of a readout, whose potentials these are; the message of the chain is there from the start.
    """
    d, h, kind = section.labels, section.channels, section.globals.kind if section.globals else None
    t = len(prefix(1))
    weight, alpha, beta = section.resolved().message_weight, section.step_size, section.damping
    spherical = section.latent == "spherical"
    variable = [variable_of(section, c, h) for c in range(h)]
    K, size = section.label_variables, d // section.label_variables

    def by_variable(M: Row) -> Row:
        return [x for k in range(K) for x in softmax(M[k * size : (k + 1) * size])]

    mean = on_the_sphere if spherical else by_variable
    degrees, lambda_G = (rectified, 1.0) if kind == "rectified" else (softmax, weight.features or weight.heads)
    start = [unary[a] + (chain(potentials[0], prefix(1), a) if hidden else 0.0) for a in range(d)]
    M_Z = [x / weight.labels if spherical else x for x in start]
    Q_Z, M_H, M_G = mean(M_Z), None, None
    features = len(potentials[0].B[0]) if kind else 0
    second = {"dep-split": h, "single-split": 1, "rectified": 1}.get(kind or "", 0)
    columns = t + 1 + (features if kind == "all-dep" else 0)
    Q_H = [[1.0 / columns] * columns for _ in range(h)]
    Q_G = [degrees([0.0] * features) for _ in range(second)]
    trace = Slot([Q_Z], [M_Z], [Q_H])
    for number in range(1, rounds + 1):
        p, q = potentials[min(number, len(potentials)) - 1], prefix(number)
        T = {j: p.T(t - j) for j in range(t)}

        def B_c(c: int, j: int, a: int, p: Any = p, q: Any = q, T: Any = T) -> float:
            if a // size != variable[c]:
                return 0.0
            if j < t:
                return sum(q[j][b] * T[j][c][a][b] for b in range(d))
            return p.r[c][a] if j == t else p.B[c][j - t - 1][a]

        F = [[sum(Q_Z[a] * B_c(c, j, a) for a in range(d)) / weight.heads for j in range(columns)] for c in range(h)]
        E = [
            [
                sum(Q_Z[a] * p.B[g][k][a] for a in range(d) if second < h or a // size == variable[g]) / lambda_G
                for k in range(features)
            ]
            for g in range(second)
        ]
        M_H = damped(F, M_H, beta.heads)
        M_G = damped(E, M_G, beta.heads)
        new_H = stepped([softmax(row) for row in M_H], Q_H, alpha.heads)
        new_G = stepped([degrees(row) for row in M_G], Q_G, alpha.heads)
        heads, chosen = (new_H, new_G) if section.schedule == "asynchronous" else (Q_H, Q_G)
        G = [
            unary[a]
            + sum(heads[c][j] * B_c(c, j, a) for c in range(h) for j in range(columns))
            + sum(
                chosen[g][k] * p.B[g][k][a]
                for g in range(second)
                for k in range(features)
                if second < h or a // size == variable[g]
            )
            + chain(p, q, a)
            for a in range(d)
        ]
        (M_Z,) = damped([[x / weight.labels for x in G]], [M_Z], beta.labels)
        (Q_Z,) = stepped([mean(M_Z)], [Q_Z], alpha.labels)
        Q_H, Q_G = new_H, new_G
        trace.labels.append(Q_Z)
        trace.scores.append(M_Z)
        trace.heads.append(Q_H)
    return trace


def variable_of(section: ProbabilisticTransformer, channel: int, channels: int) -> int:
    return channel * section.label_variables // channels


def chain(p: Potentials, q: Sequence[Row], a: int) -> float:
    return sum(p.C[a][b] * q[-1][b] for b in range(len(q[-1]))) if p.C is not None and q else 0.0


def damped(new: list[Row], old: list[Row] | None, beta: float) -> list[Row]:
    if old is None:
        return [[(1 - beta) * x for x in row] for row in new]
    return [[(1 - beta) * x + beta * y for x, y in zip(*rows, strict=True)] for rows in zip(new, old, strict=True)]


def stepped(new: list[Row], old: list[Row], alpha: float) -> list[Row]:
    return [[alpha * x + (1 - alpha) * y for x, y in zip(*rows, strict=True)] for rows in zip(new, old, strict=True)]


def content(section: ProbabilisticTransformer, S: Sequence[Row], potentials: Sequence[Potentials]) -> list[Slot]:
    """Run all slots, whose words are known."""
    slots: list[Slot] = []
    for unary in S:

        def prefix(number: int, before: tuple[Slot, ...] = tuple(slots)) -> list[Row]:
            return [slot.labels[-1 if section.content == "serial" else number - 1] for slot in before]

        slots.append(slot(section, list(unary), prefix, potentials, section.iterations))
    return slots


def enumerated(S: Sequence[Row], b: Row, q: Sequence[Row], p: Potentials, section: ProbabilisticTransformer) -> Row:
    """Return ``p(w)`` of a hidden word, by a sum over all words, labels of each variable, heads and second heads; all
    weights are 1."""
    d, t, channels, K = len(S[0]), len(q), section.channels, section.label_variables
    kind = section.globals.kind if section.globals else None
    values = [range(k * d // K, (k + 1) * d // K) for k in range(K)]
    m = len(p.B[0]) if kind else 0
    columns = t + 1 + (m if kind == "all-dep" else 0)
    second = {"dep-split": channels, "single-split": 1}.get(kind or "", 0)
    T = {j: p.T(t - j) for j in range(t)}
    weights = []
    for w in range(len(S)):
        total = 0.0
        for labels in itertools.product(*values):
            label_of = [labels[variable_of(section, c, channels)] for c in range(channels)]
            for heads in itertools.product(range(columns), repeat=channels):
                for chosen in itertools.product(range(m), repeat=second):
                    score = b[w] + sum(S[w][a] + chain(p, q, a) for a in labels)
                    for c, (j, a) in enumerate(zip(heads, label_of, strict=True)):
                        if j < t:
                            score += sum(q[j][e] * T[j][c][a][e] for e in range(d))
                        else:
                            score += p.r[c][a] if j == t else p.B[c][j - t - 1][a]
                    score += sum(p.B[g][k][label_of[g]] for g, k in enumerate(chosen))
                    total += math.exp(score)
        weights.append(total)
    return [weight / sum(weights) for weight in weights]
