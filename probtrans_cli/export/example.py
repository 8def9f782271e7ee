"""What is written beside an exported graph, so that it answers as `parse` does without this package.

example.py      a short program: it opens the graph, and hands texts and graph to the modules beside it
alone/          these modules: :mod:`probtrans_cli.export.answers` and all of this package that it imports, as it stands
EXPORT.json     the sections ``reading`` and ``answers``, which tell one model from another, as data

So there is no second version of how a text is divided, of a look-up or of a rule, which could become another one.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.data.vocabularies.base import DIGITS, SPECIALS, Vocabulary
from probtrans_cli.data.vocabularies.characters import Characters
from probtrans_cli.data.vocabularies.enclosed import Enclosed
from probtrans_cli.data.vocabularies.pieces import LONGEST_WORD
from probtrans_cli.data.vocabularies.sentencepiece import SUBWORDS_FILE, Subwords
from probtrans_cli.data.vocabularies.wordpiece import WordPieces
from probtrans_cli.data.vocabularies.wordpiece_files import TOKENIZER_FILE
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.export import answers
from probtrans_cli.trained.predictions import masks_of
from probtrans_cli.trained.predictor import temperature_of

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model

EXAMPLE, ALONE = "example.py", "alone"
PACKAGE = __name__.split(".", maxsplit=1)[0]
_IMPORT = re.compile(rf"^from ({PACKAGE}(?:\.\w+)*\.(\w+)) import", re.MULTILINE)
"""At the beginning of a line: what stands under `if TYPE_CHECKING` is not needed to run."""
PROGRAMS = {
    "pt2": '''\
import sys
from pathlib import Path

import torch
from {alone}.answers import main

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
from {alone}.answers import main

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

What it answers is what `probtrans parse --input text --trees no` does; --json prints it as -f jsonl does.
"""

'''
_TAIL = """

if __name__ == "__main__":
    sys.exit(main(here, run, sys.argv[1:]))
"""
_NO_TREES = "trees: parse finds the best tree of a sentence"
_BY_WORD = "; the example prints each word's most probable head, with --arcs where a word is a token"
_DOUBT = "uncertainty, alternatives (parse --uncertainty, --top) and latent labels"
_SPLITTING = "tuples of sentences that a model of coordinations splits before (parse --coordination)"
_DRAWS = "draws and variances of uncertain weights: answers are those of parse --weights mean"
_PRECISION = "bfloat16, in which parse computes (runtime.precision): a graph computes in float32"
_KIND = "answers: no example runs a vocabulary of kind {kind}, which is another package's"
_TASK = "answers: the example knows no task that answers {kind!r}, and prints the shapes of the scores"


def example_files(model: Model, form: str) -> dict[str, str]:
    """The example, and what it imports, by name; none where the vocabulary is one of another package.

    ``form``: the format of the graph.
    """
    if _kind_of(_inner(model.vocabulary)) is None:
        return {}
    program = PROGRAMS[form].format(alone=ALONE)
    name = model.recipe.name.replace("\\", "\\\\").replace('"', '\\"')
    head = _HEAD.format(name=name, example=EXAMPLE)
    return {EXAMPLE: head + program + _TAIL, **alone()}


def alone(module: str = answers.__name__) -> dict[str, str]:
    """A module of this package and all that it imports of it, by the names of files that import each other."""
    files: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = f"{ALONE}/{name.rpartition('.')[2]}.py"
        if path not in files:
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.origin is not None, name  # noqa: PT018
            text = Path(spec.origin).read_text("utf-8")
            waiting += [imported for imported, _ in _IMPORT.findall(text)]
            files[path] = _IMPORT.sub(r"from .\2 import", text)
    return {f"{ALONE}/__init__.py": "", **files}


def described(model: Model) -> dict[str, Any]:
    """How texts are read, and what decides the answers beside the scores: what the example takes from `EXPORT.json`;
    and what of `parse` is left out."""
    task = model.task
    nothing = {key: value for key, value in (task.nothing or {}).items() if key not in task.not_in_json}
    shown = "Two [MASK] fold a shirt ." if task.answers == "words" else "Two farmers fold a shirt ."
    decided = {
        "kind": task.answers,
        "temperature": temperature_of(model),
        "abstains": task.abstains,
        "skips": task.nothing is not None,
        "nothing": nothing,
        "with_text": task.with_text,
        "shown": shown,
        **task.rules,
    }
    return {"reading": _reading(model), "answers": decided, "left_out": left_out(model)}


def left_out(model: Model) -> list[str]:
    """What `parse` says of texts and the example does not, in words."""
    kind = model.recipe.data.vocabulary.kind
    if _kind_of(_inner(model.vocabulary)) is None:
        return [_KIND.format(kind=kind)]
    absent = []
    if model.task.answers not in answers.KINDS:
        absent.append(_TASK.format(kind=model.task.answers))
    if model.recipe.model.facts.has_arcs:
        absent.append(_NO_TREES + _BY_WORD * one_token_a_word(model))
    if model.task.answers == "tuples":
        absent.append(_SPLITTING)
    if model.recipe.uncertain_weights is not None:
        absent.append(_DRAWS)
    if model.recipe.runtime.precision == "bfloat16":
        absent.append(_PRECISION)
    return [*absent, _DOUBT]


def one_token_a_word(model: Model) -> bool:
    """Whether the tokens of a graph are the words."""
    return not (model.vocabulary.begins or model.vocabulary.divides)


def _reading(model: Model) -> dict[str, Any]:
    """How texts are read."""
    vocabulary, inner = model.vocabulary, _inner(model.vocabulary)
    names = extra_words(model.task.extra)
    encoded = vocabulary.encode_words(["a", *names], len(names))
    pieces = isinstance(inner, WordPieces)
    return {
        "kind": _kind_of(inner),
        "file": {Subwords: SUBWORDS_FILE, WordPieces: TOKENIZER_FILE}.get(type(inner)),
        "lowercase": inner.options.lowercase if isinstance(inner, WordPieces) else getattr(inner, "lowercase", False),
        "numbers": DIGITS.pattern if getattr(inner, "digits", False) else None,
        "by_itself": pieces,
        "names": [] if pieces else list(SPECIALS),
        "longest_word": LONGEST_WORD if isinstance(inner, Subwords | Characters) else None,
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


def _inner(vocabulary: Vocabulary) -> Vocabulary:
    return vocabulary.inner if isinstance(vocabulary, Enclosed) else vocabulary


def _kind_of(vocabulary: Vocabulary) -> str | None:
    """The kind of a vocabulary that the example can look words up in; None: it is another package's."""
    kinds = {Words: "words", Characters: "char", Subwords: "sentencepiece", WordPieces: "wordpiece"}
    return kinds.get(type(vocabulary))
