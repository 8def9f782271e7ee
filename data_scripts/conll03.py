"""Put CoNLL-2003 in place: ``ner/conll03/{train,dev,test}.conll`` under ``$PROBTRANS_DATA``, word, POS, chunk, entity.

    python data_scripts/conll03.py DIR          # the folder of eng.train, eng.testa and eng.testb
    python data_scripts/conll03.py DIR --to DIR # default: $PROBTRANS_DATA/ner/conll03, else data/ner/conll03

You bring the English files of the shared task; their texts are Reuters'. They are checked (four columns, number of
sentences) and written as they are, -DOCSTART- lines and IOB1 tags included, also the two tags of eng.train that most
copies have against the rules of IOB1 (B-MISC behind O, "Atlanta Games" and "Urdu-speaking"): `probtrans prepare` warns
of them and reads them as conlleval does. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus_files import CorpusError, Options, convert_options, expect, read_lines, report, start, write_texts

# File and sentences of each part, -DOCSTART- not counted.
FILES = {"train": ("eng.train", 14_041), "dev": ("eng.testa", 3_250), "test": ("eng.testb", 3_453)}


def count_sentences(lines: Sequence[str], path: Path) -> int:
    """The number of sentences, without the -DOCSTART- lines; raises :class:`CorpusError` at a line of another shape."""
    count = 0
    inside = False
    for number, line in enumerate(lines, start=1):
        columns = line.split()
        if columns and len(columns) != 4:
            raise CorpusError(f"{path}:{number}: {len(columns)} columns instead of 4 (word, POS, chunk, entity)")
        word = bool(columns) and columns[0] != "-DOCSTART-"
        count += word and not inside
        inside = word
    return count


def steps(options: Options) -> Iterator[str]:
    """Read the three files, compare their sizes with the published ones, write them."""
    assert options.source
    texts = {}
    for split, (name, count) in FILES.items():
        lines = read_lines(options.source / name)
        expect(f"{name}: sentences", count_sentences(lines, options.source / name), count)
        texts[f"{split}.conll"] = "".join(f"{line}\n" for line in lines)
    yield from write_texts(texts, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    folder = "the folder that holds eng.train, eng.testa and eng.testb"
    return report(steps(convert_options(__doc__, "ner/conll03", folder, arguments)))


if __name__ == "__main__":
    start(main)
