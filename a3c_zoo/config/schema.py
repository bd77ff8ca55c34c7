"""The JSON Schema of hyperparameter sets, made from the models of the configuration.

Editors complete and check the keys of a set with it. What depends on several keys, or on the machine, a run checks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from a3c_zoo.config.models import NAMED, PLUGINS, HookConfig, RunConfig, Section
from a3c_zoo.config.settings import COMPARE, MAX_TUNING_TEXT, SEARCH, TUNING, TUNING_COST
from a3c_zoo.errors import ZooError
from a3c_zoo.files import read_bytes, replace_file
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, load_part
from a3c_zoo.plugins.registry import Registry

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: The name of the schema beside a set that a command writes.
FILE: Final = "a3c-zoo.schema.json"
#: The first line of such a set: the YAML language server, which most editors use, reads it.
LINE: Final = f"# yaml-language-server: $schema={FILE}\n"
#: Says in a schema that nobody has written it by hand.
MADE: Final = "made by a3c-zoo show schema"
#: The most bytes of a schema that may be replaced.
_MOST_BYTES: Final = 8 << 20
_COUNT: Final = {"type": "integer", "minimum": 0}


def set_schema(registry: Registry, env: EnvEntry | None = None, agent: AgentEntry | None = None) -> Schema:
    """The schema of sets: of one environment and agent; without them, of all sets of all plugins.

    Keys that have several meanings may have a value of each of them.
    """
    defs: Schema = {}
    envs = [env] if env else _all_environments(registry)
    agents = [agent] if agent else list(registry.agents.values())
    sections: Schema = {
        "run": _merged([RunConfig], defs),
        "env": _merged([_model(entry.config) for entry in envs], defs),
        "agent": _merged([_model(entry.config) for entry in agents], defs),
    }
    named: Mapping[str, Mapping[str, Any]] = {"network": registry.networks, "optimizer": registry.optimizers}
    for section, entries in named.items():
        if any(section in entry.sections for entry in agents):
            models = {name: _model(entry.config) for name, entry in entries.items()}
            sections[section] = _by_name(section, models, defs)
    hooks = {
        name: _nullable(_merged([_model(entry.config, HookConfig)], defs))
        for name, entry in registry.hooks.items()
    }
    names: Schema = {
        "env_name": {"const": env.name} if env else {"type": "string"},
        "agent_name": {"enum": [entry.name for entry in agents]},
    }
    plugins = {"type": ["object", "null"], "properties": hooks, "additionalProperties": False}
    blocks = {TUNING: _TUNING, COMPARE: _COMPARE, SEARCH: _SEARCH}
    about = " and ".join(entry.name for entry in (env, agent) if entry)
    return {
        "$schema": DIALECT,
        "$comment": MADE,
        "title": f"hyperparameter set of a3c-zoo{about and f' for {about}'}",
        "type": "object",
        "properties": {
            **names,
            **{name: _nullable(schema) for name, schema in sections.items()},
            PLUGINS: plugins,
            **blocks,
        },
        "additionalProperties": False,
        "$defs": defs,
    }


def schema_text(schema: Schema) -> str:
    """The schema as a file has it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def put_beside(out: Path, registry: Registry, env: EnvEntry, agent: AgentEntry) -> None:
    """Writes the schema of sets of `env` and `agent` beside a set that a command has written.

    A file that no command has made stays as it is. If sets of another environment or agent lie there, too, it becomes
    the schema of all sets.
    """
    path = out.with_name(FILE)
    schema = set_schema(registry, env, agent)
    with suppress(OSError, ValueError):  # the set is what the user has asked for
        if os.path.lexists(path):
            before = json.loads(read_bytes(path, _MOST_BYTES))
            if not isinstance(before, dict) or before.get("$comment") != MADE:
                return
            if before.get("title", schema["title"]) != schema["title"]:
                schema = set_schema(registry)
        replace_file(path, schema_text(schema).encode())


def _all_environments(registry: Registry) -> list[EnvEntry]:
    """Every environment, and one of each family. Those whose plugin cannot be asked are left out."""
    found = list(registry.envs.values())
    for family in registry.families.values():
        with suppress(ZooError):
            found += [registry.env(example) for example in family.examples[:1]]
    return found


def _model(path: str, base: type[Section] = Section) -> type[Section] | None:
    """A model of the configuration; None if its plugin is broken: nobody knows its keys."""
    try:
        model: type[Section] = load_part(f"configuration model '{path}'", path)
    except ZooError:
        return None
    if isinstance(model, type) and issubclass(model, base):
        return model
    return base


def _by_name(section: str, models: Mapping[str, type[Section] | None], defs: Schema) -> Schema:
    """The schema of a section whose keys depend on its key `name`."""
    schema = _merged(list(models.values()), defs)
    default = NAMED[section].model_fields["name"].default
    schema["properties"]["name"] = {
        "enum": list(models),
        "description": NAMED[section].model_fields["name"].description,
        "default": default,
    }
    schema["allOf"] = [
        {
            "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
            "then": {"propertyNames": {"enum": list(model.model_fields)}},
        }
        for name, model in models.items()
        if model is not None
    ]
    return schema


def _merged(models: Sequence[type[Section] | None], defs: Schema) -> Schema:
    """A section with the keys of any of these models. If one is None, it may have any key."""
    meanings: dict[str, list[Schema]] = {}
    is_open = None in models
    for model in dict.fromkeys(models):
        if model is None:
            continue
        try:
            schema = model.model_json_schema(ref_template=f"#/$defs/{model.__name__}.{{model}}")
        except (PydanticUserError, PydanticUndefinedAnnotation):
            is_open = True  # a plugin has a type of its own, or one that does not exist
            continue
        defs |= {f"{model.__name__}.{name}": part for name, part in schema.get("$defs", {}).items()}
        for key, value in schema.get("properties", {}).items():
            value.pop("title", None)
            if value not in meanings.setdefault(key, []):
                meanings[key].append(value)
    properties = {key: _any_of(values) for key, values in meanings.items()}
    return {"type": "object", "properties": properties, "additionalProperties": is_open}


def _any_of(values: list[Schema]) -> Schema:
    if len(values) == 1:
        return values[0]
    texts = list(dict.fromkeys(value["description"] for value in values if "description" in value))
    return {"anyOf": values, "description": "; or ".join(texts)}


def _nullable(section: Schema) -> Schema:
    """A section may be empty."""
    return {**section, "type": ["object", "null"]}


_TUNING: Final[Schema] = {
    "description": "what finding these values cost",
    "anyOf": [
        {
            "type": "object",
            "properties": dict.fromkeys(TUNING_COST, _COUNT),
            "required": list(TUNING_COST),
            "additionalProperties": False,
        },
        {"type": "string", "minLength": 1, "maxLength": MAX_TUNING_TEXT},
    ],
}
_COMPARE: Final[Schema] = {
    "description": "agent steps of each run of a comparison",
    "type": "object",
    "properties": {"steps": {"type": "integer", "minimum": 1}},
    "required": ["steps"],
    "additionalProperties": False,
}
_RANGE: Final[Schema] = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
_SEARCH: Final[Schema] = {
    "description": "values in which a3c-zoo tune searches: SECTION.KEY: {choice, uniform or log: [...]}",
    "type": "object",
    "propertyNames": {"pattern": r"^\w+\.\w+$"},
    "additionalProperties": {
        "type": "object",
        "properties": {"choice": {"type": "array", "minItems": 1}, "uniform": _RANGE, "log": _RANGE},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    },
}
