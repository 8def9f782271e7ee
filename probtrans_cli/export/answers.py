"""The answers of an exported graph, without this package: what `parse --input text --trees no -f jsonl` says of texts.

This file is written beside a graph as it stands, with the modules that it imports from this package. It knows nothing
of a model by itself: `EXPORT.json` has the sections `reading`, how texts are read, and `answers`, what decides the
answers beside the scores, and `labels.json` the names of what is scored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from probtrans_cli.data.codecs.records import entity_records, graph_labels, graph_record, located_span
from probtrans_cli.export.lookup import Lookup, Text, arrays, batches
from probtrans_cli.openie.coordinations import coordination_records, located_coordinations
from probtrans_cli.openie.extractions import located_tuple, tuple_record, tuples_in
from probtrans_cli.tasks.whole_sentences import WholeSentences
from probtrans_cli.trees.drawing.records import json_line, rounded

Scores = Mapping[str, np.ndarray]
Record = dict[str, Any]
ABSTAINED = "_"
BAD_DATA, BAD_USE = 3, 2
"""Exit codes, those of `parse`."""
AT_ONCE = 4096
"""Tokens of the texts that are read before they are answered."""


class RefusedError(Exception):
    """A text has no answer, or what is asked for cannot be done; ``exit_code`` is that of `parse`."""

    def __init__(self, message: str, exit_code: int = BAD_DATA) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Answers:
    """What a graph says of texts."""

    def __init__(self, folder: Path, run: Callable[[dict[str, np.ndarray]], Scores], about: Any = None) -> None:
        """``folder``: of the graph. ``run``: from its inputs to its outputs, by name. ``about``: what `EXPORT.json`
        has; None: it is read."""
        self.about = about or json.loads((folder / "EXPORT.json").read_text("utf-8"))
        self.names: dict[str, list[str]] = json.loads((folder / "labels.json").read_text("utf-8"))
        self.reading, self.rules = self.about["reading"], self.about["answers"]
        self.lookup, self.run = Lookup(folder, self.reading), run
        frames, columns = self.rules.get("frames"), self.rules.get("columns")
        self.whole = None if frames is None else WholeSentences(frames, columns)

    def records(
        self, texts: Iterable[tuple[str, str]], *, longest: int | None = None, abstain: float | None = None
    ) -> Iterator[tuple[Record, Text, Scores]]:
        """Of each text what `parse` says of it, its words, and the graph's outputs, which are none where it has no word
        or is not read.

        Args:
            texts: where each of them is from, for messages, and the text itself.
            longest: words or tokens that a text may have; None: as many as `parse` allows.
            abstain: tags and labels that are less probable are left out.

        Raises:
            RefusedError: after the answers to the texts before it: a text is too long, and the model answers no text
                that it cannot read; or nothing can be left out.
        """
        if abstain is not None and not self.rules["abstains"]:
            raise RefusedError(f"--abstain: a task of kind {self.about['task']} gives no tags or labels", BAD_USE)
        limit = self.reading["longest"] if longest is None else longest
        waiting: list[tuple[Text, str]] = []
        tokens = 0
        for where, text in texts:
            read, fault = self._read(where, text, limit)
            if fault and not self.rules["skips"]:  # as of `parse`, an error behind the answers before it
                yield from self._answered(waiting, abstain)
                raise RefusedError(f"{where}: {fault}")
            if fault:
                print(f"warning: {where}: {fault}: it is not read, and its analysis is empty", file=sys.stderr)
            waiting.append((read, fault))
            tokens += len(read.ids) + 1
            if tokens > AT_ONCE:
                yield from self._answered(waiting, abstain)
                waiting, tokens = [], 0
        yield from self._answered(waiting, abstain)

    def _read(self, where: str, text: str, limit: int) -> tuple[Text, str]:
        """A text, looked up, and why it is too long; empty: it is not."""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RefusedError(f"{where}: not UTF-8") from None
        skips = self.rules["skips"]
        if (
            not skips and len(text) > limit and (number := len(text.split())) > limit
        ):  # a word is a token or more of them
            return Text(text, [], [], [], [], []), f"a sentence of {number:,} words, more than {limit:,}"
        read, positions = self.lookup.read(text), self.reading["positions"]
        own = len(read.ids) - len(self.reading["extra_words"])
        for number, units in ((len(read.words), "words"), (own if self.reading["divides"] else 0, "tokens")):
            if number > limit:
                return read, f"a sentence of {number:,} {units}, more than {limit:,}"
        if positions is not None and len(read.ids) > positions:
            return read, f"a sentence of {len(read.ids)} tokens, and the model has {positions} positions for them"
        return read, ""

    def _answered(
        self, texts: Sequence[tuple[Text, str]], abstain: float | None
    ) -> Iterator[tuple[Record, Text, Scores]]:
        # Of words none of which is read, as of punctuation where it is left out, there is nothing to say.
        answered = self._asked([text for text, fault in texts if text.words and text.ids and not fault], abstain)
        for text, fault in texts:
            said: Record = dict(self.rules["nothing"])
            scores: Scores = {}
            if text.words and not fault:
                said, scores = next(answered) if text.ids else ({}, {})
            whole = {"text": text.text} if self.rules["with_text"] else {}
            unread = {"unread": fault} if fault else {}
            yield {**whole, "words": text.words, **unread, **said}, text, scores

    def _asked(self, texts: Sequence[Text], abstain: float | None) -> Iterator[tuple[Record, Scores]]:
        """What the graph says of texts with words."""
        answer = KINDS.get(self.rules["kind"], _nothing)
        for batch in batches(texts):
            found = self.run(arrays(batch, list(self.about["inputs"]), self.reading))
            for row, text in enumerate(batch):
                scores = {name: np.asarray(values[row], np.float64) for name, values in found.items()}
                unscored = {"arcs", "sentence"}
                tempered = {
                    name: of_text if name in unscored else of_text / self.rules["temperature"]
                    for name, of_text in scores.items()
                }
                record = answer(self, text, tempered)
                yield rounded(record if abstain is None else abstained(record, abstain)), scores


# --- from scores to answers, by the kind of what a task says ----------------------------------------------------------


def _tags(answers: Answers, text: Text, scores: Scores) -> Record:
    of_words, names = scores["scores"][: len(text.words)], answers.names["scores"]
    allowed = answers.rules.get("allowed")
    ids = of_words.argmax(-1) if allowed is None else best_valid(of_words, allowed)
    chances = np.exp(log_softmax(of_words))[np.arange(len(ids)), ids].tolist()
    record = {"tags": [names[id] for id in ids], "tag_probability": chances}
    if answers.rules.get("entities"):
        entities = entity_records(record["tags"], chances)
        record["entities"] = [located_span(span, text.text, text.spans) for span in entities]
    return record


def _class(answers: Answers, text: Text, scores: Scores, output: str = "scores", name: str = "label") -> Record:
    del text
    chances = np.exp(log_softmax(scores[output]))
    return {name: answers.names[output][chances.argmax()], f"{name}_probability": float(chances.max())}


def _words(answers: Answers, text: Text, scores: Scores) -> Record:
    reading, names, most = answers.reading, answers.names["scores"], answers.rules["most"]
    masks = []
    hidden = (number for number, word in enumerate(text.words) if word in reading["masks"])
    for word, of_mask in zip(hidden, scores["scores"], strict=False):
        chances = np.exp(log_softmax(of_mask))
        best = (-of_mask).argsort(kind="stable")[:most]
        masks.append({"word": word, "words": [names[id] for id in best], "probabilities": chances[best].tolist()})
    return {"masks": masks} | (_class(answers, text, scores, "pair", "pair") if "pair" in answers.names else {})


def _rows(answers: Answers, text: Text, scores: Scores) -> tuple[list[list[int]], list[list[float]]]:
    """The labels of the rows of a sentence, up to the first that lacks one of the two that every row has, and their
    logarithms of probabilities; a sentence of one word has none."""
    extra = len(answers.reading["extra_words"])
    of_rows = scores["scores"][:, : len(text.words) + extra]
    labels = of_rows.argmax(-1)
    chances = np.take_along_axis(log_softmax(of_rows), labels[..., None], -1)[..., 0]
    complete = (labels == 1).any(-1) & (labels == 2).any(-1)
    number = int(complete.cumprod().sum()) if len(text.words) > 1 else 0
    return labels[:number].tolist(), chances[:number].tolist()


def _tuples(answers: Answers, text: Text, scores: Scores) -> Record:
    rules = {name: answers.rules[name] for name in ("confidence", "extra_words", "location_time")}
    tuples = tuples_in(text.words, *_rows(answers, text, scores), **rules)
    records = [tuple_record(extraction, text.words) for extraction in tuples]
    return {"tuples": [located_tuple(record, text.text, text.spans) for record in records]}


def _coordinations(answers: Answers, text: Text, scores: Scores) -> Record:
    records = coordination_records(*_rows(answers, text, scores))
    return located_coordinations(records, text.text, text.spans, answers.rules["splitting"])


def _graphs(answers: Answers, text: Text, scores: Scores) -> Record:
    rules, number = answers.rules, len(text.words)
    labels = _columns(answers, text, scores)
    texts = {name: [names[id] for id in labels[name]] for name, names in rules["columns"].items()}
    parents = None if "parents" not in scores else scores["parents"][:number, : number + 1].argmax(-1) - 1
    return graph_record(graph_labels(texts, rules["parent"], None if parents is None else parents.tolist()), text.words)


def _columns(answers: Answers, text: Text, scores: Scores) -> dict[str, list[int]]:
    """The label ids of every column; a known preposition, and nothing else, has its role."""
    columns: Mapping[str, list[str]] = answers.rules["columns"]
    ends = np.cumsum([len(names) for names in columns.values()])[:-1]
    apart = np.split(scores["scores"][: len(text.words)], ends, axis=-1)
    of_columns = dict(zip(columns, apart, strict=True))
    best = {name: of_words.argmax(-1) for name, of_words in of_columns.items()}
    if "PREP" in columns.get("kind", ()):
        kind, role = columns["kind"].index("PREP"), columns["role"].index("PREP")
        others = of_columns["role"].copy()
        others[:, role] = -np.inf
        best["role"] = np.where(best["kind"] == kind, role, others.argmax(-1))
    found = {name: ids.tolist() for name, ids in best.items()}
    if answers.whole is None or len(text.words) == 1:
        return found
    kinds = [columns["kind"][id] for id in found["kind"]]
    logs = {name: log_softmax(of_words) for name, of_words in of_columns.items()}
    return found | (answers.whole.find(kinds, logs) or {})


def _nothing(answers: Answers, text: Text, scores: Scores) -> Record:
    """Of a task that this file does not know: nothing."""
    del answers, text, scores
    return {}


KINDS: Mapping[str, Callable[[Answers, Text, Scores], Record]] = {
    "tags": _tags,
    "class": _class,
    "words": _words,
    "tuples": _tuples,
    "coordinations": _coordinations,
    "graphs": _graphs,
}


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """The logarithms of the probabilities of the last axis."""
    exact = scores - scores.max(-1, keepdims=True)
    result: np.ndarray = exact - np.log(np.exp(exact).sum(-1, keepdims=True))
    return result


def best_valid(scores: np.ndarray, allowed: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """The most probable tags of a sentence among the sequences that are allowed (Viterbi), or each word's best one
    where none is: what :func:`probtrans_cli.tasks.valid_tags.best_valid` finds.

    ``scores [w, a]``. ``allowed``: which tags may stand first ``[a]``, which behind another ``then [a, e]``, and which
    last ``[a]``.
    """
    first, then, last = (np.where(allowed[name], 0.0, -np.inf) for name in ("first", "then", "last"))
    lattice = scores - scores.max(-1, keepdims=True)
    total, steps = lattice[0] + first, []
    for of_word in lattice[1:]:
        paths = total[:, None] + then
        steps.append(paths.argmax(0))
        total = paths.max(0) + of_word
    total = total + last
    if total.max() == -np.inf:
        best: np.ndarray = scores.argmax(-1)
        return best
    tags = [int(total.argmax())]
    for before in reversed(steps):
        tags.append(int(before[tags[-1]]))
    return np.array(tags[::-1])


def abstained(record: Record, least: float) -> Record:
    """A record with `_` for every tag or label that is less probable, and without entities that have such a tag."""
    if "label" in record:
        return record | ({"label": ABSTAINED} if record["label_probability"] < least else {})
    out = [chance < least for chance in record["tag_probability"]]
    kept = [span for span in record.get("entities", ()) if not any(out[slice(*span["words"])])]
    tags = [ABSTAINED if left else tag for tag, left in zip(record["tags"], out, strict=True)]
    return {**record, "tags": tags} | ({"entities": kept} if "entities" in record else {})


# --- the command ------------------------------------------------------------------------------------------------------

OPTIONS = ("--json", "--file", "--abstain", "--longest")


def main(folder: Path, run: Callable[[dict[str, np.ndarray]], Scores], arguments: Sequence[str]) -> int:
    """Print the answers to the texts that are arguments, or to the lines of a file; returns the exit code.

    Options stand before the texts: `--json` prints the records of `parse -f jsonl`, `--file FILE` reads a text a line,
    `--abstain P` leaves out answers that are less probable, `--longest N` allows so many words.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        texts, options = _asked_for(list(arguments))
        answers = Answers(folder, run)
        how = {name: options[name] for name in ("longest", "abstain") if name in options}
        for record, text, scores in answers.records(texts or [("text 1", answers.rules["shown"])], **how):
            lines = [json_line(record)] if "json" in options else [*in_lines(answers, record, text, scores)]
            sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except RefusedError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read has enough
        sys.stdout = None  # Python would flush it once more
        return 0
    return 0


