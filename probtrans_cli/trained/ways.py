"""In which way a model predicts: as its recipe says, or as somebody asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.weights import WeightPredict
from probtrans_cli.trained.predictor import Draws, Dropout, Ensemble, OnePass, Plain, Predictor

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model


def temperature_of(model: Model) -> float:
    """The temperature that a model predicts with."""
    return model.temperature if model.recipe.predict.temperature and model.temperature is not None else 1.0


def plain(model: Model, *, doubt: bool = False) -> Plain:
    """A model without uncertain weights, or with their means, at the temperature that it predicts with."""
    return Plain(model.network, temperature_of(model), doubt)


def of_weights(model: Model, way: WeightPredict, *, doubt: bool = False, at_temperature: bool = True) -> Predictor:
    """A model with uncertain weights, predicting in a way."""
    temperature, sizes = temperature_of(model) if at_temperature else 1.0, model.task.sizes
    if way.kind == "samples":
        return Draws(model.network, way.samples, temperature, doubt, sizes=sizes)
    if way.kind == "moments":
        return OnePass(model.network, way.state, temperature, doubt, sizes=sizes)
    return Plain(model.network, temperature, doubt)


def predictor_of(
    model: Model,
    *,
    dropout_samples: int | None = None,
    weights: WeightPredict | None = None,
    doubt: bool = False,
    at_temperature: bool = True,
) -> Predictor:
    """How a model predicts by itself, or in another way.

    Args:
        model: the model.
        dropout_samples: by so many passes with dropout.
        weights: how its uncertain weights are used; None: as its recipe says.
        doubt: whether answers have their doubt.
        at_temperature: with the temperature, if it predicts with one.

    Raises:
        UsageError: the model drops nothing, has no uncertain weights, or its task does not choose among classes.
    """
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
        return Dropout(plain(model), dropout_samples, doubt)
    own = model.recipe.uncertain_weights
    if own is None and weights is not None:
        raise UsageError(
            f"--weights: the weights of {model.folder} are certain",
            hint="leave it out, or train with model.bayes or optim.kind=ivon",
        )
    if own is not None:
        without = model.recipe.without_moments
        if weights is not None and weights.kind == "moments" and without:
            what = f"--weights moments: there is no rule for the moments of {without[0]}"
            raise UsageError(what, hint="give a number of draws, --weights 16")
        return of_weights(model, weights or own, doubt=doubt, at_temperature=at_temperature)
    return plain(model, doubt=doubt) if at_temperature else Plain(model.network, doubt=doubt)


def ensemble_of(members: Sequence[Model], *, doubt: bool = False) -> Ensemble:
    """Several models as one.

    Raises:
        UsageError: two of them do not answer the same questions, and the message names the difference; or their task
            does not choose among classes.
    """
    first, *others = members
    _require_questions(first, "several runs")
    for other in others:
        if difference := _difference(first, other):
            what = f"{first.folder} and {other.folder} are no ensemble: {difference}"
            raise UsageError(what, hint="give runs of one recipe, for example those of train --seeds 0,1,2")
    return Ensemble([predictor_of(one) for one in members], doubt)


def _require_questions(model: Model, option: str) -> None:
    """Refuse a task whose answers are no choice among classes."""
    if not model.task.has_questions:
        what = f"a task of kind {model.recipe.task.kind} does not choose among classes"
        raise UsageError(f"{option}: {what}", hint="leave it out")


def _difference(one: Model, other: Model) -> str | None:
    """In what two models differ that are to answer the same questions."""
    for name in ("kind", "chosen_column"):
        mine, theirs = (getattr(model.recipe.task, name) for model in (one, other))
        if mine != theirs:
            return f"task.{name.removeprefix('chosen_')} is {mine} and {theirs}"
    for column in sorted({*one.labels, *other.labels} & {*one.recipe.task.learned, *other.recipe.task.learned}):
        mine, theirs = list(one.labels.get(column, ())), list(other.labels.get(column, ()))
        if mine != theirs:
            odd = sorted({*mine} ^ {*theirs})[:5]
            return f"other labels of {column}" + (f": {', '.join(odd)}" if odd else ", in another order")
    if one.vocabulary_files != other.vocabulary_files:
        return f"other vocabularies, of {one.vocabulary.size:,} and {other.vocabulary.size:,} entries"
    return None
