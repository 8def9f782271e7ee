"""The verb `table`: which runs are one row, what is compared with the paper and with transformers, means over corpora,
and what is left out."""

from __future__ import annotations

import html
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finished_runs import TAGGING, model, rows, run, scores, store, trees
from hypothesis import given
from hypothesis import strategies as st
from support import Invoke, Ran, environment

from probtrans_cli.errors import CheckpointError
from probtrans_cli.reports.finished import PUBLISHED, published, task_of
from probtrans_cli.reports.table import beside, markdown, rival_of, table

TRANSFORMER = "model={kind: transformer}"
XPOS = "task={kind: tagging, column: xpos}"
PrintTable = Callable[..., Ran]


@pytest.fixture
def print_table(invoke: Invoke) -> PrintTable:
    """Run `probtrans table` in this process."""
    return lambda *arguments: invoke("table", *map(str, arguments))


def printed_rows(out: str) -> list[dict[str, str]]:
    """The rows of a table in Markdown, by their headers."""
    header, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


# --- rows -------------------------------------------------------------------------------------------------------------


def test_seeds_are_one_row(tmp_path: Path) -> None:
    tests = [0.90, 0.92, 0.91]
    folders = [
        run(
            tmp_path / f"x-seed{seed}", scores(0.5, test, "accuracy", trees=trees(test - 0.5)), *TAGGING,
            f"seed={seed}", seconds=60.0 + seed, speeds=(100 * seed + 1, 100 * seed + 2), data="same",
        )
        for seed, test in enumerate(tests)
    ]  # fmt: skip
    (row,) = rows(*reversed(folders))
    assert row["seeds"] == [0, 1, 2]
    assert row["runs"] == [str(folder) for folder in folders]
    assert row["test"]["accuracy"]["mean"] == pytest.approx(statistics.fmean(tests))
    assert row["test"]["accuracy"]["sd"] == pytest.approx(statistics.stdev(tests))
    assert row["test"]["uuas"] == pytest.approx({"mean": 0.41, "sd": statistics.stdev(tests)})
    assert row["dev"]["accuracy"] == {"mean": 0.5, "sd": 0.0}
    assert row["encoder_parameters"] == 1234567
    assert row["words_per_second"] == statistics.median([1, 2, 101, 102, 201, 202])
    assert row["seconds"] == 61.0
    assert (row["recipe"], row["model"], row["task"], row["column"]) == (
        "pos-ewt-mine", "probabilistic", "tagging", "xpos",
    )  # fmt: skip


def test_what_does_not_change_a_result_is_not_compared(tmp_path: Path) -> None:
    overrides = ["name=tiny-seed1", "log.every_steps=7", "save.keep=3", "runtime.threads=2", "data.prepared=elsewhere"]
    folders = [run(tmp_path / "a", scores(2, 3), "seed=0"), run(tmp_path / "b", scores(2, 5), "seed=1", *overrides)]
    (row,) = rows(*folders)
    assert row["recipe"] == "tiny"
    assert row["test"]["perplexity"] == {"mean": 4.0, "sd": pytest.approx(math.sqrt(2))}


def test_other_recipes_are_other_rows(tmp_path: Path) -> None:
    first = run(tmp_path / "a", scores(2, 3), "seed=0")
    changes = ("optim.lr=0.02", "data.train=other.conllu", "model.channels=3", "name=tiny-seed7", "train.epochs=1")
    for number, override in enumerate(changes):
        folders = [first, run(tmp_path / f"b{number}", scores(2, 5), "seed=1", override)]
        found = rows(*folders)
        assert [row["runs"] for row in found] == [[str(folder)] for folder in folders]
        text = markdown({"rows": found, "means": []})
        assert all(str(folder) in text for folder in folders) == (not override.startswith("name"))


