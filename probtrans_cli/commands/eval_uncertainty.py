"""What `eval` needs for `--uncertainty`: who is asked, another text beside the split, and the diagram; and how scores
are stored."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from probtrans_cli import atomic, console
from probtrans_cli.data.corpus.encode import encode_corpus
from probtrans_cli.data.corpus.filters import Shortened
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.files import find, open_lines
from probtrans_cli.data.readers import format_by_name, format_of, read_corpus
from probtrans_cli.data.readers.appearance import look_ahead, misread, watched
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import CheckpointError, DataError, UsageError
from probtrans_cli.folders import regular
from probtrans_cli.folders.checkpoints import locate
from probtrans_cli.recipe.data import Data
from probtrans_cli.recipe.weights import way_of
from probtrans_cli.reports.reliability import reliability_diagram
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import Predictor
from probtrans_cli.trained.ways import ensemble_of, predictor_of

if TYPE_CHECKING:
    from probtrans_cli.commands.eval import EvalRequest

DIAGRAM = "reliability.svg"


def runs_and_files(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands behind the first CKPT of `eval`: further runs, which are folders (or RUN@STEP), then files.

    Raises:
        UsageError: a name could be both, or a run stands behind a file.
    """
    runs: list[str] = []
    files: list[str] = []
    for name in arguments:
        base, at, _ = name.rpartition("@")
        is_checkpoint = bool(at) and Path(base).is_dir()
        if is_checkpoint and Path(name).is_file():
            raise UsageError(
                f"{name}: a file, and a checkpoint of the run {base}", hint="name the file as ./FOLDER/FILE"
            )
        if not (Path(name).is_dir() or is_checkpoint):
            files.append(name)
        elif files:
            raise UsageError(f"{name}: a run behind the file {files[-1]}", hint="give the runs first, then the files")
        else:
            runs.append(name)
    return runs, files


def who_is_asked(model: Model, request: EvalRequest, runs: Sequence[str]) -> tuple[Predictor, str | None]:
    """The predictor of an evaluation, and how it predicts, in words; None: as the recipe says.

    Raises:
        UsageError: options that do not go together, members that do not, or a task without uncertainty.
    """
    doubt = request.uncertainty or request.ood is not None
    weights = None if request.weights is None else way_of(request.weights)
    if not runs:
        samples = request.dropout_samples
        way = None if weights is None else weights.describe()
        way = way if samples is None else f"dropout, {samples} samples"
        return predictor_of(model, dropout_samples=samples, weights=weights, doubt=doubt), way
    refused = {
        "--dropout-samples": request.dropout_samples, "--weights": weights, "--choose": request.choose,
        "--labels": request.latent_labels,
        "--relations": request.relations, "--channel": request.channel, "--iteration": request.iteration,
        "--decode": request.decoder, "--baselines": request.baselines, "--predictions": request.predictions,
    }  # fmt: skip
    if given := next((name for name, value in refused.items() if value), None):
        raise UsageError(f"{given}: not of several runs together", hint="give one run")
    _require_different([request.checkpoint, *runs])
    members = [model, *(Model.load(name, threads=request.threads) for name in runs)]
    return ensemble_of(members, doubt=doubt), f"ensemble of {len(members)}"


def _require_different(names: Sequence[str]) -> None:
    """Refuse an ensemble with the same checkpoint twice, under whatever names: it would count as two opinions."""
    known: dict[Path, str] = {}
    for name in names:
        folder = locate(name).resolve()
        if folder in known:
            raise UsageError(
                f"{name}: the same checkpoint as {known[folder]}, twice in one ensemble",
                hint="give different runs, for example those of train --seeds 0,1,2",
            )
        known[folder] = name


