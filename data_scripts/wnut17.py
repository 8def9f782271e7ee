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

from corpus_files import PublicFile, fetch_corpus, start

SOURCE = "leondz/emerging_entities_17/e52a2d2a71ac1a051ca2d532eef28653c5c02603"
LICENCE = "WNUT-17: CC BY 4.0. Cite Derczynski et al., W-NUT 2017."
FILES = [
    PublicFile(f"{split}.conll", sha256, size, SOURCE, upstream)
    for split, upstream, sha256, size in (
        (
            "train",
            "wnut17train.conll",
            "731820e13f71af324c6b55a1575ec2ce59fbaa2a0806f8f0400b98d56cd6a7a5",
            493_781,
        ),
        ("dev", "emerging.dev.conll", "e053b752b8155113ca66e7db08af5f2f5f43ab993694e4774f1ec5bad42312d8", 114_749),
        (
            "test",
            "emerging.test.annotated",
            "2aa79b764e56ec9264a1b30fdd9b70195bd00ff400b62edd8f399d5f13c178f0",
            192_425,
        ),
    )
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    return fetch_corpus(__doc__, "ner/wnut17", LICENCE, FILES, arguments)


if __name__ == "__main__":
    start(main)
