"""A GPU computes what a CPU does in float64: values, gradients, the losses of a training; in bfloat16 and compiled it
learns as much. Opt-in: `pytest -m gpu`.

`PROBTRANS_TEST_DEVICE=cpu` runs them on a CPU instead, as a test of themselves. A double on the GPU must be near to
rounding, so that no form can differ in what it computes; float32 and bfloat16 as near as they can be.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from made_tasks import EVERY, made
from small_models import DECOMPOSITIONS, FIELDS, GLOBALS, assert_near, encoder, name, sentences, values_and_gradients
from small_trainings import metrics, trainer
from support import COMMAND, environment, workplace

from probtrans_cli.__main__ import run
from probtrans_cli.models import build
from probtrans_cli.training.update import counts_of, loss_of

pytestmark = pytest.mark.gpu

DTYPES = {"float64": (torch.float64, 1e-9), "float32": (torch.float32, 2e-4)}
"""How near a tensor must be, in relation to its largest entry."""
OPTIONS: dict[str, dict[str, Any]] = {
    **FIELDS,
    "phrases": {"head_bias": {"leaning": 0.3, "phrase_end": 0.2, "punctuation": 0.4, "alone": 0.5}},
    "synchronous": {"schedule": "synchronous", "output": "probabilities"},
    **{name(one): {"globals": one} for one in GLOBALS},
}
OF_ALL_PAIRS = ("tree", "head bias")
"""Recipes refuse `linear` with these."""
FORMS = [
    (options, messages)
    for options in OPTIONS
    for messages in ("plain", "banded", "linear", "fast", "fused")
    if not (messages == "linear" and options in OF_ALL_PAIRS)
]
FLAT = {"kind": "transformer", "width": 8, "inner": 12, "heads": 2, "layers": 2, "dropout": 0.0,
        "embedding_dropout": 0.0, "attention_dropout": 0.0}  # fmt: skip
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "sinusoidal": FLAT,
    "relative": {**FLAT, "positions": {"kind": "relative", "clip": 2, "terms": "qkv"}, "norm": "pre"},
    "bert": {**FLAT, "preset": "bert", "pooler": True},
    "causal": {**FLAT, "causal": True, "norm": "pre"},
    "shared": {**FLAT, "share_layers": True, "positions": {"kind": "relative", "clip": 2, "terms": "k"}},
}
LENGTHS = [9, 4, 1, 7]


@pytest.fixture
def device() -> torch.device:
    """Where the values are computed that a CPU's are compared with."""
    found = torch.device(os.environ.get("PROBTRANS_TEST_DEVICE", "cuda"))
    if found.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU; PROBTRANS_TEST_DEVICE=cpu tries the test itself")
    return found


