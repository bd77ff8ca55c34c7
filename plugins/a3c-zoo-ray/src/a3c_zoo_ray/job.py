"""What runs on the machine of a job: one training by the engine `local`, whose directory is sent back in pieces."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from a3c_zoo import load_registry
from a3c_zoo.engines import JobProgress, TrainCommand, TrainingJob, local_engine, machine_and_versions
from a3c_zoo.errors import WorkerError

from a3c_zoo_ray.owner import owned_folder

#: The most bytes of one piece. Ray's object store holds a few of them at once.
PIECE_BYTES = 4_000_000
#: How often the generator looks for progress, in seconds.
LOOK_EVERY_S = 0.5
#: Ray sets the first of them for its own tasks. A training has the values of the driver.
SPEED_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")
OURS = "A3C_ZOO_"
PLUGIN_FILES = "A3C_ZOO_PLUGIN_FILES"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file. name: its path in the run directory. digest: of the whole file, with its last piece."""

    name: str
    data: bytes
    digest: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a job. fault: why the run has no figures, or None."""

    fault: str | None


@dataclass(frozen=True, slots=True)
class Order:
    """A job, as it travels.

    Attributes:
        runs_dir: the folder of runs, for meta.json. name, command, workers, resumes: see `TrainingJob`.
        variables: of the environment. plugin_files: path → content. hyperparams_file: its name and content.
        run: the pieces of the run directory, if it is resumed.
    """

    runs_dir: Path
    name: str
    command: TrainCommand
    workers: int
    resumes: bool
    variables: Mapping[str, str]
    plugin_files: Mapping[str, bytes] = field(default_factory=dict)
    hyperparams_file: tuple[str, bytes] | None = None
    run: tuple[Piece, ...] = ()


def order_of(job: TrainingJob) -> Order:
    """The order for a job, with this process's environment variables and plugin files. OSError: a file is gone."""
    variables = {name: value for name, value in os.environ.items() if name in SPEED_VARIABLES or name.startswith(OURS)}
    paths = [os.path.abspath(path) for path in variables.pop(PLUGIN_FILES, "").split(os.pathsep) if path]
    files = {path: Path(path).read_bytes() for path in paths}
    hyperparams = (path.name, path.read_bytes()) if (path := job.hyperparams_file) else None
    run = tuple(pieces_of(job.path)) if job.resumes else ()
    return Order(job.runs_dir, job.name, job.command, job.workers, job.resumes, variables, files, hyperparams, run)


def examine() -> dict[str, Any]:
    """Describes this machine: `host`, `versions`, and `plugins`: name → distribution and version."""
    plugins = {
        plugin.name: f"{plugin.distribution} {plugin.version}" for plugin in load_registry().plugins if not plugin.file
    }
    return machine_and_versions() | {"plugins": plugins}


def carry_out(order: Order) -> Iterator[JobProgress | Piece | End | None]:
    """Runs a job. Yields its progress, then the pieces of its directory, then its end."""
    with owned_folder("a3c-zoo-job-") as folder:
        _set_variables(order, Path(folder))
        runs = Path(folder) / "runs"
        write_pieces(order.run, runs / order.name)
        job = TrainingJob(order.command, order.workers, runs, order.name, order.resumes)
        if order.hyperparams_file is not None:
            name, content = order.hyperparams_file
            job = job.with_hyperparams_file(_written(Path(folder) / "hyperparams", name, content))
        fault = yield from _train(job)
        tell_given_paths(job, order)
        if job.path.is_dir():
            yield from pieces_of(job.path)
        yield End(fault)


def tell_given_paths(job: TrainingJob, order: Order) -> None:
    """Puts the paths of the machine of the command into meta.json: those of this machine go away."""
    meta = job.path / "meta.json"
    if meta.exists() and not order.resumes:
        given = replace(job, command=order.command).arguments(order.runs_dir)
        words = dict(zip(job.arguments(job.runs_dir), given, strict=True))
        files = {Path(path).name: path for path in order.plugin_files}
        told = json.loads(meta.read_text(encoding="utf-8"))
        told["command"] = [words.get(word, word) for word in told["command"]]
        told["plugin_files"] = [files.get(Path(file).name, file) for file in told["plugin_files"]]
        meta.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _train(job: TrainingJob) -> Generator[JobProgress | None, None, str | None]:
    engine, told = local_engine(), queue.SimpleQueue[JobProgress | None]()
    results: list[str | None] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(engine.train(job, told.put))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="a3c-zoo job")
    thread.start()
    try:
        while thread.is_alive():
            with suppress(queue.Empty):
                yield told.get(timeout=LOOK_EVERY_S)
    finally:  # the driver has cancelled the job: the run saves its state and stops
        if thread.is_alive():
            engine.stop()
        thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _set_variables(order: Order, folder: Path) -> None:
    for name in [name for name in os.environ if name in SPEED_VARIABLES or name.startswith(OURS)]:
        del os.environ[name]
    os.environ.update(order.variables)
    paths = [_written(folder / "plugins", name, content) for name, content in order.plugin_files.items()]
    if paths:
        os.environ[PLUGIN_FILES] = os.pathsep.join(map(str, paths))


def _written(folder: Path, name: str, content: bytes) -> Path:
    """The path of a file that has travelled, now in this folder."""
    folder.mkdir(exist_ok=True)
    path = folder / PurePosixPath(name).name
    path.write_bytes(content)
    return path


def pieces_of(folder: Path) -> Iterator[Piece]:
    """Yields all files below a folder, in pieces."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        name, digest = path.relative_to(folder).as_posix(), hashlib.blake2b(digest_size=16)
        with path.open("rb") as file:
            data = file.read(PIECE_BYTES)
            while following := file.read(PIECE_BYTES):
                digest.update(data)
                yield Piece(name, data)
                data = following
        digest.update(data)
        yield Piece(name, data, digest.hexdigest())


def write_pieces(pieces: tuple[Piece, ...], folder: Path) -> None:
    """Writes the pieces of a directory."""
    write = PieceWriter(folder)
    for piece in pieces:
        write(piece)


class PieceWriter:
    """Writes pieces as they come. folder: made with the first one.

    Raises:
        WorkerError: a file has another digest than it was sent with, or a name that leads out of the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._digest = folder, hashlib.blake2b(digest_size=16)

    def __call__(self, piece: Piece) -> None:
        name = PurePosixPath(piece.name)
        if name.is_absolute() or ".." in name.parts:
            raise WorkerError(f"a machine has sent a file called {piece.name!r}, which lies in no run directory")
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(piece.data)
        self._digest.update(piece.data)
        if piece.digest:
            if piece.digest != self._digest.hexdigest():
                raise WorkerError(f"{piece.name} has arrived damaged")
            self._digest = hashlib.blake2b(digest_size=16)