def test_other_corpora_under_the_same_path_are_another_row(tmp_path: Path) -> None:
    old, new = (run(tmp_path / data, scores(2, 3), f"seed={len(data)}", data=data) for data in ("older", "new"))
    assert len(rows(old, new)) == 2


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    (row,) = rows(run(tmp_path / "a", scores(2, 3)))
    assert row["test"]["perplexity"] == {"mean": 3.0, "sd": None}
    assert row["words_per_second"] is None
    assert "±" not in markdown({"rows": [row], "means": []})


def test_a_model_by_itself_is_a_run_without_time(tmp_path: Path) -> None:
    exported = model(tmp_path / "exported", scores(2, 3))
    finished = run(tmp_path / "run", scores(2, 5))
    assert [row["seconds"] for row in rows(exported, finished)] == [None, 60.0]
    assert rows(finished / "checkpoints" / "best")[0]["seconds"] == 60.0
    assert rows(finished / "checkpoints" / "step-000012")[0]["seconds"] == 60.0


def test_rows_stand_in_the_order_of_the_paper(tmp_path: Path) -> None:
    names = ["mlm-ptb-a", "mlm-bllip-a", "mlm-a", "z"], ["pos-ptb-z", "pos-ewt-a", "pos-ewt-b", "a"]
    folders = [run(tmp_path / name, scores(2, 3), f"name={name}") for name in names[0]]
    folders += [run(tmp_path / name, scores(0.2, 0.3, "accuracy"), f"name={name}", XPOS) for name in names[1]]
    assert [row["recipe"] for row in rows(*reversed(folders))] == [*names[0], *names[1]]


# --- the paper --------------------------------------------------------------------------------------------------------


def test_both_models_have_a_figure_for_each_of_the_nine_tasks() -> None:
    cells = {(cell.task, cell.model) for cell in PUBLISHED}
    assert len(cells) == len(PUBLISHED) == 19
    both = {task for task, kind in cells if kind == "probabilistic"} & {t for t, kind in cells if kind == "transformer"}
    assert len(both) == 9
    for cell in PUBLISHED:
        assert (cell.metric == "perplexity") == (cell.task.startswith("mlm-")) == (cell.mean > 1)
        assert 0 < cell.sd < 0.05 * cell.mean


NAMES = [
        ("pos-ewt-affix", "pos-ewt"), ("pos-ewt", "pos-ewt"), ("pos-ewt2-small", None), ("upos-ewt-x", "upos-ewt"),
        ("my-pos-ewt-x", None), ("mlm-ewt-probabilistic", None), ("cogs-probabilistic", "cogs"),
        ("cogs-universal", "cogs-universal"), ("cogs-universal-b", "cogs-universal"), ("cogs-universals", "cogs"),
        ("sst2-transformer", "sst2"), ("quickstart", None),
]  # fmt: skip


def test_a_name_says_which_task_it_is() -> None:
    assert [(name, task_of(name)) for name, _ in NAMES] == NAMES


def test_a_figure_is_of_the_same_model_metric_and_column() -> None:
    found = published("pos-ewt-small", "transformer", "accuracy", "xpos")
    assert (found.mean, found.sd, found.parameters) == (0.9117, 0.0011, 3_200_000)
    assert published("pos-ewt-small", "transformer", "accuracy", "upos") is None
    assert published("pos-ewt-small", "transformer", "perplexity", None) is None
    assert published("cogs-universal", "probabilistic", "exact", None) is None
    assert published("cogs-universal", "transformer", "exact", None).mean == 0.8050


def test_the_difference_is_in_units_of_the_papers_deviation(tmp_path: Path) -> None:
    tagger = run(tmp_path / "tagger", scores(0.5, 0.9126, "accuracy"), *TAGGING)
    language = run(tmp_path / "language", scores(50.0, 63.66), "name=mlm-ptb-mine")
    better, worse = (row["paper"] for row in reversed(rows(tagger, language)))
    assert (better["difference_in_sd"], better["better"]) == (pytest.approx(3.0), True)
    assert (worse["difference_in_sd"], worse["better"]) == (pytest.approx(2.0), False)
    text = markdown({"rows": rows(tagger, language), "means": []})
    assert "3.0 s.d. better" in text
    assert "2.0 s.d. worse" in text
    assert "62.86 ± 0.40 |" in text
    assert "90.96 ± 0.10 % |" in text


