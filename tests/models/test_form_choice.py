"""Which form of the messages is taken, and that nothing else looks into the room of the fast ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import encoder, name, sentences

from probtrans_cli.models.probabilistic.fast import forms as choice
from probtrans_cli.models.probabilistic.fast import fused

pytestmark = pytest.mark.usefixtures("quick")
LONG = ["fast-long", "linear"]
SHORT = ["fast", "banded"]


@pytest.mark.parametrize(
    ("form", "options", "how", "situations"),
    [
        ("pairs", {}, [*SHORT, *LONG], ["all pairs", "all pairs, not by hand"]),
        ("pairs", {"heads": "tree"}, [*SHORT, *LONG], ["", "not by hand"]),
        ("fused", {}, SHORT, [""]),
        ("fused", {"schedule": "synchronous", "damping": {"labels": 0.5}}, SHORT, [""]),
        ("fused-again", {}, LONG, [""]),
        ("banded", {}, SHORT, ["not by hand"]),
        ("banded", {"damping": {"heads": 0.5}}, SHORT, ["", "not by hand"]),
        ("banded", {"step_size": {"heads": 0.5}}, SHORT, [""]),
        ("banded", {}, [*SHORT, *LONG], ["compiling, not by hand"]),
        ("recomputed", {}, LONG, ["not by hand"]),
        ("recomputed", {"damping": {"heads": 0.5}}, LONG, ["", "not by hand"]),
    ],
    ids=name,
)
def test_the_choice_of_a_form(
    form: str, options: dict[str, Any], how: list[str], situations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unary, mask = sentences([20, 3])
    inference = encoder(**options).inference
    for messages in how:
        for situation in situations:
            with monkeypatch.context() as patch:
                patch.setattr(choice, "LONG", 100 if messages == "fast-long" else 10_000)
                if "not by hand" in situation:
                    patch.setattr(choice, "by_hand", lambda _: False)
                if "compiling" in situation:
                    patch.setattr(torch.compiler, "is_compiling", lambda: True)
                option: Any = messages.removesuffix("-long")
                all_pairs = "all pairs" in situation
                chosen = choice.choose(option, unary, mask, inference, all_pairs=all_pairs)
            assert chosen.form.name == form, (messages, situation)


def test_only_the_choice_looks_into_the_fast_room() -> None:
    """The text to read does without it, and what is in there does not know who uses it."""
    room = Path(fused.__file__).parent
    for path in room.parent.glob("*.py"):
        assert path.name == "encoder.py" or "probabilistic.fast" not in path.read_text("utf-8"), path
    for path in room.glob("*.py"):
        imported = re.findall(
            r"^from probtrans_cli\.models\.probabilistic\.(\w+)", path.read_text("utf-8"), re.MULTILINE
        )
        assert not set(imported) & {"encoder", "exact"}, path


def test_what_is_written_by_hand() -> None:
    """On a CPU, of plain tensors. In an autocast, products and whole iterations of the heads alone."""
    unary, mask = sentences([4, 2])
    unary = unary.float()
    inference, damped = encoder().inference, encoder(damping={"heads": 0.5}).inference
    chosen = choice.choose("fast", unary, mask, inference)
    assert chosen.by_hand
    assert chosen.bands_by_hand
    with torch.autocast("cpu", dtype=torch.bfloat16):
        chosen = choice.choose("fast", unary, mask, inference)
        assert (chosen.form.name, chosen.by_hand, chosen.bands_by_hand) == ("fused", True, False)
        for other in (
            choice.choose("fast", unary, mask, damped),
            choice.choose("fast", unary, mask, inference, all_pairs=True),
            choice.choose("fast", unary.double(), mask, inference),
        ):
            assert not other.by_hand
            assert not other.bands_by_hand
    assert not choice.choose("fast", unary.to("meta"), mask, inference).by_hand
