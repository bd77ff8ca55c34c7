"""`a3c-ray` on a real cluster: several Ray nodes on this machine, some of which are killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest
from a3c_zoo.errors import ConfigError, WorkerError

pytest.importorskip("ray", reason="Ray is not installed: make test-ray")

from ray_clusters import (
    GONE_LIMIT_S,
    LIMIT_S,
    STORE,
    Run,
    folders,
    kill_a_node,
    living,
    pids_of,
    run_program,
    servers,
    wait_until,
)


def options(nodes: int, steps: int, *more: str) -> list[str]:
    keys = (f"agent.nodes={nodes}", "run.stop_when_solved=false", "run.checkpoint_every_steps=20000", *more)
    return [
        *("cartpole", "--agent", "a3c-ray", "--workers", str(nodes), "--steps", str(steps)),
        *(word for key in keys for word in ("-o", key)),
    ]


def test_three_nodes_train_and_go_on(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    here = environ | {"RAY_ADDRESS": cluster.address}
    keys = ("agent.shards=2", "agent.compression=bfloat16", "agent.max_staleness=1000", "agent.exchange_updates=5")
    run = Run(tmp_path, here, *options(3, 40_000, *keys))
    outcome = run.outcome()
    assert outcome["reason"] == "steps"
    assert outcome["steps"] >= 40_000
    # The command hears of the steps about twice a second; until then the nodes go on, at the speed of the machine.
    assert outcome["steps"] - 40_000 < 1.5 * outcome["steps_per_s"]
    assert {row["worker"] for row in run.episodes()} == {"0", "1", "2"}
    resumed = Run(tmp_path, here, "--resume", str(run.path), "--steps", "80000")
    again = resumed.outcome()
    assert again["steps"] >= 80_000
    returns = [float(row["r"]) for row in run.episodes()]
    # Untrained: 22. The last 100 say little: of six runs, all of which had 169 or more, one ended with 36.
    assert max(fmean(returns[first : first + 100]) for first in range(len(returns) - 99)) > 100
    assert run.events("node_replaced") == []
    # Ray kills actors on the word of its own servers: the last process may end a moment after the command.
    wait_until(lambda: not pids_of("ray::NodeActor", "ray::Shard"), GONE_LIMIT_S)


PLUGIN = """
from a3c_zoo import EnvEntry, hookimpl
from a3c_zoo_envs.cartpole import make

@hookimpl
def zoo_envs():
    return [EnvEntry("poles", "poles:make")]
"""


def test_nodes_find_the_modules_of_plugin_files(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "plug").mkdir()
    (tmp_path / "plug/poles.py").write_text(PLUGIN)  # not in the current folder, where Ray's processes look
    words = ["poles", *options(2, 4000)[1:], "--plugin", "plug/poles.py"]
    assert Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *words).outcome()["reason"] == "steps"


@pytest.mark.slow
def test_a_node_dies_and_another_takes_its_place(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    run = Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *options(3, 2_000_000, "run.time_limit_s=60"))
    run.wait_for_episodes(100)
    kill_a_node(cluster, servers())
    wait_until(lambda: run.events("node_replaced"))
    (event,) = run.events("node_replaced")
    seen = len(run.episodes())
    run.wait_for_episodes(seen + 20)  # of the other nodes
    assert str(event["node"]) not in {row["worker"] for row in run.episodes()[seen:]}
    cluster.add_node(num_cpus=1, **STORE)
    wait_until(lambda: str(event["node"]) in {row["worker"] for row in run.episodes()[seen:]})
    run.process.send_signal(signal.SIGINT)
    outcome = run.outcome()
    assert outcome["reason"] == "interrupted"


PAUSE = """
import os
import time
from contextlib import suppress
import psutil
from a3c_zoo import hookimpl

pauses = [61.0]


@hookimpl
def zoo_should_stop(progress):
    if progress.steps > 1000 and pauses:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if "ray::NodeActor" in " ".join(process.cmdline()) and process.cwd() == os.getcwd():
                    process.kill()  # a node of this run: it works in the run's folder
        time.sleep(pauses.pop())
