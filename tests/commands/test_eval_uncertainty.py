"""`eval --uncertainty`, `--ood`, `--dropout-samples` and several runs: figures beside loops, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Invoke, assert_near, refused, train_each, workplace

import probtrans_cli
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.statistics import uncertainty

OOD = "zxq vbn .\nqqq www eee rrr\nuuu\n"


@pytest.fixture(scope="module")
def taggers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with taggers of two seeds, one with other labels, one of other words, and one without dropout."""
    folder = workplace(tmp_path_factory.mktemp("taggers"))
    (folder / "less.conllu").write_text((folder / "dev.conllu").read_text("utf-8"), encoding="utf-8")
    base = ["task={kind: tagging, column: xpos}", "train.epochs=2", "optim.lr=0.1"]
    runs = {
        "one": base, "two": [*base, "seed=9"], "dry": [*base, "model.dropout=0.0"],
        "upos": ["task={kind: tagging, column: upos}", "train.epochs=1"],
        "words": [*base, "data.vocabulary={min_count: 3}", "train.epochs=1"],
        "warm": [*base, "predict.temperature=true"],
        "less": [*base, "data={train: less.conllu, dev: dev.conllu, test: test.conllu}", "train.epochs=1"],
    }  # fmt: skip
    return train_each(folder, runs)