def other_text(model: Model, name: str) -> Split:
    """A text whose words are enough, encoded with the checkpoint's own vocabulary; `extra` is the recipe's.

    Left out, and counted on stderr, are sentences that the recipe's own splits would not have, and those for which the
    model has no positions.

    Raises:
        UsageError: the recipe names no extra file.
        DataError: there is no sentence in it, none is short enough, or it cannot be read.
    """
    data = model.recipe.data
    names, key = [name], None
    if name == "extra":
        if data.extra is None:
            raise UsageError(f"--ood extra: the recipe of {model.folder} names no extra file", hint="give a file")
        names, key = [data.extra] if isinstance(data.extra, str) else list(data.extra), "data.extra"
    sentences = [sentence for path in names for sentence in _read(path, key, data)]
    if not sentences:
        raise DataError(f"--ood {name}: there is no sentence in it", hint="check the file")
    most, positions = data.select.words, model.network.longest
    short = [one for one in sentences if most is None or len(one.words) - one.extra <= most]
    hint = "split them, or give another text"
    if not short:
        raise DataError(f"--ood {name}: every sentence has more than {most} words (data.select.words)", hint=hint)
    skipping = data.model_copy(update={"too_long": "skip"}) if data.too_long == "error" else data
    every = Shortened(short, model.vocabulary, skipping)
    split = Split(encode_corpus(data, every, model.vocabulary, model.labels))
    fitting = split.lengths <= (np.inf if positions is None else positions)
    if not fitting.any():
        raise DataError(f"--ood {name}: every sentence has more tokens than the model positions", hint=hint)
    reasons = {
        f"of more than {most} words (data.select.words)": len(sentences) - len(short),
        f"of more than {data.longest} tokens (data.longest)": every.skipped,
        f"of more tokens than the model has positions ({positions})": int((~fitting).sum()),
    }
    if told := ", ".join(f"{number:,} {reason}" for reason, number in reasons.items() if number):
        console.log(f"--ood {name}: sentences left out: {told}")
    return split if fitting.all() else split.select(np.flatnonzero(fitting))


def _read(name: str, key: str | None, data: Data) -> Sequence[Sentence]:
    """The sentences of a file: in the format that its name tells, else in that of the data; or, which is told, CoNLL-U
    by its content or plain text with a sentence a line."""
    path = find(name, key, once=key is None)
    form = format_by_name(path) or data.format
    if key is None and form in ("conllu", "text"):
        form = "auto"
    try:
        return list(read_sentences(name, key, form, data))
    except DataError as error:
        if form in ("auto", "conllu") or not path.is_file():
            raise
        what = "CoNLL-U" if (other := format_of(path)) == "conllu" else "text, a sentence a line"
        console.log(f"--ood {name}: not in data.format {form} ({error.message}): read as {what}")
        return list(read_corpus(path, other))


def read_sentences(name: str, key: str | None, form: str, data: Data) -> Iterator[Sentence]:
    """The sentences of a file that is read once; where its name tells no format, CoNLL-U is known by its content."""
    path = find(name, key, once=key is None)
    lines = open_lines(path)
    if form == "auto" and (form := format_by_name(path) or "text") == "text":
        is_conllu, lines = look_ahead(lines)
        form = "conllu" if is_conllu else "text"
    if form == "text":
        remedy = "if that is not meant, give plain text or CoNLL-U"
        lines = watched(lines, lambda kind: console.log(misread(path, kind, remedy)))
    yield from read_corpus(path, form, data=data, lines=lines)


def store_scores(model: Model, title: str, result: dict[str, Any]) -> None:
    """Leave the scores of a split beside the checkpoint, with the diagram of `--uncertainty`."""
    if model.folder is None or not os.access(model.folder.parent, os.W_OK):
        return
    in_run = model.folder.parent.name == "checkpoints"
    beside = model.folder.parent if in_run else model.folder
    try:
        if in_run:
            regular.refuse_others(beside, folder=True)
        atomic.replace_text(beside / f"eval-{title}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        if found := result["scores"][title].get("uncertainty"):
            write_diagram(beside, ", ".join(filter(None, [title, result.get("way")])), found)
    except CheckpointError as error:  # it is scored, and that is what was asked for
        console.log(f"not stored: {error.message}")


def write_diagram(folder: Path, title: str, found: dict[str, Any]) -> None:
    """The reliability diagram of a split, beside its scores; where it is, is said on stderr."""
    atomic.replace_text(folder / DIAGRAM, reliability_diagram(title, found))
    console.log(f"diagram: {folder / DIAGRAM}")