"""


@pytest.mark.slow
def test_the_only_node_dies_while_the_driver_is_busy(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    """For longer than the run waits for nodes, as in a long standstill."""
    (tmp_path / "pause.py").write_text(PAUSE)
    words = [*options(1, 20_000, "run.worker_timeout_s=60"), "--plugin", "pause.py"]
    run = Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *words)
    assert (run.outcome()["reason"], len(run.events("node_replaced"))) == ("steps", 1)


def test_a_server_dies(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    # On a fast machine a run of 60,000 steps had ended before its server was looked for: this one ends when told to.
    run = Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *options(2, 10_000_000))
    run.wait_for_episodes(100)
    (server,) = servers()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: run.events("restarted"))
    (event,) = run.events("restarted")
    assert re.search(r"a parameter server was lost \(Actor(Died|Unavailable)Error", event["text"])
    run.wait_for_episodes(len(run.episodes()) + 100)
    run.process.send_signal(signal.SIGINT)
    outcome = run.outcome()
    assert outcome["reason"] == "interrupted"
    assert outcome["steps"] > event["step"]


def test_the_reason_of_a_loss_is_rays_own_in_one_line() -> None:
    from ray.core.generated.common_pb2 import ActorDiedErrorContext
    from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

    from a3c_zoo_ray.cluster import why_lost

    text = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR" + " and so on" * 30
    told = why_lost(ActorDiedError(ActorDiedErrorContext(error_message=text, class_name="Shard", actor_id=bytes(16))))
    assert told.startswith(
        "ActorDiedError: The actor is dead because its worker process has died. Worker exit type: SYS"
    )
    assert (len(told) <= 220, told[-1], "\n" in told) == (True, "…", False)
    assert why_lost(ActorUnavailableError("it does not answer", None)) == "ActorUnavailableError"
    trace = "Traceback (most recent call last):\n  File …\nModuleNotFoundError: No module named 'a3c_zoo_ray'"
    unmade = RayTaskError("NodeActor.__init__", trace, ModuleNotFoundError(), ip="127.0.0.1")
    assert why_lost(ActorDiedError(unmade)) == "ActorDiedError: ModuleNotFoundError: No module named 'a3c_zoo_ray'"


@pytest.mark.slow
def test_a_server_dies_after_ctrl_c(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    """As when all machines of a job are ended at once."""
    here = environ | {"RAY_ADDRESS": cluster.address}
    run = Run(tmp_path, here, *options(2, 10_000_000))
    run.wait_for_episodes(100)
    (server,) = servers()
    os.kill(server, signal.SIGSTOP)  # so that no standstill can end before the server does
    run.process.send_signal(signal.SIGINT)
    os.kill(server, signal.SIGKILL)
    outcome = run.outcome()
    assert run.process.returncode == 130
    assert (outcome["reason"], run.events("restarted")) == ("interrupted", [])
    assert re.match(r"Ctrl-C; a parameter server was lost \(Actor(Died|Unavailable)Error", outcome["detail"])
    resumed = Run(tmp_path, here, "--resume", str(run.path), "--steps", str(outcome["steps"] + 5000)).outcome()
    assert (resumed["reason"], resumed["episodes"] > outcome["episodes"]) == ("steps", True)


@pytest.mark.slow
def test_the_driver_dies(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    here = environ | {"RAY_ADDRESS": cluster.address}
    run = Run(tmp_path, here, *options(2, 10_000_000))
    run.wait_for_episodes(100)
    assert len(pids_of("ray::NodeActor", "a3c worker")) >= 2
    run.process.kill()
    run.process.communicate()
    names = ("ray::NodeActor", "ray::Shard", "a3c worker")
    wait_until(lambda: not pids_of(*names) and not folders("a3c-node-"), GONE_LIMIT_S)
    resumed = Run(tmp_path, here, "--resume", str(run.path), "--steps", "50000")
    assert resumed.outcome()["steps"] >= 50_000


LATE = """
import sys, time
import ray
from a3c_zoo_ray.actors import Member
from a3c_zoo_ray.node import NodeReport

class Ahead:
    def poll(self):
        return NodeReport([], None, {}, None, now_s=time.monotonic() + 1000)

ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
member = Member(None, ray.remote(num_cpus=0)(Ahead).remote())
for seconds in (2, 0, 2):
    member.ask("poll")
    ray.wait([member.call])
    time.sleep(seconds)
    member.answer()
assert -1000 < member.offset_s < -999, member.offset_s
"""


def test_the_clock_of_a_node_is_known_though_answers_are_read_late(
    cluster: Any, environ: dict[str, str], tmp_path: Path
) -> None:
    done = run_program(LATE, cluster, tmp_path, environ)
    assert done.returncode == 0, done.stderr


def test_an_address_that_nobody_answers_at(environ: dict[str, str], tmp_path: Path) -> None:
    for number, (address, line) in enumerate(
        [
            (
                "127.0.0.1:1",
                "no cluster answers at '127.0.0.1:1' ([Errno 111] Connection refused): is Ray running there",
            ),
            ("ray://127.0.0.1:1", "ray://127.0.0.1:1: run the command on a machine of the cluster, with the address"),
        ]
    ):
        (folder := tmp_path / str(number)).mkdir()
        run = Run(folder, environ | {"RAY_ADDRESS": address}, *options(1, 1000))
        errors = run.process.communicate(timeout=LIMIT_S)[1].splitlines()
        assert (run.process.returncode, errors[-1][: len(line) + 7]) == (2, f"Error: {line}")


def test_an_address_that_is_none_is_refused() -> None:
    from a3c_zoo_ray.cluster import joined_cluster

    for address in ("10.0.0..1:6379", "10.0.0.1:²", "127.0.0.1:99999"):
        with (
            pytest.raises(ConfigError, match=rf"^no cluster answers at '{re.escape(address)}' \("),
            joined_cluster(1, address),
        ):
            pytest.fail("nobody answers there")


def test_a_ray_of_this_machine_without_a_folder_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from a3c_zoo_ray.cluster import joined_cluster

    monkeypatch.setattr(sys, "executable", "true")
    with pytest.raises(WorkerError, match=r"^Ray cannot be started: OSError: the process "), joined_cluster(1, "local"):
        pytest.fail("there is no folder")


def test_ray_does_not_know_the_variable_of_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take it for `auto`."""
    from a3c_zoo_ray.cluster import _environment

    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with _environment({}):
        assert "RAY_ADDRESS" not in os.environ
    assert os.environ["RAY_ADDRESS"] == "10.0.0.1:6379"


