"""Put tuples of open information extraction in place: ``openie/{carb,oie2016_wiki,openie4_silver,lsoie}`` under
``$PROBTRANS_DATA``.

    python data_scripts/openie.py             # downloads 10 MB and OpenIE-4's output
    python data_scripts/openie.py --from DIR  # takes local copies instead, no network
    python data_scripts/openie.py --to DIR    # default: $PROBTRANS_DATA/openie, else data/openie

- ``carb``: the benchmark CaRB, its sentences and gold tuples.
- ``oie2016_wiki``: the Wikipedia part of OIE2016, made from QA-SRL; ``*.extags.txt`` is made of it here, with rows of
  labels as OpenIE6 is trained on.
- ``openie4_silver``: OpenIE-4's output that comes with CaRB, without the sentences of CaRB and of dev and test of
  OIE2016.
- ``lsoie``: parts of LSOIE, made from QA-SRL 2.0.

Every file, also one that is made here, is compared with its known SHA-256 before it takes its place. Standard library
only.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from corpus_files import KnownFile, Options, PublicFile, fetch, fetch_options, place, read_lines, report, start

CARB = "dair-iitd/CaRB/024e0e91951eea1e6d7825a13ec303cae909e67b"
OPENIE6 = "dair-iitd/openie6/1abe90eb417e60c3a91d591902c84c0a46769710"
OIE2016 = "gabrielStanovsky/supervised-oie/0e9beb33c472c3540b42547cc772f000fac3ae91"
SCIENCE = "Jacobsolawetz/large-scale-oie/9c135f423072b947ec6a030f7b01e4b2f3d69b7d"
WIKI = "AntNLP/OpenIE/a7d43f4b662ce41a30ae78237894e5ef9bd4ec60"
LICENCE = (
    "CaRB and OpenIE-4's output: MIT, part of the sentences are newswire. OIE2016: MIT. LSOIE: none stated in its "
    "repository, MIT by its dataset card. Cite Bhardwaj et al., 2019; Stanovsky and Dagan, 2016; Solawetz and Larson, "
    "2021."
)
FILES = [
    PublicFile(
        "carb/dev_gold.tsv",
        "2081484b4fd237728591227becf6357799fd1575366fa1eeb51590822fbce6fc",
        581_556,
        OPENIE6,
        "carb/data/gold/dev.tsv",
    ),
    PublicFile(
        "carb/test_gold.tsv",
        "dfb850d32001ad4c3b1ec998d171888a4dc57354cadf4fe338d887fba39c9130",
        612_315,
        OPENIE6,
        "carb/data/gold/test.tsv",
    ),
    PublicFile(
        "carb/dev_sentences.txt",
        "d748c3363dda9dd77ffdc8711c3f2f6d5aaf24e88ab24a460d080335150d8c8c",
        89_235,
        CARB,
        "data/dev.txt",
    ),
    PublicFile(
        "carb/test_sentences.txt",
        "81fbd0dc2c16ba584db035b6fe6de92f6ab14ee99364c58c9b18ee56b0dfcbbe",
        89_031,
        OPENIE6,
        "carb/data/carb_sentences.txt",
    ),
    *(
        PublicFile(f"oie2016_wiki/{split}.oie.conll", sha256, size, OIE2016, f"data/wiki/wiki1.{split}.oie.conll")
        for split, sha256, size in (
            ("train", "cbc9ad069b90bf1a4935abcbf68a30d9cbaf93906a368905163a166f0173d941", 2_982_570),
            ("dev", "dde05a863123e764e37eb537416bcfa2eab52f20ea6c64236f6b492e5cefa9d4", 981_217),
            ("test", "c5cedb02bfbc5424ba8033176eaf77f0cd32831a9430251df48b7fa93310d0e3", 1_022_964),
        )
    ),
    PublicFile(
        "lsoie/science.tsv",
        "54af731de3b0ef0fa37a31da7f3f69ab9732cff3410f4250c352844278dabb06",
        1_737_876,
        SCIENCE,
        "oie-evaluation/oie_corpus/science_eval.oie",
    ),
    PublicFile(
        "lsoie/wiki.tsv",
        "0e295eabe3cdedf251fe85b6f98a9aaeb8c195c7b592cd4b49ccf635e3ed360c",
        1_601_843,
        WIKI,
        "Sequence-Labeling/data/corups/LSOIE/lsoie_wiki_joint_dev.gold",
    ),
]
LABELLED = [
    KnownFile(f"oie2016_wiki/{split}.extags.txt", sha256, size)
    for split, sha256, size in (
        ("train", "95eedb46c9a2ce9ac0c39e69932c4059c7bae8834f61da1408ce26e06de82300", 629_207),
        ("dev", "e7201e6971a335154ebe20fca725143f212a677d31ad825cbcabf1a800aed64e", 210_421),
        ("test", "418dbf34ffa1c05bb89ada584f692a2f3c4067638a1bff39c5103bf2496e3a3e", 221_722),
    )
]
SILVER = PublicFile(
    "openie4_silver/train.tsv",
    "9fd3c9ef22ef776145e28b4f24165dba8246522ed8d587172b6c282cd9e23517",
    1_873_347,
    CARB,
    "system_outputs/test/openie4_output.txt",
)
HELD_OUT = ("carb/dev_sentences.txt", "carb/test_sentences.txt")
HELD_OUT_BLOCKS = ("oie2016_wiki/dev.oie.conll", "oie2016_wiki/test.oie.conll")

EXTRA = [f"[unused{number}]" for number in (1, 2, 3)]
TAGS = {"O": "NONE", "P": "REL", "A0": "ARG1"}  # all others are ARG2


def blocks(lines: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    """The words of each extraction of OIE2016 with their labels."""
    found: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        fields = line.split("\t")
        if len(fields) < 8 and found:
            yield found
            found = []
        elif len(fields) >= 8 and fields[0] != "word_id":
            found.append((fields[1], fields[7]))


def labelled(lines: Iterable[str]) -> Iterator[str]:
    """Extractions of OIE2016 as rows of labels: a sentence with extra words behind it, below it a line of tags for each
    of its extractions."""
    before: list[str] = []
    for block in blocks(lines):
        words = [word for word, _ in block]
        if words != before:
            yield " ".join([*words, *EXTRA])
        before = words
        yield " ".join([*(TAGS.get(label.partition("-")[0], "ARG2") for _, label in block), *["NONE"] * len(EXTRA)])


def key(sentence: str) -> str:
    """A sentence without case, blanks and punctuation."""
    return "".join(filter(str.isalnum, sentence.lower()))


def without(lines: Iterable[str], held_out: set[str]) -> Iterator[str]:
    """The tuples of OpenIE-4, of whose columns the last one is the sentence, but for those of some sentences."""
    return (line for line in lines if line.strip() and key(line.rstrip().rpartition("\t")[2]) not in held_out)


def held_out(options: Options) -> set[str]:
    """The sentences on which models are chosen and scored."""
    sentences = [line for name in HELD_OUT for line in read_lines(options.to / name)]
    for name in HELD_OUT_BLOCKS:
        sentences += [" ".join(word for word, _ in block) for block in blocks(read_lines(options.to / name))]
    return {key(sentence) for sentence in sentences}


def made_of(lines: Iterable[str]) -> BinaryIO:
    """A file of some lines."""
    return io.BytesIO("".join(f"{line}\n" for line in lines).encode())


def steps(options: Options) -> Iterator[str]:
    """Fetch the public files, then make the others of them."""
    yield from fetch(FILES, options)
    for file in LABELLED:
        source = options.to / file.path.replace(".extags.txt", ".oie.conll")

        def made(source: Path = source) -> BinaryIO:
            return made_of(labelled(read_lines(source)))

        yield place(file, made, options)

    def silver() -> BinaryIO:
        with SILVER.open_local(options.source) if options.source else SILVER.open_remote() as file:
            text = file.read().decode("utf-8")
        return made_of(without(text.split("\n"), held_out(options)))

    yield place(SILVER, silver, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    options = fetch_options(__doc__, "openie", arguments)
    print(LICENCE, file=sys.stderr)
    return report(steps(options))


if __name__ == "__main__":
    start(main)
