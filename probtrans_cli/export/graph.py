"""A trained network as a graph: one module for every encoder and task, whose shapes follow from those of its inputs.

It takes what a network reads, and gives what the output layer says, as padded arrays:

input       shape      what
ids         [b, n]     tokens of padded sentences
mask        [b, n]     True where there is a token
first       [b, w]     position of each word's first token, n behind the last word; where a word is more than a token
at          [b, k]     positions of the tokens whose scores are wanted; of models of hidden words
features    [b, n, f]  rows of the features of each token's word, -1 behind the last; where words have features
segments    [b, n]     0 or 1, the text that a token is of; of encoders that read pairs of texts
word        [b]        of a language model, which is a step: the word that is read
memory      [b,t,n,d]  for the same: what is kept of the words before it, at first of none

output      shape      what
scores      [b, w, o]  of each word, or position of ``at``; ``[b, o]`` of the sentence, or ``[b, r, w, o]`` of rows;
                       of arcs ``[b, w, c, w + 1]``, relation c and every head, the last one the root
upos ...    [b, w, o]  of the tags beside arcs, by their column
parents     [b, w, m]  of a word's parents, none first (logical forms by attention)
pair        [b, p]     of what two texts are to each other
sentence    [b, s]     what represents the sentence, where something does
arcs        [b,c,n,m]  on request: probabilities of heads in every channel, after one iteration
scores      [b, v]     of a language model: of the word behind the one that is read
first       [v]        of the same: of the first word of a text
next_memory [b,t,n,d]  of the same: with the word, for the next step

What an ordinary pass picks out by a mask is picked out by positions here, and nothing is left out early.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn.utils import parametrize

from probtrans_cli.errors import UsageError
from probtrans_cli.models.arcs import ArcOutput
from probtrans_cli.models.base import Features, Inputs, Outputs, Readout, Wants
from probtrans_cli.models.bayesian.weights import parametrized
from probtrans_cli.models.network import Network
from probtrans_cli.trained.predictor import Predictor

MAIN, NEXT = "scores", "next_memory"
SHAPES = {
    "ids": ("batch", "tokens"), "mask": ("batch", "tokens"), "first": ("batch", "words"), "at": ("batch", "places"),
    "features": ("batch", "tokens", "features"), "segments": ("batch", "tokens"),
    "word": ("batch",), "memory": ("batch", "states", "before", "labels"),
}  # fmt: skip
"""The axes of the inputs."""
_EXAMPLE = {"batch": 3, "tokens": 7, "words": 4, "places": 2, "features": 5, "before": 9}
"""Sizes that a graph is traced with: no two are equal, and none is 0 or 1, of which a tracer makes constants."""
_LARGER = {"batch": 4, "tokens": 5, "words": 7, "places": 6, "features": 10, "before": 15}
"""Other sizes: the differences to the first ones are all distinct."""
Arrays = Mapping[str, Tensor]


@dataclass(frozen=True)
class Plan:
    """What a graph takes and gives."""

    inputs: Mapping[str, list[int | str]]  # the axes of the inputs: names, and sizes of those that are always alike
    words: bool  # whether scores of words are wanted
    sentence: bool  # whether the sentence's representation is wanted
    main: str  # the network's name of the output ``scores``
    arcs: tuple[int, ...] = ()  # the iteration after which heads are given, if they are
    readout: Readout | None = None  # of a language model, whose graph is a step from word to word
    sizes: Mapping[str, int] = field(default_factory=dict)  # of the axes of inputs that are always alike

    @classmethod
    def of(cls, network: Network, wants: Wants, *, divides: bool, iteration: int | None = None) -> Plan:
        """Plan the graph of a network."""
        if wants.readout is not None:
            section: Any = network.encoder.section
            sizes = {"states": section.iterations + 1, "labels": network.encoder.facts.width}
            axes = {name: [sizes.get(axis, axis) for axis in SHAPES[name]] for name in ("word", "memory")}
            return cls(axes, False, False, "words", readout=wants.readout, sizes=sizes)
        grid = network.output.steps is not None
        words = wants.words is not None
        inputs = ["ids", "mask"]
        if divides and (words or network.encoder.facts.reads_first):
            inputs.append("first")
        if wants.tokens is not None:
            inputs.append("at")
        if network.features is not None:
            inputs.append("features")
        if network.encoder.facts.segment_types and wants.tokens is not None and wants.sentence:
            inputs.append("segments")
        has_sentence = (
            network.sentence is not None or network.encoder.facts.has_root or network.encoder.facts.has_pooler
        )
        main = "rows" if grid else "words" if words or wants.tokens is not None else "sentence"
        if any(isinstance(layer, ArcOutput) for layer in network.output.children()):
            main = "arcs"
        axes = {name: [*SHAPES[name]] for name in inputs}
        return cls(axes, words, has_sentence and not grid, main, () if iteration is None else (iteration,))


class Graph(nn.Module):
    """The module that is exported."""

    def __init__(self, network: Network, plan: Plan) -> None:
        """``network`` stays as it is: the graph has a copy of it, whose uncertain weights are their means."""
        super().__init__()
        self.network = copy.deepcopy(network).cpu().float().eval()
        self.plan = plan
        for module in {id(it): it for it, _ in parametrized(self.network)}.values():
            # parametrize.remove_parametrizations would take the property from the class that the copy shares with
            # the module that it is a copy of.
            lists: Any = module.parametrizations
            means = {name: it.original for name, it in lists.items()}
            module.__class__ = type(module).__bases__[0]
            del module.parametrizations
            for name, mean in means.items():
                module.register_parameter(name, nn.Parameter(mean.detach()))
        self.requires_grad_(False)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        first: Tensor | None = None,
        at: Tensor | None = None,
        features: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the outputs by name; see the module."""
        n = ids.shape[1]
        words = mask if first is None else first < n
        if at is None and first is not None:
            at = first.clamp(max=n - 1)
        wants = Wants(
            words=words if self.plan.words else None,
            places=None if self.plan.main == "sentence" else "all" if at is None else at,
            sentence=self.plan.sentence,
            arcs=self.plan.arcs,
        )
        inputs = Inputs(ids=ids, mask=mask, first=first, features=features, segments=segments)
        outputs = self.network(inputs, wants)
        named = {MAIN if name == self.plan.main else name: value for name, value in outputs.scores.items()}
        if self.plan.main == "arcs":
            named[MAIN] = named[MAIN].unflatten(2, (-1, words.shape[1] + 1))
        if self.plan.sentence and outputs.sentence is not None:
            named["sentence"] = outputs.sentence
        if outputs.arcs is not None:
            named["arcs"] = outputs.arcs[:, 0]
        return named

    def weights_as(self, dtype: torch.dtype) -> None:
        """Store the weights in another precision; they are computed with in float32."""
        for module in list(self.network.modules()):
            for name, parameter in list(module.named_parameters(recurse=False)):
                if parameter.is_floating_point():
                    setattr(module, name, nn.Parameter(parameter.to(dtype), requires_grad=False))
                    parametrize.register_parametrization(module, name, _InFloat32(), unsafe=True)


