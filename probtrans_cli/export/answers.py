"""The answers of an exported graph, without this package: what `parse --input text --trees no -f jsonl` says of texts.

This file is written beside a graph as it stands, with the modules that it imports from this package: those by which
`parse` divides a text, looks up its words, and decides. It knows nothing of a model by itself. `vocabulary.json` has
the words, `EXPORT.json` the sections `reading`, how texts are read, and `answers`, what decides the answers beside the
scores, and `labels.json` the names of what is scored.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from probtrans_cli.data.entities import entity_records, located_span
from probtrans_cli.data.logical_forms import graph_labels, graph_record
from probtrans_cli.data.tokens import token_spans, valid
from probtrans_cli.data.vocabularies.spelling import HashedFeatures, looked_up
from probtrans_cli.errors import DataError, ProbtransError, UsageError
from probtrans_cli.openie.coordinations import coordination_records, located_coordinations
from probtrans_cli.openie.extractions import located_tuple, tuple_record, tuples_in
from probtrans_cli.statistics.sampling import Sampling
from probtrans_cli.tasks.whole_sentences import WholeSentences
from probtrans_cli.text import json_line, rounded
from probtrans_cli.trees.decode import SMALLEST_PROBABILITY, decode, levelled

Scores = Mapping[str, np.ndarray]
Record = dict[str, Any]
Reading = Mapping[str, Any]
Ids = Callable[[str], list[int]]
ABSTAINED = "_"
AT_ONCE, OF_A_BATCH = 4096, 1024
"""Tokens of the texts that are read before they are answered, and of a batch with its padding."""
TEXTS_OF_A_STEP = 64  # each has a score of every entry of the vocabulary

# --- from a text to the numbers that a graph takes --------------------------------------------------------------------


class Text(NamedTuple):
    """A text, divided and looked up."""

    text: str
    spans: list[tuple[int, int]]
    """The characters ``[begin, end)`` of its words, without the extra words."""
    words: list[str]  # the words, without the extra words
    ids: list[int]  # of its tokens
    first: list[int]  # the position of each word's first token, those of the extra words last
    features: list[tuple[int, ...]]  # the rows of each token's word


class Lookup:
    """What a vocabulary knows of words."""

    def __init__(self, folder: Path, reading: Reading) -> None:
        """
        Args:
            folder: with the vocabulary's files.
            reading: the section of `EXPORT.json`.
        """
        self.reading = reading
        saved = json.loads((folder / "vocabulary.json").read_text("utf-8"))
        self._counts: dict[str, int] = dict(zip(saved["words"], saved["counts"], strict=True))
        self._counts = {**(saved["options"].get("omitted") or {}), **self._counts}
        self._numbers = None if reading["numbers"] is None else re.compile(reading["numbers"])
        self._ids = ids_by(folder, saved, reading)
        features = reading["features"]
        self.features = None if features is None else HashedFeatures(SimpleNamespace(**features))  # type: ignore[arg-type]

    def normalise(self, word: str) -> str:
        word = word.lower() if self.reading["lowercase"] else word
        return word if self._numbers is None else self._numbers.sub("N", word)

    def frequency(self, word: str) -> int:
        return self._counts.get(self.normalise(word), 0)

    def knows(self, word: str) -> bool:
        return self.reading["unknown"] not in self.ids(word)

    def ids(self, word: str) -> list[int]:
        """Return the ids of a word; none for a word that is not read."""
        if self.reading["omits"] and not any(map(str.isalnum, word)):
            return []
        normal = word if self.reading["by_itself"] else self.normalise(word)
        longest, unknown = self.reading["longest_word"], [self.reading["unknown"]]
        if normal in self.reading["names"] or (longest is not None and len(normal) > longest):
            return unknown
        return self._ids(normal) or unknown

    def read(self, text: str) -> Text:
        """Divide a text and look up its words."""
        reading, spans = self.reading, list(token_spans(text))
        words, masks, extra = [text[start:end] for start, end in spans], reading["masks"], reading["extra_words"]
        # Typographic marks are spelled plainly where the vocabulary knows the word so; the name of a mask stays.
        spelled = looked_up([word for word in words if word not in masks], self.knows, self.frequency)
        shown = words
        if spelled is not None:
            spellings = iter(spelled)
            shown = [word if word in masks else next(spellings) for word in words]
        ids = [[reading["mask"]] if word in masks else self.ids(word) for word in shown]
        ids += [[id] for id in extra.values()]
        begin = [] if reading["first"] is None else [reading["first"]]
        end = [] if reading["last"] is None else [reading["last"]]
        rows = [() if self.features is None else self.features.rows(word) for word in (*shown, *extra)]
        of_tokens = [of_word for of_word, pieces in zip(rows, ids, strict=True) for _ in pieces]
        # A word that is not read has the position of the token before it, or of the first token.
        starts = zip(accumulate(map(len, ids), initial=len(begin)), ids, strict=False)
        return Text(
            text, spans, words,
            [*begin, *(id for pieces in ids for id in pieces), *end],
            [start if pieces else max(start - 1, len(begin)) for start, pieces in starts],
            [*[()] * len(begin), *of_tokens, *[()] * len(end)],
        )  # fmt: skip


def ids_by(folder: Path, saved: Any, reading: Reading) -> Ids:
    """Return what a vocabulary of any kind looks a normalised word up by."""
    begin, unknown = len(reading["names"]), int(reading["unknown"])
    if reading["kind"] == "words":
        table = {word: id for id, word in enumerate(saved["words"], start=begin)}
        for word in reading["extra_words"]:
            del table[word]
        return lambda word: [table[word]] if word in table else []
    if reading["kind"] == "char":
        characters = saved["options"]["characters"]
        first = {it: id for id, it in enumerate(characters, start=begin)}
        within = {it: id for id, it in enumerate(characters, start=begin + len(characters))}
        return lambda word: [(within if place else first).get(it, unknown) for place, it in enumerate(word)]
    file = str(folder / reading["file"])
    if reading["kind"] == "sentencepiece":
        import sentencepiece  # noqa: PLC0415  (only such a vocabulary needs it)

        processor = sentencepiece.SentencePieceProcessor(model_file=file)
        return lambda word: [int(id) for id in processor.encode(valid(word))]
    from tokenizers import Tokenizer  # noqa: PLC0415  (only a vocabulary of word pieces needs it)

    tokenizer = Tokenizer.from_file(file)
    tokenizer.encode_special_tokens = True  # the name of a special piece is a word like others
    return lambda word: [int(id) for id in tokenizer.encode(valid(word), add_special_tokens=False).ids]


def batches(texts: Sequence[Text], most: int = AT_ONCE) -> Iterator[list[int]]:
    """Divide texts by length into batches of about ``OF_A_BATCH`` tokens with their padding, and of ``most`` texts."""
    batch: list[int] = []
    for number in sorted(range(len(texts)), key=lambda number: len(texts[number].ids)):
        if batch and (len(texts[number].ids) * (len(batch) + 1) > OF_A_BATCH or len(batch) == most):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def arrays(texts: Sequence[Text], names: Iterable[str], reading: Reading) -> dict[str, np.ndarray]:
    """Return the inputs of a graph that have these names."""
    ids = padded([text.ids for text in texts], reading["pad"])
    shape = ids.shape
    rows = [row for text in texts for row in [*text.features, *[()] * (shape[1] - len(text.ids))]]
    makers: dict[str, Callable[[], np.ndarray]] = {
        "ids": lambda: ids,
        "mask": lambda: ids != reading["pad"],
        "first": lambda: padded([text.first for text in texts], shape[1]),
        "at": lambda: padded([np.flatnonzero(of_text == reading["mask"]) for of_text in ids], 0),
        "features": lambda: padded(rows, -1).reshape(*shape, -1),
        "segments": lambda: np.zeros_like(ids),
    }
    return {name: makers[name]() for name in names}


def padded(rows: Sequence[Sequence[int] | np.ndarray], fill: int) -> np.ndarray:
    """Return rows of any lengths as one array of at least one column."""
    array = np.full((len(rows), max(1, *map(len, rows)) if rows else 1), fill, dtype=np.int64)
    for number, row in enumerate(rows):
        array[number, : len(row)] = row
    return array


# --- from scores to answers -------------------------------------------------------------------------------------------


class Answers:
    """What a graph says of texts."""

    def __init__(self, folder: Path, run: Callable[[dict[str, np.ndarray]], Scores], about: Any = None) -> None:
        """
        Args:
            folder: of the graph.
            run: from its inputs to its outputs, by name.
            about: the content of `EXPORT.json`; None = it is read.
        """
        self.about = about or json.loads((folder / "EXPORT.json").read_text("utf-8"))
        self.names: dict[str, list[str]] = json.loads((folder / "labels.json").read_text("utf-8"))
        self.reading, self.rules = self.about["reading"], self.about["answers"]
        self.lookup, self.run, self.is_step = Lookup(folder, self.reading), run, "memory" in self.about["inputs"]
        frames, columns = self.rules.get("frames"), self.rules.get("columns")
        self.sentences = None if frames is None else WholeSentences(frames, columns)

    def records(
        self, texts: Iterable[tuple[str, str]], *, longest: int | None = None, abstain: float | None = None
    ) -> Iterator[tuple[Record, Text, Scores]]:
        """Yield for each text what `parse` says of it, its words, and the graph's outputs, which are empty where it has
        no word or is not read.

        Raises:
            DataError: after the answers to the texts before it: a text is too long, and the model answers no text that
                it cannot read.
            UsageError: nothing can be left out.
        """
        if abstain is not None and not self.rules["abstains"]:
            raise UsageError(f"--abstain: a task of kind {self.about['task']} leaves no answers out")
        limit = self.reading["longest"] if longest is None else longest
        waiting: list[tuple[Text, str]] = []
        tokens = 0
        for where, text in texts:
            read, fault = self._read(where, text, limit)
            if fault and not self.rules["skips"]:  # as of `parse`, an error behind the answers before it
                yield from self._answered(waiting, abstain)
                raise DataError(f"{where}: {fault}")
            if fault:
                print(f"warning: {where}: {fault}: it is not read, and its analysis is empty", file=sys.stderr)
            waiting.append((read, fault))
            tokens += len(read.ids) + 1
            if tokens > AT_ONCE:
                yield from self._answered(waiting, abstain)
                waiting, tokens = [], 0
        yield from self._answered(waiting, abstain)

    def _read(self, where: str, text: str, limit: int) -> tuple[Text, str]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"{where}: not UTF-8") from None
        number = 0 if self.rules["skips"] or len(text) <= limit else len(text.split())  # a word is a token or more
        if number > limit:
            return Text(text, [], [], [], [], []), f"a sentence of at least {number:,} words, more than {limit:,}"
        read, positions = self.lookup.read(text), self.reading["positions"]
        tokens = len(read.ids) - len(self.reading["extra_words"])
        for number, units in ((len(read.words), "words"), (tokens if self.reading["divides"] else 0, "tokens")):
            if number > limit:
                return read, f"a sentence of {number:,} {units}, more than {limit:,}"
        if positions is not None and len(read.ids) > positions:
            return read, f"a sentence of {len(read.ids)} tokens, and the model has {positions} positions for them"
        return read, ""

    def _answered(
        self, texts: Sequence[tuple[Text, str]], abstain: float | None
    ) -> Iterator[tuple[Record, Text, Scores]]:
        # Of words none of which is read, as of punctuation where it is left out, there is nothing to say.
        read = [text for text, fault in texts if text.words and text.ids and not fault]
        outputs: dict[int, Scores] = {}
        for numbers in batches(read, TEXTS_OF_A_STEP if self.is_step else AT_ONCE):
            batch = [read[number] for number in numbers]
            values = self._bits(batch) if self.is_step else self.run(arrays(batch, self.about["inputs"], self.reading))
            for row, number in enumerate(numbers):
                outputs[number] = {name: array[row] for name, array in values.items()}
        answer = KINDS.get(self.rules["kind"])
        in_order = (outputs[number] for number in range(len(read)))
        for text, fault in texts:
            record: Record = {"text": text.text} if self.rules["with_text"] else {}
            record |= {"words": text.words} | ({"unread": fault} if fault else {})
            scores: Scores = {}
            if fault or not text.words:
                record |= self.rules["nothing"]
            elif text.ids:
                scores = {name: np.asarray(values, np.float64) for name, values in next(in_order).items()}
                tempered = {
                    name: values if name in ("arcs", "sentence", "bits") else values / self.rules["temperature"]
                    for name, values in scores.items()
                }
                prediction = {} if answer is None else answer(self, text, tempered)
                record |= rounded(prediction if abstain is None else abstained(prediction, abstain))
            yield record, text, scores

    # --- a language model, whose graph is a step from word to word

    def begin(self, texts: int) -> Scores:
        """Return what a step gives before any word of so many texts: scores of their first words, and no memory."""
        _, states, _, labels = self.about["inputs"]["memory"]
        memory = np.zeros((texts, states, 0, labels), np.float32)
        first = self.run({"word": np.zeros(texts, np.int64), "memory": memory})["first"]
        return {"scores": np.broadcast_to(first, (texts, len(first))), "next_memory": memory}

    def read_on(self, ids: Iterable[int], before: Scores) -> Scores:
        """Read one more word of each text; ``before`` is what the step before it gave."""
        return self.run({"word": np.array(ids, np.int64), "memory": before["next_memory"]})

    def _bits(self, texts: Sequence[Text]) -> Scores:
        ids, step, of_tokens = padded([text.ids for text in texts], self.reading["pad"]), self.begin(len(texts)), []
        for of_texts in ids.T:
            log_p = log_softmax(step["scores"].astype(np.float64) / self.rules["temperature"])
            log_word, p = np.take_along_axis(log_p, of_texts[:, None], -1), np.exp(log_p)
            entropy = -(p * np.where(p > 0.0, log_p, 0.0)).sum(-1)
            of_tokens.append(np.stack([-log_word[:, 0], entropy, (log_p > log_word).sum(-1) + 1.0], axis=-1))
            step = self.read_on(of_texts, step)
        return {"bits": np.stack(of_tokens, axis=1) / (np.log(2.0), np.log(2.0), 1.0)}

    def goes_on(self, text: str, sampling: Sampling, number: int) -> Iterator[str]:
        """Yield the words behind a text, as `generate` does for the prompt of this number.

        Raises:
            UsageError: the model predicts no words.
        """
        if not self.is_step or self.reading["divides"]:
            raise UsageError("--words: the model predicts no next words")
        step, random = self.begin(1), np.random.default_rng([sampling.seed, number])
        for start, end in token_spans(text):
            step = self.read_on(self.lookup.ids(text[start:end]), step)
        for _ in range(sampling.words):
            id = sampling.choose(log_softmax(step["scores"][0].astype(np.float64)), random)
            yield (word := self.names["scores"][id])
            if word == sampling.stop:
                return
            step = self.read_on([id], step)


def _surprisal(answers: Answers, text: Text, scores: Scores) -> Record:
    rules = answers.rules
    scored = [token for token, id in enumerate(text.ids) if id not in rules["unscored"]]
    allowed = set(scored if rules["score_first"] else scored[1:])
    rows: list[Sequence[Any]] = []
    for begin, end in zip(text.first, [*text.first[1:], len(text.ids)], strict=True):
        bits = scores["bits"][[token for token in range(begin, end) if token in allowed]]
        rows.append([*bits[:, :2].sum(0).tolist(), int(bits[:, 2].max())] if len(bits) else (None, None, None))
    return dict(zip(("surprisal", "entropy", "rank"), map(list, zip(*rows, strict=True)), strict=True))


def _tags(answers: Answers, text: Text, scores: Scores) -> Record:
    of_words, names = scores["scores"][: len(text.words)], answers.names["scores"]
    allowed = answers.rules.get("allowed")
    ids = of_words.argmax(-1) if allowed is None else best_valid(of_words, allowed)
    record = _chosen("tags", "tag_probability", of_words, ids, names)
    if answers.rules.get("entities"):
        entities = entity_records(record["tags"], record["tag_probability"])
        record["entities"] = [located_span(span, text.text, text.spans) for span in entities]
    return record


def _chosen(name: str, chance: str, scores: np.ndarray, ids: np.ndarray, names: Sequence[str]) -> Record:
    of_ids = np.take_along_axis(log_softmax(scores), ids[:, None], -1)[:, 0]
    return {name: [names[id] for id in ids], chance: np.exp(of_ids).tolist()}


def _parse(answers: Answers, text: Text, scores: Scores) -> Record:
    """What :class:`probtrans_cli.tasks.parsing.Parsing` predicts: the best tree, and the best relation of each arc."""
    n, relations, rules = len(text.words), answers.rules["relations"], answers.rules
    of_arcs = scores["scores"][:n, : len(relations)]
    of_arcs = np.concatenate([of_arcs[..., :n], of_arcs[..., -1:]], axis=-1)  # without padding, the root last
    # A head is as probable as all relations to it together.
    logs = np.maximum(log_softmax(np.logaddexp.reduce(of_arcs, axis=1)), np.log(SMALLEST_PROBABILITY))
    of_words = logs[:, :n]  # a view: no word is its own head
    of_words[np.eye(n, dtype=bool) | (len(relations) == 1)] = -np.inf  # a root alone has no other relation
    heads = decode(levelled(logs)[None], np.ones((1, n), dtype=bool), rules["decode"])[0]
    columns = np.where(heads > 0, heads - 1, n)[:, None]
    if rules["arc_temperature"] != 1.0:
        logs = log_softmax(logs / rules["arc_temperature"])
    at_heads = np.take_along_axis(of_arcs, columns[..., None], axis=2)[..., 0]
    of_relations = _chosen("relations", "relation_probability", at_heads, at_heads.argmax(-1), relations)
    record = {
        "heads": heads.tolist(),
        "relations": of_relations["relations"],
        "head_probability": np.exp(np.take_along_axis(logs, columns, axis=1))[:, 0].tolist(),
        "relation_probability": of_relations["relation_probability"],
    }
    for column, names in answers.names.items():
        record |= _chosen(column, f"{column}_probability", scores[column][:n], scores[column][:n].argmax(-1), names)
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
    """Return the labels of the rows of a sentence, up to the first row that lacks one of the two labels that every row
    has, and their logarithms of probabilities; a sentence of one word has no rows."""
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
    number, columns = len(text.words), answers.rules["columns"]
    ends = np.cumsum([len(names) for names in columns.values()])[:-1]
    of_columns = dict(zip(columns, np.split(scores["scores"][:number], ends, axis=-1), strict=True))
    best = {name: of_words.argmax(-1) for name, of_words in of_columns.items()}
    if "PREP" in columns.get("kind", ()):  # a known preposition, and nothing else, has its role
        kind, role = columns["kind"].index("PREP"), columns["role"].index("PREP")
        roles = of_columns["role"].copy()
        roles[:, role] = -np.inf
        best["role"] = np.where(best["kind"] == kind, role, roles.argmax(-1))
    labels = {name: ids.tolist() for name, ids in best.items()}
    if answers.sentences is not None and number > 1:
        kinds = [columns["kind"][id] for id in labels["kind"]]
        logs = {name: log_softmax(of_words) for name, of_words in of_columns.items()}
        labels |= answers.sentences.find(kinds, logs) or {}
    texts = {name: [names[id] for id in labels[name]] for name, names in columns.items()}
    parents = None
    if "parents" in scores:
        parents = (scores["parents"][:number, : number + 1].argmax(-1) - 1).tolist()
    return graph_record(graph_labels(texts, answers.rules["parent"], parents), text.words)


KINDS: Mapping[str, Callable[[Answers, Text, Scores], Record]] = {
    "tags": _tags,
    "parses": _parse,
    "class": _class,
    "words": _words,
    "surprisal": _surprisal,
    "tuples": _tuples,
    "coordinations": _coordinations,
    "graphs": _graphs,
}
"""What a task says of texts."""


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of the probabilities of the last axis."""
    exact = scores - scores.max(-1, keepdims=True)
    result: np.ndarray = exact - np.log(np.exp(exact).sum(-1, keepdims=True))
    return result


