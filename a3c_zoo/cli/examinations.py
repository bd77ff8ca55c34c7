"""What `a3c-zoo doctor` examines: the machine, the packages, the plugins, and a short training.

Each examination imports what it needs when it runs. So the first findings come at once, and a broken package is a
finding.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Final, Literal

from a3c_zoo import hardware
from a3c_zoo.cures import DISTRIBUTION, install_extra, install_needed, reinstall, requirements, uninstall
from a3c_zoo.errors import PluginError, did_you_mean, first_line
from a3c_zoo.hardware import giga
from a3c_zoo.plugins.loading import SLOW_IMPORT_S, Selection
from a3c_zoo.plugins.registry import get_registry, load_registry
from a3c_zoo.system import largest_file, most_open_files
from a3c_zoo.version import __version__

#: What users can install in addition; docs/installation.md says what each extra is for.
EXTRAS: Final = ("play", "sb3-contrib", "box2d", "mujoco", "onnx", "hub", "ray", "tune", "trained")
#: The end of the fault of a package that is missing.
NOT_INSTALLED: Final = "is not installed"
#: Free bytes: below the first number small runs fail, below the second one large runs may.
MEMORY: Final = (300_000_000, 1_000_000_000)
SHARED_MEMORY: Final = (16_000_000, 128_000_000)
DISK: Final = (20_000_000, 1_000_000_000)
#: Where PyTorch has its builds for the CPU.
CPU_INDEX: Final = "https://download.pytorch.org/whl/cpu"
#: The end of an ImportError where a library of the system is missing.
_MISSING_LIBRARY: Final = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file: No such file")
#: How long other programs are watched, in seconds.
WATCH_S = 0.25
#: The length of the training, and how long one of its workers may do nothing, in seconds.
TRAINING_S, TIMEOUT_S = 0.5, 20.0
#: Fewer steps/s of CartPole with two workers are a warning. Two free cores of 2020 make more than 20,000.
SLOW = 2000
#: System and machine → what is known of a3c-zoo there, and what to do if it does not suffice.
SYSTEMS: Final = {
    "Linux x86_64": ("all tests run here", ""),
    "Linux aarch64": ("tests ran here once, under emulation; box2d must be compiled", ""),
    "Darwin arm64": (
        "workers start later than on Linux, and the CPU time of a run is unknown; the tests do not run here",
        "for what fails here, use Linux, also in a virtual machine",
    ),
    "Windows AMD64": (
        "train --serial, evaluate and plot are expected to work; workers, Ctrl-Z and locks are untested",
        "use Linux in WSL",
    ),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What an examination has found.

    Attributes:
        subject: what was examined. text: what was found.
        cure: what the user can do; empty if the status is "ok".
    """

    subject: str
    status: Literal["ok", "warning", "problem"]
    text: str
    cure: str = ""


def _judged(subject: str, text: str, amount: float, limits: tuple[float, float], cure: str) -> Diagnosis:
    """An amount: below the first limit it is a problem, below the second a warning."""
    if amount >= limits[1]:
        return Diagnosis(subject, "ok", text)
    return Diagnosis(subject, "problem" if amount < limits[0] else "warning", text, cure)


def python() -> Iterator[Diagnosis]:
    """The versions of a3c-zoo and of Python, and the system."""
    from packaging.specifiers import SpecifierSet

    yield Diagnosis("a3c-zoo", "ok", f"{__version__}, in {Path(__file__).parents[1]}")
    version = platform.python_version()
    needed = metadata.metadata(DISTRIBUTION)["Requires-Python"]
    is_fit = SpecifierSet(needed).contains(version, prereleases=True)
    cure = f"install a3c-zoo with a Python {needed}"
    yield _judged("Python", f"{version}, {sys.executable}", is_fit, (1, 1), cure)
    yield _system(f"{platform.system()} {platform.machine()}")


def _system(name: str) -> Diagnosis:
    """What is known of a system and its machine."""
    known = SYSTEMS.get(name)
    if known is None:
        tried = ", ".join(SYSTEMS)
        return Diagnosis("system", "warning", f"{name}: nobody has tried a3c-zoo here", f"use one of {tried}")
    text, cure = known
    if cure:
        return Diagnosis("system", "warning", f"{name}: {text}", cure)
    return Diagnosis("system", "ok", f"{name}: {text}")


