"""A model as a Python package, to hand on: after `pip install` its name is a CKPT, for every verb and for `load`.

    OUT/                              a checkpoint folder that a model hub takes as it is: README.md is its card
    OUT/NAME-VERSION-py3-none-any.whl the same files, as a package

The package holds no code. Its files lie in ``probtrans_models/NAME/``, and an entry point of the group
`probtrans.models` says so; :func:`probtrans_cli.folders.checkpoints.installed` looks there, and imports nothing. The
wheel is written by hand: it is a zip file with the checksums of its files (PEP 427).
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import zipfile
from collections.abc import Mapping
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

from probtrans_cli import checkpoint
from probtrans_cli.corpora import corpus_of
from probtrans_cli.errors import UsageError
from probtrans_cli.export import ExportOptions
from probtrans_cli.export import safetensors as folder_format
from probtrans_cli.folders.checkpoints import GROUP, PACKAGES, SUMS, listed, normalised
from probtrans_cli.recipe.yaml import write_tree
from probtrans_cli.reports.scores import flattened
from probtrans_cli.text import printable
from probtrans_cli.trained.model import Model
from probtrans_cli.version import __version__

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?"
_LICENCE = r"[A-Za-z0-9][A-Za-z0-9.+-]*"
_WIDE = {"tagging": "token-classification", "ner": "token-classification", "classification": "text-classification"}
_HUB_TASKS = {**_WIDE, "mlm": "fill-mask", "pretrain": "fill-mask"}


def write(model: Model, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the folder and the wheel in it; the report is that of `safetensors`, with the package's name."""
    package, version = normalised(options.name or model.recipe.name), options.package_version or "1.0.0"
    for option, text, pattern, hint in (
        ("--name", options.name or model.recipe.name, _NAME, "letters, digits and `-`, as pos-ewt-affix"),
        ("--package-version", version, _VERSION, "numbers and dots, as 1.0.0"),
        ("--licence", options.licence or "mit", _LICENCE, "an SPDX identifier, as cc-by-sa-4.0"),
    ):
        if not re.fullmatch(pattern, text):
            raise UsageError(f"{option}: {printable(text)!r} cannot be that of a package", hint=f"write {hint}")
    try:
        there = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        there = None
    if there is not None and not any(entry.group == GROUP for entry in there.entry_points):
        message = f"--name: there is a package {package} already, and it is no model"
        raise UsageError(message, hint=f"choose another name, as --name probtrans-{package}")
    assert model.folder is not None, "it was loaded"
    scores = {} if "pruned" in options.about else checkpoint.verify(model.folder).json("eval.json", dict[str, Any])
    card = _card(model, package, version, scores, options)
    module = package.replace("-", "_")
    name, about = f"{module}-{version}-py3-none-any.whl", f"{module}-{version}.dist-info"
    pieces = "[hf]" if model.recipe.data.vocabulary.kind == "wordpiece" else ""
    headers = [
        "Metadata-Version: 2.1",
        f"Name: {package}",
        f"Version: {version}",
        f"Summary: {' '.join(printable(model.recipe.model.describe(), 400).split())}",
        *([f"License: {options.licence}"] if options.licence else []),
        "Requires-Python: >=3.11",
        f"Requires-Dist: probtrans{pieces} >={__version__}",
        "Description-Content-Type: text/markdown",
    ]
    tags = f"Wheel-Version: 1.0\nGenerator: probtrans {__version__}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts = {
        f"{about}/METADATA": "\n".join(headers) + f"\n\n{card}",
        f"{about}/WHEEL": tags,
        f"{about}/entry_points.txt": f"[{GROUP}]\n{package} = {PACKAGES}.{module}\n",
    }

    def pack(folder: Path) -> None:
        files = ((f"{PACKAGES}/{module}/{file}", (folder / file).read_bytes()) for file in [*listed(folder), SUMS])
        record = []
        with zipfile.ZipFile(folder / name, "x", zipfile.ZIP_DEFLATED) as archive:
            for file, content in chain(files, ((file, text.encode()) for file, text in texts.items())):
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                record.append(f"{file},sha256={digest},{len(content)}\n")
                _add(archive, file, content)
            _add(archive, f"{about}/RECORD", "".join([*record, f"{about}/RECORD,,\n"]).encode())

    report = folder_format.write(model, out, options, {"README.md": card}, format="wheel", finish=pack)
    return report | {"package": f"{package} {version}", "wheel": str(out / name)}


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name)  # of 1980: the same model gives the same wheel
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    archive.writestr(entry, content)


