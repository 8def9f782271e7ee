"""The causal field beside loops and enumeration, and what holds of every causal model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from causal_oracle import Potentials, content, enumerated, slot
from torch import Tensor

from probtrans_cli import models
from probtrans_cli.models.base import Inputs, Readout, Wants, Words
from probtrans_cli.models.network import Network
from probtrans_cli.models.outputs import TiedLinear, TiedMean, word_output
from probtrans_cli.models.probabilistic import inference
from probtrans_cli.models.probabilistic.causal import Slots
from probtrans_cli.models.probabilistic.inference import Sentences
from probtrans_cli.recipe.base import InconsistentError

KINDS: list[dict[str, Any]] = [
    {"decomposition": {"kind": "none"}, "distance": 1},
    {"decomposition": {"kind": "none"}, "distance": None},
    {"decomposition": {"kind": "uv", "rank": 2}, "distance": 0},
    {"decomposition": {"kind": "uvw", "rank": 2}, "distance": 2},
    {"decomposition": {"kind": "shared", "rank": 2}, "distance": 9},
    {"decomposition": {"kind": "rotary", "rank": 4}},
]
OTHERS: list[dict[str, Any]] = [
    {},
    {"chain": True, "schedule": "synchronous"},
    {"globals": {"kind": "all-dep", "features": 2}, "step_size": {"labels": 0.25, "heads": 0.5}},
    {"globals": {"kind": "dep-split", "features": 2}, "message_weight": {"labels": 0.7, "heads": 1.5, "features": 0.4}},
    {"globals": {"kind": "single-split", "features": 2}, "share_potentials": False, "chain": True},
    {"globals": {"kind": "rectified", "features": 3}, "latent": "spherical", "gains": True, "chain": True},
    {"damping": {"labels": 0.3, "heads": 0.2}, "content": "serial"},
    {"readout_potentials": 2, "chain": True, "globals": {"kind": "rectified", "features": 9}},
]
SEVERAL: dict[str, Any] = {"label_variables": 2, "labels": 6, "channels": 4}
OF_SEVERAL: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (kind, {**others, **SEVERAL})
    for kind in KINDS
    for others in OTHERS
    if kind["decomposition"]["kind"] != "uvw" and others.get("latent") != "spherical"
]


def encoder(messages: str = "fast", seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    sizes = {"labels": 3, "channels": 2, "iterations": 2, "dropout": 0.0, "gains": False}
    model = models.build({"kind": "probabilistic", "causal": True, **sizes, **options}, messages).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("gains"):
                parameter.uniform_(0.5, 1.5)
    return model


def potentials(model: Any, *, readout: bool = False) -> list[Potentials]:
    """Return the potentials of each iteration, or round of a readout, as nested lists."""
    rows = []
    for number, parts in enumerate(model.readout_potentials if readout else model.potentials, 1):

        def ternary(x: int, parts: Any = parts, number: int = number) -> Any:
            if not readout:
                return model.ternary_scores([x], number)[0].tolist()
            if model.section.decomposition.kind == "rotary":
                return parts.ternary.at([x])[0].tolist()
            return parts.ternary.dense()[min(x - 1, model.section.distance or 0)].tolist()

        features = None if parts.features is None else parts.features.dense().tolist()
        chain = None if parts.chain is None else parts.chain.C.tolist()
        rows.append(Potentials(ternary, parts.root.dense().tolist(), features, chain))
    return rows


@pytest.mark.parametrize(("kind", "others"), [*itertools.product(KINDS, OTHERS), *OF_SEVERAL], ids=str)
def test_content_and_readout_are_those_of_loops(kind: dict[str, Any], others: dict[str, Any]) -> None:
    options = kind | others
    model, generator = encoder(**options), torch.Generator().manual_seed(1)
    unary = torch.randn(4, model.section.labels, generator=generator).double()
    prior = torch.randn(model.section.labels, generator=generator).double()
    mask = torch.ones(1, 4, dtype=torch.bool)
    read = model(Words(unary[None], mask), arcs=True)
    hidden = model(Words(unary[None], mask, readout=Readout(3, prior))).states[0]
    of_loops, of_readout = potentials(model), potentials(model, readout=True)
    slots = content(model.section, unary.tolist(), of_loops)
    # The mean of a spherical latent is an approximation, see `spherical_mean`.
    close = {"abs": 2e-3, "rel": 2e-3} if model.section.latent == "spherical" else {"abs": 1e-12, "rel": 1e-12}
    for t, expected in enumerate(slots):
        assert read.states[0, t].tolist() == pytest.approx(expected.scores[-1], **close)
        for iteration in (1, 2):
            row, heads = read.arcs[0, iteration - 1, :, t], np.array(expected.heads[iteration])
            assert np.abs(row[:, :t].detach().numpy() - heads[:, :t]).max(initial=0.0) < close["abs"]
            assert np.abs(row[:, 4:].detach().numpy() - heads[:, t:]).max() < close["abs"]
        q = [before.labels[-1] for before in slots[:t]]
        loops = slot(model.section, prior.tolist(), lambda _, q=q: q, of_readout, 3, hidden=True)  # type: ignore[misc]
        assert hidden[t].tolist() == pytest.approx(loops.scores[-1], **close)


@pytest.mark.parametrize(
    ("kind", "of", "variables"),
    [
        *itertools.product(KINDS[:5], [None, "all-dep", "dep-split", "single-split"], [1]),
        *itertools.product([KINDS[0], KINDS[2], KINDS[4]], [None, "all-dep", "dep-split"], [2]),
        (KINDS[1], None, 4),
    ],
    ids=str,
)
def test_the_exact_readout_is_that_of_enumeration(kind: dict[str, Any], of: str | None, variables: int) -> None:
    others: dict[str, Any] = {} if of is None else {"globals": {"kind": of, "features": 2}}
    if variables > 1:
        others |= {"label_variables": variables, "labels": 2 * variables, "channels": variables}
    model = encoder(**kind, **others, chain=True, message_weight={"labels": 1.0, "heads": 1.0}, readout_potentials=1)
    output: Any = word_output("tied", model, 4, (), tied=True).double()
    torch.nn.init.normal_(output.bias)
    S = torch.randn(4, model.section.labels).double()
    ids, mask = torch.tensor([[1, 3, 0, 2]]), torch.ones(1, 4, dtype=torch.bool)
    log_mu = model(Words(S[ids], mask, readout=Readout(None))).states[0]
    p = output(log_mu, S).softmax(-1)
    (of_readout,) = potentials(model, readout=True)
    slots = content(model.section, S[ids][0].tolist(), potentials(model))
    for t in range(4):
        q = [before.labels[-1] for before in slots[:t]]
        expected = enumerated(S.tolist(), output.bias.tolist(), q, of_readout, model.section)
        assert p[t].tolist() == pytest.approx(expected, rel=1e-12)


def test_the_worked_example() -> None:
    model = encoder(
        labels=2, channels=1, iterations=1, decomposition={"kind": "none"}, distance=None, content="serial",
        message_weight={"labels": 1.0, "heads": 1.0},
    )  # fmt: skip
    S = torch.tensor([[1.5, -1.5], [2, -2], [-2, 2], [2, -2]]).double()
    network = Network(4, model, lambda encoder: TiedMean(4, encoder.latent_mean), padding=3).double()  # type: ignore[arg-type]
    with torch.no_grad():
        network.unary.weight.copy_(S)
        network.output.bias.copy_(torch.tensor([1.0, 0, 0, 0]))
        model.ternary.T.copy_(torch.tensor([[0.0, 2], [1, 0]]))
        model.root.r.copy_(torch.tensor([[0.0, 1.5]]))
    mask = torch.ones(1, 4, dtype=torch.bool)
    states = model(Words(S[None, [0, 1, 2, 0]], mask)).states[0].softmax(-1)
    assert states[:3].tolist() == [
        pytest.approx(row, abs=5e-4) for row in ([0.818, 0.182], [0.957, 0.043], [0.006, 0.994])
    ]
    scores = network(Inputs(ids=torch.tensor([[0, 1, 2, 0]]), mask=mask), Wants(tokens=mask, readout=Readout(2)))
    assert scores.scores["words"][3].tolist() == pytest.approx([2.368, 1.824, -1.824, 1.824], abs=5e-4)
    parallel = encoder(**model.section.model_dump(exclude={"kind", "causal", "content"}))
    parallel.load_state_dict(model.state_dict())
    states = parallel(Words(S[None, [0, 1]], mask[:, :2])).states.detach().softmax(-1)
    assert float(states[0, 1, 0]) == pytest.approx(0.945, abs=5e-4)


def predictions(network: Any, ids: Tensor, mask: Tensor, rounds: int | None = 2) -> Tensor:
    wants = Wants(tokens=mask, readout=Readout(rounds))
    scores = network(Inputs(ids=ids, mask=mask), wants).scores["words"]
    return scores.new_zeros(*ids.shape, scores.shape[-1]).masked_scatter(mask[:, :, None], scores)


def networks() -> list[Any]:
    """Return networks of every kind, with vectors of words that differ."""
    several = [{**kind, **others} for kind, others in OF_SEVERAL[:: len(OTHERS)]]
    found = []
    for number, options in enumerate([KINDS[1], KINDS[5], *({**KINDS[3], **others} for others in OTHERS), *several]):
        model = encoder(seed=number, **options)
        found.append(Network(9, model, lambda encoder: TiedMean(9, encoder.latent_mean)).double())  # type: ignore[arg-type]
    sizes = {"width": 8, "heads": 2, "inner": 8, "layers": 2, "dropout": 0.0, "embedding_dropout": 0.0}
    of_transformers = [{"norm": "pre", "chain": True}, {"positions": {"kind": "relative", "clip": 2}}]
    for options in (*of_transformers, {"share_layers": True}):
        transformer = models.build({"kind": "transformer", "causal": True, **sizes, **options}).double()
        torch.nn.init.normal_(transformer.first)
        found.append(Network(9, transformer, lambda _: TiedLinear(9)).double())
    for network in found:
        torch.nn.init.normal_(network.unary.weight[1:], std=0.5)
        torch.nn.init.normal_(network.words.bias)
        network.eval()
    return found


def test_no_word_is_predicted_from_itself_or_later_ones_and_no_text_from_others() -> None:
    ids = torch.tensor([[3, 4, 5, 6, 7, 3], [8, 3, 4, 5, 1, 1]])
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    for network in networks():
        before = predictions(network, ids, mask)
        assert torch.equal(before, predictions(network, ids, mask))
        for t in range(6):
            other = ids.clone()
            other[0, t] = 8
            now = predictions(network, other, mask)
            assert torch.equal(now[0, : t + 1], before[0, : t + 1]), (network, t)
            assert t == 5 or not torch.allclose(now[0, t + 1], before[0, t + 1]), (network, t)
        alone = predictions(network, ids[1:, :4], mask[1:, :4])
        assert torch.allclose(alone[0], before[1, :4], rtol=1e-12, atol=1e-12)


def test_fast_and_plain_messages_agree_and_every_parameter_learns() -> None:
    pairs = [(KINDS[number % len(KINDS)], others) for number, others in enumerate([*OTHERS, *OTHERS[:5]])]
    for number, (kind, others) in enumerate([*pairs, *OF_SEVERAL[::3]]):
        fast, plain = (encoder(form, seed=number, **kind | others) for form in ("fast", "plain"))
        plain.load_state_dict(fast.state_dict())
        mask = torch.arange(5) < torch.tensor([[5], [3]])
        unary, prior = torch.randn(2, 5, d := fast.section.labels).double(), torch.randn(d).double()
        states, gradients = [], []
        for model in (fast, plain):
            state = model(Words(unary, mask, readout=Readout(2, prior))).states
            states.append(state)
            gradients.append(torch.autograd.grad(state[mask].square().sum(), list(model.parameters())))
        assert torch.allclose(*states, rtol=1e-10, atol=1e-12)
        for (name, _), *pair in zip(fast.named_parameters(), *gradients, strict=True):
            assert torch.allclose(*pair, rtol=1e-8, atol=1e-10), name
            assert float(pair[0].abs().max()) > 0.0, name


@pytest.mark.parametrize("others", OTHERS, ids=str)
def test_derivatives_by_autograd_are_those_of_torch_func(
    others: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, plain = encoder(**KINDS[2], **others), encoder("plain", **KINDS[2], **others)
    words = Words(torch.randn(2, 5, 3).double(), torch.arange(5) < torch.tensor([[5], [3]]))
    with torch.inference_mode():
        expected = plain(words).states
    monkeypatch.setattr(inference, "grad", None)  # it imports the compiler, which takes seconds
    assert torch.equal(plain(words).states, expected)
    with torch.inference_mode():
        model(words)
    assert model.check_forms() is None


@pytest.mark.parametrize(("kind", "others"), [*itertools.product(KINDS, OTHERS), *OF_SEVERAL[::4]], ids=str)
def test_word_by_word_is_what_reading_again_gives(kind: dict[str, Any], others: dict[str, Any]) -> None:
    model = encoder(**kind, **others)
    exact = kind["decomposition"]["kind"] != "rotary" and "latent" not in others
    _compare_with_memory(
        model, [Readout(2, torch.randn(model.section.labels).double()), *([Readout(None)] if exact else [])]
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positions": {"kind": "relative", "clip": 2, "terms": "qkv"}},
        {"positions": {"kind": "sinusoidal"}},
        {"positions": {"kind": "none"}, "norm": "pre", "chain": True},
        {"share_layers": True, "norm": "pre", "tie_kv": True, "tie_qo": True},
    ],
    ids=str,
)
def test_a_transformer_word_by_word_is_what_reading_again_gives(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    sizes = {"width": 3, "heads": 1, "inner": 12, "layers": 2}
    model = models.build({"kind": "transformer", "causal": True, **sizes, **options})  # type: ignore[arg-type]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    _compare_with_memory(model.double().eval(), [Readout()])


@torch.no_grad()
def test_the_chain_of_a_transformer_adds_a_matrix_of_the_word_before() -> None:
    options = {"kind": "transformer", "causal": True, "width": 4, "heads": 2, "inner": 6, "layers": 1, "norm": "pre"}
    chained, plain = (models.build({**options, "chain": chain}).double().eval() for chain in (True, False))
    plain.load_state_dict({name: value for name, value in chained.state_dict().items() if not name.startswith("chain")})
    unary, mask = torch.randn(2, 5, 4).double(), torch.ones(2, 5, dtype=torch.bool)
    before = torch.cat([torch.zeros(2, 1, 4).double(), unary[:, :-1]], dim=1)
    expected = plain(Words(unary + before @ chained.chain.weight.T, mask)).states
    assert torch.allclose(chained(Words(unary, mask)).states, expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def _compare_with_memory(model: Any, readouts: list[Readout]) -> None:
    unary, mask = torch.randn(2, 6, model.facts.width).double(), torch.ones(2, 6, dtype=torch.bool)
    expected = [model(Words(unary, mask, readout=readout)).states for readout in readouts]
    memory: Any = ()
    for t in range(6):
        for readout, states in zip(readouts, expected, strict=True):
            state = model.foretell(2, memory, readout)[:, 0]
            assert torch.allclose(state, states[:, t], rtol=1e-12, atol=1e-12)
        memory = model.read_on(unary[:, t : t + 1], memory)


def test_gradients_go_through_the_prefix() -> None:
    model = encoder(**KINDS[3], chain=True, globals={"kind": "all-dep", "features": 2})
    mask, prior = torch.ones(1, 3, dtype=torch.bool), torch.randn(3).double()

    def states(unary: Tensor) -> Tensor:
        state: Tensor = model(Words(unary, mask, readout=Readout(2, prior))).states
        return state

    unary = torch.randn(1, 3, 3).double().requires_grad_()
    torch.autograd.gradcheck(states, (unary,))
    (gradient,) = torch.autograd.grad(states(unary)[0, 2].sum(), unary)
    assert gradient[0, 0].abs().max() > 0
    assert gradient[0, 2].abs().max() == 0


def test_updates_of_a_slot_never_raise_its_free_energy() -> None:
    for number, others in enumerate([*OTHERS[:5], *({**others, **SEVERAL} for others in OTHERS[:3])]):
        exactly: dict[str, Any] = {"step_size": {}, "damping": {}, "schedule": "asynchronous"}
        model = encoder("plain", seed=number, **KINDS[number % 3] | others | exactly)
        mask, unary = torch.ones(1, 5, dtype=torch.bool), torch.randn(1, 5, model.section.labels).double()
        prefix = model.latent_mean(torch.randn(1, 5, model.section.labels).double())
        slots = Slots(Sentences(unary, mask), model.factors()[:1], model.inference, prefixes=[prefix])
        slots.Q = slots.Q._replace(prefix=prefix)
        energies = [float(slots.energy(slots.Q).detach())]
        for _ in range(6):
            slots.iterate()
            energies.append(float(slots.energy(slots.Q).detach()))
        assert all(after <= before + 1e-12 for before, after in itertools.pairwise(energies)), others
        assert energies[-1] < energies[0] - 1e-6


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"heads": "tree"}, "heads"),
        ({"head_bias": {}}, "head_bias"),
        ({"symmetric": True}, "symmetric"),
        ({"factors": [{"kind": "neighbours"}]}, "factors"),
        ({"root": {}}, "root"),
        ({"causal": False, "chain": True}, "chain"),
        ({"causal": False, "content": "serial"}, "content"),
        ({"causal": False, "readout_potentials": 1}, "readout_potentials"),
        ({"causal": False, "label_variables": 3}, "label_variables"),
        ({"label_variables": 2}, "3 labels"),
        ({"label_variables": 3}, "2 channels"),
        ({**SEVERAL, "latent": "spherical"}, "latent"),
        ({**SEVERAL, **KINDS[3]}, "decomposition"),
    ],
)
def test_what_looks_at_later_words_is_refused_by_name(options: dict[str, Any], key: str) -> None:
    with pytest.raises(InconsistentError) as error:
        encoder(**options)
    assert key in str(error.value)


def test_a_causal_transformer_is_gpt2() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=7, n_embd=8, n_layer=2, n_head=2, n_inner=12, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    section = {
        "kind": "transformer", "causal": True, "width": 8, "heads": 2, "inner": 12, "layers": 2, "norm": "pre",
        "bias": "all", "activation": "gelu_tanh", "positions": {"kind": "absolute", "rows": 7},
    }  # fmt: skip
    network = Network(11, models.build(section), lambda _: TiedLinear(11)).eval()
    source, ours = theirs.transformer, network.encoder
    with torch.no_grad():
        network.unary.weight.copy_(source.wte.weight)
        ours.positions.copy_(source.wpe.weight)
        for layer, block in zip(ours.layers, source.h, strict=True):
            pairs = [
                (layer.projections, block.attn.c_attn),
                (layer.output, block.attn.c_proj),
                (layer.widen, block.mlp.c_fc),
                (layer.narrow, block.mlp.c_proj),
            ]
            for linear, convolution in pairs:
                linear.weight.copy_(convolution.weight.T)
                linear.bias.copy_(convolution.bias)
            for norm, other in ((layer.attention_norm, block.ln_1), (layer.norm, block.ln_2)):
                norm.load_state_dict(other.state_dict())
        ours.final_norm.load_state_dict(source.ln_f.state_dict())
    ids, mask = torch.randint(11, (3, 7)), torch.ones(3, 7, dtype=torch.bool)
    expected = theirs(ids).logits[:, :-1]
    assert torch.allclose(predictions(network, ids, mask)[:, 1:], expected, atol=1e-5)