def machine() -> Iterator[Diagnosis]:
    """Processor, free cores and memory."""
    names = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}
    flags = "; ".join(
        f"{name}: {'yes' if flag in hardware.cpu_flags() else 'no'}" for flag, name in names.items()
    )
    if hardware.has_fast_bfloat16():
        numbers = "bfloat16"
    else:
        numbers = "float32"
    yield Diagnosis(
        "processor", "ok", f"{hardware.cpu_model()}; {flags}; image networks compute in {numbers}"
    )
    usable = hardware.available_cores()
    free = hardware.free_cores(WATCH_S)
    text = f"{usable} of {os.cpu_count()} may be used; {free:.1f} are free now"
    yield _judged("cores", text, free, (0, usable / 2), "end other programs, or wait for them")
    memory = hardware.available_memory()
    text = f"{giga(memory)} are free"
    cure = "end other programs; in a container: docker run --memory"
    yield _judged("memory", text, memory, MEMORY, cure)
    if sys.platform == "linux":
        shared = shutil.disk_usage("/dev/shm")
        text = f"{giga(shared.free)} of {giga(shared.total)} are free"
        cure = "in a container: docker run --shm-size=1g"
        yield _judged("/dev/shm", text, shared.free, SHARED_MEMORY, cure)


def limits() -> Iterator[Diagnosis]:
    """The number and the size of files that a process may have."""
    size = largest_file()
    files = most_open_files()
    workers = hardware.workers_for_files(files, hardware.FILES)
    if files < sys.maxsize:
        text = f"{files:,}, for {workers:,} workers at most"
    else:
        text = "no limit"
    yield _judged("open files", text, workers, (2, hardware.available_cores()), "ulimit -n 4096")
    if size < sys.maxsize:
        text = f"at most {size:,} bytes: checkpoints and shared memory may not fit"
        yield Diagnosis("file size", "problem", text, "ulimit -f unlimited")


def folders() -> Iterator[Diagnosis]:
    """Where runs and temporary files lie."""
    runs = Path("runs") if os.path.lexists("runs") else Path()
    yield _folder("runs", runs, "work in another folder, or name one: --runs-dir DIR")
    yield _folder("temporary", Path(tempfile.gettempdir()), "name another folder: TMPDIR=DIR")


def _folder(subject: str, folder: Path, cure: str) -> Diagnosis:
    """Whether a folder takes a file of 1 MiB, and how much is free."""
    path = folder.resolve()
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(1 << 20))
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Diagnosis(subject, "problem", f"{path} cannot be written: {error.strerror}", cure)
    return _judged(
        subject, f"{path} can be written, {giga(free)} are free", free, DISK, f"free space, or {cure}"
    )


def start_method() -> Iterator[Diagnosis]:
    """Starts the fork server, which imports torch beside the other examinations."""
    from a3c_zoo.processes.start import process_context, warm_up

    warm_up()
    yield Diagnosis("start method", "ok", str(process_context().get_start_method()))


def plugins() -> Iterator[Diagnosis]:
    """What is loaded, blocked or faulty."""
    try:
        registry = get_registry()
    except PluginError as error:
        yield Diagnosis(
            "plugins", "problem", str(error), "correct it, or leave it out: A3C_ZOO_PLUGIN_FILES, --plugin"
        )
        return
    names = [
        plugin.name if plugin.status == "loaded" else f"{plugin.name} ({plugin.status})"
        for plugin in registry.plugins
    ]
    yield Diagnosis("plugins", "ok", ", ".join(names))
    for info in registry.plugins:
        if info.import_s >= SLOW_IMPORT_S:
            text = f"{info} takes {info.import_s:.1f} s to import, before every command"
            cure = (
                f"import slow modules inside functions; to do without it: A3C_ZOO_DISABLE_PLUGINS={info.name}"
            )
            yield Diagnosis("plugins", "warning", text, cure)
    for info in registry.faults:
        cure = f"a3c-zoo show plugin {info.name}; to do without it: A3C_ZOO_DISABLE_PLUGINS={info.name}"
        if [plugin.name for plugin in registry.plugins].count(info.name) > 1:
            cure = f"rename one, or do without this one: {uninstall(info.distribution)}"
        yield Diagnosis("plugins", "problem", f"{info}: {info.fault}", cure)
    for name in Selection.from_environ().unknown(registry.plugins):
        text = f"no plugin is called '{name}'.{did_you_mean(name, [info.name for info in registry.plugins])}"
        yield Diagnosis("plugins", "warning", text, f"install it, or leave '{name}' out of A3C_ZOO_PLUGINS")


