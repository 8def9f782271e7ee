"""Exported graphs against the ordinary forward pass: every encoder, decomposition and task, as pt2 and as ONNX.

The ordinary pass picks out words and hidden tokens by masks, packs sentences, and writes gradients by hand; it is the
oracle. Of the graphs nothing is cut: the sizes are those of :mod:`probtrans_cli.export.measure`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from export_graphs import graph_of
from made_tasks import CASES_OF, TRANSFORMER, Made
from torch.export.passes import move_to_device_pass
from uncertain_networks import network as uncertain_network

from probtrans_cli import models, tasks
from probtrans_cli.errors import UsageError
from probtrans_cli.export import bundle, measure, pt2
from probtrans_cli.export.graph import Graph, Plan, axes_of, example_of, traced
from probtrans_cli.export.graph import graph_of as module_of
from probtrans_cli.export.measure import MOST
from probtrans_cli.models.base import Readout, Wants
from probtrans_cli.models.bayesian.weights import parametrized
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import LinearOutput, TiedMean, TiedOutput
from probtrans_cli.tasks.semantic import SemanticOutput

FIELD = {"kind": "probabilistic", "labels": 8, "channels": 2, "iterations": 2, "dropout": 0.0, "distance": 1}
LAYERS: dict[str, Any] = {**TRANSFORMER, "positions": {"kind": "absolute", "rows": 256}}
DECOMPOSITIONS: dict[str, dict[str, Any]] = {
    "none": {"decomposition": {"kind": "none"}},
    "uv": {"decomposition": {"kind": "uv", "rank": 4}, "distance": 3},
    "uv-everywhere": {"decomposition": {"kind": "uv", "rank": 4}, "distance": None},
    "uvw": {"decomposition": {"kind": "uvw", "rank": 4}},
    "shared": {"decomposition": {"kind": "shared", "rank": 4}, "symmetric": True},
    "rotary": {"decomposition": {"kind": "rotary", "rank": 4}, "distance": None},
}
BIAS = {"distance": 0.7, "right": 0.4, "frequency": 0.1, "rarer": 0.5, "leaning": 0.3, "leaning_head": 0.2}
BIAS |= {"branching": 0.2, "reducible": 0.3, "reducible_far": 0.1, "reducible_side": 0.2, "frequency_pair": 0.02}
BIAS |= {"phrase_end": 0.2, "phrase_end_side": 0.1, "phrase_end_next": 0.3, "punctuation": 0.5, "alone": 0.6}
OPTIONS: dict[str, dict[str, Any]] = {
    "root": {"root": {"labels": 4}},
    "root-by-factors": {"root": {"labels": 4, "decomposition": {"kind": "uv", "rank": 2}}, "output": "probabilities"},
    "all-dep": {"root": {"labels": 3}, "globals": {"kind": "all-dep", "features": 3}, "schedule": "synchronous"},
    "neural": {"globals": {"kind": "all-dep", "features": 3, "parameterization": "neural"}},
    "dep-split": {"globals": {"kind": "dep-split", "features": 3}, "damping": {"labels": 0.2, "heads": 0.3}},
    "single-split": {"globals": {"kind": "single-split", "features": 3}},
    "rectified": {"latent": "spherical", "globals": {"kind": "rectified", "features": 3}},
    "own": {"share_potentials": False, "root": {"labels": 4}, "globals": {"kind": "dep-split", "features": 3}},
    "gains": {"gains": True, "root": {"labels": 4}, "globals": {"kind": "dep-split", "features": 3}},
    "steps": {"step_size": {"labels": 0.8, "heads": 0.7}, "root": {"labels": 4}},
    "spherical": {"latent": "spherical", "root": {"labels": 4}, "message_weight": {"labels": 0.5}},
    "head-bias": {"head_bias": BIAS, "root": {"labels": 4}},
    "parser": {
        "head_labels": True,
        "root": {"labels": 4, "own_label": True},
        "channels": 3,
        "latent": "spherical",
        "decomposition": {"kind": "uv", "rank": 4},
        "distance": None,
        "factors": [{"kind": "arcs", "between": 2}, {"kind": "relations"}],
    },
}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "absolute": {},
    "relative": {"positions": {"kind": "relative", "clip": 2, "terms": "qkv"}, "norm": "pre", "share_layers": True},
    "sinusoidal": {"positions": {"kind": "sinusoidal"}, "tie_kv": True, "tie_qo": True},
    "bert": {"preset": "bert", "pooler": True},
}
STACKS: dict[str, dict[str, Any]] = {
    "field-upon-layers": {"lower": LAYERS, "upper": {**FIELD, "root": {"labels": 4}}},
    "layers-upon-field": {"lower": FIELD, "upper": LAYERS},
}
ENCODERS = {
    **{name: {**FIELD, **one} for name, one in (DECOMPOSITIONS | OPTIONS).items()},
    **{name: {**LAYERS, **one} for name, one in TRANSFORMERS.items()},
    **{name: {"kind": "stacked", "dropout": 0.0, **one} for name, one in STACKS.items()},
}
TASKS = [(kind, number) for kind in tasks.TASKS for number in range(len(CASES_OF.get(kind, ())))]
TASKS.remove(("lm", 1))  # a causal transformer has no graph


def encoder_graph(section: dict[str, Any], *, divides: bool, features: int = 0, arcs: bool = True) -> Graph:
    """The graph of a tagger with an encoder; ``divides``: words have several tokens."""
    torch.manual_seed(0)
    encoder = models.build(section)
    made: Any = encoder.section
    common = torch.arange(40.0) if made.facts.counts_words else None
    network = Network(
        40, encoder, lambda one: LinearOutput(one.facts.width, 5), feature_rows=features,
        begins=bool(encoder.facts.segment_types),
        common=common, order_cues=made.facts.order_cues,
    ).eval()  # fmt: skip
    with torch.no_grad():
        if network.order is not None:
            network.order.uniform_()
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.25)
    wants = Wants(words=torch.ones(1, 1, dtype=torch.bool))
    return Graph(network, Plan.of(network, wants, divides=divides, iteration=made.iterations if arcs else None))


STEPS: dict[str, dict[str, Any]] = {
    **{name: options for name, options in DECOMPOSITIONS.items() if name != "shared"},
    **{name: OPTIONS[name] for name in ("neural", "dep-split", "single-split", "rectified", "steps", "gains")},
    "shared": {"decomposition": {"kind": "shared", "rank": 4}},
    "chain": {"chain": True, "readout_potentials": 2, "share_potentials": False, "damping": {"labels": 0.3}},
    "serial": {"content": "serial", "chain": True},
    "variables": {"label_variables": 2, "chain": True},
    "exact": {"chain": True, "message_weight": {"labels": 1.0, "heads": 1.0}, "readout_potentials": 1, "distance": 3},
}
"""Options of a causal field, all of which have a step."""
OFTEN = ("rotary", "rectified", "gains", "chain", "variables", "exact")  # of these, the ones that CI traces


def step_of(name: str) -> Graph:
    """The graph of a language model."""
    torch.manual_seed(0)
    section = {**FIELD, **STEPS[name], "causal": True}
    section.pop("root", None)
    encoder = models.build(section)
    exact = name == "exact"
    never, gains = (0, 2), encoder.facts.width if encoder.facts.has_gains else 0

    def output(encoder: Any) -> Any:
        if exact:
            return TiedOutput(40, False, gains=gains, never=never)
        return TiedMean(40, encoder.latent_mean, gains=gains, never=never)

    network = Network(40, encoder, output).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    readout = Readout(None if exact else 2)
    wants = Wants(tokens=torch.ones(1, 1, dtype=torch.bool), readout=readout)
    return module_of(network, Plan.of(network, wants, divides=False))


def same(graph: Graph, folder: Path) -> bool:
    """Return whether both formats differ by rounding alone; traced once, as that takes most of the time."""
    pytest.importorskip("onnxruntime")
    from probtrans_cli.export import onnx

    differences, program = [], traced(graph, "pt2")
    for form, name in ((pt2, "model.pt2"), (onnx, "model.onnx")):
        form.save(graph, program, folder / name)
        run = form.opened(folder / name)
        differences.append(measure.largest_difference(graph.network, graph.plan, run).relative)
    rounding = measure.largest_rounding(graph.network, graph.plan).relative if max(differences) > MOST else 0.0
    print(differences, rounding)  # with -s
    return max(differences) <= measure.largest_rounded(rounding)


def differs(graph: Graph, network: Network | None = None) -> float:
    """How much the module differs from the network that it was made of, without tracing."""
    network = graph.network if network is None else network
    return measure.largest_difference(network, graph.plan, lambda given: graph(**given)).relative


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SENTENCES", 7)
    monkeypatch.setattr(measure, "WORDS", 30)
    monkeypatch.setattr(measure, "DRAWS", 3)


# --- without tracing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "number"), TASKS, ids=str)
def test_positions_pick_out_what_masks_do(kind: str, number: int, few: None) -> None:
    made = Made(kind, number)
    assert differs(graph_of(made), made.network) <= MOST


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_has_a_module(name: str, few: None) -> None:
    """Words of several tokens, and features of their spelling."""
    graph = encoder_graph(ENCODERS[name], divides=True, features=12)
    assert set(graph.plan.inputs) == {"ids", "mask", "features", "first"}
    assert differs(graph) <= MOST


@pytest.mark.parametrize("name", STEPS)
def test_word_by_word_is_what_the_network_gives(name: str, few: None) -> None:
    graph = step_of(name)
    assert axes_of(graph)["next_memory"] == ["batch", 3, "before + 1", 8]
    assert differs(graph) <= MOST


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in OFTEN else pytest.mark.exhaustive) for n in STEPS],
)
def test_every_step_can_be_traced(name: str, tmp_path: Path, few: None) -> None:
    assert same(step_of(name), tmp_path)


@pytest.mark.parametrize("name", [pytest.param("head-bias", marks=pytest.mark.slow), "parser"])
def test_a_field_can_be_traced(name: str) -> None:
    """With all scores of a head bias, or with the factors of `ud-probabilistic`, for sentences of any length."""
    traced(encoder_graph({**ENCODERS[name], "iterations": 1}, divides=False), "pt2")


def test_how_low_the_score_of_no_candidate_is_makes_no_difference(few: None) -> None:
    """It is another number in each form of the heads."""
    made = Made("parsing", 0)
    graph = graph_of(made)

    def run(given: Any) -> Any:
        outputs = graph(**given)
        scores = outputs["scores"]
        return {**outputs, "scores": torch.where(scores < torch.finfo(scores.dtype).min / 2, scores / 8, scores)}

    assert measure.largest_difference(made.network, graph.plan, run).relative <= MOST
    assert measure.largest_rounding(made.network, graph.plan).relative < 0.1


def test_uncertain_weights_are_their_means(tmp_path: Path, few: None) -> None:
    network = uncertain_network()
    assert parametrized(network)
    graph = Graph(network, Plan.of(network, Wants(words=torch.ones(1, 1, dtype=torch.bool)), divides=False))
    assert not parametrized(graph.network)
    pt2.save(graph, traced(graph, "pt2"), tmp_path / "model.pt2")
    run = pt2.opened(tmp_path / "model.pt2")
    assert measure.largest_difference(network.float(), graph.plan, run).relative <= MOST


def test_axes_have_the_names_of_the_inputs() -> None:
    """Sizes that are those of a batch by chance are sizes; columns behind those of tokens are told."""
    graph = encoder_graph({**FIELD, "labels": 7, "channels": 3, "root": {"labels": 3}}, divides=True)
    assert axes_of(graph) == {
        "scores": ["batch", "words", 5], "sentence": ["batch", 3], "arcs": ["batch", 3, "tokens", "tokens + 1"],
    }  # fmt: skip
    pretrained = axes_of(graph_of(Made("pretrain", 0)))
    assert pretrained["scores"][:2] == ["batch", "places"]
    assert pretrained["pair"] == ["batch", 2]
    parsed = axes_of(graph_of(Made("parsing", 0)))
    assert parsed["scores"] == ["batch", "tokens", 16, "tokens + 1"]
    assert parsed["upos"][:2] == ["batch", "tokens"]


def test_a_graph_that_is_wrong_is_noticed(few: None) -> None:
    """Whatever output it is that differs, at a word of any sentence; what stands at padding is nobody's."""
    made = Made("cogs", 1)
    graph = graph_of(made)

    def spoiled(name: str, at: Any) -> Callable[[Any], Any]:
        def run(given: Any) -> Any:
            found = graph(**given)
            found[name][at(given["mask"].sum(1) - 1)] += 0.5
            return found

        return run

    for name in ("scores", "parents"):
        wrong = spoiled(name, lambda last: (-1, last[-1], 0))
        found = measure.largest_difference(made.network, graph.plan, wrong)
        assert found.absolute == pytest.approx(0.5, abs=1e-3)
        assert MOST < found.relative <= found.absolute
        padding = spoiled(name, lambda last: (torch.arange(len(last))[last < last[0]], last[last < last[0]] + 1))
        assert measure.largest_difference(made.network, graph.plan, padding).relative <= MOST
    assert isinstance(made.network.output, SemanticOutput)


