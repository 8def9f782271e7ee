"""Put SST-5 in place: ``sst/sst5/{train,dev,test}.txt`` under ``$PROBTRANS_DATA``, a label (0 to 4) and a sentence.

    python data_scripts/sst5.py                 # downloads 1 MB
    python data_scripts/sst5.py --from DIR      # takes a local copy instead, no network
    python data_scripts/sst5.py --to DIR        # default: $PROBTRANS_DATA/sst/sst5, else data/sst/sst5

The Stanford Sentiment Treebank in five classes, 0 very negative to 4 very positive: 8,544, 1,101 and 2,210 sentences.
Every file is compared with its known SHA-256 before it takes its place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import fetch_corpus, files_of, start

LICENCE = (
    "SST-5: no licence is stated for the data; check before you publish anything that contains it. Cite Socher et al., "
    "EMNLP 2013."
)
FILES = files_of("sst5")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "sst/sst5", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
