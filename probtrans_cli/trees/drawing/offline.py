"""What the pages of this project share: each is one file that needs no network and runs no script but its own.

Text from outside reaches a page escaped, or as JSON without a character of markup. Its policy names the digests of its
own style and script, so that nothing else is applied, run or fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from probtrans_cli.text import visible
from probtrans_cli.trees.drawing.drawing import LONGEST_TITLE

HERE = "probtrans_cli.trees.drawing"


def document(package: str, name: str, *, title: str, styles: Sequence[str], scripts: Sequence[str], **more: str) -> str:
    """A page from the template ``page/NAME`` of a package, which is its body, with its own styles and scripts below the
    shared head and style.

    ``more``: what the template asks for besides; it must be safe.
    """
    style = "".join([part(HERE, "base.css"), *(part(package, one) for one in styles)])
    script = "\n".join(part(package, one) for one in scripts)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = escape(visible(title, longest=LONGEST_TITLE))
    template = Template(part(HERE, "head.html") + part(package, name))
    return template.substitute(title=shown, policy=policy, style=style, script=script, **more)


def part(package: str, name: str) -> str:
    """A file of a package's folder `page`."""
    return files(package).joinpath("page", name).read_text(encoding="utf-8")


def safe_json(value: object) -> str:
    """JSON in ASCII without a character of markup, so that no word can end the element that it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
