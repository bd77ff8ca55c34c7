"""Workers that fail are replaced while training goes on: real processes that die, hang and start programs."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import a3c_zoo
from a3c_zoo.config import RunConfig
from a3c_zoo.errors import ConfigError, CrewLostError, EnvironmentContractError, WorkerError
from a3c_zoo.learning.counters import EPISODES, REPLACED, STEPS
from a3c_zoo.processes.child import ChildProcess
from a3c_zoo.processes.faults import Allowance, Fault, Replacements, UnsavableStateError
from a3c_zoo.processes.start import process_context
from a3c_zoo.records import Progress, Report
from a3c_zoo.runs import train as train_module
from tests.test_pool import processes, run_until_error, running
from tests.toys_child import start_a_program
from tests.toys_pool import STEPS as ROLLOUT
from tests.toys_runs import Listener, Running, checkpoint, command_line, episodes, scalars, signal_self, toy_installed
from tests.waits import LIMIT_S, wait_until


class Context:
    """As much of a run as a judge needs."""

    def __init__(self, **run: Any) -> None:
        self.config = SimpleNamespace(run=RunConfig(**run))
        self.told: list[str] = []

    def event(self, kind: str, text: str, **facts: object) -> None:
        self.told.append(text)


CARTPOLE = {"run.stop_when_solved": False}


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


def events(run: Path, kind: str = "") -> list[dict[str, Any]]:
    """The lines of events.jsonl."""
    path = run / "events.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if kind in ("", line["kind"])]


def worker_pids() -> dict[str, int]:
    """The workers' names and process numbers."""
    found = {process.name: process.pid for process in multiprocessing.active_children()}
    return {name: pid for name, pid in found.items() if name.startswith("a3c-zoo") and pid is not None}


class Saboteur(Listener):
    """Signals a process of the run at some steps."""

    def __init__(self, name: str, number: int, *at_steps: int) -> None:
        super().__init__()
        self.name, self.number, self.left = name, number, list(at_steps)
        self.hit: list[int] = []

    def progress(self, progress: Progress) -> None:
        super().progress(progress)
        pid = worker_pids().get(self.name)
        if self.left and progress.steps >= self.left[0] and pid is not None and pid not in self.hit:
            self.left.pop(0)
            self.hit.append(pid)
            os.kill(pid, self.number)


# In a pool


