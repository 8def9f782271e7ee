"""Attack the command line, and print what came of it; exits 1 if anything is wrong.

    python -m tests.hostile                                          # everything: a quarter of an hour on two cores
    python -m tests.hostile --scale 0.02 --only parsed --only kill   # a fiftieth of two groups
    python -m tests.hostile --only parsed --seed 3 --index 17        # one input again

Each input depends on the seed, its group and its number alone. Where something is wrong, its files are kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def main(arguments: list[str] | None = None) -> int:
    """Read the arguments, make the material, try every input, print the table; returns the exit code."""
    from . import process
    from .attack import GROUPS, attack, table, told

    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the inputs of each group")
    parser.add_argument("--only", action="append", choices=list(GROUPS), metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--index", type=int, help="only the input of this number")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="inputs at once")
    parser.add_argument("--kept", type=Path, default=Path("hostile-faults"), help="where the files of faults are kept")
    parser.add_argument("--limit", type=float, default=process.LIMIT, help="seconds of a command, for busy machines")
    options = parser.parse_args(arguments)
    process.LIMIT = options.limit
    began = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="hostile-"))
    os.environ["PROBTRANS_DATA"] = str(place / "no-corpora")  # a name in a mutated recipe is no real corpus
    every = []
    try:
        for one in attack(
            place, options.only or list(GROUPS), options.seed, options.scale, options.index, options.jobs, options.kept
        ):
            every.append(one)
            if one.faults:
                print(told(one), flush=True)
    except KeyboardInterrupt:
        print("interrupted: this is what was tried")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    faulty = sum(bool(one.faults) for one in every)
    print(table(every), end="")
    work = sum(one.work for one in every)
    print(
        f"seed {options.seed}, {time.monotonic() - began:.0f} s with {options.jobs} at once, "
        f"of which commands took {work:.0f} s of a processor; inputs with faults: {faulty}"
    )
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