class Step(Graph):
    """The module of a language model: it reads a word behind others, and scores the next one."""

    of_first: Tensor

    @torch.no_grad()
    def __init__(self, network: Network, plan: Plan) -> None:
        super().__init__(network, plan)
        self.register_buffer("of_first", self.network.next_scores(1, (), plan.readout)[0])

    def forward(self, word: Tensor, memory: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        kept = self.network.read_on(word[:, None], memory.unbind(1))
        scores = self.network.next_scores(word.shape[0], kept, self.plan.readout)
        return {MAIN: scores, "first": self.of_first.clone(), NEXT: torch.stack(list(kept), dim=1)}


def graph_of(network: Network, plan: Plan) -> Graph:
    return (Graph if plan.readout is None else Step)(network, plan)


class _InFloat32(nn.Module):
    def forward(self, stored: Tensor) -> Tensor:
        return stored.float()


# --- from what an ordinary pass takes to what a graph takes ---------------------------------------------------------


def arrays(plan: Plan, inputs: Inputs, wants: Wants) -> dict[str, Tensor]:
    """Return the inputs of a graph, from those of a network."""
    ids, tokens = inputs.ids, wants.tokens
    by_name: dict[str, Tensor | None] = {"ids": ids, "mask": inputs.mask, "first": inputs.first}
    by_name["segments"] = torch.zeros_like(ids) if inputs.segments is None else inputs.segments
    if tokens is not None:  # their positions in order, 0 behind the last
        number = tokens.sum(1, keepdim=True)
        order = (~tokens).to(torch.uint8).argsort(dim=1, stable=True)[:, : max(int(number.max()), 1)]
        by_name["at"] = order.masked_fill(torch.arange(order.shape[1], device=order.device) >= number, 0)
    if isinstance(inputs.features, Features):  # of each token, -1 behind the last
        rows, offsets = inputs.features.rows, inputs.features.offsets
        number = torch.cat([offsets[1:], offsets.new_tensor([len(rows)])]) - offsets
        there = torch.arange(max(int(number.max()), 1), device=ids.device) < number[:, None]
        padded = torch.full(there.shape, -1, device=ids.device)
        padded[there] = rows
        by_name["features"] = padded.view(*ids.shape, -1)
    named = {name: by_name.get(name) for name in plan.inputs}
    assert not (missing := [name for name, value in named.items() if value is None]), f"nothing for {missing}"
    return {name: value.cpu().contiguous() for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class GraphPredictor(Predictor):
    """A written graph, called as a network is; ``run`` computes the graph."""

    plan: Plan
    run: Any
    several = False
    doubt: bool = False

    def ready(self) -> GraphPredictor:
        return self

    def __call__(self, inputs: Inputs, wants: Wants, /) -> Outputs:
        if self.plan.readout is not None:
            assert wants.tokens is not None, "a language model is asked for tokens"
            b, sizes = len(inputs.ids), self.plan.sizes
            memory = torch.zeros(b, sizes["states"], 0, sizes["labels"])
            of_words: list[Tensor] = []  # the scores of every word by the words before it, and of the word behind all
            for word in inputs.ids.cpu().unbind(1):
                outputs = self.run({"word": word.contiguous(), "memory": memory})
                of_words += [] if of_words else [outputs["first"].expand_as(outputs[MAIN])]
                of_words.append(outputs[MAIN])
                memory = outputs[NEXT]
            return Outputs(scores={"words": torch.stack(of_words[:-1], dim=1).to(inputs.ids.device)[wants.tokens]})
        named: dict[str, Tensor] = dict(self.run(arrays(self.plan, inputs, wants)))
        arcs, sentence = named.pop("arcs", None), named.pop("sentence", None)
        scores = {self.plan.main if name == MAIN else name: value for name, value in named.items()}
        if wants.tokens is not None:
            there = torch.arange(scores["words"].shape[1]) < wants.tokens.sum(1, keepdim=True).cpu()
            scores["words"] = scores["words"][there]
        elif self.plan.main in ("words", "arcs"):
            assert wants.words is not None, "the task asks for words"
            there = wants.words.cpu()
            scores = {name: of.flatten(2) if name == "arcs" else of[there] for name, of in scores.items()}
        device = inputs.ids.device
        return Outputs(
            scores={name: value.to(device) for name, value in scores.items()},
            sentence=sentence,
            arcs=None if arcs is None else arcs[:, None],
        )


# --- tracing --------------------------------------------------------------------------------------------------------


def example_of(graph: Graph, sizes: Mapping[str, int] = _EXAMPLE) -> dict[str, Tensor]:
    """Return inputs of these sizes, by default those that a graph is traced with."""
    sizes = {**sizes, **graph.plan.sizes, "tokens": min(sizes["tokens"], graph.network.longest or sizes["tokens"])}
    inputs = {
        name: torch.zeros(
            [sizes[axis] for axis in SHAPES[name]], dtype=torch.float32 if name == "memory" else torch.int64
        )
        for name in graph.plan.inputs
    }
    if "first" in inputs:
        inputs["first"] += torch.arange(sizes["words"])
    if "mask" in inputs:
        inputs["mask"] = torch.ones(inputs["mask"].shape, dtype=torch.bool)
    return inputs


@torch.no_grad()
def axes_of(graph: Graph) -> dict[str, list[int | str]]:
    """Return the axes of the outputs, by name: sizes, and names of those that follow from the inputs'."""
    before, after = (graph(**example_of(graph, sizes)) for sizes in (_EXAMPLE, _LARGER))
    axis_of = {_LARGER[name] - size: name for name, size in _EXAMPLE.items()}
    axes: dict[str, list[int | str]] = {name: list(value.shape) for name, value in before.items()}
    for name, sizes in axes.items():
        for number, (size, larger) in enumerate(zip(before[name].shape, after[name].shape, strict=True)):
            if axis := axis_of.get(larger - size):
                sizes[number] = f"{axis} + {size - _EXAMPLE[axis]}".removesuffix(" + 0")
    return axes


def traced(graph: Graph, form: str) -> ExportedProgram:
    """Trace a graph, for every number of sentences, tokens, words and features."""
    encoder, longest = graph.network.encoder, graph.network.longest
    if encoder.facts.untraceable is not None:
        option, instead = encoder.facts.untraceable
        hint = f"train with model.{instead}, or choose --format hf or safetensors"
        raise UsageError(f"--format {form}: model.{option} has no form in a graph", hint=hint)
    # An encoder of words has positions for them, too, and there are no more words than tokens.
    limited = ("tokens", "words") if encoder.facts.reads_first else ("tokens",)
    axes = {name: Dim(name, max=longest) if name in limited and longest else Dim(name) for name in _EXAMPLE}
    shapes = {
        name: {i: axes[axis] for i, axis in enumerate(SHAPES[name]) if axis in axes} for name in graph.plan.inputs
    }
    try:
        with torch.no_grad():
            program = torch.export.export(graph, (), example_of(graph), dynamic_shapes=shapes)
    except Exception as error:
        section: Any = encoder.section
        reason = str(error).strip().split("\n", maxsplit=1)[0]
        fault = f"--format {form}: model.kind: {section.kind} cannot be traced: {reason}"
        raise UsageError(fault, hint="choose --format safetensors") from error
    for node in program.graph.nodes:  # they name files of this machine
        for key in ("stack_trace", "nn_module_stack", "source_fn_stack"):
            node.meta.pop(key, None)
    return program
