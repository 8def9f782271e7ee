"""Iterative grid labelling (Kolluru et al. 2020, OpenIE6, arXiv 2010.03147): a grid of labels, filled row after row.

Every row labels all words of the sentence. The encoder reads the sentence once for each row, going on from the row
before (:meth:`Encoder.again`), and hears of the labels of that row:

    X_m   = again(X_{m-1}, b_m)                         states of the words' tokens; X_0 is what begins the reading
    a_m-1 = argmax_k L_{m-1}(k)                         the labels of the row before, greedy, without a gradient
    G_m   = X_m + E[a_m-1]                              `scores`: added before the row is scored; m > 1
    b_m   = E[a_m-1] at words with a label, else 0      `hidden`: to the reading, that is to all words; m > 1
    L_m   = W_l (W_m G_m)                               scores of the labels, each layer with its bias

symbol   code      shape       meaning
X        states    [b, w, d]   states of words: of the first token, or the mean of all of a word
E        table     [C, d]      vectors of labels; 0 is no label
W_m      merge     [m, d]      no activation stands between the two layers
W_l      label     [C, m]
L        scores    [b, r, w, C]

Penalties, by name, of what a good set of tuples does not do (OpenIE6, 3.2): with ``p_mn(k)`` the probability of label k
for word n in row m, ``c_n`` = 1 for content words, ``v_n`` = 1 for head verbs, and all sums over the words of a
sentence, the extra ones left out:

    POSC   Σ_n c_n (1 - max_m max_k p_mn(k)), k any label        a content word that is in no row
    HVC    Σ_n v_n |1 - Σ_m p_mn(REL)|                           a head verb in no relation, or in several
    HVE    Σ_m max(0, Σ_n v_n p_mn(REL) - 1)                     a relation with several head verbs
    EC     max(0, Σ_n v_n - Σ_m max_n v_n p_mn(REL))             fewer relations with a head verb than head verbs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli import console
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import CheckpointError, DataError, UsageError
from probtrans_cli.folders import find_folder
from probtrans_cli.models.arithmetic import Linear
from probtrans_cli.models.base import Inputs
from probtrans_cli.models.outputs import OutputLayer, View
from probtrans_cli.openie.extractions import NONE, REL
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import predictions

Feedback = Literal["scores", "hidden", "both", "none"]
WordStates = Literal["first", "mean"]
ENDS_WITHOUT = (1, 2)  # the labels that a row must have, or the sentence ends before it
CERTAIN = -1e4  # the score of every label but NONE in a row that comes after the end


class GridOutput(OutputLayer, nn.Module):
    """Scores of the labels of a grid, row after row; they are called ``rows``, ``[b, r, w, C]``.

    ``none_bias``: added to the score of no label outside of training; it is chosen on dev. ``facts``: what
    ``config.json`` tells of the grid beside it.
    """

    decided = "none_bias"
    none_bias: Tensor

    def __init__(
        self,
        width: int,
        labels: int,
        *,
        rows: int,
        steps: int,
        merge: int,
        feedback: Feedback = "scores",
        words: WordStates = "first",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self.rows, self.steps, self.feedback, self.of_words = rows, steps, feedback, words
        self.merge = Linear(width, merge)
        self.label = Linear(merge, labels)
        self.table = nn.Embedding(labels, width) if feedback != "none" else None
        if self.table is not None:
            nn.init.normal_(self.table.weight, std=width**-0.5)  # a vector of length 1
        self.register_buffer("none_bias", torch.zeros(()))
        self.facts = dict(facts or {})

    def described(self) -> dict[str, Any]:
        return {"grid": {**self.facts, "none_bias": round(float(self.none_bias), 6)}}

    def read(self, view: View) -> Mapping[str, Tensor]:
        assert view.again is not None, "the network begins a reading for it"
        words, fed_back, rows = view.wants.words, view.wants.fed_back, list[Tensor]()
        assert words is not None, "the task wants scores of words"
        labels: Tensor | None = None
        open_ = words.any(1)
        for row in range(self.rows):
            states = self._words(view.again(self._bias(view.inputs, labels)), view.inputs, words)
            if labels is not None and self.table is not None and self.feedback in ("scores", "both"):
                states = states + self.table(labels)
            scores = self.label(self.merge(states))
            if not self.training:
                scores = scores + functional.pad(self.none_bias[None], (NONE, scores.shape[-1] - NONE - 1))
            rows.append(scores)
            # The next row hears of these labels, or of those that are fed back in their place.
            labels = predicted = scores.detach().argmax(-1)
            if fed_back is not None:
                labels = torch.where(fed_back[:, row] < 0, predicted, fed_back[:, row])
            if view.wants.ends and row + 1 < self.rows:
                for label in ENDS_WITHOUT:
                    open_ = open_ & ((predicted == label) & words).any(1)
                if not bool(open_.any()):  # all sentences have ended: the rest of the rows are surely empty
                    nothing = torch.full_like(scores, CERTAIN)
                    nothing[..., NONE] = 0.0
                    rows += [nothing] * (self.rows - row - 1)
                    break
        return {"rows": torch.stack(rows, dim=1)}

    def _words(self, states: Tensor, inputs: Inputs, words: Bool[Tensor, "b w"]) -> Float[Tensor, "b w d"]:
        if inputs.first is None:
            return states
        first = inputs.first.clamp(max=states.shape[1] - 1)
        if self.of_words == "first":
            return states.gather(1, first[:, :, None].expand(-1, -1, states.shape[-1]))
        # The word of every token, and which tokens are of a word: not what stands in front of the first or behind the
        # last one, nor padding.
        b, n = inputs.ids.shape
        first = inputs.first.clamp(max=n)
        begin = first.new_zeros(b, n + 1).scatter_add(1, first, torch.ones_like(first))  # words, at every token
        word = begin[:, :n].cumsum(1) - 1
        # Where a special stands in front of a sentence, one stands behind it as well.
        end = inputs.mask.sum(1, keepdim=True) - (inputs.first[:, :1] > 0).long() if inputs.first.shape[1] else 0
        inside = (word >= 0) & (torch.arange(n, device=inputs.ids.device).expand(b, n) < end)
        word = word.clamp(min=0, max=max(words.shape[1] - 1, 0))
        sums = states.new_zeros(*words.shape, states.shape[-1])
        where = word[:, :, None].expand_as(states)
        sums = sums.scatter_add(1, where, states * inside[:, :, None])
        counts = states.new_zeros(words.shape).scatter_add(1, word, inside.to(states.dtype))
        return sums / counts.clamp(min=1)[:, :, None]

    def _bias(self, inputs: Inputs, labels: Tensor | None) -> Float[Tensor, "b n d"] | None:
        """Return what the labels of the row before add to the input, at the first token of each word."""
        if labels is None or self.table is None or self.feedback not in ("hidden", "both"):
            return None
        added: Tensor = self.table(labels) * (labels != NONE)[:, :, None]
        if inputs.first is None:
            return added
        bias = added.new_zeros(*inputs.ids.shape, added.shape[-1])
        behind = inputs.first >= inputs.ids.shape[1]  # padding, which says nothing
        where = inputs.first.clamp(max=inputs.ids.shape[1] - 1)[:, :, None].expand_as(added)
        return bias.scatter_add(1, where, added.masked_fill(behind[:, :, None], 0.0))


# --- penalties --------------------------------------------------------------------------------------------------------

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
        if tagger.recipe.task.facts.chosen_column != "upos":
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
