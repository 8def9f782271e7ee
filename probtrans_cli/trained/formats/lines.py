"""Formats of lines: CoNLL-U, JSON lines and plain text; and a corpus with gold and predictions side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from probtrans_cli.data.readers.columns import DOCUMENT
from probtrans_cli.data.readers.conllu import annotated
from probtrans_cli.data.readers.lines import LABEL
from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.data import ABSENT, Data
from probtrans_cli.tasks.base import Places, Prediction
from probtrans_cli.text import harmless, json_line
from probtrans_cli.trained.base import ModelBase
from probtrans_cli.trained.formats import DisplayOptions
from probtrans_cli.trained.parses import Analysis, gold_heads, predictions
from probtrans_cli.trained.predictor import Predictor


def jsonl(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Yield an object for each tree, with the task's predictions; probabilities are always in it."""
    for analysis in analyses:
        gold = {"gold": gold_heads(analysis.sentence)} if options.gold else {}
        yield json_line(analysis.record() | gold) + "\n"


def text(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Yield the sentence, below it the task's predictions, a line each, and an empty line.

    Nothing reads it again, so what a terminal would obey or hide is shown as escapes, as in pictures.
    """
    del options
    for analysis in analyses:
        sentence, _ = character_spans(analysis.sentence)
        lines = [harmless(line, keep="\t") for line in (sentence, *analysis.places(probability=False).lines)]
        yield "\n".join([*lines, "", ""])


def conllu(analyses: Iterator[Analysis], options: DisplayOptions) -> Iterator[str]:
    """Yield the sentence's own lines with our HEAD and DEPREL, and with the task's predictions.

    In MISC stand the probabilities of arcs as `Prob=` (over draws of the weights their standard deviations as
    `ProbSD=`) and latent labels as `Labels=`. Without a tree, the sentence keeps its own. An empty line of a text is
    left out: CoNLL-U has no sentence without words.
    """
    for analysis in analyses:
        if not analysis.sentence.words and analysis.sentence.lines is None:
            continue
        if analysis.sentence.unread:
            # A sentence that is not read has no annotation, which could be taken for the model's; its name stays.
            name = analysis.sentence.id
            name_line = [] if name is None else [f"# sent_id = {name}"]
            alone = replace(analysis.sentence, lines=None, rows=None)
            lines = [*name_line, *annotated(alone)]
            rows = list(range(len(lines) - len(alone.words), len(lines)))
            analysis = Analysis(replace(alone, lines=lines, rows=rows))  # noqa: PLW2901
        places, misc = analysis.places(probability=options.probability), {}
        if options.probability and analysis.probabilities is not None:
            misc["Prob"] = ["" if np.isnan(p) else f"{p:.4f}" for p in analysis.probabilities]
            if analysis.deviations is not None:
                misc["ProbSD"] = ["" if np.isnan(p) else f"{p:.4f}" for p in analysis.deviations]
        if analysis.latent_labels is not None:
            misc["Labels"] = [
                ",".join(f"{label}:{p:.4f}" for label, p in zip(*of_word, strict=True))
                for of_word in zip(*analysis.latent_labels, strict=True)
            ]
        # A parser's own heads stand in the columns of its prediction.
        heads = None if analysis.heads is None or analysis.reading is None else analysis.heads.tolist()
        lines = annotated(
            analysis.sentence, heads, columns=places.columns, misc={**misc, **places.misc}, comments=places.comments
        )
        yield ("\r\n" if analysis.sentence.windows else "\n").join([*lines, "", ""])


# --- gold and predictions side by side --------------------------------------------------------------------------------

AT_ONCE = 512  # sentences

SIDE_BY_SIDE = ("conllu", "columns", "table", "jsonl", "cogs")
"""The data formats that have a place for predictions beside gold."""


def side_by_side(model: ModelBase, sentences: Sequence[Sentence], predictor: Predictor | None = None) -> Iterator[str]:
    """Yield the sentences of a corpus in the format of the recipe's data, with gold and predictions, for the scorers of
    others. ``predictor``: None: the model as its recipe says.

    format     what is written of a sentence
    conllu     its lines with the predicted column; the gold value stands in MISC, as `GoldUPOS=` or `GoldXPOS=`
    columns    word, gold tag and predicted tag, a word a line: what conlleval and `score entities` read; between them a
               space, or a tab where a word or tag of the corpus has a space
    table      the text, its gold label, the predicted label and its probability, with tabs between them
    jsonl      the object's text and gold label under the keys of `data.jsonl`, and the names of the prediction
    cogs       the sentence, the gold logical form, the kind of example and the predicted form, with tabs between them
    """
    data, form = model.recipe.data, require_side_by_side(model)
    if form == "columns":
        has_space = any(" " in name for name in model.labels["tag"])
        for sentence in sentences:
            for text in chain(sentence.words, sentence.tags["tag"]):
                if "\t" in text or text.startswith(DOCUMENT):
                    message = f"--predictions: {sentence.where}: a column file cannot have {text!r}"
                    raise DataError(message, hint="leave out --predictions, or write the word otherwise")
                has_space = has_space or " " in text
        between = "\t" if has_space else " "
        data = data.model_copy(update={"columns": data.columns.model_copy(update={"separator": between})})
    remaining = iter(sentences)
    while portion := list(islice(remaining, AT_ONCE)):
        for sentence, prediction in zip(portion, predictions(model, portion, predictor=predictor), strict=True):
            if prediction is not None:
                places = model.task.places(prediction, probability=False)
                yield _beside_gold(form, sentence, prediction, places, data)


def require_side_by_side(model: ModelBase) -> str:
    """Return the format in which gold and predictions of a model stand side by side."""
    task = model.recipe.task
    form = "conllu" if model.recipe.data.format == "auto" else model.recipe.data.format
    if model.task.answers.scored_apart:
        message = f"--predictions: data.format: {form} has no place for predictions beside its gold"
        raise UsageError(message, hint=f"write them without it: {model.task.answers.scored_apart}")
    if model.task.answers.trees:
        message = "--predictions: a parser's are written by parse -f conllu, and scored by score trees"
        raise UsageError(message, hint="leave it out")
    if not task.learned or form not in SIDE_BY_SIDE:
        message = f"a task of kind {task.kind}" if not task.learned else f"data.format: {form}"
        raise UsageError(f"--predictions: {message} has no gold to put beside predictions", hint="use parse -f jsonl")
    return form


def _beside_gold(form: str, sentence: Sentence, prediction: Prediction, places: Places, data: Data) -> str:
    if form == "conllu":
        misc = {}
        for name in places.columns:
            tags = sentence.tags.get(name) or [""] * len(sentence.words)
            misc[f"Gold{name.upper()}"] = ["" if tag == ABSENT.get(name) else tag for tag in tags]
        return "\n".join([*annotated(sentence, columns=places.columns, misc=misc), "", ""])
    if form == "columns":
        between = data.columns.separator or " "
        rows = zip(sentence.words, sentence.tags["tag"], prediction["tags"], strict=True)
        return "".join(between.join(row) + "\n" for row in rows) + "\n"
    if form == "jsonl":
        record = {data.jsonl.text: sentence.words, data.jsonl.label: sentence.labels[LABEL]}
        record |= {f"predicted_{name}": value for name, value in prediction.items()}
        return json.dumps(record, ensure_ascii=False) + "\n"
    if form == "table":
        cells = [sentence.labels[LABEL], prediction["label"], f"{prediction['label_probability']:.6f}"]
    else:
        cells = [sentence.form or "", sentence.labels["case"], prediction["logical_form"] or ""]
    return "\t".join([" ".join(sentence.words), *cells]) + "\n"
