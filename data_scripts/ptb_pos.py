"""Convert the Penn Treebank for tagging: ``pos/ptb/{train,dev,test}.conllu`` under ``$PROBTRANS_DATA``, tags in XPOS.

    python data_scripts/ptb_pos.py DIR          # the folder of 00 .. 24, or one above: treebank_3, parsed/mrg/wsj
    python data_scripts/ptb_pos.py DIR --to DIR # default: $PROBTRANS_DATA/pos/ptb, else data/pos/ptb

You bring LDC99T42. The split is that of Collins (2002): train 0-18, dev 19-21, test 22-24. Words and tags are those of
the trees in the .mrg files; empty elements (-NONE-) are left out, -LRB- and its kind, `\\/` and `\\*` stay as they are.
The .pos files are not read: they do not mark the ends of sentences. Standard library only.
"""

from __future__ import annotations

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

# Sections, sentences and words of each part.
SPLITS = {
    "train": (range(19), 38_219, 912_344),
    "dev": (range(19, 22), 5_527, 131_768),
    "test": (range(22, 25), 5_462, 129_654),
}
PLACES = (".", "wsj", "mrg/wsj", "parsed/mrg/wsj")


def sections_folder(folder: Path) -> Path:
    """The folder of the sections, which may lie deeper in the release."""
    for place in PLACES:
        if (folder / place / "00").is_dir():
            return folder / place
    raise CorpusError(f"{folder}: there is no folder 00 in it, nor in {', '.join(PLACES[1:])}")


def trees_of(folder: Path) -> list[Path]:
    """The tree files of a section, in order."""
    files = sorted(path for path in folder.glob("*") if path.suffix.lower() == ".mrg")
    if not files:
        raise CorpusError(f"{folder}: no .mrg file in it; all sections from 00 to 24 are needed (parsed/mrg/wsj)")
    return files


def conllu(files: Sequence[Path]) -> tuple[str, int, int]:
    """The sentences of some files as CoNLL-U, how many they are, and how many words."""
    lines: list[str] = []
    sentences = words = 0
    for path in files:
        for number, sentence in enumerate(tagged_sentences(read_lines(path), str(path)), start=1):
            if sentence:
                lines.append(f"# sent_id = {path.stem.lower()}.{number}")
                lines += (f"{i}\t{word}\t_\t_\t{tag}" + "\t_" * 5 for i, (word, tag) in enumerate(sentence, start=1))
                lines.append("")
                sentences += 1
                words += len(sentence)
    return "".join(f"{line}\n" for line in lines), sentences, words


def steps(options: Options) -> Iterator[str]:
    """Read all sections, compare their sizes with the published ones, write the three files."""
    assert options.source
    folder = sections_folder(options.source)
    texts = {}
    for split, (sections, sentences, words) in SPLITS.items():
        files = [path for section in sections for path in trees_of(folder / f"{section:02}")]
        texts[f"{split}.conllu"], found_sentences, found_words = conllu(files)
        expect(f"{split}: sentences", found_sentences, sentences)
        expect(f"{split}: words", found_words, words)
    yield from write_texts(texts, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status: 0 all in place, 3 not."""
    folder = "the folder of the sections 00 to 24 with their .mrg files, or the release that holds it"
    return report(steps(convert_options(__doc__, "pos/ptb", folder, arguments)))


if __name__ == "__main__":
    start(main)
