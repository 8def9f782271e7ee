"""How a model predicts: the only place between networks and what is reported of their scores.

A predictor is called as a network is, ``predictor(inputs, wants)``. The scores that it returns are log-probabilities of
the predictive distribution, up to a constant for each row; with ``doubt=True``, ``Outputs.doubt`` has the parts of the
uncertainty by the names of the scores.

class      members, whose probabilities are averaged
Plain      one: the network as it is, its scores divided by a temperature
Dropout    the network n times, each time with other values dropped (Gal & Ghahramani 2016)
Ensemble   several networks
Draws      the network with n draws of its uncertain weights
OnePass    none: means and variances go through the network once, and draws are those of the scores alone

States and arcs are those of one plain pass, of the first network (of uncertain weights, with their means): the channels
of two networks have nothing to do with each other. Those of two draws of the same weights are the same channels, so
there arcs are the mean over draws. ``own_states`` and ``own_arcs`` say whether they belong to the answers.

Networks whose variables are probabilities are uncertain inside, too, about latent labels and about heads:

    H[Q_Z(i)]             of word i's latent label after the last iteration
    1/h Σ_c H[Q_H(i, c)]  of its heads, the mean over the channels

A probabilistic transformer has both, one with spherical latents has heads alone, other networks have neither. Reported
is what belongs to the answers: of one pass both; of the mean over draws of the weights that of the heads; of dropout
and ensembles neither.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.nn.utils.parametrize import ParametrizationList

from probtrans_cli.errors import UsageError
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.bayesian.propagation import Kind
from probtrans_cli.models.bayesian.readout import Predictive, entropy, mixture, predictive, predictive_probabilities
from probtrans_cli.models.bayesian.weights import drawn
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.model.base import MOST_DRAWS, WeightPredict
from probtrans_cli.tasks.base import Task
from probtrans_cli.text import printable
from probtrans_cli.trained.base import ModelBase
from probtrans_cli.trained.machine import mixed_seed
from probtrans_cli.trees import decode

SEED = 0  # of dropout and of draws of the weights: the same input gets the same answers
INNER = ("latent_label_entropy", "head_entropy")  # names of the entropies inside the network

Scores = Mapping[str, Tensor]
Sizes = Mapping[str, Sequence[int]]
"""Of scores that hold several distributions side by side, the numbers of classes of each, by name."""
Parts = Mapping[tuple[str, int], Tensor]
"""Each of these distributions alone, by the name of the scores and its number."""


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """How a trained model predicts, from the command line to the predictor; by default as it was trained."""

    channel: str | int | None = None
    """The channel whose heads are read: a number, ``mean``, ``best`` or ``all``; None: the checkpoint's choice, as for
    the next two."""
    iteration: int | None = None
    """1..T, or -1 for the last."""
    decoder: decode.Method | None = None
    uncertainty: bool = False
    """Answers have entropies, and where there are members their mutual information with the answer."""
    dropout_samples: int | None = None
    """Predict by the mean of this number of passes with dropout; None: by one pass without."""
    weights: str | None = None
    """How uncertain weights are used: ``moments``, ``diagonal``, ``mean`` or a number of draws; None: as the recipe
    says."""
    rescore: bool = False
    """With a model of coordinations: the confidence of a tuple is that of its labels in the undivided sentence."""

    @property
    def method(self) -> str | None:
        """How answers are predicted, in a few words; None: as the recipe says."""
        if self.dropout_samples is not None:
            return f"dropout, {self.dropout_samples} samples"
        if self.weights is None:
            return None
        way = way_of(self.weights)
        if way.kind == "mean":
            return "mean weights"
        return f"moments, {way.state}" if way.kind == "moments" else f"{way.samples} draws of the weights"


AS_TRAINED = PredictOptions()


def way_of(text: str) -> WeightPredict:
    """Read an option of the use of uncertain weights: `moments`, `diagonal`, `mean`, or a number of draws."""
    by_name = {
        "moments": WeightPredict(),
        "kronecker": WeightPredict(),
        "diagonal": WeightPredict(state="diagonal"),
        "mean": WeightPredict(kind="mean"),
    }
    if text in by_name:
        return by_name[text]
    if re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= MOST_DRAWS:
        return WeightPredict(kind="samples", samples=int(text))
    hint = f"give moments, diagonal, mean, or a number of draws up to {MOST_DRAWS:,}"
    raise UsageError(f"--weights {printable(text)}: not a way to use uncertain weights", hint=hint)


class Predictor(ABC):
    """Makes predictions of a batch by one or several networks or passes."""

    network: Network
    several: ClassVar[bool]
    """Whether there are members that can disagree, so that there is a mutual information."""
    doubt: bool  # whether answers have their uncertainty
    own_states: ClassVar[bool] = True
    own_arcs: ClassVar[bool] = True
    """Whether states, and arcs, are of the prediction itself and not of a plain pass beside it."""

    def ready(self) -> Self:
        self.network.eval()
        return self

    @abstractmethod
    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        """Return what is wanted of a batch."""


@dataclass(frozen=True)
class Plain(Predictor):
    """One pass. With the temperature 1 the outputs are the network's own, to the bit."""

    network: Network
    temperature: float = 1.0
    doubt: bool = False
    several: ClassVar[bool] = False

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        outputs = tempered(self.network(inputs, wants), self.temperature)
        if self.doubt:
            outputs = replace(outputs, doubt={name: mixture([values]) for name, values in outputs.scores.items()})
        return outputs


