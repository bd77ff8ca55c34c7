"""The command in meta.json as others read it: on a card, in an ONNX file, in a report."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import a3c_zoo_trained
import pytest

from a3c_zoo.sharing.card import card_text
from a3c_zoo.store.command_lines import absolute_paths, command_of, shell_line, without_folders, without_home
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


def test_modules_of_wrappers_are_named_on_a_card(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(AGENT, tmp_path / "mine"))
    assert "--trust" not in card_text(Run(folder), None, [], "mine", "alice/mine")
    lines = (folder / "config.yml").read_text().splitlines()
    kept = "\n".join(line for line in lines if not line.startswith("  wrappers:"))
    wrappers = "  wrappers: ['walls:Walls', {'my_package.fog:Fog': {depth: 3}}, 'walls:Doors']"
    (folder / "config.yml").write_text(kept.replace("\nenv:\n", f"\nenv:\n{wrappers}\n") + "\n")
    card = card_text(Run(folder), None, [], "mine", "alice/mine")
    assert card.count(" --trust\n") == 3
    assert "`--trust` lets it import walls and my_package.fog, which must be on that machine, too." in card


def test_the_module_of_a_class_that_a_program_gave_is_named_on_a_card(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(AGENT, tmp_path / "mine"))
    meta = json.loads((folder / "meta.json").read_text()) | {"given_env": "maze:Maze"}
    (folder / "meta.json").write_text(json.dumps(meta))
    card = card_text(Run(folder), None, [], "mine", "alice/mine")
    assert card.count(" --trust\n") == 3
    assert "`--trust` lets it import maze, which must be on that machine, too." in card


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/home/al/sets/x.yml", "~/sets/x.yml"),
        ("/home/alice/sets/x.yml", "x.yml"),
        ("--runs-dir=/scratch/team 7/runs", "--runs-dir=runs"),
        ("/scratch/team 7/x.yml", "x.yml"),
        ("env.kwargs.file=/data/bob/prices.csv", "env.kwargs.file=prices.csv"),
        ("env.kwargs={file: /data/bob/prices.csv, size: 3}", "env.kwargs={file: prices.csv, size: 3}"),
        ("env.kwargs.files=['/data/a b.csv', \"/data/c.csv\"]", "env.kwargs.files=['a b.csv', \"c.csv\"]"),
        ("env.kwargs={file: '/data/bob smith/x.csv'}", "env.kwargs={file: 'x.csv'}"),
        ("env.kwargs={file: /data/bob smith/x.csv, size: 3}", "env.kwargs={file: x.csv, size: 3}"),
        ("w=[{m:C: {a: /team 7/x y.csv}}, /team 7/z]", "w=[{m:C: {a: x y.csv}}, z]"),
        ("w={a: /team/x, b: [}", "w={a: x, b: [}"),
        ('w={a: "', 'w={a: "'),
        (r'env.kwargs={file: "C:\Users\bob smith\x.csv"}', 'env.kwargs={file: "x.csv"}'),
        ("/data/bob/mysim.py:Tank", "mysim.py:Tank"),
        ("python:/data/bob/mysim.py:Tank", "python:mysim.py:Tank"),
        (r"C:\Users\bob\x.yml", "x.yml"),
        (r"--hyperparams=\\server\bob\x.yml", "--hyperparams=x.yml"),
        ("C:/Users/bob/x.yml", "x.yml"),
        ("--runs-dir=//server/bob/runs", "--runs-dir=runs"),
        (r"\\server\runs", "runs"),
        ("url=file:///data/bob/x.csv", "url=file://x.csv"),
        ("/", "/"),
        ("1 / 2", "1 / 2"),
        ("--runs-dir=/data/bob/", "--runs-dir=bob"),
        *((same, same) for same in ("", "runs/x", "./x.py", "../x", "ALE/Pong-v5", "gym:phys2d/CartPole-v1")),
        *(
            (same, same)
            for same in (
                "https://host/x/y",
                "url=https://host:80/x",
                "s3://bucket/x",
                "a=1/2",
                "~al/x",
                "1,000 steps done",
            )
        ),
    ],
)
def test_folders_of_absolute_paths_are_left_out(text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/al")
    assert without_folders(text) == told
    assert for_others({"command": ["/usr/bin/a3c-zoo", text]})["command"] == ["a3c-zoo", told]


def test_absolute_paths_of_a_configuration() -> None:
    text = (
        "env:\n  a: /data/bob/x.csv\n  b: '/data/bob smith/y.csv'\n  c: /\n  d: https://host/z\n  e: /data/bob/x.csv\n"
    )
    assert absolute_paths(text) == ["/data/bob/x.csv", "/data/bob smith/y.csv"]


def test_a_shell_expands_the_home_folder() -> None:
    words = ["a3c-zoo", "--runs-dir", "~/my runs", "~", "~/", "", "~al/x", "a b", "a=~/x"]
    assert shell_line(words) == "a3c-zoo --runs-dir ~/'my runs' ~ ~/ '' '~al/x' 'a b' 'a=~/x'"
    assert shlex.split(shell_line(words)) == words
    assert shell_line(["a3c-zoo", "--runs-dir=~/x", "--a=b"]) == "a3c-zoo --runs-dir ~/x --a=b"
