"""What an update computes: its microbatches, their random numbers, the loss, and the divergence of uncertain weights.

    L = Σ_t weight_t  Σ_m sum_t(m) / N_t  +  κ KL(q ‖ p) / N         N_t = Σ_m count_t(m)

m: the microbatches, t: the terms of the task. Each term is divided by its own count over all microbatches, so the
gradient is that of their union. The counts are known before the network runs: ``backward`` is called on each
microbatch's part of ``N_1 L``, where ``N_1`` is the count of the first term, and the gradient is divided by ``N_1`` in
the end. The second summand is there where weights are uncertain: the evidence lower bound of the derivation "Bayesian
Transformers", (5) and (6), divided by the number N of things that the mean is over in the whole training set (words,
sentences, expected hidden words), with a temperature: κ = 1 is Bayes' rule.

An update has `train.accumulate` microbatches, whatever the number of processes; the k-th is computed by the process
``k mod world``. Where fewer are left than processes, the others compute the first one again and count it 0 times, so
that all of them run the network equally often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from probtrans_cli import console
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.processes import Ranks
from probtrans_cli.models.base import Encoded, Encoder, Inputs, Iterations, Outputs, Wants, Words
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.bayesian.readout import with_expected_loss
from probtrans_cli.models.network import Network
from probtrans_cli.tasks.base import Task, scored
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.trained.model import Model
from probtrans_cli.training.plan import dealt_to


@dataclass
class Draws:
    """The random numbers of an update: a stream for each microbatch, from (seed, step, k), never from the process.

    A stream is read in this order: the masks of the batch; of the first one then the weights that are drawn for the
    whole update; dropout. The streams are torch's default generators, moved to where each stream was left.
    """

    seed: int
    step: int
    device: torch.device
    _left: dict[int, tuple[Tensor, Tensor | None]] = field(default_factory=dict)

    @contextmanager
    def stream(self, k: int) -> Iterator[None]:
        """Within: torch draws from the stream of the microbatch ``k``, from where it was left."""
        if k in self._left:
            host, cuda = self._left[k]
            torch.set_rng_state(host)
            if cuda is not None:
                torch.cuda.set_rng_state(cuda, self.device)
        else:
            torch.manual_seed(mixed_seed(self.seed, self.step, *([k] if k else [])))
        yield
        on_cuda = self.device.type == "cuda"
        self._left[k] = torch.get_rng_state(), torch.cuda.get_rng_state(self.device) if on_cuda else None

    @contextmanager
    def of_weights(self, ranks: Ranks) -> Iterator[None]:
        """Within: every process draws from the stream of the first microbatch, behind its masks."""
        if 0 not in self._left:
            with self.stream(0):
                pass
        if ranks.world > 1:
            host, cuda = self._left[0]
            state = ranks.of_first(host.numpy().tobytes(), f"the random numbers of update {self.step + 1}")
            self._left[0] = torch.frombuffer(bytearray(state), dtype=torch.uint8), cuda
        with self.stream(0):
            yield


@dataclass(frozen=True)
class Microbatch:
    """Batch ``k`` of an update; ``counted``: whether it is part of the gradient."""

    k: int
    batch: Batch
    counted: bool


def dealt(
    group: Sequence[np.ndarray], ranks: Ranks, draws: Draws, batch_of: Callable[[np.ndarray], Batch]
) -> list[Microbatch]:
    """Return the microbatches of this process; ``batch_of`` makes a batch and draws what is random in it."""
    microbatches = []
    for k, counted in dealt_to(ranks, len(group)):
        with draws.stream(k):
            microbatches.append(Microbatch(k, batch_of(group[k]), counted))
    return microbatches


def counts_over(task: Task, microbatches: Sequence[Microbatch], ranks: Ranks, purpose: str) -> dict[str, Tensor]:
    """Return ``N_t`` by term, at least 1, over the microbatches of all processes; ``purpose``: for messages."""
    counted = [microbatch.batch for microbatch in microbatches if microbatch.counted]
    counts = counts_of(task, counted or [microbatches[0].batch])
    if not counted:
        counts = {name: torch.zeros_like(number) for name, number in counts.items()}
    if ranks.world > 1:
        total = ranks.total(torch.stack([*counts.values()]), purpose)
        counts = dict(zip(counts, total.unbind(), strict=True))
    return {name: number.clamp(min=1) for name, number in counts.items()}


def counts_of(task: Task, batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Return the count of each term of the task over some batches."""
    counts: dict[str, Tensor] = {}
    for batch in batches:
        for name, number in task.counts(batch).items():
            counts[name] = counts.get(name, torch.zeros((), device=number.device)) + number
    return counts


def loss_of(task: Task, ask: Callable[[Batch, Wants], Outputs], batch: Batch, counts: Mapping[str, Tensor]) -> Tensor:
    """Return a batch's part of ``N_1 L``; ``ask`` runs the network; ``counts``: of all batches of the update."""
    terms = task.terms(ask(batch, replace(task.wants(batch), positions=batch.positions)), batch)
    assert terms.keys() == counts.keys(), f"the task counts {[*counts]}, and has the terms {[*terms]}"
    (main, number), *further = counts.items()
    loss = terms[main].weight * terms[main].sum
    for name, count in further:
        loss = loss + terms[name].weight * (terms[name].sum / count * number)
    return loss