# --- the card ---------------------------------------------------------------------------------------------------------


def _card(model: Model, package: str, version: str, scores: Mapping[str, Any], options: ExportOptions) -> str:
    recipe = model.recipe
    kind = recipe.task.kind
    counts = model.network.parameter_counts()
    files: dict[str, list[str]] = {}
    for split in ("train", "dev", "test", "extra"):
        names = getattr(recipe.data, split)
        files[split] = [] if names is None else [names] if isinstance(names, str) else list(names)
    languages = sorted({match[1] for name in files["train"] if (match := re.match(r"ud/([a-z]{2,3})_", name))})
    top: dict[str, Any] = {"library_name": "probtrans", "tags": ["probtrans", "dependency-trees", kind]}
    top |= {"pipeline_tag": _HUB_TASKS[kind]} if kind in _HUB_TASKS else {}
    top |= {"language": languages} if languages else {}
    top |= {"license": options.licence} if options.licence else {}
    results, lines, sources = [], [], []
    for split, names in files.items():
        for name in names:
            corpus = corpus_of(name)
            about = "a corpus inside probtrans, generated, MIT" if name.startswith("embedded:") else "licence not known"
            if corpus is not None:
                about = f"{corpus.what}. Licence: {corpus.licence}; {corpus.cite}"
            sources.append(f"- {split}: {_code(name)}: {html.escape(about, quote=False)}.")
        if not (numbers := flattened(scores.get(split) or {})):
            continue
        title = ", ".join(names)
        metrics = [{"type": name, "value": round(value, 6)} for name, value in numbers.items()]
        task = {"type": _HUB_TASKS.get(kind, "token-classification")}
        results.append({"task": task, "dataset": {"name": title, "type": title, "split": split}, "metrics": metrics})
        lines += [f"| {split} | {_code(name)} | {value:.4g} |" for name, value in numbers.items()]
    if results:
        top["model-index"] = [{"name": package, "results": results}]
    licence = f"The model: {options.licence}." if options.licence else "The licence of the model was not stated."
    table = "\n".join(["| split | score | value |", "|---|---|---|", *lines]) if lines else "None is stored with it."
    data = "\n".join(sources)
    return f"""---
{write_tree(top)}---

# {package}

{html.escape(recipe.model.describe(), quote=False)}
Trained by probtrans {__version__} for the task `{kind}`: {model.step:,} updates, seed {recipe.seed};
{counts["encoder"]:,} encoder parameters, {model.vocabulary.size:,} vocabulary entries. `recipe.yaml` has all settings.

## Use

```
pip install {package.replace("-", "_")}-{version}-py3-none-any.whl
echo "the quick brown fox jumps over the lazy dog ." | probtrans parse {package}
probtrans eval {package} YOUR-FILE
```

```python
import probtrans_cli

model = probtrans_cli.load("{package}")
for analysis in model.analyze(["the quick brown fox jumps over the lazy dog ."]):
    print(analysis.record())
```

In spaCy: `nlp.add_pipe("probtrans", config={{"checkpoint": "{package}"}})`. The folder is complete without being
installed, too: give its path in place of the name. It holds no code; `SHA256SUMS` has the checksum of every file.

## Scores

{table}

## Data and licence

{licence} That of its data may bind you, too.

{data}

## Intended use

Text like that of the training corpus, divided into words as `probtrans parse --input text` does. On other text the
scores above say little: measure first, with `probtrans eval`. The trees of a model that was trained without gold trees
are induced: they tell what the model attends to, and need not be what a linguist draws. Probabilities are the model's
own, and calibrated only as far as it was measured (`probtrans eval --uncertainty`).
"""


def _code(text: str) -> str:
    return f"`{printable(text, 200).replace('`', chr(39))}`"