@pytest.fixture
def there(taggers: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(taggers)
    return taggers


def by_loop(run: str, file: str, temperature: float = 1.0) -> dict[str, Any]:
    """Confidence, right, loss and Brier score of every word, from what `analyze` says of all labels."""
    model = probtrans_cli.load(run)
    names = list(model.labels["xpos"])
    rows: dict[str, list[float]] = {"confidence": [], "right": [], "nll": [], "brier": [], "entropy": []}
    for given in read_conllu(Path(file).read_text("utf-8").splitlines(), file):
        (found,) = model.analyze([given.words], top=len(names))
        assert found.prediction is not None
        for gold, several in zip(given.tags["xpos"], found.prediction["tag_alternatives"], strict=True):
            raw = {one["tag"]: one["probability"] ** (1 / temperature) for one in several}
            chances = {name: value / sum(raw.values()) for name, value in raw.items()}
            best = max(chances, key=lambda name: chances[name])
            rows["confidence"].append(chances[best])
            rows["right"].append(best == gold)
            rows["brier"].append(sum((chances[name] - (name == gold)) ** 2 for name in names))
            rows["entropy"].append(-sum(p * math.log(p) for p in chances.values() if p))
            if gold in chances:
                rows["nll"].append(-math.log(chances[gold]))
    return {name: np.array(values) for name, values in rows.items()}


def test_figures_beside_a_loop_over_words(there: Path, invoke: Invoke) -> None:
    plain = invoke("eval", "runs/one", "--json").scores
    scores = invoke("eval", "runs/one", "--uncertainty", "--json").scores
    told = scores.pop("uncertainty")
    assert_near(scores, plain)
    rows = by_loop("runs/one", "test.conllu")
    right = rows["right"].astype(bool)
    assert told["number"] == len(right)
    assert told["nll"] == pytest.approx(rows["nll"].mean(), rel=1e-4)
    assert told["nll"] == pytest.approx(plain["loss"], rel=1e-4)
    for name in ("brier", "entropy"):
        assert told[name] == pytest.approx(rows[name].mean(), rel=1e-4)
    assert told["ece"] == pytest.approx(uncertainty.calibration_error(rows["confidence"], right), abs=2e-3)
    assert told["aurc"] == pytest.approx(uncertainty.risk_coverage_area(rows["confidence"], right), abs=1e-4)
    assert told["error_auroc"] == pytest.approx(
        uncertainty.auroc(1 - rows["confidence"][right], 1 - rows["confidence"][~right]), abs=1e-4
    )
    assert {"mutual_information", "expected_entropy", "error_auroc_mi"}.isdisjoint(told)
    assert sum(one["number"] for one in told["reliability"]["mass"]) == told["number"]
    assert 0.0 < told["error_auroc_latent_labels"] < 1.0
    assert 0.0 < told["error_auroc_heads"] < 1.0
    assert 0.0 < told["arc_error_auroc"] < 1.0


def test_the_temperature_stands_beside_the_plain_figures(there: Path, invoke: Invoke) -> None:
    figures = invoke("eval", "runs/one", "--uncertainty", "--split", "dev", "--json").scores["uncertainty"]
    stored = json.loads(Path("runs/one/checkpoints/best/eval.json").read_text("utf-8"))["temperature"]
    assert figures["temperature"] == stored["value"]
    assert figures["with_temperature"]["nll"] == pytest.approx(stored["nll_tempered"], rel=1e-5)
    assert figures["nll"] == pytest.approx(stored["nll"], rel=1e-5)
    rows = by_loop("runs/one", "dev.conllu", stored["value"])
    assert figures["with_temperature"]["nll"] == pytest.approx(rows["nll"].mean(), rel=1e-4)
    error = uncertainty.calibration_error(rows["confidence"], rows["right"].astype(bool))
    assert figures["with_temperature"]["ece"] == pytest.approx(error, abs=2e-3)


def test_a_temperature_that_is_used_stands_beside_the_figures_without(there: Path, invoke: Invoke) -> None:
    """The same training: what is beside in one is what is predicted in the other, also by an exported folder."""
    plain, warm = (invoke("eval", run, "--uncertainty", "--json").scores for run in ("runs/one", "runs/warm"))
    assert warm["uncertainty"]["temperature"] == plain["uncertainty"]["temperature"]
    assert "with_temperature" not in warm["uncertainty"]
    for name in ("nll", "ece"):
        beside = warm["uncertainty"]["without_temperature"][name]
        assert beside == pytest.approx(plain["uncertainty"][name], rel=1e-4)
        assert warm["uncertainty"][name] == pytest.approx(plain["uncertainty"]["with_temperature"][name], rel=1e-4)
    assert warm["loss"] == pytest.approx(warm["uncertainty"]["nll"], rel=1e-4)
    assert warm["accuracy"] == plain["accuracy"]
    if not Path("exported").exists():
        assert invoke("export", "runs/warm", "exported").code == 0
    assert invoke("eval", "exported", "--uncertainty", "--json").scores == warm


def test_the_diagram(there: Path, invoke: Invoke) -> None:
    """Beside the scores, well-formed, with a text for those who do not see it, in light and in dark."""
    ran = invoke("eval", "runs/two", "--uncertainty")
    assert "uncertainty of" in ran.out
    assert "with temperature" in ran.out
    assert "diagram: " in ran.err
    stored = json.loads(Path("runs/two/checkpoints/eval-test.json").read_text("utf-8"))["scores"]["test"]
    picture = Path("runs/two/checkpoints/reliability.svg").read_text("utf-8")
    root = ET.fromstring(picture)
    texts = [element.text or "" for element in root if element.tag.endswith(("title", "desc"))]
    assert texts[0] == "Reliability on test"
    assert f"{stored['uncertainty']['number']:,} answers" in texts[1]
    bins = stored["uncertainty"]["reliability"]["width"]
    assert picture.count("<circle") == picture.count('class="count"') == len(bins)
    assert all(f"{one['accuracy']:.3f} ± {one['error']:.3f} right" in texts[1] for one in bins)
    assert "prefers-color-scheme:dark" in picture
    assert "<script" not in picture
    assert "href" not in picture


def test_another_text_is_told_by_its_doubt(there: Path, invoke: Invoke) -> None:
    (there / "other.txt").write_text(OOD, encoding="utf-8")
    scores = invoke("eval", "runs/one", "--ood", "other.txt", "--json").scores
    assert scores["ood"]["file"] == "other.txt"
    assert scores["ood"]["sentences"] == 3
    model = probtrans_cli.load("runs/one")

    def means(texts: list[Any]) -> np.ndarray:
        rows = []
        for one in model.analyze(texts, top=99):
            assert one.prediction is not None
            chances = [[each["probability"] for each in several] for several in one.prediction["tag_alternatives"]]
            rows.append(np.mean([-sum(p * math.log(p) for p in of_word if p) for of_word in chances]))
        return np.array(rows)

    test = [one.words for one in read_conllu(Path("test.conllu").read_text("utf-8").splitlines(), "test")]
    wanted = uncertainty.auroc(means(test), means([line.split() for line in OOD.splitlines()]))
    assert scores["ood"]["ood_auroc"] == pytest.approx(wanted, abs=1e-6)
    same = invoke("eval", "runs/one", "--ood", "test.conllu", "--json").scores
    assert same["ood"]["ood_auroc"] == pytest.approx(0.5)
    assert "other text told by the entropy" in invoke("eval", "runs/one", "--ood", "other.txt").out


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.select.words=30"], "1 of more than 30 words (data.select.words)"),
        (["data.longest=30"], "1 of more than 30 tokens (data.longest)"),
        (
            ["model={kind: transformer, width: 8, heads: 2, inner: 8, positions: {kind: absolute, rows: 40}}"],
            "1 of more tokens than the model has positions (40)",
        ),
    ],
)
def test_sentences_of_another_text_that_are_too_long_are_left_out(
    overrides: list[str], told: str, fresh: Path, invoke: Invoke
) -> None:
    """Those that the training's own splits would not have, or for which there are no positions."""
    base = ["task={kind: tagging, column: xpos}", "train.epochs=1"]
    assert invoke("train", "tiny.yaml", *base, *overrides).ok
    Path("other.txt").write_text(OOD + "word " * 105 + "\n", encoding="utf-8")
    ran = invoke("eval", "runs/tiny", "--ood", "other.txt", "--json")
    assert ran.scores["ood"]["sentences"] == 3
    assert f"--ood other.txt: sentences left out: {told}\n" in ran.err
    Path("long.txt").write_text("word " * 105 + "\n", encoding="utf-8")
    refused(invoke("eval", "runs/tiny", "--ood", "long.txt"), 3, "very sentence has more")
    if "longest" not in overrides[0]:
        ran = invoke("eval", "runs/tiny", "--ood", "other.txt", "--longest", "30", "--json")
        assert ran.scores["ood"]["sentences"] == 3
        refused(invoke("eval", "runs/tiny", "--ood", "long.txt", "--longest", "30"), 3, "very sentence has more")


