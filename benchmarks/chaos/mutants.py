"""Switches each safeguard of a run off in turn, and shows that chaos or a test notices it (`make mutants`).

A mutant is the package with one text replaced, in a folder of its own. What must notice it is run there: a kind of
fault of `benchmarks.chaos`, or a test. The same must find nothing in the package as it is.

Exit status: 0 if every mutant was noticed, 1 otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
#: What is copied, because a mutant changes it, or finds its own place by it. Links lead to all else.
COPIED = ("a3c_zoo", "benchmarks", "tests")
#: The longest time for one mutant, in seconds.
LIMIT_S = 900.0
#: How often a kind of fault is tried again, with another seed, if the machine is so busy that no run begins.
TRIES = 3


@dataclass(frozen=True)
class Mutant:
    """A safeguard that is switched off.

    Attributes:
        safeguard: what the run does no more. file: below `a3c_zoo`. text: stands there once; `instead` replaces it.
        kind: the kind of fault that must notice it, or "". test: the test that must, or "".
    """

    safeguard: str
    file: str
    text: str
    instead: str
    kind: str = ""
    test: str = ""


MUTANTS = (
    Mutant(
        "a dead worker is replaced",
        "processes/faults.py",
        "if not allowance.take():",
        "if True:",
        kind="kill a worker",
    ),
    Mutant(
        "a hung worker is noticed",
        "processes/child.py",
        "return self._still.look() > limit_s",
        "return False",
        kind="stop a worker",
    ),
    Mutant(
        "episodes that a dead worker did not report don't count",
        "processes/pool.py",
        "row[EPISODES] = member.episodes  # those that it had counted and did not report are lost",
        "pass",
        test="tests/test_supervision.py::test_episodes_that_the_dead_did_not_report_do_not_count",
    ),
    Mutant(
        "a run goes on after its learner's death",
        "runs/train.py",
        "if watch.stop.detail or not allowance.take():",
        "if True:",
        kind="kill the learner",
    ),
    Mutant(
        "the evaluator is replaced",
        "runs/evaluator.py",
        "if not fault.is_users and allowance.take():",
        "if False:",
        kind="kill the evaluator",
    ),
    Mutant(
        "children end with their parent",
        "system.py",
        "fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)",
        "pass",
        kind="kill it in a hang",
    ),
    Mutant(
        "what an environment has started ends with its worker",
        "processes/child.py",
        "self.process.kill()  # does nothing to one that has ended\n        self.signal(KILL)",
        "self.process.kill()",
        kind="environment: program",
    ),
    Mutant(
        "a lock that died with its holder is noticed",
        "processes/faults.py",
        "if self._lock is not None:",
        "if False:",
        test="tests/test_supervision.py::test_a_lock_that_died_with_its_holder_ends_the_session",
    ),
    Mutant(
        "another fork server starts if its socket is gone",
        "processes/start.py",
        "if address is not None and not util.is_abstract_socket_namespace(address) and not os.path.exists(address):",
        "if False:",
        kind="remove the sockets",
    ),
    Mutant(
        "the folder of a killed process is removed",
        "processes/temporary_folder.py",
        "    remove_those_of_the_dead()\n\n",
        "\n",
        test="tests/test_temporary_folder.py::test_the_folder_of_a_killed_process_is_removed_by_a_later_one",
    ),
    Mutant(
        "a checkpoint that the disk refuses is tried again",
        "runs/full_disk.py",
        "if not may_pass(fault):",
        "if True:",
        kind="fill the disk",
    ),
    Mutant(
        "rows wait while the disk is full",
        "store/rows.py",
        "if len(self._waiting) > MOST_WAITING:",
        "if True:",
        test="tests/test_recorder.py::test_rows_wait_while_the_disk_is_full",
    ),
    Mutant(
        "a torn row is cut off at a resume",
        "store/rows.py",
        "self._file = open_rows(path, resume_at)\n                self._cut_back()",
        "self._file = open_rows(path, resume_at)",
        kind="kill it in a row",
    ),
    Mutant(
        "a damaged checkpoint is passed over",
        "store/checkpoints.py",
        "        except DamagedCheckpointError as error:\n            damaged.append(error)",
        "        except DamagedCheckpointError:\n            raise",
        kind="damage a checkpoint",
    ),
    Mutant(
        "the digest of a checkpoint is checked",
        "store/checkpoint_bytes.py",
        "if digest != _digest(plain, tensors):",
        "if False:",
        kind="damage a checkpoint",
    ),
    Mutant(
        "a file of rows that was replaced is noticed",
        "store/rows.py",
        "return os.path.samestat(opened, there) and (has_rest or opened.st_size == self._size)",
        "return has_rest or opened.st_size == self._size",
        kind="replace monitor.csv",
    ),
    Mutant(
        "a file of rows that was cut short is noticed",
        "store/rows.py",
        "return os.path.samestat(opened, there) and (has_rest or opened.st_size == self._size)",
        "return os.path.samestat(opened, there)",
        kind="cut monitor.csv",
    ),
    Mutant(
        "a gradient that is not finite is not applied",
        "agents/worker.py",
        "if math.isfinite(norm):",
        "if True:",
        kind="environment: reward",
    ),
    Mutant(
        "a resume begins with the parameters of its checkpoint",
        "agents/context.py",
        "saved.copy_to(parameters, counters, statistics, rewards)",
        "saved.copy_to(parameters.clone(), counters, statistics, rewards)",
        kind="kill the parent",
    ),
)


def make_tree(folder: Path, mutant: Mutant | None = None) -> Path:
    """A copy of the project in which a mutant's text is replaced."""
    root = folder / "project"
    root.mkdir()
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, root / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not path.name.startswith("."):
            (root / path.name).symlink_to(path)
    if mutant is not None:
        file = root / "a3c_zoo" / mutant.file
        source = file.read_text()
        if source.count(mutant.text) != 1:
            raise click.ClickException(f"{mutant.file} has {source.count(mutant.text)} times {mutant.text!r}")
        file.write_text(source.replace(mutant.text, mutant.instead))
    return root


