"""CoNLL-U: the sentence's own lines with our HEAD and DEPREL, and with what the task says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from probtrans_cli.data.readers.conllu import annotated
from probtrans_cli.trained.formats import Content, DisplayOptions
from probtrans_cli.trained.latent_labels import as_misc
from probtrans_cli.trained.parses import Analysis


def write(content: Content, options: DisplayOptions) -> Iterator[str]:
    """A block for each sentence, as soon as it is there."""
    return (as_conllu(analysis, options) for analysis in content.analyses)


def as_conllu(analysis: Analysis, options: DisplayOptions) -> str:
    """The sentence with what the model says; in MISC stand the probabilities of arcs as `Prob=` (over
    draws of the weights their standard deviations as `ProbSD=`) and latent labels as
    `Labels=`. Without a tree, the sentence keeps its own."""
    if analysis.sentence.unread:
        analysis = _words_alone(analysis)
    places, misc = analysis.places(probability=options.probability), {}
    if options.probability and analysis.probabilities is not None:
        misc["Prob"] = ["" if np.isnan(p) else f"{p:.4f}" for p in analysis.probabilities]
        if analysis.deviations is not None:
            misc["ProbSD"] = ["" if np.isnan(p) else f"{p:.4f}" for p in analysis.deviations]
    if analysis.latent_labels is not None:
        misc["Labels"] = [as_misc(*best) for best in zip(*analysis.latent_labels, strict=True)]
    heads = None if analysis.heads is None else analysis.heads.tolist()
    lines = annotated(
        analysis.sentence, heads, columns=places.columns, misc={**misc, **places.misc}, comments=places.comments
    )
    return ("\r\n" if analysis.sentence.windows else "\n").join([*lines, "", ""])


def _words_alone(analysis: Analysis) -> Analysis:
    """A sentence that is not read without any annotation, which could be taken for what the model says; its name
    stays."""
    sentence = analysis.sentence
    named = [] if sentence.id is None else [f"# sent_id = {sentence.id}"]
    alone = replace(sentence, lines=None, rows=None)
    lines = annotated(alone)
    rows = range(len(named) + len(lines) - len(sentence.words), len(named) + len(lines))
    return Analysis(replace(alone, lines=[*named, *lines], rows=list(rows)))
