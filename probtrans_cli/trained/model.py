"""A task, its network and its vocabulary together: what training makes, a checkpoint holds, and eval and parse use."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from probtrans_cli import checkpoint, console, models, tasks
from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.ranks import ALONE, Ranks
from probtrans_cli.data.sentence import Sentence, divided
from probtrans_cli.data.tokens import listed
from probtrans_cli.data.vocabularies import load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import CheckpointError, DataError, NothingToScoreError, ProbtransError, UsageError
from probtrans_cli.models.bayesian.variational import spread, spread_all
from probtrans_cli.models.bayesian.weights import outside_bounds
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.recipe.source import load_stored
from probtrans_cli.recipe.training import Runtime
from probtrans_cli.recipe.weights import way_of
from probtrans_cli.tasks.base import Evaluation, Task, entry_features
from probtrans_cli.tasks.batch import Batch, collate
from probtrans_cli.text import first_of, printable
from probtrans_cli.trained.arcs import Reading
from probtrans_cli.trained.arrow import record_batches
from probtrans_cli.trained.card import Config
from probtrans_cli.trained.cues import commonness_of, order_of
from probtrans_cli.trained.latent_labels import require_labels
from probtrans_cli.trained.machine import Machine
from probtrans_cli.trained.parses import Analysis, Asked, analyses
from probtrans_cli.trained.predictions import beyond_positions, require_alternatives
from probtrans_cli.trained.predictor import Predictor
from probtrans_cli.trained.ways import predictor_of
from probtrans_cli.trees import decode

_OTHER = "it is not as probtrans wrote it: use another checkpoint"
ANALYSED_AT_ONCE = 256  # sentences, by `analyze`


@dataclass
class Model:
    """Everything that predicts. ``folder`` is the checkpoint it came from, None while it is being trained."""

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
    ranks: Ranks = ALONE
    """The processes that train it together, and share its scores."""

    @classmethod
    def new(
        cls, recipe: Recipe, vocabulary: Vocabulary, labels: Mapping[str, Sequence[str]], machine: Machine
    ) -> Model:
        """A model with fresh weights, drawn from torch's default generator."""
        task = tasks.build(recipe.task, vocabulary, labels)
        network = Network(
            vocabulary.size,
            models.build(recipe.model, recipe.runtime.messages),
            task.output,
            feature_rows=0 if vocabulary.features is None else vocabulary.features.size,
            entries=entry_features(vocabulary) if task.tied else None,
            sentence=task.representation(recipe.model),
            begins=vocabulary.begins,
            common=commonness_of(vocabulary) if recipe.model.facts.counts_words else None,
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
            "eisner" if section.decode == "best" else section.decode,
        )
        return cls(recipe, vocabulary, labels, task, network, machine, reading)

    @classmethod
    def load(cls, name: str, *, threads: int | None = None, local: int | None = None) -> Model:
        """The model of a CKPT argument, on the GPU if there is one, with float32 weights.

        ``local``: of several processes on this machine the number of this one, which is that of its GPU.

        Raises:
            CheckpointError: there is none, it is damaged, or it was written by another version of the format.
        """
        folder = checkpoint.locate(name)
        verified = checkpoint.verify(folder)
        found = verified.json("config.json", dict[str, Any])
        if found.get("format") != checkpoint.FORMAT:
            raise CheckpointError(
                f"{folder}: format {found.get('format')!r}, this probtrans reads {checkpoint.FORMAT}",
                hint=f"it was written by {found.get('tool')}",
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
        section = Runtime(threads=threads or recipe.runtime.threads, precision=recipe.runtime.precision)
        machine = Machine(section, local)
        model = cls.new(recipe, vocabulary, labels, machine)
        verified.load_into(model.network, "model.safetensors")
        model.network.float().eval()
        if outside := outside_bounds(model.network):
            console.log(f"warning: {folder}: log σ beyond its bounds counts as the bound: {first_of(outside)}")
        model.folder, model.step, model.origin = folder, config.step, config.origin
        model.temperature, stored = config.temperature, config.trees
        try:
            model.reading = model.read(str(stored.channel), stored.iteration, stored.decoder)
        except UsageError as error:
            raise CheckpointError(f"{folder / 'config.json'}: trees: {error.message}", hint=_OTHER) from None
        model.reading = replace(model.reading, chosen_on=stored.chosen_on)
        return model

    @property
    def predictor(self) -> Predictor:
        """How it predicts, as its recipe says."""
        return predictor_of(self)

    @property
    def has_root_column(self) -> bool:
        """Whether arcs have a column for the root: the model has a root node, or `<cls>` in front of its words."""
        return self.network.has_root_column

    def collate(self, split: Split, indices: np.ndarray, device: torch.device | None = None) -> Batch:
        """The batch of some sentences of a split; ``device``: where, if not where the model is."""
        device = device or self.machine.device
        return collate(split, indices, self.task.columns, padding=self.vocabulary.PAD, device=device)

    @cached_property
    def vocabulary_files(self) -> dict[str, str | bytes]:
        """The vocabulary's files by name."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.vocabulary.save(folder)
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def read(self, channel: str | None, iteration: int | None, decoder: decode.Method | None) -> Reading:
        """The checkpoint's own reading of trees with some of it replaced.

        Raises:
            UsageError: the model does not have the channel or the iteration.
        """
        chosen = self.reading
        section = self.recipe.model
        if channel is not None and channel != "best":
            number = int(channel) if re.fullmatch(r"[0-9]{1,9}", channel) else None
            if channel != "mean" and (number is None or number >= section.channels):
                raise UsageError(
                    f"channel '{printable(channel)}': the model has channels 0 to {section.channels - 1}",
                    hint="give a number, mean, or best (the checkpoint's choice)",
                )
            chosen = replace(chosen, channel="mean" if number is None else number, chosen_on=None)
        if iteration is not None:
            if iteration != -1 and not 1 <= iteration <= section.iterations:
                raise UsageError(
                    f"iteration {iteration}: the model has iterations 1 to {section.iterations}", hint="-1 is the last"
                )
            chosen = replace(chosen, iteration=iteration)
        return chosen if decoder is None else replace(chosen, decoder=decoder)

    def analyze(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        trees: bool = True,
        channel: str | int | None = None,
        iteration: int | None = None,
        decoder: decode.Method | None = None,
        latent_labels: int | None = None,
        top: int | None = None,
        uncertainty: bool = False,
        dropout_samples: int | None = None,
        weights: str | None = None,
        coordination: Model | None = None,
        rescore: bool = False,
    ) -> Iterator[Analysis]:
        """What the model says of some sentences, in order, as they are done: the same as `parse -f jsonl`.

        Args:
            texts: sentences; a text is divided into words as `parse --input text` does, a list of words stays
                as it is, without white space around them.
            trees: whether trees are wanted; without them, nothing is computed for them.
            channel: which channel's heads are read, a number or `mean`; None: the checkpoint's choice. So for the
                next two.
            iteration: which iteration's, 1..T or -1 for the last.
            decoder: `mst`, `eisner` or `argmax`.
            latent_labels: how many latent labels of each word; None: none.
            top: how many alternatives of what the task says, where there are several.
            uncertainty: whether the prediction has its doubt: entropies, and where there are members their mutual
                information with the answer.
            dropout_samples: predict by the mean of so many passes with dropout; None: by one without.
            weights: how uncertain weights are used: `moments`, `diagonal`, `mean` or a number of draws; None: as the
                recipe says.
            coordination: a model of coordinations, at which sentences are split before tuples are found in them.
            rescore: whether the confidence of a tuple is then that of its labels in the whole sentence.

        Raises:
            UsageError: one text in place of several; alternatives that the task does not give; a channel, iteration,
                labels, dropout or uncertainty that the model does not have; models that find no coordinations or no
                tuples.
            DataError: while the analyses are read: a sentence has more tokens than the encoder has positions.
        """
        if isinstance(texts, str | bytes):
            raise UsageError("analyze takes several texts, and was given one", hint="write analyze([text])")
        if top is not None and latent_labels is None:
            require_alternatives(self)
        named = None if channel is None else str(channel)
        readings = [self.read(named, iteration, decoder)] if trees and self.recipe.model.facts.has_arcs else []
        if latent_labels is not None:
            require_labels(self)
        way = None if weights is None else way_of(weights)
        predictor = predictor_of(self, dropout_samples=dropout_samples, weights=way, doubt=uncertainty)
        splitter = None if coordination is None else coordination.task.splitter(coordination, self, rescore=rescore)
        asked = Asked(readings, latent_labels, top=top, predictor=predictor, splitter=splitter)
        return self._analysed(texts, asked)

    def _analysed(self, texts: Iterable[str | Sequence[str]], asked: Asked) -> Iterator[Analysis]:
        """The analyses of :meth:`analyze`."""
        given = iter(texts)
        while portion := list(islice(given, ANALYSED_AT_ONCE)):
            sentences = [divided(one) if isinstance(one, str) else Sentence(words=listed(one)) for one in portion]
            yield from analyses(self, sentences, asked)

    def analyze_arrow(
        self, texts: Iterable[str | Sequence[str]], *, rows: int = ANALYSED_AT_ONCE, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """What :meth:`analyze` says, as Arrow: batches of ``rows`` analyses, in the columns of
        :data:`probtrans_cli.trained.arrow.SCHEMA`, which are the same for all models. ``options``: those of `analyze`.
        """
        return record_batches(self.analyze(texts, **options), rows)

    def require_positions(self, splits: Mapping[str, Split | None]) -> None:
        """Refuse corpora with sentences that the encoder cannot read, before the first update and not at the batch
        with them.

        Raises:
            DataError: a sentence is longer than there are positions.
        """
        limit = self.network.longest
        for name, split in splits.items():
            if split is not None and limit is not None and len(split) and (most := int(split.lengths.max())) > limit:
                others = (self.network.encoder.longest or 0) - limit  # taken by `<cls>`
                rows = ".".join(("model", *self.recipe.model.facts.shortest, "positions.rows"))
                raise DataError(
                    f"{name}: the longest sentence has {most} tokens, the model {limit} positions for them",
                    hint=f"train with {rows}={most + others}, or data.longest={limit} data.too_long=cut",
                )

    def require_something(self, splits: Mapping[str, Split]) -> None:
        """Refuse corpora that an evaluation could not score, before the first update and not after the last.

        Raises:
            NothingToScoreError: there is nothing to score in one.
        """
        for name, split in splits.items():
            try:
                self.task.require_something(split, self.evaluation())
            except NothingToScoreError as error:
                raise NothingToScoreError(f"{name}: {error.message}", hint=error.hint) from None

    def learn_word_order(self, train: Split) -> None:
        """Read off the training corpus what the order of words tells of each of them, where the encoder asks."""
        if self.network.order is not None:
            self.network.order.copy_(order_of(self.vocabulary, train)[:, : self.network.order.shape[1]])

    def too_long(self, sentences: Sequence[Sentence], split: Split) -> tuple[int, DataError] | None:
        """Which of these sentences is the first that the encoder cannot read, and what to say of it; None: none is."""
        limit = self.network.longest
        if limit is None or not (over := split.lengths > limit).any():
            return None
        first = int(over.argmax())
        what = f"{sentences[first].where}: {beyond_positions(int(split.lengths[first]), limit)}"
        return first, DataError(what, hint="split it; parse --too-long skip gives it an empty analysis")

    def evaluation(self) -> Evaluation:
        """How this model's evaluations run."""
        words = self.recipe.eval.batch_words
        return Evaluation(
            batches=lambda split: plan(split.lengths, words, 0, 0, shuffle=False, bounds=split.bounds),
            device=self.machine.device,
            autocast=self.machine.autocast,
        )


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return a network's weights on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}
