"""The probabilistic transformer as an encoder: unary scores in, contextual label scores and head marginals out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from probtrans_cli.models.probabilistic.inference import (
    LATENT,
    RECTIFIED,
    Inference,
    Sentences,
    State,
    Update,
    latent_of,
)
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
            of_features=RECTIFIED if rectified else LATENT["categorical"],
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
        mask = torch.arange(40) < torch.tensor([[40], [3]])  # an edit may concern far heads alone
        unary = torch.randn(2, 40, self.facts.width, generator=torch.Generator().manual_seed(0)).double()
        words = Words(unary, mask, readout=Readout(2, unary[0, 0]) if self.section.causal else None)
        states = model(words).states
        model.messages = "plain"
        expected = model(words).states
        difference = (states - expected).abs().max() / expected.abs().max()
        if not difference < FORMS_DIFFER:
            share = f"by {difference:.2g} of the largest state"
            message = f"the fast messages differ from the equations in {crf.__file__}: {share}"
            raise UsageError(message, hint="set runtime.messages=plain to train what that file says")
        return None

    def regularizer(self, section: Optim) -> Mapping[str, Tensor]:
        """See :meth:`Encoder.regularizer`: the Frobenius norm of the whole of ``T``, of all iterations and rounds."""
        weight = section.ternary_penalty.weight
        if weight == 0.0:
            return {}
        sets = [*self.potentials, *(self.readout_potentials if self.readout else ())]
        square = torch.stack([potentials.ternary.squared_norm() for potentials in sets]).sum()
        norm = square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()  # whose gradient at T = 0 is 0
        return {"ternary_penalty": weight * norm}

    def figures(self, words: Words, encoded: Encoded) -> Mapping[str, Tensor]:
        """Return ``message_norm``, ``|G| / |S|``: how much louder than a word itself its neighbours are.

        It is of all real words of a batch. G, the messages, are the scores of the last iteration, before they are
        divided by λ_Z, less S, the unary ones (with damping, some of the messages of earlier iterations is in them).
        What all labels of a variable share is left out of both, because it changes no distribution; of a spherical one
        it counts. Far above 5, a label hardly hears its own word.
        """
        states, unary, mask = encoded.states, words.vectors, words.mask
        if self.section.output == "probabilities":  # the scores again, but for what all labels of a word share
            states = states.clamp_min(torch.finfo(states.dtype).tiny).log()
        scores = self.inference.labels.weight * states
        S, G = unary[mask].float(), (scores - unary)[mask].float()
        if self.facts.has_latent_labels:
            S, G = (x.reshape(len(x), self.facts.label_variables, -1) for x in (S, G))
            S, G = (x - x.mean(-1, keepdim=True) for x in (S, G))
        own, heard = S.norm(), G.norm()
        return {"message_norm": heard / own.clamp_min(torch.finfo(own.dtype).tiny)}

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
        inference = self.mean_field(words, all_pairs=self.inference.scored, arcs=bool(history))
        kept = inference.advance(self.inference.iterations, history=history, at=at)
        after = dict(zip(history, kept, strict=True))
        states, root = inference.representations()
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
        slots, dropout, iterations = causal.Slots if self.plain else FastSlots, self._dropout, self.inference.iterations
        sentences, factors = Sentences(words.vectors, words.mask), self.factors()
        content = slots(sentences, factors, self.inference, dropout)
        kept = content.advance(iterations, history=history)
        # Serially, all iterations are repeated until no q changes any more; slot t is final after t times at most.
        for _ in range(words.mask.shape[1] - 1 if self.section.content == "serial" else 0):
            before = content.Q.labels
            content = slots(sentences, factors, self.inference, dropout, [before])
            kept = content.advance(iterations, history=history)
            if torch.equal(content.Q.labels, before):
                break
        arcs = torch.stack([state.heads for state in kept], dim=1) if kept else None
        if words.readout is None:
            return Encoded(content.representations()[0], None, arcs)
        # The scores of the labels of words that are hidden, by the labels of the words before each.
        prefix, rounds = content.Q.labels, words.readout.rounds
        if rounds is None:
            return Encoded(causal.log_messages(prefix, self.factors(self.readout_potentials)[-1]), None, arcs)
        unary, rest = self._hidden(words.readout, prefix)
        sentences = Sentences(unary[0].expand_as(prefix), words.mask)
        hidden = slots(sentences, rest, self.inference, dropout, [prefix])
        return Encoded(causal.predicted(hidden, unary, rounds), None, arcs)

    def _hidden(
        self, readout: Readout, prefix: Float[Tensor, "b n d"], *, behind: bool = False
    ) -> tuple[list[Float[Tensor, "*b d"]], list[list[Factor]]]:
        """Return ``s̄ + C q_{t-1}`` of every round, and its factors without the chain; ``behind``: as of the chain."""
        assert readout.prior is not None, "a network knows its words"
        factors = self.factors(self.readout_potentials)
        chains = [[factor for factor in of_round if isinstance(factor, causal.Chain)] for of_round in factors]
        rest = [[factor for factor in of_round if not isinstance(factor, causal.Chain)] for of_round in factors]
        prior = readout.prior.to(prefix.dtype)
        return [sum((chain.message(prefix, behind=behind) for chain in of_round), prior) for of_round in chains], rest

    def read_on(self, unary: Float[Tensor, "b 1 d"], memory: Memory = ()) -> Memory:
        """See :meth:`Encoder.read_on`; it keeps q of every word, at the start and after every iteration."""
        iterations = self.inference.iterations
        memory = memory or [unary[:, :0]] * (iterations + 1)
        prefixes = memory[-1:] if self.section.content == "serial" else memory[:-1]
        slot = NextSlot(unary, prefixes, self.factors(), self.inference)
        states = slot.advance(iterations, history=range(iterations + 1))
        return [torch.cat([before, state.labels], dim=1) for before, state in zip(memory, states, strict=True)]

    def foretell(self, texts: int, memory: Memory, readout: Readout) -> Float[Tensor, "b 1 d"]:
        prefix = memory[-1] if memory else next(self.parameters()).new_zeros(texts, 0, self.facts.width)
        if readout.rounds is None:
            factors = self.factors(self.readout_potentials)[-1]
            return causal.log_messages(functional.pad(prefix, (0, 0, 0, 1)), factors)[:, -1:]
        unary, rest = self._hidden(readout, prefix, behind=True)
        slot = NextSlot(unary[0].expand(texts, 1, -1), [prefix], rest, self.inference)
        return causal.predicted(slot, unary, readout.rounds)

    def arcs_alone(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"]:
        """See :meth:`Encoder.arcs_alone`: no iteration after the last of these, and nothing else that is not needed."""
        if self.section.causal:
            return super().arcs_alone(replace(words, readout=None), iterations)
        return torch.stack(self.mean_field(words, arcs=True).run_heads(iterations), dim=1)

    def tree_scores(self, words: Words, iterations: Collection[int]) -> Float[Tensor, "b t c n m"] | None:
        """See :meth:`Encoder.tree_scores`: ``M_H``; of labelled heads summed over the labels, as one channel."""
        if not self.inference.tree or self.inference.heads.step != 1.0:
            return None
        inference = self.mean_field(words, all_pairs=True)
        inference.inference = replace(self.inference, scored=True)
        kept = [state.scores for state in inference.advance(max(iterations), history=iterations)]
        scores = torch.stack([values for values in kept if values is not None], dim=1)
        return scores.logsumexp(2, keepdim=True) if self.inference.labelled else scores

    def begin(self, words: Words, steps: int, arcs: Iterations = False) -> Reading:
        """See :meth:`Encoder.begin`. The root is carried along."""
        if self.section.causal:
            return super().begin(words, steps, arcs)
        wanted, before = chosen_iterations(arcs, self.inference.iterations), self.inference.iterations - steps
        inference = self.mean_field(words, arcs=bool(wanted))
        kept = inference.advance(before, history=[number for number in wanted if number <= before])
        later = [number - before for number in wanted if number > before]
        return Reading(words.mask, steps, inference, None, tuple(state.heads for state in kept), later)

    def again(self, reading: Reading, bias: Float[Tensor, "b n d"] | None = None) -> Reading:
        """See :meth:`Encoder.again`: more iterations of the same field, in which every word's label has one more unary
        factor ``exp(bias)``; where iterations have potentials of their own, those of the last ones are used again."""
        inference: MeanField | fast.MeanField = reading.carried
        kept = inference.advance(reading.steps, bias, reading.wanted, self.inference.iterations - reading.steps)
        states, _ = inference.representations()
        if self.section.output == "probabilities":
            states = states.softmax(-1) * reading.mask[:, :, None]
        arcs = (*reading.arcs, *(state.heads for state in kept))
        return Reading(reading.mask, reading.steps, inference, states, arcs)

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

    def mean_field(self, words: Words, *, all_pairs: bool = False, arcs: bool = False) -> MeanField | fast.MeanField:
        """Return the inference of a batch, in the form that serves it; arguments as of :func:`fast.form_of`."""
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
        entries = None if torch.is_grad_enabled() or not may_depend_on(mask) else words.entries
        return fast.MeanField(
            unary,
            mask,
            self.potentials,
            self.inference,
            self._dropout,
            form,
            bias,
            further,
            lengths,
            entries,
            fused=fused,
        )

    def field(self, unary: Tensor, mask: Tensor, cues: Tensor | None = None) -> MeanField:
        """Return the inference of a batch as its equations stand; arguments as those of :meth:`forward`."""
        return MeanField(Sentences(unary, mask, cues), self.factors(), self.inference, self._dropout)

    def ternary_scores(self, distances: Sequence[int] | None = None, iteration: int = 1) -> Float[Tensor, "k c a e"]:
        """Return ``T [K, h, d, d]``, or ``T`` at each of the ``distances`` ``x = i - j``.

        With `rotary`, which has no buckets, the former is ``T`` at the distances -1 and 1. At the distance 0, where no
        head is, numbers have no meaning. ``iteration``: whose ``T``, where each has its own; counted from 1.
        """
        if not 1 <= iteration <= self.inference.iterations:
            raise ValueError(f"iteration {iteration}: the model has iterations 1 to {self.inference.iterations}")
        ternary = self.potentials[0 if self.section.share_potentials else iteration - 1].ternary
        if distances is None:
            return ternary.dense()
        if isinstance(ternary, Rotary):
            return ternary.at(distances)
        dense = ternary.dense()
        x = torch.tensor(list(distances), device=dense.device)
        return dense[crf.bucket_of(x, self.section.distance, causal=self.section.causal)]