def best_valid(scores: np.ndarray, allowed: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Return the most probable tags of a sentence among the allowed sequences (Viterbi), or each word's best tag where
    none is allowed: what :func:`probtrans_cli.tasks.tagging.best_valid` finds.

        scores: ``[w, a]``.
        allowed: which tags may stand first ``[a]``, which behind another ``then [a, e]``, and which last ``[a]``.
    """
    first, then, last = (np.where(allowed[name], 0.0, -np.inf) for name in ("first", "then", "last"))
    lattice = scores - scores.max(-1, keepdims=True)
    total, steps = lattice[0] + first, []  # of the best sequence that ends in each tag; the tag before it, word by word
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
    """Write `_` for every tag or label that is less probable, and leave out entities that have such a tag."""
    if "label" in record:
        return record | ({"label": ABSTAINED} if record["label_probability"] < least else {})
    out = [chance < least for chance in record["tag_probability"]]
    tags = [ABSTAINED if left else tag for tag, left in zip(record["tags"], out, strict=True)]
    if "entities" not in record:
        return {**record, "tags": tags}
    entities = [span for span in record["entities"] if not any(out[slice(*span["words"])])]
    return {**record, "tags": tags, "entities": entities}


# --- the command ------------------------------------------------------------------------------------------------------

SAMPLING = {"words": int, "temperature": float, "top_k": int, "top_p": float, "seed": int, "stop": str}
OPTIONS = {"json": None, "file": str, "abstain": float, "longest": int, **SAMPLING}
"""Names of options, and what their values are."""


def main(folder: Path, run: Callable[[dict[str, np.ndarray]], Scores], arguments: Sequence[str]) -> int:
    """Print the answers to the texts that are arguments, or to the lines of a file; return the exit code.

    Options stand before the texts: `--json` prints the records of `parse -f jsonl`, `--file FILE` reads a text a line,
    `--abstain P` leaves out answers that are less probable, `--longest N` allows N words in a text. With `--words N` or
    another option of `generate`, a language model goes on with each text.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        texts, options = _parsed(list(arguments))
        answers = Answers(folder, run)
        texts = texts or [("text 1", answers.rules["shown"])]
        limits = {name: options[name] for name in ("longest", "abstain") if name in options}
        if how := {name: options[name] for name in SAMPLING if name in options}:
            sampling = Sampling(**how)
            for number, (_, prompt) in enumerate(texts):
                words = [prompt[start:end] for start, end in token_spans(prompt)]
                print(*words, *answers.goes_on(prompt, sampling, number))
            return 0
        for record, text, scores in answers.records(texts, **limits):
            lines = [json_line(record)] if "json" in options else [*in_lines(answers, record, text, scores)]
            sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except ProbtransError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read has enough
        sys.stdout = None  # Python would flush it once more
        return 0
    return 0


def _parsed(arguments: list[str]) -> tuple[Iterable[tuple[str, str]], dict[str, Any]]:
    options: dict[str, Any] = {}
    spelled = {f"--{name.replace('_', '-')}": name for name in OPTIONS}
    while arguments and arguments[0] in spelled:
        option = arguments.pop(0)
        kind: Any = OPTIONS[name := spelled[option]]
        value = "yes" if kind is None else arguments.pop(0) if arguments else None
        if value is None:
            raise UsageError(f"{option} needs a value")
        try:
            options[name] = value if kind is None else kind(value)
        except ValueError:
            raise UsageError(f"{option}: {value!r} is no number") from None
    named = [(f"text {number}", text) for number, text in enumerate(arguments, start=1)]
    return (chain(_lines_of(options["file"]), named) if "file" in options else named), options


def _lines_of(name: str) -> Iterator[tuple[str, str]]:
    try:
        content = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{name}:{line}: not UTF-8") from None
    for number, line in enumerate(content.removesuffix("\n").split("\n") if content else [], start=1):
        yield f"{name}:{number}", line.removesuffix("\r")


def in_lines(answers: Answers, record: Record, text: Text, scores: Scores) -> Iterator[str]:
    """Yield the lines of a record for people."""
    words, kind = record["words"], answers.rules["kind"]
    extra = answers.reading["extra_words"]
    if not scores:
        return
    if kind in ("tags", "parses", "surprisal"):
        shown = (kind,) if kind != "parses" else (*answers.names, "heads", "relations")
        numbers = [range(1, len(words) + 1)] if kind == "parses" else []
        columns: list[Sequence[Any]] = [*numbers, words, *(record[name] for name in shown)]
        yield from ("\t".join("" if it is None else str(it) for it in row) for row in zip(*columns, strict=True))
    elif kind == "class":
        yield " ".join([record["label"], *words])
    elif kind == "words":
        yield from (" ".join([*words, *mask["words"]]) for mask in record["masks"])
    elif kind in ("tuples", "coordinations"):
        names = answers.names["scores"]
        for labels in _rows(answers, text, scores)[0]:
            yield " ".join(f"{word}/{names[id]}" for word, id in zip([*words, *extra], labels, strict=True))
    elif kind == "graphs":
        for word, *labels in zip(words, *record["labels"].values(), strict=True):
            yield "\t".join([word, *map(str, labels)])
        yield from filter(None, [record["logical_form"]])
    else:
        yield " ".join([*words, str({name: values.shape for name, values in scores.items()})])
    if "arcs" in scores and answers.about["arcs"]["by_word"]:  # the most probable head of each word, by itself
        channel, names = answers.about["arcs"]["channel"], [*words, *extra, "ROOT"]
        arcs = scores["arcs"].mean(0) if channel == "mean" else scores["arcs"][channel]
        for word, heads in zip([*words, *extra], arcs, strict=False):
            if heads.any():  # a word that is alone has no head but the root
                yield f"{word} <- {names[min(heads.argmax(), len(names) - 1)]} {heads.max():.2f}"
