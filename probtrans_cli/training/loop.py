"""The training loop: the only place that trains. Read it from top to bottom.

A run is a pure function of its recipe. The batches of an epoch are a function of (lengths, seed, epoch), torch's
generator is seeded from (seed, step, microbatch), the learning rate is a function of progress; so a checkpoint holds
weights, optimizer moments and a handful of numbers, and resuming repeats the unbroken run to the bit.
"""

from __future__ import annotations

import heapq
import json
import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probtrans_cli import checkpoint, console
from probtrans_cli.data.corpus.prepared import Prepared
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.errors import (
    CheckpointError,
    DataError,
    InterruptedTrainingError,
    NotFiniteError,
    OutOfMemoryError,
    StoppedError,
)
from probtrans_cli.recipe.schema import Recipe
from probtrans_cli.tasks import TASKS
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.base import Config, texts_of, weights_of, word_order_of
from probtrans_cli.trained.evaluation import (
    can_score_trees,
    choose_on_dev,
    choose_reading,
    figures_of,
    task_scores,
    tree_scores,
)
from probtrans_cli.trained.formats.pictures import write_gallery
from probtrans_cli.trained.machine import Machine
from probtrans_cli.trained.model import Model
from probtrans_cli.training import optim
from probtrans_cli.training.plan import Ahead, Plan, State, in_turn
from probtrans_cli.training.run_folder import FILES, Metrics, require_same
from probtrans_cli.training.start_from import start_from
from probtrans_cli.training.update import (
    Divergence,
    Draws,
    Microbatch,
    Sizes,
    compile_encoder,
    coordinates,
    counts_over,
    dealt,
    loss_of,
    replicated,
)
from probtrans_cli.training.watch import StopRequest, stop_signals


