"""What a good set of tuples does not do, as penalties of a grid's probabilities (OpenIE6, Kolluru et al. 2020, 3.2).

With ``p_mn(k)`` the probability of label k for word n in row m, ``c_n`` = 1 for content words, ``v_n`` = 1 for head
verbs, and all sums over the words of a sentence, the extra ones left out:

    POSC   Σ_n c_n (1 - max_m max_k p_mn(k)), k any label        a content word that is in no row
    HVC    Σ_n v_n |1 - Σ_m p_mn(REL)|                           a head verb in no relation, or in several
    HVE    Σ_m max(0, Σ_n v_n p_mn(REL) - 1)                     a relation with several head verbs
    EC     max(0, Σ_n v_n - Σ_m max_n v_n p_mn(REL))             fewer relations with a head verb than head verbs
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probtrans_cli.openie.extractions import NONE, REL

CONTENT = "content"
"""A column of splits: 1 for content words, 3 for head verbs."""
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
    """For every word 1 if it is a content word, 3 if it is a head verb as well, else 0."""
    return [
        0 if tag not in CONTENT_POS else 3 if tag == "VERB" and word.lower() not in LIGHT_VERBS else 1
        for word, tag in zip(words, upos, strict=True)
    ]


def penalties(
    p: Float[Tensor, "b m n k"], content: Bool[Tensor, "b n"], verbs: Bool[Tensor, "b n"]
) -> dict[str, Float[Tensor, " b"]]:
    """Each penalty of every sentence, by its name in a recipe; 0 for padding, which is neither content nor verb."""
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
