"""How a model is asked for predictions: the one place between networks and what is said of their scores.

A predictor is called as a network is, ``predictor(inputs, wants)``. The scores that it returns are log-probabilities of
the predictive distribution, up to a constant for each row; where its doubt is asked for, ``Outputs.doubt`` has the
parts of it by the names of the scores.

way        members, whose probabilities are averaged
Plain      one: the network as it is, its scores divided by a temperature
Dropout    the network so many times, each time with other values dropped (Gal & Ghahramani 2016)
Ensemble   several networks
Draws      the network with so many draws of its uncertain weights
OnePass    none: means and variances go through the network once, and draws are those of the scores alone

States and arcs are those of one plain pass, of the first network (of uncertain weights, with their means): the channels
of two networks have nothing to do with each other. Those of two draws of the same weights are the same channels, so
there arcs are the mean over draws. ``own_states`` and ``own_arcs`` say whether they belong to the answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.bayesian.propagation import Kind
from probtrans_cli.models.bayesian.readout import Predictive, entropy, mixture, predictive, predictive_probabilities
from probtrans_cli.models.bayesian.weights import drawn
from probtrans_cli.models.network import Network
from probtrans_cli.trained.machine import mixed_seed

if TYPE_CHECKING:
    pass

Scores = Mapping[str, Tensor]
Sizes = Mapping[str, Sequence[int]]
"""Of scores that hold several distributions side by side, the numbers of classes of each, by name."""


class Predictor(ABC):
    """A way to ask. ``doubt``: whether answers have it; ``several``: whether there are members that can disagree, so
    that there is a mutual information."""

    several: ClassVar[bool]
    doubt: bool
    own_states: ClassVar[bool] = True
    own_arcs: ClassVar[bool] = True
    """Whether states, and arcs, are of the prediction itself and not of a plain pass beside it."""
    member_arcs: bool = False
    """Whether answers have the arcs of each member; only where there are members with the same channels."""

    def with_member_arcs(self) -> Predictor:
        """The same with the arcs of each member, where that can be."""
        return self

    @property
    def kept_arcs(self) -> int:
        """How often the arcs of a batch are in memory."""
        return 1

    @abstractmethod
    def ready(self) -> Self:
        """Let all networks be as they are outside of training."""

    @abstractmethod
    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        """What is wanted of a batch."""


@dataclass(frozen=True)
class Plain(Predictor):
    """One pass. With the temperature 1 the outputs are the network's own, to the bit."""

    network: Network
    temperature: float = 1.0
    doubt: bool = False
    several: ClassVar[bool] = False

    def ready(self) -> Self:
        self.network.eval()
        return self

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        outputs: Outputs = self.network(inputs, wants)
        if self.temperature != 1.0:
            scores = {name: values.float() / self.temperature for name, values in outputs.scores.items()}
            outputs = replace(outputs, scores=scores)
        if self.doubt:
            outputs = replace(outputs, doubt={name: mixture([values]) for name, values in outputs.scores.items()})
        return outputs


class _Members(Predictor):
    """What averages the probabilities of several members."""

    several: ClassVar[bool] = True
    own_states: ClassVar[bool] = False
    own_arcs: ClassVar[bool] = False
    sizes: Sizes = MappingProxyType({})

    @property
    @abstractmethod
    def first(self) -> Predictor:
        """What states and arcs are asked of."""

    @abstractmethod
    def members(self, inputs: Inputs, wants: Wants) -> Iterator[Scores]:
        """The scores of each member, by name."""

    def ready(self) -> Self:
        self.first.ready()
        return self

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        rest = _without_scores(self.first, inputs, wants)
        if not wants.scores:
            return rest
        members = self.members(inputs, replace(wants, states=False, arcs=()))
        return _answered(rest, by_name(_apart(scores, self.sizes) for scores in members), self.doubt)


def _without_scores(asked: Predictor | Network, inputs: Inputs, wants: Wants) -> Outputs:
    """The states and arcs that are wanted, of a plain pass; nothing is computed where none are."""
    if not (wants.states or wants.arcs):
        return Outputs()
    found: Outputs = asked(inputs, Wants(states=wants.states, arcs=wants.arcs))
    return found


