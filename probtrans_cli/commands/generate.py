"""The verb `generate`: texts that a causal language model goes on with."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from probtrans_cli import console
from probtrans_cli.data.files import open_lines
from probtrans_cli.statistics.sampling import Sampling
from probtrans_cli.text import harmless, json_line
from probtrans_cli.trained.generation import continuations, require_next_words, words_of
from probtrans_cli.trained.model import Model

PROMPTS_AT_ONCE = 64


@dataclass(frozen=True)
class GenerateRequest:
    """The arguments of `generate`."""

    checkpoint: str
    prompt: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    number: int = 1
    as_json: bool = False


def generate(request: GenerateRequest) -> None:
    """Write each prompt with its continuation, a line each; of a single one, word by word."""
    model = Model.load(request.checkpoint)
    require_next_words(model, request.sampling)
    if request.prompt == "-":
        request = replace(request, prompt=None)
    if request.prompt is None and sys.stdin.isatty():
        console.log("reading prompts from the keyboard, one a line; end with Ctrl-D")
    lines = open_lines("-") if request.prompt is None else [request.prompt]
    prompts = (words_of(line) for line in lines for _ in range(request.number))
    if request.prompt is not None and request.number == 1 and not request.as_json:
        prompt = next(prompts)
        words = chain(prompt, (str(word) for (word,) in continuations(model, [prompt], request.sampling)))
        for number, word in enumerate(words):
            sys.stdout.write((" " if number else "") + harmless(word))
            sys.stdout.flush()
        sys.stdout.write("\n")
        return
    first = 0
    while portion := list(islice(prompts, PROMPTS_AT_ONCE)):
        texts: list[list[str]] = [[] for _ in portion]
        for step in continuations(model, portion, request.sampling, first):
            for text, next_word in zip(texts, step, strict=True):
                text.extend([] if next_word is None else [next_word])
        for prompt, text in zip(portion, texts, strict=True):
            if request.as_json:
                sys.stdout.write(json_line({"prompt": list(prompt), "words": text}) + "\n")
            else:
                sys.stdout.write(harmless(" ".join([*prompt, *text])) + "\n")
        sys.stdout.flush()
        first += len(portion)
