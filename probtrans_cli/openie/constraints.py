"""Penalties of what a good set of tuples does not do (OpenIE6, Kolluru et al. 2020, 3.2), and the words they are about.

With ``p_mn(k)`` the probability of label k for word n in row m, ``c_n`` = 1 for content words, ``v_n`` = 1 for head
verbs, and all sums over the words of a sentence, the extra ones left out:

    POSC   Σ_n c_n (1 - max_m max_k p_mn(k)), k any label        a content word that is in no row
    HVC    Σ_n v_n |1 - Σ_m p_mn(REL)|                           a head verb in no relation, or in several
    HVE    Σ_m max(0, Σ_n v_n p_mn(REL) - 1)                     a relation with several head verbs
    EC     max(0, Σ_n v_n - Σ_m max_n v_n p_mn(REL))             fewer relations with a head verb than head verbs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probtrans_cli import console
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import CheckpointError, DataError, UsageError
from probtrans_cli.folders import find_folder
from probtrans_cli.openie.extractions import NONE, REL
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictions import predictions

CONTENT = "content"  # a column of splits: 1 for content words, 3 for head verbs
CONTENT_POS = frozenset(("NOUN", "PROPN", "VERB", "ADJ", "ADV"))
LIGHT_VERBS = frozenset(
    ("am", "are", "be", "became", "becomes", "been", "began", "begin", "begins", "being", "consider",
     "continue", "continued", "did", "do", "does", "following", "get", "gets", "give", "go", "got", "had",
     "has", "have", "having", "help", "helped", "include", "included", "includes", "is", "keep", "keeps",
     "left", "lets", "make", "means", "said", "say", "see", "start", "started", "starts", "stop", "suggest",
     "take", "think", "try", "used", "was", "were")
)  # fmt: skip
"""Verbs, in lower case, that are no head verbs: the list of OpenIE6."""


def kinds_of(words: Sequence[str], upos: Sequence[str]) -> list[int]:
    """Return for every word 1 if it is a content word, 3 if it is a head verb as well, else 0."""
    return [
        0 if tag not in CONTENT_POS else 3 if tag == "VERB" and word.lower() not in LIGHT_VERBS else 1
        for word, tag in zip(words, upos, strict=True)
    ]


def penalties(
    p: Float[Tensor, "b m n k"], content: Bool[Tensor, "b n"], verbs: Bool[Tensor, "b n"]
) -> dict[str, Float[Tensor, " b"]]:
    """Return each penalty of every sentence, by its name in a recipe; padding is neither content nor verb."""
    labelled = torch.cat([p[..., :NONE], p[..., NONE + 1 :]], dim=-1).amax((1, 3))
    relation = p[..., REL] * verbs[:, None]
    number = verbs.sum(1)
    best = relation.amax(2) if relation.shape[2] else relation.sum(2)
    return {
        "posc": ((1 - labelled) * content).sum(1),
        "hvc": ((1 - relation.sum(1)).abs() * verbs).sum(1),
        "hve": (relation.sum(2) - 1).clamp(min=0).sum(1),
        "ec": (number - best.sum(1)).clamp(min=0),
    }


def with_content_words(model: Model, splits: Mapping[str, Split], *, required: bool) -> dict[str, Split]:
    """Add the column :data:`CONTENT` to splits, by the parts of speech of the corpus or of a trained tagger.

    ``required``: for a training. A tagger that cannot be read is an error then; else that is told on stderr.

    Raises:
        DataError: constraints are to be learned, and nothing says parts of speech.
    """
    task: Any = model.task
    section = task.section
    tagger: Model | None = None
    if section.tagger is not None:
        try:
            tagger = type(model).load(str(find_folder(section.tagger)), threads=model.recipe.runtime.threads)
        except CheckpointError as error:
            if required:
                raise
            console.log(f"warning: task.tagger: {error}: the constraints are not scored")
            return dict(splits)
        if tagger.recipe.task.chosen_column != "upos":
            message = f"task.tagger: {section.tagger} predicts no upos"
            raise UsageError(message, hint="name a run of task.kind=tagging, column=upos")
    names = model.labels.get("upos", ())
    completed = {}
    for name, split in splits.items():
        completed[name] = split
        words = [task.words_of(split, index) for index in range(len(split))]
        if tagger is not None:
            answers = predictions(tagger, [Sentence(of_sentence) for of_sentence in words])
            upos = [[] if answer is None else answer["tags"] for answer in answers]
        elif split.has("upos"):
            upos = [[names[id] if id >= 0 else "" for id in split.row("upos", i).tolist()] for i in range(len(split))]
        elif required and section.constraints.used:
            message = f"data.{name}: has no parts of speech, which task.constraints are about"
            raise DataError(message, hint="name a tagger of upos: task.tagger=RUN; or give JSON lines with upos")
        else:
            continue
        kinds = [
            [*(kinds_of(of_sentence, tags[: len(of_sentence)]) if tags else []), *[0] * len(task.extra_words)]
            for of_sentence, tags in zip(words, upos, strict=True)
        ]
        completed[name] = split.with_column(CONTENT, kinds)
    return completed