def _asked_for(arguments: list[str]) -> tuple[Iterable[tuple[str, str]], dict[str, Any]]:
    """The texts, with where they are from, and the options; what does not begin as an option is a text."""
    options: dict[str, Any] = {}
    while arguments and arguments[0] in OPTIONS:
        option = arguments.pop(0)
        value = True if option == "--json" else arguments.pop(0) if arguments else None
        if value is None:
            raise RefusedError(f"{option} needs a value", BAD_USE)
        try:
            number: Any = {"--abstain": float, "--longest": int}.get(option)
            options[option.removeprefix("--")] = value if number is None else number(value)
        except ValueError:
            raise RefusedError(f"{option}: {value!r} is no number", BAD_USE) from None
    named = [(f"text {number}", text) for number, text in enumerate(arguments, start=1)]
    return (chain(_lines_of(options["file"]), named) if "file" in options else named), options


def _lines_of(name: str) -> Iterator[tuple[str, str]]:
    """The lines of a file of texts, with where they stand."""
    try:
        content = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise RefusedError(f"{name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RefusedError(f"{name}:{line}: not UTF-8") from None
    for number, line in enumerate(content.removesuffix("\n").split("\n") if content else [], start=1):
        yield f"{name}:{number}", line.removesuffix("\r")


def in_lines(answers: Answers, record: Record, text: Text, scores: Scores) -> Iterator[str]:
    """A record for people."""
    words, kind = record["words"], answers.rules["kind"]
    if not scores:
        return
    if kind == "tags":
        yield from map("\t".join, zip(words, record["tags"], strict=True))
    elif kind == "class":
        yield " ".join([record["label"], *words])
    elif kind == "words":
        yield from (" ".join([*words, *mask["words"]]) for mask in record["masks"])
    elif kind in ("tuples", "coordinations"):
        shown, names = [*words, *answers.reading["extra_words"]], answers.names["scores"]
        for labels in _rows(answers, text, scores)[0]:
            yield " ".join(f"{word}/{names[id]}" for word, id in zip(shown, labels, strict=True))
    elif kind == "graphs":
        for word, *labels in zip(words, *record["labels"].values(), strict=True):
            yield "\t".join([word, *map(str, labels)])
        yield from filter(None, [record["logical_form"]])
    else:
        yield " ".join([*words, str({name: values.shape for name, values in scores.items()})])
    if "arcs" in scores and answers.about["arcs"]["by_word"]:
        yield from _heads(answers, words, scores["arcs"])


def _heads(answers: Answers, words: Sequence[str], arcs: np.ndarray) -> Iterator[str]:
    """The most probable head of each word, by itself."""
    channel, names = answers.about["arcs"]["channel"], [*words, *answers.reading["extra_words"]]
    for word, heads in zip(words, arcs.mean(0) if channel == "mean" else arcs[channel], strict=False):
        if heads.any():  # a word that is alone has no head but the root
            yield f"{word} <- {[*names, 'ROOT'][min(heads.argmax(), len(names))]} {heads.max():.2f}"
