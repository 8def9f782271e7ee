"""A step of a datatrove pipeline: documents go in, and come out with what a model says of their sentences.

Needs the package `datatrove` (extra `datatrove`). Any executor can run it: datatrove starts the processes and keeps the
account of what is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from probtrans_cli.trained.model import ANALYSED_AT_ONCE, Model


class Analyses(PipelineStep):  # type: ignore[misc]
    """Puts a list into the metadata of every document, an entry for every line of its text: what `parse -f jsonl`
    writes of it."""

    name = "probtrans"
    type = "ANALYSES"

    def __init__(self, checkpoint: str, key: str = "analyses", **options: Any) -> None:
        """
        Args:
            checkpoint: a CKPT argument (a run folder, ...); each process loads the model, for one thread.
            key: of the metadata.
            options: those of :meth:`probtrans_cli.trained.model.Model.analyze`.
        """
        super().__init__()
        self.checkpoint, self.key, self.options = checkpoint, key, options

    def run(self, data: Iterable[Document] | None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents, in order."""
        del rank, world_size  # the reader has divided the documents
        model = Model.load(self.checkpoint, threads=1)
        portion: list[Document] = []
        count = 0
        for document in data or ():
            portion.append(document)
            count += document.text.count("\n") + 1
            if count >= ANALYSED_AT_ONCE:  # enough sentences together to be parsed fast
                yield from self._analysed(model, portion)
                portion, count = [], 0
        if portion:
            yield from self._analysed(model, portion)

    def _analysed(self, model: Model, portion: list[Document]) -> list[Document]:
        with self.track_time("portion"):
            lines = [document.text.splitlines() for document in portion]
            analyses = model.analyze((line for of_document in lines for line in of_document), **self.options)
            for document, of_document in zip(portion, lines, strict=True):
                document.metadata[self.key] = [next(analyses).record() for _ in of_document]
                self.stat_update("sentences", value=len(of_document))
        return portion
