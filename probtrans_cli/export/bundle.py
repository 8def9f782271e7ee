"""The folder of a graph: the graph, vocabulary and labels, an example that runs it, and what was measured.

example.py      a short program, which answers as `parse` does without this package: it opens the graph, and hands
                texts and graph to the modules beside it
alone/          these modules: :mod:`probtrans_cli.export.answers` and all of this package that it imports, as it stands
                but for types of shapes
EXPORT.json     the report; its sections ``reading`` and ``answers`` tell one model from another, as data

So there is no second version of how a text is divided, of a look-up or of a rule, which could become another one.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from probtrans_cli import atomic, console
from probtrans_cli.data.sentence import Sentence, extra_words
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.data.vocabularies.base import DIGITS, SPECIALS, Enclosed, Vocabulary
from probtrans_cli.data.vocabularies.pieces import LONGEST_WORD, SUBWORDS_FILE, Characters, Subwords
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.wordpiece_files import TOKENIZER_FILE
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.errors import UsageError, unwritten
from probtrans_cli.export import ExportOptions, answers, measure
from probtrans_cli.export.graph import MAIN, Graph, GraphPredictor, Plan, axes_of, graph_of, traced
from probtrans_cli.export.measure import Run
from probtrans_cli.tasks.base import OUTPUT
from probtrans_cli.tasks.batch import collate
from probtrans_cli.trained.base import as_json
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.predictor import temperature_of
from probtrans_cli.trained.reader import Reader, masks_of

INT8 = "int8"
EXAMPLE, ALONE = "example.py", "alone"
PACKAGE = __name__.split(".", maxsplit=1)[0]
_IMPORT = re.compile(rf"^from {PACKAGE}\.([\w.]+) import", re.MULTILINE)
"""At the beginning of a line: what stands under `if TYPE_CHECKING` is not needed to run."""
_SHAPES = re.compile(r"^from jaxtyping import .*\n", re.MULTILINE)
"""Names in annotations alone, which are not evaluated."""
_KINDS: dict[type[Vocabulary], str] = {
    Words: "words",
    Characters: "char",
    Subwords: "sentencepiece",
    WordPieces: "wordpiece",
}
"""The kinds of vocabularies that the example can look words up in; others are of another package."""
PROGRAMS = {
    "pt2": '''\
import sys
from pathlib import Path

import torch
from {alone}.{main} import main

here = Path(__file__).parent
network = torch.export.load(here / "model.pt2").module()


def run(inputs):
    """From arrays to arrays, by the names of inputs and outputs that EXPORT.json has."""
    outputs = network(**{{name: torch.from_numpy(values) for name, values in inputs.items()}})
    return {{name: values.numpy() for name, values in outputs.items()}}
''',
    "onnx": '''\
import sys
from pathlib import Path

import onnxruntime
from {alone}.{main} import main

here = Path(__file__).parent
onnxruntime.set_default_logger_severity(3)  # errors alone
session = onnxruntime.InferenceSession(here / "model.onnx")


def run(inputs):
    """From arrays to arrays, by the names of inputs and outputs that EXPORT.json has."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))
''',
}
_HEAD = '''\
"""{name}, without probtrans: python {example} "a text" "another one" ..., or --file FILE with a text a line.

It answers as `probtrans parse --input text --trees no` does; --json prints the answers as -f jsonl does.{more}
"""

