"""The verb `table`: which rows have a mean over their corpora, and of what."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finished_runs import run, scores, trees

from probtrans_cli.reports.table import table


def on(corpus: str, *overrides: str) -> tuple[str, ...]:
    """What trains and scores a tagger on another corpus."""
    files = (f"data.train={corpus}-train.conllu", f"data.test={corpus}-test.conllu")
    return (f"name=pos-{corpus}", "task={kind: tagging, column: xpos}", *files, *overrides)


def test_one_model_on_several_corpora_has_a_mean(tmp_path: Path, print_table: Callable[..., Any]) -> None:
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
    _, out, _ = print_table(*folders, other, "-f", "html")
    assert "mean of 3 (pos-a to pos-c)" in out


def test_a_mean_stands_beside_that_of_the_transformer(tmp_path: Path, print_table: Callable[..., Any]) -> None:
    folders = [
        run(tmp_path / f"{kind}-{corpus}", scores(0.5, accuracy, "accuracy"), *on(corpus, f"model={{kind: {kind}}}"))
        for kind, both in {"probabilistic": (0.5, 0.7), "transformer": (0.3, 0.4)}.items()
        for corpus, accuracy in zip("ab", both, strict=True)
    ]
    _, out, _ = print_table(*folders, "-f", "beside")
    header, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines())
    cells = dict(zip(header, lines[-1], strict=True))
    assert (cells["recipe"], cells["ours"], cells["transformer"]) == (
        "mean of 2 (pos-a to pos-b)",
        "60.00 %",
        "35.00 %",
    )
    _, out, _ = print_table(*folders, "--json")
    rivals = {row["model"]: row["rival"] for row in json.loads(out)["means"]}
    assert rivals == {"probabilistic": [str(folder) for folder in folders[2:]], "transformer": None}


def test_perplexities_of_several_corpora_have_no_mean_but_their_trees_do(
    tmp_path: Path, print_table: Callable[..., Any]
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
    code, out, err = print_table(*folders, "--json")
    assert (code, err) == (0, "")
    for mean in json.loads(out)["means"]:
        assert mean["test"] == {
            "uas": {"mean": pytest.approx(0.25), "sd": None},
            "uuas": {"mean": pytest.approx(0.55), "sd": None},
            "floor_uas": {"mean": pytest.approx(0.2), "sd": None},
            "floor_uuas": {"mean": pytest.approx(0.4), "sd": None},
        }
        assert mean["rival"] is None


def test_a_mean_is_over_the_splits_that_all_corpora_have(tmp_path: Path, print_table: Callable[..., Any]) -> None:
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


def test_perplexities_alone_have_no_mean(tmp_path: Path) -> None:
    folders = [run(tmp_path / name, scores(30, 33), f"name={name}", f"data.test={name}.conllu") for name in "ab"]
    assert table([str(folder) for folder in folders])["means"] == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (on("a"), on("b", "seed=1")),
        (on("a"), on("b", "train.batch_words=77")),
        (on("a"), on("b", "data.vocabulary.min_count=3")),
        (on("a"), on("a", "name=pos-twice")),
        (on("a"), on("a", "name=pos-less", "data.train=less.conllu")),
        (on("a"), on("b", "data.select.words=3")),
    ],
    ids=[
        "no seed in both",
        "another setting",
        "another setting of data",
        "the same corpus",
        "the same test set",
        "another selection",
    ],
)
def test_what_is_not_the_same_model_on_other_corpora_has_no_mean(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    folders = [
        run(tmp_path / str(number), scores(0.5, 0.5, "accuracy"), *overrides)
        for number, overrides in enumerate((first, second))
    ]
    result = table([str(folder) for folder in folders])
    assert len(result["rows"]) == 2
    assert result["means"] == []


def test_a_run_without_a_test_set_is_no_further_corpus(tmp_path: Path) -> None:
    """The same model on the same text, once with a test set and once without."""
    both = run(tmp_path / "both", scores(0.5, 0.6, "accuracy"), *on("a"))
    alone = run(tmp_path / "alone", {"dev": scores(0.5, 0.6, "accuracy")["dev"]}, *on("a", "data.test=null", "name=b"))
    assert table([str(both), str(alone)])["means"] == []