def test_dropout_samples_and_ensembles_have_members(there: Path, invoke: Invoke) -> None:
    dropped = [invoke("eval", "runs/one", "--dropout-samples", "4", "--uncertainty", "--json").scores for _ in "ab"]
    assert dropped[0] == dropped[1]
    both = invoke("eval", "runs/one", "runs/two", "--uncertainty", "--json")
    assert both.json["members"] == ["runs/one", "runs/two"]
    for scores in (dropped[0], both.scores):
        uncertainty = scores["uncertainty"]
        assert uncertainty["mutual_information"] > 0
        parts = uncertainty["expected_entropy"] + uncertainty["mutual_information"]
        assert uncertainty["entropy"] == pytest.approx(parts, abs=1e-4)
        assert 0.0 <= uncertainty["error_auroc_mi"] <= 1.0
        assert scores["loss"] == pytest.approx(uncertainty["nll"], rel=1e-4)
        assert "temperature" not in uncertainty
        inside = {"latent_label_entropy", "head_entropy", "error_auroc_latent_labels", "error_auroc_heads"}
        assert not (inside | {"arc_error_auroc"}) & uncertainty.keys()  # those would be of one model without dropout
    assert "trees" not in both.scores
    assert "runs/one + runs/two: ensemble of 2" in invoke("eval", "runs/one", "runs/two").out


def test_an_ensemble_of_one_twice_is_refused_and_of_its_copy_that_one(there: Path, invoke: Invoke) -> None:
    """By whatever name it is called; a copy is a model of its own, which is always of the same opinion."""
    Path("link").unlink(missing_ok=True)
    Path("link").symlink_to("runs/one")
    step = Path("runs/one/checkpoints/best").resolve().name
    for name in ("runs/one", "runs/one@best", "link", f"runs/one@{int(step.partition('-')[2])}"):
        ran = invoke("eval", "runs/two", "runs/one", name, "test.conllu")
        refused(ran, 2, f"{name}: the same checkpoint as runs/one, twice in one ensemble")
    if not Path("copied").exists():
        shutil.copytree("runs/one", "copied", symlinks=True)
    alone = invoke("eval", "runs/one", "test.conllu", "--uncertainty", "--json").scores
    same = invoke("eval", "runs/one", "copied", "test.conllu", "--uncertainty", "--json").scores
    assert same["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert same["uncertainty"]["mutual_information"] == pytest.approx(0.0, abs=1e-6)


def test_requirements_can_be_about_it(there: Path, invoke: Invoke) -> None:
    assert invoke("eval", "runs/one", "--uncertainty", "--require", "ece<=1").code == 0
    assert invoke("eval", "runs/one", "--uncertainty", "--require", "nll<=0.0001").code == 7


def test_hidden_words_have_it_too(here: Path, invoke: Invoke) -> None:
    scores = invoke("eval", "runs/tiny", "test.conllu", "--ood", "test.conllu", "--json").scores
    assert scores["uncertainty"]["nll"] == pytest.approx(scores["loss"], rel=1e-4)
    assert scores["ood"]["ood_auroc"] == pytest.approx(0.5)


REFUSED = [
    (["runs/one", "runs/upos"], 2, "task.column is xpos and upos"),
    (["runs/one", "runs/words"], 2, "other vocabularies, of"),
    (["runs/one", "runs/less"], 2, "other labels of xpos"),
    (["runs/one", "test.conllu", "runs/two"], 2, "runs/two: a run behind the file test.conllu"),
    (["runs/one", "runs/two", "--dropout-samples", "3"], 2, "--dropout-samples: not of several runs together"),
    (["runs/one", "runs/two", "--channel", "all"], 2, "--channel: not of several runs together"),
    (["runs/one", "runs/two@7777"], 4, "no checkpoint '7777'"),
    (["runs/one", "--dropout-samples", "0"], 2, "--dropout-samples"),
    (["runs/dry", "--dropout-samples", "3"], 2, "was trained without dropout"),
    (["runs/one", "--ood", "empty.txt"], 3, "--ood empty.txt: there is no sentence in it"),
    (["runs/one", "--ood", "nowhere.txt"], 3, "nowhere.txt"),
    (["runs/one", "--ood", "extra"], 2, "names no extra file"),
    (["runs/one", "plain.txt", "--uncertainty"], 3, "plain.txt: has no gold labels"),
]


def test_what_does_not_fit_is_refused(there: Path, invoke: Invoke) -> None:
    (there / "empty.txt").write_text("", encoding="utf-8")
    (there / "plain.txt").write_text("the farmers fold\n", encoding="utf-8")
    for arguments, code, words in REFUSED:
        refused(invoke("eval", *arguments), code, words)
    (there / "runs/two@last").write_text("a file\n", encoding="utf-8")
    try:
        refused(invoke("eval", "runs/one", "runs/two@last"), 2, "a file, and a checkpoint of the run runs/two")
    finally:
        (there / "runs/two@last").unlink()
