"""The commands: signatures and help. Each imports its verb only when it is called, so `--help` is quick.

The parameters of a command have the names of the fields of its verb's request, which `_given` passes on.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from probtrans_cli import console
from probtrans_cli.errors import UsageError
from probtrans_cli.export import EXPORTS, Dtype, ExportName
from probtrans_cli.folders import expand_home, with_home
from probtrans_cli.imports import quickly
from probtrans_cli.openie.writing import WRITTEN, WrittenName
from probtrans_cli.reports.scorers import SCORERS, ScorerName
from probtrans_cli.text import harmless
from probtrans_cli.trained.formats import FORMATS, FormatName
from probtrans_cli.version import __version__

PATH: dict[str, Any] = {"parser": expand_home}
"""What every option has that names a file or a folder: in it `~` is the home folder."""
NAME: dict[str, Any] = {"parser": with_home}
"""The same where a name may also be standard input, a shipped recipe, or a step of a run."""


def _rows(rows: Iterable[Any]) -> str:
    return "; ".join(f"{row.name}: {row.help}" if row.help else row.name for row in rows)


def _recipes(beginning: str) -> Iterator[str]:
    # What the shell may complete a recipe to; files are completed by the shell itself.
    from probtrans_cli.recipe.source import shipped_recipes

    return (name for name in shipped_recipes() if name.startswith(beginning))


# --- help -------------------------------------------------------------------------------------------------------------

PANELS = {
    "Trees": "--trees --channel --iteration --decode --gold --samples --best --marginals "
    "--labels --top --baselines --choose --relations",
    "Uncertainty": "--uncertainty --ood --abstain --dropout-samples --weights",
    "Tuples": "--coordination --rescore",
    "Bulk": "--output-dir --workers --shard --merge --block-size",
}
"""The groups of a command's options in its help; the first group has the others. Where options of one name mean
different things, the option itself says its group."""


class Grouped(TyperCommand):
    """A command whose help shows its options in groups, in plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels = {option: panel for panel, options in PANELS.items() for option in options.split()}
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", "Basic", *PANELS)}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_option = parameter.param_type_name == "option"
                names = parameter.opts if is_option else []
                panel = next((panels[name] for name in names if name in panels), "Basic")
                panel = getattr(parameter, "rich_help_panel", None) or panel
                name = record[0] if is_option else record[0].partition(" <")[0]  # without its type
                groups[panel if is_option else "Arguments"].append((name, record[1]))
        if not any(groups[panel] for panel in PANELS):
            groups = {"Options" if name == "Basic" else name: records for name, records in groups.items()}
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


# --- arguments and options of several commands ------------------------------------------------------------------------

MOST_DRAWS, MOST_TREES = 10_000, 1_000_000  # beyond that a command would not end


def whole_number(name: str, help: str, *, most: int | None = None, metavar: str = "N") -> Any:
    """Declare an option that takes a whole number from 1 on."""
    return Option(name, min=1, max=most, metavar=metavar, help=help)


RecipeArgument = Annotated[
    str,
    Argument(
        metavar="RECIPE",
        help="A YAML file, a shipped recipe's name (see probtrans --list), a run folder, or - for stdin.",
        autocompletion=_recipes,
        **NAME,
    ),
]
Overrides = Annotated[
    list[str] | None,
    Argument(metavar="KEY=VALUE", help="Changes to the recipe, e.g. optim.lr=3e-4; the value is YAML."),
]
CheckpointArgument = Annotated[
    str,
    Argument(
        metavar="CKPT",
        help="A run folder (its best checkpoint), RUN@last, RUN@2000, a checkpoint, an exported folder or an "
        "installed model.",
        **NAME,
    ),
]
Files = Annotated[
    list[str] | None,
    Argument(
        metavar="FILE",
        help="Input files, in the current folder or in $PROBTRANS_DATA (default data/); - is stdin.",
        **NAME,
    ),
]
Channel = Annotated[
    str | None,
    Option("--channel", metavar="mean|best|all|K", help="Channel whose heads are read; default: the checkpoint's."),
]
Iteration = Annotated[
    int | None,
    Option(
        "--iteration",
        metavar="N",
        help="Iteration whose heads are read, 1..T or -1 for the last; default: the checkpoint's.",
    ),
]
Decoder = Annotated[
    Literal["argmax", "mst", "eisner", "auto"] | None,
    Option(
        "--decode",
        help="From head marginals to trees; auto: eisner up to 200 words, mst for more; default: the checkpoint's.",
    ),
]
Coordination = Annotated[
    str | None,
    Option(
        "--coordination",
        metavar="CKPT",
        help="Of a model of tuples: split sentences first, at the coordinations that this second model finds.",
        **NAME,
    ),
]
Rescore = Annotated[
    bool,
    Option(
        "--rescore",
        help="With --coordination: the confidence of a tuple is that of its labels in the undivided sentence.",
    ),
]
DropoutSamples = Annotated[
    int | None, whole_number("--dropout-samples", "Predict by the mean of N passes with dropout.", most=MOST_DRAWS)
]
Weights = Annotated[
    str | None,
    Option(
        "--weights",
        metavar="moments|diagonal|mean|N",
        help="How uncertain weights are used: means and variances in one pass (diagonal: without the words' "
        "covariances), the means alone, or N draws; default: as the recipe says. One pass understates the model's own "
        "doubt: on random words variances of 0.79 to 1.00 of those of draws, and a mutual information of 0.123 for "
        "0.159, or 0.0075 for 0.0192 (docs/uncertainty.md).",
    ),
]
Threads = Annotated[int | None, whole_number("--threads", "CPU threads; default: torch's choice.", most=1024)]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16"] | None,
    Option(
        "--precision",
        help="Of products: bfloat16 is quicker where the processor has it (elsewhere float32 is used, with a warning), "
        "and changes probabilities by up to 0.02; default: as in the training.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print the result as JSON on stdout.")]

