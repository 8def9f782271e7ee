"""Put the English Web Treebank (UD 2.16) in place: ``ud/en_ewt/{train,dev,test}.conllu`` under ``$PROBTRANS_DATA``.

    python data_scripts/ud_english_ewt.py                   # downloads 18 MB from the official repository
    python data_scripts/ud_english_ewt.py --from DIR        # takes a local copy instead, no network
    python data_scripts/ud_english_ewt.py --to DIR          # default: $PROBTRANS_DATA/ud/en_ewt, else data/ud/en_ewt

Every file is compared with its known SHA-256 before it takes its place; a different file that is already there is left
alone without ``--force``. Standard library only.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

COMMIT = "15d613d8447b3478787d4c278730a1e48a945efb"
ADDRESS = (
    "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/" + COMMIT + "/en_ewt-ud-{split}.conllu"
)
# SHA-256 and size in bytes of the unpacked text.
EXPECTED = {
    "train": ("3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b", 14_203_025),
    "dev": ("531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6", 1_805_545),
    "test": ("e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd", 1_804_515),
}
LICENCE = (
    "UD English EWT 2.16: annotations CC BY-SA 4.0; the texts may be © Google, Yahoo!, the Trustees of the University "
    "of Pennsylvania or others. Cite Silveira et al., LREC 2014."
)
BLOCK = 1 << 16
SECONDS = 60


class CorpusError(Exception):
    """A file cannot be had, or is not the one it should be; the message is for the user."""


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """The contents of an open file, piece by piece."""
    while block := file.read(BLOCK):
        yield block


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in blocks(file):
            digest.update(block)
    return digest.hexdigest()


def open_local(folder: Path, split: str) -> BinaryIO:
    """The local copy of a split, under its official or its short name, gzipped or not."""
    names = [f"{stem}.conllu{end}" for stem in (f"en_ewt-ud-{split}", split) for end in ("", ".gz")]
    for name in names:
        path = folder / name
        if path.is_file():
            return cast(BinaryIO, gzip.open(path)) if name.endswith(".gz") else path.open("rb")
    raise CorpusError(f"{folder}: none of {', '.join(names)} is there; give --from the folder that holds them")


def open_remote(split: str) -> BinaryIO:
    """The official file, over https."""
    response: BinaryIO = urllib.request.urlopen(ADDRESS.format(split=split), timeout=SECONDS)
    return response


def write_checked(source: BinaryIO, target: Path, split: str) -> None:
    """Copy to a temporary name, compare the checksum, rename; a file that differs never takes its place."""
    expected, size = EXPECTED[split]
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    digest = hashlib.sha256()
    done = 0
    try:
        with temporary.open("wb") as file:
            for block in blocks(source):
                file.write(block)
                digest.update(block)
                done += len(block)
                if sys.stderr.isatty():
                    print(f"\r{target.name}: {done / 1e6:.1f} of {size / 1e6:.1f} MB", end="", file=sys.stderr)
                if done > size:
                    break  # cannot be the right file; do not fill the disk
        if sys.stderr.isatty():
            print(file=sys.stderr)
        if digest.hexdigest() != expected:
            raise CorpusError(
                f"{target.name}: wrong checksum, nothing written: expected sha256 {expected}, got {digest.hexdigest()}"
                + (" (of the part read; the file is too long)" if done > size else "")
            )
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def fetch(target: Path, split: str, opener: Callable[[], BinaryIO], *, force: bool) -> str:
    """Put one split in place and say what happened; raises :class:`CorpusError`."""
    if target.exists():
        found = checksum(target) if target.is_file() else "no regular file"
        if found == EXPECTED[split][0]:
            return f"{target}: already in place"
        if not force:
            raise CorpusError(
                f"{target}: a different file is in the way (expected sha256 {EXPECTED[split][0]}, found {found}); "
                "move it away or add --force"
            )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with opener() as source:
            write_checked(source, target, split)
    except urllib.error.URLError as error:
        address = ADDRESS.format(split=split)
        raise CorpusError(f"{address}: {error}; without a network take a local copy with --from DIR") from error
    except (OSError, EOFError, zlib.error) as error:  # a broken archive, a full disk, a lost connection
        raise CorpusError(f"{target}: {error or type(error).__name__}") from error
    return f"{target}: written, checksum right"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    default = Path(os.environ.get("PROBTRANS_DATA") or "data") / "ud" / "en_ewt"
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--from", dest="source", type=Path, metavar="DIR", help="take a local copy, no network")
    parser.add_argument("--to", type=Path, default=default, metavar="DIR", help=f"folder to write to (now {default})")
    parser.add_argument("--force", action="store_true", help="replace files that differ")
    options = parser.parse_args(arguments)
    source: Path | None = options.source
    print(LICENCE, file=sys.stderr)
    for split in EXPECTED:

        def opener(split: str = split) -> BinaryIO:
            return open_local(source, split) if source else open_remote(split)

        try:
            print(fetch(options.to / f"{split}.conllu", split, opener, force=options.force))
        except CorpusError as error:
            print(f"error: {error}", file=sys.stderr)
            return 3
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
