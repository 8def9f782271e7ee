"""Shared by tests of exported graphs: made networks as graphs, and a process that cannot import this package."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from made_tasks import Made

from probtrans_cli.export.graph import Graph, Plan

ALONE = """
import runpy, sys
sys.path[:0] = [sys.argv[1], *sys.argv[2].split(":")]
sys.modules["probtrans_cli"] = None
sys.argv = ["example.py", *sys.argv[3:]]
runpy.run_path(f"{sys.path[0]}/example.py", run_name="__main__")
"""


def graph_of(made: Made, *, arcs: bool = True) -> Graph:
    """The graph of a made network; with the arcs of its last iteration."""
    section: Any = made.network.encoder.section
    wants = made.task.wants(made.batch([0, 1]))
    plan = Plan.of(made.network, wants, divides=made.vocabulary.divides, iteration=section.iterations if arcs else None)
    return Graph(made.network, plan)


def run_alone(folder: Path, *texts: str) -> str:
    """What the example in a folder prints: no .pth file is read, no variable of Python's, and this package is no
    module."""
    packages = ":".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    command = [sys.executable, "-I", "-S", "-c", ALONE, str(folder), packages, *texts]
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