class Judge:
    """Allows everything, and remembers it."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def __call__(self, fault: Fault) -> None:
        self.faults.append(fault)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("kill", "was ended by signal SIGKILL (out of memory?)"),
        ("segfault", "was ended by signal SIGSEGV"),
        ("leave", "ended by itself with exit status 3"),
    ],
)
def test_a_dead_worker_is_replaced_and_the_others_go_on(fault: str, what: str) -> None:
    judge = Judge()
    with running(fault, judge=judge) as pool:
        pool.start()
        pool.park()
        first = processes(pool)
        pool.resume()
        deadline = time.monotonic() + LIMIT_S
        while len(judge.faults) < 3 and time.monotonic() < deadline:  # the successors have the fault, too
            pool.poll()
        pool.park()
        states = pool.states()
        assert len(states) == 2
        assert states[0]["pid"] == first[0].pid
        assert states[1]["pid"] != first[1].pid
        assert first[0].is_running()
        assert has_ended(first[1])
        counts = pool._counters.tensor
        assert counts[1, REPLACED] >= 3
        assert counts[0, REPLACED] == 0
        assert counts[0, STEPS] == states[0]["rollouts"] * ROLLOUT  # nobody has touched the other
    assert {(each.rank, each.who, each.what) for each in judge.faults} == {(1, "worker 1", what)}


def test_episodes_that_the_dead_did_not_report_do_not_count() -> None:
    """The worker counts an episode in each rollout, reports none, and dies in its third."""
    left: list[int] = []

    def judge(fault: Fault) -> None:
        left.append(int(pool._counters.tensor[1, EPISODES]))

    with running("kill", judge=judge) as pool:
        pool.start()
        pool.resume()
        while len(left) < 3:
            pool.poll()
        assert left == [0, 0, 0]


def test_a_worker_that_dies_while_the_others_are_parked_for_is_replaced() -> None:
    judge = Judge()
    with running(judge=judge) as pool:
        pool.start()
        pool.park()
        victim = processes(pool)[1]
        victim.suspend()
        pool.resume()
        time.sleep(0.3)
        victim.kill()
        pool.park()
        assert len(pool.states()) == 2
        assert len(judge.faults) == 1
        steps = pool._counters.steps
        pool.resume()
        while pool._counters.tensor[1, STEPS] < 5 * ROLLOUT:
            pool.poll()
        assert pool._counters.steps > steps


def test_a_worker_that_cannot_be_replaced_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server has ended, and another one cannot be started at this moment."""
    judge = Judge()
    with running(judge=judge) as pool:
        pool.start()
        pool.park()
        processes(pool)[1].kill()

        ensure_running = forkserver.ensure_running

        def refuse_once() -> None:
            monkeypatch.setattr(forkserver, "ensure_running", ensure_running)
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr("a3c_zoo.processes.pool.SHORTEST_PAUSE_S", 0.0)
        monkeypatch.setattr(forkserver, "ensure_running", refuse_once)
        pool.resume()
        while pool._counters.tensor[1, STEPS] < 5 * ROLLOUT:
            pool.poll()
    assert [each.what.split(": ")[0] for each in judge.faults] == [
        "was ended by signal SIGKILL (out of memory?)",
        "cannot be replaced",
    ]
    assert "Too many open files" in judge.faults[1].what


def test_a_worker_is_replaced_though_the_fork_servers_folder_was_removed() -> None:
    """A cleaner of temporary files has taken it: another server starts, at the first try."""
    judge = Judge()
    with running(judge=judge) as pool:
        pool.start()
        pool.park()
        server: Any = forkserver._forkserver
        address = Path(server._forkserver_address)
        shutil.rmtree(address.parent)
        processes(pool)[1].kill()
        pool.resume()
        while pool._counters.tensor[1, STEPS] < 5 * ROLLOUT:
            pool.poll()
        assert Path(server._forkserver_address).exists()
    assert [each.what.split(": ")[0] for each in judge.faults] == ["was ended by signal SIGKILL (out of memory?)"]


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended; its parent may not have noticed."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_hung_worker_is_ended_and_replaced() -> None:
    judge = Judge()
    with running(judge=judge) as pool:
        pool.start()
        pool.park()
        victim = processes(pool)[1]
        pool.resume()
        while not any(report.worker == 1 for report in pool.poll()):
            pass
        pool._timeout_s = 2.0
        victim.suspend()
        deadline = time.monotonic() + LIMIT_S
        while not judge.faults and time.monotonic() < deadline:
            pool.poll()
        pool._timeout_s = LIMIT_S  # for the start of the next one
        assert [each.what for each in judge.faults] == ["has made no step for 2 s"]
        wait_until(lambda: has_ended(victim))
        pool.park()
        assert len(pool.states()) == 2


def test_a_worker_that_raises_before_its_first_report_is_not_replaced() -> None:
    """An environment that doesn't work at all ends the run at once, whatever run.worker_restarts says."""
    faults: list[Fault] = []

    def judge(fault: Fault) -> None:
        faults.append(fault)
        raise fault.error

    with running("raise", judge=judge) as pool:
        error = run_until_error(pool)
        assert str(error).endswith("ValueError: boom")
    assert [(each.is_early, each.what) for each in faults] == [(True, "failed: ValueError: boom")]
    assert "in misbehave\n" in faults[0].trace


