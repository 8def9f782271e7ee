"""A component of a spaCy pipeline: heads, tags, entities and classes of a document from a trained model.

Needs the package `spacy` (extra `spacy`), which finds the component by the entry point `spacy_factories`:

    nlp = spacy.blank("en")
    nlp.add_pipe("probtrans", config={"checkpoint": "runs/mine"})

What the model says of a document goes where spaCy keeps such things:

token.head, token.dep_      the tree: `ROOT`, and `dep` for all others, as induced arcs have no names
token._.arc_probability     probability of the arc to its head
token.tag_, pos_, morph     of a tagger: xpos and other columns, upos, feats; of `deprel` dep_
doc.ents, doc.cats          entities; the class, of its last sentence
doc._.probtrans             of every sentence all that the model says, as a line of `parse -f jsonl`

Sentences are those that the pipeline has found before; without any, the document is one. Tokens are those of the
pipeline: white space is no word of the model, and hangs at the word before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from spacy.attrs import DEP, HEAD  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from probtrans_cli.errors import ProbtransError
from probtrans_cli.trained.model import Model
from probtrans_cli.trained.parses import Analysis

NAME = "probtrans"
ARC, RECORDS = "arc_probability", "probtrans"


class Component:
    """What a pipeline calls."""

    def __init__(self, checkpoint: str, *, trees: bool = True, threads: int | None = None) -> None:
        """``checkpoint``: a run folder, ``RUN@last``, an exported folder. ``trees``: whether heads are set.

        Raises:
            ValueError: there is no such model.
        """
        try:
            self.model = Model.load(checkpoint, threads=threads)
        except ProbtransError as error:  # pipelines know ValueErrors
            raise ValueError(f"{error.message}; {error.hint}") from None
        section = self.model.recipe.model
        self.trees = trees and section.has_arcs
        # Only a tree can be a document's: argmax may draw circles.
        self.decoder: Any = "mst" if self.model.reading.decoder == "argmax" else None
        for kind, name in ((Token, ARC), (Doc, RECORDS)):
            if not kind.has_extension(name):
                kind.set_extension(name, default=None)

    def __call__(self, doc: Doc) -> Doc:
        """The document, annotated."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """Documents, annotated in the same order; so many at a time."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            read = [list(_sentences(doc)) for doc in batch]
            texts = [[token.text for token in _words(tokens)] for tokens in chain.from_iterable(read)]
            found = self.model.analyze(texts, trees=self.trees, decoder=self.decoder)
            for doc, sentences in zip(batch, read, strict=True):
                self._annotate(doc, sentences, list(islice(found, len(sentences))))
                yield doc

    def _annotate(self, doc: Doc, sentences: Sequence[list[Token]], found: Sequence[Analysis]) -> None:
        doc._.set(RECORDS, [one.record() for one in found])
        if self.trees:
            _set_heads(doc, sentences, found)
        entities: list[Span] = []
        for tokens, one in zip(sentences, found, strict=True):
            if one.prediction is None:
                continue
            words = _words(tokens)
            for entity in one.prediction.get("entities", ()):
                first, last = entity["words"]
                entities.append(Span(doc, words[first].i, words[last - 1].i + 1, label=entity["type"]))
            if "label" in one.prediction:
                doc.cats[one.prediction["label"]] = one.prediction["label_probability"]
            self._set_tags(words, one)
        if entities:
            doc.set_ents(entities, default="unmodified")

    def _set_tags(self, words: Sequence[Token], one: Analysis) -> None:
        assert one.prediction is not None, "there is one"
        if self.model.task.answers != "tags" or "entities" in one.prediction:
            return
        column = self.model.recipe.task.chosen_column
        name = {"upos": "pos_", "deprel": "dep_"}.get(str(column), "tag_")
        for token, tag in zip(words, one.prediction["tags"], strict=True):
            if column == "feats":
                token.set_morph(None if tag == "_" else tag)  # type: ignore[attr-defined]
            else:
                setattr(token, name, tag)


def _sentences(doc: Doc) -> Iterator[list[Token]]:
    """The tokens of each sentence; of all as one where nobody has found sentences."""
    if doc.has_annotation("SENT_START"):
        yield from (list(sentence) for sentence in doc.sents)
    elif len(doc):
        yield list(doc)


def _words(tokens: Sequence[Token]) -> list[Token]:
    return [token for token in tokens if not token.is_space]


def _set_heads(doc: Doc, sentences: Sequence[list[Token]], found: Sequence[Analysis]) -> None:
    """Heads as distances, and what each word is to its head. Where several words are nobody's, the first is the root of
    the others; white space hangs at the word before it, or at the first one."""
    heads = np.zeros(len(doc), np.int64)
    root, other = doc.vocab.strings.add("ROOT"), doc.vocab.strings.add("dep")
    names = np.full(len(doc), other, np.uint64)
    for tokens, one in zip(sentences, found, strict=True):
        assert one.heads is not None, "trees are asked for"
        assert one.probabilities is not None, "trees are asked for"
        words, of_words = _words(tokens), one.heads.tolist()
        top = words[of_words.index(0)] if words else tokens[0]
        names[top.i] = root
        for token, head, probability in zip(words, of_words, one.probabilities.tolist(), strict=True):
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
    default_config={"checkpoint": None, "trees": True, "threads": None},
    assigns=["token.head", "token.dep", "token.tag", "token.pos", "doc.ents", "doc.cats", f"token._.{ARC}"],
)
def make(nlp: Language, name: str, checkpoint: str | None, trees: bool, threads: int | None) -> Component:
    """The component of a pipeline.

    Raises:
        ValueError: no checkpoint is named, or there is no such model.
    """
    del nlp
    if checkpoint is None:
        raise ValueError(f"{name}: name a model: config={{'checkpoint': 'runs/mine'}}")
    return Component(checkpoint, trees=trees, threads=threads)
