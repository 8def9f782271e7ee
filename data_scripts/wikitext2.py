"""Put WikiText-2 in place: ``text/wikitext-2/{train,valid,test}.txt`` under ``$PROBTRANS_DATA``.

    python data_scripts/wikitext2.py            # downloads 13 MB
    python data_scripts/wikitext2.py --from DIR # takes a local copy instead, no network
    python data_scripts/wikitext2.py --to DIR   # default: $PROBTRANS_DATA/text/wikitext-2, else data/text/wikitext-2

Articles of Wikipedia with a paragraph or a heading a line, tokens separated by spaces, rare words as ``<unk>``: 23,767,
2,461 and 2,891 lines that are not blank. Every file is compared with its known SHA-256 before it takes its place.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_files import fetch_corpus, files_of, start

LICENCE = "WikiText-2: CC BY-SA, text of Wikipedia. Cite Merity et al., ICLR 2017."
FILES = files_of("wikitext2")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "text/wikitext-2", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
