"""WordPiece, BERT's vocabulary (Devlin et al. 2019), through the package `tokenizers` (extra `hf`).

Text is cleaned: blanks are put around Chinese characters, capitals and accents are removed if the options say so, and
punctuation is separated. Then a word is divided from the left into the longest pieces that the vocabulary has; every
piece but the first begins with `##`. A word that cannot be divided so, or has more than 100 characters, is unknown as a
whole. A sentence is `[CLS]`, its pieces, `[SEP]`.

    vocab.txt                one piece a line, the id is the number of the line from 0
    tokenizer_config.json    options and the names of the special pieces
    tokenizer.json           pieces and options as `tokenizers` writes them; it is enough by itself

Tokens that were added to a tokenizer (:mod:`added_tokens`) are looked for before, in the words of a sentence as in
running text. The names of the five special pieces are found in running text alone: a word `[MASK]` of a corpus is no
instruction.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probtrans_cli.data.tokens import valid
from probtrans_cli.data.vocabularies.added_tokens import FLAGS, AddedToken, declared_tokens, placed
from probtrans_cli.data.vocabularies.base import (
    EnclosingVocabulary,
    EncodedText,
    EncodedWords,
    Saved,
    SavedOptions,
    no_extra_word,
    one_after_the_other,
    write_saved,
)
from probtrans_cli.data.vocabularies.features import HashedFeatures
from probtrans_cli.data.vocabularies.wordpiece_files import (
    KEYS,
    LONGEST_WORD,
    OLD_SPECIALS_FILE,
    OPTIONS_FILE,
    PIECES_FILE,
    READ_FILES,
    TOKENIZER_FILE,
    Options,
    division,
    of_tokenizer,
    overlaid,
    read_json,
    read_pieces,
)
from probtrans_cli.errors import DataError, UsageError
from probtrans_cli.recipe.base import PositiveInt
from probtrans_cli.recipe.data import WordFeatures

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CACHE_SIZE = 200_000  # words whose pieces are remembered


class WordPieces(EnclosingVocabulary):
    """A WordPiece vocabulary. Ids are those of its file; the special ones are found by their names."""

    def __init__(
        self,
        pieces: Sequence[str],
        options: Options | None = None,
        *,
        rows: int | None = None,
        counts: Mapping[str, int] | None = None,
        features: WordFeatures | None = None,
    ) -> None:
        """``pieces[id]``; an empty piece has an id, but no text has it.

        Args:
            pieces: the vocabulary.
            options: how text is divided; None = BERT's, in lower case.
            rows: number of ids of a model whose table is longer than the vocabulary; None = as many as pieces.
            counts: of the training file's words.
            features: of the spelling of words.

        Raises:
            DataError: a piece stands there twice, a special one is missing, or `transformers` would give an added token
                another id.
            UsageError: the package `tokenizers` is not installed.
        """
        self.pieces = list(pieces)
        self.options = options or Options()
        self.counts = dict(counts or {})
        self.features = None if features is None else HashedFeatures(features)
        self._size = max(rows or 0, len(self.pieces))
        self._ids = {piece: id for id, piece in enumerate(self.pieces) if piece}
        if len(self._ids) + self.pieces.count("") < len(self.pieces):
            piece, _ = Counter(filter(None, self.pieces)).most_common(1)[0]
            raise DataError(f"the piece {piece!r} has two ids", hint="every piece of a vocabulary stands there once")
        for name in (*self.options.specials, *(token.content for token in self.options.added)):
            if name not in self._ids:
                hint = f"name the special pieces in {OPTIONS_FILE}, or add a line to {PIECES_FILE}"
                raise DataError(f"the special piece {name} is not in the vocabulary", hint=hint)
        self.PAD, self.UNKNOWN, self.FIRST, self.LAST, self.MASK = (self._ids[name] for name in self.options.specials)
        self.specials: tuple[int, ...] = (self.PAD, self.UNKNOWN, self.FIRST, self.LAST, self.MASK)
        specials = {name: AddedToken(name) for name in self.options.specials}
        every = {**specials, **{token.content: token for token in self.options.added}}
        self._text = _tokenizer(self._ids, self.options, every.values())
        self._words = _tokenizer(self._ids, self.options, self.options.further)  # a corpus's `[MASK]` is three pieces
        self._cache: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        """Number of ids."""
        return self._size

    def encode_text(self, text: str, second: str | None = None) -> EncodedText:
        """Return the ids of `[CLS]` text `[SEP]`, or of `[CLS]` text `[SEP]` second `[SEP]`.

        Where a text has the name of a special piece or an added token, it is that one.
        """
        found = self._text.encode(valid(text), None if second is None else valid(second))
        return EncodedText(found.ids, found.offsets, found.type_ids)

    def encode_part(self, words: Sequence[str]) -> EncodedWords:
        """Return the ids of words within a longer text, without `[CLS]` and `[SEP]`; every word has at least one."""
        return one_after_the_other(map(self._segment, words))

    def encode_words(self, words: Sequence[str], extra: int = 0) -> EncodedWords:
        """Return the ids of a sentence, `[CLS]` and `[SEP]` around it, and the position of each word's first piece."""
        of_words = [self._segment(word) for word in words[: len(words) - extra]]
        of_words += [[id] for id in self._extra(words[len(words) - extra :])]
        return one_after_the_other(of_words).between(self.FIRST, self.LAST)

    def decode(self, id: int) -> str:
        """Return the piece of an id (0 <= id < size); empty where the model's table is longer than the vocabulary."""
        return self.pieces[id] if id < len(self.pieces) else ""

    def frequency(self, word: str) -> int:
        """Return how often the whole word occurs in the training file; 0 if it was not seen."""
        return self.counts.get(self.normalise(word), 0)

    def normalise(self, word: str) -> str:
        """The word as it is counted: in lower case where the vocabulary knows no other."""
        return word.lower() if self.options.lowercase else word

    def files(self, longest: int | None = None) -> dict[str, str]:
        """The content of ``vocab.txt``, ``tokenizer_config.json`` and ``tokenizer.json``.

        ``longest``: the number of ids of the longest sentence that the model reads.
        """
        content: dict[str, Any] = {"tokenizer_class": "BertTokenizer"}
        content |= {key: getattr(self.options, name) for key, name in KEYS.items()}
        if self.options.added:
            tokens = self._text.get_added_tokens_decoder()
            names = ("content", *FLAGS)
            content["added_tokens_decoder"] = {
                id: {name: getattr(it, name) for name in names} for id, it in tokens.items()
            }
            content["additional_special_tokens"] = [token.content for token in self.options.further if token.special]
        unlisted = {token.content for token in self.options.added if not token.listed}
        if longest is not None:
            content["model_max_length"] = longest
        return {
            PIECES_FILE: "".join(f"{piece}\n" for piece in self.pieces if piece not in unlisted),
            OPTIONS_FILE: json.dumps(content, ensure_ascii=False, indent=2) + "\n",
            TOKENIZER_FILE: self._text.to_str(pretty=True) + "\n",
        }

    def save(self, folder: Path) -> None:
        """Write those files and ``vocabulary.json`` (the counts of whole words)."""
        for name, text in self.files().items():
            (folder / name).write_bytes(text.encode())
        options: dict[str, Any] = {"rows": self.size}
        if self.features is not None:
            options["features"] = self.features.section.model_dump(mode="json")
        write_saved(folder, Saved("wordpiece", options, list(self.counts), list(self.counts.values())))

    def _extra(self, names: Sequence[str]) -> Iterator[int]:
        """The ids of extra words, each the only piece of its word."""
        for name in names:
            if name not in self._ids:
                raise no_extra_word(name)
            yield self._ids[name]

    def _segment(self, word: str) -> list[int]:
        pieces = self._cache.get(word)
        if pieces is None:
            pieces = self._words.encode(valid(word), add_special_tokens=False).ids or [self.UNKNOWN]
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[word] = pieces
        return pieces


