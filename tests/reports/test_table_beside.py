"""The verb `table -f beside`: which transformer stands beside a model, and what the row says of both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from finished_runs import rows, run, scores, store, trees

from probtrans_cli.reports.table import beside, rival_of


def test_a_model_stands_beside_the_best_transformer_of_the_same_data(
    tmp_path: Path, print_table: Callable[..., tuple[int, str, str]]
) -> None:
    transformer = "model={kind: transformer}"
    ours = run(tmp_path / "ours", scores(30, 33), "name=ours", seconds=61)
    worse = run(tmp_path / "worse", scores(29, 20), "name=worse", transformer, seconds=62)
    better = run(tmp_path / "better", scores(28, 40), "name=better", transformer, seconds=63)
    other = run(tmp_path / "other", scores(1, 1), "name=other", transformer, "data.train=other.conllu")
    started = run(tmp_path / "started", scores(1, 1), "name=started", transformer, "model.init_from=elsewhere")
    store(
        ours / "recipe.yaml",
        "# Resolved recipe.\n# Command: probtrans train ours `x`\nversion: 1\n# Command: not this\n",
    )
    found = rows(ours, worse, better, other, started)
    assert rival_of(found[[row["recipe"] for row in found].index("ours")], found) == next(
        row for row in found if row["recipe"] == "better"
    )
    code, out, err = print_table(ours, worse, better, other, started, "-f", "beside")
    assert (code, err) == (0, "")
    header, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if "---" not in line
    )
    by_name = {cell[0]: dict(zip(header, cell, strict=True)) for cell in lines}
    assert list(by_name) == ["ours", "other", "started", "worse"]
    assert by_name["ours"] == {
        "recipe": "ours", "task": "mlm", "metric": "perplexity", "ours": "33.00", "transformer": "40.00",
        "parameters": "1,234,567 / 1,234,567", "time": "0:01:01 / 0:01:03", "seeds": "1 / 1",
        "command": r"probtrans train ours \`x\`",
    }  # fmt: skip
    assert (by_name["worse"]["ours"], by_name["worse"]["transformer"]) == ("", "20.00")
    assert (by_name["worse"]["seeds"], by_name["worse"]["command"]) == ("1", "")


def test_trees_stand_beside_those_that_need_no_training(
    tmp_path: Path, print_table: Callable[..., tuple[int, str, str]]
) -> None:
    """The floor's scores have no spread over seeds; a transformer's trees stand behind the model's."""
    own, other = trees(0.6, 0.5), trees(0.4, 0.3)
    own["floors"] = {"next_word": trees(0.8), "untrained_bias": trees(0.58, 0.41)}
    folders = [
        *(run(tmp_path / f"ours{seed}", scores(30, 33, trees=own), "name=ours", f"seed={seed}") for seed in (0, 1)),
        run(tmp_path / "theirs", scores(28, 40, trees=other), "name=theirs", "model={kind: transformer}"),
    ]
    (folders[0] / "metrics.jsonl").write_text('{"words_per_second": 1500}\n', encoding="utf-8")
    code, out, err = print_table(*folders, "-f", "beside")
    assert (code, err) == (0, "")
    header, _, line = ([cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines())
    cells = dict(zip(header, line, strict=True))
    assert cells["UAS"] == "50.00 ± 0.00 % / 30.00 %"
    assert cells["UUAS"] == "60.00 ± 0.00 % / 40.00 %"
    assert cells["untrained bias, UAS"] == "41.00 %"
    assert cells["untrained bias, UUAS"] == "58.00 %"
    assert cells["words/s"] == "1,500"
    _, out, _ = print_table(*folders, "--json")
    rivals = {row["recipe"]: row["rival"] for row in json.loads(out)["rows"]}
    assert rivals == {"ours": [str(folders[2])], "theirs": None}


def test_a_rival_takes_at_most_twice_as_long(tmp_path: Path) -> None:
    """If there is such a one; trainings of ten minutes and of an hour can be given together."""
    transformer = "model={kind: transformer}"
    short = run(tmp_path / "short", scores(30, 33), "name=short", seconds=600)
    long = run(tmp_path / "long", scores(20, 23), "name=long", seconds=3600)
    untimed = run(tmp_path / "untimed", scores(20, 23), "name=untimed")
    soon = run(tmp_path / "soon", scores(31, 34), "name=soon", transformer, seconds=1200)
    late = run(tmp_path / "late", scores(21, 24), "name=late", transformer, seconds=1201)
    found = rows(short, long, untimed, soon, late)

    def rival(name: str, given: list[dict[str, Any]]) -> str | None:
        beside_it = rival_of(next(row for row in given if row["recipe"] == name), given)
        return None if beside_it is None else beside_it["recipe"]

    assert [rival(name, found) for name in ("short", "long", "untimed")] == ["soon", "late", "late"]
    assert rival("short", rows(short, late)) == "late"


def test_a_higher_score_is_the_better_rival(tmp_path: Path) -> None:
    tagging = ("task={kind: tagging, column: xpos}",)
    ours = run(tmp_path / "pos-ewt-a", scores(0.5, 0.5, "accuracy"), "name=pos-ewt-a", *tagging)
    rivals = [
        run(tmp_path / f"t{dev}", scores(dev, 0.5, "accuracy"), f"name=t{dev}", "model={kind: transformer}", *tagging)
        for dev in (0.7, 0.9, 0.8)
    ]
    found = rows(ours, *rivals)
    rival = rival_of(next(row for row in found if row["recipe"] == "pos-ewt-a"), found)
    assert rival is not None
    assert rival["recipe"] == "t0.9"
    assert "90.96 ± 0.10 %" in beside({"rows": found, "means": []})


def test_a_perplexity_stands_beside_one_over_the_same_words(tmp_path: Path) -> None:
    """Of a smaller vocabulary, or of more hidden words, it is another quantity; a share of right answers is not."""
    transformer = "model={kind: transformer}"
    ours = run(tmp_path / "ours", scores(30, 33), "name=ours")
    smaller = run(tmp_path / "smaller", scores(3, 3), "name=smaller", transformer, "data.vocabulary.max_size=20")
    hidden = run(tmp_path / "hidden", scores(4, 4), "name=hidden", transformer, "task.mlm.rate=0.5")
    same = run(tmp_path / "same", scores(40, 43), "name=same", transformer)
    found = {row["recipe"]: row for row in rows(ours, smaller, hidden, same)}
    assert rival_of(found["ours"], [*found.values()]) is found["same"]
    tagging = ("task={kind: tagging, column: xpos}",)
    ours = run(tmp_path / "tagger", scores(0.3, 0.3, "accuracy"), "name=tagger", *tagging)
    other = ("name=other", transformer, "data.vocabulary.max_size=20", *tagging)
    theirs = run(tmp_path / "other", scores(0.4, 0.4, "accuracy"), *other)
    found = {row["recipe"]: row for row in rows(ours, theirs)}
    assert rival_of(found["tagger"], [*found.values()]) is found["other"]


def test_scores_of_dev_are_called_so(tmp_path: Path) -> None:
    ours = run(tmp_path / "ours", {"dev": scores(30, 33)["dev"]}, "name=ours", "data.test=null")
    theirs = run(tmp_path / "theirs", scores(28, 40), "name=theirs", "model={kind: transformer}")
    text = beside({"rows": rows(ours, theirs), "means": []})
    assert re.search(r"\| 30\.00 \(dev\) \|", text)
    assert re.search(r"\| +40\.00 \|", text)