def test_rounding_that_a_network_blows_up_is_not_the_graphs(few: None, capsys: pytest.CaptureFixture[str]) -> None:
    """It does where messages drown the words; the weights are as they were, and more than that is told as a warning."""
    made = Made("openie", 0)
    plan, found = graph_of(made).plan, []
    for scale in (1.0, 8.0):
        with torch.no_grad():
            made.network.unary.weight.mul_(scale)
        before = {name: value.clone() for name, value in made.network.state_dict().items()}
        found.append(measure.largest_rounding(made.network, plan).relative)
        after = made.network.state_dict()
        assert all(after[name].dtype == value.dtype and after[name].equal(value) for name, value in before.items())
    quiet, loud = found
    assert quiet > MOST > loud > 0.0
    bundle.log_difference(10 * MOST, MOST)
    assert "warning" not in capsys.readouterr().err
    bundle.log_difference(10.1 * MOST, MOST)
    assert "warning: an output of the graph differs from the model's by 0.001 of its" in capsys.readouterr().err


def test_tree_shaped_heads_are_refused() -> None:
    field = {**FIELD, "heads": "tree"}
    for section, option in ((field, "heads"), ({"kind": "stacked", "lower": LAYERS, "upper": field}, "upper.heads")):
        with pytest.raises(UsageError) as refused:
            traced(encoder_graph(section, divides=False, arcs=False), "onnx")
        assert f"--format onnx: model.{option}: tree has no form in a graph" in refused.value.message
        assert f"train with model.{option}=independent" in str(refused.value.hint)


