"""The exchange of the heads as kernels of a GPU (``triton_heads.py``; of near buckets ``triton_bands.py``) beside the
equations: values, gradients, dropout.

These tests need a GPU. Where triton is installed, they run without one, too: under its interpreter, on a CPU, and in a
process of their own, as triton decides that when it is imported. The interpreter forgives what a compiler does not, as
variables that change their type in a loop; so kernels are compiled as well, which needs no GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from small_models import assert_near, encoder, sentences, values_and_gradients
from support import ROOT, environment

from probtrans_cli.models.probabilistic.fast import meanfield
from probtrans_cli.models.probabilistic.fast.bands import ByHandBand, TraceableBand
from probtrans_cli.models.probabilistic.fast.layout import Layout
from probtrans_cli.models.probabilistic.inference import over
from probtrans_cli.models.probabilistic.projections import Sides

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 1e-3}
"""Of the largest number of a tensor: about three roundings to 8 and 11 bits, of ``Q``, of ``dF`` and of the results."""

if INTERPRETED:
    import triton
    import triton.language as tl

    @triton.jit
    def in_float32(rows, columns):  # type: ignore[no-untyped-def]
        return tl.dot(rows.to(tl.float32), columns.to(tl.float32))


needs_triton = pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed: torch is built for CPUs"
)


@pytest.fixture
def device() -> torch.device:
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("there is no GPU; with triton, TRITON_INTERPRET=1 runs kernels on a CPU")
    return torch.device("cpu" if INTERPRETED else "cuda")


class Case(NamedTuple):
    """Sentences of every line by their lengths, padded to ``n``; the options of the exchange."""

    lines: list[list[int]]
    n: int
    distance: int | None = None
    extra: int = 0
    rank: int = 4
    channels: int = 2
    shared: bool = False
    tile: int | None = None
    dropout: float = 0.0

    @property
    def sentence(self) -> torch.Tensor:
        rows, number = [], 0
        for lengths in self.lines:
            row = [number + k for k, length in enumerate(lengths) for _ in range(length)]
            rows.append(row + [-1] * (self.n - len(row)))
            number += len(lengths)
        return torch.tensor(rows)


CASES = {
    "one bucket": Case([[5], [3]], 5),
    "one bucket, a root": Case([[5], [3]], 5, extra=1),
    "two buckets": Case([[7], [4]], 7, distance=0),
    "near words, a root": Case([[9], [4]], 9, distance=2, extra=1, rank=16),
    "more short columns than a tile has": Case([[6]], 6, distance=1, extra=40),
    "one head side of all channels": Case([[7], [2]], 7, distance=1, rank=24, channels=3, shared=True),
    "sentences share a line": Case([[4, 3, 1], [8], [1, 1]], 9, distance=1, extra=1, rank=24),
    "words alone": Case([[1], [1, 1]], 2, distance=0),
    "nothing but padding": Case([[], [2]], 3, extra=1),
    "tiles": Case([[20, 13]], 35, distance=3, extra=2, tile=16),
    "tiles, one bucket": Case([[17]], 17, rank=24, tile=16),
    "tiles, one head side": Case([[18]], 18, distance=1, tile=16, shared=True),
    "a long sentence": Case([[131]], 131, distance=1, channels=1),
    "a long sentence, one bucket": Case([[140]], 140, rank=16, channels=1),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def exchange(case: Case, device: torch.device, patch: pytest.MonkeyPatch) -> Any:
    """The heads of a case, and their exchange as a function of the short scores and the sides."""
    from probtrans_cli.models.probabilistic.fast import triton_heads

    if case.tile is not None:
        patch.setattr(triton_heads, "tile_of", lambda *_: case.tile)
    sentence = case.sentence.to(device)
    messages: Any = SimpleNamespace(layout=Layout(sentence >= 0, None, None, sentence), distance=case.distance)
    options: dict[str, Any] = {"channels": case.channels, "message_weight": {"heads": 0.7}}
    inference = encoder(**options, distance=case.distance).inference
    heads = triton_heads.FusedHeads(messages, case.extra, inference, case.dropout, torch.float32)
    return heads, lambda *tensors: triton_heads._Fused.apply(heads, *tensors)


def tensors_of(case: Case, device: torch.device, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Random short scores and sides."""
    torch.manual_seed(0)
    far, near = (1, 0) if case.distance is None else (2, 2 * case.distance)
    sizes = [case.channels] * far + [1 if case.shared else case.channels] * far
    shapes = [(case.channels, case.n, near + case.extra), *((c, case.n, case.rank) for c in sizes)]
    drawn = [torch.randn(len(case.lines), *shape) * case.rank**-0.25 for shape in shapes]
    return [part.to(device, dtype).requires_grad_() for part in drawn]


