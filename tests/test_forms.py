"""The fast forms of the messages (`banded`, `linear`) against the plain one: values, gradients, dropout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jaxtyping
import pytest
import torch
from small_models import DECOMPOSITIONS, GLOBALS, encoder, name, sentences, with_distances
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from probtrans_cli.models import Encoded
from probtrans_cli.models.probabilistic import bands, dropout, fused, layout, linear, meanfield, products
from probtrans_cli.models.probabilistic.dropout import Dropout
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.layout import Layout

FAST = ("banded", "linear")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"schedule": "synchronous"},
    {"root": {"labels": 4}},
    {"root": {"labels": 4, "decomposition": {"kind": "uvw", "rank": 2}}, "schedule": "synchronous"},
    *({"globals": one} for one in GLOBALS),
    {"step_size": {"labels": 0.7, "heads": 0.6}, "damping": {"labels": 0.3, "heads": 0.4}},
    {"message_weight": {"labels": 1.3, "heads": 0.5}},
    {
        "root": {"labels": 3},
        "globals": GLOBALS[0],
        "step_size": {"labels": 0.7, "heads": 0.6},
        "damping": {"labels": 0.3, "heads": 0.4},
        "schedule": "synchronous",
        "iterations": 3,
    },
    {"heads": "tree"},
    {"heads": "tree", "root": {"labels": 3}, "globals": GLOBALS[2], "damping": {"heads": 0.2}},
]
LENGTHS = [18, 1, 5, 2]  # longer than a block of the linear form and than the band


@pytest.fixture(params=["packed", "padded"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Rows of real words only, or of all positions."""
    monkeypatch.setattr(layout, "WORTH_PACKING", -1.0 if request.param == "packed" else 2.0)
    return request.param


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shape annotations take most of the time of models as small as these; other files have them checked."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 words, and chunks of shared bands of a few: smaller than the sentences."""
    monkeypatch.setattr(linear, "BLOCK", 1)
    monkeypatch.setattr(fused, "BLOCK", 1)
    monkeypatch.setattr(bands, "CHUNK", 60)


def forms(model: ProbabilisticEncoder, *which: str) -> Iterator[str]:
    """The model in one form of the messages after the other."""
    for messages in which:
        model.messages = messages  # type: ignore[assignment]
        yield messages


def gradients(model: ProbabilisticEncoder, unary: torch.Tensor, encoded: Encoded, **how: Any) -> list[torch.Tensor]:
    """The gradients of a loss, of the unary scores and of all parameters."""
    wanted = [unary, *model.parameters()]
    found = torch.autograd.grad(loss(encoded), wanted, materialize_grads=True, **how)
    return list(found)


def loss(encoded: Encoded, seed: int = 1) -> torch.Tensor:
    """A random linear function of everything that is differentiable."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros((), dtype=encoded.states.dtype)
    for part in (encoded.states, encoded.sentence, encoded.arcs):
        if part is not None:
            weights = torch.randn(part.shape, generator=generator, dtype=torch.float64)
            total = total + (part * weights.to(part.dtype)).sum()
    return total


def assert_near(found: Any, expected: Any, tolerance: float) -> None:
    """Two lists of tensors, each up to ``tolerance`` of its largest entry."""
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert left.shape == right.shape
        assert left.isfinite().all()
        if right.numel():
            scale, difference = 1.0 + float(right.detach().abs().max()), float((left - right).detach().abs().max())
            assert difference / scale < tolerance, f"{difference} of {scale}"


def values(encoded: Encoded) -> list[torch.Tensor]:
    return [part for part in (encoded.states, encoded.sentence, encoded.arcs) if part is not None]


# --- values and gradients ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("options", OPTIONS, ids=name)
@pytest.mark.parametrize("scores", with_distances(DECOMPOSITIONS, [None, 0, 3]), ids=name)
def test_the_fast_forms_equal_the_plain_one(
    scores: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1e-10 in float64, 1e-5 in float32, of the largest entry; every option with every decomposition and distance."""
    model = encoder(**scores, **options, messages="plain")
    unary, mask = sentences(LENGTHS)
    unary.requires_grad_()
    plain = model(unary, mask)
    expected = gradients(model, unary, plain)
    packings = [-1.0, 2.0] if OPTIONS.index(options) % 2 else [2.0, -1.0]  # and the other way round in float32
    fast = FAST[:1] if options.get("heads") == "tree" else FAST

    def compare(unary: torch.Tensor, tolerance: float) -> None:
        for _, packing in zip(forms(model, *fast), packings, strict=False):
            monkeypatch.setattr(layout, "WORTH_PACKING", packing)
            found = model(unary, mask)
            assert_near(values(found), values(plain), tolerance)
            assert_near(gradients(model, unary, found), expected, tolerance)

    compare(unary, 1e-10)
    model.float()
    packings.reverse()
    compare(unary.detach().float().requires_grad_(), 1e-5)


