"""Between two logging steps, no update waits for a GPU: none asks for a value that the device computes.

Counted on the device without values (``no_values.py``), for every kind of task, encoder, decomposition and form. What
is allowed, and why:

- every line of metrics, evaluation and checkpoint reads values, as their users do (``log.every_steps``);
- on a CPU alone, where nobody waits: unwanted rows are skipped, ids and segments are checked, the loss is looked at
  after every update (``models/arithmetic.py``, ``loop.py``);
- copies to the device that are not waited for: those of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from no_values import META, waits, without_values
from run_of_every_task import OVERRIDES, corpora_of_every_task
from small_trainings import trainer

from probtrans_cli.models import transformer
from probtrans_cli.models.arithmetic import sent
from probtrans_cli.models.probabilistic.fast import layout

TRANSFORMER = "model={kind: transformer, width: 8, inner: 12, heads: 2, layers: 2}"
RELATIVE = f"{TRANSFORMER[:-1]}, positions: {{kind: relative, clip: 2, terms: qkv}}}}"
BERT = f"{TRANSFORMER[:-1]}, preset: bert}}"
STILL = "dropout: 0, attention_dropout: 0, embedding_dropout: 0"
LOGICAL = "data={train: cogs.tsv, dev: null, test: null, format: cogs}"
FIELD = "{labels: 6, channels: 2, iterations: 2, root: {}}"
STACKED = f"model={{kind: stacked, lower: {TRANSFORMER[6:]}, upper: {FIELD}}}"
MODELS = {"probabilistic": [], "transformer": [TRANSFORMER], "bert": [BERT], "stacked": [STACKED]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(corpora_of_every_task(tmp_path, times=1))
    return tmp_path


def waited_for(monkeypatch: pytest.MonkeyPatch, *overrides: str, updates: int = 2) -> list[str]:
    """What some updates between two lines of metrics wait for."""
    made = without_values(trainer("log.every_steps=1000", *overrides), monkeypatch)
    batches = made.plan.batches(0)
    made.recipe = made.recipe.model_copy(update={"train": made.recipe.train.model_copy(update={"steps": None})})
    with waits() as found:
        for _ in range(updates):
            made._update(batches * 3)
    assert made.state.step == updates
    return sorted(set(found))


PAIRS = {(task, model): number for number, (task, model) in enumerate(product(OVERRIDES, MODELS))}
del PAIRS["lm", "bert"], PAIRS["lm", "stacked"]  # which read later words
for model in MODELS:
    del PAIRS["parsing", model]  # which waits for the positions of annotated words: correct on a GPU, and slower


SLOW, EXHAUSTIVE = pytest.mark.slow, pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("task", "model"),
    [  # each task with one model or more of them in CI
        pytest.param(*pair, marks=([], SLOW, EXHAUSTIVE, SLOW, EXHAUSTIVE, EXHAUSTIVE)[number % 6])
        for pair, number in PAIRS.items()
    ],
)
def test_no_update_of_a_task_waits(task: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [*OVERRIDES[task], *MODELS[model]]
    if model != "probabilistic":
        options = [one for one in options if not one.startswith("model.")]
    options += ["model.causal=true"] if task == "lm" else []
    assert waited_for(monkeypatch, *options) == []


FORMS = ("plain", "banded", "linear")
DECOMPOSITIONS = {
    "none": "{kind: none}",
    "uv": "{kind: uv, rank: 2}",
    "uvw": "{kind: uvw, rank: 2}",
    "shared": "{kind: shared, rank: 2}",
    "rotary": "{kind: rotary, rank: 2}",
}


@pytest.mark.parametrize(
    ("decomposition", "messages"),
    [  # each form with some decompositions, and all of them in CI
        pytest.param(*pair, marks=[] if number % 4 == 1 else pytest.mark.slow)
        for number, pair in enumerate(product(DECOMPOSITIONS, FORMS))
    ],
)
def test_no_form_of_a_decomposition_waits(decomposition: str, messages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    near = "null" if decomposition == "rotary" else "2"
    model = f"{{labels: 6, channels: 2, distance: {near}, decomposition: {DECOMPOSITIONS[decomposition]}}}"
    options = [f"model={model}", f"runtime.messages={messages}", "optim.ternary_penalty={weight: 0.1}"]
    assert waited_for(monkeypatch, *options) == []


TAGGING = "task={kind: tagging, column: xpos}"


@pytest.mark.parametrize("model", [*MODELS, "tree"])
def test_no_update_without_padding_waits(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has the lengths of sentences, and packs the words."""
    places: list[torch.Tensor] = []

    def noted(values: torch.Tensor, device: torch.device) -> torch.Tensor:
        places.append(values)
        return sent(values, device)

    for module in (layout, transformer):
        monkeypatch.setattr(module, "sent", noted)
    options = [*MODELS.get(model, ["model.heads=tree", "model.root={}"]), TAGGING, "runtime.messages=fused"]
    assert waited_for(monkeypatch, *options, "train.by_length=false") == []
    assert places


