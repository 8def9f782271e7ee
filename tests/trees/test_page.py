"""The page for exploring trees: what it is made of, and what a headless browser makes of it."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hostile import HOSTILE
from test_draw import drawing

from probtrans_cli.trees.drawing import Arc, Drawing, EveryTree
from probtrans_cli.trees.drawing.html import LONGEST_WITH_MARGINALS, page
from probtrans_cli.trees.drawing.latex import latex
from probtrans_cli.trees.drawing.svg import COLOURS, svg

FOX = ("the", "quick", "brown", "fox", "jumped", "over", "the", "lazy", "dog", ".")
FOX_GOLD = (4, 4, 4, 5, 0, 9, 9, 9, 5, 5)


def analysis(words: tuple[str, ...], *, seed: int = 0, root: bool = True, **options: Any) -> EveryTree:
    """Three iterations and two channels of random marginals, with the most probable heads."""
    random = np.random.default_rng(seed)
    n = len(words)
    marginals = random.gamma(0.2, size=(3, 3, n, n + root))
    marginals[..., np.arange(n), np.arange(n)] = 0
    marginals /= np.maximum(marginals.sum(axis=3, keepdims=True), 1e-30)
    best = marginals.argmax(axis=3) if n else np.zeros((3, 3, 0), dtype=int)
    heads = np.where(best < n, best + 1, 0)
    if n == 1:
        heads[:] = 0
    with_root = np.pad(marginals, ((0, 0), (0, 0), (0, 0), (0, not root)), constant_values=np.nan)
    probabilities = np.take_along_axis(with_root, np.where(heads > 0, heads - 1, n)[..., None], axis=3)[..., 0]
    return EveryTree(words, heads, probabilities, marginals, **options)


def record(html: str) -> dict[str, Any]:
    return json.loads(re.findall(r'class="sentence">(.*)</script>', html)[0])


# --- what it is made of ---


def test_marginals_come_back_to_the_hundredth() -> None:
    one = analysis(FOX)
    sent = record("".join(page([one])))
    packed = zlib.decompress(base64.b64decode(sent["marginals"]))
    assert one.marginals is not None
    back = np.frombuffer(packed, dtype=np.uint8).reshape(one.marginals.shape)
    assert np.abs(back / 100 - one.marginals).max() <= 0.00501
    assert np.abs(np.array(sent["percent"]) / 100 - one.probabilities).max() <= 0.00501
    assert sent["heads"] == one.heads.tolist()
    assert (sent["channel"], sent["iteration"]) == (2, 2)


def test_an_unknown_probability() -> None:
    bare = EveryTree(("a", "b"), np.array([[[0, 1]]]), np.array([[[np.nan, 0.9]]]))
    assert record("".join(page([bare])))["percent"] == [[[-1, 90]]]


@pytest.mark.parametrize(
    ("pieces_of", "sentence", "begins"),
    [(page, analysis(FOX), "<!DOCTYPE html>"), (latex, drawing("it rains", [2, 0]), "% Compile with lualatex")],
)
def test_sentences_come_one_by_one(pieces_of: Callable[[Any], Iterator[str]], sentence: Any, begins: str) -> None:
    asked: list[int] = []

    def endless() -> Iterator[Any]:
        while True:
            asked.append(1)
            yield sentence

    pieces = pieces_of(endless())
    assert next(pieces).startswith(begins)
    next(pieces)
    assert len(asked) == 1


def test_a_long_sentence_is_not_quadratic() -> None:
    n = 5000
    heads = np.tile(np.arange(n), (3, 3, 1))
    size = len("".join(page([EveryTree(("word",) * n, heads, np.full(heads.shape, 0.5))])))
    assert size < 800_000
    longest = analysis(tuple("w" * (LONGEST_WITH_MARGINALS + 1)))
    assert record("".join(page([longest])))["marginals"] is None


def test_no_word_is_markup() -> None:
    html = "".join(page([analysis(HOSTILE, title=HOSTILE[1])], title=HOSTILE[1]))
    assert "&lt;/script&gt;&lt;script&gt;window.hacked" in html
    assert html.count("<script") == html.count("</script>") == 3  # the geometry, the sentence, the script
    assert not set(re.findall(r'json" class="sentence">(.*)</script>', html)[0]) & set("<>&")
    assert not re.search(r"innerHTML|insertAdjacent|eval\(|https?://(?!www\.w3\.org/2000/svg)", html)
    assert "default-src 'none'" in html


def test_the_colours_are_those_of_the_other_pictures() -> None:
    css = "".join(page([]))
    for channel, colour in enumerate(COLOURS):
        assert f".channel-{channel} {{ --arc: {colour.lower()}; }}" in css


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": (1,)}, "1 gold heads"),
        ({"gold": (0, 3)}, "outside"),
        ({"channel": 2}, "channel 2 of 2"),
        ({"iteration": 4}, "iteration 4 of 3"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        analysis(("a", "b"), **change)


# --- in a browser ---

SENTENCES = (
    analysis(FOX, gold=FOX_GOLD, channel=1, iteration=2, title="a fox"),
    analysis(HOSTILE, seed=1, title=HOSTILE[0]),
    analysis(("הילד", "אכל", "תפוח", "אדום", "."), seed=2, right_to_left=True),
    analysis(()),
    analysis(("one",), root=False),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "trees.html"
    file.write_text("".join(page(SENTENCES, title="Trees <b>")), encoding="utf-8")
    return file.as_uri()


class Opened:
    """The page in the browser, and short words for what tests do with it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def text(self, name: str) -> str:
        return str(self.run("return document.getElementById(arguments[0]).textContent", name))

    def keys(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def show(self, index: int) -> None:
        """Go to a sentence; there once its marginals are read."""
        self.driver.execute_async_script("show(arguments[0]).then(arguments[1])", index)

    def arcs(self) -> list[tuple[int, int]]:
        script = "return [...document.querySelectorAll('#tree .arc')].map(a => [+a.dataset.dependent, +a.dataset.head])"
        return sorted((dependent, head) for dependent, head in self.run(script))


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Opened]:
    """Freshly loaded; at the end nothing was fetched, nothing refused by the policy, nothing logged as an error."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(address)
    there = Opened(browser)
    there.show(0)
    yield there
    assert browser.get_log("browser") == []
    assert there.run("return performance.getEntriesByType('resource').length") == 0
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert {one["request"]["url"] for one in asked if one["documentURL"] == address} == {address}
    assert there.run("return window.hacked === undefined")


def expected(index: int, iteration: int, channel: int) -> list[tuple[int, int]]:
    heads = SENTENCES[index].heads[iteration][channel]
    return [(word, int(head)) for word, head in enumerate(heads, start=1)]


def test_it_opens_at_the_models_choice(opened: Opened) -> None:
    assert opened.driver.title == "Trees <b>"
    assert opened.count("#sentences li") == len(SENTENCES)
    assert opened.arcs() == expected(0, 1, 1)
    assert opened.text("iteration-name") == "2 of 3 ★"
    assert opened.text("channel-name") == "1 ★"
    assert opened.text("sentence-title") == "Sentence 1: a fox"


def test_sliders_move_with_the_keyboard_and_change_the_arcs(opened: Opened) -> None:
    from selenium.webdriver.common.keys import Keys

    opened.run("document.getElementById('iteration').focus()")
    opened.keys(Keys.ARROW_RIGHT)
    assert opened.arcs() == expected(0, 2, 1)
    opened.run("document.getElementById('channel').focus()")
    opened.keys(Keys.ARROW_RIGHT)
    assert opened.arcs() == expected(0, 2, 2)
    assert opened.text("channel-name") == "mean"
    assert opened.run("return document.getElementById('channel').getAttribute('aria-valuetext')") == (
        "mean of the channels"
    )
    opened.run("document.getElementById('chosen').click()")
    assert opened.arcs() == expected(0, 1, 1)


def test_shortcuts(opened: Opened) -> None:
    opened.keys("I", "c")
    assert opened.arcs() == expected(0, 0, 2)
    opened.keys("m")
    assert opened.arcs() == expected(0, 1, 1)
    opened.keys("g", "t", "t", "T", "f")
    assert opened.run("return [state.gold, state.threshold]") == [True, 5]
    assert opened.count("#tree.fit") == 1
    opened.keys("n")
    assert opened.run("return state.index") == 1
    opened.keys("p", "p")
    assert opened.run("return state.index") == 0
    for key in "npicCItTgfm":
        assert f"<kbd>{key}</kbd>" in opened.driver.page_source


def test_the_list_of_sentences_works_with_the_keyboard(opened: Opened) -> None:
    from selenium.webdriver.common.keys import Keys

    opened.run("document.querySelector('#sentences [aria-selected=true]').focus()")
    opened.keys(Keys.ARROW_DOWN)
    assert opened.run("return state.index") == 1
    opened.keys(Keys.END)
    assert opened.run("return [state.index, +document.activeElement.dataset.index]") == [len(SENTENCES) - 1] * 2
    assert opened.count("#sentences [tabindex='0']") == 1
    opened.keys(Keys.HOME)
    assert opened.arcs() == expected(0, 1, 1)


def test_the_threshold_hides_arcs_and_moves_none(opened: Opened) -> None:
    places = "return [...document.querySelectorAll('#tree .word text')].map(t => t.getAttribute('x'))"
    before = opened.run(places)
    opened.run("const t = document.getElementById('threshold'); t.value = 60; t.dispatchEvent(new Event('input'))")
    percent = np.rint(100 * SENTENCES[0].probabilities[1][1])
    left = [arc for arc, value in zip(expected(0, 1, 1), percent, strict=True) if value >= 60]
    assert 0 < len(left) < len(FOX)
    assert opened.arcs() == left
    assert opened.run(places) == before
    assert f"{len(FOX) - len(left)} hidden below .60" in opened.text("legend")


def test_gold(opened: Opened) -> None:
    opened.run("document.getElementById('gold').click()")
    right = int((SENTENCES[0].heads[1][1] == FOX_GOLD).sum())
    assert 0 < right < len(FOX)
    assert [opened.count(f"#tree .arc.{kind}") for kind in ("right", "wrong", "missed")] == [
        right,
        len(FOX) - right,
        len(FOX) - right,
    ]
    assert f"{right} of 10 heads are right" in opened.text("legend")
    style = "return getComputedStyle(document.querySelector(arguments[0])).strokeDasharray"
    dashes = [opened.run(style, f"#tree .{kind} .line") for kind in ("right", "wrong", "missed")]
    assert dashes[0] == "none"
    assert len(set(dashes)) == 3
    assert opened.count("#heat .gold") == len(FOX)
    opened.show(2)  # a sentence without gold heads
    assert opened.run("return document.getElementById('gold').disabled")
    assert opened.count("#tree .missed") == 0
    opened.show(0)
    assert opened.count("#tree .missed") == len(FOX) - right


def test_the_heat_map(opened: Opened) -> None:
    marginals = SENTENCES[0].marginals
    assert marginals is not None
    percent = np.rint(100 * marginals[1, 1])
    assert opened.count("#heat .cells rect") == int((percent > 0).sum())
    assert opened.count("#heat .head") == len(FOX)
    titles = opened.run("return [...document.querySelectorAll('#heat title')].map(t => t.textContent)")
    word, head = np.unravel_index(percent[:, : len(FOX)].argmax(), (10, 10))
    value = int(percent[word, head])
    shown = "1.0" if value == 100 else f".{value:02d}"
    assert f"{FOX[word]} ({word + 1}) from {FOX[head]} ({head + 1}): {shown}" in titles
    opened.keys("i")
    assert opened.count("#heat .cells rect") == int((np.rint(100 * marginals[2, 1]) > 0).sum())


def test_pointing_at_a_word(opened: Opened) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    ActionChains(opened.driver).move_to_element(opened.driver.find_elements(By.CSS_SELECTOR, ".word")[3]).perform()
    here = [arc for arc in expected(0, 1, 1) if 4 in arc]
    assert opened.count("#tree .arc.near") == len(here)
    head = int(SENTENCES[0].heads[1][1][3])
    name = f"{FOX[head - 1]} ({head})" if head else "the root"
    assert opened.text("detail").startswith(f"fox (4): head {name} ")
    opened.run("document.querySelector('.word[tabindex=\"0\"]').focus()")
    opened.keys(Keys.HOME, Keys.ARROW_RIGHT)
    opened.keys("i")
    assert opened.text("detail").startswith("quick (2)")
    assert opened.run("return document.activeElement.dataset.word") == "2"
    opened.keys(Keys.ESCAPE)
    assert opened.count("#tree .near") == 0
    opened.show(2)
    opened.run("document.querySelector('.word').focus()")
    opened.keys(Keys.ARROW_LEFT)
    assert opened.text("detail").startswith("אכל (2)")


def test_the_paths_are_those_of_the_svg(opened: Opened) -> None:
    for index, channel in ((0, 0), (0, 1), (0, 2), (1, 2), (2, 0), (4, 0)):
        opened.show(index)
        opened.run("Object.assign(state, {iteration: 2, channel: arguments[0]}); draw()", channel)
        mine = opened.run("return [...document.querySelectorAll('#tree path')].map(p => p.getAttribute('d'))")
        arcs = tuple(Arc(word, head, None) for word, head in expected(index, 2, channel))
        right_to_left = SENTENCES[index].right_to_left
        tree = ElementTree.fromstring(svg(Drawing(SENTENCES[index].words, arcs, right_to_left=right_to_left)))
        drawn = [element.get("d", "") for element in tree.iter() if element.tag.endswith("path")]
        assert [re.sub("[-.0-9]+", "#", path) for path in mine] == [re.sub("[-.0-9]+", "#", path) for path in drawn]
        numbers = [[float(n) for path in paths for n in re.findall("[-.0-9]+", path)] for paths in (mine, drawn)]
        assert np.abs(np.array(numbers[0]) - numbers[1]).max() < 0.02  # of a pixel


def test_hostile_words_are_shown_and_nothing_more(opened: Opened) -> None:
    opened.show(1)
    assert opened.text("sentence-title") == f"Sentence 2: {HOSTILE[0]}"
    shown = opened.run("return [...document.querySelectorAll('#tree .word text')].map(t => t.textContent)")
    assert len(shown) == len(HOSTILE)
    assert shown[0] == HOSTILE[0]
    assert max(map(len, shown)) < 150
    assert opened.count("img, iframe, object, embed, link") == 0
    assert opened.count("script") == len(SENTENCES) + 2
    assert opened.arcs() == expected(1, 1, 1)


def test_small_sentences(opened: Opened) -> None:
    opened.show(3)
    assert opened.arcs() == []
    assert "(empty sentence)" in opened.text("sentences")
    opened.show(4)
    assert opened.arcs() == [(1, 0)]
    assert opened.text("tree") == "rootone"


def test_without_scripts_it_says_what_is_missing(browser: Any, address: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
        shown = browser.find_element("tag name", "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "scripts are switched off" in shown
    assert "Least probability" not in shown


def test_the_policy_refuses_other_scripts_and_the_network(browser: Any, address: str) -> None:
    browser.get(address)
    refused = browser.execute_async_script(
        """
        const done = arguments[0], refused = [];
        document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/x.png";
        document.body.append(image);
        fetch("http://127.0.0.1:9/").catch(() => setTimeout(() => done([refused, window.hacked ?? null]), 50));
        """
    )
    assert refused[1] is None
    assert {"script-src-elem", "img-src", "connect-src"} <= set(refused[0])
