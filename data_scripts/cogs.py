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

from corpus_files import KnownFile, Options, PublicFile, fetch, fetch_options, place, read_lines, report, start

TABLES = "najoungkim/COGS/165a7b669eade971fa47bf568a2e51925360fed8"
LABELS = "bergen/EdgeTransformer/89f938d79736a9e320eed2e6a733b2fc62e6e804"
LICENCE = (
    "COGS: MIT, © 2020 najoungkim. bergen/EdgeTransformer states no licence for the labels in seqtag/. Cite Kim & "
    "Linzen, EMNLP 2020; for seqtag Ontañón et al., ACL 2022, and Bergen et al., NeurIPS 2021."
)
FILES = [
    *(
        PublicFile(name, sha256, size, TABLES, f"data/{name}")
        for name, sha256, size in (
            ("train.tsv", "220b3804b562c0156ee986eff1bdd15c27e52142549362a64f57baf86e304c78", 4_146_574),
            ("dev.tsv", "ab66388a309c7ac1ad210c781a6a0ce12281a9ef24619a12422a752cef61bc21", 522_121),
            ("test.tsv", "68f8e51e9f6d9cd22d64efe68dd21d7ea5ba327e9a2359481030161aea757035", 521_111),
            ("gen.tsv", "d013d9eee0bafc153f8decc85f42814ac97260f84964d980e1e2b84577b82361", 5_532_102),
            (
                "gen_cases_to_paper_sections.json",
                "d41606ea764176682c26012a98ab73f143b042a57ce4159de8120d69f60921f5",
                2_428,
            ),
        )
    ),
    *(
        PublicFile(f"seqtag/{split}_seqtag.jsonl", sha256, size, LABELS, f"cogs/data/{split}_seqtag.jsonl")
        for split, sha256, size in (
            ("dev", "7b104495948affeb4011f72ead4b1aac0157aa85a1d3c9bce1c48f023077a712", 1_091_067),
            ("test", "89a1b7ab6fbeab195a055f0f80c59a9647386819cf35c1cc4e43b50b11ea31ed", 1_088_331),
            ("gen_dev", "7075b4728e00d7ed9a969e266a547c9aff0ab173ea24adb1de70627585c41445", 463_443),
            ("train", "30e4f28c3662bd09c98c4d687adde05ecc99f5e6e798766f352ba2cada7685dd", 8_697_736),
            ("gen", "8628600b7993c8243d44864d929cf4ae668349d8d55b821f17ceb6255be22d2d", 9_588_454),
        )
    ),
]
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