OPTIONS: dict[str, list[str]] = {
    "all-dep": ["model.globals={kind: all-dep, features: 3}", "model.root={}"],
    "dep-split": ["model.globals={kind: dep-split, features: 3}", "model.damping={labels: 0.2, heads: 0.3}"],
    "single-split": ["model.globals={kind: single-split, features: 3}", "model.schedule=synchronous"],
    "rectified": ["model.globals={kind: rectified, features: 3}", "model.latent=spherical"],
    "own potentials": ["model.share_potentials=false", "model.globals={kind: dep-split, features: 3}"],
    "gains": ["model.gains=true", "model.latent=spherical", "task={kind: mlm, output: tied}"],
    "tree": ["model.heads=tree", "model.root={}"],
    "head bias": ["model.head_bias={}"],
    "probabilities": ["model.output=probabilities", "task={kind: mlm, output: tied}"],
    "average": ["optim.ema=0.9"],
    "several batches": ["train.accumulate=3"],
    "features": ["data.vocabulary={kind: words, features: {}}", TAGGING],
    "pieces": ["data.vocabulary={kind: sentencepiece, size: 60}", TAGGING],
    "word dropout": ["task={kind: tagging, column: xpos, word_dropout: 0.3, loss: sentences}"],
    "kept masks": ["task={kind: mlm, mlm: {dynamic: false, count: exact, mask: 0.8, random: 0.1, keep: 0.1}}"],
    "absolute parents": [LOGICAL, "task={kind: cogs, parent: absolute}"],
    "parents by attention": [LOGICAL, "task={kind: cogs, parent: attention}"],
    "mean of words": [
        "data={train: texts.tsv, dev: null, test: null, format: table}",
        "task={kind: classification, representation: mean}", TRANSFORMER,
    ],
    "relative positions": [RELATIVE, TAGGING],
    "shared layers": [f"{TRANSFORMER[:-1]}, norm: pre, share_layers: true, pooler: true}}", TAGGING],
    "layer decay": [TRANSFORMER, TAGGING, "optim.layer_decay=0.9", "optim.decayed=matrices"],
    "uncertain rows": [f"{TRANSFORMER[:-1]}, bayes: {{}}}}", TAGGING],
    "uncertain, full": [f"{TRANSFORMER[:-1]}, bayes: {{family: full}}}}", TAGGING],
    "uncertain, moments": [f"{TRANSFORMER[:-1]}, {STILL}, bayes: {{objective: moments}}}}", TAGGING],
    "ivon": [TRANSFORMER, TAGGING, "optim.kind=ivon"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_no_option_waits(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_for(monkeypatch, *OPTIONS[options]) == []


# --- the instrument ---------------------------------------------------------------------------------------------------


WAITING: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.sum().item(),
    lambda x: bool((x > 0).any()),
    lambda x: x.nonzero(),
    lambda x: x[x > 0],
    lambda x: x.masked_select(x > 0),
    lambda x: x.unique(),
    lambda x: x.repeat_interleave(x.long()),
    lambda x: torch.equal(x, x),
    lambda x: torch.allclose(x, x),
    lambda x: x.cpu(),
    lambda x: x.tolist(),
    lambda x: x.copy_(torch.ones(3)),
    lambda x: x + torch.ones(3).to(META),
    lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=META),
    lambda x: x[torch.tensor([0, 2])],
]


def test_what_waits_is_found() -> None:
    """Each of them either is noted, or cannot be done at all without values."""
    for number, ask in enumerate(WAITING):
        with waits() as found, suppress(NotImplementedError, RuntimeError):
            ask(torch.zeros(3, device=META))
            found.append("done")
        assert found != ["done"], number


def test_what_does_not_wait_is_left_alone() -> None:
    x = torch.zeros(3, device=META, requires_grad=True)
    with waits() as found:
        rows = torch.tensor([0, 2]).to(META, non_blocking=True)
        (x.index_select(0, rows).sum() / torch.tensor(2.0) + torch.full((), 2, device=META)).backward()
        x[1:].detach().clone().masked_fill(x[1:] > 0, 0.0)
    assert found == []
    assert x.grad is not None
