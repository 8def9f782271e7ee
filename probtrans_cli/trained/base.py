"""A task, its network and its vocabulary together: what training makes and a checkpoint holds."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from probtrans_cli import checkpoint, console, models, tasks
from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.words import is_word
from probtrans_cli.errors import CheckpointError, DataError, NothingToScoreError, ProbtransError, UsageError
from probtrans_cli.folders.checkpoints import json_object
from probtrans_cli.models.bayesian.weights import outside_bounds
from probtrans_cli.models.network import Network, spread, spread_all
from probtrans_cli.models.probabilistic.head_bias import commonness
from probtrans_cli.recipe.base import NonNegativeInt
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import dump_recipe, load_stored
from probtrans_cli.recipe.training import Precision, Runtime
from probtrans_cli.statistics.word_order import standing_alone, word_order
from probtrans_cli.tasks.base import Evaluation, Task, entry_features, scored
from probtrans_cli.tasks.batch import Batch, collate
from probtrans_cli.tasks.masking import nothing_hidden
from probtrans_cli.text import first_of, printable
from probtrans_cli.trained.machine import Machine
from probtrans_cli.trees import decode
from probtrans_cli.version import __version__

_OTHER = "it is not as probtrans wrote it: use another checkpoint"
ENOUGH_WORDS = 2_000_000  # of a training corpus, to see what the order of words tells


Channel = int | Literal["mean"]

MOST_ON_A_CPU = 1024  # tokens of a batch of answers: with more, padding grows, and products are no faster


@dataclass(frozen=True)
class Reading:
    """Which head marginals are read as trees: ``channel`` (number or mean), ``iteration`` (1..T or -1), ``decoder``."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # of what ``config.json`` holds

    channel: Channel
    iteration: int
    decoder: decode.Method
    chosen_on: str | None = None


class Config(BaseModel):
    """What is read of a ``config.json``."""

    model_config = ConfigDict(extra="allow")

    format: Literal[1]  # the version of the format, :data:`probtrans_cli.checkpoint.FORMAT`
    step: NonNegativeInt
    trees: Reading
    origin: dict[str, Any] | None = None
    temperature: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    """The temperature with the least loss on dev; None: nothing with labels was trained."""
    arc_temperature: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    """That of the heads of words; None: dev had no gold trees."""