def test_without_a_test_set_nothing_is_compared(tmp_path: Path) -> None:
    only_dev = {"dev": {"accuracy": 0.9}}
    (row,) = rows(run(tmp_path / "a", only_dev, *TAGGING, "data.test=null"))
    assert (row["test"], row["paper"]) == (None, None)
    assert "90.00 %" in markdown({"rows": [row], "means": []})


# --- what is left out -------------------------------------------------------------------------------------------------


def test_what_is_no_finished_run_is_left_out_with_its_reason(tmp_path: Path, print_table: PrintTable) -> None:
    run(tmp_path / "good", scores(2, 3))
    run(tmp_path / "twin", scores(2, 4))
    store(run(tmp_path / "stopped", scores(2, 3)) / "exit.json", {"exit": 75, "reason": "stopped by SIGTERM\n\x1b[1m"})
    (run(tmp_path / "running", {"dev": {"perplexity": 2.0}}) / "exit.json").unlink()
    store(tmp_path / "failed" / "exit.json", {"exit": 3, "reason": "no corpus"})
    run(tmp_path / "unscored", {"dev": {"perplexity": 2.0}})
    run(tmp_path / "another", scores(0.2, 0.3, "accuracy"))
    store(run(tmp_path / "broken", scores(2, 3)) / "checkpoints" / "best" / "eval.json", '{"dev": ')
    run(tmp_path / "list", [1, 2])
    run(tmp_path / "infinite", '{"dev": {"perplexity": 1e999}, "test": {"perplexity": 2.0}}')
    run(tmp_path / "words", {"dev": ["perplexity"], "test": "perplexity"})
    store(run(tmp_path / "recipe", scores(2, 3)) / "checkpoints" / "best" / "recipe.yaml", "nonsense: 1\n")
    run(tmp_path / "unmeasured", {"train": {"loss": 1.0}}, "data.dev=null", "data.test=null")
    (tmp_path / "folder").mkdir()
    store(tmp_path / "file.txt", "stray")
    reasons = {
        "twin": "the same recipe, data and seed", "stopped": r"exit code 75: stopped by SIGTERM \x1b",
        "failed": "no corpus", "running": "no exit.json", "unscored": "no scores of test", "another": "no perplexity",
        "broken": "JSON", "list": "JSON", "infinite": "finite", "words": "not one of ours",
        "recipe": "recipe cannot be read", "unmeasured": "no data but those for training", "folder": "not a run folder",
        "file.txt": "not a folder", "nowhere": "no such run folder",
    }  # fmt: skip
    code, out, err = print_table(tmp_path / "good", *(tmp_path / name for name in reasons))
    assert code == 0
    assert out.count("\n") == 3
    assert re.search(r"\| +1 \| +2\.00 \| +3\.00 \|", out)
    assert "Traceback" not in err
    for line, (name, reason) in zip(err.splitlines(), reasons.items(), strict=True):
        assert line.startswith(f"left out: {tmp_path / name}")
        assert reason in line


def test_without_a_finished_run_the_exit_code_is_that_of_a_checkpoint(tmp_path: Path, print_table: PrintTable) -> None:
    (tmp_path / "folder").mkdir()
    code, out, err = print_table(tmp_path / "folder")
    assert (code, out) == (CheckpointError.exit_code, "")
    assert f"{tmp_path / 'folder'}: not a run folder" in err
    code, out, err = print_table("--json", tmp_path / "folder", tmp_path / "nowhere")
    assert (code, out) == (CheckpointError.exit_code, "")
    assert "folder: not a run folder" in err
    assert "nowhere: no such run folder" in err


