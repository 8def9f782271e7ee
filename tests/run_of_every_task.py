"""A short training of every kind of task, and what reads its answers."""

from __future__ import annotations

ROWS = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n"
COLUMNS = "columns: {word: 0, tag: -1, entities: bioes}"
SHORT = ["train={steps: 60, batch_words: 60}", "optim.lr=0.1", "model.dropout=0"]
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
}  # fmt: skip
SENTENCE = {"cogs": "Ann sang .", "mlm": "two cheap [MASK] fold", "pretrain": "two [MASK] farmers"}


def rows(conllu: str) -> list[list[str]]:
    """The ten columns of the words of a sentence."""
    return [line.split("\t") for line in conllu.splitlines() if line[:1].isdigit()]
