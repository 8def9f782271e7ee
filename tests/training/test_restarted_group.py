"""What restarted processes find in the store of those before: nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from probtrans_cli.training.group import Group
from probtrans_cli.training.watch import Launched


def test_processes_that_are_started_again_do_not_see_what_others_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `torchrun`, whose store outlives the processes."""
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20))
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    seen = []
    for attempt in (0, 1):
        group = Group(Launched(0, 1, 0, "127.0.0.1", server.port, attempt))
        seen.append(group.store.check(["done/prepared"]))
        group.done("prepared")
        assert group.wait_for_first("prepared") == ""
        group.watch.end()
    assert seen == [False, False]