def compared(model: Any, plain: Any, device: torch.device, dtype: str) -> None:
    """States, the sentence's, and all gradients, of an encoder on the device and of a plain one on the CPU."""
    unary, mask = sentences(LENGTHS, plain.facts.unary_width)
    kind, tolerance = DTYPES[dtype]
    results = []
    for network, where, of in ((model.to(device, kind), device, kind), (plain, torch.device("cpu"), torch.float64)):
        scores = unary.to(where, of).requires_grad_()
        parts = values_and_gradients(network, scores, mask.to(where), lengths=tuple(LENGTHS))
        results.append([part.cpu().double() for part in parts])
    assert_near(*results, tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("options", "messages"), FORMS)
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS, ids=name)
def test_every_form_has_the_values_of_the_plain_one(
    decomposition: dict[str, Any], options: str, messages: str, dtype: str, device: torch.device
) -> None:
    near = {} if decomposition["kind"] == "rotary" else {"distance": 2}
    given = {"decomposition": decomposition, **near, **OPTIONS[options]}
    compared(encoder(messages=messages, **given), encoder(messages="plain", **given), device, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("messages", ["fast", "fused"])
@pytest.mark.parametrize("section", TRANSFORMERS)
def test_every_transformer_has_the_values_of_the_cpu(
    section: str, messages: Any, dtype: str, device: torch.device
) -> None:
    torch.manual_seed(0)
    plain = build(TRANSFORMERS[section], messages).double().eval()
    compared(copy.deepcopy(plain), plain, device, dtype)


@pytest.mark.parametrize("lengths", [LENGTHS, [7, 7, 7]])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_without_a_mask_is_near_in_bfloat16(causal: bool, lengths: list[int], device: torch.device) -> None:
    """As the kernel of torch for many lengths is, which serves half precision alone; beside the masked one."""
    torch.manual_seed(0)
    section = {**FLAT, "width": 16, "causal": causal, **({"norm": "pre"} if causal else {})}
    model = build(section, "fused").to(device, torch.bfloat16).eval()
    unary, mask = sentences(lengths, 16)
    results = []
    for of_host in (tuple(lengths), None):
        scores = unary.to(device, torch.bfloat16).requires_grad_()
        parts = values_and_gradients(model, scores, mask.to(device), lengths=of_host)
        results.append([part.detach().cpu().double() for part in parts])
    for value, expected in zip(*results, strict=True):
        assert float((value - expected).norm()) < 2e-2 * (1.0 + float(expected.norm()))


@EVERY
def test_the_loss_of_every_task_has_the_gradients_of_the_cpu(kind: str, number: int, device: torch.device) -> None:
    """Scores are float32 where they meet the gold, whatever the network is: losses are equal up to its rounding."""
    one = made(kind, number)
    task, network = one.task, copy.deepcopy(one.network).double()
    there = copy.deepcopy(network).to(device)
    torch.manual_seed(0)
    batch = task.training(one.batch(range(len(one.split)))).located()
    found = []
    for asked, given in ((there, batch.to(device)), (network, batch)):
        loss = loss_of(task, asked, given, counts_of(task, [given]))
        grads = torch.autograd.grad(loss, [*asked.parameters()], materialize_grads=True, allow_unused=True)
        found.append([part.cpu() for part in (loss, *grads)])
    assert_near(found[0], found[1], 1e-6)


# --- a training -------------------------------------------------------------------------------------------------------

TRAININGS: dict[str, list[str]] = {
    "probabilistic": [],
    "fused": ["runtime.messages=fused"],
    "linear": ["runtime.messages=linear"],
    "transformer": ["model={kind: transformer, width: 16, inner: 32, heads: 2, layers: 2, attention_dropout: 0}"],
    "tagging": ["task={kind: tagging, column: xpos}"],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace(tmp_path))
    return tmp_path


@pytest.mark.parametrize("which", TRAININGS)
def test_a_training_has_the_losses_of_the_cpu(which: str, place: Path, device: torch.device) -> None:
    """30 updates in float32 without dropout, whose random numbers are others on a GPU; compiled in bfloat16, in a
    process of its own (the checks of shapes cannot be traced), they are near. It is scored, resumed and evaluated."""
    still = ["model.dropout=0", *(["model.embedding_dropout=0"] if which == "transformer" else [])]
    options = [*TRAININGS[which], *still, "train.steps=30", "train.epochs=20"]
    losses = []
    for where in (device.type, "cpu"):
        exact = [*options, f"runtime.device={where}", "runtime.precision=float32", "--run", f"runs/{where}"]
        assert run(["-q", "train", "tiny.yaml", *exact, "--overwrite"]) == 0
        losses.append([line["loss"] for line in metrics(f"runs/{where}", "train")])
    assert len(losses[0]) == 30
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)
    loss = "accuracy>=0" if which == "tagging" else "perplexity<=1e6"
    assert run(["eval", f"runs/{device.type}", "--require", loss]) == 0
    fast = [*options, f"runtime.device={device.type}", "runtime.compile=true", "--run", "runs/fast"]
    command = [*COMMAND, "-q", "train", "tiny.yaml", *fast]
    for more in ([], ["--resume"]):
        result = subprocess.run([*command, *more], env=environment(), capture_output=True, text=True, timeout=500)
        assert result.returncode == 0, result.stderr
    assert [line["loss"] for line in metrics("runs/fast", "train")] == pytest.approx(losses[0], abs=0.05)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("which", TRAININGS)
def test_no_update_waits_for_the_gpu(which: str, precision: str, place: Path, device: torch.device) -> None:
    """Between two lines of metrics; torch itself ends what waits."""
    if device.type != "cuda":
        pytest.skip("torch watches a GPU alone; tests/training/test_no_waiting.py is the same for a CPU")
    options = ["log.every_steps=1000", "runtime.device=cuda", f"runtime.precision={precision}", "optim.ema=0.9"]
    training = trainer(*TRAININGS[which], *options)
    batches = training.plan.batches(0) * 10
    for _ in range(2):  # kernels are loaded, the optimizer makes its moments
        training._update(batches)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # torch calls this mode a prototype
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(5):
            training._update(batches)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert training.state.step == 7


@pytest.mark.parametrize("which", ["probabilistic", "transformer"])
def test_a_tenth_of_a_billion_parameters(which: str, place: Path, device: torch.device) -> None:
    """Ten updates of the recipes for MiniPile at their full size, of a made text with as many words as BERT has pieces.

    On a GPU with their own batches; the loss falls, and memory is about that of the plan in docs/scaling.md.
    """
    words = [f"w{number}" for number in range(30_517)]
    with Path("train.jsonl").open("w", encoding="utf-8") as file:
        for first in range(0, len(words), 256):
            line = words[first : first + 256]
            file.writelines(json.dumps({"text": " ".join(line * 2)}) + "\n" for _ in range(4))
    large = device.type == "cuda"
    batch = [] if large else ["train.batch_words=512"]
    options = ["data.train=train.jsonl", "data.dev=null", "data.test=null", "data.vocabulary={kind: words}", *batch]
    options += ["train.steps=10", "train.epochs=10", "eval.every_steps=null", "log.every_steps=1"]
    assert run(["-q", "train", f"mlm-minipile-{which}", *options, "--run", "run", f"runtime.device={device.type}"]) == 0
    losses = [line["loss"] for line in metrics("run", "train")]
    assert len(losses) == 10
    assert losses[-1] < losses[0] < 12.0
    if large:
        assert torch.cuda.max_memory_allocated() < 60e9
