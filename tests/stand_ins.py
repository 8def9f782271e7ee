"""Stand-ins for commands of a cluster, which start local processes: `sbatch`, `srun`, `scontrol`, `torchrun`.

    python tests/stand_ins.py COMMAND [ARGUMENT]...

They do what the scripts of docs/clusters.md ask of the real ones: directives, one environment for each task, the
largest exit code, and a requeue that runs the job again. A job's folder has `requeues`, and `tasks`, the processes of a
step.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType


def install(folder: Path) -> str:
    """Put the commands into a folder; a `PATH` on which they are found first."""
    folder.mkdir(exist_ok=True)
    programs = {name: f'"{sys.executable}" "{__file__}" {name}' for name in COMMANDS}
    programs |= {
        "probtrans": f'"{sys.executable}" -m probtrans_cli',
        "torchrun": f'"{sys.executable}" -m torch.distributed.run',
    }
    for name, command in programs.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def sbatch(arguments: Sequence[str]) -> int:
    """Run a script with its directives, again whenever it was requeued. Options on the command line come first."""
    *options, script = [one for one in arguments if one != "--wait"]  # it always waits
    directives = re.findall(r"^#SBATCH (--\S+)", Path(script).read_text("utf-8"), re.MULTILINE)
    given = dict(one[2:].partition("=")[::2] for one in [*directives, *options])
    nodes, tasks = int(given.get("nodes", 1)), int(given.get("ntasks-per-node", 1))
    environment = {
        **os.environ, "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "localhost", "SLURM_NTASKS": str(nodes * tasks),
        "SLURM_TASKS_PER_NODE": str(tasks),
    }  # fmt: skip
    if "array" in given:
        first, last = map(int, given["array"].split("-"))
        of_array = [
            {"SLURM_ARRAY_TASK_ID": str(one), "SLURM_ARRAY_TASK_MAX": str(last)} for one in range(first, last + 1)
        ]
        # In no order that anybody may rely on.
        return max(subprocess.run(["bash", script], env={**environment, **one}).returncode for one in of_array[::-1])
    while True:
        before = _requeues()
        code = subprocess.run(["bash", script], env=environment).returncode
        if _requeues() == before:
            return code


def srun(arguments: Sequence[str]) -> int:
    """Start every task of a step, pass signals on to them, and end with their largest exit code."""
    command = [one for index, one in enumerate(arguments) if index or not one.startswith("--")]
    number, on_node = int(os.environ["SLURM_NTASKS"]), int(os.environ["SLURM_TASKS_PER_NODE"])
    tasks = [
        subprocess.Popen(command, env={**os.environ, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task % on_node)})
        for task in range(number)
    ]

    def pass_on(which: int, frame: FrameType | None) -> None:
        for task in tasks:
            task.send_signal(which)

    signal.signal(signal.SIGTERM, pass_on)
    Path("tasks").write_text(" ".join(str(task.pid) for task in tasks), "utf-8")
    codes = [task.wait() for task in tasks]
    return max(code if code >= 0 else 128 - code for code in codes)


def scontrol(arguments: Sequence[str]) -> int:
    """The machines of a job, or a job put back into the queue."""
    if arguments[:2] == ["show", "hostnames"]:
        print("\n".join(arguments[2].split(",")))
    elif arguments[0] == "requeue":
        with Path("requeues").open("a", encoding="utf-8") as file:
            file.write(f"{arguments[1]}\n")
    else:
        return 1
    return 0


def _requeues() -> int:
    path = Path("requeues")
    return path.read_text("utf-8").count("\n") if path.exists() else 0


COMMANDS = {"sbatch": sbatch, "srun": srun, "scontrol": scontrol}

if __name__ == "__main__":
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
