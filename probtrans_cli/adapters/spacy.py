"""A component of a spaCy pipeline: heads, tags, entities and classes of a document from a trained model.

Needs the package `spacy` (extra `spacy`), which finds the component by the entry point `spacy_factories`:

    nlp = spacy.blank("en")
    nlp.add_pipe("probtrans", config={"checkpoint": "runs/mine"})

What the model says of a document goes where spaCy keeps such things:

token.head, token.dep_      the tree: `ROOT`, and `dep` for all others, as induced arcs have no names
token._.arc_probability     probability of the arc to its head
token.tag_, pos_, morph     of a tagger: xpos and other columns, upos, feats; of `deprel` dep_; a UPOS that is none of
                            UD's is a tag_
doc.ents, doc.cats          entities; the class, of its last sentence
doc._.probtrans             for every sentence its record, as in a line of `parse -f jsonl`

Sentences and tokens are those of the pipeline; a document without sentences is one sentence. White space is no word of
the model, and depends on the word before it.

What a pipeline has set before stays as it is: predicted entities that overlap with those of a ruler or with blocked
tokens are left out, and so are tags of tokens that have some; `overwrite` replaces them. `nlp.to_disk` stores the model
as an exported folder, without which `spacy.load` needs the checkpoint.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import srsly
import torch
from spacy.attrs import DEP, HEAD  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.parts_of_speech import IDS as POS  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span, Token
from spacy.util import raise_error

from probtrans_cli import checkpoint as checkpoints
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.errors import CheckpointError, ProbtransError
from probtrans_cli.trained.base import texts_of, weights_of
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Analysis

NAME = "probtrans"
ARC, RECORDS = "arc_probability", "probtrans"


class Component:
    """The component, which a pipeline calls."""

    def __init__(
        self,
        name: str,
        checkpoint: str | None,
        *,
        trees: bool = True,
        threads: int | None = None,
        overwrite: bool = False,
        longest: int = LONGEST,
        load: bool = True,
    ) -> None:
        """
        Args:
            name: in the pipeline.
            checkpoint: a run folder, ``RUN@last``, an exported folder.
            trees: whether heads are set.
            threads: of torch; None = as many as there are cores.
            overwrite: whether entities and tags set before are replaced.
            longest: words or tokens that a sentence may have.
            load: False if :meth:`from_disk` follows.

        Raises:
            ValueError: there is no such model.
        """
        self.name, self.trees, self.threads, self.overwrite = name, trees, threads, overwrite
        self.longest = longest
        self._model: Model | None = None
        self._handle: Callable[..., Any] = raise_error
        self._process = os.getpid()
        for kind, extension in ((Token, ARC), (Doc, RECORDS)):
            if not kind.has_extension(extension):
                kind.set_extension(extension, default=None)
        self._checkpoint = checkpoint
        if load:
            self._load(checkpoint)

    def _load(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            raise ValueError(f"{self.name}: name a model: config={{'checkpoint': 'runs/mine'}}")
        try:
            self._model = Model.load(checkpoint, threads=self.threads)
        except ProbtransError as error:  # pipelines know ValueErrors
            raise ValueError(f"{error.message}; {error.hint}") from None

    @property
    def model(self) -> Model:
        """The model.

        Raises:
            AttributeError: there is none yet; spaCy asks by `hasattr`.
        """
        if self._model is None:
            raise AttributeError(f"{self.name}: has no model yet: load the pipeline with spacy.load, or from_disk")
        return self._model

    def __call__(self, doc: Doc) -> Doc:
        self._annotate_all([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """Yield documents, annotated in the same order, reading ``batch_size`` of them at a time.

        A document that cannot be read goes to the pipeline's error handler, and the stream goes on without it.
        """
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            try:
                self._annotate_all(batch)
            except Exception:  # in one of the documents: read each by itself
                for doc in batch:
                    try:
                        self._annotate_all([doc])
                    except Exception as error:
                        self._handle(self.name, self, [doc], error)
                    else:
                        yield doc
            else:
                yield from batch

    def set_error_handler(self, error_handler: Callable[..., Any]) -> None:
        self._handle = error_handler

    def get_error_handler(self) -> Callable[..., Any]:
        return self._handle

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Store the model as a folder that `parse` and `eval` accept, too."""
        del exclude
        model = self.model
        scores: dict[str, Any] = {}
        if model.folder is not None and model.folder.is_dir():
            scores = checkpoints.verify(model.folder).json("eval.json", dict[str, Any])
        tensors = {"model.safetensors": weights_of(model.network)}
        try:
            checkpoints.write(Path(path).absolute(), texts_of(model, scores), tensors)
        except CheckpointError as error:
            raise ValueError(f"{error.message}; {error.hint}") from None

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Component:
        """Load the model that :meth:`to_disk` has stored.

        Raises:
            ValueError: it is damaged, or missing and the checkpoint is, too.
        """
        del exclude
        if Path(path).exists():
            self._load(str(path))
        elif self._model is None:
            self._load(self._checkpoint)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the files of :meth:`to_disk`."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(Path(folder) / "model", exclude=exclude)
            files = {path.name: path.read_bytes() for path in sorted((Path(folder) / "model").iterdir())}
        packed: bytes = srsly.msgpack_dumps(files)
        return packed

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Component:
        """Load the model from what :meth:`to_bytes` has returned."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in srsly.msgpack_loads(data).items():
                if Path(name).name != name:
                    raise ValueError(f"{self.name}: a stored file is called {name!r}: this is no stored model")
                (Path(folder) / name).write_bytes(content)
            self.from_disk(folder, exclude=exclude)
        return self

    def __reduce__(self) -> tuple[Callable[..., Component], tuple[Any, ...]]:
        options = {name: getattr(self, name) for name in ("trees", "threads", "overwrite", "longest")}
        return _restored, (self.name, options, self.to_bytes())

    def _annotate_all(self, batch: Sequence[Doc]) -> None:
        model = self.model
        # A forked process would wait for the threads of OpenMP, which it does not have.
        if self._process != os.getpid():
            torch.set_num_threads(1)
        predicted = model.task.answers.trees
        trees = self.trees and (predicted or model.recipe.model.facts.has_arcs)
        # Only a tree can be a document's: argmax may draw circles.
        decoder: Any = "mst" if model.reading.decoder == "argmax" and not predicted else None
        read: list[list[list[Token]]] = []
        for doc in batch:
            whole = [list(doc)] if len(doc) else []
            read.append([list(sentence) for sentence in doc.sents] if doc.has_annotation("SENT_START") else whole)
        texts = [[token.text for token in _words(tokens)] for tokens in chain.from_iterable(read)]
        try:
            analyses = iter(list(model.analyze(texts, trees=trees, decoder=decoder, longest=self.longest)))
        except ProbtransError as error:
            raise ValueError(f"{error.message}; {error.hint}" if error.hint else error.message) from None
        for doc, sentences in zip(batch, read, strict=True):
            answers = list(islice(analyses, len(sentences)))
            doc._.set(RECORDS, [analysis.record() for analysis in answers])
            if trees:
                _set_heads(doc, sentences, answers)
            entities: list[Span] = []
            for tokens, analysis in zip(sentences, answers, strict=True):
                if analysis.prediction is None:
                    continue
                words = _words(tokens)
                for entity in analysis.prediction.get("entities", ()):
                    first, last = entity["words"]
                    entities.append(Span(doc, words[first].i, words[last - 1].i + 1, label=entity["type"]))
                if "label" in analysis.prediction:
                    doc.cats[analysis.prediction["label"]] = analysis.prediction["label_probability"]
                self._set_tags(words, analysis)
            if self.model.task.answers.kind == "tags" and any("entities" in (it.prediction or {}) for it in answers):
                _set_entities(doc, entities, overwrite=self.overwrite)

    def _set_tags(self, words: Sequence[Token], analysis: Analysis) -> None:
        assert analysis.prediction is not None, "there is one"
        kind, prediction = self.model.task.answers.kind, analysis.prediction
        if kind == "tags" and "entities" not in prediction:
            columns = {str(self.model.recipe.task.facts.chosen_column): prediction["tags"]}
        elif kind == "parses":
            columns = {column: prediction[column] for column in ("upos", "xpos", "feats") if column in prediction}
        else:
            return
        for column, tags in columns.items():
            name = {"upos": "pos", "deprel": "dep", "feats": "morph"}.get(column, "tag")
            if name == "pos" and not POS.keys() >= {*self.model.labels["upos"]}:  # spaCy knows UD's alone
                name = "tag"
            for token, tag in zip(words, tags, strict=True):
                is_set = token.has_morph() if name == "morph" else getattr(token, name) != 0
                if is_set and name != "dep" and not self.overwrite:
                    continue
                if name == "morph":
                    token.set_morph(None if tag == "_" else tag)  # type: ignore[attr-defined]
                else:
                    setattr(token, f"{name}_", tag)


def _restored(name: str, options: dict[str, Any], data: bytes) -> Component:
    return Component(name, None, **options, load=False).from_bytes(data)


def _set_entities(doc: Doc, entities: Sequence[Span], *, overwrite: bool) -> None:
    """Set predicted entities; leave out those that overlap with entities set before, or replace these."""
    if overwrite:
        for token in doc:
            token.ent_id_ = token.ent_kb_id_ = ""
        doc.set_ents(list(entities), default="outside")
        return
    # An entity, or a blocked token, which begins an entity without a type.
    is_set = [token.ent_type != 0 or token.ent_iob_ == "B" for token in doc]
    free = [entity for entity in entities if not any(is_set[entity.start : entity.end])]
    predicted = {i for entity in free for i in range(entity.start, entity.end)}
    missing = [token.i for token in doc if token.ent_iob_ == "" and token.i not in predicted]
    runs = (list(run) for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]))
    outside = [Span(doc, run[0][1], run[-1][1] + 1) for run in runs]
    doc.set_ents(free, outside=outside, default="unmodified")


def _words(tokens: Sequence[Token]) -> list[Token]:
    return [token for token in tokens if not token.is_space]


def _set_heads(doc: Doc, sentences: Sequence[list[Token]], analyses: Sequence[Analysis]) -> None:
    """Set heads as distances, and what each word is to its head. Where several words have no head, the first is the
    root of the others; white space depends on the word before it, or on the first word."""
    heads = np.zeros(len(doc), np.int64)
    root, dependent = doc.vocab.strings.add("ROOT"), doc.vocab.strings.add("dep")
    names = np.full(len(doc), dependent, np.uint64)
    for tokens, analysis in zip(sentences, analyses, strict=True):
        assert analysis.heads is not None, "trees are wanted"
        assert analysis.probabilities is not None, "trees are wanted"
        words, of_words = _words(tokens), analysis.heads.tolist()
        top = words[of_words.index(0)] if words else tokens[0]
        names[top.i] = root
        for token, relation in zip(words, (analysis.prediction or {}).get("relations", ()), strict=False):
            names[token.i] = doc.vocab.strings.add(relation) if token.i != top.i else root
        for token, head, probability in zip(words, of_words, analysis.probabilities.tolist(), strict=True):
            heads[token.i] = (words[head - 1] if head else top).i - token.i
            token._.set(ARC, None if np.isnan(probability) else probability)
        before = words[0] if words else top
        for token in tokens:
            before = before if token.is_space else token
            if token.is_space:
                heads[token.i] = before.i - token.i
    columns: Any = np.stack([heads.astype(np.uint64), names], axis=1)
    doc.from_array([HEAD, DEP], columns)


@Language.factory(
    NAME,
    default_config={"checkpoint": None, "trees": True, "threads": None, "overwrite": False, "longest": LONGEST},
    assigns=[
        *("token.head", "token.dep", "token.tag", "token.pos", "token.morph"),
        *("doc.ents", "doc.cats", f"token._.{ARC}"),
    ],
)
def make(
    nlp: Language, name: str, checkpoint: str | None, trees: bool, threads: int | None, overwrite: bool, longest: int
) -> Component:
    """Make the component of a pipeline.

    Raises:
        ValueError: no checkpoint is named, or there is no such model.
    """
    # A pipeline that is being loaded knows its components' names before it has them; it brings the model itself.
    stored = name in getattr(nlp, "_meta", {}).get("components", ()) and name not in nlp.component_names
    options: dict[str, Any] = {"trees": trees, "threads": threads, "overwrite": overwrite, "longest": longest}
    return Component(name, checkpoint, **options, load=not stored)
