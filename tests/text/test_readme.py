"""The pages are true: their links lead somewhere, their commands parse and run, and their figures are the recipes'."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from support import ROOT, environment

from probtrans_cli import __version__
from probtrans_cli.cli import app
from probtrans_cli.recipe.reference import every_key
from probtrans_cli.reports.finished import PUBLISHED

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
README, RESULTS, REFERENCE = PAGES["README.md"], PAGES["docs/results.md"], "docs/recipe-reference.md"
RECIPES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "recipes").glob("*.yaml"))}
LOGS = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/research").glob("*.md")))
KEYS = {".".join(path) for path, _ in every_key()}
OF_MODEL = {key.removeprefix("model.") for key in KEYS if key.startswith("model.")}
KEYS |= {f"model.{part}.{key}" for part in ("lower", "upper") for key in OF_MODEL}  # the reference tells of them once
FILE = re.compile(r"\.(json|jsonl|conllu|conll|tsv|txt|yaml|py|md|safetensors)(\.gz)?$")
SECTIONS = {key.partition(".")[0] for key in KEYS if "." in key}

FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


def prose(page: str) -> str:
    return FENCE.sub("", PAGES[page])


def block(name: str, pages: str = "*") -> str:
    """The code between two marker lines of the only page that has them."""
    marked = re.compile(rf"<!-- {name}: begin -->\n```[a-z]+\n(.*?)```\n<!-- {name}: end -->", re.DOTALL)
    blocks = [code for page, text in PAGES.items() if fnmatch.fnmatch(page, pages) for code in marked.findall(text)]
    assert len(blocks) == 1, f"{len(blocks)} blocks are marked {name!r}"
    return blocks[0]


# --- what the marked blocks do ----------------------------------------------------------------------------------------


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a bash script, which must succeed, with the `python` of the tests and the `probtrans` of this checkout."""
    head = (
        f'set -euo pipefail\npython() {{ "{sys.executable}" "$@"; }}\nprobtrans() {{ python -m probtrans_cli "$@"; }}\n'
    )
    done = subprocess.run(
        ["bash", "-c", head + script], cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done


def quickened(code: str) -> str:
    return re.sub(r"train\.epochs=\d+", "train.steps=20", code)


@pytest.mark.slow
def test_tour_runs(probtrans: str, tmp_path: Path) -> None:
    run(probtrans + quickened(block("tour", "README.md")), tmp_path)
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith(("<?xml", "<svg"))
    assert (tmp_path / "trees.conllu").read_text(encoding="utf-8").count("\troot\t") == 1


@pytest.mark.slow
def test_hugging_face_runs(probtrans: str, tmp_path: Path) -> None:
    """A BERT there and back, then the export of a probabilistic transformer, which Python opens."""
    pytest.importorskip("transformers")
    done = run(probtrans + quickened(block("hugging face")), tmp_path)
    assert "'token_str':" in done.stdout
    assert "started from little-bert" in done.stderr
    script = block("the export in Python") + "print(len(arcs), arcs[0].shape)\n"
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    export = block("an export of the quick start")
    done = run(f"{probtrans}probtrans train quickstart train.steps=2\n{export}python script.py", tmp_path)
    assert re.search(r"\d torch.Size\(\[1, \d+, 7, 7\]\)", done.stdout), done.stdout


@pytest.mark.slow
def test_quick_start_finds_structure(tmp_path: Path) -> None:
    """The README's main job without its installation: trees well above both floors, and a tree on stdout."""
    command = block("main job", "README.md").replace(".venv/bin/probtrans", "probtrans")
    command = command[command.index("probtrans train") :].replace("--overwrite", "--overwrite --json")
    done = run(command, tmp_path)
    first, _, picture = done.stdout.partition("\n")
    trees = json.loads(first)["test"]["trees"]
    floors = [trees["floors"][name]["no_punct"]["all"]["uuas"] for name in ("next_word", "nearest_rarer")]
    assert trees["no_punct"]["all"]["uuas"] > max(floors) + 0.08
    assert "farmers" in picture


def test_ci_runs_the_commands_of_the_readme() -> None:
    assert "<!-- tests: begin -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pytest" in block("tests", "README.md")


# --- pages and links --------------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def anchors(text: str) -> set[str]:
    """What links to headings of a page end in, as GitHub makes it: lower case, hyphens for spaces, no punctuation."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def test_links_and_pictures_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)]+)\)", prose(page)):
            name, _, anchor = target.partition("#")
            path = (ROOT / page).parent / name if name else ROOT / page
            assert path.exists(), (page, target)
            assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), (page, target)


def test_the_readme_leads_to_every_page() -> None:
    missing = [page for page in PAGES if page != "README.md" and f"]({page}" not in README]
    assert not missing


def test_the_citation_is_that_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert f"## {__version__}" in PAGES["CHANGELOG.md"]
    paper = citation["preferred-citation"]
    names = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    wanted = (f'title = "{paper["title"]}"', f'author = "{names}"', f'year = "{paper["year"]}"', paper["url"])
    for text in (*wanted, f'booktitle = "{paper["collection-title"]}"', f'"{paper["start"]}--{paper["end"]}"'):
        assert text in README


# --- commands and keys ------------------------------------------------------------------------------------------------


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every call of `probtrans` in a page's blocks: of bash, and behind the prompts of examples."""
    for language, code in FENCE.findall(text):
        lines = code.replace("\\\n", " ").splitlines()
        for line in lines if language == "bash" else [line[2:] for line in lines if line.startswith("$ ")]:
            words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            words.whitespace_split = True
            call: list[str] = []
            for word in [*words, ";"]:
                if word and word[0] in "|&;":
                    yield from _arguments(call)
                    call = []
                else:
                    call.append(word)


def _arguments(call: list[str]) -> Iterator[list[str]]:
    """The arguments of one simple command, without variables in front and redirections, if it is `probtrans`."""
    while call and re.match(r"\w+=", call[0]):
        call = call[1:]
    if call and Path(call[0]).name == "probtrans":
        yield [
            word
            for before, word in pairwise(call)
            if not word.startswith(("<", ">")) and not before.startswith(("<", ">"))
        ]


def check_command(arguments: list[str]) -> None:
    """Parse a command as the program does, without running it; its recipe and the keys that it sets must exist."""
    group = typer.main.get_command(app)
    verb = next((index for index, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    if verb:
        group.make_context("probtrans", arguments[:verb])
    if verb == len(arguments):
        return
    name, rest = arguments[verb], arguments[verb + 1 :]
    assert name in group.commands, f"there is no command {name}"  # type: ignore[attr-defined]
    parameters = group.commands[name].make_context(name, list(rest)).params  # type: ignore[attr-defined]
    recipe = parameters.get("recipe")
    assert recipe is None or recipe in RECIPES or re.search(r"[./A-Z]|^-$", recipe), f"there is no recipe {recipe}"
    for override in parameters.get("overrides") or ():
        if not override.startswith("$"):
            assert override.partition("=")[0] in KEYS, f"there is no key {override}"


def test_commands_parse() -> None:
    for page, text in PAGES.items():
        for arguments in commands(text):
            try:
                check_command(arguments)
            except Exception as error:
                pytest.fail(f"{page}: probtrans {shlex.join(arguments)}: {error}")


def test_commands_are_found_and_faults_in_them_noticed() -> None:
    calls = 'A=1 probtrans eval runs/a --json > b | jq . && echo "probtrans no" # probtrans\nprobtrans x \\\n  y'
    text = f"```bash\n{calls}\n```\n"
    assert list(commands(text)) == [["eval", "runs/a", "--json"], ["x", "y"]]
    for wrong in ("evil RUN", "train quickstart --sed 1", "train quickstart optim.rate=1", "parse RUN -f pdf", "--lst"):
        with pytest.raises(Exception, match=r"(?i)no such|not one of|there is no"):
            check_command(wrong.split())


def test_keys_of_recipes_exist() -> None:
    for page in PAGES:
        for code in CODE.findall(prose(page)):
            for key in re.findall(rf"(?:^|\s)((?:{'|'.join(SECTIONS)})\.[a-z][\w.]*\w)", code):
                assert key in KEYS or FILE.search(key), (page, key)


# --- figures ----------------------------------------------------------------------------------------------------------

SPREAD = re.compile(r"\d+(?:\.\d+)? ± \d+(?:\.\d+)?")
DECIMAL = re.compile(r"(?<![\d.])\d+\.\d+(?!\.?\d|M| s\.d\.)")  # but for sizes in millions, and distances to the paper


def header(recipe: str) -> str:
    lines = RECIPES[recipe].partition("\nversion:")[0].splitlines()
    log = LOGS.partition(f"\n### `{recipe}`\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    return " ".join(" ".join([*(line.lstrip("#") for line in lines), log]).split())


def named(text: str) -> list[str]:
    """The recipes that a text names in code, `pos-ewt-*` being all of those."""
    return [name for code in CODE.findall(text) for name in fnmatch.filter(RECIPES, code)]


def passages(text: str) -> Iterator[tuple[str, list[str]]]:
    """Every paragraph and row of a table, with the recipes that it is about: those it names, else the last named ones
    of its section."""
    about: list[str] = []
    for part in re.split(r"\n{2,}", FENCE.sub("", text)):
        if part.startswith("#"):
            about = []
        for passage in part.splitlines() if part.startswith("|") else [part]:
            here = named(passage)
            about = here or about
            yield passage, here if passage.startswith("|") else about


def test_figures_with_their_spread_are_those_of_the_recipe() -> None:
    for page in PAGES.keys() - {REFERENCE, "CHANGELOG.md"}:
        for passage, recipes in passages(PAGES[page]):
            for figure in SPREAD.findall(" ".join(passage.split())):
                known = [recipe for recipe in recipes if figure in header(recipe)]
                assert known, f"{page}: {figure} is in the header of none of {recipes or 'no recipe'}: {passage}"


def test_rows_of_recipes_have_the_figures_of_their_headers() -> None:
    for page in ("README.md", "docs/results.md", "docs/reading-trees.md"):
        for passage, recipes in passages(PAGES[page]):
            if passage.startswith("| `") and len(recipes) == 1:
                figures = DECIMAL.findall(passage)
                known = DECIMAL.findall(header(recipes[0]))
                assert [figure for figure in figures if figure not in known] == [], passage


def test_the_score_of_a_recipe_is_in_the_table_of_results() -> None:
    """The first figure of the header (of "dev / test", the second) stands in the recipe's row of the first table."""
    table = RESULTS.partition("\n## ")[0]
    for recipe in RECIPES:
        rows = [row for row in table.splitlines() if row.startswith(f"| `{recipe}` |")]
        assert len(rows) == 1, f"{recipe} has {len(rows)} rows in the table of docs/results.md"
        first = re.search(r"(?:\d+\.\d+ / )?(\d+\.\d+(?: ± \d+\.\d+)?)", header(recipe))
        assert first, recipe
        assert first[1] in rows[0], recipe
        assert ("Not run here" in header(recipe)) == ("not measured here" in rows[0]), recipe


def test_the_figures_of_the_paper_are_those_that_the_table_of_runs_compares_with() -> None:
    table = RESULTS.partition("## The paper's figures")[2].partition("\n## ")[0]
    for cell in PUBLISHED:
        factor = 1 if cell.metric == "perplexity" else 100
        digits = 2 if cell.parameters < 1_000_000 else 1
        figures = f"{factor * cell.mean:.2f} ± {factor * cell.sd:.2f} | {cell.parameters / 1e6:.{digits}f}M"
        [row] = [row for row in table.splitlines() if re.match(rf"\| `{cell.task}(-\*)?` ", row)]
        assert figures in row


def test_a_figure_that_differs_is_noticed() -> None:
    page = "# A\n\n`quickstart` has\n9.97 ± 0.16.\n\nIt has 74.6 ± 2.5.\n\n## B\n\n| `quickstart` | 10.00 ± 0.18 |\n"
    found = [(SPREAD.findall(passage), recipes) for passage, recipes in passages(page) if "±" in passage]
    assert found == [([figure], ["quickstart"]) for figure in ("9.97 ± 0.16", "74.6 ± 2.5", "10.00 ± 0.18")]
    assert [figures[0] in header("quickstart") for figures, _ in found] == [True, True, False]