def test_only_the_best_checkpoint_of_a_run_counts(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", scores(2, 3))
    earlier = model(folder / "checkpoints" / "step-000004", scores(3, 4))
    with pytest.raises(CheckpointError, match="only the best checkpoint"):
        table([str(earlier)])
    store(folder / "exit.json", {"exit": 75, "reason": "stopped"})
    with pytest.raises(CheckpointError, match="stopped"):
        table([str(folder / "checkpoints" / "best")])


# --- what is printed --------------------------------------------------------------------------------------------------


def test_json_holds_the_raw_numbers(tmp_path: Path, print_table: PrintTable) -> None:
    folder = run(tmp_path / "a", scores(0.5, 0.9126, "accuracy"), *TAGGING)
    ran = print_table(folder, "--json")
    assert (ran.code, ran.err) == (0, "")
    printed = ran.json
    assert printed["rows"][0]["rival"] is None
    assert printed == table([str(folder)])
    assert printed["rows"][0]["test"]["accuracy"]["mean"] == 0.9126


def test_large_perplexities_stay_short(tmp_path: Path) -> None:
    text = markdown({"rows": rows(run(tmp_path / "a", scores(12345.678, math.exp(300)))), "means": []})
    assert "| 12,346 | 1.94e+130 |" in text


def cells(text: str) -> list[list[str]]:
    """The cells of a Markdown table as a browser would show them."""
    reader = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    shown = reader.render(text)
    assert shown.startswith("<table>")
    assert shown.rstrip().endswith("</table>")
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.DOTALL) for line in shown.split("<tr>")[1:]]
    assert not any("<" in cell for line in found for cell in line)
    return [[html.unescape(cell) for cell in line] for line in found]


def test_the_markdown_is_a_table(tmp_path: Path) -> None:
    text = markdown(
        {"rows": rows(run(tmp_path / "a", scores(0.5, 0.9126, "accuracy"), *TAGGING, speeds=(5000,))), "means": []}
    )
    pytest.importorskip("markdown_it")
    header, row = cells(text)
    assert dict(zip(header, row, strict=True)) == {
        "recipe": "pos-ewt-mine", "model": "probabilistic", "task": "tagging xpos", "metric": "accuracy", "seeds": "1",
        "dev": "50.00 %", "test": "91.26 %", "encoder": "1,234,567", "words/s": "5,000", "time": "0:01:00",
        "paper": "90.96 ± 0.10 %", "to the paper": "3.0 s.d. better", "paper's encoder": "2.4M",
    }  # fmt: skip
    assert len({len(line) for line in text.splitlines()}) == 1


@given(st.lists(st.text(st.characters(categories=("L", "N", "P", "S"), include_characters="\\ |<&`*_~[\n"))))
def test_any_name_is_shown_as_it_is(folders: list[str]) -> None:
    row = {
        "recipe": "a", "model": "b", "task": "c", "column": None, "metric": "accuracy", "dev": None, "test": None,
        "extra": None, "encoder_parameters": 1, "words_per_second": None, "seconds": None, "paper": None, "seeds": [0],
    }  # fmt: skip
    names = [f"x{folder}x" for folder in folders]
    lines = cells(
        markdown({"rows": [row | {"runs": ["first"]}, *(row | {"runs": [name]} for name in names)], "means": []})
    )
    assert [line[-1] for line in lines[2:]] == [name.replace("\n", r"\x0a") for name in names]


# --- a real run -------------------------------------------------------------------------------------------------------