def packages() -> Iterator[Diagnosis]:
    """The packages that a3c-zoo needs, and its extras."""
    if faults := _faults():
        yield Diagnosis("packages", "problem", "; ".join(faults.values()), install_needed(*faults))
    else:
        yield Diagnosis("packages", "ok", "all that a3c-zoo needs, in versions that fit")
    yield _extras()


def _extras() -> Diagnosis:
    """Which extras are installed. Nobody needs all of them: a missing one is no fault, one that does not fit is."""
    missing = []
    unfit = {}
    for extra in EXTRAS:
        faults = _faults(extra)
        if any(fault.endswith(NOT_INSTALLED) for fault in faults.values()):
            missing.append(extra)
        elif faults:
            unfit[extra] = "; ".join(faults.values())
    there = [extra for extra in EXTRAS if extra not in missing and extra not in unfit]
    text = f"installed: {', '.join(there) or 'none'}"
    if missing:
        text += f"; not installed: {', '.join(missing)}"
    if unfit:
        faults_told = "; ".join(f"{extra}: {fault}" for extra, fault in unfit.items())
        cure = " && ".join(install_extra(extra) for extra in unfit)
        return Diagnosis("extras", "warning", f"{text}; not usable: {faults_told}", cure)
    if missing:
        text += f" (to install one: {install_extra(missing[0])})"
    return Diagnosis("extras", "ok", text)


def _faults(extra: str = "") -> dict[str, str]:
    """Packages that a3c-zoo or an extra needs and cannot use, and why: they are missing, or of another version."""
    faults = {}
    for requirement in requirements(extra):
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            faults[requirement.name] = f"{requirement.name} {NOT_INSTALLED}"
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            faults[requirement.name] = f"{requirement.name} is {version}, needed: {requirement.specifier}"
    return faults


def torch() -> Iterator[Diagnosis]:
    """Its threads, and the GPU."""
    import torch

    threads = torch.get_num_threads()
    usable = hardware.available_cores()
    text = f"{torch.__version__}, {threads} threads in the main process"
    cure = f"OMP_NUM_THREADS={usable} a3c-zoo …"
    yield _judged("torch", text, usable - threads, (-sys.maxsize, 0), cure)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        devices = [torch.cuda.get_device_name(device) for device in range(torch.cuda.device_count())]
    if caught:
        yield Diagnosis(
            "CUDA",
            "warning",
            " ".join(str(caught[0].message).split()),
            "update its driver, or do without: --device cpu",
        )
    elif devices:
        yield Diagnosis("CUDA", "ok", ", ".join(devices))
    else:
        yield _without_cuda(str(torch.__file__), torch.version.cuda)


def _without_cuda(place: str, cuda: str | None) -> Diagnosis:
    """What to say where no device is: CUDA's libraries are several GB for nothing, which a full disk may need.

    place: a file of torch. cuda: the version that torch was built for, None for the CPU build.
    """
    text = "no device; networks are trained on the CPU"
    if cuda is None:
        return Diagnosis("CUDA", "ok", text)
    free = shutil.disk_usage(place).free
    text = f"{text}, but torch brings CUDA {cuda}: several GB; {giga(free)} are free on its disk"
    if free >= DISK[1]:
        return Diagnosis("CUDA", "ok", text)
    names = {package.metadata["Name"] for package in metadata.distributions()}
    of_cuda = sorted(name for name in names if name and name.startswith("nvidia-"))
    cure = f"{uninstall('torch', *of_cuda)} && {install_needed('torch')} --index-url {CPU_INDEX}"
    return Diagnosis("CUDA", "warning", text, cure)