'''
_MORE = {"surprisal": "\nWith --words N it goes on with every text, as `probtrans generate` does."}
_TAIL = """

if __name__ == "__main__":
    sys.exit(main(here, run, sys.argv[1:]))
"""


@dataclass(frozen=True)
class GraphFormat:
    """A format of graphs."""

    name: str
    file: str
    runner: str  # the name of what runs a graph
    save: Callable[[Graph, ExportedProgram, Path], None]  # writes a traced graph
    opened: Callable[[Path], Run]  # returns what runs a written graph
    quantise: Callable[[Path], None] | None = None
    """Makes the products of a written file those of 8-bit integers."""


def write_graph(model: Model, out: Path, options: ExportOptions, form: GraphFormat) -> dict[str, Any]:
    """Write the folder of a graph, and return the report."""
    # Graphs are traced and measured on a CPU, in float32.
    network = model.network.cpu()
    model.machine.device, model.machine.bfloat16 = torch.device("cpu"), False
    graph = graph_of(network, plan_of(model, arcs=options.arcs))
    if options.dtype not in ("float32", INT8):
        graph.weights_as(getattr(torch, options.dtype))
    program, plan = traced(graph, form.name), graph.plan
    report: dict[str, Any] = measure.source_of(model, form.name, options.dtype) | {
        "task": model.recipe.task.kind,
        "inputs": dict(plan.inputs),
        "outputs": axes_of(graph),
        "longest": network.longest,
    }
    if sizes := network.output.sizes.get(plan.main):
        report["sizes"] = {MAIN: list(sizes)}
    if plan.arcs:
        report["arcs"] = {
            "iteration": plan.arcs[0],
            "channel": model.reading.channel,
            "root": network.has_root_column,
            "by_word": not (model.vocabulary.begins or model.vocabulary.divides),
        }
    if model.recipe.uncertain_weights is not None:
        report["weights"] = "posterior means"
    if (temperature := temperature_of(model)) != 1.0:
        report["temperature"] = temperature
    report |= described(model)
    try:
        with atomic.writing_folder(out.absolute(), replace=False) as folder:
            form.save(graph, program, folder / form.file)
            if options.dtype == INT8:
                assert form.quantise is not None, "the table of formats says which have it"
                form.quantise(folder / form.file)
            run = form.opened(folder / form.file)
            largest = measure.largest_difference(network, plan, run)
            report["largest_difference"] = largest.absolute
            report["largest_relative_difference"] = largest.relative
            if options.dtype == "float32" and largest.relative > measure.MOST:
                rounding = measure.largest_rounding(network, plan).relative
                log_difference(largest.relative, rounding)
                report["largest_relative_rounding"] = rounding
            tokens = measure.longest_of(network, plan)
            report |= {
                "measured_over": f"random sentences of 1 to {tokens} tokens, in batches of 1 to {measure.SENTENCES}: "
                f"the 4 corners and {measure.DRAWS} more batches",
                "words_per_second": measure.words_per_second(network, plan, form.runner, run),
                "threads": torch.get_num_threads(),
            }
            report |= measure.change_of_score(model, options, GraphPredictor(plan, run))
            of_pruning = options.about.get("largest_difference", 0.0)
            report |= {**options.about, "largest_difference": max(of_pruning, report["largest_difference"])}
            report["bytes"] = sum(path.stat().st_size for path in folder.iterdir())
            write_beside(model, form.name, folder)
            if (folder / EXAMPLE).exists():
                report["compared"] = compared = measure.compared(model, folder, run, report)
                texts, same = compared["texts"], compared["same"]
                if options.dtype == "float32" and same < texts:
                    answered = "the example answers otherwise than the model"
                    console.log(f"warning: for {texts - same} of {texts} texts {answered}")
            (folder / "EXPORT.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritten(str(out), error, UsageError, hint="choose another OUT folder") from None
    return report


def plan_of(model: Model, *, arcs: bool) -> Plan:
    """Return what the graph of a model takes and gives."""
    if arcs and not model.recipe.model.facts.has_arcs:
        raise UsageError(f"--arcs: a model of kind {model.recipe.model.kind} has no arcs", hint="leave it out")
    if model.recipe.task.is_causal:
        if arcs:
            raise UsageError("--arcs: the graph of a language model is a step, and has none", hint="leave it out")
        if model.network.features is not None:
            hint = "train without them, or choose --format safetensors"
            raise UsageError("data.vocabulary.features have no form in the graph of a language model", hint=hint)
    if (untraceable := model.recipe.task.facts.untraceable) is not None:
        option, instead = untraceable
        hint = f"train with task.{instead}, or choose --format safetensors"
        raise UsageError(f"task.{option} has no form in a graph", hint=hint)
    last, read = model.recipe.model.iterations, model.reading.iteration
    iteration = (last if read == -1 else read) if arcs else None
    split = Reader.of(model, [Sentence(["a"])]).split
    batch = collate(split, np.zeros(1, np.int64), padding=model.vocabulary.PAD, device=model.machine.device)
    return Plan.of(model.network, model.task.wants(batch), divides=model.vocabulary.divides, iteration=iteration)


def write_beside(model: Model, form: str, folder: Path) -> None:
    """Write the files beside a graph: vocabulary, labels, the example and what it imports; not `EXPORT.json`."""
    names: dict[str, list[str]] = {}  # of what the scores are of, by output
    for part, rows in model.task.output_rows.items():
        if rows.names is not None:
            names[MAIN if part == OUTPUT else part] = list(rows.labels or rows.names)
    if MAIN not in names and model.task.answers.kind in ("words", "surprisal"):
        names[MAIN] = [model.vocabulary.decode(id) for id in range(model.vocabulary.size)]
    files = {**model.vocabulary_files, **example_files(model, form), "labels.json": as_json(names)}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def log_difference(difference: float, rounding: float) -> None:
    """Report a large relative difference, as a warning where the model's own rounding does not explain it."""
    fault = f"an output of the graph differs from the model's by {difference:.2g} of its value"
    largest = measure.largest_rounded(rounding)
    if difference <= largest:
        console.log(f"{fault}; the model itself in float32 differs from itself in float64 by {rounding:.2g}")
    else:
        console.log(f"warning: {fault}, more than the rounding of float32 ({largest:.1g})")


# --- the example ------------------------------------------------------------------------------------------------------


def example_files(model: Model, form: str) -> dict[str, str]:
    """Return the example for a format of graphs, and what it imports, by name; none where the vocabulary is one of
    another package."""
    if type(_without_ends(model.vocabulary)) not in _KINDS:
        return {}
    program = PROGRAMS[form].format(alone=ALONE, main=_stem(answers.__name__))
    name = model.recipe.name.replace("\\", "\\\\").replace('"', '\\"')
    return {
        EXAMPLE: _HEAD.format(name=name, example=EXAMPLE, more=_MORE.get(model.task.answers.kind, ""))
        + program
        + _TAIL,
        **alone(),
    }


def alone() -> dict[str, str]:
    """Return :mod:`probtrans_cli.export.answers` and all of this package that it imports, by the names of files that
    import each other."""
    files: dict[str, str] = {f"{ALONE}/__init__.py": ""}
    waiting = [answers.__name__]
    while waiting:
        name = waiting.pop()
        path = f"{ALONE}/{_stem(name)}.py"
        if path not in files:
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.origin is not None, name  # noqa: PT018
            text = Path(spec.origin).read_text("utf-8")
            waiting += [f"{PACKAGE}.{imported}" for imported in _IMPORT.findall(text)]
            files[path] = _SHAPES.sub("", _IMPORT.sub(lambda match: f"from .{_stem(match[1])} import", text))
    return files


def _stem(module: str) -> str:
    """Return the name of a module's file: two rooms may have modules of one name."""
    return module.removeprefix(f"{PACKAGE}.").replace(".", "_")


def _without_ends(vocabulary: Vocabulary) -> Vocabulary:
    return vocabulary.plain if isinstance(vocabulary, Enclosed) else vocabulary


# --- the report -------------------------------------------------------------------------------------------------------


def described(model: Model) -> dict[str, Any]:
    """Return how texts are read, what decides the answers beside the scores, and what of `parse` is left out."""
    task, vocabulary, plain = model.task, model.vocabulary, _without_ends(model.vocabulary)
    names = extra_words(model.extra_words)
    encoded = vocabulary.encode_words(["a", *names], len(names))
    pieces = isinstance(plain, WordPieces)
    reading = {
        "kind": _KINDS.get(type(plain)),
        "file": {Subwords: SUBWORDS_FILE, WordPieces: TOKENIZER_FILE}.get(type(plain)),
        "lowercase": plain.options.lowercase if isinstance(plain, WordPieces) else getattr(plain, "lowercase", False),
        "numbers": DIGITS.pattern if getattr(plain, "digits", False) else None,
        "by_itself": pieces,
        "names": [] if pieces else list(SPECIALS),
        "longest_word": LONGEST_WORD if isinstance(plain, Subwords | Characters) else None,
        "features": None if vocabulary.features is None else vocabulary.features.section.model_dump(mode="json"),
        "divides": vocabulary.divides,
        "omits": vocabulary.omits,
        "pad": vocabulary.PAD,
        "unknown": vocabulary.UNKNOWN,
        "mask": vocabulary.MASK,
        "masks": sorted(masks_of(model)),
        "first": getattr(vocabulary, "FIRST", None),
        "last": getattr(vocabulary, "LAST", None),
        "extra_words": {name: encoded.ids[start] for name, start in zip(names, encoded.word_start[1:], strict=True)},
        "longest": LONGEST,
        "positions": model.network.longest,
    }
    answering = task.answers
    decided = {
        "kind": answering.kind,
        "temperature": temperature_of(model),
        "abstains": bool(answering.abstains),
        "skips": answering.nothing is not None,
        "nothing": {key: value for key, value in (answering.nothing or {}).items() if key not in answering.not_in_json},
        "with_text": answering.with_text,
        "shown": "Two [MASK] fold a shirt ." if answering.kind == "words" else "Two farmers fold a shirt .",
        **answering.rules,
        **({"arc_temperature": model.arc_temperature or 1.0} if answering.trees else {}),
    }
    return {"reading": reading, "answers": decided, "left_out": left_out(model)}


def left_out(model: Model) -> list[str]:
    """Return in words what `parse` says of texts and the example does not."""
    task, recipe = model.task, model.recipe
    if type(_without_ends(model.vocabulary)) not in _KINDS:
        kind = recipe.data.vocabulary.kind
        return [f"answers: no example runs a vocabulary of kind {kind}, which is another package's"]
    absent = []
    kind = task.answers.kind
    if kind not in answers.KINDS:
        absent.append(f"answers: the example knows no task that answers {kind!r}: it prints the scores' shapes")
    if recipe.model.facts.has_arcs and not task.answers.trees:
        by_word = not (model.vocabulary.begins or model.vocabulary.divides or recipe.task.is_causal)
        heads = "; the example prints each word's most probable head, with --arcs where a word is a token"
        absent.append("trees: parse finds the best tree of a sentence" + heads * by_word)
    if not recipe.task.answers_lines:
        absent.append("sentences: the example takes a line as it is, as parse --no-split does")
    if kind == "tuples":
        absent.append("tuples of sentences that a model of coordinations splits before (parse --coordination)")
    if recipe.uncertain_weights is not None:
        absent.append("draws and variances of uncertain weights: answers are those of parse --weights mean")
    if recipe.runtime.precision == "bfloat16":
        absent.append("bfloat16, in which parse computes (runtime.precision): a graph computes in float32")
    return [*absent, "uncertainty, alternatives (parse --uncertainty, --top) and latent labels"]