def _tokenizer(ids: Mapping[str, int], options: Options, added: Collection[AddedToken]) -> Tokenizer:
    """The package's tokenizer of a vocabulary, of the same parts as `transformers.BertTokenizer`.

    Raises:
        DataError: the package, and so `transformers`, gives an added token another id than ``ids`` has, or takes one of
            two by chance.
    """
    try:
        from tokenizers import AddedToken as Theirs  # noqa: PLC0415  (an extra)
        from tokenizers import Tokenizer, decoders, models  # noqa: PLC0415
        from tokenizers.processors import TemplateProcessing  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'probtrans[hf]'"
        raise UsageError("a vocabulary of kind wordpiece needs the package tokenizers", hint=hint) from None
    unlisted = {token.content for token in options.added if not token.listed}
    listed = {piece: id for piece, id in ids.items() if piece not in unlisted}
    model = models.WordPiece(listed, unk_token=options.unknown, max_input_chars_per_word=LONGEST_WORD)
    made = Tokenizer(model)
    made.normalizer, made.pre_tokenizer = division(options)
    made.decoder = decoders.WordPiece(prefix="##")
    cleaned: dict[str, str] = {}
    for content in (token.content for token in added if token.normalized):
        form = made.normalizer.normalize_str(content)
        if not form:  # it would be found between any two bytes, and the package crashes there
            raise DataError(f"the added token {content!r} is empty once it is cleaned", hint="remove it")
        if (other := cleaned.setdefault(form, content)) != content:
            words = f"the added tokens {other!r} and {content!r} are the same once they are cleaned"
            raise DataError(words, hint="remove one: transformers takes one of them by chance")
    made.add_tokens([Theirs(token.content, **token.flags) for token in added])
    for content in unlisted:
        if (id := made.token_to_id(content)) != ids[content]:
            words = (
                f"the added token {content!r} has the id {ids[content]:,}, but the package tokenizers gives it {id:,}"
            )
            hint = f"ids of added tokens go on where {PIECES_FILE} ends: fill its blank lines, or add lines [unused1] …"
            raise DataError(words, hint=hint)
    first, last = options.first, options.last
    made.post_processor = TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(name, ids[name]) for name in dict.fromkeys((first, last))],
    )
    return made