def gymnasium() -> Iterator[Diagnosis]:
    """Its environments."""
    import gymnasium

    yield Diagnosis("gymnasium", "ok", f"{gymnasium.__version__}, {len(gymnasium.registry)} environments")


def ale_py() -> Iterator[Diagnosis]:
    """The ROMs of Atari games."""
    import ale_py
    from ale_py import roms

    paths = {name: roms.get_rom_path(name) for name in roms.get_all_rom_ids()}
    missing = [name for name, path in paths.items() if path is None or not path.exists()]
    text = f"{ale_py.__version__}, {len(paths) - len(missing)} Atari games"
    if missing or not paths:
        yield Diagnosis(
            "ale-py",
            "problem",
            f"{text}; {len(missing)} have no ROM",
            reinstall("ale-py", "--no-deps"),
        )
    else:
        yield Diagnosis("ale-py", "ok", text)


def stable_baselines3() -> Iterator[Diagnosis]:
    """The library of the baselines."""
    import stable_baselines3

    yield Diagnosis("SB3", "ok", f"stable-baselines3 {stable_baselines3.__version__}")


def training() -> Iterator[Diagnosis]:
    """Trains CartPole in a temporary folder, without third-party plugins."""
    from a3c_zoo.config.sets import resolve_config
    from a3c_zoo.runs.setup import RunSetup, SilentObserver
    from a3c_zoo.runs.train import train_new

    registry = load_registry(Selection(allowed=frozenset()))
    none = dict.fromkeys(("worker_restarts", "restarts", "disk_patience_s"), 0)
    keys = {"time_limit_s": TRAINING_S, "worker_timeout_s": TIMEOUT_S, **none}
    flags = {f"run.{key}": (value, "a3c-zoo doctor") for key, value in keys.items()}
    config = resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), flags=flags)
    with tempfile.TemporaryDirectory(prefix="a3c-zoo-doctor-") as folder:
        began_s = time.monotonic()
        outcome = train_new(RunSetup.of(registry, config, serial=False), Path(folder), None, SilentObserver())
    if outcome.reason == "interrupted":
        raise KeyboardInterrupt
    speed = outcome.steps_per_s
    rest_s = time.monotonic() - began_s - outcome.training_s
    text = f"CartPole: {speed:,.0f} steps/s with {config.run.workers} workers; {rest_s:.1f} s to start and to end"
    yield _judged("training", text, speed, (0, SLOW), "end other programs; see the line about cores")


LIBRARIES: Final = (torch, gymnasium, ale_py, stable_baselines3)
#: What their lines call them, where it is not the name of the module.
SUBJECTS: Final = {"ale_py": "ale-py", "stable_baselines3": "SB3"}
#: In the order in which they run: the quick ones first.
EXAMINATIONS: Final = (
    python,
    machine,
    limits,
    folders,
    start_method,
    plugins,
    packages,
    *LIBRARIES,
    training,
)


def examine(raised: Callable[[BaseException], None]) -> Iterator[Diagnosis]:
    """Yields what the examinations find. One that raises is a problem.

    Args:
        raised: is told of its exception.
    """
    for look in EXAMINATIONS:
        diagnoses = []
        try:
            # What a library prints would damage the output of `--json`.
            with (
                contextlib.redirect_stdout(sys.stderr),
                _whole() if look in LIBRARIES else contextlib.nullcontext(),
            ):
                for diagnosis in look():
                    diagnoses.append(diagnosis)
        except (Exception, SystemExit) as error:
            raised(error)
            name = look.__name__
            subject = name.replace("_", " ")
            cure = "a3c-zoo doctor --debug shows the traceback"
            if look in LIBRARIES:
                subject = SUBJECTS.get(name, name)
                cure = reinstall(name.replace("_", "-"))
            text = first_line(error)
            if library := _MISSING_LIBRARY.search(str(error)):
                text = f"the system has no {library[1]}, which its compiled part needs"
                cure = "install the system's package of it, such as libstdc++6 for libstdc++.so.6 on Debian"
            diagnoses.append(Diagnosis(subject, "problem", text, cure))
        yield from diagnoses


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Ctrl-C takes effect after the body, a second one at once. An import that it interrupts may drop it, or crash."""
    came: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            signal.signal(signal.SIGINT, before)
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