def test_rays_sockets_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the longest folder of temporary files, else below /tmp. The number of a process has seven digits at most."""
    from ray._private.utils import validate_socket_filepath

    from a3c_zoo_ray.cluster import _short_parent

    for folder in ("/" + "x" * length for length in range(20, 45)):
        monkeypatch.setattr(tempfile, "tempdir", folder)
        names = "a3c-ray-abcdefgh/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
        validate_socket_filepath(f"{_short_parent()}/{names}")
    assert _short_parent() == "/tmp"
    monkeypatch.setattr(tempfile, "tempdir", "/" + "é" * 13)
    assert _short_parent() == "/tmp"
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 25)
    assert _short_parent() == tempfile.tempdir


def test_a_node_has_its_cpus_on_one_machine() -> None:
    from a3c_zoo_ray.crew import check_cpus

    for cpus, sizes in ([4, 2], [2, 2, 2]), ([0, 5], [3, 2]), ([3, 5], [3, 3, 2]), ([7, 7], [4, 4, 3, 3]):
        check_cpus(cpus, sizes)
    for cpus, sizes in ([3, 3], [2, 2, 2]), ([3, 2, 2], [3, 3]), ([4, 4], [3, 3, 2]), ([2, 2], [3]), ([2, 1], [2, 2]):
        with pytest.raises(
            ConfigError, match=f"; {len(sizes)} nodes need {sum(sizes)}, each up to {max(sizes)} on one"
        ):
            check_cpus(cpus, sizes)
    line = "the cluster has 6 CPUs, 3 on its largest machine; 3 nodes need 6, each up to 2 on one machine: lower "
    with pytest.raises(ConfigError, match=f"^{line}--workers, or change agent.nodes$"):
        check_cpus([3, 3], [2, 2, 2])


def test_too_few_cpus(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    """Also for a new run that begins with the parameters of another."""
    here = environ | {"RAY_ADDRESS": cluster.address}
    first = Run(tmp_path / "first", here, *options(1, 1000), "--serial")
    assert first.outcome()["reason"] == "steps"
    line = (
        "Error: the cluster has 3 CPUs, 1 on its largest machine; 4 nodes need 4, each up to 1 on one machine: lower "
        "--workers, or change agent.nodes"
    )
    for name, more in ("new", ()), ("trained", ("--init-from", str(first.path))):
        run = Run(tmp_path / name, here, *options(4, 1000), *more)
        errors = run.process.communicate(timeout=LIMIT_S)[1].splitlines()
        assert (run.process.returncode, errors[-1]) == (2, line)


def children_of(run: Run) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(run.process.pid).children(recursive=True)
    return found


@pytest.mark.slow
def test_without_a_cluster_a_ray_of_this_machine_begins_and_ends(environ: dict[str, str], tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # names of Ray's sockets must be short
    here = environ | {"TMPDIR": str(folder)}
    run = Run(tmp_path, here, *options(1, 10_000_000))
    run.wait_for_episodes(50)
    processes = children_of(run)
    names = {" ".join(each.cmdline()).split(".")[0].strip() for each in processes}
    assert {"ray::NodeActor", "ray::Shard"} <= names
    for process in processes:
        listening = [each.laddr.ip for each in process.net_connections() if each.status == "LISTEN"]
        assert {ip.removeprefix("::ffff:") for ip in listening} <= {"127.0.0.1"}, process
    os.killpg(run.process.pid, signal.SIGTERM)  # as `timeout` and a closed terminal do: to the whole group
    assert run.outcome()["reason"] == "interrupted"
    wait_until(lambda: not living(processes), GONE_LIMIT_S)
    assert not list(folder.iterdir())

    resumed = Run(tmp_path, here, "--resume", str(run.path))
    resumed.wait_for_episodes(len(resumed.episodes()) + 50)
    processes = children_of(resumed)
    resumed.process.kill()
    resumed.process.communicate()
    wait_until(lambda: not living(processes) and not list(folder.glob("a3c-*")), GONE_LIMIT_S)
    assert not [name for name in os.listdir("/dev/shm") if "plasma" in name]
    shutil.rmtree(folder)  # of every killed process that has used multiprocessing a socket stays