def _without_scores(predictor: Predictor | Network, inputs: Inputs, wants: Wants) -> Outputs:
    # The states, arcs or scores of trees of a plain pass; nothing is computed where none are wanted.
    if not (wants.states or wants.arcs or wants.tree_scores):
        return Outputs()
    outputs: Outputs = predictor(inputs, Wants(states=wants.states, arcs=wants.arcs, tree_scores=wants.tree_scores))
    return outputs


def _apart(scores: Scores, sizes: Sizes = MappingProxyType({})) -> Parts:
    return {
        (name, number): part
        for name, values in scores.items()
        for number, part in enumerate(torch.split(values, list(sizes[name]), -1) if name in sizes else [values])
    }


def by_name(members: Iterator[Parts]) -> dict[tuple[str, int], Predictive]:
    """Return the predictive distributions of members, by name and number."""
    first = next(members)
    if len(first) == 1:  # a member is forgotten once it is added to the sums
        (name,) = first
        return {name: mixture(scores[name] for scores in chain([first], members))}
    members_scores = [first, *members]
    return {name: mixture(scores[name] for scores in members_scores) for name in first}


def _answered(rest: Outputs, distributions: Mapping[tuple[str, int], Predictive], doubt: bool) -> Outputs:
    scores = _joined({key: distribution.probabilities for key, distribution in distributions.items()})
    parts = Counter(name for name, _ in distributions)
    alone = {name: distribution for (name, _), distribution in distributions.items() if parts[name] == 1}
    return replace(rest, scores=scores, doubt=alone if doubt else {})


def _joined(chances: Parts) -> dict[str, Tensor]:
    # Log-probabilities; the distributions of one score stand side by side.
    scores: dict[str, list[Tensor]] = {}
    for (name, _), probabilities in chances.items():
        scores.setdefault(name, []).append(probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log())
    return {name: parts[0] if len(parts) == 1 else torch.cat(parts, -1) for name, parts in scores.items()}


@dataclass(frozen=True)
class Dropout(Predictor):
    """Passes with dropout. What is dropped is a function of the pass and of what the batch looks like, so that the same
    input, cut into the same batches, gets the same answers."""

    network: Network
    samples: int
    temperature: float = 1.0
    doubt: bool = False
    several: ClassVar[bool] = True
    own_states: ClassVar[bool] = False
    own_arcs: ClassVar[bool] = False

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        rest = _without_scores(self.network, inputs, wants)
        if not wants.scores:
            return rest
        network, device = self.network, inputs.ids.device

        def members() -> Iterator[Parts]:
            for number in range(self.samples):
                # Dropout is active, and nothing else that belongs to training; weights that are drawn there are not.
                network.train()
                for part in network.modules():
                    if isinstance(part, ParametrizationList):
                        part.eval()
                try:
                    with torch.random.fork_rng([device] if device.type == "cuda" else []):
                        torch.manual_seed(mixed_seed(SEED, number))
                        outputs: Outputs = network(inputs, replace(wants, states=False, arcs=()))
                finally:
                    network.eval()
                yield _apart(tempered(outputs, self.temperature).scores)

        return _answered(rest, by_name(members()), self.doubt)


@dataclass(frozen=True)
class Ensemble(Predictor):
    """Several networks that were trained for the same answers, each with its own temperature."""

    predictors: Sequence[Predictor]
    doubt: bool = False
    several: ClassVar[bool] = True
    own_states: ClassVar[bool] = False
    own_arcs: ClassVar[bool] = False

    def ready(self) -> Self:
        for predictor in self.predictors:
            predictor.ready()
        return self

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        rest = _without_scores(self.predictors[0], inputs, wants)
        if not wants.scores:
            return rest
        wants = replace(wants, states=False, arcs=())
        if not self.doubt:
            scores = (predictor(inputs, wants).scores for predictor in self.predictors)
            return _answered(rest, by_name(map(_apart, scores)), doubt=False)
        answers: list[Outputs] = [replace(cast(Any, member), doubt=True)(inputs, wants) for member in self.predictors]
        outputs = _answered(rest, by_name(_apart(answer.scores) for answer in answers), doubt=True)
        doubt = {}
        # Of members that have members themselves, the expected entropy is theirs, not that of their mean.
        for name, mean_answer in outputs.doubt.items():
            expected = torch.stack([answer.doubt[name].expected_entropy for answer in answers]).mean(0)
            of_model = (mean_answer.entropy - expected).clamp_min(0)
            doubt[name] = replace(mean_answer, expected_entropy=expected, mutual_information=of_model)
        return replace(outputs, doubt=doubt)


