"""docs/classics.md says what the classic sets hold: each table is held against its set."""

from __future__ import annotations

import re

import pytest
import yaml

from a3c_zoo.config.sets import describe, list_sets, resolve_config
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import Registry, load_registry
from tests.wheels import ROOT

PAGE = (ROOT / "docs" / "classics.md").read_text(encoding="utf-8")
#: "Set: `env/set`, agent `name`", perhaps ", with `-o KEY=VALUE …`", then a table of four columns.
TABLE = re.compile(
    r"^Set: `(?P<env>[^/`]+)/(?P<name>[^`]+)`, agent `(?P<agent>[^`]+)`(?:, with `(?P<options>[^`]+)`)?\n\n"
    r"\| option \| there \| key \| here \|\n\| --- \| --- \| --- \| --- \|\n(?P<rows>(?:\|.*\|\n)+)",
    re.M,
)
TABLES = [match.groupdict() for match in TABLE.finditer(PAGE)]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(Selection(allowed=frozenset()))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table['env']}/{table['name']} {table['options'] or ''}")
def test_each_value_is_that_of_the_set(table: dict[str, str], registry: Registry) -> None:
    overrides = re.findall(r"-o (\S+)", table["options"] or "")
    env, agent = registry.env(table["env"]), registry.agent(table["agent"])
    config = resolve_config(registry, env, agent, hyperparams=table["name"], overrides=overrides)
    actual = {row.key: row.value for row in describe(config)}
    for line in table["rows"].splitlines():
        _, option, there, key, here, _ = (cell.strip() for cell in line.split("|"))
        assert option, line
        assert there, line
        assert actual[key.strip("`")] == yaml.safe_load(here), line


def test_every_table_was_read() -> None:
    assert len(TABLES) == PAGE.count("\nSet: ") == PAGE.count("\n| option |")


def test_every_classic_set_is_on_the_page(registry: Registry) -> None:
    classics = {f"{each.env}/{each.name}" for each in list_sets(registry) if each.name.endswith("-classic")}
    assert {"cartpole/nstep-classic"} <= classics <= {f"{table['env']}/{table['name']}" for table in TABLES}


def test_the_page_is_linked() -> None:
    assert "docs/classics.md" in (ROOT / "README.md").read_text(encoding="utf-8")