@pytest.mark.usefixtures("_small_pieces", "rows")
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[1], OPTIONS[-3]], ids=name)
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_what_compilers_and_other_devices_see(
    decomposition: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fast forms in plain operations, without gradients by hand."""
    model = encoder(
        decomposition=decomposition,
        distance=None if decomposition["kind"] == "rotary" else 2,
        **options,
        messages="plain",
    )
    unary, mask = sentences(LENGTHS)
    unary.requires_grad_()
    plain = model(unary, mask)
    expected = gradients(model, unary, plain)
    for module in (bands, dropout, meanfield, products):
        monkeypatch.setattr(module, "by_hand", lambda _: False)
    for _ in forms(model, *FAST):
        found = model(unary, mask)
        assert_near(values(found), values(plain), 1e-10)
        assert_near(gradients(model, unary, found), expected, 1e-10)


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("options", [OPTIONS[-3]], ids=name)
@pytest.mark.parametrize("scores", with_distances(DECOMPOSITIONS, [None, 0, 3]), ids=name)
def test_arcs_and_their_gradients_are_equal_too(scores: dict[str, Any], options: dict[str, Any]) -> None:
    model = encoder(**scores, **options, messages="plain")
    unary, mask = sentences([6, 1, 3])
    unary.requires_grad_()
    plain = model(unary, mask, arcs=True)
    expected = gradients(model, unary, plain)
    for _ in forms(model, *FAST):
        found = model(unary, mask, arcs=True)
        assert_near(values(found), values(plain), 1e-10)
        assert_near(gradients(model, unary, found), expected, 1e-10)


@pytest.mark.parametrize("lengths", [[1, 1], [2], [20]], ids=name)
@pytest.mark.parametrize("scores", with_distances(DECOMPOSITIONS, [None, 0, 3]), ids=name)
def test_batches_without_padding(scores: dict[str, Any], lengths: list[int]) -> None:
    """One word, two words, sentences shorter than the band of near words."""
    model = encoder(**scores, root={"labels": 3}, messages="plain")
    unary, mask = sentences(lengths)
    unary.requires_grad_()
    plain = model(unary, mask)
    expected = gradients(model, unary, plain)
    for _ in forms(model, *FAST):
        found = model(unary, mask)
        assert_near(values(found), values(plain), 1e-10)
        assert_near(gradients(model, unary, found), expected, 1e-10)


@pytest.mark.usefixtures("_small_pieces", "rows")
@pytest.mark.parametrize("options", [OPTIONS[1], OPTIONS[6], OPTIONS[-3], OPTIONS[-1]], ids=name)
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_states_of_wanted_positions(decomposition: dict[str, Any], options: dict[str, Any]) -> None:
    """``at`` changes neither the states of these positions nor gradients, root and arcs."""
    model = encoder(decomposition=decomposition, distance=None if decomposition["kind"] == "rotary" else 2, **options)
    unary, mask = sentences(LENGTHS)
    unary.requires_grad_()
    at = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    at[0] = False  # a sentence of which nothing is wanted; ``at`` may be True on padding
    for messages in forms(model, "plain", *(() if options.get("heads") == "tree" else ("linear",)), "banded"):
        arcs = messages == "banded"
        whole, some = model(unary, mask, arcs=arcs), model(unary, mask, arcs=arcs, at=at)
        there = (at & mask)[:, :, None]
        some, whole = (Encoded(one.states * there, one.sentence, one.arcs) for one in (some, whole))
        assert_near(values(some), values(whole), 1e-12)
        assert_near(gradients(model, unary, some), gradients(model, unary, whole), 1e-12)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("messages", ["plain", *FAST])
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_what_stands_at_padding_is_nobodys(
    garbage: float, messages: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "WORTH_PACKING", -1.0 if packed else 2.0)
    model = encoder(messages=messages, root={"labels": 3})
    unary, mask = sentences([5, 1, 3])
    expected = model(unary, mask, arcs=messages == "plain")
    dirty = unary.masked_fill(~mask[:, :, None], garbage).requires_grad_()
    found = model(dirty, mask, arcs=messages == "plain")
    assert_near(values(found), values(expected), 1e-12)
    (gradient,) = torch.autograd.grad(found.states.sum(), dirty)
    assert gradient.isfinite().all()
    assert not gradient[~mask].any()


@pytest.mark.parametrize("messages", FAST)
def test_padding_between_words(messages: str) -> None:
    """Distances are those of the padded batch, as in the plain form; such sentences are not packed."""
    model = encoder(messages="plain", root={"labels": 3})
    unary, mask = sentences([8, 8, 2])
    mask[1] = torch.tensor([True, False, False, True, False, False, False, True])
    expected = model(unary, mask)
    model.messages = messages  # type: ignore[assignment]
    assert_near(values(model(unary, mask)), values(expected), 1e-12)


@pytest.mark.parametrize("options", [{}, {"damping": {"heads": 0.3}}], ids=name)
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_batches_of_no_words_and_of_no_sentences(messages: str, options: dict[str, Any]) -> None:
    model = encoder(messages=messages, **options)
    for shape in ((2, 0), (0, 3)):
        found = model(torch.zeros(*shape, model.width, dtype=torch.float64), torch.zeros(shape, dtype=torch.bool))
        assert found.states.shape == (*shape, model.width)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("options", [{}, {"damping": {"heads": 0.3}}], ids=name)
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_switching_to_evaluation_before_the_backward_pass(messages: str, options: dict[str, Any]) -> None:
    """What is computed again must be what was computed."""
    found = []
    for switch in (False, True):
        model = encoder(dropout=0.5, messages=messages, **options).train()
        unary, mask = sentences([20, 3])
        torch.manual_seed(0)
        states = model(unary.requires_grad_(), mask).states
        model.train(not switch)
        found.append(torch.autograd.grad(states.square().sum(), [unary, *model.parameters()]))
    assert_near(found[1], found[0], 1e-12)


def test_messages_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="auto, plain, banded, linear, not 'fast'"):
        encoder(messages="fast")


def test_the_norm_of_no_scores_has_a_gradient() -> None:
    model = encoder()
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    gradients = torch.autograd.grad(model.penalty(squared=False), list(model.ternary.parameters()))
    assert all(not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_no_wanted_position(messages: str) -> None:
    model = encoder(messages=messages, root={"labels": 3})
    unary, mask = sentences([4, 2])
    nothing = model(unary, mask, at=torch.zeros_like(mask))
    assert not nothing.states.any()
    torch.testing.assert_close(nothing.sentence, model(unary, mask).sentence)


def test_the_form_is_chosen_by_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from probtrans_cli.models.probabilistic import encoder as module

    _, mask = sentences([20, 3])
    model = encoder()
    assert model._method(mask, dense=False) == "banded"
    monkeypatch.setattr(module, "LONG", 100)
    assert model._method(mask, dense=False) == "linear"
    assert model._method(mask, dense=True) == "dense"
    assert encoder(heads="tree")._method(mask, dense=False) == "dense"
    for messages in ("plain", "banded", "linear"):
        assert encoder(messages=messages)._method(mask, dense=False) == messages


@pytest.mark.parametrize("lengths", [[5], [3, 3], [7, 1, 2, 4, 7, 3, 3, 1, 1], [0, 4, 0, 2], [0, 0]], ids=name)
def test_short_sentences_share_lines(lengths: list[int]) -> None:
    """Every word has one place, each sentence stands in one line in its order, and no line is longer than needed."""
    mask = torch.arange(max(*lengths, 8)) < torch.tensor(lengths)[:, None]
    mask = mask.roll(1, 1) if max(lengths) < 8 else mask  # padding may stand before a sentence, too
    packed = Layout.of(mask, packed=True)
    assert packed.index is not None
    assert packed.place is not None
    b, n = mask.shape
    assert sorted(packed.index.tolist()) == mask.flatten().nonzero()[:, 0].tolist()
    assert packed.sentence.shape[1] == max(1, *lengths)
    assert packed.sentence.shape[0] <= b
    assert torch.equal(packed.sentence.flatten()[packed.place], packed.index // n)
    assert int((packed.sentence >= 0).sum()) == sum(lengths)
    for line in packed.sentence.tolist():
        words = [one for one in line if one >= 0]
        assert words == sorted(words, key=words.index)  # no sentence is interrupted
    numbers = torch.arange(b * n).view(b, n)
    assert torch.equal(packed.grid(packed.rows(numbers)), numbers * mask)
    rows = torch.randn(len(packed.index), 3, 2)
    lines = packed.to_channels(rows)
    assert torch.equal(packed.from_channels(lines), rows)
    steps = packed.index.diff()[packed.place.diff() == 1]  # neighbours on a line: of one sentence, or a new one begins
    assert all(step == 1 or step % n != 1 for step in steps.tolist())


def test_lines_are_as_few_as_first_fit_makes_them() -> None:
    mask = torch.arange(10) < torch.tensor([10, 5, 5, 3, 3, 3, 1])[:, None]
    assert len(Layout.of(mask, packed=True).sentence) == 3
    assert len(Layout.of(mask, packed=True, merge=False).sentence) == 7


class Memory(TorchDispatchMode):
    """``largest``: bytes of the largest tensor that an operation gives; ``kept``: of all that gradients need."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.kept: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self.largest = max(self.largest, one.untyped_storage().nbytes())
        return result

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor


def growth(messages: str, options: dict[str, Any]) -> list[float]:
    """By what factors the largest tensor and all that is kept grow with twice the words, forward and backward."""
    found = []
    for words in (256, 512):
        model = encoder(decomposition={"kind": "uv", "rank": 4}, dropout=0.1, messages=messages, **options).train()
        unary, mask = sentences([words])
        with Memory() as memory:
            with torch.autograd.graph.saved_tensors_hooks(memory.keep, lambda one: one):
                states = model(unary.requires_grad_(), mask).states
            states.sum().backward()
        found.append((memory.largest, sum(memory.kept.values())))
    return [float(more / less) for less, more in zip(*found, strict=True)]


@pytest.mark.parametrize("options", [{}, {"schedule": "synchronous"}, {"damping": {"heads": 0.3}}], ids=name)
def test_memory_of_the_linear_form_grows_with_the_length_alone(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "BLOCK", 2**12)
    monkeypatch.setattr(fused, "BLOCK", 2**12)
    assert max(growth("linear", options)) < 2.1
    assert max(growth("banded", options)) > 3.0


# --- several backward passes ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("messages", ["plain", *FAST])
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_backward_passes_through_one_graph_do_not_mix(decomposition: dict[str, Any], messages: str) -> None:
    """Gradients of weights are accumulated by hand: each pass gets its own, whatever was asked for before."""
    options = {"decomposition": decomposition, "distance": None if decomposition["kind"] == "rotary" else 1}
    model = encoder(**options, messages=messages)
    unary, mask = sentences([18, 3])
    unary.requires_grad_()
    weights = list(model.parameters())

    def fresh(seed: int) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(loss(model(unary, mask), seed), [unary, *weights])

    first, second = fresh(1), fresh(2)
    encoded = model(unary, mask)
    one, two = loss(encoded, 1), loss(encoded, 2)
    keep: dict[str, Any] = {"retain_graph": True}
    assert_near(torch.autograd.grad(one, unary, **keep), first[:1], 1e-12)  # leaves the weights' sums behind
    assert_near(torch.autograd.grad(two, weights, **keep), second[1:], 1e-12)
    assert_near(torch.autograd.grad(one, weights, **keep), first[1:], 1e-12)
    assert_near(torch.autograd.grad(one, weights[:1], **keep), first[1:2], 1e-12)
    assert_near(torch.autograd.grad(two, weights[-1:], **keep), second[-1:], 1e-12)
    for _ in range(2):
        assert_near(torch.autograd.grad(two, [unary, *weights], **keep), second, 1e-12)
    sums = [left + right for left, right in zip(first, second, strict=True)]
    assert_near(torch.autograd.grad(one + two, [unary, *weights], **keep), sums, 1e-12)
    for weight in weights:
        weight.grad = None
    one.backward(retain_graph=True)
    two.backward()
    assert_near([weight.grad for weight in weights], sums[1:], 1e-12)


@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_two_batches_in_one_backward_pass(messages: str) -> None:
    model = encoder(messages=messages)
    weights = list(model.parameters())
    batches = [sentences([6, 2], seed=seed) for seed in (0, 1)]
    parts = [torch.autograd.grad(loss(model(*batch)), weights) for batch in batches]
    whole = torch.autograd.grad(sum(loss(model(*batch)) for batch in batches), weights)
    assert_near(whole, [left + right for left, right in zip(*parts, strict=True)], 1e-12)


def test_frozen_weights_and_no_gradients_at_all() -> None:
    model = encoder(decomposition={"kind": "uv", "rank": 3})
    unary, mask = sentences([6, 2])
    unary.requires_grad_()
    expected = gradients(model, unary, model(unary, mask))
    model.ternary.U.requires_grad_(False)
    only = torch.autograd.grad(loss(model(unary, mask)), [unary, model.ternary.V])
    assert_near(only, [expected[0], expected[2]], 1e-12)
    with torch.inference_mode():
        assert_near([model(unary, mask).states], [model(unary, mask, arcs=True).states], 1e-12)


GRADCHECK: list[dict[str, Any]] = [
    {"decomposition": {"kind": "none"}, "distance": 1},
    {"decomposition": {"kind": "uv", "rank": 2}, "distance": 1},
    {"decomposition": {"kind": "shared", "rank": 2}, "distance": 1},
    {"decomposition": {"kind": "rotary", "rank": 2}},
    {
        "decomposition": {"kind": "uvw", "rank": 2},
        "distance": 0,
        "root": {"labels": 2},
        "globals": {"kind": "all-dep", "features": 2},
        "damping": {"labels": 0.2, "heads": 0.3},
    },
]


@pytest.mark.parametrize("messages", ["plain", *FAST])
@pytest.mark.parametrize("options", GRADCHECK, ids=name)
def test_gradcheck(options: dict[str, Any], messages: str) -> None:
    model = encoder(**options, labels=3, messages=messages, message_weight={"heads": 1.0})
    unary, mask = sentences([4, 1], labels=3)
    check(model, unary, mask)


def check(model: ProbabilisticEncoder, unary: torch.Tensor, mask: torch.Tensor, seed: int | None = None) -> None:
    """``gradcheck`` of states (and sentence) by unary scores and all weights; ``seed``: set before every run."""
    names = [one for one, _ in model.named_parameters()]

    def run(unary: torch.Tensor, *weights: torch.Tensor) -> Any:
        if seed is not None:
            torch.manual_seed(seed)
        encoded = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (unary, mask))
        return tuple(values(encoded))

    inputs = [unary, *(parameter.detach().clone() for parameter in model.parameters())]
    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in inputs], fast_mode=True)


