"""The example beside an exported graph: a short program that needs the graph's own runner and numpy, not this package.

It divides a text into words, looks up their tokens, runs the graph, and prints words with what is said of them. It is
put together of parts: of the vocabulary, of the format of the graph, and of what the task says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from probtrans_cli.data.sentence import extra_words
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.characters import Characters
from probtrans_cli.data.vocabularies.enclosed import Enclosed
from probtrans_cli.data.vocabularies.sentencepiece import SUBWORDS_FILE, Subwords
from probtrans_cli.data.vocabularies.wordpiece import TOKENIZER_FILE, WordPieces
from probtrans_cli.data.vocabularies.words import Words
from probtrans_cli.recipe.data import WordFeatures

if TYPE_CHECKING:
    from probtrans_cli.export.graph import Plan
    from probtrans_cli.trained.model import Model

EXAMPLE, FEATURES = "example.py", "features.py"
IMPORT_OF = {"pt2": "import torch", "onnx": "import onnxruntime"}
OPENED = {
    "pt2": 'network = torch.export.load(here / "model.pt2").module()',
    "onnx": 'session = onnxruntime.InferenceSession(here / "model.onnx")',
}
RUN = {
    "pt2": "found = {name: value.numpy() for name, value in network("
    "**{name: torch.from_numpy(value) for name, value in given.items()}).items()}",
    "onnx": "found = dict(zip([one.name for one in session.get_outputs()], session.run(None, given)))",
}
SAYS = {
    "tags": """\
    for word, scores in zip(words, found["scores"][number]):
        print(word, names[scores.argmax()], sep="\\t")""",
    "class": """\
    print(names[found["scores"][number].argmax()], *words)""",
    "words": """\
    for scores in found["scores"][number][: words.count("[MASK]")]:
        print(*words, *[names[id] for id in scores.argsort()[::-1][:5]])""",
    "rows": """\
    for scores in found["scores"][number]:
        said = [names[label] for label in scores[: len(words)].argmax(-1)]
        if {*names[1:3]} <= {*said}:
            print(*map("/".join, zip(words, said)))""",
    "graphs": """\
    for word, scores in zip(words, found["scores"][number]):
        print(word, *[names[start + scores[start : start + size].argmax()] for start, size in columns], sep="\\t")""",
    "shapes": """\
    print(*words, {name: value.shape for name, value in found.items()})""",
}
"""What is printed of one sentence, by what the task answers."""
ARCS = """\
    candidates = [*words, *[""] * (ids.shape[1] - len(words)), "ROOT"]
    for word, heads in zip(words, found["arcs"][number]{channel}):
        print(word, "<-", candidates[heads.argmax()], f"{{heads.max():.2f}}")"""
OF_FEATURES = '''\
"""The rows of the features of a word's spelling, as the model was trained with them."""
from itertools import groupby
from zlib import crc32

ROWS, PREFIXES, SUFFIXES, NGRAMS, SHAPE = {rows}, {prefixes}, {suffixes}, {ngrams}, {shape}


def kind(character):
    if character.isupper():
        return "X"
    return "x" if character.isalpha() else "d" if character.isdigit() else character


def rows(word):
    lower, found = word.lower(), []
    found += [f"prefix:{{lower[:size]}}" for size in range(1, min(PREFIXES, len(lower)) + 1)]
    found += [f"suffix:{{lower[-size:]}}" for size in range(1, min(SUFFIXES, len(lower)) + 1)]
    if NGRAMS:
        marked = f"^{{lower[:64]}}$"
        grams = {{marked[i : i + NGRAMS] for i in range(len(marked) - NGRAMS + 1)}}
        found += [f"ngram:{{gram}}" for gram in sorted(grams)]
    if SHAPE:
        runs = [(name, len(list(run))) for name, run in groupby(map(kind, word))]
        found.append("shape:" + "".join(name * 2 if name == "X" and size > 1 else name for name, size in runs)[:8])
    return [crc32(name.encode("utf-8", "surrogatepass")) % ROWS for name in found]
