"""What a run needs that is not there: plugins, plugin files, modules, an environment that a program gave."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from a3c_zoo.cures import install_plugin
from a3c_zoo.errors import PluginError, ZooError
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.module_files import files_of, place_of
from a3c_zoo.plugins.registry import GIVEN, Registry, imported_by

#: A plugin in a meta.json, as `str(PluginInfo)`: its name, its distribution and its version.
_TITLE = re.compile(r"plugin '([\w.-]+)' \(([A-Za-z0-9][\w.-]*) (\d[\w.+!-]*)\)", re.ASCII)


def give_again(run: Path, meta: Mapping[str, Any], registry: Registry, is_trusted: bool) -> bool:
    """Gives the registry the environment that a program gave to a run as a class or a function, if it is known.

    Args:
        meta: the run's meta.json. is_trusted: whether it may name a module to import.

    Returns:
        False if it is not known.
    """
    if str(GIVEN) not in meta.get("plugins", {}).values():
        return True
    path = meta.get("given_env", "") if is_trusted else ""
    with suppress(ZooError):  # `not_given` says what is not there
        return registry.give_for_run(run, meta["env"], path)
    return False


def not_given(name: str, meta: Mapping[str, Any], is_trusted: bool, doubt: str) -> PluginError:
    """Returns the error for a run whose environment a program gave, and is to give again.

    Arguments as in `what_is_missing`. doubt: why it is not trusted.
    """
    given_module = str(meta.get("given_env", "")).partition(":")[0].partition(".")[0]
    is_there = given_module != "" and place_of(given_module) is not None
    if is_there and not is_trusted:
        cure = (
            f"Its module '{given_module}' is not imported, because the run is not your own{doubt and f': {doubt}'}. "
            "If you trust whoever made it: --trust, or trust=True. Or give it again"
        )
    elif given_module and is_trusted and not is_there:
        cure = f"Name the folder of its module: {_with_folder_of(given_module, meta)} a3c-zoo …. Or give it again"
    else:
        cure = "Give it again"
    return PluginError(
        f"run {name} trains '{meta['env']}', which a program gave to a3c_zoo.train. {cure}, from Python: "
        "train(env, resume=…) or load_agent(…, env=env); or offer it in a plugin file: --plugin FILE"
    )


def what_is_missing(
    name: str, meta: Mapping[str, Any], registry: Registry, is_trusted: bool
) -> PluginError | None:
    """Returns the error for a run whose configuration cannot be read, if something is missing; else None.

    It says how the user names it again. Nothing is loaded, because a stranger may have written meta.json.

    Args:
        name: the run's. meta: its meta.json. is_trusted: False leaves out the folders of files.
    """
    env = meta["env"]
    loaded = {os.path.basename(info.file) for info in registry.plugins}
    files = [
        file if is_trusted else os.path.basename(file) for file in map(str, meta.get("plugin_files", []))
    ]
    if missing := [shlex.quote(file) for file in files if os.path.basename(file) not in loaded]:
        options = " ".join(f"--plugin {file}" for file in missing)
        return PluginError(f"run {name} was trained with a plugin file that is not loaded now; add {options}")
    if missing_one := _missing_plugin(meta.get("plugins", {}), registry):
        if is_trusted:
            says = ""
        else:
            says = " (so says its meta.json, and the run is not your own)"
        return PluginError(f"run {name} was made with {missing_one}{says}")
    module = imported_by(env).partition(".")[0]
    if module and is_trusted and place_of(module) is None:
        return PluginError(
            f"run {name} trains '{env}', and there is no module '{module}'. One of the current folder is found only "
            f"for a name that you type; name its folder: {_with_folder_of(module, meta)} a3c-zoo …"
        )
    return None


def no_longer_offered(
    name: str, meta: Mapping[str, Any], settings: Mapping[str, Any], registry: Registry, is_trusted: bool
) -> PluginError | None:
    """Returns the error for a run whose agent, network or optimizer its plugin has renamed; else None.

    Args:
        name: the run's. meta: its meta.json. settings: its config.yml, "section.key" → value.
        is_trusted: False leaves out which version to install.
    """
    parts: dict[str, tuple[object, Mapping[str, object]]] = {
        "agent": (meta["agent"], registry.agents),
        "network": (settings.get("network.name"), registry.networks),
        "optimizer": (settings.get("optimizer.name"), registry.optimizers),
    }
    others = [info for info in registry.plugins if not info.first_party]
    for kind, (part, offered) in parts.items():
        if not isinstance(part, str) or part in offered:
            continue
        text = str(meta.get("plugins", {}).get(kind))
        for info in others:
            if text.startswith(f"plugin '{info.name}' ({info.distribution}"):
                cure = "It must offer this name again"
                title = _TITLE.fullmatch(text)
                if is_trusted and title and title[3] != info.version:
                    cure += f", or install the version that did: {install_plugin(title[2], title[3])}"
                return PluginError(
                    f"run {name} was trained with {kind} '{part}', which {info} does not offer now. {cure}"
                )
    return None


def _with_folder_of(module: str, meta: Mapping[str, Any]) -> str:
    """What to put before a command so that Python finds a module.

    It may lie in the current folder, or where the command of the run (`meta`) named its file.
    """
    typed = [os.path.dirname(str(word).partition(":")[0]) for word in meta.get("command", ())]
    folders = [".", *filter(None, typed)]
    places = (folder for folder in folders if any(map(os.path.isfile, files_of(folder, module))))
    return f"PYTHONPATH={shlex.quote(next(places, 'FOLDER'))}"


def _missing_plugin(plugins: Mapping[str, object], registry: Registry) -> str | None:
    """Returns which plugin of a run is not there, why, and the cure; None if all are there.

    Args:
        plugins: those of a meta.json. What is no name of a distribution with a version is passed over.
    """
    for kind, text in plugins.items():
        title = _TITLE.fullmatch(str(text))
        if title is None or kind in ("hyperparams", "hooks"):  # no run needs these two again
            continue
        name, distribution, version = title.groups()
        infos = [info for info in registry.plugins if (info.name, info.distribution) == (name, distribution)]
        if not infos:
            return f"{text}, which is not installed: {install_plugin(distribution, version)}"
        if infos[0].status == "blocked":
            return f"{text}, which is blocked by {Selection.from_environ().blocked_by(infos[0])}"
        if infos[0].status == "faulty":
            return f"{text}, which is left out: {infos[0].fault}. See: a3c-zoo show plugin {name}"
    return None
