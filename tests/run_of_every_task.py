"""A short training of every kind of task, and what reads its answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import COGS, Invoke, workplace

ROWS = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n"
COLUMNS = "columns: {word: 0, tag: -1, entities: bioes}"
SHORT = ["train={steps: 30, batch_words: 60}", "optim.lr=0.1", "model.dropout=0"]
DOCUMENTS = "two cheap farmers fold\nfarmers fold\n\ncheap farmers fold two\nfold two farmers\n\n"
OVERRIDES = {
    "mlm": SHORT,
    "tagging": ["task={kind: tagging, column: xpos}", *SHORT],
    "ner": [f"data={{train: ner.txt, dev: ner.txt, format: columns, {COLUMNS}}}", "task={kind: ner}", *SHORT],
    "classification": [
        "data={train: texts.tsv, dev: texts.tsv, format: table}",
        "task={kind: classification}", "model.root={}", *SHORT,
    ],
    "cogs": ["data={train: cogs.tsv, dev: cogs.tsv, format: cogs}", "task={kind: cogs}", *SHORT],
    "pretrain": ["data={train: doc.txt, dev: doc.txt, format: documents, documents: {max_length: 24}}",
                 "task={kind: pretrain}", *SHORT],
    "openie": ["data={train: tuples.jsonl, dev: tuples.jsonl, format: extractions}",
               "task={kind: openie, rows: 2, iterative_steps: 1}", *SHORT],
    "coordination": ["data={train: cc.txt, dev: cc.txt, format: coordinations}",
                     "task={kind: coordination, rows: 1, iterative_steps: 1}", *SHORT],
    "parsing": ["data.format=treebank", "task={kind: parsing, tags: [upos]}", *SHORT],
    "lm": ["task={kind: lm}", "model.causal=true", *SHORT],
}  # fmt: skip
TUPLES = """\
{"words": ["two", "cheap", "farmers", "fold"], "tuples": [{"arg1": "farmers", "rel": "fold", "arg2": ""}]}
{"words": ["farmers", "fold", "two"], "tuples": [{"arg1": "farmers", "rel": "fold", "arg2": "two"}]}
"""
COORDINATED = """\
two farmers and goats fold
CP_START CP CC CP NONE

farmers fold
NONE NONE

"""
SENTENCE = {"cogs": "Ann sang .", "mlm": "two cheap [MASK] fold", "pretrain": "two [MASK] farmers"}


@dataclass(frozen=True)
class Say:
    """What `parse` of a task's run writes about a text, which is a file in the current folder."""

    runs: Path
    invoke: Invoke

    def __call__(self, task: str, *options: str, text: str | None = None, name: str = "in.txt") -> str:
        Path(name).write_text(text or f"{SENTENCE.get(task, 'two cheap farmers fold')}\n", "utf-8")
        return self.invoke("parse", str(self.runs / task), name, *options).ok.out

    def record(self, task: str, *options: str, text: str | None = None) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self(task, "-f", "jsonl", *options, text=text))
        return record


def rows(conllu: str) -> list[list[str]]:
    return [line.split("\t") for line in conllu.splitlines() if line[:1].isdigit()]


def corpora_of_every_task(folder: Path, times: int = 4) -> Path:
    """A workplace with a small corpus of every format."""
    workplace(folder)
    texts = {
        "ner.txt": ROWS, "texts.tsv": "two cheap farmers\tgood\nfarmers fold\tbad\n", "doc.txt": DOCUMENTS,
        "tuples.jsonl": TUPLES, "cc.txt": COORDINATED,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text * times, encoding="utf-8")
    (folder / "cogs.tsv").write_text("".join("\t".join(row) + "\n" for row in COGS), encoding="utf-8")
    return folder
