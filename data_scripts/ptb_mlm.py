"""Convert Mikolov's Penn Treebank: ``text/ptb/{train,dev,test}.txt`` under ``$PROBTRANS_DATA``, a sentence a line.

    python data_scripts/ptb_mlm.py DIR          # the folder of ptb.train.txt, ptb.valid.txt and ptb.test.txt
    python data_scripts/ptb_mlm.py DIR --to DIR # default: $PROBTRANS_DATA/text/ptb, else data/text/ptb

You bring the files: ``simple-examples/data`` of Mikolov's language-model toolkit, made from LDC99T42. They have no
punctuation, lower-case words, `N` for numbers and `<unk>` for all but 9,998 words; only blanks at the ends of lines are
removed. The usual "10,000 words" count an end-of-sentence mark, the paper's count its `<mask>`. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corpus_files import Options, convert_options, expect, read_lines, report, start, write_texts

FILES = {"train": ("ptb.train.txt", 42_068), "dev": ("ptb.valid.txt", 3_370), "test": ("ptb.test.txt", 3_761)}
WORDS = 9_999


def steps(options: Options) -> Iterator[str]:
    """Read the three files, compare their sizes with the published ones, write them."""
    assert options.source
    texts = {}
    for split, (name, count) in FILES.items():
        lines = [line.strip(" ") for line in read_lines(options.source / name)]
        expect(f"{name}: lines", len(lines), count)
        if split == "train":
            expect(
                f"{name}: different words, <unk> included",
                len({word for line in lines for word in line.split()}),
                WORDS,
            )
        texts[f"{split}.txt"] = "".join(f"{line}\n" for line in lines)
    yield from write_texts(texts, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    folder = "the folder that holds ptb.train.txt, ptb.valid.txt and ptb.test.txt"
    return report(steps(convert_options(__doc__, "text/ptb", folder, arguments)))


if __name__ == "__main__":
    start(main)