def test_real_runs_without_torch(trained: Path) -> None:
    script = (
        "import sys\nfrom probtrans_cli.__main__ import run\n"
        "assert run(['table', '--json', *sys.argv[1:]]) == 0\nassert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "runs/tagger", "runs/tiny"],
        cwd=trained, env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    language, tagger = json.loads(done.stdout)["rows"]
    stored = json.loads((trained / "runs/tagger/checkpoints/best/eval.json").read_text("utf-8"))["test"]
    assert tagger["test"]["accuracy"]["mean"] == stored["accuracy"]
    assert "uuas" not in tagger["test"]  # nobody has asked for a tagger's trees
    stored = json.loads((trained / "runs/tiny/checkpoints/best/eval.json").read_text("utf-8"))["test"]
    assert language["test"]["uuas"]["mean"] == stored["trees"]["no_punct"]["all"]["uuas"]
    assert language["recipe"] == "tiny"
    assert language["words_per_second"] > 0
    assert 0 < language["seconds"] < 60
    config = json.loads((trained / "runs/tiny/checkpoints/best/config.json").read_text("utf-8"))
    assert language["encoder_parameters"] == config["parameters"]["encoder"]


def test_the_command_of_a_row_has_all_of_its_seeds(tmp_path: Path) -> None:
    folders = [run(tmp_path / f"m{seed}", scores(30, 33), f"name=m-seed{seed}", f"seed={seed}") for seed in (2, 3, 5)]
    commands = {
        "probtrans train m --seeds 2,3 'data.select={a: b}'": "probtrans train m 'data.select={a: b}' --seeds 2,3,5",
        "probtrans train m name=m-seed2 seed=2": "probtrans train m name=m --seeds 2,3,5",
        "probtrans train m --seeds=2 name=own": "probtrans train m name=own --seeds 2,3,5",
        "of 'no shell": "of 'no shell",
    }
    for written, expected in commands.items():
        store(folders[0] / "recipe.yaml", f"# Resolved recipe.\n# Command: {written}\nversion: 1\n")
        (row,) = rows(*folders)
        assert row["command"] == expected
    (row,) = rows(folders[0])
    assert row["command"] == "of 'no shell"


# --- beside transformers ----------------------------------------------------------------------------------------------


def rival(name: str, table_rows: list[dict[str, Any]]) -> str | None:
    """The recipe of the transformer that a row stands beside."""
    rivals = {row["recipe"]: rival_of(row, table_rows) for row in table_rows}
    return None if rivals[name] is None else rivals[name]["recipe"]


def test_a_model_stands_beside_the_best_transformer_of_the_same_data(tmp_path: Path, print_table: PrintTable) -> None:
    ours = run(tmp_path / "ours", scores(30, 33), "name=ours", seconds=61)
    worse = run(tmp_path / "worse", scores(29, 20), "name=worse", TRANSFORMER, seconds=62)
    better = run(tmp_path / "better", scores(28, 40), "name=better", TRANSFORMER, seconds=63)
    other = run(tmp_path / "other", scores(1, 1), "name=other", TRANSFORMER, "data.train=other.conllu")
    started = run(tmp_path / "started", scores(1, 1), "name=started", TRANSFORMER, "model.init_from=elsewhere")
    store(
        ours / "recipe.yaml",
        "# Resolved recipe.\n# Command: probtrans train ours `x`\nversion: 1\n# Command: not this\n",
    )
    assert rival("ours", rows(ours, worse, better, other, started)) == "better"
    code, out, err = print_table(ours, worse, better, other, started, "-f", "beside")
    assert (code, err) == (0, "")
    by_name = {row["recipe"]: row for row in printed_rows(out)}
    assert list(by_name) == ["ours", "other", "started", "worse"]
    assert by_name["ours"] == {
        "recipe": "ours", "task": "mlm", "metric": "perplexity", "ours": "33.00", "transformer": "40.00",
        "parameters": "1,234,567 / 1,234,567", "time": "0:01:01 / 0:01:03", "seeds": "1 / 1",
        "command": r"probtrans train ours \`x\`",
    }  # fmt: skip
    assert (by_name["worse"]["ours"], by_name["worse"]["transformer"]) == ("", "20.00")
    assert (by_name["worse"]["seeds"], by_name["worse"]["command"]) == ("1", "")


def test_trees_stand_beside_those_that_need_no_training(tmp_path: Path, print_table: PrintTable) -> None:
    """The floor's scores have no spread over seeds; a transformer's trees stand behind the model's."""
    own, other = trees(0.6, 0.5), trees(0.4, 0.3)
    own["floors"] = {"next_word": trees(0.8), "untrained_bias": trees(0.58, 0.41)}
    folders = [
        *(run(tmp_path / f"ours{seed}", scores(30, 33, trees=own), "name=ours", f"seed={seed}") for seed in (0, 1)),
        run(tmp_path / "theirs", scores(28, 40, trees=other), "name=theirs", TRANSFORMER),
    ]
    (folders[0] / "metrics.jsonl").write_text(
        '{"step": 1, "split": "train", "words_per_second": 1500}\n', encoding="utf-8"
    )
    code, out, err = print_table(*folders, "-f", "beside")
    assert (code, err) == (0, "")
    (cells,) = printed_rows(out)
    assert cells["UAS"] == "50.00 ± 0.00 % / 30.00 %"
    assert cells["UUAS"] == "60.00 ± 0.00 % / 40.00 %"
    assert cells["untrained bias, UAS"] == "41.00 %"
    assert cells["untrained bias, UUAS"] == "58.00 %"
    assert cells["words/s"] == "1,500"
    rivals = {row["recipe"]: row["rival"] for row in print_table(*folders, "--json").json["rows"]}
    assert rivals == {"ours": [str(folders[2])], "theirs": None}


def test_a_rival_takes_at_most_twice_as_long(tmp_path: Path) -> None:
    """If there is such a one; trainings of ten minutes and of an hour can be given together."""
    short = run(tmp_path / "short", scores(30, 33), "name=short", seconds=600)
    long = run(tmp_path / "long", scores(20, 23), "name=long", seconds=3600)
    untimed = run(tmp_path / "untimed", scores(20, 23), "name=untimed")
    soon = run(tmp_path / "soon", scores(31, 34), "name=soon", TRANSFORMER, seconds=1200)
    late = run(tmp_path / "late", scores(21, 24), "name=late", TRANSFORMER, seconds=1201)
    found = rows(short, long, untimed, soon, late)
    assert [rival(name, found) for name in ("short", "long", "untimed")] == ["soon", "late", "late"]
    assert rival("short", rows(short, late)) == "late"


def test_a_higher_score_is_the_better_rival(tmp_path: Path) -> None:
    ours = run(tmp_path / "pos-ewt-a", scores(0.5, 0.5, "accuracy"), "name=pos-ewt-a", XPOS)
    rivals = [
        run(tmp_path / f"t{dev}", scores(dev, 0.5, "accuracy"), f"name=t{dev}", TRANSFORMER, XPOS)
        for dev in (0.7, 0.9, 0.8)
    ]
    found = rows(ours, *rivals)
    assert rival("pos-ewt-a", found) == "t0.9"
    assert "90.96 ± 0.10 %" in beside({"rows": found, "means": []})


def test_a_perplexity_stands_beside_one_over_the_same_words(tmp_path: Path) -> None:
    """Of a smaller vocabulary, or of more hidden words, it is another quantity; a share of right answers is not."""
    ours = run(tmp_path / "ours", scores(30, 33), "name=ours")
    smaller = run(tmp_path / "smaller", scores(3, 3), "name=smaller", TRANSFORMER, "data.vocabulary.max_size=20")
    hidden = run(tmp_path / "hidden", scores(4, 4), "name=hidden", TRANSFORMER, "task.mlm.rate=0.5")
    same = run(tmp_path / "same", scores(40, 43), "name=same", TRANSFORMER)
    assert rival("ours", rows(ours, smaller, hidden, same)) == "same"
    ours = run(tmp_path / "tagger", scores(0.3, 0.3, "accuracy"), "name=tagger", XPOS)
    other = ("name=other", TRANSFORMER, "data.vocabulary.max_size=20", XPOS)
    theirs = run(tmp_path / "other", scores(0.4, 0.4, "accuracy"), *other)
    assert rival("tagger", rows(ours, theirs)) == "other"


def test_scores_of_dev_are_called_so(tmp_path: Path) -> None:
    ours = run(tmp_path / "ours", {"dev": scores(30, 33)["dev"]}, "name=ours", "data.test=null")
    theirs = run(tmp_path / "theirs", scores(28, 40), "name=theirs", TRANSFORMER)
    text = beside({"rows": rows(ours, theirs), "means": []})
    assert re.search(r"\| 30\.00 \(dev\) \|", text)
    assert re.search(r"\| +40\.00 \|", text)


# --- means over corpora -----------------------------------------------------------------------------------------------


def on(corpus: str, *overrides: str) -> tuple[str, ...]:
    files = (f"data.train={corpus}-train.conllu", f"data.test={corpus}-test.conllu")
    return (f"name=pos-{corpus}", XPOS, *files, *overrides)


def test_one_model_on_several_corpora_has_a_mean(tmp_path: Path, print_table: PrintTable) -> None:
    """The mean over corpora for each seed, then mean and deviation over the seeds that all corpora have."""
    accuracies = {"a": (0.5, 0.7, 0.1), "b": (0.8, 0.9), "c": (0.2, 0.5)}
    folders = [
        run(
            tmp_path / f"{corpus}{seed}",
            scores(0.5, accuracy, "accuracy", trees=trees(0.1 + accuracy / 2, 0.2)),
            *on(corpus, f"seed={seed}"),
            seconds=10 * (1 + seed),
        )
        for corpus, all_seeds in accuracies.items()
        for seed, accuracy in enumerate(all_seeds)
    ]
    other = run(tmp_path / "other", scores(0.5, 0.9, "accuracy"), *on("d", "model.labels=5"))
    result = table([str(folder) for folder in [*folders, other]])
    assert [row["recipe"] for row in result["rows"]] == ["pos-a", "pos-b", "pos-c", "pos-d"]
    (mean,) = result["means"]
    assert mean["recipe"] == "mean of 3 (pos-a to pos-c)"
    assert mean["mean_of"] == ["pos-a", "pos-b", "pos-c"]
    assert mean["seeds"] == [0, 1]
    assert mean["runs"] == [str(folder) for folder in folders]
    assert mean["test"]["accuracy"] == {"mean": pytest.approx(0.6), "sd": pytest.approx(0.1 * math.sqrt(2))}
    assert mean["test"]["uuas"] == {"mean": pytest.approx(0.4), "sd": pytest.approx(0.05 * math.sqrt(2))}
    assert mean["seconds"] == 15
    assert mean["paper"] is None
    for form in ("markdown", "beside"):
        code, out, _ = print_table(*folders, other, "-f", form)
        assert code == 0
        assert re.match(r"\| mean of 3 \(pos-a to pos-c\) .* 60\.00 ± 14\.14 % ", out.splitlines()[-1])
    assert "mean of 3 (pos-a to pos-c)" in print_table(*folders, other, "-f", "html").out


def test_a_mean_stands_beside_that_of_the_transformer(tmp_path: Path, print_table: PrintTable) -> None:
    folders = [
        run(tmp_path / f"{kind}-{corpus}", scores(0.5, accuracy, "accuracy"), *on(corpus, f"model={{kind: {kind}}}"))
        for kind, both in {"probabilistic": (0.5, 0.7), "transformer": (0.3, 0.4)}.items()
        for corpus, accuracy in zip("ab", both, strict=True)
    ]
    *_, cells = printed_rows(print_table(*folders, "-f", "beside").out)
    shown = [cells[name] for name in ("recipe", "ours", "transformer")]
    assert shown == ["mean of 2 (pos-a to pos-b)", "60.00 %", "35.00 %"]
    rivals = {row["model"]: row["rival"] for row in print_table(*folders, "--json").json["means"]}
    assert rivals == {"probabilistic": [str(folder) for folder in folders[2:]], "transformer": None}


def test_perplexities_of_several_corpora_have_no_mean_but_their_trees_do(
    tmp_path: Path, print_table: PrintTable
) -> None:
    """Nor does a transformer without a mean score stand beside anything."""
    floors = {"untrained_bias": trees(0.4, 0.2)}
    folders = [
        run(
            tmp_path / f"{kind}-{corpus}",
            scores(30, 33, trees=trees(uuas) | {"floors": floors}),
            f"name=lm-{corpus}",
            f"data.test={corpus}.conllu",
            f"model={{kind: {kind}}}",
        )
        for kind in ("probabilistic", "transformer")
        for corpus, uuas in (("a", 0.5), ("b", 0.6))
    ]
    ran = print_table(*folders, "--json")
    assert (ran.code, ran.err) == (0, "")
    for mean in ran.json["means"]:
        assert mean["test"] == {
            "uas": {"mean": pytest.approx(0.25), "sd": None},
            "uuas": {"mean": pytest.approx(0.55), "sd": None},
            "floor_uas": {"mean": pytest.approx(0.2), "sd": None},
            "floor_uuas": {"mean": pytest.approx(0.4), "sd": None},
        }
        assert mean["rival"] is None


def test_a_mean_is_over_the_splits_that_all_corpora_have(tmp_path: Path, print_table: PrintTable) -> None:
    """The second corpus has no test set, the third no dev set, so the three have nothing in common."""
    every = scores(0.5, 0.7, "accuracy")
    folders = [
        run(tmp_path / "a", every | {"extra": {"accuracy": 0.1}}, *on("a", "data.extra=a-more.conllu")),
        run(tmp_path / "b", {"dev": every["dev"]}, *on("b", "data.test=null", "data.dev=b-dev.conllu")),
    ]
    (mean,) = table([str(folder) for folder in folders])["means"]
    assert (mean["dev"]["accuracy"]["mean"], mean["test"], mean["extra"]) == (0.5, None, None)
    for form in ("markdown", "beside", "html"):
        code, out, _ = print_table(*folders, "-f", form)
        assert code == 0
        assert "mean of 2 (pos-a to pos-b)" in out
    third = run(tmp_path / "c", {"test": every["test"]}, *on("c", "data.dev=null"))
    assert table([str(folder) for folder in [*folders, third]])["means"] == []


def test_what_is_not_the_same_model_on_other_corpora_has_no_mean(tmp_path: Path) -> None:
    accuracies, perplexities = scores(0.5, 0.5, "accuracy"), scores(30, 33)
    first = run(tmp_path / "first", accuracies, *on("a"))
    language = run(tmp_path / "language", perplexities, "name=language")
    others = {
        "no seed in both": (first, accuracies, on("b", "seed=1")),
        "another setting": (first, accuracies, on("b", "train.batch_words=77")),
        "another setting of data": (first, accuracies, on("b", "data.vocabulary.min_count=3")),
        "the same corpus": (first, accuracies, on("a", "name=pos-twice")),
        "the same test set": (first, accuracies, on("a", "name=pos-less", "data.train=less.conllu")),
        "another selection": (first, accuracies, on("b", "data.select.words=3")),
        "no test set": (first, {"dev": accuracies["dev"]}, on("a", "data.test=null", "name=b")),
        "perplexities alone": (language, perplexities, ("name=b", "data.test=b.conllu")),
    }
    for name, (earlier, values, overrides) in others.items():
        result = table([str(earlier), str(run(tmp_path / name, values, *overrides))])
        assert len(result["rows"]) == 2, name
        assert result["means"] == [], name
