"""Put the English Web Treebank (UD 2.16) in place: ``ud/en_ewt/{train,dev,test}.conllu`` under ``$PROBTRANS_DATA``.

    python data_scripts/ud_english_ewt.py                   # downloads 18 MB from the official repository
    python data_scripts/ud_english_ewt.py --from DIR        # takes a local copy instead, no network
    python data_scripts/ud_english_ewt.py --to DIR          # default: $PROBTRANS_DATA/ud/en_ewt, else data/ud/en_ewt

Every file is compared with its known SHA-256 before it takes its place; a different file that is already there is left
alone without ``--force``. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import fetch_corpus, files_of, start

LICENCE = (
    "UD English EWT 2.16: annotations CC BY-SA 4.0; the texts may be © Google, Yahoo!, the Trustees of the University "
    "of Pennsylvania or others. Cite Silveira et al., LREC 2014."
)
FILES = files_of("ud_english_ewt")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ud/en_ewt", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
