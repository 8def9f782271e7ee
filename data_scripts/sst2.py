"""Put SST-2 in place: ``sst/sst2/{train,dev,test}.tsv`` under ``$PROBTRANS_DATA``, a sentence or phrase, tab, 0 or 1.

    python data_scripts/sst2.py                 # downloads 4 MB
    python data_scripts/sst2.py --from DIR      # takes a local copy instead, no network
    python data_scripts/sst2.py --to DIR        # default: $PROBTRANS_DATA/sst/sst2, else data/sst/sst2

The binary Stanford Sentiment Treebank as SentEval distributes it: 67,349 phrases and sentences in train, 872 sentences
in dev, 1,821 in test. Every file is compared with its known SHA-256 before it takes its place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import fetch_corpus, files_of, start

LICENCE = (
    "SST-2: no licence is stated for the data; check before you publish anything that contains it. Cite Socher et al., "
    "EMNLP 2013, and for the split Conneau & Kiela, LREC 2018."
)
FILES = files_of("sst2")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "sst/sst2", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