class Divergence:
    """``κ KL / N`` of a model that learns from a split; nothing where its weights are certain, or IVON adds it."""

    def __init__(self, model: Model, split: Split, forward: Callable[[Inputs, Wants], Outputs]) -> None:
        """``forward`` runs the network as the training does, such as a DDP copy."""
        self.forward = forward
        self.network, self.section = model.network, model.recipe.model.facts.variational
        uncertain = model.recipe.uncertain_weights is not None
        self.units = max(sum(scored(model.task, split, model.evaluation())), 1) if uncertain else 1

    def draw(self) -> AbstractContextManager[None]:
        drawing = self.section is not None and self.section.objective == "samples"
        return weights.drawn(self.network) if drawing else nullcontext()

    def ask(self, inputs: Inputs, wants: Wants) -> Outputs:
        """Run the network; with `objective: moments`, return scores that have the expected loss."""
        if self.section is None or self.section.objective == "samples":
            return self.forward(inputs, wants)
        outputs = self.forward(inputs, replace(wants, moments=self.section.predict.state))
        scores = {name: with_expected_loss(mean, outputs.variances[name]) for name, mean in outputs.scores.items()}
        return replace(outputs, scores=scores)

    def weight(self, done: float) -> float:
        if self.section is None:
            return 0.0
        warmup = self.section.kl_warmup
        return self.section.kl_weight * (min(done / warmup, 1.0) if warmup else 1.0)

    @torch.no_grad()
    def add_gradient(self, done: float) -> None:
        """Add the gradient of the divergence to that of the likelihood, in place."""
        if self.section is None:
            return
        factor = self.weight(done) / self.units
        # In closed form: by autograd it would cost as much as the draws do.
        for tensor in weights.uncertain(self.network):
            of_mean, of_sd = weights.kl_gradient(*tensor.posterior.of_kl(tensor.mean))
            for parameter, gradient in ((tensor.mean, of_mean), (tensor.posterior.log_sd, of_sd)):
                if parameter.requires_grad:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                    parameter.grad.add_(gradient, alpha=factor)

    @torch.no_grad()
    def metrics(self, done: float) -> dict[str, float]:
        """Return ``kl``, KL / N in nats (to be compared with the loss), and ``kl_weight``, κ."""
        if self.section is None:
            return {}
        parts = [weights.kl(*tensor.posterior.of_kl(tensor.mean)) for tensor in weights.uncertain(self.network)]
        kl = float(torch.stack(parts).sum()) if parts else 0.0
        return {"kl": kl / self.units, "kl_weight": self.weight(done)}


_DDP = signature(DistributedDataParallel).parameters
_BUFFERS = next(name for name in ("forward_sync_buffers", "broadcast_buffers") if name in _DDP)  # new, and old


def replicated(network: Network) -> DistributedDataParallel:
    """Return a network whose gradients are summed over all processes while the last microbatch goes backward.

    Nothing is divided: the loss does that. Between the microbatches of an update use ``no_sync()``.
    """
    # Which parameters a batch reads depends on the batch. Buffers are the same from the start, and never change.
    unsynchronised: dict[str, Any] = {_BUFFERS: False}
    copy = DistributedDataParallel(network, find_unused_parameters=True, **unsynchronised)

    def summed(_, bucket):  # type: ignore[no-untyped-def]
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        assert work is not None, "it is asynchronous"
        return work.get_future().then(lambda done: done.value()[0])

    copy.register_comm_hook(None, summed)
    return copy


def compile_encoder(encoder: Encoder) -> None:
    """Let an encoder run through torch.compile where a training needs it in every step.

    Arcs and moments are computed as before: a compiler to which whole numbers are symbols cannot tell which iterations
    are wanted.
    """
    plain, graph = encoder.forward, torch.compile(encoder.forward, dynamic=True)

    def forward(words: Words, arcs: Iterations = False, at: Tensor | None = None) -> Encoded:
        if arcs or not isinstance(words.unary, Tensor):
            return plain(words, arcs, at)
        return graph(words, at=at)

    encoder.forward = forward  # type: ignore[method-assign]


@contextmanager
def shapes_reported(network: nn.Module) -> Iterator[None]:
    """Within, with ``--verbose``: every module prints the shapes of its arguments and results in its first call.

    Modules whose weights others read, and which are never called, print nothing.
    """
    reported: set[str] = set()

    def report(name: str, module: nn.Module, arguments: Any, keywords: Any, outputs: object) -> None:
        if name not in reported:
            reported.add(name)
            into, out = (" ".join(_shapes(value)) or "-" for value in ((arguments, keywords), outputs))
            console.log(f"{name} ({type(module).__name__}): {into} -> {out}", level=console.VERBOSE)

    hooks = []
    if console.STATE.level >= console.VERBOSE:
        for name, module in network.named_modules():
            hook = partial(report, name or "network")
            hooks.append(module.register_forward_hook(hook, with_kwargs=True))
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


def _shapes(value: object) -> Iterator[str]:
    if isinstance(value, Tensor):
        yield str(list(value.shape))
        return
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _shapes(item)


# --- the coordinate check ---------------------------------------------------------------------------------------------
# Yang et al. 2022: how the numbers that a model computes grow with its width. Settings of a narrow model serve a wide
# one if their changes, and states, do not (`exponents` of `reports/sweeps.py`).

Sizes = dict[str, dict[str, float]]
"""By the name of an activation: ``size``, and ``change`` since the start."""


def coordinates(start: Mapping[str, Tensor], end: Mapping[str, Tensor]) -> Sizes:
    """Return the mean absolute coordinate of each activation of a batch at the ``end`` of some updates, and that of its
    change since their ``start``."""
    return {
        name: {"size": float(end[name].abs().mean()), "change": float((end[name] - start[name]).abs().mean())}
        for name in end
    }