'''


def example_files(model: Model, plan: Plan, form: str) -> dict[str, str]:
    """The example, and what it imports, by name; none where a vocabulary is one of another package.

    ``form``: the format of the graph, a key of :data:`OPENED`.
    """
    vocabulary = model.vocabulary
    looked_up = _pieces(vocabulary.inner if isinstance(vocabulary, Enclosed) else vocabulary)
    if looked_up is None:
        return {}
    imports, pieces = looked_up
    files = {}
    if vocabulary.features is not None:
        section: WordFeatures = vocabulary.features.section
        files[FEATURES] = OF_FEATURES.format_map(section.model_dump())
        imports = [*imports, "import features"]
    uses_json = "vocabulary[" in "".join(pieces)
    answers = "rows" if plan.main == "rows" else model.task.answers
    says = SAYS.get(answers, SAYS["shapes"])
    first, last = ([vocabulary.FIRST], [vocabulary.LAST]) if vocabulary.begins else ([], [])  # type: ignore[attr-defined]
    standard = {"import json", "import sys", "import re", "from pathlib import Path"}
    others = [line for line in imports if line not in standard]
    lines = [
        f'"""{model.recipe.name}, without probtrans: python {EXAMPLE} "a text" "another one" ..."""',
        *sorted({*standard, *_tools(plan)}, key=_place),
        "",
        "import numpy as np",
        IMPORT_OF[form],
        *others,
        "",
        "here = Path(__file__).parent",
        'names = json.loads((here / "labels.json").read_text("utf-8")).get("scores")',
        *(['vocabulary = json.loads((here / "vocabulary.json").read_text("utf-8"))'] if uses_json else []),
        OPENED[form],
        *pieces,
        *_special(model),
        *_texts(model),
        f"tokens = [{first} + [id for word in words for id in pieces(word)] + {last} for words in sentences]",
        "longest = max([1, *map(len, tokens)])",
        f"ids = np.array([one + [{vocabulary.PAD}] * (longest - len(one)) for one in tokens], dtype=np.int64)",
        f'given = {{"ids": ids, "mask": ids != {vocabulary.PAD}}}',
        *_more(plan, vocabulary, len(first)),
        RUN[form],
        *_columns(model, says),
        "for number, words in enumerate(sentences):",
        says,
    ]
    if plan.iteration is not None and not vocabulary.begins and not vocabulary.divides:
        channel = model.reading.channel
        lines.append(ARCS.format(channel=".mean(0)" if channel == "mean" else f"[{channel}]"))
    text = "\n".join(lines).replace("[] + [id", "[id").replace("] + [] for", "] for")
    return {**files, EXAMPLE: text + "\n"}


def _tools(plan: Plan) -> list[str]:
    """What is imported to put inputs together."""
    found = [name for name, given in (("accumulate", "first"), ("zip_longest", "at")) if given in plan.inputs]
    return [f"from itertools import {', '.join(found)}"] if found else []


def _place(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def _pieces(vocabulary: Vocabulary) -> tuple[list[str], list[str]] | None:
    """What a vocabulary's look-up imports, and the look-up, ``pieces(word)``."""
    normal = "word"
    if getattr(vocabulary, "lowercase", False):
        normal += ".lower()"
    if isinstance(vocabulary, Words):
        if vocabulary.digits:
            normal = f're.sub(r"\\d+(?:[.,]\\d+)*", "N", {normal})'
        table = 'table = {word: id for id, word in enumerate(vocabulary["words"], start=3)}'
        return [], [table, f"pieces = lambda word: [table.get({normal}, {vocabulary.UNKNOWN})]"]
    if isinstance(vocabulary, Characters):
        known = 'characters = vocabulary["options"]["characters"]'
        found = "3 + characters.index(one) + (place > 0) * len(characters) if one in characters else 1"
        return [], [known, f"pieces = lambda word: [{found} for place, one in enumerate({normal})]"]
    if isinstance(vocabulary, Subwords):
        opened = f'processor = sentencepiece.SentencePieceProcessor(model_file=str(here / "{SUBWORDS_FILE}"))'
        return ["import sentencepiece"], [opened, f"pieces = lambda word: processor.encode({normal}) or [1]"]
    if isinstance(vocabulary, WordPieces):
        opened = f'tokenizer = Tokenizer.from_file(str(here / "{TOKENIZER_FILE}"))'
        found = f"tokenizer.encode(word, add_special_tokens=False).ids or [{vocabulary.UNKNOWN}]"
        return ["from tokenizers import Tokenizer"], [opened, f"pieces = lambda word: {found}"]
    return None


def _special(model: Model) -> list[str]:
    """Words with tokens of their own: how a hidden word is written, and the extra words."""
    vocabulary, special = model.vocabulary, {}
    if model.task.answers == "words":
        special["[MASK]"] = vocabulary.MASK
    names = extra_words(model.task.extra)
    encoded = vocabulary.encode_words(["a", *names], len(names))
    special |= {name: encoded.ids[start] for name, start in zip(names, encoded.word_start[1:], strict=True)}
    if not special:
        return []
    given = f"word, special={special!r}, of_word=pieces"
    return [f"pieces = lambda {given}: [special[word]] if word in special else of_word(word)"]


def _texts(model: Model) -> list[str]:
    """From the arguments to words: cut at blanks, marks apart; more coarsely than `probtrans parse` does."""
    masks = r"\[MASK\]|" if model.task.answers == "words" else ""
    shown = '"Two [MASK] fold a shirt ."' if masks else '"Two farmers fold a shirt ."'
    words = f"""re.findall(r"{masks}\\w+(?:[-'’.]\\w+)*|[^\\w\\s]", text)"""
    if model.vocabulary.omits:
        words = f"[word for word in {words} if any(map(str.isalnum, word))]"
    if extra := extra_words(model.task.extra):
        words += f" + {extra}"
    return [f"sentences = [{words} for text in sys.argv[1:] or [{shown}]]"]


def _more(plan: Plan, vocabulary: Vocabulary, begin: int) -> list[str]:
    """The inputs beside ids and mask."""
    lines: list[str] = []
    if "first" in plan.inputs:
        lines += [
            "sizes = [[len(pieces(word)) for word in words[:-1]] for words in sentences]",
            f"starts = [[*accumulate(one, initial={begin})] for one in sizes]",
            "most = max([1, *map(len, sentences)])",
            'given["first"] = np.array([one + [longest] * (most - len(one)) for one in starts], dtype=np.int64)',
        ]
    if "at" in plan.inputs:
        at = f"zip_longest([0], *[np.flatnonzero(one == {vocabulary.MASK}) for one in ids], fillvalue=0)"
        lines.append(f'given["at"] = np.array(list(zip(*{at})), dtype=np.int64)[1:]')
    if "segments" in plan.inputs:
        lines.append('given["segments"] = np.zeros_like(ids)')
    if "features" in plan.inputs:
        around = f"[[]] * {begin} + " if begin else ""
        lines += [
            f"rows = [{around}[features.rows(word) for word in words for _ in pieces(word)] for words in sentences]",
            "most = max([1, *(len(one) for of_sentence in rows for one in of_sentence)])",
            'given["features"] = np.full((*ids.shape, most), -1)',
            "for number, of_sentence in enumerate(rows):",
            "    for place, one in enumerate(of_sentence):",
            '        given["features"][number, place, : len(one)] = one',
        ]
    return lines


def _columns(model: Model, says: str) -> list[str]:
    if says != SAYS["graphs"]:
        return []
    sizes = list(model.task.sizes["words"])
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [f"columns = {[*zip(starts, sizes, strict=True)]}"]
