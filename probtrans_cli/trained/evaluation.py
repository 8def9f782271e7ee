"""Scores of a model on a split: its task's by the one evaluation loop, and those of its induced trees where there are
gold trees; and the reading of its arcs that dev chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from probtrans_cli import console
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.models.base import Encoded, Encoder, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.training import Eval
from probtrans_cli.statistics import uncertainty
from probtrans_cli.tasks.base import Counts, Evaluation, Task
from probtrans_cli.tasks.batch import Batch, collate
from probtrans_cli.trained.arcs import head_choices, trees_of
from probtrans_cli.trained.base import Channel, ModelBase, Reading
from probtrans_cli.trained.predictor import Plain, Predictor, plain, predictor_of
from probtrans_cli.trees import decode, score
from probtrans_cli.trees.score import relation_scores

Watch = Callable[[Outputs, Batch], None]  # is called with the outputs of a batch, and the batch
CHOICE_SENTENCES = 1000
"""Of dev, to choose a channel and the temperature of arcs by: the standard error of UUAS is then below half a point."""


@torch.inference_mode()
def evaluate(
    task: Task,
    predictor: Network | Predictor,
    split: Split,
    evaluation: Evaluation,
    *,
    final: bool,
    watch: Watch | None = None,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Return the scores of a task on a split: the only loop of evaluation.

    Args:
        predictor: the network itself, an ensemble, or Monte Carlo passes.
        final: for figures that are reported, as against one that only chooses between checkpoints.
        watch: is called with every batch of this process and its outputs.
    """
    counts, passes = Counts(), (task.answers.draws or 1) if final else 1
    for outputs, batch in answered(task, predictor, split, evaluation, passes=passes, ranks=ranks):
        counts.add(task.measure(outputs, batch))
        if watch is not None:
            watch(outputs, batch)
    return task.scores(Counts(ranks.summed(counts, "the counts of an evaluation")), final=final)


@torch.inference_mode()
def answered(
    task: Task,
    predictor: Network | Predictor,
    split: Split,
    evaluation: Evaluation,
    *,
    passes: int = 1,
    ranks: Ranks = ALONE,
) -> Iterator[tuple[Outputs, Batch]]:
    """Yield the batches of all passes over a split, each with the outputs of the predictor; each of several processes
    yields its share."""
    predictor = (predictor if isinstance(predictor, Predictor) else Plain(predictor)).ready()
    for number in range(passes):
        for indices in ranks.share(evaluation.batches(split)):
            batch = collate(split, indices, task.columns, padding=task.vocabulary.PAD, device=evaluation.device)
            batch = task.evaluation(batch, number)
            with evaluation.autocast():
                outputs = predictor(batch, evaluation.wants(task.wants(batch)))
            yield outputs, batch


def task_scores(model: ModelBase, split: Split, *, final: bool) -> dict[str, Any]:
    """Return the scores of a model's task: ``final`` ones predicted as its recipe says, those that only choose between
    checkpoints in one plain pass."""
    predictor = predictor_of(model) if final else plain(model)
    return evaluate(model.task, predictor, split, model.evaluation(), final=final, ranks=model.ranks)