# --- reading ----------------------------------------------------------------------------------------------------------


def read_wordpieces(
    folder: Path,
    *,
    rows: int | None = None,
    counts: Mapping[str, int] | None = None,
    features: WordFeatures | None = None,
) -> WordPieces:
    """The vocabulary of a folder of Hugging Face's: of `vocab.txt`, or where that is missing of `tokenizer.json`.

    Args:
        folder: where the files are.
        rows: the model's `vocab_size`, where it is known.
        counts: of the training file's words.
        features: of the spelling of words.

    Raises:
        DataError: a file is missing, damaged or of another kind, or the vocabulary has more pieces than the model rows.
    """
    path, other = folder / PIECES_FILE, folder / TOKENIZER_FILE
    options = Options()
    pieces: list[str] | None = None
    names = [name for name in READ_FILES if name != PIECES_FILE and (folder / name).exists()]
    contents = {name: read_json(folder / name) for name in names}
    if TOKENIZER_FILE in contents:
        pieces, options = of_tokenizer(contents[TOKENIZER_FILE], other)
    if path.exists():
        listed = read_pieces(path)
        if pieces is not None and any(a != b for a, b in zip(listed, pieces, strict=False)):
            id = next(id for id, (a, b) in enumerate(zip(listed, pieces, strict=False)) if a != b)
            where = f"{path}:{id + 1}: {listed[id]!r}, but {TOKENIZER_FILE} has {pieces[id]!r}"
            raise DataError(f"{where} with this id", hint="remove the file that is not the model's")
    elif pieces is None:
        hint = f"give the folder of a BERT model, with {PIECES_FILE} or {TOKENIZER_FILE}"
        raise DataError(f"{folder}: there is neither {PIECES_FILE} nor {TOKENIZER_FILE}", hint=hint)
    for name in (OLD_SPECIALS_FILE, OPTIONS_FILE):
        if name in contents:
            options = overlaid(options, contents[name], folder / name)
    declared = declared_tokens(contents, folder, options.specials, [key for key in KEYS if key.endswith("_token")])
    if path.exists():
        added = {it.token.content for it in declared}
        if pieces is None or not added.issuperset(listed[len(pieces) :]):  # else they are written behind its lines
            pieces = listed if pieces is None or len(listed) > len(pieces) else pieces
    assert pieces is not None, "one of the files is there"
    if rows is not None and len(pieces) > rows:
        words = f"{path if path.exists() else other}: {len(pieces):,} pieces, but the model's vocab_size is {rows:,}"
        raise DataError(words, hint="the vocabulary is that of another model")
    pieces, tokens = placed(pieces, declared, options.specials, rows)
    try:
        return WordPieces(pieces, replace(options, added=tokens), rows=rows, counts=counts, features=features)
    except DataError as error:
        raise DataError(f"{folder}: {error.message}", hint=error.hint) from None


class _SavedOptions(SavedOptions):
    """What ``save`` keeps beside the words."""

    rows: PositiveInt
    features: WordFeatures | None = None


def load_wordpieces(folder: Path, saved: Saved) -> WordPieces:
    """The pieces that ``save`` wrote."""
    options = saved.options_of(_SavedOptions)
    return read_wordpieces(folder, counts=saved.count_of, rows=options.rows, features=options.features)
