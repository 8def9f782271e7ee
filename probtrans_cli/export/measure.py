"""What every export does with a model beside writing it: prune its weights, and measure how far the folder differs.

A graph is compared with the network that it was made of, over random sentences; its example with the model, over a few
texts; and where the precision changes, the score on dev before and after.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parametrize

from probtrans_cli.data.sentence import divided
from probtrans_cli.errors import UsageError
from probtrans_cli.export import ExportOptions
from probtrans_cli.export.answers import Answers
from probtrans_cli.export.graph import Arrays, GraphPredictor, Plan
from probtrans_cli.models.base import Features, Inputs, Outputs, Wants
from probtrans_cli.models.bayesian import weights
from probtrans_cli.models.network import Network
from probtrans_cli.trained.evaluation import evaluate
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import ParseOptions, Parser
from probtrans_cli.trained.predictor import Predictor, plain
from probtrans_cli.version import __version__

PROBE_SENTENCES, PROBE_WORDS, PROBE_FEATURES = 8, 12, 5
Run = Callable[[Arrays], Arrays]  # what computes a written graph


@torch.no_grad()
def prune(model: Model, share: float) -> int:
    """Set the means with the smallest ``|μ| / σ`` to zero, and let all weights be certain, in place."""
    uncertain = list(weights.uncertain(model.network))
    if not uncertain:
        raise UsageError(
            f"--prune: the weights of {model.folder} are certain: there is no noise to compare them with",
            hint="leave it out, or train with model.bayes or optim.kind=ivon",
        )
    signal = torch.cat([(it.mean.abs() / it.posterior.deviation()).flatten() for it in uncertain])
    number = round(share * len(signal))
    noise = torch.zeros(len(signal), dtype=torch.bool, device=signal.device)
    noise[signal.argsort(stable=True)[:number]] = True
    start = 0
    for it in uncertain:
        end = start + it.mean.numel()
        it.mean[noise[start:end].view_as(it.mean)] = 0.0
        start = end
    # What is left is a model like others: its weights are the means.
    for module, name in weights.parametrized(model.network):
        parametrize.remove_parametrizations(module, name, leave_parametrized=False)
    model.recipe = model.recipe.certain()
    model.temperature = None  # it was that of another distribution
    model.arc_temperature = None
    return number


def source_of(model: Model, form: str, dtype: str) -> dict[str, Any]:
    """Return what every report begins with: the tool, the model that was read, and how it is written."""
    assert model.folder is not None, "it was loaded"
    return {
        "tool": f"probtrans {__version__}",
        "source": str(model.folder),
        "source_weights_sha256": hashlib.sha256((model.folder / "model.safetensors").read_bytes()).hexdigest(),
        "format": form,
        "dtype": dtype,
    }


def change_of_score(model: Model, options: ExportOptions, written: Predictor | None = None) -> dict[str, Any]:
    """Score dev with the model, by one plain pass, and with what is written, where the precision changes.

    Args:
        written: a graph; None = the network with its weights in the other precision.

    Returns:
        The entry ``score`` of the report; its value is None where there is no dev to score.
    """
    if options.dtype == "float32":
        return {}
    if options.dev is None:
        return {"score": None}
    changed: Network | Predictor = written or copy.deepcopy(model.network)
    if isinstance(changed, Network):
        state = changed.state_dict()
        for key, value in state.items():
            if value.is_floating_point():
                state[key] = value.to(getattr(torch, options.dtype)).to(value.dtype)
        changed.load_state_dict(state)
    task, method = model.task, model.evaluation()
    before, after = (
        evaluate(task, it, options.dev, method, final=False)[task.section.metric] for it in (model.network, changed)
    )
    return {"score": {"metric": task.section.metric, "dev": before, "dev_exported": after, "change": after - before}}


def random_sentences(model: Model, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return ids and mask of random sentences of several lengths."""
    n = min(PROBE_WORDS, model.network.longest or PROBE_WORDS)
    ids = torch.from_numpy(random.integers(0, model.vocabulary.size, (PROBE_SENTENCES, n)))
    ids = ids.masked_fill(ids == model.vocabulary.PAD, model.vocabulary.UNKNOWN)
    lengths = torch.arange(PROBE_SENTENCES) * (n - 1) // (PROBE_SENTENCES - 1) + 1
    mask = torch.arange(n) < lengths[:, None]
    return ids.masked_fill(~mask, model.vocabulary.PAD), mask


@torch.no_grad()
def representations(model: Model) -> Tensor:
    """Return the word representations of random sentences."""
    random, device = np.random.default_rng(0), model.machine.device
    ids, mask = (it.to(device) for it in random_sentences(model, random))
    features = None
    if model.network.features is not None:
        table = len(model.network.features.weight)
        rows = torch.from_numpy(random.integers(0, table, ids.numel() * PROBE_FEATURES)).to(device)
        features = Features(rows, torch.arange(0, len(rows), PROBE_FEATURES, device=device))
    states = model.network(Inputs(ids=ids, mask=mask, features=features), Wants(states=True)).states
    assert states is not None, "they are wanted"
    representation: Tensor = states.float().cpu()
    return representation


