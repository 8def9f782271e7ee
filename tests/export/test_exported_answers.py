"""What an exported folder answers is what `parse` answers: every task and vocabulary, on texts that are hard to read.

Most tests run the modules beside a graph on the graph's own network, as tracing takes a hundred times as long; other
tests say that a graph computes what its network does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from export_graphs import CASES, ENTITIES, LAYERS, NASTY, TAGGING, fitting
from run_of_every_task import OVERRIDES
from support import Invoke, real_data

from probtrans_cli import cli
from probtrans_cli.commands.eval import EvalRequest
from probtrans_cli.commands.parse import ParseRequest
from probtrans_cli.data.entities import misplaced
from probtrans_cli.data.tokens import LONGEST
from probtrans_cli.errors import DataError
from probtrans_cli.export import answers as module
from probtrans_cli.export.answers import Answers, best_valid
from probtrans_cli.export.bundle import described, plan_of, write_beside
from probtrans_cli.export.graph import graph_of
from probtrans_cli.export.measure import alike
from probtrans_cli.tasks import tagging
from probtrans_cli.tasks.base import abstained
from probtrans_cli.tasks.tagging import allowed_by
from probtrans_cli.trained.model import Model


def folder_of(model: Model, folder: Path) -> Answers:
    """What stands beside a graph, and the network of the graph as what runs it."""
    folder.mkdir()
    write_beside(model, "pt2", folder)
    graph = graph_of(model.network, plan_of(model, arcs=False))

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = graph(**{name: torch.from_numpy(values) for name, values in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    about = {
        "task": model.recipe.task.kind,
        "inputs": dict(graph.plan.inputs),
        **described(model),
    }
    return Answers(folder, run, json.loads(json.dumps(about)))


def numbered(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((f"text {number}", text) for number, text in enumerate(texts, start=1))


def records(answers: Answers, texts: Iterable[str], **options: Any) -> list[dict[str, Any]]:
    return [record for record, _, _ in answers.records(numbered(texts), **options)]


@pytest.fixture
def tagger(trained: Path, place: Path) -> tuple[str, Answers]:
    """A trained run, and what its folder answers."""
    run = str(trained / "runs/tagger")
    return run, folder_of(Model.load(run), place / "out")


def drawn(invoke: Invoke, *options: str, seed: int = 0) -> Model:
    """A model whose weights are drawn so widely that every answer comes up."""
    assert invoke("train", "tiny.yaml", *options, "train={steps: 1, batch_words: 60}", "--run", "run").ok
    model = Model.load("run")
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.network.parameters():
            torch.nn.init.normal_(parameter, std=0.6)
    model.temperature = 1.7
    model.arc_temperature = 1.4
    return model


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "language model of pieces")) for name in CASES]
)
def test_every_task_and_vocabulary_answers_as_parse_does(name: str, place: Path, invoke: Invoke) -> None:
    model = drawn(invoke, *CASES[name])
    answers = folder_of(model, place / "out")
    texts = fitting(NASTY, model.network.longest)
    answered = records(answers, texts)
    expected = [analysis.record() for analysis in model.analyze(texts, trees=False)]
    for text, record, analysis in zip(texts, answered, expected, strict=True):
        assert alike(analysis, record), (text, analysis, record)
        assert list(record) == list(analysis)
    said = {json.dumps(record) for record in answered}
    assert len(said) > len(texts) / 2, "they differ from text to text"


def test_a_typographic_mark_has_the_tag_of_its_plain_spelling(place: Path, invoke: Invoke) -> None:
    """Where the vocabulary has that, and not as an unknown word."""
    answers = folder_of(drawn(invoke, *TAGGING), place / "out")
    plain, marked, unknown = (
        scores["scores"]
        for _, _, scores in answers.records(
            numbered(["do n't -- “a” fold ...", "do n’t – “a” fold …", "x y z q u q v w"])
        )
    )
    assert np.array_equal(plain, marked)
    assert not np.array_equal(plain[1:3], unknown[1:3])


def test_entities_are_valid_as_those_of_parse(place: Path, invoke: Invoke) -> None:
    """Each word's best tag alone would begin entities within."""
    model = drawn(invoke, *ENTITIES)
    answers = folder_of(model, place / "out")
    best = [
        [answers.names["scores"][id] for id in scores["scores"].argmax(-1)[: len(record["words"])]]
        for record, _, scores in answers.records(numbered(NASTY))
        if scores
    ]
    tags = [record["tags"] for record, _, scores in answers.records(numbered(NASTY)) if scores]
    assert not all(map(valid, best))
    assert all(map(valid, tags))