def test_what_a_tracer_cannot_follow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = encoder_graph(FIELD, divides=False)
    monkeypatch.setattr(graph.network.encoder, "forward", lambda *_, **__: torch.zeros(3)[torch.rand(3) > 0].nonzero())
    with pytest.raises(UsageError, match=r"--format pt2: model.kind: probabilistic cannot be traced"):
        traced(graph, "pt2")


# --- traced -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_field(tmp_path: Path, few: None) -> None:
    """With a root and near heads; then in 8 bits, of which a difference is left."""
    section = {**FIELD, "iterations": 1, "labels": 32, "root": {"labels": 3}}
    graph = encoder_graph(section, divides=False)
    assert same(graph, tmp_path)
    path = tmp_path / "model.onnx"
    before = path.stat().st_size
    from probtrans_cli.export import onnx

    onnx.quantise(path)
    assert b"MatMulInteger" in path.read_bytes()
    assert path.stat().st_size < before
    assert MOST < measure.largest_difference(graph.network, graph.plan, onnx.opened(path)).relative < 0.5


def moved(graph: Graph, folder: Path, device: str) -> Callable[[Any], Any]:
    """What runs a written program on another device."""
    if not (folder / "model.pt2").exists():
        pt2.save(graph, traced(graph, "pt2"), folder / "model.pt2")
    module = move_to_device_pass(torch.export.load(folder / "model.pt2"), device).module()
    return lambda given: module(**{name: value.to(device) for name, value in given.items()})