class Trainer:
    """One training in one run folder. ``train()`` runs it to its end and returns the final scores."""

    def __init__(self, recipe: Recipe, prepared: Prepared, run: Path, *, resume: bool, ranks: Ranks = ALONE) -> None:
        self.recipe = recipe
        self.run = run
        self.ranks = ranks
        self.checkpoints = run / "checkpoints"
        machine = Machine(recipe.runtime, ranks.local)
        torch.manual_seed(recipe.seed)
        self.model = Model.new(recipe, prepared.vocabulary, prepared.labels, machine)
        self.model.ranks = ranks
        self.network = self.model.network
        splits = TASKS[recipe.task.kind].load("complete")(self.model, prepared.splits, required=True)
        raw, labelled = splits.get("raw"), splits["train"]
        self.train_split = labelled if raw is None else Split(*labelled.shards, *raw.shards)
        self.dev = splits.get("dev")
        self.tests = {name: splits[name] for name in ("test", "extra") if name in splits}
        named = {f"data.{name}": split for name, split in splits.items()}
        self.model.require_positions(named)
        self.model.require_something({name: named[name] for name in named.keys() - {"data.train", "data.raw"}})
        self.model.task.start(self.network, self.train_split)
        if (order := self.network.order) is not None:  # the encoder uses statistics of word order
            order.copy_(word_order_of(prepared.vocabulary, self.train_split)[:, : order.shape[1]])
        optim.freeze(recipe.train, self.network)
        if recipe.model.init_from is not None and not resume:
            start_from(self.model, recipe.model.init_from)
        first_raw = None if raw is None else len(labelled)
        self.plan = Plan(recipe, self.train_split.lengths, self.train_split.bounds, first_raw)
        self.average = None if recipe.optim.ema is None else optim.Average(self.network, recipe.optim.ema)
        self.state = State(data=prepared.manifest["fingerprint"])
        verified = self._restored(checkpoint.locate(f"{run}@last", training=True)) if resume else None
        self.equations = self.network.encoder.check_forms()  # the file of equations that run as they stand
        if recipe.runtime.compile and self.equations is None:
            compile_encoder(self.network.encoder)
        self.copy = replicated(self.network) if ranks.world > 1 else None
        self.divergence = Divergence(self.model, self.train_split, self.copy or self.network)
        variational, units = recipe.model.facts.variational, self.divergence.units
        stages = self.network.stages(features=False)
        self.optimizer = optim.Optimizers(recipe.optim, self.network, variational, units=units, stages=stages)
        if verified is not None:
            self.optimizer.restore(verified)
        self.ahead = Ahead(partial(self.model.collate, self.train_split, device=torch.device("cpu")))
        metrics_of = run if ranks.first else None
        self.metrics = Metrics(metrics_of, self.state.step, self.state.evaluated, tensorboard=recipe.log.tensorboard)
        self.progress = console.Progress()
        # Words since the last line of metrics, seconds of training up to it, and what stands behind the bar.
        self.words, self.reported, self.shown = 0, self.state.seconds, ""
        self.bad = torch.zeros((), dtype=torch.bool, device=machine.device)
        # The loss of the latest update on sentences with labels (False), and on those of `data.raw` (True).
        self.losses: dict[bool, Tensor] = {}

    # --- the loop ---------------------------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Train to the end, or until a signal asks to stop.

        Raises:
            StoppedError, InterruptedTrainingError: after saving, on a signal such as SIGTERM and on Ctrl-C.
            NotFiniteError: the loss or a gradient is not finite; the last good checkpoint is named.
            OutOfMemoryError: a batch did not fit.
        """
        counts = self.network.parameter_counts()
        deviations = f", {counts['deviations']:,} deviations" if "deviations" in counts else ""
        console.log(
            f"{self.recipe.name}: {counts['encoder']:,} encoder parameters (+ {counts['unary']:,} word scores, "
            f"{counts['output']:,} output{deviations}), {len(self.train_split):,} sentences, "
            f"{int(self.train_split.lengths.sum()):,} tokens, {self.model.machine.describe()}"
        )
        if self.equations is not None:
            console.log(f"messages: plain, as the equations stand in {self.equations}")
            if self.recipe.runtime.compile:
                console.log("warning: runtime.compile is ignored: torch cannot compile plain messages")
        if self.recipe.runtime.messages == "fused" and self.model.machine.device.type != "cuda":
            console.log("messages: as fast ones, as only a GPU has the kernels of `runtime.messages: fused`")
        with stop_signals(self.ranks.signalled, several=self.ranks.world > 1) as stop:
            with self.ahead.running():
                self._train(stop)
            return self._finish(stop)

    def _train(self, stop: StopRequest) -> None:
        while not self.state.finished:
            batches = self.plan.batches(self.state.epoch)
            self.progress.begin(self.plan.updates(len(batches)), self.state.step, self._title(self.state.epoch + 1))
            self.ahead.expect(in_turn(batches, self.state.batch, self.recipe.train.accumulate, self.ranks))
            # A resumed training begins within an epoch. Its last update is followed by the end of the epoch, below.
            while self.state.batch < len(batches) and not (self.state.finished or self.plan.enough_steps(self.state)):
                self._update(batches)
                if self.state.batch < len(batches):
                    self._after_update(last_of_epoch=False)
                self._leave_if(stop, save=True)
            if self.state.batch >= len(batches):
                self.state.epoch, self.state.batch = self.state.epoch + 1, 0
            self.state.finished |= self.state.epoch >= self.recipe.train.epochs or self.plan.enough_steps(self.state)
            self._after_update(last_of_epoch=True)
            if not self.state.finished:
                self._leave_if(stop, save=True)
        self.progress.end()

    @property
    def loss(self) -> float:
        """The loss of the latest update; with `data.raw`, of the latest ones of both kinds together."""
        return sum(map(float, self.losses.values()))

    def rehearse(self) -> float:
        """Estimate the seconds of an epoch from three updates on the batches with most tokens; save nothing."""
        batches, accumulate = self.plan.batches(0), self.recipe.train.accumulate
        lengths, kinds = self.train_split.lengths, 1 if self.plan.raw is None else 2

        # Of each kind of batches those with most tokens, in turn.
        of_kinds = (
            heapq.nlargest(3, batches[kind::kinds], key=lambda indices: len(indices) * int(lengths[indices].max()))
            for kind in range(kinds)
        )
        widest = [batch for of_turn in zip(*of_kinds, strict=False) for batch in of_turn]
        updates = math.ceil(kinds / accumulate)
        before = 0.0
        for attempt in range(3):  # the first one is not measured
            before = self.state.seconds if attempt == 1 else before
            self.state.batch = 0
            for _ in range(updates):
                self._update(widest)
        whole = int(lengths.sum()) if kinds == 1 else int(lengths[np.concatenate(batches)].sum())
        measured = int(lengths[np.concatenate(widest[: updates * accumulate])].sum())
        seconds = (self.state.seconds - before) / 2 * whole / measured
        console.log(f"dry run: one update works; about {seconds:,.0f} s an epoch on {self.model.machine.describe()}")
        return seconds

    def coordinates(self, updates: int) -> Sizes:
        """Return how large the numbers of the model are after some updates; save nothing."""
        batches = self.plan.batches(0)
        group = batches[0]
        with Draws(self.recipe.seed, 0, self.model.machine.device).stream(0):
            batch = self._batch(0.0, group)
        wants = self.model.task.wants(batch)
        start = self.network.activations(batch, wants)
        for _ in range(updates):
            self.state.batch %= len(batches)
            self._update(batches)
        return coordinates(start, self.network.activations(batch, wants))

    def _update(self, batches: Sequence[np.ndarray]) -> None:
        began = time.perf_counter()
        state, section, ranks = self.state, self.recipe.optim, self.ranks
        group = batches[state.batch : state.batch + self.recipe.train.accumulate]
        here = f"update {state.step + 1}"
        ranks.at(f"the batches of {here}")
        self.network.train(not self.recipe.train.probe)  # the output layer drops nothing
        for parameter in self.optimizer.parameters:
            parameter.grad = None
        done = self.plan.share_done(state, len(batches))
        draws = Draws(self.recipe.seed, state.step, self.model.machine.device)
        microbatches = dealt(group, ranks, draws, partial(self._batch, done))
        counts = counts_over(self.model.task, microbatches, ranks, f"the counts of {here}")
        main = next(iter(counts))
        total = self._gradients(microbatches, counts, draws, done)
        total = ranks.total(total, f"the loss of {here}")
        norm = self.optimizer.clip()
        self.bad = self.bad | ~(torch.isfinite(total) & torch.isfinite(norm))
        # To look at a value on a GPU is to wait for it, so that is done with the lines of metrics alone.
        if total.device.type == "cpu" or (state.step + 1) % self.recipe.log.every_steps == 0:
            self._finite_guard()
        rate = section.schedule.rate(section.lr, done, state.drops)
        self.optimizer.step(rate)
        if self.average is not None:
            self.average.update_parameters(self.network)
        is_raw = self.recipe.train.accumulate == 1 and self.plan.raw is not None and bool(group[0][0] >= self.plan.raw)
        self.losses[is_raw] = total / counts[main]
        state.step += 1
        state.batch += len(group)
        self.words += sum(int(self.train_split.lengths[indices].sum()) for indices in group)
        # The last update that is planned has a line, too; plateaus and patience may end a training earlier.
        last = state.batch >= len(batches) and state.epoch + 1 >= self.recipe.train.epochs
        if state.step % self.recipe.log.every_steps == 0 or last or self.plan.enough_steps(state):
            figures = {"loss": self.loss, "grad_norm": float(norm), "lr": rate}
            self._report(figures | self.divergence.metrics(done), began, self.plan.updates(len(batches)))
        self.progress.advance(self.shown)
        state.seconds += time.perf_counter() - began

    def _gradients(
        self, microbatches: list[Microbatch], counts: dict[str, Tensor], draws: Draws, done: float
    ) -> Tensor:
        """Set the parameters' gradients; return this process's part of ``N_1 L``."""
        main, total = next(iter(counts)), torch.zeros((), device=self.model.machine.device)
        section, ranks, here = self.recipe.optim, self.ranks, f"update {self.state.step + 1}"
        with self.optimizer.draw(draws.of_weights(ranks)):
            for number, microbatch in enumerate(microbatches, start=1):
                ranks.at(f"batch {number} of {len(microbatches)} of {here}")
                last = number == len(microbatches)
                batch = microbatch.batch
                # DDP sums over the processes while the last microbatch goes backward, and only then.
                unsynchronised = nullcontext() if last or self.copy is None else self.copy.no_sync()
                with self._memory_guard(batch.indices), unsynchronised, draws.stream(microbatch.k):
                    with self.model.machine.autocast(), self.divergence.draw():
                        loss = loss_of(self.model.task, self.divergence.ask, batch, counts)
                        loss = loss if microbatch.counted else 0.0 * loss  # DDP needs a backward pass all the same
                    with ranks.waiting(f"the gradients of {here}", really=last):
                        loss.backward()  # type: ignore[no-untyped-call]
                total = total + loss.detach()
            for parameter in self.optimizer.parameters:
                if parameter.grad is not None:
                    parameter.grad /= counts[main]  # of N_1 L so far
            # These depend on the weights alone, so each process adds them once, after the sum over processes.
            self.divergence.add_gradient(done)
            if section.ternary_penalty.weight > 0.0:
                for penalty in self.network.encoder.regularizer(section).values():
                    penalty.backward()  # type: ignore[no-untyped-call]
        return total

    def _batch(self, done: float, indices: np.ndarray) -> Batch:
        with self._memory_guard(indices):
            batch = replace(self.ahead(indices), done=done, epoch=self.state.epoch)
            return self.model.task.training(batch).located().to(self.model.machine.device)

    def _after_update(self, *, last_of_epoch: bool) -> None:
        state, section = self.state, self.recipe.eval
        if section.every_steps is not None:
            due = state.step % section.every_steps == 0
        else:
            due = last_of_epoch and state.epoch % section.every_epochs == 0
        if (due or state.finished) and state.evaluated != state.step:
            self._evaluate()
            self._save()
        elif self.recipe.save.every_steps is not None and state.step % self.recipe.save.every_steps == 0:
            self._save()

    def _evaluate(self) -> None:
        state, section = self.state, self.recipe.optim.schedule
        self._finite_guard()
        state.evaluated = state.step
        if self.dev is None:
            state.best_step = state.step
            return
        self.ranks.at(f"the evaluation after update {state.step}")
        with optim.averaged(self.network, self.average):
            scores, figures = task_scores(self.model, self.dev, final=False), figures_of(self.model, self.dev)
        self._finite_guard(scores["loss"] or 0.0)  # None: dev has no label of train
        task = self.recipe.task
        better = state.note(scores, task.metric, larger_is_better=task.larger_is_better)
        self.metrics.write({"step": state.step, "epoch": state.epoch, "split": "dev", **scores, **figures})
        shown = ", ".join(
            f"{name} {value:.4g}"
            for name, value in scores.items()
            if isinstance(value, float | int) and name != "unknown_rate"
        )
        console.log(f"{self._title()} step {state.step}: dev {shown}{'  *' if better else ''}")
        if section.drops_after is not None and state.since_drop >= section.drops_after:
            state.drops, state.since_drop = state.drops + 1, 0
            state.finished |= section.ends_at(section.rate(self.recipe.optim.lr, 0.0, state.drops))
        patience = self.recipe.train.patience
        if patience is not None and state.waited >= patience:
            console.log(f"stopping early: {patience} evaluations without a better dev {task.metric}")
            state.finished = True

    def _finish(self, stop: StopRequest) -> dict[str, Any]:
        """Choose on dev how trees are read, how answers are decided and a temperature, score dev and the test sets once
        with the best weights, store all of it with them, and draw a few trees. Without any of these corpora, the scores
        have the loss of the last update.

        The training is saved already: a request to stop is granted between two scores, and resuming begins here.
        """
        best = checkpoint.locate(f"{self.run}@best")
        verified = checkpoint.verify(best, training=True)
        verified.load_into(self.network, "model.safetensors")
        self.model.step = self.state.best_step
        model, dev = self.model, self.dev
        self.ranks.at("the final scores")
        if dev is not None and can_score_trees(model, dev):
            model.reading = choose_reading(model, dev, self.recipe.eval)
        scores = choose_on_dev(model, dev)
        if dev is None and not self.tests and self.losses:
            scores["train"] = {"loss": self.loss}
        self._leave_if(stop)
        baselines = TASKS[self.recipe.task.kind].load("baselines")
        for name, split in (("dev", dev), *self.tests.items()):
            if split is not None:
                scores[name] = task_scores(model, split, final=True) | baselines(model.task, split)
                if self.recipe.scores_trees and can_score_trees(model, split):
                    scores[name] |= tree_scores(model, split, name, model.reading, baselines=True)
                self._leave_if(stop)
        if self.ranks.first:
            replaced = ("model.safetensors", checkpoint.SUMS)
            rest: dict[str, str | bytes] = {n: file for n, file in verified.files.items() if n not in replaced}
            checkpoint.store(best, rest | texts_of(self.model, scores), {"model.safetensors": weights_of(self.network)})
            if self.recipe.scores_trees:
                write_gallery(self.model, self.run / "trees")
        return scores

    # --- saving and resuming ----------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._finite_guard()
        folder = self.checkpoints / checkpoint.name_of(self.state.step)
        self.ranks.at(f"the checkpoint {folder.name}")
        self.model.step = self.state.step
        if self.ranks.first:
            tensors = self.optimizer.tensors()
            with optim.averaged(self.network, self.average):
                tensors["model.safetensors"] = weights_of(self.network)
            if self.average is not None:
                tensors["training/weights.safetensors"] = weights_of(self.network)
                tensors["training/average.safetensors"] = weights_of(self.average)
            scores = {"dev": self.state.scores.get("dev", {})} if self.state.best_step == self.state.step else {}
            texts = texts_of(self.model, scores)
            texts["training/state.json"] = json.dumps(asdict(self.state), indent=1)
            checkpoint.store(folder, texts, tensors)
            checkpoint.appoint(folder, self.state.best_step, self.recipe.save.keep)
        self.ranks.meet(f"the checkpoint {folder.name}")

    def _restored(self, folder: Path) -> checkpoint.Verified:
        verified = checkpoint.verify(folder, training=True)
        if "training/state.json" not in verified.files:
            raise CheckpointError(f"{folder}: holds no training state", hint="start afresh with --overwrite")
        hint = f"undo what was changed in {self.run / 'recipe.yaml'}, or start another run with --run DIR"
        require_same(self.recipe, folder / "recipe.yaml", hint, but={"name", *FILES})
        data, self.state = self.state.data, verified.json("training/state.json", State)
        self.model.origin = verified.json("config.json", Config).origin
        if self.state.data != data:
            raise DataError(
                f"the corpora are not those that {self.run} was started with (its recipe.yaml lists their sha256)",
                hint="put the old files back, or start another run",
            )
        weights = "training/weights.safetensors" if self.average is not None else "model.safetensors"
        verified.load_into(self.network, weights)
        if self.average is not None:
            verified.load_into(self.average, "training/average.safetensors")
        if self.ranks.first:
            # A kill may have come between the links, or before older checkpoints were removed.
            checkpoint.appoint(self.checkpoints / folder.name, self.state.best_step, self.recipe.save.keep)
        console.log(f"resuming {self.run} after step {self.state.step}")
        if self.state.best_step and not (self.checkpoints / checkpoint.name_of(self.state.best_step)).is_dir():
            console.log(f"warning: {self.run}: the best checkpoint so far, of step {self.state.best_step}, is gone")
        return verified

    def _leave_if(self, stop: StopRequest, *, save: bool = False) -> None:
        """Leave if a signal has asked any process to stop: all of them then stop after the same update."""
        signalled = self.ranks.largest(stop.signal, f"the end of update {self.state.step}")
        # Where no process has a signal, nothing is written back: one that came since it was read stays asked for.
        if not signalled:
            return
        stop.signal = signalled
        if save:
            self._save()
        self.progress.end()
        hint = self.ranks.again(str(self.run))
        if stop.signal == signal.SIGINT:
            raise InterruptedTrainingError(f"interrupted; saved step {self.state.step} of {self.run}", hint=hint)
        name = signal.Signals(stop.signal).name
        raise StoppedError(f"stopped by {name}; saved step {self.state.step} of {self.run}", hint=hint)

    # --- small parts ------------------------------------------------------------------------------------------------

    def _title(self, epoch: int | None = None) -> str:
        # People count epochs from 1: behind the last batch of the first one, `state.epoch` is 1 already.
        epoch = self.state.epoch + (self.state.batch > 0) if epoch is None else epoch
        return f"epoch {epoch}/{self.recipe.train.epochs}"

    def _finite_guard(self, dev_loss: float = 0.0) -> None:
        """Stop before a gradient that is not finite reaches the weights, or they are scored or saved; or if the loss on
        dev is not finite."""
        if bool(self.bad):
            fault = f"the loss or a gradient is not finite at step {self.state.step + 1} or shortly before"
        elif not math.isfinite(dev_loss):
            fault = f"the dev loss is not finite at step {self.state.step}"
        else:
            return
        folders = [str(folder) for _, folder in checkpoint.steps(self.checkpoints)]
        last_good = folders[-1] if folders else "none"
        raise NotFiniteError(f"{fault}; last good checkpoint: {last_good}", hint=self.optimizer.advice)

    @contextmanager
    def _memory_guard(self, indices: np.ndarray) -> Iterator[None]:
        """Within: running out of memory with these sentences is an error that says what to do."""
        try:
            yield
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            # On a CPU torch raises a plain RuntimeError, as it does for an illegal access to a GPU's memory.
            unallocated = "allocate memory" in str(error) or "out of memory" in str(error)
            if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not unallocated:
                raise
            who = f"{self.ranks.name}: " if self.ranks.name else ""
            longest = int(self.train_split.lengths[indices].max())
            raise OutOfMemoryError(
                f"{who}out of memory with a batch of {len(indices)} sentences, the longest of {longest} words",
                hint=f"lower train.batch_words (now {self.recipe.train.batch_words}); train.accumulate makes up for it",
            ) from None

    def _report(self, figures: dict[str, float], began: float, total: int) -> None:
        state = self.state
        seconds = state.seconds + time.perf_counter() - began - self.reported
        speed, self.words, self.reported = self.words / max(seconds, 1e-9), 0, self.reported + seconds
        where = {"step": state.step, "epoch": state.epoch, "split": "train"}
        self.metrics.write({**where, **figures, "words_per_second": round(speed)})
        loss, rate = figures["loss"], figures["lr"]
        kl = f", kl {figures['kl']:.3f}" if "kl" in figures else ""
        self.shown = f"loss {loss:.3f}{kl}, {speed:,.0f} words/s"
        left = (self.reported / state.step) * max(total - state.step, 0)
        self.progress.line(
            f"{self._title()} step {state.step}/{total}: loss {loss:.4f}{kl}, lr {rate:.1e}, {speed:,.0f} words/s, "
            f"{console.duration(left)} left"
        )
