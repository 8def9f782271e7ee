"""CoNLL-U: the sentence's own lines with our HEAD and DEPREL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from probtrans_cli.data.readers.conllu import with_heads
from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.latent_labels import as_misc
from probtrans_cli.trained.parses import Tree


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A block for each sentence, as soon as its tree is there."""
    return (as_conllu(tree, options) for tree in content.trees)


def as_conllu(tree: Tree, options: DisplayOptions) -> str:
    """The sentence with its tree; in MISC stand probabilities as `Prob=` and latent labels as `Labels=`."""
    misc: list[list[str]] = [[] for _ in tree.heads]
    if options.probability:
        for entries, p in zip(misc, tree.probabilities, strict=True):
            entries.extend([] if np.isnan(p) else [f"Prob={p:.4f}"])
    if tree.latent_labels is not None:
        for entries, *best in zip(misc, *tree.latent_labels, strict=True):
            entries.append(as_misc(*best))
    lines = with_heads(tree.sentence, tree.heads.tolist(), None, ["|".join(entries) for entries in misc])
    return "\n".join([*lines, "", ""])
