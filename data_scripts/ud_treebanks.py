"""Put eight treebanks of UD in place: ``ud/NAME/{train,dev,test}.conllu`` under ``$PROBTRANS_DATA``.

    python data_scripts/ud_treebanks.py                   # downloads 30 MB from the official repositories
    python data_scripts/ud_treebanks.py --from DIR        # takes a local copy instead, no network
    python data_scripts/ud_treebanks.py --to DIR          # default: $PROBTRANS_DATA/ud, else data/ud

Those of Universal Dependencies in docs/trees.md beside the English Web Treebank, which has a script of its own:
Afrikaans, French, Greek, Hungarian, Maltese, Turkish, Uyghur, Wolof. Every file is compared with its known SHA-256
before it takes its place; a different file that is already there is left alone without ``--force``. DIR holds files
with their official names, such as ``wo_wtb-ud-train.conllu``, or folders as they are here. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import fetch_corpus, files_of, start

LICENCE = (
    "Universal Dependencies: af_afribooms, mt_mudt, ug_udt and wo_wtb CC BY-SA 4.0; tr_imst CC BY-NC-SA 4.0; el_gdt "
    "and hu_szeged CC BY-NC-SA 3.0; fr_sequoia LGPL-LR. Cite each treebank as its repository says."
)
FILES = files_of("ud_treebanks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ud", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
