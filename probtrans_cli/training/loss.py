"""The loss of an update: every term of the task divided by its own count over all batches of the update.

    L = Σ_t weight_t  Σ_m sum_t(m) / N_t,      N_t = Σ_m count_t(m)         m: the batches, t: the terms

So the gradient is that of the batches' union. The counts are known before the network runs. ``backward`` is called on
each batch's part of ``N_1 L``, where ``N_1`` is the count of the first term; after all batches the gradient is divided
by ``N_1``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from probtrans_cli.models.base import Outputs, Wants
from probtrans_cli.tasks.base import Task
from probtrans_cli.tasks.batch import Batch

Ask = Callable[[Batch, Wants], Outputs]


def counts_of(task: Task, batches: Sequence[Batch]) -> dict[str, Tensor]:
    """How many things of each term there are in some batches, by its name."""
    counts: dict[str, Tensor] = {}
    for batch in batches:
        for name, number in task.counts(batch).items():
            counts[name] = counts.get(name, torch.zeros((), device=number.device)) + number
    return counts


def loss_of(task: Task, ask: Ask, batch: Batch, counts: Mapping[str, Tensor]) -> Tensor:
    """The part of a batch in ``N_1 L``; ``ask``: a network; ``counts``: of all batches of the update."""
    terms = task.terms(ask(batch, replace(task.wants(batch), positions=batch.positions)), batch)
    assert terms.keys() == counts.keys(), f"the task counts {[*counts]}, and has the terms {[*terms]}"
    (main, number), *others = counts.items()
    loss = terms[main].weight * terms[main].sum
    for name, count in others:
        loss = loss + terms[name].weight * (terms[name].sum / count * number)
    return loss
