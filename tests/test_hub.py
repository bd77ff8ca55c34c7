"""Agents on a hub: what is sent, what is fetched and checked, and every way in which that can fail."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import a3c_zoo_trained
import pytest

import a3c_zoo
from a3c_zoo.cli import common
from a3c_zoo.config.sets import dump_config, resolve_config
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.api import evaluate
from a3c_zoo.store.run import find_run, list_runs
from a3c_zoo.store.trained import find_policy
from tests.hub_server import TOKEN, Handler, Hub, Repository, dripping, endless, nonsense, running_hub, silence, status
from tests.shared import closed
from tests.test_trained import HARM
from tests.toys_runs import command_line, environ, in_turn
from tests.waits import LIMIT_S

hf = pytest.importorskip("huggingface_hub")
from a3c_zoo.sharing import hub as module  # noqa: E402

AGENT = Path(a3c_zoo_trained.__file__).parent / "acrobot-a3c"
BYTES = {path.name: path.stat().st_size for path in AGENT.iterdir()}
NAMES = {"config.yml", "meta.json", "outcome.json", "parameters.safetensors"}
Captured = pytest.CaptureFixture[str]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with running_hub() as found:
        yield found


def use(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What HF_ENDPOINT does in a new process."""
    monkeypatch.setattr(hf.constants, "ENDPOINT", address)
    template = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(hf.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + template)
    monkeypatch.setattr(hf.constants, "HF_URL_HOSTS", frozenset({urlsplit(address).hostname}))


