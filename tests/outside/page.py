"""Put the six files into `docs/extending.md`, each behind its heading: ``python tests/outside/page.py``."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "extending.md"


def written() -> str:
    """The page with the files as they are."""
    text = PAGE.read_text("utf-8")
    for name in ("grandparents", "window", "rarity", "two_tags", "slashed", "diagonal"):
        code = (HERE / f"{name}.py").read_text("utf-8")
        pattern = rf"(<!-- file: {name} -->\n```python\n).*?(```\n)"
        text, number = re.subn(pattern, lambda found, code=code: found[1] + code + found[2], text, flags=re.DOTALL)
        assert number == 1, name
    return text


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
