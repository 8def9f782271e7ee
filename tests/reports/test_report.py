"""`report.html` of a run and the page of `table -f html`: what is in them, from where, and how they behave."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Invoke, workplace

from probtrans_cli.recipe.source import load_recipe
from probtrans_cli.reports.charts import BOTTOM, HEIGHT, LEFT, MOST_POINTS, RIGHT, TOP, WIDTH, Curve, chart
from probtrans_cli.reports.pages import CELL, MOST_LABELS, SIDE, confusion_matrix, worst_confusions, write_report
from probtrans_cli.reports.scores import shown

pytestmark = pytest.mark.usefixtures("pages")

HOSTILE = "</script><script>window.hacked=1</script>"


class Page(HTMLParser):
    """The texts of a page by the element that they stand in, all attributes, and the JSON of its charts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.found: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str, str | None]] = []
        self.charts: list[Any] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag != "meta":
            self.open.append("json" if ("type", "application/json") in attrs else tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        where = self.open[-1] if self.open else ""
        self.found.setdefault(where, []).append(data)
        if where in ("td", "th"):
            self.rows[-1][-1] += data
        if where == "json":
            self.charts.append(json.loads(data))


def scores_of(run: Path) -> Any:
    return json.loads((run / "checkpoints" / "best" / "eval.json").read_text("utf-8"))


def lines_of(run: Path, split: str) -> list[Any]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    return [line for line in lines if line["split"] == split]


@pytest.fixture(scope="module")
def tagger(trained: Path) -> Path:
    return trained / "runs" / "tagger"


@pytest.fixture(scope="module")
def page(tagger: Path) -> Page:
    return Page((tagger / "report.html").read_text("utf-8"))


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a new folder with a corpus and its recipe."""
    monkeypatch.chdir(workplace(tmp_path))


def test_a_taggers_report(tagger: Path, page: Page) -> None:
    assert not page.open
    assert page.found["h1"] == ["tagger"]
    assert page.found["h2"] == ["Scores", "Learning curves", "Confusions on dev", "Recipe", "Files"]
    scores, rows = scores_of(tagger), {row[0]: row[1:] for row in page.rows if row}
    accuracy, (low, high) = scores["test"]["accuracy"], scores["test"]["accuracy_interval"]
    assert rows["accuracy"][1] == f"{shown('accuracy', accuracy)} ({100 * low:.1f} to {100 * high:.1f})"
    assert rows["loss"] == [shown("loss", scores[split]["loss"]) for split in ("dev", "test")]
    assert not any(name.startswith("UUAS") for name in rows)  # nobody has asked a tagger for trees
    assert "finished" in page.found["dd"]
    assert (tagger / "recipe.yaml").read_text("utf-8") in page.found["pre"]


def test_it_tells_the_temperature(tagger: Path, page: Page) -> None:
    stored = scores_of(tagger)["temperature"]
    (told,) = [text for text in page.found["p"] if text.startswith("Temperature of dev")]
    for name, digits in (("value", 3), ("nll", 4), ("nll_tempered", 4)):
        assert f"{stored[name]:.{digits}f}" in told


def test_its_curves_are_those_of_metrics(tagger: Path, page: Page) -> None:
    train, dev = lines_of(tagger, "train"), lines_of(tagger, "dev")
    loss, accuracy, rate, speed = page.charts
    assert [curve["name"] for curve in loss["curves"]] == ["train", "dev"]
    assert loss["curves"][0]["steps"] == [line["step"] for line in train]
    assert loss["curves"][0]["shown"] == [shown("loss", line["loss"]) for line in train]
    assert loss["curves"][1]["shown"] == [shown("loss", line["loss"]) for line in dev]
    assert accuracy["curves"][0]["shown"] == [shown("accuracy", line["accuracy"]) for line in dev]
    assert rate["curves"][0]["shown"] == [shown("lr", line["lr"]) for line in train]
    assert speed["curves"][0]["steps"] == [line["step"] for line in train]


def test_its_confusions_are_those_of_side_by_side_tags(
    trained: Path, tagger: Path, invoke: Invoke, tmp_path: Path
) -> None:
    out = tmp_path / "out.conllu"
    ran = invoke("eval", str(tagger), str(trained / "dev.conllu"), "--predictions", str(out))
    assert ran.code == 0, ran.err
    counted: Counter[tuple[str, str]] = Counter()
    for line in out.read_text("utf-8").splitlines():
        if re.match(r"[0-9]+\t", line):
            cells = line.split("\t")
            gold = dict(entry.split("=", 1) for entry in cells[9].split("|")).get("GoldXPOS", cells[4])
            counted[gold, cells[4]] += 1
    table = scores_of(tagger)["dev"]["confusions"]
    found = {(gold, given): number for gold, row in table.items() for given, number in row.items()}
    assert sum(found.values()) == sum(counted.values())
    assert {pair: n for pair, n in found.items() if "(" not in pair[0]} == {
        pair: n for pair, n in counted.items() if pair[0] in table
    }


@pytest.mark.usefixtures("fresh")
def test_an_entity_recogniser_has_its_types(invoke: Invoke) -> None:
    text = "Ann B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n\nOslo B-LOC\nsaw O\nAnn B-PER\n\n"
    for name in ("a", "b"):
        Path(f"{name}.txt").write_text(text, encoding="utf-8")
    data = "data={train: a.txt, dev: b.txt, format: columns, columns: {entities: iob2}}"
    ran = invoke("train", "tiny.yaml", "name=names", "task.kind=ner", data, "train.epochs=1")
    assert ran.code == 0, ran.err
    page = Page(Path("runs/names/report.html").read_text("utf-8"))
    assert "Entities by type, on dev" in page.found["h2"]
    types = scores_of(Path("runs/names"))["dev"]["types"]
    assert types.keys() == {"PER", "LOC"}
    keys = ("f1", "precision", "recall", "gold", "predicted", "right")
    for name, row in types.items():
        assert [name, *(shown(key, row[key]) for key in keys)] in page.rows
    assert types["LOC"]["gold"] == 2


@pytest.mark.usefixtures("fresh")
def test_a_run_that_failed_shows_how_far_it_came(invoke: Invoke) -> None:
    ran = invoke("train", "tiny.yaml", "optim.lr=1e25", "optim.clip=null", "train.epochs=30")
    assert ran.code == 5, ran.err
    page = Page(Path("runs/tiny/report.html").read_text("utf-8"))
    assert any(text.startswith("exit code 5: ") and "not finite" in text for text in page.found["dd"])
    assert {"Learning curves", "Recipe"} <= {*page.found["h2"]}


@pytest.mark.usefixtures("fresh")
def test_a_report_that_cannot_be_written_ends_no_training(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    for error in (OSError(28, "No space left on device"), KeyError("trees")):

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("probtrans_cli.commands.train.write_report", fails)
        ran = invoke("train", "tiny.yaml", "train.epochs=1", "--overwrite")
        assert ran.code == 0, ran.err
        assert "no report.html in runs/tiny" in ran.err
    assert json.loads(Path("runs/tiny/exit.json").read_text("utf-8"))["exit"] == 0


def test_nothing_in_a_run_is_markup(trained: Path, tmp_path: Path) -> None:
    """Names of labels, of the run and of its files, and a broken file of metrics."""
    table = {HOSTILE: {HOSTILE: 2, "<img src=x>": 1}, "\u202eabc": {HOSTILE: 3}}
    run = tmp_path / "run"
    best = run / "checkpoints" / "step-000002"
    best.mkdir(parents=True)
    (run / "checkpoints" / "best").symlink_to("step-000002")
    recipe = load_recipe(str(trained / "tiny.yaml")).resolved()
    (run / "recipe.yaml").write_text(f"# {HOSTILE}\x1b[31m\n", encoding="utf-8")
    (run / "exit.json").write_text(json.dumps({"exit": 3, "reason": HOSTILE}), encoding="utf-8")
    (run / "metrics.jsonl").write_text(
        '{"step": 1, "split": "train", "loss": NaN, "lr": "x"}\n[]\n{"step": 2, "split": "train", "loss": 2}\n{"st',
        encoding="utf-8",
    )
    stored = {"dev": {"accuracy": 0.5, HOSTILE: 1.0, "confusions": table}}
    (best / "eval.json").write_text(json.dumps(stored), encoding="utf-8")
    (best / "config.json").write_text("{}", encoding="utf-8")
    write_report(run, recipe)
    text = (run / "report.html").read_text("utf-8")
    page = Page(text)
    assert not page.open
    assert text.count("<script") == 2  # one chart, and the script of the page
    assert not any(name.startswith("on") or value == "x" for _, name, value in page.attributes)
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert [chart["curves"][0]["steps"] for chart in page.charts] == [[2]]


def test_nothing_is_fetched(trained: Path) -> None:
    text = (trained / "runs" / "tiny" / "report.html").read_text("utf-8")
    page = Page(text)
    (policy,) = [v for tag, name, v in page.attributes if tag == "meta" and name == "content" and "default" in str(v)]
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert {value for _, name, value in page.attributes if name in ("src", "href")} == {
        "trees/index.html", "log.txt", "metrics.jsonl",
    }  # fmt: skip
    assert not any(name == "style" for _, name, _ in page.attributes)


# --- curves -----------------------------------------------------------------------------------------------------------


def drawn(svg: str) -> np.ndarray:
    path = re.search(r'<path class="curve [^"]*" d="M([^"]*)"', svg)[1]
    return np.array([[float(x) for x in point.split()] for point in path.split("L")])


def ticks(svg: str) -> dict[str, tuple[float, float]]:
    pattern = r'<text class="tick" x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>([^<]*)</text>'
    return {text: (float(x), float(y)) for x, y, text in re.findall(pattern, svg)}


def test_points_stand_where_the_axes_say() -> None:
    """The places of values, interpolated between the ticks' places."""
    steps, values = np.array([0.0, 250, 1000]), np.array([4.0, 2.5, 1.0])
    svg = chart("Loss", [Curve("train", steps, values)], score="loss")
    found = ticks(svg)
    assert {"1", "2", "3", "4", "0", "200", "1,000"} <= found.keys()
    up = np.interp(values, [1, 2, 3, 4], [found[name][1] for name in "1234"])
    across = np.interp(steps, [0, 200, 1000], [found[name][0] for name in ("0", "200", "1,000")])
    assert np.abs(drawn(svg) - np.column_stack([across, up])).max() < 0.02
    left, top = drawn(svg).min(axis=0)
    right, bottom = drawn(svg).max(axis=0)
    assert left == LEFT
    assert right <= WIDTH - RIGHT
    assert TOP <= top <= bottom <= HEIGHT - BOTTOM


def test_large_ratios_are_logarithmic() -> None:
    svg = chart("Perplexity", [Curve("dev", np.arange(4.0), np.array([1e4, 1e3, 100.0, 10]))], score="perplexity")
    assert "(logarithmic)" in svg
    assert np.diff(drawn(svg)[:, 1]) == pytest.approx([drawn(svg)[1, 1] - drawn(svg)[0, 1]] * 3, abs=0.02)
    assert {"10", "100", "1,000", "10,000"} <= ticks(svg).keys()
    assert "logarithmic" not in chart("Rate", [Curve("", np.arange(3.0), np.array([0.0, 1, 1e-6]))], zero=True)


@pytest.mark.parametrize("values", [[2.0], [2.0, 2.0], [0.0, 0.0], [-3.0, -3.0], [1e-300, 2e-300], [1e300, -1e300]])
def test_any_values_have_axes(values: list[float]) -> None:
    svg = chart("Loss", [Curve.of("train", enumerate(values, start=1))], score="loss")
    if abs(values[0]) < 1e300:
        assert np.isfinite(drawn(svg)).all()
        assert len(ticks(svg)) >= 3
        assert ">nan<" not in svg
    else:
        assert svg == ""


@pytest.mark.parametrize("values", [[0.0, 0.0], [1.0, 1.0], [0.2, 1.0], [0.5]])
def test_shares_have_axes_of_shares(values: list[float]) -> None:
    svg = chart("x", [Curve.of("dev", enumerate(values, start=1))], score="accuracy")
    shares = [float(text.removesuffix(" %")) for text in ticks(svg) if "%" in text]
    assert len(shares) >= 2
    assert 0 <= min(shares) <= max(shares) <= 100


def test_many_points_are_thinned_to_means() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    curve = Curve.of("train", enumerate(values))
    assert len(curve.steps) == MOST_POINTS
    assert curve.values == pytest.approx(values.reshape(MOST_POINTS, -1).mean(axis=1))
    assert curve.steps[0] == pytest.approx(np.mean(range(250)))


def test_what_is_no_number_is_left_out() -> None:
    curve = Curve.of("train", [(1, 2.0), (2, float("nan")), (3, None), (4, "x"), (5, True), (6, float("inf")), (7, 3)])
    assert curve.steps.tolist() == [1, 7]
    assert chart("Loss", [Curve.of("train", [])]) == ""


# --- confusions -------------------------------------------------------------------------------------------------------


def test_the_matrix_has_every_pair() -> None:
    table = {"A": {"A": 90, "B": 10}, "B": {"A": 1, "B": 19}}
    svg = confusion_matrix(table)
    assert re.findall(r"<title>([^<]*)</title>", svg) == [
        "A predicted as A: 90 (90.0 % of A)", "A predicted as B: 10 (10.0 % of A)",
        "B predicted as A: 1 (5.0 % of B)", "B predicted as B: 19 (95.0 % of B)",
    ]  # fmt: skip
    worst = Page(worst_confusions(table)).rows
    assert worst[1:] == [["A", "B", "10", "10.0 %", "90.9 %"], ["B", "A", "1", "5.0 %", "9.1 %"]]
    assert confusion_matrix({"A": {"A": 3}}) == ""
    assert "none" in worst_confusions({"A": {"A": 3}})


def test_long_labels_are_told_apart_and_told_whole() -> None:
    """Morphological features, which begin alike."""
    first, second = "Case=Nom|Number=Plur|Person=3", "Case=Nom|Number=Sing|Person=3"
    table = {first: {first: 5, second: 3}, second: {second: 4}}
    svg = confusion_matrix(table)
    labels = re.findall(r'text-anchor="end">([^<]*)</text>', svg)
    assert len(set(labels)) == 2
    assert f"<title>{first} predicted as {second}: 3 (37.5 % of {first})</title>" in svg
    assert Page(worst_confusions(table)).rows[1][:2] == [first, second]


def test_rare_labels_stand_together() -> None:
    """A thousand labels: the number of cells stays that of the frequent ones."""
    table = {f"T{i:04}": {f"T{i:04}": 2000 - i, f"T{(i + 1) % 1000:04}": 1} for i in range(1000)}
    svg = confusion_matrix(table)
    assert len(re.findall("<title>", svg)) <= MOST_LABELS**2
    total = sum(int(number.replace(",", "")) for number in re.findall(r": ([0-9,]+) \(", svg))
    assert total == sum(sum(row.values()) for row in table.values())
    assert f'class="wrong" x="{SIDE + 39 * CELL}"' in svg  # right and wrong ones of the rest together


# --- several runs -----------------------------------------------------------------------------------------------------


def test_a_table_as_a_page(trained: Path, invoke: Invoke) -> None:
    runs = [str(trained / "runs" / name) for name in ("tiny", "tagger")]
    ran = invoke("table", *runs, "-f", "html")
    assert ran.code == 0, ran.err
    page = Page(ran.out)
    assert not page.open
    assert page.found["h2"] == ["Scores", "Learning curves"]
    assert [row[0] for row in page.rows] == ["recipe", "tiny", "tagger"]
    cells = [cell.strip() for cell in invoke("table", *runs).out.splitlines()[2].strip("|").split("|")]
    assert page.rows[1] == cells
    perplexity, accuracy, loss, *rest = page.charts
    assert len(rest) == 3
    assert [curve["name"] for curve in loss["curves"]] == [run if len(run) <= 80 else run[:79] + "…" for run in runs]
    assert len(perplexity["curves"]) == len(accuracy["curves"]) == 1
    assert invoke("table", *runs, "-f", "html", "--json").json["rows"]


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser: Any, tagger: Path) -> Iterator[Any]:
    browser.get_log("browser")
    browser.get((tagger / "report.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []  # nothing is refused by the page's policy, nothing has failed
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_pointing_at_a_curve_tells_its_values(opened: Any, tagger: Path) -> None:
    from selenium.webdriver import ActionChains

    line, *_, last = lines_of(tagger, "train")
    picture = opened.find_element("css selector", ".chart svg")
    told = opened.find_element("css selector", ".chart .told")
    ActionChains(opened).move_to_element_with_offset(picture, int(picture.size["width"] / 2) - 16, 0).perform()
    assert told.text.startswith(f"update {last['step']}: train {shown('loss', last['loss'])}, dev ")
    assert opened.execute_script("return document.querySelector('.cursor').getAttribute('d')") != ""
    opened.execute_script("arguments[0].focus()", picture)
    ActionChains(opened).send_keys("\ue011").perform()  # Home
    assert told.text.startswith(f"update {line['step']}: train {shown('loss', line['loss'])}")


def test_it_fits_a_narrow_window(opened: Any) -> None:
    opened.set_window_size(500, 900)
    try:
        assert opened.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        opened.set_window_size(1300, 1000)
