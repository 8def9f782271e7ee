"""Words that a causal language model predicts: their probabilities, and texts that go on from a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence, divided
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.models.base import Features, Memory, Wants
from probtrans_cli.statistics.sampling import Sampling
from probtrans_cli.trained.base import ModelBase, beyond_positions


def require_causal(model: ModelBase) -> None:
    """Refuse a model that does not predict words one by one."""
    if not model.recipe.task.is_causal:
        kind = model.recipe.task.kind
        raise UsageError(f"a model of kind {kind} predicts no next words", hint="train one with task.kind lm")


def require_next_words(model: ModelBase, sampling: Sampling | None = None) -> None:
    """Refuse a model that does not predict words one by one, or whose vocabulary has pieces of words."""
    require_causal(model)
    if model.vocabulary.divides:
        kind = model.recipe.data.vocabulary.kind
        raise UsageError(
            f"next words need a vocabulary of words, and data.vocabulary.kind is {kind}",
            hint="train with data.vocabulary.kind=words",
        )
    stop, vocabulary = None if sampling is None else sampling.stop, model.vocabulary
    if stop is not None and not (vocabulary.knows(stop) or stop == vocabulary.decode(vocabulary.UNKNOWN)):
        message = f"stop {stop!r}: the model never predicts it, as its vocabulary has no such word"
        raise UsageError(message, hint="name a word of the training corpus, as it is spelled there")


@torch.no_grad()
def next_words(model: ModelBase, prefixes: Sequence[Sequence[str]]) -> Float[np.ndarray, "b v"]:
    """Return the logarithm of the probability of every entry of the vocabulary behind each prefix."""
    require_next_words(model)
    # The word that is hidden may be any: nothing reads it.
    sentences = [Sentence([*prefix, "?"]) for prefix in prefixes]
    split = Split.encode(sentences, model.vocabulary, {})
    _require_positions(model, int(split.lengths.max()))
    batch = model.collate(split, np.arange(len(split)))
    last = torch.zeros_like(batch.mask)
    last[torch.arange(len(last)), batch.mask.sum(1) - 1] = True
    with model.machine.autocast():
        scores = model.network(batch, Wants(tokens=last, readout=model.task.answers.readout)).scores["words"]
    log_p: np.ndarray = scores.double().log_softmax(-1).cpu().numpy()
    return log_p


def continuations(
    model: ModelBase, prompts: Sequence[Sequence[str]], sampling: Sampling, first: int = 0
) -> Iterator[list[str | None]]:
    """Yield the next word of every prompt, one after the other; None for one that has ended.

    Every prompt has random numbers of its own, by its number, so that a continuation does not depend on others;
    ``first``: the number of the first prompt.
    """
    require_next_words(model, sampling)
    model.network.eval()
    random = [np.random.default_rng([sampling.seed, first + number]) for number in range(len(prompts))]
    # Texts of one length go on together, without padding.
    lengths = [len(prompt) for prompt in prompts]
    groups = [_Group([n for n, other in enumerate(lengths) if other == length]) for length in sorted({*lengths})]
    for group in groups:
        for place in range(lengths[group.texts[0]]):
            group.read(model, [prompts[text][place] for text in group.texts])
    step: list[str | None] = []
    for _ in range(sampling.words):
        if not groups:
            return
        before, step = step, [None] * len(prompts)
        for group in groups:
            if before:
                group.read(model, [str(before[text]) for text in group.texts])
            with torch.no_grad(), model.machine.autocast():
                scores = model.network.next_scores(len(group.texts), group.memory, model.task.answers.readout)
            log_p: Float[np.ndarray, "b v"] = scores.double().log_softmax(-1).cpu().numpy()
            for text, of_text in zip(group.texts, log_p, strict=True):
                step[text] = model.vocabulary.decode(sampling.choose(of_text, random[text]))
            going = [row for row, text in enumerate(group.texts) if step[text] != sampling.stop]
            if len(going) < len(group.texts):
                group.texts = [group.texts[row] for row in going]
                group.memory = [part[going] for part in group.memory]
        groups = [group for group in groups if group.texts]
        yield step


@dataclass
class _Group:
    """Texts of one length, by their numbers, and what the model keeps of their words."""

    texts: list[int]
    length: int = 0
    memory: Memory = ()

    @torch.no_grad()
    def read(self, model: ModelBase, words: Sequence[str]) -> None:
        """Read one more word of each."""
        _require_positions(model, self.length + 2)  # the word behind needs a position, too
        vocabulary, device, features = model.vocabulary, model.machine.device, None
        ids = torch.tensor([vocabulary.encode_words([word]).ids for word in words], device=device)
        if vocabulary.features is not None:
            rows = [vocabulary.features.rows(word) for word in words]
            ends = np.cumsum([0, *map(len, rows[:-1])])
            features = Features(torch.tensor(sum(rows, ()), device=device), torch.tensor(ends, device=device))
        with model.machine.autocast():
            self.memory = model.network.read_on(ids, self.memory, features)
        self.length += 1


def _require_positions(model: ModelBase, words: int) -> None:
    limit = model.network.longest
    if limit is not None and words > limit:
        raise DataError(beyond_positions(words, limit), hint="generate fewer words, or give a shorter prompt")


def words_of(prompt: str | Sequence[str]) -> list[str]:
    """Divide a text into words, as `parse --input text` does; a list of words stays as it is."""
    return divided(prompt).words if isinstance(prompt, str) else list(prompt)
