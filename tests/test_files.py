"""Files that a stranger may have made: what is opened, what is refused, and that nothing is written through a link."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from a3c_zoo.errors import ZooError, printable
from a3c_zoo.files import open_file, read_bytes, read_json, refuse_out, replace_file, write_out
from tests.shared import closed
from tests.test_recorder import file_size_limit


def plant(path: Path, kind: str) -> None:
    """Makes a thing at `path` that is no regular file. A link leads to a file `victim` beside it."""
    match kind:
        case "link":
            path.with_name("victim").write_text("precious")
            path.symlink_to("victim")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "device"])
@pytest.mark.parametrize("mode", ["rb", "wb", "ab", "r+b", "xb"])
def test_only_regular_files_are_opened(tmp_path: Path, kind: str, mode: str) -> None:
    path = tmp_path / "meta.json"
    plant(path, kind)
    link = "it is a link, and links are not followed"
    told = {"link": link, "fifo": "it is no regular file", "folder": "Is a directory", "device": link}[kind]
    if mode == "xb":
        told = "File exists"
    elif kind == "fifo" and mode in ("wb", "ab"):  # nobody reads it
        told = "No such device or address"
    with pytest.raises(OSError, match=told) as raised:
        open_file(path, mode)
    assert raised.value.strerror == told
    if kind == "link":
        assert (tmp_path / "victim").read_text() == "precious"


def test_a_fifo_with_a_writer_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.open("wb").close(), daemon=True)
    writer.start()
    with pytest.raises(OSError, match="no regular file"):
        read_bytes(path, 10)
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    writer.join(5)


@pytest.mark.parametrize("mode", ["wb", "ab", "r+b"])
def test_a_file_with_two_names_is_not_written(mode: str, tmp_path: Path) -> None:
    """A stranger may have linked a file of a run to one of the user's."""
    victim, path = tmp_path / "victim", tmp_path / "evaluations.csv"
    victim.write_text("precious")
    os.link(victim, path)
    with pytest.raises(OSError, match="it has other names"):
        open_file(path, mode)
    assert victim.read_text() == "precious"
    assert read_bytes(path, 100) == b"precious"
    victim.unlink()
    open_file(path, mode).close()
    assert path.read_text() == ("" if mode == "wb" else "precious")


def test_a_file_that_may_not_be_written_is_not_emptied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"no regular file|No such device"):
        open_file(tmp_path / "fifo", "wb")


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    with path.open("wb") as file:
        file.truncate((1 << 40) + 1)  # sparse: it takes no room
    with pytest.raises(OSError, match="larger than 1 MiB"):
        read_json(path)


@pytest.mark.parametrize("text", ["[1]", "[" * 100_000, "{", "\xff", "", '{"a": ' + "9" * 10_000 + "}"])
def test_json_that_is_no_object_is_a_value_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "outcome.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"."):
        read_json(path)


def test_a_file_is_replaced_without_following_a_link(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "outcome.json"
    victim.write_text("precious")
    path.symlink_to(victim)
    (tmp_path / ".outcome.json.tmp").symlink_to(victim)  # the name of the temporary file, once
    replace_file(path, b"new")
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(path, b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["outcome.json"]


@pytest.mark.parametrize("size", [0, 4])
def test_the_file_of_out_is_whole_or_not_there(tmp_path: Path, size: int) -> None:
    out = tmp_path / "curve.svg"
    with (
        file_size_limit(size),
        pytest.raises(ZooError, match=r"^--out .*curve\.svg: cannot be written: File too large$"),
    ):
        write_out(out, b"123456", force=False)
    assert list(tmp_path.iterdir()) == []
    write_out(out, b"123456", force=False)
    with file_size_limit(size), pytest.raises(ZooError, match=r"cannot be written: File too large$"):
        write_out(out, b"abcdef", force=True)
    with pytest.raises(ZooError, match=r"cannot be written: File exists$"):
        write_out(out, b"abcdef", force=False)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"123456"]


@pytest.mark.parametrize("name", ["closed/a.svg", "x" * 300 + ".svg"])
@pytest.mark.parametrize("force", [False, True])
def test_out_at_a_place_that_may_not_be_looked_at(name: str, force: bool, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    with closed(tmp_path / "closed"):
        refuse_out(tmp_path / name, [".svg"], force)
        with pytest.raises(ZooError, match=f"^--out .*{name}: cannot be written: "):
            write_out(tmp_path / name, b"picture", force)


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def test_control_characters_become_escapes() -> None:
    assert printable("plain λ → 日本") == "plain λ → 日本"
    assert printable("迷路\u3000説明 à\u202fl’aide\xa0!") == "迷路\u3000説明 à\u202fl’aide\xa0!"
    assert printable("\x1b]0;title\x07") == "\\x1b]0;title\\x07"
    assert printable("a\nb\x9b31m\u202ec\udcff") == "a\\nb\\x9b31m\\u202ec\\udcff"
