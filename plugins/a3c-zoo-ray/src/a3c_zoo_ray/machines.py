"""The machines of a cluster: what is known of each, which are as this one, and which has room for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Machine:
    """One Ray node. node_id: Ray's. address: its IP address. cpus: that Ray may use. about: what `examine` returns."""

    node_id: str
    address: str
    cpus: int
    about: Mapping[str, Any]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What seconds depend on: machines of one kind are equal."""
        host = self.about["host"]
        return host["cpu"], host["machine"], host["cores"]

    def __str__(self) -> str:
        host = self.about["host"]
        return f"{host['cpu']}, cores: {host['cores']}"

    def room_for(self, workers: int) -> int:
        """How many CPUs a run takes: one for each worker and one for what supervises them, or all if there are less."""
        return min(workers + 1, self.cpus)

    @property
    def slots(self) -> int:
        """How many runs of one worker it has room for."""
        return self.cpus // self.room_for(1)


def free_machine(machines: Sequence[Machine], used: Mapping[str, int], workers: int) -> Machine | None:
    """The machine with the most free CPUs, of those that have room for a run now; None if there is none.

    A machine with fewer CPUs than workers gets a run only if none has more. used: node → CPUs that runs have taken.
    """

    def left(machine: Machine) -> int:
        return machine.cpus - used.get(machine.node_id, 0)

    least = min(workers, max((machine.cpus for machine in machines), default=workers))
    free = [machine for machine in machines if machine.cpus >= least and left(machine) >= machine.room_for(workers)]
    return max(free, key=left, default=None)


def difference(machine: Machine, here: Mapping[str, Any]) -> str:
    """In which version a machine differs from this one, "" if in none."""
    for field in ("versions", "plugins"):
        theirs, ours = machine.about[field], here[field]
        for name in sorted({*theirs, *ours}):
            if theirs.get(name) != ours.get(name):
                there, version = theirs.get(name, "none"), ours.get(name, "none")
                return f"{name} {there}, this one {version}"
    return ""