# --- a graph and its network ------------------------------------------------------------------------------------------

STEPS = 40  # words of the longest sentences that a language model reads, a call for each
WORDS, SENTENCES, DRAWS = 200, 64, 8
"""The longest sentences, the largest batch, and how many batches of random sizes are drawn beside the corners."""
SPEED_SENTENCES, SPEED_WORDS, SPEED_SECONDS = 16, 25, 0.5
_LOWEST = torch.finfo(torch.float32).min / 16  # scores of what is no candidate are lower
MOST = 1e-4  # the largest relative difference that is rounding in float32
_FEATURES = 6


class Difference(NamedTuple):
    """How much two outputs differ."""

    absolute: float
    relative: float
    """Relative to the value of the network where that is more than 1 or less than -1: scores of some models are in the
    hundreds, and so is their rounding."""


@dataclass(frozen=True)
class Drawn:
    """Random sentences as an ordinary pass takes them, what is wanted of them, and the mask of their words."""

    inputs: Inputs
    wants: Wants
    words: Tensor


def drawn(network: Network, plan: Plan, size: tuple[int, int], random: torch.Generator) -> Drawn:
    """Draw sentences: ids, words, features and segments at random."""
    b, n = size
    ids = torch.randint(0, network.unary.num_embeddings, size, generator=random)
    ids = ids.masked_fill(ids == network.padding, network.hidden)
    lengths = torch.randint(1, n + 1, (b,), generator=random)
    lengths[0] = n
    mask = torch.arange(n) < lengths[:, None]
    ids = ids.masked_fill(~mask, network.padding)
    some = (torch.rand(size, generator=random) < 0.4) & mask
    first, words = None, mask
    if "first" in plan.inputs:
        starts = some | (torch.arange(n) == 0)
        number = starts.sum(1, keepdim=True)
        order = (~starts).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(number.max())]
        words = torch.arange(order.shape[1]) < number
        first = order.masked_fill(~words, n)
    segments = None
    if "segments" in plan.inputs:
        segments = torch.randint(0, 2, size, generator=random).sort(1).values * mask
    features = None
    if network.features is not None:
        number = torch.randint(0, _FEATURES, (b * n,), generator=random) * mask.flatten()
        rows = torch.randint(0, network.features.weight.shape[0], (int(number.sum()),), generator=random)
        features = Features(rows, number.cumsum(0) - number)
    wants = Wants(
        words=words if plan.words else None,
        tokens=some if "at" in plan.inputs else None if plan.readout is None else mask,
        readout=plan.readout,
        sentence=plan.sentence or plan.main == "sentence",
        arcs=plan.arcs,
    )
    return Drawn(Inputs(ids=ids, mask=mask, first=first, features=features, segments=segments), wants, words)


def longest_of(network: Network, plan: Plan) -> int:
    """Return the number of tokens of the longest sentences that are measured."""
    most = WORDS if plan.readout is None else min(WORDS, STEPS)
    return min(most, network.longest or most)


def sizes(most: int, random: torch.Generator) -> Iterator[tuple[int, int]]:
    """Yield the corners, and batches in between; ``most``: tokens of the longest sentence."""
    yield from ((1, 1), (1, most), (SENTENCES, 1), (SENTENCES, most))
    for _ in range(DRAWS):
        yield tuple(int(torch.randint(1, top + 1, (), generator=random)) for top in (SENTENCES, most))  # type: ignore[misc]


def largest_difference(network: Network, plan: Plan, run: Run) -> Difference:
    """Return the largest differences of all outputs between a graph and its network, over random sentences.

    The network reads them as it always does, with masks and rows; the graph by the same words. Padding does not count.
    """
    predictor = GraphPredictor(plan, run)
    return _largest(network, plan, lambda inputs, wants: (network(inputs, wants), predictor(inputs, wants)))


def largest_rounding(network: Network, plan: Plan) -> Difference:
    """Return how much a network in float32 differs from itself in float64, over the same sentences.

    Where a network blows up what rounding begins, as many mean-field iterations after one another do, two orders of the
    same sums differ by as much.
    """

    def outputs(inputs: Inputs, wants: Wants) -> tuple[Outputs, Outputs]:
        single = network(inputs, wants)
        try:
            return network.double()(inputs, wants), single
        finally:
            network.float()  # as it was: no float32 is rounded in float64

    return _largest(network, plan, outputs)


@torch.no_grad()
def _largest(network: Network, plan: Plan, outputs: Callable[[Inputs, Wants], tuple[Outputs, Outputs]]) -> Difference:
    random = torch.Generator().manual_seed(0)
    absolute, relative = [0.0], [0.0]
    for size in sizes(longest_of(network, plan), random):
        sentences = drawn(network, plan, size, random)
        for left, right in _compared(*outputs(sentences.inputs, sentences.wants), sentences, plan):
            assert left.shape == right.shape, "a graph gives what the network gives"
            # Of numbers that are infinite on one side the difference is infinite, on both sides there is none. There is
            # none either where both say that there is no candidate, by a number of the form and the precision.
            same = (left == right) | ((left < _LOWEST) & (right < _LOWEST))
            apart = torch.where(same, 0.0, (left.double() - right.double()).abs())
            if apart.numel():
                absolute.append(float(apart.nan_to_num(nan=torch.inf).max()))
                apart = apart / left.double().abs().clamp(min=1.0)
                relative.append(float(apart.nan_to_num(nan=torch.inf).max()))
    return Difference(max(absolute), max(relative))