def test_the_last_reports_are_handed_over_at_the_stop() -> None:
    with running() as pool:
        pool.start()
        pool.resume()
        time.sleep(0.35)  # nobody polls
        reports = pool.stop()
        assert {report.worker for report in reports} == {0, 1}
        for rank in (0, 1):
            newest = max(report.steps for report in reports if report.worker == rank)
            assert newest == pool._counters.tensor[rank, STEPS]
        assert pool.stop() == []


def test_rollouts_that_are_cut_short_are_not_counted() -> None:
    with running("slow") as pool:
        pool.start()
        pool.resume()
        while pool._counters.ticks.min() < 3:
            pool.poll()
        start_s = time.monotonic()
        pool.park(lambda: True)
        assert time.monotonic() - start_s < LIMIT_S / 10  # a rollout of this worker takes a minute and more
        assert pool._counters.steps == 0
        assert len(pool.states()) == 2


def test_an_allowance_is_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("a3c_zoo.processes.faults.time.monotonic", lambda: now[0])
    allowance = Allowance(2)
    assert [allowance.take(), allowance.take(), allowance.take()] == [True, True, False]
    assert allowance.used == 2
    now[0] += 3601
    assert allowance.used == 0
    assert allowance.take()
    assert not Allowance(0).take()


def test_a_lock_that_died_with_its_holder_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent cannot take it; a lock that a living worker holds for a moment, it can."""
    monkeypatch.setattr("a3c_zoo.processes.faults.LOCK_LIMIT_S", 0.2)
    lock, context = process_context().Lock(), Context()
    replacements = Replacements(context.event, 3, lock)
    fault = Fault(1, "worker 1", WorkerError("worker 1 died"), "died")
    replacements.judge(fault)
    assert context.told == ["worker 1 died; a new one takes its place (1 of 3 in an hour)"]
    assert lock.acquire(timeout=0)  # the judge has given it back; and now nobody will
    with pytest.raises(CrewLostError, match=r"^the lock of agent\.locking is lost: worker 1 died$"):
        replacements.judge(fault)


def test_a_state_that_cannot_be_saved_ends_the_run_though_a_successor_has_it() -> None:
    fault = Fault(1, "worker 1", UnsavableStateError("it cannot be saved"), "failed", is_successor=True)
    context = Context()
    with pytest.raises(UnsavableStateError):
        Replacements(context.event, 3).judge(fault)
    assert context.told == []


# In a run


@pytest.mark.parametrize(
    "agent", ["a3c", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a3c-grad", "a3c-data"))]
)
def test_a_run_whose_workers_die_ends_at_its_episodes(agent: str, tmp_path: Path) -> None:
    """The episodes are many: the run must not end before it has noticed the second death."""
    saboteur = Saboteur("a3c-zoo worker 1", signal.SIGKILL, 500, 2000)
    ended = a3c_zoo.train(
        "cartpole", agent=agent, episodes=500, overrides=CARTPOLE, runs_dir=tmp_path, observer=saboteur
    )
    assert ended.reason == "episodes"
    assert len(saboteur.hit) == 2
    rows, saved = episodes(ended.run), checkpoint(ended.run)
    assert len(rows) == ended.episodes == saved["session"]["episodes"] >= 500
    counters = saved["agent"]["counters"]
    assert int(counters[:, EPISODES].sum()) == ended.episodes
    assert counters[:, REPLACED].tolist()[:2] == [0, 2]
    replaced = events(ended.run, "worker_replaced")
    assert [(event["worker"], event["fault"]) for event in replaced] == [
        (1, "was ended by signal SIGKILL (out of memory?)")
    ] * 2
    assert replaced[1]["text"].endswith("a new one takes its place (2 of 3 in an hour)")
    assert [event["text"] for event in replaced] == [text for text in saboteur.messages if "takes its place" in text]
    assert scalars(ended.run)["events/worker_replaced"][-1][1] == 2
    # The successor's episodes are new ones.
    first = [(row["r"], row["l"]) for row in rows if row["worker"] == 1]
    assert len(set(first)) > 5
    again = a3c_zoo.train(resume=ended.run, episodes=ended.episodes + 50)
    assert again.reason == "episodes"


def test_too_many_deaths_end_the_run_with_its_newest_checkpoint(tmp_path: Path) -> None:
    saboteur = Saboteur("a3c-zoo worker 0", signal.SIGKILL, 500, 1500, 2500)
    overrides = {**CARTPOLE, "run.worker_restarts": 2}
    with pytest.raises(WorkerError, match="worker 0 was ended by signal SIGKILL") as caught:
        a3c_zoo.train("cartpole", steps=10_000_000, overrides=overrides, runs_dir=tmp_path, observer=saboteur)
    assert caught.value.exit_status == 1
    assert caught.value.__notes__[0] == "(worker 3 to fail within an hour: run.worker_restarts)"
    (run,) = tmp_path.iterdir()
    saved = checkpoint(run)
    assert saved["session"]["steps"] == int(saved["agent"]["counters"][:, STEPS].sum()) >= 2500
    assert len(episodes(run)) == saved["session"]["episodes"] == int(saved["agent"]["counters"][:, EPISODES].sum())
    assert len(events(run, "worker_replaced")) == 2
    assert a3c_zoo.train(resume=run, steps=saved["session"]["steps"] + 2000).reason == "steps"


def test_a_dead_learner_ends_the_session_and_the_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    saboteur = Saboteur("a3c-zoo the learner", signal.SIGKILL, 2000)
    ended = a3c_zoo.train(
        "cartpole", agent="a3c-data", steps=8000, overrides=CARTPOLE, runs_dir=tmp_path, observer=saboteur
    )
    assert (ended.reason, len(saboteur.hit)) == ("steps", 1)
    (event,) = events(ended.run, "restarted")
    assert "the learner was ended by signal SIGKILL" in event["text"]
    saved = checkpoint(ended.run)
    assert len(episodes(ended.run)) == ended.episodes == saved["session"]["episodes"]
    assert int(saved["agent"]["counters"][:, STEPS].sum()) == ended.steps >= 8000
    assert saved["agent"]["session"] == 1


def test_a_restart_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "the learner failed: ValueError: boom\n\nTraceback (most recent call last):\nValueError: boom"

    def lose_once(*args: Any, run_agent: Any = train_module._run_agent) -> Any:
        outcome = run_agent(*args)
        if not events(outcome.run, "restarted"):
            raise CrewLostError(whole)
        return outcome

    monkeypatch.setattr(train_module, "_run_agent", lose_once)
    ended = a3c_zoo.train("cartpole", serial=True, steps=10, overrides=CARTPOLE, runs_dir=tmp_path)
    (event,) = events(ended.run, "restarted")
    line = f"going on from step {ended.steps}: the learner failed: ValueError: boom (1 of 3 restarts in an hour)"
    assert (event["text"], event["trace"]) == (line, whole)


def test_a_run_that_may_not_restart_ends_with_the_learner(tmp_path: Path) -> None:
    saboteur = Saboteur("a3c-zoo the learner", signal.SIGKILL, 2000)
    overrides = {**CARTPOLE, "run.restarts": 0}
    with pytest.raises(CrewLostError, match="the learner was ended by signal SIGKILL"):
        a3c_zoo.train(
            "cartpole", agent="a3c-grad", steps=10**7, overrides=overrides, runs_dir=tmp_path, observer=saboteur
        )
    (run,) = tmp_path.iterdir()
    assert json.loads((run / "outcome.json").read_text())["reason"] == "error"


@pytest.mark.usefixtures("_toy")
def test_an_environment_that_fails_now_and_then(tmp_path: Path) -> None:
    """Each worker's environment breaks after 300 steps: three workers are replaced, the next fault ends the run."""
    overrides = {"env.fault": "raise", "env.after": 300, "env.step_s": 0.002, "agent.n_steps": 5, **CARTPOLE}
    listener = Listener()
    with pytest.raises(WorkerError, match="RuntimeError: the toy broke"):
        a3c_zoo.train("toy", workers=1, overrides=overrides, runs_dir=tmp_path / "r", steps=10**7, observer=listener)
    (run,) = (tmp_path / "r").iterdir()
    found = events(run, "worker_replaced")
    assert [event["fault"] for event in found] == ["failed: RuntimeError: the toy broke"] * 3
    assert all("Traceback (most recent call last)" in event["trace"] for event in found)
    # Two environments, whose every other step is a reset; the rollout that breaks is not counted.
    assert 4 * 250 < checkpoint(run)["session"]["steps"] <= 4 * 300


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize(
    ("fault", "message", "status"),
    [
        ("exit", "a worker failed: SystemExit: 0", 1),
        ("factory-exit", "environment 'toy' cannot be made: SystemExit: 0", 2),
    ],
)
def test_an_environment_that_ends_the_program_ends_no_serial_run_in_silence(
    fault: str, message: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that has begun ends with an error, and has a checkpoint with what was learned before."""
    settings = ["-o", f"env.fault={fault}", "-o", "env.after=50", "-o", "agent.n_steps=5", "-o", "num_envs=2"]
    arguments = ["--serial", "--steps", "10000", "--workers", "1", "--runs-dir", f"{tmp_path / 'r'}", *settings]
    assert command_line("train", "toy", *arguments) == status
    assert message in capsys.readouterr().err
    if status == 1:
        (run,) = (tmp_path / "r").iterdir()
        assert json.loads((run / "outcome.json").read_text())["reason"] == "error"
        assert checkpoint(run)["session"]["steps"] > 30


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize("fault", ["nan", "raise"])
def test_an_environment_that_never_works_ends_the_run_at_once(fault: str, tmp_path: Path) -> None:
    kind = EnvironmentContractError if fault == "nan" else WorkerError
    with pytest.raises(kind):
        a3c_zoo.train("toy", overrides={"env.fault": fault}, runs_dir=tmp_path / "r", steps=10**7)
    (run,) = (tmp_path / "r").iterdir()
    assert events(run) == []


@pytest.mark.parametrize("value", [-1, 1.5, True])
@pytest.mark.parametrize("key", ["run.worker_restarts", "run.restarts"])
def test_bad_limits(key: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=key):
        a3c_zoo.train("cartpole", overrides={key: value}, runs_dir=tmp_path)


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize("serial", [False, True])
def test_a_time_limit_ends_within_a_step_of_the_environment(serial: bool, tmp_path: Path) -> None:
    overrides = {"env.step_s": 0.05, "agent.n_steps": 10_000, **CARTPOLE}
    start_s = time.monotonic()
    ended = a3c_zoo.train(
        "toy", overrides=overrides, time_limit_s=1.0, serial=serial, workers=1, runs_dir=tmp_path / "r"
    )
    assert ended.reason == "time-limit"
    assert 1.0 <= ended.training_s < 10  # a rollout takes 500 s
    assert time.monotonic() - start_s < LIMIT_S
    assert ended.steps == 0  # the rollout is lost
    assert a3c_zoo.train(resume=ended.run, time_limit_s=1.2).reason == "time-limit"


# Process groups


@pytest.mark.parametrize(
    ("start_method", "how"),
    [
        ("forkserver", "kill"),
        ("forkserver", "lifeline"),
        pytest.param("spawn", "kill", marks=pytest.mark.slow),  # a spawned process imports torch itself
        ("spawn", "lifeline"),
    ],
)
def test_programs_of_an_environment_end_with_their_worker(start_method: str, how: str) -> None:
    child = ChildProcess(start_method, "simulated", start_a_program)
    assert child.pipe.poll(LIMIT_S)
    program = psutil.Process(int(child.pipe.recv_bytes()))
    if how == "kill":
        child.kill()
    else:
        child._lifeline.close()  # as the kernel does when the parent ends
    wait_until(lambda: has_ended(program))
    child.process.join(LIMIT_S)
    assert child.process.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_a_suspended_run_is_not_hung(tmp_path: Path) -> None:
    """Ctrl-Z reaches the parent alone; longer than run.worker_timeout_s later, all go on."""
    options = ("--steps", "10000000", "--name", "x", "-o", "run.worker_timeout_s=2", "-o", "run.stop_when_solved=false")
    with Running("train", "cartpole", *options, folder=tmp_path) as run:
        monitor = tmp_path / "runs/x"
        run.wait_until(lambda: len(episodes(monitor)) > 50)
        os.kill(run.process.pid, signal.SIGTSTP)
        run.wait_until(lambda: all(each.status() == psutil.STATUS_STOPPED for each in run.workers()))
        assert psutil.Process(run.process.pid).status() == psutil.STATUS_STOPPED
        count = len(episodes(monitor))
        time.sleep(4)
        assert len(episodes(monitor)) == count
        os.kill(run.process.pid, signal.SIGCONT)
        run.wait_until(lambda: len(episodes(monitor)) > count + 50)
        os.kill(run.process.pid, signal.SIGINT)
        assert run.exit_status() == 130
        run.assert_nothing_left()
    assert json.loads((monitor / "outcome.json").read_text())["reason"] == "interrupted"
    assert events(monitor) == []


def test_a_whole_machine_that_sleeps_is_not_hung(tmp_path: Path) -> None:
    options = ("--steps", "10000000", "--name", "x", "-o", "run.worker_timeout_s=2", "-o", "run.stop_when_solved=false")
    with Running("train", "cartpole", *options, folder=tmp_path) as run:
        monitor = tmp_path / "runs/x"
        run.wait_until(lambda: len(episodes(monitor)) > 50)
        everybody = [psutil.Process(run.process.pid), *run.workers()]
        for process in everybody:
            process.suspend()
        time.sleep(4)
        count = len(episodes(monitor))
        for process in everybody:  # the parent first: it must not judge workers that still stand still
            process.resume()
        run.wait_until(lambda: len(episodes(monitor)) > count + 50)
        os.kill(run.process.pid, signal.SIGINT)
        assert run.exit_status() == 130
    assert events(monitor) == []


@pytest.mark.slow
def test_a_run_survives_the_death_of_its_fork_server(tmp_path: Path) -> None:
    """A worker that dies after it is replaced from a new fork server; the others never notice."""
    options = ("--steps", "10000000", "--name", "x", "-o", "run.stop_when_solved=false")
    with Running("train", "cartpole", *options, folder=tmp_path) as run:
        monitor = tmp_path / "runs/x"
        run.wait_until(lambda: len(episodes(monitor)) > 50)
        victim = run.workers()[0]
        psutil.Process(victim.ppid()).kill()
        count = len(episodes(monitor))
        run.wait_until(lambda: len(episodes(monitor)) > count + 50)
        victim.kill()
        run.wait_until(lambda: events(monitor, "worker_replaced"))
        count = len(episodes(monitor))
        run.wait_until(lambda: {row["worker"] for row in episodes(monitor)[count:]} == {0, 1})
        os.kill(run.process.pid, signal.SIGINT)
        assert run.exit_status() == 130
        run.assert_nothing_left()


class Replaced(Saboteur):
    """Ends the run at the first result of the evaluator that comes after it was replaced."""

    replaced_at = 0
    later: int | None = None  # the step of that result

    def progress(self, progress: Progress) -> None:
        super().progress(progress)
        found = progress.evaluator
        if self.messages and self.later is None and found and found.step > self.replaced_at:
            signal_self()
            self.later = found.step

    def message(self, text: str) -> None:
        super().message(text)
        self.replaced_at = self.steps[-1]


@pytest.mark.usefixtures("_toy")
def test_the_evaluator_is_replaced(tmp_path: Path) -> None:
    saboteur = Replaced("a3c-zoo evaluator", signal.SIGKILL, 20)
    overrides = {**CARTPOLE, "run.evaluation_every_s": 0.2, "run.evaluation_cpu_share": 1.0, "env.step_s": 0.005}
    ended = a3c_zoo.train("toy", time_limit_s=LIMIT_S, overrides=overrides, runs_dir=tmp_path / "r", observer=saboteur)
    assert (ended.reason, ended.evaluator_fault) == ("interrupted", None)
    (event,) = events(ended.run, "evaluator_replaced")
    assert event["fault"] == "it was ended by signal SIGKILL (out of memory?)"
    rows = (ended.run / "evaluations.csv").read_text().splitlines()[1:]
    assert any(int(row.split(",")[0]) == saboteur.later for row in rows)


def test_a_standstill_of_an_earlier_turn_does_not_count() -> None:
    """A successor that comes up at a standstill may say so only after the next turn of work has begun."""
    with running(judge=Judge()) as pool:
        pool.start()
        pool.park()
        old = pool._turn
        pool.resume()
        member = pool._members[1]
        report = Report(worker=1)
        pool._take(1, member, "parked", (report, {"rollouts": 0}, old))
        assert member.state is None
        reports = pool.park()
        assert member.state is not None
        assert any(each is report for each in reports)


def test_episodes_that_nobody_reports_at_the_stop_do_not_count() -> None:
    with running() as pool:  # whose worker counts episodes that it never reports
        pool.start()
        pool.resume()
        while pool._counters.episodes < 3:
            pool.poll()
        pool.stop()
        assert pool._counters.episodes == 0


@pytest.mark.usefixtures("_toy")
def test_a_serial_run_that_fails_keeps_the_reports_of_its_workers(tmp_path: Path) -> None:
    overrides = {"env.fault": "raise", "env.after": 300, "agent.n_steps": 7, **CARTPOLE}
    with pytest.raises(RuntimeError, match="the toy broke"):
        a3c_zoo.train("toy", workers=2, serial=True, overrides=overrides, runs_dir=tmp_path / "r", steps=10**7)
    (run,) = (tmp_path / "r").iterdir()
    saved = checkpoint(run)
    assert len(episodes(run)) == saved["session"]["episodes"] == int(saved["agent"]["counters"][:, EPISODES].sum()) > 0


@pytest.mark.usefixtures("_toy")
def test_a_check_that_fails_is_put_off(tmp_path: Path) -> None:
    """The environment of the evaluation that decides is as flaky as that of a worker."""
    overrides = {"env.evaluation_fault": "raise", "agent.n_steps": 5, "run.worker_restarts": 2}
    listener = Listener()
    with pytest.raises(WorkerError, match="the toy broke"):
        a3c_zoo.train("toy", workers=1, overrides=overrides, runs_dir=tmp_path / "r", steps=10**6, observer=listener)
    (run,) = (tmp_path / "r").iterdir()
    found = events(run, "check_failed")
    assert len(found) == 2
    assert found[1]["step"] > found[0]["step"]
    assert found[1]["text"].endswith("training goes on (2 of 2 in an hour)")
    assert "the toy broke" in found[0]["trace"]


@pytest.mark.usefixtures("_toy")
def test_a_check_that_fails_as_the_run_ends(tmp_path: Path) -> None:
    """The run ends there: where the time limit has cut rollouts, workers cannot go on."""
    overrides = {"env.evaluation_fault": "raise", "run.worker_restarts": 1}
    options: dict[str, Any] = {"workers": 1, "serial": True, "overrides": overrides, "episodes": 100}
    outcome = a3c_zoo.train("toy", runs_dir=tmp_path, **options)
    (found,) = events(outcome.run, "check_failed")
    assert found["text"].endswith("the run ends all the same (1 of 1 in an hour)")
    assert (outcome.reason, outcome.steps) == ("episodes", found["step"])
