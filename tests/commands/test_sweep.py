"""`train --sweep` and its picture, and `train --check-width`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from finished_runs import run, scores
from support import Invoke, refused

from probtrans_cli.commands.sweep import Grid
from probtrans_cli.errors import UsageError
from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.reports.sweeps import sweep_report

SVG = "{http://www.w3.org/2000/svg}"
QUICK = ("train.steps=2", "data.test=null", "eval.trees=false", "model.base_width=8", "model.dropout=0")


def test_a_sweep_is_a_run_for_each_point_and_shards_share_them(fresh: Path, invoke: Invoke) -> None:
    grid = ("--sweep", "optim.lr=[1e-3, 0.1]", "--sweep", "width=[8, 16]")
    done: list[dict[str, Any]] = []
    for shard in ("1/2", "2/2"):
        ran = invoke("train", "tiny.yaml", *QUICK, *grid, "--shard", shard, "--json").ok
        done += ran.json["points"]
    names = [f"runs/tiny-lr={rate}-width={width}" for rate in ("0.001", "0.1") for width in (8, 16)]
    assert sorted(point["run"] for point in done) == sorted(names)
    nothing = {"name": "tiny", "metric": "perplexity", "grid": {"optim.lr": [], "width": []}}
    assert "next" not in sweep_report(nothing | {"points": []})
    report = sweep_report(nothing | {"points": done})
    assert "next: probtrans table runs/tiny-lr=* -f sweep > sweep.svg\n" in report
    recipes = [load_recipe(name).model for name in names[:2]]
    assert [(model.labels, model.channels, model.base_width) for model in recipes] == [(8, 2, 8), (16, 4, 8)]  # type: ignore[attr-defined]
    ran = invoke("table", *names, "-f", "sweep")
    picture = ET.fromstring(ran.out)
    assert len(picture.findall(f"{SVG}circle")) == 4
    assert [text.text for text in picture.findall(f"{SVG}text")][-2:] == ["width 8", "width 16"]


def test_a_rate_that_is_too_high_does_not_end_a_sweep(fresh: Path, invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", *QUICK, "optim.clip=null", "--sweep", "optim.lr=[1e30, 1e-3]").ok
    first, second = re.findall(r"^.* runs/tiny-lr=\S+$", ran.out, re.M)
    assert "not finite" in first
    assert "not finite" not in second


def test_points_are_drawn_in_the_order_of_the_grid() -> None:
    grid = Grid.of(["optim.lr=[1, 2, 3]", "model.dropout=[0.0, 0.1]"])
    points = grid.points(None, 0)
    assert [tuple(point.values()) for point in points[:3]] == [(1, 0.0), (1, 0.1), (2, 0.0)]
    drawn = grid.points(3, seed=5)
    assert drawn == [point for point in points if point in drawn]
    assert drawn == grid.points(3, seed=5)


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        (["optim.lr"], "not a key with a list"),
        (["optim.lr=0.1"], "not a key with a list"),
        (["optim.lr=[0.1"], "not a key with a list"),
        (["optim.lr=[]"], "not a key with a list"),
        (["optim.lr=[1]", "optim.lr=[2]"], "names optim.lr twice"),
        (["optim.lr=[1.0, 1]"], "a value twice"),
        (["width=[1.5]"], "whole numbers"),
    ],
)
def test_what_is_no_axis_is_refused(axes: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Grid.of(axes)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--shard", "1/2"], "--shard goes with --sweep"),
        (["--random", "2"], "--random goes with --sweep"),
        (["--check-width", "8,16"], "--check-width goes with --dry-run"),
        (["--dry-run", "--picture", "x.svg"], "--picture goes with --check-width"),
        (["--dry-run", "--check-width", "8"], "not a list of widths"),
        (["--dry-run", "--check-width", "8,8"], "not a list of widths"),
        (["--dry-run", "--check-width", "8,10"], "model.channels would be 2.5 in place of 2"),
        (["--sweep", "width=[8, 16]", "--sweep", "model.channels=[2]"], "names width and model.channels, which grows"),
        (["model={kind: stacked, lower: {kind: transformer}}", "--sweep", "width=[8]"], "no rule for width"),
    ],
)
def test_options_that_do_not_fit_are_refused(fresh: Path, invoke: Invoke, arguments: list[str], reason: str) -> None:
    refused(invoke("train", "tiny.yaml", *arguments), 2, reason)


def test_the_coordinate_check_has_a_table_and_a_picture(fresh: Path, invoke: Invoke) -> None:
    check = ("--dry-run", "--check-width", "16,8", "--picture", "x.svg")
    ran = invoke("train", "tiny.yaml", *QUICK, *check, "--json").ok
    result = ran.json
    assert result["widths"] == [8, 16]
    assert {"M_H 1", "M_Z 2", "scores of words"} <= result["activations"].keys()
    first = result["activations"]["M_Z 1"]
    assert len(first["change"]) == len(first["size"]) == 2
    circles = ET.parse("x.svg").getroot().findall(f"{SVG}circle")
    assert len(circles) == 2 * len(result["activations"])
    assert not Path("runs").exists()
    for unwritable in ("runs/none/x.svg", "x.svg.gz"):
        ran = invoke("train", "tiny.yaml", *QUICK, *check[:-1], unwritable)
        refused(ran, 2, "--picture")
        assert "updates" not in ran.err, "it is refused before any update"
    model = "model={kind: transformer, width: 8, inner: 8, heads: 2, layers: 1, base_width: 8}"
    ran = invoke("train", "tiny.yaml", model, "--dry-run", "--check-width", "8,16")
    assert re.search(r"^ *feed-forward 1 .*[+-]\d\.\d\d", ran.out, re.M), ran.err


def test_models_with_and_without_a_base_are_pictures_side_by_side(tmp_path: Path, invoke: Invoke) -> None:
    folders = [
        run(tmp_path / f"{base}-{width}-{rate}", scores(width / rate, 1.0), f"model.labels={width}", f"optim.lr={rate}",
            f"model.base_width={base}")
        for base in ("null", "8") for width in (8, 16) for rate in (0.1, 0.2, 0.4)
    ]  # fmt: skip
    picture = ET.fromstring(invoke("table", *map(str, folders), "-f", "sweep").out)
    titles = [text.text for text in picture.findall(f"{SVG}text[@class='title']")]
    assert titles[1:] == ["no base width", "base width 8"]  # what they have in common fits on no panel
    names = [text.text for text in picture.findall(f"{SVG}text") if "width" in (text.text or "")]
    assert [name for name in names if name.startswith("width")] == ["width 8", "width 16"]
    assert [circle.get("r") for circle in picture.findall(f"{SVG}circle")].count("6") == 4  # the best of each curve
    refused(invoke("table", str(folders[0]), "-f", "sweep"), 2, "there is no curve")
    more = run(tmp_path / "more", scores(3.0, 1.0), "model.labels=8", "optim.lr=0.1", "model.dropout=0.5")
    ran = invoke("table", *map(str, folders), str(more), "-f", "sweep")
    refused(ran, 2)
    assert re.search("more and .*null-8-0.1 have one width and one rate", ran.err)