def valid(tags: Sequence[str]) -> bool:
    return all(misplaced(before, tag, "iob2") is None for before, tag in pairwise(["", *tags, ""]))


def test_the_best_valid_tags_are_those_of_the_task() -> None:
    """Also where no sequence is valid."""
    names, random = ["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b"], torch.Generator().manual_seed(0)
    for length in range(1, 9):
        for allowed_names in (names, ["B-a"]):
            may = allowed_by(allowed_names, "bioes")
            scores = torch.randn(length, len(allowed_names), generator=random) * 3
            expected = tagging.best_valid(scores, torch.ones(1, length, dtype=torch.bool), may)
            lists = {name: of_tags.tolist() for name, of_tags in may._asdict().items()}
            assert best_valid(scores.double().numpy(), lists).tolist() == expected.tolist()


def test_what_is_left_out_is_what_parse_leaves_out(tagger: tuple[str, Answers], invoke: Invoke) -> None:
    """By the probability at the model's temperature."""
    run, answers = tagger
    Path("texts").write_text("\n".join(NASTY) + "\n", "utf-8")
    for least in (0.0, 0.3, 1.0):
        options = ("--input", "text", "--no-split", "--trees", "no", "-f", "jsonl", "--abstain", str(least))
        parsed = invoke("parse", run, "texts", *options).ok
        assert all(map(alike, parsed.records, records(answers, NASTY, abstain=least)))


def test_entities_and_classes_are_left_out_too(place: Path, invoke: Invoke) -> None:
    for number, options in enumerate((ENTITIES, OVERRIDES["classification"][:2])):
        model = drawn(invoke, *options, "--overwrite")
        answers = folder_of(model, place / f"out{number}")
        least = 0.7
        answered = records(answers, NASTY, abstain=least)
        for text, record in zip(NASTY, answered, strict=True):
            (analysis,) = model.analyze([text], trees=False)
            abstains = model.task.answers.abstains
            said = analysis.prediction and abstained(analysis.prediction, abstains, least)[0]
            assert alike(dict(said or {}), {key: record[key] for key in said or {}})
        assert "_" in json.dumps(answered)


def test_the_temperature_of_the_calibration_counts(place: Path, invoke: Invoke) -> None:
    """Where the recipe predicts with it."""
    for used, number in ((True, 0), (False, 1)):
        model = drawn(invoke, *TAGGING, f"predict.temperature={str(used).lower()}", "--overwrite")
        about = described(model)
        assert about["answers"]["temperature"] == (1.7 if used else 1.0)
        texts = ["two cheap farmers fold"]
        (analysis,) = model.analyze(texts, trees=False)
        assert alike([analysis.record()], records(folder_of(model, place / f"out{number}"), texts))


def test_what_is_too_long_is_refused_as_by_parse(tagger: tuple[str, Answers], invoke: Invoke) -> None:
    """After the answers to the texts before it; with the words of parse."""
    run, answers = tagger
    texts = ["we sing", "farmers " * 2001, "we sing"]
    answered: list[Any] = []
    with pytest.raises(DataError, match=r"text 2: a sentence of at least 2,001 words, more than 2,000") as error:
        answered.extend(answers.records(numbered(texts)))
    assert len(answered) == 1
    Path("long").write_text("\n".join(texts), "utf-8")
    ran = invoke("parse", run, "long", "--trees", "no", "-f", "jsonl")
    assert ran.code == error.value.exit_code
    assert str(error.value).removeprefix("text 2: ") in ran.err
    assert len(records(answers, texts, longest=2001)) == 3


def test_the_example_allows_as_many_words_as_the_commands() -> None:
    for command, request in ((cli.parse, ParseRequest), (cli.evaluate, EvalRequest)):
        assert signature(command).parameters["longest"].default == request("run").longest == LONGEST


@pytest.mark.parametrize("limit", ["positions", "tokens"])
def test_what_the_model_has_no_room_for_is_refused(limit: str, place: Path, invoke: Invoke) -> None:
    positions = "positions: {kind: absolute, rows: 65}, " if limit == "positions" else ""
    layers = LAYERS.replace("width", positions + "width")
    model = drawn(invoke, *TAGGING, "data.vocabulary={kind: char}", f"model={layers}")
    answers = folder_of(model, place / "out")
    text = "x" * 900 + " " + "y" * 900 + " " + "z" * 300 if limit == "tokens" else "farmers " * 20
    what = "2,100 tokens, more than 2,000" if limit == "tokens" else "140 tokens, and the model has 65 positions"
    with pytest.raises(DataError, match=f"text 1: a sentence of {what}"):
        records(answers, [text])


