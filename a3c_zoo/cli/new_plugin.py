"""`a3c-zoo new-plugin`: a complete distribution to begin a plugin with. It needs no network."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import click

from a3c_zoo.cli.common import example
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.registry import RESERVED_PREFIXES, Registry, get_registry
from a3c_zoo.version import __version__, fitting_versions

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of plugin.

    Attributes:
        layers: folders of `templates/` that make it up, beside `common`.
        description: of the distribution. commands: to try it, after `pip install`.
        edited: the file whose lines marked EDIT make it another plugin.
    """

    layers: tuple[str, ...]
    description: str
    commands: tuple[str, ...]
    edited: str


_TRAIN = ("a3c-zoo check {name}", "a3c-zoo train {name}")
KINDS: Mapping[str, PluginKind] = {
    "env": PluginKind(
        ("environment", "env"), "A corridor with a goal, as an environment for a3c-zoo", _TRAIN, "env.py"
    ),
    "vector-env": PluginKind(
        ("environment", "vector-env"),
        "Corridors with goals, as a vector environment for a3c-zoo",
        _TRAIN,
        "env.py",
    ),
    "wrap": PluginKind(("wrap",), "{wrapped}, changed, as an environment for a3c-zoo", _TRAIN, "env.py"),
    "agent": PluginKind(
        ("agent",),
        "The agent a3c with Huber's loss for values, for a3c-zoo",
        (_TRAIN[0], "a3c-zoo train cartpole --agent {name}"),
        "agent.py",
    ),
    "network": PluginKind(
        ("network",),
        "A network with one hidden layer for policy and value, for a3c-zoo",
        (_TRAIN[0], "a3c-zoo train cartpole -o network.name={name}"),
        "network.py",
    ),
    "optimizer": PluginKind(
        ("optimizer",),
        "Gradient descent with momentum, for a3c-zoo",
        (_TRAIN[0], "a3c-zoo train cartpole -o optimizer.name={name}"),
        "optimizer.py",
    ),
    "hook": PluginKind(
        ("hook",),
        "Ends runs of a3c-zoo whose return no longer rises",
        (_TRAIN[0], "a3c-zoo train cartpole -o plugins.{name}.patience=20000"),
        "hooks.py",
    ),
    "command": PluginKind(
        ("command",),
        "A command of a3c-zoo that shows how runs ended",
        (_TRAIN[0], "a3c-zoo {name}"),
        "command.py",
    ),
}


@click.command(epilog=example("a3c-zoo new-plugin maze --env"))
@click.argument("name")
@click.option("--env", is_flag=True, help="A gymnasium.Env.  [default]")
@click.option(
    "--vector-env", is_flag=True, help="A gymnasium.vector.VectorEnv, whose environments step together."
)
@click.option(
    "--wrap", "wrapped", metavar="gym:ID", help="A registered environment, changed: other rewards, say."
)
@click.option("--agent", is_flag=True, help="An agent: a3c with another loss.")
@click.option("--network", is_flag=True, help="An actor-critic network.")
@click.option("--optimizer", is_flag=True, help="An optimizer.")
@click.option("--hook", is_flag=True, help="Run hooks, which watch a run and can end it.")
@click.option("--command", is_flag=True, help="A sub-command of a3c-zoo.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to write to; it is empty or new.  [default: a3c-zoo-NAME]",
)
def command(name: str, folder: Path | None, wrapped: str | None, **kinds: bool) -> None:
    """Write a complete distribution with a plugin that works: code, tests, README and a CI workflow.

    NAME is the name of the plugin and of what it offers. It is an environment unless another kind is named.
    """
    given = [kind.replace("_", "-") for kind, is_given in kinds.items() if is_given]
    given = given + (["wrap"] if wrapped else []) or ["env"]
    if len(given) > 1:
        raise click.UsageError(f"choose one kind of plugin, not --{' and --'.join(given)}.")
    kind = given[0]
    chosen = KINDS[kind]
    wrapped_id = _wrapped_id(wrapped) if wrapped else ""
    package = f"a3c_zoo_{name.replace('-', '_')}"
    _refuse_name(name, kind, package, get_registry())
    folder = Path(f"a3c-zoo-{name}") if folder is None else folder
    commands = [line.format(name=name) for line in chosen.commands]
    values = {
        "name": name,
        "distribution": f"a3c-zoo-{name}",
        "package": package,
        "title": "".join(part.capitalize() for part in name.split("-")),
        "description": chosen.description.format(wrapped=wrapped_id),
        "wrapped": wrapped_id,
        "commands": commands,
        "edits": f"The lines marked EDIT in `src/{package}/{chosen.edited}` are those to change first.",
        "versions": fitting_versions(__version__),
        "year": date.today().year,
    }
    files = dict(_rendered(("common", *chosen.layers), values))
    _write(folder, files)
    click.echo(f"{len(files)} files in {folder}. Next:")
    for line in (f"cd {shlex.quote(str(folder))}", "pip install -e '.[test]'", *commands, "pytest"):
        click.echo(f"  {line}")
    click.echo(f"The lines marked EDIT in src/{package}/{chosen.edited} are those to change first.")


