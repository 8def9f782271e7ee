"""Files of folders that strangers may have made: opened only if they are files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probtrans_cli import atomic, console
from probtrans_cli.errors import CheckpointError
from probtrans_cli.folders import lock, regular


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of somebody."""
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere/thesis.tex"
    path.write_text("chapter 1\n")
    return path


def test_a_file_is_read(victim: Path) -> None:
    assert regular.read_text(victim) == "chapter 1\n"
    with pytest.raises(FileNotFoundError):
        regular.read_bytes(victim.with_name("none"))
    with pytest.raises(IsADirectoryError):
        regular.read_bytes(victim.parent)


def test_a_link_is_followed_only_where_that_is_said(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "zeros").symlink_to("/dev/zero")
    assert regular.read_bytes(tmp_path / "link", follow=True) == b"chapter 1\n"
    with pytest.raises(CheckpointError, match="link: a link in the place of a file, which is not followed"):
        regular.read_bytes(tmp_path / "link")
    with pytest.raises(CheckpointError, match="zeros: a device in the place of a file"):
        regular.read_bytes(tmp_path / "zeros", follow=True)


def test_a_link_that_takes_the_place_of_a_file_just_looked_at_is_not_followed(
    victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("ours", "utf-8")
    look = regular._require_file

    def look_then_swap(path: Path, mode: int) -> None:
        look(path, mode)
        path.unlink()
        path.symlink_to(victim)

    monkeypatch.setattr(regular, "_require_file", look_then_swap)
    with pytest.raises(OSError, match="symbolic links"):
        regular.open_file(path)


def test_no_link_on_the_way_is_followed_either(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "run/a").mkdir(parents=True)
    (tmp_path / "run/a/b").symlink_to(victim.parent)
    path = tmp_path / "run/a/b/thesis.tex"
    assert regular.read_bytes(path) == regular.read_bytes(path, below=tmp_path / "run/a/b")
    with pytest.raises(CheckpointError, match="b: a link in the place of a folder"):
        regular.read_bytes(path, below=tmp_path / "run")


@pytest.mark.parametrize("second", [Path.symlink_to, Path.hardlink_to])
def test_a_new_file_takes_the_name_of_a_link(second: object, victim: Path, tmp_path: Path) -> None:
    path = tmp_path / "new"
    second(path, victim)  # type: ignore[operator]
    with regular.create(path) as file:
        file.write("new")
    assert (path.read_text(), path.is_symlink()) == ("new", False)
    assert victim.read_text() == "chapter 1\n"


def test_a_log_is_not_written_into_a_file_that_has_another_name(victim: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.hardlink_to(victim)
    for text in ("a", "b"):
        with regular.append(path) as file:
            file.write(text)
    assert path.read_text() == "chapter 1\nab"
    assert victim.read_text() == "chapter 1\n"
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(CheckpointError, match="a link"):
        console.Console().open_log(path)
    assert victim.read_text() == "chapter 1\n"


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "nowhere"])
def test_a_lock_is_a_file_of_its_own(kind: str, victim: Path, tmp_path: Path) -> None:
    path = lock.inside(tmp_path)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "second name":
        path.hardlink_to(victim)
    else:
        path.symlink_to(victim if kind == "link" else victim.with_name("nowhere"))
    with lock.locked(path, "x") as held:
        assert held
        assert regular.is_file(path)
    assert [other.read_text() for other in victim.parent.iterdir()] == ["chapter 1\n"]
    assert not os.path.lexists(path)


def test_what_a_kill_left_is_removed_and_never_what_a_link_points_at(victim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".a.partial", ".b.replaced", ".c.replaced"):
        (folder / name).symlink_to(victim.parent)
    os.mkfifo(folder / ".d.partial")
    (folder / "c").symlink_to("nowhere")
    atomic.recover(folder)
    assert [path.name for path in folder.iterdir()] == ["c"]
    assert victim.exists()


def test_a_folder_is_not_written_over_a_link(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").symlink_to(victim.parent)
    (tmp_path / ".other.replaced").symlink_to(victim.parent)
    with (
        pytest.raises(CheckpointError, match="a link in the place of a folder"),
        atomic.writing_folder(tmp_path / "corpus"),
    ):
        pass
    with pytest.raises(CheckpointError, match="a link in the place of a folder"):
        atomic.remove_folder(tmp_path / "corpus")
    (tmp_path / "other").mkdir()
    with atomic.writing_folder(tmp_path / "other") as new:
        (new / "file").write_text("new")
    assert (tmp_path / "other/file").exists()
    assert victim.exists()


def test_syncing_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder/link").symlink_to(tmp_path / "pipe")
    (tmp_path / "folder/nowhere").symlink_to("nowhere")
    atomic.sync_folder(tmp_path / "folder")