@dataclass
class ModelBase:
    """A task with its network and vocabulary. ``folder``: the checkpoint it came from, None while it is trained."""

    recipe: Recipe
    vocabulary: Vocabulary
    labels: Mapping[str, Sequence[str]]
    task: Task
    network: Network
    machine: Machine
    reading: Reading
    folder: Path | None = None
    step: int = 0
    origin: dict[str, Any] | None = None
    """The config.json of the BERT that training started from, whose keys an export keeps."""
    temperature: float | None = None
    """By which its scores have the least loss on dev; used where the recipe says `predict.temperature: true`."""
    arc_temperature: float | None = None
    """By which the heads of its own reading, or of its task's trees, have the least loss on dev; always used."""
    ranks: Ranks = ALONE  # the processes that train it together, and share its scores

    def __repr__(self) -> str:
        counts = self.network.parameter_counts()
        where = "" if self.folder is None else f", {self.folder}"
        kinds = f"{self.recipe.task.kind}, {self.recipe.model.kind}"
        return f"{type(self).__name__}({self.recipe.name}: {kinds}, {sum(counts.values()):,} parameters{where})"

    def _repr_html_(self) -> str:
        counts, reading = self.network.parameter_counts(), self.reading
        rows = {
            "model": self.recipe.model.describe(),
            "task": self.recipe.task.kind,
            "parameters": f"{sum(counts.values()):,}, of the encoder {counts['encoder']:,}",
            "vocabulary": f"{self.vocabulary.size:,} entries",
            "training": f"{self.step:,} updates, seed {self.recipe.seed}",
        }
        if self.recipe.model.facts.has_arcs and not self.task.answers.trees:
            rows["trees"] = f"channel {reading.channel}, iteration {reading.iteration}, decoder {reading.decoder}"
        if self.folder is not None:
            scores = json_object(self.folder / "eval.json")
            rows |= {split: _scores(scores[split]) for split in ("dev", "test") if isinstance(scores.get(split), dict)}
            rows["folder"] = str(self.folder)
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        return f"<table><caption>{escape(self.recipe.name)}</caption>{cells}</table>"

    @classmethod
    def new(cls, recipe: Recipe, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]], machine: Machine) -> Self:
        """Return a model with fresh weights, drawn from torch's default generator."""
        task = tasks.build(recipe.task, vocabulary, labels)
        network = Network(
            vocabulary.size,
            models.build(recipe.model, recipe.runtime.messages),
            task.output,
            feature_rows=0 if vocabulary.features is None else vocabulary.features.size,
            feature_window=0 if vocabulary.features is None else vocabulary.features.section.window,
            feature_rank=0 if vocabulary.features is None else vocabulary.features.section.rank or 0,
            entries=entry_features(vocabulary) if recipe.task.facts.tied else None,
            begins=vocabulary.begins,
            common=_commonness(vocabulary) if recipe.model.facts.counts_words else None,
            order_cues=recipe.model.facts.order_cues,
            padding=vocabulary.PAD,
            hidden=vocabulary.MASK,
        ).to(machine.device)
        if recipe.model.facts.variational is not None:
            spread(network, recipe.model.facts.variational, probe=recipe.train.probe)
        elif recipe.optim.posterior is not None:
            spread_all(network, recipe.optim.posterior.prior, probe=recipe.train.probe)
        section = recipe.eval
        reading = Reading(
            "mean" if section.channel == "best" else section.channel,
            -1 if section.iteration == "best" else section.iteration,
            "auto" if section.decode == "best" else section.decode,
        )
        return cls(recipe, vocabulary, labels, task, network, machine, reading)

    @classmethod
    def load(
        cls, name: str, *, threads: int | None = None, precision: Precision | None = None, local: int | None = None
    ) -> Self:
        """Load the model of a CKPT argument, on the GPU if there is one, with float32 weights.

        ``precision``: of its products; None: as its recipe says. ``local``: of several processes on this machine the
        number of this one, which is that of its GPU.
        """
        folder = checkpoint.locate(name)
        stamp, kept = _KEPT.get(folder, (None, None))
        if isinstance(kept, cls) and stamp == _stamp(folder):
            kept.machine = _machine(kept.recipe, threads, precision, local)
            return kept
        verified = checkpoint.verify(folder)
        raw = verified.json("config.json", dict[str, Any])
        if raw.get("format") != checkpoint.FORMAT:
            raise CheckpointError(
                f"{folder}: format {raw.get('format')!r}, this probtrans reads {checkpoint.FORMAT}",
                hint=f"it was written by {raw.get('tool')}",
            )
        config = verified.json("config.json", Config)
        try:
            recipe = load_stored(folder / "recipe.yaml")
        except ProbtransError as error:
            raise CheckpointError(error.message, hint=error.hint) from None
        labels = verified.json("labels.json", dict[str, list[str]])
        if missing := [column for column in recipe.task.learned if column not in labels]:
            raise CheckpointError(f"{folder / 'labels.json'}: has no labels of {missing[0]}", hint=_OTHER)
        try:
            vocabulary = load_vocabulary(folder)
        except DataError as error:
            raise CheckpointError(error.message, hint=_OTHER) from None
        with Undrawn():
            model = cls.new(recipe, vocabulary, labels, _machine(recipe, threads, precision, local))
        verified.load_into(model.network, "model.safetensors")
        model.network.float().eval()
        if outside := outside_bounds(model.network):
            console.log(f"warning: {folder}: log σ beyond its bounds counts as the bound: {first_of(outside)}")
        model.folder, model.step, model.origin = folder, config.step, config.origin
        model.temperature, model.arc_temperature, stored = config.temperature, config.arc_temperature, config.trees
        try:
            model.reading = model.read(stored.channel, stored.iteration, stored.decoder)
        except UsageError as error:
            raise CheckpointError(f"{folder / 'config.json'}: trees: {error.message}", hint=_OTHER) from None
        model.reading = replace(model.reading, chosen_on=stored.chosen_on)
        return model

    def keep(self) -> None:
        """Let :meth:`load` return this model in processes that are forked from now on, while its checkpoint does not
        change; each process sets its own number of threads."""
        assert self.folder is not None, "it was loaded"
        _KEPT[self.folder] = _stamp(self.folder), self

    def collate(self, split: Split, indices: np.ndarray, device: torch.device | None = None) -> Batch:
        """Return the batch of some sentences of a split; ``device``: the model's by default."""
        device = device or self.machine.device
        return collate(split, indices, self.task.columns, padding=self.vocabulary.PAD, device=device)

    @cached_property
    def vocabulary_files(self) -> dict[str, str | bytes]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.vocabulary.save(folder)
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def read(self, channel: str | int | None, iteration: int | None, decoder: decode.Method | None) -> Reading:
        """Return the checkpoint's own reading of trees, with some of it replaced."""
        chosen = self.reading
        section = self.recipe.model
        if channel is not None and channel != "best":
            number = int(channel) if re.fullmatch(r"[0-9]{1,9}", str(channel)) else None
            if channel != "mean" and (number is None or number >= section.trees):
                raise UsageError(
                    f"channel '{printable(str(channel))}': the model has channels 0 to {section.trees - 1}",
                    hint="give a number, mean, or best (the checkpoint's choice)",
                )
            chosen = replace(chosen, channel="mean" if number is None else number, chosen_on=None)
        if iteration is not None:
            if iteration != -1 and not 1 <= iteration <= section.iterations:
                raise UsageError(
                    f"iteration {iteration}: the model has iterations 1 to {section.iterations}", hint="-1 is the last"
                )
            chosen = replace(chosen, iteration=iteration)
        if decoder is not None and decoder not in get_args(decode.Method):
            raise UsageError(f"there is no decoder {printable(str(decoder))!r}", hint="use argmax, mst, eisner or auto")
        return chosen if decoder is None else replace(chosen, decoder=decoder)

    def refuse_choice_of_trees(self, *options: object) -> None:
        """Raise a UsageError where a channel, an iteration or a decoder is wanted of a parser."""
        if self.task.answers.trees and any(option is not None for option in options):
            message = "the heads of a parser are its answers: task.decode decides how they are decoded"
            raise UsageError(message, hint="leave out --decode, --iteration and --channel")

    def arc_temperature_of(self, reading: Reading) -> float | None:
        """Return the temperature of the heads of a reading; None: none is known, as gold trees have given none, or one
        to another channel or iteration."""
        last = self.recipe.model.iterations
        places = {(each.channel, last if each.iteration == -1 else each.iteration) for each in (reading, self.reading)}
        return None if self.task.answers.trees or len(places) > 1 else self.arc_temperature

    def require_positions(self, splits: Mapping[str, Split | None]) -> None:
        """Refuse corpora with sentences that the encoder cannot read, before the first update and not at the batch
        with them."""
        limit = self.network.longest
        for name, split in splits.items():
            if split is not None and limit is not None and len(split) and (most := int(split.lengths.max())) > limit:
                special = (self.network.encoder.facts.position_rows or 0) - limit  # taken by `<cls>`
                rows = ".".join(("model", *self.recipe.model.facts.shortest, "positions.rows"))
                raise DataError(
                    f"{name}: the longest sentence has {most} tokens, the model {limit} positions for them",
                    hint=f"train with {rows}={most + special}, or data.longest={limit} data.too_long=cut",
                )

    def require_something(self, splits: Mapping[str, Split]) -> None:
        """Refuse corpora that an evaluation could not score, before the first update and not after the last."""
        for name, split in splits.items():
            if self.task.answers.draws is not None and not any(scored(self.task, split, self.evaluation())):
                error = nothing_hidden()
                raise NothingToScoreError(f"{name}: {error.message}", hint=error.hint)

    @property
    def extra_words(self) -> int:
        return len(self.labels.get("extra_words", ()))

    def too_long(self, sentences: Sequence[Sentence], split: Split) -> tuple[int, DataError] | None:
        """Return the first of these sentences that the encoder cannot read, and its error; None: there is none."""
        limit = self.network.longest
        if limit is None or not (over := split.lengths > limit).any():
            return None
        first = int(over.argmax())
        message = f"{sentences[first].where}: {beyond_positions(int(split.lengths[first]), limit)}"
        return first, DataError(message, hint="split it; parse --too-long skip gives it an empty analysis")

    def evaluation(self) -> Evaluation:
        words = self.recipe.eval.batch_words
        if self.machine.device.type == "cpu":
            words = min(words, MOST_ON_A_CPU)
        return Evaluation(
            batches=lambda split: plan(split.lengths, words, 0, 0, shuffle=False, bounds=split.bounds),
            device=self.machine.device,
            autocast=self.machine.autocast,
        )


