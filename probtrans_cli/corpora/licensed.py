"""Licensed corpora, converted from the user's own copy.

Another size than the published one is a warning; a malformed line is an error that names it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from probtrans_cli import console
from probtrans_cli.corpora import Corpus, Options, Placed
from probtrans_cli.corpora.files import expect, place_texts, read_lines
from probtrans_cli.errors import DataError


def _source(options: Options) -> Path:
    assert options.source is not None, "the verb asks for it"
    return options.source


# --- Penn Treebank, language model ------------------------------------------------------------------------------------

MIKOLOV = {"train": ("ptb.train.txt", 42_068), "dev": ("ptb.valid.txt", 3_370), "test": ("ptb.test.txt", 3_761)}
WORDS = 9_999


def ptb_mlm(_: Corpus, options: Options) -> Iterator[Placed]:
    """Convert ``simple-examples/data`` of Mikolov's language-model toolkit.

    It has no punctuation, lower-case words, `N` for numbers and `<unk>` for all but 9,998 words; only blanks at the
    ends of lines are removed. The usual "10,000 words" count an end-of-sentence mark, the paper's count its `<mask>`.
    """
    texts = {}
    for split, (name, count) in MIKOLOV.items():
        lines = [line.strip(" ") for line in read_lines(_source(options) / name)]
        expect(f"{name}: lines", len(lines), count)
        if split == "train":
            words = {word for line in lines for word in line.split()}
            expect(f"{name}: different words, <unk> included", len(words), WORDS)
        texts[f"{split}.txt"] = lines
    yield from place_texts(texts, options)


# --- Penn Treebank, tags ----------------------------------------------------------------------------------------------

# Sections, sentences and words of each part.
COLLINS = {
    "train": (range(19), 38_219, 912_344),
    "dev": (range(19, 22), 5_527, 131_768),
    "test": (range(22, 25), 5_462, 129_654),
}
PLACES = (".", "wsj", "mrg/wsj", "parsed/mrg/wsj")


def ptb_pos(_: Corpus, options: Options) -> Iterator[Placed]:
    r"""Convert LDC99T42 to CoNLL-U with tags in XPOS, in the split of Collins (2002).

    Words and tags are those of the trees in the .mrg files; empty elements (-NONE-) are left out, -LRB- and its kind,
    `\/` and `\*` stay as they are. The .pos files are not read: they do not mark the ends of sentences.
    """
    source = _source(options)
    folder = next((source / place for place in PLACES if (source / place / "00").is_dir()), None)
    if folder is None:
        message = f"{source}: there is no folder 00 in it, nor in {', '.join(PLACES[1:])}"
        raise DataError(message, hint="give --from the folder of the sections 00 to 24, or the release")
    texts = {}
    for split, (sections, sentences, words) in COLLINS.items():
        files: list[Path] = []
        for section in sections:
            trees = sorted(path for path in folder.glob(f"{section:02}/*") if path.suffix.lower() == ".mrg")
            if not trees:
                hint = "all sections from 00 to 24 are needed (parsed/mrg/wsj)"
                raise DataError(f"{folder / f'{section:02}'}: no .mrg file in it", hint=hint)
            files += trees
        lines: list[str] = []
        for path in files:
            for number, sentence in enumerate(tagged_sentences(read_lines(path), str(path)), start=1):
                if sentence:
                    lines.append(f"# sent_id = {path.stem.lower()}.{number}")
                    lines += (
                        f"{i}\t{word}\t_\t_\t{tag}" + "\t_" * 5 for i, (word, tag) in enumerate(sentence, start=1)
                    )
                    lines.append("")
        texts[f"{split}.conllu"] = lines
        count = sum(line.startswith("# sent_id") for line in lines)
        expect(f"{split}: sentences", count, sentences)
        expect(f"{split}: words", len(lines) - 2 * count, words)
    yield from place_texts(texts, options)


# --- BLLIP ------------------------------------------------------------------------------------------------------------

YEARS = ("1987", "1988", "1989")
SECTIONS = {
    "train": ("1987/w7_071", "1987/w7_122", "1988/w8_054", "1988/w8_107", "1989/w9_028", "1989/w9_037"),
    "dev": ("1987/w7_001", "1988/w8_001", "1989/w9_010"),
    "test": ("1987/w7_002", "1988/w8_002", "1989/w9_011"),
}
MORE_THAN = 27
VOCABULARY = 30_231
NO_WORDS = {".", ",", ":", "``", "''", "-LRB-", "-RRB-", "$", "#"}


def bllip(_: Corpus, options: Options) -> Iterator[Placed]:
    """Make BLLIP-XS of LDC2000T43, a sentence a line; it takes some minutes.

    What the paper says (appendix D.1): train is the XS part of Hu et al. (2020), about 40,000 sentences and a million
    words; dev is the first section of each year, test the second; no punctuation, lower case, `N` for numbers; known
    are the words that occur more than 27 times in the whole corpus, 30,231 with <unk> and <mask>. All others become
    <unk> here.

    What it does not say is taken from code that it follows (data_dep.py of yikangshen/UDGN at
    1bd52ecc7b348ca591957f8001867a273e080929): the numbers of the sections, that every run of digits becomes one `N`
    (3.5 is N.N), and that currency signs go with the punctuation. That code also cuts dev and test; the paper does not
    speak of it, and here they are whole. The result has not been compared with the paper's own files.
    """
    source = _source(options)
    folders = [source / name for name in ("", "bliip_87_89_wsj", "bllip_87_89_wsj")]
    folder = next((folder for folder in folders if all((folder / year).is_dir() for year in YEARS)), None)
    if folder is None:
        hint = "give --from the one that holds them"
        raise DataError(f"{source}: the folders {', '.join(YEARS)} are not all in it", hint=hint)
    split_of = {section: split for split, sections in SECTIONS.items() for section in sections}
    sentences: dict[str, list[list[str]]] = {split: [] for split in SECTIONS}
    counts: Counter[str] = Counter()
    for year in YEARS:
        console.log(f"reading {folder / year}")
        for section in sorted(path for path in (folder / year).iterdir() if path.is_dir()):
            split = split_of.pop(f"{year}/{section.name.lower()}", None)
            for words in _sentences(section):
                counts.update(words)
                if split:
                    sentences[split].append(words)
    if split_of:
        raise DataError(f"{folder}: no section {', '.join(split_of)}", hint="the whole of LDC2000T43 is needed")
    known = {word for word, count in counts.items() if count > MORE_THAN}
    expect("words with <unk> and <mask>", len(known) + 2, VOCABULARY)
    texts = {}
    for split, part in sentences.items():
        texts[f"{split}.txt"] = [" ".join(word if word in known else "<unk>" for word in words) for words in part]
        console.log(f"{split}: {len(part):,} sentences, {sum(map(len, part)):,} words")
    yield from place_texts(texts, options)


def _sentences(section: Path) -> Iterator[list[str]]:
    for path in sorted(path for path in section.iterdir() if path.is_file()):
        # Automatic parses: a bracket without a word is no reason to give up the corpus.
        for tree in tagged_sentences(read_lines(path), str(path), skip_wordless=True):
            if words := [re.sub("[0-9]+", "N", word.lower()) for word, tag in tree if tag not in NO_WORDS]:
                yield words


# --- CoNLL-2003 -------------------------------------------------------------------------------------------------------

# File and sentences of each part, -DOCSTART- not counted.
SHARED_TASK = {"train": ("eng.train", 14_041), "dev": ("eng.testa", 3_250), "test": ("eng.testb", 3_453)}


def conll03(_: Corpus, options: Options) -> Iterator[Placed]:
    """Check the English files of the shared task (four columns, number of sentences), and write them as they are.

    -DOCSTART- lines and IOB1 tags stay, also the two tags of eng.train that most copies have against the rules of IOB1
    (B-MISC behind O, "Atlanta Games" and "Urdu-speaking"): `prepare` warns of them and reads them as conlleval does.
    """
    texts = {}
    for split, (name, count) in SHARED_TASK.items():
        path = _source(options) / name
        lines = read_lines(path)
        sentences, inside = 0, False
        for number, line in enumerate(lines, start=1):
            columns = line.split()
            if columns and len(columns) != 4:
                message = f"{path}:{number}: {len(columns)} columns instead of 4 (word, POS, chunk, entity)"
                raise DataError(message, hint="give --from the files of the shared task as they were")
            is_word = bool(columns) and columns[0] != "-DOCSTART-"
            sentences += is_word and not inside
            inside = is_word
        expect(f"{name}: sentences", sentences, count)
        texts[f"{split}.conll"] = lines
    yield from place_texts(texts, options)


# --- trees in brackets ------------------------------------------------------------------------------------------------

_SYMBOL = re.compile(r"[()]|[^\s()]+")


def tagged_sentences(
    lines: Iterable[str], name: str, *, skip_wordless: bool = False
) -> Iterator[list[tuple[str, str]]]:
    """Yield the (word, tag) pairs of each tree, empty elements (``-NONE-``) left out.

    A tree is what one outermost pair of brackets holds; its label may be missing. Time is linear in its length, and a
    deep one needs no deep recursion. With ``skip_wordless`` brackets around a tag alone are passed over.

    Raises:
        DataError: the brackets do not match, or hold something else than ``(TAG word)`` or ``(LABEL (...) ...)``; the
            message starts with ``name:line:``.
    """
    depth = first = number = 0
    innermost = False  # no bracket has been closed since the last one was opened
    inside: list[str] = []  # the words since the last bracket of either kind
    leaves: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        for symbol in _SYMBOL.findall(line):
            if symbol == "(":
                if len(inside) > 1:
                    raise _malformed(f"{name}:{number}: ({' '.join(inside)} ( holds both a word and brackets")
                first = first if depth else number
                depth += 1
                innermost, inside = True, []
            elif symbol == ")":
                if innermost and len(inside) == 2:
                    leaves += [] if inside[0] == "-NONE-" else [(inside[1], inside[0])]
                elif innermost and not (skip_wordless and len(inside) < 2):
                    raise _malformed(f"{name}:{number}: ({' '.join(inside)}) instead of (TAG word)")
                depth -= 1
                innermost, inside = False, []
                if depth < 0:
                    raise _malformed(f"{name}:{number}: a closing bracket too many")
                if depth == 0:
                    yield leaves
                    leaves = []
            elif innermost:
                inside.append(symbol)
            else:
                where = "after a closing bracket" if depth else "outside of all brackets"
                raise _malformed(f"{name}:{number}: {symbol!r} {where}")
    if depth:
        raise _malformed(f"{name}:{number}: {depth} brackets are not closed; the tree begins in line {first}")


def _malformed(message: str) -> DataError:
    return DataError(message, hint="give --from the files of the release as they were")
