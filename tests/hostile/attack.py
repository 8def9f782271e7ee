"""All inputs of all groups, in a few processes at once."""

from __future__ import annotations

import multiprocessing
import shutil
import stat
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import checkpoints, folders, inputs, kills, material, planted, process, races
from .place import Group, Place
from .report import Tried

GROUPS: dict[str, Group] = {
    group.name: group for module in (kills, races, checkpoints, folders, planted, inputs) for group in module.GROUPS
}


@dataclass(frozen=True)
class Input:
    """One input, and where it is tried."""

    group: str
    seed: int
    index: int
    folder: Path
    kept: Path

    def attempt(self) -> Tried:
        """Try it."""
        place = Place(
            self.group, self.seed, self.index, self.folder / "material", self.folder / f"{self.group}-{self.index}"
        )
        try:
            GROUPS[self.group].attack(place)
        except Exception:  # whatever it is: one attack that fails is a fault in the table, the others go on
            place.fault(f"the attack itself failed:\n{traceback.format_exc()}")
        kept = None
        if place.faults:
            kept = self.kept / f"{self.group}-{self.seed}-{self.index}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            shutil.copytree(place.folder, kept / "files", symlinks=True, ignore_dangling_symlinks=True, ignore=_special)
            if place.streams.exists():
                shutil.copytree(place.streams, kept / "streams")
        place.remove()
        return Tried(
            self.group, self.seed, self.index, tuple(one.code for one in place.ended),
            max((one.seconds for one in place.ended), default=0.0),
            sum(one.work for one in place.ended),
            max((one.memory for one in place.ended), default=0), tuple(place.faults),
            None if kept is None else str(kept),
        )  # fmt: skip


def _special(folder: str, names: list[str]) -> list[str]:
    """Of the names in a folder those of pipes, sockets and devices, which cannot be copied."""
    modes = {name: stat.S_IFMT(Path(folder, name).lstat().st_mode) for name in names}
    return [name for name, mode in modes.items() if mode not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)]


def attack(
    folder: Path, names: Sequence[str], seed: int, scale: float, index: int | None, jobs: int, kept: Path
) -> Iterator[Tried]:
    """Try the inputs of some groups in a folder; yields what came of each as it is done.

    Args:
        folder: an empty one, for material and places.
        names: of the groups.
        seed: of all random choices.
        scale: share of the inputs.
        index: only this input of each group.
        jobs: processes at once.
        kept: where files of faults go.
    """
    process.warm()
    material.make(folder / "material")
    before = material.checksums(folder / "material")
    every = [
        Input(name, seed, number, folder, kept.absolute())
        for name in names
        for number in (range(max(1, round(GROUPS[name].count * scale))) if index is None else [index])
    ]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(Input.attempt, every, chunksize=1)
    changed = [name for name, sum in material.checksums(folder / "material").items() if before.get(name) != sum]
    if changed:
        yield Tried("all", seed, 0, (), 0.0, 0.0, 0, (f"changed file: of the material: {changed}",), None)
