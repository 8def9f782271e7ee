"""Put SST-5 in place: ``sst/sst5/{train,dev,test}.txt`` under ``$PROBTRANS_DATA``, a label (0 to 4) and a sentence.

    python data_scripts/sst5.py                 # downloads 1 MB
    python data_scripts/sst5.py --from DIR      # takes a local copy instead, no network
    python data_scripts/sst5.py --to DIR        # default: $PROBTRANS_DATA/sst/sst5, else data/sst/sst5

The Stanford Sentiment Treebank in five classes, 0 very negative to 4 very positive: 8,544, 1,101 and 2,210 sentences.
Every file is compared with its known SHA-256 before it takes its place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import PublicFile, fetch_corpus, start

SOURCE = "AcademiaSinicaNLPLab/sentiment_dataset/23c72429de5fb3d2f3da87bf2efb5559c15b78f7"
LICENCE = (
    "SST-5: no licence is stated for the data; check before you publish anything that contains it. Cite Socher et al., "
    "EMNLP 2013."
)
FILES = [
    PublicFile(f"{split}.txt", sha256, size, SOURCE, f"data/stsa.fine.{split}")
    for split, sha256, size in (
        ("train", "9b52b5f686ed438d4d0274c385369251b3d579b578fddd340ba8a9bae2ca4bee", 902_818),
        ("dev", "b2f76c62b960f9fda5c6d751edb125abab4f878eb94a8754239b7f4af647f4c3", 117_239),
        ("test", "0e2ebb450c231f7b3d67fc932066e7bb26ae7bad8c88488f45ed44ef02eb3c73", 233_634),
    )
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "sst/sst5", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
