"""Shared by tests of networks and tasks: what is asked of a network most, in one call, and a task's loss of a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
import torch
from support import sentences
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.data.vocabularies import build_vocabulary
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.models.base import Encoder, Features, Inputs, Outputs, Wants, chosen_iterations
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput, Sentence, SentenceOutput
from probtrans_cli.recipe.data import WordVocabulary
from probtrans_cli.tasks.base import Evaluation, Task, Term
from probtrans_cli.tasks.batch import Batch, collate

CPU = torch.device("cpu")


def linear(outputs: int, sentence: Sentence | None = None) -> Callable[[Encoder], LinearOutput | SentenceOutput]:
    """Makes a linear output layer of words, or of sentences by what represents them."""

    def make(encoder: Encoder) -> LinearOutput | SentenceOutput:
        if sentence is None:
            return LinearOutput(encoder.facts.width, outputs)
        width = (encoder.facts.root_width if sentence == "root" else None) or encoder.facts.width
        return SentenceOutput(width, outputs, sentence)

    return make


def randomized(network: Network) -> Network:
    """The network in float64 and eval mode; every parameter is N(0, 1/4)."""
    for parameter in network.double().parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return network.eval()


def random_inputs(network: Network, lengths: tuple[int, ...] = (6, 1, 4), seed: int = 1) -> Inputs:
    """Random words; ids on padding are those of words, too."""
    generator = torch.Generator().manual_seed(seed)
    size = (len(lengths), max(lengths))
    ids = torch.randint(3, network.unary.num_embeddings, size, generator=generator)
    segments = torch.randint(0, 2, size, generator=generator) if network.encoder.facts.segment_types else None
    return Inputs(ids=ids, mask=torch.arange(size[1]) < torch.tensor(lengths)[:, None], segments=segments)


def evaluation(words: int = 200) -> Evaluation:
    """Evaluations on the CPU in batches of about so many words."""
    return Evaluation(
        batches=lambda split: plan(split.lengths, words, 0, 0, shuffle=False),
        device=CPU,
        autocast=lambda: torch.autocast("cpu", enabled=False),
    )


# --- a network --------------------------------------------------------------------------------------------------------


def random_network(seed: int, size: int, model: Any, output: Callable[[Encoder], Any], std: float) -> Network:
    """A network in eval mode for a vocabulary of some size; each of its parameters is drawn from N(0, std²)."""
    torch.manual_seed(seed)
    network = Network(size, models.build(model), output).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=std)
    return network


def encode(
    network: Network,
    ids: Tensor,
    mask: Tensor,
    features: Features | None = None,
    *,
    arcs: bool | Collection[int] = False,
    segments: Tensor | None = None,
) -> Outputs:
    """The states of all tokens, the sentence's, and the arcs after all iterations or after those named."""
    section: Any = network.encoder.section
    numbers = chosen_iterations(arcs, section.iterations)
    inputs = Inputs(ids=ids, mask=mask, features=features, segments=segments)
    outputs: Outputs = network(inputs, Wants(states=True, arcs=numbers))
    return outputs


def word_scores(network: Network, ids: Tensor, mask: Tensor, at: Tensor, features: Features | None = None) -> Tensor:
    """Output scores of the tokens ``at``, in row-major order."""
    outputs: Outputs = network(Inputs(ids=ids, mask=mask, features=features), Wants(tokens=at))
    return outputs.scores["words"]


def sentence_scores(network: Network, ids: Tensor, mask: Tensor) -> Tensor:
    outputs: Outputs = network(Inputs(ids=ids, mask=mask), Wants(sentence=True))
    return outputs.scores["sentence"]


# --- a corpus ---------------------------------------------------------------------------------------------------------


class Treebank:
    """Train and dev of the toy treebank; rare words are unknown, and dev has a tag that train does not have."""

    def __init__(self) -> None:
        train = list(read_conllu(iter(sentences("train", 60).splitlines()), "train"))
        dev = list(read_conllu(iter(sentences("dev", 20).splitlines()), "dev"))
        dev[0].tags["upos"][1] = "X"
        vocabulary = build_vocabulary(WordVocabulary(min_count=3), (sentence.words for sentence in train))
        assert isinstance(vocabulary, Words)
        self.sentences, self.vocabulary = train, vocabulary
        self.labels = {"upos": sorted({tag for sentence in train for tag in sentence.tags["upos"]})}
        self.train, self.dev = (Split.encode(split, vocabulary, self.labels) for split in (train, dev))


# --- a task -----------------------------------------------------------------------------------------------------------


class Loss(NamedTuple):
    """A summed loss and the number of things it was summed over; their ratio is the mean."""

    total: Tensor
    number: Tensor


def batch_of(task: Task, split: Split, indices: Any) -> Batch:
    return collate(split, np.asarray(indices), task.columns, padding=task.vocabulary.PAD, device=CPU)


def terms_of(task: Task, network: Any, split: Split, indices: Any) -> dict[str, Term]:
    batch = task.training(batch_of(task, split, indices))
    return dict(task.terms(network(batch, task.wants(batch)), batch))


def loss_of(task: Task, network: Any, split: Split, indices: Any) -> Loss:
    """The loss of an update by one batch, times the count of its first term; and that count."""
    first, *others = terms_of(task, network, split, indices).values()
    total = first.weight * first.sum
    for term in others:
        total = total + term.weight * (term.sum / term.count.clamp(min=1) * first.count.clamp(min=1))
    return Loss(total, first.count)
