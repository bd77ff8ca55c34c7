"""What each dependency costs: `.venv/bin/python benchmarks/dependencies.py` in an installation without extras.

Prints the table of docs/installation.md. A row counts what comes with a dependency and with no other one, but for those
that need this dependency themselves. Seconds are CPU time of an import in a new process, the least of five.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Distributions → the module to import, where its name is another one or where a part of it is used.
MODULES: Final = {
    "ale-py": "ale_py",
    "matplotlib": "matplotlib.figure",
    "opencv-python-headless": "cv2",
    "pillow": "PIL.Image",
    "pyyaml": "yaml",
    "rich": "rich.progress",
    "scipy": "scipy.special",
    "stable-baselines3": "stable_baselines3",
    "tensorboard": "tensorboard.compat.proto.event_pb2",
}
#: Rows below this size are left out.
SHOWN_MB: Final = 1.0


def needed_by(name: str) -> set[str]:
    """A distribution, and all that it needs, at once or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = canonicalize_name(waiting.pop())
        if each not in found:
            found.add(each)
            waiting += direct(each)
    return found


def direct(name: str) -> list[str]:
    """What a distribution needs at once, without its extras."""
    requirements = map(Requirement, metadata.requires(name) or ())
    return [
        canonicalize_name(each.name)
        for each in requirements
        if each.marker is None or each.marker.evaluate({"extra": ""})
    ]


def size_mb(name: str) -> float:
    """The size of a distribution's files, compiled bytecode included."""
    files = metadata.distribution(name).files or ()
    paths = [path for path in (file.locate() for file in files) if os.path.exists(path)]
    return sum(os.path.getsize(path) for path in paths) / 1e6


def import_s(module: str) -> float:
    """CPU seconds of an import in a new process, less those of Python's own start."""
    return _cpu_s(f"import {module}") - _cpu_s("pass")


def _cpu_s(code: str) -> float:
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def main() -> None:
    """Prints the table, the largest first, and the sum."""
    help_form = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=help_form).parse_args()
    dependencies = direct("a3c-zoo")
    closures = {name: needed_by(name) for name in dependencies}
    rows = []
    for name, closure in closures.items():
        others = [closures[each] for each in dependencies if name not in closures[each]]
        alone = {name} | closure.difference(*others) - set(dependencies)
        rows.append((sum(map(size_mb, alone)), name, sorted(alone - {name}, key=size_mb, reverse=True)))
    print("| dependency | MB | s | with |\n| --- | --- | --- | --- |")
    for size, name, others in sorted(rows, reverse=True):
        if size >= SHOWN_MB:
            seconds = import_s(MODULES.get(name, name.replace("-", "_")))
            print(f"| {name} | {size:,.0f} | {seconds:.2f} | {', '.join(others[:4])} |")
    everything = needed_by("a3c-zoo")
    print(f"\n{len(everything)} packages, {sum(map(size_mb, everything)):,.0f} MB")


if __name__ == "__main__":
    main()
