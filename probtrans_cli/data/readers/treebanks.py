"""Gold trees of CoNLL-U as a parser learns them: each sentence a tree with one root, or a part of one.

A word without a HEAD (`_`) is not annotated: nothing is learned of its arc. What is known of a sentence must be a part
of a tree, whose only word with HEAD 0 has the relation `root`.

of a sentence     what it holds
parents           HEAD less 1, so that -1 is the root; -2 of a word that is not annotated
tags              `upos`, `xpos`, `feats`; `deprel`, DEPREL; `udeprel`, the same without subtype (`nsubj:pass`: `nsubj`)
form              the gold annotation for scoring, a line a word: HEAD, DEPREL, UPOS, XPOS and FEATS with tabs between
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError

ROOT, MISSING = "root", "_"
UNKNOWN = -2  # of a parent
_UPOS, _XPOS, _FEATS, _HEAD, _DEPREL = 3, 4, 5, 6, 7


def read_treebank(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file with their trees.

    Raises:
        DataError: a line is malformed, a sentence has a cycle or several roots, a word has one of HEAD and DEPREL
            without the other, or no word of the file has a HEAD; the message starts with ``name:line:``.
    """
    annotated, first = False, None
    for sentence in read_conllu(lines, name):
        assert sentence.lines is not None, "read from lines"
        assert sentence.rows is not None, "read from lines"
        first = first or sentence.where
        rows = [sentence.lines[row].split("\t") for row in sentence.rows]
        parents = [UNKNOWN if row[_HEAD] == MISSING else int(row[_HEAD]) - 1 for row in rows]
        relations = [row[_DEPREL] for row in rows]
        if fault := fault_of(parents, relations):
            word, reason, hint = fault
            beginning = int(sentence.where.rpartition(":")[2])
            raise DataError(f"{name}:{beginning + sentence.rows[word]}: {reason}", hint=hint)
        annotated = annotated or any(parent != UNKNOWN for parent in parents)
        tags = {**sentence.tags, "deprel": relations, "udeprel": [relation.partition(":")[0] for relation in relations]}
        kept = (_HEAD, _DEPREL, _UPOS, _XPOS, _FEATS)
        form = "\n".join("\t".join(row[column] for column in kept) for row in rows)
        yield replace(sentence, tags=tags, parents=parents, form=form)
    if first is not None and not annotated:
        raise DataError(f"{first}: no word of the file has a HEAD", hint="give a treebank with HEAD and DEPREL")


def fault_of(parents: Sequence[int], relations: Sequence[str]) -> tuple[int, str, str] | None:
    """Return a word at which arcs are no part of a tree, the reason and the remedy; None: there is none.

    Args:
        parents: of every word from 0, -1 = the root, :data:`UNKNOWN` = not annotated.
        relations: of every word, `_` = not annotated.
    """
    root = None
    for word, (parent, relation) in enumerate(zip(parents, relations, strict=True)):
        if (parent == UNKNOWN) != (relation == MISSING):
            return word, "HEAD without DEPREL, or DEPREL without HEAD", "give both, or `_` for both"
        if parent != UNKNOWN and (parent < 0) != (relation.partition(":")[0] == ROOT):
            hint = "the word with HEAD 0, and no other one, has the relation root"
            return word, f"HEAD {parent + 1} with the relation {relation}", hint
        if parent == -1 and root is not None:
            return word, f"a second root: word {root + 1} has HEAD 0, too", "a tree has one word with HEAD 0"
        root = word if parent == -1 else root
    if root is None and UNKNOWN not in parents and parents:
        return 0, "a sentence without a root", "one word has HEAD 0"
    done = [parent < 0 for parent in parents]
    for start in range(len(parents)):
        path = []
        word = start
        while not done[word]:
            done[word] = True
            path.append(word)
            word = parents[word]
        if word in path:
            circle = " -> ".join(str(step + 1) for step in [*path[path.index(word) :], word])
            return word, f"a circle of heads: {circle}", "every word leads to the root"
    return None
