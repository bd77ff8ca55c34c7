"""The engine `ray`: many trainings at once, each on CPUs of its own of one machine of a Ray cluster."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from a3c_zoo.engines import Engine, JobProgress, TrainingJob
from a3c_zoo.errors import ConfigError, WorkerError, type_and_message

from a3c_zoo_ray.config import RayEngineConfig
from a3c_zoo_ray.job import End, Piece, PieceWriter, carry_out, examine, order_of
from a3c_zoo_ray.machines import Machine, difference, free_machine
from a3c_zoo_ray.owner import owned_folder

#: How often a job tells its progress, in seconds.
TELL_EVERY_S = 1.0
#: How long a cancelled job may take to save its run, in seconds.
STOP_GRACE_S = 70.0
#: How long the machines have to describe themselves, in seconds.
EXAMINE_LIMIT_S = 120.0
#: The most pieces that wait for the driver.
PIECES_AHEAD = 8
#: How long no job begins on a machine that has lost one, in seconds: Ray may not know yet that it is lost.
SHUN_S = 20.0
#: How long a job waits for a machine if there is none, in seconds.
ALONE_LIMIT_S = 300.0
STOPPED = "it was stopped"
Tell = Callable[[JobProgress | None], None]


class RayEngine(Engine):
    """Trains on the machines of a cluster. All jobs run on equal machines: the kind that has the most CPUs.

    Raises:
        ConfigError: no cluster answers at the address, or a machine has other versions than this one.
    """

    def __init__(self, settings: RayEngineConfig) -> None:
        if find_spec("ray") is None:
            raise ConfigError("engine 'ray' needs Ray, which is not installed: pip install 'ray>=2.50,<3'")
        from a3c_zoo_ray.cluster import joined_cluster

        self._settings, self._stack = settings, ExitStack()
        self._changed, self._is_stopped = threading.Condition(), threading.Event()
        self._looking = threading.Lock()
        self._used: dict[str, int] = defaultdict(int)
        self._known: dict[str, Machine] = {}
        self._left_out: dict[str, str] = {}  # node → why it gets no job
        self._shunned_s: dict[str, float] = {}  # node → until when no job begins there
        try:
            self._here = examine()
            self._stack.enter_context(joined_cluster(self._here["host"]["cores"], settings.address))
            self._example, self._slots = self._choose_kind()
        except BaseException:
            self._stack.close()
            raise

    def _choose_kind(self) -> tuple[Machine, int]:
        """Chooses the kind of the machines; returns one of it, and how many runs all of it have room for."""
        candidates = self._examine(self._alive())
        for text in self._left_out.values():
            raise ConfigError(f"{text} Install the same on all machines")
        kinds: dict[tuple[Any, ...], list[Machine]] = defaultdict(list)
        for machine in candidates:
            if text := difference(machine, self._here):
                raise ConfigError(f"machine {machine.address} has {text}: install the same on both")
            kinds[machine.kind].append(machine)
        if not kinds:
            raise ConfigError("the cluster has no machine with a CPU for jobs")
        chosen = max(kinds.values(), key=lambda machines: sum(machine.cpus for machine in machines))
        self._sort(candidates, chosen[0])
        return chosen[0], sum(machine.slots for machine in chosen)

    def _sort(self, machines: Sequence[Machine], example: Machine) -> None:
        """Tells the machines that get jobs, which are as the example, from the others."""
        for machine in machines:
            text = difference(machine, self._here)
            if not text and machine.kind != example.kind:
                text = f"{machine}; the others {example}"
            if text:
                self._left_out[machine.node_id] = f"Machine {machine.address} got no job: it has {text}."
            else:
                self._known[machine.node_id] = machine

    @property
    def slots(self) -> int:
        return self._slots

    def host(self) -> Mapping[str, Any]:
        return {key: self._example.about[key] for key in ("host", "versions")}

    def notes(self) -> Sequence[str]:
        return list(self._left_out.values())

    def train(self, job: TrainingJob, tell: Tell) -> str | None:
        """See `Engine`. A job takes a whole machine if none has a CPU for each worker, as on `local`."""
        why = ""
        for _ in range(self._settings.max_retries + 1):
            machine, cpus = self._take(job.workers, tell)
            if machine is None:
                return STOPPED
            try:
                return self._run(job, machine, cpus, tell)
            except _LostError as error:
                why = str(error)
                self._shunned_s[machine.node_id] = time.monotonic() + SHUN_S
            finally:
                with self._changed:
                    self._used[machine.node_id] -= cpus
                    self._changed.notify_all()
        if not self._settings.max_retries:
            return f"its machine was lost while it trained: {why}"
        return f"{self._settings.max_retries + 1} machines in a row were lost while it trained; the last: {why}"

    def stop(self) -> None:
        self._is_stopped.set()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        self._stack.close()

    def _run(self, job: TrainingJob, machine: Machine, cpus: int, tell: Tell) -> str | None:
        """Runs a job on a machine. Its directory arrives in a folder beside its place."""
        try:
            order = order_of(job)
        except OSError as error:
            return f"it cannot be sent to a machine: {type_and_message(error)}"
        try:
            job.runs_dir.mkdir(parents=True, exist_ok=True)
            with owned_folder(f".{job.name}-", str(job.runs_dir)) as folder:
                stream = _on(machine, carry_out, cpus, num_returns="streaming").remote(order)
                return self._take_in(stream, job, machine, Path(folder, job.name), tell)
        except (BrokenPipeError, InterruptedError):  # of `tell`
            raise
        except OSError as error:
            return f"it cannot be kept: {type_and_message(error)}"

    def _take_in(self, stream: Any, job: TrainingJob, machine: Machine, arrived: Path, tell: Tell) -> str | None:
        from ray.exceptions import RayError, RayTaskError

        from a3c_zoo_ray.cluster import why_lost

        try:
            fault = self._follow(stream, PieceWriter(arrived), tell)
            if arrived.is_dir():
                fault = _put(arrived, job) or fault
            return fault
        except _StoppedError:  # what has arrived is no whole run
            return STOPPED
        except RayTaskError as error:
            return f"it failed on {machine.address}: {type_and_message(error.cause)}"
        except RayError as error:
            raise _LostError(why_lost(error)) from error
        except WorkerError as error:
            _cancel(stream)
            raise _LostError(str(error)) from error
        except BaseException:
            _cancel(stream)
            raise

    def _follow(self, stream: Any, write: Callable[[Piece], None], tell: Tell) -> str | None:
        """Takes in what a job tells and sends, until its end."""
        import ray

        progress: JobProgress | None = None
        while True:
            if self._is_stopped.is_set():
                _cancel(stream)
                raise _StoppedError
            if not ray.wait([stream], timeout=TELL_EVERY_S)[0]:
                tell(progress)
                continue
            try:
                item = ray.get(next(stream))
            except StopIteration:
                raise WorkerError("its machine has sent no end") from None
            if isinstance(item, End):
                return item.fault
            if isinstance(item, Piece):
                write(item)
            else:
                progress = item
                tell(progress)

    # Machines

    def _take(self, workers: int, tell: Tell) -> tuple[Machine | None, int]:
        """Waits for a machine with free CPUs; returns it, with how many are taken. None if all jobs must end.

        Raises:
            WorkerError: there has been no machine for too long.
        """
        deadline_s = time.monotonic() + ALONE_LIMIT_S
        while not self._is_stopped.is_set():
            self._look_for_machines()
            with self._changed:
                machines = self._usable()
                if self._known:  # one that has just lost a job is there, too
                    deadline_s = time.monotonic() + ALONE_LIMIT_S
                elif time.monotonic() > deadline_s:
                    raise WorkerError(f"no machine has been left for {ALONE_LIMIT_S:g} s")
                if chosen := free_machine(machines, self._used, workers):
                    self._used[chosen.node_id] += chosen.room_for(workers)
                    return chosen, chosen.room_for(workers)
                self._changed.wait(TELL_EVERY_S)
            tell(None)
        return None, 0

    def _usable(self) -> list[Machine]:
        now = time.monotonic()
        return [machine for machine in self._known.values() if self._shunned_s.get(machine.node_id, 0.0) < now]

    def _look_for_machines(self) -> None:
        """Finds machines that have joined or left, unless another thread looks: a machine may be slow to answer."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            alive = self._alive()
            self._known = {node_id: machine for node_id, machine in self._known.items() if node_id in alive}
            judged = self._known.keys() | self._left_out.keys()
            new = self._examine({node_id: node for node_id, node in alive.items() if node_id not in judged})
            with self._changed:
                self._sort(new, self._example)
        finally:
            self._looking.release()

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        import ray

        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        return {node["NodeID"]: node for node in nodes}

    def _examine(self, nodes: Mapping[str, Mapping[str, Any]]) -> list[Machine]:
        import ray
        from ray.exceptions import GetTimeoutError, RayError, RayTaskError

        machines = [
            Machine(node_id, node["NodeManagerAddress"], int(node["Resources"]["CPU"]), {})
            for node_id, node in nodes.items()
        ]
        calls = [_on(machine, examine, 0).remote() for machine in machines]
        self._wait_for(calls)
        if self._is_stopped.is_set():
            return []
        examined = []
        for machine, call in zip(machines, calls, strict=True):
            try:
                about = ray.get(call, timeout=0)
                examined.append(Machine(machine.node_id, machine.address, machine.cpus, about))
            except (RayTaskError, GetTimeoutError) as error:
                why = type_and_message(error.cause if isinstance(error, RayTaskError) else error)
                text = f"Machine {machine.address} got no job: it cannot be examined ({why})."
                self._left_out[machine.node_id] = text
            except RayError:  # it has left meanwhile
                continue
        return examined

    def _wait_for(self, calls: Sequence[Any]) -> None:
        """Waits until machines have described themselves, are late, or all jobs must end."""
        import ray

        deadline_s = time.monotonic() + EXAMINE_LIMIT_S
        while calls and time.monotonic() < deadline_s and not self._is_stopped.is_set():
            calls = ray.wait(calls, num_returns=len(calls), timeout=TELL_EVERY_S)[1]