@dataclass(frozen=True)
class Draws(Predictor):
    """Draws of the uncertain weights, the same ones for every batch; the mean distribution has the temperature."""

    network: Network
    samples: int
    temperature: float = 1.0
    doubt: bool = False
    member_arcs: bool = field(default=False, kw_only=True)  # whether answers have the arcs of each draw
    own_states: ClassVar[bool] = False

    @property
    def several(self) -> bool:  # type: ignore[override]
        return self.samples > 1

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        if wants.tree_scores:  # arcs are means over draws
            return Outputs()
        rest = _without_scores(self.network, inputs, replace(wants, arcs=()))
        device = inputs.ids.device
        arcs: list[Tensor] = []  # of each draw, or only their sum

        def members() -> Iterator[Parts]:
            for number in range(self.samples):
                with torch.random.fork_rng([device] if device.type == "cuda" else []):
                    torch.manual_seed(mixed_seed(SEED, number))
                    with drawn(self.network):
                        outputs: Outputs = self.network(inputs, replace(wants, states=False))
                if outputs.arcs is not None:
                    arcs.append(outputs.arcs)
                    if not self.member_arcs:
                        arcs[:] = [reduce(torch.add, arcs)]
                yield _apart(outputs.scores, self.network.output.sizes)

        if wants.scores:
            rest = tempered(_answered(rest, by_name(members()), self.doubt), self.temperature)
        elif wants.arcs:
            deque(members(), maxlen=0)
        if not wants.arcs:
            return rest
        member_arcs = torch.stack(arcs) if self.member_arcs else None
        return replace(rest, arcs=reduce(torch.add, arcs) / self.samples, member_arcs=member_arcs)


@dataclass(frozen=True)
class OnePass(Predictor):
    """Means and variances of the uncertain weights go through the network once; the scores are then Gaussian."""

    network: Network
    state: Kind
    temperature: float = 1.0
    doubt: bool = False
    several: ClassVar[bool] = True
    own_states: ClassVar[bool] = False
    own_arcs: ClassVar[bool] = False

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        rest = _without_scores(self.network, inputs, wants)
        if not wants.scores:
            return rest
        outputs: Outputs = self.network(inputs, replace(wants, states=False, arcs=(), moments=self.state))
        sizes = self.network.output.sizes
        means, variances = (_apart(values, sizes) for values in (outputs.scores, outputs.variances))
        if self.doubt:
            distributions = {name: predictive(mean, variances[name]) for name, mean in means.items()}
            return tempered(_answered(rest, distributions, doubt=True), self.temperature)
        chances = {name: predictive_probabilities(mean, variances[name]) for name, mean in means.items()}
        return tempered(replace(rest, scores=_joined(chances)), self.temperature)


def tempered(outputs: Outputs, temperature: float) -> Outputs:
    """Divide the scores by a temperature; the mutual information, what members disagree about, stays."""
    if temperature == 1.0:
        return outputs
    scores = {name: values.float() / temperature for name, values in outputs.scores.items()}
    doubt = {}
    for name, before in outputs.doubt.items():
        chances = scores[name].softmax(-1)
        total = entropy(chances)
        expected = (total - before.mutual_information).clamp_min(0)
        doubt[name] = replace(before, probabilities=chances, entropy=total, expected_entropy=expected)
    return replace(outputs, scores=scores, doubt=doubt)


# --- the predictor of a model -----------------------------------------------------------------------------------------


def temperature_of(model: ModelBase) -> float:
    return model.temperature if model.recipe.predict.temperature and model.temperature is not None else 1.0


def plain(model: ModelBase) -> Plain:
    """Return one pass with a model's weights, or with their means, at the temperature that it predicts with."""
    return Plain(model.network, temperature_of(model))


