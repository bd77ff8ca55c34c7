"""What a name means to `play`, `evaluate` and `load_agent`; trained agents, their files, and files that are none."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import a3c_zoo_trained
import numpy as np
import pytest
import torch
from safetensors.torch import load, save

import a3c_zoo
from a3c_zoo import EnvEntry
from a3c_zoo.cures import install_plugin
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.sharing.card import curve
from a3c_zoo.sharing.save_trained import save as save_trained
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.trained import directory_of, find_policy, policy_state
from a3c_zoo.testing import plugin_distribution
from a3c_zoo.testing.checkup import jobs_for
from a3c_zoo.testing.findings import Findings
from tests.toys_runs import checkpoint, command_line

AGENTS = Path(a3c_zoo_trained.__file__).parent
PARAMETERS = "parameters.safetensors"


pytestmark = pytest.mark.usefixtures("not_installed")  # tests install it themselves, by another name


@pytest.fixture
def offered(not_installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution a3c-zoo-trained is installed."""
    folder = plugin_distribution(tmp_path / "site", "zoo-trained", "from a3c_zoo_trained import zoo_trained\n")
    monkeypatch.syspath_prepend(folder)
    get_registry.cache_clear()
    yield
    get_registry.cache_clear()


def change(path: Path, **values: Any) -> None:
    """Replaces values in a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def make_run(path: Path, started: str, solved: bool = True, of: str = "cartpole-a3c") -> Path:
    """A run without checkpoints: a trained agent's folder is one."""
    shutil.copytree(AGENTS / of, path)
    change(path / "meta.json", started=started)
    change(path / "outcome.json", solved=solved)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    make_run(folder / "older", "2026-01-01T10:00:00+0000")
    make_run(folder / "newer", "2026-01-01T11:00:00+0000")
    make_run(folder / "unsolved", "2026-01-01T12:00:00+0000", solved=False)
    make_run(folder / "textbook", "2026-01-01T09:00:00+0000", of="cartpole-nstep")
    return folder


def found(name: str, runs: Path, agent: str | None = None) -> Path:
    return find_policy(name, agent, runs, trust=False).path