def plain(
    heads: Any, short: torch.Tensor, *sides: torch.Tensor, kept: torch.Tensor | float = 1.0
) -> list[torch.Tensor]:
    """The equations in float64; ``kept``: the factors of dropout, of the words as heads, then of the short columns."""
    short, *sides = (part.double() for part in (short, *sides))  # type: ignore[assignment]
    u, v = sides[: len(sides) // 2], sides[len(sides) // 2 :]
    sentence, gamma = heads.layout.sentence, heads.distance or 0
    word = torch.arange(short.shape[2], device=short.device)
    x = word[:, None] - word
    same = (sentence[:, :, None] == sentence[:, None]) & (sentence >= 0)[:, None]
    far = [x != 0] if heads.distance is None else [x < -gamma, x > gamma]
    F = sum(((left @ right.mT) * part for left, right, part in zip(u, v, far, strict=True)), torch.zeros(()).to(short))
    allowed = torch.cat([(same & sum(far).bool())[:, None], heads.short_allowed], dim=-1)
    Q = over(torch.cat([F, short], dim=-1) / heads.inference.heads.weight, allowed) * kept
    words, used = Q.tensor_split([len(word)], dim=-1)
    to_head = [((words * part).mT @ left) for left, part in zip(u, far, strict=True)]
    return [
        used,
        *((words * part) @ right for right, part in zip(v, far, strict=True)),
        *(total.sum_to_size(right.shape) for total, right in zip(to_head, v, strict=True)),
    ]


def everything(results: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results and the gradients of a random linear function of them, whose numbers every type has."""
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.float64, device=tensors[0].device)
    for part in results:
        total = total + (part * torch.randn(part.shape, generator=generator).bfloat16().to(part)).sum()
    grads = torch.autograd.grad(total, tensors, materialize_grads=True, allow_unused=True)
    return [part.detach().double() for part in (*results, *grads)]


@needs_triton
@pytest.mark.gpu
def test_values_and_gradients_are_those_of_the_equations(
    case: Case, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, fused = exchange(case, device, monkeypatch)
    tensors = tensors_of(case, device)
    assert_near(everything(fused(*tensors), tensors), everything(plain(heads, *tensors), tensors), 1e-5)


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "which", ["near words, a root", "sentences share a line", "one head side of all channels", "tiles"]
)
def test_sides_in_half_precision(
    which: str, dtype: torch.dtype, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short scores are in float32, as in an autocast; results have the types of what they are messages to."""
    heads, fused = exchange(CASES[which], device, monkeypatch)
    if INTERPRETED:  # which multiplies the bits of bfloat16; products in float32 of such numbers are the same
        monkeypatch.setattr("probtrans_cli.models.probabilistic.fast.triton_heads._times", in_float32)
    short, *sides = tensors_of(CASES[which], device)
    tensors = [short, *(side.detach().to(dtype).requires_grad_() for side in sides)]
    results = fused(*tensors)
    assert [part.dtype for part in results] == [part.dtype for part in tensors]
    assert_near(everything(results, tensors), everything(plain(heads, *tensors), tensors), TOLERANCE[dtype])


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("tile", [None, 16], ids=["whole", "tiles"])
@pytest.mark.parametrize("distance", [None, 2])
def test_what_is_dropped_is_the_same_in_the_gradient(
    distance: int | None, tile: int | None, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head sides that are unit vectors show what is dropped; the equations with just this have the same gradients."""
    case = Case([[11, 7]], 18, distance, extra=2, rank=18, channels=3, dropout=0.3, tile=tile)
    heads, fused = exchange(case, device, monkeypatch)
    tensors = tensors_of(case, device)
    far = (len(tensors) - 1) // 2
    unit = [torch.eye(case.n, device=device).expand(1, 3, -1, -1)] * far

    def probe(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        used, *messages = fused(*tensors[: 1 + far], *unit)
        return (torch.cat([sum(messages[1:far], messages[0]), used], dim=-1) != 0).double() / 0.7

    kept = probe(0)
    assert torch.equal(kept, probe(0))
    assert not torch.equal(kept, probe(1))
    torch.manual_seed(0)
    found = everything(fused(*tensors), tensors)
    assert_near(found, everything(plain(heads, *tensors, kept=kept), tensors), 1e-5)
    whole = plain(heads, *tensors[: 1 + far], *unit)
    candidates = torch.cat([sum(whole[2 : 1 + far], whole[1]), whole[0]], dim=-1) > 0
    share, deviation = float((kept > 0)[candidates].double().mean()), 0.5 / float(candidates.sum()) ** 0.5
    assert abs(share - 0.7) < 5 * deviation
    alike = ((kept[:, 0] > 0) == (kept[:, 1] > 0))[candidates[:, 0]]  # channels have numbers of their own
    assert abs(float(alike.double().mean()) - 0.7**2 - 0.3**2) < 10 * deviation


# --- near buckets -----------------------------------------------------------------------------------------------------


class Near(NamedTuple):
    """Shapes of a child side, of a head side, and of the weight, for the words ``w`` and four buckets."""

    child: tuple[int, int, int]
    head: tuple[int, int, int]
    weight: tuple[int, int, int] | None = None
    words: int = 70


NEAR = {
    "uv": Near((4, 3, 5), (4, 3, 5)),
    "none: labels are the head side": Near((4, 3, 6), (1, 1, 6)),
    "uvw: channels share sides": Near((4, 1, 4), (4, 1, 4), (4, 3, 4)),
    "shared: buckets share sides": Near((1, 3, 5), (1, 3, 5), (4, 3, 5)),
    "one head side of all channels": Near((1, 3, 16), (1, 1, 16), (4, 3, 16)),
    "one head side of a bucket": Near((4, 3, 3), (4, 1, 3)),
    "fewer words than distances": Near((4, 2, 3), (4, 2, 3), words=2),
    "several parts of a sum": Near((1, 1, 2), (1, 1, 2), (4, 1, 2), words=700),
}


def band_of(tensors: list[torch.Tensor], *, fused: bool) -> list[torch.Tensor]:
    """Scores and messages of a band, and the gradients of either."""
    p, child, head, *weight = tensors
    sides = Sides(child, head, weight[0] if weight else None)
    kind: Any = TraceableBand
    if fused:
        from probtrans_cli.models.probabilistic.fast.triton_bands import PRODUCTS

        kind = partial(ByHandBand, products=PRODUCTS)
    near = [kind(sides, [-2, -1, 1, 2]) for _ in range(2)]
    return [*everything([near[0].scores()], tensors), *everything(near[1].messages(p)[:2], tensors)]


def near_tensors(near: Near, device: torch.device) -> list[torch.Tensor]:
    """Random probabilities and sides, and the weight."""
    torch.manual_seed(0)
    channels = near.weight[1] if near.weight else near.child[1]
    shapes = [(near.words, 4, channels), (near.words, *near.child), (near.words, *near.head)]
    drawn = [torch.rand(shapes[0]), *(torch.randn(shape) for shape in shapes[1:])]
    drawn += [torch.randn(near.weight)] if near.weight else []
    return [part.to(device).requires_grad_() for part in drawn]


def doubled(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [part.detach().double().requires_grad_() for part in tensors]


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("which", NEAR)
def test_a_band_has_the_values_and_gradients_of_the_plain_one(
    which: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = near_tensors(NEAR[which], device)
    if NEAR[which].words > 100:
        monkeypatch.setattr("probtrans_cli.models.probabilistic.fast.triton_bands.PARTS", 4)
    assert_near(band_of(tensors, fused=True), band_of(doubled(tensors), fused=False), 1e-5)


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("which", NEAR)
def test_a_band_of_sides_in_bfloat16(which: str, device: torch.device) -> None:
    """What is left beside the plain form is the rounding of what is stored: with it, both are alike to 1e-3. (The
    interpreter cuts bits off.)"""
    p, child, head, *weight = near_tensors(NEAR[which], device)
    tensors = [p, *(side.detach().bfloat16().requires_grad_() for side in (child, head)), *weight]
    results = band_of(tensors, fused=True)
    for value, expected in zip(results, band_of(doubled(tensors), fused=False), strict=True):
        cut = (expected.float().view(torch.int32) & -(2**16)).view(torch.float32)
        stored = expected, (cut if INTERPRETED else expected.bfloat16()).double()
        assert min((value - part).norm() / expected.norm().clamp(min=1e-9) for part in stored) < 1e-3


MODELS: dict[str, dict[str, Any]] = {
    "uv": {"decomposition": {"kind": "uv", "rank": 3}, "distance": 1, "root": {"labels": 3}},
    "none": {"decomposition": {"kind": "none"}, "distance": 0, "globals": {"kind": "all-dep", "features": 3}},
    "shared": {"decomposition": {"kind": "shared", "rank": 4}, "distance": 2},
    "rotary": {"decomposition": {"kind": "rotary", "rank": 4}, "root": {"labels": 3}, "latent": "spherical"},
    "uvw": {"decomposition": {"kind": "uvw", "rank": 4}, "distance": 2},
}
STORED: dict[str, dict[str, Any]] = {
    "tree": {"distance": 2, "heads": "tree", "root": {"labels": 3}},
    "damping": {"distance": 1, "damping": {"heads": 0.3}},
}
"""Those whose heads are stored, and near buckets nevertheless by kernels."""


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("which", [*MODELS, *STORED])
def test_the_encoder_has_the_values_of_stored_heads(
    which: str, packed: bool, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what `banded` computes. Words are packed where the host knows the lengths of sentences."""
    model = encoder(**MODELS.get(which) or STORED[which]).float().to(device)
    lengths = (9, 4, 1)
    unary, mask = sentences([*lengths])
    unary, mask = unary.float().to(device).requires_grad_(), mask.to(device)
    if not packed:
        monkeypatch.setattr("probtrans_cli.models.probabilistic.fast.layout.worth_packing", lambda _: False)
    if INTERPRETED:
        monkeypatch.setattr(meanfield, "fuses", lambda option, *_: option == "fused")
        monkeypatch.setattr("probtrans_cli.models.base.may_depend_on", lambda _: False)
    if which in MODELS:
        assert meanfield.form_of("fused", mask, model.inference) == "fused"
    results = []
    for messages in ("fused", "banded"):
        model.messages = messages  # type: ignore[assignment]
        results.append(values_and_gradients(model, unary, mask, lengths=lengths))
    assert_near(results[0], results[1], 1e-5)


@needs_triton
@pytest.mark.gpu
def test_second_derivatives_are_refused(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    _, fused = exchange(CASES["one bucket"], device, monkeypatch)
    tensors = tensors_of(CASES["one bucket"], device)
    total = sum(part.square().sum() for part in fused(*tensors))
    with pytest.raises(RuntimeError, match="have no derivatives"):
        torch.autograd.grad(total, tensors, create_graph=True, allow_unused=True)


@needs_triton
@pytest.mark.slow
def test_all_of_this_holds_under_the_interpreter() -> None:
    from triton import __version__ as version

    if tuple(map(int, version.split(".")[:2])) < (3, 9):
        pytest.skip("the interpreter of Triton 3.6 takes numbers of arrays in a way that NumPy 2.4 refuses")
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-n", "0", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(TRITON_INTERPRET="1"), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:]


POINTERS = {"sentence": "*i64", "seed": "*i64", "allowed": "*u8", "log_total": "*fp32", "deltas": "*fp32",
            "short": "*fp32", "used": "*fp32", "by_used": "*fp32", "of_short": "*fp32"}  # fmt: skip
NUMBERS = {"n": "i32", "s": "i32", "channels": "i32", "distance": "i32", "scale": "fp32", "p": "fp32"}
OF_BANDS = {"scores": "*fp32", "of_weight": "*fp32", "weight": "*fp32", "p": "*fp32", "n": "i32", "distance": "i32",
            "channels": "i32", "tiles": "i32"}  # fmt: skip
STEPS = [f"{side}_{axis}" for side in ("u", "v", "of", "to") for axis in ("row", "bucket", "channel")]


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", ["_forward whole", "_backward whole", "_forward", "_backward", "_to_heads", "_of_heads"]
)
@pytest.mark.parametrize(("side", "buckets"), [("bf16", 2), ("fp32", 1)])
def test_kernels_compile(kernel: str, side: str, buckets: int) -> None:
    """For compute capability 9.0, without a GPU; nothing runs."""
    from probtrans_cli.models.probabilistic.fast import triton_heads

    function: Any = getattr(triton_heads, kernel.split(maxsplit=1)[0])
    types = {**POINTERS, **NUMBERS}
    fixed = {"rank": 24, "RANK": 32, "TILE": 16, "SHORT": 8, "BUCKETS": buckets, "SHARED": buckets == 1,
             "DROPS": True, "WHOLE": "whole" in kernel}  # fmt: skip
    assert_compiles(function, fixed, types, side, 1)


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("side", ["bf16", "fp32"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("kernel", ["_by_p", "_by_weight", "_by_side"])
def test_kernels_of_bands_compile(kernel: str, alone: bool, side: str) -> None:
    from probtrans_cli.models.probabilistic.fast import triton_bands

    fixed = {"rank": 24, "RANK": 32, "TILE": 64, "WEIGHTED": alone, "TWICE": alone, "HEAD": alone, "BUCKETS": alone,
             "CHANNELS": alone}  # fmt: skip
    assert_compiles(getattr(triton_bands, kernel), fixed, {**OF_BANDS, **dict.fromkeys(STEPS, "i32")}, side, 4)


def assert_compiles(function: Any, fixed: dict[str, Any], types: dict[str, str], side: str, warps: int) -> None:
    from triton import compile as compiled
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = function.arg_names
    signature = {name: "constexpr" if name in fixed else types.get(name, f"*{side}") for name in names}
    constants = {(place,): fixed[name] for place, name in enumerate(names) if name in fixed}
    source = ASTSource(fn=function, signature=signature, constexprs=constants)
    options = {"num_warps": warps, "num_stages": 1, "enable_fp_fusion": True}
    assert "cubin" in compiled(source, target=GPUTarget("cuda", 90, 32), options=options).asm
