"""Sentencepiece's units (Kudo and Richardson 2018) as the vocabulary: a unigram model of pieces, or byte-pair merges.

They are trained within the words of the training file. Sentencepiece's own normalisation is off: only the options of
the recipe change a word.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from probtrans_cli.data.tokens import valid
from probtrans_cli.data.vocabularies.base import (
    MASK,
    PAD,
    SPECIALS,
    UNKNOWN,
    Saved,
    SavedOptions,
    normalise,
    ordered,
    reading,
    write_saved,
)
from probtrans_cli.data.vocabularies.pieces import Pieces
from probtrans_cli.errors import DataError, RecipeError
from probtrans_cli.folders import regular
from probtrans_cli.recipe.data import SubwordVocabulary

SUBWORDS_FILE = "spm.model"
_LINE_WORDS = 500  # sentencepiece skips lines longer than max_sentence_length bytes; ours are cut before
_LINE_BYTES = 1_000_000
_TOO_LARGE = re.compile(r"value <= (\d+)")
_TOO_SMALL = re.compile(r"required_chars\. \d+ vs (\d+)")


class Subwords(Pieces):
    """Sentencepiece units. Every word is segmented by itself, and its first piece represents it."""

    def __init__(self, model: bytes, counts: Mapping[str, int], *, lowercase: bool) -> None:
        """``model`` is a serialised sentencepiece model with the specials as ids 0, 1, 2; ``counts`` of whole words."""
        import sentencepiece  # noqa: PLC0415  (a word vocabulary does without)

        super().__init__(counts, lowercase=lowercase)
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @property
    def size(self) -> int:
        """Number of ids, specials included."""
        return int(self._processor.get_piece_size())

    def decode(self, id: int) -> str:
        """Return the piece of an id (0 <= id < size); `▁` marks the beginning of a word."""
        return str(self._processor.id_to_piece(id))

    def save(self, folder: Path) -> None:
        """Write ``spm.model`` and ``vocabulary.json`` (the counts of whole words)."""
        (folder / SUBWORDS_FILE).write_bytes(self.model)
        options = {"lowercase": self.lowercase}
        write_saved(folder, Saved("sentencepiece", options, list(self.counts), list(self.counts.values())))

    def _divide(self, word: str) -> list[int]:
        ids: list[int] = self._processor.encode(valid(word))  # of a lone `▁` there is none
        return ids

    def _lengths(self, word: str) -> Iterator[int]:
        # Versions of the package differ in how they count offsets. But the pieces of a word without a blank spell the
        # word behind one `▁`; only characters at its end that are `▁` themselves are dropped.
        for number, piece in enumerate(self._processor.encode(valid(word), out_type=str)):
            yield len(piece) - (number == 0)


class _Options(SavedOptions):
    """What ``save`` keeps beside the words."""

    lowercase: bool


def build_subwords(section: SubwordVocabulary, sentences: Iterable[Sequence[str]]) -> Subwords:
    """Train sentencepiece on the training sentences (read once).

    Raises:
        DataError: there is no word.
        RecipeError: there cannot be as many, or as few, pieces as ``section.size`` of this corpus.
    """
    import sentencepiece  # noqa: PLC0415  (a word vocabulary does without)

    counts: Counter[str] = Counter()
    faults: list[BaseException] = []  # of the sentences: sentencepiece makes an error of its own of each

    def lines() -> Iterator[str]:
        try:
            yield from cut()
        except (Exception, KeyboardInterrupt) as error:
            faults.append(error)
            raise

    def cut() -> Iterator[str]:
        for sentence in sentences:
            words = [normalise(word, lowercase=section.lowercase) for word in sentence]
            words = [word for word in words if word not in SPECIALS]
            counts.update(words)
            for start in range(0, len(words), _LINE_WORDS):
                yield " ".join(words[start : start + _LINE_WORDS])

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines(),
            model_writer=model,
            vocab_size=section.size,
            model_type=section.algorithm,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=-1,
            eos_id=-1,
            pad_piece=SPECIALS[PAD],
            unk_piece=SPECIALS[UNKNOWN],
            control_symbols=[SPECIALS[MASK]],  # gets the next free id, 2, and is never found in text
            max_sentence_length=_LINE_BYTES,
            shuffle_input_sentence=False,
            num_threads=1,  # the sums of several threads differ in the last bits, and with them the pieces
            minloglevel=2,
        )
    except Exception as error:
        if faults:
            raise faults[0] from None
        if not isinstance(error, RuntimeError):
            raise
        if not counts:
            raise DataError("no word to train sentencepiece on", hint="give a larger training file") from None
        raise _size_error(section, str(error)) from None
    return Subwords(model.getvalue(), dict(ordered(counts)), lowercase=section.lowercase)


def _size_error(section: SubwordVocabulary, message: str) -> RecipeError:
    if largest := _TOO_LARGE.search(message):
        hint = f"set data.vocabulary.size={largest[1]} or less, or use kind: words"
        return RecipeError(f"data.vocabulary.size: {section.size} pieces are too many for this corpus", hint=hint)
    if smallest := _TOO_SMALL.search(message):
        hint = f"set data.vocabulary.size={smallest[1]} or more"
        return RecipeError(f"data.vocabulary.size: {section.size} pieces are fewer than the characters", hint=hint)
    return RecipeError(f"sentencepiece cannot be trained: {message}", hint="try another data.vocabulary.size")


def load_subwords(folder: Path, saved: Saved) -> Subwords:
    """The pieces that ``save`` wrote.

    Raises:
        DataError: ``spm.model`` is missing or damaged.
    """
    path = folder / SUBWORDS_FILE
    with reading(path):
        content = regular.read_bytes(path)
        if not content:  # for sentencepiece a model that is given later
            raise ValueError("no bytes")
        found = Subwords(content, saved.count_of, lowercase=saved.options_of(_Options).lowercase)
        if [found.decode(id) for id in range(found.size)][: len(SPECIALS)] != list(SPECIALS):  # each must be UTF-8
            raise ValueError(f"the first pieces are not {', '.join(SPECIALS)}")
        found._divide("a")
        return found
