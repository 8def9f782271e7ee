"""The verb `serve`: models are loaded once, and answer the commands of many processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import torch

from probtrans_cli import console, server
from probtrans_cli.commands import bulk, generate, parse
from probtrans_cli.trained.model import Model

READY = parse, bulk, generate  # the verbs that are imported before the first command comes


def serve(socket: Path, checkpoints: Sequence[str], run: Callable[[list[str]], int]) -> NoReturn:
    """Load models, and let :mod:`probtrans_cli.server` answer with them.

    A process that has used a GPU, or threads of torch, cannot be forked: the models are on the CPU, and are loaded by
    one thread.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    threads = torch.get_num_threads()

    def answer(arguments: list[str]) -> int:
        torch.set_num_threads(threads)
        console.set_up()
        return run(arguments)

    torch.set_num_threads(1)
    for name in checkpoints:
        Model.load(name, threads=1).keep()
    ready = f"answering at {socket}; end with Ctrl-C\nelsewhere: export {server.VARIABLE}={socket.absolute()}"
    server.serve(socket, answer, lambda: console.log(ready))
