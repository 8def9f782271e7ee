"""Gold annotation and predictions side by side, in the data's own format: for the scorers of others.

format     what is written of a sentence
conllu     its lines with the predicted column; the gold value stands in MISC, as `GoldUPOS=` or `GoldXPOS=`
columns    word, gold tag and predicted tag, a word a line: what conlleval and `score entities` read; between them a
           space, or a tab where a word or tag of the corpus has a space
table      the text, its gold label, the predicted label and its probability, with tabs between them
jsonl      the object's text and gold label under the keys of `data.jsonl`, and the names of the prediction
cogs       the sentence, the gold logical form, the kind of example and the predicted form, with tabs between them
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from probtrans_cli.data.readers.columns import DOCUMENT
from probtrans_cli.data.readers.conllu import annotated
from probtrans_cli.data.readers.labelled import LABEL
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.data import ABSENT, Data
from probtrans_cli.tasks.base import Places, Prediction
from probtrans_cli.trained.predictions import predictions

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model
    from probtrans_cli.trained.predictor import Predictor

AT_ONCE = 512  # sentences

Write = Callable[[Sentence, Prediction, Places, Data], str]
"""A sentence with its gold annotation, its prediction and where that stands, as text."""


def side_by_side(model: Model, sentences: Sequence[Sentence], predictor: Predictor | None = None) -> Iterator[str]:
    """The sentences of a corpus in the format of the recipe's data, with gold and prediction side by side; the latter
    by ``predictor``, None: the model as its recipe says.

    Raises:
        UsageError: the task, or the format, has no place for gold and prediction.
        DataError: a word or tag cannot be written so that it is read as it is.
    """
    data, task = model.recipe.data, model.recipe.task
    form = "conllu" if data.format == "auto" else data.format
    if model.task.scored_apart:
        what = f"--predictions: data.format: {form} has no place for predictions beside its gold"
        raise UsageError(what, hint=f"write them without it: {model.task.scored_apart}")
    if not task.learned or form not in WRITERS:
        what = f"a task of kind {task.kind}" if not task.learned else f"data.format: {form}"
        raise UsageError(f"--predictions: {what} has no gold to put beside predictions", hint="use parse -f jsonl")
    if form == "columns":
        between = _between_columns(sentences, model.labels["tag"])
        data = data.model_copy(update={"columns": data.columns.model_copy(update={"separator": between})})
    given = iter(sentences)
    while portion := list(islice(given, AT_ONCE)):
        for sentence, prediction in zip(portion, predictions(model, portion, predictor=predictor), strict=True):
            if prediction is not None:
                places = model.task.places(prediction, probability=False)
                yield WRITERS[form](sentence, prediction, places, data)


def _conllu(sentence: Sentence, prediction: Prediction, places: Places, data: Data) -> str:
    del prediction, data
    gold = {
        f"Gold{name.upper()}": _gold(sentence.tags.get(name), len(sentence.words), ABSENT.get(name))
        for name in places.columns
    }
    return "\n".join([*annotated(sentence, columns=places.columns, misc=gold), "", ""])


def _gold(tags: Sequence[str] | None, words: int, absent: str | None) -> list[str]:
    """Gold tags as entries of MISC, which has none for ``absent``; a word without features has `_`."""
    return [""] * words if tags is None else ["" if tag == absent else tag for tag in tags]


def _columns(sentence: Sentence, prediction: Prediction, places: Places, data: Data) -> str:
    del places
    between = data.columns.separator or " "
    rows = zip(sentence.words, sentence.tags["tag"], prediction["tags"], strict=True)
    return "".join(between.join(row) + "\n" for row in rows) + "\n"


def _between_columns(sentences: Sequence[Sentence], names: Iterable[str]) -> str:
    """What separates the columns of these sentences, whose predicted tags are among ``names``, for every reader.

    Raises:
        DataError: a word or tag has a tab, or a word begins as a line does that marks a document.
    """
    for sentence in sentences:
        for text in chain(sentence.words, sentence.tags["tag"]):
            if "\t" in text or text.startswith(DOCUMENT):
                what = f"--predictions: {sentence.where}: a column file cannot have {text!r}"
                raise DataError(what, hint="leave out --predictions, or write the word otherwise")
    texts = chain(names, (text for one in sentences for text in chain(one.words, one.tags["tag"])))
    return "\t" if any(" " in text for text in texts) else " "


def _table(sentence: Sentence, prediction: Prediction, places: Places, data: Data) -> str:
    del places, data
    chance = f"{prediction['label_probability']:.6f}"
    return "\t".join([" ".join(sentence.words), sentence.labels[LABEL], prediction["label"], chance]) + "\n"


def _jsonl(sentence: Sentence, prediction: Prediction, places: Places, data: Data) -> str:
    del places
    record = {data.jsonl.text: sentence.words, data.jsonl.label: sentence.labels[LABEL]}
    record |= {f"predicted_{name}": value for name, value in prediction.items()}
    return json.dumps(record, ensure_ascii=False) + "\n"


def _cogs(sentence: Sentence, prediction: Prediction, places: Places, data: Data) -> str:
    del places, data
    row = [" ".join(sentence.words), sentence.form or "", sentence.labels["case"], prediction["logical_form"] or ""]
    return "\t".join(row) + "\n"


WRITERS: Mapping[str, Write] = {
    "conllu": _conllu,
    "columns": _columns,
    "table": _table,
    "jsonl": _jsonl,
    "cogs": _cogs,
}
"""By the name of the data format."""
