"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from probtrans_cli.folders.places import expand_home, with_home

PATH: dict[str, Any] = {"parser": expand_home}
"""What every option has that names a file or a folder: in it `~` is the home folder."""
NAME: dict[str, Any] = {"parser": with_home}
"""The same where a name may also be something else: standard input, a shipped recipe, a step of a run."""

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A YAML file, a shipped recipe's name (see --list), a run folder, or - for stdin.",
        **NAME,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the recipe, e.g. optim.lr=3e-4; the value is YAML."),
]
CheckpointArgument = Annotated[
    str,
    typer.Argument(
        metavar="CKPT",
        help="A run folder (its best checkpoint), RUN@last, RUN@2000, a checkpoint or an exported folder.",
        **NAME,
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Input files, in the current folder or in $PROBTRANS_DATA (default data/); - is stdin.",
        **NAME,
    ),
]
RunFolder = Annotated[Path | None, typer.Option("--run", metavar="DIR", help="Run folder; default: runs/NAME.", **PATH)]
InitFrom = Annotated[
    str | None,
    typer.Option(
        "--init-from",
        metavar="CKPT",
        help="Start with the weights of a checkpoint, or of a BERT folder of Hugging Face's (model.init_from): "
        "encoder, words, and an output layer for the same; model.init_strict=false leaves unknown tensors there.",
        **NAME,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Prepare, build, update a few times; write no run; -v: the shapes of all modules."),
]
Nproc = Annotated[
    int | None,
    typer.Option(
        "--nproc",
        min=1,
        max=1024,
        metavar="N",
        help="Train in N processes on this machine, one for each GPU; they share the train.accumulate batches of an "
        "update, so train.accumulate must be at least N.",
    ),
]
RunsAndFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]... [FILE]...",
        help="Further run folders, as an ensemble; then the files to score; - is stdin.",
        **NAME,
    ),
]
ShowProbability = Annotated[
    bool, typer.Option("--prob", help="Show the probability of every arc, tag, entity and label.")
]
ShowGold = Annotated[bool, typer.Option("--gold", help="Also show the trees that the input has; not with conllu.")]
SideBySide = Annotated[
    Path | None,
    typer.Option(
        "--predictions",
        metavar="OUT",
        help="Write gold and predictions side by side to this file, in the data's own format.",
        **PATH,
    ),
]
Coordination = Annotated[
    str | None,
    typer.Option(
        "--coordination",
        metavar="CKPT",
        help="Of a model of tuples: split sentences first, at the coordinations that this other model finds.",
        **NAME,
    ),
]
Rescore = Annotated[
    bool,
    typer.Option(
        "--rescore",
        help="With --coordination: the confidence of a tuple is that of its labels in the whole sentence.",
    ),
]
Uncertainty = Annotated[
    bool,
    typer.Option(
        "--uncertainty",
        help="Also how far the probabilities can be relied on: calibration, errors told by the doubt, and the diagram "
        "reliability.svg.",
    ),
]
Ood = Annotated[
    str | None,
    typer.Option(
        "--ood",
        metavar="FILE",
        help="As --uncertainty, and how well it tells this text (words are enough) from what is scored; extra: the "
        "recipe's. Sentences that are too long for the model are left out.",
        **NAME,
    ),
]
Doubt = Annotated[
    bool,
    typer.Option("--uncertainty", help="Show how uncertain every tag, label or hidden word is: its entropy, ..."),
]
Abstain = Annotated[
    float | None,
    typer.Option(
        "--abstain", min=0.0, max=1.0, metavar="P", help="Write `_` for tags and labels that are less probable than P."
    ),
]
Top = Annotated[
    int | None,
    typer.Option(
        "--top",
        min=1,
        metavar="N",
        help="The N most probable tags, labels or hidden words (jsonl; hidden words also in pictures; default 5), "
        "and with --labels the N most probable latent labels (default 3).",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Write to this file; with svg and a name without an ending: into a folder.",
        **PATH,
        metavar="PATH",
    ),
]
OutputFile = Annotated[Path | None, typer.Option("-o", "--output", help="Write to this file.", **PATH, metavar="PATH")]
OutputFolder = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        metavar="OUT",
        help="In bulk: write the result of every block of the input into this folder, as far as it is not there. "
        "--threads and -f svg, html or latex do not go with it, and -o only with --merge.",
        **PATH,
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", min=1, max=1024, metavar="N", help="In bulk: N processes of one thread each.")
]
Shard = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="In bulk: do this share of the blocks only, I from 1 to N."),
]
Merge = Annotated[
    bool,
    typer.Option(
        "--merge",
        help="In bulk: write the whole in input order, once all blocks are done. Give the same inputs and options.",
    ),
]
BlockSize = Annotated[
    int | None,
    typer.Option("--block-size", min=1, metavar="BYTES", help="In bulk: bytes of a block, default 4194304."),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", min=1, max=1024, metavar="N", help="Count and encode in N processes; the result is the same."
    ),
]
Longest = Annotated[
    int,
    typer.Option(
        "--longest",
        min=1,
        metavar="N",
        help="Sentences of more words or tokens are too long. 2000 take half a minute and 1 GB with eisner; "
        "time grows with the cube of the length, memory with the square.",
    ),
]
TooLong = Annotated[
    Literal["error", "skip"] | None,
    typer.Option(
        "--too-long",
        help="Sentences beyond --longest or the model's positions: error, or skip: an empty analysis; default: skip "
        "for tuples and coordinations, else error.",
    ),
]
ScoredFile = Annotated[str, typer.Argument(metavar="PREDICTIONS", help="The file to score; - is stdin.", **NAME)]
GoldFile = Annotated[str | None, typer.Option("--gold", metavar="FILE", help="The gold annotation.", **NAME)]
ExportFolder = Annotated[
    Path, typer.Argument(metavar="OUT", help="Folder to write; must not exist, or be empty.", **PATH)
]
TagColumn = Annotated[
    Literal["upos", "xpos", "feats"] | None,
    typer.Option("--column", help="With calibration: the tags of CoNLL-U that the probabilities are of."),
]
SingleMatch = Annotated[
    bool,
    typer.Option(
        "--single-match", help="With carb: CaRB(1-1), where each prediction is right for one gold tuple only."
    ),
]
DefaultConfidence = Annotated[
    float | None,
    typer.Option(
        "--default-confidence", metavar="X", help="With carb: the confidence of tuples that have none or NaN."
    ),
]
Masks = Annotated[
    int | None,
    typer.Option("--masks", min=1, metavar="K", help="Mask draws of a masked language model, whose losses are pooled."),
]
Choose = Annotated[
    bool,
    typer.Option(
        "--choose",
        help="With --split dev or files: choose channel, iteration and decoder (those not given) by UUAS there, "
        "and store them in the checkpoint.",
    ),
]
Relations = Annotated[
    bool,
    typer.Option(
        "--relations", help="Also which channel finds which gold relation (DEPREL): recall and precision of each."
    ),
]
DescribedLabels = Annotated[
    bool,
    typer.Option(
        "--labels",
        help="Also the words and tags of each latent label, ranked by what they add to the mutual information of "
        "labels and words, and the strongest label pairs of each channel and distance bucket of T.",
    ),
]
WhatIsGiven = Annotated[
    Literal["extractions", "coordinations"] | None,
    typer.Option("--from", help="What the files have, tuples or coordinations; default: as their first lines tell."),
]
WrittenRows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        min=1,
        max=20,
        metavar="N",
        help="The most tuples of a sentence, or levels of nested coordinations; default: all, of levels 20.",
    ),
]
FixLengths = Annotated[
    bool,
    typer.Option(
        "--fix-lengths", help="Cut lines of more tags than their sentence has words, continue shorter ones with NONE."
    ),
]
Comments = Annotated[
    str | None,
    typer.Option(
        "--comments", metavar="TEXT", help="Of columns: lines that begin with this are comments, such as '# '."
    ),
]
Compat = Annotated[
    Literal["o6"] | None,
    typer.Option(
        "--compat",
        help="With coordination: count as the code of OpenIE6, which looks at gold coordinators alone, and whose inner "
        "is outer.",
    ),
]
DropoutSamples = Annotated[
    int | None,
    typer.Option(
        "--dropout-samples",
        min=1,
        metavar="N",
        help="Predict by the mean of N passes with dropout.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="moments|diagonal|mean|N",
        help="How uncertain weights are used: means and variances in one pass (diagonal: without the words' "
        "covariances), the means alone, or N draws; default: as the recipe says. One pass understates the model's own "
        "doubt: on random words variances of 0.79 to 1.00 of those of draws, and a mutual information of 0.123 for "
        "0.159, or 0.0075 for 0.0192 (docs/uncertainty.md).",
    ),
]
Prune = Annotated[
    float | None,
    typer.Option(
        "--prune",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Set this share of a model's uncertain weights to zero, those with the smallest mean in standard "
        "deviations; what is written has certain weights.",
    ),
]
Arcs = Annotated[
    bool, typer.Option("--arcs", help="With --format pt2 or onnx: also the probabilities of arcs, as a further output.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Channel = Annotated[
    str | None,
    typer.Option(
        "--channel", metavar="mean|best|all|K", help="Channel whose heads are read; default: the checkpoint's choice."
    ),
]
Iteration = Annotated[
    int | None,
    typer.Option(
        "--iteration",
        metavar="N",
        help="Iteration whose heads are read, 1..T or -1 for the last; default: the checkpoint's.",
    ),
]
Decoder = Annotated[
    Literal["argmax", "mst", "eisner"] | None,
    typer.Option("--decode", help="From head marginals to trees; default: the checkpoint's."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, metavar="N", help="CPU threads; default: torch's choice.")
]


def rows_in_words(rows: Iterable[Any]) -> str:
    """The rows of a table of formats in a phrase, for `--help`."""
    return "; ".join(f"{row.name}: {row.help}" if row.help else row.name for row in rows)


Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN", help="Run folders, e.g. runs/*; also exported folders. Unfinished runs are left out.", **NAME
    ),
]
TableForm = Annotated[
    Literal["markdown", "beside", "html"],
    typer.Option(
        "-f",
        "--format",
        help="beside: each model beside the transformer of the same corpora, task and vocabulary, the best on dev "
        "that took at most twice as long, with its command line; html: a page with the table and the learning curves "
        "of the runs.",
    ),
]
