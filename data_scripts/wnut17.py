"""Put WNUT-17 in place: ``ner/wnut17/{train,dev,test}.conll`` under ``$PROBTRANS_DATA``, a token, tab, its IOB2 tag.

    python data_scripts/wnut17.py               # downloads 1 MB
    python data_scripts/wnut17.py --from DIR    # takes a local copy instead, no network
    python data_scripts/wnut17.py --to DIR      # default: $PROBTRANS_DATA/ner/wnut17, else data/ner/wnut17

Emerging and rare entities in user-generated text: 3,394, 1,009 and 1,287 sentences, the test set as adjudicated. Most
separators in train are a line with one tab, the others are empty. Every file is compared with its known SHA-256 before
it takes its place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import fetch_corpus, files_of, start

LICENCE = "WNUT-17: CC BY 4.0. Cite Derczynski et al., W-NUT 2017."
FILES = files_of("wnut17")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ner/wnut17", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