def run_in(root: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a module of a copy of the project."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    path = os.pathsep.join(str(each) for each in (root, root / "envs", root / "hyperparams"))
    variables = os.environ | {"PYTHONPATH": path, "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=root, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def hurt(root: Path, folder: Path, kinds: list[str]) -> str:
    """Tries each of some kinds of fault once; returns the first damage, "" if there is none.

    Raises:
        click.ClickException: a kind could not be tried.
    """
    options = [word for kind in kinds for word in ("--kind", kind)]
    for seed in range(1, TRIES + 1):
        words = ["--seed", str(seed), "--minutes", "15", "--trials", "1", "--faults", str(len(kinds)), "--json"]
        done = run_in(root, folder, "benchmarks.chaos", *words, *options)
        if done.returncode not in (0, 1) or not done.stdout:
            raise click.ClickException(f"chaos has failed:\n{done.stderr}")
        told = json.loads(done.stdout)["kinds"]
        damage = [line for kind in told.values() for line in kind["damage"]]
        if damage:
            return str(damage[0])
        if all(told.get(kind, {}).get("right") for kind in kinds):
            return ""
    raise click.ClickException(f"no run began, or {', '.join(kinds)} fits no trial:\n{done.stderr}")


def run_tests(root: Path, folder: Path, tests: list[str]) -> str:
    """Runs tests; returns the line of the first that fails, "" if none does.

    Raises:
        click.ClickException: they could not be run.
    """
    done = run_in(root, folder, "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    if done.returncode not in (0, 1):
        raise click.ClickException(f"pytest has failed:\n{done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return lines[0] if done.returncode else ""


def noticed(mutant: Mutant | None, kinds: list[str], tests: list[str]) -> str:
    """What notices a mutant, or the package as it is: a line, "" if nothing does."""
    with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        root = make_tree(folder, mutant)
        line = run_tests(root, folder, tests) if tests else ""
        return line or (hurt(root, folder, kinds) if kinds else "")


@click.command(context_settings={"max_content_width": 120})
@click.option("--only", multiple=True, type=click.Choice([each.safeguard for each in MUTANTS]), help="This mutant.")
def main(only: tuple[str, ...]) -> None:
    """Switches each safeguard off in turn, and shows that it is missed.

    Example: python -m benchmarks.chaos.mutants --only "a dead worker is replaced"
    """
    chosen = [mutant for mutant in MUTANTS if not only or mutant.safeguard in only]
    kinds = list(dict.fromkeys(mutant.kind for mutant in chosen if mutant.kind))
    tests = list(dict.fromkeys(mutant.test for mutant in chosen if mutant.test))
    if line := noticed(None, kinds, tests):
        raise click.ClickException(f"this is found in the package as it is: {line}")
    click.echo(f"{'safeguard that is switched off':56} {'s':>4}  noticed by")
    caught = 0
    for mutant in chosen:
        start_s = time.monotonic()
        try:
            line = noticed(mutant, [mutant.kind] if mutant.kind else [], [mutant.test] if mutant.test else [])
        except (click.ClickException, subprocess.TimeoutExpired) as error:
            click.echo(str(error), err=True)
            line = ""
        caught += bool(line)
        by = f"{mutant.kind or mutant.test.partition('::')[2]}: {line[:100]}" if line else "NOTHING"
        click.echo(f"{mutant.safeguard:56} {time.monotonic() - start_s:4.0f}  {by}")
    click.echo(f"{len(chosen)} mutants, {caught} noticed")
    sys.exit(0 if caught == len(chosen) else 1)


if __name__ == "__main__":
    main()
