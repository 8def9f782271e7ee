"""Checks of options that several verbs have."""

from __future__ import annotations

from probtrans_cli.errors import UsageError


def refuse_top_alone(latent_labels: bool, top: int | None) -> None:
    """Refuse `--top` without `--labels`."""
    if top is not None and not latent_labels:
        raise UsageError("--top says how much --labels shows", hint=f"write --labels --top {top}, or leave it out")
