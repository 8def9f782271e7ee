"""UDPipe 1's own trainer on the files of a treebank: the rival of `task.kind: parsing` that needs no GPU.

    python -m tests.bench.udpipe ud/wo_wtb                            train, tag and parse test with gold words, score
    python -m tests.bench.udpipe ud/en_ewt --parser-iterations 10     fewer iterations over train
    python -m tests.bench.udpipe ud/wo_wtb --model wo.udpipe          keep the model; where there is one, use it

The folder has `train.conllu`, `dev.conllu` and `test.conllu`, and is searched as the files of a recipe are. The options
are those with which the models of UDPipe 1.2 for UD 2.5 were trained, except for vectors of words from other texts and
the second tagger, which only gives lemmas. Dev chooses the iteration of both. Scores are those of `score trees`;
words/s are of one process that reads, tags, parses and writes. Needs the extra `bench` (`ufal.udpipe`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from probtrans_cli.data.files import find, open_lines

from . import parser_of

TAGGER = {
    "models": 1, "templates_1": "tagger", "guesser_suffix_rules_1": 8, "guesser_enrich_dictionary_1": 6,
    "guesser_prefixes_max_1": 0, "use_lemma_1": 0, "use_xpostag_1": 1, "use_feats_1": 1, "provide_lemma_1": 0,
    "provide_xpostag_1": 1, "provide_feats_1": 1, "prune_features_1": 0,
}  # fmt: skip
PARSER = {
    "embedding_upostag": 20, "embedding_feats": 20, "embedding_xpostag": 0, "embedding_form": 50, "embedding_lemma": 0,
    "embedding_deprel": 20, "learning_rate": 0.01, "learning_rate_final": 0.001, "l2": 0.5, "hidden_layer": 200,
    "batch_size": 10, "transition_system": "projective", "transition_oracle": "dynamic", "structured_interval": 8,
}  # fmt: skip
ITERATIONS = {"tagger": 20, "parser": 30}
ANNOTATION = slice(2, 8)
"""Columns of a word that are not shown to the model: LEMMA to DEPREL."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("udpipe", __doc__)
    parser.add_argument("treebank", help="a folder of a treebank")
    parser.add_argument("--model", type=Path, help="where the model is kept")
    for name, number in ITERATIONS.items():
        parser.add_argument(f"--{name}-iterations", type=int, default=number, help=f"default {number}")
    options = parser.parse_args(arguments)
    parts = {part: read(f"{options.treebank}/{part}.conllu") for part in ("train", "dev", "test")}
    if options.model is None or not options.model.exists():
        began = time.process_time()
        model = trained(parts["train"], parts["dev"], options.tagger_iterations, options.parser_iterations)
        print(f"{options.treebank}: trained in {(time.process_time() - began) / 60:.1f} minutes of one core")
    else:
        model = options.model.read_bytes()
    with TemporaryDirectory() as folder:
        path = options.model or Path(folder, "model.udpipe")
        if not path.exists():
            path.write_bytes(model)
        began = time.process_time()
        predicted = parsed(path, without_annotation(parts["test"]))
        seconds = time.process_time() - began
        files = [Path(folder, name) for name in ("predicted.conllu", "gold.conllu")]
        for file, text in zip(files, (predicted, parts["test"]), strict=True):
            file.write_text(text, encoding="utf-8")
        print(f"{options.treebank}: {scores_in_words(*map(str, files))}")
    words = sum(line.split("\t")[0].isdigit() for line in parts["test"].splitlines())
    print(f"{options.treebank}: {words / seconds:,.0f} words/s, loading of the model included")
    return 0


def read(name: str) -> str:
    return "".join(f"{line}\n" for line in open_lines(find(name)))


def without_annotation(conllu: str) -> str:
    """Return the same sentences with the words alone."""

    def stripped(line: str) -> str:
        cells = line.split("\t")
        if cells[0].isdigit():
            cells[ANNOTATION] = ["_"] * 6
        return "\t".join(cells)

    return "".join(f"{stripped(line)}\n" for line in conllu.splitlines())


def trained(train: str, dev: str, tagger_iterations: int, parser_iterations: int) -> bytes:
    from ufal.udpipe import InputFormat, ProcessingError, Sentence, Sentences, Trainer

    def sentences(text: str) -> Any:
        form, error, every = InputFormat.newInputFormat("conllu"), ProcessingError(), Sentences()
        form.setText(text)
        sentence = Sentence()
        while form.nextSentence(sentence, error):
            every.append(sentence)
            sentence = Sentence()
        if error.occurred():
            raise SystemExit(error.message)
        return every

    def joined(options: dict[str, Any], iterations: int) -> str:
        return ";".join(f"{name}={value}" for name, value in {**options, "iterations": iterations}.items())

    error = ProcessingError()
    options = "none", joined(TAGGER, tagger_iterations), joined(PARSER, parser_iterations)
    model = Trainer.train("morphodita_parsito", sentences(train), sentences(dev), *options, error)
    if error.occurred():
        raise SystemExit(error.message)
    return bytes(model)


def parsed(model: Path, text: str) -> str:
    """Return CoNLL-U with the tags and trees of a model."""
    from ufal.udpipe import Model, Pipeline, ProcessingError

    loaded, error = Model.load(str(model)), ProcessingError()  # the pipeline does not keep the model alive
    output: str = Pipeline(loaded, "conllu", "", "", "conllu").process(text, error)
    if error.occurred():
        raise SystemExit(error.message)
    return output


def scores_in_words(predicted: str, gold: str) -> str:
    from probtrans_cli.reports.scorers import score

    scores = score("trees", predicted, gold, {})["scores"]
    names = [name for name in ("uas", "las", "clas", "mlas", "upos", "xpos", "ufeats") if name in scores]
    return ", ".join(f"{name} {100 * scores[name]:.2f}" for name in names)


if __name__ == "__main__":
    raise SystemExit(main())
