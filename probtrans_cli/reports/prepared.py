"""What `prepare` shows: the splits as a table, the vocabulary, the labels."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from probtrans_cli.data.corpus.parts import QUANTILES
from probtrans_cli.data.corpus.prepared import Prepared
from probtrans_cli.text import harmless, visible


def report(prepared: Prepared, state: str) -> Group:
    """Return what to show on the screen: a table of the splits, vocabulary and labels in a line each, the state."""
    manifest = prepared.manifest
    units = prepared.vocabulary.units
    subwords = units != "words"
    table = Table(box=None, pad_edge=False)
    table.add_column("split")
    for heading in ("sentences", "words", *(["pieces"] if subwords else []), "unknown", "unseen", *QUANTILES):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, split in manifest["splits"].items():
        row = [f"{split['sentences']:,}", f"{split['words']:,}"]
        row += [f"{split['tokens']:,}"] if subwords else []
        row += [f"{split['unknown']:.2%}", f"{split['unseen']:.2%}"]
        table.add_row(name, *row, *(str(length) for length in split["length"].values()))
    size = manifest["vocabulary"]["size"]
    special = manifest["vocabulary"].get("special", 3)
    lines = [f"vocabulary  {size:,} {units} ({special} special); min to max: sentence lengths"]
    for column, labels in manifest["labels"].items():
        counts = {label: count for label, count in labels.items() if count}  # of the kinds of COGS train has a few
        if counts:
            shown = ", ".join(f"{visible(label)} {count:,}" for label, count in list(counts.items())[:20])
            more = f", and {len(counts) - 20} more" if len(counts) > 20 else ""
            lines.append(f"{column}  {len(counts)} labels: {shown}{more}")
    # Text, not str: labels are the user's and must not be read as markup.
    lines += manifest.get("notes", [])
    return Group(table, *(Text(harmless(line)) for line in (*lines, f"{state}: {prepared.folder}")))
