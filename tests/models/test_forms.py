"""The fast forms of the messages (`banded`, `linear`) against the plain one: values, gradients, lines, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_models import (
    DECOMPOSITIONS,
    FAST,
    GLOBALS,
    assert_near,
    encoder,
    gradients,
    name,
    sentences,
    values,
    with_distances,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from probtrans_cli.models import Encoded
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.models.probabilistic.fast import forms as choice
from probtrans_cli.models.probabilistic.fast import fused, lines, recomputed

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
    {"latent": "spherical", "root": {"labels": 4}, "message_weight": {"labels": 0.5}},
    {"share_potentials": False, "iterations": 3, "root": {"labels": 3}, "globals": GLOBALS[2]},
    {"share_potentials": False, "schedule": "synchronous", "damping": {"heads": 0.3}},
    {"heads": "tree"},
    {"heads": "tree", "root": {"labels": 3}, "globals": GLOBALS[2], "damping": {"heads": 0.2}},
]
LENGTHS = [18, 1, 5, 2]  # longer than a block of the linear form and than the band

pytestmark = pytest.mark.usefixtures("quick")


def forms(model: ProbabilisticEncoder, *which: str) -> Iterator[str]:
    """The model in one form of the messages after the other."""
    for messages in which:
        model.messages = messages  # type: ignore[assignment]
        yield messages


# --- values and gradients ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
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
            monkeypatch.setattr(lines, "WORTH_PACKING", packing)
            found = model(unary, mask)
            assert_near(values(found), values(plain), tolerance)
            assert_near(gradients(model, unary, found), expected, tolerance)

    compare(unary, 1e-10)
    model.float()
    packings.reverse()
    compare(unary.detach().float().requires_grad_(), 1e-5)


@pytest.mark.usefixtures("small_pieces", "rows")
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
    monkeypatch.setattr(choice, "by_hand", lambda _: False)
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


@pytest.mark.usefixtures("small_pieces", "rows")
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


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", OPTIONS, ids=name)
@pytest.mark.parametrize("wanted", [[1], [2], [1, 2]])
def test_where_words_look(wanted: list[int], options: dict[str, Any]) -> None:
    """The arcs of some iterations alone are those that come with the states."""
    model = encoder(**options)
    unary, mask = sentences(LENGTHS)
    arcs = model(unary, mask, arcs=True).arcs
    assert arcs is not None
    rows = [iteration - 1 for iteration in wanted if iteration <= arcs.shape[1]]
    assert_near([model.arcs_alone(unary, mask, wanted[: len(rows)])], [arcs[:, rows]], 1e-12)
    (some,) = (model(unary, mask, arcs=[1]).arcs,)
    assert some is not None
    assert_near([some], [arcs[:, :1]], 1e-12)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("messages", ["plain", *FAST])
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_what_stands_at_padding_is_nobodys(
    garbage: float, messages: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "WORTH_PACKING", -1.0 if packed else 2.0)
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


@pytest.mark.parametrize("schedule", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_gradients_of_no_words_are_none_or_zero(messages: str, schedule: str) -> None:
    model = encoder(messages=messages, schedule=schedule)
    for shape in ((2, 0), (0, 3), (2, 3)):
        unary = torch.zeros(*shape, model.width, dtype=torch.float64, requires_grad=True)
        found = model(unary, torch.zeros(shape, dtype=torch.bool))
        assert all(not one.any() for one in gradients(model, unary, found))


@pytest.mark.usefixtures("small_pieces")
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
    with pytest.raises(ValueError, match="fast, plain, banded, linear, not 'auto'"):
        encoder(messages="auto")


def test_the_norm_of_no_scores_has_a_gradient() -> None:
    model = encoder()
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    gradients = torch.autograd.grad(model.penalty(), list(model.ternary.parameters()))
    assert all(not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("messages", FAST)
def test_no_wanted_position(messages: str) -> None:
    model = encoder(messages=messages, root={"labels": 3})
    unary, mask = sentences([4, 2])
    nothing = model(unary, mask, at=torch.zeros_like(mask))
    assert not nothing.states.any()
    torch.testing.assert_close(nothing.sentence, model(unary, mask).sentence)


@pytest.mark.parametrize("lengths", [[5], [3, 3], [7, 1, 2, 4, 7, 3, 3, 1, 1], [0, 4, 0, 2], [0, 0]], ids=name)
def test_short_sentences_share_lines(lengths: list[int]) -> None:
    """Every word has one place, each sentence stands in one line in its order, and no line is longer than needed."""
    mask = torch.arange(max(*lengths, 8)) < torch.tensor(lengths)[:, None]
    mask = mask.roll(1, 1) if max(lengths) < 8 else mask  # padding may stand before a sentence, too
    packed = lines.shared_lines(mask)
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
    assert torch.equal(packed.from_channels(packed.to_channels(rows)), rows)
    steps = packed.index.diff()[packed.place.diff() == 1]  # neighbours on a line: of one sentence, or a new one begins
    assert all(step == 1 or step % n != 1 for step in steps.tolist())


def test_lines_are_as_few_as_first_fit_makes_them() -> None:
    mask = torch.arange(10) < torch.tensor([10, 5, 5, 3, 3, 3, 1])[:, None]
    assert len(lines.shared_lines(mask).sentence) == 3
    assert len(lines.packed(mask).sentence) == 7


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
    for words in (128, 256):
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
    monkeypatch.setattr(recomputed, "BLOCK", 2**10)
    monkeypatch.setattr(fused, "BLOCK", 2**10)
    assert max(growth("linear", options)) < 2.1
    assert max(growth("banded", options)) > 3.0