@torch.inference_mode()
def figures_of(model: ModelBase, split: Split) -> dict[str, float]:
    """Return the figures that an encoder reports while it learns, see :attr:`Encoder.figures`, of the split's middle
    batch."""
    watched, evaluation = model.network.encoder.top, model.evaluation()
    if watched.figures is None:
        return {}
    calls: list[tuple[Encoder, tuple[Any, ...], Encoded]] = []
    batches = evaluation.batches(split)
    batch = model.collate(split, batches[len(batches) // 2])
    handle = watched.register_forward_hook(lambda *call: calls.append(call))
    try:
        with evaluation.autocast():
            plain(model).ready()(model.task.evaluation(batch, 0), Wants(states=True))
    finally:
        handle.remove()
    if not calls:  # a compiled graph calls no hooks of the modules within it
        return {}
    _, arguments, encoded = calls[-1]
    return {name: float(figure) for name, figure in watched.figures(arguments[0], encoded).items()}


def choose_on_dev(model: ModelBase, dev: Split | None) -> dict[str, Any]:
    """Let dev choose how answers are decided, where the task has such a choice, and temperatures.

    Returns:
        What is stored of it beside the scores: ``decision``, with its ``bias`` and the score on dev of each;
        ``temperature``, with its ``value`` and the loss on dev without it (``nll``) and with it, where labels are
        learned; and ``arc_temperature``, the same of heads, where dev has gold trees.
    """
    if dev is None:
        return {}
    chosen: dict[str, Any] = {}
    task, layer = model.recipe.task, model.network.output
    if layer.decisions:
        scores: dict[float, float] = {}
        for choice in layer.decisions:
            layer.decide(choice)
            scores[choice] = task_scores(model, dev, final=False)[task.metric] or 0.0
        best = max(scores, key=lambda choice: scores[choice] if task.larger_is_better else -scores[choice])
        layer.decide(best)
        by_choice = ", ".join(f"{score:.4g} with {choice:g}" for choice, score in scores.items())
        console.log(f"{layer.decision} {best:g}: dev {task.metric} {by_choice}")
        of_choices = {f"{choice:g}": score for choice, score in scores.items()}
        chosen["decision"] = {layer.decision: best, task.metric: of_choices}
    if task.learned:
        parts, predictor = [], predictor_of(model, at_temperature=False)
        for outputs, batch in answered(model.task, predictor, dev, model.evaluation(), ranks=model.ranks):
            if (questions := model.task.questions(batch)) is not None:
                values = outputs.scores[questions.scores].float()
                parts.append((values.cpu().numpy(), questions.gold.cpu().numpy()))
        if (fitted := _fitted(model, parts, uncertainty.HIGHEST)) is not None:
            model.temperature = round(fitted.temperature, 6)
            chosen["temperature"] = _reported("temperature", fitted)
    return chosen | choose_arc_temperature(model, dev)


def choose_arc_temperature(model: ModelBase, dev: Split) -> dict[str, Any]:
    """Let the gold trees of dev choose the temperature of the heads that the model reads, or that its task predicts.

    Returns:
        As :func:`choose_on_dev`; nothing, and no temperature is known any more, where dev has no gold trees, or they
        give none: the least loss is at a bound, or the model can have fewer than half of the gold heads.
    """
    model.arc_temperature = None
    sample, parts = _spread(dev), []
    if model.task.answers.trees and (choices := model.task.answers.choices):
        for outputs, batch in answered(model.task, plain(model), sample, model.evaluation(), ranks=model.ranks):
            if heads := choices(outputs, batch).get("heads"):
                parts.append((heads.scores.double().cpu().numpy(), heads.gold.cpu().numpy()))
    elif can_score_trees(model, dev):
        parts = [heads_of_batch[:2] for heads_of_batch in head_choices(model, sample, model.reading, ranks=model.ranks)]
    fitted = _fitted(model, parts, uncertainty.HIGHEST_OF_ARCS)
    if fitted is None:
        return {}
    if fitted.at_bound or fitted.share < 0.5:
        why = f"the model can have only {fitted.share:.0%} of the gold heads of dev"
        if fitted.share >= 0.5:
            why = f"the loss on dev falls up to the last one that is tried, {fitted.temperature:.4g}"
        console.log(f"no temperature of arcs: {why}; their probabilities are the model's own beliefs")
        return {}
    model.arc_temperature = round(fitted.temperature, 6)
    return {"arc_temperature": _reported("temperature of arcs", fitted)}


def _fitted(
    model: ModelBase, parts: Sequence[tuple[np.ndarray, np.ndarray]], highest: float
) -> uncertainty.Fitted | None:
    # ``parts``: scores and gold of the batches of this process.
    together = model.ranks.dealt_back(parts, "the answers of dev")
    return uncertainty.fitted([(scores, gold) for scores, gold in together], highest)


def _reported(name: str, fitted: uncertainty.Fitted) -> dict[str, float]:
    best, before, after, *_ = fitted
    console.log(f"{name} {best:.4g}: dev nll {before:.4g} without it, {after:.4g} with it")
    return {"value": round(best, 6), "nll": before, "nll_tempered": after}


def _spread(dev: Split) -> Split:
    # At most ``CHOICE_SENTENCES``, evenly spread.
    return dev.select(np.unique(np.linspace(0, len(dev) - 1, min(len(dev), CHOICE_SENTENCES)).astype(np.int64)))


def can_score_trees(model: ModelBase, split: Split) -> bool:
    """Return whether trees of a model's arcs can be scored on a split: it has arcs, its task gives no trees itself, and
    the split has gold trees."""
    if not model.recipe.model.facts.has_arcs or model.task.answers.trees or not split.has("heads"):
        return False
    return all(bool((heads >= 0).all()) for heads in split.columns("heads"))


def by_sentence(split: Split, name: str) -> list[np.ndarray]:
    return [split.row(name, index) for index in range(len(split))]


def tree_scores(
    model: ModelBase,
    split: Split,
    title: str,
    reading: Reading,
    *,
    baselines: bool,
    channels: bool = False,
    relations: Sequence[str] | None = None,
    predictor: Predictor | None = None,
) -> dict[str, Any]:
    """Score the decoded trees; ``trees/score.py`` names the conventions."""
    names: list[Channel] = [*range(model.recipe.model.trees), "mean"] if channels or relations is not None else []
    readings = [reading, *(replace(reading, channel=channel, chosen_on=None) for channel in names)]
    gold, punct = by_sentence(split, "heads"), by_sentence(split, "punct") if split.has("punct") else None
    warning = score.warning_of_gold(gold, lambda index: f"{title}, sentence {index + 1:,} of those scored")
    if warning is not None and model.ranks.first:
        console.log(warning)
    trees, *trees_of_channels = trees_of(model, split, readings, predictor, model.ranks)
    scores = {"trees": _scores(gold, trees, punct, reading)}
    if baselines:
        scores["trees"]["floors"] = score.floors(gold, punct, by_sentence(split, "frequency"))
    if relations is not None:
        by_channel = {str(channel): heads for channel, heads in zip(names, trees_of_channels, strict=True)}
        frequency = by_sentence(split, "frequency")
        scores["trees"]["relations"] = relation_scores(gold, relations, by_channel, punct, frequency)
    if channels:
        scores["channels"] = {
            str(of_channel.channel): _scores(gold, heads, punct, of_channel)
            for of_channel, heads in zip(readings[1:], trees_of_channels, strict=True)
        }
    return scores


def _scores(
    gold: Sequence[np.ndarray], trees: Sequence[np.ndarray], punct: Sequence[np.ndarray] | None, reading: Reading
) -> dict[str, Any]:
    scores: dict[str, Any] = dict(score.attachment(gold, trees, punct))
    scores["conventions"] = {name: text for name, text in score.CONVENTIONS.items() if name in scores}
    return scores | {"reading": vars(reading)}


def choose_reading(model: ModelBase, dev: Split, wish: Eval, title: str = "dev") -> Reading:
    """Return the channel (or the mean), iteration and decoder with the best UUAS, punctuation removed.

    Only what ``wish`` calls `best` is chosen. ``argmax`` never is: it may draw circles. Of equals ``auto``, then the
    later iteration, then the lower channel, the mean last. Uses at most ``CHOICE_SENTENCES`` sentences, evenly spread.
    """
    recipe = model.recipe.model
    sample = _spread(dev)
    channels: list[Channel] = [*range(recipe.trees), "mean"] if wish.channel == "best" else [wish.channel]
    iterations = [*range(recipe.iterations, 0, -1)] if wish.iteration == "best" else [wish.iteration]
    decoders: list[decode.Method] = ["auto", "mst"] if wish.decode == "best" else [wish.decode]
    readings = [
        Reading(channel, iteration, decoder, chosen_on=title)
        for decoder in decoders
        for iteration in iterations
        for channel in channels
    ]
    gold, punct = by_sentence(sample, "heads"), by_sentence(sample, "punct") if sample.has("punct") else None
    kind = "no_punct" if punct is not None else "with_punct"
    scores = [
        score.attachment(gold, heads, punct)[kind]["all"]["uuas"] or 0.0
        for heads in trees_of(model, sample, readings, ranks=model.ranks)
    ]
    return readings[int(np.argmax(scores))]
