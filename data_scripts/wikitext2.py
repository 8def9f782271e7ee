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

from corpus_files import PublicFile, fetch_corpus, start

SOURCE = "pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8"
LICENCE = "WikiText-2: CC BY-SA, text of Wikipedia. Cite Merity et al., ICLR 2017."
FILES = [
    PublicFile(f"{split}.txt", sha256, size, SOURCE, f"word_language_model/data/wikitext-2/{split}.txt")
    for split, sha256, size in (
        ("train", "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f", 10_797_148),
        ("valid", "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", 1_121_681),
        ("test", "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", 1_256_449),
    )
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "text/wikitext-2", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
