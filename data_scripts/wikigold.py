"""Put WikiGold in place: ``ner/wikigold/all.conll`` under ``$PROBTRANS_DATA``, a token, a blank, its IOB1 tag, and
three splits of it, ``ner/wikigold/split-{0,1,2}/{train,dev,test}.conll``.

    python data_scripts/wikigold.py             # downloads 0.3 MB
    python data_scripts/wikigold.py --from DIR  # takes a local copy instead, no network
    python data_scripts/wikigold.py --to DIR    # default: $PROBTRANS_DATA/ner/wikigold, else data/ner/wikigold

Entities in 145 Wikipedia documents, 1,696 sentences, with -DOCSTART- lines and without a split of its own. The file is
compared with its known SHA-256 before it takes its place. In each split whole documents, drawn at random, are for
testing (29), for development (14) and for training (102). Standard library only.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Sequence

from corpus_files import (
    Options,
    expect,
    fetch,
    fetch_options,
    files_of,
    read_lines,
    report,
    start,
    write_texts,
)

LICENCE = "WikiGold: CC BY 4.0. Cite Balasuriya et al., 2009; Nothman et al., 2013."
FILES = files_of("wikigold")


SPLITS = 3
SIZES = {"test": 29, "dev": 14, "train": 102}
"""Documents of each part of a split."""

BREAK = "-DOCSTART-"


def documents(lines: Iterable[str]) -> list[list[str]]:
    """The lines of each document, without those that separate documents and the blank ones behind those."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(BREAK):
            found.append([])
        elif line or found[-1]:
            found[-1].append(line)
    return [document for document in found if document]


def split_texts(lines: Sequence[str]) -> dict[str, str]:
    """The files of all splits, by name: ``split-2/dev.conll``. Split k takes the documents in the order of
    ``random.Random(k)``, those for testing first, then those for development; the rest is for training."""
    all_documents = documents(lines)
    expect("all.conll: documents", len(all_documents), sum(SIZES.values()))
    texts = {}
    for number in range(SPLITS):
        order = list(range(len(all_documents)))
        random.Random(number).shuffle(order)  # noqa: S311 - a split, not secrets
        for part, size in SIZES.items():
            taken, order = (order, []) if part == "train" else (order[:size], order[size:])
            texts[f"split-{number}/{part}.conll"] = "".join(
                f"{BREAK} O\n\n" + "".join(f"{line}\n" for line in all_documents[index]) for index in sorted(taken)
            )
    return texts


def steps(options: Options) -> Iterator[str]:
    """Fetch the corpus, then write its splits."""
    yield from fetch(FILES, options)
    yield from write_texts(split_texts(read_lines(options.to / FILES[0].path)), options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    options = fetch_options(__doc__, "ner/wikigold", arguments)
    print(LICENCE, file=sys.stderr)
    return report(steps(options))


if __name__ == "__main__":
    start(main)
