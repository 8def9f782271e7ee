"""Make BLLIP-XS: ``text/bllip_xs/{train,dev,test}.txt`` under ``$PROBTRANS_DATA``, a sentence a line.

    python data_scripts/bllip.py DIR            # the folder of 1987, 1988 and 1989; some minutes
    python data_scripts/bllip.py DIR --to DIR   # default: $PROBTRANS_DATA/text/bllip_xs, else data/text/bllip_xs

You bring LDC2000T43. What the paper says (appendix D.1): train is the XS part of Hu et al. (2020), about 40,000
sentences and a million words; dev is the first section of each year, test the second; no punctuation, lower case, `N`
for numbers; known are the words that occur more than 27 times in the whole corpus, 30,231 with <unk> and <mask>. All
others become <unk> here.

What it does not say is taken from code that it follows (data_dep.py of yikangshen/UDGN at
1bd52ecc7b348ca591957f8001867a273e080929): the numbers of the sections, that every run of digits becomes one `N` (3.5 is
N.N), and that currency signs go with the punctuation. That code also cuts dev and test; the paper does not speak of
it, and here they are whole. The result has not been compared with the paper's own files: the script prints its counts
and warns where the number of words is another. Standard library only.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus_files import (
    CorpusError,
    Options,
    convert_options,
    expect,
    read_lines,
    report,
    start,
    tagged_sentences,
    write_texts,
)

YEARS = ("1987", "1988", "1989")
SECTIONS = {
    "train": ("1987/w7_071", "1987/w7_122", "1988/w8_054", "1988/w8_107", "1989/w9_028", "1989/w9_037"),
    "dev": ("1987/w7_001", "1988/w8_001", "1989/w9_010"),
    "test": ("1987/w7_002", "1988/w8_002", "1989/w9_011"),
}
MORE_THAN = 27
VOCABULARY = 30_231
NO_WORDS = {".", ",", ":", "``", "''", "-LRB-", "-RRB-", "$", "#"}
_DIGITS = re.compile("[0-9]+")


def corpus_folder(folder: Path) -> Path:
    """The folder of the years, which may lie one deeper."""
    for place in (folder, folder / "bliip_87_89_wsj", folder / "bllip_87_89_wsj"):
        if all((place / year).is_dir() for year in YEARS):
            return place
    raise CorpusError(f"{folder}: the folders {', '.join(YEARS)} are not all in it; give the one that holds them")


def sentences(section: Path) -> Iterator[list[str]]:
    """The sentences of a section that have a word, as the model is to see them."""
    for path in sorted(path for path in section.iterdir() if path.is_file()):
        # Automatic parses: a bracket without a word is no reason to give up the corpus.
        for tree in tagged_sentences(read_lines(path), str(path), skip_wordless=True):
            words = [_DIGITS.sub("N", word.lower()) for word, tag in tree if tag not in NO_WORDS]
            if words:
                yield words


def read_corpus(folder: Path) -> tuple[dict[str, list[list[str]]], Counter[str]]:
    """The sentences of the three parts, and how often each word occurs in the whole corpus."""
    part = {section: split for split, sections in SECTIONS.items() for section in sections}
    found: dict[str, list[list[str]]] = {split: [] for split in SECTIONS}
    counts: Counter[str] = Counter()
    for year in YEARS:
        print(f"reading {folder / year}", file=sys.stderr)
        for section in sorted(path for path in (folder / year).iterdir() if path.is_dir()):
            split = part.pop(f"{year}/{section.name.lower()}", None)
            for words in sentences(section):
                counts.update(words)
                if split:
                    found[split].append(words)
    if part:
        raise CorpusError(f"{folder}: {', '.join(part)} not found; the whole of LDC2000T43 is needed")
    return found, counts


def steps(options: Options) -> Iterator[str]:
    """Read the whole corpus, write the three parts with rare words replaced."""
    assert options.source
    found, counts = read_corpus(corpus_folder(options.source))
    known = {word for word, count in counts.items() if count > MORE_THAN}
    expect("words with <unk> and <mask>", len(known) + 2, VOCABULARY)
    texts = {}
    for split, part in found.items():
        lines = (" ".join(word if word in known else "<unk>" for word in words) for words in part)
        texts[f"{split}.txt"] = "".join(f"{line}\n" for line in lines)
        yield f"{split}: {len(part):,} sentences, {sum(map(len, part)):,} words"
    yield from write_texts(texts, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    folder = "the folder of LDC2000T43 that holds 1987, 1988 and 1989"
    return report(steps(convert_options(__doc__, "text/bllip_xs", folder, arguments)))


if __name__ == "__main__":
    start(main)
