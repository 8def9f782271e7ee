"""What is attacked: corpora in every format, trained models of every task, folders of Hugging Face's. Made once."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import signal
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from support import COGS, sentences, workplace

from .process import Signal, start

WORKPLACE = ("tiny.yaml", "train.conllu", "dev.conllu", "test.conllu")
"""A recipe and its corpora."""
SHORT = ("train={epochs: 1, batch_words: 120}", "model.dropout=0")
TRANSFORMER = "model={kind: transformer, preset: bert, width: 8, heads: 2, inner: 12, layers: 2}"
COLUMNS = "columns: {word: 0, tag: -1, entities: bioes}"
RUNS: dict[str, Sequence[str]] = {
    "tiny": ("task.eval_masks=2", "save.every_steps=3"),
    "tagger": (
        "task={kind: tagging, column: xpos}",
        "data.vocabulary={kind: words, features: {rows: 64}}",
        "save.every_steps=3",
    ),
    "ner": (f"data={{train: ner.txt, dev: ner.txt, test: ner.txt, format: columns, {COLUMNS}}}", "task={kind: ner}"),
    "classes": (
        "data={train: texts.tsv, dev: texts.tsv, test: texts.tsv, format: table}",
        "task={kind: classification}",
        "model.root={}",
    ),
    "cogs": ("data={train: cogs.tsv, dev: cogs.tsv, test: cogs.tsv, format: cogs}", "task={kind: cogs}"),
    "pretrain": (
        "data={train: doc.txt, dev: doc.txt, test: doc.txt, format: documents, documents: {max_length: 24}}",
        "task={kind: pretrain, eval_masks: 1}",
    ),
    "parser": (
        "data={train: train.conllu, dev: dev.conllu, test: test.conllu, format: treebank}",
        "task={kind: parsing, relations: universal, tags: [upos], heads: tree}",
    ),
    "lm": ("task={kind: lm}", "model.causal=true"),
    "char": ("data.vocabulary={kind: char}", "task={kind: tagging, column: upos}"),
    "pieces": ("data.vocabulary={kind: sentencepiece, size: 120}", "task.eval_masks=1", "data.dev=null"),
    "bert": (
        TRANSFORMER,
        "data.vocabulary={kind: wordpiece, size: 120}",
        "task={kind: mlm, output: bert, eval_masks: 1}",
    ),
}
"""The runs, by name, and how their recipes differ from `tiny.yaml`."""

CORPORA = {
    "tiny": "train.conllu", "tagger": "train.conllu", "ner": "ner.txt", "classes": "texts.tsv", "cogs": "cogs.tsv",
    "pretrain": "doc.txt", "char": "train.conllu", "pieces": "train.conllu", "bert": "train.conllu",
    "parser": "train.conllu", "lm": "train.conllu",
}  # fmt: skip
"""The training file of each run."""

_SAID = "two cheap farmers fold"
GRIDS = {
    "tuples.tsv": f"{_SAID}\tfold\ttwo farmers\n{_SAID}\tare\tfarmers\tcheap\tT: now\n" * 3,
    "places.tsv": f"{_SAID}\t('fold', [3])\t(\"farmers\", [2])\n" * 3,
    "openie4.tsv": "0.5\t\tSimpleArgument(farmers,List([10, 17)))\tRelation([is] cheap [of],List([4, 9)))\t"
    f"TemporalArgument(two,List([0, 1), {{2}}))\t{_SAID}\n",
    "blocks.txt": "word_id\tword\tpred\tpred_id\thead_pred_id\tsent_id\trun_id\tlabel\n"
    + "0\tfarmers\tfold\t[1]\t1\t0\t0\tA0-B\n1\tfold\tfold\t[1]\t1\t0\t0\tP-B\n\n" * 3,
    "rows.txt": f"{_SAID} [unused1] [unused2] [unused3]\nARG1 NONE ARG1 REL NONE NONE NONE\n" * 3,
    "tuples.jsonl": '{"words": ["farmers", "fold"], "upos": ["A", "B"], "tuples": [{"arg1": "farmers", "rel": "fold", '
    '"words": {"arg1": [0], "rel": [1]}, "added": ["is"]}]}\n{"text": "two fold", "tuples": []}\n',
    "coordinated.txt": "two or cheap farmers\nCP_START CC CP NONE\n\nfold\nNONE\n\n" * 3,
    "coordinated.jsonl": '{"words": ["two", "or", "cheap"], '
    '"coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}\n',
}
"""Files of tuples and of coordinations, in each form."""

# Trainings that are killed, and compared with these unbroken ones.
WHOLE: dict[str, Sequence[str]] = {
    "plain": ("train.epochs=1", "save.every_steps=1", "eval.every_steps=4", "save.keep=2", "task.eval_masks=1"),
    "ema": ("train.epochs=1", "save.every_steps=2", "optim.ema=0.9", "task={kind: tagging, word_dropout: 1.0}"),
}
PREPARE = ("prepare", "tiny.yaml", "data.prepared=here/prepared")
BULK = ("parse", "runs/tiny", "dev.conllu", "--output-dir", "done", "--block-size", "600", "--samples", "2")
COUNTED: dict[str, Sequence[str]] = {
    **{name: ("train", "tiny.yaml", *overrides, "--run", f"runs/whole-{name}") for name, overrides in WHOLE.items()},
    "prepare": PREPARE,
    "jobs": (*PREPARE, "--jobs", "2"),
    "bulk": BULK,
    "workers": (*BULK, "--workers", "2"),
    "eval": ("eval", "runs/tiny", "--split", "dev"),
    "choose": ("eval", "runs/tiny", "--split", "dev", "--choose"),
    "predictions": ("eval", "runs/tagger", "--split", "dev", "--predictions", "pairs.txt"),
    "export": ("export", "runs/tiny", "killed-export"),
    "wheel": ("export", "runs/tiny", "killed-wheel", "--format", "wheel"),
    "parse": ("parse", "runs/tiny", "dev.conllu", "-o", "parsed.conllu"),
}
"""Commands that are killed, and how many calls they make and files they touch is counted."""


def make(folder: Path) -> None:
    workplace(folder)
    ner = "two O\ncheap B-x\nfarmers E-x\n\nfold O\nfarmers S-y\n\n" * 4
    written = {
        "ner.txt": ner,
        "side.txt": "\n".join(f"{line} {line.split()[-1]}" if line else "" for line in ner.split("\n")),
        "cogs.tsv": "\n".join("\t".join(row) for row in COGS * 3) + "\n",
        "texts.tsv": "two cheap farmers\tgood\nfarmers fold\tbad\nfold two\tgood\n" * 4,
        "texts.jsonl": '{"text": "two cheap farmers", "label": "good"}\n{"text": "fold", "label": "bad"}\n' * 4,
        "doc.txt": "two cheap farmers fold\nfarmers fold\n\ncheap farmers fold two\nfold two farmers\n\n" * 4,
        "plain.txt": "two cheap farmers fold\nthe bakers sell many pies\n\nDon't, (really) stop.\n" * 4,
        "notes.txt": "what a user has written\n",
        **GRIDS,
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "train.conllu.gz").write_bytes(gzip.compress(sentences("train", 40).encode(), mtime=0))
    for name, overrides in RUNS.items():
        _run(folder, ("train", "tiny.yaml", *SHORT, *overrides, f"name={name}"))
    _run(folder, ("export", "runs/bert", "folder", "--format", "hf"))
    _run(folder, ("export", "runs/tagger", "exported"))
    ended = start(("parse", "runs/tiny", "dev.conllu", "--channel", "0"), folder, folder / "streams").wait(120)
    (folder / "trees.conllu").write_text(ended.out, encoding="utf-8")
    (folder / "here").mkdir()
    counts = {}
    for name, arguments in COUNTED.items():
        counts[name] = {kind: _run(folder, arguments, kind) for kind in ("calls", "files")}
    (folder / "counted.json").write_text(json.dumps(counts), encoding="utf-8")
    ended = start((*BULK, "--merge"), folder, folder / "streams").wait(120)
    (folder / "merged.conllu").write_text(ended.out, encoding="utf-8")


def _run(folder: Path, arguments: Sequence[str], counted: str | None = None) -> int:
    """Run a command that must come to its end; returns what it counted."""
    if counted is not None:  # it may have been run already
        options = dict(pairwise(arguments))
        made = options.get("--run") or options.get("--output-dir")
        made = made or {"prepare": "here/prepared", "export": arguments[2]}.get(arguments[0], "nothing")
        shutil.rmtree(folder / made, ignore_errors=True)
    never = None if counted is None else Signal(signal.SIGKILL, 10**12, counted)
    ended = start(arguments, folder, folder / "streams", kill=never).wait(300)
    assert ended.code == 0, f"{arguments}: {ended.code}\n{ended.err}"
    return ended.counted


def checksums(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }
