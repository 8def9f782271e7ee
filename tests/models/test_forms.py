"""The fast forms (`banded`, `linear`) against the plain equations: values, gradients, lines, memory, precision."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
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
    values_and_gradients,
    with_distances,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from probtrans_cli.models import Encoded
from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic import projections
from probtrans_cli.models.probabilistic.fast import bands, heads, layout, meanfield

ARCS = {"kind": "arcs", "distances": [1, 4, 7]}
BETWEEN = {"kind": "arcs", "distances": [2], "between": 2}
RELATIONS = {"kind": "relations"}
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
    {"head_labels": True, "channels": 3},
    {
        "head_labels": True,
        "channels": 3,
        "root": {"labels": 3, "own_label": True},
        "factors": [ARCS, RELATIONS, BETWEEN],
    },
    {"head_labels": True, "schedule": "synchronous", "root": {"labels": 3, "own_label": True}, "globals": GLOBALS[0]},
    {"head_labels": True, "heads": "tree", "root": {"labels": 3, "own_label": True}, "damping": {"heads": 0.2}},
    {"head_labels": True, "schedule": "synchronous", "globals": GLOBALS[0], "factors": [RELATIONS, RELATIONS]},
    {"factors": [RELATIONS], "root": {"labels": 3}, "globals": GLOBALS[0], "step_size": {"heads": 0.6}},
    {"factors": [BETWEEN], "dropout": 0.0, "globals": GLOBALS[0]},
    {"factors": [ARCS, ARCS], "head_labels": True, "latent": "spherical", "root": {"labels": 3, "own_label": True}},
    {"share_potentials": False, "iterations": 3, "root": {"labels": 3}, "globals": GLOBALS[2]},
    {"share_potentials": False, "schedule": "synchronous", "damping": {"heads": 0.3}},
    {"heads": "tree"},
    {"heads": "tree", "root": {"labels": 3}, "globals": GLOBALS[2], "damping": {"heads": 0.2}},
]
LABELLED = {"distance": None, "head_labels": True, "channels": 3, "factors": [BETWEEN, RELATIONS]}
LENGTHS = [18, 1, 5, 2]  # longer than a block of the linear form and than the band
SCORES = with_distances(DECOMPOSITIONS, [None, 0, 3])


def pack(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(layout, "WORTH_PACKING", -1.0 if packed else 2.0)


def scores_for(number: int) -> list[dict[str, Any]]:
    """Every decomposition with one distance, which is another for the next number."""
    distances = [None, 0, 3]
    return [
        with_distances([decomposition], [distances[k % 3]])[0]
        for k, decomposition in enumerate(DECOMPOSITIONS, start=number)
    ]


def compare_forms(
    options: dict[str, Any], lengths: list[int], monkeypatch: pytest.MonkeyPatch, packed: bool, arcs: bool = False
) -> None:
    """Values and gradients of the fast forms in float64, to 1e-10 of the largest entry; and, without arcs, in float32.

    ``packed``: rows of `banded`; those of `linear` are the other ones.
    """
    model = encoder(**options, messages="plain")
    unary, mask = sentences(lengths)
    unary.requires_grad_()
    expected = values_and_gradients(model, unary, mask, arcs=arcs)
    with torch.no_grad():  # as trees are read
        read = model(Words(unary, mask), arcs=True)
        model.messages = "fast"
        pack(monkeypatch, packed)
        assert_near(values(model(Words(unary, mask), arcs=True)), values(read), 1e-10)
        assert_near([model.arcs_alone(Words(unary, mask), (1, 2))], [read.arcs[:, :2]], 1e-10)
    fast = FAST[:1] if options.get("heads") == "tree" else FAST
    for dtype, tolerance in [(torch.float64, 1e-10), (torch.float32, 1e-5)][: 1 if arcs else 2]:
        given = unary.detach().to(dtype).requires_grad_()
        for messages in fast:
            model.to(dtype).messages = messages
            pack(monkeypatch, packed == (messages == "banded"))
            assert_near(values_and_gradients(model, given, mask, arcs=arcs), expected, tolerance)
        packed = not packed


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=[name(options) for options in OPTIONS])
def test_the_fast_forms_equal_the_plain_one(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option with some of the decompositions; distances take turns."""
    for k, scores in enumerate(scores_for(number)[number % 3 :: 3]):
        compare_forms({**scores, **OPTIONS[number]}, LENGTHS, monkeypatch, bool((number + k) % 2))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_every_option_with_every_distance(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for scores in SCORES:
        for packed in (False, True):
            compare_forms({**scores, **options}, LENGTHS, monkeypatch, packed)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("options", [{}, {"root": {"labels": 4}, "share_potentials": False}, LABELLED], ids=name)
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_an_entry_has_its_first_sides_once(
    decomposition: dict[str, Any], options: dict[str, Any], packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(monkeypatch, packed)
    model = encoder(decomposition=decomposition, **options)
    ids = torch.tensor([[3, 1, 3, 0, 1, 1], [1, 0, 0, 3, 1, 3]])  # with those of words at padding
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    words = Words(torch.randn(10, model.facts.width, dtype=torch.float64)[ids], mask)
    sizes: list[int] = []

    def counted(labels: torch.Tensor, *arguments: Any) -> Any:
        sizes.append(len(labels))
        return side(labels, *arguments)

    side = projections.side
    monkeypatch.setattr(projections, "side", counted)
    with torch.no_grad():
        expected, before = values(model(words, arcs=True)), len(sizes)
        assert_near(values(model(replace(words, entries=ids), arcs=True)), expected, 1e-12)
    rows, entries = (10, 3) if packed else (12, 4)  # padding is one more
    per_iteration = before // model.inference.iterations
    assert set(sizes[before : before + per_iteration]) == {rows if decomposition["kind"] == "rotary" else entries}
    assert set(sizes[before + per_iteration :]) == {rows}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_what_compilers_and_other_devices_see(decomposition: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored heads and bands in plain operations."""
    monkeypatch.setattr(bands, "may_depend_on", lambda _: False)
    monkeypatch.setattr(meanfield, "may_depend_on", lambda _: False)
    (scores,) = with_distances([decomposition], [2])
    for number, options in enumerate((OPTIONS[0], OPTIONS[1], OPTIONS[-3])):
        compare_forms({**scores, **options}, LENGTHS, monkeypatch, bool(number % 2))


def test_arcs_and_batches_without_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arcs and their gradients; one word, two words, sentences shorter than the band of near words."""
    for number, scores in enumerate(SCORES):
        compare_forms({**scores, **OPTIONS[-3]}, [6, 1, 3], monkeypatch, bool(number % 2), arcs=True)
        lengths = ([1, 1], [2], [20])[number % 3]
        labelled = {"channels": 3, "head_labels": True, "root": {"labels": 3, "own_label": bool(number % 2)}}
        compare_forms({**scores, **labelled, "distance": None}, [6, 1, 3], monkeypatch, bool(number % 2), arcs=True)
        compare_forms({**scores, "root": {"labels": 3}}, lengths, monkeypatch, packed=False)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", [OPTIONS[1], OPTIONS[6], OPTIONS[-3], OPTIONS[-1]], ids=name)
def test_states_of_wanted_positions(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """``at`` changes neither the states of these positions nor gradients, root and arcs."""
    unary, mask = sentences(LENGTHS)
    unary.requires_grad_()
    at = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    at[0] = False  # a sentence of which nothing is wanted; ``at`` may be True on padding
    for number, scores in enumerate(scores_for(2)[::2]):
        pack(monkeypatch, bool(number % 2))
        model = encoder(**scores, **options)
        for messages in ("plain", *(() if options.get("heads") == "tree" else ("linear",)), "banded"):
            model.messages = messages
            arcs = messages == "banded"
            whole, some = model(Words(unary, mask), arcs=arcs), model(Words(unary, mask), arcs=arcs, at=at)
            there = (at & mask)[:, :, None]
            some, whole = (Encoded(part.states * there, part.sentence, part.arcs) for part in (some, whole))
            assert_near(values(some), values(whole), 1e-12)
            assert_near(gradients(model, unary, some), gradients(model, unary, whole), 1e-12)


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Objects from before are none that the garbage collector goes through, or counts."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("options", [*OPTIONS, {"causal": True}], ids=name)
def test_an_update_leaves_no_tensors_behind(options: dict[str, Any]) -> None:
    """What a gradient was computed from is freed with it: nothing grows from one update to the next."""
    unary, mask = sentences(LENGTHS)
    for messages in ("fast", *({"plain", *FAST} if "causal" not in options else ())):
        model = encoder(**{"iterations": 3, "dropout": 0.1} | options, messages=messages).train()
        alive = []
        for _ in range(3):
            model(Words(unary, mask)).states.sum().backward()
            model.zero_grad()
            gc.collect()
            alive.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))
        assert alive[1] == alive[2], messages


# --- padding and empty batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_padding_and_what_is_not_wanted_change_nothing(messages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = encoder(messages=messages, root={"labels": 3})
    unary, mask = sentences([5, 1, 3])
    expected = model(Words(unary, mask), arcs=messages == "plain")
    for packed in (True, False):
        pack(monkeypatch, packed)
        for garbage in (torch.nan, -torch.inf):
            dirty = unary.masked_fill(~mask[:, :, None], garbage).requires_grad_()
            encoded = model(Words(dirty, mask), arcs=messages == "plain")
            assert_near(values(encoded), values(expected), 1e-12)
            (gradient,) = torch.autograd.grad(encoded.states.sum(), dirty)
            assert gradient.isfinite().all()
            assert not gradient[~mask].any()
    nothing = model(Words(unary, mask), at=torch.zeros_like(mask))
    assert messages == "plain" or not nothing.states.any()
    torch.testing.assert_close(nothing.sentence, expected.sentence)
    # Padding between words: distances are those of the padded batch, and such sentences are not packed.
    mask = torch.tensor([[True, False, False, True, True], [True, False, False, False, False], [True] * 5])
    with_gaps = model(Words(unary, mask))
    model.messages = "plain"
    assert_near(values(with_gaps), values(model(Words(unary, mask))), 1e-12)


@pytest.mark.parametrize("options", [{}, {"damping": {"heads": 0.3}}, {"schedule": "synchronous"}, LABELLED], ids=name)
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_batches_of_no_words_and_of_no_sentences(messages: str, options: dict[str, Any]) -> None:
    model = encoder(messages=messages, **options)
    for shape in ((2, 0), (0, 3), (2, 3)):
        unary = torch.zeros(*shape, model.facts.width, dtype=torch.float64, requires_grad=True)
        encoded = model(Words(unary, torch.zeros(shape, dtype=torch.bool)))
        assert encoded.states.shape == (*shape, model.facts.width)
        assert all(not gradient.any() for gradient in gradients(model, unary, encoded))


@pytest.mark.parametrize("options", [{}, {"head_labels": True, "channels": 3}], ids=name)
@pytest.mark.parametrize("messages", FAST)
def test_lone_words_have_no_heads(messages: str, options: dict[str, Any]) -> None:
    model = encoder(messages=messages, distance=0, **options)
    unary, mask = sentences([1, 1])
    unary.requires_grad_()
    by_hand = values_and_gradients(model, unary, mask)
    model.messages = "plain"
    assert_near(by_hand, values_and_gradients(model, unary, mask), 1e-12)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", [{}, {"damping": {"heads": 0.3}}], ids=name)
@pytest.mark.parametrize("messages", ["plain", *FAST])
def test_switching_to_evaluation_before_the_backward_pass(messages: str, options: dict[str, Any]) -> None:
    """What is computed again must be what was computed."""
    results = []
    for switch in (False, True):
        model = encoder(dropout=0.5, messages=messages, **options).train()
        unary, mask = sentences([20, 3])
        torch.manual_seed(0)
        states = model(Words(unary.requires_grad_(), mask)).states
        model.train(not switch)
        results.append(torch.autograd.grad(states.square().sum(), [unary, *model.parameters()]))
    assert_near(results[1], results[0], 1e-12)


# --- lines and memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[3, 3], [7, 1, 2, 4, 7, 3, 3, 1, 1], [0, 4, 0, 2], [0, 0]], ids=name)
def test_short_sentences_share_lines(lengths: list[int]) -> None:
    """Every word has one place, each sentence stands in one line in its order, and no line is longer than needed."""
    mask = torch.arange(max(*lengths, 8)) < torch.tensor(lengths)[:, None]
    mask = mask.roll(1, 1) if max(lengths) < 8 else mask  # padding may stand before a sentence, too
    packed = layout.shared_lines(mask)
    assert packed.index is not None
    assert packed.place is not None
    b, n = mask.shape
    assert sorted(packed.index.tolist()) == mask.flatten().nonzero()[:, 0].tolist()
    assert packed.sentence.shape[1] == max(1, *lengths)
    assert packed.sentence.shape[0] <= b
    assert torch.equal(packed.sentence.flatten()[packed.place], packed.index // n)
    assert int((packed.sentence >= 0).sum()) == sum(lengths)
    for line in packed.sentence.tolist():
        words = [word for word in line if word >= 0]
        assert words == sorted(words, key=words.index)  # no sentence is interrupted
    numbers = torch.arange(b * n).view(b, n)
    assert torch.equal(packed.grid(packed.rows(numbers)), numbers * mask)
    rows = torch.randn(len(packed.index), 3, 2)
    assert torch.equal(packed.from_channels(packed.to_channels(rows)), rows)
    steps = packed.index.diff()[packed.place.diff() == 1]  # neighbours on a line: of one sentence, or a new one begins
    assert all(step == 1 or step % n != 1 for step in steps.tolist())


def test_lines_are_as_few_as_first_fit_makes_them() -> None:
    mask = torch.arange(10) < torch.tensor([10, 5, 5, 3, 3, 3, 1])[:, None]
    assert len(layout.shared_lines(mask).sentence) == 3
    assert len(layout.packed(mask).sentence) == 7


class Memory(TorchDispatchMode):
    """``largest``: bytes of the largest tensor that an operation gives; ``kept``: of all that gradients need."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.kept: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.largest = max(self.largest, leaf.untyped_storage().nbytes())
        return result

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor


def growth(messages: str, options: dict[str, Any]) -> list[float]:
    """By what factors the largest tensor and all that is kept grow with twice the words, forward and backward."""
    sizes = []
    for words in (128, 256):
        model = encoder(decomposition={"kind": "uv", "rank": 4}, dropout=0.1, messages=messages, **options).train()
        unary, mask = sentences([words])
        with Memory() as memory:
            with torch.autograd.graph.saved_tensors_hooks(memory.keep, lambda tensor: tensor):
                states = model(Words(unary.requires_grad_(), mask)).states
            states.sum().backward()
        sizes.append((memory.largest, sum(memory.kept.values())))
    return [float(more / less) for less, more in zip(*sizes, strict=True)]


@pytest.mark.parametrize("options", [{}, {"schedule": "synchronous"}], ids=name)
def test_memory_of_the_linear_form_grows_with_the_length_alone(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "BLOCK", 2**10)
    assert max(growth("linear", options)) < 2.1
    assert max(growth("banded", options)) > 3.0


# --- the choice of a form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "options", "messages", "situations"),
    [
        ("pairs", {}, "fast banded fast-long linear", ["all pairs", "all pairs, device"]),
        ("pairs", {"heads": "tree"}, "fast banded fast-long linear", ["", "device"]),
        ("labelled", LABELLED, "fast banded fast-long linear", ["all pairs"]),
        ("pairs", LABELLED, "fast", ["all pairs, device", "all pairs, compiling"]),
        ("pairs", LABELLED | {"schedule": "synchronous"}, "fast", ["all pairs"]),
        ("pairs", LABELLED | {"distance": 2}, "fast", ["all pairs"]),
        ("blocked", {}, "fast banded", [""]),
        ("blocked", {"schedule": "synchronous", "damping": {"labels": 0.5}}, "fast banded", [""]),
        ("again", {}, "fast-long linear", ["", "device"]),
        ("stored", {}, "fast banded", ["device"]),
        ("fused", {}, "fused fused-long", ["device, kernels"]),
        ("stored", {}, "fast banded", ["device, kernels"]),
        ("stored", {"schedule": "synchronous"}, "fused", ["device, kernels"]),
        ("stored", {"damping": {"heads": 0.5}}, "fused", ["device, kernels"]),
        ("stored", {}, "fused", ["compiling, device, kernels"]),
        ("stored", {"head_labels": True}, "fused", ["device, kernels"]),
        ("pairs", {}, "fused", ["all pairs, device, kernels", "arcs, device, kernels"]),
        ("pairs", {}, "fast banded linear", ["all pairs, no gradients", "arcs", "arcs, device, no gradients"]),
        ("pairs", {"damping": {"heads": 0.5}}, "fast", ["arcs, no gradients"]),
        ("pairs", {"schedule": "synchronous"}, "fast", ["arcs, no gradients"]),
        ("read", {}, "fast banded linear fused", ["arcs, no gradients"]),
        ("blocked", {}, "fused", [""]),
        ("again", {}, "fused-long", [""]),
        ("stored", {"damping": {"heads": 0.5}}, "fast banded fast-long linear", ["", "device"]),
        ("stored", {"step_size": {"heads": 0.5}}, "fast banded", [""]),
        ("stored", {}, "fast banded fast-long linear", ["compiling, device"]),
    ],
    ids=name,
)
def test_the_choice_of_a_form(
    form: str, options: dict[str, Any], messages: str, situations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, mask = sentences([20, 3])
    inference = encoder(**options).inference
    for option in messages.split():
        for situation in situations:
            with monkeypatch.context() as patch:
                patch.setattr(meanfield, "LONG", 100 if option.endswith("-long") else 10_000)
                if "device" in situation:
                    patch.setattr(meanfield, "may_depend_on", lambda _: False)
                if "kernels" in situation:
                    patch.setattr(meanfield, "fuses", lambda option, *_: option == "fused")
                if "compiling" in situation:
                    patch.setattr(torch.compiler, "is_compiling", lambda: True)
                key: Any = option.removesuffix("-long")
                with torch.set_grad_enabled("no gradients" not in situation):
                    chosen = meanfield.form_of(
                        key, mask, inference, all_pairs="all pairs" in situation, arcs="arcs" in situation
                    )
            assert chosen == form, (option, situation)


def test_a_cpu_does_not_look_for_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanfield, "find_spec", lambda _: 1 / 0)
    assert not meanfield.fuses("fused", torch.ones(2, 3, dtype=torch.bool), torch.float32, 4)


def test_messages_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="fast, fused, plain, banded, linear, not 'auto'"):
        encoder(messages="auto")


def test_only_the_encoder_looks_into_the_fast_room() -> None:
    """The text to read does without it, and what is in there does not know who uses it."""
    room = Path(meanfield.__file__).parent
    for path in room.parent.glob("*.py"):
        assert path.name == "encoder.py" or "probabilistic.fast" not in path.read_text("utf-8"), path
    for path in room.glob("*.py"):
        assert "probabilistic.encoder" not in path.read_text("utf-8"), path


# --- half precision, second derivatives -------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[3], {"latent": "spherical", "root": {"labels": 4}}], ids=name)
def test_by_hand_an_autocast_rounds_no_more_than_by_autograd(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances to float32 of the states and all gradients, taken together."""
    for number, scores in enumerate(scores_for(2)):
        pack(monkeypatch, bool(number % 2))
        model = encoder(**scores, **options).float()
        unary, mask = sentences(LENGTHS)
        unary = unary.float().requires_grad_()

        def everything(model: Any = model, unary: torch.Tensor = unary, mask: torch.Tensor = mask) -> torch.Tensor:
            encoded = model(Words(unary, mask))
            parts = [encoded.states.detach(), *gradients(model, unary, encoded)]  # from within the autocast
            return torch.cat([(part.float() / part.float().norm().clamp_min(1e-6)).flatten() for part in parts])

        exact = everything()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hand = everything()
            with monkeypatch.context() as patch:
                patch.setattr(meanfield, "form_of", lambda *_, **__: "stored")
                autograd = everything()
        assert 0.0 < float((hand - exact).norm()) <= 3.0 * float((autograd - exact).norm()) + 1e-3


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("scores", scores_for(1), ids=name)
def test_what_is_computed_again_in_an_autocast_is_the_same(
    scores: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout and several blocks, bit by bit; the backward pass is outside of the autocast, as in training."""
    model = encoder(**scores, dropout=0.3).float().train()
    unary, mask = sentences(LENGTHS)
    unary = unary.float().requires_grad_()
    for packed in (True, False):
        pack(monkeypatch, packed)
        results = []
        for messages in FAST:
            model.messages = messages  # type: ignore[assignment]
            torch.manual_seed(0)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                encoded = model(Words(unary, mask))
            results.append([encoded.states, *gradients(model, unary, encoded)])
        for kept, again in zip(*results, strict=True):
            assert kept.dtype == torch.float32
            assert torch.equal(kept, again)


@pytest.mark.parametrize("messages", FAST)
@pytest.mark.parametrize("autocast", [False, True])
def test_second_derivatives_are_refused(messages: str, autocast: bool) -> None:
    model = encoder(messages=messages).float()
    unary, mask = sentences([4, 2])
    unary = unary.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        states = model(Words(unary, mask)).states
    with pytest.raises(RuntimeError, match="have no derivatives"):
        torch.autograd.grad(states.square().sum(), unary, create_graph=True)
