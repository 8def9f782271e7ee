"""`train --nproc N`: start N processes of this command on this machine, and speak for them. Imports torch only then.

The processes are started and watched by `torch.distributed.run`, whose own messages are left out: of what goes wrong,
one process tells (:mod:`probtrans_cli.training.watch`), or, where none of them can, the launcher.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from probtrans_cli import console
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.errors import InterruptedTrainingError, LostError, ProbtransError, StoppedError, ToldElsewhereError
from probtrans_cli.recipe.training import Runtime
from probtrans_cli.text import from_json
from probtrans_cli.training.watch import TOLD, launched

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
AT_NO_UPDATE = "while preparing, or at the very end"
"""When a signal comes to a training that has nothing to save."""
GO_ON = "continue with the same command and --resume"


@contextmanager
def processes() -> Iterator[Ranks]:
    """Join the processes that a launcher has started, if any; only the first writes to stderr, errors apart."""
    place = launched()
    if place is None:
        yield ALONE
        return
    # Read once, by the import of torch: each process would warn that DDP looks for parameters that no batch reads.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from probtrans_cli.training.group import joined  # noqa: PLC0415

    with joined(place) as ranks:
        if not ranks.first:
            console.STATE.level = console.SILENT
        yield ranks


def launch(arguments: Sequence[str], nproc: int, section: Runtime) -> dict[str, Any]:
    """Run a command line in ``nproc`` processes on this machine; returns the result that the first prints.

    Raises:
        ToldElsewhereError: the training failed or was stopped; one of the processes has told how.
        StoppedError, InterruptedTrainingError: a signal came before there was a process that could tell.
        LostError: a process died, and no other one could tell.
    """
    with TemporaryDirectory(prefix="probtrans-") as folder:
        note = Path(folder) / "told.json"
        before = dict(os.environ)
        os.environ[TOLD] = str(note)
        if section.threads is None and "OMP_NUM_THREADS" not in os.environ:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            os.environ["OMP_NUM_THREADS"] = str(max(1, cores // nproc))
        logging.disable(logging.CRITICAL)  # the launcher's own messages
        try:
            output = _started(arguments, section, nproc, folder)
        except ProbtransError as error:
            if note.exists():
                raise ToldElsewhereError(from_json(note.read_text("utf-8"))["code"]) from None
            raise error from None
        finally:
            logging.disable(logging.NOTSET)
            os.environ.clear()
            os.environ.update(before)
        result: dict[str, Any] = from_json(output.read_text("utf-8"))
        return result


def _started(arguments: Sequence[str], section: Runtime, nproc: int, folder: str) -> Path:
    from torch.distributed.elastic.multiprocessing import SignalException  # noqa: PLC0415
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
    from torch.distributed.launcher.api import elastic_launch  # noqa: PLC0415
    from torch.distributed.run import config_from_args, parse_args  # noqa: PLC0415

    # As its --standalone: a free port, and nobody else is asked.
    options = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--nproc-per-node", str(nproc)]
    options += ["--log-dir", folder, "--redirects", "1"]
    options += ["--signals-to-handle", SIGNALS, "-m", "probtrans_cli"]
    config, command, own_arguments = config_from_args(parse_args(options))  # type: ignore[no-untyped-call]
    config.shutdown_timeout = section.timeout  # saving takes its time
    try:
        elastic_launch(config, command)(*own_arguments, *arguments)
    except SignalException as error:
        # The library knows nothing of a process that the signal has come upon at its start: that would wait for the
        # others for half an hour, and keep the streams of this process open.
        for path in Path("/proc/self/task").glob("*/children"):  # Linux alone has it
            for number in path.read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGTERM)
        if error.sigval == signal.SIGINT:
            raise InterruptedTrainingError("interrupted before there was anything to save", hint=GO_ON) from None
        name = signal.Signals(error.sigval).name
        raise StoppedError(f"stopped by {name} {AT_NO_UPDATE}", hint=GO_ON) from None
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise LostError(f"rank {rank} of {nproc} (process {failure.pid}) {how}", hint=GO_ON) from None
    return next(Path(folder).glob("**/0/stdout.log"))