# --- the program ------------------------------------------------------------------------------------------------------

app = typer.Typer(
    name="probtrans",
    help="Train, evaluate and read probabilistic transformers: models whose attention is the posterior over dependency "
    "heads (Wu & Tu 2023). Start with: probtrans train quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass
class Invocation:
    """What the commands get from the process and from the options before them."""

    run: Callable[[list[str]], int]
    as_json: bool = False


def application(arguments: list[str], run: Callable[[list[str]], int]) -> int:
    """Run the command line; returns an exit code for usage errors, raises ProbtransError for others.

    ``run``: does the same, and reports errors; `serve` answers with it.
    """
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="probtrans", standalone_mode=False, obj=Invocation(run))
    except SystemExit as error:
        # The command-line library turns a closed pipe into exit code 1; the cause is in the context.
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        raise
    except Exception as error:
        show = getattr(error, "show", None)  # a usage error of the command-line library, whichever it is
        if show is None or not hasattr(error, "format_message"):
            raise
        text = io.StringIO()
        show(file=text)
        sys.stderr.write(harmless(text.getvalue()))
        return 2
    return code if isinstance(code, int) else 0


def _given(values: dict[str, Any], *without: str) -> dict[str, Any]:
    # The parameters of a command as fields of a request; no list at all is an empty one.
    leave_out = {"context", "as_json", "verb", *without}
    empty = ("names", "overrides", "files", "require")
    values = {name: value for name, value in values.items() if name not in leave_out}
    return values | {name: () for name in empty if name in values and values[name] is None}


