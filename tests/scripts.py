"""The scripts of data_scripts/ as modules, for the tests of them."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from support import ROOT

FOLDER = ROOT / "data_scripts"


def load(name: str) -> ModuleType:
    """A script; it finds what the scripts share as it does when Python runs it from its folder."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