class Undrawn(TorchFunctionMode):
    """Leave out drawing weights, which those of a file replace: it is a third of the time that a BERT loads."""

    _IN_PLACE = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in self._IN_PLACE:
            tensor: Tensor = args[0] if args else kwargs["tensor"]
            with torch.no_grad():
                return tensor.zero_()
        return (torch.zeros if function is torch.randn and "generator" not in kwargs else function)(*args, **kwargs)


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


def beyond_positions(tokens: int, positions: int) -> str:
    """Say that a sentence has more tokens than the encoder has positions."""
    return f"a sentence of {tokens} tokens, and the model has {positions} positions for them"


_KEPT: dict[Path, tuple[frozenset[tuple[object, ...]], ModelBase]] = {}
"""Models that are kept in memory, by the checkpoint's folder; with what the folder was like."""


def _stamp(folder: Path) -> frozenset[tuple[object, ...]]:
    files = ((entry.name, entry.stat(follow_symlinks=False)) for entry in os.scandir(folder))
    return frozenset((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in files)


def _machine(recipe: Recipe, threads: int | None, precision: Precision | None, local: int | None) -> Machine:
    of_recipe = recipe.runtime
    return Machine(Runtime(threads=threads or of_recipe.threads, precision=precision or of_recipe.precision), local)


def _commonness(vocabulary: Vocabulary) -> Float[Tensor, " v"]:
    assert vocabulary.entry_counts is not None, "a recipe with another vocabulary is refused"
    return commonness(vocabulary.entry_counts, unread=len(vocabulary.specials))


def word_order_of(vocabulary: Vocabulary, train: Split) -> Float[Tensor, "v 8"]:
    """z, R, Λ, D, e, 1 for punctuation, N and 1 for a rare word, of every entry by the first :data:`ENOUGH_WORDS` words
    of a training corpus, see :mod:`probtrans_cli.models.probabilistic.head_bias`; of a boundary, z, R and D are 0."""
    entries = ((id in vocabulary.specials, vocabulary.decode(id)) for id in range(vocabulary.size))
    boundary = np.array([not (special or is_word(word)) for special, word in entries])
    lengths = train.lengths[: 1 + int(np.searchsorted(np.cumsum(train.lengths, dtype=np.int64), ENOUGH_WORDS))]
    parts, columns = [np.zeros(0, dtype=np.int64)], train.columns("ids")
    while (missing := int(lengths.sum()) - sum(map(len, parts))) > 0:
        parts.append(next(columns)[:missing])
    ids = np.concatenate(parts)
    order = word_order(ids, lengths, boundary, vocabulary.UNKNOWN)
    counts = np.where(boundary, 0, np.bincount(ids, minlength=vocabulary.size))
    common = _commonness(vocabulary).numpy()
    words = max(int(counts.sum()), 1)
    right = float(np.clip(counts @ order[:, 0] / words, 0.0, 1.0))
    drawn = np.where(boundary, 0.0, right * (common - counts @ common / words))
    edge = np.where(boundary, common[~boundary].max(initial=0.0), common)
    rare, alone = standing_alone(ids, lengths, boundary, vocabulary.UNKNOWN)
    ones = np.ones(vocabulary.size)
    return torch.from_numpy(np.column_stack([order, right * ones, drawn, edge, boundary, alone * ones, rare]))


# --- the files of a checkpoint, beside its weights --------------------------------------------------------------------


def texts_of(model: ModelBase, scores: dict[str, Any]) -> dict[str, str | bytes]:
    """Return the files of a model, but for the weights, by name; ``scores`` by split."""
    counts = model.network.parameter_counts()
    config = {
        "format": checkpoint.FORMAT,
        "tool": f"probtrans {__version__}",
        "name": model.recipe.name,
        "task": model.recipe.task.kind,
        "step": model.step,
        "vocabulary_size": model.vocabulary.size,
        "outputs": model.task.outputs,
        "parameters": counts,
        "trees": vars(model.reading),
        **model.network.output.described(),
        **({} if model.temperature is None else {"temperature": model.temperature}),
        **({} if model.arc_temperature is None else {"arc_temperature": model.arc_temperature}),
        **({} if model.origin is None else {"origin": model.origin}),
    }
    of_splits = "\n".join(
        f"- {split}: {_scores(values)}" for split, values in scores.items() if isinstance(values, dict)
    )
    readme = f"""# {model.recipe.name}

{model.recipe.model.describe()}
Trained by probtrans {__version__}, task `{model.recipe.task.kind}`, {model.step} updates;
{counts["encoder"]:,} encoder parameters, {model.vocabulary.size:,} vocabulary entries.

{of_splits}

Use it with `probtrans parse FOLDER` and `probtrans eval FOLDER`. The folder is complete: weights (safetensors),
vocabulary, labels, recipe; `SHA256SUMS` holds the checksum of every file.
"""
    return {
        "config.json": as_json(config),
        "labels.json": as_json(model.labels),
        "eval.json": as_json(scores),
        "recipe.yaml": dump_recipe(model.recipe, [f"Recipe of this checkpoint, resolved, probtrans {__version__}"]),
        "README.md": readme,
        **model.vocabulary_files,
    }


def store_reading(model: ModelBase) -> None:
    """Write how a model's trees are read, with the temperature of their arcs, into the checkpoint that it came from:
    parse and eval take it from there."""
    assert model.folder is not None, "a model in training is saved by its trainer"
    verified = checkpoint.verify(model.folder, training=True)
    config = verified.json("config.json", dict[str, Any]) | {"trees": vars(model.reading)}
    config["arc_temperature"] = model.arc_temperature
    files = {name: content for name, content in verified.files.items() if name != checkpoint.SUMS}
    checkpoint.write(model.folder, files | {"config.json": as_json(config)}, {})


def _scores(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items() if isinstance(value, float))


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