def test_an_environment_means_its_newest_solved_run(
    runs: Path, offered: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found("cartpole", runs) == runs / "newer"
    assert capsys.readouterr().err == f"cartpole: {runs / 'newer'}, the newest run that solved it\n"
    assert found("cartpole", runs, "nstep") == runs / "textbook"


def test_a_run_goes_before_an_environment(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "cartpole", "2026-01-01T08:00:00+0000", solved=False)
    assert found("cartpole", runs) == runs / "cartpole"
    assert capsys.readouterr().err == ""
    with pytest.raises(ZooError, match="'cartpole' is a run, which has one agent: leave out --agent"):
        found("cartpole", runs, "a3c")


def test_a_pulled_agent_does_not_take_the_name_of_an_environment(
    runs: Path, offered: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cartpole", "cartpole-lstm", "pong", "theirs"):
        make_run(runs / name, "2026-01-01T13:00:00+0000")
        (runs / name / "pulled.json").touch()
    assert found("cartpole", runs) == runs / "newer"
    assert found("cartpole", runs, "nstep") == runs / "textbook"
    assert found("cartpole-lstm", runs) == AGENTS / "cartpole-lstm"
    capsys.readouterr()
    assert found(str(runs / "cartpole"), runs) == runs / "cartpole"
    assert found("theirs", runs) == runs / "theirs"
    assert capsys.readouterr().err == ""
    monkeypatch.chdir(runs)
    assert found("cartpole", runs) == runs / "newer"
    monkeypatch.setattr(get_registry(), "trained", {})
    capsys.readouterr()
    assert found("pong", runs.parent / "runs") == Path("pong")
    assert capsys.readouterr().err == "pong: pong, which was pulled from a hub\n"
    with pytest.raises(ZooError, match=r"solved 'pong'.*by --agent a3c:"):
        found("pong", runs, "a3c")


def test_without_a_solved_run_a_plugin_offers_one(
    offered: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "none" / "unsolved", "2026-01-01T12:00:00+0000", solved=False)
    assert found("cartpole", tmp_path / "none") == AGENTS / "cartpole-a3c"
    plugin = "plugin 'zoo-trained' (zoo-trained 1.0)"
    others = "; or name cartpole-nstep; or name cartpole-lstm"
    assert capsys.readouterr().err == f"cartpole: trained agent 'cartpole-a3c' of {plugin}{others}\n"
    assert found("cartpole", tmp_path, "nstep") == AGENTS / "cartpole-nstep"
    assert found("cartpole-lstm", tmp_path) == AGENTS / "cartpole-lstm"
    assert found("gym:Acrobot-v1", tmp_path) == AGENTS / "acrobot-a3c"


@pytest.mark.parametrize(
    ("name", "agent", "message"),
    [
        (
            "atari:freeway",
            None,
            "no run in {} has solved 'atari:freeway', and no plugin offers an agent trained on it: "
            "a3c-zoo train atari:freeway. Or name one: a3c-zoo list runs, a3c-zoo list trained.$",
        ),
        (
            "cartpole",
            "a3c-grad",
            "'cartpole', and .*, by --agent a3c-grad: a3c-zoo train cartpole --agent a3c-grad. ",
        ),
        ("cartpole-lstm", "nstep", "has solved 'cartpole-lstm', and .*: a3c-zoo train cartpole --agent nstep. "),
        ("gym:Nothing-v0", None, "unknown environment 'gym:Nothing-v0'"),
        ("gym:Acrobat-v1", None, "unknown environment 'gym:Acrobat-v1'. Did you mean 'gym:Acrobot-v1'"),
        ("atari:freewai", None, "unknown Atari game 'freewai'. Did you mean 'freeway'"),
        ("cartpole", "a3", "unknown agent 'a3'. Did you mean 'a3c'"),
        ("my maze", None, "an agent trained on it: a3c-zoo train 'my maze'. "),
        ("pnog", None, "'pnog' is no run here or in {}, no environment and no trained agent. Did you mean 'pong'. "),
        ("cartpol", None, "Did you mean 'cartpole'. To get one: a3c-zoo train ENV. Or name one: a3c-zoo list runs, "),
        ("cartpole-lstmm", None, "Did you mean 'cartpole-lstm'"),
        ("space_invader", None, "Did you mean 'atari:space_invaders'"),
    ],
)
def test_a_name_without_run_and_agent(
    name: str, agent: str | None, message: str, offered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(get_registry().envs, "my maze", EnvEntry("my maze", env_id="CartPole-v1"))
    with pytest.raises(ZooError, match=message.format(tmp_path)) as raised:
        found(name, tmp_path, agent)
    assert "\n" not in str(raised.value)


def test_without_the_distribution_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = f"a3c-zoo-trained brings some: {install_plugin('a3c-zoo-trained')}"
    brings = re.escape(told)
    with pytest.raises(ZooError, match=f"a3c-zoo train pong. Or name .* a3c-zoo list trained. {brings}$"):
        found("pong", tmp_path)
    make_run(tmp_path / "mine", "2026-01-01T12:00:00+0000")
    with pytest.raises(ZooError, match=f"'mime' is no run .* Did you mean 'mine'. .*. {brings}$"):
        found("mime", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ZooError, match=r"empty is no run directory: it has no meta\.json$"):
        found(str(tmp_path / "empty"), tmp_path)
    assert command_line("list", "trained") == 0
    assert capsys.readouterr() == ("", f"No trained agents. {told}\n")


def test_the_command_line_says_which(offered: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("evaluate", "cartpole", "--episodes", 2, "--runs-dir", tmp_path, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["mean_return"] == 500
    assert captured.err.startswith("cartpole: trained agent 'cartpole-a3c' of plugin ")
    assert command_line("evaluate", "atari:freeway", "--runs-dir", tmp_path) == 2
    assert command_line("evaluate", "cartpole", "--runs-dir", tmp_path, "--checkpoint", "best") == 2
    told = "cartpole-a3c is a trained agent, and has no checkpoint 'best'; it has: final"
    assert told in capsys.readouterr().err


def test_export_takes_an_environment(offered: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    where = ["--out", tmp_path / "x.onnx", "--runs-dir", tmp_path]
    assert command_line("export", "atari:freeway", *where) == 2
    assert command_line("export", "cartpole", "--agent", "nstep", *where, "--checkpoint", "best") == 2
    assert command_line("export", "cartpole", "--agent", "nstep", *where) == 0
    assert "cartpole: trained agent 'cartpole-nstep' of plugin" in capsys.readouterr().err
    session = runtime.InferenceSession(tmp_path / "x.onnx", providers=["CPUExecutionProvider"])
    told = json.loads(session.get_modelmeta().custom_metadata_map["a3c_zoo"])
    outcome = json.loads((AGENTS / "cartpole-nstep" / "outcome.json").read_text())
    assert (told["run"], told["steps"]) == ("cartpole-nstep", outcome["steps"])
    assert told["evaluation"] == outcome["evaluation"] | {"agent_returns": {}}
    assert told["command"].startswith("a3c-zoo train cartpole --agent nstep --seed 1 ")
    assert (told["training_s"], told["host"]["cores"]) == (outcome["training_s"], 2)
    assert told["weaknesses"].endswith(" 1,400 steps or more.")


def test_a_policy_for_other_spaces_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "swinger", "2026-01-01T12:00:00+0000", of="acrobot-a3c")
    for name in ("meta.json", "config.yml"):
        path = run / name
        path.write_text(path.read_text().replace("Acrobot-v1", "MountainCar-v0"))
    spaces = "'gym:MountainCar-v0': vector [6] of float32, not vector [2] of float32"
    where = (("evaluate",), ("play", "--video", tmp_path / "x.gif"), ("export", "--out", tmp_path / "x.onnx"))
    for command, *options in where:
        assert command_line(command, run, *options) == 2
        assert capsys.readouterr().err == f"Error: the policy has other observations than environment {spaces}\n"


def test_list_trained(offered: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("list", "trained", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert [*rows] == [entry.name for entry in a3c_zoo_trained.zoo_trained()]
    told = json.loads((AGENTS / "acrobot-a3c" / "outcome.json").read_text())["evaluation"]
    row = rows["acrobot-a3c"]
    assert (row["env"], row["agent"], row["plugin"], row["fault"]) == ("gym:Acrobot-v1", "a3c", "zoo-trained", None)
    assert (row["mean_return"], row["std_return"]) == (told["mean_return"], told["std_return"])
    assert row["weaknesses"].startswith("The worst of 100 episodes")
    assert (row["command"], row["seed"], row["continued"]) == (
        "a3c-zoo train gym:Acrobot-v1 --agent a3c --seed 2 --steps 1000000 -o run.stop_when_solved=false "
        "--name gym_Acrobot-v1-a3c-kind-s2",
        2,
        "",
    )
    assert (row["versions"]["gymnasium"], row["host"]["cores"], round(row["training_s"], 1)) == ("1.4.0", 2, 430.4)


def test_the_worst_episode_that_an_agent_tells_of_is_that_of_its_evaluation() -> None:
    told = {
        entry.name: worst[1]
        for entry in a3c_zoo_trained.zoo_trained()
        if (worst := re.search(r"The worst of 100 episodes gave (.*?)\.(?: |$)", entry.weaknesses))
    }
    assert len(told) >= 10
    for name, number in told.items():
        evaluation = json.loads((AGENTS / name / "outcome.json").read_text())["evaluation"]
        assert number == f"{evaluation['min_return']:,.1f}", name


def test_the_card_has_all_parts(offered: None, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    look = ["alice/games", "--no-film", "--dry-run", tmp_path / "look", "--runs-dir", tmp_path]
    assert command_line("push", "breakout-a3c", *look) == 0
    card = (tmp_path / "look" / "README.md").read_text()
    assert "| weaknesses | Just solved (400): five evaluations" in card
    assert "| then | After 9,991,007 steps it went on in copies" in card
    assert "type: BreakoutNoFrameskip-v4\n" in card
    heads, _, means = next(part for part in card.split("\n\n") if "| 17,366,103 |" in part).splitlines()
    assert means.endswith("| 401.4 |")
    assert heads.count("|") == means.count("|") == 9


@pytest.mark.parametrize("text", ["", "steps,return\n1,2\nx,y\n", "steps,return\n1,2,3\n", "\udcff"])
def test_a_curve_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text(text, errors="surrogateescape")
    assert curve(tmp_path / "curve.csv") == []
    assert curve(tmp_path / "nothing.csv") == []


# Files


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with an LSTM and observation statistics, and the folder that was saved from it."""
    folder, overrides = tmp_path_factory.mktemp("trained"), {"network.hidden_sizes": [8], "network.recurrent_size": 8}
    options: dict[str, Any] = {"hyperparams": "a3c-lstm", "overrides": overrides, "serial": True}
    run = a3c_zoo.train("cartpole", steps=600, seed=2, runs_dir=folder, name="run", **options).run
    save_trained(run, folder / "agent", episodes=3)
    return run, folder / "agent"


def test_the_cure_for_a_resume_runs_nothing_that_meta_json_says(trained: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(trained[1], tmp_path / "agent")
    change(folder / "meta.json", env="cartpole; touch mark #")
    with pytest.raises(ZooError, match=r"a3c-zoo train 'cartpole; touch mark #' --init-from"):
        a3c_zoo.train(resume=folder)


def test_a_run_that_ended_with_an_error_is_saved_with_the_figures_of_its_checkpoint(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    run = shutil.copytree(trained[0], tmp_path / "run")
    before = json.loads((run / "outcome.json").read_text())
    change(run / "outcome.json", reason="error", steps=before["steps"] + 5000, training_s=999.0)
    save_trained(run, tmp_path / "agent", episodes=1)
    saved = json.loads((tmp_path / "agent/outcome.json").read_text())
    seconds = checkpoint(run)["session"]["seconds"]["training"]
    assert saved["steps"] == saved["evaluation_step"] == before["steps"]
    assert saved["training_s"] == seconds
    assert saved["steps_per_s"] == pytest.approx(before["steps"] / seconds)


@pytest.mark.parametrize(
    ("reason", "detail", "fault", "told"),
    [
        ("error", "OSError: no /home/al/x", None, ("", None)),
        ("interrupted", "SIGTERM; no server at 10.0.0.1", None, ("", None)),
        ("steps", "600 steps done", "OSError: no /home/al/x", ("600 steps done", "(left out)")),
        ("plugin", "seen enough for /home/al/x", None, ("seen enough for ~/x", None)),
    ],
)
def test_texts_of_errors_are_not_saved(
    reason: str,
    detail: str,
    fault: str | None,
    told: tuple[str, str | None],
    trained: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may have paths and addresses of the machine."""
    monkeypatch.setenv("HOME", "/home/al")
    run = shutil.copytree(trained[0], tmp_path / "run")
    change(run / "outcome.json", reason=reason, detail=detail, evaluator_fault=fault)
    save_trained(run, tmp_path / "agent", episodes=1)
    saved = json.loads((tmp_path / "agent/outcome.json").read_text())
    assert (saved["reason"], saved["detail"], saved["evaluator_fault"]) == (reason, *told)


def test_what_is_saved_is_what_was_trained(trained: tuple[Path, Path]) -> None:
    run, folder = trained
    kept, read = checkpoint(run)["agent"]["model"], policy_state(find_policy(folder, None, folder, trust=False)).agent
    assert read.keys() == {"model"}
    read = read["model"]
    assert torch.equal(read["parameters"], kept["parameters"])
    assert torch.equal(read["statistics"], kept["statistics"])
    assert read["shapes"] == [list(pair) for pair in kept["shapes"]]
    assert read["buffers"].keys() == kept["buffers"].keys()
    batch = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)
    ours, theirs = (a3c_zoo.load_agent(each).predict(batch)[0].tolist() for each in (run, folder))
    assert ours == theirs
    names = {name for name in load((folder / PARAMETERS).read_bytes()) if name.startswith("parameters.")}
    assert {name.removeprefix("parameters.") for name, _ in kept["shapes"]} == {name[11:] for name in names}


def test_a_folder_that_is_there_or_cannot_be_written(trained: tuple[Path, Path], tmp_path: Path) -> None:
    (taken := tmp_path / "taken").mkdir()
    with pytest.raises(ZooError, match="taken exists already; name a new folder"):
        save_trained(trained[0], taken, episodes=10**9)  # it says so before it plays
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(ZooError, match=r"File too large\. Raise .* choose another: FOLDER$"):
            save_trained(trained[0], tmp_path / "agent", episodes=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_a_network_in_bfloat16_is_saved_in_bfloat16_and_acts_the_same(tmp_path: Path) -> None:
    overrides: dict[str, Any] = {"network.name": "conv42", "network.precision": "bfloat16", "env.frame_size": 42}
    overrides |= {"env.max_episode_steps": 50, "env.num_envs": 2, "run.workers": 1}
    run = a3c_zoo.train("pong", steps=200, runs_dir=tmp_path, name="run", overrides=overrides, serial=True).run
    kept = checkpoint(run)["agent"]["model"]["parameters"]
    save_trained(run, folder := tmp_path / "agent", episodes=1)
    tensors = load((folder / PARAMETERS).read_bytes())
    assert {part.dtype for part in tensors.values()} == {torch.bfloat16}
    assert (folder / PARAMETERS).stat().st_size < 2.1 * kept.numel()
    read = policy_state(find_policy(folder, None, folder, trust=False)).agent["model"]["parameters"]
    assert torch.equal(read, kept.bfloat16().float())
    assert not torch.equal(read, kept)
    frames = np.random.default_rng(1).integers(0, 256, (64, 4, 42, 42), np.uint8)
    ours, theirs = (a3c_zoo.load_agent(each).predict(frames)[0].tolist() for each in (run, folder))
    assert ours == theirs


def test_only_models_are_saved(tmp_path: Path) -> None:
    run = a3c_zoo.train("cartpole", agent="random", steps=10, runs_dir=tmp_path, name="run").run
    with pytest.raises(ZooError, match=r"only agents that keep a model"):
        save_trained(run, tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_a_run_that_is_running_is_not_saved(tmp_path: Path) -> None:
    """Nobody could go on with it, as the message about other runs without an outcome says."""
    run = a3c_zoo.train("cartpole", serial=True, steps=10, runs_dir=tmp_path, name="run").run
    (run / "outcome.json").unlink()
    running = RunDirectory(run)
    running.lock()
    try:
        with pytest.raises(ZooError, match=r"run .*/run is still running: wait for its end, or stop it first$"):
            save_trained(run, tmp_path / "agent")
    finally:
        running.unlock()
    with pytest.raises(ZooError, match=r"run .*/run has not ended; go on with it: a3c-zoo train --resume"):
        save_trained(run, tmp_path / "agent")


Tensors = dict[str, torch.Tensor]


def rewritten(folder: Path, edit: Callable[[Tensors], object], **told: Any) -> None:
    """Changes tensors and metadata of a trained agent's file, and its digest, as its maker could."""
    data = (folder / PARAMETERS).read_bytes()
    tensors, header = load(data), json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    edit(tensors)
    known = json.loads(header["__metadata__"]["a3c_zoo"]) | told
    write(folder, save(tensors, {"a3c_zoo": json.dumps(known)}))


def write(folder: Path, data: bytes) -> None:
    (folder / PARAMETERS).write_bytes(data)
    change(folder / "meta.json", sha256=hashlib.sha256(data).hexdigest())


def first(tensors: Mapping[str, torch.Tensor]) -> str:
    return min(name for name in tensors if name.startswith("parameters."))


def link(folder: Path) -> None:
    (folder / PARAMETERS).rename(folder / "elsewhere")
    (folder / PARAMETERS).symlink_to(folder / "elsewhere")


def fifo(folder: Path) -> None:
    (folder / PARAMETERS).unlink()
    os.mkfifo(folder / PARAMETERS)


def flip(folder: Path) -> None:
    data = bytearray((folder / PARAMETERS).read_bytes())
    data[-1] ^= 1
    (folder / PARAMETERS).write_bytes(data)


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed byte": (flip, r"is not the file that meta\.json was written with \(SHA-256\)"),
    "a shorter file": (lambda folder: write(folder, (folder / PARAMETERS).read_bytes()[:-100]), "cannot be read: "),
    "no file": (lambda folder: (folder / PARAMETERS).unlink(), "has no checkpoint"),
    "a pickle": (lambda folder: write(folder, b"\x80\x04K\x01."), "cannot be read: "),
    "a huge header": (lambda folder: write(folder, struct.pack("<Q", 1 << 60) + b"{}"), "cannot be read: "),
    "a link": (link, "links are not followed"),
    "a FIFO": (fifo, "it is no regular file"),
    "no numbers": (lambda folder: rewritten(folder, lambda t: t[first(t)].fill_(np.nan)), "not finite"),
    "another shape": (
        lambda folder: rewritten(folder, lambda t: t.update({first(t): torch.zeros(3)})),
        "of another network",
    ),
    "another dtype": (
        lambda folder: rewritten(folder, lambda t: t.update({name: t[name].double() for name in t})),
        "float64",
    ),
    "too few": (lambda folder: rewritten(folder, lambda t: t.pop(first(t))), "cannot be read: "),
    "too many": (
        lambda folder: rewritten(folder, lambda t: t.update(more=torch.zeros(1))),
        "its buffers are more there",
    ),
    "no order": (lambda folder: rewritten(folder, lambda t: None, order=7), "cannot be read: "),
    "no spaces": (lambda folder: rewritten(folder, lambda t: None, spaces={"action": 1}), "spaces cannot be read"),
    "no session": (lambda folder: rewritten(folder, lambda t: None, session=[]), "it has no session"),
    "another format": (lambda folder: rewritten(folder, lambda t: None, format=99), "has format 99"),
}


@pytest.mark.parametrize("what", HARM)
def test_a_file_that_is_none(what: str, trained: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained[1], tmp_path / "agent"))
    harm, message = HARM[what]
    harm(folder)
    with pytest.raises(ZooError, match=message) as raised:
        a3c_zoo.load_agent(folder)
    assert "\n" not in str(raised.value)


OFFER = """
from a3c_zoo import TrainedEntry, hookimpl
@hookimpl
def zoo_trained():
    return [TrainedEntry("agent", "cartpole", "{}", "{}")]
"""


@pytest.mark.parametrize(
    ("agent", "package", "fault"),
    [
        ("nstep", "my_agents", "meta.json is of a3c on cartpole, not as 'agent' says"),
        ("a3c", "no_package", "package 'no_package' cannot be found: ModuleNotFoundError"),
        ("a3c", "json", "agent is no run directory: meta.json cannot be read"),
    ],
)
def test_an_entry_without_its_folder(
    agent: str,
    package: str,
    fault: str,
    trained: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(trained[1], tmp_path / "my_agents" / "agent")
    for module in ("my_plugin", "my_agents"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(plugin_distribution(tmp_path / "site", "my-plugin", OFFER.format(agent, package)))
    get_registry.cache_clear()
    with pytest.raises(ZooError, match=fault):
        directory_of(get_registry().trained["agent"])
    assert command_line("list", "trained") == 0
    assert fault in capsys.readouterr().out
    if package == "my_agents":
        assert command_line("check", "my-plugin") == 1
        assert fault in capsys.readouterr().out.replace("\n", " ")
    else:  # without a process for each
        (job,) = jobs_for(get_registry(), "my-plugin")
        job.examine(get_registry(), findings := Findings(job.subject))
        assert any(fault in finding.text for finding in findings.found if finding.status == "problem")
    get_registry.cache_clear()
