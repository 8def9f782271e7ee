"""`probtrans` without its start, for the scripts of pages: a process that has imported it forks a child a command.

Server and clients are those of `probtrans serve`, for every verb instead of two. A script that begins with
what :func:`ready` yields calls the client::

    python tests/ready.py serve SOCKET
    python tests/ready.py SOCKET train quickstart
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 3600  # seconds that a server lives whose tests were killed


@contextmanager
def ready(folder: Path) -> Iterator[str]:
    """Within: a server runs; the bash function `probtrans` that leaves its commands to it."""
    from support import environment

    socket, program = folder / "socket", str(Path(__file__).resolve())
    command = [sys.executable, program, "serve", str(socket)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        client = [sys.executable, program, str(socket)]
        yield f'probtrans() {{ {shlex.join(client)} "$@"; }}\n'
        server.terminate()


def serve(socket: Path) -> None:
    # Optimizers import dynamo when they are made: half of the time of a training as short as those of pages.
    import torch._dynamo

    import probtrans_cli.commands.bulk
    import probtrans_cli.commands.eval
    import probtrans_cli.commands.export
    import probtrans_cli.commands.parse
    import probtrans_cli.commands.train
    import probtrans_cli.training.loop  # noqa: F401
    from probtrans_cli import console, server
    from probtrans_cli.__main__ import run

    console.set_up()
    torch.set_num_threads(1)
    signal.alarm(LONGEST)
    server.serve(socket, run, lambda: print("ready", flush=True))


def ask(socket: str, arguments: list[str]) -> int:
    from socket import AF_UNIX
    from socket import socket as Socket

    from probtrans_cli import server

    with Socket(AF_UNIX) as connection:
        connection.connect(socket)
        return server._ask(connection, arguments)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]))
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
