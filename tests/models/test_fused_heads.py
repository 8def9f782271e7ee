"""The exchange of the heads as kernels of a GPU (``triton_heads.py``) beside the equations: values, gradients, dropout.

These tests need a GPU. Where triton is installed, they run without one, too: under its interpreter, on a CPU, and in a
process of their own, as triton decides that when it is imported. The interpreter forgives what a compiler does not, as
variables that change their type in a loop; so kernels are compiled as well, which needs no GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from small_models import assert_near, encoder, gradients, sentences, values
from support import ROOT, environment

from probtrans_cli.models.base import Words
from probtrans_cli.models.probabilistic.fast import meanfield
from probtrans_cli.models.probabilistic.fast.layout import Layout
from probtrans_cli.models.probabilistic.inference import over

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
    sentence, gamma, word = (
        heads.layout.sentence,
        heads.distance or 0,
        torch.arange(short.shape[2], device=short.device),
    )
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
    """Results and the gradients of a random linear function of them."""
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.float64, device=tensors[0].device)
    for part in results:
        total = total + (part * torch.randn(part.shape, generator=generator).to(part)).sum()
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


MODELS: dict[str, dict[str, Any]] = {
    "uv": {"decomposition": {"kind": "uv", "rank": 3}, "distance": 1, "root": {"labels": 3}},
    "none": {"decomposition": {"kind": "none"}, "distance": 0, "globals": {"kind": "all-dep", "features": 3}},
    "shared": {"decomposition": {"kind": "shared", "rank": 4}, "distance": 2},
    "rotary": {"decomposition": {"kind": "rotary", "rank": 4}, "root": {"labels": 3}, "latent": "spherical"},
}


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("which", MODELS)
def test_the_encoder_has_the_values_of_stored_heads(
    which: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, the sentence's, and all gradients of a loss; today's form is what `banded` asks for."""
    model = encoder(**MODELS[which]).float().to(device)
    unary, mask = sentences([9, 4, 1])
    unary, mask = unary.float().to(device).requires_grad_(), mask.to(device)
    monkeypatch.setattr("probtrans_cli.models.probabilistic.fast.layout.worth_packing", lambda _: False)
    if INTERPRETED:
        monkeypatch.setattr(meanfield, "fuses", lambda *_: True)
    assert meanfield.form_of("fused", mask, model.inference) == "fused"
    results = []
    for messages in ("fused", "banded"):
        model.messages = messages  # type: ignore[assignment]
        encoded = model(Words(unary, mask))
        results.append([*values(encoded), *gradients(model, unary, encoded)])
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


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", ["_forward whole", "_backward whole", "_forward", "_backward", "_to_heads", "_of_heads"]
)
@pytest.mark.parametrize(("side", "buckets"), [("bf16", 2), ("fp32", 1)])
def test_kernels_compile(kernel: str, side: str, buckets: int) -> None:
    """For compute capability 9.0, without a GPU; nothing runs."""
    from triton import compile as compiled
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from probtrans_cli.models.probabilistic.fast import triton_heads

    function: Any = getattr(triton_heads, kernel.split(maxsplit=1)[0])
    fixed = {"rank": 24, "RANK": 32, "TILE": 16, "SHORT": 8, "BUCKETS": buckets, "SHARED": buckets == 1,
             "DROPS": True, "WHOLE": "whole" in kernel}  # fmt: skip
    names = function.arg_names
    types = {name: "constexpr" if name in fixed else {**POINTERS, **NUMBERS}.get(name, f"*{side}") for name in names}
    constants = {(place,): fixed[name] for place, name in enumerate(names) if name in fixed}
    source = ASTSource(fn=function, signature=types, constexprs=constants)
    options = {"num_warps": 1, "num_stages": 1, "enable_fp_fusion": True}
    assert "cubin" in compiled(source, target=GPUTarget("cuda", 90, 32), options=options).asm
