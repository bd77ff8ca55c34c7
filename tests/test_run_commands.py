"""The command in meta.json as others read it: on a card, in an ONNX file, in a report."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import a3c_zoo_trained
import pytest

from a3c_zoo.sharing.card import card_text
from a3c_zoo.store.command_lines import command_of, shell_line, without_home
from a3c_zoo.store.run import Run
from a3c_zoo.store.trained import facts, for_others

AGENT = Path(a3c_zoo_trained.__file__).parent / "acrobot-a3c"
OURS = ("a3c-zoo", "/usr/bin/a3c-zoo", r"C:\venv\Scripts\a3c-zoo.exe", "/lib/a3c_zoo/__main__.py")
OTHERS = ("train.py", "/lib/ipykernel_launcher.py", "/lib/other/__main__.py", "a3c_zoo/tools.py", "-c", "")


@pytest.mark.parametrize("program", OURS)
def test_a_command_of_ours(program: str) -> None:
    assert command_of({"command": [program, "train", "x"]}) == ["a3c-zoo", "train", "x"]


@pytest.mark.parametrize("program", OTHERS)
def test_a_program_is_no_command(program: str, tmp_path: Path) -> None:
    """Its words, such as `-f kernel-1.json` of a notebook, would be those of a command that never was."""
    folder = Path(shutil.copytree(AGENT, tmp_path / "mine"))
    meta = json.loads((folder / "meta.json").read_text()) | {"command": [program, "-f", "kernel-1.json"]}
    (folder / "meta.json").write_text(json.dumps(meta))
    directory = Run(folder)
    assert (for_others(meta)["command"], facts(directory, None)["command"]) == ([], "")
    card = card_text(directory, None, [], "mine", "alice/mine")
    assert "| command |" not in card
    assert "kernel" not in card


def test_no_command_is_known() -> None:
    assert command_of({}) == command_of({"command": []}) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/home/al", "~"),
        ("/home/al/runs", "~/runs"),
        ("--runs-dir=/home/al/runs", "--runs-dir=~/runs"),
        ("no file '/home/al': /home/al.", "no file '~': ~."),
        ("/home/alice/x.py", "/home/alice/x.py"),
        ("/home/al.old/x.py", "/home/al.old/x.py"),
        ("/home/al-2/x.py", "/home/al-2/x.py"),
        ("/mnt/home/al/x.py", "/mnt/home/al/x.py"),
    ],
)
def test_the_home_folder_is_no_part_of_another_path(text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/al")
    assert without_home(text) == told
    monkeypatch.setenv("HOME", "/")
    assert without_home(text) == text


def test_a_shell_expands_the_home_folder() -> None:
    words = ["a3c-zoo", "--runs-dir", "~/my runs", "~", "~/", "", "~al/x", "a b"]
    assert shell_line(words) == "a3c-zoo --runs-dir ~/'my runs' ~ ~/ '' '~al/x' 'a b'"
    assert shlex.split(shell_line(words)) == words
