"""A server that keeps models in memory, and its client: `parse` without the start of torch.

The server (`probtrans serve`) forks a child for every command. The child gets the arguments, the environment, the
folder and the three standard streams of the client, and runs the command line as any process does: every option means
the same, and every byte of the output is the same. The client waits, passes signals on, and ends with the child's exit
code.

What client and server say to each other: the client sends a length (4 bytes) with its descriptors, and as many bytes of
JSON; the child answers with its process's number and, at its end, with its exit code (4 bytes each).

This module is imported by each start of the command line, so it imports nothing large.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import NoReturn

from probtrans_cli.console import log
from probtrans_cli.errors import UsageError, reason
from probtrans_cli.text import from_json
from probtrans_cli.version import __version__

VARIABLE = "PROBTRANS_SERVER"  # the environment variable that names the server's socket
VERBS = ("generate", "parse")
"""What a client leaves to the server: the verbs that load a model to answer."""
NUMBER = struct.Struct("<i")
OF_ANOTHER_VERSION = -1
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PATIENCE, PAUSE = 10.0, 0.1  # seconds for a request, and after a fault


# --- client -----------------------------------------------------------------------------------------------------------


def answered(arguments: list[str]) -> int | None:
    """Let the server that the environment names run a command, and return the exit code.

    Returns:
        None where this process should run the command: no server is named, it does not answer (a warning says so), or
        the command is none of :data:`VERBS`.
    """
    path = os.environ.get(VARIABLE)
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    if not path or verb not in VERBS:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as server:
            if os.lstat(path).st_uid != os.geteuid():  # it would get to see all that this user reads and writes
                raise PermissionError("the socket belongs to another user")
            server.connect(path)
            code = _ask(server, arguments)
    except OSError as error:
        log(f"warning: {VARIABLE}={path}: {reason(error)}: the model is loaded here")
        return None
    if code == OF_ANOTHER_VERSION:
        log(f"warning: {VARIABLE}={path}: the server is not of this version of probtrans: the model is loaded here")
        return None
    return code


def _ask(server: socket.socket, arguments: list[str]) -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    request = {"version": __version__, "arguments": arguments, "environment": dict(os.environ), "mask": mask}
    body = json.dumps(request).encode()
    folder = os.open(".", os.O_RDONLY)
    try:
        socket.send_fds(server, [NUMBER.pack(len(body))], [0, 1, 2, folder])
    finally:
        os.close(folder)
    server.sendall(body)
    child = _number(server)
    if child is None or child == OF_ANOTHER_VERSION:
        return OF_ANOTHER_VERSION
    last = 0

    def pass_on(number: int, _: FrameType | None) -> None:
        nonlocal last
        last = number
        with suppress(ProcessLookupError):
            os.kill(child, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    code = _number(server)
    if code is not None:
        return code
    if not last:
        log(f"error: the process of the server that ran this command has died (process {child})")
    return 128 + last if last else 1


# --- server -----------------------------------------------------------------------------------------------------------


def serve(path: Path, run: Callable[[list[str]], int], ready: Callable[[], None]) -> NoReturn:
    """Answer clients at a socket until this process is interrupted or terminated.

    Args:
        run: runs a command line in the child, with the client's streams, and returns its exit code.
        ready: is called once clients can connect.
    """
    with _listening(path) as listener:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
        gc.collect()
        gc.freeze()  # a child that looks for garbage would copy the pages of what it shares with the server
        ready()
        while True:
            try:
                client, _ = listener.accept()
                with client:
                    if os.fork() == 0:
                        listener.close()
                        _answer(client, run)
            except OSError as error:  # too many files or processes: this client computes by itself
                log(f"warning: a client is not answered: {reason(error)}")
                time.sleep(PAUSE)


def _answer(client: socket.socket, run: Callable[[list[str]], int]) -> NoReturn:
    code = 1
    try:
        os.setsid()  # else one that reads from the terminal of a background job would stop the server, too
        for number in (*PASSED_ON, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        client.settimeout(PATIENCE)
        length, descriptors, _, _ = socket.recv_fds(client, NUMBER.size, 4)
        request = from_json(_received(client, *NUMBER.unpack(length)))
        if request["version"] == __version__:
            client.sendall(NUMBER.pack(os.getpid()))
            client.settimeout(None)
            Thread(target=_end_with, args=(client,), daemon=True).start()
            os.fchdir(descriptors[3])
            for stream, descriptor in enumerate(descriptors[:3]):
                os.dup2(descriptor, stream)
            for descriptor in descriptors:
                os.close(descriptor)
            os.umask(request["mask"])
            no_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            os.environ.clear()
            os.environ.update(request["environment"], CUDA_VISIBLE_DEVICES=no_gpu)
            try:
                code = run(request["arguments"])
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            sys.stderr.flush()
        else:
            code = OF_ANOTHER_VERSION
        client.sendall(NUMBER.pack(code))
    finally:  # with whatever fault: the client sees that there is no code
        os._exit(max(code, 0))


def _end_with(client: socket.socket) -> None:
    """Interrupt this process once the client is gone, which says no more after its request."""
    with suppress(OSError):
        client.recv(1)
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    listener = socket.socket(socket.AF_UNIX)
    try:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            there = path.lstat()
            if stat.S_ISSOCK(there.st_mode) and there.st_uid == os.geteuid():
                try:
                    client.connect(str(path))
                except ConnectionRefusedError:  # its server is gone
                    path.unlink()
        mask = os.umask(0o177)  # for this user alone
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen()
    except OSError as error:
        listener.close()
        hint = "give a path of at most 100 characters, in a folder that you may write, where there is nothing"
        why = "a file, or another server's socket, is there" if error.errno == errno.EADDRINUSE else reason(error)
        raise UsageError(f"{path}: no socket can be made: {why}", hint=hint) from None
    identity = path.lstat().st_ino
    try:
        yield listener
    finally:
        listener.close()
        with suppress(OSError):
            if path.lstat().st_ino == identity:
                path.unlink()


def _number(connection: socket.socket) -> int | None:
    data = _received(connection, NUMBER.size)
    return int(NUMBER.unpack(data)[0]) if len(data) == NUMBER.size else None


def _received(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := connection.recv(length - len(data))):
        data += more
    return data
