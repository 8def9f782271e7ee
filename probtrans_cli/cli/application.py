"""The commands: signatures and help. Each imports what it needs only when it is called, so `--help` is quick."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from probtrans_cli import console
from probtrans_cli.cli.options import (
    Abstain,
    Arcs,
    BlockSize,
    Channel,
    CheckpointArgument,
    Choose,
    Comments,
    Compat,
    Coordination,
    Decoder,
    DefaultConfidence,
    DescribedLabels,
    Doubt,
    DropoutSamples,
    DryRun,
    ExportFolder,
    Files,
    FixLengths,
    GoldFile,
    InitFrom,
    Iteration,
    Jobs,
    Json,
    Longest,
    Masks,
    Merge,
    Nproc,
    Ood,
    Output,
    OutputFile,
    OutputFolder,
    Overrides,
    Prune,
    RecipeArgument,
    Relations,
    Rescore,
    RunFolder,
    Runs,
    RunsAndFiles,
    ScoredFile,
    Shard,
    ShowGold,
    ShowProbability,
    SideBySide,
    SingleMatch,
    TableForm,
    TagColumn,
    Threads,
    TooLong,
    Top,
    Uncertainty,
    Weights,
    WhatIsGiven,
    Workers,
    WrittenRows,
    rows_in_words,
)
from probtrans_cli.cli.streams import tell
from probtrans_cli.errors import UsageError
from probtrans_cli.export import EXPORTS, Dtype, ExportName
from probtrans_cli.openie.written_forms import WRITTEN, WrittenName
from probtrans_cli.reports.scorers import SCORERS, ScorerName
from probtrans_cli.trained.formats import FORMATS, FormatName
from probtrans_cli.version import __version__

app = typer.Typer(
    name="probtrans",
    help="Train, evaluate and read probabilistic transformers: models whose attention is the posterior over dependency "
    "heads (Wu & Tu 2023). Start with: probtrans train quickstart",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def application(arguments: list[str]) -> int:
    """Run the command line; returns an exit code for usage errors, raises ProbtransError for others."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="probtrans", standalone_mode=False)
    except SystemExit as error:
        # The command-line library turns a closed pipe into exit code 1; what really happened is the context.
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        raise
    except Exception as error:
        show = getattr(error, "show", None)  # a usage error of the command-line library, whichever it is
        if show is None or not hasattr(error, "format_message"):
            raise
        tell(show)
        return 2
    return code if isinstance(code, int) else 0


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the shipped recipes and exit.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of recipes and exit.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only errors on stderr.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="More on stderr.")] = False,
    as_json: Json = False,
) -> None:
    """Global options."""
    if quiet and verbose:
        raise UsageError("-q and -v exclude each other")
    console.STATE.level = console.QUIET if quiet else console.VERBOSE if verbose else console.NORMAL
    context.obj = as_json
    if version:
        console.result_json({"version": __version__}) if as_json else console.result(f"probtrans {__version__}")
    elif list_recipes:
        from probtrans_cli.recipe.source import describe, shipped_recipes  # noqa: PLC0415

        found = {name: describe(path) for name, path in shipped_recipes().items()}
        rows = "".join(f"{name:<{max(map(len, found))}}  {text}\n" for name, text in found.items())
        console.result_json(found) if as_json else console.result(rows)
    elif schema:
        from probtrans_cli.recipe.source import json_schema  # noqa: PLC0415

        console.result(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    elif context.invoked_subcommand is None:
        raise UsageError("no command given", hint="see probtrans --help")
    else:
        return
    raise typer.Exit


@app.command(short_help="Encode the corpora of a recipe.")
def prepare(
    context: typer.Context,
    recipe: RecipeArgument,
    overrides: Overrides = None,
    check: Annotated[bool, typer.Option("--check", help="Read and count everything, write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Encode again even if up to date.")] = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Encode the corpora of a recipe: vocabulary, labels, memory-mapped sentences; print a report."""
    from probtrans_cli.commands import prepare as verb  # noqa: PLC0415

    result = verb.prepare(verb.PrepareRequest(recipe, overrides or (), check=check, force=force, jobs=jobs))
    if as_json or context.obj:
        console.result_json(result.record())
    else:
        console.result_renderable(result.report())


@app.command(short_help="Train a recipe; writes a run folder.")
def train(
    context: typer.Context,
    recipe: RecipeArgument,
    overrides: Overrides = None,
    run: RunFolder = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run from its last checkpoint, exactly.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in the folder, once the new one can begin.")
    ] = False,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="0,1,2", help="One run per seed, then mean and s.d.")
    ] = None,
    init_from: InitFrom = None,
    nproc: Nproc = None,
    dry_run: DryRun = False,
    print_recipe: Annotated[bool, typer.Option("--print", help="Print the resolved recipe and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Train a recipe; writes a run folder with metrics and checkpoints."""
    from probtrans_cli.commands import train as verb  # noqa: PLC0415

    request = verb.TrainRequest(
        recipe, overrides or (), init_from=init_from, run=run, resume=resume, overwrite=overwrite, dry_run=dry_run,
        nproc=nproc, seeds=None if print_recipe else verb.seeds_of(seeds),
    )  # fmt: skip
    if print_recipe:
        console.result(verb.resolved(request))
    else:
        _show(context, as_json, verb.train(request), verb.training_report)


@app.command(name="eval", short_help="Score a checkpoint on dev, test or files.")
def evaluate(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    files: RunsAndFiles = None,
    split: Annotated[
        Literal["dev", "test", "extra"] | None,
        typer.Option("--split", help="Score this split of the recipe; default: test, or dev where there is none."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", metavar="'METRIC>=X'", help="Exit 7 unless the score holds; may be repeated."),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines", help="Also score baselines without learning: trees (next word, untrained bias, ...), tuples."
        ),
    ] = False,
    channel: Channel = None,
    iteration: Iteration = None,
    decode: Decoder = None,
    choose: Choose = False,
    masks: Masks = None,
    latent_labels: DescribedLabels = False,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help="With --labels: N words a label, N pairs; default: 8 and 3."),
    ] = None,
    relations: Relations = False,
    predictions: SideBySide = None,
    coordination: Coordination = None,
    rescore: Rescore = False,
    uncertainty: Uncertainty = False,
    ood: Ood = None,
    dropout_samples: DropoutSamples = None,
    weights: Weights = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Score a checkpoint on dev, test or files: the task's metric, and its trees where gold trees are there. Several
    run folders, given before the files, predict together as an ensemble."""
    from probtrans_cli.commands import eval as verb  # noqa: PLC0415

    request = verb.EvalRequest(
        checkpoint, files or (), split=split, require=require or (), baselines=baselines, channel=channel,
        iteration=iteration, decoder=decode, choose=choose, masks=masks, latent_labels=latent_labels, top=top,
        relations=relations, predictions=predictions, coordination=coordination, rescore=rescore,
        uncertainty=uncertainty, ood=ood, dropout_samples=dropout_samples, weights=weights, threads=threads,
    )  # fmt: skip
    result, failed = verb.evaluate(request)
    _show(context, as_json, result, verb.evaluation_report)
    if failed is not None:
        raise failed


@app.command(short_help="Print the trees and predictions of a model.")
def parse(
    checkpoint: CheckpointArgument,
    files: Files = None,
    form: Annotated[
        FormatName,
        typer.Option("-f", "--format", help=f"{rows_in_words(FORMATS.values())}."),
    ] = "conllu",
    input_form: Annotated[
        Literal["auto", "text", "tokens", "conllu"],
        typer.Option(
            "--input",
            help="text: raw, a sentence a line; tokens: split at spaces; auto: CoNLL-U by name or content, else text.",
        ),
    ] = "auto",
    channel: Channel = None,
    iteration: Iteration = None,
    decode: Decoder = None,
    trees: Annotated[
        Literal["yes", "no"],
        typer.Option("--trees", help="no: only what the task says (tags, entities, tuples, ...), which is quicker."),
    ] = "yes",
    probability: ShowProbability = False,
    gold: ShowGold = False,
    latent_labels: Annotated[
        bool, typer.Option("--labels", help="Show each word's most probable latent labels, as NUMBER:PROBABILITY.")
    ] = False,
    top: Top = None,
    coordination: Coordination = None,
    rescore: Rescore = False,
    uncertainty: Doubt = False,
    abstain: Abstain = None,
    dropout_samples: DropoutSamples = None,
    weights: Weights = None,
    longest: Longest = 2000,
    too_long: TooLong = None,
    output: Output = None,
    folder: OutputFolder = None,
    workers: Workers = 1,
    shard: Shard = None,
    merge: Merge = False,
    block_size: BlockSize = None,
    threads: Threads = None,
) -> None:
    """Print what a model says of text or CoNLL-U: the dependency trees that it sees, and the tags, entities, labels,
    logical forms, hidden words, tuples or coordinations that it was trained to predict; in input order, as they are
    done."""
    from probtrans_cli.commands import bulk  # noqa: PLC0415
    from probtrans_cli.commands import parse as verb  # noqa: PLC0415

    request = verb.ParseRequest(
        checkpoint, files or (), format=form, input_form=input_form, channel=channel, iteration=iteration,
        decoder=decode, trees=trees == "yes", probability=probability, gold=gold, latent_labels=latent_labels, top=top,
        coordination=coordination, rescore=rescore, uncertainty=uncertainty, abstain=abstain,
        dropout_samples=dropout_samples, weights=weights, longest=longest, too_long=too_long, output=output,
        threads=threads,
    )  # fmt: skip
    bulk.parse(request, folder, workers=workers, shard=shard, merge=merge, block_bytes=block_size)


@app.command(short_help="Write files of tuples or coordinations in another form.")
def convert(
    form: Annotated[WrittenName, typer.Option("--to", help=f"{rows_in_words(WRITTEN.values())}.")],
    files: Files = None,
    given: WhatIsGiven = None,
    rows: WrittenRows = None,
    fix_lengths: FixLengths = False,
    output: OutputFile = None,
) -> None:
    """Write files of tuples or of coordinations in another form; stderr tells what was kept, and why not all."""
    from probtrans_cli.commands import convert as verb  # noqa: PLC0415

    verb.convert(verb.ConvertRequest(form, files or (), given, rows, fix_lengths, output))


@app.command(short_help="Score files of any system.")
def score(
    context: typer.Context,
    kind: Annotated[ScorerName, typer.Argument(metavar="KIND", help=f"{rows_in_words(SCORERS.values())}.")],
    predictions: ScoredFile,
    gold: GoldFile = None,
    column: TagColumn = None,
    single_match: SingleMatch = False,
    default_confidence: DefaultConfidence = None,
    compat: Compat = None,
    comments: Comments = None,
    as_json: Json = False,
) -> None:
    """Score a file that any system wrote against gold annotation, by the same rules as eval."""
    from probtrans_cli.commands import score as verb  # noqa: PLC0415

    options = (column, single_match or None, default_confidence, compat, comments)
    request = verb.ScoreRequest(kind, predictions, gold, *options)
    _show(context, as_json, verb.score(request), verb.scored)


@app.command(short_help="Write a model as a folder of its own.")
def export(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    out: ExportFolder,
    form: Annotated[ExportName, typer.Option("--format", help=f"{rows_in_words(EXPORTS.values())}.")] = "safetensors",
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Precision of the weights.")] = "float32",
    expand_shared: Annotated[
        bool,
        typer.Option("--expand-shared", help="With --format hf: write tensors that layers share once for each layer."),
    ] = False,
    arcs: Arcs = False,
    prune: Prune = None,
    as_json: Json = False,
) -> None:
    """Write a model as a folder of its own: one that parse and eval accept, or one that runs without probtrans."""
    from probtrans_cli.commands import export as verb  # noqa: PLC0415

    request = verb.ExportRequest(checkpoint, out, form, dtype, expand_shared, arcs, prune)
    _show(context, as_json, verb.export(request), lambda report: verb.exported(request, report))


@app.command(short_help="Print finished runs beside the paper's figures.")
def table(
    context: typer.Context,
    runs: Runs,
    form: TableForm = "markdown",
    as_json: Json = False,
) -> None:
    """Print finished runs as a table, mean and s.d. over seeds, beside the figures of the paper.

    Runs that differ in nothing but the seed are one row; rows that differ in name and corpora alone have one more, of
    means over corpora. The paper's figure stands with recipes called mlm-ptb-*, mlm-bllip-*, pos-ptb-*, pos-ewt-*,
    upos-ewt-*, ner-conll03-*, sst2-*, sst5-* and cogs-*; "to the paper" is the difference on test in units of the
    paper's s.d. UAS, UUAS: punctuation removed. encoder: parameters as the paper counts them, without word scores and
    output layer. words/s (median of metrics.jsonl) and time (h:mm:ss, without evaluations) depend on the machine.
    """
    from probtrans_cli.commands import table as verb  # noqa: PLC0415

    request = verb.TableRequest(runs, form)
    _show(context, as_json, verb.table(request), lambda result: verb.written(request, result))


def _show(context: typer.Context, as_json: bool, result: dict[str, Any], report: Callable[..., str]) -> None:
    """The result on stdout: as JSON where that was asked for before or after the verb, else as text for people."""
    if as_json or context.obj:
        console.result_json(result)
    else:
        console.result(report(result))