# --- dropout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    dropout, count = Dropout(p).train(), 200_003
    dropped = dropout(torch.full((count,), 3.0))
    torch.testing.assert_close(dropped.unique(), torch.tensor([0.0, 3.0 / (1.0 - p)]))
    deviation = (p * (1.0 - p) / count) ** 0.5
    assert abs(float((dropped == 0).double().mean()) - p) < 5 * deviation
    assert abs(float(dropped.double().mean()) / 3.0 - 1.0) < 5 * deviation / (1.0 - p)
    zero = (dropped == 0).double()
    for lag in (1, 2, 3, 4):  # four decisions come out of one random number
        together = float((zero[lag:] * zero[:-lag]).mean())
        assert abs(together - p * p) < 6 * deviation


@pytest.mark.parametrize("p", [0.0, 1e-6, 1.0 - 1e-6])
def test_dropout_that_drops_next_to_nothing_or_everything(p: float) -> None:
    torch.manual_seed(0)
    share = float((Dropout(p).train()(torch.ones(10_000)) == 0).double().mean())
    assert abs(share - p) < 1e-3


def test_the_generator_decides_what_is_dropped() -> None:
    model = encoder(dropout=0.5)
    unary, mask = sentences([6, 2])
    kept = model(unary, mask).states
    model.train()
    torch.manual_seed(0)
    first, second = model(unary, mask).states, model(unary, mask).states
    torch.manual_seed(0)
    assert torch.equal(model(unary, mask).states, first)
    assert not torch.equal(first, second)
    model.eval()
    assert torch.equal(model(unary, mask).states, kept)


def test_the_mean_over_dropout_is_the_value_where_nothing_is_curved() -> None:
    """One synchronous iteration: the message is linear in the (uniform) heads, whose masks are independent of it."""
    options = {"decomposition": {"kind": "uv", "rank": 2}, "distance": 1, "schedule": "synchronous"}
    model = encoder(**options, dropout=0.3, iterations=1)
    unary, mask = sentences([4])
    with torch.no_grad():
        expected = model(unary, mask).states
        draws = model.train()(unary.expand(5_000, -1, -1), mask.expand(5_000, -1)).states
    error = (draws.mean(0) - expected[0]).abs() / (draws.std(0) / 5_000**0.5)
    assert float(error.max()) < 5.0


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("schedule", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_gradients_are_of_the_same_masks(messages: str, schedule: str) -> None:
    """Blocks of the linear form are computed again in the backward pass, and must then drop the same."""
    options = {"distance": 1, "decomposition": {"kind": "uv", "rank": 2}, "schedule": schedule}
    model = encoder(**options, labels=2, dropout=0.4, messages=messages, message_weight={"heads": 1.0})
    unary, mask = sentences([18, 3], labels=2)
    check(model.train(), unary, mask, seed=3)
