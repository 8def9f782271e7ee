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

from corpus_files import KnownFile, Options, fetch, fetch_options, files_of, place, read_lines, report, start

LICENCE = (
    "CaRB and OpenIE-4's output: MIT, part of the sentences are newswire. OIE2016: MIT. LSOIE: none stated in its "
    "repository, MIT by its dataset card. Cite Bhardwaj et al., 2019; Stanovsky and Dagan, 2016; Solawetz and Larson, "
    "2021."
)
FILES = files_of("openie")
LABELLED = [
    KnownFile(f"oie2016_wiki/{split}.extags.txt", sha256, size)
    for split, sha256, size in (
        ("train", "95eedb46c9a2ce9ac0c39e69932c4059c7bae8834f61da1408ce26e06de82300", 629_207),
        ("dev", "e7201e6971a335154ebe20fca725143f212a677d31ad825cbcabf1a800aed64e", 210_421),
        ("test", "418dbf34ffa1c05bb89ada584f692a2f3c4067638a1bff39c5103bf2496e3a3e", 221_722),
    )
]
(SILVER,) = files_of("openie4_silver")
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