def _show(context: typer.Context, as_json: bool, result: Any, report: Callable[..., str]) -> None:
    # As JSON where `--json` stands before or after the verb, else as text for people.
    if as_json or context.obj.as_json:
        console.result_json(result)
    else:
        console.result(report(result))


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
    list_recipes: Annotated[bool, Option("--list", help="List the shipped recipes and exit.")] = False,
    schema: Annotated[bool, Option("--schema", help="Print the JSON schema of recipes and exit.")] = False,
    quiet: Annotated[bool, Option("-q", "--quiet", help="Only errors on stderr.")] = False,
    verbose: Annotated[bool, Option("-v", "--verbose", help="More on stderr.")] = False,
    as_json: Json = False,
) -> None:
    """Global options."""
    if quiet and verbose:
        raise UsageError("-q and -v exclude each other")
    console.STATE.level = console.QUIET if quiet else console.VERBOSE if verbose else console.NORMAL
    context.obj.as_json = as_json
    if version:
        console.result_json({"version": __version__}) if as_json else console.result(f"probtrans {__version__}")
    elif list_recipes:
        from probtrans_cli.recipe import source

        if as_json:
            shipped = source.shipped_recipes()
            console.result_json({name: source.describe(path) for name, path in shipped.items()})
        else:
            console.result("\n".join(source.catalogue()))
    elif schema:
        from probtrans_cli.recipe.reference import json_schema

        console.result(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    elif context.invoked_subcommand is None:
        raise UsageError("no command given", hint="see probtrans --help")
    else:
        return
    raise typer.Exit


# --- the commands -----------------------------------------------------------------------------------------------------


@app.command(cls=Grouped, short_help="List public corpora, or fetch them.")
def fetch(
    context: typer.Context,
    names: Annotated[
        list[str] | None, Argument(metavar="NAME", help="What to fetch; nothing: list what there is.")
    ] = None,
    source: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="DIR",
            help="Take this local copy, packed (.gz) or not, instead of the network; licensed corpora are made of it.",
            **PATH,
        ),
    ] = None,
    to: Annotated[
        Path | None, Option("--to", metavar="DIR", help="The data folder; default: $PROBTRANS_DATA, or data/.", **PATH)
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace files that differ.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch public corpora, or make licensed ones of your own copy, and put them where recipes look for them; without
    a name, list what there is: size, licence, which recipes need it, whether it is there.

    Every file is compared with its SHA-256 before it takes its place, and a file of yours that differs is left alone.
    No other command uses the network, but for `train`, which fetches after a question, or with --fetch.
    """
    from probtrans_cli.commands import fetch as verb

    _show(context, as_json, verb.fetch(verb.FetchRequest(**_given(locals()))), verb.report)


@app.command(cls=Grouped, short_help="Encode the corpora of a recipe.")
def prepare(
    context: typer.Context,
    recipe: RecipeArgument,
    overrides: Overrides = None,
    check: Annotated[bool, Option("--check", help="Read and count everything, write nothing.")] = False,
    force: Annotated[bool, Option("--force", help="Encode again even if up to date.")] = False,
    jobs: Annotated[
        int, whole_number("--jobs", "Count and encode in N processes; the result is the same.", most=1024)
    ] = 1,
    as_json: Json = False,
) -> None:
    """Encode the corpora of a recipe: vocabulary, labels, memory-mapped sentences; print a report."""
    from probtrans_cli.commands import prepare as verb

    state, prepared = verb.prepare(verb.PrepareRequest(**_given(locals())))
    result = {"state": state, "folder": str(prepared.folder), **prepared.manifest}
    _show(context, as_json, result, lambda _: verb.report(state, prepared))


@app.command(cls=Grouped, short_help="Print a shipped recipe, to edit it.")
def recipe(
    name: Annotated[
        str, Argument(metavar="NAME", help="A shipped recipe, see probtrans --list.", autocompletion=_recipes)
    ],
) -> None:
    """Print a shipped recipe with its comments: probtrans recipe quickstart > mine.yaml. Editors that know YAML's
    language server complete its keys. probtrans train NAME --print prints every key with its value."""
    from probtrans_cli.recipe.source import recipe_text

    console.result(recipe_text(name))


@app.command(cls=Grouped, short_help="Train a recipe; writes a run folder.")
def train(
    context: typer.Context,
    recipe: RecipeArgument,
    overrides: Overrides = None,
    run: Annotated[Path | None, Option("--run", metavar="DIR", help="Run folder; default: runs/NAME.", **PATH)] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the run from its last checkpoint, exactly.")] = False,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace the run in the folder, once the new one can begin.")
    ] = False,
    seeds: Annotated[
        str | None, Option("--seeds", metavar="0,1,2", help="One run per seed, then mean and s.d.")
    ] = None,
    init_from: Annotated[
        str | None,
        Option(
            "--init-from",
            metavar="CKPT",
            help="Start with the weights of a checkpoint, or of a Hugging Face BERT or GPT-2 (model.init_from): "
            "encoder, words, and an output layer for the same; model.init_strict=false leaves unknown tensors there.",
            **NAME,
        ),
    ] = None,
    nproc: Annotated[
        int | None,
        whole_number(
            "--nproc",
            "Train in N processes on this machine, one for each GPU; they share the train.accumulate batches of "
            "an update, so train.accumulate must be at least N.",
            most=1024,
        ),
    ] = None,
    fetch: Annotated[
        bool, Option("--fetch", help="Fetch public corpora that are missing; on a terminal you are asked without it.")
    ] = False,
    sweep: Annotated[
        list[str] | None,
        Option(
            "--sweep",
            metavar="'KEY=[V,...]'",
            help="A run for each of these values; given several times, for each combination: a grid. 'width=[64,128]' "
            "sets the width and all sizes that grow with it. Folders: the run folder's name, and -KEY=V for each.",
        ),
    ] = None,
    shard: Annotated[
        str | None, Option("--shard", metavar="I/N", help="With --sweep: this share of the runs only, I from 1 to N.")
    ] = None,
    number: Annotated[
        int | None, whole_number("--random", "With --sweep: N points of the grid, drawn by the recipe's seed.")
    ] = None,
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Prepare, build, update a few times; write no run; -v: the shapes of all modules."),
    ] = False,
    check_width: Annotated[
        str | None,
        Option(
            "--check-width",
            metavar="W,W,...",
            help="With --dry-run: ten updates at each of these widths, and how the numbers that the model computes "
            "grow with the width; with a model.base_width their exponents are 0.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        Option("--picture", metavar="OUT", help="With --check-width: also draw that to this file, as SVG.", **PATH),
    ] = None,
    print_recipe: Annotated[
        bool, Option("--print", help="Print the resolved recipe, all keys that have a say, and exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a recipe; writes a run folder with metrics and checkpoints."""
    with quickly(compiles=True):
        from probtrans_cli.commands import train as verb

    values = _given(locals(), "print_recipe", "sweep", "shard", "number", "check_width", "picture")
    for option, needed, is_there in (
        ("--shard", "--sweep", shard is None or sweep),
        ("--random", "--sweep", number is None or sweep),
        ("--check-width", "--dry-run", check_width is None or dry_run),
        ("--picture", "--check-width", picture is None or check_width),
    ):
        if not is_there:
            raise UsageError(f"{option} goes with {needed}", hint=f"give {needed}, too")
    if sweep and check_width:
        raise UsageError("--sweep and --check-width exclude each other", hint="give one of them")
    if sweep and seeds:
        raise UsageError("--seeds does not go with --sweep", hint="make it an axis: --sweep 'seed=[0, 1, 2]'")
    if sweep and dry_run:
        raise UsageError("--dry-run is of one training", hint="leave out --sweep")
    if print_recipe:
        console.result(verb.resolved(verb.TrainRequest(**values | {"seeds": None})))
        return
    request = verb.TrainRequest(**values | {"seeds": verb.seeds_of(seeds)})
    if not (sweep or check_width):
        _show(context, as_json, verb.train(request), verb.training_report)
        return
    from probtrans_cli.commands import sweep as grids
    from probtrans_cli.reports import sweeps

    if check_width:
        result = grids.check_width(request, check_width, picture)
        _show(context, as_json, result, sweeps.coordinate_report)
    else:
        result = grids.sweep(request, sweep or (), shard=shard, number=number)
        _show(context, as_json, result, sweeps.sweep_report)


@app.command(name="eval", cls=Grouped, short_help="Score a checkpoint on dev, test or files.")
def evaluate(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    files: Annotated[
        list[str] | None,
        Argument(
            metavar="RUN|FILE", help="Further run folders, as an ensemble; then the files to score; - is stdin.", **NAME
        ),
    ] = None,
    split: Annotated[
        Literal["dev", "test", "extra"] | None,
        Option("--split", help="Score this split of the recipe; default: test, or dev where there is none."),
    ] = None,
    require: Annotated[
        list[str] | None,
        Option("--require", metavar="'METRIC>=X'", help="Exit 7 unless the score holds; may be repeated."),
    ] = None,
    trees: Annotated[
        Literal["yes", "no"] | None,
        Option(
            "--trees",
            help="Whether to score the model's trees, where there are gold trees; default: as in the training "
            "(eval.trees), or if another option is about trees.",
        ),
    ] = None,
    baselines: Annotated[
        bool,
        Option(
            "--baselines", help="Also score baselines without learning: trees (next word, untrained bias, ...), tuples."
        ),
    ] = False,
    channel: Channel = None,
    iteration: Iteration = None,
    decoder: Decoder = None,
    choose: Annotated[
        bool,
        Option(
            "--choose",
            help="With --split dev or files: choose channel, iteration and decoder (those not given) by UUAS there, "
            "and a temperature of these arcs; store them in the checkpoint.",
        ),
    ] = False,
    masks: Annotated[
        int | None,
        whole_number(
            "--masks", "Mask draws of a masked language model, whose losses are pooled.", most=MOST_DRAWS, metavar="K"
        ),
    ] = None,
    latent_labels: Annotated[
        bool,
        Option(
            "--labels",
            help="Also the words and tags of each latent label, ranked by what they add to the mutual information of "
            "labels and words, and the strongest label pairs of each channel and distance bucket of T.",
        ),
    ] = False,
    top: Annotated[
        int | None, whole_number("--top", "With --labels: N words a label, N pairs; default: 8 and 3.")
    ] = None,
    relations: Annotated[
        bool,
        Option(
            "--relations", help="Also which channel finds which gold relation (DEPREL): recall and precision of each."
        ),
    ] = False,
    predictions: Annotated[
        Path | None,
        Option(
            "--predictions",
            metavar="OUT",
            help="Write gold and predictions side by side to this file, in the data's own format.",
            **PATH,
        ),
    ] = None,
    surprisal: Annotated[
        Path | None,
        Option(
            "--surprisal",
            metavar="OUT",
            help="Of a causal language model, write surprisal and entropy in bits and the rank of every word to this "
            "file: a line a word with tabs, or of OUT.jsonl an object a sentence.",
            **PATH,
        ),
    ] = None,
    coordination: Coordination = None,
    rescore: Rescore = False,
    uncertainty: Annotated[
        bool,
        Option(
            "--uncertainty",
            help="Also report calibration of answers, and of arcs where there are gold trees: NLL, ECE, errors told by "
            "the uncertainty, and the diagrams reliability.svg.",
        ),
    ] = False,
    ood: Annotated[
        str | None,
        Option(
            "--ood",
            metavar="FILE",
            help="As --uncertainty, and how well it tells this text (words are enough) from the corpus; extra: the "
            "recipe's. Sentences that are too long are left out.",
            **NAME,
        ),
    ] = None,
    longest: Annotated[
        int,
        whole_number(
            "--longest",
            "Sentences of files with more words or tokens are too long, unless the recipe has data.longest: time "
            "and memory grow with the square of the length.",
        ),
    ] = 2000,
    dropout_samples: DropoutSamples = None,
    weights: Weights = None,
    threads: Threads = None,
    precision: Precision = None,
    as_json: Json = False,
) -> None:
    """Score a checkpoint on dev, test or files: the task's metric, and its trees where gold trees are there. Several
    run folders, given before the files, predict together as an ensemble."""
    with quickly(compiles=False):
        from probtrans_cli.commands import eval as verb

    result, failed = verb.evaluate(verb.EvalRequest(**_given(locals())))
    _show(context, as_json, result, verb.evaluation_report)
    if failed is not None:
        raise failed


@app.command(cls=Grouped, short_help="Print the trees and predictions of a model.")
def parse(
    checkpoint: CheckpointArgument,
    files: Files = None,
    format: Annotated[
        FormatName, Option("-f", "--format", metavar="FORMAT", help=f"{_rows(FORMATS.values())}.")
    ] = "conllu",
    input_form: Annotated[
        Literal["auto", "text", "tokens", "conllu"],
        Option(
            "--input",
            help="text: raw lines; tokens: a sentence a line, split at spaces; auto: CoNLL-U by name or content, else "
            "text.",
        ),
    ] = "auto",
    split: Annotated[
        bool | None,
        Option(
            "--split/--no-split",
            help="Whether a line of text may have several sentences; default: yes, but for models that answer for a "
            "whole line (classes, logical forms, tuples, coordinations).",
        ),
    ] = None,
    channel: Channel = None,
    iteration: Iteration = None,
    decoder: Decoder = None,
    trees: Annotated[
        Literal["yes", "no"],
        Option("--trees", help="no: only the task's predictions (tags, entities, tuples, ...), which is quicker."),
    ] = "yes",
    probability: Annotated[
        bool,
        Option(
            "--prob",
            help="Show the probability of every arc, tag, entity and label. Those of arcs are calibrated where dev had "
            "gold trees; else they are the model's own beliefs.",
        ),
    ] = False,
    gold: Annotated[bool, Option("--gold", help="Also show the trees that the input has; not with conllu.")] = False,
    samples: Annotated[
        int | None,
        whole_number(
            "--samples",
            "Draw N trees of each sentence, with one root: of heads that form trees from the model's own "
            "distribution, else in proportion to the product of the probabilities of their arcs.",
            most=MOST_TREES,
        ),
    ] = None,
    best: Annotated[
        int | None,
        whole_number(
            "--best",
            "The N most probable trees of each sentence by the same distribution, with their log-probabilities; "
            "with eisner those without crossing arcs.",
            most=MOST_TREES,
        ),
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", min=0, metavar="S", help="Seed of --samples, default 0.", rich_help_panel="Trees")
    ] = None,
    marginals: Annotated[
        bool, Option("--marginals", help="The probability of every head of every word, the root first (jsonl).")
    ] = False,
    labels: Annotated[
        bool, Option("--labels", help="Show each word's most probable latent labels, as NUMBER:PROBABILITY.")
    ] = False,
    top: Annotated[
        int | None,
        whole_number(
            "--top",
            "The N most probable tags, labels, heads or hidden words (jsonl; heads also in conllu; hidden words "
            "also in pictures; default 5), and with --labels the N most probable latent labels (default 3).",
        ),
    ] = None,
    coordination: Coordination = None,
    rescore: Rescore = False,
    uncertainty: Annotated[
        bool,
        Option("--uncertainty", help="Show how uncertain every tag, head, label or hidden word is: its entropy, ..."),
    ] = False,
    abstain: Annotated[
        float | None,
        Option("--abstain", min=0.0, max=1.0, metavar="P", help="Write `_` for tags and labels less probable than P."),
    ] = None,
    dropout_samples: DropoutSamples = None,
    weights: Weights = None,
    longest: Annotated[
        int,
        whole_number(
            "--longest",
            "Sentences of more words or tokens are too long. 2000 take seconds and 1 GB; time and memory "
            "grow with the square of the length, with eisner time with the cube.",
        ),
    ] = 2000,
    too_long: Annotated[
        Literal["error", "skip"] | None,
        Option(
            "--too-long",
            help="Sentences beyond --longest or the model's positions: error, or skip: an empty analysis; default: "
            "skip for tuples and coordinations, else error.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            help="Write to this file; with svg and a name without an ending: into a folder.",
            metavar="PATH",
            **PATH,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        Option(
            "--output-dir",
            metavar="OUT",
            help="Write the result of every block of the input into this folder, as far as it is not there; --threads "
            "and -f html or latex do not go with it, and -o only with --merge. With -f svg, a picture of each "
            "sentence, at once.",
            **PATH,
        ),
    ] = None,
    workers: Annotated[int, whole_number("--workers", "N processes of one thread each.", most=1024)] = 1,
    shard: Annotated[
        str | None, Option("--shard", metavar="I/N", help="Do this share of the blocks only, I from 1 to N.")
    ] = None,
    merge: Annotated[
        bool,
        Option(
            "--merge",
            help="Write all results in input order, once all blocks are done. Give the same inputs and options.",
        ),
    ] = False,
    block_bytes: Annotated[
        int | None,
        whole_number(
            "--block-size", "Bytes of a block; default: a 64th of the input, from 65,536 to 4,194,304.", metavar="BYTES"
        ),
    ] = None,
    threads: Threads = None,
    precision: Precision = None,
) -> None:
    """Print what a model says of text or CoNLL-U: the dependency trees that it sees, and the tags, entities, labels,
    logical forms, hidden words, tuples or coordinations that it was trained to predict; in input order, as they are
    done."""
    values = _given(locals(), "labels", "folder", "workers", "shard", "merge", "block_bytes")
    with quickly(compiles=False):
        from probtrans_cli.commands import bulk
        from probtrans_cli.commands import parse as verb

    if seed is not None and samples is None:
        raise UsageError("--seed is that of --samples", hint="leave it out, or add --samples N")
    values |= {"trees": trees == "yes", "latent_labels": (top or 3) if labels else None, "seed": seed or 0}
    in_bulk = {"--workers": workers > 1, "--shard": shard, "--merge": merge, "--block-size": block_bytes}
    option = next((name for name, value in in_bulk.items() if value), None)
    pictures = folder if FORMATS[format].write_folder and option is None else None
    request = verb.ParseRequest(**values, folder=pictures)
    if folder is not None and pictures is None:
        bulk.parse_in_bulk(bulk.BulkRequest(request, folder, workers, shard, merge, block_bytes))
        return
    if option is not None:
        raise UsageError(f"{option} is for parsing in bulk", hint="give --output-dir OUT, too")
    if pictures is not None and output is not None:
        raise UsageError("-o and --output-dir exclude each other", hint="give one of them")
    verb.parse(request)


@app.command(cls=Grouped, short_help="Go on from a prompt, with a causal language model.")
def generate(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    prompt: Annotated[
        str | None, Argument(metavar="[PROMPT]", help="The text to go on from; default, and -: each line of stdin.")
    ] = None,
    words: Annotated[int, whole_number("--words", "The most words of a continuation.")] = 20,
    temperature: Annotated[
        float, Option("--temperature", min=0.0, metavar="T", help="Divide scores by T; 0: the most probable word.")
    ] = 1.0,
    top_k: Annotated[
        int | None, whole_number("--top-k", "Choose among the K most probable words.", metavar="K")
    ] = None,
    top_p: Annotated[
        float | None,
        Option("--top-p", metavar="P", help="Choose among the fewest words that have the probability P together."),
    ] = None,
    seed: Annotated[int, Option("--seed", min=0, metavar="S", help="Seed of the choices.")] = 0,
    stop: Annotated[str | None, Option("--stop", metavar="WORD", help="End a continuation at this word.")] = None,
    number: Annotated[int, whole_number("--n", "Continuations of each prompt.")] = 1,
    as_json: Json = False,
) -> None:
    """Write prompts with the words that a causal language model (`task.kind: lm`) goes on with."""
    with quickly(compiles=False):
        from probtrans_cli.commands import generate as verb
        from probtrans_cli.statistics.sampling import Sampling

    sampling = Sampling(words=words, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, stop=stop)
    as_json = as_json or context.obj.as_json
    verb.generate(verb.GenerateRequest(checkpoint, prompt, sampling, number, as_json))


@app.command(cls=Grouped, short_help="Keep models in memory, for parse and generate.")
def serve(
    context: typer.Context,
    socket: Annotated[Path, Argument(metavar="SOCKET", help="The socket to make, for this user alone.", **PATH)],
    checkpoints: Annotated[
        list[str], Argument(metavar="CKPT...", help="The models to keep, named as parse names them.", **NAME)
    ],
) -> None:
    """Keep models in memory. Where PROBTRANS_SERVER=SOCKET is set, parse and generate leave their commands to this
    server: the same answers, without the seconds in which a model is loaded. Ends with Ctrl-C, or when terminated.
    """
    with quickly(compiles=False):
        from probtrans_cli.commands import serve as verb

    verb.serve(socket, checkpoints, context.obj.run)


@app.command(cls=Grouped, short_help="Write files of tuples or coordinations in another form.")
def convert(
    form: Annotated[WrittenName, Option("--to", help=f"{_rows(WRITTEN.values())}.")],
    files: Files = None,
    format: Annotated[
        Literal["extractions", "coordinations"] | None,
        Option("--from", help="What the files have, tuples or coordinations; default: as their first lines tell."),
    ] = None,
    rows: Annotated[
        int | None,
        whole_number(
            "--rows",
            "The most tuples of a sentence, or levels of nested coordinations; default: all, of levels 20.",
            most=20,
        ),
    ] = None,
    fix_lengths: Annotated[
        bool,
        Option(
            "--fix-lengths",
            help="Cut lines of more tags than their sentence has words, continue shorter ones with NONE.",
        ),
    ] = False,
    output: Annotated[Path | None, Option("-o", "--output", help="Write to this file.", metavar="PATH", **PATH)] = None,
) -> None:
    """Write files of tuples or of coordinations in another form; stderr tells what was kept, and why not all."""
    from probtrans_cli.commands import convert as verb

    verb.convert(verb.ConvertRequest(**_given(locals())))


@app.command(cls=Grouped, short_help="Score files of any system.")
def score(
    context: typer.Context,
    kind: Annotated[ScorerName, Argument(metavar="KIND", help=f"{_rows(SCORERS.values())}.")],
    predictions: Annotated[str, Argument(metavar="PREDICTIONS", help="The file to score; - is stdin.", **NAME)],
    gold: Annotated[
        str | None, Option("--gold", metavar="FILE", help="The gold annotation.", rich_help_panel="Basic", **NAME)
    ] = None,
    column: Annotated[
        Literal["upos", "xpos", "feats", "head", "deprel"] | None,
        Option(
            "--column",
            help="With calibration: the column of CoNLL-U that the probabilities are of; "
            "default: that of the tags, or head where arcs alone have a probability.",
        ),
    ] = None,
    single_match: Annotated[
        bool,
        Option("--single-match", help="With carb: CaRB(1-1), where each prediction is right for one gold tuple only."),
    ] = False,
    default_confidence: Annotated[
        float | None,
        Option("--default-confidence", metavar="X", help="With carb: the confidence of tuples that have none or NaN."),
    ] = None,
    compat: Annotated[
        Literal["o6"] | None,
        Option(
            "--compat",
            help="With coordination: count as the code of OpenIE6, which looks at gold coordinators alone, and whose "
            "inner is outer.",
        ),
    ] = None,
    comments: Annotated[
        str | None,
        Option("--comments", metavar="TEXT", help="Of columns: lines that begin with this are comments, such as '# '."),
    ] = None,
    model: Annotated[
        str | None,
        Option("--model", metavar="CKPT", help="With pairs: the causal language model that is scored.", **NAME),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a file that any system wrote against gold annotation, by the same rules as eval."""
    from probtrans_cli.data.files import display_name
    from probtrans_cli.reports.scorers import score as score_files
    from probtrans_cli.reports.scores import split_report

    options = {"column": column, "single_match": single_match or None, "default_confidence": default_confidence}
    result = score_files(kind, predictions, gold, options | {"compat": compat, "comments": comments, "model": model})
    _show(context, as_json, result, lambda result: split_report(display_name(predictions), result["scores"]))


@app.command(cls=Grouped, short_help="Write a model as a folder of its own.")
def export(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    out: Annotated[Path, Argument(metavar="OUT", help="Folder to write; must not exist, or be empty.", **PATH)],
    format: Annotated[ExportName, Option("--format", help=f"{_rows(EXPORTS.values())}.")] = "safetensors",
    dtype: Annotated[Dtype, Option("--dtype", help="Precision of the weights.")] = "float32",
    expand_shared: Annotated[
        bool, Option("--expand-shared", help="With --format hf: write tensors that layers share once for each layer.")
    ] = False,
    arcs: Annotated[
        bool, Option("--arcs", help="With --format pt2 or onnx: also the probabilities of arcs, as a further output.")
    ] = False,
    name: Annotated[
        str | None,
        Option("--name", metavar="NAME", help="With --format wheel: the package's name; default: the recipe's."),
    ] = None,
    package_version: Annotated[
        str | None, Option("--package-version", metavar="N.N", help="With --format wheel: its version; default: 1.0.0.")
    ] = None,
    licence: Annotated[
        str | None,
        Option("--licence", metavar="SPDX", help="With --format wheel: the model's licence, such as cc-by-sa-4.0."),
    ] = None,
    prune: Annotated[
        float | None,
        Option(
            "--prune",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Set this share of a model's uncertain weights to zero, those with the smallest mean in standard "
            "deviations; what is written has certain weights.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as a folder of its own: one that parse and eval accept, one that runs without probtrans, or a
    package to hand on."""
    with quickly(compiles=True):
        from probtrans_cli.commands import export as verb

    request = verb.ExportRequest(**_given(locals()))
    _show(context, as_json, verb.export(request), lambda report: verb.exported(request, report))


@app.command(cls=Grouped, short_help="Print finished runs beside the paper's figures.")
def table(
    context: typer.Context,
    runs: Annotated[
        list[str],
        Argument(
            metavar="RUN", help="Run folders, e.g. runs/*; also exported folders. Unfinished runs are left out.", **NAME
        ),
    ],
    form: Annotated[
        Literal["text", "markdown", "beside", "html", "sweep"] | None,
        Option(
            "-f",
            "--format",
            help="text: as wide as the terminal, the default on one; markdown: the default elsewhere; beside: each "
            "model beside the transformer of the same corpora, task and vocabulary, the best on dev that took at most "
            "twice as long, with its command line; html: a page with the table and the learning curves of the runs; "
            "sweep: an SVG picture of the score on dev over the learning rate, a curve for each width.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print finished runs as a table, mean and s.d. over seeds, beside the figures of the paper.

    Runs that differ in nothing but the seed are one row; rows that differ in name and corpora alone have one more, of
    means over corpora. The paper's figure stands with recipes called mlm-ptb-*, mlm-bllip-*, pos-ptb-*, pos-ewt-*,
    upos-ewt-*, ner-conll03-*, sst2-*, sst5-* and cogs-*; "to the paper" is the difference on test in units of the
    paper's s.d. UAS, UUAS: punctuation removed. encoder: parameters as the paper counts them, without word scores and
    output layer. words/s (median of metrics.jsonl) and time (h:mm:ss, without evaluations) depend on the machine.
    """
    from probtrans_cli.reports import pages, sweeps
    from probtrans_cli.reports import table as report

    texts: dict[str, Callable[[dict[str, Any]], str]] = {
        "text": report.plain,
        "markdown": report.markdown,
        "beside": report.beside,
        "html": pages.table_page,
        "sweep": sweeps.sweep_picture,
    }
    form = form or ("text" if console.is_narrow(sys.stdout) else "markdown")
    _show(context, as_json, report.table(runs), texts[form])