def predictor_of(model: ModelBase, options: PredictOptions = AS_TRAINED, *, at_temperature: bool = True) -> Predictor:
    """Return how a model predicts by itself, or by another method.

    ``at_temperature``: with the temperature, if it predicts with one.

    Raises:
        UsageError: the model drops nothing, has no uncertain weights, or its task does not choose among classes.
    """
    doubt, dropout_samples = options.uncertainty, options.dropout_samples
    weights = None if options.weights is None else way_of(options.weights)
    if doubt:
        _require_questions(model, "--uncertainty")
    if dropout_samples is not None:
        if weights is not None:
            raise UsageError("--dropout-samples and --weights are two ways to predict", hint="give one of them")
        _require_questions(model, "--dropout-samples")
        if not model.recipe.model.drops:
            raise UsageError(
                f"--dropout-samples: the model of {model.folder} was trained without dropout: all samples are the same",
                hint="leave it out, or train with model.dropout=0.1",
            )
        return Dropout(model.network, dropout_samples, temperature_of(model), doubt)
    temperature = temperature_of(model) if at_temperature else 1.0
    trained_as = model.recipe.uncertain_weights
    if trained_as is None and weights is not None:
        raise UsageError(
            f"--weights: the weights of {model.folder} are certain",
            hint="leave it out, or train with model.bayes or optim.kind=ivon",
        )
    if trained_as is not None:
        without = model.recipe.without_moments
        if weights is not None and weights.kind == "moments" and without:
            message = f"--weights moments: there is no rule for the moments of {without[0]}"
            raise UsageError(message, hint="give a number of draws, --weights 16")
        method = weights or trained_as
        if method.kind == "samples":
            return Draws(model.network, method.samples, temperature, doubt)
        if method.kind == "moments":
            return OnePass(model.network, method.state, temperature, doubt)
    return Plain(model.network, temperature, doubt)


def ensemble_of(members: Sequence[ModelBase], *, doubt: bool = False) -> Ensemble:
    """Return the ensemble of several models.

    Raises:
        UsageError: they do not choose among the same classes, or read other vocabularies.
    """
    first = members[0]
    _require_questions(first, "several runs")
    for member in members[1:]:
        if difference := _difference(first, member):
            message = f"{first.folder} and {member.folder} are no ensemble: {difference}"
            raise UsageError(message, hint="give runs of one recipe, for example those of train --seeds 0,1,2")
    return Ensemble([predictor_of(member) for member in members], doubt)


def _require_questions(model: ModelBase, option: str) -> None:
    if type(model.task).questions is Task.questions:
        message = f"a task of kind {model.recipe.task.kind} does not choose among classes"
        raise UsageError(f"{option}: {message}", hint="leave it out")


def _difference(left: ModelBase, right: ModelBase) -> str | None:
    tasks = left.recipe.task, right.recipe.task
    kinds, columns = [task.kind for task in tasks], [task.facts.chosen_column for task in tasks]
    for name, values in (("kind", kinds), ("column", columns)):
        if values[0] != values[1]:
            return f"task.{name} is {values[0]} and {values[1]}"
    for column in sorted({*left.labels, *right.labels} & {*left.recipe.task.learned, *right.recipe.task.learned}):
        mine, theirs = list(left.labels.get(column, ())), list(right.labels.get(column, ()))
        if mine != theirs:
            odd = sorted({*mine} ^ {*theirs})[:5]
            return f"other labels of {column}" + (f": {', '.join(odd)}" if odd else ", in another order")
    if left.vocabulary_files != right.vocabulary_files:
        return f"other vocabularies, of {left.vocabulary.size:,} and {right.vocabulary.size:,} entries"
    return None


# --- the uncertainty inside the network -------------------------------------------------------------------------------


def with_inner_wants(model: ModelBase, predictor: Predictor, wants: Wants) -> Wants:
    """Also want the states and arcs that the entropies inside the network are of."""
    section = model.recipe.model
    if not section.facts.has_head_variables:
        return wants
    states = predictor.own_states and section.facts.has_latent_labels
    arcs = sorted({*wants.arcs, section.iterations}) if predictor.own_arcs else wants.arcs
    return replace(wants, states=wants.states or states, arcs=arcs)


def inner_doubt(model: ModelBase, predictor: Predictor, outputs: Outputs) -> dict[str, Tensor]:
    """Return entropies of every token ``[b, n]`` in nats, by name, of outputs with :func:`with_inner_wants`; only those
    that belong to the predictor's answers."""
    entropies: dict[str, Tensor] = {}
    section = model.recipe.model
    if not section.facts.has_head_variables:
        return entropies
    if section.facts.has_latent_labels and predictor.own_states and outputs.states is not None:
        entropies["latent_label_entropy"] = entropy(model.network.encoder.top.latent_labels(outputs.states.float()))
    if predictor.own_arcs and outputs.arcs is not None:
        entropies["head_entropy"] = entropy(outputs.arcs[:, -1].float()).mean(1)
    return entropies
