"""Put the English Web Treebank (UD 2.16) in place: ``ud/en_ewt/{train,dev,test}.conllu`` under ``$PROBTRANS_DATA``.

    python data_scripts/ud_english_ewt.py                   # downloads 18 MB from the official repository
    python data_scripts/ud_english_ewt.py --from DIR        # takes a local copy instead, no network
    python data_scripts/ud_english_ewt.py --to DIR          # default: $PROBTRANS_DATA/ud/en_ewt, else data/ud/en_ewt

Every file is compared with its known SHA-256 before it takes its place; a different file that is already there is left
alone without ``--force``. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import PublicFile, fetch_corpus, start

SOURCE = "UniversalDependencies/UD_English-EWT/15d613d8447b3478787d4c278730a1e48a945efb"
LICENCE = (
    "UD English EWT 2.16: annotations CC BY-SA 4.0; the texts may be © Google, Yahoo!, the Trustees of the University "
    "of Pennsylvania or others. Cite Silveira et al., LREC 2014."
)
FILES = [
    PublicFile(f"{split}.conllu", sha256, size, SOURCE, f"en_ewt-ud-{split}.conllu")
    for split, sha256, size in (
        ("train", "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b", 14_203_025),
        ("dev", "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6", 1_805_545),
        ("test", "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd", 1_804_515),
    )
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ud/en_ewt", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
