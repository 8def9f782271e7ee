"""The transformer encoder: against a loop written from its equations and torch's own layer; its command; its sizes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_models import assert_near, name, sentences
from small_tasks import linear
from support import workplace
from torch import Tensor, nn
from torch.nn import functional

from probtrans_cli.__main__ import run
from probtrans_cli.errors import DataError
from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.models.network import Network
from probtrans_cli.models.transformer import TransformerEncoder
from probtrans_cli.recipe.base import InconsistentError
from probtrans_cli.recipe.model import Transformer

SMALL: dict[str, Any] = {"kind": "transformer", "width": 6, "inner": 5, "heads": 2, "layers": 2}
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
RELATIVE: list[dict[str, Any]] = [{"kind": "relative", "clip": 2, "terms": terms} for terms in ("k", "kv", "qk", "qkv")]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "head_size": 4},
    {"positions": {"kind": "sinusoidal"}, "activation": "gelu"},
    {"positions": {"kind": "learned_sinusoidal", "rows": 9}},
    {"positions": {"kind": "none"}, "bias": "all", "activation": "gelu_tanh"},
    *({"positions": one} for one in RELATIVE),
    {"share_layers": True, "layers": 3, "positions": RELATIVE[3], "norm": "pre"},
    {"tie_kv": True, "bias": "none"},
    {"tie_qo": True, "head_size": 4},
    {"tie_kv": True, "tie_qo": True, "bias": "all"},
    {"segments": 2, "embedding_norm": True, "pooler": True},
    {"preset": "bert"},
]


def encoder(**options: Any) -> TransformerEncoder:
    """A float64 encoder in eval mode; every parameter is random, biases and norms too."""
    torch.manual_seed(0)
    model = build({**SMALL, **STILL, "initialization": "xavier", **options}).double().eval()
    assert isinstance(model, TransformerEncoder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


# --- the equations ----------------------------------------------------------------------------------------------------


def norm(x: Tensor, of: nn.Module) -> Tensor:
    assert isinstance(of, nn.LayerNorm)
    return (x - x.mean()) / (x.var(correction=0) + of.eps).sqrt() * of.weight + of.bias


def affine(x: Tensor, of: Any) -> Tensor:
    return of.weight @ x + (0.0 if of.bias is None else of.bias)


def activation(x: Tensor, kind: str) -> Tensor:
    if kind == "relu":
        return x.clamp_min(0.0)
    if kind == "gelu":
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def by_loops(model: TransformerEncoder, words: Tensor, segments: list[int]) -> tuple[Tensor, Tensor, Tensor | None]:
    """States [n, d], attention [t, c, n, n] and the pooled vector of one sentence, from the module's equations."""
    section = model.section
    n, d = words.shape
    heads, r = section.heads, section.head_size or d // section.heads
    pre, clip = section.norm == "pre", getattr(section.positions, "clip", 0)
    x: list[Tensor] = []
    for i in range(n):
        one = words[i]
        if model.positions is not None:
            one = one + model.positions[i]
        if section.positions.kind == "sinusoidal":
            angles = [i / 10000 ** (2 * (k // 2) / d) for k in range(d)]
            waves = [(math.sin, math.cos)[k % 2](angle) for k, angle in enumerate(angles)]
            one = one + torch.tensor(waves, dtype=torch.float64)
        if model.segments is not None:
            one = one + model.segments.weight[segments[i]]
        x.append(one if model.embedding_norm is None else norm(one, model.embedding_norm))
    attention = torch.zeros(section.layers, heads, n, n, dtype=torch.float64)
    for t in range(section.layers):
        layer: Any = model.layers[0 if section.share_layers else t]
        given = [norm(one, layer.attention_norm) for one in x] if pre else x
        projected = [affine(one, layer.projections).view(-1, heads, r) for one in given]
        added: list[list[Tensor]] = [[] for _ in range(n)]
        for c in range(heads):
            table = {
                key: layer.tables[key][c] if layer.tables[key].ndim == 3 else layer.tables[key] for key in layer.tables
            }
            for i in range(n):
                scores = []
                for j in range(n):
                    q, k, x_ij = projected[i][0, c], projected[j][1, c], min(max(i - j, -clip), clip) + clip
                    score = q @ k
                    if "key" in table:
                        score = score + q @ table["key"][x_ij]
                    if "query" in table:
                        score = score + table["query"][x_ij] @ k
                    scores.append(score / math.sqrt(r))
                total = sum(score.exp() for score in scores)
                mixed = torch.zeros(r, dtype=torch.float64)
                for j in range(n):
                    p = scores[j].exp() / total
                    attention[t, c, i, j] = p
                    value = projected[j][1 if section.tie_kv else 2, c]
                    if "value" in table:
                        value = value + table["value"][min(max(i - j, -clip), clip) + clip]
                    mixed = mixed + p * value
                added[i].append(mixed)
        for i in range(n):
            mixed = torch.cat(added[i])
            query = layer.projections.weight[: heads * r]
            y = x[i] + (query.T @ mixed if section.tie_qo else affine(mixed, layer.output))
            y = y if pre else norm(y, layer.attention_norm)
            inner = activation(affine(norm(y, layer.norm) if pre else y, layer.widen), section.activation)
            z = y + affine(inner, layer.narrow)
            x[i] = z if pre else norm(z, layer.norm)
    if model.final_norm is not None:
        x = [norm(one, model.final_norm) for one in x]
    pooled = None if model.pooler is None else affine(x[0], model.pooler).tanh()
    return torch.stack(x), attention, pooled


@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_it_equals_a_loop_written_from_the_equations(options: dict[str, Any]) -> None:
    if "preset" in options:
        options = {**options, "width": 6, "inner": 5, "heads": 2, "layers": 2}
    model, lengths = encoder(**options), [5, 1, 3]
    unary, mask = sentences(lengths, labels=6)
    segments = torch.tensor([[0, 1, 1, 0, 1]] * 3) if model.segments is not None else None
    unary = unary.masked_fill(~mask[:, :, None], torch.nan)  # what stands on padding does not matter
    fast = model(Words(unary, mask, segments=segments))
    seen = model(Words(unary, mask, segments=segments), arcs=True)
    for b, n in enumerate(lengths):
        kinds = [0] * n if segments is None else segments[b, :n].tolist()
        states, attention, pooled = by_loops(model, unary[b, :n], kinds)
        for encoded in (fast, seen):
            torch.testing.assert_close(encoded.states[b, :n], states, rtol=0, atol=1e-11)
            assert not encoded.states[b, n:].any()
            if pooled is not None:
                torch.testing.assert_close(encoded.sentence[b], pooled, rtol=0, atol=1e-11)
        torch.testing.assert_close(seen.arcs[b, :, :, :n, :n], attention, rtol=0, atol=1e-11)
        assert not seen.arcs[b, :, :, n:].any()
        assert not seen.arcs[b, :, :, :, n:].any()


@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_both_ways_have_the_same_gradients(options: dict[str, Any]) -> None:
    """Attention by a kernel and in plain operations; states of wanted positions alone."""
    model = encoder(**options) if "preset" not in options else encoder(**{**options, **SMALL})
    unary, mask = sentences([5, 1, 3], labels=6)
    unary.requires_grad_()
    at = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    wanted = [unary, *model.parameters()]
    found = []
    for how in ({}, {"arcs": True}, {"at": at}, {"at": at, "arcs": True}):
        encoded = model(Words(unary, mask), **how)
        there = (encoded.states * (at & mask)[:, :, None]).square().sum()
        total = there if encoded.sentence is None else there + encoded.sentence.square().sum()
        found.append([total, *torch.autograd.grad(total, wanted, materialize_grads=True)])
    for one in found[1:]:
        assert_near(one, found[0], 1e-11)


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_a_layer_equals_torchs_own(kind: str, pre: bool) -> None:
    model = encoder(positions={"kind": "none"}, bias="all", activation=kind, norm="pre" if pre else "post", layers=1)
    layer: Any = model.layers[0]
    theirs = nn.TransformerEncoderLayer(6, 2, 5, 0.0, kind, 1e-5, batch_first=True, norm_first=pre).double().eval()
    pairs = {
        "self_attn.in_proj_": layer.projections, "self_attn.out_proj.": layer.output, "linear1.": layer.widen,
        "linear2.": layer.narrow, "norm1.": layer.attention_norm, "norm2.": layer.norm,
    }  # fmt: skip
    theirs.load_state_dict(
        {f"{key}{part}": getattr(module, part) for key, module in pairs.items() for part in ("weight", "bias")}
    )
    unary, mask = sentences([5, 1, 3], labels=6)
    expected = theirs(unary, src_key_padding_mask=~mask)
    if model.final_norm is not None:
        expected = functional.layer_norm(expected, (6,), model.final_norm.weight, model.final_norm.bias)
    torch.testing.assert_close(model(Words(unary, mask)).states[mask], expected[mask], rtol=0, atol=1e-12)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_a_batch_of_no_words() -> None:
    model = encoder()
    for lengths in ([0], [0, 0]):
        unary = torch.zeros(len(lengths), 3, 6, dtype=torch.float64, requires_grad=True)
        states = model(Words(unary, torch.zeros(len(lengths), 3, dtype=torch.bool))).states
        states.sum().backward()
        assert not states.any()
        assert unary.grad.isfinite().all()


@pytest.mark.parametrize("options", [{}, {"positions": RELATIVE[3]}], ids=name)
def test_half_precision_is_finite_and_near(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = build({**SMALL, "width": 32, "heads": 4, "inner": 64, **STILL, **options})
    unary, mask = sentences([9, 1, 4], labels=32)
    exact = model(Words(unary.float(), mask)).states
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = model(Words(unary.float(), mask)).states
    assert states.isfinite().all()
    assert float(((states - exact).norm() / exact.norm()).detach()) < 2e-2


def test_what_is_dropped_where() -> None:
    """With the other two at 0, each of the three changes a training step, and none an evaluation."""
    unary, mask = sentences([6, 3], labels=6)
    for where in STILL:
        model = encoder(**{where: 0.5})
        still = model(Words(unary, mask)).states
        torch.testing.assert_close(still, encoder()(Words(unary, mask)).states, rtol=0, atol=0)
        model.train()
        torch.manual_seed(1)
        first = model(Words(unary, mask)).states
        assert not torch.equal(first, still)
        torch.manual_seed(1)
        torch.testing.assert_close(model(Words(unary, mask)).states, first, rtol=0, atol=0)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_sentence_longer_than_its_positions_is_refused() -> None:
    model = encoder(positions={"kind": "absolute", "rows": 4})
    assert model.facts.position_rows == 4
    with pytest.raises(DataError, match="a sentence of 6 words is longer than the model's 4 positions") as caught:
        model(Words(*sentences([6, 2], labels=6)))
    assert "model.positions.rows=6" in str(caught.value.hint)
    assert encoder(positions={"kind": "learned_sinusoidal", "rows": 4}).facts.position_rows == 4
    assert encoder(positions={"kind": "sinusoidal"}).facts.position_rows is None


def test_a_segment_type_that_there_is_not_is_refused() -> None:
    unary, mask = sentences([3, 2], labels=6)
    model = encoder(segments=2)
    for kind in (2, -1):
        with pytest.raises(ValueError, match=f"segment type {kind}, but the model has 2, from 0"):
            model(Words(unary, mask, segments=torch.tensor([[0, 1, kind], [0, 0, 0]])))


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(InconsistentError, match="4 heads do not divide a width of 6"):
        build({**SMALL, "heads": 4})
    with pytest.raises(ValidationError, match="labels"):
        build({**SMALL, "labels": 4})


# --- the command ------------------------------------------------------------------------------------------------------

OVERRIDES = ["model.kind=transformer", "model.width=8", "model.inner=12", "model.heads=2", "model.layers=2"]


def test_it_trains_resumes_and_parses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    command = ["train", "tiny.yaml", *OVERRIDES, "task.output=tied", "runtime.threads=1", "eval.trees=true", "--json"]
    assert run([*command, "name=whole"]) == 0
    whole = json.loads(capfd.readouterr().out)
    assert run([*command, "name=whole", "--resume"]) == 0
    assert json.loads(capfd.readouterr().out)["dev"] == whole["dev"]
    assert math.isfinite(whole["dev"]["loss"])
    assert {"channel", "iteration"} <= set(whole["dev"]["trees"]["reading"])
    Path("words.txt").write_text("a b c\n", "utf-8")
    for form in ("conllu", "tree", "jsonl", "svg"):
        assert run(["parse", "runs/whole", "words.txt", "-f", form, "--channel", "1", "--iteration", "2"]) == 0
        assert capfd.readouterr().out
    assert run(["eval", "runs/whole", "--split", "dev", "--json"]) == 0
    (scores,) = json.loads(capfd.readouterr().out)["scores"].values()
    assert scores["loss"] == pytest.approx(whole["dev"]["loss"], rel=1e-5)
    assert "transformer encoder of width 8" in Path("runs/whole/checkpoints/best/README.md").read_text("utf-8")
    assert run(["eval", "runs/whole", "--labels"]) == 2
    assert "the words of this model of kind transformer have no latent labels" in capfd.readouterr().err


def test_what_a_transformer_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace(tmp_path))
    for override, code, message in (
        ("optim.ternary_penalty.weight=0.1", 2, "a model of kind `transformer` has no ternary scores"),
        ("eval.channel=2", 2, "found 2, but the model has channels 0 to 1"),
        ("model.positions={kind: absolute, rows: 2}", 3, "positions"),
    ):
        assert run(["train", "tiny.yaml", *OVERRIDES, override]) == code
        assert message in capfd.readouterr().err


# --- sizes, and what weights start with -------------------------------------------------------------------------------


TABLE_3: list[tuple[int, int, int, int, int, int]] = [  # d, d_ff, heads, layers, d_qkv, encoder parameters
    (384, 2048, 8, 5, 256, 23_809_408),
    (256, 2048, 14, 4, 128, 11_678_720),
    (512, 2048, 14, 5, 32, 15_358_464),
    (384, 512, 14, 4, 16, 3_155_456),
    (256, 512, 10, 8, 256, 23_214_080),
    (128, 1024, 14, 4, 256, 8_460_800),
    (256, 512, 16, 3, 16, 1_709_312),
]


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("sizes", TABLE_3, ids=str)
def test_parameter_counts_are_those_of_table_3(sizes: tuple[int, ...]) -> None:
    section = dict(zip(("width", "inner", "heads", "layers", "head_size"), sizes[:5], strict=True))
    with torch.device("meta"):
        assert count(build({"kind": "transformer", **section})) == sizes[5]


@pytest.mark.parametrize(("share", "expected"), [(False, 100_000), (True, 50_000)])
def test_parameter_counts_of_cogs(share: bool, expected: int) -> None:
    section = {"width": 64, "inner": 256, "heads": 4, "layers": 2, "head_size": 16, "share_layers": share}
    relative = {"kind": "relative", "clip": 8}
    assert count(build({"kind": "transformer", **section, "positions": relative})) == expected


@pytest.mark.parametrize(
    ("vocabulary", "layers", "width", "expected"),
    [
        (30_522, 12, 768, 109_482_240),
        (30_522, 2, 128, 4_385_920),
        (30_522, 24, 1024, 335_141_888),
    ],
)
def test_parameter_counts_are_those_of_bert(vocabulary: int, layers: int, width: int, expected: int) -> None:
    section = {"width": width, "inner": 4 * width, "heads": width // 64, "layers": layers}
    with torch.device("meta"):
        network = Network(vocabulary, build({"kind": "transformer", "preset": "bert", **section}), linear(2))
    assert count(network.unary) + count(network.encoder) == expected


def test_a_preset_gives_way_to_what_is_written() -> None:
    section = Transformer.model_validate({"kind": "transformer", "preset": "bert", "layers": 2, "pooler": False})
    assert (section.layers, section.width, section.pooler, section.norm_eps) == (2, 768, False, 1e-12)
    assert section.resolved().head_size == 64


def test_the_start_of_bert() -> None:
    torch.manual_seed(0)
    model = build({"kind": "transformer", "preset": "bert", "width": 64, "heads": 4, "inner": 256, "layers": 2})
    network = Network(500, model, linear(2))
    for key, parameter in [*model.named_parameters(), ("unary", network.unary.weight[1:])]:
        if "norm" in key or "bias" in key:
            assert set(parameter.detach().flatten().tolist()) == {0.0 if "bias" in key else 1.0}, key
        else:
            assert float(parameter.detach().std()) == pytest.approx(0.02, rel=0.15), key


def test_the_start_of_the_paper() -> None:
    torch.manual_seed(0)
    layer: Any = build({**SMALL, "width": 64, "heads": 4, "head_size": 32, "initialization": "xavier"}).layers[0]
    expected = math.sqrt(2.0 / (64 + 32))
    assert float(layer.projections.weight.detach().std()) == pytest.approx(expected, rel=0.05)
    assert float(layer.output.weight.detach().std()) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("options", [{}, {"initialization": "xavier"}, {"preset": "bert", "std": 0.5}], ids=name)
def test_learned_sinusoidal_positions_start_as_fixed_ones(options: dict[str, Any]) -> None:
    """They have as many parameters as other learned ones, and all else starts as it does with those."""
    torch.manual_seed(0)
    learned = build({**SMALL, **options, "positions": {"kind": "learned_sinusoidal", "rows": 12}})
    torch.manual_seed(0)
    absolute = build({**SMALL, **options, "positions": {"kind": "absolute", "rows": 12}})
    fixed = build({**SMALL, **options, "positions": {"kind": "sinusoidal"}})
    assert count(learned) == count(absolute) == count(fixed) + 12 * 6
    positions = learned.positions.detach()
    angles = torch.arange(12)[:, None] * 10000.0 ** (-torch.arange(0, 6, 2) / 6)
    torch.testing.assert_close(positions[:, 0::2], angles.sin(), rtol=0, atol=1e-5)
    torch.testing.assert_close(positions[:, 1::2], angles.cos(), rtol=0, atol=1e-5)
    others = {key: value for key, value in absolute.named_parameters() if key != "positions"}
    assert all(torch.equal(value, others[key]) for key, value in learned.named_parameters() if key != "positions")
    fixed.load_state_dict({key: value for key, value in learned.state_dict().items() if key != "positions"})
    unary, mask = sentences([6, 4], labels=6)
    given = Words(unary.float(), mask)
    torch.testing.assert_close(learned.eval()(given).states, fixed.eval()(given).states, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("initialization", "usual"), [("normal", 0.02), ("xavier", math.sqrt(2.0 / (500 + 64)))])
def test_words_may_start_larger_than_the_rest(initialization: str, usual: float) -> None:
    encoders = []
    for options, std in [({}, usual), ({"word_std": 0.5}, 0.5)]:
        torch.manual_seed(0)
        encoders.append(build({**SMALL, "width": 64, "initialization": initialization, **options}))
        words = Network(500, encoders[-1], linear(2)).unary.weight[1:]
        assert float(words.detach().std()) == pytest.approx(std, rel=0.02)
    assert all(map(torch.equal, *(encoder.parameters() for encoder in encoders)))