class _LostError(Exception):
    """Within this module: the machine of a job is lost."""


class _StoppedError(Exception):
    """Within this module: the engine was stopped before a job had sent all."""


def make(settings: RayEngineConfig) -> Engine:
    """Makes the engine; `EngineEntry.factory`."""
    return RayEngine(settings)


def _on(machine: Machine, task: Callable[..., Any], cpus: int, **options: Any) -> Any:
    """A task for one machine."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if options:
        options["_generator_backpressure_num_objects"] = PIECES_AHEAD
    place = NodeAffinitySchedulingStrategy(machine.node_id, soft=False)
    return ray.remote(num_cpus=cpus, max_retries=0)(task).options(scheduling_strategy=place, **options)


def _cancel(stream: Any) -> None:
    """Ends a job: its run saves its state and stops."""
    import ray
    from ray.exceptions import RayError

    deadline_s = time.monotonic() + STOP_GRACE_S
    with suppress(RayError, StopIteration):
        ray.cancel(stream)
        while (left_s := deadline_s - time.monotonic()) > 0:
            if ray.wait([stream], timeout=left_s)[0]:
                ray.get(next(stream))


def _put(arrived: Path, job: TrainingJob) -> str | None:
    """Gives a run directory that has arrived its place, also if it was resumed from what is there.

    What is there is kept beside it, as `NAME-before-1`, until the arrived one is in its place: whenever the
    program dies, one of them is a run that can be resumed.

    Returns a fault if somebody else's directory has taken the place meanwhile; the run then lies beside it.
    """
    if job.resumes and job.path.exists():
        before = _free_place(job, "before")
        job.path.rename(before)
        try:
            arrived.rename(job.path)
        except OSError:
            before.rename(job.path)
            raise
        shutil.rmtree(before, ignore_errors=True)
        return None
    if os.path.lexists(job.path):
        kept = _free_place(job, "arrived")
        arrived.rename(kept)
        return f"{job.path} has appeared meanwhile, and is not overwritten; the run is in {kept}"
    arrived.rename(job.path)
    return None


def _free_place(job: TrainingJob, kind: str) -> Path:
    """The first of `NAME-KIND-1`, `NAME-KIND-2`, … beside a run that nothing has taken."""
    names = (f"{job.name}-{kind}-{number}" for number in itertools.count(1))
    return next(path for path in map(job.path.with_name, names) if not os.path.lexists(path))
