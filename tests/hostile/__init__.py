"""An attack on the command line: mutated inputs, altered folders, links, kills and races; `python -m tests.hostile`.

words.py        words that try to be more than words
mutations.py    a file with something wrong in it: bytes, lines, columns, JSON, safetensors
process.py      a warmed process that forks a child for each command, and watches its time and memory
place.py        where one input is tried: its files, its commands, and what is judged of them
material.py     corpora, trained models and folders, made once at the start
inputs.py       mutated files and arguments through every verb
folders.py      altered runs, prepared corpora, checkpoints, folders of Hugging Face's; links and pipes in them
kills.py        signals at any moment, and what comes after
races.py        several processes and one folder
attack.py       all inputs of all groups, in a few processes at once; the table, and how a fault is repeated
"""

from __future__ import annotations

from .words import HOSTILE

__all__ = ["HOSTILE"]
