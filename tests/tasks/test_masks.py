"""The masks of a recipe: what is hidden, what is shown, what is scored, and by which draws."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import Treebank, batch_of, evaluation, loss_of, word_scores
from torch.nn import functional

from probtrans_cli import models
from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.vocabularies.base import MASK, PAD, UNKNOWN
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.task import MaskedLanguageModel
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.tasks.masking import EVALUATION_SEED, Masks
from probtrans_cli.tasks.mlm import MaskedLanguageModelling
from probtrans_cli.trained.evaluation import evaluate

BERT = {"mask": 0.8, "random": 0.1, "keep": 0.1}
ENCODERS = {
    "probabilistic": {"labels": 6, "channels": 2, "iterations": 2, "dropout": 0.0},
    "transformer": {"kind": "transformer", "width": 8, "inner": 8, "heads": 2, "layers": 1, "dropout": 0.0},
}


class Corpus(Treebank):
    """What is hidden of train, of which every batch of these tests is."""

    def __init__(self) -> None:
        super().__init__()
        self.all = np.arange(len(self.train))
        self.ids = torch.from_numpy(self.train.padded("ids", self.all, PAD))

    def task(self, **options: Any) -> MaskedLanguageModelling:
        return MaskedLanguageModelling(MaskedLanguageModel(kind="mlm", **options), self.vocabulary, {})

    def network(self, task: MaskedLanguageModelling, kind: str = "probabilistic") -> Network:
        torch.manual_seed(3)
        return Network(self.vocabulary.size, models.build(ENCODERS[kind]), task.output).eval()

    def batch(self, indices: Any = None) -> Batch:
        return batch_of(self.task(), self.train, self.all if indices is None else indices)

    def masked(self, masks: Masks, draw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = masks.hidden(self.batch(), draw)
        return hidden, masks.shown(self.ids, hidden, draw)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus()


def test_the_reference_s_masks_are_those_of_python_s_generator(corpus: Corpus) -> None:
    """One number a token in the order of the corpus, for unknown words, too; a word is hidden below 0.3."""
    masks = corpus.task(mlm={"eval_seed": 313}).masks
    for draw in (0, 1):
        generator = random.Random(313 + draw)
        hidden, shown = corpus.masked(masks, masks.uniform(corpus.batch(), draw))
        for index in range(len(corpus.train)):
            words = corpus.train.row("ids", index).tolist()
            expected = [generator.random() < 0.3 and word != UNKNOWN for word in words]
            assert hidden[index, : len(words)].tolist() == expected
            of_shown = [MASK if hide else word for hide, word in zip(expected, words, strict=True)]
            assert shown[index, : len(words)].tolist() == of_shown
        assert hidden.any()


def test_the_paper_s_masking_is_the_default(corpus: Corpus) -> None:
    section = corpus.task().section.mlm
    assert (section.rate, section.count, section.mask, section.never) == (0.3, "bernoulli", 1.0, ["<unk>"])


def test_words_are_hidden_at_the_rate_and_shown_as_bert_shows_them(corpus: Corpus) -> None:
    masks = corpus.task(mlm={"rate": 0.5} | BERT).masks
    torch.manual_seed(4)
    counts = np.zeros(3)
    for _ in range(30):
        hidden, shown = corpus.masked(masks, masks.uniform(corpus.batch()))
        assert torch.equal(shown[~hidden], corpus.ids[~hidden])
        assert not torch.isin(shown[hidden], torch.tensor([PAD, UNKNOWN])).any()
        masked, kept = shown[hidden] == MASK, shown[hidden] == corpus.ids[hidden]
        counts += [int(masked.sum()), int((~masked & ~kept).sum()), int(kept.sum())]
    others = 0.1 / (corpus.vocabulary.size - 3)  # a word drawn at random may be the one that is hidden
    expected = np.array([0.8, 0.1 - others, 0.1 + others])
    deviation = np.sqrt(expected * (1 - expected) / counts.sum())
    assert (np.abs(counts / counts.sum() - expected) < 4.5 * deviation).all()
    candidates = 30 * int((corpus.ids > UNKNOWN).sum())
    assert counts.sum() / candidates == pytest.approx(0.5, abs=4.5 * 0.5 / math.sqrt(candidates))


def test_an_exact_count_is_one_of_the_sentence(corpus: Corpus) -> None:
    masks = corpus.task(mlm={"count": "exact", "max_per_seq": 3}).masks
    hidden, _ = corpus.masked(masks, masks.uniform(corpus.batch()))
    free = (corpus.ids > UNKNOWN).sum(1)
    wanted = torch.tensor([min(max(round(0.3 * int(length)), 1), 3) for length in corpus.train.lengths])
    assert torch.equal(hidden.sum(1), torch.minimum(wanted, free))


def test_masks_are_fresh_or_kept(corpus: Corpus) -> None:
    few = corpus.all[3:9]
    for dynamic in (True, False):
        masks = corpus.task(mlm={"dynamic": dynamic}).masks
        draws = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            draws += [masks.uniform(corpus.batch(few)) for _ in range(2)]
        first, second, again, _, other, _ = draws
        assert torch.equal(first, again)
        assert torch.equal(first, second) is torch.equal(first, other) is not dynamic
        inside = torch.arange(first.shape[2]) < torch.from_numpy(corpus.train.lengths[few])[:, None]
        if not dynamic:
            alone = masks.uniform(corpus.batch(few[2:3]))[:, 0]
            assert torch.equal(first[:, 2, : alone.shape[1]], alone)
            assert (first[:, ~inside] == 1.0).all()
        assert ((first[:, inside] >= 0.0) & (first[:, inside] < 1.0)).all()


def test_evaluation_masks_are_those_of_their_corpus(corpus: Corpus) -> None:
    """Also where another corpus was evaluated by the same draw before."""
    task, fresh = corpus.task(), corpus.task()
    task.masks.uniform(batch_of(task, corpus.dev, [0]), 0)
    last = corpus.batch(corpus.all[-3:])
    assert torch.equal(task.masks.uniform(last, 0), fresh.masks.uniform(last, 0))


def test_a_loss_at_all_positions_and_scores_at_hidden_ones(corpus: Corpus) -> None:
    everywhere, hidden_only = (
        corpus.task(mlm={"loss_positions": positions, "dynamic": False} | BERT) for positions in ("all", "masked")
    )
    network, few = corpus.network(everywhere), corpus.all[:5]
    loss = loss_of(everywhere, network, corpus.train, few)
    ids = torch.from_numpy(corpus.train.padded("ids", few, PAD))
    draw = everywhere.masks.uniform(corpus.batch(few))
    shown = everywhere.masks.shown(ids, everywhere.masks.hidden(corpus.batch(few), draw), draw)
    scores = word_scores(network, shown, ids != PAD, ids != PAD)
    assert int(loss.number) == int((ids != PAD).sum())
    expected = functional.cross_entropy(scores, ids[ids != PAD], reduction="sum")
    assert float(loss.total.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert int(loss_of(hidden_only, network, corpus.train, few).number) < int(loss.number)
    how = evaluation()
    first, second = (evaluate(task, network, corpus.train, how, final=False) for task in (everywhere, hidden_only))
    assert first == second


def test_words_that_are_never_hidden(corpus: Corpus) -> None:
    name = corpus.vocabulary.decode(5)
    everything = {"rate": 0.999999}
    for never, kept in ((["<unk>"], [UNKNOWN]), ([], []), (["<unk>", name], [UNKNOWN, 5]), ([name], [5])):
        masks = corpus.task(mlm=everything | {"never": never}).masks
        torch.manual_seed(0)
        hidden, _ = corpus.masked(masks, masks.uniform(corpus.batch()))
        for id in (UNKNOWN, 5):
            assert bool(hidden[corpus.ids == id].any()) is (id not in kept)
        assert not hidden[corpus.ids == PAD].any()
    with pytest.raises(RecipeError, match="'colourless' is no entry of the vocabulary"):
        corpus.task(mlm={"never": ["colourless"]})


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("output", ["linear", "tied"])
def test_padding_and_mask_have_no_probability(corpus: Corpus, kind: str, output: str) -> None:
    task = corpus.task(output=output)
    network = corpus.network(task, kind)
    task.start(network, corpus.train)
    ids = corpus.ids[:4]
    scores = word_scores(network, ids, ids != PAD, ids != PAD)
    assert (scores[:, [PAD, MASK]] == -torch.inf).all()
    others = scores[:, [id for id in range(scores.shape[1]) if id not in (PAD, MASK)]]
    assert others.isfinite().all()
    functional.cross_entropy(scores, ids[ids != PAD]).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    bias = network.words.bias.grad
    assert isinstance(bias, torch.Tensor)
    assert (bias[[PAD, MASK]] == 0.0).all()
    assert not any("impossible" in name for name in network.state_dict())


def test_bert_s_output_scores_the_whole_vocabulary(corpus: Corpus) -> None:
    encoder = models.build(ENCODERS["transformer"])
    output = corpus.task(output="bert").output(encoder)
    assert output(torch.randn(3, 8), torch.randn(corpus.vocabulary.size, 8)).isfinite().all()


# --- losses and scores ------------------------------------------------------------------------------------------------


def test_a_batch_without_a_hidden_word_has_a_loss_of_0(corpus: Corpus) -> None:
    task = corpus.task(mlm={"rate": 1e-9})
    network = corpus.network(task)
    loss = loss_of(task, network, corpus.train, np.arange(3))
    assert (float(loss.total.detach()), int(loss.number)) == (0.0, 0)
    loss.total.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in network.parameters())


def test_perplexity_is_that_of_a_plain_loop(corpus: Corpus) -> None:
    task = corpus.task(eval_masks=4)
    network = corpus.network(task)
    losses, sums = [], []
    for draw in range(4):
        uniform = np.random.default_rng(EVALUATION_SEED + draw).random(int(corpus.dev.lengths.sum()), dtype=np.float32)
        total, count, start = 0.0, 0, 0
        for index in range(len(corpus.dev)):
            ids = corpus.dev.row("ids", index).astype(np.int64)
            hide = [bool(uniform[start + i] < 0.3 and ids[i] != UNKNOWN) for i in range(len(ids))]
            start += len(ids)
            shown = torch.tensor([[MASK if hide[i] else int(ids[i]) for i in range(len(ids))]])
            every = torch.ones_like(shown, dtype=torch.bool)
            with torch.no_grad():
                scores = word_scores(network, shown, shown != PAD, every).log_softmax(-1)
            for i in range(len(ids)):
                if hide[i]:
                    total -= float(scores[i, ids[i]])
                    count += 1
        losses.append(total / count)
        sums.append((total, count))
    scores = evaluate(task, network, corpus.dev, evaluation(), final=True)
    pooled = sum(total for total, _ in sums) / sum(count for _, count in sums)
    assert scores["loss"] == pytest.approx(pooled, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(pooled), rel=1e-5)
    spread = np.std(np.exp(losses), ddof=1) / math.sqrt(4)
    assert scores["perplexity_se"] == pytest.approx(spread, rel=1e-3)
    assert scores["masks"] == 4
    quick = evaluate(task, network, corpus.dev, evaluation(), final=False)
    assert quick.keys() == {"perplexity", "loss"}
    assert quick["loss"] == pytest.approx(losses[0], rel=1e-5)


def test_a_corpus_in_which_nothing_can_be_hidden_is_refused(corpus: Corpus) -> None:
    """Not a perplexity of 1."""
    unknown = Split.encode([Sentence(["zzz", "qqq"]), Sentence(["xxx"])], corpus.vocabulary, corpus.labels)
    task = corpus.task()
    with pytest.raises(DataError, match="no word to hide"):
        evaluate(task, corpus.network(task), unknown, evaluation(), final=True)
