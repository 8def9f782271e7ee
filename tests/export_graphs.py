"""Shared by tests of exported graphs: made networks as graphs, and a process that cannot import this package."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from made_tasks import Made
from run_of_every_task import OVERRIDES

from probtrans_cli.export import graph as graphs
from probtrans_cli.export.graph import Graph, Plan

ALONE = """
import runpy, sys
sys.path[:0] = [sys.argv[1], *sys.argv[2].split(":")]
sys.modules["probtrans_cli"] = None
sys.argv = ["example.py", *sys.argv[3:]]
runpy.run_path(f"{sys.path[0]}/example.py", run_name="__main__")
"""


def graph_of(made: Made) -> Graph:
    """The graph of a made network; with the arcs of its last iteration."""
    section: Any = made.network.encoder.section
    wants = made.task.wants(made.batch([0, 1]))
    plan = Plan.of(made.network, wants, divides=made.vocabulary.divides, iteration=section.iterations)
    return graphs.graph_of(made.network, plan)


def run_alone(folder: Path, *texts: str) -> str:
    """What the example in a folder prints: no .pth file is read, no variable of Python's, and this package is no
    module."""
    packages = ":".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    command = [sys.executable, "-I", "-S", "-c", ALONE, str(folder), packages, *texts]
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# --- what an exported folder answers ----------------------------------------------------------------------------------

NASTY = (
    "", " ", "\u00a0", "a", ".", "–", "--", "-", "…", "...", "“", "'", "x\ty",
    "Two cheap farmers fold every shirt.", "TWO CHEAP FARMERS FOLD EVERY SHIRT.", "two farmers fold",
    "“Two farmers” – they said — don’t fold … the ‘shirt’.", "Farmers – and goats – can’t fold; won't they?",
    "word\u2011break soft\u00adhyphen no\u00a0break thin\u202fspace zero\u200bwidth", "e\u0301 é İstanbul ẞ straße ﬁne",
    "1,234.5 and 3rd of 12.12.2012 at 10:30, $5.00 – 7%", "unknownword qwertyuiop Zażółć gęślą jaźń",
    "👩‍👩‍👧 fold 😀 shirts", "漢字かな交じり文 عربي हिन्दी", "<unk> <mask> [MASK] [UNK] [CLS] <pad> [unused1] N ▁ ##s",
    "two [MASK] farmers, [MASK] fold", "farmers and goats and hens fold , cheap or dear , shirts and trousers",
    "http://example.org/a,b me@x.com U.S. Mr. O'Neil (Ltd.) 'tis ``quoted''", "x" * 1200, "farmers " * 150,
    "Ann sang .", "A hen saw Ann .", "Wim Vos sails to Elst.", "‘Wim’ and “Anna van Elst” met the Otter…",
)  # fmt: skip
LAYERS = "{kind: transformer, width: 8, heads: 2, inner: 12, layers: 1, dropout: 0.0}"
ENTITIES = (
    "data={train: entities.txt, dev: entities.txt, format: columns, columns: {word: 0, tag: 1, entities: iob2}}",
    "task={kind: ner}",
)
TAGGING = ("task={kind: tagging, column: xpos}",)


def vocabulary(options: str, *task: str) -> tuple[str, ...]:
    return (*task, f"data.vocabulary={{{options}}}", f"model={LAYERS}")


CASES: dict[str, tuple[str, ...]] = {
    **{kind: tuple(options) for kind, options in OVERRIDES.items()},
    "exact readout": (
        "task={kind: lm, readout: exact, score_first: false}",
        "model={causal: true, chain: true, labels: 4, channels: 1, distance: 0, message_weight: {heads: 1.0}}",
    ),
    "language model of pieces": (
        "task={kind: lm}",
        "data.vocabulary={kind: wordpiece, size: 120, lowercase: true}",
        "model={causal: true, labels: 8, channels: 2, distance: 1, iterations: 2}",
    ),
    "iob2": ENTITIES,
    "any tags": (*ENTITIES[:1], "task={kind: ner, valid: false}"),
    "lower case": (*TAGGING, "data.vocabulary={kind: words, lowercase: true, digits: true, features: {ngrams: 3}}"),
    "no punctuation": ("task={kind: mlm}", "data.vocabulary={kind: words, punctuation: false, features: {}}"),
    "characters": vocabulary("kind: char", *TAGGING),
    "small characters": vocabulary("kind: char, lowercase: true", *OVERRIDES["classification"][:2]),
    "sentencepiece": vocabulary("kind: sentencepiece, size: 120", *TAGGING),
    "small sentencepiece": vocabulary("kind: sentencepiece, size: 120, lowercase: true", "task={kind: mlm}"),
    "wordpiece": vocabulary("kind: wordpiece, size: 120, lowercase: true, features: {}", *TAGGING),
    "large wordpiece": vocabulary("kind: wordpiece, size: 140, lowercase: false", "task={kind: mlm}"),
    "entities of pieces": vocabulary("kind: wordpiece, size: 60", *ENTITIES),
    "hidden words with features": ("task={kind: mlm}", "data.vocabulary={kind: words, features: {}}"),
    "parents by attention": (*OVERRIDES["cogs"][:1], "task={kind: cogs, parent: attention}"),
    "parents by position": (*OVERRIDES["cogs"][:1], "task={kind: cogs, parent: absolute}"),
    "whole sentences": (
        *OVERRIDES["cogs"][:1],
        "task={kind: cogs, parent: category, category: word, verb: word, decode: sentence}",
    ),
    "heads of a field": (
        "data.format=treebank",
        "task={kind: parsing, output: heads, relations: full, tags: [upos, xpos]}",
        "model.head_labels=true",
        "model.root={labels: 4, own_label: true}",
        "model.channels=18",
        "model.factors=[{kind: arcs, between: 2}, {kind: relations}]",
    ),
    "a parser of pieces": vocabulary("kind: wordpiece, size: 120, features: {}", *OVERRIDES["parsing"][:2]),
    "smallest confidence": (
        "data={train: tuples.jsonl, dev: tuples.jsonl, format: extractions}",
        "task={kind: openie, rows: 3, iterative_steps: 1, confidence: min, location_time: false}",
    ),
}  # fmt: skip


def fitting(texts: Iterable[str], longest: int | None) -> list[str]:
    """Those that are short enough for a model, whatever its tokens: a character is three of them at most."""
    return [text for text in texts if longest is None or 3 * len(text) + 5 <= longest]
