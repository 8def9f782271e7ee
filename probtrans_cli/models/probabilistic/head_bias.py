"""Scores of heads in which no label has a say: distance, direction, frequency, order of words (not in the paper).

    F_ic(j)    += (ρ + ψ z(i) - χ z(j) + β D(i) - σ e(i+1)) [j > i] - α e(i+1) [|i - j| = 1]
                  - δ ln|i - j| - π p(i, j) - φ g(j) + γ g(i) g(j) + η [g(j) < g(i)] + ε e(j+1)
                  - (ω + ν Λ - μ ln|i - j|) R(j) + ζ N r(i) r(j) ([j = i + 1] - [j = i - 1])
    F_ic(root) -= κ g(i) + ω R(i)
    g(w)        = (ln n_w)^2, n_w the training count of the word,        D(w) = Λ (g(w) - ḡ)

    ρ right  ψ leaning  χ leaning_head  β branching  σ phrase_end_side  α phrase_end_next  δ distance  π punctuation
    φ frequency  γ frequency_pair  η rarer  ε phrase_end  ω reducible  ν reducible_side  μ reducible_far  κ root
    ζ alone

with weights of the channel ``c`` where it has its own; words count from 1 to n, and e(n+1) is the largest e of the
sentence. They say what is expected of dependency trees before a word is read: arcs are short (Klein & Manning's
harmonic start, 2004), they lean to one side, which is the language's and the word's, and function words, of which the
most frequent words are, have no dependents (so in Universal Dependencies) but of their kind (γ); a large η says this
without a scale. Nor have words that are easily left out. Few arcs cross a mark of punctuation: ``p`` is how many stand
between the two words, two at most. A head stands at the end of its phrase, in front of a frequent word or of
punctuation, and a word that stands there has its head to the left (σ) and not next to it (α): ``e(w)`` is g(w), and of
punctuation the largest g of all words.

The leaning ``z`` and the reducibility ``R`` of a word are read off the training corpus, see
:mod:`probtrans_cli.statistics.word_order`, and so is how far the language leans to the right: ``Λ`` is the mean of z
over the words of that corpus without punctuation, cut off at 0 and at 1, as ``ḡ`` is their mean of g. Where Λ is near
1, articles and prepositions wait for something to their right, and verbs for their objects, so the heads of rare words
are to the left (β). Of two rare words in a row, the head is the second one where N is positive, and the first one where
N is negative (ζ): the one that also stands alone, over the whole corpus. ``r`` is 1 for a rare or a
hidden word, and 0 for the most frequent ones and for punctuation. Unlike a start of the learned scores, all these stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from probtrans_cli.models.base import CUES
from probtrans_cli.models.probabilistic.crf import Factor
from probtrans_cli.models.probabilistic.inference import Sentences, State
from probtrans_cli.recipe.model.probabilistic import HeadBias


class HeadBiasFactor(Factor):
    """The bias as a factor of each head variable alone."""

    def __init__(self, section: HeadBias) -> None:
        super().__init__()
        self.section = section

    def score(self, Q: State, sentences: Sentences) -> Float[Tensor, " b"]:
        unary, mask, cues = sentences
        cues = unary.new_zeros(*mask.shape, CUES) if cues is None else cues.to(unary.dtype)
        words, root = head_bias(self.section, cues, mask)
        score = (Q.word_heads * words).sum((1, 2, 3))
        return score if Q.root is None else score + (Q.root_heads * root).sum((1, 2))


def commonness(counts: Sequence[int], *, unread: int) -> Float[Tensor, " v"]:
    """Return ``g`` of every entry of a vocabulary: ``unread`` special ones, then the words with these counts.

    The last special one stands for a hidden word, and is as common as a training word is on average. An unknown word
    counts as one.
    """
    of_words = [math.log(max(count, 1)) ** 2 for count in counts]
    mean = sum(count * g for count, g in zip(counts, of_words, strict=True)) / max(sum(counts), 1)
    return torch.tensor([0.0] * (unread - 1) + [mean] + of_words)


def head_bias(
    section: HeadBias, cues: Float[Tensor, "b n 9"], mask: Bool[Tensor, "b n"]
) -> tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]]:
    """Return what is added to the scores of words as heads, ``[b, channel, i, j]``, and to those of the root.

    One channel stands for all where they have the same numbers. ``cues``: g, z, R, Λ, D and e of every word, 1 for
    punctuation, N, and 1 for a rare word; ``mask``: where there is a word.
    """
    numbers = section.model_dump()
    channels = max((len(value) for value in numbers.values() if isinstance(value, list)), default=1)

    def of(name: str) -> Float[Tensor, "c 1 1"]:
        return cues.new_tensor(numbers[name]).reshape(-1, 1, 1).expand(channels, 1, 1)

    common, leaning, reducible, right, drawn, edge, mark, alone, rare = cues[:, None].unbind(-1)
    child, head = common[..., :, None], common[..., None, :]
    word = torch.arange(mask.shape[1], device=cues.device)
    x = word[None, :] - word[:, None]
    far = x.abs().clamp(min=1).to(cues.dtype).log()
    # What nobody asks for costs nothing.
    behind = edge
    if section.asks("phrase_end", "phrase_end_side", "phrase_end_next"):
        # e of the word behind each word; of the last one, the largest e of the sentence.
        there = mask[:, None]
        most = edge.masked_fill(~there, 0.0).amax(dim=2, keepdim=True)
        behind = torch.where(there.roll(-1, 2) & (word != mask.shape[1] - 1), edge.roll(-1, 2), most)
    to_right = of("right") + of("leaning") * leaning[..., None] + of("branching") * drawn[..., None]
    to_right = to_right - of("phrase_end_side") * behind[..., None]
    if section.asks("leaning_head"):
        to_right = to_right - of("leaning_head") * leaning[..., None, :]
    near = to_right * (x > 0) - of("distance") * far
    of_head = of("phrase_end") * behind[..., None, :] - of("frequency") * head
    of_head = of_head - (of("reducible") + of("reducible_side") * right[..., None, :]) * reducible[..., None, :]
    near = near + of_head
    if section.asks("rarer"):
        near = near + of("rarer") * (head < child)
    if section.asks("frequency_pair"):
        near = near + of("frequency_pair") * child * head
    if section.asks("reducible_far"):
        near = near + of("reducible_far") * far * reducible[..., None, :]
    if section.asks("phrase_end_next"):
        near = near - of("phrase_end_next") * behind[..., None] * (x.abs() == 1)
    if section.asks("punctuation"):
        # How many marks stand between two words, two at most.
        upto = mark.cumsum(dim=2)  # with the word's own
        forward = upto[..., None, :] - upto[..., :, None] - mark[..., None, :]
        backward = upto[..., :, None] - upto[..., None, :] - mark[..., :, None]
        between = torch.where(x > 0, forward, backward).clamp(min=0.0, max=2.0)
        near = near - of("punctuation") * between
    if section.asks("alone"):
        side = (x == 1).to(cues.dtype) - (x == -1).to(cues.dtype)
        near = near + of("alone") * side * (alone * rare)[..., :, None] * rare[..., None, :]
    return near, -of("root")[:, 0] * common - of("reducible")[:, 0] * reducible