def _apart(scores: Scores, sizes: Sizes) -> dict[tuple[str, int], Tensor]:
    """The distributions of scores, by name and number: there are several side by side where ``sizes`` says so."""
    return {
        (name, number): one
        for name, values in scores.items()
        for number, one in enumerate(torch.split(values, list(sizes[name]), -1) if name in sizes else [values])
    }


def by_name(members: Iterator[Mapping[tuple[str, int], Tensor]]) -> dict[tuple[str, int], Predictive]:
    """The predictive distributions of members, by name and number."""
    first = next(members)
    if len(first) == 1:  # only sums are kept
        (name,) = first
        return {name: mixture(scores[name] for scores in chain([first], members))}
    every = [first, *members]
    return {name: mixture(scores[name] for scores in every) for name in first}


def _answered(rest: Outputs, found: Mapping[tuple[str, int], Predictive], doubt: bool) -> Outputs:
    """``rest`` with the log-probabilities of distributions as scores, and with their doubt."""
    scores = _joined({key: one.probabilities for key, one in found.items()})
    parts = Counter(name for name, _ in found)
    alone = {name: one for (name, _), one in found.items() if parts[name] == 1}
    return replace(rest, scores=scores, doubt=alone if doubt else {})


def _joined(chances: Mapping[tuple[str, int], Tensor]) -> dict[str, Tensor]:
    """The log-probabilities of distributions, those of one score side by side."""
    scores: dict[str, list[Tensor]] = {}
    for (name, _), one in chances.items():
        scores.setdefault(name, []).append(one.clamp_min(torch.finfo(one.dtype).tiny).log())
    return {name: parts[0] if len(parts) == 1 else torch.cat(parts, -1) for name, parts in scores.items()}


@dataclass(frozen=True)
class Dropout(_Members):
    """Passes with dropout. What is dropped is a function of the pass and of what the batch looks like, so that the same
    input, cut into the same batches, gets the same answers."""

    plain: Plain
    samples: int
    doubt: bool = False
    seed: int = field(default=0, kw_only=True)

    @property
    def first(self) -> Plain:
        return self.plain

    def members(self, inputs: Inputs, wants: Wants) -> Iterator[Scores]:
        network, device = self.plain.network, inputs.ids.device
        generators = [device] if device.type == "cuda" else []
        for number in range(self.samples):
            with _dropping(network), torch.random.fork_rng(generators):
                torch.manual_seed(mixed_seed(self.seed, number))
                outputs = replace(self.plain, doubt=False)(inputs, wants)
            yield outputs.scores


@contextmanager
def _dropping(network: nn.Module) -> Iterator[None]:
    """Within: dropout is active, and nothing else that belongs to training; weights that are drawn there are not."""
    network.train()
    for part in network.modules():
        if isinstance(part, ParametrizationList):
            part.eval()
    try:
        yield
    finally:
        network.eval()


@dataclass(frozen=True)
class Ensemble(_Members):
    """Several networks that were trained for the same answers, each with its own temperature."""

    predictors: Sequence[Predictor]
    doubt: bool = False

    @property
    def first(self) -> Predictor:
        return self.predictors[0]

    def ready(self) -> Self:
        for one in self.predictors:
            one.ready()
        return self

    def members(self, inputs: Inputs, wants: Wants) -> Iterator[Scores]:
        return (one(inputs, wants).scores for one in self.predictors)

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        """Of members that have members themselves, the expected entropy is theirs, not that of their mean."""
        if not (self.doubt and wants.scores):
            return super().__call__(inputs, wants)
        rest, scores = _without_scores(self.first, inputs, wants), replace(wants, states=False, arcs=())
        answers: list[Outputs] = [replace(cast(Any, one), doubt=True)(inputs, scores) for one in self.predictors]
        found = _answered(rest, by_name(_apart(one.scores, self.sizes) for one in answers), doubt=True)
        doubt = {}
        for name, one in found.doubt.items():
            expected = torch.stack([answer.doubt[name].expected_entropy for answer in answers]).mean(0)
            of_model = (one.entropy - expected).clamp_min(0)
            doubt[name] = replace(one, expected_entropy=expected, mutual_information=of_model)
        return replace(found, doubt=doubt)


