"""The verb `fetch`: public corpora from where they are published, licensed ones from the user's own copy.

Nothing else in probtrans uses the network.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from probtrans_cli import console
from probtrans_cli.corpora import CORPORA, Corpus, Options, corpus_of
from probtrans_cli.data.files import COMPRESSED
from probtrans_cli.errors import UsageError
from probtrans_cli.folders import data_folder, holds, places
from probtrans_cli.recipe.source import shipped_recipes, texts_in
from probtrans_cli.text import printable
from probtrans_cli.training.watch import stopped_at_once

WIDTH, INDENT = 79, 15
_WHOLE: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}


@dataclass(frozen=True)
class FetchRequest:
    """The arguments of `fetch`."""

    names: Sequence[str]
    to: Path | None = None
    source: Path | None = None
    force: bool = False


def fetch(request: FetchRequest) -> list[dict[str, Any]]:
    """Put corpora in place; without names, say which there are.

    Raises:
        UsageError: there is no such corpus, or a licensed one is named without the user's copy.
        DataError: a file cannot be had, is not the expected one, or another is in the way.
    """
    root = request.to or data_folder()
    if not request.names:
        if request.source or request.force:
            raise UsageError("--from and --force need the name of a corpus", hint="probtrans fetch lists them")
        return _listed(root)
    corpora: list[Corpus] = []
    for name in request.names:
        corpus = CORPORA.get(name.lower().replace("_", "-")) or corpus_of(name)
        if corpus is None:
            close = get_close_matches(name.lower(), CORPORA, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(CORPORA)}"
            raise UsageError(f"no corpus {printable(name, 100)!r}", hint=hint)
        if corpus not in corpora:
            corpora.append(corpus)
    if request.source is not None and len(corpora) > 1:
        raise UsageError("--from is the copy of one corpus, and several are named", hint="give them one by one")
    for corpus in corpora:
        if corpus.brings and request.source is None:
            message = f"{corpus.name} is licensed ({corpus.licence}): it is made of your own copy"
            raise UsageError(message, hint=f"probtrans fetch {corpus.name} --from DIR, with {corpus.brings}")
    results = []
    for corpus in corpora:
        options = Options(root / corpus.folder, request.source, request.force)
        console.log(f"{corpus.name}: licence: {corpus.licence}; {corpus.cite}")
        files = []
        with stopped_at_once("while fetching", "the same command goes on: what is in place stays"):
            for path, state in corpus.place(options):
                console.log(f"{path}: {state}", level=console.VERBOSE)
                files.append({"path": str(path), "state": state})
        results.append({"name": corpus.name, "folder": str(options.folder), "files": files})
    return results


def _listed(root: Path) -> list[dict[str, Any]]:
    needs = {name: [corpus_of(text) for text in texts_in(str(path))] for name, path in shipped_recipes().items()}
    rows = []
    for corpus in CORPORA.values():
        count = sum(any(holds(Path.is_file, root / f"{path}{end}") for end in ("", ".gz")) for path in corpus.paths)
        rows.append(
            {
                "name": corpus.name,
                "what": corpus.what,
                "bytes": corpus.size,
                "licence": corpus.licence,
                "your_copy": corpus.brings or None,
                "recipes": [name for name, corpora in needs.items() if corpus in corpora],
                "folder": str(root / corpus.folder),
                "there": "all" if count == len(corpus.paths) else "part" if count else "no",
            }
        )
    return rows


# --- for a training ---------------------------------------------------------------------------------------------------


def fetch_missing(recipe: str, overrides: Sequence[str], *, ask: bool = True) -> None:
    """Fetch the public corpora that a recipe names and that are not there; if asked for, after a question on a
    terminal, and never where nobody can answer it."""
    if ask and not (sys.stdin.isatty() and sys.stderr.isatty() and console.STATE.level > console.QUIET):
        return
    if recipe == "-":
        if ask:
            return
        raise UsageError("--fetch needs a recipe that is a file", hint="fetch the corpora first: probtrans fetch NAME")
    missing = []
    for text in texts_in(recipe, overrides):
        files = [Path(f"{place}{ending}") for place in places(text) for ending in ("", *COMPRESSED)]
        if not any(holds(Path.exists, file) for file in files):
            missing.append(text)
    for corpus in dict.fromkeys(map(corpus_of, missing)):
        if corpus is None or corpus.brings:
            continue  # the error about the missing file says how to get it
        if ask:
            where = data_folder() / corpus.folder
            question = f"{corpus.what} is not there.\nLicence: {corpus.licence}; {corpus.cite}.\n"
            question += f"Fetch {_megabytes(corpus.size)} into {where}? [y/N] "
            sys.stderr.write(question)
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                continue
        fetch(FetchRequest([corpus.name]))


# --- reports ----------------------------------------------------------------------------------------------------------


def report(results: Sequence[dict[str, Any]]) -> str:
    """Return the list of corpora, or what happened to the files, for people."""
    if results and "files" in results[0]:
        return "".join(f"{file['path']}: {file['state']}\n" for result in results for file in result["files"])
    text = ""
    for row in results:
        state = {"all": "there", "part": "a part is there", "no": "not there"}[row["there"]]
        source = f"your own copy: {row['your_copy']}" if row["your_copy"] else _megabytes(row["bytes"])
        lines = [row["what"], f"{state}; {source}; {row['licence']}"]
        lines += [f"for {', '.join(_short(row['recipes']))}"] if row["recipes"] else []
        for number, line in enumerate(lines):
            first = f"{row['name'] if number == 0 else '':<{INDENT}}"
            text += textwrap.fill(line, WIDTH, initial_indent=first, subsequent_indent=" " * INDENT, **_WHOLE) + "\n"
    folder = os.path.commonpath([row["folder"] for row in results])
    return f"{text}\nprobtrans fetch NAME puts one there, a licensed one with --from DIR:\n{folder}\n"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size < 1e7 else f"{size / 1e6:.0f} MB"


def _short(names: Sequence[str]) -> list[str]:
    begins = {name: "-".join(name.split("-")[:2]) + "-" for name in shipped_recipes()}
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(begins[name], []).append(name)
    whole = {begin for begin, group in groups.items() if 1 < len(group) == list(begins.values()).count(begin)}
    return [text for begin, group in groups.items() for text in ([f"{begin}*"] if begin in whole else group)]
