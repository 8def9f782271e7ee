"""A task, its network and its vocabulary together: what training makes, a checkpoint holds, and eval and parse use."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from probtrans_cli import __version__, checkpoint, models, tasks
from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies import load_vocabulary
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.errors import CheckpointError, DataError, NothingToScoreError, ProbtransError, UsageError
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.model import ProbabilisticTransformer
from probtrans_cli.recipe.schema import Recipe, Runtime
from probtrans_cli.recipe.source import dump_recipe, load_recipe
from probtrans_cli.tasks.base import Evaluation, Task, commonness_of, entry_features, features, tensor
from probtrans_cli.trained.machine import Machine
from probtrans_cli.trees import decode

Channel = int | Literal["mean"]

# Head marginals of a batch that are taken out of the network at once: 256 MB; a single longer sentence may have more.
ARC_CELLS = 1 << 26


@dataclass(frozen=True)
class Reading:
    """Which head marginals are read as trees: ``channel`` (number or mean), ``iteration`` (1..T or -1), ``decoder``."""

    channel: Channel
    iteration: int
    decoder: decode.Method
    chosen_on: str | None = None

    def describe(self) -> str:
        """For people: `channel 3, last iteration, eisner`."""
        iteration = "last iteration" if self.iteration == -1 else f"iteration {self.iteration}"
        chosen = f", chosen on {self.chosen_on}" if self.chosen_on else ""
        return f"channel {self.channel}, {iteration}, {self.decoder}{chosen}"


@dataclass
class WordBatch:
    """What the encoder says of a batch of words: sentence indices [b], mask [b, n], and what was asked for.

    ``arcs [b, t, h, n, n (+1)]``: head marginals of some iterations, over the words and the root, if there is one.
    ``labels [b, n, d]``: distributions over the latent labels, last iteration. Both are empty where not asked for.
    ``host [b, n]``: where some words are not read, the word at which such a one hangs, -1 for words that are read.
    """

    indices: np.ndarray
    mask: np.ndarray
    arcs: np.ndarray = field(default_factory=lambda: np.zeros(0))
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    host: np.ndarray | None = None


@dataclass
class Model:
    """Everything that predicts. ``folder`` is the checkpoint it came from, None while it is being trained."""

    recipe: Recipe
    vocabulary: Vocabulary
    labels: dict[str, list[str]]
    task: Task
    network: Network
    machine: Machine
    reading: Reading
    folder: Path | None = None
    step: int = 0
    origin: dict[str, Any] | None = None
    """The config.json of the BERT that training started from, whose keys an export keeps."""

    @classmethod
    def new(cls, recipe: Recipe, vocabulary: Vocabulary, labels: dict[str, list[str]], machine: Machine) -> Model:
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
            common=None if getattr(recipe.model, "head_bias", None) is None else commonness_of(vocabulary),
            padding=vocabulary.PAD,
            hidden=vocabulary.MASK,
        ).to(machine.device)
        section = recipe.eval
        reading = Reading(
            "mean" if section.channel == "best" else section.channel,
            -1 if section.iteration == "best" else section.iteration,
            "eisner" if section.decode == "best" else section.decode,
        )
        return cls(recipe, vocabulary, labels, task, network, machine, reading)

    @classmethod
    def load(cls, name: str, *, threads: int | None = None) -> Model:
        """The model of a CKPT argument, on the GPU if there is one, with float32 weights.

        Raises:
            CheckpointError: there is none, it is damaged, or it was written by another version of the format.
        """
        folder = checkpoint.locate(name)
        verified = checkpoint.verify(folder)
        config = verified.json("config.json")
        if config.get("format") != checkpoint.FORMAT:
            raise CheckpointError(
                f"{folder}: format {config.get('format')!r}, this probtrans reads {checkpoint.FORMAT}",
                hint=f"it was written by {config.get('tool')}",
            )
        try:
            recipe = load_recipe(str(folder / "recipe.yaml"))
        except ProbtransError as error:
            raise CheckpointError(f"{folder / 'recipe.yaml'}: {error.message}", hint=error.hint) from None
        labels = verified.json("labels.json")
        machine = Machine(Runtime(threads=threads or recipe.runtime.threads, precision=recipe.runtime.precision))
        model = cls.new(recipe, load_vocabulary(folder), labels, machine)
        weights = verified.tensors("model.safetensors")
        try:
            model.network.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(f"{folder}: the weights do not fit the recipe: {error}") from None
        model.network.float().eval()
        model.reading, model.folder, model.step = Reading(**config["trees"]), folder, config["step"]
        model.origin = config.get("origin")
        return model

    def texts(self, eval_scores: dict[str, Any]) -> dict[str, str | bytes]:
        """The files of a distributable checkpoint, but for the weights."""
        counts = self.network.parameter_counts()
        config = {
            "format": checkpoint.FORMAT,
            "tool": f"probtrans {__version__}",
            "name": self.recipe.name,
            "task": self.recipe.task.kind,
            "step": self.step,
            "vocabulary_size": self.vocabulary.size,
            "outputs": self.task.outputs,
            "parameters": counts,
            "trees": vars(self.reading),
            **({} if self.origin is None else {"origin": self.origin}),
        }
        return {
            "config.json": _json(config),
            "labels.json": _json(self.labels),
            "eval.json": _json(eval_scores),
            "recipe.yaml": dump_recipe(self.recipe, [f"Recipe of this checkpoint, resolved, probtrans {__version__}"]),
            "README.md": _readme(self, counts, eval_scores),
            **self.vocabulary_files,
        }

    def store_reading(self) -> None:
        """Write ``reading`` into the checkpoint that the model came from: parse and eval take it from there.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        assert self.folder is not None, "a model in training is saved by its trainer"
        verified = checkpoint.verify(self.folder, training=True)
        config = verified.json("config.json") | {"trees": vars(self.reading)}
        files = {name: content for name, content in verified.files.items() if name != checkpoint.SUMS}
        checkpoint.write(self.folder, files | {"config.json": _json(config)}, {})

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
            if channel != "mean" and not (channel.isdecimal() and int(channel) < section.channels):
                raise UsageError(
                    f"channel {channel!r}: the model has channels 0 to {section.channels - 1}",
                    hint="give a number, mean, or best (the checkpoint's choice)",
                )
            chosen = replace(chosen, channel="mean" if channel == "mean" else int(channel), chosen_on=None)
        if iteration is not None:
            if iteration != -1 and not 1 <= iteration <= section.iterations:
                raise UsageError(
                    f"iteration {iteration}: the model has iterations 1 to {section.iterations}", hint="-1 is the last"
                )
            chosen = replace(chosen, iteration=iteration)
        return chosen if decoder is None else replace(chosen, decoder=decoder)

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
                raise DataError(
                    f"{name}: the longest sentence has {most} tokens, the model {limit} positions for them",
                    hint=f"train with model.positions.rows={most + others}, or data.longest={limit} data.too_long=cut",
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

    def too_long(self, sentences: Sequence[Sentence], split: Split) -> tuple[int, DataError] | None:
        """Which of these sentences is the first that the encoder cannot read, and what to say of it; None: none is."""
        limit = self.network.longest
        if limit is None or not (over := split.lengths > limit).any():
            return None
        first = int(over.argmax())
        what = f"a sentence of {int(split.lengths[first])} tokens, and the model has {limit} positions for them"
        return first, DataError(f"{sentences[first].where}: {what}", hint="split it")

    def evaluation(self) -> Evaluation:
        """How this model's evaluations run."""
        words = self.recipe.eval.batch_words
        return Evaluation(
            batches=lambda split: plan(split.lengths, words, 0, 0, shuffle=False),
            device=self.machine.device,
            autocast=self.machine.autocast,
        )

    @torch.inference_mode()
    def words(self, split: Split, *, arcs: Sequence[int] = (), labels: bool = False) -> Iterator[WordBatch]:
        """What the encoder says of a split's words, batch by batch, from unmasked input; only what is asked for.

        ``arcs``: the iterations whose arcs are wanted, ascending, from 1.
        """
        self.network.eval()
        how = self.evaluation()
        of_pair = len(arcs) * self.recipe.model.channels
        for indices in chain.from_iterable(_cut(split, batch, of_pair) for batch in how.over(split)):
            ids = tensor(split.padded("ids", indices, self.vocabulary.PAD), how.device)
            inputs = ids, ids != self.vocabulary.PAD, features(split, indices, how.device)
            with how.autocast():
                encoded = self.network.encode(*inputs, arcs=arcs) if labels else None
                looked = self.network.look(*inputs, arcs) if encoded is None else encoded.arcs
            batch = WordBatch(indices, split.padded("frequency", indices, -1) >= 0)
            if split.has("read"):
                batch.host = _hosts(split.padded("read", indices, True))
            first = split.padded("first", indices, 0) if split.has("first") else None  # piece that stands for the word
            if arcs:
                assert looked is not None, "an encoder returns arcs when asked"
                tokens = ids.shape[1]
                found = looked[..., : tokens + self.rooted].float().cpu().numpy()
                if first is not None:
                    found = np.take_along_axis(found, first[:, None, None, :, None], axis=-2)
                    heads = np.pad(first, ((0, 0), (0, self.rooted)), constant_values=tokens)
                    found = np.take_along_axis(found, heads[:, None, None, None, :], axis=-1)
                batch.arcs = found
            if encoded is not None:
                states = encoded.states.float()
                section = self.recipe.model
                assert isinstance(section, ProbabilisticTransformer), "only its words have labels"
                given = section.output == "probabilities"
                batch.labels = (states if given else states.softmax(-1)).cpu().numpy()
                if first is not None:
                    batch.labels = np.take_along_axis(batch.labels, first[:, :, None], axis=1)
            yield batch

    def read_arcs(
        self, split: Split, readings: Sequence[Reading], *, labels: bool = False
    ) -> Iterator[tuple[WordBatch, Iterator[tuple[np.ndarray, np.ndarray]]]]:
        """The batches of a split, each with its heads [b, n] (0 = root, 1..n, -1 = padding) and the scores of its arcs
        [b, n, n (+1)] in every reading, in order; a reading's are computed when their turn comes.

        A word that is not read is nobody's head and hangs at its host, whatever the decoder.
        """
        last = self.recipe.model.iterations
        numbers = [last if reading.iteration == -1 else reading.iteration for reading in readings]
        iterations = sorted(set(numbers))

        def read(batch: WordBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for reading, number in zip(readings, numbers, strict=True):
                scores = decode.arc_scores(batch.arcs, reading.channel, 1 + iterations.index(number))
                scores = _with_unread(scores, batch)
                yield decode.decode(decode.levelled(scores), batch.mask, reading.decoder), scores

        for batch in self.words(split, arcs=iterations, labels=labels):
            yield batch, read(batch)

    @property
    def rooted(self) -> bool:
        """Whether arcs have a column for the root: the model has a root node, or `<cls>` in front of its words."""
        section = self.recipe.model
        has_node = isinstance(section, ProbabilisticTransformer) and section.root is not None
        return has_node or self.network.start is not None

    def trees(self, split: Split, reading: Reading) -> list[np.ndarray]:
        """Decoded heads of every sentence: 0 = root, 1..n."""
        return self.trees_of(split, [reading])[0]

    def trees_of(self, split: Split, readings: Sequence[Reading]) -> list[list[np.ndarray]]:
        """Decoded heads of every sentence, for each of several readings."""
        result = [[unseen(int(words)) for words in split.words] for _ in readings]
        for batch, found in self.read_arcs(split, readings):
            for heads, (decoded, _) in zip(result, found, strict=True):
                for index, row, real in zip(batch.indices, decoded, batch.mask, strict=True):
                    heads[index] = row[real]
        return result


def _cut(split: Split, indices: np.ndarray, of_pair: int) -> list[np.ndarray]:
    """A batch in parts whose arcs fit: there are ``of_pair`` numbers for every pair of words."""
    cells = of_pair * int(split.lengths[indices].max(initial=1)) ** 2
    return np.array_split(indices, -(-len(indices) // max(1, ARC_CELLS // max(cells, 1))))


def unseen(words: int) -> np.ndarray:
    """The tree of a sentence of which nothing is read: a chain from left to right."""
    return np.arange(words, dtype=np.int64)


def _hosts(read: np.ndarray) -> np.ndarray:
    """For every word that is not read the word that it hangs at: the nearest one before it that is read, or else the
    first one that is; -1 for all others. [b, n]."""
    before = np.maximum.accumulate(np.where(read, np.arange(read.shape[1]), -1), axis=1)
    return np.where(read, -1, np.where(before >= 0, before, read.argmax(axis=1)[:, None]))


def _with_unread(scores: np.ndarray, batch: WordBatch) -> np.ndarray:
    """Arc scores [b, n, n (+1)] in which words that are not read hang at their hosts, and nothing hangs at them."""
    if batch.host is None:
        return scores
    n = scores.shape[1]
    rooted = scores if scores.shape[2] > n else np.pad(scores, ((0, 0), (0, 0), (0, 1)))
    unread = batch.host >= 0
    scores = np.where(unread[:, :, None], -np.inf, rooted)
    scores[:, :, :n] = np.where(unread[:, None, :], -np.inf, scores[:, :, :n])
    sentence, word = unread.nonzero()
    scores[sentence, word, batch.host[sentence, word]] = 0.0
    return scores


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    """A network's weights on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _readme(model: Model, counts: dict[str, int], eval_scores: dict[str, Any]) -> str:
    """Model card of a checkpoint."""
    scores = "\n".join(
        f"- {split}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items() if isinstance(value, float))
        for split, values in eval_scores.items()
        if isinstance(values, dict)
    )
    return f"""# {model.recipe.name}

{model.recipe.model.describe()}
Trained by probtrans {__version__}, task `{model.recipe.task.kind}`, {model.step} updates;
{counts["encoder"]:,} encoder parameters, {model.vocabulary.size:,} vocabulary entries.

{scores}

Use it with `probtrans parse FOLDER` and `probtrans eval FOLDER`. The folder is complete: weights (safetensors),
vocabulary, labels, recipe; `SHA256SUMS` holds the checksum of every file.
"""