@pytest.fixture
def hub(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub with the repository alice/swinger, for this process, whose current folder is new."""
    server.forget()
    server.repositories = {"alice/swinger": Repository()}
    server.repositories["alice/swinger"].commit(files_of(AGENT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    use(server.address, monkeypatch)
    monkeypatch.setattr(hf.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    return server


def refused(captured: Captured, status: int, *arguments: object) -> str:
    """The one line of a command that ends with this status, and leaves nothing in `runs`."""
    assert command_line(*arguments) == status
    shown = captured.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Error: ")
    assert shown.err.count("\n") == 1
    assert not os.path.isdir("runs") or os.listdir("runs") == []
    return shown.err


def test_the_whole_way(server: Hub, tmp_path: Path) -> None:
    """In a process of its own: what is sent is what --dry-run writes, and plays as the agent that was sent."""
    server.forget()
    server.repositories = {}
    variables = {"HF_ENDPOINT": server.address, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "home")}
    push = ["push", str(AGENT), "alice/swinger"]
    back = ["pull", "alice/swinger"], ["evaluate", "swinger", "--episodes", "20", "--json"]
    command = [sys.executable, *in_turn([*push, "--dry-run", "look"], push, *back)]
    options: dict[str, Any] = {"cwd": tmp_path, "env": environ() | variables, "timeout": 200}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    told, between, pulled = done.stdout.partition("alice/swinger is in runs/swinger\nnext  a3c-zoo play runs/swinger\n")
    assert between
    sent = server.repositories["alice/swinger"]
    assert len(sent.commits) == 1
    assert not sent.private
    [files] = sent.commits.values()
    assert files == files_of(tmp_path / "look")
    assert {name: files[name] for name in NAMES} == {name: files_of(AGENT)[name] for name in NAMES}
    assert files.keys() == NAMES | {"README.md", "replay.mp4"}
    assert f"sent to  {server.address}/alice/swinger\nnext     a3c-zoo pull alice/swinger\n" in told

    here = files_of(tmp_path / "runs/swinger")
    assert json.loads(here.pop("pulled.json")) == {
        "repo": "alice/swinger",
        "commit": next(iter(sent.commits)),
        "endpoint": server.address,
    }
    assert here == files
    played = evaluate(AGENT, episodes=20)
    figures = json.loads(pulled[pulled.index("{") :]) | {"seconds": 0}
    assert [figures.pop(key) for key in ("run", "env", "agent", "seed")] == ["runs/swinger", "gym:Acrobot-v1", "a3c", 2]
    assert figures.pop("checkpoint") == "final"
    assert figures.pop("step") == json.loads(files["outcome.json"])["steps"]
    assert figures == asdict(replace(played, seconds=0))
    assert os.listdir(tmp_path / "runs") == ["swinger"]


def test_the_card_has_the_evaluation_as_metadata(hub: Hub) -> None:
    assert command_line("push", AGENT, "alice/swinger", "--no-film", "--dry-run", "look") == 0
    card = hf.ModelCard.load("look/README.md")
    [result] = card.data.eval_results
    outcome = json.loads((AGENT / "outcome.json").read_text())
    played, steps = outcome["evaluation"], outcome["steps"]
    assert result.metric_value == f"{played['mean_return']:.2f} +/- {played['std_return']:.2f}"
    names = (result.task_type, result.dataset_type, result.metric_type)
    assert names == ("reinforcement-learning", "Acrobot-v1", "mean_reward")
    assert card.data.library_name == "a3c-zoo"
    assert {"Acrobot-v1", "reinforcement-learning"} <= set(card.data.tags)
    for part in (
        "a3c-zoo train gym:Acrobot-v1 --agent a3c --seed 2 --steps 1000000 ",
        f"{steps:,} steps",
        "a3c-zoo pull alice/swinger",
        "evaluate runs/swinger",
    ):
        assert part in card.text
    assert hub.requests == []
    assert set(os.listdir("look")) == NAMES | {"README.md"}


@pytest.mark.parametrize("look", ["closed/look", "x" * 300])
def test_a_folder_that_cannot_be_made(look: str, hub: Hub, capsys: Captured) -> None:
    Path("closed").mkdir()
    with closed(Path("closed")):
        assert command_line("push", AGENT, "alice/swinger", "--no-film", "--dry-run", look) == 2
    assert capsys.readouterr().err.endswith(". Choose another: --dry-run DIR\n")


def test_a_full_disk_of_temporary_files(hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def full(*names: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    words = ["push", AGENT, "alice/swinger", "--no-film", "--dry-run", "look"]
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkdtemp", full)
        assert refused(capsys, 2, *words) == (
            "Error: there is no place for temporary files: No space left on device. Name another: TMPDIR=DIR\n"
        )
    monkeypatch.setattr(module, "replace_file", full)
    says = r"Error: cannot write .*/config\.yml: No space left on device\. Free space, or choose another: TMPDIR=DIR\n"
    assert re.fullmatch(says, refused(capsys, 2, *words))
    assert not os.path.exists("look")


def test_a_place_that_takes_no_folder_is_refused_before_the_work(hub: Hub, capsys: Captured) -> None:
    Path("file").touch()
    assert command_line("push", AGENT, "alice/swinger", "--dry-run", "file/look") == 2
    why = f"{Path.cwd()}/file is no directory in which you may write; choose another"
    assert capsys.readouterr() == ("", f"Error: --dry-run file/look: {why}\n")


def test_a_folder_that_was_looked_at_is_sent_as_it_is(hub: Hub, capsys: Captured) -> None:
    assert command_line("push", AGENT, "alice/swinger", "--dry-run", "look", "--no-film") == 0
    Path("look/README.md").write_text("My own words.\n")
    Path("look/replay.mp4").write_bytes(b"film")
    assert command_line("push", "look", "alice/swinger", "--dry-run", "again") == 0
    assert files_of(Path("again")) == files_of(Path("look"))
    with open("look/replay.mp4", "r+b") as film:
        film.truncate(module.LIMITS[module.FILM] + 1)  # too large to be sent
    assert command_line("push", "look", "alice/swinger", "--dry-run", "without", "--no-film") == 0
    assert {*os.listdir("without")} == NAMES | {"README.md"}
    assert "README.md is sent as it is: it does not name alice/swinger\n" in capsys.readouterr().out
    Path("look/pulled.json").write_text("{}")  # then a stranger wrote the card
    assert command_line("push", "look", "alice/mine", "--dry-run", "anew", "--no-film") == 0
    card = Path("anew/README.md").read_text()
    assert "alice/mine" in card
    assert "actions, as its author says; not played again |" in card
    assert "author" not in Path("again/README.md").read_text()


def test_absolute_paths_lose_their_folders_but_in_the_configuration(
    hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment needs those."""
    words = ["-o", "env.kwargs.fault=/data/bob/x.csv", "--runs-dir", f"{Path.cwd()}/all", "--name", "mine"]
    words = ["train", "gym:tests.toys_checks:House-v0", "--serial", "--steps", "50", *words]
    monkeypatch.setattr("sys.argv", ["/usr/bin/a3c-zoo", *words])
    assert command_line(*words) == 0
    capsys.readouterr()
    assert command_line("push", "all/mine", "alice/mine", "--dry-run", "look", "--no-film", "--trust") == 0
    told = "config.yml names /data/bob/x.csv: others see this path, and need the file there to play\n"
    assert told in capsys.readouterr().out
    for name in ("README.md", "meta.json", "outcome.json"):
        content = Path("look", name).read_text()
        assert "/data" not in content
        assert str(Path.cwd()) not in content
    assert "-o env.kwargs.fault=x.csv --runs-dir all " in Path("look/README.md").read_text()


def test_a_film_goes_with_its_agent(hub: Hub) -> None:
    """Without a film of the new agent there is none of the former one, and no card that names it."""
    folder = Path(shutil.copytree(AGENT, "mine"))
    (folder / "replay.mp4").write_bytes(b"film")
    assert command_line("push", "mine", "alice/new", "--dry-run", "look") == 0
    written = Path("look/README.md").read_bytes()
    for options in ((), ("--no-film",), ("--no-film",)):
        assert command_line("push", "look", "alice/new", *options) == 0
    before, after, again = hub.repositories["alice/new"].commits.values()
    assert (before["replay.mp4"], before["README.md"]) == (b"film", written)
    assert after == again
    assert after.keys() == NAMES | {"README.md"}
    sentence = b" [replay.mp4](replay.mp4) shows an episode."
    assert sentence in written
    assert after["README.md"] == written.replace(sentence, b"")


def test_a_run_is_saved_first(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second push is a second commit; nothing tells the kernel's release or the home folder."""
    monkeypatch.setenv("HOME", os.getcwd())
    small: dict[str, Any] = {"network.hidden_sizes": [8], "run.evaluation_envs": 50}
    run = a3c_zoo.train("cartpole", steps=200, serial=True, name="mine", overrides=small).run
    meta = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(
        json.dumps(meta | {"command": ["a3c-zoo", "train", "--runs-dir", f"{os.getcwd()}/runs"]})
    )
    assert command_line("push", "mine", "alice/swinger", "--no-film") == 0
    first, second = hub.repositories["alice/swinger"].commits.values()
    assert first["outcome.json"] != second["outcome.json"]
    assert json.loads(second["outcome.json"])["evaluation"]["episodes"] == 100
    told = json.loads(second["meta.json"])
    assert told["host"]["system"] == "Linux"
    assert told["command"] == ["a3c-zoo", "train", "--runs-dir", "~/runs"]
    shutil.rmtree("runs")
    assert command_line("pull", "alice/swinger", "--name", "mine") == 0


# Pulled agents


def test_a_pulled_agent_is_a_strangers(not_installed: None, hub: Hub, capsys: Captured) -> None:
    hub.more = [{"type": "file", "path": name, "size": 3, "oid": "0"} for name in ("../evil", "/tmp/evil", "evil.py")]
    (first,) = hub.repositories["alice/swinger"].commits
    hub.repositories["alice/swinger"].commit({"README.md": b"<script>", "setup.py": b"raise SystemExit"})
    assert command_line("pull", "alice/swinger", "--revision", first, "--name", "a.b") == 0
    assert command_line("pull", "alice/swinger", "--runs-dir", "others") == 0
    assert capsys.readouterr().out.endswith("next  a3c-zoo play others/swinger --runs-dir others\n")
    assert {*os.listdir("runs/a.b")} == NAMES | {"pulled.json"}
    assert {*os.listdir("others/swinger")} == NAMES | {"pulled.json", "README.md"}
    assert {*os.listdir(".")} == {"runs", "others"}

    found = find_run("a.b")
    assert (found.is_trusted, found.doubt) == (False, "runs/a.b was pulled from a hub")
    [listed] = list_runs(Path("runs"))
    assert (listed.status, listed.solved, listed.env) == ("pulled", None, "gym:Acrobot-v1")
    with pytest.raises(ZooError, match=r"no run in runs has solved 'gym:Acrobot-v1'"):
        find_policy("gym:Acrobot-v1", None, Path("runs"), trust=False)
    action, _ = a3c_zoo.load_agent("a.b").predict([0.0] * 6, deterministic=True)
    assert int(action) in range(3)
    assert command_line("push", "a.b", "alice/again", "--no-film", "--private") == 0
    assert hub.repositories["alice/again"].private


def test_a_module_is_imported_only_with_trust(hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("evilmod.py").write_text("open('mark', 'w').close()\nfrom gymnasium.envs import registration\n")
    monkeypatch.syspath_prepend(os.getcwd())
    name = b"gym:evilmod:Acrobot-v1"
    files = {path: text.replace(b"gym:Acrobot-v1", name) for path, text in files_of(AGENT).items()}
    hub.repositories["alice/swinger"].commit(files)
    assert "would import 'evilmod', and " in refused(capsys, 2, "pull", "alice/swinger")
    assert not Path("mark").exists()
    try:
        assert command_line("pull", "alice/swinger", "--trust") == 0
    finally:
        sys.modules.pop("evilmod", None)
    assert Path("mark").exists()
    assert capsys.readouterr().out.endswith("play runs/swinger --trust\n")


def test_the_card_names_commands_that_work_for_a_module(
    hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is imported already: on another machine it is not."""
    Path("maze.py").write_text("from gymnasium.envs import registration\n")
    monkeypatch.syspath_prepend(os.getcwd())
    agent = Path(shutil.copytree(AGENT, "mine"))
    for path, content in files_of(AGENT).items():
        (agent / path).write_bytes(content.replace(b"gym:Acrobot-v1", b"gym:maze:Acrobot-v1"))
    try:
        assert command_line("push", "mine", "alice/maze", "--no-film", "--trust") == 0
    finally:
        sys.modules.pop("maze", None)
    last = capsys.readouterr().out.splitlines()[-1]
    (commit,) = hub.repositories["alice/maze"].commits.values()
    card = commit["README.md"].decode()
    commands = [line.removeprefix("    a3c-zoo ") for line in card.splitlines() if line.startswith("    a3c-zoo")]
    assert commands == ["pull alice/maze --trust", "play runs/maze --trust", "evaluate runs/maze --trust"]
    assert last == f"next     a3c-zoo {commands[0]}"
    assert "\n`--trust` lets it import maze, which must be on that machine, too.\n" in card
    try:
        assert command_line(*commands[0].split()) == 0
        assert command_line(*commands[2].split(), "--episodes", 1) == 0
    finally:
        sys.modules.pop("maze", None)


# What is refused


def test_push_names_the_damaged_folder_of_the_user(hub: Hub, capsys: Captured) -> None:
    HARM["a changed byte"][0](Path(shutil.copytree(AGENT, "mine")))
    err = refused(capsys, 2, "push", "mine", "alice/again", "--no-film", "--dry-run", "look")
    assert err.startswith("Error: mine/parameters.safetensors is not the file that meta.json was written with")


def link(path: Path) -> None:
    path.symlink_to("meta.json")


def grow(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(module.LIMITS[path.name] + 1)  # sparse: it takes no room


@pytest.mark.parametrize(
    ("name", "harm", "reason"),
    [
        ("outcome.json", Path.unlink, "No such file or directory"),
        ("README.md", link, "it is a link, and links are not followed"),
        ("replay.mp4", grow, "it is larger than 64 MiB"),
    ],
)
def test_push_names_the_file_that_cannot_be_sent(
    name: str, harm: Callable[[Path], None], reason: str, hub: Hub, capsys: Captured
) -> None:
    harm(Path(shutil.copytree(AGENT, "mine")) / name)
    err = refused(capsys, 2, "push", "mine", "alice/again", "--dry-run", "look")
    assert err == f"Error: mine/{name} cannot be sent: {reason}\n"


def edit(folder: Path, **texts: tuple[str, str]) -> None:
    for name, (old, new) in texts.items():
        path = next(folder.glob(f"{name}.*"))
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))


def baseline(folder: Path) -> None:
    """The agent of another library, with a network of 36 million parameters."""
    registry, widths = get_registry(), "agent.net_arch=[6000, 6000]"
    config = resolve_config(registry, registry.env("cartpole"), registry.agent("sb3-a2c"), overrides=[widths])
    (folder / "config.yml").write_text(dump_config(config))
    edit(folder, meta=("gym:Acrobot-v1", "cartpole"))
    edit(folder, meta=('"agent": "a3c"', '"agent": "sb3-a2c"'))


#: What was done to the four files, and what is said of them.
HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    name: (HARM[name][0], message)
    for name, message in {
        "a changed byte": "parameters.safetensors is not the file that meta.json was written with",
        "a shorter file": "cannot be read",
        "a pickle": "cannot be read",
        "a huge header": "cannot be read",
        "no numbers": "not finite",
        "another shape": "of another network",
        "no spaces": "spaces cannot be read",
    }.items()
} | {
    "of other spaces": (
        lambda folder: edit(folder, meta=("Acrobot-v1", "MountainCar-v0"), config=("Acrobot-v1", "MountainCar-v0")),
        "the policy has other observations than environment 'gym:MountainCar-v0': vector [6] of float32, not ",
    ),
    "no network": (
        baseline,
        "agent 'sb3-a2c' keeps no model as the zoo's own agents do",
    ),
    "two environments": (
        lambda folder: edit(folder, meta=("gym:Acrobot-v1", "cartpole")),
        "meta.json is of a3c on cartpole, and config.yml is not",
    ),
    "unknown environment": (lambda folder: edit(folder, config=("gym:Acrobot-v1", "gym:No-v0")), "gym:No-v0"),
    "objects in YAML": (lambda folder: edit(folder, config=("seed: 2", "seed: !!python/object:os.system 1")), "config"),
    "a plugin": (
        lambda folder: edit(
            folder, meta=("plugin 'core' (a3c-zoo 0.1.0)", "plugin 'evil' (evil 1.0)"), config=("adam", "e")
        ),
        "(so says its meta.json",
    ),
    "no evaluation": (
        lambda folder: (folder / "outcome.json").write_text('{"evaluation": null}'),
        "outcome.json is damaged",
    ),
    "deep JSON": (lambda folder: (folder / "meta.json").write_text("[" * 100_000), "meta.json cannot be read"),
    "no config": (lambda folder: (folder / "config.yml").unlink(), "is no agent of a3c-zoo: it has no config.yml"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files(what: str, hub: Hub, capsys: Captured) -> None:
    harm, message = HOSTILE[what]
    harm(Path(shutil.copytree(AGENT, "agent")))
    hub.repositories["alice/swinger"] = Repository()
    hub.repositories["alice/swinger"].commit(files_of(Path("agent")))
    shown = refused(capsys, 2, "pull", "alice/swinger")
    assert message in shown
    assert "alice/swinger is " in shown
    assert ".pull-" not in shown


def test_a_refusal_does_not_name_the_folder_that_is_gone(hub: Hub, capsys: Captured) -> None:
    """Messages have paths from the current folder, wherever the path comes from."""
    harm, _ = HOSTILE["a pickle"]
    harm(Path(shutil.copytree(AGENT, "agent")))
    hub.repositories["alice/swinger"] = Repository()
    hub.repositories["alice/swinger"].commit(files_of(Path("agent")))
    shown = refused(capsys, 2, "pull", "alice/swinger", "--runs-dir", str(Path("runs").absolute()))
    assert "refused: checkpoint parameters.safetensors cannot be read" in shown


def hold_to_an_answer(part: str, fault: Callable[[Handler], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub has two seconds for the answer that never comes, and as long as it needs for each other one."""
    send = module._Client.send

    def held(client: Any, request: Any, **options: Any) -> Any:
        is_silent = fault is silence and part in request.url.path
        is_slow = fault is dripping and part in request.url.path
        monkeypatch.setattr(module, "ANSWER_S", 2.0 if is_silent else LIMIT_S)
        for name in ("WHOLE_ANSWER_S", "FILE_S"):
            monkeypatch.setattr(module, name, 1.0 if is_slow else LIMIT_S)
        return send(client, request, **options)

    monkeypatch.setattr(module._Client, "send", held)


BAD_HUBS: dict[str, tuple[str, Callable[[Handler], None], int, str]] = {
    "silent": ("/revision/", silence, 1, "does not answer within 2 s; try again later"),
    "silent at a file": ("/resolve/", silence, 1, "does not answer within 2 s"),
    "broken": ("/api/", status(500), 1, "answers with status 500; try again later"),
    "broken at a file": ("/resolve/", status(503), 1, "answers with status 503"),
    "busy": ("/api/", status(429), 1, "answers with status 429"),
    "without end": ("meta.json", endless, 1, f"meta.json has {BYTES['meta.json']:,} bytes, says the hub; it sent "),
    "without end in the API": (
        "/revision/",
        endless,
        1,
        "sends an answer of more than 8,388,608 bytes; it is not read",
    ),
    "a byte now and then": ("/revision/", dripping, 1, "sends its answer for longer than 1 s; it is not read"),
    "a byte of a file now and then": (
        "meta.json",
        dripping,
        1,
        f"meta.json has {BYTES['meta.json']:,} bytes, says the hub; it sent ",
    ),
    "no JSON": ("/api/", nonsense, 1, "the hub's answer cannot be read: "),
    "a file that went": ("/resolve/", status(404), 2, "the hub refuses alice/swinger with status 404 broken"),
    "a file for others": ("/resolve/", status(403, "GatedRepo"), 2, "alice/swinger is gated: ask for access"),
    "a token that it does not know": ("/api/", status(401), 2, "hf auth login"),
}


@pytest.mark.parametrize("what", BAD_HUBS)
def test_a_hub_that_does_not_do_its_work(
    what: str, hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, fault, code, message = BAD_HUBS[what]
    hold_to_an_answer(part, fault, monkeypatch)
    hub.faults = {part: fault}
    assert message in refused(capsys, code, "pull", "alice/swinger", "--revision", "main")
    assert sum(part in request for request in hub.requests) == 1  # it is asked once


def test_sizes(hub: Hub, capsys: Captured) -> None:
    hub.sizes = {"parameters.safetensors": 1 << 40}
    shown = refused(capsys, 2, "pull", "alice/swinger")
    assert "parameters.safetensors has 1,099,511,627,776 bytes, and more than 1,073,741,824" in shown
    assert not any("/resolve/" in request for request in hub.requests)
    hub.forget()
    hub.tails = {"parameters.safetensors": b"more"}
    shown = refused(capsys, 1, "pull", "alice/swinger")
    assert f"parameters.safetensors has {BYTES['parameters.safetensors']:,} bytes, says the hub" in shown
    hub.forget()
    sent = BYTES["meta.json"]
    hub.sizes = {"meta.json": sent + 1}
    shown = refused(capsys, 1, "pull", "alice/swinger")
    assert f"meta.json has {sent + 1:,} bytes, says the hub; it sent {sent:,}" in shown
    hub.forget()
    hub.more = [{"type": "directory", "path": "config.yml", "oid": "0"}]
    hub.repositories["alice/swinger"] = Repository()
    hub.repositories["alice/swinger"].commit(dict.fromkeys(NAMES - {"config.yml"}, b"x"))
    assert "has no config.yml" in refused(capsys, 2, "pull", "alice/swinger")


def test_repositories_that_are_not_there(hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["alice/secret"] = Repository(private=True)
    hub.repositories["alice/gated"] = Repository()
    hub.repositories["alice/gated"].gated = True
    hub.repositories["alice/other"] = Repository()
    hub.repositories["alice/other"].commit({"model.pkl": b"\x80\x04K\x01."})
    assert "is no agent of a3c-zoo: it has no config.yml" in refused(capsys, 2, "pull", "alice/other")
    assert "alice/gated is gated" in refused(capsys, 2, "pull", "alice/gated")
    assert "no such revision" in refused(capsys, 2, "pull", "alice/swinger", "--revision", "../x")
    monkeypatch.delenv("HF_TOKEN")
    for name in ("alice/nothing", "alice/secret"):
        assert f"there is no repository {name} that you may read" in refused(capsys, 2, "pull", name)
    for name in ("swinger", "a/b/c", "a/..", "../a", "a/b--c", "https://x.y/z", "a/b\x1b"):
        assert "is no repository: write OWNER/NAME" in refused(capsys, 2, "pull", name)
    assert "push needs a token" in refused(capsys, 2, "push", AGENT, "alice/swinger")


def test_a_token_that_is_none(hub: Hub, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["pull", "alice/swinger"], ["push", AGENT, "alice/swinger"]):
        monkeypatch.setenv("HF_TOKEN", "hf_\u2026")
        assert "the token has characters that no token has" in refused(capsys, 2, *arguments)
        monkeypatch.delenv("HF_TOKEN")
        monkeypatch.setattr(hf.constants, "HF_TOKEN_PATH", str(tmp_path))  # a folder
        assert "the token cannot be read: [Errno 21] Is a directory" in refused(capsys, 2, *arguments)
    assert hub.requests == []


@pytest.mark.parametrize("name", ["alice/x-", "alice/x.", "alice-/x", "alice/x.git", "alice/" + "x" * 97])
def test_a_name_is_refused_before_anything_is_played(name: str, hub: Hub, capsys: Captured) -> None:
    line = f"Error: '{name}' is no repository: write OWNER/NAME, each of up to 96 letters"
    for arguments in (["push", "nothing", name], ["push", "nothing", name, "--dry-run", "look"], ["pull", name]):
        assert refused(capsys, 2, *arguments).startswith(line)
    assert hub.requests == []


def test_nothing_is_overwritten(hub: Hub, capsys: Captured) -> None:
    assert "--name '../x'" in refused(capsys, 2, "pull", "alice/swinger", "--name", "../x")
    os.mkdir("runs")
    for make in (os.mkdir, lambda path: os.symlink("nowhere", path), lambda path: Path(path).write_text("mine")):
        make("runs/swinger")
        assert command_line("pull", "alice/swinger") == 2
        assert "runs/swinger exists already; nothing is overwritten" in capsys.readouterr().err
        os.rename("runs/swinger", "kept")
        os.rmdir("kept") if os.path.isdir("kept") else os.unlink("kept")
    os.mkdir("look")
    assert "--dry-run look: exists already" in refused(capsys, 2, "push", AGENT, "alice/x", "--dry-run", "look")
    assert hub.requests == []


def test_no_network(hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("http://127.0.0.1:9", "http://nowhere.invalid"):
        use(address, monkeypatch)
        assert "cannot be reached: " in refused(capsys, 1, "pull", "alice/swinger")
        assert command_line("push", AGENT, "alice/swinger", "--no-film") == 1
        assert "cannot be reached: " in capsys.readouterr().err
    for address in ("huggingface.co", "https://", "ftp://host"):
        monkeypatch.setattr(hf.constants, "ENDPOINT", address)
        line = f"Error: HF_ENDPOINT is no address: '{address}'. Write https://HOST\n"
        assert refused(capsys, 2, "pull", "alice/swinger") == line
    monkeypatch.setattr(hf.constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in refused(capsys, 2, "pull", "alice/swinger")


@pytest.mark.parametrize(
    ("part", "fault", "code", "message"),
    [
        ("/large/", silence, 1, "does not answer within 2 s"),
        ("/large/", status(500), 1, "answers with status 500"),
        ("/commit/", status(503), 1, "answers with status 503"),
        ("/create", status(401), 2, "with status 401"),
        ("/batch", nonsense, 1, "the hub's answer cannot be read"),
    ],
)
def test_a_push_that_the_hub_breaks_off(
    part: str, fault: Any, code: int, message: str, hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_to_an_answer(part, fault, monkeypatch)
    hub.faults = {part: fault}
    assert command_line("push", AGENT, "alice/new", "--no-film") == code
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert "alice/new" not in hub.repositories or not hub.repositories["alice/new"].commits
    assert sum(part in request for request in hub.requests) == 1


def test_what_is_not_sent(hub: Hub, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_line("push", AGENT, "alice/swinger", "--private", "--no-film") == 2
    assert "public: leave out --private" in capsys.readouterr().err
    edit(Path(shutil.copytree(AGENT, "agent")), meta=('"sha256": "', '"sha256": "0'))
    assert "(SHA-256)" in refused(capsys, 2, "push", "agent", "alice/new", "--no-film")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert "the film (leave it out: --no-film) needs imageio-ffmpeg" in refused(capsys, 2, "push", AGENT, "alice/new")
    monkeypatch.setattr(common, "find_spec", lambda name: None)
    needed = f"huggingface_hub and httpx2: {install_extra('hub')}"
    assert f"push needs {needed}" in refused(capsys, 2, "push", AGENT, "alice/new")
    assert f"pull needs {needed}" in refused(capsys, 2, "pull", "alice/swinger")
    assert "alice/new" not in hub.repositories