def _compared(expected: Outputs, actual: Outputs, sentences: Drawn, plan: Plan) -> Iterator[tuple[Tensor, Tensor]]:
    assert expected.scores.keys() == actual.scores.keys(), "a graph gives the same scores"
    for name, values in expected.scores.items():
        if name == "rows":
            there = sentences.words[:, None].expand(values.shape[:3])
            yield values[there], actual.scores[name][there]
        elif name == "arcs":
            yield values[sentences.words], actual.scores[name][sentences.words]
        else:
            yield values, actual.scores[name]
    if plan.sentence and expected.sentence is not None:
        assert actual.sentence is not None, "so is its plan"
        yield expected.sentence, actual.sentence
    if expected.arcs is not None:
        assert actual.arcs is not None, "so is its plan"
        there = sentences.inputs.mask[:, None, None].expand(expected.arcs.shape[:4])
        yield expected.arcs[there], actual.arcs[there]


def largest_rounded(rounding: float) -> float:
    """Return the largest relative difference that is taken for rounding, where that of the network is ``rounding``:
    exponentials of another runtime round several times as much as those of torch."""
    return max(MOST, 10.0 * rounding)


@torch.no_grad()
def words_per_second(network: Network, plan: Plan, name: str, run: Run) -> dict[str, int]:
    """Return the speed of the network as it is (``eager``) and of its graph: 16 sentences of up to 25 words."""
    size = SPEED_SENTENCES, min(SPEED_WORDS, network.longest or SPEED_WORDS)
    sentences = drawn(network, plan, size, torch.Generator().manual_seed(0))
    calls: dict[str, Callable[[Inputs, Wants], Outputs]] = {"eager": network, name: GraphPredictor(plan, run)}
    speeds = {}
    for of_call, call in calls.items():
        call(sentences.inputs, sentences.wants)  # the first call is not counted
        best, begin = torch.inf, time.perf_counter()
        while time.perf_counter() - begin < SPEED_SECONDS or best == torch.inf:
            start = time.perf_counter()
            call(sentences.inputs, sentences.wants)
            best = min(best, time.perf_counter() - start)
        speeds[of_call] = round(int(sentences.words.sum()) / best)
    return speeds


# --- the example beside a graph, and the model ------------------------------------------------------------------------

TEXTS, TEXT_WORDS = 24, 12  # texts of a comparison, and words of the longest
MARKS = ("–", "—", "“", "”", "’", "…", "n’t", "1,234.5", "№", "Zażółć", "[MASK]", "[UNK]", "<unk>", ",", ".", "(")
"""What stands in the texts beside entries of the vocabulary."""
SHARE_OF_MARKS = 0.3
NEAR = 1e-3  # what numbers of two records may differ by


def compared(model: Model, folder: Path, run: Run, report: Mapping[str, Any]) -> dict[str, int]:
    """Compare the answers of an exported folder, whose graph ``run`` computes, with those of the model on a few random
    texts; return the number of texts, and for how many they are the same.

    Of uncertain weights, the means count. The model must be on the CPU, as the graph is.
    """

    def of_arrays(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = run({name: torch.from_numpy(values) for name, values in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    random, vocabulary = np.random.default_rng(0), model.vocabulary
    most = TEXT_WORDS if model.network.longest is None else max(1, min(TEXT_WORDS, model.network.longest // 16))
    texts = []
    for number in range(TEXTS):
        entries = [vocabulary.decode(int(id)) for id in random.integers(vocabulary.size, size=number % most + 1)]
        marks = [MARKS[id] for id in random.integers(len(MARKS), size=len(entries))]
        chosen = random.random(len(entries)) < SHARE_OF_MARKS
        texts.append(" ".join(np.where(chosen, marks, entries).tolist()))
    parser = Parser(model, ParseOptions(trees=False), predictor=plain(model))
    expected = parser.analyses([divided(text) for text in texts])
    answers = Answers(folder, of_arrays, report)
    records = answers.records((f"text {number}", text) for number, text in enumerate(texts, start=1))
    pairs = zip(expected, records, strict=True)
    return {"texts": TEXTS, "same": sum(alike(analysis.record(), record) for analysis, (record, _, _) in pairs)}


def alike(left: Any, right: Any) -> bool:
    """Return whether two records are the same, but for the rounding of numbers."""
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(alike(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list | tuple):
        return isinstance(right, list | tuple) and len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, float) and isinstance(right, float | int):
        return math.isclose(left, right, abs_tol=NEAR)
    return bool(left == right)