def _wrapped_id(wrapped: str) -> str:
    """The id of `gym:ID`, which must exist. Raises ZooError if it does not."""
    if not wrapped.startswith("gym:"):
        raise ZooError(
            f"--wrap {wrapped}: it takes an environment that Gymnasium knows, such as gym:Acrobot-v1"
        )
    return get_registry().env(wrapped).name.removeprefix("gym:")


def _refuse_name(name: str, kind: str, package: str, registry: Registry) -> None:
    """Raises ZooError for a name that cannot be used, or that something has already."""
    from a3c_zoo.config.yaml import parse_value

    if not _NAME.fullmatch(name):
        raise ZooError(
            f"'{name}' is no name for a plugin: use a-z, 0-9 and single hyphens, a letter first: my-maze"
        )
    if not isinstance(parse_value(name), str):
        raise ZooError(f"'{name}' is no name for a plugin: in YAML, it is no word; choose another")
    others: dict[str, Iterable[str]] = {
        "agent": registry.agents,
        "network": registry.networks,
        "optimizer": registry.optimizers,
        "command": registry.commands,
        "hook": registry.hooks,
    }
    taken = others.get(kind, {*registry.envs, *registry.families, *RESERVED_PREFIXES})
    if name in {*taken, *(info.name for info in registry.plugins)} or find_spec(package) is not None:
        raise ZooError(f"the name '{name}' is taken; choose another")


def _rendered(layers: tuple[str, ...], values: Mapping[str, object]) -> Iterator[tuple[PurePosixPath, str]]:
    """Paths and contents of the files. `NAME`, `PACKAGE` and names without their dot are replaced in paths."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    words = {"PACKAGE": str(values["package"]), "github": ".github", "gitignore": ".gitignore"}
    for layer in layers:
        for path, template in _templates(
            resources.files("a3c_zoo.cli") / "templates" / layer, PurePosixPath()
        ):
            parts = [words.get(part, part) for part in path.parts]
            target = str(PurePosixPath(*parts)).replace("NAME", str(values["name"]))
            yield PurePosixPath(target), environment.from_string(template.read_text("utf-8")).render(values)


def _templates(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _templates(entry, path / entry.name)
        elif entry.name.endswith(".j2"):
            yield path / entry.name.removesuffix(".j2"), entry


def _write(folder: Path, files: Mapping[PurePosixPath, str]) -> None:
    """Writes all files, or none and no folder. Raises ZooError if the folder is not empty, or cannot be written."""
    made: list[Path] = []
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ZooError(f"'{folder}' is not an empty folder; name another: --dir DIR")
        for path, content in files.items():
            target = folder / path
            made += reversed([parent for parent in target.parents if not parent.exists()])
            target.parent.mkdir(parents=True, exist_ok=True)
            made.append(target)
            target.write_text(content, encoding="utf-8")
    except OSError as error:
        for made_path in reversed(made):
            with suppress(OSError):
                made_path.rmdir() if made_path.is_dir() else made_path.unlink()
        raise ZooError(
            f"cannot write to '{folder}': {error.strerror or error}; name another folder: --dir DIR"
        ) from error