def test_models_that_answer_every_line_skip_what_is_too_long(
    place: Path, invoke: Invoke, capsys: pytest.CaptureFixture[str]
) -> None:
    model = drawn(invoke, *OVERRIDES["openie"][:2])
    answers = folder_of(model, place / "out")
    texts = ["farmers fold two", "farmers " * 2001, ""]
    Path("texts").write_text("\n".join(texts) + "\n", "utf-8")
    parsed = invoke("parse", "run", "texts", "--input", "text", "--no-split", "--trees", "no", "-f", "jsonl")
    capsys.readouterr()
    answered = records(answers, texts)
    assert "text 2: a sentence of 2,001 words, more than 2,000" in capsys.readouterr().err
    assert answered[1:] == parsed.records[1:]


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(
    tagger: tuple[str, Answers], place: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The example of the tagger, with a graph that gives each id a tag; exit code, stdout and stderr."""
    folder, (_, answers) = place / "out", tagger
    (folder / "EXPORT.json").write_text(json.dumps(answers.about), "utf-8")
    tags = len(answers.names["scores"])

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = module.main(folder, lambda given: {"scores": np.eye(tags)[given["ids"] % tags]}, arguments)
        return code, *capsys.readouterr()

    return run


def test_the_command_ends_in_a_line_and_not_in_a_traceback(command: Callable[..., tuple[int, str, str]]) -> None:
    assert command("--json", "--", "-")[0] == 0
    code, out, _ = command("--", "– a")
    assert (code, [line.split("\t")[0] for line in out.splitlines()]) == (0, ["--", "–", "a"])
    assert command()[0] == 0, "it has a text of its own"
    Path("bad").write_bytes(b"good\n\xff\n")
    for arguments, message, expected in (
        (["we sing", "a " * 2001], "error: text 2: a sentence of at least 2,001 words, more than 2,000\n", 3),
        (["bad \udcff"], "error: text 1: not UTF-8\n", 3),
        (["--file", "bad"], "error: bad:2: not UTF-8\n", 3),
        (["--file", "gone"], "error: gone: cannot be read: No such file or directory\n", 3),
        (["--abstain", "x", "a"], "error: --abstain: 'x' is no number\n", 2),
        (["--file"], "error: --file needs a value\n", 2),
    ):
        code, out, err = command(*arguments)
        assert (code, err) == (expected, message)
        assert bool(out) == (arguments[0] == "we sing")


def test_lines_of_a_file_are_texts(command: Callable[..., tuple[int, str, str]]) -> None:
    """As of parse: a mark of byte order is none, only line feeds end a line, and an empty line is a text."""
    Path("texts").write_bytes("\ufeffwe sing\r\n\na\u2028b\x0cc\n".encode())
    code, out, _ = command("--json", "--file", "texts")
    assert code == 0
    assert [json.loads(line)["words"] for line in out.splitlines()] == [["we", "sing"], [], ["a", "b", "c"]]


# --- real texts -------------------------------------------------------------------------------------------------------


def real_options(task: str) -> tuple[str, ...]:
    """Words and labels of real corpora."""
    if task == "tagging":
        return f"data={{train: {real_data('ud/en_ewt/test.conllu')}, dev: dev.conllu}}", *TAGGING
    file = real_data("ner/wikigold/all.conll")
    columns = "format: columns, columns: {word: 0, tag: 1, entities: iob2}"
    return f"data={{train: {file}, dev: {file}, {columns}}}", "task={kind: ner}"


@pytest.mark.parametrize("task", ["tagging", "ner"])
def test_real_texts_are_answered_as_the_model_does(task: str, place: Path, invoke: Invoke) -> None:
    with real_data("ud/en_ewt/dev.conllu").open(encoding="utf-8") as file:
        texts = [line.removeprefix("# text = ").rstrip("\n") for line in file if line.startswith("# text = ")][:80]
    model = drawn(invoke, *real_options(task))
    answered = records(folder_of(model, place / "out"), texts)
    expected = [analysis.record() for analysis in model.analyze(texts, trees=False)]
    assert len(answered) == 80
    assert all(map(alike, expected, answered))
