"""The one writer of files and folders: whole or not at all, whatever happens on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probtrans_cli import atomic
from probtrans_cli.folders import regular

FAILURES = [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("a fault")]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def hidden(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.startswith(".")]


def write_half(path: Path, failure: BaseException) -> None:
    with atomic.replacing(path) as file:
        file.write("half")
        raise failure


def fill_half(folder: Path, failure: BaseException) -> None:
    with atomic.writing_folder(folder) as new:
        (new / "file").write_text("half")
        raise failure


def test_a_text_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("one\n", "zwei ∅\n"):
        atomic.replace_text(path, text)
        assert path.read_text("utf-8") == text
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_a_failure_leaves_the_old_text(failure: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(type(failure)):
        write_half(path, failure)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_input_may_be_the_output(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    with path.open() as lines, atomic.replacing(path) as file:
        file.writelines(line.upper() for line in lines)
    assert path.read_text() == "A\nB\n"


@pytest.mark.parametrize("name", ["no/such/file", "file/below", "folder"])
def test_an_error_names_the_file_that_was_asked_for(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"No such file|Not a directory|Is a directory") as caught:
        atomic.replace_text(tmp_path / name, "")
    assert caught.value.filename == str(tmp_path / name)


def test_a_device_is_written_directly() -> None:
    with atomic.replacing(Path(os.devnull), direct=True) as file:
        file.write("text")
    assert not Path(os.devnull).is_file()
    with pytest.raises(regular.IrregularFileError, match="a device in the place of a file"):
        atomic.replace_text(Path(os.devnull), "text")


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "folder"
    for text in ("one", "two"):
        with atomic.writing_folder(folder) as new:
            (new / "below").mkdir()
            (new / "below" / "file").write_text(text)
            assert not (folder / "below" / "file").exists() or (folder / "below" / "file").read_text() == "one"
        assert (folder / "below" / "file").read_text() == text
    assert hidden(folder.parent) == []


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_a_failure_leaves_the_old_folder(failure: BaseException, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic.writing_folder(folder) as new:
        (new / "file").write_text("old")
    with pytest.raises(type(failure)):
        fill_half(folder, failure)
    assert (folder / "file").read_text() == "old"
    assert hidden(tmp_path) == []


def test_a_failure_between_the_two_renames_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = tmp_path / "folder", Path.rename
    folder.mkdir()
    (folder / "file").write_text("old")

    def interrupted(path: Path, target: Path) -> Path:
        if path.name.endswith(atomic.PARTIAL):
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt), atomic.writing_folder(folder) as new:
            (new / "file").write_text("new")
    assert (folder / "file").read_text() == "old"
    assert hidden(tmp_path) == []


def test_what_a_kill_left_of_the_old_folder_is_in_nobodys_way(tmp_path: Path) -> None:
    folder, aside = tmp_path / "folder", tmp_path / ".folder.replaced"
    for path in (folder, aside):
        path.mkdir()
        (path / "file").write_text("old")
    with atomic.writing_folder(folder) as new:
        (new / "file").write_text("new")
    assert (folder / "file").read_text() == "new"
    assert hidden(tmp_path) == []


def test_each_writer_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic.folder_beside(folder) as one, atomic.folder_beside(folder) as other:
        assert one != other
        (one / "file").write_text("one")
        (other / "file").write_text("other")
        atomic.replace_folder(one, folder)
    assert (folder / "file").read_text() == "one"
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("ending", ["-01ab34cd.partial", "-01ab34cd.part", "-_1abzcd0.old"])
def test_abandoned_folders_are_removed_when_they_are_old(ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in (f".folder{ending}", f".folder-seed1{ending}"):
        (tmp_path / name).mkdir()
    with atomic.writing_folder(folder):
        pass
    assert len(hidden(tmp_path)) == 2
    for name in hidden(tmp_path):
        os.utime(tmp_path / name, (0, 0))
    with atomic.writing_folder(folder):
        pass
    assert hidden(tmp_path) == [f".folder-seed1{ending}"]  # another folder's


def test_recovering(tmp_path: Path) -> None:
    for left in (".lost.replaced", ".there.replaced", "there", ".half.partial", ".half-01ab34cd.partial", "untouched"):
        (tmp_path / left).mkdir()
    (tmp_path / ".file.partial").write_text("half")
    (tmp_path / ".last.partial").symlink_to("nowhere")
    atomic.recover(tmp_path)
    assert names(tmp_path) == ["lost", "there", "untouched"]
    atomic.recover(tmp_path / "nowhere")


def test_a_link_moves_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        atomic.link(tmp_path / name, "last")
        assert (tmp_path / "last").readlink() == Path(name)
    assert hidden(tmp_path) == []


def test_a_file_that_is_open_already_goes_on(tmp_path: Path) -> None:
    """As `-o /dev/stdout` with a file as standard output: neither the link nor what others write is lost."""
    with (tmp_path / "file").open("w") as file:
        file.write("before\n")
        file.flush()
        with atomic.replacing(Path(f"/proc/self/fd/{file.fileno()}"), direct=True) as same:
            same.write("text\n")
    assert (tmp_path / "file").read_text() == "before\ntext\n"
    assert Path("/dev/stdout").is_symlink()
