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
RUNNER = {"pt2": "torch", "onnx": "onnxruntime"}
OPENED = {
    "pt2": ['network = torch.export.load(here / "model.pt2").module()'],
    "onnx": [
        "onnxruntime.set_default_logger_severity(3)  # errors alone",
        'session = onnxruntime.InferenceSession(here / "model.onnx")',
    ],
}
RUN = {
    "pt2": "given = {name: torch.from_numpy(value) for name, value in given.items()}\n"
    "found = {name: value.numpy() for name, value in network(**given).items()}",
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
        if {*names[1:3]} <= {*(said := [names[label] for label in scores[: len(words)].argmax(-1)])}:
            print(*map("/".join, zip(words, said)))""",
    "graphs": """\
    for word, scores in zip(words, found["scores"][number]):
        print(word, *[names[start + scores[start : start + size].argmax()] for start, size in columns], sep="\\t")""",
    "shapes": """\
    print(*words, {name: value.shape for name, value in found.items()})""",
}
"""What is printed of one sentence, by what the task answers."""
ARCS = """\
    for word, heads in zip(words, found["arcs"][number]{channel}):
        if heads.any():  # a word that is alone has no head but the root
            print(word, "<-", [*words, "ROOT"][min(heads.argmax(), len(words))], f"{{heads.max():.2f}}")"""
PADDED = "np.array([*zip(*zip_longest([0], *rows, fillvalue=fill))], dtype=np.int64)[1:]"
"""Rows of any lengths as one array of at least one column, in the example."""
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
    inner = vocabulary.inner if isinstance(vocabulary, Enclosed) else vocabulary
    looked_up = _pieces(inner, special=bool(_special(model)))
    if looked_up is None:
        return {}
    imports, pieces = looked_up
    files = {}
    if vocabulary.features is not None:
        section: WordFeatures = vocabulary.features.section
        files[FEATURES] = OF_FEATURES.format_map(section.model_dump())
    uses_json = "vocabulary[" in "".join(pieces)
    answers = "rows" if plan.main == "rows" else model.task.answers
    says = SAYS.get(answers, SAYS["shapes"])
    first, last = ([vocabulary.FIRST], [vocabulary.LAST]) if vocabulary.begins else ([], [])  # type: ignore[attr-defined]
    pad = vocabulary.PAD
    lines = [
        f'"""{model.recipe.name}, without probtrans: python {EXAMPLE} "a text" "another one" ..."""',
        "import json, re, sys",
        f"from itertools import {'accumulate, ' * ('first' in plan.inputs)}zip_longest",
        "from pathlib import Path",
        f"import numpy as np, {RUNNER[form]}{', features' * (vocabulary.features is not None)}",
        *imports,
        "",
        "here = Path(__file__).parent",
        'names = json.loads((here / "labels.json").read_text("utf-8")).get("scores")',
        *(['vocabulary = json.loads((here / "vocabulary.json").read_text("utf-8"))'] if uses_json else []),
        *OPENED[form],
        *_special(model),
        *pieces,
        *_texts(model),
        f"tokens = [{first} + [id for word in words for id in pieces(word)] + {last} for words in sentences]",
        f"padded = lambda rows, fill: {PADDED}",
        f'given = {{"ids": (ids := padded(tokens, {pad})), "mask": ids != {pad}}}',
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


def _pieces(vocabulary: Vocabulary, *, special: bool) -> tuple[list[str], list[str]] | None:
    """What a vocabulary's look-up imports, and the look-up, ``pieces(word)``; ``special``: there are words with tokens
    of their own."""
    normal = "word"
    if getattr(vocabulary, "lowercase", False):
        normal += ".lower()"
    known_word = "special.get(word) or " if special else ""
    if isinstance(vocabulary, Words):
        if vocabulary.digits:
            normal = f're.sub(r"\\d+(?:[.,]\\d+)*", "N", {normal})'
        table = 'table = {word: id for id, word in enumerate(vocabulary["words"], start=3)}'
        return [], [table, f"pieces = lambda word: {known_word}[table.get({normal}, {vocabulary.UNKNOWN})]"]
    if isinstance(vocabulary, Characters):
        known = 'known = {one: id for id, one in enumerate(vocabulary["options"]["characters"], start=3)}'
        looked_up = "token = lambda one, inside: known[one] + inside * len(known) if one in known else 1"
        found = f"[token(one, at > 0) for at, one in enumerate({normal})]"
        return [], [known, looked_up, f"pieces = lambda word: {known_word}{found}"]
    if isinstance(vocabulary, Subwords):
        opened = f'processor = sentencepiece.SentencePieceProcessor(model_file=str(here / "{SUBWORDS_FILE}"))'
        return ["import sentencepiece"], [
            opened,
            f"pieces = lambda word: {known_word}processor.encode({normal}) or [1]",
        ]
    if isinstance(vocabulary, WordPieces):
        opened = f'tokenizer = Tokenizer.from_file(str(here / "{TOKENIZER_FILE}"))'
        found = f"tokenizer.encode(word, add_special_tokens=False).ids or [{vocabulary.UNKNOWN}]"
        return ["from tokenizers import Tokenizer"], [opened, f"pieces = lambda word: {known_word}{found}"]
    return None


def _special(model: Model) -> list[str]:
    """Words with tokens of their own: how a hidden word is written, and the extra words."""
    vocabulary, special = model.vocabulary, {}
    if model.task.answers == "words":
        special["[MASK]"] = vocabulary.MASK
    names = extra_words(model.task.extra)
    encoded = vocabulary.encode_words(["a", *names], len(names))
    special |= {name: encoded.ids[start] for name, start in zip(names, encoded.word_start[1:], strict=True)}
    return [f"special = { {name: [id] for name, id in special.items()} }"] if special else []


def _texts(model: Model) -> list[str]:
    """From the arguments to words: cut at blanks, marks apart; more coarsely than `probtrans parse` does."""
    masks = r"\[MASK\]|" if model.task.answers == "words" else ""
    shown = '"Two [MASK] fold a shirt ."' if masks else '"Two farmers fold a shirt ."'
    words = f"""re.findall(r"{masks}\\w+(?:[-'’.]\\w+)*|[^\\w\\s]", text)"""
    if extra := extra_words(model.task.extra):
        words += f" + {extra}"
    lines = [f"texts = sys.argv[1:] or [{shown}]", f"sentences = [{words} for text in texts]"]
    if model.vocabulary.omits:
        lines.append("sentences = [[one for one in words if any(map(str.isalnum, one))] for words in sentences]")
    return lines


def _more(plan: Plan, vocabulary: Vocabulary, begin: int) -> list[str]:
    """The inputs beside ids and mask."""
    lines: list[str] = []
    if "first" in plan.inputs:
        before = f"accumulate((len(pieces(word)) for word in words[:-1]), initial={begin})"
        lines += [f"starts = [[*{before}] for words in sentences]", 'given["first"] = padded(starts, ids.shape[1])']
    if "at" in plan.inputs:
        lines.append(f'given["at"] = padded([np.flatnonzero(one == {vocabulary.MASK}) for one in ids], 0)')
    if "segments" in plan.inputs:
        lines.append('given["segments"] = np.zeros_like(ids)')
    if "features" in plan.inputs:
        around = "[], " * begin
        lines += [
            f"rows = [[{around}*(features.rows(word) for word in words for _ in pieces(word))] for words in sentences]",
            "rows = [row for one in rows for row in one + [[]] * (ids.shape[1] - len(one))]",
            'given["features"] = padded(rows, -1).reshape(*ids.shape, -1)',
        ]
    return lines


def _columns(model: Model, says: str) -> list[str]:
    if says != SAYS["graphs"]:
        return []
    sizes = list(model.task.sizes["words"])
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [f"columns = {[*zip(starts, sizes, strict=True)]}"]