@pytest.mark.slow
def test_words_of_several_tokens(tmp_path: Path, few: None) -> None:
    """And features of their spelling; nothing stays behind when the program moves to a device that computes nothing."""
    graph = encoder_graph({**LAYERS, "layers": 1}, divides=True, features=12)
    assert same(graph, tmp_path)
    found = moved(graph, tmp_path, "meta")(example_of(graph))
    assert {value.device.type for value in found.values()} == {"meta"}


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")  # in what torch 2.11 loads
@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_on_a_gpu(name: str, tmp_path: Path) -> None:
    graph = encoder_graph(ENCODERS[name], divides=name in STACKS, features=12 * (name in STACKS))
    run = moved(graph, tmp_path, "cuda")
    found = measure.largest_difference(
        graph.network, graph.plan, lambda given: {name: value.cpu() for name, value in run(given).items()}
    )
    assert found.relative <= MOST


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder(name: str, tmp_path: Path) -> None:
    graph = encoder_graph(ENCODERS[name], divides=name in STACKS, features=12 * (name in STACKS))
    assert same(graph, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "number"), TASKS, ids=str)
def test_every_task(kind: str, number: int, tmp_path: Path) -> None:
    """Tuples and coordinations among them, whose rows are unrolled."""
    assert same(graph_of(Made(kind, number)), tmp_path)
