"""Studies that a stranger may have made: no FIFO is waited for, and no link is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a3c_zoo.errors import ZooError
from a3c_zoo.tuning.storages import open_storage
from a3c_zoo.tuning.studies import list_studies

JOURNAL = "studies/mine/journal.jsonl"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies/mine").mkdir(parents=True)
    (tmp_path / "victim").write_text("precious")
    return tmp_path


@pytest.mark.parametrize("kind", ["fifo", "link", "link to nothing", "two names"])
def test_a_journal_that_is_no_file_of_its_own(kind: str, place: Path) -> None:
    match kind:
        case "fifo":
            os.mkfifo(JOURNAL)
        case "link":
            os.symlink(place / "victim", JOURNAL)
        case "link to nothing":
            os.symlink(place / "new", JOURNAL)
        case "two names":
            os.link(place / "victim", JOURNAL)
    (row,) = list_studies()
    assert row["state"] == "damaged"
    for is_new in (True, False):
        with pytest.raises(ZooError) as raised:
            open_storage(None, "mine", is_new)
        assert "\n" not in str(raised.value)
    assert (place / "victim").read_text() == "precious"
    assert not (place / "new").exists()


def test_a_lock_that_is_a_link(place: Path) -> None:
    open_storage(None, "mine", is_new=True)
    os.symlink(place / "new", f"{JOURNAL}.lock")
    os.unlink(JOURNAL)
    (place / JOURNAL).write_bytes(b"")
    with pytest.raises(ZooError, match=r"journal\.jsonl\.lock cannot be used: Too many levels"):
        open_storage(None, "mine", is_new=False).create_new_study([], "mine")
    assert not (place / "new").exists()


def test_a_link_that_the_user_names_is_theirs(place: Path) -> None:
    os.symlink(place / "kept.jsonl", place / "mine.jsonl")
    open_storage("mine.jsonl", "mine", is_new=True)
    assert (place / "kept.jsonl").exists()
