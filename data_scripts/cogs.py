"""Put COGS in place: ``cogs/{train,dev,test,gen}.tsv`` and ``cogs/seqtag/*.jsonl`` under ``$PROBTRANS_DATA``.

    python data_scripts/cogs.py                 # downloads 32 MB
    python data_scripts/cogs.py --from DIR      # takes a local copy instead, no network
    python data_scripts/cogs.py --to DIR        # default: $PROBTRANS_DATA/cogs, else data/cogs

The tables hold a sentence, its logical form and the kind of example; `seqtag/` holds the same data as labels of words,
which the authors of the Edge Transformer published. The labels of gen were made before the authors of COGS corrected 51
of its rows, so the two disagree there; `gen_corrected_rows.txt` lists the lines, found by comparing the two.
Every file is compared with its known SHA-256 before it takes its place. Standard library only.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus_files import KnownFile, Options, fetch, fetch_options, files_of, place, read_lines, report, start

LICENCE = (
    "COGS: MIT, © 2020 najoungkim. bergen/EdgeTransformer states no licence for the labels in seqtag/. Cite Kim & "
    "Linzen, EMNLP 2020; for seqtag Ontañón et al., ACL 2022, and Bergen et al., NeurIPS 2021."
)
FILES = files_of("cogs")
CORRECTED = KnownFile("gen_corrected_rows.txt", "02d4f904709cc8768772bfd129e006cab0a8e59c754bd34300c31effe1f5ad9c", 286)


def corrected_rows(folder: Path) -> bytes:
    """The lines of gen.tsv, counted from 1, where the authors made an agent a theme after the labels had been made."""
    tables, labels = read_lines(folder / "gen.tsv"), read_lines(folder / "seqtag" / "gen_seqtag.jsonl")
    rows = (
        number
        for number, (row, record) in enumerate(zip(tables, labels, strict=True), start=1)
        if row.endswith("\tobj_pp_to_subj_pp") and row.count(". theme (") != json.loads(record)["role"].count("theme")
    )
    return "".join(f"{number}\n" for number in rows).encode()


def steps(options: Options) -> Iterator[str]:
    """Fetch the public files, then write what follows from them."""
    yield from fetch(FILES, options)
    yield place(CORRECTED, lambda: io.BytesIO(corrected_rows(options.to)), options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    options = fetch_options(__doc__, "cogs", arguments)
    print(LICENCE, file=sys.stderr)
    return report(steps(options))


if __name__ == "__main__":
    start(main)
