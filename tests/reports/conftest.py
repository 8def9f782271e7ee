"""What several tests of the verb `table` share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import Invoke


@pytest.fixture
def print_table(invoke: Invoke) -> Callable[..., tuple[int, str, str]]:
    """Run `probtrans table` in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        ran = invoke("table", *map(str, arguments))
        return ran.code, ran.out, ran.err

    return call