@dataclass(frozen=True)
class Draws(_Members):
    """Draws of the uncertain weights, the same ones for every batch; the mean distribution has the temperature."""

    network: Network
    samples: int
    temperature: float = 1.0
    doubt: bool = False
    seed: int = field(default=0, kw_only=True)
    sizes: Sizes = field(default_factory=dict, kw_only=True)
    member_arcs: bool = field(default=False, kw_only=True)
    own_arcs: ClassVar[bool] = True

    @property
    def first(self) -> Plain:
        return Plain(self.network)

    def with_member_arcs(self) -> Draws:
        return replace(self, member_arcs=self.samples > 1)

    @property
    def several(self) -> bool:  # type: ignore[override]
        return self.samples > 1

    @property
    def kept_arcs(self) -> int:
        return 1 + self.samples * self.member_arcs

    def _passes(self, inputs: Inputs, wants: Wants) -> Iterator[Outputs]:
        """What each draw answers."""
        device = inputs.ids.device
        for number in range(self.samples):
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                torch.manual_seed(mixed_seed(self.seed, number))
                with drawn(self.network):
                    outputs: Outputs = self.network(inputs, wants)
            yield outputs

    def members(self, inputs: Inputs, wants: Wants) -> Iterator[Scores]:
        return (outputs.scores for outputs in self._passes(inputs, wants))

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        if not wants.arcs:
            return tempered(super().__call__(inputs, wants), self.temperature)
        rest = _without_scores(self.first, inputs, replace(wants, arcs=()))
        arcs = _Arcs(keep=self.member_arcs)
        members = (arcs.taken(outputs) for outputs in self._passes(inputs, replace(wants, states=False)))
        if wants.scores:
            parts = by_name(_apart(outputs.scores, self.sizes) for outputs in members)
            rest = tempered(_answered(rest, parts, self.doubt), self.temperature)
        else:
            deque(members, maxlen=0)
        return replace(rest, arcs=arcs.mean(), member_arcs=torch.stack(arcs.kept) if self.member_arcs else None)


@dataclass
class _Arcs:
    """The mean of the members' arcs, and themselves if they are to be kept."""

    keep: bool
    number: int = 0
    total: Tensor | None = None
    kept: list[Tensor] = field(default_factory=list)

    def taken(self, outputs: Outputs) -> Outputs:
        """What a member answers, its arcs noted."""
        assert outputs.arcs is not None, "they are wanted"
        self.number += 1
        self.total = outputs.arcs if self.total is None else self.total + outputs.arcs
        if self.keep:
            self.kept.append(outputs.arcs)
        return outputs

    def mean(self) -> Tensor:
        assert self.total is not None, "there are members"
        return self.total / self.number


@dataclass(frozen=True)
class OnePass(Predictor):
    """Means and variances of the uncertain weights go through the network once; the scores are then Gaussian."""

    network: Network
    state: Kind
    temperature: float = 1.0
    doubt: bool = False
    sizes: Sizes = field(default_factory=dict, kw_only=True)
    several: ClassVar[bool] = True
    own_states: ClassVar[bool] = False
    own_arcs: ClassVar[bool] = False

    def ready(self) -> Self:
        self.network.eval()
        return self

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        rest = _without_scores(self.network, inputs, wants)
        if not wants.scores:
            return rest
        outputs: Outputs = self.network(inputs, replace(wants, states=False, arcs=(), moments=self.state))
        means, variances = (_apart(one, self.sizes) for one in (outputs.scores, outputs.variances))
        if self.doubt:
            found = {name: predictive(mean, variances[name]) for name, mean in means.items()}
            return tempered(_answered(rest, found, doubt=True), self.temperature)
        chances = {name: predictive_probabilities(mean, variances[name]) for name, mean in means.items()}
        return tempered(replace(rest, scores=_joined(chances)), self.temperature)


def tempered(outputs: Outputs, temperature: float) -> Outputs:
    """Answers whose distributions have a temperature; what members disagree about stays what it was."""
    if temperature == 1.0:
        return outputs
    scores = {name: values.float() / temperature for name, values in outputs.scores.items()}
    doubt = {}
    for name, one in outputs.doubt.items():
        chances = scores[name].softmax(-1)
        whole = entropy(chances)
        expected = (whole - one.mutual_information).clamp_min(0)
        doubt[name] = replace(one, probabilities=chances, entropy=whole, expected_entropy=expected)
    return replace(outputs, scores=scores, doubt=doubt)
