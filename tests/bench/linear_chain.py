"""A linear-chain CRF with spelling features beside a recipe of tags: ``python -m tests.bench.linear_chain``.

What people used before neural networks, and use where there is no time: python-crfsuite's averaged perceptron with its
defaults and the usual features of a word and its neighbours. Nothing is tuned. A recipe says where train and test are
and what is learned. (``pip install 'probtrans[bench]'``.)
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

from probtrans_cli.data.corpus.tally import Tally, chosen
from probtrans_cli.data.entities import compare, scores_of
from probtrans_cli.data.files import find
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.source import load_recipe

from . import parser_of

RECIPES = ("ner-wikigold-probabilistic", "wnut17-probabilistic", "pos-ewt-affix", "upos-ewt-minilm-300")
SPLITS = [[f"data.{part}=ner/wikigold/split-{k}/{part}.conll" for part in ("train", "test")] for k in (1, 2)]
LONGEST_AFFIX = 4


def features(words: Sequence[str]) -> list[list[str]]:
    """Return the names of the features of every word: those of the word itself, and its neighbours' form and shape."""
    rows = []
    for index, word in enumerate(words):
        row = ["bias", f"word={word}", f"lower={word.lower()}", f"shape={shape(word)}"]
        row += [f"prefix={word[:n].lower()}" for n in range(1, LONGEST_AFFIX + 1)]
        row += [f"suffix={word[-n:].lower()}" for n in range(1, LONGEST_AFFIX + 1)]
        for offset in (-2, -1, 1, 2):
            there = 0 <= index + offset < len(words)
            neighbour = words[index + offset] if there else "<none>"
            row.append(f"{offset}:lower={neighbour.lower()}")
            if abs(offset) == 1:
                row += [f"{offset}:shape={shape(neighbour)}", f"{offset}:suffix={neighbour[-3:].lower()}"]
        rows.append(row)
    return rows


def shape(word: str) -> str:
    """Return the word with ``X``, ``x`` and ``d`` for its letters and digits, each once where several follow."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word)
    short: list[str] = []
    for kind in kinds:
        short += [] if short[-1:] == [kind] else [kind]
    return "".join(short)


def chain_of(recipe_name: str, overrides: Sequence[str]) -> tuple[str, float, float]:
    """Return the name of the test score, the score in per cent, and the seconds of processor time of the training."""
    import pycrfsuite

    recipe = load_recipe(recipe_name, overrides)
    if recipe.task.kind not in ("tagging", "ner"):
        raise UsageError(f"{recipe_name}: a chain is of tags, and this is kind: {recipe.task.kind}")
    data, (column,) = recipe.data, recipe.task.learned

    def sentences(path: str, split: str) -> Iterator[tuple[list[str], list[str]]]:
        def read(_: Tally) -> Iterator[Sentence]:
            return read_corpus(find(path), data.format, data=data)

        for sentence in chosen(read, data.select, Tally(split)):
            if column in sentence.tags:
                yield sentence.words, sentence.tags[column]

    (train,) = [data.train] if isinstance(data.train, str) else data.train
    trainer = pycrfsuite.Trainer("ap", verbose=False)
    begin = time.process_time()
    for words, tags in sentences(train, "train"):
        trainer.append(features(words), tags)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "chain")
        trainer.train(file)
        seconds = time.process_time() - begin
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        assert isinstance(data.test, str), "the recipe has a test corpus"
        gold = list(sentences(data.test, "test"))
        predicted = [tagger.tag(features(words)) for words, _ in gold]
    tags = [row for _, row in gold]
    if recipe.task.metric == "f1":
        return "F1", 100.0 * scores_of(compare(tags, predicted).counts())["f1"], seconds
    pairs = [pair for rows in zip(tags, predicted, strict=True) for pair in zip(*rows, strict=True)]
    return "accuracy", 100.0 * sum(mine == theirs for mine, theirs in pairs) / len(pairs), seconds


def main() -> None:
    parser = parser_of("linear_chain", __doc__)
    parser.add_argument("recipes", nargs="*", default=RECIPES, help=f"default: {' '.join(RECIPES)}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an override of the recipes")
    options = parser.parse_args()
    rows = [(name, options.set) for name in options.recipes]
    if tuple(options.recipes) == RECIPES and not options.set:
        rows[1:1] = [(RECIPES[0], overrides) for overrides in SPLITS]
    for name, overrides in rows:
        # In a process of its own, as the library draws on from where the training before has ended.
        with get_context("spawn").Pool(1) as pool:
            score, value, seconds = pool.apply(chain_of, (name, overrides))
        print(f"{' '.join([name, *overrides])}: test {score} {value:.2f} after {seconds:.0f} s of one core", flush=True)


if __name__ == "__main__":
    main()
