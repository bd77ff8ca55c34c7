"""Digests of sources. Two runs are the same only if the same code made them, whatever its version says."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.util import find_spec
from typing import Final

from a3c_zoo.plugins.entries import Entry, EnvEntry
from a3c_zoo.plugins.loading import HOOKS, PluginInfo
from a3c_zoo.plugins.offers import OFFERED_BY
from a3c_zoo.plugins.registry import Registry, imported_by

#: The endings of the files that count: what Python imports, and hyperparameter sets.
SUFFIXES: Final = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES, ".yml", ".yaml")
#: Packages whose versions are in meta.json (`describe_host`). No digest is made of them.
VERSIONED: Final = frozenset({"torch", "numpy", "gymnasium", "ale_py", "stable_baselines3"})
#: The hooks that are called during a run.
RUN_HOOKS: Final = frozenset(HOOKS) - OFFERED_BY.keys()


class SourceDigests:
    """Digests of the packages that take part in runs. Each package is read once."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def of(self, registry: Registry, entries: Iterable[Entry], named: Iterable[str] = ()) -> dict[str, str]:
        """Package → digest, by name: a3c-zoo, packages that are named, and all packages of the entries' plugins.

        A plugin with run hooks takes part in every run. The first-party hyperparameter sets take part in
        none: their values are in the configuration.

        Args:
            entries: the run's environment, agent, network and optimizer. named: more import strings.
        """
        packages = {"a3c_zoo", *map(_package_of, named)}
        plugins = {*with_run_hooks(registry)}
        for entry in entries:
            packages |= _packages_named_by(entry)
            plugins.add(registry.owner(entry))
        for plugin in plugins:
            packages |= _packages_of(plugin)
        for package in packages - VERSIONED - self._digests.keys():
            self._digests[package] = digest_of(package)
        return {package: self._digests[package] for package in sorted(packages - VERSIONED)}


def with_run_hooks(registry: Registry) -> list[PluginInfo]:
    """The plugins that take part in every run: their hooks are called in it."""
    return [
        plugin for plugin in registry.plugins if plugin.status == "loaded" and RUN_HOOKS & {*plugin.hooks}
    ]


def _packages_named_by(entry: Entry) -> set[str]:
    """The top-level packages of an entry's import strings, and of the module in a Gymnasium id."""
    named = [
        getattr(entry, field.name)
        for field in dataclasses.fields(entry)
        if field.name == "env_id" or str(field.type).startswith("ImportString")
    ]
    if isinstance(entry, EnvEntry):
        named.append(f"{imported_by(entry.name)}:")
    return {package for text in named if text and ":" in text and (package := _package_of(text))}


def _package_of(text: str) -> str:
    return text.partition(":")[0].partition(".")[0]


def _packages_of(plugin: PluginInfo) -> set[str]:
    """The top-level package of a plugin's module, and the other packages of a third party's distribution."""
    packages = {_package_of(plugin.module)}
    if plugin.first_party:
        return packages
    try:
        distribution = metadata.distribution(plugin.distribution)
    except (metadata.PackageNotFoundError, ValueError):  # ValueError: it has no name
        return packages
    names = (distribution.read_text("top_level.txt") or "").split()
    files = [] if names else distribution.files or []
    names += [file.parts[0].removesuffix(".py") for file in files if file.suffix == ".py"]
    return packages | {name for name in names if name.isidentifier()}


def digest_of(package: str) -> str:
    """A digest of a top-level package or module: the names and contents of its files. "" if it is not installed."""
    try:
        spec = find_spec(package)  # imports nothing
    except ValueError:
        spec = None
    if spec is None:
        return ""
    digest = hashlib.blake2b(digest_size=8)
    for name, path in _files(spec.submodule_search_locations, spec.origin):
        try:
            with open(path, "rb", buffering=0) as file:
                content = file.read()
        except OSError:  # a dangling link, or a file that an editor replaces now
            content = b"unreadable"
        digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()


def _files(folders: Iterable[str] | None, origin: str | None) -> Iterator[tuple[str, str]]:
    """Name and path of a package's files, sorted in each of its folders; or of a module's own file."""
    if folders is None:
        if origin is not None and os.path.isfile(origin):
            yield os.path.basename(origin), origin
        return
    for root in folders:
        yield from sorted(
            (os.path.join(folder, name)[len(root) :], os.path.join(folder, name))
            for folder, _, names in os.walk(root)
            for name in names
            if name.endswith(SUFFIXES) and not name.startswith(".")  # editors' own files
        )
