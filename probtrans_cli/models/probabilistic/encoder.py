"""The probabilistic transformer as an encoder: unary scores in, contextual label scores and head marginals out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.errors import UsageError
from probtrans_cli.models.arithmetic import may_depend_on
from probtrans_cli.models.base import (
    CUES,
    Encoded,
    Encoder,
    Iterations,
    Memory,
    Reading,
    Readout,
    Words,
    chosen_iterations,
)
from probtrans_cli.models.probabilistic import causal, crf
from probtrans_cli.models.probabilistic.crf import Factor, MeanField
from probtrans_cli.models.probabilistic.factors import FACTOR_KINDS, ArcsFactor, RelationsFactor
from probtrans_cli.models.probabilistic.fast import meanfield as fast
from probtrans_cli.models.probabilistic.fast.causal import FastSlots, NextSlot
from probtrans_cli.models.probabilistic.head_bias import HeadBiasFactor, head_bias
from probtrans_cli.models.probabilistic.inference import Inference, Sentences, State, Update, latent_of
from probtrans_cli.models.probabilistic.potentials import DrawnPotentials, Potentials, Rotary
from probtrans_cli.models.width import Scale, scales_of_field
from probtrans_cli.recipe.model import ProbabilisticTransformer
from probtrans_cli.recipe.training import Forms, Optim

FORMS_DIFFER = 1e-6  # of float64: rounding is far below, another equation far above


class ProbabilisticEncoder(Encoder):
    """Mean-field inference with learned potentials (Wu & Tu 2023); ``section`` holds its options.

    ``messages``: how messages are computed, see ``runtime.messages`` of a recipe; it changes no value but rounding.
    Fast forms have first derivatives only: gradients are partly written by hand, and second ones, forward derivatives
    and transforms of ``torch.func`` raise an error. Plain ones have all.
    """

    def __init__(self, section: ProbabilisticTransformer, messages: Forms = "fast") -> None:
        super().__init__(section)
        self.messages = messages
        self.latent = latent_of(section.latent, section.label_variables)
        self.latent_mean, self.word_std = self.latent.mean, section.word_std
        first = DrawnPotentials(section)
        self.ternary, self.root, self.globals, self.chain = first.ternary, first.root, first.globals, first.chain
        more = 0 if section.share_potentials else section.iterations - 1
        self.later = nn.ModuleList([DrawnPotentials(section) for _ in range(more)])
        self.readout = nn.ModuleList([DrawnPotentials(section) for _ in range(section.readout_potentials)])
        self.further = nn.ModuleList([FACTOR_KINDS[factor.kind].make(factor, section) for factor in section.factors])
        self.scored: tuple[int, ...] = ()
        weight, step, damping = section.resolved().message_weight, section.step_size, section.damping
        assert weight.heads is not None, "it is resolved"
        rectified = section.globals is not None and section.globals.kind == "rectified"
        of_features = 1.0 if rectified else weight.features or weight.heads
        of_heads = weight.heads
        self.scales = scales_of_field(section)
        if self.scales is not None:
            self.logit_scale = self.scales.logits
            of_heads = of_heads * self.scales.heads
            of_features = of_features if rectified else of_features * self.scales.feature_weight
        self.inference = Inference(
            iterations=section.iterations,
            asynchronous=section.schedule == "asynchronous",
            channels=section.channels,
            distance=section.distance,
            labels=Update(weight.labels, step.labels, damping.labels),
            heads=Update(of_heads, step.heads, damping.heads),
            features=Update(of_features, step.heads, damping.heads),
            root=section.root is not None or section.causal,
            causal=section.causal,
            tree=section.heads == "tree",
            latent=section.latent,
            label_variables=section.label_variables,
            rectified=rectified,
            labelled=section.head_labels and section.channels > 1,  # a single label is no choice
            root_label=section.root is not None and section.root.own_label,
        )

    @property
    def potentials(self) -> list[Potentials]:
        """Of every iteration, or one for all of them. In a checkpoint, parts of the first are called ``ternary``,
        ``root`` and ``globals``; before those of the second stands ``later.0``, and so on."""
        first = Potentials(self.ternary, self.root, self.globals, self.chain)
        return [first, *map(Potentials.of, cast("Sequence[DrawnPotentials]", self.later))]

    @property
    def readout_potentials(self) -> list[Potentials]:
        """Of every round of a readout, the last one for all further rounds; without any, those of the last iteration.
        In a checkpoint, their parts stand behind ``readout.0``, and so on."""
        return [*map(Potentials.of, cast("Sequence[DrawnPotentials]", self.readout))] or self.potentials[-1:]

    def stages(self) -> Sequence[Sequence[nn.Parameter]]:
        """Those of the iterations, where each has potentials of its own; there is nothing below them."""
        if self.section.share_potentials:
            return ()
        behind = {id(parameter) for part in (self.later, self.readout) for parameter in part.parameters()}
        first = [parameter for parameter in self.parameters() if id(parameter) not in behind]
        return ([], first, *(list(drawn.parameters()) for drawn in self.later))

    def scaled(self) -> Iterator[tuple[nn.Parameter, Scale]]:
        assert self.scales is not None, "it has a base"
        for potentials in self.potentials:  # none of a readout: a base is refused for causal models
            matrices = [getattr(potentials.ternary, name) for name in ("U", "V")]
            yield from ((matrix, self.scales.hidden) for matrix in matrices if matrix is not None)
            if potentials.features is not None and potentials.features.B is not None:
                yield potentials.features.B, self.scales.features

    def activations(self, words: Words) -> Mapping[str, Tensor]:
        """See :meth:`Encoder.activations`; the mean of a categorical label is multiplied by the number of labels."""
        if self.section.causal:
            return super().activations(words)
        field = self.field(words.vectors, words.mask, words.cues)
        kept: dict[str, Tensor] = {}
        times = self.facts.width if self.facts.has_latent_labels else 1
        for iteration in range(1, self.inference.iterations + 1):
            field.iterate()
            M, Q = field.M, field.Q
            message = self.inference.labels.weight * M.labels - field.unary
            kept |= {
                f"M_H {iteration}": M.heads[field.allowed.expand(M.heads.shape)],
                f"G {iteration}": message[words.mask],
                f"M_Z {iteration}": M.labels[words.mask],
                f"E[Z] {iteration}": times * Q.labels[words.mask],
            }
            if M.features is not None:
                kept[f"M_G {iteration}"] = M.features[words.mask]
        return kept

    @torch.no_grad()
    def check_forms(self) -> str | None:
        if self.plain:
            return crf.__file__
        model = deepcopy(self).cpu().double().eval()
        mask = torch.arange(5) < torch.tensor([[5], [3]])
        unary = torch.randn(2, 5, self.facts.width, generator=torch.Generator().manual_seed(0)).double()
        words = Words(unary, mask, readout=Readout(2, unary[0, 0]) if self.section.causal else None)
        states = model(words).states
        model.messages = "plain"
        expected = model(words).states
        difference = (states - expected).abs().max() / expected.abs().max()
        if not difference < FORMS_DIFFER:
            message = (
                f"the fast messages differ from the equations in {crf.__file__}: by {difference:.1e} of the states"
            )
            raise UsageError(message, hint="set runtime.messages=plain to train what that file says")
        return None

    def regularizer(self, section: Optim) -> Mapping[str, Tensor]:
        penalty = section.ternary_penalty
        return {"ternary_penalty": penalty.weight * self.penalty()} if penalty.weight > 0.0 else {}

    def figures(self, words: Words, encoded: Encoded) -> Mapping[str, Tensor]:
        """``message_norm``, see :func:`message_norm`."""
        states = encoded.states
        if self.section.output == "probabilities":  # the scores again, but for what all labels of a word share
            states = states.clamp_min(torch.finfo(states.dtype).tiny).log()
        scores = self.inference.labels.weight * states
        variables = self.facts.label_variables if self.facts.has_latent_labels else 0
        return {"message_norm": message_norm(words.vectors, scores, words.mask, variables)}

    def latent_labels(self, states: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        if not self.facts.has_latent_labels:
            return super().latent_labels(states)
        return states if self.section.output == "probabilities" else self.latent.mean(states)

    def forward(self, words: Words, arcs: Iterations = False, at: Bool[Tensor, "b n"] | None = None) -> Encoded:
        """See :meth:`Encoder.forward`; arcs are ``Q_H^(t)``."""
        wanted = chosen_iterations(arcs, self.inference.iterations)
        if self.section.causal:
            return self._read(words, wanted)
        history = sorted({*wanted, *self.scored})
        inference = self._mean_field(words, all_pairs=self.inference.scored, arcs=bool(history))
        states, root, kept = inference.run(at=at, history=history)
        after = dict(zip(history, kept, strict=True))
        if self.section.output == "probabilities":
            states = states.softmax(-1) * words.mask[:, :, None]
            root = None if root is None else root.softmax(-1)
        marginals = torch.stack([after[number].heads for number in wanted], dim=1) if wanted else None
        scores = [state.scores for number, state in after.items() if number in self.scored and state.scores is not None]
        return Encoded(states, root, marginals, arc_scores=scores)

    def score_heads(self, iterations: Collection[int]) -> None:
        """Let every encoding have the scores of heads after these iterations, where heads have labels."""
        self.scored = tuple(iterations)
        self.inference = replace(self.inference, scored=True)

    def _read(self, words: Words, history: Collection[int]) -> Encoded:
        """Read words one by one: arcs and, without a readout, states are those of the content (``causal.py``)."""
        slots, sentences = causal.Slots if self.plain else FastSlots, Sentences(words.vectors, words.mask)
        content, kept = causal.content(
            slots,
            sentences,
            self.factors(),
            self.inference,
            self._dropout,
            history,
            serial=self.section.content == "serial",
        )
        arcs = torch.stack([state.heads for state in kept], dim=1) if kept else None
        if words.readout is None:
            return Encoded(content.states(), None, arcs)
        # The scores of the labels of words that are hidden, by the labels of the words before each.
        prefix, rounds = content.Q.labels, words.readout.rounds
        if rounds is None:
            return Encoded(causal.log_messages(prefix, self.factors(self.readout_potentials)[-1]), None, arcs)
        unary, rest = self._hidden(words.readout, prefix.dtype, lambda chain: chain.message(prefix))
        sentences = Sentences(unary[0].expand_as(prefix), words.mask)
        hidden = slots(sentences, rest, self.inference, self._dropout, prefix)
        return Encoded(causal.predicted(hidden, unary, rounds), None, arcs)

    def _hidden(
        self, readout: Readout, dtype: torch.dtype, chained: Callable[[causal.Chain], Tensor]
    ) -> tuple[list[Float[Tensor, "*b d"]], list[list[Factor]]]:
        """Return ``s̄ + C q_{t-1}`` of every round, and its factors without the chain."""
        assert readout.prior is not None, "a network knows its words"
        factors = self.factors(self.readout_potentials)
        chains = [[factor for factor in of_round if isinstance(factor, causal.Chain)] for of_round in factors]
        rest = [[factor for factor in of_round if not isinstance(factor, causal.Chain)] for of_round in factors]
        return [sum(map(chained, of_round), readout.prior.to(dtype)) for of_round in chains], rest

    def read_on(self, unary: Float[Tensor, "b 1 d"], memory: Memory = ()) -> Memory:
        """See :meth:`Encoder.read_on`; it keeps q of every word, at the start and after every iteration."""
        iterations = self.inference.iterations
        memory = memory or [unary[:, :0]] * (iterations + 1)
        prefixes = memory[-1:] if self.section.content == "serial" else memory[:-1]
        slot = NextSlot(unary, prefixes, self.factors(), self.inference)
        q = [slot.Q.labels]
        q += [state.labels for state in slot.advance(iterations, history=range(1, iterations + 1))]
        return [torch.cat(pair, dim=1) for pair in zip(memory, q, strict=True)]

    def foretell(self, texts: int, memory: Memory, readout: Readout) -> Float[Tensor, "b 1 d"]:
        prefix = memory[-1] if memory else next(self.parameters()).new_zeros(texts, 0, self.facts.width)
        if readout.rounds is None:
            factors = self.factors(self.readout_potentials)[-1]
            return causal.log_messages(functional.pad(prefix, (0, 0, 0, 1)), factors)[:, -1:]
        unary, rest = self._hidden(readout, prefix.dtype, lambda chain: chain.next_message(prefix))
        slot = NextSlot(unary[0].expand(texts, 1, -1), [prefix], rest, self.inference)
        return causal.predicted(slot, unary, readout.rounds)

    def arcs_alone(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"]:
        """See :meth:`Encoder.arcs_alone`: no iteration after the last of these, and nothing else that is not needed."""
        if self.section.causal:
            return super().arcs_alone(replace(words, readout=None), iterations)
        return torch.stack(self._mean_field(words, arcs=True).run_heads(iterations), dim=1)

    def tree_scores(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"] | None:
        """See :meth:`Encoder.tree_scores`: ``M_H``; of labelled heads summed over the labels, as one channel."""
        if not self.inference.tree or self.inference.heads.step != 1.0:
            return None
        inference = self._mean_field(words, all_pairs=True)
        inference.inference = replace(self.inference, scored=True)
        kept = [state.scores for state in inference.advance(max(iterations), history=iterations)]
        scores = torch.stack([values for values in kept if values is not None], dim=1)
        return scores.logsumexp(2, keepdim=True) if self.inference.labelled else scores

    def begin(self, words: Words, steps: int, arcs: Iterations = False) -> Reading:
        """See :meth:`Encoder.begin`. The root is carried along."""
        if self.section.causal:
            return super().begin(words, steps, arcs)
        wanted, before = chosen_iterations(arcs, self.inference.iterations), self.inference.iterations - steps
        inference = self._mean_field(words, arcs=bool(wanted))
        kept = inference.advance(before, history=[number for number in wanted if number <= before])
        later = [number - before for number in wanted if number > before]
        return Reading(words.mask, steps, inference, None, tuple(state.heads for state in kept), later)

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        """See :meth:`Encoder.again`: more iterations of the same field, in which every word's label has one more unary
        factor ``exp(bias)``; where iterations have potentials of their own, those of the last ones are used again."""
        inference: MeanField | fast.MeanField = reading.carried
        kept = inference.advance(reading.steps, bias, reading.wanted, self.inference.iterations - reading.steps)
        states = inference.states()
        if self.section.output == "probabilities":
            states = states.softmax(-1) * reading.mask[:, :, None]
        arcs = (*reading.arcs, *(state.heads for state in kept))
        return Reading(reading.mask, reading.steps, inference, states, arcs)

    def infer(
        self, unary: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"], cues: Float[Tensor, "b n 9"] | None = None
    ) -> list[State]:
        """Return all distributions, at the start and after every iteration: ``T + 1`` states."""
        inference = self._mean_field(Words(unary, mask, cues=cues), all_pairs=True)
        return inference.run(history=range(self.inference.iterations + 1)).history

    def energy(
        self,
        unary: Float[Tensor, "b n d"],
        mask: Bool[Tensor, "b n"],
        state: State,
        cues: Float[Tensor, "b n 9"] | None = None,
    ) -> Float[Tensor, " b"]:
        """Return the mean-field energy of every sentence in a state (appendix A.4), which the iteration descends.

        Raises:
            ValueError: the heads form trees, whose entropy does not follow from their marginals; or iterations have
                potentials of their own, so that no single energy goes down.
        """
        if self.later:
            raise ValueError("iterations with potentials of their own descend no energy")
        if self.inference.tree:
            raise ValueError("the energy of tree-shaped heads is not a function of their marginals")
        return self.field(unary, mask, cues).energy(state)

    def factors(self, potentials: Sequence[Potentials] | None = None) -> list[list[Factor]]:
        """Return the factors of every iteration, or one set for all of them; or those of other ``potentials``."""
        bias = [] if self.section.head_bias is None else [HeadBiasFactor(self.section.head_bias)]
        further = [*bias, *cast("Sequence[Factor]", self.further)]
        sets = self.potentials if potentials is None else potentials
        return [[factor for factor in parts if factor is not None] + further for parts in sets]

    @property
    def plain(self) -> bool:
        """Whether the equations run as they stand in ``crf.py``: by request, or as a factor has no fast form."""
        return self.messages == "plain" or not all(
            isinstance(factor, ArcsFactor | RelationsFactor) for factor in self.further
        )

    @property
    def _dropout(self) -> float:
        return self.section.dropout if self.training else 0.0

    def _mean_field(self, words: Words, *, all_pairs: bool = False, arcs: bool = False) -> MeanField | fast.MeanField:
        unary, mask, cues = words.vectors, words.mask, words.cues
        if mask.shape != unary.shape[:2]:  # also tells a tracer that the two have the same sizes
            raise ValueError(
                f"unary scores {tuple(unary.shape)} and mask {tuple(mask.shape)} are of different sentences"
            )
        if self.plain:
            return self.field(unary, mask, cues)
        bias = None
        if self.section.head_bias is not None:
            cues = unary.new_zeros(*unary.shape[:2], CUES) if cues is None else cues.to(unary.dtype)
            bias = head_bias(self.section.head_bias, cues, mask)
        all_pairs = all_pairs or bias is not None or len(self.further) > 0
        rank = getattr(self.section.decomposition, "rank", self.section.labels)
        form = fast.form_of(
            self.messages, mask, self.inference, all_pairs=all_pairs, arcs=arcs, dtype=unary.dtype, rank=rank
        )
        further = cast("Sequence[ArcsFactor | RelationsFactor]", list(self.further))
        lengths = words.lengths_of_host if self.messages == "fused" else None
        fused = fast.fuses(self.messages, mask, unary.dtype, rank)
        field = fast.MeanField(
            unary, mask, self.potentials, self.inference, self._dropout, form, bias, further, lengths, fused=fused
        )
        if words.entries is not None and not torch.is_grad_enabled() and may_depend_on(mask):
            field.begin_by_entries(words.entries)
        return field

    def field(self, unary: Tensor, mask: Tensor, cues: Tensor | None = None) -> MeanField:
        """Return the inference of a batch as its equations stand; arguments as those of :meth:`forward`."""
        return MeanField(Sentences(unary, mask, cues), self.factors(), self.inference, self._dropout)

    def ternary_scores(self, distances: Sequence[int] | None = None, iteration: int = 1) -> Float[Tensor, "k c a e"]:
        """Return ``T [K, h, d, d]``, or ``T`` at each of the ``distances`` ``x = i - j``.

        With `rotary`, which has no buckets, the former is ``T`` at the distances -1 and 1. At the distance 0, where no
        head is, numbers have no meaning. ``iteration``: whose ``T``, where each has its own; counted from 1.
        """
        ternary = self._of(iteration).ternary
        if distances is None:
            return ternary.dense()
        if isinstance(ternary, Rotary):
            return ternary.at(distances)
        gamma = self.section.distance
        dense = ternary.dense()
        if gamma is None:
            return dense.expand(len(distances), -1, -1, -1)
        if self.section.causal:
            bucket = [min(x - 1, gamma) for x in distances]
        else:
            bucket = [min(max(x + gamma + (x < 0), 0), 2 * gamma + 1) for x in distances]
        return dense[torch.tensor(bucket, device=dense.device)]

    def root_scores(self, iteration: int = 1) -> Float[Tensor, "c a e"] | None:
        """Return ``T' [h, d, d_root]``, None without a root. ``iteration``: as of :meth:`ternary_scores`."""
        root = self._of(iteration).root
        return None if root is None else root.dense()

    def global_scores(self, iteration: int = 1) -> Float[Tensor, "*c m a"] | None:
        """Return ``B [h, m, d]``, or ``[m, d]`` with `single-split` and `rectified`; None without global features.

        ``iteration``: as of :meth:`ternary_scores`.
        """
        features = self._of(iteration).features
        if features is None:
            return None
        scores = features.dense()
        return scores if features.by_channel else scores[0]

    def _of(self, iteration: int) -> Potentials:
        if not 1 <= iteration <= self.inference.iterations:
            raise ValueError(f"iteration {iteration}: the model has iterations 1 to {self.inference.iterations}")
        return self.potentials[0 if self.section.share_potentials else iteration - 1]

    def penalty(self) -> Float[Tensor, ""]:
        """Return the Frobenius norm of the whole of ``T``, of all iterations and rounds."""
        sets = [*self.potentials, *(self.readout_potentials if self.readout else ())]
        norm = torch.stack([potentials.ternary.squared_norm() for potentials in sets]).sum()
        return norm.clamp_min(torch.finfo(norm.dtype).tiny).sqrt()  # whose gradient at T = 0 is 0


def message_norm(
    unary: Float[Tensor, "b n d"], scores: Float[Tensor, "b n d"], mask: Bool[Tensor, "b n"], variables: int = 1
) -> Float[Tensor, ""]:
    """``|G| / |S|``: how much louder than a word itself its neighbours are, over all real words of a batch.

    G, the messages, are the ``scores`` of the last iteration, before they are divided by λ_Z, less S, the unary ones
    (with damping, some of the messages of earlier iterations is in them). What all labels of a variable share is
    left out of both, because it changes no distribution; of a spherical one (``variables`` 0) it counts. Far above 5,
    a label hardly hears its own word.
    """
    words, messages = unary[mask].float(), (scores - unary)[mask].float()
    if variables:
        words, messages = (x.reshape(len(x), variables, -1) for x in (words, messages))
        words, messages = (x - x.mean(-1, keepdim=True) for x in (words, messages))
    own, heard = words.norm(), messages.norm()
    ratio: Tensor = heard / own.clamp_min(torch.finfo(own.dtype).tiny)
    return ratio
