"""docs/write-an-environment.md shows the files of plugins/a3c-zoo-gridworld as they are."""

from __future__ import annotations

import re

import pytest

from tests.wheels import GRIDWORLD, ROOT

PAGE = (ROOT / "docs" / "write-an-environment.md").read_text(encoding="utf-8")
#: A fenced block of code, after a line that names its file: "`path`:", or "`path`, excerpt:".
BLOCK = re.compile(
    r"(?:`(?P<path>[^`\n]+)`(?P<excerpt>, excerpt)?:\n\n)?```(?P<language>\w+)\n(?P<code>.*?)```\n", re.S
)
BLOCKS = [match.groupdict() for match in BLOCK.finditer(PAGE) if match["language"] != "console"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block['path']}:{block['code'][:20].strip()}")
def test_each_block_is_what_its_file_holds(block: dict[str, str]) -> None:
    assert block["path"], f"no file is named before\n{block['code']}"
    content = (GRIDWORLD / block["path"]).read_text(encoding="utf-8")
    if block["excerpt"]:
        assert f"\n{block['code']}" in f"\n{content}"
    else:
        assert block["code"] == content


def test_every_file_has_its_place_on_the_page() -> None:
    source = GRIDWORLD / "src" / "a3c_zoo_gridworld"
    files = {path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    missing = [path.name for path in files if path.relative_to(source).as_posix() not in PAGE]
    assert missing == []


def test_who_follows_the_page_has_every_line_of_code() -> None:
    for path in (GRIDWORLD / "src" / "a3c_zoo_gridworld").rglob("*.py"):
        blocks = [block["code"] for block in BLOCKS if (GRIDWORLD / str(block["path"])) == path]
        lines = [line for block in blocks for line in block.splitlines() if line]
        if path.name != "__init__.py":  # these hold a docstring
            assert lines == [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def test_the_page_is_linked() -> None:
    assert "docs/write-an-environment.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "write-an-environment.md" in (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
